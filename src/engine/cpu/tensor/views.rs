//! Walking tensors by strides: the axes of a result in memory order with each operand's steps along them.
#![expect(unsafe_code, reason = "operands are read through pointers")]
#![expect(
    clippy::inline_always,
    reason = "bodies must be compiled with their caller's instruction set"
)]

use super::super::posts;
use super::{End, Operand};

/// Most axes that are walked.
pub(super) const MOST_AXES: usize = 16;
/// Values of one task.
pub(super) const TASK: usize = 8192;

/// Axes from the slowest to the fastest, and for each operand the values from one place to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Walk {
    pub(super) dims: Vec<usize>,
    pub(super) steps: Vec<Vec<usize>>,
}

impl Walk {
    /// Axes of one value left out, axes that follow each other in every operand as one.
    pub(super) fn merged(dims: &[usize], steps: &[Vec<usize>]) -> Self {
        let mut out = Self {
            dims: Vec::new(),
            steps: vec![Vec::new(); steps.len()],
        };
        for (i, d) in dims.iter().enumerate().filter(|(_, d)| **d != 1) {
            let joins = !out.dims.is_empty()
                && out
                    .steps
                    .iter()
                    .zip(steps)
                    .all(|(o, s)| o.last().is_some_and(|last| *last == s[i] * d));
            if joins {
                *out.dims.last_mut().unwrap_or(&mut 0) *= d;
            } else {
                out.dims.push(*d);
            }
            for (o, s) in out.steps.iter_mut().zip(steps) {
                if joins {
                    o.pop();
                }
                o.push(s[i]);
            }
        }
        if out.dims.is_empty() {
            out.dims.push(1);
            for o in &mut out.steps {
                o.push(1);
            }
        }
        out
    }

    /// The fastest axis.
    pub(super) fn row(&self) -> usize {
        self.dims[self.dims.len() - 1]
    }

    /// Rows along the fastest axis.
    pub(super) fn rows(&self) -> usize {
        self.dims[..self.dims.len() - 1].iter().product()
    }

    /// Where a row starts in an operand.
    #[inline(always)]
    pub(super) fn start(&self, operand: usize, mut row: usize) -> usize {
        let mut at = 0;
        for axis in (0..self.dims.len() - 1).rev() {
            at += row % self.dims[axis] * self.steps[operand][axis];
            row /= self.dims[axis];
        }
        at
    }
}

/// Reads values at `from`, `from + step`... of an operand.
#[inline(always)]
pub(super) fn load(operand: &Operand, from: usize, step: usize, into: &mut [f32]) {
    let (start, len) = operand.span();
    assert!(
        into.is_empty() || from + (into.len() - 1) * step < len,
        "values beyond an operand's end"
    );
    if step == 1 {
        let first = start.wrapping_add(from);
        // SAFETY: the range lies inside the operand, as just checked; nobody but this task writes what it reads here.
        unsafe { std::ptr::copy_nonoverlapping(first, into.as_mut_ptr(), into.len()) };
        return;
    }
    for (i, x) in into.iter_mut().enumerate() {
        let at = start.wrapping_add(from + i * step);
        // SAFETY: as above.
        *x = unsafe { at.read() };
    }
}

impl End {
    /// The epilogue of `block`, then into the target from `element` on.
    #[inline(always)]
    pub(super) fn store(&self, element: usize, block: &mut [f32]) {
        let channel = if self.posts.is_empty() {
            0
        } else {
            element % self.channels
        };
        // SAFETY: this task alone writes these values, and the epilogue reads the same positions of its places.
        unsafe { posts::apply(&self.posts, block, element, channel, 0, 0) };
        // SAFETY: as above.
        unsafe { self.target.write(element, block) };
    }
}
