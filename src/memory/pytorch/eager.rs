//! One forward pass without gradients, as a list of allocations and releases in the order PyTorch makes them.

use super::frames::{Frames, is_weight};
use super::{called, tokens};
use crate::memory::budget::LiveTensor;
use crate::memory::{Precision, parts};
use crate::network::{Graph, Node, Op, TensorId};
use crate::units::Bytes;

/// What changes the bytes of a pass.
#[derive(Clone, Copy, Debug)]
pub struct EagerOptions {
    /// How values are stored.
    pub precision: Precision,
}

/// One thing that happens to a block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The node of this index begins.
    Step(usize),
    /// A block is asked for.
    Alloc {
        /// Which block.
        id: usize,
        /// Its bytes, unrounded.
        bytes: u64,
    },
    /// A block is given back.
    Free {
        /// Which block.
        id: usize,
    },
}

/// What a block holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Name of the tensor, or of the helper.
    pub name: String,
    /// Its shape; empty for helpers.
    pub shape: Vec<usize>,
    /// Its bytes.
    pub bytes: u64,
    /// Whether it stays for good (weights' copies, the input).
    pub resident: bool,
}

/// A pass as a list of events over blocks.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// What happens, in order.
    pub events: Vec<Event>,
    /// The blocks by id.
    pub blocks: Vec<Block>,
    /// Bytes of parameters and buffers, there before the first event.
    pub weights: u64,
    /// Parameters only.
    pub parameters: u64,
    /// Bytes of the input, there before the first event (block 0 and following).
    pub input: u64,
    /// Autocast's copies of weights.
    pub weight_copies: u64,
    /// Names of the steps.
    pub steps: Vec<String>,
    /// Bytes that live throughout beside weights: gradients and optimizer state made before the pass.
    pub resident: u64,
}

/// Live bytes of a trace, step by step.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// The most bytes alive at any moment of each step; weights, input and residents counted.
    pub steps: Vec<u64>,
    /// The peak.
    pub peak: u64,
    /// The step of the peak.
    pub peak_step: usize,
    /// Weight copies alive at the peak.
    pub copies_at_peak: u64,
    /// Gradients of weights alive at the peak.
    pub gradients_at_peak: u64,
}

impl Trace {
    pub(super) fn block(&mut self, name: &str, shape: &[usize], bytes: u64) -> usize {
        self.blocks.push(Block {
            name: name.to_owned(),
            shape: shape.to_vec(),
            bytes,
            resident: false,
        });
        self.blocks.len() - 1
    }

    pub(super) fn alloc(&mut self, name: &str, shape: &[usize], bytes: u64) -> usize {
        let id = self.block(name, shape, bytes);
        self.events.push(Event::Alloc { id, bytes });
        id
    }

    pub(super) fn free(&mut self, id: usize) {
        self.events.push(Event::Free { id });
    }

    /// Live bytes over the steps.
    pub fn live(&self) -> Live {
        let mut now = self.weights + self.resident;
        let mut live = Live::default();
        let (mut copies, mut gradients) = (0, 0);
        live.steps = vec![0; self.steps.len()];
        let mut step = 0;
        for event in &self.events {
            match *event {
                Event::Step(s) => step = s,
                Event::Alloc { id, bytes } => {
                    now = now.saturating_add(bytes);
                    match self.blocks[id].name.as_str() {
                        COPIES => copies += bytes,
                        GRADIENTS => gradients += bytes,
                        _ => {}
                    }
                }
                Event::Free { id } => now = now.saturating_sub(self.blocks[id].bytes),
            }
            if let Some(most) = live.steps.get_mut(step) {
                *most = (*most).max(now);
            }
            if now > live.peak {
                live.peak = now;
                live.peak_step = step;
                live.copies_at_peak = copies;
                live.gradients_at_peak = gradients;
            }
        }
        live
    }

    /// Blocks with their first and last step, for a plot; what lives throughout comes first.
    pub fn tensors(&self) -> Vec<LiveTensor> {
        let end = self.steps.len().saturating_sub(1);
        let whole = |name: &str, bytes: u64| LiveTensor {
            name: name.to_owned(),
            shape: Vec::new(),
            bytes: Bytes(bytes),
            born: 0,
            dies: end,
            group: "weights".to_owned(),
        };
        let mut tensors = vec![whole("weights", self.weights)];
        if self.resident > 0 {
            tensors.push(whole("optimizer state", self.resident));
        }
        let mut place: Vec<Option<usize>> = vec![None; self.blocks.len()];
        let mut step = 0;
        for event in &self.events {
            match *event {
                Event::Step(s) => step = s,
                Event::Alloc { id, bytes } => {
                    let block = &self.blocks[id];
                    place[id] = Some(tensors.len());
                    let group = match block.name.as_str() {
                        COPIES => "weights".to_owned(),
                        _ if block.resident => "input".to_owned(),
                        _ if block.shape.is_empty() => "helpers".to_owned(),
                        name => parts::group(name),
                    };
                    tensors.push(LiveTensor {
                        name: block.name.clone(),
                        shape: block.shape.clone(),
                        bytes: Bytes(bytes),
                        born: step,
                        dies: end,
                        group,
                    });
                }
                Event::Free { id } => {
                    if let Some(t) = place[id].and_then(|i| tensors.get_mut(i)) {
                        t.dies = step;
                    }
                }
            }
        }
        tensors
    }
}

