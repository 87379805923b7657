//! The sliding loop: each window gathered from the prepared volume, run, and blended or copied into whole outputs.

use super::{Engine, EngineError, EngineMemory, EnginePlan, Map, MapMut, Sink, Source};
use crate::geometry::Extent;
use crate::jobs::Control;
use crate::memory::{Precision, tiles};
use crate::network::{Graph, TensorKind, Weights};
use crate::tiling::TilingPlan;
use crate::tiling::stitch::{ChannelOrder, OutputShape, StitchError, Stitched, Stitcher};
use crate::units::Bytes;
use rayon::prelude::*;
use std::sync::Arc;
use std::time::Instant;

/// The prepared volume: what the network sees, `[k][j][i]` (z slowest), in the plan's size before padding.
#[derive(Clone, Copy, Debug)]
pub struct PreparedVolume<'a> {
    /// Size in voxels.
    pub extent: Extent,
    /// The values, after intensity scaling.
    pub values: &'a [f32],
}

/// How windows are run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Windows per pass of the network.
    pub batch: usize,
    /// How values are stored.
    pub precision: Precision,
    /// Width of the Gaussian importance map as a share of the roi.
    pub sigma_scale: f64,
    /// Most bytes of the arena: larger windows run in tiles. `None`: with whole maps, whatever that takes.
    pub memory_limit: Option<Bytes>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            batch: 1,
            precision: Precision::Fp32,
            sigma_scale: 0.125,
            memory_limit: None,
        }
    }
}

/// What the sliding loop gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Sliding {
    /// The stitched outputs over the prepared volume, in the network's output order, in the tensor's axis order.
    pub outputs: Vec<Stitched>,
    /// Memory of the arena.
    pub memory: EngineMemory,
    /// Seconds from first to last window.
    pub seconds: f64,
}

