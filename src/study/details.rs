//! What is known of where a study's voxels lie: of DICOM by its series, of any other volume by its file.

use super::{Opened, StudyKind};
use crate::exchange::nifti;
use crate::geometry::{Affine, cross, dot};
use crate::series::Details;
use crate::tiling::PlanWarning;

impl Opened {
    /// Facts as the study's own headers tell them.
    pub fn details(&self) -> Details {
        let source = match &self.kind {
            StudyKind::Dicom { series } => return series.details(),
            StudyKind::File if self.spacing_known() => "the file's header",
            StudyKind::File => "unknown",
            StudyKind::Phantom { .. } => "generated",
        };
        let assumed = |w: &PlanWarning| w.code == nifti::ORIENTATION_ASSUMED;
        Details {
            spacing_source: [source.to_owned(), source.to_owned()],
            orientation_known: !self.warnings.iter().any(assumed),
            tilt_degrees: self.spacing_known().then(|| tilt(&self.volume.affine)),
            ..Details::default()
        }
    }
}

/// Lean of the slices against their step in degrees, down the columns and along the rows.
fn tilt(affine: &Affine) -> [f64; 2] {
    let [row, column, step] = affine.directions();
    // A mirrored volume steps against its normal and does not lean for that.
    let up = dot(step, cross(row, column)).abs();
    [column, row].map(|along| {
        let degrees = dot(step, along).atan2(up).to_degrees();
        // No minus zero.
        if degrees.abs() < 5e-3 { 0.0 } else { degrees }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lean_is_told_in_degrees_and_a_mirror_is_none() {
        let mut affine = Affine::axis_aligned([0.5, 0.5, -2.0]);
        assert_eq!(tilt(&affine), [0.0, 0.0]);
        affine.step[2] = [0.0, 2.0, 2.0];
        let [down, side] = tilt(&affine);
        assert!((down - 45.0).abs() < 1e-9 && side == 0.0, "{down} {side}");
    }
}
