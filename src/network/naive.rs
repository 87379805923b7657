//! A slow, plain evaluation of a graph in f64 for tests: one loop an operation, nothing shared with any engine.

use super::graph::{Act, Function, Graph, Node, Op, PadMode, TensorId, TensorKind};
use super::naive_tensor::{self, Dense};
use super::shapes;
use super::weights::Weights;
use std::path::Path;

struct Values {
    shape: [usize; 5],
    data: Vec<f64>,
}

impl Values {
    fn at(&self, [n, c, x, y, z]: [usize; 5]) -> usize {
        let [_, cs, xs, ys, zs] = self.shape;
        (((n * cs + c) * xs + x) * ys + y) * zs + z
    }

    /// The value, or `None` outside of space.
    fn get(&self, n: usize, c: usize, at: [i64; 3]) -> Option<f64> {
        let [x, y, z] = at.map(|v| usize::try_from(v).ok());
        let (x, y, z) = (x?, y?, z?);
        (x < self.shape[2] && y < self.shape[3] && z < self.shape[4])
            .then(|| self.data[self.at([n, c, x, y, z])])
    }
}

/// The outputs of a graph. Spatial operations need three spatial axes.
pub(crate) fn forward(
    graph: &Graph,
    weights: &Weights,
    input: &[f32],
    batch: usize,
    spatial: &[usize],
) -> Vec<Vec<f64>> {
    let shapes = shapes::infer(graph, spatial, batch).unwrap();
    let mut all: Vec<Dense> = (0u32..)
        .map(TensorId)
        .zip(&graph.tensors)
        .map(|(id, t)| Dense {
            shape: shapes[id.index()].clone(),
            data: match &t.kind {
                TensorKind::Weight { .. } => weights
                    .get(id)
                    .unwrap()
                    .iter()
                    .map(|v| f64::from(*v))
                    .collect(),
                _ => Vec::new(),
            },
        })
        .collect();
    all[graph.inputs[0].index()].data = input.iter().map(|v| f64::from(*v)).collect();
    for node in &graph.nodes {
        let out = node.outputs[0].index();
        let data = match &node.op {
            Op::Tensor(op) => {
                let inputs: Vec<Dense> =
                    node.inputs.iter().map(|i| all[i.index()].clone()).collect();
                naive_tensor::run(op, &inputs, &shapes[out], &shapes)
            }
            Op::Activation(act) => all[node.inputs[0].index()]
                .data
                .iter()
                .map(|v| pointwise(*act, *v))
                .collect(),
            Op::Add | Op::Mul => {
                let [a, b] = [0, 1].map(|i| &all[node.inputs[i].index()].data);
                let pairs = a.iter().zip(b);
                match node.op {
                    Op::Add => pairs.map(|(a, b)| a + b).collect(),
                    _ => pairs.map(|(a, b)| a * b).collect(),
                }
            }
            _ => {
                let inputs: Vec<Values> =
                    node.inputs.iter().map(|i| map(&all[i.index()])).collect();
                run(node, &inputs, all[out].shape.clone().try_into().unwrap())
            }
        };
        all[out].data = data;
    }
    graph
        .outputs
        .iter()
        .map(|o| all[o.index()].data.clone())
        .collect()
}

/// A tensor as a map of five axes; weights as a list.
fn map(x: &Dense) -> Values {
    Values {
        shape: x.shape.clone().try_into().unwrap_or([1; 5]),
        data: x.data.clone(),
    }
}

