//! A straight line through measured points: bytes = intercept + slope x X, with residuals. A line that no machine can
//! follow (a negative fixed cost) is refused in words.

use super::MemoryError;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// One measured point: a knob (batch, slices, voxels) and the bytes it took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Value of the knob.
    pub x: f64,
    /// Measured bytes.
    pub bytes: f64,
}

/// A fitted line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Bytes at X = 0: what does not move with the knob.
    pub intercept: f64,
    /// Bytes per unit of X.
    pub slope: f64,
    /// Measured less fitted bytes, point by point.
    pub residuals: Vec<f64>,
    /// Why the line must not be used; `None` when it may.
    pub refused: Option<String>,
}

/// The least-squares line through the points. Impossible lines come back with `refused`; points that give no line are an error.
pub fn fit(points: &[Point]) -> Result<Calibration, MemoryError> {
    let bad = |reason: String| MemoryError::Calibration { reason };
    if points.len() < 2 {
        return Err(bad(format!(
            "a line needs at least two measured points, found {}; measure one more",
            points.len()
        )));
    }
    for p in points {
        let sound = p.x.is_finite() && p.bytes.is_finite() && p.x > 0.0 && p.bytes > 0.0;
        if !sound {
            return Err(bad(format!(
                "a measured point needs X and bytes above zero, found {}={}; correct it",
                p.x, p.bytes
            )));
        }
    }
    let n = points.len() as f64;
    let mean_x = points.iter().map(|p| p.x).sum::<f64>() / n;
    let mean_y = points.iter().map(|p| p.bytes).sum::<f64>() / n;
    let spread: f64 = points.iter().map(|p| (p.x - mean_x).powi(2)).sum();
    if spread <= f64::EPSILON * mean_x * mean_x {
        return Err(bad(format!(
            "all points have the same X = {}; measure at another X",
            points.first().map_or(0.0, |p| p.x)
        )));
    }
    let joint: f64 = points
        .iter()
        .map(|p| (p.x - mean_x) * (p.bytes - mean_y))
        .sum();
    let slope = joint / spread;
    let intercept = slope.mul_add(-mean_x, mean_y);
    let residuals = points
        .iter()
        .map(|p| p.bytes - slope.mul_add(p.x, intercept))
        .collect();
    Ok(Calibration {
        intercept,
        slope,
        residuals,
        refused: refusal(intercept, slope, mean_y),
    })
}

fn refusal(intercept: f64, slope: f64, mean: f64) -> Option<String> {
    let gib = |b: f64| format!("{:.2} GiB", b / (1u64 << 30) as f64);
    if slope <= 0.0 {
        return Some(format!(
            "the fitted line falls by {} for each unit of X: more work cannot take less memory, so the points were not taken with the same settings",
            gib(-slope)
        ));
    }
    // Rounding of a line through the origin is no negative cost.
    (intercept < -1e-6 * mean).then(|| {
        format!(
            "the fitted fixed cost is negative (\u{2212}{}): weights and context cannot take less than nothing, so these points do not lie on one line; memory stepped between them (another convolution algorithm, say), measure more points on one side of the step",
            gib(-intercept)
        )
    })
}

impl Calibration {
    /// The largest whole X whose fitted bytes fit; `None` for a refused line.
    pub fn largest(&self, free: Bytes) -> Option<u64> {
        if self.refused.is_some() {
            return None;
        }
        let x = ((free.0 as f64 - self.intercept) / self.slope).floor();
        if x < 1.0 {
            return Some(0);
        }
        format!("{x:.0}").parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: f64 = 1e9;

    fn points(pairs: &[(f64, f64)]) -> Vec<Point> {
        pairs
            .iter()
            .map(|&(x, gb)| Point { x, bytes: gb * GB })
            .collect()
    }

    #[test]
    fn points_on_a_line_give_that_line_and_the_largest_batch() {
        let c = fit(&points(&[(1.0, 5.0), (2.0, 8.0), (4.0, 14.0)])).unwrap();
        assert!((c.intercept - 2.0 * GB).abs() < 1.0 && (c.slope - 3.0 * GB).abs() < 1.0);
        assert!(c.residuals.iter().all(|r| r.abs() < 1.0) && c.refused.is_none());
        assert_eq!(c.largest(Bytes(16_000_000_000)), Some(4));
        assert_eq!(c.largest(Bytes(1_000_000_000)), Some(0));
    }

    #[test]
    fn the_articles_table_is_refused_because_its_fixed_cost_is_negative() {
        let c = fit(&points(&[(192.0, 44.0), (100.0, 22.0), (64.0, 10.59)])).unwrap();
        assert!(c.intercept < 0.0);
        let why = c.refused.clone().unwrap();
        assert!(why.contains("negative") && why.contains("GiB"), "{why}");
        assert_eq!(c.largest(Bytes::gib(16)), None);
    }

    #[test]
    fn points_without_a_line_are_refused_in_words() {
        for bad in [
            points(&[(1.0, 2.0)]),
            points(&[(3.0, 2.0), (3.0, 4.0)]),
            points(&[(1.0, 2.0), (2.0, f64::NAN)]),
            points(&[(0.0, 2.0), (2.0, 3.0)]),
        ] {
            assert!(fit(&bad).unwrap_err().to_string().len() > 20);
        }
        assert!(
            fit(&points(&[(1.0, 4.0), (2.0, 3.0)]))
                .unwrap()
                .refused
                .is_some()
        );
    }
}
