//! The whole budget of one plan: every part with its range and source, the peak, the timeline, cliffs and fixes.
//! Keys of the JSON are those of `voxfit budget --json`.

use super::planner::Planner;
use super::schedule::Tiles;
use super::{MemoryError, Part, Precision, Source, parts};
use crate::geometry::Extent;
use crate::network::Graph;
use crate::network::manifest::Axes;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Whose engine runs the windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// Ours: one planned arena, no workspace.
    #[default]
    Voxfit,
    /// PyTorch in eager mode with its caching allocator.
    Pytorch,
}

/// What the network does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Forward only, without gradients.
    #[default]
    Inference,
    /// Forward, loss, backward, optimizer step.
    Training,
}

/// What the optimizer keeps per parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizer {
    /// Nothing.
    #[default]
    None,
    /// Plain SGD with momentum: one fp32 copy.
    Sgd,
    /// Two fp32 moments.
    Adam,
    /// Two fp32 moments.
    AdamW,
}

/// Where the stitched outputs and the count map lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StitchOn {
    /// On the card.
    Card,
    /// In host memory.
    #[default]
    Host,
}

/// What the screen takes of the card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Display {
    /// No screen on this card.
    #[default]
    Headless,
    /// A Linux desktop.
    Desktop,
    /// A Windows desktop, with programs at the high end.
    Windows,
}

/// One question: this network, this roi, this way of running it.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of a question"
)]
pub struct BudgetRequest<'a> {
    /// The network.
    pub graph: &'a Graph,
    /// Size of one window, resolved: no zero entries.
    pub roi_size: Extent,
    /// The prepared volume that is stitched; without it stitched outputs are those of one window.
    pub volume: Option<Extent>,
    /// Whose engine.
    pub runtime: Runtime,
    /// Forward only, or training.
    pub mode: Mode,
    /// How values are stored.
    pub precision: Precision,
    /// Windows per forward pass (`sw_batch_size`), or the training batch.
    pub batch: usize,
    /// What training keeps per parameter.
    pub optimizer: Optimizer,
    /// Whether the stages are checkpointed in training.
    pub checkpointing: bool,
    /// Where outputs are stitched.
    pub stitch_on: StitchOn,
    /// What the screen takes.
    pub display: Display,
    /// Order of the tensor's axes.
    pub axes: Axes,
    /// Most bytes of our arena: a window that needs more runs in tiles.
    pub memory_limit: Option<Bytes>,
    /// Whether PyTorch's allocator runs with `expandable_segments`.
    pub expandable_segments: bool,
    /// Whether windows are blended by a Gaussian importance map.
    pub gaussian: bool,
    /// Whether a window runs in tiles, as far as that goes without computing anything twice.
    pub tiles: bool,
}

impl<'a> BudgetRequest<'a> {
    /// Inference of one fp32 window with our own runtime, stitched on the host, headless.
    pub fn new(graph: &'a Graph, roi_size: Extent) -> Self {
        Self {
            graph,
            roi_size,
            volume: None,
            runtime: Runtime::Voxfit,
            mode: Mode::Inference,
            precision: Precision::Fp32,
            batch: 1,
            optimizer: Optimizer::None,
            checkpointing: false,
            stitch_on: StitchOn::Host,
            display: Display::Headless,
            axes: Axes::Xyz,
            memory_limit: None,
            expandable_segments: false,
            gaussian: false,
            tiles: false,
        }
    }
}

/// The parts of what a card must hold. `allocator` is what a caching allocator holds and nobody uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// Parameters and buffers (with autocast, also their 2-byte copies).
    pub weights: Part,
    /// Gradients of the parameters.
    pub gradients: Part,
    /// What the optimizer keeps.
    pub optimizer: Part,
    /// Everything between input and output that lives at the peak, outputs of the window among it.
    pub activations: Part,
    /// The convolution library's scratch space.
    pub workspace: Part,
    /// The windows' input.
    pub input: Part,
    /// Stitched outputs on the card.
    pub stitched: Part,
    /// The count map on the card.
    pub count_map: Part,
    /// The CUDA context.
    pub context: Part,
    /// What the screen takes.
    pub display: Part,
    /// What the allocator keeps in reserve.
    pub allocator: Part,
}

