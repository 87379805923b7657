//! `voxfit forward`: one forward pass on a tensor, for people who live in numpy.

use super::args::ForwardArgs;
use super::failure::{DATA, Failure, USAGE, WRITE};
use super::{output, progress};
use crate::app::tensor::{self, TensorError};
use crate::engine::cpu::CpuEngine;
use crate::engine::{self, Engine, Forward};
use crate::network::{self, Asked, Choice};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl From<TensorError> for Failure {
    fn from(e: TensorError) -> Self {
        let code = match &e {
            TensorError::Write(_) => WRITE,
            _ => DATA,
        };
        Self::new(code, e.to_string())
    }
}

pub(super) fn run(args: &ForwardArgs, json: bool) -> Result<u8, Failure> {
    if args.precision != "fp32" {
        return Err(Failure::new(
            USAGE,
            format!(
                "the CPU engine runs fp32, found {}; leave --precision out",
                args.precision
            ),
        ));
    }
    if args.repeat == 0 {
        return Err(Failure::new(USAGE, "--repeat is 1 or more, found 0"));
    }
    let input = tensor::read(&args.input);
    let asked = input.as_ref().ok().and_then(|t| match t.shape.as_slice() {
        [batch, _, space @ ..] => Some(Asked::Tensor(*batch, space.to_vec())),
        _ => None,
    });
    let choice = Choice {
        asked,
        ..args.files.choice()
    };
    let model = network::open_choice(&args.model, &choice)?;
    check_paths(args, model.graph.outputs.len())?;
    let input = input?;
    for note in &model.about.notes {
        output::warn(note);
    }
    make_folder(&args.out)?;
    let names: Vec<String> = model
        .graph
        .outputs
        .iter()
        .filter_map(|id| model.graph.tensor(*id))
        .map(|t| t.name.clone())
        .collect();
    let done: Forward = progress::with("forward", |control| {
        let mut engine = pick(&args.engine, args.threads)?;
        let weights = model.weights()?;
        let graph = Arc::new(model.graph.clone());
        control.set_total(1);
        let done = engine::forward_within(
            engine.as_mut(),
            (&graph, weights),
            &input,
            args.repeat,
            args.memory_limit,
            control,
        )?;
        Ok::<_, Failure>(done)
    })?;
    let mut outputs = Vec::new();
    for (i, t) in done.outputs.iter().enumerate() {
        let file = output_file(&args.out, i);
        tensor::write(&file, t)?;
        outputs.push(json!({ "name": names.get(i), "shape": t.shape, "file": file }));
    }
    if json {
        output::print_json(&json!({
            "outputs": outputs,
            "memory": {
                "planned": done.memory.planned,
                "allocated": done.memory.allocated,
                "measured_peak": done.memory.measured_peak,
            },
            "seconds": done.seconds,
        }));
    } else {
        for o in &outputs {
            let name = o["name"].as_str().unwrap_or_default();
            output::say(&format!(
                "{name}  {}  {}",
                o["shape"],
                o["file"].as_str().unwrap_or_default()
            ));
        }
        output::say(&format!(
            "{:.3} s, {} planned = {} allocated",
            done.seconds, done.memory.planned, done.memory.allocated
        ));
    }
    Ok(0)
}

fn output_file(folder: &Path, i: usize) -> PathBuf {
    folder.join(format!("output_{i}.npy"))
}

/// Refuses outputs that would overwrite what the pass reads.
fn check_paths(args: &ForwardArgs, n_outputs: usize) -> Result<(), Failure> {
    let files: Vec<PathBuf> = (0..n_outputs).map(|i| output_file(&args.out, i)).collect();
    let mut outputs = vec![("--out", args.out.as_path())];
    outputs.extend(files.iter().map(|f| ("--out", f.as_path())));
    let read = [
        ("the input", Some(args.input.as_path())),
        ("the network", Some(Path::new(&args.model))),
        ("the manifest", args.files.manifest.as_deref()),
        ("the weights", args.files.weights.as_deref().map(Path::new)),
    ];
    let inputs: Vec<_> = read
        .into_iter()
        .filter_map(|(w, p)| Some((w, p?)))
        .collect();
    super::paths::distinct(&outputs, &inputs)?;
    super::paths::not_among_slices("--out", &args.out)?;
    for file in &files {
        super::paths::spares_others("--out", file, &[".npy"])?;
    }
    Ok(())
}

/// The engine of this name. `auto` takes CUDA only where it can run a network.
pub(super) fn pick(name: &str, threads: usize) -> Result<Box<dyn Engine>, Failure> {
    if name == "cuda" {
        let reason = engine::probe()
            .into_iter()
            .find(|e| e.id.starts_with("cuda"))
            .and_then(|e| e.reason)
            .unwrap_or_else(|| "this version probes CUDA and does not run on it yet".to_owned());
        return Err(Failure::new(
            USAGE,
            format!("the CUDA engine cannot run here: {reason}; use --engine cpu"),
        ));
    }
    Ok(Box::new(CpuEngine::new(threads)?))
}

/// Makes the folder that outputs go into.
pub(super) fn make_folder(path: &Path) -> Result<(), Failure> {
    crate::app::files::make_folder(path).map_err(|e| {
        Failure::new(
            WRITE,
            format!(
                "the folder cannot be made ({e}); check the path and the permissions: {}",
                path.display()
            ),
        )
    })
}
