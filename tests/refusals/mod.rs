//! What the command once did wrong: overwrote its input, hung, crashed or spoke of other things than the user did.

use super::{code, errors, has, json, voxfit};
use std::path::Path;
use std::process::Command;

/// A folder and a way to name files in it.
fn folder() -> (tempfile::TempDir, impl Fn(&str) -> String) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_path_buf();
    (dir, move |name: &str| {
        root.join(name).to_string_lossy().into_owned()
    })
}

/// Runs the command and looks for its exit code and a word of its sentence.
fn refused(args: &[&str], exit: i32, word: &str) {
    let o = voxfit(args);
    assert_eq!(code(&o), exit, "{args:?}: {}", errors(&o));
    assert!(errors(&o).contains(word), "{args:?}: {}", errors(&o));
}

#[test]
fn an_output_never_overwrites_what_it_is_made_from() {
    let (_dir, at) = folder();
    let study = at("v.nii");
    let o = voxfit(&["volume", "phantom:24x20x16", "--out", &study]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let before = std::fs::read(&study).unwrap();
    let again = at("./v.nii");
    refused(&["volume", &study, "--out", &again], 2, "overwrite");
    let to = |out: &str, word: &str| {
        refused(&["run", &study, "preset:demo", "--out", out], 2, word);
    };
    to(&again, "--out would overwrite the study");
    let result = at("r.json");
    for (labels, word) in [
        (at("r.json"), ".nii"),
        (at("l.png"), ".nii"),
        (again, "--labels would overwrite the study"),
        (at("l.nii"), "no labels"),
    ] {
        let args = [
            "run",
            &study,
            "preset:demo",
            "--out",
            &result,
            "--labels",
            &labels,
        ];
        refused(&args, 2, word);
    }
    assert_eq!(std::fs::read(&study).unwrap(), before);
    assert!(!Path::new(&result).exists());
}

#[test]
fn an_output_never_replaces_a_slice_of_another_study() {
    let (_dir, at) = folder();
    let study = at("other");
    let o = voxfit(&["volume", "phantom:24x20x4", "--out", &study]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let slice = at("other/IM0003.dcm");
    let before = std::fs::read(&slice).unwrap();
    let phantom = "phantom:24x20x16";
    let run = ["run", phantom, "preset:demo", "--out"];
    refused(&[&run[..], &[slice.as_str()]].concat(), 2, "a DICOM file");
    let plan = at("p.json");
    refused(&["report", &plan, "--out", &slice], 2, "a DICOM file");
    let result = at("r.json");
    let kept = [&run[..], &[result.as_str(), "--keep-outputs", &study]].concat();
    refused(&kept, 2, "among DICOM files");
    refused(
        &["demo", "--headless", "--out", &study],
        2,
        "among DICOM files",
    );
    let among = at("other/IM0002.nii.gz");
    refused(
        &["volume", phantom, "--out", &among],
        2,
        "among DICOM files",
    );
    assert_eq!(std::fs::read(&slice).unwrap(), before);
    assert_eq!(std::fs::read_dir(&study).unwrap().count(), 4);
}

/// A slice in explicit little endian with bytes that are no RLE in place of its pixels.
fn with_damaged_rle(slice: &[u8]) -> Vec<u8> {
    let find = |what: &[u8]| slice.windows(what.len()).rposition(|w| w == what).unwrap();
    let mut out = slice[..find(b"\xe0\x7f\x10\x00OW")].to_vec();
    let syntax = b"1.2.840.10008.1.2.1\0";
    let at = out.windows(20).position(|w| w == syntax).unwrap();
    out[at + 18] = b'5';
    out.extend(b"\xe0\x7f\x10\x00OB\0\0\xff\xff\xff\xff");
    out.extend(b"\xfe\xff\x00\xe0\0\0\0\0\xfe\xff\x00\xe0\x40\0\0\0");
    out.extend([0xab; 64]);
    out.extend(b"\xfe\xff\xdd\xe0\0\0\0\0");
    out
}

#[test]
fn a_slice_that_cannot_be_decoded_is_the_reason_once_and_not_the_step() {
    let (_dir, at) = folder();
    let study = at("s");
    let o = voxfit(&["volume", "phantom:24x20x4", "--out", &study]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let slice = at("s/IM0003.dcm");
    let bytes = std::fs::read(&slice).unwrap();
    std::fs::write(&slice, with_damaged_rle(&bytes)).unwrap();
    let out = at("v.nii");
    for more in [&[][..], &["--straight-grid"]] {
        let o = voxfit(&[&["volume", &study, "--out", &out][..], more].concat());
        assert_eq!(code(&o), 65, "{}", errors(&o));
        let said = errors(&o);
        assert_eq!(said.matches("cannot be decoded").count(), 1, "{said}");
        for wrong in ["even step", "nothing was resampled"] {
            assert!(!said.contains(wrong), "{said}");
        }
        assert!(!Path::new(&out).exists());
    }
}

#[test]
fn a_million_windows_are_listed_shortly_and_not_a_crash() {
    let o = voxfit(&[
        "windows",
        "--volume",
        "1x1x1000000",
        "--roi-size",
        "1x1x64",
        "--reach-left",
        "0x0x0",
        "--reach-right",
        "0x0x0",
    ]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let text = String::from_utf8_lossy(&o.stdout).into_owned();
    assert!(text.contains("0 48 96 ... 999936, 20833 in all"), "{text}");
}

#[test]
fn an_answer_that_did_not_reach_a_full_disk_is_said_and_exits_with_74() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        println!("skipped: no /dev/full here");
        return;
    };
    let o = Command::new(env!("CARGO_BIN_EXE_voxfit"))
        .args(["cards", "--json"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(code(&o), 74, "{}", errors(&o));
    assert!(errors(&o).contains("standard output"), "{}", errors(&o));
}

#[test]
fn figures_below_nothing_and_beyond_any_machine_are_refused_in_our_words() {
    let windows = ["windows", "preset:demo", "--volume", "-64x64x64"];
    refused(&windows, 2, "-64x64x64");
    for batch in ["-1", "0", "99999999999999"] {
        let budget = ["budget", "preset:demo", "--roi-size", "64x64x64"];
        let args = [&budget[..], &["--batch", batch]].concat();
        refused(&args, 2, "a batch is a whole number from 1");
    }
}

#[test]
fn more_windows_at_once_than_there_are_take_no_more_memory() {
    let (_dir, at) = folder();
    let run = |batch: &str, out: &str| {
        let args = [
            "run",
            "phantom:64x64x48:5",
            "preset:demo",
            "--roi-size",
            "48x48x48",
            "--batch",
            batch,
            "--out",
            out,
            "--json",
        ];
        let o = voxfit(&args);
        assert_eq!(code(&o), 0, "{}", errors(&o));
        json(&o)
    };
    let (all, more) = (run("4", &at("a.json")), run("100000", &at("b.json")));
    assert_eq!(all["n_windows"], 4);
    assert_eq!(all["memory"]["planned"], more["memory"]["planned"]);
    assert_eq!(more["memory"]["planned"], more["memory"]["allocated"]);
    assert_eq!(all["outputs_sha256"], more["outputs_sha256"]);
}

#[test]
fn points_without_a_line_are_a_no_with_every_key() {
    let o = voxfit(&["calibrate", "--points", "2=2 GiB,2=3 GiB", "--json"]);
    assert_eq!(code(&o), 1, "{}", errors(&o));
    let v = json(&o);
    has(&v, &["intercept", "slope", "residuals", "largest_batch"]);
    assert!(v["refused"].as_str().unwrap().contains("same X"), "{v}");
}

#[test]
fn the_folder_that_is_missing_is_named_and_not_a_temporary_file() {
    for (verb, out) in [("run", "/nowhere/r.json"), ("volume", "/nowhere/v.nii")] {
        let mut args = vec![verb, "phantom:24x20x16"];
        if verb == "run" {
            args.push("preset:demo");
        }
        args.extend(["--out", out]);
        let o = voxfit(&args);
        assert_eq!(code(&o), 74, "{}", errors(&o));
        assert!(errors(&o).contains(out), "{}", errors(&o));
        assert!(!errors(&o).contains(".voxfit-"), "{}", errors(&o));
        assert!(errors(&o).contains("folder is missing"), "{}", errors(&o));
        assert!(!errors(&o).contains("space"), "{}", errors(&o));
    }
}

#[cfg(unix)]
#[test]
fn endless_files_and_pipes_without_a_reader_are_refused_and_do_not_hang() {
    let (_dir, at) = folder();
    let pipe = at("pipe");
    if !Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .is_ok_and(|s| s.success())
    {
        println!("skipped: no mkfifo here");
        return;
    }
    let run = ["run", "phantom:24x20x16", "preset:demo", "--out", &pipe];
    refused(&run, 74, "named pipe");
    for endless in ["/dev/zero", &pipe] {
        refused(&["network", endless], 65, "a device or a pipe");
        let weights = ["network", "preset:demo", "--weights", endless];
        refused(&weights, 65, "a device or a pipe");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_volume_that_is_being_made_and_leaves_nothing() {
    let (dir, at) = folder();
    let child = Command::new(env!("CARGO_BIN_EXE_voxfit"))
        .args(["volume", "phantom:512x512x512", "--out", &at("v.nii.gz")])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let pid = child.id().to_string();
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -INT {pid}")])
        .status();
    assert!(sent.unwrap().success());
    let o = child.wait_with_output().unwrap();
    assert_eq!(code(&o), 130, "{}", errors(&o));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_volume_file_that_says_neither_directions_nor_spacing_is_told_as_unknown() {
    let (_dir, at) = folder();
    let name = at("v.nii");
    let o = voxfit(&["volume", "phantom:24x20x16", "--out", &name]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let said = |spacing: bool, from: &str, orientation: bool| {
        let o = voxfit(&["series", &name, "--json"]);
        assert_eq!(code(&o), 0, "{}", errors(&o));
        let row = json(&o)["series"][0].clone();
        assert_eq!(row["spacing_mm"][2].is_number(), spacing, "{row}");
        assert_eq!(row["spacing_source"], serde_json::json!([from, from]));
        assert_eq!(row["orientation_known"], orientation, "{row}");
        let tilt = spacing.then_some([0.0, 0.0]);
        assert_eq!(row["tilt_degrees"], serde_json::json!(tilt));
    };
    said(true, "the file's header", true);
    let mut bytes = std::fs::read(&name).unwrap();
    // Neither qform nor sform.
    bytes[252..256].fill(0);
    std::fs::write(&name, &bytes).unwrap();
    said(true, "the file's header", false);
    // Nor voxel sizes.
    bytes[80..92].fill(0);
    std::fs::write(&name, &bytes).unwrap();
    said(false, "unknown", false);
}
