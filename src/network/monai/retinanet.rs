//! MONAI's `RetinaNet`: a `ResNet` cut after the last level that is used, a feature pyramid, two heads on each of its levels.

use super::args::Args;
use crate::network::builder::{Builder, Conv};
use crate::network::graph::{Act, Graph, TensorId};
use crate::network::norms::{Nonlin, Norm};
use crate::network::tree::Tree;

/// Channels of the pyramid: fixed in MONAI.
const WIDTH: usize = 256;
const NORM_GROUPS: usize = 8;

/// A `ResNet` that feeds a pyramid.
#[derive(Clone, Debug)]
pub(in crate::network) struct Backbone {
    dims: usize,
    in_channels: usize,
    bottleneck: bool,
    layers: Vec<usize>,
    planes: Vec<usize>,
    kernel: Vec<usize>,
    stride: Vec<usize>,
    max_pool: bool,
    bias_downsample: bool,
    stem_norm: Norm,
}

/// A `RetinaNet`.
#[derive(Clone, Debug)]
pub(in crate::network) struct RetinaNet {
    backbone: Backbone,
    /// Levels of the backbone that the pyramid reads, from 1.
    returned: Vec<usize>,
    classes: usize,
    anchors: usize,
}

const BATCH: Norm = Norm::Batch {
    affine: true,
    eps: Norm::EPS,
};

impl RetinaNet {
    /// The lung nodule bundle's: a `ResNet`-50 with a stem of stride 2 x 2 x 1, levels 1 and 2.
    pub(in crate::network) fn lung_nodule() -> Self {
        Self {
            backbone: Backbone {
                dims: 3,
                in_channels: 1,
                bottleneck: true,
                layers: vec![3, 4, 6, 3],
                planes: vec![64, 128, 256, 512],
                kernel: vec![7; 3],
                stride: vec![2, 2, 1],
                max_pool: true,
                bias_downsample: true,
                stem_norm: BATCH,
            },
            returned: vec![1, 2],
            classes: 1,
            anchors: 3,
        }
    }

    pub(super) fn read(args: &Args<'_>) -> Result<Self, String> {
        args.only(&[
            "spatial_dims",
            "num_classes",
            "num_anchors",
            "feature_extractor",
            "size_divisible",
            "use_list_output",
        ])?;
        let dims = args.dims(None)?;
        let extractor = args.key("feature_extractor").ok_or(
            "the RetinaNet's feature_extractor is not said, resnet_fpn_feature_extractor was expected",
        )?;
        let (class, call) = call(&extractor, "resnet_fpn_feature_extractor")?;
        if class != "resnet_fpn_feature_extractor" {
            return Err(extractor.wrong("a call of resnet_fpn_feature_extractor"));
        }
        let get = |key: &str, place: usize| call.argument(key, place);
        let backbone =
            get("backbone", 0).ok_or_else(|| extractor.wrong("a call with a backbone"))?;
        let returned = match get("returned_layers", 3) {
            Some(list) => list.sizes()?,
            None => vec![1, 2, 3],
        };
        let ordered = returned.windows(2).all(|w| matches!(w, [a, b] if a < b));
        if returned.is_empty() || !ordered || returned.iter().any(|l| !(1..=4).contains(l)) {
            return Err(format!(
                "returned_layers must be levels from 1 to 4 in order, found {returned:?}"
            ));
        }
        if returned
            .windows(2)
            .any(|w| matches!(w, [a, b] if a + 1 != *b))
        {
            return Err(format!(
                "returned_layers must follow each other in this version, found {returned:?}"
            ));
        }
        Ok(Self {
            backbone: Backbone::read(&backbone, dims)?,
            returned,
            classes: args.channels("num_classes", None)?,
            anchors: args.channels("num_anchors", None)?,
        })
    }

    pub(in crate::network) fn graph(&self, name: &str) -> Graph {
        let dims = self.backbone.dims;
        let mut b = Builder::new(name, dims);
        let x = b.input("image", self.backbone.in_channels);
        let maps = self.backbone.add(&mut b, x, &self.returned);
        let levels = pyramid(&mut b, dims, &maps);
        let heads = [
            (
                "classification_head",
                "cls_logits",
                self.anchors * self.classes,
                "class_logits",
            ),
            (
                "regression_head",
                "bbox_reg",
                self.anchors * 2 * dims,
                "box_regression",
            ),
        ];
        for (head, last, channels, output) in heads {
            for (level, x) in levels.iter().enumerate() {
                let x = tower(&mut b, dims, head, *x);
                let conv = Conv::new(channels, &vec![3; dims]);
                let out = b.conv(&format!("{head}.{last}"), x, conv);
                b.rename(out, &format!("{output}_{level}"));
                b.output(out);
            }
        }
        b.finish()
    }
}

