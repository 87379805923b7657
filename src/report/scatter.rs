//! Points against two axes as data: the trade-off curve of a sweep, and cost against throughput. Window and SVG draw the same.

use super::ink::{self, Rgb};
use crate::exchange::sweep::{Sweep, SweepRow};
use crate::hardware::{Card, Offer};
use crate::memory::{Precision, Source};

/// How a point is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Filled: match, or efficient.
    Disc,
    /// Hollow: not run, or beaten.
    Hollow,
    /// Within tolerance.
    Diamond,
    /// Differs.
    Cross,
    /// The reference.
    Target,
}

/// One point.
#[derive(Clone, Debug, PartialEq)]
pub struct ScatterPoint {
    /// What it stands for: a card's id, or a row's name.
    pub id: String,
    /// Where.
    pub at: [f64; 2],
    /// What is written beside it.
    pub text: String,
    /// How it is drawn.
    pub shape: Shape,
    /// Its colour.
    pub color: Rgb,
    /// Whether its name is written even where room is short.
    pub strong: bool,
}

/// Points joined by a line.
#[derive(Clone, Debug, PartialEq)]
pub struct ScatterLine {
    /// The points in order.
    pub points: Vec<[f64; 2]>,
    /// Its colour.
    pub color: Rgb,
    /// Whether what it joins was not measured.
    pub dashed: bool,
    /// What is written at its end.
    pub name: String,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct ScatterAxis {
    /// With its unit, and "log scale" where it is one.
    pub title: String,
    /// Whether it is logarithmic.
    pub log: bool,
    /// Both ends.
    pub ends: [f64; 2],
    /// Ticks with their text.
    pub ticks: Vec<(f64, String)>,
}

impl ScatterAxis {
    /// Where a value stands, 0 at the lower end and 1 at the upper.
    pub fn share(&self, v: f64) -> f64 {
        let [a, b] = self.ends;
        let share = if self.log {
            (v / a).ln() / (b / a).ln()
        } else {
            (v - a) / (b - a)
        };
        if share.is_finite() { share } else { 0.0 }
    }

    /// An axis around these values; logarithmic where they span more than a factor of four.
    fn around(title: &str, values: impl Iterator<Item = f64> + Clone) -> Self {
        let good = values.filter(|v| v.is_finite() && *v > 0.0);
        let low = good.clone().fold(f64::INFINITY, f64::min);
        let high = good.fold(0.0, f64::max);
        let (low, high) = if low.is_finite() {
            (low, high)
        } else {
            (1.0, 1.0)
        };
        let log = high / low > 4.0;
        let (ends, at) = if log {
            let ends = [low / 1.3, high * 1.3];
            (ends, log_ticks(ends))
        } else {
            let room = ((high - low) * 0.12).max(high * 0.04);
            let ends = [(low - room).max(0.0), high + room];
            (ends, even_ticks(ends))
        };
        let ticks = at.into_iter().map(|v| (v, figure(v))).collect();
        let title = if log {
            format!("{title}, log scale")
        } else {
            title.to_owned()
        };
        Self {
            title,
            log,
            ends,
            ticks,
        }
    }
}

/// The whole chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    /// What it shows.
    pub title: String,
    /// What shapes mean.
    pub note: String,
    /// Along the bottom.
    pub x: ScatterAxis,
    /// Up the left side.
    pub y: ScatterAxis,
    /// The points.
    pub points: Vec<ScatterPoint>,
    /// Lines between them.
    pub lines: Vec<ScatterLine>,
    /// Upright lines with their names, such as what cards have free.
    pub uprights: Vec<(String, f64)>,
}

