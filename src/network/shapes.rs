//! Shape inference: what every tensor measures for a given input size, with checked arithmetic; errors name the node.

use super::error::NetworkError;
use super::graph::{Graph, Node, Op, PadMode, TensorId, TensorKind};
use super::size_refusals::{explain, refuse_baked, refuse_uneven};
use super::tensor_shapes;

/// Most elements a single tensor may have here: far past any card, far below an overflow of bytes in 64 bits.
const MOST_ELEMENTS: usize = 1 << 50;

/// Operations on maps run on a map: one whose inputs are all constants, or that makes nothing, has no step.
fn refuse_constant(graph: &Graph, node: &Node) -> Result<(), String> {
    if node.outputs.is_empty() {
        return Err("it makes nothing".to_owned());
    }
    let is_weight = |t: &TensorId| {
        let tensor = graph.tensors.get(t.index());
        tensor.is_some_and(|t| matches!(t.kind, TensorKind::Weight { .. }))
    };
    let needs_a_map = !matches!(node.op, Op::Tensor(_) | Op::Other { .. });
    if needs_a_map && node.inputs.iter().all(is_weight) {
        return Err(
            "all of its inputs are constants, where a map of the image is expected".to_owned(),
        );
    }
    Ok(())
}

/// The full (N, C, spatial...) shape of every tensor, by `TensorId`, for inputs of this spatial size (tensor axis order); weights keep their own.
pub fn infer(
    graph: &Graph,
    spatial: &[usize],
    batch: usize,
) -> Result<Vec<Vec<usize>>, NetworkError> {
    let bad_roi = |reason: String| NetworkError::Roi {
        network: graph.name.clone(),
        found: text(spatial),
        reason,
    };
    if spatial.len() != graph.spatial_dims {
        return Err(bad_roi(format!(
            "expected {} spatial sizes",
            graph.spatial_dims
        )));
    }
    if spatial.contains(&0) || batch == 0 {
        return Err(bad_roi(
            "every size and the batch must be at least 1".to_owned(),
        ));
    }
    let mut shapes = seed(graph, spatial, batch);
    for shape in &shapes {
        elements(shape).map_err(bad_roi)?;
    }
    refuse_baked(graph, spatial, batch)?;
    refuse_uneven(graph, spatial, batch)?;
    for node in &graph.nodes {
        let failed = |reason: String| explain(graph, node, (spatial, batch), &reason);
        refuse_constant(graph, node).map_err(failed)?;
        let made = node_shapes(node, &shapes, spatial, batch).map_err(failed)?;
        if made.len() != node.outputs.len() {
            return Err(failed(format!(
                "it makes {} tensors, the graph lists {}",
                made.len(),
                node.outputs.len()
            )));
        }
        for (id, shape) in node.outputs.iter().zip(made) {
            elements(&shape).map_err(failed)?;
            let slot = shapes.get_mut(id.index()).ok_or_else(|| {
                failed(format!(
                    "it makes tensor {}, which the graph does not have",
                    id.0
                ))
            })?;
            *slot = shape;
        }
    }
    Ok(shapes)
}

/// Elements of a shape, or a sentence when there are too many.
pub fn elements(shape: &[usize]) -> Result<usize, String> {
    if shape.contains(&0) {
        return Err(format!("a tensor of {} holds no values", text(shape)));
    }
    shape
        .iter()
        .try_fold(1usize, |n, d| n.checked_mul(*d))
        .filter(|n| *n <= MOST_ELEMENTS)
        .ok_or_else(|| format!("a tensor of {} has more than 2^50 elements", text(shape)))
}

fn seed(graph: &Graph, spatial: &[usize], batch: usize) -> Vec<Vec<usize>> {
    graph
        .tensors
        .iter()
        .map(|t| match &t.kind {
            TensorKind::Input { channels } => [&[batch, *channels], spatial].concat(),
            TensorKind::Activation => Vec::new(),
            TensorKind::Weight { shape, .. } => shape.clone(),
        })
        .collect()
}

/// The shapes of a node's inputs.
struct Inputs<'a> {
    ids: &'a [TensorId],
    shapes: &'a [Vec<usize>],
}

