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
use super::packed::{Block, Packed};
use super::posts::{self, PostOp};
use super::spans::{Axis, Span};
use super::tile::{
    AVX2, AVX512, BLOCKS, LANES, PORTABLE, Seg, SourceAt, Tile, VOXELS, tile, wide_row, wide_tile,
    will_write,
};
use crate::jobs::Control;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Most sources that one convolution reads without a copy.
pub(super) const MAX_SOURCES: usize = 8;
/// Voxels of one task: enough to reuse weights in the cache, few enough to share and to stop soon.
const TASK_VOXELS: usize = 384;
/// Lanes of a tile's row.
const WIDE: usize = LANES * BLOCKS;

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
        let packed = parts
            .packed
            .clone()
            .unwrap_or_else(|| Arc::new(Packed::of(&parts, in_channels)));
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
            blocks: if voxel_tasks >= 64 { all } else { BLOCKS },
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
                match isa {
                    // SAFETY: it comes from `Isa::here` alone, which saw the features.
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => unsafe { avx512_task(self, &call, share, voxel_task) },
                    // SAFETY: as above.
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => unsafe { avx2_task(self, &call, share, voxel_task) },
                    _ => self.task::<PORTABLE>(&call, share, voxel_task),
                }
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
    fn task<const ISA: u8>(&self, call: &Call, share: usize, task: usize) {
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
        let mut out: Tile = [[0.0; WIDE]; VOXELS];
        let blocks = &self.packed.blocks;
        let from = share * call.blocks;
        let to = (from + call.blocks).min(blocks.len());
        let mut next = from;
        while next < to {
            let together = together::<ISA>(&blocks[next..to]);
            next += together.len();
            let mut sources = bases;
            let input = together.first().map_or(0, |b| b.input);
            if input > 0 {
                sources[0].start = sources[0].start.wrapping_add(input);
            }
            let mut p = outputs.start;
            while p < outputs.end {
                let rest = (p, outputs.end);
                let made = (tap_box, together);
                p += self.voxels::<ISA>(call.window, made, &sources, rest, &mut out);
            }
        }
    }

    /// One tile from voxel `p` of the box on; returns how many voxels it did.
    #[inline(always)]
    fn voxels<const ISA: u8>(
        &self,
        window: usize,
        (tap_box, blocks): (&TapBox, &[Block]),
        sources: &[SourceAt; MAX_SOURCES],
        (p, end): (usize, usize),
        out: &mut Tile,
    ) -> usize {
        let narrow = blocks.iter().any(|b| b.narrow);
        let along = &tap_box.axes[2];
        let in_row = (along.count - p % along.count).min(end - p);
        let row = ISA == AVX512 && !narrow && in_row >= 12;
        let n = match (row, narrow) {
            (true, _) if blocks.len() == 1 => in_row.min(24) / 12 * 12,
            (true, _) => 12,
            (false, true) => (end - p).min(12),
            (false, false) => (end - p).min(if ISA == AVX512 { 12 } else { 6 }),
        };
        let mut ins = [0; VOXELS];
        let mut outs = [0; VOXELS];
        if row {
            self.walk(tap_box, p, 1, &mut ins, &mut outs);
            for t in 1..n {
                outs[t] = outs[0] + t * along.out_step;
            }
        } else {
            self.walk(tap_box, p, n, &mut ins, &mut outs);
        }
        let channel = blocks.first().map_or(0, |b| b.channel);
        for voxel in &mut outs[..n] {
            *voxel = *voxel * self.channels + channel;
        }
        let len = self.output.iter().product::<usize>() * self.channels;
        for element in &outs[..n] {
            let line = self.target.start().wrapping_add(window * len + element);
            will_write(line);
            if blocks.len() > 1 {
                will_write(line.wrapping_add(LANES));
            }
        }
        if row {
            self.row_sums(tap_box, blocks, sources, (ins[0], along.in_step, n), out);
        } else {
            self.sums::<ISA>(tap_box, blocks, sources, (&ins, n), out);
        }
        self.finish((window, len), blocks, &outs[..n], out);
        n
    }

    /// Bias last, then the epilogue, then into the arena: a tile of some blocks, whose voxels' first values are `elements`
    /// of a window's map.
    #[inline(always)]
    fn finish(
        &self,
        (window, len): (usize, usize),
        blocks: &[Block],
        elements: &[usize],
        out: &mut Tile,
    ) {
        let rows = &mut out[..elements.len()];
        let mut channels = 0;
        for (b, block) in blocks.iter().enumerate() {
            let mut bias = [0.0; LANES];
            bias[..block.channels]
                .copy_from_slice(&self.packed.bias[block.channel..][..block.channels]);
            for row in &mut *rows {
                for (v, b) in row.as_chunks_mut::<LANES>().0[b].iter_mut().zip(bias) {
                    *v += b;
                }
            }
            channels += block.channels;
        }
        let channel = blocks.first().map_or(0, |b| b.channel);
        // SAFETY: this task alone writes these voxels' channels, and the epilogue reads them from the same positions only.
        unsafe {
            posts::apply_rows(
                &self.posts,
                rows,
                elements,
                (channel, channels),
                (window, len),
            );
        };
        for (row, element) in rows.iter().zip(elements) {
            let at = window * len + element;
            // Whole blocks are lengths that the compiler knows: a few moves instead of a call.
            match channels {
                // SAFETY: as above.
                LANES => unsafe { self.target.write(at, &row[..LANES]) },
                // SAFETY: as above.
                WIDE => unsafe { self.target.write(at, &row[..WIDE]) },
                // SAFETY: as above.
                _ => unsafe { self.target.write(at, &row[..channels]) },
            }
        }
    }

    /// The sums of 12 or 24 voxels `step` apart in one row, for one or two blocks.
    #[inline(always)]
    fn row_sums(
        &self,
        tap_box: &TapBox,
        blocks: &[Block],
        sources: &[SourceAt; MAX_SOURCES],
        (first, step, n): (usize, usize, usize),
        out: &mut Tile,
    ) {
        let weights = |block: &Block| self.packed.values[block.weights..].as_ptr();
        let (segs, at) = (tap_box.segs.as_slice(), (first, step));
        match blocks {
            // SAFETY: as in `sums`; the voxels of a row of a box lie in_step apart in the input.
            [a, b] => unsafe { wide_row::<4, 2>(segs, sources, at, [a, b].map(weights), out) },
            // SAFETY: as above.
            [a] if n == 24 => unsafe { wide_row::<8, 1>(segs, sources, at, [weights(a)], out) },
            // SAFETY: as above.
            [a] => unsafe { wide_row::<4, 1>(segs, sources, at, [weights(a)], out) },
            _ => {}
        }
    }

    /// The sums of `n` voxels for one or two blocks.
    #[inline(always)]
    fn sums<const ISA: u8>(
        &self,
        tap_box: &TapBox,
        blocks: &[Block],
        sources: &[SourceAt; MAX_SOURCES],
        (ins, n): (&[usize; VOXELS], usize),
        out: &mut Tile,
    ) {
        let weights = |block: &Block| self.packed.values[block.weights..].as_ptr();
        let segs = tap_box.segs.as_slice();
        // SAFETY (of all below): segments were laid out inside the sources for every voxel of the box, a block's weights
        // were packed for every row, and ISA comes from `Isa::here`.
        macro_rules! tiled {
            ($block:expr, $r:literal, $v:literal) => {
                // SAFETY: as above.
                unsafe {
                    let voxels = ins.first_chunk::<$r>().unwrap_or(&[0; $r]);
                    tile::<ISA, $r, $v>(segs, sources, voxels, weights($block), out);
                }
            };
        }
        macro_rules! wide {
            ($blocks:expr, $r:literal) => {
                // SAFETY: as above.
                unsafe {
                    let voxels = ins.first_chunk::<$r>().unwrap_or(&[0; $r]);
                    wide_tile(segs, sources, voxels, $blocks.map(weights), out);
                }
            };
        }
        match (blocks, n) {
            ([a, b], 1) => wide!([a, b], 1),
            ([a, b], 2) => wide!([a, b], 2),
            ([a, b], 3..=4) => wide!([a, b], 4),
            ([a, b], 5..=8) => wide!([a, b], 8),
            ([a, b], _) => wide!([a, b], 12),
            ([a], 1..=2) if a.narrow => tiled!(a, 2, 1),
            ([a], 3..=6) if a.narrow => tiled!(a, 6, 1),
            ([a], _) if a.narrow => tiled!(a, 12, 1),
            ([a], 1..=4) if ISA == AVX512 => wide!([a], 4),
            ([a], 5..=8) if ISA == AVX512 => wide!([a], 8),
            ([a], _) if ISA == AVX512 => wide!([a], 12),
            ([a], 1) => tiled!(a, 1, 2),
            ([a], 2) => tiled!(a, 2, 2),
            ([a], 3..=4) => tiled!(a, 4, 2),
            ([a], _) => tiled!(a, 6, 2),
            _ => {}
        }
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
        for t in 0..n.next_multiple_of(12) {
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
}

/// The blocks from the first on that are made together: two wide ones of one group where registers are wide enough.
fn together<const ISA: u8>(blocks: &[Block]) -> &[Block] {
    let two = match blocks {
        [a, b, ..] => ISA == AVX512 && !a.narrow && !b.narrow && a.input == b.input,
        _ => false,
    };
    &blocks[..blocks.len().min(if two { 2 } else { 1 })]
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
fn avx512_task(conv: &Conv, call: &Call, share: usize, task: usize) {
    conv.task::<AVX512>(call, share, task);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2_task(conv: &Conv, call: &Call, share: usize, task: usize) {
    conv.task::<AVX2>(call, share, task);
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
