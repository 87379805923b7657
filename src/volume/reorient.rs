//! Axes swapped and turned round so that indices grow in asked directions; the affine moves along, no value changes.

use super::{Volume, Voxels};
use crate::geometry::{Affine, Extent};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The directions in which i, j and k grow: per axis the patient axis (0 left-right, 1 front-back, 2 foot-head)
/// and whether the index grows towards L, P or H (else R, A or F).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Orientation([(usize, bool); 3]);

/// Text that names no orientation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[error(
    "an orientation is three letters, one of L or R, one of P or A, one of S or I, such as LPS or RAS; found \"{found}\""
)]
pub struct OrientationError {
    /// What was given.
    pub found: String,
}

impl Orientation {
    /// Columns to the left, rows to the back, slices to the head: the usual axial CT.
    pub const LPS: Self = Self([(0, true), (1, true), (2, true)]);
    /// Columns to the right, rows to the front, slices to the head.
    pub const RAS: Self = Self([(0, false), (1, false), (2, true)]);

    /// The orientation nearest to an affine's directions.
    pub fn of(affine: &Affine) -> Self {
        let d = affine.directions();
        let orders = [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ];
        let weight = |o: &[usize; 3]| (0..3).map(|a| d[a][o[a]].abs()).sum::<f64>();
        let mut best = orders[0];
        for order in orders {
            if weight(&order) > weight(&best) + 1e-9 {
                best = order;
            }
        }
        Self(std::array::from_fn(|a| (best[a], d[a][best[a]] >= 0.0)))
    }
}

impl FromStr for Orientation {
    type Err = OrientationError;

    fn from_str(text: &str) -> Result<Self, OrientationError> {
        let wrong = || OrientationError {
            found: text.to_owned(),
        };
        let mut axes = Vec::new();
        for c in text.chars() {
            axes.push(match c.to_ascii_uppercase() {
                'L' => (0, true),
                'R' => (0, false),
                'P' => (1, true),
                'A' => (1, false),
                'S' | 'H' => (2, true),
                'I' | 'F' => (2, false),
                _ => return Err(wrong()),
            });
        }
        let Ok(axes) = <[(usize, bool); 3]>::try_from(axes) else {
            return Err(wrong());
        };
        let mut seen = axes.map(|(a, _)| a);
        seen.sort_unstable();
        if seen == [0, 1, 2] {
            Ok(Self(axes))
        } else {
            Err(wrong())
        }
    }
}

impl std::fmt::Display for Orientation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (axis, up) in self.0 {
            let letters = [["R", "L"], ["A", "P"], ["I", "S"]];
            f.write_str(letters[axis][usize::from(up)])?;
        }
        Ok(())
    }
}

impl From<Orientation> for String {
    fn from(o: Orientation) -> Self {
        o.to_string()
    }
}

impl TryFrom<String> for Orientation {
    type Error = OrientationError;

    fn try_from(text: String) -> Result<Self, OrientationError> {
        text.parse()
    }
}

/// The volume with its axes swapped and turned so that its orientation is `wanted` (as near as its directions allow).
pub fn reorient(volume: &Volume, wanted: Orientation) -> Volume {
    let now = Orientation::of(&volume.affine);
    if now == wanted {
        return volume.clone();
    }
    // For each new axis: the old axis it comes from, and whether it runs the other way.
    let source: [(usize, bool); 3] = std::array::from_fn(|a| {
        let (patient_axis, up) = wanted.0[a];
        let from = now.0.iter().position(|(p, _)| *p == patient_axis);
        let from = from.unwrap_or(a);
        (from, now.0[from].1 != up)
    });
    let old = volume.extent.to_array();
    let extent = Extent::from(source.map(|(from, _)| old[from]));
    let mut affine = volume.affine;
    for (a, (from, turned)) in source.into_iter().enumerate() {
        let step = volume.affine.step[from];
        affine.step[a] = if turned { step.map(|c| -c) } else { step };
        if turned {
            let last = old[from].saturating_sub(1) as f64;
            for (o, s) in affine.origin.iter_mut().zip(step) {
                *o += last * s;
            }
        }
    }
    let voxels = match &volume.voxels {
        Voxels::I16(v) => Voxels::I16(moved(v, old, source)),
        Voxels::F32(v) => Voxels::F32(moved(v, old, source)),
    };
    Volume {
        extent,
        affine,
        voxels,
        padding: volume.padding,
        is_hu: volume.is_hu,
        z_spacing_known: volume.z_spacing_known,
    }
}

fn moved<T: Copy>(values: &[T], old: [usize; 3], source: [(usize, bool); 3]) -> Vec<T> {
    let step = [1, old[0], old[0] * old[1]];
    let offset = |a: usize, index: usize| {
        let (from, turned) = source[a];
        step[from] * if turned { old[from] - 1 - index } else { index }
    };
    let size = source.map(|(from, _)| old[from]);
    let mut out = Vec::with_capacity(values.len());
    for k in 0..size[2] {
        for j in 0..size[1] {
            let base = offset(2, k) + offset(1, j);
            out.extend((0..size[0]).map(|i| values[base + offset(0, i)]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "indices of a small volume"
    )]
    fn nearest(index: f64) -> usize {
        index.round() as usize
    }

    fn tilted() -> Volume {
        Volume {
            extent: Extent::new(2, 3, 4),
            affine: Affine {
                step: [[0.0, 0.0, -2.0], [0.9, 0.1, 0.0], [-0.1, 1.2, 0.3]],
                origin: [5.0, -3.0, 40.0],
            },
            voxels: Voxels::I16((0..24).collect()),
            padding: None,
            is_hu: true,
            z_spacing_known: true,
        }
    }

    #[test]
    fn every_voxel_keeps_its_value_and_its_place_in_the_patient() {
        let v = tilted();
        assert_eq!(Orientation::of(&v.affine).to_string(), "ILP");
        for wanted in ["LPS", "RAS", "PIR", "SAL"] {
            let r = reorient(&v, wanted.parse().unwrap());
            assert_eq!(Orientation::of(&r.affine).to_string(), wanted);
            let size = r.extent.to_array();
            for i in 0..size[0] {
                for j in 0..size[1] {
                    for k in 0..size[2] {
                        let p = r.affine.to_patient([i as f64, j as f64, k as f64]);
                        let back = v.affine.to_index(p).unwrap().map(nearest);
                        assert_eq!(v.at(back), r.at([i, j, k]));
                    }
                }
            }
        }
    }

    #[test]
    fn letters_that_name_an_axis_twice_are_refused() {
        for wrong in ["LRS", "LP", "LPSS", "XYZ", ""] {
            let error = wrong.parse::<Orientation>().unwrap_err().to_string();
            assert!(error.contains(&format!("\"{wrong}\"")), "{error}");
        }
    }
}
