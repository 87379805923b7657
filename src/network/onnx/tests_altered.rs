//! Small files whose nodes run, but that once ran otherwise than their file says, and files that no program should run.

use super::tests_bad::{
    OPEN, bytes, int, list, model, model_of, node, node_with, refusal, tensor, value, varint,
};
use super::*;
use crate::network::{self, naive, shapes};

fn opened(parts: &[Vec<u8>]) -> (Graph, Weights) {
    read(&model(parts), "small", Path::new("small.onnx")).unwrap()
}

/// A node with settings that are written by the caller.
fn node_of(op: &str, name: &str, (inputs, output): (&[&str], &str), settings: &[u8]) -> Vec<u8> {
    let mut n = Vec::new();
    for i in inputs {
        n.extend(bytes(1, i.as_bytes()));
    }
    n.extend(bytes(2, output.as_bytes()));
    n.extend(bytes(3, name.as_bytes()));
    n.extend(bytes(4, op.as_bytes()));
    n.extend(settings);
    bytes(1, &n)
}

fn float(name: &str, v: f32) -> Vec<u8> {
    let number = [varint((2 << 3) | 5), v.to_le_bytes().to_vec()].concat();
    bytes(5, &[bytes(1, name.as_bytes()), number].concat())
}

fn ints(name: &str, values: &[i64]) -> Vec<u8> {
    let mut a = bytes(1, name.as_bytes());
    for v in values {
        a.extend(int(8, *v));
    }
    bytes(5, &a)
}

#[test]
fn a_gemm_with_factors_scales_its_constant_here_and_leaves_no_node_without_a_map() {
    let x: Vec<f32> = (0u8..16).map(|i| f32::from(i) * 0.25 - 1.0).collect();
    let w: Vec<f32> = (0u8..48).map(|i| f32::from(i % 7) - 3.0).collect();
    let c = [1.0f32, -2.0, 3.0];
    for (alpha, beta) in [(0.5f32, 2.0f32), (1.0, 2.0), (0.5, 1.0)] {
        let parts = [
            value(11, "x", &[1, 2, 2, 2, 2]),
            tensor("w", &[16, 3], &w),
            tensor("c", &[3], &c),
            node("Flatten", "flat", &["x"], &["f"]),
            node_of(
                "Gemm",
                "head",
                (&["f", "w", "c"], "y"),
                &[float("alpha", alpha), float("beta", beta)].concat(),
            ),
            value(12, "y", &[1, 3]),
        ];
        let (graph, weights) = opened(&parts);
        for node in &graph.nodes {
            assert!(
                node.inputs.iter().any(|id| !graph.is_weight(*id)),
                "{} reads constants alone",
                node.name
            );
        }
        let made = naive::forward(&graph, &weights, &x, 1, &[2; 3]);
        for (j, y) in made[0].iter().enumerate() {
            let product: f32 = (0..16).map(|i| x[i] * w[3 * i + j]).sum();
            let expected = f64::from(alpha * product + beta * c[j]);
            assert!(
                (y - expected).abs() < 1e-4,
                "{alpha} {beta}: {y} {expected}"
            );
        }
    }
}

#[test]
fn a_reduction_over_an_empty_list_of_axes_that_says_so_changes_nothing() {
    let parts = |noop: i64| {
        [
            value(11, "x", &[1, 2, 4, 4, 4]),
            list("axes", &[]),
            node_with(
                "ReduceSum",
                "sum",
                (&["x", "axes"], &["z"]),
                &[("noop_with_empty_axes", noop)],
            ),
            node("Relu", "relu", &["z"], &["y"]),
            value(12, "y", &[1, 2, 4, 4, 4]),
        ]
    };
    for (noop, shape) in [(1, [1, 2, 4, 4, 4]), (0, [1; 5])] {
        let (graph, _) = opened(&parts(noop));
        let shapes = shapes::infer(&graph, &[4; 3], 1).unwrap();
        assert_eq!(shapes[graph.outputs[0].index()], shape);
    }
}

/// A convolution with stride 2 and a resize to these sizes.
fn resized(input: &[i64], sizes: &[i64]) -> Vec<Vec<u8>> {
    vec![
        value(11, "x", input),
        tensor("w", &[1, 1, 3, 3, 3], &[0.1; 27]),
        list("sizes", sizes),
        node_of(
            "Conv",
            "down",
            (&["x", "w"], "h"),
            &[ints("strides", &[2; 3]), ints("pads", &[1; 6])].concat(),
        ),
        node("Resize", "up", &["h", "", "", "sizes"], &["y"]),
        value(12, "y", input),
    ]
}

#[test]
fn a_resize_to_the_inputs_size_at_the_export_takes_multiples_of_the_stride_alone() {
    let (graph, _) = opened(&resized(&[1, 1, 12, 12, 12], &[1, 1, 12, 12, 12]));
    for size in [[12, 12, 12], [10, 8, 14]] {
        let shapes = shapes::infer(&graph, &size, 1).unwrap();
        assert_eq!(shapes[graph.outputs[0].index()][2..], size);
    }
    let error = shapes::infer(&graph, &[9, 7, 12], 1)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("total stride 2x2x2")
            && error.contains("8x6x12 and 10x8x12")
            && error.contains("\"up\""),
        "{error}"
    );
}

