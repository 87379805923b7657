//! Parts of tensors: slices, splits, places picked, joining.

use super::fold;
use super::import::{Importer, Value};
use super::proto::Node;
use super::translate::{Inputs, One, Translated, constant};
use super::translate_tensor::{plain, push};
use super::translate_views::{seen, without};
use crate::network::graph::Op;
use crate::network::size::{Size, SizeOp};
use crate::network::tensor_op::{Cut, TensorOp};

pub(super) fn slice(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let Some(Some(x)) = inputs.first() else {
        return Ok(None);
    };
    let shape = im.shape(x).to_vec();
    let list = |im: &mut Importer<'_>, i: usize, name: &str| match inputs.get(i) {
        Some(Some(v)) => im.sizes(node, v),
        _ => node
            .ints(name)
            .map(|v| v.iter().map(|v| Size::Fixed(*v)).collect()),
    };
    let (Some(starts), Some(ends)) = (list(im, 1, "starts"), list(im, 2, "ends")) else {
        return Ok(None);
    };
    let n = starts.len();
    let axes = list(im, 3, "axes").unwrap_or_else(|| (0i64..).take(n).map(Size::Fixed).collect());
    let steps = list(im, 4, "steps").unwrap_or_else(|| vec![Size::Fixed(1); n]);
    let mut cuts = Vec::new();
    for ((start, end), (axis, step)) in starts.into_iter().zip(ends).zip(axes.iter().zip(&steps)) {
        let (Size::Fixed(axis), Size::Fixed(step)) = (axis, step) else {
            return Ok(None);
        };
        let Some(axis) = fold::axis(*axis, shape.len()) else {
            return Ok(None);
        };
        let size = shape
            .get(axis)
            .and_then(|d| i64::try_from(*d).ok())
            .unwrap_or(1);
        // A number that is the whole size says "to the end".
        let end = match end {
            Size::Fixed(e) if e >= size && *step > 0 => Size::Fixed(i64::MAX),
            other => other,
        };
        let varies = !im.dim(x, axis).is_fixed();
        let plain_start = matches!(start, Size::Fixed(s) if s < (*step).max(9) || *step < 0);
        let open_end = matches!(end, Size::Fixed(e) if e < 0 || e == i64::MAX || *step < 0);
        let literal = start.is_fixed() && end.is_fixed();
        if varies && literal && !im.is_open && !(plain_start && open_end) {
            im.bake(
                node,
                format!("its constant cut of axis {axis} bakes in the size of the export"),
            );
        }
        cuts.push(Cut {
            axis,
            start,
            end,
            step: *step,
        });
    }
    let whole =
        |c: &Cut| c.start == Size::Fixed(0) && c.end == Size::Fixed(i64::MAX) && c.step == 1;
    if cuts.iter().all(whole) && !matches!(x, Value::Known(..)) {
        return Ok(Some(x.clone()));
    }
    // One cut an axis; of several on one axis each is a node of its own.
    let mut value = x.clone();
    while !cuts.is_empty() {
        let (mut now, mut later): (Vec<Cut>, Vec<Cut>) = (Vec::new(), Vec::new());
        for cut in cuts {
            if now.iter().any(|c| c.axis == cut.axis) {
                later.push(cut);
            } else {
                now.push(cut);
            }
        }
        let Some(made) = plain(im, node, &value, TensorOp::Slice { cuts: now })? else {
            return Ok(None);
        };
        (value, cuts) = (made, later);
    }
    Ok(Some(value))
}

