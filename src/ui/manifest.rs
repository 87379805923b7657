//! The manifest of the network: each field with its value and where it comes from; a proposed one is accepted here.

use super::theme::{Theme, size};
use super::{Cx, fonts, kit, paint, study_pages};
use crate::app::Command;
use crate::app::proposal::{Page, Row};
use crate::network::Origin;
use eframe::egui::{
    self, Align2, Color32, FontId, Galley, Rect, Sense, Stroke, Ui, WidgetInfo, accesskit::Role,
    pos2, vec2,
};
use std::sync::Arc;

/// Left edge and width of a column.
type Column = (f32, f32);

const INSET: f32 = 16.0;
const FOOT: f32 = 52.0;

/// Draws the page.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let most = study_pages::room(ui, vec2(880.0, 620.0));
    let Some(page) = cx.state.manifest_page() else {
        study_pages::title(ui, "Manifest", most.x);
        kit::note(ui, "No network is read.");
        ui.add_space(12.0);
        return;
    };
    let area = study_pages::title(ui, page.title, most.x);
    count(ui, area, &page, &t);
    ui.add_space(8.0);
    paragraph(ui, &page.lead, most.x, &t);
    let columns = columns(most.x);
    header(ui, &columns, most.x, &t);
    let top = ui.cursor().top() - area.top();
    let height = (most.y - top - FOOT - 1.0).max(120.0);
    egui::ScrollArea::vertical()
        .id_salt("manifest")
        .max_height(height)
        .min_scrolled_height(height)
        .show(ui, |ui| {
            for r in &page.rows {
                row(ui, r, &columns, most.x, &t);
            }
            if !page.notes.is_empty() {
                let (area, _) = ui.allocate_exact_size(vec2(most.x, size::HEADING), Sense::hover());
                let (left, bold) = (Align2::LEFT_CENTER, fonts::caption_bold());
                let at = area.shrink2(vec2(INSET, 0.0));
                kit::text_in(ui, at, left, "WORTH KNOWING", bold, t.secondary);
            }
            for note in &page.notes {
                paragraph(ui, note, most.x, &t);
            }
        });
    kit::separator(ui);
    foot(ui, cx, &page, most.x);
}

/// How many fields are guessed, at the right of the title.
fn count(ui: &mut Ui, area: Rect, page: &Page, t: &Theme) {
    let guessed = page.guessed();
    let (mark, color) = look(
        if guessed > 0 {
            Origin::Guessed
        } else {
            Origin::Told
        },
        t,
    );
    let text = format!("{guessed} of {} fields guessed", page.rows.len());
    let wide = ui
        .painter()
        .layout_no_wrap(text.clone(), fonts::body_bold(), t.text)
        .size()
        .x;
    let right = area.shrink2(vec2(INSET, 0.0));
    kit::text_in(
        ui,
        right,
        Align2::RIGHT_CENTER,
        &text,
        fonts::body_bold(),
        t.text,
    );
    let at = pos2(right.right() - wide - 12.0, area.center().y);
    paint::mark(ui.painter(), at, 10.0, mark, color);
}

const fn look(origin: Origin, t: &Theme) -> (paint::Mark, Color32) {
    match origin {
        Origin::Told => (paint::Mark::Disc, t.fits),
        Origin::Guessed => (paint::Mark::Triangle, t.tight),
    }
}

fn paragraph(ui: &mut Ui, text: &str, width: f32, t: &Theme) {
    let galley = wrapped(ui, text, fonts::body(), t.text, width - 2.0 * INSET);
    let (area, response) =
        ui.allocate_exact_size(vec2(width, galley.size().y + 8.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, text));
    let at = area.min + vec2(INSET, 0.0);
    ui.painter().galley(at, galley, t.text);
}

fn wrapped(ui: &Ui, text: &str, font: FontId, color: Color32, width: f32) -> Arc<Galley> {
    ui.painter().layout(text.to_owned(), font, color, width)
}

/// Field, value, where from, why.
fn columns(width: f32) -> [Column; 4] {
    let free = width - 2.0 * INSET - 152.0 - 96.0;
    let widths = [152.0, free * 0.46, 96.0, free * 0.54];
    let mut x = INSET;
    widths.map(|w| {
        let at = (x, w - 12.0);
        x += w;
        at
    })
}

