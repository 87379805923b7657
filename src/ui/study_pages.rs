//! What is odd about a study, file by file, and the facts of a series: the pages behind the yellow strip.

use super::theme::{Theme, size};
use super::{Cx, fonts, kit, paint};
use crate::app::findings::{self, COLUMNS, Finding};
use crate::app::{Command, facts};
use eframe::egui::{self, Align, Align2, Rect, Sense, Ui, vec2};

/// The rows of the list, made again when the study or the filter changes.
#[derive(Default)]
pub(super) struct List {
    text: String,
    key: Option<([u64; 3], usize, String)>,
    all: Vec<Finding>,
    shown: Vec<usize>,
}

/// How wide a page may be on this screen.
pub(super) fn room(ui: &Ui, most: egui::Vec2) -> egui::Vec2 {
    let screen = ui.ctx().content_rect().size();
    most.min(screen - vec2(64.0, 96.0))
}

/// Title at the left, buttons at the right; the place of each button, counted from the right.
pub(super) fn title(ui: &mut Ui, text: &str, width: f32) -> Rect {
    ui.set_width(width);
    let t = Theme::of(ui.ctx());
    let (area, _) = ui.allocate_exact_size(vec2(width, 44.0), Sense::hover());
    kit::text_in(
        ui,
        area.shrink2(vec2(16.0, 0.0)),
        Align2::LEFT_CENTER,
        text,
        fonts::title(),
        t.strong,
    );
    kit::separator(ui);
    area
}

fn button_at(area: Rect, place: f32, width: f32) -> Rect {
    let right = area.right() - 12.0 - place;
    Rect::from_min_size(
        egui::pos2(right - width, area.center().y - 14.0),
        vec2(width, 28.0),
    )
}

/// Warnings in sentences, then a row for each file and number; filtered, copied, any number of them.
pub(super) fn list(ui: &mut Ui, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let most = room(ui, vec2(980.0, 640.0));
    let area = title(ui, "What is odd about this study", most.x);
    refresh(cx);
    if findings_help(cx) {
        let at = button_at(area, 0.0, 120.0);
        if kit::button(ui, at, "Series details", kit::Look::Plain, None).clicked() {
            cx.send(Command::ShowSeriesDetails);
        }
    }
    sentences(ui, cx, most.y * 0.36, &t);
    kit::separator(ui);
    let (bar, _) = ui.allocate_exact_size(vec2(most.x, 40.0), Sense::hover());
    let n = cx.local.list.all.len();
    let count = match cx.local.list.shown.len() {
        1 if n == 1 => "1 row".to_owned(),
        shown if shown == n => format!("{n} rows"),
        shown => format!("{shown} of {n} rows"),
    };
    kit::text_in(
        ui,
        bar.shrink2(vec2(16.0, 0.0)),
        Align2::LEFT_CENTER,
        &count,
        fonts::caption(),
        t.secondary,
    );
    let at = button_at(bar, 0.0, 88.0);
    let none = cx.local.list.shown.is_empty().then_some("no row is shown");
    if kit::button(ui, at, "Copy rows", kit::Look::Plain, none).clicked() {
        ui.ctx().copy_text(as_text(&cx.local.list));
    }
    let field = Rect::from_min_size(
        egui::pos2(at.left() - 8.0 - 260.0, bar.center().y - 12.0),
        vec2(260.0, 24.0),
    );
    let text = cx.local.list.text.clone();
    if let Some(typed) = kit::edit(ui, field, "Filter rows", &text, Align::Min, false) {
        cx.local.list.text = typed;
    }
    if cx.local.list.text.is_empty() {
        ui.painter().text(
            field.left_center() + vec2(8.0, 0.0),
            Align2::LEFT_CENTER,
            "Filter: a file, a kind, a number",
            fonts::body(),
            t.secondary,
        );
    }
    let masked = cx.state.view.taking_picture;
    rows(ui, &cx.local.list, most, masked, &t);
}

fn findings_help(cx: &Cx<'_>) -> bool {
    cx.state
        .study
        .as_ref()
        .is_some_and(|s| s.selected().is_some())
}

