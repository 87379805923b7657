//! Does it fit: schedule, lifetimes, arena, budget. Touches no device: a plan for a card needs no card.

pub mod arena;
pub mod budget;
pub mod calibrate;
mod cliffs;
mod deepen;
mod error;
mod fixes;
#[cfg(test)]
mod golden_tests;
pub mod largest;
#[cfg(test)]
mod largest_tests;
#[cfg(test)]
mod laws_tests;
pub mod lifetimes;
mod lower;
mod order;
pub mod parts;
pub mod planner;
pub mod pytorch;
pub mod schedule;
pub mod surface;
pub mod tiles;
mod widen;

pub use error::MemoryError;
pub use schedule::Schedule;

use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// How values are stored while windows run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 4 bytes a value.
    #[default]
    Fp32,
    /// 2 bytes a value, fp32 arithmetic.
    Fp16,
    /// 2 bytes a value, fp32 arithmetic.
    Bf16,
    /// PyTorch's autocast: fp32 weights with 2-byte copies (planning only).
    Amp,
}

/// Where a figure comes from, the most certain first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Known exactly from our own schedule.
    Planned,
    /// Read off a machine.
    Measured,
    /// Computed by a model of somebody else's runtime.
    Modelled,
    /// A stated guess.
    Guessed,
}

/// One part of a budget, as a range where it is not exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Least bytes.
    pub low: Bytes,
    /// Most bytes.
    pub high: Bytes,
    /// Where the figure comes from.
    pub source: Source,
}

impl Part {
    /// A part known to the byte.
    pub const fn exact(bytes: Bytes, source: Source) -> Self {
        Self {
            low: bytes,
            high: bytes,
            source,
        }
    }

    /// A part known as a range.
    pub const fn range(low: Bytes, high: Bytes, source: Source) -> Self {
        Self { low, high, source }
    }

    /// Both together, end by end; the source is the less certain of the two.
    pub fn plus(self, other: Self) -> Self {
        Self {
            low: self.low.saturating_add(other.low),
            high: self.high.saturating_add(other.high),
            source: self.source.max(other.source),
        }
    }
}

/// A verdict on one card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Even the high end fits.
    Fits,
    /// The range straddles the capacity, or the spare room is small.
    Tight,
    /// Even the low end does not fit.
    Over,
}
