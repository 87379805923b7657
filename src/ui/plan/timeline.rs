//! Live bytes over the steps: one rectangle per tensor and stretch of steps, the total as a step line, peak and arena;
//! wheel and drag zoom and move, the pointer asks for a tensor.

use super::budget_plot::color;
use crate::report::TimelineChart;
use crate::report::chart::tick_text;
use crate::report::timeline::{StackedTensor, step_ticks};
use crate::ui::paint::f;
use crate::ui::theme::{Theme, fade, hue};
use crate::ui::{Cx, fonts, kit};
use eframe::egui::{
    self, Align2, Color32, Mesh, Rect, Response, Sense, Shape, Stroke, StrokeKind, Ui, WidgetInfo,
    accesskit::Role, pos2, vec2,
};

/// The steps in view; both ends 0 for all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::ui) struct Span {
    steps: usize,
    from: f64,
    to: f64,
}

impl Span {
    /// The same part of a plan with so many steps; all of a plan with another number of steps.
    fn of(self, steps: usize) -> Self {
        if self.steps == steps && self.to > self.from {
            self
        } else {
            Self {
                steps,
                from: 0.0,
                to: steps as f64,
            }
        }
    }

    const fn whole(self) -> bool {
        self.from <= 0.0 && self.to >= self.steps as f64
    }

    /// Nearer (below 1) or farther, around a step that stays where it is; never less than three steps.
    fn zoom(self, factor: f64, around: f64) -> Self {
        let all = self.steps as f64;
        let wide = ((self.to - self.from) * factor).clamp(all.min(3.0), all);
        let share = ((around - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        let from = (around - share * wide).clamp(0.0, all - wide);
        Self {
            from,
            to: from + wide,
            ..self
        }
    }

    fn shift(self, by: f64) -> Self {
        let wide = self.to - self.from;
        let from = (self.from + by).clamp(0.0, self.steps as f64 - wide);
        Self {
            from,
            to: from + wide,
            ..self
        }
    }
}

/// The plot's place and the steps in it.
struct Place<'a> {
    plot: Rect,
    span: Span,
    chart: &'a TimelineChart,
}

impl Place<'_> {
    fn x(&self, step: f64) -> f32 {
        let share = (step - self.span.from) / (self.span.to - self.span.from).max(1e-9);
        egui::lerp(self.plot.x_range(), f(share))
    }

    fn y(&self, gib: f64) -> f32 {
        let share = f(gib / self.chart.axis_max.max(1e-12));
        egui::lerp(self.plot.bottom()..=self.plot.top(), share)
    }

    fn step(&self, x: f32) -> f64 {
        let share = f64::from((x - self.plot.left()) / self.plot.width());
        self.span.from + share * (self.span.to - self.span.from)
    }

    fn gib(&self, y: f32) -> f64 {
        f64::from((self.plot.bottom() - y) / self.plot.height()) * self.chart.axis_max
    }
}

/// Draws heading and plot.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let Some(charts) = cx.local.charts.take() else {
        kit::heading(ui, "Live bytes over steps", "", "");
        kit::caption(ui, "Every step of one window, once a network is chosen");
        return;
    };
    draw(ui, &charts.timeline, &mut cx.local.span);
    cx.local.charts = Some(charts);
}

fn draw(ui: &mut Ui, chart: &TimelineChart, kept: &mut Span) {
    let t = Theme::of(ui.ctx());
    let n = chart.steps.len();
    let mut span = kept.of(n);
    let peak = format!(
        "peak {:.2} GiB at step {} of {n}",
        chart.peak, chart.peak_step
    );
    let head = kit::heading(ui, "Live bytes over steps", "", &peak);
    if !span.whole() {
        let wide = ui.painter().layout_no_wrap(peak, fonts::caption(), t.text);
        let right = pos2(head.right() - 24.0 - wide.size().x, head.center().y);
        if kit::text_button(ui, right, "All steps").clicked() {
            span = Span::default().of(n);
        }
    }
    let area = ui.available_rect_before_wrap();
    let plot = Rect::from_min_max(area.min + vec2(60.0, 12.0), area.max - vec2(20.0, 46.0));
    if plot.width() < 80.0 || plot.height() < 40.0 || n == 0 {
        return;
    }
    let place = Place { plot, span, chart };
    axes(ui, area, &place, &t);
    pieces(ui, &place, &t);
    total(ui, &place, &t);
    let response = ui.interact(
        plot,
        ui.scope_id().with("timeline"),
        Sense::click_and_drag(),
    );
    response.widget_info(|| {
        let text = format!(
            "Live bytes over {n} steps, peak {:.2} GiB at step {}",
            chart.peak, chart.peak_step
        );
        WidgetInfo::labeled(Role::Image, true, text)
    });
    if response.has_focus() {
        ui.painter()
            .rect_stroke(plot, 0, Stroke::new(2.0, t.strong), StrokeKind::Outside);
    }
    hover(ui, &place, &response, &t);
    *kept = moved(ui, &place, &response);
}

