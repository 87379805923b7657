//! `voxfit parity`: are two runs the same, a baseline run again, findings against truth.

use super::args::ModelArgs;
use super::failure::{Failure, NO, USAGE, WRITE};
use super::output::{self, Align};
use super::progress;
use crate::detect::Space;
use crate::detect::matching::{Assign, By, MatchRule};
use crate::engine::Engine;
use crate::exchange::result::{NetworkSource, RunResult, check_writable};
use crate::report;
use crate::review::truth::{Hit, TruthReport};
use crate::review::{ParityReport, RowKind, StudyParity, StudyRow, Tolerance};
use crate::study::baseline::{self, Kept};
use crate::study::compare::{self, CompareSpec};
use crate::study::sides::{self, Sides};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Most findings that are printed as text.
const MOST_ROWS: usize = 30;

#[derive(Debug, Args)]
#[command(
    after_help = "Results are result files of `voxfit run` or folders of them. Either side may come from elsewhere: MONAI detection JSON (cccwhd), LUNA16 CSV (world mm, LPS), Slicer .mrk.json, a label mask as NIfTI. Comparisons with results from elsewhere start at \"float\". A file that does not say LPS, RAS or voxels takes --a-space or --b-space; nothing is guessed.\n\nFROC: voxfit parity RESULTS --truth TRUTH (any of those formats, or `phantom` for generated studies).\n\nExit 0 if the verdict is at least --tolerance (bitwise > float > tolerance > seam > other), else 1."
)]
pub(super) struct ParityArgs {
    /// A result or a folder of results.
    #[arg(required_unless_present = "baseline")]
    pub(super) a: Option<PathBuf>,
    /// What it is held against.
    #[arg(required_unless_present_any = ["baseline", "truth", "export"])]
    pub(super) b: Option<PathBuf>,
    /// bitwise, float, or score=F,box=F (box edges in voxels; dice=F for labels).
    #[arg(long, default_value = "bitwise")]
    pub(super) tolerance: Tolerance,
    /// Run the plans of the results in this folder again, and compare.
    #[arg(long, conflicts_with_all = ["a", "b", "truth", "export"])]
    pub(super) baseline: Option<PathBuf>,
    /// hungarian (the best sum) or greedy (the best pair first).
    #[arg(long, default_value = "hungarian", value_parser = assign)]
    pub(super) matching: Assign,
    /// iou or distance (of the middles, in mm).
    #[arg(long, default_value = "iou", value_parser = by)]
    pub(super) by: By,
    /// Least overlap of a pair.
    #[arg(long, default_value = "0.1", value_parser = share)]
    pub(super) min_iou: f64,
    /// Largest distance of a pair in mm; half the longest edge if left out.
    #[arg(long, value_parser = length)]
    pub(super) max_distance: Option<f64>,
    /// Leave out findings that score less, on both sides.
    #[arg(long, value_parser = share)]
    pub(super) score_thresh: Option<f64>,
    /// Space of A's numbers: LPS, RAS, voxels, monai-LPS, monai-RAS.
    #[arg(long)]
    pub(super) a_space: Option<Space>,
    /// Space of B's (or the truth's) numbers.
    #[arg(long)]
    pub(super) b_space: Option<Space>,
    /// Truth of A's studies, for FROC and CPM with bootstrap intervals; `phantom` for generated studies.
    #[arg(long)]
    pub(super) truth: Option<PathBuf>,
    /// What hits a truth: radius (as LUNA16), or iou=F (as MONAI).
    #[arg(long, default_value = "radius")]
    pub(super) hit: Hit,
    /// Write A's findings: .json (MONAI), .csv (LUNA16), .mrk.json (Slicer), .truth.json (Voxfit), all in LPS.
    #[arg(long)]
    pub(super) export: Option<PathBuf>,
    /// One self-contained HTML page, names masked.
    #[arg(long)]
    pub(super) report: Option<PathBuf>,
    /// With --baseline: a folder for the new results.
    #[arg(long, requires = "baseline")]
    pub(super) keep: Option<PathBuf>,
    /// With --baseline: the network of results that do not say which file it was.
    #[arg(long, requires = "baseline")]
    pub(super) model: Option<String>,
    /// With --baseline: auto, cpu or cuda.
    #[arg(long, default_value = "auto", value_parser = ["auto", "cpu", "cuda"])]
    pub(super) engine: String,
    #[command(flatten)]
    pub(super) files: ModelArgs,
}

