//! Another result held against the run: read from any program's file, matched at the threshold by the code of `voxfit parity`.

use super::RunMaps;
use crate::exchange::result::RunResult;
use crate::geometry::BoxF;
use crate::review::frame::{Unit, common};
use crate::review::{Row, RowKind, Shape, Side, StudyParity};
use crate::study::compare::{CompareSpec, compare_two};
use crate::study::sides::{self, Loaded, Sides, pair};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A result that the run is held against.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Tells one from the next.
    pub id: u64,
    /// What it is called on screen: the file's name without its folders.
    pub name: String,
    /// The file; `None` for a run of this session.
    pub path: Option<PathBuf>,
    /// What it found, study by study.
    pub sides: Arc<Sides>,
    /// The result itself, where Voxfit made it.
    pub result: Option<Arc<RunResult>>,
    /// What its run left.
    pub maps: Arc<RunMaps>,
}

/// What was read of a reference.
pub(in crate::app) type Read = (PathBuf, Sides, Option<RunResult>);

/// Reads a reference; an error is one sentence.
pub(in crate::app) fn read(path: &Path) -> Result<Read, String> {
    let sides = sides::read(path, None).map_err(|e| e.to_string())?;
    let ours = matches!(sides.list.as_slice(), [one] if one.side.own.is_some());
    let result = if ours && path.is_file() {
        Some(RunResult::read(path).map_err(|e| e.to_string())?)
    } else {
        None
    };
    Ok((path.to_path_buf(), sides, result))
}

/// Findings of the run held against the reference's: A is the reference, B the run.
#[derive(Clone, Debug)]
pub struct Matched {
    /// Findings of a lower score were left out on both sides.
    pub threshold: f32,
    /// What came of it; its places count what the threshold left.
    pub parity: StudyParity,
    /// Place in the run's list of each finding that was compared.
    pub own: Vec<usize>,
    /// Findings of the reference that were compared: box in voxels of the loaded volume (where that is known) and score.
    pub reference: Vec<(Option<BoxF>, Option<f64>)>,
    /// Row of each finding of the run, by its place in the run's list.
    pub row_of: BTreeMap<usize, usize>,
}

impl Matched {
    /// Matches at a threshold; an error is one sentence.
    pub(super) fn new(
        (reference, name): (&Sides, &str),
        own: &Loaded,
        threshold: f32,
    ) -> Result<Self, String> {
        let ours = Sides {
            list: vec![own.clone()],
            ..Sides::default()
        };
        let pairs = pair(reference, &ours);
        let &(i, _) = pairs.together.first().ok_or_else(|| {
            format!(
                "{name} holds no result of this study: it has {}",
                few(&pairs.only_a)
            )
        })?;
        let theirs = &reference.list[i];
        let least = f64::from(threshold);
        let spec = CompareSpec {
            score_thresh: Some(least),
            ..CompareSpec::default()
        };
        let mut parity = compare_two(theirs, own, &spec).map_err(|e| e.to_string())?;
        // The threshold stands beside the list already.
        parity
            .notes
            .retain(|n| !n.starts_with("findings that score below"));
        parity.notes.extend(pairs.warnings);
        let own_kept = kept(&own.side, least);
        let boxes = boxes(&theirs.side, &own.side);
        let reference = kept(&theirs.side, least)
            .into_iter()
            .map(|p| (boxes.get(p).copied(), theirs.side.found.list[p].score))
            .collect();
        let row_of = parity
            .rows
            .iter()
            .enumerate()
            .filter_map(|(r, row)| Some((*own_kept.get(row.b?)?, r)))
            .collect();
        Ok(Self {
            threshold,
            parity,
            own: own_kept,
            reference,
            row_of,
        })
    }

    /// What became of a finding of the run, by its place in the run's list.
    pub fn of(&self, place: usize) -> Option<&Row> {
        self.parity.rows.get(*self.row_of.get(&place)?)
    }

    /// Findings that only the reference has: place among its findings here, and the row.
    pub fn missing(&self) -> impl Iterator<Item = (usize, &Row)> {
        let rows = self.parity.rows.iter();
        rows.filter_map(|r| (r.kind == RowKind::Missing).then_some((r.a?, r)))
    }
}

/// A row in one word.
pub fn word(row: &Row) -> &'static str {
    match (row.shape, row.kind) {
        (Some(Shape::Split), _) => "split",
        (Some(Shape::Merged), _) => "merged",
        (Some(Shape::Duplicate), _) => "duplicate",
        (Some(Shape::Fragment), _) => "fragment",
        (None, RowKind::Matched) => "match",
        (None, RowKind::Missing) => "missing",
        (None, RowKind::Extra) => "extra",
    }
}

fn kept(side: &Side, least: f64) -> Vec<usize> {
    let list = side.found.list.iter().enumerate();
    list.filter(|(_, f)| f.score.is_none_or(|s| s >= least))
        .map(|(i, _)| i)
        .collect()
}

/// Boxes of a reference in voxels of the loaded volume; empty where no affine says where they lie.
fn boxes(reference: &Side, own: &Side) -> Vec<BoxF> {
    match common([reference, own]) {
        Ok(c) if c.unit == Unit::Voxels => c.boxes[0]
            .iter()
            .map(|b| BoxF(b.corners.map(narrow)))
            .collect(),
        _ => Vec::new(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a place on screen: the nearest f32 is what is wanted"
)]
const fn narrow(v: f64) -> f32 {
    v as f32
}

fn few(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        [a] => a.clone(),
        [a, rest @ ..] => format!("{a} and {} more", rest.len()),
    }
}
