//! What follows from the document: windows, exactness, budget, verdicts. Keyed by the hash of its inputs and made again when they differ.

use super::document::{Document, Mode, Runtime, WindowLevel};
use super::fixes;
pub use super::fixes::Fix;
use super::layers::{Layers, Line};
use super::mapping::ToLoaded;
use super::state::State;
use super::view::{Filter, SortBy};
use super::work::{Kind, News};
use crate::detect::Detection;
use crate::geometry::{Affine, Axis, BoxF, Extent, VoxelBox};
use crate::hardware::{BudgetOnCards, Card, CardVerdict};
use crate::memory::Verdict;
use crate::memory::budget::BudgetRequest;
use crate::memory::planner::Planner;
use crate::memory::surface::Surface;
use crate::network::Model;
use crate::network::manifest::{Axes, Input};
use crate::report::{TimelineChart, timeline_chart};
use crate::review::RowKind;
use crate::study::{prepared_size, prepared_size_of};
use crate::tiling::{self, Exactness, Facts, PlanWarning, TilingPlan};
use crate::volume::{Volume, Voxels};
use sha2::Digest as _;
use std::sync::Arc;

/// A plane where the set of covering windows changes.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct SeamPlane {
    /// The axis of the loaded volume that it is across.
    pub axis: Axis,
    /// Its place in the loaded volume, counted in voxel borders: p lies between voxels p - 1 and p (fractional after resampling).
    pub at: f64,
}

/// What follows from the document.
#[derive(Clone, Debug, Default)]
pub struct Derived {
    /// Size that windows are planned over.
    pub prepared: Option<Extent>,
    /// Size of the volume as loaded, or as typed.
    pub loaded: Option<Extent>,
    /// Where windows go, or the sentence that says why not.
    pub tiling: Option<Result<Arc<TilingPlan>, String>>,
    /// What windows do to the bits.
    pub exactness: Option<Exactness>,
    /// What is odd about the windows.
    pub warnings: Vec<PlanWarning>,
    /// Planes where the set of covering windows changes, in the loaded volume.
    pub seams: Vec<SeamPlane>,
    /// The budget with its verdicts, or the sentence that says why there is none. Of the inputs before while `budget_pending`.
    pub budget: Option<Result<Arc<BudgetOnCards>, String>>,
    /// Live bytes of that budget as pieces of a plot.
    pub timeline: Option<Arc<TimelineChart>>,
    /// Whether a newer budget is being made.
    pub budget_pending: bool,
    /// What other rois ask for; `None` while it is being made, or without a network.
    pub surface: Option<Arc<Surface>>,
    /// What to buy, or why that is not reckoned; made while the Buy workspace is open.
    pub buying: Option<Result<Arc<super::buying::Buying>, String>>,
    /// Detections shown: places in the result, filtered and sorted.
    pub detections: Vec<usize>,
    /// The network layer by layer for this window, while its list is open.
    pub layers: Option<Arc<Layers>>,
    /// The lines of that list that the search leaves, in order.
    pub layer_lines: Arc<Vec<Line>>,
    /// Whether a newer list is being made: the one that is shown is of an older plan.
    pub layers_pending: bool,
    pub(super) layers_key: u64,
    pub(super) layers_shown: u64,
    pub(super) lines_key: u64,
    pub(super) surface_key: u64,
    pub(super) buying_key: u64,
    pub(super) told: Option<super::tour::Told>,
    pub(super) told_key: (usize, bool),
    fixes: Vec<Fix>,
    to_loaded: Option<ToLoaded>,
    tiling_key: u64,
    budget_key: u64,
}

impl Derived {
    /// The plan, when there is one.
    pub fn plan(&self) -> Option<&TilingPlan> {
        self.tiling.as_ref()?.as_ref().ok().map(Arc::as_ref)
    }

    /// The budget, when there is one.
    pub fn budget(&self) -> Option<&BudgetOnCards> {
        self.budget.as_ref()?.as_ref().ok().map(Arc::as_ref)
    }

    /// Tells one budget from the next.
    pub(super) fn budget_stamp(&self) -> (usize, bool) {
        let made = self.budget.as_ref().and_then(|b| b.as_ref().ok());
        (
            made.map_or(0, |b| Arc::as_ptr(b).addr()),
            self.budget_pending,
        )
    }

    /// Tells one plan of windows from the next.
    pub(super) const fn tiling_stamp(&self) -> u64 {
        self.tiling_key
    }

    /// The verdict on one card.
    pub fn verdict(&self, card: &str) -> Option<&CardVerdict> {
        self.budget()?.cards.iter().find(|c| c.id == card)
    }

