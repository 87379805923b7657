//! Findings against truth: what was hit, what was missed, what is false, for FROC.

use super::frame::{self, Common};
use super::parity::Side;
use crate::detect::Space;
use crate::detect::froc::{Froc, Scan};
use crate::detect::matching::{Placed, Sorted};
use serde::Serialize;
use std::str::FromStr;

/// Truth that is a point is hit within so many mm.
pub(super) const POINT_MM: f64 = 5.0;

/// When a finding hits a truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Hit {
    /// Its middle lies within the truth's radius (half its mean edge), as LUNA16 counts.
    #[default]
    Radius,
    /// Its box overlaps the truth's by at least this IoU, as MONAI counts.
    Iou(f64),
}

impl FromStr for Hit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let iou = text.strip_prefix("iou=").and_then(|t| t.parse().ok());
        match (text, iou) {
            ("radius", _) => Ok(Self::Radius),
            (_, Some(iou)) if iou > 0.0 && iou <= 1.0 => Ok(Self::Iou(iou)),
            _ => Err(format!(
                "a hit is radius, or an overlap above 0 and at most 1 such as iou=0.1; found \"{text}\""
            )),
        }
    }
}

/// One truth and what found it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TruthRow {
    /// Its place in the truth's list, from 0.
    pub truth: usize,
    /// The best finding that hit it, by its place in the list; `None` is a miss.
    pub found: Option<usize>,
    /// That finding's score.
    pub score: Option<f64>,
    /// Its middle in LPS mm, where the frame knows the patient.
    pub center_in_patient: Option<[f64; 3]>,
    /// Its longest edge in mm.
    pub size_mm: Option<f64>,
}

/// One study against its truth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudyTruth {
    /// The study.
    pub study: String,
    /// Findings of the truth.
    pub n_truth: usize,
    /// Those that were hit.
    pub hits: usize,
    /// Those that were not.
    pub misses: usize,
    /// Findings that hit nothing.
    pub false_positives: usize,
    /// The truth one by one.
    pub truth: Vec<TruthRow>,
    /// Findings that hit nothing, by their place in the list.
    pub false_findings: Vec<usize>,
    /// What the reader should know.
    pub notes: Vec<String>,
    /// What it contributes to the curve.
    #[serde(skip)]
    pub scan: Scan,
}

/// The whole answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TruthReport {
    /// What counts as a hit.
    pub hit: Hit,
    /// The curve.
    pub froc: Froc,
    /// Study by study.
    pub studies: Vec<StudyTruth>,
    /// What the reader should know.
    pub warnings: Vec<String>,
}

fn scaled(boxes: &[Placed], mm: [f64; 3]) -> Vec<Placed> {
    boxes
        .iter()
        .map(|b| Placed {
            corners: std::array::from_fn(|i| b.corners[i] * mm[i % 3]),
            ..*b
        })
        .collect()
}

/// Boxes of both sides in mm, whatever their frame.
pub(super) fn in_mm(common: &Common) -> [Vec<Placed>; 2] {
    let mm = common.mm.unwrap_or([1.0; 3]);
    [scaled(&common.boxes[0], mm), scaled(&common.boxes[1], mm)]
}

