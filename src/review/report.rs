//! What `voxfit parity` answers: the verdict over all studies, each study, each finding.

use super::labels::LabelParity;
use super::parity::{Drifts, Row, StudyParity};
use super::tolerance::{Tolerance, Verdict};
use crate::detect::matching::MatchRule;
use serde::Serialize;

/// A finding with the study that it is of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudyRow {
    /// The study.
    pub study: String,
    /// The finding.
    #[serde(flatten)]
    pub row: Row,
}

/// The whole answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParityReport {
    /// The worst verdict of any study.
    pub verdict: Verdict,
    /// What was asked for.
    pub tolerance: Tolerance,
    /// Whether the verdict is at least that.
    pub within_tolerance: bool,
    /// The first side.
    pub a: String,
    /// The second side.
    pub b: String,
    /// How findings were matched.
    pub matching: MatchRule,
    /// Study by study.
    pub studies: Vec<StudyParity>,
    /// Finding by finding.
    pub detections: Vec<StudyRow>,
    /// Studies that only the first side has.
    pub only_a: Vec<String>,
    /// Studies that only the second side has.
    pub only_b: Vec<String>,
    /// What the reader should know.
    pub warnings: Vec<String>,
}

impl ParityReport {
    /// Gathers studies into one answer.
    pub fn new(
        (a, b): (String, String),
        (tolerance, matching): (Tolerance, MatchRule),
        studies: Vec<StudyParity>,
        (only_a, only_b): (Vec<String>, Vec<String>),
        warnings: Vec<String>,
    ) -> Self {
        let worst = studies.iter().map(|s| s.verdict).min();
        let alone = !only_a.is_empty() || !only_b.is_empty();
        let verdict = match worst {
            Some(v) if !alone => v,
            _ => Verdict::Other,
        };
        let detections = studies
            .iter()
            .flat_map(|s| {
                s.rows.iter().map(|row| StudyRow {
                    study: s.study.clone(),
                    row: row.clone(),
                })
            })
            .collect();
        Self {
            verdict,
            within_tolerance: verdict >= tolerance.at_least,
            tolerance,
            a,
            b,
            matching,
            studies,
            detections,
            only_a,
            only_b,
            warnings,
        }
    }
}

impl StudyParity {
    /// A study whose two results cannot be compared, with the sentence that says why.
    pub fn refused(
        study: String,
        files: [String; 2],
        reason: String,
        (n_a, n_b): (usize, usize),
    ) -> Self {
        Self {
            study,
            files,
            verdict: Verdict::Other,
            reason,
            n_a,
            n_b,
            matched: 0,
            missing: n_a,
            extra: n_b,
            split: 0,
            merged: 0,
            duplicate: 0,
            fragment: 0,
            max_score_drift: None,
            max_box_drift: None,
            min_iou: None,
            unit: super::frame::Unit::AsWritten,
            score_drift: Drifts::default(),
            center_drift_mm: Drifts::default(),
            rho: None,
            near_threshold: 0,
            labels: Vec::<LabelParity>::new(),
            notes: Vec::new(),
            rows: Vec::new(),
        }
    }
}
