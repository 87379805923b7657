//! What a result file says about the seams of its run.

use super::result::Starts;
use crate::geometry::Axis;
use serde::{Deserialize, Serialize};

/// What the seams of a run did, as far as the run itself can tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeamRecord {
    /// The verdict without a reference: bitwise, float, tolerance or seam. `null` in results of older versions.
    #[serde(default)]
    pub verdict: Option<String>,
    /// The same in a sentence.
    #[serde(default)]
    pub words: String,
    /// Difference that the same plan run twice makes: 0, for one voxel is one chain of operations (not measured).
    #[serde(default)]
    pub determinism_floor: Option<f64>,
    /// Every seam.
    #[serde(default, deserialize_with = "planes_of_any_version")]
    pub planes: Vec<SeamPlaneRecord>,
    /// Mismatch of each output over all overlaps, before blending and cropping.
    #[serde(default)]
    pub outputs: Vec<OutputMismatchRecord>,
    /// One in so many planes of voxels was looked at; 1 is all.
    #[serde(default)]
    pub one_in: Option<usize>,
}

/// One seam. What takes a reference is `null` in the result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeamPlaneRecord {
    /// The axis across it.
    pub axis: Axis,
    /// It lies between voxels `at - 1` and `at` of the prepared volume.
    pub at: usize,
    /// The largest difference of two windows near it.
    pub raw_mismatch_max: Option<f64>,
    /// The mean difference.
    pub raw_mismatch_mean: Option<f64>,
    /// Gradient across it over the reference's.
    pub step_ratio: Option<f64>,
    /// Largest difference from the reference near it.
    pub diff_max: Option<f64>,
    /// Labels or findings that change near it.
    pub flips: Option<u64>,
}

/// How much windows disagree about one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputMismatchRecord {
    /// Its name.
    pub output: String,
    /// The largest difference.
    pub raw_mismatch_max: f64,
    /// The mean difference.
    pub raw_mismatch_mean: f64,
    /// 99 of 100 differences are below.
    pub raw_mismatch_p99: f64,
    /// Values compared.
    pub n: u64,
    /// Whether it counts for verdict and planes.
    pub judged: bool,
}

impl SeamPlaneRecord {
    /// A seam of which nothing but its place is known.
    pub const fn at(axis: Axis, at: usize) -> Self {
        Self {
            axis,
            at,
            raw_mismatch_max: None,
            raw_mismatch_mean: None,
            step_ratio: None,
            diff_max: None,
            flips: None,
        }
    }
}

impl SeamRecord {
    /// Places of the seams along x, y, z.
    pub fn places(&self) -> [Vec<usize>; 3] {
        Axis::ALL.map(|axis| {
            let of = self.planes.iter().filter(|p| p.axis == axis);
            of.map(|p| p.at).collect()
        })
    }
}

/// Seams as a list; older results kept their places alone, by axis.
fn planes_of_any_version<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Vec<SeamPlaneRecord>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Any {
        List(Vec<SeamPlaneRecord>),
        Places(Starts),
    }
    Ok(match Any::deserialize(from)? {
        Any::List(list) => list,
        Any::Places(Starts { x, y, z }) => Axis::ALL
            .into_iter()
            .zip([x, y, z])
            .flat_map(|(axis, at)| at.into_iter().map(move |p| SeamPlaneRecord::at(axis, p)))
            .collect(),
    })
}
