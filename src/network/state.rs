//! A state dictionary of any file format, and the weights of a graph read from it by name.

use super::graph::{Graph, Node, TensorId, TensorKind};
use super::weights::Weights;
use super::windows;
use std::collections::BTreeSet;

/// Named tensors of a file.
pub(super) trait State {
    /// All names.
    fn names(&self) -> Vec<&str>;
    /// The shape of one, if it is there.
    fn shape(&self, name: &str) -> Option<&[usize]>;
    /// The values of one, or why they cannot be read.
    fn values(&mut self, name: &str) -> Result<Vec<f32>, String>;
}

/// What wrappers put before every name: data parallelism, compilation, Lightning modules, nnU-Net's and MONAI's own.
const WRAPPERS: [&str; 8] = [
    "module.",
    "_orig_mod.",
    "network.",
    "net.",
    "model.",
    "state_dict.",
    "backbone.",
    "_model.",
];

/// The weights of a graph from a state dictionary. `same` says whether a name that the graph does not have is a second name of
/// something that it does have.
pub(super) fn weights(
    graph: &Graph,
    state: &mut dyn State,
    same: fn(&str) -> bool,
) -> Result<Weights, String> {
    let bytes = bytes(graph);
    if bytes > super::MOST_BYTES {
        return Err(format!(
            "the network has {bytes} bytes of weights, at most {} are read",
            super::MOST_BYTES
        ));
    }
    let prefix = prefix(graph, state);
    let used: BTreeSet<TensorId> = graph.nodes.iter().flat_map(inputs).collect();
    let mut out = Weights::default();
    for (id, tensor) in graph.weights() {
        let TensorKind::Weight { shape, .. } = &tensor.kind else {
            continue;
        };
        let name = format!("{prefix}{}", tensor.name);
        let Some(found) = state.shape(&name) else {
            // Older versions of a network lack what newer ones declare and never read.
            if !used.contains(&id) {
                let n = shape.iter().product();
                let values = windows::index(graph, &tensor.name);
                out.insert(id, values.unwrap_or_else(|| vec![0.0; n]).into());
                continue;
            }
            return Err(missing(&name, state));
        };
        if found != shape.as_slice() {
            return Err(format!(
                "\"{name}\" must have the shape {shape:?}, found {found:?}: the network that made this file has other sizes"
            ));
        }
        let values = state
            .values(&name)
            .map_err(|reason| format!("\"{name}\" cannot be read: {reason}"))?;
        windows::check(graph, &tensor.name, &values)?;
        out.insert(id, values.into());
    }
    let extra = state
        .names()
        .into_iter()
        .filter(|n| {
            let own = n.strip_prefix(&prefix).unwrap_or(n);
            !n.ends_with("num_batches_tracked") && !same(own) && graph.find(own).is_none()
        })
        .min();
    match extra {
        Some(name) => Err(format!(
            "the file holds \"{name}\", which the network does not have"
        )),
        None => Ok(out),
    }
}

/// Bytes of all weights in single precision.
fn bytes(graph: &Graph) -> u64 {
    let shapes = graph.weights().filter_map(|(_, t)| match &t.kind {
        TensorKind::Weight { shape, .. } => Some(shape),
        _ => None,
    });
    let values = |shape: &Vec<usize>| shape.iter().fold(4u64, |n, d| n.saturating_mul(*d as u64));
    shapes.map(values).fold(0, u64::saturating_add)
}

fn inputs(node: &Node) -> impl Iterator<Item = TensorId> {
    node.inputs.iter().copied()
}

fn missing(name: &str, state: &dyn State) -> String {
    let names = state.names();
    let some: Vec<String> = names.iter().take(3).map(|n| format!("\"{n}\"")).collect();
    format!(
        "expected a tensor named \"{name}\", found none among {} ({}, ...)",
        names.len(),
        some.join(", ")
    )
}

/// What stands before every name of the file and before none of the graph's.
fn prefix(graph: &Graph, state: &dyn State) -> String {
    let Some((_, first)) = graph.weights().next() else {
        return String::new();
    };
    let names = state.names();
    let mut prefix = String::new();
    // `module._orig_mod.network.` and the like: a few layers at most.
    for _ in 0..4 {
        if state.shape(&format!("{prefix}{}", first.name)).is_some() {
            return prefix;
        }
        let next = WRAPPERS.iter().find(|w| {
            let longer = format!("{prefix}{w}");
            !names.is_empty() && names.iter().all(|n| n.starts_with(&longer))
        });
        match next {
            Some(wrapper) => prefix.push_str(wrapper),
            None => break,
        }
    }
    prefix
}
