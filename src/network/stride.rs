//! How much coarser than the input each tensor is, per axis, and the total stride.

use super::axes;
use super::error::NetworkError;
use super::graph::{Graph, Node, Op, TensorId, TensorKind};
use super::shapes;
use super::tensor_op::TensorOp;
use std::collections::BTreeSet;

/// Larger total strides than this are no network's: they would only make phases without end.
const LARGEST: usize = 4096;

/// Input voxels per voxel as a reduced fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ratio {
    pub(crate) num: usize,
    pub(crate) den: usize,
}

impl Ratio {
    const ONE: Self = Self { num: 1, den: 1 };

    fn scaled(self, up: usize, down: usize) -> Option<Self> {
        let num = self.num.checked_mul(up)?;
        let den = self.den.checked_mul(down)?;
        let g = gcd(num, den);
        (g > 0).then(|| Self {
            num: num / g,
            den: den / g,
        })
    }
}

/// A network's spatial axis as a tensor has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Along {
    /// Which of the tensor's axes it is.
    pub(crate) axis: usize,
    /// Input voxels per voxel.
    pub(crate) ratio: Ratio,
}

/// The stride of every tensor along every axis, `None` where it cannot be told.
#[derive(Clone, Debug)]
pub(crate) struct Strides {
    of: Vec<Vec<Option<Along>>>,
    /// Shapes at the size at which the file was read; empty for networks that were built here.
    pub(crate) shapes: Vec<Vec<usize>>,
}

impl Strides {
    /// Input voxels per voxel of a tensor along a network's axis.
    pub(crate) fn get(&self, id: TensorId, axis: usize) -> Option<Ratio> {
        self.along(id, axis).map(|a| a.ratio)
    }

    /// Where the network's axis lies in a tensor.
    pub(crate) fn along(&self, id: TensorId, axis: usize) -> Option<Along> {
        self.of.get(id.index())?.get(axis).copied().flatten()
    }

    /// The same as whole input voxels, at least one.
    pub(crate) fn whole(&self, id: TensorId, axis: usize) -> usize {
        self.get(id, axis)
            .map_or(1, |r| r.num.div_ceil(r.den.max(1)).max(1))
    }

    /// Shapes of a node's inputs and of its first output.
    pub(crate) fn shapes_of(&self, node: &Node) -> Option<(Vec<&[usize]>, &[usize])> {
        let shape = |id: &TensorId| self.shapes.get(id.index()).map(Vec::as_slice);
        let inputs = node.inputs.iter().map(shape).collect::<Option<_>>()?;
        Some((inputs, shape(node.outputs.first()?)?))
    }
}

/// Follows the graph from its inputs.
pub(crate) fn of(graph: &Graph) -> Result<Strides, NetworkError> {
    let dims = graph.spatial_dims;
    let first = |axis: usize| Along {
        axis: axis + 2,
        ratio: Ratio::ONE,
    };
    let shapes = match graph.example.as_slice() {
        [batch, spatial @ ..] => shapes::infer(graph, spatial, *batch)?,
        [] => Vec::new(),
    };
    let mut all = Strides {
        of: graph
            .tensors
            .iter()
            .map(|t| match t.kind {
                TensorKind::Input { .. } => (0..dims).map(|a| Some(first(a))).collect(),
                _ => vec![None; dims],
            })
            .collect(),
        shapes,
    };
    let maps = maps(graph);
    for node in &graph.nodes {
        for axis in 0..dims {
            let made = match &node.op {
                Op::Other { at, shapes, .. } => from_shapes(at, shapes.first(), axis),
                Op::Tensor(op) => by_tensor_op(&all, op, node, axis),
                op => node
                    .inputs
                    .iter()
                    .filter(|id| !graph.is_weight(**id))
                    .find_map(|id| all.along(*id, axis))
                    .map(|a| {
                        let ratio = through(op, a.ratio, axis);
                        ratio
                            .map(|ratio| Along { ratio, ..a })
                            .ok_or_else(|| too_large(graph, node))
                    })
                    .transpose()?,
            };
            for id in &node.outputs {
                // A map made from tokens: its size tells.
                let made = made.or_else(|| {
                    let space = graph.example.get(1..).filter(|_| maps.contains(id))?;
                    from_shapes(space, all.shapes.get(id.index()), axis)
                });
                if let Some(slot) = all.of.get_mut(id.index()).and_then(|s| s.get_mut(axis)) {
                    *slot = made;
                }
            }
        }
    }
    Ok(all)
}

