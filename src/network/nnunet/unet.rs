//! nnU-Net's two networks, plain and residual encoder, node names as PyTorch's module paths.

use crate::network::builder::{Builder, Conv};
use crate::network::graph::{Act, Graph, Op, TensorId};
use crate::network::norms::{Nonlin, Norm};

/// What nnU-Net's plans decide about a network; lists have one entry a stage, axes in the tensor's order.
#[derive(Clone, Debug, PartialEq)]
pub struct UNet {
    /// Channels of the input.
    pub in_channels: usize,
    /// Classes with the background.
    pub classes: usize,
    /// Channels of each stage.
    pub features: Vec<usize>,
    /// Kernel of each stage.
    pub kernels: Vec<Vec<usize>>,
    /// Stride with which each stage begins.
    pub strides: Vec<Vec<usize>>,
    /// Convolutions (plain) or residual blocks of each encoder stage.
    pub encoder: Vec<usize>,
    /// Convolutions of each decoder stage, from the coarsest.
    pub decoder: Vec<usize>,
    /// Whether the encoder is made of residual blocks.
    pub residual: bool,
    /// Channels of the residual encoder's stem; the first stage's when absent.
    pub stem: Option<usize>,
    /// Whether convolutions have a bias.
    pub bias: bool,
    /// The norm after each convolution.
    pub(in crate::network) norm: Norm,
    /// The activation after each norm.
    pub(in crate::network) nonlin: Nonlin,
    /// Whether the activation comes before the norm.
    pub nonlin_first: bool,
}

impl UNet {
    /// Three-dimensional, kernels of 3, every stage but the first at stride 2.
    pub fn cubic(features: &[usize], encoder: &[usize], decoder: usize, residual: bool) -> Self {
        let stages = features.len();
        Self {
            in_channels: 1,
            classes: 3,
            features: features.to_vec(),
            kernels: vec![vec![3; 3]; stages],
            strides: (0..stages)
                .map(|s| vec![if s == 0 { 1 } else { 2 }; 3])
                .collect(),
            encoder: encoder.to_vec(),
            decoder: vec![decoder; stages.saturating_sub(1)],
            residual,
            stem: None,
            bias: true,
            norm: Norm::Instance {
                affine: true,
                eps: Norm::EPS,
            },
            nonlin: Nonlin::Plain(Act::LeakyRelu { slope: 0.01 }, true),
            nonlin_first: false,
        }
    }

    /// The graph. Segmentation layers of the coarser stages hold parameters but nothing runs them (no deep supervision).
    pub fn graph(&self, name: &str) -> Graph {
        let dims = self.kernels.first().map_or(3, Vec::len);
        let mut b = Builder::new(name, dims);
        let mut x = b.input("image", self.in_channels);
        let mut skips = Vec::new();
        if self.residual
            && let (Some(width), Some(kernel)) = (self.features.first(), self.kernels.first())
        {
            let ones = vec![1; dims];
            let width = self.stem.unwrap_or(*width);
            x = self.conv_block(&mut b, "encoder.stem.convs.0", x, (width, kernel, &ones));
        }
        let stages = self
            .features
            .iter()
            .zip(&self.kernels)
            .zip(self.strides.iter().zip(&self.encoder));
        for (s, ((width, kernel), (stride, n))) in stages.enumerate() {
            for i in 0..*n {
                let ones = vec![1; dims];
                let stride = if i == 0 { stride } else { &ones };
                let shape: Shape<'_> = (*width, kernel, stride);
                x = if self.residual {
                    self.residual_block(&mut b, &format!("encoder.stages.{s}.blocks.{i}"), x, shape)
                } else {
                    self.conv_block(&mut b, &format!("encoder.stages.{s}.0.convs.{i}"), x, shape)
                };
            }
            skips.push(x);
        }
        let logits = self.decoder(&mut b, x, &skips);
        b.rename(logits, "logits");
        b.output(logits);
        b.finish()
    }

