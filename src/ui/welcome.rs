//! The empty window: three ways to begin, a drop target, recent items.

use super::theme::{Theme, size};
use super::{Cx, fonts, kit, paint, panel};
use crate::app::{Command, settings::Recent};
use crate::geometry::Extent;
use eframe::egui::{
    Align, Align2, Color32, Painter, Pos2, Rect, Sense, Shape, Stroke, StrokeKind, Ui, WidgetInfo,
    accesskit::Role, pos2, vec2,
};

/// Draws the welcome page over the review docks, which are empty.
pub(super) fn show(ui: &mut Ui, content: Rect, cx: &mut Cx<'_>) {
    cx.local.status_hint = "Ready \u{b7} no data leaves this machine";
    cx.local.scale_text.clear();
    let (left, middle, right) = super::review::docks(content);
    if let Some(left) = left {
        panel(ui, left, "Series", empty_left);
    }
    if let Some(right) = right {
        panel(ui, right, "Plan and budget", |ui| empty_right(ui, cx));
    }
    let t = Theme::of(ui.ctx());
    ui.painter().rect_filled(middle, 0, t.bg);
    let frame = middle.shrink(16.0);
    let dropping = ui.input(|i| !i.raw.hovered_files.is_empty());
    let stroke = Stroke::new(1.0, if dropping { t.strong } else { t.line_strong });
    paint::dashed_rect(ui.painter(), frame, stroke, 4.0, 3.0);
    let width = (frame.width() - 64.0).min(776.0);
    let x = frame.center().x - width / 2.0;
    let tall = frame.height() > 700.0;
    let top = frame.top() + if tall { 56.0 } else { 20.0 };
    ui.painter().text(
        pos2(x, top),
        Align2::LEFT_TOP,
        "Does it fit, and where are the seams?",
        fonts::welcome(),
        t.strong,
    );
    kit::text_in(
        ui,
        Rect::from_min_size(pos2(x, top + 38.0), vec2(width, 24.0)),
        Align2::LEFT_CENTER,
        "Plan memory for 3D networks on CT volumes, run them in windows, and check every window face.",
        fonts::body(),
        t.secondary,
    );
    let cards = Rect::from_min_size(
        pos2(x, top + if tall { 96.0 } else { 76.0 }),
        vec2(width, 208.0),
    );
    ways(ui, cards, cx);
    let target = Rect::from_min_size(
        pos2(x, cards.bottom() + if tall { 28.0 } else { 16.0 }),
        vec2(width, 72.0),
    );
    drop_target(ui, target, dropping, &t);
    recent(
        ui,
        Rect::from_min_max(
            pos2(x, target.bottom() + if tall { 24.0 } else { 8.0 }),
            pos2(x + width, frame.bottom() - 8.0),
        ),
        cx,
    );
}

fn empty_left(ui: &mut Ui) {
    for (title, hint, skip) in [
        ("Series", "No series yet", 176.0),
        ("Layers", "Shown with a volume", 0.0),
    ] {
        kit::heading(ui, title, "", "");
        kit::hint(ui, hint);
        ui.add_space(skip);
    }
}

fn empty_right(ui: &mut Ui, cx: &Cx<'_>) {
    for (title, hint, skip) in [
        ("Detections", "A run fills this list", 360.0),
        ("Plan", "Open a study, or type a size", 40.0),
        (
            "Memory budget",
            "Planned with the study, for each card",
            0.0,
        ),
    ] {
        kit::heading(ui, title, "", "");
        kit::hint(ui, hint);
        ui.add_space(if ui.available_height() > 600.0 || skip < 100.0 {
            skip
        } else {
            skip / 3.0
        });
    }
    let t = Theme::of(ui.ctx());
    let cuda = cx.state.engines.iter().find(|e| e.id == "cuda");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (first, second) = match cuda {
        Some(e) if e.available => (
            e.device.clone().unwrap_or_default(),
            "Runs use this card.".to_owned(),
        ),
        Some(e) => (
            format!("CPU, {threads} threads"),
            format!(
                "{}. Planning and review work whole; runs use the CPU.",
                sentence(e.reason.trim_end_matches('.'))
            ),
        ),
        None => (
            format!("CPU, {threads} threads"),
            "Planning and review work whole; runs use the CPU.".to_owned(),
        ),
    };
    let space = ui.available_height() - 96.0;
    ui.add_space(space.max(0.0));
    kit::rich(ui, &[kit::Span::new(first, fonts::caption(), t.text)]);
    kit::caption(ui, &second);
}

