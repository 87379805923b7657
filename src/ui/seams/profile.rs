//! Curves across the seam in focus: the run dashed, the reference solid, each window dotted; below, how far run and reference differ.

use super::axes::{Axes, facts, ticks};
use super::figure;
use crate::app::seams::{Curve, Profile, SeamRow, Whose};
use crate::ui::theme::{Theme, hue};
use crate::ui::{Cx, fonts, kit, paint};
use eframe::egui::{
    Align2, Color32, Pos2, Rect, Shape, Stroke, Ui, WidgetInfo, accesskit::Role, pos2, vec2,
};
use std::sync::Arc;

/// Most windows whose own curves are drawn: those that end or begin nearest to the seam.
const MOST_WINDOWS: usize = 4;

/// Draws the panel.
pub(super) fn show(ui: &mut Ui, cx: &Cx<'_>) {
    let row = cx.state.seam_in_focus().cloned();
    let name = row.as_ref().map_or_else(String::new, |r| {
        format!("{} = {}", r.record.axis.name(), r.record.at)
    });
    let profile = match &cx.state.seams.profile {
        Some(Ok(p)) => Some(Arc::clone(p)),
        _ => None,
    };
    let right = profile.as_ref().map_or_else(String::new, |p| line(cx, p));
    kit::heading(ui, "Profile across", &name, &right);
    let (Some(row), Some(profile)) = (row, profile) else {
        let why = match &cx.state.seams.profile {
            Some(Err(why)) => why.clone(),
            _ => "A run over more than one window fills this plot".to_owned(),
        };
        kit::hint(ui, &why);
        if let Some(row) = cx
            .state
            .seam_in_focus()
            .filter(|_| cx.state.outcome.is_some())
        {
            ui.add_space(8.0);
            let t = Theme::of(ui.ctx());
            let area = ui.available_rect_before_wrap().shrink2(vec2(12.0, 0.0));
            facts(ui, area, &known(cx, row, None), &t);
        }
        return;
    };
    if !profile.why_no_windows.is_empty() {
        kit::caption(ui, profile.why_no_windows);
    }
    plots(ui, cx, &row, &profile);
}

/// "line through x 182, y 276".
fn line(cx: &Cx<'_>, p: &Profile) -> String {
    let at = cx.state.view.crosshair;
    let others: Vec<String> = crate::geometry::Axis::ALL
        .into_iter()
        .filter(|a| *a != p.axis)
        .map(|a| format!("{} {:.0}", a.name(), at[a.index()]))
        .collect();
    format!(
        "line through {} \u{b7} moves with the crosshair",
        others.join(", ")
    )
}

