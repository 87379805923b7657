//! The guided tour: two worked examples, step by step. A step sets the plan and says what is seen, in this plan's own figures.

use super::command::Command;
use super::document::{Display, Document, Mode, Optimizer, Runtime, StitchOn};
use super::effect::Effect;
use super::state::State;
use super::view::Workspace;
use crate::geometry::Extent;
use crate::hardware::verdict_words;
use crate::memory::planner::Planner;
use crate::memory::{Precision, Verdict};
use crate::units::{Bytes, with_thousands};

/// A worked example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tour {
    /// Training a U-Net at 256 cubed, on a card of 40 GB.
    Training,
    /// A detector that took 44 GB, on a card of 16 GB.
    Detector,
}

/// What a step shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The example, such as "Training at 256 cubed on 40 GB".
    pub tour: &'static str,
    /// Number of the step, from 1.
    pub step: usize,
    /// Steps in all.
    pub steps: usize,
    /// A few words.
    pub title: &'static str,
    /// What is seen, in figures of the budget; empty while it is being planned.
    pub text: String,
}

struct Step {
    title: &'static str,
    set: fn(&mut Document),
    say: fn(&State) -> Option<String>,
}

impl Tour {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Training, Self::Detector];

    /// A few words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Training => "Training at 256 cubed on a 40 GB card",
            Self::Detector => "A 44 GB detector onto a 16 GB card",
        }
    }

    const fn network(self) -> &'static str {
        match self {
            Self::Training => "preset:nnunet-3d-6stage",
            Self::Detector => "preset:monai-lung-nodule",
        }
    }

    const fn steps(self) -> &'static [Step] {
        match self {
            Self::Training => &TRAINING,
            Self::Detector => &DETECTOR,
        }
    }

    const fn card(self) -> &'static str {
        match self {
            Self::Training => "a100-40gb",
            Self::Detector => "rtx-5070-ti",
        }
    }

    /// Where both examples begin.
    fn begin(self, d: &mut Document) {
        let card = self.card().to_owned();
        if !d.cards.contains(&card) {
            d.cards.push(card.clone());
        }
        d.card_in_focus = Some(card);
        d.runtime = Runtime::Pytorch;
        d.precision = Precision::Amp;
        d.batch = 1;
        d.checkpointing = false;
        d.memory_limit = None;
        d.display = Display::Headless;
        d.stitch_on = StitchOn::Host;
        match self {
            Self::Training => {
                d.mode = Mode::Training;
                d.optimizer = Optimizer::Adam;
                d.roi_size = [256; 3];
                d.volume_without_data = Extent::cube(256);
            }
            Self::Detector => {
                d.mode = Mode::Inference;
                d.roi_size = [512, 512, 192];
                d.volume_without_data = Extent::new(512, 512, 240);
            }
        }
    }
}

const TRAINING: [Step; 5] = [
    Step {
        title: "The parameters are not what fills the card",
        set: |_| {},
        say: |s| {
            let p = &s.derived.budget()?.budget.parts;
            let model = s.network.info()?;
            let gradients = Bytes(model.facts.n_parameters.saturating_mul(4));
            let state = p.weights.high.saturating_add(gradients);
            let state = state.saturating_add(p.optimizer.high);
            Some(format!(
                "A map of 32 channels over 256\u{d7}256\u{d7}256 voxels in half precision is {}. The backward pass keeps such maps: {} of activations. The {} parameters with gradients and Adam take {}. {}",
                gib(Bytes((1 << 24) * 32 * 2)),
                gib(p.activations.high),
                with_thousands(model.facts.n_parameters),
                gib(state),
                verdict(s)?
            ))
        },
    },
    Step {
        title: "A second sample doubles the maps, not the parameters",
        set: |d| d.batch = 2,
        say: |s| {
            let here = s.derived.budget()?.budget.parts.activations.high;
            let one = kept(s, |d| d.batch = 1)?;
            Some(format!(
                "Batch 1 to 2: activations go from {} to {}, \u{d7} {:.2}. {} {}",
                gib(one),
                gib(here),
                ratio(here, one),
                trap(s, "int32-index")?,
                verdict(s)?
            ))
        },
    },
    Step {
        title: "Half the edge is an eighth of the maps",
        set: |d| {
            d.batch = 1;
            d.roi_size = [128; 3];
        },
        say: |s| {
            let here = s.derived.budget()?.budget.parts.activations.high;
            let whole = kept(s, |d| d.roi_size = [256; 3])?;
            Some(format!(
                "256\u{b3} to 128\u{b3}: activations go from {} to {}, 1 / {:.1}. Geometry is the first knob: memory follows the third power of the edge, and What fits shows it. {}",
                gib(whole),
                gib(here),
                ratio(whole, here),
                verdict(s)?
            ))
        },
    },
    Step {
        title: "Precision halves the maps, and comes last",
        set: |d| {
            d.roi_size = [256; 3];
            d.precision = Precision::Fp32;
        },
        say: |s| {
            let here = s.derived.budget()?.budget.parts.activations.high;
            let half = kept(s, |d| d.precision = Precision::Amp)?;
            Some(format!(
                "fp32 keeps {}, AMP {}, \u{d7} {:.2}. It changes every value, so it stands last: geometry, width, depth and batch come before it. {}",
                gib(here),
                gib(half),
                ratio(half, here),
                verdict(s)?
            ))
        },
    },
    Step {
        title: "Checkpointing buys memory with one more forward pass",
        set: |d| {
            d.precision = Precision::Amp;
            d.checkpointing = true;
        },
        say: |s| {
            let here = s.derived.budget()?.budget.parts.activations.high;
            let all = kept(s, |d| d.checkpointing = false)?;
            Some(format!(
                "Each stage keeps its input alone and runs forward again: {} in place of {}, and no bit of the gradients changes. {} Ways to fit or to need less stand below the bars, those that change no bit first.",
                gib(here),
                gib(all),
                verdict(s)?
            ))
        },
    },
];

