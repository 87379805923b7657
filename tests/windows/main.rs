//! Windows, weights, stitching and boxes against the handed reference cases of MONAI (../shared/data/networks).

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

#[path = "../../src/random_cases.rs"]
mod random_cases;
mod runs;

use serde_json::Value;
use std::path::{Path, PathBuf};
use voxfit::detect::{self, AnchorSpec, BoxSelector, LevelMaps};
use voxfit::tiling::{self, AxesOrder, Blend, Facts, Layout, TilingSpec, importance};

fn networks() -> Option<PathBuf> {
    let root = std::env::var_os("VOXFIT_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let dir = root.join("data/networks");
    if dir.is_dir() {
        Some(dir)
    } else {
        println!("skipped: {} is not there", dir.display());
        None
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn floats(path: &Path) -> (Vec<usize>, Vec<f32>) {
    let file = npyz::NpyFile::new(std::fs::File::open(path).unwrap()).unwrap();
    let shape = file.shape().iter().map(|&n| to_usize(n)).collect();
    (shape, file.into_vec::<f32>().unwrap())
}

fn ints(path: &Path) -> Vec<usize> {
    let file = npyz::NpyFile::new(std::fs::File::open(path).unwrap()).unwrap();
    let values = file.into_vec::<i32>().unwrap();
    values.into_iter().map(|v| v.try_into().unwrap()).collect()
}

fn to_usize(n: u64) -> usize {
    n.try_into().unwrap()
}

fn triple(v: &Value) -> [usize; 3] {
    let list: Vec<usize> = v
        .as_array()
        .unwrap()
        .iter()
        .map(|n| usize::try_from(n.as_i64().unwrap()).unwrap_or(0))
        .collect();
    list.try_into().unwrap()
}

fn monai(roi: [usize; 3], overlap: [f64; 3], blend: Blend) -> TilingSpec {
    TilingSpec {
        roi_size: roi.into(),
        overlap,
        blend,
        layout: Layout::Monai,
    }
}

#[test]
fn every_handed_window_lies_where_monai_puts_it() {
    let Some(dir) = networks() else { return };
    let cases = json(&dir.join("windows.json"));
    let facts = Facts::unknown(AxesOrder::Xyz);
    for case in cases["windows"].as_array().unwrap() {
        let overlap: Vec<f64> = case["overlap"]
            .as_array()
            .unwrap()
            .iter()
            .map(|o| o.as_f64().unwrap())
            .collect();
        let spec = monai(
            triple(&case["roi"]),
            overlap.try_into().unwrap(),
            Blend::Constant,
        );
        let plan = tiling::plan(&spec, triple(&case["image"]).into(), &facts).unwrap();
        let said = format!("{} {}", case["image"], case["roi"]);
        assert_eq!(
            plan.padded.to_array(),
            triple(&case["padded_image"]),
            "{said}"
        );
        for a in 0..3 {
            let pad = &case["pad_before_after"][a];
            assert_eq!(pad[0].as_u64(), Some(plan.pad_before[a] as u64), "{said}");
            let starts: Vec<usize> = case["starts_per_axis"][a]
                .as_array()
                .unwrap()
                .iter()
                .map(|s| to_usize(s.as_u64().unwrap()))
                .collect();
            assert_eq!(plan.starts[a], starts, "{said}");
        }
        assert_eq!(
            case["num_windows"].as_u64(),
            Some(plan.n_windows() as u64),
            "{said}"
        );
        let (first, last) = (
            case["first"].as_array().unwrap(),
            case["last"].as_array().unwrap(),
        );
        for (w, want) in plan.windows.iter().zip(first) {
            assert_eq!(w.roi.min, triple(want), "{said}");
        }
        for (w, want) in plan.windows.iter().rev().zip(last.iter().rev()) {
            assert_eq!(w.roi.min, triple(want), "{said}");
        }
    }
}

#[test]
fn importance_maps_agree_with_monai_to_a_millionth() {
    let Some(dir) = networks() else { return };
    let dir = dir.join("importance");
    for case in json(&dir.join("importance.json")).as_array().unwrap() {
        let roi = triple(&case["roi"]);
        let map = importance::map(roi, Blend::Gaussian, case["sigma_scale"].as_f64().unwrap());
        let at = |i: [usize; 3]| f64::from(map[(i[0] * roi[1] + i[1]) * roi[2] + i[2]]);
        for a in 0..3 {
            let line = case[format!("line{a}")].as_array().unwrap();
            for (i, want) in line.iter().enumerate() {
                let mut p = roi.map(|n| n / 2);
                p[a] = i;
                assert!(
                    (at(p) - want.as_f64().unwrap()).abs() <= 1e-6,
                    "{roi:?} {p:?}"
                );
            }
        }
        let mean = map.iter().map(|&v| f64::from(v)).sum::<f64>() / map.len() as f64;
        assert!((mean - case["mean"].as_f64().unwrap()).abs() <= 1e-6);
        if let Some(file) = case["file"].as_str() {
            let (_, want) = floats(&dir.join(file));
            for (got, want) in map.iter().zip(&want) {
                assert!((got - want).abs() <= 1e-6, "{file}");
            }
        }
    }
}

struct Head {
    case: Value,
    anchors: AnchorSpec,
    selector: BoxSelector,
    classes: usize,
    padded: [usize; 3],
    image: [usize; 3],
}

fn head(dir: &Path) -> Head {
    let case = json(&dir.join("case.json"));
    let shapes = case["anchors"]["base_anchor_shapes"].as_array().unwrap();
    let scales = case["anchors"]["feature_map_scales"].as_array().unwrap();
    let s = &case["box_selector"];
    let count = |v: &Value| to_usize(v.as_u64().unwrap());
    #[expect(clippy::cast_possible_truncation, reason = "thresholds are float32")]
    let share = |v: &Value| v.as_f64().unwrap() as f32;
    Head {
        anchors: AnchorSpec {
            base_shapes: shapes.iter().map(|s| triple(s).map(|n| n as f64)).collect(),
            level_scales: scales.iter().map(|s| s.as_f64().unwrap()).collect(),
        },
        selector: BoxSelector {
            score_thresh: share(&s["score_thresh"]),
            topk_candidates_per_level: count(&s["topk_candidates_per_level"]),
            nms_thresh: share(&s["nms_thresh"]),
            detections_per_img: count(&s["detections_per_img"]),
        },
        classes: count(&case["num_classes"]),
        padded: triple(&case["padded"]),
        image: triple(&case["image"]),
        case,
    }
}

/// Shape and values of the class logits and the box regression of one level.
type OwnedMaps = ((Vec<usize>, Vec<f32>), (Vec<usize>, Vec<f32>));

fn maps(run: &Path) -> Vec<OwnedMaps> {
    (0..3)
        .map(|l| {
            (
                floats(&run.join(format!("cls_{l}.npy"))),
                floats(&run.join(format!("box_{l}.npy"))),
            )
        })
        .collect()
}

fn borrowed(owned: &[OwnedMaps]) -> Vec<LevelMaps<'_>> {
    owned
        .iter()
        .map(|(c, b)| LevelMaps {
            grid: [c.0[2], c.0[3], c.0[4]],
            class_logits: &c.1,
            box_regression: &b.1,
        })
        .collect()
}

fn assert_boxes(got: &[[f32; 6]], want: &[f32], said: &str) {
    assert_eq!(got.len() * 6, want.len(), "{said}: number of boxes");
    for (i, (g, w)) in got.iter().flatten().zip(want).enumerate() {
        assert!(
            (g - w).abs() <= 1e-3,
            "{said}: box {} is {g}, not {w}",
            i / 6
        );
    }
}

#[test]
fn handed_head_maps_give_the_boxes_that_monai_finds() {
    let Some(dir) = networks() else { return };
    for name in [
        "detector_small_a",
        "detector_small_few",
        "detector_small_pad",
    ] {
        let case_dir = dir.join(name);
        let h = head(&case_dir);
        for run in h.case["runs"].as_array().unwrap() {
            let run_dir = case_dir.join(run["run"].as_str().unwrap());
            let said = run_dir.display().to_string();
            let owned = maps(&run_dir);
            let levels = borrowed(&owned);
            let found = detect::candidates(
                &levels,
                &h.anchors,
                h.classes,
                h.padded,
                h.image,
                &h.selector,
            )
            .unwrap();
            check_candidates(&found.boxes, &run_dir, &said);
            let kept = detect::suppress(
                &found.boxes,
                h.selector.nms_thresh,
                h.selector.detections_per_img,
            );
            let corners: Vec<[f32; 6]> = kept.iter().map(|&i| found.boxes[i].corners).collect();
            let scores: Vec<f32> = kept.iter().map(|&i| found.boxes[i].score).collect();
            assert_boxes(&corners, &floats(&run_dir.join("det_boxes.npy")).1, &said);
            for (g, w) in scores.iter().zip(floats(&run_dir.join("det_scores.npy")).1) {
                assert!((g - w).abs() <= 1e-5, "{said}: score {g}, not {w}");
            }
            let labels: Vec<usize> = kept.iter().map(|&i| found.boxes[i].label).collect();
            assert_eq!(labels, ints(&run_dir.join("det_labels.npy")), "{said}");
        }
    }
}

/// The same candidates as handed; near-ties may swap places, so each is looked up by its level and index.
fn check_candidates(got: &[detect::Candidate], run: &Path, said: &str) {
    let levels = ints(&run.join("cand_level.npy"));
    let indices = ints(&run.join("cand_index_in_level.npy"));
    let boxes = floats(&run.join("cand_boxes_clipped.npy")).1;
    let scores = floats(&run.join("cand_scores.npy")).1;
    assert_eq!(got.len(), levels.len(), "{said}: number of candidates");
    for i in 0..levels.len() {
        let at = got
            .iter()
            .find(|c| c.level == levels[i] && c.index_in_level == indices[i])
            .unwrap_or_else(|| panic!("{said}: candidate {i} is missing"));
        assert!((at.score - scores[i]).abs() <= 1e-5, "{said}: {i}");
        assert_boxes(&[at.corners], &boxes[i * 6..i * 6 + 6], said);
    }
}

#[test]
fn anchors_and_decoded_boxes_are_monais() {
    let Some(dir) = networks() else { return };
    for name in ["detector_small_a", "detector_small_pad"] {
        let case_dir = dir.join(name);
        let h = head(&case_dir);
        let owned = maps(&case_dir.join("whole"));
        let (mut anchors, mut decoded) = (Vec::new(), Vec::new());
        for (l, maps) in borrowed(&owned).iter().enumerate() {
            let level = h.anchors.level(l, maps.grid, h.padded).unwrap();
            anchors.extend((0..level.len()).map(|i| level.corners(i)));
            decoded.extend(detect::decode_level(&level, maps));
        }
        let want = floats(&case_dir.join("anchors.npy")).1;
        assert_eq!(anchors.as_flattened(), want.as_slice(), "{name}");
        let want = floats(&case_dir.join("whole/decoded_boxes.npy")).1;
        assert_boxes(&decoded, &want, name);
    }
}