fn plots(ui: &Ui, cx: &Cx<'_>, row: &SeamRow, p: &Profile) {
    let t = Theme::of(ui.ctx());
    let area = ui.available_rect_before_wrap();
    let side = if area.width() > 560.0 { 140.0 } else { 16.0 };
    let inner = Rect::from_min_max(area.min + vec2(84.0, 30.0), area.max - vec2(side, 44.0));
    if inner.height() < 60.0 {
        return;
    }
    let reference = p.curves.iter().find(|c| c.whose == Whose::Reference);
    let (upper, lower) = if reference.is_some() {
        let split = inner.top() + inner.height() * 0.68;
        (
            inner.with_max_y(split),
            Some(inner.with_min_y(split + 26.0)),
        )
    } else {
        (inner, None)
    };
    let shown = drawn(p);
    let most = shown
        .iter()
        .flat_map(|c| &c.points)
        .map(|q| q[1])
        .filter(|v| v.is_finite())
        .fold(0.0, f64::max);
    let top = [0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0]
        .into_iter()
        .find(|y| most <= *y)
        .unwrap_or(1.0);
    let axes = Axes {
        plot: upper,
        x: p.span,
        y: [0.0, top],
    };
    windows(ui, &axes, p, &shown, &t);
    let rows: Vec<(f64, String)> = (0..=4_u8)
        .map(|i| {
            let v = top * f64::from(i) / 4.0;
            (v, paint::number(v, if top < 0.1 { 4 } else { 2 }))
        })
        .collect();
    axes.rows(ui.painter(), &rows, &t);
    let mut taken = face(ui, &axes, p, lower, &t);
    // The nth window of the line has the nth colour.
    let color = |whose: Whose| match whose {
        Whose::Tiled => hue::TILED,
        Whose::Reference => hue::REFERENCE,
        Whose::Window(w) => {
            let nth = p.windows.iter().position(|(i, _)| *i == w);
            ALONE[nth.unwrap_or(0) % ALONE.len()]
        }
    };
    for c in shown.iter().rev() {
        curve(ui, &axes, c, color(c.whose));
    }
    for c in &shown {
        name(ui, &axes, c, t.legible(color(c.whose)), &t, &mut taken);
    }
    let bottom = match (lower, reference) {
        (Some(rect), Some(r)) => difference(ui, rect, p, r, &t),
        _ => axes,
    };
    bottom.columns(ui.painter(), &ticks(p.span, 8.0), &t);
    let title = format!("voxel along {} of the loaded volume", p.axis.name());
    bottom.titles(ui.painter(), &title, "", &t);
    axes_title(ui, &axes, &p.output, &t);
    if side > 100.0 {
        let column = Rect::from_min_max(
            pos2(inner.right() + 14.0, inner.top() - 16.0),
            pos2(area.right() - 4.0, area.bottom()),
        );
        facts(ui, column, &known(cx, row, p.step), &t);
    }
    spoken(ui, inner, p, row);
}

/// A sentence for screen readers in place of the plot.
fn spoken(ui: &Ui, rect: Rect, p: &Profile, row: &SeamRow) {
    let id = ui.scope_id().with("profile");
    let text = format!(
        "Scores across seam {} = {}: {} curves, step at the seam {}",
        row.record.axis.name(),
        row.record.at,
        p.curves.len(),
        figure(p.step)
    );
    let response = ui.interact(rect, id, eframe::egui::Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, &text));
}

fn axes_title(ui: &Ui, axes: &Axes, output: &str, t: &Theme) {
    let y = if output.is_empty() {
        "score".to_owned()
    } else {
        format!("score of {output}")
    };
    axes.titles(ui.painter(), "", &y, t);
}

/// The curves that are drawn: run and reference, and the windows nearest to the seam.
fn drawn(p: &Profile) -> Vec<&Curve> {
    let far = |w: usize| {
        let ends = p.windows.iter().find(|(i, _)| *i == w).map(|(_, e)| *e);
        // Those that reach the seam first, then by how near they end.
        ends.map_or(f64::INFINITY, |e| {
            let beside = if e[0] <= p.face + 1.0 && p.face - 1.0 <= e[1] {
                0.0
            } else {
                1e6
            };
            beside + (e[0] - p.face).abs().min((e[1] - p.face).abs())
        })
    };
    let mut alone: Vec<(f64, &Curve)> = p
        .curves
        .iter()
        .filter_map(|c| match c.whose {
            Whose::Window(w) => Some((far(w), c)),
            _ => None,
        })
        .collect();
    alone.sort_by(|x, y| x.0.total_cmp(&y.0));
    let whole = p
        .curves
        .iter()
        .filter(|c| !matches!(c.whose, Whose::Window(_)));
    let mut out: Vec<&Curve> = whole.collect();
    out.extend(alone.into_iter().take(MOST_WINDOWS).map(|(_, c)| c));
    out
}

const ALONE: [Color32; 4] = [
    hue::WEIGHTS_TEXT,
    hue::STITCHED_TEXT,
    hue::INPUT,
    hue::STEM_TEXT,
];

