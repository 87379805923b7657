//! What the user chose, as plain data: saved as a plan file (`.voxplan`), undone by going back to the previous one.

use crate::geometry::Extent;
use crate::hardware::Knob;
use crate::memory::Precision;
pub use crate::memory::budget::{Display, Mode, Optimizer, Runtime, StitchOn};
use crate::tiling::{Blend, Layout, TilingSpec};
use crate::units::Bytes;
pub use crate::volume::WindowLevel;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which engine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineChoice {
    /// CUDA where it can run, else the CPU; the result says which.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// CUDA, or an error.
    Cuda,
}

/// One series of a study: its DICOM uid and, where a series splits into several volumes, which one (from 1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SeriesRef {
    /// `SeriesInstanceUID`, or a name made from the file for formats without one.
    pub uid: String,
    /// 1..n.
    pub part: usize,
}

/// What the user chose. Everything that a run depends on is here, but for "one pass allowed", which is asked for each run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Document {
    /// File, folder or `phantom:XxYxZ[:SEED]`.
    pub study: Option<String>,
    /// The series of it; `None` while only one is there.
    pub series: Option<SeriesRef>,
    /// Whether the series is resampled to a straight grid where it leans, has gaps or uneven steps.
    pub straight_grid: bool,
    /// MODEL: a file or `preset:NAME`.
    pub network: Option<String>,
    /// Weights for it (`F.safetensors` or `seeded:N`); `None` takes those that come with it.
    pub weights: Option<String>,
    /// Window size as typed, x y z; 0 or -1 means the whole axis.
    pub roi_size: [i64; 3],
    /// Share of the window per axis, x y z.
    pub overlap: [f64; 3],
    /// Importance map.
    pub blend: Blend,
    /// Placement rule.
    pub layout: Layout,
    /// Whose runtime the budget is for.
    pub runtime: Runtime,
    /// Inference or training.
    pub mode: Mode,
    /// Optimizer, in training.
    pub optimizer: Optimizer,
    /// Activation checkpointing, in training.
    pub checkpointing: bool,
    /// `expandable_segments` of PyTorch's allocator.
    pub expandable_segments: bool,
    /// How values are stored.
    pub precision: Precision,
    /// Inference: windows per forward pass; training: batch size.
    pub batch: usize,
    /// Most bytes of the arena: larger windows run in tiles. `None`: with whole maps, whatever that takes.
    pub memory_limit: Option<Bytes>,
    /// Where outputs are stitched.
    pub stitch_on: StitchOn,
    /// What else the card shows.
    pub display: Display,
    /// Ids of the cards in the budget plot, in its order.
    pub cards: Vec<String>,
    /// The card that fixes and verdict speak of.
    pub card_in_focus: Option<String>,
    /// Measured points as typed, X=BYTES joined by commas.
    pub points: String,
    /// Size planned for while no study is open.
    pub volume_without_data: Extent,
    /// Studies a day that cards are bought for.
    pub studies_per_day: f64,
    /// Figures of cost that were set by hand; the others are the defaults.
    pub costs: BTreeMap<Knob, f64>,
    /// Which engine runs.
    pub engine: EngineChoice,
    /// Detections below are hidden.
    pub score_threshold: f32,
    /// Display mapping; `None` means the series' own.
    pub window_level: Option<WindowLevel>,
}

impl Default for Document {
    fn default() -> Self {
        Self {
            study: None,
            series: None,
            straight_grid: false,
            network: None,
            weights: None,
            roi_size: [128, 128, 64],
            overlap: [0.25; 3],
            blend: Blend::default(),
            layout: Layout::default(),
            runtime: Runtime::default(),
            mode: Mode::default(),
            optimizer: Optimizer::default(),
            checkpointing: false,
            expandable_segments: false,
            precision: Precision::default(),
            batch: 1,
            memory_limit: None,
            stitch_on: StitchOn::default(),
            display: Display::default(),
            cards: ["rtx-5070-ti", "a100-40gb", "rtx-6000-ada"]
                .map(str::to_owned)
                .to_vec(),
            card_in_focus: Some("rtx-5070-ti".to_owned()),
            points: String::new(),
            volume_without_data: Extent::new(512, 512, 192),
            studies_per_day: 500.0,
            costs: BTreeMap::new(),
            engine: EngineChoice::default(),
            score_threshold: 0.5,
            window_level: None,
        }
    }
}

