//! Stages in tiles give the bits of whole maps, in the bytes that were planned, and stop when asked.

use super::cpu::CpuEngine;
use super::{Engine as _, Forward, Tensor, forward_within};
use crate::jobs::Control;
use crate::memory::{Precision, schedule, tiles};
use crate::network::builder::{Builder, Conv};
use crate::network::{Act, Graph, Weights};
use crate::units::Bytes;
use proptest::prelude::*;
use std::sync::Arc;

/// Numbers that a random network is made from, one after the other.
struct Dice(Vec<usize>, usize);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.1 += 1;
        self.0[self.1 % self.0.len()] / (1 + self.1 / self.0.len()) % sides
    }
}

/// A random network with skips, residuals, ups and downs of every kind, with or without norms over space.
fn network(dice: &mut Dice, norms: bool) -> Graph {
    let mut b = Builder::new("random", 3);
    let x = b.input("x", 1 + dice.roll(2));
    let mut width = 1 + dice.roll(9);
    let kernel = [1 + 2 * dice.roll(3), 1 + 2 * dice.roll(2), 3];
    let mut x = b.conv("first", x, Conv::new(width, &kernel));
    let mut skips = Vec::new();
    for level in 0..2 {
        for i in 0..=dice.roll(2) {
            let at = format!("down{level}.{i}");
            let y = b.conv(&at, x, Conv::k3(width));
            let y = norm(&mut b, dice, norms, &format!("{at}.n"), y);
            let y = b.act(&format!("{at}.a"), y, Act::LeakyRelu { slope: 0.1 }, false);
            x = match dice.roll(3) {
                0 => b.add(&format!("{at}.sum"), y, x, false),
                _ => y,
            };
        }
        skips.push(x);
        let at = format!("pool{level}");
        x = match dice.roll(4) {
            0 => b.max_pool(&at, x, &[2; 3], &[2; 3], &[0; 3]),
            1 => b.max_pool(&at, x, &[3; 3], &[2; 3], &[1; 3]),
            2 => {
                width += 2;
                b.conv(&at, x, Conv::k3(width).stride(&[2; 3]))
            }
            _ => {
                width += 1;
                b.conv(&at, x, Conv::k1(width).stride(&[2; 3]))
            }
        };
    }
    x = b.conv("bottom", x, Conv::k3(width));
    let mut outs = vec![];
    for level in (0..2).rev() {
        let skip = skips[level];
        let channels = b.channels(skip);
        let at = format!("up{level}");
        let up = match dice.roll(3) {
            0 => b.conv_transpose(&at, x, channels, &[2; 3], true),
            1 => {
                let up = b.upsample_nearest(&at, x, &[2; 3]);
                b.conv(&format!("{at}.c"), up, Conv::k1(channels))
            }
            _ => {
                let narrow = b.conv(&format!("{at}.c"), x, Conv::k1(channels));
                b.upsample_linear(&at, narrow, &[2; 3])
            }
        };
        let joined = match dice.roll(2) {
            0 => b.add(&format!("{at}.sum"), up, skip, false),
            _ => b.concat(&format!("{at}.cat"), &[up, skip]),
        };
        if dice.roll(4) == 0 {
            outs.push(joined);
        }
        x = b.conv(&format!("{at}.conv"), joined, Conv::k3(channels));
        x = norm(&mut b, dice, norms, &format!("{at}.n"), x);
        x = b.act(&format!("{at}.a"), x, Act::Relu, false);
    }
    let out = b.conv("out", x, Conv::k1(2));
    outs.push(b.act("scores", out, Act::Sigmoid, false));
    for out in outs {
        b.output(out);
    }
    b.finish()
}

fn norm(
    b: &mut Builder,
    dice: &mut Dice,
    norms: bool,
    at: &str,
    x: crate::network::TensorId,
) -> crate::network::TensorId {
    match dice.roll(3) {
        0 => b.batch_norm(at, x),
        1 if norms => b.instance_norm(at, x, true),
        2 if norms => b.group_norm(at, x, 1),
        _ => x,
    }
}

fn input(channels: usize, spatial: &[usize], batch: usize) -> Tensor {
    let shape = [&[batch, channels], spatial].concat();
    let n = shape.iter().product();
    Tensor {
        values: (0..n)
            .map(|i: usize| ((i * 7919 % 1013) as f32 - 500.0) / 300.0)
            .collect(),
        shape,
    }
}

