//! What fits as data: the surface of rois coloured by worst-case GiB, a line for each size of card, this plan and the
//! largest roi on the card in focus. Positions are (slices or batch, x = y in voxels).

use super::ink::{self, Rgb};
use crate::geometry::Extent;
use crate::hardware::{CardVerdict, judge};
use crate::memory::Verdict;
use crate::memory::surface::{Along, Surface};

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitsCell {
    /// The roi that it stands for.
    pub roi: Extent,
    /// The batch, where the columns are batches.
    pub batch: Option<usize>,
    /// Edges: left, right, lower, upper.
    pub edges: [f64; 4],
    /// Least and most GiB asked of the card; `None` where there is no plan.
    pub gib: Option<[f64; 2]>,
    /// The verdict on the card in focus.
    pub verdict: Option<Verdict>,
    /// Fill.
    pub fill: Rgb,
}

/// Where the worst case is just what a card has free.
#[derive(Clone, Debug, PartialEq)]
pub struct FitsLine {
    /// Such as "16 GB".
    pub name: String,
    /// Whether it is that of the card in focus.
    pub focus: bool,
    /// Its points, from few slices to many.
    pub points: Vec<[f64; 2]>,
}

/// A marked roi.
#[derive(Clone, Debug, PartialEq)]
pub struct FitsMark {
    /// Where.
    pub at: [f64; 2],
    /// Such as "largest on 16 GB".
    pub text: String,
    /// In numbers, such as "512x512x64".
    pub roi: Extent,
}

/// The whole chart.
#[derive(Clone, Debug, PartialEq)]
pub struct FitsChart {
    /// The cells, rows of the smallest x = y first.
    pub cells: Vec<FitsCell>,
    /// How many cells a row has.
    pub columns: usize,
    /// Lines of cards, the smallest card first.
    pub lines: Vec<FitsLine>,
    /// This plan.
    pub plan: FitsMark,
    /// The largest roi on the card in focus.
    pub largest: Option<FitsMark>,
    /// The card in focus, such as "16 GB".
    pub card: String,
    /// GiB that are free on the card in focus.
    pub free: f64,
    /// Why a cell has no plan.
    pub no_plan: String,
    /// Edges of the plot: left, right, lower, upper.
    pub edges: [f64; 4],
    /// Ticks of the horizontal axis.
    pub x_ticks: Vec<usize>,
    /// Ticks of the vertical axis.
    pub y_ticks: Vec<usize>,
    /// Title of the horizontal axis.
    pub x_title: &'static str,
    /// Least and most GiB of the colours.
    pub scale: [f64; 2],
}

impl FitsChart {
    /// The cell at a position.
    pub fn cell_at(&self, [x, y]: [f64; 2]) -> Option<&FitsCell> {
        let inside = |c: &&FitsCell| {
            let [left, right, low, high] = c.edges;
            left <= x && x < right && low <= y && y < high
        };
        self.cells.iter().find(inside)
    }

    /// The heading's words: what the colours say.
    pub fn scale_text(&self) -> [String; 2] {
        self.scale.map(|g| {
            if g < 0.095 {
                format!("{g:.2}")
            } else if g < 9.95 {
                format!("{g:.1}")
            } else {
                format!("{g:.0}")
            }
        })
    }
}

/// Title of the vertical axis.
pub const Y_TITLE: &str = "roi x = y, voxels";

