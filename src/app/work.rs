//! Jobs of the program: what each thread does and what it sends back. Late news of what was replaced falls away.

use super::document::{Document, EngineChoice, SeriesRef};
use super::effect::JobRequest;
use super::layers::{Layers, Line};
use super::seams::{
    DiffNews, KeptOutputs, MOST_WINDOWS, MapPicture, Matched, Read, Views, views_of,
};
use super::source::{self, LoadedSeries, Scanned, SeriesSource};
use super::state::{Severity, State};
use super::study::{FreshSlice, Thumbnail};
use super::{Command, SettingsDir};
use crate::engine::cpu::CpuEngine;
use crate::engine::{Engine, EngineInfo, probe};
use crate::exchange::nifti;
use crate::exchange::result::{NetworkSource, RunResult};
use crate::hardware::BudgetOnCards;
use crate::jobs::{Control, Job, Waker, spawn};
use crate::network::{self, Model};
use crate::report::TimelineChart;
use crate::study::{self, Keep, Opened, RunSpec};
use crate::volume::SharedVolume;
use std::path::PathBuf;
use std::sync::Arc;

/// A row of the jobs list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInfo {
    /// Unique within the session.
    pub id: u64,
    /// What it does.
    pub name: String,
    /// Steps done.
    pub done: u64,
    /// Steps in all; 0 while unknown.
    pub total: u64,
    /// The share that is done, parts of a step among it, in percent.
    pub percent: Option<u8>,
    /// Whether a stop was asked for.
    pub cancelling: bool,
}

pub(super) type Outbox = crate::jobs::Outbox<News>;

/// What a job sends back.
#[derive(Debug)]
pub(super) enum News {
    /// Something was done or could not be.
    Said(Severity, String, String),
    /// A path turned out to be this.
    Then(Command),
    /// A plan file was read.
    Plan(PathBuf, Box<Document>),
    /// A plan file cannot be read, with the sentence that says why.
    NoPlan(String),
    /// A result file was read, and whether the network of the plan made it.
    Result(PathBuf, Box<RunResult>, bool),
    /// A result to compare with was read, or the sentence that says why not.
    Reference(Result<Box<Read>, String>),
    /// Findings were matched, for this key.
    Matched(u64, Result<Box<Matched>, String>),
    /// Outputs were compared, for this key.
    Differed(u64, DiffNews),
    /// The outputs that the result of this number kept were read.
    Outputs(u64, Result<Arc<KeptOutputs>, String>),
    /// A result's volume was held against the open one, for this key: whether they are the same.
    VolumeChecked(u64, bool),
    /// A map was drawn.
    Picture(Option<Arc<MapPicture>>),
    /// A study was looked through.
    Scanned(Result<Scanned, String>),
    /// A slice was decoded.
    Slice(FreshSlice),
    /// A series is whole.
    Loaded(Result<Box<LoadedSeries>, String>),
    /// A middle slice.
    Thumbnail(SeriesRef, Arc<Thumbnail>),
    /// A network was read.
    Network(Result<Box<(Arc<Model>, network::Facts)>, String>),
    /// What can run here.
    Engines(Vec<EngineInfo>),
    /// A budget was made, for this key.
    Budget(u64, Result<Box<(BudgetOnCards, TimelineChart)>, String>),
    /// What running the window in tiles takes, for the budget of that key.
    TileFix(u64, Option<Box<crate::memory::budget::Fix>>),
    /// What other rois ask for, for this key.
    Surface(u64, Arc<crate::memory::surface::Surface>),
    /// What to buy, for this key.
    Buying(u64, Result<Arc<super::buying::Buying>, String>),
    /// The network's layers, for this key.
    Layers(u64, Arc<Layers>),
    /// The lines that a search leaves, for this key.
    LayerLines(u64, Arc<Vec<Line>>),
    /// A run ended; the error is a sentence, or nothing when it was cancelled.
    Ran(
        Box<Document>,
        Result<Box<(RunResult, Views)>, Option<String>>,
    ),
}

/// Jobs of one kind replace each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Scan,
    Load,
    Thumbnails,
    Network,
    Run,
    Budget,
    Tiles,
    Surface,
    Buying,
    Layers,
    LayerLines,
    Reference,
    Match,
    Difference,
    Outputs,
    Hash,
    Picture,
    Other,
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) id: u64,
    pub(super) kind: Kind,
    pub(super) job: Job<News>,
}

/// The running jobs.
#[derive(Debug)]
pub(super) struct Jobs {
    pub(super) wake: Waker,
    pub(super) running: Vec<Running>,
}

impl Jobs {
    pub(super) const fn new(wake: Waker) -> Self {
        Self {
            wake,
            running: Vec::new(),
        }
    }

