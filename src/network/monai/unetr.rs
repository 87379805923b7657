//! MONAI's UNETR: a vision transformer on patches of 16 voxels, a convolutional decoder.

use super::args::Args;
use super::blocks::{UnetBlock, finish, instance, leaky};
use super::tokens::{Third, Tokens, fixed, of};
use crate::network::builder::Conv;
use crate::network::graph::{Graph, TensorId};
use crate::network::norms::Norm;
use crate::network::size::Size;
use crate::network::tensor_op::TensorOp;

const PATCH: usize = 16;
const TWO: [usize; 3] = [2; 3];
const ONE: [usize; 3] = [1; 3];
const THREE: [usize; 3] = [3; 3];

/// The arguments of `monai.networks.nets.UNETR`, three-dimensional.
#[derive(Clone, Debug)]
pub(in crate::network) struct Unetr {
    in_channels: usize,
    out_channels: usize,
    size: [usize; 3],
    features: usize,
    hidden: usize,
    mlp: usize,
    heads: usize,
    norm: Norm,
    conv_block: bool,
    residual: bool,
    qkv_bias: bool,
}

impl Default for Unetr {
    fn default() -> Self {
        Self {
            in_channels: 1,
            out_channels: 2,
            size: [96; 3],
            features: 16,
            hidden: 768,
            mlp: 3072,
            heads: 12,
            norm: instance(false),
            conv_block: true,
            residual: true,
            qkv_bias: false,
        }
    }
}

impl Unetr {
    /// With MONAI's defaults at 96 voxels cubed and this many classes.
    pub(in crate::network) fn new(out_channels: usize) -> Self {
        Self {
            out_channels,
            ..Self::default()
        }
    }

    pub(super) fn read(args: &Args<'_>) -> Result<Self, String> {
        args.only(&[
            "in_channels",
            "out_channels",
            "img_size",
            "feature_size",
            "hidden_size",
            "mlp_dim",
            "num_heads",
            "pos_embed",
            "proj_type",
            "norm_name",
            "conv_block",
            "res_block",
            "dropout_rate",
            "spatial_dims",
            "qkv_bias",
            "save_attn",
        ])?;
        if args.dims(Some(3))? != 3 {
            return Err("a UNETR over other than 3 axes is not built by this version".to_owned());
        }
        let proj = match args.key("proj_type") {
            Some(_) => args.text("proj_type", "conv")?,
            None => args.text("pos_embed", "conv")?,
        };
        if proj != "conv" {
            return Err(format!(
                "proj_type must be conv in this version, found \"{proj}\""
            ));
        }
        let or = Self::default();
        let size = args
            .key("img_size")
            .ok_or("the UNETR has no img_size")?
            .sizes_of(3)?;
        let size = size
            .as_slice()
            .try_into()
            .map_err(|_other_count| "img_size must be three sizes")?;
        let net = Self {
            in_channels: args.channels("in_channels", None)?,
            out_channels: args.channels("out_channels", None)?,
            size,
            features: args.channels("feature_size", Some(or.features))?,
            hidden: args.channels("hidden_size", Some(or.hidden))?,
            mlp: args.size("mlp_dim", or.mlp, 1 << 16)?.max(1),
            heads: args.channels("num_heads", Some(or.heads))?,
            norm: args.norm("norm_name", or.norm)?,
            conv_block: args.flag("conv_block", true)?,
            residual: args.flag("res_block", true)?,
            qkv_bias: args.flag("qkv_bias", false)?,
        };
        if !net.hidden.is_multiple_of(net.heads) {
            return Err(format!(
                "hidden_size must be a multiple of num_heads {}, found {}",
                net.heads, net.hidden
            ));
        }
        if net
            .size
            .iter()
            .any(|n| *n == 0 || *n > 4096 || !n.is_multiple_of(PATCH))
        {
            return Err(format!(
                "img_size must be multiples of {PATCH} up to 4096, found {:?}",
                net.size
            ));
        }
        Ok(net)
    }

