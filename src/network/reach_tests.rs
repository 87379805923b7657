//! Reach is exact, not only safe: positive weights, linear layers, every input voxel poked.

use super::builder::{Builder, Conv};
use super::graph::{Graph, Op, TensorId};
use super::{facts, shapes};
use proptest::prelude::*;
use rand::SeedableRng as _;

const LENGTH: usize = 384;

struct Dice(rand_pcg::Pcg64Mcg);

impl Dice {
    fn below(&mut self, n: u32) -> usize {
        (self.0.next_u32() % n) as usize
    }
}

/// A random network along one axis, with skips around a step down and up.
fn random_graph(seed: u64) -> Graph {
    let mut dice = Dice(rand_pcg::Pcg64Mcg::seed_from_u64(seed));
    let mut b = Builder::new("random", 1);
    let x = b.input("image", 1);
    let x = stack(&mut b, x, &mut dice, 2);
    if dice.below(3) == 0 {
        let down = b.conv("down", x, Conv::new(1, &[3]).stride(&[2]));
        b.output(down);
    }
    b.output(x);
    b.finish()
}

fn stack(b: &mut Builder, mut x: TensorId, dice: &mut Dice, depth: usize) -> TensorId {
    for _ in 0..dice.below(3) {
        x = same_size(b, x, dice);
    }
    if depth == 0 {
        return x;
    }
    let skip = x;
    x = match dice.below(3) {
        0 => b.conv("c", x, Conv::new(1, &[3]).stride(&[2])),
        1 => b.conv("d", x, Conv::new(1, &[4]).stride(&[2]).pad(&[1])),
        _ => b.max_pool("p", x, &[2], &[2], &[0]),
    };
    x = stack(b, x, dice, depth - 1);
    x = match dice.below(4) {
        0 => b.upsample_nearest("u", x, &[2]),
        1 => b.upsample_linear("l", x, &[2]),
        2 => b.conv_transpose("t", x, 1, &[2], false),
        _ => b.conv_transpose_padded("t3", x, (1, false), [&[3], &[2], &[1], &[1]]),
    };
    if dice.below(4) > 0 {
        x = b.add("a", x, skip, false);
    }
    same_size(b, x, dice)
}

fn same_size(b: &mut Builder, x: TensorId, dice: &mut Dice) -> TensorId {
    let (kernel, dilation) = (1 + dice.below(3) * 2, 1 + dice.below(2));
    let (begin, span) = (dice.below(3), (kernel - 1) * dilation);
    let begin = begin.min(span);
    let op = Op::Conv {
        kernel: vec![kernel],
        stride: vec![1],
        pad_begin: vec![begin],
        pad_end: vec![span - begin],
        dilation: vec![dilation],
        groups: 1,
    };
    let weight = b.parameter(format!("w{kernel}"), vec![1, 1, kernel]);
    b.node("same", op, vec![x, weight], 1)
}

/// What each output voxel depends on: the first and last input voxel that changes it.
fn forward(graph: &Graph, input: &[f64]) -> Vec<Vec<f64>> {
    let shapes = shapes::infer(graph, &[input.len()], 1).unwrap();
    let mut values: Vec<Vec<f64>> = shapes.iter().map(|s| vec![0.0; s[s.len() - 1]]).collect();
    values[graph.inputs[0].index()] = input.to_vec();
    for node in &graph.nodes {
        let x = values[node.inputs[0].index()].clone();
        let get = |i: i64| usize::try_from(i).ok().and_then(|i| x.get(i)).copied();
        let n = values[node.outputs[0].index()].len();
        let made: Vec<f64> = (0..i64::try_from(n).unwrap())
            .map(|o| match &node.op {
                Op::Conv {
                    kernel,
                    stride,
                    pad_begin,
                    dilation,
                    ..
                } => (0..kernel[0])
                    .filter_map(|k| {
                        get(o * signed(stride[0]) - signed(pad_begin[0]) + signed(k * dilation[0]))
                    })
                    .sum(),
                Op::MaxPool { kernel, stride, .. } => (0..kernel[0])
                    .filter_map(|k| get(o * signed(stride[0]) + signed(k)))
                    .fold(f64::MIN, f64::max),
                Op::ConvTranspose {
                    kernel,
                    stride,
                    pad_begin,
                    ..
                } => (0..kernel[0])
                    .filter_map(|k| {
                        let at = o + signed(pad_begin[0]) - signed(k);
                        (at.rem_euclid(signed(stride[0])) == 0)
                            .then(|| get(at.div_euclid(signed(stride[0]))))
                            .flatten()
                    })
                    .sum(),
                Op::UpsampleNearest { scale } => get(o.div_euclid(signed(scale[0]))).unwrap(),
                Op::UpsampleLinear { scale, .. } => {
                    let at = (o as f64 + 0.5) / scale[0] as f64 - 0.5;
                    let first = at.floor();
                    let i = (0..signed(n)).find(|i| *i as f64 >= first).unwrap();
                    let share = at - first;
                    get(i).unwrap_or(0.0) * (1.0 - share) + get(i + 1).unwrap_or(0.0) * share
                }
                Op::Add => {
                    x[usize::try_from(o).unwrap()]
                        + values[node.inputs[1].index()][usize::try_from(o).unwrap()]
                }
                op => panic!("no {op:?} in these networks"),
            })
            .collect();
        values[node.outputs[0].index()] = made;
    }
    graph
        .outputs
        .iter()
        .map(|o| values[o.index()].clone())
        .collect()
}

fn signed(n: usize) -> i64 {
    i64::try_from(n).unwrap()
}

/// Left and right reach of each output as poking shows it.
fn poked(graph: &Graph, strides: &[Vec<usize>], total: usize) -> Vec<(usize, usize)> {
    let rest = vec![1.0; LENGTH];
    let before = forward(graph, &rest);
    let mut worst = vec![(0, 0); before.len()];
    // One cell of the total stride in the middle holds every phase.
    let middle = LENGTH / 2 / total * total;
    for at in 0..LENGTH {
        let mut input = rest.clone();
        input[at] = 1e6;
        for ((was, is), (stride, worst)) in before
            .iter()
            .zip(forward(graph, &input))
            .zip(strides.iter().zip(&mut worst))
        {
            let stride = stride[0];
            for o in middle / stride..(middle + total) / stride {
                if was[o] != is[o] {
                    let (first, last) = (o * stride, o * stride + stride - 1);
                    worst.0 = worst.0.max(first.saturating_sub(at));
                    worst.1 = worst.1.max(at.saturating_sub(last));
                }
            }
        }
    }
    worst
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn poking_the_edge_of_the_reach_changes_the_output_and_one_voxel_beyond_does_not(seed in any::<u64>()) {
        let graph = random_graph(seed);
        let facts = facts::of(&graph).unwrap();
        let told: Vec<_> = facts.reach.iter().map(|r| (r.left[0].unwrap(), r.right[0].unwrap())).collect();
        prop_assert!(told.iter().all(|(l, r)| l.max(r) + 20 < LENGTH / 2));
        prop_assert_eq!(told, poked(&graph, &facts.output_strides, facts.total_stride[0]), "{:#?}", graph.nodes);
    }
}
