//! The budget plot: one stacked bar against each card's capacity, the verdict in words beside it.

use crate::app::Command;
use crate::memory::Verdict;
use crate::report::chart::{BudgetChart, CardRow, tick_text};
use crate::ui::theme::{Theme, fade};
use crate::ui::{Cx, fonts, kit, paint};
use eframe::egui::{
    self, Align2, Color32, Rect, Sense, Shape, Stroke, Ui, WidgetInfo, accesskit::Role, pos2, vec2,
};

const PITCH: f32 = 37.0;

pub(in crate::ui) const fn color([r, g, b]: [u8; 3]) -> Color32 {
    Color32::from_rgb(r, g, b)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "screen positions need no more than f32"
)]
const fn f(x: f64) -> f32 {
    x as f32
}

/// Draws heading and plot.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let Some(charts) = cx.local.charts.take() else {
        kit::heading(ui, "Memory budget", "", "");
        let why = match &cx.state.derived.budget {
            Some(Err(why)) => why.as_str(),
            _ if cx.state.document.network.is_none() => {
                "Choose a network: its budget on each card stands here"
            }
            _ => "Planning\u{2026}",
        };
        kit::note(ui, why);
        return;
    };
    let chart = &charts.budget;
    let right = source(chart, cx);
    let head = kit::heading(
        ui,
        "Memory budget",
        &format!("{}   {}", chart.title, chart.total),
        &format!("{right}{}", " ".repeat(24)),
    );
    let at = pos2(head.right() - 14.0, head.center().y);
    if kit::text_button(ui, at, "Calibrate").clicked() {
        cx.send(Command::ShowCalibration);
    }
    let area = ui.available_rect_before_wrap();
    let plot = Rect::from_min_max(
        area.min + vec2(212.0, 52.0),
        pos2(area.right() - 204.0, area.bottom() - 30.0),
    );
    egui::ScrollArea::vertical()
        .auto_shrink(false)
        .show(ui, |ui| {
            let rows = f32::from(u16::try_from(chart.rows.len()).unwrap_or(u16::MAX));
            let height = 52.0 + rows * PITCH + 28.0;
            let (area, _) =
                ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
            let plot = Rect::from_min_max(
                area.min + vec2(212.0, 52.0),
                pos2(
                    area.left() + plot.right() - plot.left() + 212.0,
                    area.bottom() - 28.0,
                ),
            );
            axis(ui, plot, chart, &t);
            let mut focus = None;
            for (i, row) in chart.rows.iter().enumerate() {
                let top = plot.top() + i as f32 * PITCH;
                let r = Rect::from_min_max(pos2(area.left(), top), pos2(area.right(), top + PITCH));
                if card(ui, r, plot, row, chart, &t) {
                    focus = Some(row.id.clone());
                }
            }
            labels(ui, plot, chart, &t);
            compare(ui, plot, chart, &t);
            foot(
                ui,
                Rect::from_min_max(pos2(area.left(), plot.bottom()), plot.left_bottom()),
                cx,
            );
            if let Some(id) = focus {
                cx.send(Command::FocusCard(id));
            }
        });
    cx.local.charts = Some(charts);
}

/// Where the same window ends under our own runtime: a dotted line, named over the axis.
fn compare(ui: &Ui, plot: Rect, chart: &BudgetChart, t: &Theme) {
    let Some((name, gib)) = &chart.compare else {
        return;
    };
    let p = ui.painter();
    let x = x_of(plot, chart, *gib).round() + 0.5;
    let line = [pos2(x, plot.top()), pos2(x, plot.bottom() + 4.0)];
    p.extend(Shape::dashed_line(
        &line,
        Stroke::new(1.5, t.strong),
        2.0,
        3.0,
    ));
    let galley = p.layout_no_wrap(name.clone(), fonts::caption(), t.strong);
    let r = Rect::from_center_size(pos2(x, plot.bottom() + 14.0), galley.size());
    p.rect_filled(r.expand2(vec2(4.0, 0.0)), 0, t.panel);
    p.galley(r.min, galley, t.strong);
}

