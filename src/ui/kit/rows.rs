//! Headings, form rows, buttons, segmented controls, ticks, chips and plain text.

use crate::app::{CommandInfo, System};
use crate::ui::fonts;
use crate::ui::theme::{Theme, size};
use eframe::egui::{
    self, Align2, Color32, CornerRadius, FontId, Rect, Response, Sense, Stroke, StrokeKind, Ui,
    UiBuilder, WidgetInfo,
    accesskit::Role,
    pos2,
    text::{LayoutJob, TextFormat},
    vec2,
};

/// A piece of text with its own font and colour.
#[derive(Clone, Debug)]
pub struct Span {
    text: String,
    font: FontId,
    color: Color32,
}

impl Span {
    /// Text in a font and colour.
    pub fn new(text: impl Into<String>, font: FontId, color: Color32) -> Self {
        Self {
            text: text.into(),
            font,
            color,
        }
    }
}

fn job(spans: &[Span], wrap: f32) -> LayoutJob {
    let mut job = LayoutJob::default();
    job.wrap.max_width = wrap;
    for s in spans {
        job.append(
            &s.text,
            0.0,
            TextFormat {
                font_id: s.font.clone(),
                color: s.color,
                line_height: Some(if s.font.size > 13.0 {
                    s.font.size + 6.0
                } else {
                    16.0
                }),
                ..TextFormat::default()
            },
        );
    }
    job
}

/// A wrapped paragraph of spans at the panel's inset.
pub fn rich(ui: &mut Ui, spans: &[Span]) -> Response {
    let width = ui.available_width() - 2.0 * size::INSET;
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 0.0;
        ui.add_space(size::INSET);
        ui.add(egui::Label::new(job(spans, width)).wrap())
    })
    .inner
}

/// A secondary paragraph of 12 at the panel's inset.
pub fn caption(ui: &mut Ui, text: &str) -> Response {
    let t = Theme::of(ui.ctx());
    rich(ui, &[Span::new(text, fonts::caption(), t.secondary)])
}

/// A secondary paragraph of 14: what an empty panel waits for.
pub fn hint(ui: &mut Ui, text: &str) -> Response {
    let t = Theme::of(ui.ctx());
    rich(ui, &[Span::new(text, fonts::body(), t.secondary)])
}

/// A paragraph of 14 at the panel's inset.
pub fn note(ui: &mut Ui, text: &str) -> Response {
    let t = Theme::of(ui.ctx());
    rich(ui, &[Span::new(text, fonts::body(), t.text)])
}

/// A line across the panel.
pub fn separator(ui: &mut Ui) {
    let t = Theme::of(ui.ctx());
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 1.0), Sense::hover());
    ui.painter().rect_filled(rect, 0, t.line);
}

/// A panel heading: capitals, a strong part, and a caption at the right.
pub fn heading(ui: &mut Ui, title: &str, strong: &str, right: &str) -> Rect {
    let t = Theme::of(ui.ctx());
    let (rect, response) =
        ui.allocate_exact_size(vec2(ui.available_width(), size::HEADING), Sense::hover());
    let mut job = LayoutJob::default();
    let format = |color, tracking| TextFormat {
        font_id: fonts::caption_bold(),
        color,
        extra_letter_spacing: tracking,
        ..TextFormat::default()
    };
    job.append(&title.to_uppercase(), 0.0, format(t.secondary, 0.4));
    if !strong.is_empty() {
        job.append(strong, 8.0, format(t.strong, 0.0));
    }
    let galley = ui.painter().layout_job(job);
    let y = rect.center().y - galley.size().y / 2.0;
    let left_end = rect.left() + size::INSET + galley.size().x;
    ui.painter()
        .galley(pos2(rect.left() + size::INSET, y), galley, t.text);
    if !right.is_empty() {
        let galley = ui
            .painter()
            .layout_no_wrap(right.to_owned(), fonts::caption(), t.secondary);
        let x = rect.right() - size::INSET - galley.size().x;
        if x > left_end + 8.0 {
            ui.painter().galley(
                pos2(x, rect.center().y - galley.size().y / 2.0),
                galley,
                t.secondary,
            );
        }
    }
    let spoken = format!("{title} {strong}");
    response.widget_info(|| WidgetInfo::labeled(Role::Heading, true, &spoken));
    rect
}

