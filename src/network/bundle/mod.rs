//! MONAI bundles: a folder's configuration becomes a network with its manifest, its checkpoint the weights.

mod config;
mod expression;
mod reasons;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_silent;
mod transforms;
mod values;
mod windows;
mod yaml;

use super::about::{About, ManifestSource};
use super::error::NetworkError;
use super::graph::Graph;
use super::monai;
use super::pickle::Checkpoint;
use super::state;
use super::tree::Tree;
use super::weights::Weights;
use super::{Model, onnx};
use config::Config;
use serde_json::Value;
use std::path::{Path, PathBuf};
use transforms::Around;

/// Configurations that say how the network is used, the most telling first.
const CONFIGS: [&str; 6] = [
    "inference.json",
    "inference.yaml",
    "inference.yml",
    "train.json",
    "train.yaml",
    "train.yml",
];

/// Whether a folder is a bundle.
pub(super) fn is_bundle(folder: &Path) -> bool {
    let configs = folder.join("configs");
    CONFIGS
        .iter()
        .chain(&["metadata.json"])
        .any(|f| configs.join(f).is_file())
}

/// Opens a bundle.
pub(super) fn open(folder: &Path) -> Result<Model, NetworkError> {
    let configs = folder.join("configs");
    let files: Vec<Config> = CONFIGS
        .iter()
        .map(|f| configs.join(f))
        .filter(|f| f.is_file())
        .map(|f| Config::open(folder, &f))
        .collect::<Result<_, _>>()?;
    let Some(main) = files.first() else {
        return Err(NetworkError::Config {
            what: "bundle",
            reason: format!("it has none of configs/{}", CONFIGS.join(", configs/")),
            path: folder.to_path_buf(),
        });
    };
    let metadata = configs.join("metadata.json");
    let metadata = metadata
        .is_file()
        .then(|| config::load(&metadata))
        .transpose()?;
    let mut around = around(main, metadata)?;
    let (source, definition) = definition(&files)?;
    let mut notes = Vec::new();
    let name = folder_name(folder);
    let window = window(&around);
    let version = version(around.metadata.as_ref());
    let made = match &definition {
        Some(network) => {
            let class = Tree::root(network).need("_target_").and_then(|c| c.text());
            class.and_then(|class| {
                let tree = Tree::new(network, "network_def");
                monai::build(&name, class, &tree, window, version)
            })
        }
        None => Err("it has no network_def or network with a _target_".to_owned()),
    };
    around.network = definition;
    let merges = |g: &Graph| g.find("swinViT.layers1.0.downsample.cat").is_some();
    if monai::is_before_1_5(version) && made.as_ref().is_ok_and(merges) {
        notes.push("metadata.json names a MONAI before 1.5: tokens of the SwinUNETR are merged in the order of that time".to_owned());
    }
    let (graph, weights) = fill(folder, made, &mut notes, source)?;
    around.outputs = graph.outputs.len();
    let (translation, understood) =
        transforms::translate(&around).map_err(|reason| main.refuse(reason))?;
    let mut about = About::translated("MONAI bundle");
    if !understood {
        about.manifest = ManifestSource::Proposed;
    }
    about.notes = notes;
    about.guesses = translation.notes;
    about.reasons = reasons::of(&around, &translation.manifest, understood);
    Ok(Model {
        graph,
        manifest: translation.manifest,
        weights,
        about,
    })
}

fn folder_name(folder: &Path) -> String {
    let absolute = folder.canonicalize();
    let folder = absolute.as_deref().unwrap_or(folder);
    folder
        .file_name()
        .map_or_else(|| "bundle".to_owned(), |n| n.to_string_lossy().into_owned())
}

