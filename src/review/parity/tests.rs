//! Parity: each kind of difference made by hand, and what is said of it.

use super::*;
use crate::detect::Finding;
use crate::detect::Space;
use crate::geometry::Affine;

fn affine() -> Affine {
    let mut a = Affine::axis_aligned([0.5, 0.5, 2.0]);
    a.origin = [-40.0, 20.0, 7.0];
    a
}

/// A result with cubes of 8 voxels at these places along x, and seams at x = 32 and 96.
pub(super) fn own(places: &[f32]) -> Side {
    let affine = affine();
    let boxes: Vec<[f32; 6]> = places
        .iter()
        .map(|&x| [x, 10.0, 4.0, x + 8.0, 18.0, 8.0])
        .collect();
    let list = boxes
        .iter()
        .zip((0..9_u32).cycle())
        .map(|(b, i)| {
            let (center, size) = frame::to_patient(&affine, b.map(f64::from));
            Finding {
                label: "nodule".to_owned(),
                score: Some(0.9 - f64::from(i) * 0.1),
                center,
                size: Some(size),
            }
        })
        .collect();
    Side {
        name: "r.json".to_owned(),
        found: Findings {
            names: vec!["study".to_owned()],
            space: Space::Lps,
            list,
            notes: Vec::new(),
        },
        own: Some(Own {
            volume_sha256: Some("v".to_owned()),
            network_sha256: "n".to_owned(),
            outputs_sha256: Some("o".to_owned()),
            loaded: Some(affine),
            prepared: Some(affine),
            planes: [vec![32, 96], Vec::new(), Vec::new()],
            roi: [64, 64, 32],
            boxes,
            score_thresh: Some(0.02),
            ..Own::default()
        }),
        mask: None,
    }
}

fn other_bits(mut side: Side) -> Side {
    if let Some(o) = &mut side.own {
        o.outputs_sha256 = Some("p".to_owned());
    }
    side
}

fn say(a: &Side, b: &Side) -> StudyParity {
    compare([a, b], &MatchRule::default(), &Limits::DEFAULT).unwrap()
}

#[test]
fn the_same_result_is_bitwise_and_the_same_findings_of_other_bits_are_float() {
    let a = own(&[0.0, 50.0, 80.0]);
    let same = say(&a, &a.clone());
    assert_eq!(same.verdict, Verdict::Bitwise);
    assert_eq!((same.matched, same.missing, same.extra), (3, 0, 0));
    assert_eq!(same.min_iou, Some(1.0));
    assert_eq!(say(&a, &other_bits(a.clone())).verdict, Verdict::Float);
    let none = own(&[]);
    assert_eq!(say(&none, &none.clone()).verdict, Verdict::Bitwise);
    let gone = say(&a, &other_bits(none));
    assert_eq!((gone.verdict, gone.missing), (Verdict::Other, 3));
}

#[test]
fn drift_within_the_tolerance_far_from_a_seam_and_at_one_are_three_verdicts() {
    let a = own(&[0.0, 28.0, 60.0]);
    let moved = |which: usize, by: f32| {
        let mut b = other_bits(a.clone());
        if let Some(o) = &mut b.own {
            o.boxes[which][0] += by;
        }
        b
    };
    let close = say(&a, &moved(2, 0.25));
    assert_eq!(
        (close.verdict, close.max_box_drift),
        (Verdict::Tolerance, Some(0.25))
    );
    // The second box crosses the seam at 32; the third is 32 voxels from any.
    assert_eq!(say(&a, &moved(1, 2.0)).verdict, Verdict::Seam);
    assert_eq!(say(&a, &moved(2, 2.0)).verdict, Verdict::Other);
    let row = &say(&a, &moved(1, 2.0)).rows[1];
    // The middle is at 32 before it moves: 0 mm from the seam.
    assert!(row.seam_distance.unwrap() < 1e-9 && row.near_seam);
    let mut scored = other_bits(a.clone());
    scored.found.list[0].score = Some(0.7);
    let drift = say(&a, &scored);
    assert!((drift.max_score_drift.unwrap() - 0.2).abs() < 1e-12);
    assert_eq!(drift.verdict, Verdict::Other);
}

