//! Where windows go: placement rules, importance maps, stitching, halo, exactness forecast.

use crate::geometry::{Extent, VoxelBox};
use serde::{Deserialize, Serialize};

/// How overlapping windows are weighed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Blend {
    /// Every voxel of a window weighs 1.
    #[default]
    Constant,
    /// MONAI's Gaussian importance map.
    Gaussian,
}

/// By whose rule windows are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// MONAI's `sliding_window_inference`.
    #[default]
    Monai,
    /// nnU-Net's evenly spread steps.
    Nnunet,
    /// Ours: starts at multiples of the total stride, halo thrown away, each voxel from one window.
    Aligned,
}

/// What the user chose about windows. A roi entry of 0 means the whole axis (typed as 0 or -1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TilingSpec {
    /// Window size in voxels of the prepared volume; 0 along an axis means the whole axis.
    pub roi_size: Extent,
    /// Share of the window per axis, 0 <= overlap < 1 (x, y, z).
    pub overlap: [f64; 3],
    /// Importance map.
    pub blend: Blend,
    /// Placement rule.
    pub layout: Layout,
}

/// One placed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Voxels of the padded volume that the network sees.
    pub roi: VoxelBox,
    /// Voxels of the padded volume that are kept of it (all of `roi` where windows blend).
    pub core: VoxelBox,
}

/// All windows over one prepared volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TilingPlan {
    /// What it was made from.
    pub spec: TilingSpec,
    /// Size of the prepared volume before padding.
    pub volume: Extent,
    /// Size after padding; windows lie in it.
    pub padded: Extent,
    /// Zeros before the first voxel of each axis (MONAI centres a volume smaller than the roi).
    pub pad_before: [usize; 3],
    /// Size of every window.
    pub roi: Extent,
    /// Distinct starts per axis (x, y, z).
    pub starts: [Vec<usize>; 3],
    /// The windows in run order.
    pub windows: Vec<Window>,
}