/// Which part of a budget; the order is the stacking order of the bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartName {
    /// The CUDA context.
    Context,
    /// What the screen takes.
    Display,
    /// Parameters and buffers.
    Weights,
    /// Gradients.
    Gradients,
    /// Optimizer state.
    Optimizer,
    /// The windows' input.
    Input,
    /// Activations.
    Activations,
    /// Stitched outputs.
    Stitched,
    /// Count map.
    CountMap,
    /// Allocator reserve.
    Allocator,
    /// Convolution workspace.
    Workspace,
}

impl PartName {
    /// All parts in stacking order.
    pub const ALL: [Self; 11] = [
        Self::Context,
        Self::Display,
        Self::Weights,
        Self::Gradients,
        Self::Optimizer,
        Self::Input,
        Self::Activations,
        Self::Stitched,
        Self::CountMap,
        Self::Allocator,
        Self::Workspace,
    ];

    /// The word for people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Display => "display",
            Self::Weights => "weights",
            Self::Gradients => "gradients",
            Self::Optimizer => "optimizer",
            Self::Input => "input",
            Self::Activations => "activations",
            Self::Stitched => "stitched",
            Self::CountMap => "count map",
            Self::Allocator => "allocator",
            Self::Workspace => "workspace",
        }
    }
}

impl Parts {
    /// One part by name.
    pub const fn get(&self, name: PartName) -> Part {
        match name {
            PartName::Context => self.context,
            PartName::Display => self.display,
            PartName::Weights => self.weights,
            PartName::Gradients => self.gradients,
            PartName::Optimizer => self.optimizer,
            PartName::Input => self.input,
            PartName::Activations => self.activations,
            PartName::Stitched => self.stitched,
            PartName::CountMap => self.count_map,
            PartName::Allocator => self.allocator,
            PartName::Workspace => self.workspace,
        }
    }

    /// What the plan itself asks of the card: all parts but context and display.
    pub fn required(&self) -> Part {
        let mut sum = Part::exact(Bytes::ZERO, Source::Planned);
        for name in PartName::ALL {
            if !matches!(name, PartName::Context | PartName::Display) {
                sum = sum.plus(self.get(name));
            }
        }
        sum
    }
}

/// The step at which most bytes live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakStep {
    /// Index into the timeline.
    pub index: usize,
    /// The node that runs.
    pub node: String,
}

/// Bytes that live while one step runs, weights not counted for our runtime, counted for PyTorch (see `cli.md`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineStep {
    /// Number of the step.
    pub step: usize,
    /// The node that runs.
    pub node: String,
    /// Live bytes.
    pub live: Bytes,
}

/// One tensor of the timeline: what the plot stacks and the hover card names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveTensor {
    /// Its name.
    pub name: String,
    /// Its shape, `(N, C, spatial...)`; empty for what has none.
    pub shape: Vec<usize>,
    /// Its bytes.
    pub bytes: Bytes,
    /// First step at which it lives.
    pub born: usize,
    /// Last step at which it lives.
    pub dies: usize,
    /// The module that made it, for colours and names in the plot.
    pub group: String,
}

/// A named trap of this plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cliff {
    /// Stable name.
    pub code: String,
    /// One or two sentences with the numbers.
    pub text: String,
}

/// d log(bytes) / d log(knob) of the required bytes, computed from the graph; `None` where it cannot be asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Elasticities {
    /// Batch.
    pub batch: Option<f64>,
    /// Roi along x.
    pub x: Option<f64>,
    /// Roi along y.
    pub y: Option<f64>,
    /// Roi along z.
    pub z: Option<f64>,
    /// Channels of every layer at once.
    pub channels: Option<f64>,
    /// Bytes of one layer more at each resolution, the finest first; empty where no layer can be repeated.
    #[serde(default)]
    pub depth: Vec<DepthCost>,
}

