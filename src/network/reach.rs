//! How far into the input an output sees: the interval that it needs, followed back through the graph, for every phase.

use super::axes;
use super::graph::{Graph, Node, Op, PadMode, TensorId};
use super::size::Size;
use super::stride::{Ratio, Strides};
use super::tensor_op::{Coordinates, Nearest, TensorOp};
use serde::{Deserialize, Serialize};

/// Input voxels beyond an output's own stride cell that it depends on, per tensor axis; `None` when there is no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// Towards smaller indices, from the first voxel of the cell.
    pub left: Vec<Option<usize>>,
    /// Towards larger indices, from the last voxel of the cell.
    pub right: Vec<Option<usize>>,
}

impl Reach {
    /// The largest of several, axis by axis; unbounded when one is.
    pub fn largest(all: &[Self]) -> Self {
        let worst = |pick: fn(&Self) -> &Vec<Option<usize>>| {
            let axes = all.iter().map(|r| pick(r).len()).max().unwrap_or(0);
            (0..axes)
                .map(|axis| {
                    all.iter()
                        .map(|r| pick(r).get(axis).copied().flatten())
                        .try_fold(0, |worst, one| Some(worst.max(one?)))
                })
                .collect()
        };
        Self {
            left: worst(|r| &r.left),
            right: worst(|r| &r.right),
        }
    }
}

/// Most voxels that are followed one by one; larger ranges are taken whole, which is safe.
const MOST_STEPS: i64 = 1 << 16;

/// The voxels of a tensor that are needed along one axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Ranges from first to last, apart from each other and in order.
    Runs(Vec<Run>),
    Everything,
}

/// First and last of some voxels in a row.
pub(super) type Run = (i64, i64);

impl Need {
    /// Ranges in any order, joined where they touch.
    pub(super) fn of(mut runs: Vec<Run>) -> Self {
        runs.sort_unstable();
        let mut out: Vec<Run> = Vec::with_capacity(runs.len());
        for (lo, hi) in runs {
            match out.last_mut() {
                Some(last) if lo <= last.1 + 1 => last.1 = last.1.max(hi),
                _ => out.push((lo, hi)),
            }
        }
        Self::Runs(out)
    }

    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Runs(mut a), Self::Runs(b)) => {
                a.extend(b);
                Self::of(a)
            }
            _ => Self::Everything,
        }
    }

    /// What each run needs, together; `None` when that is nothing.
    fn map(self, f: impl Fn(Run) -> Vec<Run>) -> Option<Self> {
        let Self::Runs(runs) = self else {
            return Some(Self::Everything);
        };
        let out: Vec<Run> = runs.into_iter().flat_map(f).collect();
        (!out.is_empty()).then(|| Self::of(out))
    }
}

/// The voxels that `taps` of each voxel of a run lead to, one by one.
fn each<I: Iterator<Item = i64>>((lo, hi): Run, taps: impl Fn(i64) -> I) -> Vec<Run> {
    if hi - lo <= MOST_STEPS {
        return (lo..=hi).flat_map(taps).map(|at| (at, at)).collect();
    }
    let first = (lo..=lo + MOST_STEPS / 2).flat_map(&taps).min();
    let last = (hi - MOST_STEPS / 2..=hi).flat_map(&taps).max();
    first.zip(last).into_iter().collect()
}

/// The reach of one output.
pub(crate) fn of(graph: &Graph, output: TensorId, strides: &Strides, total: &[usize]) -> Reach {
    let mut reach = Reach::default();
    for (axis, total) in total.iter().enumerate() {
        let sides = strides
            .get(output, axis)
            .and_then(|r| along((graph, strides), output, axis, (r, *total)));
        reach.left.push(sides.map(|s| s.0));
        reach.right.push(sides.map(|s| s.1));
    }
    reach
}

fn along(
    graph: (&Graph, &Strides),
    output: TensorId,
    axis: usize,
    (r, total): (Ratio, usize),
) -> Option<(usize, usize)> {
    let (num, den) = (i64::try_from(r.num).ok()?, i64::try_from(r.den).ok()?);
    let phases = i64::try_from(total)
        .ok()?
        .checked_mul(den)?
        .checked_div(num)?;
    let phases = phases.clamp(1, 4096);
    let (mut left, mut right) = (0, 0);
    for phase in 0..phases {
        let first = (phase * num).div_euclid(den);
        let last = first.max(((phase + 1) * num - 1).div_euclid(den));
        let (lo, hi) = back(graph, output, axis, phase)?;
        left = left.max(first - lo);
        right = right.max(hi - last);
    }
    Some((
        usize::try_from(left).unwrap_or(0),
        usize::try_from(right).unwrap_or(0),
    ))
}