/// A form row: the label at the left, and the rectangle of its field.
pub fn form_row(ui: &mut Ui, label: &str, column: f32) -> Rect {
    let t = Theme::of(ui.ctx());
    let (row, _) =
        ui.allocate_exact_size(vec2(ui.available_width(), size::FORM_ROW), Sense::hover());
    ui.painter().text(
        pos2(row.left() + size::INSET, row.center().y),
        Align2::LEFT_CENTER,
        label,
        fonts::body(),
        t.secondary,
    );
    Rect::from_min_max(
        pos2(row.left() + size::INSET + column, row.center().y - 12.0),
        pos2(row.right() - size::INSET, row.center().y + 12.0),
    )
}

/// How a button looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// One of several.
    Plain,
    /// The one best next step of a panel.
    Primary,
}

fn ring(ui: &Ui, response: &Response, rect: Rect) {
    if response.has_focus() {
        let t = Theme::of(ui.ctx());
        ui.painter().rect_stroke(
            rect,
            CornerRadius::same(size::ROUND),
            Stroke::new(2.0, t.strong),
            StrokeKind::Outside,
        );
    }
}

/// A button filling `rect`; when it cannot act, `disabled` says why in its tip.
pub fn button(ui: &Ui, rect: Rect, text: &str, look: Look, disabled: Option<&str>) -> Response {
    let t = Theme::of(ui.ctx());
    let sense = if disabled.is_some() {
        Sense::hover()
    } else {
        Sense::click()
    };
    let response = ui.interact(rect, ui.scope_id().with(("button", text)), sense);
    let (fill, border, color) = if disabled.is_some() {
        (t.panel, t.line, t.disabled)
    } else if response.is_pointer_button_down_on() {
        (t.segment_on, t.hover_border, t.strong)
    } else if look == Look::Primary {
        (t.primary, t.primary_border, t.on_primary)
    } else if response.hovered() {
        (t.hover, t.hover_border, t.strong)
    } else {
        (t.raised, t.line_strong, t.text)
    };
    ui.painter().rect(
        rect,
        CornerRadius::same(size::ROUND),
        fill,
        Stroke::new(1.0, border),
        StrokeKind::Inside,
    );
    ui.painter().text(
        rect.center(),
        Align2::CENTER_CENTER,
        text,
        fonts::body(),
        color,
    );
    ring(ui, &response, rect);
    response.widget_info(|| WidgetInfo::labeled(Role::Button, disabled.is_none(), text));
    match disabled {
        Some(why) => response.on_hover_text(why),
        None => response,
    }
}

/// Words that act like a button, right-aligned at `right`.
pub fn text_button(ui: &Ui, right: egui::Pos2, text: &str) -> Response {
    let t = Theme::of(ui.ctx());
    let galley = ui
        .painter()
        .layout_no_wrap(text.to_owned(), fonts::caption(), t.text);
    let rect = Align2::RIGHT_CENTER
        .anchor_size(right, galley.size())
        .expand2(vec2(4.0, 4.0));
    let id = ui.scope_id().with(("text button", text));
    let response = ui.interact(rect, id, Sense::click());
    let color = if response.hovered() { t.strong } else { t.text };
    if response.hovered() {
        ui.painter().rect_filled(rect, 4, t.hover);
    }
    ui.painter()
        .galley_with_override_text_color(rect.min + vec2(4.0, 4.0), galley, color);
    ring(ui, &response, rect);
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, text));
    response
}

/// A segmented control filling `rect`; returns the option that was clicked.
pub fn segmented<T: PartialEq + Copy>(
    ui: &Ui,
    rect: Rect,
    name: &str,
    options: &[(T, &str)],
    current: T,
) -> Option<T> {
    let t = Theme::of(ui.ctx());
    let mut picked = None;
    let width = rect.width() / options.len().max(1) as f32;
    ui.painter().rect(
        rect,
        CornerRadius::same(size::ROUND),
        t.bg,
        Stroke::new(1.0, t.line_strong),
        StrokeKind::Inside,
    );
    for (i, &(value, text)) in options.iter().enumerate() {
        let cell = Rect::from_min_size(
            pos2(rect.left() + i as f32 * width, rect.top()),
            vec2(width, rect.height()),
        );
        let response = ui.interact(cell, ui.scope_id().with((name, i)), Sense::click());
        let on = value == current;
        let fill = if on {
            t.segment_on
        } else if response.hovered() {
            t.hover
        } else {
            Color32::TRANSPARENT
        };
        let round = if i == 0 || i + 1 == options.len() {
            3
        } else {
            0
        };
        ui.painter().rect_filled(cell.shrink(1.0), round, fill);
        if i > 0 {
            ui.painter().vline(
                cell.left().round() + 0.5,
                cell.shrink(1.0).y_range(),
                Stroke::new(1.0, t.line_strong),
            );
        }
        let color = if on { t.strong } else { t.secondary };
        let galley = ui
            .painter()
            .layout_no_wrap(text.to_owned(), fonts::body(), color);
        let galley = if galley.size().x > cell.width() - 4.0 {
            ui.painter()
                .layout_no_wrap(text.to_owned(), fonts::caption(), color)
        } else {
            galley
        };
        let at = cell.center() - galley.size() / 2.0;
        ui.painter().galley(at, galley, color);
        ring(ui, &response, cell);
        let spoken = format!("{name} {text}");
        response.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, on, &spoken));
        if response.clicked() {
            picked = Some(value);
        }
    }
    picked
}

