//! Key chords as data, so that the menu, the palette, the key sheet and the tests read one table on all three systems.

use std::fmt;

/// A desktop system: it decides what a chord is called and which chords are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum System {
    /// Linux.
    Linux,
    /// Windows.
    Windows,
    /// macOS, where Ctrl is the command key.
    Mac,
}

impl System {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Linux, Self::Windows, Self::Mac];

    /// The system that the program was built for.
    pub const fn here() -> Self {
        if cfg!(target_os = "macos") {
            Self::Mac
        } else if cfg!(target_os = "windows") {
            Self::Windows
        } else {
            Self::Linux
        }
    }
}

/// A key by what is printed on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A letter (capital), a digit or a sign.
    Char(char),
    /// F1 to F12.
    F(u8),
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// Space bar.
    Space,
    /// Enter.
    Enter,
    /// Escape.
    Escape,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Char(c) => write!(f, "{c}"),
            Self::F(n) => write!(f, "F{n}"),
            Self::Up => f.write_str("Up"),
            Self::Down => f.write_str("Down"),
            Self::PageUp => f.write_str("PgUp"),
            Self::PageDown => f.write_str("PgDn"),
            Self::Home => f.write_str("Home"),
            Self::End => f.write_str("End"),
            Self::Space => f.write_str("Space"),
            Self::Enter => f.write_str("Enter"),
            Self::Escape => f.write_str("Esc"),
        }
    }
}

/// A key with its modifiers. `ctrl` is the command key on macOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Chord {
    /// Ctrl (Cmd on macOS).
    pub ctrl: bool,
    /// Shift.
    pub shift: bool,
    /// The key.
    pub key: Key,
}

impl Chord {
    /// The key alone.
    pub const fn plain(key: Key) -> Self {
        Self {
            ctrl: false,
            shift: false,
            key,
        }
    }

    /// Shift and the key.
    pub const fn shift(key: Key) -> Self {
        Self {
            ctrl: false,
            shift: true,
            key,
        }
    }

    /// Ctrl and the key.
    pub const fn ctrl(key: Key) -> Self {
        Self {
            ctrl: true,
            shift: false,
            key,
        }
    }

    /// Ctrl, Shift and the key.
    pub const fn ctrl_shift(key: Key) -> Self {
        Self {
            ctrl: true,
            shift: true,
            key,
        }
    }

    /// As the menu prints it on `system`: `Ctrl+Shift+O`, `Cmd+Shift+O`.
    pub fn label(self, system: System) -> String {
        let mut out = String::new();
        if self.ctrl {
            out.push_str(if system == System::Mac {
                "Cmd+"
            } else {
                "Ctrl+"
            });
        }
        if self.shift {
            out.push_str("Shift+");
        }
        out.push_str(&self.key.to_string());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chord_reads_as_it_is_printed_on_each_system() {
        let c = Chord::ctrl_shift(Key::Char('O'));
        assert_eq!(c.label(System::Linux), "Ctrl+Shift+O");
        assert_eq!(c.label(System::Windows), "Ctrl+Shift+O");
        assert_eq!(c.label(System::Mac), "Cmd+Shift+O");
        assert_eq!(Chord::plain(Key::PageDown).label(System::Mac), "PgDn");
    }
}
