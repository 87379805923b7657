//! Along the first axis: which planes of its sources an operation needs, and how far each operation of a segment gets in
//! each slab when the segment's last outputs advance plane by plane.

use super::program::{Program, Work};
use crate::network::{Op, PadMode};
use std::ops::Range;

/// How planes of a source belong to planes of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// Plane by plane.
    Same,
    /// A window of taps.
    Window {
        kernel: usize,
        stride: usize,
        pad: usize,
        dilation: usize,
    },
    /// The adjoint of a window.
    Transposed {
        kernel: usize,
        stride: usize,
        pad: usize,
    },
    /// Each plane repeated.
    Nearest(usize),
    /// Linear interpolation by a whole factor.
    Linear(usize),
    /// Planes added before the first.
    Padded(usize),
    /// Every plane needs everything: the operation never runs in slabs.
    Whole,
}

impl Along {
    /// How an operation sees the first axis.
    pub(super) fn of(op: &Op) -> Self {
        let first = |v: &[usize]| v.first().copied().unwrap_or(1);
        match op {
            Op::Conv {
                kernel,
                stride,
                pad_begin,
                dilation,
                ..
            } => Self::Window {
                kernel: first(kernel),
                stride: first(stride),
                pad: first(pad_begin),
                dilation: first(dilation),
            },
            Op::MaxPool {
                kernel,
                stride,
                pad_begin,
                ..
            }
            | Op::AvgPool {
                kernel,
                stride,
                pad_begin,
                ..
            } => Self::Window {
                kernel: first(kernel),
                stride: first(stride),
                pad: first(pad_begin),
                dilation: 1,
            },
            Op::ConvTranspose {
                kernel,
                stride,
                pad_begin,
                dilation,
                ..
            } => Self::Transposed {
                // All planes that its taps span.
                kernel: first(kernel).saturating_sub(1) * first(dilation) + 1,
                stride: first(stride),
                pad: first(pad_begin),
            },
            Op::UpsampleNearest { scale } => Self::Nearest(first(scale)),
            Op::UpsampleLinear {
                scale,
                align_corners,
            } => match first(scale) {
                s if s == 1 || !align_corners => Self::Linear(s),
                _ => Self::Whole,
            },
            Op::Pad { begin, end, mode } => match (mode, first(begin), first(end)) {
                (PadMode::Constant { .. } | PadMode::Edge, b, _) => Self::Padded(b),
                (PadMode::Reflect | PadMode::Wrap, 0, 0) => Self::Same,
                (PadMode::Reflect | PadMode::Wrap, ..) => Self::Whole,
            },
            Op::BatchNorm { .. }
            | Op::Activation(_)
            | Op::PRelu
            | Op::Add
            | Op::Mul
            | Op::Concat
            | Op::Softmax => Self::Same,
            _ => Self::Whole,
        }
    }

    /// The first of a source's planes that output planes from `out` on need; `outs` and `ins` are how many there are.
    pub(super) fn first(self, out: usize, outs: usize, ins: usize) -> usize {
        if out >= outs {
            return ins;
        }
        let plane = match self {
            Self::Same => out,
            Self::Window { stride, pad, .. } => (out * stride).saturating_sub(pad),
            Self::Transposed {
                kernel,
                stride,
                pad,
            } => (out + pad + 1)
                .saturating_sub(kernel)
                .div_ceil(stride.max(1)),
            Self::Nearest(scale) => out / scale.max(1),
            // Half-voxel centres: output o lies between its own cell's voxel and one neighbour.
            Self::Linear(scale) => (out / scale.max(1)).saturating_sub(1),
            Self::Padded(before) => out.saturating_sub(before),
            Self::Whole => 0,
        };
        plane.min(ins.saturating_sub(1))
    }

    /// One past the last of a source's planes that output planes below `end` need.
    pub(super) fn end(self, end: usize, ins: usize) -> usize {
        let Some(last) = end.checked_sub(1) else {
            return 0;
        };
        let past = match self {
            Self::Same => end,
            Self::Window {
                kernel,
                stride,
                pad,
                dilation,
            } => (last * stride + (kernel - 1) * dilation + 1).saturating_sub(pad),
            Self::Transposed { stride, pad, .. } => (last + pad) / stride.max(1) + 1,
            Self::Nearest(scale) => last / scale.max(1) + 1,
            Self::Linear(scale) => last / scale.max(1) + 2,
            Self::Padded(before) => end.saturating_sub(before),
            Self::Whole => ins,
        };
        past.clamp(1, ins.max(1))
    }
}

/// How far each operation of a segment has got after each slab.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// The segment.
    pub(super) works: Range<usize>,
    /// Slabs.
    pub(super) slabs: usize,
    /// Planes made after each slab, slab by slab, one entry per operation.
    made: Vec<usize>,
    /// Values that are read inside, each with the first plane that is still needed after each slab (first entry: before all).
    needed: Vec<(usize, Vec<usize>)>,
}

