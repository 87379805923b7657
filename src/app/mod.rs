//! The program without a window: document, derived, command, state. Window, command line and tests all send the same commands.

mod apply;
pub mod command;
pub mod derived;
pub mod document;
pub mod effect;
pub mod files;
pub mod keys;
pub mod parse;
pub mod settings;
pub mod state;
pub mod study;
pub mod table;
pub mod tensor;
pub mod view;
mod why;
pub mod work;

pub use apply::DEMO_STUDY;
pub use command::Command;
pub use derived::{Derived, Fix, SeamPlane};
pub use document::{ChoiceError, Document, SeriesRef, WindowLevel};
pub use effect::{Dialog, Effect, JobRequest, ViewAction};
pub use keys::{Chord, Key, System};
pub use settings::{Settings, SettingsDir, Theme};
pub use state::{EngineInfo, Message, Outcome, RunProgress, Severity, Startup, State};
pub use study::{FreshSlice, SeriesItem, StudyState, Thumbnail, VolumeState, Warning};
pub use table::{CommandInfo, Invoke, Menu, by_chord, by_command, table};
pub use view::{Filter, Layer, Layers, Popup, SortBy, View, Workspace};
pub use work::JobInfo;
