//! What can be wrong with a question about memory. "Does not fit" is an answer, never an error.

use crate::geometry::Extent;

/// Why no budget can be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The network's shapes do not follow from this roi.
    #[error(
        "the network {network} cannot take a roi of {roi}: {reason}; choose a roi that the total stride divides"
    )]
    Shapes {
        /// The network.
        network: String,
        /// The roi asked for.
        roi: Extent,
        /// What shape inference said.
        reason: String,
    },
    /// A roi without voxels.
    #[error(
        "a roi needs at least one voxel along every axis, found {roi}; 0 and -1 mean the whole axis and need a volume size"
    )]
    EmptyRoi {
        /// The roi asked for.
        roi: Extent,
    },
    /// A batch of nothing.
    #[error("a batch holds at least 1 window, found 0")]
    EmptyBatch,
    /// A size that no machine can address.
    #[error("{what} is larger than 2^64 bytes at roi {roi}; choose a smaller roi or batch")]
    TooLarge {
        /// The tensor or part.
        what: String,
        /// The roi asked for.
        roi: Extent,
    },
    /// The combination has no meaning in this runtime.
    #[error("{what}; {instead}")]
    Unsupported {
        /// What was asked.
        what: String,
        /// What to ask instead.
        instead: String,
    },
    /// No schedule of this network fits under the limit.
    #[error(
        "no schedule of {network} at roi {roi} needs less than {least}, the limit is {limit}; raise the limit or take a smaller roi"
    )]
    LimitTooSmall {
        /// The network.
        network: String,
        /// The roi asked for.
        roi: Extent,
        /// The least that a schedule needs.
        least: crate::units::Bytes,
        /// The limit asked for.
        limit: crate::units::Bytes,
    },
    /// Points that no straight line with a real fixed cost can explain.
    #[error("{reason}")]
    Calibration {
        /// What is wrong with the points.
        reason: String,
    },
}