/// The chart of a surface. `verdicts` are those of the budget; `roi` and `batch` are this plan's.
pub fn fits_chart(
    surface: &Surface,
    verdicts: &[CardVerdict],
    focus: Option<&str>,
    (roi, batch): (Extent, usize),
) -> Option<FitsChart> {
    let in_focus = verdicts
        .iter()
        .find(|v| focus == Some(v.id.as_str()))
        .or_else(|| verdicts.first())?;
    let (x_edges, y_edges) = (edges(&surface.columns), edges(&surface.rows));
    let high: Vec<f64> = surface
        .required
        .iter()
        .flatten()
        .map(|p| p.high.as_gib())
        .collect();
    let least = high.iter().copied().fold(f64::INFINITY, f64::min).max(1e-6);
    let most = high.iter().copied().fold(least, f64::max);
    let share = |gib: f64| {
        let range = (most / least).ln();
        if range > 0.0 {
            ((gib.max(least) / least).ln() / range).clamp(0.0, 1.0)
        } else {
            0.0
        }
    };
    let n = surface.columns.len();
    let cells = (0..surface.required.len())
        .map(|i| {
            let (row, column) = (i / n, i % n);
            let part = surface.at(row, column);
            FitsCell {
                roi: surface.roi(row, column),
                batch: (surface.along == Along::Batch).then(|| surface.columns[column]),
                edges: [
                    x_edges[column],
                    x_edges[column + 1],
                    y_edges[row],
                    y_edges[row + 1],
                ],
                gib: part.map(|p| [p.low.as_gib(), p.high.as_gib()]),
                verdict: part.map(|p| judge(p, in_focus.free)),
                fill: part.map_or(ink::LINE, |p| ink::viridis(share(p.high.as_gib()))),
            }
        })
        .collect();
    let name = |v: &CardVerdict| format!("{} GB", v.nameplate_gb);
    let along = match surface.along {
        Along::Slices => roi.z as f64,
        Along::Batch => batch as f64,
    };
    let largest = surface
        .largest(in_focus.free)
        .map(|(row, column)| FitsMark {
            at: [surface.columns[column] as f64, surface.rows[row] as f64],
            text: format!("largest on {}", name(in_focus)),
            roi: surface.roi(row, column),
        });
    Some(FitsChart {
        cells,
        columns: n,
        lines: lines(surface, verdicts, in_focus),
        plan: FitsMark {
            // Where x and y differ, the square with as many voxels.
            at: [along, ((roi.x * roi.y) as f64).sqrt()],
            text: if roi.x == roi.y {
                "this plan".to_owned()
            } else {
                format!("this plan, {}\u{d7}{}", roi.x, roi.y)
            },
            roi,
        },
        largest,
        card: name(in_focus),
        free: in_focus.free.as_gib(),
        no_plan: surface.memory_limit.map_or_else(
            || "cannot be planned".to_owned(),
            |l| format!("no plan in {:.2} GiB, even in tiles", l.as_gib()),
        ),
        edges: [
            x_edges[0],
            x_edges[n],
            y_edges[0],
            y_edges[surface.rows.len()],
        ],
        x_ticks: ticks(&surface.columns),
        y_ticks: ticks(&surface.rows),
        x_title: match surface.along {
            Along::Slices => "roi z, slices",
            Along::Batch => "batch",
        },
        scale: [least, most],
    })
}

/// Edges of cells around rising values: halfway between neighbours, as far outside at both ends.
fn edges(values: &[usize]) -> Vec<f64> {
    let v: Vec<f64> = values.iter().map(|n| *n as f64).collect();
    let half = |a: f64, b: f64| 0.5 * (b - a);
    let n = v.len();
    let (first, last) = match v.as_slice() {
        [] => return vec![0.0, 1.0],
        [one] => (0.5 * one, 0.5 * one),
        [a, .., _] => (half(*a, v[1]), half(v[n - 2], v[n - 1])),
    };
    let mut out = vec![v[0] - first];
    out.extend(v.windows(2).map(|w| 0.5 * (w[0] + w[1])));
    out.push(v[n - 1] + last);
    out
}

/// About five of the values, evenly spread, the last among them.
fn ticks(values: &[usize]) -> Vec<usize> {
    let every = values.len().div_ceil(5).max(1);
    let mut out: Vec<usize> = values.iter().rev().step_by(every).copied().collect();
    out.reverse();
    out
}

/// One line for each nameplate; of several cards with one nameplate the one in focus, else the one with most free.
fn lines(surface: &Surface, verdicts: &[CardVerdict], focus: &CardVerdict) -> Vec<FitsLine> {
    let mut cards: Vec<&CardVerdict> = Vec::new();
    for v in verdicts {
        match cards.iter_mut().find(|c| c.nameplate_gb == v.nameplate_gb) {
            Some(c) if v.id == focus.id || (c.id != focus.id && v.free > c.free) => *c = v,
            Some(_) => {}
            None => cards.push(v),
        }
    }
    cards.sort_by_key(|v| v.nameplate_gb);
    cards
        .iter()
        .map(|v| FitsLine {
            name: format!("{} GB", v.nameplate_gb),
            focus: v.id == focus.id,
            points: to_edges(contour(surface, v.free.as_gib()), surface),
        })
        .filter(|l| l.points.len() > 1)
        .collect()
}

/// Where the worst case passes `gib`: a falling line through the grid, straight in logarithms between its points.
fn contour(surface: &Surface, gib: f64) -> Vec<[f64; 2]> {
    let at = |row: usize, column: usize| surface.at(row, column).map(|p| p.high.as_gib());
    let between = |(v0, n0): (f64, f64), (v1, n1): (f64, f64)| {
        let t = (gib / v0).ln() / (v1 / v0).ln();
        (n0.ln() + t * (n1 / n0).ln()).exp()
    };
    let (rows, columns) = (&surface.rows, &surface.columns);
    let mut points: Vec<[f64; 2]> = Vec::new();
    let crosses = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) if a <= gib && gib < b && a > 0.0 => Some((a, b)),
        _ => None,
    };
    for (j, &column) in columns.iter().enumerate() {
        let found = (1..rows.len()).find_map(|i| Some((i, crosses(at(i - 1, j), at(i, j))?)));
        if let Some((i, (a, b))) = found {
            let y = between((a, rows[i - 1] as f64), (b, rows[i] as f64));
            points.push([column as f64, y]);
        }
    }
    for (i, &row) in rows.iter().enumerate() {
        let found = (1..columns.len()).find_map(|j| Some((j, crosses(at(i, j - 1), at(i, j))?)));
        if let Some((j, (a, b))) = found {
            let x = between((a, columns[j - 1] as f64), (b, columns[j] as f64));
            points.push([x, row as f64]);
        }
    }
    points.sort_by(|p, q| p[0].total_cmp(&q[0]).then(q[1].total_cmp(&p[1])));
    points
}

