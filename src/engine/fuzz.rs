//! Damaged networks: bytes flipped, cut and spliced, and fields of the format edited with sense. Whatever comes in, the answer
//! is a network or a sentence, in bounded time. Run with `VOXFIT_FUZZ_SECONDS=600 cargo test --lib fuzz -- --ignored --nocapture`.

use super::cpu::CpuEngine;
use super::{Tensor, forward};
use crate::jobs::Control;
use crate::memory::{Precision, schedule};
use crate::network::{facts, read_onnx, shapes};
use rand::{Rng as _, SeedableRng as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Dice(rand_pcg::Pcg64Mcg);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.0.next_u64() % (n.max(1) as u64)).unwrap()
    }
}

/// A field of a message: its number and what it holds.
#[derive(Clone)]
enum Field {
    Varint(u64, u64),
    Raw(u64, u8, Vec<u8>),
    Message(u64, Vec<Self>),
    Bytes(u64, Vec<u8>),
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let b = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(b & 127).checked_shl(shift).unwrap_or(0);
        if b & 128 == 0 {
            return Some(value);
        }
        shift += 7;
        if shift > 63 {
            return None;
        }
    }
}

/// The fields of a message; what parses as one is one, unless it is text or long.
fn parse(bytes: &[u8], depth: usize) -> Option<Vec<Field>> {
    let (mut at, mut out) = (0, Vec::new());
    while at < bytes.len() {
        let key = varint(bytes, &mut at)?;
        let number = key >> 3;
        if number == 0 || number > 100 {
            return None;
        }
        let mut take = |n: usize| {
            let part = bytes.get(at..at.checked_add(n)?)?.to_vec();
            at += n;
            Some(part)
        };
        out.push(match key & 7 {
            0 => Field::Varint(number, varint(bytes, &mut at)?),
            1 => Field::Raw(number, 1, take(8)?),
            5 => Field::Raw(number, 5, take(4)?),
            2 => {
                let n = usize::try_from(varint(bytes, &mut at)?).ok()?;
                let part = bytes.get(at..at.checked_add(n)?)?;
                at += n;
                let text = part.iter().all(|b| (32..127).contains(b));
                match parse(part, depth + 1) {
                    Some(fields) if !text && depth < 7 && !fields.is_empty() => {
                        Field::Message(number, fields)
                    }
                    _ => Field::Bytes(number, part.to_vec()),
                }
            }
            _ => return None,
        });
    }
    Some(out)
}

fn put(mut v: u64, out: &mut Vec<u8>) {
    while v >= 128 {
        out.push(v.to_le_bytes()[0] | 128);
        v >>= 7;
    }
    out.push(v.to_le_bytes()[0]);
}

fn write(fields: &[Field], out: &mut Vec<u8>) {
    for field in fields {
        match field {
            Field::Varint(n, v) => {
                put(n << 3, out);
                put(*v, out);
            }
            Field::Raw(n, kind, bytes) => {
                put((n << 3) | u64::from(*kind), out);
                out.extend(bytes);
            }
            Field::Bytes(n, bytes) => {
                put((n << 3) | 2, out);
                put(bytes.len() as u64, out);
                out.extend(bytes);
            }
            Field::Message(n, fields) => {
                let mut inner = Vec::new();
                write(fields, &mut inner);
                put((n << 3) | 2, out);
                put(inner.len() as u64, out);
                out.extend(inner);
            }
        }
    }
}

/// All lists of fields below, by the path that leads to them.
fn paths(fields: &[Field], here: &[usize], out: &mut Vec<Vec<usize>>) {
    out.push(here.to_vec());
    for (i, field) in fields.iter().enumerate() {
        if let Field::Message(_, inner) = field {
            paths(inner, &[here, &[i]].concat(), out);
        }
    }
}

fn list<'a>(fields: &'a mut Vec<Field>, path: &[usize]) -> &'a mut Vec<Field> {
    let Some((first, rest)) = path.split_first() else {
        return fields;
    };
    match &mut fields[*first] {
        Field::Message(_, inner) => list(inner, rest),
        _ => panic!("a path leads through messages"),
    }
}

