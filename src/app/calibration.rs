//! Calibration: points that the user measured, the line through them, and the largest X for each card.

use super::parse;
use super::state::State;
use crate::memory::calibrate::{Calibration, Point, fit};
use crate::units::Bytes;

/// What the typed points come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibrated {
    /// The points, in the order in which they were typed.
    pub points: Vec<Point>,
    /// The line through them, unless there is none.
    pub line: Option<Calibration>,
    /// What is wrong: with the text, the points, or the line.
    pub wrong: Option<String>,
    /// Card, its usable bytes, and the largest X (`None` without a line that may be used).
    pub cards: Vec<(String, Bytes, Option<u64>)>,
}

/// What the points of the document come to, on the cards of the budget plot.
pub fn of(state: &State) -> Calibrated {
    let text = state.document.points.trim();
    if text.is_empty() {
        return Calibrated::default();
    }
    let points = match parse::points(text) {
        Ok(points) => points,
        Err(wrong) => {
            return Calibrated {
                wrong: Some(wrong),
                ..Calibrated::default()
            };
        }
    };
    let (line, wrong) = match fit(&points) {
        Ok(line) => {
            let wrong = line.refused.clone();
            (Some(line), wrong)
        }
        Err(e) => (None, Some(e.to_string())),
    };
    let cards = state
        .document
        .cards
        .iter()
        .filter_map(|id| state.catalogue.get(id).ok())
        .map(|c| {
            let largest = line.as_ref().and_then(|l| l.largest(c.usable()));
            (c.short_name().to_owned(), c.usable(), largest)
        })
        .collect();
    Calibrated {
        points,
        line,
        wrong,
        cards,
    }
}

impl State {
    /// The point that the last run gives: slices of its window, and the highest byte its arena used.
    pub fn measured_point(&self) -> Option<String> {
        let result = &self.outcome.as_ref()?.result;
        let bytes = result.memory.measured_peak;
        (bytes > Bytes::ZERO).then(|| format!("{}={}", result.plan.roi_size.z, bytes.0))
    }

    /// Adds that point to those typed, unless it is there.
    pub(super) fn add_measured_point(&mut self) {
        let Some(point) = self.measured_point() else {
            return;
        };
        let text = &mut self.document.points;
        if text.split([',', ';']).any(|p| p.trim() == point) {
            return;
        }
        if !text.trim().is_empty() {
            text.push_str(", ");
        }
        text.push_str(&point);
    }
}
