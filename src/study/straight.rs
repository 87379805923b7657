//! A study on a straight grid, as the user's choice: what leans or has gaps is resampled, and what that did is said.

use super::{Opened, StudyError, StudyKind};
use crate::geometry::{Affine, Extent};
use crate::jobs::Control;
use crate::series::{SeriesInfo, SliceInfo, WarningCode};
use crate::tiling::PlanWarning;
use crate::units::with_thousands;
use crate::volume::straight::{StraightError, StraightGrid, Straightened, is_straight};
use std::sync::Arc;

/// The code of the warning that a volume was resampled to a straight grid.
pub const STRAIGHT_GRID: &str = "straight-grid";
/// The code of the warning that the axes of a volume file do not stand at right angles.
pub(super) const SHEARED: &str = "sheared";

/// Size and affine that a series will have on a straight grid, before a voxel is read; `None` where none can be made.
pub fn straight_size(info: &SeriesInfo) -> Option<(Extent, Affine)> {
    if !info.straightens() {
        return None;
    }
    let positions = info.uneven_positions();
    let grid = StraightGrid::of(info.size, &info.affine(), positions.as_deref()).ok()?;
    Some((grid.extent, grid.affine))
}

/// Says that a volume file's axes lean, where they do.
pub(super) fn sheared(affine: &Affine) -> Option<PlanWarning> {
    (!is_straight(affine)).then(|| {
        PlanWarning::new(
            SHEARED,
            "the volume's axes do not stand at right angles (a sheared volume): positions and boxes stay right, and a straight grid can be resampled",
        )
    })
}

impl Opened {
    /// Whether a straight grid would differ from the volume as stored and can be made.
    pub fn straightens(&self) -> bool {
        match &self.kind {
            StudyKind::Dicom { series } => series.straightens(),
            StudyKind::File => !is_straight(&self.volume.affine),
            StudyKind::Phantom { .. } => false,
        }
    }

    /// Whether nothing of it leans, has a gap or an uneven step, as far as its spacing tells.
    fn is_straight_already(&self) -> bool {
        let told = match &self.kind {
            StudyKind::Dicom { series } => series.spacing_mm.iter().all(Option::is_some),
            StudyKind::File | StudyKind::Phantom { .. } => true,
        };
        told && !self.straightens()
    }

    /// The study untouched, and told as straight; what forbids it on a straight grid still does.
    /// Of a study that is refused the reason is enough.
    fn untouched(mut self, refusal: Option<String>) -> Self {
        if refusal.is_none() {
            self.warnings.push(PlanWarning::new(
                STRAIGHT_GRID,
                "the volume lies on a straight grid already: nothing was resampled",
            ));
        }
        self.refusal = refusal;
        self
    }

    /// The study resampled (linear) to a straight grid that covers it, with the grid told in a warning.
    /// What lies on one already comes back as it is, and that is told too.
    pub fn on_straight_grid(self, control: &Control) -> Result<Self, StudyError> {
        if self.warnings.iter().any(|w| w.code == STRAIGHT_GRID) {
            return Ok(self);
        }
        let (positions, refusal) = match &self.kind {
            StudyKind::Dicom { series } => {
                // No grid mends a slice that could not be decoded.
                let lost = self
                    .warnings
                    .iter()
                    .find(|w| w.code == WarningCode::CannotDecode.as_str())
                    .map(|w| w.text.clone());
                let refusal = series.refusal_on_straight_grid().or(lost);
                (series.uneven_positions(), refusal)
            }
            _ => (None, self.refusal.clone()),
        };
        if !self.volume.z_spacing_known {
            return Err(StudyError::Unusable {
                reason: "it does not say how far its slices are apart, so no straight grid can be made of it".to_owned(),
            });
        }
        if self.is_straight_already() {
            return Ok(self.untouched(refusal));
        }
        let grid = StraightGrid::of(
            self.volume.extent,
            &self.volume.affine,
            positions.as_deref(),
        )?;
        if grid.is_copy() {
            return Ok(self.untouched(refusal));
        }
        let mut warnings = self.warnings;
        let done = grid.resample(&self.volume, control)?;
        warnings.push(PlanWarning::new(
            STRAIGHT_GRID,
            told(&grid, &done, positions.as_deref()),
        ));
        Ok(Self {
            slices: slice_infos(&grid, &self.slices),
            volume: Arc::new(done.volume),
            warnings,
            refusal,
            ..self
        })
    }
}

/// Slices of the grid with the file behind each; those between two slices name both.
fn slice_infos(grid: &StraightGrid, from: &[SliceInfo]) -> Vec<SliceInfo> {
    let info = |k: usize| from.get(k);
    grid.slices
        .iter()
        .enumerate()
        .filter_map(|(k, s)| {
            let position = Some(grid.affine.to_patient([0.0, 0.0, k as f64]));
            let low = info(s.low)?;
            if s.share == 0.0 {
                return Some(SliceInfo {
                    position,
                    ..low.clone()
                });
            }
            Some(SliceInfo {
                file: format!("between {} and {}", low.file, info(s.high)?.file),
                frame: 0,
                sop_instance_uid: String::new(),
                instance_number: None,
                position,
            })
        })
        .collect()
}

