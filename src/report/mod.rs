//! Charts as data, and what is made of them: SVG, slice pictures as PNG, one self-contained HTML page.
//! The window draws the same charts. Nothing here reads a clock: the same input gives the same bytes.

pub mod calibration;
pub mod chart;
pub mod fits;
pub mod html;
pub mod ink;
pub mod parity;
pub mod picture;
pub mod scatter;
pub mod svg;
pub mod timeline;

pub use chart::{BudgetChart, budget_chart};
pub use fits::{FitsChart, fits_chart};
pub use html::{Figure, ReportInput, page, write};
pub use timeline::{TimelineChart, timeline_chart};

use std::path::PathBuf;

/// Why a report or a picture cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The picture has no points, or the encoder refuses.
    #[error(
        "the picture of {what} cannot be written as PNG: {reason}; choose a slice inside the volume"
    )]
    Picture {
        /// Which picture.
        what: String,
        /// What went wrong.
        reason: String,
    },
    /// The page cannot be written.
    #[error("the report cannot be written: {reason}; choose a folder that can be written: {}", path.display())]
    Write {
        /// The operating system's reason.
        reason: String,
        /// The file.
        path: PathBuf,
    },
}
