//! Values written into a tensor, places of extremes, and functions said by others: operations made of several of ours.

use super::constant::Constant;
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
/// Why a write holds for one size.
const BAKED: &str = "the places that it writes to bake in the size of the export";

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
    let flat: Option<Vec<usize>> = places.chunks(*depth).map(|row| flat(row, front)).collect();
    let picks = flat.and_then(|flat| picked(&flat, rows));
    let picks = picks.ok_or("it writes to a place that is not there")?;
    if dims.iter().take(*depth).any(|s| !s.is_fixed()) {
        im.bake(node, BAKED.to_owned());
    }
    let tail = Size::product(dims.iter().skip(*depth).cloned()).ok_or("a size overflows")?;
    let lists = ((rows, &data), (writes, &updates));
    let Some(made) = written(im, node, lists, (inner, &tail), picks)? else {
        return Ok(None);
    };
    Ok(Some(seen(im, &made, shape, dims, node.name)))
}

/// Single values written over along an axis at places that are known.
pub(super) fn scatter_elements(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
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
    if im.shape(&updates) != index.shape {
        return Err(format!(
            "its updates of {:?} do not fit its places of {:?}",
            im.shape(&updates),
            index.shape
        ));
    }
    let (Some(values), Some(writes)) = (fold::count(&shape), fold::count(&index.shape)) else {
        return Ok(None);
    };
    if values.saturating_add(writes) > MOST_PLACES || writes == 0 {
        return Ok(None);
    }
    let picks = elements(node, index, &shape).and_then(|flat| picked(&flat, values));
    let picks = picks.ok_or("it writes to a place that is not there")?;
    if dims.iter().any(|s| !s.is_fixed()) {
        im.bake(node, BAKED.to_owned());
    }
    let lists = ((values, &data), (writes, &updates));
    let Some(made) = written(im, node, lists, (1, &Size::Fixed(1)), picks)? else {
        return Ok(None);
    };
    Ok(Some(seen(im, &made, shape, dims, node.name)))
}

/// Single values picked along an axis at places that are known.
pub(super) fn gather_elements(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let (Some(Some(data)), Some((index, _))) = (inputs.first(), constant(inputs, 1)) else {
        return Ok(None);
    };
    if matches!(data, Value::Known(..)) {
        return Ok(None);
    }
    let (data, index) = (data.clone(), index.clone());
    let (shape, dims) = (im.shape(&data).to_vec(), im.dims(&data));
    let (Some(values), Some(reads)) = (fold::count(&shape), fold::count(&index.shape)) else {
        return Ok(None);
    };
    if values > MOST_PLACES || reads > MOST_PLACES || reads == 0 {
        return Ok(None);
    }
    let places = elements(node, &index, &shape).ok_or("it picks a place that is not there")?;
    if dims.iter().any(|s| !s.is_fixed()) {
        im.bake(
            node,
            "the places that it picks bake in the size of the export".to_owned(),
        );
    }
    let list = flattened(im, node, &data, (values, 1), &Size::Fixed(1))?;
    let op = TensorOp::Gather {
        axis: 0,
        index: places
            .into_iter()
            .filter_map(|p| i64::try_from(p).ok())
            .collect(),
    };
    let made = push(im, node, op, vec![list])?;
    let sizes = index.shape.iter().map(|d| literal(*d)).collect();
    Ok(made.map(|made| seen(im, &made, index.shape.clone(), sizes, node.name)))
}

/// The place in C order of each value that an index along an axis names.
fn elements(node: &Node<'_>, index: &Constant, shape: &[usize]) -> Option<Vec<usize>> {
    let along = fold::axis(node.int("axis", 0), shape.len())?;
    let fits = index.shape.len() == shape.len()
        && index
            .shape
            .iter()
            .zip(shape)
            .enumerate()
            .all(|(i, (a, b))| i == along || a <= b);
    let mut at = vec![0usize; shape.len()];
    let mut out = Vec::new();
    for place in index.as_ints().filter(|_| fits)? {
        let row: Option<Vec<i64>> = at
            .iter()
            .enumerate()
            .map(|(i, n)| {
                if i == along {
                    Some(*place)
                } else {
                    i64::try_from(*n).ok()
                }
            })
            .collect();
        out.push(flat(&row?, shape)?);
        for (i, d) in at.iter_mut().zip(&index.shape).rev() {
            *i += 1;
            if *i < *d {
                break;
            }
            *i = 0;
        }
    }
    Some(out)
}

/// Two lists of rows, of which each row of the result picks its own.
fn written(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    (data, updates): ((usize, &Value), (usize, &Value)),
    (inner, size): (usize, &Size),
    picks: Vec<i64>,
) -> One {
    // Constants alone: nothing runs on them.
    if [data.1, updates.1]
        .iter()
        .all(|v| matches!(v, Value::Known(..)))
    {
        return Ok(None);
    }
    let both = vec![
        flattened(im, node, data.1, (data.0, inner), size)?,
        flattened(im, node, updates.1, (updates.0, inner), size)?,
    ];
    let Some(joined) = push(im, node, TensorOp::Concat { axis: 0 }, both)? else {
        return Ok(None);
    };
    let op = TensorOp::Gather {
        axis: 0,
        index: picks,
    };
    plain(im, node, &joined, op)
}

/// A value as rows of values.
fn flattened(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    value: &Value,
    (rows, inner): (usize, usize),
    size: &Size,
) -> Result<TensorId, String> {
    // A constant is stored in its new shape: no node may read constants alone.
    if let Value::Known(c, name, trace) = value {
        let c = Constant {
            shape: vec![rows, inner],
            data: c.data.clone(),
        };
        return im.materialize(
            Value::Known(c.into(), name.clone(), trace.clone()),
            node.name,
        );
    }
    let sizes = vec![literal(rows), size.clone()];
    let flat = seen(im, value, vec![rows, inner], sizes, node.name);
    im.materialize(flat, node.name)
}

/// A place by its number along each axis, counted in C order.
fn flat(row: &[i64], shape: &[usize]) -> Option<usize> {
    row.iter().zip(shape).try_fold(0usize, |at, (i, d)| {
        at.checked_mul(*d)?.checked_add(fold::axis(*i, *d)?)
    })
}

fn literal(n: usize) -> Size {
    Size::Fixed(i64::try_from(n).unwrap_or(i64::MAX))
}

/// For each row of a tensor, which of its rows and the written ones (counted after them) it holds in the end.
fn picked(places: &[usize], rows: usize) -> Option<Vec<i64>> {
    let count = i64::try_from(rows).ok()?;
    let mut out: Vec<i64> = (0..count).collect();
    for (written, at) in (count..).zip(places) {
        *out.get_mut(*at)? = written;
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
