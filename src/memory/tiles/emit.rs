//! From a program cut into segments to the schedule that the engine runs and the plot shows.

use super::flow::Flow;
use super::program::{Program, Work, WorkPost};
use super::search::Cut;
use super::segment::{Over, Segment};
use crate::memory::schedule::{self, Kernel, PlannedTensor, Post, Slab, Slabs, Step, Tiles};
use crate::memory::{arena, lifetimes};
use crate::units::Bytes;
use std::ops::Range;

/// Steps, places and what tiles do, before sizes are filled in.
#[derive(Debug)]
pub(super) struct Emitted {
    pub(super) steps: Vec<Step>,
    pub(super) tensors: Vec<PlannedTensor>,
    pub(super) inputs: Vec<usize>,
    pub(super) outputs: Vec<usize>,
    pub(super) arena: Bytes,
    pub(super) timeline: Vec<schedule::TimelinePoint>,
    pub(super) segments: Vec<schedule::Segment>,
}

struct Emitting<'p, 'a> {
    program: &'p Program<'a>,
    /// The step after the last one that reads each value.
    last: Vec<usize>,
    place: Vec<Option<usize>>,
    tensors: Vec<PlannedTensor>,
}

/// The schedule of a cut; `None` past 2^64 bytes.
pub(super) fn emit(program: &Program<'_>, cut: &Cut) -> Option<Emitted> {
    let mut step_of = vec![0; program.works.len()];
    for (step, segment) in cut.segments.iter().enumerate() {
        step_of[segment.works.clone()].fill(step);
    }
    let mut emitting = Emitting {
        program,
        last: program.last.iter().map(|w| step_of[*w] + 1).collect(),
        place: vec![None; program.values.len()],
        tensors: Vec::new(),
    };
    let (mut steps, mut segments) = (Vec::new(), Vec::new());
    for (index, segment) in cut.segments.iter().enumerate() {
        match segment.thickness {
            None => steps.push(emitting.whole(index, segment)),
            Some(thickness) => {
                let (step, told) = emitting.in_slabs(index, segment, thickness);
                steps.push(step);
                segments.push(told);
            }
        }
    }
    let of_kind = |wanted: fn(&Work) -> bool| -> Vec<usize> {
        let works = program.works.iter().filter(|w| wanted(w));
        works
            .flat_map(|w| w.target.into_iter().chain(w.sources.iter().copied()))
            .filter_map(|v| emitting.place[v])
            .collect()
    };
    let inputs = of_kind(|w| w.kernel == Kernel::Gather);
    let outputs = of_kind(|w| w.kernel == Kernel::Outputs);
    let mut tensors = emitting.tensors;
    let arena = arena::pack(&mut tensors)?;
    let timeline = lifetimes::timeline(&steps, &tensors);
    Some(Emitted {
        steps,
        tensors,
        inputs,
        outputs,
        arena,
        timeline,
        segments,
    })
}

impl Emitting<'_, '_> {
    fn whole(&mut self, index: usize, segment: &Segment) -> Step {
        let w = segment.works.start;
        self.targets(index, segment);
        let work = &self.program.works[w];
        let mut step = self.step(work);
        if work.scratch > 0 {
            let scratch = self.bytes(format!("{} sums", work.name), work.scratch, index);
            step.scratch = Some(scratch);
            step.writes.push(scratch);
        }
        step
    }

    /// Gives all that a segment keeps whole its place.
    fn targets(&mut self, index: usize, segment: &Segment) {
        let rings = &segment.rings;
        for w in segment.works.clone() {
            let work = &self.program.works[w];
            let sums = if work.measures() { work.sums } else { None };
            for v in work.target.iter().chain(&work.more).copied().chain(sums) {
                if rings.iter().any(|(ring, _)| *ring == v) {
                    continue;
                }
                let over = segment.over.iter().find(|o| o.value == v);
                match over.and_then(|o| self.place[o.old]) {
                    Some(at) => self.overwrite(at, v),
                    None => self.new_place(v, index, None),
                }
            }
        }
    }

    fn overwrite(&mut self, at: usize, value: usize) {
        self.place[value] = Some(at);
        let tensor = &mut self.tensors[at];
        tensor.last = tensor.last.max(self.last[value]);
        tensor.values.extend(self.program.values[value].tensor);
    }

    fn new_place(&mut self, value: usize, index: usize, planes: Option<usize>) {
        let at = self.push(value, index, planes);
        self.place[value] = Some(at);
    }

    /// A place for a value: whole until its last reader, or some planes while this step runs.
    fn push(&mut self, value: usize, index: usize, planes: Option<usize>) -> usize {
        let v = &self.program.values[value];
        self.tensors.push(PlannedTensor {
            name: v.name.clone(),
            shape: v.shape.clone(),
            bytes: Bytes(planes.map_or(v.bytes, |n| v.plane * n as u64)),
            first: index,
            last: planes.map_or(self.last[value], |_| index + 1),
            offset: Bytes::ZERO,
            values: v.tensor.into_iter().collect(),
            planes,
        });
        self.tensors.len() - 1
    }

    fn bytes(&mut self, name: String, bytes: u64, index: usize) -> usize {
        self.tensors.push(PlannedTensor {
            name,
            shape: vec![usize::try_from(bytes).unwrap_or(usize::MAX)],
            bytes: Bytes(bytes),
            first: index,
            last: index + 1,
            offset: Bytes::ZERO,
            values: vec![],
            planes: None,
        });
        self.tensors.len() - 1
    }

