//! Findings that became several, that were several, that lie on another, that a seam cut in two.

use super::frame::{self, Common, Unit};
use super::parity::{Own, Row, RowKind, Shape, Side};
use crate::detect::Space;
use crate::detect::matching::{Placed, Sorted};
use crate::geometry::Affine;
use std::collections::BTreeSet;

/// Boxes that overlap at least so much are one finding twice.
const DUPLICATE_IOU: f64 = 0.5;
/// A box that holds at least so much of a smaller one is part of the same finding.
const PART: f64 = 0.5;
/// Fragments overlap, or face each other across a seam, at least so much.
const FRAGMENT: f64 = 0.3;
/// An edge touches a seam within so many voxels.
const TOUCH: f64 = 1.0;

/// Where boxes lie among the seams of either side.
pub(super) struct Placement<'a> {
    sides: [&'a Side; 2],
    common: &'a Common,
}

/// Counts of what happened to the shapes, and which rows are part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shapes {
    pub(super) split: usize,
    pub(super) merged: usize,
    pub(super) duplicate: usize,
    pub(super) fragment: usize,
    /// By place in the rows.
    pub(super) of_row: Vec<Option<Shape>>,
}

impl<'a> Placement<'a> {
    pub(super) const fn new(sides: [&'a Side; 2], common: &'a Common) -> Self {
        Self { sides, common }
    }

    /// The box in LPS mm: middle and edges along the patient's axes.
    fn in_patient(&self, b: &Placed) -> Option<([f64; 3], [f64; 3])> {
        match (self.common.unit, self.common.affine) {
            (Unit::Voxels, Some(affine)) => Some(frame::to_patient(&affine, b.corners)),
            (Unit::Mm, _) => {
                let size = std::array::from_fn(|a| b.corners[a + 3] - b.corners[a]);
                Some((b.center(), size))
            }
            _ => None,
        }
    }

    fn owns(&self) -> impl Iterator<Item = &'a Own> {
        self.sides.into_iter().filter_map(|s| s.own.as_ref())
    }

    /// Distance in mm of a finding (by its place in each side) to the nearest seam of either side, and whether one is near.
    pub(super) fn seam(&self, i: Option<usize>, j: Option<usize>) -> Option<(f64, bool)> {
        let mut out: Option<(f64, bool)> = None;
        let mut take = |found: (f64, bool)| {
            out = Some(out.map_or(found, |o| (o.0.min(found.0), o.1 || found.1)));
        };
        for (side, n) in [i, j].into_iter().enumerate() {
            let Some(b) = n.and_then(|n| self.common.boxes[side].get(n)) else {
                continue;
            };
            if let Some((center, size)) = self.in_patient(b) {
                let half = 0.5 * size.iter().copied().fold(0.0, f64::max);
                self.owns()
                    .filter_map(|o| o.seam(center, half))
                    .for_each(&mut take);
            }
            // A result of an older version knows its distances and not where its seams are in the patient.
            let own = self.sides[side].own.as_ref();
            if let Some(o) = own.filter(|o| o.prepared.is_none())
                && let Some(d) = n.and_then(|n| o.distances.get(n).copied().flatten())
            {
                let mm = self
                    .common
                    .mm
                    .map_or(1.0, |m| m.iter().copied().fold(0.0, f64::max));
                take((d, d <= (0.5 * b.longest() + 4.0) * mm));
            }
        }
        out
    }

    /// The box in voxels of the prepared volume of a side that has seams.
    fn prepared(&self, b: &Placed, prepared: &Affine) -> Option<[f64; 6]> {
        let (center, size) = self.in_patient(b)?;
        Some(frame::to_voxels(prepared, Space::Lps, center, size))
    }

    /// Whether both boxes touch one seam, and are parts of one finding by what they share or face.
    fn cut_by_a_seam(&self, a: &Placed, b: &Placed) -> bool {
        self.owns().any(|own| {
            let Some(affine) = own.prepared else {
                return false;
            };
            let (Some(x), Some(y)) = (self.prepared(a, &affine), self.prepared(b, &affine)) else {
                return false;
            };
            (0..3).any(|axis| {
                own.planes[axis].iter().any(|&p| {
                    let at = p as f64;
                    let touches = |c: &[f64; 6]| {
                        (c[axis] - at).abs() <= TOUCH || (c[axis + 3] - at).abs() <= TOUCH
                    };
                    touches(&x) && touches(&y) && face(&x, &y, axis) >= FRAGMENT
                })
            })
        })
    }
}