    /// Jobs that the list shows: not the plan's own arithmetic.
    pub(super) fn list(&self) -> Vec<JobInfo> {
        self.running
            .iter()
            .filter(|r| {
                !matches!(
                    r.kind,
                    Kind::Budget
                        | Kind::Tiles
                        | Kind::Surface
                        | Kind::Buying
                        | Kind::Layers
                        | Kind::LayerLines
                        | Kind::Match
                        | Kind::Hash
                        | Kind::Picture
                )
            })
            .map(|r| {
                let (done, total) = r.job.control.progress();
                JobInfo {
                    id: r.id,
                    name: r.job.name.clone(),
                    done,
                    total,
                    percent: percent(&r.job.control),
                    cancelling: r.job.control.is_cancelled(),
                }
            })
            .collect()
    }

    pub(super) fn cancel(&self, id: u64) {
        for r in self.running.iter().filter(|r| r.id == id) {
            r.job.control.cancel();
        }
    }

    /// Drops all jobs of a kind; what they would still send falls away.
    pub(super) fn drop_kind(&mut self, kind: Kind) {
        self.running
            .retain(|r| r.kind != kind || kind == Kind::Other);
    }

    pub(super) fn has(&self, kind: Kind) -> bool {
        self.running.iter().any(|r| r.kind == kind)
    }
}

/// The share of a job that is done, in whole percent.
pub(super) fn percent(control: &Control) -> Option<u8> {
    let share = control.fraction()?;
    (0..=100_u8).rev().find(|p| f64::from(*p) <= share * 100.0)
}

impl State {
    /// Starts the job that an effect asks for.
    pub(super) fn start(&mut self, request: JobRequest) {
        let settings_dir = self.settings_dir.clone();
        match request {
            JobRequest::Scan(source) => {
                self.begin_scan(&source);
                self.jobs.drop_kind(Kind::Load);
                self.jobs.drop_kind(Kind::Thumbnails);
                self.spawn(Kind::Scan, "Look through files", move |c, out| {
                    let _closed = out.send(News::Scanned(source::scan(&source, c)));
                });
            }
            JobRequest::Load(reference) => self.start_load(&reference),
            JobRequest::Network { model, weights, .. } => {
                self.network = super::state::NetworkState::Reading(model.clone());
                self.forget_layers();
                self.spawn(Kind::Network, "Read network", move |_, out| {
                    let read = read_network(&model, weights.as_deref());
                    let _closed = out.send(News::Network(read));
                });
            }
            JobRequest::Run {
                document,
                allow_single_pass,
            } => self.start_run(document, allow_single_pass),
            JobRequest::Probe => self.spawn(Kind::Other, "Look for engines", |_, out| {
                let _closed = out.send(News::Engines(probe()));
            }),
            JobRequest::SaveResult(path) => {
                let Some(result) = self.outcome.as_ref().map(|o| o.result.clone()) else {
                    return;
                };
                self.spawn(Kind::Other, "Write result", move |_, out| {
                    let done = result.write(&path).map_err(|e| e.to_string());
                    let _closed = out.send(saved("Result saved", &path, done));
                });
            }
            JobRequest::SaveManifest(path) => self.save_manifest(path),
            JobRequest::SaveVolume(path) => {
                let Some(volume) = self.whole_volume() else {
                    return;
                };
                let refusal = self.opened.as_ref().and_then(|o| o.refusal.clone());
                self.spawn(Kind::Other, "Write volume", move |_, out| {
                    // A file would pass an unusable series on as an even volume.
                    let done = match refusal {
                        Some(reason) => Err(reason),
                        None => nifti::write(&volume, &path).map_err(|e| e.to_string()),
                    };
                    let _closed = out.send(saved("Volume saved", &path, done));
                });
            }
            JobRequest::Report(path) => self.start_report(&path),
            JobRequest::Open(path) => {
                let model = self.network.model();
                self.spawn(Kind::Other, "Open", move |_, out| {
                    let _closed = out.send(super::open::what_is(path, model.as_deref()));
                });
            }
            JobRequest::Compare(path) => self.read_reference(path),
            JobRequest::SavePlan(path, document) => {
                self.spawn(Kind::Other, "Save plan", move |_, out| {
                    let text = serde_json::to_vec_pretty(&document).unwrap_or_default();
                    let done = super::files::write_whole("plan", &path, &text);
                    let _closed = out.send(saved("Plan saved", &path, done));
                });
            }
            JobRequest::SaveSettings(settings) => {
                self.spawn(Kind::Other, "Keep settings", move |_, out| {
                    keep(&settings_dir, &settings, out);
                });
            }
        }
    }

    /// Starts a job of a kind; an older one of the same kind is dropped. No thread to spare is said in a message.
    pub(super) fn spawn(
        &mut self,
        kind: Kind,
        name: &str,
        work: impl FnOnce(&Control, &Outbox) + Send + 'static,
    ) {
        if kind != Kind::Other {
            self.jobs.drop_kind(kind);
        }
        let id = self.fresh_id();
        match spawn(name, self.jobs.wake.clone(), work) {
            Ok(job) => self.jobs.running.push(Running { id, kind, job }),
            Err(e) => {
                self.say(Severity::Error, "No thread could be started", e.to_string());
            }
        }
        if kind == Kind::Run {
            self.run = self.jobs.has(Kind::Run).then_some(super::RunProgress {
                job: id,
                done: 0,
                total: 0,
                percent: None,
            });
        }
    }

