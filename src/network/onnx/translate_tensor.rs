//! Operations on tensors of any rank: arithmetic with broadcasting, products, parts, reductions.

use super::constant::{Constant, Data};
use super::fold;
use super::import::{Importer, Value};
use super::proto::Node;
use super::translate::{Inputs, One, constant, present};
use super::translate_acts::one_value;
use super::translate_parts;
use super::translate_views::{named_axes, without};
use super::translate_writes;
use crate::network::graph::{Act, Op, TensorId};
use crate::network::size::Size;
use crate::network::tensor_op::{Binary, Reduce, TensorOp};

/// A node of ours with one output.
pub(super) fn push(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    op: TensorOp,
    inputs: Vec<TensorId>,
) -> One {
    im.push_op(node, Op::Tensor(op), inputs).map(Some)
}

/// The value a node makes, when it is one of these operations.
pub(super) fn node(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(Some(x)) = inputs.first() else {
        return Ok(None);
    };
    let rank = im.shape(x).len();
    let axis = |or: i64| fold::axis(node.int("axis", or), rank);
    match node.op {
        "Transpose" => {
            let Some(perm) = fold::permutation(node.ints("perm"), rank) else {
                return Ok(None);
            };
            plain(im, node, x, TensorOp::Transpose { perm })
        }
        "Slice" => translate_parts::slice(im, node, inputs),
        "Concat" => translate_parts::concat(im, node, inputs),
        "Expand" => {
            let (x, Some(Some(to))) = (x.clone(), inputs.get(1)) else {
                return Ok(None);
            };
            match im.sizes(node, to) {
                Some(to) if within_reason(&to) => plain(im, node, &x, TensorOp::Expand { to }),
                _ => Ok(None),
            }
        }
        "Tile" => {
            let repeats = constant(inputs, 1).and_then(|(c, _)| fold::sizes(c.as_ints()?));
            match repeats {
                Some(repeats)
                    if repeats
                        .iter()
                        .try_fold(1usize, |n, r| n.checked_mul(*r))
                        .is_some_and(|n| n <= 1 << 30) =>
                {
                    plain(im, node, x, TensorOp::Tile { repeats })
                }
                _ => Ok(None),
            }
        }
        "Gather" => translate_parts::gather(im, node, inputs),
        "GatherND" => translate_parts::gather_nd(im, node, inputs),
        "ScatterND" => translate_writes::scatter_nd(im, node, inputs),
        "ScatterElements" => translate_writes::scatter_elements(im, node, inputs),
        "GatherElements" => translate_writes::gather_elements(im, node, inputs),
        "ArgMax" | "ArgMin" => translate_writes::place(im, node, inputs),
        "Celu" => translate_writes::celu(im, node, x),
        "Tan" => translate_writes::tan(im, node, x),
        "MatMul" => matmul(im, node, inputs),
        "Gemm" => gemm(im, node, inputs),
        "Where" => {
            let mut ids = Vec::new();
            for value in inputs.iter().take(3) {
                let Some(value) = value else { return Ok(None) };
                ids.push(im.materialize(value.clone(), node.name)?);
            }
            push(im, node, TensorOp::Where, ids)
        }
        "Softmax" | "LogSoftmax" => {
            let log = node.op == "LogSoftmax";
            // Before opset 13 all axes from this one on are weighed together.
            let old = im.opset < 13;
            let Some(first) = axis(if old { 1 } else { -1 }) else {
                return Ok(None);
            };
            if !log && !old && first == 1 && rank == im.graph.spatial_dims + 2 {
                let x = im.materialize(x.clone(), node.name)?;
                return im.push_op(node, Op::Softmax, vec![x]).map(Some);
            }
            let last = if old { rank - 1 } else { first };
            plain(im, node, x, TensorOp::Softmax { first, last, log })
        }
        "LayerNormalization" => layer_norm(im, node, inputs),
        "Pow" | "Mod" | "Min" | "Max" | "Equal" | "Less" | "LessOrEqual" | "Greater"
        | "GreaterOrEqual" | "And" | "Or" | "Xor" | "Sum" | "Mean" => binary(im, node, inputs),
        op if op.starts_with("Reduce") => reduce(im, node, inputs),
        _ => Ok(None),
    }
}

