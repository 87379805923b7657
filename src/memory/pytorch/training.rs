//! One training step: a forward pass that keeps what the backward pass asks for, the loss, the backward pass with the
//! gradients alive at each moment, the weights' gradients that stay. Optimizer state is resident before the step.

use super::eager::{
    Block, COPIES, Event, GRADIENTS, Kind, Trace, count, helper_bytes, weight_bytes,
};
use super::frames::{Frames, is_weight};
use super::{called, tokens};
use crate::memory::budget::Optimizer;
use crate::memory::planner::optimizer_bytes;
use crate::memory::{Precision, parts};
use crate::network::{Graph, Node, Op, TensorId, TensorKind};

/// What changes the bytes of a training step.
#[derive(Clone, Copy, Debug)]
pub struct TrainingOptions {
    /// How values are stored.
    pub precision: Precision,
    /// What is kept per parameter.
    pub optimizer: Optimizer,
    /// Whether each stage keeps only its inputs and runs forward again.
    pub checkpointing: bool,
}

/// Runs one training step; `shapes` as from `network::shapes::infer`. Networks with one output get a cross-entropy
/// against an integer target of its size, others the mean of their outputs.
pub fn simulate_training(
    graph: &Graph,
    shapes: &[Vec<usize>],
    frames: &Frames,
    options: TrainingOptions,
) -> Trace {
    if let Some((graph, shapes)) = called::steps(graph, shapes) {
        return Training::new(&graph, &shapes, &Frames::new(&graph), options).run();
    }
    Training::new(graph, shapes, frames, options).run()
}

/// A gradient's storage and how many slices of it are still needed.
#[derive(Clone, Copy, Debug)]
struct Grad {
    id: usize,
    /// Index into `Training::refs`.
    store: usize,
}

pub(super) struct Training<'a> {
    pub(super) graph: &'a Graph,
    pub(super) shapes: &'a [Vec<usize>],
    frames: &'a Frames,
    pub(super) options: TrainingOptions,
    pub(super) trace: Trace,
    pub(super) kind: Vec<Kind>,
    /// Block and reference count of each activation storage, by root tensor.
    store: Vec<Option<usize>>,
    held: Vec<u32>,
    /// Storages (by root tensor) and helper blocks that each node saves for its backward pass.
    saved: Vec<(Vec<usize>, Vec<usize>)>,
    segment: Vec<usize>,
    grads: Vec<Option<Grad>>,
    refs: Vec<u32>,
    copied: Vec<bool>,
    graded: Vec<bool>,
    recomputed: usize,
}

