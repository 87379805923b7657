//! Where a network's spatial axes lie in tensors of any shape, and how far operations on such tensors see along one.

use super::tensor_op::{ResizeTo, TensorOp};

/// Groups of axes with equal products, from the first axis on: how one shape is seen as another. `None` when they are not
/// the same values, or there are none.
pub(crate) fn groups(from: &[usize], to: &[usize]) -> Option<Vec<(Vec<usize>, Vec<usize>)>> {
    if from.contains(&0) || to.contains(&0) {
        return None;
    }
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    loop {
        match (from.get(i), to.get(j)) {
            (None, None) => return Some(out),
            (Some(1), other) if other != Some(&1) => {
                out.push((vec![i], vec![]));
                i += 1;
            }
            (other, Some(1)) if other != Some(&1) => {
                out.push((vec![], vec![j]));
                j += 1;
            }
            (Some(left), Some(right)) => {
                let (mut left, mut right) = (*left, *right);
                let (mut a, mut b) = (vec![i], vec![j]);
                (i, j) = (i + 1, j + 1);
                while left != right {
                    if left < right {
                        left = left.checked_mul(*from.get(i)?)?;
                        a.push(i);
                        i += 1;
                    } else {
                        right = right.checked_mul(*to.get(j)?)?;
                        b.push(j);
                        j += 1;
                    }
                }
                out.push((a, b));
            }
            _ => return None,
        }
    }
}

/// Which axis of the result an axis of input number `input` becomes; `None` when its values are mixed or it is repeated.
pub(super) fn follow(
    op: &TensorOp,
    input: usize,
    axis: usize,
    shapes: &[&[usize]],
    made: &[usize],
) -> Option<usize> {
    let x = *shapes.get(input)?;
    // Axes before are added by broadcasting.
    let aligned = || (axis + made.len()).checked_sub(x.len());
    match op {
        TensorOp::Transpose { perm } => perm.iter().position(|p| *p == axis),
        TensorOp::Reshape { .. } => {
            groups(x, made)?
                .into_iter()
                .find_map(|(a, b)| match (a.as_slice(), b.as_slice()) {
                    (&[a], &[b]) if a == axis => Some(b),
                    _ => None,
                })
        }
        TensorOp::Slice { cuts } => cuts
            .iter()
            .all(|c| c.axis != axis || c.step > 0)
            .then_some(axis),
        TensorOp::Gather { axis: picked, .. } => (*picked != axis).then_some(axis),
        TensorOp::Tile { repeats } => (repeats.get(axis) == Some(&1)).then_some(axis),
        TensorOp::Concat { .. }
        | TensorOp::Pad { .. }
        | TensorOp::Pool { .. }
        | TensorOp::Resize { .. } => Some(axis),
        TensorOp::Softmax { first, last, .. } => {
            (!(*first..=*last).contains(&axis)).then_some(axis)
        }
        TensorOp::LayerNorm { axis: from, .. } => (input == 0 && axis < *from).then_some(axis),
        TensorOp::Expand { .. } | TensorOp::Binary(_) | TensorOp::Where => {
            let at = aligned()?;
            (made.get(at) == x.get(axis)).then_some(at)
        }
        TensorOp::MatMul => {
            let contracted = match input {
                0 => x.len().checked_sub(1)?,
                1 => x.len().checked_sub(2)?,
                _ => return None,
            };
            if axis == contracted {
                return None;
            }
            let at = aligned()?;
            (made.get(at) == x.get(axis)).then_some(at)
        }
        TensorOp::Linear => (input == 0 && axis + 1 < x.len()).then_some(axis),
        TensorOp::Window(_) => None,
        TensorOp::Reduce { axes, keep, .. } => {
            if axes.contains(&axis) {
                return None;
            }
            let gone = axes.iter().filter(|a| **a < axis && !keep).count();
            axis.checked_sub(gone)
        }
    }
}

/// Input voxels per voxel of the result along a spatial axis, as (coarser, finer); `None` when it is no plain ratio.
pub(super) fn ratio(
    op: &TensorOp,
    axis: usize,
    (before, after): (usize, usize),
) -> Option<(usize, usize)> {
    let spatial = axis.checked_sub(2);
    match op {
        TensorOp::Slice { cuts } => {
            let step = cuts.iter().find(|c| c.axis == axis).map_or(1, |c| c.step);
            usize::try_from(step).ok().map(|s| (s, 1))
        }
        TensorOp::Pool { stride, .. } => stride.get(spatial?).map(|s| (*s, 1)),
        TensorOp::Resize { to, .. } => match to {
            ResizeTo::Ratios(of) => of.get(spatial?).map(|(up, down)| (*down, *up)),
            // Voxels lie as the scale says, whatever size it is rounded to.
            ResizeTo::Scales(of)
                if f64::from(*of.get(spatial?)?) * before as f64 != after as f64 =>
            {
                None
            }
            _ if after.is_multiple_of(before) => Some((1, after / before)),
            _ if before.is_multiple_of(after) => Some((before / after, 1)),
            _ => None,
        },
        _ => Some((1, 1)),
    }
}
