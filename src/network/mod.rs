//! A network as data: graph, shape inference, parameters, reach, total stride, FLOPs; presets, weights and the manifest.
#![warn(clippy::indexing_slicing)]

pub(crate) mod axes;
pub mod builder;
mod compact;
pub mod error;
pub mod facts;
pub mod fold_norms;
pub mod graph;
pub mod layers;
pub mod layout;
pub mod manifest;
#[cfg(test)]
pub(crate) mod naive;
#[cfg(test)]
mod naive_tensor;
mod onnx;
pub mod preset;
#[cfg(test)]
pub(crate) mod random;
mod reach;
#[cfg(test)]
mod reach_tests;
pub mod shapes;
pub mod size;
mod stride;
pub mod tensor_op;
pub(crate) mod tensor_shapes;
pub mod weights;

pub use error::NetworkError;
pub use facts::Facts;
pub use graph::{Act, Graph, Node, Op, PadMode, Tensor, TensorId, TensorKind};
pub use manifest::Manifest;
pub use reach::Reach;
pub use weights::Weights;

use std::path::Path;

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
}

impl Model {
    /// The weights, or the sentence that says how to give some.
    pub fn weights(&self) -> Result<&Weights, NetworkError> {
        self.weights
            .as_ref()
            .ok_or_else(|| NetworkError::NoWeights {
                network: self.graph.name.clone(),
            })
    }

    /// Fingerprint of graph and weights, 64 hex digits.
    pub fn sha256(&self) -> String {
        weights::sha256(&self.graph, self.weights.as_ref())
    }
}

/// Opens `preset:NAME` or an `.onnx` file, with a manifest from elsewhere and weights (`F.safetensors` or `seeded:N`) if given.
pub fn open(
    model: &str,
    manifest: Option<&Path>,
    weights: Option<&str>,
) -> Result<Model, NetworkError> {
    let mut opened = match model.strip_prefix("preset:") {
        Some(name) => preset::load(name)?,
        None => open_file(model)?,
    };
    if let Some(path) = manifest {
        opened.manifest = Manifest::parse(&read_text("manifest", path)?, Some(path))?;
    }
    if let Some(source) = weights {
        opened.weights = Some(open_weights(&opened.graph, source)?);
    }
    Ok(opened)
}

/// A network from the bytes of an ONNX file that keeps no data elsewhere.
#[cfg(test)]
pub(crate) fn read_onnx(bytes: &[u8]) -> Result<(Graph, Weights), NetworkError> {
    onnx::read(bytes, "damaged", Path::new("damaged.onnx"))
}

fn open_file(model: &str) -> Result<Model, NetworkError> {
    let path = Path::new(model);
    if !path.exists() {
        return Err(NetworkError::NotFound {
            model: model.to_owned(),
            path: path.to_path_buf(),
        });
    }
    let (graph, weights) = onnx::open(path)?;
    let beside = path.with_extension("voxfit.toml");
    let manifest = if beside.exists() {
        Manifest::parse(&read_text("manifest", &beside)?, Some(&beside))?
    } else {
        Manifest::default()
    };
    Ok(Model {
        graph,
        manifest,
        weights: Some(weights),
    })
}

fn open_weights(graph: &Graph, source: &str) -> Result<Weights, NetworkError> {
    if let Some(seed) = source.strip_prefix("seeded:") {
        let seed = seed.parse().map_err(|_not_a_number| NetworkError::Seed {
            found: source.to_owned(),
        })?;
        return Weights::seeded(graph, seed);
    }
    let path = Path::new(source);
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
