//! MONAI's `UNet`: nested levels, with residual units or plain convolutions.

use super::args::Args;
use super::blocks::{finish, instance, same};
use crate::network::builder::{Builder, Conv};
use crate::network::graph::{Graph, TensorId};
use crate::network::norms::{Nonlin, Norm};

/// The arguments of `monai.networks.nets.UNet`.
#[derive(Clone, Debug)]
pub(in crate::network) struct UNet {
    dims: usize,
    in_channels: usize,
    out_channels: usize,
    channels: Vec<usize>,
    strides: Vec<Vec<usize>>,
    kernel: Vec<usize>,
    up_kernel: Vec<usize>,
    units: usize,
    act: Nonlin,
    norm: Norm,
    bias: bool,
    /// Order of activation (A), dropout (D) and norm (N).
    order: String,
}

impl UNet {
    /// With MONAI's defaults.
    pub(in crate::network) fn new(out_channels: usize, channels: &[usize], units: usize) -> Self {
        Self {
            dims: 3,
            in_channels: 1,
            out_channels,
            channels: channels.to_vec(),
            strides: vec![vec![2; 3]; channels.len().saturating_sub(1)],
            kernel: vec![3; 3],
            up_kernel: vec![3; 3],
            units,
            act: Nonlin::PRelu { slopes: 1 },
            norm: instance(false),
            bias: true,
            order: "NDA".to_owned(),
        }
    }

    pub(super) fn read(args: &Args<'_>) -> Result<Self, String> {
        args.only(&[
            "spatial_dims",
            "dimensions",
            "in_channels",
            "out_channels",
            "channels",
            "strides",
            "kernel_size",
            "up_kernel_size",
            "num_res_units",
            "act",
            "norm",
            "dropout",
            "bias",
            "adn_ordering",
        ])?;
        let dims = args.dims(None)?;
        let net = Self {
            dims,
            in_channels: args.channels("in_channels", None)?,
            out_channels: args.channels("out_channels", None)?,
            channels: args.widths("channels", &[])?,
            strides: args.levels("strides", dims)?,
            kernel: args.per_axis("kernel_size", dims, 3)?,
            up_kernel: args.per_axis("up_kernel_size", dims, 3)?,
            units: args.size("num_res_units", 0, 64)?,
            act: args.act("act", Nonlin::PRelu { slopes: 1 })?,
            norm: args.norm("norm", instance(false))?,
            bias: args.flag("bias", true)?,
            order: args.text("adn_ordering", "NDA")?.to_ascii_uppercase(),
        };
        if !(2..=16).contains(&net.channels.len()) || net.strides.len() + 1 < net.channels.len() {
            return Err(format!(
                "the UNet has {} channels and {} strides; from 2 to 16 channels and one stride fewer were expected",
                net.channels.len(),
                net.strides.len()
            ));
        }
        if net.order.chars().any(|c| !"AND".contains(c)) {
            return Err(format!(
                "adn_ordering is made of A, N and D, found \"{}\"",
                net.order
            ));
        }
        Ok(net)
    }

    pub(in crate::network) fn graph(&self, name: &str) -> Result<Graph, String> {
        let mut b = Builder::new(name, self.dims);
        let x = b.input("image", self.in_channels);
        let x = self.level(
            &mut b,
            "model",
            x,
            (self.out_channels, &self.channels, &self.strides),
        )?;
        Ok(finish(b, x))
    }

    fn level(
        &self,
        b: &mut Builder,
        at: &str,
        x: TensorId,
        (out, channels, strides): (usize, &[usize], &[Vec<usize>]),
    ) -> Result<TensorId, String> {
        let ([width, deeper @ ..], [stride, below_strides @ ..]) = (channels, strides) else {
            return Ok(x);
        };
        let top = at == "model";
        let down = self.unit(b, &format!("{at}.0"), x, (*width, stride))?;
        let below = format!("{at}.1.submodule");
        let inner = match deeper {
            [bottom] => self.unit(b, &below, down, (*bottom, &vec![1; self.dims]))?,
            _ => self.level(b, &below, down, (*width, deeper, below_strides))?,
        };
        let joined = b.concat(&format!("{at}.1.cat"), &[down, inner]);
        let up = if self.units > 0 {
            format!("{at}.2.0")
        } else {
            format!("{at}.2")
        };
        let pad = same(&self.up_kernel)?;
        let output_pad: Vec<usize> = stride.iter().map(|s| s - 1).collect();
        let geometry: [&[usize]; 4] = [&self.up_kernel, stride, &pad, &output_pad];
        let conv = format!("{up}.conv");
        let mut y = b.conv_transpose_padded(&conv, joined, (out, self.bias), geometry);
        if !(top && self.units == 0) {
            y = self.adn(b, &up, y);
        }
        if self.units > 0 {
            let ones = vec![1; self.dims];
            y = self.residual(b, &format!("{at}.2.1"), y, ((out, &ones), 1, top))?;
        }
        Ok(y)
    }

    fn unit(
        &self,
        b: &mut Builder,
        at: &str,
        x: TensorId,
        shape: (usize, &[usize]),
    ) -> Result<TensorId, String> {
        if self.units > 0 {
            return self.residual(b, at, x, (shape, self.units, false));
        }
        let conv = self.conv(shape)?;
        let y = b.conv(&format!("{at}.conv"), x, conv);
        Ok(self.adn(b, at, y))
    }

    fn conv(&self, (out, stride): (usize, &[usize])) -> Result<Conv, String> {
        let conv = Conv::new(out, &self.kernel)
            .stride(stride)
            .pad(&same(&self.kernel)?);
        Ok(if self.bias { conv } else { conv.no_bias() })
    }

    fn residual(
        &self,
        b: &mut Builder,
        at: &str,
        x: TensorId,
        ((out, stride), units, conv_only): ((usize, &[usize]), usize, bool),
    ) -> Result<TensorId, String> {
        let ones = vec![1; self.dims];
        let mut residual = x;
        let name = format!("{at}.residual");
        if stride.iter().any(|s| *s != 1) {
            residual = b.conv(&name, x, self.conv((out, stride))?);
        } else if b.channels(x) != out {
            let conv = Conv::new(out, &ones);
            let conv = if self.bias { conv } else { conv.no_bias() };
            residual = b.conv(&name, x, conv);
        }
        let mut y = x;
        for i in 0..units {
            let stride = if i == 0 { stride } else { &ones };
            let inner = format!("{at}.conv.unit{i}");
            y = b.conv(&format!("{inner}.conv"), y, self.conv((out, stride))?);
            if !(conv_only && i + 1 == units) {
                y = self.adn(b, &inner, y);
            }
        }
        Ok(b.add(&format!("{at}.add"), y, residual, false))
    }

    fn adn(&self, b: &mut Builder, at: &str, mut x: TensorId) -> TensorId {
        for part in self.order.chars() {
            x = match part {
                'N' => self.norm.add(b, &format!("{at}.adn.N"), x),
                'A' => self.act.add(b, &format!("{at}.adn.A"), x),
                _ => x,
            };
        }
        x
    }
}