fn run(node: &Node, all: &[Values], shape: [usize; 5]) -> Vec<f64> {
    let input = |i: usize| &all[i];
    let weight = |i: usize| all.get(i).map(|x| &x.data);
    let x = input(0);
    let per_channel = |i: usize, c: usize, or: f64| {
        weight(i).map_or(or, |w| if w.len() == 1 { w[0] } else { w[c] })
    };
    match &node.op {
        Op::Conv { .. } => conv(node, x, (weight(1).unwrap(), weight(2)), shape),
        Op::ConvTranspose { .. } => transposed(node, x, (weight(1).unwrap(), weight(2)), shape),
        Op::BatchNorm { eps } => each(shape, |n, c, o| {
            let (g, b, m, v) = (
                per_channel(1, c, 1.0),
                per_channel(2, c, 0.0),
                per_channel(3, c, 0.0),
                per_channel(4, c, 1.0),
            );
            (x.data[x.at([n, c, o[0], o[1], o[2]])] - m) / (v + f64::from(*eps)).sqrt() * g + b
        }),
        Op::InstanceNorm { eps } => norm(x, x.shape[1], f64::from(*eps), |c| {
            (per_channel(1, c, 1.0), per_channel(2, c, 0.0))
        }),
        Op::GroupNorm { groups, eps } => norm(x, *groups, f64::from(*eps), |c| {
            (per_channel(1, c, 1.0), per_channel(2, c, 0.0))
        }),
        Op::GlobalAvgPool => {
            let voxels = x.data.len() / (x.shape[0] * x.shape[1]);
            x.data
                .chunks(voxels)
                .map(|c| c.iter().sum::<f64>() / voxels as f64)
                .collect()
        }
        Op::Softmax => each(shape, |n, c, o| {
            let of = |c: usize| x.data[x.at([n, c, o[0], o[1], o[2]])];
            let sum: f64 = (0..shape[1]).map(|c| of(c).exp()).sum();
            of(c).exp() / sum
        }),
        Op::PRelu => each(shape, |n, c, o| {
            let v = x.data[x.at([n, c, o[0], o[1], o[2]])];
            if v > 0.0 {
                v
            } else {
                v * per_channel(1, c, 0.0)
            }
        }),
        Op::MaxPool {
            kernel,
            stride,
            pad_begin,
            ..
        } => each(shape, |n, c, o| {
            taps(kernel)
                .filter_map(|k| {
                    x.get(
                        n,
                        c,
                        [0, 1, 2].map(|a| signed(o[a] * stride[a] + k[a]) - signed(pad_begin[a])),
                    )
                })
                .fold(f64::MIN, f64::max)
        }),
        Op::AvgPool {
            kernel,
            stride,
            pad_begin,
            count_padding,
            ..
        } => each(shape, |n, c, o| {
            let met: Vec<f64> = taps(kernel)
                .filter_map(|k| {
                    x.get(
                        n,
                        c,
                        [0, 1, 2].map(|a| signed(o[a] * stride[a] + k[a]) - signed(pad_begin[a])),
                    )
                })
                .collect();
            let all = kernel.iter().product::<usize>();
            let n = if *count_padding { all } else { met.len() };
            met.iter().sum::<f64>() / n as f64
        }),
        Op::UpsampleNearest { scale } => each(shape, |n, c, o| {
            x.get(n, c, [0, 1, 2].map(|a| signed(o[a] / scale[a])))
                .unwrap()
        }),
        Op::UpsampleLinear {
            scale,
            align_corners,
        } => each(shape, |n, c, o| {
            linear(x, (n, c, o), scale, (*align_corners, shape))
        }),
        Op::Pad { begin, mode, .. } => each(shape, |n, c, o| {
            let at = [0, 1, 2].map(|a| signed(o[a]) - signed(begin[a]));
            let edge = [0, 1, 2].map(|a| at[a].clamp(0, signed(x.shape[a + 2]) - 1));
            match mode {
                PadMode::Constant { value } => x.get(n, c, at).unwrap_or_else(|| f64::from(*value)),
                PadMode::Edge => x.get(n, c, edge).unwrap(),
                PadMode::Wrap => x
                    .get(
                        n,
                        c,
                        [0, 1, 2].map(|a| at[a].rem_euclid(signed(x.shape[a + 2]))),
                    )
                    .unwrap(),
                PadMode::Reflect => x.get(n, c, [0, 1, 2].map(|a| 2 * edge[a] - at[a])).unwrap(),
            }
        }),
        Op::Concat => each(shape, |n, mut c, o| {
            for i in 0..node.inputs.len() {
                let part = input(i);
                if c < part.shape[1] {
                    return part.data[part.at([n, c, o[0], o[1], o[2]])];
                }
                c -= part.shape[1];
            }
            panic!("more channels than inputs")
        }),
        op => panic!("{op:?} has no plain evaluation"),
    }
}

