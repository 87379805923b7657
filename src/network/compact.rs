//! Taking tensors out of a graph that nothing uses any more.

use super::graph::{Graph, Op, TensorId};
use super::weights::Weights;
use std::collections::BTreeSet;

/// The graph and its weights without these tensors; the rest keep their order.
pub(crate) fn without(graph: &mut Graph, weights: &mut Weights, gone: &BTreeSet<TensorId>) {
    if gone.is_empty() {
        return;
    }
    let mut new_ids = Vec::with_capacity(graph.tensors.len());
    let mut next = 0u32;
    for old in (0u32..).map(TensorId).take(graph.tensors.len()) {
        let kept = !gone.contains(&old);
        new_ids.push(TensorId(next));
        next += u32::from(kept);
    }
    let of = |id: &TensorId| new_ids.get(id.index()).copied().unwrap_or(*id);
    let mut moved = Weights::default();
    for (id, values) in weights.iter().filter(|(id, _)| !gone.contains(id)) {
        moved.insert(of(&id), values.clone());
    }
    *weights = moved;
    let mut index = 0u32..;
    graph
        .tensors
        .retain(|_| index.next().is_none_or(|i| !gone.contains(&TensorId(i))));
    for node in &mut graph.nodes {
        for id in node.inputs.iter_mut().chain(&mut node.outputs) {
            *id = of(id);
        }
        if let Op::Tensor(op) = &mut node.op {
            op.rename(&|id| of(&id));
        }
    }
    for id in graph.inputs.iter_mut().chain(&mut graph.outputs) {
        *id = of(id);
    }
}

/// Lets sizes that follow tensor `from` follow `to`, which has the same shape.
pub(crate) fn follow(graph: &mut Graph, from: TensorId, to: TensorId) {
    for node in &mut graph.nodes {
        if let Op::Tensor(op) = &mut node.op {
            op.rename(&|id| if id == from { to } else { id });
        }
    }
}
