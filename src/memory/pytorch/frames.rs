//! Who holds what: a module call holds its arguments until it returns, and a few well-known forward functions
//! hold local variables longer than their last use. Computed once per graph, whatever the roi.

use super::tokens;
use crate::network::{Graph, Op, TensorId, TensorKind};

/// The last step at which each tensor of a graph is held by a use or a frame, and which storage it lies in.
#[derive(Clone, Debug)]
pub struct Frames {
    /// Last node that needs or holds the tensor's storage; nodes + 1 for what lives to the end.
    pub(super) last: Vec<usize>,
    /// The tensor in whose storage each tensor lies (in-place operations share one).
    pub(super) storage: Vec<TensorId>,
    /// The node that makes each tensor.
    pub(super) maker: Vec<Option<usize>>,
}

/// The module path of a node without its last name and without a repeat mark.
pub(super) fn path(name: &str) -> Vec<&str> {
    let name = name.split('#').next().unwrap_or(name);
    let mut parts: Vec<&str> = name.split(['.', '/']).filter(|p| !p.is_empty()).collect();
    parts.pop();
    parts
}

impl Frames {
    /// Lifetimes of a graph's tensors under PyTorch without gradients.
    pub fn new(graph: &Graph) -> Self {
        let mut frames = Self {
            last: vec![0; graph.tensors.len()],
            storage: (0..).map(TensorId).take(graph.tensors.len()).collect(),
            maker: vec![None; graph.tensors.len()],
        };
        for (step, node) in graph.nodes.iter().enumerate() {
            if let (true, Some(x), Some(y)) =
                (node.inplace, node.inputs.first(), node.outputs.first())
            {
                frames.storage[y.index()] = frames.storage[x.index()];
            }
            for t in &node.outputs {
                frames.maker[t.index()] = Some(step);
                frames.hold(*t, step);
            }
            for t in &node.inputs {
                frames.hold(*t, step);
            }
        }
        let end = graph.nodes.len() + 1;
        for t in graph.outputs.iter().chain(&graph.inputs) {
            frames.hold(*t, end);
        }
        frames.hold_arguments(graph);
        frames.hold_locals(graph);
        frames
    }

    fn hold(&mut self, t: TensorId, until: usize) {
        let storage = self.storage[t.index()].index();
        self.last[storage] = self.last[storage].max(until);
    }

    /// A module call holds its arguments until it returns.
    fn hold_arguments(&mut self, graph: &Graph) {
        let paths: Vec<Vec<&str>> = graph.nodes.iter().map(|n| path(&n.name)).collect();
        let deepest = paths.iter().map(Vec::len).max().unwrap_or(0);
        for depth in 1..=deepest {
            let mut start = 0;
            while start < paths.len() {
                let Some(scope) = paths[start].get(..depth) else {
                    start += 1;
                    continue;
                };
                let mut end = start;
                while paths.get(end + 1).and_then(|p| p.get(..depth)) == Some(scope) {
                    end += 1;
                }
                self.hold_from_outside(graph, start, end);
                start = end + 1;
            }
        }
    }

    fn hold_from_outside(&mut self, graph: &Graph, start: usize, end: usize) {
        for node in &graph.nodes[start..=end] {
            for t in &node.inputs {
                let outside = self.maker[t.index()].is_some_and(|m| m < start);
                if outside {
                    self.hold(*t, end);
                }
            }
        }
    }