/// The class and the arguments of something that is made by a call.
fn call<'a>(v: &Tree<'a>, expected: &str) -> Result<(String, Tree<'a>), String> {
    let class = v
        .key("_target_")
        .ok_or_else(|| v.wrong(&format!("a call of {expected}")))?;
    let last = class.text()?.rsplit('.').next().unwrap_or_default();
    Ok((last.to_owned(), v.clone()))
}

impl Backbone {
    fn read(v: &Tree<'_>, dims: usize) -> Result<Self, String> {
        let (class, call) = call(v, "ResNet or resnet50")?;
        let (bottleneck, layers) = match class.as_str() {
            "resnet10" => (false, vec![1, 1, 1, 1]),
            "resnet18" => (false, vec![2, 2, 2, 2]),
            "resnet34" => (false, vec![3, 4, 6, 3]),
            "resnet50" => (true, vec![3, 4, 6, 3]),
            "resnet101" => (true, vec![3, 4, 23, 3]),
            "resnet152" => (true, vec![3, 8, 36, 3]),
            "resnet200" => (true, vec![3, 24, 36, 3]),
            "ResNet" => (
                is_bottleneck(&call)?,
                Args::new(&call).blocks("layers", &[])?,
            ),
            _ => return Err(v.wrong("ResNet, resnet10, 18, 34, 50, 101, 152 or 200")),
        };
        let args = Args::new(&call);
        args.only(&[
            "spatial_dims",
            "n_input_channels",
            "conv1_t_size",
            "conv1_t_stride",
            "no_max_pool",
            "shortcut_type",
            "widen_factor",
            "num_classes",
            "feed_forward",
            "bias_downsample",
            "pretrained",
            "progress",
            "block",
            "layers",
            "block_inplanes",
            "act",
            "norm",
        ])?;
        let usual = args
            .key("widen_factor")
            .is_none_or(|w| w.number() == Ok(1.0));
        let relu = Nonlin::Plain(Act::Relu, true);
        let relus = matches!(args.act("act", relu)?, Nonlin::Plain(Act::Relu, _));
        if !usual || args.text("shortcut_type", "B")? != "B" || !relus {
            return Err(v.wrong("a ResNet with shortcuts of type B, a widen_factor of 1 and ReLU"));
        }
        let planes = planes(&args)?;
        if layers.len() != 4 || planes.len() != 4 {
            return Err(v.wrong("a ResNet of four levels"));
        }
        Ok(Self {
            dims,
            in_channels: args.channels("n_input_channels", Some(3))?,
            bottleneck,
            layers,
            planes,
            kernel: args.per_axis("conv1_t_size", dims, 7)?,
            stride: args.per_axis("conv1_t_stride", dims, 1)?,
            max_pool: !args.flag("no_max_pool", false)?,
            bias_downsample: args.flag("bias_downsample", true)?,
            stem_norm: args.norm("norm", BATCH)?,
        })
    }

    fn add(&self, b: &mut Builder, x: TensorId, returned: &[usize]) -> Vec<TensorId> {
        let at = "feature_extractor.body";
        let pad: Vec<usize> = self.kernel.iter().map(|k| k / 2).collect();
        let width = self.planes.first().copied().unwrap_or(64);
        let stem = Conv::new(width, &self.kernel)
            .stride(&self.stride)
            .pad(&pad)
            .no_bias();
        let x = b.conv(&format!("{at}.conv1"), x, stem);
        let x = self.stem_norm.add(b, &format!("{at}.bn1"), x);
        let mut x = b.act(&format!("{at}.act"), x, Act::Relu, true);
        if self.max_pool {
            let (threes, twos, ones) = (vec![3; self.dims], vec![2; self.dims], vec![1; self.dims]);
            x = b.max_pool(&format!("{at}.maxpool"), x, &threes, &twos, &ones);
        }
        let last = returned.last().copied().unwrap_or(1);
        let mut maps = Vec::new();
        let levels = self.layers.iter().zip(&self.planes).take(last);
        for (level, (blocks, width)) in (1..).zip(levels) {
            for block in 0..*blocks {
                let stride = if block == 0 && level > 1 { 2 } else { 1 };
                let at = format!("{at}.layer{level}.{block}");
                x = self.block(b, &at, x, (*width, stride));
            }
            if returned.contains(&level) {
                maps.push(x);
            }
        }
        maps
    }

