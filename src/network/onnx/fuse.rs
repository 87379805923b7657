//! GELU as exporters write it out, seen as one operation again.

use crate::network::compact;
use crate::network::graph::{Act, Function, Graph, Op, TensorId};
use crate::network::weights::Weights;
use std::collections::{BTreeMap, BTreeSet};

/// Where each tensor is made and how often it is read.
struct Index {
    maker: BTreeMap<TensorId, usize>,
    reads: BTreeMap<TensorId, usize>,
}

impl Index {
    fn of(graph: &Graph) -> Self {
        let mut reads = BTreeMap::new();
        let inputs = graph.nodes.iter().flat_map(|n| &n.inputs);
        for id in inputs.chain(&graph.outputs) {
            *reads.entry(*id).or_insert(0) += 1;
        }
        let maker = (0..)
            .zip(&graph.nodes)
            .flat_map(|(i, n)| n.outputs.iter().map(move |o| (*o, i)));
        Self {
            maker: maker.collect(),
            reads,
        }
    }

    /// The activation that makes a tensor nothing else reads: its node, what it does, its input.
    fn act(&self, graph: &Graph, id: TensorId) -> Option<(usize, Act, TensorId)> {
        let at = *self.maker.get(&id)?;
        let node = graph.nodes.get(at)?;
        match (&node.op, self.reads.get(&id)) {
            (Op::Activation(act), Some(1)) => Some((at, *act, *node.inputs.first()?)),
            _ => None,
        }
    }
}

/// Replaces x / sqrt 2, erf, + 1, * x, / 2 (in the orders that exporters use) by one activation.
pub(super) fn gelu(graph: &mut Graph, weights: &mut Weights) {
    let index = Index::of(graph);
    // Tensors that go, with one of the same shape that stays: sizes name that one from then on.
    let mut same = BTreeMap::new();
    let mut dropped = BTreeSet::new();
    for at in 0..graph.nodes.len() {
        let Some(found) = pattern(graph, &index, at) else {
            continue;
        };
        let Some(node) = graph.nodes.get_mut(found.last) else {
            continue;
        };
        node.op = Op::Activation(Act::Gelu);
        node.inputs = vec![found.x];
        for at in found.nodes {
            let outputs = graph.nodes.get(at).into_iter().flat_map(|n| &n.outputs);
            same.extend(outputs.map(|id| (*id, found.x)));
            dropped.insert(at);
        }
    }
    for node in &mut graph.nodes {
        if let Op::Tensor(op) = &mut node.op {
            op.rename(&|id| same.get(&id).copied().unwrap_or(id));
        }
    }
    let mut i = 0..;
    graph
        .nodes
        .retain(|_| i.next().is_none_or(|i| !dropped.contains(&i)));
    compact::without(graph, weights, &same.into_keys().collect());
}

/// A GELU: the node that makes its result, its input, and the nodes that go.
struct Found {
    last: usize,
    x: TensorId,
    nodes: Vec<usize>,
}

/// The GELU around the product at a node.
fn pattern(graph: &Graph, index: &Index, at: usize) -> Option<Found> {
    let node = graph.nodes.get(at)?;
    let (Op::Mul, &[a, b], &[out]) = (&node.op, node.inputs.as_slice(), node.outputs.as_slice())
    else {
        return None;
    };
    [(a, b), (b, a)].into_iter().find_map(|(x, t)| {
        let (
            plus,
            Act::Affine {
                factor: 1.0,
                shift: 1.0,
            },
            erf,
        ) = index.act(graph, t)?
        else {
            return None;
        };
        let (erf, Act::Function(Function::Erf), scaled) = index.act(graph, erf)? else {
            return None;
        };
        let (scale, Act::Affine { factor, shift: 0.0 }, inner) = index.act(graph, scaled)? else {
            return None;
        };
        if (factor - std::f32::consts::FRAC_1_SQRT_2).abs() > 1e-6 {
            return None;
        }
        let half = |act: &Act| matches!(act, Act::Affine { factor, shift: 0.0 } if *factor == 0.5);
        // x * 0.5 first.
        if let Some((halved, act, own)) = index.act(graph, x)
            && half(&act)
            && own == inner
        {
            return Some(Found {
                last: at,
                x: inner,
                nodes: vec![plus, erf, scale, halved],
            });
        }
        // Or the product first, halved by the next node.
        if x != inner || index.reads.get(&out) != Some(&1) {
            return None;
        }
        let next = (at + 1..graph.nodes.len().min(at + 8)).find(|i| {
            graph.nodes.get(*i).is_some_and(|n| {
                n.inputs == [out] && matches!(&n.op, Op::Activation(act) if half(act))
            })
        })?;
        Some(Found {
            last: next,
            x: inner,
            nodes: vec![plus, erf, scale, at],
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::builder::Builder;
    use crate::network::shapes;
    use crate::network::size::Size;
    use crate::network::tensor_op::TensorOp;

    #[test]
    fn sizes_that_follow_a_part_of_a_gelu_follow_its_input_when_the_part_is_gone() {
        let affine = |factor, shift| Act::Affine { factor, shift };
        let mut b = Builder::new("gelu", 1);
        let x = b.input("x", 1);
        let scale = affine(std::f32::consts::FRAC_1_SQRT_2, 0.0);
        let scaled = b.act("scaled", x, scale, false);
        let erf = b.act("erf", scaled, Act::Function(Function::Erf), false);
        let plus = b.act("plus", erf, affine(1.0, 1.0), false);
        let product = b.node("product", Op::Mul, vec![x, plus], 1);
        let half = b.act("half", product, affine(0.5, 0.0), false);
        let to = vec![Size::Fixed(1), Size::Of(plus, 2), Size::Of(product, 1)];
        let seen = Op::Tensor(TensorOp::Reshape { to });
        let seen = b.node("seen", seen, vec![half], 1);
        b.output(seen);
        let mut graph = b.finish();
        gelu(&mut graph, &mut Weights::default());
        assert_eq!(graph.nodes.len(), 2);
        assert_eq!(graph.nodes[0].op, Op::Activation(Act::Gelu));
        let shapes = shapes::infer(&graph, &[6], 1).unwrap();
        assert_eq!(shapes[graph.outputs[0].index()], [1, 6, 1]);
    }
}
