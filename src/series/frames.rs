//! The plane of each frame: from the data set for single frames, from functional groups for Enhanced multi-frame files.

use super::dataset::DataSet;
use super::header::Plane;
use crate::geometry::dot;

/// No patient is further than this (mm) from the origin: such numbers are damage.
const FAR: f64 = 1.0e6;
/// A slope or intercept beyond this, or a slope this close to zero, is damage and not a scale.
const STEEP: f64 = 1.0e12;

/// One plane for each frame.
pub(super) fn planes(set: &DataSet<'_>, frames: usize) -> Vec<Plane> {
    let base = single(set);
    let shared = set.first_item(0x5200_9229);
    let Some(per_frame) = set.get(0x5200_9230) else {
        let mut base = base;
        if let Some(shared) = &shared {
            functional(&mut base, shared);
        }
        if frames > 1 {
            // Without functional groups a position can be that of one frame only.
            base.position = None;
        }
        return vec![base; frames];
    };
    let mut out: Vec<Plane> = per_frame
        .items()
        .take(frames)
        .zip(1i64..)
        .map(|(item, n)| {
            let mut plane = base.clone();
            // A position of the whole file is no frame's own.
            plane.position = plane.position.filter(|_| frames == 1);
            plane.instance = Some(n);
            if let Some(shared) = &shared {
                functional(&mut plane, shared);
            }
            functional(&mut plane, &DataSet::of_item(item));
            plane
        })
        .collect();
    // Fewer groups than frames: the rest have no plane of their own.
    let bare = Plane {
        position: None,
        ..base
    };
    out.resize(frames, bare);
    out
}

fn single(set: &DataSet<'_>) -> Plane {
    let mut plane = Plane {
        position: position(set),
        spacing: spacing(set),
        rescale: rescale(set),
        slope_unknown: slope_unknown(set),
        instance: set.integer_text(0x0020_0013),
        acquisition: set.integer_text(0x0020_0012),
        temporal: set.integer_text(0x0020_0100),
        echo: set.integer_text(0x0018_0086),
        ..Plane::default()
    };
    orientation(&mut plane, set);
    plane
}

fn functional(plane: &mut Plane, group: &DataSet<'_>) {
    if let Some(item) = group.first_item(0x0020_9113) {
        plane.position = position(&item).or(plane.position);
    }
    if let Some(item) = group.first_item(0x0020_9116) {
        orientation(plane, &item);
    }
    if let Some(item) = group.first_item(0x0028_9110) {
        plane.spacing = spacing(&item).or(plane.spacing);
    }
    if let Some(item) = group.first_item(0x0028_9145)
        && let Some(rescale) = rescale(&item)
    {
        plane.rescale = Some(rescale);
        plane.slope_unknown = slope_unknown(&item);
    }
    if let Some(item) = group.first_item(0x0020_9111) {
        plane.acquisition = item.integer(0x0020_9156).or(plane.acquisition);
        plane.temporal = item.integer(0x0020_9128).or(plane.temporal);
        plane.stack = item.code(0x0020_9056).or_else(|| plane.stack.take());
    }
}

fn position(set: &DataSet<'_>) -> Option<[f64; 3]> {
    set.vector::<3>(0x0020_0032)
        .filter(|p| p.iter().all(|x| x.abs() <= FAR))
}

/// Pixel spacing is row spacing (between rows, y), then column spacing (x).
fn spacing(set: &DataSet<'_>) -> Option<[f64; 2]> {
    let [y, x] = set.vector::<2>(0x0028_0030)?;
    let sound = |s: f64| s > 1.0 / STEEP && s <= FAR;
    (sound(x) && sound(y)).then_some([x, y])
}

fn rescale(set: &DataSet<'_>) -> Option<(f64, f64)> {
    let slope = set.number(0x0028_1053);
    let intercept = set.number(0x0028_1052).filter(|i| i.abs() <= STEEP);
    match (slope, intercept) {
        (None, None) if !says_rescale(set) => None,
        // A slope of zero would make every voxel the same; `slope_unknown` tells.
        (slope, intercept) => Some((
            slope.filter(|&s| is_slope(s)).unwrap_or(1.0),
            intercept.unwrap_or(0.0),
        )),
    }
}

/// Whether there is something in slope or intercept, a number or not.
fn says_rescale(set: &DataSet<'_>) -> bool {
    set.code(0x0028_1053).is_some() || set.code(0x0028_1052).is_some()
}

/// Whether a number can be a slope.
fn is_slope(s: f64) -> bool {
    s.abs() > 1.0 / STEEP && s.abs() < STEEP
}

/// Whether the data set speaks of a rescale without a slope (or intercept) that can be used.
fn slope_unknown(set: &DataSet<'_>) -> bool {
    let slope = set.number(0x0028_1053).is_some_and(is_slope);
    let intercept = set.number(0x0028_1052).is_some_and(|i| i.abs() <= STEEP);
    says_rescale(set) && !(slope && intercept)
}

/// Row and column directions, brought to unit length; left alone where they are absent or no directions.
fn orientation(plane: &mut Plane, set: &DataSet<'_>) {
    let Some([a, b, c, d, e, f]) = set.vector::<6>(0x0020_0037) else {
        return;
    };
    let (row, column) = (unit([a, b, c]), unit([d, e, f]));
    if let (Some(row), Some(column)) = (row, column)
        && dot(row, column).abs() < 0.01
    {
        plane.row = Some(row);
        plane.column = Some(column);
    }
}

pub(super) fn sub(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    let ([a0, a1, a2], [b0, b1, b2]) = (a, b);
    [a0 - b0, a1 - b1, a2 - b2]
}

pub(super) fn scale(a: [f64; 3], s: f64) -> [f64; 3] {
    a.map(|x| x * s)
}

pub(super) fn norm(a: [f64; 3]) -> f64 {
    dot(a, a).sqrt()
}

fn unit(a: [f64; 3]) -> Option<[f64; 3]> {
    let n = norm(a);
    // Exact directions stay as they are written.
    if (n - 1.0).abs() < 1e-12 {
        return Some(a);
    }
    ((n - 1.0).abs() < 0.05).then(|| scale(a, 1.0 / n))
}
