//! MONAI's `DynUNet`: nnU-Net's topology with kernels and strides of choice.

use super::args::Args;
use super::blocks::{UnetBlock, finish, instance, leaky};
use crate::network::builder::{Builder, Conv};
use crate::network::graph::Graph;
use crate::network::norms::{Nonlin, Norm};

/// The arguments of `monai.networks.nets.DynUNet`.
#[derive(Clone, Debug)]
pub(in crate::network) struct DynUNet {
    dims: usize,
    in_channels: usize,
    out_channels: usize,
    kernels: Vec<Vec<usize>>,
    strides: Vec<Vec<usize>>,
    up_kernels: Vec<Vec<usize>>,
    filters: Vec<usize>,
    norm: Norm,
    act: Nonlin,
    /// Heads for deep supervision: parameters that inference does not use.
    heads: usize,
    residual: bool,
    trans_bias: bool,
}

impl DynUNet {
    /// Kernels of 3 and strides of 2 but for the first level.
    pub(in crate::network) fn cubic(out_channels: usize, filters: &[usize]) -> Self {
        let levels = filters.len();
        Self {
            dims: 3,
            in_channels: 1,
            out_channels,
            kernels: vec![vec![3; 3]; levels],
            strides: (0..levels)
                .map(|l| vec![if l == 0 { 1 } else { 2 }; 3])
                .collect(),
            up_kernels: vec![vec![2; 3]; levels.saturating_sub(1)],
            filters: filters.to_vec(),
            norm: instance(true),
            act: leaky(0.01),
            heads: 0,
            residual: false,
            trans_bias: false,
        }
    }

    pub(super) fn read(args: &Args<'_>) -> Result<Self, String> {
        args.only(&[
            "spatial_dims",
            "in_channels",
            "out_channels",
            "kernel_size",
            "strides",
            "upsample_kernel_size",
            "filters",
            "dropout",
            "norm_name",
            "act_name",
            "deep_supervision",
            "deep_supr_num",
            "res_block",
            "trans_bias",
        ])?;
        let dims = args.dims(None)?;
        let strides = args.levels("strides", dims)?;
        let most = if dims == 3 { 320 } else { 512 };
        let usual: Vec<usize> = (0..strides.len().min(16))
            .map(|i| (32usize << i).min(most))
            .collect();
        let mut filters = args.widths("filters", &usual)?;
        filters.truncate(strides.len());
        let heads = if args.flag("deep_supervision", false)? {
            args.size("deep_supr_num", 1, 16)?
        } else {
            0
        };
        let net = Self {
            dims,
            in_channels: args.channels("in_channels", None)?,
            out_channels: args.channels("out_channels", None)?,
            kernels: args.levels("kernel_size", dims)?,
            up_kernels: args.levels("upsample_kernel_size", dims)?,
            strides,
            filters,
            norm: args.norm("norm_name", instance(true))?,
            act: args.act("act_name", leaky(0.01))?,
            heads,
            residual: args.flag("res_block", false)?,
            trans_bias: args.flag("trans_bias", false)?,
        };
        net.check()?;
        Ok(net)
    }

    fn check(&self) -> Result<(), String> {
        let n = self.strides.len();
        let counts = [
            self.kernels.len(),
            self.filters.len(),
            self.up_kernels.len() + 1,
        ];
        if !(3..=16).contains(&n) || counts.iter().any(|c| *c != n) {
            return Err(format!(
                "the DynUNet has {n} strides, {} kernels, {} filters and {} upsampling kernels; from 3 to 16 strides, as many kernels and filters and one upsampling kernel fewer were expected",
                self.kernels.len(),
                self.filters.len(),
                self.up_kernels.len()
            ));
        }
        let mut shapes = self.kernels.iter().zip(&self.strides);
        if let Some((k, s)) = shapes.find(|(k, s)| k.iter().zip(*s).any(|(k, s)| k + 1 < *s)) {
            return Err(format!(
                "a kernel of {k:?} is too small for a stride of {s:?}"
            ));
        }
        if self.heads + 1 >= n {
            return Err(format!(
                "deep_supr_num must be below {}, found {}",
                n - 1,
                self.heads
            ));
        }
        Ok(())
    }

    pub(in crate::network) fn graph(&self, name: &str) -> Graph {
        let mut b = Builder::new(name, self.dims);
        let ones = vec![1; self.dims];
        let block = |out: usize, kernel, stride, residual| UnetBlock {
            out,
            kernel,
            stride,
            norm: self.norm,
            act: self.act,
            residual,
        };
        let mut x = b.input("image", self.in_channels);
        let last = self.filters.len() - 1;
        let mut skips = Vec::new();
        let levels = self.filters.iter().zip(&self.kernels).zip(&self.strides);
        for (i, ((width, kernel), stride)) in levels.enumerate() {
            let at = match i {
                0 => "input_block".to_owned(),
                i if i == last => "bottleneck".to_owned(),
                i => format!("downsamples.{}", i - 1),
            };
            if i > 0 {
                skips.push(x);
            }
            x = block(*width, kernel, stride, self.residual).add(&mut b, &at, x);
        }
        let up = self.filters.iter().rev().skip(1);
        let kernels = self.kernels.iter().skip(1).rev();
        let up_kernels = self.up_kernels.iter().rev();
        for (i, ((width, kernel), up_kernel)) in up.zip(kernels).zip(up_kernels).enumerate() {
            let at = format!("upsamples.{i}");
            let name = format!("{at}.transp_conv.conv");
            let up = b.conv_transpose(&name, x, *width, up_kernel, self.trans_bias);
            let skip = skips.pop().unwrap_or(up);
            let joined = b.concat(&format!("{at}.cat"), &[up, skip]);
            x = block(*width, kernel, &ones, false).add(
                &mut b,
                &format!("{at}.conv_block"),
                joined,
            );
        }
        for (i, width) in self.filters.iter().skip(1).take(self.heads).enumerate() {
            let at = format!("deep_supervision_heads.{i}.conv.conv");
            let shape = [&[self.out_channels, *width], ones.as_slice()].concat();
            b.parameter(format!("{at}.weight"), shape);
            b.parameter(format!("{at}.bias"), vec![self.out_channels]);
        }
        let x = b.conv(
            "output_block.conv.conv",
            x,
            Conv::new(self.out_channels, &ones),
        );
        finish(b, x)
    }
}
