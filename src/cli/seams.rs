//! `voxfit seams`: what the seams of a run did, by itself and against a reference's outputs.

use super::failure::{DATA, Failure};
use super::output::{self, Align};
use super::progress;
use crate::app::seams::{against, fill, read_kept, same};
use crate::exchange::result::{RunResult, SeamPlaneRecord};
use crate::review::reference::{Differences, judge};
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
            let found = held((&result, &args.result), (&reference, path));
            found.map_err(|why| Failure::new(DATA, why))
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
fn held(
    (a, a_path): (&RunResult, &Path),
    (b, b_path): (&RunResult, &Path),
) -> Result<Vec<Differences>, String> {
    same((a, a_path), (b, b_path))?;
    let x = read_kept(a, a_path, a, None)?;
    let y = read_kept(b, b_path, a, None)?;
    against((a, &x, a_path), (b, &y, b_path))
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
