//! The detection list: score slider, filter, a sortable table whose rows jump.

use crate::app::{Command, Filter, SortBy};
use crate::ui::theme::{Theme, size};
use crate::ui::{Cx, fonts, kit, paint};
use eframe::egui::{
    self, Align2, Layout, Rect, Sense, Stroke, Ui, WidgetInfo, accesskit::Role, pos2, vec2,
};
use egui_extras::{Column, TableBuilder};

/// Heading, slider, filter and table; the table takes `height`.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>, height: f32) {
    let t = Theme::of(ui.ctx());
    let all = cx
        .state
        .outcome
        .as_ref()
        .map_or(0, |o| o.detections().len());
    let shown = cx.state.derived.detections.len();
    let threshold = cx.state.document.score_threshold;
    let strong = format!("{shown} OF {all} AT \u{2265} {threshold:.2}");
    kit::heading(ui, "Detections", if all > 0 { &strong } else { "" }, "");
    if all == 0 {
        kit::caption(ui, "A run fills this list");
        return;
    }
    score(ui, cx, threshold);
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 36.0), Sense::hover());
    let rect = Rect::from_min_size(area.min + vec2(12.0, 6.0), vec2(area.width() - 24.0, 24.0));
    let options = [(Filter::All, "All"), (Filter::NearSeam, "Near a seam")];
    if let Some(f) = kit::segmented(ui, rect, "Filter", &options, cx.state.view.filter) {
        cx.send(Command::FilterDetections(f));
    }
    stale(ui, cx, &t);
    table(ui, cx, height);
}

fn stale(ui: &mut Ui, cx: &mut Cx<'_>, t: &Theme) {
    let changes = cx.state.stale();
    if changes.is_empty() {
        return;
    }
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 34.0), Sense::hover());
    ui.painter()
        .rect_filled(area.shrink2(vec2(8.0, 1.0)), 4, t.raised);
    let room = area
        .with_min_x(area.left() + 16.0)
        .with_max_x(area.right() - 112.0);
    kit::text_in(
        ui,
        room,
        Align2::LEFT_CENTER,
        &format!("From an older plan: {}", changes.join(", ")),
        fonts::caption_bold(),
        t.strong,
    );
    let button = Rect::from_min_size(
        pos2(area.right() - 104.0, area.top() + 4.0),
        vec2(92.0, 26.0),
    );
    let why = cx.state.why_not_run();
    if kit::button(ui, button, "Run again", kit::Look::Primary, why.as_deref()).clicked() {
        cx.send(Command::Run);
    }
}

fn score(ui: &mut Ui, cx: &mut Cx<'_>, threshold: f32) {
    let t = Theme::of(ui.ctx());
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 32.0), Sense::hover());
    ui.painter().text(
        pos2(area.left() + 12.0, area.center().y),
        Align2::LEFT_CENTER,
        "Score",
        fonts::body(),
        t.secondary,
    );
    let track = Rect::from_min_max(
        pos2(area.left() + 56.0, area.top() + 8.0),
        pos2(area.right() - 84.0, area.bottom() - 4.0),
    );
    if let Some(outcome) = &cx.state.outcome {
        for d in outcome.detections() {
            let x = egui::lerp(
                track.left() + 7.0..=track.right() - 7.0,
                d.score.clamp(0.0, 1.0),
            );
            let on = d.score >= threshold;
            ui.painter().vline(
                x,
                track.top() - 6.0..=track.top(),
                Stroke::new(1.0, if on { t.text } else { t.disabled }),
            );
        }
    }
    if let Some(v) = kit::slider(
        ui,
        track,
        "Score threshold",
        f64::from(threshold),
        0.0..=1.0,
        0.01,
    ) {
        cx.send(Command::SetScoreThreshold(paint::f(v)));
    }
    let field = Rect::from_min_size(
        pos2(area.right() - 68.0, area.top() + 4.0),
        vec2(56.0, 24.0),
    );
    let text = format!("{threshold:.2}");
    if let Some(typed) = kit::edit(
        ui,
        field,
        "Score threshold value",
        &text,
        egui::Align::Max,
        false,
    ) && let Ok(v) = typed.parse::<f32>()
        && (0.0..=1.0).contains(&v)
    {
        cx.send(Command::SetScoreThreshold(v));
    }
}

const COLUMNS: [(&str, SortBy, f32); 5] = [
    ("#", SortBy::Number, 34.0),
    ("label", SortBy::Label, 96.0),
    ("score", SortBy::Score, 64.0),
    ("size mm", SortBy::Size, 76.0),
    ("seam mm", SortBy::Seam, 84.0),
];

