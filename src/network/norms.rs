//! Norms and activations by settings, as the networks of nnU-Net and MONAI choose them.

use super::builder::Builder;
use super::graph::{Act, Op, TensorId};
use super::tree::Tree;

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

    /// The norm `instance`, `batch` or `group` with these settings, torch's own where none is given; none for other names.
    pub(super) fn read(kind: &str, given: Settings<'_, '_>) -> Result<Option<Self>, String> {
        let eps = || given.number("eps", Self::EPS);
        Ok(Some(match kind {
            "instance" => {
                given.only(&["eps", "momentum", "affine", "track_running_stats"])?;
                given.must("track_running_stats", false)?;
                Self::Instance {
                    affine: given.truth("affine", false)?,
                    eps: eps()?,
                }
            }
            "batch" => {
                given.only(&["eps", "momentum", "affine", "track_running_stats"])?;
                given.must("track_running_stats", true)?;
                Self::Batch {
                    affine: given.truth("affine", true)?,
                    eps: eps()?,
                }
            }
            "group" => {
                given.only(&["num_groups", "eps", "affine"])?;
                let groups = given.get("num_groups");
                Self::Group {
                    groups: groups.ok_or("a group norm must have num_groups")?.size()?,
                    affine: given.truth("affine", true)?,
                    eps: eps()?,
                }
            }
            _ => return Ok(None),
        }))
    }

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
    /// The activation of this name (in small letters) with these settings, torch's own where none is given; none for other names.
    pub(super) fn read(kind: &str, given: Settings<'_, '_>) -> Result<Option<Self>, String> {
        let known: &[&str] = match kind {
            "prelu" => &["num_parameters", "init"],
            "leakyrelu" => &["negative_slope", "inplace"],
            "elu" | "swish" => &["alpha", "inplace"],
            "gelu" => &["approximate"],
            "relu" | "silu" | "memswish" => &["inplace"],
            "sigmoid" | "tanh" => &[],
            _ => return Ok(None),
        };
        given.only(known)?;
        let act = match kind {
            "prelu" => {
                let slopes = given.get("num_parameters").map_or(Ok(1), |n| n.size())?;
                return Ok(Some(Self::PRelu { slopes }));
            }
            "leakyrelu" => Act::LeakyRelu {
                slope: given.number("negative_slope", 0.01)?,
            },
            "elu" => Act::Elu {
                alpha: given.number("alpha", 1.0)?,
            },
            "gelu" => match given.get("approximate") {
                Some(how) if how.text()? != "none" => {
                    return Err(
                        how.wrong("none (other approximations are not run by this version)")
                    );
                }
                _ => Act::Gelu,
            },
            "relu" => Act::Relu,
            "sigmoid" => Act::Sigmoid,
            "tanh" => Act::Tanh,
            _ => match given.get("alpha") {
                Some(alpha) if alpha.number()? != 1.0 => return Err(alpha.wrong("1")),
                _ => Act::Silu,
            },
        };
        Ok(Some(Self::Plain(act, given.truth("inplace", false)?)))
    }

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

/// Settings of a layer as its file gives them, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings<'t, 'a>(pub(super) Option<&'t Tree<'a>>);

impl<'a> Settings<'_, 'a> {
    fn get(self, key: &str) -> Option<Tree<'a>> {
        self.0.and_then(|s| s.key(key))
    }

    /// Refuses a setting that is not read: it may change what the layer computes.
    fn only(self, known: &[&str]) -> Result<(), String> {
        let entries = self.0.map_or_else(|| Ok(Vec::new()), Tree::entries)?;
        match entries.into_iter().find(|(k, _)| !known.contains(k)) {
            Some((_, value)) => {
                Err(value.wrong("absent: this version does not know that setting of the layer"))
            }
            None => Ok(()),
        }
    }

    fn truth(self, key: &str, or: bool) -> Result<bool, String> {
        self.0.map_or(Ok(or), |s| s.truth(key, or))
    }

    /// Refuses another value than this one, which is also the one when it is absent.
    fn must(self, key: &str, value: bool) -> Result<(), String> {
        match self.get(key) {
            Some(other) if other.flag()? != value => {
                Err(other.wrong(&format!("{value} (the other is not run by this version)")))
            }
            _ => Ok(()),
        }
    }

    fn number(self, key: &str, or: f32) -> Result<f32, String> {
        self.get(key).map_or(Ok(or), |n| n.number().map(narrow))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "torch keeps such settings in single precision where it uses them"
)]
const fn narrow(v: f64) -> f32 {
    v as f32
}
