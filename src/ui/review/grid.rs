//! Windows of the plan as the views draw them, made again only when the plan changes.

use crate::geometry::Extent;
use crate::tiling::TilingPlan;
use crate::ui::Cx;
use crate::ui::slice_view::WindowGrid;
use std::sync::Arc;

/// Keeps the grid in step with the plan, and the active window with the crosshair.
pub(super) fn refresh(cx: &mut Cx<'_>) {
    let plan = cx
        .state
        .derived
        .tiling
        .as_ref()
        .and_then(|p| p.as_ref().ok());
    let extent = cx.state.volume_state().map(|v| v.extent);
    let (Some(plan), Some(extent)) = (plan, extent) else {
        cx.local.grid = None;
        cx.local.active_window = None;
        return;
    };
    let key = Arc::as_ptr(plan).addr();
    if cx.local.grid.as_ref().is_none_or(|(k, _)| *k != key) {
        cx.local.grid = Some((key, Arc::new(of(plan, extent))));
    }
    let at = cx.state.view.crosshair;
    cx.local.active_window = cx.local.grid.as_ref().and_then(|(_, g)| g.at(at));
}

/// Windows in voxel edges of the loaded volume; a resampled volume is scaled axis by axis.
fn of(plan: &TilingPlan, loaded: Extent) -> WindowGrid {
    let prepared = plan.volume.to_array();
    let size = loaded.to_array();
    let to_loaded = |axis: usize, at: usize| {
        let edge = at as f64 - plan.pad_before[axis] as f64;
        edge * size[axis] as f64 / prepared[axis].max(1) as f64
    };
    let spans = |b: &crate::geometry::VoxelBox| {
        std::array::from_fn(|a| [to_loaded(a, b.min[a]), to_loaded(a, b.max[a])])
    };
    let seams = plan.seam_planes();
    WindowGrid {
        faces: std::array::from_fn(|a| {
            seams[a]
                .iter()
                .map(|&p| to_loaded(a, p + plan.pad_before[a]))
                .collect()
        }),
        rois: plan.windows.iter().map(|w| spans(&w.roi)).collect(),
        cores: plan.windows.iter().map(|w| spans(&w.core)).collect(),
    }
}
