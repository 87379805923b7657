//! Pools, resizes and padding of maps.

use super::import::{Importer, Value};
use super::proto::Node;
use super::symbolic::Trace;
use super::translate::{Inputs, One, constant, pads, present, sizes, spatial_input};
use super::translate_tensor;
use crate::network::graph::{Baked, Op, PadMode};
use crate::network::size::Size;
use crate::network::tensor_op::{Coordinates, Nearest, PoolKind, Reduce, ResizeTo, TensorOp};

pub(super) fn pool(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(x) = spatial_input(im, node, inputs)? else {
        return Ok(None);
    };
    let dims = im.graph.spatial_dims;
    if node.ints("kernel_shape").is_none() {
        return Err("its kernel_shape is missing".to_owned());
    }
    let kernel = sizes(node, "kernel_shape", dims, 1)?;
    let (stride, dilation) = (
        sizes(node, "strides", dims, 1)?,
        sizes(node, "dilations", dims, 1)?,
    );
    let Some((pad_begin, pad_end)) = pads(im, node, x, [&kernel, &stride, &dilation])? else {
        return Ok(None);
    };
    let second = node.outputs.get(1).filter(|o| !o.is_empty());
    if second.is_some_and(|o| im.is_read(o)) {
        return Ok(None);
    }
    let ceil = node.int("ceil_mode", 0) != 0;
    if ceil || dilation.iter().any(|d| *d != 1) {
        let kind = if node.op == "MaxPool" {
            PoolKind::Max
        } else {
            PoolKind::Average {
                count_padding: node.int("count_include_pad", 0) != 0,
            }
        };
        let op = TensorOp::Pool {
            kind,
            kernel,
            stride,
            pad_begin,
            pad_end,
            dilation,
            ceil,
        };
        return im.push_op(node, Op::Tensor(op), vec![x]).map(Some);
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

pub(super) fn global_max_pool(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(x) = spatial_input(im, node, inputs)? else {
        return Ok(None);
    };
    let op = TensorOp::Reduce {
        kind: Reduce::Max,
        axes: (2..im.graph.spatial_dims + 2).collect(),
        keep: true,
    };
    im.push_op(node, Op::Tensor(op), vec![x]).map(Some)
}

pub(super) fn resize(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(x) = spatial_input(im, node, inputs)? else {
        return Ok(None);
    };
    let shape = im.shapes.get(x.index()).cloned().unwrap_or_default();
    // Opset 18 may name the axes that it resizes.
    let axes: Vec<usize> = match node.ints("axes") {
        Some(axes) => axes
            .iter()
            .filter_map(|a| super::fold::axis(*a, shape.len()))
            .collect(),
        None => (0..shape.len()).collect(),
    };
    let refused = node.int("antialias", 0) != 0
        || node.int("exclude_outside", 0) != 0
        || !matches!(node.text("keep_aspect_ratio_policy", "stretch"), "stretch");
    let Some(to) = target(im, node, inputs, (&shape, &axes)).filter(|_| !refused) else {
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
    if let ResizeTo::Ratios(ratios) = &to {
        if ratios.iter().all(|r| *r == (1, 1)) {
            return Ok(Some(Value::Act(x)));
        }
        let whole: Option<Vec<usize>> = ratios
            .iter()
            .map(|(up, down)| (*down == 1).then_some(*up))
            .collect();
        if let Some(op) = whole.and_then(|scale| whole_factors(scale, mode, coordinates, rounding))
        {
            return im.push_op(node, op, vec![x]).map(Some);
        }
    }
    let coordinates = match coordinates {
        "half_pixel" => Coordinates::HalfPixel,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "asymmetric" => Coordinates::Asymmetric,
        "align_corners" => Coordinates::AlignCorners,
        _ => return Ok(None),
    };
    let nearest = match (mode, rounding) {
        ("linear", _) => None,
        ("nearest", "floor") => Some(Nearest::Floor),
        ("nearest", "ceil") => Some(Nearest::Ceil),
        ("nearest", "round_prefer_floor") => Some(Nearest::RoundPreferFloor),
        ("nearest", "round_prefer_ceil") => Some(Nearest::RoundPreferCeil),
        _ => return Ok(None),
    };
    let op = TensorOp::Resize {
        to,
        coordinates,
        nearest,
    };
    im.push_op(node, Op::Tensor(op), vec![x]).map(Some)
}

/// Enlarging by whole factors, which names the same voxels in several ways.
fn whole_factors(scale: Vec<usize>, mode: &str, coordinates: &str, rounding: &str) -> Option<Op> {
    match (mode, coordinates, rounding) {
        ("nearest", "asymmetric", "floor")
        | (
            "nearest",
            "half_pixel" | "pytorch_half_pixel",
            "round_prefer_floor" | "round_prefer_ceil",
        ) => Some(Op::UpsampleNearest { scale }),
        ("linear", "half_pixel" | "pytorch_half_pixel", _) => Some(Op::UpsampleLinear {
            scale,
            align_corners: false,
        }),
        ("linear", "align_corners", _) => Some(Op::UpsampleLinear {
            scale,
            align_corners: true,
        }),
        _ => None,
    }
}

/// How large the result is, from scales or sizes; `None` when it is unknown or touches batch or channels.
fn target(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    inputs: Inputs<'_>,
    (shape, axes): (&[usize], &[usize]),
) -> Option<ResizeTo> {
    let at = if node.op == "Upsample" || inputs.len() == 2 {
        1
    } else {
        2
    };
    if let Some(Some(value)) = inputs
        .get(3)
        .filter(|_| constant(inputs, 3).is_some_and(|(c, _)| c.len() > 0))
    {
        let given = im.sizes(node, value)?;
        let mut all: Vec<Size> = (0..shape.len())
            .map(|axis| match inputs.first() {
                Some(Some(x)) => im.dim(x, axis),
                _ => Size::Fixed(1),
            })
            .collect();
        for (axis, size) in axes.iter().zip(given) {
            *all.get_mut(*axis)? = size;
        }
        let values: Vec<usize> = all
            .iter()
            .map(|s| usize::try_from(s.value(&im.shapes)?).ok())
            .collect::<Option<_>>()?;
        if values.get(..2)? != shape.get(..2)? {
            return None;
        }
        let all = all.split_off(2);
        // Sizes that were numbers at the export are ratios where they are plain ones.
        let ratio = |(made, d): (&usize, &usize)| {
            if *made == 0 || *d == 0 {
                None
            } else if made.is_multiple_of(*d) {
                Some((made / d, 1))
            } else if d.is_multiple_of(*made) {
                Some((1, d / made))
            } else {
                None
            }
        };
        let ratios: Option<Vec<(usize, usize)>> = values
            .get(2..)?
            .iter()
            .zip(shape.get(2..)?)
            .map(ratio)
            .collect();
        let baked = (2..shape.len()).any(|axis| {
            let varies = matches!(inputs.first(), Some(Some(x)) if !im.dim(x, axis).is_fixed());
            varies && all.get(axis - 2).is_some_and(Size::is_fixed)
        });
        return Some(match ratios {
            Some(ratios) if all.iter().all(Size::is_fixed) && !(baked && im.is_open) => {
                if baked && im.sized.is_none() {
                    im.sized = Some(Baked {
                        node: if node.name.is_empty() { node.op } else { node.name }.to_owned(),
                        op: node.op.to_owned(),
                        reason: "resizes to constants that were sizes at the export; at others they may stand for the size of another map".to_owned(),
                    });
                }
                ResizeTo::Ratios(ratios)
            }
            _ => {
                if baked && !im.is_open {
                    im.bake(
                        node,
                        "its size is a constant made for one size of the input".to_owned(),
                    );
                }
                ResizeTo::Sizes(all)
            }
        });
    }
    if let Some(Some(Value::Known(_, _, Trace::Sizes(_) | Trace::Sized(_)))) = inputs.get(at) {
        im.bake(
            node,
            "its scales are computed from the size of the input".to_owned(),
        );
    }
    let given: Vec<f32> = constant(inputs, at)
        .filter(|(c, _)| c.len() > 0)
        .and_then(|(c, _)| c.as_floats().cloned())
        .or_else(|| node.floats("scales").map(Into::into))?
        .to_vec();
    let mut all = vec![1.0_f32; shape.len()];
    for (axis, scale) in axes.iter().zip(given) {
        *all.get_mut(*axis)? = scale;
    }
    let spatial = all.split_off(2);
    if all != [1.0, 1.0] || spatial.iter().any(|s| !s.is_finite() || *s <= 0.0) {
        return None;
    }
    let plain = |s: &f32| {
        let whole = (1..=64u16).find(|n| f32::from(*n) == *s);
        let part = (2..=64u16).find(|n| f32::from(*n).recip() == *s && n.is_power_of_two());
        match (whole, part) {
            (Some(n), _) => Some((usize::from(n), 1)),
            (_, Some(n)) => Some((1, usize::from(n))),
            _ => None,
        }
    };
    let ratios: Option<Vec<_>> = spatial.iter().map(plain).collect();
    Some(ratios.map_or(ResizeTo::Scales(spatial), ResizeTo::Ratios))
}

pub(super) fn pad(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(Some(value)) = inputs.first() else {
        return Ok(None);
    };
    let amounts = match inputs.get(1) {
        Some(Some(amounts)) => im.sizes(node, amounts),
        _ => node
            .ints("pads")
            .map(|p| p.iter().map(|v| Size::Fixed(*v)).collect()),
    };
    let rank = im.shape(value).len();
    let Some(amounts) = amounts.and_then(|a| on_axes(&a, inputs, rank)) else {
        return Ok(None);
    };
    if amounts.iter().all(|a| *a == Size::Fixed(0)) && !matches!(value, Value::Known(..)) {
        return Ok(Some(value.clone()));
    }
    let fill = match inputs.get(2) {
        Some(Some(Value::Known(c, ..))) => c.first(),
        _ => node.float("value", 0.0),
    };
    let mode = match node.text("mode", "constant") {
        "constant" => PadMode::Constant { value: fill },
        "edge" => PadMode::Edge,
        "reflect" => PadMode::Reflect,
        "wrap" => PadMode::Wrap,
        _ => return Ok(None),
    };
    let x = im.materialize(value.clone(), node.name)?;
    let numbers: Option<Vec<usize>> = amounts
        .iter()
        .map(|a| match a {
            Size::Fixed(v) => usize::try_from(*v).ok(),
            _ => None,
        })
        .collect();
    if let Some(([0, 0, begin @ ..], [0, 0, end @ ..])) =
        numbers.as_deref().and_then(|n| n.split_at_checked(rank))
        && rank == im.graph.spatial_dims + 2
    {
        let op = Op::Pad {
            begin: begin.to_vec(),
            end: end.to_vec(),
            mode,
        };
        return im.push_op(node, op, vec![x]).map(Some);
    }
    let (begin, end) = amounts.split_at(rank);
    let op = TensorOp::Pad {
        begin: begin.to_vec(),
        end: end.to_vec(),
        mode,
    };
    translate_tensor::push(im, node, op, vec![x])
}

/// Amounts for every axis, where the file may give some axes only.
fn on_axes(amounts: &[Size], inputs: Inputs<'_>, rank: usize) -> Option<Vec<Size>> {
    if !present(inputs, 3) {
        return (amounts.len() == 2 * rank).then(|| amounts.to_vec());
    }
    let (axes, _) = constant(inputs, 3)?;
    let (begin, end) = amounts.split_at_checked(axes.len())?;
    let mut out = vec![Size::Fixed(0); 2 * rank];
    for ((axis, b), e) in axes.as_ints()?.iter().zip(begin).zip(end) {
        let axis = super::fold::axis(*axis, rank)?;
        *out.get_mut(axis)? = b.clone();
        *out.get_mut(axis + rank)? = e.clone();
    }
    Some(out)
}
