//! UNETR and `SwinUNETR` built from their settings, with weights by formula, against what MONAI and PyTorch made of the same.

use super::CpuEngine;
use super::golden_tests::npy;
use crate::engine::{Tensor, forward};
use crate::jobs::Control;
use crate::network::builder::Builder;
use crate::network::size::Size;
use crate::network::tensor_op::{Binary, TensorOp};
use crate::network::windows::{WindowPart, Windowed};
use crate::network::{self, Graph, Model, Op, TensorId, TensorKind, Weights, facts, shapes};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/monai")
}

/// Values in [-1, 1) from a name, as `make.py` makes them.
fn formula(name: &str, n: usize) -> impl Iterator<Item = f64> {
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    (1..=n as u64).map(move |i| {
        let z = seed.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let z = z ^ (z >> 31);
        (z >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to f32 is what is meant"
)]
fn weight(name: &str, shape: &[usize]) -> Vec<f32> {
    let n: usize = shape.iter().product();
    let inner = (n / shape[0]) as f64;
    let places = ["bias_table", "position_embeddings"];
    let (factor, shift) = if name.ends_with("running_var") {
        (0.2, 1.0)
    } else if places.iter().any(|p| name.ends_with(p)) {
        (1.0, 0.0)
    } else if shape.len() > 1 {
        ((3.0 / inner).sqrt(), 0.0)
    } else if name.ends_with("weight") {
        (0.2, 1.0)
    } else {
        (0.2, 0.0)
    };
    let values = formula(name, n).map(|v| shift + factor * v);
    values.map(|v| v as f32).collect()
}

/// The index of a window's pairs as PyTorch stores it: whole numbers of 64 bits.
fn index(window: [usize; 3]) -> Vec<u8> {
    let places: Vec<[usize; 3]> = (0..window.iter().product())
        .map(|i: usize| {
            let [_, b, c] = window;
            [i / (b * c), i / c % b, i % c]
        })
        .collect();
    let mut out = Vec::new();
    for a in &places {
        for b in &places {
            let mut row = 0;
            for axis in 0..3 {
                row = row * (2 * window[axis] - 1) + a[axis] + window[axis] - 1 - b[axis];
            }
            out.extend((row as u64).to_le_bytes());
        }
    }
    out
}

/// A bundle of these settings with a safetensors file, as `save_file(net.state_dict())` makes it.
fn bundle(folder: &Path, case: &Value) {
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let text = |v: Value| serde_json::to_vec(&v).unwrap();
    let network = &case["network_def"];
    write(
        "configs/inference.json",
        &text(json!({ "network_def": network })),
    );
    let version = &case["monai_version"];
    write(
        "configs/metadata.json",
        &text(json!({ "monai_version": version })),
    );
    let graph = open(folder).graph;
    let window = network["window_size"].as_array().map_or([7; 3], |w| {
        [0, 1, 2].map(|i| usize::try_from(w[i].as_u64().unwrap()).unwrap())
    });
    let tensors: Vec<(String, Vec<usize>, safetensors::Dtype, Vec<u8>)> = graph
        .weights()
        .map(|(_, t)| {
            let TensorKind::Weight { shape, .. } = &t.kind else {
                panic!("no weight")
            };
            let (kind, bytes) = if t.name.ends_with("relative_position_index") {
                (safetensors::Dtype::I64, index(window))
            } else {
                let values = weight(&t.name, shape);
                let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                (safetensors::Dtype::F32, bytes)
            };
            (t.name.clone(), shape.clone(), kind, bytes)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, kind, bytes)| {
        let view = safetensors::tensor::TensorView::new(*kind, shape.clone(), bytes);
        (name.clone(), view.unwrap())
    });
    let file = safetensors::serialize(views, None).unwrap();
    write("models/model.safetensors", &file);
}

fn open(folder: &Path) -> Model {
    network::open(folder.to_str().unwrap(), None, None).unwrap()
}

/// Every third voxel along each axis, as the files hold.
fn thinned(x: &Tensor) -> Tensor {
    let (shape, mut values) = (&x.shape, Vec::new());
    for map in 0..shape[0] * shape[1] {
        for a in (0..shape[2]).step_by(3) {
            for b in (0..shape[3]).step_by(3) {
                let row = ((map * shape[2] + a) * shape[3] + b) * shape[4];
                values.extend(x.values[row..row + shape[4]].iter().step_by(3));
            }
        }
    }
    let third = shape[2..].iter().map(|d| d.div_ceil(3));
    Tensor {
        shape: shape[..2].iter().copied().chain(third).collect(),
        values,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to f32 is what is meant"
)]
fn input(shape: &[usize]) -> Tensor {
    let values = formula("input", shape.iter().product());
    Tensor {
        shape: shape.to_vec(),
        values: values.map(|v| (2.0 * v) as f32).collect(),
    }
}

fn run(model: &Model, input: &Tensor, batch: usize) -> Tensor {
    let graph: Arc<Graph> = Arc::new(model.graph.clone());
    assert!(facts::of(&graph).unwrap().unsupported.is_empty());
    let mut engine = CpuEngine::new(2).unwrap();
    let weights = model.weights().unwrap();
    let done = forward(&mut engine, &graph, weights, input, batch, &Control::new()).unwrap();
    assert_eq!(done.memory.planned, done.memory.allocated);
    assert_eq!(done.memory.planned, done.memory.measured_peak);
    done.outputs.into_iter().next().unwrap()
}

#[test]
fn unetr_and_swinunetr_from_their_settings_give_what_monai_gave() {
    let cases = std::fs::read(golden().join("cases.json")).unwrap();
    let cases: serde_json::Map<String, Value> = serde_json::from_slice(&cases).unwrap();
    assert_eq!(cases.len(), 5);
    for (name, case) in cases {
        let folder = tempfile::tempdir().unwrap();
        bundle(folder.path(), &case);
        let model = open(folder.path());
        let shape: Vec<usize> = serde_json::from_value(case["input"].clone()).unwrap();
        let made = run(&model, &input(&shape), shape[0]);
        let (made, want) = (thinned(&made), npy(&golden().join(format!("{name}.npy"))));
        let far = worst(&made, &want);
        println!("{name}: worst difference {far:.1e}");
        assert!(far < 1e-4, "{name}: {far:.1e}");
        let old = model.about.notes.iter().any(|n| n.contains("before 1.5"));
        assert_eq!(old, name == "swinunetr_before_1_5", "{name}");
    }
}

fn worst(a: &Tensor, b: &Tensor) -> f32 {
    assert_eq!(a.shape, b.shape);
    let pairs = a.values.iter().zip(&b.values);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// `make.py FOLDER --export` fills the folder that `VOXFIT_MONAI_EXPORTS` names.
#[test]
fn settings_with_a_checkpoint_and_the_onnx_export_of_the_same_agree_at_every_size_that_both_take() {
    let Some(root) = std::env::var_os("VOXFIT_MONAI_EXPORTS").map(PathBuf::from) else {
        println!("skipped: VOXFIT_MONAI_EXPORTS names no folder made by make.py --export");
        return;
    };
    for entry in std::fs::read_dir(root).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.is_dir() {
            continue;
        }
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let (x, want) = (npy(&folder.join("in.npy")), npy(&folder.join("out.npy")));
        let built = open(&folder);
        let export = folder.join("export.onnx");
        let export = network::open(export.to_str().unwrap(), None, None).unwrap();
        let batch = x.shape[0];
        let [own, same] = [&built, &export].map(|m| run(m, &x, batch));
        let (far, apart) = (worst(&own, &want), worst(&own, &same));
        println!("{name}: {far:.1e} from PyTorch, {apart:.1e} from the export");
        assert!(far < 1e-4 && apart < 1e-4, "{name}");
        for size in [
            [64, 32, 32],
            [32, 64, 64],
            [64, 64, 64],
            [96, 32, 64],
            [32, 32, 48],
        ] {
            if x.shape[2..] == size {
                continue;
            }
            if let Err(error) = shapes::infer(&export.graph, &size, batch) {
                println!("{name} at {size:?}: {error}");
                assert!(error.to_string().contains("node \""), "{error}");
                continue;
            }
            let x = input(&[&x.shape[..2], &size].concat());
            let [own, same] = [&built, &export].map(|m| run(m, &x, batch));
            let apart = worst(&own, &same);
            println!("{name} at {size:?}: {apart:.1e} apart");
            assert!(apart < 1e-4, "{name} {size:?}");
        }
    }
}

#[test]
fn attention_from_settings_runs_with_seeded_weights_and_batches_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cases = std::fs::read(golden().join("cases.json")).unwrap();
    let cases: Value = serde_json::from_slice(&cases).unwrap();
    bundle(folder.path(), &cases["swinunetr"]);
    let path = folder.path().to_str().unwrap();
    let model = network::open(path, None, Some("seeded:3")).unwrap();
    // Maps of several windows, shifted, and of one.
    let two = input(&[2, 1, 32, 32, 64]);
    let half = two.values.len() / 2;
    let both = run(&model, &two, 2);
    let second = Tensor {
        shape: vec![1, 1, 32, 32, 64],
        values: two.values[half..].to_vec(),
    };
    let alone = run(&model, &second, 1);
    let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let later = &both.values[both.values.len() / 2..];
    assert_eq!(bits(later), bits(&alone.values));
}

/// Attention with one head inside windows of a map of three values a voxel.
fn windowed(window: [usize; 3], shifted: bool) -> Graph {
    let mut b = Builder::new("windows", 3);
    let image = b.input("image", 3);
    let add = |name: &str, op: TensorOp, inputs: Vec<TensorId>, b: &mut Builder| {
        b.node(name, Op::Tensor(op), inputs, 3)
    };
    let part = |part: WindowPart| {
        TensorOp::Window(Windowed {
            window: window.to_vec(),
            part,
        })
    };
    let perm = |p: &[usize]| TensorOp::Transpose { perm: p.to_vec() };
    let x = add("tokens", perm(&[0, 2, 3, 4, 1]), vec![image], &mut b);
    let cut = add("cut", part(WindowPart::Cut { shifted }), vec![x], &mut b);
    let weight = b.parameter("keys.weight".to_owned(), vec![3, 3]);
    let bias = b.parameter("keys.bias".to_owned(), vec![3]);
    let keys = add("keys", TensorOp::Linear, vec![cut, weight, bias], &mut b);
    let keys = add("turned", perm(&[0, 2, 1]), vec![keys], &mut b);
    let scores = add("scores", TensorOp::MatMul, vec![cut, keys], &mut b);
    let places = window.iter().map(|w| 2 * w - 1).product();
    let table = b.parameter("places.table".to_owned(), vec![places, 1]);
    let bias = add("places", part(WindowPart::Bias), vec![cut, table], &mut b);
    let sum = TensorOp::Binary(Binary::Add);
    let scores = add("biased", sum.clone(), vec![scores, bias], &mut b);
    let regions = add("regions", part(WindowPart::Regions), vec![x], &mut b);
    let to = vec![Size::Of(regions, 0), Size::Fixed(1), Size::Of(regions, 1)];
    let rows = add("rows", TensorOp::Reshape { to }, vec![regions], &mut b);
    let scores = add("masked", sum, vec![scores, rows], &mut b);
    let mixed = add("mixed", TensorOp::MatMul, vec![scores, cut], &mut b);
    let join = part(WindowPart::Join { shifted });
    let y = add("join", join, vec![mixed, x], &mut b);
    let y = add("map", perm(&[0, 4, 1, 2, 3]), vec![y], &mut b);
    b.output(y);
    b.finish()
}

#[test]
fn windows_of_any_map_are_cut_joined_and_biased_as_in_the_plain_evaluation() {
    for window in [[2, 3, 4], [3, 3, 3], [7, 2, 1]] {
        for size in [[5, 4, 3], [4, 6, 8], [2, 3, 4], [1, 7, 9], [6, 6, 6]] {
            for shifted in [false, true] {
                let graph = windowed(window, shifted);
                let weights = Weights::seeded(&graph, 5).unwrap();
                let x = input(&[&[1, 3], size.as_slice()].concat());
                let want = network::naive::forward(&graph, &weights, &x.values, 1, &size);
                let mut engine = CpuEngine::new(2).unwrap();
                let graph = Arc::new(graph);
                let done = forward(&mut engine, &graph, &weights, &x, 1, &Control::new());
                let made = &done.unwrap().outputs[0];
                for (a, b) in made.values.iter().zip(&want[0]) {
                    let far = (f64::from(*a) - b).abs() / (1.0 + b.abs());
                    assert!(far < 1e-4, "{window:?} {size:?} {shifted}: {a} {b}");
                }
            }
        }
    }
}

#[test]
fn weights_whose_pairs_of_places_lie_elsewhere_are_refused_by_name() {
    let cases = std::fs::read(golden().join("cases.json")).unwrap();
    let cases: Value = serde_json::from_slice(&cases).unwrap();
    let folder = tempfile::tempdir().unwrap();
    bundle(folder.path(), &cases["swinunetr_v2"]);
    let file = folder.path().join("models/model.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let wrong = index([4, 3, 5]);
    let at = bytes.windows(64).position(|w| *w == wrong[..64]).unwrap();
    bytes[at] += 1;
    std::fs::write(&file, bytes).unwrap();
    let error = network::open(folder.path().to_str().unwrap(), None, None);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("attn.relative_position_index") && error.contains("other rows"),
        "{error}"
    );
}
