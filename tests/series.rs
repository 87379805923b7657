//! Real and odd DICOM files against what other readers and the standard say of them; skipped where the shared data is missing.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "helpers of tests fail as tests do and say what they skip"
)]

mod fuzz;

use serde_json::Value;
use std::path::{Path, PathBuf};
use voxfit::jobs::Control;
use voxfit::series::{Loaded, Scan, SeriesError, SeriesInfo, WarningCode, load, scan};

/// The folder of handed data sets, or `None` (said) where it is missing.
fn shared(set: &str) -> Option<PathBuf> {
    let base = std::env::var_os("VOXFIT_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let path = base.join("data/dicom").join(set);
    if path.exists() {
        Some(path)
    } else {
        eprintln!("skipped: {} is missing", path.display());
        None
    }
}

fn scanned(path: &Path) -> Scan {
    scan(path, &Control::new()).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn loaded(info: &SeriesInfo) -> Loaded {
    load(info, &Control::new(), &|_| {}).unwrap_or_else(|e| panic!("{}: {e}", info.label()))
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn floats(v: &Value) -> Vec<f64> {
    v.as_array()
        .unwrap()
        .iter()
        .map(|x| x.as_f64().unwrap())
        .collect()
}

fn sizes(v: &Value) -> Vec<usize> {
    v.as_array()
        .unwrap()
        .iter()
        .map(|x| usize::try_from(x.as_u64().unwrap()).unwrap())
        .collect()
}

fn near(got: &[f64], want: &[f64], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() < 1e-4, "{what}: got {got:?}, want {want:?}");
    }
}

fn has(info: &SeriesInfo, code: WarningCode) -> bool {
    info.warnings.iter().any(|w| w.code == code)
}

/// Holds a series against `truth.json`'s entry of the same UID.
fn against_truth(set: &str) {
    let Some(folder) = shared(set) else { return };
    let truth = json(&folder.join("truth.json"));
    let scan = scanned(&folder);
    for want in truth["series"].as_array().unwrap() {
        let uid = want["series_uid"].as_str().unwrap();
        if !want["size_cols_rows_slices"].is_array() || want["duplicate_positions"] != 0 {
            continue;
        }
        let info = scan.find(uid).unwrap_or_else(|| panic!("{uid}"));
        let size = sizes(&want["size_cols_rows_slices"]);
        assert_eq!(info.size.to_array().to_vec(), size, "{set}");
        near(
            &info.origin_lps,
            &floats(&want["origin_lps"]),
            &format!("{set} origin"),
        );
        let spacing = [info.spacing_mm[0].unwrap(), info.spacing_mm[1].unwrap()];
        near(
            &spacing,
            &floats(&want["pixel_spacing_col_row_mm"]),
            &format!("{set} spacing"),
        );
        if let Some(step) = want["slice_gaps_along_normal_mm"]["median"].as_f64() {
            near(&[info.spacing_mm[2].unwrap()], &[step], set);
            near(
                &info.affine().step[2],
                &floats(&want["mean_slice_step_lps"]),
                set,
            );
        }
        near(&info.direction[..3], &floats(&want["row_dir"]), set);
        near(&info.direction[3..6], &floats(&want["col_dir"]), set);
        let volume = loaded(info);
        assert_eq!(
            volume.hu_sha256().as_deref(),
            want["sha256_int16_kji"].as_str(),
            "{set} {uid}"
        );
        let instances: Vec<i64> = want["instance_numbers_in_sorted_order"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_i64)
            .collect();
        let got: Vec<i64> = volume
            .slices
            .iter()
            .filter_map(|s| s.instance_number)
            .collect();
        assert_eq!(got, instances, "{set}");
        for voxel in want["voxels"].as_array().unwrap() {
            let ijk = sizes(&voxel["ijk"]);
            let hu = volume.volume.at([ijk[0], ijk[1], ijk[2]]).map(f64::from);
            assert_eq!(hu, voxel["hu"].as_f64(), "{set} {ijk:?}");
        }
    }
}

#[test]
fn a_whole_head_phantom_whose_names_sort_wrongly_and_two_slices_of_another_maker_are_right() {
    against_truth("ge_two_slices");
    against_truth("philips_140_jpegll");
}

#[test]
fn a_volume_of_single_frames_and_the_same_as_enhanced_ct_are_right() {
    against_truth("tiny23x38x3");
    against_truth("tiny23x38x3_multiframe");
}

#[test]
fn a_study_with_localizer_and_captures_gives_the_axial_series_and_tells_the_rest() {
    against_truth("philips_study");
    let Some(folder) = shared("philips_study") else {
        return;
    };
    let scan = scanned(&folder);
    let best = scan.best().unwrap();
    assert_eq!(best.size.z, 28);
    assert!(best.usable, "{:?}", best.warnings);
    assert!(scan.skipped.iter().any(|s| s.reason.contains("DICOMDIR")));
    for info in &scan.series {
        if info.uid != best.uid {
            assert!(!info.usable, "{}", info.label());
        }
    }
}

/// What one variant must be, from `expect.json` and its note.
fn variant(name: &str) -> Option<(Scan, Value)> {
    let folder = shared("variants")?;
    let expect = json(&folder.join("expect.json"))[name].clone();
    Some((scanned(&folder.join(name)), expect))
}

fn check_variant(name: &str) {
    let Some((scan, want)) = variant(name) else {
        return;
    };
    assert_eq!(scan.series.len(), 1, "{name}");
    let info = scan.best().unwrap();
    assert_eq!(
        info.size.to_array().to_vec(),
        sizes(&want["size"]),
        "{name}"
    );
    if want["spacing"].is_array() {
        let spacing: Vec<f64> = info.spacing_mm.iter().map(|s| s.unwrap()).collect();
        near(&spacing, &floats(&want["spacing"]), name);
    }
    if want["origin"].is_array() {
        near(&info.origin_lps, &floats(&want["origin"]), name);
    }
    if want["row_dir"].is_array() {
        near(&info.direction[..3], &floats(&want["row_dir"]), name);
        near(&info.direction[3..6], &floats(&want["col_dir"]), name);
        near(&info.direction[6..], &floats(&want["normal"]), name);
    }
    let volume = loaded(info);
    assert_eq!(
        volume.hu_sha256().as_deref(),
        want["sha256"].as_str(),
        "{name}"
    );
    if let (Some(min), Some(max)) = (want["hu_min"].as_f64(), want["hu_max"].as_f64()) {
        // Peers count padding in; the smallest value here leaves it out.
        if name != "signed_padding" {
            assert_eq!(volume.hu_min, Some(min), "{name}");
        }
        assert_eq!(volume.hu_max, Some(max), "{name}");
    }
    if want["files_used"].is_u64() && name != "enhanced_multiframe" {
        assert_eq!(
            info.n_files as u64,
            want["files_used"].as_u64().unwrap(),
            "{name}"
        );
    }
}

#[test]
fn one_series_in_every_lossless_syntax_gives_the_same_voxels() {
    for name in [
        "base",
        "implicit_le",
        "big_endian",
        "rle",
        "j2k",
        "jpeg_lossless_70",
        "jpeg_lossless_57",
        "enhanced_multiframe",
    ] {
        check_variant(name);
    }
}

#[test]
fn names_and_instance_numbers_and_slice_locations_that_lie_do_not_change_the_order() {
    check_variant("shuffled_names_reversed_instance");
    check_variant("lying_slicelocation");
}

#[test]
fn coronal_and_oblique_series_keep_their_directions() {
    check_variant("coronal");
    check_variant("oblique20");
}

#[test]
fn files_without_preamble_and_with_dirty_high_bits_are_read() {
    check_variant("no_preamble");
    check_variant("garbage_high_bits");
}

#[test]
fn padding_of_minus_2000_is_not_the_smallest_value() {
    check_variant("signed_padding");
    let Some((scan, _)) = variant("signed_padding") else {
        return;
    };
    let volume = loaded(scan.best().unwrap());
    assert_eq!(volume.hu_min, Some(-1020.0));
    assert_eq!(volume.volume.padding, Some((-2000.0, -2000.0)));
}

#[test]
fn one_instance_under_two_names_is_used_once_and_told() {
    check_variant("same_file_twice");
    let Some((scan, _)) = variant("same_file_twice") else {
        return;
    };
    assert!(has(scan.best().unwrap(), WarningCode::DuplicateFile));
}

#[test]
fn junk_beside_the_slices_is_skipped_and_counted() {
    check_variant("junk_in_folder");
    let Some((scan, _)) = variant("junk_in_folder") else {
        return;
    };
    for junk in ["notes.txt", "empty.dcm", "a.png", ".DS_Store", "noise.dcm"] {
        assert!(scan.skipped.iter().any(|s| s.file == junk), "{junk}");
    }
    assert!(scan.skipped.iter().all(|s| !s.reason.is_empty()));
    assert!(scan.best().unwrap().usable);
}

#[test]
fn values_without_rescale_are_said_to_be_not_hu() {
    check_variant("no_rescale");
    let Some((scan, _)) = variant("no_rescale") else {
        return;
    };
    let info = scan.best().unwrap();
    assert!(has(info, WarningCode::NotHu));
    assert!(!loaded(info).volume.is_hu);
}

#[test]
fn slices_missing_at_the_start_are_told_from_instance_numbers() {
    check_variant("missing_at_end");
    let Some((scan, _)) = variant("missing_at_end") else {
        return;
    };
    assert!(has(scan.best().unwrap(), WarningCode::InstanceNumbers));
}

#[test]
fn a_series_without_positions_has_no_slice_distance() {
    let Some((scan, want)) = variant("no_ipp") else {
        return;
    };
    let info = scan.best().unwrap();
    assert_eq!(info.spacing_mm[2], None);
    assert!(has(info, WarningCode::NoPosition) && !info.usable);
    let volume = loaded(info);
    assert_eq!(
        volume.hu_sha256().as_deref(),
        want["sha256_if_instance_order"].as_str()
    );
    assert!(!volume.volume.z_spacing_known);
}

#[test]
fn two_images_at_one_position_are_split_by_acquisition_and_never_interleaved() {
    let Some((scan, _)) = variant("duplicate_position") else {
        return;
    };
    for info in &scan.series {
        assert!(info.size.z < 13);
        assert!(info.spacing_mm[2].is_none_or(|z| z > 1.0));
    }
    // The intruder says another acquisition: it becomes a part of its own, and both files are named.
    let info = scan.best().unwrap();
    let told = info
        .warnings
        .iter()
        .find(|w| w.code == WarningCode::Split)
        .unwrap();
    assert_eq!(told.files.len(), 2);
    assert_eq!((info.size.z, scan.series.len()), (12, 2));
}

#[test]
fn two_series_in_one_folder_stay_two() {
    let Some((scan, _)) = variant("two_series") else {
        return;
    };
    assert_eq!(scan.series.len(), 2);
    assert!(scan.series.iter().all(|s| s.size.z == 12 && s.usable));
}

#[test]
fn a_slice_cut_in_its_header_is_named_and_leaves_a_told_gap() {
    let Some((scan, want)) = variant("truncated_header") else {
        return;
    };
    assert!(scan.skipped.iter().any(|s| want["bad"] == *s.file));
    let info = scan.best().unwrap();
    assert_eq!(info.size.z, 11);
    assert!(!info.usable);
    assert!(has(info, WarningCode::MissingSlices), "{:?}", info.warnings);
    near(&[info.spacing_mm[2].unwrap()], &[5.0], "commonest step");
}

#[test]
fn a_tilted_gantry_keeps_its_shear() {
    against_truth("siemens_tilt4");
    let Some((scan, want)) = variant("gantry_tilt15") else {
        return;
    };
    check_variant("gantry_tilt15");
    let info = scan.best().unwrap();
    near(
        &[info.spacing_mm[2].unwrap()],
        &[want["step_along_normal"].as_f64().unwrap()],
        "step along the normal",
    );
    near(
        &[info.affine().spacing_mm()[2]],
        &[want["step_length"].as_f64().unwrap()],
        "step length",
    );
    let told = info
        .warnings
        .iter()
        .find(|w| w.code == WarningCode::GantryTilt)
        .unwrap();
    assert!(told.text.contains("15.00 degrees"), "{}", told.text);
    assert!(info.usable);
}

#[test]
fn four_images_at_one_position_are_no_volume() {
    let Some(folder) = shared("siemens_sameposition4") else {
        return;
    };
    let scan = scanned(&folder);
    assert!(scan.series.iter().all(|s| !s.usable && s.size.z < 4));
    assert!(has(&scan.series[0], WarningCode::SamePosition));
    assert!(matches!(
        load(&scan.series[0], &Control::new(), &|_| {}),
        Err(SeriesError::Refused { .. })
    ));
}

#[test]
fn names_in_utf8_and_iso_2022_show_right() {
    for (name, want) in [("utf8_names", ""), ("iso2022_names", "山田")] {
        check_variant(name);
        let Some((scan, _)) = variant(name) else {
            return;
        };
        let patient = scan.best().unwrap().patient_name.clone().unwrap();
        assert!(patient.contains(want) && !patient.is_ascii(), "{patient}");
        assert!(!patient.contains('\u{1b}') && !patient.contains('\u{fffd}'));
    }
}

#[test]
fn bad_paths_each_get_one_sentence() {
    let temp = tempfile::tempdir().unwrap();
    let at = |p: &str| temp.path().join(p);
    std::fs::create_dir_all(at("empty")).unwrap();
    std::fs::create_dir_all(at("texts")).unwrap();
    std::fs::write(at("texts/notes.txt"), "hello").unwrap();
    for (path, word) in [
        ("nothing", "no such file or folder"),
        ("empty", "the folder is empty"),
        (
            "texts",
            "found none in 1 file(s) (first: notes.txt: a text file)",
        ),
        ("texts/notes.txt", "found a text file"),
    ] {
        let error = scan(&at(path), &Control::new()).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
        assert!(!error.contains('\n'));
    }
}

#[test]
fn the_middle_slice_comes_first() {
    let Some(folder) = shared("variants/jpeg_lossless_70") else {
        return;
    };
    let scan = scanned(&folder);
    let seen = std::sync::Mutex::new(Vec::new());
    load(scan.best().unwrap(), &Control::new(), &|s| {
        seen.lock().unwrap().push(s.k);
    })
    .unwrap();
    let seen = seen.into_inner().unwrap();
    assert!((4..=8).contains(&seen[0]), "{seen:?}");
    assert_eq!(seen.len(), 12);
}

/// Hashes by position (as here), in the order of frames in the file (as peers read Enhanced CT), and without the
/// intercept of functional groups, which pydicom leaves alone.
fn hashes_of(l: &Loaded) -> Vec<String> {
    use sha2::Digest as _;
    let voxfit::volume::Voxels::I16(values) = &l.volume.voxels else {
        return Vec::new();
    };
    let e = l.volume.extent;
    let slices: Vec<&[i16]> = values.chunks_exact(e.x * e.y).collect();
    let mut order: Vec<usize> = (0..e.z).collect();
    order.sort_by_key(|&k| l.slices[k].frame);
    let hash = |add: i16| {
        let mut h = sha2::Sha256::new();
        for &k in &order {
            for v in slices[k] {
                h.update(v.wrapping_add(add).to_le_bytes());
            }
        }
        hex::encode(h.finalize())
    };
    let mut all = vec![l.hu_sha256().unwrap()];
    if e.z > 1 {
        all.extend([hash(0), hash(1024)]);
    }
    all
}

/// Every file of a set with truth for each file alone: values as pydicom says, or a refusal with a reason.
fn file_by_file(set: &str, known: &[(&str, &str)]) {
    let Some(folder) = shared(set) else { return };
    let truth = json(&folder.join("truth.json"));
    let mut wrong = Vec::new();
    for (name, want) in truth["files"].as_object().unwrap() {
        let path = folder.join(name);
        if !path.exists() {
            continue;
        }
        let hashes: Vec<&str> = ["pydicom_hu", "simpleitk"]
            .iter()
            .filter_map(|k| want[k]["sha256_i16le"].as_str())
            .collect();
        let got = scan(&path, &Control::new())
            .and_then(|s| load(s.best().unwrap(), &Control::new(), &|_| {}));
        let said = match &got {
            Ok(l) if hashes_of(l).iter().any(|h| hashes.contains(&h.as_str())) => {
                "right".to_owned()
            }
            Ok(l) => format!("values {:?} to {:?}", l.hu_min, l.hu_max),
            Err(e) => e.to_string(),
        };
        let expected = known
            .iter()
            .find(|(n, _)| name.ends_with(n))
            .map_or("right", |(_, e)| e);
        if !said.contains(expected) {
            wrong.push(format!("{name}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{set}:\n{}", wrong.join("\n"));
}

#[test]
fn one_ct_in_fifteen_syntaxes_is_right_or_refused_with_the_reason() {
    file_by_file(
        "ct_all_syntaxes",
        &[
            // Rescaled by 2.0002442: fractional.
            ("1.2.840.10008.1.2.4.51.dcm", "values Some("),
            ("1.2.840.10008.1.2.4.53.dcm", "retired"),
            ("1.2.840.10008.1.2.4.55.dcm", "retired"),
            // Rescaled by 32.1216: fractional, so there is no hash of int16.
            ("1.2.840.10008.1.2.4.50.dcm", "values Some(-3083.352) to"),
            ("US-YBR_FULL_422-EVRLE.dcm", "colour pictures"),
            ("no-pixel-data.dcm", "without pixel data"),
            ("no-pixel-spacing.dcm", "colour palette"),
        ],
    );
}

#[test]
fn fragments_with_and_without_an_offset_table_are_right() {
    file_by_file(
        "encapsulated_fragments",
        &[
            ("IM00001.fragmented_no_bot_jpeg_baseline.50.dcm", "colour"),
            ("IM00001.implicit_little_endian.dcm", "colour"),
            ("README.md", "a text file"),
        ],
    );
}

#[test]
fn odd_files_are_right_or_refused_with_the_reason() {
    let no_pixels = "without pixel data";
    file_by_file(
        "pydicom_odd",
        &[
            ("ExplVR_BigEnd.dcm", "colour"),
            ("ExplVR_BigEndNoMeta.dcm", no_pixels),
            ("ExplVR_LitEndNoMeta.dcm", no_pixels),
            ("HTJ2KLossless_08_RGB.dcm", "colour"),
            ("HTJ2K_08_RGB.dcm", "colour"),
            ("JPEG2000-embedded-sequence-delimiter.dcm", "are damaged"),
            ("MR_truncated.dcm", "expected 8192 bytes, found 8130"),
            ("UN_sequence.dcm", "no DICOM data set"),
            ("badVR.dcm", "frames is no number (\"1A\")"),
            ("empty_charset_LEI.dcm", no_pixels),
            ("liver_nonbyte_aligned.dcm", "1 bits for each value"),
            ("meta_missing_tsyntax.dcm", "without rows"),
            ("nested_priv_SQ.dcm", "without rows"),
            ("no_meta.dcm", "does not start as DICOM does"),
            ("no_meta_group_length.dcm", no_pixels),
            ("rtdose.dcm", "values Some(795000.0)"),
            (
                "rtplan_truncated.dcm",
                "ends inside the element (300A,00B0)",
            ),
            ("rtstruct.dcm", no_pixels),
            ("test-SR.dcm", no_pixels),
            ("waveform_ecg.dcm", no_pixels),
        ],
    );
}

#[test]
fn a_dicomdir_is_followed_and_never_taken_for_a_slice() {
    let Some(folder) = shared("philips_study") else {
        return;
    };
    let by_directory = scanned(&folder.join("DICOMDIR"));
    let best = by_directory.best().unwrap();
    assert_eq!((best.size.z, best.usable), (28, true));
    let Some(folder) = shared("pydicom_dicomdir") else {
        return;
    };
    for name in [
        "DICOMDIR",
        "DICOMDIR-bigEnd",
        "DICOMDIR-implicit",
        "DICOMDIR-nooffset",
        "DICOMDIR-nopatient",
        "DICOMDIR-reordered",
    ] {
        let scan = scan(&folder.join(name), &Control::new());
        let n: usize = match &scan {
            Ok(s) => s.series.iter().map(|i| i.size.z).sum(),
            Err(e) => panic!("{name}: {e}"),
        };
        assert!(n > 0, "{name}");
    }
    let empty = scan(&folder.join("DICOMDIR-empty.dcm"), &Control::new());
    assert!(empty.is_err());
}
