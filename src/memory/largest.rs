//! The largest roi that fits: multiples of the total stride, x and y shrinking together or not at all, every larger one
//! shown not to fit. A cell of the grid is planned once, whatever the number of cards.

use super::budget::{BudgetRequest, Runtime};
use super::fixes::stride;
use super::planner::Planner;
use super::surface::common;
use super::{MemoryError, Part};
use crate::geometry::Extent;
use crate::tiling::{self, ExactnessVerdict, Facts, TilingSpec};
use crate::units::Bytes;
use std::sync::OnceLock;

/// Where the search ends when no volume is given: in plane, and along z.
pub const WITHOUT_VOLUME: Extent = Extent::new(512, 512, 1024);

/// Most rois that are searched: more than any scanner's volume has.
const MOST_CANDIDATES: usize = 1 << 20;

/// What a roi must be besides small enough.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Whether x and y stay whole.
    pub keep_in_plane: bool,
    /// Windows that must give bitwise what one pass gives: how they would be laid, and what is known of the network.
    pub exact: Option<(TilingSpec, Facts)>,
}

/// A roi, and what it asks of the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sized {
    /// The roi.
    pub roi: Extent,
    /// What it asks for; `None` where no machine could say.
    pub required: Option<Part>,
}

/// The answer for one card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Largest {
    /// The largest roi that fits; `None` when not even the smallest does.
    pub found: Option<Sized>,
    /// Whether it is the whole volume.
    pub whole: bool,
    /// The smallest roi with more voxels, which does not fit; `None` when the whole volume does.
    pub next: Option<Sized>,
}

/// What a cell was planned to ask for, and a bound from below that never falls as a roi grows.
#[derive(Clone, Copy, Debug)]
struct Cell {
    floor: Bytes,
    required: Option<Part>,
}

/// All rois that may be the answer.
#[derive(Debug)]
pub struct LargestSearch<'p, 'a> {
    planner: &'p Planner<'a>,
    request: BudgetRequest<'a>,
    rules: Rules,
    limit: Extent,
    edges: Vec<Extent>,
    depths: Vec<usize>,
    cells: Vec<OnceLock<Cell>>,
    allowed: Vec<OnceLock<bool>>,
}

