//! Draws points against two axes, as the SVG of the same chart does.

use super::fonts;
use super::paint::f;
use super::theme::Theme;
use crate::report::scatter::{Scatter, ScatterPoint, Shape, place_names};
use eframe::egui::{
    self, Align2, Color32, Pos2, Rect, Sense, Stroke, Ui, WidgetInfo, accesskit::Role, pos2, vec2,
};

/// Draws the chart; returns the id of a point that was clicked. The point of `focus` wears a ring.
pub(super) fn show(ui: &Ui, area: Rect, chart: &Scatter, focus: Option<&str>) -> Option<String> {
    let t = Theme::of(ui.ctx());
    let response = ui.interact(area, ui.scope_id().with(&chart.title), Sense::click());
    response.widget_info(|| {
        let text = format!(
            "{}: {} points, {} against {}",
            chart.title,
            chart.points.len(),
            chart.y.title,
            chart.x.title
        );
        WidgetInfo::labeled(Role::Image, true, text)
    });
    let plot = Rect::from_min_max(area.min + vec2(72.0, 24.0), area.max - vec2(28.0, 48.0));
    if plot.width() < 80.0 || plot.height() < 60.0 {
        return None;
    }
    let at = |p: [f64; 2]| -> Pos2 {
        pos2(
            egui::lerp(plot.x_range(), f(chart.x.share(p[0]))),
            egui::lerp(plot.bottom()..=plot.top(), f(chart.y.share(p[1]))),
        )
    };
    axes(ui, chart, area, plot, &t);
    let color = |[r, g, b]: [u8; 3]| t.legible(Color32::from_rgb(r, g, b));
    let painter = ui.painter().clone();
    for line in &chart.lines {
        let points: Vec<Pos2> = line.points.iter().map(|p| at(*p)).collect();
        let stroke = Stroke::new(2.0, color(line.color));
        if line.dashed {
            painter.extend(egui::Shape::dashed_line(&points, stroke, 6.0, 4.0));
        } else {
            painter.line(points, stroke);
        }
    }
    for p in &chart.points {
        point(&painter, p, at(p.at), color(p.color), &t);
        if focus == Some(p.id.as_str()) {
            painter.circle_stroke(at(p.at), 10.0, Stroke::new(2.0, t.strong));
        }
    }
    names(&painter, chart, focus, plot, &at, &t);
    let near = response.hover_pos().and_then(|mouse| {
        let far = |p: &ScatterPoint| at(p.at).distance(mouse);
        let nearest = chart
            .points
            .iter()
            .min_by(|a, b| far(a).total_cmp(&far(b)))?;
        (far(nearest) < 14.0).then_some(nearest)
    })?;
    let clicked = response.clicked().then(|| near.id.clone());
    let words = format!(
        "{}\n{}: {}\n{}: {}",
        near.text,
        chart.x.title,
        crate::units::number(near.at[0], if near.at[0] < 100.0 { 2 } else { 0 }),
        chart.y.title,
        crate::units::number(near.at[1], if near.at[1] < 100.0 { 3 } else { 0 }),
    );
    response.on_hover_text_at_pointer(words);
    clicked
}

fn axes(ui: &Ui, chart: &Scatter, area: Rect, plot: Rect, t: &Theme) {
    let p = ui.painter();
    let text = |at: Pos2, align: Align2, text: &str, color| {
        p.text(at, align, text, fonts::caption(), color);
    };
    for (v, word) in &chart.y.ticks {
        let y = egui::lerp(plot.bottom()..=plot.top(), f(chart.y.share(*v))).round() + 0.5;
        p.hline(plot.x_range(), y, Stroke::new(1.0, t.line));
        let left = pos2(plot.left() - 8.0, y);
        text(left, Align2::RIGHT_CENTER, word, t.secondary);
    }
    for (v, word) in &chart.x.ticks {
        let x = egui::lerp(plot.x_range(), f(chart.x.share(*v))).round() + 0.5;
        p.vline(
            x,
            plot.bottom()..=plot.bottom() + 4.0,
            Stroke::new(1.0, t.line_strong),
        );
        let below = pos2(x, plot.bottom() + 13.0);
        text(below, Align2::CENTER_CENTER, word, t.secondary);
    }
    for (name, v) in &chart.uprights {
        let x = egui::lerp(plot.x_range(), f(chart.x.share(*v))).round() + 0.5;
        p.vline(x, plot.y_range(), Stroke::new(1.0, t.strong));
        let above = pos2(x, plot.top() - 9.0);
        text(above, Align2::CENTER_CENTER, name, t.strong);
    }
    let below = pos2(plot.center().x, plot.bottom() + 32.0);
    text(below, Align2::CENTER_CENTER, &chart.x.title, t.secondary);
    let title = p.layout_no_wrap(chart.y.title.clone(), fonts::caption(), t.secondary);
    let left = pos2(area.left() + 10.0, plot.center().y + title.size().x / 2.0);
    p.add(
        egui::epaint::TextShape::new(left, title, t.secondary)
            .with_angle(-std::f32::consts::FRAC_PI_2),
    );
}

