//! The three orthogonal planes of a volume as stored, by the axis they are cut across.

use serde::{Deserialize, Serialize};

/// A voxel axis of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// Columns, index i.
    X,
    /// Rows, index j.
    Y,
    /// Slices, index k.
    Z,
}

impl Axis {
    /// x, y, z.
    pub const ALL: [Self; 3] = [Self::X, Self::Y, Self::Z];

    /// 0, 1 or 2.
    pub const fn index(self) -> usize {
        match self {
            Self::X => 0,
            Self::Y => 1,
            Self::Z => 2,
        }
    }

    /// `x`, `y` or `z`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X => "x",
            Self::Y => "y",
            Self::Z => "z",
        }
    }
}

/// A view of the volume. For a volume stored with axial slices the plane across z is the axial one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Plane {
    /// Across z: columns to the right, rows down.
    Axial,
    /// Across y: columns to the right, slices up.
    Coronal,
    /// Across x: rows to the right, slices up.
    Sagittal,
}

impl Plane {
    /// The three planes.
    pub const ALL: [Self; 3] = [Self::Axial, Self::Coronal, Self::Sagittal];

    /// The axis that the plane is cut across.
    pub const fn across(self) -> Axis {
        match self {
            Self::Axial => Axis::Z,
            Self::Coronal => Axis::Y,
            Self::Sagittal => Axis::X,
        }
    }

    /// The axes that run to the right and down (axial) or up (coronal, sagittal) in the picture.
    pub const fn in_plane(self) -> [Axis; 2] {
        match self {
            Self::Axial => [Axis::X, Axis::Y],
            Self::Coronal => [Axis::X, Axis::Z],
            Self::Sagittal => [Axis::Y, Axis::Z],
        }
    }

    /// The plane's name in capitals-first form.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Axial => "Axial",
            Self::Coronal => "Coronal",
            Self::Sagittal => "Sagittal",
        }
    }
}