/// Where the windows of the drawn curves overlap.
fn windows(ui: &Ui, axes: &Axes, p: &Profile, shown: &[&Curve], t: &Theme) {
    let of = |c: &&Curve| match c.whose {
        Whose::Window(w) => p.windows.iter().find(|(i, _)| *i == w).map(|(_, e)| *e),
        _ => None,
    };
    let spans: Vec<[f64; 2]> = shown.iter().filter_map(of).collect();
    for (i, a) in spans.iter().enumerate() {
        for b in &spans[i + 1..] {
            let both = [a[0].max(b[0]).max(p.span[0]), a[1].min(b[1]).min(p.span[1])];
            if both[0] < both[1] && a != b {
                let band =
                    Rect::from_x_y_ranges(axes.x(both[0])..=axes.x(both[1]), axes.plot.y_range());
                let painter = ui.painter().with_clip_rect(axes.plot);
                paint::hatch(&painter, band, 8.0, Stroke::new(1.0, t.line));
            }
        }
    }
}

/// The seam and the ends of windows as lines, named above; what the names cover.
fn face(ui: &Ui, axes: &Axes, p: &Profile, lower: Option<Rect>, t: &Theme) -> Vec<Rect> {
    let bottom = lower.unwrap_or(axes.plot).bottom();
    let mut taken = Vec::new();
    let mut label = |x: f32, text: &str, color: Color32| {
        let galley = ui
            .painter()
            .layout_no_wrap(text.to_owned(), fonts::caption(), color);
        let right = x + galley.size().x + 6.0 > axes.plot.right();
        let left = if right {
            x - 4.0 - galley.size().x
        } else {
            x + 4.0
        };
        let rect = Rect::from_min_size(pos2(left, axes.plot.top() - 18.0), galley.size());
        if taken.iter().any(|o: &Rect| o.expand(4.0).intersects(rect)) {
            return;
        }
        taken.push(rect);
        ui.painter().galley(rect.min, galley, color);
    };
    let x = axes.x(p.face);
    ui.painter()
        .vline(x, axes.plot.top()..=bottom, Stroke::new(1.0, t.strong));
    label(
        x,
        &format!("seam {} = {:.0}", p.axis.name(), p.face),
        t.strong,
    );
    for (w, ends) in &p.windows {
        for (end, word) in ends.iter().zip(["starts", "ends"]) {
            if (end - p.face).abs() > 0.01 && *end > p.span[0] && *end < p.span[1] {
                let x = axes.x(*end);
                ui.painter()
                    .vline(x, axes.plot.y_range(), Stroke::new(1.0, t.line_strong));
                label(x, &format!("window {w} {word}"), t.secondary);
            }
        }
    }
    taken
}

fn curve(ui: &Ui, axes: &Axes, c: &Curve, color: Color32) {
    let points: Vec<Pos2> = c
        .points
        .iter()
        .filter(|p| p[1].is_finite())
        .map(|p| axes.at(*p))
        .collect();
    let painter = ui.painter();
    match c.whose {
        Whose::Tiled => {
            let stroke = Stroke::new(2.0, color);
            painter.extend(Shape::dashed_line(&points, stroke, 6.0, 4.0));
        }
        Whose::Reference => {
            painter.add(Shape::line(points, Stroke::new(2.0, color)));
        }
        Whose::Window(_) => {
            let stroke = Stroke::new(1.5, color);
            painter.extend(Shape::dashed_line(&points, stroke, 2.0, 3.0));
        }
    }
}

