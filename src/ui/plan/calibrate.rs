//! The page of calibration: points typed, the line through them, residuals, the largest X for each card, or why not.

use crate::app::{Command, calibration};
use crate::report::calibration::{CalibrationChart, calibration_chart};
use crate::report::chart::tick_text;
use crate::ui::paint::{self, f, number};
use crate::ui::theme::{Theme, hue};
use crate::ui::{Cx, fonts, kit};
use crate::units::with_thousands;
use eframe::egui::{
    self, Align, Align2, Pos2, Rect, Sense, Shape, Stroke, Ui, WidgetInfo, accesskit::Role, pos2,
    vec2,
};

/// Draws the page.
pub(in crate::ui) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    kit::caption(
        ui,
        "Peaks that you measured, as X=BYTES: X is whatever you varied (batch, slices, voxels), and all else stayed as it was.",
    );
    ui.add_space(4.0);
    field(ui, cx);
    let found = calibration::of(cx.state);
    if let Some(wrong) = &found.wrong {
        let top = ui.cursor().top();
        let at = pos2(ui.max_rect().left() + 17.0, top + 10.0);
        paint::mark(ui.painter(), at, 10.0, paint::Mark::Cross, t.over);
        let text = format!("     {wrong}");
        kit::rich(ui, &[kit::Span::new(text, fonts::body(), t.text)]);
        ui.add_space(4.0);
    }
    let gib = |bytes: f64| bytes / (1u64 << 30) as f64;
    if let Some(line) = found.line.as_ref().filter(|l| l.refused.is_none()) {
        let text = format!(
            "{} GiB + {} GiB for each X",
            number(gib(line.intercept), 2),
            number(gib(line.slope), 4)
        );
        kit::rich(ui, &[kit::Span::new(text, fonts::title(), t.strong)]);
        ui.add_space(4.0);
    }
    let cards: Vec<_> = found
        .cards
        .iter()
        .map(|(name, usable, _)| (name.clone(), *usable))
        .collect();
    if let Some(chart) = calibration_chart(&found.points, found.line.as_ref(), &cards) {
        plot(ui, &chart, &t);
        tables(ui, &found, &t);
    }
}

fn field(ui: &mut Ui, cx: &mut Cx<'_>) {
    let rect = kit::form_row(ui, "Points", 56.0);
    let room = rect.with_max_x(rect.right() - 132.0);
    let text = cx.state.document.points.clone();
    if let Some(typed) = kit::edit(ui, room, "Measured points", &text, Align::Min, false) {
        cx.send(Command::SetPoints(typed));
    }
    if text.is_empty() {
        let t = Theme::of(ui.ctx());
        ui.painter().text(
            room.left_center() + vec2(8.0, 0.0),
            Align2::LEFT_CENTER,
            "64=10.6 GiB, 100=22 GiB, 192=44 GiB",
            fonts::body(),
            t.secondary,
        );
    }
    let none = cx
        .state
        .measured_point()
        .is_none()
        .then_some("nothing has been run yet");
    let at = rect
        .with_min_x(rect.right() - 124.0)
        .expand2(vec2(0.0, 2.0));
    if kit::button(ui, at, "Add last run", kit::Look::Plain, none).clicked() {
        cx.send(Command::AddMeasuredPoint);
    }
    ui.add_space(6.0);
}

