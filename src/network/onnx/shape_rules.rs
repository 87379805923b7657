//! Output shapes and arithmetic of operations that can be planned but not run.

use super::constant::Constant;
use super::fold;
use super::proto::Node;

/// What is known of one input: its shape, and its values when they are constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand<'a> {
    pub(super) shape: &'a [usize],
    pub(super) constant: Option<&'a Constant>,
}

/// Shapes of a node's outputs, `None` when there is no rule for it.
pub(super) fn outputs(node: &Node<'_>, inputs: &[Option<Operand<'_>>]) -> Option<Vec<Vec<usize>>> {
    let at = |i: usize| inputs.get(i).copied().flatten();
    let x = at(0)?.shape;
    let ints = |i: usize| at(i).and_then(|o| o.constant).and_then(Constant::as_ints);
    let constants = || {
        inputs
            .iter()
            .map(|o| o.and_then(|o| o.constant))
            .collect::<Vec<_>>()
    };
    let one = |shape: Option<Vec<usize>>| shape.map(|s| vec![s]);
    match node.op {
        "Reshape" => one(fold::reshaped(x, ints(1)?, node.int("allowzero", 0) != 0)),
        "Transpose" => {
            let perm = fold::permutation(node.ints("perm"), x.len())?;
            one(perm.iter().map(|p| x.get(*p).copied()).collect())
        }
        "Unsqueeze" => one(fold::unsqueezed(
            x,
            &fold::axes(node, at(1).and_then(|o| o.constant))?,
        )),
        "Squeeze" => one(fold::squeezed(
            x,
            fold::axes(node, at(1).and_then(|o| o.constant)),
        )),
        "Flatten" => {
            let axis = node.int("axis", 1);
            let axis = if axis == i64::try_from(x.len()).ok()? {
                x.len()
            } else {
                fold::axis(axis, x.len())?
            };
            one(Some(vec![
                x.get(..axis)?.iter().product(),
                x.get(axis..)?.iter().product(),
            ]))
        }
        "Slice" => one(fold::sliced(x, &fold::ranges(node, &constants())?)),
        "Gather" => {
            let along = fold::axis(node.int("axis", 0), x.len())?;
            one(Some(
                [x.get(..along)?, at(1)?.shape, x.get(along + 1..)?].concat(),
            ))
        }
        "Concat" => one(concat(inputs, node.int("axis", 0))),
        "Split" => split(node, x, ints(1)),
        "Expand" => one(fold::broadcast(x, &fold::sizes(ints(1)?)?)),
        "Tile" => {
            let repeats = fold::sizes(ints(1)?)?;
            one(x
                .iter()
                .zip(&repeats)
                .map(|(d, r)| d.checked_mul(*r))
                .collect())
        }
        "Pad" => one(padded(x, ints(1).or_else(|| node.ints("pads"))?)),
        "MatMul" => one(matmul(x, at(1)?.shape)),
        "Gemm" => one(gemm(node, x, at(1)?.shape)),
        "Einsum" => one(Some(einsum(node, inputs)?.0)),
        "ReduceMean" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceL1" | "ReduceL2"
        | "ReduceProd" | "ReduceSumSquare" | "ReduceLogSum" | "ReduceLogSumExp" => {
            let axes = ints(1).or_else(|| node.ints("axes"));
            one(reduced(x, axes, node.int("keepdims", 1) != 0))
        }
        "GlobalMaxPool" | "GlobalAveragePool" => one(Some(
            x.iter()
                .enumerate()
                .map(|(i, d)| if i < 2 { *d } else { 1 })
                .collect(),
        )),
        "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Mod" | "Where" | "Equal" | "Less" | "Greater"
        | "LessOrEqual" | "GreaterOrEqual" | "And" | "Or" | "Min" | "Max" | "Sum" | "PRelu" => {
            one(inputs
                .iter()
                .flatten()
                .try_fold(Vec::new(), |shape, o| fold::broadcast(&shape, o.shape)))
        }
        op if keeps(op) => one(Some(x.to_vec())),
        _ => picked(node, inputs),
    }
}

