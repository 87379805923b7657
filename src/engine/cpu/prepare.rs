//! From schedule to runnable steps: places, packed weights, geometry. All allocations of a run happen here.

use super::super::EngineError;
use super::arena::{Arena, Place};
use super::conv::{Conv, ConvParts, MAX_SOURCES};
use super::isa::Isa;
use super::maps::{Maps, Pooling, Rule};
use super::norm::{Measure, Norm, Statistics, set_affine};
use super::packed::Packed;
use super::resize::linear_taps;
use super::slabs::ReadySlabs;
use super::spans::Axis;
use super::tensor::TensorStep;
use crate::jobs::Control;
use crate::memory::schedule::{Kernel, Schedule, Step};
use crate::network::layout::Layout;
use crate::network::{Graph, Node, Op, TensorId, Weights, facts, shapes};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A step ready to run.
pub(super) enum Ready {
    Gather {
        input: usize,
        place: usize,
    },
    Conv(Box<Conv>),
    Norm(Box<Norm>),
    /// Sums of a norm that is applied later.
    Measure(Box<Measure>),
    /// A norm with sums that were measured before.
    Apply(Box<Norm>),
    Maps(Box<Maps>),
    Slabs(Box<ReadySlabs>),
    /// An operation on tensors of any rank, for the whole batch.
    Tensor(Box<TensorStep>),
    /// A product with a constant matrix: a convolution over all rows of the batch.
    Linear(Box<Conv>),
    /// Mean over space: source and target places, channels, voxels, bricks, scratch.
    GlobalAverage {
        source: Place,
        target: Place,
        scratch: Place,
        channels: usize,
        voxels: usize,
        bricks: usize,
    },
    Outputs,
}

impl Ready {
    /// The places of a step inside slabs, in the order of [`super::slabs`].
    pub(super) fn places(&mut self, f: &mut dyn FnMut(&mut Place)) {
        match self {
            Self::Conv(conv) => conv.places(f),
            Self::Norm(norm) | Self::Apply(norm) => norm.places(f),
            Self::Measure(measure) => measure.places(f),
            Self::Maps(maps) => maps.places(f),
            _ => {}
        }
    }

    /// Runs a step inside slabs, bound to one window, for some planes.
    pub(super) fn run_planes(
        &mut self,
        isa: Isa,
        window: usize,
        planes: Range<usize>,
        control: &Control,
    ) {
        match self {
            Self::Conv(conv) => conv.run_planes(isa, 0, planes, control),
            Self::Norm(norm) | Self::Apply(norm) => {
                norm.apply_planes(isa, (0, window), planes, control);
            }
            Self::Measure(measure) => {
                measure.run_planes(isa, (measure.source, window), planes, control);
            }
            Self::Maps(maps) => maps.run_planes(isa, 0, planes, control),
            _ => {}
        }
    }
}

/// Packed weights by how and from what they are made: transposed or not, groups, tensors.
pub(super) type PackedWeights = BTreeMap<(bool, usize, Vec<TensorId>), Arc<Packed>>;

/// Factor, shift and mean per channel.
type BatchNorm = (Vec<f64>, Vec<f64>, Vec<f64>);

pub(super) struct Preparing<'a> {
    pub(super) graph: &'a Graph,
    pub(super) schedule: &'a Schedule,
    pub(super) weights: &'a Weights,
    pub(super) places: &'a [Place],
    /// Weights packed so far: a convolution used twice is packed once.
    pub(super) packed: RefCell<PackedWeights>,
    /// Shapes of the graph's tensors.
    pub(super) shapes: &'a [Vec<usize>],
    /// How each of the graph's tensors lies in memory.
    pub(super) layouts: &'a [Layout],
}

/// The places of all planned tensors.
pub(super) fn places(arena: &mut Arena, schedule: &Schedule) -> Vec<Place> {
    schedule.tensors.iter().map(|t| arena.place(t)).collect()
}

/// Work of each step in floating point operations, at least 1.
pub(super) fn work(graph: &Graph, schedule: &Schedule) -> Vec<u64> {
    let shapes = shapes::infer(graph, &schedule.spatial, schedule.batch).unwrap_or_default();
    let flops = facts::flops(graph, &shapes);
    let of = |s: &Step| -> u64 { s.nodes.iter().filter_map(|n| flops.get(*n)).sum() };
    let inner = |s: &Step| s.slabs.iter().flat_map(|i| &i.steps).map(of).sum::<u64>();
    let steps = schedule.steps.iter();
    steps
        .map(|s| of(s).saturating_add(inner(s)).max(1))
        .collect()
}

