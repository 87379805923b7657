//! What can go wrong while an engine prepares or runs.

use crate::jobs::Cancelled;
use crate::memory::MemoryError;
use crate::network::NetworkError;
use crate::units::Bytes;

/// Why an engine did not finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Stopped on request.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The arena could not be allocated.
    #[error(
        "this machine has no {needed} to spare for the window's arena; choose a smaller roi or batch"
    )]
    OutOfMemory {
        /// Bytes of the arena.
        needed: Bytes,
    },
    /// An operation or a precision that this engine cannot run.
    #[error("the {engine} engine cannot run {what}; {instead}")]
    Unsupported {
        /// The engine's id.
        engine: &'static str,
        /// What it met.
        what: String,
        /// What to do.
        instead: String,
    },
    /// A tensor of the wrong shape.
    #[error("the network {network} needs an input of {expected}, found {found}")]
    Input {
        /// The network.
        network: String,
        /// Channels and size that are needed.
        expected: String,
        /// What was given.
        found: String,
    },
    /// Weights that do not fit, or a network that contradicts itself.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// No schedule for this window.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The engine's threads could not be started.
    #[error("cannot start {threads} threads for the CPU engine: {reason}")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the system said.
        reason: String,
    },
    /// A pass was asked for before `prepare`, or one that the plan does not have.
    #[error("pass {index} was asked for, but the engine is prepared for {passes}")]
    NoSuchPass {
        /// Asked for.
        index: usize,
        /// Passes of the prepared plan.
        passes: usize,
    },
    /// The receiver of the outputs refused.
    #[error("the outputs could not be kept: {reason}")]
    Sink {
        /// Why.
        reason: String,
    },
}
