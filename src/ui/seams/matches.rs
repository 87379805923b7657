//! The match finding by finding: what is matched, missing, extra, split, merged, twice there or cut by a seam.

use crate::app::{Command, State, seams};
use crate::review::Row;
use crate::ui::theme::{Theme, size};
use crate::ui::{Cx, fonts, kit, paint};
use eframe::egui::{self, Align2, Color32, Layout, Sense, Ui, WidgetInfo, accesskit::Role, vec2};
use egui_extras::{Column, TableBuilder};

/// "12 matched, 1 missing, 2 extra, 1 split": what is 0 is left out but for the first.
pub(super) fn counts(state: &State) -> String {
    let Some(m) = state.seams.matching() else {
        return String::new();
    };
    let p = &m.parity;
    let rest = [
        (p.missing, "missing"),
        (p.extra, "extra"),
        (p.split, "split"),
        (p.merged, "merged"),
        (p.duplicate, "duplicate"),
        (p.fragment, "fragment"),
    ];
    let rest = rest.into_iter().filter(|(n, _)| *n > 0);
    let all = std::iter::once((p.matched, "matched")).chain(rest);
    let words: Vec<String> = all.map(|(n, word)| format!("{n} {word}")).collect();
    words.join(", ")
}

/// Says what a match needs.
pub(super) fn needs(ui: &mut Ui, cx: &Cx<'_>) {
    let s = &cx.state.seams;
    let text = match (
        &s.matched,
        cx.state.outcome.is_some(),
        s.reference.is_some(),
    ) {
        (Some(Err(why)), ..) => why.as_str(),
        (_, true, true) => "The findings are being matched\u{2026}",
        (_, false, true) => "Run the plan, or open a result, to hold it against the reference",
        _ => {
            "Hold this result as reference and run another plan, or compare with a result of Voxfit, MONAI, LUNA16 or Slicer"
        }
    };
    kit::hint(ui, text);
}

/// Colour of a row's word: what is not one for one stands out.
pub(in crate::ui) fn look(t: &Theme, word: &str) -> (Option<paint::Mark>, Color32) {
    match word {
        "match" => (None, t.text),
        "missing" | "extra" => (Some(paint::Mark::Cross), t.over),
        _ => (Some(paint::Mark::Triangle), t.tight),
    }
}

const COLUMNS: [(&str, f32); 8] = [
    ("run", 44.0),
    ("ref", 44.0),
    ("score", 62.0),
    ("ref score", 70.0),
    ("drift", 66.0),
    ("box drift", 70.0),
    ("IoU", 54.0),
    ("seam mm", 70.0),
];

/// Draws the table.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let Some(m) = cx.state.seams.matching() else {
        needs(ui, cx);
        return;
    };
    let t = Theme::of(ui.ctx());
    let mut order: Vec<usize> = (0..m.parity.rows.len()).collect();
    let size_of = |r: &Row| {
        (
            seams::word(r) == "match",
            -r.score_drift.map_or(1.0, f64::abs),
        )
    };
    order.sort_by(|a, b| {
        let (x, y) = (size_of(&m.parity.rows[*a]), size_of(&m.parity.rows[*b]));
        x.0.cmp(&y.0).then(x.1.total_cmp(&y.1)).then(a.cmp(b))
    });
    if order.is_empty() {
        kit::hint(ui, "Neither side has a finding at or above this threshold");
        return;
    }
    let selected = (cx.state.view.selected, cx.state.view.selected_reference);
    let mut sent = None;
    let mut builder = TableBuilder::new(ui)
        .id_salt("match")
        .auto_shrink(false)
        .sense(Sense::click())
        .cell_layout(Layout::right_to_left(egui::Align::Center))
        .column(Column::exact(112.0));
    for (_, width) in COLUMNS {
        builder = builder.column(Column::exact(width));
    }
    builder
        .column(Column::remainder())
        .header(size::ROW, |mut header| {
            header.col(|ui| {
                let at = ui.max_rect().left_center() + vec2(12.0, 0.0);
                let (font, color) = (fonts::caption(), t.secondary);
                ui.painter()
                    .text(at, Align2::LEFT_CENTER, "result", font, color);
            });
            for (name, _) in COLUMNS {
                header.col(|ui| {
                    let at = ui.max_rect().right_center() - vec2(8.0, 0.0);
                    let (font, color) = (fonts::caption(), t.secondary);
                    ui.painter()
                        .text(at, Align2::RIGHT_CENTER, name, font, color);
                });
            }
        })
        .body(|body| {
            body.rows(size::ROW, order.len(), |mut row| {
                let r = &m.parity.rows[order[row.index()]];
                let own = r.b.and_then(|b| m.own.get(b).copied());
                let on = match own {
                    Some(place) => selected.0 == Some(place),
                    None => r.a.is_some() && selected.1 == r.a,
                };
                row.set_selected(on);
                let word = seams::word(r);
                row.col(|ui| {
                    let (mark, color) = look(&t, word);
                    let at = ui.max_rect().left_center();
                    if let Some(mark) = mark {
                        paint::mark(ui.painter(), at + vec2(16.0, 0.0), 10.0, mark, color);
                    }
                    let at = at + vec2(28.0, 0.0);
                    ui.painter()
                        .text(at, Align2::LEFT_CENTER, word, fonts::body(), color);
                });
                for text in cells(r, own) {
                    row.col(|ui| {
                        let at = ui.max_rect().right_center() - vec2(8.0, 0.0);
                        let color = if on { t.strong } else { t.text };
                        ui.painter()
                            .text(at, Align2::RIGHT_CENTER, text, fonts::body(), color);
                    });
                }
                row.col(|_| {});
                let response = row.response();
                let spoken = spoken(r, own);
                response.widget_info(|| WidgetInfo::selected(Role::Row, true, on, &spoken));
                if response.clicked() {
                    sent = own
                        .map(Command::SelectDetection)
                        .or_else(|| r.a.map(Command::SelectReference));
                }
            });
        });
    if let Some(command) = sent {
        cx.send(command);
    }
}

fn cells(r: &Row, own: Option<usize>) -> [String; 8] {
    let number = |v: Option<f64>, digits| {
        v.map_or_else(|| "\u{2014}".to_owned(), |v| paint::number(v, digits))
    };
    let place = |p: Option<usize>| p.map_or_else(|| "\u{2014}".to_owned(), |p| (p + 1).to_string());
    [
        place(own),
        place(r.a),
        number(r.score_b, 3),
        number(r.score_a, 3),
        number(r.score_drift, 3),
        number(r.box_drift, 2),
        number(r.iou, 2),
        number(r.seam_distance, 1),
    ]
}

fn spoken(r: &Row, own: Option<usize>) -> String {
    let [_, _, score, reference, drift, ..] = cells(r, own);
    let which = own.map_or_else(
        || "only in the reference".to_owned(),
        |p| format!("finding {}", p + 1),
    );
    format!(
        "{which}: {}, score {score}, reference {reference}, drift {drift}",
        seams::word(r)
    )
}
