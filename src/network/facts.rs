//! What is true of a network whatever the roi: parameters, strides, norms over space, operations, what cannot be run; and FLOPs for a roi.

use super::error::NetworkError;
use super::graph::{Graph, Node, Op, TensorId, TensorKind};
use super::reach::{self, Reach};
use super::stride;
use super::tensor_shapes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Facts of a network. Lists over axes are in the tensor's axis order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Learned values.
    pub n_parameters: u64,
    /// Reach of each output.
    pub reach: Vec<Reach>,
    /// Least common multiple of every tensor's cumulative down-sampling, per axis.
    pub total_stride: Vec<usize>,
    /// Input voxels per voxel of each output, per axis (1 for outputs finer than the input).
    pub output_strides: Vec<Vec<usize>>,
    /// Names of the nodes that take statistics over space.
    pub spatial_norms: Vec<String>,
    /// How many nodes there are of each type.
    pub ops: BTreeMap<String, usize>,
    /// Nodes that can be planned but not run.
    pub unsupported: Vec<Unsupported>,
}

/// A node that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsupported {
    /// Its type.
    pub op: String,
    /// Its name.
    pub node: String,
    /// Why not.
    pub reason: String,
}

impl Facts {
    /// The largest reach over all outputs.
    pub fn reach_max(&self) -> Reach {
        Reach::largest(&self.reach)
    }
}

/// The facts of a graph.
pub fn of(graph: &Graph) -> Result<Facts, NetworkError> {
    let strides = stride::of(graph)?;
    let total_stride = stride::total(graph, &strides)?;
    let reach = graph
        .outputs
        .iter()
        .map(|id| reach::of(graph, *id, &strides, &total_stride))
        .collect();
    let mut ops = BTreeMap::new();
    for node in &graph.nodes {
        *ops.entry(node.op.kind().to_owned()).or_insert(0) += 1;
    }
    Ok(Facts {
        n_parameters: n_parameters(graph),
        reach,
        output_strides: graph
            .outputs
            .iter()
            .map(|id| {
                (0..graph.spatial_dims)
                    .map(|axis| strides.whole(*id, axis))
                    .collect()
            })
            .collect(),
        total_stride,
        spatial_norms: named(graph, |n| n.op.is_spatial_norm()),
        ops,
        unsupported: graph.nodes.iter().filter_map(unsupported).collect(),
    })
}

/// Least common multiple of every tensor's cumulative down-sampling per axis, in the tensor's axis order; the one fact that each re-plan asks for.
pub fn total_stride(graph: &Graph) -> Result<Vec<usize>, NetworkError> {
    stride::total(graph, &stride::of(graph)?)
}

/// Learned values of a graph; running statistics do not count.
pub fn n_parameters(graph: &Graph) -> u64 {
    graph
        .tensors
        .iter()
        .filter_map(|t| match &t.kind {
            TensorKind::Weight {
                shape,
                is_parameter: true,
            } => Some(product(shape)),
            _ => None,
        })
        .fold(0u64, u64::saturating_add)
}

/// Floating point operations of each node for shapes from `shapes::infer`: a multiply and an add are two; an activation one a value, a norm eight.
pub fn flops(graph: &Graph, shapes: &[Vec<usize>]) -> Vec<u64> {
    graph
        .nodes
        .iter()
        .map(|node| node_flops(node, shapes))
        .collect()
}

/// The sum of `flops`.
pub fn total_flops(graph: &Graph, shapes: &[Vec<usize>]) -> u64 {
    flops(graph, shapes)
        .into_iter()
        .fold(0, u64::saturating_add)
}

fn node_flops(node: &Node, shapes: &[Vec<usize>]) -> u64 {
    let count = |id: Option<&TensorId>| {
        id.and_then(|id| shapes.get(id.index()))
            .map_or(0, |s| product(s))
    };
    let input = count(node.inputs.first());
    let output = count(node.outputs.first());
    let weight_shape = || node.inputs.get(1).and_then(|id| shapes.get(id.index()));
    let taps = |skip: usize| weight_shape().map_or(0, |s| product(s.get(skip..).unwrap_or(&[])));
    let bias = if node.inputs.len() > 2 { output } else { 0 };
    match &node.op {
        Op::Conv { .. } => output
            .saturating_mul(taps(1))
            .saturating_mul(2)
            .saturating_add(bias),
        Op::ConvTranspose { .. } => input
            .saturating_mul(taps(1))
            .saturating_mul(2)
            .saturating_add(bias),
        Op::BatchNorm { .. } => output.saturating_mul(2),
        Op::InstanceNorm { .. } | Op::GroupNorm { .. } => output.saturating_mul(8),
        Op::Activation(_) | Op::PRelu => output,
        Op::MaxPool { kernel, .. } | Op::AvgPool { kernel, .. } => {
            output.saturating_mul(product(kernel))
        }
        Op::GlobalAvgPool => input,
        Op::UpsampleLinear { scale, .. } => output.saturating_mul(
            2u64.saturating_pow(u32::try_from(scale.len()).unwrap_or(3))
                .saturating_mul(2),
        ),
        Op::Add | Op::Mul => output.saturating_mul((node.inputs.len() as u64).saturating_sub(1)),
        Op::Softmax => output.saturating_mul(5),
        Op::UpsampleNearest { .. } | Op::Concat | Op::Pad { .. } => 0,
        Op::Tensor(op) => {
            let shape = |id: &TensorId| shapes.get(id.index()).map_or(&[][..], Vec::as_slice);
            let inputs: Vec<&[usize]> = node.inputs.iter().map(shape).collect();
            let made = node.outputs.first().map_or(&[][..], shape);
            tensor_shapes::flops(op, &inputs, made)
        }
        Op::Other { flops, .. } => *flops,
    }
}

/// Places and reasons of the nodes that can be planned but not run.
pub(super) fn unsupported_nodes(graph: &Graph) -> Vec<(usize, String)> {
    let told = |(i, n): (usize, &Node)| Some((i, unsupported(n)?.reason));
    graph.nodes.iter().enumerate().filter_map(told).collect()
}

fn unsupported(node: &Node) -> Option<Unsupported> {
    match &node.op {
        Op::Other { kind, reason, .. } => Some(Unsupported {
            op: kind.clone(),
            node: node.name.clone(),
            reason: reason.clone(),
        }),
        _ => None,
    }
}

fn named(graph: &Graph, wanted: impl Fn(&Node) -> bool) -> Vec<String> {
    graph
        .nodes
        .iter()
        .filter(|n| wanted(n))
        .map(|n| n.name.clone())
        .collect()
}

fn product(shape: &[usize]) -> u64 {
    shape.iter().fold(1u64, |n, d| n.saturating_mul(*d as u64))
}
