//! What follows from the document: windows, exactness, budget, verdicts. Keyed by the hash of its inputs and made again when they differ.

use super::command::Command;
use super::document::WindowLevel;
use super::state::State;
use super::view::{Filter, SortBy};
use crate::detect::Detection;
use crate::geometry::{Axis, Extent};
use crate::memory::Verdict;
use crate::tiling::TilingPlan;
use crate::units::Bytes;
use std::sync::Arc;

/// A plane where the set of covering windows changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeamPlane {
    /// The axis it is across.
    pub axis: Axis,
    /// The first voxel after it, in the loaded volume.
    pub at: usize,
}

/// What follows from the document.
#[derive(Clone, Debug, Default)]
pub struct Derived {
    /// Size that windows are planned over; `None` without a study and without a typed size.
    pub prepared: Option<Extent>,
    /// Where windows go, or the sentence that says why not.
    pub tiling: Option<Result<Arc<TilingPlan>, String>>,
    /// Planes where the set of covering windows changes.
    pub seams: Vec<SeamPlane>,
    /// Detections shown: places in the result, filtered and sorted.
    pub detections: Vec<usize>,
    fixes: Vec<Fix>,
}

impl Derived {
    /// The plan, when there is one.
    pub fn plan(&self) -> Option<&TilingPlan> {
        self.tiling.as_ref()?.as_ref().ok().map(Arc::as_ref)
    }
}

/// A way to fit, with its forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct Fix {
    /// A few words: "roi z 192 to 64".
    pub title: String,
    /// What taking it sends.
    pub command: Command,
    /// Whether it changes any bit of the result.
    pub changes_bits: bool,
    /// What it then needs, low and high.
    pub required: (Bytes, Bytes),
    /// The verdict on the card in focus.
    pub verdict: Verdict,
    /// The exactness forecast with it, in a word.
    pub exactness: String,
}

impl Derived {
    /// Ways to fit the card in focus, best first.
    pub fn fixes(&self) -> &[Fix] {
        &self.fixes
    }
}

impl State {
    /// Makes again what follows from what has changed.
    pub(super) fn derive(&mut self) {
        self.derive_detections();
    }

    fn derive_detections(&mut self) {
        let all = self.outcome.as_ref().map_or(&[][..], |o| o.detections());
        let near = self.view.filter == Filter::NearSeam;
        let mut shown: Vec<usize> = (0..all.len())
            .filter(|&i| all[i].score >= self.document.score_threshold)
            .filter(|&i| !near || all[i].seam_distance.is_some_and(|d| d <= 5.0))
            .collect();
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

    /// The window level of a preset key: `None` means the series' own.
    pub(super) fn preset_level(&self, number: u8) -> Option<WindowLevel> {
        let (width, center) = match number {
            1 => (400.0, 40.0),
            2 => (1500.0, -600.0),
            3 => (150.0, 90.0),
            4 => (2500.0, 480.0),
            5 => (80.0, 40.0),
            6 => (350.0, 50.0),
            7 => {
                let (low, high) = self.volume_state()?.range?;
                ((high - low).max(1.0), 0.5 * (low + high))
            }
            _ => return None,
        };
        Some(WindowLevel { center, width })
    }

    /// The window level that slices are drawn with.
    pub fn window_level(&self) -> WindowLevel {
        self.document
            .window_level
            .or_else(|| self.volume_state()?.own_window_level)
            .unwrap_or_default()
    }
}
