//! Order, steps and splits.

use super::*;

fn turned(s: Made, orientation: &str) -> Made {
    s.text(0x0020_0037, *b"DS", orientation)
}

#[test]
fn slices_are_sorted_by_position_not_by_name_number_slice_location_or_z() {
    // Coronal slices, all at one z, in files and with numbers and locations that say other orders.
    let order = [2u16, 0, 3, 1];
    let s: Vec<Made> = order
        .iter()
        .zip(1..)
        .map(|(&n, file)| {
            turned(Made::slice(n), "1\\0\\0\\0\\0\\-1")
                .position([0.0, 3.0 * f64::from(n), 50.0])
                .text(0x0020_0013, *b"IS", &(9 - n).to_string())
                .text(0x0020_1041, *b"DS", &f64::from(file).to_string())
        })
        .collect();
    let info = only(folder(&s).path());
    assert_eq!((info.usable, info.spacing_mm[2]), (true, Some(3.0)));
    let infos = info.slice_infos();
    let files: Vec<&str> = infos.iter().map(|s| s.file.as_str()).collect();
    assert_eq!(files, ["s1", "s3", "s0", "s2"]);
    let numbers: Vec<_> = infos.iter().map(|s| s.instance_number.unwrap()).collect();
    assert_eq!(numbers, [9, 8, 7, 6]);
    let uids: Vec<&str> = infos.iter().map(|s| s.sop_instance_uid.as_str()).collect();
    assert_eq!(uids, ["1.2.3.1", "1.2.3.2", "1.2.3.3", "1.2.3.4"]);
}

#[test]
fn the_step_is_the_length_of_a_vector_and_not_its_z_part() {
    // Rows along x, columns leaning by 3-4-5: the normal is (0, -0.6, 0.8).
    let s: Vec<Made> = (0..3)
        .map(|n| {
            let h = 5.0 * f64::from(n);
            turned(Made::slice(n), "1\\0\\0\\0\\0.8\\0.6").position([0.0, -0.6 * h, 0.8 * h])
        })
        .collect();
    let info = only(folder(&s).path());
    assert!((info.spacing_mm[2].unwrap() - 5.0).abs() < 1e-9);
    assert!(info.warnings.is_empty(), "{:?}", info.warnings);
}

#[test]
fn gantry_tilt_stays_in_the_affine_with_its_sign() {
    for down in [0.5, -0.5] {
        let s: Vec<Made> = (0..4)
            .map(|n| Made::slice(n).position([0.0, down * f64::from(n), 2.0 * f64::from(n)]))
            .collect();
        let info = only(folder(&s).path());
        assert_eq!(info.affine().step[2], [0.0, down, 2.0]);
        let text = told(&info, WarningCode::GantryTilt);
        let angle = if down > 0.0 {
            "by 14.04 degrees"
        } else {
            "by -14.04 degrees"
        };
        assert!(text.contains(angle), "{text}");
        assert_eq!((info.usable, info.spacing_mm[2]), (true, Some(2.0)));
        assert!(info.straightens() && info.refusal_on_straight_grid().is_none());
    }
}

#[test]
fn a_gap_and_a_lost_slice_can_be_straightened_but_a_damaged_file_cannot() {
    let mut some = slices(6);
    some.remove(3);
    let f = folder(&some);
    let info = only(f.path());
    assert!(info.straightens() && info.refusal_on_straight_grid().is_none());
    assert_eq!(info.uneven_positions().unwrap()[3], [-10.0, 5.0, 8.0]);
    let whole = Made::slice(3).file();
    write(f.path(), "cut", &whole[..whole.len() - 6]);
    let info = scanned(f.path()).series[0].clone();
    let why = info.refusal_on_straight_grid().unwrap();
    assert!(why.contains("cut"), "{why}");
    assert!(!only(folder(&slices(3)).path()).straightens());
}

#[test]
fn the_same_instance_twice_is_used_once() {
    let f = folder(&slices(3));
    write(f.path(), "copy", &Made::slice(1).file());
    let info = only(f.path());
    assert_eq!((info.size.z, info.usable), (3, true));
    let text = told(&info, WarningCode::DuplicateFile);
    assert!(text.contains("s1") || text.contains("copy"), "{text}");
}

#[test]
fn two_images_at_one_position_are_split_by_acquisition_or_echo_else_refused_by_name() {
    let pairs = |tag: Option<u32>| {
        let s: Vec<Made> = (0..6)
            .map(|n| {
                let s = Made::slice(n).position([0.0, 0.0, f64::from(n % 3)]);
                match tag {
                    Some(tag) => s.text(tag, *b"IS", &(1 + n / 3).to_string()),
                    None => s,
                }
            })
            .collect();
        let f = folder(&s);
        (scanned(f.path()), f)
    };
    for tag in [0x0020_0012, 0x0018_0086] {
        let (scan, _f) = pairs(Some(tag));
        let sizes: Vec<_> = scan
            .series
            .iter()
            .map(|s| (s.part, s.size.z, s.usable))
            .collect();
        assert_eq!(sizes, [(1, 3, true), (2, 3, true)], "{tag:08X}");
    }
    let (scan, _f) = pairs(None);
    let info = &scan.series[0];
    assert!(!info.usable && scan.series.len() == 1);
    let text = told(info, WarningCode::SamePosition);
    assert!(text.contains("s0") && text.contains("s3"), "{text}");
    assert!(load(info, &Control::new(), &|_| {}).is_err());
    assert!(!info.straightens());
}

#[test]
fn an_image_of_another_size_is_a_part_of_its_own() {
    let mut s = slices(4);
    s[3] = s[3].clone().number(0x0028_0010, 4).number(0x0028_0011, 2);
    let f = folder(&s);
    let scan = scanned(f.path());
    assert_eq!(scan.series.len(), 2);
    assert_eq!(scan.series[0].size.z, 3);
    assert!(told(&scan.series[0], WarningCode::LeftOut).contains("s3"));
}

#[test]
fn a_series_without_positions_follows_its_numbers_and_its_step_is_unknown() {
    let s: Vec<Made> = [2u16, 0, 1]
        .iter()
        .map(|&n| Made::slice(n).without(0x0020_0032))
        .collect();
    let f = folder(&s);
    let info = only(f.path());
    assert_eq!((info.spacing_mm[2], info.usable), (None, false));
    told(&info, WarningCode::NoPosition);
    let l = loaded(&info);
    assert_eq!(firsts(&l), [-24.0, -23.0, -22.0]);
    assert!(!l.volume.z_spacing_known && !info.straightens());
}

#[test]
fn pixel_spacing_that_nobody_says_is_unknown_and_not_1_mm() {
    let s: Vec<Made> = slices(3)
        .into_iter()
        .map(|s| s.without(0x0028_0030))
        .collect();
    let info = only(folder(&s).path());
    assert_eq!(info.spacing_mm, [None, None, Some(2.0)]);
    told(&info, WarningCode::NoPixelSpacing);
    assert!(!info.usable);
}

#[test]
fn one_slice_has_no_step() {
    let info = only(folder(&slices(1)).path());
    assert_eq!((info.spacing_mm[2], info.usable), (None, false));
    told(&info, WarningCode::SingleSlice);
}