    /// Ways to fit the card in focus, best first.
    pub fn fixes(&self) -> &[Fix] {
        &self.fixes
    }

    /// A box of the padded volume (a window, its core) in voxels of the loaded volume, counted in voxel borders.
    pub fn in_loaded_volume(&self, b: &VoxelBox) -> Option<BoxF> {
        let plan = self.plan()?;
        Some(self.to_loaded.as_ref()?.map_box(b, plan.pad_before))
    }
}

/// A short fingerprint of inputs.
pub(super) fn key(parts: &impl serde::Serialize) -> u64 {
    let text = serde_json::to_vec(parts).unwrap_or_default();
    let hash = sha2::Sha256::digest(&text);
    hash.iter().take(8).fold(1, |k, b| (k << 8) | u64::from(*b))
}

/// What a document asks of memory.
pub(super) fn request<'a>(
    document: &Document,
    model: &'a Model,
    roi: Extent,
    volume: Extent,
) -> BudgetRequest<'a> {
    let ours = document.runtime == Runtime::Voxfit && document.mode == Mode::Inference;
    BudgetRequest {
        volume: Some(volume),
        runtime: document.runtime,
        mode: document.mode,
        precision: document.precision,
        batch: document.batch,
        optimizer: document.optimizer,
        checkpointing: document.checkpointing,
        stitch_on: document.stitch_on,
        display: document.display,
        axes: model.manifest.input.axes,
        expandable_segments: document.expandable_segments,
        gaussian: document.blend == tiling::Blend::Gaussian,
        memory_limit: document.memory_limit.filter(|_| ours),
        ..BudgetRequest::new(&model.graph, roi)
    }
}

impl State {
    /// Makes again what follows from what has changed.
    pub(super) fn derive(&mut self) {
        self.derive_tiling();
        self.derive_budget();
        self.derive_surface();
        self.derive_buying();
        self.derive_layers();
        self.derive_seams();
        self.derive_detections();
        self.derive_told();
    }

    /// The volume that is planned for: size, and affine where a study is open.
    fn planned_volume(&self) -> (Extent, Option<Affine>) {
        match self.volume_state() {
            Some(v) => (v.extent, Some(v.affine)),
            None => (self.document.volume_without_data, None),
        }
    }

    fn facts(&self) -> Facts {
        self.network
            .info()
            .map_or_else(|| Facts::unknown(Axes::Xyz), |n| n.tiling.clone())
    }

    fn derive_tiling(&mut self) {
        let (loaded, affine) = self.planned_volume();
        let d = &self.document;
        let new_key = key(&(
            (loaded, affine),
            (d.roi_size, d.overlap, d.blend, d.layout),
            self.network_generation,
            self.network.info().is_some(),
        ));
        if new_key == self.derived.tiling_key {
            return;
        }
        self.derived.tiling_key = new_key;
        self.derived.loaded = Some(loaded);
        let facts = self.facts();
        let input = self
            .network
            .info()
            .map_or_else(Input::default, |n| n.model.manifest.input.clone());
        let made = self.place(loaded, affine, &input, &facts);
        let out = &mut self.derived;
        out.exactness = None;
        out.warnings.clear();
        out.seams.clear();
        out.to_loaded = None;
        match made {
            Ok((plan, extent, spacing)) => {
                out.prepared = Some(plan.volume);
                out.exactness = Some(tiling::forecast(&plan, &facts));
                out.warnings = tiling::warnings(&plan, &facts, spacing);
                let map = ToLoaded::new(loaded, affine, extent, &input);
                let faces = plan.seam_planes();
                for axis in Axis::ALL {
                    for &at in &faces[axis.index()] {
                        let (axis, at) = map.map_plane(axis, at);
                        out.seams.push(SeamPlane { axis, at });
                    }
                }
                out.to_loaded = Some(map);
                out.tiling = Some(Ok(Arc::new(plan)));
            }
            Err(e) => {
                out.prepared = None;
                out.tiling = Some(Err(e));
            }
        }
    }

    /// The windows, the prepared size without padding, and its spacing where known.
    fn place(
        &self,
        loaded: Extent,
        affine: Option<Affine>,
        input: &Input,
        facts: &Facts,
    ) -> Result<(TilingPlan, Extent, Option<[f64; 3]>), String> {
        let spec = self.document.tiling_spec().map_err(|e| e.to_string())?;
        let size = match affine {
            Some(affine) => {
                // Sizes are asked of the affine alone: no voxel is touched.
                let empty = Volume {
                    extent: loaded,
                    affine,
                    voxels: Voxels::I16(Vec::new()),
                    padding: None,
                    is_hu: true,
                    z_spacing_known: true,
                };
                prepared_size_of(&empty, input, facts.total_stride).map_err(|e| e.to_string())?
            }
            None => prepared_size(loaded, None, input, facts.total_stride),
        };
        let spacing = affine.map(|_| size.spacing_mm);
        let plan = tiling::plan(&spec, size.padded, facts).map_err(|e| e.to_string())?;
        Ok((plan, size.extent, spacing))
    }

