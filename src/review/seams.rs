//! How much windows disagree where they overlap, taken from what the network gives before blending and cropping, with each run.

use super::{Verdict, said};
use crate::engine::Map;
use crate::geometry::Axis;
use crate::tiling::stitch::{OutputShape, Zoom};
use crate::tiling::{Exactness, ExactnessVerdict, TilingPlan};

/// Most bytes that are kept of earlier windows; beyond it only some planes are looked at.
const MOST_BYTES: usize = 64 << 20;
/// Mismatch of logits that moves no score by more than 0.01: sigmoid is nowhere steeper than a quarter.
const HARMLESS: f32 = 0.04;
/// Mismatch that rounding makes.
const ROUNDING: f32 = 1e-5;
/// No plane.
const NONE: u32 = u32::MAX;

/// Absolute differences: the largest, their sum, how many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    max: f32,
    total: f64,
    n: u64,
}

impl Sum {
    fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.total / self.n as f64)
    }

    fn add(&mut self, other: &Self) {
        self.max = self.max.max(other.max);
        self.total += other.total;
        self.n += other.n;
    }
}

/// One output as it is watched.
struct Watched {
    zoom: Zoom,
    channels: usize,
    /// What the last window gave for each voxel of the planes that are kept, channels last.
    last: Vec<f32>,
    all: Sum,
    nan: u64,
    /// Counts by the upper bits of the difference: eight steps to an octave.
    histogram: Vec<u64>,
    /// The seam nearest to each position along each axis.
    nearest: [Vec<u32>; 3],
    judged: bool,
    /// The largest difference over all channels of each voxel of the planes that are kept; empty where none is asked for.
    map: Vec<f32>,
}

/// Watches a run's windows go by.
pub struct SeamWatch {
    outputs: Vec<Watched>,
    /// First voxel of each window, and where the window before it along each axis ends (its own start where there is none).
    windows: Vec<([usize; 3], [usize; 3])>,
    planes: [Vec<usize>; 3],
    by_plane: [Vec<Sum>; 3],
    axes: [usize; 3],
    every: usize,
    pad_before: [usize; 3],
}

/// Mismatch of one output over all overlaps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputMismatch {
    /// Which output.
    pub output: usize,
    /// The largest.
    pub max: f32,
    /// Their mean.
    pub mean: f64,
    /// 99 of 100 are below (within 13 %).
    pub p99: f32,
    /// Values compared.
    pub n: u64,
    /// Values that are not numbers.
    pub nan: u64,
    /// Whether it counts for the verdict and the planes: class logits and segmentations do, box regressions do not.
    pub judged: bool,
}

/// Mismatch near one seam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlaneMismatch {
    /// The axis across it.
    pub axis: Axis,
    /// It lies before this voxel of the prepared volume.
    pub at: usize,
    /// The largest; `None` where windows do not overlap there.
    pub max: Option<f32>,
    /// Their mean.
    pub mean: Option<f64>,
}

/// Where windows disagree about one output: the largest difference at each voxel, over all channels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MismatchMap {
    /// Which output.
    pub output: usize,
    /// Size over the padded volume, in the tensor's axis order; along the first axis one plane in `one_in` is there.
    pub spatial: [usize; 3],
    /// One in so many planes.
    pub one_in: usize,
    /// Voxels of the input per voxel of the output.
    pub stride: [f64; 3],
    /// Voxels of padding before the volume, in the tensor's axis order.
    pub pad_before: [usize; 3],
    /// The differences, C order.
    pub values: Vec<f32>,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeamMetrics {
    /// By output.
    pub outputs: Vec<OutputMismatch>,
    /// By seam.
    pub planes: Vec<PlaneMismatch>,
    /// One in so many planes along the tensor's first axis was looked at.
    pub one_in: usize,
}

