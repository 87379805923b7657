//! Operators against a naive f64 reference, the same bits on every path, exact windows, and the arena to the byte.

use super::super::{Engine as _, Tensor, forward};
use super::{CpuEngine, Isa};
use crate::jobs::Control;
use crate::memory::{Precision, schedule};
use crate::network::builder::{Builder, Conv};
use crate::network::size::Size;
use crate::network::tensor_op::{Cut, Reduce, TensorOp};
use crate::network::{Act, Graph, Op, TensorId, Weights, naive};
use crate::units::Bytes;
use proptest::prelude::*;
use std::sync::Arc;

/// Repeatable values between -1 and 1.
fn values(n: usize, seed: u64) -> Vec<f32> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            (s >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
        })
        .collect()
}

fn random_weights(graph: &Graph, seed: u64) -> Weights {
    let mut weights = Weights::default();
    for (id, tensor) in graph.weights() {
        let crate::network::TensorKind::Weight { shape, .. } = &tensor.kind else {
            continue;
        };
        let n = shape.iter().product();
        let mut v = values(n, seed + u64::from(id.0));
        if tensor.name.ends_with("running_var") {
            for x in &mut v {
                *x = x.abs() + 0.1;
            }
        }
        weights.insert(id, v.into());
    }
    weights
}

/// An engine of one thread for each instruction set of this machine.
fn each_isa() -> Vec<(Isa, CpuEngine)> {
    let with = |isa| (isa, CpuEngine::with_isa(1, isa).unwrap());
    Isa::here().into_iter().map(with).collect()
}

fn run(graph: &Graph, weights: &Weights, input: &Tensor, engine: &mut CpuEngine) -> Vec<Tensor> {
    let graph = Arc::new(graph.clone());
    let out = forward(engine, &graph, weights, input, 1, &Control::new()).unwrap();
    assert_eq!(out.memory.planned, out.memory.allocated);
    assert_eq!(out.memory.planned, out.memory.measured_peak);
    counts_as_planned(&graph, input, engine);
    out.outputs
}

/// What the engine counted at each step is what the plan says lives there.
fn counts_as_planned(graph: &Graph, input: &Tensor, engine: &CpuEngine) {
    let (batch, spatial) = (input.shape[0], &input.shape[2..]);
    let planned = schedule::plan(graph, spatial, batch, Precision::Fp32).unwrap();
    let live: Vec<Bytes> = planned.timeline.iter().map(|p| p.live).collect();
    assert_eq!(engine.counted(), live, "{}", graph.name);
}

fn input(channels: usize, spatial: &[usize], batch: usize) -> Tensor {
    let shape = [&[batch, channels], spatial].concat();
    Tensor {
        values: values(shape.iter().product(), 7),
        shape,
    }
}

fn bits(t: &[Tensor]) -> Vec<Vec<u32>> {
    t.iter()
        .map(|t| t.values.iter().map(|x| x.to_bits()).collect())
        .collect()
}

/// The geometry of a convolution under test.
#[derive(Clone, Debug)]
struct Case {
    spatial: [usize; 3],
    kernel: [usize; 3],
    stride: [usize; 3],
    pad: [usize; 3],
    dilation: [usize; 3],
    groups: usize,
    ins: usize,
    outs: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let small = |lo: usize, hi: usize| prop::array::uniform3(lo..=hi);
    (
        small(1, 9),
        small(1, 3),
        small(1, 2),
        small(0, 2),
        small(1, 2),
        (1_usize..=2, 1_usize..=3, 1_usize..=13),
    )
        .prop_map(
            |(spatial, kernel, stride, pad, dilation, (groups, ins, outs))| Case {
                spatial,
                kernel,
                stride,
                pad,
                dilation,
                groups,
                ins: ins * groups,
                outs: outs * groups,
            },
        )
}

