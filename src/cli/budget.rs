//! `voxfit budget`: what a plan asks of memory, and the verdict per card.

use super::args::{BudgetArgs, ModeWord, OptimizerWord};
use super::failure::{Failure, USAGE};
use super::output::{self, Align};
use crate::geometry::Extent;
use crate::hardware::{BudgetOnCards, Card, Catalogue, verdict_words};
use crate::memory::Verdict;
use crate::memory::budget::{Budget, BudgetRequest, Elasticities, PartName};
use crate::memory::planner::Planner;
use crate::memory::schedule::Tiles;
use crate::network::{self, Model, facts};
use crate::study::prepared_size;
use crate::tiling::Facts;
use crate::units::Bytes;

pub(super) fn run(args: &BudgetArgs, json: bool) -> Result<u8, Failure> {
    let model = network::open_choice(&args.model, &args.files.choice_at(Some(args.roi_size)))?;
    let catalogue = Catalogue::builtin();
    let cards = if args.card.is_empty() {
        catalogue.shown_by_default()
    } else {
        args.card
            .iter()
            .map(|id| catalogue.get(id))
            .collect::<Result<Vec<_>, _>>()?
    };
    if matches!(args.mode, ModeWord::Inference)
        && (args.checkpointing || !matches!(args.optimizer, OptimizerWord::None))
    {
        output::warn(
            "an optimizer and checkpointing count in training only and are left out; add --mode training",
        );
    }
    let made = make(args, &model, &cards)?;
    if json {
        output::print_json(&made);
    } else {
        print(args, &made, &cards);
    }
    let over = made.cards.iter().any(|c| c.verdict == Verdict::Over);
    let missed = made.budget.limit.as_ref().is_some_and(|l| !l.met);
    Ok(u8::from(missed || (over && !args.card.is_empty())))
}

/// The budget of the arguments on these cards.
fn make(args: &BudgetArgs, model: &Model, cards: &[&Card]) -> Result<BudgetOnCards, Failure> {
    let facts = Facts::of(&facts::of(&model.graph)?, model.manifest.input.axes);
    let volume = args
        .volume
        .map(|v| prepared_size(v, None, &model.manifest.input, facts.total_stride).padded);
    let roi_size = whole_axes(args.roi_size, volume)?;
    let request = BudgetRequest {
        volume,
        runtime: args.runtime.into(),
        mode: args.mode.into(),
        precision: args.precision.into(),
        batch: args.batch,
        optimizer: args.optimizer.into(),
        checkpointing: args.checkpointing,
        stitch_on: args.stitch_on.into(),
        display: args.display.into(),
        axes: model.manifest.input.axes,
        memory_limit: args.memory_limit,
        tiles: args.tiles,
        ..BudgetRequest::new(&model.graph, roi_size)
    };
    let budget = Planner::new(&model.graph).budget(&request)?;
    let mut made = BudgetOnCards::new(&request, budget, cards);
    made.add_tiles(&request);
    Ok(made)
}

/// The roi with 0 entries filled in from the volume.
fn whole_axes(roi: Extent, volume: Option<Extent>) -> Result<Extent, Failure> {
    if !roi.is_empty() {
        return Ok(roi);
    }
    let Some(volume) = volume else {
        return Err(Failure::new(
            USAGE,
            format!("a roi of {roi} means whole axes: add --volume, such as --volume 512x512x192"),
        ));
    };
    Ok(roi.zip(volume, |r, v| if r == 0 { v } else { r }))
}

