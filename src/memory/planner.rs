//! Turns a request into parts and a timeline: our schedule or the PyTorch model underneath, the same sums on top.
//! One planner per graph keeps what no roi changes, so that a slider can re-plan on every frame.

use super::budget::{
    BudgetRequest, LiveTensor, Mode, Optimizer, Parts, PeakStep, Runtime, StitchOn, TimelineStep,
};
use super::pytorch::{self, EagerOptions, Frames, Workspace};
use super::schedule::Tiles;
use super::{MemoryError, Part, Precision, Source, parts, tiles};
use crate::network::{Graph, facts, shapes};
use crate::units::Bytes;

/// Plans one graph for any roi.
#[derive(Clone, Debug)]
pub struct Planner<'a> {
    pub(super) graph: &'a Graph,
    frames: Frames,
    /// Total stride in the tensor's axis order; empty when it does not exist.
    pub(super) total_stride: Vec<usize>,
}

/// All that a plan says before cliffs, elasticities and fixes.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) parts: Parts,
    pub(super) live_peak: Option<Bytes>,
    pub(super) reserved_peak: Option<Bytes>,
    pub(super) arena: Option<Bytes>,
    pub(super) lower_bound: Bytes,
    pub(super) peak_step: PeakStep,
    pub(super) timeline: Vec<TimelineStep>,
    pub(super) tensors: Vec<LiveTensor>,
    pub(super) workspace: Workspace,
    pub(super) outputs: Vec<Vec<usize>>,
    pub(super) tiles: Option<Tiles>,
}

impl<'a> Planner<'a> {
    /// A planner for this graph.
    pub fn new(graph: &'a Graph) -> Self {
        Self {
            graph,
            frames: Frames::new(graph),
            total_stride: facts::total_stride(graph).unwrap_or_default(),
        }
    }

    /// The parts alone: what a surface of many rois or the search for a fix asks for.
    pub fn sketch(&self, request: &BudgetRequest<'_>) -> Result<Parts, MemoryError> {
        self.outcome(request, false).map(|o| o.parts)
    }

    pub(super) fn outcome(
        &self,
        request: &BudgetRequest<'_>,
        detail: bool,
    ) -> Result<Outcome, MemoryError> {
        if request.roi_size.is_empty() {
            return Err(MemoryError::EmptyRoi {
                roi: request.roi_size,
            });
        }
        if request.batch == 0 {
            return Err(MemoryError::EmptyBatch);
        }
        match request.runtime {
            Runtime::Voxfit => self.voxfit(request, detail),
            Runtime::Pytorch => self.pytorch(request, detail),
        }
    }

    fn voxfit(&self, request: &BudgetRequest<'_>, detail: bool) -> Result<Outcome, MemoryError> {
        if request.mode == Mode::Training {
            return Err(MemoryError::Unsupported {
                what: "Voxfit's own runtime runs inference only, training was asked for".to_owned(),
                instead: "choose the PyTorch runtime for a training budget".to_owned(),
            });
        }
        let spatial = parts::spatial(request);
        let (batch, precision) = (request.batch, request.precision);
        let plan = match request.memory_limit {
            None if request.tiles => tiles::plan_in_tiles(self.graph, &spatial, batch, precision)?,
            limit => tiles::plan_under(self.graph, &spatial, batch, precision, limit)?,
        };
        let place = |at: &usize| plan.tensors.get(*at);
        let input: Bytes = plan.inputs.iter().filter_map(place).map(|t| t.bytes).sum();
        let outputs: Vec<Vec<usize>> = plan
            .outputs
            .iter()
            .filter_map(place)
            .map(|t| t.shape.clone())
            .collect();
        let value = if request.precision == Precision::Fp32 {
            4
        } else {
            2
        };
        let weights = parts::values(self.graph).saturating_mul(value);
        let mut all = parts::around(request, &outputs);
        all.weights = Part::exact(Bytes(weights), Source::Planned);
        all.input = Part::exact(input, Source::Planned);
        all.activations = Part::exact(plan.arena.saturating_sub(input), Source::Planned);
        let peak = plan.peak_step();
        let mut outcome = Outcome {
            parts: all,
            live_peak: None,
            reserved_peak: None,
            arena: Some(plan.arena),
            lower_bound: plan.lower_bound,
            peak_step: PeakStep {
                index: peak,
                node: plan
                    .timeline
                    .get(peak)
                    .map_or_else(String::new, |p| p.name.clone()),
            },
            timeline: Vec::new(),
            tensors: Vec::new(),
            workspace: Workspace::default(),
            outputs,
            tiles: plan.tiles.clone(),
        };
        if detail {
            outcome.timeline = plan
                .timeline
                .iter()
                .map(|p| TimelineStep {
                    step: p.step,
                    node: p.name.clone(),
                    live: p.live,
                })
                .collect();
            outcome.tensors = plan
                .tensors
                .iter()
                .map(|t| LiveTensor {
                    name: match t.planes {
                        Some(1) => format!("{}, 1 plane", t.name),
                        Some(n) => format!("{}, {n} planes", t.name),
                        None => t.name.clone(),
                    },
                    shape: t.shape.clone(),
                    bytes: t.bytes,
                    born: t.first,
                    dies: t.last.saturating_sub(1),
                    group: parts::group(&t.name),
                })
                .collect();
        }
        Ok(outcome)
    }