impl<'a> Inputs<'a> {
    fn get(&self, i: usize) -> Result<&'a [usize], String> {
        let id = self.ids.get(i).ok_or_else(|| {
            let found = self.ids.len();
            format!("it needs at least {} inputs, found {found}", i + 1)
        })?;
        match self.shapes.get(id.index()) {
            Some(s) if !s.is_empty() => Ok(s),
            _ => Err(format!("its input {i} is read before it is made")),
        }
    }

    fn rest(&self) -> impl Iterator<Item = Result<&'a [usize], String>> {
        (1..self.ids.len()).map(|i| self.get(i))
    }
}

/// Shapes that a node makes, from those of its inputs.
pub(super) fn node_shapes(
    node: &Node,
    shapes: &[Vec<usize>],
    spatial: &[usize],
    batch: usize,
) -> Result<Vec<Vec<usize>>, String> {
    if let Op::Other { at, shapes, .. } = &node.op {
        return other(at, shapes, spatial, batch);
    }
    let inputs = Inputs {
        ids: &node.inputs,
        shapes,
    };
    if let Op::Tensor(op) = &node.op {
        let of: Vec<&[usize]> = (0..node.inputs.len())
            .map(|i| inputs.get(i))
            .collect::<Result<_, _>>()?;
        return tensor_shapes::made(op, &of, shapes).map(|s| vec![s]);
    }
    if matches!(node.op, Op::Activation(_)) {
        return Ok(vec![inputs.get(0)?.to_vec()]);
    }
    if matches!(node.op, Op::Add | Op::Mul) {
        return same_shapes(inputs.get(0)?, &inputs).map(|s| vec![s]);
    }
    let x = inputs.get(0)?;
    let [n, channels, space @ ..] = x else {
        return Err(format!("expected (N, C, spatial...), found {}", text(x)));
    };
    let (n, channels) = (*n, *channels);
    let made = match &node.op {
        Op::Conv {
            kernel,
            stride,
            pad_begin,
            pad_end,
            dilation,
            groups,
        } => {
            let out = conv_channels(inputs.get(1)?, channels, *groups, kernel)?;
            let grown = pad(space, pad_begin, pad_end)?;
            shape(n, out, &slide(&grown, kernel, stride, dilation)?)
        }
        Op::ConvTranspose {
            kernel,
            stride,
            pad_begin,
            pad_end,
            output_pad,
            dilation,
            groups,
        } => {
            let out = transpose_channels(inputs.get(1)?, channels, *groups, kernel)?;
            let geometry = [kernel, stride, pad_begin, pad_end, output_pad, dilation];
            shape(n, out, &transpose(space, geometry)?)
        }
        Op::BatchNorm { .. } | Op::InstanceNorm { .. } | Op::GroupNorm { .. } | Op::PRelu => {
            check_channel_weights(&node.op, channels, &inputs)?;
            x.to_vec()
        }
        Op::Softmax => x.to_vec(),
        Op::MaxPool {
            kernel,
            stride,
            pad_begin,
            pad_end,
        }
        | Op::AvgPool {
            kernel,
            stride,
            pad_begin,
            pad_end,
            ..
        } => {
            let grown = pad(space, pad_begin, pad_end)?;
            let ones = vec![1; kernel.len()];
            shape(n, channels, &slide(&grown, kernel, stride, &ones)?)
        }
        Op::GlobalAvgPool => shape(n, channels, &vec![1; space.len()]),
        Op::UpsampleNearest { scale } | Op::UpsampleLinear { scale, .. } => {
            let scaled: Option<Vec<usize>> = same_len(space, scale)?
                .map(|(d, s)| d.checked_mul(*s))
                .collect();
            shape(n, channels, &scaled.ok_or("the size overflows")?)
        }
        Op::Pad { begin, end, mode } => {
            if *mode == PadMode::Reflect {
                let amounts = begin.iter().zip(end).map(|(b, e)| *b.max(e));
                reflects(space, amounts)?;
            }
            shape(n, channels, &pad(space, begin, end)?)
        }
        Op::Concat => joined(x, &inputs)?,
        Op::Activation(_) | Op::Add | Op::Mul | Op::Tensor(_) | Op::Other { .. } => Vec::new(),
    };
    Ok(vec![made])
}

fn check_channel_weights(op: &Op, channels: usize, inputs: &Inputs<'_>) -> Result<(), String> {
    if let Op::GroupNorm { groups, .. } = op
        && (*groups == 0 || !channels.is_multiple_of(*groups))
    {
        return Err(format!(
            "{channels} channels do not divide into {groups} groups"
        ));
    }
    for weight in inputs.rest() {
        let weight = weight?;
        if weight != [channels] && !(matches!(op, Op::PRelu) && weight == [1]) {
            return Err(format!(
                "expected {channels} values a weight, found {}",
                text(weight)
            ));
        }
    }
    Ok(())
}