const OPS: &[&str] = &[
    "Conv",
    "ConvTranspose",
    "Reshape",
    "Transpose",
    "Slice",
    "Concat",
    "Gather",
    "Expand",
    "Where",
    "MatMul",
    "Gemm",
    "Einsum",
    "Softmax",
    "Resize",
    "Pad",
    "Split",
    "Tile",
    "ReduceMean",
    "Unsqueeze",
    "Squeeze",
    "Flatten",
    "Range",
    "ConstantOfShape",
    "ScatterND",
    "Shape",
    "Mod",
    "Div",
    "Pow",
    "If",
    "Loop",
    "MaxPool",
    "AveragePool",
    "PRelu",
    "InstanceNormalization",
    "LayerNormalization",
    "BatchNormalization",
    "GroupNormalization",
    "Upsample",
    "DepthToSpace",
];

/// One sensible edit somewhere in the tree.
fn edit(tree: &mut Vec<Field>, all: &[Vec<usize>], names: &[Vec<u8>], dice: &mut Dice) {
    let path = &all[dice.below(all.len())];
    let fields = list(tree, path);
    if fields.is_empty() {
        return;
    }
    let at = dice.below(fields.len());
    let numbers = [
        0,
        1,
        2,
        3,
        7,
        8,
        127,
        128,
        1 << 16,
        1 << 31,
        1 << 40,
        1 << 62,
        u64::MAX,
        u64::MAX - 1,
    ];
    match dice.below(8) {
        0 => {
            fields.remove(at);
        }
        1 => {
            let copy = fields[at].clone();
            fields.insert(at, copy);
        }
        2 => {
            let other = dice.below(fields.len());
            fields.swap(at, other);
        }
        _ => match &mut fields[at] {
            Field::Varint(_, v) => *v = numbers[dice.below(numbers.len())],
            Field::Raw(_, _, bytes) => {
                let i = dice.below(bytes.len());
                bytes[i] = bytes[i].wrapping_add(dice.0.next_u64().to_le_bytes()[0]);
            }
            Field::Bytes(number, bytes) => match dice.below(4) {
                0 => *bytes = names[dice.below(names.len())].clone(),
                1 => *bytes = OPS[dice.below(OPS.len())].as_bytes().to_vec(),
                2 => *number = 1 + dice.below(16) as u64,
                _ => {
                    let n = dice.below(bytes.len() + 1);
                    bytes.truncate(n);
                }
            },
            Field::Message(number, _) => *number = 1 + dice.below(16) as u64,
        },
    }
}

fn texts(fields: &[Field], out: &mut Vec<Vec<u8>>) {
    for field in fields {
        match field {
            Field::Bytes(_, b) if b.len() < 100 => out.push(b.clone()),
            Field::Message(_, inner) => texts(inner, out),
            _ => {}
        }
    }
}

/// Reads, tells the facts, plans, and runs what is small; panics are the fault looked for.
fn try_out(bytes: &[u8], engine: &mut CpuEngine) -> &'static str {
    let Ok((graph, weights)) = read_onnx(bytes) else {
        return "refused";
    };
    let _facts = facts::of(&graph);
    let Some((batch, spatial)) = graph.example.split_first() else {
        panic!("a file was read at some size");
    };
    let double: Vec<usize> = spatial.iter().map(|d| d * 2).collect();
    let _other = shapes::infer(&graph, &double, 1);
    let planned = schedule::plan(&graph, spatial, *batch, Precision::Fp32);
    let small = planned.as_ref().is_ok_and(|p| p.arena.0 < 64 << 20);
    let Ok(shapes) = shapes::infer(&graph, spatial, *batch) else {
        return "no shapes";
    };
    let work = facts::total_flops(&graph, &shapes);
    if !small || work > 200_000_000 || graph.inputs.len() != 1 {
        return "planned";
    }
    let shape = shapes[graph.inputs[0].index()].clone();
    let values = (0..shape.iter().product::<usize>())
        .map(|i| (i % 17) as f32 * 0.1 - 0.8)
        .collect();
    let tensor = Tensor { shape, values };
    let graph = Arc::new(graph);
    match forward(engine, &graph, &weights, &tensor, 1, &Control::new()) {
        Ok(done) => {
            assert_eq!(
                done.memory.planned, done.memory.allocated,
                "the plan is the run"
            );
            "ran"
        }
        Err(_) => "not run",
    }
}