    /// Starts a budget when what it rests on has changed. It is made on a thread; the one before stays until then.
    fn derive_budget(&mut self) {
        let Some(network) = self.network.info() else {
            self.derived.budget = None;
            self.derived.fixes.clear();
            self.derived.budget_key = 0;
            self.derived.budget_pending = false;
            self.jobs.drop_kind(Kind::Budget);
            return;
        };
        let d = &self.document;
        let Some(plan) = self.derived.plan() else {
            return;
        };
        let (roi, volume) = (plan.roi, plan.volume);
        let new_key = self.budget_inputs(roi, volume);
        if new_key == self.derived.budget_key {
            return;
        }
        self.derived.budget_pending = true;
        if self.jobs.has(Kind::Budget) {
            // One at a time: a slider would leave a thread behind on every frame. What is asked for last is made next.
            return;
        }
        let model = Arc::clone(&network.model);
        let mut ids = d.cards.clone();
        if let Some(focus) = &d.card_in_focus {
            // Fixes are for the first card; the plot's own order is the document's.
            ids.retain(|c| c != focus);
            ids.insert(0, focus.clone());
        }
        let cards: Vec<Card> = ids
            .iter()
            .filter_map(|id| self.catalogue.get(id).ok().cloned())
            .collect();
        let document = d.clone();
        self.derived.budget_key = new_key;
        self.spawn(Kind::Budget, "Budget", move |_, out| {
            let request = request(&document, &model, roi, volume);
            let made = Planner::new(&model.graph)
                .budget(&request)
                .map(|b| {
                    let cards: Vec<&Card> = cards.iter().collect();
                    let on = BudgetOnCards::new(&request, b, &cards);
                    // The plot's pieces are made here too: a frame only draws them.
                    let timeline = timeline_chart(&on.budget, on.voxfit.map(|o| o.arena));
                    Box::new((on, timeline))
                })
                .map_err(|e| e.to_string());
            let _closed = out.send(News::Budget(new_key, made));
        });
    }

    /// The key of what a budget rests on.
    fn budget_inputs(&self, roi: Extent, volume: Extent) -> u64 {
        let d = &self.document;
        key(&(
            (
                roi,
                volume,
                self.network_generation,
                &d.cards,
                &d.card_in_focus,
            ),
            (d.runtime, d.mode, d.optimizer, d.checkpointing, d.precision),
            (
                (d.batch, d.stitch_on, d.display),
                (d.memory_limit, d.blend, d.expandable_segments),
            ),
        ))
    }

    /// Asks what running the window in tiles would take, on a thread: a search.
    fn derive_tile_fix(&mut self, card: &CardVerdict) {
        let (Some(network), Some(plan)) = (self.network.info(), self.derived.plan()) else {
            return;
        };
        let (roi, volume) = (plan.roi, plan.volume);
        let (key, free) = (self.derived.budget_key, card.free);
        let newer = self.derived.budget_pending || self.budget_inputs(roi, volume) != key;
        if card.verdict == Verdict::Fits || newer || self.jobs.has(Kind::Tiles) {
            // One at a time, and never the card of one budget with the plan of another: what comes too late starts the next.
            return;
        }
        let (model, document) = (Arc::clone(&network.model), self.document.clone());
        self.spawn(Kind::Tiles, "Tiles", move |_, out| {
            let request = request(&document, &model, roi, volume);
            let fix = Planner::new(&model.graph).tile_fix(&request, Some(free));
            let _closed = out.send(News::TileFix(key, fix.map(Box::new)));
        });
    }

    /// Takes the fix in, behind those that change no bit; when the plan is another by now, asks again.
    pub(super) fn take_tile_fix(&mut self, of: u64, fix: Option<Box<crate::memory::budget::Fix>>) {
        let focus = self.document.card_in_focus.clone();
        let card = self.derived.budget.as_ref().and_then(|b| {
            let cards = &b.as_ref().ok()?.cards;
            let in_focus = cards.iter().find(|c| Some(&c.id) == focus.as_ref());
            in_focus.or_else(|| cards.first()).cloned()
        });
        let Some(card) = card else {
            return;
        };
        if of != self.derived.budget_key {
            self.jobs.drop_kind(Kind::Tiles);
            self.derive_tile_fix(&card);
        } else if let Some(fix) = fix {
            let fixes = &mut self.derived.fixes;
            let at = fixes.partition_point(|f| !f.changes_bits);
            fixes.insert(at, fixes::one(&fix, card.free, self.document.roi_size));
        }
    }

