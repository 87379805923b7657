//! Whole runs: the bits of one pass, MONAI's answers end to end, the demo on a phantom, and the forecast held against the engine.

use super::{Head, floats, head, json, monai, networks, to_usize, triple};
use proptest::prelude::*;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use voxfit::detect::{self, LevelMaps};
use voxfit::engine::cpu::CpuEngine;
use voxfit::engine::sliding::{self, Options, PreparedVolume};
use voxfit::exchange::result::outputs_sha256;
use voxfit::geometry::Extent;
use voxfit::jobs::Control;
use voxfit::network::builder::{Builder, Conv};
use voxfit::network::{self, Act, Graph};
use voxfit::study::{self, Ran, RunSpec};
use voxfit::tiling::{self, AxesOrder, Blend, Facts, Layout, TilingSpec};

/// The demo over a small phantom by one layout, from opening to result.
fn run_demo(layout: Layout, roi: [usize; 3], allow_single_pass: bool) -> Ran {
    let control = Control::new();
    let opened = study::open("phantom:150x120x101:3", None, &control).unwrap();
    let model = network::open("preset:demo", None, None).unwrap();
    let mut spec = RunSpec::of(&model);
    spec.allow_single_pass = allow_single_pass;
    spec.tiling = TilingSpec {
        roi_size: roi.into(),
        overlap: [if layout == Layout::Aligned { 0.0 } else { 0.25 }; 3],
        blend: Blend::Constant,
        layout,
    };
    let mut engine = CpuEngine::new(2).unwrap();
    study::run(&opened, &model, &spec, &mut engine, &control).unwrap()
}

#[test]
fn aligned_windows_give_the_bits_of_one_pass_and_blended_ones_say_that_they_do_not() {
    let whole = run_demo(Layout::Monai, [0; 3], true).result;
    let aligned = run_demo(Layout::Aligned, [96, 96, 80], false).result;
    let monai = run_demo(Layout::Monai, [96, 96, 80], false).result;
    assert_eq!(whole.exactness.verdict.to_string(), "exact");
    assert_eq!(aligned.exactness.verdict.to_string(), "exact");
    assert!(aligned.n_windows > 1 && whole.n_windows == 1);
    assert_eq!(aligned.outputs_sha256, whole.outputs_sha256);
    assert_eq!(
        boxes(&aligned.detections),
        boxes(&whole.detections),
        "the same boxes, whatever their windows"
    );
    assert_ne!(monai.exactness.verdict.to_string(), "exact");
    assert_ne!(monai.outputs_sha256, whole.outputs_sha256);
    assert_eq!(aligned.memory.planned, aligned.memory.allocated);
    assert!(aligned.memory.measured_peak <= aligned.memory.planned);
}

fn boxes(detections: &[detect::Detection]) -> Vec<([f32; 6], f32)> {
    detections
        .iter()
        .map(|d| (d.box_in_volume.0, d.score))
        .collect()
}

#[test]
fn the_demo_finds_the_spheres_of_a_phantom_where_they_are_in_the_patient() {
    let control = Control::new();
    let opened = study::open("phantom:256x256x128:5", None, &control).unwrap();
    let study::StudyKind::Phantom { spheres } = &opened.kind else {
        panic!("not a phantom");
    };
    let model = network::open("preset:demo", None, None).unwrap();
    let mut engine = CpuEngine::new(2).unwrap();
    let ran = study::run(&opened, &model, &RunSpec::of(&model), &mut engine, &control).unwrap();
    let found = &ran.result.detections;
    let near = |s: &voxfit::volume::phantom::Sphere| {
        let at = opened.volume.affine.to_patient(s.center_index);
        found.iter().any(|d| {
            let off: f64 = (0..3)
                .map(|a| (d.center_in_patient[a] - at[a]).powi(2))
                .sum();
            off.sqrt() < s.radius_mm.max(3.0)
        })
    };
    let large: Vec<_> = spheres.iter().filter(|s| s.diameter_mm() >= 6.0).collect();
    let hits = large.iter().filter(|s| near(s)).count();
    assert!(
        !large.is_empty() && hits * 10 >= large.len() * 9,
        "{hits} of {}",
        large.len()
    );
    for d in found {
        let w = ran.planned.tiling.windows[d.window_idx.unwrap()];
        let c = d.box_in_volume.center();
        assert!((0..3).all(|a| w.core.min[a] as f32 <= c[a] && c[a] < w.core.max[a] as f32));
        assert!(d.seam_distance.unwrap() >= 0.0);
    }
}

