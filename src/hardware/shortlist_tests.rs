//! What a buyer would notice: counts, costs and their ranges, the efficient set, renting, sets of two kinds, odd loads.

use super::*;
use crate::geometry::Extent;
use crate::memory::budget::{BudgetRequest, Display, Runtime};
use crate::memory::{Precision, Verdict};
use crate::network::{Model, preset};
use std::path::Path;

const VOLUME: Extent = Extent::new(512, 512, 300);

fn load(model: &Model, studies_per_day: f64) -> Workload<'_> {
    let roi = Extent::new(512, 512, 192);
    let axes = model.manifest.input.axes;
    let precision = Precision::Amp;
    Workload {
        networks: vec![NetworkWork {
            request: BudgetRequest {
                volume: Some(VOLUME),
                runtime: Runtime::Pytorch,
                precision,
                axes,
                ..BudgetRequest::new(&model.graph, roi)
            },
            work: Work::of(&model.graph, roi, axes, precision).unwrap(),
            n_windows: 2,
            resampled_voxels: None,
        }],
        loaded_voxels: VOLUME.voxels() as u64,
        studies_per_day,
        display: Display::Headless,
        measured: None,
    }
}

fn network() -> Model {
    preset::load("monai-lung-nodule").unwrap()
}

#[test]
fn cards_carry_the_load_and_one_fewer_would_not() {
    let (model, catalogue, costs) = (network(), Catalogue::builtin(), Costs::builtin());
    let cards: Vec<&Card> = catalogue.cards().iter().collect();
    for studies in [1.0, 300.0, 20_000.0, 1e6] {
        let offers = shortlist(&load(&model, studies), &cards, &costs).unwrap();
        let busiest = studies * costs.get(Knob::PeakFactor);
        assert!(offers.iter().any(|o| o.verdict == Verdict::Over));
        for o in &offers {
            assert_eq!(o.verdict == Verdict::Over, o.running.is_none(), "{}", o.id);
            let Some(r) = &o.running else { continue };
            assert!(r.n as f64 * r.studies_per_day >= busiest - 1e-6);
            assert!(r.n == 1 || (r.n - 1) as f64 * r.studies_per_day < busiest);
            assert!(r.p95_seconds.is_some_and(|t| t >= r.seconds));
            let (cost, range) = (r.cost, r.cost_per_study);
            assert_eq!(cost.is_some(), range.is_some());
            if let (Some(cost), Some(range)) = (cost, range) {
                assert!(
                    range.low <= cost && cost <= range.high,
                    "{} {range:?}",
                    o.id
                );
            }
        }
    }
}

#[test]
fn the_efficient_set_rises_in_cost_as_it_rises_in_speed() {
    let (model, catalogue, costs) = (network(), Catalogue::builtin(), Costs::builtin());
    let cards: Vec<&Card> = catalogue.cards().iter().collect();
    let offers = shortlist(&load(&model, 500.0), &cards, &costs).unwrap();
    let mut front: Vec<(f64, f64)> = offers
        .iter()
        .filter_map(|o| o.running.as_ref())
        .filter(|r| r.efficient)
        .map(|r| (r.studies_per_day, r.cost_at_full_load.unwrap()))
        .collect();
    front.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(front.len() > 2, "{front:?}");
    assert!(front.windows(2).all(|w| w[0].1 < w[1].1), "{front:?}");
}

#[test]
fn one_measured_run_takes_the_place_of_the_stated_efficiency() {
    let (model, catalogue, costs) = (network(), Catalogue::builtin(), Costs::builtin());
    let cards: Vec<&Card> = ["rtx-5070-ti", "rtx-4090"]
        .iter()
        .map(|id| catalogue.get(id).unwrap())
        .collect();
    let mut workload = load(&model, 500.0);
    let guessed = shortlist(&workload, &cards, &costs).unwrap();
    workload.measured = Some(Measured {
        card: cards[0].clone(),
        seconds: 30.0,
    });
    let known = shortlist(&workload, &cards, &costs).unwrap();
    let host = VOLUME.voxels() as f64 / costs.get(Knob::LoadVoxelsPerS);
    let of = |offers: &[Offer], i: usize| offers[i].running.clone().unwrap();
    assert!((of(&known, 0).seconds - 30.0 - host).abs() < 1e-9);
    let own = of(&known, 0).seconds_range;
    assert!(
        (own.high - own.low).abs() < 1e-9,
        "what was measured is no range"
    );
    let ratio = |o: &[Offer]| (of(o, 0).seconds - host) / (of(o, 1).seconds - host);
    assert!((ratio(&guessed) - ratio(&known)).abs() < 1e-9);
}

