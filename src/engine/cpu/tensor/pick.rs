//! Values moved, none computed: other axis orders, parts, padding, repetition, joining.
#![expect(unsafe_code, reason = "bodies are compiled for each instruction set")]

use super::super::isa::{Isa, for_each_isa};
use super::super::posts::BLOCK;
use super::views::{TASK, load};
use super::{End, Operand};
use crate::jobs::Control;
use rayon::prelude::*;

/// Where along one axis of the source each place of the result comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Along {
    /// This many values from one place to the next.
    Step(usize),
    /// Values from the source's start; `None` is outside.
    Table(Vec<Option<usize>>),
}

/// One source into its part of the result.
#[derive(Clone, Debug)]
pub(super) struct Pick {
    pub(super) source: Operand,
    /// Axes of the part, in the result's memory order.
    pub(super) dims: Vec<usize>,
    pub(super) from: Vec<Along>,
    /// Values before all that the steps lead to.
    pub(super) base: usize,
    /// Values between neighbours in the result along each axis.
    pub(super) to: Vec<usize>,
    /// First value of the part in the result.
    pub(super) first: usize,
    /// What lies outside of the source.
    pub(super) fill: f32,
}

impl Pick {
    /// Axes of one place left out, axes that follow each other on both sides as one.
    pub(super) fn merged(mut self) -> Self {
        let (dims, from, to) = (
            std::mem::take(&mut self.dims),
            std::mem::take(&mut self.from),
            std::mem::take(&mut self.to),
        );
        for ((d, from), to) in dims.into_iter().zip(from).zip(to) {
            if let (1, Along::Step(_)) = (d, &from) {
                continue;
            }
            let joins = match (self.from.last(), &from, self.to.last()) {
                (Some(Along::Step(a)), Along::Step(b), Some(t)) => *a == b * d && *t == to * d,
                _ => false,
            };
            if joins {
                self.from.pop();
                self.to.pop();
                *self.dims.last_mut().unwrap_or(&mut 0) *= d;
            } else {
                self.dims.push(d);
            }
            self.from.push(from);
            self.to.push(to);
        }
        // A row is written without gaps: places that lie apart are rows of one.
        if self.to.last() != Some(&1) {
            self.dims.push(1);
            self.from.push(Along::Step(1));
            self.to.push(1);
        }
        self
    }

    pub(super) fn run(&self, isa: Isa, end: &End, control: &Control) {
        let last = self.dims.len() - 1;
        let rows: usize = self.dims[..last].iter().product();
        let row = self.dims[last];
        let parts = row.div_ceil(TASK);
        let per_task = (TASK / row).max(1);
        let tasks = if parts > 1 {
            rows * parts
        } else {
            rows.div_ceil(per_task)
        };
        (0..tasks).into_par_iter().for_each(|task| {
            if control.is_cancelled() {
                return;
            }
            if parts > 1 {
                let from = task % parts * TASK;
                let to = (from + TASK).min(row);
                range(isa, self, end, (task / parts, task / parts + 1), (from, to));
            } else {
                let first = task * per_task;
                range(
                    isa,
                    self,
                    end,
                    (first, (first + per_task).min(rows)),
                    (0, row),
                );
            }
        });
    }

    /// Where a row starts in source (`None`: outside) and result.
    fn start(&self, mut row: usize) -> (Option<usize>, usize) {
        let (mut from, mut to) = (Some(self.base), self.first);
        for axis in (0..self.dims.len() - 1).rev() {
            let at = row % self.dims[axis];
            row /= self.dims[axis];
            to += at * self.to[axis];
            from = match &self.from[axis] {
                Along::Step(s) => from.map(|f| f + at * s),
                Along::Table(t) => from.and_then(|f| t[at].map(|t| f + t)),
            };
        }
        (from, to)
    }
}

for_each_isa! {
    /// Some rows, each from one place to another.
    fn range(pick: &Pick, end: &End, rows: (usize, usize), places: (usize, usize)) {
        let mut buffer = [0.0_f32; BLOCK];
        let last = pick.dims.len() - 1;
        for row in rows.0..rows.1 {
            let (from, to) = pick.start(row);
            let mut at = places.0;
            while at < places.1 {
                let n = (places.1 - at).min(BLOCK);
                let block = &mut buffer[..n];
                match (from, &pick.from[last]) {
                    (None, _) => block.fill(pick.fill),
                    (Some(from), Along::Step(step)) => load(&pick.source, from + at * step, *step, block),
                    (Some(from), Along::Table(table)) => {
                        for (x, place) in block.iter_mut().zip(&table[at..at + n]) {
                            match place {
                                Some(place) => load(&pick.source, from + place, 1, std::slice::from_mut(x)),
                                None => *x = pick.fill,
                            }
                        }
                    }
                }
                end.store(to + at, block);
                at += n;
            }
        }
    }
}
