use super::*;
use proptest::prelude::*;

/// A field that grows evenly along each patient axis.
fn field(p: [f64; 3]) -> f64 {
    20.0 + 1.5 * p[0] - 0.75 * p[1] + 2.25 * p[2]
}

fn filled(extent: Extent, affine: Affine, place: impl Fn(usize) -> [f64; 3]) -> Volume {
    let mut values = Vec::new();
    for k in 0..extent.z {
        for j in 0..extent.y {
            for i in 0..extent.x {
                let origin = place(k);
                let [x, y, _] = affine.step;
                let p = std::array::from_fn(|r| origin[r] + i as f64 * x[r] + j as f64 * y[r]);
                values.push(narrow(field(p)));
            }
        }
    }
    Volume {
        extent,
        affine,
        voxels: Voxels::F32(values),
        padding: None,
        is_hu: true,
        z_spacing_known: true,
    }
}

/// Every voxel that is not padding holds the field, and how many are not.
fn holds_the_field(done: &Straightened) -> usize {
    let v = &done.volume;
    let mut kept = 0;
    for k in 0..v.extent.z {
        for j in 0..v.extent.y {
            for i in 0..v.extent.x {
                let got = v.at([i, j, k]).unwrap();
                if got == done.padding {
                    continue;
                }
                let want = field(v.affine.to_patient([i as f64, j as f64, k as f64]));
                assert!(
                    (f64::from(got) - want).abs() < 1e-3,
                    "[{i}, {j}, {k}] holds {got}, expected {want}"
                );
                kept += 1;
            }
        }
    }
    assert_eq!(kept as u64 + done.n_padding, v.extent.voxels() as u64);
    kept
}

fn straighten(volume: &Volume, positions: Option<&[[f64; 3]]>) -> (StraightGrid, Straightened) {
    let grid = StraightGrid::of(volume.extent, &volume.affine, positions).unwrap();
    assert!(is_straight(&grid.affine), "{:?}", grid.affine);
    let done = grid.resample(volume, &Control::new()).unwrap();
    (grid, done)
}

/// A tilt by this much per slice down the columns, feet first where the rows are turned round.
fn leaning(down_mm: f64, feet_first: bool) -> Affine {
    let s = if feet_first { -1.0 } else { 1.0 };
    Affine {
        step: [
            [0.5 * s, 0.0, 0.0],
            [0.0, 0.75, 0.0],
            [0.0, down_mm, 4.0 * s],
        ],
        origin: [-12.0, 7.0, 300.0],
    }
}

#[test]
fn a_tilted_ramp_stays_a_ramp_for_both_signs_and_feet_first() {
    for (down, feet_first) in [(1.0, false), (-1.0, false), (1.1, true), (-2.3, true)] {
        let affine = leaning(down, feet_first);
        let extent = Extent::new(9, 12, 6);
        let v = filled(extent, affine, |k| affine.to_patient([0.0, 0.0, k as f64]));
        let (grid, done) = straighten(&v, None);
        assert_eq!((grid.extent.x, grid.extent.z), (9, 6));
        let reach = (5.0 * f64::abs(down) / 0.75).ceil();
        assert_eq!(grid.extent.y as f64, 12.0 + reach, "lean {down}");
        let kept = holds_the_field(&done);
        // Each slice loses at most the row that lies half outside.
        assert!(kept >= 9 * 11 * 6, "{kept} voxels kept, lean {down}");
        // The first slice lies on the grid: it is there whole.
        let row = if down < 0.0 { grid.extent.y - 12 } else { 0 };
        assert_eq!(done.volume.at([3, row + 4, 0]), v.at([3, 4, 0]));
    }
}

