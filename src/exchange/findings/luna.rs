//! LUNA16's CSV: one line for each finding, world mm. The challenge defines them as ITK's, which is LPS.

use super::{ByStudy, lps, score};
use crate::detect::{Finding, Findings, Space};

fn column(heads: &csv::StringRecord, names: &[&str]) -> Option<usize> {
    heads
        .iter()
        .position(|h| names.contains(&h.trim().to_ascii_lowercase().as_str()))
}

/// Reads the lines of all series.
pub(super) fn read(text: &str) -> Result<Vec<Findings>, String> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let heads = reader.headers().map_err(|e| e.to_string())?.clone();
    let need = |names: &[&str]| {
        column(&heads, names).ok_or_else(|| {
            format!(
                "expected the columns seriesuid, coordX, coordY, coordZ and diameter_mm or probability, found {}",
                heads.iter().collect::<Vec<_>>().join(", ")
            )
        })
    };
    let uid = need(&["seriesuid"])?;
    let place = [need(&["coordx"])?, need(&["coordy"])?, need(&["coordz"])?];
    let diameter = column(&heads, &["diameter_mm", "diameter"]);
    let edges = ["w", "h", "d"].map(|n| column(&heads, &[n]));
    let probability = column(&heads, &["probability", "score"]);
    let label = column(&heads, &["label", "class"]);
    let mut studies = ByStudy::default();
    for (n, record) in reader.records().enumerate() {
        let line = n + 2;
        let record = record.map_err(|e| e.to_string())?;
        let value = |c: usize| -> Result<f64, String> {
            let text = record.get(c).unwrap_or_default();
            match text.parse::<f64>() {
                Ok(v) if v.is_finite() => Ok(v),
                _ => Err(format!("line {line}: expected a number, found \"{text}\"")),
            }
        };
        let length = |c: usize| {
            let mm = value(c)?;
            if mm > 0.0 {
                Ok(mm)
            } else {
                Err(format!("line {line}: a size is above 0 mm, found {mm}"))
            }
        };
        let size = match (diameter, edges) {
            (_, [Some(w), Some(h), Some(d)]) => Some([length(w)?, length(h)?, length(d)?]),
            (Some(c), _) if !record.get(c).unwrap_or_default().is_empty() => Some([length(c)?; 3]),
            _ => None,
        };
        let [x, y, z] = place;
        let finding = Finding {
            label: label
                .and_then(|c| record.get(c))
                .unwrap_or_default()
                .to_owned(),
            score: match probability {
                Some(c) => Some(score(value(c)?).map_err(|why| format!("line {line}: {why}"))?),
                None => None,
            },
            center: [value(x)?, value(y)?, value(z)?],
            size,
        };
        let name = record.get(uid).unwrap_or_default();
        if let Some(study) = studies.study(name) {
            study.space = Space::Lps;
            study.list.push(finding);
        }
    }
    Ok(studies.order)
}

/// Writes the lines of all studies; a box becomes a sphere of its mean edge.
pub(super) fn write(studies: &[Findings]) -> Result<String, String> {
    let mut out = csv::Writer::from_writer(Vec::new());
    let heads = [
        "seriesuid",
        "coordX",
        "coordY",
        "coordZ",
        "diameter_mm",
        "probability",
        "label",
    ];
    out.write_record(heads).map_err(|e| e.to_string())?;
    for study in studies {
        let name = study.names.first().map_or("", String::as_str);
        for f in &study.list {
            let [x, y, z] = lps(study, f)?;
            let diameter = f.size.map(|s| s.iter().sum::<f64>() / 3.0);
            let text = |v: Option<f64>| v.map(|v| v.to_string()).unwrap_or_default();
            let record = [
                name.to_owned(),
                x.to_string(),
                y.to_string(),
                z.to_string(),
                text(diameter),
                text(f.score),
                f.label.clone(),
            ];
            out.write_record(&record).map_err(|e| e.to_string())?;
        }
    }
    let bytes = out.into_inner().map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|e| e.to_string())
}