impl SeamWatch {
    /// Watches the outputs of a plan; `judged` says which count for the verdict.
    /// `None` with a single window, which has no seams, and where memory for it could not be had.
    pub fn new(
        plan: &TilingPlan,
        shapes: &[OutputShape],
        judged: impl Fn(usize) -> bool,
    ) -> Option<Self> {
        if plan.is_single_pass() {
            return None;
        }
        let axes = plan.axes.reorder([0, 1, 2]);
        let roi = plan.axes.reorder(plan.roi.to_array());
        let padded = plan.axes.reorder(plan.padded.to_array());
        let zooms: Vec<Zoom> = shapes.iter().map(|s| Zoom::new(s, roi, padded)).collect();
        let bytes = |(z, s): (&Zoom, &OutputShape)| {
            let voxels = z.full.iter().fold(4, |p: usize, &n| p.saturating_mul(n));
            voxels.saturating_mul(s.channels)
        };
        let total = zooms
            .iter()
            .zip(shapes)
            .map(bytes)
            .fold(0, usize::saturating_add);
        let every = total.div_ceil(MOST_BYTES).max(1);
        let before = plan.axes.reorder(plan.pad_before);
        let planes = plan.axes.reorder(plan.seam_planes());
        let outputs = zooms
            .into_iter()
            .zip(shapes)
            .enumerate()
            .map(|(o, (zoom, s))| Watched::new(zoom, s, (&planes, before), every, judged(o)))
            .collect::<Option<Vec<_>>>()?;
        Some(Self {
            outputs,
            windows: windows(plan),
            by_plane: std::array::from_fn(|a| vec![Sum::default(); planes[a].len()]),
            planes,
            axes,
            every,
            pad_before: before,
        })
    }

    /// Takes in what the network gave for one window, before it is blended.
    pub fn observe(&mut self, window: usize, output: usize, map: &Map<'_>) {
        let (Some(&(start, ends)), Some(o)) =
            (self.windows.get(window), self.outputs.get_mut(output))
        else {
            return;
        };
        if map.values.len() == o.channels * o.zoom.patch.iter().product::<usize>() {
            o.observe((start, ends), map.values, self.every, &mut self.by_plane);
        }
    }

    /// Keeps a map of the differences of the outputs that count; none where there is no memory for it.
    pub fn with_maps(mut self) -> Self {
        for o in self.outputs.iter_mut().filter(|o| o.judged) {
            let n = o.last.len() / o.channels.max(1);
            if o.map.try_reserve_exact(n).is_ok() {
                o.map.resize(n, 0.0);
            }
        }
        self
    }

    /// The maps that were asked for, by output.
    pub fn take_maps(&mut self) -> Vec<MismatchMap> {
        let (one_in, pad_before) = (self.every, self.pad_before);
        let outputs = self.outputs.iter_mut().enumerate();
        outputs
            .filter(|(_, o)| !o.map.is_empty())
            .map(|(output, o)| MismatchMap {
                output,
                spatial: o.zoom.full,
                one_in,
                stride: o.zoom.stride(),
                pad_before,
                values: std::mem::take(&mut o.map),
            })
            .collect()
    }

    /// What was seen.
    pub fn finish(self) -> SeamMetrics {
        let outputs = self.outputs.iter().enumerate();
        let outputs = outputs
            .map(|(output, o)| OutputMismatch {
                output,
                max: o.all.max,
                mean: o.all.mean().unwrap_or(0.0),
                p99: o.p99(),
                n: o.all.n,
                nan: o.nan,
                judged: o.judged,
            })
            .collect();
        let mut planes = Vec::new();
        for (axis, place) in Axis::ALL.iter().zip(0..3) {
            let Some(t) = self.axes.iter().position(|a| *a == place) else {
                continue;
            };
            for (&at, sum) in self.planes[t].iter().zip(&self.by_plane[t]) {
                planes.push(PlaneMismatch {
                    axis: *axis,
                    at,
                    max: (sum.n > 0).then_some(sum.max),
                    mean: sum.mean(),
                });
            }
        }
        SeamMetrics {
            outputs,
            planes,
            one_in: self.every,
        }
    }
}

/// Start of each window in the tensor's axis order, and the end of its neighbour before it along each axis.
fn windows(plan: &TilingPlan) -> Vec<([usize; 3], [usize; 3])> {
    let roi = plan.roi.to_array();
    plan.windows
        .iter()
        .map(|w| {
            let ends: [usize; 3] = std::array::from_fn(|a| {
                let earlier = plan.starts[a].iter().rev().find(|s| **s < w.roi.min[a]);
                earlier.map_or(w.roi.min[a], |s| (s + roi[a]).max(w.roi.min[a]))
            });
            (plan.axes.reorder(w.roi.min), plan.axes.reorder(ends))
        })
        .collect()
}

impl Watched {
    fn new(
        zoom: Zoom,
        shape: &OutputShape,
        (planes, before): (&[Vec<usize>; 3], [usize; 3]),
        every: usize,
        judged: bool,
    ) -> Option<Self> {
        let [a, b, c] = zoom.full;
        let n = a.div_ceil(every) * b * c * shape.channels;
        let mut last = Vec::new();
        last.try_reserve_exact(n).ok()?;
        last.resize(n, 0.0);
        let nearest = std::array::from_fn(|a| nearest(zoom, a, &planes[a], before[a]));
        Some(Self {
            zoom,
            channels: shape.channels,
            last,
            all: Sum::default(),
            nan: 0,
            histogram: vec![0; 1 << 11],
            nearest,
            judged,
            map: Vec::new(),
        })
    }

