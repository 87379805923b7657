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
#[cfg(test)]
mod tests_writes;
mod translate;
mod translate_acts;
mod translate_maps;
mod translate_norms;
mod translate_parts;
mod translate_tensor;
mod translate_views;
mod translate_writes;
mod wire;

use super::Asked;
use super::error::NetworkError;
use super::fold_norms;
use super::graph::Graph;
use super::manifest::Axes;
use super::shapes;
use super::weights::Weights;
use std::path::Path;

/// Largest file read, 8 GiB: larger ones keep their weights beside them.
const MOST_BYTES: u64 = 8 << 30;
/// Sizes tried for spatial axes that the file leaves open.
const OPEN_SIZES: [usize; 6] = [64, 96, 128, 32, 48, 16];

/// A network with its weights from a file.
pub(super) fn open(path: &Path) -> Result<(Graph, Weights), NetworkError> {
    open_sized(path, &(Axes::default(), None)).map(|file| (file.graph, file.weights))
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

/// A network with its weights from a file, and the size at which it was exported. A file that leaves its size open but
/// does not hold for the size that is wanted as it was read first is read again at that size.
pub(super) fn open_sized(
    path: &Path,
    wanted: &(Axes, Option<Asked>),
) -> Result<Opened, NetworkError> {
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
    let mut notes = proto::model(&bytes).map_or_else(|_| Vec::new(), |m| checks::notes(&m.graph));
    let first = read(&bytes, &name, path);
    let taken = first.as_ref().ok().map(|(graph, _)| graph);
    let (graph, weights) = match read_at(&bytes, (&name, path), wanted, taken)? {
        Some((graph, weights)) => {
            notes.extend(held(&graph));
            (graph, weights)
        }
        None => first?,
    };
    let example = || {
        let one_size = graph.baked.is_empty();
        (!one_size).then(|| graph.example.get(1..).unwrap_or(&[]).to_vec())
    };
    Ok(Opened {
        fixed: fixed_size(&bytes).or_else(example),
        graph,
        weights,
        notes,
    })
}

/// A network read at the size that is wanted: `None` where none is, or where the network takes it as it was read first, or
/// not at all.
fn read_at(
    bytes: &[u8],
    (name, path): (&str, &Path),
    (axes, asked): &(Axes, Option<Asked>),
    first: Option<&Graph>,
) -> Result<Option<(Graph, Weights)>, NetworkError> {
    let (Some(asked), Ok(model)) = (asked, proto::model(bytes)) else {
        return Ok(None);
    };
    let Some((size, open)) = asked_size(&model.graph, *axes, asked) else {
        return Ok(None);
    };
    let takes = |graph: &Graph| shapes::infer(graph, &size.1, size.0).is_ok();
    if !open || first.is_some_and(takes) {
        return Ok(None);
    }
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    match import::graph(&model.graph, model.opset, folder, size.clone()) {
        Ok(made) => {
            let made = finished(made, name)?;
            Ok(takes(&made.0).then_some(made))
        }
        Err(_) => Ok(None),
    }
}

/// The wanted size for a file's input, and whether the file leaves any of it open; `None` where it fixes another.
fn asked_size(graph: &proto::Graph<'_>, axes: Axes, asked: &Asked) -> Option<(import::Size, bool)> {
    let stored = |name: &str| graph.initializers.iter().any(|t| t.name == name);
    let input = graph.inputs.iter().find(|i| !stored(i.name))?;
    let [batch, _, space @ ..] = input.dims.as_deref()? else {
        return None;
    };
    let (n, sizes) = asked.sizes(axes, space.len())?;
    let mut open = false;
    for (dim, size) in [batch]
        .into_iter()
        .chain(space)
        .zip([&n].into_iter().chain(&sizes))
    {
        match dim {
            Some(d) if *d > 0 => (usize::try_from(*d).ok()? == *size).then_some(())?,
            _ => open = *size <= 1 << 16,
        }
        (*size <= 1 << 16).then_some(())?;
    }
    Some(((n, sizes), open))
}

/// What a user should hear of a network that was read at the size that is wanted.
fn held(graph: &Graph) -> Option<String> {
    let (batch, space) = graph.example.split_first()?;
    let baked = graph.baked.first()?;
    let nodes = match graph.baked.len() {
        1 => "one node holds".to_owned(),
        n => format!("{n} nodes hold"),
    };
    Some(format!(
        "the file leaves its size open, but {nodes} the size of its export (first \"{}\" ({}): {}); it was read for {} with batch {batch}, which it takes: where it was exported at another size, the results are what the file says, which may not be what its training code makes",
        baked.node,
        baked.op,
        baked.reason,
        shapes::text(space),
    ))
}

/// A network as the walk made it, named, folded and checked.
fn finished(
    (mut graph, mut weights): (Graph, Weights),
    name: &str,
) -> Result<(Graph, Weights), NetworkError> {
    name.clone_into(&mut graph.name);
    fold_norms::fold(&mut graph, &mut weights);
    weights.check(&graph)?;
    Ok((graph, weights))
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
    let mut last: Option<import::Refusal> = None;
    let mut by_size = false;
    for size in sizes(&model.graph).map_err(not_a_model)? {
        match import::graph(&model.graph, model.opset, folder, size) {
            Ok(made) => return finished(made, name),
            Err(refusal) => {
                by_size |= last.as_ref().is_some_and(|r| r.reason != refusal.reason);
                last = last.or(Some(refusal));
            }
        }
    }
    Err(match last {
        Some(r) => NetworkError::Import {
            node: r.node,
            op: r.op,
            reason: if by_size {
                format!(
                    "{}; the file leaves its size open, and cubes were tried: if it holds for another size, ask for that with --roi-size or the windows of a manifest",
                    r.reason
                )
            } else {
                r.reason
            },
            path: path.to_path_buf(),
        },
        None => not_a_model(
            "its content is not an ONNX network (no input size can be tried)".to_owned(),
        ),
    })
}

/// The sizes that a file's outputs declare, where they are as many as its input has open: often the size of the export.
fn declared(graph: &proto::Graph<'_>, space: &[Option<i64>]) -> Option<Vec<usize>> {
    let output = graph.outputs.iter().find_map(|o| o.dims.as_deref())?;
    let sizes = output.get(2..).filter(|s| s.len() == space.len())?;
    let size = |d: &Option<i64>| d.and_then(|n| usize::try_from(n).ok());
    let sizes: Vec<usize> = sizes.iter().map(size).collect::<Option<_>>()?;
    sizes
        .iter()
        .all(|n| (1..=1 << 16).contains(n))
        .then_some(sizes)
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
    let mut all = candidates
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
        .collect::<Result<Vec<import::Size>, String>>()?;
    if let Some(sizes) = declared(graph, space).filter(|_| open) {
        let pairs = space.iter().zip(sizes);
        let sizes = pairs.map(|(d, or)| size(d, or));
        all.push((size(batch, 1)?, sizes.collect::<Result<_, String>>()?));
    }
    Ok(all)
}
