//! The whole program's state: document, view, study, result, jobs, messages. `apply` changes it and returns what else to do; `poll` takes in what jobs send.

use super::command::Command;
use super::derived::Derived;
use super::document::SeriesRef;
use super::document::{Document, History};
use super::effect::Effect;
use super::seams::{RunMaps, SeamState};
use super::settings::{Settings, SettingsDir};
use super::source::SeriesSource;
use super::study::FreshSlice;
use super::study::{StudyState, VolumeState};
use super::view::{View, Workspace};
use super::work::{JobInfo, Jobs};
use crate::detect::Detection;
use crate::exchange::result::RunResult;
use crate::geometry::Affine;
use crate::hardware::Catalogue;
use crate::jobs::Waker;
use crate::memory::Precision;
use crate::memory::budget::{Mode, Runtime};
use crate::network::{self, Model};
use crate::study::Opened;
use crate::study::sides::Loaded;
use crate::tiling;
use crate::units::Bytes;
use std::path::PathBuf;
use std::sync::Arc;

/// How bad a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something was done.
    Info,
    /// Something is odd.
    Warning,
    /// Something could not be done; stays until dismissed.
    Error,
}

/// A toast, kept in the messages list.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Unique within the session.
    pub id: u64,
    /// How bad it is.
    pub severity: Severity,
    /// A few words.
    pub title: String,
    /// One sentence more, or nothing.
    pub detail: String,
    /// A button on the toast: its word and what it sends.
    pub action: Option<(String, Command)>,
    /// Whether its toast was dismissed (it stays in the list).
    pub dismissed: bool,
}

/// What can run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// `cpu`, or `cuda:0` and so on.
    pub id: String,
    /// Whether it can run.
    pub available: bool,
    /// Why not, or nothing.
    pub reason: String,
    /// The device's name.
    pub device: Option<String>,
    /// Memory of the device.
    pub total: Option<Bytes>,
    /// Free memory of the device.
    pub free: Option<Bytes>,
}

impl From<crate::engine::EngineInfo> for EngineInfo {
    fn from(e: crate::engine::EngineInfo) -> Self {
        Self {
            id: e.id,
            available: e.available,
            reason: e.reason.unwrap_or_default(),
            device: e.device,
            total: e.total,
            free: e.free,
        }
    }
}

/// The network of the plan.
#[derive(Clone, Debug, Default)]
pub enum NetworkState {
    /// None is chosen.
    #[default]
    None,
    /// This one is being read.
    Reading(String),
    /// Read.
    Ready(Box<NetworkInfo>),
    /// It cannot be used, with the sentence that says why.
    Failed(String),
}

/// A network that was read.
#[derive(Clone, Debug)]
pub struct NetworkInfo {
    /// Graph, manifest, weights.
    pub model: Arc<Model>,
    /// Parameters, reach, strides, norms; lists in the tensor's axis order.
    pub facts: network::Facts,
    /// What windows need of it, in x, y, z order.
    pub tiling: tiling::Facts,
}

impl NetworkState {
    pub(super) fn ready(model: Arc<Model>, facts: network::Facts) -> Self {
        let tiling = tiling::Facts::of(&facts, model.manifest.input.axes);
        Self::Ready(Box::new(NetworkInfo {
            model,
            facts,
            tiling,
        }))
    }

    /// The network, once it was read.
    pub fn info(&self) -> Option<&NetworkInfo> {
        match self {
            Self::Ready(info) => Some(info),
            _ => None,
        }
    }

    /// Graph, manifest and weights, once they were read.
    pub fn model(&self) -> Option<Arc<Model>> {
        self.info().map(|i| Arc::clone(&i.model))
    }
}

/// A run in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunProgress {
    /// Its job.
    pub job: u64,
    /// Windows (or steps) done.
    pub done: u64,
    /// Windows (or steps) in all.
    pub total: u64,
    /// The share that is done, parts of a window among it, in percent.
    pub percent: Option<u8>,
}

/// A finished run with the plan that it was made by.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Tells one from the next.
    pub id: u64,
    /// The plan of the run.
    pub document: Document,
    /// The result file.
    pub result: RunResult,
    /// It as a side of a comparison.
    pub loaded: Arc<Loaded>,
    /// What the run left to be looked at.
    pub maps: Arc<RunMaps>,
    /// The file that it was read of.
    pub path: Option<PathBuf>,
}

impl Outcome {
    /// What it found, in the order of the result file.
    pub fn detections(&self) -> &[Detection] {
        &self.result.detections
    }
}

