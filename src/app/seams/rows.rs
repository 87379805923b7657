//! The seam table: every seam of the run (or of the plan, before one), worst first.

use super::field::seam_place;
use super::{DiffFound, Peak};
use crate::app::derived::SeamPlane;
use crate::app::state::Outcome;
use crate::exchange::result::SeamPlaneRecord;
use crate::geometry::Axis;
use crate::review::Verdict;
use crate::review::seams::plane_verdict;
use crate::tiling::ExactnessVerdict;

/// One seam as the table shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct SeamRow {
    /// The axis across it, and before which voxel it lies, in the prepared volume; what is `None` is not known.
    pub record: SeamPlaneRecord,
    /// Where it lies in the loaded volume.
    pub place: Option<SeamPlane>,
    /// The verdict on it alone.
    pub verdict: Option<Verdict>,
    /// The worst place near it, in voxels of the loaded volume.
    pub peak: Option<[f64; 3]>,
    /// Findings of the run (by place in its list) that it goes through.
    pub boxes: Vec<usize>,
}

impl SeamRow {
    /// What tells it from the others.
    pub const fn id(&self) -> (Axis, usize) {
        (self.record.axis, self.record.at)
    }

    /// The figure that the table is sorted by: the difference from a reference, else the raw mismatch.
    pub fn worst(&self) -> Option<f64> {
        self.record.diff_max.or(self.record.raw_mismatch_max)
    }

    /// The verdict in words.
    pub const fn word(&self) -> &'static str {
        match self.verdict {
            Some(Verdict::Bitwise) => "bitwise",
            Some(Verdict::Float) => "rounding",
            Some(Verdict::Tolerance) => "harmless",
            Some(Verdict::Seam) => "differs",
            Some(Verdict::Other) => "no numbers",
            None => "not known",
        }
    }
}

/// Seams of a plan, of which nothing but the place is known.
pub(super) fn planned(planes: &[Vec<usize>; 3], places: &[SeamPlane]) -> Vec<SeamRow> {
    let all = Axis::ALL
        .into_iter()
        .flat_map(|axis| planes[axis.index()].iter().map(move |at| (axis, *at)));
    all.zip(places)
        .map(|((axis, at), place)| SeamRow {
            record: SeamPlaneRecord::at(axis, at),
            place: Some(*place),
            verdict: None,
            peak: None,
            boxes: Vec::new(),
        })
        .collect()
}

/// Seams of a run, worst first; `threshold` leaves out findings.
pub(super) fn measured(
    outcome: &Outcome,
    differed: Option<&DiffFound>,
    threshold: f32,
) -> Vec<SeamRow> {
    let result = &outcome.result;
    let exact = result.exactness.verdict == ExactnessVerdict::Exact;
    let seams = differed.map_or(&result.seams, |d| &d.seams);
    let of = |peaks: &[Peak], p: &SeamPlaneRecord| {
        let found = peaks.iter().find(|k| (k.axis, k.at) == (p.axis, p.at));
        found.map(|k| k.loaded)
    };
    let mut rows: Vec<SeamRow> = seams
        .planes
        .iter()
        .map(|p| {
            let place = seam_place(&result.plan, p.axis, p.at);
            let place = place.map(|(axis, at)| SeamPlane { axis, at });
            let reference = differed.and_then(|d| of(&d.peaks, p));
            SeamRow {
                verdict: plane_verdict(exact, p.raw_mismatch_max, p.diff_max),
                peak: reference.or_else(|| of(&outcome.maps.peaks, p)),
                boxes: place.map_or_else(Vec::new, |s| cut(outcome, s, threshold)),
                place,
                record: p.clone(),
            }
        })
        .collect();
    rows.sort_by(|x, y| {
        let worst = |r: &SeamRow| r.worst().unwrap_or(-1.0);
        worst(y).total_cmp(&worst(x)).then(x.id().cmp(&y.id()))
    });
    rows
}

/// Findings whose box a seam goes through or touches.
fn cut(outcome: &Outcome, seam: SeamPlane, threshold: f32) -> Vec<usize> {
    let a = seam.axis.index();
    let list = outcome.detections().iter().enumerate();
    list.filter(|(_, d)| d.score >= threshold)
        .filter(|(_, d)| {
            let b = d.box_in_volume.0;
            f64::from(b[a]) - 1.0 <= seam.at && seam.at <= f64::from(b[a + 3]) + 1.0
        })
        .map(|(i, _)| i)
        .collect()
}
