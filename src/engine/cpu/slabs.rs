//! Steps that run slab by slab: of the maps between them only the planes that are still needed lie in the arena.
#![expect(
    unsafe_code,
    reason = "planes move inside the arena while no task of a step runs"
)]

use super::arena::Place;
use super::isa::Isa;
use super::prepare::Ready;
use crate::jobs::Control;
use crate::memory::schedule::{PlannedTensor, Slab, Slabs, Step};
use std::ops::Range;

/// Steps inside, each with the places that it is bound to before every slab.
pub(super) struct ReadySlabs {
    steps: Vec<(Ready, Vec<usize>)>,
    slabs: Vec<Slab>,
    staged: Vec<(usize, usize)>,
    maps: Vec<MapAt>,
}

/// A place with the size of the map that it is or holds a part of.
#[derive(Clone, Copy, Debug)]
struct MapAt {
    place: Place,
    /// Values of one plane of one window.
    plane: usize,
    /// Values of one window.
    window: usize,
    /// Whether all planes of all windows are there.
    whole: bool,
}

impl ReadySlabs {
    /// `ready` are the steps of `slabs`, ready to run; `places` and `tensors` are the schedule's.
    pub(super) fn new(
        slabs: &Slabs,
        ready: Vec<Ready>,
        places: &[Place],
        tensors: &[PlannedTensor],
    ) -> Self {
        let map_at = |(place, t): (&Place, &PlannedTensor)| MapAt {
            place: *place,
            plane: t.shape.iter().skip(3).product::<usize>() * t.shape.get(1).unwrap_or(&1),
            window: t.shape.iter().skip(1).product(),
            whole: t.planes.is_none(),
        };
        Self {
            steps: ready
                .into_iter()
                .zip(&slabs.steps)
                .map(|(r, s)| {
                    let slots = slots(&r, s);
                    (r, slots)
                })
                .collect(),
            slabs: slabs.parts.clone(),
            staged: slabs.staged.clone(),
            maps: places.iter().zip(tensors).map(map_at).collect(),
        }
    }

    /// Runs all slabs of the first `windows` windows; `done` hears how many of how many slabs are done.
    pub(super) fn run(
        &mut self,
        isa: Isa,
        windows: usize,
        control: &Control,
        done: &mut dyn FnMut(usize, usize),
    ) {
        let all = windows * self.slabs.len();
        for window in 0..windows {
            for index in 0..self.slabs.len() {
                if control.is_cancelled() {
                    return;
                }
                self.slab(isa, window, index, control);
                done(window * self.slabs.len() + index + 1, all);
            }
        }
    }

    fn slab(&mut self, isa: Isa, window: usize, index: usize, control: &Control) {
        let slab = &self.slabs[index];
        if let Some(before) = index.checked_sub(1).map(|i| &self.slabs[i]) {
            for ((map, now), (_, then)) in slab.holds.iter().zip(&before.holds) {
                carry(self.maps[*map], then, now);
            }
        }
        let maps = &self.maps;
        let bound = |map: usize| bind(maps[map], map, window, &slab.holds);
        for ((ready, slots), planes) in self.steps.iter_mut().zip(&slab.makes) {
            if planes.is_empty() {
                continue;
            }
            let mut slot = slots.iter();
            ready.places(&mut |place| {
                if let Some(map) = slot.next() {
                    *place = bound(*map);
                }
            });
            ready.run_planes(isa, window, planes.clone(), control);
        }
        for ((stage, target), planes) in self.staged.iter().zip(&slab.copies) {
            let plane = self.maps[*target].plane;
            let (at, len) = (planes.start * plane, planes.len() * plane);
            let (from, to) = (bound(*stage).part(at, len), bound(*target).part(at, len));
            // SAFETY: no task runs.
            let values = unsafe { from.values() };
            // SAFETY: no task runs, and the planner keeps the stage apart from the map.
            unsafe { to.write(0, values) };
        }
    }
}

/// The map of one window as kernels see it.
fn bind(at: MapAt, map: usize, window: usize, holds: &[(usize, Range<usize>)]) -> Place {
    if at.whole {
        return at.place.part(window * at.window, at.window);
    }
    let first = holds
        .iter()
        .find_map(|(held, planes)| (*held == map).then_some(planes.start))
        .unwrap_or(0);
    at.place.part_of_map(first * at.plane, at.window)
}

/// Moves what is still needed to the start of the place.
fn carry(at: MapAt, then: &Range<usize>, now: &Range<usize>) {
    let keep = then.end.saturating_sub(now.start) * at.plane;
    if now.start > then.start && keep > 0 {
        // SAFETY: both ranges lie in the place, and no task runs.
        unsafe { at.place.shift((now.start - then.start) * at.plane, 0, keep) };
    }
}

/// The schedule's places in the order in which the kernel hands out its own.
fn slots(ready: &Ready, step: &Step) -> Vec<usize> {
    let mut slots = step.sources.clone();
    if !matches!(ready, Ready::Measure(_)) {
        slots.extend(step.target);
    }
    slots.extend(step.posts.iter().filter_map(|p| p.reads()));
    slots
}
