//! MONAI's `SwinUNETR`: attention in shifted windows on four levels, a convolutional decoder.

use super::args::Args;
use super::blocks::{UnetBlock, finish, instance, leaky};
use super::tokens::{Third, Tokens, of};
use crate::network::builder::Conv;
use crate::network::graph::{Act, Graph, TensorId};
use crate::network::norms::Norm;
use crate::network::size::{Size, SizeOp};
use crate::network::tensor_op::{Binary, TensorOp};
use crate::network::windows::{WindowPart, Windowed};

const TWO: [usize; 3] = [2; 3];
const ONE: [usize; 3] = [1; 3];
const THREE: [usize; 3] = [3; 3];
const LEVELS: usize = 4;
/// The neighbours that are merged into one token, in MONAI's order since 1.5.
const MERGING: [[usize; 3]; 8] = [
    [0, 0, 0],
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
    [1, 1, 0],
    [1, 0, 1],
    [0, 1, 1],
    [1, 1, 1],
];
/// The same before: two neighbours twice, two never.
const MERGING_BEFORE_1_5: [[usize; 3]; 8] = [
    [0, 0, 0],
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
    [1, 0, 1],
    [0, 1, 0],
    [0, 0, 1],
    [1, 1, 1],
];
/// With `downsample="mergingv2"`: the last axis fastest.
const MERGING_V2: [[usize; 3]; 8] = [
    [0, 0, 0],
    [0, 0, 1],
    [0, 1, 0],
    [0, 1, 1],
    [1, 0, 0],
    [1, 0, 1],
    [1, 1, 0],
    [1, 1, 1],
];

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
    merging: [[usize; 3]; 8],
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
            merging: MERGING,
        }
    }

    pub(super) fn read(
        args: &Args<'_>,
        roi: Option<[usize; 3]>,
        before_1_5: bool,
    ) -> Result<Self, String> {
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
            merging: match args.text("downsample", "merging")?.as_str() {
                "mergingv2" => MERGING_V2,
                "merging" if before_1_5 => MERGING_BEFORE_1_5,
                "merging" => MERGING,
                other => {
                    return Err(format!(
                        "downsample must be merging or mergingv2, found \"{other}\""
                    ));
                }
            },
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
        let mut hidden = vec![self.normed(&mut t, 0, x)];
        for level in 0..LEVELS {
            let width = self.features << level;
            let stage = Stage {
                width,
                heads: self.heads.get(level).copied().unwrap_or(1),
                depth: self.depths.get(level).copied().unwrap_or(2),
            };
            if self.v2 {
                let at = format!("swinViT.layers{}c.0.layer", level + 1);
                x = res_block(width, instance(false)).add(&mut t.b, &at, x);
            }
            if level > 0 {
                // What the level before made lies channels last; PyTorch makes a copy that does not.
                let name = format!("swinViT.contiguous.{level}");
                let to = (0..5).map(|axis| of(x, axis)).collect();
                x = t.reshape(&name, x, to);
            }
            x = self.layer(&mut t, &format!("swinViT.layers{}.0", level + 1), x, stage);
            hidden.push(self.normed(&mut t, level + 1, x));
        }
        let x = self.decoder(&mut t, image, hidden);
        let x =
            t.b.conv("out.conv.conv", x, Conv::new(self.out_channels, &ONE));
        Tokens::finish(t.at(), finish(t.b, x))
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
    fn normed(&self, t: &mut Tokens, level: usize, x: TensorId) -> TensorId {
        if !self.normalize {
            return x;
        }
        let name = format!("swinViT.proj_out.{level}");
        let width = t.b.channels(x);
        let y = t.transpose(&format!("{name}/channels_last"), x, &[0, 2, 3, 4, 1]);
        let y = t.op(&format!("{name}/norm"), Tokens::norm(5), &[y], width);
        t.transpose(&name, y, &[0, 4, 1, 2, 3])
    }

    /// Blocks of which every second has shifted windows, then eight neighbours merged into one token of twice the width.
    fn layer(&self, t: &mut Tokens, at: &str, x: TensorId, stage: Stage) -> TensorId {
        let width = stage.width;
        let mut x = t.transpose(&format!("{at}.channels_last"), x, &[0, 2, 3, 4, 1]);
        t.b.in_place();
        let mask = (stage.depth > 1).then(|| self.mask(t, &format!("{at}.attn_mask"), x));
        for block in 0..stage.depth {
            let mask = mask.filter(|_| block % 2 == 1);
            x = self.block(t, &format!("{at}.blocks.{block}"), (x, mask), stage);
        }
        let name = format!("{at}.downsample.cat");
        let parts: Vec<TensorId> = self
            .merging
            .iter()
            .enumerate()
            .map(|(i, corner)| {
                let mut y = x;
                for (axis, start) in corner.iter().enumerate() {
                    let name = format!("{name}/neighbour{i}.{axis}");
                    y = t.slice(&name, y, axis + 1, (*start, None, 2));
                }
                y
            })
            .collect();
        let y = t.op(&name, TensorOp::Concat { axis: 4 }, &parts, 8 * width);
        let y = t.layer_norm(&format!("{at}.downsample.norm"), y, (5, 8 * width));
        let name = format!("{at}.downsample.reduction");
        let y = t.linear(&name, y, (8 * width, 2 * width), false);
        let y = t.transpose(&format!("{at}.channels_first"), y, &[0, 4, 1, 2, 3]);
        t.b.in_place();
        y
    }

    fn part(&self, part: WindowPart) -> TensorOp {
        TensorOp::Window(Windowed {
            window: self.window.to_vec(),
            part,
        })
    }

    /// -100 for each pair of places of a shifted window that do not lie in one region, else 0: (windows, places, places).
    fn mask(&self, t: &mut Tokens, name: &str, x: TensorId) -> TensorId {
        let op = self.part(WindowPart::Regions);
        let regions = t.op(&format!("{name}/regions"), op, &[x], 0);
        let (windows, places) = (of(regions, 0), of(regions, 1));
        let one = Size::Fixed(1);
        let to = vec![windows.clone(), places.clone(), one.clone()];
        let down = t.reshape(&format!("{name}/down"), regions, to);
        let to = vec![windows, one, places];
        let across = t.reshape(&format!("{name}/across"), regions, to);
        let same = TensorOp::Binary(Binary::Equal);
        let same = t.op(&format!("{name}/same"), same, &[down, across], 0);
        let apart = Act::Affine {
            factor: 100.0,
            shift: -100.0,
        };
        t.b.act(name, same, apart, false)
    }

    fn block(
        &self,
        t: &mut Tokens,
        at: &str,
        (x, mask): (TensorId, Option<TensorId>),
        stage: Stage,
    ) -> TensorId {
        let width = stage.width;
        let shifted = mask.is_some();
        let y = t.layer_norm(&format!("{at}.norm1"), x, (5, width));
        let cut = self.part(WindowPart::Cut { shifted });
        let y = t.op(&format!("{at}.window_partition"), cut, &[y], width);
        let y = self.attention(t, &format!("{at}.attn"), (y, mask), stage);
        let join = self.part(WindowPart::Join { shifted });
        let y = t.op(&format!("{at}.window_reverse"), join, &[y, x], width);
        let x = t.b.add(&format!("{at}.add"), x, y, false);
        t.mlp_block(at, x, [5, width, self.mlp_ratio * width])
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
        let qkv = t.linear(&format!("{at}.qkv"), x, (width, 3 * width), self.qkv_bias);
        let distances = self.window.iter().map(|w| 2 * w - 1).product();
        let name = format!("{at}.relative_position_bias_table");
        let table = t.b.parameter(name, vec![distances, heads]);
        let whole: usize = self.window.iter().product();
        t.b.buffer(format!("{at}.relative_position_index"), vec![whole; 2]);
        let bias = t.op(at, self.part(WindowPart::Bias), &[qkv, table], 0);
        let name = format!("{at}.q");
        let q = t.heads(&name, qkv, Third::Queries, (width, heads));
        let q = t.scale(&name, q, ((width / heads) as f64).powf(-0.5));
        let name = format!("{at}.scores");
        let k = t.heads(&name, qkv, Third::Keys, (width, heads));
        let scores = t.op(&name, TensorOp::MatMul, &[q, k], 0);
        let mut weights = t.sum(&format!("{at}.add"), scores, bias);
        if let Some(mask) = mask {
            weights = masked(t, &format!("{at}.mask"), weights, mask);
        }
        let weights = t.softmax(&format!("{at}.softmax"), weights);
        let y = t.mixed(
            (&format!("{at}.values"), &format!("{at}.merge")),
            (weights, qkv),
            (width, heads),
        );
        t.linear(&format!("{at}.proj"), y, (width, width), true)
    }
}

/// The same mask added for every image and head.
fn masked(t: &mut Tokens, name: &str, scores: TensorId, mask: TensorId) -> TensorId {
    let [windows, places] = [of(mask, 0), of(mask, 1)];
    let images = Size::Both(SizeOp::Div, Box::new(of(scores, 0)), Box::new(of(mask, 0)));
    let [heads, one] = [of(scores, 1), Size::Fixed(1)];
    let to = vec![
        images,
        windows.clone(),
        heads.clone(),
        places.clone(),
        places.clone(),
    ];
    let by_image = t.reshape(&format!("{name}/images"), scores, to);
    let to = vec![windows, one, places.clone(), places.clone()];
    let by_head = t.reshape(&format!("{name}/heads"), mask, to);
    let sum = t.sum(&format!("{name}/sum"), by_image, by_head);
    t.reshape(
        name,
        sum,
        vec![of(scores, 0), heads, places.clone(), places],
    )
}

#[derive(Clone, Copy, Debug)]
struct Stage {
    width: usize,
    heads: usize,
    depth: usize,
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
