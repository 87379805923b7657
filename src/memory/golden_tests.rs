//! Figures that people have published, as tests: two articles, and threads of frameworks that give a size.

use super::budget::{Budget, BudgetRequest, Display, Mode, Optimizer, Runtime, StitchOn, budget};
use super::planner::Planner;
use super::{Precision, schedule};
use crate::geometry::Extent;
use crate::network::builder::{Builder, Conv};
use crate::network::{Graph, facts, preset};
use crate::units::Bytes;

const GB: f64 = 1e9;

fn near(found: f64, told: f64, share: f64) {
    assert!(
        (found - told).abs() <= share * told,
        "{found} for {told} within {share}"
    );
}

/// A chain of convolutions and activations over so many axes, without weights worth counting.
fn chain(dims: usize, layers: usize) -> Graph {
    let mut b = Builder::new("chain", dims);
    let mut x = b.input("image", 1);
    for i in 0..layers {
        let name = format!("conv{i}");
        x = b.conv(&name, x, Conv::new(16, &vec![3; dims]).pad(&vec![1; dims]));
    }
    b.output(x);
    b.finish()
}

fn train(graph: &Graph, roi: Extent, batch: usize) -> Budget {
    let request = BudgetRequest {
        runtime: Runtime::Pytorch,
        mode: Mode::Training,
        optimizer: Optimizer::Adam,
        precision: Precision::Amp,
        batch,
        ..BudgetRequest::new(graph, roi)
    };
    Planner::new(graph).budget_without_fixes(&request).unwrap()
}

/// First article: 256^3 voxels x 32 channels x 2 bytes = 1.07e9 bytes.
#[test]
fn a_map_of_32_channels_over_256_cubed_in_half_is_1_07e9_bytes() {
    let graph = preset::load("nnunet-3d-6stage").unwrap().graph;
    let s = schedule::plan(&graph, &[256; 3], 1, Precision::Fp16).unwrap();
    let full = s.tensors.iter().find(|t| t.shape == [1, 32, 256, 256, 256]);
    assert_eq!(full.unwrap().bytes, Bytes(1_073_741_824));
}

/// First article: 30 M parameters with Adam in fp32 are 0.48 GB: 16 bytes a parameter.
#[test]
fn thirty_million_parameters_with_adam_are_half_a_gigabyte() {
    let graph = preset::load("nnunet-3d-6stage").unwrap().graph;
    let n = facts::n_parameters(&graph) as f64;
    assert!((30e6..33e6).contains(&n));
    let request = BudgetRequest {
        runtime: Runtime::Pytorch,
        mode: Mode::Training,
        optimizer: Optimizer::Adam,
        // So small a window that the peak comes last, when every gradient is there.
        ..BudgetRequest::new(&graph, Extent::cube(32))
    };
    let p = budget(&request).unwrap().parts;
    let state = (p.weights.high.0 + p.gradients.high.0 + p.optimizer.high.0) as f64;
    near(state / n * 30e6, 0.48 * GB, 0.01);
}

/// First article: 128-cubed is an eighth of 256-cubed; 384 to 224 pixels in two dimensions is a factor of 2.9.
#[test]
fn half_the_edge_is_an_eighth_in_three_dimensions_and_384_to_224_is_2_9_in_two() {
    let graph = preset::load("nnunet-3d-6stage").unwrap().graph;
    let kept = |graph: &Graph, roi| train(graph, roi, 1).parts.activations.high.0 as f64;
    near(
        kept(&graph, Extent::cube(256)) / kept(&graph, Extent::cube(128)),
        8.0,
        0.02,
    );
    let flat = chain(2, 6);
    near(
        kept(&flat, Extent::new(384, 384, 1)) / kept(&flat, Extent::new(224, 224, 1)),
        2.9,
        0.03,
    );
}

/// First article: "high single-digit GB per sample" is about half of what a six-stage nnU-Net at 256^3 keeps before its
/// backward pass under AMP: 15.3 GB.
#[test]
fn a_six_stage_unet_at_256_cubed_keeps_15_3_gb_before_its_backward_pass() {
    let graph = preset::load("nnunet-3d-6stage").unwrap().graph;
    let b = train(&graph, Extent::cube(256), 1);
    let loss = b.timeline.iter().find(|s| s.node == "loss").unwrap();
    println!("before backward {}, peak {:?}", loss.live, b.live_peak);
    near(loss.live.0 as f64, 15.3 * GB, 0.05);
}

