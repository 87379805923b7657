//! From stitched head maps to detections in the loaded volume and in patient space.

use super::StudyError;
use crate::detect::{self, AnchorSpec, BoxSelector, Candidate, Detection, LevelMaps};
use crate::geometry::{Affine, AffineError, BoxF, Extent};
use crate::network::Graph;
use crate::network::manifest::{OutputRef, Retinanet};
use crate::tiling::stitch::Stitched;
use crate::tiling::{AxesOrder, TilingPlan};

/// The spaces that a box passes through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spaces {
    /// Prepared voxel index to patient space.
    pub(super) prepared: Affine,
    /// Loaded voxel index to patient space.
    pub(super) loaded: Affine,
    /// Prepared size without padding.
    pub(super) extent: Extent,
}

/// Which of the network's outputs a manifest means.
pub(super) fn output_index(graph: &Graph, wanted: &OutputRef) -> Result<usize, StudyError> {
    let names: Vec<&str> = graph
        .outputs
        .iter()
        .filter_map(|id| graph.tensor(*id).map(|t| t.name.as_str()))
        .collect();
    let (index, text) = match wanted {
        OutputRef::Position(i) => (Some(*i).filter(|i| *i < names.len()), i.to_string()),
        OutputRef::Name(n) => (names.iter().position(|m| m == n), format!("\"{n}\"")),
    };
    index.ok_or_else(|| StudyError::NoSuchOutput {
        wanted: text,
        network: graph.name.clone(),
        found: format!("{} outputs: {}", names.len(), names.join(", ")),
    })
}

/// What the heads found.
pub(super) struct Found {
    pub(super) detections: Vec<Detection>,
    pub(super) nan_logits: usize,
}

/// Decodes and suppresses once over the whole image, then brings every box home.
pub(super) fn detections(
    graph: &Graph,
    head: &Retinanet,
    outputs: &[Stitched],
    plan: &TilingPlan,
    spaces: &Spaces,
) -> Result<Found, StudyError> {
    let axes = plan.axes;
    let mut levels = Vec::with_capacity(head.class_logits.len());
    for (logits, regression) in head.class_logits.iter().zip(&head.box_regression) {
        let logits = &outputs[output_index(graph, logits)?];
        let regression = &outputs[output_index(graph, regression)?];
        levels.push(LevelMaps {
            grid: logits.spatial,
            class_logits: &logits.values,
            box_regression: &regression.values,
        });
    }
    let covered = if plan.pad_before == [0; 3] && plan.spec.layout == crate::tiling::Layout::Aligned
    {
        plan.padded
    } else {
        plan.volume
    };
    let selector = BoxSelector::from(&head.box_selector);
    let found = detect::candidates(
        &levels,
        &AnchorSpec::of(&head.anchors, axes),
        head.labels.len(),
        axes.reorder(covered.to_array()),
        axes.reorder(spaces.extent.to_array()),
        &selector,
    )?;
    let kept = detect::suppress(
        &found.boxes,
        selector.nms_thresh,
        selector.detections_per_img,
    );
    let seams = plan.seam_planes();
    let detections = kept
        .into_iter()
        .map(|i| {
            let c = &found.boxes[i];
            let label = head.labels.get(c.label).cloned().unwrap_or_default();
            home(c, label, plan, &seams, spaces)
        })
        .collect::<Result<_, AffineError>>()?;
    Ok(Found {
        detections,
        nan_logits: found.nan_logits,
    })
}

fn xyz(corners: [f32; 6], axes: AxesOrder) -> [f32; 6] {
    let [a, b, c, d, e, f] = corners;
    let ([x0, y0, z0], [x1, y1, z1]) = (axes.reorder([a, b, c]), axes.reorder([d, e, f]));
    [x0, y0, z0, x1, y1, z1]
}

