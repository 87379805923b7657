//! Smallest, largest, mean value, histogram and percentiles of a volume; padding and not-a-number left out.

use super::{Volume, Voxels, is_padding};
use rayon::prelude::*;

/// Steps of the histogram of a volume of floats.
const FLOAT_BINS: usize = 65_536;

/// What a volume's values are like.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// Smallest value.
    pub min: f32,
    /// Largest value.
    pub max: f32,
    /// Mean.
    pub mean: f64,
    /// Values counted; padding and not-a-number are not.
    pub n_values: u64,
    /// Counts in steps of `bin_width` from `min` on.
    pub histogram: Vec<u64>,
    /// Width of a histogram step (1 for whole HU).
    pub bin_width: f32,
}

impl Statistics {
    /// Of all values; `None` when there is none but padding.
    pub fn of(volume: &Volume) -> Option<Self> {
        let padding = volume.padding;
        match &volume.voxels {
            Voxels::I16(v) => of_i16(v, padding),
            Voxels::F32(v) => of_f32(v, padding),
        }
    }

    /// The value that `percent` of the values do not exceed, to within a histogram step (exact for whole HU).
    pub fn percentile(&self, percent: f64) -> f32 {
        let wanted = (percent / 100.0).clamp(0.0, 1.0) * self.n_values as f64;
        let mut seen = 0.0;
        for (bin, &count) in self.histogram.iter().enumerate() {
            seen += count as f64;
            if count > 0 && seen >= wanted {
                return (self.min + bin as f32 * self.bin_width).min(self.max);
            }
        }
        self.max
    }
}

fn of_i16(values: &[i16], padding: Option<(f32, f32)>) -> Option<Statistics> {
    let offset = i32::from(i16::MIN);
    let bin_of = |v: i16| usize::try_from(i32::from(v) - offset).unwrap_or(0);
    let value_of = |bin: usize| bin as f32 + offset as f32;
    let counts = values
        .par_chunks(1 << 20)
        .map(|chunk| {
            let mut counts = vec![0u64; 1 << 16];
            for &v in chunk {
                counts[bin_of(v)] += 1;
            }
            counts
        })
        .reduce(|| vec![0u64; 1 << 16], added);
    let kept = |bin: usize| counts[bin] > 0 && !is_padding(value_of(bin).into(), padding);
    let first = (0..counts.len()).find(|&b| kept(b))?;
    let last = (0..counts.len()).rev().find(|&b| kept(b))?;
    let histogram: Vec<u64> = (first..=last)
        .map(|b| if kept(b) { counts[b] } else { 0 })
        .collect();
    let n_values = histogram.iter().sum();
    let sum: f64 = (first..=last)
        .zip(&histogram)
        .map(|(b, &n)| f64::from(value_of(b)) * n as f64)
        .sum();
    Some(Statistics {
        min: value_of(first),
        max: value_of(last),
        mean: sum / n_values as f64,
        n_values,
        histogram,
        bin_width: 1.0,
    })
}

fn of_f32(values: &[f32], padding: Option<(f32, f32)>) -> Option<Statistics> {
    let kept = |v: f32| v.is_finite() && !is_padding(v.into(), padding);
    // Chunk by chunk and in their order, so that the mean does not depend on the thread count.
    let parts: Vec<(f32, f32, f64, u64)> = values
        .par_chunks(1 << 20)
        .map(|chunk| {
            let mut part = (f32::MAX, f32::MIN, 0.0, 0);
            for &v in chunk.iter().filter(|&&v| kept(v)) {
                part = (
                    part.0.min(v),
                    part.1.max(v),
                    part.2 + f64::from(v),
                    part.3 + 1,
                );
            }
            part
        })
        .collect();
    let (min, max, sum, n_values) = parts
        .into_iter()
        .fold((f32::MAX, f32::MIN, 0.0, 0), |a, b| {
            (a.0.min(b.0), a.1.max(b.1), a.2 + b.2, a.3 + b.3)
        });
    if n_values == 0 {
        return None;
    }
    let bin_width = ((max - min) / (FLOAT_BINS - 1) as f32).max(f32::MIN_POSITIVE);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not below zero, and held to the last bin"
    )]
    let bin_of = |v: f32| (((v - min) / bin_width) as usize).min(FLOAT_BINS - 1);
    let histogram = values
        .par_chunks(1 << 20)
        .map(|chunk| {
            let mut counts = vec![0u64; FLOAT_BINS];
            for &v in chunk.iter().filter(|&&v| kept(v)) {
                counts[bin_of(v)] += 1;
            }
            counts
        })
        .reduce(|| vec![0u64; FLOAT_BINS], added);
    Some(Statistics {
        min,
        max,
        mean: sum / n_values as f64,
        n_values,
        histogram,
        bin_width,
    })
}

fn added(mut a: Vec<u64>, b: Vec<u64>) -> Vec<u64> {
    for (to, from) in a.iter_mut().zip(b) {
        *to += from;
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Affine, Extent};

    fn line(voxels: Voxels, padding: Option<(f32, f32)>) -> Volume {
        Volume {
            extent: Extent::new(voxels.len(), 1, 1),
            affine: Affine::axis_aligned([1.0; 3]),
            voxels,
            padding,
            is_hu: true,
            z_spacing_known: true,
        }
    }

    #[test]
    fn padding_does_not_drive_the_statistics() {
        let mut values = vec![-2000i16; 500];
        values.extend(0..1000);
        let s = Statistics::of(&line(Voxels::I16(values), Some((-2000.0, -2000.0)))).unwrap();
        assert_eq!((s.min, s.max, s.n_values), (0.0, 999.0, 1000));
        assert_eq!(s.mean, 499.5);
        assert_eq!(s.percentile(50.0), 499.0);
        assert_eq!(s.percentile(0.1), 0.0);
        assert_eq!(s.percentile(100.0), 999.0);
    }

    #[test]
    fn floats_and_whole_numbers_agree_and_not_a_number_is_left_out() {
        let mut values: Vec<f32> = (0..4001).map(|v| v as f32 * 0.25).collect();
        values.push(f32::NAN);
        let s = Statistics::of(&line(Voxels::F32(values), None)).unwrap();
        assert_eq!((s.min, s.max, s.n_values), (0.0, 1000.0, 4001));
        assert!((s.percentile(25.0) - 250.0).abs() <= 2.0 * s.bin_width + 0.25);
    }

    #[test]
    fn a_volume_of_padding_alone_has_no_statistics() {
        assert_eq!(
            Statistics::of(&line(Voxels::I16(vec![-9; 8]), Some((-9.0, -9.0)))),
            None
        );
        assert_eq!(
            Statistics::of(&line(Voxels::F32(vec![f32::NAN]), None)),
            None
        );
    }
}