fn as_text(list: &List) -> String {
    let lines = list.shown.iter().filter_map(|&i| list.all.get(i));
    let mut out = COLUMNS.join("\t");
    for f in lines {
        out.push('\n');
        out.push_str(&f.line());
    }
    out
}

fn refresh(cx: &mut Cx<'_>) {
    let Some(study) = &cx.state.study else {
        cx.local.list = List::default();
        return;
    };
    let volume = study.volume.as_ref().map_or(0, |v| v.generation);
    let chosen = |s: &crate::app::SeriesItem| Some(&s.reference) == study.chosen.as_ref();
    let chosen = study.series.iter().position(chosen).map_or(0, |i| i + 1);
    let generation = [study.generation, volume, chosen as u64];
    let told = study.skipped.len() + (study.warnings().len() << 32);
    let list = &mut cx.local.list;
    let key = (generation, told, list.text.clone());
    if list.key.as_ref() == Some(&key) {
        return;
    }
    if list
        .key
        .as_ref()
        .is_none_or(|k| (k.0, k.1) != (generation, told))
    {
        list.all = findings::list(study);
    }
    let wanted = list.text.trim().to_lowercase();
    list.shown = (0..list.all.len())
        .filter(|&i| wanted.is_empty() || list.all[i].holds(&wanted))
        .collect();
    list.key = Some(key);
}

fn sentences(ui: &mut Ui, cx: &Cx<'_>, height: f32, t: &Theme) {
    egui::ScrollArea::vertical()
        .id_salt("sentences")
        .max_height(height)
        .min_scrolled_height(height)
        .show(ui, |ui| {
            ui.add_space(8.0);
            let study = cx.state.study.as_ref();
            let warnings = study.map_or(&[][..], |s| s.warnings());
            if warnings.is_empty() {
                kit::note(ui, "Nothing is odd about the series that is shown.");
            }
            if let Some(item) = study.and_then(|s| s.selected())
                && !item.usable
            {
                let text = match study.and_then(|s| s.refused.as_ref()) {
                    Some(_) => "This series can neither be shown nor run.",
                    None => "This series can be looked at and must not be run.",
                };
                kit::rich(ui, &[kit::Span::new(text, fonts::body_bold(), t.over)]);
                ui.add_space(4.0);
            }
            for w in warnings {
                let top = ui.cursor().top();
                paint::mark(
                    ui.painter(),
                    egui::pos2(ui.max_rect().left() + 17.0, top + 10.0),
                    10.0,
                    paint::Mark::Triangle,
                    t.tight,
                );
                let text = format!("     {}", w.text);
                kit::rich(ui, &[kit::Span::new(text, fonts::body(), t.text)]);
                ui.add_space(6.0);
            }
            ui.add_space(4.0);
        });
}

/// Left edges and widths of the columns.
fn columns(width: f32) -> [(f32, f32); 6] {
    let free = (width - 32.0 - 130.0 - 78.0 - 2.0 * 92.0).max(200.0);
    let widths = [130.0, free * 0.5, 78.0, 92.0, 92.0, free * 0.5];
    let mut x = 16.0;
    widths.map(|w| {
        let at = (x, w - 12.0);
        x += w;
        at
    })
}

