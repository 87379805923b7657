//! One study, two results: which finding is which, how far it drifted, what is missing, and the verdict.

use super::frame::{self, Common, Unit};
use super::labels::{LabelParity, Mask};
use super::shapes::{self, Placement};
use super::tolerance::{Limits, Verdict};
use crate::detect::Findings;
use crate::detect::matching::{By, MatchRule, Placed, match_boxes};
use crate::geometry::Affine;
use serde::Serialize;
use std::collections::BTreeMap;

/// A seam is near within this many voxels of a box, or a sixteenth of the window where that is more.
const NEAR_VOXELS: f64 = 4.0;

/// What only a result of Voxfit knows of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Own {
    /// Over the loaded volume's voxels.
    pub volume_sha256: Option<String>,
    /// Name of the network.
    pub network: String,
    /// Its fingerprint.
    pub network_sha256: String,
    /// Over the stitched outputs.
    pub outputs_sha256: Option<String>,
    /// Voxel index of the loaded volume to LPS mm.
    pub loaded: Option<Affine>,
    /// Voxel index of the prepared volume to LPS mm.
    pub prepared: Option<Affine>,
    /// Seam planes of the prepared volume, per axis.
    pub planes: [Vec<usize>; 3],
    /// Window size.
    pub roi: [usize; 3],
    /// Boxes in voxels of the loaded volume.
    pub boxes: Vec<[f32; 6]>,
    /// Distance of each to the nearest seam in mm, as the run knew it.
    pub distances: Vec<Option<f64>>,
    /// Detections score more than this.
    pub score_thresh: Option<f64>,
    /// Voxels of each label.
    pub labels: BTreeMap<String, u64>,
}

/// One side of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// The file, for sentences.
    pub name: String,
    /// What it found.
    pub found: Findings,
    /// What Voxfit's own results know besides.
    pub own: Option<Own>,
    /// Its segmentation, where it has one.
    pub mask: Option<Mask>,
}

/// What became of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    /// Both sides have it.
    Matched,
    /// Only A has it.
    Missing,
    /// Only B has it.
    Extra,
}

/// What became of a finding's shape, where it is not one for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// One of A is several in B: the one and its parts.
    Split,
    /// Several of A are one in B.
    Merged,
    /// It lies on another of B.
    Duplicate,
    /// A seam cut it from another of B.
    Fragment,
}

/// One finding of either side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What became of it.
    pub kind: RowKind,
    /// Its place in A's list, from 0.
    pub a: Option<usize>,
    /// Its place in B's list, from 0.
    pub b: Option<usize>,
    /// Its class.
    pub label: String,
    /// Score in A.
    pub score_a: Option<f64>,
    /// Score in B.
    pub score_b: Option<f64>,
    /// B's score less A's.
    pub score_drift: Option<f64>,
    /// How far the edge that moved most has moved.
    pub box_drift: Option<f64>,
    /// Intersection over union.
    pub iou: Option<f64>,
    /// How far the middle has moved, in mm.
    pub center_drift_mm: Option<f64>,
    /// Distance in mm from its middle to the nearest seam of either side.
    pub seam_distance: Option<f64>,
    /// Whether a seam is near: the box, or 4 voxels around it (a sixteenth of the window where that is more), meets one.
    pub near_seam: bool,
    /// Whether a score lies so near the threshold that the tolerance decides which side of it.
    pub near_threshold: bool,
    /// What became of its shape, where it is not one for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
}

/// Quantiles of drifts over the matched findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Drifts {
    /// Half of them are below.
    pub p50: Option<f64>,
    /// 99 of 100 are at or below.
    pub p99: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
}

