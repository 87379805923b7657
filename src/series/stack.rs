//! Puts a bucket's slices in order by position, splits or refuses images at one position, and describes the stack.

use super::frames::norm;
use super::group::{Bucket, Kind, file_names, height, names, normal};
use super::header::{Plane, Source};
use super::steps::{self, Steps};
use super::{SeriesInfo, Warning, WarningCode};
use crate::geometry::Extent;
use std::collections::BTreeMap;
use std::path::Path;

/// Closer than this along the normal (mm) is the same position.
const SAME: f64 = 0.01;

/// Whether the slices carry positions: none of them, or the rest when those without were left out.
fn positioned(bucket: &mut Bucket) -> bool {
    let has = |s: &Source| {
        let p = s.plane();
        p.position.is_some() && p.row.is_some() && p.column.is_some()
    };
    if !bucket.sources.iter().any(has) {
        return false;
    }
    let (with, without): (Vec<Source>, Vec<Source>) = std::mem::take(&mut bucket.sources)
        .into_iter()
        .partition(has);
    bucket.sources = with;
    if !without.is_empty() {
        let files = file_names(&without);
        bucket.warnings.push(Warning {
            code: WarningCode::NoPosition,
            text: format!(
                "{} image(s) without a position or orientation were left out: {}",
                without.len(),
                names(&files)
            ),
            files,
        });
    }
    true
}

/// Orders the slices. Images at one position become several volumes where a tag tells them apart, else a refusal.
pub(super) fn by_position(mut bucket: Bucket) -> Vec<Bucket> {
    if !positioned(&mut bucket) {
        bucket
            .sources
            .sort_by_key(|s| (s.plane().instance, s.file.name.clone(), s.frame));
        if bucket.sources.len() > 1 {
            let (code, what) = if bucket.sources.iter().any(|s| s.plane().position.is_some()) {
                (
                    WarningCode::NoOrientation,
                    "no image says its orientation (ImageOrientationPatient is missing or is not two unit vectors at right angles)",
                )
            } else {
                (WarningCode::NoPosition, "no image says its position")
            };
            bucket.warnings.push(Warning {
                code,
                text: format!("{what}: slices are in the order of their instance numbers, and the distance between them is unknown"),
                files: Vec::new(),
            });
        }
        return vec![bucket];
    }
    sort(&mut bucket.sources);
    let doubles = doubles(&bucket.sources);
    if doubles.is_empty() {
        return vec![bucket];
    }
    let files: Vec<String> = {
        let mut f: Vec<String> = doubles
            .iter()
            .flat_map(|&(a, b)| [a, b])
            .filter_map(|k| bucket.sources.get(k))
            .map(|s| s.file.name.clone())
            .collect();
        f.dedup();
        f
    };
    if let Some(parts) = split(&bucket, &files) {
        return parts;
    }
    let text = format!(
        "{} pair(s) of different images lie at one position, and neither stack, acquisition, temporal position nor echo tells them apart: {}",
        doubles.len(),
        names(&files)
    );
    bucket.warnings.push(Warning {
        code: WarningCode::SamePosition,
        text: text.clone(),
        files,
    });
    bucket.refusal = Some(text);
    // What is listed is the stack with one image for each position; it cannot be loaded.
    let mut k = 0;
    let drop: Vec<usize> = doubles.iter().map(|&(_, b)| b).collect();
    bucket.sources.retain(|_| {
        k += 1;
        drop.binary_search(&(k - 1)).is_err()
    });
    vec![bucket]
}

fn sort(sources: &mut [Source]) {
    let Some(normal) = sources.first().and_then(normal) else {
        return;
    };
    sources.sort_by(|a, b| {
        let (ha, hb) = (height(a, normal), height(b, normal));
        ha.partial_cmp(&hb)
            .unwrap_or(std::cmp::Ordering::Equal)
            .then_with(|| a.plane().instance.cmp(&b.plane().instance))
            .then_with(|| a.file.name.cmp(&b.file.name))
            .then_with(|| a.frame.cmp(&b.frame))
    });
}

