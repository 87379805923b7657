//! The steps of a graph as a list that can be cut into segments and rewritten: norms over space as two operations, values
//! that can be made again.

use super::flow::Along;
use crate::memory::arena::ALIGNMENT;
use crate::memory::lifetimes::scratch_bytes;
use crate::memory::lower::{Draft, DraftPost};
use crate::memory::schedule::{Kernel, Post};
use crate::network::{Graph, Op, TensorId, facts};
use std::collections::BTreeSet;

/// Something that is made once and read later.
#[derive(Clone, Debug)]
pub(super) struct Value {
    /// The graph's tensor; `None` for the sums of a norm.
    pub(super) tensor: Option<TensorId>,
    pub(super) name: String,
    /// Shape of a map, its bytes for sums.
    pub(super) shape: Vec<usize>,
    /// Planes along the first axis; 1 for sums.
    pub(super) planes: usize,
    /// Bytes of one plane of one window.
    pub(super) plane: u64,
    /// Bytes of it all.
    pub(super) bytes: u64,
}

impl Value {
    /// Bytes that it takes in the arena when whole.
    pub(super) const fn room(&self) -> u64 {
        self.bytes.next_multiple_of(ALIGNMENT)
    }

    /// Bytes that so many planes of it take in the arena.
    pub(super) const fn room_of(&self, planes: usize) -> u64 {
        (self.plane * planes as u64).next_multiple_of(ALIGNMENT)
    }
}

/// An epilogue part over values.
#[derive(Clone, Copy, Debug)]
pub(super) enum WorkPost {
    Alone(Post),
    Add(usize),
    Mul(usize),
}

/// One operation.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) name: String,
    pub(super) nodes: Vec<usize>,
    pub(super) kernel: Kernel,
    pub(super) sources: Vec<usize>,
    pub(super) posts: Vec<WorkPost>,
    pub(super) target: Option<usize>,
    pub(super) more: Vec<usize>,
    /// Sums that it makes (a measure) or reads (a norm applied).
    pub(super) sums: Option<usize>,
    /// Bytes that it needs besides while it runs.
    pub(super) scratch: u64,
    pub(super) along: Along,
    /// Whether each voxel of its target depends on the same voxel of its sources alone.
    pub(super) aligned: bool,
    pub(super) flops: u64,
    /// Whether an earlier operation did the same.
    pub(super) again: bool,
}

impl Work {
    /// Values that the epilogue reads.
    pub(super) fn operands(&self) -> impl Iterator<Item = usize> + '_ {
        self.posts.iter().filter_map(|p| match p {
            WorkPost::Alone(_) => None,
            WorkPost::Add(v) | WorkPost::Mul(v) => Some(*v),
        })
    }

    /// All maps that it reads.
    pub(super) fn reads(&self) -> impl Iterator<Item = usize> + '_ {
        self.sources.iter().copied().chain(self.operands())
    }

    /// Whether it makes the sums of a norm.
    pub(super) const fn measures(&self) -> bool {
        matches!(self.kernel, Kernel::Measure { .. })
    }

    /// Whether it can run slab by slab.
    pub(super) fn in_slabs(&self) -> bool {
        self.along != Along::Whole && self.more.is_empty()
    }
}

/// Operations in run order with the values between them.
#[derive(Clone, Debug)]
pub(super) struct Program<'a> {
    pub(super) graph: &'a Graph,
    pub(super) values: Vec<Value>,
    pub(super) works: Vec<Work>,
    /// The operation that makes each value.
    pub(super) made: Vec<usize>,
    /// The last operation that reads each value; the one that makes it when none does.
    pub(super) last: Vec<usize>,
}

impl<'a> Program<'a> {
    /// The operations of lowered steps; `None` when a value is larger than 2^64 bytes.
    pub(super) fn new(
        graph: &'a Graph,
        drafts: &[Draft],
        shapes: &[Vec<usize>],
        value_bytes: u64,
    ) -> Option<Self> {
        let mut program = Self {
            graph,
            values: Vec::new(),
            works: Vec::new(),
            made: Vec::new(),
            last: Vec::new(),
        };
        let flops = facts::flops(graph, shapes);
        let mut of: Vec<Option<usize>> = vec![None; graph.tensors.len()];
        for draft in drafts {
            program.push(draft, shapes, value_bytes, (&flops, &mut of))?;
        }
        program.refresh();
        Some(program)
    }