#[test]
fn what_was_added_is_a_duplicate_a_fragment_or_a_part_of_a_split() {
    let a = own(&[0.0, 28.0]);
    let with = |b: [f32; 6]| {
        let mut side = other_bits(a.clone());
        let mut f = side.found.list[0].clone();
        f.score = Some(0.1);
        side.found.list.push(f);
        if let Some(o) = &mut side.own {
            o.boxes.push(b);
        }
        say(&a, &side)
    };
    let double = with([1.0, 10.0, 4.0, 9.0, 18.0, 8.0]);
    assert_eq!((double.extra, double.duplicate, double.split), (1, 1, 0));
    let part = with([1.0, 11.0, 5.0, 4.0, 14.0, 7.0]);
    assert_eq!((part.duplicate, part.split, part.fragment), (0, 1, 0));
    let elsewhere = with([80.0, 40.0, 4.0, 88.0, 48.0, 8.0]);
    assert_eq!(
        (elsewhere.extra, elsewhere.split, elsewhere.fragment),
        (1, 0, 0)
    );

    // One box over the seam at 32 becomes two that end at it.
    let whole = own(&[28.0]);
    let mut cut = other_bits(own(&[28.0, 28.0]));
    if let Some(o) = &mut cut.own {
        (o.boxes[0][3], o.boxes[1][0]) = (32.0, 32.0);
    }
    let found = say(&whole, &cut);
    assert_eq!((found.matched, found.extra), (1, 1));
    assert_eq!((found.split, found.fragment, found.merged), (1, 1, 0));
    let back = say(&cut, &whole);
    assert_eq!((back.missing, back.merged, back.split), (1, 1, 0));
}

#[test]
fn a_result_from_elsewhere_meets_ours_in_the_patient_whatever_its_axes() {
    let a = own(&[0.0, 50.0]);
    let foreign = |space: Space, sign: f64| {
        let mut found = a.found.clone();
        for f in &mut found.list {
            f.center = [sign * f.center[0], sign * f.center[1], f.center[2]];
        }
        found.space = space;
        Side::of("monai.json", found)
    };
    for side in [foreign(Space::Lps, 1.0), foreign(Space::Ras, -1.0)] {
        let said = say(&a, &side);
        assert_eq!(said.verdict, Verdict::Float, "{said:?}");
        assert_eq!((said.matched, said.unit), (2, Unit::Voxels));
    }
    let unsaid = foreign(Space::Unsaid, 1.0);
    let why = compare([&a, &unsaid], &MatchRule::default(), &Limits::DEFAULT).unwrap_err();
    assert!(
        why.contains("--b-space") && why.ends_with("monai.json"),
        "{why}"
    );
    let both = say(&unsaid, &unsaid.clone());
    assert_eq!((both.verdict, both.unit), (Verdict::Float, Unit::AsWritten));
    assert!(
        both.notes[0].contains("neither side says"),
        "{:?}",
        both.notes
    );
    let half = say(&a, &foreign(Space::MonaiLps, 1.0));
    assert!(
        half.notes.iter().any(|n| n.contains("half a voxel")),
        "{half:?}"
    );
}

#[test]
fn points_without_a_size_are_matched_by_distance_and_no_overlap_is_claimed() {
    let a = own(&[0.0, 50.0]);
    let mut found = a.found.clone();
    for f in &mut found.list {
        f.size = None;
    }
    let said = say(&a, &Side::of("luna.csv", found));
    assert_eq!((said.matched, said.min_iou), (2, None));
    assert!(said.max_box_drift.unwrap() < 1e-9);
}

#[test]
fn rho_is_minus_one_where_drift_falls_with_distance_to_the_seam() {
    let falls: Vec<(f64, f64)> = (0..6_u32)
        .map(|i| (1.0 / f64::from(i + 1), f64::from(i)))
        .collect();
    assert!((spearman(&falls).unwrap() + 1.0).abs() < 1e-12);
    assert_eq!(spearman(&falls[..4]), None);
    let flat: Vec<(f64, f64)> = (0..6_u32).map(|i| (0.1, f64::from(i))).collect();
    assert_eq!(spearman(&flat), None);
}

#[test]
fn ten_thousand_findings_on_each_side_are_compared_at_once() {
    let places: Vec<f32> = (0..10_000_u16).map(|i| f32::from(i % 500)).collect();
    let mut a = own(&places);
    for side in [&mut a] {
        if let Some(o) = &mut side.own {
            for (b, i) in o.boxes.iter_mut().zip(0_u16..) {
                let (y, z) = (f32::from(i / 500 * 20), f32::from(i % 7 * 30));
                *b = [b[0], y, z, b[0] + 8.0, y + 8.0, z + 4.0];
            }
        }
    }
    let start = std::time::Instant::now();
    let said = say(&a, &other_bits(a.clone()));
    assert_eq!(said.matched, 10_000);
    println!("10,000 findings on each side: {:?}", start.elapsed());
    assert!(
        start.elapsed().as_secs_f64() < 10.0,
        "{:?}",
        start.elapsed()
    );
}
