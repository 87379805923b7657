//! Cards and verdicts: the catalogue, what of a card is free, and whether a budget fits it.
//! Touches no device: what a machine measures comes in as data.

mod catalogue;
mod costs;
mod file;
mod largest;
mod mix;
mod queue;
mod shortlist;
#[cfg(test)]
mod shortlist_tests;
mod verdict;
mod work;

pub use catalogue::{Card, CardFigures, CardMemory, CardPrice, CardRates, CardRow, Catalogue, Ecc};
pub use costs::{Costs, Figure, Knob};
pub use largest::{CardFit, Limit, NextRoi, largest_rois};
pub use shortlist::{
    CardCount, Choice, MOST_STUDIES, Measured, NetworkWork, Offer, Range, Running, Workload,
    choices, shortlist,
};
pub use verdict::{
    BudgetOnCards, CardVerdict, Ours, TIGHT_SPARE, free_on, judge, largest_batch, verdict,
    verdict_words,
};
pub use work::Work;

use std::path::PathBuf;

/// What is wrong with a card or a file of cards.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HardwareError {
    /// A card that the catalogue does not have.
    #[error(
        "no card \"{id}\" in the catalogue; did you mean {near}? `voxfit cards` lists all of them"
    )]
    UnknownCard {
        /// What was asked for.
        id: String,
        /// The nearest ids.
        near: String,
    },
    /// A file that cannot be read.
    #[error("the card file cannot be read: {reason}; check the path: {}", path.display())]
    Unreadable {
        /// The operating system's reason.
        reason: String,
        /// The file.
        path: PathBuf,
    },
    /// A file that is not a card file.
    #[error("line {line}, field {field}: {reason}; correct the card file {}", path.display())]
    BadField {
        /// Line in the file, from 1.
        line: usize,
        /// The field.
        field: String,
        /// What was expected and found.
        reason: String,
        /// The file.
        path: PathBuf,
    },
}