    fn push(
        &mut self,
        draft: &Draft,
        shapes: &[Vec<usize>],
        value_bytes: u64,
        (flops, of): (&[u64], &mut [Option<usize>]),
    ) -> Option<()> {
        let find = |t: &TensorId, of: &[Option<usize>]| of[t.index()];
        let sources: Vec<usize> = draft.sources.iter().filter_map(|t| find(t, of)).collect();
        let posts = draft.posts.iter().filter_map(|p| {
            Some(match p {
                DraftPost::Alone(post) => WorkPost::Alone(*post),
                DraftPost::Add(t) => WorkPost::Add(find(t, of)?),
                DraftPost::Mul(t) => WorkPost::Mul(find(t, of)?),
            })
        });
        let posts: Vec<WorkPost> = posts.collect();
        let mut work = Work {
            name: draft.name.clone(),
            nodes: draft.nodes.clone(),
            kernel: draft.kernel,
            sources,
            posts,
            target: None,
            more: vec![],
            sums: None,
            scratch: 0,
            along: self.along(draft.kernel),
            aligned: self.aligned(draft.kernel),
            flops: draft.nodes.iter().map(|n| flops[*n]).sum(),
            again: false,
        };
        if let Kernel::Node { node, .. } = draft.kernel {
            let op = &self.graph.nodes[node].op;
            let source = &shapes[draft.sources.first()?.index()];
            if op.is_spatial_norm() {
                let share = flops[node] / 8 * 3;
                let sums = self.sums(&draft.name, scratch_bytes(source)?)?;
                let slabs = if self.graph.spatial_dims == 3 {
                    Along::Same
                } else {
                    Along::Whole
                };
                self.works.push(Work {
                    name: format!("{} sums", draft.name),
                    nodes: vec![],
                    kernel: Kernel::Measure { node },
                    posts: vec![],
                    sums: Some(sums),
                    along: slabs,
                    flops: share,
                    ..work.clone()
                });
                work.kernel = Kernel::Apply { node };
                work.sums = Some(sums);
                work.along = slabs;
                work.flops -= share;
            } else if matches!(op, Op::GlobalAvgPool) {
                work.scratch = scratch_bytes(source)?;
            }
        }
        if let Some(t) = draft.target {
            work.target = Some(self.map(t, shapes, value_bytes)?);
            of[t.index()] = work.target;
        }
        for t in &draft.more_targets {
            let value = self.map(*t, shapes, value_bytes)?;
            of[t.index()] = Some(value);
            work.more.push(value);
        }
        self.works.push(work);
        Some(())
    }

    fn along(&self, kernel: Kernel) -> Along {
        match kernel {
            _ if self.graph.spatial_dims != 3 => Along::Whole,
            Kernel::Pointwise => Along::Same,
            Kernel::Node { node, .. } => Along::of(&self.graph.nodes[node].op),
            _ => Along::Whole,
        }
    }

    fn aligned(&self, kernel: Kernel) -> bool {
        match kernel {
            Kernel::Pointwise => true,
            Kernel::Node { node, .. } => {
                let op = &self.graph.nodes[node].op;
                op.is_spatial_norm() || matches!(op, Op::BatchNorm { .. } | Op::Softmax)
            }
            _ => false,
        }
    }

    fn map(&mut self, t: TensorId, shapes: &[Vec<usize>], value_bytes: u64) -> Option<usize> {
        let shape = shapes[t.index()].clone();
        let product = |dims: &[usize]| {
            dims.iter()
                .try_fold(value_bytes, |n, &d| n.checked_mul(d as u64))
        };
        let bytes = product(&shape)?;
        let planes = shape.get(2).copied().unwrap_or(1);
        let windows = shape.first().copied().unwrap_or(1);
        self.values.push(Value {
            tensor: Some(t),
            name: self.graph.tensors[t.index()].name.clone(),
            planes,
            plane: bytes / (planes as u64 * windows as u64).max(1),
            bytes,
            shape,
        });
        Some(self.values.len() - 1)
    }

    fn sums(&mut self, name: &str, bytes: u64) -> Option<usize> {
        self.values.push(Value {
            tensor: None,
            name: format!("{name} sums"),
            shape: vec![usize::try_from(bytes).ok()?],
            planes: 1,
            plane: bytes,
            bytes,
        });
        Some(self.values.len() - 1)
    }

    /// Finds anew who makes and who last reads each value.
    fn refresh(&mut self) {
        self.made = vec![0; self.values.len()];
        self.last = vec![0; self.values.len()];
        for (w, work) in self.works.iter().enumerate() {
            for v in work.reads().chain(work.sums) {
                self.last[v] = self.last[v].max(w);
            }
            let own_sums = if work.measures() { work.sums } else { None };
            for v in work
                .target
                .iter()
                .chain(&work.more)
                .copied()
                .chain(own_sums)
            {
                self.made[v] = w;
                self.last[v] = self.last[v].max(w);
            }
        }
    }

