//! Inputs that an earlier reader of this program got wrong, one test each, on small made-up files.

use super::made::{Made, element, folder, items, write};
use super::reports::{firsts, loaded, only, scanned, slices, told};
use super::*;
use crate::jobs::Control;
use std::path::Path;

/// The slices 0 to 2, each changed.
fn changed(change: impl Fn(Made) -> Made) -> tempfile::TempDir {
    let made: Vec<Made> = slices(3).into_iter().map(change).collect();
    folder(&made)
}

/// Three slices with bytes put before the pixels of each.
fn with_bytes(bytes: &[u8]) -> tempfile::TempDir {
    let f = folder(&[]);
    for (n, made) in slices(3).into_iter().enumerate() {
        let mut file = made.file();
        let at = file.len() - 12 - 16;
        file.splice(at..at, bytes.iter().copied());
        write(f.path(), &format!("s{n}"), &file);
    }
    f
}

fn assert_plain(path: &Path) {
    let info = only(path);
    assert!(info.usable, "{:?}", info.warnings);
    assert_eq!(firsts(&loaded(&info)), [-24.0, -23.0, -22.0]);
}

#[test]
fn private_elements_with_a_vr_of_their_own_do_not_end_the_file() {
    for odd in [
        b"\x29\x00\x10\x00ZZ\x04\x00ABCD".as_slice(),
        b"\x29\x00\x10\x00ZZ\x00\x00\x04\x00\x00\x00ABCD",
        b"\x29\x00\x10\x00??\x04\x00ABCD",
        b"\x29\x00\x10\x00??\x00\x00\x04\x00\x00\x00ABCD",
        b"\x29\x00\x10\x00\x00\x00\x04\x00ABCD",
        b"\x29\x00\x10\x00\x04\x00\x00\x00ABCD",
        b"\x29\x00\x10\x00OV\x00\x00\x08\x00\x00\x00ABCDEFGH",
    ] {
        assert_plain(with_bytes(odd).path());
    }
}

#[test]
fn a_sequence_with_an_unknown_vr_is_read_whichever_way_its_items_are_written() {
    let head = b"\x29\x00\x10\x11UN\x00\x00\xff\xff\xff\xff\xfe\xff\x00\xe0\xff\xff\xff\xff";
    let tail = b"\xfe\xff\x0d\xe0\x00\x00\x00\x00\xfe\xff\xdd\xe0\x00\x00\x00\x00";
    for inside in [
        b"\x29\x00\x10\x00LO\x04\x00ABCD".as_slice(),
        b"\x29\x00\x10\x00\x04\x00\x00\x00ABCD",
    ] {
        assert_plain(with_bytes(&[head.as_slice(), inside, tail].concat()).path());
    }
}

#[test]
fn functional_groups_with_an_unknown_vr_keep_their_positions() {
    let implicit = |tag: u32, value: &[u8]| {
        let head = u16::try_from(tag >> 16).unwrap().to_le_bytes();
        let low = u16::try_from(tag & 0xFFFF).unwrap().to_le_bytes();
        let length = u32::try_from(value.len()).unwrap().to_le_bytes();
        [&head, &low, length.as_slice(), value].concat()
    };
    let groups: Vec<Vec<u8>> = [4u16, 2]
        .iter()
        .map(|z| {
            let at = implicit(0x0020_0032, format!("0\\0\\{z} ").as_bytes());
            implicit(0x0020_9113, &items(&[at]))
        })
        .collect();
    let made = Made::slice(0)
        .text(0x0028_0008, *b"IS", "2")
        .put(0x5200_9230, *b"UN", &items(&groups))
        .words(&[[1000; 8], [1001; 8]].concat());
    let info = only(folder(&[made]).path());
    assert_eq!(info.spacing_mm[2], Some(2.0));
}

#[test]
fn objects_without_pixels_in_a_series_are_not_lost_slices() {
    let f = folder(&slices(3));
    let note = Made::slice(9)
        .text(0x0008_0016, *b"UI", "1.2.840.10008.5.1.4.1.1.11.1")
        .text(0x0008_0060, *b"CS", "PR");
    let note = [0x7FE0_0010, 0x0028_0010, 0x0028_0011]
        .into_iter()
        .fold(note, Made::without);
    write(f.path(), "note", &note.file());
    let scan = scanned(f.path());
    assert!(scan.series[0].usable, "{:?}", scan.series[0].warnings);
    assert_eq!(scan.skipped[0].file, "note");
}

