//! Sorts images into series and parts of series: by UID, kind, size and orientation, then by position.

use super::frames::{norm, sub};
use super::header::{FileHeader, Lost, Plane, Source};
use super::scan::Damaged;
use super::stack;
use super::{SeriesInfo, Warning, WarningCode};
use crate::geometry::{cross, dot};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Volume,
    Localizer,
    NotAVolume,
}

/// Images of one kind, size and orientation: candidates for one volume.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    pub(super) kind: Kind,
    pub(super) sources: Vec<Source>,
    pub(super) warnings: Vec<Warning>,
    /// Why the images cannot be one volume.
    pub(super) refusal: Option<String>,
}

/// Names for a sentence: the first few, then how many more.
pub(super) fn names(files: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<&str> = files.iter().take(SHOWN).map(String::as_str).collect();
    let more = files.len().saturating_sub(SHOWN);
    if more == 0 {
        shown.join(", ")
    } else {
        format!("{} and {more} more", shown.join(", "))
    }
}

pub(super) fn file_names(sources: &[Source]) -> Vec<String> {
    let mut out: Vec<String> = sources.iter().map(|s| s.file.name.clone()).collect();
    out.dedup();
    out
}

/// All series of a study, in the order of their first files; parts of a series with most slices first.
pub(super) fn series(root: &Path, images: Vec<FileHeader>, damaged: &[Damaged]) -> Vec<SeriesInfo> {
    let mut order: Vec<String> = Vec::new();
    let mut by_uid: BTreeMap<String, Vec<Arc<FileHeader>>> = BTreeMap::new();
    for image in images {
        let uid = image.series_uid.clone();
        if !by_uid.contains_key(&uid) {
            order.push(uid.clone());
        }
        by_uid.entry(uid).or_default().push(Arc::new(image));
    }
    let homes = homes(&by_uid);
    let mut out = Vec::new();
    for uid in order {
        let files = by_uid.remove(&uid).unwrap_or_default();
        let hurt: Vec<&Damaged> = damaged
            .iter()
            .filter(|d| match &d.lost {
                Lost::Nothing => false,
                Lost::Somewhere => homes.get(folder(&d.name)) == Some(&Some(uid.clone())),
                Lost::From(lost) => *lost == uid,
            })
            .collect();
        out.extend(parts(root, &files, &hurt));
    }
    out
}

/// The folder in a name.
fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// For each folder the one series whose slices are in it; `None` where there are several.
fn homes(by_uid: &BTreeMap<String, Vec<Arc<FileHeader>>>) -> BTreeMap<String, Option<String>> {
    let mut out: BTreeMap<String, Option<String>> = BTreeMap::new();
    for (uid, files) in by_uid {
        let of_slices = files.iter().filter(|f| kind(f) == Kind::Volume);
        let folders: BTreeSet<&str> = of_slices.map(|f| folder(&f.name)).collect();
        for folder in folders {
            out.entry(folder.to_owned())
                .and_modify(|home| *home = None)
                .or_insert_with(|| Some(uid.clone()));
        }
    }
    out
}

fn parts(root: &Path, files: &[Arc<FileHeader>], hurt: &[&Damaged]) -> Vec<SeriesInfo> {
    let (sources, duplicates) = without_copies(files);
    let instances = stack::instance_warning(&sources);
    let mut buckets: Vec<Bucket> = buckets(sources)
        .into_iter()
        .flat_map(stack::by_position)
        .collect();
    // Stable: equal ones stay in the order of their first files.
    buckets.sort_by_key(|b| (b.kind, std::cmp::Reverse(b.sources.len())));
    let left_out = left_out(&buckets);
    if let Some(main) = buckets.first_mut() {
        main.warnings.extend(duplicates);
        main.warnings.extend(left_out);
        main.warnings.extend(instances);
        if !hurt.is_empty() {
            let files: Vec<String> = hurt.iter().map(|d| d.name.clone()).collect();
            let first = hurt.first().map_or("", |d| d.reason.as_str());
            main.warnings.push(Warning {
                code: WarningCode::Damaged,
                text: format!(
                    "{} file(s) of this series cannot be used: {} ({first})",
                    files.len(),
                    names(&files)
                ),
                files,
            });
        }
    }
    buckets
        .into_iter()
        .zip(1..)
        .map(|(bucket, part)| stack::info(root, bucket, part))
        .collect()
}

