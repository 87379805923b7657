//! How far into the input an output sees: the interval that it needs, followed back through the graph, for every phase.

use super::graph::{Graph, Op, TensorId};
use super::stride::{Ratio, Strides};
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

/// The voxels of a tensor that are needed along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Between(i64, i64),
    Everything,
}

impl Need {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Between(a, b), Self::Between(c, d)) => Self::Between(a.min(c), b.max(d)),
            _ => Self::Everything,
        }
    }
}

/// The reach of one output.
pub(crate) fn of(graph: &Graph, output: TensorId, strides: &Strides, total: &[usize]) -> Reach {
    let mut reach = Reach::default();
    for (axis, total) in total.iter().enumerate() {
        let sides = strides
            .get(output, axis)
            .and_then(|r| along(graph, output, axis, (r, *total)));
        reach.left.push(sides.map(|s| s.0));
        reach.right.push(sides.map(|s| s.1));
    }
    reach
}

fn along(
    graph: &Graph,
    output: TensorId,
    axis: usize,
    (r, total): (Ratio, usize),
) -> Option<(usize, usize)> {
    let (num, den) = (i64::try_from(r.num).ok()?, i64::try_from(r.den).ok()?);
    let phases = (i64::try_from(total).ok()? * den / num).clamp(1, 4096);
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
fn back(graph: &Graph, output: TensorId, axis: usize, at: i64) -> Option<(i64, i64)> {
    let mut needs: Vec<Option<Need>> = vec![None; graph.tensors.len()];
    *needs.get_mut(output.index())? = Some(Need::Between(at, at));
    for node in graph.nodes.iter().rev() {
        let wanted = node
            .outputs
            .iter()
            .filter_map(|id| needs.get(id.index()).copied().flatten())
            .reduce(Need::join);
        let Some(wanted) = wanted else { continue };
        let Some(need) = through(&node.op, wanted, axis) else {
            continue;
        };
        for id in node.inputs.iter().filter(|id| !graph.is_weight(**id)) {
            let slot = needs.get_mut(id.index())?;
            *slot = Some(slot.map_or(need, |old| old.join(need)));
        }
    }
    let whole = graph
        .inputs
        .iter()
        .filter_map(|id| needs.get(id.index()).copied().flatten())
        .reduce(Need::join);
    match whole {
        Some(Need::Between(lo, hi)) => Some((lo, hi)),
        Some(Need::Everything) => None,
        None => Some((at, at)),
    }
}

/// What a node needs of its input to make `wanted`; `None` when it needs nothing there.
pub(super) fn through(op: &Op, wanted: Need, axis: usize) -> Option<Need> {
    let Need::Between(lo, hi) = wanted else {
        return Some(Need::Everything);
    };
    let at = |v: &[usize]| {
        v.get(axis)
            .and_then(|n| i64::try_from(*n).ok())
            .unwrap_or(0)
    };
    let windowed = |kernel: &[usize], stride: &[usize], pad: &[usize], dilation: i64| {
        let (k, s, p) = (at(kernel).max(1), at(stride).max(1), at(pad));
        Need::Between(lo * s - p, hi * s - p + (k - 1) * dilation)
    };
    Some(match op {
        Op::Conv {
            kernel,
            stride,
            pad_begin,
            dilation,
            ..
        } => windowed(kernel, stride, pad_begin, at(dilation).max(1)),
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
        } => windowed(kernel, stride, pad_begin, 1),
        Op::ConvTranspose {
            kernel,
            stride,
            pad_begin,
            ..
        } => {
            let (k, s, p) = (at(kernel).max(1), at(stride).max(1), at(pad_begin));
            let (first, last) = (-((k - 1 - lo - p).div_euclid(s)), (hi + p).div_euclid(s));
            if first > last {
                return None;
            }
            Need::Between(first, last)
        }
        Op::UpsampleNearest { scale } => {
            let s = at(scale).max(1);
            Need::Between(lo.div_euclid(s), hi.div_euclid(s))
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
            let (first, last) = (2 * lo + 1 - s, 2 * hi + 1 - s);
            Need::Between(first.div_euclid(2 * s), -((-last).div_euclid(2 * s)))
        }
        Op::Pad { begin, .. } => Need::Between(lo - at(begin), hi - at(begin)),
        Op::GlobalAvgPool | Op::Other { .. } => Need::Everything,
        Op::BatchNorm { .. }
        | Op::InstanceNorm { .. }
        | Op::GroupNorm { .. }
        | Op::Activation(_)
        | Op::PRelu
        | Op::Add
        | Op::Mul
        | Op::Concat
        | Op::Softmax => wanted,
    })
}
