//! What fits: the surface of rois, lines of cards, this plan and the largest roi; a click or the arrow keys plan another.

use super::budget_plot::color;
use crate::app::Command;
use crate::report::FitsChart;
use crate::report::fits::{FitsCell, FitsMark, Y_TITLE};
use crate::report::ink;
use crate::ui::paint::{self, f};
use crate::ui::theme::{Theme, black};
use crate::ui::{Cx, fonts, kit};
use eframe::egui::{
    self, Align2, Color32, Mesh, Pos2, Rect, Response, Sense, Shape, Stroke, StrokeKind, Ui,
    WidgetInfo, accesskit::Role, pos2, vec2,
};

/// Where the plot lies and how it maps.
struct Place {
    plot: Rect,
    edges: [f64; 4],
}

impl Place {
    fn at(&self, [x, y]: [f64; 2]) -> Pos2 {
        let [x0, x1, y0, y1] = self.edges;
        let share = |v: f64, a: f64, b: f64| f((v - a) / (b - a).max(1e-9));
        pos2(
            egui::lerp(self.plot.x_range(), share(x, x0, x1)),
            egui::lerp(self.plot.bottom()..=self.plot.top(), share(y, y0, y1)),
        )
    }

    fn from(&self, p: Pos2) -> [f64; 2] {
        let [x0, x1, y0, y1] = self.edges;
        let x = f64::from((p.x - self.plot.left()) / self.plot.width());
        let y = f64::from((self.plot.bottom() - p.y) / self.plot.height());
        [x0 + x * (x1 - x0), y0 + y * (y1 - y0)]
    }
}

/// Draws heading and plot.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let head = kit::heading(ui, "What fits", "", "");
    let Some(charts) = cx.local.charts.take() else {
        kit::caption(ui, "Every roi on each card, once a network is chosen");
        return;
    };
    if let Some(chart) = &charts.fits {
        scale(ui, head, chart, &t);
        draw(ui, chart, cx, &t);
    } else {
        kit::caption(ui, "Planning every roi\u{2026}");
    }
    cx.local.charts = Some(charts);
}

/// At the right of the heading: what the colours say.
fn scale(ui: &Ui, head: Rect, chart: &FitsChart, t: &Theme) {
    let p = ui.painter();
    let [least, most] = chart.scale_text();
    let text = |right: f32, text: String| {
        let at = pos2(right, head.center().y);
        let r = p.text(
            at,
            Align2::RIGHT_CENTER,
            text,
            fonts::caption(),
            t.secondary,
        );
        r.left()
    };
    let right = text(head.right() - 12.0, format!("{most} GiB"));
    let bar = Rect::from_min_max(
        pos2(right - 6.0 - 56.0, head.center().y - 5.0),
        pos2(right - 6.0, head.center().y + 5.0),
    );
    let mut mesh = Mesh::default();
    for i in 0..14 {
        let part = Rect::from_min_size(bar.min + vec2(i as f32 * 4.0, 0.0), vec2(4.0, 10.0));
        mesh.add_colored_rect(part, color(ink::viridis(f64::from(i) / 13.0)));
    }
    p.add(Shape::mesh(mesh));
    let wide = head.width() > 340.0;
    let words = if wide { "cell: worst case, log, " } else { "" };
    text(bar.left() - 6.0, format!("{words}{least}"));
}

fn draw(ui: &mut Ui, chart: &FitsChart, cx: &mut Cx<'_>, t: &Theme) {
    let area = ui.available_rect_before_wrap();
    let place = Place {
        plot: Rect::from_min_max(area.min + vec2(62.0, 8.0), area.max - vec2(56.0, 46.0)),
        edges: chart.edges,
    };
    if place.plot.width() < 60.0 || place.plot.height() < 40.0 {
        return;
    }
    axes(ui, area, &place, chart, t);
    let mut mesh = Mesh::default();
    for cell in &chart.cells {
        let [a, b, low, high] = cell.edges;
        // Whole points, so that every gap looks alike.
        let r = Rect::from_two_pos(place.at([a, low]).round(), place.at([b, high]).round());
        mesh.add_colored_rect(
            Rect::from_min_max(r.min, r.max - vec2(0.5, 0.5)),
            color(cell.fill),
        );
    }
    ui.painter().add(Shape::mesh(mesh));
    lines(ui, &place, chart, t);
    words(ui, &place, chart);
    marks(ui, &place, chart);
    act(ui, &place, chart, cx, t);
}