/// The same words with a capital first letter.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

struct Way {
    title: &'static str,
    lines: &'static str,
    icon: fn(&Painter, Pos2, Color32),
    primary: bool,
}

fn ways(ui: &mut Ui, area: Rect, cx: &mut Cx<'_>) {
    let width = (area.width() - 32.0) / 3.0;
    let cell = |i: f32| {
        Rect::from_min_size(
            pos2(area.left() + i * (width + 16.0), area.top()),
            vec2(width, area.height()),
        )
    };
    let open = Way {
        title: "Open a folder",
        lines: "DICOM, NIfTI, MHD or .npy. The first slice shows at once.",
        icon: folder,
        primary: true,
    };
    if card(ui, cell(0.0), &open, true) {
        cx.send(Command::OpenFolderDialog);
    }
    let t = Theme::of(ui.ctx());
    let foot = |r: Rect| pos2(r.left() + 20.0, r.bottom() - 26.0);
    let at = foot(cell(0.0));
    let cap = Rect::from_min_size(at - vec2(0.0, 9.0), vec2(48.0, 18.0));
    ui.painter()
        .rect_stroke(cap, 3, Stroke::new(1.0, t.on_primary), StrokeKind::Inside);
    ui.painter().text(
        cap.center(),
        Align2::CENTER_CENTER,
        "Ctrl+O",
        fonts::caption(),
        t.on_primary,
    );
    let demo = Way {
        title: "Try the demo",
        lines: "A chest phantom and a small network. Seconds on this CPU.",
        icon: windows,
        primary: false,
    };
    if card(ui, cell(1.0), &demo, true) {
        cx.send(Command::TryDemo);
    }
    ui.painter().text(
        foot(cell(1.0)),
        Align2::LEFT_CENTER,
        "no files needed",
        fonts::caption(),
        t.secondary,
    );
    let plan = Way {
        title: "Plan without data",
        lines: "Type a size and see which cards it fits.",
        icon: cube,
        primary: false,
    };
    card(ui, cell(2.0), &plan, false);
    let at = foot(cell(2.0));
    let field = Rect::from_min_size(at - vec2(0.0, 14.0), vec2((width - 112.0).min(136.0), 28.0));
    let size = cx.local.size_text.clone();
    let parsed = size.parse::<Extent>();
    if let Some(text) = kit::edit(
        ui,
        field,
        "Volume size in voxels",
        &size,
        Align::Min,
        parsed.is_err(),
    ) {
        cx.local.size_text = text;
    }
    let button = Rect::from_min_size(pos2(field.right() + 8.0, field.top()), vec2(54.0, 28.0));
    let why = parsed.as_ref().err().map(ToString::to_string);
    if kit::button(ui, button, "Plan", kit::Look::Plain, why.as_deref()).clicked()
        && let Ok(extent) = parsed
    {
        cx.send(Command::PlanWithoutData(extent));
    }
}

fn card(ui: &Ui, rect: Rect, way: &Way, acts: bool) -> bool {
    let t = Theme::of(ui.ctx());
    let sense = if acts { Sense::click() } else { Sense::hover() };
    let response = ui.interact(rect, ui.scope_id().with(way.title), sense);
    let (fill, border, title, text) = if way.primary {
        (t.primary, t.primary_border, t.on_primary, t.on_primary)
    } else {
        (t.raised, t.line_strong, t.strong, t.secondary)
    };
    let hovered = acts && response.hovered();
    let border = if hovered { t.hover_border } else { border };
    let fill = if hovered && !way.primary {
        t.hover
    } else {
        fill
    };
    ui.painter().rect(
        rect,
        size::ROUND,
        fill,
        Stroke::new(1.0, border),
        StrokeKind::Inside,
    );
    if response.has_focus() {
        ui.painter().rect_stroke(
            rect,
            size::ROUND,
            Stroke::new(2.0, t.strong),
            StrokeKind::Outside,
        );
    }
    (way.icon)(ui.painter(), rect.min + vec2(42.0, 44.0), title);
    ui.painter().text(
        rect.min + vec2(20.0, 94.0),
        Align2::LEFT_CENTER,
        way.title,
        fonts::title(),
        title,
    );
    let galley = ui.painter().layout(
        way.lines.to_owned(),
        fonts::body(),
        text,
        rect.width() - 40.0,
    );
    ui.painter()
        .galley(rect.min + vec2(20.0, 111.0), galley, text);
    if acts {
        response.widget_info(|| WidgetInfo::labeled(Role::Button, true, way.title));
    } else {
        response.widget_info(|| WidgetInfo::labeled(Role::Label, true, way.title));
    }
    response.clicked()
}

