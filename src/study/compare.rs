//! Two results or folders of results held against each other or against truth.

use super::sides::{Loaded, Sides, pair};
use super::{StudyError, StudyKind};
use crate::detect::froc::froc;
use crate::detect::matching::MatchRule;
use crate::detect::{Finding, Findings, Space};
use crate::exchange::findings;
use crate::jobs::Control;
use crate::review::truth::{Hit, StudyTruth, TruthReport, score};
use crate::review::{ParityReport, Side, StudyParity, Tolerance, compare, frame};
use std::path::Path;

/// The word that names the truth of generated studies.
pub const PHANTOM: &str = "phantom";

/// Bootstrap samples behind the intervals of FROC.
const BOOTSTRAPS: usize = 1000;

/// How two sides are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CompareSpec {
    /// What is asked of the verdict.
    pub tolerance: Tolerance,
    /// How findings are matched.
    pub matching: MatchRule,
    /// Findings of a lower score are left out on both sides.
    pub score_thresh: Option<f64>,
}

/// Compares all studies that both sides have.
pub fn compare_sides(
    (a_name, a): (&str, &Sides),
    (b_name, b): (&str, &Sides),
    spec: &CompareSpec,
    control: &Control,
) -> Result<ParityReport, StudyError> {
    let pairs = pair(a, b);
    if pairs.together.is_empty() {
        return Err(StudyError::Compare {
            reason: format!(
                "the sides have no study in common: {a_name} has {}, {b_name} has {}",
                few(&pairs.only_a),
                few(&pairs.only_b)
            ),
        });
    }
    let mut warnings: Vec<String> = a.warnings.iter().chain(&b.warnings).cloned().collect();
    warnings.extend(pairs.warnings);
    control.set_total(pairs.together.len() as u64);
    let alone = pairs.together.len() == 1 && pairs.only_a.is_empty() && pairs.only_b.is_empty();
    let mut studies = Vec::new();
    for &(i, j) in &pairs.together {
        control.check()?;
        match compare_two(&a.list[i], &b.list[j], spec) {
            Ok(found) => studies.push(found),
            Err(e) if alone => return Err(e),
            Err(e) => studies.push(refused(&a.list[i], &b.list[j], &e)),
        }
        control.advance(1);
    }
    Ok(ParityReport::new(
        (a_name.to_owned(), b_name.to_owned()),
        (spec.tolerance, spec.matching),
        studies,
        (pairs.only_a, pairs.only_b),
        warnings,
    ))
}

fn refused(a: &Loaded, b: &Loaded, e: &StudyError) -> StudyParity {
    let name = a.side.found.names.first();
    let name = name.or_else(|| b.side.found.names.first());
    StudyParity::refused(
        name.cloned().unwrap_or_else(|| a.stem.clone()),
        [a.side.name.clone(), b.side.name.clone()],
        e.to_string(),
        (a.side.found.list.len(), b.side.found.list.len()),
    )
}

fn few(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(3).map(String::as_str).collect();
    let rest = names.len().saturating_sub(3);
    match (shown.is_empty(), rest) {
        (true, _) => "none".to_owned(),
        (_, 0) => shown.join(", "),
        _ => format!("{} and {rest} more", shown.join(", ")),
    }
}

/// Compares two results of one study.
pub fn compare_two(a: &Loaded, b: &Loaded, spec: &CompareSpec) -> Result<StudyParity, StudyError> {
    same_volume(a, b)?;
    let says = |reason| StudyError::Compare { reason };
    let has_masks = |l: &Loaded| l.mask.is_some() || l.side.mask.is_some();
    let (mut x, mut y) = if has_masks(a) && has_masks(b) {
        let (x, y) = (a.with_mask()?, b.with_mask()?);
        for (this, other) in [(&x, &y), (&y, &x)] {
            if this.mask.is_none() && other.own.is_none() {
                return Err(says(format!(
                    "{} has no label mask any more to hold against {}; run it again with --labels",
                    this.name, other.name
                )));
            }
        }
        (x, y)
    } else {
        for (this, other) in [(a, b), (b, a)] {
            if this.side.own.is_none() && has_masks(this) {
                return Err(says(format!(
                    "{} is a label mask and {} has none; give the mask that voxfit run --labels wrote",
                    this.side.name, other.side.name
                )));
            }
        }
        (a.side.clone(), b.side.clone())
    };
    if let Some(t) = spec.score_thresh {
        leave_out(&mut x, t);
        leave_out(&mut y, t);
    }
    let mut found = compare([&x, &y], &spec.matching, &spec.tolerance.limits).map_err(says)?;
    if let Some(t) = spec.score_thresh {
        found.notes.push(format!(
            "findings that score below {t} were left out on both sides"
        ));
    }
    Ok(found)
}