/// A figure as short as it can be read.
fn figure(v: f64) -> String {
    if v >= 1000.0 {
        return crate::units::number(v, 0);
    }
    let decimals = match v {
        v if v >= 10.0 || v.fract().abs() < 1e-9 => 0,
        v if v >= 1.0 => 1,
        v if v >= 0.1 => 2,
        v if v >= 0.01 => 3,
        _ => 4,
    };
    let text = format!("{v:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn log_ticks([low, high]: [f64; 2]) -> Vec<f64> {
    let all = |steps: &[f64]| -> Vec<f64> {
        let first = low.log10().floor();
        (0..24)
            .map(|i| first + f64::from(i))
            .flat_map(|e| steps.iter().map(move |s| s * 10.0_f64.powf(e)))
            .filter(|v| (low..=high).contains(v))
            .collect()
    };
    let fine = all(&[1.0, 2.0, 5.0]);
    let mut out = if fine.len() > 8 { all(&[1.0]) } else { fine };
    let each = out.len().div_ceil(8).max(1);
    let mut i = 0;
    out.retain(|_| {
        i += 1;
        (i - 1) % each == 0
    });
    out
}

fn even_ticks([low, high]: [f64; 2]) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10.0_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|s| s * power)
        .find(|s| *s >= rough)
        .unwrap_or(rough);
    let first = (low / step).ceil();
    (0..12)
        .map(|i| (first + f64::from(i)) * step)
        .take_while(|v| *v <= high)
        .collect()
}

/// Cost against throughput: the efficient set filled and joined, the others hollow. `None` where nothing is priced.
pub fn cost_chart(offers: &[Offer], cards: &[&Card], busy: f64) -> Option<Scatter> {
    let mut points: Vec<ScatterPoint> = offers
        .iter()
        .filter_map(|o| {
            let r = o.running.as_ref()?;
            let card = cards.iter().find(|c| c.id == o.id)?;
            Some(ScatterPoint {
                id: o.id.clone(),
                at: [r.studies_per_day, r.cost_at_full_load? * 1e3],
                text: card.short_name().to_owned(),
                shape: if r.efficient {
                    Shape::Disc
                } else {
                    Shape::Hollow
                },
                color: if r.efficient {
                    ink::REFERENCE
                } else {
                    ink::SECONDARY
                },
                strong: r.efficient,
            })
        })
        .collect();
    if points.is_empty() {
        return None;
    }
    points.sort_by(|a, b| a.at[0].total_cmp(&b.at[0]));
    let efficient = points.iter().filter(|p| p.strong);
    let line = ScatterLine {
        points: efficient.map(|p| p.at).collect(),
        color: ink::REFERENCE,
        dashed: false,
        name: "efficient set".to_owned(),
    };
    let busy = format!("{:.0} % busy", busy * 100.0);
    Some(Scatter {
        title: "COST AGAINST THROUGHPUT".to_owned(),
        note: "hollow: another card is faster and cheaper".to_owned(),
        x: ScatterAxis::around(
            &format!("studies a day, one card at {busy}"),
            points.iter().map(|p| p.at[0]),
        ),
        y: ScatterAxis::around(
            "USD per 1,000 studies at full load",
            points.iter().map(|p| p.at[1]),
        ),
        lines: vec![line],
        points,
        uprights: Vec::new(),
    })
}

