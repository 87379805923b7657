//! Findings of other programs, read and written: MONAI's detection JSON, LUNA16's CSV, Slicer's markups, and our own truth.
//! The space of the numbers is what the file says; where it says nothing, that is what is told.

mod luna;
mod markups;
mod monai;
#[cfg(test)]
mod tests;
mod truth;

use super::result::{ResultError, write_beside};
use crate::detect::{Finding, Findings};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What kind of file holds findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A result of `voxfit run`.
    Result,
    /// MONAI's detection JSON: boxes as cccwhd.
    Monai,
    /// LUNA16's CSV: world mm.
    Luna,
    /// Slicer's markups.
    Markups,
    /// Our own truth.
    Truth,
}

impl Kind {
    /// What it is called in a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Result => "a result of voxfit run",
            Self::Monai => "MONAI detection JSON",
            Self::Luna => "LUNA16 CSV",
            Self::Markups => "Slicer markups",
            Self::Truth => "Voxfit findings",
        }
    }
}

/// Why findings were not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindingsError {
    /// The system refused.
    #[error("cannot read the findings ({source}); check the path and the permissions: {}", path.display())]
    Read {
        /// The system's words.
        source: std::io::Error,
        /// The file.
        path: PathBuf,
    },
    /// The file is not what it seems to be.
    #[error("cannot read {what}: {reason}: {}", path.display())]
    Format {
        /// What it was taken for.
        what: &'static str,
        /// What was expected and found.
        reason: String,
        /// The file.
        path: PathBuf,
    },
    /// Findings that a format cannot hold.
    #[error("cannot write {what}: {reason}: {}", path.display())]
    Unfit {
        /// The format.
        what: &'static str,
        /// What is in the way.
        reason: String,
        /// The file.
        path: PathBuf,
    },
    /// The file was not written.
    #[error(transparent)]
    Write(#[from] ResultError),
}

fn ends_with(path: &Path, ending: &str) -> bool {
    path.file_name()
        .is_some_and(|n| n.to_string_lossy().to_ascii_lowercase().ends_with(ending))
}

/// Whether a name ends as files of findings do.
pub fn is_findings(path: &Path) -> bool {
    ends_with(path, ".json") || ends_with(path, ".csv")
}

/// The kind that a name to be written means.
pub fn kind_of_name(path: &Path) -> Option<Kind> {
    if ends_with(path, ".mrk.json") {
        Some(Kind::Markups)
    } else if ends_with(path, ".truth.json") {
        Some(Kind::Truth)
    } else if ends_with(path, ".json") {
        Some(Kind::Monai)
    } else if ends_with(path, ".csv") {
        Some(Kind::Luna)
    } else {
        None
    }
}

/// A file of findings, read as far as telling its kind takes.
pub enum Document {
    /// JSON of this kind.
    Json(Kind, Value),
    /// The text of a CSV.
    Csv(String),
}

impl Document {
    /// Reads a file and tells its kind: by its ending for CSV, by its keys for JSON.
    pub fn open(path: &Path) -> Result<Self, FindingsError> {
        let bytes = std::fs::read(path).map_err(|source| FindingsError::Read {
            source,
            path: path.to_path_buf(),
        })?;
        if ends_with(path, ".csv") {
            let text = String::from_utf8(bytes)
                .map_err(|_not_utf8| bad(Kind::Luna, path, "it is not text in UTF-8"))?;
            return Ok(Self::Csv(text));
        }
        let value: Value = serde_json::from_slice(&bytes).map_err(|e| {
            let nan = bytes.windows(3).any(|w| w == b"NaN");
            let rest = if nan {
                " (it holds NaN, which JSON does not have: a score or a box is not a number)"
            } else {
                ""
            };
            FindingsError::Format {
                what: "JSON",
                reason: format!("{e}{rest}"),
                path: path.to_path_buf(),
            }
        })?;
        let kind = kind_of_json(&value);
        Ok(Self::Json(kind, value))
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Json(kind, _) => *kind,
            Self::Csv(_) => Kind::Luna,
        }
    }

    /// What it says about each of its studies. A result of Voxfit is not read here.
    pub fn findings(&self, path: &Path) -> Result<Vec<Findings>, FindingsError> {
        let kind = self.kind();
        let read = match self {
            Self::Csv(text) => luna::read(text),
            Self::Json(Kind::Markups, v) => markups::read(v).map(|mut f| {
                f.names = vec![stem(&path.to_string_lossy())];
                vec![f]
            }),
            Self::Json(Kind::Truth, v) => truth::read(v),
            Self::Json(..) => match self {
                Self::Json(_, v) => monai::read(v),
                Self::Csv(_) => Ok(Vec::new()),
            },
        };
        read.map_err(|reason| bad(kind, path, reason))
    }
}

