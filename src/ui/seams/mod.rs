//! The Seams workspace: verdicts, a slice with a map over it, the seam table, curves across a seam, drift against distance.

mod axes;
mod drift;
mod histogram;
mod matches;
mod profile;
mod slice;
mod strip;
mod table;

pub(super) use matches::look;
pub(super) use strip::verdict;

use super::theme::Theme;
use super::{Cx, kit, panel};
use eframe::egui::{Rect, Ui, vec2};

/// What the plot at the lower right shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Plot {
    /// Score drift over distance to the nearest seam.
    #[default]
    Drift,
    /// Differences near seams and elsewhere.
    Histogram,
    /// Finding by finding.
    Matches,
}

/// What only this workspace keeps between frames.
#[derive(Default)]
pub(super) struct Kept {
    plot: Plot,
    texture: Option<(u64, eframe::egui::TextureHandle)>,
}

/// Draws the workspace.
pub(super) fn show(ui: &mut Ui, content: Rect, cx: &mut Cx<'_>) {
    cx.local.status_hint = "Click a seam or press Enter on it to go there \u{b7} J: next worst";
    cx.local.scale_text.clear();
    let strip = content.with_max_y(content.top() + 72.0);
    panel(ui, strip, "Verdicts", |ui| strip::show(ui, cx));
    let rest = content.with_min_y(strip.bottom() + 1.0);
    if rest.width() < 1280.0 {
        narrow(ui, rest, cx);
        return;
    }
    let left = rest.with_max_x(rest.left() + (rest.width() * 640.0 / 1440.0).round());
    let right = rest.with_min_x(left.right() + 1.0);
    slice_and_table(ui, left, cx);
    curves(ui, right, cx);
}

/// Two tabs where both halves have no room side by side.
fn narrow(ui: &mut Ui, rest: Rect, cx: &mut Cx<'_>) {
    let bar = rest.with_max_y(rest.top() + 32.0);
    let t = Theme::of(ui.ctx());
    ui.painter().rect_filled(bar, 0, t.panel);
    let tabs = Rect::from_min_size(bar.min + vec2(8.0, 4.0), vec2(320.0, 24.0));
    let options = [(false, "Slice and table"), (true, "Curves and match")];
    if let Some(on) = kit::segmented(ui, tabs, "Show", &options, cx.local.right_tab) {
        cx.local.right_tab = on;
    }
    let rest = rest.with_min_y(bar.bottom() + 1.0);
    if cx.local.right_tab {
        curves(ui, rest, cx);
    } else {
        let left = rest.with_max_x(rest.left() + (rest.width() * 0.42).round());
        panel(ui, left, "Slice", |ui| slice::show(ui, cx));
        let right = rest.with_min_x(left.right() + 1.0);
        panel(ui, right, "Seams", |ui| table::show(ui, cx));
    }
}

fn slice_and_table(ui: &mut Ui, rect: Rect, cx: &mut Cx<'_>) {
    let split = rect.bottom() - (rect.height() * 258.0 / 767.0).round();
    panel(ui, rect.with_max_y(split), "Slice", |ui| {
        slice::show(ui, cx);
    });
    panel(ui, rect.with_min_y(split + 1.0), "Seams", |ui| {
        table::show(ui, cx);
    });
}

fn curves(ui: &mut Ui, rect: Rect, cx: &mut Cx<'_>) {
    let split = rect.top() + (rect.height() * 420.0 / 767.0).round();
    panel(ui, rect.with_max_y(split), "Profile", |ui| {
        profile::show(ui, cx);
    });
    panel(ui, rect.with_min_y(split + 1.0), "Drift and match", |ui| {
        lower(ui, cx);
    });
}

fn lower(ui: &mut Ui, cx: &mut Cx<'_>) {
    let plot = cx.local.seams.plot;
    let (title, strong) = match plot {
        Plot::Drift => ("Drift against distance", String::new()),
        Plot::Histogram => ("Differences", "near and far".to_owned()),
        Plot::Matches => ("Match", matches::counts(cx.state)),
    };
    let head = kit::heading(ui, title, &strong, "");
    let options = [
        (Plot::Drift, "Drift"),
        (Plot::Histogram, "Near and far"),
        (Plot::Matches, "Match"),
    ];
    let size = vec2(264.0, 24.0);
    let at = Rect::from_min_size(head.right_top() + vec2(-size.x - 12.0, 2.0), size);
    if let Some(p) = kit::segmented(ui, at, "Plot", &options, plot) {
        cx.local.seams.plot = p;
    }
    match plot {
        Plot::Drift => drift::show(ui, cx),
        Plot::Histogram => histogram::show(ui, cx),
        Plot::Matches => matches::show(ui, cx),
    }
}

/// A difference in few signs: 0 for none, three decimals, or powers of ten where that would show none.
fn figure(v: Option<f64>) -> String {
    match v {
        None => "\u{2014}".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(v) if v.is_infinite() => "no number".to_owned(),
        Some(v) if v.abs() < 0.001 => format!("{v:.0e}").replace('-', "\u{2212}"),
        Some(v) if v.abs() < 10.0 => super::paint::number(v, 3),
        Some(v) => super::paint::number(v, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn small_differences_are_told_from_none() {
        assert_eq!(figure(Some(0.0)), "0");
        assert_eq!(figure(Some(3.2e-6)), "3e\u{2212}6");
        assert_eq!(figure(Some(0.2624)), "0.262");
        assert_eq!(figure(None), "\u{2014}");
    }
}