fn axes(ui: &Ui, area: Rect, place: &Place, chart: &FitsChart, t: &Theme) {
    let (p, plot) = (ui.painter(), place.plot);
    let text = |at: Pos2, align: Align2, text: &str| {
        p.text(at, align, text, fonts::caption(), t.secondary);
    };
    let [x0, _, y0, _] = chart.edges;
    let mut above = f32::INFINITY;
    for tick in &chart.y_ticks {
        let at = place.at([x0, *tick as f64]);
        if above - at.y >= 15.0 {
            text(at - vec2(8.0, 0.0), Align2::RIGHT_CENTER, &tick.to_string());
            above = at.y;
        }
    }
    let mut before = f32::NEG_INFINITY;
    for tick in &chart.x_ticks {
        let at = place.at([*tick as f64, y0]);
        if at.x - before >= 30.0 {
            text(
                at + vec2(0.0, 14.0),
                Align2::CENTER_CENTER,
                &tick.to_string(),
            );
            before = at.x;
        }
    }
    let below = pos2(plot.center().x, plot.bottom() + 34.0);
    text(below, Align2::CENTER_CENTER, chart.x_title);
    let title = p.layout_no_wrap(Y_TITLE.to_owned(), fonts::caption(), t.secondary);
    let at = pos2(area.left() + 8.0, plot.center().y + title.size().x / 2.0);
    p.add(
        egui::epaint::TextShape::new(at, title, t.secondary)
            .with_angle(-std::f32::consts::FRAC_PI_2),
    );
}

/// Lines of cards, the one in focus last and thicker, each named at its right end.
fn lines(ui: &Ui, place: &Place, chart: &FitsChart, t: &Theme) {
    let inside = ui.painter().with_clip_rect(place.plot);
    for focus in [false, true] {
        for line in chart.lines.iter().filter(|l| l.focus == focus) {
            let points: Vec<Pos2> = line.points.iter().map(|p| place.at(*p)).collect();
            let [under, over] = if focus { [5.0, 3.0] } else { [3.5, 1.5] };
            inside.add(Shape::line(points.clone(), Stroke::new(under, black(0.6))));
            inside.add(Shape::line(points, Stroke::new(over, Color32::WHITE)));
        }
    }
    let mut lowest = f32::NEG_INFINITY;
    for line in chart.lines.iter().rev() {
        let Some(end) = line.points.last().map(|p| place.at(*p)) else {
            continue;
        };
        let at = pos2(place.plot.right() + 6.0, end.y.max(lowest + 14.0));
        if at.y > place.plot.bottom() + 8.0 {
            continue;
        }
        lowest = at.y;
        let (font, ink) = if line.focus {
            (fonts::caption_bold(), t.strong)
        } else {
            (fonts::caption(), t.text)
        };
        if end.distance(at) > 14.0 {
            let leader = [end, at - vec2(2.0, 0.0)];
            ui.painter()
                .extend(Shape::dashed_line(&leader, Stroke::new(1.0, ink), 1.0, 3.0));
        }
        ui.painter()
            .text(at, Align2::LEFT_CENTER, &line.name, font, ink);
    }
}

