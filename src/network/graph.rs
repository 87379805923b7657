//! The graph: tensors and nodes in execution order, without values. Tensors are `(N, C, spatial...)` as in ONNX.

use serde::{Deserialize, Serialize};

/// Index of a tensor in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TensorId(pub u32);

impl TensorId {
    /// As an index into `Graph::tensors`.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a tensor is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TensorKind {
    /// Fed from the volume, with this many channels.
    Input {
        /// Channels.
        channels: usize,
    },
    /// Made by a node.
    Activation,
    /// A learned parameter or a buffer with its shape; counted as a parameter when `is_parameter`.
    Weight {
        /// Its shape, as PyTorch stores it (convolution: out, in / groups, kernel...).
        shape: Vec<usize>,
        /// Whether an optimizer would update it (running statistics are not).
        is_parameter: bool,
    },
}

/// A tensor of the graph. Activations have no shape here: `network::shapes` infers it for a roi.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// Unique name; weights carry their state-dictionary name.
    pub name: String,
    /// What it is for.
    pub kind: TensorKind,
}

/// A pointwise activation. Approximations are ours: see engine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Act {
    /// max(x, 0); passes NaN on.
    Relu,
    /// x for x > 0, else slope * x.
    LeakyRelu {
        /// Slope below zero.
        slope: f32,
    },
    /// 1 / (1 + exp(-x)).
    Sigmoid,
}

/// What a node computes. Lists have one entry per spatial dimension, in the tensor's axis order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    /// Inputs: x, weight, optional bias.
    Conv {
        /// Kernel size.
        kernel: Vec<usize>,
        /// Stride.
        stride: Vec<usize>,
        /// Zeros before the first voxel of each axis.
        pad_begin: Vec<usize>,
        /// Zeros after the last voxel of each axis.
        pad_end: Vec<usize>,
        /// Distance between taps.
        dilation: Vec<usize>,
        /// Channel groups.
        groups: usize,
    },
    /// Inputs: x, weight (in, out / groups, kernel...), optional bias.
    ConvTranspose {
        /// Kernel size.
        kernel: Vec<usize>,
        /// Stride.
        stride: Vec<usize>,
        /// Cut from the beginning.
        pad_begin: Vec<usize>,
        /// Cut from the end.
        pad_end: Vec<usize>,
        /// Extra size at the end.
        output_pad: Vec<usize>,
        /// Channel groups.
        groups: usize,
    },
    /// Inputs: x, scale, shift, running mean, running variance.
    BatchNorm {
        /// Added to the variance.
        eps: f32,
    },
    /// Inputs: x, optional scale and shift. A norm over space.
    InstanceNorm {
        /// Added to the variance.
        eps: f32,
    },
    /// Inputs: x, optional scale and shift. A norm over space.
    GroupNorm {
        /// Channel groups.
        groups: usize,
        /// Added to the variance.
        eps: f32,
    },
    /// Input: x.
    Activation(Act),
    /// Input: x. Padding never wins.
    MaxPool {
        /// Kernel size.
        kernel: Vec<usize>,
        /// Stride.
        stride: Vec<usize>,
        /// Padding before.
        pad_begin: Vec<usize>,
        /// Padding after.
        pad_end: Vec<usize>,
    },
    /// Input: x. Each voxel repeated `scale` times along each axis.
    UpsampleNearest {
        /// Whole factor per spatial axis.
        scale: Vec<usize>,
    },
    /// Inputs of one shape, added.
    Add,
    /// Inputs joined along the channels.
    Concat,
}

/// One operation. `inputs` are activations first, then weights in the order the op says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Unique name, as PyTorch's module path where there is one.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// Tensors it reads.
    pub inputs: Vec<TensorId>,
    /// Tensors it makes.
    pub outputs: Vec<TensorId>,
}

/// A network: nodes in an order in which each reads only what earlier ones made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// The network's name.
    pub name: String,
    /// 1, 2 or 3.
    pub spatial_dims: usize,
    /// All tensors; `TensorId` indexes here.
    pub tensors: Vec<Tensor>,
    /// All nodes, in execution order.
    pub nodes: Vec<Node>,
    /// Inputs, in order.
    pub inputs: Vec<TensorId>,
    /// Outputs, in order.
    pub outputs: Vec<TensorId>,
}
