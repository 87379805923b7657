//! From graph to steps: folds batch norms, moves activations, sums and products into epilogues where no bit changes,
//! and lets convolutions read a concatenation from its parts, so that it is never copied.

use super::schedule::{Kernel, Post};
use crate::network::layout::{self, Layout};
use crate::network::tensor_op::TensorOp;
use crate::network::{Graph, Node, Op, TensorId};

/// A step over the graph's tensors, before anything has a place.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) nodes: Vec<usize>,
    pub(super) kernel: Kernel,
    pub(super) sources: Vec<TensorId>,
    pub(super) posts: Vec<DraftPost>,
    pub(super) target: Option<TensorId>,
    /// Further outputs of an operation that can only be planned.
    pub(super) more_targets: Vec<TensorId>,
}

/// An epilogue part over the graph's tensors.
#[derive(Clone, Copy, Debug)]
pub(super) enum DraftPost {
    /// No other tensor is read.
    Alone(Post),
    Add(TensorId),
    Mul(TensorId),
}

impl Draft {
    /// All tensors it reads.
    pub(super) fn reads(&self) -> impl Iterator<Item = TensorId> + '_ {
        let posts = self.posts.iter().filter_map(|p| match p {
            DraftPost::Alone(_) => None,
            DraftPost::Add(t) | DraftPost::Mul(t) => Some(*t),
        });
        self.sources.iter().copied().chain(posts)
    }
}

/// The activations among a node's inputs (weights come after them).
pub(super) fn activations<'a>(
    graph: &'a Graph,
    node: &'a Node,
) -> impl Iterator<Item = TensorId> + 'a {
    node.inputs.iter().copied().filter(|t| {
        !matches!(
            graph.tensors[t.index()].kind,
            crate::network::TensorKind::Weight { .. }
        )
    })
}

struct Lowering<'a> {
    graph: &'a Graph,
    /// How often each tensor is read; being an output counts.
    uses: Vec<usize>,
    /// The draft that makes each tensor.
    maker: Vec<Option<usize>>,
    /// Parts of a concatenation that is never made.
    parts: Vec<Option<Vec<TensorId>>>,
    /// The tensor whose place holds each tensor's values: itself, unless it is only another view of them.
    seen: Vec<TensorId>,
    layouts: Vec<Layout>,
    drafts: Vec<Draft>,
}

/// The steps of a graph in run order, gather first and outputs last.
pub(super) fn lower(graph: &Graph) -> Vec<Draft> {
    let mut uses = vec![0; graph.tensors.len()];
    for node in &graph.nodes {
        for t in &node.inputs {
            uses[t.index()] += 1;
        }
    }
    for t in &graph.outputs {
        uses[t.index()] += 1;
    }
    let mut lowering = Lowering {
        graph,
        uses,
        maker: vec![None; graph.tensors.len()],
        parts: vec![None; graph.tensors.len()],
        seen: (0..).map(TensorId).take(graph.tensors.len()).collect(),
        layouts: layout::of(graph),
        drafts: Vec::with_capacity(graph.nodes.len() + 2),
    };
    for (i, t) in graph.inputs.iter().enumerate() {
        let name = if i == 0 {
            "gather".to_owned()
        } else {
            format!("gather #{}", i + 1)
        };
        lowering.push(name, vec![], Kernel::Gather, vec![], *t);
    }
    for (index, node) in graph.nodes.iter().enumerate() {
        lowering.node(index, node);
    }
    lowering.drafts.push(Draft {
        name: "outputs".to_owned(),
        nodes: vec![],
        kernel: Kernel::Outputs,
        sources: graph.outputs.clone(),
        posts: vec![],
        target: None,
        more_targets: vec![],
    });
    lowering.drafts
}