/// Tensors with channels and the network's spatial axes for sure: what spatial operations read, and the outputs.
fn maps(graph: &Graph) -> BTreeSet<TensorId> {
    let spatial = graph.nodes.iter().filter(|n| match &n.op {
        Op::Tensor(op) => op.is_spatial(),
        Op::Activation(_) | Op::Add | Op::Mul | Op::Other { .. } => false,
        _ => true,
    });
    spatial
        .filter_map(|n| n.inputs.first())
        .chain(&graph.outputs)
        .copied()
        .collect()
}

fn by_tensor_op(all: &Strides, op: &TensorOp, node: &Node, axis: usize) -> Option<Along> {
    let (shapes, made) = all.shapes_of(node)?;
    (0..node.inputs.len()).find_map(|i| {
        let from = all.along(*node.inputs.get(i)?, axis)?;
        let to = axes::follow(op, i, from.axis, &shapes, made)?;
        let sizes = (*shapes.get(i)?.get(from.axis)?, *made.get(to)?);
        let (up, down) = axes::ratio(op, from.axis, sizes)?;
        Some(Along {
            axis: to,
            ratio: from.ratio.scaled(up, down)?,
        })
    })
}

/// Least common multiple over all tensors, per axis.
pub(crate) fn total(graph: &Graph, strides: &Strides) -> Result<Vec<usize>, NetworkError> {
    (0..graph.spatial_dims)
        .map(|axis| {
            strides
                .of
                .iter()
                .filter_map(|s| s.get(axis).copied().flatten())
                .try_fold(1usize, |l, a| lcm(l, a.ratio.num).filter(|l| *l <= LARGEST))
                .ok_or_else(|| NetworkError::Graph {
                    network: graph.name.clone(),
                    reason: format!("its total stride along axis {axis} is above {LARGEST}"),
                })
        })
        .collect()
}

fn through(op: &Op, r: Ratio, axis: usize) -> Option<Ratio> {
    let at = |v: &Vec<usize>| v.get(axis).copied().unwrap_or(1);
    match op {
        Op::Conv { stride, .. } | Op::MaxPool { stride, .. } | Op::AvgPool { stride, .. } => {
            r.scaled(at(stride), 1)
        }
        Op::ConvTranspose { stride, .. } => r.scaled(1, at(stride)),
        Op::UpsampleNearest { scale } | Op::UpsampleLinear { scale, .. } => r.scaled(1, at(scale)),
        _ => Some(r),
    }
}

/// From recorded shapes, where every spatial size divides the input's.
fn from_shapes(at: &[usize], shape: Option<&Vec<usize>>, axis: usize) -> Option<Along> {
    let space = shape.filter(|s| s.len() == at.len() + 2)?.get(2..)?;
    let divides = |(whole, part): (&usize, &usize)| *part > 0 && whole.is_multiple_of(*part);
    if !at.iter().zip(space).all(divides) {
        return None;
    }
    Some(Along {
        axis: axis + 2,
        ratio: Ratio::ONE.scaled(*at.get(axis)?, *space.get(axis)?)?,
    })
}

fn too_large(graph: &Graph, node: &Node) -> NetworkError {
    NetworkError::Graph {
        network: graph.name.clone(),
        reason: format!(
            "node \"{}\" has a stride of 0 or one that overflows",
            node.name
        ),
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn lcm(a: usize, b: usize) -> Option<usize> {
    a.checked_div(gcd(a, b))?.checked_mul(b)
}
