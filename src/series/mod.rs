//! DICOM files to volumes: scan (headers only), group, order, decode, checks. What is odd comes back as warnings in words.
#![warn(clippy::indexing_slicing)]

mod bits;
mod claims;
mod content;
mod dataset;
mod decode;
mod details;
mod dicomdir;
mod element;
mod error;
mod frames;
mod group;
mod header;
mod info;
mod jpeg;
mod jpeg12;
mod jpegll;
mod jpegls;
mod load;
#[cfg(test)]
mod made;
#[cfg(test)]
mod oddities;
#[cfg(test)]
mod reports;
mod scan;
mod stack;
mod steps;
mod straight;
mod text;
mod values;

pub use details::{Details, Gap, HeaderText, Rescale, StepRun, StoredPixels, Syntax, TextGroup};
pub use error::SeriesError;
pub use info::{
    DecodedSlice, Loaded, Scan, SeriesInfo, SeriesJson, Skipped, SliceInfo, SliceValues, Warning,
    WarningCode,
};
pub use load::load;
pub use scan::scan;