    fn block(
        &self,
        b: &mut Builder,
        at: &str,
        x: TensorId,
        (width, stride): (usize, usize),
    ) -> TensorId {
        let cube = |k: usize| vec![k; self.dims];
        let strides = vec![stride; self.dims];
        let (out, convs) = if self.bottleneck {
            let wide = width * 4;
            let middle = Conv::new(width, &cube(3)).stride(&strides);
            (
                wide,
                vec![
                    Conv::new(width, &cube(1)),
                    middle,
                    Conv::new(wide, &cube(1)),
                ],
            )
        } else {
            let first = Conv::new(width, &cube(3)).stride(&strides);
            (width, vec![first, Conv::new(width, &cube(3))])
        };
        let act = format!("{at}.act");
        let last = convs.len();
        let mut y = x;
        for (i, conv) in (1..).zip(convs) {
            y = b.conv(&format!("{at}.conv{i}"), y, conv.no_bias());
            y = BATCH.add(b, &format!("{at}.bn{i}"), y);
            if i < last {
                y = b.act(&act, y, Act::Relu, true);
            }
        }
        let residual = if b.channels(x) == out && stride == 1 {
            x
        } else {
            let conv = Conv::new(out, &cube(1)).stride(&strides);
            let conv = if self.bias_downsample {
                conv
            } else {
                conv.no_bias()
            };
            let down = b.conv(&format!("{at}.downsample.0"), x, conv);
            BATCH.add(b, &format!("{at}.downsample.1"), down)
        };
        let sum = b.add(&format!("{at}.add"), y, residual, true);
        b.act(&act, sum, Act::Relu, true)
    }
}

/// Channels of the four levels; MONAI's `get_inplanes()` gives the usual ones.
fn planes(args: &Args<'_>) -> Result<Vec<usize>, String> {
    let usual = args
        .key("block_inplanes")
        .and_then(|v| v.key("_target_")?.text().ok())
        .is_some_and(|t| t.rsplit('.').next() == Some("get_inplanes"));
    let planes = [64, 128, 256, 512];
    if usual {
        return Ok(planes.to_vec());
    }
    args.widths("block_inplanes", &planes)
}

fn is_bottleneck(call: &Tree<'_>) -> Result<bool, String> {
    let block = call.need("block")?;
    match block.value().as_str().and_then(|t| t.rsplit('.').next()) {
        Some("bottleneck" | "ResNetBottleneck") => Ok(true),
        Some("basic" | "ResNetBlock") => Ok(false),
        _ => Err(block.wrong("basic or bottleneck")),
    }
}

/// Finest level first; one level more than the backbone gives.
fn pyramid(b: &mut Builder, dims: usize, maps: &[TensorId]) -> Vec<TensorId> {
    let at = "feature_extractor.fpn";
    let (ones, twos) = (vec![1; dims], vec![2; dims]);
    let mut levels = Vec::new();
    let mut above: Option<TensorId> = None;
    for (i, map) in maps.iter().enumerate().rev() {
        let name = format!("{at}.inner_blocks.{i}");
        let mut inner = b.conv(&name, *map, Conv::new(WIDTH, &ones));
        if let Some(coarser) = above {
            let up = b.upsample_nearest(&format!("{at}.interpolate"), coarser, &twos);
            inner = b.add(&format!("{at}.add"), inner, up, false);
        }
        let conv = Conv::new(WIDTH, &vec![3; dims]);
        levels.insert(0, b.conv(&format!("{at}.layer_blocks.{i}"), inner, conv));
        above = Some(inner);
    }
    if let Some(coarsest) = levels.last() {
        let zeros = vec![0; dims];
        let name = format!("{at}.extra_blocks.maxpool");
        let pooled = b.max_pool(&name, *coarsest, &ones, &twos, &zeros);
        levels.push(pooled);
    }
    levels
}

fn tower(b: &mut Builder, dims: usize, head: &str, mut x: TensorId) -> TensorId {
    for i in 0..4 {
        let conv = Conv::new(WIDTH, &vec![3; dims]);
        x = b.conv(&format!("{head}.conv.{}", 3 * i), x, conv);
        x = b.group_norm(&format!("{head}.conv.{}", 3 * i + 1), x, NORM_GROUPS);
        x = b.act(&format!("{head}.conv.{}", 3 * i + 2), x, Act::Relu, false);
    }
    x
}
