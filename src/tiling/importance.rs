//! Importance maps as MONAI makes them.

use super::Blend;
use crate::numeric::exp;

/// MONAI's floor of a Gaussian weight, beside the map's own smallest positive value.
const FLOOR: f32 = 1e-3;

/// MONAI's default standard deviation as a share of the window.
pub const SIGMA_SCALE: f64 = 0.125;

/// The weight of each voxel of a window of `shape` (C order), float32 and not normalised.
///
/// Gaussian: the product over axes of exp(-x^2 / 2 s^2) with x counted from the middle and s = `sigma_scale` x size,
/// lifted to at least max(smallest value, 1e-3).
pub fn map(shape: [usize; 3], blend: Blend, sigma_scale: f64) -> Vec<f32> {
    let n: usize = shape.iter().product();
    if blend == Blend::Constant {
        return vec![1.0; n];
    }
    let lines = shape.map(|size| line(size, sigma_scale));
    let mut out = Vec::with_capacity(n);
    for a in &lines[0] {
        for b in &lines[1] {
            let ab = a * b;
            out.extend(lines[2].iter().map(|c| ab * c));
        }
    }
    let smallest = out.iter().copied().fold(f32::INFINITY, f32::min);
    let floor = smallest.max(FLOOR);
    for v in &mut out {
        *v = v.max(floor);
    }
    out
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "float32 is the map's precision"
)]
fn line(size: usize, sigma_scale: f64) -> Vec<f32> {
    let sigma = (sigma_scale * size as f64) as f32;
    let half = (size as f32 - 1.0) / 2.0;
    (0..size)
        .map(|i| {
            let x = i as f32 - half;
            exp(x * x / (-2.0 * sigma * sigma))
        })
        .collect()
}

/// A map resampled to `to` by nearest-exact: output i takes input floor((i + 0.5) x from / to).
pub fn nearest_exact(map: &[f32], from: [usize; 3], to: [usize; 3]) -> Vec<f32> {
    let index = |a: usize| -> Vec<usize> { (0..to[a]).map(|i| pick(i, from[a], to[a])).collect() };
    let (x, y, z) = (index(0), index(1), index(2));
    let mut out = Vec::with_capacity(to.iter().product());
    for &i in &x {
        for &j in &y {
            let row = (i * from[1] + j) * from[2];
            out.extend(z.iter().map(|&k| map[row + k]));
        }
    }
    out
}

fn pick(i: usize, from: usize, to: usize) -> usize {
    ((2 * i + 1) * from / (2 * to)).min(from.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_map_is_ones_and_a_gaussian_peaks_in_the_middle() {
        assert_eq!(map([2, 1, 3], Blend::Constant, SIGMA_SCALE), vec![1.0; 6]);
        let g = map([5, 5, 5], Blend::Gaussian, SIGMA_SCALE);
        assert_eq!(g[62], 1.0);
        assert_eq!(g[0], 1e-3);
    }

    #[test]
    fn nearest_exact_takes_the_voxel_under_the_middle() {
        let m: Vec<f32> = (0..8).map(|i| i as f32).collect();
        assert_eq!(
            nearest_exact(&m, [1, 1, 8], [1, 1, 4]),
            [1.0, 3.0, 5.0, 7.0]
        );
        assert_eq!(nearest_exact(&m, [1, 1, 8], [1, 1, 3]), [1.0, 4.0, 6.0]);
    }
}
