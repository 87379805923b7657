//! The fourth tile: a run in progress, or how windows lie along each axis and how scores stand to seams.

use crate::app::Command;
use crate::geometry::Axis;
use crate::ui::theme::{Theme, hue, plane_color};
use crate::ui::{Cx, fonts, kit, paint};
use eframe::egui::{
    self, Align2, Rect, Sense, Stroke, StrokeKind, Ui, WidgetInfo, accesskit::Role, pos2, vec2,
};

/// Draws the tile.
pub(super) fn show(ui: &mut Ui, rect: Rect, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    ui.painter().rect_filled(rect, 0, t.panel);
    ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
    if cx.state.run.is_some() {
        running(ui, cx);
        return;
    }
    let Some(plan) = cx.state.derived.plan() else {
        kit::heading(ui, "Windows", "", "");
        let why = cx
            .state
            .derived
            .tiling
            .as_ref()
            .and_then(|t| t.as_ref().err());
        kit::caption(
            ui,
            why.map_or("Choose a network to place windows", String::as_str),
        );
        return;
    };
    let n = plan.starts.each_ref().map(Vec::len);
    let faces: usize = plan.seam_planes().iter().map(Vec::len).sum();
    let count = format!(
        "{} ({}\u{d7}{}\u{d7}{})",
        plan.windows.len(),
        n[0],
        n[1],
        n[2]
    );
    kit::heading(
        ui,
        "Windows",
        &count,
        &format!("{faces} faces \u{b7} click one to go there"),
    );
    for axis in Axis::ALL {
        strip(ui, cx, axis);
    }
    ui.add_space(8.0);
    scatter(ui, cx);
}

/// Windows along one axis as two staggered rows, faces as lines, the crosshair in its plane's colour.
fn strip(ui: &mut Ui, cx: &mut Cx<'_>, axis: Axis) {
    let t = Theme::of(ui.ctx());
    let (Some((_, grid)), Some(v)) = (&cx.local.grid, cx.state.volume_state()) else {
        return;
    };
    let a = axis.index();
    let n = v.extent.to_array()[a] as f64;
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 50.0), Sense::hover());
    ui.painter().text(
        pos2(area.left() + 12.0, area.top() + 18.0),
        Align2::LEFT_CENTER,
        axis.name(),
        fonts::body_bold(),
        t.strong,
    );
    let track = Rect::from_min_max(
        pos2(area.left() + 36.0, area.top() + 2.0),
        pos2(area.right() - 16.0, area.top() + 34.0),
    );
    let x = |edge: f64| egui::lerp(track.x_range(), paint::f((edge / n).clamp(0.0, 1.0)));
    ui.painter()
        .rect_stroke(track, 0, Stroke::new(1.0, t.line), StrokeKind::Inside);
    let mut seen: Vec<[f64; 2]> = grid.cores.iter().map(|c| c[a]).collect();
    seen.sort_by(|p, q| p[0].total_cmp(&q[0]));
    seen.dedup();
    let active = cx
        .local
        .active_window
        .and_then(|w| grid.cores.get(w))
        .map(|c| c[a]);
    for (i, span) in seen.iter().enumerate() {
        let top = track.top() + if i % 2 == 0 { 2.0 } else { 17.0 };
        let r = Rect::from_min_max(pos2(x(span[0]), top), pos2(x(span[1]), top + 13.0));
        let on = active == Some(*span);
        ui.painter()
            .rect_filled(r, 0, if on { t.segment_on } else { t.raised });
        for other in &seen {
            if other != span {
                let both = [other[0].max(span[0]), other[1].min(span[1])];
                if both[0] < both[1] {
                    let h = r.with_min_x(x(both[0])).with_max_x(x(both[1]));
                    paint::hatch(ui.painter(), h, 5.0, Stroke::new(1.0, t.line_strong));
                }
            }
        }
        let border = if on { t.strong } else { t.hover_border };
        ui.painter()
            .rect_stroke(r, 0, Stroke::new(1.0, border), StrokeKind::Inside);
    }
    let plane = match axis {
        Axis::X => crate::geometry::Plane::Sagittal,
        Axis::Y => crate::geometry::Plane::Coronal,
        Axis::Z => crate::geometry::Plane::Axial,
    };
    let at = x(cx.state.view.crosshair[a] + 0.5);
    ui.painter()
        .vline(at, track.y_range(), Stroke::new(2.0, plane_color(plane)));
    let mut last_label = f32::NEG_INFINITY;
    let mut jump = None;
    for &face in &grid.faces[a] {
        let px = x(face);
        let hit =
            Rect::from_center_size(pos2(px, track.center().y), vec2(8.0, track.height() + 12.0));
        let response = ui.interact(
            hit,
            ui.scope_id().with(("face", a, face.to_bits())),
            Sense::click(),
        );
        if response.hovered() || response.has_focus() {
            ui.painter()
                .vline(px, track.y_range(), Stroke::new(2.0, t.strong));
        }
        if px - last_label > 30.0 {
            let text = format!("{face:.0}");
            ui.painter().text(
                pos2(px, track.bottom() + 8.0),
                Align2::CENTER_CENTER,
                text,
                fonts::caption(),
                t.secondary,
            );
            last_label = px;
        }
        response.widget_info(|| {
            WidgetInfo::labeled(
                Role::Button,
                true,
                format!("Go to face {} = {face:.0}", axis.name()),
            )
        });
        if response.clicked() {
            jump = Some(face);
        }
    }
    if let Some(face) = jump {
        let mut to = cx.state.view.crosshair;
        to[a] = face;
        cx.send(Command::SetCrosshair(to));
    }
}

