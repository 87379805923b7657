//! Constant folding of arithmetic, choices and scattered writes.

use super::constant::{Constant, Data};
use super::fold::{axis, broadcast, count, expand, strides};
use super::proto::Node;
use crate::numeric;

pub(super) fn choose(condition: &Constant, a: &Constant, b: &Constant) -> Option<Constant> {
    let shape = broadcast(&broadcast(&condition.shape, &a.shape)?, &b.shape)?;
    let [c, a, b] = [condition, a, b].map(|v| expand(v, &shape));
    let (c, a, b) = (c?, a?, b?);
    let pairs = c.as_ints()?.iter();
    let data = match (&a.data, &b.data) {
        (Data::Floats(a), Data::Floats(b)) => Data::Floats(
            pairs
                .zip(a.iter().zip(b.iter()))
                .map(|(c, (a, b))| if *c != 0 { *a } else { *b })
                .collect(),
        ),
        (Data::Ints(a), Data::Ints(b)) => Data::Ints(
            pairs
                .zip(a.iter().zip(b.iter()))
                .map(|(c, (a, b))| if *c != 0 { *a } else { *b })
                .collect(),
        ),
        _ => return None,
    };
    Some(Constant { shape, data })
}

pub(super) fn binary(op: &str, a: &Constant, b: &Constant) -> Option<Constant> {
    let shape = broadcast(&a.shape, &b.shape)?;
    count(&shape)?;
    let (a, b) = (expand(a, &shape)?, expand(b, &shape)?);
    let data = match (&a.data, &b.data) {
        (Data::Ints(a), Data::Ints(b)) => Data::Ints(
            a.iter()
                .zip(b.iter())
                .map(|(a, b)| whole_op(op, *a, *b))
                .collect::<Option<Vec<_>>>()?
                .into(),
        ),
        (Data::Floats(a), Data::Floats(b))
            if matches!(
                op,
                "Equal" | "Less" | "Greater" | "LessOrEqual" | "GreaterOrEqual"
            ) =>
        {
            Data::Ints(
                a.iter()
                    .zip(b.iter())
                    .map(|(a, b)| compare(op, a, b))
                    .collect::<Option<Vec<_>>>()?
                    .into(),
            )
        }
        (Data::Floats(a), Data::Floats(b)) => Data::Floats(
            a.iter()
                .zip(b.iter())
                .map(|(a, b)| float_op(op, *a, *b))
                .collect::<Option<Vec<_>>>()?
                .into(),
        ),
        _ => return None,
    };
    Some(Constant { shape, data })
}

fn whole_op(op: &str, a: i64, b: i64) -> Option<i64> {
    match op {
        "Add" => a.checked_add(b),
        "Sub" => a.checked_sub(b),
        "Mul" => a.checked_mul(b),
        "Div" => a.checked_div(b),
        "Mod" => a.checked_rem(b).map(|r| {
            if r != 0 && (r < 0) != (b < 0) {
                r + b
            } else {
                r
            }
        }),
        "Min" => Some(a.min(b)),
        "Max" => Some(a.max(b)),
        "And" => Some(i64::from(a != 0 && b != 0)),
        "Or" => Some(i64::from(a != 0 || b != 0)),
        "Pow" => a.checked_pow(u32::try_from(b).ok()?),
        _ => compare(op, &a, &b),
    }
}

fn compare<T: PartialOrd>(op: &str, a: &T, b: &T) -> Option<i64> {
    Some(i64::from(match op {
        "Equal" => a == b,
        "Less" => a < b,
        "Greater" => a > b,
        "LessOrEqual" => a <= b,
        "GreaterOrEqual" => a >= b,
        _ => return None,
    }))
}

fn float_op(op: &str, a: f32, b: f32) -> Option<f32> {
    Some(match op {
        "Add" => a + b,
        "Sub" => a - b,
        "Mul" => a * b,
        "Div" => a / b,
        "Mod" => a % b,
        // NaN wins, as in the engine.
        "Min" if a < b || a.is_nan() => a,
        "Max" if a > b || a.is_nan() => a,
        "Min" | "Max" => b,
        "Pow" => numeric::pow(a, b),
        _ => return None,
    })
}

/// Not below the first limit, not above the second, where they are given.
pub(super) fn clip(
    x: &Constant,
    low: Option<&Constant>,
    high: Option<&Constant>,
) -> Option<Constant> {
    let low = match low {
        Some(low) => binary("Max", x, low)?,
        None => x.clone(),
    };
    match high {
        Some(high) => binary("Min", &low, high),
        None => Some(low),
    }
}

