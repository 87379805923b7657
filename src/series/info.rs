//! What a scan finds and a load gives: series, slices, warnings, and their JSON form.

use super::header::Source;
use crate::geometry::{Affine, Extent};
use crate::volume::Volume;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// The kinds of oddness that a series is told with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WarningCode {
    /// One or more slices are missing inside the stack.
    MissingSlices,
    /// Distances between slices differ.
    UnevenSteps,
    /// Slices lean against their step: a sheared volume.
    GantryTilt,
    /// Slices do not lie on one straight line.
    NotStraight,
    /// One SOP instance is there more than once.
    DuplicateFile,
    /// Different images lie at one position.
    SamePosition,
    /// The series was split into several volumes.
    Split,
    /// Images of another size, orientation or kind were left out of this volume.
    LeftOut,
    /// A localizer (scout), not a volume.
    Localizer,
    /// A picture that is not an original image: a screen copy, a report page, colour.
    NotAVolume,
    /// Slices without position.
    NoPosition,
    /// Slices with a position but without an orientation.
    NoOrientation,
    /// Pixel spacing is not said.
    NoPixelSpacing,
    /// Pixel spacing differs between slices.
    SpacingDiffers,
    /// There is one slice only.
    SingleSlice,
    /// Instance numbers do not start at 1 or have holes that positions do not show.
    InstanceNumbers,
    /// Values are not HU.
    NotHu,
    /// The rescale slope is 0, empty or not there beside an intercept.
    RescaleSlope,
    /// A file is cut short or damaged.
    Damaged,
    /// Decoding failed.
    CannotDecode,
    /// Stored with loss.
    Lossy,
    /// The grey ramp is inverted (MONOCHROME1).
    Inverted,
}

impl WarningCode {
    /// Whether it alone makes a volume one that must not be run.
    pub(super) fn forbids(self) -> bool {
        matches!(
            self,
            Self::MissingSlices
                | Self::UnevenSteps
                | Self::NotStraight
                | Self::SamePosition
                | Self::Localizer
                | Self::NotAVolume
                | Self::NoPosition
                | Self::NoPixelSpacing
                | Self::SpacingDiffers
                | Self::SingleSlice
                | Self::NoOrientation
                | Self::RescaleSlope
                | Self::Damaged
                | Self::CannotDecode
        )
    }

    /// The code as it stands in JSON, such as `gantry-tilt`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingSlices => "missing-slices",
            Self::UnevenSteps => "uneven-steps",
            Self::GantryTilt => "gantry-tilt",
            Self::NotStraight => "not-straight",
            Self::DuplicateFile => "duplicate-file",
            Self::SamePosition => "same-position",
            Self::Split => "split",
            Self::LeftOut => "left-out",
            Self::Localizer => "localizer",
            Self::NotAVolume => "not-a-volume",
            Self::NoPosition => "no-position",
            Self::NoOrientation => "no-orientation",
            Self::NoPixelSpacing => "no-pixel-spacing",
            Self::SpacingDiffers => "spacing-differs",
            Self::SingleSlice => "single-slice",
            Self::InstanceNumbers => "instance-numbers",
            Self::NotHu => "not-hu",
            Self::RescaleSlope => "rescale-slope",
            Self::Damaged => "damaged",
            Self::CannotDecode => "cannot-decode",
            Self::Lossy => "lossy",
            Self::Inverted => "inverted",
        }
    }
}

/// Something odd about a usable (or refused) series, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Its kind.
    pub code: WarningCode,
    /// One sentence with the numbers.
    pub text: String,
    /// The files it is about, relative to the study; empty when it is about all.
    pub files: Vec<String>,
}

/// A file that is no part of any series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Relative to the study.
    pub file: String,
    /// Why.
    pub reason: String,
}

/// What a file, folder or DICOMDIR holds.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Series (or parts of series), never empty.
    pub series: Vec<SeriesInfo>,
    /// Files that are no part of any series.
    pub skipped: Vec<Skipped>,
}

impl Scan {
    /// The series that `--series` names: `UID` (its first part) or `UID#n`.
    pub fn find(&self, name: &str) -> Option<&SeriesInfo> {
        let (uid, part) = match name.rsplit_once('#') {
            Some((uid, part)) => (uid, part.parse().ok()?),
            None => (name, 1),
        };
        self.series.iter().find(|s| s.uid == uid && s.part == part)
    }

    /// The series a user most likely means: usable ones first, then the most slices, then the order found.
    pub fn best(&self) -> Option<&SeriesInfo> {
        self.series
            .iter()
            .rev()
            .max_by_key(|s| (s.usable, s.size.checked_voxels().unwrap_or(0)))
    }
}

