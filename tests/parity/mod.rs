//! `voxfit parity` as people and CI call it: two runs, folders, results from elsewhere, a baseline, truth.

use super::{code, errors, has, json, shared, voxfit};
use serde_json::{Value, json as object};
use std::path::{Path, PathBuf};

const STUDY: &str = "phantom:128x112x96:5";

struct Here(tempfile::TempDir);

impl Here {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path.to_string_lossy().into_owned()
    }

    /// Runs the demo and returns the result's path.
    fn run(&self, name: &str, study: &str, rest: &[&str]) -> String {
        let out = self.at(name);
        let mut args = vec!["run", study, "preset:demo", "--out", &out];
        args.extend(rest);
        let o = voxfit(&args);
        assert_eq!(code(&o), 0, "{}", errors(&o));
        out
    }
}

fn read(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn write(path: &str, value: &Value) {
    std::fs::write(path, value.to_string()).unwrap();
}

fn parity(args: &[&str]) -> (i32, Value) {
    let mut all = vec!["parity"];
    all.extend(args);
    all.push("--json");
    let o = voxfit(&all);
    (code(&o), json(&o))
}

/// A result with three made-up findings, so that tests do not lean on what the demo finds.
fn made(path: &str) -> Value {
    let mut r = read(path);
    let affine = r["plan"]["loaded_affine"].clone();
    let finding = |i: usize, score: f64, low: [f64; 3]| {
        let step = |a: usize, r: usize| affine["step"][a][r].as_f64().unwrap();
        let middle: Vec<f64> = (0..3)
            .map(|r| {
                let origin = affine["origin"][r].as_f64().unwrap();
                origin + (0..3).map(|a| step(a, r) * (low[a] + 3.5)).sum::<f64>()
            })
            .collect();
        let size: Vec<f64> = (0..3).map(|a| step(a, a).abs() * 8.0).collect();
        object!({
            "label": "nodule", "score": score,
            "box_in_volume": [low[0], low[1], low[2], low[0] + 8.0, low[1] + 8.0, low[2] + 8.0],
            "center_in_patient": middle, "size_mm": size, "window_idx": i, "seam_distance": 9.0,
        })
    };
    r["detections"] = object!([
        finding(0, 0.875, [20.0, 20.0, 20.0]),
        finding(1, 0.5, [60.0, 50.0, 40.0]),
        finding(0, 0.25, [90.0, 80.0, 70.0]),
    ]);
    write(path, &r);
    r
}

#[test]
fn a_run_compared_with_itself_is_bitwise_and_another_layout_is_not() {
    let here = Here::new();
    let a = here.run("a/r.json", STUDY, &["--roi-size", "96x96x64"]);
    let b = here.run(
        "b/r.json",
        STUDY,
        &["--roi-size", "96x96x64", "--batch", "2"],
    );
    let (exit, v) = parity(&[&a, &b]);
    assert_eq!((exit, v["verdict"].as_str()), (0, Some("bitwise")), "{v}");
    has(&v, &["verdict", "studies", "detections"]);
    has(
        &v["studies"][0],
        &[
            "study",
            "n_a",
            "n_b",
            "matched",
            "missing",
            "extra",
            "split",
            "duplicate",
            "fragment",
            "max_score_drift",
            "max_box_drift",
            "min_iou",
            "labels",
        ],
    );
    let c = here.run(
        "c/r.json",
        STUDY,
        &["--roi-size", "80x80x64", "--blend", "gaussian"],
    );
    let (exit, v) = parity(&[&a, &c]);
    assert_eq!(exit, 1);
    assert_ne!(v["verdict"], "bitwise");

    let seams = read(&a)["seams"].clone();
    has(
        &seams,
        &["verdict", "words", "determinism_floor", "planes", "outputs"],
    );
    has(
        &seams["planes"][0],
        &[
            "axis",
            "at",
            "raw_mismatch_max",
            "raw_mismatch_mean",
            "step_ratio",
            "diff_max",
            "flips",
        ],
    );
    assert!(seams["outputs"][0]["n"].as_u64().unwrap() > 0, "{seams}");
    let whole = here.at("a");
    let (exit, v) = parity(&[&whole, &here.at("b")]);
    assert_eq!(
        (exit, v["studies"].as_array().unwrap().len()),
        (0, 1),
        "folders"
    );
    let page = here.at("page.html");
    let o = voxfit(&["parity", &a, &c, "--report", &page]);
    assert_eq!(code(&o), 1, "{}", errors(&o));
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("(masked)") && !text.contains("phantom:") && !text.contains(&a));
}