impl<'a> Training<'a> {
    fn new(
        graph: &'a Graph,
        shapes: &'a [Vec<usize>],
        frames: &'a Frames,
        options: TrainingOptions,
    ) -> Self {
        let (weights, parameters) = weight_bytes(graph, options.precision);
        let n = graph.tensors.len();
        let mut steps: Vec<String> = graph.nodes.iter().map(|n| n.name.clone()).collect();
        steps.push("loss".to_owned());
        steps.extend(
            graph
                .nodes
                .iter()
                .rev()
                .map(|n| format!("{} backward", n.name)),
        );
        let full = match options.precision {
            Precision::Fp32 | Precision::Amp => parameters,
            Precision::Fp16 | Precision::Bf16 => parameters.saturating_mul(2),
        };
        let mut names: Vec<String> = Vec::new();
        let segment = graph
            .nodes
            .iter()
            .map(|node| {
                let name = parts::group(&node.name);
                names.iter().position(|n| *n == name).unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                })
            })
            .collect();
        let mut training = Self {
            graph,
            shapes,
            frames,
            options,
            trace: Trace {
                weights,
                parameters,
                steps,
                resident: optimizer_bytes(options.optimizer, full),
                ..Trace::default()
            },
            kind: vec![Kind::Full; n],
            store: vec![None; n],
            held: vec![0; n],
            saved: vec![(Vec::new(), Vec::new()); graph.nodes.len()],
            segment,
            grads: vec![None; n],
            refs: Vec::new(),
            copied: vec![false; n],
            graded: vec![false; n],
            recomputed: usize::MAX,
        };
        training.load();
        training
    }

    fn run(mut self) -> Trace {
        self.forward();
        self.loss();
        self.backward();
        self.trace
    }

    /// Input and target, on the card before the step.
    fn load(&mut self) {
        let kind = self.plain();
        self.trace.events.push(Event::Step(0));
        for t in &self.graph.inputs {
            self.kind[t.index()] = kind;
            let shape = self.shapes[t.index()].clone();
            let bytes = count(&shape).saturating_mul(kind.bytes());
            let name = self.graph.tensors[t.index()].name.clone();
            let id = self.trace.alloc(&name, &shape, bytes);
            self.trace.blocks[id].resident = true;
            self.trace.input = self.trace.input.saturating_add(bytes);
            self.store[t.index()] = Some(id);
            self.held[t.index()] = 1;
        }
        if let [output] = self.graph.outputs.as_slice() {
            let shape = &self.shapes[output.index()];
            let channels = shape.get(1).map_or(1, |c| *c as u64).max(1);
            let bytes = count(shape) / channels * 8;
            let _kept = self.trace.alloc("target", &[], bytes);
        }
    }

    const fn plain(&self) -> Kind {
        match self.options.precision {
            Precision::Fp32 | Precision::Amp => Kind::Full,
            Precision::Fp16 | Precision::Bf16 => Kind::Half,
        }
    }

    pub(super) fn root(&self, t: TensorId) -> usize {
        self.frames.storage[t.index()].index()
    }

    fn bytes(&self, t: TensorId) -> u64 {
        count(&self.shapes[t.index()]).saturating_mul(self.kind[t.index()].bytes())
    }

    /// Takes one more reference to an activation's storage.
    fn keep(&mut self, root: usize) {
        self.held[root] += 1;
    }

    fn release(&mut self, root: usize) {
        self.held[root] = self.held[root].saturating_sub(1);
        if self.held[root] == 0
            && let Some(id) = self.store[root].take()
        {
            self.trace.free(id);
        }
    }

    fn forward(&mut self) {
        let graph = self.graph;
        let mut dying: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len() + 2];
        for (step, node) in graph.nodes.iter().enumerate() {
            self.trace.events.push(Event::Step(step));
            let mut helpers = Vec::new();
            let kind = self.cast(node, &mut helpers);
            for t in &node.outputs {
                self.kind[t.index()] = kind;
                if node.inplace {
                    continue;
                }
                let bytes = self.bytes(*t);
                let shape = self.shapes[t.index()].clone();
                let name = graph.tensors[t.index()].name.clone();
                let id = self.trace.alloc(&name, &shape, bytes);
                self.store[t.index()] = Some(id);
                self.keep(t.index());
                let last = self.frames.last[t.index()].max(step);
                if let Some(slot) = dying.get_mut(last) {
                    slot.push(t.index());
                }
            }
            self.save(step, node, helpers);
            for root in std::mem::take(&mut dying[step]) {
                self.release(root);
            }
        }
        // What frames held to the end of the forward functions goes when they return.
        for root in dying.into_iter().flatten() {
            let is_output = graph.outputs.iter().any(|t| self.root(*t) == root);
            if !is_output {
                self.release(root);
            }
        }
    }

    /// Copies that autocast makes; a copied input is what a convolution saves.
    fn cast(&mut self, node: &Node, helpers: &mut Vec<usize>) -> Kind {
        if tokens::kind(node).is_some() {
            return self.cast_tokens(node, helpers);
        }
        if self.options.precision != Precision::Amp {
            return self.plain();
        }
        let widest = node
            .inputs
            .iter()
            .filter(|t| !is_weight(self.graph, **t))
            .map(|t| self.kind[t.index()])
            .fold(Kind::Half, |a, b| if a == Kind::Full { a } else { b });
        match node.op {
            Op::Conv { .. } | Op::ConvTranspose { .. } | Op::PRelu => {
                for t in node.inputs.clone() {
                    let bytes = count(&self.shapes[t.index()]).saturating_mul(2);
                    if is_weight(self.graph, t) {
                        self.copy_weight(t);
                    } else if self.kind[t.index()] == Kind::Full {
                        helpers.push(self.trace.alloc("autocast copy", &[], bytes));
                    }
                }
                Kind::Half
            }
            Op::GroupNorm { .. } | Op::Softmax => {
                for t in node.inputs.clone() {
                    if !is_weight(self.graph, t) && self.kind[t.index()] == Kind::Half {
                        let bytes = count(&self.shapes[t.index()]).saturating_mul(4);
                        helpers.push(self.trace.alloc("autocast copy", &[], bytes));
                    }
                }
                Kind::Full
            }
            _ => widest,
        }
    }

    /// Autocast keeps a copy of each weight until the region ends.
    pub(super) fn copy_weight(&mut self, t: TensorId) {
        if std::mem::replace(&mut self.copied[t.index()], true) {
            return;
        }
        let bytes = count(&self.shapes[t.index()]).saturating_mul(2);
        let id = self.trace.alloc(COPIES, &[], bytes);
        self.trace.blocks[id].resident = true;
        self.trace.weight_copies += bytes;
    }

    /// What the backward pass of a node asks for. Copies made by autocast take the place of the input.
    fn save(&mut self, step: usize, node: &Node, casts: Vec<usize>) {
        if tokens::kind(node).is_some() {
            let (roots, helpers) = self.save_tokens(node, casts);
            return self.store_saved(step, roots, helpers);
        }
        let mut roots = Vec::new();
        let mut helpers = Vec::new();
        let x = node.inputs.first().copied();
        let y = node.outputs.first().copied();
        match &node.op {
            Op::Conv { .. }
            | Op::ConvTranspose { .. }
            | Op::GroupNorm { .. }
            | Op::PRelu
            | Op::Softmax
                if !casts.is_empty() =>
            {
                helpers.extend(casts.iter().copied());
            }
            Op::Conv { .. }
            | Op::ConvTranspose { .. }
            | Op::BatchNorm { .. }
            | Op::InstanceNorm { .. }
            | Op::GroupNorm { .. }
            | Op::PRelu
            | Op::MaxPool { .. }
            | Op::AvgPool { .. }
            | Op::Pad { .. } => roots.extend(x.map(|t| self.root(t))),
            Op::Activation(_) | Op::Softmax => {
                roots.extend(y.map(|t| self.root(t)));
            }
            Op::Mul | Op::Tensor(_) | Op::Other { .. } => {
                for t in &node.inputs {
                    if !is_weight(self.graph, *t) {
                        roots.push(self.root(*t));
                    }
                }
                if matches!(node.op, Op::Tensor(_) | Op::Other { .. }) {
                    roots.extend(node.outputs.iter().map(|t| self.root(*t)));
                }
            }
            _ => {}
        }
        let beside = helper_bytes(node, self.shapes, Kind::Full);
        if beside > 0 {
            // Of a norm's four small tables the repeated shift is dropped at once.
            let kept = match node.op {
                Op::InstanceNorm { .. } if node.inputs.len() > 1 => beside / 4 * 3,
                _ => beside,
            };
            helpers.push(self.trace.alloc("statistics and indices", &[], kept));
        }
        if !casts.is_empty() && helpers.iter().all(|h| !casts.contains(h)) {
            for id in casts {
                self.trace.free(id);
            }
        }
        self.store_saved(step, roots, helpers);
    }

    fn store_saved(&mut self, step: usize, mut roots: Vec<usize>, mut helpers: Vec<usize>) {
        if self.options.checkpointing {
            // Only what comes from another stage is kept; the rest is made again.
            for id in helpers.drain(..) {
                self.trace.free(id);
            }
            let stage = self.segment[step];
            roots.retain(|root| self.frames.maker[*root].is_none_or(|m| self.segment[m] != stage));
        }
        for root in &roots {
            self.keep(*root);
        }
        self.saved[step] = (roots, helpers);
    }

    fn loss(&mut self) {
        let graph = self.graph;
        self.trace.events.push(Event::Step(graph.nodes.len()));
        let _scalars = self.trace.alloc("loss", &[], 8);
        let [output] = graph.outputs.as_slice() else {
            for t in &graph.outputs {
                let bytes = self.bytes(*t);
                self.give(*t, bytes, "loss");
            }
            return;
        };
        let full = count(&self.shapes[output.index()]).saturating_mul(4);
        let half = self.kind[output.index()] == Kind::Half;
        let cast = half.then(|| self.trace.alloc("logits in fp32", &[], full));
        let log_softmax = self.trace.alloc("log softmax", &[], full);
        if let Some(id) = cast {
            self.trace.free(id);
        }
        let nll = self.trace.alloc("loss gradient", &[], full);
        let softmax_grad = self.trace.alloc("log softmax gradient", &[], full);
        self.trace.free(nll);
        self.trace.free(log_softmax);
        if half {
            let bytes = self.bytes(*output);
            self.give(*output, bytes, "gradient of logits");
            self.trace.free(softmax_grad);
        } else {
            self.take_over(*output, softmax_grad);
        }
    }

    fn take_over(&mut self, t: TensorId, id: usize) {
        self.refs.push(1);
        let grad = Grad {
            id,
            store: self.refs.len() - 1,
        };
        self.pass(t, grad);
    }

    /// A fresh gradient for a tensor, added to what has arrived before.
    fn give(&mut self, t: TensorId, bytes: u64, name: &str) {
        let id = self.trace.alloc(name, &[], bytes);
        self.take_over(t, id);
    }

    /// Hands a gradient (already counted in `refs`) to a tensor.
    fn pass(&mut self, t: TensorId, grad: Grad) {
        match self.grads[t.index()] {
            None => self.grads[t.index()] = Some(grad),
            Some(old) if self.refs[old.store] == 1 => self.drop_grad(grad),
            Some(old) if self.refs[grad.store] == 1 => {
                self.grads[t.index()] = Some(grad);
                self.drop_grad(old);
            }
            Some(old) => {
                let id = self.trace.alloc("sum of gradients", &[], self.bytes(t));
                self.refs.push(1);
                self.grads[t.index()] = Some(Grad {
                    id,
                    store: self.refs.len() - 1,
                });
                self.drop_grad(old);
                self.drop_grad(grad);
            }
        }
    }

    fn drop_grad(&mut self, grad: Grad) {
        self.refs[grad.store] -= 1;
        if self.refs[grad.store] == 0 {
            self.trace.free(grad.id);
        }
    }

    fn backward(&mut self) {
        let graph = self.graph;
        let n = graph.nodes.len();
        for (i, (step, node)) in graph.nodes.iter().enumerate().rev().enumerate() {
            self.trace.events.push(Event::Step(n + 1 + i));
            if self.options.checkpointing {
                self.recompute(step);
            }
            let grads: Vec<Grad> = node
                .outputs
                .iter()
                .filter_map(|t| self.grads[t.index()].take())
                .collect();
            if let Some(grad) = grads.first().copied() {
                self.node_backward(node, grad);
                for extra in grads.iter().skip(1) {
                    self.drop_grad(*extra);
                }
            }
            let (roots, helpers) = std::mem::take(&mut self.saved[step]);
            for root in roots {
                self.release(root);
            }
            for id in helpers {
                self.trace.free(id);
            }
        }
    }

    /// At the first backward step of a stage its forward pass runs again and keeps everything.
    fn recompute(&mut self, step: usize) {
        let stage = self.segment[step];
        if self.recomputed == stage {
            return;
        }
        self.recomputed = stage;
        for s in (0..=step).rev() {
            if self.segment[s] != stage {
                break;
            }
            let node = &self.graph.nodes[s];
            let bytes = match &node.op {
                Op::Conv { .. } | Op::ConvTranspose { .. } | Op::Add | Op::Concat => {
                    node.outputs.first().map_or(0, |t| self.bytes(*t))
                }
                _ if node.inplace => 0,
                _ => node.outputs.first().map_or(0, |t| self.bytes(*t)),
            };
            if bytes > 0 {
                let id = self.trace.alloc("recomputed", &[], bytes);
                self.saved[s].1.push(id);
            }
        }
    }

    fn needs_grad(&self, t: TensorId) -> bool {
        !self.graph.inputs.contains(&t)
    }

    fn node_backward(&mut self, node: &Node, grad: Grad) {
        let Some(x) = node.inputs.first().copied() else {
            return self.drop_grad(grad);
        };
        let activations: Vec<TensorId> = node
            .inputs
            .iter()
            .copied()
            .filter(|t| !is_weight(self.graph, *t))
            .collect();
        let view = node.inplace
            && self.frames.maker[self.root(x)]
                .is_some_and(|m| matches!(self.graph.nodes[m].op, Op::InstanceNorm { .. }));
        match &node.op {
            Op::Other { .. } if tokens::is_constant(node) => {
                self.weight_grads(node);
                self.drop_grad(grad);
            }
            Op::Other { .. }
                if tokens::kind(node).is_some() && (node.inplace || node.op.kind() == "Add") =>
            {
                self.weight_grads(node);
                self.refs[grad.store] -= 1;
                self.share(&activations, grad);
            }
            Op::Add if view => {
                // In place on a view: the gradient is copied into one of the base, a clone goes to the operand.
                self.give(x, self.bytes(x), "gradient of base");
                let clone = self.trace.alloc("gradient slice", &[], self.bytes(x));
                self.drop_grad(grad);
                self.refs.push(0);
                let shared = Grad {
                    id: clone,
                    store: self.refs.len() - 1,
                };
                self.share(&activations[1..], shared);
            }
            Op::Add | Op::Concat => {
                self.refs[grad.store] -= 1;
                self.share(&activations, grad);
            }
            Op::Activation(_) if view => {
                let base = self.trace.alloc("gradient of base", &[], self.bytes(x));
                let clone = self.trace.alloc("gradient slice", &[], self.bytes(x));
                let made = self.trace.alloc("gradient", &[], self.bytes(x));
                self.trace.free(clone);
                self.trace.free(made);
                self.drop_grad(grad);
                self.take_over(x, base);
            }
            _ => {
                self.weight_grads(node);
                let wide = matches!(node.op, Op::PRelu)
                    .then(|| self.trace.alloc("gradient of slopes", &[], self.bytes(x)));
                for t in activations {
                    if self.needs_grad(t) {
                        let bytes = self.bytes(t);
                        self.give(t, bytes, "gradient");
                    }
                }
                if let Some(id) = wide {
                    self.trace.free(id);
                }
                self.drop_grad(grad);
            }
        }
    }

    /// Passes one storage to several tensors, none of which copies it.
    fn share(&mut self, to: &[TensorId], grad: Grad) {
        let to: Vec<TensorId> = to.iter().copied().filter(|t| self.needs_grad(*t)).collect();
        let n = u32::try_from(to.len()).unwrap_or(u32::MAX);
        self.refs[grad.store] += n;
        if n == 0 {
            self.refs[grad.store] += 1;
            return self.drop_grad(grad);
        }
        for t in to {
            self.pass(t, grad);
        }
    }

    /// Gradients of a node's parameters: fp32, they stay until the optimizer has stepped.
    fn weight_grads(&mut self, node: &Node) {
        for w in &node.inputs {
            let TensorKind::Weight {
                shape,
                is_parameter: true,
            } = &self.graph.tensors[w.index()].kind
            else {
                continue;
            };
            if std::mem::replace(&mut self.graded[w.index()], true) {
                continue;
            }
            let each = self.plain().bytes();
            let bytes = count(shape).saturating_mul(each);
            let half = (self.options.precision == Precision::Amp)
                .then(|| self.trace.alloc("half gradient", &[], bytes / 2));
            self.trace.events.push(Event::Alloc {
                id: self.trace.blocks.len(),
                bytes,
            });
            self.trace.blocks.push(Block {
                name: GRADIENTS.to_owned(),
                shape: Vec::new(),
                bytes,
                resident: true,
            });
            if let Some(id) = half {
                self.trace.free(id);
            }
        }
    }
}
