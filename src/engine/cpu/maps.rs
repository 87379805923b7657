//! Kernels that move or compare values: pooling, resizing, padding, concatenation, softmax, and the epilogue alone.
//! One task is a row of output voxels along the last axis.
#![expect(unsafe_code, reason = "tasks write disjoint rows of one place")]
#![expect(
    clippy::inline_always,
    reason = "bodies must be compiled with their caller's instruction set"
)]

use super::arena::Place;
use super::isa::{Isa, for_each_isa};
use super::lanes::{larger, larger_of};
use super::posts::{self, BLOCK, PostOp};
use crate::jobs::Control;
use crate::network::PadMode;
use crate::numeric;
use rayon::prelude::*;
use std::ops::Range;

/// Kernel, stride, padding and distance between taps along the three axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pooling {
    pub(super) kernel: [usize; 3],
    pub(super) stride: [usize; 3],
    pub(super) pad: [usize; 3],
    pub(super) pad_end: [usize; 3],
    pub(super) dilation: [usize; 3],
}

/// Two inputs and the weight of the second along one axis, for each output.
pub(super) type Taps = Vec<(usize, usize, f32)>;

/// What is made of the sources.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// The source itself: only the epilogue works.
    Same,
    MaxPool(Pooling),
    /// Mean; padding counts in the divisor when told.
    AvgPool(Pooling, bool),
    /// Input voxel = output voxel / factor.
    Nearest([usize; 3]),
    /// Input voxel for each output voxel, per axis.
    Picked([Vec<usize>; 3]),
    /// Linear interpolation.
    Linear([Taps; 3]),
    /// Padding before, per axis.
    Pad([usize; 3], PadMode),
    Concat,
    Softmax,
}

/// A map kernel ready to run.
#[derive(Clone, Debug)]
pub(super) struct Maps {
    pub(super) rule: Rule,
    /// Each source's place and channels.
    pub(super) sources: Vec<(Place, usize)>,
    pub(super) target: Place,
    pub(super) channels: usize,
    pub(super) input: [usize; 3],
    pub(super) output: [usize; 3],
    pub(super) posts: Vec<PostOp>,
}

impl Maps {
    /// Runs for the first `windows` windows of the batch.
    pub(super) fn run(&self, isa: Isa, windows: usize, control: &Control) {
        for window in 0..windows {
            self.run_planes(isa, window, 0..self.output[0], control);
        }
    }

    /// Makes some planes of one window's output.
    pub(super) fn run_planes(
        &self,
        isa: Isa,
        window: usize,
        planes: Range<usize>,
        control: &Control,
    ) {
        let rows = self.output[1];
        (planes.start * rows..planes.end * rows)
            .into_par_iter()
            .with_max_len(8)
            .for_each(|task| {
                if !control.is_cancelled() {
                    row(isa, isa, self, window, task);
                }
            });
    }

    /// Its places: sources, target, what the epilogue reads.
    pub(super) fn places(&mut self, f: &mut dyn FnMut(&mut Place)) {
        for (place, _) in &mut self.sources {
            f(place);
        }
        f(&mut self.target);
        posts::places(&mut self.posts, f);
    }

    /// `len` values of a source from value `from` of a window on.
    ///
    /// # Safety
    /// Nobody writes them while the slice lives.
    unsafe fn source<'a>(
        &self,
        window: usize,
        source: usize,
        (from, len): (usize, usize),
    ) -> &'a [f32] {
        let (place, channels) = self.sources[source];
        let map = self.input.iter().product::<usize>() * channels;
        // SAFETY: the caller's promise.
        unsafe { place.part(window * map + from, len).values() }
    }

    fn voxel(&self, [a, b, c]: [usize; 3]) -> usize {
        (a * self.input[1] + b) * self.input[2] + c
    }
}

