//! Softmax and layer norm: values that are weighed together, sums in f64 in C order.
#![expect(unsafe_code, reason = "tasks write disjoint values of one place")]

use super::super::isa::{Isa, for_each_isa};
use super::super::posts::BLOCK;
use super::super::rounded;
use super::views::{Walk, load};
use super::{End, Operand};
use crate::jobs::Control;
use crate::numeric;
use rayon::prelude::*;
use std::sync::Arc;

/// What is made of values that belong together.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    Softmax {
        log: bool,
    },
    LayerNorm {
        eps: f64,
        scale: Option<Arc<[f32]>>,
        shift: Option<Arc<[f32]>>,
    },
}

/// Groups of values that belong together; operand 0 of both walks is the source, 1 the result.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) rule: Rule,
    pub(super) source: Operand,
    /// From group to group.
    pub(super) outer: Walk,
    /// Inside a group, in C order.
    pub(super) inner: Walk,
}

impl Rows {
    pub(super) fn run(&self, isa: Isa, end: &End, control: &Control) {
        let groups: usize = self.outer.dims.iter().product();
        let each: usize = self.inner.dims.iter().product();
        let per_task = (4096 / each).max(1);
        (0..groups.div_ceil(per_task))
            .into_par_iter()
            .for_each(|task| {
                for group in task * per_task..((task + 1) * per_task).min(groups) {
                    if !control.is_cancelled() {
                        row(isa, self, end, group);
                    }
                }
            });
    }

    /// Where a group starts in source or result.
    fn start(&self, operand: usize, mut group: usize) -> usize {
        let mut at = 0;
        for (d, s) in self.outer.dims.iter().zip(&self.outer.steps[operand]).rev() {
            at += group % d * s;
            group /= d;
        }
        at
    }

    /// Writes a block of a group's values.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "bodies must be compiled with their caller's instruction set"
    )]
    fn write(&self, end: &End, start: usize, index: usize, block: &[f32]) {
        let (row, last) = (self.inner.row(), self.inner.dims.len() - 1);
        let step = self.inner.steps[1][last];
        let to = start + self.inner.start(1, index / row) + index % row * step;
        if step == 1 {
            // SAFETY: this task alone writes this group's values.
            unsafe { end.target.write(to, block) };
            return;
        }
        for (i, x) in block.iter().enumerate() {
            // SAFETY: as above.
            unsafe { end.target.write(to + i * step, std::slice::from_ref(x)) };
        }
    }
}

/// Goes over a group's values block by block, in C order, in place: a closure would be compiled without the caller's
/// instruction set.
macro_rules! blocks {
    ($rows:expr, $start:expr, |$index:ident, $block:ident| $body:block) => {{
        let mut buffer = [0.0_f32; BLOCK];
        let (row, last) = ($rows.inner.row(), $rows.inner.dims.len() - 1);
        let step = $rows.inner.steps[0][last];
        for r in 0..$rows.inner.rows() {
            let from = $start + $rows.inner.start(0, r);
            let mut at = 0;
            while at < row {
                let n = (row - at).min(BLOCK);
                load(&$rows.source, from + at * step, step, &mut buffer[..n]);
                let $index = r * row + at;
                let $block = &mut buffer[..n];
                $body
                at += n;
            }
        }
    }};
}

for_each_isa! {
    /// One group.
    fn row(rows: &Rows, end: &End, group: usize) {
        let (from, to) = (rows.start(0, group), rows.start(1, group));
        match &rows.rule {
            Rule::Softmax { log } => {
                let mut most = f32::NEG_INFINITY;
                blocks!(rows, from, |_index, block| {
                    for x in block.iter() {
                        most = if *x > most || x.is_nan() { *x } else { most };
                    }
                });
                let mut sum = 0.0_f64;
                blocks!(rows, from, |_index, block| {
                    for x in block.iter_mut() {
                        *x = numeric::exp(*x - most);
                    }
                    for x in block {
                        sum += f64::from(*x);
                    }
                });
                let (scale, less) = (rounded(1.0 / sum), rounded(numeric::ln_wide(sum)));
                blocks!(rows, from, |index, block| {
                    for x in block.iter_mut() {
                        let above = *x - most;
                        *x = if *log { above - less } else { numeric::exp(above) * scale };
                    }
                    rows.write(end, to, index, block);
                });
            }
            Rule::LayerNorm { eps, scale, shift } => {
                let n = rows.inner.dims.iter().product::<usize>() as f64;
                let (mut sum, mut squares) = (0.0_f64, 0.0_f64);
                blocks!(rows, from, |_index, block| {
                    for x in block {
                        sum += f64::from(*x);
                    }
                });
                let mean = sum / n;
                blocks!(rows, from, |_index, block| {
                    for x in block {
                        let off = f64::from(*x) - mean;
                        squares = off.mul_add(off, squares);
                    }
                });
                let factor = 1.0 / (squares / n + eps).sqrt();
                blocks!(rows, from, |index, block| {
                    for x in block.iter_mut() {
                        *x = rounded((f64::from(*x) - mean) * factor);
                    }
                    if let Some(scale) = scale {
                        for (x, s) in block.iter_mut().zip(&scale[index..]) {
                            *x *= s;
                        }
                    }
                    if let Some(shift) = shift {
                        for (x, s) in block.iter_mut().zip(&shift[index..]) {
                            *x += s;
                        }
                    }
                    rows.write(end, to, index, block);
                });
            }
        }
    }
}