#[test]
fn a_slice_cut_before_its_series_is_said_is_missed_by_the_series_of_its_folder() {
    let f = folder(&slices(3));
    let bytes = Made::slice(3).file();
    let uid = element(0x0020_000E, *b"UI", b"1.2.3 ");
    let at = bytes.windows(8).position(|w| w == &uid[..8]).unwrap();
    write(f.path(), "s3", &bytes[..at + 4]);
    let scan = scanned(f.path());
    assert!(!scan.series[0].usable);
    assert!(told(&scan.series[0], WarningCode::Damaged).contains("s3"));
}

#[test]
fn positions_spacings_and_slopes_beyond_reason_are_damage_and_not_numbers() {
    let mut far = slices(4);
    far[3] = far[3].clone().text(0x0020_0032, *b"DS", "1e300\\0\\1e300 ");
    let info = only(folder(&far).path());
    assert_eq!(info.size.z, 3);
    assert!(told(&info, WarningCode::NoPosition).contains("s3"));
    for spacing in ["0\\0 ", "-1\\-1 ", "nan\\nan ", "1e300\\1 ", ""] {
        let f = changed(|s| s.text(0x0028_0030, *b"DS", spacing));
        let info = only(f.path());
        assert!(!info.usable && info.spacing_mm[0].is_none(), "{spacing}");
    }
    for slope in ["1e300", "1e-300", "inf", "nan", "x"] {
        let f = changed(|s| s.text(0x0028_1053, *b"DS", slope));
        told(&only(f.path()), WarningCode::RescaleSlope);
    }
}

#[test]
fn an_intercept_that_is_missing_or_no_number_is_not_taken_for_zero_in_silence() {
    for f in [
        changed(|s| s.without(0x0028_1052)),
        changed(|s| s.text(0x0028_1052, *b"DS", "-1O24 ")),
        changed(|s| s.text(0x0028_1052, *b"DS", "1e200 ")),
    ] {
        let info = only(f.path());
        assert!(!info.usable);
        assert!(told(&info, WarningCode::RescaleSlope).contains("RescaleIntercept"));
    }
    // Both empty: as if they were not there.
    let f = changed(|s| {
        s.text(0x0028_1052, *b"DS", "")
            .text(0x0028_1053, *b"DS", "")
    });
    let info = only(f.path());
    assert!(info.usable);
    told(&info, WarningCode::NotHu);
}

#[test]
fn one_slice_without_rescale_among_others_makes_no_volume_to_run() {
    let mut s = slices(3);
    s[1] = s[1].clone().without(0x0028_1052).without(0x0028_1053);
    let info = only(folder(&s).path());
    assert!(!info.usable);
    assert!(told(&info, WarningCode::RescaleSlope).contains("1 of 3 images"));
}

#[test]
fn padding_that_the_stored_bits_cannot_hold_does_not_turn_into_bone() {
    // 12 bits stored, padding of -2000 in all 16: masked it would be 2096.
    let f = changed(|s| {
        s.number(0x0028_0103, 1)
            .put(0x0028_0120, *b"SS", &(-2000i16).to_le_bytes())
            .words(&[0xF830, 0xF830, 1000, 1000, 1000, 1000, 1000, 1100])
    });
    let l = loaded(&only(f.path()));
    assert_eq!(l.volume.at([0, 0, 0]), Some(-3024.0));
    assert_eq!((l.hu_min, l.hu_max), (Some(-24.0), Some(76.0)));
}

#[test]
fn padding_of_slices_with_other_rescales_is_padding_too() {
    let mut s: Vec<Made> = slices(3)
        .into_iter()
        .map(|s| {
            s.number(0x0028_0120, 0)
                .words(&[0, 0, 0, 0, 2000, 2000, 2000, 2000])
        })
        .collect();
    s[1] = s[1].clone().text(0x0028_1052, *b"DS", "-1000");
    let l = loaded(&only(folder(&s).path()));
    assert_eq!(l.volume.padding, Some((-1024.0, -1000.0)));
    assert_eq!(l.hu_min, Some(976.0));
}

#[test]
fn thirty_two_bit_padding_is_read_whole() {
    let wide = |v: [i32; 8]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let f = changed(|s| {
        s.number(0x0028_0100, 32)
            .number(0x0028_0101, 32)
            .number(0x0028_0102, 31)
            .number(0x0028_0103, 1)
            .put(0x0028_0120, *b"SL", &(-70000i32).to_le_bytes())
            .put(0x7FE0_0010, *b"OW", &wide([-70000, 5, 5, 5, 5, 5, 5, 9]))
    });
    let l = loaded(&only(f.path()));
    assert_eq!((l.hu_min, l.hu_max), (Some(-1019.0), Some(-1015.0)));
}

#[test]
fn a_ct_series_stored_as_secondary_captures_with_planes_is_a_volume() {
    let capture = "1.2.840.10008.5.1.4.1.1.7";
    assert_plain(changed(|s| s.text(0x0008_0016, *b"UI", capture)).path());
    let f = changed(|s| s.text(0x0008_0016, *b"UI", capture).without(0x0020_0032));
    assert!(!only(f.path()).usable);
}

