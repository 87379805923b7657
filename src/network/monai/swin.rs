//! MONAI's `SwinUNETR`: attention in shifted windows on four levels, a convolutional decoder.

use super::args::Args;
use super::blocks::{UnetBlock, finish, instance, leaky};
use super::tokens::{Step, Tokens};
use crate::network::builder::Conv;
use crate::network::graph::{Graph, TensorId};
use crate::network::norms::Norm;

const TWO: [usize; 3] = [2; 3];
const ONE: [usize; 3] = [1; 3];
const THREE: [usize; 3] = [3; 3];
const LEVELS: usize = 4;

/// The arguments of `monai.networks.nets.SwinUNETR`, three-dimensional, at one size of the input.
#[derive(Clone, Debug)]
pub(in crate::network) struct SwinUnetr {
    in_channels: usize,
    out_channels: usize,
    size: [usize; 3],
    features: usize,
    depths: [usize; LEVELS],
    heads: [usize; LEVELS],
    window: [usize; 3],
    qkv_bias: bool,
    mlp_ratio: usize,
    norm: Norm,
    normalize: bool,
    v2: bool,
}

impl SwinUnetr {
    /// With MONAI's defaults at 96 voxels cubed.
    pub(in crate::network) const fn new(out_channels: usize, features: usize) -> Self {
        Self {
            in_channels: 1,
            out_channels,
            size: [96; 3],
            features,
            depths: [2; LEVELS],
            heads: [3, 6, 12, 24],
            window: [7; 3],
            qkv_bias: true,
            mlp_ratio: 4,
            norm: instance(false),
            normalize: true,
            v2: false,
        }
    }

    pub(super) fn read(args: &Args<'_>, roi: Option<[usize; 3]>) -> Result<Self, String> {
        args.only(&[
            "img_size",
            "in_channels",
            "out_channels",
            "patch_size",
            "depths",
            "num_heads",
            "window_size",
            "qkv_bias",
            "mlp_ratio",
            "feature_size",
            "norm_name",
            "drop_rate",
            "attn_drop_rate",
            "dropout_path_rate",
            "normalize",
            "norm_layer",
            "patch_norm",
            "use_checkpoint",
            "spatial_dims",
            "downsample",
            "use_v2",
            "use_flash_attention",
        ])?;
        let or = Self::new(2, 24);
        let plain = args.dims(Some(3))? == 3
            && args.size("patch_size", 2, 64)? == 2
            && !args.flag("patch_norm", false)?
            && args.key("norm_layer").is_none();
        if !plain {
            return Err("a SwinUNETR with other than 3 axes, patches of 2, a norm in its patch embedding or norms of its own is not built by this version".to_owned());
        }
        let given = args
            .key("img_size")
            .map(|s| s.sizes_of(3))
            .transpose()?
            .and_then(|s| s.as_slice().try_into().ok());
        let four = |list: Vec<usize>, what: &str| {
            list.as_slice().try_into().map_err(|_other_count| {
                format!("a SwinUNETR has four {what}, found {}", list.len())
            })
        };
        let net = Self {
            in_channels: args.channels("in_channels", None)?,
            out_channels: args.channels("out_channels", None)?,
            size: roi.or(given).unwrap_or(or.size),
            features: args.channels("feature_size", Some(or.features))?,
            depths: four(args.blocks("depths", &or.depths)?, "depths")?,
            heads: four(args.widths("num_heads", &or.heads)?, "num_heads")?,
            window: three(&args.per_axis("window_size", 3, 7)?),
            qkv_bias: args.flag("qkv_bias", true)?,
            mlp_ratio: args.size("mlp_ratio", or.mlp_ratio, 64)?.max(1),
            norm: args.norm("norm_name", or.norm)?,
            normalize: args.flag("normalize", true)?,
            v2: args.flag("use_v2", false)?,
        };
        net.check()?;
        Ok(net)
    }

    fn check(&self) -> Result<(), String> {
        if self
            .size
            .iter()
            .any(|n| *n == 0 || *n > 4096 || !n.is_multiple_of(32))
        {
            return Err(format!(
                "a SwinUNETR takes sizes that are multiples of 32 up to 4096, found {:?}",
                self.size
            ));
        }
        let widths = (0..LEVELS).map(|l| self.features << l);
        if let Some((w, h)) = widths.zip(self.heads).find(|(w, h)| !w.is_multiple_of(*h)) {
            return Err(format!("{w} features cannot be shared out to {h} heads"));
        }
        Ok(())
    }