/// One series, or one part of a series that had to be split, as headers tell it.
#[derive(Clone, Debug)]
pub struct SeriesInfo {
    /// Series instance UID.
    pub uid: String,
    /// Which volume of the series, from 1; above 1 only where one series gives several volumes.
    pub part: usize,
    /// Modality, such as CT.
    pub modality: String,
    /// Series description, or a name made from what is known.
    pub description: String,
    /// Patient name as text; show it only when asked for.
    pub patient_name: Option<String>,
    /// Files that the volume uses.
    pub n_files: usize,
    /// Columns, rows, slices.
    pub size: Extent,
    /// Distance between columns, rows, and slices along the normal; `None` when unknown.
    pub spacing_mm: [Option<f64>; 3],
    /// Centre of voxel (0, 0, 0), LPS mm.
    pub origin_lps: [f64; 3],
    /// Unit vectors of a row, a column and the mean step from slice to slice, LPS.
    pub direction: [f64; 9],
    /// Whether the volume may be run.
    pub usable: bool,
    /// What is odd.
    pub warnings: Vec<Warning>,
    /// Window centre and width that the files propose, HU.
    pub window: Option<(f64, f64)>,
    /// Vector from one slice to the next, mm.
    pub(super) step_mm: [f64; 3],
    /// The folder or file that was scanned.
    pub root: PathBuf,
    /// Slices in order of k: what loading needs.
    pub(super) slices: Vec<Source>,
    /// Why the slices must not be made into one volume.
    pub(super) refusal: Option<String>,
}

impl SeriesInfo {
    /// Voxel index to LPS mm; unknown spacings stand as 1 mm (ask `spacing_mm` which are known).
    pub fn affine(&self) -> Affine {
        let [r0, r1, r2, c0, c1, c2, ..] = self.direction;
        let [x, y, _] = self.spacing_mm.map(|s| s.unwrap_or(1.0));
        Affine {
            step: [
                [r0 * x, r1 * x, r2 * x],
                [c0 * y, c1 * y, c2 * y],
                self.step_mm,
            ],
            origin: self.origin_lps,
        }
    }

    /// Where each slice comes from, in order of k.
    pub fn slice_infos(&self) -> Vec<SliceInfo> {
        self.slices
            .iter()
            .map(|s| {
                let plane = s.plane();
                SliceInfo {
                    file: s.file.name.clone(),
                    frame: s.frame,
                    sop_instance_uid: s.file.sop_uid.clone(),
                    instance_number: plane.instance,
                    position: plane.position,
                }
            })
            .collect()
    }

    /// Why the series must not be run, in one sentence; `None` where it may be.
    pub fn refusal(&self) -> Option<String> {
        if self.usable {
            return None;
        }
        let told = |w: &&Warning| w.code.forbids();
        Some(self.refusal.clone().unwrap_or_else(|| {
            self.warnings
                .iter()
                .find(told)
                .or_else(|| self.warnings.first())
                .map_or_else(|| "its geometry is unknown".to_owned(), |w| w.text.clone())
        }))
    }

    /// Whether the files ask for an inverted grey ramp (MONOCHROME1); values are the same either way.
    pub fn inverted(&self) -> bool {
        self.warnings
            .iter()
            .any(|w| w.code == WarningCode::Inverted)
    }

    /// One line that tells the series from its neighbours: description, size, step.
    pub fn label(&self) -> String {
        let name = if self.description.is_empty() {
            "(no description)"
        } else {
            &self.description
        };
        let part = if self.part > 1 {
            format!(" part {}", self.part)
        } else {
            String::new()
        };
        let step = match self.spacing_mm {
            [_, _, Some(z)] => format!("{z:.3} mm"),
            _ => "step unknown".to_owned(),
        };
        format!("{} {name}{part}, {}, {step}", self.modality, self.size)
    }

    /// The JSON form; values come from the load, and a load that failed makes the series unusable.
    pub fn json(
        &self,
        identity: bool,
        loaded: Option<Result<&Loaded, &super::SeriesError>>,
    ) -> SeriesJson {
        let mut warnings = self.warnings.clone();
        let (mut usable, mut values) = (self.usable, None);
        match loaded {
            Some(Ok(l)) => {
                warnings.clone_from(&l.warnings);
                usable &= l.refusal().is_none();
                values = Some(l);
            }
            Some(Err(e)) => {
                usable = false;
                warnings.push(Warning {
                    code: WarningCode::CannotDecode,
                    text: e.to_string(),
                    files: Vec::new(),
                });
            }
            None => {}
        }
        SeriesJson {
            uid: self.uid.clone(),
            part: self.part,
            modality: self.modality.clone(),
            description: self.description.clone(),
            n_files: self.n_files,
            size: self.size,
            spacing_mm: self.spacing_mm,
            origin_lps: self.origin_lps,
            direction: self.direction,
            hu_min: values.and_then(|l| l.hu_min),
            hu_max: values.and_then(|l| l.hu_max),
            hu_sha256: values.and_then(Loaded::hu_sha256),
            usable,
            patient_name: self.patient_name.clone().filter(|_| identity),
            warnings,
            refusal: self.refusal().or_else(|| values.and_then(Loaded::refusal)),
            voxels: values.map(|l| l.volume.voxels.kind().to_owned()),
            bytes: values.map(|l| l.volume.bytes().0),
            texts: if identity { self.texts() } else { Vec::new() },
            details: self.details(),
        }
    }
}

