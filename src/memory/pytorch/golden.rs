//! The model against measured rows of real networks: to the byte where known, never below, within one part in 10,000.

use super::{EagerOptions, Frames, TrainingOptions, simulate, simulate_training};
use crate::memory::Precision;
use crate::memory::budget::Optimizer;
use crate::network::{preset, shapes};
use std::path::PathBuf;

#[test]
fn live_peaks_are_those_of_real_networks_and_never_below() {
    let root = std::env::var_os("VOXFIT_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let path = root.join("data/memory/pytorch_live_bytes.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: {} is not there", path.display());
        return;
    };
    let rows: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (mut seen, mut exact) = (0, 0);
    for row in rows["rows"].as_array().unwrap() {
        let Ok(model) = preset::load(row["net"].as_str().unwrap()) else {
            continue;
        };
        if model.graph.nodes.iter().any(|n| n.op.kind() == "Other") {
            continue;
        }
        let number = |v: &serde_json::Value| usize::try_from(v.as_u64().unwrap()).unwrap();
        let patch: Vec<usize> = row["patch"]
            .as_array()
            .unwrap()
            .iter()
            .map(number)
            .collect();
        let shapes = shapes::infer(&model.graph, &patch, number(&row["batch"])).unwrap();
        let precision = match row["precision"].as_str().unwrap() {
            "fp32" => Precision::Fp32,
            "amp_fp16" => Precision::Amp,
            _ => Precision::Fp16,
        };
        let frames = Frames::new(&model.graph);
        let trace = if row["mode"] == "infer" {
            simulate(&model.graph, &shapes, &frames, EagerOptions { precision })
        } else {
            let options = TrainingOptions {
                precision,
                optimizer: Optimizer::Adam,
                checkpointing: false,
            };
            simulate_training(&model.graph, &shapes, &frames, options)
        };
        let (got, want) = (trace.live().peak, row["peak_total_bytes"].as_u64().unwrap());
        let name = format!(
            "{} {patch:?} {} {}",
            row["net"], row["mode"], row["precision"]
        );
        assert!(got >= want, "{name}: {got} is below {want}");
        assert!(got - want <= want / 10_000, "{name}: {got} for {want}");
        seen += 1;
        exact += usize::from(got == want);
    }
    assert!(
        seen >= 30 && exact >= seen - 2,
        "{exact} of {seen} to the byte"
    );
}