    fn decoder(&self, b: &mut Builder, mut x: TensorId, skips: &[TensorId]) -> TensorId {
        let last = self.features.len().saturating_sub(2);
        let up = skips
            .iter()
            .zip(&self.features)
            .zip(&self.kernels)
            .rev()
            .skip(1);
        let strides = self.strides.iter().rev();
        for (s, ((((skip, width), kernel), stride), n)) in
            up.zip(strides).zip(&self.decoder).enumerate()
        {
            let ones = vec![1; kernel.len()];
            let name = format!("decoder.transpconvs.{s}");
            let up = b.conv_transpose(&name, x, *width, stride, self.bias);
            x = b.concat(&format!("decoder.cat.{s}"), &[up, *skip]);
            for i in 0..*n {
                let name = format!("decoder.stages.{s}.convs.{i}");
                x = self.conv_block(b, &name, x, (*width, kernel, &ones));
            }
            let seg = format!("decoder.seg_layers.{s}");
            if s == last {
                x = b.conv(&seg, x, Conv::new(self.classes, &ones));
            } else {
                b.parameter(
                    format!("{seg}.weight"),
                    [&[self.classes, *width], ones.as_slice()].concat(),
                );
                b.parameter(format!("{seg}.bias"), vec![self.classes]);
            }
        }
        x
    }

    fn conv(&self, b: &mut Builder, at: &str, x: TensorId, shape: Shape<'_>) -> TensorId {
        let (out, kernel, stride) = shape;
        let pad: Vec<usize> = kernel.iter().map(|k| k.saturating_sub(1) / 2).collect();
        let conv = Conv::new(out, kernel).stride(stride).pad(&pad);
        let conv = if self.bias { conv } else { conv.no_bias() };
        b.conv(&format!("{at}.conv"), x, conv)
    }

    fn conv_block(&self, b: &mut Builder, at: &str, x: TensorId, shape: Shape<'_>) -> TensorId {
        let x = self.conv(b, at, x, shape);
        let (norm, nonlin) = (format!("{at}.norm"), format!("{at}.nonlin"));
        if self.nonlin_first {
            let x = self.nonlin.add(b, &nonlin, x);
            return self.norm.add(b, &norm, x);
        }
        let x = self.norm.add(b, &norm, x);
        self.nonlin.add(b, &nonlin, x)
    }

    fn residual_block(&self, b: &mut Builder, at: &str, x: TensorId, shape: Shape<'_>) -> TensorId {
        let (out, kernel, stride) = shape;
        let ones = vec![1; kernel.len()];
        let mut residual = x;
        let strided = stride.iter().any(|s| *s != 1);
        if strided {
            let zeros = vec![0; stride.len()];
            let pool = Op::AvgPool {
                kernel: stride.to_vec(),
                stride: stride.to_vec(),
                pad_begin: zeros.clone(),
                pad_end: zeros,
                count_padding: true,
            };
            let channels = b.channels(x);
            residual = b.node(&format!("{at}.skip.0"), pool, vec![x], channels);
        }
        if b.channels(x) != out {
            let skip = format!("{at}.skip.{}", usize::from(strided));
            let conv = Conv::new(out, &ones).no_bias();
            residual = b.conv(&format!("{skip}.conv"), residual, conv);
            residual = self.norm.add(b, &format!("{skip}.norm"), residual);
        }
        let y = self.conv_block(b, &format!("{at}.conv1"), x, shape);
        let y = self.conv(b, &format!("{at}.conv2"), y, (out, kernel, &ones));
        let y = self.norm.add(b, &format!("{at}.conv2.norm"), y);
        let sum = b.add(&format!("{at}.add"), y, residual, true);
        self.nonlin.add(b, &format!("{at}.nonlin2"), sum)
    }
}

type Shape<'a> = (usize, &'a [usize], &'a [usize]);