/// The grid and what was done to the values, in words.
fn told(grid: &StraightGrid, done: &Straightened, positions: Option<&[[f64; 3]]>) -> String {
    let point = |p: [f64; 3], digits: usize| {
        let parts: Vec<String> = p.iter().map(|v| format!("{v:.digits$}")).collect();
        // No negative zero in a sentence.
        let zero = format!("{:.digits$}", 0.0);
        let parts: Vec<&str> = parts
            .iter()
            .map(|p| {
                if p.strip_prefix('-') == Some(&zero) {
                    &zero
                } else {
                    p.as_str()
                }
            })
            .collect();
        format!("[{}]", parts.join(", "))
    };
    let [x, y, z] = grid.affine.spacing_mm();
    let [row, column, slice] = grid.affine.directions().map(|d| point(d, 4));
    let mut parts = vec![format!(
        "resampled (linear) to a straight grid of {} voxels of {x:.4} x {y:.4} x {z:.4} mm; rows along {row}, columns along {column}, slices along {slice}, first voxel at {} mm (LPS)",
        grid.extent,
        point(grid.affine.origin, 3),
    )];
    let moved = grid
        .slices
        .iter()
        .map(|s| s.shift_mm[0].hypot(s.shift_mm[1]))
        .fold(0.0, f64::max);
    if moved > 0.0 {
        parts.push(format!(
            "slices were moved in their planes by up to {moved:.3} mm"
        ));
    }
    parts.extend(between(grid, positions));
    if done.n_padding > 0 {
        parts.push(format!(
            "{} voxels outside the acquired ones hold {} and are left out of statistics",
            with_thousands(done.n_padding),
            done.padding
        ));
    }
    parts.join("; ")
}

/// Which slices of the grid lie between acquired ones.
fn between(grid: &StraightGrid, positions: Option<&[[f64; 3]]>) -> Option<String> {
    const SHOWN: usize = 4;
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    for (k, s) in grid
        .slices
        .iter()
        .enumerate()
        .filter(|(_, s)| s.share > 0.0)
    {
        match runs.last_mut() {
            Some((low, _, end)) if *low == s.low && *end + 1 == k => *end = k,
            _ => runs.push((s.low, k, k)),
        }
    }
    if runs.is_empty() {
        return None;
    }
    let n: usize = runs.iter().map(|(_, a, b)| b - a + 1).sum();
    let length = |low: usize| {
        let (a, b) = (positions?.get(low)?, positions?.get(low + 1)?);
        let [_, _, axis] = grid.affine.directions();
        Some(crate::geometry::dot(
            std::array::from_fn(|r| b[r] - a[r]),
            axis,
        ))
    };
    let mut list: Vec<String> = runs
        .iter()
        .take(SHOWN)
        .map(|&(low, from, to)| {
            let which = if from == to {
                format!("{from}")
            } else {
                format!("{from} to {to}")
            };
            let mm = length(low).map_or_else(String::new, |mm| format!(", {mm:.3} mm apart"));
            format!("{which} between acquired slices {low} and {}{mm}", low + 1)
        })
        .collect();
    if runs.len() > SHOWN {
        list.push(format!("{} more runs", runs.len() - SHOWN));
    }
    Some(format!(
        "{n} of its slices were interpolated: {}",
        list.join("; ")
    ))
}

