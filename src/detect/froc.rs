//! FROC: sensitivity against false positives per scan, the mean over seven working points (CPM), and bootstrap intervals over scans.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use serde::Serialize;

/// The false positives per scan at which CPM takes sensitivity.
pub const WORKING_POINTS: [f64; 7] = [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0];

/// The seed of the bootstrap.
pub const SEED: u64 = 1;

/// What one scan contributes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scan {
    /// Score of the best detection that hit each finding of the truth; `None` where it was missed.
    pub truth: Vec<Option<f64>>,
    /// Scores of the detections that hit nothing.
    pub false_positives: Vec<f64>,
}

/// One point of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Detections of at least this score count.
    pub threshold: f64,
    /// False positives per scan.
    pub fp_per_scan: f64,
    /// Share of the truth that is found.
    pub sensitivity: f64,
}

/// Sensitivity at a number of false positives per scan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Working {
    /// False positives per scan.
    pub fp_per_scan: f64,
    /// Share of the truth that is found.
    pub sensitivity: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of its interval.
    pub high: f64,
}

/// The curve and what is read off it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Froc {
    /// Scans.
    pub n_scans: usize,
    /// Findings of the truth over all scans.
    pub n_truth: usize,
    /// Findings of the truth that some detection hit.
    pub n_found: usize,
    /// Detections that hit nothing.
    pub n_false_positives: usize,
    /// The curve, highest threshold first.
    pub points: Vec<Point>,
    /// Sensitivity at the working points.
    pub at: Vec<Working>,
    /// Their mean.
    pub cpm: f64,
    /// The lower end of its interval.
    pub cpm_low: f64,
    /// The upper end of its interval.
    pub cpm_high: f64,
    /// Bootstrap samples behind the intervals.
    pub n_bootstraps: usize,
    /// Share of the samples between the ends.
    pub confidence: f64,
}

/// The curve over some scans (with repetition, for the bootstrap): points by falling threshold.
fn curve(scans: &[&Scan]) -> Vec<Point> {
    let mut all: Vec<(f64, bool)> = Vec::new();
    for s in scans {
        all.extend(s.truth.iter().flatten().map(|&score| (score, true)));
        all.extend(s.false_positives.iter().map(|&score| (score, false)));
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let n_truth: usize = scans.iter().map(|s| s.truth.len()).sum();
    let (mut hits, mut false_positives) = (0_usize, 0_usize);
    let mut points = Vec::new();
    for (i, &(score, hit)) in all.iter().enumerate() {
        if hit {
            hits += 1;
        } else {
            false_positives += 1;
        }
        // Detections of one score come and go together.
        if all.get(i + 1).is_none_or(|next| next.0 != score) {
            points.push(Point {
                threshold: score,
                fp_per_scan: false_positives as f64 / scans.len().max(1) as f64,
                sensitivity: hits as f64 / n_truth.max(1) as f64,
            });
        }
    }
    points
}

/// Sensitivity that is reached with at most so many false positives per scan: the curve is a staircase.
fn at(points: &[Point], fp_per_scan: f64) -> f64 {
    points
        .iter()
        .take_while(|p| p.fp_per_scan <= fp_per_scan)
        .last()
        .map_or(0.0, |p| p.sensitivity)
}

fn working(points: &[Point]) -> [f64; 7] {
    WORKING_POINTS.map(|fp| at(points, fp))
}

fn mean(values: &[f64; 7]) -> f64 {
    values.iter().sum::<f64>() / 7.0
}

/// The value below which a share of the samples lies (linear between neighbours).
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let place = share * last as f64;
    let low = (0..=last).rev().find(|&i| i as f64 <= place).unwrap_or(0);
    let high = (low + 1).min(last);
    let part = place - low as f64;
    sorted[low] + part * (sorted[high] - sorted[low])
}

