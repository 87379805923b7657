//! Convolution and transposed convolution of any kernel, stride, padding, dilation and group, from one or several sources.
//! The outputs fall into boxes that see the same taps; a box is a list of segments; tiles of voxels walk it.
#![expect(
    unsafe_code,
    reason = "tasks write disjoint voxels of one place and read others through pointers"
)]
#![expect(
    clippy::inline_always,
    reason = "bodies must be compiled with their caller's instruction set"
)]

use super::arena::Place;
use super::isa::Isa;
use super::posts::{self, PostOp};
use super::spans::{Axis, Span};
use super::tile::{LANES, Seg, SourceAt, Tile, VOXELS, tile};
use crate::jobs::Control;
use rayon::prelude::*;

/// Most sources that one convolution reads without a copy.
pub(super) const MAX_SOURCES: usize = 8;
/// Voxels of one task: enough to reuse weights in the cache, few enough to share and to stop soon.
const TASK_VOXELS: usize = 384;

/// Up to 16 output channels that are computed together.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// First output channel.
    channel: usize,
    /// How many channels of it exist.
    channels: usize,
    /// First value in the packed weights.
    weights: usize,
    /// Whether it is 8 wide instead of 16.
    narrow: bool,
    /// First input channel of its group.
    input: usize,
}

/// Outputs that see the same taps.
#[derive(Clone, Debug)]
struct TapBox {
    axes: [Span; 3],
    segs: Vec<Seg>,
    /// Tasks of all boxes before this one.
    first_task: usize,
}

/// A convolution ready to run.
#[derive(Clone, Debug)]
pub(super) struct Conv {
    sources: Vec<(Place, usize)>,
    target: Place,
    channels: usize,
    input: [usize; 3],
    output: [usize; 3],
    blocks: Vec<Block>,
    /// Blocks that one task does.
    blocks_per_task: usize,
    boxes: Vec<TapBox>,
    voxel_tasks: usize,
    weights: Vec<f32>,
    bias: Vec<f32>,
    posts: Vec<PostOp>,
}

/// What a convolution is made from.
#[derive(Debug)]
pub(super) struct ConvParts<'a> {
    /// Each source's place and channels, in channel order.
    pub(super) sources: Vec<(Place, usize)>,
    pub(super) target: Place,
    pub(super) axes: [Axis; 3],
    pub(super) transposed: bool,
    pub(super) groups: usize,
    pub(super) out_channels: usize,
    /// As (out, in / groups, taps), or (in, out / groups, taps) when transposed.
    pub(super) weights: &'a [f32],
    pub(super) bias: Option<&'a [f32]>,
    /// A batch norm folded in: factor and shift per output channel.
    pub(super) fold: Option<(Vec<f64>, Vec<f64>)>,
    pub(super) posts: Vec<PostOp>,
}

impl Conv {
    /// Packs weights and lays out boxes, segments and blocks.
    pub(super) fn prepare(parts: ConvParts<'_>) -> Self {
        let in_channels: usize = parts.sources.iter().map(|s| s.1).sum();
        let (blocks, weights) = pack(&parts, in_channels);
        let spans = parts.axes.map(|a| {
            if parts.transposed {
                a.transposed()
            } else {
                a.convolution()
            }
        });
        let input = parts.axes.map(|a| a.input);
        let mut boxes = Vec::new();
        let mut first_task = 0;
        for a in &spans[0] {
            for b in &spans[1] {
                for c in &spans[2] {
                    let axes = [a.clone(), b.clone(), c.clone()];
                    let segs = segments(&axes, &parts, input, in_channels / parts.groups);
                    let voxels = a.count * b.count * c.count;
                    boxes.push(TapBox {
                        axes,
                        segs,
                        first_task,
                    });
                    first_task += voxels.div_ceil(TASK_VOXELS);
                }
            }
        }
        // Few voxels: share the channels out instead.
        let blocks_per_task = if first_task >= 64 { blocks.len() } else { 1 };
        let (bias, output) = (folded_bias(&parts), parts.axes.map(|a| a.output));
        Self {
            sources: parts.sources,
            target: parts.target,
            channels: parts.out_channels,
            input,
            output,
            blocks,
            blocks_per_task,
            boxes,
            voxel_tasks: first_task,
            weights,
            bias,
            posts: parts.posts,
        }
    }