/// The share of the smaller cross-section that both have, seen along an axis.
fn face(a: &[f64; 6], b: &[f64; 6], axis: usize) -> f64 {
    let across =
        |f: &dyn Fn(usize) -> f64| -> f64 { (0..3).filter(|i| *i != axis).map(f).product() };
    let shared = across(&|i| (a[i + 3].min(b[i + 3]) - a[i].max(b[i])).max(0.0));
    let least = across(&|i| a[i + 3] - a[i]).min(across(&|i| b[i + 3] - b[i]));
    if least > 0.0 { shared / least } else { 0.0 }
}

/// What happened to the shapes, from A to B.
pub(super) fn of(rows: &[Row], common: &Common, placement: &Placement<'_>) -> Shapes {
    let [a, b] = &common.boxes;
    let list = |kind, side: fn(&Row) -> Option<usize>| -> Vec<usize> {
        let of = rows.iter().filter(|r| r.kind == kind);
        of.filter_map(side).collect()
    };
    let extra = list(RowKind::Extra, |r| r.b);
    let missing = list(RowKind::Missing, |r| r.a);
    if extra.is_empty() && missing.is_empty() {
        return Shapes::default();
    }
    let mut partner_a = vec![None; a.len()];
    let mut partner_b = vec![None; b.len()];
    for r in rows {
        if let (Some(i), Some(j)) = (r.a, r.b) {
            (partner_a[i], partner_b[j]) = (Some(j), Some(i));
        }
    }
    let sorted_b = Sorted::new(b);
    let others = |j: usize, margin: f64| {
        sorted_b
            .near(&b[j], margin)
            .filter(move |&k| k != j)
            .filter(move |&k| b[k].class == b[j].class)
    };
    let twice = |&j: &usize| {
        others(j, 0.0).any(|k| {
            let better = b[k].score > b[j].score || (b[k].score == b[j].score && k < j);
            b[j].iou(&b[k]) >= DUPLICATE_IOU && (better || partner_b[k].is_some())
        })
    };
    let (doubles, single): (Vec<usize>, Vec<usize>) = extra.iter().copied().partition(twice);
    let cut = |&&j: &&usize| others(j, 2.0 * TOUCH).any(|k| placement.cut_by_a_seam(&b[j], &b[k]));
    let cuts: Vec<usize> = single.iter().filter(cut).copied().collect();
    let split = torn(&single, b, a, &partner_a);
    let merged = torn(&missing, a, b, &partner_b);
    // The word that says most comes last.
    let mut of_row = vec![None; rows.len()];
    let mut mark = |places: &[usize], side: fn(&Row) -> Option<usize>, shape: Shape| {
        let places: BTreeSet<usize> = places.iter().copied().collect();
        for (r, row) in rows.iter().enumerate() {
            if side(row).is_some_and(|p| places.contains(&p)) {
                of_row[r] = Some(shape);
            }
        }
    };
    mark(&cuts, |r| r.b, Shape::Fragment);
    mark(&doubles, |r| r.b, Shape::Duplicate);
    mark(&merged.whole, |r| r.b, Shape::Merged);
    mark(&merged.parts, |r| r.a, Shape::Merged);
    mark(&split.whole, |r| r.a, Shape::Split);
    mark(&split.parts, |r| r.b, Shape::Split);
    Shapes {
        split: split.whole.len(),
        merged: merged.whole.len(),
        duplicate: doubles.len(),
        fragment: cuts.len(),
        of_row,
    }
}

/// Boxes that became several, and those that they became.
struct Torn {
    whole: Vec<usize>,
    parts: Vec<usize>,
}

/// Boxes of `whole` of which one of the `alone` parts is a part, and another part is there: its partner or a second one alone.
fn torn(alone: &[usize], parts: &[Placed], whole: &[Placed], partner: &[Option<usize>]) -> Torn {
    let sorted = Sorted::new(whole);
    let mut pieces: Vec<Vec<usize>> = vec![Vec::new(); whole.len()];
    for &p in alone {
        for w in sorted.near(&parts[p], 0.0) {
            if whole[w].class == parts[p].class && parts[p].over_smaller(&whole[w]) >= PART {
                pieces[w].push(p);
            }
        }
    }
    let mut out = Torn {
        whole: Vec::new(),
        parts: Vec::new(),
    };
    for (w, (pieces, partner)) in pieces.iter().zip(partner).enumerate() {
        if !pieces.is_empty() && pieces.len() + usize::from(partner.is_some()) >= 2 {
            out.whole.push(w);
            out.parts.extend(pieces);
        }
    }
    out.parts.sort_unstable();
    out.parts.dedup();
    out
}