#[test]
fn seams_are_held_against_a_reference_whose_outputs_were_kept() {
    let here = Here::new();
    let kept = |name: &str, rest: &[&str]| {
        let folder = here.at(&format!("{name}_out"));
        let mut args = vec!["--keep-outputs", &folder];
        args.extend(rest);
        here.run(&format!("{name}.json"), STUDY, &args)
    };
    let whole = kept("whole", &["--roi-size", "0x0x0", "--allow-single-pass"]);
    let aligned = kept(
        "aligned",
        &["--roi-size", "96x96x80", "--layout", "aligned"],
    );
    let monai = kept("monai", &["--roi-size", "64x64x48", "--overlap", "0"]);
    let seams = |a: &str| {
        let o = voxfit(&["seams", a, "--reference", &whole, "--json"]);
        assert_eq!(code(&o), 0, "{}", errors(&o));
        json(&o)
    };
    let v = seams(&aligned);
    assert_eq!(v["verdict"], "bitwise", "{v}");
    assert!(
        v["planes"]
            .as_array()
            .unwrap()
            .iter()
            .all(|p| p["diff_max"] == 0.0),
        "{v}"
    );
    let v = seams(&monai);
    assert_ne!(v["verdict"], "bitwise", "{v}");
    assert!(v["planes"][0]["diff_max"].as_f64().unwrap() > 0.0, "{v}");
    assert!(
        v["planes"][0]["step_ratio"].is_number() && v["planes"][0]["flips"].is_number(),
        "{v}"
    );
    let plain = here.run("plain.json", STUDY, &["--roi-size", "96x96x64"]);
    let o = voxfit(&["seams", &plain, "--reference", &whole]);
    assert_eq!(code(&o), 65);
    assert!(errors(&o).contains("--keep-outputs"), "{}", errors(&o));
    assert_eq!(code(&voxfit(&["seams", &plain])), 0);
}

#[test]
fn findings_go_out_to_every_format_and_come_back_as_float() {
    let here = Here::new();
    let a = here.run("r.json", STUDY, &["--roi-size", "96x96x64"]);
    made(&a);
    for name in ["monai.json", "f.truth.json", "slicer.mrk.json"] {
        let out = here.at(name);
        let o = voxfit(&["parity", &a, "--export", &out]);
        assert_eq!(code(&o), 0, "{name}: {}", errors(&o));
        let (exit, v) = parity(&[&a, &out]);
        assert_eq!(
            (exit, v["verdict"].as_str()),
            (1, Some("float")),
            "{name}: {v}"
        );
        let (exit, v) = parity(&[&out, &a, "--tolerance", "float"]);
        assert_eq!(
            (exit, v["studies"][0]["matched"].as_u64()),
            (0, Some(3)),
            "{name}: {v}"
        );
    }
    // LUNA16 knows spheres alone: the middles and scores stay.
    let luna = here.at("luna.csv");
    assert_eq!(code(&voxfit(&["parity", &a, "--export", &luna])), 0);
    let (_, v) = parity(&[&a, &luna]);
    let study = &v["studies"][0];
    assert_eq!(study["matched"], 3, "{v}");
    assert!(
        study["center_drift_mm"]["max"].as_f64().unwrap() < 1e-3,
        "{v}"
    );
    assert!(study["max_score_drift"].as_f64().unwrap() < 1e-6, "{v}");
    // MONAI itself writes no space: never guessed, and taken by name.
    let mut monai = read(&here.at("monai.json"));
    monai.as_object_mut().unwrap().remove("coordinate_system");
    let unsaid = here.at("unsaid.json");
    write(&unsaid, &monai);
    let o = voxfit(&["parity", &a, &unsaid, "--json"]);
    assert_eq!(code(&o), 65);
    assert!(errors(&o).contains("--b-space"), "{}", errors(&o));
    let (exit, _) = parity(&[&a, &unsaid, "--b-space", "LPS", "--tolerance", "float"]);
    assert_eq!(exit, 0);
    // Two results of PyTorch, neither of which says its space, compare as they stand.
    monai["validation"][0]["box"].as_array_mut().unwrap().pop();
    for key in ["label", "score"] {
        monai["validation"][0][key].as_array_mut().unwrap().pop();
    }
    let fewer = here.at("fewer.json");
    write(&fewer, &monai);
    let (exit, v) = parity(&[&unsaid, &fewer, "--tolerance", "score=0.1,box=1"]);
    assert_eq!(
        (exit, v["studies"][0]["missing"].as_u64()),
        (1, Some(1)),
        "{v}"
    );
}

