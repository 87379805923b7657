//! Norms and activations by settings, as the networks of nnU-Net and MONAI choose them.

use super::builder::Builder;
use super::graph::{Act, Op, TensorId};

/// A norm layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Norm {
    /// None at all.
    Off,
    Instance {
        affine: bool,
        eps: f32,
    },
    Batch {
        affine: bool,
        eps: f32,
    },
    Group {
        groups: usize,
        affine: bool,
        eps: f32,
    },
}

impl Norm {
    pub(super) const EPS: f32 = 1e-5;

    /// The norm of `x`, with its parameters under `name`; `x` itself when there is none.
    pub(super) fn add(self, b: &mut Builder, name: &str, x: TensorId) -> TensorId {
        let c = b.channels(x);
        let mut inputs = vec![x];
        let affine = match self {
            Self::Off => return x,
            Self::Instance { affine, .. }
            | Self::Batch { affine, .. }
            | Self::Group { affine, .. } => affine,
        };
        if affine {
            inputs.push(b.parameter(format!("{name}.weight"), vec![c]));
            inputs.push(b.parameter(format!("{name}.bias"), vec![c]));
        }
        let op = match self {
            Self::Off => return x,
            Self::Instance { eps, .. } => Op::InstanceNorm { eps },
            Self::Group { groups, eps, .. } => Op::GroupNorm { groups, eps },
            Self::Batch { eps, .. } => {
                inputs.push(b.buffer(format!("{name}.running_mean"), vec![c]));
                inputs.push(b.buffer(format!("{name}.running_var"), vec![c]));
                Op::BatchNorm { eps }
            }
        };
        b.node(name, op, inputs, c)
    }
}

/// An activation layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Nonlin {
    /// None at all.
    Off,
    /// A function without parameters, over its input when the second is true.
    Plain(Act, bool),
    /// A slope that was learned: one, or one a channel.
    PRelu { slopes: usize },
}

impl Nonlin {
    /// The activation of `x`, with its parameters under `name`; `x` itself when there is none.
    pub(super) fn add(self, b: &mut Builder, name: &str, x: TensorId) -> TensorId {
        match self {
            Self::Off => x,
            Self::Plain(act, inplace) => b.act(name, x, act, inplace),
            Self::PRelu { slopes } => {
                let slope = b.parameter(format!("{name}.weight"), vec![slopes]);
                let c = b.channels(x);
                b.node(name, Op::PRelu, vec![x, slope], c)
            }
        }
    }
}
