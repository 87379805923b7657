//! How bytes move with each knob, and ways to need less, each computed by planning it: first those that change no bit
//! of the result, then those that do.

use super::Precision;
use super::budget::{
    BudgetRequest, DepthCost, Elasticities, Fix, Mode, Optimizer, Parts, Runtime, Sets, StitchOn,
};
use super::cliffs::axis_names;
use super::deepen::{self, Layer};
use super::parts::spatial;
use super::planner::Planner;
use super::widen::{narrow_finest, widen};
use crate::geometry::Extent;
use crate::network::{Graph, shapes};
use crate::units::Bytes;

/// d log(bytes) / d log(knob) of input and activations, by planning the next larger value of each knob.
pub(super) fn elasticities(planner: &Planner<'_>, request: &BudgetRequest<'_>) -> Elasticities {
    let moving = |p: &Parts| (p.activations.high.0.saturating_add(p.input.high.0)) as f64;
    let request = &whole_maps(request);
    let Ok(here) = planner.sketch(request).map(|p| moving(&p)) else {
        return Elasticities::default();
    };
    let slope = |there: Option<f64>, ratio: f64| {
        let there = there?;
        (here > 0.0 && there > 0.0 && ratio > 1.0).then(|| (there / here).ln() / ratio.ln())
    };
    let along = |axis: usize| {
        let mut size = request.roi_size.to_array();
        let old = size[axis];
        // An eighth more: a single voxel of a long axis would drown in the rounding of places.
        let stride = stride(planner, request)[axis];
        let step = (old / 8).max(1).checked_next_multiple_of(stride)?;
        size[axis] = old.checked_add(step)?;
        let there = planner.sketch(&BudgetRequest {
            roi_size: Extent::from(size),
            ..*request
        });
        slope(
            there.ok().map(|p| moving(&p)),
            size[axis] as f64 / old as f64,
        )
    };
    let dims = request.graph.spatial_dims;
    let batch = request
        .batch
        .checked_mul(2)
        .and_then(|batch| planner.sketch(&BudgetRequest { batch, ..*request }).ok())
        .map(|p| moving(&p));
    let channels = widen(request.graph, 2, 1).and_then(|wide| {
        let parts = Planner::new(&wide).sketch(&BudgetRequest {
            graph: &wide,
            ..*request
        });
        parts.ok().map(|p| moving(&p))
    });
    Elasticities {
        batch: slope(batch, 2.0),
        x: along(0),
        y: if dims > 1 { along(1) } else { None },
        z: if dims > 2 { along(2) } else { None },
        channels: slope(channels, 2.0),
        depth: depth(planner, request),
    }
}

/// What one layer more takes at each resolution.
fn depth(planner: &Planner<'_>, request: &BudgetRequest<'_>) -> Vec<DepthCost> {
    let Ok(here) = planner.sketch(request).map(|p| p.required().high) else {
        return Vec::new();
    };
    let cost = |layer: &Layer| {
        let deep = deepen::repeat(request.graph, layer);
        let parts = Planner::new(&deep).sketch(&BudgetRequest {
            graph: &deep,
            ..*request
        });
        Some(DepthCost {
            spatial: layer.spatial.clone(),
            bytes: parts.ok()?.required().high.saturating_sub(here),
        })
    };
    layers(request).iter().filter_map(cost).collect()
}

/// A layer of each resolution that can be repeated or left out.
fn layers(request: &BudgetRequest<'_>) -> Vec<Layer> {
    shapes::infer(request.graph, &spatial(request), request.batch)
        .map_or_else(|_none| Vec::new(), |s| deepen::layers(request.graph, &s))
}

/// Total stride in x, y, z order, 1 where there is none.
pub(super) fn stride(planner: &Planner<'_>, request: &BudgetRequest<'_>) -> [usize; 3] {
    let mut out = [1; 3];
    for (name, s) in axis_names(request).iter().zip(&planner.total_stride) {
        let axis = match *name {
            "x" => 0,
            "y" => 1,
            _ => 2,
        };
        out[axis] = (*s).max(1);
    }
    out
}

/// The same question with every map whole: what a knob changes is told without tiles beside it.
fn whole_maps<'a>(request: &BudgetRequest<'a>) -> BudgetRequest<'a> {
    BudgetRequest {
        memory_limit: None,
        tiles: false,
        ..*request
    }
}