    fn save_manifest(&mut self, path: PathBuf) {
        let Some(model) = self.network.model() else {
            return;
        };
        let title = if self.manifest_place().as_ref() == Some(&path) {
            "Manifest saved: change it there and open the network again"
        } else {
            "Manifest saved: beside the network, as NAME.voxfit.toml, it is read"
        };
        self.spawn(Kind::Other, "Save manifest", move |_, out| {
            // Never over the network itself, whose name is close by.
            let is_toml = path.extension().is_some_and(|e| e == "toml");
            let text = if is_toml {
                model.manifest_text().map_err(|e| e.to_string())
            } else {
                let at = path.display();
                Err(format!("a manifest is named NAME.voxfit.toml, found: {at}"))
            };
            let done =
                text.and_then(|t| super::files::write_whole("manifest", &path, t.as_bytes()));
            let _closed = out.send(saved(title, &path, done));
        });
    }

    fn start_load(&mut self, reference: &SeriesRef) {
        let Some((source, generation)) = self.begin_load(reference) else {
            return;
        };
        let name = self.document.study.clone().unwrap_or_default();
        let straight = self.volume_state().is_some_and(|v| v.straight_grid);
        self.spawn(Kind::Load, "Load series", move |c, out| {
            let done = source::load(&name, &source, (generation, straight), c, out);
            let _closed = out.send(News::Loaded(done.map(Box::new)));
        });
    }

    pub(super) fn start_thumbnails(&mut self, list: Vec<(SeriesRef, SeriesSource)>) {
        if list
            .iter()
            .any(|(_, s)| matches!(s, SeriesSource::Dicom(_)))
        {
            self.spawn(Kind::Thumbnails, "Thumbnails", move |c, out| {
                source::thumbnails(&list, c, out);
            });
        }
    }

    fn start_run(&mut self, document: Box<Document>, allow_single_pass: bool) {
        let (Some(opened), Some(model)) = (self.opened.clone(), self.network.model()) else {
            return;
        };
        self.spawn(Kind::Run, "Run", move |c, out| {
            let done = run(&document, allow_single_pass, &opened, &model, c);
            let _closed = out.send(News::Ran(document, done));
        });
    }

    /// The loaded volume, once it is whole.
    pub fn whole_volume(&self) -> Option<SharedVolume> {
        self.volume_state()?.volume.clone()
    }
}

fn run(
    document: &Document,
    allow_single_pass: bool,
    opened: &Opened,
    model: &Model,
    control: &Control,
) -> Result<Box<(RunResult, Views)>, Option<String>> {
    let said = |e: &dyn std::fmt::Display| Some(e.to_string());
    let spec = RunSpec {
        tiling: document.tiling_spec().map_err(|e| said(&e))?,
        batch: document.batch,
        precision: document.precision,
        allow_single_pass,
        memory_limit: document.memory_limit,
    };
    let mut engine: Box<dyn Engine> = match document.engine {
        EngineChoice::Cuda => {
            return Err(Some(
                "the CUDA engine only probes in this version; choose the CPU engine".to_owned(),
            ));
        }
        EngineChoice::Auto | EngineChoice::Cpu => {
            Box::new(CpuEngine::new(0).map_err(|e| said(&e))?)
        }
    };
    let keep = Keep {
        maps: true,
        window_bytes: MOST_WINDOWS,
    };
    match study::run_keeping(opened, model, &spec, engine.as_mut(), control, keep) {
        Ok(mut ran) => {
            let views = views_of(&mut ran);
            // Kept so that the result can be run again.
            ran.result.network.source = document.network.clone().map(|model| NetworkSource {
                model,
                weights: document.weights.clone(),
                ..NetworkSource::default()
            });
            Ok(Box::new((ran.result, views)))
        }
        Err(e) if e.exit_code() == 130 => Err(None),
        Err(e) => Err(said(&e)),
    }
}

fn read_network(
    model: &str,
    weights: Option<&str>,
) -> Result<Box<(Arc<Model>, network::Facts)>, String> {
    let model = network::open(model, None, weights).map_err(|e| e.to_string())?;
    let facts = network::facts::of(&model.graph).map_err(|e| e.to_string())?;
    Ok(Box::new((Arc::new(model), facts)))
}

fn keep(dir: &SettingsDir, settings: &super::Settings, out: &Outbox) {
    if let Err(e) = dir.save(settings) {
        let _closed = out.send(News::Said(
            Severity::Error,
            "Settings could not be kept".to_owned(),
            e.to_string(),
        ));
    }
}

/// What is said after something was written, or was not.
pub(super) fn saved(title: &str, path: &std::path::Path, done: Result<(), String>) -> News {
    match done {
        Ok(()) => News::Said(Severity::Info, title.to_owned(), path.display().to_string()),
        Err(e) => News::Said(Severity::Error, "Nothing was written".to_owned(), e),
    }
}
