//! The left dock: series with thumbnails, layers, the active window, window level, jumps.

use crate::app::{Command, Layer, SeriesItem, WindowLevel, findings};
use crate::ui::theme::{Theme, hue, size};
use crate::ui::{Cx, fonts, kit, paint};
use eframe::egui::{
    self, Align, Align2, Color32, Rect, Sense, Shape, Stroke, StrokeKind, Ui, WidgetInfo,
    accesskit::Role, pos2, vec2,
};

/// Draws the dock.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    egui::ScrollArea::vertical()
        .auto_shrink(false)
        .show(ui, |ui| {
            series(ui, cx);
            layers(ui, cx);
            window(ui, cx);
            level(ui, cx);
            jumps(ui, cx);
        });
}

fn series(ui: &mut Ui, cx: &mut Cx<'_>) {
    let Some(study) = &cx.state.study else { return };
    kit::heading(ui, "Series", "", &study.series.len().to_string());
    let selected = study.selected().map(|s| s.reference.clone());
    let mut picked = None;
    for item in &study.series {
        let on = selected.as_ref() == Some(&item.reference);
        if row(ui, cx, item, on) {
            picked = Some(item.reference.clone());
        }
    }
    if let Some(reference) = picked {
        cx.send(Command::SelectSeries(reference));
    }
    if study.scanning {
        kit::caption(ui, "Looking through files\u{2026}");
    }
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 52.0), Sense::hover());
    let target = Rect::from_min_max(area.min + vec2(8.0, 8.0), area.max - vec2(8.0, 4.0));
    let t = Theme::of(ui.ctx());
    paint::dashed_rect(
        ui.painter(),
        target,
        Stroke::new(1.0, t.line_strong),
        3.0,
        3.0,
    );
    ui.painter().text(
        target.center(),
        Align2::CENTER_CENTER,
        "Drop a folder here",
        fonts::caption(),
        t.secondary,
    );
}

fn row(ui: &mut Ui, cx: &mut Cx<'_>, item: &SeriesItem, on: bool) -> bool {
    let t = Theme::of(ui.ctx());
    let name = name_of(cx, item);
    let long = ui
        .painter()
        .layout_no_wrap(name.clone(), fonts::body(), t.text)
        .size()
        .x
        > ui.available_width() - 88.0;
    let odd = !item.warnings.is_empty() || !item.usable;
    let lines =
        f32::from(u8::from(odd)) + f32::from(u8::from(!item.usable)) + f32::from(u8::from(long));
    let high = 66.0 + 18.0 * lines;
    let (area, response) = ui.allocate_exact_size(vec2(ui.available_width(), high), Sense::click());
    if !ui.is_rect_visible(area) {
        // A study may hold hundreds of series.
        return false;
    }
    let rect = Rect::from_min_max(area.min + vec2(8.0, 0.0), area.max - vec2(8.0, 2.0));
    let fill = if on {
        t.select
    } else if response.hovered() {
        t.hover
    } else {
        t.panel
    };
    ui.painter().rect(
        rect,
        size::ROUND,
        fill,
        Stroke::new(
            1.0,
            if on {
                t.line_strong
            } else {
                Color32::TRANSPARENT
            },
        ),
        StrokeKind::Inside,
    );
    let picture = small_picture(ui, cx, rect, item);
    let line = |i: f32| {
        Rect::from_min_size(
            pos2(picture.right() + 8.0, rect.top() + 4.0 + i * 19.0),
            vec2(rect.right() - picture.right() - 12.0, 19.0),
        )
    };
    if long {
        // A name that does not fit beside the picture stands below it, so that series can be told apart.
        let files = match item.n_files {
            0 => "generated".to_owned(),
            1 => "1 file".to_owned(),
            n => format!("{n} files"),
        };
        let files = format!("{} {files}", item.modality);
        let (left, caption) = (Align2::LEFT_CENTER, fonts::caption());
        kit::text_in(
            ui,
            line(0.0),
            left,
            files.trim(),
            caption.clone(),
            t.secondary,
        );
        let below = Rect::from_min_size(
            pos2(rect.left() + 4.0, picture.bottom() + 1.0),
            vec2(rect.width() - 8.0, 18.0),
        );
        kit::text_in(ui, below, left, &name, caption, t.text);
    } else {
        let (left, body) = (Align2::LEFT_CENTER, fonts::body());
        kit::text_in(ui, line(0.0), left, &name, body, t.text);
    }
    let e = paint::times(item.extent);
    kit::text_in(
        ui,
        line(1.0),
        Align2::LEFT_CENTER,
        &e,
        fonts::caption(),
        t.secondary,
    );
    let spacing = spacing_of(item);
    kit::text_in(
        ui,
        line(2.0),
        Align2::LEFT_CENTER,
        &spacing,
        fonts::caption(),
        t.secondary,
    );
    let words = findings::row_words(item);
    if odd {
        oddness(ui, rect, item, &words);
    }
    if response.has_focus() {
        ui.painter()
            .rect_stroke(rect, 4, Stroke::new(2.0, t.strong), StrokeKind::Inside);
    }
    response.widget_info(|| {
        WidgetInfo::selected(
            Role::ListBoxOption,
            true,
            on,
            if words.is_empty() {
                format!("Series {name}, {e}, {spacing}")
            } else {
                format!("Series {name}, {e}, {spacing}, {words}")
            },
        )
    });
    let clicked = response.clicked();
    if !item.warnings.is_empty() {
        response.on_hover_ui(|ui| {
            ui.set_max_width(420.0);
            for w in &item.warnings {
                ui.label(&w.text);
            }
        });
    }
    clicked
}

