//! Shapes and arithmetic of the operations on tensors of any rank.

use super::graph::PadMode;
use super::shapes::{reflects, text};
use super::size::Size;
use super::tensor_op::{Cut, ResizeTo, TensorOp};

/// The shape that an operation makes of its inputs' shapes; `all` are the shapes of the whole graph, which sizes may name.
pub(super) fn made(
    op: &TensorOp,
    inputs: &[&[usize]],
    all: &[Vec<usize>],
) -> Result<Vec<usize>, String> {
    let x = *inputs.first().ok_or("it needs an input")?;
    match op {
        TensorOp::Reshape { to } => reshaped(x, &sizes(to, all)?),
        TensorOp::Transpose { perm } => {
            let mut sorted = perm.clone();
            sorted.sort_unstable();
            if !sorted.iter().copied().eq(0..x.len()) {
                return Err(format!(
                    "its permutation {perm:?} does not name the {} axes of its input once each",
                    x.len()
                ));
            }
            Ok(perm.iter().filter_map(|p| x.get(*p).copied()).collect())
        }
        TensorOp::Slice { cuts } => {
            let mut out = x.to_vec();
            for cut in cuts {
                let (_, _, len) = cut_at(cut, x, all)?;
                if let Some(slot) = out.get_mut(cut.axis) {
                    *slot = len;
                }
            }
            Ok(out)
        }
        TensorOp::Concat { axis } => joined(inputs, *axis),
        TensorOp::Pad { begin, end, mode } => {
            let (begin, end) = (sizes(begin, all)?, sizes(end, all)?);
            if *mode == PadMode::Reflect {
                let most = begin.iter().zip(&end).map(|(b, e)| *b.max(e));
                reflects(x, most.map(|n| usize::try_from(n).unwrap_or(0)))?;
            }
            padded(x, &begin, &end)
        }
        TensorOp::Expand { to } => {
            let to: Vec<usize> = whole(&sizes(to, all)?)?;
            broadcast(x, &to)
        }
        TensorOp::Gather { axis, index } => {
            let mut out = x.to_vec();
            let slot = out.get_mut(*axis).ok_or_else(|| no_axis(*axis, x))?;
            let size = i64::try_from(*slot).unwrap_or(i64::MAX);
            if let Some(bad) = index.iter().find(|i| **i >= size || **i < -size) {
                return Err(format!("it picks place {bad} of an axis of {size}"));
            }
            *slot = index.len();
            Ok(out)
        }
        TensorOp::Tile { repeats } => {
            if repeats.len() != x.len() {
                return Err(format!(
                    "it has {} repeats for an input of {}",
                    repeats.len(),
                    text(x)
                ));
            }
            x.iter()
                .zip(repeats)
                .map(|(d, r)| d.checked_mul(*r))
                .collect::<Option<_>>()
                .ok_or_else(|| "the size overflows".to_owned())
        }
        TensorOp::MatMul => matmul(x, inputs.get(1).ok_or("it needs two inputs")?),
        TensorOp::Linear => linear(inputs),
        TensorOp::Window(op) => op.made(inputs),
        TensorOp::Binary(_) | TensorOp::Where => inputs
            .iter()
            .try_fold(Vec::new(), |all, one| broadcast(&all, one)),
        TensorOp::Softmax { first, last, .. } if *first <= *last && *last < x.len() => {
            Ok(x.to_vec())
        }
        TensorOp::Softmax { last, .. } => Err(no_axis(*last, x)),
        TensorOp::LayerNorm { axis, .. } => {
            let inner: usize = x
                .get(*axis..)
                .filter(|s| !s.is_empty())
                .ok_or_else(|| no_axis(*axis, x))?
                .iter()
                .product();
            match inputs
                .iter()
                .skip(1)
                .find(|w| w.iter().product::<usize>() != inner)
            {
                Some(w) => Err(format!(
                    "its weight of {} does not have the {inner} values that are normalised together",
                    text(w)
                )),
                None => Ok(x.to_vec()),
            }
        }
        TensorOp::Reduce { axes, keep, .. } => {
            if let Some(bad) = axes.iter().find(|a| **a >= x.len()) {
                return Err(no_axis(*bad, x));
            }
            if x.iter()
                .enumerate()
                .any(|(i, d)| *d == 0 && axes.contains(&i))
            {
                return Err("it reduces an axis without values".to_owned());
            }
            Ok(x.iter()
                .enumerate()
                .filter_map(|(i, d)| match (axes.contains(&i), keep) {
                    (false, _) => Some(*d),
                    (true, true) => Some(1),
                    (true, false) => None,
                })
                .collect())
        }
        TensorOp::Pool { .. } => pooled(op, x),
        TensorOp::Resize { to, .. } => resized(to, x, all),
    }
}

fn no_axis(axis: usize, x: &[usize]) -> String {
    format!("it names axis {axis} of an input of {}", text(x))
}

pub(crate) fn sizes(of: &[Size], all: &[Vec<usize>]) -> Result<Vec<i64>, String> {
    of.iter()
        .map(|s| {
            s.value(all)
                .ok_or_else(|| "a size of it cannot be worked out".to_owned())
        })
        .collect()
}