fn kind_of_json(v: &Value) -> Kind {
    let has = |key: &str| v.get(key).is_some();
    if has("markups") {
        Kind::Markups
    } else if v.get("voxfit").and_then(Value::as_str) == Some(truth::WORD) {
        Kind::Truth
    } else if has("network") && has("plan") || has("outputs_sha256") {
        Kind::Result
    } else {
        Kind::Monai
    }
}

fn bad(kind: Kind, path: &Path, reason: impl Into<String>) -> FindingsError {
    FindingsError::Format {
        what: kind.name(),
        reason: reason.into(),
        path: path.to_path_buf(),
    }
}

/// Writes findings that are in patient space, as the ending of the name says; LPS is stated wherever the format can.
pub fn write(studies: &[Findings], path: &Path) -> Result<(), FindingsError> {
    let Some(kind) = kind_of_name(path) else {
        return Err(FindingsError::Unfit {
            what: "findings",
            reason: "end the name in .json (MONAI), .truth.json (Voxfit), .csv (LUNA16) or .mrk.json (Slicer)".to_owned(),
            path: path.to_path_buf(),
        });
    };
    let text = match kind {
        Kind::Luna => luna::write(studies),
        Kind::Markups => markups::write(studies).map(|v| pretty(&v)),
        Kind::Truth => truth::write(studies).map(|v| pretty(&v)),
        Kind::Monai | Kind::Result => monai::write(studies).map(|v| pretty(&v)),
    }
    .map_err(|reason| FindingsError::Unfit {
        what: kind.name(),
        reason,
        path: path.to_path_buf(),
    })?;
    write_beside("the findings", path, |out| out.write_all(text.as_bytes()))?;
    Ok(())
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// A file's name without folders and without its endings.
pub fn stem(text: &str) -> String {
    let name = text.rsplit(['/', '\\']).next().unwrap_or(text);
    let endings = [
        ".nii.gz",
        ".nii",
        ".mhd",
        ".mha",
        ".npy",
        ".mrk.json",
        ".truth.json",
        ".json",
        ".dcm",
    ];
    let lower = name.to_ascii_lowercase();
    let ending = endings.iter().find(|e| lower.ends_with(*e));
    let keep = name.len() - ending.map_or(0, |e| e.len());
    name.get(..keep).unwrap_or(name).to_owned()
}

/// The names by which a study goes: as written, and its file's name without folders and ending.
pub fn names_of(text: &str) -> Vec<String> {
    let mut names = vec![text.to_owned()];
    let short = stem(text);
    if short != text && !short.is_empty() {
        names.push(short);
    }
    names
}

/// A number that is one.
fn number(v: &Value) -> Result<f64, String> {
    match v.as_f64() {
        Some(n) if n.is_finite() => Ok(n),
        _ => Err(format!("expected a number, found {v}")),
    }
}

/// So many numbers.
fn numbers<const N: usize>(v: &Value) -> Result<[f64; N], String> {
    let list = v.as_array().map(Vec::as_slice).unwrap_or_default();
    let all: Vec<f64> = list.iter().map(number).collect::<Result<_, _>>()?;
    let n = all.len();
    <[f64; N]>::try_from(all).map_err(|_other| format!("expected {N} numbers, found {n} in {v}"))
}

/// A score between 0 and 1.
fn score(n: f64) -> Result<f64, String> {
    if (0.0..=1.0).contains(&n) {
        Ok(n)
    } else {
        Err(format!("a score lies between 0 and 1, found {n}"))
    }
}

/// The middle in LPS, or the sentence that it cannot be had.
fn lps(study: &Findings, f: &Finding) -> Result<[f64; 3], String> {
    study.space.to_lps(f.center).ok_or_else(|| {
        format!(
            "the findings are in {}, and the format takes mm of the patient",
            study.space
        )
    })
}

/// Findings that were read one by one, by study, in order of appearance.
#[derive(Default)]
struct ByStudy {
    order: Vec<Findings>,
    index: BTreeMap<String, usize>,
}

impl ByStudy {
    fn study(&mut self, name: &str) -> Option<&mut Findings> {
        let next = self.order.len();
        let at = *self.index.entry(name.to_owned()).or_insert(next);
        if at == next {
            self.order.push(Findings {
                names: names_of(name),
                ..Findings::default()
            });
        }
        self.order.get_mut(at)
    }
}
