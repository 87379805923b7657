//! Which constants are computed from the size of the input, and how: so that a network follows any roi.

use super::constant::{Constant, Data};
use super::fold;
use super::import::{Importer, Value};
use super::proto::Node;
use crate::network::size::{Size, SizeOp};
use std::rc::Rc;

/// Longest list whose entries are followed one by one.
const MOST_ENTRIES: usize = 64;

/// How a constant depends on the size of the input.
#[derive(Clone, Debug)]
pub(super) enum Trace {
    /// It does not.
    Fixed,
    /// Entry by entry, in C order.
    Sizes(Rc<[Size]>),
    /// In some way that is not followed; the node that made it so.
    Sized(Rc<str>),
}

/// Operations whose lists of sizes may follow the roi.
pub(super) fn reads_sizes(op: &str) -> bool {
    matches!(
        op,
        "Reshape" | "Slice" | "Pad" | "Expand" | "Resize" | "Split"
    )
}

/// How the constant that a node makes depends on the size of the input.
pub(super) fn trace(
    im: &Importer<'_>,
    node: &Node<'_>,
    inputs: &[Option<Value>],
    made: &Constant,
) -> Trace {
    let sized = || Trace::Sized(node.outputs.first().map_or(node.op, |o| *o).into());
    let wrap = |sizes: Option<Vec<Size>>| match sizes {
        Some(s) if s.iter().all(Size::is_fixed) => Trace::Fixed,
        Some(s) if s.len() == made.len() && s.len() <= MOST_ENTRIES => Trace::Sizes(s.into()),
        _ => sized(),
    };
    match (node.op, inputs.first()) {
        ("Constant", _) => return Trace::Fixed,
        ("Shape", Some(Some(v))) => {
            let all = im.dims(v);
            let positions: Vec<usize> = (0..all.len()).collect();
            let picked = fold::shape_of(node, &positions);
            return wrap(picked.and_then(|p| picks(&all, &p)));
        }
        ("Size", Some(Some(v))) => return wrap(Size::product(im.dims(v)).map(|s| vec![s])),
        _ => {}
    }
    let fixed = inputs
        .iter()
        .flatten()
        .all(|v| matches!(v, Value::Known(_, _, Trace::Fixed)));
    if fixed {
        return Trace::Fixed;
    }
    wrap(entries_of(node, inputs))
}

/// Entries of `all` by place.
fn picks(all: &[Size], places: &Constant) -> Option<Vec<Size>> {
    places
        .as_ints()?
        .iter()
        .map(|i| all.get(usize::try_from(*i).ok()?).cloned())
        .collect()
}

/// The entries of an input, when each is a whole number or follows from sizes.
fn entries(value: Option<&Option<Value>>) -> Option<Vec<Size>> {
    let Some(Some(Value::Known(c, _, trace))) = value else {
        return None;
    };
    match trace {
        Trace::Sizes(s) => Some(s.to_vec()),
        Trace::Sized(_) => None,
        Trace::Fixed if c.len() > MOST_ENTRIES => None,
        Trace::Fixed => match &c.data {
            Data::Ints(v) => Some(v.iter().map(|v| Size::Fixed(*v)).collect()),
            Data::Floats(v) => v
                .iter()
                .map(|v| {
                    let whole = v.trunc() == *v && v.abs() < 1e6;
                    whole.then(|| Size::Fixed(fold::whole(f64::from(*v))))
                })
                .collect(),
        },
    }
}

fn entries_of(node: &Node<'_>, inputs: &[Option<Value>]) -> Option<Vec<Size>> {
    let first = entries(inputs.first());
    let is_whole =
        matches!(inputs.first(), Some(Some(Value::Known(c, ..))) if c.as_ints().is_some());
    match node.op {
        "Identity" | "Floor" | "Ceil" | "Round" => first,
        "Cast" if node.int("to", 1) != 9 => first,
        "Concat" => {
            let mut all = Vec::new();
            for i in 0..inputs.len() {
                all.extend(entries(inputs.get(i))?);
            }
            Some(all)
        }
        // The same movement of places tells where each entry comes from.
        "Gather" | "Slice" | "Reshape" | "Unsqueeze" | "Squeeze" | "Transpose" | "Expand" => {
            let Some(Some(Value::Known(c, ..))) = inputs.first() else {
                return None;
            };
            let all = first?;
            let places = Constant {
                shape: c.shape.clone(),
                data: Data::Ints((0..i64::try_from(all.len()).ok()?).collect()),
            };
            let rest = inputs.iter().skip(1).map(|v| match v {
                Some(Value::Known(c, _, Trace::Fixed)) => Some(Some(c.as_ref())),
                None => Some(None),
                // Reshaping a list to a computed length does not change it.
                Some(Value::Known(c, ..)) if node.op == "Reshape" => Some(Some(c.as_ref())),
                Some(_) => None,
            });
            let rest: Vec<Option<&Constant>> = rest.collect::<Option<_>>()?;
            let moved = fold::node(node, &[&[Some(&places)], rest.as_slice()].concat())?;
            picks(&all, &moved)
        }
        "Add" | "Sub" | "Mul" | "Mod" => pairs(node.op, &first?, &entries(inputs.get(1))?),
        "Min" | "Max" => (1..inputs.len()).try_fold(first?, |all, i| {
            pairs(node.op, &all, &entries(inputs.get(i))?)
        }),
        "Div" if is_whole => pairs(node.op, &first?, &entries(inputs.get(1))?),
        "Neg" => pairs("Sub", &[Size::Fixed(0)], &first?),
        "ReduceProd" => Size::product(first?).map(|s| vec![s]),
        // Sizes are never negative, as the places that say "as it is" are.
        "Equal" => {
            let (a, b) = (first?, entries(inputs.get(1))?);
            let n = a.len().max(b.len());
            (0..n)
                .map(|i| match (at(&a, i)?, at(&b, i)?) {
                    (Size::Fixed(a), Size::Fixed(b)) => Some(Size::Fixed(i64::from(a == b))),
                    (Size::Fixed(v), Size::Of(..)) | (Size::Of(..), Size::Fixed(v)) if *v < 0 => {
                        Some(Size::Fixed(0))
                    }
                    _ => None,
                })
                .collect()
        }
        "Where" => {
            let (c, a, b) = (first?, entries(inputs.get(1))?, entries(inputs.get(2))?);
            let n = c.len().max(a.len()).max(b.len());
            (0..n)
                .map(|i| match at(&c, i)? {
                    Size::Fixed(0) => at(&b, i).cloned(),
                    Size::Fixed(_) => at(&a, i).cloned(),
                    _ => None,
                })
                .collect()
        }
        _ => None,
    }
}

/// An entry of a list; a list of one repeats.
fn at(list: &[Size], i: usize) -> Option<&Size> {
    if list.len() == 1 {
        list.first()
    } else {
        list.get(i)
    }
}

fn pairs(op: &str, a: &[Size], b: &[Size]) -> Option<Vec<Size>> {
    let op = match op {
        "Add" => SizeOp::Add,
        "Sub" => SizeOp::Sub,
        "Mul" => SizeOp::Mul,
        "Div" => SizeOp::Div,
        "Mod" => SizeOp::Mod,
        "Min" => SizeOp::Min,
        _ => SizeOp::Max,
    };
    (0..a.len().max(b.len()))
        .map(|i| Size::both(op, at(a, i)?.clone(), at(b, i)?.clone()))
        .collect()
}
