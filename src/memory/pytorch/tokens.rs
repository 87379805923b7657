//! The operations of MONAI's UNETR and `SwinUNETR` on tokens: what each makes beside its result, in which precision it
//! computes, what its backward pass asks for, and which local variables of their forward functions live on.

use super::eager::{Kind, count};
use super::frames::is_weight;
use crate::memory::Precision;
use crate::network::{Graph, Node, Op};

/// Whether a node belongs to the transformer of a network whose forward functions are known.
pub(super) fn is_known(node: &Node) -> bool {
    let known = ["vit.", "swinViT.", "proj_feat."];
    known.iter().any(|k| node.name.starts_with(k))
}

/// The type of a step on tokens, as `called::steps` makes them.
pub(super) fn kind(node: &Node) -> Option<&str> {
    match &node.op {
        Op::Other { kind, .. } if is_known(node) => Some(kind),
        _ => None,
    }
}

/// What an operation's activations are cast to first, if to anything, and what it makes of activations this wide.
pub(super) fn computes_in(
    graph: &Graph,
    node: &Node,
    precision: Precision,
    widest: Kind,
) -> (Option<Kind>, Kind) {
    let kind = kind(node).unwrap_or_default();
    let learned = node.inputs.iter().any(|t| is_weight(graph, *t));
    match (precision, kind) {
        (Precision::Fp32, _) | (_, "Mask") | (Precision::Amp, "Gather") => (None, Kind::Full),
        (_, "Linear" | "MatMul") => (Some(Kind::Half), Kind::Half),
        (Precision::Amp, "LayerNorm" | "Softmax") => (Some(Kind::Full), Kind::Full),
        (Precision::Amp, "Add") if learned => (None, Kind::Full),
        (_, "Gather") => (None, Kind::Half),
        _ => (None, widest),
    }
}

/// Whether autocast copies the operation's weights.
pub(super) fn copies_weights(node: &Node) -> bool {
    kind(node) == Some("Linear")
}

/// Bytes beside the result: those dropped when the operation is done, and those that a backward pass keeps.
pub(super) fn beside(node: &Node, shapes: &[Vec<usize>], made: Kind) -> (u64, u64) {
    let Some(y) = node.outputs.first().map(|t| &shapes[t.index()]) else {
        return (0, 0);
    };
    let (values, places) = (count(y), y.last().map_or(1, |n| *n as u64));
    match kind(node) {
        Some("LayerNorm") => {
            // Mean and inverse deviation of each token; without learned tensors the width is the channel axis.
            let weight = node.inputs.get(1).map(|t| &shapes[t.index()]);
            let width = weight.map_or_else(|| y.get(1), |w| w.first()).copied();
            (0, values / width.map_or(1, |w| w.max(1) as u64) * 8)
        }
        // Queries, keys or values of several windows or images lie apart: they are copied side by side.
        Some("MatMul") => {
            let parts = copied(node, shapes);
            let all = node.inputs.last().map_or(0, |t| count(&shapes[t.index()]));
            (0, all / 3 * parts * made.bytes())
        }
        // The index is copied and kept; the gathered rows are put in order by a second copy.
        Some("Gather") => (values * made.bytes(), places * places * 8),
        // The regions, their differences, a first filled copy and where it applies.
        Some("Mask") => {
            let regions = values / places.max(1) * 8;
            (values * (4 + 4 + 1) + regions, 0)
        }
        _ => (0, 0),
    }
}

/// How many of queries, keys and values a product of token maps copies.
pub(super) fn copied(node: &Node, shapes: &[Vec<usize>]) -> u64 {
    let first = node.outputs.first().and_then(|t| shapes[t.index()].first());
    match kind(node) {
        Some("MatMul") if first.is_some_and(|n| *n > 1) => {
            1 + u64::from(part(&node.name) == "scores")
        }
        _ => 0,
    }
}

/// What the backward pass of an operation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saved {
    Nothing,
    Inputs,
    Output,
}

/// What a node on tokens saves.
pub(super) fn saved(node: &Node, shapes: &[Vec<usize>]) -> Saved {
    match kind(node) {
        Some("MatMul") if copied(node, shapes) == 2 => Saved::Nothing,
        Some("LayerNorm" | "Linear" | "MatMul" | "Gelu") => Saved::Inputs,
        Some("Softmax") => Saved::Output,
        _ => Saved::Nothing,
    }
}

/// Whether a node's result does not depend on its input's values: no gradient goes back.
pub(super) fn is_constant(node: &Node) -> bool {
    matches!(kind(node), Some("Mask" | "Gather"))
}

/// Nodes whose results live on in a local variable, and the last node at which each does.
pub(super) fn locals(graph: &Graph) -> Vec<(usize, usize)> {
    if !graph.nodes.iter().any(|n| kind(n).is_some()) {
        return Vec::new();
    }
    let end = graph.nodes.len();
    (0..end)
        .filter_map(|step| local(graph, step).map(|until| (step, until)))
        .collect()
}

fn local(graph: &Graph, step: usize) -> Option<usize> {
    let name = graph.nodes[step].name.as_str();
    let (scope, last) = name.rsplit_once('.').unwrap_or(("", name));
    let end = graph.nodes.len();
    let top = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    if part(scope) == "attn" && matches!(last, "qkv" | "q" | "softmax") {
        return last_with(graph, step, scope);
    }
    if last == "attn" {
        return last_with(graph, step, name);
    }
    let named = |suffix: &str| find(graph, step, &format!("{scope}.{suffix}"));
    match last {
        // The padded volume is named until windows are put together again and, if shifted, shifted back.
        "pad" => return named("unroll").or_else(|| named("window_reverse")),
        "roll" => return named("window_reverse"),
        "window_partition" | "window_reverse" => {
            return named("crop").or_else(|| named("window_reverse"));
        }
        "attn_mask" => return last_with(graph, step, scope),
        _ => {}
    }
    if let Some(block) = name.strip_suffix(".attn.proj") {
        return find(graph, step, &format!("{block}.crop"));
    }
    if name == "swinViT.patch_embed.proj" || last == "channels_first" {
        return last_with(graph, step, "swinViT");
    }
    // Hidden states are returned as a list; each encoder and decoder has a name of its own.
    let hidden = scope == "swinViT.proj_out" || name == "vit.norm" || name == "proj_feat.5";
    let block = name.starts_with("vit.blocks.") && last == "add_mlp";
    let at = top(name);
    let is_level = at.starts_with("encoder") || at.starts_with("decoder");
    let level = is_level && graph.nodes.get(step + 1).is_none_or(|n| top(&n.name) != at);
    (hidden || block || level).then_some(end)
}

/// The last part of a module path.
fn part(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// The step of the next node with this name.
fn find(graph: &Graph, step: usize, name: &str) -> Option<usize> {
    let mut ahead = graph.nodes.iter().enumerate().skip(step);
    ahead.find(|(_, n)| n.name == name).map(|(i, _)| i)
}

/// The last node of a module.
fn last_with(graph: &Graph, step: usize, scope: &str) -> Option<usize> {
    let inside = |n: &Node| {
        n.name
            .strip_prefix(scope)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let ahead = graph.nodes.iter().enumerate().skip(step);
    ahead.filter(|(_, n)| inside(n)).map(|(i, _)| i).next_back()
}
