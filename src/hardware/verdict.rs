//! Does a budget fit a card: free = usable less context and display; over, tight or fits by the two ends of the range.

use super::Card;
use crate::memory::budget::Budget;
use crate::memory::{Part, Verdict};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Spare room below which a plan that fits is called tight: what a desktop and other programs may take.
pub const TIGHT_SPARE: Bytes = Bytes::mib(1536);

/// A verdict with its numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardVerdict {
    /// The card.
    pub id: String,
    /// The maker's GB.
    pub nameplate_gb: u32,
    /// What CUDA sees.
    pub usable: Bytes,
    /// Usable less context and display, both at their high end.
    pub free: Bytes,
    /// What the plan asks for at least.
    pub required_low: Bytes,
    /// What the plan asks for at most.
    pub required_high: Bytes,
    /// Fits, tight or over.
    pub verdict: Verdict,
    /// Bytes left at worst; negative when the high end does not fit.
    pub headroom: i64,
}

/// A budget with its verdicts, as `voxfit budget --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetOnCards {
    /// The budget.
    #[serde(flatten)]
    pub budget: Budget,
    /// One verdict per card.
    pub cards: Vec<CardVerdict>,
}

/// The rule alone: over if the low end does not fit, tight if only the low end does or little is left, else fits.
pub fn judge(required: Part, free: Bytes) -> Verdict {
    if required.low > free {
        Verdict::Over
    } else if required.high > free || free.saturating_sub(required.high) < TIGHT_SPARE {
        Verdict::Tight
    } else {
        Verdict::Fits
    }
}

/// What of a card is left for a plan beside this budget's context and display.
fn free_on(budget: &Budget, card: &Card) -> Bytes {
    card.usable()
        .saturating_sub(budget.parts.context.high)
        .saturating_sub(budget.parts.display.high)
}

/// Whether a budget fits a card. The display switch is part of the budget.
pub fn verdict(budget: &Budget, card: &Card) -> CardVerdict {
    let required = budget.parts.required();
    let free = free_on(budget, card);
    CardVerdict {
        id: card.id.clone(),
        nameplate_gb: card.memory.nameplate_gb,
        usable: card.usable(),
        free,
        required_low: required.low,
        required_high: required.high,
        verdict: judge(required, free),
        headroom: signed(free) - signed(required.high),
    }
}

fn signed(b: Bytes) -> i64 {
    i64::try_from(b.0).unwrap_or(i64::MAX)
}

/// The verdict's second line, such as "by 0.86 to 28.30 GiB" or "spare 3.80 GiB at worst".
pub fn verdict_words(v: &CardVerdict) -> String {
    let gib = |b: Bytes| format!("{:.2}", b.as_gib());
    let over_low = v.required_low.saturating_sub(v.free);
    let over_high = v.required_high.saturating_sub(v.free);
    let exact = v.required_low == v.required_high;
    match v.verdict {
        Verdict::Over if exact => format!("by {} GiB", gib(over_high)),
        Verdict::Over => format!("by {} to {} GiB", gib(over_low), gib(over_high)),
        Verdict::Tight if over_high > Bytes::ZERO => format!(
            "spare {} to over {} GiB",
            gib(v.free.saturating_sub(v.required_low)),
            gib(over_high)
        ),
        Verdict::Tight | Verdict::Fits if exact => {
            format!("spare {} GiB", gib(v.free.saturating_sub(v.required_high)))
        }
        Verdict::Tight | Verdict::Fits => format!(
            "spare {} GiB at worst",
            gib(v.free.saturating_sub(v.required_high))
        ),
    }
}
