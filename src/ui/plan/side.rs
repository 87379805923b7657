//! Three small slices with the windows of the plan.

use crate::geometry::Plane;
use crate::ui::{Cx, kit, review};
use eframe::egui::{Rect, Ui, pos2};

/// Draws them one below the other.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    kit::heading(ui, "Slices", "", "hatch: overlap");
    let area = ui.available_rect_before_wrap();
    let height = ((area.height() - 4.0) / 3.0).min(224.0);
    for (i, plane) in Plane::ALL.into_iter().enumerate() {
        let top = area.top() + i as f32 * (height + 2.0);
        let rect = Rect::from_min_max(pos2(area.left(), top), pos2(area.right(), top + height));
        review::small(ui, rect, plane, 4 + i, cx);
    }
}
