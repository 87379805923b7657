//! The seam table, worst first: a click or Enter on a row goes to the worst place near that seam.

use super::figure;
use crate::app::Command;
use crate::app::seams::SeamRow;
use crate::review::Verdict;
use crate::ui::theme::{Theme, size};
use crate::ui::{Cx, fonts, kit, paint};
use eframe::egui::{Align2, Layout, Sense, Ui, WidgetInfo, accesskit::Role, vec2};
use egui_extras::{Column, TableBuilder};
use std::sync::Arc;

/// Name and width of the columns, and whether they stay where there is little room.
const COLUMNS: [(&str, f32, bool); 8] = [
    ("axis", 40.0, true),
    ("face", 56.0, true),
    ("mismatch max", 94.0, true),
    ("mean", 64.0, false),
    ("step ratio", 72.0, true),
    ("diff max", 70.0, true),
    ("flips", 54.0, true),
    ("boxes", 66.0, false),
];

/// Draws the table.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let rows = Arc::clone(&cx.state.seams.rows);
    let ran = cx.state.outcome.is_some();
    let strong = match (rows.len(), ran) {
        (0, _) => String::new(),
        (n, true) => format!("{n} PLANES, worst first"),
        (n, false) => format!("{n} PLANES OF THE PLAN"),
    };
    kit::heading(ui, "Seams", &strong, "step ratio 1.0 alone proves nothing");
    if rows.is_empty() {
        let why = if ran {
            "One window covers the volume: no seam"
        } else {
            "One window, or no plan yet: no seam"
        };
        kit::caption(ui, why);
        return;
    }
    if !ran {
        kit::caption(ui, "A run fills the figures");
    }
    let t = Theme::of(ui.ctx());
    let wide = ui.available_width() >= 600.0;
    let columns: Vec<usize> = (0..COLUMNS.len())
        .filter(|c| wide || COLUMNS[*c].2)
        .collect();
    let in_focus = cx.state.seam_in_focus().map(SeamRow::id);
    let stale = ran && !cx.state.stale().is_empty();
    let mut sent = None;
    let mut builder = TableBuilder::new(ui)
        .id_salt("seams")
        .auto_shrink(false)
        .sense(Sense::click())
        .cell_layout(Layout::right_to_left(eframe::egui::Align::Center));
    for c in &columns {
        builder = builder.column(Column::exact(COLUMNS[*c].1));
    }
    builder = builder.column(Column::remainder());
    if let Some(row) = rows.iter().position(|r| Some(r.id()) == cx.state.view.seam)
        && std::mem::take(&mut cx.local.reveal)
    {
        builder = builder.scroll_to_row(row, None);
    }
    builder
        .header(size::ROW, |mut header| {
            for c in &columns {
                header.col(|ui| {
                    let at = ui.max_rect().shrink2(vec2(8.0, 0.0));
                    let (font, color) = (fonts::caption(), t.secondary);
                    if *c == 0 {
                        let (at, align) = (at.left_center(), Align2::LEFT_CENTER);
                        ui.painter().text(at, align, COLUMNS[*c].0, font, color);
                    } else {
                        let (at, align) = (at.right_center(), Align2::RIGHT_CENTER);
                        ui.painter().text(at, align, COLUMNS[*c].0, font, color);
                    }
                });
            }
            header.col(|ui| {
                let at = ui.max_rect().left_center() + vec2(16.0, 0.0);
                let (font, color) = (fonts::caption(), t.secondary);
                ui.painter()
                    .text(at, Align2::LEFT_CENTER, "verdict", font, color);
            });
        })
        .body(|body| {
            body.rows(size::ROW, rows.len(), |mut row| {
                let r = &rows[row.index()];
                let on = in_focus == Some(r.id());
                row.set_selected(on);
                let cells = cells(r);
                for c in &columns {
                    row.col(|ui| {
                        let color = match (stale, on, c) {
                            (true, ..) => t.disabled,
                            (_, true, _) | (_, _, 1 | 2) => t.strong,
                            (_, _, 3) => t.secondary,
                            _ => t.text,
                        };
                        let at = ui.max_rect().shrink2(vec2(8.0, 0.0));
                        let (at, align) = if *c == 0 {
                            (at.left_center(), Align2::LEFT_CENTER)
                        } else {
                            (at.right_center(), Align2::RIGHT_CENTER)
                        };
                        let painter = ui.painter();
                        painter.text(at, align, &cells[*c], fonts::body(), color);
                    });
                }
                row.col(|ui| judged(ui, r, stale, &t));
                let response = row.response();
                response.widget_info(|| WidgetInfo::selected(Role::Row, true, on, spoken(r)));
                if response.has_focus() {
                    let painter = response.ctx.layer_painter(response.layer_id);
                    painter.with_clip_rect(response.interact_rect).rect_stroke(
                        response.rect.shrink(1.0),
                        2,
                        eframe::egui::Stroke::new(1.0, t.strong),
                        eframe::egui::StrokeKind::Inside,
                    );
                }
                if response.clicked() {
                    sent = Some(r.id());
                }
            });
        });
    if let Some(id) = sent {
        cx.send(Command::SelectSeam(id));
    }
}

fn cells(r: &SeamRow) -> [String; 8] {
    let p = &r.record;
    let unknown = || "\u{2014}".to_owned();
    let boxes: Vec<String> = r
        .boxes
        .iter()
        .take(3)
        .map(|i| (i + 1).to_string())
        .collect();
    let more = if r.boxes.len() > 3 { " \u{2026}" } else { "" };
    [
        p.axis.name().to_owned(),
        p.at.to_string(),
        figure(p.raw_mismatch_max),
        figure(p.raw_mismatch_mean),
        p.step_ratio.map_or_else(unknown, |v| paint::number(v, 2)),
        figure(p.diff_max),
        p.flips.map_or_else(unknown, crate::units::with_thousands),
        if boxes.is_empty() {
            unknown()
        } else {
            format!("{}{more}", boxes.join(", "))
        },
    ]
}

fn judged(ui: &Ui, r: &SeamRow, stale: bool, t: &Theme) {
    let (mark, color, _) = super::strip::verdict(t, r.verdict);
    let color = if stale { t.disabled } else { color };
    let at = ui.max_rect().left_center();
    paint::mark(ui.painter(), at + vec2(20.0, 0.0), 10.0, mark, color);
    let color = match r.verdict {
        _ if stale => t.disabled,
        Some(Verdict::Bitwise | Verdict::Float | Verdict::Tolerance) => t.text,
        Some(_) => color,
        None => t.secondary,
    };
    let at = at + vec2(32.0, 0.0);
    ui.painter()
        .text(at, Align2::LEFT_CENTER, r.word(), fonts::body(), color);
}

fn spoken(r: &SeamRow) -> String {
    let p = &r.record;
    format!(
        "Seam {} = {}, {}, raw mismatch at most {}, difference at most {}",
        p.axis.name(),
        p.at,
        r.word(),
        figure(p.raw_mismatch_max),
        figure(p.diff_max)
    )
}