#[test]
fn each_difference_is_counted_and_odd_input_is_one_sentence() {
    let here = Here::new();
    let a = here.run("a.json", STUDY, &["--roi-size", "96x96x64"]);
    let old = made(&a);
    let b = here.at("b.json");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut r = old.clone();
        r["outputs_sha256"] = object!("00");
        change(&mut r);
        write(&b, &r);
    };
    changed(&|r| r["detections"][1]["score"] = object!(0.505));
    let (exit, v) = parity(&[&a, &b, "--tolerance", "score=0.01,box=0.5"]);
    assert_eq!((exit, v["verdict"].as_str()), (0, Some("tolerance")), "{v}");
    assert_eq!(parity(&[&a, &b, "--tolerance", "score=0.001,box=0.5"]).0, 1);

    changed(&|r| r["detections"] = object!([]));
    let (exit, v) = parity(&[&a, &b]);
    assert_eq!((exit, v["verdict"].as_str()), (1, Some("other")));
    assert_eq!(v["studies"][0]["missing"], 3);
    let (exit, v) = parity(&[&b, &b]);
    assert_eq!((exit, v["verdict"].as_str()), (0, Some("bitwise")));

    let says = |args: &[&str], word: &str| {
        let mut all = vec!["parity"];
        all.extend(args);
        let o = voxfit(&all);
        assert_eq!(code(&o), 65, "{}", errors(&o));
        assert!(errors(&o).contains(word), "{word}: {}", errors(&o));
        assert_eq!(
            errors(&o)
                .lines()
                .filter(|l| l.starts_with("voxfit:"))
                .count(),
            1
        );
    };
    changed(&|r| r["volume_sha256"] = object!("11"));
    says(&[&a, &b], "two different volumes");
    changed(&|r| r["detections"][0]["score"] = Value::Null);
    says(&[&a, &b], "not a number");
    changed(&|r| r["format"] = object!(99));
    says(&[&a, &b], "format 99");
    changed(&|r| r["network"]["sha256"] = object!("22"));
    let (_, v) = parity(&[&a, &b]);
    assert!(
        v["studies"][0]["notes"]
            .to_string()
            .contains("two networks"),
        "{v}"
    );
    says(&[&a, &here.at("nothing.json")], "cannot read");
    std::fs::create_dir(here.at("empty")).unwrap();
    says(&[&a, &here.at("empty")], "no results");
    let o = voxfit(&["parity", &a, &b, "--tolerance", "loose"]);
    assert_eq!(code(&o), 2);
}

#[test]
fn a_baseline_run_again_is_bitwise_until_somebody_changes_it() {
    let here = Here::new();
    let base = here.at("base/x");
    let folder = Path::new(&base).parent().unwrap().to_path_buf();
    let a = here.run("base/one.json", STUDY, &["--roi-size", "96x96x64"]);
    let layout = ["--roi-size", "96x96x80", "--layout", "aligned"];
    here.run("base/two.json", STUDY, &layout);
    let dir = folder.to_string_lossy().into_owned();
    let (exit, v) = parity(&["--baseline", &dir, "--keep", &here.at("new")]);
    assert_eq!((exit, v["verdict"].as_str()), (0, Some("bitwise")), "{v}");
    assert_eq!(v["studies"].as_array().unwrap().len(), 2);
    assert!(Path::new(&here.at("new/two.json")).is_file());

    let mut r = read(&a);
    r["outputs_sha256"] = object!("00");
    r["detections"] = object!([{
        "label": "nodule", "score": 0.5, "box_in_volume": [1, 1, 1, 9, 9, 9],
        "center_in_patient": [0, 0, 0], "size_mm": [8, 8, 8], "window_idx": 0, "seam_distance": null,
    }]);
    write(&a, &r);
    let (exit, v) = parity(&["--baseline", &dir]);
    assert_eq!((exit, v["verdict"].as_str()), (1, Some("other")));

    // A result of an older version that does not say which file its network was.
    r["network"] = object!({ "name": "somebody's", "sha256": "00" });
    write(&a, &r);
    let (exit, v) = parity(&["--baseline", &dir]);
    assert_eq!(exit, 1);
    let reason = v["studies"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("--model"), "{reason}");
    let (_, v) = parity(&["--baseline", &dir, "--model", "preset:demo"]);
    assert_eq!(v["studies"][1]["verdict"], "bitwise", "{v}");
}

