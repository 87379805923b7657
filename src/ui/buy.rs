//! The Buy workspace, as far as it goes: what each card holds of this plan, with verdict and headroom.

use super::theme::{Theme, size};
use super::{Cx, fonts, kit, paint, panel};
use crate::app::Command;
use eframe::egui::{self, Align2, Rect, Sense, Ui, WidgetInfo, accesskit::Role, pos2, vec2};

const COLUMNS: [(&str, f32); 6] = [
    ("card", 0.30),
    ("usable GiB", 0.12),
    ("needs GiB", 0.18),
    ("headroom GiB", 0.14),
    ("verdict", 0.12),
    ("", 0.14),
];

/// Draws the table.
pub(super) fn show(ui: &mut Ui, content: Rect, cx: &mut Cx<'_>) {
    cx.local.status_hint = "Click a card to put it in focus";
    cx.local.scale_text.clear();
    panel(ui, content, "Cards", |ui| {
        let Some(budget) = cx.state.derived.budget.clone().and_then(Result::ok) else {
            kit::heading(ui, "Shortlist", "", "");
            kit::note(
                ui,
                "Choose a network in Plan: each card's verdict stands here",
            );
            return;
        };
        let required = budget.budget.parts.required();
        let gib = |b: crate::units::Bytes| b.as_gib();
        let needs = if required.low == required.high {
            format!("{:.2}", gib(required.high))
        } else {
            format!("{:.2} to {:.2}", gib(required.low), gib(required.high))
        };
        kit::heading(
            ui,
            "Shortlist",
            &format!("needs {needs} GiB beside context and display"),
            &format!("{} cards", budget.cards.len()),
        );
        let t = Theme::of(ui.ctx());
        header(ui, &t);
        let mut verdicts = budget.cards.clone();
        verdicts.sort_by_key(|v| (v.usable, v.id.clone()));
        egui::ScrollArea::vertical()
            .auto_shrink(false)
            .show(ui, |ui| {
                for v in &verdicts {
                    if row(ui, cx, v, &needs, &t) {
                        cx.send(Command::FocusCard(v.id.clone()));
                    }
                }
            });
    });
}

fn cells(area: Rect) -> Vec<Rect> {
    let inner = area.shrink2(vec2(12.0, 0.0));
    let mut x = inner.left();
    COLUMNS
        .iter()
        .map(|(_, share)| {
            let w = inner.width() * share;
            let r = Rect::from_min_size(pos2(x, inner.top()), vec2(w - 16.0, inner.height()));
            x += w;
            r
        })
        .collect()
}

const fn align(column: usize) -> Align2 {
    if matches!(column, 0 | 4 | 5) {
        Align2::LEFT_CENTER
    } else {
        Align2::RIGHT_CENTER
    }
}

fn header(ui: &mut Ui, t: &Theme) {
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), size::ROW), Sense::hover());
    for (i, r) in cells(area).into_iter().enumerate() {
        kit::text_in(ui, r, align(i), COLUMNS[i].0, fonts::caption(), t.secondary);
    }
}

fn row(ui: &mut Ui, cx: &Cx<'_>, v: &crate::hardware::CardVerdict, needs: &str, t: &Theme) -> bool {
    let (area, response) =
        ui.allocate_exact_size(vec2(ui.available_width(), size::ROW), Sense::click());
    let on = cx.state.document.card_in_focus.as_deref() == Some(v.id.as_str());
    if on || response.hovered() {
        ui.painter()
            .rect_filled(area, 0, if on { t.select } else { t.hover });
    }
    let name = cx
        .state
        .catalogue
        .get(&v.id)
        .map_or_else(|_| v.id.clone(), |c| c.short_name().to_owned());
    let (mark, color, word) = paint::verdict(t, v.verdict);
    let headroom = v.headroom as f64 / f64::from(1u32 << 30);
    let sign = if headroom > 0.0 { "+" } else { "" };
    let texts = [
        format!("{name}  {} GB", v.nameplate_gb),
        format!("{:.2}", v.usable.as_gib()),
        needs.to_owned(),
        format!("{sign}{}", paint::number(headroom, 2)),
        word.to_owned(),
        crate::hardware::verdict_words(v),
    ];
    for (i, r) in cells(area).into_iter().enumerate() {
        let (r, c) = match i {
            4 => {
                paint::mark(
                    ui.painter(),
                    r.left_center() + vec2(5.0, 0.0),
                    10.0,
                    mark,
                    color,
                );
                (r.with_min_x(r.left() + 16.0), color)
            }
            3 if headroom < 0.0 => (r, t.over),
            5 => (r.with_max_x(area.right() - 8.0), t.secondary),
            _ => (r, if on { t.strong } else { t.text }),
        };
        kit::text_in(ui, r, align(i), &texts[i], fonts::body(), c);
    }
    ui.painter().hline(
        area.x_range(),
        area.bottom(),
        egui::Stroke::new(1.0, t.line),
    );
    response.widget_info(|| {
        WidgetInfo::selected(
            Role::Row,
            true,
            on,
            format!("{}, {word}, {}", texts[0], texts[5]),
        )
    });
    response.clicked()
}
