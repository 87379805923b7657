//! Norms, and the arithmetic with constants that exporters make of their scales and shifts.

use super::constant::{Constant, Data, narrow};
use super::import::{Importer, Value, View};
use super::proto::Node;
use super::translate::{Inputs, One, channels, constant, per_channel, spatial_input};
use super::translate_tensor::{self, floats as floats_of, push};
use crate::network::graph::{Op, TensorId};
use crate::network::tensor_op::{Binary, TensorOp};
use std::rc::Rc;

/// Whether a constant holds this value everywhere.
fn is_all(c: &Constant, value: f32) -> bool {
    c.as_floats().is_some_and(|v| v.iter().all(|x| *x == value))
}

pub(super) fn instance_norm(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let (Some((scale, scale_name)), Some((shift, shift_name))) =
        (constant(inputs, 1), constant(inputs, 2))
    else {
        return Ok(None);
    };
    let eps = node.float("epsilon", 1e-5);
    let plain = is_all(scale, 1.0) && is_all(shift, 0.0);
    // A group norm is exported as an instance norm over channels folded into (N, groups, everything else).
    if let (Some(Some(Value::View(view))), true) = (inputs.first(), plain)
        && let Some(made) = grouped(im, node, view, eps)?
    {
        return Ok(Some(made));
    }
    let Some(x) = spatial_input(im, node, inputs)? else {
        return general_norm(im, node, inputs, eps);
    };
    let c = channels(im, x);
    let mut ids = vec![x];
    // Exporters write ones and zeros where PyTorch has no parameters.
    if !plain || scale_name.is_some() || shift_name.is_some() {
        ids.push(im.weight(scale, scale_name, node, vec![c])?);
        ids.push(im.weight(shift, shift_name, node, vec![c])?);
    }
    im.push_op(node, Op::InstanceNorm { eps }, ids).map(Some)
}

/// A group norm behind a view of channels folded into groups.
fn grouped(im: &mut Importer<'_>, node: &Node<'_>, view: &View, eps: f32) -> One {
    let real = im.shapes.get(view.of.index()).cloned().unwrap_or_default();
    let [n, groups, _, ..] = *view.shape.as_slice() else {
        return Ok(None);
    };
    let whole = real.first() == Some(&n) && real.len() == im.graph.spatial_dims + 2;
    if !whole || groups == 0 || !real.get(1).is_some_and(|c| c.is_multiple_of(groups)) {
        return Ok(None);
    }
    let Value::Act(of) = im.push_op(node, Op::GroupNorm { groups, eps }, vec![view.of])? else {
        return Ok(None);
    };
    Ok(Some(Value::View(Rc::new(View {
        of,
        name: node.name.to_owned(),
        ..view.clone()
    }))))
}

/// An instance norm over any axes after the second, written as a norm, a product and a sum.
fn general_norm(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>, eps: f32) -> One {
    let Some(Some(value)) = inputs.first() else {
        return Ok(None);
    };
    if matches!(value, Value::Known(..)) || im.shape(value).len() < 3 {
        return Ok(None);
    }
    let x = im.materialize(value.clone(), node.name)?;
    let op = TensorOp::LayerNorm { axis: 2, eps };
    let Some(made) = push(im, node, op, vec![x])? else {
        return Ok(None);
    };
    affine(im, node, made, [constant(inputs, 1), constant(inputs, 2)])
}

/// A factor and a shift per channel on a tensor of any rank.
fn affine(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    mut made: Value,
    parts: [Option<(&Rc<Constant>, Option<&str>)>; 2],
) -> One {
    let mut shape = vec![1; im.shape(&made).len().saturating_sub(1)];
    let channels = im.shape(&made).get(1).copied().unwrap_or(0);
    if let Some(slot) = shape.first_mut() {
        *slot = channels;
    }
    let steps = [(Binary::Mul, 1.0), (Binary::Add, 0.0)];
    for ((op, nothing), part) in steps.into_iter().zip(parts) {
        let Some((c, name)) = part else {
            return Ok(None);
        };
        if is_all(c, nothing) && name.is_none() {
            continue;
        }
        let ids = vec![
            im.materialize(made, node.name)?,
            im.weight(c, name, node, shape.clone())?,
        ];
        made = im.push_op(node, Op::Tensor(TensorOp::Binary(op)), ids)?;
    }
    Ok(Some(made))
}

