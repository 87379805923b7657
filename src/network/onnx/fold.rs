//! Constant folding: the shape arithmetic that exporters leave behind, computed once at the size the file was made for.

use super::constant::{Constant, Data};
use super::fold_values::{binary, choose, clip, reduce, scatter, unary};
use super::proto::Node;

/// Larger results are not worth computing: they are data, not shape arithmetic.
const MOST_VALUES: usize = 1 << 22;

/// The node's result when all its inputs are known; `None` when this does not know how.
pub(super) fn node(node: &Node<'_>, inputs: &[Option<&Constant>]) -> Option<Constant> {
    let x = inputs.first().copied().flatten();
    let at = |i: usize| inputs.get(i).copied().flatten();
    match node.op {
        "Identity" => x.cloned(),
        "Shape" => shape_of(node, &x?.shape),
        "Size" => Some(scalar(i64::try_from(x?.len()).ok()?)),
        "Cast" => Some(cast(x?, node.int("to", 1))),
        "Unsqueeze" => unsqueeze(x?, &axes(node, at(1))?),
        "Squeeze" => squeeze(x?, axes(node, at(1))),
        "Concat" => concat(inputs, node.int("axis", 0)),
        "Gather" => gather(x?, at(1)?, node.int("axis", 0)),
        "Slice" => slice(x?, &ranges(node, inputs)?),
        "Reshape" => reshape(x?, at(1)?.as_ints()?, node.int("allowzero", 0) != 0),
        "Transpose" => transpose(x?, node.ints("perm")),
        "Expand" => expand(x?, &sizes(at(1)?.as_ints()?)?),
        "Clip" => clip(x?, at(1), at(2)),
        "Range" => range(x?, at(1)?, at(2)?),
        "Where" => choose(x?, at(1)?, at(2)?),
        "ScatterND" if node.text("reduction", "none") == "none" => scatter(x?, at(1)?, at(2)?),
        "ReduceProd" | "ReduceSum" | "ReduceMax" | "ReduceMin" => reduce(node, x?, at(1)),
        // Of any number of tensors.
        "Min" | "Max" => inputs
            .iter()
            .skip(1)
            .try_fold(x?.clone(), |all, next| binary(node.op, &all, (*next)?)),
        "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Equal" | "Less" | "Greater" | "And" | "Or"
        | "LessOrEqual" | "GreaterOrEqual" | "Pow" => binary(node.op, x?, at(1)?),
        "Not" | "Neg" | "Sqrt" | "Floor" | "Ceil" | "Abs" | "Exp" | "Reciprocal" | "Round"
        | "Sign" => unary(node.op, x?),
        _ => None,
    }
}

/// The sizes of a tensor as `Shape` gives them, with `start` and `end` of opset 15.
pub(super) fn shape_of(node: &Node<'_>, shape: &[usize]) -> Option<Constant> {
    let rank = i64::try_from(shape.len()).ok()?;
    let clamp = |v: i64| usize::try_from(if v < 0 { v + rank } else { v }.clamp(0, rank)).ok();
    let (start, end) = (clamp(node.int("start", 0))?, clamp(node.int("end", rank))?);
    let part = shape.get(start..end.max(start))?;
    let values: Option<Vec<i64>> = part.iter().map(|d| i64::try_from(*d).ok()).collect();
    Some(Constant::ints(values?))
}

/// A tensor of this shape filled with the node's value (zero without).
pub(super) fn filled(shape: Vec<usize>, value: Option<&Constant>) -> Option<Constant> {
    let n = count(&shape)?;
    let data = match value.map(|v| &v.data) {
        Some(Data::Ints(v)) => Data::Ints(vec![*v.first()?; n].into()),
        Some(Data::Floats(v)) => Data::Floats(vec![*v.first()?; n].into()),
        None => Data::Floats(vec![0.0; n].into()),
    };
    Some(Constant { shape, data })
}

/// Sizes from integers, none negative.
pub(super) fn sizes(values: &[i64]) -> Option<Vec<usize>> {
    values.iter().map(|v| usize::try_from(*v).ok()).collect()
}

/// The shape that `Reshape` makes of one with its list.
pub(super) fn reshaped(shape: &[usize], to: &[i64], allow_zero: bool) -> Option<Vec<usize>> {
    let total = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
    let mut out = Vec::with_capacity(to.len());
    let mut free = None;
    for (i, v) in to.iter().enumerate() {
        out.push(match v {
            -1 if free.is_none() => {
                free = Some(i);
                1
            }
            0 if !allow_zero => *shape.get(i)?,
            v => usize::try_from(*v).ok()?,
        });
    }
    let known = out.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
    if let Some(slot) = free.and_then(|i| out.get_mut(i)) {
        *slot = total.checked_div(known)?;
    }
    (out.iter().try_fold(1usize, |n, d| n.checked_mul(*d))? == total).then_some(out)
}

