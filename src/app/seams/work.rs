//! The seam commands, and the threads that match findings, compare outputs and draw maps. What is late falls away.

use super::field::{MapPicture, Source, across, peaks};
use super::matched::{self, Matched, Read, Reference};
use super::outputs::{DiffFound, KeptOutputs, end_of_scale, read_kept, same};
use super::{Grid, RunMaps, SeamRow, profile, rows};
use crate::app::derived::key;
use crate::app::effect::Effect;
use crate::app::state::{Severity, State};
use crate::app::view::{SeamMap, Workspace};
use crate::app::work::{Kind, News};
use crate::exchange::result::RunResult;
use crate::geometry::Axis;
use crate::review::labels::Mask;
use crate::study::Ran;
use crate::study::sides::Sides;
use crate::units::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most bytes of stitched outputs that are kept in memory after a run, and read of a file.
const MOST_OUTPUTS: Bytes = Bytes(1 << 30);
/// Most bytes for what each window alone gave.
pub(in crate::app) const MOST_WINDOWS: usize = 256 << 20;

/// What a comparison of outputs sends back.
pub(in crate::app) type DiffNews = Result<Box<DiffFound>, String>;

/// What a finished run leaves for the views.
#[derive(Debug, Default)]
pub(in crate::app) struct Views {
    pub(in crate::app) maps: RunMaps,
    pub(in crate::app) mask: Option<Mask>,
}

/// Takes what the views need out of a finished run.
pub(in crate::app) fn views_of(ran: &mut Ran) -> Views {
    let plan = &ran.result.plan;
    let judged = std::mem::take(&mut ran.views.judged);
    let finest = std::mem::take(&mut ran.views.maps)
        .into_iter()
        .rev()
        .max_by_key(|m| m.spatial.iter().product::<usize>());
    let worst = finest.as_ref().and_then(|m| {
        let grid = Grid::new(plan, m.spatial, m.stride, m.pad_before)?;
        let [_, b, c] = m.spatial;
        let value = |at: usize| {
            let plane = at / (b * c) / m.one_in;
            m.values
                .get(plane * b * c + at % (b * c))
                .copied()
                .unwrap_or(0.0)
        };
        Some(peaks(&grid, &ran.result.seams, plan.axes, value))
    });
    let outputs = std::mem::take(&mut ran.outputs);
    let kept: KeptOutputs = outputs
        .into_iter()
        .enumerate()
        .map(|(o, s)| judged.contains(&o).then(|| Arc::new(s)))
        .collect();
    let bytes = Bytes(
        kept.iter()
            .flatten()
            .map(|s| 4 * s.values.len() as u64)
            .sum(),
    );
    let fits = bytes <= MOST_OUTPUTS;
    let mask = ran.labels.take().map(|m| Mask {
        extent: m.extent,
        affine: ran.prepared_affine,
        values: m.values.iter().map(|v| u16::from(*v)).collect(),
        names: m.names,
    });
    Views {
        maps: RunMaps {
            why_no_outputs: if fits {
                String::new()
            } else {
                format!(
                    "the stitched outputs take {bytes} and were not kept in memory; run with voxfit run --keep-outputs DIR and hold the files against each other with voxfit seams"
                )
            },
            outputs: fits.then(|| Arc::new(kept)),
            scale: finest
                .as_ref()
                .map_or(0.0, |m| end_of_scale(m.values.iter().copied())),
            mismatch: finest.map(Arc::new),
            peaks: worst.unwrap_or_default(),
            windows: ran.views.windows.take().map(Arc::new),
            of_session: true,
        },
        mask,
    }
}

impl State {
    /// Whether there is a run whose outputs another may be held against.
    pub(in crate::app) fn hold_as_reference(&mut self) {
        let Some(o) = &self.outcome else { return };
        let plan = &o.result.plan;
        let precision = format!("{:?}", o.result.precision).to_lowercase();
        let name = format!("{} {}, {precision}", plan.roi_size, plan.layout.name());
        let (maps, path) = (Arc::clone(&o.maps), o.path.clone());
        let sides = Sides {
            list: vec![(*o.loaded).clone()],
            ..Sides::default()
        };
        let result = Some(Arc::new(o.result.clone()));
        self.seams.reference = Some(Reference {
            id: self.fresh_id(),
            name: name.clone(),
            path,
            sides: Arc::new(sides),
            result,
            maps,
        });
        self.say(
            Severity::Info,
            "Held as reference",
            format!("{name}: the next run is held against it"),
        );
    }

