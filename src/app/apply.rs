//! What each command does to the state. Only here is the document changed.

use super::command::Command;
use super::document::Document;
use super::effect::{Dialog, Effect, JobRequest, ViewAction};
use super::state::{NetworkState, Severity, State};
use super::view::{Popup, SortBy};
use super::work::Kind;
use crate::geometry::Plane;

type Effects = Vec<Effect>;

impl State {
    /// Applies one command and returns what else it asks for.
    pub fn apply(&mut self, command: Command) -> Effects {
        if let Some(info) = super::table::by_command(&command)
            && let Some(why) = info.why_disabled(self)
        {
            self.say(Severity::Info, info.name, why);
            return Vec::new();
        }
        let effects = self.apply_file(command);
        self.derive();
        effects
    }

    fn apply_file(&mut self, command: Command) -> Effects {
        use Command as C;
        let dialog = |d| vec![Effect::OpenDialog(d)];
        let start = |r| vec![Effect::Start(r)];
        match command {
            C::OpenFolderDialog => dialog(Dialog::OpenFolder),
            C::OpenFileDialog => dialog(Dialog::OpenFile),
            C::OpenNetworkDialog => dialog(Dialog::OpenNetwork),
            C::Open(path) => start(JobRequest::Open(path)),
            C::OpenStudy(source) => self.open_study(source),
            C::OpenRecent(i) => match self.settings.recent.get(i) {
                Some(r) if r.source.starts_with("phantom:") => self.open_study(r.source.clone()),
                Some(r) => start(JobRequest::Open(r.source.clone().into())),
                None => Vec::new(),
            },
            C::ClearRecent => {
                self.settings.recent.clear();
                self.keep_settings()
            }
            C::SelectSeries(reference) => {
                self.change(|d| {
                    // The choice was made for the series that was looked at.
                    d.straight_grid &= d.series.as_ref() == Some(&reference);
                    d.series = Some(reference.clone());
                });
                start(JobRequest::Load(reference))
            }
            C::SetStraightGrid(on) => {
                self.change(|d| d.straight_grid = on);
                self.document
                    .series
                    .clone()
                    .map_or_else(Vec::new, |series| start(JobRequest::Load(series)))
            }
            C::TryDemo => {
                let mut effects = self.open_study(DEMO_STUDY.to_owned());
                effects.extend(self.set_network("preset:demo".to_owned()));
                effects
            }
            C::PlanWithoutData(size) => {
                self.close_study();
                self.change(|d| d.volume_without_data = size);
                self.view.workspace = super::Workspace::Plan;
                Vec::new()
            }
            C::SavePlan => match self.plan_path.clone() {
                Some(path) => start(JobRequest::SavePlan(path, Box::new(self.document.clone()))),
                None => dialog(Dialog::SavePlan),
            },
            C::SavePlanDialog => dialog(Dialog::SavePlan),
            C::SavePlanTo(path) => {
                self.plan_path = Some(path.clone());
                start(JobRequest::SavePlan(path, Box::new(self.document.clone())))
            }
            C::ExportReportDialog => dialog(Dialog::SaveReport),
            C::ExportReportTo(path) => start(JobRequest::Report(path)),
            C::SaveResultDialog => dialog(Dialog::SaveResult),
            C::SaveResultTo(path) => start(JobRequest::SaveResult(path)),
            C::ExportVolumeDialog => dialog(Dialog::SaveVolume),
            C::ExportVolumeTo(path) => start(JobRequest::SaveVolume(path)),
            C::SaveManifestDialog => self
                .manifest_place()
                .map_or_else(Vec::new, |place| dialog(Dialog::SaveManifest(place))),
            C::SaveManifestTo(path) => start(JobRequest::SaveManifest(path)),
            C::ScreenshotDialog => dialog(Dialog::SaveScreenshot),
            C::ScreenshotTo(path) => {
                self.view.taking_picture = true;
                vec![Effect::Screenshot(path)]
            }
            C::PictureTaken => {
                self.view.taking_picture = false;
                Vec::new()
            }
            C::NoDialog => {
                self.say(
                    Severity::Warning,
                    "No file dialog opens here",
                    "install xdg-desktop-portal or zenity; until then drop the folder or file on the window, or start as voxfit open FOLDER",
                );
                Vec::new()
            }
            C::CloseStudy => {
                self.close_study();
                Vec::new()
            }
            C::Quit => vec![Effect::Quit],
            other => self.apply_plan(other),
        }
    }

