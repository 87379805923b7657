//! MONAI's UNETR: a vision transformer on patches of 16 voxels, a convolutional decoder.

use super::args::Args;
use super::blocks::{UnetBlock, finish, instance, leaky};
use super::tokens::{Step, Tokens};
use crate::network::builder::Conv;
use crate::network::graph::{Graph, TensorId};
use crate::network::norms::Norm;

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
        let grid_size = self.size.map(|n| n / PATCH);
        let n: usize = grid_size.iter().product();
        let tokens = [1, n, self.hidden];
        let [gx, gy, gz] = grid_size;
        let grid = [1, self.hidden, gx, gy, gz];
        let patches = Conv::new(self.hidden, &[PATCH; 3])
            .stride(&[PATCH; 3])
            .pad(&[0; 3]);
        let x =
            t.b.conv("vit.patch_embedding.patch_embeddings", image, patches);
        let learned: &[(&str, &[usize])] = &[("position_embeddings", &tokens)];
        let mut x = t.step(
            "vit.patch_embedding",
            &Step {
                kind: "Add",
                inputs: &[x],
                learned,
                shape: &tokens,
                flops: tokens.iter().product(),
            },
        );
        let mut hidden = Vec::new();
        for i in 0..12 {
            x = self.block(&mut t, &format!("vit.blocks.{i}"), x, n);
            if matches!(i, 3 | 6 | 9) {
                hidden.push(x);
            }
        }
        let x = t.layer_norm("vit.norm", x, &tokens);
        let enc1 = self
            .unet_block(self.features)
            .add(&mut t.b, "encoder1.layer", image);
        let mut skips = vec![enc1];
        for (i, (tokens, layers)) in hidden.into_iter().zip([2, 1, 0]).enumerate() {
            let out = self.features << (i + 1);
            let at = format!("encoder{}", i + 2);
            // Hidden states lie channels first in memory, as the patch embedding left them.
            let map = t.view(&format!("proj_feat.{}", i + 2), tokens, &grid);
            let init = format!("{at}.transp_conv_init.conv");
            let mut y = t.b.conv_transpose(&init, map, out, &TWO, false);
            for layer in 0..layers {
                y = self.raise(&mut t, &format!("{at}.blocks.{layer}"), y, out);
            }
            skips.push(y);
        }
        let mut x = t.plain("proj_feat.5", "Transpose", &[x], &grid);
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
        finish(t.b, x)
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

    fn block(&self, t: &mut Tokens, at: &str, x: TensorId, n: usize) -> TensorId {
        let (width, heads) = (self.hidden, self.heads);
        let tokens = [1, n, width];
        let map = [1, heads, n, n];
        // Built by the constructor, used only with cross attention.
        t.b.parameter(format!("{at}.norm_cross_attn.weight"), vec![width]);
        t.b.parameter(format!("{at}.norm_cross_attn.bias"), vec![width]);
        let y = t.layer_norm(&format!("{at}.norm1"), x, &tokens);
        let all = [1, n, 3 * width];
        let qkv = t.linear(&format!("{at}.attn.qkv"), y, (width, self.qkv_bias), &all);
        let scores = t.product(&format!("{at}.attn.scores"), &[qkv], width / heads, &map);
        let scaled = t.plain(&format!("{at}.attn.scale"), "Mul", &[scores], &map);
        let weights = t.plain(&format!("{at}.attn.softmax"), "Softmax", &[scaled], &map);
        let each = [1, heads, n, width / heads];
        let mixed = t.product(&format!("{at}.attn.values"), &[weights, qkv], n, &each);
        let rearranged = format!("{at}.attn.out_rearrange");
        let mixed = t.plain(&rearranged, "Transpose", &[mixed], &tokens);
        let y = t.linear(
            &format!("{at}.attn.out_proj"),
            mixed,
            (width, true),
            &tokens,
        );
        let x = t.plain(&format!("{at}.add"), "Add", &[x, y], &tokens);
        t.mlp_block(at, x, (&tokens, self.mlp))
    }
}
