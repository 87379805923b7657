//! Where windows go: placement rules, importance maps, stitching, halo, exactness forecast.

mod exactness;
pub mod importance;
mod place;
mod spec;
pub mod stitch;

pub use crate::network::manifest::Axes as AxesOrder;
pub use exactness::{Exactness, ExactnessVerdict, PlanWarning, forecast, warnings};
pub use place::plan;
pub use spec::{Choice, parse_overlap, parse_roi};

use crate::geometry::{Axis, Extent, VoxelBox};
use crate::network;
use crate::network::manifest::{BlendMode, WindowLayout, Windows};
use serde::{Deserialize, Serialize};

/// Most windows that one plan may hold; beyond it a plan is a typing error.
pub const MAX_WINDOWS: usize = 2_000_000;

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

impl Blend {
    /// `constant` or `gaussian`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Gaussian => "gaussian",
        }
    }
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

impl Layout {
    /// `monai`, `nnunet` or `aligned`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Monai => "monai",
            Self::Nnunet => "nnunet",
            Self::Aligned => "aligned",
        }
    }
}

/// What the user chose about windows. A roi entry of 0 means the whole axis (typed as 0 or -1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TilingSpec {
    /// Window size in voxels of the prepared volume; 0 along an axis means the whole axis.
    pub roi_size: Extent,
    /// Share of the window per axis, 0 <= overlap < 1 (x, y, z); 0 in the aligned layout, which derives its own.
    pub overlap: [f64; 3],
    /// Importance map; constant in the aligned layout, which copies.
    pub blend: Blend,
    /// Placement rule.
    pub layout: Layout,
}

impl From<BlendMode> for Blend {
    fn from(mode: BlendMode) -> Self {
        match mode {
            BlendMode::Constant => Self::Constant,
            BlendMode::Gaussian => Self::Gaussian,
        }
    }
}

impl From<WindowLayout> for Layout {
    fn from(layout: WindowLayout) -> Self {
        match layout {
            WindowLayout::Monai => Self::Monai,
            WindowLayout::Nnunet => Self::Nnunet,
            WindowLayout::Aligned => Self::Aligned,
        }
    }
}

impl From<&Windows> for TilingSpec {
    /// What a manifest proposes; in the aligned layout overlap and blend are derived and fall away.
    fn from(w: &Windows) -> Self {
        let layout = w.layout.into();
        let aligned = layout == Layout::Aligned;
        Self {
            roi_size: w.roi_size.map(|n| usize::try_from(n).unwrap_or(0)).into(),
            overlap: if aligned {
                [0.0; 3]
            } else {
                w.overlap.per_axis()
            },
            blend: if aligned {
                Blend::Constant
            } else {
                w.blend.into()
            },
            layout,
        }
    }
}

/// What placement and forecast need to know of a network; triples are x, y, z.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Windows are exact only at multiples of this; 1 where nothing is known.
    pub total_stride: [usize; 3],
    /// Input voxels before the first voxel of a stride cell that its output depends on; `None` is unbounded.
    pub reach_left: [Option<usize>; 3],
    /// Input voxels after the last voxel of a stride cell that its output depends on; `None` is unbounded.
    pub reach_right: [Option<usize>; 3],
    /// Names of the norms over space.
    pub spatial_norms: Vec<String>,
    /// Order of the network's spatial axes.
    pub axes: AxesOrder,
    /// Whether stride and reach are known at all (false when windows are asked about without a network).
    pub known: bool,
}

impl Facts {
    /// Facts of no network: stride 1, reach unknown; never forecast as exact in more than one window.
    pub const fn unknown(axes: AxesOrder) -> Self {
        Self {
            total_stride: [1; 3],
            reach_left: [Some(0); 3],
            reach_right: [Some(0); 3],
            spatial_norms: Vec::new(),
            axes,
            known: false,
        }
    }

    /// The facts of a network whose tensors have this order of axes.
    pub fn of(facts: &network::Facts, axes: AxesOrder) -> Self {
        let reach = facts.reach_max();
        let three = |list: &[Option<usize>]| -> [Option<usize>; 3] {
            axes.reorder(std::array::from_fn(|a| list.get(a).copied().flatten()))
        };
        Self {
            total_stride: axes.reorder(std::array::from_fn(|a| {
                facts.total_stride.get(a).copied().unwrap_or(1)
            })),
            reach_left: three(&reach.left),
            reach_right: three(&reach.right),
            spatial_norms: facts.spatial_norms.clone(),
            axes,
            known: true,
        }
    }

    /// The halo that exactness takes before a face inside the volume: the reach to the left rounded up to the total stride.
    pub fn halo_left(&self) -> [Option<usize>; 3] {
        std::array::from_fn(|a| {
            self.reach_left[a].map(|r| r.next_multiple_of(self.total_stride[a].max(1)))
        })
    }