/// Whether an operation leaves the shape of its input.
fn keeps(op: &str) -> bool {
    matches!(
        op,
        "Identity"
            | "Cast"
            | "Erf"
            | "Exp"
            | "Log"
            | "Sqrt"
            | "Neg"
            | "Abs"
            | "Not"
            | "Clip"
            | "Softmax"
            | "LogSoftmax"
            | "LayerNormalization"
            | "InstanceNormalization"
            | "BatchNormalization"
            | "GroupNormalization"
            | "Softplus"
            | "Mish"
            | "HardSigmoid"
            | "HardSwish"
            | "Reciprocal"
            | "Dropout"
            | "ScatterND"
            | "Sin"
            | "Cos"
            | "Floor"
            | "Ceil"
            | "Round"
            | "Relu"
            | "LeakyRelu"
            | "Sigmoid"
            | "Tanh"
            | "Gelu"
            | "Elu"
            | "Selu"
            | "Swish"
            | "Sign"
            | "CumSum"
            | "Celu"
            | "Softsign"
            | "ThresholdedRelu"
            | "Shrink"
            | "Hardmax"
            | "Tan"
            | "Asin"
            | "Acos"
            | "Atan"
            | "Sinh"
            | "Cosh"
            | "Asinh"
            | "Acosh"
            | "Atanh"
            | "IsNaN"
            | "IsInf"
            | "Trilu"
            | "LRN"
            | "LpNormalization"
            | "MeanVarianceNormalization"
            | "RMSNormalization"
            | "ScatterElements"
    )
}

/// Output shapes of operations that pick values or their places.
fn picked(node: &Node<'_>, inputs: &[Option<Operand<'_>>]) -> Option<Vec<Vec<usize>>> {
    let at = |i: usize| inputs.get(i).copied().flatten();
    let x = at(0)?.shape;
    let ints = |i: usize| at(i).and_then(|o| o.constant).and_then(Constant::as_ints);
    let one = |shape: Option<Vec<usize>>| shape.map(|s| vec![s]);
    match node.op {
        "ArgMax" | "ArgMin" => {
            let axes = [node.int("axis", 0)];
            one(reduced(x, Some(&axes), node.int("keepdims", 1) != 0))
        }
        "TopK" => {
            let k = usize::try_from(*ints(1)?.first()?).ok()?;
            let mut made = x.to_vec();
            *made.get_mut(fold::axis(node.int("axis", -1), x.len())?)? = k;
            Some(vec![made.clone(), made])
        }
        "GatherND" => {
            let index = at(1)?.shape;
            let (depth, outer) = index.split_last()?;
            let skipped = usize::try_from(node.int("batch_dims", 0)).ok()?;
            let rest = x.get(skipped.checked_add(*depth)?..)?;
            one(Some([outer, rest].concat()))
        }
        "GatherElements" => one(Some(at(1)?.shape.to_vec())),
        "GridSample" => {
            let (grid, _) = at(1)?.shape.get(1..)?.split_last().map(|(l, g)| (g, l))?;
            one(Some([x.get(..2)?, grid].concat()))
        }
        _ => None,
    }
}

