//! The Plan workspace: the form at the left, budget, fixes and live bytes in the middle, small slices at the right.

mod budget_plot;
mod calibrate;
mod fits;
mod fixes;
mod form;
mod layers;
mod side;
mod timeline;
mod tour;
mod windows;

pub(super) use budget_plot::bars;
pub(super) use calibrate::show as calibrate;

pub(super) use timeline::Span;

use super::{Cx, kit, panel};
use crate::app::Command;
use crate::exchange::result::MemoryRecord;
use crate::geometry::Extent;
use crate::report::chart::{self, BudgetChart};
use crate::report::{FitsChart, TimelineChart, fits_chart};
use eframe::egui::{Rect, Sense, Ui, pos2, vec2};
use std::sync::Arc;

/// Charts of the budget that is shown, made again only when the budget changes.
pub(super) struct Charts {
    key: Key,
    pub(super) budget: BudgetChart,
    pub(super) timeline: Arc<TimelineChart>,
    fits: Option<FitsChart>,
}

/// What the charts are made of: budget, surface, card in focus, roi and batch.
type Key = (usize, usize, Option<String>, (Extent, usize), usize);

/// Keeps the charts in step with the budget.
pub(super) fn refresh(cx: &mut Cx<'_>) {
    let Some(Ok(b)) = &cx.state.derived.budget else {
        if cx.state.derived.budget.is_none() {
            cx.local.charts = None;
        }
        return;
    };
    let focus = cx.state.document.card_in_focus.clone();
    let surface = cx.state.derived.surface.clone();
    let roi = cx
        .state
        .derived
        .plan()
        .map_or_else(Extent::default, |p| p.roi);
    let asked = (roi, cx.state.document.batch);
    let at = surface.as_ref().map_or(0, |s| Arc::as_ptr(s).addr());
    let run = fresh_run(cx);
    let run_at = run.map_or(0, |m| m.steps.as_ptr().addr());
    let key: Key = (Arc::as_ptr(b).addr(), at, focus, asked, run_at);
    if cx.local.charts.as_ref().is_some_and(|c| c.key == key) {
        return;
    }
    let cards: Vec<&crate::hardware::Card> = b
        .cards
        .iter()
        .filter_map(|v| cx.state.catalogue.get(&v.id).ok())
        .collect();
    let Some(timeline) = cx.state.derived.timeline.clone() else {
        return;
    };
    let timeline = match run {
        Some(m) => Arc::new(TimelineChart::clone(&timeline).beside_run(&m.steps)),
        None => timeline,
    };
    let title = title(cx);
    let mut verdicts = b.cards.clone();
    verdicts.sort_by_key(|v| (v.usable, v.id.clone()));
    cx.local.charts = Some(Charts {
        budget: chart::budget_chart(&title, &b.budget, &verdicts, &cards, key.2.as_deref())
            .beside(b.voxfit),
        timeline,
        fits: surface.and_then(|s| fits_chart(&s, &b.cards, key.2.as_deref(), asked)),
        key,
    });
}

/// Memory of the last run, when it was of this very plan.
fn fresh_run<'a>(cx: &Cx<'a>) -> Option<&'a MemoryRecord> {
    let outcome = cx.state.outcome.as_ref()?;
    let same = outcome.document.batch == cx.state.document.batch && cx.state.stale().is_empty();
    same.then_some(&outcome.result.memory)
}

fn title(cx: &Cx<'_>) -> String {
    let d = &cx.state.document;
    let roi = crate::app::document::roi_text(d.roi_size, " \u{d7} ");
    let precision = format!("{:?}", d.precision).to_lowercase();
    let runtime = match d.runtime {
        crate::app::document::Runtime::Voxfit => "Voxfit",
        crate::app::document::Runtime::Pytorch => "PyTorch",
    };
    format!("{roi}, {precision}, {runtime}")
}

