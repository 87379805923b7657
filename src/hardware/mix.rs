//! The cheapest set of cards of two kinds that carries a load.

use super::shortlist::{bought_per_study, count, energy};
use super::{Card, CardCount, Choice, Costs, Knob, Offer, Range, Running, Workload};
use crate::memory::Verdict;

/// Past so many cards of the first kind a set of two kinds differs by less than the figures are known.
const MOST_OF_ONE: u64 = 32;

/// A card that could be one of two.
struct Kind<'a> {
    card: &'a Card,
    offer: &'a Offer,
    running: &'a Running,
    usd: f64,
    cost: f64,
    range: Range,
}

/// So many of one kind and of another.
struct Set<'k, 'a> {
    kinds: [&'k Kind<'a>; 2],
    n: [f64; 2],
    cost: f64,
}

/// Some of one kind and as many of the other as are still needed, where that is cheaper than `best`.
pub(super) fn two_kinds(
    offers: &[(&Offer, &Card)],
    workload: &Workload<'_>,
    costs: &Costs,
    best: f64,
) -> Option<Choice> {
    let kinds: Vec<Kind<'_>> = offers
        .iter()
        .filter_map(|&(offer, card)| {
            let running = offer.running.as_ref()?;
            Some(Kind {
                card,
                offer,
                running,
                usd: card.price.as_ref()?.usd + costs.get(Knob::HostUsd),
                cost: running.cost?,
                range: running.cost_per_study?,
            })
        })
        .collect();
    let busiest = workload.studies_per_day * costs.get(Knob::PeakFactor);
    let mut least: Option<Set<'_, '_>> = None;
    for a in &kinds {
        for b in kinds.iter().filter(|b| b.offer.id != a.offer.id) {
            for na in 1..a.running.n.min(MOST_OF_ONE + 1) {
                let na = na as f64;
                let rest = busiest - na * a.running.studies_per_day;
                if rest <= 0.0 {
                    break;
                }
                let n = [na, (rest / b.running.studies_per_day).ceil()];
                let cost = cost([a, b], n, workload.studies_per_day, costs);
                if cost < least.as_ref().map_or(best, |l| l.cost) {
                    least = Some(Set {
                        kinds: [a, b],
                        n,
                        cost,
                    });
                }
            }
        }
    }
    least.map(|set| set.choice())
}

/// How studies fall on the kinds: by what they can do.
fn shares(kinds: [&Kind<'_>; 2], n: [f64; 2]) -> [f64; 2] {
    let [a, b] = [0, 1].map(|i| n[i] * kinds[i].running.studies_per_day);
    [a / (a + b), b / (a + b)]
}

/// US dollars a study.
fn cost(kinds: [&Kind<'_>; 2], n: [f64; 2], load: f64, costs: &Costs) -> f64 {
    let shares = shares(kinds, n);
    let each = [0, 1].map(|i| {
        let (k, part) = (kinds[i], shares[i] * load);
        bought_per_study(n[i] * k.usd, load, costs)
            + energy(k.card, n[i], k.running.seconds, part, costs) * shares[i]
    });
    each[0] + each[1]
}

impl Set<'_, '_> {
    fn choice(&self) -> Choice {
        let [a, b] = self.kinds;
        let shares = shares(self.kinds, self.n);
        // As wide a range as that of the less certain of the two.
        let (low, high) = [a, b].iter().fold((1.0_f64, 1.0_f64), |(low, high), k| {
            (
                low.min(k.range.low / k.cost),
                high.max(k.range.high / k.cost),
            )
        });
        let tight = [a, b].iter().any(|k| k.offer.verdict == Verdict::Tight);
        let per_day = |i: usize| self.n[i] * self.kinds[i].running.studies_per_day;
        Choice {
            cards: [0, 1]
                .map(|i| CardCount {
                    id: self.kinds[i].offer.id.clone(),
                    n: count(self.n[i]),
                })
                .into(),
            seconds_per_study: Some(shares[0] * a.running.seconds + shares[1] * b.running.seconds),
            studies_per_day: Some(per_day(0) + per_day(1)),
            price: Some(self.n[0] * a.usd + self.n[1] * b.usd),
            cost_per_study: Some(Range {
                low: self.cost * low,
                high: self.cost * high,
            }),
            rent_per_study: None,
            p95_seconds: None,
            verdict: if tight { Verdict::Tight } else { Verdict::Fits },
        }
    }
}
