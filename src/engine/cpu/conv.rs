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
use std::ops::Range;
use std::sync::Arc;

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
}

impl TapBox {
    /// The outputs of the box that lie in these planes of the map, as a range of its outputs in walking order.
    fn inside(&self, planes: &Range<usize>) -> Range<usize> {
        let [a, b, c] = &self.axes;
        // How many of the box's planes lie before plane `p`.
        let before = |p: usize| p.saturating_sub(a.out).div_ceil(a.out_step).min(a.count);
        let each = b.count * c.count;
        before(planes.start) * each..before(planes.end) * each
    }
}

/// Weights in the order in which tiles walk them, with their bias; uses of one convolution share them.
#[derive(Debug)]
pub(super) struct Packed {
    blocks: Vec<Block>,
    values: Vec<f32>,
    bias: Vec<f32>,
}

/// A convolution ready to run.
#[derive(Clone, Debug)]
pub(super) struct Conv {
    sources: Vec<(Place, usize)>,
    target: Place,
    channels: usize,
    input: [usize; 3],
    output: [usize; 3],
    boxes: Vec<TapBox>,
    packed: Arc<Packed>,
    posts: Vec<PostOp>,
}

/// One call: a window, planes of its output, and how the work is cut into tasks.
#[derive(Clone, Debug)]
struct Call {
    window: usize,
    planes: Range<usize>,
    /// Blocks that one task does.
    blocks: usize,
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
    /// The packed weights, where another step uses the same.
    pub(super) packed: Option<Arc<Packed>>,
    pub(super) posts: Vec<PostOp>,
}

impl Conv {
    /// Packs weights and lays out boxes, segments and blocks.
    pub(super) fn prepare(parts: ConvParts<'_>) -> Self {
        let in_channels: usize = parts.sources.iter().map(|s| s.1).sum();
        let packed = parts.packed.clone().unwrap_or_else(|| {
            let (blocks, values) = pack(&parts, in_channels);
            Arc::new(Packed {
                blocks,
                values,
                bias: folded_bias(&parts),
            })
        });
        let spans = parts.axes.map(|a| {
            if parts.transposed {
                a.transposed()
            } else {
                a.convolution()
            }
        });
        let input = parts.axes.map(|a| a.input);
        let mut boxes = Vec::new();
        for a in &spans[0] {
            for b in &spans[1] {
                for c in &spans[2] {
                    let axes = [a.clone(), b.clone(), c.clone()];
                    let segs = segments(&axes, &parts, input, in_channels / parts.groups);
                    boxes.push(TapBox { axes, segs });
                }
            }
        }
        Self {
            sources: parts.sources,
            target: parts.target,
            channels: parts.out_channels,
            input,
            output: parts.axes.map(|a| a.output),
            boxes,
            packed,
            posts: parts.posts,
        }
    }

    /// The packed weights, for other steps that use the same.
    pub(super) fn packed(&self) -> &Arc<Packed> {
        &self.packed
    }

    /// Its places: sources, target, what the epilogue reads.
    pub(super) fn places(&mut self, f: &mut dyn FnMut(&mut Place)) {
        for (place, _) in &mut self.sources {
            f(place);
        }
        f(&mut self.target);
        posts::places(&mut self.posts, f);
    }

    /// Runs for the first `windows` windows of the batch.
    pub(super) fn run(&self, isa: Isa, windows: usize, control: &Control) {
        for window in 0..windows {
            self.run_planes(isa, window, 0..self.output[0], control);
        }
    }

    /// Makes some planes of one window's output.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(unused_variables, reason = "one instruction set only")
    )]
    pub(super) fn run_planes(
        &self,
        isa: Isa,
        window: usize,
        planes: Range<usize>,
        control: &Control,
    ) {
        let voxel_tasks: usize = self
            .boxes
            .iter()
            .map(|b| tasks_of(&b.inside(&planes)))
            .sum();
        // Few voxels: share the channels out instead.
        let all = self.packed.blocks.len();
        let call = Call {
            window,
            planes,
            blocks: if voxel_tasks >= 64 { all } else { 1 },
        };
        let shares = all.div_ceil(call.blocks);
        (0..shares * voxel_tasks)
            .into_par_iter()
            .with_max_len(1)
            .for_each(|task| {
                if control.is_cancelled() {
                    return;
                }
                let (share, voxel_task) = (task / voxel_tasks, task % voxel_tasks);
                #[cfg(target_arch = "x86_64")]
                if isa == Isa::Avx2 {
                    // SAFETY: Avx2 is only ever made by `Isa::detect`, which saw both features.
                    unsafe { avx2_task(self, &call, share, voxel_task) };
                    return;
                }
                self.task::<false>(&call, share, voxel_task);
            });
    }

    /// The box of a task and the outputs of the box that it makes.
    fn find(&self, planes: &Range<usize>, task: usize) -> Option<(&TapBox, Range<usize>)> {
        let mut before = 0;
        for tap_box in &self.boxes {
            let outputs = tap_box.inside(planes);
            let tasks = tasks_of(&outputs);
            if task < before + tasks {
                let first = outputs.start + (task - before) * TASK_VOXELS;
                return Some((tap_box, first..(first + TASK_VOXELS).min(outputs.end)));
            }
            before += tasks;
        }
        None
    }

    #[inline(always)]
    fn task<const AVX2: bool>(&self, call: &Call, share: usize, task: usize) {
        let Some((tap_box, outputs)) = self.find(&call.planes, task) else {
            return;
        };
        let in_voxels: usize = self.input.iter().product();
        let mut bases = [SourceAt {
            start: std::ptr::null(),
            channels: 0,
        }; MAX_SOURCES];
        for (base, (place, channels)) in bases.iter_mut().zip(&self.sources) {
            let len = in_voxels * channels;
            *base = SourceAt {
                start: place.part(call.window * len, len).start(),
                channels: *channels,
            };
        }
        let blocks = &self.packed.blocks;
        let from = share * call.blocks;
        let to = (from + call.blocks).min(blocks.len());
        for block in &blocks[from..to] {
            let mut sources = bases;
            if block.input > 0 {
                sources[0].start = sources[0].start.wrapping_add(block.input);
            }
            let mut p = outputs.start;
            while p < outputs.end {
                p += self.voxels::<AVX2>(call.window, tap_box, block, &sources, (p, outputs.end));
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
        let weights = self.packed.values[block.weights..].as_ptr();
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
        let bias = &self.packed.bias[block.channel..block.channel + block.channels];
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
fn avx2_task(conv: &Conv, call: &Call, share: usize, task: usize) {
    conv.task::<true>(call, share, task);
}

/// Tasks that so many outputs of one box are.
fn tasks_of(outputs: &Range<usize>) -> usize {
    outputs.len().div_ceil(TASK_VOXELS)
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