fn conv_graph(c: &Case) -> Graph {
    let mut b = Builder::new("conv", 3);
    let x = b.input("x", c.ins);
    let mut shape = vec![c.outs, c.ins / c.groups];
    shape.extend(c.kernel);
    let w = b.parameter("w".to_owned(), shape);
    let bias = b.parameter("b".to_owned(), vec![c.outs]);
    let op = Op::Conv {
        kernel: c.kernel.to_vec(),
        stride: c.stride.to_vec(),
        pad_begin: c.pad.to_vec(),
        pad_end: c.pad.to_vec(),
        dilation: c.dilation.to_vec(),
        groups: c.groups,
    };
    let y = b.node("conv", op, vec![x, w, bias], c.outs);
    b.output(y);
    b.finish()
}

fn index(shape: &[usize], at: [usize; 4]) -> usize {
    ((at[0] * shape[2] + at[1]) * shape[3] + at[2]) * shape[4] + at[3]
}

fn naive_conv(c: &Case, x: &Tensor, weights: &Weights, graph: &Graph, shape: &[usize]) -> Vec<f64> {
    let w = &weights.get(graph.find("w").unwrap()).unwrap();
    let bias = &weights.get(graph.find("b").unwrap()).unwrap();
    let (gi, go) = (c.ins / c.groups, c.outs / c.groups);
    let mut out = vec![0.0; shape.iter().product()];
    let [ka, kb, kc] = c.kernel;
    for o in 0..c.outs {
        for i in 0..shape[2] {
            for j in 0..shape[3] {
                for k in 0..shape[4] {
                    let mut sum = f64::from(bias[o]);
                    for tap in 0..ka * kb * kc {
                        let t = [tap / (kb * kc), tap / kc % kb, tap % kc];
                        let at: Vec<Option<usize>> = (0..3)
                            .map(|d| {
                                let p = [i, j, k][d] * c.stride[d] + t[d] * c.dilation[d];
                                p.checked_sub(c.pad[d]).filter(|p| *p < c.spatial[d])
                            })
                            .collect();
                        if let [Some(a), Some(b), Some(e)] = at[..] {
                            for ch in 0..gi {
                                let ic = o / go * gi + ch;
                                sum += f64::from(x.values[index(&x.shape, [ic, a, b, e])])
                                    * f64::from(w[(o * gi + ch) * ka * kb * kc + tap]);
                            }
                        }
                    }
                    out[index(shape, [o, i, j, k])] = sum;
                }
            }
        }
    }
    out
}

