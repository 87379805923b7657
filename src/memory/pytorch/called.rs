//! Networks with attention as MONAI's forward functions call them: several nodes of a graph are one step of PyTorch, and what is
//! one node here (cutting windows) is several there, as many as a map's size asks for.

use super::tokens::is_known;
use crate::network::tensor_op::{Binary, TensorOp};
use crate::network::windows::{Side, WindowPart, Windowed};
use crate::network::{Act, Graph, Node, Op, Tensor, TensorId, TensorKind};
use std::collections::BTreeSet;

/// The steps of a network with attention and the shapes of its tensors; `None` for networks without.
pub(super) fn steps(graph: &Graph, shapes: &[Vec<usize>]) -> Option<(Graph, Vec<Vec<usize>>)> {
    if !graph.nodes.iter().any(|n| is_known(n) && is_on_tokens(n)) {
        return None;
    }
    let mut calls = Calls {
        graph: Graph {
            nodes: Vec::new(),
            ..graph.clone()
        },
        shapes: shapes.to_vec(),
        stands_for: (0..).map(TensorId).take(graph.tensors.len()).collect(),
        never_made: BTreeSet::new(),
    };
    let together = |a: &Node, b: &Node| is_known(a) && is_known(b) && step(a) == step(b);
    for nodes in graph.nodes.chunk_by(together) {
        calls.add(nodes);
    }
    Some((calls.graph, calls.shapes))
}

/// The step of PyTorch that a node is a part of.
fn step(node: &Node) -> &str {
    node.name.split('/').next().unwrap_or_default()
}

const fn is_on_tokens(node: &Node) -> bool {
    matches!(
        node.op,
        Op::Tensor(_) | Op::Activation(Act::Gelu | Act::Affine { .. })
    )
}

struct Calls {
    graph: Graph,
    shapes: Vec<Vec<usize>>,
    /// The tensor that each of the graph is in PyTorch, where a step is left out.
    stands_for: Vec<TensorId>,
    /// What only steps that are left out would make.
    never_made: BTreeSet<TensorId>,
}

impl Calls {
    fn add(&mut self, nodes: &[Node]) {
        let Some(last) = nodes.last() else {
            return;
        };
        if !is_known(last) || (nodes.len() == 1 && !is_on_tokens(last)) {
            for node in nodes {
                let mut node = node.clone();
                for t in &mut node.inputs {
                    *t = self.stands_for[t.index()];
                }
                self.graph.nodes.push(node);
            }
            return;
        }
        let Some(out) = last.outputs.first().copied() else {
            return;
        };
        let inputs = self.inputs(nodes);
        for node in nodes {
            let Op::Tensor(TensorOp::Window(op)) = &node.op else {
                continue;
            };
            match op.part {
                WindowPart::Cut { shifted } => return self.cut(op, (last, &inputs), shifted),
                WindowPart::Join { shifted } => return self.join(op, (last, &inputs), shifted),
                WindowPart::Regions => {
                    let map = inputs.first().map(|t| &self.shapes[t.index()]);
                    let sides = map.and_then(|m| op.sides(m).ok()).unwrap_or_default();
                    // A map that is one window has no mask.
                    if sides.iter().all(|s| s.shift == 0) {
                        self.never_made.insert(out);
                        return;
                    }
                }
                WindowPart::Bias => {}
            }
        }
        if inputs.iter().any(|t| self.never_made.contains(t)) {
            if let Some(x) = inputs.first() {
                self.stands_for[out.index()] = *x;
            }
            return;
        }
        self.push(&last.name, kind(nodes), inputs, out);
        if let Some(made) = self.graph.nodes.last_mut() {
            made.inplace = last.inplace;
        }
    }

    /// What a step reads that it does not make: what its last node reads first, weights last.
    fn inputs(&self, nodes: &[Node]) -> Vec<TensorId> {
        let made: Vec<TensorId> = nodes.iter().flat_map(|n| n.outputs.clone()).collect();
        let mut out: Vec<TensorId> = Vec::new();
        for t in nodes
            .iter()
            .rev()
            .take(1)
            .chain(nodes)
            .flat_map(|n| &n.inputs)
        {
            let t = if made.contains(t) {
                continue;
            } else {
                self.stands_for[t.index()]
            };
            if !out.contains(&t) {
                out.push(t);
            }
        }
        out.sort_by_key(|t| self.graph.is_weight(*t));
        out
    }