    pub(in crate::network) fn graph(&self, name: &str) -> Graph {
        let mut t = Tokens::new(name, self.size);
        let image = t.b.input("image", self.in_channels);
        let embed = Conv::new(self.features, &TWO).stride(&TWO).pad(&[0; 3]);
        let mut x = t.b.conv("swinViT.patch_embed.proj", image, embed);
        let mut size = self.size.map(|n| n / 2);
        let mut hidden = vec![self.normed(&mut t, 0, x, (self.features, size))];
        for level in 0..LEVELS {
            let width = self.features << level;
            let stage = Stage {
                width,
                size,
                heads: self.heads.get(level).copied().unwrap_or(1),
                depth: self.depths.get(level).copied().unwrap_or(2),
            };
            if self.v2 {
                let at = format!("swinViT.layers{}c.0.layer", level + 1);
                x = res_block(width, instance(false)).add(&mut t.b, &at, x);
            }
            if level > 0 {
                // What the level before made lies channels last.
                let [a, b, c] = size;
                let name = format!("swinViT.contiguous.{level}");
                x = t.plain(&name, "Transpose", &[x], &[1, width, a, b, c]);
            }
            x = self.layer(&mut t, &format!("swinViT.layers{}.0", level + 1), x, stage);
            size = size.map(|n| n / 2);
            hidden.push(self.normed(&mut t, level + 1, x, (2 * width, size)));
        }
        let x = self.decoder(&mut t, image, hidden);
        let x =
            t.b.conv("out.conv.conv", x, Conv::new(self.out_channels, &ONE));
        finish(t.b, x)
    }

    fn decoder(&self, t: &mut Tokens, image: TensorId, hidden: Vec<TensorId>) -> TensorId {
        let block = |out: usize| res_block(out, self.norm);
        let first = block(self.features).add(&mut t.b, "encoder1.layer", image);
        let mut skips = vec![first];
        let mut deep = Vec::new();
        for (i, map) in hidden.into_iter().enumerate() {
            if i < 3 {
                let at = format!("encoder{}.layer", i + 2);
                skips.push(block(self.features << i).add(&mut t.b, &at, map));
            } else {
                deep.push(map);
            }
        }
        let bottom = deep.pop().unwrap_or(image);
        let mut x = block(self.features << 4).add(&mut t.b, "encoder10.layer", bottom);
        skips.extend(deep);
        for (level, shift) in [(5, 3), (4, 2), (3, 1), (2, 0), (1, 0)] {
            let out = self.features << shift;
            let at = format!("decoder{level}");
            let skip = skips.pop().unwrap_or(x);
            let up =
                t.b.conv_transpose(&format!("{at}.transp_conv.conv"), x, out, &TWO, false);
            let joined = t.b.concat(&format!("{at}.cat"), &[up, skip]);
            x = block(out).add(&mut t.b, &format!("{at}.conv_block"), joined);
        }
        x
    }

    /// The layer norm without parameters that each level's map goes through.
    fn normed(
        &self,
        t: &mut Tokens,
        level: usize,
        x: TensorId,
        (width, [a, b, c]): (usize, [usize; 3]),
    ) -> TensorId {
        if !self.normalize {
            return x;
        }
        let name = format!("swinViT.proj_out.{level}");
        t.plain(&name, "LayerNorm", &[x], &[1, width, a, b, c])
    }

    /// Blocks of which every second has shifted windows, then eight neighbours merged into one token of twice the width.
    fn layer(&self, t: &mut Tokens, at: &str, x: TensorId, stage: Stage) -> TensorId {
        let Stage {
            width,
            size: [a, b, c],
            ..
        } = stage;
        let volume = [1, a, b, c, width];
        let mut x = t.view(&format!("{at}.channels_last"), x, &volume);
        let cut = self.cut(stage);
        // A map no larger than a window has one window and nothing to shift.
        let shifted = stage.size.iter().zip(self.window).any(|(n, w)| *n > w);
        let mask = shifted.then(|| {
            let shape = [cut.windows, cut.tokens, cut.tokens];
            t.plain(&format!("{at}.attn_mask"), "Mask", &[x], &shape)
        });
        for block in 0..stage.depth {
            let mask = mask.filter(|_| block % 2 == 1);
            x = self.block(t, &format!("{at}.blocks.{block}"), (x, mask), stage);
        }
        let [a, b, c] = stage.size.map(|n| n / 2);
        let merged = [1, a, b, c, 8 * width];
        let y = t.plain(&format!("{at}.downsample.cat"), "Concat", &[x], &merged);
        let y = t.layer_norm(&format!("{at}.downsample.norm"), y, &merged);
        let reduced = [1, a, b, c, 2 * width];
        let name = format!("{at}.downsample.reduction");
        let y = t.linear(&name, y, (8 * width, false), &reduced);
        t.view(&format!("{at}.channels_first"), y, &[1, 2 * width, a, b, c])
    }