/// The axes a node names, from its input or its attribute, possibly negative.
pub(super) fn axes(node: &Node<'_>, input: Option<&Constant>) -> Option<Vec<i64>> {
    match input {
        Some(c) => Some(c.as_ints()?.to_vec()),
        None => Some(node.ints("axes")?.to_vec()),
    }
}

/// A negative axis counted from the end.
pub(super) fn axis(a: i64, rank: usize) -> Option<usize> {
    let rank_i = i64::try_from(rank).ok()?;
    usize::try_from(if a < 0 { a.checked_add(rank_i)? } else { a })
        .ok()
        .filter(|a| *a < rank)
}

/// One cut of `Slice`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    axis: i64,
    start: i64,
    end: i64,
    step: i64,
}

/// The cuts a `Slice` makes, from inputs or (before opset 10) attributes.
pub(super) fn ranges(node: &Node<'_>, inputs: &[Option<&Constant>]) -> Option<Vec<Cut>> {
    let list = |i: usize, name: &str| -> Option<Vec<i64>> {
        match inputs.get(i).copied().flatten() {
            Some(c) => Some(c.as_ints()?.to_vec()),
            None => node.ints(name).map(<[i64]>::to_vec),
        }
    };
    let (starts, ends) = (list(1, "starts")?, list(2, "ends")?);
    let counting = || (0i64..).take(starts.len()).collect();
    let axes: Vec<i64> = list(3, "axes").unwrap_or_else(counting);
    let steps = list(4, "steps").unwrap_or_else(|| vec![1; starts.len()]);
    let lists = starts.iter().zip(&ends).zip(axes.iter().zip(&steps));
    Some(
        lists
            .map(|((start, end), (axis, step))| Cut {
                axis: *axis,
                start: *start,
                end: *end,
                step: *step,
            })
            .collect(),
    )
}

/// First index, step and length of a cut along an axis of this size.
pub(super) fn cut_of(cut: Cut, size: usize) -> Option<(i64, i64, usize)> {
    let n = i64::try_from(size).ok()?;
    let wrap = |v: i64| if v < 0 { v.saturating_add(n) } else { v };
    let (start, end) = if cut.step > 0 {
        (wrap(cut.start).clamp(0, n), wrap(cut.end).clamp(0, n))
    } else {
        (
            wrap(cut.start).clamp(-1, n - 1),
            wrap(cut.end).clamp(-1, n - 1),
        )
    };
    let span = if cut.step > 0 {
        end - start
    } else {
        start - end
    };
    let step = cut.step.checked_abs().filter(|s| *s > 0)?;
    let len = if span <= 0 { 0 } else { (span - 1) / step + 1 };
    Some((start, cut.step, usize::try_from(len).ok()?))
}

/// The shape after some cuts.
pub(super) fn sliced(shape: &[usize], cuts: &[Cut]) -> Option<Vec<usize>> {
    let mut out = shape.to_vec();
    for cut in cuts {
        let slot = out.get_mut(axis(cut.axis, shape.len())?)?;
        *slot = cut_of(*cut, *slot)?.2;
    }
    Some(out)
}