/// What one layer more (a convolution with its norm and activation) takes at one resolution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepthCost {
    /// Voxels along each axis of the tensor at this resolution.
    pub spatial: Vec<usize>,
    /// Bytes that required rises by.
    pub bytes: Bytes,
}

/// What a fix sets of a plan, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Sets {
    /// Whose runtime.
    Runtime(Runtime),
    /// Where outputs are stitched.
    StitchOn(StitchOn),
    /// Windows per pass, or the training batch.
    Batch(usize),
    /// Window size in voxels of the axes x, y, z that change.
    RoiSize([Option<usize>; 3]),
    /// How values are stored.
    Precision(Precision),
    /// Activation checkpointing.
    Checkpointing(bool),
    /// The optimizer.
    Optimizer(Optimizer),
    /// Most bytes of the arena; what is larger runs in tiles.
    MemoryLimit(Bytes),
    /// `expandable_segments` of PyTorch's allocator.
    ExpandableSegments(bool),
}

impl Sets {
    /// The knob's name, as `Fix::knob` has it.
    pub const fn knob(self) -> &'static str {
        match self {
            Self::Runtime(_) => "runtime",
            Self::StitchOn(_) => "stitch_on",
            Self::Batch(_) => "batch",
            Self::RoiSize(_) => "roi_size",
            Self::Precision(_) => "precision",
            Self::Checkpointing(_) => "checkpointing",
            Self::Optimizer(_) => "optimizer",
            Self::MemoryLimit(_) => "tiles",
            Self::ExpandableSegments(_) => "allocator",
        }
    }
}

/// One way to need less.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fix {
    /// The knob: `runtime`, `stitch_on`, `batch`, `roi_size`, `precision`, `checkpointing`, `optimizer`, `width`, `depth`, `tiles`, `allocator`.
    pub knob: String,
    /// The change in words, such as "roi z 192 -> 64".
    pub change: String,
    /// The change as data; `None` where it is another network.
    #[serde(default)]
    pub sets: Option<Sets>,
    /// Whether any bit of the result changes.
    pub changes_bits: bool,
    /// What the plan then requires at most, in bytes.
    pub required: Bytes,
    /// What the plan then requires at least, in bytes.
    pub required_low: Bytes,
    /// Seconds a study then takes; unknown without a measured or forecast run.
    pub seconds: Option<f64>,
    /// What is given up, in words.
    pub exactness: String,
}

/// Everything a plan asks of a card and its host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The parts on the card.
    pub parts: Parts,
    /// Peak of live bytes under PyTorch; `None` with our runtime.
    pub live_peak: Option<Bytes>,
    /// Peak of what PyTorch's caching allocator reserves; `None` with our runtime.
    pub reserved_peak: Option<Bytes>,
    /// Bytes of our planned arena; `None` under PyTorch.
    pub arena: Option<Bytes>,
    /// The largest sum of live bytes over the schedule.
    pub lower_bound: Bytes,
    /// What the host must hold.
    pub host_peak: Bytes,
    /// Where the peak is.
    pub peak_step: PeakStep,
    /// Live bytes step by step.
    pub timeline: Vec<TimelineStep>,
    /// Largest batch that fits the first card asked for; `None` without a card.
    pub largest_batch: Option<u64>,
    /// Named traps.
    pub cliffs: Vec<Cliff>,
    /// How bytes move with each knob.
    pub elasticities: Elasticities,
    /// Ways to need less, best first: those that change no bit, then those that change the result.
    pub fixes: Vec<Fix>,
    /// Parts of the host's memory, by name.
    pub host_parts: Vec<(String, Part)>,
    /// Tensors of the timeline.
    pub tensors: Vec<LiveTensor>,
    /// What running the window in tiles saves and costs; `None` when every map is whole.
    #[serde(default)]
    pub tiles: Option<Tiles>,
    /// The answer to a limit that was asked for.
    #[serde(default)]
    pub limit: Option<LimitAnswer>,
}

