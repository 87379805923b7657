//! Why a network does not take a size: a constant made for another one, or a total stride that does not divide it.

use super::error::NetworkError;
use super::graph::{Graph, Node, Op};
use super::shapes::{infer, text};
use super::stride;

/// Refuses sizes other than the example's when the size of the export is baked in somewhere.
pub(super) fn refuse_baked(
    graph: &Graph,
    spatial: &[usize],
    batch: usize,
) -> Result<(), NetworkError> {
    let Some(baked) = graph.baked.first() else {
        return Ok(());
    };
    if graph.example == [&[batch], spatial].concat() {
        return Ok(());
    }
    let (known, space) = graph.example.split_first().unwrap_or((&1, &[]));
    let also = match graph.baked.len() {
        1 => String::new(),
        n => format!(" ({} more nodes likewise)", n - 1),
    };
    Err(NetworkError::Shape {
        node: baked.node.clone(),
        op: baked.op.clone(),
        reason: format!(
            "{}{also}, so the network runs at {} with batch {known} alone, found {} with batch {batch}; export it at that size or with dynamic axes",
            baked.reason,
            text(space),
            text(spatial),
        ),
    })
}

/// Why a node does not work out: a size that the total stride does not divide, a constant made for another size, or itself.
pub(super) fn explain(
    graph: &Graph,
    node: &Node,
    (spatial, batch): (&[usize], usize),
    reason: &str,
) -> NetworkError {
    // Strides are told from the shapes at the example's size: where those fail, nothing can be said of others.
    let at_example = graph.example == [&[batch], spatial].concat();
    let uneven = (!at_example)
        .then(|| {
            stride::of(graph)
                .and_then(|s| stride::total(graph, &s))
                .ok()
        })
        .flatten()
        .filter(|total| spatial.iter().zip(total).any(|(d, t)| d % t != 0));
    if let Some(total) = uneven {
        let near = near(graph, (spatial, batch), &total);
        if !near.is_empty() {
            return NetworkError::Roi {
                network: graph.name.clone(),
                found: text(spatial),
                reason: format!(
                    "sizes must be multiples of its total stride {}; the next that it takes: {} (at the node \"{}\" ({}) {reason})",
                    text(&total),
                    near.join(" and "),
                    node.name,
                    node.op.kind(),
                ),
            };
        }
    }
    let constants: Vec<String> = node
        .inputs
        .iter()
        .filter(|id| matches!(node.op, Op::Tensor(_)) && graph.is_weight(**id))
        .filter_map(|id| graph.tensor(*id).map(|t| format!("\"{}\"", t.name)))
        .collect();
    let baked = match (graph.example.split_first(), constants.as_slice()) {
        (Some((_, space)), [_, ..]) => format!(
            "; the constant {} was made for an input of {}, found {}",
            constants.join(", "),
            text(space),
            text(spatial)
        ),
        _ => String::new(),
    };
    NetworkError::Shape {
        node: node.name.clone(),
        op: node.op.kind().to_owned(),
        reason: format!("{reason}{baked}"),
    }
}

/// The multiples of a total stride next to a size that the network takes, as text.
fn near(graph: &Graph, (spatial, batch): (&[usize], usize), total: &[usize]) -> Vec<String> {
    let round = |up: usize| -> Vec<usize> {
        let pairs = spatial.iter().zip(total);
        pairs
            .map(|(d, t)| ((d + up * (t - 1)) / t).max(1) * t)
            .collect()
    };
    let fits = |s: &Vec<usize>| *s != spatial && infer(graph, s, batch).is_ok();
    let mut near: Vec<Vec<usize>> = [round(0), round(1)].into_iter().filter(fits).collect();
    near.dedup();
    near.iter().map(|s| text(s)).collect()
}

/// Refuses sizes at which constants of the export may stand for one thing or another.
pub(super) fn refuse_uneven(
    graph: &Graph,
    spatial: &[usize],
    batch: usize,
) -> Result<(), NetworkError> {
    let Some(multiples) = &graph.multiples else {
        return Ok(());
    };
    let even = spatial
        .iter()
        .zip(&multiples.of)
        .all(|(d, t)| d.checked_rem(*t) == Some(0));
    if even || graph.example.get(1..) == Some(spatial) {
        return Ok(());
    }
    let next = match near(graph, (spatial, batch), &multiples.of).as_slice() {
        [] => String::new(),
        near => format!("; the next that it takes: {}", near.join(" and ")),
    };
    let because = &multiples.because;
    Err(NetworkError::Roi {
        network: graph.name.clone(),
        found: text(spatial),
        reason: format!(
            "sizes must be multiples of its total stride {}{next} (at the node \"{}\" ({}) {})",
            text(&multiples.of),
            because.node,
            because.op,
            because.reason,
        ),
    })
}
