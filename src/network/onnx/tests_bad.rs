//! Files written here byte by byte: wrong in one way each, and one right one with open axes.

use super::*;
use crate::network::{facts, shapes};

pub(super) fn varint(mut v: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while v >= 128 {
        out.push(u8::try_from(v & 127).unwrap() | 128);
        v >>= 7;
    }
    out.push(u8::try_from(v).unwrap());
    out
}

pub(super) fn int(field: u64, v: i64) -> Vec<u8> {
    [varint(field << 3), varint(v.cast_unsigned())].concat()
}

pub(super) fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [
        varint((field << 3) | 2),
        varint(content.len() as u64),
        content.to_vec(),
    ]
    .concat()
}

pub(super) fn node(op: &str, name: &str, inputs: &[&str], outputs: &[&str]) -> Vec<u8> {
    node_with(op, name, (inputs, outputs), &[])
}

/// A node with whole numbers as attributes.
pub(super) fn node_with(
    op: &str,
    name: &str,
    (inputs, outputs): (&[&str], &[&str]),
    attributes: &[(&str, i64)],
) -> Vec<u8> {
    let mut n = Vec::new();
    for i in inputs {
        n.extend(bytes(1, i.as_bytes()));
    }
    for o in outputs {
        n.extend(bytes(2, o.as_bytes()));
    }
    n.extend(bytes(3, name.as_bytes()));
    n.extend(bytes(4, op.as_bytes()));
    for (name, v) in attributes {
        n.extend(bytes(5, &[bytes(1, name.as_bytes()), int(3, *v)].concat()));
    }
    bytes(1, &n)
}

/// A stored float tensor; its dimensions may lie.
pub(super) fn tensor(name: &str, dims: &[i64], values: &[f32]) -> Vec<u8> {
    let mut t = Vec::new();
    for d in dims {
        t.extend(int(1, *d));
    }
    t.extend(int(2, 1));
    t.extend(bytes(8, name.as_bytes()));
    let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    t.extend(bytes(9, &raw));
    bytes(5, &t)
}

/// An input or output.
pub(super) fn value(field: u64, name: &str, dims: &[i64]) -> Vec<u8> {
    let mut shape = Vec::new();
    for d in dims {
        let dim = if *d == OPEN {
            bytes(2, b"n")
        } else {
            int(1, *d)
        };
        shape.extend(bytes(1, &dim));
    }
    let kind = [int(1, 1), bytes(2, &shape)].concat();
    bytes(
        field,
        &[bytes(1, name.as_bytes()), bytes(2, &bytes(1, &kind))].concat(),
    )
}

/// A dimension without a size.
pub(super) const OPEN: i64 = i64::MIN;

pub(super) fn model(parts: &[Vec<u8>]) -> Vec<u8> {
    model_of(parts, 17)
}

pub(super) fn model_of(parts: &[Vec<u8>], opset: i64) -> Vec<u8> {
    let opset = bytes(8, &int(2, opset));
    [bytes(7, &parts.concat()), opset].concat()
}

pub(super) fn refusal(parts: &[Vec<u8>]) -> String {
    let started = std::time::Instant::now();
    let error = read(&model(parts), "bad", Path::new("bad.onnx"))
        .unwrap_err()
        .to_string();
    assert!(started.elapsed().as_secs() < 120, "{error}");
    assert!(error.ends_with("bad.onnx"), "{error}");
    error
}

#[test]
fn open_axes_are_read_and_a_size_is_chosen_later() {
    let parts = [
        value(11, "x", &[OPEN, 1, OPEN, OPEN, OPEN]),
        tensor("w", &[2, 1, 3, 3, 3], &[0.5; 54]),
        node("Conv", "conv", &["x", "w"], &["a"]),
        node("Relu", "relu", &["a"], &["y"]),
        value(12, "y", &[OPEN, 2, OPEN, OPEN, OPEN]),
    ];
    let (graph, weights) = read(&model(&parts), "open", Path::new("open.onnx")).unwrap();
    weights.check(&graph).unwrap();
    assert_eq!(facts::n_parameters(&graph), 54);
    let shapes = shapes::infer(&graph, &[7, 9, 11], 3).unwrap();
    assert_eq!(shapes[graph.outputs[0].index()], [3, 2, 5, 7, 9]);
}