/// Neighbours (indices) at one position.
fn doubles(sources: &[Source]) -> Vec<(usize, usize)> {
    let Some(normal) = sources.first().and_then(normal) else {
        return Vec::new();
    };
    let heights: Vec<f64> = sources.iter().filter_map(|s| height(s, normal)).collect();
    heights
        .windows(2)
        .enumerate()
        .filter(|(_, w)| matches!(w, [a, b] if b - a < SAME))
        .map(|(k, _)| (k, k + 1))
        .collect()
}

type Key = fn(&Plane) -> Option<String>;

/// Tries the tags that tell images at one position apart; every part must be free of doubles.
fn split(bucket: &Bucket, doubles_files: &[String]) -> Option<Vec<Bucket>> {
    let keys: [(&str, Key); 4] = [
        ("stack", |p| p.stack.clone()),
        ("acquisition", |p| p.acquisition.map(|v| v.to_string())),
        ("temporal position", |p| p.temporal.map(|v| v.to_string())),
        ("echo", |p| p.echo.map(|v| v.to_string())),
    ];
    keys.iter().find_map(|(what, key)| {
        let mut groups: BTreeMap<(usize, String), Vec<Source>> = BTreeMap::new();
        for source in &bucket.sources {
            let value = key(source.plane())?;
            // Numbers in the order of numbers.
            groups
                .entry((value.len(), value))
                .or_default()
                .push(source.clone());
        }
        let good = groups.len() > 1
            && groups.values().any(|g| g.len() > 1)
            && groups.values().all(|g| doubles(g).is_empty());
        good.then(|| {
            let n = groups.len();
            groups
                .into_iter()
                .map(|((_, value), sources)| {
                    let mut warnings = bucket.warnings.clone();
                    warnings.push(Warning {
                        code: WarningCode::Split,
                        text: format!(
                            "several images lie at one position ({}); the series was split by {what} into {n} volumes, this is {what} {value}",
 names(doubles_files)                        ),
                        files: doubles_files.to_vec(),
                    });
                    Bucket {
                        kind: bucket.kind,
                        sources,
                        warnings,
                        refusal: None,
                    }
                })
                .collect()
        })
    })
}

/// What instance numbers show that positions do not: slices missing at an end.
pub(super) fn instance_warning(sources: &[Source]) -> Option<Warning> {
    let mut numbers: Vec<i64> = sources
        .iter()
        .map(|s| s.plane().instance)
        .collect::<Option<_>>()?;
    numbers.sort_unstable();
    let (&first, &last) = (numbers.first()?, numbers.last()?);
    if numbers.len() < 2 || first <= 1 || numbers.windows(2).any(|w| matches!(w, [a, b] if a == b))
    {
        return None;
    }
    Some(Warning {
        code: WarningCode::InstanceNumbers,
        text: format!(
            "instance numbers run from {first} to {last}, not from 1: slices may be missing at an end, which positions cannot show"
        ),
        files: Vec::new(),
    })
}

fn most_common_spacing(sources: &[Source]) -> (Option<[f64; 2]>, Option<Warning>) {
    let mut counts: Vec<([f64; 2], usize)> = Vec::new();
    for source in sources {
        let Some(s) = source.plane().spacing else {
            continue;
        };
        let close = |c: &&mut ([f64; 2], usize)| {
            c.0.iter()
                .zip(s)
                .all(|(a, b)| (a - b).abs() <= 1e-4 * a.abs())
        };
        if let Some(c) = counts.iter_mut().find(close) {
            c.1 += 1;
        } else {
            counts.push((s, 1));
        }
    }
    let best = counts
        .iter()
        .enumerate()
        .max_by_key(|(n, c)| (c.1, std::cmp::Reverse(*n)))
        .map(|(_, c)| c.0);
    let warning = (counts.len() > 1).then(|| {
        let all: Vec<String> = counts
            .iter()
            .map(|([x, y], n)| format!("{x} x {y} mm in {n} image(s)"))
            .collect();
        Warning {
            code: WarningCode::SpacingDiffers,
            text: format!(
                "pixel spacing differs within the series: {}",
                all.join(", ")
            ),
            files: Vec::new(),
        }
    });
    (best, warning)
}