    fn apply_plan(&mut self, command: Command) -> Effects {
        use Command as C;
        match command {
            C::SetNetwork(model) => return self.set_network(model),
            C::SetWeights(weights) => return self.set_weights(weights),
            C::OpenWeightsDialog => return vec![Effect::OpenDialog(Dialog::OpenWeights)],
            C::SetRoi(roi) => self.change(|d| d.roi_size = roi),
            C::SetOverlap(overlap) => self.change(|d| d.overlap = overlap),
            C::SetBlend(v) => self.change(|d| d.blend = v),
            C::SetLayout(v) => self.change(|d| d.layout = v),
            C::SetRuntime(v) => self.change(|d| d.runtime = v),
            C::SetMode(v) => self.change(|d| d.mode = v),
            C::SetOptimizer(v) => self.change(|d| d.optimizer = v),
            C::SetCheckpointing(v) => self.change(|d| d.checkpointing = v),
            C::SetExpandableSegments(v) => self.change(|d| d.expandable_segments = v),
            C::SetPrecision(v) => self.change(|d| d.precision = v),
            C::SetBatch(v) => self.change(|d| d.batch = v),
            C::SetMemoryLimit(v) => self.change(|d| d.memory_limit = v),
            C::SetStitchOn(v) => self.change(|d| d.stitch_on = v),
            C::SetDisplay(v) => self.change(|d| d.display = v),
            C::SetEngine(v) => self.change(|d| d.engine = v),
            C::ToggleCard(id) => self.change(|d| toggle_card(d, &id)),
            C::StartTour(tour) => return self.start_tour(tour),
            C::StepTour(forward) => return self.step_tour(forward),
            C::EndTour => self.view.tour = None,
            C::ShowCalibration => self.show(Popup::Calibration),
            C::SetPoints(text) => self.change_lightly(|d| d.points = text),
            C::SetStudiesPerDay(n) => self.change(|d| d.studies_per_day = n),
            C::SetCost((knob, v)) => self.change(|d| {
                d.costs.insert(knob, v);
            }),
            C::AddMeasuredPoint => self.add_measured_point(),
            C::FocusCard(id) => self.change(|d| d.card_in_focus = Some(id)),
            C::ShowLayers => self.show_layers(),
            C::SearchLayers(text) => self.view.layer_search = text,
            C::FoldStage(i) => {
                if !self.view.folded_stages.remove(&i) {
                    self.view.folded_stages.insert(i);
                }
            }
            C::FoldAllStages(all) => {
                let n = self.derived.layers.as_ref().map_or(0, |l| l.stages.len());
                self.view.folded_stages = if all { (0..n).collect() } else { [].into() };
            }
            C::ApplyFix(i) => {
                let fix = self.derived.fixes().get(i);
                match fix.map(|f| (f.title.clone(), f.command.clone())) {
                    Some((_, Some(command))) => return self.apply(command),
                    Some((title, None)) => {
                        let how = "another network: change it where it is made, then open it here";
                        self.say(Severity::Info, title, how);
                    }
                    None => {}
                }
            }
            C::Undo => {
                if let Some(before) = self.history.undo(self.document.clone()) {
                    return self.go_to(before);
                }
            }
            C::Redo => {
                if let Some(after) = self.history.redo(self.document.clone()) {
                    return self.go_to(after);
                }
            }
            other => return self.apply_run(other),
        }
        Vec::new()
    }

    fn apply_run(&mut self, command: Command) -> Effects {
        use Command as C;
        match command {
            C::AcceptManifest => self.accept_manifest(),
            C::AllowSinglePass(v) => self.single_pass_allowed = v,
            C::Run if self.manifest_waits() => self.view.popup = Some(Popup::Manifest),
            C::Run => {
                let allow_single_pass = std::mem::take(&mut self.single_pass_allowed);
                return vec![Effect::Start(JobRequest::Run {
                    document: Box::new(self.document.clone()),
                    allow_single_pass,
                })];
            }
            C::CancelRun => {
                if let Some(run) = &self.run {
                    self.jobs.cancel(run.job);
                }
            }
            C::CancelJob(id) => self.jobs.cancel(id),
            C::ProbeEngines => return vec![Effect::Start(JobRequest::Probe)],
            other => return self.apply_view(other),
        }
        Vec::new()
    }