fn run(
    engine: &mut CpuEngine,
    graph: &Arc<Graph>,
    weights: &Weights,
    x: &Tensor,
    limit: Option<Bytes>,
) -> Forward {
    let done = forward_within(engine, (graph, weights), x, 1, limit, &Control::new()).unwrap();
    assert_eq!(done.memory.planned, done.memory.allocated);
    assert_eq!(done.memory.planned, done.memory.measured_peak);
    assert!(limit.is_none_or(|l| done.memory.planned <= l));
    done
}

fn same_bits(a: &Forward, b: &Forward) -> Result<(), TestCaseError> {
    for (i, (a, b)) in a.outputs.iter().zip(&b.outputs).enumerate() {
        let pairs = a.values.iter().zip(&b.values);
        let differ = pairs.filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        prop_assert_eq!(differ, 0, "of {} values of output {}", a.values.len(), i);
    }
    Ok(())
}

/// The least bytes that tiles get a network into.
fn least(graph: &Graph, spatial: &[usize], batch: usize) -> Bytes {
    match tiles::plan_within(graph, spatial, batch, Precision::Fp32, Bytes(0)) {
        Err(crate::memory::MemoryError::LimitTooSmall { least, .. }) => least,
        other => panic!("a plan in no bytes: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn tiles_give_bit_for_bit_what_whole_maps_give_under_any_limit(
        dice in prop::collection::vec(0_usize..1000, 24),
        norms in any::<bool>(),
        size in prop::array::uniform3(1_usize..7),
        batch in 1_usize..3,
        part in 0_u64..=100,
        threads in 1_usize..3,
        portable in any::<bool>(),
    ) {
        let mut dice = Dice(dice, 0);
        let graph = Arc::new(network(&mut dice, norms));
        let weights = Weights::seeded(&graph, 3).unwrap();
        let spatial: Vec<usize> = size.iter().map(|s| 4 * s).collect();
        let channels = crate::network::shapes::infer(&graph, &spatial, 1).unwrap()[0][1];
        let x = input(channels, &spatial, batch);
        let whole_plan = schedule::plan(&graph, &spatial, batch, Precision::Fp32).unwrap();
        let least = least(&graph, &spatial, batch);
        prop_assert!(least <= whole_plan.arena);
        let limit = Bytes(least.0 + (whole_plan.arena.0 - least.0) * part / 100);
        let mut engine = if portable { CpuEngine::portable(threads) } else { CpuEngine::new(threads) }.unwrap();
        let whole = run(&mut CpuEngine::new(1).unwrap(), &graph, &weights, &x, None);
        let tiled = run(&mut engine, &graph, &weights, &x, Some(limit));
        same_bits(&whole, &tiled)?;
    }
}

#[test]
fn the_lung_nodule_network_gives_the_same_bits_in_tiles_and_answers_a_cancel_inside_them() {
    let graph = Arc::new(
        crate::network::preset::load("monai-lung-nodule")
            .unwrap()
            .graph,
    );
    let weights = Weights::seeded(&graph, 1).unwrap();
    let x = input(1, &[64, 48, 32], 1);
    let whole = run(&mut CpuEngine::new(2).unwrap(), &graph, &weights, &x, None);
    let least = least(&graph, &[64, 48, 32], 1);
    for limit in [whole.memory.planned.0 * 3 / 4, least.0] {
        let mut engine = CpuEngine::new(1).unwrap();
        let tiled = run(&mut engine, &graph, &weights, &x, Some(Bytes(limit)));
        println!("{} of {}", tiled.memory.planned, whole.memory.planned);
        same_bits(&whole, &tiled).unwrap();
    }
    let control = Control::new();
    let stop = control.clone();
    let waiting = std::thread::Builder::new()
        .name("stop".to_owned())
        .spawn(move || {
            while stop.fraction().unwrap_or(0.0) < 0.05 {
                std::thread::yield_now();
            }
            stop.cancel();
        })
        .unwrap();
    control.set_total(1);
    let mut engine = CpuEngine::new(1).unwrap();
    let stopped = forward_within(
        &mut engine,
        (&graph, &weights),
        &x,
        1,
        Some(least),
        &control,
    );
    assert!(stopped.is_err(), "it ran to its end");
    let part = control.fraction().unwrap();
    assert!(part < 0.9, "stopped only at {part}");
    waiting.join().unwrap();
    assert!(engine.describe().available);
}