pub(super) fn plain(im: &mut Importer<'_>, node: &Node<'_>, x: &Value, op: TensorOp) -> One {
    let x = im.materialize(x.clone(), node.name)?;
    push(im, node, op, vec![x])
}

/// Arithmetic of two tensors, or of several in a row.
pub(super) fn binary(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let op = match node.op {
        "Add" | "Sum" | "Mean" => Binary::Add,
        "Sub" => Binary::Sub,
        "Mul" => Binary::Mul,
        "Div" => Binary::Div,
        "Pow" => Binary::Pow,
        "Mod" => Binary::Mod {
            fmod: node.int("fmod", 0) != 0,
        },
        "Min" => Binary::Min,
        "Max" => Binary::Max,
        "Equal" => Binary::Equal,
        "Less" => Binary::Less,
        "LessOrEqual" => Binary::LessOrEqual,
        "Greater" => Binary::Greater,
        "GreaterOrEqual" => Binary::GreaterOrEqual,
        "And" => Binary::And,
        "Or" => Binary::Or,
        "Xor" => Binary::Xor,
        "PRelu" => Binary::Slope,
        _ => return Ok(None),
    };
    let several = matches!(node.op, "Sum" | "Mean" | "Min" | "Max");
    if (!several && inputs.len() != 2) || inputs.is_empty() || inputs.iter().any(Option::is_none) {
        return Ok(None);
    }
    if let Some(made) = with_scalar(im, node, inputs)? {
        return Ok(Some(made));
    }
    let mut values = inputs.iter().flatten();
    let Some(mut sum) = values.next().cloned() else {
        return Ok(None);
    };
    for value in values {
        let same = im.shape(&sum) == im.shape(value);
        let known = matches!(sum, Value::Known(..)) || matches!(value, Value::Known(..));
        let ids = vec![
            im.materialize(sum, node.name)?,
            im.materialize(value.clone(), node.name)?,
        ];
        let op = match op {
            Binary::Add if same && !known => Op::Add,
            Binary::Mul if same && !known => Op::Mul,
            op => Op::Tensor(TensorOp::Binary(op)),
        };
        sum = im.push_op(node, op, ids)?;
    }
    if node.op == "Mean" {
        let x = im.materialize(sum, node.name)?;
        let act = Act::Affine {
            factor: (inputs.len() as f32).recip(),
            shift: 0.0,
        };
        return im.push_op(node, Op::Activation(act), vec![x]).map(Some);
    }
    Ok(Some(sum))
}

/// Arithmetic with one number, which is a function of one value.
fn with_scalar(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let [Some(a), Some(b)] = inputs else {
        return Ok(None);
    };
    let number = |v: &Value| match v {
        Value::Known(c, name, _) if name.is_none() || c.shape.is_empty() => one_value(c),
        _ => None,
    };
    let (x, c, left) = match (number(a), number(b)) {
        (None, Some(c)) => (a, c, true),
        (Some(c), None) => (b, c, false),
        _ => return Ok(None),
    };
    // One number with more axes than the tensor would add some.
    let fits = [a, b]
        .iter()
        .all(|v| im.shape(v).len() <= im.shape(x).len());
    if matches!(x, Value::Known(..)) || !fits {
        return Ok(None);
    }
    let affine = |factor: f32, shift: f32| Act::Affine { factor, shift };
    let act = match (node.op, left) {
        ("Add", _) => affine(1.0, c),
        ("Sub", true) => affine(1.0, -c),
        ("Sub", false) => affine(-1.0, c),
        ("Mul", _) => affine(c, 0.0),
        ("Div", true) => affine(c.recip(), 0.0),
        // No value lies between limits that are none.
        ("Min" | "Max", _) if c.is_nan() => return Ok(None),
        ("Min", _) => Act::Clip {
            low: f32::NEG_INFINITY,
            high: c,
        },
        ("Max", _) => Act::Clip {
            low: c,
            high: f32::INFINITY,
        },
        _ => return Ok(None),
    };
    let x = im.materialize(x.clone(), node.name)?;
    im.push_op(node, Op::Activation(act), vec![x]).map(Some)
}

