//! What outlives a session: theme, scale, mask, layout of the panels, recent items. A broken file gives the defaults and is kept as `.bak`.

use crate::geometry::Extent;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Colours of the window; slices are on black in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Theme {
    /// For the reading room.
    #[default]
    Dark,
    /// For bright rooms.
    Light,
    /// Black, white and full colours.
    HighContrast,
}

/// What a recent item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecentKind {
    /// A study.
    Study,
    /// A plan file.
    Plan,
    /// A network file.
    Network,
}

/// Something opened before. Holds no patient name: the label is masked before it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recent {
    /// What it is.
    pub kind: RecentKind,
    /// Path, or `phantom:XxYxZ`.
    pub source: String,
    /// Masked name: "Subject 4F2A", "Demo chest phantom", "plan: PyTorch 512x512x64".
    pub label: String,
    /// "CT, chest", a network's name, "generated".
    pub detail: String,
    /// Its size, when known.
    pub size: Option<Extent>,
    /// When it was opened last, seconds since 1970.
    pub opened: u64,
}

/// How many recent items are kept.
pub const RECENT_ITEMS: usize = 12;

/// What is kept between sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Colours.
    pub theme: Theme,
    /// Size of the user interface in per cent, 75 to 250.
    pub ui_scale: u16,
    /// Whether names are masked on screen (outputs are always masked).
    pub mask_identity: bool,
    /// Layout of the panels, as the window wrote it.
    pub layout: Option<String>,
    /// Recent items, newest first.
    pub recent: Vec<Recent>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            theme: Theme::default(),
            ui_scale: 100,
            mask_identity: true,
            layout: None,
            recent: Vec::new(),
        }
    }
}

/// Settings that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file is there but is not settings.
    #[error("settings could not be read ({reason}); defaults are used and the old file is kept as {}", kept.display())]
    Broken {
        /// What is wrong with it.
        reason: String,
        /// Where the old file is now.
        kept: PathBuf,
    },
    /// The file cannot be read or written.
    #[error("settings cannot be kept ({reason}); check the permissions of {}", path.display())]
    Io {
        /// What the system said.
        reason: String,
        /// The file.
        path: PathBuf,
    },
}

/// The folder where settings live. Tests give their own, so that they never touch the user's.
#[derive(Clone, Debug)]
pub struct SettingsDir(Option<PathBuf>);

impl SettingsDir {
    /// The user's own folder, as the system names it.
    pub fn of_user() -> Self {
        Self(directories::ProjectDirs::from("", "", "voxfit").map(|d| d.config_dir().to_path_buf()))
    }

    /// This folder.
    pub const fn at(folder: PathBuf) -> Self {
        Self(Some(folder))
    }

    /// Nowhere: nothing is read or kept.
    pub const fn none() -> Self {
        Self(None)
    }

    /// The settings file, when there is a folder.
    pub fn file(&self) -> Option<PathBuf> {
        self.0.as_ref().map(|d| d.join("settings.toml"))
    }

    /// The settings, and what was wrong with the file if they are the defaults because of it.
    pub fn load(&self) -> (Settings, Option<SettingsError>) {
        let Some(path) = self.file() else {
            return (Settings::default(), None);
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return (Settings::default(), None);
            }
            Err(e) if e.kind() != std::io::ErrorKind::InvalidData => {
                let reason = e.to_string();
                return (
                    Settings::default(),
                    Some(SettingsError::Io { reason, path }),
                );
            }
            Err(_) => {
                return (
                    Settings::default(),
                    Some(set_aside(&path, "it is not text")),
                );
            }
        };
        match toml::from_str::<Settings>(&text) {
            Ok(mut s) => {
                s.ui_scale = s.ui_scale.clamp(75, 250);
                s.recent.truncate(RECENT_ITEMS);
                (s, None)
            }
            Err(e) => (Settings::default(), Some(set_aside(&path, e.message()))),
        }
    }

    /// Writes the settings beside their place, then renames.
    pub fn save(&self, settings: &Settings) -> Result<(), SettingsError> {
        let Some(path) = self.file() else {
            return Ok(());
        };
        let io = |reason: String| SettingsError::Io {
            reason,
            path: path.clone(),
        };
        let text = toml::to_string_pretty(settings).map_err(|e| io(e.to_string()))?;
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(|e| io(e.to_string()))?;
        }
        super::files::write_whole("settings", &path, text.as_bytes()).map_err(io)
    }
}

fn set_aside(path: &Path, reason: &str) -> SettingsError {
    let kept = path.with_extension("toml.bak");
    match std::fs::rename(path, &kept) {
        Ok(()) => SettingsError::Broken {
            reason: reason.lines().next().unwrap_or(reason).to_owned(),
            kept,
        },
        Err(e) => SettingsError::Io {
            reason: e.to_string(),
            path: path.to_path_buf(),
        },
    }
}

impl Settings {
    /// Puts an item first in the recent list; the same source is listed once, the oldest falls off.
    pub fn remember(&mut self, item: Recent) {
        self.recent.retain(|r| r.source != item.source);
        self.recent.insert(0, item);
        self.recent.truncate(RECENT_ITEMS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_settings_file_gives_the_defaults_and_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let at = SettingsDir::at(dir.path().to_path_buf());
        std::fs::write(at.file().unwrap(), "theme = [not toml").unwrap();
        let (settings, wrong) = at.load();
        assert_eq!(settings, Settings::default());
        assert!(wrong.unwrap().to_string().contains("settings.toml.bak"));
        let kept = std::fs::read_to_string(dir.path().join("settings.toml.bak")).unwrap();
        assert_eq!(kept, "theme = [not toml");
        assert!(at.load().1.is_none(), "the second start says nothing");
    }

    #[test]
    fn settings_come_back_as_they_were_saved() {
        let dir = tempfile::tempdir().unwrap();
        let at = SettingsDir::at(dir.path().join("new").join("folder"));
        let mut s = Settings {
            theme: Theme::HighContrast,
            ui_scale: 150,
            ..Settings::default()
        };
        for i in 0..20 {
            s.remember(Recent {
                kind: RecentKind::Study,
                source: format!("/data/{}", i % 15),
                label: format!("Subject {i}"),
                detail: "CT, head".to_owned(),
                size: Some(Extent::new(512, 512, 140)),
                opened: i,
            });
        }
        assert_eq!(s.recent.len(), RECENT_ITEMS);
        assert_eq!(s.recent[0].source, "/data/4");
        at.save(&s).unwrap();
        assert_eq!(at.load().0, s);
    }
}
