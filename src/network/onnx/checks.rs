//! What the format forbids, or what would not run here as it does elsewhere, said before anything is made of it.

use super::import::Value;
use super::proto::{Graph, Node};
use super::translate::{Inputs, constant};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Versions of the operators that are read.
const OPSETS: RangeInclusive<i64> = 11..=25;

/// Refuses operators of a version that is not known.
pub(super) fn opset(found: i64) -> Result<(), String> {
    if OPSETS.contains(&found) {
        return Ok(());
    }
    let (first, last) = (OPSETS.start(), OPSETS.end());
    Err(format!(
        "its operators are of opset {found}; opsets {first} to {last} are read"
    ))
}

/// Refuses a node that was exported to train with.
pub(super) fn evaluates(node: &Node<'_>, inputs: Inputs<'_>) -> Result<(), String> {
    let number = |i: usize| constant(inputs, i).map(|(c, _)| c.first());
    let trains = number(2).is_some_and(|t| t != 0.0) && number(1) != Some(0.0);
    if node.op == "Dropout" && trains {
        return Err("it drops values at random (its training_mode is true); export the network in evaluation mode (model.eval())".to_owned());
    }
    Ok(())
}

/// Refuses arithmetic of floats and whole numbers; `whole` are the names of values that may be whole numbers.
pub(super) fn types<'a>(
    whole: &mut BTreeSet<&'a str>,
    node: &Node<'a>,
    inputs: Inputs<'_>,
) -> Result<(), String> {
    let ours = matches!(node.domain, "" | "ai.onnx");
    let arithmetic = ours
        && matches!(
            node.op,
            "Add" | "Sub" | "Mul" | "Div" | "Min" | "Max" | "Sum" | "Mean" | "MatMul"
        );
    let named = || node.inputs.iter().zip(inputs);
    let integer = named().find_map(|(name, value)| match value {
        Some(Value::Known(c, ..)) => c.as_ints().map(|_| *name),
        _ => None,
    });
    let float = named().find_map(|(name, value)| {
        let is_float = match value {
            Some(Value::Known(c, ..)) => c.as_floats().is_some(),
            Some(_) => !whole.contains(name),
            None => false,
        };
        is_float.then_some(*name)
    });
    let runs = !inputs
        .iter()
        .all(|v| matches!(v, Some(Value::Known(..)) | None));
    if let (true, Some(integer), Some(float)) = (arithmetic && runs, integer, float) {
        return Err(format!(
            "it joins \"{float}\", which holds floats, with \"{integer}\", which holds whole numbers; a cast is missing"
        ));
    }
    let to_float = node.op == "Cast" && is_float(node.int("to", 1));
    let reads = node.inputs.iter().any(|name| whole.contains(name));
    let of_whole = constant(inputs, 0).is_some_and(|(c, _)| c.as_ints().is_some());
    if !to_float && (reads || of_whole || !ours || makes_whole(node)) {
        whole.extend(node.outputs.iter().copied());
    }
    Ok(())
}

/// The format's floats: 32, 16, 64 bits and bfloat16.
const fn is_float(element: i64) -> bool {
    matches!(element, 1 | 10 | 11 | 16)
}

/// Whether a node may make something other than floats of floats.
fn makes_whole(node: &Node<'_>) -> bool {
    match node.op {
        "Cast" => !is_float(node.int("to", 1)),
        "ArgMax" | "ArgMin" | "NonZero" | "Shape" | "Size" | "Equal" | "Less" | "LessOrEqual"
        | "Greater" | "GreaterOrEqual" | "And" | "Or" | "Xor" | "Not" | "IsNaN" | "IsInf"
        | "TopK" | "Unique" | "NonMaxSuppression" | "QuantizeLinear" | "CastLike" | "If"
        | "Loop" | "Scan" => true,
        _ => false,
    }
}

/// What a user should hear of nodes that run, but not as the file says.
pub(super) fn notes(graph: &Graph<'_>) -> Vec<String> {
    let narrow = |n: &&Node<'_>| n.op == "Cast" && matches!(n.int("to", 1), 10 | 16);
    let mut casts = graph.nodes.iter().filter(narrow);
    let Some(first) = casts.next() else {
        return Vec::new();
    };
    let name = [first.name]
        .into_iter()
        .chain(first.outputs.iter().copied())
        .find(|n| !n.is_empty());
    let more = match casts.count() {
        0 => String::new(),
        n => format!(" and {n} more like it"),
    };
    vec![format!(
        "the node \"{}\" (Cast){more} rounds to 16 bits in the file; here all values keep 32 bits, so that results differ by that rounding",
        name.unwrap_or_default()
    )]
}