fn matmul(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let [Some(a), Some(b)] = inputs else {
        return Ok(None);
    };
    // A vector is a row on the left, a column on the right.
    if im.shape(a).len() < 2 || im.shape(b).len() < 2 {
        return Ok(None);
    }
    let ids = vec![
        im.materialize(a.clone(), node.name)?,
        im.materialize(b.clone(), node.name)?,
    ];
    push(im, node, TensorOp::MatMul, ids)
}

fn gemm(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let (Some(Some(a)), Some(Some(b))) = (inputs.first(), inputs.get(1)) else {
        return Ok(None);
    };
    let (a, b) = (a.clone(), b.clone());
    let turned = |im: &mut Importer<'_>, value: Value, turn: bool| -> Result<Value, String> {
        match (turn, &value) {
            (false, _) => Ok(value),
            (true, Value::Known(c, name, trace)) => {
                let c = fold::transpose(c, Some(&[1, 0]));
                let c = c.ok_or("its matrix is too large to be turned")?;
                Ok(Value::Known(c.into(), name.clone(), trace.clone()))
            }
            (true, _) => {
                let op = TensorOp::Transpose { perm: vec![1, 0] };
                plain(im, node, &value, op)?.ok_or_else(|| "it cannot be turned".to_owned())
            }
        }
    };
    let a = turned(im, a, node.int("transA", 0) != 0)?;
    let b = turned(im, b, node.int("transB", 0) != 0)?;
    let (alpha, beta) = (node.float("alpha", 1.0), node.float("beta", 1.0));
    let ids = vec![im.materialize(a, node.name)?, im.materialize(b, node.name)?];
    let Some(mut made) = push(im, node, TensorOp::MatMul, ids)? else {
        return Ok(None);
    };
    made = scaled(im, node, made, alpha)?;
    if !present(inputs, 2) {
        return Ok(Some(made));
    }
    let Some(Some(c)) = inputs.get(2) else {
        return Ok(None);
    };
    let c = times(c, beta);
    if let (Value::Known(c, name, _), 1.0) = (&c, alpha)
        && bias(im, node, &made, (c, name.as_deref()))?
    {
        return Ok(Some(made));
    }
    let c = match c {
        Value::Known(..) => c,
        c => scaled(im, node, c, beta)?,
    };
    let ids = vec![
        im.materialize(made, node.name)?,
        im.materialize(c, node.name)?,
    ];
    push(im, node, TensorOp::Binary(Binary::Add), ids)
}

/// A constant times a factor, worked out here: only what a run makes is scaled in a run.
fn times(value: &Value, factor: f32) -> Value {
    match value {
        Value::Known(c, name, trace) if factor != 1.0 => {
            let scaled: Vec<f32> = match &c.data {
                Data::Floats(v) => v.iter().map(|v| v * factor).collect(),
                Data::Ints(v) => v.iter().map(|v| *v as f32 * factor).collect(),
            };
            // Under a name of its own: others may read the stored values as they are.
            let name = name.as_ref().map(|n| format!("{n} times {factor}"));
            Value::Known(floats(scaled, c.shape.clone()).into(), name, trace.clone())
        }
        value => value.clone(),
    }
}

fn scaled(im: &mut Importer<'_>, node: &Node<'_>, x: Value, factor: f32) -> Result<Value, String> {
    if factor == 1.0 {
        return Ok(x);
    }
    let x = im.materialize(x, node.name)?;
    let act = Act::Affine { factor, shift: 0.0 };
    im.push_op(node, Op::Activation(act), vec![x])
}

/// Gives a product its bias; false when the tensor is no product or has one, or the constant is no row.
pub(super) fn bias(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    made: &Value,
    (c, name): (&Constant, Option<&str>),
) -> Result<bool, String> {
    let Value::Act(id) = *made else {
        return Ok(false);
    };
    let columns = im.shape(made).last().copied().unwrap_or(0);
    let row = c.len() == columns && c.shape.last() == Some(&columns) && c.as_floats().is_some();
    let fits = c.shape.len() <= im.shape(made).len();
    let free = im
        .maker(id)
        .is_some_and(|m| matches!(m.op, Op::Tensor(TensorOp::MatMul)) && m.inputs.len() == 2);
    if !row || !fits || !free {
        return Ok(false);
    }
    let bias = im.weight(c, name, node, vec![columns])?;
    if let Some(maker) = im.maker(id) {
        maker.inputs.push(bias);
    }
    Ok(true)
}

