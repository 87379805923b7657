//! The schedule: what runs, step by step, what lives when, and where in the arena. The plot shows it and the engine runs it.

use super::{MemoryError, Precision, arena, lifetimes, lower, order};
use crate::geometry::Extent;
use crate::network::{Act, Graph, Op, TensorId, shapes};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Everything that one pass over one window (or batch of windows) does and where each value lies.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The network's name.
    pub network: String,
    /// The window's size in the tensor's axis order.
    pub spatial: Vec<usize>,
    /// Windows per pass.
    pub batch: usize,
    /// How values are stored.
    pub precision: Precision,
    /// The steps in run order; the first gathers the window, the last hands the outputs over.
    pub steps: Vec<Step>,
    /// Every place in the arena; steps refer to them by index.
    pub tensors: Vec<PlannedTensor>,
    /// Where the network's inputs lie (indices into `tensors`), in input order.
    pub inputs: Vec<usize>,
    /// Where the network's outputs lie (indices into `tensors`), in output order.
    pub outputs: Vec<usize>,
    /// The whole arena: what the engine allocates, to the byte.
    pub arena: Bytes,
    /// The largest sum of live bytes over the steps: no packing of this schedule can need less.
    pub lower_bound: Bytes,
    /// Live bytes step by step.
    pub timeline: Vec<TimelinePoint>,
    /// What running in tiles saves and costs; `None` when every map is whole.
    pub tiles: Option<Tiles>,
}

/// What a schedule in tiles saves and costs. A tile is a slab of planes along the first axis of the tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tiles {
    /// The arena with every map whole.
    pub untiled: Bytes,
    /// Floating point operations of one pass with every map whole.
    pub flops: u64,
    /// Floating point operations that tiles do again.
    pub recompute_flops: u64,
    /// The same in percent of one pass with every map whole.
    pub recompute_percent: f64,
    /// The segments that run slab by slab.
    pub segments: Vec<Segment>,
    /// Norms over space whose input is not kept: their statistics are a pass of their own.
    pub statistics_passes: Vec<String>,
}

/// Steps that run together, slab by slab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Index of the step in the schedule.
    pub step: usize,
    /// Its first and last operation.
    pub name: String,
    /// How many operations run together.
    pub operations: usize,
    /// How many slabs.
    pub slabs: usize,
    /// Most planes of a slab of its coarsest output.
    pub planes: usize,
    /// Bytes of the planes that are kept between slabs.
    pub kept: Bytes,
    /// Floating point operations in it that an earlier step did already.
    pub recompute_flops: u64,
}

/// One place in the arena and the values that take turns in it (an in-place operation overwrites its input).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTensor {
    /// Name of the first value in it.
    pub name: String,
    /// Shape (batch, channels, spatial...); stored channels last. A scratch place has a single entry, its bytes.
    pub shape: Vec<usize>,
    /// Bytes it takes.
    pub bytes: Bytes,
    /// First step at which it lives.
    pub first: usize,
    /// First step at which it lives no more.
    pub last: usize,
    /// Bytes from the start of the arena.
    pub offset: Bytes,
    /// The graph's tensors that lie here one after the other; none for scratch.
    pub values: Vec<TensorId>,
    /// How many planes along the first axis of one window are kept at a time; `None` when the map is whole.
    pub planes: Option<usize>,
}

/// One step of the schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Name of its first node, or what it does.
    pub name: String,
    /// The graph's nodes that it does in one go, in order.
    pub nodes: Vec<usize>,
    /// What it computes before the epilogue.
    pub kernel: Kernel,
    /// Places it reads its operands from, in operand order (a convolution reads several as one, joined along the channels).
    pub sources: Vec<usize>,
    /// What is done to each value before it is stored, in order.
    pub posts: Vec<Post>,
    /// The place it writes, if it makes a value.
    pub target: Option<usize>,
    /// Room for sums over space.
    pub scratch: Option<usize>,
    /// All places it reads, sources and epilogue.
    pub reads: Vec<usize>,
    /// All places it writes, target and scratch.
    pub writes: Vec<usize>,
    /// The steps inside, when it runs several slab by slab.
    pub slabs: Option<Box<Slabs>>,
}

/// Steps that run slab by slab along the first axis: each slab runs every step for the planes that the next one needs, and
/// of the maps between them only those planes are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Slabs {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The slabs, in order.
    pub parts: Vec<Slab>,
    /// Places that gather planes until they can be copied over a map that is still read, and the places of those maps.
    pub staged: Vec<(usize, usize)>,
}