    fn pytorch(&self, request: &BudgetRequest<'_>, detail: bool) -> Result<Outcome, MemoryError> {
        if request.tiles || request.memory_limit.is_some() {
            return Err(MemoryError::Unsupported {
                what: "PyTorch cannot run a window in tiles".to_owned(),
                instead: "leave the limit and the tiles out, or choose the Voxfit runtime"
                    .to_owned(),
            });
        }
        let spatial = parts::spatial(request);
        let shapes = shapes::infer(self.graph, &spatial, request.batch).map_err(|e| {
            MemoryError::Shapes {
                network: self.graph.name.clone(),
                roi: request.roi_size,
                reason: e.to_string(),
            }
        })?;
        let options = EagerOptions {
            precision: request.precision,
        };
        let trace = match request.mode {
            Mode::Inference => pytorch::simulate(self.graph, &shapes, &self.frames, options),
            Mode::Training => pytorch::simulate_training(
                self.graph,
                &shapes,
                &self.frames,
                pytorch::TrainingOptions {
                    precision: request.precision,
                    optimizer: request.optimizer,
                    checkpointing: request.checkpointing,
                },
            ),
        };
        let live = trace.live();
        let reserved = {
            let weights = parts::weight_sizes(self.graph, request);
            let expandable = request.expandable_segments;
            pytorch::allocator::reserved_peak(&weights, &trace, expandable).max(live.peak)
        };
        let value_bytes = if request.precision == Precision::Fp32 {
            4
        } else {
            2
        };
        let workspace = pytorch::workspace(self.graph, &shapes, value_bytes);
        let outputs: Vec<Vec<usize>> = self
            .graph
            .outputs
            .iter()
            .map(|t| shapes[t.index()].clone())
            .collect();
        let mut all = parts::around(request, &outputs);
        let modelled = |n: u64| Part::exact(Bytes(n), Source::Modelled);
        all.weights = modelled(trace.weights + live.copies_at_peak);
        all.gradients = modelled(live.gradients_at_peak);
        all.optimizer = modelled(trace.resident);
        all.input = modelled(trace.input);
        let named = trace.weights
            + live.copies_at_peak
            + live.gradients_at_peak
            + trace.resident
            + trace.input;
        all.activations = modelled(live.peak.saturating_sub(named));
        let forced = workspace
            .past_2_31
            .iter()
            .map(|(_, _, bytes)| *bytes)
            .max()
            .unwrap_or(0);
        all.workspace = Part::range(
            Bytes(forced),
            Bytes(workspace.high.max(forced)),
            Source::Guessed,
        );
        all.allocator = Part::range(Bytes::ZERO, Bytes(reserved - live.peak), Source::Modelled);
        let mut outcome = Outcome {
            parts: all,
            live_peak: Some(Bytes(live.peak)),
            reserved_peak: Some(Bytes(reserved)),
            arena: None,
            lower_bound: Bytes(live.peak),
            peak_step: PeakStep {
                index: live.peak_step,
                node: trace.steps.get(live.peak_step).cloned().unwrap_or_default(),
            },
            timeline: Vec::new(),
            tensors: Vec::new(),
            workspace,
            outputs,
            tiles: None,
        };
        if detail {
            outcome.timeline = trace
                .steps
                .iter()
                .zip(&live.steps)
                .enumerate()
                .map(|(step, (node, live))| TimelineStep {
                    step,
                    node: node.clone(),
                    live: Bytes(*live),
                })
                .collect();
            outcome.tensors = trace.tensors();
        }
        Ok(outcome)
    }
}

/// Bytes that the optimizer keeps for this many bytes of fp32 parameters.
pub(super) const fn optimizer_bytes(optimizer: Optimizer, parameters: u64) -> u64 {
    match optimizer {
        Optimizer::None => 0,
        Optimizer::Sgd => parameters,
        Optimizer::Adam | Optimizer::AdamW => parameters.saturating_mul(2),
    }
}

/// Whether stitched outputs lie on the card.
pub(super) fn stitches_on_card(request: &BudgetRequest<'_>) -> bool {
    request.stitch_on == StitchOn::Card && request.mode == Mode::Inference
}
