//! A sweep: rows of rois x precisions x layouts, as JSON and CSV; points that were measured elsewhere, read from CSV.

use super::result::{ResultError, write_beside};
use crate::geometry::Extent;
use crate::memory::{Precision, Source, Verdict};
use crate::tiling::Layout;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Words that a parity may be told with: the verdicts, and the run that others are held against.
pub const PARITY_WORDS: [&str; 6] = [
    "reference",
    "bitwise",
    "float",
    "tolerance",
    "seam",
    "other",
];

/// A longer file of points is a mistake.
const MOST_POINTS: usize = 100_000;

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepRow {
    /// The window.
    pub roi_size: Extent,
    /// How values are stored.
    pub precision: Precision,
    /// Where windows lie.
    pub layout: Layout,
    /// Windows over the volume.
    pub n_windows: Option<usize>,
    /// Bytes on the card, context and display not counted: the high end where it is a range; `None` where not known.
    pub peak: Option<Bytes>,
    /// The low end.
    pub peak_low: Option<Bytes>,
    /// Bytes on the host.
    pub host_peak: Option<Bytes>,
    /// Seconds a study: measured, or forecast on the first card.
    pub seconds: Option<f64>,
    /// What windows do to the bits, by forecast.
    pub exactness: Option<String>,
    /// Parity with the reference run: a verdict, "reference" for that run itself; `None` where nobody compared.
    pub parity: Option<String>,
    /// Where the peak is from.
    pub source: Source,
    /// Where the seconds are from.
    pub seconds_source: Option<Source>,
    /// The verdict of each card.
    pub cards: BTreeMap<String, Verdict>,
    /// Why the row has no figures, or a remark.
    pub note: Option<String>,
}

impl SweepRow {
    /// A row of which nothing is known yet.
    pub const fn new(roi_size: Extent, precision: Precision, layout: Layout) -> Self {
        Self {
            roi_size,
            precision,
            layout,
            n_windows: None,
            peak: None,
            peak_low: None,
            host_peak: None,
            seconds: None,
            exactness: None,
            parity: None,
            source: Source::Planned,
            seconds_source: None,
            cards: BTreeMap::new(),
            note: None,
        }
    }

    /// The row in a word, safe as a file name.
    pub fn name(&self) -> String {
        let precision = format!("{:?}", self.precision).to_lowercase();
        format!("{}-{precision}-{}", self.roi_size, self.layout.name())
    }
}

/// All rows, and what they are about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The study or size.
    pub study: String,
    /// The network.
    pub network: String,
    /// The prepared volume.
    pub volume: Extent,
    /// The card that forecast seconds are of.
    pub seconds_on: Option<String>,
    /// The rows.
    pub rows: Vec<SweepRow>,
}

impl Sweep {
    /// Writes `sweep.json` and `sweep.csv` into a folder that is there.
    pub fn write(&self, folder: &Path) -> Result<(), ResultError> {
        write_beside("the sweep", &folder.join("sweep.json"), |out| {
            serde_json::to_writer_pretty(&mut *out, self).map_err(std::io::Error::from)?;
            out.write_all(b"\n")
        })?;
        let text = self.csv();
        write_beside("the sweep's table", &folder.join("sweep.csv"), |out| {
            out.write_all(text.as_bytes())
        })
    }

    /// The table as CSV, one column for each card; `--points` reads it again.
    pub fn csv(&self) -> String {
        let ids: std::collections::BTreeSet<&String> =
            self.rows.iter().flat_map(|r| r.cards.keys()).collect();
        let mut out = csv::Writer::from_writer(Vec::new());
        let mut head: Vec<String> = [
            "roi_size",
            "precision",
            "layout",
            "windows",
            "peak_bytes",
            "peak_low_bytes",
            "host_peak_bytes",
            "seconds",
            "exactness",
            "parity",
            "source",
            "note",
        ]
        .map(str::to_owned)
        .into();
        head.extend(ids.iter().map(|id| (*id).clone()));
        // Writing into memory cannot fail.
        let _head = out.write_record(&head);
        for r in &self.rows {
            let bytes = |b: Option<Bytes>| b.map_or_else(String::new, |b| b.0.to_string());
            let mut cells = vec![
                r.roi_size.to_string(),
                format!("{:?}", r.precision).to_lowercase(),
                r.layout.name().to_owned(),
                r.n_windows.map_or_else(String::new, |n| n.to_string()),
                bytes(r.peak),
                bytes(r.peak_low),
                bytes(r.host_peak),
                r.seconds.map_or_else(String::new, |s| format!("{s:.3}")),
                r.exactness.clone().unwrap_or_default(),
                r.parity.clone().unwrap_or_default(),
                format!("{:?}", r.source).to_lowercase(),
                r.note.clone().unwrap_or_default(),
            ];
            let verdict = |v: &Verdict| format!("{v:?}").to_lowercase();
            cells.extend(
                ids.iter()
                    .map(|id| r.cards.get(*id).map_or_else(String::new, verdict)),
            );
            let _row = out.write_record(&cells);
        }
        let bytes = out.into_inner().unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    }
}

