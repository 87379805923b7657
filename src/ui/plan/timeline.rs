//! Live bytes over the steps: one rectangle per tensor and stretch of steps, the total as a step line, peak and arena.

use super::budget_plot::color;
use crate::report::TimelineChart;
use crate::report::chart::tick_text;
use crate::ui::theme::{Theme, fade};
use crate::ui::{Cx, fonts, kit};
use eframe::egui::{
    self, Align2, Color32, Mesh, Rect, Sense, Shape, Stroke, StrokeKind, Ui, WidgetInfo,
    accesskit::Role, pos2, vec2,
};

#[expect(
    clippy::cast_possible_truncation,
    reason = "screen positions need no more than f32"
)]
const fn f(x: f64) -> f32 {
    x as f32
}

/// Draws heading and plot.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let Some(charts) = cx.local.charts.take() else {
        kit::heading(ui, "Live bytes over steps", "", "");
        kit::caption(ui, "Every step of one window, once a network is chosen");
        return;
    };
    draw(ui, &charts.timeline);
    cx.local.charts = Some(charts);
}

fn draw(ui: &mut Ui, chart: &TimelineChart) {
    let t = Theme::of(ui.ctx());
    let n = chart.steps.len();
    let peak = format!(
        "peak {:.2} GiB at step {} of {n}",
        chart.peak, chart.peak_step
    );
    kit::heading(ui, "Live bytes over steps", "", &peak);
    let area = ui.available_rect_before_wrap();
    let plot = Rect::from_min_max(area.min + vec2(60.0, 12.0), area.max - vec2(20.0, 46.0));
    if plot.width() < 80.0 || plot.height() < 40.0 || n == 0 {
        return;
    }
    let x = |step: f64| egui::lerp(plot.x_range(), f(step / n as f64));
    let y = |gib: f64| {
        egui::lerp(
            plot.bottom()..=plot.top(),
            f(gib / chart.axis_max.max(1e-12)),
        )
    };
    axes(ui, area, plot, chart, &t, &x, &y);
    let mut mesh = Mesh::default();
    for piece in &chart.pieces {
        let fill = chart
            .tensors
            .get(piece.tensor)
            .map_or(t.secondary, |t| color(t.fill));
        let r = Rect::from_min_max(
            pos2(x(piece.from as f64), y(piece.high)),
            pos2(x(piece.to as f64), y(piece.low)),
        );
        let r = if r.height() > 3.0 {
            r.with_min_y(r.top() + 1.0)
        } else {
            r
        };
        mesh.add_colored_rect(r, fade(fill, 0.88));
    }
    let p = ui.painter();
    p.add(Shape::mesh(mesh));
    let mut line = Vec::with_capacity(2 * n);
    for (i, &gib) in chart.total.iter().enumerate() {
        line.push(pos2(x(i as f64), y(gib)));
        line.push(pos2(x(i as f64 + 1.0), y(gib)));
    }
    p.add(Shape::line(line, Stroke::new(1.2, t.strong)));
    for l in &chart.labels {
        let text = p.layout_no_wrap(l.text.clone(), fonts::caption_bold(), ink(l.fill));
        let room = vec2(x(l.width) - x(0.0), y(0.0) - y(l.height));
        if text.size().x + 6.0 < room.x && text.size().y < room.y {
            let c = pos2(x(l.step), y(l.gib));
            p.galley(c - text.size() / 2.0, text, Color32::WHITE);
        }
    }
    if let Some((name, gib)) = &chart.arena {
        let at = y(*gib);
        p.extend(Shape::dashed_line(
            &[pos2(plot.left(), at), pos2(plot.right(), at)],
            Stroke::new(1.0, t.strong),
            6.0,
            4.0,
        ));
        crate::ui::paint::cased(
            p,
            pos2(plot.right(), at - 3.0),
            Align2::RIGHT_BOTTOM,
            name,
            fonts::caption(),
            [t.strong, t.panel],
        );
    }
    let px = x(chart.peak_step as f64 + 0.5);
    p.vline(px, plot.y_range(), Stroke::new(1.0, t.strong));
    p.circle_filled(pos2(px, y(chart.peak)), 4.0, t.strong);
    hover(ui, plot, chart, &t);
}

/// Black on light fills, white on dark ones.
fn ink(fill: [u8; 3]) -> Color32 {
    let [r, g, b] = fill.map(f64::from);
    if 0.299 * r + 0.587 * g + 0.114 * b > 115.0 {
        Color32::BLACK
    } else {
        Color32::WHITE
    }
}