/// The same window in tiles. With a target, the arena gets what the other parts leave of it.
pub(super) fn tile_fix(
    planner: &Planner<'_>,
    request: &BudgetRequest<'_>,
    target: Option<Bytes>,
) -> Option<Fix> {
    let ours = request.runtime == Runtime::Voxfit && request.mode == Mode::Inference;
    if !ours || request.tiles || request.memory_limit.is_some() {
        return None;
    }
    let parts = planner.sketch(request).ok()?;
    let arena = parts.activations.high.saturating_add(parts.input.high);
    let rest = parts.required().high.saturating_sub(arena);
    let changed = match target {
        Some(target) => BudgetRequest {
            memory_limit: Some(target.saturating_sub(rest)),
            ..*request
        },
        None => BudgetRequest {
            tiles: true,
            ..*request
        },
    };
    let outcome = planner.outcome(&changed, false).ok()?;
    let (tiles, limit) = (outcome.tiles?, outcome.arena?);
    let required = outcome.parts.required();
    let exactness = if tiles.recompute_flops == 0 {
        "exact, no extra work".to_owned()
    } else {
        format!("exact, +{:.1} % work", tiles.recompute_percent)
    };
    Some(Fix {
        knob: Sets::MemoryLimit(limit).knob().to_owned(),
        change: "run the window in tiles".to_owned(),
        sets: Some(Sets::MemoryLimit(limit)),
        changes_bits: false,
        required: required.high,
        required_low: required.low,
        seconds: None,
        exactness,
    })
}

struct Finder<'p, 'a> {
    planner: &'p Planner<'a>,
    found: Vec<Fix>,
    before: Bytes,
}

impl Finder<'_, '_> {
    /// Plans another network and keeps it when it needs less; whether it does.
    fn try_network(
        &mut self,
        knob: &str,
        change: &str,
        request: &BudgetRequest<'_>,
        graph: &Graph,
    ) -> bool {
        let asked = BudgetRequest { graph, ..*request };
        let Ok(parts) = Planner::new(graph).sketch(&asked) else {
            return false;
        };
        let required = parts.required();
        let less = required.high < self.before;
        if less {
            self.found.push(Fix {
                knob: knob.to_owned(),
                change: change.to_owned(),
                sets: None,
                changes_bits: true,
                required: required.high,
                required_low: required.low,
                seconds: None,
                exactness: "another network".to_owned(),
            });
        }
        less
    }

    /// Plans a changed request and keeps it when it needs less.
    fn try_fix(&mut self, sets: Sets, change: String, bits: Bits, changed: &BudgetRequest<'_>) {
        let Ok(parts) = self.planner.sketch(changed) else {
            return;
        };
        let required = parts.required();
        if required.high < self.before {
            self.found.push(Fix {
                knob: sets.knob().to_owned(),
                change,
                sets: Some(sets),
                changes_bits: bits.change,
                required: required.high,
                required_low: required.low,
                seconds: None,
                exactness: bits.words.to_owned(),
            });
        }
    }
}

#[derive(Clone, Copy)]
struct Bits {
    change: bool,
    words: &'static str,
}

const SAME: Bits = Bits {
    change: false,
    words: "exact",
};
const TOLERANCE: Bits = Bits {
    change: true,
    words: "within tolerance",
};
const APPROXIMATE: Bits = Bits {
    change: true,
    words: "approximate",
};
const OTHER_TRAINING: Bits = Bits {
    change: true,
    words: "another training run",
};

/// Ways to need less, best first. With a target, the roi shrinks until its high end is under it.
pub(super) fn fixes(
    planner: &Planner<'_>,
    request: &BudgetRequest<'_>,
    target: Option<Bytes>,
) -> Vec<Fix> {
    let limit = request.memory_limit;
    let request = &whole_maps(request);
    let Ok(parts) = planner.sketch(request) else {
        return Vec::new();
    };
    let arena = parts.activations.high.saturating_add(parts.input.high);
    let saved = limit.map_or(Bytes::ZERO, |l| arena.saturating_sub(l));
    let mut finder = Finder {
        planner,
        found: Vec::new(),
        before: parts.required().high.saturating_sub(saved),
    };
    same_bits(&mut finder, request);
    if request.mode == Mode::Inference && request.runtime == Runtime::Pytorch {
        let precision = match request.precision {
            Precision::Amp => Precision::Fp32,
            other => other,
        };
        let changed = BudgetRequest {
            runtime: Runtime::Voxfit,
            precision,
            ..*request
        };
        finder.try_fix(
            Sets::Runtime(Runtime::Voxfit),
            "use the Voxfit runtime".to_owned(),
            TOLERANCE,
            &changed,
        );
    }
    smaller_roi(&mut finder, request, target);
    other_networks(&mut finder, request);
    if request.mode == Mode::Training {
        training(&mut finder, request);
    }
    lower_precision(&mut finder, request);
    finder.found
}

