//! How much coarser than the input each tensor is, per axis, and the total stride.

use super::error::NetworkError;
use super::graph::{Graph, Node, Op, TensorId, TensorKind};

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

/// The stride of every tensor along every axis, `None` where it cannot be told.
#[derive(Clone, Debug)]
pub(crate) struct Strides(Vec<Vec<Option<Ratio>>>);

impl Strides {
    /// The stride of a tensor along an axis.
    pub(crate) fn get(&self, id: TensorId, axis: usize) -> Option<Ratio> {
        self.0.get(id.index())?.get(axis).copied().flatten()
    }

    /// The same as whole input voxels, at least one.
    pub(crate) fn whole(&self, id: TensorId, axis: usize) -> usize {
        self.get(id, axis)
            .map_or(1, |r| r.num.div_ceil(r.den.max(1)).max(1))
    }
}

/// Follows the graph from its inputs.
pub(crate) fn of(graph: &Graph) -> Result<Strides, NetworkError> {
    let dims = graph.spatial_dims;
    let mut all: Vec<Vec<Option<Ratio>>> = graph
        .tensors
        .iter()
        .map(|t| match t.kind {
            TensorKind::Input { .. } => vec![Some(Ratio::ONE); dims],
            _ => vec![None; dims],
        })
        .collect();
    for node in &graph.nodes {
        for axis in 0..dims {
            let known = node
                .inputs
                .iter()
                .filter(|id| !graph.is_weight(**id))
                .find_map(|id| all.get(id.index())?.get(axis).copied().flatten());
            let made = match &node.op {
                Op::Other { at, shapes, .. } => from_shapes(at, shapes.first(), axis),
                op => known
                    .map(|r| through(op, r, axis).ok_or_else(|| too_large(graph, node)))
                    .transpose()?,
            };
            for id in &node.outputs {
                if let Some(slot) = all.get_mut(id.index()).and_then(|s| s.get_mut(axis)) {
                    *slot = made;
                }
            }
        }
    }
    Ok(Strides(all))
}

/// Least common multiple over all tensors, per axis.
pub(crate) fn total(graph: &Graph, strides: &Strides) -> Result<Vec<usize>, NetworkError> {
    (0..graph.spatial_dims)
        .map(|axis| {
            strides
                .0
                .iter()
                .filter_map(|s| s.get(axis).copied().flatten())
                .try_fold(1usize, |l, r| lcm(l, r.num).filter(|l| *l <= LARGEST))
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
fn from_shapes(at: &[usize], shape: Option<&Vec<usize>>, axis: usize) -> Option<Ratio> {
    let space = shape.filter(|s| s.len() == at.len() + 2)?.get(2..)?;
    let divides = |(whole, part): (&usize, &usize)| *part > 0 && whole.is_multiple_of(*part);
    if !at.iter().zip(space).all(divides) {
        return None;
    }
    Ratio::ONE.scaled(*at.get(axis)?, *space.get(axis)?)
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