/// How the window starts.
#[derive(Clone, Debug, Default)]
pub struct Startup {
    /// Folders and files to open.
    pub paths: Vec<PathBuf>,
    /// MODEL.
    pub network: Option<String>,
    /// Weights for it.
    pub weights: Option<String>,
    /// A plan file.
    pub plan: Option<PathBuf>,
    /// The workspace to show.
    pub workspace: Option<Workspace>,
    /// Start with the demo.
    pub demo: bool,
}

/// What was asked for at the start and has not been laid over a plan or a network yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// A plan file was named too and is still being read.
    pub(super) plan: bool,
    /// MODEL in place of the plan's.
    pub(super) network: Option<String>,
    /// Weights for the first network.
    pub(super) weights: Option<String>,
}

/// The program's state.
#[derive(Debug)]
pub struct State {
    /// What the user chose. Change it through commands.
    pub document: Document,
    /// What is on screen.
    pub view: View,
    /// What outlives the session.
    pub settings: Settings,
    /// What follows from the document.
    pub derived: Derived,
    /// The open study.
    pub study: Option<StudyState>,
    /// The network of the plan.
    pub network: NetworkState,
    /// The cards that are known.
    pub catalogue: Arc<Catalogue>,
    /// The last finished run.
    pub outcome: Option<Outcome>,
    /// Its seams, and another result held against it.
    pub seams: SeamState,
    /// The run in progress.
    pub run: Option<RunProgress>,
    /// What can run here; empty until probed.
    pub engines: Vec<EngineInfo>,
    /// Messages, newest last.
    pub messages: Vec<Message>,
    /// One pass over the whole volume is allowed for the next run.
    pub single_pass_allowed: bool,
    /// Where the plan was saved last.
    pub plan_path: Option<PathBuf>,
    pub(super) history: History,
    pub(super) jobs: Jobs,
    pub(super) settings_dir: SettingsDir,
    pub(super) next_id: u64,
    pub(super) opened: Option<Arc<Opened>>,
    pub(super) sources: Vec<(SeriesRef, SeriesSource, Affine)>,
    pub(super) fresh_slices: Vec<FreshSlice>,
    pub(super) network_generation: u64,
    pub(super) take_windows_of_network: bool,
    pub(super) asked: Asked,
    /// The proposed manifest that was accepted, and the network that it is for.
    pub(super) accepted_manifest: Option<(String, network::Manifest)>,
}

impl State {
    /// A state with these settings; `wake` is called when a job has news, so that a sleeping window draws again.
    /// Load the settings before (`SettingsDir::load`), and pass on what was wrong with them.
    pub fn new(settings_dir: SettingsDir, wake: Waker) -> Self {
        let (settings, wrong) = settings_dir.load();
        let mut state = Self {
            document: Document::default(),
            view: View::default(),
            settings,
            derived: Derived::default(),
            study: None,
            network: NetworkState::default(),
            catalogue: Arc::new(Catalogue::builtin()),
            outcome: None,
            seams: SeamState::default(),
            run: None,
            engines: Vec::new(),
            messages: Vec::new(),
            single_pass_allowed: false,
            plan_path: None,
            history: History::default(),
            jobs: Jobs::new(wake),
            settings_dir,
            next_id: 1,
            opened: None,
            sources: Vec::new(),
            fresh_slices: Vec::new(),
            network_generation: 0,
            take_windows_of_network: false,
            asked: Asked::default(),
            accepted_manifest: None,
        };
        state.document.cards = state
            .catalogue
            .shown_by_default()
            .iter()
            .map(|c| c.id.clone())
            .collect();
        state.derive();
        if let Some(wrong) = wrong {
            state.say(
                Severity::Error,
                "Settings could not be read",
                wrong.to_string(),
            );
        }
        state
    }

    /// Takes in how the window starts and returns the commands to send, in order.
    pub fn begin(&mut self, startup: &Startup) -> Vec<Command> {
        // Plans and paths are looked at on threads: what was asked for beside them is laid over what they turn out to be.
        self.asked = Asked {
            plan: startup.plan.is_some(),
            network: startup.network.clone().filter(|_| startup.plan.is_some()),
            weights: startup.weights.clone(),
        };
        let mut out = vec![Command::ProbeEngines];
        if let Some(plan) = &startup.plan {
            out.push(Command::Open(plan.clone()));
        }
        if startup.demo {
            out.push(Command::TryDemo);
        }
        out.extend(startup.paths.iter().cloned().map(Command::Open));
        out.extend(startup.network.clone().map(Command::SetNetwork));
        out.extend(startup.workspace.map(Command::ShowWorkspace));
        out
    }

