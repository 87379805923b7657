//! nnU-Net: a `plans.json` becomes a network, a results folder one with its weights.

mod plans;
mod preparation;
#[cfg(test)]
mod tests;
mod unet;

use super::about::{About, Translation};
use super::error::NetworkError;
use super::graph::Graph;
use super::pickle::{Checkpoint, StateDict};
use super::state::{self, State as _};
use super::tree::{self, Tree};
use super::{Choice, Model};
use plans::DataSet;
use serde_json::Value;
use std::path::{Path, PathBuf};
pub use unet::UNet;

/// What nnU-Net's residual encoder presets were planned for: GB of GPU memory by name. From nnU-Net's documentation
/// (`resenc_presets.md`) and its planners, `nnUNetPlannerResEncM`, `L` and `XL`.
const TARGETS_GB: [(&str, u64); 3] = [
    ("nnunet-resenc-m", 8),
    ("nnunet-resenc-l", 24),
    ("nnunet-resenc-xl", 40),
];

/// The GPU memory in GB that nnU-Net's own planner aims at in training, for its presets by our name.
pub fn published_target_gb(preset: &str) -> Option<u64> {
    TARGETS_GB
        .iter()
        .find(|(name, _)| *name == preset)
        .map(|(_, gb)| *gb)
}

/// Whether a folder is one that nnU-Net's trainer wrote.
pub(super) fn is_results(folder: &Path) -> bool {
    folder.join("plans.json").is_file()
}

/// Opens a `plans.json` or a results folder.
pub(super) fn open(path: &Path, choice: &Choice) -> Result<Model, NetworkError> {
    let folder = path.is_dir();
    let file = if folder {
        path.join("plans.json")
    } else {
        path.to_path_buf()
    };
    let plans = tree::read_json("plans", &file)?;
    let refuse = |reason: String| NetworkError::Config {
        what: "plans",
        reason,
        path: file.clone(),
    };
    let beside = file.with_file_name("dataset.json");
    let data = if beside.is_file() {
        let json = tree::read_json("data set", &beside)?;
        Some(DataSet::read(&json).map_err(|reason| NetworkError::Config {
            what: "data set",
            reason,
            path: beside,
        })?)
    } else {
        None
    };
    let folds = if folder { folds(path)? } else { Vec::new() };
    let fold = pick(&folds, choice.fold.as_deref(), path)?;
    let saved = fold.map(|f| Checkpoint::open(&f.file)).transpose()?;
    let configurations = plans::names(&plans).map_err(refuse)?;
    let trained = saved
        .as_ref()
        .and_then(|c| c.text(&["init_args", "configuration"]).map(str::to_owned));
    let name = choose(&configurations, choice, trained, path).map_err(refuse)?;
    let mut built = build(&plans, &name, data, saved, path).map_err(|e| match e {
        Failed::Plans(reason) => refuse(reason),
        Failed::File(error) => error,
    })?;
    let about = &mut built.about;
    if let Some(fold) = fold {
        said_of_folds(about, fold, &folds);
    } else if folder {
        about.notes.push("the folder has no fold_*/checkpoint_final.pth or checkpoint_best.pth: the network can be planned, not run".to_owned());
    }
    about.configurations = configurations;
    about.chosen = Some(name);
    Ok(built)
}

/// A plan that makes no network, or a file that cannot be read.
enum Failed {
    Plans(String),
    File(NetworkError),
}

fn build(
    plans: &Value,
    name: &str,
    data: Option<DataSet>,
    saved: Option<Checkpoint>,
    path: &Path,
) -> Result<Model, Failed> {
    let configuration = plans::configuration(plans, name).map_err(Failed::Plans)?;
    let mut notes = Vec::new();
    let mut state = None;
    let mut mirroring = None;
    if let Some(saved) = saved {
        mirroring = saved.numbers(&["inference_allowed_mirroring_axes"]);
        state = Some(saved.state().map_err(Failed::File)?);
    }
    let mut data = data.unwrap_or_else(|| {
        notes.push(
            "no dataset.json lies beside the plans: channels are counted from the plans".to_owned(),
        );
        DataSet::default()
    });
    ends(plans, &configuration, &mut data, state.as_ref(), &mut notes).map_err(Failed::Plans)?;
    let cascade = Tree::root(&configuration).key("previous_stage").is_some();
    let mut in_channels = data.channels.unwrap_or(1);
    if cascade {
        in_channels += data.foreground;
        notes.push(format!("it is the second stage of a cascade: beside the image it reads the first stage's labels, {} channels more; it can be planned, not run", data.foreground));
    }
    let net = plans::network(&configuration, in_channels, data.heads.unwrap_or(2))
        .map_err(Failed::Plans)?;
    let graph = net.graph(&network_name(plans, name, path));
    let Translation {
        manifest,
        notes: more,
    } = preparation::manifest(plans, &configuration, &data).map_err(Failed::Plans)?;
    manifest.check().map_err(Failed::Plans)?;
    notes.push(said_of_mirroring(mirroring, graph.spatial_dims));
    let weights = state
        .map(|s| weights(&graph, s, path))
        .transpose()
        .map_err(Failed::File)?;
    let mut about = About::translated("nnU-Net plans");
    about.notes = notes;
    about.guesses = more;
    Ok(Model {
        graph,
        manifest,
        weights,
        about,
    })
}

fn network_name(plans: &Value, configuration: &str, path: &Path) -> String {
    let set = Tree::root(plans)
        .key("dataset_name")
        .and_then(|d| d.text().ok().map(str::to_owned));
    let set = set.unwrap_or_else(|| {
        path.file_stem()
            .map_or_else(String::new, |s| s.to_string_lossy().into_owned())
    });
    format!("{set}-{configuration}")
}

