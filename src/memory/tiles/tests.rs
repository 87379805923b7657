//! What tiles promise of a plan: under the limit to the byte, nothing that lives together overlaps, the least is told.

use super::*;
use crate::memory::arena::ALIGNMENT;
use crate::memory::schedule::{PlannedTensor, Step};
use crate::network::preset;

fn graph(name: &str) -> Graph {
    preset::load(name).unwrap().graph
}

fn apart(schedule: &Schedule) {
    let end = |t: &PlannedTensor| t.offset.0 + t.bytes.0;
    for (i, a) in schedule.tensors.iter().enumerate() {
        assert!(end(a) <= schedule.arena.0);
        assert_eq!(a.offset.0 % ALIGNMENT, 0);
        for b in &schedule.tensors[..i] {
            let together = a.first < b.last && b.first < a.last;
            let apart = end(a) <= b.offset.0 || end(b) <= a.offset.0;
            assert!(!together || apart, "{} overlaps {}", a.name, b.name);
        }
    }
}

/// Every plane of every map is made once, and what a step reads is there.
fn complete(schedule: &Schedule) {
    for step in &schedule.steps {
        let Some(slabs) = &step.slabs else { continue };
        for (o, inner) in slabs.steps.iter().enumerate() {
            let mut next = 0;
            for slab in &slabs.parts {
                assert_eq!(slab.makes[o].start, next, "{}", inner.name);
                next = slab.makes[o].end;
                held(schedule, inner, slab, o);
            }
            let of = inner
                .target
                .or_else(|| inner.sources.first().copied())
                .unwrap();
            assert!(next <= schedule.tensors[of].shape[2]);
        }
    }
}

fn held(schedule: &Schedule, inner: &Step, slab: &crate::memory::schedule::Slab, o: usize) {
    for (place, planes) in &slab.holds {
        let room = schedule.tensors[*place].planes.unwrap();
        assert!(planes.len() <= room, "{}: {planes:?} in {room}", inner.name);
        if inner.target == Some(*place) {
            let made = &slab.makes[o];
            assert!(made.is_empty() || (planes.start <= made.start && made.end <= planes.end));
        }
    }
}

#[test]
fn the_lung_nodule_network_runs_in_less_than_3_6_gib_without_doing_anything_twice() {
    let graph = graph("monai-lung-nodule");
    let start = std::time::Instant::now();
    let limit = Bytes(3_865_470_566);
    let s = plan_within(&graph, &[512, 512, 192], 1, Precision::Fp32, limit).unwrap();
    let tiles = s.tiles.as_ref().unwrap();
    println!("{} of {} in {:?}", s.arena, tiles.untiled, start.elapsed());
    for t in &tiles.segments {
        println!("  {t:?}");
    }
    assert!(s.arena <= limit);
    assert_eq!(tiles.recompute_flops, 0);
    apart(&s);
    complete(&s);
    let start = std::time::Instant::now();
    let s = plan_in_tiles(&graph, &[512, 512, 192], 1, Precision::Fp32).unwrap();
    println!("least with nothing twice {} {:?}", s.arena, start.elapsed());
    for p in &s.timeline {
        println!("{:4} {:70} {}", p.step, p.name, p.live);
    }
    apart(&s);
    complete(&s);
}

#[test]
fn show_fronts() {
    for (name, spatial) in [
        ("demo", [128, 128, 64]),
        ("demo-norm", [128, 128, 64]),
        ("monai_basicunet_default", [96, 96, 96]),
        ("nnunet-3d-6stage", [256, 256, 256]),
        ("monai-lung-nodule", [512, 512, 192]),
    ] {
        let graph = graph(name);
        let whole = plan(&graph, &spatial, 1, Precision::Fp32).unwrap();
        let start = std::time::Instant::now();
        let program = program_of(&graph, &spatial, 1, Precision::Fp32).unwrap();
        println!(
            "{name}: whole {}, {} operations",
            whole.arena,
            program.works.len()
        );
        let cut = program.smallest();
        println!(
            "  smallest cut in {:?}: {}",
            start.elapsed(),
            Bytes(cut.peak)
        );
        let start = std::time::Instant::now();
        let flops = program.flops();
        let front = search::programs(program, 0);
        for l in &front {
            let s = scheduled(&l.program, &l.cut, (&whole, flops)).unwrap();
            apart(&s);
            complete(&s);
            println!(
                "  {} (arena {}) +{:.1} %",
                Bytes(l.cut.peak),
                s.arena,
                s.tiles.unwrap().recompute_percent()
            );
        }
        println!("  front in {:?}", start.elapsed());
    }
}