#[test]
fn a_resize_to_a_number_in_a_file_with_open_axes_gives_that_number_for_every_roi() {
    let (graph, _) = opened(&resized(&[1, 1, OPEN, OPEN, OPEN], &[1, 1, 16, 16, 16]));
    for size in [[64, 64, 64], [20, 21, 30]] {
        let shapes = shapes::infer(&graph, &size, 1).unwrap();
        assert_eq!(shapes[graph.outputs[0].index()], [1, 1, 16, 16, 16]);
    }
}

#[test]
fn parts_of_a_split_that_do_not_add_up_are_refused() {
    for parts in [[3, 3], [5, -77], [9, -1]] {
        let error = refusal(&[
            value(11, "x", &[1, 2, 8, 8, 8]),
            list("s", &parts),
            node_with("Split", "cut", (&["x", "s"], &["a", "b"]), &[("axis", 2)]),
            value(12, "a", &[1, 2, 3, 8, 8]),
            value(12, "b", &[1, 2, 3, 8, 8]),
        ]);
        assert!(
            error.contains("\"cut\"") && error.contains("do not add up"),
            "{error}"
        );
    }
}

#[test]
fn more_voxels_reflected_than_an_axis_has_are_refused() {
    let mode = bytes(5, &[bytes(1, b"mode"), bytes(4, b"reflect")].concat());
    // Over space, and over space and channels.
    for channels in [0, 1] {
        let error = refusal(&[
            value(11, "x", &[1, 2, 8, 8, 8]),
            list("p", &[0, channels, 9, 0, 0, 0, 0, 0, 0, 0]),
            node_of("Pad", "mirror", (&["x", "p"], "y"), &mode),
            value(12, "y", &[1, 2, 17, 8, 8]),
        ]);
        assert!(
            error.contains("\"mirror\"") && error.contains("reflects 9 voxels of an axis of 8"),
            "{error}"
        );
    }
}

#[test]
fn floats_and_whole_numbers_are_not_added_without_a_cast() {
    let (x, y) = (
        value(11, "x", &[1, 1, 4, 4, 4]),
        value(12, "y", &[1, 1, 4, 4, 4]),
    );
    let error = refusal(&[
        x.clone(),
        list("k", &[1]),
        node("Add", "mixed", &["x", "k"], &["y"]),
        y.clone(),
    ]);
    assert!(
        error.contains("\"mixed\"") && error.contains("\"k\", which holds whole numbers"),
        "{error}"
    );
    // Either side may be cast.
    let float = node_with("Cast", "cast", (&["k"], &["c"]), &[("to", 1)]);
    let whole = node_with("Cast", "cast", (&["x"], &["c"]), &[("to", 7)]);
    for (cast, added) in [(float, ["x", "c"]), (whole, ["c", "k"])] {
        let add = node("Add", "add", &added, &["y"]);
        opened(&[x.clone(), list("k", &[1]), cast, add, y.clone()]);
    }
}

#[test]
fn operators_of_a_version_that_is_not_known_are_refused_with_those_that_are() {
    let parts = [
        value(11, "x", &[1, 1, 4, 4, 4]),
        node("Relu", "relu", &["x"], &["y"]),
        value(12, "y", &[1, 1, 4, 4, 4]),
    ];
    let of = |opset: i64| read(&model_of(&parts, opset), "old", Path::new("old.onnx"));
    assert!(of(11).is_ok() && of(25).is_ok());
    for opset in [0, 5, 10, 26, 99, -1] {
        let error = of(opset).unwrap_err().to_string();
        assert!(
            error.contains(&format!("opset {opset};"))
                && error.contains("11 to 25")
                && error.ends_with("old.onnx"),
            "{error}"
        );
    }
}

#[test]
fn a_network_exported_to_train_with_is_refused_by_its_dropout() {
    let parts = |training: i64| {
        [
            value(11, "x", &[1, 1, 4, 4, 4]),
            tensor("r", &[], &[0.5]),
            list("t", &[training]),
            node("Dropout", "drop", &["x", "r", "t"], &["z"]),
            node("Relu", "relu", &["z"], &["y"]),
            value(12, "y", &[1, 1, 4, 4, 4]),
        ]
    };
    let error = refusal(&parts(1));
    assert!(
        error.contains("\"drop\"") && error.contains("training_mode"),
        "{error}"
    );
    opened(&parts(0));
}

#[test]
fn a_cast_to_16_bits_in_the_middle_is_said() {
    let parts = |to: i64| {
        [
            value(11, "x", &[1, 1, 4, 4, 4]),
            node_with("Cast", "half", (&["x"], &["h"]), &[("to", to)]),
            node_with("Cast", "back", (&["h"], &["z"]), &[("to", 1)]),
            node("Relu", "relu", &["z"], &["y"]),
            value(12, "y", &[1, 1, 4, 4, 4]),
        ]
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cast.onnx");
    for (to, notes) in [(10, 1), (16, 1), (1, 0)] {
        std::fs::write(&path, model(&parts(to))).unwrap();
        let about = network::open(path.to_str().unwrap(), None, None)
            .unwrap()
            .about;
        assert_eq!(about.notes.len(), notes, "{:?}", about.notes);
        for note in about.notes {
            assert!(
                note.contains("\"half\"") && note.contains("16 bits"),
                "{note}"
            );
        }
    }
}
