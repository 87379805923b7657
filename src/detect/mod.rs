//! From head maps to boxes: anchors, decoding, suppression; which box is which of another list, and FROC.

mod anchors;
mod assign;
mod finding;
pub mod froc;
pub mod matching;
#[cfg(test)]
mod naive_tests;
mod select;

pub use anchors::{AnchorSpec, LevelAnchors};
pub use finding::{Finding, Findings, Space};
pub use select::{
    BoxSelector, Candidate, Candidates, DetectError, LevelMaps, candidates, decode, decode_level,
    suppress,
};

use crate::geometry::BoxF;
use serde::{Deserialize, Serialize};

/// One detection in voxels of the loaded volume and in patient space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// Name of its class.
    pub label: String,
    /// Score after sigmoid, 0 to 1.
    pub score: f32,
    /// Corner box in voxels of the loaded volume.
    pub box_in_volume: BoxF,
    /// Centre in mm, LPS.
    pub center_in_patient: [f64; 3],
    /// Edge lengths in mm along i, j, k.
    pub size_mm: [f64; 3],
    /// The window it came from (the one whose centre is nearest where several cover it).
    pub window_idx: Option<usize>,
    /// Distance in mm from its centre to the nearest seam; `None` with one window.
    pub seam_distance: Option<f64>,
}
