//! `voxfit series`: what a file or folder holds.

use super::args::SeriesArgs;
use super::failure::Failure;
use super::output::{self, Align, number};
use super::progress;
use crate::jobs::Control;
use crate::series::{self, Loaded, Scan, SeriesError, SeriesJson, Skipped};
use crate::study;
use crate::volume::Statistics;
use serde_json::{Value, json};
use std::path::Path;

pub(super) fn run(args: &SeriesArgs, json: bool) -> Result<u8, Failure> {
    if crate::app::is_volume_file(&args.path) || args.path.starts_with("phantom:") {
        return one_volume(args, json);
    }
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

/// A volume file or a generated study: one entry, named as it was given.
fn one_volume(args: &SeriesArgs, json: bool) -> Result<u8, Failure> {
    let opened = progress::with("volume", |c| study::open(&args.path, None, c))
        .map_err(|e| e.with_json(json!({ "series": [], "skipped": [] })))?;
    let volume = &opened.volume;
    let range = Statistics::of(volume);
    let loaded = Loaded {
        volume: std::sync::Arc::clone(volume),
        slices: Vec::new(),
        warnings: Vec::new(),
        hu_min: range.as_ref().map(|s| f64::from(s.min)),
        hu_max: range.as_ref().map(|s| f64::from(s.max)),
    };
    let known = opened.spacing_known();
    let spacing = volume.affine.spacing_mm().map(|mm| known.then_some(mm));
    let [i, j, k] = volume.affine.directions();
    let row = SeriesJson {
        uid: args.path.clone(),
        part: 1,
        modality: String::new(),
        description: String::new(),
        n_files: usize::from(!args.path.starts_with("phantom:")),
        size: volume.extent,
        spacing_mm: spacing,
        origin_lps: volume.affine.origin,
        direction: [i[0], i[1], i[2], j[0], j[1], j[2], k[0], k[1], k[2]],
        hu_min: loaded.hu_min,
        hu_max: loaded.hu_max,
        hu_sha256: loaded.hu_sha256(),
        usable: opened.refusal.is_none(),
        patient_name: None,
        warnings: Vec::new(),
        refusal: opened.refusal.clone(),
        voxels: Some(volume.voxels.kind().to_owned()),
        bytes: Some(volume.bytes().0),
        texts: Vec::new(),
        details: opened.details(),
    };
    for w in &opened.warnings {
        output::warn(&w.text);
    }
    if json {
        let mut row = json!(row);
        row["warnings"] = opened
            .warnings
            .iter()
            .map(|w| json!({ "code": w.code, "text": w.text, "files": [] }))
            .collect();
        output::print_json(&json!({ "series": [row], "skipped": [] }));
    } else {
        print(&[row]);
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
