//! `voxfit buy`: what carries a load, and what a study then costs.

use super::args::{
    DisplayWord, PrecisionWord, RuntimeWord, StitchWord, WindowChoice, parse_batch, size,
};
use super::failure::Failure;
use super::output::{self, Align, number};
use super::progress;
use crate::geometry::Extent;
use crate::hardware::{
    Card, Choice, Costs, Knob, MOST_STUDIES, Measured, Workload, choices, shortlist,
};
use crate::memory::Verdict;
use crate::network::{self, Model};
use crate::study::{Asked, Cohort, StudyError, network_work};
use clap::Args;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// The volume that stands for a cohort when none is named.
const USUAL: Extent = Extent::new(512, 512, 300);

#[derive(Debug, Args)]
pub(super) struct BuyArgs {
    /// Networks that each study goes through: files or preset:NAME.
    #[arg(required = true)]
    models: Vec<String>,
    /// Studies a day.
    #[arg(long, value_parser = studies, allow_hyphen_values = true)]
    studies_per_day: f64,
    /// A folder of studies: the largest decides memory, the median time; headers only are read.
    #[arg(long, conflicts_with = "volume")]
    cohort: Option<PathBuf>,
    /// One size that stands for all studies; 512x512x300 if neither is given.
    #[arg(long, value_parser = size, allow_hyphen_values = true)]
    volume: Option<Extent>,
    #[command(flatten)]
    choice: WindowChoice,
    #[arg(long, value_enum, default_value = "voxfit")]
    runtime: RuntimeWord,
    #[arg(long, value_enum, default_value = "fp32")]
    precision: PrecisionWord,
    /// Windows per forward pass.
    #[arg(long, default_value = "1", value_parser = parse_batch, allow_hyphen_values = true)]
    batch: usize,
    #[arg(long, value_enum, default_value = "host")]
    stitch_on: StitchWord,
    /// What else the card shows.
    #[arg(long, value_enum, default_value = "headless")]
    display: DisplayWord,
    /// Cards by id; if none is named, all of the catalogue that have CUDA and are no laptop's.
    #[arg(long, num_args = 1.., value_delimiter = ',')]
    card: Vec<String>,
    /// A file of cards that corrects, prices or adds to the catalogue.
    #[arg(long)]
    card_file: Option<PathBuf>,
    /// A file that corrects what costs are reckoned with (assets/costs.toml shows its form).
    #[arg(long)]
    costs: Option<PathBuf>,
    /// CARD=SECONDS: what all windows of the median study took on a card, in place of the stated efficiency.
    #[arg(long, value_parser = measured)]
    measured: Option<(String, f64)>,
}

fn studies(text: &str) -> Result<f64, String> {
    match text.trim().replace(',', "").parse::<f64>() {
        Ok(n) if n > 0.0 && n <= MOST_STUDIES => Ok(n),
        _ => Err(format!(
            "studies a day are a number above 0 and at most {MOST_STUDIES:.0}, found {text}"
        )),
    }
}

fn measured(text: &str) -> Result<(String, f64), String> {
    let parts = text.split_once('=');
    match parts.and_then(|(card, s)| Some((card.trim().to_owned(), s.trim().parse().ok()?))) {
        Some((card, seconds)) if f64::is_finite(seconds) && seconds > 0.0 => Ok((card, seconds)),
        _ => Err(format!(
            "a measured run is CARD=SECONDS, such as rtx-5070-ti=12.5; found {text}"
        )),
    }
}