/// A compressed slice: pixels in items, of a transfer syntax.
fn compressed(n: u16, syntax: &str, size: [u16; 2], code: &[u8]) -> Vec<u8> {
    let mut made = Made::slice(n)
        .without(0x7FE0_0010)
        .number(0x0028_0010, size[1])
        .number(0x0028_0011, size[0]);
    syntax.clone_into(&mut made.syntax);
    let mut bytes = made.file();
    bytes.extend([
        0xE0, 0x7F, 0x10, 0, b'O', b'B', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF,
    ]);
    bytes.extend(items(&[Vec::new(), code.to_vec()]));
    bytes.extend([0xFE, 0xFF, 0xDD, 0xE0, 0, 0, 0, 0]);
    bytes
}

/// A lossless JPEG of 4 x 2 values of 1000: codes of one bit for no difference and of two for one of eleven bits.
fn lossless() -> Vec<u8> {
    let mut code = vec![0xFF, 0xD8];
    code.extend([0xFF, 0xC3, 0, 11, 12, 0, 2, 0, 4, 1, 1, 0x11, 0]);
    code.extend([0xFF, 0xC4, 0, 21, 0, 1, 1]);
    code.extend([0; 14]);
    code.extend([0, 11]);
    code.extend([0xFF, 0xDA, 0, 8, 1, 1, 0, 1, 0, 0]);
    // From 2048 to 1000: -1048 in eleven bits is 999 (01111100111), after the code 10.
    code.extend([0b1001_1111, 0b0011_1000, 0b0000_1111, 0xFF, 0xD9]);
    code
}

const LOSSLESS: &str = "1.2.840.10008.1.2.4.70";

#[test]
fn a_slice_that_cannot_be_decoded_is_named_and_the_others_stay() {
    let f = folder(&[]);
    for n in 0..3 {
        let mut code = lossless();
        if n == 1 {
            code.truncate(code.len() - 4);
        }
        let bytes = compressed(n, LOSSLESS, [4, 2], &code);
        write(f.path(), &format!("s{n}"), &bytes);
    }
    let info = only(f.path());
    let l = loaded(&info);
    assert_eq!(l.volume.at([3, 1, 0]), Some(-24.0));
    assert_eq!(l.volume.at([3, 1, 2]), Some(-24.0));
    let text = l.refusal().unwrap();
    assert!(text.contains("s1") && text.contains("ends early"), "{text}");
    assert_eq!((l.hu_sha256(), l.hu_min), (None, Some(-24.0)));
    let row = info.json(false, Some(Ok(&l)));
    assert!(!row.usable);
    assert_eq!(row.warnings.last().unwrap().files, ["s1"]);
}

#[test]
fn sizes_that_no_file_can_hold_are_refused_before_memory_is_taken() {
    for (syntax, size) in [
        (LOSSLESS, [65535, 65535]),
        ("1.2.840.10008.1.2.5", [65535, 65535]),
        ("1.2.840.10008.1.2.4.50", [65535, 65535]),
        ("1.2.840.10008.1.2.4.80", [65535, 65535]),
        ("1.2.840.10008.1.2.4.90", [65535, 65535]),
    ] {
        let f = folder(&[]);
        let path = write(f.path(), "x", &compressed(0, syntax, size, &lossless()));
        let e = scan(&path, &Control::new()).unwrap_err().to_string();
        assert!(e.contains("65535x65535x1 values cannot be in"), "{e}");
    }
    let frames = Made::slice(0).text(0x0028_0008, *b"IS", "2000000000");
    let f = folder(&[frames]);
    let e = scan(&f.path().join("s0"), &Control::new()).unwrap_err();
    assert!(e.to_string().contains("2000000000 frames"), "{e}");
}

#[test]
fn a_deflated_file_of_nothing_but_zeros_is_kept_neither_in_memory_nor_on_disk() {
    use super::content::Content;
    use std::io::Seek as _;
    let made = Made::slice(0).without(0x7FE0_0010);
    let f = folder(&[]);
    let bytes = deflated(made.clone(), &vec![0u8; 64 << 20]);
    let info = only(&write(f.path(), "z", &bytes));
    // The picture itself is 16 bytes and is there.
    assert_eq!(loaded(&info).hu_min, Some(-1024.0));
    let Content::Inflated(kept) = Content::find(&info.slices[0].file).unwrap() else {
        panic!("not inflated");
    };
    let length = kept.into_inner().unwrap().seek(std::io::SeekFrom::End(0));
    assert_eq!(length.unwrap(), made.set().len() as u64 + 12 + 16);
}