impl Flow {
    /// Runs the segment in thought, `thickness` planes of its coarsest last output at a time.
    pub(super) fn new(program: &Program<'_>, works: Range<usize>, thickness: usize) -> Self {
        let len = works.len();
        let ends: Vec<bool> = works
            .clone()
            .map(|w| program.ends_in(w, works.end))
            .collect();
        let planes: Vec<usize> = works.clone().map(|w| program.planes_of(w)).collect();
        let coarsest = (0..len)
            .filter(|o| ends[*o])
            .map(|o| planes[o])
            .min()
            .unwrap_or(1)
            .max(1);
        let slabs = coarsest.div_ceil(thickness.max(1));
        let mut flow = Self {
            works: works.clone(),
            slabs,
            made: Vec::with_capacity(len * slabs),
            needed: Vec::new(),
        };
        let inside = program.edges(&works);
        let mut reach = vec![0; len];
        for slab in 0..slabs {
            let advanced = ((slab + 1) * thickness).min(coarsest);
            for o in 0..len {
                if ends[o] {
                    reach[o] = reach[o].max(planes[o] * advanced / coarsest);
                }
            }
            for edge in inside.iter().rev() {
                if let Some(maker) = edge.maker {
                    let need = edge.along.end(reach[edge.reader], edge.planes);
                    reach[maker] = reach[maker].max(need);
                }
            }
            flow.made.extend(&reach);
        }
        flow.needed = flow.still_needed(program, &inside, &planes);
        flow
    }

    fn still_needed(
        &self,
        program: &Program<'_>,
        edges: &[Edge],
        planes: &[usize],
    ) -> Vec<(usize, Vec<usize>)> {
        let mut needed: Vec<(usize, Vec<usize>)> = Vec::new();
        for edge in edges {
            let at = needed
                .iter()
                .position(|(v, _)| *v == edge.value)
                .unwrap_or_else(|| {
                    let all = program.values[edge.value].planes;
                    needed.push((edge.value, vec![all; self.slabs + 1]));
                    needed.len() - 1
                });
            for slab in 0..=self.slabs {
                let done = self.done(edge.reader, slab);
                let first = edge.along.first(done, planes[edge.reader], edge.planes);
                let slot = &mut needed[at].1[slab];
                *slot = (*slot).min(first);
            }
        }
        needed
    }

    /// Planes that operation `o` of the segment has made after `slabs` slabs.
    pub(super) fn done(&self, o: usize, slabs: usize) -> usize {
        match slabs.checked_sub(1) {
            Some(slab) => self.made[slab * self.works.len() + o],
            None => 0,
        }
    }

    /// The first plane of a value that is still needed after `slabs` slabs.
    pub(super) fn needed(&self, value: usize, slabs: usize) -> usize {
        self.needed
            .iter()
            .find_map(|(v, first)| (*v == value).then(|| first[slabs]))
            .unwrap_or(usize::MAX)
    }

    /// Planes of a value made by operation `o` that must be there while `slab` runs.
    pub(super) fn held(&self, value: usize, o: usize, slab: usize) -> Range<usize> {
        let before = self.done(o, slab);
        self.needed(value, slab).min(before)..self.done(o, slab + 1)
    }

    /// Most planes of such a value that must be there at once.
    pub(super) fn most_held(&self, value: usize, o: usize) -> usize {
        (0..self.slabs)
            .map(|s| self.held(value, o, s).len())
            .max()
            .unwrap_or(0)
    }
}

/// One read inside a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    /// The value.
    pub(super) value: usize,
    /// Its maker, as an operation of the segment, if it is made there.
    pub(super) maker: Option<usize>,
    /// The reader, as an operation of the segment.
    pub(super) reader: usize,
    /// How the reader sees the first axis.
    pub(super) along: Along,
    /// Planes of the value.
    pub(super) planes: usize,
}

impl Program<'_> {
    /// All reads of maps inside a segment, in the order of their readers.
    pub(super) fn edges(&self, works: &Range<usize>) -> Vec<Edge> {
        let mut edges = Vec::new();
        for (reader, w) in works.clone().enumerate() {
            let work: &Work = &self.works[w];
            let sources = work.sources.iter().map(|v| (*v, work.along));
            for (value, along) in sources.chain(work.operands().map(|v| (v, Along::Same))) {
                edges.push(Edge {
                    value,
                    maker: works
                        .contains(&self.made[value])
                        .then(|| self.made[value] - works.start),
                    reader,
                    along,
                    planes: self.values[value].planes,
                });
            }
        }
        edges
    }
}
