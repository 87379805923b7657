//! The one table of commands: name, tip, keys, menu and why disabled. Menu, palette, key sheet and tests read it.

mod file;
mod other;
mod plan;
mod view;

use super::command::Command;
use super::keys::{Chord, Key};
use super::state::State;

/// The menu that holds a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Menu {
    /// Open, save, export, quit.
    File,
    /// What is on screen.
    View,
    /// What is planned.
    Plan,
    /// Runs and jobs.
    Run,
    /// Detections.
    Review,
    /// Settings and the rest.
    Tools,
    /// Keys and about.
    Help,
}

impl Menu {
    /// All menus, in the order of the bar.
    pub const ALL: [Self; 7] = [
        Self::File,
        Self::View,
        Self::Plan,
        Self::Run,
        Self::Review,
        Self::Tools,
        Self::Help,
    ];

    /// As written on the bar.
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "File",
            Self::View => "View",
            Self::Plan => "Plan",
            Self::Run => "Run",
            Self::Review => "Review",
            Self::Tools => "Tools",
            Self::Help => "Help",
        }
    }
}

/// What choosing an entry does.
#[derive(Clone, Debug)]
pub enum Invoke {
    /// Sends this command.
    Now(Command),
    /// The palette asks for a text first, then `parse` makes the command or says what is wrong.
    Typed {
        /// What to type, as an example.
        hint: &'static str,
        /// Makes the command, or says in one sentence what is wrong.
        parse: fn(&str, &State) -> Result<Command, String>,
    },
}

/// Why an entry cannot be chosen now, in words; `None` when it can.
pub type WhyDisabled = fn(&State) -> Option<String>;

/// One entry of menu, palette and key sheet.
#[derive(Clone, Debug)]
pub struct CommandInfo {
    /// Name of the `Command` variant that it sends.
    pub variant: &'static str,
    /// As menu and palette print it.
    pub name: &'static str,
    /// One sentence more.
    pub tip: &'static str,
    /// Chords that send it (the first one is printed in the menu).
    pub keys: Vec<Chord>,
    /// The menu that holds it.
    pub menu: Menu,
    /// Whether the menu prints it (the palette and the key sheet list every entry).
    pub in_menu: bool,
    /// What choosing it does.
    pub invoke: Invoke,
    why: WhyDisabled,
}

impl CommandInfo {
    /// Why it cannot be chosen now, in words; `None` when it can.
    pub fn why_disabled(&self, state: &State) -> Option<String> {
        (self.why)(state)
    }

    /// The command, for entries that need no text.
    pub const fn command(&self) -> Option<&Command> {
        match &self.invoke {
            Invoke::Now(c) => Some(c),
            Invoke::Typed { .. } => None,
        }
    }

    fn key(mut self, chord: Chord) -> Self {
        self.keys.push(chord);
        self
    }

    fn when(mut self, why: WhyDisabled) -> Self {
        self.why = why;
        self
    }

    /// Leaves the entry out of the menu.
    fn palette_only(mut self) -> Self {
        self.in_menu = false;
        self
    }
}

fn now(menu: Menu, command: Command, name: &'static str, tip: &'static str) -> CommandInfo {
    CommandInfo {
        variant: command.variant(),
        name,
        tip,
        keys: Vec::new(),
        menu,
        in_menu: true,
        invoke: Invoke::Now(command),
        why: |_| None,
    }
}

fn typed(
    menu: Menu,
    variant: &'static str,
    name: &'static str,
    hint: &'static str,
    parse: fn(&str, &State) -> Result<Command, String>,
) -> CommandInfo {
    CommandInfo {
        variant,
        name,
        tip: "Type it in the palette after choosing this.",
        keys: Vec::new(),
        menu,
        in_menu: false,
        invoke: Invoke::Typed { hint, parse },
        why: |_| None,
    }
}

const fn c(letter: char) -> Key {
    Key::Char(letter)
}

/// Every command, in the order of the menus.
pub fn table() -> &'static [CommandInfo] {
    static TABLE: std::sync::OnceLock<Vec<CommandInfo>> = std::sync::OnceLock::new();
    TABLE.get_or_init(|| {
        [
            file::file(),
            file::save(),
            view::view(),
            view::display(),
            view::levels(),
            view::layers(),
            view::slices(),
            plan::plan(),
            plan::training(),
            plan::plan_typed(),
            plan::layers(),
            other::run(),
            other::review(),
            other::seams(),
            other::tours(),
            other::tools(),
        ]
        .concat()
    })
}

/// The entry that a chord belongs to.
pub fn by_chord(chord: Chord) -> Option<&'static CommandInfo> {
    table().iter().find(|i| i.keys.contains(&chord))
}

/// The entry that sends exactly this command.
pub fn by_command(command: &Command) -> Option<&'static CommandInfo> {
    table().iter().find(|i| i.command() == Some(command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::keys::System;
    use std::collections::BTreeMap;

    #[test]
    fn no_two_commands_share_a_key_on_any_system() {
        for system in System::ALL {
            let mut taken = BTreeMap::new();
            for info in table() {
                for key in &info.keys {
                    let before = taken.insert(key.label(system), info.name);
                    assert_eq!(
                        before,
                        None,
                        "{} also sends {}",
                        key.label(system),
                        info.name
                    );
                }
            }
        }
    }

    #[test]
    fn every_command_is_in_the_palette_and_on_the_key_sheet() {
        for variant in Command::VARIANTS {
            assert!(
                table().iter().any(|i| i.variant == *variant),
                "{variant} has no entry"
            );
        }
        for info in table() {
            assert!(
                Command::VARIANTS.contains(&info.variant),
                "{}",
                info.variant
            );
        }
    }

    #[test]
    fn names_are_told_apart_and_every_entry_explains_itself() {
        let mut names = std::collections::BTreeSet::new();
        for info in table() {
            assert!(names.insert(info.name), "{} twice", info.name);
            assert!(!info.tip.is_empty());
        }
    }
}
