//! Networks that need no file: their graphs in code, their manifests in assets/presets.

mod demo;

use super::Model;
use super::error::NetworkError;
use super::graph::Graph;
use super::manifest::Manifest;
use super::weights::Weights;

struct Preset {
    name: &'static str,
    graph: fn(&str) -> Graph,
    manifest: &'static str,
    weights: Option<&'static [u8]>,
}

const PRESETS: &[Preset] = &[
    Preset {
        name: "demo",
        graph: |name| demo::graph(name, false),
        manifest: include_str!("../../../assets/presets/demo.toml"),
        weights: None,
    },
    Preset {
        name: "demo-norm",
        graph: |name| demo::graph(name, true),
        manifest: include_str!("../../../assets/presets/demo-norm.toml"),
        weights: None,
    },
];

/// Names of all presets, in the order in which they are shown.
pub fn names() -> Vec<&'static str> {
    PRESETS.iter().map(|p| p.name).collect()
}

/// The preset of that name, with its embedded weights where it has some.
pub fn load(name: &str) -> Result<Model, NetworkError> {
    let preset =
        PRESETS
            .iter()
            .find(|p| p.name == name)
            .ok_or_else(|| NetworkError::UnknownPreset {
                name: name.to_owned(),
                known: names(),
            })?;
    let graph = (preset.graph)(preset.name);
    let manifest = Manifest::parse(preset.manifest, None)?;
    let weights = preset
        .weights
        .map(|bytes| Weights::from_safetensors(&graph, bytes, None))
        .transpose()?;
    Ok(Model {
        graph,
        manifest,
        weights,
    })
}