/// A line whose ends go on, straight, to the edges of the plot.
fn to_edges(mut points: Vec<[f64; 2]>, surface: &Surface) -> Vec<[f64; 2]> {
    points.dedup();
    let ends = |values: &[usize]| {
        let e = edges(values);
        [e[0], e[e.len() - 1]]
    };
    let ([x0, x1], [y0, y1]) = (ends(&surface.columns), ends(&surface.rows));
    let on = |from: [f64; 2], to: [f64; 2]| {
        let d = [to[0] - from[0], to[1] - from[1]];
        let room = |at: f64, d: f64, low: f64, high: f64| match d {
            d if d > 0.0 => (high - at) / d,
            d if d < 0.0 => (low - at) / d,
            _ => f64::INFINITY,
        };
        let t = room(to[0], d[0], x0, x1).min(room(to[1], d[1], y0, y1));
        (t.is_finite() && t > 0.0).then(|| [to[0] + t * d[0], to[1] + t * d[1]])
    };
    if let &[first, second, ..] = points.as_slice()
        && let Some(p) = on(second, first)
    {
        points.insert(0, p);
    }
    if let &[.., before, last] = points.as_slice()
        && let Some(p) = on(before, last)
    {
        points.push(p);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::{BudgetOnCards, Catalogue};
    use crate::memory::budget::{BudgetRequest, Runtime};
    use crate::memory::planner::Planner;
    use crate::network::preset;

    fn chart(roi: Extent) -> (FitsChart, BudgetOnCards) {
        let model = preset::load("monai-lung-nodule").unwrap();
        let planner = Planner::new(&model.graph);
        let request = BudgetRequest {
            runtime: Runtime::Pytorch,
            ..BudgetRequest::new(&model.graph, roi)
        };
        let catalogue = Catalogue::builtin();
        let cards = catalogue.shown_by_default();
        let budget = planner.budget_without_fixes(&request).unwrap();
        let on = BudgetOnCards::new(&request, budget, &cards);
        let surface = planner
            .surface(&request, Extent::new(512, 512, 240), || true)
            .unwrap();
        let chart = fits_chart(&surface, &on.cards, Some("rtx-5070-ti"), (roi, 1)).unwrap();
        (chart, on)
    }

    #[test]
    fn the_cell_of_this_plan_has_the_verdict_that_the_budget_gives() {
        let roi = Extent::new(512, 512, 192);
        let (chart, on) = chart(roi);
        let cell = chart.cell_at(chart.plan.at).unwrap();
        let verdict = on.cards.iter().find(|c| c.id == "rtx-5070-ti").unwrap();
        assert_eq!((cell.roi, cell.verdict), (roi, Some(verdict.verdict)));
        assert_eq!(cell.gib.unwrap()[1], verdict.required_high.as_gib());
        let largest = chart.largest.clone().unwrap();
        let cell = chart.cell_at(largest.at).unwrap();
        assert_eq!(cell.roi, largest.roi);
        assert!(cell.gib.unwrap()[1] <= chart.free);
        assert!(chart.scale[0] < 1.0 && chart.scale[1] > 40.0);
    }

    #[test]
    fn each_cell_below_a_cards_line_fits_it_and_each_above_does_not() {
        let (chart, on) = chart(Extent::new(256, 192, 64));
        assert!(chart.plan.text.ends_with("256\u{d7}192"));
        assert_eq!(chart.lines.iter().filter(|l| l.focus).count(), 1);
        for line in &chart.lines {
            assert!(line.points.windows(2).all(|w| w[0][1] >= w[1][1] - 1e-9));
            let most = on
                .cards
                .iter()
                .filter(|v| format!("{} GB", v.nameplate_gb) == line.name)
                .filter(|v| !line.focus || v.id == "rtx-5070-ti")
                .map(|v| v.free.as_gib())
                .fold(0.0, f64::max);
            for cell in &chart.cells {
                let (x, y) = (cell.roi.z as f64, cell.roi.x as f64);
                let Some(on_line) = line.points.iter().find(|p| p[0] == x) else {
                    continue;
                };
                let fits = cell.gib.unwrap()[1] <= most;
                assert_eq!(fits, y <= on_line[1] + 1e-9, "{} {}", line.name, cell.roi);
            }
        }
    }

    #[test]
    fn ticks_are_few_and_edges_lie_between_the_values() {
        assert_eq!(ticks(&[32, 64, 96, 128, 160, 192]), [64, 128, 192]);
        assert_eq!(edges(&[16, 32, 48]), [8.0, 24.0, 40.0, 56.0]);
        assert_eq!(edges(&[1]), [0.5, 1.5]);
    }
}