/// Left of the axis: what the host must hold and how many windows the card in focus takes at once.
fn foot(ui: &mut Ui, below: Rect, cx: &Cx<'_>) {
    let Some(b) = cx.state.derived.budget() else {
        return;
    };
    let host = format!("host {:.2} GiB", b.budget.host_peak.as_gib());
    let run = super::fresh_run(cx).and_then(|m| m.host);
    let text = match b.budget.largest_batch {
        _ if run.is_some() => {
            let rise = run.map_or(0.0, |h| h.peak.saturating_sub(h.before).as_gib());
            format!("{host}, measured {rise:.2}")
        }
        Some(0) => format!("{host}, no batch surely fits"),
        Some(n) => format!("{host}, batch up to {}", crate::units::with_thousands(n)),
        None => host,
    };
    let row = Rect::from_min_size(
        below.min + vec2(12.0, 5.0),
        vec2(below.width() - 20.0, 18.0),
    );
    let t = Theme::of(ui.ctx());
    kit::text_in(
        ui,
        row,
        Align2::LEFT_CENTER,
        &text,
        fonts::caption(),
        t.text,
    );
}

/// What the heading says at the right: where figures come from, what tiles save and cost.
fn source(chart: &BudgetChart, cx: &Cx<'_>) -> String {
    if cx.state.derived.budget_pending {
        return "planning\u{2026}".to_owned();
    }
    let tiles = cx
        .state
        .derived
        .budget()
        .and_then(|b| b.budget.tiles.as_ref());
    match tiles {
        Some(tiles) => format!(
            "in tiles: {:.2} GiB with whole maps, {:.1} % of the work done again",
            tiles.untiled.as_gib(),
            tiles.recompute_percent
        ),
        None if chart.whisker.is_some() => "hatched: range, not knowable before a run".to_owned(),
        None => "all parts planned to the byte".to_owned(),
    }
}

fn x_of(plot: Rect, chart: &BudgetChart, gib: f64) -> f32 {
    egui::lerp(
        plot.x_range(),
        f((gib / chart.axis_max.max(1e-9)).clamp(0.0, 1.0)),
    )
}

fn axis(ui: &Ui, plot: Rect, chart: &BudgetChart, t: &Theme) {
    let p = ui.painter();
    let step = chart
        .ticks
        .windows(2)
        .map(|w| w[1] - w[0])
        .next()
        .unwrap_or(1.0);
    for (i, &tick) in chart.ticks.iter().enumerate() {
        let x = x_of(plot, chart, tick).round() + 0.5;
        p.vline(x, plot.y_range(), Stroke::new(1.0, t.line));
        let text = tick_text(tick, step);
        let text = if i + 1 == chart.ticks.len() {
            format!("{text} GiB")
        } else {
            text
        };
        p.text(
            pos2(x, plot.bottom() + 14.0),
            Align2::CENTER_CENTER,
            text,
            fonts::caption(),
            t.secondary,
        );
    }
}

/// One card: true when it was clicked.
fn card(ui: &mut Ui, r: Rect, plot: Rect, row: &CardRow, chart: &BudgetChart, t: &Theme) -> bool {
    let response = ui.interact(r, ui.scope_id().with(("card", &row.id)), Sense::click());
    if row.focus || response.hovered() {
        ui.painter().rect_filled(r, 0, t.select_row_plot);
    }
    let name = Rect::from_min_max(
        pos2(r.left() + 12.0, r.top() + 2.0),
        pos2(plot.left() - 6.0, r.top() + 20.0),
    );
    let font = if row.focus {
        fonts::body_bold()
    } else {
        fonts::body()
    };
    kit::text_in(
        ui,
        name,
        Align2::LEFT_CENTER,
        &row.name,
        font,
        if row.focus { t.strong } else { t.text },
    );
    let caption = name.translate(vec2(0.0, 16.0));
    kit::text_in(
        ui,
        caption,
        Align2::LEFT_CENTER,
        &row.caption,
        fonts::caption(),
        t.secondary,
    );
    let bar = Rect::from_min_max(
        pos2(plot.left(), r.top() + 6.0),
        pos2(plot.right(), r.top() + 24.0),
    );
    bars(ui, bar, chart);
    excess(ui, bar, row, chart, t);
    capacity(ui, bar, row, chart, t);
    let (mark, status, word) = paint::verdict(t, row.verdict);
    let at = pos2(plot.right() + 32.0, r.top() + 12.0);
    paint::mark(ui.painter(), at, 10.0, mark, status);
    let word_at = Rect::from_min_max(
        pos2(at.x + 14.0, r.top() + 2.0),
        pos2(r.right() - 4.0, r.top() + 20.0),
    );
    kit::text_in(
        ui,
        word_at,
        Align2::LEFT_CENTER,
        word,
        fonts::body_bold(),
        status,
    );
    kit::text_in(
        ui,
        word_at.translate(vec2(0.0, 16.0)),
        Align2::LEFT_CENTER,
        row.words.trim_end_matches(" GiB"),
        fonts::caption(),
        t.text,
    );
    response.widget_info(|| {
        WidgetInfo::selected(
            Role::ListBoxOption,
            true,
            row.focus,
            format!(
                "{}, {}: needs {}, {word}, {}",
                row.name, row.caption, chart.total, row.words
            ),
        )
    });
    response.clicked()
}

