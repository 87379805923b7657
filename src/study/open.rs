//! Opens whatever names a study: a DICOM file or folder, a volume file, or a generated phantom.

use super::StudyError;
use crate::exchange::{metaimage, nifti, npy};
use crate::geometry::Extent;
use crate::jobs::Control;
use crate::series::{self, SeriesInfo, SliceInfo};
use crate::tiling::PlanWarning;
use crate::units::with_thousands;
use crate::volume::phantom::{self, Sphere};
use crate::volume::{SharedVolume, Volume, Voxels};
use std::path::Path;
use std::sync::Arc;

/// What kind of thing a study was opened from.
#[derive(Clone, Debug)]
pub enum StudyKind {
    /// DICOM files.
    Dicom {
        /// The series that was loaded.
        series: Box<SeriesInfo>,
    },
    /// One volume file.
    File,
    /// Generated; the spheres are its truth.
    Phantom {
        /// What a detector should find.
        spheres: Vec<Sphere>,
    },
}

/// A study in memory.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The volume.
    pub volume: SharedVolume,
    /// The study as it was named.
    pub name: String,
    /// What it was opened from.
    pub kind: StudyKind,
    /// `UID` or `UID#part` of the series, for DICOM.
    pub series: Option<String>,
    /// The file behind each slice, for DICOM.
    pub slices: Vec<SliceInfo>,
    /// What was odd.
    pub warnings: Vec<PlanWarning>,
    /// Why the volume must not be run, though it can be looked at.
    pub refusal: Option<String>,
}

impl Opened {
    /// Whether the study itself says its spacing (an array does not, and 1 mm is taken).
    pub fn spacing_known(&self) -> bool {
        !self
            .warnings
            .iter()
            .any(|w| w.code == nifti::SPACING_ASSUMED)
    }

    /// The study, or the sentence that says why it must not be run.
    pub fn for_running(self) -> Result<Self, StudyError> {
        match self.refusal {
            Some(reason) => Err(StudyError::Unusable { reason }),
            None => Ok(self),
        }
    }
}

/// The code of the warning that voxels are not finite numbers.
pub(super) const NOT_FINITE: &str = "not-finite";

/// Says how many voxels are not-a-number or infinite, and where the first one is.
fn not_finite(volume: &Volume) -> Option<PlanWarning> {
    let Voxels::F32(values) = &volume.voxels else {
        return None;
    };
    let first = values.iter().position(|v| !v.is_finite())?;
    let n = values.iter().filter(|v| !v.is_finite()).count();
    let (x, y) = (volume.extent.x.max(1), volume.extent.y.max(1));
    Some(PlanWarning::new(
        NOT_FINITE,
        format!(
            "{} of the volume's {} voxels are not finite numbers (NaN or infinite), the first at [{}, {}, {}]: every output whose window reaches one is not to be trusted",
            with_thousands(n as u64),
            with_thousands(values.len() as u64),
            first % x,
            first / x % y,
            first / x / y
        ),
    ))
}

/// Which grid a study's volume is wanted on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grid {
    /// As stored: lean stays in the affine, gaps stay gaps.
    #[default]
    AsStored,
    /// Resampled (linear) to a straight grid where it leans, has gaps or uneven steps.
    Straight,
}

/// Opens a study on the grid that was chosen; see [`open`].
pub fn open_as(
    spec: &str,
    series: Option<&str>,
    grid: Grid,
    control: &Control,
) -> Result<Opened, StudyError> {
    let opened = open(spec, series, control)?;
    match grid {
        Grid::AsStored => Ok(opened),
        Grid::Straight => opened.on_straight_grid(control),
    }
}

/// Opens a study. `series` picks one of several DICOM series (`UID` or `UID#part`); without it the largest usable one is taken.
pub fn open(spec: &str, series: Option<&str>, control: &Control) -> Result<Opened, StudyError> {
    control.check()?;
    if let Some(text) = spec.strip_prefix("phantom:") {
        no_series(spec, series)?;
        return open_phantom(spec, text, control);
    }
    let path = Path::new(spec);
    if path.is_dir() || !path.exists() {
        return open_dicom(spec, series, control);
    }
    let is_npy = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("npy"));
    let read = if nifti::is_nifti_input(path) {
        nifti::read_told
    } else if metaimage::is_metaimage(path) {
        metaimage::read_told
    } else if is_npy {
        npy::read_told
    } else {
        return open_dicom(spec, series, control);
    };
    no_series(spec, series)?;
    let (volume, notes) = read(path)?;
    open_file(spec, volume, notes)
}

/// A study that is one volume has no series to choose from but the one that is named as it is.
fn no_series(spec: &str, wanted: Option<&str>) -> Result<(), StudyError> {
    match wanted {
        Some(wanted) if wanted != spec => Err(StudyError::OneVolume {
            wanted: wanted.to_owned(),
            study: spec.to_owned(),
        }),
        _ => Ok(()),
    }
}

fn open_file(
    spec: &str,
    volume: Volume,
    mut warnings: Vec<PlanWarning>,
) -> Result<Opened, StudyError> {
    if volume.extent.is_empty() {
        return Err(StudyError::Unusable {
            reason: format!("it has no voxels: {spec}"),
        });
    }
    if !volume.is_hu {
        warnings.push(PlanWarning::new(
            "values-as-stored",
            "the file does not say that its values are HU; they are taken as stored",
        ));
    }
    warnings.extend(not_finite(&volume));
    warnings.extend(super::straight::sheared(&volume.affine));
    Ok(Opened {
        volume: Arc::new(volume),
        name: spec.to_owned(),
        kind: StudyKind::File,
        series: None,
        slices: Vec::new(),
        warnings,
        refusal: None,
    })
}

