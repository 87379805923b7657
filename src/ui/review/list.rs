//! The detection list: score slider, filter, a sortable table whose rows jump.

use crate::app::{Command, Filter, SortBy, State, seams};
use crate::ui::theme::{Theme, hue, size};
use crate::ui::{Cx, fonts, kit, paint};
use eframe::egui::{
    self, Align2, Layout, Rect, Sense, Stroke, Ui, WidgetInfo, accesskit::Role, pos2, vec2,
};
use egui_extras::{Column, TableBuilder};

/// Heading, slider, filter and table; the table takes `height`.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>, height: f32) {
    let t = Theme::of(ui.ctx());
    let all = cx
        .state
        .outcome
        .as_ref()
        .map_or(0, |o| o.detections().len());
    let shown = cx.state.derived.detections.len();
    let threshold = cx.state.document.score_threshold;
    let strong = format!("{shown} OF {all} AT \u{2265} {threshold:.2}");
    let against = match &cx.state.seams.reference {
        Some(_) if cx.state.seams.match_pending => "being matched\u{2026}",
        Some(_) => "against the reference",
        None => "",
    };
    kit::heading(
        ui,
        "Detections",
        if all > 0 { &strong } else { "" },
        against,
    );
    if all == 0 {
        kit::caption(ui, "A run fills this list");
        return;
    }
    score(ui, cx, threshold);
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 36.0), Sense::hover());
    let rect = Rect::from_min_size(area.min + vec2(12.0, 6.0), vec2(area.width() - 24.0, 24.0));
    let mut options = vec![(Filter::All, "All"), (Filter::NearSeam, "Near a seam")];
    if cx.state.seams.matching().is_some() {
        options.insert(1, (Filter::Changed, "Changed"));
    }
    if let Some(f) = kit::segmented(ui, rect, "Filter", &options, cx.state.view.filter) {
        cx.send(Command::FilterDetections(f));
    }
    stale(ui, cx, &t);
    table(ui, cx, height);
    verdict(ui, cx);
}

/// The verdict on the findings, below the list.
fn verdict(ui: &mut Ui, cx: &mut Cx<'_>) {
    let words = match &cx.state.seams.matched {
        Some(Ok(m)) => (Some(m.parity.verdict), m.parity.reason.clone()),
        Some(Err(why)) => (None, why.clone()),
        None => return,
    };
    let t = Theme::of(ui.ctx());
    let (mark, color, word) = crate::ui::seams::verdict(&t, words.0);
    ui.add_space(6.0);
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 44.0), Sense::hover());
    let card = area.shrink2(vec2(12.0, 0.0));
    ui.painter().rect_filled(card, 4, t.raised);
    let inner = card.shrink2(vec2(10.0, 4.0));
    let top = inner.with_max_y(inner.center().y);
    let at = top.left_center() + vec2(5.0, 0.0);
    paint::mark(ui.painter(), at, 10.0, mark, color);
    let (left, bold) = (Align2::LEFT_CENTER, fonts::body_bold());
    let room = top
        .with_min_x(top.left() + 18.0)
        .with_max_x(top.right() - 110.0);
    kit::text_in(ui, room, left, word, bold, color);
    if kit::text_button(ui, top.right_center(), "Show in Seams").clicked() {
        cx.send(Command::ShowWorkspace(crate::app::Workspace::Seams));
    }
    let below = inner.with_min_y(inner.center().y);
    kit::text_in(ui, below, left, &words.1, fonts::caption(), t.secondary);
}

