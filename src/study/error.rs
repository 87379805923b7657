//! What can go wrong between a study and its result, with the exit code of each.

use crate::detect::DetectError;
use crate::engine::EngineError;
use crate::exchange::VolumeFileError;
use crate::exchange::findings::FindingsError;
use crate::exchange::result::ResultError;
use crate::geometry::{AffineError, Extent};
use crate::jobs::Cancelled;
use crate::memory::MemoryError;
use crate::network::NetworkError;
use crate::series::SeriesError;
use crate::tiling::TilingError;
use crate::tiling::stitch::StitchError;
use crate::units::Bytes;
use crate::volume::resample::ResampleError;
use crate::volume::straight::StraightError;

/// Why a study was not opened, planned or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// One window would cover the whole volume.
    #[error(
        "refused before anything ran: one window of {roi} covers the whole prepared volume of {volume} ({voxels} voxels in one pass, an arena of {arena}); choose a smaller roi, or allow the single pass by name (--allow-single-pass)"
    )]
    WholeVolume {
        /// The window.
        roi: Extent,
        /// The prepared volume.
        volume: Extent,
        /// Voxels of the window, with thousands separated.
        voxels: String,
        /// What one pass takes.
        arena: Bytes,
    },
    /// Text that names no study.
    #[error(
        "a generated study is phantom:XxYxZ or phantom:XxYxZ:SEED, such as phantom:256x256x128:7; found \"{found}\""
    )]
    PhantomText {
        /// What was typed.
        found: String,
    },
    /// A generated study without voxels, or too large to hold.
    #[error(
        "a generated study of {found} cannot be made; ask for 1 to 2048 voxels along each axis and at most 2 GiB of voxels"
    )]
    PhantomSize {
        /// The size asked for.
        found: Extent,
    },
    /// No series of that name.
    #[error("the study has no series {wanted}; it has {found}")]
    NoSuchSeries {
        /// The series asked for.
        wanted: String,
        /// The series found.
        found: String,
    },
    /// A series was asked of a study that is one volume.
    #[error(
        "the study is one volume, not DICOM series, so there is no series {wanted}; leave --series out: {study}"
    )]
    OneVolume {
        /// The series asked for.
        wanted: String,
        /// The study.
        study: String,
    },
    /// The series can be looked at but must not be run.
    #[error("the series must not be run: {reason}")]
    Unusable {
        /// Why not.
        reason: String,
    },
    /// An orientation that the manifest cannot mean.
    #[error("the manifest's orientation cannot be used: {reason}")]
    Orientation {
        /// Why not.
        reason: String,
    },
    /// The network needs a spacing and the study does not say its own.
    #[error(
        "the network reads volumes at {wanted_mm} mm between slices, and the study does not say how far its slices are apart; give a study with slice positions"
    )]
    SpacingUnknown {
        /// The spacing of the manifest.
        wanted_mm: f64,
    },
    /// The network does not read one volume.
    #[error(
        "the network {network} needs {found}; Voxfit feeds one volume of one channel to networks over three axes"
    )]
    NotForVolumes {
        /// The network.
        network: String,
        /// What it reads.
        found: String,
    },
    /// An output that the manifest names and the network does not have.
    #[error("the manifest names output {wanted}, the network {network} has {found}")]
    NoSuchOutput {
        /// Position or name.
        wanted: String,
        /// The network.
        network: String,
        /// Its outputs.
        found: String,
    },
    /// Not enough host memory.
    #[error(
        "{what} takes {needed} of host memory, which could not be had; free memory or use a smaller volume"
    )]
    HostMemory {
        /// What for.
        what: &'static str,
        /// Bytes asked for.
        needed: Bytes,
    },
    /// A folder without a volume that could be run.
    #[error(
        "no usable volume in the folder; name one that holds DICOM series: {}",
        folder.display()
    )]
    EmptyCohort {
        /// The folder.
        folder: std::path::PathBuf,
    },
    /// Results that cannot be compared.
    #[error("{reason}")]
    Compare {
        /// Why not.
        reason: String,
    },
    /// Findings of other programs.
    #[error(transparent)]
    Findings(#[from] FindingsError),
    /// Files.
    #[error(transparent)]
    Series(#[from] SeriesError),
    /// A volume file.
    #[error(transparent)]
    VolumeFile(#[from] VolumeFileError),
    /// Windows.
    #[error(transparent)]
    Tiling(#[from] TilingError),
    /// Stitching.
    #[error(transparent)]
    Stitch(#[from] StitchError),
    /// Resampling.
    #[error(transparent)]
    Resample(#[from] ResampleError),
    /// A straight grid.
    #[error(transparent)]
    Straight(StraightError),
    /// Geometry.
    #[error(transparent)]
    Affine(#[from] AffineError),
    /// The network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The plan.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Boxes.
    #[error(transparent)]
    Detect(#[from] DetectError),
    /// The result file.
    #[error(transparent)]
    Result(#[from] ResultError),
    /// Stopped on request.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl StudyError {
    /// The exit code of a command that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::WholeVolume { .. } => 70,
            Self::Memory(MemoryError::LimitTooSmall { .. })
            | Self::Engine(EngineError::Memory(MemoryError::LimitTooSmall { .. })) => 1,
            Self::PhantomText { .. }
            | Self::PhantomSize { .. }
            | Self::NoSuchSeries { .. }
            | Self::OneVolume { .. }
            | Self::Findings(FindingsError::Unfit { .. })
            | Self::Memory(MemoryError::TooLarge { .. })
            | Self::Tiling(_) => 2,
            Self::Result(ResultError::Write { .. })
            | Self::Findings(FindingsError::Write(_))
            | Self::VolumeFile(VolumeFileError::Write { .. }) => 74,
            Self::HostMemory { .. }
            | Self::Straight(StraightError::TooLarge { .. })
            | Self::Stitch(StitchError::Memory { .. })
            | Self::Engine(EngineError::OutOfMemory { .. }) => 75,
            Self::Cancelled(_)
            | Self::Engine(EngineError::Cancelled(_))
            | Self::Series(SeriesError::Cancelled(_))
            | Self::VolumeFile(VolumeFileError::Cancelled(_)) => 130,
            _ => 65,
        }
    }
}
