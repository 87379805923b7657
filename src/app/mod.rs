//! The program without a window: document, derived, command, state. Window, command line and tests all send the same commands.

mod apply;
pub mod buying;
pub mod calibration;
pub mod command;
pub mod derived;
pub mod document;
pub mod effect;
pub mod facts;
pub mod files;
pub mod findings;
mod fixes;
pub mod keys;
pub mod layers;
mod mapping;
mod news;
mod open;
pub mod page;
pub mod parse;
pub mod proposal;
mod report_job;
pub mod seams;
pub mod settings;
mod source;
pub mod state;
#[cfg(test)]
mod state_tests;
pub mod study;
mod surface;
pub mod table;
pub mod tensor;
pub mod tour;
pub mod view;
mod why;
pub mod work;

pub use apply::DEMO_STUDY;
pub use command::Command;
pub use derived::{Derived, Fix, SeamPlane};
pub use document::{ChoiceError, Document, SeriesRef, WindowLevel};
pub use effect::{Dialog, Effect, JobRequest, ViewAction};
pub use keys::{Chord, Key, System};
pub use seams::SeamState;
pub use settings::{Settings, SettingsDir, Theme};
pub use source::{is_volume_file, masked_subject};
pub use state::{
    EngineInfo, Message, NetworkInfo, NetworkState, Outcome, RunProgress, Severity, Startup, State,
};
pub use study::{FreshSlice, SeriesItem, SliceBuffer, StudyState, Thumbnail, VolumeState, Warning};
pub use table::{CommandInfo, Invoke, Menu, by_chord, by_command, table};
pub use view::{Filter, Layer, Layers, Popup, SeamMap, SortBy, View, Workspace};
pub use work::JobInfo;