    pub(in crate::app) fn read_reference(&mut self, path: PathBuf) {
        self.spawn(Kind::Reference, "Read result", move |_, out| {
            let _closed = out.send(News::Reference(matched::read(&path).map(Box::new)));
        });
    }

    pub(in crate::app) fn take_reference(&mut self, read: Result<Box<Read>, String>) {
        let (path, sides, result) = match read {
            Ok(read) => *read,
            Err(e) => {
                self.say(Severity::Error, "The result cannot be compared", e);
                return;
            }
        };
        let name = path.file_name().map_or_else(
            || path.display().to_string(),
            |n| n.to_string_lossy().into_owned(),
        );
        let id = self.fresh_id();
        for w in &sides.warnings {
            self.say(
                Severity::Warning,
                "Part of the reference was left out",
                w.clone(),
            );
        }
        self.seams.reference = Some(Reference {
            id,
            name: name.clone(),
            path: Some(path),
            sides: Arc::new(sides),
            result: result.map(Arc::new),
            maps: Arc::new(RunMaps::default()),
        });
        let detail = if self.outcome.is_some() {
            name
        } else {
            format!("{name}: run the plan or open a result to hold against it")
        };
        self.say(Severity::Info, "Reference opened", detail);
    }

    /// Selects a seam and goes to its worst place, or to the seam where that is not known.
    pub(in crate::app) fn select_seam(&mut self, id: (Axis, usize)) {
        let Some(row) = self.seams.rows.iter().find(|r| r.id() == id).cloned() else {
            return;
        };
        self.view.seam = Some(id);
        if let (Some(extent), Some(place)) = (self.volume_state().map(|v| v.extent), row.place) {
            let mut to = row.peak.unwrap_or(self.view.crosshair);
            to[place.axis.index()] = place.at;
            self.view.set_crosshair(to, extent);
        }
    }

    /// The next seam of the table, or the one before; the worst where none is selected.
    pub(in crate::app) fn step_seam(&mut self, forward: bool) {
        let n = self.seams.rows.len();
        if n == 0 {
            return;
        }
        let at = self
            .view
            .seam
            .and_then(|id| self.seams.rows.iter().position(|r| r.id() == id));
        let next = match (at, forward) {
            (None, true) => 0,
            (None, false) => n - 1,
            (Some(i), true) => (i + 1) % n,
            (Some(i), false) => (i + n - 1) % n,
        };
        self.select_seam(self.seams.rows[next].id());
    }

    /// Selects a finding that only the reference has, and goes there.
    pub(in crate::app) fn select_reference(&mut self, i: usize) -> Vec<Effect> {
        let found = self.seams.matching().and_then(|m| m.reference.get(i));
        let Some(center) = found.and_then(|(b, _)| *b).map(|b| b.center()) else {
            return Vec::new();
        };
        self.view.selected = None;
        self.view.selected_reference = Some(i);
        if let Some(extent) = self.volume_state().map(|v| v.extent) {
            self.view
                .set_crosshair(center.map(|c| f64::from(c) - 0.5), extent);
        }
        Vec::new()
    }

    /// The seam that profile and facts speak of: the selected one, else the worst.
    pub fn seam_in_focus(&self) -> Option<&SeamRow> {
        let rows = &self.seams.rows;
        let selected = self
            .view
            .seam
            .and_then(|id| rows.iter().find(|r| r.id() == id));
        selected.or_else(|| rows.first())
    }

    /// The loaded axis across the slice of the Seams workspace: y, or x where the seam itself lies across y.
    pub fn seam_across(&self) -> usize {
        let axis = self.seam_in_focus().and_then(|r| r.place).map(|p| p.axis);
        if axis == Some(Axis::Y) {
            0
        } else {
            across(crate::geometry::Plane::Coronal)
        }
    }