fn assign(text: &str) -> Result<Assign, String> {
    match text {
        "hungarian" => Ok(Assign::Hungarian),
        "greedy" => Ok(Assign::Greedy),
        _ => Err(format!("matching is hungarian or greedy; found \"{text}\"")),
    }
}

fn by(text: &str) -> Result<By, String> {
    match text {
        "iou" => Ok(By::Iou),
        "distance" => Ok(By::Distance),
        _ => Err(format!(
            "pairs are made by iou or distance; found \"{text}\""
        )),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if (0.0..=1.0).contains(&v) => Ok(v),
        _ => Err(format!("expected a share from 0 to 1, found \"{text}\"")),
    }
}

fn length(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if v.is_finite() && v > 0.0 => Ok(v),
        _ => Err(format!("expected a length above 0 mm, found \"{text}\"")),
    }
}

impl ParityArgs {
    fn spec(&self) -> CompareSpec {
        CompareSpec {
            tolerance: self.tolerance,
            matching: MatchRule {
                by: self.by,
                assign: self.matching,
                min_iou: self.min_iou,
                max_distance: self.max_distance,
            },
            score_thresh: self.score_thresh,
        }
    }

    /// The network that is named for results which do not say theirs.
    fn source(&self) -> Option<NetworkSource> {
        let model = self.model.as_ref()?;
        Some(NetworkSource::new(model, &self.files.choice()))
    }
}

pub(super) fn run(args: &ParityArgs, json: bool) -> Result<u8, Failure> {
    let inputs: Vec<(&str, &Path)> = [("A", &args.a), ("B", &args.b), ("the truth", &args.truth)]
        .into_iter()
        .filter_map(|(w, p)| Some((w, p.as_deref()?)))
        .collect();
    let outputs: Vec<(&str, &Path)> = [("--report", &args.report), ("--export", &args.export)]
        .into_iter()
        .filter_map(|(w, p)| Some((w, p.as_deref()?)))
        .collect();
    super::paths::distinct(&outputs, &inputs)?;
    for &(word, path) in &outputs {
        let endings: &[&str] = match word {
            "--report" => &[".html", ".htm"],
            _ => &[".json", ".csv"],
        };
        super::paths::spares_others(word, path, endings)?;
    }
    for (_, path) in &outputs {
        check_writable("the report or the findings", path)?;
    }
    let files = &args.files;
    let named = [&files.weights, &files.configuration, &files.fold];
    if args.model.is_none() && (files.manifest.is_some() || named.iter().any(|o| o.is_some())) {
        return Err(Failure::new(
            USAGE,
            "--manifest, --weights, --configuration and --fold are those of --model; name it, or leave them out",
        ));
    }
    if let Some(folder) = &args.baseline {
        if let Some(keep) = &args.keep {
            super::paths::distinct(&[("--keep", keep)], &[("the baseline", folder)])?;
        }
        let parity = again(args, folder)?;
        return answer(args, Some(&parity), None, json);
    }
    let Some(a) = &args.a else {
        return Err(Failure::new(USAGE, "give two results, or --baseline DIR"));
    };
    let read = |path: &Path, space| {
        let path = path.to_path_buf();
        progress::with("results", move |_| sides::read(&path, space))
    };
    let first = read(a, args.a_space)?;
    let second = args.b.as_ref().map(|b| read(b, args.b_space)).transpose()?;
    // A folder's own files are inputs too.
    let all = first.list.iter().chain(second.iter().flat_map(|s| &s.list));
    let read_files: Vec<(&str, &Path)> = all
        .map(|l| ("a result that was read", Path::new(&l.side.name)))
        .collect();
    super::paths::distinct(&outputs, &read_files)?;
    if let Some(path) = &args.export {
        compare::export(&first, path)?;
        if args.b.is_none() && args.truth.is_none() {
            if json {
                output::print_json(&json!({ "findings": path }));
            } else {
                output::say(&format!("findings: {}", path.display()));
            }
            return Ok(0);
        }
    }
    let parity = match (&args.b, &second) {
        (Some(b), Some(second)) => Some(held(args, (a, &first), (b, second))?),
        _ => None,
    };
    let truth = match &args.truth {
        None => None,
        Some(path) => Some(against(args, &first, path)?),
    };
    answer(args, parity.as_ref(), truth.as_ref(), json)
}