/// Wheel and keys zoom, drag and keys move, a double click shows all.
fn moved(ui: &Ui, place: &Place<'_>, response: &Response) -> Span {
    let mut span = place.span;
    if response.double_clicked() {
        return Span::default();
    }
    if response.dragged() {
        let wide = span.to - span.from;
        span = span.shift(f64::from(-response.drag_delta().x / place.plot.width()) * wide);
    }
    if let Some(at) = response.hover_pos() {
        let turned = ui.input(|i| i.smooth_scroll_delta().y + 200.0 * i.zoom_delta().ln());
        if turned != 0.0 {
            span = span.zoom(f64::from(-turned / 250.0).exp(), place.step(at.x));
        }
    }
    if response.has_focus() {
        ui.memory_mut(|m| {
            let arrows = egui::EventFilter {
                horizontal_arrows: true,
                vertical_arrows: true,
                ..Default::default()
            };
            m.set_focus_lock_filter(response.id, arrows);
        });
        let pressed = |k| ui.input(|i| i.key_pressed(k));
        let middle = 0.5 * (span.from + span.to);
        let part = 0.2 * (span.to - span.from);
        for (key, to) in [
            (egui::Key::ArrowUp, span.zoom(0.7, middle)),
            (egui::Key::ArrowDown, span.zoom(1.4, middle)),
            (egui::Key::ArrowLeft, span.shift(-part)),
            (egui::Key::ArrowRight, span.shift(part)),
        ] {
            if pressed(key) {
                span = to;
            }
        }
    }
    span
}

fn pieces(ui: &Ui, place: &Place<'_>, t: &Theme) {
    let chart = place.chart;
    let p = ui.painter().with_clip_rect(place.plot);
    let mut mesh = Mesh::default();
    for piece in &chart.pieces {
        let (from, to) = (piece.from as f64, piece.to as f64);
        if to <= place.span.from || from >= place.span.to {
            continue;
        }
        let fill = chart
            .tensors
            .get(piece.tensor)
            .map_or(t.secondary, |t| color(t.fill));
        let r = Rect::from_min_max(
            pos2(place.x(from), place.y(piece.high)),
            pos2(place.x(to), place.y(piece.low)),
        );
        let r = if r.height() > 3.0 {
            r.with_min_y(r.top() + 1.0)
        } else {
            r
        };
        mesh.add_colored_rect(r.intersect(place.plot), fade(fill, 0.88));
    }
    p.add(Shape::mesh(mesh));
}