impl<'p, 'a> LargestSearch<'p, 'a> {
    /// Rois up to `limit`, the prepared volume.
    pub fn new(
        planner: &'p Planner<'a>,
        request: BudgetRequest<'a>,
        limit: Extent,
        rules: Rules,
    ) -> Self {
        let [sx, sy, sz] = stride(planner, &request);
        let deep = request.graph.spatial_dims > 2;
        let up = |n: usize, s: usize| n.max(1).checked_next_multiple_of(s).unwrap_or(n);
        let limit = Extent::new(
            up(limit.x, sx),
            up(limit.y, sy),
            if deep { up(limit.z, sz) } else { 1 },
        );
        let both = common(sx, sy);
        let depth_step = if deep { sz } else { 1 };
        let rows = if rules.keep_in_plane {
            1
        } else {
            limit.x.max(limit.y).div_ceil(both)
        };
        let all = rows.checked_mul(limit.z.div_ceil(depth_step));
        let few = all.is_some_and(|n| n <= MOST_CANDIDATES);
        let edges = if !few {
            Vec::new()
        } else if rules.keep_in_plane {
            vec![Extent::new(limit.x, limit.y, 1)]
        } else {
            multiples(limit.x.max(limit.y), both)
                .map(|n| Extent::new(n.min(limit.x), n.min(limit.y), 1))
                .collect()
        };
        let depths: Vec<usize> = if few {
            multiples(limit.z, depth_step).collect()
        } else {
            Vec::new()
        };
        let n = edges.len() * depths.len();
        Self {
            planner,
            request,
            rules,
            limit,
            edges,
            depths,
            cells: (0..n).map(|_| OnceLock::new()).collect(),
            allowed: (0..n).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Rois that may be the answer.
    pub const fn n_candidates(&self) -> usize {
        self.cells.len()
    }

    /// Refuses a question that no roi can answer, such as training with our own runtime.
    pub fn check(&self) -> Result<(), MemoryError> {
        if self.cells.is_empty() {
            return Err(MemoryError::Unsupported {
                what: format!(
                    "a volume of {} voxels has more rois than the {MOST_CANDIDATES} that are searched",
                    self.limit
                ),
                instead: "give the size of a volume that a scanner makes".to_owned(),
            });
        }
        let asked = BudgetRequest {
            roi_size: self.roi(0, 0),
            ..self.request
        };
        match self.planner.outcome(&asked, false) {
            Err(e @ (MemoryError::Unsupported { .. } | MemoryError::EmptyBatch)) => Err(e),
            _ => Ok(()),
        }
    }

    /// The roi with the most voxels that fits into `free`; of equals the one with the larger x and y.
    pub fn largest(&self, free: Bytes) -> Largest {
        let mut best: Option<(u64, usize, usize)> = None;
        for row in (0..self.edges.len()).rev() {
            let beats =
                |column: &usize| best.is_none_or(|(most, _, _)| self.voxels(row, *column) > most);
            let Some(from) = (0..self.depths.len()).find(beats) else {
                break;
            };
            if let Some(column) = self.deepest(row, from, free) {
                best = Some((self.voxels(row, column), row, column));
            }
        }
        let sized = |(row, column): (usize, usize)| Sized {
            roi: self.roi(row, column),
            required: self.cell(row, column).required,
        };
        let found = best.map(|(_, row, column)| sized((row, column)));
        Largest {
            whole: found.is_some_and(|f| f.roi == self.limit),
            found,
            next: self.next(best.map_or(0, |(most, _, _)| most)).map(sized),
        }
    }

    /// The last column from `from` on that fits, by bisection on what never falls, then down to what really fits.
    fn deepest(&self, row: usize, from: usize, free: Bytes) -> Option<usize> {
        let within = |column: usize| self.cell(row, column).floor <= free;
        if !within(from) {
            return None;
        }
        let (mut low, mut high) = (from, self.depths.len());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if within(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        (from..=low).rev().find(|&column| {
            let required = self.cell(row, column).required;
            required.is_some_and(|p| p.high <= free) && self.is_allowed(row, column)
        })
    }

    /// The smallest allowed cell with more voxels than these; of equals the one with the larger x and y.
    fn next(&self, most: u64) -> Option<(usize, usize)> {
        let mut larger: Vec<(u64, usize, usize)> = (0..self.edges.len())
            .rev()
            .flat_map(|row| (0..self.depths.len()).map(move |column| (row, column)))
            .map(|(row, column)| (self.voxels(row, column), row, column))
            .filter(|(voxels, _, _)| *voxels > most)
            .collect();
        larger.sort_by_key(|(voxels, _, _)| *voxels);
        larger
            .into_iter()
            .find(|(_, row, column)| self.is_allowed(*row, *column))
            .map(|(_, row, column)| (row, column))
    }

    fn roi(&self, row: usize, column: usize) -> Extent {
        let edge = self.edges.get(row).copied().unwrap_or(Extent::cube(1));
        Extent::new(
            edge.x,
            edge.y,
            self.depths.get(column).copied().unwrap_or(1),
        )
    }

    fn voxels(&self, row: usize, column: usize) -> u64 {
        let roi = self.roi(row, column).to_array();
        roi.iter().fold(1, |n, d| n.saturating_mul(*d as u64))
    }

    fn cell(&self, row: usize, column: usize) -> Cell {
        let plan = || self.plan(self.roi(row, column));
        match self.cells.get(row * self.depths.len() + column) {
            Some(cell) => *cell.get_or_init(plan),
            None => plan(),
        }
    }

    fn plan(&self, roi: Extent) -> Cell {
        let asked = BudgetRequest {
            roi_size: roi,
            ..self.request
        };
        let outcome = match self.planner.outcome(&asked, false) {
            Ok(outcome) => outcome,
            Err(e) => {
                let too_much = matches!(
                    e,
                    MemoryError::TooLarge { .. } | MemoryError::LimitTooSmall { .. }
                );
                return Cell {
                    floor: Bytes(if too_much { u64::MAX } else { 0 }),
                    required: None,
                };
            }
        };
        let required = outcome.parts.required();
        // Packing and an allocator's reserve may fall a little where a roi grows; what lives does not. How far tiles go
        // is taken as it comes.
        let floor = match (outcome.arena, self.request.runtime) {
            _ if self.request.tiles || self.request.memory_limit.is_some() => required.high,
            (Some(arena), _) => required
                .high
                .saturating_sub(arena.saturating_sub(outcome.lower_bound)),
            (None, Runtime::Pytorch) => required.high.saturating_sub(outcome.parts.allocator.high),
            (None, Runtime::Voxfit) => required.high,
        };
        Cell {
            floor,
            required: Some(required),
        }
    }

    fn is_allowed(&self, row: usize, column: usize) -> bool {
        let Some((spec, facts)) = &self.rules.exact else {
            return true;
        };
        let roi = self.roi(row, column);
        let ask = || is_exact(spec, facts, roi, self.limit);
        match self.allowed.get(row * self.depths.len() + column) {
            Some(known) => *known.get_or_init(ask),
            None => ask(),
        }
    }
}

/// Whether windows of this size over this volume are forecast to give bitwise what one pass gives.
fn is_exact(spec: &TilingSpec, facts: &Facts, roi: Extent, volume: Extent) -> bool {
    if roi != volume && !facts.spatial_norms.is_empty() {
        return false;
    }
    let spec = TilingSpec {
        roi_size: roi,
        ..*spec
    };
    tiling::plan(&spec, volume, facts)
        .is_ok_and(|plan| tiling::forecast(&plan, facts).verdict == ExactnessVerdict::Exact)
}

/// Multiples of a stride up to `most`, which is the last.
fn multiples(most: usize, stride: usize) -> impl Iterator<Item = usize> {
    let stride = stride.max(1);
    (stride..most).step_by(stride).chain([most])
}