    pub(in crate::network) fn graph(&self, name: &str) -> Graph {
        let mut t = Tokens::new(name, self.size);
        let image = t.b.input("image", self.in_channels);
        let patches = Conv::new(self.hidden, &[PATCH; 3])
            .stride(&[PATCH; 3])
            .pad(&[0; 3]);
        let x =
            t.b.conv("vit.patch_embedding.patch_embeddings", image, patches);
        let patches = x;
        let mut x = self.embedded(&mut t, patches);
        let mut hidden = Vec::new();
        for i in 0..12 {
            x = self.block(&mut t, &format!("vit.blocks.{i}"), x);
            if matches!(i, 3 | 6 | 9) {
                hidden.push(x);
            }
        }
        let x = t.layer_norm("vit.norm", x, (3, self.hidden));
        let enc1 = self
            .unet_block(self.features)
            .add(&mut t.b, "encoder1.layer", image);
        let mut skips = vec![enc1];
        for (i, (tokens, layers)) in hidden.into_iter().zip([2, 1, 0]).enumerate() {
            let out = self.features << (i + 1);
            let at = format!("encoder{}", i + 2);
            // Hidden states lie channels first in memory, as the patch embedding left them.
            let map = self.grid(&mut t, &format!("proj_feat.{}", i + 2), tokens, patches);
            t.b.in_place();
            let init = format!("{at}.transp_conv_init.conv");
            let mut y = t.b.conv_transpose(&init, map, out, &TWO, false);
            for layer in 0..layers {
                y = self.raise(&mut t, &format!("{at}.blocks.{layer}"), y, out);
            }
            skips.push(y);
        }
        let mut x = self.grid(&mut t, "proj_feat.5", x, patches);
        for level in (2..=5).rev() {
            let out = self.features << (level - 2);
            let at = format!("decoder{level}");
            let skip = skips.pop().unwrap_or(x);
            let up =
                t.b.conv_transpose(&format!("{at}.transp_conv.conv"), x, out, &TWO, false);
            let joined = t.b.concat(&format!("{at}.cat"), &[up, skip]);
            x = self
                .unet_block(out)
                .add(&mut t.b, &format!("{at}.conv_block"), joined);
        }
        let x =
            t.b.conv("out.conv.conv", x, Conv::new(self.out_channels, &ONE));
        Tokens::finish(t.at(), finish(t.b, x))
    }

    const fn unet_block(&self, out: usize) -> UnetBlock<'static> {
        UnetBlock {
            out,
            kernel: &THREE,
            stride: &ONE,
            norm: self.norm,
            act: leaky(0.01),
            residual: self.residual,
        }
    }

    /// A transposed convolution, with a block of two convolutions after it when `conv_block`.
    fn raise(&self, t: &mut Tokens, at: &str, x: TensorId, out: usize) -> TensorId {
        if !self.conv_block {
            return t
                .b
                .conv_transpose(&format!("{at}.conv"), x, out, &TWO, false);
        }
        let y =
            t.b.conv_transpose(&format!("{at}.0.conv"), x, out, &TWO, false);
        self.unet_block(out).add(&mut t.b, &format!("{at}.1"), y)
    }

    /// One token a patch, with what tells where it lies: learned for one size of the input.
    fn embedded(&self, t: &mut Tokens, patches: TensorId) -> TensorId {
        let name = "vit.patch_embedding";
        let count: usize = self.size.iter().map(|n| n / PATCH).product();
        let all = (2..5).map(|axis| of(patches, axis));
        let to = vec![
            of(patches, 0),
            fixed(self.hidden),
            Size::product(all).unwrap_or_else(|| fixed(count)),
        ];
        let x = t.reshape(&format!("{name}/flatten"), patches, to);
        let x = t.transpose(&format!("{name}/tokens"), x, &[0, 2, 1]);
        let shape = vec![1, count, self.hidden];
        let places = t.b.parameter(format!("{name}.position_embeddings"), shape);
        t.sum(name, x, places)
    }

    /// Tokens as a map on the grid of patches.
    fn grid(&self, t: &mut Tokens, name: &str, tokens: TensorId, patches: TensorId) -> TensorId {
        let mut to = vec![of(patches, 0)];
        to.extend((2..5).map(|axis| of(patches, axis)));
        to.push(fixed(self.hidden));
        let x = t.reshape(&format!("{name}/grid"), tokens, to);
        t.transpose(name, x, &[0, 4, 1, 2, 3])
    }

    fn block(&self, t: &mut Tokens, at: &str, x: TensorId) -> TensorId {
        let (width, heads) = (self.hidden, self.heads);
        // Built by the constructor, used only with cross attention.
        t.b.parameter(format!("{at}.norm_cross_attn.weight"), vec![width]);
        t.b.parameter(format!("{at}.norm_cross_attn.bias"), vec![width]);
        let y = t.layer_norm(&format!("{at}.norm1"), x, (3, width));
        let name = format!("{at}.attn.qkv");
        let qkv = t.linear(&name, y, (width, 3 * width), self.qkv_bias);
        let name = format!("{at}.attn.scores");
        let q = t.heads(&name, qkv, Third::Queries, (width, heads));
        let k = t.heads(&name, qkv, Third::Keys, (width, heads));
        let scores = t.op(&name, TensorOp::MatMul, &[q, k], 0);
        let factor = ((width / heads) as f64).powf(-0.5);
        let scaled = t.scale(&format!("{at}.attn.scale"), scores, factor);
        let weights = t.softmax(&format!("{at}.attn.softmax"), scaled);
        let mixed = t.mixed(
            (
                &format!("{at}.attn.values"),
                &format!("{at}.attn.out_rearrange"),
            ),
            (weights, qkv),
            (width, heads),
        );
        let y = t.linear(&format!("{at}.attn.out_proj"), mixed, (width, width), true);
        let x = t.b.add(&format!("{at}.add"), x, y, false);
        t.mlp_block(at, x, [3, width, self.mlp])
    }
}
