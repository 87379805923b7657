//! The budget chart as data: one stacked bar, held against the capacity of each card. All positions are in GiB.

use super::ink::{self, Rgb};
use crate::hardware::{Card, CardVerdict, Ours, verdict_words};
use crate::memory::Verdict;
use crate::memory::budget::{Budget, PartName};
use crate::units::Bytes;

/// One piece of the stacked bar.
#[derive(Clone, Debug, PartialEq)]
pub struct BarSegment {
    /// Which part.
    pub part: PartName,
    /// Where it begins, GiB.
    pub from: f64,
    /// Where it ends, GiB.
    pub to: f64,
    /// Fill.
    pub fill: Rgb,
    /// Whether it is a low end that may grow: fill at 28 % under a 45-degree hatch.
    pub hatched: bool,
}

/// From the low to the high end of what is not knowable before a run: a line with an end tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Whisker {
    /// Low end, GiB.
    pub from: f64,
    /// High end, GiB.
    pub to: f64,
    /// Colour.
    pub color: Rgb,
}

/// A part's name above the first bar, with a leader down to `at`.
#[derive(Clone, Debug, PartialEq)]
pub struct PartLabel {
    /// Such as "activations 8.13".
    pub text: String,
    /// Where the leader meets the bar, GiB.
    pub at: f64,
    /// Colour of the text.
    pub color: Rgb,
    /// 0 for the upper line of names, 1 for the lower.
    pub line: usize,
    /// Whether the text ends at `at` (the last ones) instead of beginning there.
    pub ends_there: bool,
}

/// The strip under a bar that goes past the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excess {
    /// The capacity, GiB.
    pub from: f64,
    /// Up to here drawn in full (equal to `from` when only the high end passes).
    pub certain: f64,
    /// Up to here drawn at 45 % (in full when only the high end passes).
    pub to: f64,
}

/// One card's row.
#[derive(Clone, Debug, PartialEq)]
pub struct CardRow {
    /// The card's id.
    pub id: String,
    /// Such as "RTX 5070 Ti".
    pub name: String,
    /// Such as "16 GB card = 15.47 GiB usable".
    pub caption: String,
    /// Where the capacity mark stands, GiB.
    pub capacity: f64,
    /// Whether the capacity lies beyond the axis.
    pub beyond: bool,
    /// Whether this card is in focus.
    pub focus: bool,
    /// Fits, tight or over.
    pub verdict: Verdict,
    /// The verdict's numbers in words.
    pub words: String,
    /// What goes past the capacity.
    pub excess: Option<Excess>,
}

/// The whole chart.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetChart {
    /// What was planned, such as "512x512x192, fp32, PyTorch".
    pub title: String,
    /// The answer, such as "16.30 to 43.80 GiB".
    pub total: String,
    /// The bar, the same for every card.
    pub segments: Vec<BarSegment>,
    /// Where the range goes.
    pub whisker: Option<Whisker>,
    /// Names of the parts.
    pub labels: Vec<PartLabel>,
    /// The cards.
    pub rows: Vec<CardRow>,
    /// End of the axis, GiB.
    pub axis_max: f64,
    /// Ticks of the axis, GiB.
    pub ticks: Vec<f64>,
    /// Another plan's end to compare with, such as ("Voxfit runtime 5.92", 5.92).
    pub compare: Option<(String, f64)>,
}

/// Makes the chart of a budget and its verdicts. `cards` are those of the verdicts; `focus` names the card in focus.
pub fn budget_chart(
    title: &str,
    budget: &Budget,
    verdicts: &[CardVerdict],
    cards: &[&Card],
    focus: Option<&str>,
) -> BudgetChart {
    let (segments, whisker) = segments(budget);
    let low = segments.last().map_or(0.0, |s| s.to);
    let high = whisker.map_or(low, |w| w.to.max(low));
    let (axis_max, ticks) = axis(high * 1.04);
    let rows = verdicts
        .iter()
        .map(|v| {
            let card = cards.iter().find(|c| c.id == v.id);
            let capacity = v.usable.as_gib();
            CardRow {
                id: v.id.clone(),
                name: card.map_or_else(|| v.id.clone(), |c| c.short_name().to_owned()),
                caption: format!(
                    "{} GB card = {:.2} GiB usable{}",
                    v.nameplate_gb,
                    capacity,
                    if card.is_some_and(|c| c.usable_is_uncertain()) {
                        " *"
                    } else {
                        ""
                    }
                ),
                capacity,
                beyond: capacity > axis_max,
                focus: focus == Some(v.id.as_str()),
                verdict: v.verdict,
                words: verdict_words(v),
                excess: excess(capacity, low, high),
            }
        })
        .collect();
    BudgetChart {
        title: title.to_owned(),
        total: if high - low > 0.005 {
            format!("{low:.2} to {high:.2} GiB")
        } else {
            format!("{low:.2} GiB")
        },
        labels: labels(budget, &segments, whisker),
        segments,
        whisker,
        rows,
        axis_max,
        ticks,
        compare: None,
    }
}