/// Warnings about values: no rescale, loss, inverted grey.
fn value_warnings(sources: &[Source]) -> Vec<Warning> {
    let mut out = Vec::new();
    let bare: Vec<Source> = sources
        .iter()
        .filter(|s| s.plane().rescale.is_none())
        .cloned()
        .collect();
    let modality = sources.first().map_or("", |s| s.file.modality.as_str());
    let rescale_type = sources
        .iter()
        .filter_map(|s| s.file.rescale_type.as_deref())
        .find(|t| !matches!(*t, "HU" | "US"));
    let mut tell = |code, text: String, files| out.push(Warning { code, text, files });
    if bare.len() == sources.len() {
        tell(
            WarningCode::NotHu,
            "no rescale slope and intercept: values are as stored, not HU".to_owned(),
            Vec::new(),
        );
    } else if !bare.is_empty() {
        let files = file_names(&bare);
        tell(
            WarningCode::NotHu,
            format!(
                "{} image(s) have no rescale slope and intercept; their values are as stored, not HU: {}",
                bare.len(),
                names(&files)
            ),
            files,
        );
    } else if let Some(t) = rescale_type {
        tell(
            WarningCode::NotHu,
            format!("values are rescaled to {t}, not to HU"),
            Vec::new(),
        );
    } else if modality != "CT" {
        let found = if modality.is_empty() {
            "not said"
        } else {
            modality
        };
        tell(
            WarningCode::NotHu,
            format!("modality is {found}, expected CT: values are not known to be HU"),
            Vec::new(),
        );
    }
    if sources.iter().any(|s| s.file.lossy) {
        tell(
            WarningCode::Lossy,
            "the images were compressed with loss: values differ from what the scanner made"
                .to_owned(),
            Vec::new(),
        );
    }
    if sources
        .iter()
        .any(|s| s.file.pixels.photometric == "MONOCHROME1")
    {
        tell(
            WarningCode::Inverted,
            "the files ask for an inverted grey ramp (MONOCHROME1); values are untouched"
                .to_owned(),
            Vec::new(),
        );
    }
    out
}

/// Images whose values cannot be trusted, because the slope of their rescale is unknown.
fn slope_warning(sources: &[Source]) -> Option<Warning> {
    let odd: Vec<Source> = sources
        .iter()
        .filter(|s| s.plane().slope_unknown)
        .cloned()
        .collect();
    let files = file_names(&odd);
    if !odd.is_empty() {
        return Some(Warning {
            code: WarningCode::RescaleSlope,
            text: format!(
                "{} image(s) have a RescaleSlope (or RescaleIntercept) that is 0, empty, missing or no usable number; slope 1 or intercept 0 was taken and their values cannot be trusted: {}",
                odd.len(),
                names(&files)
            ),
            files,
        });
    }
    let bare = |s: &&Source| s.plane().rescale.is_none();
    let bare: Vec<Source> = sources.iter().filter(bare).cloned().collect();
    let files = file_names(&bare);
    (!bare.is_empty() && bare.len() < sources.len()).then(|| Warning {
        code: WarningCode::RescaleSlope,
        text: format!(
            "{} of {} images have no RescaleSlope and RescaleIntercept: the values of one volume are of two kinds: {}",
            bare.len(),
            sources.len(),
            names(&files)
        ),
        files,
    })
}