/// A split is a slice for each part.
pub(super) fn split(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> Translated {
    let Some(Some(value)) = inputs.first() else {
        return Ok(None);
    };
    let shape = im.shape(value).to_vec();
    let Some(axis) = fold::axis(node.int("axis", 0), shape.len()) else {
        return Ok(None);
    };
    let (value, n) = (value.clone(), node.outputs.len());
    let whole = im.dim(&value, axis);
    let parts: Option<Vec<Size>> = match inputs.get(1) {
        Some(Some(parts)) => im.sizes(node, parts),
        _ => node
            .ints("split")
            .map(|p| p.iter().map(|v| Size::Fixed(*v)).collect()),
    };
    let fixed = i64::try_from(n).map_err(|e| e.to_string())?;
    let parts = match parts {
        Some(parts) if parts.len() == n => {
            let size = shape.get(axis).and_then(|d| i64::try_from(*d).ok());
            let values: Option<Vec<i64>> = parts.iter().map(|p| p.value(&im.shapes)).collect();
            if let (Some(size), Some(values)) = (size, values) {
                let sum = values.iter().try_fold(0i64, |n, v| n.checked_add(*v));
                if values.iter().any(|v| *v < 0) || sum != Some(size) {
                    return Err(format!(
                        "its parts {values:?} do not add up to the {size} of axis {axis}"
                    ));
                }
            }
            if !im.is_open && !whole.is_fixed() && parts.iter().all(Size::is_fixed) {
                im.bake(
                    node,
                    "its constant parts bake in the size of the export".to_owned(),
                );
            }
            parts
        }
        Some(_) => return Ok(None),
        None => {
            // Equal parts, the last one smaller where they do not fit.
            let up = Size::both(SizeOp::Add, whole, Size::Fixed(fixed - 1));
            let each = up.and_then(|w| Size::both(SizeOp::Div, w, Size::Fixed(fixed)));
            vec![each.ok_or("a size overflows")?; n]
        }
    };
    let x = im.materialize(value, node.name)?;
    let mut start = Size::Fixed(0);
    let mut out = Vec::new();
    for (i, part) in parts.into_iter().enumerate() {
        let end = Size::both(SizeOp::Add, start.clone(), part).ok_or("a size overflows")?;
        let cut = Cut {
            axis,
            start,
            end: if i + 1 == n {
                Size::Fixed(i64::MAX)
            } else {
                end.clone()
            },
            step: 1,
        };
        let Some(made) = push(im, node, TensorOp::Slice { cuts: vec![cut] }, vec![x])? else {
            return Ok(None);
        };
        out.push(made);
        start = end;
    }
    Ok(Some(out))
}

pub(super) fn concat(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let rank = match inputs.first() {
        Some(Some(v)) => im.shape(v).len(),
        _ => return Ok(None),
    };
    let Some(axis) = fold::axis(node.int("axis", 0), rank) else {
        return Ok(None);
    };
    if let [Some(only)] = inputs
        && !matches!(only, Value::Known(..))
    {
        return Ok(Some(only.clone()));
    }
    let mut ids = Vec::new();
    let mut plain = axis == 1 && rank == im.graph.spatial_dims + 2;
    for value in inputs {
        let Some(value) = value else { return Ok(None) };
        plain &= !matches!(value, Value::Known(..));
        ids.push(im.materialize(value.clone(), node.name)?);
    }
    if plain {
        return im.push_op(node, Op::Concat, ids).map(Some);
    }
    push(im, node, TensorOp::Concat { axis }, ids)
}

pub(super) fn gather(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let (Some(Some(value)), Some((index, _))) = (inputs.first(), constant(inputs, 1)) else {
        return Ok(None);
    };
    let rank = im.shape(value).len();
    let (Some(axis), Some(places)) = (fold::axis(node.int("axis", 0), rank), index.as_ints())
    else {
        return Ok(None);
    };
    if places.len() > 1 << 22 {
        return Ok(None);
    }
    if !im.is_open && !im.dim(value, axis).is_fixed() && places.iter().any(|p| *p > 8) {
        im.bake(
            node,
            format!("its constant places along axis {axis} bake in the size of the export"),
        );
    }
    let (index_shape, op) = (
        index.shape.clone(),
        TensorOp::Gather {
            axis,
            index: places.to_vec(),
        },
    );
    let Some(made) = plain(im, node, value, op)? else {
        return Ok(None);
    };
    match index_shape.len() {
        0 => Ok(Some(without(im, &made, axis, node.name))),
        1 => Ok(Some(made)),
        _ => {
            let mut shape = im.shape(&made).to_vec();
            let mut sizes = im.dims(&made);
            let literal = |d: &usize| Size::Fixed(i64::try_from(*d).unwrap_or(i64::MAX));
            let own: Vec<Size> = index_shape.iter().map(literal).collect();
            shape.splice(axis..=axis, index_shape);
            sizes.splice(axis..=axis, own);
            Ok(Some(seen(im, &made, shape, sizes, node.name)))
        }
    }
}

/// Places along the first axes: those become one axis, of which places are picked.
pub(super) fn gather_nd(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let (Some(Some(value)), Some((index, _))) = (inputs.first(), constant(inputs, 1)) else {
        return Ok(None);
    };
    let (value, shape, sizes) = (value.clone(), im.shape(value).to_vec(), im.dims(value));
    let (Some(places), [outer @ .., depth]) = (index.as_ints(), index.shape.as_slice()) else {
        return Ok(None);
    };
    let (true, Some((front, rest))) = (
        node.int("batch_dims", 0) == 0 && *depth > 0,
        shape.split_at_checked(*depth),
    ) else {
        return Ok(None);
    };
    let varies = sizes.iter().take(*depth).any(|s| !s.is_fixed());
    if varies && !im.is_open && places.iter().any(|p| *p > 8) {
        im.bake(
            node,
            "its constant places bake in the size of the export".to_owned(),
        );
    }
    let flat = |row: &[i64]| {
        row.iter().zip(front).try_fold(0i64, |at, (i, d)| {
            let i = fold::axis(*i, *d)?;
            at.checked_mul(i64::try_from(*d).ok()?)?
                .checked_add(i64::try_from(i).ok()?)
        })
    };
    let flat: Option<Vec<i64>> = places.chunks(*depth).map(flat).collect();
    let index = flat
        .filter(|f| f.len() <= 1 << 22)
        .ok_or("it picks a place that is not there")?;
    let literal = |d: &usize| Size::Fixed(i64::try_from(*d).unwrap_or(i64::MAX));
    let front_size = Size::product(sizes.iter().take(*depth).cloned());
    let tail: Vec<Size> = sizes.iter().skip(*depth).cloned().collect();
    let one = [&[front.iter().product()], rest].concat();
    let one_sizes = [vec![front_size.ok_or("a size overflows")?], tail.clone()].concat();
    let made_shape = [outer, rest].concat();
    let made_sizes = [outer.iter().map(literal).collect(), tail].concat();
    let merged = seen(im, &value, one, one_sizes, node.name);
    let op = TensorOp::Gather { axis: 0, index };
    match plain(im, node, &merged, op)? {
        Some(made) if !made_shape.is_empty() => {
            Ok(Some(seen(im, &made, made_shape, made_sizes, node.name)))
        }
        _ => Ok(None),
    }
}
