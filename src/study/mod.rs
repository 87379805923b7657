//! The use of it all: open, prepare, guard, run, detect, result file; results compared, baselines run again.

pub mod baseline;
pub mod compare;
mod details;
mod error;
mod findings;
mod guard;
mod host;
mod labels;
mod open;
mod planned;
mod prepare;
mod run;
mod seams;
pub mod sides;
mod sizes;
mod straight;
pub mod sweep;
mod workload;

pub use error::StudyError;
pub use guard::guard;
pub use labels::LabelMask;
pub use open::{Grid, Opened, StudyKind, open, open_as};
pub use planned::{PlannedRun, RunSpec, plan_run};
pub use prepare::{Prepared, PreparedSize, prepare, prepared_size, prepared_size_of};
pub use run::{Ran, run, run_keeping};
pub use seams::{Keep, SeamViews};
pub use sizes::sizes_of_folder;
pub use straight::{STRAIGHT_GRID, straight_size};
pub use workload::{Asked, Cohort, StudySize, network_work};
