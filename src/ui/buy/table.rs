//! The shortlist: one row a card, sorted by any column, with cost as a bar.

use crate::app::Command;
use crate::app::buying::Buying;
use crate::hardware::{Card, Offer, Running};
use crate::memory::Verdict;
use crate::ui::theme::{Theme, fade, hue, size};
use crate::ui::{Cx, fonts, kit, paint};
use crate::units::with_thousands;
use eframe::egui::{
    self, Align2, Color32, Rect, Sense, Stroke, Ui, WidgetInfo, accesskit::Role, pos2, vec2,
};
use std::cmp::Ordering;

/// How the table is sorted, and what is wrong with what is being typed.
#[derive(Clone, Debug)]
pub(in crate::ui) struct View {
    by: Column,
    falling: bool,
    /// The field's name and the sentence.
    pub(super) wrong: Option<(&'static str, String)>,
}

impl Default for View {
    fn default() -> Self {
        Self {
            by: Column::Cost,
            falling: false,
            wrong: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Name,
    Usable,
    Headroom,
    Verdict,
    Seconds,
    PerDay,
    Cards,
    Back,
    Purchase,
    Cost,
    Bar,
}

/// Column, heading, width, and the width of the table from which it is shown.
const COLUMNS: [(Column, &str, f32, f32); 11] = [
    (Column::Name, "card", 190.0, 0.0),
    (Column::Usable, "usable GiB", 82.0, 960.0),
    (Column::Headroom, "headroom", 84.0, 0.0),
    (Column::Verdict, "verdict", 76.0, 0.0),
    (Column::Seconds, "s / study", 76.0, 0.0),
    (Column::PerDay, "studies / day", 100.0, 0.0),
    (Column::Cards, "cards", 62.0, 0.0),
    (Column::Back, "p95 s", 72.0, 900.0),
    (Column::Purchase, "purchase USD", 108.0, 1040.0),
    (Column::Cost, "USD / 1,000", 96.0, 0.0),
    (Column::Bar, "", 0.0, 860.0),
];

/// What stands in one row.
struct Line<'a> {
    card: &'a Card,
    offer: &'a Offer,
}

impl Line<'_> {
    fn running(&self) -> Option<&Running> {
        self.offer.running.as_ref()
    }

    /// What the column sorts by; `None` stands last either way.
    fn figure(&self, column: Column) -> Option<f64> {
        let r = self.running();
        match column {
            Column::Name => None,
            Column::Usable => Some(self.offer.usable.as_gib()),
            Column::Headroom => Some(self.offer.headroom as f64),
            Column::Verdict => Some(match self.offer.verdict {
                Verdict::Fits => 0.0,
                Verdict::Tight => 1.0,
                Verdict::Over => 2.0,
            }),
            Column::Seconds => r.map(|r| r.seconds),
            Column::PerDay => r.map(|r| r.studies_per_day),
            Column::Cards => r.map(|r| r.n as f64),
            Column::Back => r?.p95_seconds,
            Column::Purchase => r?.price,
            Column::Cost | Column::Bar => r?.cost,
        }
    }