fn whole(sizes: &[i64]) -> Result<Vec<usize>, String> {
    sizes
        .iter()
        .map(|s| usize::try_from(*s).map_err(|_negative| format!("it asks for a size of {s}")))
        .collect()
}

fn reshaped(x: &[usize], to: &[i64]) -> Result<Vec<usize>, String> {
    let out = whole(to)?;
    let count = |s: &[usize]| s.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    if count(x).is_some() && count(x) == count(&out) {
        Ok(out)
    } else {
        Err(format!("{} cannot be seen as {}", text(x), text(&out)))
    }
}

/// First place, step and length of a cut of a shape.
pub(crate) fn cut_at(
    cut: &Cut,
    x: &[usize],
    all: &[Vec<usize>],
) -> Result<(usize, i64, usize), String> {
    let size = *x.get(cut.axis).ok_or_else(|| no_axis(cut.axis, x))?;
    let n = i64::try_from(size).map_err(|_large| "an axis is too long".to_owned())?;
    let places = sizes(&[cut.start.clone(), cut.end.clone()], all)?;
    let (&[start, end], step) = (places.as_slice(), cut.step) else {
        return Err("a place of it cannot be worked out".to_owned());
    };
    let wrap = |v: i64| if v < 0 { v.saturating_add(n) } else { v };
    let (start, end) = if step > 0 {
        (wrap(start).clamp(0, n), wrap(end).clamp(0, n))
    } else {
        (wrap(start).clamp(-1, n - 1), wrap(end).clamp(-1, n - 1))
    };
    let span = if step > 0 { end - start } else { start - end };
    let stride = step
        .checked_abs()
        .filter(|s| *s > 0)
        .ok_or("it has a step of 0")?;
    let len = if span <= 0 {
        0
    } else {
        (span - 1) / stride + 1
    };
    let found = (usize::try_from(start.max(0)), usize::try_from(len));
    match found {
        (Ok(start), Ok(len)) if len > 0 => Ok((start, step, len)),
        _ => Err(format!(
            "it leaves nothing of an axis of {size} (from {start} to {end} by {step})"
        )),
    }
}

fn joined(inputs: &[&[usize]], axis: usize) -> Result<Vec<usize>, String> {
    let mut out = inputs.first().map(|s| s.to_vec()).unwrap_or_default();
    for other in inputs.iter().skip(1) {
        let fits = other.len() == out.len()
            && out
                .iter()
                .zip(*other)
                .enumerate()
                .all(|(i, (a, b))| i == axis || a == b);
        let sum = match (out.get(axis), other.get(axis)) {
            (Some(a), Some(b)) if fits => a.checked_add(*b),
            _ => None,
        };
        let Some(sum) = sum else {
            return Err(format!(
                "its inputs must agree but along axis {axis}, found {} and {}",
                text(&out),
                text(other)
            ));
        };
        if let Some(slot) = out.get_mut(axis) {
            *slot = sum;
        }
    }
    if axis < out.len() {
        Ok(out)
    } else {
        Err(no_axis(axis, &out))
    }
}

fn padded(x: &[usize], begin: &[i64], end: &[i64]) -> Result<Vec<usize>, String> {
    if begin.len() != x.len() || end.len() != x.len() {
        return Err(format!(
            "it has {} amounts for an input of {}",
            begin.len() + end.len(),
            text(x)
        ));
    }
    x.iter()
        .zip(begin.iter().zip(end))
        .map(|(d, (b, e))| {
            let n = i64::try_from(*d).ok()?.checked_add(*b)?.checked_add(*e)?;
            usize::try_from(n).ok().filter(|n| *n > 0)
        })
        .collect::<Option<_>>()
        .ok_or_else(|| {
            format!(
                "padding {begin:?} and {end:?} of {} leaves nothing",
                text(x)
            )
        })
}

/// The common shape of two by the rules of broadcasting.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Result<Vec<usize>, String> {
    let rank = a.len().max(b.len());
    let size = |s: &[usize], i: usize| {
        (i + s.len())
            .checked_sub(rank)
            .and_then(|i| s.get(i).copied())
            .unwrap_or(1)
    };
    (0..rank)
        .map(|i| match (size(a, i), size(b, i)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            _ => Err(format!(
                "its inputs of {} and {} do not go together",
                text(a),
                text(b)
            )),
        })
        .collect()
}

fn matmul(a: &[usize], b: &[usize]) -> Result<Vec<usize>, String> {
    let ([outer_a @ .., m, k], [outer_b @ .., rows, n]) = (a, b) else {
        return Err(format!(
            "it needs two axes a side, found {} and {}",
            text(a),
            text(b)
        ));
    };
    if k != rows {
        return Err(format!(
            "rows of {k} cannot be multiplied with columns of {rows} ({} by {})",
            text(a),
            text(b)
        ));
    }
    let mut out = broadcast(outer_a, outer_b)?;
    out.extend([*m, *n]);
    Ok(out)
}

