//! MONAI's detection JSON: a list of images, or lists of them under training, validation, testing; boxes as cccwhd unless the
//! file says xyzxyz. MONAI writes no space: a file that does not state one has none.

use super::{lps, names_of, number, numbers, score};
use crate::detect::{Finding, Findings, Space};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const SPACE_KEYS: [&str; 4] = ["space", "coordinate_system", "coordinateSystem", "world"];
const BOX_KEYS: [&str; 4] = ["box", "boxes", "pred_box", "pred_boxes"];
const LABEL_KEYS: [&str; 4] = ["label", "labels", "pred_label", "pred_labels"];
const SCORE_KEYS: [&str; 7] = [
    "score",
    "scores",
    "label_scores",
    "label_score",
    "pred_score",
    "pred_scores",
    "probability",
];

fn pick<'a>(v: &'a Value, keys: &[&str]) -> Option<&'a Value> {
    keys.iter().find_map(|k| v.get(k))
}

fn is_entry(v: &Value) -> bool {
    pick(v, &BOX_KEYS).is_some()
}

/// Reads all images of the file.
pub(super) fn read(v: &Value) -> Result<Vec<Findings>, String> {
    let mut entries: Vec<&Value> = Vec::new();
    let mut lists = 0;
    if is_entry(v) {
        entries.push(v);
    } else if let Some(list) = v.as_array() {
        (lists, entries) = (1, list.iter().collect());
    } else if let Some(map) = v.as_object() {
        for list in map.values().filter_map(Value::as_array) {
            if list.iter().all(is_entry) {
                lists += 1;
                entries.extend(list);
            }
        }
    }
    if entries.iter().any(|e| !is_entry(e)) || (entries.is_empty() && lists == 0) {
        return Err("expected images with a \"box\" list each, found other keys".to_owned());
    }
    let names: Vec<String> = v
        .get("label_names")
        .and_then(Value::as_array)
        .map(|l| {
            l.iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        })
        .unwrap_or_default();
    entries.iter().map(|e| entry(e, v, &names)).collect()
}

fn text<'a>(entry: &'a Value, file: &'a Value, keys: &[&str]) -> Option<&'a str> {
    let found = pick(entry, keys).or_else(|| pick(file, keys))?;
    found.as_str()
}

fn entry(e: &Value, file: &Value, label_names: &[String]) -> Result<Findings, String> {
    let image = match e.get("image").or_else(|| e.get("image_name")) {
        Some(Value::Array(list)) => list.first().and_then(Value::as_str),
        Some(v) => v.as_str(),
        None => None,
    };
    let within = |why: String| match image {
        Some(name) => format!("image {name}: {why}"),
        None => why,
    };
    let space = match text(e, file, &SPACE_KEYS) {
        Some(word) => word.parse::<Space>().map_err(&within)?,
        None => Space::Unsaid,
    };
    let corners = match text(e, file, &["box_mode", "mode"]) {
        None | Some("cccwhd") => false,
        Some("xyzxyz") => true,
        Some(other) => {
            return Err(within(format!(
                "boxes are cccwhd or xyzxyz, found \"{other}\""
            )));
        }
    };
    let boxes = list(pick(e, &BOX_KEYS), "boxes").map_err(&within)?;
    // One box may stand alone, without a list around it.
    let alone = boxes.first().is_some_and(|b| !b.is_array());
    let whole = pick(e, &BOX_KEYS).cloned().unwrap_or_default();
    let boxes: Vec<&Value> = if alone {
        vec![&whole]
    } else {
        boxes.iter().collect()
    };
    let labels = list(pick(e, &LABEL_KEYS), "labels").map_err(&within)?;
    let scores = list(pick(e, &SCORE_KEYS), "scores").map_err(&within)?;
    for (what, n) in [("labels", labels.len()), ("scores", scores.len())] {
        if n != 0 && n != boxes.len() {
            return Err(within(format!("{} boxes and {n} {what}", boxes.len())));
        }
    }
    let mut findings = Vec::with_capacity(boxes.len());
    for (i, b) in boxes.iter().enumerate() {
        let within = |why: String| within(format!("finding {i}: {why}"));
        let (center, size) = placed(b, corners).map_err(&within)?;
        findings.push(Finding {
            label: labels
                .get(i)
                .map(|l| label(l, label_names))
                .unwrap_or_default(),
            score: match scores.get(i) {
                Some(s) => Some(
                    number(s)
                        .and_then(score)
                        .map_err(|why| within(format!("score: {why}")))?,
                ),
                None => None,
            },
            center,
            size: size.iter().any(|s| *s > 0.0).then_some(size),
        });
    }
    Ok(Findings {
        names: image.map(names_of).unwrap_or_default(),
        space,
        list: findings,
        notes: Vec::new(),
    })
}

fn list<'a>(v: Option<&'a Value>, what: &str) -> Result<&'a [Value], String> {
    match v {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(a)) => Ok(a),
        Some(other) => Err(format!("expected a list of {what}, found {other}")),
    }
}

fn placed(b: &Value, corners: bool) -> Result<([f64; 3], [f64; 3]), String> {
    let [a, b, c, d, e, f] = numbers::<6>(b)?;
    let (center, size) = if corners {
        (
            [0.5 * (a + d), 0.5 * (b + e), 0.5 * (c + f)],
            [d - a, e - b, f - c],
        )
    } else {
        ([a, b, c], [d, e, f])
    };
    if size.iter().any(|s| *s < 0.0) {
        return Err(format!("a box has an edge below 0: {size:?}"));
    }
    Ok((center, size))
}

fn label(v: &Value, names: &[String]) -> String {
    let name = v
        .as_u64()
        .and_then(|i| usize::try_from(i).ok())
        .and_then(|i| names.get(i));
    match (name, v) {
        (Some(name), _) => name.clone(),
        (None, Value::String(s)) => s.clone(),
        (None, other) => other.to_string(),
    }
}

/// Writes the images under `validation`, as MONAI's own evaluation reads them, with the space and the mode stated beside.
pub(super) fn write(studies: &[Findings]) -> Result<Value, String> {
    let names: BTreeSet<&str> = studies
        .iter()
        .flat_map(|s| s.list.iter().map(|f| f.label.as_str()))
        .collect();
    let mut entries = Vec::new();
    for study in studies {
        let mut boxes = Vec::new();
        for f in &study.list {
            let [x, y, z] = lps(study, f)?;
            let [w, h, d] = f.size.unwrap_or([0.0; 3]);
            boxes.push(json!([x, y, z, w, h, d]));
        }
        let label = |f: &Finding| names.iter().position(|n| *n == f.label);
        let mut entry = json!({
            "image": study.names.first(),
            "box": boxes,
            "label": study.list.iter().map(label).collect::<Vec<_>>(),
        });
        if study.list.iter().any(|f| f.score.is_some())
            && let Some(map) = entry.as_object_mut()
        {
            let scores: Vec<f64> = study.list.iter().map(|f| f.score.unwrap_or(1.0)).collect();
            map.insert("score".to_owned(), json!(scores));
        }
        entries.push(entry);
    }
    Ok(json!({
        "coordinate_system": "LPS",
        "box_mode": "cccwhd",
        "label_names": names,
        "validation": entries,
    }))
}
