//! Where a `NIfTI` volume lies: sform, qform or voxel sizes alone, turned from RAS to LPS, and what is odd about it.

use super::header::Header;
use crate::geometry::{Affine, dot};
use crate::tiling::PlanWarning;

type Rows = [[f64; 4]; 3];

/// The code of the warning that a file says no spacing.
pub const SPACING_ASSUMED: &str = "spacing-assumed";
/// The code of the warning that a file says no orientation.
pub const ORIENTATION_ASSUMED: &str = "orientation-assumed";

/// The affine in LPS. Of two forms the one in scanner space (code 1) is taken, the sform first, as peers do.
pub(super) fn placed(header: &Header) -> (Affine, Vec<PlanWarning>) {
    let mut notes = Vec::new();
    let usable = |rows: &Rows| {
        let a = lps(*rows, 1.0);
        let d = a.determinant();
        d.is_finite() && d != 0.0 && a.origin.iter().all(|v| v.is_finite())
    };
    let s = Some(header.s_rows).filter(|r| header.sform > 0 && usable(r));
    if header.sform > 0 && s.is_none() {
        notes.push(PlanWarning::new(
            "sform-unusable",
            "the sform is not an affine (two axes are one, or it holds no numbers); it was left out",
        ));
    }
    let unit = match header.units & 7 {
        1 => 1000.0,
        3 => 0.001,
        _ => 1.0,
    };
    let q = (header.qform > 0)
        .then(|| from_quaternion(header, 1.0 / unit))
        .filter(usable);
    let rows = match (s, q) {
        (Some(s), Some(q)) => {
            let by_q = header.sform != 1 && header.qform == 1;
            if differ(&s, &q) {
                let (taken, left) = if by_q {
                    ("qform", "sform")
                } else {
                    ("sform", "qform")
                };
                notes.push(PlanWarning::new(
                    "forms-differ",
                    format!(
                        "the sform (code {}) and the qform (code {}) put the volume at different places; the {taken} is taken, not the {left}",
                        header.sform, header.qform
                    ),
                ));
            }
            if by_q {
                notes.extend(spacing_unknown(header));
                q
            } else {
                s
            }
        }
        (Some(s), None) => s,
        (None, Some(q)) => {
            notes.extend(spacing_unknown(header));
            q
        }
        (None, None) => return (unplaced(header, unit, &mut notes), notes),
    };
    (lps(rows, unit), notes)
}

/// Voxel sizes alone: rows to the left, columns to the back, slices to the head.
fn unplaced(header: &Header, unit: f64, notes: &mut Vec<PlanWarning>) -> Affine {
    notes.push(PlanWarning::new(
        ORIENTATION_ASSUMED,
        "the file does not say which way its axes run (neither sform nor qform): unknown, taken as left, posterior, superior",
    ));
    notes.extend(spacing_unknown(header));
    Affine::axis_aligned(sizes(header).map(|v| v.map_or(1.0, |v| v * unit)))
}

/// The voxel sizes in the header's own unit; `None` for one that is no length.
fn sizes(header: &Header) -> [Option<f64>; 3] {
    let [_, x, y, z, ..] = header.pixdim;
    [x, y, z].map(|v| Some(v.abs()).filter(|v| *v > 0.0 && v.is_finite()))
}

/// Says that a voxel size that is needed is not there.
fn spacing_unknown(header: &Header) -> Option<PlanWarning> {
    sizes(header).iter().any(Option::is_none).then(|| {
        PlanWarning::new(
            SPACING_ASSUMED,
            "the file does not say all of its voxel sizes: unknown, taken as 1 mm",
        )
    })
}

/// Whether two forms differ by more than a thousandth in a step of voxels, or in where the first voxel lies (of its distance
/// and of 1 mm). Column by column: the offsets are far larger than the steps and would hide what these say.
fn differ(a: &Rows, b: &Rows) -> bool {
    let slack = [0.0, 0.0, 0.0, 1.0];
    let pairs = columns(*a).into_iter().zip(columns(*b));
    let length = |v: [f64; 3]| dot(v, v).sqrt();
    pairs
        .zip(slack)
        .any(|(([p0, p1, p2], [q0, q1, q2]), slack)| {
            let apart = length([p0 - q0, p1 - q1, p2 - q2]);
            apart > 1e-3 * (length([p0, p1, p2]) + slack)
        })
}

/// Steps along i, j and k, then the offset.
fn columns([x, y, z]: Rows) -> [[f64; 3]; 4] {
    let ([x0, x1, x2, x3], [y0, y1, y2, y3], [z0, z1, z2, z3]) = (x, y, z);
    [[x0, y0, z0], [x1, y1, z1], [x2, y2, z2], [x3, y3, z3]]
}

/// RAS to LPS: x and y change sign.
fn lps([x, y, z]: Rows, unit: f64) -> Affine {
    let [x0, x1, x2, x3] = x.map(|v| -v * unit);
    let [y0, y1, y2, y3] = y.map(|v| -v * unit);
    let [z0, z1, z2, z3] = z.map(|v| v * unit);
    Affine {
        step: [[x0, y0, z0], [x1, y1, z1], [x2, y2, z2]],
        origin: [x3, y3, z3],
    }
}

/// The four parts of the unit quaternion of which a file holds the last three, in four bytes each. What rounding left
/// of half a turn (1e-7, as in the standard's own library) is half a turn.
pub(super) fn unit(parts: [f64; 3]) -> [f64; 4] {
    let sum: f64 = parts.iter().map(|v| v * v).sum();
    let half_turn = 1.0 - sum < 1e-7;
    let by = if half_turn && sum > 0.0 {
        sum.sqrt()
    } else {
        1.0
    };
    let [b, c, d] = parts.map(|v| v / by);
    let a = if half_turn { 0.0 } else { (1.0 - sum).sqrt() };
    [a, b, c, d]
}

/// The standard's method 2: a rotation from three quaternion parts, voxel sizes, and a sign for the third axis.
/// A size that is not there is `otherwise`.
fn from_quaternion(header: &Header, otherwise: f64) -> Rows {
    let [q, ..] = header.pixdim;
    let [dx, dy, dz] = sizes(header).map(|v| v.unwrap_or(otherwise));
    let [a, b, c, d] = unit(header.quaternion);
    let z = if q < 0.0 { -dz } else { dz };
    let [ox, oy, oz] = header.q_offset;
    [
        [
            (a * a + b * b - c * c - d * d) * dx,
            (2.0 * b * c - 2.0 * a * d) * dy,
            (2.0 * b * d + 2.0 * a * c) * z,
            ox,
        ],
        [
            (2.0 * b * c + 2.0 * a * d) * dx,
            (a * a + c * c - b * b - d * d) * dy,
            (2.0 * c * d - 2.0 * a * b) * z,
            oy,
        ],
        [
            (2.0 * b * d - 2.0 * a * c) * dx,
            (2.0 * c * d + 2.0 * a * b) * dy,
            (a * a + d * d - c * c - b * b) * z,
            oz,
        ],
    ]
}
