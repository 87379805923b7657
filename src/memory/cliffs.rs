//! Named traps of a plan, each with its numbers: sizes at which a runtime changes its ways, and plans that quietly do
//! something else than they say.

use super::budget::{BudgetRequest, Cliff, Mode, Runtime, StitchOn};
use super::parts;
use super::planner::{Outcome, Planner};
use crate::geometry::Extent;
use crate::units::{Bytes, with_thousands};

/// All traps of this plan.
pub(super) fn cliffs(
    planner: &Planner<'_>,
    request: &BudgetRequest<'_>,
    outcome: &Outcome,
) -> Vec<Cliff> {
    let mut found = Vec::new();
    let mut add = |code: &str, text: String| {
        found.push(Cliff {
            code: code.to_owned(),
            text,
        });
    };
    if let Some((node, elements, bytes)) = outcome
        .workspace
        .past_2_31
        .iter()
        .max_by_key(|(_, _, bytes)| *bytes)
    {
        add(
            "int32-index",
            format!(
                "The input of {node} has {} elements, past 2^31: PyTorch then builds the convolution's columns in memory and asks for {} at once.",
                with_thousands(*elements),
                Bytes(*bytes)
            ),
        );
    }
    if let Some(text) = stride_text(planner, request) {
        add("stride", text);
    }
    if request.mode == Mode::Inference {
        window_cliffs(request, &mut add);
        let (scores, _) = parts::stitched(request, &outcome.outputs);
        accumulator_cliffs(request, outcome, scores, &mut add);
    }
    found
}

/// Axes of the roi that the total stride does not divide.
fn stride_text(planner: &Planner<'_>, request: &BudgetRequest<'_>) -> Option<String> {
    let roi = parts::spatial(request);
    let names = axis_names(request);
    let bad: Vec<String> = roi
        .iter()
        .zip(&planner.total_stride)
        .zip(names)
        .filter(|((r, s), _)| **s > 1 && *r % *s != 0)
        .map(|((r, s), axis)| {
            format!(
                "{axis} = {r} is no multiple of {s} (next {} or {})",
                r / s * s,
                r.div_ceil(*s) * s
            )
        })
        .collect();
    (!bad.is_empty()).then(|| {
        format!(
            "The total stride does not divide the roi: {}. MONAI runs such a roi without a word, with anchors and features shifted against each other.",
            bad.join("; ")
        )
    })
}

pub(super) fn axis_names(request: &BudgetRequest<'_>) -> Vec<&'static str> {
    let mut names = vec!["x", "y", "z"];
    names.truncate(request.graph.spatial_dims);
    if request.axes == crate::network::manifest::Axes::Zyx {
        names.reverse();
    }
    names
}

fn voxels(e: Extent) -> u64 {
    e.to_array()
        .iter()
        .fold(1, |n, d| n.saturating_mul(*d as u64))
}

fn window_cliffs(request: &BudgetRequest<'_>, add: &mut impl FnMut(&str, String)) {
    let Some(volume) = request.volume else {
        return;
    };
    let roi = request.roi_size;
    let covers = roi.x >= volume.x && roi.y >= volume.y && roi.z >= volume.z;
    if covers {
        add(
            "window-covers-volume",
            format!(
                "One window of {roi} covers the whole volume of {volume}: this is a single pass, without any seam, and its memory grows with the study."
            ),
        );
    } else if request.runtime == Runtime::Pytorch && voxels(volume) < voxels(roi) {
        add(
            "monai-skips-windows",
            format!(
                "The volume of {volume} has fewer voxels ({}) than the roi of {roi} ({}): MONAI's RetinaNetInferer then skips windowing and runs one pass over the whole volume.",
                with_thousands(voxels(volume)),
                with_thousands(voxels(roi))
            ),
        );
    }
}

fn accumulator_cliffs(
    request: &BudgetRequest<'_>,
    outcome: &Outcome,
    scores: Bytes,
    add: &mut impl FnMut(&str, String),
) {
    let channels: usize = outcome.outputs.iter().filter_map(|o| o.get(1)).sum();
    let network = outcome.parts.activations.high;
    if request.stitch_on == StitchOn::Card && scores > network {
        add(
            "stitched-outputs",
            format!(
                "Stitched outputs of {channels} channels take {scores} on the card, more than the network itself ({network}): stitch on the host."
            ),
        );
    }
    let map = parts::importance(request, &outcome.outputs);
    if map > Bytes::ZERO {
        add(
            "gaussian-map",
            format!(
                "Gaussian blending keeps an importance map of {map} on the card, one value for each voxel of a window's outputs."
            ),
        );
    }
    if scores >= Bytes::gib(1) {
        add(
            "float64-export",
            format!(
                "Outputs exported as float64 take another {} of host memory; export labels or float32.",
                Bytes(scores.0.saturating_mul(2))
            ),
        );
    }
}