/// The table; file names may hold a patient's, so a picture of the window shows none (`masked`).
fn rows(ui: &mut Ui, list: &List, most: egui::Vec2, masked: bool, t: &Theme) {
    let at = columns(most.x);
    let cell = |area: Rect, i: usize| {
        let (x, w) = at[i];
        Rect::from_min_size(area.min + vec2(x, 0.0), vec2(w, area.height()))
    };
    let align = |i: usize| {
        if i == 3 || i == 4 {
            Align2::RIGHT_CENTER
        } else {
            Align2::LEFT_CENTER
        }
    };
    let (head, _) = ui.allocate_exact_size(vec2(most.x, size::ROW), Sense::hover());
    for (i, name) in COLUMNS.iter().enumerate() {
        kit::text_in(
            ui,
            cell(head, i),
            align(i),
            name,
            fonts::caption(),
            t.secondary,
        );
    }
    kit::separator(ui);
    if list.shown.is_empty() {
        ui.add_space(8.0);
        kit::note(
            ui,
            if list.all.is_empty() {
                "No file was skipped and no number is odd."
            } else {
                "No row holds this text."
            },
        );
    }
    egui::ScrollArea::vertical()
        .id_salt("rows")
        .max_height(most.y * 0.64 - 90.0)
        .min_scrolled_height(most.y * 0.64 - 90.0)
        .auto_shrink([false, true])
        .show_rows(ui, size::ROW, list.shown.len(), |ui, range| {
            for f in list
                .shown
                .get(range)
                .unwrap_or_default()
                .iter()
                .filter_map(|&i| list.all.get(i))
            {
                let (area, _) = ui.allocate_exact_size(vec2(most.x, size::ROW), Sense::hover());
                let file = if masked && !f.file.is_empty() {
                    "masked"
                } else {
                    &f.file
                };
                let texts = [
                    f.what.as_str(),
                    file,
                    &f.slice,
                    &f.found,
                    &f.expected,
                    &f.note,
                ];
                for (i, text) in texts.into_iter().enumerate().filter(|(_, t)| !t.is_empty()) {
                    let (font, color) = if i == 0 {
                        (fonts::body(), t.secondary)
                    } else {
                        (fonts::body(), t.text)
                    };
                    kit::text_in(ui, cell(area, i), align(i), text, font, color);
                }
            }
        });
    ui.add_space(8.0);
}

/// The facts of the series, in two columns of titled rows.
pub(super) fn details(ui: &mut Ui, cx: &mut Cx<'_>) {
    let most = room(ui, vec2(980.0, 700.0));
    let area = title(ui, "Series details", most.x);
    let sections = facts::of(cx.state);
    let at = button_at(area, 0.0, 72.0);
    if kit::button(ui, at, "Copy", kit::Look::Plain, None).clicked() {
        ui.ctx().copy_text(facts::as_text(&sections));
    }
    let at = button_at(area, 80.0, 92.0);
    if kit::button(ui, at, "Show list", kit::Look::Plain, None).clicked() {
        cx.send(Command::ShowWarnings);
    }
    // Balanced by how many rows there are.
    let weight = |s: &facts::Section| 2 + s.rows.len();
    let half = sections.iter().map(weight).sum::<usize>().div_ceil(2);
    let mut seen = 0;
    let split = sections
        .iter()
        .position(|s| {
            seen += weight(s);
            seen > half
        })
        .map_or(sections.len(), |i| i.max(1));
    egui::ScrollArea::vertical()
        .max_height(most.y - 45.0)
        .min_scrolled_height(most.y - 45.0)
        .show(ui, |ui| {
            ui.add_space(4.0);
            let width = most.x / 2.0;
            ui.horizontal_top(|ui| {
                ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
                for part in [&sections[..split], &sections[split..]] {
                    ui.vertical(|ui| {
                        ui.set_width(width);
                        for s in part {
                            section(ui, s, width);
                        }
                    });
                }
            });
            ui.add_space(12.0);
        });
}

fn section(ui: &mut Ui, s: &facts::Section, width: f32) {
    const LABEL: f32 = 124.0;
    let t = Theme::of(ui.ctx());
    kit::heading(ui, &s.title, "", "");
    for (label, value) in &s.rows {
        ui.horizontal_top(|ui| {
            ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
            ui.add_space(size::INSET);
            let words = |text: &str, font, color| {
                egui::Label::new(egui::RichText::new(text).font(font).color(color)).wrap()
            };
            let (room, _) = ui.allocate_exact_size(vec2(LABEL, 20.0), Sense::hover());
            let mut child =
                ui.new_child(egui::UiBuilder::new().max_rect(room.with_max_x(room.right() - 8.0)));
            child.add(words(label, fonts::caption(), t.secondary));
            let height = child.min_rect().height();
            ui.vertical(|ui| {
                ui.set_width(width - LABEL - 2.0 * size::INSET);
                ui.add(words(value, fonts::body(), t.text).selectable(true));
                // A label of two lines does not run into the next row.
                let more = height - ui.min_rect().height();
                if more > 0.0 {
                    ui.add_space(more);
                }
            });
        });
        ui.add_space(3.0);
    }
    ui.add_space(6.0);
}
