//! Seam metrics kept with each run: windows are watched as they go by, and judged in words.

use super::PlannedRun;
use super::findings::output_index;
use crate::engine::Map;
use crate::exchange::result::{OutputMismatchRecord, SeamPlaneRecord, SeamRecord};
use crate::geometry::Axis;
use crate::network::Model;
use crate::network::manifest::Output;
use crate::review::curves::WindowScores;
use crate::review::seams::{MismatchMap, SeamMetrics, SeamWatch, judge};
use crate::tiling::stitch::OutputShape;

/// The same plan twice gives the same bits on our engines: one output voxel is one fixed chain of operations.
const FLOOR: f64 = 0.0;

/// Outputs that count for the verdict: class logits and segmentations; all where the manifest means none.
fn judged(model: &Model) -> Vec<usize> {
    let index = |o| output_index(&model.graph, o).ok();
    match &model.manifest.output {
        Output::Retinanet(head) => head.class_logits.iter().filter_map(index).collect(),
        Output::Segmentation(s) => index(&s.logits).into_iter().collect(),
        Output::None => (0..model.graph.outputs.len()).collect(),
    }
}

/// What is kept of a run's windows beside its metrics, to be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Maps of where windows disagree.
    pub maps: bool,
    /// Most bytes for what each window alone gave; 0 keeps nothing.
    pub window_bytes: usize,
}

/// What was kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeamViews {
    /// Outputs that count for the verdict.
    pub judged: Vec<usize>,
    /// Where windows disagree, for each of those that there was memory for.
    pub maps: Vec<MismatchMap>,
    /// What each window alone gave.
    pub windows: Option<WindowScores>,
}

/// Everything that looks at windows as they go by.
pub(super) struct Watches {
    pub(super) seams: Option<SeamWatch>,
    windows: Option<WindowScores>,
}

impl Watches {
    pub(super) fn new(model: &Model, planned: &PlannedRun, keep: Keep) -> Self {
        let seams = watch(model, planned);
        let judged = judged(model);
        let windows = shapes(planned).and_then(|shapes| {
            // The finest of the outputs that count.
            let size = |o: &usize| shapes.get(*o).map(|s| s.spatial.iter().product::<usize>());
            let o = judged.into_iter().rev().max_by_key(size)?;
            let each = matches!(model.manifest.output, Output::Retinanet(_));
            WindowScores::new(
                &planned.tiling,
                (o, shapes.get(o)?),
                each,
                keep.window_bytes,
            )
        });
        Self {
            seams: if keep.maps {
                seams.map(SeamWatch::with_maps)
            } else {
                seams
            },
            windows,
        }
    }

    pub(super) fn observe(&mut self, window: usize, output: usize, map: &Map<'_>) {
        if let Some(w) = &mut self.seams {
            w.observe(window, output, map);
        }
        if let Some(w) = &mut self.windows {
            w.observe(window, output, map);
        }
    }

    /// What was kept, once all windows have gone by.
    pub(super) fn views(&mut self, model: &Model) -> SeamViews {
        SeamViews {
            judged: judged(model),
            maps: self
                .seams
                .as_mut()
                .map(SeamWatch::take_maps)
                .unwrap_or_default(),
            windows: self.windows.take(),
        }
    }
}

/// A watch over the windows of a planned run.
fn watch(model: &Model, planned: &PlannedRun) -> Option<SeamWatch> {
    let judged = judged(model);
    SeamWatch::new(&planned.tiling, &shapes(planned)?, |o| judged.contains(&o))
}

/// What the network gives for one window; `None` where that is not one map over three axes for each output.
fn shapes(planned: &PlannedRun) -> Option<Vec<OutputShape>> {
    let shapes: Vec<OutputShape> = planned
        .schedule
        .outputs
        .iter()
        .filter_map(|&o| {
            let shape = planned.schedule.tensors.get(o)?.shape.as_slice();
            match *shape {
                [_, channels, a, b, c] => Some(OutputShape {
                    channels,
                    spatial: [a, b, c],
                }),
                _ => None,
            }
        })
        .collect();
    (shapes.len() == planned.schedule.outputs.len()).then_some(shapes)
}

/// What was seen, as the result file keeps it.
pub(super) fn record(model: &Model, planned: &PlannedRun, watch: Option<SeamWatch>) -> SeamRecord {
    let metrics = watch.map(SeamWatch::finish);
    let (verdict, words) = judge(
        &planned.exactness,
        planned.tiling.n_windows(),
        metrics.as_ref(),
    );
    let planes = metrics
        .as_ref()
        .map_or_else(|| bare(planned.tiling.seam_planes()), measured);
    let name = |o: usize| {
        let id = model.graph.outputs.get(o);
        let tensor = id.and_then(|id| model.graph.tensor(*id));
        tensor.map(|t| t.name.clone()).unwrap_or_default()
    };
    SeamRecord {
        verdict: Some(verdict.to_string()),
        words,
        determinism_floor: Some(FLOOR),
        planes,
        outputs: metrics
            .iter()
            .flat_map(|m| &m.outputs)
            .map(|o| OutputMismatchRecord {
                output: name(o.output),
                raw_mismatch_max: f64::from(o.max),
                raw_mismatch_mean: o.mean,
                raw_mismatch_p99: f64::from(o.p99),
                n: o.n,
                judged: o.judged,
            })
            .collect(),
        one_in: metrics.map(|m| m.one_in),
    }
}

fn bare(planes: [Vec<usize>; 3]) -> Vec<SeamPlaneRecord> {
    Axis::ALL
        .into_iter()
        .zip(planes)
        .flat_map(|(axis, at)| at.into_iter().map(move |p| SeamPlaneRecord::at(axis, p)))
        .collect()
}

fn measured(m: &SeamMetrics) -> Vec<SeamPlaneRecord> {
    m.planes
        .iter()
        .map(|p| SeamPlaneRecord {
            raw_mismatch_max: p.max.map(f64::from),
            raw_mismatch_mean: p.mean,
            ..SeamPlaneRecord::at(p.axis, p.at)
        })
        .collect()
}
