//! Arithmetic of a bundle's expressions on plain values; what is not known stays unknown.

use super::expression::{MOST_ENTRIES, MOST_TEXT};
use super::yaml::count;
use serde_json::{Number, Value, json};

pub(super) use crate::network::tree::UNKNOWN;

/// A value that stands for an expression that is not worked out.
pub(super) fn unknown(text: &str) -> Value {
    json!({ UNKNOWN: text.chars().take(120).collect::<String>() })
}

pub(super) fn is_unknown(value: &Value) -> bool {
    value.get(UNKNOWN).is_some()
}

/// Whether a value stands for what a call would give, or is not known: of neither is it known what it is worth.
fn is_opaque(value: &Value) -> bool {
    is_unknown(value) || value.get("_target_").is_some()
}

/// What a method of an object gives: the object itself where the method only moves or switches it.
pub(super) fn method(object: Value, name: &str, call: Value) -> Value {
    if is_unknown(&object) {
        return object;
    }
    match name {
        "to" | "eval" | "cuda" | "cpu" | "float" | "half" | "double" | "train" => object,
        _ => call,
    }
}

/// The few functions of Python that work on plain values.
pub(super) fn builtin(name: &str, call: &Value) -> Option<Value> {
    let args = call.get("_args_").and_then(Value::as_array);
    let first = args.and_then(|a| a.first())?;
    if is_opaque(first) {
        return None;
    }
    let numbers = |v: &Value| -> Option<Vec<f64>> {
        let list = match (v, args) {
            (Value::Array(list), _) => list,
            (_, Some(all)) => all,
            _ => return None,
        };
        list.iter().map(Value::as_f64).collect()
    };
    match name {
        "len" => match first {
            Value::Array(a) => Some(a.len().into()),
            Value::Object(o) => Some(o.len().into()),
            Value::String(s) => Some(s.chars().count().into()),
            _ => None,
        },
        "int" => number(first.as_f64()?.trunc()),
        "float" => number(first.as_f64()?),
        "list" | "tuple" => first.is_array().then(|| first.clone()),
        "bool" => truth(first).map(Value::Bool),
        "str" => Some(
            first
                .as_str()
                .map_or_else(|| first.to_string(), str::to_owned)
                .into(),
        ),
        "sum" => number(numbers(first)?.into_iter().sum()),
        "max" => number(numbers(first)?.into_iter().reduce(f64::max)?),
        "min" => number(numbers(first)?.into_iter().reduce(f64::min)?),
        _ => None,
    }
}

/// A finite number, whole where it is.
pub(super) fn number(v: f64) -> Option<Value> {
    if v.fract() == 0.0 && v.abs() < 1e15 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole and below ten to the fifteenth"
        )]
        let whole = v as i64;
        return Some(whole.into());
    }
    Number::from_f64(v).map(Value::Number)
}

pub(super) fn truth(v: &Value) -> Option<bool> {
    if is_opaque(v) {
        return None;
    }
    Some(match v {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64() != Some(0.0),
        Value::String(s) => !s.is_empty(),
        Value::Array(a) => !a.is_empty(),
        Value::Object(o) => !o.is_empty(),
    })
}

pub(super) fn compared(sign: &str, left: &Value, right: &Value) -> Option<Value> {
    if is_opaque(left) || is_opaque(right) {
        return None;
    }
    if let (Some(a), Some(b)) = (left.as_f64(), right.as_f64()) {
        return Some(Value::Bool(match sign {
            "==" => a == b,
            "!=" => a != b,
            "<=" => a <= b,
            ">=" => a >= b,
            "<" => a < b,
            _ => a > b,
        }));
    }
    match sign {
        "==" => Some(Value::Bool(left == right)),
        "!=" => Some(Value::Bool(left != right)),
        _ => None,
    }
}

/// Values in a list and in the lists in it.
fn inside(list: &Value) -> usize {
    count(list).saturating_sub(1)
}

pub(super) fn arithmetic(sign: char, left: &Value, right: &Value) -> Option<Value> {
    if is_unknown(left) || is_unknown(right) {
        return None;
    }
    if let (Some(a), Some(b)) = (left.as_f64(), right.as_f64()) {
        return number(match sign {
            '+' => a + b,
            '-' => a - b,
            '*' => a * b,
            '/' if b != 0.0 => a / b,
            '|' if b != 0.0 => (a / b).floor(),
            '%' if b != 0.0 => a - b * (a / b).floor(),
            _ => return None,
        });
    }
    match (sign, left, right) {
        ('+', Value::String(a), Value::String(b)) if a.len() + b.len() <= MOST_TEXT => {
            Some(format!("{a}{b}").into())
        }
        // Lists of lists grow by what is in them, not by their entries alone.
        ('+', Value::Array(a), Value::Array(b)) if inside(left) + inside(right) <= MOST_ENTRIES => {
            Some(Value::Array([a.as_slice(), b].concat()))
        }
        ('*', Value::Array(a), n) => {
            let n = usize::try_from(n.as_u64()?).ok()?;
            (n.checked_mul(inside(left))? <= MOST_ENTRIES)
                .then(|| Value::Array(a.iter().cycle().take(n * a.len()).cloned().collect()))
        }
        _ => None,
    }
}

pub(super) fn place_of(value: &Value, place: &Value) -> Option<Value> {
    if is_opaque(value) {
        return None;
    }
    match (value, place) {
        (Value::Array(list), place) => {
            let n = place.as_i64()?;
            let at = if n < 0 {
                list.len()
                    .checked_sub(usize::try_from(n.unsigned_abs()).ok()?)?
            } else {
                usize::try_from(n).ok()?
            };
            list.get(at).cloned()
        }
        (Value::Object(map), Value::String(key)) => map.get(key).cloned(),
        _ => None,
    }
}