    /// The halo that exactness takes after a face inside the volume: the reach to the right rounded up to the total stride.
    pub fn halo_right(&self) -> [Option<usize>; 3] {
        std::array::from_fn(|a| {
            self.reach_right[a].map(|r| r.next_multiple_of(self.total_stride[a].max(1)))
        })
    }
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
    /// Order of the network's spatial axes, slowest first.
    #[serde(default)]
    pub axes: AxesOrder,
    /// The windows in run order: the tensor's first axis slowest.
    pub windows: Vec<Window>,
}

impl TilingPlan {
    /// Number of windows.
    pub fn n_windows(&self) -> usize {
        self.windows.len()
    }

    /// Whether one window covers the whole volume, so that nothing slides: what the whole-volume guard asks about.
    pub fn is_single_pass(&self) -> bool {
        self.windows.len() <= 1
    }

    /// Faces inside the prepared volume where the set of covering windows changes, per axis:
    /// position p lies between voxels p - 1 and p of the prepared volume.
    pub fn seam_planes(&self) -> [Vec<usize>; 3] {
        std::array::from_fn(|a| {
            let mut at: Vec<usize> = Vec::new();
            let starts = &self.starts[a];
            if starts.len() > 1 {
                for w in &self.windows {
                    at.extend([w.core.min[a], w.core.max[a]]);
                }
            }
            at.sort_unstable();
            at.dedup();
            let (before, size) = (self.pad_before[a], self.volume.to_array()[a]);
            at.into_iter()
                .filter(|&p| p > before && p < before + size)
                .map(|p| p - before)
                .collect()
        })
    }

    /// Share of the window that its neighbours see too, as placed: in the aligned layout what the halo makes of it.
    pub fn overlap_as_placed(&self) -> [f64; 3] {
        std::array::from_fn(|a| {
            let roi = self.roi.to_array()[a];
            match self.starts[a].as_slice() {
                [first, second, ..] if roi > 0 => {
                    roi.saturating_sub(second - first) as f64 / roi as f64
                }
                _ => 0.0,
            }
        })
    }

    /// The window whose centre is nearest to a point of the prepared volume, among those that keep it
    /// (or among all, when the point lies outside every core).
    pub fn window_at(&self, point: [f64; 3]) -> Option<usize> {
        let p: [f64; 3] = std::array::from_fn(|a| point[a] + self.pad_before[a] as f64);
        let keeps = |w: &Window| {
            (0..3).all(|a| w.core.min[a] as f64 <= p[a] && p[a] < w.core.max[a] as f64)
        };
        let distance = |w: &Window| -> f64 {
            (0..3)
                .map(|a| {
                    let c = 0.5 * (w.roi.min[a] + w.roi.max[a]) as f64 - p[a];
                    c * c
                })
                .sum()
        };
        let nearest = |among: &dyn Fn(&Window) -> bool| {
            self.windows
                .iter()
                .enumerate()
                .filter(|(_, w)| among(w))
                .min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)))
                .map(|(i, _)| i)
        };
        nearest(&keeps).or_else(|| nearest(&|_| true))
    }
}

/// Why windows could not be placed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TilingError {
    /// A roi that is not three whole numbers.
    #[error(
        "a roi is three whole numbers joined by x, such as 128x128x64, where 0 or -1 means the whole axis; found \"{found}\""
    )]
    RoiText {
        /// What was typed.
        found: String,
    },
    /// A roi entry below -1.
    #[error(
        "the roi along {axis} is {found}; it must be a size in voxels of 1 and more, or 0 or -1 for the whole axis"
    )]
    RoiNegative {
        /// The axis.
        axis: &'static str,
        /// What was typed.
        found: i64,
    },
    /// An overlap that is not one or three numbers.
    #[error(
        "an overlap is one number or three joined by commas, such as 0.25 or 0.25,0.25,0.5; found \"{found}\""
    )]
    OverlapText {
        /// What was typed.
        found: String,
    },
    /// An overlap out of range.
    #[error(
        "the overlap along {axis} is {found}; it is a share of the window of 0 and more and below 1"
    )]
    OverlapRange {
        /// The axis.
        axis: &'static str,
        /// What was given.
        found: f64,
    },
    /// An overlap or blend mode given where it is derived.
    #[error(
        "the aligned layout derives its {what} from the network's reach and copies each voxel from one window; leave {what} out (found {found}) or choose the monai or nnunet layout"
    )]
    Derived {
        /// `overlap` or `blend mode`.
        what: &'static str,
        /// What was given.
        found: String,
    },
    /// A volume without voxels.
    #[error("the volume is {found} voxels; windows need at least one voxel along each axis")]
    EmptyVolume {
        /// Its size.
        found: Extent,
    },
    /// More windows than anybody waits for.
    #[error(
        "a roi of {roi} with this overlap makes {found} windows over {volume}, more than the {MAX_WINDOWS} that one plan may hold; use a larger roi or a smaller overlap"
    )]
    TooMany {
        /// The roi.
        roi: Extent,
        /// The prepared volume.
        volume: Extent,
        /// How many it would be.
        found: u128,
    },
}

pub(crate) fn axis_name(a: usize) -> &'static str {
    Axis::ALL.get(a).map_or("?", |axis| axis.name())
}
