//! Chords to commands, from the one table; keys without a modifier only while no text field has focus.

use crate::app::keys::{Chord, Key};
use crate::app::{Command, Invoke, State, by_chord};
use eframe::egui::{self, Event, Ui};

/// Commands of the keys pressed in this frame.
pub(super) fn collect(ui: &Ui, state: &State, out: &mut Vec<Command>) {
    let typing = ui.ctx().text_edit_focused();
    let held = ui.input(|i| i.key_down(egui::Key::Space)) && !typing && nothing_focused(ui);
    if held != state.view.overlays_hidden {
        out.push(Command::HideOverlays(held));
    }
    let plain = ui.input(|i| i.key_down(egui::Key::F) && i.modifiers.is_none());
    let flicker = plain && !typing && state.seams.reference.is_some();
    if flicker != state.view.flicker {
        out.push(Command::Flicker(flicker));
    }
    let events: Vec<(egui::Key, egui::Modifiers)> = ui.input(|i| {
        i.events
            .iter()
            .filter_map(|e| match e {
                Event::Key {
                    key,
                    pressed: true,
                    modifiers,
                    ..
                } => Some((*key, *modifiers)),
                _ => None,
            })
            .collect()
    });
    for (key, mods) in events {
        let Some(key) = key_of(key) else { continue };
        let own = mods.command || matches!(key, Key::F(_) | Key::Escape);
        if typing && !own {
            continue;
        }
        let arrows = matches!(
            key,
            Key::Up | Key::Down | Key::PageUp | Key::PageDown | Key::Home | Key::End
        );
        if (arrows || matches!(key, Key::Space | Key::Enter))
            && !mods.command
            && !nothing_focused(ui)
        {
            continue;
        }
        // Signs such as + are typed with Shift on many keyboards.
        let plain_sign = matches!(key, Key::Char(c) if !c.is_ascii_alphanumeric());
        let chord = Chord {
            ctrl: mods.command,
            shift: mods.shift && !plain_sign,
            key,
        };
        if let Some(info) = by_chord(chord)
            && let Invoke::Now(command) = &info.invoke
        {
            out.push(command.clone());
        }
    }
}

fn nothing_focused(ui: &Ui) -> bool {
    ui.memory(|m| m.focused().is_none())
}

fn key_of(key: egui::Key) -> Option<Key> {
    use egui::Key as K;
    Some(match key {
        K::ArrowUp => Key::Up,
        K::ArrowDown => Key::Down,
        K::PageUp => Key::PageUp,
        K::PageDown => Key::PageDown,
        K::Home => Key::Home,
        K::End => Key::End,
        K::Space => Key::Space,
        K::Enter => Key::Enter,
        K::Escape => Key::Escape,
        K::Plus => Key::Char('+'),
        K::Minus => Key::Char('-'),
        K::Equals => Key::Char('='),
        K::Comma => Key::Char(','),
        K::Period => Key::Char('.'),
        K::OpenBracket => Key::Char('['),
        K::CloseBracket => Key::Char(']'),
        other => {
            let name = other.name();
            let mut chars = name.chars();
            match (chars.next(), chars.as_str()) {
                (Some(c), "") if c.is_ascii_alphanumeric() => Key::Char(c.to_ascii_uppercase()),
                (Some('F'), n) => Key::F(n.parse().ok()?),
                _ => return None,
            }
        }
    })
}

/// Moves the keyboard focus on, as Tab does; F6.
pub(super) fn next_panel(ctx: &egui::Context) {
    ctx.memory_mut(|m| m.move_focus(egui::FocusDirection::Next));
}
