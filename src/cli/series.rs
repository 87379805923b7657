//! `voxfit series`: what a file or folder holds.

use super::args::SeriesArgs;
use super::failure::Failure;
use super::output::{self, Align, number};
use super::progress;
use crate::jobs::Control;
use crate::series::{self, Scan, SeriesError, SeriesJson, Skipped};
use serde_json::{Value, json};
use std::path::Path;

pub(super) fn run(args: &SeriesArgs, json: bool) -> Result<u8, Failure> {
    let scan = progress::with("files", |c| {
        series::scan(Path::new(&args.path), c).map_err(nothing)
    })?;
    let rows = progress::with("slices", |c| describe(&scan, args.identity, c))?;
    for s in &scan.skipped {
        output::warn(&format!("skipped {}: {}", s.file, s.reason));
    }
    if json {
        output::print_json(&json!({ "series": rows, "skipped": skipped(&scan.skipped) }));
    } else {
        print(&rows);
    }
    Ok(0)
}

/// A scan that found no series still says which files it passed over.
fn nothing(e: SeriesError) -> Failure {
    let passed = skipped(e.skipped());
    Failure::from(e).with_json(json!({ "series": [], "skipped": passed }))
}

fn skipped(list: &[Skipped]) -> Value {
    list.iter()
        .map(|s| json!({ "file": s.file, "reason": s.reason }))
        .collect()
}

fn describe(
    scan: &Scan,
    identity: bool,
    control: &Control,
) -> Result<Vec<SeriesJson>, SeriesError> {
    let mut rows = Vec::new();
    for info in &scan.series {
        let loaded = series::load(info, control, &|_| {});
        if let Err(SeriesError::Cancelled(c)) = loaded {
            return Err(c.into());
        }
        let refused = matches!(loaded, Err(SeriesError::Refused { .. }));
        rows.push(info.json(identity, (!refused).then_some(loaded.as_ref())));
    }
    Ok(rows)
}

fn print(rows: &[SeriesJson]) {
    let heads = [
        ("series", Align::Left),
        ("part", Align::Right),
        ("modality", Align::Left),
        ("size", Align::Right),
        ("spacing mm", Align::Right),
        ("HU", Align::Right),
        ("files", Align::Right),
        ("run", Align::Left),
        ("description", Align::Left),
    ];
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|r| {
            let whole = |v: Option<f64>| number(v, 0);
            vec![
                r.uid.clone(),
                r.part.to_string(),
                r.modality.clone(),
                r.size.to_string(),
                r.spacing_mm.map(|s| number(s, 3)).join(", "),
                format!("{} to {}", whole(r.hu_min), whole(r.hu_max)),
                r.n_files.to_string(),
                if r.usable { "yes" } else { "no" }.to_owned(),
                r.description.clone(),
            ]
        })
        .collect();
    output::table(&heads, &cells);
    for r in rows {
        if let Some(name) = &r.patient_name {
            output::say(&format!("{}#{}: patient {name}", r.uid, r.part));
        }
        for w in &r.warnings {
            output::warn(&format!("{}#{}: {}", r.uid, r.part, w.text));
        }
    }
}
