//! Norms over space and lone batch norms: f64 sums in a fixed order, then one fused multiply-add per value and the epilogue.
#![expect(unsafe_code, reason = "tasks write disjoint ranges of one place")]

use super::arena::Place;
use super::isa::{Isa, for_each_isa};
use super::posts::{self, BLOCK, PostOp};
use crate::jobs::Control;
use rayon::prelude::*;

/// How the statistics come about.
#[derive(Clone, Debug)]
pub(super) enum Statistics {
    /// Fixed: y = (x - mean) * factor + shift, per channel.
    Known,
    /// From the window, over space and the channels of a group.
    Window {
        /// Channels that share their statistics.
        group: usize,
        /// Added to the variance.
        eps: f64,
        scale: Vec<f32>,
        shift: Vec<f32>,
        scratch: Place,
    },
}

/// A norm ready to run.
#[derive(Clone, Debug)]
pub(super) struct Norm {
    pub(super) source: Place,
    pub(super) target: Place,
    pub(super) channels: usize,
    pub(super) voxels: usize,
    /// Bricks that sums are taken over, one after the other: the indices of the first axis.
    pub(super) bricks: usize,
    pub(super) statistics: Statistics,
    /// Mean, factor, shift per channel; recomputed for each window unless known.
    pub(super) affine: [Vec<f32>; 3],
    pub(super) posts: Vec<PostOp>,
}

impl Norm {
    /// Runs for the first `windows` windows of the batch.
    pub(super) fn run(&mut self, isa: Isa, windows: usize, control: &Control) {
        for window in 0..windows {
            if matches!(self.statistics, Statistics::Window { .. }) {
                self.measure(isa, window, control);
            }
            if control.is_cancelled() {
                return;
            }
            self.apply(isa, window, control);
        }
    }

    fn measure(&mut self, isa: Isa, window: usize, control: &Control) {
        let Statistics::Window {
            group,
            eps,
            scale,
            shift,
            scratch,
        } = &self.statistics
        else {
            return;
        };
        let (channels, per_brick) = (self.channels, self.voxels / self.bricks * self.channels);
        let sums = sum_bricks(
            isa,
            self.source,
            *scratch,
            [window, self.bricks, per_brick, channels],
            control,
        );
        let n = (self.voxels * group) as f64;
        for (g, of_group) in sums.chunks_exact(2 * group).enumerate() {
            let (mut sum, mut squares) = (0.0, 0.0);
            for pair in of_group.chunks_exact(2) {
                sum += pair[0];
                squares += pair[1];
            }
            let mean = sum / n;
            let variance = (squares / n - mean * mean).max(0.0);
            let factor = 1.0 / (variance + eps).sqrt();
            for c in g * group..(g + 1) * group {
                let a = f64::from(scale[c]) * factor;
                set_affine(&mut self.affine, c, (mean, a, f64::from(shift[c])));
            }
        }
    }

    fn apply(&self, isa: Isa, window: usize, control: &Control) {
        let len = self.voxels * self.channels;
        (0..len.div_ceil(BLOCK * 16))
            .into_par_iter()
            .with_max_len(1)
            .for_each(|task| {
                if !control.is_cancelled() {
                    let from = task * BLOCK * 16;
                    apply_part(isa, self, window, from, (from + BLOCK * 16).min(len));
                }
            });
    }
}

/// Mean, factor and shift of a channel as f32; what rounding the mean loses goes into the shift.
pub(super) fn set_affine(
    affine: &mut [Vec<f32>; 3],
    c: usize,
    (mean, factor, shift): (f64, f64, f64),
) {
    let mean32 = super::rounded(mean);
    affine[0][c] = mean32;
    affine[1][c] = super::rounded(factor);
    affine[2][c] = super::rounded(shift - (mean - f64::from(mean32)) * factor);
}

/// Sum and sum of squares of each channel over a window, brick by brick, in the first pairs of `scratch`.
pub(super) fn sum_bricks<'a>(
    isa: Isa,
    source: Place,
    scratch: Place,
    [window, bricks, per_brick, channels]: [usize; 4],
    control: &Control,
) -> &'a [f64] {
    // One row of pairs for the total, then one per brick; window by window over the same room.
    let pair_row = 2 * channels;
    let room = scratch.part(0, 2 * pair_row * (bricks + 1));
    (0..bricks)
        .into_par_iter()
        .with_max_len(1)
        .for_each(|brick| {
            if control.is_cancelled() {
                return;
            }
            let values = source.part((window * bricks + brick) * per_brick, per_brick);
            // SAFETY: nobody writes the source in this phase.
            let values = unsafe { values.values() };
            // SAFETY: each brick has its own row of sums.
            let sums = unsafe {
                room.part(2 * pair_row * (brick + 1), 2 * pair_row)
                    .sums_mut()
            };
            sum_brick(isa, values, sums);
        });
    // SAFETY: the bricks are done; nobody else uses the scratch of this step.
    let (total, rows) = unsafe { room.sums_mut() }.split_at_mut(pair_row);
    total.fill(0.0);
    for row in rows.chunks_exact(pair_row) {
        for (t, s) in total.iter_mut().zip(row) {
            *t += s;
        }
    }
    total
}

/// The mean of each channel over a window; `places` are source, target and scratch, the shape as for [`sum_bricks`].
pub(super) fn average(
    isa: Isa,
    places: (Place, Place, Place),
    shape: [usize; 4],
    control: &Control,
) {
    let (source, target, scratch) = places;
    let [window, bricks, per_brick, channels] = shape;
    let sums = sum_bricks(isa, source, scratch, shape, control);
    let n = (bricks * per_brick / channels) as f64;
    for (c, pair) in sums.chunks_exact(2).enumerate() {
        // SAFETY: between the tasks of a step nobody else uses the target.
        unsafe { target.write(window * channels + c, &[super::rounded(pair[0] / n)]) };
    }
}

for_each_isa! {
    /// Sums of one brick, voxel by voxel.
    fn sum_brick(values: &[f32], sums: &mut [f64]) {
        let channels = sums.len() / 2;
        sums.fill(0.0);
        for voxel in values.chunks_exact(channels) {
            for (pair, x) in sums.as_chunks_mut::<2>().0.iter_mut().zip(voxel) {
                let x = f64::from(*x);
                pair[0] += x;
                pair[1] += x * x;
            }
        }
    }
}

for_each_isa! {
    /// Normalises values `from..to` of a window.
    fn apply_part(norm: &Norm, window: usize, from: usize, to: usize) {
        let len = norm.voxels * norm.channels;
        let mut block = [0.0_f32; BLOCK];
        let mut at = from;
        while at < to {
            let values = &mut block[..(to - at).min(BLOCK)];
            // SAFETY: this task alone writes these values, and only below.
            unsafe { norm.source.read(window * len + at, values) };
            let channel = at % norm.channels;
            let mut rest = &mut *values;
            let mut c = channel;
            while !rest.is_empty() {
                let (run, after) = rest.split_at_mut((norm.channels - c).min(rest.len()));
                let per_channel = norm.affine[0][c..].iter().zip(&norm.affine[1][c..]).zip(&norm.affine[2][c..]);
                for (x, ((mean, factor), shift)) in run.iter_mut().zip(per_channel) {
                    *x = (*x - mean).mul_add(*factor, *shift);
                }
                rest = after;
                c = 0;
            }
            // SAFETY: as above; the epilogue reads the same positions of its places.
            unsafe { posts::apply(&norm.posts, values, at, channel, window, len) };
            // SAFETY: this task alone writes these values.
            unsafe { norm.target.write(window * len + at, values) };
            at += values.len();
        }
    }
}