fn table(ui: &mut Ui, cx: &mut Cx<'_>, height: f32) {
    let t = Theme::of(ui.ctx());
    let rows: Vec<(usize, crate::detect::Detection)> =
        cx.state.detections().map(|(i, d)| (i, d.clone())).collect();
    let selected = cx.state.view.selected;
    let reveal = std::mem::take(&mut cx.local.reveal);
    let stale = !cx.state.stale().is_empty();
    let mut sent = Vec::new();
    let view = (cx.state.view.sort_by, cx.state.view.descending);
    let mut builder = TableBuilder::new(ui)
        .id_salt("detections")
        .vscroll(true)
        .auto_shrink(false)
        .min_scrolled_height(height)
        .max_scroll_height(height)
        .sense(Sense::click())
        .cell_layout(Layout::right_to_left(egui::Align::Center));
    for (_, _, width) in COLUMNS {
        builder = builder.column(Column::exact(width));
    }
    builder = builder.column(Column::remainder());
    if let (true, Some(row)) = (reveal, rows.iter().position(|(i, _)| Some(*i) == selected)) {
        builder = builder.scroll_to_row(row, None);
    }
    builder
        .header(size::ROW, |mut header| {
            for (name, by, _) in COLUMNS {
                header.col(|ui| {
                    if head(ui, name, (view.0 == by).then_some(view.1), &t) {
                        sent.push(Command::SortDetections(by));
                    }
                });
            }
        })
        .body(|body| {
            body.rows(size::ROW, rows.len(), |mut row| {
                let i = row.index();
                let (place, d) = &rows[i];
                let on = selected == Some(*place);
                row.set_selected(on);
                let longest = d.size_mm.iter().copied().fold(0.0, f64::max);
                let seam = d
                    .seam_distance
                    .map_or_else(|| "\u{2014}".to_owned(), |mm| paint::number(mm, 1));
                let cells = [
                    (i + 1).to_string(),
                    d.label.clone(),
                    format!("{:.2}", d.score),
                    paint::number(longest, 1),
                    seam.clone(),
                ];
                for (c, text) in cells.iter().enumerate() {
                    row.col(|ui| {
                        let color = match (stale, on, c) {
                            (true, ..) => t.disabled,
                            (_, true, _) => t.strong,
                            (_, _, 0) => t.secondary,
                            _ => t.text,
                        };
                        if c == 4 && d.seam_distance.is_some_and(|mm| mm <= 5.0) {
                            let at = ui.max_rect().left_center() + vec2(18.0, 0.0);
                            paint::mark(ui.painter(), at, 9.0, paint::Mark::Triangle, t.tight);
                        }
                        let at = ui.max_rect().shrink2(vec2(8.0, 0.0));
                        ui.painter().text(
                            at.right_center(),
                            Align2::RIGHT_CENTER,
                            text,
                            fonts::body(),
                            color,
                        );
                    });
                }
                row.col(|_| {});
                let response = row.response();
                response.widget_info(|| {
                    WidgetInfo::selected(
                        Role::Row,
                        true,
                        on,
                        format!(
                            "Detection {}, {}, score {:.2}, {longest:.1} mm, {seam} mm from a seam",
                            i + 1,
                            d.label,
                            d.score
                        ),
                    )
                });
                if response.clicked() {
                    sent.push(Command::SelectDetection(*place));
                }
            });
        });
    for command in sent {
        cx.send(command);
    }
}

fn head(ui: &Ui, name: &str, sorted: Option<bool>, t: &Theme) -> bool {
    let rect = ui.max_rect();
    let response = ui.interact(rect, ui.scope_id().with(("head", name)), Sense::click());
    let color = if sorted.is_some() || response.hovered() {
        t.strong
    } else {
        t.secondary
    };
    let arrow = match sorted {
        Some(true) => " \u{2193}",
        Some(false) => " \u{2191}",
        None => "",
    };
    let font = if sorted.is_some() {
        fonts::caption_bold()
    } else {
        fonts::caption()
    };
    ui.painter().text(
        rect.right_center() - vec2(8.0, 0.0),
        Align2::RIGHT_CENTER,
        format!("{name}{arrow}"),
        font,
        color,
    );
    if response.has_focus() {
        ui.painter().rect_stroke(
            rect.shrink(1.0),
            2,
            Stroke::new(1.0, t.strong),
            egui::StrokeKind::Inside,
        );
    }
    response
        .widget_info(|| WidgetInfo::labeled(Role::ColumnHeader, true, format!("Sort by {name}")));
    response.clicked()
}