#[test]
fn a_card_for_nothing_costs_host_and_power_and_one_without_a_price_has_no_cost() {
    let (model, costs) = (network(), Costs::builtin());
    let text = "[[card]]\nid = \"rtx-4090\"\nprice = { usd = 0 }\n\n[[card]]\nid = \"mine\"\nmemory = { nameplate_gb = 24 }\nrates = { bandwidth_gb_s = 900, fp32_tflops = 30, tensor_tflops = 60, power_w = 200 }\n";
    let catalogue = Catalogue::with_user_text(text, Path::new("cards.toml")).unwrap();
    let cards: Vec<&Card> = ["rtx-4090", "mine"]
        .iter()
        .map(|id| catalogue.get(id).unwrap())
        .collect();
    let offers = shortlist(&load(&model, 500.0), &cards, &costs).unwrap();
    let free = offers[0].running.as_ref().unwrap();
    assert!(free.cost.is_some_and(|c| c > 0.0));
    assert_eq!(free.price, Some(free.n as f64 * costs.get(Knob::HostUsd)));
    let unpriced = offers[1].running.as_ref().unwrap();
    assert_eq!((unpriced.price, unpriced.cost_at_full_load), (None, None));
    assert!(unpriced.seconds > 0.0 && !unpriced.efficient);
}

#[test]
fn choices_are_cheapest_first_and_a_set_of_two_kinds_comes_only_where_it_is_cheaper() {
    let (model, catalogue, costs) = (network(), Catalogue::builtin(), Costs::builtin());
    let cards: Vec<&Card> = catalogue.cards().iter().collect();
    let mut mixed = 0;
    for studies in [
        100.0, 2_000.0, 5_000.0, 9_000.0, 12_000.0, 20_000.0, 30_000.0,
    ] {
        // On our own runtime, where small cards can be put together too.
        let mut workload = load(&model, studies);
        let work = &mut workload.networks[0];
        work.request.runtime = Runtime::Voxfit;
        work.request.precision = Precision::Fp32;
        let (roi, axes) = (work.request.roi_size, work.request.axes);
        work.work = Work::of(&model.graph, roi, axes, Precision::Fp32).unwrap();
        let offers = shortlist(&workload, &cards, &costs).unwrap();
        let list = choices(&offers, &cards, &workload, &costs);
        let busiest = studies * costs.get(Knob::PeakFactor);
        let single: Vec<&Choice> = list.iter().filter(|c| c.cards.len() == 1).collect();
        assert_eq!(single.len(), cards.len());
        let rank = |c: &Choice| match c.verdict {
            Verdict::Fits => 0,
            Verdict::Tight => 1,
            Verdict::Over => 2,
        };
        assert!(single.is_sorted_by_key(|c| rank(c)));
        if list[0].cards.len() == 2 {
            mixed += 1;
            assert!(list[0].studies_per_day.unwrap() >= busiest - 1e-6);
            let best = offers
                .iter()
                .filter(|o| o.verdict == list[0].verdict)
                .filter_map(|o| o.running.as_ref()?.cost)
                .fold(f64::INFINITY, f64::min);
            assert!(list[0].cost_per_study.unwrap().low < best);
        }
    }
    assert!(mixed > 0, "no load was cheaper with two kinds");
}

#[test]
fn rented_cards_are_paid_by_the_hour_while_they_are_kept() {
    let (model, catalogue, costs) = (network(), Catalogue::builtin(), Costs::builtin());
    let cards = vec![catalogue.get("a100-40gb").unwrap()];
    let offers = shortlist(&load(&model, 100.0), &cards, &costs).unwrap();
    let r = offers[0].running.as_ref().unwrap();
    let rent = r.rent_per_study.unwrap();
    let hour = costs.rent("a100-40gb").unwrap().value;
    assert_eq!(r.n, 1);
    assert!((rent.high - hour * 24.0 / 100.0).abs() < 1e-9, "{rent:?}");
}
