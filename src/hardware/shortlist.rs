//! What to buy: for each card whether the work fits, how long a study takes, how many cards a load needs and what a study
//! then costs, beside renting.

use super::queue::response;
use super::{Card, Costs, Knob, Work, free_on, judge};
use crate::memory::budget::{BudgetRequest, Display};
use crate::memory::planner::Planner;
use crate::memory::{MemoryError, Part, Source, Verdict};
use crate::units::Bytes;
use serde::Serialize;

/// Days of a year.
const DAYS: f64 = 365.25;
/// Seconds of a day.
const DAY: f64 = 86_400.0;
/// Joules of a kilowatt-hour.
const KWH: f64 = 3.6e6;

/// Studies a day that a question may ask for.
pub const MOST_STUDIES: f64 = 1e9;

/// What one network does with a study.
#[derive(Clone, Debug)]
pub struct NetworkWork<'a> {
    /// Its budget over the largest volume, which decides memory.
    pub request: BudgetRequest<'a>,
    /// The work of one window.
    pub work: Work,
    /// Windows over the median volume, which decides time.
    pub n_windows: usize,
    /// Voxels of the median volume once prepared, where it is resampled.
    pub resampled_voxels: Option<u64>,
}

/// One run that was measured, on a card of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The card.
    pub card: Card,
    /// Seconds that all windows of the median study took, without loading.
    pub seconds: f64,
}

/// The load.
#[derive(Clone, Debug)]
pub struct Workload<'a> {
    /// Networks that each study goes through, one after the other.
    pub networks: Vec<NetworkWork<'a>>,
    /// Voxels of the median study as stored.
    pub loaded_voxels: u64,
    /// Studies a day.
    pub studies_per_day: f64,
    /// What else the card shows.
    pub display: Display,
    /// A measured run, which takes the place of the stated efficiency.
    pub measured: Option<Measured>,
}

/// From and to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// Low end.
    pub low: f64,
    /// High end.
    pub high: f64,
}

/// What one card would be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Offer {
    /// The card.
    pub id: String,
    /// What CUDA sees.
    pub usable: Bytes,
    /// What the plan asks for at least.
    pub required_low: Bytes,
    /// What the plan asks for at most.
    pub required_high: Bytes,
    /// Whether it fits.
    pub verdict: Verdict,
    /// Bytes left at worst; negative when the high end does not fit.
    pub headroom: i64,
    /// Everything that needs it to fit and to be priced.
    pub running: Option<Running>,
}

/// What a card that fits does with the load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Running {
    /// Seconds that a median study takes, loading and resampling among them.
    pub seconds: f64,
    /// From and to.
    pub seconds_range: Range,
    /// Studies that one card does in a day at the stated utilisation.
    pub studies_per_day: f64,
    /// Cards that the load needs in its busiest hour.
    pub n: u64,
    /// Seconds within which 95 of 100 studies are back in the busiest hour.
    pub p95_seconds: Option<f64>,
    /// US dollars for all of them with their share of hosts; `None` where the price is not known.
    pub price: Option<f64>,
    /// US dollars a study of this load, by the forecast time and the price as it stands.
    pub cost: Option<f64>,
    /// From and to.
    pub cost_per_study: Option<Range>,
    /// US dollars a study with one card as busy as it may be.
    pub cost_at_full_load: Option<f64>,
    /// US dollars a study on rented cards of this kind, paid by the hour while they are kept.
    pub rent_per_study: Option<Range>,
    /// Whether no other card is both faster and cheaper.
    pub efficient: bool,
}

/// Holds the load against each card; the order of the answer is that of the cards.
pub fn shortlist(
    workload: &Workload<'_>,
    cards: &[&Card],
    costs: &Costs,
) -> Result<Vec<Offer>, MemoryError> {
    let mut required = Part::exact(Bytes::ZERO, Source::Planned);
    for network in &workload.networks {
        let part = Planner::new(network.request.graph)
            .sketch(&network.request)?
            .required();
        required.low = required.low.max(part.low);
        required.high = required.high.max(part.high);
    }
    let mut offers: Vec<Offer> = cards
        .iter()
        .map(|card| offer(workload, required, card, costs))
        .collect();
    mark_efficient(&mut offers);
    Ok(offers)
}

