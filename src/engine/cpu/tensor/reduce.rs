//! Several values to one: sums and extremes along axes, in f64 and C order.
#![expect(unsafe_code, reason = "bodies are compiled for each instruction set")]

use super::super::isa::{Isa, for_each_isa};
use super::super::posts::BLOCK;
use super::super::rounded;
use super::views::{Walk, load};
use super::{End, Operand};
use crate::jobs::Control;
use crate::network::tensor_op::Reduce;
use crate::numeric;
use rayon::prelude::*;

/// A reduction ready to run.
#[derive(Clone, Debug)]
pub(super) struct Reducing {
    pub(super) kind: Reduce,
    pub(super) source: Operand,
    /// Over the results, in their memory order; operand 0 is the source.
    pub(super) outer: Walk,
    /// Over what becomes one result, in C order.
    pub(super) inner: Walk,
}

impl Reducing {
    pub(super) fn run(&self, isa: Isa, end: &End, control: &Control) {
        let results: usize = self.outer.dims.iter().product();
        (0..results).into_par_iter().for_each(|result| {
            if !control.is_cancelled() {
                one(isa, self, end, result);
            }
        });
    }

    fn start(&self, mut result: usize) -> usize {
        let mut at = 0;
        for (d, s) in self.outer.dims.iter().zip(&self.outer.steps[0]).rev() {
            at += result % d * s;
            result /= d;
        }
        at
    }
}

/// Goes over what becomes one result in C order, in place: a closure would be compiled without the caller's instruction set.
macro_rules! fold {
    ($of:expr, $start:expr, $first:expr, |$s:ident, $x:ident| $body:expr) => {{
        let mut buffer = [0.0_f32; BLOCK];
        let (row, last) = ($of.inner.row(), $of.inner.dims.len() - 1);
        let step = $of.inner.steps[0][last];
        let mut state: f64 = $first;
        for r in 0..$of.inner.rows() {
            let from = $start + $of.inner.start(0, r);
            let mut at = 0;
            while at < row {
                let n = (row - at).min(BLOCK);
                load(&$of.source, from + at * step, step, &mut buffer[..n]);
                for value in &buffer[..n] {
                    let ($s, $x) = (state, f64::from(*value));
                    state = $body;
                }
                at += n;
            }
        }
        state
    }};
}

/// The place of the first value that is this one, or NaN: below 0 the state counts the values before it, from 0 on it is found.
macro_rules! place {
    ($of:expr, $start:expr, $wanted:expr) => {{
        let wanted: f64 = $wanted;
        fold!($of, $start, -1.0, |s, x| if s >= 0.0 {
            s
        } else if x == wanted || x.is_nan() {
            -s - 1.0
        } else {
            s - 1.0
        })
    }};
}

for_each_isa! {
    /// One result.
    fn one(reducing: &Reducing, end: &End, result: usize) {
        let start = reducing.start(result);
        let n = reducing.inner.dims.iter().product::<usize>() as f64;
        let larger = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
        let smaller = |a: f64, b: f64| if b < a || b.is_nan() { b } else { a };
        let value = match reducing.kind {
            Reduce::Sum => fold!(reducing, start, 0.0, |s, x| s + x),
            Reduce::Mean => fold!(reducing, start, 0.0, |s, x| s + x) / n,
            Reduce::Max => fold!(reducing, start, f64::NEG_INFINITY, |s, x| larger(s, x)),
            Reduce::Min => fold!(reducing, start, f64::INFINITY, |s, x| smaller(s, x)),
            Reduce::Prod => fold!(reducing, start, 1.0, |s, x| s * x),
            Reduce::L1 => fold!(reducing, start, 0.0, |s, x| s + x.abs()),
            Reduce::L2 => fold!(reducing, start, 0.0, |s, x| x.mul_add(x, s)).sqrt(),
            Reduce::SumSquare => fold!(reducing, start, 0.0, |s, x| x.mul_add(x, s)),
            Reduce::LogSum => numeric::ln_wide(fold!(reducing, start, 0.0, |s, x| s + x)),
            Reduce::LogSumExp => {
                let most = fold!(reducing, start, f64::NEG_INFINITY, |s, x| larger(s, x));
                let sum = fold!(reducing, start, 0.0, |s, x| s + numeric::exp_wide(x - most));
                most + numeric::ln_wide(sum)
            }
            Reduce::ArgMax => {
                let most = fold!(reducing, start, f64::NEG_INFINITY, |s, x| larger(s, x));
                place!(reducing, start, most)
            }
            Reduce::ArgMin => {
                let least = fold!(reducing, start, f64::INFINITY, |s, x| smaller(s, x));
                place!(reducing, start, least)
            }
        };
        let mut value = rounded(value);
        end.store(result, std::slice::from_mut(&mut value));
    }
}