    fn cut(&self, stage: Stage) -> Cut {
        let mut cut = Cut {
            windows: 1,
            tokens: 1,
            padded: stage.size,
        };
        for ((n, w), padded) in stage.size.iter().zip(self.window).zip(&mut cut.padded) {
            let side = (*n).min(w).max(1);
            cut.windows *= n.div_ceil(side);
            cut.tokens *= side;
            *padded = n.next_multiple_of(side);
        }
        cut
    }

    fn block(
        &self,
        t: &mut Tokens,
        at: &str,
        (x, mask): (TensorId, Option<TensorId>),
        stage: Stage,
    ) -> TensorId {
        let Stage {
            width,
            size: [a, b, c],
            ..
        } = stage;
        let volume = [1, a, b, c, width];
        let cut = self.cut(stage);
        let pads = cut.padded != stage.size;
        let [pa, pb, pc] = cut.padded;
        let padded = [1, pa, pb, pc, width];
        let windows = [cut.windows, cut.tokens, width];
        let mut y = t.layer_norm(&format!("{at}.norm1"), x, &volume);
        if pads {
            y = t.plain(&format!("{at}.pad"), "Pad", &[y], &padded);
        }
        if mask.is_some() {
            y = t.plain(&format!("{at}.roll"), "Roll", &[y], &padded);
        }
        y = t.plain(&format!("{at}.window_partition"), "Reshape", &[y], &windows);
        y = self.attention(t, &format!("{at}.attn"), (y, mask), stage);
        y = t.plain(&format!("{at}.window_reverse"), "Reshape", &[y], &padded);
        if mask.is_some() {
            y = t.plain(&format!("{at}.unroll"), "Roll", &[y], &padded);
        }
        if pads {
            y = t.plain(&format!("{at}.crop"), "Slice", &[y], &volume);
        }
        let x = t.plain(&format!("{at}.add"), "Add", &[x, y], &volume);
        t.mlp_block(at, x, (&volume, self.mlp_ratio * width))
    }

    /// Attention inside each window, with a learned bias per pair of places and the mask of shifted windows.
    fn attention(
        &self,
        t: &mut Tokens,
        at: &str,
        (x, mask): (TensorId, Option<TensorId>),
        stage: Stage,
    ) -> TensorId {
        let Stage { width, heads, .. } = stage;
        let Cut {
            windows, tokens, ..
        } = self.cut(stage);
        let cut = [windows, tokens, width];
        let map = [windows, heads, tokens, tokens];
        let each = [windows, heads, tokens, width / heads];
        let all = [windows, tokens, 3 * width];
        let qkv = t.linear(&format!("{at}.qkv"), x, (width, self.qkv_bias), &all);
        let places = self.window.iter().map(|w| 2 * w - 1).product();
        let table = [places, heads];
        let learned: &[(&str, &[usize])] = &[("relative_position_bias_table", &table)];
        let whole: usize = self.window.iter().product();
        t.b.buffer(format!("{at}.relative_position_index"), vec![whole; 2]);
        let bias = t.step(
            at,
            &Step {
                kind: "Gather",
                inputs: &[qkv],
                learned,
                shape: &[heads, tokens, tokens],
                flops: 0,
            },
        );
        let q = t.plain(&format!("{at}.q"), "Mul", &[qkv], &each);
        let scores = t.product(&format!("{at}.scores"), &[q, qkv], width / heads, &map);
        let mut weights = t.plain(&format!("{at}.add"), "Add", &[scores, bias], &map);
        if let Some(mask) = mask {
            weights = t.plain(&format!("{at}.mask"), "Add", &[weights, mask], &map);
        }
        let weights = t.plain(&format!("{at}.softmax"), "Softmax", &[weights], &map);
        let mixed = t.product(&format!("{at}.values"), &[weights, qkv], tokens, &each);
        let y = t.plain(&format!("{at}.merge"), "Reshape", &[mixed], &cut);
        t.linear(&format!("{at}.proj"), y, (width, true), &cut)
    }
}

#[derive(Clone, Copy)]
struct Stage {
    width: usize,
    size: [usize; 3],
    heads: usize,
    depth: usize,
}

/// A map cut in windows.
struct Cut {
    windows: usize,
    tokens: usize,
    padded: [usize; 3],
}

fn three(list: &[usize]) -> [usize; 3] {
    list.try_into().unwrap_or([7; 3])
}

const fn res_block(out: usize, norm: Norm) -> UnetBlock<'static> {
    UnetBlock {
        out,
        kernel: &THREE,
        stride: &ONE,
        norm,
        act: leaky(0.01),
        residual: true,
    }
}
