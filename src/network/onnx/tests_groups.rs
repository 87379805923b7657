//! Group norms of dynamo exports, whose shapes are numbers of the export: the network's own at every size, or refused.

use super::tests_bad::{list, model, node, tensor, value};
use super::*;
use crate::network::graph::Op;
use crate::network::{naive, shapes};

/// The size of the export, of 4 channels.
const EXPORT: [usize; 3] = [4, 6, 8];
const OTHER: [usize; 3] = [6, 4, 10];
const SCALE: [f32; 4] = [0.5, -1.5, 2.0, 1.25];
const SHIFT: [f32; 4] = [0.25, 0.0, -1.0, 3.0];

/// A map seen as `to`, normed by these nodes ("seen" to "normed"), seen as `back`, scaled and shifted.
fn file(to: &[i64], middle: &[Vec<u8>], back: &[i64]) -> Vec<u8> {
    let mut parts = vec![
        value(11, "x", &[1, 4, 4, 6, 8]),
        list("to", to),
        list("back", back),
        list("tail", &[2, 3]),
        tensor("ones", &[2], &[1.0, 1.0]),
        tensor("threes", &[3], &[1.0; 3]),
        tensor("zeros", &[2], &[0.0, 0.0]),
        tensor("nothing", &[3], &[0.0; 3]),
        tensor("factors", &[2], &[1.5, 0.5]),
        tensor("eps", &[1], &[1e-5]),
        tensor("scale", &[4, 1, 1, 1], &SCALE),
        tensor("shift", &[4, 1, 1, 1], &SHIFT),
        node("Reshape", "fold", &["x", "to"], &["seen"]),
    ];
    parts.extend_from_slice(middle);
    parts.extend([
        node("Reshape", "unfold", &["normed", "back"], &["map"]),
        node("Mul", "mul", &["map", "scale"], &["scaled"]),
        node("Add", "add", &["scaled", "shift"], &["shifted"]),
        node("Relu", "relu", &["shifted"], &["y"]),
        value(12, "y", &[1, 4, 4, 6, 8]),
    ]);
    model(&parts)
}

/// An instance norm with this scale and shift.
fn norm(scale: &str, shift: &str) -> Vec<u8> {
    let inputs = ["seen", scale, shift];
    node("InstanceNormalization", "norm", &inputs, &["normed"])
}

/// The same written out as means, a difference and a quotient.
fn written_out() -> Vec<Vec<u8>> {
    let mean = |name: &str, from: &str| node("ReduceMean", name, &[from, "tail"], &[name]);
    vec![
        mean("mean", "seen"),
        node("Sub", "sub", &["seen", "mean"], &["centred"]),
        node("Mul", "square", &["centred", "centred"], &["squares"]),
        mean("var", "squares"),
        node("Add", "more", &["var", "eps"], &["sum"]),
        node("Sqrt", "root", &["sum"], &["deviation"]),
        node("Div", "div", &["centred", "deviation"], &["normed"]),
    ]
}

fn input(n: usize) -> Vec<f32> {
    (0..n)
        .map(|i| f32::from(u16::try_from(i * 37 % 101).unwrap()) / 50.0 - 1.0)
        .collect()
}

/// Two groups of two channels, each normed by its own mean and variance.
fn expected(x: &[f32], factors: [f64; 2]) -> Vec<f64> {
    let each = x.len() / 4;
    let mut out = Vec::new();
    for (group, factor) in x.chunks(2 * each).zip(factors) {
        let n = group.len() as f64;
        let mean = group.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
        let var = group.iter().map(|v| (f64::from(*v) - mean).powi(2));
        let deviation = (var.sum::<f64>() / n + 1e-5).sqrt();
        for v in group {
            let channel = out.len() / each;
            let normed = (f64::from(*v) - mean) / deviation * factor;
            let made = normed * f64::from(SCALE[channel]) + f64::from(SHIFT[channel]);
            out.push(made.max(0.0));
        }
    }
    out
}