pub(super) fn run(args: &BuyArgs, json: bool) -> Result<u8, Failure> {
    let catalogue = super::fit::catalogue(args.card_file.as_deref())?;
    let cards: Vec<&Card> = if args.card.is_empty() {
        catalogue
            .cards()
            .iter()
            .filter(|c| c.can_be_bought())
            .collect()
    } else {
        super::fit::cards(&catalogue, &args.card)?
    };
    let costs = match &args.costs {
        Some(path) => Costs::with_user_file(path)?,
        None => Costs::builtin(),
    };
    let models: Vec<Model> = args
        .models
        .iter()
        .map(|m| network::open(m, None, None))
        .collect::<Result<_, _>>()?;
    let cohort = cohort(args)?;
    let networks = models
        .iter()
        .map(|m| network_work(m, &asked(args), &cohort))
        .collect::<Result<Vec<_>, StudyError>>()?;
    let measured = match &args.measured {
        Some((id, seconds)) => Some(Measured {
            card: catalogue.get(id)?.clone(),
            seconds: *seconds,
        }),
        None => None,
    };
    let workload = Workload {
        networks,
        loaded_voxels: cohort.median().extent.voxels() as u64,
        studies_per_day: args.studies_per_day,
        display: args.display.into(),
        measured,
    };
    let offers = shortlist(&workload, &cards, &costs)?;
    let options = choices(&offers, &cards, &workload, &costs);
    let fits = options.iter().any(|o| o.verdict != Verdict::Over);
    if json {
        output::print_json(&json!({
            "studies_per_day": args.studies_per_day,
            "cohort": {
                "studies": cohort.n(),
                "median": cohort.median().extent,
                "largest": cohort.largest().extent,
            },
            "options": options,
            "assumptions": assumptions(&costs),
        }));
    } else {
        print(args, &options, &cohort, &cards);
        if args.measured.is_none() {
            output::warn(
                "seconds are a forecast at a stated share of each card's rates; --measured CARD=SECONDS puts one measured run in its place",
            );
        }
        if !fits {
            let least = offers
                .iter()
                .map(|o| o.required_high)
                .max()
                .unwrap_or_default();
            output::warn(&format!(
                "nothing fits: the plan asks for up to {least}; take a smaller roi (`voxfit fit` says which), tiles or another runtime"
            ));
        }
    }
    Ok(u8::from(!fits))
}

fn asked(args: &BuyArgs) -> Asked {
    Asked {
        windows: args.choice.choice(),
        runtime: args.runtime.into(),
        precision: args.precision.into(),
        batch: args.batch,
        stitch_on: args.stitch_on.into(),
        display: args.display.into(),
        memory_limit: None,
    }
}

fn cohort(args: &BuyArgs) -> Result<Cohort, Failure> {
    match (&args.cohort, args.volume) {
        (Some(folder), _) => progress::with("headers", |c| {
            Cohort::read(folder, c).map_err(Failure::from)
        }),
        (None, Some(volume)) => Ok(Cohort::of(volume)),
        (None, None) => {
            output::warn(&format!(
                "neither --cohort nor --volume: every study is taken as {USUAL}"
            ));
            Ok(Cohort::of(USUAL))
        }
    }
}

/// Every figure that the answer rests on, with source and date.
fn assumptions(costs: &Costs) -> Value {
    let one = |k: Knob| (k.name().to_owned(), json!(costs.figure(k)));
    Value::Object(Knob::ALL.into_iter().map(one).collect::<Map<_, _>>())
}

fn print(args: &BuyArgs, options: &[Choice], cohort: &Cohort, cards: &[&Card]) {
    output::say(&format!(
        "{} studies a day through {}; {} volume(s), median {}, largest {}",
        args.studies_per_day,
        args.models.join(" and "),
        cohort.n(),
        cohort.median().extent,
        cohort.largest().extent
    ));
    let name = |id: &str| {
        cards
            .iter()
            .find(|c| c.id == id)
            .map_or_else(|| id.to_owned(), |c| c.short_name().to_owned())
    };
    let usd = |v: Option<f64>| {
        v.map_or_else(
            || "\u{2014}".to_owned(),
            |v| crate::units::number(v, if v < 100.0 { 2 } else { 0 }),
        )
    };
    let thousand = |r: Option<crate::hardware::Range>| match r {
        Some(r) => format!("{:.2} to {:.2}", r.low * 1e3, r.high * 1e3),
        None => "\u{2014}".to_owned(),
    };
    let rows: Vec<Vec<String>> = options
        .iter()
        .map(|o| {
            let set: Vec<String> = o
                .cards
                .iter()
                .map(|c| {
                    if c.n == 0 {
                        name(&c.id)
                    } else {
                        format!("{} x {}", c.n, name(&c.id))
                    }
                })
                .collect();
            vec![
                set.join(" + "),
                match o.verdict {
                    Verdict::Fits => "fits",
                    Verdict::Tight => "tight",
                    Verdict::Over => "OVER",
                }
                .to_owned(),
                number(o.seconds_per_study, 1),
                number(o.studies_per_day, 0),
                number(o.p95_seconds, 1),
                usd(o.price),
                thousand(o.cost_per_study),
                thousand(o.rent_per_study),
            ]
        })
        .collect();
    output::table(
        &[
            ("cards", Align::Left),
            ("verdict", Align::Left),
            ("s / study", Align::Right),
            ("studies / day", Align::Right),
            ("95 % back in s", Align::Right),
            ("USD", Align::Right),
            ("USD / 1000 studies", Align::Right),
            ("rented", Align::Right),
        ],
        &rows,
    );
}