    fn push(&mut self, name: &str, kind: &str, inputs: Vec<TensorId>, out: TensorId) {
        if let Some(tensor) = self.graph.tensors.get_mut(out.index()) {
            name.clone_into(&mut tensor.name);
        }
        self.graph.nodes.push(Node {
            name: name.to_owned(),
            op: Op::Other {
                kind: kind.to_owned(),
                at: Vec::new(),
                shapes: Vec::new(),
                flops: 0,
                reason: String::new(),
            },
            inputs,
            outputs: vec![out],
            inplace: false,
        });
    }

    /// A step that the graph does not have, and what it makes.
    fn between(&mut self, name: &str, kind: &str, x: TensorId, shape: Vec<usize>) -> TensorId {
        let id = TensorId(u32::try_from(self.graph.tensors.len()).unwrap_or(u32::MAX));
        self.graph.tensors.push(Tensor {
            name: name.to_owned(),
            kind: TensorKind::Activation,
        });
        self.shapes.push(shape);
        self.stands_for.push(id);
        self.push(name, kind, vec![x], id);
        id
    }

    fn cut(&mut self, op: &Windowed, (node, inputs): (&Node, &[TensorId]), shifted: bool) {
        let (Some(mut x), Some(out)) = (inputs.first().copied(), node.outputs.first()) else {
            return;
        };
        let map = self.shapes[x.index()].clone();
        let sides = op.sides(&map).unwrap_or_default();
        let whole = padded(&map, &sides);
        let block = node.name.trim_end_matches("window_partition").to_owned();
        if whole != map {
            x = self.between(&format!("{block}pad"), "Pad", x, whole.clone());
        }
        if shifted && sides.iter().any(|s| s.shift > 0) {
            x = self.between(&format!("{block}roll"), "Roll", x, whole);
        }
        self.push(&node.name, "Reshape", vec![x], *out);
    }

    fn join(&mut self, op: &Windowed, (node, inputs): (&Node, &[TensorId]), shifted: bool) {
        let (Some(mut x), Some(out)) = (inputs.first().copied(), node.outputs.first()) else {
            return;
        };
        let map = self.shapes[out.index()].clone();
        let sides = op.sides(&map).unwrap_or_default();
        let whole = padded(&map, &sides);
        let block = node.name.trim_end_matches("window_reverse").to_owned();
        let mut todo = vec![(node.name.clone(), "Reshape")];
        if shifted && sides.iter().any(|s| s.shift > 0) {
            todo.push((format!("{block}unroll"), "Roll"));
        }
        if whole != map {
            todo.push((format!("{block}crop"), "Slice"));
        }
        let Some((last, rest)) = todo.split_last() else {
            return;
        };
        for (name, kind) in rest {
            x = self.between(name, kind, x, whole.clone());
        }
        self.push(&last.0, last.1, vec![x], *out);
    }
}

fn padded(map: &[usize], sides: &[Side]) -> Vec<usize> {
    let mut out = map.to_vec();
    for (slot, side) in out.iter_mut().skip(1).zip(sides) {
        *slot = side.padded();
    }
    out
}

/// What a step is to PyTorch: what its most telling node does.
fn kind(nodes: &[Node]) -> &'static str {
    let telling = nodes.iter().find_map(|n| match &n.op {
        Op::Tensor(TensorOp::Window(op)) => match op.part {
            WindowPart::Regions => Some("Mask"),
            WindowPart::Bias => Some("Gather"),
            WindowPart::Cut { .. } | WindowPart::Join { .. } => Some("Reshape"),
        },
        Op::Tensor(
            op @ (TensorOp::LayerNorm { .. }
            | TensorOp::Linear
            | TensorOp::MatMul
            | TensorOp::Softmax { .. }
            | TensorOp::Binary(Binary::Add)),
        ) => Some(op.kind()),
        Op::Activation(Act::Gelu) => Some("Gelu"),
        Op::Activation(Act::Affine { .. }) => Some("Mul"),
        _ => None,
    });
    telling.unwrap_or_else(|| match nodes.last().map(|n| &n.op) {
        Some(Op::Tensor(op)) => op.kind(),
        _ => "Add",
    })
}