/// A tensor (1, 1, x, y, z) as a prepared volume, z slowest.
fn as_volume(path: &Path, padded: Option<[usize; 3]>) -> (Extent, Vec<f32>) {
    let (shape, values) = floats(path);
    let [x, y, z] = [shape[2], shape[3], shape[4]];
    let extent = Extent::from(padded.unwrap_or([x, y, z]));
    let mut out = vec![0.0; extent.voxels()];
    for i in 0..x {
        for j in 0..y {
            for k in 0..z {
                out[(k * extent.y + j) * extent.x + i] = values[(i * y + j) * z + k];
            }
        }
    }
    (extent, out)
}

/// Runs an ONNX network over a prepared volume in MONAI's windows.
fn slide(
    model: &Path,
    (extent, values): &(Extent, Vec<f32>),
    spec: &TilingSpec,
    batch: usize,
) -> Vec<tiling::stitch::Stitched> {
    let model = network::open(model.to_str().unwrap(), None, None).unwrap();
    let plan = tiling::plan(spec, *extent, &Facts::unknown(AxesOrder::Xyz)).unwrap();
    let options = Options {
        batch,
        ..Options::default()
    };
    let volume = PreparedVolume {
        extent: *extent,
        values,
    };
    let mut engine = CpuEngine::new(2).unwrap();
    let graph = Arc::new(model.graph.clone());
    let control = Control::new();
    sliding::run(
        &mut engine,
        &graph,
        model.weights().unwrap(),
        (volume, &plan),
        &options,
        &control,
    )
    .unwrap()
    .outputs
}

fn assert_close(got: &[f32], want: &[f32], said: &str) {
    assert_eq!(got.len(), want.len(), "{said}");
    let worst = got
        .iter()
        .zip(want)
        .map(|(g, w)| (g - w).abs() / (1.0 + w.abs()))
        .fold(0.0, |m: f32, d| if d > m || d.is_nan() { d } else { m });
    assert!(worst <= 2e-4, "{said}: off by {worst:e}");
}

fn blend(mode: &Value) -> Blend {
    match mode.as_str() {
        Some("gaussian") => Blend::Gaussian,
        _ => Blend::Constant,
    }
}

#[test]
fn a_network_in_windows_gives_what_monais_inferer_gives() {
    let Some(dir) = networks() else { return };
    let here = dir.join("sliding_window_basicunet");
    let model = dir.join("basicunet_tiny/model.onnx");
    for case in json(&here.join("case.json"))["cases"].as_array().unwrap() {
        let file = |key: &str| here.join(case[key].as_str().unwrap());
        // Voxfit pads a volume smaller than the roi with zeros and nothing else.
        if case["padding_mode"] != "constant" || case["cval"].as_f64() != Some(0.0) {
            continue;
        }
        let spec = monai(
            triple(&case["roi"]),
            [case["overlap"].as_f64().unwrap(); 3],
            blend(&case["mode"]),
        );
        let batch = to_usize(case["sw_batch_size"].as_u64().unwrap());
        let out = slide(&model, &as_volume(&file("input"), None), &spec, batch);
        let (shape, want) = floats(&file("output"));
        assert_eq!(out[0].spatial.as_slice(), &shape[2..]);
        assert_close(&out[0].values, &want, &format!("case {}", case["id"]));
    }
}

