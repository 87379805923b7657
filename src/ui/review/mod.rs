//! The Review workspace: series and layers at the left, four views in the middle, detections, plan and budget at the right.

mod budget;
mod fourth;
mod grid;
mod left;
mod list;
mod right;
mod views;

use super::slice_view::SeamLayer;
use super::{Cx, kit, panel};

use eframe::egui::{Rect, Ui, pos2, vec2};

/// The tiles of the middle, kept between frames.
pub(super) type ViewTree = egui_tiles::Tree<views::View>;

/// Left dock, middle, right dock (none at narrow widths, where it is a tab of the middle).
pub(super) fn docks(content: Rect) -> (Option<Rect>, Rect, Option<Rect>) {
    let left = content.with_max_x(content.left() + 183.0);
    let wide = content.width() >= 1280.0;
    let end = if wide {
        content.right() - 382.0
    } else {
        content.right()
    };
    let middle = Rect::from_min_max(
        pos2(left.right() + 1.0, content.top()),
        pos2(if wide { end - 1.0 } else { end }, content.bottom()),
    );
    let right = wide.then(|| content.with_min_x(end));
    (Some(left), middle, right)
}

/// Draws the workspace.
pub(super) fn show(ui: &mut Ui, content: Rect, cx: &mut Cx<'_>) {
    cx.local.status_hint = "Left drag: window level \u{b7} click: crosshair \u{b7} wheel: slice";
    grid::refresh(cx);
    let (left, mut middle, right) = docks(content);
    if let Some(left) = left {
        panel(ui, left, "Series and layers", |ui| left::show(ui, cx));
    }
    if let Some(right) = right {
        panel(ui, right, "Detections, plan and budget", |ui| {
            right::show(ui, cx);
        });
    } else {
        let bar = middle.with_max_y(middle.top() + 32.0);
        let t = super::Theme::of(ui.ctx());
        ui.painter().rect_filled(bar, 0, t.panel);
        let tabs = Rect::from_min_size(bar.min + vec2(8.0, 4.0), vec2(280.0, 24.0));
        let options = [(false, "Slices"), (true, "Detections")];
        if let Some(on) = kit::segmented(ui, tabs, "Show", &options, cx.local.right_tab) {
            cx.local.right_tab = on;
        }
        middle = middle.with_min_y(bar.bottom() + 1.0);
        if cx.local.right_tab {
            let column = middle.with_max_x(middle.left() + middle.width().min(520.0));
            panel(ui, column, "Detections, plan and budget", |ui| {
                right::show(ui, cx);
            });
            return;
        }
    }
    views::show(ui, middle, cx);
}

/// One small plane with the windows of the plan, for other workspaces.
pub(super) fn small(
    ui: &Ui,
    rect: Rect,
    plane: crate::geometry::Plane,
    slot: usize,
    cx: &mut Cx<'_>,
) {
    grid::refresh(cx);
    views::small(ui, rect, plane, slot, SeamLayer::default(), cx);
}

/// The slice of the Seams workspace, with what lies over it.
pub(super) fn seam_slice(
    ui: &Ui,
    rect: Rect,
    plane: crate::geometry::Plane,
    seam: SeamLayer,
    cx: &mut Cx<'_>,
) {
    grid::refresh(cx);
    views::small(ui, rect, plane, 7, seam, cx);
}