/// What came of one study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudyParity {
    /// Its name.
    pub study: String,
    /// The files of both sides.
    pub files: [String; 2],
    /// The verdict.
    pub verdict: Verdict,
    /// Why it is no better, in a sentence.
    pub reason: String,
    /// Findings of A.
    pub n_a: usize,
    /// Findings of B.
    pub n_b: usize,
    /// Findings that both have.
    pub matched: usize,
    /// Findings that only A has.
    pub missing: usize,
    /// Findings that only B has.
    pub extra: usize,
    /// Findings of A that became several in B.
    pub split: usize,
    /// Findings of B that were several in A.
    pub merged: usize,
    /// Extra findings that lie on another of B.
    pub duplicate: usize,
    /// Extra findings that a seam cut from another of B.
    pub fragment: usize,
    /// The largest score drift, absolute.
    pub max_score_drift: Option<f64>,
    /// The largest box drift.
    pub max_box_drift: Option<f64>,
    /// The least overlap of a matched pair.
    pub min_iou: Option<f64>,
    /// What boxes are counted in.
    pub unit: Unit,
    /// Score drifts, absolute.
    pub score_drift: Drifts,
    /// Drifts of the middles, in mm.
    pub center_drift_mm: Drifts,
    /// Spearman's rho of score drift against distance to the nearest seam: near 0 is noise, strongly negative a seam effect.
    pub rho: Option<f64>,
    /// Findings whose score lies within tolerance of the threshold.
    pub near_threshold: usize,
    /// Labels of a segmentation.
    pub labels: Vec<LabelParity>,
    /// What the reader should know.
    pub notes: Vec<String>,
    /// The findings one by one.
    #[serde(skip)]
    pub rows: Vec<Row>,
}

/// Compares two results of one study. An error is one sentence: they cannot be compared.
pub fn compare(
    [a, b]: [&Side; 2],
    rule: &MatchRule,
    limits: &Limits,
) -> Result<StudyParity, String> {
    let mut notes = notes_of([a, b]);
    let common = frame::common([a, b])?;
    notes.extend(common.notes.iter().cloned());
    let mut rule = *rule;
    if rule.by == By::Iou && common.boxes.iter().flatten().any(Placed::is_point) {
        rule.by = By::Distance;
        rule.max_distance = rule.max_distance.or(Some(super::truth::POINT_MM));
        notes.push("some findings are points without a size, so they are matched by the distance of their middles".to_owned());
    }
    let found = if rule.by == By::Distance {
        let [x, y] = super::truth::in_mm(&common);
        match_boxes(&x, &y, &rule)
    } else {
        match_boxes(&common.boxes[0], &common.boxes[1], &rule)
    };
    if found.crowded > 0 {
        notes.push(format!(
            "{} findings overlap more than 32 of the other side; only their best 32 were looked at",
            found.crowded
        ));
    }
    let placement = Placement::new([a, b], &common);
    let rows = rows([a, b], &common, &placement, &found.pairs, limits);
    let labels = labels([a, b], &mut notes)?;
    half_voxel(&common, &found.pairs, &mut notes);
    let (verdict, reason) = verdict([a, b], &rows, &labels, limits);
    let said = (verdict, reason, notes);
    Ok(summary([a, b], rows, (&common, &placement), labels, said))
}

fn notes_of([a, b]: [&Side; 2]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for s in [a, b] {
        notes.extend(s.found.notes.iter().map(|n| format!("{}: {n}", s.name)));
    }
    if let (Some(x), Some(y)) = (&a.own, &b.own)
        && x.network_sha256 != y.network_sha256
    {
        notes.push(format!(
            "the results are of two networks ({} and {}, or one with other weights): what differs may come from there",
            x.network, y.network
        ));
    }
    notes
}

/// All of one pair's boxes off by half a voxel along every axis: two conventions, not two answers.
fn half_voxel(common: &Common, pairs: &[(usize, usize)], notes: &mut Vec<String>) {
    let off = |&(i, j): &(usize, usize)| {
        let (a, b) = (common.boxes[0][i].center(), common.boxes[1][j].center());
        (0..3).all(|x| ((a[x] - b[x]).abs() - 0.5).abs() < 0.02)
    };
    if common.unit == Unit::Voxels && !pairs.is_empty() && pairs.iter().all(off) {
        notes.push("every box is half a voxel off along every axis, as when MONAI's box transforms made the mm: try --a-space or --b-space monai-LPS or monai-RAS".to_owned());
    }
}