/// Name of the blocks that hold autocast's copies.
pub(super) const COPIES: &str = "autocast weight copies";
/// Name of the blocks that hold gradients of weights.
pub(super) const GRADIENTS: &str = "weight gradients";

/// Bytes of one value of a tensor as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Full,
    Half,
}

impl Kind {
    pub(super) const fn bytes(self) -> u64 {
        match self {
            Self::Full => 4,
            Self::Half => 2,
        }
    }
}

pub(super) fn count(shape: &[usize]) -> u64 {
    shape.iter().fold(1u64, |n, d| n.saturating_mul(*d as u64))
}

/// Runs the graph forward without gradients; `shapes` as from `network::shapes::infer`.
pub fn simulate(graph: &Graph, shapes: &[Vec<usize>], frames: &Frames, o: EagerOptions) -> Trace {
    if let Some((graph, shapes)) = called::steps(graph, shapes) {
        let frames = Frames::new(&graph);
        return Pass::new(&graph, &shapes, &frames, o.precision).run();
    }
    Pass::new(graph, shapes, frames, o.precision).run()
}

struct Pass<'a> {
    graph: &'a Graph,
    shapes: &'a [Vec<usize>],
    frames: &'a Frames,
    precision: Precision,
    trace: Trace,
    kind: Vec<Kind>,
    block_of: Vec<Option<usize>>,
    copied: Vec<bool>,
    /// Blocks to free after each step.
    dying: Vec<Vec<usize>>,
}

/// Bytes of parameters and buffers, of parameters alone; `num_batches_tracked` of each batch norm is 8 bytes.
pub(super) fn weight_bytes(graph: &Graph, precision: Precision) -> (u64, u64) {
    use crate::network::TensorKind;
    let each = match precision {
        Precision::Fp32 | Precision::Amp => 4,
        Precision::Fp16 | Precision::Bf16 => 2,
    };
    let (mut all, mut parameters) = (0u64, 0u64);
    for t in &graph.tensors {
        if let TensorKind::Weight {
            shape,
            is_parameter,
        } = &t.kind
        {
            let bytes = count(shape).saturating_mul(each);
            all = all.saturating_add(bytes);
            if *is_parameter {
                parameters = parameters.saturating_add(bytes);
            } else if t.name.ends_with("running_mean") {
                all = all.saturating_add(8);
            } else if t.name.ends_with("relative_position_index") {
                // Whole numbers of 8 bytes in every precision.
                all = all.saturating_add(count(shape).saturating_mul(8 - each));
            }
        }
    }
    (all, parameters)
}

impl<'a> Pass<'a> {
    fn new(
        graph: &'a Graph,
        shapes: &'a [Vec<usize>],
        frames: &'a Frames,
        precision: Precision,
    ) -> Self {
        let (weights, parameters) = weight_bytes(graph, precision);
        let mut pass = Self {
            graph,
            shapes,
            frames,
            precision,
            trace: Trace {
                weights,
                parameters,
                steps: graph.nodes.iter().map(|n| n.name.clone()).collect(),
                ..Trace::default()
            },
            kind: vec![Kind::Full; graph.tensors.len()],
            block_of: vec![None; graph.tensors.len()],
            copied: vec![false; graph.tensors.len()],
            dying: vec![Vec::new(); graph.nodes.len() + 2],
        };
        let kind = pass.plain_kind();
        pass.trace.events.push(Event::Step(0));
        for t in &graph.inputs {
            pass.kind[t.index()] = kind;
            let shape = &shapes[t.index()];
            let bytes = count(shape).saturating_mul(kind.bytes());
            let id = pass
                .trace
                .alloc(&graph.tensors[t.index()].name, shape, bytes);
            pass.trace.blocks[id].resident = true;
            pass.trace.input = pass.trace.input.saturating_add(bytes);
            pass.block_of[t.index()] = Some(id);
        }
        pass
    }

    const fn plain_kind(&self) -> Kind {
        match self.precision {
            Precision::Fp32 | Precision::Amp => Kind::Full,
            Precision::Fp16 | Precision::Bf16 => Kind::Half,
        }
    }

    fn run(mut self) -> Trace {
        for (step, node) in self.graph.nodes.iter().enumerate() {
            self.trace.events.push(Event::Step(step));
            self.node(step, node);
            for id in std::mem::take(&mut self.dying[step]) {
                self.trace.free(id);
            }
        }
        self.trace
    }