const DETECTOR: [Step; 5] = [
    Step {
        title: "What lives is far below what was measured",
        set: |_| {},
        say: |s| {
            let b = &s.derived.budget()?.budget;
            let w = b.parts.workspace;
            Some(format!(
                "The tensors of 512\u{d7}512\u{d7}192 live in {}, yet 44 GB were measured. The rest is the convolution library's workspace: not knowable before a run, {} to {}, the hatched range. {}",
                gib(b.live_peak?),
                gib(w.low),
                gib(w.high),
                verdict(s)?
            ))
        },
    },
    Step {
        title: "Fewer slices, and a stride that does not divide them",
        set: |d| d.roi_size = [512, 512, 100],
        say: |s| {
            Some(format!(
                "About 22 GB were measured here, and it failed on 16 GB. {} {}",
                verdict(s)?,
                trap(s, "stride")?
            ))
        },
    },
    Step {
        title: "64 slices ran",
        set: |d| d.roi_size = [512, 512, 64],
        say: |s| {
            Some(format!(
                "10.59 GB were measured. {} The range says what can be promised: at least that much, at most that much.",
                verdict(s)?
            ))
        },
    },
    Step {
        title: "A narrow window ran too, and saw less",
        set: |d| d.roi_size = [192, 192, 80],
        say: |s| {
            let n = s.derived.plan()?.n_windows();
            Some(format!(
                "192\u{d7}192\u{d7}80 takes {n} windows, each with less around every nodule. {} Its group norms sum over each window, so the numbers are not those of one pass, whatever the overlap.",
                verdict(s)?
            ))
        },
    },
    Step {
        title: "The whole window, planned to the byte",
        set: |d| {
            d.roi_size = [512, 512, 192];
            d.runtime = Runtime::Voxfit;
            d.precision = Precision::Fp32;
        },
        say: |s| {
            let b = &s.derived.budget()?.budget;
            Some(format!(
                "512\u{d7}512\u{d7}192 in fp32 in an arena of {}: no workspace, maps freed at their last use, norms in place, no copies for concatenations. {} With a memory limit it runs in tiles and needs less, the same bits.",
                gib(b.arena?),
                verdict(s)?
            ))
        },
    },
];

fn gib(b: Bytes) -> String {
    format!("{:.2} GiB", b.as_gib())
}

fn ratio(a: Bytes, b: Bytes) -> f64 {
    a.0 as f64 / b.0.max(1) as f64
}

/// What the budget says of a named trap; nothing where the plan does not run into it.
fn trap<'a>(s: &'a State, code: &str) -> Option<&'a str> {
    let cliffs = &s.derived.budget()?.budget.cliffs;
    let found = cliffs.iter().find(|c| c.code == code);
    Some(found.map_or("", |c| &c.text))
}

/// The verdict on the card in focus as a sentence.
fn verdict(s: &State) -> Option<String> {
    let id = s.document.card_in_focus.as_deref()?;
    let v = s.derived.verdict(id)?;
    let word = match v.verdict {
        Verdict::Fits => "fits",
        Verdict::Tight => "is tight on",
        Verdict::Over => "is over",
    };
    Some(format!(
        "It {word} the {} GB card: {}.",
        v.nameplate_gb,
        verdict_words(v)
    ))
}

/// What the plan would keep with another choice, planned the same way.
fn kept(s: &State, change: fn(&mut Document)) -> Option<Bytes> {
    let model = s.network.model()?;
    let mut d = s.document.clone();
    change(&mut d);
    let roi = d.tiling_spec().ok()?.roi_size;
    let request = super::derived::request(&d, &model, roi, s.derived.prepared?);
    let parts = Planner::new(&model.graph).sketch(&request).ok()?;
    Some(parts.activations.high)
}

impl State {
    /// What the tour's step says, once its budget is there; `None` without a tour.
    pub fn told(&self) -> Option<&Told> {
        self.derived.told.as_ref()
    }