/// A choice that cannot be planned: what, expected, found, what to do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// A roi entry below -1.
    #[error("roi {axis} is {found}: type a size in voxels, or 0 or -1 for the whole axis")]
    Roi {
        /// x, y or z.
        axis: &'static str,
        /// As typed.
        found: i64,
    },
    /// An overlap below 0 or of 1 and more.
    #[error(
        "overlap along {axis} is {found}: type a share of the window from 0 to below 1, such as 0.25"
    )]
    Overlap {
        /// x, y or z.
        axis: &'static str,
        /// As typed.
        found: f64,
    },
    /// A batch of none.
    #[error("the batch is 0 windows: type 1 or more")]
    Batch,
    /// A size with no voxel.
    #[error("the volume {found} has no voxel: type columns, rows and slices, such as 512x512x192")]
    Volume {
        /// As typed.
        found: Extent,
    },
}

const AXES: [&str; 3] = ["x", "y", "z"];

impl Document {
    /// The first choice that cannot be planned, if any.
    pub fn check(&self) -> Result<(), ChoiceError> {
        for (axis, &found) in AXES.into_iter().zip(&self.roi_size) {
            if found < -1 {
                return Err(ChoiceError::Roi { axis, found });
            }
        }
        for (axis, &found) in AXES.into_iter().zip(&self.overlap) {
            if !(0.0..1.0).contains(&found) {
                return Err(ChoiceError::Overlap { axis, found });
            }
        }
        if self.batch == 0 {
            return Err(ChoiceError::Batch);
        }
        if self.volume_without_data.is_empty() {
            return Err(ChoiceError::Volume {
                found: self.volume_without_data,
            });
        }
        Ok(())
    }

    /// The tiling that was asked for, or the choice that stands in the way.
    pub fn tiling_spec(&self) -> Result<TilingSpec, ChoiceError> {
        self.check()?;
        let [x, y, z] = self
            .roi_size
            .map(|n| usize::try_from(n.max(0)).unwrap_or(usize::MAX));
        // The aligned layout derives both; what was chosen for the others stays in the document.
        let (overlap, blend) = match self.layout {
            Layout::Aligned => ([0.0; 3], Blend::Constant),
            Layout::Monai | Layout::Nnunet => (self.overlap, self.blend),
        };
        Ok(TilingSpec {
            roi_size: Extent::new(x, y, z),
            overlap,
            blend,
            layout: self.layout,
        })
    }

    /// What differs between the plan of a result and this one, in words: "overlap was 0.20, is 0.25". Display choices do not count.
    pub fn changes_since(&self, older: &Self) -> Vec<String> {
        let mut out = Vec::new();
        let mut say = |what: &str, was: String, is: String| {
            if was != is {
                out.push(format!("{what} was {was}, is {is}"));
            }
        };
        let text = |t: &Option<String>| t.clone().unwrap_or_else(|| "none".to_owned());
        say("study", text(&older.study), text(&self.study));
        let series = |s: &Option<SeriesRef>| {
            s.as_ref().map_or_else(
                || "the only one".to_owned(),
                |s| format!("{}#{}", s.uid, s.part),
            )
        };
        if older.study == self.study {
            say("series", series(&older.series), series(&self.series));
            let grid = |straight| if straight { "straight" } else { "as stored" }.to_owned();
            say("grid", grid(older.straight_grid), grid(self.straight_grid));
        }
        say("network", text(&older.network), text(&self.network));
        say("weights", text(&older.weights), text(&self.weights));
        say(
            "roi",
            roi_text(older.roi_size, "x"),
            roi_text(self.roi_size, "x"),
        );
        // In the aligned layout overlap and blend follow from the network and say nothing.
        if self.layout != Layout::Aligned || older.layout != Layout::Aligned {
            say(
                "overlap",
                overlap_text(older.overlap),
                overlap_text(self.overlap),
            );
            say("blend", lower(&older.blend), lower(&self.blend));
        }
        let limit = |l: Option<Bytes>| l.map_or_else(|| "none".to_owned(), |b| b.to_string());
        say(
            "memory limit",
            limit(older.memory_limit),
            limit(self.memory_limit),
        );
        say("layout", lower(&older.layout), lower(&self.layout));
        say("precision", lower(&older.precision), lower(&self.precision));
        say("engine", lower(&older.engine), lower(&self.engine));
        out
    }
}

