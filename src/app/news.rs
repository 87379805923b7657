//! How the state takes in what jobs send. Called once a frame; never waits.

use super::command::Command;
use super::document::{Document, SeriesRef};
use super::effect::{Effect, JobRequest};
use super::seams::Views;
use super::settings::{Recent, RecentKind};
use super::source::{LoadedSeries, Scanned, SeriesSource};
use super::state::{Asked, NetworkState, Outcome, Severity, State};
use super::study::{FreshSlice, StudyState, VolumeState};
use super::work::{Kind, News, Running};
use crate::exchange::result::RunResult;
use crate::geometry::{Affine, Extent};
use crate::study::sides::of_result;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

impl State {
    /// Takes in what jobs have sent; true when something changed. Call it once a frame.
    pub fn poll(&mut self) -> bool {
        let mut changed = false;
        let running = std::mem::take(&mut self.jobs.running);
        let mut kept = Vec::with_capacity(running.len());
        let mut news = Vec::new();
        for r in running {
            let open = drain(&r, &mut news);
            if r.kind == Kind::Run {
                changed |= self.note_progress(&r, open);
            }
            if open {
                kept.push(r);
            } else {
                changed = true;
            }
        }
        self.jobs.running = kept;
        changed |= !news.is_empty();
        for (id, kind, n) in news {
            let late = kind != Kind::Other
                && self
                    .jobs
                    .running
                    .iter()
                    .any(|r| r.kind == kind && r.id > id);
            if !late {
                self.take(n);
            }
        }
        if changed {
            self.derive();
        }
        changed
    }

