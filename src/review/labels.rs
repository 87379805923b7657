//! Label masks held against each other: Dice and flips for each label.

use crate::geometry::{Affine, Extent};
use serde::Serialize;

/// A label for each voxel, `[k][j][i]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    /// Size in voxels.
    pub extent: Extent,
    /// Voxel index to LPS mm.
    pub affine: Affine,
    /// Label of each voxel.
    pub values: Vec<u16>,
    /// Names by label, where they are known; the first is background.
    pub names: Vec<String>,
}

/// One label of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelParity {
    /// Its name, or its number.
    pub label: String,
    /// Voxels in A.
    pub n_a: u64,
    /// Voxels in B.
    pub n_b: u64,
    /// Twice what both have over the sum of both; 1 where neither has any. `None` without masks.
    pub dice: Option<f64>,
    /// Voxels that one side gives this label and the other does not. `None` without masks.
    pub flips: Option<u64>,
}

/// The largest distance in mm between the corners of two grids that count as one.
const SAME_GRID_MM: f64 = 1e-2;

/// Compares two masks of one grid label by label, background left out.
pub fn compare(a: &Mask, b: &Mask) -> Result<Vec<LabelParity>, String> {
    if a.extent != b.extent {
        return Err(format!(
            "the label masks have {} and {} voxels; both must lie on one grid",
            a.extent, b.extent
        ));
    }
    let apart = apart(a, b);
    if apart > SAME_GRID_MM {
        return Err(format!(
            "the label masks lie on grids that are up to {apart:.2} mm apart; both must lie on one grid"
        ));
    }
    let most = a.values.iter().chain(&b.values).copied().max().unwrap_or(0);
    let n = (usize::from(most) + 1)
        .max(a.names.len())
        .max(b.names.len());
    let (mut in_a, mut in_b, mut both) = (vec![0_u64; n], vec![0_u64; n], vec![0_u64; n]);
    for (&x, &y) in a.values.iter().zip(&b.values) {
        in_a[usize::from(x)] += 1;
        in_b[usize::from(y)] += 1;
        if x == y {
            both[usize::from(x)] += 1;
        }
    }
    let name = |l: usize| {
        let known = a.names.get(l).or_else(|| b.names.get(l));
        known.cloned().unwrap_or_else(|| l.to_string())
    };
    Ok((1..n)
        .filter(|&l| in_a[l] + in_b[l] > 0 || a.names.get(l).or_else(|| b.names.get(l)).is_some())
        .map(|l| {
            let sum = in_a[l] + in_b[l];
            LabelParity {
                label: name(l),
                n_a: in_a[l],
                n_b: in_b[l],
                dice: Some(if sum == 0 {
                    1.0
                } else {
                    2.0 * both[l] as f64 / sum as f64
                }),
                flips: Some(sum - 2 * both[l]),
            }
        })
        .collect())
}

/// The largest distance between the same corner of both grids, in mm.
fn apart(a: &Mask, b: &Mask) -> f64 {
    let size = a.extent.to_array().map(|n| n.saturating_sub(1) as f64);
    (0..8_usize)
        .map(|corner| {
            let at: [f64; 3] =
                std::array::from_fn(|x| if corner >> x & 1 == 1 { size[x] } else { 0.0 });
            let (p, q) = (a.affine.to_patient(at), b.affine.to_patient(at));
            (0..3).map(|i| (p[i] - q[i]).powi(2)).sum::<f64>().sqrt()
        })
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(values: &[u16]) -> Mask {
        Mask {
            extent: Extent::new(values.len(), 1, 1),
            affine: Affine::axis_aligned([1.0; 3]),
            values: values.to_vec(),
            names: vec!["background".to_owned(), "lung".to_owned()],
        }
    }

    #[test]
    fn dice_and_flips_are_counted_for_each_label_and_background_is_none() {
        let found = compare(&mask(&[0, 1, 1, 2]), &mask(&[0, 1, 2, 2])).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].label.as_str(), found[0].flips), ("lung", Some(1)));
        assert!((found[0].dice.unwrap() - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!((found[1].label.as_str(), found[1].n_b), ("2", 2));
        let empty = compare(&mask(&[0, 0]), &mask(&[0, 0])).unwrap();
        assert_eq!((empty[0].dice, empty[0].flips), (Some(1.0), Some(0)));
    }

    #[test]
    fn masks_of_other_grids_are_refused_in_a_sentence() {
        assert!(compare(&mask(&[0, 1]), &mask(&[0])).is_err());
        let mut moved = mask(&[0, 1]);
        moved.affine.origin[2] = 3.0;
        let said = compare(&mask(&[0, 1]), &moved).unwrap_err();
        assert!(said.contains("3.00 mm"), "{said}");
    }
}
