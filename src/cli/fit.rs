//! `voxfit fit`: the largest roi per card, and the next larger one that does not fit.

use super::args::{DisplayWord, ModelArgs, layout, parse_batch, parse_overlap_text, size};
use super::args::{ModeWord, OptimizerWord, Overlaps, PrecisionWord, RuntimeWord, StitchWord};
use super::failure::Failure;
use super::output::{self, Align};
use crate::geometry::Extent;
use crate::hardware::{Card, CardFit, Catalogue, Limit, largest_rois};
use crate::memory::budget::BudgetRequest;
use crate::memory::largest::{LargestSearch, Rules, WITHOUT_VOLUME};
use crate::memory::planner::Planner;
use crate::network::{self, Model, facts};
use crate::study::prepared_size;
use crate::tiling::{Choice, Facts, Layout, TilingSpec};
use crate::units::Bytes;
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of a command line"
)]
pub(super) struct FitArgs {
    /// A file or preset:NAME.
    model: String,
    /// Cards by id.
    #[arg(long, num_args = 1.., value_delimiter = ',')]
    card: Vec<String>,
    /// A file of cards that corrects or adds to the catalogue.
    #[arg(long)]
    card_file: Option<PathBuf>,
    /// Size of the volume; without it rois up to 512x512x1024 are looked at.
    #[arg(long, value_parser = size, allow_hyphen_values = true)]
    volume: Option<Extent>,
    /// Whole slices: only z shrinks. Without it x and y shrink together.
    #[arg(long)]
    keep_in_plane: bool,
    #[arg(long, value_enum, default_value = "voxfit")]
    runtime: RuntimeWord,
    #[arg(long, value_enum, default_value = "inference")]
    mode: ModeWord,
    #[arg(long, value_enum, default_value = "fp32")]
    precision: PrecisionWord,
    /// Windows per forward pass, or the training batch.
    #[arg(long, default_value = "1", value_parser = parse_batch, allow_hyphen_values = true)]
    batch: usize,
    #[arg(long, value_enum, default_value = "none")]
    optimizer: OptimizerWord,
    /// Activations are computed twice and kept once.
    #[arg(long)]
    checkpointing: bool,
    /// Share of the window, one figure or three; decides with --exact whether windows see enough.
    #[arg(long, value_parser = parse_overlap_text, allow_hyphen_values = true)]
    overlap: Option<Overlaps>,
    /// monai, nnunet or aligned; decides with --exact where windows lie.
    #[arg(long, value_parser = layout)]
    layout: Option<Layout>,
    /// Only rois whose windows are forecast to give bitwise what one pass gives.
    #[arg(long)]
    exact: bool,
    /// Windows in tiles, as far as that goes without computing anything twice.
    #[arg(long, conflicts_with = "memory_limit")]
    tiles: bool,
    /// Most bytes of the arena, such as 3865470566 or "3.6 GiB": a window that needs more runs in tiles.
    #[arg(long, value_parser = crate::app::parse::bytes)]
    memory_limit: Option<Bytes>,
    #[arg(long, value_enum, default_value = "host")]
    stitch_on: StitchWord,
    /// What else the card shows.
    #[arg(long, value_enum, default_value = "headless")]
    display: DisplayWord,
    #[command(flatten)]
    files: ModelArgs,
}

/// The catalogue, with a user's own file on top.
pub(super) fn catalogue(file: Option<&Path>) -> Result<Catalogue, Failure> {
    Ok(match file {
        Some(path) => Catalogue::with_user_file(path)?,
        None => Catalogue::builtin(),
    })
}

/// The cards of these ids, or those that a plan is first shown against.
pub(super) fn cards<'c>(
    catalogue: &'c Catalogue,
    ids: &[String],
) -> Result<Vec<&'c Card>, Failure> {
    if ids.is_empty() {
        return Ok(catalogue.shown_by_default());
    }
    let found: Result<Vec<_>, _> = ids.iter().map(|id| catalogue.get(id)).collect();
    Ok(found?)
}

pub(super) fn run(args: &FitArgs, json: bool) -> Result<u8, Failure> {
    let model = network::open_choice(&args.model, &args.files.choice())?;
    let catalogue = catalogue(args.card_file.as_deref())?;
    let cards = cards(&catalogue, &args.card)?;
    let facts = Facts::of(&facts::of(&model.graph)?, model.manifest.input.axes);
    let volume = args
        .volume
        .map(|v| prepared_size(v, None, &model.manifest.input, facts.total_stride).padded);
    if volume.is_none() {
        output::warn(&format!(
            "no --volume: rois up to {WITHOUT_VOLUME} are looked at"
        ));
    }
    let request = request(args, &model, volume);
    let rules = Rules {
        keep_in_plane: args.keep_in_plane,
        exact: args
            .exact
            .then(|| tiling(args, &model))
            .transpose()?
            .map(|t| (t, facts)),
    };
    let planner = Planner::new(&model.graph);
    let limit = volume.unwrap_or(WITHOUT_VOLUME);
    let search = LargestSearch::new(&planner, request, limit, rules);
    search.check()?;
    let found = largest_rois(&search, &cards, args.display.into());
    if json {
        output::print_json(&json!({ "cards": found }));
    } else {
        print(&args.model, &found, &cards);
    }
    let none = found.iter().any(|f| f.roi_size.is_none());
    Ok(u8::from(none && !args.card.is_empty()))
}

fn request<'a>(args: &FitArgs, model: &'a Model, volume: Option<Extent>) -> BudgetRequest<'a> {
    BudgetRequest {
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
        ..BudgetRequest::new(&model.graph, Extent::cube(1))
    }
}

fn tiling(args: &FitArgs, model: &Model) -> Result<TilingSpec, Failure> {
    let choice = Choice {
        roi_size: None,
        overlap: args.overlap.map(|o| o.0),
        blend: None,
        layout: args.layout,
    };
    Ok(choice.over(&TilingSpec::from(&model.manifest.windows))?)
}

fn print(model: &str, found: &[CardFit<'_>], cards: &[&Card]) {
    let dash = || "\u{2014}".to_owned();
    let gib = |b: Option<Bytes>| b.map_or_else(dash, |b| format!("{:.2}", b.as_gib()));
    output::say(&format!("the largest roi of {model} on each card"));
    let rows: Vec<Vec<String>> = found
        .iter()
        .zip(cards)
        .map(|(f, card)| {
            let what = match (f.roi_size, f.limit) {
                (None, _) => "nothing fits",
                (_, Limit::Volume) => "the whole volume, in one pass",
                (_, Limit::Card) => "",
            };
            vec![
                card.short_name().to_owned(),
                card.nameplate(),
                gib(Some(f.free)),
                f.roi_size.map_or_else(dash, |r| r.to_string()),
                gib(f.required),
                f.next.map_or_else(dash, |n| n.roi_size.to_string()),
                gib(f.next.and_then(|n| n.required)),
                what.to_owned(),
            ]
        })
        .collect();
    output::table(
        &[
            ("card", Align::Left),
            ("", Align::Right),
            ("free GiB", Align::Right),
            ("largest roi", Align::Right),
            ("needs GiB", Align::Right),
            ("next larger", Align::Right),
            ("needs GiB", Align::Right),
            ("", Align::Left),
        ],
        &rows,
    );
}
