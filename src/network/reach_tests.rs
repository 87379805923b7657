//! Reach is exact, not only safe: positive weights, linear layers, every input voxel poked.

use super::builder::{Builder, Conv};
use super::graph::{Graph, Op, TensorId};
use super::naive_tensor::{self, Dense};
use super::size::Size;
use super::tensor_op::{Binary, Coordinates, Cut, Nearest, PoolKind, ResizeTo, TensorOp};
use super::{axes, facts, shapes};
use proptest::prelude::*;
use rand::SeedableRng as _;

const LENGTH: usize = 432;

struct Dice(rand_pcg::Pcg64Mcg);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0.next_u32() as usize % n
    }
}

/// A random network along one axis, with skips around a step down and up.
fn random_graph(seed: u64) -> Graph {
    let mut dice = Dice(rand_pcg::Pcg64Mcg::seed_from_u64(seed));
    let mut b = Builder::new("random", 1);
    let x = b.input("image", 1);
    let x = stack(&mut b, x, &mut dice, 2);
    if dice.below(3) == 0 {
        let down = b.conv("half", x, Conv::new(1, &[3]).stride(&[2]));
        b.output(down);
    }
    b.output(x);
    let mut graph = b.finish();
    graph.example = vec![1, LENGTH];
    graph
}

fn stack(b: &mut Builder, mut x: TensorId, dice: &mut Dice, depth: usize) -> TensorId {
    for _ in 0..dice.below(3) {
        x = same_size(b, x, dice);
    }
    if depth == 0 {
        return x;
    }
    let skip = x;
    let factor = 2 + dice.below(2);
    x = down(b, x, dice, factor);
    x = stack(b, x, dice, depth - 1);
    x = up(b, x, dice, factor);
    if dice.below(4) > 0 {
        x = b.add("a", x, skip, false);
    }
    same_size(b, x, dice)
}

/// A step to a size `s` times smaller.
fn down(b: &mut Builder, x: TensorId, dice: &mut Dice, s: usize) -> TensorId {
    let (kernel, pool) = (s + dice.below(4), [vec![s], vec![s]]);
    let begin = dice.below(kernel - s + 1);
    let [k, stride] = pool;
    match dice.below(6) {
        0 | 1 => {
            let op = Op::Conv {
                kernel: vec![kernel],
                stride,
                pad_begin: vec![begin],
                pad_end: vec![kernel - s - begin],
                dilation: vec![1],
                groups: 1,
            };
            let weight = b.parameter(format!("w{kernel}"), vec![1, 1, kernel]);
            b.node("down", op, vec![x, weight], 1)
        }
        2 => b.max_pool("p", x, &k, &stride, &[0]),
        3 => {
            let op = Op::AvgPool {
                kernel: vec![s + 2],
                stride,
                pad_begin: vec![1],
                pad_end: vec![1],
                count_padding: true,
            };
            b.node("avg", op, vec![x], 1)
        }
        4 => {
            let op = TensorOp::Pool {
                kind: PoolKind::Max,
                kernel: vec![3],
                stride,
                pad_begin: vec![2],
                pad_end: vec![2],
                dilation: vec![2],
                ceil: true,
            };
            let y = b.node("dilated", Op::Tensor(op), vec![x], 1);
            // One voxel too many where the size is odd by it: cut off.
            let end = Size::both(super::size::SizeOp::Div, Size::Of(x, 2), fixed(s)).unwrap();
            cut(b, y, Size::Fixed(0), end, 1)
        }
        _ => {
            let start = dice.below(s);
            let step = i64::try_from(s).unwrap();
            cut(b, x, fixed(start), Size::Fixed(i64::MAX), step)
        }
    }
}

fn fixed(n: usize) -> Size {
    Size::Fixed(signed(n))
}

fn cut(b: &mut Builder, x: TensorId, start: Size, end: Size, step: i64) -> TensorId {
    let cuts = vec![Cut {
        axis: 2,
        start,
        end,
        step,
    }];
    b.node("slice", Op::Tensor(TensorOp::Slice { cuts }), vec![x], 1)
}

