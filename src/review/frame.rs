//! One frame for both sides: voxels of the loaded volume where a result knows its affine, else mm. Nothing is guessed.

use super::parity::Side;
use crate::detect::matching::Placed;
use crate::detect::{Finding, Space};
use crate::geometry::Affine;
use serde::Serialize;
use std::collections::BTreeSet;

/// What box edges are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Voxels of the loaded volume.
    Voxels,
    /// mm.
    Mm,
    /// Whatever both files count in; neither says.
    AsWritten,
}

/// Both sides in one frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Common {
    /// The frame's unit.
    pub unit: Unit,
    /// mm per unit along each axis, where that is known.
    pub mm: Option<[f64; 3]>,
    /// The affine of the voxels, for `Unit::Voxels`.
    pub affine: Option<Affine>,
    /// Boxes of each side, in the order of its findings.
    pub boxes: [Vec<Placed>; 2],
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// How one side's numbers get into the frame.
#[derive(Clone, Copy)]
enum Way {
    /// The result's own boxes in voxels.
    OwnVoxels,
    /// As written.
    Same,
    /// From patient space into voxels.
    ToVoxels(Affine),
    /// Into LPS mm.
    ToLps,
}

/// Puts both sides into one frame, or says in one sentence what is missing for it.
pub fn common(sides: [&Side; 2]) -> Result<Common, String> {
    let mut notes = Vec::new();
    let (unit, ways, affine) = ways(sides, &mut notes)?;
    let classes = classes(sides, &mut notes);
    let place = |i: usize| -> Vec<Placed> {
        let side = sides[i];
        let list = side.found.list.iter().enumerate();
        list.map(|(n, f)| Placed {
            class: classes
                .as_ref()
                .and_then(|c| c.iter().position(|l| *l == f.label))
                .unwrap_or(0),
            score: f.score.unwrap_or(1.0),
            corners: corners(side, n, f, ways[i]),
        })
        .collect()
    };
    let boxes = [place(0), place(1)];
    let mm = match unit {
        Unit::Voxels => affine.map(|a| a.spacing_mm()),
        Unit::Mm => Some([1.0; 3]),
        Unit::AsWritten => None,
    };
    let common = Common {
        unit,
        mm,
        affine,
        boxes,
        notes,
    };
    Ok(common)
}

fn ways(
    [a, b]: [&Side; 2],
    notes: &mut Vec<String>,
) -> Result<(Unit, [Way; 2], Option<Affine>), String> {
    let affine = [a, b]
        .iter()
        .find_map(|s| s.own.as_ref().and_then(|o| o.loaded));
    let voxels = |s: &Side| s.own.is_some() || s.found.space == Space::Voxels;
    let way_to_voxels = |s: &Side| {
        if s.own.is_some() {
            Way::OwnVoxels
        } else {
            Way::Same
        }
    };
    if voxels(a) && voxels(b) {
        return Ok((Unit::Voxels, [way_to_voxels(a), way_to_voxels(b)], affine));
    }
    match (a.found.space, b.found.space) {
        (Space::Unsaid, Space::Unsaid) if a.own.is_none() && b.own.is_none() => {
            notes.push(
                "neither side says in which space its numbers are (LPS, RAS or voxels); they are compared as they stand, which holds if both came from one program".to_owned(),
            );
            return Ok((Unit::AsWritten, [Way::Same; 2], None));
        }
        (Space::Unsaid, _) if a.own.is_none() => return Err(unsaid(a, "--a-space")),
        (_, Space::Unsaid) if b.own.is_none() => return Err(unsaid(b, "--b-space")),
        _ => {}
    }
    if let Some(affine) = affine {
        let way = |s: &Side| {
            if voxels(s) {
                way_to_voxels(s)
            } else {
                Way::ToVoxels(affine)
            }
        };
        return Ok((Unit::Voxels, [way(a), way(b)], Some(affine)));
    }
    if [a, b].iter().any(|s| s.found.space == Space::Voxels) {
        return Err(format!(
            "{} counts in voxels and {} in mm, and neither knows the volume's affine; compare with a result of voxfit run, or write both in mm",
            a.name, b.name
        ));
    }
    if [a, b].iter().any(|s| s.own.is_some()) {
        notes.push(
            "the result is of an older Voxfit that kept no affine: its boxes are taken to lie along the patient's axes; run it again for voxels".to_owned(),
        );
    }
    Ok((Unit::Mm, [Way::ToLps; 2], None))
}

fn unsaid(side: &Side, option: &str) -> String {
    format!(
        "the file does not say whether its numbers are LPS, RAS or voxels; say it with {option} LPS, RAS, voxels, monai-LPS or monai-RAS: {}",
        side.name
    )
}