pub(super) fn group_norm(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(x) = spatial_input(im, node, inputs)? else {
        return Ok(None);
    };
    let (Some((scale, scale_name)), Some((shift, shift_name))) =
        (constant(inputs, 1), constant(inputs, 2))
    else {
        return Ok(None);
    };
    let groups = usize::try_from(node.int("num_groups", 0))
        .map_err(|e| format!("its num_groups is not a count ({e})"))?;
    let c = channels(im, x);
    let mut ids = vec![x];
    for (values, name) in [(scale, scale_name), (shift, shift_name)] {
        // Before opset 21 there is one value a group.
        let per_channel = if values.len() == groups && groups != c {
            spread(values, c)?
        } else {
            Constant::clone(values)
        };
        ids.push(im.weight(&per_channel, name, node, vec![c])?);
    }
    im.push_op(
        node,
        Op::GroupNorm {
            groups,
            eps: node.float("epsilon", 1e-5),
        },
        ids,
    )
    .map(Some)
}

fn spread(c: &Constant, channels: usize) -> Result<Constant, String> {
    let values = c.as_floats().ok_or("its scale must hold floats")?;
    let each = channels.checked_div(values.len()).unwrap_or(0);
    let data: Vec<f32> = values
        .iter()
        .flat_map(|v| std::iter::repeat_n(*v, each))
        .collect();
    Ok(Constant {
        shape: vec![data.len()],
        data: Data::Floats(data.into()),
    })
}

pub(super) fn batch_norm(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    if node.int("training_mode", 0) != 0 {
        return Ok(None);
    }
    let Some(x) = spatial_input(im, node, inputs)? else {
        return general_batch_norm(im, node, inputs);
    };
    let c = channels(im, x);
    let mut ids = vec![x];
    for i in 1..5 {
        let Some((values, name)) = constant(inputs, i) else {
            return Ok(None);
        };
        ids.push(im.weight(values, name, node, vec![c])?);
    }
    im.push_op(
        node,
        Op::BatchNorm {
            eps: node.float("epsilon", 1e-5),
        },
        ids,
    )
    .map(Some)
}

/// A batch norm on a tensor of any rank, as a product and a sum.
fn general_batch_norm(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let floats = |i: usize| constant(inputs, i).and_then(|(c, _)| c.as_floats().cloned());
    let (Some(Some(value)), Some(scale), Some(shift), Some(mean), Some(var)) =
        (inputs.first(), floats(1), floats(2), floats(3), floats(4))
    else {
        return Ok(None);
    };
    if matches!(value, Value::Known(..)) || im.shape(value).len() < 2 {
        return Ok(None);
    }
    let eps = f64::from(node.float("epsilon", 1e-5));
    let each = scale
        .iter()
        .zip(shift.iter())
        .zip(mean.iter().zip(var.iter()));
    let (factors, shifts): (Vec<f32>, Vec<f32>) = each
        .map(|((g, b), (m, v))| {
            let factor = f64::from(*g) / (f64::from(*v) + eps).sqrt();
            let shift = f64::from(*b) - f64::from(*m) * factor;
            (narrow(factor), narrow(shift))
        })
        .unzip();
    let n = factors.len();
    let (factors, shifts) = (
        Rc::new(floats_of(factors, vec![n])),
        Rc::new(floats_of(shifts, vec![n])),
    );
    let name = |i: usize| constant(inputs, i).and_then(|(_, name)| name);
    let x = im.materialize(value.clone(), node.name).map(Value::Act)?;
    affine(
        im,
        node,
        x,
        [Some((&factors, name(1))), Some((&shifts, name(2)))],
    )
}

pub(super) fn arithmetic(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let [Some(a), Some(b)] = inputs else {
        return Ok(None);
    };
    match (a, b) {
        (Value::Known(..), Value::Known(..)) => Ok(None),
        (x, Value::Known(c, name, _)) => with_constant(im, node, (x, 0), (c, name.as_deref())),
        (Value::Known(c, name, _), x) if matches!(node.op, "Add" | "Mul") => {
            with_constant(im, node, (x, 1), (c, name.as_deref()))
        }
        _ => Ok(None),
    }
}

