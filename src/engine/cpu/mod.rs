//! The engine that runs everywhere: channels-last fp32 on all cores, one value one fixed chain of operations.

mod arena;
mod conv;
mod counted;
mod isa;
mod lanes;
mod lookup;
mod maps;
mod norm;
mod packed;
mod peak;
mod posts;
mod prepare;
mod resize;
mod slabs;
mod spans;
mod tensor;
mod tile;

use super::{Engine, EngineError, EngineInfo, EngineMemory, EnginePlan, Map, MapMut, Sink, Source};
use crate::jobs::Control;
use crate::memory::Precision;
use crate::memory::schedule::PlannedTensor;
use crate::network::{Weights, layout, shapes};
use crate::units::Bytes;
use arena::{Arena, Place};
use isa::Isa;
use prepare::{Preparing, Ready, three};

/// Runs windows on the processor's cores.
pub struct CpuEngine {
    pool: rayon::ThreadPool,
    isa: Isa,
    prepared: Option<Prepared>,
}

/// A plan with its arena and steps.
struct Prepared {
    plan: EnginePlan,
    arena: Arena,
    places: Vec<Place>,
    steps: Vec<Ready>,
    /// How often each step repeats where that is not once a window.
    repeats: Vec<Option<usize>>,
    /// One past the highest byte that each step uses.
    ends: Vec<Bytes>,
    counter: counted::Counter,
    /// Work of each step, for progress inside a window.
    work: Vec<u64>,
    /// Seconds that each step took, all windows together.
    took: Vec<f64>,
}

/// What one step of a pass did: a point of the roofline.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerTime {
    /// The step's name.
    pub name: String,
    /// Operators that it does in one go.
    pub operators: Vec<String>,
    /// Floating point operations of one window (or batch of windows).
    pub flops: u64,
    /// Bytes that it reads and writes in the arena, each once.
    pub bytes: Bytes,
    /// Seconds of all passes since the plan was prepared.
    pub seconds: f64,
}

/// What the CPU engine runs on.
pub fn describe() -> EngineInfo {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    EngineInfo {
        id: "cpu".to_owned(),
        available: true,
        reason: None,
        device: Some(format!("{cores} cores, {}", Isa::detect().name())),
        total: Some(Bytes(system.total_memory())),
        free: Some(Bytes(system.available_memory())),
    }
}

impl CpuEngine {
    /// An engine with this many threads (0: one per core).
    pub fn new(threads: usize) -> Result<Self, EngineError> {
        Self::with_isa(threads, Isa::detect())
    }

    fn with_isa(threads: usize, isa: Isa) -> Result<Self, EngineError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("engine-{i}"))
            .build()
            .map_err(|e| EngineError::Threads {
                threads,
                reason: e.to_string(),
            })?;
        Ok(Self {
            pool,
            isa,
            prepared: None,
        })
    }

    /// An engine without the instruction sets beyond the portable one, to compare bits with.
    pub fn portable(threads: usize) -> Result<Self, EngineError> {
        Self::with_isa(threads, Isa::Portable)
    }

    /// What each step took since the plan was prepared, all passes and windows together; empty before.
    pub fn layers(&self) -> Vec<LayerTime> {
        let Some(p) = &self.prepared else {
            return Vec::new();
        };
        let schedule = &p.plan.schedule;
        let node = |n: &usize| p.plan.graph.nodes.get(*n).map(|n| n.op.kind().to_owned());
        let steps = schedule.steps.iter().zip(p.work.iter().zip(&p.took));
        steps
            .map(|(step, (flops, seconds))| {
                let inner = step.slabs.iter().flat_map(|s| &s.steps);
                let nodes = inner.chain([step]).flat_map(|s| &s.nodes);
                let places = step.reads.iter().chain(&step.writes);
                LayerTime {
                    name: step.name.clone(),
                    operators: nodes.filter_map(node).collect(),
                    flops: if *flops > 1 { *flops } else { 0 },
                    bytes: places.map(|&t| schedule.tensors[t].bytes).sum(),
                    seconds: *seconds,
                }
            })
            .collect()
    }

    /// The most floating point operations in a second that this engine's threads reach, measured now in about 0.2 s.
    pub fn peak(&self) -> f64 {
        peak::flops_per_second(&self.pool, self.isa)
    }

    /// Threads it runs on.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }
}