impl BudgetChart {
    /// With the mark where the same window ends under our own runtime, when that lies on the axis.
    #[must_use]
    pub fn beside(mut self, ours: Option<Ours>) -> Self {
        self.compare = ours
            .map(|o| o.total.as_gib())
            .filter(|gib| *gib < self.axis_max)
            .map(|gib| (format!("Voxfit runtime {gib:.2}"), gib));
        self
    }
}

fn excess(capacity: f64, low: f64, high: f64) -> Option<Excess> {
    (high > capacity).then(|| Excess {
        from: capacity,
        certain: low.max(capacity),
        to: high,
    })
}

/// Parts in stacking order at their high end, but what is a range: its low end in the bar, the rest as a whisker.
fn segments(budget: &Budget) -> (Vec<BarSegment>, Option<Whisker>) {
    let mut at = 0.0;
    let mut out = Vec::new();
    let mut open = Bytes::ZERO;
    for name in PartName::ALL {
        let part = budget.parts.get(name);
        let ranged = name == PartName::Workspace;
        let bytes = if ranged { part.low } else { part.high };
        if ranged {
            open = part.high.saturating_sub(part.low);
        }
        if bytes == Bytes::ZERO {
            continue;
        }
        let to = at + bytes.as_gib();
        out.push(BarSegment {
            part: name,
            from: at,
            to,
            fill: ink::part(name),
            hatched: ranged && part.low != part.high,
        });
        at = to;
    }
    let whisker = (open > Bytes::ZERO).then(|| Whisker {
        from: at,
        to: at + open.as_gib(),
        color: ink::part(PartName::Workspace),
    });
    (out, whisker)
}

fn labels(budget: &Budget, segments: &[BarSegment], whisker: Option<Whisker>) -> Vec<PartLabel> {
    let mut out = Vec::new();
    let mut before: Vec<String> = Vec::new();
    let mut after: Vec<String> = Vec::new();
    let mut after_at = 0.0;
    for s in segments {
        let text = format!("{} {:.2}", s.part.label(), s.to - s.from);
        match s.part {
            PartName::Context
            | PartName::Display
            | PartName::Weights
            | PartName::Gradients
            | PartName::Optimizer
            | PartName::Input => before.push(text),
            PartName::Stitched | PartName::CountMap | PartName::Allocator => {
                if after.is_empty() {
                    after_at = s.from;
                }
                after.push(text);
            }
            PartName::Activations | PartName::Workspace => {}
        }
    }
    let first = |part: PartName| segments.iter().find(|s| s.part == part);
    let mut add = |text: String, at: f64, color: Rgb, line: usize, ends_there: bool| {
        out.push(PartLabel {
            text,
            at,
            color,
            line,
            ends_there,
        });
    };
    if !before.is_empty() {
        add(before.join(" \u{b7} "), 0.0, ink::TEXT, 0, false);
    }
    if let Some(s) = first(PartName::Activations) {
        let text = format!("activations {:.2}", s.to - s.from);
        let middle = 0.5 * (s.from + s.to);
        add(
            text,
            middle,
            ink::part_text(PartName::Activations),
            1,
            false,
        );
    }
    if !after.is_empty() {
        let color = ink::part_text(PartName::Stitched);
        add(after.join(" \u{b7} "), after_at, color, 0, false);
    }
    if let Some(w) = whisker {
        let high = budget.parts.workspace.high.as_gib();
        let text = format!(
            "workspace, {:.2} to {high:.2}",
            budget.parts.workspace.low.as_gib()
        );
        add(text, w.to, ink::part_text(PartName::Workspace), 1, true);
    }
    out
}

