//! The Seams workspace, as far as it goes: the forecast, a plane with its windows, and the list of seam planes.

use super::theme::{Theme, size};
use super::{Cx, fonts, kit, paint, panel, review};
use crate::app::Command;
use crate::geometry::{Axis, Plane};
use eframe::egui::{self, Align2, Rect, Sense, Ui, WidgetInfo, accesskit::Role, pos2, vec2};

/// Draws the workspace.
pub(super) fn show(ui: &mut Ui, content: Rect, cx: &mut Cx<'_>) {
    cx.local.status_hint = "Click a seam to go there";
    cx.local.scale_text.clear();
    let strip = content.with_max_y(content.top() + 72.0);
    panel(ui, strip, "Forecast", |ui| forecast(ui, cx));
    let rest = content.with_min_y(strip.bottom() + 1.0);
    let split = rest.left() + (rest.width() * 0.55).round();
    let left = rest.with_max_x(split);
    let right = rest.with_min_x(split + 1.0);
    panel(ui, left, "Coronal plane", |ui| {
        kit::heading(
            ui,
            "Window grid",
            "coronal",
            "hatch: overlap of the active window",
        );
        let area = ui.available_rect_before_wrap();
        if cx.state.volume_state().is_some() {
            review::small(ui, area, Plane::Coronal, 7, cx);
        } else {
            kit::caption(ui, "Open a study to see where its windows meet");
        }
    });
    panel(ui, right, "Seams", |ui| table(ui, cx));
}

fn forecast(ui: &mut Ui, cx: &Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let area = ui.max_rect().shrink2(vec2(12.0, 8.0));
    let Some(e) = &cx.state.derived.exactness else {
        kit::text_in(
            ui,
            area,
            Align2::LEFT_CENTER,
            "Choose a network and a roi: what windows do to the bits stands here",
            fonts::body(),
            t.secondary,
        );
        return;
    };
    let word = serde_json::to_value(e.verdict)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default();
    let top = area.with_max_y(area.center().y);
    let bottom = area.with_min_y(area.center().y);
    kit::text_in(
        ui,
        top,
        Align2::LEFT_CENTER,
        &format!("Forecast: {word}"),
        fonts::body_bold(),
        t.strong,
    );
    let text = format!(
        "halo needed {} voxels \u{b7} passes {}",
        paint::triple(e.halo_needed),
        e.n_passes
    );
    kit::text_in(
        ui,
        bottom,
        Align2::LEFT_CENTER,
        &text,
        fonts::caption(),
        t.secondary,
    );
}

fn table(ui: &mut Ui, cx: &mut Cx<'_>) {
    let seams = cx.state.derived.seams.clone();
    kit::heading(
        ui,
        "Seams",
        &format!("{} PLANES", seams.len()),
        "click one to go there",
    );
    if seams.is_empty() {
        kit::caption(ui, "One window, or no plan yet: no seam");
        return;
    }
    let t = Theme::of(ui.ctx());
    let (head, _) = ui.allocate_exact_size(vec2(ui.available_width(), size::ROW), Sense::hover());
    let columns = |r: Rect| {
        [(12.0, 60.0), (80.0, 100.0), (200.0, 120.0)]
            .map(|(x, w)| Rect::from_min_size(pos2(r.left() + x, r.top()), vec2(w, r.height())))
    };
    for (r, name) in columns(head).into_iter().zip(["axis", "face", "windows"]) {
        let align = if name == "axis" {
            Align2::LEFT_CENTER
        } else {
            Align2::RIGHT_CENTER
        };
        kit::text_in(ui, r, align, name, fonts::caption(), t.secondary);
    }
    let windows = |axis: Axis, at: f64| -> usize {
        cx.local.grid.as_ref().map_or(0, |(_, g)| {
            g.cores
                .iter()
                .filter(|c| c[axis.index()].iter().any(|&edge| (edge - at).abs() < 1e-6))
                .count()
        })
    };
    let rows: Vec<(Axis, f64, usize)> = seams
        .iter()
        .map(|s| (s.axis, s.at, windows(s.axis, s.at)))
        .collect();
    let mut go = None;
    egui::ScrollArea::vertical()
        .auto_shrink(false)
        .show(ui, |ui| {
            for (axis, at, n) in rows {
                let (r, response) =
                    ui.allocate_exact_size(vec2(ui.available_width(), size::ROW), Sense::click());
                if response.hovered() || response.has_focus() {
                    ui.painter().rect_filled(r, 0, t.hover);
                }
                let face = format!("{at:.0}");
                let [a, b, c] = columns(r);
                kit::text_in(
                    ui,
                    a,
                    Align2::LEFT_CENTER,
                    axis.name(),
                    fonts::body(),
                    t.text,
                );
                kit::text_in(ui, b, Align2::RIGHT_CENTER, &face, fonts::body(), t.strong);
                kit::text_in(
                    ui,
                    c,
                    Align2::RIGHT_CENTER,
                    &n.to_string(),
                    fonts::body(),
                    t.text,
                );
                response.widget_info(|| {
                    WidgetInfo::labeled(
                        Role::Row,
                        true,
                        format!("Seam {} = {face}, {n} windows end here", axis.name()),
                    )
                });
                if response.clicked() {
                    go = Some((axis, at));
                }
            }
        });
    if let Some((axis, at)) = go {
        let mut to = cx.state.view.crosshair;
        to[axis.index()] = at;
        cx.send(Command::SetCrosshair(to));
    }
}