/// The common shape of two by the rules of broadcasting.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let size = |s: &[usize], i: usize| {
        (i + s.len())
            .checked_sub(rank)
            .and_then(|i| s.get(i).copied())
            .unwrap_or(1)
    };
    (0..rank)
        .map(|i| match (size(a, i), size(b, i)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

pub(super) fn count(shape: &[usize]) -> Option<usize> {
    shape
        .iter()
        .try_fold(1usize, |n, d| n.checked_mul(*d))
        .filter(|n| *n <= MOST_VALUES)
}

fn scalar(v: i64) -> Constant {
    Constant {
        shape: Vec::new(),
        data: Data::Ints(vec![v].into()),
    }
}

fn with_shape(c: &Constant, shape: Vec<usize>) -> Constant {
    Constant {
        shape,
        data: c.data.clone(),
    }
}

/// Picks values by their place in C order.
fn pick(c: &Constant, shape: Vec<usize>, places: &[usize]) -> Option<Constant> {
    let data = match &c.data {
        Data::Floats(v) => Data::Floats(
            places
                .iter()
                .map(|i| v.get(*i).copied())
                .collect::<Option<Vec<_>>>()?
                .into(),
        ),
        Data::Ints(v) => Data::Ints(
            places
                .iter()
                .map(|i| v.get(*i).copied())
                .collect::<Option<Vec<_>>>()?
                .into(),
        ),
    };
    Some(Constant { shape, data })
}

/// For each index of `shape` in C order, the place that `strides` lead to from `base`.
fn places(shape: &[usize], strides: &[i64], base: i64) -> Option<Vec<usize>> {
    let n = count(shape)?;
    let mut out = Vec::with_capacity(n);
    let mut index = vec![0usize; shape.len()];
    for _ in 0..n {
        let offset = index.iter().zip(strides).try_fold(base, |sum, (i, s)| {
            sum.checked_add(i64::try_from(*i).ok()?.checked_mul(*s)?)
        })?;
        out.push(usize::try_from(offset).ok()?);
        for (i, d) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < *d {
                break;
            }
            *i = 0;
        }
    }
    Some(out)
}

pub(super) fn strides(shape: &[usize]) -> Option<Vec<i64>> {
    let mut out = vec![1i64; shape.len()];
    let mut step = 1i64;
    for (s, d) in out.iter_mut().zip(shape).rev() {
        *s = step;
        step = step.checked_mul(i64::try_from(*d).ok()?)?;
    }
    Some(out)
}

fn cast(c: &Constant, to: i64) -> Constant {
    let data = match (&c.data, to) {
        (Data::Ints(v), 1 | 10 | 11 | 16) => Data::Floats(v.iter().map(|v| *v as f32).collect()),
        (Data::Floats(v), 1 | 10 | 11 | 16) => Data::Floats(v.clone()),
        (Data::Ints(v), 9) => Data::Ints(v.iter().map(|v| i64::from(*v != 0)).collect()),
        (Data::Floats(v), 9) => Data::Ints(v.iter().map(|v| i64::from(*v != 0.0)).collect()),
        (Data::Ints(v), _) => Data::Ints(v.clone()),
        (Data::Floats(v), _) => Data::Ints(v.iter().map(|v| whole(f64::from(*v))).collect()),
    };
    Constant {
        shape: c.shape.clone(),
        data,
    }
}

pub(super) fn whole(v: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "casts towards zero and saturates, as ONNX does"
    )]
    let v = v as i64;
    v
}

fn unsqueeze(c: &Constant, axes: &[i64]) -> Option<Constant> {
    Some(with_shape(c, unsqueezed(&c.shape, axes)?))
}

/// The shape with axes of one added.
pub(super) fn unsqueezed(shape: &[usize], axes: &[i64]) -> Option<Vec<usize>> {
    let rank = shape.len() + axes.len();
    let at: Option<Vec<usize>> = axes.iter().map(|a| axis(*a, rank)).collect();
    let at = at?;
    let mut rest = shape.iter();
    (0..rank)
        .map(|i| {
            if at.contains(&i) {
                Some(1)
            } else {
                rest.next().copied()
            }
        })
        .collect()
}

fn squeeze(c: &Constant, axes: Option<Vec<i64>>) -> Option<Constant> {
    Some(with_shape(c, squeezed(&c.shape, axes)?))
}

/// The shape with axes of one taken away.
pub(super) fn squeezed(shape: &[usize], axes: Option<Vec<i64>>) -> Option<Vec<usize>> {
    let gone: Vec<usize> = match axes {
        Some(axes) => axes
            .iter()
            .map(|a| axis(*a, shape.len()))
            .collect::<Option<_>>()?,
        None => shape
            .iter()
            .enumerate()
            .filter(|(_, d)| **d == 1)
            .map(|(i, _)| i)
            .collect(),
    };
    Some(
        shape
            .iter()
            .enumerate()
            .filter(|(i, _)| !gone.contains(i))
            .map(|(_, d)| *d)
            .collect(),
    )
}

fn concat(inputs: &[Option<&Constant>], along: i64) -> Option<Constant> {
    let all: Vec<&Constant> = inputs.iter().copied().collect::<Option<_>>()?;
    let first = all.first()?;
    let along = axis(along, first.shape.len())?;
    let mut shape = first.shape.clone();
    let total = all
        .iter()
        .try_fold(0usize, |n, c| n.checked_add(*c.shape.get(along)?))?;
    *shape.get_mut(along)? = total;
    count(&shape)?;
    let outer: usize = shape.get(..along)?.iter().product();
    let (mut floats, mut ints) = (Vec::new(), Vec::new());
    for o in 0..outer {
        for c in &all {
            let block = c.len().checked_div(outer)?;
            match &c.data {
                Data::Floats(v) => floats.extend_from_slice(v.get(o * block..(o + 1) * block)?),
                Data::Ints(v) => ints.extend_from_slice(v.get(o * block..(o + 1) * block)?),
            }
        }
    }
    let data = if ints.is_empty() {
        Data::Floats(floats.into())
    } else {
        Data::Ints(ints.into())
    };
    let out = Constant { shape, data };
    (count(&out.shape)? == out.len()).then_some(out)
}