/// The step line, the names of the groups, the arena and the peak.
fn total(ui: &Ui, place: &Place<'_>, t: &Theme) {
    let (chart, plot) = (place.chart, place.plot);
    let p = ui.painter().with_clip_rect(plot.expand(5.0));
    let inside = ui.painter().with_clip_rect(plot.expand2(vec2(0.0, 2.0)));
    let mut line = Vec::with_capacity(2 * chart.total.len());
    for (i, &gib) in chart.total.iter().enumerate() {
        line.push(pos2(place.x(i as f64), place.y(gib)));
        line.push(pos2(place.x(i as f64 + 1.0), place.y(gib)));
    }
    inside.add(Shape::line(line, Stroke::new(1.2, t.strong)));
    let measured = t.legible(hue::REFERENCE);
    for (i, &gib) in chart.counted.iter().enumerate() {
        let at = pos2(place.x(i as f64 + 0.5), place.y(gib));
        inside.circle(at, 2.5, measured, Stroke::new(1.0, t.panel));
    }
    if let Some(text) = chart.counted_text() {
        crate::ui::paint::cased(
            ui.painter(),
            pos2(plot.left() + 6.0, plot.top() - 4.0),
            Align2::LEFT_TOP,
            &text,
            fonts::caption_bold(),
            [measured, t.panel],
        );
    }
    for l in &chart.labels {
        let text = p.layout_no_wrap(l.text.clone(), fonts::caption_bold(), ink(l.fill));
        let left = place.x(l.step - 0.5 * l.width).max(plot.left());
        let right = place.x(l.step + 0.5 * l.width).min(plot.right());
        let tall = place.y(0.0) - place.y(l.height);
        if text.size().x + 6.0 < right - left && text.size().y < tall {
            let c = pos2(0.5 * (left + right), place.y(l.gib));
            p.galley(c - text.size() / 2.0, text, Color32::WHITE);
        }
    }
    if let Some((name, gib)) = &chart.arena {
        let at = place.y(*gib);
        p.extend(Shape::dashed_line(
            &[pos2(plot.left(), at), pos2(plot.right(), at)],
            Stroke::new(1.0, t.strong),
            6.0,
            4.0,
        ));
        crate::ui::paint::cased(
            ui.painter(),
            pos2(plot.right(), at - 3.0),
            Align2::RIGHT_BOTTOM,
            name,
            fonts::caption(),
            [t.strong, t.panel],
        );
    }
    let px = place.x(chart.peak_step as f64 + 0.5);
    if plot.x_range().contains(px) {
        p.vline(px, plot.y_range(), Stroke::new(1.0, t.strong));
        p.circle(
            pos2(px, place.y(chart.peak)),
            4.0,
            t.strong,
            Stroke::new(1.0, t.panel),
        );
    }
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

fn axes(ui: &Ui, area: Rect, place: &Place<'_>, t: &Theme) {
    let (p, plot, chart) = (ui.painter(), place.plot, place.chart);
    let step = chart
        .ticks
        .windows(2)
        .map(|w| w[1] - w[0])
        .next()
        .unwrap_or(1.0);
    for &tick in &chart.ticks {
        let at = place.y(tick).round() + 0.5;
        p.hline(plot.x_range(), at, Stroke::new(1.0, t.line));
        p.text(
            pos2(plot.left() - 8.0, at),
            Align2::RIGHT_CENTER,
            tick_text(tick, step),
            fonts::caption(),
            t.secondary,
        );
    }
    for tick in step_ticks(place.span.from, place.span.to) {
        let at = place.x(tick as f64);
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

/// The hover card: the tensor under the pointer with shape, bytes and life; the step and what else lives, largest first.
fn hover(ui: &mut Ui, place: &Place<'_>, response: &Response, t: &Theme) {
    let (chart, plot) = (place.chart, place.plot);
    let (Some(at), false) = (response.hover_pos(), response.dragged()) else {
        return;
    };
    let step = crate::ui::slice_view::whole(place.step(at.x)).min(chart.steps.len() - 1);
    let pointed = chart.tensor_at(step, place.gib(at.y));
    let own = pointed.and_then(|i| chart.tensors.get(i));
    if let Some(i) = pointed {
        outline(ui, place, i, t);
    }
    let live: Vec<&StackedTensor> = chart
        .at_step(step)
        .into_iter()
        .filter(|x| own.is_none_or(|o| !std::ptr::eq(*x, o)))
        .collect();
    let shown = live.len().min(if own.is_some() { 4 } else { 6 });
    let head = if own.is_some() { 98.0 } else { 30.0 };
    let size = vec2(264.0, head + shown as f32 * 18.0 + 4.0);
    let left = if at.x + 16.0 + size.x < plot.right() {
        at.x + 16.0
    } else {
        (at.x - 16.0 - size.x).max(plot.left() - 52.0)
    };
    let top =
        at.y.clamp(plot.top(), (plot.bottom() + 30.0 - size.y).max(plot.top()));
    let card = Rect::from_min_size(pos2(left, top), size);
    let p = ui.painter();
    p.vline(at.x, plot.y_range(), Stroke::new(1.0, fade(t.strong, 0.5)));
    let border = Stroke::new(1.0, t.line_strong);
    p.rect(card, 4, t.raised, border, StrokeKind::Inside);
    let line =
        |top: f32| Rect::from_min_size(card.min + vec2(10.0, top), vec2(size.x - 20.0, 18.0));
    let mut text = |row: Rect, align: Align2, words: &str, bold: bool| {
        let (font, ink) = if bold {
            (fonts::caption_bold(), t.strong)
        } else {
            (fonts::caption(), t.text)
        };
        kit::text_in(ui, row, align, words, font, ink);
    };
    let name = |step: usize| chart.steps.get(step).map_or("", String::as_str);
    let (l, r) = (Align2::LEFT_CENTER, Align2::RIGHT_CENTER);
    if let Some(own) = own {
        let row = line(5.0);
        text(row.with_min_x(row.left() + 14.0), l, &own.name, true);
        let size = format!(
            "{} \u{b7} {:.3} GiB",
            own.shape.replace('x', "\u{d7}"),
            own.gib
        );
        text(line(23.0), l, size.trim_start_matches(" \u{b7} "), false);
        let [born, dies] = own.lives;
        text(
            line(41.0),
            l,
            &format!("born at step {born}, {}", name(born)),
            false,
        );
        text(
            line(57.0),
            l,
            &format!("dies at step {dies}, {}", name(dies)),
            false,
        );
    }
    let row = line(head - 24.0);
    let here = format!("step {step}, {}", name(step));
    text(row.with_max_x(row.right() - 44.0), l, &here, true);
    let all = chart.total.get(step).copied().unwrap_or(0.0);
    text(row, r, &format!("{all:.2}"), true);
    for (i, tensor) in live.iter().take(shown).enumerate() {
        let row = line(head - 4.0 + i as f32 * 18.0);
        let room = row.with_min_x(row.left() + 14.0);
        text(room.with_max_x(row.right() - 44.0), l, &tensor.name, false);
        text(row, r, &format!("{:.2}", tensor.gib), false);
    }
    let swatch = |top: f32, tensor: &StackedTensor| {
        let middle = line(top).left_center() + vec2(4.0, 0.0);
        let r = Rect::from_center_size(middle, vec2(8.0, 8.0));
        ui.painter().rect_filled(r, 0, color(tensor.fill));
    };
    if let Some(own) = own {
        swatch(5.0, own);
    }
    for (i, tensor) in live.iter().take(shown).enumerate() {
        swatch(head - 4.0 + i as f32 * 18.0, tensor);
    }
}

/// White around all that a tensor takes.
fn outline(ui: &Ui, place: &Place<'_>, tensor: usize, t: &Theme) {
    let p = ui.painter().with_clip_rect(place.plot);
    for piece in place.chart.pieces.iter().filter(|p| p.tensor == tensor) {
        let r = Rect::from_min_max(
            pos2(place.x(piece.from as f64), place.y(piece.high)),
            pos2(place.x(piece.to as f64), place.y(piece.low)),
        );
        p.rect_stroke(r, 0, Stroke::new(1.5, t.strong), StrokeKind::Inside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zoom_keeps_the_step_under_the_pointer_and_never_leaves_the_plan() {
        let all = Span::default().of(80);
        assert!(all.whole());
        let near = all.zoom(0.25, 60.0);
        assert!((near.to - near.from - 20.0).abs() < 1e-9);
        let share = |s: Span| (60.0 - s.from) / (s.to - s.from);
        assert!((share(near) - share(all)).abs() < 1e-9);
        assert!(near.shift(1e6).to <= 80.0 && near.shift(-1e6).from >= 0.0);
        let tiny = near.zoom(1e-9, 60.0);
        assert!((tiny.to - tiny.from - 3.0).abs() < 1e-9);
        assert!(tiny.zoom(1e9, 60.0).whole());
        assert!(near.of(12).whole(), "another plan is shown whole");
        assert!(Span::default().of(2).zoom(0.1, 1.0).whole());
    }
}