fn layer_norm(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(Some(x)) = inputs.first() else {
        return Ok(None);
    };
    let shape = im.shape(x).to_vec();
    let more = node
        .outputs
        .iter()
        .skip(1)
        .any(|o| !o.is_empty() && im.is_read(o));
    let Some(axis) = fold::axis(node.int("axis", -1), shape.len()).filter(|_| !more) else {
        return Ok(None);
    };
    let inner: usize = shape.iter().skip(axis).product();
    let x = x.clone();
    let varies = (axis..shape.len()).any(|a| !im.dim(&x, a).is_fixed());
    if varies {
        im.bake(
            node,
            "it normalises over space with weights of one size".to_owned(),
        );
    }
    let mut ids = vec![im.materialize(x, node.name)?];
    for i in 1..3 {
        if !present(inputs, i) {
            break;
        }
        let Some((c, name)) = constant(inputs, i) else {
            return Ok(None);
        };
        if c.len() != inner {
            return Ok(None);
        }
        let shape = c.shape.clone();
        ids.push(im.weight(c, name, node, shape)?);
    }
    let op = TensorOp::LayerNorm {
        axis,
        eps: node.float("epsilon", 1e-5),
    };
    push(im, node, op, ids)
}

fn reduce(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let kind = match node.op {
        "ReduceSum" => Reduce::Sum,
        "ReduceMean" => Reduce::Mean,
        "ReduceMax" => Reduce::Max,
        "ReduceMin" => Reduce::Min,
        "ReduceProd" => Reduce::Prod,
        "ReduceL1" => Reduce::L1,
        "ReduceL2" => Reduce::L2,
        "ReduceSumSquare" => Reduce::SumSquare,
        "ReduceLogSum" => Reduce::LogSum,
        "ReduceLogSumExp" => Reduce::LogSumExp,
        _ => return Ok(None),
    };
    let Some(Some(x)) = inputs.first() else {
        return Ok(None);
    };
    let rank = im.shape(x).len();
    let unnamed = constant(inputs, 1).is_some_and(|(c, _)| c.len() == 0);
    let none = (unnamed || !present(inputs, 1)) && node.ints("axes").is_none_or(<[i64]>::is_empty);
    if none && node.int("noop_with_empty_axes", 0) != 0 {
        return Ok(Some(x.clone()));
    }
    let Some(mut axes) = named_axes(node, inputs, rank) else {
        return Ok(None);
    };
    axes.sort_unstable();
    axes.dedup();
    let keep = node.int("keepdims", 1) != 0;
    let x = im.materialize(x.clone(), node.name)?;
    let space = rank == im.graph.spatial_dims + 2 && axes.iter().copied().eq(2..rank);
    let mut made = if kind == Reduce::Mean && space {
        im.push_op(node, Op::GlobalAvgPool, vec![x])?
    } else {
        let op = TensorOp::Reduce {
            kind,
            axes: axes.clone(),
            keep: true,
        };
        im.push_op(node, Op::Tensor(op), vec![x])?
    };
    if !keep {
        for axis in axes.iter().rev() {
            made = without(im, &made, *axis, node.name);
        }
    }
    Ok(Some(made))
}

/// A list as a constant of floats of this shape.
pub(super) fn floats(values: Vec<f32>, shape: Vec<usize>) -> Constant {
    Constant {
        shape,
        data: Data::Floats(values.into()),
    }
}

/// Whether sizes that are known make a tensor that any machine could hold (2^40 values).
fn within_reason(sizes: &[Size]) -> bool {
    sizes
        .iter()
        .try_fold(1i64, |n, s| match s {
            Size::Fixed(d) => n.checked_mul((*d).max(1)),
            _ => Some(n),
        })
        .is_some_and(|n| n <= 1 << 40)
}
