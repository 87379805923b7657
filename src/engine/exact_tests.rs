//! The promise that windows rest on: with enough halo, whatever the window and the thread count, the bits of one pass.

use super::cpu::CpuEngine;
use super::sliding::{self, Options, PreparedVolume, Sliding};
use crate::geometry::Extent;
use crate::jobs::Control;
use crate::network::builder::{Builder, Conv};
use crate::network::{Act, Graph, Weights, facts, manifest::Axes};
use crate::tiling::{self, Blend, Layout, TilingSpec};
use proptest::prelude::*;
use std::sync::Arc;

/// A random network without norms over space: (kernel, how it goes down, how it comes up, channels).
fn network((kernel, down, up, channels): (usize, usize, usize, usize)) -> Graph {
    let mut b = Builder::new("random", 3);
    let x = b.input("x", 1);
    let cube = [kernel; 3];
    let first = b.conv("first", x, Conv::new(channels, &cube));
    let first = b.act("a", first, Act::LeakyRelu { slope: 0.1 }, false);
    let low = match down {
        0 => b.conv(
            "down",
            first,
            Conv::new(channels + 1, &[3, 3, 3]).stride(&[2, 2, 1]),
        ),
        1 => b.max_pool("down", first, &[2, 2, 2], &[2, 2, 2], &[0, 0, 0]),
        _ => b.max_pool("down", first, &[3, 3, 3], &[2, 2, 2], &[1, 1, 1]),
    };
    let low = b.conv("low", low, Conv::k3(channels));
    let low = b.batch_norm("bn", low);
    let low = b.act("low_a", low, Act::Relu, false);
    let scale: &[usize] = if down == 0 { &[2, 2, 1] } else { &[2, 2, 2] };
    let joined = match up {
        0 => return finish(b, low),
        1 => {
            let up = b.upsample_nearest("up", low, scale);
            b.add("sum", up, first, false)
        }
        _ => {
            let up = b.conv_transpose("up", low, channels, scale, true);
            b.concat("cat", &[up, first])
        }
    };
    let out = b.conv("out", joined, Conv::k3(3));
    finish(b, out)
}

fn finish(mut b: Builder, out: crate::network::TensorId) -> Graph {
    let scores = b.act("scores", out, Act::Sigmoid, false);
    b.output(scores);
    b.finish()
}

fn windows(
    graph: &Arc<Graph>,
    axes: Axes,
    size: Extent,
    roi: Extent,
    threads: usize,
) -> Option<(Sliding, usize)> {
    let facts = tiling::Facts::of(&facts::of(graph).unwrap(), axes);
    let spec = TilingSpec {
        roi_size: roi,
        overlap: [0.0; 3],
        blend: Blend::Constant,
        layout: Layout::Aligned,
    };
    let plan = tiling::plan(&spec, size, &facts).ok()?;
    let values: Vec<f32> = (0..size.voxels())
        .map(|i| ((i * 7919 % 1009) as f32 - 500.0) / 300.0)
        .collect();
    let volume = PreparedVolume {
        extent: size,
        values: &values,
    };
    let weights = Weights::seeded(graph, 5).unwrap();
    let control = Control::new();
    let mut engine = CpuEngine::new(threads).unwrap();
    let done = sliding::run(
        &mut engine,
        graph,
        &weights,
        (volume, &plan),
        &Options::default(),
        &control,
    )
    .unwrap();
    assert_eq!(
        control.progress(),
        (plan.n_windows() as u64, plan.n_windows() as u64)
    );
    Some((done, plan.n_windows()))
}

proptest! {
    #![proptest_config(crate::random_cases::random_cases(150))]

    #[test]
    fn aligned_windows_give_bit_for_bit_what_one_pass_gives(
        net in (prop::sample::select(vec![1_usize, 3]), 0_usize..3, 0_usize..3, 1_usize..10),
        size in prop::array::uniform3(8_usize..30),
        more in prop::array::uniform3(1_usize..4),
        zyx in any::<bool>(),
        threads in 1_usize..4,
    ) {
        let graph = Arc::new(network(net));
        let axes = if zyx { Axes::Zyx } else { Axes::Xyz };
        let facts = tiling::Facts::of(&facts::of(&graph).unwrap(), axes);
        let roi: Vec<usize> = (0..3)
            .map(|a| {
                let halo = facts.halo_left()[a].unwrap() + facts.halo_right()[a].unwrap();
                (halo + more[a] * facts.total_stride[a]).next_multiple_of(facts.total_stride[a])
            })
            .collect();
        let size = Extent::new(size[0], size[1], size[2]);
        let whole = windows(&graph, axes, size, Extent::new(0, 0, 0), 1);
        let cut = windows(&graph, axes, size, Extent::new(roi[0], roi[1], roi[2]), threads);
        let (Some((whole, _)), Some((cut, n))) = (whole, cut) else {
            return Err(TestCaseError::reject("no such tiling"));
        };
        for (w, c) in whole.outputs.iter().zip(&cut.outputs) {
            let differ = w.values.iter().zip(&c.values).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
            prop_assert_eq!(w.spatial, c.spatial);
            prop_assert_eq!(differ, 0, "of {} values, {} windows", w.values.len(), n);
        }
    }
}