fn linear(inputs: &[&[usize]]) -> Result<Vec<usize>, String> {
    let (Some([outer @ .., k]), Some(weight), true) = (
        inputs.first(),
        inputs.get(1),
        inputs.first().is_some_and(|x| x.len() > 1),
    ) else {
        return Err("it needs an input with two axes and a weight".to_owned());
    };
    let bias = inputs.get(2);
    match weight {
        [n, columns] if columns == k && bias.is_none_or(|b| *b == [*n]) => {
            Ok([outer, &[*n]].concat())
        }
        _ => Err(format!(
            "its weight of {} does not take rows of {k}",
            text(weight)
        )),
    }
}

fn pooled(op: &TensorOp, x: &[usize]) -> Result<Vec<usize>, String> {
    let TensorOp::Pool {
        kernel,
        stride,
        pad_begin,
        pad_end,
        dilation,
        ceil,
        ..
    } = op
    else {
        return Err("it is no pool".to_owned());
    };
    let [n, channels, space @ ..] = x else {
        return Err(format!("expected (N, C, spatial...), found {}", text(x)));
    };
    let lists = [kernel, stride, pad_begin, pad_end, dilation];
    if lists.iter().any(|l| l.len() != space.len()) {
        return Err(format!(
            "its geometry must have {} entries an axis",
            space.len()
        ));
    }
    let mut out = vec![*n, *channels];
    for (i, d) in space.iter().enumerate() {
        let [k, s, b, e, l] = lists.map(|v| v.get(i).copied().unwrap_or(1));
        let span = k
            .checked_sub(1)
            .and_then(|k| k.checked_mul(l)?.checked_add(1));
        let room = span.and_then(|span| d.checked_add(b)?.checked_add(e)?.checked_sub(span));
        let (Some(room), true) = (room, s > 0) else {
            return Err(format!(
                "kernel {}, stride {} and padding do not fit an input of {}",
                text(kernel),
                text(stride),
                text(space)
            ));
        };
        let mut size = room / s + 1;
        // A window that would start behind the input and its padding before does not count.
        if *ceil && !room.is_multiple_of(s) && size * s < d + b {
            size += 1;
        }
        out.push(size);
    }
    Ok(out)
}

fn resized(to: &ResizeTo, x: &[usize], all: &[Vec<usize>]) -> Result<Vec<usize>, String> {
    let [n, channels, space @ ..] = x else {
        return Err(format!("expected (N, C, spatial...), found {}", text(x)));
    };
    let made: Vec<usize> = match to {
        ResizeTo::Sizes(of) => whole(&sizes(of, all)?)?,
        ResizeTo::Scales(scales) => space
            .iter()
            .zip(scales)
            .map(|(d, s)| scaled(*d, *s))
            .collect(),
        ResizeTo::Ratios(ratios) => space
            .iter()
            .zip(ratios)
            .map(|(d, (up, down))| d.saturating_mul(*up) / (*down).max(1))
            .collect(),
    };
    if made.len() != space.len() || made.contains(&0) {
        return Err(format!(
            "an input of {} cannot be resized to {}",
            text(space),
            text(&made)
        ));
    }
    Ok([&[*n, *channels], made.as_slice()].concat())
}

fn scaled(size: usize, scale: f32) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "rounds down as the format says; sizes are far below 2^24 and negatives become 0"
    )]
    let out = (size as f32 * scale).floor() as usize;
    out
}

/// Floating point operations of an operation that makes `made` of `inputs`.
pub(super) fn flops(op: &TensorOp, inputs: &[&[usize]], made: &[usize]) -> u64 {
    let values = |s: &[usize]| s.iter().fold(1u64, |n, d| n.saturating_mul(*d as u64));
    let out = values(made);
    let read = inputs.first().map_or(0, |s| values(s));
    match op {
        TensorOp::Reshape { .. }
        | TensorOp::Transpose { .. }
        | TensorOp::Slice { .. }
        | TensorOp::Concat { .. }
        | TensorOp::Pad { .. }
        | TensorOp::Expand { .. }
        | TensorOp::Gather { .. }
        | TensorOp::Tile { .. }
        | TensorOp::Window(_)
        | TensorOp::Where => 0,
        TensorOp::MatMul | TensorOp::Linear => {
            let k = inputs.first().and_then(|a| a.last()).copied().unwrap_or(1) as u64;
            let bias = if inputs.len() > 2 { out } else { 0 };
            out.saturating_mul(2).saturating_mul(k).saturating_add(bias)
        }
        TensorOp::Binary(_) => out,
        TensorOp::Softmax { .. } => out.saturating_mul(5),
        TensorOp::LayerNorm { .. } => out.saturating_mul(8),
        TensorOp::Reduce { .. } => read,
        TensorOp::Pool { kernel, .. } => out.saturating_mul(values(kernel)),
        TensorOp::Resize { nearest, .. } => {
            let axes = u32::try_from(made.len().saturating_sub(2)).unwrap_or(3);
            if nearest.is_some() {
                0
            } else {
                out.saturating_mul(2u64.saturating_pow(axes).saturating_mul(2))
            }
        }
    }
}