    fn apply_view(&mut self, command: Command) -> Effects {
        use Command as C;
        let view = &mut self.view;
        match command {
            C::ShowWorkspace(w) => view.workspace = w,
            C::ShowLarge(plane) => {
                view.large = (view.large != Some(plane)).then_some(plane);
                view.active = plane;
            }
            C::ShowMpr => view.large = None,
            C::ResetView => {
                view.invert = false;
                self.change_lightly(|d| d.window_level = None);
                return vec![Effect::View(ViewAction::Reset)];
            }
            C::ZoomIn => return vec![Effect::View(ViewAction::ZoomIn)],
            C::ZoomOut => return vec![Effect::View(ViewAction::ZoomOut)],
            C::ZoomToFit => return vec![Effect::View(ViewAction::ZoomToFit)],
            C::Invert => view.invert = !view.invert,
            C::NextSlab => return vec![Effect::View(ViewAction::NextSlab)],
            C::ToggleCine => view.cine = !view.cine,
            C::ToggleLayer(layer) => view.layers.toggle(layer),
            C::HideOverlays(v) => view.overlays_hidden = v,
            C::Scroll(n) => self.scroll(self.view.active, n),
            C::ScrollPlane((plane, n)) => self.scroll(plane, n),
            C::FirstSlice => self.go_to_slice(self.view.active, 0),
            C::LastSlice => self.go_to_slice(self.view.active, usize::MAX),
            C::GoToSlice((plane, n)) => self.go_to_slice(plane, n),
            C::SetCrosshair(at) => {
                if let Some(extent) = self.volume_state().map(|v| v.extent) {
                    self.view.set_crosshair(at, extent);
                }
            }
            C::Activate(plane) => view.active = plane,
            C::WindowLevelPreset(n) => self.preset(n),
            C::SetWindowLevel(wl) => self.change_lightly(|d| d.window_level = Some(wl)),
            other => return self.apply_review(other),
        }
        Vec::new()
    }

    fn apply_review(&mut self, command: Command) -> Effects {
        use Command as C;
        match command {
            C::NextDetection => return self.step_detection(true),
            C::PreviousDetection => return self.step_detection(false),
            C::SelectDetection(i) => return self.select_detection(i),
            C::SetScoreThreshold(t) => {
                self.change_lightly(|d| d.score_threshold = t.clamp(0.0, 1.0));
            }
            C::RaiseScoreThreshold => self.step_threshold(1.0),
            C::LowerScoreThreshold => self.step_threshold(-1.0),
            C::SortDetections(by) => {
                if self.view.sort_by == by {
                    self.view.descending = !self.view.descending;
                } else {
                    self.view.sort_by = by;
                    self.view.descending = matches!(
                        by,
                        SortBy::Score | SortBy::Size | SortBy::Reference | SortBy::Drift
                    );
                }
            }
            C::FilterDetections(f) => self.view.filter = f,
            other => return self.apply_seams(other),
        }
        Vec::new()
    }

    fn apply_seams(&mut self, command: Command) -> Effects {
        use Command as C;
        match command {
            C::CompareDialog => return vec![Effect::OpenDialog(Dialog::OpenReference)],
            C::CompareWith(path) => return vec![Effect::Start(JobRequest::Compare(path))],
            C::HoldAsReference => self.hold_as_reference(),
            C::DropReference => self.seams.reference = None,
            C::SelectReference(i) => return self.select_reference(i),
            C::NextSeam | C::PreviousSeam => {
                self.step_seam(command == C::NextSeam);
                return vec![Effect::View(ViewAction::RevealSelection)];
            }
            C::SelectSeam(id) => self.select_seam(id),
            C::ShowSeamMap(map) => {
                self.view.seam_map = map;
                self.view.workspace = super::Workspace::Seams;
            }
            C::Flicker(on) => self.view.flicker = on,
            other => return self.apply_tools(&other),
        }
        Vec::new()
    }

