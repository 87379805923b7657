//! The graph: tensors and nodes in execution order, without values. Tensors are `(N, C, spatial...)` as in ONNX.

use super::tensor_op::TensorOp;
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
    /// Hyperbolic tangent.
    Tanh,
    /// x * (1 + erf(x / sqrt 2)) / 2.
    Gelu,
    /// x / (1 + exp(-x)).
    Silu,
    /// x for x > 0, else alpha * (exp(x) - 1).
    Elu {
        /// What it tends to below zero, negated.
        alpha: f32,
    },
    /// x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2.
    GeluTanh,
    /// x * tanh(ln(1 + exp(x))).
    Mish,
    /// ln(1 + exp(x)).
    Softplus,
    /// x / (1 + |x|).
    Softsign,
    /// gamma * (x for x > 0, else alpha * (exp(x) - 1)).
    Selu {
        /// Height below zero.
        alpha: f32,
        /// Factor of all.
        gamma: f32,
    },
    /// max(0, min(1, alpha * x + beta)).
    HardSigmoid {
        /// Slope.
        alpha: f32,
        /// Offset.
        beta: f32,
    },
    /// x * max(0, min(1, x / 6 + 1/2)).
    HardSwish,
    /// Not below `low`, not above `high`; passes NaN on.
    Clip {
        /// Least value.
        low: f32,
        /// Largest value.
        high: f32,
    },
    /// x for x > alpha, else 0.
    ThresholdedRelu {
        /// The threshold.
        alpha: f32,
    },
    /// factor * x + shift, in one rounding.
    Affine {
        /// Factor.
        factor: f32,
        /// Shift.
        shift: f32,
    },
    /// x to this power.
    Power {
        /// The exponent.
        exponent: f32,
    },
    /// A function of one value.
    Function(Function),
}

/// A function of one value without settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Function {
    /// |x|.
    Abs,
    /// -x.
    Neg,
    /// 1 / x.
    Reciprocal,
    /// Square root.
    Sqrt,
    /// exp(x).
    Exp,
    /// Natural logarithm.
    Log,
    /// The error function.
    Erf,
    /// Rounded down.
    Floor,
    /// Rounded up.
    Ceil,
    /// Rounded, halves to even.
    Round,
    /// -1, 0 or 1.
    Sign,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// 1 where x is 0, else 0.
    Not,
    /// 1 where x is not 0, else 0.
    Truth,
    /// Rounded towards 0, as a conversion to whole numbers does.
    Truncate,
    /// 1 where x is NaN, else 0.
    IsNan,
}

/// What lies beyond the border of a padded tensor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum PadMode {
    /// This value.
    Constant {
        /// The value.
        value: f32,
    },
    /// The nearest voxel of the tensor, repeated.
    Edge,
    /// The tensor mirrored at its border voxel, which is not repeated.
    Reflect,
    /// The tensor again, from its other end on.
    Wrap,
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
        /// Distance between taps.
        #[serde(default, skip_serializing_if = "all_ones")]
        dilation: Vec<usize>,
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
    /// Inputs: x, slope (one value or one per channel). x for x > 0, else slope * x.
    PRelu,
    /// Input: x. Padding counts as zeros in the mean when `count_padding`.
    AvgPool {
        /// Kernel size.
        kernel: Vec<usize>,
        /// Stride.
        stride: Vec<usize>,
        /// Padding before.
        pad_begin: Vec<usize>,
        /// Padding after.
        pad_end: Vec<usize>,
        /// Whether padding voxels count in the divisor.
        count_padding: bool,
    },
    /// Input: x. Mean over space, one voxel a channel.
    GlobalAvgPool,
    /// Input: x. Linear interpolation by a whole factor.
    UpsampleLinear {
        /// Whole factor per spatial axis.
        scale: Vec<usize>,
        /// Whether the corner voxels of input and output coincide (never exact in windows).
        align_corners: bool,
    },
    /// Input: x. Padding of the spatial axes only.
    Pad {
        /// Voxels before.
        begin: Vec<usize>,
        /// Voxels after.
        end: Vec<usize>,
        /// What they hold.
        mode: PadMode,
    },
    /// Inputs of one shape, multiplied voxel by voxel.
    Mul,
    /// Input: x. exp(x) over its sum, along the channels.
    Softmax,
    /// An operation on tensors of any rank.
    Tensor(TensorOp),
    /// An operation of which only the shapes are known, and only at one spatial size: it can be planned there but not run.
    Other {
        /// The operation's type as its source spells it.
        kind: String,
        /// The spatial size of the network's input at which `shapes` hold.
        at: Vec<usize>,
        /// One shape per output, at batch 1 (the first entry scales with the batch).
        shapes: Vec<Vec<usize>>,
        /// Floating point operations at that size.
        flops: u64,
        /// Why it cannot be run.
        reason: String,
    },
}