fn held(
    args: &ParityArgs,
    (a, first): (&Path, &Sides),
    (b, second): (&Path, &Sides),
) -> Result<ParityReport, Failure> {
    let names = (a.display().to_string(), b.display().to_string());
    progress::with("studies", |c| {
        compare::compare_sides((&names.0, first), (&names.1, second), &args.spec(), c)
    })
}

fn against(args: &ParityArgs, found: &Sides, truth: &Path) -> Result<TruthReport, Failure> {
    progress::with("truth", |c| {
        let truth = if truth.as_os_str() == compare::PHANTOM && !truth.exists() {
            compare::phantom_truth(found, c)?
        } else {
            sides::read(truth, args.b_space)?
        };
        compare::against_truth(found, &truth, args.hit, args.score_thresh)
    })
}

/// Runs every plan of a baseline again.
fn again(args: &ParityArgs, folder: &Path) -> Result<ParityReport, Failure> {
    let kept = baseline::baseline(folder)?;
    if let Some(keep) = &args.keep {
        super::forward::make_folder(keep)?;
    }
    let (spec, given) = (args.spec(), args.source());
    let mut warnings = Vec::new();
    let mut studies = Vec::new();
    let n = kept.len();
    for (i, Kept { path, result }) in kept.iter().enumerate() {
        progress::check()?;
        let old = match result {
            Ok(old) => old,
            Err(why) => {
                warnings.push(why.clone());
                studies.push(failed(path, None, why.clone()));
                continue;
            }
        };
        let what = format!("{} of {n}, windows", i + 1);
        let mut engine = Some(super::forward::pick(&args.engine, 0)?);
        let done = progress::with(&what, |c| {
            let Some(mut engine) = engine.take() else {
                return Err(Failure::new(USAGE, "the engine was already used"));
            };
            let engine: &mut dyn Engine = engine.as_mut();
            match baseline::compare_again((old, path), given.as_ref(), &spec, engine, c) {
                Err(e) if e.exit_code() == super::failure::CANCELLED => Err(e.into()),
                other => Ok(other.map_err(|e| e.to_string())),
            }
        })?;
        match done {
            Ok((study, new)) => {
                keep(args.keep.as_deref(), path, new, old)?;
                studies.push(study);
            }
            Err(why) => studies.push(failed(path, Some(old), why)),
        }
    }
    Ok(baseline::report(folder, &spec, studies, warnings))
}

fn failed(path: &Path, old: Option<&RunResult>, why: String) -> StudyParity {
    let name = path.display().to_string();
    let study = old.map_or_else(|| name.clone(), |r| r.study.clone());
    let n = old.map_or(0, |r| r.detections.len());
    StudyParity::refused(study, [name.clone(), name], why, (n, 0))
}

fn keep(
    folder: Option<&Path>,
    path: &Path,
    mut new: RunResult,
    old: &RunResult,
) -> Result<(), Failure> {
    let (Some(folder), Some(name)) = (folder, path.file_name()) else {
        return Ok(());
    };
    new.network.source.clone_from(&old.network.source);
    new.write(&folder.join(name))?;
    Ok(())
}

fn answer(
    args: &ParityArgs,
    parity: Option<&ParityReport>,
    truth: Option<&TruthReport>,
    json: bool,
) -> Result<u8, Failure> {
    if let Some(path) = &args.report {
        report::parity::write(parity, truth, path)
            .map_err(|e| Failure::new(WRITE, e.to_string()))?;
    }
    if json {
        let mut object = match parity {
            Some(p) => serde_json::to_value(p),
            None => Ok(json!({})),
        }
        .unwrap_or_else(|e| json!({ "error": e.to_string() }));
        if let Some(t) = truth {
            object["truth"] = serde_json::to_value(t).unwrap_or(Value::Null);
        }
        output::print_json(&object);
    } else {
        if let Some(p) = parity {
            print(p);
        }
        if let Some(t) = truth {
            print_truth(t);
        }
        if let Some(path) = &args.report {
            output::say(&format!("report: {}", path.display()));
        }
    }
    Ok(if parity.is_none_or(|p| p.within_tolerance) {
        0
    } else {
        NO
    })
}

