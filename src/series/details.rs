//! What a series is made of beyond its one line: steps and gaps, tilt, how pixels are stored, where each slice comes from.

use super::dataset::DataSet;
use super::element::Walker;
use super::frames::norm;
use super::group::{height, normal};
use super::header::find_start;
use super::steps::{is_common, leans, times};
use super::{SeriesInfo, SliceInfo, WarningCode};
use crate::geometry::cross;
use dicom_encoding::transfer_syntax::TransferSyntaxIndex as _;
use dicom_transfer_syntax_registry::TransferSyntaxRegistry;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

/// Headers are looked through for texts this far; all texts of interest come long before.
const TEXTS_WITHIN: u64 = 4 << 20;
/// Different rescales listed; a series with one for each slice says how many there are.
const RESCALES: usize = 16;

/// Facts of a series as its headers tell them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Details {
    /// What the spacing in the plane and between slices was taken from; `unknown` where nothing says it.
    pub spacing_source: [String; 2],
    /// Whether the files say which way rows and columns run.
    pub orientation_known: bool,
    /// Lean of the slices against their step in degrees, down the columns and along the rows; `None` where unknown.
    pub tilt_degrees: Option<[f64; 2]>,
    /// Steps from slice to slice, equal neighbours taken together.
    pub steps: Vec<StepRun>,
    /// Steps that are not the common one.
    pub gaps: Vec<Gap>,
    /// How pixel data is encoded, commonest first.
    pub transfer_syntaxes: Vec<Syntax>,
    /// How a pixel is stored; `None` for volumes that are no DICOM.
    pub pixels: Option<StoredPixels>,
    /// The different slopes and intercepts, commonest first (at most sixteen).
    pub rescales: Vec<Rescale>,
    /// How many different ones there are.
    pub n_rescales: usize,
    /// Centre and width that the files propose, HU.
    pub window: Option<[f64; 2]>,
    /// Where each slice comes from, in order of k.
    pub slices: Vec<SliceInfo>,
}

/// Equal steps one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepRun {
    /// The slice before the first of them.
    pub after: usize,
    /// How many there are.
    pub n: usize,
    /// Along the normal, mm, to a thousandth.
    pub mm: f64,
}

/// A step that is not the common one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// The slice before it.
    pub after: usize,
    /// The files before and after it.
    pub files: [String; 2],
    /// As measured along the normal, mm.
    pub found_mm: f64,
    /// The common step, mm.
    pub expected_mm: f64,
    /// Slices that are missing in it; 0 where it is no whole number of steps.
    pub missing: usize,
}

/// An encoding and how many slices have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Syntax {
    /// Its UID; empty where the file has none.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Slices stored so.
    pub n: usize,
}

/// How a pixel of the first slice is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoredPixels {
    /// Bits a pixel takes.
    pub bits_allocated: u32,
    /// Bits of it that are its value.
    pub bits_stored: u32,
    /// The highest of them.
    pub high_bit: u32,
    /// Whether values have a sign.
    pub signed: bool,
    /// What values mean, such as MONOCHROME2.
    pub photometric: String,
    /// Stored values that stand for no data, both ends inclusive.
    pub padding: Option<[i64; 2]>,
}

/// A slope and an intercept, and how many slices have them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rescale {
    /// Factor.
    pub slope: f64,
    /// Added after it.
    pub intercept: f64,
    /// Slices with it.
    pub n: usize,
}

/// What a text of the header is about, and so who may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TextGroup {
    /// The patient.
    Patient,
    /// The study.
    Study,
    /// The series.
    Series,
}

/// A text of the header. All of them may hold names: show them only when asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeaderText {
    /// What it is about.
    pub group: TextGroup,
    /// Its name in words.
    pub label: &'static str,
    /// The text, in any script.
    pub value: String,
}

