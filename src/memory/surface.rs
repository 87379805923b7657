//! What fits: what every roi of a grid asks for, x = y against slices (against the batch where a network has no slices).

use super::Part;
use super::budget::BudgetRequest;
use super::fixes::stride;
use super::planner::Planner;
use crate::geometry::Extent;
use crate::units::Bytes;

/// What grows along the second axis of a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// The roi's size along z.
    Slices,
    /// Windows per pass, or the training batch.
    Batch,
}

/// What every roi of a grid asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surface {
    /// What the columns are.
    pub along: Along,
    /// Slices or batches, rising.
    pub columns: Vec<usize>,
    /// Roi sizes x = y, rising.
    pub rows: Vec<usize>,
    /// Largest roi of the grid, by which x and y of a row are cut.
    pub limit: Extent,
    /// Slices where the columns are batches.
    pub depth: usize,
    /// The arena's limit under which every roi is planned, in tiles where whole maps need more.
    pub memory_limit: Option<Bytes>,
    /// What is asked of the card, row by row; `None` where there is no plan.
    pub required: Vec<Option<Part>>,
}

/// Cells along one axis.
const CELLS: usize = 16;

impl Surface {
    /// The roi of a cell.
    pub fn roi(&self, row: usize, column: usize) -> Extent {
        let edge = self.rows.get(row).copied().unwrap_or(1);
        let deep = match self.along {
            Along::Slices => self.columns.get(column).copied().unwrap_or(1),
            Along::Batch => self.depth,
        };
        Extent::new(edge.min(self.limit.x), edge.min(self.limit.y), deep)
    }

    /// What a cell asks of the card.
    pub fn at(&self, row: usize, column: usize) -> Option<Part> {
        self.required
            .get(row * self.columns.len() + column)
            .copied()
            .flatten()
    }

    /// The cell with the most voxels whose high end is within `free`; of equals the one with the larger x and y.
    pub fn largest(&self, free: Bytes) -> Option<(usize, usize)> {
        let mut best: Option<(u64, usize, usize)> = None;
        for row in 0..self.rows.len() {
            for column in 0..self.columns.len() {
                if self.at(row, column).is_none_or(|p| p.high > free) {
                    continue;
                }
                let roi = self.roi(row, column).to_array();
                let windows = match self.along {
                    Along::Slices => 1,
                    Along::Batch => self.columns[column] as u64,
                };
                let voxels = roi.iter().fold(windows, |n, d| n.saturating_mul(*d as u64));
                if best.is_none_or(|(most, _, _)| voxels >= most) {
                    best = Some((voxels, row, column));
                }
            }
        }
        best.map(|(_, row, column)| (row, column))
    }
}

impl Planner<'_> {
    /// The surface up to `limit` (the volume, or a larger roi); whole maps, or tiles under the request's
    /// limit. `None` once `go_on` says no.
    pub fn surface(
        &self,
        request: &BudgetRequest<'_>,
        limit: Extent,
        go_on: impl Fn() -> bool,
    ) -> Option<Surface> {
        let [sx, sy, sz] = stride(self, request);
        let deep = request.graph.spatial_dims > 2;
        let up = |n: usize, s: usize| n.max(1).checked_next_multiple_of(s).unwrap_or(n);
        let limit = Extent::new(up(limit.x, sx), up(limit.y, sy), up(limit.z, sz));
        let mut surface = Surface {
            along: if deep { Along::Slices } else { Along::Batch },
            columns: if deep {
                grid(limit.z, sz)
            } else {
                batches(request.batch)
            },
            rows: grid(limit.x.max(limit.y), common(sx, sy)),
            limit,
            depth: request.roi_size.z,
            memory_limit: request.memory_limit,
            required: Vec::new(),
        };
        for row in 0..surface.rows.len() {
            for column in 0..surface.columns.len() {
                if !go_on() {
                    return None;
                }
                let batch = match surface.along {
                    Along::Slices => request.batch,
                    Along::Batch => surface.columns[column],
                };
                let asked = self.sketch(&BudgetRequest {
                    roi_size: surface.roi(row, column),
                    batch,
                    ..*request
                });
                surface.required.push(asked.ok().map(|p| p.required()));
            }
        }
        Some(surface)
    }
}

/// At most so many multiples of the stride up to `most`, which is the last.
fn grid(most: usize, stride: usize) -> Vec<usize> {
    let step = most
        .div_ceil(CELLS)
        .checked_next_multiple_of(stride)
        .unwrap_or(most)
        .max(1);
    let mut out: Vec<usize> = (step..most).step_by(step).collect();
    out.push(most);
    out
}

/// Batches from 1, past the one that is planned.
fn batches(planned: usize) -> Vec<usize> {
    let step = planned.div_ceil(CELLS / 2).max(1);
    let mut out = vec![1];
    out.extend((1..=CELLS).map(|i| i * step).filter(|n| *n > 1));
    out
}