impl Preparing<'_> {
    /// How often each step repeats: `None` once a window of the batch. Inside a network the first axis need not be the
    /// batch (tensors may be joined or turned along it): there a step repeats as often as its own first axis says.
    pub(super) fn repeats(&self) -> Vec<Option<usize>> {
        let batch = self.schedule.batch;
        // An axis that is as long as another batch too is the batch.
        let other = shapes::infer(self.graph, &self.schedule.spatial, batch + 1).ok();
        let first = |all: &[Vec<usize>], id: TensorId| {
            let shape = all.get(id.index());
            shape.and_then(|s| s.first()).copied()
        };
        let of = |step: &Step| {
            let inner = step.slabs.iter().flat_map(|s| &s.steps);
            let node = std::iter::once(step).chain(inner).find_map(node_of)?;
            let made = *self.graph.nodes.get(node)?.outputs.first()?;
            let own = first(self.shapes, made)?;
            let grown = other.as_deref().and_then(|all| first(all, made));
            (own != batch || grown != Some(batch + 1)).then_some(own)
        };
        self.schedule.steps.iter().map(of).collect()
    }

    /// The runnable form of a step.
    pub(super) fn step(&self, step: &Step) -> Result<Ready, EngineError> {
        Ok(match step.kernel {
            Kernel::Gather => {
                let place = step.target.unwrap_or_default();
                let input = self
                    .schedule
                    .inputs
                    .iter()
                    .position(|p| *p == place)
                    .unwrap_or(0);
                Ready::Gather { input, place }
            }
            Kernel::Outputs => Ready::Outputs,
            Kernel::Measure { .. } => self.measure(step)?,
            Kernel::Apply { node } => {
                let node = &self.graph.nodes[node];
                let (group, eps) = self.spatial_norm_of(step, node)?;
                match self.spatial_norm(step, node, group, eps)? {
                    Ready::Norm(norm) => Ready::Apply(norm),
                    other => other,
                }
            }
            Kernel::Slabs => self.slabs(step)?,
            Kernel::Pointwise => self.pointwise(step)?,
            Kernel::Node { node, batch_norm } => {
                self.node(step, &self.graph.nodes[node], batch_norm)?
            }
        })
    }

    fn node(
        &self,
        step: &Step,
        node: &Node,
        batch_norm: Option<usize>,
    ) -> Result<Ready, EngineError> {
        let input = step.sources.first().map_or([1; 3], |s| self.spatial(*s));
        Ok(match &node.op {
            Op::Conv { .. } | Op::ConvTranspose { .. } => self.conv(step, node, batch_norm)?,
            Op::BatchNorm { eps } => {
                let (factor, shift, mean) = self.batch_norm(node, *eps)?;
                let mut norm = self.norm(step, Statistics::Known)?;
                for c in 0..norm.channels {
                    set_affine(&mut norm.affine, c, (mean[c], factor[c], shift[c]));
                }
                Ready::Norm(Box::new(norm))
            }
            Op::InstanceNorm { .. } | Op::GroupNorm { .. } => {
                let (group, eps) = self.spatial_norm_of(step, node)?;
                self.spatial_norm(step, node, group, eps)?
            }
            Op::MaxPool {
                kernel,
                stride,
                pad_begin,
                pad_end,
            } => self.maps(
                step,
                Rule::MaxPool(pooling([kernel, stride, pad_begin, pad_end])),
            )?,
            Op::AvgPool {
                kernel,
                stride,
                pad_begin,
                pad_end,
                count_padding,
            } => self.maps(
                step,
                Rule::AvgPool(
                    pooling([kernel, stride, pad_begin, pad_end]),
                    *count_padding,
                ),
            )?,
            Op::UpsampleNearest { scale } => self.maps(step, Rule::Nearest(three(scale, 1)))?,
            Op::UpsampleLinear {
                scale,
                align_corners,
            } => {
                let scale = three(scale, 1);
                let taps = std::array::from_fn(|a| linear_taps(input[a], scale[a], *align_corners));
                self.maps(step, Rule::Linear(taps))?
            }
            Op::Pad { begin, mode, .. } => self.maps(step, Rule::Pad(three(begin, 0), *mode))?,
            Op::Concat => self.maps(step, Rule::Concat)?,
            Op::Softmax => self.maps(step, Rule::Softmax)?,
            Op::GlobalAvgPool => {
                let (source, target) = (step.sources[0], Self::target(step)?);
                Ready::GlobalAverage {
                    source: self.places[source],
                    target: self.places[target],
                    scratch: self.scratch(step)?,
                    channels: self.channels(source),
                    voxels: input.iter().product(),
                    bricks: self.bricks(source),
                }
            }
            Op::Tensor(op) => self.tensor(step, node, op)?,
            Op::Other { reason, .. } => return Err(unsupported(node, reason)),
            Op::Activation(_) | Op::PRelu | Op::Add | Op::Mul => self.pointwise(step)?,
        })
    }

    /// The epilogue alone.
    fn pointwise(&self, step: &Step) -> Result<Ready, EngineError> {
        let made = step
            .nodes
            .last()
            .and_then(|n| self.graph.nodes[*n].outputs.first());
        let rows = made.is_some_and(|id| self.layouts[id.index()] == Layout::Rows);
        let rank = made.map_or(0, |id| self.shapes[id.index()].len());
        if rows || rank != self.graph.spatial_dims + 2 {
            self.flat(step)
        } else {
            self.maps(step, Rule::Same)
        }
    }

    fn conv(
        &self,
        step: &Step,
        node: &Node,
        batch_norm: Option<usize>,
    ) -> Result<Ready, EngineError> {
        let target = Self::target(step)?;
        if step.sources.len() > MAX_SOURCES {
            return Err(unsupported(node, "it joins more than 8 tensors"));
        }
        let (input, output) = (self.spatial(step.sources[0]), self.spatial(target));
        let (axes, transposed, groups) = match &node.op {
            Op::Conv {
                kernel,
                stride,
                pad_begin,
                dilation,
                groups,
                ..
            } => (
                axes([kernel, stride, pad_begin, dilation], input, output),
                false,
                *groups,
            ),
            Op::ConvTranspose {
                kernel,
                stride,
                pad_begin,
                dilation,
                groups,
                ..
            } => (
                axes([kernel, stride, pad_begin, dilation], input, output),
                true,
                *groups,
            ),
            _ => return Err(unsupported(node, "it is not a convolution")),
        };
        let own = self.weights_of(node);
        let fold = match batch_norm.map(|n| &self.graph.nodes[n]) {
            Some(norm) => {
                let Op::BatchNorm { eps } = norm.op else {
                    return Err(unsupported(norm, "it is not a batch norm"));
                };
                let (factor, shift, mean) = self.batch_norm(norm, eps)?;
                let shift = shift
                    .iter()
                    .zip(&mean)
                    .zip(&factor)
                    .map(|((s, m), f)| s - m * f)
                    .collect();
                Some((factor, shift))
            }
            None => None,
        };
        let Some(weights) = own.first() else {
            return Err(unsupported(node, "it has no weights"));
        };
        let mut made_from = vec![*weights];
        made_from.extend(own.get(1));
        made_from.extend(
            batch_norm
                .iter()
                .flat_map(|n| self.weights_of(&self.graph.nodes[*n])),
        );
        let key = (transposed, groups, made_from);
        let packed = self.packed.borrow().get(&key).cloned();
        let conv = Conv::prepare(ConvParts {
            sources: step
                .sources
                .iter()
                .map(|s| (self.places[*s], self.channels(*s)))
                .collect(),
            target: self.places[target],
            axes,
            transposed,
            groups,
            out_channels: self.channels(target),
            weights: self.values(*weights)?,
            bias: own.get(1).map(|b| self.values(*b)).transpose()?,
            fold,
            packed,
            posts: self.posts(step)?,
        });
        self.packed
            .borrow_mut()
            .entry(key)
            .or_insert_with(|| Arc::clone(conv.packed()));
        Ok(Ready::Conv(Box::new(conv)))
    }

    /// The steps of slabs.
    fn slabs(&self, step: &Step) -> Result<Ready, EngineError> {
        let Some(slabs) = &step.slabs else {
            return Err(EngineError::Unsupported {
                engine: "cpu",
                what: format!("the step {}, which has no slabs", step.name),
                instead: "plan the network again".to_owned(),
            });
        };
        let ready = slabs
            .steps
            .iter()
            .map(|s| self.step(s))
            .collect::<Result<_, _>>()?;
        let tensors = &self.schedule.tensors;
        Ok(Ready::Slabs(Box::new(ReadySlabs::new(
            slabs,
            ready,
            self.places,
            tensors,
        ))))
    }

    fn measure(&self, step: &Step) -> Result<Ready, EngineError> {
        let source = step.sources[0];
        Ok(Ready::Measure(Box::new(Measure {
            source: self.places[source],
            scratch: self.scratch(step)?,
            channels: self.channels(source),
            voxels: self.spatial(source).iter().product(),
            bricks: self.bricks(source),
        })))
    }

    /// Channels that share their statistics, and what is added to the variance.
    fn spatial_norm_of(&self, step: &Step, node: &Node) -> Result<(usize, f32), EngineError> {
        match &node.op {
            Op::InstanceNorm { eps } => Ok((1, *eps)),
            Op::GroupNorm { groups, eps } => {
                Ok((self.channels(step.sources[0]) / (*groups).max(1), *eps))
            }
            _ => Err(unsupported(node, "it is no norm over space")),
        }
    }

    /// Factor, shift and mean per channel, in f64.
    fn batch_norm(&self, node: &Node, eps: f32) -> Result<BatchNorm, EngineError> {
        let w = self.weights_of(node);
        let [scale, shift, mean, variance] = *w.as_slice() else {
            return Err(unsupported(
                node,
                "a batch norm needs scale, shift, mean and variance",
            ));
        };
        let wide = |id| {
            self.values(id)
                .map(|v| v.iter().map(|x| f64::from(*x)).collect::<Vec<_>>())
        };
        let factor = wide(scale)?
            .iter()
            .zip(wide(variance)?)
            .map(|(s, v)| s / (v + f64::from(eps)).sqrt())
            .collect();
        Ok((factor, wide(shift)?, wide(mean)?))
    }

    fn norm(&self, step: &Step, statistics: Statistics) -> Result<Norm, EngineError> {
        let (source, target) = (step.sources[0], Self::target(step)?);
        let channels = self.channels(target);
        Ok(Norm {
            source: self.places[source],
            target: self.places[target],
            channels,
            voxels: self.spatial(source).iter().product(),
            bricks: self.bricks(source),
            statistics,
            affine: std::array::from_fn(|_| vec![0.0; channels]),
            posts: self.posts(step)?,
        })
    }

    fn spatial_norm(
        &self,
        step: &Step,
        node: &Node,
        group: usize,
        eps: f32,
    ) -> Result<Ready, EngineError> {
        let channels = self.channels(step.sources[0]);
        let w = self.weights_of(node);
        let or = |i: usize, value: f32| match w.get(i) {
            Some(id) => self.values(*id).map(<[f32]>::to_vec),
            None => Ok(vec![value; channels]),
        };
        let statistics = Statistics::Window {
            group,
            eps: f64::from(eps),
            scale: or(0, 1.0)?,
            shift: or(1, 0.0)?,
            scratch: self.scratch(step)?,
        };
        Ok(Ready::Norm(Box::new(self.norm(step, statistics)?)))
    }

    pub(super) fn maps(&self, step: &Step, rule: Rule) -> Result<Ready, EngineError> {
        let target = Self::target(step)?;
        Ok(Ready::Maps(Box::new(Maps {
            rule,
            sources: step
                .sources
                .iter()
                .map(|s| (self.places[*s], self.channels(*s)))
                .collect(),
            target: self.places[target],
            channels: self.channels(target),
            input: self.spatial(step.sources[0]),
            output: self.spatial(target),
            posts: self.posts(step)?,
        })))
    }
}

