//! Batch norms folded into the convolutions before them, in f64 and rounded once.

use super::compact;
use super::graph::{Graph, Node, Op, TensorId, TensorKind};
use super::weights::Weights;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Folds every batch norm whose input is a convolution that nothing else reads and whose weights nothing else uses.
pub fn fold(graph: &mut Graph, weights: &mut Weights) {
    let mut readers: BTreeMap<TensorId, usize> = BTreeMap::new();
    for id in graph
        .nodes
        .iter()
        .flat_map(|n| &n.inputs)
        .chain(&graph.outputs)
    {
        *readers.entry(*id).or_insert(0) += 1;
    }
    let alone = |id: TensorId| readers.get(&id) == Some(&1);
    let makers: BTreeMap<TensorId, usize> = (0..)
        .zip(&graph.nodes)
        .flat_map(|(i, n)| n.outputs.iter().map(move |o| (*o, i)))
        .collect();
    let mut gone = BTreeSet::new();
    let mut dropped = BTreeSet::new();
    for at in 0..graph.nodes.len() {
        let Some(norm) = graph
            .nodes
            .get(at)
            .filter(|n| matches!(n.op, Op::BatchNorm { .. }))
            .cloned()
        else {
            continue;
        };
        let [x, stats @ ..] = norm.inputs.as_slice() else {
            continue;
        };
        let maker = makers.get(x).copied();
        let Some(conv) = maker.and_then(|i| graph.nodes.get(i)).cloned() else {
            continue;
        };
        let fits = matches!(
            conv.op,
            Op::Conv { .. } | Op::ConvTranspose { groups: 1, .. }
        ) && alone(*x)
            && conv.inputs.iter().skip(1).all(|id| alone(*id));
        let (true, Some(factors)) = (fits, factors(&norm, stats, weights)) else {
            continue;
        };
        let Some(bias) = fold_one(graph, weights, &conv, &factors) else {
            continue;
        };
        let Some(output) = norm.outputs.first().copied() else {
            continue;
        };
        if let Some(node) = maker.and_then(|i| graph.nodes.get_mut(i)) {
            node.inputs.truncate(2);
            node.inputs.push(bias);
            node.outputs = vec![output];
        }
        compact::follow(graph, *x, output);
        gone.insert(*x);
        gone.extend(stats.iter().copied().filter(|id| alone(*id)));
        dropped.insert(at);
    }
    let mut index = 0..;
    graph
        .nodes
        .retain(|_| index.next().is_none_or(|i| !dropped.contains(&i)));
    compact::without(graph, weights, &gone);
}

/// Scale and shift per channel.
fn factors(norm: &Node, stats: &[TensorId], weights: &Weights) -> Option<Vec<(f64, f64)>> {
    let Op::BatchNorm { eps } = norm.op else {
        return None;
    };
    let [scale, shift, mean, var] = stats else {
        return None;
    };
    let values = |id: &TensorId| weights.get(*id).cloned();
    let (scale, shift, mean, var) = (values(scale)?, values(shift)?, values(mean)?, values(var)?);
    let pairs = scale
        .iter()
        .zip(shift.iter())
        .zip(mean.iter().zip(var.iter()));
    Some(
        pairs
            .map(|((g, b), (m, v))| {
                let factor = f64::from(*g) / (f64::from(*v) + f64::from(eps)).sqrt();
                (factor, f64::from(*b) - f64::from(*m) * factor)
            })
            .collect(),
    )
}

/// Scales a convolution's weights; the id of its bias, made when it had none.
fn fold_one(
    graph: &mut Graph,
    weights: &mut Weights,
    conv: &Node,
    factors: &[(f64, f64)],
) -> Option<TensorId> {
    let weight = *conv.inputs.get(1)?;
    let TensorKind::Weight { shape, .. } = &graph.tensor(weight)?.kind else {
        return None;
    };
    let [first, second, ..] = shape.as_slice() else {
        return None;
    };
    let transposed = matches!(conv.op, Op::ConvTranspose { .. });
    let (outer, channels) = if transposed {
        (*first, *second)
    } else {
        (1, *first)
    };
    if channels != factors.len() {
        return None;
    }
    let old = weights.get(weight)?.clone();
    let block = old.len().checked_div(outer.checked_mul(channels)?)?;
    let scaled: Arc<[f32]> = old
        .chunks(block.max(1))
        .zip(factors.iter().cycle())
        .flat_map(|(chunk, (factor, _))| chunk.iter().map(move |w| narrow(f64::from(*w) * factor)))
        .collect();
    let old_bias = conv.inputs.get(2).copied();
    let bias: Arc<[f32]> = match old_bias {
        Some(id) => weights
            .get(id)?
            .iter()
            .zip(factors)
            .map(|(b, (f, s))| narrow(f64::from(*b) * f + s))
            .collect(),
        None => factors.iter().map(|(_, s)| narrow(*s)).collect(),
    };
    weights.insert(weight, scaled);
    let id = old_bias.unwrap_or_else(|| {
        let id = TensorId(u32::try_from(graph.tensors.len()).unwrap_or(u32::MAX));
        graph.tensors.push(super::graph::Tensor {
            name: format!("{}.folded_bias", conv.name),
            kind: TensorKind::Weight {
                shape: vec![channels],
                is_parameter: true,
            },
        });
        id
    });
    weights.insert(id, bias);
    Some(id)
}

fn narrow(v: f64) -> f32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to f32 is what is meant"
    )]
    let v = v as f32;
    v
}