/// Says on which side of the line of the card in focus it fits.
fn words(ui: &Ui, place: &Place, chart: &FitsChart) {
    let p = ui.painter().with_clip_rect(place.plot);
    let say = |at: Pos2, text: &str| {
        let colors = [Color32::WHITE, black(0.75)];
        paint::cased(
            &p,
            at,
            Align2::CENTER_CENTER,
            text,
            fonts::caption_bold(),
            colors,
        );
    };
    let plot = place.plot;
    if plot.height() < 140.0 {
        return;
    }
    let fits = format!("fits on {}", chart.card);
    let Some(line) = chart.lines.iter().find(|l| l.focus) else {
        let all = chart
            .cells
            .iter()
            .all(|c| c.gib.is_some_and(|g| g[1] <= chart.free));
        let text = if all {
            format!("every roi {fits}")
        } else {
            format!("no roi {fits}")
        };
        say(
            plot.left_bottom() + vec2(plot.width() * 0.4, -plot.height() * 0.25),
            &text,
        );
        return;
    };
    let middle = line.points[line.points.len() / 2];
    let middle = place.at(middle);
    let (low, high) = (plot.left_bottom(), plot.right_top());
    let room = middle - low;
    if room.x > 70.0 && -room.y > 40.0 {
        say(low + room * 0.5, &fits);
    }
    let room = high - middle;
    let at = middle + room * 0.45;
    let apart = (at - place.at(chart.plan.at)).abs();
    if room.x > 50.0 && -room.y > 40.0 && (apart.x > 64.0 || apart.y > 44.0) {
        say(at, "over");
    }
}

/// This plan as a square, the largest roi as a disc, both with a tag.
fn marks(ui: &Ui, place: &Place, chart: &FitsChart) {
    let p = ui.painter();
    let mut taken: Option<Rect> = None;
    let both = [(Some(&chart.plan), true), (chart.largest.as_ref(), false)];
    for (mark, square) in both {
        let Some(FitsMark { at, text, .. }) = mark else {
            continue;
        };
        let at = place.at(*at).clamp(place.plot.min, place.plot.max);
        for stroke in [
            Stroke::new(5.0, black(0.6)),
            Stroke::new(2.0, Color32::WHITE),
        ] {
            if square {
                let r = Rect::from_center_size(at, vec2(18.0, 18.0));
                p.rect_stroke(r, 0, stroke, StrokeKind::Middle);
            } else {
                p.circle_stroke(at, 6.5, stroke);
            }
        }
        if !square {
            p.circle_filled(at, 2.0, Color32::WHITE);
        }
        let wide = paint::tag_width(p, text);
        let left = (at.x - wide / 2.0).clamp(
            place.plot.left() + 2.0,
            (place.plot.right() - wide - 2.0).max(place.plot.left() + 2.0),
        );
        let below = Rect::from_min_size(pos2(left, at.y + 13.0), vec2(wide, 18.0));
        let above = below.translate(vec2(0.0, -44.0));
        let free = |r: &Rect| {
            taken.is_none_or(|o: Rect| !o.intersects(*r))
                && place.plot.expand(2.0).contains_rect(*r)
        };
        let lower = below.translate(vec2(0.0, 22.0));
        let Some(r) = [below, above, lower].into_iter().find(free) else {
            continue;
        };
        taken = Some(paint::tag(p, r.min, text, Color32::WHITE));
    }
}

/// Hover, click and arrow keys.
fn act(ui: &mut Ui, place: &Place, chart: &FitsChart, cx: &mut Cx<'_>, t: &Theme) {
    let response = ui.interact(place.plot, ui.scope_id().with("fits"), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, spoken(chart)));
    if response.has_focus() {
        ui.painter().rect_stroke(
            place.plot,
            0,
            Stroke::new(2.0, t.strong),
            StrokeKind::Outside,
        );
    }
    let stepped = stepped(ui, &response, chart);
    let hovered = response
        .hover_pos()
        .and_then(|p| chart.cell_at(place.from(p)));
    if let Some(cell) = hovered {
        card(ui, place, chart, cell, t);
    }
    let clicked = if response.clicked() { hovered } else { None };
    if let Some(cell) = clicked.or(stepped) {
        let size = cell.roi.to_array();
        cx.send(Command::SetRoi(
            size.map(|n| i64::try_from(n).unwrap_or(i64::MAX)),
        ));
        if let Some(batch) = cell.batch {
            cx.send(Command::SetBatch(batch));
        }
    }
}

fn spoken(chart: &FitsChart) -> String {
    let gib = chart
        .cell_at(chart.plan.at)
        .and_then(|c| c.gib)
        .map_or_else(String::new, |g| format!(", at worst {:.2} GiB", g[1]));
    let largest = chart.largest.as_ref().map_or_else(
        || format!("no roi fits {}", chart.card),
        |l| format!("{}: {}", l.text, l.roi),
    );
    format!("What fits: this plan {}{gib}; {largest}", chart.plan.roi)
}

