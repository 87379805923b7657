//! `voxfit bench layers`: what each step of a pass takes, and which share of the measured peak it reaches.

use crate::cli::args::ModelArgs;
use crate::cli::failure::{DATA, Failure};
use crate::cli::output::{self, Align};
use crate::cli::progress;
use crate::engine::cpu::{CpuEngine, LayerTime};
use crate::engine::{self, Tensor};
use crate::geometry::Extent;
use crate::network;
use serde_json::json;
use std::sync::Arc;

/// Runs the network `repeat` times after one uncounted pass, on a made input, and prints a row for each step.
pub(super) fn run(
    (model, files): (&str, &ModelArgs),
    roi: Extent,
    threads: usize,
    repeat: usize,
    json: bool,
) -> Result<u8, Failure> {
    let (layers, peak, threads) = progress::with("bench", |control| {
        let model = network::open_choice(model, &files.choice())?;
        let weights = model.weights()?;
        let graph = Arc::new(model.graph.clone());
        let input = made(&graph, roi)?;
        let mut engine = CpuEngine::new(threads)?;
        engine::forward(&mut engine, &graph, weights, &input, 1, control)?;
        // Preparing again sets the times to zero.
        let mut best: Vec<LayerTime> = Vec::new();
        for _ in 0..repeat {
            engine::forward(&mut engine, &graph, weights, &input, 1, control)?;
            let these = engine.layers();
            if total(&best).is_none_or(|b| total(&these).is_some_and(|t| t < b)) {
                best = these;
            }
        }
        Ok::<_, Failure>((best, engine.peak(), engine.threads()))
    })?;
    if json {
        print_json(&layers, peak, threads, repeat);
    } else {
        print(&layers, peak, threads);
    }
    Ok(0)
}

/// Seconds of all steps; `None` of none.
fn total(layers: &[LayerTime]) -> Option<f64> {
    (!layers.is_empty()).then(|| layers.iter().map(|l| l.seconds).sum())
}

/// An input of the window's size, its values the same at every run.
fn made(graph: &network::Graph, roi: Extent) -> Result<Tensor, Failure> {
    let channels = graph.inputs.iter().find_map(|id| match graph.tensor(*id) {
        Some(network::Tensor {
            kind: network::TensorKind::Input { channels },
            ..
        }) => Some(*channels),
        _ => None,
    });
    let channels = channels
        .ok_or_else(|| Failure::new(DATA, format!("the network {} has no input", graph.name)))?;
    let all = roi.to_array();
    let mut shape = vec![1, channels];
    shape.extend(&all[..graph.spatial_dims.min(3)]);
    let n: usize = shape.iter().product();
    let values = (0..n).map(|i| (i * 7919 % 2003) as f32 / 1001.0 - 1.0);
    Ok(Tensor {
        values: values.collect(),
        shape,
    })
}

/// Work, memory traffic, time and share of the peak of a step.
struct Figures {
    gflop: f64,
    mib: f64,
    ms: f64,
    gflops: f64,
    share: f64,
}

fn figures(flops: u64, bytes: u64, seconds: f64, peak: f64) -> Figures {
    let per_second = if seconds > 0.0 {
        flops as f64 / seconds
    } else {
        0.0
    };
    Figures {
        gflop: flops as f64 / 1e9,
        mib: bytes as f64 / f64::from(1 << 20),
        ms: seconds * 1e3,
        gflops: per_second / 1e9,
        share: per_second / peak,
    }
}

fn rows(layers: &[LayerTime], peak: f64) -> Vec<(String, String, Figures)> {
    let mut rows: Vec<_> = layers
        .iter()
        .map(|l| {
            let figures = figures(l.flops, l.bytes.0, l.seconds, peak);
            (l.name.clone(), l.operators.join(" "), figures)
        })
        .collect();
    let flops = layers.iter().map(|l| l.flops).sum();
    let bytes = layers.iter().map(|l| l.bytes.0).sum();
    let all = figures(flops, bytes, total(layers).unwrap_or_default(), peak);
    rows.push(("all".to_owned(), String::new(), all));
    rows
}

fn print(layers: &[LayerTime], peak: f64, threads: usize) {
    let heads = [
        ("step", Align::Left),
        ("operators", Align::Left),
        ("GFLOP", Align::Right),
        ("MiB", Align::Right),
        ("ms", Align::Right),
        ("GFLOP/s", Align::Right),
        ("of peak", Align::Right),
    ];
    let cells: Vec<_> = rows(layers, peak)
        .into_iter()
        .map(|(name, operators, f)| {
            vec![
                name,
                operators,
                format!("{:.2}", f.gflop),
                format!("{:.1}", f.mib),
                format!("{:.2}", f.ms),
                format!("{:.0}", f.gflops),
                format!("{:.0} %", f.share * 100.0),
            ]
        })
        .collect();
    output::table(&heads, &cells);
    output::say(&format!(
        "peak of fused multiply-adds on {threads} threads, measured now: {:.0} GFLOP/s; bytes are what a step reads and writes in the arena, each once",
        peak / 1e9
    ));
}

fn print_json(layers: &[LayerTime], peak: f64, threads: usize, repeat: usize) {
    let rows: Vec<_> = rows(layers, peak)
        .into_iter()
        .map(|(name, operators, f)| {
            json!({ "step": name, "operators": operators, "gflop": f.gflop, "mib": f.mib,
                "ms": f.ms, "gflop_per_second": f.gflops, "share_of_peak": f.share })
        })
        .collect();
    output::print_json(&json!({ "repeat": repeat, "threads": threads,
        "peak_gflop_per_second": peak / 1e9, "rows": rows }));
}