/// A tick with its label in `rect`; true when it was clicked.
pub fn check(ui: &Ui, rect: Rect, on: bool, label: &str) -> bool {
    let t = Theme::of(ui.ctx());
    let response = ui.interact(rect, ui.scope_id().with(("check", label)), Sense::click());
    let square = Rect::from_center_size(pos2(rect.left() + 8.0, rect.center().y), vec2(16.0, 16.0));
    let (fill, border) = if on {
        (t.segment_on, t.hover_border)
    } else {
        (t.bg, t.hover_border)
    };
    ui.painter().rect(
        square,
        CornerRadius::same(3),
        if response.hovered() { t.hover } else { fill },
        Stroke::new(1.0, border),
        StrokeKind::Inside,
    );
    if on {
        let c = square.center();
        ui.painter().line(
            vec![
                c + vec2(-4.0, 0.0),
                c + vec2(-1.2, 3.0),
                c + vec2(4.0, -3.4),
            ],
            Stroke::new(1.6, t.strong),
        );
    }
    ui.painter().text(
        pos2(rect.left() + 24.0, rect.center().y),
        Align2::LEFT_CENTER,
        label,
        fonts::body(),
        if on { t.text } else { t.secondary },
    );
    ring(ui, &response, square);
    response.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, on, label));
    response.clicked()
}

/// An entry of a menu: its name, and its key at the right.
pub fn entry(info: &'static CommandInfo, width: f32, theme: &Theme) -> egui::Button<'static> {
    let keys = info.keys.first().map(|k| k.label(System::here()));
    let keys = egui::RichText::new(keys.unwrap_or_default())
        .font(fonts::caption())
        .color(theme.secondary);
    egui::Button::new(info.name)
        .right_text(keys)
        .min_size(vec2(width, 24.0))
}

/// A chip of the top bar with its right edge at `right`; returns its response.
pub fn chip(ui: &Ui, right: egui::Pos2, text: &str, color: Color32) -> Response {
    let t = Theme::of(ui.ctx());
    let galley = ui
        .painter()
        .layout_no_wrap(text.to_owned(), fonts::caption(), color);
    let w = galley.size().x + 16.0;
    let rect = Rect::from_min_size(pos2(right.x - w, right.y - 12.0), vec2(w, 24.0));
    let kind = text.split(' ').next().unwrap_or(text);
    let response = ui.interact(rect, ui.scope_id().with(("chip", kind)), Sense::click());
    let (fill, border) = if response.hovered() {
        (t.hover, t.hover_border)
    } else {
        (t.raised, t.line_strong)
    };
    ui.painter().rect(
        rect,
        CornerRadius::same(size::ROUND),
        fill,
        Stroke::new(1.0, border),
        StrokeKind::Inside,
    );
    ui.painter()
        .galley(rect.center() - galley.size() / 2.0, galley, color);
    ring(ui, &response, rect);
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, text));
    response
}

/// Accessible text painted in a rectangle, aligned as asked, cut off with an ellipsis when too long.
pub fn text_in(ui: &mut Ui, rect: Rect, align: Align2, text: &str, font: FontId, color: Color32) {
    let child = ui.new_child(
        UiBuilder::new()
            .max_rect(rect)
            .layout(egui::Layout::left_to_right(egui::Align::Center)),
    );
    let mut job = LayoutJob::single_section(text.to_owned(), TextFormat::simple(font, color));
    job.wrap = egui::text::TextWrapping::truncate_at_width(rect.width());
    let galley = child.painter().layout_job(job);
    let at = align.align_size_within_rect(galley.size(), rect);
    let response = child.interact(at, child.scope_id().with(text), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, text));
    if galley.elided {
        response.on_hover_text(text);
    }
    child.painter().galley(at.min, galley, color);
}
