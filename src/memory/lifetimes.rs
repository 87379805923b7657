//! When each value lives, as half-open ranges of steps, and which values take turns in one place (in-place operations).

use super::arena::room;
use super::lower::{Draft, DraftPost};
use super::schedule::{Kernel, PlannedTensor, Post, Step, TimelinePoint};
use crate::network::layout::{self, Layout};
use crate::network::tensor_op::TensorOp;
use crate::network::{Graph, Op, TensorId};
use crate::units::Bytes;

/// Steps and the places that they use; offsets are still to come.
pub(super) struct Placed {
    pub(super) steps: Vec<Step>,
    pub(super) tensors: Vec<PlannedTensor>,
    pub(super) inputs: Vec<usize>,
    pub(super) outputs: Vec<usize>,
}

/// Bytes of one step's sums over space: per window, a pair of f64 per channel for each brick (one index of the first
/// axis) and one more for the total. `None` past 2^64.
pub fn scratch_bytes(shape: &[usize]) -> Option<u64> {
    let (batch, channels) = (shape.first()?, shape.get(1)?);
    let bricks = shape.get(2).copied().unwrap_or(1).checked_add(1)?;
    let pairs = batch.checked_mul(*channels)?.checked_mul(bricks)?;
    (pairs as u64).checked_mul(16)
}

struct Placing<'a> {
    graph: &'a Graph,
    shapes: &'a [Vec<usize>],
    value_bytes: u64,
    /// The step after the last one that reads each tensor.
    last: Vec<usize>,
    layouts: Vec<Layout>,
    /// Where each tensor lies.
    place: Vec<Option<usize>>,
    tensors: Vec<PlannedTensor>,
}

/// Gives every value a place; `None` when one is larger than 2^64 bytes.
pub(super) fn place(
    graph: &Graph,
    drafts: &[Draft],
    shapes: &[Vec<usize>],
    value_bytes: u64,
) -> Option<Placed> {
    let mut last = vec![0; graph.tensors.len()];
    for (step, draft) in drafts.iter().enumerate() {
        for t in draft.reads() {
            last[t.index()] = step + 1;
        }
        for t in draft.target.iter().chain(&draft.more_targets) {
            last[t.index()] = step + 1;
        }
    }
    let mut placing = Placing {
        graph,
        shapes,
        value_bytes,
        last,
        layouts: layout::of(graph),
        place: vec![None; graph.tensors.len()],
        tensors: Vec::with_capacity(drafts.len()),
    };
    let mut steps = Vec::with_capacity(drafts.len());
    for (index, draft) in drafts.iter().enumerate() {
        steps.push(placing.step(index, draft)?);
    }
    let find = |ids: &[TensorId]| {
        ids.iter()
            .filter_map(|t| placing.place[t.index()])
            .collect()
    };
    let (inputs, outputs) = (find(&graph.inputs), find(&graph.outputs));
    Some(Placed {
        steps,
        tensors: placing.tensors,
        inputs,
        outputs,
    })
}

