//! Seams of a run and another result held against it: the table, the match, maps and curves, made on threads and drawn by the window.

mod check;
mod field;
mod matched;
mod outputs;
mod profile;
mod rows;
#[cfg(test)]
mod tests;
mod work;

pub use field::{Grid, MapPicture, Peak};
pub(super) use matched::Read;
pub use matched::word;
pub use matched::{Matched, Reference};
pub use outputs::{DiffFound, KeptOutputs, against, fill, read_kept, same};
pub use profile::{Curve, Profile, Whose};
pub use rows::SeamRow;
pub(super) use work::{DiffNews, MOST_WINDOWS, Views, views_of};

use crate::review::curves::WindowScores;
use crate::review::seams::MismatchMap;
use std::sync::Arc;

/// What a run left to be looked at.
#[derive(Clone, Debug, Default)]
pub struct RunMaps {
    /// The stitched outputs that count for the verdict, by output; `None` while they are not read.
    pub outputs: Option<Arc<KeptOutputs>>,
    /// Why they are not in memory after a run in the window, or nothing.
    pub why_no_outputs: String,
    /// Where windows disagree, for the finest output that counts.
    pub mismatch: Option<Arc<MismatchMap>>,
    /// The end of its colour scale: 99.5 of 100 differences are below.
    pub scale: f32,
    /// The worst places of that map, by seam.
    pub peaks: Vec<Peak>,
    /// What each window alone gave.
    pub windows: Option<Arc<WindowScores>>,
    /// Whether the run was made in this session.
    pub of_session: bool,
}

/// What is known of the seams of the run and of the reference.
#[derive(Clone, Debug, Default)]
pub struct SeamState {
    /// The result that the run is held against.
    pub reference: Option<Reference>,
    /// Findings held against it at the threshold, or the sentence that says why not.
    pub matched: Option<Result<Arc<Matched>, String>>,
    /// Whether a newer match is being made.
    pub match_pending: bool,
    /// Outputs held against it, or the sentence that says why not.
    pub differed: Option<Result<Arc<DiffFound>, String>>,
    /// Whether that is being made.
    pub diff_pending: bool,
    /// Every seam, worst first.
    pub rows: Arc<Vec<SeamRow>>,
    /// The map over the slice of the Seams workspace.
    pub picture: Option<Arc<MapPicture>>,
    /// Curves across the selected seam, or the sentence that says why there are none.
    pub profile: Option<Result<Arc<Profile>, String>>,
    /// Whether the result is of other voxels than the study that is open.
    pub other_volume: bool,
    volume_key: u64,
    match_key: u64,
    matched_for: (u64, u64),
    diff_key: u64,
    rows_key: u64,
    picture_key: u64,
    profile_key: u64,
}

impl SeamState {
    /// The match, where there is one.
    pub fn matching(&self) -> Option<&Matched> {
        self.matched.as_ref()?.as_ref().ok().map(Arc::as_ref)
    }

    /// The differences, where there are some.
    pub fn difference(&self) -> Option<&DiffFound> {
        self.differed.as_ref()?.as_ref().ok().map(Arc::as_ref)
    }
}
