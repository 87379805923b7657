//! Live bytes over the steps as data: one stack of tensors a step, the total as a step line, the peak, the arena.

use super::chart::axis;
use super::ink::{self, Rgb};
use crate::exchange::result::StepRecord;
use crate::memory::budget::Budget;
use crate::units::Bytes;

/// One tensor of the stack, for colours and hover cards.
#[derive(Clone, Debug, PartialEq)]
pub struct StackedTensor {
    /// Its name.
    pub name: String,
    /// Such as "1x256x128x128x96".
    pub shape: String,
    /// Its size, GiB.
    pub gib: f64,
    /// First and last step at which it lives.
    pub lives: [usize; 2],
    /// The part of the network it belongs to.
    pub group: String,
    /// Fill.
    pub fill: Rgb,
}

/// A piece of the stack: one tensor from step `from` to before step `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Index into `TimelineChart::tensors`.
    pub tensor: usize,
    /// First step.
    pub from: usize,
    /// One past the last step.
    pub to: usize,
    /// Lower edge, GiB.
    pub low: f64,
    /// Upper edge, GiB.
    pub high: f64,
}

/// A group's name inside its area.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupLabel {
    /// The name.
    pub text: String,
    /// Middle, in steps.
    pub step: f64,
    /// Middle, GiB.
    pub gib: f64,
    /// Steps that the place is wide.
    pub width: f64,
    /// Height of the place, GiB.
    pub height: f64,
    /// The fill it stands on.
    pub fill: Rgb,
}

/// The whole chart.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineChart {
    /// Names of the steps.
    pub steps: Vec<String>,
    /// Total live bytes of each step, GiB.
    pub total: Vec<f64>,
    /// The tensors.
    pub tensors: Vec<StackedTensor>,
    /// The stack, drawn in this order.
    pub pieces: Vec<Piece>,
    /// Names of the larger groups.
    pub labels: Vec<GroupLabel>,
    /// Step of the peak.
    pub peak_step: usize,
    /// Height of the peak, GiB.
    pub peak: f64,
    /// The arena line and its name, where there is one.
    pub arena: Option<(String, f64)>,
    /// What the engine counted at each step of a run of this plan, GiB; empty without a run.
    pub counted: Vec<f64>,
    /// End of the vertical axis, GiB.
    pub axis_max: f64,
    /// Its ticks, GiB.
    pub ticks: Vec<f64>,
    /// Ticks of the horizontal axis, steps.
    pub step_ticks: Vec<usize>,
}

impl TimelineChart {
    /// With what a run of this very plan counted, step by step; a record of other steps is left out.
    #[must_use]
    pub fn beside_run(mut self, steps: &[StepRecord]) -> Self {
        let same = steps.len() == self.steps.len()
            && steps
                .iter()
                .zip(&self.steps)
                .all(|(s, name)| s.node == *name);
        if same {
            self.counted = steps.iter().map(|s| s.counted.as_gib()).collect();
        }
        self
    }

    /// What is said of the run in words; nothing without one.
    pub fn counted_text(&self) -> Option<String> {
        let most = self.counted.iter().copied().reduce(f64::max)?;
        let same = self.counted == self.total;
        Some(if same {
            "counted in the run: the same at every step".to_owned()
        } else {
            format!("counted in the run: peak {most:.2} GiB")
        })
    }
    /// The tensor that lies at a height of the stack at a step.
    pub fn tensor_at(&self, step: usize, gib: f64) -> Option<usize> {
        let here = |p: &&Piece| p.from <= step && step < p.to && p.low <= gib && gib < p.high;
        self.pieces.iter().find(here).map(|p| p.tensor)
    }

    /// What lives at a step, largest first: names and GiB for a hover card.
    pub fn at_step(&self, step: usize) -> Vec<&StackedTensor> {
        let mut live: Vec<&StackedTensor> = self
            .tensors
            .iter()
            .filter(|t| t.lives[0] <= step && step <= t.lives[1])
            .collect();
        live.sort_by(|a, b| b.gib.total_cmp(&a.gib).then_with(|| a.name.cmp(&b.name)));
        live
    }
}

