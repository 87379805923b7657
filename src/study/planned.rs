//! What a run will do, worked out before it: sizes, windows, schedule, forecast, warnings.

use super::prepare::{PreparedSize, prepared_size_of};
use super::{StudyError, guard};
use crate::memory::{Precision, Schedule, tiles};
use crate::network::{Model, TensorKind, facts};
use crate::tiling::{self, Exactness, Facts, PlanWarning, TilingPlan, TilingSpec};
use crate::units::Bytes;
use crate::volume::Volume;

/// How a study is to be run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunSpec {
    /// The windows.
    pub tiling: TilingSpec,
    /// Windows per pass of the network (`sw_batch_size`).
    pub batch: usize,
    /// How values are stored.
    pub precision: Precision,
    /// Whether one window may cover the whole volume, for this run only.
    pub allow_single_pass: bool,
    /// Most bytes of the arena: larger windows run in tiles. `None`: with whole maps, whatever that takes.
    pub memory_limit: Option<Bytes>,
}

impl RunSpec {
    /// What a model's manifest proposes.
    pub fn of(model: &Model) -> Self {
        Self {
            tiling: TilingSpec::from(&model.manifest.windows),
            batch: 1,
            precision: Precision::Fp32,
            allow_single_pass: false,
            memory_limit: None,
        }
    }
}

/// A run, planned.
#[derive(Clone, Debug)]
pub struct PlannedRun {
    /// Sizes of the prepared volume.
    pub size: PreparedSize,
    /// What placement knows of the network.
    pub facts: Facts,
    /// The windows.
    pub tiling: TilingPlan,
    /// What runs on each window; its arena is what the engine allocates.
    pub schedule: Schedule,
    /// What windows will do to the bits.
    pub exactness: Exactness,
    /// What is odd.
    pub warnings: Vec<PlanWarning>,
}

/// Plans a run of `model` over `volume`. Refuses what the guard refuses.
pub fn plan_run(volume: &Volume, model: &Model, spec: &RunSpec) -> Result<PlannedRun, StudyError> {
    one_channel(model)?;
    let axes = model.manifest.input.axes;
    let facts = Facts::of(&facts::of(&model.graph)?, axes);
    let size = prepared_size_of(volume, &model.manifest.input, facts.total_stride)?;
    let tiling = tiling::plan(&spec.tiling, size.padded, &facts)?;
    let roi = axes.reorder(tiling.roi.to_array());
    let schedule = tiles::plan_under(
        &model.graph,
        &roi,
        batch(spec, &tiling),
        spec.precision,
        spec.memory_limit,
    )?;
    guard(&tiling, schedule.arena, spec.allow_single_pass)?;
    let exactness = tiling::forecast(&tiling, &facts);
    let warnings = tiling::warnings(&tiling, &facts, Some(size.spacing_mm));
    Ok(PlannedRun {
        size,
        facts,
        tiling,
        schedule,
        exactness,
        warnings,
    })
}

/// Windows per pass: as asked for, and never more than there are, for `sw_batch_size` only groups windows.
pub(super) fn batch(spec: &RunSpec, tiling: &TilingPlan) -> usize {
    spec.batch.clamp(1, tiling.n_windows().max(1))
}

fn one_channel(model: &Model) -> Result<(), StudyError> {
    let graph = &model.graph;
    let refuse = |found: String| {
        Err(StudyError::NotForVolumes {
            network: graph.name.clone(),
            found,
        })
    };
    if graph.spatial_dims != 3 {
        return refuse(format!("tensors over {} axes", graph.spatial_dims));
    }
    match graph.inputs.as_slice() {
        [one] => match graph.tensor(*one).map(|t| &t.kind) {
            Some(TensorKind::Input { channels: 1 }) => Ok(()),
            Some(TensorKind::Input { channels }) => refuse(format!("{channels} input channels")),
            _ => refuse("an input that is none".to_owned()),
        },
        more => refuse(format!("{} inputs", more.len())),
    }
}
