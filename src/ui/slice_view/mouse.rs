//! The mouse over a slice, as on a PACS; see the list in the key sheet.

use super::{Pane, PlaneMap, Projection, Scene, SliceAction, boxes, whole};
use eframe::egui::{self, Event, PointerButton, Rect, Response, Ui, accesskit};

/// Points that one drag point changes the window by, at a width of 1500.
const LEVEL_PER_POINT: f32 = 1.0 / 400.0;

/// Applies pan and zoom to `pane`; returns everything else as actions.
pub(super) fn act(
    ui: &Ui,
    response: &Response,
    map: &PlaneMap,
    scene: &Scene<'_>,
    pane: &mut Pane,
    index: usize,
) -> Vec<SliceAction> {
    let mut out = Vec::new();
    let p = Projection::new(*map, response.rect, pane);
    if response.hovered() {
        wheel(ui, response, map, pane, &mut out);
    }
    let mods = ui.input(|i| i.modifiers);
    if response.double_clicked() {
        out.push(SliceAction::Maximise);
    } else if response.clicked_by(PointerButton::Primary)
        && let Some(at) = response.interact_pointer_pos()
    {
        match boxes::hit(&p, scene, index, at) {
            Some((row, false)) => out.push(SliceAction::Select(row)),
            Some((row, true)) => out.push(SliceAction::SelectReference(row)),
            None => out.push(SliceAction::Crosshair(p.voxel(at, index as f64))),
        }
    }
    if mods.shift
        && !response.dragged()
        && let Some(at) = response.hover_pos()
        && ui.input(|i| i.pointer.is_moving())
    {
        out.push(SliceAction::Crosshair(p.voxel(at, index as f64)));
    }
    drag(ui, response, &p, scene, pane, index, &mut out);
    out
}

#[expect(
    clippy::too_many_arguments,
    reason = "one gesture needs the view, the scene and both outputs"
)]
fn drag(
    ui: &Ui,
    response: &Response,
    p: &Projection,
    scene: &Scene<'_>,
    pane: &mut Pane,
    index: usize,
    out: &mut Vec<SliceAction>,
) {
    let mods = ui.input(|i| i.modifiers);
    let delta = response.drag_delta();
    let left = response.dragged_by(PointerButton::Primary);
    if response.dragged_by(PointerButton::Middle) || (left && mods.shift) {
        pane.pan += delta;
    } else if response.dragged_by(PointerButton::Secondary) {
        let at = ui
            .input(|i| i.pointer.press_origin())
            .unwrap_or_else(|| response.rect.center());
        Projection::zoom_at(pane, response.rect, at, (-delta.y / 120.0).exp());
    } else if left && !mods.command {
        let fine = if mods.alt { 0.1 } else { 1.0 };
        let per = (scene.window.1.max(100.0) * LEVEL_PER_POINT) * fine;
        if delta != egui::Vec2::ZERO {
            out.push(SliceAction::WindowBy(-delta.y * per, delta.x * per));
        }
    }
    region(ui, response, p, index, out);
}

/// Ctrl+drag: a rectangle whose values set the window level.
fn region(ui: &Ui, response: &Response, p: &Projection, index: usize, out: &mut Vec<SliceAction>) {
    let command = ui.input(|i| i.modifiers.command);
    let (Some(from), Some(to)) = (
        ui.input(|i| i.pointer.press_origin()),
        ui.input(|i| i.pointer.latest_pos()),
    ) else {
        return;
    };
    if !command {
        return;
    }
    if response.dragged_by(PointerButton::Primary) {
        ui.painter_at(response.rect).rect_stroke(
            Rect::from_two_pos(from, to),
            0,
            egui::Stroke::new(1.0, egui::Color32::WHITE),
            egui::StrokeKind::Middle,
        );
    } else if response.drag_stopped_by(PointerButton::Primary) {
        let k = index as f64;
        out.push(SliceAction::AutoLevel(p.voxel(from, k), p.voxel(to, k)));
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "wheel steps are small whole numbers"
)]
fn wheel(
    ui: &Ui,
    response: &Response,
    map: &PlaneMap,
    pane: &mut Pane,
    out: &mut Vec<SliceAction>,
) {
    let events: Vec<(f32, egui::Modifiers)> = ui.input(|i| {
        i.events
            .iter()
            .filter_map(|e| match e {
                Event::MouseWheel {
                    unit,
                    delta,
                    modifiers,
                    ..
                } => {
                    let along = if delta.y == 0.0 { delta.x } else { delta.y };
                    let lines = match unit {
                        egui::MouseWheelUnit::Line => along,
                        egui::MouseWheelUnit::Point => along / 24.0,
                        egui::MouseWheelUnit::Page => along * 10.0,
                    };
                    Some((lines, *modifiers))
                }
                _ => None,
            })
            .collect()
    });
    for (lines, mods) in events {
        if mods.command {
            let at = response
                .hover_pos()
                .unwrap_or_else(|| response.rect.center());
            Projection::zoom_at(pane, response.rect, at, 1.15_f32.powf(lines));
            continue;
        }
        pane.wheel += if mods.shift { lines * 10.0 } else { lines };
        let whole_steps = pane.wheel.trunc();
        if whole_steps != 0.0 {
            pane.wheel -= whole_steps;
            out.push(SliceAction::Scroll(
                towards_feet(map) * -(whole_steps as i64),
            ));
        }
    }
}

/// +1 when the feet (or the far side) are at larger indices across this view: the wheel down goes there.
pub(super) fn towards_feet(map: &PlaneMap) -> i64 {
    use crate::geometry::Plane;
    match map.plane {
        // Axial: down the body is the direction that the coronal view shows downwards; its sign lives in `across`.
        Plane::Axial => {
            if map.across_falls {
                1
            } else {
                -1
            }
        }
        Plane::Coronal | Plane::Sagittal => {
            if map.across_falls {
                -1
            } else {
                1
            }
        }
    }
}

/// The slice that the slider was moved to, by pointer, arrow keys or a screen reader.
pub(super) fn slider_target(
    ui: &Ui,
    response: &Response,
    strip: Rect,
    n: usize,
    index: usize,
) -> Option<usize> {
    let last = n.saturating_sub(1);
    if let Some(at) = response.interact_pointer_pos() {
        let t = (at.y - strip.top() - 12.0) / (strip.height() - 24.0).max(1.0);
        return Some(whole(f64::from(t.clamp(0.0, 1.0)) * last as f64 + 0.5).min(last));
    }
    let id = response.id;
    let focused = response.has_focus();
    let (up, down) = ui.input(|i| {
        let key = |k| focused && i.key_pressed(k);
        (
            i.num_accesskit_action_requests(id, accesskit::Action::Increment)
                + usize::from(key(egui::Key::ArrowDown)),
            i.num_accesskit_action_requests(id, accesskit::Action::Decrement)
                + usize::from(key(egui::Key::ArrowUp)),
        )
    });
    let to = (index + up).saturating_sub(down).min(last);
    (to != index).then_some(to)
}