impl Engine for CpuEngine {
    fn describe(&self) -> EngineInfo {
        describe()
    }

    fn prepare(&mut self, plan: &EnginePlan, weights: &Weights) -> Result<(), EngineError> {
        // The old arena goes first: two at a time would double the peak.
        self.prepared = None;
        if plan.schedule.precision != Precision::Fp32 {
            return Err(EngineError::Unsupported {
                engine: "cpu",
                what: "half precision".to_owned(),
                instead: "ask for fp32; fp16 and bf16 can be planned".to_owned(),
            });
        }
        weights.check(&plan.graph)?;
        let mut arena = Arena::allocate(plan.schedule.arena)?;
        let places = prepare::places(&mut arena, &plan.schedule);
        let shapes = shapes::infer(&plan.graph, &plan.schedule.spatial, plan.schedule.batch)?;
        let layouts = layout::of(&plan.graph);
        let preparing = Preparing {
            graph: &plan.graph,
            schedule: &plan.schedule,
            weights,
            places: &places,
            packed: std::cell::RefCell::default(),
            shapes: &shapes,
            layouts: &layouts,
        };
        preparing.check_outputs()?;
        let repeats = preparing.repeats();
        let steps = plan
            .schedule
            .steps
            .iter()
            .map(|s| preparing.step(s))
            .collect::<Result<_, _>>()?;
        let end = |t: &PlannedTensor| t.offset.saturating_add(t.bytes).align_up(256);
        let ends = plan
            .schedule
            .steps
            .iter()
            .map(|s| {
                let used = s
                    .reads
                    .iter()
                    .chain(&s.writes)
                    .map(|&t| end(&plan.schedule.tensors[t]));
                used.max().unwrap_or_default()
            })
            .collect();
        let work = prepare::work(&plan.graph, &plan.schedule);
        self.prepared = Some(Prepared {
            took: vec![0.0; work.len()],
            work,
            counter: counted::Counter::new(&plan.schedule),
            plan: plan.clone(),
            arena,
            places,
            steps,
            repeats,
            ends,
        });
        Ok(())
    }

    fn pass(
        &mut self,
        index: usize,
        source: &dyn Source,
        sink: &mut dyn Sink,
        control: &Control,
    ) -> Result<(), EngineError> {
        let isa = self.isa;
        match &mut self.prepared {
            Some(prepared) if index == 0 => self
                .pool
                .install(|| prepared.run(isa, source, sink, control)),
            prepared => Err(EngineError::NoSuchPass {
                index,
                passes: usize::from(prepared.is_some()),
            }),
        }
    }

    fn memory(&self) -> EngineMemory {
        self.prepared
            .as_ref()
            .map_or_else(EngineMemory::default, |p| EngineMemory {
                planned: p.plan.schedule.arena,
                allocated: p.arena.bytes(),
                measured_peak: p.arena.touched(),
            })
    }

    fn counted(&self) -> Vec<Bytes> {
        let counter = self.prepared.as_ref().map(|p| p.counter.seen());
        counter.unwrap_or_default().to_vec()
    }
}

impl Prepared {
    fn run(
        &mut self,
        isa: Isa,
        source: &dyn Source,
        sink: &mut dyn Sink,
        control: &Control,
    ) -> Result<(), EngineError> {
        let (batch, total) = (self.plan.schedule.batch, self.plan.n_windows);
        let mut first = 0;
        while first < total {
            let windows = batch.min(total - first);
            for step in 0..self.steps.len() {
                control.check()?;
                within(&self.work, step, (0, 1), windows, control);
                self.arena.touch(self.ends[step]);
                self.counter.begin(step);
                let start = std::time::Instant::now();
                self.step(step, isa, (first, windows), (source, sink), control)?;
                self.took[step] += start.elapsed().as_secs_f64();
                self.counter.end(step);
            }
            first += windows;
        }
        Ok(())
    }

