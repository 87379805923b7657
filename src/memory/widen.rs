//! The same network with all inner channels multiplied, to ask how bytes move with width. Inputs and outputs keep theirs.

use crate::network::{Graph, Op, TensorId, TensorKind};

/// The graph with inner channels times `num` over `den`; `None` where groups or odd widths do not allow it.
pub(super) fn widen(graph: &Graph, num: usize, den: usize) -> Option<Graph> {
    widen_where(graph, num, den, |_| true)
}

/// The graph with half the channels where a map is as fine as the input; `shapes` as from `network::shapes::infer`.
pub(super) fn narrow_finest(graph: &Graph, shapes: &[Vec<usize>]) -> Option<Graph> {
    let size = |t: TensorId| shapes.get(t.index())?.get(2..);
    let finest = size(*graph.inputs.first()?)?;
    widen_where(graph, 1, 2, |t| size(t) == Some(finest))
}

fn widen_where(
    graph: &Graph,
    num: usize,
    den: usize,
    changes: impl Fn(TensorId) -> bool,
) -> Option<Graph> {
    let mut wide = graph.clone();
    let mut channels: Vec<usize> = vec![0; graph.tensors.len()];
    for (slot, t) in channels.iter_mut().zip(&graph.tensors) {
        if let TensorKind::Input { channels } = t.kind {
            *slot = channels;
        }
    }
    let scaled = |n: usize| (n * num).is_multiple_of(den).then_some(n * num / den);
    for node in &graph.nodes {
        let x = node.inputs.first()?;
        let y = node.outputs.first()?;
        let c = channels[x.index()];
        channels[y.index()] = match &node.op {
            Op::Conv { groups: 1, .. } | Op::ConvTranspose { groups: 1, .. } => {
                let transposed = matches!(node.op, Op::ConvTranspose { .. });
                let w = *node.inputs.get(1)?;
                let keeps = graph.outputs.contains(y) || !changes(*y);
                let shape = shape_mut(&mut wide, w)?;
                let (into, out) = if transposed { (0, 1) } else { (1, 0) };
                *shape.get_mut(into)? = c;
                let made = graph_shape(graph, w)?.get(out).copied()?;
                let made = if keeps { made } else { scaled(made)? };
                *shape.get_mut(out)? = made;
                if let Some(bias) = node.inputs.get(2) {
                    *shape_mut(&mut wide, *bias)? = vec![made];
                }
                made
            }
            Op::Conv { .. } | Op::ConvTranspose { .. } | Op::Tensor(_) | Op::Other { .. } => {
                return None;
            }
            Op::Concat => node.inputs.iter().map(|t| channels[t.index()]).sum(),
            _ => {
                for w in &node.inputs {
                    if let Some(old) = graph_shape(graph, *w)
                        && old.len() == 1
                        && old != [1]
                    {
                        *shape_mut(&mut wide, *w)? = vec![c];
                    }
                }
                c
            }
        };
    }
    Some(wide)
}

fn graph_shape(graph: &Graph, t: TensorId) -> Option<&[usize]> {
    match &graph.tensors.get(t.index())?.kind {
        TensorKind::Weight { shape, .. } => Some(shape),
        TensorKind::Input { .. } | TensorKind::Activation => None,
    }
}

fn shape_mut(graph: &mut Graph, t: TensorId) -> Option<&mut Vec<usize>> {
    match &mut graph.tensors.get_mut(t.index())?.kind {
        TensorKind::Weight { shape, .. } => Some(shape),
        TensorKind::Input { .. } | TensorKind::Activation => None,
    }
}