fn stale(ui: &mut Ui, cx: &mut Cx<'_>, t: &Theme) {
    let changes = cx.state.stale();
    if changes.is_empty() {
        return;
    }
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 34.0), Sense::hover());
    ui.painter()
        .rect_filled(area.shrink2(vec2(8.0, 1.0)), 4, t.raised);
    let room = area
        .with_min_x(area.left() + 16.0)
        .with_max_x(area.right() - 112.0);
    kit::text_in(
        ui,
        room,
        Align2::LEFT_CENTER,
        &format!("From an older plan: {}", changes.join(", ")),
        fonts::caption_bold(),
        t.strong,
    );
    let button = Rect::from_min_size(
        pos2(area.right() - 104.0, area.top() + 4.0),
        vec2(92.0, 26.0),
    );
    let why = cx.state.why_not_run();
    if kit::button(ui, button, "Run again", kit::Look::Primary, why.as_deref()).clicked() {
        cx.send(Command::Run);
    }
}

fn score(ui: &mut Ui, cx: &mut Cx<'_>, threshold: f32) {
    let t = Theme::of(ui.ctx());
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 32.0), Sense::hover());
    ui.painter().text(
        pos2(area.left() + 12.0, area.center().y),
        Align2::LEFT_CENTER,
        "Score",
        fonts::body(),
        t.secondary,
    );
    let track = Rect::from_min_max(
        pos2(area.left() + 56.0, area.top() + 8.0),
        pos2(area.right() - 84.0, area.bottom() - 4.0),
    );
    if let Some(outcome) = &cx.state.outcome {
        for d in outcome.detections() {
            let x = egui::lerp(
                track.left() + 7.0..=track.right() - 7.0,
                d.score.clamp(0.0, 1.0),
            );
            let on = d.score >= threshold;
            ui.painter().vline(
                x,
                track.top() - 6.0..=track.top(),
                Stroke::new(1.0, if on { t.text } else { t.disabled }),
            );
        }
    }
    if let Some(v) = kit::slider(
        ui,
        track,
        "Score threshold",
        f64::from(threshold),
        0.0..=1.0,
        0.01,
    ) {
        cx.send(Command::SetScoreThreshold(paint::f(v)));
    }
    let field = Rect::from_min_size(
        pos2(area.right() - 68.0, area.top() + 4.0),
        vec2(56.0, 24.0),
    );
    let text = format!("{threshold:.2}");
    if let Some(typed) = kit::edit(
        ui,
        field,
        "Score threshold value",
        &text,
        egui::Align::Max,
        false,
    ) && let Ok(v) = typed.parse::<f32>()
        && (0.0..=1.0).contains(&v)
    {
        cx.send(Command::SetScoreThreshold(v));
    }
}

type Columns = &'static [(&'static str, SortBy, f32)];

const ALONE: Columns = &[
    ("#", SortBy::Number, 34.0),
    ("label", SortBy::Label, 96.0),
    ("score", SortBy::Score, 64.0),
    ("size mm", SortBy::Size, 76.0),
    ("seam mm", SortBy::Seam, 84.0),
];

const AGAINST: Columns = &[
    ("#", SortBy::Number, 32.0),
    ("score", SortBy::Score, 54.0),
    ("size mm", SortBy::Size, 64.0),
    ("seam mm", SortBy::Seam, 68.0),
    ("ref", SortBy::Reference, 44.0),
    ("drift", SortBy::Drift, 52.0),
];

/// A row of the list before its words are made, which only rows in view are asked for.
#[derive(Clone, Copy)]
enum Entry {
    /// A finding of the run: its number here, and its place in the result.
    Own(usize, usize),
    /// A finding that only the reference has: its place in the match.
    Missing(usize),
}

impl Entry {
    fn is_selected(self, state: &State) -> bool {
        match self {
            Self::Own(_, place) => state.view.selected == Some(place),
            Self::Missing(i) => state.view.selected_reference == Some(i),
        }
    }

    const fn command(self) -> Command {
        match self {
            Self::Own(_, place) => Command::SelectDetection(place),
            Self::Missing(i) => Command::SelectReference(i),
        }
    }
}

/// A row in words.
#[derive(Default)]
struct Line {
    near: bool,
    cells: Vec<String>,
    /// What became of it, where a reference is there.
    word: &'static str,
    spoken: String,
}

