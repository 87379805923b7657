//! Slicer's markups: boxes as ROIs, points as control points, the space as the file says it.

use super::{lps, numbers, score};
use crate::detect::{Finding, Findings, Space};
use serde_json::{Value, json};

const SCHEMA: &str = "https://raw.githubusercontent.com/slicer/slicer/master/Modules/Loadable/Markups/Resources/Schema/markups-schema-v1.0.3.json#";

/// Reads all markups of the file.
pub(super) fn read(v: &Value) -> Result<Findings, String> {
    let Some(markups) = v.get("markups").and_then(Value::as_array) else {
        return Err("expected a list \"markups\"".to_owned());
    };
    let mut spaces: Vec<Space> = Vec::new();
    let mut found: Vec<(Space, Finding)> = Vec::new();
    for (i, m) in markups.iter().enumerate() {
        let within = |why: String| format!("markup {i}: {why}");
        let space = space(m).map_err(within)?;
        units(m).map_err(within)?;
        spaces.push(space);
        for f in findings(m).map_err(within)? {
            found.push((space, f));
        }
    }
    let space = spaces.first().copied().unwrap_or(Space::Unsaid);
    if spaces.iter().all(|s| *s == space) {
        let list = found.into_iter().map(|(_, f)| f).collect();
        return Ok(Findings {
            space,
            list,
            ..Findings::default()
        });
    }
    let list = found
        .into_iter()
        .map(|(s, f)| {
            s.to_lps(f.center)
                .map(|center| Finding { center, ..f })
                .ok_or_else(|| "some markups say a coordinateSystem and some do not".to_owned())
        })
        .collect::<Result<_, _>>()?;
    Ok(Findings {
        space: Space::Lps,
        list,
        ..Findings::default()
    })
}

fn space(m: &Value) -> Result<Space, String> {
    match m.get("coordinateSystem") {
        None | Some(Value::Null) => Ok(Space::Unsaid),
        Some(v) => match v
            .as_str()
            .or_else(|| v.as_u64().map(|n| if n == 1 { "LPS" } else { "RAS" }))
        {
            Some("LPS" | "1") => Ok(Space::Lps),
            Some("RAS" | "0") => Ok(Space::Ras),
            _ => Err(format!("coordinateSystem is LPS or RAS, found {v}")),
        },
    }
}

fn units(m: &Value) -> Result<(), String> {
    let text = match m.get("coordinateUnits") {
        Some(Value::Array(list)) => list.first().and_then(Value::as_str),
        Some(v) => v.as_str(),
        None => None,
    };
    match text {
        None | Some("mm") => Ok(()),
        Some(other) => Err(format!("coordinateUnits are mm, found {other}")),
    }
}

/// A score that stands among the measurements, or in a description as "score 0.93".
fn score_of(measurements: Option<&Value>, description: Option<&Value>) -> Option<f64> {
    let measured = measurements
        .and_then(Value::as_array)
        .and_then(|list| {
            let is_score =
                |m: &&Value| matches!(m.get("name").and_then(Value::as_str), Some("score"));
            list.iter().find(is_score)
        })
        .and_then(|m| m.get("value"))
        .and_then(Value::as_f64);
    let written = || {
        let text = description?.as_str()?.to_ascii_lowercase();
        let (_, rest) = text.split_once("score")?;
        let rest = rest.trim_start_matches([' ', '=', ':']);
        let end = rest
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | 'e' | '-' | '+')))
            .unwrap_or(rest.len());
        rest.get(..end)?.parse().ok()
    };
    measured.or_else(written)
}

fn findings(m: &Value) -> Result<Vec<Finding>, String> {
    let points = m.get("controlPoints").and_then(Value::as_array);
    let points: Vec<&Value> = points
        .into_iter()
        .flatten()
        .filter(|p| p.get("positionStatus").and_then(Value::as_str) != Some("undefined"))
        .collect();
    let word = |v: Option<&Value>| v.and_then(Value::as_str).unwrap_or_default().to_owned();
    let size = m
        .get("size")
        .filter(|_| m.get("type").and_then(Value::as_str) == Some("ROI"));
    if let Some(size) = size {
        let first = points.first();
        let center = match m.get("center") {
            Some(c) if !c.is_null() => numbers::<3>(c)?,
            _ => numbers::<3>(
                first
                    .and_then(|p| p.get("position"))
                    .unwrap_or(&Value::Null),
            )?,
        };
        let label = word(first.and_then(|p| p.get("label")));
        let description = first.and_then(|p| p.get("description"));
        let found = score_of(m.get("measurements"), description);
        return Ok(vec![Finding {
            label,
            score: found.map(score).transpose()?,
            center,
            size: Some(around(numbers::<3>(size)?, m.get("orientation"))?),
        }]);
    }
    points
        .into_iter()
        .map(|p| {
            let found = score_of(None, p.get("description"));
            Ok(Finding {
                label: word(p.get("label")),
                score: found.map(score).transpose()?,
                center: numbers::<3>(p.get("position").unwrap_or(&Value::Null))?,
                size: None,
            })
        })
        .collect()
}

/// The edges along the space's axes of the box around a turned one.
fn around(size: [f64; 3], orientation: Option<&Value>) -> Result<[f64; 3], String> {
    let Some(o) = orientation.filter(|o| !o.is_null()) else {
        return Ok(size);
    };
    let turn = numbers::<9>(o)?;
    let mut out = [0.0; 3];
    for (row, edge) in turn.chunks_exact(3).zip(&mut out) {
        *edge = row.iter().zip(size).map(|(t, s)| (t * s).abs()).sum();
    }
    Ok(out)
}

/// Writes one ROI for each finding (a point for one without a size), LPS.
pub(super) fn write(studies: &[Findings]) -> Result<Value, String> {
    let [study] = studies else {
        return Err(format!(
            "a file of markups is of one study, found {}",
            studies.len()
        ));
    };
    let mut markups = Vec::new();
    for f in &study.list {
        let center = lps(study, f)?;
        let description = f.score.map_or_else(String::new, |s| format!("score {s}"));
        let point = json!({
            "id": "1",
            "label": f.label,
            "description": description,
            "position": center,
            "selected": true,
            "locked": false,
            "visibility": true,
            "positionStatus": "defined",
        });
        let mut markup = json!({
            "type": if f.size.is_some() { "ROI" } else { "Fiducial" },
            "coordinateSystem": "LPS",
            "coordinateUnits": "mm",
            "controlPoints": [point],
        });
        if let Some(map) = markup.as_object_mut() {
            if let Some(size) = f.size {
                // Slicer keeps an ROI's axes in LPS with the first two turned back to RAS.
                map.insert("roiType".to_owned(), json!("Box"));
                map.insert("center".to_owned(), json!(center));
                map.insert(
                    "orientation".to_owned(),
                    json!([-1.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0]),
                );
                map.insert("size".to_owned(), json!(size));
            }
            if let Some(s) = f.score {
                let score = json!([{ "name": "score", "enabled": true, "value": s }]);
                map.insert("measurements".to_owned(), score);
            }
        }
        markups.push(markup);
    }
    Ok(json!({ "@schema": SCHEMA, "markups": markups }))
}
