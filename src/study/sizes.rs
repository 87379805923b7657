//! The sizes of a folder's volumes, from headers alone.

use super::{StudyError, StudySize};
use crate::jobs::Control;
use crate::series;
use std::path::Path;

/// Size and spacing of every usable series below a folder.
pub fn sizes_of_folder(folder: &Path, control: &Control) -> Result<Vec<StudySize>, StudyError> {
    let scan = series::scan(folder, control)?;
    let size = |s: &series::SeriesInfo| {
        let [x, y, z] = s.spacing_mm;
        StudySize {
            extent: s.size,
            spacing_mm: match (x, y, z) {
                (Some(x), Some(y), Some(z)) => Some([x, y, z]),
                _ => None,
            },
        }
    };
    let usable = scan
        .series
        .iter()
        .filter(|s| s.usable && !s.size.is_empty());
    Ok(usable.map(size).collect())
}