fn close(found: &[f32], truth: &[f64], tolerance: f64) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.len(), truth.len());
    for (i, (f, t)) in found.iter().zip(truth).enumerate() {
        prop_assert!(
            (f64::from(*f) - t).abs() <= tolerance * (1.0 + t.abs()),
            "value {} is {}, not {}",
            i,
            f,
            t
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::random_cases::random_cases(160))]

    #[test]
    fn a_convolution_is_what_its_definition_says_on_every_path(c in case()) {
        let fits = (0..3).all(|d| c.spatial[d] + 2 * c.pad[d] > (c.kernel[d] - 1) * c.dilation[d]);
        prop_assume!(fits);
        let graph = conv_graph(&c);
        let weights = random_weights(&graph, 3);
        let x = input(c.ins, &c.spatial, 1);
        let fast = run(&graph, &weights, &x, &mut CpuEngine::new(2).unwrap());
        for (isa, mut engine) in each_isa() {
            let other = run(&graph, &weights, &x, &mut engine);
            prop_assert_eq!(bits(&fast), bits(&other), "{:?} or threads change bits", isa);
        }
        let truth = naive_conv(&c, &x, &weights, &graph, &fast[0].shape);
        close(&fast[0].values, &truth, 1e-5)?;
    }

    #[test]
    fn a_transposed_convolution_is_the_adjoint_of_the_convolution(c in case()) {
        // <conv(x), y> = <x, conv_transposed(y)> with the same weights: holds for any geometry whose sizes match.
        let c = Case { dilation: [1; 3], ..c };
        let out: Vec<usize> = (0..3)
            .map(|d| (c.spatial[d] + 2 * c.pad[d]).checked_sub(c.kernel[d]).map_or(0, |n| n / c.stride[d] + 1))
            .collect();
        prop_assume!(out.iter().all(|n| *n > 0));
        let back: Vec<usize> = (0..3).map(|d| (out[d] - 1) * c.stride[d] + c.kernel[d]).collect();
        let fits = (0..3).all(|d| back[d] > 2 * c.pad[d] && back[d] - 2 * c.pad[d] <= c.spatial[d]);
        prop_assume!(fits);
        let graph = conv_graph(&c);
        let mut weights = random_weights(&graph, 5);
        weights.insert(graph.find("b").unwrap(), vec![0.0; c.outs].into());
        let x = input(c.ins, &c.spatial, 1);
        let forward_map = run(&graph, &weights, &x, &mut CpuEngine::new(1).unwrap());
        let mut b = Builder::new("transposed", 3);
        let y = b.input("y", c.outs);
        let mut shape = vec![c.outs, c.ins / c.groups];
        shape.extend(c.kernel);
        let w = b.parameter("w".to_owned(), shape);
        let op = Op::ConvTranspose {
            kernel: c.kernel.to_vec(),
            stride: c.stride.to_vec(),
            pad_begin: c.pad.to_vec(),
            pad_end: c.pad.to_vec(),
            output_pad: (0..3).map(|d| c.spatial[d] + 2 * c.pad[d] - back[d]).collect(),
            dilation: vec![1; 3],
            groups: c.groups,
        };
        let z = b.node("transposed", op, vec![y, w], c.ins);
        b.output(z);
        let transposed = b.finish();
        let mut same = Weights::default();
        same.insert(transposed.find("w").unwrap(), weights.get(graph.find("w").unwrap()).unwrap().clone());
        let y = input(c.outs, &out, 1);
        let adjoint = run(&transposed, &same, &y, &mut CpuEngine::new(2).unwrap());
        for (isa, mut engine) in each_isa() {
            let other = run(&transposed, &same, &y, &mut engine);
            prop_assert_eq!(bits(&adjoint), bits(&other), "{:?}", isa);
        }
        let dot = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum() };
        let (left, right) = (dot(&forward_map[0].values, &y.values), dot(&x.values, &adjoint[0].values));
        prop_assert!((left - right).abs() < 1e-3 * (1.0 + left.abs()), "{} is not {}", left, right);
    }
}

#[test]
fn long_rows_give_the_same_bits_in_every_instruction_set() {
    // Rows of 12, of 24 and of what is left; one block of 16 channels, two, and a narrow one.
    for (ins, outs, row, stride) in [
        (1, 16, 61, 1),
        (3, 40, 27, 1),
        (16, 48, 40, 2),
        (5, 72, 13, 1),
    ] {
        let c = Case {
            ins,
            outs,
            groups: 1,
            kernel: [3; 3],
            stride: [1, 1, stride],
            pad: [1; 3],
            dilation: [1; 3],
            spatial: [2, 3, row],
        };
        let graph = conv_graph(&c);
        let weights = random_weights(&graph, 17);
        let x = input(c.ins, &c.spatial, 1);
        let made: Vec<_> = each_isa()
            .into_iter()
            .map(|(isa, mut engine)| (isa, run(&graph, &weights, &x, &mut engine)))
            .collect();
        let truth = naive_conv(&c, &x, &weights, &graph, &made[0].1[0].shape);
        close(&made[0].1[0].values, &truth, 1e-5).unwrap();
        for (isa, other) in &made {
            assert_eq!(bits(&made[0].1), bits(other), "{isa:?}, {c:?}");
        }
    }
}

/// A small network with every fusion: folded norm, residual, concat as two sources, pooling, up-sampling, norms over space.
fn everything() -> Graph {
    let mut b = Builder::new("everything", 3);
    let x = b.input("x", 2);
    let c1 = b.conv("c1", x, Conv::k3(12));
    let n1 = b.batch_norm("n1", c1);
    let a1 = b.act("a1", n1, Act::Relu, false);
    let p = b.max_pool("p", a1, &[3, 3, 3], &[2, 2, 2], &[1, 1, 1]);
    let c2 = b.conv("c2", p, Conv::k3(12).no_bias());
    let n2 = b.instance_norm("n2", c2, true);
    let s2 = b.add("s2", n2, p, false);
    let a2 = b.act("a2", s2, Act::LeakyRelu { slope: 0.01 }, false);
    let g = b.conv("g", a2, Conv::k1(12));
    let n3 = b.group_norm("n3", g, 3);
    let up = b.upsample_nearest("up", n3, &[2, 2, 2]);
    let sum = b.add("sum", up, a1, false);
    let t = b.conv_transpose("t", a2, 7, &[2, 2, 2], true);
    let cat = b.concat("cat", &[t, sum]);
    let c3 = b.conv("c3", cat, Conv::k3(3));
    let out = b.act("out", c3, Act::Sigmoid, false);
    let lone = b.batch_norm("lone", sum);
    b.output(out);
    b.output(lone);
    b.finish()
}

