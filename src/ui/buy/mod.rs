//! The Buy workspace: the load and its figures at the left, the shortlist above, cost against throughput below.

mod form;
mod table;

pub(super) use table::View;

use super::{Cx, kit, panel, scatter};
use crate::app::Command;
use crate::app::buying::Buying;
use eframe::egui::{Rect, Ui, pos2};
use std::sync::Arc;

/// Draws the workspace.
pub(super) fn show(ui: &mut Ui, content: Rect, cx: &mut Cx<'_>) {
    cx.local.status_hint = "Click a heading to sort, a card to put it in focus";
    cx.local.scale_text.clear();
    let left = content.with_max_x(content.left() + 287.0);
    let right = content.with_min_x(left.right() + 1.0);
    panel(ui, left, "Load and cost", |ui| form::show(ui, cx));
    let found = match &cx.state.derived.buying {
        Some(Ok(found)) => Arc::clone(found),
        why => {
            let text = match why {
                Some(Err(why)) => why.clone(),
                _ if cx.state.network.info().is_some() => "Reckoning\u{2026}".to_owned(),
                _ => "Choose a network in Plan: what carries its load stands here".to_owned(),
            };
            panel(ui, right, "Shortlist", |ui| {
                kit::heading(ui, "Shortlist", "", "");
                kit::note(ui, &text);
            });
            return;
        }
    };
    let above = right.with_max_y(right.top() + (right.height() * 0.45).round());
    let below = right.with_min_y(above.bottom() + 1.0);
    panel(ui, above, "Shortlist", |ui| table::show(ui, cx, &found));
    panel(ui, below, "Cost against throughput", |ui| {
        plot(ui, cx, &found);
    });
}

fn plot(ui: &mut Ui, cx: &mut Cx<'_>, found: &Buying) {
    let Some(chart) = &found.chart else {
        kit::heading(ui, "Cost against throughput", "", "");
        kit::note(
            ui,
            "No card that fits has a price and rates: price one in a card file",
        );
        return;
    };
    kit::heading(ui, "Cost against throughput", "", &chart.note);
    let area = ui.available_rect_before_wrap();
    let area = Rect::from_min_max(area.min, pos2(area.right(), area.bottom()));
    let focus = cx.state.document.card_in_focus.clone();
    if let Some(id) = scatter::show(ui, area, chart, focus.as_deref()) {
        cx.send(Command::FocusCard(id));
    }
}