/// The curve's name beside its highest point, where nothing else stands.
fn name(ui: &Ui, axes: &Axes, c: &Curve, ink: Color32, t: &Theme, taken: &mut Vec<Rect>) {
    let text = match c.whose {
        Whose::Tiled => "run".to_owned(),
        Whose::Reference => "reference".to_owned(),
        Whose::Window(w) => format!("window {w} alone"),
    };
    let finite = c.points.iter().filter(|p| p[1].is_finite());
    let Some(best) = finite.max_by(|a, b| a[1].total_cmp(&b[1])) else {
        return;
    };
    let galley = ui
        .painter()
        .layout_no_wrap(text.clone(), fonts::caption_bold(), ink);
    let from = axes.at(*best);
    let size = galley.size();
    // Around the point, farther and farther, inside the plot.
    let free = (0_u8..48).find_map(|i| {
        let (ring, place) = (f32::from(i / 8), i % 8);
        let across = if place % 2 == 0 { 18.0 } else { -18.0 - size.x };
        let down = (f32::from(place / 2) - 1.5) * 17.0 * (1.0 + ring);
        let shift = across + across.signum() * ring * 24.0;
        let rect = Rect::from_min_size(from + vec2(shift, down - size.y / 2.0), size);
        let clear = taken.iter().all(|o| !o.expand(2.0).intersects(rect));
        (clear && axes.plot.expand(2.0).contains_rect(rect)).then_some(rect)
    });
    let Some(rect) = free else { return };
    let to = if rect.center().x > from.x {
        rect.left_center() - vec2(3.0, 0.0)
    } else {
        rect.right_center() + vec2(3.0, 0.0)
    };
    ui.painter().line_segment([from, to], Stroke::new(1.0, ink));
    let colors = [ink, t.panel];
    let (at, align) = (rect.min, Align2::LEFT_TOP);
    paint::cased(
        ui.painter(),
        at,
        align,
        &text,
        fonts::caption_bold(),
        colors,
    );
    taken.push(rect);
}

/// How far run and reference differ along the line.
fn difference(ui: &Ui, rect: Rect, p: &Profile, reference: &Curve, t: &Theme) -> Axes {
    let run = &p.curves[0].points;
    let off: Vec<[f64; 2]> = run
        .iter()
        .zip(&reference.points)
        .map(|(a, b)| [a[0], (a[1] - b[1]).abs()])
        .filter(|q| q[1].is_finite())
        .collect();
    let most = off.iter().map(|q| q[1]).fold(0.0, f64::max);
    let top = if most > 0.0 { most * 1.15 } else { 1.0 };
    let axes = Axes {
        plot: rect,
        x: p.span,
        y: [0.0, top],
    };
    axes.rows(
        ui.painter(),
        &[(0.0, "0".to_owned()), (top / 2.0, figure(Some(top / 2.0)))],
        t,
    );
    let line: Vec<Pos2> = off.iter().map(|q| axes.at(*q)).collect();
    let fill = crate::ui::theme::fade(hue::STEM, 0.3);
    for pair in line.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let base = rect.bottom();
        let corners = vec![a, b, pos2(b.x, base), pos2(a.x, base)];
        ui.painter()
            .add(Shape::convex_polygon(corners, fill, Stroke::NONE));
    }
    ui.painter()
        .add(Shape::line(line, Stroke::new(1.5, hue::STEM)));
    let text = if most > 0.0 {
        format!("|run \u{2212} reference|, at most {}", figure(Some(most)))
    } else {
        "run and reference are the same here".to_owned()
    };
    paint::cased(
        ui.painter(),
        rect.right_top() + vec2(-4.0, 0.0),
        Align2::RIGHT_TOP,
        &text,
        fonts::caption_bold(),
        [t.legible(hue::STEM_TEXT), t.panel],
    );
    axes
}

/// What is known of the seam in numbers.
fn known(cx: &Cx<'_>, row: &SeamRow, step: Option<f64>) -> Vec<(&'static str, String)> {
    let r = &row.record;
    let unknown = || "\u{2014}".to_owned();
    let mut out = vec![
        ("step at seam, score", figure(step)),
        (
            "step ratio",
            r.step_ratio.map_or_else(unknown, |v| paint::number(v, 2)),
        ),
        ("raw mismatch, logit", figure(r.raw_mismatch_max)),
        ("its mean", figure(r.raw_mismatch_mean)),
        ("difference, logit", figure(r.diff_max)),
    ];
    if let Some(d) = cx.state.seams.difference() {
        let of = |f: fn(&crate::review::reference::Differences) -> f64| {
            d.list.iter().map(f).fold(0.0, f64::max)
        };
        out.push(("mean near seams", figure(Some(of(|d| d.mean_near)))));
        out.push(("mean elsewhere", figure(Some(of(|d| d.mean_far)))));
    }
    out.push((
        "flips",
        r.flips.map_or_else(unknown, crate::units::with_thousands),
    ));
    out
}
