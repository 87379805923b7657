//! Values written into maps, places of extremes, heads that are only planned, and open files that hold for one size.

use super::tests_bad::{OPEN, list, model, node, node_with, refusal, tensor, value};
use super::*;
use crate::network::{self, Choice, facts, naive, shapes};

fn opened(parts: &[Vec<u8>]) -> (Graph, Weights) {
    read(&model(parts), "small", Path::new("small.onnx")).unwrap()
}

/// A map of 2 x 2 x 2 with 2 channels into which rows are written at these places.
fn written(op: &str, places: &[i64], to: &[i64], updates: Vec<u8>) -> Vec<Vec<u8>> {
    vec![
        value(11, "x", &[1, 2, 2, 2, 2]),
        list("places", places),
        list("to", to),
        updates,
        node("Relu", "relu", &["x"], &["map"]),
        node("Reshape", "fold", &["places", "to"], &["index"]),
        node_with(
            op,
            "write",
            (&["map", "index", "updates"], &["y"]),
            &[("axis", 1)],
        ),
        value(12, "y", &[1, 2, 2, 2, 2]),
    ]
}

#[test]
fn rows_written_into_a_map_stand_there_the_last_one_of_several_and_the_rest_is_as_it_was() {
    let updates = tensor("updates", &[3, 2], &[10.0, 11.0, 20.0, 21.0, 30.0, 31.0]);
    // Row (channel 1, 0, 1), row (0, 1, 0) counted from the end, and the first again.
    let places = [0, 1, 0, 1, 0, -2, -1, 0, 0, 1, 0, 1];
    let (graph, weights) = opened(&written("ScatterND", &places, &[3, 4], updates));
    let x: Vec<f32> = (1u8..=16).map(f32::from).collect();
    let y = naive::forward(&graph, &weights, &x, 1, &[2; 3]);
    let mut expected: Vec<f64> = (1u8..=16).map(f64::from).collect();
    (expected[4], expected[5]) = (20.0, 21.0);
    (expected[10], expected[11]) = (30.0, 31.0);
    assert_eq!(y[0], expected);
    let error = shapes::infer(&graph, &[4; 3], 1).unwrap_err().to_string();
    assert!(
        error.contains("\"write\"") && error.contains("ScatterND"),
        "{error}"
    );
}

#[test]
fn values_written_along_an_axis_stand_there() {
    let updates = tensor("updates", &[1, 1, 1, 2, 2], &[-1.0, -2.0, -3.0, -4.0]);
    let parts = written("ScatterElements", &[1, 0, 1, -2], &[1, 1, 1, 2, 2], updates);
    let (graph, weights) = opened(&parts);
    let x: Vec<f32> = (1u8..=16).map(f32::from).collect();
    let y = naive::forward(&graph, &weights, &x, 1, &[2; 3]);
    let mut expected: Vec<f64> = (1u8..=16).map(f64::from).collect();
    (expected[8], expected[1], expected[10], expected[3]) = (-1.0, -2.0, -3.0, -4.0);
    assert_eq!(y[0], expected);
}

#[test]
fn a_write_beyond_the_map_is_refused() {
    let updates = tensor("updates", &[1, 2], &[1.0, 2.0]);
    let parts = written("ScatterND", &[0, 2, 0, 0], &[1, 4], updates);
    let error = refusal(&parts);
    assert!(
        error.contains("not there") && error.contains("\"write\""),
        "{error}"
    );
}

#[test]
fn the_place_of_the_largest_is_the_first_of_several_and_that_of_nan_wins() {
    let settings = [("axis", 1), ("keepdims", 0)];
    let parts = [
        value(11, "x", &[1, 3, 1, 1, 4]),
        node_with("ArgMax", "largest", (&["x"], &["a"]), &settings),
        node_with("Cast", "cast", (&["a"], &["y"]), &[("to", 1)]),
        value(12, "y", &[1, 1, 1, 4]),
    ];
    let (graph, weights) = opened(&parts);
    let nan = f32::NAN;
    let x = [1.0, 5.0, 0.0, nan, 3.0, 5.0, -1.0, 9.0, 2.0, 5.0, 0.0, nan];
    let y = naive::forward(&graph, &weights, &x, 1, &[1, 1, 4]);
    assert_eq!(y[0], [1.0, 0.0, 0.0, 0.0]);
    let last = [("axis", 1), ("select_last_index", 1)];
    let mut parts = parts;
    parts[1] = node_with("ArgMax", "largest", (&["x"], &["a"]), &last);
    let (graph, _) = opened(&parts);
    let facts = facts::of(&graph).unwrap();
    assert_eq!(facts.unsupported[0].node, "largest");
}

