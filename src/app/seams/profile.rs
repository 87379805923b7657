//! Curves across a seam: the run, the reference, and what each window alone gave, along a line through the crosshair.

use super::field::Grid;
use super::outputs::kept;
use super::{DiffFound, KeptOutputs, SeamRow};
use crate::app::state::Outcome;
use crate::geometry::Axis;
use crate::review::curves::WindowScores;
use crate::tiling::stitch::Stitched;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whose values a curve shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The run's stitched output.
    Tiled,
    /// The reference's.
    Reference,
    /// One window's, before it was blended: its index in run order.
    Window(usize),
}

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Whose it is.
    pub whose: Whose,
    /// Place in voxel borders of the loaded volume along the line, and score.
    pub points: Vec<[f64; 2]>,
}

/// Curves across one seam.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The loaded axis that the line runs along.
    pub axis: Axis,
    /// The seam's place along it, in voxel borders.
    pub face: f64,
    /// Ends of the line, in voxel borders.
    pub span: [f64; 2],
    /// Where the windows that the line goes through begin and end, by index.
    pub windows: Vec<(usize, [f64; 2])>,
    /// The curves; the run's is the first.
    pub curves: Vec<Curve>,
    /// The run's step from the last voxel before the seam to the first after it.
    pub step: Option<f64>,
    /// Name of the output.
    pub output: String,
    /// Why windows have no curves of their own, or nothing.
    pub why_no_windows: &'static str,
}

/// Loaded voxels to each side of the seam, at least.
const REACH: f64 = 24.0;
/// Voxels of the output to each side, at least.
const CELLS: f64 = 12.0;

/// What is needed for curves.
const NO_OUTPUTS: &str =
    "the result was opened without its outputs: run it here, or with voxfit run --keep-outputs DIR";
const NO_WINDOWS_FILE: &str =
    "a result file keeps no window by itself: run the plan here for each window's own curve";
const NO_WINDOWS_ROOM: &str =
    "the windows by themselves took more memory than is kept; a smaller volume shows their curves";

struct Line {
    grid: Grid,
    /// The output's axis along the line.
    t: usize,
    /// The output's voxel on the line, but for that axis.
    cell: [usize; 3],
    /// Which cells.
    range: std::ops::Range<usize>,
}

impl Line {
    fn new(grid: Grid, axis: Axis, at: [f64; 3], span: [f64; 2]) -> Option<Self> {
        let a = axis.index();
        let t = (0..3).find(|t| grid.loaded_axis(*t) == a)?;
        let mut middle = at;
        middle[a] = 0.5 * (span[0] + span[1]) - 0.5;
        let cell = grid.voxel(middle)?;
        let ends = span.map(|edge| {
            let mut p = at;
            p[a] = edge - 0.5;
            grid.place(p)[t]
        });
        let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        let inside = |i: &usize| (*i as f64) >= low - 0.5 && (*i as f64) <= high + 0.5;
        let first = (0..grid.spatial[t]).find(inside)?;
        let n = (first..grid.spatial[t]).take_while(inside).count();
        Some(Self {
            grid,
            t,
            cell,
            range: first..first + n,
        })
    }

    /// Values along the line, sorted by place in the loaded volume.
    fn values(&self, axis: Axis, value: impl Fn([usize; 3]) -> Option<f32>) -> Vec<[f64; 2]> {
        let a = axis.index();
        let mut out: Vec<[f64; 2]> = self
            .range
            .clone()
            .filter_map(|i| {
                let mut p = self.cell;
                p[self.t] = i;
                let at = self.grid.loaded(p.map(|v| v as f64))?[a] + 0.5;
                Some([at, f64::from(value(p)?)])
            })
            .collect();
        out.sort_by(|x, y| x[0].total_cmp(&y[0]));
        out
    }
}

fn score(s: &Stitched, each: bool) -> impl Fn([usize; 3]) -> Option<f32> + '_ {
    let [_, b, c] = s.spatial;
    move |[i, j, k]| Some(kept(s, each).score((i * b + j) * c + k))
}

/// The finest of the outputs that are there.
pub(super) fn finest(outputs: &KeptOutputs) -> Option<(usize, &Arc<Stitched>)> {
    let there = outputs.iter().enumerate().rev();
    there
        .filter_map(|(o, s)| Some((o, s.as_ref()?)))
        .max_by_key(|(_, s)| s.spatial.iter().product::<usize>())
}