/// The curve, CPM, and intervals of 95 % from drawing scans with repetition, from a fixed seed.
pub fn froc(scans: &[Scan], n_bootstraps: usize) -> Froc {
    const CONFIDENCE: f64 = 0.95;
    let every: Vec<&Scan> = scans.iter().collect();
    let points = curve(&every);
    let here = working(&points);
    let mut chance = Pcg64::seed_from_u64(SEED);
    let mut drawn: Vec<Vec<f64>> = vec![Vec::new(); 8];
    for _ in 0..n_bootstraps {
        if scans.is_empty() {
            break;
        }
        let sample: Vec<&Scan> = (0..scans.len())
            .map(|_| &scans[chance.random_range(0..scans.len())])
            .collect();
        // A sample without any truth says nothing about sensitivity.
        if sample.iter().all(|s| s.truth.is_empty()) {
            continue;
        }
        let values = working(&curve(&sample));
        for (list, v) in drawn.iter_mut().zip(values.iter().chain([&mean(&values)])) {
            list.push(*v);
        }
    }
    for list in &mut drawn {
        list.sort_by(f64::total_cmp);
    }
    let ends = |list: &[f64], own: f64| {
        let rest = 0.5 * (1.0 - CONFIDENCE);
        if list.is_empty() {
            (own, own)
        } else {
            (quantile(list, rest), quantile(list, 1.0 - rest))
        }
    };
    let (cpm_low, cpm_high) = ends(&drawn[7], mean(&here));
    Froc {
        n_scans: scans.len(),
        n_truth: scans.iter().map(|s| s.truth.len()).sum(),
        n_found: scans.iter().flat_map(|s| &s.truth).flatten().count(),
        n_false_positives: scans.iter().map(|s| s.false_positives.len()).sum(),
        at: (0..7)
            .map(|i| {
                let (low, high) = ends(&drawn[i], here[i]);
                Working {
                    fp_per_scan: WORKING_POINTS[i],
                    sensitivity: here[i],
                    low,
                    high,
                }
            })
            .collect(),
        cpm: mean(&here),
        cpm_low,
        cpm_high,
        points,
        n_bootstraps,
        confidence: CONFIDENCE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four scans with five findings, one of them missed, and six false positives.
    fn scans() -> Vec<Scan> {
        let scan = |truth: &[Option<f64>], fp: &[f64]| Scan {
            truth: truth.to_vec(),
            false_positives: fp.to_vec(),
        };
        vec![
            scan(&[Some(0.9), Some(0.3)], &[0.8]),
            scan(&[Some(0.7)], &[0.6, 0.5]),
            scan(&[None], &[0.4, 0.2]),
            scan(&[Some(0.65)], &[0.1]),
        ]
    }

    #[test]
    fn the_curve_and_cpm_are_what_a_hand_computes() {
        // By falling score: .9 hit (1/5), .8 fp, .7 hit (2/5), .65 hit (3/5), .6 fp, .5 fp, .4 fp, .3 hit (4/5), .2 fp, .1 fp.
        // False positives per scan:      0    1/4        1/4        1/4      2/4    3/4    4/4         4/4      5/4    6/4.
        let f = froc(&scans(), 0);
        assert_eq!(f.points.len(), 10);
        assert_eq!((f.n_truth, f.n_found, f.n_false_positives), (5, 4, 6));
        let sensitivities: Vec<f64> = f.at.iter().map(|w| w.sensitivity).collect();
        assert_eq!(sensitivities, [0.2, 0.6, 0.6, 0.8, 0.8, 0.8, 0.8]);
        assert!((f.cpm - 4.6 / 7.0).abs() < 1e-12, "{}", f.cpm);
    }

    #[test]
    fn intervals_hold_the_estimate_and_are_the_same_each_time() {
        let f = froc(&scans(), 500);
        assert_eq!(f, froc(&scans(), 500));
        assert!(f.cpm_low < f.cpm && f.cpm < f.cpm_high, "{f:?}");
        assert!(f.cpm_low >= 0.0 && f.cpm_high <= 1.0);
        // With one scan there is nothing to draw: the interval is the estimate.
        let one = froc(&scans()[..1], 100);
        assert_eq!((one.cpm_low, one.cpm_high), (one.cpm, one.cpm));
    }

    #[test]
    fn equal_scores_come_together_and_nothing_at_all_is_an_answer() {
        let scan = Scan {
            truth: vec![Some(0.5)],
            false_positives: vec![0.5],
        };
        assert_eq!(froc(std::slice::from_ref(&scan), 0).points.len(), 1);
        let empty = froc(&[], 10);
        assert_eq!((empty.cpm, empty.points.len()), (0.0, 0));
    }
}
