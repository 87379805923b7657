//! What can go wrong with a network, its weights or its manifest, each in one sentence.

use std::path::PathBuf;

/// A network, a weights file or a manifest that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// A preset that does not exist.
    #[error("there is no preset named \"{name}\"; the presets are {}; write preset:NAME", known.join(", "))]
    UnknownPreset {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// Something that is neither a preset nor a file.
    #[error("the network \"{model}\" was not found: expected preset:NAME, an .onnx file, an nnU-Net plans.json or results folder, or a MONAI bundle folder that exists: {}", path.display())]
    NotFound {
        /// What was asked for.
        model: String,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A file that is not a network.
    #[error("this is not a network that can be read: {reason}; expected an .onnx file, an nnU-Net plans.json or results folder, a MONAI bundle folder or preset:NAME: {}", path.display())]
    NotAModel {
        /// What is wrong with it.
        reason: String,
        /// The file.
        path: PathBuf,
    },
    /// A file that could not be read.
    #[error("cannot read the {what}: {source}: {}", path.display())]
    Read {
        /// What the file was to be.
        what: &'static str,
        /// The cause.
        source: std::io::Error,
        /// The file.
        path: PathBuf,
    },
    /// A shape that does not work out.
    #[error("node \"{node}\" ({op}) does not fit its input: {reason}")]
    Shape {
        /// The node.
        node: String,
        /// Its type.
        op: String,
        /// Expected and found.
        reason: String,
    },
    /// A roi that cannot be the network's input.
    #[error("the network {network} cannot take the size {found}: {reason}")]
    Roi {
        /// The network.
        network: String,
        /// The size that was asked for, in the tensor's axis order.
        found: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A node of a file that cannot be read.
    #[error("node \"{node}\" ({op}) cannot be read: {reason}: {}", path.display())]
    Import {
        /// The node.
        node: String,
        /// Its type.
        op: String,
        /// Expected and found.
        reason: String,
        /// The file.
        path: PathBuf,
    },
    /// A graph that contradicts itself.
    #[error("the network {network} is not well formed: {reason}")]
    Graph {
        /// The network.
        network: String,
        /// What is wrong.
        reason: String,
    },
    /// A manifest that cannot be used.
    #[error("the manifest cannot be used: {reason}{}", in_file(path.as_ref()))]
    Manifest {
        /// What is wrong, and what to write.
        reason: String,
        /// The file, unless it is embedded.
        path: Option<PathBuf>,
    },
    /// Weights that do not fit the network.
    #[error("the weights do not fit the network {network}: {reason}{}", in_file(path.as_ref()))]
    Weights {
        /// The network.
        network: String,
        /// Expected and found.
        reason: String,
        /// The file, unless they are embedded.
        path: Option<PathBuf>,
    },
    /// Seeded weights asked for in words that name no seed.
    #[error("write the weights as seeded:N with a whole number N, found \"{found}\"")]
    Seed {
        /// What was written.
        found: String,
    },
    /// A network's own configuration that cannot be used.
    #[error("the {what} cannot be used: {reason}: {}", path.display())]
    Config {
        /// What the file is.
        what: &'static str,
        /// Expected and found, and what to do.
        reason: String,
        /// The file.
        path: PathBuf,
    },
    /// A file of `torch.save` that cannot be read.
    #[error("this checkpoint cannot be read: {reason}: {}", path.display())]
    Checkpoint {
        /// What is wrong with it.
        reason: String,
        /// The file.
        path: PathBuf,
    },
    /// A run was asked of a network without weights.
    #[error(
        "the network {network} has no weights, so it can be planned but not run: give --weights F.safetensors or --weights seeded:N{hint}"
    )]
    NoWeights {
        /// The network.
        network: String,
        /// What is known of the weights that it should have, after a semicolon; else nothing.
        hint: &'static str,
    },
}

fn in_file(path: Option<&PathBuf>) -> String {
    path.map_or_else(String::new, |p| format!(": {}", p.display()))
}