fn print(p: &ParityReport) {
    for w in &p.warnings {
        output::warn(w);
    }
    output::say(&format!(
        "verdict: {} ({} asked for: {})",
        p.verdict,
        p.tolerance.at_least,
        if p.within_tolerance { "yes" } else { "no" }
    ));
    let heads = [
        ("study", Align::Left),
        ("verdict", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("matched", Align::Right),
        ("missing", Align::Right),
        ("extra", Align::Right),
        ("split", Align::Right),
        ("merged", Align::Right),
        ("twice", Align::Right),
        ("fragment", Align::Right),
        ("score drift", Align::Right),
        ("box drift", Align::Right),
        ("least IoU", Align::Right),
    ];
    let rows: Vec<Vec<String>> = p.studies.iter().map(study_row).collect();
    output::table(&heads, &rows);
    for s in &p.studies {
        output::say(&format!("{}: {}", s.study, s.reason));
        for n in &s.notes {
            output::say(&format!("  {n}"));
        }
        for l in &s.labels {
            output::say(&format!(
                "  {}: Dice {}, {} flips",
                l.label,
                output::number(l.dice, 4),
                l.flips
                    .map_or_else(|| "unknown".to_owned(), |f| f.to_string())
            ));
        }
    }
    for (names, which) in [(&p.only_a, "first"), (&p.only_b, "second")] {
        for n in names {
            output::say(&format!("only on the {which} side: {n}"));
        }
    }
    let limits = &p.tolerance.limits;
    let unlike = |r: &&StudyRow| {
        r.row.kind != RowKind::Matched
            || r.row.score_drift.is_some_and(|d| d.abs() > limits.score)
            || r.row.box_drift.is_some_and(|d| d > limits.edge)
    };
    findings(
        "findings that differ",
        &p.detections.iter().filter(unlike).collect::<Vec<_>>(),
    );
    let near = |r: &&StudyRow| r.row.near_threshold && !unlike(r);
    findings(
        "findings whose score is near the threshold",
        &p.detections.iter().filter(near).collect::<Vec<_>>(),
    );
}

fn study_row(s: &StudyParity) -> Vec<String> {
    let mut row = vec![s.study.clone(), s.verdict.to_string()];
    let counts = [
        s.n_a,
        s.n_b,
        s.matched,
        s.missing,
        s.extra,
        s.split,
        s.merged,
        s.duplicate,
        s.fragment,
    ];
    row.extend(counts.map(|n| n.to_string()));
    row.push(output::small(s.max_score_drift));
    row.push(output::small(s.max_box_drift));
    row.push(output::number(s.min_iou, 3));
    row
}

fn findings(what: &str, list: &[&StudyRow]) {
    if list.is_empty() {
        return;
    }
    output::say(&format!("{what}: {}", list.len()));
    let index = |i: Option<usize>| i.map_or_else(|| "\u{2014}".to_owned(), |i| (i + 1).to_string());
    let rows: Vec<Vec<String>> = list
        .iter()
        .take(MOST_ROWS)
        .map(|StudyRow { study, row: r }| {
            vec![
                study.clone(),
                match r.kind {
                    RowKind::Matched => "matched",
                    RowKind::Missing => "missing",
                    RowKind::Extra => "extra",
                }
                .to_owned(),
                index(r.a),
                index(r.b),
                output::number(r.score_a, 4),
                output::number(r.score_b, 4),
                output::small(r.box_drift),
                output::number(r.seam_distance, 1),
            ]
        })
        .collect();
    let heads = [
        ("study", Align::Left),
        ("", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("score A", Align::Right),
        ("score B", Align::Right),
        ("box drift", Align::Right),
        ("seam mm", Align::Right),
    ];
    output::table(&heads, &rows);
    if list.len() > MOST_ROWS {
        output::say(&format!(
            "and {} more: --json has all",
            list.len() - MOST_ROWS
        ));
    }
}

fn print_truth(t: &TruthReport) {
    for w in &t.warnings {
        output::warn(w);
    }
    let f = &t.froc;
    output::say(&format!(
        "{} of {} found in {} studies, {} false positives; CPM {:.3} (95 % between {:.3} and {:.3})",
        f.n_found, f.n_truth, f.n_scans, f.n_false_positives, f.cpm, f.cpm_low, f.cpm_high
    ));
    let rows: Vec<Vec<String>> =
        f.at.iter()
            .map(|w| {
                let share = |v| output::number(Some(v), 3);
                vec![
                    w.fp_per_scan.to_string(),
                    share(w.sensitivity),
                    share(w.low),
                    share(w.high),
                ]
            })
            .collect();
    let heads = [
        ("false positives per study", Align::Right),
        ("sensitivity", Align::Right),
        ("from", Align::Right),
        ("to", Align::Right),
    ];
    output::table(&heads, &rows);
}
