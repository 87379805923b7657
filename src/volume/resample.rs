//! Resampling to a spacing, by the rule of MONAI's `Spacingd` (linear, border, voxel centres kept):
//! voxel 0 keeps its place, `n' = round half to even((n - 1) * old / new + 1)`, output `i` reads input `i * new / old`,
//! positions beyond the last voxel read the last one; no smoothing before shrinking. Arithmetic in float64.

use super::{Volume, Voxels};
use crate::geometry::Extent;
use rayon::prelude::*;

/// A spacing that no volume can be resampled to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResampleError {
    /// Not above zero, or not a number.
    #[error(
        "cannot resample to a spacing of {found} mm along {axis}: expected a length above 0 mm"
    )]
    Spacing {
        /// The axis.
        axis: &'static str,
        /// As given.
        found: f64,
    },
    /// The volume's own step along an axis has no length.
    #[error(
        "cannot resample: the volume's voxels have no size along {axis}; check pixel spacing and slice positions"
    )]
    NoStep {
        /// The axis.
        axis: &'static str,
    },
    /// More voxels than a program can address.
    #[error(
        "cannot resample to {found:?} mm: the result would have more voxels than fit memory; ask for a larger spacing"
    )]
    TooLarge {
        /// The spacing asked for.
        found: [f64; 3],
    },
}

/// The size that a volume of `extent` at `from` mm has at `to` mm.
pub fn resampled_extent(extent: Extent, from: [f64; 3], to: [f64; 3]) -> Extent {
    Extent::from(std::array::from_fn(|a| {
        let n = extent.to_array()[a];
        if n == 0 {
            0
        } else {
            count(((n - 1) as f64 * from[a] / to[a] + 1.0).round_ties_even())
        }
    }))
}

/// The volume at `spacing_mm` along i, j, k, as floats. A volume that has this spacing already comes back as it is.
pub fn resample(volume: &Volume, spacing_mm: [f64; 3]) -> Result<Volume, ResampleError> {
    let from = volume.affine.spacing_mm();
    for (a, axis) in ["x", "y", "z"].into_iter().enumerate() {
        if !(spacing_mm[a].is_finite() && spacing_mm[a] > 0.0) {
            let found = spacing_mm[a];
            return Err(ResampleError::Spacing { axis, found });
        }
        if !(from[a].is_finite() && from[a] > 0.0) {
            return Err(ResampleError::NoStep { axis });
        }
    }
    let same = (0..3).all(|a| (from[a] - spacing_mm[a]).abs() <= 1e-6 * spacing_mm[a]);
    if same || volume.extent.is_empty() {
        return Ok(volume.clone());
    }
    let extent = resampled_extent(volume.extent, from, spacing_mm);
    let voxels = extent
        .checked_voxels()
        .filter(|&n| n < usize::MAX / 8)
        .ok_or(ResampleError::TooLarge { found: spacing_mm })?;
    let taps: [Vec<Tap>; 3] = std::array::from_fn(|a| {
        let n = volume.extent.to_array()[a];
        taps(n, extent.to_array()[a], spacing_mm[a] / from[a])
    });
    let mut out = vec![0f32; voxels];
    out.par_chunks_mut(extent.x * extent.y)
        .enumerate()
        .for_each(|(k, plane)| fill_plane(volume, &taps, taps[2][k], plane));
    let mut affine = volume.affine;
    for a in 0..3 {
        affine.step[a] = affine.step[a].map(|c| c * spacing_mm[a] / from[a]);
    }
    Ok(Volume {
        extent,
        affine,
        voxels: Voxels::F32(out),
        padding: volume.padding,
        is_hu: volume.is_hu,
        z_spacing_known: volume.z_spacing_known,
    })
}

/// The two input voxels that an output voxel lies between and the share of the second.
#[derive(Clone, Copy)]
struct Tap {
    low: usize,
    high: usize,
    share: f64,
}

fn taps(n_in: usize, n_out: usize, ratio: f64) -> Vec<Tap> {
    let last = n_in - 1;
    (0..n_out)
        .map(|i| {
            let at = (i as f64 * ratio).clamp(0.0, last as f64);
            let low = count(at.floor());
            Tap {
                low,
                high: (low + 1).min(last),
                share: at - low as f64,
            }
        })
        .collect()
}