fn same_shapes(x: &[usize], inputs: &Inputs<'_>) -> Result<Vec<usize>, String> {
    for other in inputs.rest() {
        let other = other?;
        if other != x {
            return Err(format!(
                "its inputs must have one shape, found {} and {}",
                text(x),
                text(other)
            ));
        }
    }
    Ok(x.to_vec())
}

fn joined(x: &[usize], inputs: &Inputs<'_>) -> Result<Vec<usize>, String> {
    let mut out = x.to_vec();
    for other in inputs.rest() {
        let other = other?;
        if other.len() != x.len() || other.first() != x.first() || other.get(2..) != x.get(2..) {
            return Err(format!(
                "its inputs must agree but in channels, found {} and {}",
                text(x),
                text(other)
            ));
        }
        if let (Some(sum), Some(more)) = (out.get_mut(1), other.get(1)) {
            *sum = sum.checked_add(*more).ok_or("too many channels")?;
        }
    }
    Ok(out)
}

fn transpose_channels(
    weight: &[usize],
    channels: usize,
    groups: usize,
    kernel: &[usize],
) -> Result<usize, String> {
    let [w_in, w_out, w_kernel @ ..] = weight else {
        return Err(format!(
            "its weight must be (in, out, kernel...), found {}",
            text(weight)
        ));
    };
    if *w_in != channels || w_kernel != kernel || groups == 0 || !channels.is_multiple_of(groups) {
        return Err(format!(
            "its weight {} in {groups} groups does not match {channels} channels and kernel {}",
            text(weight),
            text(kernel)
        ));
    }
    w_out
        .checked_mul(groups)
        .ok_or_else(|| "too many channels".to_owned())
}

fn other(
    at: &[usize],
    shapes: &[Vec<usize>],
    spatial: &[usize],
    batch: usize,
) -> Result<Vec<Vec<usize>>, String> {
    if at != spatial {
        return Err(format!(
            "its shapes are only known for an input of {}, found {}",
            text(at),
            text(spatial)
        ));
    }
    let mut out = shapes.to_vec();
    for first in out.iter_mut().filter_map(|s| s.first_mut()) {
        *first = first.checked_mul(batch).ok_or("the batch overflows")?;
    }
    Ok(out)
}

fn shape(n: usize, channels: usize, space: &[usize]) -> Vec<usize> {
    [&[n, channels], space].concat()
}

fn conv_channels(
    weight: &[usize],
    channels: usize,
    groups: usize,
    kernel: &[usize],
) -> Result<usize, String> {
    let [out, per_group, w_kernel @ ..] = weight else {
        return Err(format!(
            "its weight must be (out, in, kernel...), found {}",
            text(weight)
        ));
    };
    if groups == 0 || per_group.checked_mul(groups) != Some(channels) || out % groups != 0 {
        return Err(format!(
            "its weight {} in {groups} groups does not take {channels} channels",
            text(weight)
        ));
    }
    if w_kernel != kernel {
        return Err(format!(
            "its weight {} does not have the kernel {}",
            text(weight),
            text(kernel)
        ));
    }
    Ok(*out)
}

fn same_len<'a>(
    a: &'a [usize],
    b: &'a [usize],
) -> Result<impl Iterator<Item = (&'a usize, &'a usize)>, String> {
    if a.len() == b.len() {
        Ok(a.iter().zip(b))
    } else {
        Err(format!(
            "it has {} spatial axes, its input {}",
            b.len(),
            a.len()
        ))
    }
}

fn pad(space: &[usize], begin: &[usize], end: &[usize]) -> Result<Vec<usize>, String> {
    let begun: Option<Vec<usize>> = same_len(space, begin)?
        .map(|(d, p)| d.checked_add(*p))
        .collect();
    let begun = begun.ok_or("the padded size overflows")?;
    let ended: Option<Vec<usize>> = same_len(&begun, end)?
        .map(|(d, p)| d.checked_add(*p))
        .collect();
    ended.ok_or_else(|| "the padded size overflows".to_owned())
}

/// Refuses to reflect more voxels than lie behind an axis' border.
pub(super) fn reflects(
    shape: &[usize],
    amounts: impl Iterator<Item = usize>,
) -> Result<(), String> {
    match shape.iter().zip(amounts).find(|(d, most)| most >= *d) {
        Some((d, most)) if most > 0 => Err(format!(
            "it reflects {most} voxels of an axis of {d} (of {}), which has {} to reflect",
            text(shape),
            d.saturating_sub(1)
        )),
        _ => Ok(()),
    }
}

