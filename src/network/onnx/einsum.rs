//! Einstein sums of one or two tensors as transpositions, products of matrices and sums.

use super::import::{Importer, Value};
use super::proto::Node;
use super::translate::{Inputs, One};
use super::translate_tensor::push;
use super::translate_views::seen;
use crate::network::size::Size;
use crate::network::tensor_op::{Reduce, TensorOp};

/// A tensor whose axes have letters.
#[derive(Clone)]
struct Term {
    value: Value,
    letters: Vec<char>,
}

pub(super) fn einsum(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let text: String = node
        .text("equation", "")
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    let Some((left, right)) = text.split_once("->") else {
        return Ok(None);
    };
    let result: Vec<char> = right.chars().collect();
    let mut terms = Vec::new();
    for (letters, value) in left.split(',').zip(inputs) {
        let (Some(value), letters) = (value, letters.chars().collect::<Vec<char>>()) else {
            return Ok(None);
        };
        let mut once = letters.clone();
        once.sort_unstable();
        once.dedup();
        // No ellipsis and no diagonals.
        let plain = letters.iter().all(char::is_ascii_alphabetic) && once.len() == letters.len();
        if !plain || im.shape(value).len() != letters.len() {
            return Ok(None);
        }
        terms.push(Term {
            value: value.clone(),
            letters,
        });
    }
    match terms.as_slice() {
        [one] if inputs.len() == 1 => {
            let one = summed(im, node, one.clone(), |c| result.contains(&c))?;
            ordered(im, node, one, &result).map(|t| Some(t.value))
        }
        [a, b] if inputs.len() == 2 => {
            let a = summed(im, node, a.clone(), |c| {
                result.contains(&c) || b.letters.contains(&c)
            })?;
            let b = summed(im, node, b.clone(), |c| {
                result.contains(&c) || a.letters.contains(&c)
            })?;
            product(im, node, (a, b), &result).map(Some)
        }
        _ => Ok(None),
    }
}

/// Without the axes that are not kept: they are summed.
fn summed(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    term: Term,
    keep: impl Fn(char) -> bool,
) -> Result<Term, String> {
    let axes: Vec<usize> = (0..term.letters.len())
        .filter(|i| term.letters.get(*i).is_some_and(|c| !keep(*c)))
        .collect();
    if axes.is_empty() {
        return Ok(term);
    }
    let op = TensorOp::Reduce {
        kind: Reduce::Sum,
        axes,
        keep: false,
    };
    let x = im.materialize(term.value, node.name)?;
    let value = push(im, node, op, vec![x])?.ok_or("its sum makes nothing")?;
    Ok(Term {
        value,
        letters: term.letters.into_iter().filter(|c| keep(*c)).collect(),
    })
}

/// Its axes in this order.
fn ordered(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    term: Term,
    order: &[char],
) -> Result<Term, String> {
    if term.letters == order {
        return Ok(term);
    }
    let perm: Option<Vec<usize>> = order
        .iter()
        .map(|c| term.letters.iter().position(|l| l == c))
        .collect();
    let perm = perm
        .filter(|p| p.len() == term.letters.len())
        .ok_or("its result names a letter that no input has")?;
    let x = im.materialize(term.value, node.name)?;
    let value = push(im, node, TensorOp::Transpose { perm }, vec![x])?;
    Ok(Term {
        value: value.ok_or("its transposition makes nothing")?,
        letters: order.to_vec(),
    })
}

/// Axes in groups become one axis each.
fn grouped(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    term: Term,
    groups: [&[char]; 3],
) -> Result<Value, String> {
    let term = ordered(im, node, term, &groups.concat())?;
    let (sizes, shape) = (im.dims(&term.value), im.shape(&term.value).to_vec());
    let [outer, rows, columns] = groups.map(<[char]>::len);
    let mut to: Vec<Size> = sizes.iter().take(outer).cloned().collect();
    let mut made: Vec<usize> = shape.iter().take(outer).copied().collect();
    for (from, n) in [(outer, rows), (outer + rows, columns)] {
        let part = sizes.iter().skip(from).take(n).cloned();
        to.push(Size::product(part).ok_or("a size overflows")?);
        made.push(shape.iter().skip(from).take(n).product());
    }
    let value = seen(im, &term.value, made, to, node.name);
    im.materialize(value, node.name).map(Value::Act)
}

fn product(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    (a, b): (Term, Term),
    result: &[char],
) -> Result<Value, String> {
    let of = |wanted: &dyn Fn(char) -> bool, letters: &[char]| -> Vec<char> {
        letters.iter().copied().filter(|c| wanted(*c)).collect()
    };
    let shared = |c: char| a.letters.contains(&c) && b.letters.contains(&c);
    let batch = of(&|c| shared(c) && result.contains(&c), &a.letters);
    let inner = of(&|c| shared(c) && !result.contains(&c), &a.letters);
    let rows = of(&|c| !shared(c), &a.letters);
    let columns = of(&|c| !shared(c), &b.letters);
    let mut letters = batch.clone();
    letters.extend(rows.iter().chain(&columns));
    let size = |im: &Importer<'_>, c: char| -> (usize, Size) {
        for term in [&a, &b] {
            if let Some(axis) = term.letters.iter().position(|l| *l == c) {
                let d = im.shape(&term.value).get(axis).copied().unwrap_or(1);
                return (d, im.dim(&term.value, axis));
            }
        }
        (1, Size::Fixed(1))
    };
    let (shape, sizes): (Vec<usize>, Vec<Size>) = letters.iter().map(|c| size(im, *c)).unzip();
    let left = grouped(im, node, a.clone(), [&batch, &rows, &inner])?;
    let right = grouped(im, node, b.clone(), [&batch, &inner, &columns])?;
    let ids = vec![
        im.materialize(left, node.name)?,
        im.materialize(right, node.name)?,
    ];
    let made = push(im, node, TensorOp::MatMul, ids)?.ok_or("its product makes nothing")?;
    let value = if shape.is_empty() {
        made
    } else {
        seen(im, &made, shape, sizes, node.name)
    };
    ordered(im, node, Term { value, letters }, result).map(|t| t.value)
}