#[test]
fn a_cycle_a_missing_tensor_and_a_name_made_twice_are_named() {
    let x = value(11, "x", &[1, 1, 8, 8, 8]);
    let y = value(12, "y", &[1, 1, 8, 8, 8]);
    let cycle = [
        x.clone(),
        node("Add", "first", &["x", "b"], &["a"]),
        node("Relu", "second", &["a"], &["b"]),
        y.clone(),
    ];
    let error = refusal(&cycle);
    assert!(
        error.contains("\"first\"") && error.contains("\"b\"") && error.contains("cycle"),
        "{error}"
    );
    let error = refusal(&[
        x.clone(),
        node("Conv", "conv", &["x", "w"], &["y"]),
        y.clone(),
    ]);
    assert!(
        error.contains("\"conv\"") && error.contains("\"w\""),
        "{error}"
    );
    let twice = [
        x.clone(),
        node("Relu", "r1", &["x"], &["y"]),
        node("Relu", "r2", &["x"], &["y"]),
        y.clone(),
    ];
    assert!(refusal(&twice).contains("\"r2\""));
    let error = refusal(&[x, node("Relu", "r", &["x"], &["z"]), y]);
    assert!(error.contains("\"y\""), "{error}");
}

#[test]
fn sizes_that_lie_are_refused_before_anything_is_allocated_for_them() {
    let x = value(11, "x", &[1, 1, 8, 8, 8]);
    let y = value(12, "y", &[1, 1, 8, 8, 8]);
    let conv = node("Conv", "conv", &["x", "w"], &["y"]);
    for (dims, word) in [
        (vec![1, 1, 3, 3, 3], "needs 27 values, found 2"),
        (vec![1 << 40, 1 << 40, 3, 3, 3], "2^31"),
        (vec![1, -1, 3, 3, 3], "dimension -1"),
        (vec![i64::MAX; 5], "2^31"),
    ] {
        let error = refusal(&[
            x.clone(),
            tensor("w", &dims, &[1.0, 2.0]),
            conv.clone(),
            y.clone(),
        ]);
        assert!(
            error.contains("\"conv\"") && error.contains(word),
            "{error}"
        );
    }
    let wide = refusal(&[
        x,
        tensor("w", &[1, 3, 1, 1, 1], &[1.0; 3]),
        conv.clone(),
        y.clone(),
    ]);
    assert!(wide.contains("does not take 1 channels"), "{wide}");
    for (dims, word) in [
        (vec![1, 1, -8, 8, 8], "-8"),
        (vec![1, 1, 1 << 40, 8, 8], "1099511627776"),
        (vec![1, 1], "1 to 3"),
        (vec![1], "found 1"),
    ] {
        let error = refusal(&[value(11, "x", &dims), conv.clone(), y.clone()]);
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn a_hundred_thousand_nodes_and_a_bomb_of_constants_end_in_bounded_time() {
    let mut parts = vec![value(11, "x", &[1, 1, 8, 8, 8])];
    let mut last = "x".to_owned();
    for i in 0..100_000 {
        let next = format!("v{i}");
        parts.push(node("Relu", &format!("relu{i}"), &[&last], &[&next]));
        last = next;
    }
    parts.push(value(12, &last, &[1, 1, 8, 8, 8]));
    let error = refusal(&parts);
    assert!(
        error.contains("more than 60000 nodes") && error.contains("relu60000"),
        "{error}"
    );
    // Each node doubles the last one's values.
    let mut parts = vec![value(11, "x", &[1, 1, 8, 8, 8]), tensor("c0", &[1], &[1.0])];
    let axis = [varint((5 << 3) | 2), {
        let attribute = [bytes(1, b"axis"), int(3, 0)].concat();
        [varint(attribute.len() as u64), attribute].concat()
    }]
    .concat();
    for i in 0..60 {
        let (from, to) = (format!("c{i}"), format!("c{}", i + 1));
        let mut n = Vec::new();
        for _ in 0..2 {
            n.extend(bytes(1, from.as_bytes()));
        }
        n.extend(bytes(2, to.as_bytes()));
        n.extend(bytes(3, format!("double{i}").as_bytes()));
        n.extend(bytes(4, b"Concat"));
        n.extend(&axis);
        parts.push(bytes(1, &n));
    }
    parts.push(node("Add", "add", &["x", "c60"], &["y"]));
    parts.push(value(12, "y", &[1, 1, 8, 8, 8]));
    let error = refusal(&parts);
    assert!(error.contains("double"), "{error}");
}

#[test]
fn values_in_another_file_come_only_from_the_models_own_folder() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("models");
    std::fs::create_dir(&inside).unwrap();
    let values: Vec<u8> = [0.25f32; 27].iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(folder.path().join("secret.bin"), &values).unwrap();
    std::fs::write(inside.join("weights.bin"), &values).unwrap();
    let with = |location: &str| {
        let mut t = Vec::new();
        for d in [1, 1, 3, 3, 3] {
            t.extend(int(1, d));
        }
        t.extend(int(2, 1));
        t.extend(bytes(8, b"w"));
        t.extend(bytes(
            13,
            &[bytes(1, b"location"), bytes(2, location.as_bytes())].concat(),
        ));
        t.extend(int(14, 1));
        let parts = [
            value(11, "x", &[1, 1, 8, 8, 8]),
            bytes(5, &t),
            node("Conv", "conv", &["x", "w"], &["y"]),
            value(12, "y", &[1, 1, 6, 6, 6]),
        ];
        std::fs::write(inside.join("m.onnx"), model(&parts)).unwrap();
        open(&inside.join("m.onnx"))
    };
    assert!(with("weights.bin").is_ok());
    for location in ["../secret.bin", "/etc/hostname", "", "missing.bin"] {
        let error = with(location).unwrap_err().to_string();
        assert!(
            error.contains("\"w\"") && error.contains("another file"),
            "{error}"
        );
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path().join("secret.bin"), inside.join("link.bin"))
            .unwrap();
        let error = with("link.bin").unwrap_err().to_string();
        assert!(error.contains("out of the model's folder"), "{error}");
    }
}

