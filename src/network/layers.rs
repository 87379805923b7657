//! A network layer by layer for one window: what each makes, what it costs, how far it sees, why it cannot be run.

use super::error::NetworkError;
use super::graph::{Graph, Node, Op, TensorId, TensorKind};
use super::reach::{Need, Reach, through};
use super::stride::{self, Strides};
use super::{facts, shapes};

/// One node of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Its name.
    pub name: String,
    /// Its type.
    pub op: String,
    /// Kernel, stride and the like in words; may be empty.
    pub detail: String,
    /// Shape (N, C, spatial...) of each output; empty where it cannot be told for this window.
    pub shapes: Vec<Vec<usize>>,
    /// Names of what it reads, weights left out.
    pub reads: Vec<String>,
    /// Values of all its outputs; `None` where the shape cannot be told.
    pub values: Option<u64>,
    /// Floating point operations; `None` where the shape cannot be told.
    pub flops: Option<u64>,
    /// Learned values it reads first.
    pub parameters: u64,
    /// How far into the input its first output sees, norms over space left out; `None` where no grid leads there.
    pub reach: Option<Reach>,
    /// Why it can be planned but not run.
    pub reason: Option<String>,
}

/// All layers in run order for a window of this size (tensor axis order), and why shapes are missing where they are.
pub fn of(graph: &Graph, spatial: &[usize], batch: usize) -> (Vec<Layer>, Option<NetworkError>) {
    let (shapes, error) = match shapes::infer(graph, spatial, batch) {
        Ok(shapes) => (Some(shapes), None),
        Err(e) => (None, Some(e)),
    };
    let flops = shapes.as_ref().map(|s| facts::flops(graph, s));
    let mut unsupported = facts::unsupported_nodes(graph).into_iter().peekable();
    let reach = reaches(graph);
    let mut counted = vec![false; graph.tensors.len()];
    let layers = graph
        .nodes
        .iter()
        .enumerate()
        .map(|(i, node)| {
            let shape = |id: &TensorId| shapes.as_ref()?.get(id.index()).cloned();
            let made: Vec<Vec<usize>> = node.outputs.iter().filter_map(shape).collect();
            let values = shapes.as_ref().map(|_| {
                made.iter()
                    .map(|s| shapes::elements(s).map_or(u64::MAX, |n| n as u64))
                    .fold(0, u64::saturating_add)
            });
            Layer {
                name: node.name.clone(),
                op: node.op.kind().to_owned(),
                detail: detail(&node.op),
                shapes: made,
                reads: node
                    .inputs
                    .iter()
                    .filter(|id| !graph.is_weight(**id))
                    .filter_map(|id| Some(graph.tensor(*id)?.name.clone()))
                    .collect(),
                values,
                flops: flops.as_ref().and_then(|f| f.get(i).copied()),
                parameters: parameters(graph, node, &mut counted),
                reach: node
                    .outputs
                    .first()
                    .and_then(|id| reach.get(id.index())?.clone()),
                reason: unsupported
                    .next_if(|(at, _)| *at == i)
                    .map(|(_, reason)| reason),
            }
        })
        .collect();
    (layers, error)
}

/// Learned values of the weights that no earlier node read.
fn parameters(graph: &Graph, node: &Node, counted: &mut [bool]) -> u64 {
    let mut sum = 0u64;
    for id in &node.inputs {
        if let Some(t) = graph.tensor(*id)
            && let TensorKind::Weight {
                shape,
                is_parameter: true,
            } = &t.kind
            && let Some(seen) = counted.get_mut(id.index())
            && !std::mem::replace(seen, true)
        {
            let n = shape.iter().fold(1u64, |n, d| n.saturating_mul(*d as u64));
            sum = sum.saturating_add(n);
        }
    }
    sum
}