impl From<StraightError> for StudyError {
    fn from(e: StraightError) -> Self {
        match e {
            StraightError::Cancelled(c) => Self::Cancelled(c),
            other => Self::Straight(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::nifti;
    use crate::study::{Grid, open, open_as};
    use crate::volume::{Statistics, Volume, Voxels};
    use std::path::PathBuf;

    fn shared(path: &str) -> Option<PathBuf> {
        let root = std::env::var_os("VOXFIT_SHARED").map_or_else(
            || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")),
            PathBuf::from,
        );
        let found = root.join("data/dicom").join(path);
        if found.is_dir() {
            return Some(found);
        }
        println!("skipped: {} is not there", found.display());
        None
    }

    #[test]
    fn a_tilted_series_is_straightened_only_by_choice_and_says_what_that_did() {
        let Some(folder) = shared("variants/gantry_tilt15") else {
            return;
        };
        let spec = folder.to_str().unwrap();
        let stored = open(spec, None, &Control::new()).unwrap();
        assert!(stored.straightens() && !is_straight(&stored.volume.affine));
        let made = open_as(spec, None, Grid::Straight, &Control::new()).unwrap();
        assert!(is_straight(&made.volume.affine));
        let StudyKind::Dicom { series } = &made.kind else {
            panic!("not DICOM")
        };
        assert_eq!(
            straight_size(series),
            Some((made.volume.extent, made.volume.affine))
        );
        let w = made
            .warnings
            .iter()
            .find(|w| w.code == STRAIGHT_GRID)
            .unwrap();
        assert!(w.text.contains("left out of statistics"), "{}", w.text);
        let (a, b) = (
            Statistics::of(&stored.volume).unwrap(),
            Statistics::of(&made.volume).unwrap(),
        );
        assert!(b.min >= a.min && b.max <= a.max, "{a:?} {b:?}");
        // Uniform steps: every slice of the grid is an acquired one, named.
        assert_eq!(made.slices.len(), made.volume.extent.z);
        assert!(made.slices.iter().all(|s| !s.sop_instance_uid.is_empty()));
    }

    #[test]
    fn a_series_with_a_gap_runs_only_on_a_straight_grid_and_the_gap_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let phantom = open("phantom:24x20x9:7", None, &Control::new()).unwrap();
        let text = crate::exchange::dicom_write::SeriesText::default();
        crate::exchange::dicom_write::write_series(
            &phantom.volume,
            folder.path(),
            &text,
            &Control::new(),
        )
        .unwrap();
        std::fs::remove_file(folder.path().join("IM0005.dcm")).unwrap();
        let spec = folder.path().to_str().unwrap();
        let stored = open(spec, None, &Control::new()).unwrap();
        assert!(stored.refusal.is_some() && stored.straightens());
        assert_eq!(stored.volume.extent.z, 8);
        let made = open_as(spec, None, Grid::Straight, &Control::new()).unwrap();
        assert_eq!((made.refusal.as_deref(), made.volume.extent.z), (None, 9));
        let at = |k| made.volume.at([7, 9, k]).unwrap();
        assert_eq!(at(4), 0.5 * (at(3) + at(5)));
        assert_eq!(at(5), phantom.volume.at([7, 9, 5]).unwrap());
        let w = made.warnings.iter().find(|w| w.code == STRAIGHT_GRID);
        let text = &w.unwrap().text;
        assert!(
            text.contains("1 of its slices were interpolated: 4 between acquired slices 3 and 4"),
            "{text}"
        );
        assert_eq!(made.slices[4].file, "between IM0004.dcm and IM0006.dcm");
        assert_eq!(made.slices[5].file, "IM0006.dcm");
    }

    #[test]
    fn a_sheared_volume_file_is_told_and_can_be_straightened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.nii");
        let volume = Volume {
            extent: Extent::new(4, 5, 3),
            affine: Affine {
                step: [[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 1.0, 2.0]],
                origin: [0.0; 3],
            },
            voxels: Voxels::I16((0..60).collect()),
            padding: None,
            is_hu: true,
            z_spacing_known: true,
        };
        nifti::write(&volume, &path).unwrap();
        let spec = path.to_str().unwrap();
        let stored = open(spec, None, &Control::new()).unwrap();
        assert!(stored.warnings.iter().any(|w| w.code == SHEARED));
        let made = open_as(spec, None, Grid::Straight, &Control::new()).unwrap();
        assert_eq!(made.volume.extent, Extent::new(4, 9, 3));
        assert_eq!(made.volume.at([1, 3, 1]), volume.at([1, 1, 1]));
        assert_eq!(made.volume.at([1, 1, 1]), made.volume.padding.map(|p| p.0));
    }

    #[test]
    fn a_straight_volume_stays_as_it_is_and_that_is_said() {
        let made = open_as("phantom:24x20x16:7", None, Grid::Straight, &Control::new()).unwrap();
        let w = made
            .warnings
            .iter()
            .find(|w| w.code == STRAIGHT_GRID)
            .unwrap();
        assert!(w.text.contains("nothing was resampled"), "{}", w.text);
        let plain = open("phantom:24x20x16:7", None, &Control::new()).unwrap();
        assert_eq!(made.volume.voxels, plain.volume.voxels);
    }
    #[test]
    fn a_lean_too_small_to_be_called_one_is_not_resampled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.nii");
        let volume = Volume {
            extent: Extent::new(4, 5, 3),
            affine: Affine {
                step: [[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 1e-4, 2.0]],
                origin: [0.0; 3],
            },
            voxels: Voxels::I16((0..60).collect()),
            padding: None,
            is_hu: true,
            z_spacing_known: true,
        };
        nifti::write(&volume, &path).unwrap();
        let spec = path.to_str().unwrap();
        let stored = open(spec, None, &Control::new()).unwrap();
        assert!(!stored.straightens());
        let made = open_as(spec, None, Grid::Straight, &Control::new()).unwrap();
        let w = made.warnings.iter().find(|w| w.code == STRAIGHT_GRID);
        assert!(w.unwrap().text.contains("nothing was resampled"));
        assert_eq!(made.volume, stored.volume);
    }
}