/// Elasticities are read off the graph: a volume's edge near 3, a picture's near 2, a sequence's 1, the batch's 1.
#[test]
fn bytes_follow_the_third_power_of_a_volume_the_second_of_a_picture_the_first_of_a_sequence() {
    for (dims, roi) in [
        (1, Extent::new(65_536, 1, 1)),
        (2, Extent::new(512, 512, 1)),
        (3, Extent::new(128, 128, 128)),
    ] {
        let graph = chain(dims, 5);
        for runtime in [Runtime::Voxfit, Runtime::Pytorch] {
            let request = BudgetRequest {
                runtime,
                ..BudgetRequest::new(&graph, roi)
            };
            let e = budget(&request).unwrap().elasticities;
            let edges = [e.x, e.y, e.z];
            let along: f64 = edges.iter().flatten().sum();
            let axes = u32::try_from(dims).unwrap();
            near(along, f64::from(axes), 0.02);
            assert_eq!(edges.iter().flatten().count(), dims);
            near(e.batch.unwrap(), 1.0, 0.02);
        }
    }
}

/// First article: the order of knobs is geometry, width, depth, batch, precision.
#[test]
fn what_changes_the_result_is_offered_in_the_articles_order() {
    let graph = preset::load("nnunet-3d-6stage").unwrap().graph;
    let request = BudgetRequest {
        runtime: Runtime::Pytorch,
        mode: Mode::Training,
        optimizer: Optimizer::Adam,
        batch: 2,
        ..BudgetRequest::new(&graph, Extent::cube(128))
    };
    let fixes = budget(&request).unwrap().fixes;
    let order: Vec<&str> = fixes
        .iter()
        .filter(|f| f.changes_bits)
        .map(|f| f.knob.as_str())
        .collect();
    let place = |knob: &str| order.iter().position(|k| *k == knob).unwrap();
    let told = ["roi_size", "width", "depth", "batch", "precision"].map(place);
    assert!(told.is_sorted(), "{order:?}");
    assert!(fixes.is_sorted_by_key(|f| f.changes_bits));
}

/// Second article: what lives of MONAI's `RetinaNet` under AMP, in GB.
#[test]
fn what_lives_of_the_detector_is_what_was_computed_for_the_article() {
    let graph = preset::load("monai-lung-nodule").unwrap().graph;
    for (roi, told) in [
        (Extent::new(512, 512, 192), 7.04),
        (Extent::new(512, 512, 100), 3.71),
        (Extent::new(512, 512, 80), 2.99),
        (Extent::new(512, 512, 64), 2.41),
        (Extent::new(192, 192, 80), 0.50),
    ] {
        let request = BudgetRequest {
            runtime: Runtime::Pytorch,
            precision: Precision::Amp,
            ..BudgetRequest::new(&graph, roi)
        };
        let b = budget(&request).unwrap();
        let live = b.live_peak.unwrap().0 as f64 / GB;
        println!("{roi}: {live:.3}");
        assert!((live - told).abs() < 0.015, "{roi}: {live} for {told}");
        let asked = b.parts.required();
        assert!(asked.low < asked.high, "workspace is a range");
    }
}

/// pytorch#128947: 2,145,259,520 elements ran and took 17 GB; 2,681,574,400 asked for 161.37 GiB at once.
#[test]
fn both_sides_of_two_to_the_31_are_as_in_the_public_thread() {
    let mut b = Builder::new("one", 3);
    let x = b.input("x", 256);
    let y = b.conv("conv", x, Conv::k3(64).pad(&[0; 3]));
    b.output(y);
    let graph = b.finish();
    let asked = |slices: usize| {
        let request = BudgetRequest {
            runtime: Runtime::Pytorch,
            axes: crate::network::manifest::Axes::Zyx,
            ..BudgetRequest::new(&graph, Extent::new(1922, 1090, slices))
        };
        budget(&request).unwrap()
    };
    let ran = asked(4);
    assert!(ran.cliffs.iter().all(|c| c.code != "int32-index"));
    let all = ran.parts.required();
    assert!(all.low.0 as f64 <= 17.2 * GB && 17.0 * GB <= all.high.0 as f64);
    let failed = asked(5);
    let cliff = failed.cliffs.iter().find(|c| c.code == "int32-index");
    let text = &cliff.unwrap().text;
    assert!(
        text.contains("2,681,574,400") && text.contains("161.37 GiB"),
        "{text}"
    );
    near(failed.parts.workspace.low.as_gib(), 161.37, 0.001);
}