/// The end of a linear axis over `high` GiB and its ticks: each 10 GiB, or finer for small plans.
pub fn axis(high: f64) -> (f64, Vec<f64>) {
    let high = if high.is_finite() {
        high.max(0.01)
    } else {
        0.01
    };
    let mut step = 0.01;
    for next in [
        0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 1e4,
        1e6, 1e9,
    ] {
        if high / step <= 6.0 {
            break;
        }
        step = next;
    }
    let mut ticks = vec![0.0];
    let mut n = 1.0;
    while step * (n - 1.0) < high && n < 40.0 {
        ticks.push(step * n);
        n += 1.0;
    }
    (ticks.last().copied().unwrap_or(high), ticks)
}

/// A tick's text: as many decimals as its step needs.
pub fn tick_text(value: f64, step: f64) -> String {
    let decimals = if step >= 1.0 {
        0
    } else if step >= 0.1 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Extent;
    use crate::hardware::{BudgetOnCards, Catalogue};
    use crate::memory::budget::{BudgetRequest, Runtime, budget};
    use crate::network::preset;
    use crate::report::timeline_chart;

    fn chart_of(runtime: Runtime) -> (BudgetChart, BudgetOnCards) {
        let model = preset::load("monai-lung-nodule").unwrap();
        let catalogue = Catalogue::builtin();
        let cards = catalogue.shown_by_default();
        let request = BudgetRequest {
            runtime,
            ..BudgetRequest::new(&model.graph, Extent::new(512, 512, 192))
        };
        let on = BudgetOnCards::new(&request, budget(&request).unwrap(), &cards);
        let chart = budget_chart("t", &on.budget, &on.cards, &cards, Some("rtx-5070-ti"));
        (chart, on)
    }

    #[test]
    fn the_bar_ends_where_the_verdict_says() {
        for runtime in [Runtime::Voxfit, Runtime::Pytorch] {
            let (chart, on) = chart_of(runtime);
            let low = chart.segments.last().unwrap().to;
            let end = chart.whisker.map_or(low, |w| w.to);
            let parts = &on.budget.parts;
            let all = parts.required().high.as_gib()
                + parts.context.high.as_gib()
                + parts.display.high.as_gib();
            assert!((end - all).abs() < 1e-9);
            for row in &chart.rows {
                assert_eq!(row.excess.is_some(), end > row.capacity, "{}", row.id);
            }
            assert!(chart.axis_max >= end && chart.ticks.len() >= 3);
            assert_eq!(chart.rows.iter().filter(|r| r.focus).count(), 1);
            assert_eq!(chart.whisker.is_some(), runtime == Runtime::Pytorch);
            let beside = chart.beside(on.voxfit).compare;
            assert_eq!(beside.is_some(), runtime == Runtime::Pytorch);
            assert!(beside.is_none_or(|(_, gib)| gib < end));
        }
    }

    #[test]
    fn the_stack_of_tensors_is_as_high_as_the_total_and_the_arena_line_holds_the_peak() {
        let (_, on) = chart_of(Runtime::Voxfit);
        let t = timeline_chart(&on.budget, None);
        for (step, total) in t.total.iter().enumerate() {
            let here = t.pieces.iter().filter(|p| p.from <= step && step < p.to);
            let top = here.map(|p| p.high).fold(0.0, f64::max);
            // Places are rounded up to 256 bytes.
            assert!((top - total).abs() < 1e-4, "step {step}: {top} of {total}");
        }
        let (_, arena) = t.arena.clone().unwrap();
        assert!(arena >= t.peak);
        assert!(t.at_step(t.peak_step).iter().map(|s| s.gib).sum::<f64>() <= arena);
    }

    #[test]
    fn axes_have_round_ticks_that_reach_past_the_data() {
        for high in [0.004, 0.3, 7.0, 16.3, 43.8, 512.0] {
            let (max, ticks) = axis(high);
            assert!(
                max >= high && ticks.len() <= 9 && ticks[0] == 0.0,
                "{high}: {ticks:?}"
            );
        }
    }
}