/// One slab: half-open ranges of planes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slab {
    /// Planes that each step makes (for a measure, planes that it reads).
    pub makes: Vec<Range<usize>>,
    /// For each place that is not whole, the planes that it holds from its start on.
    pub holds: Vec<(usize, Range<usize>)>,
    /// Planes that are copied at the end, for each staged place.
    pub copies: Vec<Range<usize>>,
}

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Copies the window from the prepared volume.
    Gather,
    /// The operation of this node; a batch norm that follows may be folded into its weights.
    Node {
        /// Index into the graph's nodes.
        node: usize,
        /// Index of the folded batch norm's node.
        batch_norm: Option<usize>,
    },
    /// Only the sums of the norm over space at this node, of the first source.
    Measure {
        /// Index into the graph's nodes.
        node: usize,
    },
    /// The norm over space at this node, with sums that were measured before.
    Apply {
        /// Index into the graph's nodes.
        node: usize,
    },
    /// Other steps, slab by slab.
    Slabs,
    /// Only the epilogue, on the first source.
    Pointwise,
    /// Hands the outputs to the stitcher.
    Outputs,
}

/// One part of a step's epilogue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Post {
    /// An activation.
    Act(Act),
    /// A parametric `Relu`: the node with its slopes.
    PRelu(usize),
    /// The value at the same position in this place is added.
    Add(usize),
    /// The value is multiplied by the one at the same position in this place.
    Mul(usize),
}

impl Post {
    /// The place that it reads besides the value itself.
    pub const fn reads(self) -> Option<usize> {
        match self {
            Self::Add(at) | Self::Mul(at) => Some(at),
            Self::Act(_) | Self::PRelu(_) => None,
        }
    }
}

/// What lives at one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelinePoint {
    /// Index of the step.
    pub step: usize,
    /// Its name.
    pub name: String,
    /// Bytes of all that lives at it.
    pub live: Bytes,
    /// What lives at it (indices into `Schedule::tensors`).
    pub tensors: Vec<usize>,
}

impl Schedule {
    /// The step with the most live bytes (the first of several).
    pub fn peak_step(&self) -> usize {
        let mut best = 0;
        for point in &self.timeline {
            if point.live > self.timeline[best].live {
                best = point.step;
            }
        }
        best
    }

    /// The node whose operation cannot run here (only planned), if there is one.
    pub fn unsupported<'a>(&self, graph: &'a Graph) -> Option<&'a str> {
        self.steps.iter().flat_map(|s| &s.nodes).find_map(|&n| {
            let node = graph.nodes.get(n)?;
            matches!(node.op, Op::Other { .. }).then_some(node.name.as_str())
        })
    }
}

/// The shapes of all tensors for a window of `spatial` voxels and the bytes of a value, or why there is no plan.
pub(super) fn checked(
    graph: &Graph,
    spatial: &[usize],
    batch: usize,
    precision: Precision,
) -> Result<(Vec<Vec<usize>>, u64), MemoryError> {
    let roi = as_extent(spatial);
    if batch == 0 {
        return Err(MemoryError::EmptyBatch);
    }
    if spatial.contains(&0) {
        return Err(MemoryError::EmptyRoi { roi });
    }
    let value_bytes = match precision {
        Precision::Fp32 => 4,
        Precision::Fp16 | Precision::Bf16 => 2,
        Precision::Amp => {
            return Err(MemoryError::Unsupported {
                what: "amp is PyTorch's mixed precision and not one of Voxfit's own runtime"
                    .to_owned(),
                instead: "ask for fp32, fp16 or bf16, or for the PyTorch runtime".to_owned(),
            });
        }
    };
    let shapes = shapes::infer(graph, spatial, batch).map_err(|e| MemoryError::Shapes {
        network: graph.name.clone(),
        roi,
        reason: e.to_string(),
    })?;
    Ok((shapes, value_bytes))
}

/// Plans one pass of `graph` over a window of `spatial` voxels (the tensor's axis order), `batch` windows at a time.
pub fn plan(
    graph: &Graph,
    spatial: &[usize],
    batch: usize,
    precision: Precision,
) -> Result<Schedule, MemoryError> {
    let roi = as_extent(spatial);
    let (shapes, value_bytes) = checked(graph, spatial, batch, precision)?;
    let lowered = order::lowest(graph, lower::lower(graph), &shapes, value_bytes);
    let mut placed = lifetimes::place(graph, &lowered, &shapes, value_bytes).ok_or_else(|| {
        MemoryError::TooLarge {
            what: "an activation".to_owned(),
            roi,
        }
    })?;
    let arena = arena::pack(&mut placed.tensors).ok_or_else(|| MemoryError::TooLarge {
        what: "the arena".to_owned(),
        roi,
    })?;
    let timeline = lifetimes::timeline(&placed.steps, &placed.tensors);
    let lower_bound = timeline.iter().map(|p| p.live).max().unwrap_or_default();
    Ok(Schedule {
        network: graph.name.clone(),
        spatial: spatial.to_vec(),
        batch,
        precision,
        steps: placed.steps,
        tensors: placed.tensors,
        inputs: placed.inputs,
        outputs: placed.outputs,
        arena,
        lower_bound,
        timeline,
        tiles: None,
    })
}