/// The rows of the list in order; findings that only the reference has come last.
fn entries(state: &State) -> Vec<Entry> {
    let own = state.derived.detections.iter().enumerate();
    let mut out: Vec<Entry> = own.map(|(i, place)| Entry::Own(i + 1, *place)).collect();
    let near = state.view.filter == Filter::NearSeam;
    let missing = state.seams.matching().into_iter().flat_map(|m| m.missing());
    let shown = missing.filter(|(_, row)| !near || row.seam_distance.is_some_and(|mm| mm <= 5.0));
    out.extend(shown.map(|(i, _)| Entry::Missing(i)));
    out
}

/// A row's words.
fn line(state: &State, entry: Entry) -> Line {
    let m = state.seams.matching();
    let none = || "\u{2014}".to_owned();
    let mm = |v: Option<f64>| v.map_or_else(none, |v| paint::number(v, 1));
    let two = |v: Option<f64>| v.map_or_else(none, |v| paint::number(v, 2));
    let (number, place) = match entry {
        Entry::Own(number, place) => (number.to_string(), place),
        Entry::Missing(i) => {
            let Some((_, row)) = m.and_then(|m| m.missing().find(|(a, _)| *a == i)) else {
                return Line::default();
            };
            let (score, seam) = (two(row.score_a), mm(row.seam_distance));
            return Line {
                near: row.seam_distance.is_some_and(|mm| mm <= 5.0),
                spoken: format!(
                    "Only in the reference: score {score}, {seam} mm from a seam, missing"
                ),
                cells: vec!["\u{2013}".to_owned(), none(), none(), seam, score, none()],
                word: seams::word(row),
            };
        }
    };
    let Some(d) = state
        .outcome
        .as_ref()
        .and_then(|o| o.detections().get(place))
    else {
        return Line::default();
    };
    let longest = d.size_mm.iter().copied().fold(0.0, f64::max);
    let score = format!("{:.2}", d.score);
    let (size, seam) = (paint::number(longest, 1), mm(d.seam_distance));
    let row = m.and_then(|m| m.of(place));
    let word = row.map_or("", seams::word);
    let mut spoken = format!(
        "Detection {number}, {}, score {score}, {longest:.1} mm, {seam} mm from a seam",
        d.label
    );
    if !word.is_empty() {
        spoken = format!("{spoken}, {word}");
    }
    Line {
        near: d.seam_distance.is_some_and(|mm| mm <= 5.0),
        cells: if m.is_some() {
            let reference = two(row.and_then(|r| r.score_a));
            let drift = two(row.and_then(|r| r.score_drift));
            vec![number, score, size, seam, reference, drift]
        } else {
            vec![number, d.label.clone(), score, size, seam]
        },
        word,
        spoken,
    }
}