fn fill_plane(volume: &Volume, taps: &[Vec<Tap>; 3], z: Tap, plane: &mut [f32]) {
    let [nx, ny, _] = volume.extent.to_array();
    let width = taps[0].len();
    let row = |j: usize, k: usize| (k * ny + j) * nx;
    let read = |index: usize| volume.voxels.get(index).map_or(0.0, f64::from);
    let mut blended = vec![0f64; nx];
    for (out, y) in plane.chunks_mut(width).zip(&taps[1]) {
        let [a, b, c, d] = [
            row(y.low, z.low),
            row(y.high, z.low),
            row(y.low, z.high),
            row(y.high, z.high),
        ];
        for (i, to) in blended.iter_mut().enumerate() {
            let near = mix(read(a + i), read(b + i), y.share);
            let far = mix(read(c + i), read(d + i), y.share);
            *to = mix(near, far, z.share);
        }
        for (to, x) in out.iter_mut().zip(&taps[0]) {
            *to = to_f32(mix(blended[x.low], blended[x.high], x.share));
        }
    }
}

fn mix(a: f64, b: f64, t: f64) -> f64 {
    a + (b - a) * t
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "values of a volume are float32 at most"
)]
fn to_f32(v: f64) -> f32 {
    v as f32
}

/// A count from a whole, non-negative float; what is too large saturates and is refused by its caller.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole and not negative; saturates"
)]
fn count(v: f64) -> usize {
    v as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Affine;

    fn volume(extent: Extent, spacing: [f64; 3], f: impl Fn([usize; 3]) -> f32) -> Volume {
        let mut v = Vec::new();
        for k in 0..extent.z {
            for j in 0..extent.y {
                for i in 0..extent.x {
                    v.push(f([i, j, k]));
                }
            }
        }
        Volume {
            extent,
            affine: Affine::axis_aligned(spacing),
            voxels: Voxels::F32(v),
            padding: None,
            is_hu: true,
            z_spacing_known: true,
        }
    }

    #[test]
    fn a_ramp_stays_a_ramp_in_mm() {
        let v = volume(Extent::new(9, 7, 5), [1.0, 1.5, 3.0], |[i, j, k]| {
            (i as f32) + 1.5 * (j as f32) + 3.0 * (k as f32)
        });
        let r = resample(&v, [0.8, 1.0, 2.0]).unwrap();
        assert_eq!(r.extent, Extent::new(11, 10, 7));
        for p in [[0, 0, 0], [3, 2, 1], [9, 8, 5], [10, 9, 6]] {
            let mm = 0.8 * p[0] as f32 + p[1] as f32 + 2.0 * p[2] as f32;
            assert!((r.at(p).unwrap() - mm).abs() < 1e-5, "{p:?}");
        }
        for (got, want) in r.affine.spacing_mm().iter().zip([0.8, 1.0, 2.0]) {
            assert!((got - want).abs() < 1e-12);
        }
    }

    #[test]
    fn positions_beyond_the_last_voxel_read_the_last() {
        let v = volume(Extent::new(3, 1, 1), [1.0; 3], |[i, _, _]| i as f32);
        // round half to even of 2 / 0.8 + 1 = 3.5 is 4; output 3 lies at 2.4 mm.
        let r = resample(&v, [0.8, 1.0, 1.0]).unwrap();
        assert_eq!(r.extent.x, 4);
        assert_eq!(r.at([3, 0, 0]), Some(2.0));
    }

    #[test]
    fn the_bundles_size_is_monais() {
        let e = resampled_extent(
            Extent::new(512, 512, 140),
            [0.4882; 3],
            [0.703_125, 0.703_125, 1.25],
        );
        assert_eq!(e, Extent::new(356, 356, 55));
    }

    #[test]
    fn a_spacing_of_zero_is_refused_with_its_axis() {
        let v = volume(Extent::cube(2), [1.0; 3], |_| 0.0);
        let error = resample(&v, [1.0, 0.0, 1.0]).unwrap_err().to_string();
        assert!(
            error.contains("along y") && error.contains("0 mm"),
            "{error}"
        );
    }
}