#[test]
fn a_head_that_cannot_be_run_is_named_and_the_network_still_planned() {
    let parts = [
        value(11, "x", &[1, 2, 4, 4, 4]),
        list("k", &[3]),
        node("Relu", "relu", &["x"], &["map"]),
        node("Flatten", "flat", &["map"], &["row"]),
        node("TopK", "best", &["row", "k"], &["values", "places"]),
        value(12, "map", &[1, 2, 4, 4, 4]),
        value(12, "values", &[1, 3]),
    ];
    let (graph, _) = opened(&parts);
    let facts = facts::of(&graph).unwrap();
    assert_eq!(facts.unsupported.len(), 1);
    assert_eq!(facts.unsupported[0].op, "TopK");
    assert!(
        facts.unsupported[0].reason.contains("planned"),
        "{:?}",
        facts.unsupported
    );
    let shapes = shapes::infer(&graph, &[4; 3], 1).unwrap();
    assert_eq!(shapes[graph.outputs[1].index()], [1, 3]);
}

/// A file with open axes whose constant holds for 2 x 3 x 4 alone.
fn one_size() -> Vec<u8> {
    model(&[
        value(11, "x", &[OPEN, 1, OPEN, OPEN, OPEN]),
        tensor("table", &[1, 1, 2, 3, 4], &[0.5; 24]),
        node("Relu", "relu", &["x"], &["map"]),
        node("Add", "add", &["map", "table"], &["y"]),
        value(12, "y", &[OPEN, 1, OPEN, OPEN, OPEN]),
    ])
}

#[test]
fn an_open_file_that_holds_for_one_size_is_read_at_the_size_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.onnx");
    std::fs::write(&path, one_size()).unwrap();
    let open = |asked: Option<Asked>| {
        let choice = Choice {
            asked,
            ..Choice::default()
        };
        network::open_choice(path.to_str().unwrap(), &choice)
    };
    for asked in [None, Some(Asked::Window([4, 3, 2]))] {
        let error = open(asked).unwrap_err().to_string();
        assert!(
            error.contains("\"add\"") && error.contains("--roi-size"),
            "{error}"
        );
    }
    for asked in [Asked::Window([2, 3, 4]), Asked::Tensor(2, vec![2, 3, 4])] {
        let batch = if matches!(asked, Asked::Tensor(..)) {
            2
        } else {
            1
        };
        let model = open(Some(asked)).unwrap();
        let shapes = shapes::infer(&model.graph, &[2, 3, 4], batch).unwrap();
        let made = &shapes[model.graph.outputs[0].index()];
        assert_eq!(*made, [batch, 1, 2, 3, 4]);
    }
    // A manifest beside the file asks too, in its own order of axes.
    let manifest =
        "[input]\naxes = \"zyx\"\n[windows]\nroi_size = [4, 3, 2]\n[output]\nkind = \"none\"\n";
    std::fs::write(folder.path().join("table.voxfit.toml"), manifest).unwrap();
    let model = open(None).unwrap();
    assert!(shapes::infer(&model.graph, &[2, 3, 4], 1).is_ok());
}

#[test]
fn a_size_that_an_open_file_declares_for_its_output_is_tried_too() {
    let parts = [
        value(11, "x", &[1, 1, OPEN, OPEN, OPEN]),
        tensor("table", &[1, 1, 2, 3, 4], &[0.5; 24]),
        node("Add", "add", &["x", "table"], &["y"]),
        value(12, "y", &[1, 1, 2, 3, 4]),
    ];
    let (graph, _) = opened(&parts);
    assert_eq!(graph.example, [1, 2, 3, 4]);
    assert!(shapes::infer(&graph, &[2, 3, 4], 1).is_ok());
}