/// A size for messages, whatever the number of axes.
fn as_extent(spatial: &[usize]) -> Extent {
    let at = |i: usize| spatial.get(i).copied().unwrap_or(1);
    Extent::new(at(0), at(1), at(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::preset;

    fn demo(name: &str, spatial: [usize; 3]) -> (Graph, Schedule) {
        let graph = preset::load(name).unwrap().graph;
        let schedule = plan(&graph, &spatial, 1, Precision::Fp32).unwrap();
        (graph, schedule)
    }

    #[test]
    fn every_node_runs_exactly_once_and_only_on_what_is_there() {
        for name in ["demo", "demo-norm"] {
            let (graph, schedule) = demo(name, [64, 64, 32]);
            let mut done: Vec<usize> = schedule
                .steps
                .iter()
                .flat_map(|s| s.nodes.clone())
                .collect();
            done.sort_unstable();
            let concats = graph.nodes.iter().filter(|n| n.op == Op::Concat).count();
            assert!(
                done.len() + concats >= graph.nodes.len(),
                "{name}: nodes are missing"
            );
            done.dedup();
            assert!(done.len() <= graph.nodes.len());
            for (i, step) in schedule.steps.iter().enumerate() {
                for &r in &step.reads {
                    let t = &schedule.tensors[r];
                    assert!(
                        t.first < i && i < t.last,
                        "{}: {} does not live",
                        step.name,
                        t.name
                    );
                }
            }
        }
    }

    #[test]
    fn the_arena_is_at_the_lower_bound_for_every_preset() {
        let mut above = Vec::new();
        for name in preset::names() {
            let graph = preset::load(name).unwrap().graph;
            for spatial in [[64, 64, 64], [128, 128, 64], [96, 96, 96], [192, 160, 128]] {
                for precision in [Precision::Fp32, Precision::Fp16] {
                    let Ok(s) = plan(&graph, &spatial, 1, precision) else {
                        continue;
                    };
                    let ratio = s.arena.0 as f64 / s.lower_bound.0 as f64;
                    println!(
                        "{name} {spatial:?} {precision:?}: {} ratio {ratio:.3}",
                        s.arena
                    );
                    if s.arena != s.lower_bound {
                        above.push(format!("{name} {spatial:?} {precision:?}: {ratio:.4}"));
                    }
                }
            }
        }
        assert!(above.is_empty(), "{above:?}");
    }

    #[test]
    fn the_six_stage_unet_needs_three_full_maps_and_the_lung_nodule_net_a_tenth_of_pytorch() {
        let unet = preset::load("nnunet-3d-6stage").unwrap().graph;
        let s = plan(&unet, &[256, 256, 256], 1, Precision::Fp32).unwrap();
        println!(
            "nnunet-3d-6stage 256^3: {} at {}",
            s.arena,
            s.steps[s.peak_step()].name
        );
        assert!(s.arena <= Bytes::mib(6400), "{}", s.arena);
        let retina = preset::load("monai-lung-nodule").unwrap().graph;
        let start = std::time::Instant::now();
        let s = plan(&retina, &[512, 512, 192], 1, Precision::Fp32).unwrap();
        println!(
            "monai-lung-nodule 512x512x192: {} at {}, planned in {:?}",
            s.arena,
            s.steps[s.peak_step()].name,
            start.elapsed()
        );
        assert!(s.arena <= Bytes::gib(5), "{}", s.arena);
    }

    #[test]
    fn half_precision_halves_what_lives_between_norms() {
        let (graph, full) = demo("demo", [64, 64, 32]);
        let half = plan(&graph, &[64, 64, 32], 1, Precision::Fp16).unwrap();
        assert_eq!(half.arena.0 * 2, full.arena.0);
        let refused = plan(&graph, &[64, 64, 32], 1, Precision::Amp).unwrap_err();
        assert!(refused.to_string().contains("PyTorch"));
    }
}