/// Whether a schedule keeps a limit. When none does, the budget is that of the schedule with the least bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitAnswer {
    /// Bytes asked for.
    pub asked: Bytes,
    /// Whether a schedule keeps them.
    pub met: bool,
    /// The least that a schedule needs, where none keeps them.
    pub least: Option<Bytes>,
    /// The same as a sentence, where none keeps them.
    pub text: Option<String>,
}

/// The budget of a plan: parts, timeline, traps, elasticities and ways to need less.
pub fn budget(request: &BudgetRequest<'_>) -> Result<Budget, MemoryError> {
    Planner::new(request.graph).budget(request)
}

/// The parts alone, for sliders and searches.
pub fn budget_sketch(request: &BudgetRequest<'_>) -> Result<Parts, MemoryError> {
    Planner::new(request.graph).sketch(request)
}

impl Planner<'_> {
    /// The whole budget, with fixes and elasticities.
    pub fn budget(&self, request: &BudgetRequest<'_>) -> Result<Budget, MemoryError> {
        let mut budget = self.budget_without_fixes(request)?;
        budget.elasticities = super::fixes::elasticities(self, request);
        budget.fixes = super::fixes::fixes(self, request, None);
        Ok(budget)
    }

    /// The budget without fixes and elasticities: what a slider asks for on every frame.
    pub fn budget_without_fixes(&self, request: &BudgetRequest<'_>) -> Result<Budget, MemoryError> {
        let (outcome, limit) = self.within_limit(request)?;
        let host_parts = parts::host(request, &outcome.outputs);
        let cliffs = super::cliffs::cliffs(self, request, &outcome);
        Ok(Budget {
            parts: outcome.parts,
            live_peak: outcome.live_peak,
            reserved_peak: outcome.reserved_peak,
            arena: outcome.arena,
            lower_bound: outcome.lower_bound,
            host_peak: host_parts.iter().map(|(_, p)| p.high).sum(),
            peak_step: outcome.peak_step,
            timeline: outcome.timeline,
            largest_batch: None,
            cliffs,
            elasticities: Elasticities::default(),
            fixes: Vec::new(),
            host_parts,
            tensors: outcome.tensors,
            tiles: outcome.tiles,
            limit,
        })
    }

    /// The plan under the limit, or the one that needs least and why.
    fn within_limit(
        &self,
        request: &BudgetRequest<'_>,
    ) -> Result<(super::planner::Outcome, Option<LimitAnswer>), MemoryError> {
        let answer = |met, least: Option<Bytes>, text| {
            request.memory_limit.map(|asked| LimitAnswer {
                asked,
                met,
                least,
                text,
            })
        };
        match self.outcome(request, true) {
            Err(MemoryError::LimitTooSmall {
                network,
                roi,
                least,
                limit,
            }) => {
                let smallest = BudgetRequest {
                    memory_limit: Some(least),
                    ..*request
                };
                let text = MemoryError::LimitTooSmall {
                    network,
                    roi,
                    least,
                    limit,
                };
                let text = Some(text.to_string());
                let outcome = self.outcome(&smallest, true)?;
                Ok((outcome, answer(false, Some(least), text)))
            }
            outcome => Ok((outcome?, answer(true, None, None))),
        }
    }

    /// Ways to need less, each with what it then requires; with a target, the least change that gets under it.
    pub fn fixes(&self, request: &BudgetRequest<'_>, target: Option<Bytes>) -> Vec<Fix> {
        super::fixes::fixes(self, request, target)
    }

    /// The same window in tiles, at the least work that gets under the target, or without a target with no work twice;
    /// `None` when that gains nothing. Takes longer than the other fixes: a search.
    pub fn tile_fix(&self, request: &BudgetRequest<'_>, target: Option<Bytes>) -> Option<Fix> {
        super::fixes::tile_fix(self, request, target)
    }
}
