//! The order of steps: as the network lists them, or with what frees most first, whichever has the lower peak.

use super::lifetimes::overwrites_in_place;
use super::lower::Draft;
use crate::network::layout::{self, Layout};
use crate::network::{Graph, TensorId};

struct Ordering<'a> {
    graph: &'a Graph,
    drafts: &'a [Draft],
    shapes: &'a [Vec<usize>],
    layouts: Vec<Layout>,
    bytes: Vec<u64>,
    /// Which drafts read each tensor.
    readers: Vec<Vec<usize>>,
}

/// A walk through the drafts: how often each tensor is still read, and what lives.
#[derive(Clone)]
struct Walk {
    left: Vec<usize>,
    live: u64,
    peak: u64,
}

/// The drafts in an order with the lowest peak known.
pub(super) fn lowest(
    graph: &Graph,
    drafts: Vec<Draft>,
    shapes: &[Vec<usize>],
    value_bytes: u64,
) -> Vec<Draft> {
    let ordering = Ordering::new(graph, &drafts, shapes, value_bytes);
    let (order, peak) = ordering.greedy();
    if order.len() != drafts.len() || peak >= ordering.peak() {
        return drafts;
    }
    order.into_iter().map(|d| drafts[d].clone()).collect()
}

impl<'a> Ordering<'a> {
    fn new(
        graph: &'a Graph,
        drafts: &'a [Draft],
        shapes: &'a [Vec<usize>],
        value_bytes: u64,
    ) -> Self {
        let size = |s: &Vec<usize>| {
            s.iter()
                .fold(value_bytes, |n, d| n.saturating_mul(*d as u64))
        };
        let mut readers = vec![Vec::new(); graph.tensors.len()];
        for (d, draft) in drafts.iter().enumerate() {
            for t in distinct(draft) {
                readers[t.index()].push(d);
            }
        }
        Self {
            graph,
            drafts,
            shapes,
            layouts: layout::of(graph),
            bytes: shapes.iter().map(size).collect(),
            readers,
        }
    }

    fn start(&self) -> Walk {
        Walk {
            left: self.readers.iter().map(Vec::len).collect(),
            live: 0,
            peak: 0,
        }
    }

    /// What lives while a draft runs, and after it.
    fn cost(&self, walk: &Walk, d: usize) -> (u64, u64) {
        let draft = &self.drafts[d];
        let dies = |t: TensorId| walk.left[t.index()] == 1;
        let dying: u64 = distinct(draft)
            .filter(|t| dies(*t))
            .map(|t| self.bytes[t.index()])
            .fold(0, u64::saturating_add);
        let made = draft.target.iter().chain(&draft.more_targets);
        let new: u64 = made
            .map(|t| self.bytes[t.index()])
            .fold(0, u64::saturating_add);
        let saved = overwrites_in_place(self.graph, draft, self.shapes, &self.layouts, dies)
            .map_or(0, |t| self.bytes[t.index()]);
        let unread = draft.target.filter(|t| self.readers[t.index()].is_empty());
        let gone = unread.map_or(0, |t| self.bytes[t.index()]);
        let during = walk.live.saturating_add(new).saturating_sub(saved);
        let after = walk.live.saturating_add(new).saturating_sub(dying);
        (during, after.saturating_sub(gone))
    }

    fn step(&self, walk: &mut Walk, d: usize) {
        let (during, after) = self.cost(walk, d);
        walk.peak = walk.peak.max(during);
        walk.live = after;
        for t in distinct(&self.drafts[d]) {
            walk.left[t.index()] -= 1;
        }
    }

    /// The peak in the order of the list.
    fn peak(&self) -> u64 {
        let mut walk = self.start();
        for d in 0..self.drafts.len() {
            self.step(&mut walk, d);
        }
        walk.peak
    }

    /// The order that always takes the step after which least lives, the first of several.
    fn greedy(&self) -> (Vec<usize>, u64) {
        let mut walk = self.start();
        let mut waits: Vec<usize> = self.drafts.iter().map(|d| distinct(d).count()).collect();
        let mut ready: Vec<usize> = (0..waits.len()).filter(|d| waits[*d] == 0).collect();
        let mut order = Vec::with_capacity(waits.len());
        while let Some(at) =
            (0..ready.len()).min_by_key(|i| (self.cost(&walk, ready[*i]).1, ready[*i]))
        {
            let d = ready.swap_remove(at);
            self.step(&mut walk, d);
            order.push(d);
            let draft = &self.drafts[d];
            for t in draft.target.iter().chain(&draft.more_targets) {
                for reader in &self.readers[t.index()] {
                    waits[*reader] -= 1;
                    if waits[*reader] == 0 {
                        ready.push(*reader);
                    }
                }
            }
        }
        (order, walk.peak)
    }
}

/// The tensors that a draft reads, each once.
fn distinct(draft: &Draft) -> impl Iterator<Item = TensorId> + '_ {
    let first = move |(i, t): (usize, TensorId)| {
        let before = draft.reads().take(i).any(|other| other == t);
        (!before).then_some(t)
    };
    draft.reads().enumerate().filter_map(first)
}

#[cfg(test)]
mod tests {
    use crate::memory::{Precision, schedule};
    use crate::network::builder::{Builder, Conv};

    #[test]
    fn a_small_branch_runs_before_a_large_one_that_would_wait_beside_it() {
        let mut b = Builder::new("branches", 3);
        let x = b.input("x", 4);
        let wide = b.conv("wide", x, Conv::k3(32));
        let wide = b.conv("wider", wide, Conv::k3(32));
        let low = b.max_pool("low", x, &[2; 3], &[2; 3], &[0; 3]);
        let low = b.conv("small", low, Conv::k3(2));
        let out = b.conv("out", wide, Conv::k1(2));
        b.output(out);
        b.output(low);
        let graph = b.finish();
        let plan = schedule::plan(&graph, &[32, 32, 32], 1, Precision::Fp32).unwrap();
        let at = |name: &str| plan.steps.iter().position(|s| s.name == name).unwrap();
        assert!(at("small") < at("wide"));
        assert_eq!(plan.arena, plan.lower_bound);
        // Two maps of 32 channels and the small output are all that lives at once.
        let map = 32 * 32 * 32 * 4;
        assert_eq!(plan.arena.0, 2 * 32 * map + 2 * map / 8);
    }
}