/// Looks at each output of each window (window, output, map) before it is stitched: seam metrics, say.
pub type Observer<'a> = &'a mut (dyn FnMut(usize, usize, Map<'_>) + Send);

/// Runs all windows of a tiling. Progress counts windows; a cancel answers inside a window too.
pub fn run(
    engine: &mut dyn Engine,
    graph: &Arc<Graph>,
    weights: &Weights,
    (volume, tiling): (PreparedVolume<'_>, &TilingPlan),
    options: &Options,
    control: &Control,
) -> Result<Sliding, EngineError> {
    run_observed(
        engine,
        (graph, weights),
        (volume, tiling),
        options,
        control,
        None,
    )
}

/// As [`run`], with an observer.
pub fn run_observed(
    engine: &mut dyn Engine,
    (graph, weights): (&Arc<Graph>, &Weights),
    (volume, tiling): (PreparedVolume<'_>, &TilingPlan),
    options: &Options,
    control: &Control,
    observer: Option<Observer<'_>>,
) -> Result<Sliding, EngineError> {
    check(graph, &volume, tiling)?;
    let roi = tiling.axes.reorder(tiling.roi.to_array());
    // More than there are windows would only make the arena larger.
    let batch = options.batch.clamp(1, tiling.windows.len().max(1));
    let limit = options.memory_limit;
    let planned = tiles::plan_under(graph, &roi, batch, options.precision, limit)?;
    let plan = EnginePlan {
        graph: Arc::clone(graph),
        schedule: Arc::new(planned),
        n_windows: tiling.windows.len(),
    };
    control.set_total(tiling.windows.len() as u64);
    engine.prepare(&plan, weights)?;
    let mut stitching = Stitching::new(&plan, tiling, options.sigma_scale, observer)?;
    let start = Instant::now();
    engine.pass(0, &Windows { volume, tiling }, &mut stitching, control)?;
    Ok(Sliding {
        outputs: stitching.stitcher.finish(),
        memory: engine.memory(),
        seconds: start.elapsed().as_secs_f64(),
    })
}

fn check(
    graph: &Graph,
    volume: &PreparedVolume<'_>,
    tiling: &TilingPlan,
) -> Result<(), EngineError> {
    let single = graph.spatial_dims == 3
        && matches!(graph.inputs.as_slice(), [one]
            if matches!(graph.tensor(*one).map(|t| &t.kind), Some(TensorKind::Input { channels: 1 })));
    let fits = volume.extent == tiling.volume
        && volume.extent.checked_voxels() == Some(volume.values.len());
    if single && fits {
        return Ok(());
    }
    let (expected, found) = if single {
        (
            format!("{} voxels, as the windows were planned", tiling.volume),
            format!("{} voxels, {} values", volume.extent, volume.values.len()),
        )
    } else {
        (
            "one channel over three axes, as CT has".to_owned(),
            format!(
                "a network with {} inputs over {} axes",
                graph.inputs.len(),
                graph.spatial_dims
            ),
        )
    };
    Err(EngineError::Input {
        network: graph.name.clone(),
        expected,
        found,
    })
}

/// Windows of the prepared volume, zeros where they reach beyond it.
struct Windows<'a> {
    volume: PreparedVolume<'a>,
    tiling: &'a TilingPlan,
}

impl Source for Windows<'_> {
    fn gather(&self, window: usize, _input: usize, into: MapMut<'_>) -> Result<(), EngineError> {
        let axes = self.tiling.axes;
        let e = self.volume.extent;
        let step = axes.reorder([1, e.x, e.x * e.y]);
        let size = axes.reorder(e.to_array());
        let min = axes.reorder(self.tiling.windows[window].roi.min);
        let before = axes.reorder(self.tiling.pad_before);
        // Index into the volume along an axis, if it is inside.
        let at = |a: usize, i: usize| (min[a] + i).checked_sub(before[a]).filter(|p| *p < size[a]);
        let [_, rows, len] = into.spatial;
        into.values
            .par_chunks_exact_mut(rows * len)
            .enumerate()
            .for_each(|(i, plane)| {
                for (j, row) in plane.chunks_exact_mut(len).enumerate() {
                    let (Some(pi), Some(pj)) = (at(0, i), at(1, j)) else {
                        row.fill(0.0);
                        continue;
                    };
                    for (k, x) in row.iter_mut().enumerate() {
                        *x = at(2, k).map_or(0.0, |pk| {
                            self.volume.values[pi * step[0] + pj * step[1] + pk * step[2]]
                        });
                    }
                }
            });
        Ok(())
    }
}

struct Stitching<'a> {
    stitcher: Stitcher,
    observer: Option<Observer<'a>>,
}

impl<'a> Stitching<'a> {
    fn new(
        plan: &EnginePlan,
        tiling: &TilingPlan,
        sigma_scale: f64,
        observer: Option<Observer<'a>>,
    ) -> Result<Self, EngineError> {
        let shapes = plan
            .schedule
            .outputs
            .iter()
            .map(|&o| output_shape(&plan.schedule.tensors[o].shape))
            .collect::<Result<Vec<OutputShape>, EngineError>>()?;
        Ok(Self {
            stitcher: Stitcher::new(tiling, &shapes, sigma_scale).map_err(refused)?,
            observer,
        })
    }
}

/// An output's channels and size; other shapes have no place in a volume.
fn output_shape(shape: &[usize]) -> Result<OutputShape, EngineError> {
    match *shape {
        [_, channels, x, y, z] => Ok(OutputShape {
            channels,
            spatial: [x, y, z],
        }),
        _ => Err(EngineError::Sink {
            reason: format!(
                "windows are stitched from outputs of shape (N, C, spatial...) with three spatial axes, found {shape:?}"
            ),
        }),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
fn refused(e: StitchError) -> EngineError {
    EngineError::Sink {
        reason: e.to_string(),
    }
}

impl Sink for Stitching<'_> {
    fn take(&mut self, window: usize, output: usize, map: Map<'_>) -> Result<(), EngineError> {
        if let Some(observer) = &mut self.observer {
            observer(window, output, map);
        }
        self.stitcher
            .add(window, output, map.values, ChannelOrder::Last)
            .map_err(refused)
    }

    fn window_done(&mut self, _window: usize) -> Result<(), EngineError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_that_are_no_volumes_are_refused_in_words() {
        assert_eq!(output_shape(&[1, 2, 3, 4, 5]).unwrap().spatial, [3, 4, 5]);
        for shape in [&[1, 2][..], &[1, 2, 3, 4], &[1, 2, 3, 4, 5, 6]] {
            let error = output_shape(shape).unwrap_err().to_string();
            assert!(error.contains("three spatial axes"), "{error}");
        }
    }
}
