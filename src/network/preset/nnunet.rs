//! nnU-Net's two networks, plain and residual encoder, node names as PyTorch's module paths.

use crate::network::builder::{Builder, Conv};
use crate::network::graph::{Act, Graph, Op, TensorId};

const LEAKY: Act = Act::LeakyRelu { slope: 0.01 };

/// What nnU-Net's plans decide about a network; lists have one entry a stage, axes in the tensor's order.
#[derive(Clone, Debug, PartialEq, Eq)]
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
            x = conv_block(&mut b, "encoder.stem.convs.0", x, (*width, kernel, &ones));
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
                x = if self.residual {
                    residual_block(
                        &mut b,
                        &format!("encoder.stages.{s}.blocks.{i}"),
                        x,
                        (*width, kernel, stride),
                    )
                } else {
                    conv_block(
                        &mut b,
                        &format!("encoder.stages.{s}.0.convs.{i}"),
                        x,
                        (*width, kernel, stride),
                    )
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
            let up = b.conv_transpose(&format!("decoder.transpconvs.{s}"), x, *width, stride, true);
            x = b.concat(&format!("decoder.cat.{s}"), &[up, *skip]);
            for i in 0..*n {
                x = conv_block(
                    b,
                    &format!("decoder.stages.{s}.convs.{i}"),
                    x,
                    (*width, kernel, &ones),
                );
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
}

type Shape<'a> = (usize, &'a [usize], &'a [usize]);

fn conv_norm(b: &mut Builder, at: &str, x: TensorId, (out, kernel, stride): Shape<'_>) -> TensorId {
    let x = b.conv(
        &format!("{at}.conv"),
        x,
        Conv::new(out, kernel).stride(stride),
    );
    b.instance_norm(&format!("{at}.norm"), x, true)
}

fn conv_block(b: &mut Builder, at: &str, x: TensorId, shape: Shape<'_>) -> TensorId {
    let x = conv_norm(b, at, x, shape);
    b.act(&format!("{at}.nonlin"), x, LEAKY, true)
}

fn residual_block(b: &mut Builder, at: &str, x: TensorId, shape: Shape<'_>) -> TensorId {
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
        residual = b.conv(
            &format!("{skip}.conv"),
            residual,
            Conv::new(out, &ones).no_bias(),
        );
        residual = b.instance_norm(&format!("{skip}.norm"), residual, true);
    }
    let y = conv_block(b, &format!("{at}.conv1"), x, shape);
    let y = conv_norm(b, &format!("{at}.conv2"), y, (out, kernel, &ones));
    let sum = b.add(&format!("{at}.add"), y, residual, true);
    b.act(&format!("{at}.nonlin2"), sum, LEAKY, true)
}