fn rows(
    [a, b]: [&Side; 2],
    common: &Common,
    placement: &Placement<'_>,
    pairs: &[(usize, usize)],
    limits: &Limits,
) -> Vec<Row> {
    let mut of_b = vec![None; b.found.list.len()];
    let mut of_a = vec![None; a.found.list.len()];
    for &(i, j) in pairs {
        (of_a[i], of_b[j]) = (Some(j), Some(i));
    }
    let thresholds: Vec<f64> = [a, b]
        .iter()
        .filter_map(|s| s.own.as_ref().and_then(|o| o.score_thresh))
        .collect();
    let row = |i: Option<usize>, j: Option<usize>| {
        let (fa, fb) = (i.map(|i| &a.found.list[i]), j.map(|j| &b.found.list[j]));
        let (pa, pb) = (i.map(|i| common.boxes[0][i]), j.map(|j| common.boxes[1][j]));
        let score = |f: Option<&crate::detect::Finding>| f.and_then(|f| f.score);
        let (score_a, score_b) = (score(fa), score(fb));
        let seam = placement.seam(i, j);
        let close = |s: &f64| thresholds.iter().any(|t| (s - t).abs() <= limits.score);
        Row {
            kind: match (i, j) {
                (Some(_), Some(_)) => RowKind::Matched,
                (Some(_), None) => RowKind::Missing,
                _ => RowKind::Extra,
            },
            a: i,
            b: j,
            label: fa.or(fb).map(|f| f.label.clone()).unwrap_or_default(),
            score_a,
            score_b,
            score_drift: score_a.zip(score_b).map(|(x, y)| y - x),
            box_drift: pa.zip(pb).map(|(x, y)| drift(&x, &y)),
            iou: pa
                .zip(pb)
                .filter(|(x, y)| !x.is_point() && !y.is_point())
                .map(|(x, y)| x.iou(&y)),
            center_drift_mm: pa
                .zip(pb)
                .zip(common.mm)
                .map(|((x, y), mm)| moved(x.center(), y.center(), mm)),
            seam_distance: seam.map(|s| s.0),
            near_seam: seam.is_some_and(|s| s.1),
            near_threshold: score_a.iter().chain(&score_b).any(close),
            shape: None,
        }
    };
    let mut rows: Vec<Row> = (0..of_a.len()).map(|i| row(Some(i), of_a[i])).collect();
    let extra = (0..of_b.len()).filter(|&j| of_b[j].is_none());
    rows.extend(extra.map(|j| row(None, Some(j))));
    rows
}