/// Memory against time of a sweep's rows (against windows where no time is known), parity as shape. Cards are upright lines
/// at what they have free. `None` where no row has figures.
pub fn tradeoff_chart(sweep: &Sweep, cards: &[(String, f64)]) -> Option<Scatter> {
    let timed = sweep
        .rows
        .iter()
        .any(|r| r.seconds.is_some() && r.peak.is_some());
    let height = |r: &SweepRow| {
        if timed {
            r.seconds
        } else {
            r.n_windows.map(|n| n as f64)
        }
    };
    let mut lines: Vec<(Precision, bool, ScatterLine)> = Vec::new();
    let mut points = Vec::new();
    for r in &sweep.rows {
        let (Some(peak), Some(y)) = (r.peak, height(r)) else {
            continue;
        };
        let measured = r.source == Source::Measured;
        let at = [peak.as_gib(), y];
        let color = if measured { ink::TILED } else { ink::REFERENCE };
        let shape = match r.parity.as_deref() {
            None => Shape::Hollow,
            Some("reference") => Shape::Target,
            Some("bitwise" | "float") => Shape::Disc,
            Some("tolerance") => Shape::Diamond,
            Some(_) => Shape::Cross,
        };
        points.push(ScatterPoint {
            id: r.name(),
            at,
            text: r.roi_size.to_string(),
            shape,
            color: if shape == Shape::Cross {
                ink::OVER
            } else {
                color
            },
            strong: r.parity.is_some(),
        });
        match lines
            .iter_mut()
            .find(|l| l.0 == r.precision && l.1 == measured)
        {
            Some(l) => l.2.points.push(at),
            None => lines.push((
                r.precision,
                measured,
                ScatterLine {
                    points: vec![at],
                    color,
                    dashed: !measured,
                    name: format!(
                        "{}, {}",
                        format!("{:?}", r.precision).to_lowercase(),
                        source_word(r.source)
                    ),
                },
            )),
        }
    }
    if points.is_empty() {
        return None;
    }
    let mut lines: Vec<ScatterLine> = lines.into_iter().map(|l| l.2).collect();
    for l in &mut lines {
        l.points.sort_by(|a, b| a[0].total_cmp(&b[0]));
    }
    let x = ScatterAxis::around("peak memory, GiB", points.iter().map(|p| p.at[0]));
    let uprights = cards
        .iter()
        .filter(|(_, gib)| (x.ends[0]..=x.ends[1]).contains(gib))
        .cloned()
        .collect();
    let title = match (&sweep.seconds_on, timed) {
        (Some(card), true) => format!("seconds a study ({card} where forecast)"),
        (None, true) => "seconds a study".to_owned(),
        (_, false) => "windows".to_owned(),
    };
    Some(Scatter {
        title: "TRADE-OFF".to_owned(),
        note: "filled match, diamond tolerance, cross differs, hollow not compared".to_owned(),
        y: ScatterAxis::around(&title, points.iter().map(|p| p.at[1])),
        x,
        points,
        lines,
        uprights,
    })
}

/// A source in a word.
pub const fn source_word(source: Source) -> &'static str {
    match source {
        Source::Planned => "planned",
        Source::Measured => "measured",
        Source::Modelled => "modelled",
        Source::Guessed => "guessed",
    }
}

/// A sweep's row for a table: what it was asked, then what is known.
pub fn row_words(r: &SweepRow) -> [String; 8] {
    let dash = || "\u{2014}".to_owned();
    let gib = match (r.peak_low, r.peak) {
        (Some(low), Some(high)) if low == high => format!("{:.2}", high.as_gib()),
        (Some(low), Some(high)) if low.0 == 0 => format!("under {:.2}", high.as_gib()),
        (Some(low), Some(high)) => format!("{:.2} to {:.2}", low.as_gib(), high.as_gib()),
        (None, Some(high)) => format!("{:.2}", high.as_gib()),
        (Some(low), None) => format!("over {:.2}", low.as_gib()),
        (None, None) => dash(),
    };
    [
        r.roi_size.to_string(),
        format!("{:?}", r.precision).to_lowercase(),
        r.layout.name().to_owned(),
        r.n_windows.map_or_else(dash, |n| n.to_string()),
        gib,
        r.seconds.map_or_else(dash, |s| format!("{s:.1}")),
        r.exactness.clone().unwrap_or_else(dash),
        r.parity.clone().unwrap_or_else(dash),
    ]
}