/// First and last input voxel that one voxel of the output needs, on a grid without borders; `None` without a bound.
fn back(
    (graph, strides): (&Graph, &Strides),
    output: TensorId,
    axis: usize,
    at: i64,
) -> Option<(i64, i64)> {
    let mut needs: Vec<Option<Need>> = vec![None; graph.tensors.len()];
    *needs.get_mut(output.index())? = Some(Need::of(vec![(at, at)]));
    for node in graph.nodes.iter().rev() {
        let wanted = node
            .outputs
            .iter()
            .filter_map(|id| needs.get(id.index()).cloned().flatten())
            .reduce(Need::join);
        let Some(wanted) = wanted else { continue };
        for (i, id) in node.inputs.iter().enumerate() {
            if graph.is_weight(*id) {
                continue;
            }
            let need = match &node.op {
                Op::Tensor(op) => {
                    by_tensor_op((graph, strides), (op, node), i, axis, wanted.clone())
                }
                op => through(op, wanted.clone(), axis),
            };
            let Some(need) = need else { continue };
            let slot = needs.get_mut(id.index())?;
            *slot = Some(match slot.take() {
                Some(old) => old.join(need),
                None => need,
            });
        }
    }
    let whole = graph
        .inputs
        .iter()
        .filter_map(|id| needs.get(id.index()).cloned().flatten())
        .reduce(Need::join);
    match whole {
        Some(Need::Runs(runs)) => Some((runs.first()?.0, runs.last()?.1)),
        Some(Need::Everything) => None,
        None => Some((at, at)),
    }
}

/// What a node needs of its input to make `wanted`; `None` when it needs nothing there.
pub(super) fn through(op: &Op, wanted: Need, axis: usize) -> Option<Need> {
    let at = |v: &[usize]| {
        v.get(axis)
            .and_then(|n| i64::try_from(*n).ok())
            .unwrap_or(0)
    };
    match op {
        Op::Conv {
            kernel,
            stride,
            pad_begin,
            dilation,
            ..
        } => windowed(wanted, [kernel, stride, pad_begin, dilation].map(|v| at(v))),
        Op::MaxPool {
            kernel,
            stride,
            pad_begin,
            ..
        }
        | Op::AvgPool {
            kernel,
            stride,
            pad_begin,
            ..
        } => windowed(wanted, [at(kernel), at(stride), at(pad_begin), 1]),
        Op::ConvTranspose {
            kernel,
            stride,
            pad_begin,
            dilation,
            ..
        } => {
            let (k, s, p, l) = (
                at(kernel).max(1),
                at(stride).max(1),
                at(pad_begin),
                at(dilation).max(1),
            );
            // Output o takes input i through tap t where o + p = i s + t l. A phase without a tap reads nothing.
            wanted.map(|(lo, hi)| {
                if l == 1 && k >= s {
                    return vec![(-((k - 1 - lo - p).div_euclid(s)), (hi + p).div_euclid(s))];
                }
                each((lo, hi), |o| {
                    (0..k).filter_map(move |t| {
                        let from = o + p - t * l;
                        (from.rem_euclid(s) == 0).then(|| from.div_euclid(s))
                    })
                })
            })
        }
        Op::UpsampleNearest { scale } => {
            let s = at(scale).max(1);
            wanted.map(|(lo, hi)| vec![(lo.div_euclid(s), hi.div_euclid(s))])
        }
        Op::UpsampleLinear {
            scale,
            align_corners,
        } => {
            let s = at(scale).max(1);
            if *align_corners && s > 1 {
                return Some(Need::Everything);
            }
            // Half-voxel centres: output o lies at (2o + 1 - s) / 2s of the input.
            wanted.map(|(lo, hi)| {
                let (first, last) = (2 * lo + 1 - s, 2 * hi + 1 - s);
                vec![(first.div_euclid(2 * s), -((-last).div_euclid(2 * s)))]
            })
        }
        Op::Pad {
            mode: PadMode::Wrap,
            ..
        }
        | Op::GlobalAvgPool
        | Op::Tensor(_)
        | Op::Other { .. } => Some(Need::Everything),
        Op::Pad { begin, .. } => wanted.map(|(lo, hi)| vec![(lo - at(begin), hi - at(begin))]),
        Op::BatchNorm { .. }
        | Op::InstanceNorm { .. }
        | Op::GroupNorm { .. }
        | Op::Activation(_)
        | Op::PRelu
        | Op::Add
        | Op::Mul
        | Op::Concat
        | Op::Softmax => Some(wanted),
    }
}

/// What windows of `kernel` taps need.
fn windowed(wanted: Need, [kernel, stride, pad, dilation]: [i64; 4]) -> Option<Need> {
    let (k, s, l) = (kernel.max(1), stride.max(1), dilation.max(1));
    wanted.map(|(lo, hi)| {
        if l == 1 && (k >= s || lo == hi) {
            return vec![(lo * s - pad, hi * s - pad + k - 1)];
        }
        each((lo, hi), |o| (0..k).map(move |t| o * s - pad + t * l))
    })
}