    fn text(&self, column: Column) -> String {
        let number = |v: Option<f64>, decimals| {
            v.map_or_else(|| "\u{2014}".to_owned(), |v| paint::number(v, decimals))
        };
        match column {
            Column::Name => {
                let doubt = if self.card.usable_is_uncertain() {
                    " *"
                } else {
                    ""
                };
                let name = self.card.short_name();
                let size = self.card.nameplate();
                if name.ends_with(&size) {
                    format!("{name}{doubt}")
                } else {
                    format!("{name}  {size}{doubt}")
                }
            }
            Column::Usable => number(self.figure(column), 2),
            Column::Headroom => {
                let gib = self.offer.headroom as f64 / f64::from(1u32 << 30);
                let sign = if gib > 0.0 { "+" } else { "" };
                format!("{sign}{}", paint::number(gib, 2))
            }
            Column::Seconds | Column::Back => number(self.figure(column), 1),
            Column::PerDay | Column::Cards | Column::Purchase => {
                let text = number(self.figure(column), 0);
                text.parse().map_or(text, with_thousands)
            }
            Column::Cost => {
                let cost = self.figure(column).map(|c| c * 1e3);
                number(
                    cost,
                    if cost.is_some_and(|c| c >= 100.0) {
                        0
                    } else {
                        2
                    },
                )
            }
            Column::Verdict | Column::Bar => String::new(),
        }
    }
}

fn order(a: &Line<'_>, b: &Line<'_>, view: &View) -> Ordering {
    let turn = |o: Ordering| if view.falling { o.reverse() } else { o };
    let by = match view.by {
        Column::Name => turn(a.card.short_name().cmp(b.card.short_name())),
        column => match (a.figure(column), b.figure(column)) {
            (Some(x), Some(y)) => turn(x.total_cmp(&y)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        },
    };
    by.then_with(|| a.offer.usable.cmp(&b.offer.usable))
        .then_with(|| a.card.id.cmp(&b.card.id))
}

/// Draws the table.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>, found: &Buying) {
    let t = Theme::of(ui.ctx());
    let mut lines: Vec<Line<'_>> = found
        .offers
        .iter()
        .filter_map(|offer| {
            let card = cx.state.catalogue.get(&offer.id).ok()?;
            Some(Line { card, offer })
        })
        .collect();
    lines.sort_by(|a, b| order(a, b, &cx.local.buy));
    let need = found.offers.first().map_or_else(String::new, |o| {
        let (low, high) = (o.required_low.as_gib(), o.required_high.as_gib());
        if o.required_low == o.required_high {
            format!("needs {high:.2} GiB beside context and display")
        } else {
            format!("needs {low:.2} to {high:.2} GiB beside context and display")
        }
    });
    let fits = lines.iter().filter(|l| l.running().is_some()).count();
    kit::heading(
        ui,
        "Shortlist",
        &need,
        &format!("{fits} of {} cards can run it", lines.len()),
    );
    header(ui, cx, &t);
    let dearest = lines
        .iter()
        .filter_map(|l| l.running()?.cost_per_study)
        .map(|r| r.high)
        .filter(|c| c.is_finite())
        .fold(0.0, f64::max);
    let mut clicked = None;
    egui::ScrollArea::vertical().auto_shrink(false).show_rows(
        ui,
        size::ROW,
        lines.len(),
        |ui, shown| {
            for line in lines.get(shown).unwrap_or(&[]) {
                if row(ui, cx, line, dearest, &t) {
                    clicked = Some(line.card.id.clone());
                }
            }
        },
    );
    if let Some(id) = clicked {
        cx.send(Command::FocusCard(id));
    }
}

/// The columns that this width has room for, with their places.
fn cells(area: Rect) -> Vec<(Column, &'static str, Rect)> {
    let mut x = area.left() + size::INSET;
    let shown: Vec<_> = COLUMNS.iter().filter(|c| area.width() >= c.3).collect();
    let fixed: f32 = shown.iter().map(|c| c.2).sum();
    let left = area.width() - 2.0 * size::INSET - fixed;
    // Without the bar the columns take what is left among them.
    let bar = shown.iter().any(|c| c.0 == Column::Bar);
    let more = if bar {
        0.0
    } else {
        (left / shown.len() as f32).max(0.0)
    };
    shown
        .into_iter()
        .map(|(column, head, wide, _)| {
            let wide = if *column == Column::Bar {
                left.max(0.0)
            } else {
                wide + more
            };
            let r = Rect::from_min_size(pos2(x, area.top()), vec2(wide - 12.0, area.height()));
            x += wide;
            (*column, *head, r)
        })
        .collect()
}

const fn align(column: Column) -> Align2 {
    match column {
        Column::Name | Column::Verdict | Column::Bar => Align2::LEFT_CENTER,
        _ => Align2::RIGHT_CENTER,
    }
}

fn header(ui: &mut Ui, cx: &mut Cx<'_>, t: &Theme) {
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), size::ROW), Sense::hover());
    for (column, head, r) in cells(area) {
        if head.is_empty() {
            continue;
        }
        let response = ui.interact(r, ui.scope_id().with(head), Sense::click());
        let on = cx.local.buy.by == column;
        let arrow = match (on, cx.local.buy.falling) {
            (false, _) => "",
            (true, false) => " \u{2191}",
            (true, true) => " \u{2193}",
        };
        let color = if on || response.hovered() {
            t.strong
        } else {
            t.secondary
        };
        let font = if on {
            fonts::caption_bold()
        } else {
            fonts::caption()
        };
        let at = align(column).pos_in_rect(&r);
        let text = format!("{head}{arrow}");
        ui.painter().text(at, align(column), &text, font, color);
        response.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Sort by {head}")));
        if response.clicked() {
            let view = &mut cx.local.buy;
            view.falling = on && !view.falling;
            view.by = column;
        }
    }
}

