//! Products of matrices, each value one chain of fused multiply-adds along the shared axis, the bias last.
#![expect(unsafe_code, reason = "operands are read through pointers")]

use super::super::isa::{Isa, for_each_isa};
use super::prepare::Tensor;
use super::views::Walk;
use super::{End, Operand};
use crate::jobs::Control;
use crate::network::layout::Layout;
use rayon::prelude::*;
use std::sync::Arc;

/// Rows of one task.
const CHUNK: usize = 48;
/// Rows and columns computed together.
const ROWS: usize = 6;
const LANES: usize = 16;

/// A product ready to run.
#[derive(Clone, Debug)]
pub(super) struct MatMul {
    pub(super) a: Operand,
    pub(super) b: Operand,
    pub(super) bias: Option<Arc<[f32]>>,
    /// Axes before the last two: operands a and b and the result.
    pub(super) outer: Walk,
    /// Rows, shared length, columns.
    pub(super) size: [usize; 3],
    /// Values between rows and columns of a, b and the result.
    pub(super) steps: [[usize; 2]; 3],
}

impl MatMul {
    pub(super) fn run(&self, isa: Isa, end: &End, control: &Control) {
        let chunks = self.size[0].div_ceil(CHUNK);
        let outer: usize = self.outer.dims.iter().product();
        (0..outer * chunks)
            .into_par_iter()
            .with_max_len(1)
            .for_each(|task| {
                if !control.is_cancelled() {
                    chunk(isa, self, end, task / chunks, task % chunks * CHUNK);
                }
            });
    }

    /// Where a product of the outer axes starts in an operand.
    fn start(&self, operand: usize, mut index: usize) -> usize {
        let mut at = 0;
        for (d, s) in self.outer.dims.iter().zip(&self.outer.steps[operand]).rev() {
            at += index % d * s;
            index /= d;
        }
        at
    }
}

for_each_isa! {
    /// Some rows of one product.
    fn chunk(product: &MatMul, end: &End, outer: usize, first: usize) {
        let [m, k, n] = product.size;
        let [a_steps, b_steps, to] = product.steps;
        let starts: [usize; 3] = std::array::from_fn(|i| product.start(i, outer));
        let last = (first + CHUNK).min(m);
        let (a, a_len) = product.a.span();
        let (b, b_len) = product.b.span();
        assert!(starts[0] + (m - 1) * a_steps[0] + (k - 1) * a_steps[1] < a_len, "values beyond an operand's end");
        assert!(starts[1] + (k - 1) * b_steps[0] + (n - 1) * b_steps[1] < b_len, "values beyond an operand's end");
        for column in (0..n).step_by(LANES) {
            let lanes = (n - column).min(LANES);
            for row in (first..last).step_by(ROWS) {
                let rows = (last - row).min(ROWS);
                let mut sums = [[0.0_f32; LANES]; ROWS];
                let left: [*const f32; ROWS] = std::array::from_fn(|r| {
                    a.wrapping_add(starts[0] + (row + r.min(rows - 1)) * a_steps[0])
                });
                let right = b.wrapping_add(starts[1] + column * b_steps[1]);
                if lanes == LANES && b_steps[1] == 1 {
                    for i in 0..k {
                        let mut y = [0.0_f32; LANES];
                        let from = right.wrapping_add(i * b_steps[0]);
                        // SAFETY: row i of b holds 16 values from this column on, as checked above.
                        unsafe { std::ptr::copy_nonoverlapping(from, y.as_mut_ptr(), LANES) };
                        for r in 0..ROWS {
                            // SAFETY: place i of this row of a, as checked above.
                            let x = unsafe { left[r].wrapping_add(i * a_steps[1]).read() };
                            for (sum, y) in sums[r].iter_mut().zip(y) {
                                *sum = x.mul_add(y, *sum);
                            }
                        }
                    }
                } else {
                    for i in 0..k {
                        let mut y = [0.0_f32; LANES];
                        for (lane, y) in y.iter_mut().enumerate().take(lanes) {
                            let from = right.wrapping_add(i * b_steps[0] + lane * b_steps[1]);
                            // SAFETY: the value of row i and this column of b, as checked above.
                            *y = unsafe { from.read() };
                        }
                        for r in 0..ROWS {
                            // SAFETY: place i of this row of a, as checked above.
                            let x = unsafe { left[r].wrapping_add(i * a_steps[1]).read() };
                            for (sum, y) in sums[r].iter_mut().zip(y) {
                                *sum = x.mul_add(y, *sum);
                            }
                        }
                    }
                }
                for (r, sums) in sums.iter_mut().enumerate().take(rows) {
                    let values = &mut sums[..lanes];
                    if let Some(bias) = &product.bias {
                        for (v, b) in values.iter_mut().zip(&bias[column..]) {
                            *v += b;
                        }
                    }
                    let element = starts[2] + (row + r) * to[0] + column * to[1];
                    if to[1] == 1 {
                        end.store(element, values);
                    } else {
                        for (lane, v) in values.iter_mut().enumerate() {
                            end.store(element + lane * to[1], std::slice::from_mut(v));
                        }
                    }
                }
            }
        }
    }
}

/// The inputs of a linear layer with its weight (n, k) as the matrix (k, n) that a product reads.
pub(super) fn turned(mut inputs: Vec<Tensor>) -> Option<Vec<Tensor>> {
    let weight = inputs.get_mut(1)?;
    let (Operand::Values(values), &[n, k]) = (&weight.operand, weight.shape.as_slice()) else {
        return None;
    };
    let turned = (0..n * k).map(|i| values[i % n * k + i / n]).collect();
    weight.operand = Operand::Values(turned);
    weight.shape = vec![k, n];
    weight.strides = Layout::Rows.strides(&weight.shape);
    Some(inputs)
}

/// The product of the last two axes of two operands.
pub(super) fn product(inputs: &[Tensor], out: &Tensor) -> Result<MatMul, String> {
    let (a, b) = (&inputs[0], &inputs[1]);
    let rank = out.shape.len();
    let outer = &out.shape[..rank - 2];
    let steps = |x: &Tensor| -> Vec<usize> {
        let own = x.shape.len() - 2;
        let before = outer.len() - own.min(outer.len());
        (0..outer.len())
            .map(|axis| match axis.checked_sub(before) {
                Some(i) if x.shape[i] == outer[axis] => x.strides[i],
                _ => 0,
            })
            .collect()
    };
    let last = |x: &Tensor| {
        let n = x.strides.len();
        [x.strides[n - 2], x.strides[n - 1]]
    };
    let bias = match inputs.get(2).map(|t| &t.operand) {
        Some(Operand::Values(v)) => Some(v.clone()),
        Some(Operand::Place(_)) => return Err("its bias must be a constant".to_owned()),
        None => None,
    };
    Ok(MatMul {
        a: a.operand.clone(),
        b: b.operand.clone(),
        bias,
        outer: Walk::merged(outer, &[steps(a), steps(b), steps(out)]),
        size: [
            out.shape[rank - 2],
            a.shape[a.shape.len() - 1],
            out.shape[rank - 1],
        ],
        steps: [last(a), last(b), last(out)],
    })
}
