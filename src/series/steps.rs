//! Measures the steps from slice to slice: the commonest one, gaps, jitter, lean (gantry tilt) and straightness.

use super::frames::{norm, scale, sub};
use super::group::{height, names, normal};
use super::header::Source;
use super::{Warning, WarningCode};
use crate::geometry::dot;

/// Steps within this of the commonest (mm) count as equal.
const JITTER: f64 = 0.01;
/// Slices further than this (mm) beside the straight line through the stack are told.
const BESIDE: f64 = 0.1;

/// What the positions of a stack say.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    /// Vector from one slice to the next, mm; a unit normal where unknown.
    pub(super) step: [f64; 3],
    /// Distance between slices along the normal, mm.
    pub(super) along_normal: Option<f64>,
    pub(super) warnings: Vec<Warning>,
    /// Whether one affine tells every slice's position.
    pub(super) straight: bool,
}

/// Measures the steps of slices that are in order.
pub(super) fn measure(sources: &[Source]) -> Steps {
    let normal = sources.first().and_then(normal);
    let unknown = |warnings| Steps {
        step: normal.unwrap_or([0.0, 0.0, 1.0]),
        along_normal: None,
        warnings,
        straight: false,
    };
    if sources.len() == 1 {
        return unknown(vec![Warning {
            code: WarningCode::SingleSlice,
            text: "one slice only: the distance between slices is unknown".to_owned(),
            files: Vec::new(),
        }]);
    }
    let Some(normal) = normal else {
        return unknown(Vec::new());
    };
    let heights: Option<Vec<f64>> = sources.iter().map(|s| height(s, normal)).collect();
    let (Some(heights), Some(first), Some(last)) = (
        heights,
        sources.first().and_then(|s| s.plane().position),
        sources.last().and_then(|s| s.plane().position),
    ) else {
        return unknown(Vec::new());
    };
    let gaps: Vec<f64> = heights
        .windows(2)
        .filter_map(|w| match w {
            [a, b] => Some(b - a),
            _ => None,
        })
        .collect();
    let total: f64 = gaps.iter().sum();
    let even = even(&gaps, total);
    let Some(common) = even.or_else(|| commonest(&gaps)).filter(|_| total > 0.0) else {
        return unknown(Vec::new());
    };
    let uniform = even.is_some() || gaps.iter().all(|g| is_common(*g, common));
    let across = sub(last, first);
    let step = if uniform {
        scale(across, 1.0 / gaps.len() as f64)
    } else {
        scale(across, common / total)
    };
    let mut warnings = Vec::new();
    if !uniform {
        warnings.extend(uneven(sources, &gaps, common));
    }
    let beside = furthest_beside(sources, &heights, first, scale(across, 1.0 / total));
    if beside > BESIDE {
        warnings.push(Warning {
            code: WarningCode::NotStraight,
            text: format!(
                "slices do not lie on one straight line: one is {beside:.2} mm beside it, expected less than {BESIDE} mm"
            ),
            files: Vec::new(),
        });
    }
    warnings.extend(lean(sources, step, normal));
    Steps {
        step,
        along_normal: Some(dot(step, normal)),
        warnings,
        straight: uniform && beside <= BESIDE,
    }
}

/// Whether a step is the common one, within the jitter.
pub(super) fn is_common(gap: f64, common: f64) -> bool {
    (gap - common).abs() <= JITTER + 1e-9
}

/// How many common steps make this one: two or more, to within a tenth of one; `None` for an odd step.
pub(super) fn times(gap: f64, common: f64) -> Option<f64> {
    let times = (gap / common).round();
    (times >= 2.0 && (gap - times * common).abs() <= 0.1 * common).then_some(times)
}

/// How far a step leans off the normal along each of two axes, degrees.
pub(super) fn leans(step: [f64; 3], normal: [f64; 3], axes: [[f64; 3]; 2]) -> [f64; 2] {
    let up = dot(step, normal);
    axes.map(|along| dot(step, along).atan2(up).to_degrees())
}

