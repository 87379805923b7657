//! The largest roi against brute force: every roi of the rules planned on its own.

use super::budget::{BudgetRequest, Runtime, budget_sketch};
use super::largest::{LargestSearch, Rules};
use super::planner::Planner;
use crate::geometry::Extent;
use crate::network::manifest::Axes;
use crate::network::random::{Dice, network};
use crate::network::{Graph, facts, preset};
use crate::tiling::{self, Blend, ExactnessVerdict, Facts, Layout, TilingSpec};
use crate::units::Bytes;
use proptest::prelude::*;

/// One question, as random numbers make it.
#[derive(Clone, Debug)]
struct Case {
    dice: Vec<usize>,
    norms: bool,
    volume: [usize; 3],
    share: usize,
    pytorch: bool,
    keep_in_plane: bool,
    exact: Option<(f64, bool)>,
}

fn cases() -> impl Strategy<Value = Case> {
    (
        (
            prop::collection::vec(0_usize..1000, 8),
            any::<bool>(),
            prop::array::uniform3(1_usize..7),
        ),
        (
            0_usize..1100,
            any::<bool>(),
            any::<bool>(),
            prop::option::weighted(0.3, (0.0..0.8, any::<bool>())),
        ),
    )
        .prop_map(
            |((dice, norms, volume), (share, pytorch, keep_in_plane, exact))| Case {
                dice,
                norms,
                volume: volume.map(|n| 4 * n),
                share,
                pytorch,
                keep_in_plane,
                exact,
            },
        )
}

fn tiling_of(exact: (f64, bool)) -> TilingSpec {
    let aligned = exact.1;
    TilingSpec {
        roi_size: Extent::cube(1),
        overlap: [if aligned { 0.0 } else { exact.0 }; 3],
        blend: Blend::Constant,
        layout: if aligned {
            Layout::Aligned
        } else {
            Layout::Monai
        },
    }
}

/// Every roi that the rules allow with what it asks for, by planning each one.
fn all(graph: &Graph, request: &BudgetRequest<'_>, case: &Case) -> Vec<(Extent, Bytes)> {
    let volume = Extent::from(case.volume);
    let facts = Facts::of(&facts::of(graph).unwrap(), Axes::Xyz);
    let [sx, sy, sz] = facts.total_stride;
    assert_eq!(sx, sy);
    let mut out = Vec::new();
    for edge in (1..=volume.x.max(volume.y)).filter(|e| e % sx == 0) {
        let (x, y) = (edge.min(volume.x), edge.min(volume.y));
        if case.keep_in_plane && (x, y) != (volume.x, volume.y) {
            continue;
        }
        for z in (1..=volume.z).filter(|z| z % sz == 0) {
            let roi_size = Extent::new(x, y, z);
            if let Some(exact) = case.exact {
                let spec = TilingSpec {
                    roi_size,
                    ..tiling_of(exact)
                };
                let plan = tiling::plan(&spec, volume, &facts).unwrap();
                if tiling::forecast(&plan, &facts).verdict != ExactnessVerdict::Exact {
                    continue;
                }
            }
            let asked = BudgetRequest {
                roi_size,
                ..*request
            };
            out.push((roi_size, budget_sketch(&asked).unwrap().required().high));
        }
    }
    out
}