    fn apply_tools(&mut self, command: &Command) -> Effects {
        use Command as C;
        match command {
            C::ShowPalette => self.show(Popup::Palette),
            C::ShowKeys => self.show(Popup::Keys),
            C::ShowSettings => self.show(Popup::Settings),
            C::ShowJobs => self.show(Popup::Jobs),
            C::ShowMessages => self.show(Popup::Messages),
            C::ShowWarnings => self.show(Popup::Warnings),
            C::ShowSeriesDetails => self.show(Popup::SeriesDetails),
            C::ShowAbout => self.show(Popup::About),
            C::ShowManifest => self.show(Popup::Manifest),
            C::Escape => self.escape(),
            &C::DismissMessage(id) => {
                for m in self.messages.iter_mut().filter(|m| m.id == id) {
                    m.dismissed = true;
                }
            }
            &C::SetTheme(theme) => {
                self.settings.theme = theme;
                return self.keep_settings();
            }
            &C::SetUiScale(scale) => {
                self.settings.ui_scale = scale.clamp(75, 250);
                return self.keep_settings();
            }
            C::ToggleIdentity => {
                self.settings.mask_identity = !self.settings.mask_identity;
                return self.keep_settings();
            }
            C::ToggleFullScreen => {
                self.view.full_screen = !self.view.full_screen;
                return vec![Effect::View(ViewAction::FullScreen(self.view.full_screen))];
            }
            C::NextPanel => return vec![Effect::View(ViewAction::NextPanel)],
            _ => {}
        }
        Vec::new()
    }
}

/// The study of the demo.
pub const DEMO_STUDY: &str = "phantom:256x256x128";

fn toggle_card(d: &mut Document, id: &str) {
    let before = d.cards.len();
    d.cards.retain(|c| c != id);
    if d.cards.len() == before {
        d.cards.push(id.to_owned());
    }
}

impl State {
    /// Changes the document and remembers the previous one.
    pub(super) fn change(&mut self, f: impl FnOnce(&mut Document)) {
        let before = self.document.clone();
        f(&mut self.document);
        if before != self.document {
            self.history.push(before);
        }
    }

    /// Changes the document without a step of undo (window level, score threshold: they are dragged).
    fn change_lightly(&mut self, f: impl FnOnce(&mut Document)) {
        f(&mut self.document);
    }

    fn open_study(&mut self, source: String) -> Effects {
        self.close_study();
        self.change(|d| {
            d.study = Some(source.clone());
            d.series = None;
            d.straight_grid = false;
        });
        vec![Effect::Start(JobRequest::Scan(source))]
    }

    fn set_network(&mut self, model: String) -> Effects {
        // Those that the program was started with go to its first network.
        let weights = if self.asked.plan {
            self.asked.weights.clone()
        } else {
            self.asked.weights.take()
        };
        self.change(|d| {
            d.network = Some(model.clone());
            d.weights.clone_from(&weights);
        });
        self.accepted_manifest = None;
        self.take_windows_of_network = true;
        vec![Effect::Start(JobRequest::Network {
            model,
            weights,
            take_windows: true,
        })]
    }

    /// The layer list of the Plan workspace, or the budget again when the list is in view.
    const fn show_layers(&mut self) {
        let view = &mut self.view;
        let in_view = view.layers_open && matches!(view.workspace, super::Workspace::Plan);
        view.layers_open = !in_view;
        view.workspace = super::Workspace::Plan;
    }

    fn set_weights(&mut self, weights: Option<String>) -> Effects {
        self.change(|d| d.weights.clone_from(&weights));
        let Some(model) = self.document.network.clone() else {
            return Vec::new();
        };
        // A network that is still being read brings its windows all the same.
        vec![Effect::Start(JobRequest::Network {
            model,
            weights,
            take_windows: self.take_windows_of_network,
        })]
    }

    /// Takes a document from a plan file; the one before can be had back.
    pub(super) fn go_to_new(&mut self, to: Document) -> Effects {
        self.history.push(self.document.clone());
        self.go_to(to)
    }

