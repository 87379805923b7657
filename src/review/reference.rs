//! A run's outputs against a reference's: how far they differ at each seam and away from all of them.

use super::{Verdict, said};
use crate::geometry::Axis;
use crate::numeric::sigmoid;
use crate::tiling::AxesOrder;

/// Voxels of an output on each side of a seam that count as near it.
const NEAR: usize = 2;
/// Differences near seams so many times those elsewhere are the seams' doing.
const SEAM_FACTOR: f64 = 2.0;

/// One output as it was kept: `(channels, axis 0, axis 1, axis 2)`, C order, over the prepared volume.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Channels.
    pub channels: usize,
    /// Whether each channel is a score of its own, as of a detector, not one class of several.
    pub each: bool,
    /// Spatial size in the tensor's axis order.
    pub spatial: [usize; 3],
    /// The values.
    pub values: &'a [f32],
}

/// What differs near one seam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlaneDifference {
    /// The axis across it.
    pub axis: Axis,
    /// It lies before this voxel of the prepared volume.
    pub at: usize,
    /// The mean step across it over the reference's; `None` where the reference is flat.
    pub step_ratio: Option<f64>,
    /// The largest difference near it.
    pub diff_max: f64,
    /// Voxels near it whose best class (or side of one half) differs.
    pub flips: u64,
}

/// What differs in all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Differences {
    /// The largest.
    pub max: f64,
    /// Their mean.
    pub mean: f64,
    /// Their mean within two voxels of a seam.
    pub mean_near: f64,
    /// Their mean elsewhere.
    pub mean_far: f64,
    /// Voxels whose best class (or side of one half) differs.
    pub flips: u64,
    /// By seam.
    pub planes: Vec<PlaneDifference>,
    /// Voxels by the size of their difference within two voxels of a seam, see [`BINS`].
    pub counts_near: [u64; BINS],
    /// The same elsewhere.
    pub counts_far: [u64; BINS],
}

/// Steps of the histogram of differences: 0, then half a decade each from 1e-6; the last holds all from 10^0.5.
pub const BINS: usize = 15;

/// The lower end of a step of the histogram.
pub fn bin_from(bin: usize) -> f64 {
    if bin == 0 {
        return 0.0;
    }
    10f64.powf(0.5 * (bin as f64 - 1.0) - 6.0)
}

/// The step that a difference falls into; what is below 1e-6 and not 0 stands with the first of them.
fn bin_of(off: f64, from: &[f64; BINS]) -> usize {
    if off == 0.0 {
        return 0;
    }
    (1..BINS).rev().find(|b| off >= from[*b]).unwrap_or(1)
}

/// Where seams lie in one output.
struct Places {
    /// (axis of the tensor, place in the output, axis, place in the prepared volume).
    list: Vec<(usize, usize, Axis, usize)>,
    near: [Vec<bool>; 3],
}

fn places(
    planes: &[Vec<usize>; 3],
    prepared: [usize; 3],
    axes: AxesOrder,
    spatial: [usize; 3],
) -> Places {
    let mut list = Vec::new();
    let mut near: [Vec<bool>; 3] = spatial.map(|n| vec![false; n]);
    let order = axes.reorder([0, 1, 2]);
    for axis in Axis::ALL {
        let a = axis.index();
        let t = order.iter().position(|o| *o == a).unwrap_or(a);
        for &at in &planes[a] {
            // Rounded to the nearest voxel border of an output that is coarser than the volume.
            let place = (2 * at * spatial[t] + prepared[a]) / (2 * prepared[a].max(1));
            list.push((t, place, axis, at));
            let from = place.saturating_sub(NEAR);
            for n in near[t].iter_mut().take(place + NEAR).skip(from) {
                *n = true;
            }
        }
    }
    Places { list, near }
}

/// The score of a voxel's logits: of the best channel where each stands alone (or is the only one), else of all but background.
/// NaN where the logits are none.
pub fn foreground(logits: impl Iterator<Item = f32> + Clone, each: bool) -> f32 {
    let most = logits.clone().fold(f32::NEG_INFINITY, f32::max);
    if each || logits.clone().nth(1).is_none() {
        return if logits.clone().all(f32::is_nan) {
            f32::NAN
        } else {
            sigmoid(most)
        };
    }
    let share = |v: f32| (v - most).exp();
    let first = logits.clone().next().map_or(0.0, share);
    1.0 - first / logits.map(share).sum::<f32>()
}