/// Row by row, so that the reference networks take seconds and not minutes.
fn conv(
    node: &Node,
    x: &Values,
    (w, bias): (&Vec<f64>, Option<&Vec<f64>>),
    shape: [usize; 5],
) -> Vec<f64> {
    let Op::Conv {
        kernel,
        stride,
        pad_begin,
        dilation,
        groups,
        ..
    } = &node.op
    else {
        panic!("not a convolution")
    };
    let (inner, outer) = (x.shape[1] / groups, shape[1] / groups);
    let mut out = Vec::with_capacity(shape.iter().product());
    for (n, c) in (0..shape[0]).flat_map(|n| (0..shape[1]).map(move |c| (n, c))) {
        for (ox, oy) in (0..shape[2]).flat_map(|x| (0..shape[3]).map(move |y| (x, y))) {
            let mut row = vec![bias.map_or(0.0, |b| b[c]); shape[4]];
            for (t, k) in taps(kernel).enumerate() {
                let place = |o: usize, a: usize| {
                    signed(o * stride[a] + k[a] * dilation[a]) - signed(pad_begin[a])
                };
                for i in 0..inner {
                    let from = c / outer * inner + i;
                    if x.get(n, from, [place(ox, 0), place(oy, 1), 0]).is_none() {
                        continue;
                    }
                    let weight = w[(c * inner + i) * kernel.iter().product::<usize>() + t];
                    let at = x.at([
                        n,
                        from,
                        usize::try_from(place(ox, 0)).unwrap(),
                        usize::try_from(place(oy, 1)).unwrap(),
                        0,
                    ]);
                    let source = &x.data[at..at + x.shape[4]];
                    for (o, sum) in row.iter_mut().enumerate() {
                        if let Some(v) = usize::try_from(place(o, 2))
                            .ok()
                            .and_then(|z| source.get(z))
                        {
                            *sum += v * weight;
                        }
                    }
                }
            }
            out.extend(row);
        }
    }
    out
}

fn transposed(
    node: &Node,
    x: &Values,
    (w, bias): (&Vec<f64>, Option<&Vec<f64>>),
    shape: [usize; 5],
) -> Vec<f64> {
    let Op::ConvTranspose {
        kernel,
        stride,
        pad_begin,
        dilation,
        groups,
        ..
    } = &node.op
    else {
        panic!("not transposed")
    };
    let (inner, outer) = (x.shape[1] / groups, shape[1] / groups);
    each(shape, |n, c, o| {
        let mut sum = bias.map_or(0.0, |b| b[c]);
        for (t, k) in taps(kernel).enumerate() {
            let at = [0, 1, 2].map(|a| signed(o[a] + pad_begin[a]) - signed(k[a] * dilation[a]));
            if (0..3).any(|a| at[a].rem_euclid(signed(stride[a])) != 0) {
                continue;
            }
            let at = [0, 1, 2].map(|a| at[a].div_euclid(signed(stride[a])));
            for i in 0..inner {
                let from = c / outer * inner + i;
                if let Some(v) = x.get(n, from, at) {
                    sum += v * w[(from * outer + c % outer) * kernel.iter().product::<usize>() + t];
                }
            }
        }
        sum
    })
}

fn each(shape: [usize; 5], f: impl Fn(usize, usize, [usize; 3]) -> f64) -> Vec<f64> {
    let mut out = Vec::with_capacity(shape.iter().product());
    for n in 0..shape[0] {
        for c in 0..shape[1] {
            for x in 0..shape[2] {
                for y in 0..shape[3] {
                    for z in 0..shape[4] {
                        out.push(f(n, c, [x, y, z]));
                    }
                }
            }
        }
    }
    out
}

fn taps(kernel: &[usize]) -> impl Iterator<Item = [usize; 3]> {
    let [a, b, c] = [kernel[0], kernel[1], kernel[2]];
    (0..a * b * c).map(move |t| [t / (b * c), t / c % b, t % c])
}

fn norm(x: &Values, groups: usize, eps: f64, affine: impl Fn(usize) -> (f64, f64)) -> Vec<f64> {
    let per_group = x.data.len() / (x.shape[0] * groups);
    let per_channel = per_group * groups / x.shape[1];
    let mut out = Vec::with_capacity(x.data.len());
    for (i, block) in x.data.chunks(per_group).enumerate() {
        let mean = block.iter().sum::<f64>() / per_group as f64;
        let var = block.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / per_group as f64;
        for (j, v) in block.iter().enumerate() {
            let channel = (i % groups) * (per_group / per_channel) + j / per_channel;
            let (scale, shift) = affine(channel);
            out.push((v - mean) / (var + eps).sqrt() * scale + shift);
        }
    }
    out
}