    /// Planes that an operation makes (a measure: reads).
    pub(super) fn planes_of(&self, work: usize) -> usize {
        let w = &self.works[work];
        w.target
            .or_else(|| w.sources.first().copied())
            .map_or(1, |v| self.values[v].planes)
    }

    /// Whether a segment up to `end` must bring this operation to its end by itself: what it makes is kept.
    pub(super) fn ends_in(&self, work: usize, end: usize) -> bool {
        self.works[work]
            .target
            .is_none_or(|v| self.last[v] >= end || self.last[v] == work)
    }

    /// Floating point operations of all.
    pub(super) fn flops(&self) -> u64 {
        self.works.iter().fold(0, |n, w| n.saturating_add(w.flops))
    }

    /// The first operation from `from` on that reads a value.
    pub(super) fn next_reader(&self, value: usize, from: usize) -> Option<usize> {
        (from..self.works.len()).find(|w| self.works[*w].reads().any(|v| v == value))
    }

    /// The same program in which readers of `value` from operation `at` on read one that is made again just before: with
    /// more and more of what it is made from made again too, as long as less is kept for it than before.
    pub(super) fn again(&self, value: usize, at: usize) -> Vec<Self> {
        let mut works = BTreeSet::from([self.made[value]]);
        let mut found: Vec<(u64, BTreeSet<usize>)> = Vec::new();
        loop {
            if works
                .iter()
                .any(|w| !self.works[*w].in_slabs() || self.works[*w].target.is_none())
            {
                break;
            }
            let mut kept: BTreeSet<usize> = works
                .iter()
                .flat_map(|w| self.works[*w].reads())
                .filter(|v| !works.contains(&self.made[*v]) && self.last[*v] < at)
                .collect();
            let bytes: u64 = kept.iter().map(|v| self.values[*v].room()).sum();
            let least = found
                .last()
                .map_or_else(|| self.values[value].room(), |f| f.0);
            if bytes < least {
                found.push((bytes, works.clone()));
            }
            kept.retain(|v| self.works[self.made[*v]].in_slabs());
            let Some(next) = kept
                .into_iter()
                .max_by_key(|v| (self.values[*v].room(), *v))
            else {
                break;
            };
            works.insert(self.made[next]);
        }
        // The cheapest, the one that keeps least, and one between.
        let mut picks = vec![0, found.len() / 2, found.len().saturating_sub(1)];
        picks.dedup();
        picks
            .into_iter()
            .filter_map(|i| found.get(i))
            .map(|(_, works)| self.rewritten(value, at, works))
            .collect()
    }

    fn rewritten(&self, value: usize, at: usize, again: &BTreeSet<usize>) -> Self {
        let mut new = self.clone();
        let mut renamed: Vec<usize> = (0..self.values.len()).collect();
        let mut copies = Vec::new();
        for w in again {
            let mut work = self.works[*w].clone();
            for v in &mut work.sources {
                *v = renamed[*v];
            }
            for post in &mut work.posts {
                if let WorkPost::Add(v) | WorkPost::Mul(v) = post {
                    *v = renamed[*v];
                }
            }
            if let Some(target) = &mut work.target {
                let copy = self.values[*target].clone();
                new.values.push(copy);
                renamed[*target] = new.values.len() - 1;
                *target = renamed[*target];
            }
            work.again = true;
            copies.push(work);
        }
        for work in &mut new.works[at..] {
            for v in &mut work.sources {
                if *v == value {
                    *v = renamed[value];
                }
            }
            for post in &mut work.posts {
                if let WorkPost::Add(v) | WorkPost::Mul(v) = post
                    && *v == value
                {
                    *v = renamed[value];
                }
            }
        }
        new.works.splice(at..at, copies);
        new.drop_unread();
        new
    }

    /// Leaves out operations whose result nobody reads.
    fn drop_unread(&mut self) {
        loop {
            self.refresh();
            let unread = |(w, work): (usize, &Work)| {
                let kept = matches!(work.kernel, Kernel::Gather | Kernel::Outputs)
                    || !work.more.is_empty();
                let result = work.target.or(work.sums);
                !kept && result.is_none_or(|v| self.last[v] == w)
            };
            let Some(w) = self.works.iter().enumerate().position(unread) else {
                return;
            };
            self.works.remove(w);
        }
    }
}