    /// Polls until no job is left or the time is up; true when all is done. For tests and for work without a window.
    pub fn settle(&mut self, limit: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < limit {
            self.poll();
            if self.jobs.running.is_empty() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    /// Slices decoded since the last call, for the volume's texture.
    pub fn take_fresh_slices(&mut self) -> Vec<FreshSlice> {
        std::mem::take(&mut self.fresh_slices)
    }

    fn note_progress(&mut self, r: &Running, open: bool) -> bool {
        let (done, total) = r.job.control.progress();
        let Some(run) = self.run.as_mut().filter(|run| run.job == r.id) else {
            return false;
        };
        let percent = super::work::percent(&r.job.control);
        let moved = (run.done, run.total, run.percent) != (done, total, percent);
        (run.done, run.total, run.percent) = (done, total, percent);
        if !open {
            self.run = None;
        }
        moved
    }

    fn take(&mut self, news: News) {
        match news {
            News::Said(severity, title, detail) => {
                self.say(severity, title, detail);
            }
            News::Then(command) => {
                let effects = self.dispatch(command);
                debug_assert!(effects.is_empty(), "only jobs follow from opening");
            }
            News::Plan(path, document) => self.take_plan(path, *document),
            News::NoPlan(e) => {
                self.asked = Asked::default();
                self.say(Severity::Error, "The plan cannot be read", e);
            }
            News::Result(path, result, same) => self.take_result(Some(path), *result, same),
            News::Scanned(Ok(scanned)) => self.take_scan(scanned),
            News::Scanned(Err(e)) => {
                self.study = None;
                self.document.study = None;
                self.document.series = None;
                self.say(Severity::Error, "The study cannot be opened", e);
            }
            News::Slice(slice) => self.take_slice(slice),
            News::Loaded(Ok(loaded)) => self.take_loaded(*loaded),
            News::Loaded(Err(e)) => {
                if let Some(study) = &mut self.study {
                    study.volume = None;
                    study.refused = Some(e.clone());
                }
                self.say(Severity::Error, "The series cannot be loaded", e);
            }
            News::Thumbnail(reference, picture) => {
                for s in self.study.iter_mut().flat_map(|s| &mut s.series) {
                    if s.reference == reference {
                        s.thumbnail = Some(Arc::clone(&picture));
                    }
                }
            }
            News::Network(Ok(read)) => {
                let (model, facts) = *read;
                self.take_network(model, facts);
            }
            News::Network(Err(e)) => {
                self.network = NetworkState::Failed(e.clone());
                self.take_windows_of_network = false;
                self.say(Severity::Error, "The network cannot be used", e);
            }
            News::Engines(engines) => self.engines = engines.into_iter().map(Into::into).collect(),
            News::Budget(key, budget) => self.take_budget(key, budget),
            News::TileFix(key, fix) => self.take_tile_fix(key, fix),
            News::Surface(key, surface) => self.take_surface(key, surface),
            News::Buying(key, found) => self.take_buying(key, found),
            News::Layers(key, layers) => self.take_layers(key, layers),
            News::LayerLines(key, lines) => self.take_layer_lines(key, lines),
            News::Reference(read) => self.take_reference(read),
            News::Matched(key, made) => self.take_match(key, made),
            News::Differed(key, made) => self.take_difference(key, made),
            News::Outputs(of, read) => self.take_outputs(of, read),
            News::VolumeChecked(key, same) => self.take_volume_check(key, same),
            News::Picture(made) => self.seams.picture = made,
            News::Ran(document, Ok(ran)) => {
                let (result, views) = *ran;
                self.take_run(*document, result, views);
            }
            News::Ran(_, Err(None)) => {
                self.say(Severity::Info, "Run cancelled", "nothing was kept of it");
            }
            News::Ran(_, Err(Some(e))) => {
                self.say(Severity::Error, "The run failed", e);
            }
        }
    }

    fn take_plan(&mut self, path: PathBuf, mut document: Document) {
        let asked = std::mem::take(&mut self.asked);
        if asked.network.is_some() && asked.network != document.network {
            document.network = asked.network;
            document.weights = None;
        }
        document.weights = asked.weights.or(document.weights);
        // The plan has windows of its own, whatever network is still being read.
        self.take_windows_of_network = false;
        let effects = self.go_to_new(document);
        for e in effects {
            if let Effect::Start(request) = e {
                self.start(request);
            }
        }
        self.remember(RecentKind::Plan, path.to_string_lossy().into_owned(), None);
        self.plan_path = Some(path);
    }

    /// Takes a result in; `same_network`: the network of the plan made it.
    pub(super) fn take_result(
        &mut self,
        path: Option<PathBuf>,
        result: RunResult,
        same_network: bool,
    ) {
        let mut document = self.document.clone();
        if !same_network {
            document.network = Some(format!(
                "{} {}",
                result.network.name,
                result.network.sha256.get(..8).unwrap_or_default()
            ));
        }
        if let Some(series) = &result.series {
            let (uid, part) = series.rsplit_once('#').unwrap_or((series, "1"));
            document.series = Some(SeriesRef {
                uid: uid.to_owned(),
                part: part.parse().unwrap_or(1),
            });
        }
        document.roi_size = result
            .plan
            .roi_size
            .to_array()
            .map(|n| i64::try_from(n).unwrap_or(0));
        document.overlap = result.plan.overlap;
        document.blend = result.plan.blend;
        document.layout = result.plan.layout;
        document.precision = result.precision;
        document.study = Some(result.study.clone());
        document.straight_grid = result
            .warnings
            .iter()
            .any(|w| w.code == crate::study::STRAIGHT_GRID);
        self.set_outcome(document, result, path, Views::default());
        self.read_outputs();
        self.view.workspace = super::Workspace::Review;
        self.say(Severity::Info, "Result opened", "");
    }

    /// Shows a study as being looked through.
    pub(super) fn begin_scan(&mut self, source: &str) {
        self.fresh_slices.clear();
        self.opened = None;
        self.sources.clear();
        let generation = self.fresh_id();
        self.study = Some(StudyState {
            generation,
            source: source.to_owned(),
            scanning: true,
            ..StudyState::default()
        });
    }

    fn take_scan(&mut self, scanned: Scanned) {
        let Scanned {
            items,
            skipped,
            best,
        } = scanned;
        let wanted = self
            .document
            .series
            .clone()
            .filter(|w| items.iter().any(|(i, ..)| i.reference == *w));
        let first = wanted.or_else(|| items.get(best).map(|(i, ..)| i.reference.clone()));
        if let Some(study) = &mut self.study {
            study.scanning = false;
            study.skipped = skipped;
            study.series = items.iter().map(|(i, ..)| i.clone()).collect();
        }
        self.sources = items
            .into_iter()
            .map(|(i, source, affine)| (i.reference, source, affine))
            .collect();
        let n = self.study.as_ref().map_or(0, |s| s.skipped.len());
        if n > 0 {
            let id = self.say(
                Severity::Warning,
                if n == 1 {
                    "1 file skipped".to_owned()
                } else {
                    format!("{n} files skipped")
                },
                "no images of a series",
            );
            self.give_action(id, "Show list", &Command::ShowWarnings);
        }
        if let Some(reference) = first {
            self.document.series = Some(reference.clone());
            self.start(JobRequest::Load(reference));
        }
        let list: Vec<(SeriesRef, SeriesSource)> = self
            .sources
            .iter()
            .map(|(r, s, _)| (r.clone(), s.clone()))
            .collect();
        if list.len() > 1 {
            self.start_thumbnails(list);
        }
        let source = self.document.study.clone().unwrap_or_default();
        self.remember(RecentKind::Study, source, None);
    }

    /// Shows a series as loading; what to load and the generation of its slices.
    pub(super) fn begin_load(&mut self, reference: &SeriesRef) -> Option<(SeriesSource, u64)> {
        let (_, source, affine) = self.sources.iter().find(|(r, ..)| r == reference)?;
        let (source, affine): (SeriesSource, Affine) = (source.clone(), *affine);
        let generation = self.fresh_id();
        self.fresh_slices.clear();
        self.opened = None;
        let study = self.study.as_mut()?;
        let item = study.series.iter().find(|s| s.reference == *reference)?;
        let straight_grid = self.document.straight_grid && item.straightens;
        let straight = straight_grid.then(|| source.straight_size()).flatten();
        let (extent, affine): (Extent, Affine) = straight.unwrap_or((item.extent, affine));
        study.chosen = Some(reference.clone());
        study.refused = None;
        study.volume = Some(VolumeState {
            generation,
            reference: reference.clone(),
            extent,
            affine,
            decoded: 0,
            volume: None,
            range: None,
            own_window_level: None,
            straight_grid,
            warnings: item.warnings.clone(),
        });
        self.view.crosshair = extent.to_array().map(|n| (n / 2) as f64);
        Some((source, generation))
    }

    fn take_slice(&mut self, slice: FreshSlice) {
        let Some(volume) = self.study.as_mut().and_then(|s| s.volume.as_mut()) else {
            return;
        };
        if volume.generation == slice.generation {
            volume.decoded = (volume.decoded + 1).min(volume.extent.z);
            self.fresh_slices.push(slice);
        }
    }

    fn take_loaded(&mut self, loaded: LoadedSeries) {
        let Some(study) = &mut self.study else { return };
        let Some(volume) = &mut study.volume else {
            return;
        };
        volume.extent = loaded.opened.volume.extent;
        volume.affine = loaded.opened.volume.affine;
        volume.decoded = volume.extent.z;
        volume.volume = Some(Arc::clone(&loaded.opened.volume));
        volume.range = loaded.range;
        volume.own_window_level = loaded.own_window_level;
        volume.warnings = loaded.warnings;
        for s in &mut study.series {
            if s.reference == volume.reference && s.thumbnail.is_none() {
                s.thumbnail.clone_from(&loaded.thumbnail);
            }
        }
        self.opened = Some(loaded.opened);
    }

    pub(super) fn take_network(
        &mut self,
        model: Arc<crate::network::Model>,
        facts: crate::network::Facts,
    ) {
        let first = std::mem::take(&mut self.take_windows_of_network);
        if first {
            let w = &model.manifest.windows;
            self.document.roi_size = w.roi_size;
            self.document.overlap = w.overlap.per_axis();
            self.document.blend = w.blend.into();
            self.document.layout = w.layout.into();
        }
        self.network_generation += 1;
        self.forget_layers();
        self.network = NetworkState::ready(model, facts);
        if first && self.manifest_waits() {
            let id = self.say(
                Severity::Warning,
                "The network does not say how a volume becomes its input",
                "a manifest is proposed; it must be accepted before a run",
            );
            self.give_action(id, "Read it", &Command::ShowManifest);
        }
        if let Some(model) = self
            .document
            .network
            .clone()
            .filter(|m| !m.starts_with("preset:"))
        {
            self.remember(RecentKind::Network, model, None);
        }
    }

    /// Shows a result; what was selected was of another.
    fn set_outcome(
        &mut self,
        document: Document,
        result: RunResult,
        path: Option<PathBuf>,
        views: Views,
    ) {
        let name = path.clone().unwrap_or_else(|| PathBuf::from("this run"));
        let mut loaded = of_result(&result, &name);
        loaded.side.mask = views.mask;
        self.outcome = Some(Outcome {
            id: self.fresh_id(),
            document,
            result,
            loaded: Arc::new(loaded),
            maps: Arc::new(views.maps),
            path,
        });
        self.view.selected = None;
        self.view.selected_reference = None;
        self.view.seam = None;
    }

    fn take_run(&mut self, document: Document, result: RunResult, views: Views) {
        let n = result.detections.len();
        let detail = format!(
            "{n} detections, {} windows, {:.1} s",
            result.n_windows, result.seconds
        );
        for w in &result.warnings {
            tracing::debug!("{}: {}", w.code, w.text);
        }
        self.set_outcome(document, result, None, views);
        self.say(Severity::Info, "Run finished", detail);
    }

    /// Puts an item first in the recent list and keeps the settings.
    fn remember(&mut self, kind: RecentKind, source: String, size: Option<Extent>) {
        let item = self.study.as_ref().and_then(|s| s.series.first());
        let (label, detail, size) = match kind {
            RecentKind::Study => (
                item.map_or_else(|| "Study".to_owned(), |i| i.subject.clone()),
                item.map_or_else(String::new, |i| {
                    if source.starts_with("phantom:") {
                        "generated".to_owned()
                    } else {
                        i.modality.clone()
                    }
                }),
                item.map(|i| i.extent).or(size),
            ),
            RecentKind::Plan => (
                format!(
                    "plan: {}",
                    self.document.roi_size.map(|n| n.to_string()).join("x")
                ),
                self.document.network.clone().unwrap_or_default(),
                size,
            ),
            RecentKind::Network => ("network".to_owned(), String::new(), size),
        };
        let opened = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        self.settings.remember(Recent {
            kind,
            source,
            label,
            detail,
            size,
            opened,
        });
        let settings = Box::new(self.settings.clone());
        self.start(JobRequest::SaveSettings(settings));
    }
}

/// Takes all that a job has sent; false once it has ended.
fn drain(r: &Running, into: &mut Vec<(u64, Kind, News)>) -> bool {
    loop {
        match r.job.poll() {
            Ok(n) => into.push((r.id, r.kind, n)),
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        }
    }
}
