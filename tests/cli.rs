//! The built command: JSON keys and exit codes as written in the contract, and one clear sentence for each bad input.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and says what it skips"
)]

mod buying;
mod parity;
mod refusals;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn voxfit(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_voxfit"))
        .args(args)
        .output()
        .unwrap()
}

fn code(o: &Output) -> i32 {
    o.status.code().unwrap()
}

fn json(o: &Output) -> Value {
    serde_json::from_slice(&o.stdout).unwrap_or_else(|e| {
        panic!(
            "{e}: {}\n{}",
            String::from_utf8_lossy(&o.stdout),
            String::from_utf8_lossy(&o.stderr)
        )
    })
}

fn errors(o: &Output) -> String {
    String::from_utf8_lossy(&o.stderr).into_owned()
}

/// Every key is there.
fn has(v: &Value, keys: &[&str]) {
    for k in keys {
        assert!(v.get(k).is_some(), "no key {k} in {v}");
    }
}

fn shared(folder: &str) -> Option<PathBuf> {
    let root = std::env::var_os("VOXFIT_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let at = root.join(folder);
    if !at.exists() {
        println!("skipped: {} is not here", at.display());
        return None;
    }
    Some(at)
}

#[test]
fn planning_commands_print_the_keys_of_the_contract() {
    let o = voxfit(&["network", "preset:demo", "--roi-size", "64x64x64", "--json"]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let v = json(&o);
    has(
        &v,
        &[
            "name",
            "n_parameters",
            "spatial_dims",
            "inputs",
            "outputs",
            "ops",
            "unsupported",
            "total_stride",
            "reach",
            "spatial_norms",
            "flops",
            "tensors",
        ],
    );
    has(&v["outputs"][0], &["name", "shape", "dtype", "reach"]);
    has(&v["outputs"][0]["reach"], &["left", "right"]);
    has(
        &v["tensors"][0],
        &["name", "shape", "bytes", "flops", "first", "last"],
    );

    let o = voxfit(&["network", "preset:monai-lung-nodule", "--json"]);
    assert_eq!(json(&o)["n_parameters"], 20_902_741);

    let o = voxfit(&[
        "windows",
        "preset:demo",
        "--volume",
        "256x256x128",
        "--roi-size",
        "128x128x64",
        "--json",
    ]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let v = json(&o);
    has(
        &v,
        &[
            "starts",
            "n_windows",
            "padded_volume",
            "loaded_volume",
            "single_pass",
            "exactness",
            "warnings",
        ],
    );
    has(&v["starts"], &["x", "y", "z"]);
    has(
        &v["exactness"],
        &["verdict", "halo_needed", "n_passes", "recompute"],
    );
    assert_eq!(v["single_pass"], false);
}

#[test]
fn budgets_cards_and_engines_print_the_keys_of_the_contract() {
    let o = voxfit(&[
        "budget",
        "preset:demo",
        "--roi-size",
        "128x128x64",
        "--volume",
        "256x256x128",
        "--json",
    ]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let v = json(&o);
    has(
        &v,
        &[
            "parts",
            "live_peak",
            "reserved_peak",
            "arena",
            "lower_bound",
            "host_peak",
            "peak_step",
            "timeline",
            "largest_batch",
            "cliffs",
            "elasticities",
            "fixes",
            "cards",
        ],
    );
    for part in [
        "weights",
        "gradients",
        "optimizer",
        "activations",
        "workspace",
        "input",
        "stitched",
        "count_map",
        "context",
        "display",
    ] {
        has(&v["parts"][part], &["low", "high", "source"]);
    }
    has(
        &v["cards"][0],
        &[
            "id",
            "nameplate_gb",
            "usable",
            "free",
            "required_low",
            "required_high",
            "verdict",
            "headroom",
        ],
    );

    has(
        &json(&voxfit(&["cards", "--json"]))["cards"][0],
        &["id", "name", "nameplate_gb", "usable"],
    );
    let engines = json(&voxfit(&["engines", "--json"]));
    has(
        &engines["engines"][0],
        &["id", "available", "reason", "device", "total", "free"],
    );
    assert_eq!(engines["engines"][0]["available"], true);

    let o = voxfit(&[
        "calibrate",
        "--points",
        "1=2 GiB,2=3 GiB,4=5 GiB",
        "--card",
        "rtx-5070-ti",
        "--json",
    ]);
    has(
        &json(&o),
        &[
            "intercept",
            "slope",
            "residuals",
            "refused",
            "largest_batch",
        ],
    );
}

#[test]
fn a_plan_that_does_not_fit_the_card_asked_for_exits_with_1() {
    let o = voxfit(&[
        "budget",
        "preset:monai-lung-nodule",
        "--roi-size",
        "512x512x192",
        "--runtime",
        "pytorch",
        "--card",
        "rtx-4060",
        "--json",
    ]);
    assert_eq!(code(&o), 1, "{}", errors(&o));
    assert_eq!(json(&o)["cards"][0]["verdict"], "over");
}

#[test]
fn a_memory_limit_is_kept_in_tiles_or_answered_with_the_least() {
    let budget = [
        "budget",
        "preset:demo",
        "--roi-size",
        "128x128x64",
        "--json",
    ];
    let with = |more: &[&str]| voxfit(&[&budget[..], more].concat());
    let whole = json(&with(&[]));
    let arena = |v: &Value| v["arena"].as_u64().unwrap();
    assert!(whole["tiles"].is_null() && whole["limit"].is_null());
    let o = with(&["--memory-limit", "6 MiB"]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let tiled = json(&o);
    assert!(arena(&tiled) <= 6 << 20);
    assert_eq!(tiled["tiles"]["untiled"].as_u64().unwrap(), arena(&whole));
    assert_eq!(tiled["limit"]["met"], true);
    has(
        &tiled["tiles"]["segments"][0],
        &["name", "slabs", "kept", "recompute_flops"],
    );
    assert!(arena(&json(&with(&["--tiles"]))) <= arena(&tiled));
    let o = with(&["--memory-limit", "100000"]);
    assert_eq!(code(&o), 1, "{}", errors(&o));
    let limit = &json(&o)["limit"];
    let least = limit["least"].as_u64().unwrap();
    assert!(limit["text"].as_str().unwrap().contains("no schedule"));
    let o = with(&["--memory-limit", &least.to_string()]);
    assert_eq!(code(&o), 0, "the least is not met: {}", errors(&o));
    // A window that runs in tiles gives the result of one that runs whole.
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    let run = |name: &str, more: &[&str]| {
        let file = out.join(name).to_string_lossy().into_owned();
        let args = [
            "run",
            "phantom:64x64x32:3",
            "preset:demo",
            "--roi-size",
            "48x48x32",
        ];
        let o = voxfit(&[&args[..], &["--out", &file, "--json"], more].concat());
        assert_eq!(code(&o), 0, "{}", errors(&o));
        json(&o)
    };
    let whole = run("whole.json", &[]);
    let planned = whole["memory"]["planned"].as_u64().unwrap();
    let tiled = run(
        "tiled.json",
        &["--memory-limit", &(planned * 2 / 3).to_string()],
    );
    assert_eq!(whole["outputs_sha256"], tiled["outputs_sha256"]);
    assert_eq!(
        tiled["memory"]["tiles"]["untiled"].as_u64().unwrap(),
        planned
    );
    let memory = &tiled["memory"];
    assert_eq!(memory["planned"], memory["allocated"]);
    assert_eq!(memory["planned"], memory["measured_peak"]);
}

#[test]
fn wrong_usage_exits_with_2_and_names_what_was_found() {
    let cases: [(&[&str], &str); 8] = [
        (
            &[
                "windows",
                "preset:demo",
                "--volume",
                "64x64x64",
                "--roi-size",
                "32x32x-2",
            ],
            "-2",
        ),
        (
            &[
                "windows",
                "preset:demo",
                "--volume",
                "64x64x64",
                "--overlap",
                "1.0",
            ],
            "1",
        ),
        (
            &[
                "windows",
                "preset:demo",
                "--volume",
                "64x64x64",
                "--overlap",
                "-0.1",
            ],
            "-0.1",
        ),
        (&["windows", "preset:demo", "--volume", "64x64"], "64x64"),
        (&["network", "preset:nothing"], "nothing"),
        (
            &["budget", "preset:demo", "--roi-size", "64x64x0"],
            "--volume",
        ),
        (
            &[
                "budget",
                "preset:demo",
                "--roi-size",
                "64x64x64",
                "--card",
                "rtx-9999",
            ],
            "rtx-9999",
        ),
        (&["nonsense"], "nonsense"),
    ];
    for (args, word) in cases {
        let o = voxfit(args);
        assert_eq!(code(&o), 2, "{args:?}: {}", errors(&o));
        assert!(errors(&o).contains(word), "{args:?}: {}", errors(&o));
        assert!(o.stdout.is_empty(), "{args:?} printed to stdout");
    }
}

#[test]
fn bad_data_exits_with_65_in_one_sentence_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    std::fs::create_dir(dir.path().join("texts")).unwrap();
    std::fs::write(dir.path().join("texts/notes.txt"), "no image").unwrap();
    std::fs::write(dir.path().join("model.onnx"), "not a model").unwrap();
    for path in [
        at("empty"),
        at("texts"),
        at("texts/notes.txt"),
        at("missing"),
    ] {
        let o = voxfit(&["series", &path, "--json"]);
        assert_eq!(code(&o), 65, "{path}: {}", errors(&o));
        assert_eq!(json(&o)["series"], serde_json::json!([]), "{path}");
        let text = errors(&o);
        let sentence = text.lines().last().unwrap();
        assert!(
            sentence.contains(path.rsplit('/').next().unwrap()),
            "{sentence}"
        );
        assert!(!text.contains("panicked"), "{text}");
        let out = at("r.json");
        let o = voxfit(&["run", &path, "preset:demo", "--out", &out]);
        assert_eq!(code(&o), 65, "{path}: {}", errors(&o));
        assert!(!Path::new(&out).exists());
    }
    let o = voxfit(&["network", &at("model.onnx"), "--json"]);
    assert_eq!(code(&o), 65, "{}", errors(&o));
    assert!(json(&o)["error"].as_str().unwrap().contains("model.onnx"));
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 3, "nothing half-written stays: {left:?}");
}

#[test]
fn a_run_writes_its_result_and_the_guard_refuses_one_window_over_all() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r.json").to_string_lossy().into_owned();
    let study = "phantom:64x64x48:5";
    let o = voxfit(&[
        "run",
        study,
        "preset:demo",
        "--roi-size",
        "0x0x0",
        "--out",
        &out,
    ]);
    assert_eq!(code(&o), 70, "{}", errors(&o));
    assert!(errors(&o).contains("64x64x48"));
    assert!(
        !Path::new(&out).exists(),
        "nothing is written by a refused run"
    );

    let o = voxfit(&[
        "run",
        study,
        "preset:demo",
        "--roi-size",
        "48x48x32",
        "--out",
        &out,
        "--json",
    ]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let v = json(&o);
    has(
        &v,
        &[
            "study",
            "series",
            "network",
            "plan",
            "engine",
            "precision",
            "n_windows",
            "n_passes",
            "seconds",
            "memory",
            "detections",
            "labels",
            "outputs_sha256",
            "exactness",
            "seams",
            "warnings",
        ],
    );
    has(&v["memory"], &["planned", "allocated", "measured_peak"]);
    assert_eq!(v["memory"]["planned"], v["memory"]["allocated"]);
    let file: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(file, v, "the file holds what was printed");
}

#[test]
fn what_cannot_be_written_exits_with_74_before_anything_runs() {
    let o = voxfit(&[
        "run",
        "phantom:64x64x48",
        "preset:demo",
        "--roi-size",
        "48x48x32",
        "--out",
        "/nowhere/r.json",
    ]);
    assert_eq!(code(&o), 74, "{}", errors(&o));
    assert!(errors(&o).contains("/nowhere/r.json"));
    if Path::new("/dev/full").exists() {
        let o = voxfit(&[
            "run",
            "phantom:64x64x48",
            "preset:demo",
            "--roi-size",
            "48x48x32",
            "--out",
            "/dev/full",
        ]);
        assert_eq!(code(&o), 74, "{}", errors(&o));
    }
}

#[test]
fn a_volume_is_written_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("v.nii.gz").to_string_lossy().into_owned();
    let o = voxfit(&["volume", "phantom:24x20x16", "--out", &out]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let o = voxfit(&["series", &out, "--json"]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    assert_eq!(
        json(&o)["series"][0]["size"],
        serde_json::json!([24, 20, 16])
    );
    let o = voxfit(&["volume", "phantom:24x20x16", "--out", "/nowhere/v.nii"]);
    assert_eq!(code(&o), 74, "{}", errors(&o));
    let o = voxfit(&["volume", "phantom:24x20x16", "--out", "v.png"]);
    assert_eq!(code(&o), 2, "{}", errors(&o));
}

#[test]
fn a_series_with_a_gap_or_an_unknown_step_is_not_written_as_an_even_volume() {
    let dir = tempfile::tempdir().unwrap();
    let slices = dir.path().join("slices");
    let path = slices.to_string_lossy().into_owned();
    let o = voxfit(&["volume", "phantom:24x20x6", "--out", &path]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let mut files: Vec<PathBuf> = std::fs::read_dir(&slices)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    let nii = dir.path().join("even.nii");
    let refused = |word: &str| {
        let out = nii.to_string_lossy().into_owned();
        let o = voxfit(&["volume", &path, "--out", &out, "--json"]);
        assert_eq!(code(&o), 65, "{}", errors(&o));
        assert!(errors(&o).contains(word), "{}", errors(&o));
        assert!(!nii.exists());
    };
    std::fs::remove_file(files.remove(2)).unwrap();
    refused("missing");
    for file in files.drain(1..) {
        std::fs::remove_file(file).unwrap();
    }
    refused("the distance between slices is unknown");
}

#[test]
fn a_real_series_is_described_and_its_name_stays_masked() {
    let Some(folder) = shared("data/dicom/ge_two_slices") else {
        return;
    };
    let path = folder.to_string_lossy().into_owned();
    let o = voxfit(&["series", &path, "--json"]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let v = json(&o);
    has(
        &v["series"][0],
        &[
            "uid",
            "part",
            "modality",
            "description",
            "n_files",
            "size",
            "spacing_mm",
            "origin_lps",
            "direction",
            "hu_min",
            "hu_max",
            "hu_sha256",
            "usable",
            "patient_name",
            "warnings",
        ],
    );
    assert_eq!(v["series"][0]["patient_name"], Value::Null);
    has(&v, &["skipped"]);
}

#[test]
fn a_hundred_thousand_threads_are_refused_before_the_machine_starves() {
    let o = voxfit(&[
        "run",
        "phantom:16x16x16",
        "preset:demo",
        "--threads",
        "100000",
        "--out",
        "r.json",
    ]);
    assert_eq!(code(&o), 2);
    assert!(
        errors(&o).contains("at most 1024 threads"),
        "{}",
        errors(&o)
    );
}

#[test]
fn a_phantom_written_as_a_dicom_series_reads_back_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let series = dir.path().join("series");
    let out = series.to_string_lossy().into_owned();
    let o = voxfit(&["volume", "phantom:40x40x12:3", "--out", &out]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let o = voxfit(&["series", &out, "--json"]);
    assert_eq!(code(&o), 0, "{}", errors(&o));
    let found = &json(&o)["series"][0];
    assert_eq!(found["size"], serde_json::json!([40, 40, 12]));
    assert_eq!(found["n_files"], 12);
    assert_eq!(found["usable"], true);
}