fn same_bits(finder: &mut Finder<'_, '_>, request: &BudgetRequest<'_>) {
    if request.stitch_on == StitchOn::Card && request.mode == Mode::Inference {
        let changed = BudgetRequest {
            stitch_on: StitchOn::Host,
            ..*request
        };
        finder.try_fix(
            Sets::StitchOn(StitchOn::Host),
            "stitch on the host".to_owned(),
            SAME,
            &changed,
        );
    }
    if request.batch > 1 && request.mode == Mode::Inference {
        let changed = BudgetRequest {
            batch: 1,
            ..*request
        };
        let change = format!("batch {} -> 1, one window at a time", request.batch);
        finder.try_fix(Sets::Batch(1), change, SAME, &changed);
    }
    if request.runtime == Runtime::Pytorch && !request.expandable_segments {
        let changed = BudgetRequest {
            expandable_segments: true,
            ..*request
        };
        let change = "allocator with expandable_segments:True".to_owned();
        finder.try_fix(Sets::ExpandableSegments(true), change, SAME, &changed);
    }
    if request.mode == Mode::Training && !request.checkpointing {
        let changed = BudgetRequest {
            checkpointing: true,
            ..*request
        };
        let change = "checkpoint each stage: one more forward pass".to_owned();
        finder.try_fix(Sets::Checkpointing(true), change, SAME, &changed);
    }
}

/// Fewer slices first (the in-plane context stays), then fewer columns and rows.
fn smaller_roi(finder: &mut Finder<'_, '_>, request: &BudgetRequest<'_>, target: Option<Bytes>) {
    let norms = request.graph.nodes.iter().any(|n| n.op.is_spatial_norm());
    let bits = Bits {
        change: true,
        words: if norms { "spatial-norm" } else { "needs-halo" },
    };
    let stride = stride(finder.planner, request);
    let roi = request.roi_size;
    let deep = request.graph.spatial_dims > 2;
    let shrink = |z: bool, steps: usize| {
        let less = |old: usize, s: usize| (old / s).min(steps).max(1) * s;
        if z {
            Extent::new(roi.x, roi.y, less(roi.z, stride[2]))
        } else {
            Extent::new(less(roi.x, stride[0]), less(roi.y, stride[1]), roi.z)
        }
    };
    for z in [true, false] {
        if z && !deep {
            continue;
        }
        let most = if z {
            roi.z / stride[2]
        } else {
            (roi.x / stride[0]).max(roi.y / stride[1])
        };
        let fits = |steps: usize| {
            let parts = finder.planner.sketch(&BudgetRequest {
                roi_size: shrink(z, steps),
                ..*request
            });
            parts.is_ok_and(|p| target.is_none_or(|t| p.required().high <= t))
        };
        let Some(steps) = (match target {
            None => (most / 2 > 0).then_some(most / 2),
            Some(_) => largest(most.saturating_sub(1), fits),
        }) else {
            continue;
        };
        let size = shrink(z, steps);
        let change = if z {
            format!("roi z {} -> {}", roi.z, size.z)
        } else {
            format!("roi x, y {}, {} -> {}, {}", roi.x, roi.y, size.x, size.y)
        };
        let changed = BudgetRequest {
            roi_size: size,
            ..*request
        };
        let axes = if z {
            [None, None, Some(size.z)]
        } else {
            [Some(size.x), Some(size.y), None]
        };
        finder.try_fix(Sets::RoiSize(axes), change, bits, &changed);
    }
}

/// The largest number of steps that passes, by bisection: a larger window never needs less.
fn largest(most: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
    if most == 0 || !fits(1) {
        return None;
    }
    let (mut low, mut high) = (1, most + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low)
}

/// Other networks, while one is still being trained: half the channels at the finest resolution (at every one where that
/// cannot be), then a layer moved from the finest to the coarsest.
fn other_networks(finder: &mut Finder<'_, '_>, request: &BudgetRequest<'_>) {
    if request.mode != Mode::Training {
        return;
    }
    let inferred = shapes::infer(request.graph, &spatial(request), request.batch);
    let finest = inferred
        .ok()
        .and_then(|s| narrow_finest(request.graph, &s))
        .is_some_and(|narrow| {
            let change = "half the channels at full resolution";
            finder.try_network("width", change, request, &narrow)
        });
    if !finest && let Some(narrow) = widen(request.graph, 1, 2) {
        let change = "half the channels of every layer";
        finder.try_network("width", change, request, &narrow);
    }
    if let [fine, .., _] = layers(request).as_slice() {
        let flat = deepen::leave_out(request.graph, fine);
        let moved = BudgetRequest {
            graph: &flat,
            ..*request
        };
        if let Some(coarse) = layers(&moved).last() {
            let moved = deepen::repeat(&flat, coarse);
            let change = "a layer moved from full resolution to the coarsest";
            finder.try_network("depth", change, request, &moved);
        }
    }
}

