//! Reading `.onnx` files: a small part of the format in place, with caps; nothing in a file is executed.

mod checks;
mod constant;
mod einsum;
mod emit;
mod fold;
mod fold_values;
mod fuse;
mod import;
mod proto;
mod shape_rules;
mod symbolic;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_altered;
#[cfg(test)]
mod tests_bad;
#[cfg(test)]
mod tests_groups;
mod translate;
mod translate_acts;
mod translate_maps;
mod translate_norms;
mod translate_parts;
mod translate_tensor;
mod translate_views;
mod wire;

use super::error::NetworkError;
use super::fold_norms;
use super::graph::Graph;
use super::weights::Weights;
use std::path::Path;

/// Largest file read, 8 GiB: larger ones keep their weights beside them.
const MOST_BYTES: u64 = 8 << 30;
/// Sizes tried for spatial axes that the file leaves open.
const OPEN_SIZES: [usize; 4] = [64, 96, 128, 32];

/// A network with its weights from a file.
pub(super) fn open(path: &Path) -> Result<(Graph, Weights), NetworkError> {
    open_sized(path).map(|file| (file.graph, file.weights))
}

/// What a file gives.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) graph: Graph,
    pub(super) weights: Weights,
    /// The spatial size that the file fixes, if it does.
    pub(super) fixed: Option<Vec<usize>>,
    /// What runs otherwise than the file says.
    pub(super) notes: Vec<String>,
}

/// A network with its weights from a file, and the size at which it was exported.
pub(super) fn open_sized(path: &Path) -> Result<Opened, NetworkError> {
    let unreadable = |source| NetworkError::Read {
        what: "network",
        source,
        path: path.to_path_buf(),
    };
    let size = std::fs::metadata(path).map_err(unreadable)?;
    if !size.is_file() || size.len() > MOST_BYTES {
        return Err(NetworkError::NotAModel {
            reason: if size.is_dir() {
                "it is a folder".to_owned()
            } else if !size.is_file() {
                "it is a device or a pipe".to_owned()
            } else {
                format!("it has {} bytes, more than 8 GiB", size.len())
            },
            path: path.to_path_buf(),
        });
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    let name = path
        .file_stem()
        .map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let (graph, weights) = read(&bytes, &name, path)?;
    Ok(Opened {
        graph,
        weights,
        fixed: fixed_size(&bytes),
        notes: proto::model(&bytes).map_or_else(|_| Vec::new(), |m| checks::notes(&m.graph)),
    })
}

/// The spatial size that a file fixes for its input.
fn fixed_size(bytes: &[u8]) -> Option<Vec<usize>> {
    let model = proto::model(bytes).ok()?;
    let stored = |name: &str| model.graph.initializers.iter().any(|t| t.name == name);
    let input = model.graph.inputs.iter().find(|i| !stored(i.name))?;
    let space = input.dims.as_ref()?.get(2..)?;
    let size = |d: &Option<i64>| d.filter(|n| *n > 0).and_then(|n| usize::try_from(n).ok());
    space.iter().map(size).collect()
}

/// A network from a file's bytes; external data only from the path's folder.
pub(super) fn read(
    bytes: &[u8],
    name: &str,
    path: &Path,
) -> Result<(Graph, Weights), NetworkError> {
    let not_a_model = |reason: String| NetworkError::NotAModel {
        reason,
        path: path.to_path_buf(),
    };
    let model = proto::model(bytes)
        .map_err(|reason| not_a_model(format!("its content is not an ONNX network ({reason})")))?;
    if model.graph.nodes.is_empty() || model.graph.outputs.is_empty() {
        return Err(not_a_model(
            "its content is not an ONNX network (it has no nodes or no outputs)".to_owned(),
        ));
    }
    checks::opset(model.opset).map_err(not_a_model)?;
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut last = None;
    for size in sizes(&model.graph).map_err(not_a_model)? {
        match import::graph(&model.graph, model.opset, folder, size) {
            Ok((mut graph, mut weights)) => {
                name.clone_into(&mut graph.name);
                fold_norms::fold(&mut graph, &mut weights);
                weights.check(&graph)?;
                return Ok((graph, weights));
            }
            Err(refusal) => last = last.or(Some(refusal)),
        }
    }
    Err(match last {
        Some(r) => NetworkError::Import {
            node: r.node,
            op: r.op,
            reason: r.reason,
            path: path.to_path_buf(),
        },
        None => not_a_model(
            "its content is not an ONNX network (no input size can be tried)".to_owned(),
        ),
    })
}

/// The sizes at which the graph is walked: the file's own, or some that fit most networks where it leaves them open.
fn sizes(graph: &proto::Graph<'_>) -> Result<Vec<import::Size>, String> {
    let stored = |name: &str| graph.initializers.iter().any(|t| t.name == name);
    let input = graph
        .inputs
        .iter()
        .find(|i| !stored(i.name))
        .ok_or("it has no input")?;
    let dims = input
        .dims
        .as_ref()
        .ok_or_else(|| format!("its input \"{}\" has no rank", input.name))?;
    let [batch, _channels, space @ ..] = dims.as_slice() else {
        return Err(format!(
            "its input \"{}\" must be (N, C, spatial...), found {} dimensions",
            input.name,
            dims.len()
        ));
    };
    if space.is_empty() || space.len() > 3 {
        return Err(format!(
            "its input \"{}\" must have 1 to 3 spatial axes, found {}",
            input.name,
            space.len()
        ));
    }
    let size = |d: &Option<i64>, or: usize| match d {
        Some(d) if *d > 0 => usize::try_from(*d)
            .ok()
            .filter(|d| *d <= 1 << 16)
            .ok_or_else(|| format!("its input \"{}\" has a size of {d}", input.name)),
        Some(d) if *d < 0 => Err(format!("its input \"{}\" has a size of {d}", input.name)),
        _ => Ok(or),
    };
    let open = space.iter().any(|d| !matches!(d, Some(1..)));
    let candidates = if open {
        &OPEN_SIZES[..]
    } else {
        &OPEN_SIZES[..1]
    };
    candidates
        .iter()
        .map(|or| {
            Ok((
                size(batch, 1)?,
                space
                    .iter()
                    .map(|d| size(d, *or))
                    .collect::<Result<_, String>>()?,
            ))
        })
        .collect()
}