/// The stack, the whisker of what is not knowable.
pub(in crate::ui) fn bars(ui: &Ui, bar: Rect, chart: &BudgetChart) {
    let p = ui.painter();
    for s in &chart.segments {
        let (a, b) = (x_of(bar, chart, s.from), x_of(bar, chart, s.to));
        let r = Rect::from_min_max(pos2(a, bar.top()), pos2(b.max(a + 1.0), bar.bottom()));
        let fill = color(s.fill);
        if s.hatched {
            p.rect_filled(r, 0, fade(fill, 0.28));
            paint::hatch(&p.with_clip_rect(r), r, 5.0, Stroke::new(1.0, fill));
        } else {
            p.rect_filled(r, 0, fill);
        }
    }
    if let Some(w) = chart.whisker {
        let line = Stroke::new(2.0, color(w.color));
        let (a, b) = (x_of(bar, chart, w.from), x_of(bar, chart, w.to));
        p.hline(a..=b, bar.center().y, line);
        p.vline(b - 1.0, bar.center().y - 7.0..=bar.center().y + 7.0, line);
    }
}

fn excess(ui: &Ui, bar: Rect, row: &CardRow, chart: &BudgetChart, t: &Theme) {
    let Some(e) = row.excess else { return };
    let strip = |from: f64, to: f64, color: Color32| {
        let r = Rect::from_min_max(
            pos2(x_of(bar, chart, from), bar.bottom() + 3.0),
            pos2(x_of(bar, chart, to), bar.bottom() + 6.0),
        );
        if r.width() > 0.0 {
            ui.painter().rect_filled(r, 0, color);
        }
    };
    if row.verdict == Verdict::Over {
        strip(e.certain, e.to, fade(t.over, 0.45));
        strip(e.from, e.certain, t.over);
    } else {
        strip(e.from, e.to, t.tight);
    }
}

fn capacity(ui: &Ui, bar: Rect, row: &CardRow, chart: &BudgetChart, t: &Theme) {
    let p = ui.painter();
    if row.beyond {
        let c = pos2(bar.right() + 6.0, bar.center().y);
        p.text(
            c - vec2(4.0, 0.0),
            Align2::RIGHT_CENTER,
            format!("{:.2}", row.capacity),
            fonts::caption(),
            t.text,
        );
        p.add(Shape::line(
            vec![c + vec2(0.0, -5.0), c + vec2(5.0, 0.0), c + vec2(0.0, 5.0)],
            Stroke::new(2.0, t.strong),
        ));
        return;
    }
    let x = x_of(bar, chart, row.capacity);
    let (top, bottom) = (bar.center().y - 14.5, bar.center().y + 14.5);
    for (width, color) in [(6.0, t.panel), (2.0, t.strong)] {
        let s = Stroke::new(width, color);
        p.vline(x, top..=bottom, s);
        for y in [top, bottom] {
            p.hline(x - 4.5..=x + 4.5, y, Stroke::new(width.min(4.0), color));
        }
    }
}

/// Names of the parts above the first bar, each with a leader; a name that would touch another takes the other line.
fn labels(ui: &Ui, plot: Rect, chart: &BudgetChart, t: &Theme) {
    let p = ui.painter();
    let mut taken: Vec<Rect> = Vec::new();
    for l in &chart.labels {
        let c = t.legible(color(l.color));
        let galley = p.layout_no_wrap(l.text.clone(), fonts::caption(), c);
        let x = x_of(plot, chart, l.at);
        let place = |line: usize| {
            let y = plot.top() - if line == 0 { 48.0 } else { 28.0 };
            let left = if l.ends_there {
                x - galley.size().x
            } else {
                x + 3.0
            };
            let left = left.clamp(plot.left() - 180.0, plot.right() + 200.0 - galley.size().x);
            Rect::from_min_size(pos2(left, y), galley.size())
        };
        let free = |r: &Rect| {
            taken
                .iter()
                .all(|other| !other.expand2(vec2(8.0, 0.0)).intersects(*r))
        };
        let Some(r) = [place(l.line), place(1 - l.line.min(1))]
            .into_iter()
            .find(free)
        else {
            continue;
        };
        taken.push(r);
        p.vline(
            x.round() + 0.5,
            r.bottom() - 2.0..=plot.top() + 6.0,
            Stroke::new(1.0, c),
        );
        p.galley(r.min, galley, c);
    }
}