/// All frames, each SOP instance once. An instance UID that comes again at another position is another image:
/// some anonymisers give every slice the same UID.
fn without_copies(files: &[Arc<FileHeader>]) -> (Vec<Source>, Option<Warning>) {
    let mut seen: BTreeSet<(String, usize, String)> = BTreeSet::new();
    let (mut sources, mut copies) = (Vec::new(), Vec::new());
    for file in files {
        for frame in 0..file.planes.len() {
            let source = Source {
                file: Arc::clone(file),
                frame,
            };
            let plane = source.plane();
            let key = (
                file.sop_uid.clone(),
                frame,
                format!("{:?} {:?}", plane.position, plane.instance),
            );
            if !file.sop_uid.is_empty() && !seen.insert(key) {
                copies.push(source);
            } else {
                sources.push(source);
            }
        }
    }
    let files = file_names(&copies);
    let warning = (!files.is_empty()).then(|| Warning {
        code: WarningCode::DuplicateFile,
        text: format!(
            "{} file(s) carry the SOP instance UID of an image that is there already; the first is used: {}",
            files.len(),
            names(&files)
        ),
        files,
    });
    (sources, warning)
}

fn kind(file: &FileHeader) -> Kind {
    let says = |word: &str| file.image_type.iter().any(|t| t.contains(word));
    let grey = file.pixels.samples == 1
        && (file.pixels.photometric.is_empty() || file.pixels.photometric.starts_with("MONO"));
    if says("LOCALIZER") || says("SCOUT") || says("SURVIEW") {
        Kind::Localizer
    } else if !grey
        || file.pixels.bits_allocated < 8
        || file.sop_class.starts_with("1.2.840.10008.5.1.4.1.1.7") && !is_placed_ct(file)
        || matches!(file.modality.as_str(), "SEG" | "RTDOSE" | "RTIMAGE")
    {
        Kind::NotAVolume
    } else {
        Kind::Volume
    }
}

/// Seen: whole CT series converted to secondary captures, with their planes and HU.
fn is_placed_ct(file: &FileHeader) -> bool {
    let placed = |p: &Plane| {
        p.position.is_some() && p.row.is_some() && p.spacing.is_some() && p.rescale.is_some()
    };
    file.modality == "CT" && file.planes.first().is_some_and(placed)
}

fn same_direction(a: Option<[f64; 3]>, b: Option<[f64; 3]>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => norm(sub(a, b)) < 2e-3,
        _ => true,
    }
}

fn buckets(sources: Vec<Source>) -> Vec<Bucket> {
    let mut out: Vec<Bucket> = Vec::new();
    for source in sources {
        let plane = source.plane();
        let kind = kind(&source.file);
        let fits = |b: &Bucket| {
            b.kind == kind
                && b.sources.first().is_some_and(|f| {
                    let p = f.plane();
                    (kind == Kind::Volume
                        || f.file.sop_class == source.file.sop_class
                            && f.file.pixels.samples == source.file.pixels.samples)
                        && f.file.pixels.rows == source.file.pixels.rows
                        && f.file.pixels.columns == source.file.pixels.columns
                        && same_direction(p.row, plane.row)
                        && same_direction(p.column, plane.column)
                })
        };
        if let Some(bucket) = out.iter_mut().find(|b| fits(b)) {
            bucket.sources.push(source);
        } else {
            out.push(Bucket {
                kind,
                sources: vec![source],
                warnings: Vec::new(),
                refusal: None,
            });
        }
    }
    out
}

/// What the first bucket has to say of the others.
fn left_out(buckets: &[Bucket]) -> Option<Warning> {
    let (main, others) = buckets.split_first()?;
    let others: Vec<Source> = others
        .iter()
        .flat_map(|b| b.sources.iter().cloned())
        .collect();
    let mut files = file_names(&others);
    files.sort();
    files.dedup();
    if main.warnings.iter().any(|w| w.code == WarningCode::Split) {
        return None;
    }
    (!files.is_empty()).then(|| Warning {
        code: WarningCode::LeftOut,
        text: format!(
            "{} other image(s) of this series (another size, orientation or kind) are listed as part(s) of their own: {}",
            others.len(),
            names(&files)
        ),
        files,
    })
}

/// The normal that +k follows: row x column.
pub(super) fn normal(source: &Source) -> Option<[f64; 3]> {
    let plane = source.plane();
    let n = cross(plane.row?, plane.column?);
    let length = norm(n);
    (length > 0.5).then(|| n.map(|x| x / length))
}

/// Height of a slice above the origin along the normal.
pub(super) fn height(source: &Source, normal: [f64; 3]) -> Option<f64> {
    Some(dot(source.plane().position?, normal))
}