/// One slice of a loaded volume.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SliceInfo {
    /// Relative to the study.
    pub file: String,
    /// Frame within the file, 0 for single-frame files.
    pub frame: usize,
    /// SOP instance UID.
    pub sop_instance_uid: String,
    /// Instance number, or the frame number in a multi-frame file.
    pub instance_number: Option<i64>,
    /// Image position (centre of the first voxel), LPS mm.
    pub position: Option<[f64; 3]>,
}

/// Values of one slice, rows after one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SliceValues<'a> {
    /// Whole HU.
    I16(&'a [i16]),
    /// Fractional HU or values beyond int16.
    F32(&'a [f32]),
}

/// One slice as soon as it is decoded; the middle one comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodedSlice<'a> {
    /// Slice index in the volume.
    pub k: usize,
    /// Size of the whole volume.
    pub size: Extent,
    /// The slice's values. Slices come a second time, as F32, where one turned out not to fit int16.
    pub values: SliceValues<'a>,
}

/// A loaded series.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The voxels and where they are.
    pub volume: Arc<Volume>,
    /// Where each slice came from, in order of k.
    pub slices: Vec<SliceInfo>,
    /// The series' warnings and what decoding added.
    pub warnings: Vec<Warning>,
    /// Smallest value, padding left out; `None` when all is padding.
    pub hu_min: Option<f64>,
    /// Largest value, padding left out.
    pub hu_max: Option<f64>,
}

impl Loaded {
    /// Why the volume must not be run though its headers are sound: a slice could not be decoded.
    pub fn refusal(&self) -> Option<String> {
        self.warnings
            .iter()
            .find(|w| w.code == WarningCode::CannotDecode)
            .map(|w| w.text.clone())
    }

    /// SHA-256 (hex) over int16 little-endian values in `[k][j][i]` order; `None` for float volumes and where slices are missing.
    pub fn hu_sha256(&self) -> Option<String> {
        use crate::volume::Voxels;
        use sha2::Digest as _;
        if self.refusal().is_some() {
            return None;
        }
        let Voxels::I16(values) = &self.volume.voxels else {
            return None;
        };
        let mut hash = sha2::Sha256::new();
        for chunk in values.chunks(1 << 16) {
            if cfg!(target_endian = "little") {
                hash.update(bytemuck::cast_slice::<i16, u8>(chunk));
            } else {
                let bytes: Vec<u8> = chunk.iter().flat_map(|v| v.to_le_bytes()).collect();
                hash.update(bytes);
            }
        }
        Some(hex::encode(hash.finalize()))
    }
}

/// A series as `voxfit series --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeriesJson {
    /// Series instance UID.
    pub uid: String,
    /// Which volume of the series, from 1.
    pub part: usize,
    /// Modality.
    pub modality: String,
    /// Description.
    pub description: String,
    /// Files used.
    pub n_files: usize,
    /// Columns, rows, slices.
    pub size: Extent,
    /// Spacing, `null` where unknown.
    pub spacing_mm: [Option<f64>; 3],
    /// Centre of the first voxel, LPS mm.
    pub origin_lps: [f64; 3],
    /// Row, column, slice step as unit vectors.
    pub direction: [f64; 9],
    /// Smallest value without padding.
    pub hu_min: Option<f64>,
    /// Largest value without padding.
    pub hu_max: Option<f64>,
    /// Hash of the voxels.
    pub hu_sha256: Option<String>,
    /// Whether it may be run.
    pub usable: bool,
    /// Only when identity was asked for.
    pub patient_name: Option<String>,
    /// What is odd.
    pub warnings: Vec<Warning>,
    /// Why it must not be run.
    pub refusal: Option<String>,
    /// `int16` or `float32`: how the volume is kept in memory.
    pub voxels: Option<String>,
    /// What it takes there.
    pub bytes: Option<u64>,
    /// Patient, study and series texts, only when identity was asked for.
    pub texts: Vec<super::HeaderText>,
    /// Steps, tilt, encodings, rescales and the file of each slice.
    #[serde(flatten)]
    pub details: super::Details,
}