impl SeriesInfo {
    /// Facts of the series as its headers tell them.
    pub fn details(&self) -> Details {
        let first = self
            .slices
            .first()
            .map(|s| s.plane().clone())
            .unwrap_or_default();
        let said = |known: bool, by: &str| if known { by } else { "unknown" }.to_owned();
        let mm = self.steps_along_normal();
        let rescales = self.rescales();
        Details {
            spacing_source: [
                said(self.spacing_mm[0].is_some(), "PixelSpacing"),
                said(self.spacing_mm[2].is_some(), "slice positions"),
            ],
            orientation_known: first.row.is_some() && first.column.is_some(),
            tilt_degrees: self.tilt(),
            gaps: self.gaps(&mm),
            steps: runs(&mm),
            transfer_syntaxes: self.syntaxes(),
            pixels: self.slices.first().map(|s| {
                let p = &s.file.pixels;
                StoredPixels {
                    bits_allocated: p.bits_allocated,
                    bits_stored: p.bits_stored,
                    high_bit: p.high_bit,
                    signed: p.signed,
                    photometric: p.photometric.clone(),
                    padding: p.padding.map(|(a, b)| [a, b]),
                }
            }),
            n_rescales: rescales.len(),
            rescales: rescales.into_iter().take(RESCALES).collect(),
            window: self.window.map(|(c, w)| [c, w]),
            slices: self.slice_infos(),
        }
    }

    /// Patient, study and series texts of the first slice's file, decoded in its character set.
    pub fn texts(&self) -> Vec<HeaderText> {
        self.slices
            .first()
            .map_or_else(Vec::new, |s| texts_of(&s.file.path))
    }

    fn steps_along_normal(&self) -> Vec<f64> {
        let Some(normal) = self.slices.first().and_then(normal) else {
            return Vec::new();
        };
        let heights: Option<Vec<f64>> = self.slices.iter().map(|s| height(s, normal)).collect();
        heights.map_or_else(Vec::new, |h| {
            h.iter().zip(h.iter().skip(1)).map(|(a, b)| b - a).collect()
        })
    }

    fn gaps(&self, mm: &[f64]) -> Vec<Gap> {
        let told = self.warnings.iter().any(|w| {
            matches!(
                w.code,
                WarningCode::MissingSlices | WarningCode::UnevenSteps
            )
        });
        let (true, Some(expected_mm)) = (told, self.spacing_mm[2]) else {
            return Vec::new();
        };
        let name = |k: usize| self.slices.get(k).map(|s| s.file.name.clone());
        mm.iter()
            .enumerate()
            .filter(|(_, found)| !is_common(**found, expected_mm))
            .filter_map(|(after, &found_mm)| {
                Some(Gap {
                    after,
                    files: [name(after)?, name(after + 1)?],
                    found_mm,
                    expected_mm,
                    missing: times(found_mm, expected_mm).map_or(0, |n| count(n) - 1),
                })
            })
            .collect()
    }

    fn tilt(&self) -> Option<[f64; 2]> {
        self.spacing_mm[2]?;
        let [a, b, c, d, e, f, ..] = self.direction;
        let (row, column) = ([a, b, c], [d, e, f]);
        if norm(self.step_mm) <= 0.0 {
            return None;
        }
        let degrees = leans(self.step_mm, cross(row, column), [column, row]);
        // No minus zero.
        Some(degrees.map(|d| if d.abs() < 5e-3 { 0.0 } else { d }))
    }

    fn syntaxes(&self) -> Vec<Syntax> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for s in &self.slices {
            *counts.entry(s.file.transfer_syntax.as_str()).or_default() += 1;
        }
        let mut out: Vec<Syntax> = counts
            .into_iter()
            .map(|(uid, n)| Syntax {
                uid: uid.to_owned(),
                name: syntax_name(uid),
                n,
            })
            .collect();
        out.sort_by_key(|s| std::cmp::Reverse(s.n));
        out
    }

    fn rescales(&self) -> Vec<Rescale> {
        let mut counts: BTreeMap<(u64, u64), Rescale> = BTreeMap::new();
        for (slope, intercept) in self.slices.iter().filter_map(|s| s.plane().rescale) {
            counts
                .entry((slope.to_bits(), intercept.to_bits()))
                .or_insert(Rescale {
                    slope,
                    intercept,
                    n: 0,
                })
                .n += 1;
        }
        let mut out: Vec<Rescale> = counts.into_values().collect();
        out.sort_by_key(|r| std::cmp::Reverse(r.n));
        out
    }
}