/// The same network one node at a time, each in a graph of its own, so that nothing can be fused.
fn node_by_node(graph: &Graph, weights: &Weights, x: &Tensor) -> Vec<Tensor> {
    let mut known: Vec<Option<Tensor>> = vec![None; graph.tensors.len()];
    known[graph.inputs[0].index()] = Some(x.clone());
    let mut engine = CpuEngine::new(2).unwrap();
    for node in &graph.nodes {
        let inputs: Vec<TensorId> = node
            .inputs
            .iter()
            .copied()
            .filter(|t| !graph.is_weight(*t))
            .collect();
        let parts: Vec<&Tensor> = inputs
            .iter()
            .map(|t| known[t.index()].as_ref().unwrap())
            .collect();
        let out = match &node.op {
            Op::Add => {
                let sum = parts[0]
                    .values
                    .iter()
                    .zip(&parts[1].values)
                    .map(|(a, b)| a + b)
                    .collect();
                Tensor {
                    shape: parts[0].shape.clone(),
                    values: sum,
                }
            }
            Op::Concat => {
                let mut shape = parts[0].shape.clone();
                shape[1] = parts.iter().map(|p| p.shape[1]).sum();
                Tensor {
                    shape,
                    values: parts.iter().flat_map(|p| p.values.clone()).collect(),
                }
            }
            _ => {
                let mut one = Builder::new("one", 3);
                let x = one.input("x", parts[0].shape[1]);
                let mut ids = vec![x];
                let mut own = Weights::default();
                for id in node.inputs.iter().filter(|t| graph.is_weight(**t)) {
                    let values = weights.get(*id).unwrap();
                    let tensor = graph.tensor(*id).unwrap();
                    let crate::network::TensorKind::Weight { shape, .. } = &tensor.kind else {
                        panic!("not a weight")
                    };
                    let w = one.parameter(tensor.name.clone(), shape.clone());
                    own.insert(w, values.clone());
                    ids.push(w);
                }
                let y = one.node("n", node.op.clone(), ids, parts[0].shape[1]);
                one.output(y);
                run(&one.finish(), &own, parts[0], &mut engine).remove(0)
            }
        };
        known[node.outputs[0].index()] = Some(out);
    }
    graph
        .outputs
        .iter()
        .map(|o| known[o.index()].clone().unwrap())
        .collect()
}

#[test]
fn fusions_change_no_bit_but_a_folded_batch_norm_which_is_rounded_once() {
    let graph = everything();
    let weights = random_weights(&graph, 11);
    let x = input(2, &[10, 8, 14], 1);
    let fused = run(&graph, &weights, &x, &mut CpuEngine::new(2).unwrap());
    let truth = node_by_node(&graph, &weights, &x);
    for (f, t) in fused.iter().zip(&truth) {
        assert_eq!(f.shape, t.shape);
        let wide: Vec<f64> = t.values.iter().map(|v| f64::from(*v)).collect();
        close(&f.values, &wide, 2e-5).unwrap();
    }
    // Without the batch norm nothing may differ at all.
    let mut plain = graph;
    for node in &mut plain.nodes {
        if matches!(node.op, Op::BatchNorm { .. }) {
            node.op = Op::Activation(Act::LeakyRelu { slope: 0.5 });
            node.inputs.truncate(1);
        }
    }
    let fused = run(&plain, &weights, &x, &mut CpuEngine::new(2).unwrap());
    assert_eq!(bits(&fused), bits(&node_by_node(&plain, &weights, &x)));
}