#[test]
fn a_gap_is_filled_with_what_lies_between_and_says_where() {
    let affine = leaning(0.5, false);
    let heights = [0.0, 1.0, 2.0, 5.0, 6.0];
    let positions: Vec<[f64; 3]> = heights
        .iter()
        .map(|&h| affine.to_patient([0.0, 0.0, h]))
        .collect();
    let v = filled(Extent::new(6, 8, 5), affine, |k| positions[k]);
    let (grid, done) = straighten(&v, Some(&positions));
    assert_eq!(grid.extent.z, 7);
    let between: Vec<usize> = (0..7).filter(|&k| grid.slices[k].share > 0.0).collect();
    assert_eq!(between, [3, 4]);
    assert_eq!((grid.slices[3].low, grid.slices[3].high), (2, 3));
    holds_the_field(&done);
}

#[test]
fn uneven_steps_that_no_step_divides_end_at_the_nearest_slice() {
    let affine = Affine::axis_aligned([1.0, 1.0, 2.0]);
    let positions = [0.0, 2.0, 4.0, 6.0, 9.5].map(|z| [0.0, 0.0, z]);
    let v = filled(Extent::new(3, 3, 5), affine, |k| positions[k]);
    let (grid, done) = straighten(&v, Some(&positions));
    // 9.5 mm are nearest to five steps of 2 mm; the last is the last slice's own.
    assert_eq!(grid.extent.z, 6);
    assert_eq!((grid.slices[5].low, grid.slices[5].share), (4, 0.0));
    assert_eq!(done.volume.at([0, 0, 5]), v.at([0, 0, 4]));
    assert_eq!(
        done.volume.at([0, 0, 4]),
        Some(narrow(field([0.0, 0.0, 8.0])))
    );
    assert_eq!(done.n_padding, 0);
}

#[test]
fn a_straight_volume_is_copied_bit_for_bit() {
    let affine = Affine {
        step: [[0.0, 0.4882, 0.0], [0.0, 0.0, -0.4882], [1.25, 0.0, 0.0]],
        origin: [3.0, -7.0, 20.0],
    };
    let v = Volume {
        extent: Extent::new(4, 3, 5),
        affine,
        voxels: Voxels::I16((0..60).collect()),
        padding: None,
        is_hu: true,
        z_spacing_known: true,
    };
    let grid = StraightGrid::of(v.extent, &affine, None).unwrap();
    assert!(grid.is_copy());
    let done = grid.resample(&v, &Control::new()).unwrap();
    assert_eq!(done.volume.voxels, v.voxels);
    assert_eq!(done.volume.padding, None);
}

#[test]
fn what_lies_outside_is_padding_and_no_statistics() {
    let affine = leaning(1.0, false);
    let v = Volume {
        extent: Extent::new(4, 6, 5),
        affine,
        voxels: Voxels::I16(vec![-1024; 120]),
        padding: None,
        is_hu: true,
        z_spacing_known: true,
    };
    let (_, done) = straighten(&v, None);
    assert_eq!(
        (done.padding, done.volume.padding),
        (-1025.0, Some((-1025.0, -1025.0)))
    );
    assert!(done.n_padding > 0);
    let s = Statistics::of(&done.volume).unwrap();
    assert_eq!((s.min, s.max), (-1024.0, -1024.0));
}

#[test]
fn padding_of_the_files_is_not_blended_into_tissue() {
    let affine = leaning(0.3, false);
    let mut values = vec![100i16; 4 * 6 * 3];
    values[4 * 6 + 9] = -2000;
    let v = Volume {
        extent: Extent::new(4, 6, 3),
        affine,
        voxels: Voxels::I16(values),
        padding: Some((-2000.0, -2000.0)),
        is_hu: true,
        z_spacing_known: true,
    };
    let (_, done) = straighten(&v, None);
    let s = Statistics::of(&done.volume).unwrap();
    assert_eq!((s.min, s.max, done.padding), (100.0, 100.0, -1024.0));
}

#[test]
fn slices_at_one_height_are_refused_by_number() {
    let affine = Affine::axis_aligned([1.0; 3]);
    let positions = [0.0, 1.0, 1.0].map(|z| [0.0, 0.0, z]);
    let e = StraightGrid::of(Extent::new(2, 2, 3), &affine, Some(&positions)).unwrap_err();
    assert!(e.to_string().contains("slice 2 lies 0 mm above"), "{e}");
}

