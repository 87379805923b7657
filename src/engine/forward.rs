//! One forward pass on a tensor, as people who live in numpy want it.

use super::{Engine, EngineError, EngineMemory, EnginePlan, Map, MapMut, Sink, Source};
use crate::jobs::Control;
use crate::memory::{Precision, tiles};
use crate::network::{Graph, TensorKind, Weights};
use crate::units::Bytes;
use std::sync::Arc;
use std::time::Instant;

/// A tensor in C order, (N, C, spatial...).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensor {
    /// Batch, channels, spatial sizes.
    pub shape: Vec<usize>,
    /// The values.
    pub values: Vec<f32>,
}

/// What a forward pass gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Forward {
    /// One tensor per output, in the network's output order.
    pub outputs: Vec<Tensor>,
    /// Memory of the arena.
    pub memory: EngineMemory,
    /// Seconds of the pass (the best one when repeated), with the weights packed before.
    pub seconds: f64,
}

/// Runs the network on a tensor. With `repeat` above 1 the seconds are the best of so many passes after one uncounted.
pub fn forward(
    engine: &mut dyn Engine,
    graph: &Arc<Graph>,
    weights: &Weights,
    tensor: &Tensor,
    repeat: usize,
    control: &Control,
) -> Result<Forward, EngineError> {
    forward_within(engine, (graph, weights), tensor, repeat, None, control)
}

/// As [`forward`], in an arena of at most so many bytes: where whole maps do not fit, in tiles.
pub fn forward_within(
    engine: &mut dyn Engine,
    (graph, weights): (&Arc<Graph>, &Weights),
    tensor: &Tensor,
    repeat: usize,
    limit: Option<Bytes>,
    control: &Control,
) -> Result<Forward, EngineError> {
    check(graph, tensor)?;
    let batch = tensor.shape[0];
    let spatial = &tensor.shape[2..];
    let planned = tiles::plan_under(graph, spatial, batch, Precision::Fp32, limit)?;
    let plan = EnginePlan {
        graph: Arc::clone(graph),
        schedule: Arc::new(planned),
        n_windows: batch,
    };
    engine.prepare(&plan, weights)?;
    let mut outputs = Outputs {
        tensors: plan
            .schedule
            .outputs
            .iter()
            .map(|&o| {
                let shape = plan.schedule.tensors[o].shape.clone();
                Tensor {
                    values: vec![0.0; shape.iter().product()],
                    shape,
                }
            })
            .collect(),
    };
    let mut seconds = f64::INFINITY;
    for round in 0..if repeat > 1 { repeat + 1 } else { 1 } {
        let start = Instant::now();
        engine.pass(0, tensor, &mut outputs, control)?;
        if round > 0 || repeat <= 1 {
            seconds = seconds.min(start.elapsed().as_secs_f64());
        }
    }
    Ok(Forward {
        outputs: outputs.tensors,
        memory: engine.memory(),
        seconds,
    })
}

fn check(graph: &Graph, tensor: &Tensor) -> Result<(), EngineError> {
    let channels = match graph.inputs.as_slice() {
        [one] => match graph.tensor(*one).map(|t| &t.kind) {
            Some(TensorKind::Input { channels }) => *channels,
            _ => 0,
        },
        _ => 0,
    };
    let n: Option<usize> = tensor
        .shape
        .iter()
        .try_fold(1_usize, |n, d| n.checked_mul(*d));
    let right = tensor.shape.len() == graph.spatial_dims + 2
        && tensor.shape[1] == channels
        && n == Some(tensor.values.len());
    if right {
        return Ok(());
    }
    Err(EngineError::Input {
        network: graph.name.clone(),
        expected: format!(
            "shape (N, {channels}, {} spatial sizes), and one input",
            graph.spatial_dims
        ),
        found: format!("shape {:?}, {} values", tensor.shape, tensor.values.len()),
    })
}

impl Source for Tensor {
    fn gather(&self, window: usize, _input: usize, into: MapMut<'_>) -> Result<(), EngineError> {
        let voxels: usize = into.spatial.iter().product();
        let len = voxels * into.channels;
        let own = &self.values[window * len..(window + 1) * len];
        for (v, voxel) in into.values.chunks_exact_mut(into.channels).enumerate() {
            for (c, x) in voxel.iter_mut().enumerate() {
                *x = own[c * voxels + v];
            }
        }
        Ok(())
    }
}

struct Outputs {
    tensors: Vec<Tensor>,
}

impl Sink for Outputs {
    fn take(&mut self, window: usize, output: usize, map: Map<'_>) -> Result<(), EngineError> {
        let len = map.values.len();
        map.to_channels_first(&mut self.tensors[output].values[window * len..(window + 1) * len]);
        Ok(())
    }

    fn window_done(&mut self, _window: usize) -> Result<(), EngineError> {
        Ok(())
    }
}
