//! What other tools read and write: NIfTI, DICOM.
#![warn(clippy::indexing_slicing)]

pub mod result;