pub(super) fn unary(op: &str, c: &Constant) -> Option<Constant> {
    let data = match (&c.data, op) {
        (Data::Ints(v), "Not") => Data::Ints(v.iter().map(|v| i64::from(*v == 0)).collect()),
        (Data::Ints(v), "Neg") => Data::Ints(
            v.iter()
                .map(|v| v.checked_neg())
                .collect::<Option<Vec<_>>>()?
                .into(),
        ),
        (Data::Ints(v), "Abs") => Data::Ints(
            v.iter()
                .map(|v| v.checked_abs())
                .collect::<Option<Vec<_>>>()?
                .into(),
        ),
        (Data::Floats(v), _) => {
            let f: fn(f32) -> f32 = match op {
                "Neg" => |v| -v,
                "Abs" => f32::abs,
                "Sqrt" => f32::sqrt,
                "Floor" => f32::floor,
                "Ceil" => f32::ceil,
                "Exp" => numeric::exp,
                "Round" => f32::round_ties_even,
                "Sign" => |v| {
                    if v == 0.0 || v.is_nan() {
                        v
                    } else {
                        v.signum()
                    }
                },
                "Reciprocal" => f32::recip,
                _ => return None,
            };
            Data::Floats(v.iter().map(|v| f(*v)).collect())
        }
        _ => return None,
    };
    Some(Constant {
        shape: c.shape.clone(),
        data,
    })
}

/// Whole numbers of a list taken together: what lists of sizes ask for.
pub(super) fn reduce(node: &Node<'_>, c: &Constant, axes: Option<&Constant>) -> Option<Constant> {
    let values = c.as_ints()?;
    let axes = match axes {
        Some(axes) => Some(axes.as_ints()?),
        None => node.ints("axes"),
    };
    // One list, all of it.
    let all = match axes {
        None | Some([]) => node.int("noop_with_empty_axes", 0) == 0,
        Some([a]) => axis(*a, c.shape.len()) == Some(0),
        Some(_) => false,
    };
    let (first, rest) = values.split_first()?;
    if c.shape.len() != 1 || !all {
        return None;
    }
    let op = match node.op {
        "ReduceProd" => "Mul",
        "ReduceSum" => "Add",
        "ReduceMax" => "Max",
        _ => "Min",
    };
    let made = rest
        .iter()
        .try_fold(*first, |all, v| whole_op(op, all, *v))?;
    let shape = match node.int("keepdims", 1) {
        0 => Vec::new(),
        _ => vec![1],
    };
    Some(Constant {
        shape,
        data: Data::Ints(vec![made].into()),
    })
}

pub(super) fn scatter(into: &Constant, index: &Constant, updates: &Constant) -> Option<Constant> {
    let depth = *index.shape.last()?;
    let steps = strides(&into.shape)?;
    let block: usize = into.shape.get(depth..)?.iter().product();
    let rows = index.len().checked_div(depth)?;
    count(&[rows, block])?;
    let mut places = Vec::new();
    for row in index.as_ints()?.chunks(depth.max(1)) {
        let at = row
            .iter()
            .zip(&steps)
            .zip(&into.shape)
            .try_fold(0usize, |sum, ((i, s), d)| {
                sum.checked_add(axis(*i, *d)?.checked_mul(usize::try_from(*s).ok()?)?)
            })?;
        places.extend(at..at.checked_add(block)?);
    }
    fn write<T: Copy>(into: &[T], places: &[usize], values: &[T]) -> Option<std::sync::Arc<[T]>> {
        let mut out = into.to_vec();
        for (at, value) in places.iter().zip(values) {
            *out.get_mut(*at)? = *value;
        }
        Some(out.into())
    }
    let data = match (&into.data, &updates.data) {
        (Data::Floats(a), Data::Floats(b)) => Data::Floats(write(a, &places, b)?),
        (Data::Ints(a), Data::Ints(b)) => Data::Ints(write(a, &places, b)?),
        _ => return None,
    };
    Some(Constant {
        shape: into.shape.clone(),
        data,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_and_the_smaller_of_a_number_and_nan_are_nan_as_in_the_engine() {
        let list = |v: [f32; 3]| Constant {
            shape: vec![3],
            data: Data::Floats(v.to_vec().into()),
        };
        let (a, b) = (list([f32::NAN, 1.0, 1.0]), list([1.0, f32::NAN, 2.0]));
        for (op, last) in [("Max", 2.0), ("Min", 1.0)] {
            let made = binary(op, &a, &b).unwrap();
            let made = made.as_floats().unwrap();
            assert!(made[0].is_nan() && made[1].is_nan(), "{op}: {made:?}");
            assert_eq!(made[2], last, "{op}");
        }
    }
}