fn folder(p: &Painter, c: Pos2, color: Color32) {
    let s = Stroke::new(1.5, color);
    p.add(Shape::closed_line(
        [
            (-18.0, -13.0),
            (-6.0, -13.0),
            (-2.0, -8.0),
            (18.0, -8.0),
            (18.0, 14.0),
            (-18.0, 14.0),
        ]
        .map(|(x, y)| c + vec2(x, y))
        .to_vec(),
        s,
    ));
}

fn windows(p: &Painter, c: Pos2, color: Color32) {
    let s = Stroke::new(1.5, color);
    let r = Rect::from_center_size(c, vec2(36.0, 36.0));
    p.rect_stroke(r, 0, s, StrokeKind::Middle);
    p.line_segment([r.center_top(), r.center_bottom()], s);
    p.line_segment([r.left_center(), r.right_center()], s);
    p.circle(c, 7.0, super::theme::hue::ACTIVATIONS, s);
}

fn cube(p: &Painter, c: Pos2, color: Color32) {
    let s = Stroke::new(1.5, color);
    let at = |x: f32, y: f32| c + vec2(x, y);
    p.add(Shape::closed_line(
        vec![
            at(0.0, -18.0),
            at(17.0, -9.0),
            at(17.0, 10.0),
            at(0.0, 19.0),
            at(-17.0, 10.0),
            at(-17.0, -9.0),
        ],
        s,
    ));
    p.line(vec![at(-17.0, -9.0), at(0.0, 0.0), at(17.0, -9.0)], s);
    p.line_segment([at(0.0, 0.0), at(0.0, 19.0)], s);
}

fn drop_target(ui: &Ui, rect: Rect, dropping: bool, t: &Theme) {
    ui.painter()
        .rect_filled(rect, 4, if dropping { t.select } else { t.panel });
    paint::dashed_rect(
        ui.painter(),
        rect,
        Stroke::new(1.0, if dropping { t.strong } else { t.hover_border }),
        4.0,
        3.0,
    );
    let galley = ui.painter().layout_no_wrap(
        "Drop a folder, a result or a network anywhere in this window".to_owned(),
        fonts::body(),
        t.text,
    );
    let left = rect.center().x - galley.size().x / 2.0 - 17.0;
    let c = pos2(left + 9.0, rect.center().y);
    let s = Stroke::new(1.5, t.secondary);
    ui.painter()
        .line_segment([c - vec2(0.0, 9.0), c + vec2(0.0, 4.0)], s);
    ui.painter().line(
        vec![
            c + vec2(-5.0, -1.0),
            c + vec2(0.0, 4.0),
            c + vec2(5.0, -1.0),
        ],
        s,
    );
    ui.painter()
        .line_segment([c + vec2(-9.0, 9.0), c + vec2(9.0, 9.0)], s);
    ui.painter().galley(
        pos2(left + 34.0, rect.center().y - galley.size().y / 2.0),
        galley,
        t.text,
    );
}

