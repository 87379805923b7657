//! Seam metrics kept with each run: windows are watched as they go by, and judged in words.

use super::PlannedRun;
use super::findings::output_index;
use crate::exchange::result::{OutputMismatchRecord, SeamPlaneRecord, SeamRecord};
use crate::geometry::Axis;
use crate::network::Model;
use crate::network::manifest::Output;
use crate::review::seams::{SeamMetrics, SeamWatch, judge};
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

/// A watch over the windows of a planned run.
pub(super) fn watch(model: &Model, planned: &PlannedRun) -> Option<SeamWatch> {
    let judged = judged(model);
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
    if shapes.len() != planned.schedule.outputs.len() {
        return None;
    }
    SeamWatch::new(&planned.tiling, &shapes, |o| judged.contains(&o))
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