/// The curves across a seam through a point of the loaded volume; an error is one sentence.
pub(super) fn across(
    outcome: &Outcome,
    differed: Option<&DiffFound>,
    row: &SeamRow,
    at: [f64; 3],
) -> Result<Profile, String> {
    let place = row
        .place
        .ok_or("the result does not say where its seams lie in the volume")?;
    let own = differed.map(|d| &d.own).or(outcome.maps.outputs.as_ref());
    let Some((o, tiled)) = own.and_then(|own| finest(own)) else {
        let why = &outcome.maps.why_no_outputs;
        return Err(if why.is_empty() {
            NO_OUTPUTS.to_owned()
        } else {
            why.clone()
        });
    };
    let result = &outcome.result;
    let each = result.box_selector.is_some();
    let grid = Grid::of_output(&result.plan, tiled.spatial)
        .ok_or("the result's affines cannot be turned round")?;
    let (axis, a) = (place.axis, place.axis.index());
    let n = result.plan.loaded_volume.to_array()[a] as f64;
    let cell = n / grid
        .spatial
        .iter()
        .enumerate()
        .find(|(t, _)| grid.loaded_axis(*t) == a)
        .map_or(1.0, |(_, n)| *n as f64);
    let reach = REACH.max(CELLS * cell);
    let span = [(place.at - reach).max(0.0), (place.at + reach).min(n)];
    let line = Line::new(grid, axis, at, span).ok_or("the crosshair lies outside the volume")?;
    let mut curves = vec![Curve {
        whose: Whose::Tiled,
        points: line.values(axis, score(tiled, each)),
    }];
    if let Some(d) = differed
        && let Some(Some(reference)) = d.reference.get(o)
    {
        curves.push(Curve {
            whose: Whose::Reference,
            points: line.values(axis, score(reference, each)),
        });
    }
    let mut windows = Vec::new();
    let alone = outcome.maps.windows.as_ref().filter(|w| w.output == o);
    if let Some(alone) = alone {
        add_windows(alone, outcome, (axis, at, span), &mut curves, &mut windows);
    }
    let step = step_at(&curves[0].points, place.at);
    Ok(Profile {
        axis,
        face: place.at,
        span,
        windows,
        curves,
        step,
        output: result
            .seams
            .outputs
            .get(o)
            .map_or_else(String::new, |o| o.output.clone()),
        why_no_windows: match (alone, outcome.maps.of_session) {
            (Some(_), _) => "",
            (None, true) => NO_WINDOWS_ROOM,
            (None, false) => NO_WINDOWS_FILE,
        },
    })
}

fn add_windows(
    alone: &WindowScores,
    outcome: &Outcome,
    (axis, at, span): (Axis, [f64; 3], [f64; 2]),
    curves: &mut Vec<Curve>,
    windows: &mut Vec<(usize, [f64; 2])>,
) {
    let plan = &outcome.result.plan;
    let full = std::array::from_fn(|t| {
        let ends = alone.origins.iter().map(|o| o[t] + alone.patch[t]);
        ends.max().unwrap_or(0)
    });
    let Some(line) = Grid::new(plan, full, alone.stride, alone.pad_before)
        .and_then(|g| Line::new(g, axis, at, span))
    else {
        return;
    };
    for w in nearest_of_each_span(alone, &line) {
        let points = line.values(axis, |p| alone.at(w, p));
        if points.is_empty() {
            continue;
        }
        let mut ends = [0.0; 2];
        for (end, cells) in ends.iter_mut().zip([0, alone.patch[line.t]]) {
            let mut p = line.cell.map(|v| v as f64);
            p[line.t] = (alone.origins[w][line.t] + cells) as f64 - 0.5;
            *end = line.grid.loaded(p).map_or(0.0, |l| l[axis.index()] + 0.5);
        }
        ends.sort_by(f64::total_cmp);
        windows.push((w, ends));
        curves.push(Curve {
            whose: Whose::Window(w),
            points,
        });
    }
}

/// The windows that the line goes through; of several over the same stretch of it the one in whose middle it runs.
fn nearest_of_each_span(alone: &WindowScores, line: &Line) -> Vec<usize> {
    let mut best: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for (w, origin) in alone.origins.iter().enumerate() {
        let depth = (0..3).filter(|t| *t != line.t).map(|t| {
            let here = line.cell[t].checked_sub(origin[t])?;
            let behind = alone.patch[t].checked_sub(here + 1)?;
            Some(here.min(behind))
        });
        let Some(depth) = depth.collect::<Option<Vec<_>>>() else {
            continue;
        };
        let depth = depth.into_iter().min().unwrap_or(0);
        let kept = best.entry(origin[line.t]).or_insert((depth, w));
        if depth > kept.0 {
            *kept = (depth, w);
        }
    }
    best.into_values().map(|(_, w)| w).collect()
}

fn step_at(points: &[[f64; 2]], face: f64) -> Option<f64> {
    let after = points.iter().position(|p| p[0] > face)?;
    let before = points.get(after.checked_sub(1)?)?;
    Some((points[after][1] - before[1]).abs())
}
