//! MONAI's `BasicUNet`: five levels of two convolutions, max pooling between them.

use super::args::Args;
use super::blocks::{finish, instance, leaky};
use crate::network::builder::{Builder, Conv};
use crate::network::graph::{Graph, Op, TensorId};
use crate::network::norms::{Nonlin, Norm};

/// The arguments of `monai.networks.nets.BasicUNet`.
#[derive(Clone, Debug)]
pub(in crate::network) struct BasicUNet {
    dims: usize,
    in_channels: usize,
    out_channels: usize,
    features: [usize; 6],
    act: Nonlin,
    norm: Norm,
    bias: bool,
    /// Transposed convolutions; else linear interpolation.
    deconv: bool,
}

impl Default for BasicUNet {
    fn default() -> Self {
        Self {
            dims: 3,
            in_channels: 1,
            out_channels: 2,
            features: [32, 32, 64, 128, 256, 32],
            act: leaky(0.1),
            norm: instance(true),
            bias: true,
            deconv: true,
        }
    }
}

impl BasicUNet {
    /// With MONAI's defaults and this many classes.
    pub(in crate::network) fn new(out_channels: usize) -> Self {
        Self {
            out_channels,
            ..Self::default()
        }
    }

    pub(super) fn read(args: &Args<'_>) -> Result<Self, String> {
        args.only(&[
            "spatial_dims",
            "dimensions",
            "in_channels",
            "out_channels",
            "features",
            "act",
            "norm",
            "bias",
            "dropout",
            "upsample",
        ])?;
        let or = Self::default();
        let features = args.widths("features", &or.features)?;
        let features = features.as_slice().try_into().map_err(|_other_count| {
            format!("a BasicUNet has six features, found {}", features.len())
        })?;
        let deconv = match args.text("upsample", "deconv")?.as_str() {
            "deconv" => true,
            "nontrainable" => false,
            other => {
                return Err(format!(
                    "upsample must be deconv or nontrainable, found \"{other}\""
                ));
            }
        };
        Ok(Self {
            dims: args.dims(Some(3))?,
            in_channels: args.channels("in_channels", Some(1))?,
            out_channels: args.channels("out_channels", Some(2))?,
            features,
            act: args.act("act", or.act)?,
            norm: args.norm("norm", or.norm)?,
            bias: args.flag("bias", true)?,
            deconv,
        })
    }

    pub(in crate::network) fn graph(&self, name: &str) -> Graph {
        let mut b = Builder::new(name, self.dims);
        let twos = vec![2; self.dims];
        let zeros = vec![0; self.dims];
        let x = b.input("image", self.in_channels);
        let [first, rest @ .., last] = self.features;
        let mut x = self.two(&mut b, "conv_0", x, first);
        let mut skips = Vec::new();
        for (i, width) in rest.into_iter().enumerate() {
            skips.push(x);
            let at = format!("down_{}", i + 1);
            x = b.max_pool(&format!("{at}.max_pooling"), x, &twos, &twos, &zeros);
            x = self.two(&mut b, &format!("{at}.convs"), x, width);
        }
        let [f1, f2, f3, _bottom] = rest;
        for (level, out) in [(4, f3), (3, f2), (2, f1), (1, last)] {
            let at = format!("upcat_{level}");
            // The last step up keeps its channels, the others halve them.
            let below = b.channels(x);
            let up = if level == 1 { below } else { below / 2 };
            let y = self.upsample(&mut b, &format!("{at}.upsample"), x, (up, &twos));
            let y = b.pad_edge(&format!("{at}.pad"), y, &zeros, &zeros);
            let skip = skips.pop().unwrap_or(y);
            let joined = b.concat(&format!("{at}.cat"), &[skip, y]);
            x = self.two(&mut b, &format!("{at}.convs"), joined, out);
        }
        let ones = vec![1; self.dims];
        let x = b.conv("final_conv", x, Conv::new(self.out_channels, &ones));
        finish(b, x)
    }

    fn upsample(
        &self,
        b: &mut Builder,
        at: &str,
        x: TensorId,
        (out, twos): (usize, &[usize]),
    ) -> TensorId {
        if self.deconv {
            return b.conv_transpose(&format!("{at}.deconv"), x, out, twos, true);
        }
        let mut y = x;
        if b.channels(x) != out {
            let ones = vec![1; self.dims];
            y = b.conv(&format!("{at}.preconv"), x, Conv::new(out, &ones));
        }
        let op = Op::UpsampleLinear {
            scale: twos.to_vec(),
            align_corners: true,
        };
        b.node(&format!("{at}.upsample_non_trainable"), op, vec![y], out)
    }

    fn two(&self, b: &mut Builder, at: &str, mut x: TensorId, out: usize) -> TensorId {
        for i in 0..2 {
            let at = format!("{at}.conv_{i}");
            let conv = Conv::new(out, &vec![3; self.dims]);
            let conv = if self.bias { conv } else { conv.no_bias() };
            x = b.conv(&format!("{at}.conv"), x, conv);
            x = self.norm.add(b, &format!("{at}.adn.N"), x);
            x = self.act.add(b, &format!("{at}.adn.A"), x);
        }
        x
    }
}