/// Score of each detection over its distance to the nearest seam.
fn scatter(ui: &mut Ui, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    kit::heading(
        ui,
        "Score and seams",
        "",
        "a point is a detection; click jumps",
    );
    let area = ui.available_rect_before_wrap();
    let points: Vec<(usize, f64, f32)> = cx
        .state
        .detections()
        .filter_map(|(i, d)| Some((i, d.seam_distance?, d.score)))
        .collect();
    if points.is_empty() {
        kit::caption(ui, "A run over more than one window fills this plot");
        return;
    }
    let plot = Rect::from_min_max(area.min + vec2(72.0, 8.0), area.max - vec2(20.0, 44.0));
    let farthest = points.iter().map(|p| p.1).fold(5.0, f64::max);
    let step = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
        .into_iter()
        .find(|s| farthest / s <= 6.0)
        .unwrap_or(100.0);
    let end = (farthest / step).ceil() * step;
    let p = ui.painter();
    // Lines that would run into each other are left out.
    let each = if plot.height() > 80.0 { 1 } else { 4 };
    for score in [0.0_f32, 0.25, 0.5, 0.75, 1.0].into_iter().step_by(each) {
        let y = egui::lerp(plot.bottom()..=plot.top(), score);
        p.hline(plot.x_range(), y.round() + 0.5, Stroke::new(1.0, t.line));
        p.text(
            pos2(plot.left() - 8.0, y),
            Align2::RIGHT_CENTER,
            format!("{score:.2}"),
            fonts::caption(),
            t.secondary,
        );
    }
    let x = |mm: f64| egui::lerp(plot.x_range(), paint::f(mm / end));
    let mut tick = 0.0;
    while tick <= end + 1e-9 {
        let px = x(tick);
        p.vline(
            px.round() + 0.5,
            plot.bottom()..=plot.bottom() + 4.0,
            Stroke::new(1.0, t.line_strong),
        );
        p.text(
            pos2(px, plot.bottom() + 13.0),
            Align2::CENTER_CENTER,
            format!("{tick:.0}"),
            fonts::caption(),
            t.secondary,
        );
        tick += step;
    }
    p.text(
        pos2(plot.center().x, plot.bottom() + 32.0),
        Align2::CENTER_CENTER,
        "distance from box centre to the nearest face, mm",
        fonts::caption(),
        t.secondary,
    );
    let title = p.layout_no_wrap("score".to_owned(), fonts::caption(), t.secondary);
    let at = pos2(area.left() + 12.0, plot.center().y + title.size().x / 2.0);
    p.add(
        egui::epaint::TextShape::new(at, title, t.secondary)
            .with_angle(-std::f32::consts::FRAC_PI_2),
    );
    let mut picked = None;
    for (place, mm, score) in points {
        let c = pos2(x(mm), egui::lerp(plot.bottom()..=plot.top(), score));
        let hit = Rect::from_center_size(c, vec2(14.0, 14.0));
        let response = ui.interact(hit, ui.scope_id().with(("point", place)), Sense::click());
        ui.painter()
            .circle(c, 5.0, hue::REFERENCE, Stroke::new(1.0, t.panel));
        if cx.state.view.selected == Some(place) || response.hovered() {
            ui.painter()
                .circle_stroke(c, 10.0, Stroke::new(2.0, t.strong));
        }
        response.widget_info(|| {
            WidgetInfo::labeled(
                Role::Button,
                true,
                format!("Detection at {mm:.1} mm from a face, score {score:.2}"),
            )
        });
        if response.clicked() {
            picked = Some(place);
        }
    }
    if let Some(place) = picked {
        cx.send(Command::SelectDetection(place));
    }
}

