//! The arena is the cap: between the first and the last window nothing is allocated, on any thread.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails on what it cannot read or run"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use voxfit::engine::cpu::CpuEngine;
use voxfit::engine::{Engine as _, EngineError, EnginePlan, Map, MapMut, Sink, Source};
use voxfit::jobs::Control;
use voxfit::memory::{Precision, schedule, tiles};
use voxfit::network;
use voxfit::units::Bytes;

struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands every call to the system's allocator and only counts beside it.
#[expect(unsafe_code, reason = "an allocator that counts")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(ptr, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Ramp;

impl Source for Ramp {
    fn gather(&self, window: usize, _input: usize, into: MapMut<'_>) -> Result<(), EngineError> {
        for (i, x) in into.values.iter_mut().enumerate() {
            *x = ((i + window) % 13) as f32;
        }
        Ok(())
    }
}

/// Notes the count after each window, in room made before.
struct Counts(Vec<usize>);

impl Sink for Counts {
    fn take(&mut self, _window: usize, _output: usize, _map: Map<'_>) -> Result<(), EngineError> {
        Ok(())
    }

    fn window_done(&mut self, window: usize) -> Result<(), EngineError> {
        self.0[window] = COUNT.load(Ordering::Relaxed);
        Ok(())
    }
}

/// Runs six windows several times and sees that the last five allocate nothing.
fn allocates_nothing(said: &str, model: &network::Model, planned: schedule::Schedule) {
    let plan = EnginePlan {
        graph: Arc::new(model.graph.clone()),
        schedule: Arc::new(planned),
        n_windows: 6,
    };
    let mut engine = CpuEngine::new(2).unwrap();
    engine.prepare(&plan, model.weights().unwrap()).unwrap();
    // What the engine itself allocated would show in every pass. The thread pool's queues may grow once on a busy machine,
    // whenever a thief comes late, and that is no work of a window.
    let passes: Vec<Vec<usize>> = (0..4)
        .map(|_| {
            let mut counts = Counts(vec![0; 6]);
            engine.pass(0, &Ramp, &mut counts, &Control::new()).unwrap();
            counts.0
        })
        .collect();
    assert!(passes.iter().any(|c| c[0] == c[5]), "{said}: {passes:?}");
    assert_eq!(engine.memory().measured_peak, plan.schedule.arena, "{said}");
}

#[test]
fn no_window_after_the_first_allocates_anything() {
    for (name, in_tiles) in [
        ("demo", true),
        ("demo-norm", true),
        ("monai_unet_16_256_res2", false),
    ] {
        let model = network::open(&format!("preset:{name}"), None, Some("seeded:1")).unwrap();
        let whole = schedule::plan(&model.graph, &[32; 3], 1, Precision::Fp32).unwrap();
        let limit = Bytes(whole.arena.0 - 1);
        allocates_nothing(name, &model, whole);
        if !in_tiles {
            continue;
        }
        let tiled = tiles::plan_within(&model.graph, &[32; 3], 1, Precision::Fp32, limit).unwrap();
        assert!(tiled.tiles.is_some(), "{name} is not in tiles");
        allocates_nothing(&format!("{name} in tiles"), &model, tiled);
    }
    for name in ["attn-d18", "mha-d18"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/onnx");
        let file = folder.join(name).join("model.onnx");
        let model = network::open(&file.to_string_lossy(), None, None).unwrap();
        let [batch, spatial @ ..] = model.graph.example.as_slice() else {
            panic!("{name} was read at no size");
        };
        let whole = schedule::plan(&model.graph, spatial, *batch, Precision::Fp32).unwrap();
        allocates_nothing(name, &model, whole);
    }
}
