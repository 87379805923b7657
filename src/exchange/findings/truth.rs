//! Our own file of findings: every study by its names, the space stated.

use super::{lps, numbers, score};
use crate::detect::{Finding, Findings, Space};
use serde_json::{Value, json};

/// The word by which the file is known.
pub(super) const WORD: &str = "findings";

/// Reads all studies.
pub(super) fn read(v: &Value) -> Result<Vec<Findings>, String> {
    if v.get("format").and_then(Value::as_u64) != Some(1) {
        return Err("expected format 1; use a newer Voxfit or write the file again".to_owned());
    }
    let space: Space = match v.get("space").and_then(Value::as_str) {
        Some(word) => word.parse()?,
        None => Space::Unsaid,
    };
    let studies = v.get("studies").and_then(Value::as_array);
    let studies = studies.ok_or("expected a list \"studies\"")?;
    studies.iter().map(|s| study(s, space)).collect()
}

fn study(v: &Value, space: Space) -> Result<Findings, String> {
    let list = |key: &str| v.get(key).and_then(Value::as_array).map(Vec::as_slice);
    let names = list("names").unwrap_or_default();
    let findings = list("findings").unwrap_or_default();
    Ok(Findings {
        names: names
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        space,
        list: findings.iter().map(finding).collect::<Result<_, _>>()?,
        notes: Vec::new(),
    })
}

fn finding(v: &Value) -> Result<Finding, String> {
    let some = |key: &str| v.get(key).filter(|v| !v.is_null());
    Ok(Finding {
        label: v
            .get("label")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        score: some("score")
            .map(|s| super::number(s).and_then(score))
            .transpose()?,
        center: numbers::<3>(v.get("center").unwrap_or(&Value::Null))?,
        size: some("size").map(numbers::<3>).transpose()?,
    })
}

/// Writes all studies in LPS.
pub(super) fn write(studies: &[Findings]) -> Result<Value, String> {
    let mut out = Vec::new();
    for s in studies {
        let mut findings = Vec::new();
        for f in &s.list {
            findings.push(json!({
                "label": f.label,
                "score": f.score,
                "center": lps(s, f)?,
                "size": f.size,
            }));
        }
        out.push(json!({ "names": s.names, "findings": findings }));
    }
    Ok(json!({ "voxfit": WORD, "format": 1, "space": "LPS", "studies": out }))
}
