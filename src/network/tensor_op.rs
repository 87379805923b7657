//! Operations on tensors of any rank: what attention, resizing to a size and arithmetic with broadcasting need.

use super::graph::{PadMode, TensorId};
use super::size::Size;
use super::windows::Windowed;
use serde::{Deserialize, Serialize};

/// One cut of a slice, as ONNX counts: negative places from the end, beyond the end means up to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Which axis.
    pub axis: usize,
    /// First place.
    pub start: Size,
    /// First place no more in it.
    pub end: Size,
    /// From one place to the next; negative runs backwards.
    pub step: i64,
}

/// Arithmetic of two tensors of shapes that broadcast. Truth values are 1 and 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binary {
    /// a + b.
    Add,
    /// a - b.
    Sub,
    /// a * b.
    Mul,
    /// a / b.
    Div,
    /// The smaller; NaN wins.
    Min,
    /// The larger; NaN wins.
    Max,
    /// a to the power b.
    Pow,
    /// What a / b leaves, with the sign of a when `fmod`, else of b.
    Mod {
        /// As C's fmod.
        fmod: bool,
    },
    /// a == b.
    Equal,
    /// a < b.
    Less,
    /// a <= b.
    LessOrEqual,
    /// a > b.
    Greater,
    /// a >= b.
    GreaterOrEqual,
    /// Both true.
    And,
    /// One or both true.
    Or,
    /// One true.
    Xor,
    /// b where a is not above 0 (times a), else a: a slope for each value.
    Slope,
}

/// What a reduction makes of the values it takes together, in f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reduce {
    /// Sum.
    Sum,
    /// Mean.
    Mean,
    /// Largest; NaN wins.
    Max,
    /// Smallest; NaN wins.
    Min,
    /// Product.
    Prod,
    /// Sum of absolute values.
    L1,
    /// Root of the sum of squares.
    L2,
    /// Sum of squares.
    SumSquare,
    /// Logarithm of the sum.
    LogSum,
    /// Logarithm of the sum of exponentials.
    LogSumExp,
    /// The place of the largest, counted in C order; the first of several, NaN wins.
    ArgMax,
    /// The place of the smallest, as that of the largest.
    ArgMin,
}

/// Where an output voxel of a resize lies in its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Coordinates {
    /// (o + 1/2) / scale - 1/2.
    HalfPixel,
    /// The same, 0 where the output has one voxel.
    PytorchHalfPixel,
    /// o / scale.
    Asymmetric,
    /// Corner voxels of input and output coincide.
    AlignCorners,
}

/// Which input voxel the nearest one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Nearest {
    /// Halves down.
    RoundPreferFloor,
    /// Halves up.
    RoundPreferCeil,
    /// The one before.
    Floor,
    /// The one after.
    Ceil,
}

/// How large a resize makes its input along the spatial axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ResizeTo {
    /// Times these, rounded down.
    Scales(Vec<f32>),
    /// To these sizes.
    Sizes(Vec<Size>),
    /// Times the first over the second, rounded down: written as a size in the file, but a plain ratio.
    Ratios(Vec<(usize, usize)>),
}

/// What a pool makes of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolKind {
    /// Largest value; padding never wins.
    Max,
    /// Mean; padding counts in the divisor when told.
    Average {
        /// Whether it does.
        count_padding: bool,
    },
}

/// An operation on tensors of any rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TensorOp {
    /// Input: x. The same values in C order, seen in another shape.
    Reshape {
        /// The new shape.
        to: Vec<Size>,
    },
    /// Input: x. Its axes in another order.
    Transpose {
        /// Which axis of the input each axis of the output is.
        perm: Vec<usize>,
    },
    /// Input: x. Parts of it.
    Slice {
        /// One cut per axis that is cut.
        cuts: Vec<Cut>,
    },
    /// Inputs joined along an axis.
    Concat {
        /// Which one.
        axis: usize,
    },
    /// Input: x. Padding of any axis; negative amounts cut.
    Pad {
        /// Before, for every axis.
        begin: Vec<Size>,
        /// After, for every axis.
        end: Vec<Size>,
        /// What it holds.
        mode: PadMode,
    },
    /// Input: x, repeated along its axes of one.
    Expand {
        /// The shape that it is broadcast with.
        to: Vec<Size>,
    },
    /// Input: x. Places along an axis, in this order; negative ones count from the end.
    Gather {
        /// Which axis.
        axis: usize,
        /// The places.
        index: Vec<i64>,
    },
    /// Input: x. Whole copies side by side.
    Tile {
        /// How many along each axis.
        repeats: Vec<usize>,
    },
    /// Inputs: a (..., m, k), b (..., k, n), optional bias (n). Axes before broadcast.
    MatMul,
    /// Inputs: x (..., k), weight (n, k), optional bias (n). A linear layer, its weight as `PyTorch` stores it.
    Linear,
    /// Inputs: a, b.
    Binary(Binary),
    /// Inputs: condition, a, b. a where the condition is not 0, else b.
    Where,
    /// Input: x. exp(x) over its sum along some axes in a row.
    Softmax {
        /// The first of them.
        first: usize,
        /// The last of them.
        last: usize,
        /// Whether the logarithm is wanted.
        log: bool,
    },
    /// Inputs: x, optional scale and shift over the normalised axes. A norm over the axes from `axis` on.
    LayerNorm {
        /// The first normalised axis.
        axis: usize,
        /// Added to the variance.
        eps: f32,
    },
    /// Input: x. Several values to one.
    Reduce {
        /// How.
        kind: Reduce,
        /// Along which axes.
        axes: Vec<usize>,
        /// Whether they stay as axes of one.
        keep: bool,
    },
    /// Input: x with channels and the network's spatial axes. Pools that are dilated or rounded up.
    Pool {
        /// What is made of a window.
        kind: PoolKind,
        /// Kernel size.
        kernel: Vec<usize>,
        /// Stride.
        stride: Vec<usize>,
        /// Padding before.
        pad_begin: Vec<usize>,
        /// Padding after.
        pad_end: Vec<usize>,
        /// Distance between taps.
        dilation: Vec<usize>,
        /// Whether a window that is cut off at the end counts.
        ceil: bool,
    },
    /// Input: x with channels and the network's spatial axes.
    Resize {
        /// How large.
        to: ResizeTo,
        /// Where an output voxel lies.
        coordinates: Coordinates,
        /// The nearest voxel by this rule, or linear interpolation.
        nearest: Option<Nearest>,
    },
    /// Inputs: a map of tokens, and more as its part says. What attention inside windows needs around it.
    Window(Windowed),
}