fn plot(ui: &mut Ui, chart: &CalibrationChart, t: &Theme) {
    let (area, response) =
        ui.allocate_exact_size(vec2(ui.available_width(), 250.0), Sense::hover());
    response.widget_info(|| {
        let text = format!(
            "{} measured points and the line through them",
            chart.points.len()
        );
        WidgetInfo::labeled(Role::Image, true, text)
    });
    let plot = Rect::from_min_max(area.min + vec2(60.0, 12.0), area.max - vec2(120.0, 42.0));
    let [low, high] = chart.y;
    let at = |[x, y]: [f64; 2]| -> Pos2 {
        pos2(
            egui::lerp(plot.x_range(), f(x / chart.x_max)),
            egui::lerp(plot.bottom()..=plot.top(), f((y - low) / (high - low))),
        )
    };
    let p = ui.painter();
    let text = |at: Pos2, align: Align2, text: &str| {
        p.text(at, align, text, fonts::caption(), t.secondary);
    };
    let step = |ticks: &[f64]| ticks.windows(2).map(|w| w[1] - w[0]).next().unwrap_or(1.0);
    for &tick in &chart.y_ticks {
        let y = at([0.0, tick]).y.round() + 0.5;
        p.hline(plot.x_range(), y, Stroke::new(1.0, t.line));
        let words = tick_text(tick, step(&chart.y_ticks));
        text(pos2(plot.left() - 8.0, y), Align2::RIGHT_CENTER, &words);
    }
    for &tick in &chart.x_ticks {
        let x = at([tick, low]).x;
        let words = tick_text(tick, step(&chart.x_ticks));
        text(pos2(x, plot.bottom() + 12.0), Align2::CENTER_CENTER, &words);
    }
    let below = pos2(plot.center().x, plot.bottom() + 30.0);
    text(below, Align2::CENTER_CENTER, "X");
    let title = p.layout_no_wrap("measured, GiB".to_owned(), fonts::caption(), t.secondary);
    let left = pos2(area.left() + 12.0, plot.center().y + title.size().x / 2.0);
    p.add(
        egui::epaint::TextShape::new(left, title, t.secondary)
            .with_angle(-std::f32::consts::FRAC_PI_2),
    );
    let mut lowest = f32::INFINITY;
    for (name, usable) in &chart.cards {
        let y = at([0.0, *usable]).y;
        let line = [pos2(plot.left(), y), pos2(plot.right(), y)];
        p.extend(Shape::dashed_line(
            &line,
            Stroke::new(1.0, t.strong),
            6.0,
            4.0,
        ));
        if lowest - y >= 14.0 {
            let end = pos2(plot.right() + 6.0, y);
            p.text(end, Align2::LEFT_CENTER, name, fonts::caption(), t.text);
            lowest = y;
        }
    }
    if let Some(ends) = chart.line {
        let ink = if chart.refused {
            t.over
        } else {
            t.legible(hue::REFERENCE)
        };
        let line = ends.map(at);
        for point in &chart.points {
            let [a, b] = ends;
            let on = a[1] + (b[1] - a[1]) * (point[0] - a[0]) / (b[0] - a[0]);
            p.line_segment(
                [at(*point), at([point[0], on])],
                Stroke::new(1.0, t.secondary),
            );
        }
        if chart.refused {
            p.extend(Shape::dashed_line(&line, Stroke::new(2.0, ink), 6.0, 4.0));
        } else {
            p.line_segment(line, Stroke::new(2.0, ink));
        }
    }
    for point in &chart.points {
        p.circle(at(*point), 5.0, t.strong, Stroke::new(1.0, t.panel));
    }
}

/// Residuals at the left, the largest X for each card at the right.
fn tables(ui: &mut Ui, found: &calibration::Calibrated, t: &Theme) {
    let width = ui.available_width();
    let rows = found.points.len().max(found.cards.len()) + 1;
    let height = 20.0 * f(rows as f64);
    let (area, _) = ui.allocate_exact_size(vec2(width, height), Sense::hover());
    let mut cell = |row: usize, [from, to]: [f32; 2], align: Align2, text: &str, head: bool| {
        let r = Rect::from_min_max(
            pos2(area.left() + from, area.top() + 20.0 * row as f32),
            pos2(area.left() + to, area.top() + 20.0 * (row as f32 + 1.0)),
        );
        let ink = if head { t.secondary } else { t.text };
        kit::text_in(ui, r, align, text, fonts::caption(), ink);
    };
    let right = Align2::RIGHT_CENTER;
    let columns = [[12.0, 72.0], [72.0, 160.0], [160.0, 248.0], [248.0, 336.0]];
    let heads = ["X", "measured GiB", "line GiB", "residual GiB"];
    for (column, head) in columns.into_iter().zip(heads) {
        cell(0, column, right, head, true);
    }
    let gib = |bytes: f64| number(bytes / (1u64 << 30) as f64, 2);
    for (i, p) in found.points.iter().enumerate() {
        let residual = found
            .line
            .as_ref()
            .and_then(|l| l.residuals.get(i).copied());
        let dash = || "\u{2014}".to_owned();
        let texts = [
            format!("{}", p.x),
            gib(p.bytes),
            residual.map_or_else(dash, |r| gib(p.bytes - r)),
            residual.map_or_else(dash, gib),
        ];
        for (column, text) in columns.into_iter().zip(texts) {
            cell(i + 1, column, right, &text, false);
        }
    }
    let (names, numbers) = ([380.0, 520.0], [520.0, width - 12.0]);
    cell(0, names, Align2::LEFT_CENTER, "card", true);
    cell(0, numbers, right, "largest X", true);
    for (i, (name, _, largest)) in found.cards.iter().enumerate() {
        cell(i + 1, names, Align2::LEFT_CENTER, name, false);
        let text = largest.map_or_else(|| "\u{2014}".to_owned(), with_thousands);
        cell(i + 1, numbers, right, &text, false);
    }
}
