//! Does a budget fit a card: free = usable less context and display; over, tight or fits by the two ends of the range.

use super::Card;
use crate::memory::budget::{Budget, BudgetRequest, Display, Mode, Runtime};
use crate::memory::planner::Planner;
use crate::memory::{Part, Precision, Verdict, parts};
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
    /// The same window under our own runtime, where the budget is for another.
    #[serde(default)]
    pub voxfit: Option<Ours>,
}

/// What our own runtime asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ours {
    /// All that lies on the card, context and display among it.
    pub total: Bytes,
    /// The arena.
    pub arena: Bytes,
}

impl Ours {
    /// The same window under our runtime; `None` where the budget is for it already, or where it cannot be run.
    fn of(request: &BudgetRequest<'_>) -> Option<Self> {
        if request.runtime == Runtime::Voxfit || request.mode != Mode::Inference {
            return None;
        }
        let precision = match request.precision {
            Precision::Amp => Precision::Fp32,
            other => other,
        };
        let asked = BudgetRequest {
            runtime: Runtime::Voxfit,
            precision,
            ..*request
        };
        let parts = Planner::new(request.graph).sketch(&asked).ok()?;
        let around = parts.context.high.saturating_add(parts.display.high);
        Some(Self {
            total: parts.required().high.saturating_add(around),
            arena: parts.activations.high.saturating_add(parts.input.high),
        })
    }
}

impl BudgetOnCards {
    /// Judges a budget on cards; fixes and the largest batch are for the first one.
    pub fn new(request: &BudgetRequest<'_>, mut budget: Budget, cards: &[&Card]) -> Self {
        let verdicts: Vec<CardVerdict> = cards.iter().map(|c| verdict(&budget, c)).collect();
        budget.largest_batch = cards.first().and_then(|c| largest_batch(request, c));
        if let Some(first) = verdicts.first()
            && first.verdict != Verdict::Fits
        {
            budget.fixes = Planner::new(request.graph).fixes(request, Some(first.free));
        }
        Self {
            voxfit: Ours::of(request),
            budget,
            cards: verdicts,
        }
    }
}

