//! Reshapes, which cost nothing until something reads them in their new shape, and other ways to say the same values.

use super::fold;
use super::import::{Importer, Value, View};
use super::proto::Node;
use super::shape_rules::{self, Operand};
use super::symbolic::Trace;
use super::translate::{Inputs, One};
use super::translate_tensor::push;
use crate::network::axes::groups;
use crate::network::graph::{self, Op, TensorId};
use crate::network::shapes;
use crate::network::size::{Size, SizeOp};
use crate::network::tensor_op::TensorOp;
use std::rc::Rc;

/// Most nodes looked back over for the reshape that another one takes back.
const MOST_BETWEEN: usize = 64;

/// A reshape, squeeze or flattening of a tensor.
pub(super) fn view(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(Some(value)) = inputs.first() else {
        return Ok(None);
    };
    let operands: Vec<_> = inputs
        .iter()
        .map(|v| {
            v.as_ref().map(|v| Operand {
                shape: im.shape(v),
                constant: match v {
                    Value::Known(c, ..) => Some(c.as_ref()),
                    _ => None,
                },
            })
        })
        .collect();
    let Some(shape) = shape_rules::outputs(node, &operands).and_then(|s| s.into_iter().next())
    else {
        return Ok(None);
    };
    if matches!(value, Value::Known(..)) || shape.is_empty() {
        return Ok(None);
    }
    let value = value.clone();
    let from = im.shape(&value).to_vec();
    let sizes = match (node.op, inputs.get(1)) {
        ("Reshape", Some(Some(to))) => {
            let to = to.clone();
            match back(im, &value, &to, &shape) {
                Some(sizes) => sizes,
                None => reshaped(im, node, &value, &to, (&from, &shape))?,
            }
        }
        _ => moved(&im.dims(&value), &from, &shape)?,
    };
    Ok(Some(seen(im, &value, shape, sizes, node.name)))
}

/// A value in another shape.
pub(super) fn seen(
    im: &Importer<'_>,
    value: &Value,
    shape: Vec<usize>,
    sizes: Vec<Size>,
    name: &str,
) -> Value {
    let of = match value {
        Value::Act(id) => *id,
        Value::View(view) => view.of,
        Value::Known(..) => return value.clone(),
    };
    if im.shapes.get(of.index()) == Some(&shape) {
        return Value::Act(of);
    }
    Value::View(Rc::new(View {
        of,
        shape,
        sizes,
        name: name.to_owned(),
    }))
}

/// Sizes after axes were only merged, or axes of one added and taken away.
fn moved(dims: &[Size], from: &[usize], to: &[usize]) -> Result<Vec<Size>, String> {
    let mut out = vec![Size::Fixed(1); to.len()];
    for (a, b) in groups(from, to).ok_or("its shapes hold no values")? {
        let product = Size::product(a.iter().filter_map(|i| dims.get(*i).cloned()));
        if let ([slot], Some(product)) = (b.as_slice(), product)
            && let Some(slot) = out.get_mut(*slot)
        {
            *slot = product;
        }
    }
    Ok(out)
}

/// Sizes for any roi where a constant shape takes back an earlier reshape: only operations place by place lie between, so
/// its numbers are the sizes of the tensor before that reshape.
fn back(im: &Importer<'_>, value: &Value, to: &Value, shape: &[usize]) -> Option<Vec<Size>> {
    let (mut id, seen) = match value {
        Value::Act(id) => (*id, im.probe.get(id.index())?.clone()),
        Value::View(view) => (view.of, im.probe.get(view.of.index())?.clone()),
        Value::Known(..) => return None,
    };
    if !matches!(to, Value::Known(_, _, Trace::Fixed)) || seen.is_empty() {
        return None;
    }
    let mut steps = im.graph.nodes.iter().rev().take(MOST_BETWEEN);
    while im.shapes.get(id.index())? != shape {
        let node = steps.find(|n| n.outputs.contains(&id))?;
        id = before(im, node, id)?;
    }
    // It holds the same number of values at another size too.
    let count = |s: &[usize]| shapes::elements(s).ok();
    let origin = im.probe.get(id.index()).filter(|s| !s.is_empty())?;
    (count(origin)? == count(&seen)?).then(|| im.dims(&Value::Act(id)))
}

/// What a tensor was before a node that leaves every value in its place.
fn before(im: &Importer<'_>, node: &graph::Node, id: TensorId) -> Option<TensorId> {
    let made = im.shapes.get(id.index())?;
    let same = |i: &&TensorId| !im.graph.is_weight(**i) && im.shapes.get(i.index()) == Some(made);
    match &node.op {
        Op::Tensor(TensorOp::Reshape { .. }) => node.inputs.first().copied(),
        Op::Activation(_)
        | Op::PRelu
        | Op::Add
        | Op::Mul
        | Op::Softmax
        | Op::BatchNorm { .. }
        | Op::InstanceNorm { .. }
        | Op::GroupNorm { .. }
        | Op::Tensor(TensorOp::Binary(_) | TensorOp::Softmax { .. } | TensorOp::LayerNorm { .. }) => {
            node.inputs.iter().find(same).copied()
        }
        _ => None,
    }
}