/// A box's edges lie half a voxel off the voxel centres that an affine speaks of.
fn home(
    candidate: &Candidate,
    label: String,
    plan: &TilingPlan,
    seams: &[Vec<usize>; 3],
    spaces: &Spaces,
) -> Result<Detection, AffineError> {
    let prepared = BoxF(xyz(candidate.corners, plan.axes));
    let spacing = spaces.prepared.spacing_mm();
    let center = prepared.center().map(f64::from);
    let box_in_volume = if spaces.prepared == spaces.loaded {
        prepared
    } else {
        moved(&prepared, spaces)?
    };
    let loaded_spacing = spaces.loaded.spacing_mm();
    let edges = box_in_volume.size();
    let nearest = (0..3)
        .flat_map(|a| {
            let at = center[a];
            let mm = spacing[a];
            seams[a].iter().map(move |&p| (p as f64 - at).abs() * mm)
        })
        .min_by(f64::total_cmp);
    Ok(Detection {
        label,
        score: candidate.score,
        box_in_volume,
        center_in_patient: spaces.prepared.to_patient(center.map(|c| c - 0.5)),
        size_mm: std::array::from_fn(|a| f64::from(edges[a]) * loaded_spacing[a]),
        window_idx: plan.window_at(center),
        seam_distance: nearest,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "boxes are float32 voxels of the loaded volume"
)]
fn moved(b: &BoxF, spaces: &Spaces) -> Result<BoxF, AffineError> {
    let (mut low, mut high) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
    for corner in 0..8_usize {
        let index = std::array::from_fn(|a| {
            let end = if corner >> a & 1 == 0 { a } else { a + 3 };
            f64::from(b.0[end]) - 0.5
        });
        let there = spaces.loaded.to_index(spaces.prepared.to_patient(index))?;
        for a in 0..3 {
            low[a] = low[a].min(there[a] + 0.5);
            high[a] = high[a].max(there[a] + 0.5);
        }
    }
    Ok(BoxF(std::array::from_fn(|i| {
        if i < 3 {
            low[i] as f32
        } else {
            high[i - 3] as f32
        }
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiling::{self, Blend, Facts, Layout, TilingSpec};

    fn plan() -> TilingPlan {
        let spec = TilingSpec {
            roi_size: Extent::new(32, 0, 0),
            overlap: [0.25; 3],
            blend: Blend::Constant,
            layout: Layout::Monai,
        };
        let facts = Facts::unknown(AxesOrder::Zyx);
        tiling::plan(&spec, Extent::new(64, 20, 6), &facts).unwrap()
    }

    #[test]
    fn a_box_comes_home_through_another_spacing_and_a_turned_axis() {
        let prepared = Affine::axis_aligned([2.0, 1.0, 1.0]);
        // The loaded volume has half the step along x and runs the other way along y.
        let loaded = Affine {
            step: [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]],
            origin: [0.0, 19.0, 0.0],
        };
        let spaces = Spaces {
            prepared,
            loaded,
            extent: Extent::new(64, 20, 6),
        };
        let c = Candidate {
            level: 0,
            index_in_level: 0,
            label: 0,
            score: 0.5,
            corners: [1.0, 2.0, 10.0, 3.0, 6.0, 14.0],
        };
        let seams = plan().seam_planes();
        let d = home(&c, "nodule".to_owned(), &plan(), &seams, &spaces).unwrap();
        // Prepared x 10..14 is 19..27 mm on a scale whose voxel edges lie half a voxel before centres.
        assert_eq!(d.box_in_volume.0, [19.5, 14.0, 1.0, 27.5, 18.0, 3.0]);
        assert_eq!(d.size_mm, [8.0, 4.0, 2.0]);
        assert_eq!(d.center_in_patient, [23.0, 3.5, 1.5]);
        assert_eq!(d.window_idx, Some(0));
        assert_eq!(
            d.seam_distance,
            Some(24.0),
            "x 12 is 12 voxels of 2 mm from the seam at 24"
        );
    }
}
