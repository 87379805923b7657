//! Arithmetic value by value, with operands that repeat along axes.
#![expect(unsafe_code, reason = "bodies are compiled for each instruction set")]

use super::super::isa::{Isa, for_each_isa};
use super::super::posts::BLOCK;
use super::views::{TASK, Walk, load};
use super::{End, Operand};
use crate::jobs::Control;
use crate::network::tensor_op::Binary;
use crate::numeric;
use rayon::prelude::*;

/// What is made of the operands' values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Binary(Binary),
    /// The second where the first is not 0, else the third.
    Where,
}

/// Value by value over a walk of the result.
#[derive(Clone, Debug)]
pub(super) struct Each {
    pub(super) rule: Rule,
    pub(super) operands: Vec<Operand>,
    pub(super) walk: Walk,
}

impl Each {
    pub(super) fn run(&self, isa: Isa, end: &End, control: &Control) {
        let (rows, row) = (self.walk.rows(), self.walk.row());
        if row > TASK {
            let parts = row.div_ceil(TASK);
            (0..rows * parts).into_par_iter().for_each(|task| {
                if !control.is_cancelled() {
                    let from = task % parts * TASK;
                    part(isa, self, end, task / parts, from, (from + TASK).min(row));
                }
            });
            return;
        }
        let per_task = (TASK / row).max(1);
        (0..rows.div_ceil(per_task))
            .into_par_iter()
            .for_each(|task| {
                if !control.is_cancelled() {
                    let first = task * per_task;
                    several(isa, self, end, first, (first + per_task).min(rows));
                }
            });
    }
}

for_each_isa! {
    /// Rows `first` to `last`.
    fn several(each: &Each, end: &End, first: usize, last: usize) {
        for row in first..last {
            values(each, end, row, 0, each.walk.row());
        }
    }
}

for_each_isa! {
    /// Part of a row.
    fn part(each: &Each, end: &End, row: usize, from: usize, to: usize) {
        values(each, end, row, from, to);
    }
}

#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "bodies must be compiled with their caller's instruction set"
)]
fn values(each: &Each, end: &End, row: usize, mut from: usize, to: usize) {
    let mut buffers = [[0.0_f32; BLOCK]; 3];
    let last = each.walk.dims.len() - 1;
    let mut starts = [0; 3];
    for (i, start) in starts.iter_mut().enumerate().take(each.operands.len()) {
        *start = each.walk.start(i, row);
    }
    while from < to {
        let n = (to - from).min(BLOCK);
        for (i, operand) in each.operands.iter().enumerate() {
            let step = each.walk.steps[i][last];
            load(operand, starts[i] + from * step, step, &mut buffers[i][..n]);
        }
        let [a, b, c] = &mut buffers;
        match each.rule {
            Rule::Binary(op) => binary(op, &mut a[..n], &b[..n]),
            Rule::Where => {
                for ((a, b), c) in a[..n].iter_mut().zip(&b[..n]).zip(&c[..n]) {
                    *a = if *a == 0.0 { *c } else { *b };
                }
            }
        }
        end.store(row * each.walk.row() + from, &mut a[..n]);
        from += n;
    }
}

#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "bodies must be compiled with their caller's instruction set"
)]
fn binary(op: Binary, a: &mut [f32], b: &[f32]) {
    match op {
        Binary::Add => pairs(a, b, |a, b| a + b),
        Binary::Sub => pairs(a, b, |a, b| a - b),
        Binary::Mul => pairs(a, b, |a, b| a * b),
        Binary::Div => pairs(a, b, |a, b| a / b),
        other => seldom(other, a, b),
    }
}

fn seldom(op: Binary, a: &mut [f32], b: &[f32]) {
    let truth = |t: bool| f32::from(u8::from(t));
    match op {
        Binary::Min => pairs(a, b, |a, b| if a < b || a.is_nan() { a } else { b }),
        Binary::Max => pairs(a, b, |a, b| if a > b || a.is_nan() { a } else { b }),
        Binary::Pow => pairs(a, b, numeric::pow),
        Binary::Mod { fmod: true } => pairs(a, b, |a, b| a % b),
        Binary::Mod { fmod: false } => pairs(a, b, |a, b| {
            let r = a % b;
            if r != 0.0 && (r < 0.0) != (b < 0.0) {
                r + b
            } else {
                r
            }
        }),
        Binary::Equal => pairs(a, b, |a, b| truth(a == b)),
        Binary::Less => pairs(a, b, |a, b| truth(a < b)),
        Binary::LessOrEqual => pairs(a, b, |a, b| truth(a <= b)),
        Binary::Greater => pairs(a, b, |a, b| truth(a > b)),
        Binary::GreaterOrEqual => pairs(a, b, |a, b| truth(a >= b)),
        Binary::And => pairs(a, b, |a, b| truth(a != 0.0 && b != 0.0)),
        Binary::Or => pairs(a, b, |a, b| truth(a != 0.0 || b != 0.0)),
        Binary::Xor => pairs(a, b, |a, b| truth((a != 0.0) != (b != 0.0))),
        Binary::Slope => pairs(a, b, |a, b| if a > 0.0 { a } else { b * a }),
        Binary::Add | Binary::Sub | Binary::Mul | Binary::Div => binary(op, a, b),
    }
}

#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "bodies must be compiled with their caller's instruction set"
)]
fn pairs(a: &mut [f32], b: &[f32], f: impl Fn(f32, f32) -> f32) {
    for (a, b) in a.iter_mut().zip(b) {
        *a = f(*a, *b);
    }
}