fn header(ui: &mut Ui, columns: &[Column; 4], width: f32, t: &Theme) {
    let (area, _) = ui.allocate_exact_size(vec2(width, size::ROW), Sense::hover());
    for ((x, w), name) in columns
        .iter()
        .zip(["field", "value", "from", "by what, or why"])
    {
        let cell = Rect::from_min_size(area.min + vec2(*x, 0.0), vec2(*w, area.height()));
        kit::text_in(
            ui,
            cell,
            Align2::LEFT_CENTER,
            name,
            fonts::caption(),
            t.secondary,
        );
    }
    kit::separator(ui);
}

fn row(ui: &mut Ui, r: &Row, columns: &[Column; 4], width: f32, t: &Theme) {
    let (mark, color) = look(r.origin, t);
    let guessed = r.origin == Origin::Guessed;
    let (value, why) = if guessed {
        (t.strong, t.text)
    } else {
        (t.text, t.secondary)
    };
    let cells = [
        (r.name, fonts::body(), t.secondary),
        (r.value.as_str(), fonts::body(), value),
        (r.origin.word(), fonts::body(), t.text),
        (r.why.as_str(), fonts::body(), why),
    ];
    let mut galleys = Vec::with_capacity(cells.len());
    for ((_, w), (text, font, color)) in columns.iter().zip(cells) {
        galleys.push(wrapped(ui, text, font, color, *w));
    }
    let tall = galleys.iter().map(|g| g.size().y).fold(0.0, f32::max);
    let (area, response) = ui.allocate_exact_size(vec2(width, tall + 10.0), Sense::hover());
    let spoken = format!("{}: {}, {}: {}", r.name, r.value, r.origin.word(), r.why);
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &spoken));
    let line = galleys.first().map_or(0.0, |g| g.size().y);
    for (i, ((x, _), galley)) in columns.iter().zip(galleys).enumerate() {
        let mut at = area.min + vec2(*x, 5.0);
        if i == 2 {
            paint::mark(ui.painter(), at + vec2(5.0, line / 2.0), 10.0, mark, color);
            at.x += 18.0;
        }
        ui.painter().galley(at, galley, t.text);
    }
    let y = area.bottom() - 0.5;
    ui.painter()
        .hline(area.x_range().shrink(INSET), y, Stroke::new(1.0, t.line));
}

/// Save at the left; accept at the right, the best next step last.
fn foot(ui: &mut Ui, cx: &mut Cx<'_>, page: &Page, width: f32) {
    let (area, _) = ui.allocate_exact_size(vec2(width, FOOT), Sense::hover());
    let y = area.center().y - size::BUTTON / 2.0;
    let at = |left: f32, w: f32| Rect::from_min_size(pos2(left, y), vec2(w, size::BUTTON));
    let preset = cx.state.document.network.as_deref();
    let preset = preset.is_none_or(|n| n.starts_with("preset:"));
    let why = preset.then_some("a preset has its own manifest");
    let save = at(area.left() + INSET, 152.0);
    let button = kit::button(ui, save, "Save to change it\u{2026}", kit::Look::Plain, why);
    if button.clicked() {
        cx.send(Command::SaveManifestDialog);
    }
    let right = area.right() - INSET;
    if !page.waits {
        if kit::button(ui, at(right - 88.0, 88.0), "Close", kit::Look::Plain, None).clicked() {
            cx.send(Command::Escape);
        }
        return;
    }
    let runs = cx.state.why_not_run().is_none();
    let (left, look) = if runs {
        (right - 136.0 - 8.0 - 88.0, kit::Look::Plain)
    } else {
        (right - 88.0, kit::Look::Primary)
    };
    if kit::button(ui, at(left, 88.0), "Accept", look, None).clicked() {
        cx.send(Command::AcceptManifest);
    }
    let run = at(right - 136.0, 136.0);
    if runs && kit::button(ui, run, "Accept and run", kit::Look::Primary, None).clicked() {
        cx.send(Command::AcceptManifest);
        cx.send(Command::Run);
    }
}