/// A stored list of integers.
pub(super) fn list(name: &str, values: &[i64]) -> Vec<u8> {
    let mut t = int(1, i64::try_from(values.len()).unwrap());
    t.extend(int(2, 7));
    t.extend(bytes(8, name.as_bytes()));
    let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    t.extend(bytes(9, &raw));
    bytes(5, &t)
}

/// A network of one node named "odd" on an input of 1x2x8x8x8, with stored lists "a", "b"... as further inputs.
fn odd(op: &str, lists: &[&[i64]], attributes: &[(&str, i64)]) -> Vec<Vec<u8>> {
    let names = ["a", "b", "c", "d"];
    let mut parts = vec![value(11, "x", &[1, 2, 8, 8, 8])];
    let mut n = bytes(1, b"x");
    for (name, values) in names.iter().zip(lists) {
        parts.push(list(name, values));
        n.extend(bytes(1, name.as_bytes()));
    }
    n.extend(bytes(2, b"y"));
    n.extend(bytes(3, b"odd"));
    n.extend(bytes(4, op.as_bytes()));
    for (name, v) in attributes {
        n.extend(bytes(5, &[bytes(1, name.as_bytes()), int(3, *v)].concat()));
    }
    parts.push(bytes(1, &n));
    parts.push(value(12, "y", &[1, 2, 8, 8, 8]));
    parts
}

