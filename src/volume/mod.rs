//! HU voxels in memory: one int16 (or float32) copy with its affine; slices, patches, statistics, window level, phantoms.

pub mod phantom;
pub mod reorient;
pub mod resample;
pub mod sampler;
pub mod slice;
mod statistics;
pub mod straight;
mod window_level;

pub use statistics::Statistics;
pub use window_level::{Preset, WindowLevel};

use crate::geometry::{Affine, Extent};
use std::sync::Arc;

/// Voxel values in `[k][j][i]` order (z slowest): int16 when all HU are whole and fit, else float32.
#[derive(Clone, Debug, PartialEq)]
pub enum Voxels {
    /// Whole HU.
    I16(Vec<i16>),
    /// Fractional HU or values beyond int16.
    F32(Vec<f32>),
}

/// A volume in memory. Cheap to share through `Arc`; never changed after it is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Size in voxels.
    pub extent: Extent,
    /// Voxel index to patient space (LPS, mm).
    pub affine: Affine,
    /// The values; `extent.voxels()` of them.
    pub voxels: Voxels,
    /// Values that stand for "no data" (DICOM pixel padding), left out of statistics and auto window level.
    pub padding: Option<(f32, f32)>,
    /// Whether the values are HU (false when the files had no rescale).
    pub is_hu: bool,
    /// Whether the distance between slices is known (false when a file says no position and no spacing).
    pub z_spacing_known: bool,
}

/// Whether a value stands for "no data": between the two ends of a volume's padding.
pub fn is_padding(value: f64, padding: Option<(f32, f32)>) -> bool {
    padding.is_some_and(|(a, b)| value >= f64::from(a.min(b)) && value <= f64::from(a.max(b)))
}

/// The value as int16; `None` where it is not whole or does not fit.
#[expect(
    clippy::cast_possible_truncation,
    reason = "range and wholeness were checked"
)]
pub fn whole_i16(value: f64) -> Option<i16> {
    let fits = value >= f64::from(i16::MIN) && value <= f64::from(i16::MAX) && value.fract() == 0.0;
    fits.then_some(value as i16)
}

/// A volume shared between threads.
pub type SharedVolume = Arc<Volume>;

impl Voxels {
    /// Number of voxels.
    pub fn len(&self) -> usize {
        match self {
            Self::I16(v) => v.len(),
            Self::F32(v) => v.len(),
        }
    }

    /// Volumes one after another: int16 where all are, else float32.
    pub fn joined(parts: Vec<Self>) -> Self {
        let whole = parts.iter().all(|p| matches!(p, Self::I16(_)));
        if whole {
            let all = parts.into_iter().flat_map(|p| match p {
                Self::I16(v) => v,
                Self::F32(_) => Vec::new(),
            });
            return Self::I16(all.collect());
        }
        let all = parts.into_iter().flat_map(|p| match p {
            Self::I16(v) => v.into_iter().map(f32::from).collect(),
            Self::F32(v) => v,
        });
        Self::F32(all.collect())
    }

    /// Whether there is no voxel.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at a linear index, `None` beyond the end.
    pub fn get(&self, index: usize) -> Option<f32> {
        match self {
            Self::I16(v) => v.get(index).map(|&x| f32::from(x)),
            Self::F32(v) => v.get(index).copied(),
        }
    }
}

impl Voxels {
    /// `int16` or `float32`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::I16(_) => "int16",
            Self::F32(_) => "float32",
        }
    }
}

impl Volume {
    /// The value at voxel `[i, j, k]`, `None` outside.
    pub fn at(&self, [i, j, k]: [usize; 3]) -> Option<f32> {
        let e = self.extent;
        if i >= e.x || j >= e.y || k >= e.z {
            return None;
        }
        self.voxels.get((k * e.y + j) * e.x + i)
    }

    /// Bytes that the voxels take.
    pub fn bytes(&self) -> crate::units::Bytes {
        let each = match self.voxels {
            Voxels::I16(_) => 2,
            Voxels::F32(_) => 4,
        };
        crate::units::Bytes(self.voxels.len() as u64 * each)
    }
}