/// The step of an even grid from the first slice to the last, where every slice lies within the jitter of it.
fn even(gaps: &[f64], total: f64) -> Option<f64> {
    let step = total / gaps.len() as f64;
    let (mut height, mut expected) = (0.0, 0.0);
    gaps.iter()
        .all(|gap| {
            height += gap;
            expected += step;
            (height - expected).abs() <= JITTER + 1e-9
        })
        .then_some(step)
}

/// The step that most steps agree on within the jitter (their mean); of equally common ones the smaller.
fn commonest(gaps: &[f64]) -> Option<f64> {
    let mut sorted = gaps.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut best: Option<(usize, f64)> = None;
    let mut end = 0;
    for (start, &low) in sorted.iter().enumerate() {
        while sorted.get(end).is_some_and(|&g| g - low <= 2.0 * JITTER) {
            end += 1;
        }
        let count = end - start;
        if best.is_none_or(|(n, _)| count > n) {
            // From the lowest up: equal steps give that step to the last bit.
            let above: f64 = sorted.iter().skip(start).take(count).map(|g| g - low).sum();
            best = Some((count, low + above / count.max(1) as f64));
        }
    }
    best.map(|(_, g)| g)
}

/// Names what is uneven: a gap of whole steps is missing slices, anything else an odd step.
fn uneven(sources: &[Source], gaps: &[f64], common: f64) -> Vec<Warning> {
    let (mut missing, mut odd) = (Vec::new(), Vec::new());
    let (mut missing_files, mut odd_files) = (Vec::new(), Vec::new());
    let mut n_missing = 0.0;
    for ((k, pair), &gap) in sources.windows(2).enumerate().zip(gaps) {
        let [a, b] = pair else { continue };
        if is_common(gap, common) {
            continue;
        }
        let between = format!("{} and {}", a.file.name, b.file.name);
        let pair_files = [a.file.name.clone(), b.file.name.clone()];
        if let Some(times) = times(gap, common) {
            n_missing += times - 1.0;
            missing.push(format!(
                "{} after slice {k} (between {between}: {gap:.3} mm, expected {common:.3} mm)",
                times - 1.0
            ));
            missing_files.extend(pair_files);
        } else {
            odd.push(format!(
                "after slice {k} (between {between}): {gap:.3} mm, expected {common:.3} mm"
            ));
            odd_files.extend(pair_files);
        }
    }
    let mut out = Vec::new();
    if !missing.is_empty() {
        out.push(Warning {
            code: WarningCode::MissingSlices,
            text: format!("{n_missing} slice(s) are missing: {}", names(&missing)),
            files: missing_files,
        });
    }
    if !odd.is_empty() {
        out.push(Warning {
            code: WarningCode::UnevenSteps,
            text: format!("steps between slices are uneven: {}", names(&odd)),
            files: odd_files,
        });
    }
    out
}

/// How far a slice lies beside the line through first and last slice, mm.
fn furthest_beside(sources: &[Source], heights: &[f64], first: [f64; 3], slope: [f64; 3]) -> f64 {
    let base = heights.first().copied().unwrap_or_default();
    sources
        .iter()
        .zip(heights)
        .filter_map(|(s, h)| {
            let expected = scale(slope, h - base);
            Some(norm(sub(sub(s.plane().position?, first), expected)))
        })
        .fold(0.0, f64::max)
}

/// The angle between step and normal, with its sign down the columns.
fn lean(sources: &[Source], step: [f64; 3], normal: [f64; 3]) -> Option<Warning> {
    let plane = sources.first()?.plane();
    let (row, column) = (plane.row?, plane.column?);
    let [down, side] = leans(step, normal, [column, row]);
    if down.abs().max(side.abs()) < 0.1 {
        return None;
    }
    let sideways = if side.abs() < 0.1 {
        String::new()
    } else {
        format!(" and {side:.2} degrees along the rows")
    };
    Some(Warning {
        code: WarningCode::GantryTilt,
        text: format!(
            "slices lean against their step by {down:.2} degrees down the columns{sideways} (gantry tilt): the volume is sheared; positions and boxes stay right, and a straight grid can be resampled"
        ),
        files: Vec::new(),
    })
}
