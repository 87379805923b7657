//! The open study as the window shows it: series with thumbnails, the loading volume slice by slice, the whole volume, warnings.

use super::document::{SeriesRef, WindowLevel};
use crate::geometry::{Affine, Extent};
use crate::series::SliceValues;
use crate::series::{Details, HeaderText};
use crate::volume::SharedVolume;
use std::sync::Arc;

/// Something odd but usable, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// A short fixed name.
    pub code: String,
    /// One sentence.
    pub text: String,
    /// The files it speaks of.
    pub files: Vec<String>,
}

/// A small grey picture, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thumbnail {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// `width * height` greys.
    pub grey: Vec<u8>,
}

/// One row of the series list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesItem {
    /// Which series.
    pub reference: SeriesRef,
    /// "CT", "MR".
    pub modality: String,
    /// As the file says.
    pub description: String,
    /// As the file says; print it only while identity is shown.
    pub patient_name: Option<String>,
    /// "Subject 4F2A": the same for the same patient, nothing else can be read from it.
    pub subject: String,
    /// Files it is made of.
    pub n_files: usize,
    /// Size in voxels.
    pub extent: Extent,
    /// Spacing in mm; `None` where unknown.
    pub spacing_mm: [Option<f64>; 3],
    /// False when it must not be run.
    pub usable: bool,
    /// Whether a straight grid can be made of it (`Command::SetStraightGrid`) and would differ from what is stored.
    pub straightens: bool,
    /// What is odd about it.
    pub warnings: Vec<Warning>,
    /// Its middle slice, once decoded.
    pub thumbnail: Option<Arc<Thumbnail>>,
    /// Steps, encodings, the file of each slice.
    pub details: Arc<Details>,
    /// Patient, study and series texts of its first file; print them only while identity is shown.
    pub texts: Arc<[HeaderText]>,
}

/// Values of one slice, as the volume keeps them.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceBuffer {
    /// Whole HU.
    I16(Arc<[i16]>),
    /// Fractional HU or values beyond int16.
    F32(Arc<[f32]>),
}

impl SliceBuffer {
    /// The values.
    pub fn values(&self) -> SliceValues<'_> {
        match self {
            Self::I16(v) => SliceValues::I16(v),
            Self::F32(v) => SliceValues::F32(v),
        }
    }
}

impl From<SliceValues<'_>> for SliceBuffer {
    fn from(values: SliceValues<'_>) -> Self {
        match values {
            SliceValues::I16(v) => Self::I16(Arc::from(v)),
            SliceValues::F32(v) => Self::F32(Arc::from(v)),
        }
    }
}

/// A slice that was decoded since the window asked last.
#[derive(Clone, Debug)]
pub struct FreshSlice {
    /// The volume it belongs to (`VolumeState::generation`).
    pub generation: u64,
    /// Its index along z.
    pub k: usize,
    /// `extent.x * extent.y` values, row by row. A slice comes a second time, as floats, where one does not fit int16.
    pub values: SliceBuffer,
}

/// The series that is loaded or loading.
#[derive(Clone, Debug)]
pub struct VolumeState {
    /// Rises with each load; a texture of another generation is old.
    pub generation: u64,
    /// Which series.
    pub reference: SeriesRef,
    /// Size in voxels.
    pub extent: Extent,
    /// Voxel index to patient space.
    pub affine: Affine,
    /// Slices decoded so far.
    pub decoded: usize,
    /// The whole volume once all slices are there.
    pub volume: Option<SharedVolume>,
    /// Smallest and largest value without padding, once known.
    pub range: Option<(f32, f32)>,
    /// The file's own window level, else from percentiles once the volume is whole.
    pub own_window_level: Option<WindowLevel>,
    /// Whether it is on a straight grid by the user's choice.
    pub straight_grid: bool,
    /// What is odd about it (scan, decoding, resampling).
    pub warnings: Vec<Warning>,
}

impl VolumeState {
    /// Whether slices are still to come.
    pub const fn is_loading(&self) -> bool {
        self.volume.is_none()
    }
}

/// The open study.
#[derive(Clone, Debug, Default)]
pub struct StudyState {
    /// Another one for each study that is opened.
    pub generation: u64,
    /// As opened: a path or `phantom:...`.
    pub source: String,
    /// Its series.
    pub series: Vec<SeriesItem>,
    /// Files passed over, with reasons.
    pub skipped: Vec<(String, String)>,
    /// Whether files are still being looked through.
    pub scanning: bool,
    /// The series that was chosen: loaded, loading, or refused.
    pub chosen: Option<SeriesRef>,
    /// Why the chosen series cannot be shown.
    pub refused: Option<String>,
    /// The series that is loaded or loading.
    pub volume: Option<VolumeState>,
}

impl StudyState {
    /// The list's row of the series that was chosen.
    pub fn selected(&self) -> Option<&SeriesItem> {
        let chosen = self.chosen.as_ref()?;
        self.series.iter().find(|s| s.reference == *chosen)
    }

    /// What is odd about the chosen series, by its headers and, once it was decoded, by its pixels.
    pub fn warnings(&self) -> &[Warning] {
        match (&self.volume, self.selected()) {
            (Some(v), _) => &v.warnings,
            (None, Some(item)) => &item.warnings,
            (None, None) => &[],
        }
    }
}