/// The series' middle slice, or black until it is decoded.
fn small_picture(ui: &Ui, cx: &mut Cx<'_>, rect: Rect, item: &SeriesItem) -> Rect {
    let picture = Rect::from_min_size(rect.min + vec2(4.0, 4.0), vec2(56.0, 56.0));
    ui.painter().rect_filled(picture, 2, Color32::BLACK);
    if let Some(texture) = thumbnail(ui, cx, item) {
        let s = texture.size_vec2();
        let fit = s * (56.0 / s.x.max(s.y).max(1.0));
        ui.painter().image(
            texture.id(),
            Rect::from_center_size(picture.center(), fit),
            Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0)),
            Color32::WHITE,
        );
    }
    picture
}

/// The patient's name while it may be shown, else what the series is called.
fn name_of(cx: &Cx<'_>, item: &SeriesItem) -> String {
    match &item.patient_name {
        Some(name) if !cx.state.identity_masked() && !name.is_empty() => name.clone(),
        _ if item.description.is_empty() => item.subject.clone(),
        _ => item.description.clone(),
    }
}

/// Pixel spacing and slice step; unknown is said, never assumed.
fn spacing_of(item: &SeriesItem) -> String {
    match item.spacing_mm {
        [Some(x), _, Some(z)] => {
            format!("{}, {} mm", paint::number(x, 3), paint::number(z, 2))
        }
        [Some(x), _, None] => format!("{}, unknown", paint::number(x, 3)),
        [None, _, Some(z)] => format!("unknown, {} mm", paint::number(z, 2)),
        [None, _, None] => "unknown, unknown".to_owned(),
    }
}

/// The last lines of an odd series' row: a mark and a few words.
fn oddness(ui: &mut Ui, rect: Rect, item: &SeriesItem, words: &str) {
    let t = Theme::of(ui.ctx());
    let (mark, color) = if item.usable {
        (paint::Mark::Triangle, t.tight)
    } else {
        (paint::Mark::Cross, t.over)
    };
    let mut y = rect.bottom() - 12.0;
    let line = |ui: &mut Ui, y: f32, text: &str| {
        let at = Rect::from_min_max(
            pos2(rect.left() + 21.0, y - 9.0),
            pos2(rect.right() - 4.0, y + 9.0),
        );
        let (align, font) = (Align2::LEFT_CENTER, fonts::caption());
        kit::text_in(ui, at, align, text, font, color);
    };
    line(ui, y, words);
    if !item.usable {
        y -= 17.0;
        line(ui, y, "must not be run");
    }
    paint::mark(ui.painter(), pos2(rect.left() + 11.0, y), 10.0, mark, color);
}

fn thumbnail<'a>(
    ui: &Ui,
    cx: &'a mut Cx<'_>,
    item: &SeriesItem,
) -> Option<&'a egui::TextureHandle> {
    let picture = item.thumbnail.as_ref()?;
    let key = format!("{}#{}", item.reference.uid, item.reference.part);
    Some(cx.local.thumbnails.entry(key.clone()).or_insert_with(|| {
        let image = egui::ColorImage::from_gray([picture.width, picture.height], &picture.grey);
        ui.ctx()
            .load_texture(key, image, egui::TextureOptions::LINEAR)
    }))
}

