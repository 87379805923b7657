//! Runs planned passes: the trait, the sliding loop, the CPU engine, the probe for CUDA.

pub mod cpu;
pub mod cuda;
mod error;
#[cfg(test)]
mod exact_tests;
mod forward;
#[cfg(test)]
mod fuzz;
pub mod probe;
pub mod sliding;
#[cfg(test)]
mod tiled_tests;

pub use error::EngineError;
pub use forward::{Forward, Tensor, forward, forward_within};
pub use probe::{EngineInfo, probe};

use crate::jobs::Control;
use crate::memory::Schedule;
use crate::network::{Graph, Weights};
use crate::units::Bytes;
use std::sync::Arc;

/// What an engine is to run: a network, its schedule for one window, and how many windows there are.
#[derive(Clone, Debug)]
pub struct EnginePlan {
    /// The network.
    pub graph: Arc<Graph>,
    /// What one pass over one window (or batch of windows) does.
    pub schedule: Arc<Schedule>,
    /// Windows in run order, numbered from 0.
    pub n_windows: usize,
}

/// Memory of the arena, planned beside measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineMemory {
    /// The schedule's arena.
    pub planned: Bytes,
    /// Bytes that the engine allocated for it.
    pub allocated: Bytes,
    /// The highest byte that a step has used so far.
    pub measured_peak: Bytes,
}

/// Where a window's values come from.
pub trait Source: Sync {
    /// Fills one input of the network for one window, channels last.
    fn gather(&self, window: usize, input: usize, into: MapMut<'_>) -> Result<(), EngineError>;
}

/// Where a window's outputs go.
pub trait Sink: Send {
    /// Takes one output of the network for one window, channels last; called in output order.
    fn take(&mut self, window: usize, output: usize, map: Map<'_>) -> Result<(), EngineError>;

    /// Called after the last output of each window.
    fn window_done(&mut self, window: usize) -> Result<(), EngineError>;
}

/// A map of one window, channels last: the value of channel c at voxel v is `values[v * channels + c]`, last axis fastest.
#[derive(Clone, Copy, Debug)]
pub struct Map<'a> {
    /// The values.
    pub values: &'a [f32],
    /// Channels of each voxel.
    pub channels: usize,
    /// Voxels along each of the tensor's axes; 1 for axes that the network does not have (which come first).
    pub spatial: [usize; 3],
}

impl Map<'_> {
    /// Copies the values into C order (channels, spatial).
    pub fn to_channels_first(self, into: &mut [f32]) {
        let voxels: usize = self.spatial.iter().product();
        if self.channels == 1 {
            into.copy_from_slice(self.values);
            return;
        }
        // Short runs of voxels, so that both sides stay in the cache.
        for from in (0..voxels).step_by(64) {
            let to = (from + 64).min(voxels);
            for c in 0..self.channels {
                for v in from..to {
                    into[c * voxels + v] = self.values[v * self.channels + c];
                }
            }
        }
    }
}

/// A map of one window to be filled, laid out as [`Map`].
#[derive(Debug)]
pub struct MapMut<'a> {
    /// The values.
    pub values: &'a mut [f32],
    /// Channels of each voxel.
    pub channels: usize,
    /// Voxels along each of the tensor's axes; 1 for axes that the network does not have (which come first).
    pub spatial: [usize; 3],
}

/// Something that runs planned passes.
pub trait Engine: Send {
    /// Its name, device and memory.
    fn describe(&self) -> EngineInfo;

    /// Allocates the planned arena and packs the weights. Nothing is allocated after it until the last window is done.
    fn prepare(&mut self, plan: &EnginePlan, weights: &Weights) -> Result<(), EngineError>;

    /// Runs pass `index` over all windows. `control` is asked to stop at least every 0.2 s and advanced by one per window.
    fn pass(
        &mut self,
        index: usize,
        source: &dyn Source,
        sink: &mut dyn Sink,
        control: &Control,
    ) -> Result<(), EngineError>;

    /// Planned, allocated and measured bytes of the arena.
    fn memory(&self) -> EngineMemory;

    /// Bytes that the engine itself counted in the arena at each step of its last pass over the network; empty before the first.
    fn counted(&self) -> Vec<Bytes>;
}