/// The edge that moved most; of points the middle.
fn drift(a: &Placed, b: &Placed) -> f64 {
    if a.is_point() || b.is_point() {
        let (x, y) = (a.center(), b.center());
        return (0..3).map(|i| (x[i] - y[i]).abs()).fold(0.0, f64::max);
    }
    let edges = a.corners.iter().zip(b.corners);
    edges.map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

fn moved(a: [f64; 3], b: [f64; 3], mm: [f64; 3]) -> f64 {
    (0..3)
        .map(|i| ((a[i] - b[i]) * mm[i]).powi(2))
        .sum::<f64>()
        .sqrt()
}

fn labels([a, b]: [&Side; 2], notes: &mut Vec<String>) -> Result<Vec<LabelParity>, String> {
    if let (Some(x), Some(y)) = (&a.mask, &b.mask) {
        return super::labels::compare(x, y)
            .map_err(|why| format!("{why}: {} and {}", a.name, b.name));
    }
    let (Some(x), Some(y)) = (&a.own, &b.own) else {
        return Ok(Vec::new());
    };
    let names: std::collections::BTreeSet<&String> =
        x.labels.keys().chain(y.labels.keys()).collect();
    let same = x.outputs_sha256.is_some() && x.outputs_sha256 == y.outputs_sha256;
    if !names.is_empty() && !same {
        notes.push("the results hold no label masks, only their counts: write them with voxfit run --labels F.nii.gz for Dice and flips".to_owned());
    }
    Ok(names
        .into_iter()
        .map(|n| LabelParity {
            label: n.clone(),
            n_a: x.labels.get(n).copied().unwrap_or(0),
            n_b: y.labels.get(n).copied().unwrap_or(0),
            dice: same.then_some(1.0),
            flips: same.then_some(0),
        })
        .collect())
}

fn verdict(
    [a, b]: [&Side; 2],
    rows: &[Row],
    labels: &[LabelParity],
    limits: &Limits,
) -> (Verdict, String) {
    let same_bits = match (&a.own, &b.own) {
        (Some(x), Some(y)) => {
            x.outputs_sha256.is_some()
                && x.outputs_sha256 == y.outputs_sha256
                && x.boxes == y.boxes
                && findings_alike(a, b)
                && x.labels == y.labels
        }
        _ => false,
    };
    if same_bits {
        return (
            Verdict::Bitwise,
            "the outputs and the findings are the same bits".to_owned(),
        );
    }
    let is_detector = |s: &Side| s.own.as_ref().is_none_or(|o| o.score_thresh.is_some());
    let is_compared = !rows.is_empty()
        || labels.iter().any(|l| l.dice.is_some())
        || is_detector(a)
        || is_detector(b);
    if !is_compared {
        return (
            Verdict::Other,
            "the outputs are not the same bits, and there are neither findings nor label masks to compare; run with --labels, or compare kept outputs with voxfit seams --reference".to_owned(),
        );
    }
    let unlike = |limits: &Limits| -> Vec<&Row> {
        rows.iter()
            .filter(|r| {
                r.kind != RowKind::Matched
                    || r.score_drift.is_some_and(|d| d.abs() > limits.score)
                    || r.box_drift.is_some_and(|d| d > limits.edge)
            })
            .collect()
    };
    let labels_within = |limits: &Limits| {
        labels.iter().all(|l| match l.dice {
            Some(d) => d >= limits.dice && (limits.dice < 1.0 || l.flips == Some(0)),
            None => l.n_a == l.n_b,
        })
    };
    if unlike(&Limits::FLOAT).is_empty() && labels_within(&Limits::FLOAT) {
        let why = match (&a.own, &b.own) {
            (Some(_), Some(_)) => "the outputs are not the same bits",
            _ => "a result from elsewhere is never compared bit by bit",
        };
        return (Verdict::Float, why.to_owned());
    }
    let offenders = unlike(limits);
    if offenders.is_empty() && labels_within(limits) {
        return (
            Verdict::Tolerance,
            "findings or labels differ by more than rounding".to_owned(),
        );
    }
    let words = words(&offenders, labels_within(limits), limits);
    let matched = rows.iter().any(|r| r.kind == RowKind::Matched);
    if matched && labels_within(limits) && offenders.iter().all(|r| r.near_seam) {
        return (Verdict::Seam, format!("{words}, all of them at a seam"));
    }
    (Verdict::Other, words)
}

/// The same labels and scores in the same order. Millimetres follow from the boxes, and a file's decimals may round them.
fn findings_alike(a: &Side, b: &Side) -> bool {
    let said = |s: &Side| -> Vec<(String, Option<u64>)> {
        let list = s.found.list.iter();
        list.map(|f| (f.label.clone(), f.score.map(f64::to_bits)))
            .collect()
    };
    said(a) == said(b)
}

fn words(offenders: &[&Row], labels_within: bool, limits: &Limits) -> String {
    let count = |kind| offenders.iter().filter(|r| r.kind == kind).count();
    let mut parts = Vec::new();
    for (n, what) in [
        (count(RowKind::Missing), "missing"),
        (count(RowKind::Extra), "extra"),
        (count(RowKind::Matched), "drifted beyond the tolerance"),
    ] {
        if n > 0 {
            parts.push(format!("{n} {what}"));
        }
    }
    if !labels_within {
        parts.push(format!("a label below Dice {}", limits.dice));
    }
    parts.join(", ")
}

fn drifts(values: impl Iterator<Item = f64>) -> Drifts {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    let at = |per_100: usize| {
        let rank = (all.len() * per_100).div_ceil(100);
        all.get(rank.saturating_sub(1)).copied()
    };
    Drifts {
        p50: at(50),
        p99: at(99),
        max: all.last().copied(),
    }
}

fn summary(
    [a, b]: [&Side; 2],
    mut rows: Vec<Row>,
    (common, placement): (&Common, &Placement<'_>),
    labels: Vec<LabelParity>,
    (verdict, reason, notes): (Verdict, String, Vec<String>),
) -> StudyParity {
    let shapes = shapes::of(&rows, common, placement);
    for (row, shape) in rows.iter_mut().zip(&shapes.of_row) {
        row.shape = *shape;
    }
    let count = |kind| rows.iter().filter(|r| r.kind == kind).count();
    let score_drift = drifts(rows.iter().filter_map(|r| r.score_drift.map(f64::abs)));
    let boxes = drifts(rows.iter().filter_map(|r| r.box_drift));
    let least = rows.iter().filter_map(|r| r.iou).min_by(f64::total_cmp);
    let against: Vec<(f64, f64)> = rows
        .iter()
        .filter_map(|r| Some((r.score_drift?.abs(), r.seam_distance?)))
        .collect();
    let study = [a, b]
        .iter()
        .find_map(|s| s.found.names.first().cloned())
        .unwrap_or_else(|| a.name.clone());
    StudyParity {
        study,
        files: [a.name.clone(), b.name.clone()],
        verdict,
        reason,
        n_a: a.found.list.len(),
        n_b: b.found.list.len(),
        matched: count(RowKind::Matched),
        missing: count(RowKind::Missing),
        extra: count(RowKind::Extra),
        split: shapes.split,
        merged: shapes.merged,
        duplicate: shapes.duplicate,
        fragment: shapes.fragment,
        max_score_drift: score_drift.max,
        max_box_drift: boxes.max,
        min_iou: least,
        unit: common.unit,
        score_drift,
        center_drift_mm: drifts(rows.iter().filter_map(|r| r.center_drift_mm)),
        rho: spearman(&against),
        near_threshold: rows.iter().filter(|r| r.near_threshold).count(),
        labels,
        notes,
        rows,
    }
}

/// Spearman's rank correlation, ties by their mean rank; `None` below five pairs or where one side never varies.
fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 5 {
        return None;
    }
    let x = ranks(&pairs.iter().map(|p| p.0).collect::<Vec<_>>());
    let y = ranks(&pairs.iter().map(|p| p.1).collect::<Vec<_>>());
    let middle = 0.5 * (pairs.len() as f64 - 1.0);
    let product = |u: &[f64], v: &[f64]| -> f64 {
        let both = u.iter().zip(v);
        both.map(|(p, q)| (p - middle) * (q - middle)).sum()
    };
    let spread = (product(&x, &x) * product(&y, &y)).sqrt();
    (spread > 0.0).then(|| product(&x, &y) / spread)
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut out = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let same = |&&i: &&usize| values[i] == values[order[from]];
        let n = order[from..].iter().take_while(same).count();
        let mean = from as f64 + 0.5 * (n as f64 - 1.0);
        for &i in &order[from..from + n] {
            out[i] = mean;
        }
        from += n;
    }
    out
}

impl Own {
    /// Distance in mm from a point (LPS mm) to the nearest seam, and whether a box of this half edge (mm) has one near.
    pub(super) fn seam(&self, lps: [f64; 3], half_mm: f64) -> Option<(f64, bool)> {
        let prepared = self.prepared?;
        let at = prepared.to_index(lps).ok()?.map(|c| c + 0.5);
        let spacing = prepared.spacing_mm();
        let mut nearest: Option<(f64, bool)> = None;
        for a in 0..3 {
            let margin = NEAR_VOXELS.max(self.roi[a] as f64 / 16.0) * spacing[a] + half_mm;
            for &p in &self.planes[a] {
                let d = (p as f64 - at[a]).abs() * spacing[a];
                let near = d <= margin || nearest.is_some_and(|n| n.1);
                let least = nearest.map_or(d, |n| n.0.min(d));
                nearest = Some((least, near));
            }
        }
        nearest
    }
}

impl Side {
    /// A side that is nothing but findings in a known space.
    pub fn of(name: &str, found: Findings) -> Self {
        Self {
            name: name.to_owned(),
            found,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests;
