//! The engine's own counting: a place is held from the step that first touches it to the step that last does.

use crate::memory::Schedule;
use crate::units::Bytes;

/// What is held while a pass runs.
pub(super) struct Counter {
    /// Places that a step touches, and their bytes.
    touches: Vec<Vec<(usize, u64)>>,
    /// Bytes of the places that no later step touches.
    ends: Vec<u64>,
    held: Vec<bool>,
    now: u64,
    seen: Vec<Bytes>,
}

impl Counter {
    /// A counter for the steps of a schedule; allocates all that it will need.
    pub(super) fn new(schedule: &Schedule) -> Self {
        let n = schedule.steps.len();
        let mut last = vec![0; schedule.tensors.len()];
        let touches: Vec<Vec<(usize, u64)>> = schedule
            .steps
            .iter()
            .enumerate()
            .map(|(step, s)| {
                let mut here: Vec<usize> = s.reads.iter().chain(&s.writes).copied().collect();
                here.sort_unstable();
                here.dedup();
                for &place in &here {
                    last[place] = step;
                }
                let bytes = |place: usize| schedule.tensors[place].bytes.align_up(256).0;
                here.into_iter().map(|p| (p, bytes(p))).collect()
            })
            .collect();
        let mut ends = vec![0; n];
        for (step, here) in touches.iter().enumerate() {
            ends[step] = here
                .iter()
                .filter(|(place, _)| last[*place] == step)
                .map(|(_, bytes)| bytes)
                .sum();
        }
        Self {
            held: vec![false; schedule.tensors.len()],
            seen: Vec::with_capacity(n),
            now: 0,
            touches,
            ends,
        }
    }

    /// A step is about to run.
    pub(super) fn begin(&mut self, step: usize) {
        if step == 0 {
            self.seen.clear();
            self.held.fill(false);
            self.now = 0;
        }
        for &(place, bytes) in &self.touches[step] {
            if !std::mem::replace(&mut self.held[place], true) {
                self.now += bytes;
            }
        }
        self.seen.push(Bytes(self.now));
    }

    /// It has run.
    pub(super) fn end(&mut self, step: usize) {
        self.now -= self.ends[step];
    }

    /// Bytes held at each step of the last pass over the network.
    pub(super) fn seen(&self) -> &[Bytes] {
        &self.seen
    }
}
