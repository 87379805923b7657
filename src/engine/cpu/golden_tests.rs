//! Small exports of operators that attention networks, detectors and decoders hold, beside what PyTorch made of them.

use super::CpuEngine;
use crate::engine::{Tensor, forward};
use crate::jobs::Control;
use crate::network::{self, facts};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) fn npy(path: &Path) -> Tensor {
    let bytes = std::fs::read(path).unwrap();
    let file = npyz::NpyFile::new(bytes.as_slice()).unwrap();
    Tensor {
        shape: file
            .shape()
            .iter()
            .map(|d| usize::try_from(*d).unwrap())
            .collect(),
        values: file.into_vec().unwrap(),
    }
}

/// The network of a folder, asked for at the size of an input.
fn network_for(folder: &Path, input: &Tensor) -> Result<network::Model, network::NetworkError> {
    let asked = input.shape.split_first().map(|(batch, rest)| {
        let space = rest.get(1..).unwrap_or(&[]).to_vec();
        network::Asked::Tensor(*batch, space)
    });
    let choice = network::Choice {
        asked,
        ..network::Choice::default()
    };
    network::open_choice(folder.join("model.onnx").to_str().unwrap(), &choice)
}

fn folders() -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/onnx");
    let mut out: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    out.retain(|p| p.is_dir());
    out.sort();
    out
}

/// The largest difference, NaN where one value alone is NaN.
fn worst(made: &[f32], expected: &[f32]) -> f32 {
    let far = |a: f32, b: f32| {
        if a.is_nan() && b.is_nan() {
            0.0
        } else {
            (a - b).abs() / (1.0 + b.abs())
        }
    };
    made.iter()
        .zip(expected)
        .map(|(a, b)| far(*a, *b))
        .fold(0.0, |m: f32, x| if x > m || x.is_nan() { x } else { m })
}

/// What is wrong with a folder's network, if anything.
fn wrong(folder: &Path) -> Option<String> {
    let input = npy(&folder.join("input.npy"));
    let model = match network_for(folder, &input) {
        Ok(model) => model,
        Err(e) => return Some(e.to_string()),
    };
    let graph = Arc::new(model.graph.clone());
    let mut engine = CpuEngine::new(1).unwrap();
    let weights = model.weights().unwrap();
    let made = match forward(&mut engine, &graph, weights, &input, 1, &Control::new()) {
        Ok(made) => made,
        Err(e) => return Some(e.to_string()),
    };
    if made.memory.planned != made.memory.allocated
        || made.memory.planned != made.memory.measured_peak
    {
        return Some(format!("{:?}", made.memory));
    }
    for (i, output) in made.outputs.iter().enumerate() {
        let expected = npy(&folder.join(format!("expect_{i}.npy")));
        if output.shape != expected.shape {
            return Some(format!(
                "output {i}: {:?} and not {:?}",
                output.shape, expected.shape
            ));
        }
        let worst = worst(&output.values, &expected.values);
        if worst.is_nan() || worst > 2e-5 {
            return Some(format!("output {i}: {worst:.1e}"));
        }
    }
    None
}

#[test]
#[ignore = "compares every network of the folder VOXFIT_GOLDEN"]
fn every_network_of_a_folder_gives_the_values_beside_it() {
    let Some(root) = std::env::var_os("VOXFIT_GOLDEN").map(PathBuf::from) else {
        println!("skipped: VOXFIT_GOLDEN names no folder");
        return;
    };
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    folders.retain(|p| p.join("input.npy").exists());
    folders.sort();
    let mut bad = 0;
    for folder in &folders {
        if let Some(why) = wrong(folder) {
            bad += 1;
            println!("BAD {}: {why}", folder.display());
        }
    }
    println!("{} networks, {bad} bad", folders.len());
    assert_eq!(bad, 0);
}

