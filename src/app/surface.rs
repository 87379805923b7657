//! What fits: the surface of rois, made on a thread, stopped and begun again when what it rests on changes.

use super::derived::{key, request};
use super::state::State;
use super::work::{Kind, News};
use crate::memory::planner::Planner;
use crate::memory::surface::Surface;
use std::sync::Arc;

impl State {
    /// Starts the surface when something but the planned roi has changed; the one before is stopped.
    pub(super) fn derive_surface(&mut self) {
        let Some(network) = self.network.info() else {
            self.derived.surface = None;
            self.derived.surface_key = 0;
            self.jobs.drop_kind(Kind::Surface);
            return;
        };
        let Some(plan) = self.derived.plan() else {
            return;
        };
        let d = &self.document;
        let (roi, volume) = (plan.roi, plan.volume);
        let limit = volume.zip(roi, usize::max);
        let deep = network.model.graph.spatial_dims > 2;
        let new_key = key(&(
            (limit, volume, self.network_generation),
            (d.runtime, d.mode, d.optimizer, d.checkpointing, d.precision),
            (
                (d.batch, d.stitch_on, d.display),
                (d.blend, d.expandable_segments, d.memory_limit),
                (!deep).then_some(roi.z),
            ),
        ));
        if new_key == self.derived.surface_key {
            return;
        }
        self.derived.surface = None;
        self.derived.surface_key = new_key;
        let (model, document) = (Arc::clone(&network.model), d.clone());
        self.spawn(Kind::Surface, "What fits", move |control, out| {
            let request = request(&document, &model, roi, volume);
            let planner = Planner::new(&model.graph);
            let made = planner.surface(&request, limit, || !control.is_cancelled());
            if let Some(surface) = made {
                let _closed = out.send(News::Surface(new_key, Arc::new(surface)));
            }
        });
    }

    /// Takes a surface in, unless what it rests on has changed since.
    pub(super) fn take_surface(&mut self, of: u64, surface: Arc<Surface>) {
        if of == self.derived.surface_key {
            self.derived.surface = Some(surface);
        }
    }
}