/// A roi in words, its axes apart by `between`: an entry of 0 or less is the whole axis.
pub fn roi_text(roi: [i64; 3], between: &str) -> String {
    roi.map(|n| {
        if n <= 0 {
            "all".to_owned()
        } else {
            n.to_string()
        }
    })
    .join(between)
}

/// An overlap in words: one figure where all axes agree.
pub fn overlap_text(overlap: [f64; 3]) -> String {
    let [x, y, z] = overlap;
    if x == y && y == z {
        format!("{x:.2}")
    } else {
        format!("{x:.2}, {y:.2}, {z:.2}")
    }
}

fn lower(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

/// The document with its past and future.
#[derive(Clone, Debug, Default)]
pub struct History {
    past: Vec<Document>,
    future: Vec<Document>,
}

impl History {
    /// Remembers `before`, from which a change is about to be made.
    pub fn push(&mut self, before: Document) {
        const DEPTH: usize = 200;
        self.future.clear();
        self.past.push(before);
        if self.past.len() > DEPTH {
            self.past.remove(0);
        }
    }

    /// The previous document in exchange for `now`.
    pub fn undo(&mut self, now: Document) -> Option<Document> {
        let before = self.past.pop()?;
        self.future.push(now);
        Some(before)
    }

    /// The document that was undone last in exchange for `now`.
    pub fn redo(&mut self, now: Document) -> Option<Document> {
        let after = self.future.pop()?;
        self.past.push(now);
        Some(after)
    }

    /// Whether there is something to undo.
    pub fn can_undo(&self) -> bool {
        !self.past.is_empty()
    }

    /// Whether there is something to redo.
    pub fn can_redo(&self) -> bool {
        !self.future.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_overlap_is_said_in_words() {
        let older = Document {
            overlap: [0.2; 3],
            ..Document::default()
        };
        assert_eq!(
            Document::default().changes_since(&older),
            ["overlap was 0.20, is 0.25"]
        );
    }

    #[test]
    fn the_score_threshold_does_not_make_a_result_stale() {
        let d = Document {
            score_threshold: 0.9,
            window_level: Some(WindowLevel::SOFT),
            cards: vec![],
            ..Document::default()
        };
        assert!(Document::default().changes_since(&d).is_empty());
    }

    #[test]
    fn roi_below_minus_one_and_overlap_of_one_are_refused_with_the_axis() {
        let mut d = Document {
            roi_size: [0, -1, -2],
            ..Document::default()
        };
        assert!(
            d.check()
                .unwrap_err()
                .to_string()
                .starts_with("roi z is -2")
        );
        d.roi_size = [0, -1, 64];
        assert_eq!(d.tiling_spec().unwrap().roi_size, Extent::new(0, 0, 64));
        d.overlap = [0.0, 1.0, 0.5];
        assert!(d.check().unwrap_err().to_string().contains("along y is 1"));
        d.overlap = [f64::NAN; 3];
        assert!(d.check().is_err());
    }

    #[test]
    fn a_plan_file_from_an_older_version_keeps_what_it_says_and_takes_the_rest_from_the_defaults() {
        let d: Document =
            serde_json::from_str(r#"{"roi_size":[96,96,32],"unknown_key":1}"#).unwrap();
        assert_eq!(d.roi_size, [96, 96, 32]);
        assert_eq!(d.overlap, [0.25; 3]);
    }
}