#[test]
fn nodes_with_impossible_sizes_places_and_counts_are_named() {
    const FAR: i64 = i64::MAX;
    type Case<'a> = (&'a str, &'a [&'a [i64]], &'a [(&'a str, i64)]);
    let cases: &[Case<'_>] = &[
        ("Reshape", &[&[-5, 2]], &[]),
        ("Reshape", &[&[-1, -1]], &[]),
        ("Reshape", &[&[FAR, FAR]], &[]),
        ("Expand", &[&[1 << 40, 2, 8, 8, 8]], &[]),
        ("Expand", &[&[FAR, 2, 8, 8, 8]], &[]),
        ("Tile", &[&[FAR, 1, 1, 1, 1]], &[]),
        ("Tile", &[&[1 << 20, 1 << 20, 1, 1, 1]], &[]),
        ("Pad", &[&[0, 0, 0, 0, 0, 0, 0, FAR, 0, 0]], &[]),
        ("Pad", &[&[0, 0, -9, 0, 0, 0, 0, 0, 0, 0]], &[]),
        ("Slice", &[&[9], &[3], &[2], &[1]], &[]),
        ("Slice", &[&[0], &[3], &[2], &[0]], &[]),
        ("Slice", &[&[0], &[3], &[7], &[1]], &[]),
        ("Slice", &[&[0], &[3], &[2], &[i64::MIN]], &[]),
        ("Gather", &[&[8]], &[("axis", 2)]),
        ("Gather", &[&[0]], &[("axis", 9)]),
        ("Split", &[&[9, 9]], &[("axis", 2)]),
        ("MaxPool", &[], &[("ceil_mode", 1)]),
        ("If", &[], &[]),
        ("Loop", &[&[3]], &[]),
        ("DepthToSpace", &[], &[("blocksize", FAR)]),
        ("NoSuchOperation", &[], &[]),
    ];
    for (op, lists, attributes) in cases {
        match read(
            &model(&odd(op, lists, attributes)),
            "bad",
            Path::new("bad.onnx"),
        ) {
            Err(error) => {
                let error = error.to_string();
                assert!(
                    error.contains("\"odd\"") && error.ends_with("bad.onnx"),
                    "{op}: {error}"
                );
            }
            // What the file declares may be planned, but then says why it cannot run.
            Ok((graph, _)) => {
                let unsupported = facts::of(&graph).unwrap().unsupported;
                assert!(
                    unsupported.iter().any(|u| u.node == "odd"),
                    "{op} {lists:?}: {:?}",
                    graph.nodes
                );
            }
        }
    }
}

#[test]
fn a_resize_by_scales_that_are_computed_from_the_size_holds_at_that_size_alone() {
    let parts = [
        value(11, "x", &[1, 2, 8, 8, 8]),
        tensor("c", &[5], &[1.0, 2.0, 4.0, 4.0, 4.0]),
        node("Shape", "shape", &["x"], &["s"]),
        node_with("Cast", "cast", (&["s"], &["f"]), &[("to", 1)]),
        node("Div", "div", &["f", "c"], &["scales"]),
        node("Resize", "grow", &["x", "", "scales"], &["y"]),
        value(12, "y", &[1, 2, 16, 16, 16]),
    ];
    let (graph, _) = read(&model(&parts), "scaled", Path::new("scaled.onnx")).unwrap();
    let shapes = shapes::infer(&graph, &[8, 8, 8], 1).unwrap();
    assert_eq!(shapes[graph.outputs[0].index()], [1, 2, 16, 16, 16]);
    let error = shapes::infer(&graph, &[16, 8, 8], 1)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("\"grow\"") && error.contains("its scales are computed"),
        "{error}"
    );
}

#[test]
fn the_largest_of_three_lists_is_not_that_of_the_first_two() {
    let parts = [
        value(11, "x", &[1, 2, 8, 8, 8]),
        list("a", &[1, 2, 8, 8, 4]),
        list("b", &[1, 1, 1, 1, 1]),
        list("c", &[1, 2, 8, 8, 8]),
        node("Max", "most", &["a", "b", "c"], &["to"]),
        node("Reshape", "see", &["x", "to"], &["z"]),
        node("Relu", "relu", &["z"], &["y"]),
        value(12, "y", &[1, 2, 8, 8, 8]),
    ];
    let (graph, _) = read(&model(&parts), "most", Path::new("most.onnx")).unwrap();
    assert!(facts::of(&graph).unwrap().unsupported.is_empty());
    let shapes = shapes::infer(&graph, &[8, 8, 8], 1).unwrap();
    assert_eq!(shapes[graph.outputs[0].index()], [1, 2, 8, 8, 8]);
}