fn table(ui: &mut Ui, cx: &mut Cx<'_>, height: f32) {
    let t = Theme::of(ui.ctx());
    let rows = entries(cx.state);
    let state = cx.state;
    let against = cx.state.seams.matching().is_some();
    let columns = if against { AGAINST } else { ALONE };
    let reveal = std::mem::take(&mut cx.local.reveal);
    let stale = !cx.state.stale().is_empty();
    let mut sent = Vec::new();
    let view = (cx.state.view.sort_by, cx.state.view.descending);
    let mut builder = TableBuilder::new(ui)
        .id_salt(("detections", against))
        .vscroll(true)
        .auto_shrink(false)
        .min_scrolled_height(height)
        .max_scroll_height(height)
        .sense(Sense::click())
        .cell_layout(Layout::right_to_left(egui::Align::Center));
    for (_, _, width) in columns {
        builder = builder.column(Column::exact(*width));
    }
    builder = builder.column(Column::remainder());
    if let (true, Some(row)) = (reveal, rows.iter().position(|r| r.is_selected(state))) {
        builder = builder.scroll_to_row(row, None);
    }
    builder
        .header(size::ROW, |mut header| {
            for (name, by, _) in columns {
                header.col(|ui| {
                    if head(ui, name, (view.0 == *by).then_some(view.1), &t) {
                        sent.push(Command::SortDetections(*by));
                    }
                });
            }
            header.col(|ui| {
                if against {
                    let at = ui.max_rect().left_center() + vec2(8.0, 0.0);
                    let (font, color) = (fonts::caption(), t.secondary);
                    ui.painter()
                        .text(at, Align2::LEFT_CENTER, "result", font, color);
                }
            });
        })
        .body(|body| {
            body.rows(size::ROW, rows.len(), |mut row| {
                let entry = rows[row.index()];
                let (line, on) = (line(state, entry), entry.is_selected(state));
                row.set_selected(on);
                let seam = columns.iter().position(|c| c.1 == SortBy::Seam);
                for (c, text) in line.cells.iter().enumerate() {
                    row.col(|ui| {
                        let color = match (stale, on, columns[c].1) {
                            (true, ..) => t.disabled,
                            (_, true, _) => t.strong,
                            (_, _, SortBy::Number) => t.secondary,
                            (_, _, SortBy::Reference) => t.legible(hue::REFERENCE),
                            _ => t.text,
                        };
                        if Some(c) == seam && line.near {
                            let at = ui.max_rect().left_center() + vec2(14.0, 0.0);
                            paint::mark(ui.painter(), at, 9.0, paint::Mark::Triangle, t.tight);
                        }
                        let at = ui.max_rect().shrink2(vec2(8.0, 0.0));
                        ui.painter().text(
                            at.right_center(),
                            Align2::RIGHT_CENTER,
                            text,
                            fonts::body(),
                            color,
                        );
                    });
                }
                row.col(|ui| became(ui, line.word, stale, &t));
                let response = row.response();
                response
                    .widget_info(|| WidgetInfo::selected(Role::Row, true, on, line.spoken.clone()));
                if response.clicked() {
                    sent.push(entry.command());
                }
            });
        });
    for command in sent {
        cx.send(command);
    }
}

/// What became of a finding, in a word with its shape.
fn became(ui: &Ui, word: &str, stale: bool, t: &Theme) {
    if word.is_empty() {
        return;
    }
    let (mark, color) = crate::ui::seams::look(t, word);
    let color = if stale { t.disabled } else { color };
    let at = ui.max_rect().left_center() + vec2(8.0, 0.0);
    let Some(mark) = mark else {
        let color = if stale { t.disabled } else { t.secondary };
        ui.painter()
            .text(at, Align2::LEFT_CENTER, word, fonts::body(), color);
        return;
    };
    paint::mark(ui.painter(), at + vec2(4.0, 0.0), 9.0, mark, color);
    let at = at + vec2(12.0, 0.0);
    ui.painter()
        .text(at, Align2::LEFT_CENTER, word, fonts::caption(), color);
}

fn head(ui: &Ui, name: &str, sorted: Option<bool>, t: &Theme) -> bool {
    let rect = ui.max_rect();
    let response = ui.interact(rect, ui.scope_id().with(("head", name)), Sense::click());
    let color = if sorted.is_some() || response.hovered() {
        t.strong
    } else {
        t.secondary
    };
    let arrow = match sorted {
        Some(true) => " \u{2193}",
        Some(false) => " \u{2191}",
        None => "",
    };
    let font = if sorted.is_some() {
        fonts::caption_bold()
    } else {
        fonts::caption()
    };
    ui.painter().text(
        rect.right_center() - vec2(8.0, 0.0),
        Align2::RIGHT_CENTER,
        format!("{name}{arrow}"),
        font,
        color,
    );
    if response.has_focus() {
        ui.painter().rect_stroke(
            rect.shrink(1.0),
            2,
            Stroke::new(1.0, t.strong),
            egui::StrokeKind::Inside,
        );
    }
    response
        .widget_info(|| WidgetInfo::labeled(Role::ColumnHeader, true, format!("Sort by {name}")));
    response.clicked()
}
