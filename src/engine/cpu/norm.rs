//! Norms over space and lone batch norms: f64 sums in a fixed order, then one fused multiply-add per value and the epilogue.
#![expect(unsafe_code, reason = "tasks write disjoint ranges of one place")]

use super::arena::Place;
use super::isa::{Isa, for_each_isa};
use super::lanes;
use super::posts::{self, BLOCK, PostOp};
use crate::jobs::Control;
use rayon::prelude::*;
use std::ops::Range;

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

/// The sums of a norm over space, for a norm that is applied in a later step.
#[derive(Clone, Debug)]
pub(super) struct Measure {
    pub(super) source: Place,
    pub(super) scratch: Place,
    pub(super) channels: usize,
    pub(super) voxels: usize,
    pub(super) bricks: usize,
}

impl Measure {
    /// Its places that may hold a part of a map: the source.
    pub(super) fn places(&mut self, f: &mut dyn FnMut(&mut Place)) {
        f(&mut self.source);
    }

    /// Sums for the first `windows` windows of the batch, each in a room of its own.
    pub(super) fn run(&self, isa: Isa, windows: usize, control: &Control) {
        for window in 0..windows {
            let len = self.voxels * self.channels;
            let source = self.source.part(window * len, len);
            self.run_planes(isa, (source, window), 0..self.bricks, control);
        }
    }

    /// Sums of some bricks of a window's map; after the last brick, of all.
    pub(super) fn run_planes(
        &self,
        isa: Isa,
        (source, window): (Place, usize),
        bricks: Range<usize>,
        control: &Control,
    ) {
        let scratch = room_of(self.scratch, window, self.bricks, self.channels);
        let per_brick = self.voxels / self.bricks * self.channels;
        sum_rows(
            isa,
            source,
            scratch,
            (bricks.clone(), per_brick, self.channels),
            control,
        );
        if bricks.end == self.bricks {
            total(scratch, self.bricks, self.channels);
        }
    }
}

/// The sums of one window in a scratch that holds those of several.
fn room_of(scratch: Place, window: usize, bricks: usize, channels: usize) -> Place {
    let len = 4 * channels * (bricks + 1);
    scratch.part(window * len, len)
}

impl Norm {
    /// Its places: source, target, what the epilogue reads.
    pub(super) fn places(&mut self, f: &mut dyn FnMut(&mut Place)) {
        f(&mut self.source);
        f(&mut self.target);
        posts::places(&mut self.posts, f);
    }

    /// Runs for the first `windows` windows of the batch.
    pub(super) fn run(&mut self, isa: Isa, windows: usize, control: &Control) {
        for window in 0..windows {
            if matches!(self.statistics, Statistics::Window { .. }) {
                self.measure(isa, window, control);
            }
            if control.is_cancelled() {
                return;
            }
            self.apply(isa, window, 0..self.bricks, control);
        }
    }

    /// Runs for the first `windows` windows of the batch with statistics that an earlier step measured.
    pub(super) fn run_measured(&mut self, isa: Isa, windows: usize, control: &Control) {
        for window in 0..windows {
            self.apply_planes(isa, (window, window), 0..self.bricks, control);
        }
    }

    /// Normalises some planes of a window with statistics that an earlier step measured: `bound` is the window
    /// within the bound places, `window` the one whose sums are used.
    pub(super) fn apply_planes(
        &mut self,
        isa: Isa,
        (bound, window): (usize, usize),
        planes: Range<usize>,
        control: &Control,
    ) {
        if let Statistics::Window { scratch, .. } = &self.statistics {
            let room = room_of(*scratch, window, self.bricks, self.channels);
            self.derive(totals(room, self.channels));
        }
        self.apply(isa, bound, planes, control);
    }

    fn measure(&mut self, isa: Isa, window: usize, control: &Control) {
        let Statistics::Window { scratch, .. } = &self.statistics else {
            return;
        };
        let per_brick = self.voxels / self.bricks * self.channels;
        let shape = [window, self.bricks, per_brick, self.channels];
        let sums = sum_bricks(isa, self.source, *scratch, shape, control);
        self.derive(sums);
    }

    /// Mean, factor and shift of each channel from the sums over the window.
    fn derive(&mut self, sums: &[f64]) {
        let Statistics::Window {
            group,
            eps,
            scale,
            shift,
            ..
        } = &self.statistics
        else {
            return;
        };
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

    fn apply(&self, isa: Isa, window: usize, planes: Range<usize>, control: &Control) {
        let plane = self.voxels / self.bricks * self.channels;
        let (first, end) = (planes.start * plane, planes.end * plane);
        (0..(end - first).div_ceil(BLOCK * 16))
            .into_par_iter()
            .with_max_len(1)
            .for_each(|task| {
                if !control.is_cancelled() {
                    let from = first + task * BLOCK * 16;
                    apply_part(isa, self, window, from, (from + BLOCK * 16).min(end));
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
    // Window by window over the same room.
    let room = room_of(scratch, 0, bricks, channels);
    let source = source.part(window * bricks * per_brick, bricks * per_brick);
    sum_rows(isa, source, room, (0..bricks, per_brick, channels), control);
    total(room, bricks, channels);
    totals(room, channels)
}

/// The sums of some bricks of one window's map, each into its own row of `room`: a row of pairs for the total comes first,
/// then one per brick.
fn sum_rows(
    isa: Isa,
    source: Place,
    room: Place,
    (bricks, per_brick, channels): (Range<usize>, usize, usize),
    control: &Control,
) {
    let row = 4 * channels;
    bricks.into_par_iter().with_max_len(1).for_each(|brick| {
        if control.is_cancelled() {
            return;
        }
        let values = source.part(brick * per_brick, per_brick);
        // SAFETY: nobody writes the source in this phase.
        let values = unsafe { values.values() };
        // SAFETY: each brick has its own row of sums.
        let sums = unsafe { room.part(row * (brick + 1), row).sums_mut() };
        sum_brick(isa, values, sums);
    });
}

/// Adds up the rows of all bricks in order.
fn total(room: Place, bricks: usize, channels: usize) {
    // SAFETY: the bricks are done; nobody else uses the scratch of this step.
    let (total, rows) =
        unsafe { room.part(0, 4 * channels * (bricks + 1)).sums_mut() }.split_at_mut(2 * channels);
    total.fill(0.0);
    for row in rows.chunks_exact(2 * channels) {
        for (t, s) in total.iter_mut().zip(row) {
            *t += s;
        }
    }
}

/// The pairs of sums over all bricks.
fn totals<'a>(room: Place, channels: usize) -> &'a [f64] {
    // SAFETY: nobody writes the sums any more.
    unsafe { room.part(0, 4 * channels).sums_mut() }
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

/// Sums of one brick, voxel by voxel.
fn sum_brick(isa: Isa, values: &[f32], sums: &mut [f64]) {
    let channels = sums.len() / 2;
    sums.fill(0.0);
    // A run of voxels that stays in the cache while its channels are summed in registers.
    for run in values.chunks((4096 / channels).max(1) * channels) {
        lanes::sum(isa, run, sums);
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
