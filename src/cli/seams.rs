//! `voxfit seams`: what the seams of a run did, by itself and against a reference's outputs.

use super::failure::{DATA, Failure};
use super::output::{self, Align};
use super::progress;
use crate::app::tensor;
use crate::engine::Tensor;
use crate::exchange::result::{RunResult, SeamPlaneRecord, SeamRecord};
use crate::review::reference::{Differences, Kept, differences, judge};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct SeamsArgs {
    /// A result of `voxfit run`.
    pub(super) result: PathBuf,
    /// Another result of the same study and network to hold it against: one pass, or larger windows. Both were run with --keep-outputs.
    #[arg(long)]
    pub(super) reference: Option<PathBuf>,
}

pub(super) fn run(args: &SeamsArgs, json: bool) -> Result<u8, Failure> {
    let result = RunResult::read(&args.result)?;
    let mut seams = result.seams.clone();
    if let Some(path) = &args.reference {
        let reference = RunResult::read(path)?;
        let found = progress::with("outputs", |_| {
            against((&result, &args.result), (&reference, path))
        })?;
        let (verdict, words) = judge(&found);
        (seams.verdict, seams.words) = (Some(verdict.to_string()), words);
        fill(&mut seams, &found);
    }
    let words = if seams.verdict.is_none() {
        "the result is of an older Voxfit that kept no seam metrics; run it again"
    } else {
        &seams.words
    };
    if json {
        output::print_json(&json!({
            "verdict": seams.verdict,
            "words": words,
            "determinism_floor": seams.determinism_floor,
            "planes": seams.planes,
            "outputs": seams.outputs,
        }));
        return Ok(0);
    }
    output::say(&format!(
        "{}: {words}",
        seams.verdict.as_deref().unwrap_or("unknown")
    ));
    print(&seams.planes);
    Ok(0)
}

/// The outputs that count, ours and the reference's.
fn against(
    (a, a_path): (&RunResult, &Path),
    (b, b_path): (&RunResult, &Path),
) -> Result<Vec<Differences>, Failure> {
    let bad = |why: String| Failure::new(DATA, why);
    if a.plan.prepared_volume != b.plan.prepared_volume
        || (a.volume_sha256.is_some()
            && b.volume_sha256.is_some()
            && a.volume_sha256 != b.volume_sha256)
    {
        return Err(bad(format!(
            "the results are of two different volumes: {} and {}",
            a_path.display(),
            b_path.display()
        )));
    }
    if a.network.sha256 != b.network.sha256 {
        return Err(bad(format!(
            "the results are of two networks ({} and {}, or one with other weights): {} and {}",
            a.network.name,
            b.network.name,
            a_path.display(),
            b_path.display()
        )));
    }
    for (r, path) in [(a, a_path), (b, b_path)] {
        if r.kept_outputs.is_empty() {
            return Err(bad(format!(
                "the result keeps no outputs to compare; run it again with --keep-outputs DIR: {}",
                path.display()
            )));
        }
    }
    let planes = a.seams.places();
    let each = a.box_selector.is_some();
    let counts = |o: usize| a.seams.outputs.get(o).is_none_or(|o| o.judged);
    let mut all = Vec::new();
    for (o, (x, y)) in a.kept_outputs.iter().zip(&b.kept_outputs).enumerate() {
        if !counts(o) {
            continue;
        }
        let (x, y) = (open(x, a_path)?, open(y, b_path)?);
        let (kx, ky) = (kept(&x, each)?, kept(&y, each)?);
        let prepared = a.plan.prepared_volume.to_array();
        let d = differences((&kx, &ky), &planes, prepared, a.plan.axes).map_err(bad)?;
        all.push(d);
    }
    Ok(all)
}

fn open(file: &Path, result: &Path) -> Result<Tensor, Failure> {
    let beside = result.parent().map(|d| d.join(file));
    let path = beside
        .filter(|p| p.is_file())
        .unwrap_or_else(|| file.to_path_buf());
    Ok(tensor::read(&path)?)
}

fn kept(t: &Tensor, each: bool) -> Result<Kept<'_>, Failure> {
    match *t.shape.as_slice() {
        [channels, a, b, c] => Ok(Kept {
            channels,
            each,
            spatial: [a, b, c],
            values: &t.values,
        }),
        _ => Err(Failure::new(
            DATA,
            format!("expected a kept output of 4 axes, found {:?}", t.shape),
        )),
    }
}

/// What takes a reference, by seam: the worst of any output.
fn fill(seams: &mut SeamRecord, found: &[Differences]) {
    for plane in &mut seams.planes {
        let of = found
            .iter()
            .flat_map(|d| &d.planes)
            .filter(|p| p.axis == plane.axis && p.at == plane.at);
        let far_from_one = |r: f64| (r - 1.0).abs();
        plane.diff_max = of.clone().map(|p| p.diff_max).max_by(f64::total_cmp);
        plane.flips = Some(of.clone().map(|p| p.flips).sum());
        plane.step_ratio = of
            .filter_map(|p| p.step_ratio)
            .max_by(|x, y| far_from_one(*x).total_cmp(&far_from_one(*y)));
    }
}

fn print(planes: &[SeamPlaneRecord]) {
    let figure = output::small;
    let rows: Vec<Vec<String>> = planes
        .iter()
        .map(|p| {
            vec![
                p.axis.name().to_owned(),
                p.at.to_string(),
                figure(p.raw_mismatch_max),
                figure(p.raw_mismatch_mean),
                output::number(p.step_ratio, 2),
                figure(p.diff_max),
                p.flips
                    .map_or_else(|| "\u{2014}".to_owned(), |f| f.to_string()),
            ]
        })
        .collect();
    let heads = [
        ("axis", Align::Left),
        ("at", Align::Right),
        ("raw mismatch", Align::Right),
        ("mean", Align::Right),
        ("step ratio", Align::Right),
        ("difference", Align::Right),
        ("flips", Align::Right),
    ];
    output::table(&heads, &rows);
}