/// The node that a step is named by.
fn node_of(step: &Step) -> Option<usize> {
    match step.kernel {
        Kernel::Node { node, .. } | Kernel::Measure { node } | Kernel::Apply { node } => Some(node),
        _ => step.nodes.first().copied(),
    }
}

pub(super) fn unsupported(node: &Node, why: &str) -> EngineError {
    EngineError::Unsupported {
        engine: "cpu",
        what: format!("the node {} ({}): {why}", node.name, node.op.kind()),
        instead: "it can be planned, not run".to_owned(),
    }
}

/// One to three axes as three; what the network does not have comes first.
pub(super) fn three(axes: &[usize], missing: usize) -> [usize; 3] {
    let mut out = [missing; 3];
    let skip = 3_usize.saturating_sub(axes.len());
    for (o, a) in out[skip..].iter_mut().zip(axes) {
        *o = *a;
    }
    out
}

fn axes(
    [kernel, stride, pad, dilation]: [&[usize]; 4],
    input: [usize; 3],
    output: [usize; 3],
) -> [Axis; 3] {
    let (kernel, stride, pad, dilation) = (
        three(kernel, 1),
        three(stride, 1),
        three(pad, 0),
        three(dilation, 1),
    );
    std::array::from_fn(|a| Axis {
        kernel: kernel[a],
        stride: stride[a],
        pad: pad[a],
        dilation: dilation[a],
        input: input[a],
        output: output[a],
    })
}

fn pooling([kernel, stride, pad, pad_end]: [&Vec<usize>; 4]) -> Pooling {
    Pooling {
        kernel: three(kernel, 1),
        stride: three(stride, 1),
        pad: three(pad, 0),
        pad_end: three(pad_end, 0),
        dilation: [1; 3],
    }
}
