//! The compact memory budget of the Review workspace: one bar, the capacities of the cards, verdicts in words.

use crate::ui::theme::Theme;
use crate::ui::{Cx, fonts, kit, paint, plan};
use eframe::egui::{self, Align2, Rect, Sense, Stroke, Ui, pos2, vec2};

/// Draws it.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    kit::heading(ui, "Memory budget", "", "GiB");
    plan::refresh(cx);
    let Some(charts) = cx.local.charts.take() else {
        let why = match &cx.state.derived.budget {
            Some(Err(why)) => why.as_str(),
            _ => "Choose a network to see what fits",
        };
        kit::caption(ui, why);
        return;
    };
    let t = Theme::of(ui.ctx());
    let mut chart = charts.budget.clone();
    if let Some(row) = chart.rows.iter().find(|r| r.focus) {
        let end = row.capacity.max(chart.axis_max);
        (chart.axis_max, chart.ticks) = crate::report::chart::axis(end * 1.04);
        let end = chart.axis_max;
        for row in &mut chart.rows {
            row.beyond = row.capacity > end;
        }
    }
    let chart = &chart;
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 84.0), Sense::hover());
    let plot = Rect::from_min_max(area.min + vec2(12.0, 18.0), area.max - vec2(20.0, 20.0));
    let step = chart
        .ticks
        .windows(2)
        .map(|w| w[1] - w[0])
        .next()
        .unwrap_or(1.0);
    #[expect(clippy::cast_possible_truncation, reason = "a screen position")]
    let x = |gib: f64| egui::lerp(plot.x_range(), (gib / chart.axis_max.max(1e-9)) as f32);
    let p = ui.painter();
    for &tick in &chart.ticks {
        let at = x(tick).round() + 0.5;
        p.vline(at, plot.y_range(), Stroke::new(1.0, t.line));
        let text = crate::report::chart::tick_text(tick, step);
        p.text(
            pos2(at, plot.bottom() + 10.0),
            Align2::CENTER_CENTER,
            text,
            fonts::caption(),
            t.secondary,
        );
    }
    p.text(
        plot.left_top() + vec2(0.0, 6.0),
        Align2::LEFT_CENTER,
        "this plan",
        fonts::caption(),
        t.secondary,
    );
    let bar = Rect::from_min_max(
        pos2(plot.left(), plot.top() + 16.0),
        pos2(plot.right(), plot.top() + 36.0),
    );
    plan::bars(ui, bar, chart);
    let end = chart.segments.last().map_or(0.0, |s| s.to);
    let total = chart.total.trim_end_matches(" GiB").to_owned();
    let right = x(chart.whisker.map_or(end, |w| w.to)).max(plot.left());
    let galley = p.layout_no_wrap(total, fonts::body_bold(), t.strong);
    let at = (right + 8.0).min(plot.right() - galley.size().x);
    p.galley(
        pos2(at, bar.center().y - galley.size().y / 2.0),
        galley,
        t.strong,
    );
    let mut last = f32::NEG_INFINITY;
    for row in chart.rows.iter().filter(|r| !r.beyond) {
        let at = x(row.capacity);
        p.vline(at, plot.top()..=plot.bottom(), Stroke::new(2.0, t.strong));
        let gb = row.caption.split(" card").next().unwrap_or("");
        if at - last > 44.0 {
            p.text(
                pos2(at, plot.top() - 8.0),
                Align2::CENTER_CENTER,
                gb,
                fonts::caption(),
                t.text,
            );
            last = at;
        }
    }
    let mut rows: Vec<_> = chart.rows.iter().collect();
    rows.sort_by_key(|r| !r.focus);
    let room = ui.available_height();
    let n = crate::ui::slice_view::whole(f64::from((room - 8.0) / 22.0)).clamp(1, 5);
    for row in rows.into_iter().take(n) {
        let (line, _) = ui.allocate_exact_size(vec2(ui.available_width(), 22.0), Sense::hover());
        let (mark, color, word) = paint::verdict(&t, row.verdict);
        paint::mark(
            ui.painter(),
            line.left_center() + vec2(18.0, 0.0),
            10.0,
            mark,
            color,
        );
        let text = format!("{word} on {}, {}", row.name, row.words);
        let at = line
            .with_min_x(line.left() + 32.0)
            .with_max_x(line.right() - 12.0);
        kit::text_in(ui, at, Align2::LEFT_CENTER, &text, fonts::body(), color);
    }
    cx.local.charts = Some(charts);
}
