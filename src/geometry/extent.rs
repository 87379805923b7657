//! A size in voxels along x (columns), y (rows) and z (slices).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A size in voxels: `x` columns, `y` rows, `z` slices. In memory z is the slowest axis; in text `XxYxZ`; in JSON `[x, y, z]`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(from = "[usize; 3]", into = "[usize; 3]")]
pub struct Extent {
    /// Columns.
    pub x: usize,
    /// Rows.
    pub y: usize,
    /// Slices.
    pub z: usize,
}

/// Text that is not a size.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[error("a size is three whole numbers joined by x, such as 512x512x64; found \"{found}\"")]
pub struct ExtentError {
    /// What was typed.
    pub found: String,
}

impl Extent {
    /// A size from columns, rows and slices.
    pub const fn new(x: usize, y: usize, z: usize) -> Self {
        Self { x, y, z }
    }

    /// The same number of voxels along every axis.
    pub const fn cube(n: usize) -> Self {
        Self::new(n, n, n)
    }

    /// Voxels in all, or `None` when the product does not fit 64 bits.
    pub fn checked_voxels(self) -> Option<usize> {
        self.x.checked_mul(self.y)?.checked_mul(self.z)
    }

    /// Voxels in all, for a size already known to be in memory.
    pub fn voxels(self) -> usize {
        self.x * self.y * self.z
    }

    /// `[x, y, z]`.
    pub const fn to_array(self) -> [usize; 3] {
        [self.x, self.y, self.z]
    }

    /// Applies `f` to both sizes axis by axis.
    pub fn zip(self, other: Self, f: impl Fn(usize, usize) -> usize) -> Self {
        Self::new(f(self.x, other.x), f(self.y, other.y), f(self.z, other.z))
    }

    /// Whether the size has no voxel.
    pub const fn is_empty(self) -> bool {
        self.x == 0 || self.y == 0 || self.z == 0
    }
}

impl From<[usize; 3]> for Extent {
    fn from([x, y, z]: [usize; 3]) -> Self {
        Self { x, y, z }
    }
}

impl From<Extent> for [usize; 3] {
    fn from(e: Extent) -> Self {
        e.to_array()
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.x, self.y, self.z)
    }
}

impl FromStr for Extent {
    type Err = ExtentError;

    fn from_str(text: &str) -> Result<Self, ExtentError> {
        let parts: Result<Vec<usize>, _> = text
            .split(['x', 'X', '\u{d7}'])
            .map(|p| p.trim().parse())
            .collect();
        match parts.as_deref() {
            Ok([x, y, z]) => Ok(Self::new(*x, *y, *z)),
            _ => Err(ExtentError {
                found: text.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_reads_back_as_it_is_printed() {
        let e = Extent::new(512, 511, 64);
        assert_eq!(e.to_string(), "512x511x64");
        assert_eq!("512x511x64".parse::<Extent>().unwrap(), e);
        assert!("512x64".parse::<Extent>().is_err());
        assert!(
            "axbxc"
                .parse::<Extent>()
                .unwrap_err()
                .to_string()
                .contains("axbxc")
        );
        assert_eq!(serde_json::to_string(&e).unwrap(), "[512,511,64]");
    }
}