fn open_phantom(spec: &str, text: &str, control: &Control) -> Result<Opened, StudyError> {
    let bad = || StudyError::PhantomText {
        found: spec.to_owned(),
    };
    let (size, seed) = match text.split_once(':') {
        Some((size, seed)) => (size, seed.parse::<u64>().map_err(|_not_a_number| bad())?),
        None => (text, 0),
    };
    let extent: Extent = size.parse().map_err(|_not_a_size| bad())?;
    let fits = extent.checked_voxels().is_some_and(|n| n <= 1 << 30);
    if extent.is_empty() || !fits || extent.to_array().iter().any(|&n| n > 2048) {
        return Err(StudyError::PhantomSize { found: extent });
    }
    let made = phantom::generate_until(extent, seed, control)?;
    Ok(Opened {
        volume: Arc::new(made.volume),
        name: spec.to_owned(),
        kind: StudyKind::Phantom {
            spheres: made.spheres,
        },
        series: None,
        slices: Vec::new(),
        warnings: Vec::new(),
        refusal: None,
    })
}

fn series_name(info: &SeriesInfo) -> String {
    if info.part > 1 {
        format!("{}#{}", info.uid, info.part)
    } else {
        info.uid.clone()
    }
}

fn open_dicom(spec: &str, wanted: Option<&str>, control: &Control) -> Result<Opened, StudyError> {
    let scan = series::scan(Path::new(spec), control)?;
    let found = || {
        let names: Vec<String> = scan.series.iter().map(series_name).collect();
        names.join(", ")
    };
    let info = match wanted {
        Some(name) => scan.find(name).ok_or_else(|| StudyError::NoSuchSeries {
            wanted: name.to_owned(),
            found: found(),
        })?,
        None => scan.best().ok_or_else(|| StudyError::NoSuchSeries {
            wanted: "of images".to_owned(),
            found: "none".to_owned(),
        })?,
    };
    let loaded = series::load(info, control, &|_slice| {})?;
    let mut warnings = Vec::new();
    if wanted.is_none() && scan.series.len() > 1 {
        warnings.push(PlanWarning::new(
            "series-chosen",
            format!(
                "the study has {} series; the largest usable one was taken: {}",
                scan.series.len(),
                info.label()
            ),
        ));
    }
    warnings.extend(
        loaded
            .warnings
            .iter()
            .map(|w| PlanWarning::new(w.code.as_str(), w.text.clone())),
    );
    let refusal = info.refusal().or_else(|| loaded.refusal());
    Ok(Opened {
        volume: loaded.volume,
        name: spec.to_owned(),
        series: Some(series_name(info)),
        refusal,
        kind: StudyKind::Dicom {
            series: Box::new(info.clone()),
        },
        slices: loaded.slices,
        warnings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phantom_is_a_study_by_its_size_and_seed() {
        let control = Control::new();
        let a = open("phantom:24x20x16:7", None, &control).unwrap();
        assert_eq!(a.volume.extent, Extent::new(24, 20, 16));
        let b = open("phantom:24x20x16:8", None, &control).unwrap();
        assert_ne!(a.volume.voxels, b.volume.voxels);
    }

    #[test]
    fn a_phantom_that_cannot_be_made_is_one_sentence() {
        let control = Control::new();
        for (spec, word) in [
            ("phantom:24x20", "such as phantom:256x256x128:7"),
            ("phantom:24x20x16:x", "found \"phantom:24x20x16:x\""),
            ("phantom:0x20x16", "0x20x16 cannot be made"),
            ("phantom:99999x99999x99999", "cannot be made"),
        ] {
            let e = open(spec, None, &control).unwrap_err();
            assert!(e.to_string().contains(word), "{e}");
            assert_eq!(e.exit_code(), 2);
        }
    }

    #[test]
    fn a_series_of_a_single_volume_is_refused_and_not_ignored() {
        let e = open("phantom:24x20x16:7", Some("1.2.3"), &Control::new()).unwrap_err();
        assert_eq!(e.exit_code(), 2);
        assert!(e.to_string().contains("1.2.3"), "{e}");
    }

    #[test]
    fn voxels_that_are_not_numbers_are_told_when_the_volume_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("holes.mha");
        let mut bytes = b"ObjectType = Image\nNDims = 3\nDimSize = 4 3 2\nElementType = MET_FLOAT\nElementSpacing = 1 1 1\nElementDataFile = LOCAL\n".to_vec();
        let mut values = [1.0f32; 24];
        values[18] = f32::NAN;
        values[23] = f32::INFINITY;
        bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        std::fs::write(&path, bytes).unwrap();
        let opened = open(path.to_str().unwrap(), None, &Control::new()).unwrap();
        let w = opened.warnings.iter().find(|w| w.code == NOT_FINITE);
        let text = &w.unwrap().text;
        assert!(text.contains("2 of the volume's 24 voxels"), "{text}");
        assert!(text.contains("the first at [2, 1, 1]"), "{text}");
    }

    #[test]
    fn a_path_without_anything_is_bad_data() {
        let e = open("/no/such/study", None, &Control::new()).unwrap_err();
        assert_eq!(e.exit_code(), 65);
        assert!(e.to_string().contains("no such file or folder"), "{e}");
    }
}