fn slide(
    space: &[usize],
    kernel: &[usize],
    stride: &[usize],
    dilation: &[usize],
) -> Result<Vec<usize>, String> {
    let mut out = Vec::with_capacity(space.len());
    for ((d, k), (s, l)) in same_len(space, kernel)?.zip(same_len(stride, dilation)?) {
        let span = k
            .checked_sub(1)
            .and_then(|k| k.checked_mul(*l))
            .and_then(|k| k.checked_add(1));
        let (Some(span), false) = (span, *s == 0) else {
            return Err(format!(
                "kernel {}, stride {} and dilation {} must be at least 1",
                text(kernel),
                text(stride),
                text(dilation)
            ));
        };
        let room = d.checked_sub(span).ok_or_else(|| {
            format!(
                "a kernel that spans {span} voxels does not fit into {d} (padded size {})",
                text(space)
            )
        })?;
        out.push(room / s + 1);
    }
    if out.len() == space.len() {
        Ok(out)
    } else {
        Err(format!(
            "stride {} must have {} entries",
            text(stride),
            space.len()
        ))
    }
}

fn transpose(
    space: &[usize],
    [kernel, stride, begin, end, extra, dilation]: [&Vec<usize>; 6],
) -> Result<Vec<usize>, String> {
    if [kernel, stride, begin, end, extra, dilation]
        .iter()
        .any(|v| v.len() != space.len())
    {
        return Err(format!(
            "its geometry must have {} entries an axis",
            space.len()
        ));
    }
    let geometry = kernel
        .iter()
        .zip(stride)
        .zip(begin.iter().zip(end))
        .zip(extra.iter().zip(dilation));
    space
        .iter()
        .zip(geometry)
        .map(|(d, (((k, s), (b, e)), (x, l)))| {
            let span = k.checked_sub(1)?.checked_mul(*l)?.checked_add(1)?;
            let full = d
                .checked_sub(1)?
                .checked_mul(*s)?
                .checked_add(span)?
                .checked_add(*x)?;
            full.checked_sub(b.checked_add(*e)?).filter(|n| *n > 0)
        })
        .collect::<Option<Vec<usize>>>()
        .ok_or_else(|| format!("an input of {} leaves no voxel", text(space)))
}

/// A shape as text, in the tensor's axis order.
pub(crate) fn text(shape: &[usize]) -> String {
    shape
        .iter()
        .map(usize::to_string)
        .collect::<Vec<_>>()
        .join("x")
}

#[cfg(test)]
mod tests {
    use crate::network::builder::{Builder, Conv};
    use crate::network::preset;

    #[test]
    fn the_demo_has_two_levels_at_strides_4_and_8() {
        let model = preset::load("demo").unwrap();
        let shapes = super::infer(&model.graph, &[64, 48, 40], 2).unwrap();
        let outputs: Vec<_> = model
            .graph
            .outputs
            .iter()
            .map(|o| shapes[o.index()].clone())
            .collect();
        assert_eq!(
            outputs,
            [
                vec![2, 3, 16, 12, 10],
                vec![2, 3, 8, 6, 5],
                vec![2, 18, 16, 12, 10],
                vec![2, 18, 8, 6, 5]
            ]
        );
    }

    #[test]
    fn a_network_that_fails_at_its_own_size_is_refused_and_not_asked_about_it_for_ever() {
        let mut b = Builder::new("wide", 1);
        let x = b.input("x", 1);
        let y = b.conv("wide", x, Conv::new(1, &[9]).pad(&[0]));
        b.output(y);
        let mut graph = b.finish();
        graph.example = vec![1, 8];
        for size in [8, 6] {
            let error = super::infer(&graph, &[size], 1).unwrap_err().to_string();
            assert!(error.contains("\"wide\""), "{error}");
        }
    }

    #[test]
    fn a_size_without_voxels_or_past_all_memory_is_refused_in_words() {
        let model = preset::load("demo").unwrap();
        for size in [[0, 8, 8], [usize::MAX, 8, 8], [1 << 40, 1 << 40, 8]] {
            let error = super::infer(&model.graph, &size, 1)
                .unwrap_err()
                .to_string();
            assert!(error.contains("demo cannot take the size"), "{error}");
        }
    }
}