/// Where names can stand: for each point the left end and middle height of its text, or `None` where there is no room.
/// `points` are in pixels with the width of their text; strong ones come first.
pub fn place_names(points: &[([f64; 2], f64, bool)], area: [f64; 4]) -> Vec<Option<[f64; 2]>> {
    let [left, top, right, bottom] = area;
    let mut taken: Vec<[f64; 4]> = points
        .iter()
        .map(|([x, y], _, _)| [x - 6.0, y - 6.0, x + 6.0, y + 6.0])
        .collect();
    let mut out = vec![None; points.len()];
    for strong in [true, false] {
        for (i, &([x, y], wide, is_strong)) in points.iter().enumerate() {
            if is_strong != strong {
                continue;
            }
            let places = [
                // A line through the point runs beside it more often than over or under it.
                [x - wide / 2.0, y - 15.0],
                [x - wide / 2.0, y + 15.0],
                [x + 10.0, y],
                [x - wide - 10.0, y],
                [x + 8.0, y - 14.0],
                [x + 8.0, y + 14.0],
                [x - wide - 8.0, y + 14.0],
            ];
            let free = places.into_iter().find_map(|[px, py]| {
                let b = [px - 2.0, py - 8.0, px + wide + 2.0, py + 8.0];
                let inside = b[0] >= left && b[1] >= top && b[2] <= right && b[3] <= bottom;
                let clear = taken
                    .iter()
                    .all(|t| b[2] <= t[0] || t[2] <= b[0] || b[3] <= t[1] || t[3] <= b[1]);
                (inside && clear).then_some((b, [px, py]))
            });
            if let Some((b, at)) = free {
                taken.push(b);
                out[i] = Some(at);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::sweep::points;
    use crate::geometry::Extent;
    use std::path::Path;

    #[test]
    fn the_articles_rows_are_told_apart_by_shape_and_cards_stand_at_what_they_have() {
        let text = include_str!("../../assets/sweep_lung_nodule.csv");
        let mut rows = points(text, Path::new("a.csv")).unwrap();
        for (row, s) in rows.iter_mut().zip([20.0, 24.0, 25.0, 27.0, 90.0]) {
            row.seconds = Some(s);
        }
        let sweep = Sweep {
            study: "512x512x240".to_owned(),
            network: "monai-lung-nodule".to_owned(),
            volume: Extent::new(512, 512, 240),
            seconds_on: None,
            rows,
        };
        let cards = [("16 GB".to_owned(), 15.0), ("1 TB".to_owned(), 1000.0)];
        let chart = tradeoff_chart(&sweep, &cards).unwrap();
        let shapes: Vec<Shape> = chart.points.iter().map(|p| p.shape).collect();
        use Shape::{Cross, Diamond, Hollow, Target};
        assert_eq!(
            shapes,
            [Target, Hollow, Diamond, Cross],
            "no peak, no point"
        );
        assert_eq!(chart.uprights, [("16 GB".to_owned(), 15.0)]);
        assert!(chart.x.log && chart.x.title.ends_with("log scale"));
        for p in &chart.points {
            let (x, y) = (chart.x.share(p.at[0]), chart.y.share(p.at[1]));
            assert!(
                (0.0..=1.0).contains(&x) && (0.0..=1.0).contains(&y),
                "{p:?}"
            );
        }
    }

    #[test]
    fn axes_have_a_few_round_ticks_whatever_the_values() {
        for (low, high) in [(1.0, 1.0), (0.02, 3e6), (10_000.0, 26_000.0), (0.3, 0.31)] {
            let axis = ScatterAxis::around("x", [low, high].into_iter());
            assert!(
                (2..=13).contains(&axis.ticks.len()),
                "{low} {high} {axis:?}"
            );
            assert!((0.0..=1.0).contains(&axis.share(low)) && axis.share(high) <= 1.0);
        }
    }

    #[test]
    fn names_never_lie_over_points_or_each_other_and_those_that_matter_come_first() {
        let at: Vec<([f64; 2], f64, bool)> = (0..40)
            .map(|i| {
                let i = f64::from(i);
                ([100.0 + i * 7.0, 100.0 + i * 3.0], 60.0, i > 36.0)
            })
            .collect();
        let placed = place_names(&at, [0.0, 0.0, 500.0, 300.0]);
        assert!(placed[37..].iter().all(Option::is_some));
        let boxes: Vec<[f64; 4]> = placed
            .iter()
            .flatten()
            .map(|[x, y]| [*x, y - 8.0, x + 60.0, y + 8.0])
            .collect();
        for (i, a) in boxes.iter().enumerate() {
            for b in &boxes[..i] {
                assert!(a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1]);
            }
        }
    }
}
