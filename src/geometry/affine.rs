//! The affine from voxel indices (i, j, k) to patient space (LPS, mm), kept whole so that tilt stays a shear.

use serde::{Deserialize, Serialize};

/// Voxel index `[i, j, k]` to patient position in mm (LPS): `origin + i*col[0] + j*col[1] + k*col[2]`. Voxel centres are at whole indices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Affine {
    /// Steps in mm per index: along i (a row of pixels), along j (down the columns), along k (slice to slice).
    pub step: [[f64; 3]; 3],
    /// Position of voxel (0, 0, 0) in mm, LPS.
    pub origin: [f64; 3],
}

/// An affine that cannot be turned round.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AffineError {
    /// The three steps lie in one plane or one is zero.
    #[error(
        "the affine has no inverse (determinant {determinant:e} mm^3): two voxels share one position; check pixel spacing and slice positions"
    )]
    Singular {
        /// Volume of a voxel as found, in mm^3.
        determinant: f64,
    },
}

/// The scalar product.
pub fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// The vector product.
pub fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

impl Affine {
    /// Axis-aligned volume (rows towards the left, columns towards posterior, slices towards the head) at the origin.
    pub fn axis_aligned(spacing_mm: [f64; 3]) -> Self {
        let [x, y, z] = spacing_mm;
        Self {
            step: [[x, 0.0, 0.0], [0.0, y, 0.0], [0.0, 0.0, z]],
            origin: [0.0; 3],
        }
    }

    /// Patient position in mm (LPS) of a voxel index, which may be fractional.
    pub fn to_patient(self, index: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|r| {
            self.origin[r]
                + index[0] * self.step[0][r]
                + index[1] * self.step[1][r]
                + index[2] * self.step[2][r]
        })
    }

    /// Distance in mm between neighbouring voxel centres along i, j and k (the length of the step vectors).
    pub fn spacing_mm(&self) -> [f64; 3] {
        std::array::from_fn(|a| dot(self.step[a], self.step[a]).sqrt())
    }

    /// Unit vectors of the three steps (zero for a zero step).
    pub fn directions(&self) -> [[f64; 3]; 3] {
        let s = self.spacing_mm();
        std::array::from_fn(|a| {
            std::array::from_fn(|r| {
                if s[a] > 0.0 {
                    self.step[a][r] / s[a]
                } else {
                    0.0
                }
            })
        })
    }

    /// Signed volume of one voxel in mm^3.
    pub fn determinant(&self) -> f64 {
        dot(cross(self.step[0], self.step[1]), self.step[2])
    }

    /// Fractional voxel index of a patient position in mm (LPS).
    pub fn to_index(self, patient: [f64; 3]) -> Result<[f64; 3], AffineError> {
        let determinant = self.determinant();
        if !determinant.is_finite() || determinant.abs() < 1e-12 {
            return Err(AffineError::Singular { determinant });
        }
        let d: [f64; 3] = std::array::from_fn(|r| patient[r] - self.origin[r]);
        let [a, b, c] = self.step;
        Ok([
            dot(cross(b, c), d) / determinant,
            dot(cross(c, a), d) / determinant,
            dot(cross(a, b), d) / determinant,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheared_affine_goes_there_and_back() {
        let a = Affine {
            step: [[0.7, 0.0, 0.0], [0.0, 0.7, 0.1], [0.0, -0.5, 2.0]],
            origin: [-100.0, 20.0, 736.2],
        };
        let back = a.to_index(a.to_patient([3.5, -2.0, 17.25])).unwrap();
        for (got, want) in back.iter().zip([3.5, -2.0, 17.25]) {
            assert!((got - want).abs() < 1e-9);
        }
    }

    #[test]
    fn two_slices_at_one_position_have_no_inverse() {
        let a = Affine {
            step: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0; 3]],
            origin: [0.0; 3],
        };
        assert!(
            a.to_index([0.0; 3])
                .unwrap_err()
                .to_string()
                .contains("no inverse")
        );
    }
}