/// Floating point operations of such a node.
pub(super) fn flops(
    node: &Node<'_>,
    inputs: &[Option<Operand<'_>>],
    outputs: &[Vec<usize>],
) -> u64 {
    let values = |s: &[usize]| s.iter().fold(1u64, |n, d| n.saturating_mul(*d as u64));
    let made = outputs
        .iter()
        .fold(0u64, |n, s| n.saturating_add(values(s)));
    let first = inputs
        .first()
        .copied()
        .flatten()
        .map_or(&[][..], |o| o.shape);
    match node.op {
        "MatMul" => made
            .saturating_mul(2)
            .saturating_mul(first.last().copied().unwrap_or(1) as u64),
        "Gemm" => {
            let k = first
                .get(usize::from(node.int("transA", 0) == 0))
                .copied()
                .unwrap_or(1);
            made.saturating_mul(2).saturating_mul(k as u64)
        }
        "Einsum" => einsum(node, inputs).map_or(0, |e| values(&e.1).saturating_mul(2)),
        "Reshape" | "Transpose" | "Unsqueeze" | "Squeeze" | "Flatten" | "Slice" | "Gather"
        | "Concat" | "Split" | "Expand" | "Tile" | "Pad" | "Identity" | "Cast" | "ScatterND"
        | "Where" => 0,
        "LayerNormalization" => made.saturating_mul(8),
        "Softmax" => made.saturating_mul(5),
        _ => made,
    }
}

fn concat(inputs: &[Option<Operand<'_>>], along: i64) -> Option<Vec<usize>> {
    let mut shape = inputs.first().copied().flatten()?.shape.to_vec();
    let along = fold::axis(along, shape.len())?;
    for other in inputs.iter().skip(1) {
        let more = *(*other)?.shape.get(along)?;
        let slot = shape.get_mut(along)?;
        *slot = slot.checked_add(more)?;
    }
    Some(shape)
}

fn split(node: &Node<'_>, x: &[usize], sizes: Option<&[i64]>) -> Option<Vec<Vec<usize>>> {
    let along = fold::axis(node.int("axis", 0), x.len())?;
    let whole = *x.get(along)?;
    let parts = if let Some(sizes) = sizes.or_else(|| node.ints("split")) {
        fold::sizes(sizes)?
    } else {
        let n = node.outputs.len().max(1);
        let each = whole.div_ceil(n);
        (0..n)
            .map(|i| each.min(whole.saturating_sub(i * each)))
            .collect()
    };
    let shape_with = |d: usize| {
        let mut shape = x.to_vec();
        *shape.get_mut(along)? = d;
        Some(shape)
    };
    parts.into_iter().map(shape_with).collect()
}

fn padded(x: &[usize], pads: &[i64]) -> Option<Vec<usize>> {
    let (begin, end) = pads.split_at_checked(x.len())?;
    x.iter()
        .zip(begin.iter().zip(end))
        .map(|(d, (b, e))| {
            usize::try_from(i64::try_from(*d).ok()?.checked_add(*b)?.checked_add(*e)?).ok()
        })
        .collect()
}

fn matmul(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let ([batch_a @ .., m, k], [batch_b @ .., k2, n]) = (a, b) else {
        return None;
    };
    if k != k2 {
        return None;
    }
    let mut shape = fold::broadcast(batch_a, batch_b)?;
    shape.extend([*m, *n]);
    Some(shape)
}

fn gemm(node: &Node<'_>, a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let m = *a.get(usize::from(node.int("transA", 0) != 0))?;
    let n = *b.get(usize::from(node.int("transB", 0) == 0))?;
    Some(vec![m, n])
}

/// The result's shape and the sizes of all letters.
fn einsum(node: &Node<'_>, inputs: &[Option<Operand<'_>>]) -> Option<(Vec<usize>, Vec<usize>)> {
    let equation: String = node
        .text("equation", "")
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    let (terms, result) = equation.split_once("->")?;
    let mut sizes = std::collections::BTreeMap::new();
    for (term, input) in terms.split(',').zip(inputs) {
        let shape = (*input)?.shape;
        if term.chars().count() != shape.len() || !term.chars().all(|c| c.is_ascii_alphabetic()) {
            return None;
        }
        sizes.extend(term.chars().zip(shape.iter().copied()));
    }
    let out = result
        .chars()
        .map(|c| sizes.get(&c).copied())
        .collect::<Option<_>>()?;
    Some((out, sizes.into_values().collect()))
}

fn reduced(x: &[usize], axes: Option<&[i64]>, keep: bool) -> Option<Vec<usize>> {
    let gone: Vec<usize> = match axes {
        Some(axes) => axes
            .iter()
            .map(|a| fold::axis(*a, x.len()))
            .collect::<Option<_>>()?,
        None => (0..x.len()).collect(),
    };
    let kept = x
        .iter()
        .enumerate()
        .filter_map(|(i, d)| match (gone.contains(&i), keep) {
            (false, _) => Some(*d),
            (true, true) => Some(1),
            (true, false) => None,
        });
    Some(kept.collect())
}
