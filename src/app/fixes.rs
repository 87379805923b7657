//! Ways to fit as buttons: the planner's words, and the command that takes each.

use super::command::Command;
use crate::hardware::{BudgetOnCards, judge};
use crate::memory::budget::{self, Optimizer, Runtime, StitchOn};
use crate::memory::{Part, Precision, Source, Verdict};
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
        .map(|f| Fix {
            title: f.change.clone(),
            command: command(f, roi),
            changes_bits: f.changes_bits,
            required: (f.required_low, f.required),
            verdict: judge(
                Part::range(f.required_low, f.required, Source::Planned),
                card.free,
            ),
            free: card.free,
            exactness: f.exactness.clone(),
        })
        .collect()
}

/// The command that a fix stands for. Numbers are those after the arrow.
fn command(f: &budget::Fix, roi: [i64; 3]) -> Option<Command> {
    let (before, after) = f.change.split_once("->").unwrap_or((&f.change, ""));
    let numbers: Vec<i64> = after
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse().ok())
        .collect();
    match f.knob.as_str() {
        "runtime" => Some(Command::SetRuntime(Runtime::Voxfit)),
        "stitch_on" => Some(Command::SetStitchOn(StitchOn::Host)),
        "checkpointing" => Some(Command::SetCheckpointing(true)),
        "optimizer" => Some(Command::SetOptimizer(Optimizer::Sgd)),
        "batch" => Some(Command::SetBatch(usize::try_from(*numbers.first()?).ok()?)),
        "precision" if after.contains("AMP") => Some(Command::SetPrecision(Precision::Amp)),
        "precision" => Some(Command::SetPrecision(Precision::Fp16)),
        "roi_size" if before.contains("roi z") => {
            Some(Command::SetRoi([roi[0], roi[1], *numbers.first()?]))
        }
        "roi_size" => Some(Command::SetRoi([
            *numbers.first()?,
            *numbers.get(1)?,
            roi[2],
        ])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fix(knob: &str, change: &str) -> Option<Command> {
        let f = budget::Fix {
            knob: knob.to_owned(),
            change: change.to_owned(),
            changes_bits: true,
            required: Bytes(1),
            required_low: Bytes(1),
            seconds: None,
            exactness: String::new(),
        };
        command(&f, [512, 512, 192])
    }

    #[test]
    fn every_fix_of_the_planner_is_a_command() {
        assert_eq!(
            fix("roi_size", "roi z 192 -> 64"),
            Some(Command::SetRoi([512, 512, 64]))
        );
        assert_eq!(
            fix("roi_size", "roi x, y 512, 512 -> 256, 240"),
            Some(Command::SetRoi([256, 240, 192]))
        );
        assert_eq!(
            fix("batch", "batch 4 -> 1, one window at a time"),
            Some(Command::SetBatch(1))
        );
        assert_eq!(
            fix("precision", "fp32 -> AMP"),
            Some(Command::SetPrecision(Precision::Amp))
        );
        assert_eq!(fix("width", "half the channels of every layer"), None);
    }
}