impl Kept<'_> {
    /// The score of a voxel, by its place in a channel.
    pub fn score(&self, at: usize) -> f32 {
        let n = self.voxels();
        let logits = (0..self.channels).map(|c| self.values.get(c * n + at));
        foreground(logits.map(|v| v.copied().unwrap_or(f32::NAN)), self.each)
    }

    /// The difference from a reference at a voxel with its sign, in the channel where it is largest. 0 where nothing can be said.
    pub fn signed(&self, reference: &Self, at: usize) -> f32 {
        let n = self.voxels();
        let mut most = 0.0_f32;
        for c in 0..self.channels.min(reference.channels) {
            let (Some(x), Some(y)) = (
                self.values.get(c * n + at),
                reference.values.get(c * n + at),
            ) else {
                return most;
            };
            if (x - y).abs() > most.abs() {
                most = x - y;
            }
        }
        most
    }

    fn voxels(&self) -> usize {
        self.spatial.iter().product()
    }

    /// Whether a voxel's best class is another; of channels that stand alone, whether one goes past 0, a score of one half.
    fn flips(&self, other: &Self, at: usize, n: usize) -> bool {
        if self.each || self.channels == 1 {
            let above = |k: &Self, c: usize| k.values[c * n + at] > 0.0;
            return (0..self.channels).any(|c| above(self, c) != above(other, c));
        }
        self.best(at, n) != other.best(at, n)
    }

    fn best(&self, at: usize, n: usize) -> usize {
        let mut best = (f32::NEG_INFINITY, 0);
        for c in 0..self.channels {
            let v = self.values[c * n + at];
            if v > best.0 {
                best = (v, c);
            }
        }
        best.1
    }

    /// The largest difference from another over all channels of a voxel.
    fn off(&self, other: &Self, at: usize, n: usize) -> f64 {
        (0..self.channels)
            .map(|c| {
                let (x, y) = (self.values[c * n + at], other.values[c * n + at]);
                match (x.is_nan(), y.is_nan()) {
                    (true, true) => 0.0,
                    _ if x == y => 0.0,
                    (false, false) => f64::from((x - y).abs()),
                    _ => f64::INFINITY,
                }
            })
            .fold(0.0, f64::max)
    }

    /// The mean step from one plane to the next, over all channels.
    fn step(&self, axis: usize, place: usize) -> f64 {
        let [_, b, c] = self.spatial;
        let stride = [b * c, c, 1];
        let n = self.voxels();
        let mut size = self.spatial;
        size[axis] = 1;
        let mut sum = 0.0;
        for channel in 0..self.channels {
            for i in 0..size[0] {
                for j in 0..size[1] {
                    for k in 0..size[2] {
                        let at = channel * n + i * stride[0] + j * stride[1] + k * stride[2];
                        let here = at + place * stride[axis];
                        sum +=
                            f64::from((self.values[here] - self.values[here - stride[axis]]).abs());
                    }
                }
            }
        }
        sum
    }
}

/// Holds an output against the reference's. `planes` are x, y, z in the prepared volume.
pub fn differences(
    (a, reference): (&Kept<'_>, &Kept<'_>),
    planes: &[Vec<usize>; 3],
    prepared: [usize; 3],
    axes: AxesOrder,
) -> Result<Differences, String> {
    let same = a.channels == reference.channels && a.spatial == reference.spatial;
    let n = a.voxels();
    if !same || a.values.len() != n * a.channels || reference.values.len() != a.values.len() {
        return Err(format!(
            "the outputs have other shapes: {} channels of {:?} and {} of {:?}",
            a.channels, a.spatial, reference.channels, reference.spatial
        ));
    }
    let places = places(planes, prepared, axes, a.spatial);
    let mut out = Differences {
        planes: places
            .list
            .iter()
            .map(|&(t, place, axis, at)| {
                let inside = place > 0 && place < a.spatial[t];
                let (x, y) = if inside {
                    (a.step(t, place), reference.step(t, place))
                } else {
                    (0.0, 0.0)
                };
                PlaneDifference {
                    axis,
                    at,
                    step_ratio: (y > 0.0).then(|| x / y),
                    diff_max: 0.0,
                    flips: 0,
                }
            })
            .collect(),
        ..Differences::default()
    };
    let (mut near, mut far) = ((0.0, 0_u64), (0.0, 0_u64));
    let from: [f64; BINS] = std::array::from_fn(bin_from);
    for at in 0..n {
        let [_, b, c] = a.spatial;
        let index = [at / (b * c), at / c % b, at % c];
        let off = a.off(reference, at, n);
        let flip = u64::from(a.flips(reference, at, n));
        out.max = out.max.max(off);
        out.flips += flip;
        let (sum, counts) = if (0..3).any(|t| places.near[t][index[t]]) {
            (&mut near, &mut out.counts_near)
        } else {
            (&mut far, &mut out.counts_far)
        };
        counts[bin_of(off, &from)] += 1;
        sum.0 += off;
        sum.1 += 1;
        if off > 0.0 {
            for (p, &(t, place, ..)) in out.planes.iter_mut().zip(&places.list) {
                if index[t] + NEAR >= place && index[t] < place + NEAR {
                    p.diff_max = p.diff_max.max(off);
                    p.flips += flip;
                }
            }
        }
    }
    let mean = |(sum, n): (f64, u64)| if n > 0 { sum / n as f64 } else { 0.0 };
    out.mean = mean((near.0 + far.0, near.1 + far.1));
    (out.mean_near, out.mean_far) = (mean(near), mean(far));
    Ok(out)
}