fn detail(op: &Op) -> String {
    let times = |v: &[usize]| {
        v.iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\u{d7}")
    };
    // One number where all axes agree.
    let short = |v: &[usize]| match v.split_first() {
        Some((first, rest)) if rest.iter().all(|n| n == first) => first.to_string(),
        _ => times(v),
    };
    let beyond_one = |word: &str, v: &[usize]| {
        if v.iter().all(|n| *n == 1) {
            String::new()
        } else {
            format!(" {word} {}", short(v))
        }
    };
    match op {
        Op::Conv {
            kernel,
            stride,
            dilation,
            groups,
            ..
        } => {
            let groups = if *groups > 1 {
                format!(" groups {groups}")
            } else {
                String::new()
            };
            format!(
                "{}{}{}{groups}",
                times(kernel),
                beyond_one("stride", stride),
                beyond_one("dilation", dilation)
            )
        }
        Op::ConvTranspose { kernel, stride, .. }
        | Op::MaxPool { kernel, stride, .. }
        | Op::AvgPool { kernel, stride, .. } => {
            format!("{}{}", times(kernel), beyond_one("stride", stride))
        }
        Op::UpsampleNearest { scale } | Op::UpsampleLinear { scale, .. } => {
            format!("\u{d7}{}", short(scale))
        }
        _ => String::new(),
    }
}

/// What one voxel of a tensor needs of the input along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sees {
    Nothing,
    Between(i64, i64),
}

/// How far a tensor sees along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sides {
    Of(usize, usize),
    Unbounded,
}

/// What each position of a tensor within one period of the total stride needs; nothing where there is no bound or no grid.
type Seen = Option<Vec<Sees>>;

/// Longer stretches of an operand are taken as everything: no network has them.
const LONGEST: i64 = 1 << 16;

/// The reach of every tensor, followed forward through the graph once for each axis; the same as `reach::of` tells of outputs.
fn reaches(graph: &Graph) -> Vec<Option<Reach>> {
    let none = || vec![None; graph.tensors.len()];
    let Ok(strides) = stride::of(graph) else {
        return none();
    };
    let Ok(total) = stride::total(graph, &strides) else {
        return none();
    };
    let sides: Vec<Vec<Option<Sides>>> = total
        .iter()
        .enumerate()
        .map(|(axis, total)| along(graph, &strides, axis, *total))
        .collect();
    (0..graph.tensors.len())
        .map(|t| {
            let mut reach = Reach::default();
            for axis in &sides {
                let (left, right) = match axis.get(t).copied().flatten()? {
                    Sides::Of(left, right) => (Some(left), Some(right)),
                    Sides::Unbounded => (None, None),
                };
                reach.left.push(left);
                reach.right.push(right);
            }
            Some(reach)
        })
        .collect()
}

/// For each tensor how far it sees; nothing where no grid leads there.
fn along(graph: &Graph, strides: &Strides, axis: usize, total: usize) -> Vec<Option<Sides>> {
    let whole = i64::try_from(total).unwrap_or(1);
    let period = |id: TensorId| -> Option<(i64, i64, i64)> {
        let r = strides.get(id, axis)?;
        let (num, den) = (i64::try_from(r.num).ok()?, i64::try_from(r.den).ok()?);
        let n = whole.checked_mul(den)?;
        (num > 0 && n % num == 0 && n / num <= 4096).then_some((num, den, n / num))
    };
    let mut seen: Vec<Seen> = vec![None; graph.tensors.len()];
    let mut out = vec![None; graph.tensors.len()];
    for id in &graph.inputs {
        if let (Some((_, _, n)), Some(slot)) = (period(*id), seen.get_mut(id.index())) {
            *slot = Some((0..n).map(|p| Sees::Between(p, p)).collect());
        }
    }
    for node in &graph.nodes {
        let Some((num, den, n)) = node.outputs.first().and_then(|id| period(*id)) else {
            continue;
        };
        let operands: Vec<TensorId> = node
            .inputs
            .iter()
            .copied()
            .filter(|id| !graph.is_weight(*id))
            .collect();
        let made: Seen = (0..n)
            .map(|p| voxel(node, &operands, &seen, (axis, p, whole)))
            .collect();
        let sides = made.as_ref().map_or(Sides::Unbounded, |m| {
            let (mut left, mut right) = (0, 0);
            for (p, span) in (0..).zip(m) {
                let Sees::Between(lo, hi) = *span else {
                    continue;
                };
                let first = (p * num).div_euclid(den);
                let last = first.max(((p + 1) * num - 1).div_euclid(den));
                left = left.max(first - lo);
                right = right.max(hi - last);
            }
            let whole = |v: i64| usize::try_from(v).unwrap_or(0);
            Sides::Of(whole(left), whole(right))
        });
        for id in &node.outputs {
            if let (Some(slot), Some(told)) = (seen.get_mut(id.index()), out.get_mut(id.index())) {
                slot.clone_from(&made);
                *told = Some(sides);
            }
        }
    }
    out
}

