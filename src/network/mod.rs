//! A network as data: graph, shape inference, parameters, reach, total stride, FLOPs; presets, weights and the manifest.
#![warn(clippy::indexing_slicing)]

pub mod about;
pub(crate) mod axes;
pub mod builder;
mod bundle;
mod compact;
pub mod error;
pub mod facts;
pub mod fold_norms;
#[cfg(test)]
mod fuzz;
pub mod graph;
pub mod layers;
pub mod layout;
pub mod manifest;
mod monai;
#[cfg(test)]
pub(crate) mod naive;
#[cfg(test)]
mod naive_tensor;
pub mod nnunet;
mod norms;
mod onnx;
mod pickle;
pub mod preset;
mod proposal;
#[cfg(test)]
pub(crate) mod random;
mod reach;
#[cfg(test)]
mod reach_tests;
pub mod shapes;
pub mod size;
mod size_refusals;
mod state;
mod stride;
pub mod tensor_op;
pub(crate) mod tensor_shapes;
mod tree;
pub mod weights;
pub(crate) mod windows;

pub use about::{About, Field, ManifestSource, Origin, Reason};
pub use error::NetworkError;
pub use facts::Facts;
pub use graph::{Act, Graph, Node, Op, PadMode, Tensor, TensorId, TensorKind};
pub use manifest::Manifest;
pub use reach::Reach;
pub use weights::Weights;

use manifest::Axes;
use std::path::{Path, PathBuf};

/// Largest weights read, 8 GiB.
const MOST_BYTES: u64 = 8 << 30;
/// Largest manifest read, 16 MiB.
const MOST_TEXT: u64 = 16 << 20;

/// A network ready to be planned, and to be run when it has weights.
#[derive(Clone, Debug)]
pub struct Model {
    /// What it computes.
    pub graph: Graph,
    /// How a volume becomes its input and its outputs become findings.
    pub manifest: Manifest,
    /// Its values; none for a preset that is only planned.
    pub weights: Option<Weights>,
    /// Where it came from, and what a user should hear of that.
    pub about: About,
}

/// What is asked of a network beside where it is.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// A manifest from elsewhere.
    pub manifest: Option<PathBuf>,
    /// Weights from elsewhere: `F.safetensors`, `F.pt`, `F.pth` or `seeded:N`.
    pub weights: Option<String>,
    /// One of several configurations of an nnU-Net plan.
    pub configuration: Option<String>,
    /// One of several trained folds.
    pub fold: Option<String>,
    /// The size that is wanted, for files that leave theirs open but hold for some sizes alone.
    pub asked: Option<Asked>,
}

/// A size of the input that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A window x, y, z.
    Window([usize; 3]),
    /// Batch and spatial sizes in the tensor's own order.
    Tensor(usize, Vec<usize>),
}

impl Asked {
    /// Batch and spatial sizes of an input with this many spatial axes; `None` where a size is left open.
    fn sizes(&self, axes: Axes, dims: usize) -> Option<(usize, Vec<usize>)> {
        let (batch, sizes) = match self {
            Self::Tensor(batch, sizes) => (*batch, sizes.clone()),
            Self::Window(window) => {
                let [x, y, z] = *window;
                let sizes = match (axes, dims) {
                    (_, 3) => axes.reorder([x, y, z]).to_vec(),
                    (Axes::Xyz, 2) => vec![x, y],
                    (Axes::Zyx, 2) => vec![y, x],
                    _ => vec![x],
                };
                (1, sizes)
            }
        };
        (batch > 0 && sizes.len() == dims && !sizes.contains(&0)).then_some((batch, sizes))
    }
}

impl Model {
    /// The weights, or the sentence that says how to give some.
    pub fn weights(&self) -> Result<&Weights, NetworkError> {
        self.weights
            .as_ref()
            .ok_or_else(|| NetworkError::NoWeights {
                network: self.graph.name.clone(),
                hint: if self.about.notes.iter().any(|n| n.ends_with(bundle::SCRIPT)) {
                    bundle::SCRIPT
                } else {
                    ""
                },
            })
    }

    /// The manifest as its file would write it, with the reasons for what was guessed as comments.
    pub fn manifest_text(&self) -> Result<String, NetworkError> {
        let mut text = String::new();
        for line in self.about.lines() {
            text.push_str("# ");
            // A name from the model's own files may have line breaks: none of them may end the comment.
            text.extend(line.chars().map(|c| if c.is_control() { ' ' } else { c }));
            text.push('\n');
        }
        text.push_str(&self.manifest.to_toml()?);
        Ok(text)
    }