    /// Begins a tour: the study is closed, the plan is the example's.
    pub(super) fn start_tour(&mut self, tour: Tour) -> Vec<Effect> {
        let mut effects = self.apply(Command::PlanWithoutData(self.document.volume_without_data));
        self.view.workspace = Workspace::Plan;
        self.view.layers_open = false;
        self.view.popup = None;
        effects.extend(self.go_to_step(tour, 0));
        effects
    }

    /// The next step of the tour, or the one before; the last one ends it.
    pub(super) fn step_tour(&mut self, forward: bool) -> Vec<Effect> {
        let Some((tour, step)) = self.view.tour else {
            return Vec::new();
        };
        let next = if forward {
            step + 1
        } else {
            step.saturating_sub(1)
        };
        if next >= tour.steps().len() {
            self.view.tour = None;
            return Vec::new();
        }
        self.go_to_step(tour, next)
    }

    fn go_to_step(&mut self, tour: Tour, step: usize) -> Vec<Effect> {
        self.view.tour = Some((tour, step));
        let mut document = self.document.clone();
        tour.begin(&mut document);
        for step in tour.steps().iter().take(step + 1) {
            (step.set)(&mut document);
        }
        let mut effects = Vec::new();
        if document.network.as_deref() != Some(tour.network()) {
            effects = self.apply(Command::SetNetwork(tour.network().to_owned()));
            // The example brings its own windows.
            self.take_windows_of_network = false;
            document.network.clone_from(&self.document.network);
            document.weights = None;
        }
        self.change(|d| *d = document);
        effects
    }

    /// Says again what is seen when the step or the budget has changed.
    pub(super) fn derive_told(&mut self) {
        let Some((tour, step)) = self.view.tour else {
            self.derived.told = None;
            return;
        };
        let Some(shown) = tour.steps().get(step) else {
            return;
        };
        let ready = !self.derived.budget_pending
            && self.network.info().is_some()
            && self.document.network.as_deref() == Some(tour.network());
        let told = self.derived.told.as_ref();
        let same = told.is_some_and(|t| {
            t.step == step + 1 && t.tour == tour.name() && t.text.is_empty() != ready
        });
        if same && self.derived.told_key == self.derived.budget_stamp() {
            return;
        }
        self.derived.told_key = self.derived.budget_stamp();
        let text = if ready {
            (shown.say)(self).unwrap_or_default()
        } else {
            String::new()
        };
        self.derived.told = Some(Told {
            tour: tour.name(),
            step: step + 1,
            steps: tour.steps().len(),
            title: shown.title,
            text,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::SettingsDir;
    use crate::jobs::Waker;
    use std::time::Duration;

    fn walked(tour: Tour) -> Vec<Told> {
        let mut s = State::new(SettingsDir::none(), Waker::default());
        s.dispatch(Command::StartTour(tour));
        let mut out = Vec::new();
        while s.view.tour.is_some() {
            assert!(s.settle(Duration::from_mins(2)));
            let told = s.told().unwrap().clone();
            println!("{} {}: {}", told.step, told.title, told.text);
            assert!(!told.text.is_empty(), "{}", told.title);
            out.push(told);
            s.dispatch(Command::StepTour(true));
        }
        assert!(s.told().is_none());
        out
    }

    #[test]
    fn the_training_example_says_an_eighth_and_that_the_parameters_are_small() {
        let told = walked(Tour::Training);
        assert_eq!(told.len(), 5);
        assert!(told[0].text.contains("1.00 GiB"));
        assert!(told[1].text.contains("\u{d7} 2.00") && told[1].text.contains("past 2^31"));
        assert!(told[2].text.contains("1 / 8.0"));
        assert!(told[2].text.contains("It fits the 40 GB card"));
    }

    #[test]
    fn the_detector_example_is_over_at_192_slices_and_fits_in_our_own_arena() {
        let told = walked(Tour::Detector);
        assert_eq!(told.len(), 5);
        assert!(told[1].text.contains("100 is no multiple of 8"));
        assert!(!told[2].text.contains("is over"));
        assert!(told[4].text.contains("It fits the 16 GB card"));
    }

    #[test]
    fn a_tour_ends_with_escape_and_undo_brings_the_choices_back() {
        let mut s = State::new(SettingsDir::none(), Waker::default());
        let before = s.document.roi_size;
        s.dispatch(Command::StartTour(Tour::Detector));
        s.dispatch(Command::StepTour(true));
        assert_eq!(s.document.roi_size, [512, 512, 100]);
        s.dispatch(Command::StepTour(false));
        assert_eq!(s.document.roi_size, [512, 512, 192]);
        s.dispatch(Command::Escape);
        assert!(s.view.tour.is_none());
        while s.can_undo() {
            s.dispatch(Command::Undo);
        }
        assert_eq!(s.document.roi_size, before);
    }
}
