//! `voxfit bench`: times of this machine beside what they are held against. Prints; judges nothing.

mod layers;

use super::args::{BenchArgs, BenchVerb};
use super::failure::{DATA, Failure};
use super::output::{self, Align};
use super::progress;
use crate::geometry::Extent;
use crate::hardware::{Catalogue, largest_rois};
use crate::jobs::Control;
use crate::memory::budget::{BudgetRequest, Display, Runtime};
use crate::memory::largest::{LargestSearch, Rules};
use crate::memory::planner::Planner;
use crate::{network, series};
use serde_json::json;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

pub(super) fn run(args: &BenchArgs, json: bool) -> Result<u8, Failure> {
    let repeat = args.repeat.max(1);
    if let BenchVerb::Layers {
        model,
        roi_size,
        threads,
        files,
    } = &args.what
    {
        return layers::run((model, files), *roi_size, *threads, repeat, json);
    }
    let rows = match &args.what {
        BenchVerb::Load { path, series } => {
            progress::with("bench", |c| load(path, series.as_deref(), repeat, c))?
        }
        BenchVerb::Layers { .. } => Vec::new(),
        BenchVerb::Plan { model, roi_size } => {
            progress::with("bench", |c| plan(model, *roi_size, repeat, c))?
        }
        BenchVerb::Fit { model, volume } => {
            progress::with("bench", |c| fit(model, *volume, repeat, c))?
        }
    };
    if json {
        output::print_json(
            &json!({ "repeat": repeat, "rows": rows.iter().map(|r| json!({
            "what": r.what, "best_ms": r.best, "target_ms": r.target })).collect::<Vec<_>>() }),
        );
        return Ok(0);
    }
    let heads = [
        ("what", Align::Left),
        ("best ms", Align::Right),
        ("held against ms", Align::Right),
    ];
    let cells: Vec<_> = rows
        .iter()
        .map(|r| {
            vec![
                r.what.clone(),
                format!("{:.2}", r.best),
                format!("{:.0}", r.target),
            ]
        })
        .collect();
    output::table(&heads, &cells);
    Ok(0)
}

/// One figure: the best of the repeats.
struct Row {
    what: String,
    best: f64,
    target: f64,
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

/// Opening a folder: headers, first slice decoded, whole volume in memory. Times count from the opening of the folder.
fn load(
    path: &Path,
    uid: Option<&str>,
    repeat: usize,
    cancel: &Control,
) -> Result<Vec<Row>, Failure> {
    let mut best = [f64::INFINITY; 3];
    for _ in 0..repeat {
        cancel.check()?;
        let start = Instant::now();
        let scan = series::scan(path, cancel)?;
        let scanned = ms(start);
        let info = match uid {
            Some(uid) => scan.find(uid),
            None => scan.best(),
        }
        .ok_or_else(|| Failure::new(DATA, format!("no such series in {}", path.display())))?;
        let first = Mutex::new(None);
        series::load(info, cancel, &|_| {
            if let Ok(mut first) = first.lock() {
                first.get_or_insert_with(|| ms(start));
            }
        })?;
        let whole = ms(start);
        let first = first.into_inner().ok().flatten().unwrap_or(whole);
        for (b, t) in best.iter_mut().zip([scanned, first, whole]) {
            *b = b.min(t);
        }
    }
    let names = ["headers listed", "first slice decoded", "whole volume"];
    let targets = [500.0, 500.0, 2000.0];
    Ok((0..3)
        .map(|i| Row {
            what: names[i].to_owned(),
            best: best[i],
            target: targets[i],
        })
        .collect())
}

/// What the plan panel does on each move of a slider: schedule and arena with every part, and the same with fixes.
fn plan(model: &str, roi: Extent, repeat: usize, cancel: &Control) -> Result<Vec<Row>, Failure> {
    let model = network::open(model, None, None)?;
    let planner = Planner::new(&model.graph);
    let mut request = BudgetRequest::new(&model.graph, roi);
    request.axes = model.manifest.input.axes;
    let mut best = [f64::INFINITY; 2];
    for _ in 0..repeat {
        cancel.check()?;
        let start = Instant::now();
        planner.sketch(&request)?;
        let sketched = ms(start);
        planner.budget(&request)?;
        let whole = ms(start) - sketched;
        best = [best[0].min(sketched), best[1].min(whole)];
    }
    Ok(vec![
        Row {
            what: "budget of one roi".to_owned(),
            best: best[0],
            target: 1.0,
        },
        Row {
            what: "the same with fixes and elasticities".to_owned(),
            best: best[1],
            target: 4.0,
        },
    ])
}

/// The largest roi of sixty cards, nothing planned before.
fn fit(model: &str, volume: Extent, repeat: usize, cancel: &Control) -> Result<Vec<Row>, Failure> {
    let model = network::open(model, None, None)?;
    let catalogue = Catalogue::builtin();
    let cards: Vec<_> = catalogue.cards().iter().take(60).collect();
    let planner = Planner::new(&model.graph);
    let mut rows = Vec::new();
    for (runtime, name) in [(Runtime::Voxfit, "voxfit"), (Runtime::Pytorch, "pytorch")] {
        let (mut best, mut rois) = (f64::INFINITY, 0);
        for _ in 0..repeat {
            cancel.check()?;
            let request = BudgetRequest {
                runtime,
                volume: Some(volume),
                axes: model.manifest.input.axes,
                ..BudgetRequest::new(&model.graph, volume)
            };
            let start = Instant::now();
            let search = LargestSearch::new(&planner, request, volume, Rules::default());
            search.check()?;
            largest_rois(&search, &cards, Display::Headless);
            (best, rois) = (best.min(ms(start)), search.n_candidates());
        }
        rows.push(Row {
            what: format!("{} cards x {rois} rois, {name}", cards.len()),
            best,
            target: 1000.0,
        });
    }
    Ok(rows)
}