fn gather(c: &Constant, index: &Constant, along: i64) -> Option<Constant> {
    let along = axis(along, c.shape.len())?;
    let size = *c.shape.get(along)?;
    let inner: usize = c.shape.get(along + 1..)?.iter().product();
    let outer: usize = c.shape.get(..along)?.iter().product();
    let wanted: Option<Vec<usize>> = index.as_ints()?.iter().map(|i| axis(*i, size)).collect();
    let wanted = wanted?;
    let shape = [
        c.shape.get(..along)?,
        &index.shape,
        c.shape.get(along + 1..)?,
    ]
    .concat();
    count(&shape)?;
    let mut at = Vec::new();
    for o in 0..outer {
        for i in &wanted {
            at.extend((0..inner).map(|k| (o * size + i) * inner + k));
        }
    }
    pick(c, shape, &at)
}

fn slice(c: &Constant, cuts: &[Cut]) -> Option<Constant> {
    let mut steps = strides(&c.shape)?;
    let mut shape = c.shape.clone();
    let mut base = 0i64;
    for cut in cuts {
        let at = axis(cut.axis, c.shape.len())?;
        let (start, step, len) = cut_of(*cut, *shape.get(at)?)?;
        *shape.get_mut(at)? = len;
        let stride = steps.get_mut(at)?;
        base = base.checked_add(start.checked_mul(*stride)?)?;
        *stride = stride.checked_mul(step)?;
    }
    let at = places(&shape, &steps, base)?;
    pick(c, shape, &at)
}

fn reshape(c: &Constant, to: &[i64], allow_zero: bool) -> Option<Constant> {
    Some(with_shape(c, reshaped(&c.shape, to, allow_zero)?))
}

/// The permutation that a transposition makes, reversed axes without one.
pub(super) fn permutation(perm: Option<&[i64]>, rank: usize) -> Option<Vec<usize>> {
    let out: Vec<usize> = match perm {
        Some(p) => p.iter().map(|a| axis(*a, rank)).collect::<Option<_>>()?,
        None => (0..rank).rev().collect(),
    };
    let mut sorted = out.clone();
    sorted.sort_unstable();
    sorted.iter().copied().eq(0..rank).then_some(out)
}

pub(super) fn transpose(c: &Constant, perm: Option<&[i64]>) -> Option<Constant> {
    let perm = permutation(perm, c.shape.len())?;
    let from = strides(&c.shape)?;
    let shape: Vec<usize> = perm
        .iter()
        .map(|p| c.shape.get(*p).copied())
        .collect::<Option<_>>()?;
    let steps: Vec<i64> = perm
        .iter()
        .map(|p| from.get(*p).copied())
        .collect::<Option<_>>()?;
    let at = places(&shape, &steps, 0)?;
    pick(c, shape, &at)
}

pub(super) fn expand(c: &Constant, to: &[usize]) -> Option<Constant> {
    let shape = broadcast(&c.shape, to)?;
    let at = spread(&c.shape, &shape)?;
    pick(c, shape, &at)
}

/// Where each value of the broadcast shape comes from.
fn spread(from: &[usize], to: &[usize]) -> Option<Vec<usize>> {
    let own = strides(from)?;
    let skipped = to.len().checked_sub(from.len())?;
    let steps: Vec<i64> = std::iter::repeat_n(0, skipped)
        .chain(
            own.iter()
                .zip(from)
                .map(|(s, d)| if *d == 1 { 0 } else { *s }),
        )
        .collect();
    places(to, &steps, 0)
}

fn float_range(start: f32, limit: f32, step: f32) -> Option<Constant> {
    let n = ((f64::from(limit) - f64::from(start)) / f64::from(step)).ceil();
    let n = usize::try_from(whole(n).max(0)).ok()?;
    count(&[n])?;
    let values: Vec<f32> = (0..n).map(|i| (i as f32).mul_add(step, start)).collect();
    Some(Constant {
        shape: vec![n],
        data: Data::Floats(values.into()),
    })
}

fn range(start: &Constant, limit: &Constant, step: &Constant) -> Option<Constant> {
    if let (Some(start), Some(limit), Some(step)) =
        (start.as_floats(), limit.as_floats(), step.as_floats())
    {
        return float_range(*start.first()?, *limit.first()?, *step.first()?);
    }
    let one = |c: &Constant| c.as_ints()?.first().copied();
    let (start, limit, step) = (one(start)?, one(limit)?, one(step)?);
    let n = if step > 0 {
        limit.checked_sub(start)?
    } else {
        start.checked_sub(limit)?
    };
    let n = usize::try_from(n.max(0))
        .ok()?
        .div_ceil(usize::try_from(step.checked_abs().filter(|s| *s > 0)?).ok()?);
    count(&[n])?;
    let values = (0..i64::try_from(n).ok()?)
        .map(|i| start + i * step)
        .collect();
    Some(Constant::ints(values))
}
