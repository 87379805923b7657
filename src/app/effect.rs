//! What a command asks for beyond the state itself, as data: the window opens dialogs and takes pictures, `State::dispatch` starts jobs.

use super::document::{Document, SeriesRef};
use super::settings::Settings;
use std::path::{Path, PathBuf};

/// A file dialog. Its answer comes back as a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialog {
    /// A folder; answer `Command::Open`.
    OpenFolder,
    /// A file of any kind; answer `Command::Open`.
    OpenFile,
    /// A network; answer `Command::Open`.
    OpenNetwork,
    /// Weights for the network; answer `Command::SetWeights`.
    OpenWeights,
    /// Where to save the plan; answer `Command::SavePlanTo`.
    SavePlan,
    /// Where to write the report; answer `Command::ExportReportTo`.
    SaveReport,
    /// Where to write the result; answer `Command::SaveResultTo`.
    SaveResult,
    /// Where to write the volume; answer `Command::ExportVolumeTo`.
    SaveVolume,
    /// Where to save the manifest, this place first; answer `Command::SaveManifestTo`.
    SaveManifest(PathBuf),
    /// Where to write the picture; answer `Command::ScreenshotTo`.
    SaveScreenshot,
    /// A result to compare with; answer `Command::CompareWith`.
    OpenReference,
}

impl Dialog {
    /// A file name to start from, and the ending of the files it is about.
    pub fn suggestion(&self) -> Option<(&str, &'static str)> {
        match self {
            Self::OpenFolder
            | Self::OpenFile
            | Self::OpenNetwork
            | Self::OpenWeights
            | Self::OpenReference => None,
            Self::SavePlan => Some(("plan.voxplan", "voxplan")),
            Self::SaveReport => Some(("report.html", "html")),
            Self::SaveResult => Some(("result.json", "json")),
            Self::SaveVolume => Some(("volume.nii.gz", "gz")),
            Self::SaveManifest(place) => Some((place.file_name()?.to_str()?, "toml")),
            Self::SaveScreenshot => Some(("voxfit.png", "png")),
        }
    }

    /// The folder to start in, where one is better than another.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::SaveManifest(place) => place.parent().filter(|p| !p.as_os_str().is_empty()),
            _ => None,
        }
    }

    /// The command for the path that was chosen.
    pub fn answer(&self, path: PathBuf) -> super::Command {
        use super::Command as C;
        match self {
            Self::OpenFolder | Self::OpenFile | Self::OpenNetwork => C::Open(path),
            Self::OpenWeights => C::SetWeights(Some(path.to_string_lossy().into_owned())),
            Self::SavePlan => C::SavePlanTo(path),
            Self::SaveReport => C::ExportReportTo(path),
            Self::SaveResult => C::SaveResultTo(path),
            Self::SaveVolume => C::ExportVolumeTo(path),
            Self::SaveManifest(_) => C::SaveManifestTo(path),
            Self::SaveScreenshot => C::ScreenshotTo(path),
            Self::OpenReference => C::CompareWith(path),
        }
    }
}

/// Something that the window does to its own view state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewAction {
    /// Zoom and position of all planes as at first.
    Reset,
    /// One step in, the active plane.
    ZoomIn,
    /// One step out, the active plane.
    ZoomOut,
    /// The whole slice, the active plane.
    ZoomToFit,
    /// The next way to show a slab.
    NextSlab,
    /// Keyboard focus to the next panel.
    NextPanel,
    /// The whole screen, or not.
    FullScreen(bool),
    /// Scroll the detection list so that the selected row is seen.
    RevealSelection,
}

/// Work for a thread, as data.
#[derive(Clone, Debug, PartialEq)]
pub enum JobRequest {
    /// Find out what a path is and open it.
    Open(PathBuf),
    /// Look through a study, a file, a folder or `phantom:...`.
    Scan(String),
    /// Decode one series of the open study.
    Load(SeriesRef),
    /// Read a network.
    Network {
        /// MODEL.
        model: String,
        /// Weights for it, where they do not come with it.
        weights: Option<String>,
        /// Whether roi, overlap, blend and layout of its manifest are taken into the plan.
        take_windows: bool,
    },
    /// Run the plan on the loaded volume.
    Run {
        /// The plan.
        document: Box<Document>,
        /// One pass over the whole volume was allowed for this run.
        allow_single_pass: bool,
    },
    /// Look at what can run here.
    Probe,
    /// Write a plan file.
    SavePlan(PathBuf, Box<Document>),
    /// Write the report page.
    Report(PathBuf),
    /// Write the result file.
    SaveResult(PathBuf),
    /// Write the network's manifest.
    SaveManifest(PathBuf),
    /// Write the volume as `NIfTI`.
    SaveVolume(PathBuf),
    /// Read a result to hold the run against.
    Compare(PathBuf),
    /// Keep the settings.
    SaveSettings(Box<Settings>),
}

/// What a command asks for beyond the state itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Start a job (`State::dispatch` does).
    Start(JobRequest),
    /// Ask for a file or folder.
    OpenDialog(Dialog),
    /// Change what only the window knows.
    View(ViewAction),
    /// Write a picture of the window, identity masked, off the drawing thread.
    Screenshot(PathBuf),
    /// Leave the program.
    Quit,
}
