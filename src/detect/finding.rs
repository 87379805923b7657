//! Findings as any program writes them: a middle, perhaps a size, a label and a score, in a space that is said or not.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// In which space a file's numbers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Space {
    /// Patient space in mm: left, posterior, superior.
    #[serde(rename = "LPS")]
    Lps,
    /// Patient space in mm: right, anterior, superior.
    #[serde(rename = "RAS")]
    Ras,
    /// LPS as MONAI's box transforms make it: the affine applied to box corners, half a voxel beside the voxels' edges.
    #[serde(rename = "monai-LPS")]
    MonaiLps,
    /// RAS as MONAI's box transforms make it.
    #[serde(rename = "monai-RAS")]
    MonaiRas,
    /// Voxels of the loaded volume, half-open corner boxes.
    #[serde(rename = "voxels")]
    Voxels,
    /// The file does not say.
    #[default]
    #[serde(rename = "unsaid")]
    Unsaid,
}

impl Space {
    /// Whether it is patient space, whose first two axes then point this way: 1 for LPS, -1 for RAS.
    pub const fn sign(self) -> Option<f64> {
        match self {
            Self::Lps | Self::MonaiLps => Some(1.0),
            Self::Ras | Self::MonaiRas => Some(-1.0),
            Self::Voxels | Self::Unsaid => None,
        }
    }

    /// Whether a box's corner is the affine times the corner itself, as if voxel edges were voxel centres.
    pub const fn of_corners(self) -> bool {
        matches!(self, Self::MonaiLps | Self::MonaiRas)
    }

    /// A position in LPS mm, for patient space.
    pub fn to_lps(self, p: [f64; 3]) -> Option<[f64; 3]> {
        self.sign().map(|s| [s * p[0], s * p[1], p[2]])
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lps => "LPS",
            Self::Ras => "RAS",
            Self::MonaiLps => "monai-LPS",
            Self::MonaiRas => "monai-RAS",
            Self::Voxels => "voxels",
            Self::Unsaid => "unsaid",
        })
    }
}

impl FromStr for Space {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim().to_ascii_lowercase().as_str() {
            "lps" => Ok(Self::Lps),
            "ras" => Ok(Self::Ras),
            "monai-lps" => Ok(Self::MonaiLps),
            "monai-ras" => Ok(Self::MonaiRas),
            "voxel" | "voxels" => Ok(Self::Voxels),
            _ => Err(format!(
                "a space is LPS, RAS (mm), voxels, monai-LPS or monai-RAS (as MONAI's box transforms write mm); found \"{text}\""
            )),
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Its class as the file names it; empty where it does not.
    pub label: String,
    /// Its score; `None` for truth.
    pub score: Option<f64>,
    /// Its middle, in the file's space.
    pub center: [f64; 3],
    /// Edge lengths along the space's axes; `None` for a point.
    pub size: Option<[f64; 3]>,
}

/// What a file says about one study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Names by which the study goes: a series UID, a path, a file name without its ending. Empty where the file names none.
    pub names: Vec<String>,
    /// In which space the numbers are.
    pub space: Space,
    /// The findings, in the file's order.
    pub list: Vec<Finding>,
    /// What is odd about the file.
    pub notes: Vec<String>,
}

impl Findings {
    /// Whether both may be of one study: a name of the one is a name of the other.
    pub fn shares_name_with(&self, other: &Self) -> bool {
        self.names.iter().any(|n| other.names.contains(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_is_read_as_it_is_written_and_nothing_else_is_one() {
        for s in ["LPS", "RAS", "voxels", "monai-LPS", "monai-RAS"] {
            assert_eq!(s.parse::<Space>().unwrap().to_string(), s);
        }
        assert!("world".parse::<Space>().is_err());
        assert_eq!(Space::Ras.to_lps([1.0, -2.0, 3.0]), Some([-1.0, 2.0, 3.0]));
        assert_eq!(Space::Unsaid.to_lps([0.0; 3]), None);
    }
}