#[test]
fn detectors_run_in_windows_find_what_monais_detector_finds() {
    let Some(dir) = networks() else { return };
    for name in [
        "detector_small_a",
        "detector_small_few",
        "detector_small_pad",
    ] {
        let here = dir.join(name);
        let h = head(&here);
        let volume = as_volume(&here.join("input.npy"), Some(h.padded));
        for run in h.case["runs"].as_array().unwrap() {
            let run_dir = here.join(run["run"].as_str().unwrap());
            let said = run_dir.display().to_string();
            let (model, roi) = match run["mode"].as_str() {
                None => ("model.onnx", [0; 3]),
                Some(_) => ("model_roi.onnx", triple(&h.case["roi"])),
            };
            let spec = monai(roi, [0.25; 3], blend(&run["mode"]));
            let out = slide(&here.join(model), &volume, &spec, 1);
            for l in 0..3 {
                let cls = floats(&run_dir.join(format!("cls_{l}.npy"))).1;
                assert_close(&out[l].values, &cls, &format!("{said} cls {l}"));
                let regression = floats(&run_dir.join(format!("box_{l}.npy"))).1;
                assert_close(&out[3 + l].values, &regression, &format!("{said} box {l}"));
            }
            check_detections(&h, &out, &run_dir, &said);
        }
    }
}

/// Each of MONAI's detections has one of ours within tolerance and the other way round; near-ties may swap places,
/// and a box whose score lies within tolerance of the threshold may be on either side of it.
fn check_detections(h: &Head, out: &[tiling::stitch::Stitched], run: &Path, said: &str) {
    let levels: Vec<LevelMaps<'_>> = (0..3)
        .map(|l| LevelMaps {
            grid: out[l].spatial,
            class_logits: &out[l].values,
            box_regression: &out[3 + l].values,
        })
        .collect();
    let found = detect::candidates(
        &levels,
        &h.anchors,
        h.classes,
        h.padded,
        h.image,
        &h.selector,
    )
    .unwrap();
    let kept = detect::suppress(
        &found.boxes,
        h.selector.nms_thresh,
        h.selector.detections_per_img,
    );
    let ours: Vec<([f32; 6], f32)> = kept
        .iter()
        .map(|&i| (found.boxes[i].corners, found.boxes[i].score))
        .collect();
    let boxes = floats(&run.join("det_boxes.npy")).1;
    let theirs: Vec<([f32; 6], f32)> = boxes
        .chunks_exact(6)
        .map(|b| <[f32; 6]>::try_from(b).unwrap())
        .zip(floats(&run.join("det_scores.npy")).1)
        .collect();
    for (some, others, whose) in [(&theirs, &ours, "MONAI's"), (&ours, &theirs, "our")] {
        for (corners, score) in some {
            let twin = others.iter().any(|(c, s)| {
                (s - score).abs() <= 1e-5
                    && c.iter().zip(corners).all(|(g, w)| (g - w).abs() <= 1e-3)
            });
            let at_the_threshold = (score - h.selector.score_thresh).abs() <= 1e-5;
            assert!(
                twin || at_the_threshold,
                "{said}: {whose} box {corners:?} of score {score} has no twin"
            );
        }
    }
}

/// A chain of convolutions, poolings and upsamplings over one channel, as `ops` says, with seeded weights.
fn chain(ops: &[u8]) -> Graph {
    let mut b = Builder::new("chain", 3);
    let mut x = b.input("image", 1);
    let mut stride = 1;
    for (i, op) in ops.iter().enumerate() {
        let name = format!("layer{i}");
        x = match op {
            0 if stride < 4 => {
                stride *= 2;
                b.conv(&name, x, Conv::k3(3).stride(&[2; 3]))
            }
            1 if stride < 4 => {
                stride *= 2;
                b.max_pool(&name, x, &[2; 3], &[2; 3], &[0; 3])
            }
            2 if stride > 1 => {
                stride /= 2;
                b.upsample_nearest(&name, x, &[2; 3])
            }
            3 if stride > 1 => {
                stride /= 2;
                b.conv_transpose(&name, x, 3, &[2; 3], true)
            }
            4 => b.act(&name, x, Act::Relu, false),
            5 => b.conv(&name, x, Conv::k1(2)),
            _ => b.conv(&name, x, Conv::k3(3)),
        };
    }
    let out = b.conv("out", x, Conv::k3(2));
    b.output(out);
    b.finish()
}