/// Draws the workspace.
pub(super) fn show(ui: &mut Ui, content: Rect, cx: &mut Cx<'_>) {
    cx.local.status_hint = "Ctrl+Z undoes \u{b7} hover a bar, a step or a cell for its numbers";
    cx.local.scale_text.clear();
    refresh(cx);
    let left = content.with_max_x(content.left() + 287.0);
    let wide = content.width() >= 1280.0 && cx.state.volume_state().is_some();
    let end = if wide {
        content.right() - 220.0
    } else {
        content.right()
    };
    let middle = Rect::from_min_max(
        pos2(left.right() + 1.0, content.top()),
        pos2(if wide { end - 1.0 } else { end }, content.bottom()),
    );
    panel(ui, left, "Plan", |ui| form::show(ui, cx));
    if cx.state.view.layers_open {
        layers::show(ui, middle, cx);
    } else {
        middle_panels(ui, middle, cx);
    }
    if wide {
        let right = content.with_min_x(end);
        panel(ui, right, "Slices", |ui| side::show(ui, cx));
    }
}

fn middle_panels(ui: &mut Ui, area: Rect, cx: &mut Cx<'_>) {
    let area = if cx.state.told().is_some() {
        let band = area.with_max_y(area.top() + tour::HEIGHT);
        panel(ui, band, "Tour", |ui| tour::show(ui, cx));
        area.with_min_y(band.bottom() + 1.0)
    } else {
        area
    };
    let rows = cx.local.charts.as_ref().map_or(0, |c| c.budget.rows.len());
    let n_fixes = cx.state.derived.fixes().len();
    let fixes_height = if n_fixes > 0 {
        fixes::height(ui, cx, area.width()) + 1.0
    } else {
        0.0
    };
    let wanted = 28.0 + 52.0 + 37.0 * rows.max(3) as f32 + 36.0;
    // A low window scrolls the cards rather than flatten the plots.
    let share = if area.height() < 700.0 { 0.54 } else { 0.62 };
    let most = (area.height() - fixes_height) * share;
    let budget = area.with_max_y(area.top() + wanted.min(most));
    panel(ui, budget, "Memory budget", |ui| budget_plot::show(ui, cx));
    let mut top = budget.bottom() + 1.0;
    if n_fixes > 0 {
        let rect = area.with_min_y(top).with_max_y(top + fixes_height - 1.0);
        panel(ui, rect, fixes::name(cx), |ui| fixes::show(ui, cx));
        top = rect.bottom() + 1.0;
    }
    let rest = area.with_min_y(top);
    let wide = (rest.width() * 0.42).round();
    let plot = rest.with_max_x(rest.right() - wide);
    panel(ui, plot, "Live bytes over steps", |ui| {
        timeline::show(ui, cx);
    });
    let right = rest.with_min_x(plot.right() + 1.0);
    panel(ui, right, "What fits", |ui| fits::show(ui, cx));
}

/// The row of buttons at the foot of the form.
fn run_row(ui: &mut Ui, cx: &mut Cx<'_>) {
    let why = cx.state.why_not_run();
    if let Some(text) = &why {
        kit::caption(ui, &format!("Run: {text}"));
    } else if cx.state.manifest_waits() {
        kit::caption(ui, "Run: shows the proposed manifest first, to be accepted");
    }
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 40.0), Sense::hover());
    let width = (area.width() - 24.0 - 16.0) / 3.0;
    let at = |i: f32| {
        Rect::from_min_size(
            area.min + vec2(12.0 + i * (width + 8.0), 4.0),
            vec2(width, 28.0),
        )
    };
    if kit::button(ui, at(0.0), "Run", kit::Look::Primary, why.as_deref()).clicked() {
        cx.send(Command::Run);
    }
    if kit::button(ui, at(1.0), "Save plan", kit::Look::Plain, None).clicked() {
        cx.send(Command::SavePlan);
    }
    let export = cx
        .state
        .derived
        .plan()
        .is_none()
        .then_some("choose a network and a roi first");
    if kit::button(ui, at(2.0), "Export", kit::Look::Plain, export).clicked() {
        cx.send(Command::ExportReportDialog);
    }
}
