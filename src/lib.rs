//! Voxfit: does a 3D network fit the card, where are the seams, and what to buy.
//!
//! Modules by rank (a module uses only lower ranks):
//! [`units`], [`numeric`], [`geometry`], [`jobs`] (0) · [`volume`], [`network`] (1) · [`series`], [`tiling`] (2) ·
//! [`memory`], [`detect`] (3) · [`engine`], [`hardware`] (4) · [`exchange`], [`review`] (5) · [`study`], [`report`] (6) ·
//! [`app`] (7) · [`cli`], [`ui`] (8).

pub mod app;
pub mod cli;
pub mod detect;
pub mod engine;
pub mod exchange;
pub mod geometry;
pub mod hardware;
pub mod jobs;
pub mod memory;
pub mod network;
pub mod numeric;
#[cfg(test)]
mod random_cases;
pub mod report;
pub mod review;
pub mod series;
pub mod study;
pub mod tiling;
pub mod ui;
pub mod units;
pub mod volume;