/// Warnings that follow from the kind of image.
fn kind_warning(kind: Kind, first: Option<&Source>) -> Option<Warning> {
    let (code, text) = match kind {
        Kind::Volume => return None,
        Kind::Localizer => (
            WarningCode::Localizer,
            "a localizer (scout), not a volume".to_owned(),
        ),
        Kind::NotAVolume => (
            WarningCode::NotAVolume,
            format!(
                "a picture ({}{}), not a volume",
                first.map_or("", |s| s.file.pixels.photometric.as_str()),
                first.map_or_else(String::new, |s| format!(", {}", s.file.modality))
            ),
        ),
    };
    Some(Warning {
        code,
        text,
        files: Vec::new(),
    })
}

/// Describes one bucket as a series (or part of one).
pub(super) fn info(root: &Path, bucket: Bucket, part: usize) -> SeriesInfo {
    let Bucket {
        kind,
        sources,
        mut warnings,
        mut refusal,
    } = bucket;
    let first = sources.first().cloned();
    warnings.extend(kind_warning(kind, first.as_ref()));
    let (spacing, differs) = most_common_spacing(&sources);
    warnings.extend(differs);
    if spacing.is_none() {
        warnings.push(Warning {
            code: WarningCode::NoPixelSpacing,
            text: "no image says its pixel spacing: sizes in mm are unknown".to_owned(),
            files: Vec::new(),
        });
    }
    let Steps {
        step,
        along_normal,
        warnings: step_warnings,
        straight,
    } = steps::measure(&sources);
    warnings.extend(step_warnings);
    warnings.extend(value_warnings(&sources));
    warnings.extend(slope_warning(&sources));
    if refusal.is_none() {
        refusal = undecodable(&sources);
    }
    let plane = first
        .as_ref()
        .map(|s| s.plane().clone())
        .unwrap_or_default();
    let row = plane.row.unwrap_or([1.0, 0.0, 0.0]);
    let column = plane.column.unwrap_or([0.0, 1.0, 0.0]);
    let length = norm(step);
    let unit = if length > 0.0 {
        step.map(|x| x / length)
    } else {
        [0.0, 0.0, 1.0]
    };
    let sound = !warnings.iter().any(|w| w.code.forbids());
    let header = first.as_ref().map(|s| &s.file);
    let size = header.map_or_else(Extent::default, |h| {
        Extent::new(h.pixels.columns, h.pixels.rows, sources.len())
    });
    SeriesInfo {
        uid: header.map_or_else(String::new, |h| h.series_uid.clone()),
        part,
        modality: header.map_or_else(String::new, |h| h.modality.clone()),
        description: header.map_or_else(String::new, |h| h.description.clone()),
        patient_name: header.and_then(|h| h.patient_name.clone()),
        n_files: {
            let mut files = file_names(&sources);
            files.sort();
            files.dedup();
            files.len()
        },
        size,
        spacing_mm: [
            spacing.map(|[x, _]| x),
            spacing.map(|[_, y]| y),
            along_normal,
        ],
        origin_lps: plane.position.unwrap_or_default(),
        direction: {
            let ([a, b, c], [d, e, f], [g, h, i]) = (row, column, unit);
            [a, b, c, d, e, f, g, h, i]
        },
        usable: kind == Kind::Volume
            && refusal.is_none()
            && straight
            && sound
            && spacing.is_some()
            && along_normal.is_some(),
        window: header.and_then(|h| h.window),
        step_mm: step,
        warnings,
        root: root.to_owned(),
        slices: sources,
        refusal,
    }
}

/// Why no decoder can make values of the pixels, as far as headers tell.
fn undecodable(sources: &[Source]) -> Option<String> {
    let p = &sources.first()?.file.pixels;
    if p.samples != 1 {
        return Some(format!(
            "colour pictures ({}), expected grey values",
            p.photometric
        ));
    }
    if p.photometric.starts_with("PALETTE") {
        return Some("pictures with a colour palette, expected grey values".to_owned());
    }
    if !matches!(p.bits_allocated, 8 | 12 | 16 | 32) {
        return Some(format!(
            "{} bits for each value, expected 8, 12, 16 or 32",
            p.bits_allocated
        ));
    }
    None
}