    /// Fingerprint of graph and weights, 64 hex digits.
    pub fn sha256(&self) -> String {
        weights::sha256(&self.graph, self.weights.as_ref())
    }
}

/// Opens a network with a manifest from elsewhere and weights if given; see `open_choice`.
pub fn open(
    model: &str,
    manifest: Option<&Path>,
    weights: Option<&str>,
) -> Result<Model, NetworkError> {
    open_choice(
        model,
        &Choice {
            manifest: manifest.map(Path::to_path_buf),
            weights: weights.map(str::to_owned),
            ..Choice::default()
        },
    )
}

/// Opens `preset:NAME`, an `.onnx` file, an nnU-Net `plans.json` or results folder, or a MONAI bundle folder.
/// `PATH#NAME` names one of several configurations, as `Choice::configuration` does.
pub fn open_choice(model: &str, choice: &Choice) -> Result<Model, NetworkError> {
    let mut opened = match model.strip_prefix("preset:") {
        Some(name) => preset::load(name)?,
        None => open_path(model, choice)?,
    };
    if let Some(configuration) = &choice.configuration
        && opened.about.chosen.is_none()
    {
        return Err(NetworkError::Graph {
            network: opened.graph.name,
            reason: format!(
                "it has no configurations to choose from, \"{configuration}\" was asked for; leave --configuration out"
            ),
        });
    }
    if let Some(fold) = &choice.fold
        && opened.about.chosen.is_none()
    {
        return Err(NetworkError::Graph {
            network: opened.graph.name,
            reason: format!(
                "it is no results folder of nnU-Net and has no folds, \"{fold}\" was asked for; leave --fold out"
            ),
        });
    }
    if let Some(path) = &choice.manifest {
        opened.manifest = Manifest::parse(&read_text("manifest", path)?, Some(path))?;
        opened.about.is_written();
    }
    if let Some(source) = &choice.weights {
        opened.weights = Some(open_weights(&opened.graph, source)?);
    }
    Ok(opened)
}

/// A network from the bytes of an ONNX file that keeps no data elsewhere.
#[cfg(test)]
pub(crate) fn read_onnx(bytes: &[u8]) -> Result<(Graph, Weights), NetworkError> {
    onnx::read(bytes, "damaged", Path::new("damaged.onnx"))
}

fn open_path(model: &str, choice: &Choice) -> Result<Model, NetworkError> {
    let (file, configuration) = file_of(model);
    let path = Path::new(file);
    if !path.exists() {
        return Err(NetworkError::NotFound {
            model: model.to_owned(),
            path: path.to_path_buf(),
        });
    }
    match configuration {
        None => open_file(model, path, choice),
        Some(configuration) => {
            let choice = Choice {
                configuration: Some(configuration.to_owned()),
                ..choice.clone()
            };
            open_file(file, path, &choice)
        }
    }
}

/// The file or folder of a model, and the configuration that `PATH#NAME` names.
fn file_of(model: &str) -> (&str, Option<&str>) {
    match model.rsplit_once('#') {
        Some((file, name)) if !Path::new(model).exists() && Path::new(file).exists() => {
            (file, Some(name))
        }
        _ => (model, None),
    }
}

fn open_file(model: &str, path: &Path, choice: &Choice) -> Result<Model, NetworkError> {
    let ending = path
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default();
    let mut opened = if path.is_dir() {
        if nnunet::is_results(path) {
            nnunet::open(path, choice)?
        } else if bundle::is_bundle(path) {
            bundle::open(path)?
        } else {
            return Err(NetworkError::NotAModel {
                reason: "the folder holds neither plans.json (nnU-Net) nor configs/inference.json or configs/metadata.json (a MONAI bundle)".to_owned(),
                path: path.to_path_buf(),
            });
        }
    } else if ending.eq_ignore_ascii_case("json") {
        nnunet::open(path, choice)?
    } else if ["pt", "pth", "ts", "ckpt"]
        .iter()
        .any(|e| ending.eq_ignore_ascii_case(e))
    {
        return Err(NetworkError::NotAModel {
            reason: "a checkpoint holds values but no network: open the nnU-Net results folder or the MONAI bundle that it lies in, or give it as --weights to a network that has its layers".to_owned(),
            path: path.to_path_buf(),
        });
    } else {
        let file = onnx::open_sized(path, &wanted(model, choice)?)?;
        let proposed = proposal::of(&file.graph, file.fixed.as_deref());
        Model {
            graph: file.graph,
            manifest: proposed.manifest,
            weights: Some(file.weights),
            about: About {
                kind: "ONNX".to_owned(),
                manifest: ManifestSource::Proposed,
                notes: file.notes,
                reasons: proposed.reasons,
                ..About::default()
            },
        }
    };
    let beside = manifest_beside(model);
    if beside.exists() {
        opened.manifest = Manifest::parse(&read_text("manifest", &beside)?, Some(&beside))?;
        opened.about.is_written();
    }
    Ok(opened)
}