/// A deflated file whose pixel element claims more than these bytes.
fn deflated(mut made: Made, pixels: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    "1.2.840.10008.1.2.1.99".clone_into(&mut made.syntax);
    let set = made.set();
    let mut z = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    z.write_all(&set).unwrap();
    z.write_all(&[0xE0, 0x7F, 0x10, 0, b'O', b'W', 0, 0, 0, 0, 0, 0x10])
        .unwrap();
    z.write_all(pixels).unwrap();
    let whole = made.file();
    [&whole[..whole.len() - set.len()], &z.finish().unwrap()].concat()
}

#[test]
fn a_deflated_file_longer_than_what_is_read_for_texts_keeps_its_texts() {
    // Noise, which no deflate makes smaller.
    let mut state = 7u32;
    let noise: Vec<u8> = (0..5 << 20)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect();
    let made = Made::slice(0)
        .without(0x7FE0_0010)
        .text(0x0010_0010, *b"PN", "Doe^Jane");
    let bytes = deflated(made, &noise);
    assert!(bytes.len() > 4 << 20);
    let f = folder(&[]);
    let info = only(&write(f.path(), "z", &bytes));
    let texts = info.texts();
    assert!(texts.iter().any(|t| t.value == "Doe^Jane"), "{texts:?}");
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_told_and_never_waited_for() {
    let f = folder(&slices(3));
    let pipe = f.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|s| s.success()), "mkfifo made no pipe");
    let scan = scanned(f.path());
    assert!(scan.series[0].usable);
    assert!(
        scan.skipped[0].reason.contains("a pipe"),
        "{:?}",
        scan.skipped
    );
    for path in [pipe.as_path(), Path::new("/dev/zero")] {
        let e = super::scan(path, &Control::new()).unwrap_err();
        assert!(e.to_string().contains("a pipe, socket or device"), "{e}");
    }
}

#[cfg(unix)]
#[test]
fn links_in_a_circle_and_out_of_the_folder_end() {
    let outside = folder(&slices(5));
    let f = folder(&slices(3));
    let link = |to: &Path, name: &str| {
        std::os::unix::fs::symlink(to, f.path().join(name)).unwrap();
    };
    link(f.path(), "circle");
    link(&f.path().join("self"), "self");
    link(outside.path(), "out");
    let scan = scanned(f.path());
    assert_eq!((scan.series.len(), scan.series[0].size.z), (1, 3));
    let out = scan.skipped.iter().find(|s| s.file == "out").unwrap();
    assert!(out.reason.contains("out of the folder"));
}

#[cfg(unix)]
#[test]
fn names_that_are_no_text_and_look_alike_keep_their_own_pixels() {
    use std::os::unix::ffi::OsStrExt as _;
    let f = folder(&[]);
    for (n, name) in [b"a\xff", b"a\xfe", b"a\xfd"].iter().enumerate() {
        let n = u16::try_from(n).unwrap();
        let two = Made::slice(n)
            .text(0x0020_000E, *b"UI", &format!("1.2.{n}"))
            .text(0x0028_0008, *b"IS", "2")
            .words(&[1000 + n; 16]);
        std::fs::write(
            f.path().join(std::ffi::OsStr::from_bytes(*name)),
            two.file(),
        )
        .unwrap();
    }
    let scan = scanned(f.path());
    let mut values: Vec<f32> = scan.series.iter().map(|i| firsts(&loaded(i))[0]).collect();
    values.sort_by(f32::total_cmp);
    assert_eq!(values, [-24.0, -23.0, -22.0]);
}

#[test]
fn ten_thousand_files_are_listed_with_progress_and_a_cancel_is_heeded_at_once() {
    let f = folder(&[]);
    let bytes = Made::slice(0).file();
    for n in 0..10_000 {
        write(f.path(), &format!("f{n}"), &bytes);
    }
    let control = Control::new();
    std::thread::scope(|s| {
        let work = s.spawn(|| scan(f.path(), &control));
        while control.progress().0 < 100 && !work.is_finished() {
            std::thread::yield_now();
        }
        assert_eq!(control.progress().1, 10_000);
        control.cancel();
        let asked = std::time::Instant::now();
        let answer = work.join().unwrap();
        assert!(asked.elapsed().as_secs_f64() < 0.5, "{:?}", asked.elapsed());
        let (done, _) = control.progress();
        match answer {
            Err(SeriesError::Cancelled(_)) => assert!(done < 10_000),
            // It may have read the last file before the wish came.
            Ok(_) => assert_eq!(done, 10_000),
            Err(e) => panic!("{e}"),
        }
    });
    let again = scan(f.path(), &control);
    assert!(matches!(again, Err(SeriesError::Cancelled(_))));
}