/// A tensor scaled or shifted by constants per channel: part of the norm before it where that has none, else a norm of its own.
fn with_constant(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    (x, side): (&Value, usize),
    (c, name): (&Constant, Option<&str>),
) -> One {
    let Value::Act(id) = *x else { return Ok(None) };
    let read_once = node.inputs.get(side).is_some_and(|name| im.read_once(name));
    if node.op == "Add" && read_once && translate_tensor::bias(im, node, x, (c, name))? {
        return Ok(Some(Value::Act(id)));
    }
    // One number is no norm.
    if c.len() == 1
        && (name.is_none() || c.shape.is_empty())
        && !im.maker(id).is_some_and(|m| m.op.is_spatial_norm())
    {
        return Ok(None);
    }
    let (Some(values), true) = (
        c.as_floats(),
        im.shape(x).len() == im.graph.spatial_dims + 2,
    ) else {
        return Ok(None);
    };
    let n = channels(im, id);
    let Some(count) = per_channel(im, &c.shape, n) else {
        return Ok(None);
    };
    let turned: Vec<f32> = match node.op {
        "Sub" => values.iter().map(|v| -v).collect(),
        "Div" => values.iter().map(|v| v.recip()).collect(),
        _ => values.to_vec(),
    };
    let all: Vec<f32> = if count == n {
        turned
    } else {
        turned.iter().cycle().take(n).copied().collect()
    };
    let values = Constant {
        shape: vec![n],
        data: Data::Floats(all.into()),
    };
    let scales = matches!(node.op, "Mul" | "Div");
    let label = name.map_or_else(|| format!("{}.constant", node.name), str::to_owned);
    if read_once && fuse(im, id, (&values, &label, name.is_some()), scales)? {
        return Ok(Some(Value::Act(id)));
    }
    // y = (x - 0) / sqrt(1 + 0) * scale + shift.
    let mut ids = vec![id];
    for (role, filler) in [("scale", 1.0), ("shift", 0.0), ("mean", 0.0), ("var", 1.0)] {
        let own = (role == "scale" && scales) || (role == "shift" && !scales);
        ids.push(if own {
            im.named_weight(&values, &label, vec![n], name.is_some())?
        } else {
            im.named_weight(
                &filled(n, filler),
                &format!("{}.{role}", node.name),
                vec![n],
                false,
            )?
        });
    }
    im.push_op(node, Op::BatchNorm { eps: 0.0 }, ids).map(Some)
}

fn filled(n: usize, value: f32) -> Constant {
    Constant {
        shape: vec![n],
        data: Data::Floats(vec![value; n].into()),
    }
}

/// Puts a scale or shift into the spatial norm that makes the tensor; false when that is no norm or has one already.
fn fuse(
    im: &mut Importer<'_>,
    id: TensorId,
    (values, label, stored): (&Constant, &str, bool),
    scales: bool,
) -> Result<bool, String> {
    let n = values.len();
    let Some(maker) = im.maker(id).filter(|m| m.op.is_spatial_norm()) else {
        return Ok(false);
    };
    let has = maker.inputs.len();
    let name = maker.name.clone();
    let shift = maker.inputs.get(2).copied();
    match (has, scales, shift) {
        (1, _, _) => {
            let given = im.named_weight(values, label, vec![n], stored)?;
            let filler = if scales { 0.0 } else { 1.0 };
            let other = im.named_weight(
                &filled(n, filler),
                &format!("{name}.{}", if scales { "shift" } else { "scale" }),
                vec![n],
                false,
            )?;
            let pair = if scales {
                [given, other]
            } else {
                [other, given]
            };
            if let Some(maker) = im.maker(id) {
                maker.inputs.extend(pair);
            }
            Ok(true)
        }
        // The placeholder of zeros that a scale brought with it becomes the real shift.
        (3, false, Some(shift))
            if im
                .weights
                .get(shift)
                .is_some_and(|v| v.iter().all(|x| *x == 0.0))
                && !im.is_stored(shift) =>
        {
            let given = im.named_weight(values, label, vec![n], stored)?;
            im.forget(shift);
            if let Some(slot) = im.maker(id).and_then(|m| m.inputs.get_mut(2)) {
                *slot = given;
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}
