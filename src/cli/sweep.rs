//! `voxfit sweep`: the trade-off curve of rois x precisions x layouts, planned, measured elsewhere, or measured here.

use super::args::{
    DisplayWord, ModelArgs, Overlaps, PrecisionWord, RuntimeWord, StitchWord, blend, layout,
    parse_batch, parse_overlap_text, parse_roi_text, parse_threads,
};
use super::failure::{CANCELLED, DATA, Failure, USAGE, WRITE};
use super::output::{self, Align};
use super::{fit, forward, progress};
use crate::exchange::result::{NetworkSource, check_writable, write_beside};
use crate::exchange::sweep::{PointsError, Sweep, SweepRow, read_points};
use crate::geometry::Extent;
use crate::hardware::{Card, Catalogue, Costs, free_on};
use crate::jobs::{Cancelled, Control};
use crate::memory::Precision;
use crate::network::{self, Model, facts};
use crate::report::scatter::{row_words, source_word, tradeoff_chart};
use crate::report::svg;
use crate::study::sweep::{Asked, Bench, MOST_ROWS, SweepSpec, rows};
use crate::study::{self, Opened, StudySize, prepared_size};
use crate::tiling::{Blend, Choice, Layout};
use crate::units::Bytes;
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct SweepArgs {
    /// A study (DICOM, NIfTI, MHD, npy, phantom:XxYxZ) or the size of one, such as 512x512x240.
    study: String,
    /// A file or preset:NAME.
    model: String,
    /// Window sizes, joined by commas; 0 or -1 means the whole axis.
    #[arg(long, value_parser = parse_roi_text, value_delimiter = ',', allow_hyphen_values = true)]
    roi_sizes: Vec<Extent>,
    /// Share of the window, one figure or three.
    #[arg(long, value_parser = parse_overlap_text, allow_hyphen_values = true)]
    overlap: Option<Overlaps>,
    /// constant or gaussian.
    #[arg(long, value_parser = blend)]
    blend: Option<Blend>,
    /// fp32, fp16, bf16, amp, joined by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "fp32")]
    precision: Vec<PrecisionWord>,
    /// monai, nnunet, aligned, joined by commas; the manifest's if left out.
    #[arg(long, value_parser = layout, value_delimiter = ',')]
    layout: Vec<Layout>,
    #[arg(long, value_enum, default_value = "voxfit")]
    runtime: RuntimeWord,
    /// Windows per forward pass.
    #[arg(long, default_value = "1", value_parser = parse_batch, allow_hyphen_values = true)]
    batch: usize,
    #[arg(long, value_enum, default_value = "host")]
    stitch_on: StitchWord,
    /// What else the card shows.
    #[arg(long, value_enum, default_value = "headless")]
    display: DisplayWord,
    /// Most bytes of the arena: a window that needs more runs in tiles.
    #[arg(long, value_parser = crate::app::parse::bytes)]
    memory_limit: Option<Bytes>,
    /// Cards by id; forecast seconds are of the first.
    #[arg(long, num_args = 1.., value_delimiter = ',')]
    card: Vec<String>,
    /// A file of cards that corrects or adds to the catalogue.
    #[arg(long)]
    card_file: Option<PathBuf>,
    /// A file that corrects what forecast seconds are reckoned with.
    #[arg(long)]
    costs: Option<PathBuf>,
    /// A result that measured rows are compared with.
    #[arg(long, requires = "measure")]
    reference: Option<PathBuf>,
    /// Run the rows on the CPU engine; a second call goes on where the first ended.
    #[arg(long)]
    measure: bool,
    /// One window may cover the whole volume in measured rows.
    #[arg(long, requires = "measure")]
    allow_single_pass: bool,
    /// Threads of the CPU engine; 0 takes all cores.
    #[arg(long, default_value = "0", value_parser = parse_threads, allow_hyphen_values = true)]
    threads: usize,
    /// Peaks and seconds measured elsewhere, as CSV with a head: roi size, peak, precision, layout, seconds, parity, note.
    #[arg(long)]
    points: Option<PathBuf>,
    /// Folder for sweep.json, sweep.csv, sweep.svg and the results of measured rows.
    #[arg(long)]
    out: PathBuf,
    #[command(flatten)]
    files: ModelArgs,
}

impl From<PointsError> for Failure {
    fn from(e: PointsError) -> Self {
        Self::new(DATA, e.to_string())
    }
}

/// What is swept over.
struct Over {
    size: StudySize,
    opened: Option<Opened>,
}