fn training(finder: &mut Finder<'_, '_>, request: &BudgetRequest<'_>) {
    if request.batch > 1 {
        let batch = request.batch / 2;
        let changed = BudgetRequest { batch, ..*request };
        let change = format!("batch {} -> {batch}", request.batch);
        finder.try_fix(Sets::Batch(batch), change, OTHER_TRAINING, &changed);
    }
    if matches!(request.optimizer, Optimizer::Adam | Optimizer::AdamW) {
        let changed = BudgetRequest {
            optimizer: Optimizer::Sgd,
            ..*request
        };
        let change = "Adam -> SGD with momentum".to_owned();
        finder.try_fix(
            Sets::Optimizer(Optimizer::Sgd),
            change,
            OTHER_TRAINING,
            &changed,
        );
    }
}

fn lower_precision(finder: &mut Finder<'_, '_>, request: &BudgetRequest<'_>) {
    if request.precision != Precision::Fp32 {
        return;
    }
    let (precision, word) = match (request.runtime, request.mode) {
        (Runtime::Pytorch, Mode::Training) => (Precision::Amp, "AMP"),
        (Runtime::Voxfit | Runtime::Pytorch, _) => (Precision::Fp16, "fp16"),
    };
    let changed = BudgetRequest {
        precision,
        ..*request
    };
    finder.try_fix(
        Sets::Precision(precision),
        format!("fp32 -> {word}"),
        APPROXIMATE,
        &changed,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::preset;

    #[test]
    fn bytes_move_with_batch_once_and_with_the_edge_of_a_volume_three_times() {
        for name in ["demo", "nnunet-3d-6stage", "monai-lung-nodule"] {
            let graph = preset::load(name).unwrap().graph;
            let planner = Planner::new(&graph);
            let request = BudgetRequest::new(&graph, Extent::new(256, 256, 128));
            let e = elasticities(&planner, &request);
            println!("{name}: {e:?}");
            assert!((e.batch.unwrap() - 1.0).abs() < 0.02);
            let edge = e.x.unwrap() + e.y.unwrap() + e.z.unwrap();
            assert!((2.8..=3.1).contains(&edge), "{name}: {edge}");
            assert!((0.7..=1.05).contains(&e.channels.unwrap()), "{name}");
        }
    }

    #[test]
    fn fixes_that_change_no_bit_come_first_and_each_needs_what_planning_it_says() {
        let graph = preset::load("monai-lung-nodule").unwrap().graph;
        let planner = Planner::new(&graph);
        let request = BudgetRequest {
            batch: 2,
            stitch_on: StitchOn::Card,
            ..BudgetRequest::new(&graph, Extent::new(256, 256, 128))
        };
        let fixes = fixes(&planner, &request, None);
        let knobs: Vec<&str> = fixes.iter().map(|f| f.knob.as_str()).collect();
        assert_eq!(
            knobs,
            ["stitch_on", "batch", "roi_size", "roi_size", "precision"]
        );
        assert!(fixes.is_sorted_by_key(|f| f.changes_bits));
        for f in &fixes {
            let changed = match f.sets.unwrap() {
                Sets::StitchOn(stitch_on) => BudgetRequest {
                    stitch_on,
                    ..request
                },
                Sets::Batch(batch) => BudgetRequest { batch, ..request },
                Sets::Precision(precision) => BudgetRequest {
                    precision,
                    ..request
                },
                Sets::RoiSize(axes) => {
                    let old = request.roi_size.to_array();
                    let new: [usize; 3] = std::array::from_fn(|a| axes[a].unwrap_or(old[a]));
                    BudgetRequest {
                        roi_size: Extent::from(new),
                        ..request
                    }
                }
                other => panic!("{other:?} was not asked for"),
            };
            let required = planner.sketch(&changed).unwrap().required();
            assert_eq!((f.required_low, f.required), (required.low, required.high));
        }
    }

    #[test]
    fn the_same_window_in_tiles_is_a_fix_that_keeps_its_word() {
        let graph = preset::load("monai-lung-nodule").unwrap().graph;
        let planner = Planner::new(&graph);
        let request = BudgetRequest::new(&graph, Extent::new(512, 512, 192));
        let free = tile_fix(&planner, &request, None).unwrap();
        assert_eq!(free.exactness, "exact, no extra work");
        let target = Bytes::mib(2800);
        let fix = tile_fix(&planner, &request, Some(target)).unwrap();
        println!("{} needs {}, {}", fix.change, fix.required, fix.exactness);
        assert!(fix.required <= target && fix.required < free.required);
        assert!(!fix.changes_bits && fix.exactness.starts_with("exact, +"));
        let Some(Sets::MemoryLimit(limit)) = fix.sets else {
            panic!("it sets {:?}", fix.sets);
        };
        let taken = BudgetRequest {
            memory_limit: Some(limit),
            ..request
        };
        let parts = planner.sketch(&taken).unwrap();
        assert_eq!(parts.required().high, fix.required);
        assert!(tile_fix(&planner, &taken, Some(target)).is_none());
        assert!(tile_fix(&planner, &request, Some(Bytes::gib(1))).is_none());
    }
}