    pub(in crate::app) fn derive_seams(&mut self) {
        self.derive_volume_check();
        self.derive_match();
        self.derive_difference();
        self.derive_rows();
        self.derive_picture();
        self.derive_profile();
    }

    /// The run and the reference that are to be compared, by number.
    fn compared(&self) -> Option<(u64, u64)> {
        Some((self.outcome.as_ref()?.id, self.seams.reference.as_ref()?.id))
    }

    fn derive_match(&mut self) {
        let Some(ids) = self.compared() else {
            self.seams.matched = None;
            self.seams.match_pending = false;
            self.seams.match_key = 0;
            self.jobs.drop_kind(Kind::Match);
            return;
        };
        let threshold = self.document.score_threshold;
        let new_key = key(&(ids, threshold.to_bits()));
        if new_key == self.seams.match_key {
            return;
        }
        self.seams.match_pending = true;
        if self.seams.matched_for != ids {
            // Never a match of other results than those on screen.
            self.seams.matched = None;
            self.view.selected_reference = None;
            self.jobs.drop_kind(Kind::Match);
        }
        if self.jobs.has(Kind::Match) {
            return;
        }
        let (Some(o), Some(r)) = (&self.outcome, &self.seams.reference) else {
            return;
        };
        let (own, sides, name) = (Arc::clone(&o.loaded), Arc::clone(&r.sides), r.name.clone());
        self.seams.match_key = new_key;
        self.seams.matched_for = ids;
        self.spawn(Kind::Match, "Match findings", move |_, out| {
            let made = Matched::new((&sides, &name), &own, threshold);
            let _closed = out.send(News::Matched(new_key, made.map(Box::new)));
        });
    }

    pub(in crate::app) fn take_match(&mut self, of: u64, made: Result<Box<Matched>, String>) {
        if of != self.seams.match_key {
            return;
        }
        let first = self.seams.matched.is_none();
        self.seams.match_pending = false;
        self.seams.matched = Some(made.map(|m| Arc::new(*m)));
        match &self.seams.matched {
            Some(Err(e)) if first => {
                let e = e.clone();
                self.say(Severity::Error, "The results cannot be compared", e);
            }
            Some(Ok(m)) if first => {
                for note in m.parity.notes.clone() {
                    self.say(Severity::Warning, "About the comparison", note);
                }
            }
            _ => {}
        }
    }

    fn derive_difference(&mut self) {
        let Some(ids) = self.compared() else {
            self.seams.differed = None;
            self.seams.diff_pending = false;
            self.seams.diff_key = 0;
            self.jobs.drop_kind(Kind::Difference);
            return;
        };
        let new_key = key(&ids);
        if new_key == self.seams.diff_key {
            return;
        }
        self.seams.diff_key = new_key;
        self.seams.differed = None;
        let (Some(o), Some(r)) = (&self.outcome, &self.seams.reference) else {
            return;
        };
        let Some(theirs) = r.result.clone() else {
            self.jobs.drop_kind(Kind::Difference);
            self.seams.diff_pending = false;
            self.seams.differed = Some(Err(
                "the reference is not of Voxfit, so only findings are compared".to_owned(),
            ));
            return;
        };
        let a = (o.result.clone(), Arc::clone(&o.maps), o.path.clone());
        let b = (theirs, Arc::clone(&r.maps), r.path.clone());
        self.seams.diff_pending = true;
        self.spawn(Kind::Difference, "Compare outputs", move |_, out| {
            let _closed = out.send(News::Differed(new_key, compare(&a, &b).map(Box::new)));
        });
    }

    pub(in crate::app) fn take_difference(&mut self, of: u64, made: DiffNews) {
        if of == self.seams.diff_key {
            self.seams.diff_pending = false;
            self.seams.differed = Some(made.map(|d| Arc::new(*d)));
        }
    }

    /// Reads the outputs that an opened result kept.
    pub(in crate::app) fn read_outputs(&mut self) {
        let Some(o) = &self.outcome else { return };
        let (id, result, Some(path)) = (o.id, o.result.clone(), o.path.clone()) else {
            return;
        };
        if !result.kept_outputs.is_empty() {
            self.spawn(Kind::Outputs, "Read outputs", move |_, out| {
                let read = read_kept(&result, &path, &result, Some(MOST_OUTPUTS));
                let _closed = out.send(News::Outputs(id, read.map(Arc::new)));
            });
        }
    }