    fn step(
        &mut self,
        step: usize,
        isa: Isa,
        (first, windows): (usize, usize),
        (source, sink): (&dyn Source, &mut dyn Sink),
        control: &Control,
    ) -> Result<(), EngineError> {
        let times = self.repeats[step].unwrap_or(windows);
        match &mut self.steps[step] {
            Ready::Gather { input, place } => {
                for window in 0..windows {
                    let (part, channels, spatial) = view(&self.plan, &self.places, *place, window);
                    let values = gathered(part);
                    source.gather(
                        first + window,
                        *input,
                        MapMut {
                            values,
                            channels,
                            spatial,
                        },
                    )?;
                }
            }
            Ready::Conv(conv) => conv.run(isa, times, control),
            Ready::Norm(norm) => norm.run(isa, times, control),
            Ready::Measure(measure) => measure.run(isa, times, control),
            Ready::Apply(norm) => norm.run_measured(isa, times, control),
            Ready::Slabs(slabs) => {
                let work = &self.work;
                slabs.run(isa, times, control, &mut |done, all| {
                    within(work, step, (done, all), windows, control);
                });
            }
            Ready::Maps(maps) => maps.run(isa, times, control),
            Ready::Tensor(step) => step.run(isa, control),
            Ready::Linear(rows) => rows.run(isa, 1, control),
            Ready::GlobalAverage {
                source,
                target,
                scratch,
                channels,
                voxels,
                bricks,
            } => {
                for window in 0..times {
                    let shape = [window, *bricks, *voxels / *bricks * *channels, *channels];
                    norm::average(isa, (*source, *target, *scratch), shape, control);
                }
            }
            Ready::Outputs => {
                for window in 0..windows {
                    for (output, place) in self.plan.schedule.outputs.iter().enumerate() {
                        let (part, channels, spatial) =
                            view(&self.plan, &self.places, *place, window);
                        sink.take(
                            first + window,
                            output,
                            Map {
                                values: finished(part),
                                channels,
                                spatial,
                            },
                        )?;
                    }
                    sink.window_done(first + window)?;
                    control.advance(1);
                }
            }
        }
        Ok(control.check()?)
    }
}

/// Says how much of a pass over so many windows is done: all steps before this one, and a share of it.
fn within(
    work: &[u64],
    step: usize,
    (part, parts): (usize, usize),
    windows: usize,
    control: &Control,
) {
    let before: u64 = work[..step].iter().sum();
    let here = u128::from(work[step]) * part as u128 / parts.max(1) as u128;
    let done = before.saturating_add(u64::try_from(here).unwrap_or(0));
    control.within(done.saturating_mul(windows as u64), work.iter().sum());
}

/// One window's part of a place, its channels and its size.
fn view(
    plan: &EnginePlan,
    places: &[Place],
    place: usize,
    window: usize,
) -> (Place, usize, [usize; 3]) {
    let shape = &plan.schedule.tensors[place].shape;
    let len = places[place].len() / shape[0];
    // More axes than three are seen as one.
    let space = shape.get(2..).unwrap_or(&[]);
    let spatial = match space.len() {
        0..=3 => three(space, 1),
        n => [space[..n - 2].iter().product(), space[n - 2], space[n - 1]],
    };
    (
        places[place].part(window * len, len),
        shape.get(1).copied().unwrap_or(1),
        spatial,
    )
}

#[expect(unsafe_code, reason = "the source fills one place of the arena")]
fn gathered<'a>(part: Place) -> &'a mut [f32] {
    // SAFETY: between steps nobody else reads or writes the arena, and the slice ends with the call it is made for.
    unsafe { part.values_mut() }
}

#[expect(unsafe_code, reason = "the sink reads one place of the arena")]
fn finished<'a>(part: Place) -> &'a [f32] {
    // SAFETY: between steps nobody writes the arena, and the slice ends with the call it is made for.
    unsafe { part.values() }
}

/// Rounds once to f32.
#[expect(clippy::cast_possible_truncation, reason = "rounding is what is meant")]
const fn rounded(x: f64) -> f32 {
    x as f32
}

#[cfg(test)]
mod attention_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod tests;