pub(super) fn run(args: &SweepArgs, json: bool) -> Result<u8, Failure> {
    let model = network::open_choice(&args.model, &args.files.choice())?;
    let catalogue = fit::catalogue(args.card_file.as_deref())?;
    let spec = spec(args, &catalogue)?;
    let mut rows = asked_rows(args, &model)?;
    let over = over(args)?;
    super::paths::not_among_slices("--out", &args.out)?;
    forward::make_folder(&args.out)?;
    for file in ["sweep.json", "sweep.csv", "sweep.svg"] {
        check_writable("sweep", &args.out.join(file))?;
    }
    progress::with("rows planned", |control| {
        control.set_total(rows.len() as u64);
        for row in &mut rows {
            control.check()?;
            spec.plan(row, &model, over.size);
            control.advance(1);
        }
        Ok::<_, Cancelled>(())
    })?;
    let stride = facts::total_stride(&model.graph)?;
    let axes = model.manifest.input.axes;
    let stride = axes.reorder(std::array::from_fn(|a| stride.get(a).copied().unwrap_or(1)));
    let size = prepared_size(
        over.size.extent,
        over.size.spacing_mm,
        &model.manifest.input,
        stride,
    );
    let mut sweep = Sweep {
        study: args.study.clone(),
        network: model.graph.name.clone(),
        volume: size.padded,
        seconds_on: spec.cards.first().map(|c| c.id.clone()),
        rows,
    };
    let mut cancelled = false;
    write(&sweep, &spec, &args.out)?;
    if let (true, Some(opened)) = (args.measure, &over.opened) {
        cancelled = measure(args, &model, opened, &spec, &mut sweep)?;
        write(&sweep, &spec, &args.out)?;
    }
    if json {
        output::print_json(&sweep);
    } else {
        print(&sweep, &spec, &args.out);
    }
    if cancelled {
        return Ok(CANCELLED);
    }
    let nothing = sweep
        .rows
        .iter()
        .all(|r| r.cards.values().all(|v| *v == crate::memory::Verdict::Over));
    if nothing {
        output::warn("no row fits any of the cards");
    }
    Ok(u8::from(nothing))
}

fn spec<'c>(args: &SweepArgs, catalogue: &'c Catalogue) -> Result<SweepSpec<'c>, Failure> {
    Ok(SweepSpec {
        asked: Asked {
            windows: Choice {
                roi_size: None,
                overlap: args.overlap.map(|o| o.0),
                blend: args.blend,
                layout: None,
            },
            runtime: args.runtime.into(),
            precision: Precision::Fp32,
            batch: args.batch,
            stitch_on: args.stitch_on.into(),
            display: args.display.into(),
            memory_limit: args.memory_limit,
        },
        cards: fit::cards(catalogue, &args.card)?,
        costs: match &args.costs {
            Some(path) => Costs::with_user_file(path)?,
            None => Costs::builtin(),
        },
    })
}

/// Points first, then rois in their order; a roi that is among the points is planned all the same.
fn asked_rows(args: &SweepArgs, model: &Model) -> Result<Vec<SweepRow>, Failure> {
    let layouts = if args.layout.is_empty() {
        vec![model.manifest.windows.layout.into()]
    } else {
        args.layout.clone()
    };
    let precisions: Vec<Precision> = args.precision.iter().map(|p| (*p).into()).collect();
    let mut all = match &args.points {
        Some(path) => read_points(path)?,
        None => Vec::new(),
    };
    all.extend(rows(&args.roi_sizes, &precisions, &layouts));
    if all.is_empty() {
        return Err(Failure::new(
            USAGE,
            "nothing to sweep: add --roi-sizes 512x512x192,512x512x64 or --points FILE",
        ));
    }
    if all.len() > MOST_ROWS {
        return Err(Failure::new(
            USAGE,
            format!("a sweep has at most {MOST_ROWS} rows, found {}", all.len()),
        ));
    }
    Ok(all)
}

/// The size that is swept over; the study itself where one was named.
fn over(args: &SweepArgs) -> Result<Over, Failure> {
    if let Ok(extent) = args.study.parse::<Extent>()
        && !Path::new(&args.study).exists()
    {
        if args.measure {
            return Err(Failure::new(
                USAGE,
                format!(
                    "--measure runs a study, and {} is a size; name a study, or phantom:{extent}",
                    args.study
                ),
            ));
        }
        let extent = super::args::size(&args.study).map_err(|why| Failure::new(USAGE, why))?;
        return Ok(Over {
            size: StudySize {
                extent,
                spacing_mm: None,
            },
            opened: None,
        });
    }
    let opened = progress::with("slices", |c| study::open(&args.study, None, c))?;
    for w in &opened.warnings {
        output::warn(&w.text);
    }
    Ok(Over {
        size: StudySize {
            extent: opened.volume.extent,
            spacing_mm: opened
                .spacing_known()
                .then(|| opened.volume.affine.spacing_mm()),
        },
        opened: Some(opened),
    })
}