/// Why a file of points cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PointsError {
    /// A file that cannot be read.
    #[error("the points cannot be read: {reason}; check the path: {}", path.display())]
    Unreadable {
        /// The operating system's reason.
        reason: String,
        /// The file.
        path: PathBuf,
    },
    /// A cell that makes no sense.
    #[error("line {line}, column {column}: {reason}; correct the points in {}", path.display())]
    Cell {
        /// Line in the file, from 1.
        line: u64,
        /// The column's name.
        column: String,
        /// What was expected and found.
        reason: String,
        /// The file.
        path: PathBuf,
    },
}

/// Reads points measured elsewhere: CSV with a head; `roi_size` and one of `peak_bytes`, `peak_gib`, `peak_gb` are needed,
/// `precision`, `layout`, `peak_low_bytes`, `host_peak_bytes`, `seconds`, `parity` and `note` may be there, other columns are left alone. A peak
/// may be `>16` (more than that) or `<16`.
pub fn read_points(path: &Path) -> Result<Vec<SweepRow>, PointsError> {
    let text = std::fs::read_to_string(path).map_err(|e| PointsError::Unreadable {
        reason: e.to_string(),
        path: path.to_owned(),
    })?;
    points(&text, path)
}

/// As [`read_points`], from text already read; `path` is for messages.
pub fn points(text: &str, path: &Path) -> Result<Vec<SweepRow>, PointsError> {
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let bad = |line: u64, column: &str, reason: String| PointsError::Cell {
        line,
        column: column.to_owned(),
        reason,
        path: path.to_owned(),
    };
    let line_of = |e: &csv::Error| e.position().map_or(1, csv::Position::line);
    let head = reader
        .headers()
        .map_err(|e| bad(line_of(&e), "(all)", e.to_string()))?
        .clone();
    let known = |name: &str| head.iter().any(|h| h == name);
    if !known("roi_size") || !PEAKS.iter().any(|(name, _)| known(name)) {
        let found: Vec<&str> = head.iter().collect();
        return Err(bad(
            1,
            "(head)",
            format!(
                "expected roi_size and one of peak_bytes, peak_gib, peak_gb among the columns, found {}",
                found.join(", ")
            ),
        ));
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| bad(line_of(&e), "(all)", e.to_string()))?;
        let line = record.position().map_or(0, |at| line_from(text, at));
        if rows.len() >= MOST_POINTS {
            return Err(bad(
                line,
                "(all)",
                format!("more than {MOST_POINTS} points"),
            ));
        }
        let cells = Cells {
            head: &head,
            record: &record,
        };
        rows.push(row(&cells).map_err(|(column, reason)| bad(line, column, reason))?);
    }
    if rows.is_empty() {
        return Err(bad(1, "(all)", "no point below the head".to_owned()));
    }
    Ok(rows)
}

/// The line of a record that is read from here on: behind remarks and empty lines.
fn line_from(text: &str, at: &csv::Position) -> u64 {
    let rest = usize::try_from(at.byte()).ok().and_then(|b| text.get(b..));
    let skipped = rest
        .unwrap_or("")
        .lines()
        .take_while(|l| l.trim().is_empty() || l.starts_with('#'));
    at.line() + skipped.count() as u64
}

const PEAKS: [(&str, f64); 3] = [
    ("peak_bytes", 1.0),
    ("peak_gib", 1_073_741_824.0),
    ("peak_gb", 1e9),
];

struct Cells<'a> {
    head: &'a csv::StringRecord,
    record: &'a csv::StringRecord,
}

type Bad = (&'static str, String);

impl Cells<'_> {
    /// A cell that says something.
    fn get(&self, column: &str) -> Option<&str> {
        let at = self.head.iter().position(|h| h == column)?;
        self.record.get(at).filter(|c| !c.is_empty())
    }

    fn number(&self, column: &'static str, unit: f64) -> Result<Option<f64>, Bad> {
        self.get(column)
            .map(|text| positive(column, text, unit))
            .transpose()
    }
}

fn positive(column: &'static str, text: &str, unit: f64) -> Result<f64, Bad> {
    match text.trim().parse::<f64>() {
        Ok(n) if n >= 0.0 && n * unit <= 1e18 => Ok(n * unit),
        _ => Err((
            column,
            format!("expected a number from 0 on, found \"{text}\""),
        )),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be from 0 to 1e18"
)]
fn bytes(n: f64) -> Bytes {
    Bytes(n.round() as u64)
}