/// The size that is asked for, or that the manifest names, with the order of its axes.
fn wanted(model: &str, choice: &Choice) -> Result<(Axes, Option<Asked>), NetworkError> {
    let beside = manifest_beside(model);
    let path = match &choice.manifest {
        Some(path) => path,
        None if beside.exists() => &beside,
        None => return Ok((Axes::default(), choice.asked.clone())),
    };
    let manifest = Manifest::parse(&read_text("manifest", path)?, Some(path))?;
    let roi = manifest.windows.roi_size;
    let roi = roi.map(|n| usize::try_from(n).unwrap_or(0));
    let asked = choice.asked.clone().or(Some(Asked::Window(roi)));
    Ok((manifest.input.axes, asked))
}

/// Whether a folder is a network: nnU-Net's results or a MONAI bundle.
pub fn is_network_folder(path: &Path) -> bool {
    nnunet::is_results(path) || bundle::is_bundle(path)
}

/// Where a model's manifest lies: `<name>.voxfit.toml` beside the file or the folder.
pub fn manifest_beside(model: &str) -> PathBuf {
    let path = Path::new(file_of(model).0);
    if !path.is_dir() {
        return path.with_extension("voxfit.toml");
    }
    // A folder's name has no ending to take away: `net-1.0` and `net-1.5` have a manifest each.
    let whole = match path.file_name() {
        Some(_) => path.to_path_buf(),
        None => path.canonicalize().unwrap_or_else(|_| path.to_path_buf()),
    };
    let mut name = whole.file_name().unwrap_or_default().to_os_string();
    name.push(".voxfit.toml");
    whole.with_file_name(name)
}

fn open_weights(graph: &Graph, source: &str) -> Result<Weights, NetworkError> {
    if let Some(seed) = source.strip_prefix("seeded:") {
        let seed = seed.parse().map_err(|_not_a_number| NetworkError::Seed {
            found: source.to_owned(),
        })?;
        return Weights::seeded(graph, seed);
    }
    let path = Path::new(source);
    let ending = path
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default();
    if ["pt", "pth", "ckpt"]
        .iter()
        .any(|e| ending.eq_ignore_ascii_case(e))
    {
        let mut state = pickle::Checkpoint::open(path)?.state()?;
        let same = |name: &str| monai::second_name(name) || nnunet::second_name(name);
        return state::weights(graph, &mut state, same).map_err(|reason| NetworkError::Weights {
            network: graph.name.clone(),
            reason,
            path: Some(path.to_path_buf()),
        });
    }
    let bytes = read_file("weights", path, MOST_BYTES)?;
    Weights::from_safetensors(graph, &bytes, Some(path))
}

fn read_text(what: &'static str, path: &Path) -> Result<String, NetworkError> {
    let unreadable = |source| NetworkError::Read {
        what,
        source,
        path: path.to_path_buf(),
    };
    String::from_utf8(read_file(what, path, MOST_TEXT)?)
        .map_err(|e| unreadable(std::io::Error::new(std::io::ErrorKind::InvalidData, e)))
}

/// A file in memory. Devices and pipes, which may never end, and files beyond `most` bytes are refused unread.
fn read_file(what: &'static str, path: &Path, most: u64) -> Result<Vec<u8>, NetworkError> {
    let unreadable = |source| NetworkError::Read {
        what,
        source,
        path: path.to_path_buf(),
    };
    let size = std::fs::metadata(path).map_err(unreadable)?;
    if size.is_dir() {
        return Err(unreadable(std::io::ErrorKind::IsADirectory.into()));
    }
    let reason = if !size.is_file() {
        "it is a device or a pipe, a file was expected".to_owned()
    } else if size.len() > most {
        format!("it has {} bytes, at most {most} are read", size.len())
    } else {
        return std::fs::read(path).map_err(unreadable);
    };
    Err(unreadable(std::io::Error::other(reason)))
}
