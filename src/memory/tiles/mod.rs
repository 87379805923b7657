//! Stages in tiles. A tile is a slab of planes along the first axis: a segment of the network runs slab by slab, of the maps
//! inside it only the planes that are still needed are kept, and an output may go over an input plane by plane behind its
//! last reader, so nothing is computed twice. Where that is not enough, maps are made again instead of kept, the cheapest
//! first; a norm over space whose input is not kept takes its sums in a pass of its own.

mod emit;
mod flow;
mod program;
mod search;
mod segment;
#[cfg(test)]
mod tests;

use super::schedule::{Schedule, checked, plan};
use super::{MemoryError, Precision};
use super::{lower, order};
use crate::geometry::Extent;
use crate::network::{Graph, Op};
use crate::units::Bytes;
use program::Program;

/// How often a cut is tried again with less room because the packer needed more than lives.
const ROUNDS: usize = 6;

/// Plans one pass in at most `limit` bytes: with whole maps when they fit, else in tiles, with the least work done again.
pub fn plan_within(
    graph: &Graph,
    spatial: &[usize],
    batch: usize,
    precision: Precision,
    limit: Bytes,
) -> Result<Schedule, MemoryError> {
    let whole = plan(graph, spatial, batch, precision)?;
    if whole.arena <= limit {
        return Ok(whole);
    }
    if !can_be_tiled(graph) {
        return Err(MemoryError::LimitTooSmall {
            network: graph.name.clone(),
            roi: extent(spatial),
            least: whole.arena,
            limit,
        });
    }
    let program = program_of(graph, spatial, batch, precision)?;
    let flops = program.flops();
    let looked = search::programs(program, limit.0);
    for l in looked.iter().filter(|l| l.cut.peak <= limit.0) {
        if let Some(schedule) = packed(&l.program, limit, (&whole, flops)) {
            return Ok(schedule);
        }
    }
    // The packer may do better by the search's own cut than by those that it was asked for.
    let least = looked
        .iter()
        .filter_map(|l| scheduled(&l.program, &l.cut, (&whole, flops)))
        .min_by_key(|s| s.arena);
    let least = match least {
        Some(schedule) if schedule.arena <= limit => return Ok(schedule),
        Some(schedule) => schedule.arena.min(whole.arena),
        None => whole.arena,
    };
    Err(MemoryError::LimitTooSmall {
        network: graph.name.clone(),
        roi: extent(spatial),
        least,
        limit,
    })
}

/// Whether all values are maps. Tensors of other ranks have no planes, and one of them keeps its whole network out of tiles.
fn can_be_tiled(graph: &Graph) -> bool {
    graph.nodes.iter().all(|n| !matches!(n.op, Op::Tensor(_)))
}

/// Plans one pass: with whole maps, or under a limit.
pub fn plan_under(
    graph: &Graph,
    spatial: &[usize],
    batch: usize,
    precision: Precision,
    limit: Option<Bytes>,
) -> Result<Schedule, MemoryError> {
    match limit {
        Some(limit) => plan_within(graph, spatial, batch, precision, limit),
        None => plan(graph, spatial, batch, precision),
    }
}

/// Plans one pass in tiles that do nothing again, in as few bytes as that goes.
pub fn plan_in_tiles(
    graph: &Graph,
    spatial: &[usize],
    batch: usize,
    precision: Precision,
) -> Result<Schedule, MemoryError> {
    let whole = plan(graph, spatial, batch, precision)?;
    if !can_be_tiled(graph) {
        return Ok(whole);
    }
    let program = program_of(graph, spatial, batch, precision)?;
    let flops = program.flops();
    let cut = program.smallest();
    let least = scheduled(&program, &cut, (&whole, flops)).map(|s| s.arena);
    let thick = least.and_then(|least| packed(&program, least, (&whole, flops)));
    Ok(match thick {
        Some(tiled) if tiled.arena < whole.arena => tiled,
        _ => whole,
    })
}

fn program_of<'a>(
    graph: &'a Graph,
    spatial: &[usize],
    batch: usize,
    precision: Precision,
) -> Result<Program<'a>, MemoryError> {
    let (shapes, value_bytes) = checked(graph, spatial, batch, precision)?;
    let lowered = order::lowest(graph, lower::lower(graph), &shapes, value_bytes);
    Program::new(graph, &lowered, &shapes, value_bytes).ok_or_else(|| MemoryError::TooLarge {
        what: "an activation".to_owned(),
        roi: extent(spatial),
    })
}

/// The schedule of a program cut so that its arena is at most `limit`, packing included.
fn packed(program: &Program<'_>, limit: Bytes, whole: (&Schedule, u64)) -> Option<Schedule> {
    let mut room = limit.0;
    for _ in 0..ROUNDS {
        let Some(cut) = program.under(room) else {
            break;
        };
        let schedule = scheduled(program, &cut, whole)?;
        if schedule.arena <= limit {
            return Some(schedule);
        }
        room = room.saturating_sub(schedule.arena.0 - limit.0);
    }
    scheduled(program, &program.smallest(), whole).filter(|s| s.arena <= limit)
}

fn scheduled(
    program: &Program<'_>,
    cut: &search::Cut,
    (whole, flops): (&Schedule, u64),
) -> Option<Schedule> {
    let made = emit::emit(program, cut)?;
    let tiles = emit::tiles(program, cut, made.segments, (whole.arena, flops));
    Some(Schedule {
        steps: made.steps,
        tensors: made.tensors,
        inputs: made.inputs,
        outputs: made.outputs,
        arena: made.arena,
        lower_bound: made
            .timeline
            .iter()
            .map(|p| p.live)
            .max()
            .unwrap_or_default(),
        timeline: made.timeline,
        tiles: Some(tiles),
        network: whole.network.clone(),
        spatial: whole.spatial.clone(),
        batch: whole.batch,
        precision: whole.precision,
    })
}

fn extent(spatial: &[usize]) -> Extent {
    let at = |i: usize| spatial.get(i).copied().unwrap_or(1);
    Extent::new(at(0), at(1), at(2))
}