for_each_isa! {
    /// One row of output voxels.
    fn row(isa: Isa, maps: &Maps, window: usize, row: usize) {
        let (a, b) = (row / maps.output[1], row % maps.output[1]);
        let len = maps.output.iter().product::<usize>() * maps.channels;
        let mut buffer = [0.0_f32; BLOCK];
        for c in 0..maps.output[2] {
            let mut first = 0;
            let sum = if matches!(maps.rule, Rule::Softmax) { softmax_scale(maps, window, [a, b, c]) } else { (0.0, 1.0) };
            while first < maps.channels {
                let block = &mut buffer[..(maps.channels - first).min(BLOCK)];
                fill(isa, maps, window, ([a, b, c], first), sum, block);
                let element = (row * maps.output[2] + c) * maps.channels + first;
                // SAFETY: this task alone writes this row, and the epilogue reads the same positions of its places.
                unsafe { posts::apply(&maps.posts, block, element, first, window, len) };
                // SAFETY: this task alone writes this row.
                unsafe { maps.target.write(window * len + element, block) };
                first += block.len();
            }
        }
    }
}

/// Channels `first..` of one output voxel.
#[inline(always)]
fn fill(
    isa: Isa,
    maps: &Maps,
    window: usize,
    (at, first): ([usize; 3], usize),
    softmax: (f32, f32),
    block: &mut [f32],
) {
    let copy = |block: &mut [f32], from: [usize; 3]| {
        let (place, channels) = maps.sources[0];
        let len = maps.input.iter().product::<usize>() * channels;
        // SAFETY: reads of a source; where it is also the target, this task alone writes the voxel it reads.
        unsafe { place.read(window * len + maps.voxel(from) * channels + first, block) };
    };
    match &maps.rule {
        Rule::Same => copy(block, at),
        Rule::Nearest(scale) => copy(block, std::array::from_fn(|d| at[d] / scale[d])),
        Rule::Picked(from) => copy(block, std::array::from_fn(|d| from[d][at[d]])),
        Rule::Pad(before, mode) => match padded_from(at, *before, maps.input, *mode) {
            Ok(from) => copy(block, from),
            Err(value) => block.fill(value),
        },
        Rule::Softmax => {
            copy(block, at);
            for x in block {
                *x = numeric::exp(*x - softmax.0) / softmax.1;
            }
        }
        Rule::Concat => concat(maps, window, at, first, block),
        Rule::MaxPool(p) => {
            block.fill(f32::NEG_INFINITY);
            let f = |block: &mut [f32], values: &[f32]| larger_of(isa, block, values);
            taps(maps, window, p, (at, first), f, block);
        }
        Rule::AvgPool(p, count_padding) => {
            block.fill(0.0);
            let met = taps(
                maps,
                window,
                p,
                (at, first),
                |block, values| block.iter_mut().zip(values).for_each(|(m, x)| *m += x),
                block,
            );
            let n = if *count_padding {
                counted(p, at, maps.input)
            } else {
                met
            };
            for x in block {
                *x /= n as f32;
            }
        }
        Rule::Linear(axes) => linear(maps, window, axes, at, first, block),
    }
}

/// Calls `f(block, values)` for each tap of a pooling that lies inside; returns how many voxels did.
#[inline(always)]
fn taps(
    maps: &Maps,
    window: usize,
    p: &Pooling,
    (at, first): ([usize; 3], usize),
    f: impl Fn(&mut [f32], &[f32]),
    block: &mut [f32],
) -> usize {
    let [l, m, n] = p.dilation;
    let [a, b, c] = std::array::from_fn(|d| inside(p, d, at[d], maps.input[d]));
    let mut met = 0;
    let mut i = a.start;
    while i < a.end {
        let mut j = b.start;
        while j < b.end {
            let mut k = c.start;
            while k < c.end {
                let from = maps.voxel([i, j, k]) * maps.channels + first;
                // SAFETY: pooling never writes its source.
                let source = unsafe { maps.source(window, 0, (from, block.len())) };
                f(block, source);
                met += 1;
                k += n;
            }
            j += m;
        }
        i += l;
    }
    met
}