fn print(args: &BudgetArgs, made: &BudgetOnCards, cards: &[&Card]) {
    let gib = |b: Bytes| format!("{:.2}", b.as_gib());
    let b = &made.budget;
    let range = |low: Bytes, high: Bytes| {
        if low == high {
            gib(high)
        } else {
            format!("{} to {}", gib(low), gib(high))
        }
    };
    let need = b.parts.required();
    output::say(&format!(
        "{} at roi {}: {} GiB",
        args.model,
        args.roi_size,
        range(need.low, need.high)
    ));
    let rows: Vec<Vec<String>> = PartName::ALL
        .iter()
        .map(|&name| (name, b.parts.get(name)))
        .filter(|(_, p)| p.high > Bytes::ZERO)
        .map(|(name, p)| {
            vec![
                name.label().to_owned(),
                range(p.low, p.high),
                format!("{:?}", p.source).to_lowercase(),
            ]
        })
        .collect();
    output::table(
        &[
            ("part", Align::Left),
            ("GiB", Align::Right),
            ("source", Align::Left),
        ],
        &rows,
    );
    output::say(&format!(
        "peak at step {} of {}, {}",
        b.peak_step.index + 1,
        b.timeline.len(),
        b.peak_step.node
    ));
    if let Some(text) = b.limit.as_ref().and_then(|l| l.text.as_ref()) {
        output::warn(text);
        output::say("what follows is the plan that needs least:");
    }
    if let Some(tiles) = &b.tiles {
        print_tiles(tiles, b.arena.unwrap_or_default());
    }
    print_host(b, &range);
    print_knobs(&b.elasticities);
    output::say("");
    let rows: Vec<Vec<String>> = made
        .cards
        .iter()
        .zip(cards)
        .map(|(v, card)| {
            let word = match v.verdict {
                Verdict::Fits => "fits",
                Verdict::Tight => "tight",
                Verdict::Over => "OVER",
            };
            vec![
                card.short_name().to_owned(),
                format!("{} card = {} GiB usable", card.nameplate(), gib(v.usable)),
                word.to_owned(),
                verdict_words(v),
            ]
        })
        .collect();
    output::table(
        &[
            ("card", Align::Left),
            ("", Align::Left),
            ("verdict", Align::Left),
            ("", Align::Left),
        ],
        &rows,
    );
    for f in &b.fixes {
        output::say(&format!(
            "fix: {} needs {} GiB ({})",
            f.change,
            range(f.required_low, f.required),
            f.exactness
        ));
    }
    for c in &b.cliffs {
        output::warn(&c.text);
    }
}

/// What the host must hold, part by part.
fn print_host(b: &Budget, range: &impl Fn(Bytes, Bytes) -> String) {
    output::say(&format!("host {:.2} GiB", b.host_peak.as_gib()));
    let rows: Vec<Vec<String>> = b
        .host_parts
        .iter()
        .map(|(name, p)| {
            vec![
                name.clone(),
                range(p.low, p.high),
                format!("{:?}", p.source).to_lowercase(),
            ]
        })
        .collect();
    output::table(
        &[
            ("on the host", Align::Left),
            ("GiB", Align::Right),
            ("source", Align::Left),
        ],
        &rows,
    );
}

/// How bytes move with each knob: the power of each, and what one layer more takes at each resolution.
fn print_knobs(e: &Elasticities) {
    let powers: Vec<String> = [
        ("batch", e.batch),
        ("x", e.x),
        ("y", e.y),
        ("z", e.z),
        ("channels", e.channels),
    ]
    .into_iter()
    .filter_map(|(name, power)| Some(format!("{name}^{:.2}", power?)))
    .collect();
    if !powers.is_empty() {
        output::say(&format!("activations move with {}", powers.join(", ")));
    }
    let layers: Vec<String> = e
        .depth
        .iter()
        .map(|d| format!("{} at {}", d.bytes, output::sizes(&d.spatial)))
        .collect();
    if !layers.is_empty() {
        output::say(&format!("one layer more takes {}", layers.join(", ")));
    }
}

/// What tiles save and cost, segment by segment.
fn print_tiles(tiles: &Tiles, arena: Bytes) {
    let done_again = if tiles.recompute_flops == 0 {
        "nothing is computed twice".to_owned()
    } else {
        format!(
            "{:.1} % of the work is done again ({:.2} TFLOP)",
            tiles.recompute_percent,
            tiles.recompute_flops as f64 / 1e12
        )
    };
    output::say(&format!(
        "in tiles: {:.2} GiB of arena in place of {:.2}; {done_again}",
        arena.as_gib(),
        tiles.untiled.as_gib()
    ));
    let rows: Vec<Vec<String>> = tiles
        .segments
        .iter()
        .map(|s| {
            vec![
                (s.step + 1).to_string(),
                s.name.clone(),
                s.operations.to_string(),
                s.slabs.to_string(),
                format!("{:.2}", s.kept.as_gib()),
                format!("{:.2}", s.recompute_flops as f64 / 1e12),
            ]
        })
        .collect();
    output::table(
        &[
            ("step", Align::Right),
            ("in slabs", Align::Left),
            ("operations", Align::Right),
            ("slabs", Align::Right),
            ("kept GiB", Align::Right),
            ("again TFLOP", Align::Right),
        ],
        &rows,
    );
    for norm in &tiles.statistics_passes {
        output::say(&format!("a statistics pass of its own: {norm}"));
    }
}