    /// The step of one operation; every value that it touches has its place.
    fn step(&self, work: &Work) -> Step {
        let at = |v: &usize| self.place[*v];
        let sources: Vec<usize> = work.sources.iter().filter_map(at).collect();
        let posts: Vec<Post> = work
            .posts
            .iter()
            .filter_map(|p| {
                Some(match p {
                    WorkPost::Alone(post) => *post,
                    WorkPost::Add(v) => Post::Add(at(v)?),
                    WorkPost::Mul(v) => Post::Mul(at(v)?),
                })
            })
            .collect();
        let sums = work.sums.as_ref().and_then(at);
        let mut reads = sources.clone();
        reads.extend(posts.iter().filter_map(|p| p.reads()));
        let mut writes: Vec<usize> = work
            .target
            .iter()
            .chain(&work.more)
            .filter_map(at)
            .collect();
        if work.measures() {
            writes.extend(sums);
        } else {
            reads.extend(sums);
        }
        reads.sort_unstable();
        reads.dedup();
        let again = if work.again { " again" } else { "" };
        Step {
            name: format!("{}{again}", work.name),
            nodes: work.nodes.clone(),
            kernel: work.kernel,
            sources,
            posts,
            target: work.target.as_ref().and_then(at),
            scratch: sums,
            reads,
            writes,
            slabs: None,
        }
    }

    fn in_slabs(
        &mut self,
        index: usize,
        segment: &Segment,
        thickness: usize,
    ) -> (Step, schedule::Segment) {
        let program = self.program;
        self.targets(index, segment);
        for (v, planes) in &segment.rings {
            self.new_place(*v, index, Some(*planes));
        }
        let waiting: Vec<(Over, usize)> = segment
            .over
            .iter()
            .filter(|o| o.waiting > 0)
            .map(|o| (*o, self.push(o.value, index, Some(o.waiting))))
            .collect();
        let flow = Flow::new(program, segment.works.clone(), thickness);
        let mut steps: Vec<Step> = segment
            .works
            .clone()
            .map(|w| self.step(&program.works[w]))
            .collect();
        let mut staged = Vec::new();
        for (o, stage) in &waiting {
            let maker = program.made[o.value] - segment.works.start;
            if let Some(target) = steps[maker].target.replace(*stage) {
                staged.push((*stage, target));
            }
        }
        let parts = (0..flow.slabs)
            .map(|slab| self.slab(&flow, slab, segment, &waiting))
            .collect();
        let works = &program.works[segment.works.clone()];
        let name = match works {
            [only] => only.name.clone(),
            [first, .., last] => format!("{} to {}", first.name, last.name),
            [] => String::new(),
        };
        let mut writes: Vec<usize> = steps.iter().flat_map(|s| s.writes.clone()).collect();
        writes.extend(waiting.iter().map(|w| w.1));
        let mut reads: Vec<usize> = steps.iter().flat_map(|s| s.reads.clone()).collect();
        for all in [&mut reads, &mut writes] {
            all.sort_unstable();
            all.dedup();
        }
        let kept: u64 = self
            .tensors
            .iter()
            .filter(|t| t.planes.is_some() && t.first == index)
            .map(|t| t.bytes.0)
            .sum();
        let told = schedule::Segment {
            step: index,
            name: name.clone(),
            operations: works.len(),
            slabs: flow.slabs,
            planes: thickness,
            kept: Bytes(kept),
            recompute_flops: works.iter().filter(|w| w.again).map(|w| w.flops).sum(),
        };
        let step = Step {
            name,
            nodes: vec![],
            kernel: Kernel::Slabs,
            sources: vec![],
            posts: vec![],
            target: None,
            scratch: None,
            reads,
            writes,
            slabs: Some(Box::new(Slabs {
                steps,
                parts,
                staged,
            })),
        };
        (step, told)
    }

    fn slab(&self, flow: &Flow, slab: usize, segment: &Segment, waiting: &[(Over, usize)]) -> Slab {
        let made = |v: usize| self.program.made[v] - segment.works.start;
        let makes = (0..segment.works.len())
            .map(|o| flow.done(o, slab)..flow.done(o, slab + 1))
            .collect();
        let copied = |o: &Over, slabs: usize| {
            flow.done(made(o.value), slabs)
                .min(flow.needed(o.old, slabs))
        };
        let rings = segment
            .rings
            .iter()
            .filter_map(|(v, _)| Some((self.place[*v]?, flow.held(*v, made(*v), slab))));
        let stages = waiting.iter().map(|(o, stage)| {
            let held: Range<usize> = copied(o, slab)..flow.done(made(o.value), slab + 1);
            (*stage, held)
        });
        Slab {
            makes,
            holds: rings.chain(stages).collect(),
            copies: waiting
                .iter()
                .map(|(o, _)| copied(o, slab)..copied(o, slab + 1))
                .collect(),
        }
    }
}

/// What tiles save and cost, for the schedule.
pub(super) fn tiles(
    program: &Program<'_>,
    cut: &Cut,
    segments: Vec<schedule::Segment>,
    (untiled, flops): (Bytes, u64),
) -> Tiles {
    let kept = |v: usize| {
        let rings = cut.segments.iter().flat_map(|s| &s.rings);
        !rings.clone().any(|(ring, _)| *ring == v)
    };
    let passes = program.works.iter().filter(|w| w.measures());
    let again = program.flops().saturating_sub(flops);
    Tiles {
        untiled,
        flops,
        recompute_flops: again,
        recompute_percent: 100.0 * again as f64 / (flops as f64).max(1.0),
        statistics_passes: passes
            .filter(|w| w.sources.first().is_some_and(|v| !kept(*v)))
            .map(|w| w.name.clone())
            .collect(),
        segments,
    }
}