fn holds(case: &Case) -> Result<(), TestCaseError> {
    let graph = network(&mut Dice::new(case.dice.clone()), case.norms);
    let volume = Extent::from(case.volume);
    let request = BudgetRequest {
        volume: Some(volume),
        runtime: if case.pytorch {
            Runtime::Pytorch
        } else {
            Runtime::Voxfit
        },
        ..BudgetRequest::new(&graph, volume)
    };
    let known = all(&graph, &request, case);
    let most = known.iter().map(|k| k.1.0).max().unwrap_or(1 << 20);
    let free = Bytes(most * case.share as u64 / 1000);
    let facts = Facts::of(&facts::of(&graph).unwrap(), Axes::Xyz);
    let rules = Rules {
        keep_in_plane: case.keep_in_plane,
        exact: case.exact.map(|e| (tiling_of(e), facts)),
    };
    let planner = Planner::new(&graph);
    let answer = LargestSearch::new(&planner, request, volume, rules).largest(free);
    let size = |e: &Extent| (e.voxels(), e.x.max(e.y));
    let best = known
        .iter()
        .filter(|(_, needs)| *needs <= free)
        .max_by_key(|(roi, _)| size(roi));
    let found = answer.found.map(|f| (f.roi, f.required.unwrap().high));
    prop_assert_eq!(found, best.copied());
    prop_assert_eq!(answer.whole, best.is_some_and(|(roi, _)| *roi == volume));
    let voxels = best.map_or(0, |(roi, _)| roi.voxels());
    let next = known
        .iter()
        .filter(|(roi, _)| roi.voxels() > voxels)
        .min_by_key(|(roi, _)| (roi.voxels(), usize::MAX - roi.x.max(roi.y)));
    let said = answer.next.map(|f| (f.roi, f.required.unwrap().high));
    prop_assert_eq!(said, next.copied());
    prop_assert!(said.is_none_or(|(_, needs)| needs > free));
    Ok(())
}

proptest! {
    #![proptest_config(crate::random_cases::random_cases(300))]
    #[test]
    fn the_largest_roi_is_that_of_trying_every_one_and_the_next_does_not_fit(case in cases()) {
        holds(&case)?;
    }
}

proptest! {
    #![proptest_config(crate::random_cases::random_cases(10_000))]
    #[test]
    #[ignore = "ten thousand cases"]
    fn the_largest_roi_is_that_of_trying_every_one_in_ten_thousand_cases(case in cases()) {
        holds(&case)?;
    }
}

#[test]
fn a_sixteen_gb_card_gets_more_slices_from_our_runtime_and_the_next_stride_is_too_much() {
    let model = preset::load("monai-lung-nodule").unwrap();
    let volume = Extent::new(512, 512, 240);
    let planner = Planner::new(&model.graph);
    let free = Bytes::mib(15_325);
    let depth = |runtime| {
        let request = BudgetRequest {
            volume: Some(volume),
            runtime,
            ..BudgetRequest::new(&model.graph, volume)
        };
        let rules = Rules {
            keep_in_plane: true,
            exact: None,
        };
        let answer = LargestSearch::new(&planner, request, volume, rules).largest(free);
        let found = answer.found.unwrap();
        assert_eq!((found.roi.x, found.roi.y), (512, 512));
        if let Some(next) = answer.next {
            assert!(next.required.unwrap().high > free);
        }
        found.roi.z
    };
    let (ours, theirs) = (depth(Runtime::Voxfit), depth(Runtime::Pytorch));
    assert!(ours > 2 * theirs, "{ours} {theirs}");
}

#[test]
fn norms_over_space_leave_no_exact_roi_but_the_whole_volume() {
    let model = preset::load("demo-norm").unwrap();
    let volume = Extent::cube(64);
    let facts = Facts::of(&facts::of(&model.graph).unwrap(), Axes::Xyz);
    let spec = tiling_of((0.5, false));
    let planner = Planner::new(&model.graph);
    let rules = Rules {
        keep_in_plane: false,
        exact: Some((spec, facts)),
    };
    let request = BudgetRequest::new(&model.graph, volume);
    let search = LargestSearch::new(&planner, request, volume, rules);
    let whole = search.largest(Bytes(u64::MAX));
    assert!(whole.whole && whole.next.is_none());
    let none = search.largest(Bytes::mib(1));
    assert_eq!(none.found, None);
    assert_eq!(none.next.map(|n| n.roi), Some(volume));
}

#[test]
fn a_volume_that_no_scanner_makes_is_refused_at_once_and_not_searched_for_ever() {
    let graph = preset::load("demo").unwrap().graph;
    let planner = Planner::new(&graph);
    for limit in [
        Extent::new(99_999_999, 99_999_999, 9),
        Extent::new(usize::MAX, 1, usize::MAX),
    ] {
        let request = BudgetRequest::new(&graph, Extent::cube(64));
        let search = LargestSearch::new(&planner, request, limit, Rules::default());
        let error = search.check().unwrap_err().to_string();
        assert!(error.contains("more rois than"), "{error}");
    }
}