/// A small whole number, clamped.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..1e9 before the cast"
)]
fn count(x: f64) -> usize {
    x.clamp(0.0, 1e9) as usize
}

fn runs(mm: &[f64]) -> Vec<StepRun> {
    let mut out: Vec<StepRun> = Vec::new();
    for (after, step) in mm.iter().enumerate() {
        let mm = (step * 1000.0).round() / 1000.0;
        match out.last_mut() {
            Some(last) if (last.mm - mm).abs() < 5e-4 => last.n += 1,
            _ => out.push(StepRun { after, n: 1, mm }),
        }
    }
    out
}

fn syntax_name(uid: &str) -> String {
    match uid {
        "" => "not said".to_owned(),
        "1.2.840.113619.5.2" => "GE private, big-endian pixels".to_owned(),
        _ => TransferSyntaxRegistry
            .get(uid)
            .map_or_else(|| "unknown".to_owned(), |t| t.name().to_owned()),
    }
}

fn texts_of(path: &Path) -> Vec<HeaderText> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?
            .take(TEXTS_WITHIN)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let Ok(bytes) = read() else {
        return Vec::new();
    };
    let Ok(start) = find_start(&bytes) else {
        return Vec::new();
    };
    let inflated;
    let (set, at) = if start.syntax == "1.2.840.10008.1.2.1.99" {
        let deflated = bytes.get(start.at..).unwrap_or_default();
        let mut texts = Vec::new();
        // The file may go on beyond what was read of it: what inflates is what there is.
        let _cut = flate2::read::DeflateDecoder::new(deflated)
            .take(TEXTS_WITHIN)
            .read_to_end(&mut texts);
        inflated = texts;
        (inflated.as_slice(), 0)
    } else {
        (bytes.as_slice(), start.at)
    };
    let mut walker = Walker::new(set, at, start.encoding);
    let mut set = DataSet::default();
    // A header that goes on beyond what was read has given its texts by then.
    let _partly = set.read_until(&mut walker, |tag| tag >> 16 > 0x0020);
    let charset = set.codes(0x0008_0005);
    TEXTS
        .iter()
        .filter_map(|&(group, label, tag)| {
            Some(HeaderText {
                group,
                label,
                value: set.text(tag, &charset)?,
            })
        })
        .collect()
}

const TEXTS: [(TextGroup, &str, u32); 18] = [
    (TextGroup::Patient, "Name", 0x0010_0010),
    (TextGroup::Patient, "ID", 0x0010_0020),
    (TextGroup::Patient, "Birth date", 0x0010_0030),
    (TextGroup::Patient, "Sex", 0x0010_0040),
    (TextGroup::Patient, "Age", 0x0010_1010),
    (TextGroup::Study, "Study", 0x0008_1030),
    (TextGroup::Study, "Study date", 0x0008_0020),
    (TextGroup::Study, "Accession", 0x0008_0050),
    (TextGroup::Study, "Institution", 0x0008_0080),
    (TextGroup::Study, "Study UID", 0x0020_000D),
    (TextGroup::Series, "Series", 0x0008_103E),
    (TextGroup::Series, "Series number", 0x0020_0011),
    (TextGroup::Series, "Protocol", 0x0018_1030),
    (TextGroup::Series, "Body part", 0x0018_0015),
    (TextGroup::Series, "Position", 0x0018_5100),
    (TextGroup::Series, "Kernel", 0x0018_1210),
    (TextGroup::Series, "Manufacturer", 0x0008_0070),
    (TextGroup::Series, "Scanner", 0x0008_1090),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_steps_are_told_as_one_run() {
        let runs = runs(&[1.0, 1.000_1, 3.0, 1.0]);
        let told: Vec<(usize, usize, f64)> = runs.iter().map(|r| (r.after, r.n, r.mm)).collect();
        assert_eq!(told, [(0, 2, 1.0), (2, 1, 3.0), (3, 1, 1.0)]);
    }

    #[test]
    fn encodings_have_names_a_person_knows() {
        assert!(syntax_name("1.2.840.10008.1.2.1").contains("Explicit"));
        assert!(syntax_name("1.2.840.10008.1.2.4.70").contains("JPEG"));
        assert_eq!(syntax_name(""), "not said");
    }
}