#[test]
fn findings_against_the_phantoms_own_truth_give_a_curve() {
    let here = Here::new();
    let a = here.run(
        "r.json",
        "phantom:256x256x128:5",
        &["--roi-size", "128x128x64"],
    );
    let (exit, v) = parity(&[&a, "--truth", "phantom"]);
    assert_eq!(exit, 0, "{v}");
    let froc = &v["truth"]["froc"];
    has(
        froc,
        &[
            "n_truth", "n_found", "points", "at", "cpm", "cpm_low", "cpm_high",
        ],
    );
    assert!(froc["cpm"].as_f64().unwrap() > 0.5, "{froc}");
    assert_eq!(froc["at"].as_array().unwrap().len(), 7);
}

/// A label mask as a run writes it, and the same with two voxels changed.
#[test]
fn label_masks_are_compared_by_dice_and_flips() {
    let here = Here::new();
    let volume = here.at("study.nii.gz");
    let o = voxfit(&["volume", "phantom:32x32x16:1", "--out", &volume]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    // HU are no labels.
    let o = voxfit(&["parity", &volume, &volume]);
    assert_eq!(code(&o), 65);
    assert!(errors(&o).contains("no label mask"), "{}", errors(&o));
    let Some(dir) = shared("networks").or_else(|| shared("data/networks")) else {
        return;
    };
    let model = dir.join("basicunet_tiny/model.onnx");
    let manifest = here.at("m.toml");
    std::fs::write(
        &manifest,
        "[windows]\nroi_size = [32, 32, 32]\n[output]\nkind = \"segmentation\"\nlogits = 0\nlabels = [\"background\", \"a\"]\n",
    )
    .unwrap();
    let model: PathBuf = model;
    let (r, labels) = (here.at("r.json"), here.at("l.nii"));
    let o = voxfit(&[
        "run",
        "phantom:48x40x40:1",
        &model.to_string_lossy(),
        "--manifest",
        &manifest,
        "--roi-size",
        "32x32x32",
        "--out",
        &r,
        "--labels",
        &labels,
    ]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let (exit, v) = parity(&[&r, &labels, "--tolerance", "float"]);
    assert_eq!(exit, 0, "{v}");
    let list = v["studies"][0]["labels"].as_array().unwrap();
    assert!(
        !list.is_empty() && list.iter().all(|l| l["dice"] == 1.0 && l["flips"] == 0),
        "{v}"
    );
    let mut bytes = std::fs::read(&labels).unwrap();
    let size = match i16::from_le_bytes([bytes[70], bytes[71]]) {
        2 => 1,
        4 => 2,
        other => panic!("labels of NIfTI type {other}"),
    };
    for voxel in [0, 7] {
        let at = 352 + voxel * size;
        bytes[at] = 1 - bytes[at].min(1);
    }
    let changed = here.at("changed.nii");
    std::fs::write(&changed, bytes).unwrap();
    let (exit, v) = parity(&[&r, &changed, "--tolerance", "float"]);
    assert_eq!(exit, 1, "{v}");
    let list = v["studies"][0]["labels"].as_array().unwrap();
    assert_eq!(list[0]["flips"], 2, "{v}");
    std::fs::remove_file(&labels).unwrap();
    let o = voxfit(&["parity", &r, &changed]);
    assert_ne!(code(&o), 0, "a mask that is gone is no match");
}
