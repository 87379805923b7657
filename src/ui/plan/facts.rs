//! Figures of the budget that stand outside the plots.

use crate::ui::theme::Theme;
use crate::ui::{Cx, fonts, kit};
use crate::units::Bytes;
use eframe::egui::Ui;

/// Draws the column.
pub(super) fn show(ui: &mut Ui, cx: &Cx<'_>) {
    kit::heading(ui, "Figures", "", "GiB");
    let Some(b) = cx.state.derived.budget() else {
        kit::caption(ui, "Planned with the network");
        return;
    };
    let b = &b.budget;
    let required = b.parts.required();
    // What two decimals of a GiB would round away keeps a unit of its own.
    let gib = |v: Bytes| match v {
        Bytes(0) => "0".to_owned(),
        v if v < Bytes::mib(100) => v.to_string(),
        v => format!("{:.2}", v.as_gib()),
    };
    let range = if required.low == required.high {
        gib(required.high)
    } else {
        format!("{} to {}", gib(required.low), gib(required.high))
    };
    figure(ui, "needed on the card", &range);
    if let Some(arena) = b.arena {
        figure(ui, "arena, planned = allocated", &gib(arena));
    }
    if let Some(tiles) = &b.tiles {
        figure(ui, "with every map whole", &gib(tiles.untiled));
        let percent = format!("{:.1} %", tiles.recompute_percent);
        figure(ui, "work done again by tiles", &percent);
    }
    if let Some(peak) = b.live_peak {
        figure(ui, "live peak", &gib(peak));
    }
    if let Some(peak) = b.reserved_peak {
        figure(ui, "reserved by the allocator", &gib(peak));
    }
    figure(ui, "lower bound, most live bytes", &gib(b.lower_bound));
    figure(ui, "host memory", &gib(b.host_peak));
    if let Some(n) = b.largest_batch {
        figure(ui, "largest batch, card in focus", &n.to_string());
    }
    for cliff in b.cliffs.iter().take(2) {
        ui.add_space(4.0);
        kit::caption(ui, &cliff.text);
    }
}

fn figure(ui: &mut Ui, name: &str, value: &str) {
    let t = Theme::of(ui.ctx());
    kit::caption(ui, name);
    kit::rich(ui, &[kit::Span::new(value, fonts::title(), t.strong)]);
    ui.add_space(4.0);
}