fn layers(ui: &mut Ui, cx: &mut Cx<'_>) {
    kit::heading(ui, "Layers", "", "");
    let t = Theme::of(ui.ctx());
    for layer in Layer::ALL {
        let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 26.0), Sense::hover());
        let rect = Rect::from_min_max(
            area.min + vec2(size::INSET, 0.0),
            area.max - vec2(size::INSET, 0.0),
        );
        let on = cx.state.view.layers.shows(layer);
        if kit::check(ui, rect, on, layer.name()) {
            cx.send(Command::ToggleLayer(layer));
        }
        if layer == Layer::ReferenceBoxes {
            let (y, right) = (rect.center().y, rect.right());
            let stroke = Stroke::new(2.0, hue::REFERENCE);
            ui.painter().hline(right - 16.0..=right, y, stroke);
        } else if layer == Layer::Boxes {
            let y = rect.center().y;
            let (a, b) = (pos2(rect.right() - 16.0, y), pos2(rect.right(), y));
            let stroke = Stroke::new(2.0, hue::TILED);
            ui.painter()
                .extend(Shape::dashed_line(&[a, b], stroke, 6.0, 4.0));
        } else if layer == Layer::Grid {
            let at = pos2(rect.right(), rect.center().y);
            ui.painter().text(
                at,
                Align2::RIGHT_CENTER,
                "38 %",
                fonts::caption(),
                t.secondary,
            );
        }
    }
    kit::caption(ui, "Space held hides overlays");
    ui.add_space(6.0);
}

fn window(ui: &mut Ui, cx: &Cx<'_>) {
    let Some(plan) = cx.state.derived.plan() else {
        return;
    };
    let t = Theme::of(ui.ctx());
    kit::heading(ui, "Window", "", "");
    let n = plan.starts.each_ref().map(Vec::len);
    let Some((i, w)) = cx
        .local
        .active_window
        .and_then(|i| Some((i, plan.windows.get(i)?)))
    else {
        kit::caption(ui, "The crosshair is in no window");
        return;
    };
    let place: [usize; 3] = std::array::from_fn(|a| {
        plan.starts[a]
            .iter()
            .position(|&s| s == w.roi.min[a])
            .unwrap_or(0)
    });
    kit::rich(
        ui,
        &[
            kit::Span::new(
                format!("{}, {}, {}", place[0], place[1], place[2]),
                fonts::body(),
                t.strong,
            ),
            kit::Span::new(
                format!("  of {}\u{d7}{}\u{d7}{}", n[0], n[1], n[2]),
                fonts::body(),
                t.secondary,
            ),
        ],
    );
    let triple = |v: [usize; 3]| format!("{}, {}, {}", v[0], v[1], v[2]);
    let overlap = plan.overlap_as_placed();
    let roi = plan.roi.to_array();
    let shared: [usize; 3] =
        std::array::from_fn(|a| crate::ui::slice_view::whole((overlap[a] * roi[a] as f64).round()));
    for (label, value) in [
        ("index", format!("{} of {}", i + 1, plan.windows.len())),
        ("start", triple(w.roi.min)),
        ("size", triple(w.roi.size().to_array())),
        ("overlap", triple(shared)),
    ] {
        fact(ui, label, &value);
    }
    ui.add_space(8.0);
}

fn fact(ui: &mut Ui, label: &str, value: &str) {
    let t = Theme::of(ui.ctx());
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 20.0), Sense::hover());
    let rect = area.shrink2(vec2(size::INSET, 0.0));
    kit::text_in(
        ui,
        rect,
        Align2::LEFT_CENTER,
        label,
        fonts::caption(),
        t.secondary,
    );
    kit::text_in(
        ui,
        rect,
        Align2::RIGHT_CENTER,
        value,
        fonts::caption(),
        t.text,
    );
}