impl Lowering<'_> {
    fn push(
        &mut self,
        name: String,
        nodes: Vec<usize>,
        kernel: Kernel,
        sources: Vec<TensorId>,
        target: TensorId,
    ) {
        self.maker[target.index()] = Some(self.drafts.len());
        self.drafts.push(Draft {
            name,
            nodes,
            kernel,
            sources,
            posts: vec![],
            target: Some(target),
            more_targets: vec![],
        });
    }

    /// A step of its own for the node.
    fn own_step(&mut self, index: usize, node: &Node, sources: Vec<TensorId>) {
        let kernel = Kernel::Node {
            node: index,
            batch_norm: None,
        };
        self.push(
            node.name.clone(),
            vec![index],
            kernel,
            sources,
            node.outputs[0],
        );
        if node.outputs.len() > 1
            && let Some(draft) = self.drafts.last_mut()
        {
            draft.more_targets = node.outputs[1..].to_vec();
        }
    }

    fn node(&mut self, index: usize, node: &Node) {
        let inputs: Vec<TensorId> = activations(self.graph, node)
            .map(|t| self.seen[t.index()])
            .collect();
        let Some(&first) = inputs.first() else {
            // Of weights alone: nothing to go on from, and nothing to view.
            return self.own_step(index, node, inputs);
        };
        match &node.op {
            Op::Tensor(TensorOp::Reshape { .. }) if self.is_a_view(node) => {
                // Nothing is done: its readers read its input. Whoever made that cannot go on in an epilogue.
                let (from, to) = (first, node.outputs[0]);
                self.seen[to.index()] = from;
                self.uses[from.index()] += self.uses[to.index()].max(1);
            }
            Op::Activation(act) => self.pointwise(index, node, first, Post::Act(*act)),
            Op::PRelu => self.pointwise(index, node, first, Post::PRelu(index)),
            Op::BatchNorm { .. } if self.folds_batch_norm(first) => {
                self.extend(first, index, node.outputs[0], |draft| {
                    if let Kernel::Node { batch_norm, .. } = &mut draft.kernel {
                        *batch_norm = Some(index);
                    }
                });
            }
            Op::Add => self.combine(index, node, &inputs, DraftPost::Add),
            Op::Mul => self.combine(index, node, &inputs, DraftPost::Mul),
            Op::Concat if self.only_convolutions_read(node.outputs[0]) => {
                self.parts[node.outputs[0].index()] = Some(self.flat(&inputs));
            }
            Op::Conv { .. } | Op::ConvTranspose { .. } | Op::Concat => {
                let sources = self.flat(&inputs);
                self.own_step(index, node, sources);
            }
            _ => self.own_step(index, node, inputs),
        }
    }

    /// Whether a reshape leaves every value where it is.
    fn is_a_view(&self, node: &Node) -> bool {
        node.inputs
            .first()
            .zip(node.outputs.first())
            .is_some_and(|(x, y)| {
                let rows = |t: &TensorId| self.layouts[t.index()] == Layout::Rows;
                rows(x) && rows(y) && !self.graph.outputs.contains(y)
            })
    }

    /// Inputs with virtual concatenations replaced by their parts.
    fn flat(&self, inputs: &[TensorId]) -> Vec<TensorId> {
        let mut out = Vec::with_capacity(inputs.len());
        for t in inputs {
            match &self.parts[t.index()] {
                Some(parts) => out.extend(parts),
                None => out.push(*t),
            }
        }
        out
    }

    fn only_convolutions_read(&self, t: TensorId) -> bool {
        !self.graph.outputs.contains(&t)
            && self
                .graph
                .nodes
                .iter()
                .filter(|n| n.inputs.contains(&t))
                .all(|n| match &n.op {
                    Op::Conv { groups, .. } | Op::ConvTranspose { groups, .. } => *groups == 1,
                    _ => false,
                })
    }

    /// The draft that makes `t`, if only one reader follows and an epilogue can be appended to it.
    fn open(&self, t: TensorId) -> Option<usize> {
        let draft = self.maker[t.index()]?;
        let d = &self.drafts[draft];
        let appendable = match d.kernel {
            Kernel::Pointwise => true,
            Kernel::Node { node, .. } => matches!(
                self.graph.nodes[node].op,
                Op::Conv { .. }
                    | Op::ConvTranspose { .. }
                    | Op::BatchNorm { .. }
                    | Op::InstanceNorm { .. }
                    | Op::GroupNorm { .. }
                    | Op::UpsampleNearest { .. }
                    | Op::MaxPool { .. }
                    | Op::Tensor(
                        TensorOp::MatMul
                            | TensorOp::Linear
                            | TensorOp::Window(_)
                            | TensorOp::Binary(_)
                            | TensorOp::Where
                            | TensorOp::Transpose { .. }
                            | TensorOp::Slice { .. }
                            | TensorOp::Pad { .. }
                    )
            ),
            _ => false,
        };
        (appendable && self.uses[t.index()] == 1).then_some(draft)
    }

    fn folds_batch_norm(&self, t: TensorId) -> bool {
        self.open(t).is_some_and(|d| {
            let draft = &self.drafts[d];
            draft.posts.is_empty()
                && matches!(draft.kernel, Kernel::Node { node, batch_norm: None }
                    if matches!(self.graph.nodes[node].op, Op::Conv { .. } | Op::ConvTranspose { .. }))
        })
    }

    /// Lets the maker of `from` also do this node, so that it makes `to`.
    fn extend(
        &mut self,
        from: TensorId,
        node: usize,
        to: TensorId,
        change: impl FnOnce(&mut Draft),
    ) {
        let Some(at) = self.maker[from.index()] else {
            return;
        };
        let draft = &mut self.drafts[at];
        change(draft);
        draft.nodes.push(node);
        draft.target = Some(to);
        self.maker[to.index()] = Some(at);
    }

    fn pointwise(&mut self, index: usize, node: &Node, x: TensorId, post: Post) {
        if self.open(x).is_none() {
            self.push(
                node.name.clone(),
                vec![],
                Kernel::Pointwise,
                vec![x],
                node.outputs[0],
            );
            self.maker[node.outputs[0].index()] = Some(self.drafts.len() - 1);
            self.extend(node.outputs[0], index, node.outputs[0], |d| {
                d.posts.push(DraftPost::Alone(post));
            });
            return;
        }
        self.extend(x, index, node.outputs[0], |d| {
            d.posts.push(DraftPost::Alone(post));
        });
    }

    /// A sum or product: into the epilogue of the operand made last, since the other one is there by then.
    fn combine(
        &mut self,
        index: usize,
        node: &Node,
        inputs: &[TensorId],
        post: fn(TensorId) -> DraftPost,
    ) {
        let out = node.outputs[0];
        if let [a, b] = *inputs
            && a != b
        {
            let (late, early) = if self.maker[a.index()] > self.maker[b.index()] {
                (a, b)
            } else {
                (b, a)
            };
            if self.open(late).is_some() {
                self.extend(late, index, out, |d| d.posts.push(post(early)));
                return;
            }
        }
        self.push(
            node.name.clone(),
            vec![index],
            Kernel::Pointwise,
            vec![inputs[0]],
            out,
        );
        if let Some(draft) = self.drafts.last_mut() {
            draft.posts.extend(inputs[1..].iter().map(|t| post(*t)));
        }
    }
}
