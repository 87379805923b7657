//! Values written into a tensor, places of extremes, and functions said by others: operations made of several of ours.

use super::fold;
use super::import::{Importer, Value};
use super::proto::Node;
use super::translate::{Inputs, One, constant};
use super::translate_tensor::{plain, push};
use super::translate_views::{seen, without};
use crate::network::graph::{Act, Function, Op, TensorId};
use crate::network::size::Size;
use crate::network::tensor_op::{Binary, Reduce, TensorOp};

/// Most places of a tensor that is written into.
const MOST_PLACES: usize = 1 << 22;
/// Whole numbers below this are exact in f32.
const EXACT: usize = 1 << 24;

/// Rows of a tensor written over at places that are known: the rows of both, one after the other, of which each place of the
/// result picks its own; the last of several writes to one place stays.
pub(super) fn scatter_nd(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let [Some(data), Some(_), Some(updates)] = inputs else {
        return Ok(None);
    };
    let Some((index, _)) = constant(inputs, 1) else {
        return Ok(None);
    };
    if node.text("reduction", "none") != "none" {
        return Ok(None);
    }
    let (data, updates) = (data.clone(), updates.clone());
    let (shape, dims) = (im.shape(&data).to_vec(), im.dims(&data));
    let (Some(places), [outer @ .., depth]) = (index.as_ints(), index.shape.as_slice()) else {
        return Ok(None);
    };
    let Some((front, rest)) = shape.split_at_checked(*depth).filter(|_| *depth > 0) else {
        return Ok(None);
    };
    if im.shape(&updates) != [outer, rest].concat() {
        return Err(format!(
            "its updates of {:?} do not fit {} places of a tensor of {shape:?}",
            im.shape(&updates),
            fold::count(outer).unwrap_or(usize::MAX),
        ));
    }
    let (Some(rows), Some(writes), Some(inner)) =
        (fold::count(front), fold::count(outer), fold::count(rest))
    else {
        return Ok(None);
    };
    if rows.saturating_add(writes) > MOST_PLACES || writes == 0 || inner == 0 {
        return Ok(None);
    }
    let Some(picks) = picked(places, (*depth, front), rows) else {
        return Err("it writes to a place that is not there".to_owned());
    };
    if dims.iter().take(*depth).any(|s| !s.is_fixed()) {
        im.bake(
            node,
            "the places that it writes to bake in the size of the export".to_owned(),
        );
    }
    let tail: Vec<Size> = dims.iter().skip(*depth).cloned().collect();
    let inner_size = Size::product(tail).ok_or("a size overflows")?;
    let list = |im: &mut Importer<'_>, value: &Value, n: usize| -> Result<TensorId, String> {
        let sizes = vec![literal(n), inner_size.clone()];
        let known = matches!(value, Value::Known(..));
        let value = if known {
            Value::Act(im.materialize(value.clone(), node.name)?)
        } else {
            value.clone()
        };
        let flat = seen(im, &value, vec![n, inner], sizes, node.name);
        im.materialize(flat, node.name)
    };
    let both = vec![list(im, &data, rows)?, list(im, &updates, writes)?];
    let Some(joined) = push(im, node, TensorOp::Concat { axis: 0 }, both)? else {
        return Ok(None);
    };
    let op = TensorOp::Gather {
        axis: 0,
        index: picks,
    };
    let Some(made) = plain(im, node, &joined, op)? else {
        return Ok(None);
    };
    Ok(Some(seen(im, &made, shape, dims, node.name)))
}

fn literal(n: usize) -> Size {
    Size::Fixed(i64::try_from(n).unwrap_or(i64::MAX))
}

/// For each row of the tensor, which of its rows and the written ones (counted after them) it holds in the end.
fn picked(places: &[i64], (depth, front): (usize, &[usize]), rows: usize) -> Option<Vec<i64>> {
    let count = i64::try_from(rows).ok()?;
    let mut out: Vec<i64> = (0..count).collect();
    for (written, row) in (count..).zip(places.chunks(depth)) {
        let at = row.iter().zip(front).try_fold(0usize, |at, (i, d)| {
            at.checked_mul(*d)?.checked_add(fold::axis(*i, *d)?)
        })?;
        *out.get_mut(at)? = written;
    }
    Some(out)
}

/// The place of the largest or smallest value along an axis.
pub(super) fn place(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(Some(x)) = inputs.first() else {
        return Ok(None);
    };
    let shape = im.shape(x);
    let Some(axis) = fold::axis(node.int("axis", 0), shape.len()) else {
        return Ok(None);
    };
    let exact = shape.get(axis).is_some_and(|d| *d <= EXACT);
    if node.int("select_last_index", 0) != 0 || !exact {
        return Ok(None);
    }
    let kind = if node.op == "ArgMax" {
        Reduce::ArgMax
    } else {
        Reduce::ArgMin
    };
    let op = TensorOp::Reduce {
        kind,
        axes: vec![axis],
        keep: true,
    };
    let made = plain(im, node, x, op)?;
    Ok(made.map(|made| match node.int("keepdims", 1) {
        0 => without(im, &made, axis, node.name),
        _ => made,
    }))
}

/// x where it is above 0, else alpha * (exp(x / alpha) - 1).
pub(super) fn celu(im: &mut Importer<'_>, node: &Node<'_>, x: &Value) -> One {
    let alpha = node.float("alpha", 1.0);
    if matches!(x, Value::Known(..)) || !alpha.is_normal() || alpha < 0.0 {
        return Ok(None);
    }
    let scale = |factor: f32| Act::Affine { factor, shift: 0.0 };
    let acts = if alpha == 1.0 {
        vec![Act::Elu { alpha }]
    } else {
        vec![scale(alpha.recip()), Act::Elu { alpha: 1.0 }, scale(alpha)]
    };
    let mut value = x.clone();
    for act in acts {
        let id = im.materialize(value, node.name)?;
        value = im.push_op(node, Op::Activation(act), vec![id])?;
    }
    Ok(Some(value))
}

/// Sine over cosine.
pub(super) fn tan(im: &mut Importer<'_>, node: &Node<'_>, x: &Value) -> One {
    if matches!(x, Value::Known(..)) {
        return Ok(None);
    }
    let x = im.materialize(x.clone(), node.name)?;
    let mut both = Vec::new();
    for f in [Function::Sin, Function::Cos] {
        let made = im.push_op(node, Op::Activation(Act::Function(f)), vec![x])?;
        both.push(im.materialize(made, node.name)?);
    }
    push(im, node, TensorOp::Binary(Binary::Div), both)
}
