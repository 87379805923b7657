//! The largest roi of each card, as `voxfit fit` prints it.

use super::{Card, free_on};
use crate::geometry::Extent;
use crate::memory::Part;
use crate::memory::budget::Display;
use crate::memory::largest::{LargestSearch, Sized};
use crate::units::Bytes;
use rayon::prelude::*;
use serde::Serialize;

/// What ends the growth of a roi.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// The card is full.
    Card,
    /// The volume ends.
    Volume,
}

/// A roi that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NextRoi {
    /// The roi.
    pub roi_size: Extent,
    /// What it would ask for at most; `None` where no schedule of it could be made.
    pub required: Option<Bytes>,
}

/// One card's largest roi.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CardFit<'a> {
    /// The card.
    pub id: &'a str,
    /// The roi; `None` when nothing fits.
    pub roi_size: Option<Extent>,
    /// Whether it covers the whole volume, which only runs when it is asked for by name.
    pub single_pass: bool,
    /// What it asks for at least.
    pub required_low: Option<Bytes>,
    /// What it asks for at most.
    pub required: Option<Bytes>,
    /// What the card has for it.
    pub free: Bytes,
    /// What ends its growth.
    pub limit: Limit,
    /// The next larger roi, which does not fit; `None` when the whole volume does.
    pub next: Option<NextRoi>,
}

/// The largest roi of each card, cards at a time on all cores; the same whatever their number.
pub fn largest_rois<'c>(
    search: &LargestSearch<'_, '_>,
    cards: &[&'c Card],
    display: Display,
) -> Vec<CardFit<'c>> {
    let one = |card: &&'c Card| {
        let free = free_on(card, display);
        let answer = search.largest(free);
        let part = |s: Option<Sized>| -> Option<Part> { s?.required };
        CardFit {
            id: &card.id,
            roi_size: answer.found.map(|f| f.roi),
            single_pass: answer.whole,
            required_low: part(answer.found).map(|p| p.low),
            required: part(answer.found).map(|p| p.high),
            free,
            limit: if answer.whole {
                Limit::Volume
            } else {
                Limit::Card
            },
            next: answer.next.map(|n| NextRoi {
                roi_size: n.roi,
                required: part(Some(n)).map(|p| p.high),
            }),
        }
    };
    cards.par_iter().map(one).collect()
}
