//! DICOM files to volumes: scan, group, order, decode, checks.
#![warn(clippy::indexing_slicing)]