    fn node(&mut self, step: usize, node: &Node) {
        let mut helpers = Vec::new();
        let kind = self.cast(node, &mut helpers);
        for t in &node.outputs {
            self.kind[t.index()] = kind;
            if node.inplace {
                continue;
            }
            let shape = &self.shapes[t.index()];
            let bytes = count(shape).saturating_mul(kind.bytes());
            let id = self
                .trace
                .alloc(&self.graph.tensors[t.index()].name, shape, bytes);
            self.block_of[t.index()] = Some(id);
            let last = self.frames.last[t.index()].max(step);
            if let Some(slot) = self.dying.get_mut(last) {
                slot.push(id);
            }
        }
        let (dropped, kept) = tokens::beside(node, self.shapes, kind);
        let beside = helper_bytes(node, self.shapes, self.plain_kind()) + dropped + kept;
        if beside > 0 {
            helpers.push(self.trace.alloc("statistics and indices", &[], beside));
        }
        for id in helpers.into_iter().rev() {
            self.trace.free(id);
        }
    }

    /// What autocast does before the operation; the kind of what it makes.
    fn cast(&mut self, node: &Node, helpers: &mut Vec<usize>) -> Kind {
        if tokens::kind(node).is_some() {
            return self.cast_tokens(node, helpers);
        }
        if self.precision != Precision::Amp {
            return self.plain_kind();
        }
        let inputs: Vec<TensorId> = node.inputs.clone();
        let activations: Vec<TensorId> = inputs
            .iter()
            .copied()
            .filter(|t| !is_weight(self.graph, *t))
            .collect();
        let widest = if activations
            .iter()
            .all(|t| self.kind[t.index()] == Kind::Half)
        {
            Kind::Half
        } else {
            Kind::Full
        };
        match node.op {
            Op::Conv { .. } | Op::ConvTranspose { .. } | Op::PRelu => {
                for t in inputs {
                    if is_weight(self.graph, t) {
                        self.copy_weight(t);
                    } else if self.kind[t.index()] == Kind::Full {
                        helpers.push(self.cast_block(t, Kind::Half));
                    }
                }
                Kind::Half
            }
            Op::GroupNorm { .. }
            | Op::UpsampleNearest { .. }
            | Op::UpsampleLinear { .. }
            | Op::Softmax => {
                for t in activations {
                    if self.kind[t.index()] == Kind::Half {
                        helpers.push(self.cast_block(t, Kind::Full));
                    }
                }
                Kind::Full
            }
            Op::Concat => {
                for t in activations {
                    if self.kind[t.index()] != widest {
                        helpers.push(self.cast_block(t, widest));
                    }
                }
                widest
            }
            _ => widest,
        }
    }

    fn cast_tokens(&mut self, node: &Node, helpers: &mut Vec<usize>) -> Kind {
        let mut widest = Kind::Half;
        for t in &node.inputs {
            if !is_weight(self.graph, *t) && self.kind[t.index()] == Kind::Full {
                widest = Kind::Full;
            }
        }
        let (to, made) = tokens::computes_in(self.graph, node, self.precision, widest);
        for t in &node.inputs {
            if is_weight(self.graph, *t) {
                if self.precision == Precision::Amp && tokens::copies_weights(node) {
                    self.copy_weight(*t);
                }
            } else if let Some(to) = to
                && self.kind[t.index()] != to
            {
                helpers.push(self.cast_block(*t, to));
            }
        }
        made
    }

    fn cast_block(&mut self, t: TensorId, to: Kind) -> usize {
        let bytes = count(&self.shapes[t.index()]).saturating_mul(to.bytes());
        self.trace.alloc("autocast copy", &[], bytes)
    }

    /// Autocast keeps a copy of each weight until the region ends.
    fn copy_weight(&mut self, t: TensorId) {
        if std::mem::replace(&mut self.copied[t.index()], true) {
            return;
        }
        let bytes = count(&self.shapes[t.index()]).saturating_mul(2);
        let id = self.trace.alloc(COPIES, &[], bytes);
        self.trace.blocks[id].resident = true;
        self.trace.weight_copies = self.trace.weight_copies.saturating_add(bytes);
    }
}

/// Bytes that an operation makes beside its output and drops at once: pooling indices, norm statistics.
pub(super) fn helper_bytes(node: &Node, shapes: &[Vec<usize>], weights: Kind) -> u64 {
    let Some(shape) = node.inputs.first().map(|t| &shapes[t.index()]) else {
        return 0;
    };
    let first = |i: usize| shape.get(i).map_or(1, |d| *d as u64);
    match &node.op {
        Op::MaxPool { .. } => node
            .outputs
            .first()
            .map_or(0, |t| count(&shapes[t.index()]).saturating_mul(8)),
        // Scale and shift repeated per image, saved mean and inverse deviation.
        Op::InstanceNorm { .. } => {
            let affine = if node.inputs.len() > 1 { 2 } else { 0 };
            first(0) * first(1) * (2 * 4 + affine * weights.bytes())
        }
        Op::GroupNorm { groups, .. } => first(0) * (*groups as u64) * 8,
        _ => 0,
    }
}