#[test]
fn a_cancelled_resampling_stops() {
    let v = filled(Extent::new(3, 3, 3), leaning(1.0, false), |_| [0.0; 3]);
    let grid = StraightGrid::of(v.extent, &v.affine, None).unwrap();
    let control = Control::new();
    control.cancel();
    assert!(matches!(
        grid.resample(&v, &control),
        Err(StraightError::Cancelled(_))
    ));
}

#[test]
fn a_step_that_is_no_distance_between_slices_is_refused_before_memory_is_taken() {
    let affine = Affine {
        step: [[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 1e-9]],
        origin: [0.0; 3],
    };
    let positions = [[0.0; 3], [0.0, 0.0, 1e-9], [0.0, 0.0, 500.0]];
    let found = StraightGrid::of(Extent::new(2, 2, 3), &affine, Some(&positions));
    let e = found.err().unwrap();
    assert!(matches!(e, StraightError::TooLarge { .. }), "{e}");
}

proptest! {
    #![proptest_config(crate::random_cases::random_cases(64))]
    /// Any shear in any orientation, any steps: an even field stays itself, and every voxel centre is covered.
    #[test]
    fn an_even_field_is_kept_and_every_voxel_covered(
        a in -3.1f64..3.1, b in -1.5f64..1.5, c in -3.1f64..3.1,
        lean in prop::array::uniform3(-1.5f64..1.5),
        gaps in prop::collection::vec((6u32..120).prop_map(|n| 0.05 * f64::from(n)), 0..6), mirror in any::<bool>(),
    ) {
        let ((sa, ca), (sb, cb), (sc, cc)) = (a.sin_cos(), b.sin_cos(), c.sin_cos());
        let x = [ca * cb, sa * cb, -sb];
        let y = [ca * sb * sc - sa * cc, sa * sb * sc + ca * cc, cb * sc];
        let z = scaled(cross(x, y), if mirror { -1.0 } else { 1.0 });
        let up = plus(plus(scaled(x, lean[0]), scaled(y, lean[1])), scaled(z, 2.0));
        let affine = Affine {
            step: [scaled(x, 0.7), plus(scaled(y, 0.9), scaled(x, 0.3 * lean[2])), up],
            origin: [10.0, -20.0, 30.0],
        };
        let mut heights = vec![0.0];
        for g in &gaps {
            heights.push(heights[heights.len() - 1] + g / 2.0);
        }
        let positions: Vec<[f64; 3]> =
            heights.iter().map(|&h| affine.to_patient([0.0, 0.0, h])).collect();
        let extent = Extent::new(5, 6, positions.len());
        let v = filled(extent, affine, |k| positions[k]);
        let (grid, mut done) = straighten(&v, Some(&positions));
        // Beyond the last slice the last one is repeated, which no even field does.
        let last = grid.slices.len() - 1;
        if last as f64 * 2.0 > heights[heights.len() - 1] * 2.0 + 1e-9 {
            done.volume.extent.z -= 1;
            let n = done.volume.extent.voxels();
            if let Voxels::F32(values) = &mut done.volume.voxels {
                let cut: Vec<f32> = values.drain(n..).collect();
                done.n_padding -= cut.iter().filter(|&&v| v == done.padding).count() as u64;
            }
        }
        holds_the_field(&done);
        for p in &positions {
            for (i, j) in [(0.0, 0.0), (4.0, 0.0), (0.0, 5.0), (4.0, 5.0)] {
                let at = plus(*p, plus(scaled(affine.step[0], i), scaled(affine.step[1], j)));
                let index = grid.affine.to_index(at).unwrap();
                for (r, n) in grid.extent.to_array().into_iter().enumerate() {
                    prop_assert!(index[r] > -0.51 && index[r] < n as f64 - 0.49, "{index:?} {:?}", grid.extent);
                }
            }
        }
    }
}