    fn observe(
        &mut self,
        (start, ends): ([usize; 3], [usize; 3]),
        values: &[f32],
        every: usize,
        by_plane: &mut [Vec<Sum>; 3],
    ) {
        let place =
            |p: [usize; 3]| -> [usize; 3] { std::array::from_fn(|a| self.zoom.at(a, p[a])) };
        let (origin, end) = (place(start), place(ends));
        let (patch, full, channels) = (self.zoom.patch, self.zoom.full, self.channels);
        if (0..3).any(|a| origin[a] + patch[a] > full[a]) {
            return;
        }
        let shared = end[2].saturating_sub(origin[2]).min(patch[2]);
        for i in 0..patch[0] {
            let plane = origin[0] + i;
            if !plane.is_multiple_of(every) {
                continue;
            }
            for j in 0..patch[1] {
                let row = origin[1] + j;
                let from = ((i * patch[1]) + j) * patch[2] * channels;
                let to = (((plane / every) * full[1] + row) * full[2] + origin[2]) * channels;
                let len = patch[2] * channels;
                let new = &values[from..from + len];
                let mut at = 0;
                // Along the fastest axis the seam changes within a row.
                while at < shared {
                    let seam = self.nearest[2][origin[2] + at];
                    let run = self.nearest[2][origin[2] + at..origin[2] + shared]
                        .iter()
                        .take_while(|s| **s == seam)
                        .count();
                    let part = at * channels..(at + run) * channels;
                    self.compare(to + part.start, &new[part], (2, seam), by_plane);
                    at += run;
                }
                let rest = shared * channels..len;
                if row < end[1] {
                    let seam = self.nearest[1][row];
                    self.compare(to + rest.start, &new[rest], (1, seam), by_plane);
                } else if plane < end[0] {
                    let seam = self.nearest[0][plane];
                    self.compare(to + rest.start, &new[rest], (0, seam), by_plane);
                }
                self.last[to..to + len].copy_from_slice(new);
            }
        }
    }

    fn compare(
        &mut self,
        at: usize,
        new: &[f32],
        (axis, seam): (usize, u32),
        by_plane: &mut [Vec<Sum>; 3],
    ) {
        let mut here = Sum::default();
        for (old, new) in self.last[at..at + new.len()].iter().zip(new) {
            let d = (old - new).abs();
            if d.is_nan() {
                self.nan += 1;
                continue;
            }
            here.max = here.max.max(d);
            here.total += f64::from(d);
            here.n += 1;
            self.histogram[(d.to_bits() >> 20) as usize] += 1;
        }
        self.all.add(&here);
        if !self.map.is_empty() {
            self.note(at, new);
        }
        if self.judged
            && seam != NONE
            && let Some(sum) = by_plane[axis].get_mut(seam as usize)
        {
            sum.add(&here);
        }
    }

    /// Keeps the differences of a run of voxels in the map.
    fn note(&mut self, at: usize, new: &[f32]) {
        let first = at / self.channels;
        let voxels = self.last[at..at + new.len()].chunks_exact(self.channels);
        let both = voxels.zip(new.chunks_exact(self.channels));
        for (seen, (old, new)) in self.map[first..].iter_mut().zip(both) {
            // A difference that is no number loses against every other.
            for (x, y) in old.iter().zip(new) {
                *seen = seen.max((x - y).abs());
            }
        }
    }

    /// The upper end of the step in which the 99th of a hundred differences lies.
    fn p99(&self) -> f32 {
        let wanted = self.all.n.saturating_mul(99).div_ceil(100);
        let mut seen = 0;
        for (bits, n) in (0_u32..).zip(&self.histogram) {
            seen += n;
            if seen >= wanted && *n > 0 {
                let upper = if bits == 0 {
                    0.0
                } else {
                    f32::from_bits((bits + 1) << 20)
                };
                return upper.min(self.all.max);
            }
        }
        0.0
    }
}

/// The seam nearest to each position of an output along an axis.
fn nearest(zoom: Zoom, axis: usize, planes: &[usize], before: usize) -> Vec<u32> {
    let places: Vec<(usize, u32)> = planes
        .iter()
        .zip(0_u32..)
        .map(|(p, i)| (zoom.at(axis, p + before), i))
        .collect();
    (0..zoom.full[axis])
        .map(|o| {
            // A position lies between its own border and the next one.
            let far = |p: usize| (2 * p).abs_diff(2 * o + 1);
            let best = places.iter().min_by_key(|(p, i)| (far(*p), *i));
            best.map_or(NONE, |(_, i)| *i)
        })
        .collect()
}