#[test]
fn threads_batches_and_instruction_sets_change_no_bit() {
    let graph = everything();
    let weights = random_weights(&graph, 13);
    let pair = input(2, &[6, 10, 8], 2);
    let both = run(&graph, &weights, &pair, &mut CpuEngine::new(3).unwrap());
    for (isa, mut engine) in each_isa() {
        let other = run(&graph, &weights, &pair, &mut engine);
        assert_eq!(bits(&both), bits(&other), "{isa:?}");
    }
    let half = pair.values.len() / 2;
    let second = Tensor {
        shape: vec![1, 2, 6, 10, 8],
        values: pair.values[half..].to_vec(),
    };
    let alone = run(&graph, &weights, &second, &mut CpuEngine::new(1).unwrap());
    for (a, b) in alone.iter().zip(&both) {
        assert_eq!(a.values, b.values[b.values.len() / 2..]);
    }
}

#[test]
fn nan_passes_through_relu_and_pooling() {
    let mut b = Builder::new("nan", 3);
    let x = b.input("x", 1);
    let a = b.act("a", x, Act::Relu, false);
    let p = b.max_pool("p", a, &[2, 2, 2], &[2, 2, 2], &[0, 0, 0]);
    b.output(p);
    let mut t = Tensor {
        shape: vec![1, 1, 2, 2, 4],
        values: vec![-0.0; 16],
    };
    t.values[6] = f32::NAN;
    t.values[7] = 3.0;
    let out = run(
        &b.finish(),
        &Weights::default(),
        &t,
        &mut CpuEngine::new(1).unwrap(),
    );
    assert_eq!(out[0].values[0].to_bits(), 0, "relu makes +0 of -0");
    assert!(out[0].values[1].is_nan());
}

#[test]
fn a_cancelled_pass_stops_and_says_so() {
    let graph = Arc::new(everything());
    let weights = random_weights(&graph, 1);
    let control = Control::new();
    control.cancel();
    let mut engine = CpuEngine::new(1).unwrap();
    let failed = forward(
        &mut engine,
        &graph,
        &weights,
        &input(2, &[8, 8, 8], 1),
        1,
        &control,
    );
    assert!(failed.unwrap_err().to_string().contains("cancelled"));
    assert!(engine.describe().available);
}

/// Runs a small graph on an input of this size and holds its first output to the plain evaluation.
fn holds(graph: &Graph, channels: usize, spatial: [usize; 3]) {
    let weights = random_weights(graph, 3);
    let x = input(channels, &spatial, 1);
    let made = run(graph, &weights, &x, &mut CpuEngine::new(2).unwrap());
    let truth = naive::forward(graph, &weights, &x.values, 1, &spatial);
    close(&made[0].values, &truth[0], 1e-4).unwrap();
}

#[test]
fn a_weight_shared_with_a_transposed_convolution_is_packed_for_each() {
    let [kernel, one] = [vec![3; 3], vec![1; 3]];
    let mut b = Builder::new("shared", 3);
    let x = b.input("x", 2);
    let w = b.parameter("w".to_owned(), vec![2, 2, 3, 3, 3]);
    let op = Op::Conv {
        kernel: kernel.clone(),
        stride: one.clone(),
        pad_begin: one.clone(),
        pad_end: one.clone(),
        dilation: one.clone(),
        groups: 1,
    };
    let y = b.node("there", op, vec![x, w], 2);
    let op = Op::ConvTranspose {
        kernel,
        stride: one.clone(),
        pad_begin: one.clone(),
        pad_end: one.clone(),
        output_pad: vec![0; 3],
        dilation: one,
        groups: 1,
    };
    let y = b.node("back", op, vec![y, w], 2);
    b.output(y);
    holds(&b.finish(), 2, [4, 5, 6]);
}

#[test]
fn maps_of_one_channel_joined_lie_beside_each_other_and_not_over_each_other() {
    let mut b = Builder::new("joined", 3);
    let x = b.input("x", 1);
    let y = b.act("relu", x, Act::Relu, false);
    let op = Op::Tensor(TensorOp::Concat { axis: 1 });
    let y = b.node("join", op, vec![x, y], 2);
    b.output(y);
    holds(&b.finish(), 1, [3, 4, 5]);
}

