//! Where a `NIfTI` volume lies: sform, qform or voxel sizes alone, turned from RAS to LPS, and what is odd about it.

use super::header::Header;
use crate::geometry::Affine;
use crate::tiling::PlanWarning;

type Rows = [[f64; 4]; 3];

/// The code of the warning that a file says no spacing.
pub const SPACING_ASSUMED: &str = "spacing-assumed";
/// The code of the warning that a file says no orientation.
const ORIENTATION_ASSUMED: &str = "orientation-assumed";

/// The affine in LPS. Of two forms the one in scanner space (code 1) is taken, the sform first, as peers do.
pub(super) fn placed(header: &Header) -> (Affine, Vec<PlanWarning>) {
    let mut notes = Vec::new();
    let usable = |rows: &Rows| {
        let a = lps(*rows, 1.0);
        let d = a.determinant();
        d.is_finite() && d != 0.0 && a.origin.iter().all(|v| v.is_finite())
    };
    let s = Some(header.s_rows).filter(|r| header.sform > 0 && usable(r));
    let q = (header.qform > 0)
        .then(|| from_quaternion(header))
        .filter(usable);
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
            if by_q { q } else { s }
        }
        (Some(one), None) | (None, Some(one)) => one,
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
    let [_, x, y, z, ..] = header.pixdim;
    let sizes = [x, y, z].map(f64::abs);
    let known = |v: f64| v > 0.0 && v.is_finite();
    if !sizes.into_iter().all(known) {
        notes.push(PlanWarning::new(
            SPACING_ASSUMED,
            "the file does not say all of its voxel sizes: unknown, taken as 1 mm",
        ));
    }
    Affine::axis_aligned(sizes.map(|v| if known(v) { v * unit } else { 1.0 }))
}

/// Whether two forms place a voxel more than a thousandth of a voxel (and of 1 mm) apart.
fn differ(a: &Rows, b: &Rows) -> bool {
    let scale = 1.0 + a.iter().flatten().map(|v| v.abs()).fold(0.0, f64::max);
    a.iter()
        .flatten()
        .zip(b.iter().flatten())
        .any(|(a, b)| (a - b).abs() > 1e-3 * scale)
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

/// The standard's method 2: a rotation from three quaternion parts, voxel sizes, and a sign for the third axis.
fn from_quaternion(header: &Header) -> Rows {
    let [q, dx, dy, dz, ..] = header.pixdim;
    let size = |v: f64| {
        if v == 0.0 || !v.is_finite() {
            1.0
        } else {
            v.abs()
        }
    };
    let (dx, dy, dz) = (size(dx), size(dy), size(dz));
    let sum: f64 = header.quaternion.iter().map(|v| v * v).sum();
    // What rounding left of half a turn (1e-7, as in the standard's own library) is half a turn.
    let half_turn = 1.0 - sum < 1e-7;
    let [b, c, d] = if half_turn && sum > 0.0 {
        header.quaternion.map(|v| v / sum.sqrt())
    } else {
        header.quaternion
    };
    let a = if half_turn { 0.0 } else { (1.0 - sum).sqrt() };
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