/// What voxel `p` of a node's output needs; `None` without a bound.
fn voxel(
    node: &Node,
    operands: &[TensorId],
    seen: &[Seen],
    (axis, p, whole): (usize, i64, i64),
) -> Option<Sees> {
    let runs = match through(&node.op, Need::of(vec![(p, p)]), axis) {
        None => return Some(Sees::Nothing),
        Some(Need::Everything) => return None,
        Some(Need::Runs(runs)) => runs,
    };
    if runs.iter().any(|(from, to)| to - from > LONGEST) {
        return None;
    }
    let mut span = Sees::Nothing;
    for id in operands {
        let operand = seen.get(id.index())?.as_ref()?;
        let n = i64::try_from(operand.len()).ok().filter(|n| *n > 0)?;
        for q in runs.iter().flat_map(|(from, to)| *from..=*to) {
            let at = usize::try_from(q.rem_euclid(n)).ok()?;
            let shift = q.div_euclid(n) * whole;
            if let Some(Sees::Between(lo, hi)) = operand.get(at).copied() {
                let (lo, hi) = (lo + shift, hi + shift);
                span = match span {
                    Sees::Nothing => Sees::Between(lo, hi),
                    Sees::Between(a, b) => Sees::Between(a.min(lo), b.max(hi)),
                };
            }
        }
    }
    Some(span)
}

#[cfg(test)]
mod tests {
    use super::super::{facts, preset};
    use super::*;

    #[test]
    fn the_reach_of_output_layers_is_that_of_the_network() {
        for name in preset::names() {
            let graph = preset::load(name).unwrap().graph;
            let told = facts::of(&graph).unwrap();
            let all = reaches(&graph);
            for (id, want) in graph.outputs.iter().zip(&told.reach) {
                let got = all[id.index()].clone().unwrap_or_else(|| Reach {
                    left: vec![None; graph.spatial_dims],
                    right: vec![None; graph.spatial_dims],
                });
                assert_eq!(got, *want, "{name} {}", graph.tensors[id.index()].name);
            }
        }
    }

    #[test]
    fn layers_sum_up_to_the_network() {
        let graph = preset::load("demo-norm").unwrap().graph;
        let (layers, error) = of(&graph, &[64, 64, 32], 1);
        assert!(error.is_none());
        assert_eq!(layers.len(), graph.nodes.len());
        let parameters: u64 = layers.iter().map(|l| l.parameters).sum();
        assert_eq!(parameters, facts::n_parameters(&graph));
        let shapes = shapes::infer(&graph, &[64, 64, 32], 1).unwrap();
        let flops: u64 = layers.iter().filter_map(|l| l.flops).sum();
        assert_eq!(flops, facts::total_flops(&graph, &shapes));
        assert!(
            layers
                .iter()
                .any(|l| l.detail.starts_with("3\u{d7}3\u{d7}3"))
        );
    }

    #[test]
    fn a_window_that_does_not_work_leaves_names_and_says_why() {
        let graph = preset::load("demo").unwrap().graph;
        let (layers, error) = of(&graph, &[64, 64], 1);
        assert!(error.unwrap().to_string().contains("3 spatial sizes"));
        assert!(
            layers
                .iter()
                .all(|l| l.values.is_none() && !l.name.is_empty())
        );
    }
}