/// The first of these ids that the configuration defines and that is known.
fn first(config: &Config, ids: &[&str]) -> Result<Option<Value>, NetworkError> {
    for id in ids {
        if let Some(value) = config.get(id)?
            && !values::is_unknown(&value)
        {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// A list of steps: the transforms of a Compose, or a list.
fn steps(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(list)) => list,
        Some(Value::Object(mut map)) => match map.get_mut("transforms").map(Value::take) {
            Some(Value::Array(list)) => list,
            Some(other) => vec![other],
            None => vec![Value::Object(map)],
        },
        _ => Vec::new(),
    }
}

fn around(main: &Config, metadata: Option<Value>) -> Result<Around, NetworkError> {
    let preprocessing = first(
        main,
        &[
            "preprocessing",
            "preprocessing_transforms",
            "validate#preprocessing",
            "val_transforms",
            "transforms",
        ],
    )?;
    Ok(Around {
        transforms: steps(preprocessing),
        inferer: first(main, &["inferer", "validate#inferer", "val_inferer"])?,
        detector: first(main, &["detector"])?.filter(|d| {
            let class = d
                .get("_target_")
                .and_then(Value::as_str)
                .unwrap_or_default();
            class.ends_with("RetinaNetDetector")
        }),
        detector_calls: steps(first(main, &["detector_ops", "initialize"])?),
        after: steps(first(main, &["postprocessing", "validate#postprocessing"])?),
        metadata,
        network: None,
        outputs: 0,
    })
}

/// The network's definition and the file that holds it.
fn definition(files: &[Config]) -> Result<(&Config, Option<Value>), NetworkError> {
    for config in files {
        let found = first(config, &["network_def", "network", "net", "model"])?;
        if let Some(found) = found.filter(|f| f.get("_target_").is_some_and(Value::is_string)) {
            return Ok((config, Some(found)));
        }
    }
    match files.first() {
        Some(config) => Ok((config, None)),
        None => Err(NetworkError::Config {
            what: "bundle",
            reason: "it has no configuration".to_owned(),
            path: PathBuf::new(),
        }),
    }
}

/// The window that the inferer uses, for networks whose shapes depend on it.
fn window(around: &Around) -> Option<[usize; 3]> {
    let inferer = around.inferer.as_ref()?;
    let given = Tree::root(inferer).argument("roi_size", 0)?;
    let sizes = given.sizes_of(3).ok()?;
    let [x, y, z] = sizes.as_slice() else {
        return None;
    };
    Some([*x, *y, *z]).filter(|s| s.iter().all(|n| *n > 0))
}

/// Major and minor version of MONAI that the metadata names.
fn version(metadata: Option<&Value>) -> Option<(u32, u32)> {
    let mut parts = metadata?.get("monai_version")?.as_str()?.split('.');
    let mut next = || parts.next()?.trim().parse().ok();
    Some((next()?, next()?))
}

/// What to do about weights that are only in a program; ends a note.
pub(super) const SCRIPT: &str = "; the TorchScript file in it is a program: export it to ONNX with torch.onnx.export, or save its state_dict()";

/// The network from its definition with weights from a checkpoint; else the ONNX file that lies in the bundle.
fn fill(
    folder: &Path,
    made: Result<Graph, String>,
    notes: &mut Vec<String>,
    source: &Config,
) -> Result<(Graph, Option<Weights>), NetworkError> {
    let exported = found(folder, &["onnx"]);
    let stored = found(folder, &["safetensors", "pt", "pth"]);
    if let Some(file) = exported.filter(|_| made.is_err() || stored.is_none()) {
        let why = match &made {
            Err(reason) => reason.clone(),
            Ok(_) => "no other file of the bundle holds weights that can be read".to_owned(),
        };
        notes.push(format!(
            "the network is the ONNX file {} ({why})",
            named(&file)
        ));
        let (graph, weights) = onnx::open(&file)?;
        return Ok((graph, Some(weights)));
    }
    let graph = made.map_err(|reason| source.refuse(reason))?;
    let Some(file) = stored else {
        let script = found(folder, &["ts"]).map_or("", |_| SCRIPT);
        notes.push(format!("the bundle has no weights that can be read (models/model.pt, .pth, .safetensors or .onnx): it can be planned, not run{script}"));
        return Ok((graph, None));
    };
    notes.push(format!("weights: {}", named(&file)));
    let weights = read_weights(&graph, &file)?;
    Ok((graph, Some(weights)))
}

fn named(file: &Path) -> String {
    file.file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

/// A file of the bundle's `models` with one of these endings: `model` first, then the first by name.
fn found(folder: &Path, endings: &[&str]) -> Option<PathBuf> {
    let models = folder.join("models");
    let usual = endings
        .iter()
        .map(|e| models.join(format!("model.{e}")))
        .find(|f| f.is_file());
    if usual.is_some() {
        return usual;
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(&models)
        .ok()?
        .take(10_000)
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|f| {
            let ending = f.extension().and_then(|e| e.to_str()).unwrap_or_default();
            endings.contains(&ending) && f.is_file()
        })
        .collect();
    files.sort();
    files.into_iter().next()
}

fn read_weights(graph: &Graph, file: &Path) -> Result<Weights, NetworkError> {
    if file.extension().is_some_and(|e| e == "safetensors") {
        let bytes = super::read_file("weights", file, super::MOST_BYTES)?;
        return Weights::from_safetensors(graph, &bytes, Some(file));
    }
    let mut state = Checkpoint::open(file)?.state()?;
    state::weights(graph, &mut state, monai::second_name).map_err(|reason| NetworkError::Weights {
        network: graph.name.clone(),
        reason,
        path: Some(file.to_path_buf()),
    })
}