fn hash(graph: &Graph, values: &[f32], plan: &tiling::TilingPlan) -> String {
    let weights = network::Weights::seeded(graph, 11).unwrap();
    let volume = PreparedVolume {
        extent: plan.volume,
        values,
    };
    let mut engine = CpuEngine::new(2).unwrap();
    let control = Control::new();
    let out = sliding::run(
        &mut engine,
        &Arc::new(graph.clone()),
        &weights,
        (volume, plan),
        &Options::default(),
        &control,
    )
    .unwrap();
    outputs_sha256(out.outputs.iter().map(|o| o.values.as_slice()))
}

proptest! {
    #![proptest_config(super::random_cases::random_cases(48))]

    #[test]
    fn a_forecast_of_exact_is_never_wrong(
        ops in prop::collection::vec(0_u8..8, 1..6),
        cells in prop::array::uniform3(2_usize..9),
        roi_cells in prop::array::uniform3(1_usize..10),
        layout in prop::sample::select(vec![Layout::Aligned, Layout::Aligned, Layout::Monai, Layout::Nnunet]),
        overlap in prop::sample::select(vec![0.0, 0.25, 0.5]),
        zyx in any::<bool>(),
    ) {
        let graph = chain(&ops);
        let axes = if zyx { AxesOrder::Zyx } else { AxesOrder::Xyz };
        let facts = Facts::of(&network::facts::of(&graph).unwrap(), axes);
        let stride = facts.total_stride;
        let volume: [usize; 3] = std::array::from_fn(|a| cells[a] * stride[a]);
        let spec = TilingSpec {
            roi_size: std::array::from_fn(|a| roi_cells[a] * stride[a]).into(),
            overlap: if layout == Layout::Aligned { [0.0; 3] } else { [overlap; 3] },
            blend: Blend::Constant,
            layout,
        };
        let plan = tiling::plan(&spec, volume.into(), &facts).unwrap();
        let whole = TilingSpec { roi_size: Extent::default(), ..spec };
        let whole = tiling::plan(&whole, volume.into(), &facts).unwrap();
        let values: Vec<f32> = (0..plan.volume.voxels())
            .map(|i| ((i * 7919) % 1009) as f32 / 1009.0 - 0.5)
            .collect();
        let same = hash(&graph, &values, &plan) == hash(&graph, &values, &whole);
        let forecast = tiling::forecast(&plan, &facts);
        let exact = forecast.verdict == tiling::ExactnessVerdict::Exact;
        prop_assert!(same || !exact, "said exact, and bits differ: {:?} {:?}", plan.roi, forecast);
        if layout == Layout::Aligned && !exact {
            prop_assert_eq!(forecast.verdict, tiling::ExactnessVerdict::NeedsHalo);
        }
    }
}

#[test]
fn a_halo_one_cell_short_changes_bits_and_is_forecast_to() {
    let graph = chain(&[6, 0, 6, 6]);
    let facts = Facts::of(&network::facts::of(&graph).unwrap(), AxesOrder::Xyz);
    let halo = facts.halo_left()[0].unwrap();
    let volume = Extent::new(40, 6, 4);
    let values: Vec<f32> = (0..volume.voxels())
        .map(|i| ((i * 7919) % 1009) as f32 / 1009.0 - 0.5)
        .collect();
    let spec = TilingSpec {
        roi_size: Extent::new(2 * halo + 4, 0, 0),
        overlap: [0.0; 3],
        blend: Blend::Constant,
        layout: Layout::Aligned,
    };
    let mut short = facts.clone();
    short.reach_left[0] = Some(halo - facts.total_stride[0]);
    short.reach_right[0] = short.reach_left[0];
    let bits = |spec: &TilingSpec, placed_by: &Facts| {
        let plan = tiling::plan(spec, volume, placed_by).unwrap();
        let verdict = tiling::forecast(&plan, &facts).verdict;
        (hash(&graph, &values, &plan), verdict, plan.n_windows())
    };
    let whole = TilingSpec {
        roi_size: Extent::default(),
        ..spec
    };
    let (one, _, _) = bits(&whole, &facts);
    let (same, exact, n) = bits(&spec, &facts);
    assert!(n > 1 && same == one && exact == tiling::ExactnessVerdict::Exact);
    let (other, needs_halo, n) = bits(&spec, &short);
    assert!(n > 1 && other != one && needs_halo == tiling::ExactnessVerdict::NeedsHalo);
}
