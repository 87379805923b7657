//! Stages in tiles give the bits of whole maps, in the bytes that were planned, and stop when asked.

use super::cpu::CpuEngine;
use super::{Engine as _, Forward, Tensor, forward_within};
use crate::jobs::Control;
use crate::memory::{Precision, schedule, tiles};
use crate::network::builder::{Builder, Conv};
use crate::network::random::{Dice, network};
use crate::network::{Graph, Op, Weights};
use crate::units::Bytes;
use proptest::prelude::*;
use std::sync::Arc;

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
    #![proptest_config(crate::random_cases::random_cases(60))]

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
        let mut dice = Dice::new(dice);
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
fn tiles_keep_every_plane_that_the_taps_of_a_dilated_transposed_convolution_span() {
    let mut b = Builder::new("dilated", 3);
    let x = b.input("x", 1);
    let x = b.conv("first", x, Conv::k3(8));
    let op = Op::ConvTranspose {
        kernel: vec![2, 1, 1],
        stride: vec![1; 3],
        pad_begin: vec![1, 0, 0],
        pad_end: vec![2, 0, 0],
        output_pad: vec![0; 3],
        dilation: vec![3, 1, 1],
        groups: 1,
    };
    let w = b.parameter("up.weight".to_owned(), vec![8, 8, 2, 1, 1]);
    let x = b.node("up", op, vec![x, w], 8);
    let x = b.conv("last", x, Conv::k1(1));
    b.output(x);
    let graph = Arc::new(b.finish());
    let weights = Weights::seeded(&graph, 3).unwrap();
    let spatial = [24, 8, 8];
    let x = input(1, &spatial, 1);
    let mut engine = CpuEngine::new(1).unwrap();
    let whole = run(&mut engine, &graph, &weights, &x, None);
    let least = least(&graph, &spatial, 1);
    assert!(least < whole.memory.planned, "{least} is no less");
    let tiled = run(&mut engine, &graph, &weights, &x, Some(least));
    same_bits(&whole, &tiled).unwrap();
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

/// A volume that is nowhere in memory, and a sink that keeps a fingerprint of each output.
struct Ramp;

impl super::Source for Ramp {
    fn gather(
        &self,
        _window: usize,
        _input: usize,
        into: super::MapMut<'_>,
    ) -> Result<(), super::EngineError> {
        for (i, x) in into.values.iter_mut().enumerate() {
            *x = ((i * 7919 % 1013) as f32 - 500.0) / 1000.0;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Prints(Vec<u64>);

impl super::Sink for Prints {
    fn take(
        &mut self,
        _window: usize,
        _output: usize,
        map: super::Map<'_>,
    ) -> Result<(), super::EngineError> {
        let mix = |h: u64, x: &f32| (h ^ u64::from(x.to_bits())).wrapping_mul(0x0100_0000_01b3);
        self.0
            .push(map.values.iter().fold(0xcbf2_9ce4_8422_2325, mix));
        Ok(())
    }

    fn window_done(&mut self, _window: usize) -> Result<(), super::EngineError> {
        Ok(())
    }
}

/// The most memory this process has held, in KiB; 0 where the system does not tell.
fn high_water() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM"));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}

/// One pass of the lung nodule network over the ramp; prints what it took.
fn lung_nodule(spatial: [usize; 3], limit: Option<Bytes>, engine: &mut CpuEngine) -> Vec<u64> {
    let graph = Arc::new(
        crate::network::preset::load("monai-lung-nodule")
            .unwrap()
            .graph,
    );
    let weights = Weights::seeded(&graph, 1).unwrap();
    let before = high_water();
    let planned = tiles::plan_under(&graph, &spatial, 1, Precision::Fp32, limit).unwrap();
    let plan = super::EnginePlan {
        graph,
        schedule: Arc::new(planned),
        n_windows: 1,
    };
    engine.prepare(&plan, &weights).unwrap();
    let (control, mut prints, start) =
        (Control::new(), Prints::default(), std::time::Instant::now());
    control.set_total(1);
    engine.pass(0, &Ramp, &mut prints, &control).unwrap();
    let m = engine.memory();
    assert_eq!((m.planned, m.planned), (m.allocated, m.measured_peak));
    println!(
        "{spatial:?} under {limit:?}: arena {} ({}), {:?}, {} threads, peak RSS {} KiB, {before} before the arena; tiles {:?}",
        m.planned,
        m.planned.0,
        start.elapsed(),
        engine.threads(),
        high_water(),
        plan.schedule
            .tiles
            .as_ref()
            .map(|t| (t.untiled, t.recompute_percent)),
    );
    prints.0
}

#[test]
#[ignore = "minutes to an hour: one window of 512x512x192, run by hand"]
fn the_lung_nodule_network_runs_a_whole_chest_in_3_6_gib() {
    let limit = std::env::var("VOXFIT_LIMIT")
        .ok()
        .and_then(|l| l.parse().ok());
    let limit = Bytes(limit.unwrap_or(3_865_470_566));
    let prints = lung_nodule(
        [512, 512, 192],
        Some(limit),
        &mut CpuEngine::new(0).unwrap(),
    );
    println!("{prints:x?}");
}

#[test]
#[ignore = "minutes: windows that fit whole and in tiles, run by hand"]
fn the_lung_nodule_network_gives_the_same_bits_at_real_sizes_under_several_limits() {
    // The portable path is slow where the processor's own multiply-add may not be used: it gets the small window.
    for (spatial, portable) in [
        ([48, 32, 32], true),
        ([128, 128, 64], false),
        ([192, 192, 80], false),
    ] {
        let whole = lung_nodule(spatial, None, &mut CpuEngine::new(2).unwrap());
        let graph = crate::network::preset::load("monai-lung-nodule")
            .unwrap()
            .graph;
        let arena = schedule::plan(&graph, &spatial, 1, Precision::Fp32)
            .unwrap()
            .arena;
        let least = least(&graph, &spatial, 1);
        for (percent, threads) in [(95, 2), (75, 1), (60, 2), (0, 2)] {
            let limit = Bytes((arena.0 * percent / 100).max(least.0));
            let engine = if portable {
                CpuEngine::portable(threads)
            } else {
                CpuEngine::new(threads)
            };
            let tiled = lung_nodule(spatial, Some(limit), &mut engine.unwrap());
            assert_eq!(whole, tiled, "{spatial:?} at {percent} %");
        }
    }
}