    /// Goes to a document of the history, reading again what differs.
    fn go_to(&mut self, to: Document) -> Effects {
        let from = std::mem::replace(&mut self.document, to);
        let mut effects = Vec::new();
        if (&from.network, &from.weights) != (&self.document.network, &self.document.weights) {
            self.take_windows_of_network = false;
            match self.document.network.clone() {
                Some(model) => effects.push(Effect::Start(JobRequest::Network {
                    model,
                    weights: self.document.weights.clone(),
                    take_windows: false,
                })),
                None => self.close_network(),
            }
        }
        if from.study != self.document.study {
            self.study = None;
            if let Some(study) = self.document.study.clone() {
                effects.push(Effect::Start(JobRequest::Scan(study)));
            }
        } else if (&from.series, from.straight_grid)
            != (&self.document.series, self.document.straight_grid)
            && let Some(series) = self.document.series.clone()
        {
            effects.push(Effect::Start(JobRequest::Load(series)));
        }
        effects
    }

    fn close_network(&mut self) {
        self.jobs.drop_kind(Kind::Network);
        self.network = NetworkState::None;
        self.network_generation += 1;
    }

    fn close_study(&mut self) {
        self.study = None;
        if self.document.study.is_some() {
            self.change(|d| {
                d.study = None;
                d.series = None;
                d.straight_grid = false;
            });
        }
    }

    fn keep_settings(&self) -> Effects {
        vec![Effect::Start(JobRequest::SaveSettings(Box::new(
            self.settings.clone(),
        )))]
    }

    /// Closes what is open on top.
    fn escape(&mut self) {
        if self.view.popup.take().is_none() {
            if std::mem::replace(&mut self.view.cine, false) {
                return;
            }
            self.view.large = None;
            if self.view.tour.take().is_some() {
                return;
            }
            if matches!(self.view.workspace, super::Workspace::Plan) {
                self.view.layers_open = false;
            }
        }
    }

    /// Opens a popup, or closes it when it is the one that is open.
    fn show(&mut self, popup: Popup) {
        self.view.popup = (self.view.popup != Some(popup)).then_some(popup);
    }

    fn scroll(&mut self, plane: Plane, slices: i64) {
        let Some(extent) = self.volume_state().map(|v| v.extent) else {
            return;
        };
        let now = i64::try_from(self.view.slice(plane, extent)).unwrap_or(i64::MAX);
        let to = usize::try_from(now.saturating_add(slices).max(0)).unwrap_or(usize::MAX);
        self.view.set_slice(plane, to, extent);
    }

    fn go_to_slice(&mut self, plane: Plane, slice: usize) {
        if let Some(extent) = self.volume_state().map(|v| v.extent) {
            self.view.set_slice(plane, slice, extent);
        }
    }

    fn preset(&mut self, number: u8) {
        let level = self.preset_level(number);
        self.change_lightly(|d| d.window_level = level);
    }

    fn step_threshold(&mut self, direction: f32) {
        let steps = (self.document.score_threshold / 0.05).round() + direction;
        self.change_lightly(|d| d.score_threshold = (steps * 0.05).clamp(0.0, 1.0));
    }

    fn step_detection(&mut self, forward: bool) -> Effects {
        let shown = &self.derived.detections;
        if shown.is_empty() {
            return Vec::new();
        }
        let at = self
            .view
            .selected
            .and_then(|s| shown.iter().position(|&i| i == s));
        let next = match (at, forward) {
            (None, true) => 0,
            (None, false) => shown.len() - 1,
            (Some(i), true) => (i + 1) % shown.len(),
            (Some(i), false) => (i + shown.len() - 1) % shown.len(),
        };
        self.select_detection(shown[next])
    }

    fn select_detection(&mut self, i: usize) -> Effects {
        let center = self
            .outcome
            .as_ref()
            .and_then(|o| o.detections().get(i))
            .map(|d| d.box_in_volume.center());
        let Some(center) = center else {
            return Vec::new();
        };
        self.view.selected = Some(i);
        self.view.selected_reference = None;
        if let Some(extent) = self.volume_state().map(|v| v.extent) {
            // Box edges lie between voxels: index 0.0 is the centre of the first one.
            let at = center.map(|c| f64::from(c) - 0.5);
            self.view.set_crosshair(at, extent);
        }
        vec![Effect::View(ViewAction::RevealSelection)]
    }
}