#[expect(clippy::too_many_arguments, reason = "one drawing step of `draw`")]
fn axes(
    ui: &Ui,
    area: Rect,
    plot: Rect,
    chart: &TimelineChart,
    t: &Theme,
    x: &impl Fn(f64) -> f32,
    y: &impl Fn(f64) -> f32,
) {
    let p = ui.painter();
    let step = chart
        .ticks
        .windows(2)
        .map(|w| w[1] - w[0])
        .next()
        .unwrap_or(1.0);
    for &tick in &chart.ticks {
        let at = y(tick).round() + 0.5;
        p.hline(plot.x_range(), at, Stroke::new(1.0, t.line));
        p.text(
            pos2(plot.left() - 8.0, at),
            Align2::RIGHT_CENTER,
            tick_text(tick, step),
            fonts::caption(),
            t.secondary,
        );
    }
    for &tick in &chart.step_ticks {
        let at = x(tick as f64);
        p.vline(
            at.round() + 0.5,
            plot.bottom()..=plot.bottom() + 4.0,
            Stroke::new(1.0, t.line_strong),
        );
        p.text(
            pos2(at, plot.bottom() + 14.0),
            Align2::CENTER_CENTER,
            tick.to_string(),
            fonts::caption(),
            t.secondary,
        );
    }
    p.text(
        pos2(plot.center().x, plot.bottom() + 34.0),
        Align2::CENTER_CENTER,
        "schedule step",
        fonts::caption(),
        t.secondary,
    );
    let title = p.layout_no_wrap("live bytes, GiB".to_owned(), fonts::caption(), t.secondary);
    let at = pos2(area.left() + 8.0, plot.center().y + title.size().x / 2.0);
    p.add(
        egui::epaint::TextShape::new(at, title, t.secondary)
            .with_angle(-std::f32::consts::FRAC_PI_2),
    );
}

/// The hover card: the step's name and what lives, largest first.
fn hover(ui: &mut Ui, plot: Rect, chart: &TimelineChart, t: &Theme) {
    let response = ui.interact(plot, ui.scope_id().with("timeline"), Sense::hover());
    let n = chart.steps.len();
    response.widget_info(|| {
        WidgetInfo::labeled(
            Role::Image,
            true,
            format!(
                "Live bytes over {n} steps, peak {:.2} GiB at step {}",
                chart.peak, chart.peak_step
            ),
        )
    });
    let Some(at) = response.hover_pos() else {
        return;
    };
    let share = f64::from((at.x - plot.left()) / plot.width());
    let step = crate::ui::slice_view::whole(share * n as f64).min(n.saturating_sub(1));
    let live = chart.at_step(step);
    let shown = live.len().min(6);
    let size = vec2(236.0, 34.0 + shown as f32 * 18.0);
    let left = if at.x + 16.0 + size.x < plot.right() {
        at.x + 16.0
    } else {
        at.x - 16.0 - size.x
    };
    let top =
        at.y.clamp(plot.top(), (plot.bottom() - size.y).max(plot.top()));
    let card = Rect::from_min_size(pos2(left, top), size);
    let p = ui.painter();
    p.vline(at.x, plot.y_range(), Stroke::new(1.0, fade(t.strong, 0.5)));
    p.rect(
        card,
        4,
        t.raised,
        Stroke::new(1.0, t.line_strong),
        StrokeKind::Inside,
    );
    let name = chart.steps.get(step).map_or("", String::as_str);
    let title = card.shrink2(vec2(10.0, 0.0)).with_max_y(card.top() + 26.0);
    kit::text_in(
        ui,
        title,
        Align2::LEFT_CENTER,
        &format!("step {step}, {name}"),
        fonts::caption_bold(),
        t.strong,
    );
    for (i, tensor) in live.iter().take(shown).enumerate() {
        let row = Rect::from_min_size(
            card.min + vec2(10.0, 26.0 + i as f32 * 18.0),
            vec2(size.x - 20.0, 18.0),
        );
        let swatch = Rect::from_center_size(row.left_center() + vec2(4.0, 0.0), vec2(8.0, 8.0));
        ui.painter().rect_filled(swatch, 0, color(tensor.fill));
        let name = row
            .with_min_x(row.left() + 14.0)
            .with_max_x(row.right() - 44.0);
        kit::text_in(
            ui,
            name,
            Align2::LEFT_CENTER,
            &tensor.name,
            fonts::caption(),
            t.text,
        );
        kit::text_in(
            ui,
            row,
            Align2::RIGHT_CENTER,
            &format!("{:.2}", tensor.gib),
            fonts::caption(),
            t.text,
        );
    }
}
