//! What public bug reports saw go wrong in other readers, one test each, on small made-up files.

mod directory;
mod files;
mod order;
mod values;

use super::made::{Made, element, folder, items, write};
use super::*;
use crate::jobs::Control;
use crate::volume::Voxels;
use std::path::Path;

pub(super) fn scanned(path: &Path) -> Scan {
    scan(path, &Control::new()).unwrap_or_else(|e| panic!("{e}"))
}

pub(super) fn only(path: &Path) -> SeriesInfo {
    let scan = scanned(path);
    assert_eq!(scan.series.len(), 1, "{:?}", scan.series);
    scan.series[0].clone()
}

pub(super) fn loaded(info: &SeriesInfo) -> Loaded {
    load(info, &Control::new(), &|_| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// The first value of each slice.
pub(super) fn firsts(l: &Loaded) -> Vec<f32> {
    let e = l.volume.extent;
    (0..e.z).map(|k| l.volume.at([0, 0, k]).unwrap()).collect()
}

pub(super) fn told(info: &SeriesInfo, code: WarningCode) -> String {
    info.warnings
        .iter()
        .find(|w| w.code == code)
        .unwrap_or_else(|| panic!("{code:?} is not in {:?}", info.warnings))
        .text
        .clone()
}

pub(super) fn slices(n: u16) -> Vec<Made> {
    (0..n).map(Made::slice).collect()
}

#[test]
fn a_plain_series_is_right() {
    let f = folder(&slices(3));
    let info = only(f.path());
    assert_eq!(info.spacing_mm, [Some(0.75), Some(0.5), Some(2.0)]);
    assert!(
        info.usable && info.warnings.is_empty(),
        "{:?}",
        info.warnings
    );
    assert_eq!(firsts(&loaded(&info)), [-24.0, -23.0, -22.0]);
}

#[test]
fn a_feet_first_row_direction_turns_the_order_round() {
    let turned: Vec<Made> = slices(3)
        .into_iter()
        .map(|s| s.text(0x0020_0037, *b"DS", "-1\\0\\0\\0\\1\\0"))
        .collect();
    let info = only(folder(&turned).path());
    assert_eq!(info.direction[6..], [0.0, 0.0, -1.0]);
    assert_eq!(info.origin_lps[2], 4.0);
}

#[test]
fn thickness_and_negative_spacing_between_slices_do_not_make_the_step() {
    let lying: Vec<Made> = slices(3)
        .into_iter()
        .map(|s| {
            s.text(0x0018_0050, *b"DS", "5")
                .text(0x0018_0088, *b"DS", "-3")
        })
        .collect();
    assert_eq!(only(folder(&lying).path()).spacing_mm[2], Some(2.0));
}

#[test]
fn a_gap_is_not_averaged_away() {
    let mut some = slices(7);
    some.remove(3);
    some.remove(3);
    let info = only(folder(&some).path());
    assert_eq!(info.spacing_mm[2], Some(2.0));
    let text = told(&info, WarningCode::MissingSlices);
    assert!(
        text.contains("2 after slice 2 (between s2 and s3: 6.000 mm, expected 2.000 mm)"),
        "{text}"
    );
    assert!(!info.usable);
}

#[test]
fn jitter_of_a_hundredth_of_a_millimetre_is_uniform_and_more_is_told() {
    let moved = |by: f64| {
        let mut s = slices(5);
        s[2] = s[2].clone().position([-10.0, 5.0, 4.0 + by]);
        only(folder(&s).path())
    };
    let info = moved(0.009);
    assert!(
        info.usable && info.warnings.is_empty(),
        "{:?}",
        info.warnings
    );
    let info = moved(0.2);
    assert!(!info.usable);
    told(&info, WarningCode::UnevenSteps);
}

#[test]
fn jitter_on_every_slice_of_an_even_grid_is_uniform() {
    // Up to 0.004 mm off a grid of 5 mm: most steps are 5.008 or 4.992, none is wrong.
    let off = [0.0, 0.004, -0.004, 0.004, -0.004, 0.004, 0.004, -0.004, 0.0];
    let at = |z: f64| Made::slice(0).position([-10.0, 5.0, z]);
    let jittered = |skip: Option<usize>| {
        let s: Vec<Made> = off
            .iter()
            .enumerate()
            .filter(|(n, _)| Some(*n) != skip)
            .map(|(n, o)| {
                at(5.0 * n as f64 + o)
                    .text(0x0008_0018, *b"UI", &format!("1.2.3.{n}"))
                    .text(0x0020_0013, *b"IS", &(n + 1).to_string())
            })
            .collect();
        only(folder(&s).path())
    };
    let info = jittered(None);
    assert!(
        info.usable && info.warnings.is_empty(),
        "{:?}",
        info.warnings
    );
    assert!((info.spacing_mm[2].unwrap() - 5.0).abs() < 1e-9);
    // A slice missing among them is still missing, and the others are not odd.
    let info = jittered(Some(4));
    assert!(!info.usable);
    told(&info, WarningCode::MissingSlices);
    assert!(
        !info
            .warnings
            .iter()
            .any(|w| w.code == WarningCode::UnevenSteps),
        "{:?}",
        info.warnings
    );
    assert!((info.spacing_mm[2].unwrap() - 5.0).abs() < 0.004);
}

#[test]
fn a_rescale_slope_of_zero_or_nothing_is_not_taken_for_one_in_silence() {
    for slope in ["0", ""] {
        let mut s = slices(3);
        s[1] = s[1].clone().text(0x0028_1053, *b"DS", slope);
        let info = only(folder(&s).path());
        assert!(!info.usable, "slope {slope:?}");
        let text = told(&info, WarningCode::RescaleSlope);
        assert!(text.contains("1 image(s)") && text.contains("s1"), "{text}");
        assert!(info.refusal().unwrap().contains("RescaleSlope"));
    }
}

#[test]
fn an_orientation_of_zeros_is_not_called_a_missing_position() {
    let s: Vec<Made> = slices(3)
        .into_iter()
        .map(|s| s.text(0x0020_0037, *b"DS", "0\\0\\0\\0\\0\\0"))
        .collect();
    let info = only(folder(&s).path());
    assert!(!info.usable);
    let text = told(&info, WarningCode::NoOrientation);
    assert!(text.contains("ImageOrientationPatient"), "{text}");
    assert!(
        !info
            .warnings
            .iter()
            .any(|w| w.code == WarningCode::NoPosition)
    );
}

#[test]
fn more_bits_stored_than_allocated_are_refused_by_name() {
    let mut s = slices(4);
    s[3] = s[3].clone().number(0x0028_0101, 20);
    let f = folder(&s);
    let scan = scanned(f.path());
    let skipped = &scan.skipped[0];
    assert_eq!(skipped.file, "s3");
    assert!(
        skipped
            .reason
            .contains("BitsStored (20) is larger than its BitsAllocated (16)"),
        "{}",
        skipped.reason
    );
    assert!(!scan.series[0].usable);
}

#[test]
fn a_slice_without_position_is_left_out_by_name() {
    let mut s = slices(4);
    s[3] = s[3].clone().without(0x0020_0032);
    let info = only(folder(&s).path());
    assert_eq!(info.size.z, 3);
    assert!(told(&info, WarningCode::NoPosition).contains("s3"));
    // What is left is even, but no longer the whole series.
    assert!(!info.usable && info.refusal().unwrap().contains("s3"));
    assert!(!info.straightens() && info.refusal_on_straight_grid().is_none());
}

#[test]
fn a_scout_inside_the_series_is_not_stacked() {
    let mut s = slices(4);
    s[3] = s[3]
        .clone()
        .text(0x0008_0008, *b"CS", "ORIGINAL\\PRIMARY\\LOCALIZER")
        .text(0x0020_0037, *b"DS", "1\\0\\0\\0\\0\\-1");
    let f = folder(&s);
    let scan = scanned(f.path());
    assert_eq!(scan.series.len(), 2);
    assert_eq!((scan.series[0].size.z, scan.series[0].part), (3, 1));
    assert!(scan.series[0].usable && !scan.series[1].usable);
    assert!(told(&scan.series[0], WarningCode::LeftOut).contains("s3"));
    assert_eq!(scan.find("1.2.3#2").unwrap().size.z, 1);
}

#[test]
fn exposure_and_window_that_change_do_not_split_the_series() {
    let mut s = slices(3);
    s[1] = s[1]
        .clone()
        .text(0x0018_1152, *b"IS", "99")
        .text(0x0028_1050, *b"DS", "300")
        .text(0x0028_1051, *b"DS", "700");
    assert!(only(folder(&s).path()).usable);
}

#[test]
fn two_pixel_spacings_are_told() {
    let mut s = slices(3);
    s[1] = s[1].clone().text(0x0028_0030, *b"DS", "0.6\\0.75");
    let info = only(folder(&s).path());
    told(&info, WarningCode::SpacingDiffers);
    assert!(!info.usable);
}

#[test]
fn two_times_in_one_series_become_two_volumes() {
    let s: Vec<Made> = (0..6)
        .map(|n| {
            Made::slice(n).position([0.0, 0.0, f64::from(n % 3)]).text(
                0x0020_0100,
                *b"IS",
                &(1 + n / 3).to_string(),
            )
        })
        .collect();
    let f = folder(&s);
    let scan = scanned(f.path());
    assert_eq!(scan.series.len(), 2);
    assert!(scan.series.iter().all(|i| i.size.z == 3 && i.usable));
    assert_eq!(firsts(&loaded(&scan.series[1])), [-21.0, -20.0, -19.0]);
}

#[test]
fn each_slice_keeps_its_own_rescale() {
    let mut s = slices(3);
    s[1] = s[1].clone().text(0x0028_1052, *b"DS", "-2000");
    assert_eq!(
        firsts(&loaded(&only(folder(&s).path()))),
        [-24.0, -999.0, -22.0]
    );
}

#[test]
fn a_fractional_slope_gives_fractional_values() {
    let s: Vec<Made> = slices(2)
        .into_iter()
        .map(|s| s.text(0x0028_1053, *b"DS", "0.5"))
        .collect();
    let l = loaded(&only(folder(&s).path()));
    assert_eq!(firsts(&l), [-524.0, -523.5]);
    assert!(matches!(l.volume.voxels, Voxels::F32(_)));
    assert_eq!(l.hu_sha256(), None);
}

#[test]
fn an_intercept_far_below_int16_does_not_overflow() {
    let s: Vec<Made> = slices(2)
        .into_iter()
        .map(|s| s.text(0x0028_1052, *b"DS", "-35000"))
        .collect();
    assert_eq!(
        firsts(&loaded(&only(folder(&s).path()))),
        [-34000.0, -33999.0]
    );
}

#[test]
fn rescale_and_position_with_an_unknown_vr_are_read_as_text() {
    let s: Vec<Made> = (0..2)
        .map(|n| {
            Made::slice(n)
                .put(0x0020_0032, *b"UN", format!("0\\0\\{}", 3 * n).as_bytes())
                .put(0x0028_1052, *b"UN", b"-1000")
        })
        .collect();
    let f = folder(&s);
    let info = only(f.path());
    assert_eq!(info.spacing_mm[2], Some(3.0));
    assert_eq!(firsts(&loaded(&info)), [0.0, 1.0]);
}

#[test]
fn an_application_title_that_is_too_long_does_not_refuse_the_file() {
    let mut s = Made::slice(0);
    s.title = "A TITLE OF FAR MORE THAN SIXTEEN CHARACTERS".to_owned();
    assert_eq!(only(folder(&[s]).path()).size.z, 1);
}

#[test]
fn files_without_preamble_or_meta_are_read() {
    let f = folder(&[]);
    write(f.path(), "whole", &Made::slice(0).file());
    write(f.path(), "no_preamble", &Made::slice(1).file()[132..]);
    write(f.path(), "bare", &Made::slice(2).set());
    let info = only(f.path());
    assert_eq!(firsts(&loaded(&info)), [-24.0, -23.0, -22.0]);
}

#[test]
fn a_deflated_file_is_read() {
    use std::io::Write as _;
    let mut made = Made::slice(0);
    made.syntax = "1.2.840.10008.1.2.1.99".to_owned();
    let whole = made.file();
    let set = made.set();
    let mut z = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    z.write_all(&set).unwrap();
    let bytes = [&whole[..whole.len() - set.len()], &z.finish().unwrap()].concat();
    let f = folder(&[]);
    write(f.path(), "d", &bytes);
    assert_eq!(firsts(&loaded(&only(f.path()))), [-24.0]);
}

#[test]
fn rle_in_several_fragments_does_not_panic() {
    // Two segments (high and low bytes of 1000), each one run of 8, cut in the middle of the frame.
    let mut rle: Vec<u8> = [2u32, 64, 66]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    rle.resize(64, 0);
    rle.extend([0xF9, 0x03, 0xF9, 0xE8]);
    let pixels = items(&[Vec::new(), rle[..40].to_vec(), rle[40..].to_vec()]);
    let mut made = Made::slice(0).without(0x7FE0_0010);
    made.syntax = "1.2.840.10008.1.2.5".to_owned();
    let mut bytes = made.file();
    bytes.extend([
        0xE0, 0x7F, 0x10, 0x00, b'O', b'B', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF,
    ]);
    bytes.extend(pixels);
    bytes.extend([0xFE, 0xFF, 0xDD, 0xE0, 0, 0, 0, 0]);
    let f = folder(&[]);
    write(f.path(), "r", &bytes);
    let l = loaded(&only(f.path()));
    assert_eq!((l.hu_min, l.hu_max), (Some(-24.0), Some(-24.0)));
}

#[test]
fn packed_twelve_bit_values_are_unpacked() {
    let packed: Vec<u8> = [0xE8u8, 0x93, 0x3E].repeat(4);
    let made = Made::slice(0)
        .number(0x0028_0100, 12)
        .put(0x7FE0_0010, *b"OW", &packed);
    let l = loaded(&only(folder(&[made]).path()));
    assert_eq!(l.volume.at([0, 0, 0]), Some(-24.0));
    assert_eq!(l.volume.at([1, 0, 0]), Some(-23.0));
}

#[test]
fn a_padding_range_is_left_out_of_the_statistics() {
    let made = Made::slice(0)
        .number(0x0028_0120, 0)
        .number(0x0028_0121, 10)
        .words(&[0, 5, 10, 11, 900, 901, 902, 903]);
    let l = loaded(&only(folder(&[made]).path()));
    assert_eq!((l.hu_min, l.hu_max), (Some(-1013.0), Some(-121.0)));
    assert_eq!(l.volume.padding, Some((-1024.0, -1014.0)));
}

#[test]
fn an_inverted_grey_ramp_leaves_the_values_alone() {
    let made = Made::slice(0).text(0x0028_0004, *b"CS", "MONOCHROME1");
    let f = folder(&[made]);
    let info = only(f.path());
    assert!(info.inverted());
    assert_eq!(firsts(&loaded(&info)), [-24.0]);
}

#[test]
fn a_slice_cut_short_is_named_and_never_filled() {
    let f = folder(&slices(3));
    let whole = Made::slice(3).file();
    write(f.path(), "s3", &whole[..whole.len() - 6]);
    let scan = scanned(f.path());
    assert_eq!(scan.skipped[0].file, "s3");
    assert!(
        scan.skipped[0]
            .reason
            .contains("expected 16 bytes, found 10"),
        "{:?}",
        scan.skipped
    );
    assert_eq!(scan.series[0].size.z, 3);
    assert!(!scan.series[0].usable);
    assert!(scan.series[0].refusal().unwrap().contains("s3"));
}

#[test]
fn frames_of_an_enhanced_file_come_in_the_order_of_their_positions() {
    let order = [2u16, 0, 1];
    let groups: Vec<Vec<u8>> = order
        .iter()
        .map(|&n| {
            let at = element(0x0020_0032, *b"DS", format!("0\\0\\{n}.5 ").as_bytes());
            let scaled = [
                element(0x0028_1052, *b"DS", b"-1024 "),
                element(0x0028_1053, *b"DS", if n == 1 { b"2 " } else { b"1 " }),
            ]
            .concat();
            [
                element(0x0020_9113, *b"SQ", &items(&[at])),
                element(0x0028_9145, *b"SQ", &items(&[scaled])),
            ]
            .concat()
        })
        .collect();
    let words: Vec<u16> = order.iter().flat_map(|n| [1000 + n; 8]).collect();
    let made = Made::slice(0)
        .without(0x0020_0032)
        .without(0x0028_1052)
        .without(0x0028_1053)
        .text(0x0028_0008, *b"IS", "3")
        .put(0x5200_9230, *b"SQ", &items(&groups))
        .words(&words);
    let f = folder(&[made]);
    let info = only(f.path());
    assert_eq!((info.n_files, info.spacing_mm[2]), (1, Some(1.0)));
    let l = loaded(&info);
    assert_eq!(firsts(&l), [-24.0, 978.0, -22.0]);
    let frames: Vec<usize> = l.slices.iter().map(|s| s.frame).collect();
    assert_eq!(frames, [1, 2, 0]);
}

#[test]
fn sequences_nested_beyond_reason_end_the_file_and_not_the_program() {
    let mut bytes = Made::slice(0).without(0x7FE0_0010).set();
    for _ in 0..100_000 {
        bytes.extend([
            0x30, 0x00, 0x10, 0x00, b'S', b'Q', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF,
        ]);
        bytes.extend([0xFE, 0xFF, 0x00, 0xE0, 0xFF, 0xFF, 0xFF, 0xFF]);
    }
    let f = folder(&[]);
    let path = write(f.path(), "deep", &bytes);
    let error = scan(&path, &Control::new()).unwrap_err().to_string();
    assert!(error.contains("nested"), "{error}");
}

#[test]
fn a_cancelled_scan_and_load_stop() {
    let f = folder(&slices(2));
    let control = Control::new();
    let info = only(f.path());
    control.cancel();
    assert!(matches!(
        scan(f.path(), &control),
        Err(SeriesError::Cancelled(_))
    ));
    assert!(matches!(
        load(&info, &control, &|_| {}),
        Err(SeriesError::Cancelled(_))
    ));
}

mod damage {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::random_cases::random_cases(400))]
        /// Bytes flipped and cut anywhere: an answer or an error, never a panic.
        #[test]
        fn a_damaged_file_never_takes_the_program_down(
            flips in prop::collection::vec((0usize..900, any::<u8>()), 0..8),
            cut in 0usize..1200,
        ) {
            let mut bytes = Made::slice(0).file();
            for (at, with) in flips {
                if let Some(b) = bytes.get_mut(at) {
                    *b = with;
                }
            }
            bytes.truncate(cut.max(1));
            let f = folder(&[]);
            let path = write(f.path(), "x", &bytes);
            if let Ok(scan) = scan(&path, &Control::new()) {
                for info in &scan.series {
                    if info.size.checked_voxels().is_some_and(|n| n < 1 << 24) {
                        let _answer = load(info, &Control::new(), &|_| {});
                    }
                }
            }
        }
    }
}