/// Holds a file to a naive evaluation at the size of its export and at another, in batches of one and two.
fn check(file: &[u8], factors: [f64; 2], what: &str) -> Graph {
    let (graph, weights) = read(file, "groups", Path::new("groups.onnx")).unwrap();
    for (batch, size) in [(1, EXPORT), (1, OTHER), (2, OTHER)] {
        let made = shapes::infer(&graph, &size, batch).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(
            made[graph.outputs[0].index()],
            [batch, 4, size[0], size[1], size[2]],
            "{what}"
        );
        let n = 4 * size.iter().product::<usize>();
        let x = input(batch * n);
        let y = naive::forward(&graph, &weights, &x, batch, &size);
        let wanted: Vec<f64> = x.chunks(n).flat_map(|x| expected(x, factors)).collect();
        assert_eq!(y[0].len(), wanted.len(), "{what}");
        for (a, b) in y[0].iter().zip(&wanted) {
            assert!((a - b).abs() < 1e-5, "{what} at {size:?}: {a} is not {b}");
        }
    }
    graph
}

#[test]
fn a_group_norm_whose_shapes_are_numbers_of_the_export_is_one_at_every_size() {
    let back = [1, 4, 4, 6, 8];
    for to in [
        &[0, 2, -1][..],
        &[1, 2, -1],
        &[1, 2, 384],
        &[1, 2, 2, 192],
        &[1, 2, 2, 4, 6, 8],
    ] {
        let what = format!("{to:?}");
        let graph = check(&file(to, &[norm("ones", "zeros")], &back), [1.0; 2], &what);
        let is_norm = |op: &Op| matches!(op, Op::GroupNorm { groups: 2, .. });
        assert!(is_norm(&graph.nodes[0].op), "{what}: {:?}", graph.nodes);
        assert_eq!(graph.nodes.len(), 2, "{what}: {:?}", graph.nodes);
    }
}

#[test]
fn a_shape_that_is_taken_back_behind_other_operations_follows_the_size() {
    let back = [1, 4, 4, 6, 8];
    for to in [&[0, 2, -1][..], &[1, 2, 384], &[1, 2, 2, 192]] {
        let scaled = file(to, &[norm("factors", "zeros")], &back);
        check(&scaled, [1.5, 0.5], &format!("{to:?} with factors"));
    }
    let whole = file(&[1, 2, 2, 192], &written_out(), &back);
    check(&whole, [1.0; 2], "written out");
}

/// The shape before the norm, the nodes between, the shape after, and the node that holds the network to its size.
type Case<'a> = (&'a [i64], &'a [Vec<u8>], &'a [i64], &'a str);

#[test]
fn numbers_that_are_not_those_of_a_group_norm_still_hold_at_the_size_of_the_export_alone() {
    // A transpose without an order turns all axes round.
    let turned = [
        node("Relu", "half", &["seen"], &["half"]),
        node("Transpose", "turn", &["half"], &["normed"]),
    ];
    let plain = [norm("ones", "zeros")];
    let thirds = [norm("threes", "nothing")];
    let cases: [Case<'_>; 3] = [
        // Other sizes than before the norm.
        (&[0, 2, -1], &plain, &[1, 4, 6, 4, 8], "unfold"),
        // Three groups of four channels.
        (&[1, 3, 256], &thirds, &[1, 4, 4, 6, 8], "fold"),
        // Values that moved in between.
        (&[1, 2, 384], &turned, &[1, 4, 4, 6, 8], "unfold"),
    ];
    for (to, middle, back, name) in cases {
        let bytes = file(to, middle, back);
        let (graph, _) = read(&bytes, "odd", Path::new("odd.onnx")).unwrap();
        shapes::infer(&graph, &EXPORT, 1).unwrap();
        let error = shapes::infer(&graph, &OTHER, 1).unwrap_err().to_string();
        let named = format!("\"{name}\"");
        assert!(
            error.contains(&named) && error.contains("bakes in the size of the export"),
            "{to:?}: {error}"
        );
    }
}