    /// Takes a budget in, unless its inputs are no longer those of the plan.
    pub(super) fn take_budget(
        &mut self,
        of: u64,
        budget: Result<Box<(BudgetOnCards, TimelineChart)>, String>,
    ) {
        if of != self.derived.budget_key {
            return;
        }
        let (budget, timeline) = match budget.map(|both| *both) {
            Ok((budget, timeline)) => (Ok(budget), Some(Arc::new(timeline))),
            Err(e) => (Err(e), None),
        };
        self.derived.timeline = timeline;
        self.derived.budget_pending = false;
        self.derived.fixes = budget
            .as_ref()
            .map_or_else(|_none| Vec::new(), |b| fixes::of(b, self.document.roi_size));
        if let Some(first) = budget.as_ref().ok().and_then(|b| b.cards.first()) {
            let first = first.clone();
            self.derive_tile_fix(&first);
        }
        self.derived.budget = Some(budget.map(|mut b| {
            let place = |id: &String| {
                self.document
                    .cards
                    .iter()
                    .position(|c| c == id)
                    .unwrap_or(usize::MAX)
            };
            b.cards.sort_by_key(|c| place(&c.id));
            Arc::new(b)
        }));
    }

    fn derive_detections(&mut self) {
        let all = self.outcome.as_ref().map_or(&[][..], |o| o.detections());
        let near = self.view.filter == Filter::NearSeam;
        let changed = self.view.filter == Filter::Changed;
        let mut shown: Vec<usize> = (0..all.len())
            .filter(|&i| all[i].score >= self.document.score_threshold)
            .filter(|&i| !near || all[i].seam_distance.is_some_and(|d| d <= 5.0))
            .filter(|&i| !changed || self.changed(i))
            .collect();
        let row = |i: usize| self.seams.matching().and_then(|m| m.of(i));
        let longest = |d: &Detection| d.size_mm.iter().copied().fold(0.0, f64::max);
        shown.sort_by(|&a, &b| {
            let (x, y) = (&all[a], &all[b]);
            let order = match self.view.sort_by {
                SortBy::Number => a.cmp(&b),
                SortBy::Label => x.label.cmp(&y.label),
                SortBy::Score => x.score.total_cmp(&y.score),
                SortBy::Size => longest(x).total_cmp(&longest(y)),
                SortBy::Seam => {
                    let far = |d: &Detection| d.seam_distance.unwrap_or(f64::INFINITY);
                    far(x).total_cmp(&far(y))
                }
                SortBy::Reference => {
                    let score = |i| row(i).and_then(|r| r.score_a).unwrap_or(-1.0);
                    score(a).total_cmp(&score(b))
                }
                SortBy::Drift => {
                    // What has no partner has drifted the most.
                    let drift = |i| {
                        row(i)
                            .and_then(|r| r.score_drift)
                            .map_or(f64::INFINITY, f64::abs)
                    };
                    drift(a).total_cmp(&drift(b))
                }
            };
            let order = if self.view.descending {
                order.reverse()
            } else {
                order
            };
            order.then(a.cmp(&b))
        });
        self.derived.detections = shown;
    }

    /// Whether the reference has a finding of the run otherwise or not at all.
    fn changed(&self, i: usize) -> bool {
        const DRIFT: f64 = 0.01;
        self.seams
            .matching()
            .and_then(|m| m.of(i))
            .is_some_and(|r| {
                r.kind != RowKind::Matched
                    || r.shape.is_some()
                    || r.score_drift.is_some_and(|d| d.abs() > DRIFT)
            })
    }

    /// The window level of a preset key: `None` means the series' own.
    pub(super) fn preset_level(&self, number: u8) -> Option<WindowLevel> {
        if let Some(p) = WindowLevel::PRESETS
            .iter()
            .find(|p| p.key.to_digit(10) == Some(u32::from(number)))
        {
            return Some(p.window_level);
        }
        if number != 7 {
            return None;
        }
        let (low, high) = self.volume_state()?.range?;
        Some(WindowLevel::between(low, high))
    }

    /// The window level that slices are drawn with.
    pub fn window_level(&self) -> WindowLevel {
        self.document
            .window_level
            .or_else(|| self.volume_state()?.own_window_level)
            .unwrap_or(WindowLevel::SOFT)
    }
}