    /// Local variables of forward functions that live on after their last use.
    fn hold_locals(&mut self, graph: &Graph) {
        let nodes = &graph.nodes;
        for (step, node) in nodes.iter().enumerate() {
            let inside = |word: &str| node.name.split(['.', '/']).any(|p| p.starts_with(word));
            let Some(x) = node.inputs.first().copied() else {
                continue;
            };
            if inside("fpn") {
                // inner_lateral, inner_top_down and last_inner stay until they are assigned again, or fpn returns.
                let stays = match &node.op {
                    Op::UpsampleNearest { .. } | Op::Add => true,
                    Op::Conv { .. } => node.name.contains("inner_blocks"),
                    _ => false,
                };
                if stays {
                    let until = Self::next_like(graph, step, "fpn").max(next_add(graph, step));
                    self.hold(node.outputs[0], until);
                }
            } else if inside("transpconvs") {
                // nnU-Net's decoder keeps `lres_input` while the stage of the same index runs.
                let stage = node.name.replace("transpconvs", "stages");
                let stage = stage.split('#').next().unwrap_or_default();
                let until = last_in_scope(graph, step, stage);
                self.hold(x, until);
            } else if inside("upcat_") {
                // MONAI's UpCat keeps `x_0`, what was up-sampled, to the end.
                if matches!(
                    node.op,
                    Op::ConvTranspose { .. }
                        | Op::UpsampleLinear { .. }
                        | Op::UpsampleNearest { .. }
                ) {
                    let scope = node.name.split('.').next().unwrap_or_default();
                    let until = last_in_scope(graph, step, scope);
                    self.hold(node.outputs[0], until);
                }
            } else if inside("down_layers") {
                // SegResNet returns the list of all its levels to the caller, who keeps it.
                let level: Vec<&str> = node.name.split('.').take(2).collect();
                let level = level.join(".");
                if last_in_scope(graph, step, &level) == step {
                    self.hold(node.outputs[0], nodes.len());
                }
            }
        }
        for (step, until) in tokens::locals(graph) {
            if let Some(t) = nodes[step].outputs.first() {
                self.hold(*t, until);
            }
        }
        self.hold_levels(graph);
        self.hold_unknown_joins(graph);
    }

    /// MONAI's `BasicUNet` names every level `x0`, `u1`... in one forward function: all live until it returns.
    fn hold_levels(&mut self, graph: &Graph) {
        let level = |i: usize| graph.nodes.get(i).and_then(|n| n.name.split('.').next());
        let is_basic = graph.nodes.iter().any(|n| n.name.starts_with("upcat_"));
        for (step, node) in graph.nodes.iter().enumerate() {
            if is_basic && level(step) != level(step + 1) {
                self.hold(node.outputs[0], graph.nodes.len());
            }
        }
    }

    /// The step at which the same kind of operation in the same scope assigns the variable anew.
    fn next_like(graph: &Graph, step: usize, scope: &str) -> usize {
        let kind = graph.nodes[step].op.kind();
        let inner = |name: &str| name.contains("inner_blocks");
        let mut until = step;
        for (i, node) in graph.nodes.iter().enumerate().skip(step + 1) {
            if !node.name.split(['.', '/']).any(|p| p.starts_with(scope)) {
                break;
            }
            until = i;
            if node.op.kind() == kind && inner(&node.name) == inner(&graph.nodes[step].name) {
                break;
            }
        }
        until
    }

    /// In networks without known module paths, sums and joins may keep their operands as long as the scope runs.
    fn hold_unknown_joins(&mut self, graph: &Graph) {
        let known = graph
            .nodes
            .iter()
            .any(|n| n.name.contains('.') && !n.name.contains('/'));
        if known {
            return;
        }
        for (step, node) in graph.nodes.iter().enumerate() {
            if !matches!(node.op, Op::Add | Op::Concat | Op::Mul) || node.inplace {
                continue;
            }
            let scope = path(&node.name);
            let mut until = step;
            while let Some(next) = graph.nodes.get(until + 1) {
                let inside = path(&next.name);
                if scope.is_empty() || inside.get(..scope.len()) != Some(scope.as_slice()) {
                    break;
                }
                until += 1;
            }
            for t in node.inputs.clone() {
                if !is_weight(graph, t) {
                    self.hold(t, until);
                }
            }
        }
    }
}

/// The next sum after a lateral convolution: until then it may be `last_inner`.
fn next_add(graph: &Graph, step: usize) -> usize {
    let lateral = matches!(graph.nodes[step].op, Op::Conv { .. });
    let sum = |n: &&crate::network::Node| lateral && matches!(n.op, Op::Add);
    let ahead = graph
        .nodes
        .iter()
        .skip(step)
        .take_while(|n| n.name.contains("fpn"));
    ahead
        .enumerate()
        .find(|(_, n)| sum(n))
        .map_or(step, |(i, _)| step + i)
}

/// The last step at or after `step` of the unbroken run whose names start with `scope`, skipping what lies before it.
fn last_in_scope(graph: &Graph, step: usize, scope: &str) -> usize {
    let inside = |name: &str| {
        name.strip_prefix(scope)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '#', '/']))
    };
    let mut until = step;
    let mut entered = false;
    for (i, node) in graph.nodes.iter().enumerate().skip(step) {
        if inside(&node.name) {
            entered = true;
            until = i;
        } else if entered {
            break;
        }
    }
    until
}

pub(super) fn is_weight(graph: &Graph, t: TensorId) -> bool {
    matches!(graph.tensors[t.index()].kind, TensorKind::Weight { .. })
}