/// A step to a size `s` times larger.
fn up(b: &mut Builder, x: TensorId, dice: &mut Dice, s: usize) -> TensorId {
    match dice.below(7) {
        0 => b.upsample_nearest("u", x, &[s]),
        1 => b.upsample_linear("l", x, &[s]),
        2 => b.conv_transpose("t", x, 1, &[s], false),
        3 | 4 => {
            // Kernel, dilation and padding so that the size is s times the input's.
            let (kernel, dilation) = (2 + dice.below(3), 1 + dice.below(2));
            let span = (kernel - 1) * dilation + 1;
            let (begin, extra) = if span >= s {
                (dice.below(span - s + 1), 0)
            } else {
                (0, s - span)
            };
            let op = Op::ConvTranspose {
                kernel: vec![kernel],
                stride: vec![s],
                pad_begin: vec![begin],
                pad_end: vec![span + extra - s - begin],
                output_pad: vec![extra],
                dilation: vec![dilation],
                groups: 1,
            };
            let weight = b.parameter(format!("t{kernel}"), vec![1, 1, kernel]);
            b.node("transposed", op, vec![x, weight], 1)
        }
        kind => {
            let coordinates = [
                Coordinates::HalfPixel,
                Coordinates::Asymmetric,
                Coordinates::PytorchHalfPixel,
            ][dice.below(3)];
            let rounding = [
                Nearest::Floor,
                Nearest::Ceil,
                Nearest::RoundPreferFloor,
                Nearest::RoundPreferCeil,
            ][dice.below(4)];
            let op = TensorOp::Resize {
                to: ResizeTo::Ratios(vec![(s, 1)]),
                coordinates,
                nearest: (kind == 5).then_some(rounding),
            };
            let y = b.node("resize", Op::Tensor(op), vec![x], 1);
            let turn = |b: &mut Builder, x| {
                let op = TensorOp::Transpose {
                    perm: vec![0, 2, 1],
                };
                b.node("turn", Op::Tensor(op), vec![x], 1)
            };
            let y = turn(b, y);
            turn(b, y)
        }
    }
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
    let mut values: Vec<Vec<f64>> = shapes
        .iter()
        .map(|s| vec![0.0; s.iter().product()])
        .collect();
    values[graph.inputs[0].index()] = input.to_vec();
    for node in &graph.nodes {
        let x = values[node.inputs[0].index()].clone();
        let get = |i: i64| usize::try_from(i).ok().and_then(|i| x.get(i)).copied();
        let n = values[node.outputs[0].index()].len();
        if let Op::Tensor(op) = &node.op {
            let x = Dense {
                shape: shapes[node.inputs[0].index()].clone(),
                data: x,
            };
            let out = node.outputs[0].index();
            values[out] = naive_tensor::run(op, &[x], &shapes[out], &shapes);
            continue;
        }
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
                Op::AvgPool { kernel, stride, .. } => (0..kernel[0])
                    .filter_map(|k| get(o * signed(stride[0]) + signed(k) - 1))
                    .sum(),
                Op::ConvTranspose {
                    kernel,
                    stride,
                    pad_begin,
                    dilation,
                    ..
                } => (0..kernel[0])
                    .filter_map(|k| {
                        let at = o + signed(pad_begin[0]) - signed(k * dilation[0]);
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
    #![proptest_config(crate::random_cases::random_cases(40))]

    #[test]
    fn poking_the_edge_of_the_reach_changes_the_output_and_one_voxel_beyond_does_not(seed in any::<u64>()) {
        let graph = random_graph(seed);
        let facts = facts::of(&graph).unwrap();
        let told: Vec<_> = facts.reach.iter().map(|r| (r.left[0].unwrap(), r.right[0].unwrap())).collect();
        prop_assert!(told.iter().all(|(l, r)| l.max(r) + 20 < LENGTH / 2));
        prop_assert_eq!(told, poked(&graph, &facts.output_strides, facts.total_stride[0]), "{:#?}", graph.nodes);
    }
}

#[test]
fn a_constant_that_varies_along_an_axis_leaves_the_reach_along_it_without_bound() {
    for (shape, bound) in [([1, 1, LENGTH], None), ([1, 1, 1], Some(0))] {
        let mut b = Builder::new("places", 1);
        let x = b.input("image", 1);
        let places = b.parameter("places".to_owned(), shape.to_vec());
        let op = Op::Tensor(TensorOp::Binary(Binary::Add));
        let y = b.node("add", op, vec![x, places], 1);
        b.output(y);
        let mut graph = b.finish();
        graph.example = vec![1, LENGTH];
        let reach = facts::of(&graph).unwrap().reach_max();
        assert_eq!((reach.left, reach.right), (vec![bound], vec![bound]));
    }
}

#[test]
fn a_scale_whose_size_is_rounded_is_no_plain_ratio() {
    let op = |scale| TensorOp::Resize {
        to: ResizeTo::Scales(vec![scale]),
        coordinates: Coordinates::HalfPixel,
        nearest: None,
    };
    assert_eq!(axes::ratio(&op(2.04), 2, (24, 48)), None);
    assert_eq!(axes::ratio(&op(2.0), 2, (24, 48)), Some((1, 2)));
}

#[test]
fn an_activation_of_a_constant_alone_is_refused_by_name_and_not_by_a_panic() {
    let mut b = Builder::new("constant", 3);
    let x = b.input("image", 1);
    let y = b.conv("conv", x, Conv::new(1, &[3; 3]));
    let weight = b.parameter("scale".to_owned(), vec![1, 1, 8, 8, 8]);
    let act = Op::Activation(super::graph::Act::Relu);
    let odd = b.node("odd", act, vec![weight], 1);
    b.output(y);
    b.output(odd);
    let error = shapes::infer(&b.finish(), &[8; 3], 1).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("\"odd\"") && error.contains("constants"),
        "{error}"
    );
}