/// The run in progress: bar, one cell a window, cancel.
fn running(ui: &mut Ui, cx: &mut Cx<'_>) {
    let Some(run) = cx.state.run.clone() else {
        return;
    };
    let t = Theme::of(ui.ctx());
    let network = cx.state.document.network.clone().unwrap_or_default();
    kit::heading(ui, "Running", &network, "");
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 28.0), Sense::hover());
    let line = area.shrink2(vec2(12.0, 0.0));
    let text = if run.total == 0 {
        "preparing the volume".to_owned()
    } else {
        let percent = run.percent.map_or_else(String::new, |p| format!(", {p} %"));
        let done = run.done.min(run.total);
        format!("window {done} of {}{percent}", run.total)
    };
    kit::text_in(ui, line, Align2::LEFT_CENTER, &text, fonts::body(), t.text);
    let share = f32::from(run.percent.unwrap_or(0)) / 100.0;
    let bar = Rect::from_min_size(line.left_bottom() + vec2(0.0, 4.0), vec2(line.width(), 8.0));
    ui.painter().rect_filled(bar, 0, t.line);
    ui.painter().rect_filled(
        bar.with_max_x(bar.left() + bar.width() * share),
        0,
        t.strong,
    );
    ui.add_space(24.0);
    let cells = ui.available_rect_before_wrap();
    let cells = Rect::from_min_size(cells.min + vec2(12.0, 0.0), vec2(line.width(), 0.0));
    let per_row = crate::ui::slice_view::whole(f64::from(cells.width() / 20.0)).max(1);
    let total = usize::try_from(run.total).unwrap_or(0);
    let done = usize::try_from(run.done).unwrap_or(0);
    let shown = total.min(per_row * 8);
    for i in 0..shown {
        let (row, column) = (i / per_row, i % per_row);
        let r = Rect::from_min_size(
            cells.min + vec2(column as f32 * 20.0, row as f32 * 20.0),
            vec2(16.0, 16.0),
        );
        if i < done {
            ui.painter().rect_filled(r, 0, t.primary_border);
            continue;
        }
        if i == done {
            ui.painter()
                .rect_stroke(r, 0, Stroke::new(2.0, t.strong), StrokeKind::Inside);
        } else {
            ui.painter()
                .rect_stroke(r, 0, Stroke::new(1.0, t.line_strong), StrokeKind::Inside);
        }
    }
    ui.add_space(shown.div_ceil(per_row) as f32 * 20.0 + 12.0);
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 32.0), Sense::hover());
    let button = Rect::from_min_size(pos2(area.right() - 132.0, area.top()), vec2(120.0, 28.0));
    if kit::button(ui, button, "Cancel", kit::Look::Plain, None).clicked() {
        cx.send(Command::CancelJob(run.job));
    }
}