    /// Adds a message and returns its number.
    pub fn say(
        &mut self,
        severity: Severity,
        title: impl Into<String>,
        detail: impl Into<String>,
    ) -> u64 {
        let id = self.fresh_id();
        self.messages.push(Message {
            id,
            severity,
            title: title.into(),
            detail: detail.into(),
            action: None,
            dismissed: false,
        });
        id
    }

    pub(super) fn fresh_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// The series that is loaded or loading.
    pub fn volume_state(&self) -> Option<&VolumeState> {
        self.study.as_ref()?.volume.as_ref()
    }

    /// Whether names are masked on screen: by the settings, or for a picture that is being taken.
    pub const fn identity_masked(&self) -> bool {
        self.settings.mask_identity || self.view.taking_picture
    }

    /// What is running now.
    pub fn jobs(&self) -> Vec<JobInfo> {
        self.jobs.list()
    }

    /// Whether there is something to undo.
    pub fn can_undo(&self) -> bool {
        self.history.can_undo()
    }

    /// Whether there is something to redo.
    pub fn can_redo(&self) -> bool {
        self.history.can_redo()
    }

    /// Why the result is of an older plan ("overlap was 0.20, is 0.25"); empty while it is of this one.
    pub fn stale(&self) -> Vec<String> {
        let changes = self
            .outcome
            .as_ref()
            .map_or_else(Vec::new, |o| self.document.changes_since(&o.document));
        let other = self.seams.other_volume;
        let other = other.then(|| "the study that is open has other voxels".to_owned());
        other.into_iter().chain(changes).collect()
    }

    /// The detections shown, filtered and sorted: place in the result, and the detection.
    pub fn detections(&self) -> impl Iterator<Item = (usize, &Detection)> {
        let all = self.outcome.as_ref().map_or(&[][..], Outcome::detections);
        self.derived
            .detections
            .iter()
            .filter_map(|&i| Some((i, all.get(i)?)))
    }

    /// Whether a card of this id is in the catalogue.
    pub fn knows_card(&self, id: &str) -> bool {
        self.catalogue.get(id).is_ok()
    }

    /// Why the plan cannot be run now; `None` when it can, or when only its proposed manifest must be seen first.
    pub fn why_not_run(&self) -> Option<String> {
        if self.run.is_some() {
            return Some("a run is in progress".to_owned());
        }
        let Some(volume) = self.volume_state() else {
            return Some("no volume is loaded".to_owned());
        };
        if volume.is_loading() {
            return Some("the volume is still loading".to_owned());
        }
        let Some(network) = self.network.info() else {
            return Some(match &self.network {
                NetworkState::Failed(e) => e.clone(),
                NetworkState::Reading(_) => "the network is still being read".to_owned(),
                _ => "no network is chosen".to_owned(),
            });
        };
        self.why_plan_does_not_run(network)
    }

    fn why_plan_does_not_run(&self, network: &NetworkInfo) -> Option<String> {
        if let Some(refusal) = self.opened.as_ref().and_then(|o| o.refusal.clone()) {
            return Some(refusal);
        }
        if network.model.weights.is_none() {
            return Some(format!(
                "{} has no weights, so it can be planned but not run: choose some under Weights",
                network.model.graph.name
            ));
        }
        if let Some(u) = network.facts.unsupported.first() {
            return Some(format!("{} ({}) cannot be run: {}", u.op, u.node, u.reason));
        }
        if self.document.runtime != Runtime::Voxfit || self.document.mode != Mode::Inference {
            return Some("a run needs the Voxfit runtime and inference".to_owned());
        }
        if self.document.precision != Precision::Fp32 {
            return Some("the CPU engine runs fp32; other precisions are planned only".to_owned());
        }
        match &self.derived.tiling {
            Some(Err(e)) => Some(e.clone()),
            Some(Ok(plan)) if plan.is_single_pass() && !self.single_pass_allowed => Some(format!(
                "one window of {} covers the whole volume of {}: choose a smaller roi, or allow one pass for this run",
                plan.roi, plan.volume
            )),
            _ => None,
        }
    }

    pub(super) fn give_action(&mut self, id: u64, word: &str, command: &Command) {
        for m in self.messages.iter_mut().filter(|m| m.id == id) {
            m.action = Some((word.to_owned(), command.clone()));
        }
    }

    /// Applies a command, starts the jobs it asks for, and returns what only the window can do.
    pub fn dispatch(&mut self, command: Command) -> Vec<Effect> {
        let mut rest = Vec::new();
        for effect in self.apply(command) {
            match effect {
                Effect::Start(request) => self.start(request),
                other => rest.push(other),
            }
        }
        rest
    }
}