/// What an operation on tensors of any rank needs of its input number `input` along a network's axis.
fn by_tensor_op(
    (graph, strides): (&Graph, &Strides),
    (op, node): (&TensorOp, &Node),
    input: usize,
    axis: usize,
    wanted: Need,
) -> Option<Need> {
    let of = |id: Option<&TensorId>| id.and_then(|id| strides.along(*id, axis));
    let tracked = (of(node.inputs.get(input)), of(node.outputs.first()));
    let ((Some(from), Some(to)), Some((shapes, made))) = (tracked, strides.shapes_of(node)) else {
        return Some(Need::Everything);
    };
    if axes::follow(op, input, from.axis, &shapes, made) != Some(to.axis)
        || constant_varies(graph, (op, node), &shapes, (to.axis, made.len()))
    {
        return Some(Need::Everything);
    }
    let spatial = from.axis.saturating_sub(2);
    let at = |v: &[usize]| {
        v.get(spatial)
            .and_then(|n| i64::try_from(*n).ok())
            .unwrap_or(1)
    };
    match op {
        TensorOp::Slice { cuts } => match cuts.iter().find(|c| c.axis == from.axis) {
            Some(cut) => match cut.start {
                Size::Fixed(start) if start >= 0 && cut.step > 0 => {
                    wanted.map(|run| each(run, |o| std::iter::once(start + o * cut.step)))
                }
                _ => Some(Need::Everything),
            },
            None => Some(wanted),
        },
        TensorOp::Pad { begin, mode, .. } => match begin.get(from.axis) {
            Some(Size::Fixed(before)) if *mode != PadMode::Wrap => {
                wanted.map(|(lo, hi)| vec![(lo - before, hi - before)])
            }
            _ => Some(Need::Everything),
        },
        TensorOp::Concat { axis } if *axis == from.axis => Some(Need::Everything),
        TensorOp::Pool {
            kernel,
            stride,
            pad_begin,
            dilation,
            ..
        } => windowed(wanted, [kernel, stride, pad_begin, dilation].map(|v| at(v))),
        TensorOp::Resize {
            coordinates: Coordinates::AlignCorners,
            ..
        } => Some(Need::Everything),
        TensorOp::Resize {
            coordinates,
            nearest,
            ..
        } => {
            let ratio = shapes
                .first()
                .and_then(|x| Some((*x.get(from.axis)?, *made.get(to.axis)?)))
                .and_then(|sizes| axes::ratio(op, from.axis, sizes));
            let Some((up, down)) = ratio else {
                return Some(Need::Everything);
            };
            let (up, down) = (signed(up), signed(down));
            wanted.map(|run| {
                each(run, |o| {
                    let (first, last) = resize_taps(o, (up, down), *coordinates, *nearest);
                    [first, last].into_iter()
                })
            })
        }
        _ => Some(wanted),
    }
}

/// Whether a constant that the node reads differs from place to place along this axis of its result (of so many axes): then the
/// network knows where in its input a voxel lies.
fn constant_varies(
    graph: &Graph,
    (op, node): (&TensorOp, &Node),
    shapes: &[&[usize]],
    (axis, rank): (usize, usize),
) -> bool {
    node.inputs
        .iter()
        .zip(shapes)
        .enumerate()
        .any(|(i, (id, shape))| {
            // Broadcasting aligns last axes; a product's shared axis is none of its result's.
            let own = (axis + shape.len()).checked_sub(rank);
            let shared = match (op, i) {
                (TensorOp::MatMul, 0) => shape.len().checked_sub(1),
                (TensorOp::MatMul, 1) => shape.len().checked_sub(2),
                _ => None,
            };
            graph.is_weight(*id)
                && own.is_some_and(|a| Some(a) != shared && shape.get(a).is_some_and(|d| *d > 1))
        })
}

/// First and last input voxel that a resize by `down` / `up` (finer over coarser) reads for output `o`.
fn resize_taps(
    o: i64,
    (up, down): (i64, i64),
    coordinates: Coordinates,
    nearest: Option<Nearest>,
) -> Run {
    // Twice the place times `down`, so that halves stay whole.
    let n = match coordinates {
        Coordinates::Asymmetric => 2 * o * up,
        _ => (2 * o + 1) * up - down,
    };
    let (d, ceil) = (2 * down, |n: i64, d: i64| -((-n).div_euclid(d)));
    let one = |v: i64| (v, v);
    match nearest {
        Some(Nearest::Floor) => one(n.div_euclid(d)),
        Some(Nearest::Ceil) => one(ceil(n, d)),
        Some(Nearest::RoundPreferFloor) => one(ceil(n - down, d)),
        Some(Nearest::RoundPreferCeil) => one((n + down).div_euclid(d)),
        None => (n.div_euclid(d), ceil(n, d)),
    }
}

fn signed(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
