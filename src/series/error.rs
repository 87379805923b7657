//! Why a study could not be read, in one sentence each.

use super::Skipped;
use crate::jobs::Cancelled;
use std::path::PathBuf;

/// A study that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeriesError {
    /// Nothing is at the path.
    #[error("cannot open the study: no such file or folder; check the path: {}", path.display())]
    NotFound {
        /// The path as given.
        path: PathBuf,
    },
    /// The folder holds no file at all.
    #[error("cannot open the study: the folder is empty, expected DICOM files; choose the folder that holds them: {}", path.display())]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
    },
    /// There are files, but no DICOM image.
    #[error("cannot open the study: expected DICOM images, found none in {} file(s) (first: {}); choose a CT series: {}", skipped.len(), first_reason(skipped), path.display())]
    NoImages {
        /// The folder or DICOMDIR.
        path: PathBuf,
        /// Every file with the reason why it is not an image.
        skipped: Vec<Skipped>,
    },
    /// One file was given and it is not a DICOM image.
    #[error("cannot open the study: expected a DICOM image, found {reason}; choose a DICOM file or folder: {}", path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        reason: String,
    },
    /// The operating system refused to read.
    #[error("cannot read ({source}); check the disk and the permissions: {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// One slice's pixel data is damaged, cut short, or stored in a way that cannot be decoded.
    #[error("cannot decode a slice: {reason}; copy the file again or leave it out: {}", path.display())]
    Slice {
        /// The slice's file.
        path: PathBuf,
        /// What was expected and found.
        reason: String,
    },
    /// The series must not be made into one volume.
    #[error("cannot load the series: {reason}: {}", path.display())]
    Refused {
        /// Why, with the file names.
        reason: String,
        /// The study.
        path: PathBuf,
    },
    /// The volume does not fit the machine's memory.
    #[error("cannot load the series: its volume needs {needed} bytes of memory, which the machine does not give; choose a smaller series: {}", path.display())]
    Memory {
        /// Bytes of the volume.
        needed: u64,
        /// The study.
        path: PathBuf,
    },
    /// The user stopped it.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

fn first_reason(skipped: &[Skipped]) -> String {
    skipped
        .first()
        .map_or_else(String::new, |s| format!("{}: {}", s.file, s.reason))
}

impl SeriesError {
    /// The files that were left out, where the error is that none remained.
    pub fn skipped(&self) -> &[Skipped] {
        match self {
            Self::NoImages { skipped, .. } => skipped,
            _ => &[],
        }
    }
}
