//! The right dock: detections, the plan in a few lines, the memory budget.

use super::list;
use crate::app::document::{overlap_text, roi_text};
use crate::app::{Command, Workspace};
use crate::ui::theme::Theme;
use crate::ui::{Cx, fonts, kit};
use eframe::egui::{Rect, Sense, Ui, pos2, vec2};

/// Draws the dock.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let m = cx.state.seams.matching();
    let missing = m.map_or(0, |m| m.missing().count());
    let verdict = if cx.state.seams.matched.is_some() {
        50.0
    } else {
        0.0
    };
    let rows = (cx.state.derived.detections.len() + missing).clamp(4, 14);
    let room = (ui.available_height() - 480.0 - verdict).clamp(96.0, 24.0 * rows as f32);
    list::show(ui, cx, room);
    ui.add_space(8.0);
    kit::separator(ui);
    plan(ui, cx);
    ui.add_space(8.0);
    kit::separator(ui);
    super::budget::show(ui, cx);
}

fn plan(ui: &mut Ui, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let head = kit::heading(ui, "Plan", "", "");
    let at = pos2(head.right() - 12.0, head.center().y);
    if kit::text_button(ui, at, "Edit in Plan").clicked() {
        cx.send(Command::ShowWorkspace(Workspace::Plan));
    }
    let d = &cx.state.document;
    let Some(network) = &d.network else {
        kit::caption(ui, "No network chosen");
        return;
    };
    let network = network.strip_prefix("preset:").unwrap_or(network);
    let span = |text: String, strong: bool| {
        kit::Span::new(text, fonts::body(), if strong { t.strong } else { t.text })
    };
    let runtime = match d.runtime {
        crate::app::document::Runtime::Voxfit => "Voxfit runtime",
        crate::app::document::Runtime::Pytorch => "PyTorch",
    };
    let precision = format!("{:?}", d.precision).to_lowercase();
    kit::rich(
        ui,
        &[
            span(network.to_owned(), true),
            span(format!("  {precision}, {runtime}"), false),
        ],
    );
    let roi = roi_text(d.roi_size, "\u{d7}");
    let layout = d.layout.name();
    let blend = format!("{:?}", d.blend).to_lowercase();
    kit::rich(
        ui,
        &[
            span(roi, true),
            span(
                format!("  overlap {}, {blend}, {layout}", overlap_text(d.overlap)),
                false,
            ),
        ],
    );
    let windows = match &cx.state.derived.tiling {
        Some(Ok(plan)) if plan.windows.len() == 1 => "1 window".to_owned(),
        Some(Ok(plan)) => format!("{} windows", plan.windows.len()),
        Some(Err(why)) => why.clone(),
        None => "no size to plan for yet".to_owned(),
    };
    kit::note(ui, &windows);
    run(ui, cx);
}

fn run(ui: &mut Ui, cx: &mut Cx<'_>) {
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 40.0), Sense::hover());
    let button = Rect::from_min_size(area.min + vec2(12.0, 8.0), vec2(112.0, 28.0));
    let why = cx.state.why_not_run();
    let look = if cx.state.outcome.is_none() {
        kit::Look::Primary
    } else {
        kit::Look::Plain
    };
    if kit::button(ui, button, "Run", look, why.as_deref()).clicked() {
        cx.send(Command::Run);
    }
    let t = Theme::of(ui.ctx());
    let note = Rect::from_min_max(
        pos2(button.right() + 12.0, button.top()),
        pos2(area.right() - 12.0, button.bottom()),
    );
    let text = why.unwrap_or_else(|| "Ctrl+Enter runs it".to_owned());
    kit::text_in(
        ui,
        note,
        eframe::egui::Align2::LEFT_CENTER,
        &text,
        fonts::caption(),
        t.secondary,
    );
}
