//! ONNX operations that have an operation of ours. `None` where there is none: then the node is only planned.

use super::constant::Constant;
use super::import::{Importer, Value};
use super::proto::Node;
use super::translate_norms;
use crate::network::graph::{Act, Op, PadMode, TensorId};
use std::rc::Rc;

/// What a node reads.
pub(super) type Inputs<'i> = &'i [Option<Value>];
type Translated = Result<Option<Vec<Value>>, String>;

/// The values a node makes, as nodes of ours pushed on the way.
pub(super) fn node(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> Translated {
    let made = match node.op {
        "Conv" => conv(im, node, inputs)?,
        "ConvTranspose" => conv_transpose(im, node, inputs)?,
        "InstanceNormalization" => translate_norms::instance_norm(im, node, inputs)?,
        "GroupNormalization" => translate_norms::group_norm(im, node, inputs)?,
        "BatchNormalization" => translate_norms::batch_norm(im, node, inputs)?,
        "Relu" | "LeakyRelu" | "Sigmoid" | "Tanh" | "Elu" | "Gelu" | "Swish" => {
            activation(im, node, inputs)?
        }
        "PRelu" => prelu(im, node, inputs)?,
        "Softmax" => softmax(im, node, inputs)?,
        "MaxPool" | "AveragePool" => pool(im, node, inputs)?,
        "GlobalAveragePool" => unary(im, node, inputs, Op::GlobalAvgPool)?,
        "Resize" | "Upsample" => resize(im, node, inputs)?,
        "Pad" => pad(im, node, inputs)?,
        "Add" | "Sub" | "Mul" | "Div" => translate_norms::arithmetic(im, node, inputs)?,
        "Concat" => concat(im, node, inputs)?,
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => view(im, node, inputs),
        "Identity" | "Dropout" | "Cast" => alias(node, inputs),
        _ => None,
    };
    Ok(made.map(|v| vec![v]))
}

/// One value, or `None` when the node has no operation of ours.
pub(super) type One = Result<Option<Value>, String>;

/// The first input when it is a tensor with channels and the network's spatial axes.
pub(super) fn spatial_input(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    inputs: Inputs<'_>,
) -> Result<Option<TensorId>, String> {
    let Some(Some(value)) = inputs.first() else {
        return Ok(None);
    };
    if matches!(value, Value::Known(..)) || im.shape(value).len() != im.graph.spatial_dims + 2 {
        return Ok(None);
    }
    im.materialize(value.clone(), node.name).map(Some)
}

pub(super) fn constant(inputs: Inputs<'_>, i: usize) -> Option<(&Rc<Constant>, Option<&str>)> {
    match inputs.get(i)? {
        Some(Value::Known(c, name)) => Some((c, name.as_deref())),
        _ => None,
    }
}

fn present(inputs: Inputs<'_>, i: usize) -> bool {
    inputs.get(i).is_some_and(Option::is_some)
}

pub(super) fn channels(im: &Importer<'_>, x: TensorId) -> usize {
    im.shapes
        .get(x.index())
        .and_then(|s| s.get(1))
        .copied()
        .unwrap_or(0)
}

fn unary(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>, op: Op) -> One {
    match spatial_input(im, node, inputs)? {
        Some(x) => im.push_op(node, op, vec![x]).map(Some),
        None => Ok(None),
    }
}

/// A list attribute as sizes of the right length.
fn sizes(node: &Node<'_>, name: &str, dims: usize, or: usize) -> Result<Vec<usize>, String> {
    let Some(values) = node.ints(name) else {
        return Ok(vec![or; dims]);
    };
    let out: Option<Vec<usize>> = values
        .iter()
        .map(|v| usize::try_from(*v).ok().filter(|v| *v < 1 << 20))
        .collect();
    out.filter(|v| v.len() == dims).ok_or_else(|| {
        format!("its {name} must be {dims} whole numbers below 2^20, found {values:?}")
    })
}

/// Padding before and after each axis.
type Pads = (Vec<usize>, Vec<usize>);

/// Padding, also from `auto_pad`.
fn pads(
    im: &Importer<'_>,
    node: &Node<'_>,
    x: TensorId,
    [kernel, stride, dilation]: [&[usize]; 3],
) -> Result<Option<Pads>, String> {
    let dims = kernel.len();
    let auto = node.text("auto_pad", "NOTSET");
    match auto {
        "NOTSET" | "" => {
            let both = sizes(node, "pads", 2 * dims, 0)?;
            let (begin, end) = both.split_at(dims);
            Ok(Some((begin.to_vec(), end.to_vec())))
        }
        "VALID" => Ok(Some((vec![0; dims], vec![0; dims]))),
        "SAME_UPPER" | "SAME_LOWER" => {
            let space = im
                .shapes
                .get(x.index())
                .and_then(|s| s.get(2..))
                .unwrap_or(&[]);
            let total = space
                .iter()
                .zip(kernel)
                .zip(stride.iter().zip(dilation))
                .map(|((d, k), (s, l))| {
                    let out = d.div_ceil((*s).max(1));
                    (out.saturating_sub(1) * s + k.saturating_sub(1) * l + 1).saturating_sub(*d)
                });
            let total: Vec<usize> = total.collect();
            let less: Vec<usize> = total.iter().map(|t| t / 2).collect();
            let more: Vec<usize> = total.iter().map(|t| t.div_ceil(2)).collect();
            Ok(Some(if auto == "SAME_UPPER" {
                (less, more)
            } else {
                (more, less)
            }))
        }
        _ => Ok(None),
    }
}

/// Weight and optional bias of a convolution; the bias has one value per output channel.
fn conv_weights(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    inputs: Inputs<'_>,
    out: usize,
) -> Result<Option<Vec<TensorId>>, String> {
    let Some((w, name)) = constant(inputs, 1) else {
        return Ok(None);
    };
    let mut ids = vec![im.weight(w, name, node, w.shape.clone())?];
    if present(inputs, 2) {
        let Some((b, name)) = constant(inputs, 2) else {
            return Ok(None);
        };
        ids.push(im.weight(b, name, node, vec![out])?);
    }
    Ok(Some(ids))
}

fn conv(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(x) = spatial_input(im, node, inputs)? else {
        return Ok(None);
    };
    let Some((w, _)) = constant(inputs, 1) else {
        return Ok(None);
    };
    let [out, _, kernel @ ..] = w.shape.as_slice() else {
        return Err(format!(
            "its weight must be (out, in, kernel...), found {:?}",
            w.shape
        ));
    };
    let dims = kernel.len();
    let (stride, dilation) = (
        sizes(node, "strides", dims, 1)?,
        sizes(node, "dilations", dims, 1)?,
    );
    let groups = usize::try_from(node.int("group", 1))
        .map_err(|e| format!("its group is not a count ({e})"))?;
    let Some((pad_begin, pad_end)) = pads(im, node, x, [kernel, &stride, &dilation])? else {
        return Ok(None);
    };
    let op = Op::Conv {
        kernel: kernel.to_vec(),
        stride,
        pad_begin,
        pad_end,
        dilation,
        groups,
    };
    let Some(mut weights) = conv_weights(im, node, inputs, *out)? else {
        return Ok(None);
    };
    weights.insert(0, x);
    im.push_op(node, op, weights).map(Some)
}

fn conv_transpose(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(x) = spatial_input(im, node, inputs)? else {
        return Ok(None);
    };
    let Some((w, _)) = constant(inputs, 1) else {
        return Ok(None);
    };
    let [_, per_group, kernel @ ..] = w.shape.as_slice() else {
        return Err(format!(
            "its weight must be (in, out, kernel...), found {:?}",
            w.shape
        ));
    };
    let dims = kernel.len();
    let stride = sizes(node, "strides", dims, 1)?;
    let dilation = sizes(node, "dilations", dims, 1)?;
    let auto = node.text("auto_pad", "NOTSET");
    if dilation.iter().any(|d| *d != 1)
        || node.has("output_shape")
        || !matches!(auto, "NOTSET" | "")
    {
        return Ok(None);
    }
    let both = sizes(node, "pads", 2 * dims, 0)?;
    let (pad_begin, pad_end) = both.split_at(dims);
    let groups = usize::try_from(node.int("group", 1))
        .map_err(|e| format!("its group is not a count ({e})"))?;
    let out = per_group
        .checked_mul(groups)
        .ok_or("it has too many channels")?;
    let op = Op::ConvTranspose {
        kernel: kernel.to_vec(),
        stride,
        pad_begin: pad_begin.to_vec(),
        pad_end: pad_end.to_vec(),
        output_pad: sizes(node, "output_padding", dims, 0)?,
        groups,
    };
    let Some(mut weights) = conv_weights(im, node, inputs, out)? else {
        return Ok(None);
    };
    weights.insert(0, x);
    im.push_op(node, op, weights).map(Some)
}

fn activation(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let act = match node.op {
        "Relu" => Act::Relu,
        "LeakyRelu" => Act::LeakyRelu {
            slope: node.float("alpha", 0.01),
        },
        "Sigmoid" => Act::Sigmoid,
        "Tanh" => Act::Tanh,
        "Elu" => Act::Elu {
            alpha: node.float("alpha", 1.0),
        },
        "Gelu" if node.text("approximate", "none") == "none" => Act::Gelu,
        "Swish" if node.float("alpha", 1.0) == 1.0 => Act::Silu,
        _ => return Ok(None),
    };
    unary(im, node, inputs, Op::Activation(act))
}

fn prelu(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(x) = spatial_input(im, node, inputs)? else {
        return Ok(None);
    };
    let Some((slope, name)) = constant(inputs, 1) else {
        return Ok(None);
    };
    let c = channels(im, x);
    let Some(n) = per_channel(im, &slope.shape, c) else {
        return Ok(None);
    };
    let slope = im.weight(slope, name, node, vec![n])?;
    im.push_op(node, Op::PRelu, vec![x, slope]).map(Some)
}

/// 1 for a single value, C for one value a channel, `None` for any other shape (as broadcasting reads it).
pub(super) fn per_channel(im: &Importer<'_>, shape: &[usize], channels: usize) -> Option<usize> {
    if shape.iter().all(|d| *d == 1) {
        return Some(1);
    }
    let rank = im.graph.spatial_dims + 2;
    let axis = (shape.len() + 1)
        .checked_sub(rank)
        .filter(|_| shape.len() <= rank)?;
    let fits = shape
        .iter()
        .enumerate()
        .all(|(i, d)| if i == axis { *d == channels } else { *d == 1 });
    fits.then_some(channels)
}

fn softmax(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let rank = im.graph.spatial_dims + 2;
    let axis = node.int("axis", -1);
    let axis = if axis < 0 {
        axis + i64::try_from(rank).unwrap_or(0)
    } else {
        axis
    };
    if axis == 1 {
        unary(im, node, inputs, Op::Softmax)
    } else {
        Ok(None)
    }
}

fn pool(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(x) = spatial_input(im, node, inputs)? else {
        return Ok(None);
    };
    let dims = im.graph.spatial_dims;
    let kernel = sizes(node, "kernel_shape", dims, 1)?;
    let (stride, dilation) = (
        sizes(node, "strides", dims, 1)?,
        sizes(node, "dilations", dims, 1)?,
    );
    let Some((pad_begin, pad_end)) = pads(im, node, x, [&kernel, &stride, &dilation])? else {
        return Ok(None);
    };
    if dilation.iter().any(|d| *d != 1) || node.int("ceil_mode", 0) != 0 || node.outputs.len() > 1 {
        return Ok(None);
    }
    let op = if node.op == "MaxPool" {
        Op::MaxPool {
            kernel,
            stride,
            pad_begin,
            pad_end,
        }
    } else {
        Op::AvgPool {
            kernel,
            stride,
            pad_begin,
            pad_end,
            count_padding: node.int("count_include_pad", 0) != 0,
        }
    };
    im.push_op(node, op, vec![x]).map(Some)
}

fn resize(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(x) = spatial_input(im, node, inputs)? else {
        return Ok(None);
    };
    let shape = im.shapes.get(x.index()).cloned().unwrap_or_default();
    let Some(scale) = scales(node, inputs, &shape) else {
        return Ok(None);
    };
    let mode = node.text("mode", "nearest");
    // "Upsample" and Resize of opset 10 have no coordinate mode: they are asymmetric.
    let old = node.op == "Upsample" || inputs.len() < 3;
    let coordinates = node.text(
        "coordinate_transformation_mode",
        if old { "asymmetric" } else { "half_pixel" },
    );
    let rounding = node.text(
        "nearest_mode",
        if old { "floor" } else { "round_prefer_floor" },
    );
    let op = match (mode, coordinates, rounding) {
        // For whole factors these name the same voxels.
        ("nearest", "asymmetric", "floor")
        | (
            "nearest",
            "half_pixel" | "pytorch_half_pixel",
            "round_prefer_floor" | "round_prefer_ceil",
        ) => Op::UpsampleNearest { scale },
        ("linear", "half_pixel" | "pytorch_half_pixel", _) => Op::UpsampleLinear {
            scale,
            align_corners: false,
        },
        ("linear", "align_corners", _) => Op::UpsampleLinear {
            scale,
            align_corners: true,
        },
        _ => return Ok(None),
    };
    if scales_are_one(&op) {
        return Ok(Some(Value::Act(x)));
    }
    im.push_op(node, op, vec![x]).map(Some)
}

fn scales_are_one(op: &Op) -> bool {
    match op {
        Op::UpsampleNearest { scale } | Op::UpsampleLinear { scale, .. } => {
            scale.iter().all(|s| *s == 1)
        }
        _ => false,
    }
}

/// Whole factors per spatial axis, from scales or sizes; `None` when they are not whole or touch other axes.
fn scales(node: &Node<'_>, inputs: Inputs<'_>, shape: &[usize]) -> Option<Vec<usize>> {
    let floats = |i: usize| {
        constant(inputs, i)
            .filter(|(c, _)| c.len() > 0)
            .and_then(|(c, _)| c.as_floats().cloned())
    };
    let at = if node.op == "Upsample" || inputs.len() == 2 {
        1
    } else {
        2
    };
    let factors: Vec<usize> =
        if let Some((sizes, _)) = constant(inputs, 3).filter(|(c, _)| c.len() > 0) {
            let exact = |(size, d): (&i64, &usize)| {
                let size = usize::try_from(*size).ok()?;
                size.is_multiple_of(*d)
                    .then(|| size.checked_div(*d))
                    .flatten()
            };
            sizes
                .as_ints()?
                .iter()
                .zip(shape)
                .map(exact)
                .collect::<Option<_>>()?
        } else {
            let scales = floats(at).or_else(|| node.floats("scales").map(Into::into))?;
            let whole = |s: &f32| (1..=64u16).find(|n| f32::from(*n) == *s).map(usize::from);
            scales.iter().map(whole).collect::<Option<_>>()?
        };
    let (outer, spatial) = factors.split_at_checked(2)?;
    (outer == [1, 1] && factors.len() == shape.len()).then(|| spatial.to_vec())
}

fn pad(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let amounts = match constant(inputs, 1) {
        Some((c, _)) => c.as_ints().map(<[i64]>::to_vec),
        None => node.ints("pads").map(<[i64]>::to_vec),
    };
    let (Some(amounts), Some(Some(value))) = (amounts, inputs.first()) else {
        return Ok(None);
    };
    if amounts.iter().all(|a| *a == 0) && !matches!(value, Value::Known(..)) {
        return Ok(Some(value.clone()));
    }
    let Some(x) = spatial_input(im, node, inputs)? else {
        return Ok(None);
    };
    let amounts: Option<Vec<usize>> = amounts.iter().map(|a| usize::try_from(*a).ok()).collect();
    let rank = im.graph.spatial_dims + 2;
    let Some((begin, end)) = amounts.as_deref().and_then(|a| a.split_at_checked(rank)) else {
        return Ok(None);
    };
    let ([0, 0, begin @ ..], [0, 0, end @ ..], false) = (begin, end, present(inputs, 3)) else {
        return Ok(None);
    };
    let value = match inputs.get(2) {
        Some(Some(Value::Known(c, _))) => c.scalar().unwrap_or(0.0),
        _ => node.float("value", 0.0),
    };
    let mode = match node.text("mode", "constant") {
        "constant" => PadMode::Constant { value },
        "edge" => PadMode::Edge,
        "reflect" => PadMode::Reflect,
        _ => return Ok(None),
    };
    let op = Op::Pad {
        begin: begin.to_vec(),
        end: end.to_vec(),
        mode,
    };
    im.push_op(node, op, vec![x]).map(Some)
}

fn concat(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let rank = im.graph.spatial_dims + 2;
    let axis = node.int("axis", 0);
    let channels = axis == 1 || axis + i64::try_from(rank).unwrap_or(0) == 1;
    let plain = inputs.iter().all(
        |v| matches!(v, Some(v @ (Value::Act(_) | Value::View(..))) if im.shape(v).len() == rank),
    );
    if !channels || !plain {
        return Ok(None);
    }
    let mut ids = Vec::new();
    for value in inputs.iter().flatten() {
        ids.push(im.materialize(value.clone(), node.name)?);
    }
    im.push_op(node, Op::Concat, ids).map(Some)
}

/// A reshape costs nothing until something reads it in its new shape.
fn view(im: &Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> Option<Value> {
    let value = inputs.first()?.as_ref()?;
    let operands: Vec<_> = inputs
        .iter()
        .map(|v| {
            v.as_ref().map(|v| super::shape_rules::Operand {
                shape: im.shape(v),
                constant: match v {
                    Value::Known(c, _) => Some(c.as_ref()),
                    _ => None,
                },
            })
        })
        .collect();
    let shape = super::shape_rules::outputs(node, &operands)?
        .into_iter()
        .next()?;
    let id = match value {
        Value::Act(id) | Value::View(id, ..) => *id,
        Value::Known(..) => return None,
    };
    let real = im.shapes.get(id.index())?;
    Some(if *real == shape {
        Value::Act(id)
    } else {
        Value::View(id, shape, node.name.to_owned())
    })
}

fn alias(node: &Node<'_>, inputs: Inputs<'_>) -> Option<Value> {
    let value = inputs.first()?.as_ref()?;
    // A cast between float types is not arithmetic of ours: everything is f32.
    let same = node.op != "Cast" || matches!(node.int("to", 1), 1 | 10 | 11 | 16);
    (same && !matches!(value, Value::Known(..)) && node.outputs.len() == 1).then(|| value.clone())
}
