//! The same network with one layer more or less at one resolution, to ask how bytes move with depth and its placement.

use crate::network::{Graph, Op, Tensor, TensorId};

/// A convolution that keeps size and channels, with the norm and the activation behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    /// Its nodes, in order.
    nodes: Vec<usize>,
    input: TensorId,
    output: TensorId,
    /// Voxels along each axis of the tensor.
    pub(super) spatial: Vec<usize>,
}

/// The first such layer at each resolution, the finest first; `shapes` as from `network::shapes::infer`.
pub(super) fn layers(graph: &Graph, shapes: &[Vec<usize>]) -> Vec<Layer> {
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); graph.tensors.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        for t in &node.inputs {
            readers[t.index()].push(at);
        }
    }
    let mut found: Vec<Layer> = Vec::new();
    for at in 0..graph.nodes.len() {
        if let Some(layer) = layer(graph, shapes, &readers, at)
            && found.iter().all(|f| f.spatial != layer.spatial)
        {
            found.push(layer);
        }
    }
    found.sort_by_key(|l| std::cmp::Reverse(l.spatial.iter().product::<usize>()));
    found
}

fn layer(
    graph: &Graph,
    shapes: &[Vec<usize>],
    readers: &[Vec<usize>],
    first: usize,
) -> Option<Layer> {
    let node = graph.nodes.get(first)?;
    let (input, mut output) = (*node.inputs.first()?, *node.outputs.first()?);
    let keeps =
        matches!(node.op, Op::Conv { .. }) && shapes[input.index()] == shapes[output.index()];
    if !keeps || graph.inputs.contains(&input) {
        return None;
    }
    let mut nodes = vec![first];
    while let [next] = readers[output.index()].as_slice() {
        let node = graph.nodes.get(*next)?;
        let behind = matches!(
            node.op,
            Op::BatchNorm { .. }
                | Op::InstanceNorm { .. }
                | Op::GroupNorm { .. }
                | Op::Activation(_)
                | Op::PRelu
        );
        if !behind || node.inputs.first() != Some(&output) {
            break;
        }
        nodes.push(*next);
        output = *node.outputs.first()?;
    }
    (!graph.outputs.contains(&output)).then(|| Layer {
        nodes,
        input,
        output,
        spatial: shapes[output.index()].get(2..).unwrap_or(&[]).to_vec(),
    })
}

/// The graph with the layer twice, one behind the other.
pub(super) fn repeat(graph: &Graph, layer: &Layer) -> Graph {
    let mut deep = graph.clone();
    let mut from = layer.output;
    let mut copies = Vec::new();
    for &at in &layer.nodes {
        let Some(node) = graph.nodes.get(at) else {
            continue;
        };
        let mut copy = node.clone();
        copy.name = format!("{}#deeper", node.name);
        for (place, t) in copy.inputs.iter_mut().enumerate() {
            *t = if place == 0 {
                from
            } else {
                again(&mut deep, *t)
            };
        }
        for t in &mut copy.outputs {
            *t = again(&mut deep, *t);
        }
        from = copy.outputs.first().copied().unwrap_or(from);
        copies.push(copy);
    }
    for node in &mut deep.nodes {
        let own = layer
            .nodes
            .iter()
            .any(|n| graph.nodes.get(*n).is_some_and(|n| n.name == node.name));
        if !own {
            redirect(&mut node.inputs, layer.output, from);
        }
    }
    let behind = layer.nodes.last().map_or(0, |n| n + 1);
    deep.nodes.splice(behind..behind, copies);
    deep
}

/// The graph without the layer.
pub(super) fn leave_out(graph: &Graph, layer: &Layer) -> Graph {
    let mut flat = graph.clone();
    let mut at = 0;
    flat.nodes.retain(|_| {
        at += 1;
        !layer.nodes.contains(&(at - 1))
    });
    for node in &mut flat.nodes {
        redirect(&mut node.inputs, layer.output, layer.input);
    }
    without_unused(flat, graph)
}

/// Which tensors a graph's nodes, inputs or outputs name.
fn named(graph: &Graph) -> Vec<bool> {
    let mut out = vec![false; graph.tensors.len()];
    let by_nodes = graph
        .nodes
        .iter()
        .flat_map(|n| n.inputs.iter().chain(&n.outputs));
    for t in by_nodes.chain(&graph.inputs).chain(&graph.outputs) {
        out[t.index()] = true;
    }
    out
}

/// The graph without the tensors that no node names any more. What none named before (heads for training) stays.
fn without_unused(mut graph: Graph, before: &Graph) -> Graph {
    let now = named(&graph).into_iter().zip(named(before));
    let used: Vec<bool> = now.map(|(now, before)| now || !before).collect();
    let mut next = 0;
    let place: Vec<TensorId> = used
        .iter()
        .map(|used| {
            let here = TensorId(next);
            next += u32::from(*used);
            here
        })
        .collect();
    let mut at = 0;
    graph.tensors.retain(|_| {
        at += 1;
        used[at - 1]
    });
    let lists = graph
        .nodes
        .iter_mut()
        .flat_map(|n| [&mut n.inputs, &mut n.outputs])
        .chain([&mut graph.inputs, &mut graph.outputs]);
    for t in lists.flatten() {
        *t = place[t.index()];
    }
    graph
}

/// A new tensor like another.
fn again(graph: &mut Graph, t: TensorId) -> TensorId {
    let Some(tensor) = graph.tensors.get(t.index()).cloned() else {
        return t;
    };
    let id = TensorId(u32::try_from(graph.tensors.len()).unwrap_or(u32::MAX));
    graph.tensors.push(Tensor {
        name: format!("{}#deeper", tensor.name),
        ..tensor
    });
    id
}

fn redirect(inputs: &mut [TensorId], from: TensorId, to: TensorId) {
    for t in inputs.iter_mut().filter(|t| **t == from) {
        *t = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{facts, preset, shapes};

    #[test]
    fn a_layer_more_and_the_same_layer_less_are_one_layer_of_parameters_apart() {
        let graph = preset::load("nnunet-3d-6stage").unwrap().graph;
        let inferred = shapes::infer(&graph, &[64; 3], 1).unwrap();
        let found = layers(&graph, &inferred);
        let sizes: Vec<usize> = found.iter().map(|l| l.spatial[0]).collect();
        assert_eq!(sizes, [64, 32, 16, 8, 4, 2]);
        let n = facts::n_parameters(&graph);
        for layer in &found {
            let deep = repeat(&graph, layer);
            let flat = leave_out(&graph, layer);
            shapes::infer(&deep, &[64; 3], 1).unwrap();
            shapes::infer(&flat, &[64; 3], 1).unwrap();
            let (more, less) = (facts::n_parameters(&deep), facts::n_parameters(&flat));
            assert!(more > n && n > less);
            assert_eq!(more - n, n - less);
            assert_eq!(deep.nodes.len() + flat.nodes.len(), 2 * graph.nodes.len());
        }
    }
}