/// Findings of a lower score fall away.
fn leave_out(side: &mut Side, least: f64) {
    let keep: Vec<bool> = side
        .found
        .list
        .iter()
        .map(|f| f.score.is_none_or(|s| s >= least))
        .collect();
    fn kept<T>(list: &mut Vec<T>, keep: &[bool]) {
        let mut at = 0;
        list.retain(|_| {
            at += 1;
            keep.get(at - 1).copied().unwrap_or(true)
        });
    }
    kept(&mut side.found.list, &keep);
    if let Some(own) = &mut side.own {
        kept(&mut own.boxes, &keep);
        kept(&mut own.distances, &keep);
    }
}

/// Two results are only compared where they are of one volume.
fn same_volume(a: &Loaded, b: &Loaded) -> Result<(), StudyError> {
    let (Some(x), Some(y)) = (&a.side.own, &b.side.own) else {
        return Ok(());
    };
    let other = match (&x.volume_sha256, &y.volume_sha256) {
        (Some(p), Some(q)) => p != q,
        _ => a.volume != b.volume,
    };
    if !other {
        return Ok(());
    }
    let size = |l: &Loaded| l.volume.map_or_else(String::new, |v| v.to_string());
    Err(StudyError::Compare {
        reason: format!(
            "the results are of two different volumes ({} and {} voxels, and not the same values), so nothing can be said about parity: {} and {}",
            size(a),
            size(b),
            a.side.name,
            b.side.name
        ),
    })
}

/// Holds all studies that have a truth against it.
pub fn against_truth(
    found: &Sides,
    truth: &Sides,
    hit: Hit,
    score_thresh: Option<f64>,
) -> Result<TruthReport, StudyError> {
    let pairs = pair(found, truth);
    let mut warnings: Vec<String> = found
        .warnings
        .iter()
        .chain(&truth.warnings)
        .cloned()
        .collect();
    warnings.extend(pairs.warnings);
    for (names, what) in [
        (&pairs.only_a, "results have no truth"),
        (&pairs.only_b, "studies of the truth have no result"),
    ] {
        if !names.is_empty() {
            warnings.push(format!(
                "{} {what} and were left out: {}",
                names.len(),
                few(names)
            ));
        }
    }
    if pairs.together.is_empty() {
        return Err(StudyError::Compare {
            reason: format!(
                "no result has a truth of its study: {}",
                warnings.join("; ")
            ),
        });
    }
    let mut studies: Vec<StudyTruth> = Vec::new();
    for (i, j) in pairs.together {
        let mut side = found.list[i].side.clone();
        if let Some(t) = score_thresh {
            leave_out(&mut side, t);
        }
        let s = score(&side, &truth.list[j].side, hit)
            .map_err(|reason| StudyError::Compare { reason })?;
        studies.push(s);
    }
    let scans: Vec<_> = studies.iter().map(|s| s.scan.clone()).collect();
    Ok(TruthReport {
        hit,
        froc: froc(&scans, BOOTSTRAPS),
        studies,
        warnings,
    })
}

/// The truth of generated studies, by the names of the results.
pub fn phantom_truth(found: &Sides, control: &Control) -> Result<Sides, StudyError> {
    let mut list = Vec::new();
    for l in &found.list {
        let Some(name) = l
            .side
            .found
            .names
            .iter()
            .find(|n| n.starts_with("phantom:"))
        else {
            continue;
        };
        let opened = super::open(name, None, control)?;
        let StudyKind::Phantom { spheres } = &opened.kind else {
            continue;
        };
        let affine = opened.volume.affine;
        let findings = spheres.iter().map(|s| Finding {
            label: "sphere".to_owned(),
            score: None,
            center: affine.to_patient(s.center_index),
            size: Some([s.diameter_mm(); 3]),
        });
        list.push(Loaded {
            side: Side::of(
                name,
                Findings {
                    names: vec![name.clone()],
                    space: Space::Lps,
                    list: findings.collect(),
                    notes: Vec::new(),
                },
            ),
            stem: l.stem.clone(),
            ..Loaded::default()
        });
    }
    Ok(Sides {
        list,
        ..Sides::default()
    })
}

/// Writes the findings of a side in the format that the name's ending means, in the patient's space.
pub fn export(sides: &Sides, path: &Path) -> Result<(), StudyError> {
    let studies: Vec<Findings> = sides.list.iter().map(|l| in_patient(&l.side)).collect();
    findings::write(&studies, path)?;
    Ok(())
}

/// Findings along the patient's axes: our own boxes through the affine that the result keeps.
fn in_patient(side: &Side) -> Findings {
    let mut found = side.found.clone();
    if let Some(own) = &side.own
        && let Some(affine) = own.loaded
    {
        for (f, b) in found.list.iter_mut().zip(&own.boxes) {
            let (center, size) = frame::to_patient(&affine, b.map(f64::from));
            (f.center, f.size) = (center, Some(size));
        }
    }
    found
}