fn offer(workload: &Workload<'_>, required: Part, card: &Card, costs: &Costs) -> Offer {
    let free = free_on(card, workload.display);
    let verdict = judge(required, free);
    let signed = |b: Bytes| i64::try_from(b.0).unwrap_or(i64::MAX);
    Offer {
        id: card.id.clone(),
        usable: card.usable(),
        required_low: required.low,
        required_high: required.high,
        verdict,
        headroom: signed(free).saturating_sub(signed(required.high)),
        running: (verdict != Verdict::Over)
            .then(|| running(workload, card, costs))
            .flatten(),
    }
}

/// Seconds of all windows of a median study: the forecast, brought to what a measured run took.
fn windows_seconds(workload: &Workload<'_>, card: &Card, costs: &Costs) -> Option<f64> {
    let forecast = |card: &Card| -> Option<f64> {
        let each = workload
            .networks
            .iter()
            .map(|n| Some(n.work.seconds(card, costs)? * n.n_windows as f64));
        each.sum()
    };
    let here = forecast(card)?;
    match &workload.measured {
        Some(m) if m.card.id == card.id => Some(m.seconds),
        Some(m) => Some(here * m.seconds / forecast(&m.card)?),
        None => Some(here),
    }
}

/// Seconds on the host: reading and resampling a median study.
fn host_seconds(workload: &Workload<'_>, costs: &Costs) -> f64 {
    let resampled: f64 = workload
        .networks
        .iter()
        .filter_map(|n| n.resampled_voxels)
        .map(|v| v as f64)
        .sum();
    workload.loaded_voxels as f64 / costs.get(Knob::LoadVoxelsPerS)
        + resampled / costs.get(Knob::ResampleVoxelsPerS)
}

fn running(workload: &Workload<'_>, card: &Card, costs: &Costs) -> Option<Running> {
    let windows = windows_seconds(workload, card, costs)?;
    let host = host_seconds(workload, costs);
    let spread = match &workload.measured {
        Some(m) if m.card.id == card.id => 1.0,
        Some(_) => costs.get(Knob::TimeSpreadMeasured),
        None => costs.get(Knob::TimeSpread),
    };
    let seconds = windows + host;
    let range = Range {
        low: windows / spread + host,
        high: windows * spread + host,
    };
    if !(seconds.is_finite() && seconds > 0.0) {
        return None;
    }
    let busiest = workload.studies_per_day * costs.get(Knob::PeakFactor);
    let per_day = |seconds: f64| DAY * costs.get(Knob::BusyAtMost) / seconds;
    let needed = |seconds: f64| (busiest / per_day(seconds)).ceil().max(1.0);
    let n = needed(seconds);
    let price = card.price.as_ref();
    let spread_of_price = if price.is_some_and(|p| p.figures.uncertain.is_empty()) {
        1.0
    } else {
        costs.get(Knob::PriceSpread)
    };
    let one = |usd: f64| usd + costs.get(Knob::HostUsd);
    let at = |n: f64, seconds: f64, usd: f64| {
        let load = workload.studies_per_day;
        bought_per_study(n * one(usd), load, costs) + energy(card, n, seconds, load, costs)
    };
    let rent = costs.rent(&card.id).map(|f| {
        let paid = |seconds: f64| needed(seconds) * f.value * 24.0 / workload.studies_per_day;
        Range {
            low: paid(range.low),
            high: paid(range.high),
        }
    });
    Some(Running {
        seconds,
        seconds_range: range,
        studies_per_day: per_day(seconds),
        n: count(n),
        p95_seconds: response(0.95, n, busiest / DAY, seconds),
        price: price.map(|p| n * one(p.usd)),
        cost: price.map(|p| at(n, seconds, p.usd)),
        cost_per_study: price.map(|p| Range {
            low: at(needed(range.low), range.low, p.usd),
            high: at(needed(range.high), range.high, p.usd * spread_of_price),
        }),
        cost_at_full_load: price.map(|p| {
            let load = per_day(seconds);
            bought_per_study(one(p.usd), load, costs) + energy(card, 1.0, seconds, load, costs)
        }),
        rent_per_study: rent,
        efficient: false,
    })
}

/// US dollars a study of what was bought, over the years it serves.
pub(super) fn bought_per_study(bought: f64, studies_per_day: f64, costs: &Costs) -> f64 {
    bought / (costs.get(Knob::LifeYears) * DAYS * studies_per_day)
}

