//! The command palette: every command by fuzzy search, with its keys, and why it cannot act now.

use super::theme::Theme;
use super::{Cx, fonts, kit, paint};
use crate::app::keys::System;
use crate::app::{Command, CommandInfo, Invoke, table};
use eframe::egui::{
    self, Align, Align2, Rect, Sense, Stroke, TextFormat, Ui, WidgetInfo, accesskit::Role, pos2,
    text::LayoutJob, vec2,
};
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// Rows shown at once.
const ROWS: usize = 12;

/// What was typed, which row is chosen, and the command that waits for its text.
#[derive(Default)]
pub(super) struct Palette {
    text: String,
    chosen: usize,
    typing_for: Option<&'static CommandInfo>,
    wrong: Option<String>,
    open: bool,
}

struct Hit {
    info: &'static CommandInfo,
    score: u32,
    letters: Vec<u32>,
}

fn hits(text: &str) -> Vec<Hit> {
    let mut matcher = Matcher::new(Config::DEFAULT);
    let pattern = Pattern::parse(text, CaseMatching::Ignore, Normalization::Smart);
    let mut buffer = Vec::new();
    let mut out: Vec<Hit> = table()
        .iter()
        .filter_map(|info| {
            let mut letters = Vec::new();
            let name = Utf32Str::new(info.name, &mut buffer);
            let score = pattern.indices(name, &mut matcher, &mut letters)?;
            letters.sort_unstable();
            Some(Hit {
                info,
                score,
                letters,
            })
        })
        .collect();
    out.sort_by_key(|h| std::cmp::Reverse(h.score));
    out
}

/// Draws the palette; the command that was chosen closes it.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let palette = &mut cx.local.palette;
    let first = !palette.open;
    if first {
        *palette = Palette {
            open: true,
            ..Palette::default()
        };
    }
    ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
    ui.set_width(480.0);
    let (area, _) = ui.allocate_exact_size(vec2(480.0, 44.0), Sense::hover());
    let field = area.shrink(8.0);
    let hint = match palette.typing_for.map(|i| &i.invoke) {
        Some(Invoke::Typed { hint, .. }) => *hint,
        _ => "Search commands",
    };
    let before = palette.text.clone();
    ui.painter().rect(
        field,
        4,
        t.bg,
        Stroke::new(1.0, t.strong),
        egui::StrokeKind::Inside,
    );
    let id = ui.scope_id().with("palette field");
    let mut child = ui.new_child(
        egui::UiBuilder::new()
            .id_salt("field")
            .max_rect(field.shrink(1.0)),
    );
    let response = child.add(
        egui::TextEdit::singleline(&mut palette.text)
            .id(id)
            .frame(egui::Frame::NONE.inner_margin(egui::Margin::symmetric(8, 2)))
            .align(Align2([Align::Min, Align::Center]))
            .min_size(field.size() - vec2(2.0, 2.0))
            .hint_text(hint)
            .desired_width(field.width() - 20.0),
    );
    let response = response.accessible_name("Search all commands");
    if first || !response.has_focus() {
        response.request_focus();
    }
    if palette.text != before {
        palette.chosen = 0;
        palette.wrong = None;
    }
    let enter = ui.input(|i| i.key_pressed(egui::Key::Enter));
    if let Some(info) = palette.typing_for {
        typed(ui, cx, info, enter, &t);
        return;
    }
    let found = hits(&palette.text);
    let last = found.len().saturating_sub(1);
    let (up, down) = ui.input(|i| {
        (
            i.key_pressed(egui::Key::ArrowUp),
            i.key_pressed(egui::Key::ArrowDown),
        )
    });
    if down {
        palette.chosen = (palette.chosen + 1).min(last);
    }
    if up {
        palette.chosen = palette.chosen.saturating_sub(1);
    }
    let chosen = palette.chosen;
    let from = chosen.saturating_sub(ROWS - 1);
    let mut act = None;
    for (i, hit) in found.iter().enumerate().skip(from).take(ROWS) {
        let why = hit.info.why_disabled(cx.state);
        if row(ui, hit, i == chosen, why.as_deref(), &t) || (enter && i == chosen) {
            act = why.is_none().then_some(hit.info);
        }
    }
    if found.is_empty() {
        kit::note(ui, "No command has this name");
    }
    ui.add_space(4.0);
    kit::caption(
        ui,
        "\u{2191}\u{2193} choose \u{b7} Enter run \u{b7} Esc close",
    );
    ui.add_space(8.0);
    if let Some(info) = act {
        match &info.invoke {
            Invoke::Now(command) => close(cx, command.clone()),
            Invoke::Typed { .. } => {
                cx.local.palette.typing_for = Some(info);
                cx.local.palette.text.clear();
            }
        }
    }
}

