//! Does it fit: schedule, lifetimes, arena, budget. Touches no device: a plan for a card needs no card.

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

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Known exactly from our own schedule.
    Planned,
    /// Computed by a model of somebody else's runtime.
    Modelled,
    /// Read off a machine.
    Measured,
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