impl Op {
    /// The operation's type in a word, as lists and counts show it.
    pub fn kind(&self) -> &str {
        match self {
            Self::Conv { .. } => "Conv",
            Self::ConvTranspose { .. } => "ConvTranspose",
            Self::BatchNorm { .. } => "BatchNorm",
            Self::InstanceNorm { .. } => "InstanceNorm",
            Self::GroupNorm { .. } => "GroupNorm",
            Self::Activation(act) => act.kind(),
            Self::MaxPool { .. } => "MaxPool",
            Self::UpsampleNearest { .. } => "UpsampleNearest",
            Self::Add => "Add",
            Self::Concat => "Concat",
            Self::PRelu => "PRelu",
            Self::AvgPool { .. } => "AvgPool",
            Self::GlobalAvgPool => "GlobalAvgPool",
            Self::UpsampleLinear { .. } => "UpsampleLinear",
            Self::Pad { .. } => "Pad",
            Self::Mul => "Mul",
            Self::Softmax => "Softmax",
            Self::Tensor(op) => op.kind(),
            Self::Other { kind, .. } => kind,
        }
    }

    /// Whether it takes statistics over space, so that windows change its result.
    pub const fn is_spatial_norm(&self) -> bool {
        matches!(self, Self::InstanceNorm { .. } | Self::GroupNorm { .. })
    }
}

impl Act {
    /// The activation's name in a word.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Relu => "Relu",
            Self::LeakyRelu { .. } => "LeakyRelu",
            Self::Sigmoid => "Sigmoid",
            Self::Tanh => "Tanh",
            Self::Gelu => "Gelu",
            Self::Silu => "Silu",
            Self::Elu { .. } => "Elu",
            Self::GeluTanh => "GeluTanh",
            Self::Mish => "Mish",
            Self::Softplus => "Softplus",
            Self::Softsign => "Softsign",
            Self::Selu { .. } => "Selu",
            Self::HardSigmoid { .. } => "HardSigmoid",
            Self::HardSwish => "HardSwish",
            Self::Clip { .. } => "Clip",
            Self::ThresholdedRelu { .. } => "ThresholdedRelu",
            Self::Affine { .. } => "Affine",
            Self::Power { .. } => "Pow",
            Self::Function(f) => f.kind(),
        }
    }
}

impl Function {
    /// The function's name in a word.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Abs => "Abs",
            Self::Neg => "Neg",
            Self::Reciprocal => "Reciprocal",
            Self::Sqrt => "Sqrt",
            Self::Exp => "Exp",
            Self::Log => "Log",
            Self::Erf => "Erf",
            Self::Floor => "Floor",
            Self::Ceil => "Ceil",
            Self::Round => "Round",
            Self::Sign => "Sign",
            Self::Sin => "Sin",
            Self::Cos => "Cos",
            Self::Not => "Not",
            Self::Truth => "Truth",
            Self::Truncate => "Truncate",
            Self::IsNan => "IsNaN",
        }
    }
}

fn all_ones(values: &[usize]) -> bool {
    values.iter().all(|v| *v == 1)
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
    /// Whether PyTorch writes the result over the first input; only PyTorch's budget asks.
    #[serde(default)]
    pub inplace: bool,
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
    /// Batch and spatial sizes at which its file was read, or that its settings name; empty where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub example: Vec<usize>,
    /// Nodes that hold at the example's sizes only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baked: Vec<Baked>,
    /// Sizes that a node's constants hold for, where they hold for no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiples: Option<Multiples>,
}

/// Sizes that a node with constants of the export holds for: multiples of the total stride.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Multiples {
    /// One number per spatial axis.
    pub of: Vec<usize>,
    /// The node, and what of it.
    pub because: Baked,
}

/// A node into which the size of an export is baked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baked {
    /// Its name.
    pub node: String,
    /// Its type.
    pub op: String,
    /// What of it.
    pub reason: String,
}

impl Graph {
    /// The tensor behind an id, if it is one of this graph's.
    pub fn tensor(&self, id: TensorId) -> Option<&Tensor> {
        self.tensors.get(id.index())
    }

    /// Ids of all weights in the order in which they were declared.
    pub fn weights(&self) -> impl Iterator<Item = (TensorId, &Tensor)> {
        (0u32..)
            .map(TensorId)
            .zip(&self.tensors)
            .filter(|(_, t)| matches!(t.kind, TensorKind::Weight { .. }))
    }

    /// Whether the tensor is a weight.
    pub fn is_weight(&self, id: TensorId) -> bool {
        self.tensor(id)
            .is_some_and(|t| matches!(t.kind, TensorKind::Weight { .. }))
    }

    /// The tensor with this name.
    pub fn find(&self, name: &str) -> Option<TensorId> {
        (0u32..)
            .zip(&self.tensors)
            .find_map(|(i, t)| (t.name == name).then_some(TensorId(i)))
    }
}