impl SeamMetrics {
    /// The mismatch of the outputs that count, if any two windows overlap.
    fn judged(&self) -> Option<(f32, f64, f32)> {
        let of = self.outputs.iter().filter(|o| o.judged && o.n > 0);
        let n: u64 = of.clone().map(|o| o.n).sum();
        (n > 0).then(|| {
            let fold = |f: fn(&OutputMismatch) -> f32| of.clone().map(f).fold(0.0, f32::max);
            let sum: f64 = of.clone().map(|o| o.mean * o.n as f64).sum();
            (fold(|o| o.max), sum / n as f64, fold(|o| o.p99))
        })
    }
}

/// The verdict on one seam: by its difference from a reference where there is one, else by how much windows disagree.
/// `None` where neither is known.
pub fn plane_verdict(exact: bool, raw: Option<f64>, diff: Option<f64>) -> Option<Verdict> {
    if let Some(d) = diff {
        return Some(step(d));
    }
    if exact {
        return Some(Verdict::Bitwise);
    }
    // Windows that agree are weighed all the same, which rounds.
    raw.map(|r| step(r).min(Verdict::Float))
}

fn step(d: f64) -> Verdict {
    match d {
        0.0 => Verdict::Bitwise,
        d if d <= f64::from(ROUNDING) => Verdict::Float,
        d if d <= f64::from(HARMLESS) => Verdict::Tolerance,
        _ => Verdict::Seam,
    }
}

/// The verdict on a run's seams by itself, without a reference, and the same in words.
pub fn judge(
    exactness: &Exactness,
    n_windows: usize,
    metrics: Option<&SeamMetrics>,
) -> (Verdict, String) {
    if n_windows <= 1 {
        return (
            Verdict::Bitwise,
            "one window covers the volume: there are no seams".to_owned(),
        );
    }
    let seen = metrics.and_then(SeamMetrics::judged);
    if exactness.verdict == ExactnessVerdict::Exact {
        let rest = seen.map_or_else(String::new, |(max, ..)| {
            let max = said(f64::from(max));
            format!("; in the halo that is thrown away windows differ by up to {max}")
        });
        return (
            Verdict::Bitwise,
            format!(
                "each voxel comes from one window that saw all it depends on, so the outputs are those of one pass bit by bit{rest}"
            ),
        );
    }
    let Some(metrics) = metrics else {
        return (
            Verdict::Seam,
            "overlaps were not watched, for which there was no memory, so nothing can be said without a reference".to_owned(),
        );
    };
    let of = metrics.outputs.iter().filter(|o| o.judged);
    let nan: u64 = of.map(|o| o.nan).sum();
    if nan > 0 {
        return (
            Verdict::Other,
            format!(
                "{nan} values are not numbers where windows overlap: nothing can be said of the seams; check weights and intensities"
            ),
        );
    }
    let Some((max, mean, p99)) = seen else {
        return (
            Verdict::Seam,
            "windows do not overlap, so nothing can be compared without a reference; outputs change at the faces".to_owned(),
        );
    };
    let figures = format!(
        "up to {} (99 of 100 below {}, mean {})",
        said(f64::from(max)),
        said(f64::from(p99)),
        said(mean)
    );
    let known = metrics.planes.iter().filter(|p| p.max.is_some());
    let worst = known
        .max_by(|a, b| a.max.unwrap_or(0.0).total_cmp(&b.max.unwrap_or(0.0)))
        .map_or_else(String::new, |p| {
            format!(", most near {} = {}", p.axis.name(), p.at)
        });
    if max == 0.0 {
        (
            Verdict::Float,
            "windows agree bit by bit where they overlap; weighing them still rounds".to_owned(),
        )
    } else if max <= ROUNDING {
        (
            Verdict::Float,
            format!("windows differ by rounding where they overlap, {figures}"),
        )
    } else if max <= HARMLESS {
        (
            Verdict::Tolerance,
            format!(
                "windows differ by {figures} where they overlap, which moves no score by more than 0.01{worst}"
            ),
        )
    } else {
        (
            Verdict::Seam,
            format!(
                "windows disagree by {figures} where they overlap{worst}: blending hides that and does not undo it, so findings near seams are to be compared with a reference"
            ),
        )
    }
}

#[cfg(test)]
mod tests;
