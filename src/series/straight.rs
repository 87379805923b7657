//! What a straight grid would mend of a series: lean, gaps, uneven steps; never what is missing in the files themselves.

use super::{SeriesInfo, WarningCode};

impl SeriesInfo {
    /// Whether the slices have positions that a straight grid can be resampled from, and do not lie on one yet.
    pub fn straightens(&self) -> bool {
        self.refusal.is_none()
            && self.spacing_mm.iter().all(Option::is_some)
            && self.warnings.iter().any(|w| {
                matches!(
                    w.code,
                    WarningCode::GantryTilt
                        | WarningCode::MissingSlices
                        | WarningCode::UnevenSteps
                        | WarningCode::NotStraight
                )
            })
    }

    /// Positions (LPS, mm) of the first voxel of each slice, where the affine alone does not tell them: gaps, uneven steps.
    pub fn uneven_positions(&self) -> Option<Vec<[f64; 3]>> {
        let uneven = self.warnings.iter().any(|w| {
            matches!(
                w.code,
                WarningCode::MissingSlices | WarningCode::UnevenSteps | WarningCode::NotStraight
            )
        });
        if !uneven {
            return None;
        }
        self.slices.iter().map(|s| s.plane().position).collect()
    }

    /// Why the series must not be run even on a straight grid; `None` where it may be.
    pub fn refusal_on_straight_grid(&self) -> Option<String> {
        let mended = |code| {
            matches!(
                code,
                WarningCode::MissingSlices | WarningCode::UnevenSteps | WarningCode::NotStraight
            )
            // Slices left out for want of a position leave a gap like any other.
            || code == WarningCode::NoPosition && self.spacing_mm[2].is_some()
        };
        self.refusal.clone().or_else(|| {
            self.warnings
                .iter()
                .find(|w| w.code.forbids() && !mended(w.code))
                .map(|w| w.text.clone())
        })
    }
}