fn level(ui: &mut Ui, cx: &mut Cx<'_>) {
    kit::heading(ui, "Window level", "", "");
    let t = Theme::of(ui.ctx());
    let now = cx.state.window_level();
    let (name, key) = super::views::preset_name(cx.state);
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 28.0), Sense::hover());
    let rect = area.shrink2(vec2(size::INSET, 2.0));
    let response = ui.interact(rect, ui.scope_id().with("preset"), Sense::click());
    let border = if response.hovered() {
        t.hover_border
    } else {
        t.line_strong
    };
    ui.painter().rect(
        rect,
        size::ROUND,
        t.bg,
        Stroke::new(1.0, border),
        StrokeKind::Inside,
    );
    ui.painter().text(
        rect.left_center() + vec2(8.0, 0.0),
        Align2::LEFT_CENTER,
        name,
        fonts::body(),
        t.text,
    );
    ui.painter().text(
        rect.right_center() - vec2(8.0, 0.0),
        Align2::RIGHT_CENTER,
        key,
        fonts::body(),
        t.secondary,
    );
    response.widget_info(|| {
        WidgetInfo::labeled(Role::ComboBox, true, format!("Window level preset: {name}"))
    });
    egui::Popup::menu(&response).show(|ui| {
        for (number, name) in super::views::PRESETS {
            let button = egui::Button::new(name).right_text(number.to_string());
            if ui.add(button.min_size(vec2(150.0, 24.0))).clicked() {
                cx.send(Command::WindowLevelPreset(number));
            }
        }
    });
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 32.0), Sense::hover());
    let rect = area.shrink2(vec2(size::INSET, 4.0));
    let half = (rect.width() - 8.0) / 2.0;
    let fields = [
        (
            "Window width",
            "W",
            now.width,
            rect.with_max_x(rect.left() + half),
        ),
        (
            "Window centre",
            "L",
            now.center,
            rect.with_min_x(rect.right() - half),
        ),
    ];
    for (i, (label, letter, value, at)) in fields.into_iter().enumerate() {
        let digits = if now.width < 10.0 { 3 } else { 0 };
        let text = paint::number(f64::from(value), digits);
        if let Some(typed) = kit::edit(ui, at, label, &text, Align::Max, false)
            && let Ok(v) = typed.replace('\u{2212}', "-").trim().parse::<f32>()
        {
            let mut to = WindowLevel {
                center: now.center,
                width: now.width,
            };
            if i == 0 {
                to.width = v.max(WindowLevel::NARROWEST);
            } else {
                to.center = v;
            }
            cx.send(Command::SetWindowLevel(to));
        }
        ui.painter().text(
            at.left_center() + vec2(8.0, 0.0),
            Align2::LEFT_CENTER,
            letter,
            fonts::body(),
            t.secondary,
        );
    }
    kit::caption(ui, "Keys 1 to 7, 0 = as stored");
    ui.add_space(6.0);
}

fn jumps(ui: &mut Ui, cx: &mut Cx<'_>) {
    kit::heading(ui, "Jump", "", "");
    let t = Theme::of(ui.ctx());
    let none = (cx.state.derived.detections.is_empty()).then_some("a run fills the list");
    for (text, key, command) in [
        ("Next detection", "N", Command::NextDetection),
        ("Previous", "Shift+N", Command::PreviousDetection),
        ("Worst seam", "J", Command::NextSeam),
    ] {
        let none = if command == Command::NextSeam {
            (cx.state.seams.rows.is_empty()).then_some("one window, so no seam")
        } else {
            none
        };
        let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 34.0), Sense::hover());
        let rect = Rect::from_min_size(
            area.min + vec2(size::INSET, 0.0),
            vec2(area.width() - 24.0, 28.0),
        );
        let response = ui.interact(rect, ui.scope_id().with(text), Sense::click());
        let on = none.is_none();
        let (fill, border) = if on && response.hovered() {
            (t.hover, t.hover_border)
        } else if on {
            (t.raised, t.line_strong)
        } else {
            (t.panel, t.line)
        };
        ui.painter().rect(
            rect,
            size::ROUND,
            fill,
            Stroke::new(1.0, border),
            StrokeKind::Inside,
        );
        ui.painter().text(
            rect.left_center() + vec2(8.0, 0.0),
            Align2::LEFT_CENTER,
            text,
            fonts::body(),
            if on { t.text } else { t.disabled },
        );
        paint::key_cap(ui.painter(), rect.right_center() - vec2(6.0, 0.0), key, &t);
        response.widget_info(|| WidgetInfo::labeled(Role::Button, on, text));
        if on && response.clicked() {
            cx.send(command);
        }
        if let Some(why) = none {
            response.on_hover_text(why);
        }
    }
}