/// Holds findings against truth, without regard to class. A finding that hits what a better one hit already is neither hit nor false.
pub fn score(found: &Side, truth: &Side, hit: Hit) -> Result<StudyTruth, String> {
    let common = frame::common([found, truth])?;
    let mut notes = common.notes.clone();
    let [boxes, wanted] = in_mm(&common);
    if wanted.iter().any(Placed::is_point) {
        notes.push(format!("truth without a size is hit within {POINT_MM} mm"));
    }
    if found.found.list.iter().any(|f| f.score.is_none()) {
        notes.push("findings without a score count as certain".to_owned());
    }
    let sorted = Sorted::new(&boxes);
    let mut hits_something = vec![false; boxes.len()];
    let mut rows = Vec::new();
    for (t, w) in wanted.iter().enumerate() {
        let radius = if w.is_point() {
            POINT_MM
        } else {
            // A box along other axes holds a sphere that is larger than the one that was meant.
            let own = truth.found.list.get(t).and_then(|f| f.size);
            let own = own.filter(|_| truth.found.space != Space::Voxels);
            let edges =
                own.unwrap_or_else(|| std::array::from_fn(|a| w.corners[a + 3] - w.corners[a]));
            edges.iter().sum::<f64>() / 6.0
        };
        let mut best: Option<usize> = None;
        for i in sorted.near(w, radius) {
            let b = &boxes[i];
            let is_hit = match hit {
                Hit::Iou(least) if !w.is_point() && !b.is_point() => b.iou(w) >= least,
                _ => b.distance(w) <= radius,
            };
            if is_hit {
                hits_something[i] = true;
                let better =
                    |o: usize| b.score > boxes[o].score || (b.score == boxes[o].score && i < o);
                if best.is_none_or(better) {
                    best = Some(i);
                }
            }
        }
        let place = common.affine.map(|a| {
            let raw = common.boxes[1][t].corners;
            frame::to_patient(&a, raw).0
        });
        rows.push(TruthRow {
            truth: t,
            found: best,
            score: best.map(|i| boxes[i].score),
            center_in_patient: place
                .or_else(|| (common.unit == frame::Unit::Mm).then(|| common.boxes[1][t].center())),
            size_mm: common.mm.map(|_| w.longest()),
        });
    }
    let false_findings: Vec<usize> = (0..boxes.len()).filter(|&i| !hits_something[i]).collect();
    let hits = rows.iter().filter(|r| r.found.is_some()).count();
    let names = [found, truth]
        .iter()
        .find_map(|s| s.found.names.first().cloned());
    Ok(StudyTruth {
        study: names.unwrap_or_else(|| found.name.clone()),
        n_truth: rows.len(),
        hits,
        misses: rows.len() - hits,
        false_positives: false_findings.len(),
        scan: Scan {
            truth: rows.iter().map(|r| r.score).collect(),
            false_positives: false_findings.iter().map(|&i| boxes[i].score).collect(),
        },
        truth: rows,
        false_findings,
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{Finding, Findings, Space};

    fn side(list: &[(f64, Option<f64>, Option<f64>)]) -> Side {
        let list = list
            .iter()
            .map(|&(x, size, score)| Finding {
                label: String::new(),
                score,
                center: [x, 0.0, 0.0],
                size: size.map(|s| [s; 3]),
            })
            .collect();
        let found = Findings {
            space: Space::Lps,
            list,
            ..Findings::default()
        };
        Side::of("a.csv", found)
    }

    #[test]
    fn the_best_of_several_hits_counts_and_the_others_are_not_false() {
        let truth = side(&[(0.0, Some(10.0), None), (50.0, Some(4.0), None)]);
        let found = side(&[
            (4.9, Some(3.0), Some(0.3)),
            (-1.0, Some(8.0), Some(0.8)),
            (53.0, Some(4.0), Some(0.9)),
        ]);
        let s = score(&found, &truth, Hit::Radius).unwrap();
        assert_eq!((s.hits, s.misses, s.false_positives), (1, 1, 1));
        assert_eq!((s.truth[0].found, s.truth[0].score), (Some(1), Some(0.8)));
        assert_eq!(s.false_findings, [2]);
        assert_eq!(s.truth[1].center_in_patient, Some([50.0, 0.0, 0.0]));
        let by_iou = score(&found, &truth, Hit::Iou(0.05)).unwrap();
        assert_eq!((by_iou.hits, by_iou.false_positives), (2, 1));
    }

    #[test]
    fn words_for_a_hit() {
        assert_eq!("radius".parse::<Hit>(), Ok(Hit::Radius));
        assert_eq!("iou=0.1".parse::<Hit>(), Ok(Hit::Iou(0.1)));
        assert!("iou=0".parse::<Hit>().is_err() && "near".parse::<Hit>().is_err());
    }
}