fn close(cx: &mut Cx<'_>, command: Command) {
    cx.send(Command::Escape);
    cx.send(command);
    cx.local.palette.open = false;
}

fn typed(ui: &mut Ui, cx: &mut Cx<'_>, info: &'static CommandInfo, enter: bool, t: &Theme) {
    kit::note(ui, info.name);
    let wrong = cx.local.palette.wrong.clone();
    match wrong {
        Some(text) => {
            kit::rich(ui, &[kit::Span::new(text, fonts::caption(), t.over)]);
        }
        None => {
            kit::caption(ui, "Type it and press Enter");
        }
    }
    ui.add_space(8.0);
    let parsed = match (&info.invoke, enter) {
        (Invoke::Typed { parse, .. }, true) => parse(&cx.local.palette.text, cx.state),
        _ => return,
    };
    match parsed {
        Ok(command) => close(cx, command),
        Err(text) => cx.local.palette.wrong = Some(text),
    }
}

/// Called when the palette is not shown, so that it opens empty the next time.
pub(super) const fn closed(palette: &mut Palette) {
    palette.open = false;
}

fn row(ui: &mut Ui, hit: &Hit, on: bool, why: Option<&str>, t: &Theme) -> bool {
    let (area, response) = ui.allocate_exact_size(vec2(480.0, 28.0), Sense::click());
    if on || response.hovered() {
        ui.painter()
            .rect_filled(area, 0, if on { t.select } else { t.hover });
    }
    let color = if why.is_some() { t.disabled } else { t.text };
    let mut job = LayoutJob::default();
    for (i, c) in hit.info.name.chars().enumerate() {
        let strong = u32::try_from(i).is_ok_and(|i| hit.letters.binary_search(&i).is_ok());
        let (font, color) = match (strong, why) {
            (true, None) => (fonts::body_bold(), t.strong),
            _ => (fonts::body(), color),
        };
        job.append(&c.to_string(), 0.0, TextFormat::simple(font, color));
    }
    let galley = ui.painter().layout_job(job);
    ui.painter().galley(
        pos2(area.left() + 18.0, area.center().y - galley.size().y / 2.0),
        galley,
        color,
    );
    let right = pos2(area.right() - 18.0, area.center().y);
    if let Some(why) = why {
        let room = Rect::from_min_max(
            pos2(area.left() + 230.0, area.top()),
            pos2(right.x, area.bottom()),
        );
        kit::text_in(
            ui,
            room,
            Align2::RIGHT_CENTER,
            why,
            fonts::caption(),
            t.secondary,
        );
    } else if let Some(keys) = hit.info.keys.first() {
        paint::key_cap(ui.painter(), right, &keys.label(System::here()), t);
    }
    response.widget_info(|| {
        WidgetInfo::labeled(
            Role::MenuItem,
            why.is_none(),
            format!("Command: {}", hit.info.name),
        )
    });
    response.clicked()
}

/// Whether every command that the table lists is found by its own name; for tests.
#[cfg(test)]
fn finds(name: &str) -> bool {
    hits(name).iter().any(|h| h.info.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name() {
        for info in table() {
            assert!(finds(info.name), "{}", info.name);
        }
    }

    #[test]
    fn a_few_letters_find_the_demo() {
        let found = hits("trydem");
        assert_eq!(found.first().map(|h| h.info.variant), Some("TryDemo"));
    }
}