/// The timeline of a budget; `ours` is the arena of our own runtime where the budget is for another.
pub fn timeline_chart(budget: &Budget, ours: Option<Bytes>) -> TimelineChart {
    let n = budget.timeline.len();
    let total: Vec<f64> = budget.timeline.iter().map(|s| s.live.as_gib()).collect();
    let peak_step = budget.peak_step.index.min(n.saturating_sub(1));
    let peak = total.get(peak_step).copied().unwrap_or(0.0);
    let tensors = tensors(budget);
    let pieces = stack(&tensors, n);
    let arena = budget
        .arena
        .or(ours)
        .map(|a| (format!("Voxfit arena {:.2}", a.as_gib()), a.as_gib()));
    let top = arena.as_ref().map_or(peak, |(_, a)| a.max(peak));
    let (axis_max, ticks) = axis(top * 1.06);
    TimelineChart {
        steps: budget.timeline.iter().map(|s| s.node.clone()).collect(),
        labels: labels(&tensors, &pieces),
        total,
        tensors,
        pieces,
        peak_step,
        peak,
        arena,
        counted: Vec::new(),
        axis_max,
        ticks,
        step_ticks: step_ticks(0.0, n as f64),
    }
}

fn tensors(budget: &Budget) -> Vec<StackedTensor> {
    let quiet = |group: &str| ["weights", "input", "gather", "helpers", "image"].contains(&group);
    let mut groups: Vec<&str> = Vec::new();
    let mut ordered: Vec<&crate::memory::budget::LiveTensor> = budget.tensors.iter().collect();
    // What lives longest lies lowest, so that the short-lived stand on still ground.
    ordered.sort_by_key(|t| (t.born, std::cmp::Reverse(t.dies)));
    for t in &ordered {
        if !quiet(&t.group) && !groups.contains(&t.group.as_str()) {
            groups.push(&t.group);
        }
    }
    ordered
        .iter()
        .map(|t| {
            let fill = groups
                .iter()
                .position(|g| *g == t.group)
                .map_or(ink::GREY, |i| ink::SERIES[i % ink::SERIES.len()]);
            StackedTensor {
                name: t.name.clone(),
                shape: t
                    .shape
                    .iter()
                    .map(usize::to_string)
                    .collect::<Vec<_>>()
                    .join("x"),
                gib: t.bytes.as_gib(),
                lives: [t.born, t.dies],
                group: t.group.clone(),
                fill,
            }
        })
        .collect()
}

fn stack(tensors: &[StackedTensor], steps: usize) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut open: Vec<Option<usize>> = vec![None; tensors.len()];
    for step in 0..steps {
        let mut at = 0.0;
        for (i, t) in tensors.iter().enumerate() {
            if step < t.lives[0] || step > t.lives[1] {
                open[i] = None;
                continue;
            }
            let (low, high) = (at, at + t.gib);
            at = high;
            let same = open[i]
                .and_then(|p| pieces.get_mut(p))
                .filter(|p| p.low == low);
            if let Some(piece) = same {
                piece.to = step + 1;
            } else {
                open[i] = Some(pieces.len());
                pieces.push(Piece {
                    tensor: i,
                    from: step,
                    to: step + 1,
                    low,
                    high,
                });
            }
        }
    }
    pieces
}

/// The largest piece of each group carries its name.
fn labels(tensors: &[StackedTensor], pieces: &[Piece]) -> Vec<GroupLabel> {
    let mut best: Vec<(&str, f64, Piece)> = Vec::new();
    for p in pieces {
        let t = &tensors[p.tensor];
        let area = (p.high - p.low) * (p.to - p.from) as f64;
        match best.iter_mut().find(|(g, _, _)| *g == t.group) {
            Some(found) if found.1 >= area => {}
            Some(found) => *found = (&t.group, area, *p),
            None => best.push((&t.group, area, *p)),
        }
    }
    best.iter()
        .map(|(group, _, p)| GroupLabel {
            text: (*group).to_owned(),
            step: 0.5 * (p.from + p.to) as f64,
            gib: 0.5 * (p.low + p.high),
            width: (p.to - p.from) as f64,
            height: p.high - p.low,
            fill: tensors[p.tensor].fill,
        })
        .collect()
}

/// Round steps within a part of the plan, seven at most.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "steps lie in 0..n and are rounded before the cast"
)]
pub fn step_ticks(from: f64, to: f64) -> Vec<usize> {
    let (first, last) = (from.max(0.0).ceil() as usize, to.max(0.0).floor() as usize);
    let mut step = 1;
    for next in [2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] {
        if last.saturating_sub(first) / step <= 6 {
            break;
        }
        step = next;
    }
    (first.next_multiple_of(step)..=last)
        .step_by(step)
        .collect()
}