/// The verdict over all outputs, and why.
pub fn judge(all: &[Differences]) -> (Verdict, String) {
    let max = all.iter().map(|d| d.max).fold(0.0, f64::max);
    let flips: u64 = all.iter().map(|d| d.flips).sum();
    let near = all.iter().map(|d| d.mean_near).fold(0.0, f64::max);
    let far = all.iter().map(|d| d.mean_far).fold(0.0, f64::max);
    let figures = format!(
        "up to {}, {flips} voxels flip; mean {} near seams, {} elsewhere",
        said(max),
        said(near),
        said(far)
    );
    if max == 0.0 {
        (
            Verdict::Bitwise,
            "the outputs are the reference's bit by bit".to_owned(),
        )
    } else if max <= 1e-5 && flips == 0 {
        (
            Verdict::Float,
            format!("the outputs differ from the reference by rounding, {figures}"),
        )
    } else if max <= 0.04 && flips == 0 {
        (
            Verdict::Tolerance,
            format!(
                "the outputs differ from the reference by what moves no score by more than 0.01: {figures}"
            ),
        )
    } else if near > SEAM_FACTOR * far {
        (
            Verdict::Seam,
            format!("the outputs differ from the reference at seams: {figures}"),
        )
    } else {
        (
            Verdict::Other,
            format!("the outputs differ from the reference, and not only at seams: {figures}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(values: &[f32]) -> Kept<'_> {
        Kept {
            channels: 1,
            each: false,
            spatial: [1, 1, values.len()],
            values,
        }
    }

    fn against(a: &[f32], reference: &[f32]) -> Differences {
        let planes = [vec![16], Vec::new(), Vec::new()];
        // Twelve positions over 24 voxels along x, which is the tensor's last axis.
        differences(
            (&kept(a), &kept(reference)),
            &planes,
            [24, 1, 1],
            AxesOrder::Zyx,
        )
        .unwrap()
    }

    #[test]
    fn a_difference_at_a_seam_is_found_there_and_judged_as_one() {
        let reference = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0];
        let same = against(&reference, &reference);
        assert_eq!(judge(std::slice::from_ref(&same)).0, Verdict::Bitwise);
        assert_eq!(same.planes[0].step_ratio, Some(1.0));
        let mut a = reference;
        a[8] = -1.0;
        let d = against(&a, &reference);
        assert_eq!((d.max, d.planes[0].diff_max), (1.0, 1.0));
        assert_eq!(d.planes[0].step_ratio, Some(2.0));
        assert_eq!((d.planes[0].at, d.planes[0].axis), (16, Axis::X));
        assert_eq!(d.counts_near.iter().sum::<u64>(), 4);
        assert_eq!((d.counts_near[13], d.counts_far[0]), (1, 8));
        assert_eq!((d.flips, judge(&[d]).0), (0, Verdict::Seam));
        let mut far = reference;
        far[1] = -1.0;
        let d = against(&far, &reference);
        assert_eq!((d.flips, d.planes[0].diff_max), (1, 0.0));
        assert_eq!(judge(&[d]).0, Verdict::Other);
        let short = [0.0_f32; 4];
        assert!(
            differences(
                (&kept(&reference), &kept(&short)),
                &[vec![], vec![], vec![]],
                [24, 1, 1],
                AxesOrder::Zyx
            )
            .is_err()
        );
    }

    #[test]
    fn values_that_are_no_numbers_on_one_side_are_a_difference_and_anchors_are_no_classes() {
        let (numbers, none) = ([1.0_f32; 12], [f32::NAN; 12]);
        let d = against(&none, &numbers);
        assert!(d.max.is_infinite() && judge(&[d]).0 == Verdict::Other);
        let d = against(&none, &none);
        assert_eq!((d.max, judge(&[d]).0), (0.0, Verdict::Bitwise));
        let two = |values| Kept {
            channels: 2,
            each: true,
            spatial: [1, 1, 1],
            values,
        };
        assert_eq!(two(&[-3.0, 0.0]).score(0), 0.5);
        assert_eq!(two(&[-3.0, 0.0]).signed(&two(&[1.0, 0.5]), 0), -4.0);
        let classes = Kept {
            each: false,
            ..two(&[0.0, 0.0])
        };
        assert_eq!(classes.score(0), 0.5, "all but background");
        // The best of two anchors changes, no score passes one half.
        let (a, b) = (two(&[-3.0, -3.01]), two(&[-3.01, -3.0]));
        let d = differences((&a, &b), &Default::default(), [1; 3], AxesOrder::Xyz).unwrap();
        assert_eq!(d.flips, 0);
    }
}