impl Placing<'_> {
    fn step(&mut self, index: usize, draft: &Draft) -> Option<Step> {
        let sources: Vec<usize> = draft
            .sources
            .iter()
            .filter_map(|t| self.place[t.index()])
            .collect();
        let posts: Vec<Post> = draft.posts.iter().filter_map(|p| self.post(*p)).collect();
        let mut reads = sources.clone();
        reads.extend(posts.iter().filter_map(|p| match p {
            Post::Add(at) | Post::Mul(at) => Some(*at),
            Post::Act(_) | Post::PRelu(_) => None,
        }));
        reads.sort_unstable();
        reads.dedup();
        let mut target = None;
        if let Some(value) = draft.target {
            target = Some(match self.in_place(index, draft) {
                Some(at) => self.overwrite(at, value),
                None => self.new_place(index, value)?,
            });
        }
        let mut writes: Vec<usize> = target.into_iter().collect();
        for value in &draft.more_targets {
            writes.push(self.new_place(index, *value)?);
        }
        let scratch = self.scratch(index, draft)?;
        writes.extend(scratch);
        Some(Step {
            name: draft.name.clone(),
            nodes: draft.nodes.clone(),
            kernel: draft.kernel,
            sources,
            posts,
            target,
            scratch,
            reads,
            writes,
            slabs: None,
        })
    }

    fn post(&self, post: DraftPost) -> Option<Post> {
        Some(match post {
            DraftPost::Alone(post) => post,
            DraftPost::Add(t) => Post::Add(self.place[t.index()]?),
            DraftPost::Mul(t) => Post::Mul(self.place[t.index()]?),
        })
    }

    fn in_place(&self, index: usize, draft: &Draft) -> Option<usize> {
        let dies = |t: TensorId| self.last[t.index()] == index + 1;
        overwrites_in_place(self.graph, draft, self.shapes, &self.layouts, dies)
            .and_then(|t| self.place[t.index()])
    }

    fn overwrite(&mut self, at: usize, value: TensorId) -> usize {
        self.place[value.index()] = Some(at);
        let tensor = &mut self.tensors[at];
        tensor.last = tensor.last.max(self.last[value.index()]);
        tensor.values.push(value);
        at
    }

    fn new_place(&mut self, first: usize, value: TensorId) -> Option<usize> {
        let shape = self.shapes[value.index()].clone();
        let bytes = shape
            .iter()
            .try_fold(self.value_bytes, |n, &d| n.checked_mul(d as u64))?;
        let at = self.tensors.len();
        self.place[value.index()] = Some(at);
        self.tensors.push(PlannedTensor {
            name: self.graph.tensors[value.index()].name.clone(),
            shape,
            bytes: Bytes(bytes),
            first,
            last: self.last[value.index()],
            offset: Bytes::ZERO,
            values: vec![value],
            planes: None,
        });
        Some(at)
    }

    /// Room for the sums of a norm over space. The outer `None`: too large.
    #[expect(
        clippy::option_option,
        reason = "the inner one says that the step needs no scratch"
    )]
    fn scratch(&mut self, index: usize, draft: &Draft) -> Option<Option<usize>> {
        let Kernel::Node { node, .. } = draft.kernel else {
            return Some(None);
        };
        let op = &self.graph.nodes[node].op;
        if !op.is_spatial_norm() && !matches!(op, Op::GlobalAvgPool) {
            return Some(None);
        }
        let bytes = scratch_bytes(&self.shapes[draft.sources[0].index()])?;
        self.tensors.push(PlannedTensor {
            name: format!("{} sums", draft.name),
            shape: vec![usize::try_from(bytes).ok()?],
            bytes: Bytes(bytes),
            first: index,
            last: index + 1,
            offset: Bytes::ZERO,
            values: vec![],
            planes: None,
        });
        Some(Some(self.tensors.len() - 1))
    }
}

/// The tensor that a step may overwrite with its target: one that dies there, has the target's shape, and is read only at
/// the very voxel being written.
pub(super) fn overwrites_in_place(
    graph: &Graph,
    draft: &Draft,
    shapes: &[Vec<usize>],
    layouts: &[Layout],
    dies: impl Fn(TensorId) -> bool,
) -> Option<TensorId> {
    let target = draft.target?;
    let aligned = match draft.kernel {
        Kernel::Pointwise => true,
        Kernel::Node { node, .. } => reads_only_what_it_writes(&graph.nodes[node].op),
        _ => false,
    };
    let is_tensor_op = matches!(draft.kernel, Kernel::Node { node, .. }
        if matches!(graph.nodes[node].op, Op::Tensor(_)));
    draft.reads().find(|t| {
        let free = dies(*t) && same_values(shapes, layouts, *t, target);
        let alone = draft.reads().filter(|other| other == t).count() == 1;
        free && (alone || !is_tensor_op) && (aligned || !draft.sources.contains(t))
    })
}

/// Whether an operation reads no value but those at the very place, or the row, that it writes.
fn reads_only_what_it_writes(op: &Op) -> bool {
    match op {
        Op::BatchNorm { .. } | Op::InstanceNorm { .. } | Op::GroupNorm { .. } | Op::Softmax => true,
        // Row by row or value by value, where no other operand is a view of the same values.
        Op::Tensor(op) => matches!(
            op,
            TensorOp::Binary(_)
                | TensorOp::Where
                | TensorOp::Softmax { .. }
                | TensorOp::LayerNorm { .. }
        ),
        _ => false,
    }
}

/// Whether two tensors have their values at the same positions.
fn same_values(shapes: &[Vec<usize>], layouts: &[Layout], a: TensorId, b: TensorId) -> bool {
    let (a, b) = (a.index(), b.index());
    let count = |t: usize| shapes[t].iter().product::<usize>();
    layouts[a] == layouts[b]
        && (shapes[a] == shapes[b] || (layouts[a] == Layout::Rows && count(a) == count(b)))
}

/// Live bytes and what lives, step by step.
pub(super) fn timeline(steps: &[Step], tensors: &[PlannedTensor]) -> Vec<TimelinePoint> {
    let mut points: Vec<TimelinePoint> = steps
        .iter()
        .enumerate()
        .map(|(step, s)| TimelinePoint {
            step,
            name: s.name.clone(),
            live: Bytes::ZERO,
            tensors: Vec::new(),
        })
        .collect();
    for (index, tensor) in tensors.iter().enumerate() {
        for point in &mut points[tensor.first..tensor.last] {
            point.live = point.live.saturating_add(room(tensor));
            point.tensors.push(index);
        }
    }
    points
}