    /// Runs for the first `windows` windows of the batch.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(unused_variables, reason = "one instruction set only")
    )]
    pub(super) fn run(&self, isa: Isa, windows: usize, control: &Control) {
        let shares = self.blocks.len().div_ceil(self.blocks_per_task);
        let tasks = windows * shares * self.voxel_tasks;
        (0..tasks).into_par_iter().with_max_len(1).for_each(|task| {
            if control.is_cancelled() {
                return;
            }
            let (window, rest) = (
                task / (shares * self.voxel_tasks),
                task % (shares * self.voxel_tasks),
            );
            let (share, voxel_task) = (rest / self.voxel_tasks, rest % self.voxel_tasks);
            #[cfg(target_arch = "x86_64")]
            if isa == Isa::Avx2 {
                // SAFETY: Avx2 is only ever made by `Isa::detect`, which saw both features.
                unsafe { avx2_task(self, window, share, voxel_task) };
                return;
            }
            self.task::<false>(window, share, voxel_task);
        });
    }

    #[inline(always)]
    fn task<const AVX2: bool>(&self, window: usize, share: usize, task: usize) {
        let at = self.boxes.partition_point(|b| b.first_task <= task) - 1;
        let tap_box = &self.boxes[at];
        let first = (task - tap_box.first_task) * TASK_VOXELS;
        let total: usize = tap_box.axes.iter().map(|a| a.count).product();
        let end = (first + TASK_VOXELS).min(total);
        let in_voxels: usize = self.input.iter().product();
        let mut bases = [SourceAt {
            start: std::ptr::null(),
            channels: 0,
        }; MAX_SOURCES];
        for (base, (place, channels)) in bases.iter_mut().zip(&self.sources) {
            let len = in_voxels * channels;
            *base = SourceAt {
                start: place.part(window * len, len).start(),
                channels: *channels,
            };
        }
        let from = share * self.blocks_per_task;
        let to = (from + self.blocks_per_task).min(self.blocks.len());
        for block in &self.blocks[from..to] {
            let mut sources = bases;
            if block.input > 0 {
                sources[0].start = sources[0].start.wrapping_add(block.input);
            }
            let mut p = first;
            while p < end {
                p += self.voxels::<AVX2>(window, tap_box, block, &sources, (p, end));
            }
        }
    }

    /// One tile from voxel `p` of the box on; returns how many voxels it did.
    #[inline(always)]
    fn voxels<const AVX2: bool>(
        &self,
        window: usize,
        tap_box: &TapBox,
        block: &Block,
        sources: &[SourceAt; MAX_SOURCES],
        (p, end): (usize, usize),
    ) -> usize {
        let n = (end - p).min(if block.narrow { 12 } else { 6 });
        let mut ins = [0; VOXELS];
        let mut outs = [0; VOXELS];
        self.walk(tap_box, p, n, &mut ins, &mut outs);
        let mut out: Tile = [[0.0; LANES]; VOXELS];
        let weights = self.weights[block.weights..].as_ptr();
        let segs = tap_box.segs.as_slice();
        macro_rules! tiled {
            ($r:literal, $v:literal) => {
                // SAFETY: segments were laid out inside the sources for every voxel of the box, the block's weights were
                // packed for every row, and AVX2 comes from `Isa::detect`.
                unsafe {
                    tile::<AVX2, $r, $v>(segs, sources, ins.first_chunk::<$r>().unwrap_or(&[0; $r]), weights, &mut out);
                }
            };
        }
        match (block.narrow, n) {
            (true, 1..=2) => tiled!(2, 1),
            (true, 3..=6) => tiled!(6, 1),
            (true, _) => tiled!(12, 1),
            (false, 1) => tiled!(1, 2),
            (false, 2) => tiled!(2, 2),
            (false, 3..=4) => tiled!(4, 2),
            (false, _) => tiled!(6, 2),
        }
        for (sums, voxel) in out.iter_mut().zip(&outs).take(n) {
            self.store(window, block, sums, *voxel);
        }
        n
    }

    /// Input and output voxel offsets of the `n` voxels from `p` on; the rest repeats the last, which is computed in vain.
    #[inline(always)]
    fn walk(
        &self,
        tap_box: &TapBox,
        p: usize,
        n: usize,
        ins: &mut [usize; VOXELS],
        outs: &mut [usize; VOXELS],
    ) {
        let [a, b, c] = &tap_box.axes;
        let (mut i, mut j, mut k) = (p / (b.count * c.count), p / c.count % b.count, p % c.count);
        for t in 0..VOXELS {
            if t < n {
                ins[t] = ((i * a.in_step) * self.input[1] + j * b.in_step) * self.input[2]
                    + k * c.in_step;
                outs[t] = ((a.out + i * a.out_step) * self.output[1] + b.out + j * b.out_step)
                    * self.output[2]
                    + c.out
                    + k * c.out_step;
                k += 1;
                if k == c.count {
                    k = 0;
                    j += 1;
                }
                if j == b.count {
                    j = 0;
                    i += 1;
                }
            } else {
                ins[t] = ins[n - 1];
            }
        }
    }

    /// Bias last, then the epilogue, then into the arena.
    #[inline(always)]
    fn store(&self, window: usize, block: &Block, sums: &mut [f32; LANES], voxel: usize) {
        let bias = &self.bias[block.channel..block.channel + block.channels];
        let values = &mut sums[..block.channels];
        for (v, b) in values.iter_mut().zip(bias) {
            *v += b;
        }
        let len = self.output.iter().product::<usize>() * self.channels;
        let element = voxel * self.channels + block.channel;
        // SAFETY: this task alone writes this voxel's channels, and the epilogue reads them from the same position only.
        unsafe { posts::apply(&self.posts, values, element, block.channel, window, len) };
        // SAFETY: as above.
        unsafe { self.target.write(window * len + element, values) };
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2_task(conv: &Conv, window: usize, share: usize, task: usize) {
    conv.task::<true>(window, share, task);
}

/// The runs of input values that a box's first output meets, in chain order: tap by tap, then input channel.
fn segments(
    axes: &[Span; 3],
    parts: &ConvParts<'_>,
    input: [usize; 3],
    group_inputs: usize,
) -> Vec<Seg> {
    let kernel = parts.axes.map(|a| a.kernel);
    let mut segs: Vec<Seg> = Vec::new();
    for (ka, ia) in &axes[0].taps {
        for (kb, ib) in &axes[1].taps {
            for (kc, ic) in &axes[2].taps {
                let tap = (ka * kernel[1] + kb) * kernel[2] + kc;
                let voxel = (ia * input[1] + ib) * input[2] + ic;
                let mut row = tap * group_inputs;
                for (source, (_, channels)) in parts.sources.iter().enumerate() {
                    let len = if parts.groups > 1 {
                        group_inputs
                    } else {
                        *channels
                    };
                    let seg = Seg {
                        source,
                        at: voxel * channels,
                        len,
                        row,
                    };
                    row += len;
                    match segs.last_mut() {
                        Some(s)
                            if s.source == source
                                && s.at + s.len == seg.at
                                && s.row + s.len == seg.row =>
                        {
                            s.len += len;
                        }
                        _ => segs.push(seg),
                    }
                }
            }
        }
    }
    segs
}

/// Blocks of output channels and their weights: for each block, each tap, each input channel, the block's lanes.
fn pack(parts: &ConvParts<'_>, in_channels: usize) -> (Vec<Block>, Vec<f32>) {
    let taps: usize = parts.axes.iter().map(|a| a.kernel).product();
    let (group_in, group_out) = (
        in_channels / parts.groups,
        parts.out_channels / parts.groups,
    );
    let mut blocks = Vec::new();
    let mut packed = Vec::new();
    for group in 0..parts.groups {
        let mut first = 0;
        while first < group_out {
            let left = group_out - first;
            let narrow = left <= 8;
            let lanes = if narrow { 8 } else { 16 };
            let channels = left.min(lanes);
            let channel = group * group_out + first;
            blocks.push(Block {
                channel,
                channels,
                weights: packed.len(),
                narrow,
                input: group * group_in,
            });
            for tap in 0..taps {
                for i in 0..group_in {
                    for lane in 0..lanes {
                        let value = if lane < channels {
                            let out = first + lane;
                            let at = if parts.transposed {
                                ((group * group_in + i) * group_out + out) * taps + tap
                            } else {
                                ((group * group_out + out) * group_in + i) * taps + tap
                            };
                            folded_weight(parts, channel + lane, parts.weights[at])
                        } else {
                            0.0
                        };
                        packed.push(value);
                    }
                }
            }
            first += channels;
        }
    }
    (blocks, packed)
}

/// A weight with the batch norm in it, rounded once.
fn folded_weight(parts: &ConvParts<'_>, channel: usize, weight: f32) -> f32 {
    match &parts.fold {
        Some((factor, _)) => super::rounded(f64::from(weight) * factor[channel]),
        None => weight,
    }
}

/// Bias with the batch norm in it, rounded once.
fn folded_bias(parts: &ConvParts<'_>) -> Vec<f32> {
    let own = |c: usize| parts.bias.map_or(0.0, |b| b[c]);
    match &parts.fold {
        Some((factor, shift)) => (0..parts.out_channels)
            .map(|c| super::rounded(f64::from(own(c)).mul_add(factor[c], shift[c])))
            .collect(),
        None => (0..parts.out_channels).map(own).collect(),
    }
}
