//! The whole path: prepare, plan, run windows, stitch, find, and say what happened.

use super::findings::{self, Spaces};
use super::seams::{Keep, SeamViews, Watches};
use super::{LabelMask, PlannedRun, RunSpec, StudyError, plan_run, prepare, seams};
use crate::engine::sliding::{self, Options, PreparedVolume};
use crate::engine::{Engine, EngineMemory, Map};
use crate::exchange::result::{
    FORMAT, HostRecord, MemoryRecord, NetworkRecord, PlanRecord, RunResult, SeamRecord, StepRecord,
    TilesRecord, VolumeRecord, outputs_sha256, volume_sha256,
};
use crate::geometry::Affine;
use crate::jobs::Control;
use crate::memory::budget::BudgetRequest;
use crate::memory::parts::{LOADED, host as host_parts};
use crate::network::Model;
use crate::network::manifest::Output;
use crate::tiling::PlanWarning;
use crate::tiling::stitch::Stitched;
use crate::units::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::host::Watch;
use super::open::{NOT_FINITE, Opened};
use super::planned::batch;

/// A finished run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What the result file holds.
    pub result: RunResult,
    /// The stitched outputs over the prepared volume without padding, in output order and the tensor's axis order.
    pub outputs: Vec<Stitched>,
    /// The plan that ran.
    pub planned: PlannedRun,
    /// Prepared voxel index to patient space (LPS, mm).
    pub prepared_affine: Affine,
    /// The segmentation, where the manifest speaks of one.
    pub labels: Option<LabelMask>,
    /// What was kept of the windows to be looked at.
    pub views: SeamViews,
}

/// Runs `model` over an opened study. Refuses before anything runs what the guard refuses; `control` counts windows.
pub fn run(
    study: &Opened,
    model: &Model,
    spec: &RunSpec,
    engine: &mut dyn Engine,
    control: &Control,
) -> Result<Ran, StudyError> {
    run_keeping(study, model, spec, engine, control, Keep::default())
}

/// As [`run`], keeping of the windows what is asked for.
pub fn run_keeping(
    study: &Opened,
    model: &Model,
    spec: &RunSpec,
    engine: &mut dyn Engine,
    control: &Control,
    keep: Keep,
) -> Result<Ran, StudyError> {
    if let Some(reason) = &study.refusal {
        return Err(StudyError::Unusable {
            reason: reason.clone(),
        });
    }
    let weights = model.weights()?;
    let planned = plan_run(&study.volume, model, spec)?;
    let start = Instant::now();
    let host_watch = Watch::begin();
    let prepared = prepare(
        &study.volume,
        &model.manifest.input,
        planned.facts.total_stride,
        control,
    )?;
    let options = Options {
        batch: batch(spec, &planned.tiling),
        precision: spec.precision,
        sigma_scale: model.manifest.windows.sigma_scale,
        memory_limit: spec.memory_limit,
    };
    let graph = Arc::new(model.graph.clone());
    let volume = PreparedVolume {
        extent: prepared.padded,
        values: &prepared.values,
    };
    let mut watches = Watches::new(model, &planned, keep);
    let mut look = |window: usize, output: usize, map: Map<'_>| {
        watches.observe(window, output, &map);
    };
    let slid = sliding::run_observed(
        engine,
        (&graph, weights),
        (volume, &planned.tiling),
        &options,
        control,
        Some(&mut look),
    )?;
    let views = watches.views(model);
    let seen = seams::record(model, &planned, watches.seams);
    control.check()?;
    let spaces = Spaces {
        prepared: prepared.affine,
        loaded: study.volume.affine,
        extent: prepared.extent,
    };
    let found = find(model, &study.warnings, slid.outputs, &planned, &spaces)?;
    let engine_name = engine.describe().id;
    let added = host_planned(model, spec, &planned);
    let host = host_watch.map(|w| w.record(added));
    let memory = memory_record(slid.memory, &planned, &engine.counted(), host);
    let result = record(
        (study, model, spec),
        &planned,
        &found,
        (engine_name, memory, seen),
        start.elapsed().as_secs_f64(),
        prepared.affine,
    );
    Ok(Ran {
        result,
        outputs: found.outputs,
        planned,
        prepared_affine: prepared.affine,
        labels: found.labels,
        views,
    })
}

struct Found {
    detections: Vec<crate::detect::Detection>,
    labels: Option<LabelMask>,
    outputs: Vec<Stitched>,
    hash: String,
    warnings: Vec<PlanWarning>,
}

/// Where to look when logits are not numbers: at the volume where it holds such voxels, else at the model.
fn suspect(volume_warnings: &[PlanWarning]) -> &'static str {
    if volume_warnings.iter().any(|w| w.code == NOT_FINITE) {
        "the volume itself holds voxels that are not finite numbers; look at the volume"
    } else {
        "look at the weights and the intensity in the manifest"
    }
}