/// Where axes that start with fixed ones (channels) become fewer parts and one axis for all that is left, as in a group
/// norm's (N, groups, rest): the numbers before the last are the network's own where they divide the fixed axes. The last
/// axis of the result and its size.
fn rest_of_groups(
    dims: &[Size],
    (a, b): (&[usize], &[usize]),
    shape: &[usize],
) -> Option<(usize, Size)> {
    let (last, parts) = b.split_last()?;
    let of: Vec<Size> = a.iter().filter_map(|i| dims.get(*i).cloned()).collect();
    let channels = of.iter().map_while(|s| match s {
        Size::Fixed(n) => Some(*n),
        _ => None,
    });
    let channels = channels.fold(1i64, i64::saturating_mul);
    let parts = parts.iter().try_fold(1i64, |all, i| {
        all.checked_mul(i64::try_from(*shape.get(*i)?).ok()?)
    })?;
    if parts <= 1 || channels % parts != 0 {
        return None;
    }
    let left = Size::both(SizeOp::Div, Size::product(of)?, Size::Fixed(parts))?;
    Some((*last, left))
}

/// Sizes of a reshape for any roi. Numbers that stand for sizes of the input at the export become those sizes where only
/// one reading is possible; where not, the node holds at this size alone.
fn reshaped(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    value: &Value,
    to: &Value,
    (from, shape): (&[usize], &[usize]),
) -> Result<Vec<Size>, String> {
    let dims = im.dims(value);
    let varies = dims.iter().any(|d| !d.is_fixed());
    let literal = |d: &usize| Size::Fixed(i64::try_from(*d).unwrap_or(i64::MAX));
    if !varies {
        return Ok(shape.iter().map(literal).collect());
    }
    let followed = matches!(to, Value::Known(_, _, Trace::Sizes(_)));
    let given = im
        .sizes(node, to)
        .ok_or("its shape must be whole numbers")?;
    let keeps = node.int("allowzero", 0) == 0;
    let mut out: Vec<Size> = shape.iter().map(literal).collect();
    let mut rest = None;
    let mut open = Vec::new();
    for (i, size) in given.into_iter().enumerate() {
        let slot = out.get_mut(i).ok_or("its shape has too many entries")?;
        match size {
            Size::Fixed(-1) => rest = Some(i),
            Size::Fixed(0) if keeps => {
                *slot = dims
                    .get(i)
                    .cloned()
                    .ok_or("it keeps an axis that is not there")?;
            }
            Size::Fixed(_) => open.push(i),
            size => *slot = size,
        }
    }
    let mut unsure = Vec::new();
    for (a, b) in groups(from, shape).ok_or("its shapes hold no values")? {
        let of: Vec<Size> = a.iter().filter_map(|i| dims.get(*i).cloned()).collect();
        let fixed = of.iter().all(Size::is_fixed);
        let product = Size::product(of);
        for i in &b {
            let asked = open.contains(i) || rest == Some(*i);
            match (&product, b.as_slice()) {
                _ if !asked => {}
                (Some(product), [_]) => {
                    if let Some(slot) = out.get_mut(*i) {
                        slot.clone_from(product);
                    }
                    if rest == Some(*i) {
                        rest = None;
                    }
                }
                _ if fixed => {
                    if rest == Some(*i) {
                        rest = None;
                    }
                }
                _ => unsure.push(*i),
            }
        }
        // Only numbers: one of them follows the roi where the others are the channels' own.
        if b.len() > 1
            && b.iter().all(|i| open.contains(i))
            && let Some((last, left)) = rest_of_groups(&dims, (&a, &b), shape)
            && let Some(slot) = out.get_mut(last)
        {
            *slot = left;
            unsure.retain(|i| !b.contains(i));
        }
    }
    if let Some(rest) = rest {
        // The numbers beside it are the network's own; what is left follows the roi.
        let others = out
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != rest)
            .map(|(_, s)| s.clone());
        let left = Size::product(dims)
            .zip(Size::product(others))
            .and_then(|(all, others)| Size::both(SizeOp::Div, all, others));
        match (left, out.get_mut(rest)) {
            (Some(left), Some(slot)) => *slot = left,
            _ => im.bake(node, "its shape is too long to be followed".to_owned()),
        }
    } else if !unsure.is_empty() && !followed {
        let text: Vec<String> = shape.iter().map(ToString::to_string).collect();
        im.bake(
            node,
            format!(
                "its constant shape {} bakes in the size of the export",
                text.join("x")
            ),
        );
    }
    Ok(out)
}