    pub(in crate::app) fn take_outputs(&mut self, of: u64, read: Result<Arc<KeptOutputs>, String>) {
        let Some(o) = self.outcome.as_mut().filter(|o| o.id == of) else {
            return;
        };
        let mut maps = (*o.maps).clone();
        match read {
            Ok(outputs) => maps.outputs = Some(outputs),
            Err(e) => maps.why_no_outputs = e,
        }
        o.maps = Arc::new(maps);
        self.seams.profile_key = 0;
        self.seams.picture_key = 0;
    }

    fn derive_rows(&mut self) {
        let differed = self.seams.differed.as_ref().and_then(|d| d.as_ref().ok());
        let new_key = key(&(
            self.outcome.as_ref().map(|o| o.id),
            differed.map(|_| self.seams.diff_key),
            self.document.score_threshold.to_bits(),
            self.derived.tiling_stamp(),
        ));
        if new_key == self.seams.rows_key {
            return;
        }
        self.seams.rows_key = new_key;
        let rows = match (&self.outcome, self.derived.plan()) {
            (Some(o), _) => {
                let threshold = self.document.score_threshold;
                rows::measured(o, differed.map(Arc::as_ref), threshold)
            }
            (None, Some(plan)) => rows::planned(&plan.seam_planes(), &self.derived.seams),
            (None, None) => Vec::new(),
        };
        self.seams.rows = Arc::new(rows);
    }

    /// What the map of the Seams workspace is made of, and the end of its colours; or the sentence that says what is needed.
    fn map_source(&self) -> Result<(Source, f32), String> {
        let needs_run = || "a run fills this map".to_owned();
        let o = self.outcome.as_ref().ok_or_else(needs_run)?;
        let each = o.result.box_selector.is_some();
        match self.view.seam_map {
            SeamMap::Grid | SeamMap::Cover => Err(String::new()),
            SeamMap::Mismatch => match (&o.maps.mismatch, o.maps.of_session) {
                (Some(m), _) => Ok((Source::Mismatch(Arc::clone(m)), o.maps.scale)),
                (None, true) => Err("one window covers the volume, so no two disagree".to_owned()),
                (None, false) => Err(
                    "a result file keeps the worst of each seam and no map: run the plan here for one".to_owned(),
                ),
            },
            SeamMap::Difference => {
                let d = self.difference_or_why()?;
                let both = (d.own.get(d.output), d.reference.get(d.output));
                match both {
                    (Some(Some(x)), Some(Some(y))) => Ok((
                        Source::Difference(Arc::clone(x), Arc::clone(y), each),
                        d.scale,
                    )),
                    _ => Err("the outputs are not there".to_owned()),
                }
            }
            SeamMap::Flicker => {
                let d = self.difference_or_why()?;
                let from = if self.view.flicker { &d.reference } else { &d.own };
                let s = from.get(d.output).and_then(Option::as_ref);
                let s = s.ok_or_else(|| "the outputs are not there".to_owned())?;
                Ok((Source::Score(Arc::clone(s), each), 1.0))
            }
        }
    }

    fn difference_or_why(&self) -> Result<&Arc<DiffFound>, String> {
        match &self.seams.differed {
            Some(Ok(d)) => Ok(d),
            Some(Err(e)) => Err(e.clone()),
            None if self.seams.diff_pending => {
                Err("the outputs are being compared\u{2026}".to_owned())
            }
            None => Err("hold a result against this one: Compare with a result\u{2026}".to_owned()),
        }
    }

    /// Why the map of the Seams workspace is empty, or nothing.
    pub fn why_no_map(&self) -> Option<String> {
        if self.volume_differs() {
            return Some("the result is of another volume than the one that is open".to_owned());
        }
        // Told without touching a value: only what is there is asked.
        let o = self.outcome.as_ref();
        let known = match self.view.seam_map {
            SeamMap::Mismatch => o.is_some_and(|o| o.maps.mismatch.is_some()),
            SeamMap::Difference | SeamMap::Flicker => self.seams.difference().is_some(),
            SeamMap::Grid | SeamMap::Cover => return None,
        };
        if known { None } else { self.map_source().err() }
    }