fn row(ui: &mut Ui, cx: &Cx<'_>, line: &Line<'_>, dearest: f64, t: &Theme) -> bool {
    let (area, response) =
        ui.allocate_exact_size(vec2(ui.available_width(), size::ROW), Sense::click());
    let on = cx.state.document.card_in_focus.as_deref() == Some(line.card.id.as_str());
    if on || response.hovered() {
        let fill = if on { t.select } else { t.hover };
        ui.painter().rect_filled(area, 0, fill);
    }
    let (mark, color, word) = paint::verdict(t, line.offer.verdict);
    let over = line.offer.verdict == Verdict::Over;
    let ink = match (on, over) {
        (true, _) => t.strong,
        (_, true) => t.secondary,
        _ => t.text,
    };
    for (column, _, r) in cells(area) {
        match column {
            Column::Verdict => {
                let at = r.left_center() + vec2(5.0, 0.0);
                paint::mark(ui.painter(), at, 10.0, mark, color);
                let r = r.with_min_x(r.left() + 16.0);
                kit::text_in(ui, r, Align2::LEFT_CENTER, word, fonts::body(), color);
            }
            Column::Bar => bar(ui, line, r, dearest, t),
            _ => {
                let negative = column == Column::Headroom && line.offer.headroom < 0;
                let ink: Color32 = if negative { t.over } else { ink };
                let text = line.text(column);
                kit::text_in(ui, r, align(column), &text, fonts::body(), ink);
            }
        }
    }
    let stroke = Stroke::new(1.0, t.line);
    ui.painter().hline(area.x_range(), area.bottom(), stroke);
    let name = line.text(Column::Name);
    let cost = line.text(Column::Cost);
    response.widget_info(|| {
        let text = format!("{name}, {word}, {cost} USD per 1,000 studies");
        WidgetInfo::selected(Role::Row, true, on, text)
    });
    let clicked = response.clicked();
    if response.hovered() {
        response.on_hover_text(tip(line));
    }
    clicked
}

/// Cost as a bar, from and to as a line over it; filled where no other card is both faster and cheaper.
fn bar(ui: &Ui, line: &Line<'_>, r: Rect, dearest: f64, t: &Theme) {
    let Some((running, range)) = line.running().and_then(|r| Some((r, r.cost_per_study?))) else {
        return;
    };
    // Dear cards would flatten the others: a bar is as long as the root of its cost.
    let x = |cost: f64| {
        let share = (cost / dearest.max(1e-12)).max(0.0).sqrt();
        r.left() + r.width() * paint::f(share.min(1.0))
    };
    let color = if running.efficient {
        hue::REFERENCE
    } else {
        t.line_strong
    };
    let y = r.center().y;
    let end = x(running.cost.unwrap_or(range.low));
    let area = Rect::from_min_max(pos2(r.left(), y - 4.0), pos2(end, y + 4.0));
    ui.painter().rect_filled(area, 0, color);
    let stroke = Stroke::new(1.0, fade(t.text, 0.6));
    ui.painter().hline(x(range.low)..=x(range.high), y, stroke);
}

/// Where the row's figures are from.
fn tip(line: &Line<'_>) -> String {
    let card = line.card;
    let mut out = vec![format!(
        "{}: memory: {} ({})",
        card.name, card.memory.figures.source, card.memory.figures.date
    )];
    out.push(format!(
        "rates: {} ({})",
        card.rates.figures.source, card.rates.figures.date
    ));
    match &card.price {
        Some(p) => out.push(format!(
            "{} USD: {} ({})",
            paint::number(p.usd, 0),
            p.figures.source,
            p.figures.date
        )),
        None => out.push("no price is known: give one in a card file".to_owned()),
    }
    if let Some(r) = line.running() {
        let s = r.seconds_range;
        out.push(format!("{:.1} to {:.1} s a study, forecast", s.low, s.high));
        if let Some(c) = r.cost_per_study {
            let (low, high) = (c.low * 1e3, c.high * 1e3);
            out.push(format!("{low:.2} to {high:.2} USD per 1,000 studies"));
        }
        if let Some(c) = r.rent_per_study {
            let (low, high) = (c.low * 1e3, c.high * 1e3);
            out.push(format!("rented: {low:.2} to {high:.2} USD per 1,000"));
        }
    }
    let doubts = card.row().uncertain;
    if !doubts.is_empty() {
        out.push(format!("* not looked up: {}", doubts.join(", ")));
    }
    out.join("\n")
}
