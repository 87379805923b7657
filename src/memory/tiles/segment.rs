//! One segment of a program: which maps are whole while it runs, how many planes of the others are kept, which output goes
//! over which input, and what that takes.

use super::flow::Flow;
use super::program::Program;
use std::ops::Range;

/// Most operations that run together.
const LONGEST: usize = 40;

/// A map that is written over another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Over {
    /// The new value.
    pub(super) value: usize,
    /// The value that it overwrites.
    pub(super) old: usize,
    /// Planes that wait in a place of their own until the old ones are read; 0 when none has to.
    pub(super) waiting: usize,
}

/// What a segment takes.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) works: Range<usize>,
    /// Planes of the coarsest output that a slab makes; `None` for one operation on whole maps.
    pub(super) thickness: Option<usize>,
    /// Slabs; 1 on whole maps.
    pub(super) slabs: usize,
    /// Bytes that live while it runs.
    pub(super) bytes: u64,
    /// Values of which only some planes are kept, and how many.
    pub(super) rings: Vec<(usize, usize)>,
    pub(super) over: Vec<Over>,
}

impl Program<'_> {
    /// Whether these operations can run together, slab by slab.
    pub(super) fn can_join(&self, works: &Range<usize>) -> bool {
        let inside = &self.works[works.clone()];
        let fits = works.len() <= LONGEST && inside.iter().all(super::program::Work::in_slabs);
        let waits = |w: usize| {
            let sums = self.works[w].sums;
            !self.works[w].measures() && sums.is_some_and(|s| works.contains(&self.made[s]))
        };
        fits && !works.clone().any(waits)
    }

    /// Whether a value lives outside the segment too, whole.
    fn is_whole(&self, value: usize, works: &Range<usize>) -> bool {
        let (made, last) = (self.made[value], self.last[value]);
        let lives = made < works.end && last >= works.start;
        lives && !(works.contains(&made) && last < works.end && last != made && works.len() > 1)
    }

    /// Bytes of the maps that are whole while a segment runs, with nothing written over anything.
    fn whole_bytes(&self, works: &Range<usize>) -> u64 {
        (0..self.values.len())
            .filter(|v| self.is_whole(*v, works))
            .map(|v| self.values[v].room())
            .fold(0, u64::saturating_add)
    }

    /// One operation on whole maps.
    pub(super) fn on_whole_maps(&self, work: usize) -> Segment {
        let works = work..work + 1;
        let over: Vec<Over> = self.overwrites(work).into_iter().collect();
        let saved: u64 = over.iter().map(|o| self.values[o.value].room()).sum();
        let scratch = self.works[work]
            .scratch
            .next_multiple_of(crate::memory::arena::ALIGNMENT);
        Segment {
            bytes: self.whole_bytes(&works).saturating_add(scratch) - saved,
            works,
            thickness: None,
            slabs: 1,
            rings: vec![],
            over,
        }
    }

    /// A value that dies in this operation, has the target's shape and is read only at the voxel being written.
    fn overwrites(&self, work: usize) -> Option<Over> {
        let w = &self.works[work];
        let value = w.target?;
        let same_voxel = |v: usize| w.aligned || !w.sources.contains(&v);
        let old = w
            .reads()
            .find(|v| self.takes_place_of(value, *v, work..work + 1) && same_voxel(*v))?;
        Some(Over {
            value,
            old,
            waiting: 0,
        })
    }

    /// Whether `old` dies in the segment and could hold `value`.
    fn takes_place_of(&self, value: usize, old: usize, works: Range<usize>) -> bool {
        self.made[old] < works.start
            && works.contains(&self.last[old])
            && self.values[old].tensor.is_some()
            && self.values[old].shape == self.values[value].shape
    }

    /// Operations that run together, so many planes of the coarsest output at a time.
    pub(super) fn in_slabs(&self, works: Range<usize>, thickness: usize) -> Segment {
        let flow = Flow::new(self, works.clone(), thickness);
        let mut rings = Vec::new();
        for w in works.clone() {
            if let Some(v) = self.works[w].target
                && !self.is_whole(v, &works)
            {
                rings.push((v, flow.most_held(v, w - works.start)));
            }
        }
        let over = self.over(&flow);
        let kept: u64 = rings
            .iter()
            .map(|(v, planes)| self.values[*v].room_of(*planes))
            .chain(over.iter().map(|o| self.values[o.value].room_of(o.waiting)))
            .sum();
        let saved: u64 = over.iter().map(|o| self.values[o.value].room()).sum();
        Segment {
            bytes: self.whole_bytes(&works).saturating_add(kept) - saved,
            works,
            thickness: Some(thickness),
            slabs: flow.slabs,
            rings,
            over,
        }
    }

    /// Whole outputs that go over inputs which die in the segment: plane by plane behind the last reader.
    fn over(&self, flow: &Flow) -> Vec<Over> {
        let works = &flow.works;
        let mut taken: Vec<usize> = Vec::new();
        let mut found = Vec::new();
        for w in works.clone() {
            let Some(value) = self.works[w].target else {
                continue;
            };
            let read_inside = works.len() > 1
                && works
                    .clone()
                    .any(|r| self.works[r].reads().any(|v| v == value));
            if !self.is_whole(value, works) || read_inside {
                continue;
            }
            let mut candidates: Vec<usize> = works
                .clone()
                .flat_map(|r| self.works[r].reads())
                .filter(|old| {
                    !taken.contains(old) && self.takes_place_of(value, *old, works.clone())
                })
                .collect();
            candidates.sort_unstable();
            candidates.dedup();
            let best = candidates
                .into_iter()
                .map(|old| (self.waiting(flow, w, old), old))
                .min();
            if let Some((waiting, old)) = best
                && waiting < self.values[value].planes
            {
                taken.push(old);
                found.push(Over {
                    value,
                    old,
                    waiting,
                });
            }
        }
        found
    }

    /// Planes of what `writer` makes that have to wait until `old` is read there; 0 when it can be written at once.
    fn waiting(&self, flow: &Flow, writer: usize, old: usize) -> usize {
        let o = writer - flow.works.start;
        let at_once = (0..flow.slabs)
            .all(|slab| flow.done(o, slab + 1) <= self.read_before(flow, writer, old, slab));
        if at_once {
            return 0;
        }
        (0..flow.slabs)
            .map(|slab| {
                let copied = flow.done(o, slab).min(flow.needed(old, slab));
                flow.done(o, slab + 1) - copied
            })
            .max()
            .unwrap_or(0)
    }

    /// The first plane of `old` that is still needed while `writer` writes in `slab`.
    fn read_before(&self, flow: &Flow, writer: usize, old: usize, slab: usize) -> usize {
        let planes = self.values[old].planes;
        let mut first = planes;
        for (reader, w) in flow.works.clone().enumerate() {
            let work = &self.works[w];
            let as_source = work.sources.contains(&old);
            let as_operand = work.operands().any(|v| v == old);
            let done = |slabs: usize| flow.done(reader, slabs);
            let outs = self.planes_of(w);
            if as_source {
                // What reads before the writer in a slab has read by then; so has the writer itself, voxel by voxel.
                let passed = w < writer || (w == writer && work.aligned);
                let slabs = if passed { slab + 1 } else { slab };
                first = first.min(work.along.first(done(slabs), outs, planes));
            }
            if as_operand {
                let slabs = if w <= writer { slab + 1 } else { slab };
                first = first.min(done(slabs));
            }
        }
        first
    }
}
