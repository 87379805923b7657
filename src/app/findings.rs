//! What is odd about a series, in words: a short phrase for lists, one line for the strip, a row for each file and number.

use super::study::{SeriesItem, StudyState, Warning};
use std::collections::HashMap;

/// One row of the list behind the strip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// What kind it is: "gap", "skipped".
    pub what: String,
    /// The file (or the two) that it speaks of.
    pub file: String,
    /// The slice k that it speaks of, or nothing.
    pub slice: String,
    /// The number found, with its unit.
    pub found: String,
    /// The number expected, with its unit.
    pub expected: String,
    /// How many are missing, or why it was left out.
    pub note: String,
}

impl Finding {
    /// Whether any of its words holds the text (lower case).
    pub fn holds(&self, text: &str) -> bool {
        [
            &self.what,
            &self.file,
            &self.slice,
            &self.found,
            &self.expected,
            &self.note,
        ]
        .into_iter()
        .any(|s| s.to_lowercase().contains(text))
    }

    /// Its columns with tabs between them, as a spreadsheet takes them.
    pub fn line(&self) -> String {
        [
            self.what.as_str(),
            &self.file,
            &self.slice,
            &self.found,
            &self.expected,
            &self.note,
        ]
        .join("\t")
    }
}

/// The names of a finding's columns.
pub const COLUMNS: [&str; 6] = ["what", "file", "slice k", "found", "expected", "note"];

fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// A length in mm.
fn mm(v: f64) -> String {
    format!("{v:.3} mm")
}

/// A few words for a warning, with its count: "1 gap of 5.00 mm, 1 slice missing".
pub fn phrase(w: &Warning, item: &SeriesItem) -> String {
    let n = w.files.len();
    let gaps = |whole: bool| {
        item.details
            .gaps
            .iter()
            .filter(move |g| (g.missing > 0) == whole)
    };
    match w.code.as_str() {
        "missing-slices" => {
            let missing: usize = gaps(true).map(|g| g.missing).sum();
            let missing = counted(missing, "slice missing", "slices missing");
            match (gaps(true).count(), gaps(true).next()) {
                (1, Some(g)) => format!("1 gap of {:.2} mm, {missing}", g.found_mm),
                (n, _) => format!("{n} gaps, {missing}"),
            }
        }
        "uneven-steps" => counted(gaps(false).count(), "uneven step", "uneven steps"),
        "gantry-tilt" => item.details.tilt_degrees.map_or_else(
            || "gantry tilt".to_owned(),
            |[down, side]| {
                let angle = if side.abs() > down.abs() { side } else { down };
                format!("gantry tilt {:.1}\u{b0}", angle.abs())
            },
        ),
        "not-straight" => "slices beside the line".to_owned(),
        "duplicate-file" => counted(n, "file there twice", "files there twice"),
        "same-position" => counted(n, "image, same position", "images, same position"),
        "split" => "one of several volumes".to_owned(),
        "left-out" => counted(n, "image left out", "images left out"),
        "localizer" => "localizer, no volume".to_owned(),
        "not-a-volume" => "a picture, no volume".to_owned(),
        "no-position" if n > 0 => counted(n, "image without position", "images without position"),
        "no-position" => "slice positions unknown".to_owned(),
        "no-orientation" => "orientation unknown".to_owned(),
        "no-pixel-spacing" => "pixel spacing unknown".to_owned(),
        "spacing-differs" => "pixel spacing differs".to_owned(),
        "single-slice" => "one slice only".to_owned(),
        "instance-numbers" => "first instances missing".to_owned(),
        "not-hu" => "values are not HU".to_owned(),
        "rescale-slope" => "rescale slope unknown".to_owned(),
        "damaged" => counted(n, "file damaged", "files damaged"),
        "cannot-decode" => "cannot be decoded".to_owned(),
        "lossy" => "compressed with loss".to_owned(),
        "straight-grid" => "resampled to a straight grid".to_owned(),
        "inverted" => "inverted greys (MONOCHROME1)".to_owned(),
        other => other.replace('-', " "),
    }
}

/// What stands on the series' row: the first phrase, and how many more.
pub fn row_words(item: &SeriesItem) -> String {
    let mut phrases = item.warnings.iter().map(|w| phrase(w, item));
    let first = phrases.next().unwrap_or_default();
    match phrases.count() {
        0 => first,
        n => format!("{first} +{n}"),
    }
}

/// The line of the yellow strip: whether it may be run, what was skipped, each warning with its count.
pub fn strip(study: &StudyState) -> String {
    let mut parts = Vec::new();
    let item = study.selected();
    if item.is_some_and(|i| !i.usable) {
        parts.push("Not to be run".to_owned());
    }
    if !study.skipped.is_empty() {
        parts.push(counted(
            study.skipped.len(),
            "file skipped",
            "files skipped",
        ));
    }
    if let Some(item) = item {
        parts.extend(study.warnings().iter().map(|w| phrase(w, item)));
    }
    parts.join(" \u{b7} ")
}

/// A row for each file and number of the series that is shown, then one for each skipped file.
pub fn list(study: &StudyState) -> Vec<Finding> {
    let mut out = Vec::new();
    if let Some(item) = study.selected() {
        let mut slices = HashMap::new();
        for (k, s) in item.details.slices.iter().enumerate() {
            slices.entry(s.file.as_str()).or_insert(k);
        }
        for w in study.warnings() {
            of_warning(w, item, &slices, &mut out);
        }
    }
    out.extend(study.skipped.iter().map(|(file, reason)| Finding {
        what: "skipped".to_owned(),
        file: file.clone(),
        note: reason.clone(),
        ..Finding::default()
    }));
    out
}

