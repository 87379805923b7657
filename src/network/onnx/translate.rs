//! ONNX operations that have an operation of ours. `None` where there is none: then the node is only planned.

use super::constant::Constant;
use super::import::{Importer, Value};
use super::proto::Node;
use super::{
    einsum, translate_acts, translate_maps, translate_norms, translate_parts, translate_tensor,
    translate_views,
};
use crate::network::graph::{Op, TensorId};
use std::rc::Rc;

/// What a node reads.
pub(super) type Inputs<'i> = &'i [Option<Value>];
pub(super) type Translated = Result<Option<Vec<Value>>, String>;

/// The values a node makes, as nodes of ours pushed on the way.
pub(super) fn node(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> Translated {
    if node.op == "Split" {
        return translate_parts::split(im, node, inputs);
    }
    let made = match node.op {
        "Conv" => conv(im, node, inputs)?,
        "ConvTranspose" => conv_transpose(im, node, inputs)?,
        "InstanceNormalization" => translate_norms::instance_norm(im, node, inputs)?,
        "GroupNormalization" => translate_norms::group_norm(im, node, inputs)?,
        "BatchNormalization" => translate_norms::batch_norm(im, node, inputs)?,
        "PRelu" => match prelu(im, node, inputs)? {
            None => translate_tensor::binary(im, node, inputs)?,
            made => made,
        },
        "MaxPool" | "AveragePool" => translate_maps::pool(im, node, inputs)?,
        "GlobalAveragePool" => unary(im, node, inputs, Op::GlobalAvgPool)?,
        "GlobalMaxPool" => translate_maps::global_max_pool(im, node, inputs)?,
        "Resize" | "Upsample" => translate_maps::resize(im, node, inputs)?,
        "Pad" => translate_maps::pad(im, node, inputs)?,
        "Add" | "Sub" | "Mul" | "Div" => match translate_norms::arithmetic(im, node, inputs)? {
            None => translate_tensor::binary(im, node, inputs)?,
            made => made,
        },
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => translate_views::view(im, node, inputs)?,
        "DepthToSpace" | "SpaceToDepth" => translate_views::blocks(im, node, inputs)?,
        "Identity" | "Dropout" | "Cast" => match translate_views::alias(im, node, inputs) {
            None => translate_acts::activation(im, node, inputs)?,
            made => made,
        },
        "Einsum" => einsum::einsum(im, node, inputs)?,
        _ => match translate_acts::activation(im, node, inputs)? {
            None => translate_tensor::node(im, node, inputs)?,
            made => made,
        },
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
        Some(Value::Known(c, name, _)) => Some((c, name.as_deref())),
        _ => None,
    }
}

pub(super) fn present(inputs: Inputs<'_>, i: usize) -> bool {
    inputs.get(i).is_some_and(Option::is_some)
}

pub(super) fn channels(im: &Importer<'_>, x: TensorId) -> usize {
    im.shapes
        .get(x.index())
        .and_then(|s| s.get(1))
        .copied()
        .unwrap_or(0)
}

pub(super) fn unary(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>, op: Op) -> One {
    match spatial_input(im, node, inputs)? {
        Some(x) => im.push_op(node, op, vec![x]).map(Some),
        None => Ok(None),
    }
}

/// A list attribute as sizes of the right length.
pub(super) fn sizes(
    node: &Node<'_>,
    name: &str,
    dims: usize,
    or: usize,
) -> Result<Vec<usize>, String> {
    let Some(values) = node.ints(name) else {
        return Ok(vec![or; dims]);
    };
    let out: Option<Vec<usize>> = values
        .iter()
        .map(|v| {
            let v = usize::try_from(*v).ok();
            // What is 1 where it is not said is never 0.
            v.filter(|v| (or.min(1)..1 << 20).contains(v))
        })
        .collect();
    out.filter(|v| v.len() == dims).ok_or_else(|| {
        let least = or.min(1);
        format!("its {name} must be {dims} whole numbers from {least} to 2^20, found {values:?}")
    })
}

/// Padding before and after each axis.
pub(super) type Pads = (Vec<usize>, Vec<usize>);

/// Padding, also from `auto_pad`.
pub(super) fn pads(
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
    if node.has("output_shape") || !matches!(auto, "NOTSET" | "") {
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
        dilation,
        groups,
    };
    let Some(mut weights) = conv_weights(im, node, inputs, out)? else {
        return Ok(None);
    };
    weights.insert(0, x);
    im.push_op(node, op, weights).map(Some)
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