/// Depth to space and back: blocks of voxels become channels, or channels blocks.
pub(super) fn blocks(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(Some(value)) = inputs.first() else {
        return Ok(None);
    };
    let (value, block) = (value.clone(), node.int("blocksize", 0));
    let (dims, shape) = (im.dims(&value), im.shape(&value).to_vec());
    let size = usize::try_from(block)
        .ok()
        .filter(|b| (1..1 << 10).contains(b));
    let ([n, c, h, w], &[nn, cc, hh, ww], Some(b)) = (dims.as_slice(), shape.as_slice(), size)
    else {
        return Ok(None);
    };
    let div = |s: &Size, by: i64| Size::both(SizeOp::Div, s.clone(), Size::Fixed(by));
    let mul = |s: &Size, by: i64| Size::both(SizeOp::Mul, s.clone(), Size::Fixed(by));
    let fixed = Size::Fixed(block);
    let deep = node.op == "DepthToSpace";
    let fits = if deep {
        cc.is_multiple_of(b * b)
    } else {
        hh.is_multiple_of(b) && ww.is_multiple_of(b)
    };
    if !fits {
        return Err(format!(
            "blocks of {b} do not divide its input of {shape:?}"
        ));
    }
    let square = block * block;
    // Split, reorder, merge: shapes and sizes of each.
    type Seen = (Vec<usize>, Vec<Option<Size>>);
    let some = |s: &Size| Some(s.clone());
    let (split, perm, merged): (Seen, Vec<usize>, Seen) = if deep {
        let channels = cc / (b * b);
        let merged = (
            vec![nn, channels, hh * b, ww * b],
            vec![some(n), div(c, square), mul(h, block), mul(w, block)],
        );
        if node.text("mode", "DCR") == "CRD" {
            let split = (
                vec![nn, channels, b, b, hh, ww],
                vec![
                    some(n),
                    div(c, square),
                    some(&fixed),
                    some(&fixed),
                    some(h),
                    some(w),
                ],
            );
            (split, vec![0, 1, 4, 2, 5, 3], merged)
        } else {
            let split = (
                vec![nn, b, b, channels, hh, ww],
                vec![
                    some(n),
                    some(&fixed),
                    some(&fixed),
                    div(c, square),
                    some(h),
                    some(w),
                ],
            );
            (split, vec![0, 3, 4, 1, 5, 2], merged)
        }
    } else {
        let split = (
            vec![nn, cc, hh / b, b, ww / b, b],
            vec![
                some(n),
                some(c),
                div(h, block),
                some(&fixed),
                div(w, block),
                some(&fixed),
            ],
        );
        let merged = (
            vec![nn, cc * b * b, hh / b, ww / b],
            vec![some(n), mul(c, square), div(h, block), div(w, block)],
        );
        (split, vec![0, 3, 5, 1, 2, 4], merged)
    };
    let sizes = |s: Vec<Option<Size>>| {
        s.into_iter()
            .collect::<Option<Vec<_>>>()
            .ok_or("a size overflows")
    };
    let split = seen(im, &value, split.0, sizes(split.1)?, node.name);
    let x = im.materialize(split, node.name)?;
    let Some(turned) = push(im, node, TensorOp::Transpose { perm }, vec![x])? else {
        return Ok(None);
    };
    Ok(Some(seen(
        im,
        &turned,
        merged.0,
        sizes(merged.1)?,
        node.name,
    )))
}

/// Nodes that say the same values again.
pub(super) fn alias(im: &Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> Option<Value> {
    let value = inputs.first()?.as_ref()?;
    // A cast between float types is not arithmetic of ours: everything is f32.
    let same = node.op != "Cast" || matches!(node.int("to", 1), 1 | 10 | 11 | 16);
    let trains =
        node.op == "Dropout" && matches!(inputs.get(2), Some(Some(Value::Act(_) | Value::View(_))));
    let mask = trains || node.outputs.get(1).is_some_and(|o| im.is_read(o));
    (same && !mask && !matches!(value, Value::Known(..))).then(|| value.clone())
}

/// The axes of one that a squeeze takes away or adds, for other translations.
pub(super) fn without(im: &Importer<'_>, value: &Value, axis: usize, name: &str) -> Value {
    let mut shape = im.shape(value).to_vec();
    let mut sizes = im.dims(value);
    if axis < shape.len() {
        shape.remove(axis);
        sizes.remove(axis);
    }
    if shape.is_empty() {
        return value.clone();
    }
    seen(im, value, shape, sizes, name)
}

/// Axes as a node names them, from an input or an attribute.
pub(super) fn named_axes(node: &Node<'_>, inputs: Inputs<'_>, rank: usize) -> Option<Vec<usize>> {
    let list = match inputs.get(1) {
        Some(Some(Value::Known(c, ..))) => Some(c.as_ints()?.to_vec()),
        Some(Some(_)) => return None,
        _ => node.ints("axes").map(<[i64]>::to_vec),
    };
    match list {
        Some(list) if !list.is_empty() => list.iter().map(|a| fold::axis(*a, rank)).collect(),
        _ => Some((0..rank).collect()),
    }
}
