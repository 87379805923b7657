//! Ways to fit as buttons: the planner's words, and the command that takes each.

use super::command::Command;
use crate::hardware::{BudgetOnCards, judge};
use crate::memory::budget::Sets;
use crate::memory::{Part, Source, Verdict};
use crate::units::Bytes;

/// A way to fit, with its forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct Fix {
    /// A few words: "roi z 192 -> 64".
    pub title: String,
    /// What taking it sends; `None` where it is another network.
    pub command: Option<Command>,
    /// Whether it changes any bit of the result.
    pub changes_bits: bool,
    /// What it then needs, low and high.
    pub required: (Bytes, Bytes),
    /// The verdict on the card in focus.
    pub verdict: Verdict,
    /// Free on the card in focus.
    pub free: Bytes,
    /// The exactness forecast with it, in a word.
    pub exactness: String,
}

/// The fixes of a budget whose first card is the one in focus.
pub(super) fn of(b: &BudgetOnCards, roi: [i64; 3]) -> Vec<Fix> {
    let Some(card) = b.cards.first() else {
        return Vec::new();
    };
    b.budget
        .fixes
        .iter()
        .map(|f| one(f, card.free, roi))
        .collect()
}

/// One fix of the planner on a card with so much free.
pub(super) fn one(f: &crate::memory::budget::Fix, free: Bytes, roi: [i64; 3]) -> Fix {
    let required = Part::range(f.required_low, f.required, Source::Planned);
    Fix {
        title: f.change.clone(),
        command: f.sets.map(|s| command(s, roi)),
        changes_bits: f.changes_bits,
        required: (f.required_low, f.required),
        verdict: judge(required, free),
        free,
        exactness: f.exactness.clone(),
    }
}

/// The command that a fix stands for; axes of the roi that it leaves alone stay as typed.
fn command(sets: Sets, roi: [i64; 3]) -> Command {
    match sets {
        Sets::Runtime(v) => Command::SetRuntime(v),
        Sets::StitchOn(v) => Command::SetStitchOn(v),
        Sets::Checkpointing(v) => Command::SetCheckpointing(v),
        Sets::Optimizer(v) => Command::SetOptimizer(v),
        Sets::Batch(v) => Command::SetBatch(v),
        Sets::Precision(v) => Command::SetPrecision(v),
        Sets::ExpandableSegments(v) => Command::SetExpandableSegments(v),
        Sets::MemoryLimit(v) => Command::SetMemoryLimit(Some(v)),
        Sets::RoiSize(axes) => Command::SetRoi(std::array::from_fn(|a| {
            axes[a].map_or(roi[a], |n| i64::try_from(n).unwrap_or(i64::MAX))
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Precision;
    use crate::memory::budget::{BudgetRequest, Mode, Optimizer, Runtime};
    use crate::memory::planner::Planner;
    use crate::network::preset;

    #[test]
    fn an_axis_that_a_fix_leaves_alone_stays_as_typed() {
        assert_eq!(
            command(Sets::RoiSize([None, None, Some(64)]), [0, 512, 192]),
            Command::SetRoi([0, 512, 64])
        );
        assert_eq!(
            command(Sets::RoiSize([Some(256), Some(240), None]), [512, 512, -1]),
            Command::SetRoi([256, 240, -1])
        );
    }

    #[test]
    fn every_fix_of_the_planner_is_a_button_but_for_another_network() {
        let model = preset::load("demo").unwrap();
        for (mode, runtime) in [
            (Mode::Inference, Runtime::Pytorch),
            (Mode::Inference, Runtime::Voxfit),
            (Mode::Training, Runtime::Pytorch),
        ] {
            let request = BudgetRequest {
                mode,
                runtime,
                batch: 4,
                optimizer: Optimizer::Adam,
                precision: Precision::Fp32,
                ..BudgetRequest::new(&model.graph, crate::geometry::Extent::cube(64))
            };
            let fixes = Planner::new(&model.graph).fixes(&request, None);
            assert!(fixes.len() > 2, "{mode:?} {runtime:?}");
            for f in fixes {
                let other = matches!(f.knob.as_str(), "width" | "depth");
                assert_eq!(f.sets.is_none(), other, "{}", f.change);
            }
        }
    }
}
