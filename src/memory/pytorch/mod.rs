//! A model of PyTorch in eager mode: which storages live when (frames hold their arguments), what its caching
//! allocator then reserves, and how much workspace a convolution library may ask for.

pub mod allocator;
mod called;
mod eager;
mod frames;
#[cfg(test)]
mod golden;
mod tokens;
mod training;
mod training_tokens;
mod workspace;

pub use eager::{Block, EagerOptions, Event, Live, Trace, simulate};
pub use frames::Frames;
pub use training::{TrainingOptions, simulate_training};
pub use workspace::{Workspace, workspace};