#[test]
fn a_slice_of_one_place_with_a_step_past_all_memory_is_that_place() {
    for step in [i64::MAX, i64::MIN + 1] {
        let mut b = Builder::new("slice", 3);
        let x = b.input("x", 1);
        let start = if step > 0 { 1 } else { 3 };
        let cut = Cut {
            axis: 2,
            start: Size::Fixed(start),
            end: Size::Fixed(if step > 0 { 4 } else { -100 }),
            step,
        };
        let op = Op::Tensor(TensorOp::Slice { cuts: vec![cut] });
        let y = b.node("slice", op, vec![x], 1);
        b.output(y);
        holds(&b.finish(), 1, [5, 4, 3]);
    }
}

#[test]
fn a_product_with_a_bias_that_is_computed_is_refused_and_not_run_without_it() {
    let mut b = Builder::new("product", 3);
    let x = b.input("x", 1);
    let y = b.act("relu", x, Act::Relu, false);
    let bias = b.act("sigmoid", x, Act::Sigmoid, false);
    let op = Op::Tensor(TensorOp::MatMul);
    let y = b.node("product", op, vec![x, y, bias], 1);
    b.output(y);
    let (graph, x) = (Arc::new(b.finish()), input(1, &[4; 3], 1));
    let mut engine = CpuEngine::new(1).unwrap();
    let control = Control::new();
    let error = forward(&mut engine, &graph, &Weights::default(), &x, 1, &control).unwrap_err();
    assert!(error.to_string().contains("bias must be"), "{error}");
}

/// A network that joins its input and another map along the batch, runs `spatial` and takes the largest over the batch.
fn grown(spatial: impl Fn(&mut Builder, TensorId) -> TensorId) -> Graph {
    let mut b = Builder::new("grown", 3);
    let x = b.input("x", 2);
    let act = Act::Affine {
        factor: -1.0,
        shift: 0.5,
    };
    let y = b.act("turned", x, act, false);
    let op = Op::Tensor(TensorOp::Concat { axis: 0 });
    let y = b.node("join", op, vec![x, y], 2);
    let y = spatial(&mut b, y);
    over_batch(&mut b, y);
    b.finish()
}

fn over_batch(b: &mut Builder, y: TensorId) {
    let op = Op::Tensor(TensorOp::Reduce {
        kind: Reduce::Max,
        axes: vec![0],
        keep: true,
    });
    let channels = b.channels(y);
    let y = b.node("largest", op, vec![y], channels);
    b.output(y);
}

#[test]
fn a_batch_that_grows_inside_the_network_is_worked_out_whole() {
    let (two, none) = ([2; 3], [0; 3]);
    let graphs = [
        grown(|b, y| b.conv("conv", y, Conv::k3(3))),
        grown(|b, y| b.conv_transpose("up", y, 3, &two, true)),
        grown(|b, y| b.max_pool("pool", y, &two, &two, &none)),
        grown(|b, y| b.pad_edge("pad", y, &[1; 3], &[1; 3])),
        grown(|b, y| b.upsample_nearest("grow", y, &two)),
        grown(|b, y| b.instance_norm("norm", y, true)),
        grown(|b, y| {
            let y = b.conv("first", y, Conv::k3(3));
            let y = b.act("relu", y, Act::Relu, false);
            b.conv("second", y, Conv::k3(2))
        }),
    ];
    for graph in graphs {
        holds(&graph, 2, [4, 5, 6]);
    }
}

#[test]
fn channels_turned_into_the_batch_are_all_worked_out() {
    let mut b = Builder::new("turned", 3);
    let x = b.input("x", 2);
    let op = Op::Tensor(TensorOp::Transpose {
        perm: vec![1, 0, 2, 3, 4],
    });
    let y = b.node("turn", op, vec![x], 1);
    let y = b.conv("conv", y, Conv::k3(3));
    over_batch(&mut b, y);
    holds(&b.finish(), 2, [4, 5, 6]);
}