fn pointwise(act: Act, v: f64) -> f64 {
    match act {
        Act::Relu => v.max(0.0),
        Act::LeakyRelu { slope } => {
            if v > 0.0 {
                v
            } else {
                v * f64::from(slope)
            }
        }
        Act::Sigmoid => 1.0 / (1.0 + (-v).exp()),
        Act::Tanh => v.tanh(),
        Act::Silu => v / (1.0 + (-v).exp()),
        Act::Elu { alpha } => {
            if v > 0.0 {
                v
            } else {
                f64::from(alpha) * v.exp_m1()
            }
        }
        Act::Gelu => v * (1.0 + erf(v / 2f64.sqrt())) / 2.0,
        Act::Affine { factor, shift } => v * f64::from(factor) + f64::from(shift),
        Act::Clip { low, high } => v.clamp(f64::from(low), f64::from(high)),
        Act::Power { exponent } => v.powf(f64::from(exponent)),
        Act::Function(Function::Sqrt) => v.sqrt(),
        Act::Function(Function::Exp) => v.exp(),
        Act::Function(Function::Erf) => erf(v),
        Act::Function(Function::Abs) => v.abs(),
        Act::Function(Function::Reciprocal) => 1.0 / v,
        Act::Function(Function::Neg) => -v,
        Act::Function(Function::Log) => v.ln(),
        Act::Function(Function::Floor) => v.floor(),
        Act::Function(Function::Ceil) => v.ceil(),
        Act::Function(Function::Round) => v.round_ties_even(),
        Act::Function(Function::Sign) if v == 0.0 => 0.0,
        Act::Function(Function::Sign) => v.signum(),
        Act::Function(Function::Sin) => v.sin(),
        Act::Function(Function::Cos) => v.cos(),
        Act::Function(Function::Not) => f64::from(u8::from(v == 0.0)),
        Act::Function(Function::Truth) => f64::from(u8::from(v != 0.0)),
        Act::Function(Function::Truncate) => v.trunc(),
        Act::Function(Function::IsNan) => f64::from(u8::from(v.is_nan())),
        act => panic!("{act:?} has no plain evaluation"),
    }
}

/// The error function by its series, for arguments where that converges; 1 beyond.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.5 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        let n = f64::from(n);
        term *= -x * x / n;
        sum += term / (2.0 * n + 1.0);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn linear(
    x: &Values,
    (n, c, o): (usize, usize, [usize; 3]),
    scale: &[usize],
    (corners, shape): (bool, [usize; 5]),
) -> f64 {
    let place = [0, 1, 2].map(|a| {
        let (small, large) = (x.shape[a + 2] as f64, shape[a + 2] as f64);
        let at = if corners {
            o[a] as f64 * (small - 1.0) / (large - 1.0)
        } else {
            (o[a] as f64 + 0.5) / scale[a] as f64 - 0.5
        };
        at.clamp(0.0, small - 1.0)
    });
    let mut sum = 0.0;
    for k in taps(&[2, 2, 2]) {
        let mut share = 1.0;
        let mut at = [0i64; 3];
        for a in 0..3 {
            let floor = place[a].floor();
            let rest = place[a] - floor;
            share *= if k[a] == 1 { rest } else { 1.0 - rest };
            at[a] = (0..signed(x.shape[a + 2]))
                .find(|i| *i as f64 >= floor)
                .unwrap()
                + signed(k[a]);
        }
        if share > 0.0 {
            sum += share * x.get(n, c, at).unwrap();
        }
    }
    sum
}

fn signed(n: usize) -> i64 {
    i64::try_from(n).unwrap()
}

/// The largest difference from what was expected of one output; not a number where any value is none.
pub(crate) fn worst(out: &[f64], expected: &[f32]) -> f64 {
    assert_eq!(out.len(), expected.len());
    out.iter()
        .zip(expected)
        .map(|(a, b)| (a - f64::from(*b)).abs())
        .fold(0.0, |w: f64, d| if d > w || d.is_nan() { d } else { w })
}

/// Shape and values of a `.npy` file.
pub(crate) fn npy(path: &Path) -> (Vec<usize>, Vec<f32>) {
    let bytes = std::fs::read(path).unwrap();
    let file = npyz::NpyFile::new(&bytes[..]).unwrap();
    let shape = file
        .shape()
        .iter()
        .map(|d| usize::try_from(*d).unwrap())
        .collect();
    (shape, file.into_vec().unwrap())
}