fn point(painter: &egui::Painter, p: &ScatterPoint, at: Pos2, color: Color32, t: &Theme) {
    let casing = Stroke::new(1.0, t.panel);
    match p.shape {
        Shape::Disc => {
            painter.circle(at, 5.0, color, casing);
        }
        Shape::Hollow => {
            painter.circle(at, 4.5, t.panel, Stroke::new(1.5, color));
        }
        Shape::Target => {
            painter.circle(at, 6.0, t.panel, Stroke::new(2.0, color));
            painter.circle_filled(at, 2.5, color);
        }
        Shape::Diamond => {
            let corners = [(0.0, -6.0), (6.0, 0.0), (0.0, 6.0), (-6.0, 0.0)];
            let corners = corners.map(|(x, y)| at + vec2(x, y)).to_vec();
            painter.add(egui::Shape::convex_polygon(corners, color, casing));
        }
        Shape::Cross => {
            for (a, b) in [((-4.5, -4.5), (4.5, 4.5)), ((-4.5, 4.5), (4.5, -4.5))] {
                let line = [at + vec2(a.0, a.1), at + vec2(b.0, b.1)];
                painter.line_segment(line, Stroke::new(2.5, color));
            }
        }
    }
}

/// Names beside their points where there is room, those that matter first; a line's name at its end.
fn names(
    painter: &egui::Painter,
    chart: &Scatter,
    focus: Option<&str>,
    plot: Rect,
    at: &impl Fn([f64; 2]) -> Pos2,
    t: &Theme,
) {
    let color = |[r, g, b]: [u8; 3]| t.legible(Color32::from_rgb(r, g, b));
    let lay = |text: &str, bold: bool, color: Color32| {
        let font = if bold {
            fonts::caption_bold()
        } else {
            fonts::caption()
        };
        painter.layout_no_wrap(text.to_owned(), font, color)
    };
    let points = chart.points.iter().map(|p| {
        let strong = p.strong || focus == Some(p.id.as_str());
        let ink = if strong { t.strong } else { t.secondary };
        (at(p.at), lay(&p.text, strong, ink), strong)
    });
    let ends = chart.lines.iter().filter_map(|l| {
        let end = at(*l.points.last()?);
        Some((end, lay(&l.name, true, color(l.color)), true))
    });
    let all: Vec<_> = points.chain(ends).collect();
    let boxes: Vec<([f64; 2], f64, bool)> = all
        .iter()
        .map(|(p, g, strong)| {
            let at = [f64::from(p.x), f64::from(p.y)];
            (at, f64::from(g.size().x), *strong)
        })
        .collect();
    let room = [
        plot.left(),
        plot.top() - 16.0,
        plot.right() + 24.0,
        plot.bottom(),
    ];
    let places = place_names(&boxes, room.map(f64::from));
    for ((_, galley, _), place) in all.into_iter().zip(places) {
        let Some([x, y]) = place else { continue };
        let corner = pos2(f(x), f(y) - galley.size().y / 2.0);
        let back = Rect::from_min_size(corner, galley.size()).expand2(vec2(2.0, 0.0));
        painter.rect_filled(back, 0, t.panel);
        painter.galley(corner, galley, t.text);
    }
}
