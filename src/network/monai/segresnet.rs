//! MONAI's `SegResNet`: norms before convolutions, linear upsampling, sums in place of concatenation.

use super::args::Args;
use super::blocks::finish;
use crate::network::builder::{Builder, Conv};
use crate::network::graph::{Act, Graph, TensorId};
use crate::network::norms::{Nonlin, Norm};

/// The arguments of `monai.networks.nets.SegResNet`.
#[derive(Clone, Debug)]
pub(in crate::network) struct SegResNet {
    dims: usize,
    filters: usize,
    in_channels: usize,
    out_channels: usize,
    act: Nonlin,
    norm: Norm,
    conv_final: bool,
    down: Vec<usize>,
    up: Vec<usize>,
    deconv: bool,
}

impl Default for SegResNet {
    fn default() -> Self {
        Self {
            dims: 3,
            filters: 8,
            in_channels: 1,
            out_channels: 2,
            act: Nonlin::Plain(Act::Relu, true),
            norm: Norm::Group {
                groups: 8,
                affine: true,
                eps: Norm::EPS,
            },
            conv_final: true,
            down: vec![1, 2, 2, 4],
            up: vec![1, 1, 1],
            deconv: false,
        }
    }
}

impl SegResNet {
    /// With MONAI's defaults, this many filters and classes.
    pub(in crate::network) fn new(filters: usize, out_channels: usize) -> Self {
        Self {
            filters,
            out_channels,
            ..Self::default()
        }
    }

    pub(super) fn read(args: &Args<'_>) -> Result<Self, String> {
        args.only(&[
            "spatial_dims",
            "init_filters",
            "in_channels",
            "out_channels",
            "dropout_prob",
            "act",
            "norm",
            "norm_name",
            "num_groups",
            "use_conv_final",
            "blocks_down",
            "blocks_up",
            "upsample_mode",
        ])?;
        let or = Self::default();
        let groups = args.channels("num_groups", Some(8))?;
        let norm = match args.text("norm_name", "")?.to_ascii_lowercase().as_str() {
            "" => args.norm("norm", or.norm)?,
            "group" => Norm::Group {
                groups,
                affine: true,
                eps: Norm::EPS,
            },
            other => return Err(format!("norm_name must be group, found \"{other}\"")),
        };
        let deconv = match args.text("upsample_mode", "nontrainable")?.as_str() {
            "nontrainable" => false,
            "deconv" => true,
            other => {
                return Err(format!(
                    "upsample_mode must be nontrainable or deconv, found \"{other}\""
                ));
            }
        };
        let net = Self {
            dims: args.dims(Some(3))?,
            filters: args.channels("init_filters", Some(8))?,
            in_channels: args.channels("in_channels", Some(1))?,
            out_channels: args.channels("out_channels", Some(2))?,
            act: args.act("act", or.act)?,
            norm,
            conv_final: args.flag("use_conv_final", true)?,
            down: args.blocks("blocks_down", &or.down)?,
            up: args.blocks("blocks_up", &or.up)?,
            deconv,
        };
        if !(1..=10).contains(&net.down.len()) || net.up.len() + 1 != net.down.len() {
            return Err(format!(
                "the SegResNet has {} levels down and {} up; from 1 to 10 down and one fewer up were expected",
                net.down.len(),
                net.up.len()
            ));
        }
        if let Norm::Group { groups, .. } = net.norm
            && !net.filters.is_multiple_of(groups)
        {
            return Err(format!(
                "init_filters must be a multiple of the {groups} groups of its norms, found {}",
                net.filters
            ));
        }
        Ok(net)
    }

    pub(in crate::network) fn graph(&self, name: &str) -> Result<Graph, String> {
        let mut b = Builder::new(name, self.dims);
        let (ones, twos, threes) = (vec![1; self.dims], vec![2; self.dims], vec![3; self.dims]);
        let x = b.input("image", self.in_channels);
        let mut x = b.conv(
            "convInit.conv",
            x,
            Conv::new(self.filters, &threes).no_bias(),
        );
        let mut levels = Vec::new();
        for (i, blocks) in self.down.iter().enumerate() {
            if i > 0 {
                let width = self.filters << i;
                let conv = Conv::new(width, &threes).stride(&twos).no_bias();
                x = b.conv(&format!("down_layers.{i}.0.conv"), x, conv);
            }
            for block in 1..=*blocks {
                x = self.block(&mut b, &format!("down_layers.{i}.{block}"), x);
            }
            levels.push(x);
        }
        levels.pop();
        for (i, blocks) in self.up.iter().enumerate() {
            let width = b.channels(x) / 2;
            let at = format!("up_samples.{i}");
            let y = b.conv(
                &format!("{at}.0.conv"),
                x,
                Conv::new(width, &ones).no_bias(),
            );
            let y = if self.deconv {
                b.conv_transpose(&format!("{at}.1.deconv"), y, width, &twos, true)
            } else {
                b.upsample_linear(&format!("{at}.1"), y, &twos)
            };
            let skip = levels.pop().unwrap_or(y);
            x = b.add(&format!("{at}.add"), y, skip, false);
            for block in 0..*blocks {
                x = self.block(&mut b, &format!("up_layers.{i}.{block}"), x);
            }
        }
        if !self.conv_final {
            return Err("a SegResNet without its last convolution (use_conv_final false) makes features, no labels; this version does not build it".to_owned());
        }
        let x = self.norm.add(&mut b, "conv_final.0", x);
        let x = self.act.add(&mut b, "conv_final.1", x);
        let x = b.conv("conv_final.2.conv", x, Conv::new(self.out_channels, &ones));
        Ok(finish(b, x))
    }

    fn block(&self, b: &mut Builder, at: &str, x: TensorId) -> TensorId {
        let width = b.channels(x);
        let mut y = x;
        for i in 1..=2 {
            y = self.norm.add(b, &format!("{at}.norm{i}"), y);
            y = self.act.add(b, &format!("{at}.act"), y);
            let conv = Conv::new(width, &vec![3; self.dims]).no_bias();
            y = b.conv(&format!("{at}.conv{i}.conv"), y, conv);
        }
        b.add(&format!("{at}.add"), y, x, true)
    }
}