#[test]
fn small_exports_give_pytorchs_values_and_the_same_bits_on_any_threads_and_instructions() {
    for folder in folders() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let input = npy(&folder.join("input.npy"));
        let model = network_for(&folder, &input).unwrap();
        let facts = facts::of(&model.graph).unwrap();
        assert!(
            facts.unsupported.is_empty(),
            "{name}: {:?}",
            facts.unsupported
        );
        let graph = Arc::new(model.graph.clone());
        let run = |mut engine: CpuEngine| {
            let weights = model.weights().unwrap();
            forward(&mut engine, &graph, weights, &input, 1, &Control::new()).unwrap()
        };
        let made = run(CpuEngine::new(2).unwrap());
        let memory = made.memory;
        assert_eq!(memory.planned, memory.allocated, "{name}");
        assert_eq!(memory.planned, memory.measured_peak, "{name}");
        for isa in super::Isa::here() {
            let other = CpuEngine::with_isa(1, isa).unwrap();
            assert_eq!(run(other).outputs, made.outputs, "{name}: other bits");
        }
        for (i, output) in made.outputs.iter().enumerate() {
            let expected = npy(&folder.join(format!("expect_{i}.npy")));
            assert_eq!(output.shape, expected.shape, "{name}, output {i}");
            let worst = worst(&output.values, &expected.values);
            println!("{name} output {i}: {worst:.1e}");
            assert!(worst < 2e-5, "{name}, output {i}: {worst}");
        }
    }
}

#[test]
fn position_embeddings_of_an_open_export_take_every_size_of_as_many_patches() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/onnx/tokens-l17dyn");
    let input = npy(&folder.join("input_4x16x8.npy"));
    let model = network_for(&folder, &input).unwrap();
    let graph = Arc::new(model.graph.clone());
    let mut engine = CpuEngine::new(1).unwrap();
    let weights = model.weights().unwrap();
    let made = forward(&mut engine, &graph, weights, &input, 1, &Control::new()).unwrap();
    let expected = npy(&folder.join("expect_4x16x8_0.npy"));
    assert_eq!(made.outputs[0].shape, expected.shape);
    let worst = worst(&made.outputs[0].values, &expected.values);
    assert!(worst < 2e-5, "{worst}");
    let other = Tensor {
        shape: vec![1, 1, 8, 8, 12],
        values: vec![0.0; 768],
    };
    let error = network_for(&folder, &other).unwrap_err().to_string();
    assert!(
        error.contains("Add") && error.contains("--roi-size"),
        "{error}"
    );
}

/// Two well-known runtimes share an error of 1.5e-4 here: they sum in f32.
#[test]
fn an_instance_norm_over_128_cubed_is_as_close_to_f64_as_f32_can_be() {
    use rand::{Rng as _, SeedableRng as _};
    let mut b = network::builder::Builder::new("norm", 3);
    let x = b.input("image", 1);
    let y = b.instance_norm("norm", x, false);
    b.output(y);
    let graph = Arc::new(b.finish());
    let weights = network::Weights::default();
    let mut dice = rand_pcg::Pcg64Mcg::seed_from_u64(5);
    let n = 128 * 128 * 128;
    let values: Vec<f32> = (0..n)
        .map(|_| f32::from(u16::try_from(dice.next_u32() >> 21).unwrap()) - 800.0)
        .collect();
    let truth = network::naive::forward(&graph, &weights, &values, 1, &[128; 3]);
    let input = Tensor {
        shape: vec![1, 1, 128, 128, 128],
        values,
    };
    let mut engine = CpuEngine::new(2).unwrap();
    let made = forward(&mut engine, &graph, &weights, &input, 1, &Control::new()).unwrap();
    let worst = made.outputs[0]
        .values
        .iter()
        .zip(&truth[0])
        .map(|(a, b)| (f64::from(*a) - b).abs())
        .fold(0.0, |m: f64, d| if d > m || d.is_nan() { d } else { m });
    // What sums in f32, one after the other, would give.
    let mean = input.values.iter().sum::<f32>() / n as f32;
    let squares = input
        .values
        .iter()
        .map(|v| (v - mean) * (v - mean))
        .sum::<f32>();
    let factor = 1.0 / (squares / n as f32 + 1e-5).sqrt();
    let plain = input
        .values
        .iter()
        .zip(&truth[0])
        .map(|(v, b)| (f64::from((v - mean) * factor) - b).abs())
        .fold(0.0, |m: f64, d| if d > m || d.is_nan() { d } else { m });
    println!("instance norm at 128 cubed: {worst:.1e} from f64, sums in f32 {plain:.1e}");
    assert!(worst < 3e-7, "{worst:e}");
    assert!(
        plain > 100.0 * worst,
        "sums in f32 are this good: {plain:e}"
    );
}
