//! Networks of other makers: the CPU engine gives what PyTorch gave, for every reference case whose operations it has.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails on what it cannot read and says what it skipped"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use voxfit::engine::cpu::CpuEngine;
use voxfit::engine::{Tensor, forward};
use voxfit::jobs::Control;
use voxfit::memory::{Precision, schedule};
use voxfit::network::{self, facts};

fn shared() -> Option<PathBuf> {
    let root = std::env::var_os("VOXFIT_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let found = root
        .join("data/networks")
        .is_dir()
        .then(|| root.join("data/networks"));
    if found.is_none() {
        println!("skipped: no reference networks at {}", root.display());
    }
    found
}

fn read(path: &Path) -> Tensor {
    let bytes = std::fs::read(path).unwrap();
    let npy = npyz::NpyFile::new(&bytes[..]).unwrap();
    let shape = npy
        .shape()
        .iter()
        .map(|&d| usize::try_from(d).unwrap())
        .collect();
    Tensor {
        shape,
        values: npy.into_vec().unwrap(),
    }
}

#[test]
fn every_reference_network_that_can_run_gives_what_pytorch_gave() {
    let Some(root) = shared() else { return };
    let mut cases: Vec<PathBuf> = std::fs::read_dir(&root)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    cases.sort();
    let (mut ran, mut engine) = (0, CpuEngine::new(2).unwrap());
    for case in cases {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let model = case.join("model.onnx");
        if !model.exists() || !case.join("output_0.npy").exists() {
            continue;
        }
        let opened = network::open(&model.to_string_lossy(), None, None).unwrap();
        let unsupported = facts::of(&opened.graph).unwrap().unsupported;
        if let Some(first) = unsupported.first() {
            println!(
                "{name}: not run ({} {}: {})",
                first.op, first.node, first.reason
            );
            continue;
        }
        let input = read(&case.join("input.npy"));
        let graph = Arc::new(opened.graph.clone());
        let weights = opened.weights().unwrap();
        let done = forward(&mut engine, &graph, weights, &input, 1, &Control::new()).unwrap();
        assert_eq!(done.memory.planned, done.memory.allocated, "{name}");
        assert_eq!(done.memory.planned, done.memory.measured_peak, "{name}");
        for (i, found) in done.outputs.iter().enumerate() {
            let truth = read(&case.join(format!("output_{i}.npy")));
            assert_eq!(found.shape, truth.shape, "{name} output {i}");
            let worst = found
                .values
                .iter()
                .zip(&truth.values)
                .map(|(f, t)| (f - t).abs() / (1.0 + t.abs()))
                .fold(0.0, |m: f32, d| if d > m || d.is_nan() { d } else { m });
            println!("{name} output {i}: worst difference {worst:.2e}");
            assert!(worst <= 2e-4, "{name} output {i}: {worst}");
        }
        ran += 1;
    }
    assert!(ran >= 8, "only {ran} reference networks ran");
}

#[test]
fn planned_is_allocated_is_used_to_the_byte_for_eight_networks_at_twelve_shapes() {
    let names = [
        "demo",
        "demo-norm",
        "nnunet-3d-6stage",
        "nnunet_resenc_32_320",
        "monai_basicunet_default",
        "monai_unet_16_256_res2",
        "monai_segresnet_16",
        "monai_dynunet_32_320",
    ];
    let control = Control::new();
    control.cancel();
    let mut engine = CpuEngine::new(1).unwrap();
    for name in names {
        let model = network::open(&format!("preset:{name}"), None, Some("seeded:1")).unwrap();
        let (graph, weights) = (Arc::new(model.graph.clone()), model.weights().unwrap());
        for shape in [
            [32, 32, 32],
            [64, 32, 32],
            [32, 64, 32],
            [32, 32, 64],
            [64, 64, 32],
            [64, 64, 64],
            [96, 32, 32],
            [32, 96, 64],
            [96, 96, 32],
            [32, 128, 32],
            [96, 64, 64],
            [128, 32, 64],
        ] {
            for precision in [Precision::Fp16, Precision::Bf16] {
                assert!(
                    schedule::plan(&graph, &shape, 1, precision)
                        .unwrap()
                        .arena
                        .0
                        > 0
                );
            }
            let planned = schedule::plan(&graph, &shape, 1, Precision::Fp32).unwrap();
            let plan = voxfit::engine::EnginePlan {
                graph: Arc::clone(&graph),
                schedule: Arc::new(planned),
                n_windows: 1,
            };
            voxfit::engine::Engine::prepare(&mut engine, &plan, weights).unwrap();
            let memory = voxfit::engine::Engine::memory(&engine);
            assert_eq!(memory.planned, memory.allocated, "{name} {shape:?}");
            assert_eq!(
                memory.planned, plan.schedule.lower_bound,
                "{name} {shape:?}"
            );
        }
    }
}