    /// Whether the result is of another volume than the one that is open.
    fn volume_differs(&self) -> bool {
        if self.seams.other_volume {
            return true;
        }
        let open = self.volume_state().map(|v| v.extent);
        let of = self.outcome.as_ref().map(|o| o.result.plan.loaded_volume);
        open.zip(of).is_some_and(|(x, y)| x != y)
    }

    fn derive_picture(&mut self) {
        let map = self.view.seam_map;
        let bare = matches!(map, SeamMap::Grid | SeamMap::Cover);
        let extent = self.volume_state().map(|v| v.extent);
        let (Some(extent), Some(o)) = (extent, &self.outcome) else {
            self.seams.picture = None;
            self.seams.picture_key = 0;
            return;
        };
        if self.view.workspace != Workspace::Seams || bare || self.volume_differs() {
            self.seams.picture = None;
            self.seams.picture_key = 0;
            return;
        }
        let across = self.seam_across();
        let index = self.view.index(across, extent);
        let differed = self.seams.differed.as_ref().and_then(|d| d.as_ref().ok());
        let new_key = key(&(
            (o.id, differed.map(|_| self.seams.diff_key)),
            (map as u8, self.view.flicker && map == SeamMap::Flicker),
            (across, index),
        ));
        if new_key == self.seams.picture_key || self.jobs.has(Kind::Picture) {
            return;
        }
        self.seams.picture_key = new_key;
        let shown = self.seams.picture.as_ref();
        if shown.is_some_and(|p| p.map != map || p.across != across) {
            self.seams.picture = None;
        }
        let Ok((source, scale)) = self.map_source() else {
            self.seams.picture = None;
            return;
        };
        let plan = o.result.plan.clone();
        self.spawn(Kind::Picture, "Draw map", move |_, out| {
            let at = (extent, across, index);
            let made = MapPicture::new((new_key, map), &source, &plan, at, scale);
            let _closed = out.send(News::Picture(made.map(Arc::new)));
        });
    }

    fn derive_profile(&mut self) {
        if self.view.workspace != Workspace::Seams {
            return;
        }
        let (Some(o), Some(row)) = (&self.outcome, self.seam_in_focus()) else {
            self.seams.profile = None;
            self.seams.profile_key = 0;
            return;
        };
        let differed = self.seams.differed.as_ref().and_then(|d| d.as_ref().ok());
        let new_key = key(&(
            (o.id, differed.map(|_| self.seams.diff_key)),
            row.id(),
            self.view.crosshair.map(f64::to_bits),
        ));
        if new_key == self.seams.profile_key {
            return;
        }
        let made = profile::across(o, differed.map(Arc::as_ref), row, self.view.crosshair);
        self.seams.profile_key = new_key;
        self.seams.profile = Some(made.map(Arc::new));
    }
}

type Half<R> = (R, Arc<RunMaps>, Option<PathBuf>);

fn compare(a: &Half<RunResult>, b: &Half<Arc<RunResult>>) -> Result<DiffFound, String> {
    let outputs = |r: &RunResult, maps: &RunMaps, path: Option<&Path>| {
        if let Some(there) = &maps.outputs {
            return Ok(Arc::clone(there));
        }
        match path {
            Some(path) => read_kept(r, path, &a.0, Some(MOST_OUTPUTS)).map(Arc::new),
            None if maps.why_no_outputs.is_empty() => Err("the outputs were not kept".to_owned()),
            None => Err(maps.why_no_outputs.clone()),
        }
    };
    let (ours, theirs) = (Path::new("this run"), Path::new("the reference"));
    let (ours, theirs) = (
        a.2.as_deref().unwrap_or(ours),
        b.2.as_deref().unwrap_or(theirs),
    );
    same((&a.0, ours), (&b.0, theirs))?;
    let own = outputs(&a.0, &a.1, a.2.as_deref())?;
    let reference = outputs(&b.0, &b.1, b.2.as_deref())?;
    DiffFound::new((&a.0, own, ours), (&b.0, reference, theirs))
}