fn models() -> Vec<(String, Vec<u8>)> {
    let roots = [
        std::env::var_os("VOXFIT_FUZZ_MODELS").map(PathBuf::from),
        Some(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/onnx")),
        Some(
            std::env::var_os("VOXFIT_SHARED")
                .map_or_else(
                    || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"),
                    PathBuf::from,
                )
                .join("data/networks"),
        ),
    ];
    let mut out = Vec::new();
    for root in roots.into_iter().flatten() {
        let folders = std::fs::read_dir(root)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path());
        let mut files: Vec<PathBuf> = folders
            .flat_map(|p| {
                if p.is_dir() {
                    vec![p.join("model.onnx")]
                } else {
                    vec![p]
                }
            })
            .filter(|p| p.extension().is_some_and(|e| e == "onnx"))
            .collect();
        files.sort();
        for file in files {
            // Large files spend the time on copying.
            if let Ok(bytes) = std::fs::read(&file)
                && bytes.len() < 1 << 20
            {
                out.push((file.display().to_string(), bytes));
            }
        }
    }
    out
}

#[test]
#[ignore = "runs for VOXFIT_FUZZ_SECONDS, 10 by default"]
fn fuzz_damaged_networks_never_panic_hang_or_swell() {
    let number = |name: &str, or: u64| {
        std::env::var(name)
            .ok()
            .and_then(|v| v.parse().ok())
            .unwrap_or(or)
    };
    let (seconds, first) = (
        number("VOXFIT_FUZZ_SECONDS", 10),
        number("VOXFIT_FUZZ_SEED", 1),
    );
    let models = models();
    if models.is_empty() {
        println!("skipped: there are no networks to damage");
        return;
    }
    let trees: Vec<_> = models
        .iter()
        .map(|(_, bytes)| {
            let tree = parse(bytes, 0).unwrap_or_default();
            let (mut all, mut names) = (Vec::new(), Vec::new());
            paths(&tree, &[], &mut all);
            texts(&tree, &mut names);
            (tree, all, names)
        })
        .collect();
    let mut engine = CpuEngine::new(1).unwrap();
    let started = Instant::now();
    let mut counts = std::collections::BTreeMap::new();
    let (mut seed, mut slowest, mut faults) = (first, Duration::ZERO, Vec::new());
    while started.elapsed().as_secs() < seconds {
        let mut dice = Dice(rand_pcg::Pcg64Mcg::seed_from_u64(seed));
        let which = dice.below(models.len());
        let (name, bytes) = &models[which];
        let (tree, all, names) = &trees[which];
        let damaged = match dice.below(5) {
            0 => {
                let mut out = bytes.clone();
                for _ in 0..=dice.below(8) {
                    let at = dice.below(out.len());
                    out[at] ^= 1 << dice.below(8);
                }
                out
            }
            1 => bytes[..dice.below(bytes.len())].to_vec(),
            2 => {
                let other = &models[dice.below(models.len())].1;
                let (from, to) = (dice.below(bytes.len()), dice.below(other.len()));
                [&bytes[..from], &other[to..]].concat()
            }
            _ if all.is_empty() => bytes.clone(),
            _ => {
                let mut tree = tree.clone();
                let mut all = all.clone();
                for _ in 0..=dice.below(4) {
                    edit(&mut tree, &all, names, &mut dice);
                    all.clear();
                    paths(&tree, &[], &mut all);
                }
                let mut out = Vec::new();
                write(&tree, &mut out);
                out
            }
        };
        let began = Instant::now();
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            try_out(&damaged, &mut engine)
        }));
        let took = began.elapsed();
        let what = tried.unwrap_or_else(|_| {
            println!("FAULT seed {seed} of {name}");
            faults.push(seed);
            engine = CpuEngine::new(1).unwrap();
            "PANIC"
        });
        *counts.entry(what).or_insert(0) += 1;
        if took > slowest {
            slowest = took;
            println!("seed {seed} of {name}: {took:?} ({what})");
        }
        if took.as_secs() > 20 {
            println!("SLOW seed {seed} of {name}: {took:?}");
            faults.push(seed);
        }
        seed += 1;
    }
    println!("seeds {first} to {seed}: {counts:?}, slowest {slowest:?}");
    assert!(faults.is_empty(), "seeds with faults: {faults:?}");
}
