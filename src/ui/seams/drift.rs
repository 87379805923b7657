//! Score drift of each matched finding over its distance to the nearest seam: noise lies anywhere, a seam effect near 0.

use super::axes::{Axes, facts, ticks};
use crate::app::seams::Matched;
use crate::app::{Command, seams};
use crate::review::{Limits, RowKind};
use crate::ui::theme::{Theme, hue};
use crate::ui::{Cx, fonts, kit, paint};
use eframe::egui::{
    Align2, Rect, Sense, Shape, Stroke, Ui, WidgetInfo, accesskit::Role, pos2, vec2,
};

/// Drifts below are drawn on the lowest line at the least.
const LEAST: f64 = 1e-4;

/// A matched finding.
struct Point {
    place: usize,
    mm: f64,
    drift: f64,
    word: &'static str,
}

/// Draws the plot, or says what it needs.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let Some(m) = cx.state.seams.matching() else {
        super::matches::needs(ui, cx);
        return;
    };
    let points: Vec<Point> = m
        .row_of
        .iter()
        .filter_map(|(place, r)| {
            let row = &m.parity.rows[*r];
            Some(Point {
                place: *place,
                mm: row.seam_distance?,
                drift: row.score_drift?,
                word: seams::word(row),
            })
        })
        .collect();
    if points.is_empty() {
        kit::hint(
            ui,
            "No finding is matched that has a score on both sides and a seam somewhere: nothing to plot at this threshold",
        );
        return;
    }
    let t = Theme::of(ui.ctx());
    let area = ui.available_rect_before_wrap();
    let side = if area.width() > 560.0 { 150.0 } else { 16.0 };
    let plot = Rect::from_min_max(area.min + vec2(84.0, 12.0), area.max - vec2(side, 44.0));
    if plot.height() < 40.0 {
        return;
    }
    let farthest = points.iter().map(|p| p.mm).fold(5.0, f64::max);
    let most = points.iter().map(|p| p.drift.abs()).fold(0.02, f64::max);
    // The lowest line is the power of ten below all drifts that are not 0.
    let drifts = points.iter().map(|p| p.drift.abs()).filter(|d| *d > 0.0);
    let least = drifts.fold(LEAST.sqrt(), f64::min);
    let least = 10f64.powf(least.log10().floor()).max(LEAST);
    let axes = Axes {
        plot,
        x: [0.0, farthest * 1.03],
        y: [least.log10(), (most * 1.5).log10()],
    };
    let rows: Vec<(f64, String)> = [1e-4, 1e-3, 0.003, 0.01, 0.03, 0.1, 0.3]
        .into_iter()
        .filter(|v| *v >= least * 0.99 && *v <= most * 1.5)
        .map(|v| {
            let text = if v <= least * 1.01 {
                format!("\u{2264} {v}")
            } else {
                format!("{v}")
            };
            (v.log10(), text)
        })
        .collect();
    axes.rows(ui.painter(), &rows, &t);
    axes.columns(ui.painter(), &ticks([0.0, farthest * 1.03], 8.0), &t);
    axes.titles(
        ui.painter(),
        "distance from box centre to the nearest seam, mm",
        "|score drift|, log scale",
        &t,
    );
    tolerance(ui, &axes, &t);
    if let Some(place) = draw(ui, cx, &axes, &points, &t) {
        cx.send(Command::SelectDetection(place));
    }
    if side > 100.0
        && let Some(m) = cx.state.seams.matching()
    {
        let column = Rect::from_min_max(
            pos2(plot.right() + 20.0, plot.top()),
            area.max - vec2(4.0, 0.0),
        );
        facts(ui, column, &known(m, &points), &t);
    }
}

fn tolerance(ui: &Ui, axes: &Axes, t: &Theme) {
    let limit = Limits::DEFAULT.score;
    let y = axes.y(limit.log10());
    let ends = [pos2(axes.plot.left(), y), pos2(axes.plot.right(), y)];
    let stroke = Stroke::new(1.0, t.tight);
    ui.painter()
        .extend(Shape::dashed_line(&ends, stroke, 6.0, 4.0));
    paint::cased(
        ui.painter(),
        ends[1] - vec2(2.0, 3.0),
        Align2::RIGHT_BOTTOM,
        &format!("tolerance {limit}"),
        fonts::caption(),
        [t.tight, t.panel],
    );
}

fn draw(ui: &Ui, cx: &Cx<'_>, axes: &Axes, points: &[Point], t: &Theme) -> Option<usize> {
    let mut picked = None;
    for p in points {
        let c = axes.at([p.mm, p.drift.abs().max(10f64.powf(axes.y[0])).log10()]);
        let hit = Rect::from_center_size(c, vec2(14.0, 14.0));
        let id = ui.scope_id().with(("drift", p.place));
        let response = ui.interact(hit, id, Sense::click());
        if p.word == "match" {
            ui.painter()
                .circle(c, 4.5, hue::REFERENCE, Stroke::new(1.0, t.panel));
        } else {
            paint::mark(ui.painter(), c, 12.0, paint::Mark::Triangle, t.tight);
            let text = format!("{} {}", p.place + 1, p.word);
            let (at, align) = (c + vec2(10.0, 0.0), Align2::LEFT_CENTER);
            paint::cased(
                ui.painter(),
                at,
                align,
                &text,
                fonts::caption(),
                [t.text, t.panel],
            );
        }
        if cx.state.view.selected == Some(p.place) || response.hovered() || response.has_focus() {
            ui.painter()
                .circle_stroke(c, 10.0, Stroke::new(2.0, t.strong));
        }
        let text = format!(
            "Finding {}, {}: score drift {}, {} mm from a seam",
            p.place + 1,
            p.word,
            paint::number(p.drift, 4),
            paint::number(p.mm, 1)
        );
        response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &text));
        if response.clicked() {
            picked = Some(p.place);
        }
        response.on_hover_text(text);
    }
    picked
}

fn known(m: &Matched, points: &[Point]) -> Vec<(&'static str, String)> {
    let p = &m.parity;
    let drift = |v: Option<f64>| super::figure(v);
    let mut out = vec![(
        "Spearman rho",
        p.rho
            .map_or_else(|| "\u{2014}".to_owned(), |r| paint::number(r, 2)),
    )];
    let says = match p.rho {
        Some(r) if r <= -0.5 => "a seam effect, not noise",
        Some(r) if r.abs() < 0.3 => "noise, no seam effect",
        Some(_) => "no clear sign of seams",
        None => "fewer than 5 pairs, or all alike",
    };
    out.push(("which says", says.to_owned()));
    out.push(("pairs", points.len().to_string()));
    let sc = &p.score_drift;
    out.push((
        "drift p50, p99, max",
        format!("{}, {}, {}", drift(sc.p50), drift(sc.p99), drift(sc.max)),
    ));
    let alone = |k| p.rows.iter().filter(|r| r.kind == k).count();
    out.push((
        "not in the plot",
        format!(
            "{} missing, {} extra",
            alone(RowKind::Missing),
            alone(RowKind::Extra)
        ),
    ));
    out
}