fn recent(ui: &mut Ui, area: Rect, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let items = &cx.state.settings.recent;
    let y = area.top() + 14.0;
    ui.painter().text(
        pos2(area.left(), y),
        Align2::LEFT_CENTER,
        "RECENT",
        fonts::caption_bold(),
        t.secondary,
    );
    let rows = ((area.height() - 68.0) / 45.0).floor().max(0.0);
    let rows = super::slice_view::whole(f64::from(rows))
        .min(4)
        .min(items.len());
    let note = if items.is_empty() {
        "nothing opened yet".to_owned()
    } else {
        format!("{rows} of {} \u{b7} names masked", items.len())
    };
    ui.painter().text(
        pos2(area.right(), y),
        Align2::RIGHT_CENTER,
        note,
        fonts::caption(),
        t.secondary,
    );
    let mut picked = None;
    for (i, item) in items.iter().take(rows).enumerate() {
        let row = Rect::from_min_size(
            pos2(area.left(), area.top() + 28.0 + i as f32 * 45.0),
            vec2(area.width(), 44.0),
        );
        if recent_row(ui, row, item, i == 0) {
            picked = Some(i);
        }
    }
    if let Some(i) = picked {
        cx.send(Command::OpenRecent(i));
    }
    let y = area.top() + 28.0 + rows as f32 * 45.0 + 24.0;
    let mut x = area.left();
    for (key, what) in [("F1", "keys and help"), ("Ctrl+K", "any command")] {
        let w = ui
            .painter()
            .layout_no_wrap(key.to_owned(), fonts::caption(), t.text)
            .size()
            .x
            + 10.0;
        paint::key_cap(ui.painter(), pos2(x + w, y), key, &t);
        let r = ui.painter().text(
            pos2(x + w + 8.0, y),
            Align2::LEFT_CENTER,
            what,
            fonts::caption(),
            t.secondary,
        );
        x = r.right() + 24.0;
    }
}

fn recent_row(ui: &mut Ui, row: Rect, item: &Recent, first: bool) -> bool {
    let t = Theme::of(ui.ctx());
    let response = ui.interact(
        row,
        ui.scope_id().with(("recent", &item.source)),
        Sense::click(),
    );
    if response.hovered() || first {
        ui.painter().rect_filled(
            row,
            0,
            if response.hovered() {
                t.hover
            } else {
                t.select
            },
        );
    }
    ui.painter()
        .hline(row.x_range(), row.bottom() + 0.5, Stroke::new(1.0, t.line));
    let square = Rect::from_center_size(pos2(row.left() + 26.0, row.center().y), vec2(36.0, 36.0));
    ui.painter().rect(
        square,
        2,
        t.bg,
        Stroke::new(1.0, t.line_strong),
        StrokeKind::Inside,
    );
    let p = ui.painter().with_clip_rect(square);
    let c = square.center();
    let s = Stroke::new(1.2, t.secondary);
    let at = |x: f32, y: f32| c + vec2(x, y);
    p.add(Shape::closed_line(
        vec![
            at(0.0, -10.0),
            at(9.0, -5.0),
            at(9.0, 5.0),
            at(0.0, 10.0),
            at(-9.0, 5.0),
            at(-9.0, -5.0),
        ],
        s,
    ));
    p.line(vec![at(-9.0, -5.0), at(0.0, 0.0), at(9.0, -5.0)], s);
    p.line_segment([at(0.0, 0.0), at(0.0, 10.0)], s);
    let w = row.width();
    let column = |from: f32, to: f32| {
        Rect::from_min_max(
            pos2(row.left() + from * w, row.top()),
            pos2(row.left() + to * w, row.bottom()),
        )
    };
    let size = item.size.map_or_else(|| "no data".to_owned(), paint::times);
    let name = item.label.as_str();
    kit::text_in(
        ui,
        column(0.082, 0.36),
        Align2::LEFT_CENTER,
        name,
        fonts::body(),
        t.strong,
    );
    kit::text_in(
        ui,
        column(0.36, 0.513),
        Align2::RIGHT_CENTER,
        &size,
        fonts::body(),
        t.text,
    );
    kit::text_in(
        ui,
        column(0.533, 0.72),
        Align2::LEFT_CENTER,
        &item.detail,
        fonts::body(),
        t.secondary,
    );
    let place = item
        .source
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or(&item.source);
    kit::text_in(
        ui,
        column(0.735, 0.99),
        Align2::RIGHT_CENTER,
        place,
        fonts::body(),
        t.secondary,
    );
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Recent: {name}")));
    response.clicked()
}