fn row(cells: &Cells<'_>) -> Result<SweepRow, Bad> {
    let text = cells.get("roi_size").unwrap_or("");
    let roi = text
        .parse::<Extent>()
        .ok()
        .filter(|e| !e.is_empty() && e.checked_voxels().is_some())
        .ok_or_else(|| {
            let expected = "expected a size such as 512x512x64";
            ("roi_size", format!("{expected}, found \"{text}\""))
        })?;
    let precision = match cells.get("precision").unwrap_or("fp32") {
        "fp32" => Precision::Fp32,
        "fp16" => Precision::Fp16,
        "bf16" => Precision::Bf16,
        "amp" => Precision::Amp,
        other => {
            let expected = "expected fp32, fp16, bf16 or amp";
            return Err(("precision", format!("{expected}, found \"{other}\"")));
        }
    };
    let layout = match cells.get("layout").unwrap_or("monai") {
        "monai" => Layout::Monai,
        "nnunet" => Layout::Nnunet,
        "aligned" => Layout::Aligned,
        other => {
            let expected = "expected monai, nnunet or aligned";
            return Err(("layout", format!("{expected}, found \"{other}\"")));
        }
    };
    let mut row = SweepRow::new(roi, precision, layout);
    row.source = Source::Measured;
    for (column, unit) in PEAKS {
        let Some(text) = cells.get(column) else {
            continue;
        };
        if let Some(least) = text.strip_prefix('>') {
            row.peak_low = Some(bytes(positive(column, least, unit)?));
        } else if let Some(most) = text.strip_prefix('<') {
            row.peak = Some(bytes(positive(column, most, unit)?));
            row.peak_low = Some(Bytes::ZERO);
        } else {
            row.peak = Some(bytes(positive(column, text, unit)?));
            row.peak_low = row.peak;
        }
    }
    if let Some(low) = cells.number("peak_low_bytes", 1.0)? {
        row.peak_low = Some(bytes(low));
    }
    row.host_peak = cells.number("host_peak_bytes", 1.0)?.map(bytes);
    row.seconds = cells.number("seconds", 1.0)?;
    row.seconds_source = row.seconds.map(|_| Source::Measured);
    row.parity = match cells.get("parity") {
        None => None,
        Some(word) if PARITY_WORDS.contains(&word) => Some(word.to_owned()),
        Some(other) => {
            let words = PARITY_WORDS.join(", ");
            return Err((
                "parity",
                format!("expected one of {words}, found \"{other}\""),
            ));
        }
    };
    row.note = cells.get("note").map(str::to_owned);
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_articles_table_is_read_as_it_was_told() {
        let text = include_str!("../../assets/sweep_lung_nodule.csv");
        let rows = points(text, Path::new("assets/sweep_lung_nodule.csv")).unwrap();
        let gb = |b: Option<Bytes>| b.map(|b| b.0 as f64 / 1e9);
        let told: Vec<_> = rows
            .iter()
            .map(|r| (r.roi_size.to_string(), gb(r.peak_low), gb(r.peak)))
            .collect();
        let row = |s: &str, low, high| (s.to_owned(), low, high);
        assert_eq!(
            told,
            [
                row("512x512x192", Some(44.0), Some(44.0)),
                row("512x512x100", Some(22.0), Some(22.0)),
                row("512x512x80", Some(16.106_127_36), None),
                row("512x512x64", Some(10.59), Some(10.59)),
                row("192x192x80", Some(0.0), Some(16.106_127_36)),
            ]
        );
        assert!(rows.iter().all(|r| r.source == Source::Measured));
        assert_eq!(rows[4].parity.as_deref(), Some("other"));
    }

    #[test]
    fn a_bad_point_is_refused_with_line_and_column() {
        let head = "roi_size,peak_gib,parity\n";
        for (text, expected) in [
            (format!("{head}512x512,1,\n"), "line 2, column roi_size"),
            (format!("{head}8x8x8,much,\n"), "line 2, column peak_gib"),
            (format!("{head}8x8x8,-1,\n"), "line 2, column peak_gib"),
            (format!("{head}8x8x8,nan,\n"), "line 2, column peak_gib"),
            (
                format!("{head}8x8x8,1,\n# x\n8x8x8,1,fine\n"),
                "line 4, column parity",
            ),
            (format!("{head}8x8x8,1\n"), "line 2"),
            ("a,b\n1,2\n".to_owned(), "line 1, column (head)"),
            (head.to_owned(), "no point"),
            (String::new(), "line 1"),
        ] {
            let error = points(&text, Path::new("p.csv")).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_sweeps_own_table_reads_back_as_points() {
        let text = include_str!("../../assets/sweep_lung_nodule.csv");
        let mut rows = points(text, Path::new("a.csv")).unwrap();
        rows[0].seconds = Some(12.5);
        rows[0].seconds_source = Some(Source::Measured);
        rows[0].cards = [("a100-40gb".to_owned(), Verdict::Over)].into();
        let sweep = Sweep {
            study: "s".to_owned(),
            network: "n".to_owned(),
            volume: Extent::cube(512),
            seconds_on: None,
            rows,
        };
        let back = points(&sweep.csv(), Path::new("b.csv")).unwrap();
        let mut wanted = sweep.rows;
        wanted[0].cards.clear();
        assert_eq!(back, wanted);
    }
}