/// US dollars of power a study: cards at work, the same cards waiting, the site around them.
pub(super) fn energy(
    card: &Card,
    n: f64,
    seconds: f64,
    studies_per_day: f64,
    costs: &Costs,
) -> f64 {
    let watts = card.rates.power_w.unwrap_or(0.0);
    let busy = seconds * studies_per_day;
    let idle = (n * DAY - busy).max(0.0) * costs.get(Knob::IdleShare);
    let joules = watts * (busy + idle) / studies_per_day;
    joules * costs.get(Knob::SiteFactor) * costs.get(Knob::UsdPerKwh) / KWH
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what a u64 holds"
)]
pub(super) fn count(n: f64) -> u64 {
    n.clamp(0.0, 1e15) as u64
}

/// Marks the cards that no other one beats in both studies a day and cost a study.
fn mark_efficient(offers: &mut [Offer]) {
    let points: Vec<Option<(f64, f64)>> = offers
        .iter()
        .map(|o| {
            let r = o.running.as_ref()?;
            Some((r.studies_per_day, r.cost_at_full_load?))
        })
        .collect();
    for (offer, here) in offers.iter_mut().zip(&points) {
        let (Some(running), Some((rate, cost))) = (&mut offer.running, here) else {
            continue;
        };
        let beaten = points
            .iter()
            .flatten()
            .any(|(r, c)| r >= rate && c <= cost && (r > rate || c < cost));
        running.efficient = !beaten;
    }
}

/// One way to carry the load: cards of one or two kinds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The cards.
    pub cards: Vec<CardCount>,
    /// Seconds that a median study takes, the mean over the cards as studies fall on them.
    pub seconds_per_study: Option<f64>,
    /// Studies a day that they do at the stated utilisation.
    pub studies_per_day: Option<f64>,
    /// US dollars to buy them with their share of hosts.
    pub price: Option<f64>,
    /// US dollars a study.
    pub cost_per_study: Option<Range>,
    /// US dollars a study where the same cards are rented.
    pub rent_per_study: Option<Range>,
    /// Seconds within which 95 of 100 studies are back; `None` for cards of two kinds.
    pub p95_seconds: Option<f64>,
    /// Whether the work fits: the worst of the cards.
    pub verdict: Verdict,
}

/// So many of one card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CardCount {
    /// The card.
    pub id: String,
    /// How many.
    pub n: u64,
}

/// The offers as choices: what fits, what is tight, what does not fit, each cheapest first; before them a set of two kinds, where one is cheaper.
/// `cards` are those of the offers, in their order.
pub fn choices(
    offers: &[Offer],
    cards: &[&Card],
    workload: &Workload<'_>,
    costs: &Costs,
) -> Vec<Choice> {
    let cost = |o: &Offer| {
        let known = o.running.as_ref().and_then(|r| r.cost);
        known.unwrap_or(f64::INFINITY)
    };
    let rank = |v: Verdict| match v {
        Verdict::Fits => 0,
        Verdict::Tight => 1,
        Verdict::Over => 2,
    };
    let mut sorted: Vec<&Offer> = offers.iter().collect();
    sorted.sort_by(|a, b| {
        let by_rank = rank(a.verdict).cmp(&rank(b.verdict));
        by_rank.then(cost(a).total_cmp(&cost(b)))
    });
    // A set is only made of cards that are as sure to fit as the best one.
    let mixed = sorted.first().and_then(|best| {
        let kinds: Vec<(&Offer, &Card)> = offers
            .iter()
            .zip(cards.iter().copied())
            .filter(|(o, _)| o.verdict == best.verdict)
            .collect();
        super::mix::two_kinds(&kinds, workload, costs, cost(best))
    });
    mixed
        .into_iter()
        .chain(sorted.into_iter().map(choice))
        .collect()
}

fn choice(offer: &Offer) -> Choice {
    let r = offer.running.as_ref();
    Choice {
        cards: vec![CardCount {
            id: offer.id.clone(),
            n: r.map_or(0, |r| r.n),
        }],
        seconds_per_study: r.map(|r| r.seconds),
        studies_per_day: r.map(|r| r.studies_per_day * r.n as f64),
        price: r.and_then(|r| r.price),
        cost_per_study: r.and_then(|r| r.cost_per_study),
        rent_per_study: r.and_then(|r| r.rent_per_study),
        p95_seconds: r.and_then(|r| r.p95_seconds),
        verdict: offer.verdict,
    }
}