/// Rows of a warning; `slices`: the first slice of each file.
fn of_warning(
    w: &Warning,
    item: &SeriesItem,
    slices: &HashMap<&str, usize>,
    out: &mut Vec<Finding>,
) {
    let whole = match w.code.as_str() {
        "missing-slices" => Some(true),
        "uneven-steps" => Some(false),
        _ => None,
    };
    if let Some(whole) = whole {
        for g in item
            .details
            .gaps
            .iter()
            .filter(|g| (g.missing > 0) == whole)
        {
            out.push(Finding {
                what: if whole { "gap" } else { "uneven step" }.to_owned(),
                file: g.files.join(" and "),
                slice: format!("after {}", g.after),
                found: mm(g.found_mm),
                expected: mm(g.expected_mm),
                note: if whole {
                    counted(g.missing, "slice missing", "slices missing")
                } else {
                    String::new()
                },
            });
        }
        return;
    }
    for file in &w.files {
        let k = slices.get(file.as_str());
        out.push(Finding {
            what: w.code.replace('-', " "),
            file: file.clone(),
            slice: k.map(|k| k.to_string()).unwrap_or_default(),
            ..Finding::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::SeriesRef;
    use super::super::study::VolumeState;
    use super::*;
    use crate::geometry::{Affine, Extent};
    use crate::series::{Details, Gap, SliceInfo};
    use std::sync::Arc;

    fn study(warnings: Vec<Warning>, gaps: Vec<Gap>) -> StudyState {
        let reference = SeriesRef {
            uid: "1.2".to_owned(),
            part: 1,
        };
        let item = SeriesItem {
            reference: reference.clone(),
            usable: false,
            warnings: warnings.clone(),
            details: Arc::new(Details {
                gaps,
                ..Details::default()
            }),
            ..SeriesItem::default()
        };
        StudyState {
            series: vec![item],
            skipped: vec![
                ("README".to_owned(), "a text file".to_owned()),
                ("x.zip".to_owned(), "a zip archive".to_owned()),
            ],
            chosen: Some(reference.clone()),
            volume: Some(VolumeState {
                generation: 1,
                reference,
                extent: Extent::cube(4),
                affine: Affine::axis_aligned([1.0; 3]),
                decoded: 0,
                volume: None,
                range: None,
                own_window_level: None,
                straight_grid: false,
                warnings,
            }),
            ..StudyState::default()
        }
    }

    fn warning(code: &str, files: &[&str]) -> Warning {
        Warning {
            code: code.to_owned(),
            text: String::new(),
            files: files.iter().map(|f| (*f).to_owned()).collect(),
        }
    }

    #[test]
    fn a_gap_is_told_with_both_files_both_steps_and_how_many_are_missing() {
        let s = study(
            vec![warning("missing-slices", &["a.dcm", "b.dcm"])],
            vec![Gap {
                after: 7,
                files: ["a.dcm".to_owned(), "b.dcm".to_owned()],
                found_mm: 5.0,
                expected_mm: 2.5,
                missing: 1,
            }],
        );
        assert_eq!(
            strip(&s),
            "Not to be run \u{b7} 2 files skipped \u{b7} 1 gap of 5.00 mm, 1 slice missing"
        );
        let rows = list(&s);
        assert_eq!(rows.len(), 3);
        assert_eq!(
            rows[0].line(),
            "gap\ta.dcm and b.dcm\tafter 7\t5.000 mm\t2.500 mm\t1 slice missing"
        );
        assert_eq!(rows[2].note, "a zip archive");
        assert!(rows[2].holds("zip") && !rows[0].holds("zip"));
    }

    #[test]
    fn a_file_is_told_with_its_first_slice() {
        let mut s = study(vec![warning("damaged", &["b.dcm", "none.dcm"])], Vec::new());
        let slice = |file: &str| SliceInfo {
            file: file.to_owned(),
            frame: 0,
            sop_instance_uid: String::new(),
            instance_number: None,
            position: None,
        };
        s.series[0].details = Arc::new(Details {
            slices: ["a.dcm", "b.dcm", "b.dcm"].map(slice).to_vec(),
            ..Details::default()
        });
        let rows = list(&s);
        assert_eq!((rows[0].slice.as_str(), rows[1].slice.as_str()), ("1", ""));
    }

    #[test]
    fn every_kind_of_warning_has_words_of_its_own() {
        let codes = [
            "missing-slices",
            "uneven-steps",
            "gantry-tilt",
            "not-straight",
            "duplicate-file",
            "same-position",
            "split",
            "left-out",
            "localizer",
            "not-a-volume",
            "no-position",
            "no-orientation",
            "no-pixel-spacing",
            "spacing-differs",
            "single-slice",
            "instance-numbers",
            "not-hu",
            "rescale-slope",
            "damaged",
            "cannot-decode",
            "lossy",
            "inverted",
            "straight-grid",
        ];
        let s = study(Vec::new(), Vec::new());
        let mut seen = std::collections::BTreeSet::new();
        for code in codes {
            let words = phrase(&warning(code, &[]), &s.series[0]);
            assert!(words.len() < 40, "{words}");
            assert!(seen.insert(words.clone()), "{words} twice");
        }
    }
}