/// From the first tap inside the map to one past the last, along one axis.
#[inline(always)]
fn inside(p: &Pooling, d: usize, at: usize, input: usize) -> Range<usize> {
    let (start, l) = (at * p.stride[d], p.dilation[d]);
    let before = p.pad[d].saturating_sub(start);
    // A division for every voxel would cost more than the pooling itself.
    let skipped = if l == 1 { before } else { before.div_ceil(l) };
    let from = start + skipped * l - p.pad[d].min(start + skipped * l);
    let to = (start + (p.kernel[d] - 1) * l + 1).saturating_sub(p.pad[d]);
    from..to.min(input)
}

/// Taps of a pooling inside the padded input.
fn counted(p: &Pooling, at: [usize; 3], input: [usize; 3]) -> usize {
    (0..3)
        .map(|d| {
            let end = input[d] + p.pad[d] + p.pad_end[d];
            end.saturating_sub(at[d] * p.stride[d])
                .div_ceil(p.dilation[d])
                .min(p.kernel[d])
        })
        .product()
}

/// Where a padded voxel comes from, or its value.
#[inline(always)]
fn padded_from(
    at: [usize; 3],
    before: [usize; 3],
    input: [usize; 3],
    mode: PadMode,
) -> Result<[usize; 3], f32> {
    let mut from = [0; 3];
    for d in 0..3 {
        let last = input[d] - 1;
        let beyond = at[d] >= before[d] && at[d] - before[d] > last;
        from[d] = match mode {
            PadMode::Constant { value } if at[d] < before[d] || beyond => return Err(value),
            PadMode::Reflect if at[d] < before[d] => (before[d] - at[d]).min(last),
            PadMode::Reflect if beyond => (2 * last).saturating_sub(at[d] - before[d]),
            PadMode::Wrap => (at[d] + input[d] - before[d] % input[d]) % input[d],
            PadMode::Constant { .. } | PadMode::Edge | PadMode::Reflect => {
                at[d].saturating_sub(before[d]).min(last)
            }
        };
    }
    Ok(from)
}

#[inline(always)]
fn concat(maps: &Maps, window: usize, at: [usize; 3], first: usize, block: &mut [f32]) {
    let mut start = 0;
    for (s, (_, channels)) in maps.sources.iter().enumerate() {
        let (from, to) = (
            start.max(first),
            (start + channels).min(first + block.len()),
        );
        if from < to {
            let voxel = maps.voxel(at) * channels + from - start;
            // SAFETY: a concatenation never writes its sources.
            let source = unsafe { maps.source(window, s, (voxel, to - from)) };
            block[from - first..to - first].copy_from_slice(source);
        }
        start += channels;
    }
}

#[inline(always)]
fn linear(
    maps: &Maps,
    window: usize,
    axes: &[Taps; 3],
    at: [usize; 3],
    first: usize,
    block: &mut [f32],
) {
    let [a, b, c] = [axes[0][at[0]], axes[1][at[1]], axes[2][at[2]]];
    let voxel = |i: usize, j: usize, k: usize| {
        let from = maps.voxel([i, j, k]) * maps.channels + first;
        // SAFETY: resizing never writes its source.
        unsafe { maps.source(window, 0, (from, block.len())) }
    };
    let corners = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)]
        .map(|(i, j)| (voxel(i, j, c.0), voxel(i, j, c.1)));
    let mix = |x: f32, y: f32, t: f32| (y - x).mul_add(t, x);
    for (ch, out) in block.iter_mut().enumerate() {
        let line = |corner: usize| mix(corners[corner].0[ch], corners[corner].1[ch], c.2);
        *out = mix(mix(line(0), line(1), b.2), mix(line(2), line(3), b.2), a.2);
    }
}

/// Largest value and sum of exponentials over the channels of a voxel.
fn softmax_scale(maps: &Maps, window: usize, at: [usize; 3]) -> (f32, f32) {
    let (place, channels) = maps.sources[0];
    let len = maps.input.iter().product::<usize>() * channels;
    // SAFETY: this task alone writes this voxel, and not before these values are used.
    let values = unsafe {
        place
            .part(window * len + maps.voxel(at) * channels, channels)
            .values()
    };
    let most = values.iter().fold(f32::NEG_INFINITY, |m, x| larger(m, *x));
    let sum = values.iter().fold(0.0, |s, x| s + numeric::exp(*x - most));
    (most, sum)
}