impl BudgetOnCards {
    /// Adds the fix "the same window in tiles" behind those that change no bit, for the first card when the plan does not
    /// fit it. A search of its own, which may take a second.
    pub fn add_tiles(&mut self, request: &BudgetRequest<'_>) {
        let target = self
            .cards
            .first()
            .and_then(|c| (c.verdict != Verdict::Fits).then_some(c.free));
        let Some(fix) = Planner::new(request.graph).tile_fix(request, target) else {
            return;
        };
        let fixes = &mut self.budget.fixes;
        let at = fixes.partition_point(|f| !f.changes_bits);
        fixes.insert(at, fix);
    }
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

/// What of a card is left for a plan beside context and display.
pub fn free_on(card: &Card, display: Display) -> Bytes {
    card.usable()
        .saturating_sub(parts::CONTEXT.high)
        .saturating_sub(parts::display(display).high)
}

/// The same beside this budget's own context and display.
fn free_beside(budget: &Budget, card: &Card) -> Bytes {
    card.usable()
        .saturating_sub(budget.parts.context.high)
        .saturating_sub(budget.parts.display.high)
}

/// Whether a budget fits a card. The display switch is part of the budget.
pub fn verdict(budget: &Budget, card: &Card) -> CardVerdict {
    let required = budget.parts.required();
    let free = free_beside(budget, card);
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

/// The largest batch whose high end fits the card; 0 when not even one does, `None` when it cannot be planned.
pub fn largest_batch(request: &BudgetRequest<'_>, card: &Card) -> Option<u64> {
    let planner = Planner::new(request.graph);
    let fits = |batch: usize| -> Option<bool> {
        // How far tiles would go is a search for each batch: the answer is for whole maps.
        let changed = BudgetRequest {
            batch,
            memory_limit: None,
            tiles: false,
            ..*request
        };
        let sketch = planner.sketch(&changed).ok()?;
        let free = card
            .usable()
            .saturating_sub(sketch.context.high)
            .saturating_sub(sketch.display.high);
        Some(sketch.required().high <= free)
    };
    if !fits(1)? {
        return Some(0);
    }
    let (mut low, mut high) = (1usize, 2usize);
    while fits(high).unwrap_or(false) {
        low = high;
        high = high.checked_mul(2)?;
        if high > (1 << 20) {
            return u64::try_from(low).ok();
        }
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle).unwrap_or(false) {
            low = middle;
        } else {
            high = middle;
        }
    }
    u64::try_from(low).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Extent;
    use crate::hardware::Catalogue;
    use crate::memory::Source;
    use crate::memory::budget::{StitchOn, budget};
    use crate::network::preset;

    fn range(low: u64, high: u64) -> Part {
        Part::range(Bytes::mib(low), Bytes::mib(high), Source::Modelled)
    }

    #[test]
    fn a_plan_is_over_tight_or_fits_by_the_ends_of_its_range() {
        let free = Bytes::mib(10_000);
        assert_eq!(judge(range(10_001, 20_000), free), Verdict::Over);
        assert_eq!(judge(range(5_000, 10_001), free), Verdict::Tight);
        assert_eq!(judge(range(5_000, 8_465), free), Verdict::Tight);
        assert_eq!(judge(range(5_000, 8_464), free), Verdict::Fits);
    }

    /// The second article: a 16 GB card under PyTorch with autocast; no row may be told the opposite of what happened.
    #[test]
    fn no_row_of_the_article_is_told_the_opposite_of_what_happened() {
        let model = preset::load("monai-lung-nodule").unwrap();
        let catalogue = Catalogue::builtin();
        let card = catalogue.get("rtx-5070-ti").unwrap();
        for (roi, ran) in [
            (Extent::new(512, 512, 192), false),
            (Extent::new(512, 512, 100), false),
            (Extent::new(512, 512, 80), false),
            (Extent::new(512, 512, 64), true),
            (Extent::new(192, 192, 80), true),
        ] {
            let request = BudgetRequest {
                runtime: Runtime::Pytorch,
                precision: Precision::Amp,
                ..BudgetRequest::new(&model.graph, roi)
            };
            let verdict = verdict(&budget(&request).unwrap(), card).verdict;
            let opposite = if ran { Verdict::Over } else { Verdict::Fits };
            assert_ne!(verdict, opposite, "{roi}");
        }
    }

    #[test]
    fn headroom_is_free_less_the_high_end_and_the_words_say_it() {
        let model = preset::load("monai-lung-nodule").unwrap();
        let request = BudgetRequest {
            volume: Some(Extent::new(512, 512, 240)),
            stitch_on: StitchOn::Card,
            ..BudgetRequest::new(&model.graph, Extent::new(512, 512, 192))
        };
        let catalogue = Catalogue::builtin();
        let cards: Vec<&Card> = catalogue.shown_by_default();
        let on = BudgetOnCards::new(&request, budget(&request).unwrap(), &cards);
        assert_eq!(on.cards.len(), cards.len());
        for v in &on.cards {
            assert_eq!(v.headroom, signed(v.free) - signed(v.required_high));
            assert_eq!(v.required_low, v.required_high, "our runtime is exact");
            assert!(v.free < v.usable);
        }
        let json = serde_json::to_value(&on).unwrap();
        for key in [
            "parts",
            "arena",
            "timeline",
            "cards",
            "fixes",
            "cliffs",
            "elasticities",
        ] {
            assert!(json.get(key).is_some(), "{key}");
        }
        assert_eq!(json["live_peak"], serde_json::Value::Null);
    }

    #[test]
    fn the_largest_batch_fits_and_one_more_does_not() {
        let model = preset::load("demo").unwrap();
        let catalogue = Catalogue::builtin();
        let card = catalogue.get("rtx-4060").unwrap();
        let request = BudgetRequest::new(&model.graph, Extent::cube(128));
        let n = largest_batch(&request, card).unwrap();
        let fits = |batch: u64| {
            let batch = usize::try_from(batch).unwrap();
            let b = budget(&BudgetRequest { batch, ..request }).unwrap();
            let v = verdict(&b, card);
            v.required_high <= v.free
        };
        assert!(n > 1 && fits(n) && !fits(n + 1), "{n}");
    }
}