/// Fills in what `dataset.json` would have said: from the plans, then from the weights.
fn ends(
    plans: &Value,
    configuration: &Value,
    data: &mut DataSet,
    state: Option<&StateDict>,
    notes: &mut Vec<String>,
) -> Result<(), String> {
    if data.channels.is_none() {
        let schemes = Tree::root(configuration).key("normalization_schemes");
        let properties = Tree::root(plans).key("foreground_intensity_properties_per_channel");
        data.channels = match (schemes, properties) {
            (Some(s), _) => Some(s.list()?.len().max(1)),
            (None, Some(p)) => Some(p.entries()?.len().max(1)),
            (None, None) => None,
        };
    }
    if data.heads.is_none() {
        let last = state.and_then(|s| {
            s.names()
                .into_iter()
                .filter(|n| n.contains("decoder.seg_layers.") && n.ends_with(".weight"))
                .find_map(|n| s.shape(n)?.first().copied())
        });
        data.heads = last;
        if last.is_none() {
            notes.push("neither dataset.json nor weights say how many classes there are: two are taken (background and one more), which changes the last layers alone".to_owned());
        }
    }
    Ok(())
}

fn said_of_mirroring(axes: Option<Vec<i64>>, dims: usize) -> String {
    let axes = axes.unwrap_or_else(|| (0..i64::try_from(dims).unwrap_or(3)).collect());
    let times = 1usize << axes.len().min(8);
    format!(
        "nnU-Net averages {times} mirrored passes over the tensor's axes {axes:?}; here each window runs once, as nnU-Net does with --disable_tta"
    )
}

fn weights(
    graph: &Graph,
    mut state: StateDict,
    path: &Path,
) -> Result<super::Weights, NetworkError> {
    state::weights(graph, &mut state, second_name).map_err(|reason| NetworkError::Weights {
        network: graph.name.clone(),
        reason,
        path: Some(path.to_path_buf()),
    })
}

/// nnU-Net's modules are listed twice: in `all_modules`, and the encoder inside the decoder.
pub(super) fn second_name(name: &str) -> bool {
    name.contains(".all_modules.") || name.starts_with("decoder.encoder.")
}

/// A trained fold.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fold {
    name: String,
    file: PathBuf,
}

/// The folds of a results folder that hold weights: numbers first, in their order, then `all`.
fn folds(folder: &Path) -> Result<Vec<Fold>, NetworkError> {
    let unreadable = |source| NetworkError::Read {
        what: "results folder",
        source,
        path: folder.to_path_buf(),
    };
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(fold) = name.strip_prefix("fold_") else {
            continue;
        };
        let file = ["checkpoint_final.pth", "checkpoint_best.pth"]
            .iter()
            .map(|f| entry.path().join(f))
            .find(|f| f.is_file());
        if let Some(file) = file {
            let name = fold.to_owned();
            out.push(Fold { name, file });
        }
    }
    out.sort_by_key(|f| (f.name.parse::<u32>().unwrap_or(u32::MAX), f.name.clone()));
    Ok(out)
}

fn pick<'a>(
    folds: &'a [Fold],
    wanted: Option<&str>,
    path: &Path,
) -> Result<Option<&'a Fold>, NetworkError> {
    let Some(wanted) = wanted else {
        return Ok(folds.first());
    };
    let own = wanted.trim_start_matches("fold_");
    folds
        .iter()
        .find(|f| f.name == own)
        .map(Some)
        .ok_or_else(|| {
            let has: Vec<&str> = folds.iter().map(|f| f.name.as_str()).collect();
            NetworkError::Config {
                what: "results folder",
                reason: if has.is_empty() {
                    format!("there is no fold \"{own}\" with weights, and no other")
                } else {
                    format!(
                        "there is no fold \"{own}\" with weights, only {}",
                        has.join(", ")
                    )
                },
                path: path.to_path_buf(),
            }
        })
}

fn said_of_folds(about: &mut About, fold: &Fold, folds: &[Fold]) {
    let file = fold.file.file_name().unwrap_or_default().to_string_lossy();
    about
        .notes
        .push(format!("weights: fold {}, {file}", fold.name));
    let others: Vec<&str> = folds
        .iter()
        .filter(|f| *f != fold)
        .map(|f| f.name.as_str())
        .collect();
    if !others.is_empty() {
        about.notes.push(format!(
            "nnU-Net averages all folds; this runs one, fold {}: choose another with --fold ({})",
            fold.name,
            others.join(", ")
        ));
    }
}

/// The configuration asked for; else the one that was trained, the one in the folder's name, `3d_fullres`, the only one.
fn choose(
    has: &[String],
    choice: &Choice,
    trained: Option<String>,
    path: &Path,
) -> Result<String, String> {
    let listed = || has.join(", ");
    if let Some(wanted) = &choice.configuration {
        if let Some(trained) = trained.filter(|t| t != wanted) {
            return Err(format!(
                "the weights in the folder were trained as \"{trained}\", \"{wanted}\" was asked for; open the plans.json alone to plan that"
            ));
        }
        return Ok(wanted.clone());
    }
    let named = path.file_name().map(|n| n.to_string_lossy().into_owned());
    let named = named.and_then(|n| n.split("__").nth(2).map(str::to_owned));
    let usual = Some("3d_fullres".to_owned());
    [trained, named, usual]
        .into_iter()
        .flatten()
        .find(|n| has.contains(n))
        .or_else(|| (has.len() == 1).then(|| has.first().cloned()).flatten())
        .ok_or_else(|| {
            format!(
                "it has the configurations {}; choose one with --configuration",
                listed()
            )
        })
}