impl TensorOp {
    /// The operation's type in a word.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Reshape { .. } => "Reshape",
            Self::Transpose { .. } => "Transpose",
            Self::Slice { .. } => "Slice",
            Self::Concat { .. } => "Concat",
            Self::Pad { .. } => "Pad",
            Self::Expand { .. } => "Expand",
            Self::Gather { .. } => "Gather",
            Self::Tile { .. } => "Tile",
            Self::MatMul => "MatMul",
            Self::Linear => "Linear",
            Self::Window(op) => op.kind(),
            Self::Binary(op) => op.kind(),
            Self::Where => "Where",
            Self::Softmax { log: false, .. } => "Softmax",
            Self::Softmax { log: true, .. } => "LogSoftmax",
            Self::LayerNorm { .. } => "LayerNorm",
            Self::Reduce { kind, .. } => kind.name(),
            Self::Pool { kind, .. } => match kind {
                PoolKind::Max => "MaxPool",
                PoolKind::Average { .. } => "AvgPool",
            },
            Self::Resize { .. } => "Resize",
        }
    }

    /// Whether it works on maps with channels and the network's spatial axes, as convolutions do.
    pub const fn is_spatial(&self) -> bool {
        matches!(self, Self::Pool { .. } | Self::Resize { .. })
    }

    /// All sizes that may follow the roi.
    pub fn sizes_mut(&mut self) -> Vec<&mut Size> {
        match self {
            Self::Reshape { to }
            | Self::Expand { to }
            | Self::Resize {
                to: ResizeTo::Sizes(to),
                ..
            } => to.iter_mut().collect(),
            Self::Slice { cuts } => cuts
                .iter_mut()
                .flat_map(|c| [&mut c.start, &mut c.end])
                .collect(),
            Self::Pad { begin, end, .. } => begin.iter_mut().chain(end).collect(),
            _ => Vec::new(),
        }
    }

    /// Replaces the tensors that its sizes name.
    pub fn rename(&mut self, of: &impl Fn(TensorId) -> TensorId) {
        for size in self.sizes_mut() {
            size.rename(of);
        }
    }
}

impl Binary {
    /// Its name in a word.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Add => "Add",
            Self::Sub => "Sub",
            Self::Mul => "Mul",
            Self::Div => "Div",
            Self::Min => "Min",
            Self::Max => "Max",
            Self::Pow => "Pow",
            Self::Mod { .. } => "Mod",
            Self::Equal => "Equal",
            Self::Less => "Less",
            Self::LessOrEqual => "LessOrEqual",
            Self::Greater => "Greater",
            Self::GreaterOrEqual => "GreaterOrEqual",
            Self::And => "And",
            Self::Or => "Or",
            Self::Xor => "Xor",
            Self::Slope => "PRelu",
        }
    }
}

impl Reduce {
    const fn name(self) -> &'static str {
        match self {
            Self::Sum => "ReduceSum",
            Self::Mean => "ReduceMean",
            Self::Max => "ReduceMax",
            Self::Min => "ReduceMin",
            Self::Prod => "ReduceProd",
            Self::L1 => "ReduceL1",
            Self::L2 => "ReduceL2",
            Self::SumSquare => "ReduceSumSquare",
            Self::LogSum => "ReduceLogSum",
            Self::LogSumExp => "ReduceLogSumExp",
            Self::ArgMax => "ArgMax",
            Self::ArgMin => "ArgMin",
        }
    }
}