/// Classes by name where both sides use the same names, else none: every box may meet every other.
fn classes(sides: [&Side; 2], notes: &mut Vec<String>) -> Option<Vec<String>> {
    let of =
        |s: &Side| -> BTreeSet<String> { s.found.list.iter().map(|f| f.label.clone()).collect() };
    let (a, b) = (of(sides[0]), of(sides[1]));
    let both_own = sides.iter().all(|s| s.own.is_some());
    if both_own || a.is_subset(&b) || b.is_subset(&a) {
        return Some(a.union(&b).cloned().collect());
    }
    let list = |set: &BTreeSet<String>| {
        let few: Vec<&str> = set.iter().take(5).map(String::as_str).collect();
        few.join(", ")
    };
    if a.len() > 1 || b.len() > 1 {
        notes.push(format!(
            "the sides name their classes differently ({}; {}), so boxes are matched without regard to class",
            list(&a),
            list(&b)
        ));
    }
    None
}

fn around(center: [f64; 3], size: [f64; 3]) -> [f64; 6] {
    std::array::from_fn(|i| {
        let a = i % 3;
        let half = 0.5 * size[a];
        if i < 3 {
            center[a] - half
        } else {
            center[a] + half
        }
    })
}

fn corners(side: &Side, n: usize, f: &Finding, way: Way) -> [f64; 6] {
    let size = f.size.unwrap_or([0.0; 3]);
    match way {
        Way::OwnVoxels => match side.own.as_ref().and_then(|o| o.boxes.get(n)) {
            Some(b) => b.map(f64::from),
            None => around(f.center, size),
        },
        Way::Same => around(f.center, size),
        Way::ToLps => {
            let center = f_lps(side.found.space, f.center);
            around(center, size)
        }
        Way::ToVoxels(affine) => to_voxels(&affine, side.found.space, f.center, size),
    }
}

fn f_lps(space: Space, p: [f64; 3]) -> [f64; 3] {
    space.to_lps(p).unwrap_or(p)
}

/// The box of voxels around a box along the patient's axes; a voxel's centre is half a voxel from its edges.
pub fn to_voxels(affine: &Affine, space: Space, center: [f64; 3], size: [f64; 3]) -> [f64; 6] {
    let shift = if space.of_corners() { 0.0 } else { 0.5 };
    let Ok(middle) = affine.to_index(f_lps(space, center)) else {
        return around(center, size);
    };
    let Ok(origin) = affine.to_index([0.0; 3]) else {
        return around(center, size);
    };
    let mut edges = [0.0; 3];
    for (a, edge) in size.iter().enumerate() {
        let mut one = [0.0; 3];
        one[a] = *edge;
        if let Ok(there) = affine.to_index(one) {
            for r in 0..3 {
                edges[r] += (there[r] - origin[r]).abs();
            }
        }
    }
    around(middle.map(|m| m + shift), edges)
}

/// The box in LPS mm, along the patient's axes, around a box of voxels.
pub fn to_patient(affine: &Affine, corners: [f64; 6]) -> ([f64; 3], [f64; 3]) {
    let center = std::array::from_fn(|a| 0.5 * (corners[a] + corners[a + 3]) - 0.5);
    let size = std::array::from_fn(|r| {
        (0..3)
            .map(|a| (affine.step[a][r] * (corners[a + 3] - corners[a])).abs())
            .sum()
    });
    (affine.to_patient(center), size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_goes_to_the_patient_and_back_through_turned_axes() {
        // Rows run along z, columns along x to the right, slices along y.
        let affine = Affine {
            step: [[0.0, 0.0, 0.5], [-0.5, 0.0, 0.0], [0.0, 2.0, 0.0]],
            origin: [10.0, -20.0, 5.0],
        };
        let corners = [4.0, 6.0, 1.0, 8.0, 9.0, 3.0];
        let (center, size) = to_patient(&affine, corners);
        assert_eq!(size, [1.5, 4.0, 2.0]);
        let back = to_voxels(&affine, Space::Lps, center, size);
        for (b, c) in back.iter().zip(corners) {
            assert!((b - c).abs() < 1e-9, "{back:?}");
        }
        let ras = to_voxels(
            &affine,
            Space::Ras,
            [-center[0], -center[1], center[2]],
            size,
        );
        assert_eq!(ras, back);
        let monai = to_voxels(&affine, Space::MonaiLps, center, size);
        assert!((monai[0] - (corners[0] - 0.5)).abs() < 1e-9);
    }
}