/// The least common multiple of two strides.
pub(super) fn common(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a.max(1), b.max(1));
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a.max(1) / x).saturating_mul(b.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::budget::Runtime;
    use crate::network::preset;
    use std::cell::Cell;

    #[test]
    fn each_cell_is_what_planning_its_roi_asks_and_the_grid_ends_at_the_volume() {
        let graph = preset::load("monai-lung-nodule").unwrap().graph;
        let planner = Planner::new(&graph);
        let request = BudgetRequest {
            runtime: Runtime::Pytorch,
            ..BudgetRequest::new(&graph, Extent::new(512, 512, 192))
        };
        let start = std::time::Instant::now();
        let s = planner
            .surface(&request, Extent::new(512, 480, 240), || true)
            .unwrap();
        println!(
            "{} cells in {:.1} ms",
            s.required.len(),
            start.elapsed().as_secs_f64() * 1e3
        );
        assert_eq!((s.rows[0], s.rows[15], s.rows.len()), (32, 512, 16));
        assert_eq!(
            (s.columns[0], s.columns[14], s.columns.len()),
            (16, 240, 15)
        );
        assert_eq!(s.roi(15, 11), Extent::new(512, 480, 192));
        for (row, column) in [(0, 0), (7, 3), (15, 14)] {
            let alone = planner.sketch(&BudgetRequest {
                roi_size: s.roi(row, column),
                ..request
            });
            assert_eq!(s.at(row, column), Some(alone.unwrap().required()));
        }
        for row in 1..s.rows.len() {
            for column in 1..s.columns.len() {
                let here = s.at(row, column).unwrap().high;
                assert!(here >= s.at(row - 1, column).unwrap().high);
                assert!(here >= s.at(row, column - 1).unwrap().high);
            }
        }
        let (row, column) = s.largest(Bytes::gib(14)).unwrap();
        assert!(s.at(row, column).unwrap().high <= Bytes::gib(14));
        assert_eq!(s.largest(Bytes(1)), None);
    }

    #[test]
    fn under_a_limit_each_cell_is_the_plan_in_tiles_or_none_and_the_largest_roi_grows() {
        let graph = preset::load("nnunet-3d-6stage").unwrap().graph;
        let planner = Planner::new(&graph);
        let whole = BudgetRequest::new(&graph, Extent::cube(128));
        let limited = BudgetRequest {
            memory_limit: Some(Bytes::mib(700)),
            ..whole
        };
        let limit = Extent::cube(256);
        let [of_whole, of_limited] =
            [whole, limited].map(|r| planner.surface(&r, limit, || true).unwrap());
        assert_eq!(of_limited.memory_limit, limited.memory_limit);
        let (mut less, mut none) = (0, 0);
        for (a, b) in of_whole.required.iter().zip(&of_limited.required) {
            match (a, b) {
                (Some(a), Some(b)) => {
                    assert!(b.high <= a.high);
                    less += usize::from(b.high < a.high);
                }
                (Some(_), None) => none += 1,
                (None, b) => assert_eq!(*b, None),
            }
        }
        assert!(
            less > 0 && none > 0,
            "{less} cells ask for less, {none} have no plan"
        );
        let voxels = |s: &Surface| {
            let (row, column) = s.largest(Bytes::gib(1)).unwrap();
            s.roi(row, column).voxels()
        };
        assert!(voxels(&of_limited) > voxels(&of_whole));
    }

    #[test]
    fn a_surface_that_nobody_waits_for_stops_at_the_next_cell() {
        let graph = preset::load("demo").unwrap().graph;
        let planner = Planner::new(&graph);
        let request = BudgetRequest::new(&graph, Extent::cube(64));
        let asked = Cell::new(0);
        let made = planner.surface(&request, Extent::cube(256), || {
            asked.set(asked.get() + 1);
            asked.get() < 5
        });
        assert_eq!((made, asked.get()), (None, 5));
    }

    #[test]
    fn a_network_of_two_axes_is_shown_against_its_batch() {
        use crate::network::builder::{Builder, Conv};
        let mut b = Builder::new("flat", 2);
        let x = b.input("image", 1);
        let y = b.conv("conv", x, Conv::new(8, &[3, 3]).pad(&[1, 1]));
        b.output(y);
        let graph = b.finish();
        let request = BudgetRequest {
            batch: 4,
            ..BudgetRequest::new(&graph, Extent::new(384, 384, 1))
        };
        let s = Planner::new(&graph)
            .surface(&request, Extent::new(512, 512, 1), || true)
            .unwrap();
        assert_eq!(
            (s.along, s.columns[0], s.columns.last()),
            (Along::Batch, 1, Some(&16))
        );
        let one = s.at(0, 0).unwrap().high;
        assert!(s.at(0, 1).unwrap().high > one);
    }
}