fn find(
    model: &Model,
    volume_warnings: &[PlanWarning],
    outputs: Vec<Stitched>,
    planned: &PlannedRun,
    spaces: &Spaces,
) -> Result<Found, StudyError> {
    let (graph, plan) = (&model.graph, &planned.tiling);
    let axes = plan.axes;
    let mut warnings = Vec::new();
    let mut detections = Vec::new();
    if let Output::Retinanet(head) = &model.manifest.output {
        let found = findings::detections(graph, head, &outputs, plan, spaces)?;
        detections = found.detections;
        if found.nan_logits > 0 {
            warnings.push(PlanWarning::new(
                "nan-logits",
                format!(
                    "{} class logits are not numbers and were left out: {}",
                    found.nan_logits,
                    suspect(volume_warnings)
                ),
            ));
        }
    }
    let covered = if plan.spec.layout == crate::tiling::Layout::Aligned {
        plan.padded
    } else {
        plan.volume
    };
    let (covered, kept) = (
        axes.reorder(covered.to_array()),
        axes.reorder(spaces.extent.to_array()),
    );
    let outputs: Vec<Stitched> = outputs
        .into_iter()
        .map(|o| o.without_end_padding(covered, kept))
        .collect();
    let labels = match &model.manifest.output {
        Output::Segmentation(s) => {
            let logits = &outputs[findings::output_index(graph, &s.logits)?];
            (logits.spatial == kept).then(|| LabelMask::of(logits, axes, spaces.extent, &s.labels))
        }
        Output::Retinanet(_) | Output::None => None,
    };
    Ok(Found {
        detections,
        labels,
        hash: outputs_sha256(outputs.iter().map(|o| o.values.as_slice())),
        outputs,
        warnings,
    })
}

/// What the plan says that a run adds to the host: the arena and all that the budget counts but the volume, which was there.
fn host_planned(model: &Model, spec: &RunSpec, planned: &PlannedRun) -> Bytes {
    let request = BudgetRequest {
        volume: Some(planned.tiling.volume),
        batch: batch(spec, &planned.tiling),
        precision: spec.precision,
        axes: model.manifest.input.axes,
        ..BudgetRequest::new(&model.graph, planned.tiling.roi)
    };
    let outputs: Vec<Vec<usize>> = planned
        .schedule
        .outputs
        .iter()
        .filter_map(|at| planned.schedule.tensors.get(*at))
        .map(|t| t.shape.clone())
        .collect();
    let added: Bytes = host_parts(&request, &outputs)
        .iter()
        .filter(|(name, _)| name != LOADED)
        .map(|(_, part)| part.high)
        .sum();
    added.saturating_add(planned.schedule.arena)
}

fn memory_record(
    memory: EngineMemory,
    planned: &PlannedRun,
    counted: &[Bytes],
    host: Option<HostRecord>,
) -> MemoryRecord {
    let schedule = &planned.schedule;
    let step = |(p, counted): (&crate::memory::schedule::TimelinePoint, &Bytes)| StepRecord {
        node: p.name.clone(),
        planned: p.live,
        counted: *counted,
    };
    MemoryRecord {
        planned: memory.planned,
        allocated: memory.allocated,
        measured_peak: memory.measured_peak,
        tiles: schedule.tiles.as_ref().map(|t| TilesRecord {
            untiled: t.untiled,
            recompute_percent: t.recompute_percent,
        }),
        steps: schedule.timeline.iter().zip(counted).map(step).collect(),
        host,
    }
}

fn record(
    (study, model, spec): (&Opened, &Model, &RunSpec),
    planned: &PlannedRun,
    found: &Found,
    (engine, memory, seams): (String, MemoryRecord, SeamRecord),
    seconds: f64,
    prepared_affine: Affine,
) -> RunResult {
    let volume = &study.volume;
    let mut warnings = study.warnings.clone();
    warnings.extend(planned.warnings.iter().cloned());
    warnings.extend(found.warnings.iter().cloned());
    let sizes = VolumeRecord {
        loaded: volume.extent,
        prepared: planned.size.extent,
        spacing_mm: planned.size.spacing_mm,
        loaded_affine: volume.affine,
        prepared_affine,
    };
    let sigma_scale = model.manifest.windows.sigma_scale;
    RunResult {
        format: FORMAT,
        study: study.name.clone(),
        series: study.series.clone(),
        volume_sha256: Some(volume_sha256(volume.extent, &volume.voxels)),
        network: NetworkRecord {
            name: model.graph.name.clone(),
            sha256: model.sha256(),
            source: None,
        },
        plan: PlanRecord::new(
            &planned.tiling,
            &sizes,
            sigma_scale,
            batch(spec, &planned.tiling),
        ),
        engine,
        precision: spec.precision,
        n_windows: planned.tiling.n_windows(),
        n_passes: planned.exactness.n_passes,
        seconds,
        memory,
        detections: found.detections.clone(),
        box_selector: match &model.manifest.output {
            Output::Retinanet(head) => Some((&head.box_selector).into()),
            Output::Segmentation(_) | Output::None => None,
        },
        labels: found
            .labels
            .as_ref()
            .map_or_else(BTreeMap::new, LabelMask::counts),
        label_names: found
            .labels
            .as_ref()
            .map_or_else(Vec::new, |m| m.names.clone()),
        labels_file: None,
        kept_outputs: Vec::new(),
        outputs_sha256: Some(found.hash.clone()),
        exactness: planned.exactness.clone(),
        seams,
        warnings,
    }
}