/// The neighbour that arrow keys ask for: up and down in x = y, left and right in slices.
fn stepped<'a>(ui: &Ui, response: &Response, chart: &'a FitsChart) -> Option<&'a FitsCell> {
    if !response.has_focus() {
        return None;
    }
    ui.memory_mut(|m| {
        m.set_focus_lock_filter(
            response.id,
            egui::EventFilter {
                horizontal_arrows: true,
                vertical_arrows: true,
                ..Default::default()
            },
        );
    });
    let [left, right, up, down] = ui.input(|i| {
        [
            egui::Key::ArrowLeft,
            egui::Key::ArrowRight,
            egui::Key::ArrowUp,
            egui::Key::ArrowDown,
        ]
        .map(|k| i.key_pressed(k))
    });
    let here = chart.cell_at(chart.plan.at)?;
    let at = chart.cells.iter().position(|c| c == here)?;
    let n = chart.columns;
    let to = match (left, right, up, down) {
        (true, ..) if at % n > 0 => at - 1,
        (_, true, ..) if at % n + 1 < n => at + 1,
        (_, _, true, _) => at + n,
        (.., true) => at.checked_sub(n)?,
        _ => return None,
    };
    chart.cells.get(to)
}

/// What the cell under the pointer asks for.
fn card(ui: &mut Ui, place: &Place, chart: &FitsChart, cell: &FitsCell, t: &Theme) {
    let [a, b, low, high] = cell.edges;
    let r = Rect::from_two_pos(place.at([a, low]), place.at([b, high]));
    ui.painter()
        .rect_stroke(r, 0, Stroke::new(1.5, Color32::WHITE), StrokeKind::Middle);
    let size = vec2(186.0, 66.0);
    let plot = place.plot;
    let left = if r.right() + 8.0 + size.x < plot.right() + 50.0 {
        r.right() + 8.0
    } else {
        (r.left() - 8.0 - size.x).max(plot.left() - 50.0)
    };
    let top = r
        .top()
        .clamp(plot.top(), (plot.bottom() - size.y).max(plot.top()));
    let card = Rect::from_min_size(pos2(left, top), size);
    let border = Stroke::new(1.0, t.line_strong);
    ui.painter()
        .rect(card, 4, t.raised, border, StrokeKind::Inside);
    let line = |n: f32| {
        Rect::from_min_size(
            card.min + vec2(10.0, 5.0 + 18.0 * n),
            vec2(size.x - 20.0, 18.0),
        )
    };
    let batch = cell
        .batch
        .map_or_else(String::new, |n| format!(", batch {n}"));
    let title = format!("{}{batch}", paint::times(cell.roi));
    let left = Align2::LEFT_CENTER;
    kit::text_in(ui, line(0.0), left, &title, fonts::caption_bold(), t.strong);
    let Some([least, most]) = cell.gib else {
        let text = &chart.no_plan;
        kit::text_in(ui, line(1.0), left, text, fonts::caption(), t.text);
        return;
    };
    let need = if most - least > 0.005 {
        format!("{least:.2} to {most:.2} GiB")
    } else {
        format!("{most:.2} GiB")
    };
    kit::text_in(ui, line(1.0), left, &need, fonts::caption(), t.text);
    if let Some(v) = cell.verdict {
        let (mark, status, word) = paint::verdict(t, v);
        let row = line(2.0);
        paint::mark(
            ui.painter(),
            row.left_center() + vec2(5.0, 0.0),
            9.0,
            mark,
            status,
        );
        let spare = chart.free - most;
        let text = if spare < 0.0 {
            format!("{word} on {}, {:.2} over", chart.card, -spare)
        } else {
            format!("{word} on {}, {spare:.2} spare", chart.card)
        };
        let room = row.with_min_x(row.left() + 15.0);
        kit::text_in(ui, room, left, &text, fonts::caption(), status);
    }
}