/// With 64 channels at full resolution, 512x512xZ crosses 2^31 elements at Z = 128.
#[test]
fn sixty_four_channels_over_512_squared_cross_the_index_limit_at_128_slices() {
    let mut b = Builder::new("wide", 3);
    let x = b.input("x", 1);
    let x = b.conv("first", x, Conv::k3(64).pad(&[1; 3]));
    let y = b.conv("second", x, Conv::k3(64).pad(&[1; 3]));
    b.output(y);
    let graph = b.finish();
    for (slices, crosses) in [(127, false), (128, true)] {
        let request = BudgetRequest {
            runtime: Runtime::Pytorch,
            ..BudgetRequest::new(&graph, Extent::new(512, 512, slices))
        };
        let cliffs = budget(&request).unwrap().cliffs;
        let found = cliffs.iter().any(|c| c.code == "int32-index");
        assert_eq!(found, crosses, "{slices}");
    }
}

/// Exports as float64 have killed runs: 100 classes over 384x384x256 are 28.1 GiB more on the host, and that is said.
#[test]
fn a_float64_export_is_a_part_of_the_host_and_a_named_trap() {
    let mut b = Builder::new("segments", 3);
    let x = b.input("image", 1);
    let y = b.conv("head", x, Conv::k1(100));
    b.output(y);
    let graph = b.finish();
    let request = BudgetRequest {
        runtime: Runtime::Pytorch,
        volume: Some(Extent::new(384, 384, 256)),
        ..BudgetRequest::new(&graph, Extent::cube(96))
    };
    let b = budget(&request).unwrap();
    let (_, export) = b
        .host_parts
        .iter()
        .find(|(name, _)| name.contains("float64"))
        .unwrap();
    assert_eq!(
        (export.low, format!("{:.1}", export.high.as_gib())),
        (Bytes::ZERO, "28.1".to_owned())
    );
    let trap = b
        .cliffs
        .iter()
        .find(|c| c.code == "float64-export")
        .unwrap();
    assert!(trap.text.contains("28.1"), "{}", trap.text);
}

/// A Gaussian importance map lies on the card beside the outputs, one value for each voxel of the roi.
#[test]
fn a_gaussian_blend_costs_an_importance_map_and_says_so() {
    let graph = preset::load("monai-lung-nodule").unwrap().graph;
    let constant = BudgetRequest {
        runtime: Runtime::Pytorch,
        stitch_on: StitchOn::Card,
        volume: Some(Extent::new(512, 512, 240)),
        ..BudgetRequest::new(&graph, Extent::new(512, 512, 192))
    };
    let gaussian = BudgetRequest {
        gaussian: true,
        ..constant
    };
    let (a, b) = (budget(&constant).unwrap(), budget(&gaussian).unwrap());
    assert!(b.parts.count_map.high > a.parts.count_map.high);
    let named = |b: &Budget| b.cliffs.iter().any(|c| c.code == "gaussian-map");
    assert!(!named(&a) && named(&b));
}

/// Context 300 to 500 MiB; a desktop 0.3 to 1.9 GiB; Windows 1.6, with programs 3.0; headless about 0.016.
#[test]
fn context_and_screen_are_the_published_ranges() {
    let graph = preset::load("demo").unwrap().graph;
    let parts = |display| {
        let request = BudgetRequest {
            display,
            ..BudgetRequest::new(&graph, Extent::cube(64))
        };
        budget(&request).unwrap().parts
    };
    let context = parts(Display::Headless).context;
    assert_eq!(
        (context.low, context.high),
        (Bytes::mib(300), Bytes::mib(500))
    );
    for (display, low, high) in [
        (Display::Headless, 0.0, 0.016),
        (Display::Desktop, 0.26, 1.87),
        (Display::Windows, 1.57, 2.98),
    ] {
        let d = parts(display).display;
        assert!((d.low.as_gib() - low).abs() < 0.05, "{display:?} {}", d.low);
        assert!(
            (d.high.as_gib() - high).abs() < 0.05,
            "{display:?} {}",
            d.high
        );
    }
}