/// Runs the rows one by one and writes after each; whether it was cancelled.
fn measure(
    args: &SweepArgs,
    model: &Model,
    opened: &Opened,
    spec: &SweepSpec<'_>,
    sweep: &mut Sweep,
) -> Result<bool, Failure> {
    let runs = args.out.join("runs");
    forward::make_folder(&runs)?;
    let mut engine = forward::pick("cpu", args.threads)?;
    let bench = Bench {
        study: opened,
        model,
        source: NetworkSource::new(&args.model, &args.files.choice()),
        reference: args.reference.clone(),
        allow_single_pass: args.allow_single_pass,
        folder: &runs,
    };
    let n = sweep.rows.len();
    let mut cancelled = false;
    for i in 0..n {
        let mut row = sweep.rows[i].clone();
        if row.source == crate::memory::Source::Measured {
            continue;
        }
        let what = format!("row {} of {n}, windows", i + 1);
        let done = progress::writing(&what, |control: &Control| {
            bench.measure(&mut row, spec, engine.as_mut(), control)?;
            Ok::<_, Cancelled>(())
        });
        match done {
            Ok(()) => {
                sweep.rows[i] = row;
                write(sweep, spec, &args.out)?;
            }
            Err(e) if e.is_cancelled() => {
                cancelled = true;
                output::warn(&format!(
                    "cancelled; what was measured is kept, and the same command goes on from there: {}",
                    args.out.display()
                ));
                break;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(cancelled)
}

fn uprights(cards: &[&Card], spec: &SweepSpec<'_>) -> Vec<(String, f64)> {
    let mut lines: Vec<(String, f64)> = cards
        .iter()
        .map(|c| {
            let free = free_on(c, spec.asked.display).as_gib();
            (c.nameplate(), free)
        })
        .collect();
    lines.sort_by(|a, b| a.1.total_cmp(&b.1));
    lines.dedup_by(|a, b| a.0 == b.0);
    lines
}

fn write(sweep: &Sweep, spec: &SweepSpec<'_>, folder: &Path) -> Result<(), Failure> {
    sweep.write(folder)?;
    if let Some(chart) = tradeoff_chart(sweep, &uprights(&spec.cards, spec)) {
        let text = svg::scatter(&chart, 960.0, 560.0);
        write_beside("the curve", &folder.join("sweep.svg"), |out| {
            out.write_all(text.as_bytes())
        })
        .map_err(|e| Failure::new(WRITE, e.to_string()))?;
    }
    Ok(())
}

fn print(sweep: &Sweep, spec: &SweepSpec<'_>, folder: &Path) {
    output::say(&format!(
        "{} over {} ({} prepared)",
        sweep.network, sweep.study, sweep.volume
    ));
    let mut heads = vec![
        ("roi", Align::Right),
        ("precision", Align::Left),
        ("layout", Align::Left),
        ("windows", Align::Right),
        ("peak GiB", Align::Right),
        ("seconds", Align::Right),
        ("exactness", Align::Left),
        ("parity", Align::Left),
        ("source", Align::Left),
    ];
    heads.extend(spec.cards.iter().map(|c| (c.id.as_str(), Align::Left)));
    heads.push(("", Align::Left));
    let lines: Vec<Vec<String>> = sweep
        .rows
        .iter()
        .map(|r| {
            let mut cells = row_words(r).to_vec();
            cells.push(source_word(r.source).to_owned());
            cells.extend(spec.cards.iter().map(|c| {
                let word = r
                    .cards
                    .get(&c.id)
                    .map(|v| crate::report::ink::verdict_word(*v));
                word.unwrap_or("\u{2014}").to_owned()
            }));
            cells.push(r.note.clone().unwrap_or_default());
            cells
        })
        .collect();
    output::table(&heads, &lines);
    if let Some(card) = &sweep.seconds_on
        && sweep
            .rows
            .iter()
            .any(|r| r.seconds_source == Some(crate::memory::Source::Guessed))
    {
        output::say(&format!(
            "seconds of rows that are not measured are a forecast of the windows on {card} at a stated share of its rates"
        ));
    }
    output::say(&format!("table, curve and JSON: {}", folder.display()));
}
