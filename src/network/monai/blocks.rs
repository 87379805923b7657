//! Blocks that several of MONAI's networks are made of.

use crate::network::builder::{Builder, Conv};
use crate::network::graph::{Act, Graph, TensorId};
use crate::network::norms::{Nonlin, Norm};

/// MONAI's instance norm: no parameters unless they are asked for.
pub(super) const fn instance(affine: bool) -> Norm {
    Norm::Instance {
        affine,
        eps: Norm::EPS,
    }
}

/// A leaky `ReLU` over its input.
pub(super) const fn leaky(slope: f32) -> Nonlin {
    Nonlin::Plain(Act::LeakyRelu { slope }, true)
}

/// A convolution that keeps the size at stride 1: kernels must be odd.
pub(super) fn same(kernel: &[usize]) -> Result<Vec<usize>, String> {
    if kernel.iter().any(|k| k.is_multiple_of(2)) {
        return Err(format!(
            "kernels must be odd so that sizes are kept, found {kernel:?}"
        ));
    }
    Ok(kernel.iter().map(|k| k / 2).collect())
}

/// Two convolutions, with the input added in when `residual`: the block of `DynUNet`, UNETR and `SwinUNETR`.
pub(super) struct UnetBlock<'a> {
    pub(super) out: usize,
    pub(super) kernel: &'a [usize],
    pub(super) stride: &'a [usize],
    pub(super) norm: Norm,
    pub(super) act: Nonlin,
    pub(super) residual: bool,
}

impl UnetBlock<'_> {
    pub(super) fn add(&self, b: &mut Builder, at: &str, x: TensorId) -> TensorId {
        let ones = vec![1; self.kernel.len()];
        let conv = |kernel: &[usize], stride: &[usize]| {
            let pad: Vec<usize> = kernel
                .iter()
                .zip(stride)
                .map(|(k, s)| (k + 1).saturating_sub(*s) / 2)
                .collect();
            Conv::new(self.out, kernel)
                .stride(stride)
                .pad(&pad)
                .no_bias()
        };
        let lrelu = format!("{at}.lrelu");
        let y = b.conv(
            &format!("{at}.conv1.conv"),
            x,
            conv(self.kernel, self.stride),
        );
        let y = self.norm.add(b, &format!("{at}.norm1"), y);
        let y = self.act.add(b, &lrelu, y);
        let y = b.conv(&format!("{at}.conv2.conv"), y, conv(self.kernel, &ones));
        let mut y = self.norm.add(b, &format!("{at}.norm2"), y);
        if self.residual {
            let mut skip = x;
            if b.channels(x) != self.out || self.stride.iter().any(|s| *s != 1) {
                skip = b.conv(&format!("{at}.conv3.conv"), x, conv(&ones, self.stride));
                skip = self.norm.add(b, &format!("{at}.norm3"), skip);
            }
            y = b.add(&format!("{at}.add"), y, skip, true);
        }
        self.act.add(b, &lrelu, y)
    }
}

/// Ends a network with its logits.
pub(super) fn finish(mut b: Builder, x: TensorId) -> Graph {
    b.rename(x, "logits");
    b.output(x);
    b.finish()
}
