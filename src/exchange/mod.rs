//! What other tools read and write: `NIfTI`, `MetaImage`, npy, DICOM, result files.
#![warn(clippy::indexing_slicing)]

mod beside;
pub mod dicom_write;
pub mod findings;
pub mod metaimage;
pub mod nifti;
pub mod npy;
pub mod result;
mod seam_record;
pub mod sweep;
mod volume_file;

pub use volume_file::VolumeFileError;
