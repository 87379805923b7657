//! nnU-Net's `plans.json` (version 2, with the keys of before and after its `architecture` block) and `dataset.json`.

use super::unet::UNet;
use crate::network::norms::{Nonlin, Norm, Settings};
use crate::network::tree::Tree;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Stages of one network.
const MOST_STAGES: usize = 16;
/// Blocks or convolutions of one stage.
const MOST_BLOCKS: usize = 64;
/// Channels of one stage.
const MOST_CHANNELS: usize = 8192;

/// The configurations of a plan, in its order.
pub(super) fn names(plans: &Value) -> Result<Vec<String>, String> {
    let all = Tree::root(plans).need("configurations")?;
    Ok(all
        .entries()?
        .iter()
        .map(|(k, _)| (*k).to_owned())
        .collect())
}

/// One configuration with all that it inherits.
pub(super) fn configuration(plans: &Value, name: &str) -> Result<Value, String> {
    let all = Tree::root(plans).need("configurations")?;
    let mut chain = Vec::new();
    let mut seen = BTreeSet::new();
    let mut next = Some(name.to_owned());
    while let Some(at) = next {
        let one = all.key(&at).ok_or_else(|| {
            let has: Vec<&str> = all
                .entries()
                .map(|e| e.into_iter().map(|(k, _)| k).collect())
                .unwrap_or_default();
            format!(
                "there is no configuration \"{at}\", only {}; choose one with --configuration",
                has.join(", ")
            )
        })?;
        if !seen.insert(at.clone()) {
            return Err(format!(
                "the configuration \"{name}\" inherits from itself by way of \"{at}\""
            ));
        }
        next = one
            .key("inherits_from")
            .map(|p| p.text().map(str::to_owned))
            .transpose()?;
        chain.push(one);
    }
    let mut merged = Map::new();
    for one in chain.iter().rev() {
        let keys = one
            .value()
            .as_object()
            .ok_or_else(|| one.wrong("an object"))?;
        for (k, v) in keys {
            merged.insert(k.clone(), v.clone());
        }
    }
    Ok(merged.into())
}

/// What the data set says of a network's two ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DataSet {
    /// Images that make one input.
    pub(super) channels: Option<usize>,
    /// Channels of the output.
    pub(super) heads: Option<usize>,
    /// Names of the output's channels, the background first where it has one.
    pub(super) labels: Vec<String>,
    /// Labels other than background: what the second stage of a cascade reads beside the image.
    pub(super) foreground: usize,
    /// Whether a voxel may belong to several labels.
    pub(super) regions: bool,
}

impl DataSet {
    /// Reads `dataset.json`.
    pub(super) fn read(file: &Value) -> Result<Self, String> {
        let root = Tree::root(file);
        let channels = match root.key("channel_names").or_else(|| root.key("modality")) {
            Some(c) => Some(c.entries()?.len()),
            None => None,
        };
        let mut out = Self {
            channels,
            ..Self::default()
        };
        let Some(labels) = root.key("labels") else {
            return Ok(out);
        };
        let mut values = BTreeSet::new();
        let mut named = Vec::new();
        for (name, value) in labels.entries()? {
            if name == "ignore" {
                continue;
            }
            let own = match label(&value) {
                Some(n) => vec![n],
                None => value
                    .list()?
                    .iter()
                    .map(|v| label(v).ok_or_else(|| v.wrong("a label")))
                    .collect::<Result<_, _>>()?,
            };
            out.regions |= own.len() > 1;
            let background = own.iter().all(|v| *v == 0);
            values.extend(own.iter().copied());
            named.push((own, background, name));
        }
        out.foreground = values.iter().filter(|v| **v != 0).count();
        if out.regions {
            named.retain(|(_, background, _)| !background);
        } else {
            named.sort_by_key(|(own, ..)| own.first().copied());
        }
        out.labels = named.iter().map(|(.., name)| (*name).to_owned()).collect();
        out.heads = Some(if out.regions {
            named.len()
        } else {
            values.len()
        });
        Ok(out)
    }
}

/// A label as nnU-Net's files write it: 3, 3.0 or "3".
fn label(v: &Tree<'_>) -> Option<usize> {
    v.size()
        .ok()
        .or_else(|| v.text().ok()?.trim().parse().ok())
        .filter(|n| *n <= 65_535)
}

/// The network of a configuration, between these channels.
pub(super) fn network(
    configuration: &Value,
    in_channels: usize,
    classes: usize,
) -> Result<UNet, String> {
    let root = Tree::root(configuration);
    match root.key("architecture") {
        Some(architecture) => new_keys(&architecture, in_channels, classes),
        None => old_keys(&root, in_channels, classes),
    }
}

/// Whether it is the residual encoder, by the class's name.
fn residual(class: &Tree<'_>) -> Result<bool, String> {
    match class.text()?.rsplit('.').next() {
        Some("PlainConvUNet") => Ok(false),
        Some("ResidualEncoderUNet") => Ok(true),
        _ => Err(class
            .wrong("PlainConvUNet or ResidualEncoderUNet (others are not read by this version)")),
    }
}

fn new_keys(a: &Tree<'_>, in_channels: usize, classes: usize) -> Result<UNet, String> {
    const KNOWN: [&str; 19] = [
        "n_stages",
        "features_per_stage",
        "conv_op",
        "kernel_sizes",
        "strides",
        "n_conv_per_stage",
        "n_blocks_per_stage",
        "n_conv_per_stage_decoder",
        "conv_bias",
        "norm_op",
        "norm_op_kwargs",
        "dropout_op",
        "dropout_op_kwargs",
        "nonlin",
        "nonlin_kwargs",
        "deep_supervision",
        "nonlin_first",
        "stem_channels",
        "block",
    ];
    let residual = residual(&a.need("network_class_name")?)?;
    let args = a.need("arch_kwargs")?;
    for (key, value) in args.entries()? {
        let off = value.value().is_null();
        if !off && !KNOWN.contains(&key) {
            return Err(
                value.wrong("absent: this version does not know that setting of the network")
            );
        }
    }
    if let Some(block) = args.key("block")
        && !block.text()?.ends_with("BasicBlockD")
    {
        return Err(block.wrong("BasicBlockD (bottleneck blocks are not read by this version)"));
    }
    let blocks = if residual {
        "n_blocks_per_stage"
    } else {
        "n_conv_per_stage"
    };
    let dims = dims(&args)?;
    let kernels = per_axis(&args.need("kernel_sizes")?, dims)?;
    let stages = match args.key("n_stages") {
        Some(n) => n.size()?,
        None => kernels.len(),
    };
    let flag = |key: &str| args.truth(key, false);
    let net = UNet {
        in_channels,
        classes,
        features: args.need("features_per_stage")?.sizes_of(stages)?,
        strides: per_axis(&args.need("strides")?, dims)?,
        encoder: args.need(blocks)?.sizes_of(stages)?,
        decoder: args
            .need("n_conv_per_stage_decoder")?
            .sizes_of(stages.saturating_sub(1))?,
        kernels,
        residual,
        stem: args.key("stem_channels").map(|s| s.size()).transpose()?,
        bias: flag("conv_bias")?,
        norm: norm(&args)?,
        nonlin: nonlin(&args)?,
        nonlin_first: flag("nonlin_first")?,
    };
    checked(net, stages)
}

fn old_keys(root: &Tree<'_>, in_channels: usize, classes: usize) -> Result<UNet, String> {
    let residual = residual(&root.need("UNet_class_name")?)?;
    let dims = root.need("patch_size")?.list()?.len();
    let kernels = per_axis(&root.need("conv_kernel_sizes")?, dims)?;
    let stages = kernels.len();
    let base = root.need("UNet_base_num_features")?.size()?;
    let most = root.need("unet_max_num_features")?.size()?;
    let features = (0..stages.min(MOST_STAGES))
        .map(|s| base.saturating_mul(1 << s).min(most))
        .collect();
    let net = UNet {
        in_channels,
        classes,
        features,
        strides: per_axis(&root.need("pool_op_kernel_sizes")?, dims)?,
        encoder: root.need("n_conv_per_stage_encoder")?.sizes_of(stages)?,
        decoder: root
            .need("n_conv_per_stage_decoder")?
            .sizes_of(stages.saturating_sub(1))?,
        kernels,
        residual,
        ..UNet::cubic(&[], &[], 0, residual)
    };
    checked(net, stages)
}

fn dims(args: &Tree<'_>) -> Result<usize, String> {
    let op = args.need("conv_op")?;
    match op.text()?.rsplit('.').next() {
        Some("Conv3d") => Ok(3),
        Some("Conv2d") => Ok(2),
        Some("Conv1d") => Ok(1),
        _ => Err(op.wrong("torch's Conv1d, Conv2d or Conv3d")),
    }
}

/// A kernel or stride of each stage: a number for all axes, or one an axis.
fn per_axis(list: &Tree<'_>, dims: usize) -> Result<Vec<Vec<usize>>, String> {
    list.list()?
        .iter()
        .map(|s| {
            let sizes = s.sizes_of(dims)?;
            if sizes.iter().all(|n| (1..=64).contains(n)) {
                Ok(sizes)
            } else {
                Err(s.wrong("sizes from 1 to 64"))
            }
        })
        .collect()
}

fn norm(args: &Tree<'_>) -> Result<Norm, String> {
    let Some(op) = args.key("norm_op") else {
        return Ok(Norm::Off);
    };
    let given = args.key("norm_op_kwargs");
    let name = op.text()?.rsplit('.').next().unwrap_or_default();
    let kind = match name.trim_end_matches(['1', '2', '3', 'd']) {
        "InstanceNorm" => "instance",
        "BatchNorm" => "batch",
        _ => "",
    };
    Norm::read(kind, Settings(given.as_ref()))?
        .ok_or_else(|| op.wrong("torch's InstanceNorm or BatchNorm"))
}

fn nonlin(args: &Tree<'_>) -> Result<Nonlin, String> {
    let Some(op) = args.key("nonlin") else {
        return Ok(Nonlin::Off);
    };
    let given = args.key("nonlin_kwargs");
    let kind = match op.text()?.rsplit('.').next() {
        Some("LeakyReLU") => "leakyrelu",
        Some("ReLU") => "relu",
        Some("PReLU") => "prelu",
        Some("GELU") => "gelu",
        Some("SiLU") => "silu",
        Some("ELU") => "elu",
        _ => "",
    };
    Nonlin::read(kind, Settings(given.as_ref()))?
        .ok_or_else(|| op.wrong("LeakyReLU, ReLU, PReLU, ELU, GELU or SiLU of torch.nn"))
}

/// Refuses what cannot be built: lists that do not match, and sizes that no network has.
fn checked(net: UNet, stages: usize) -> Result<UNet, String> {
    if !(2..=MOST_STAGES).contains(&stages) {
        return Err(format!(
            "the network has {stages} stages, from 2 to {MOST_STAGES} were expected"
        ));
    }
    for (what, n) in [
        ("kernels", net.kernels.len()),
        ("strides", net.strides.len()),
        ("features", net.features.len()),
    ] {
        if n != stages {
            return Err(format!(
                "the network has {stages} stages and {n} {what}, one for each was expected"
            ));
        }
    }
    let blocks = net.encoder.iter().chain(&net.decoder);
    if let Some(n) = blocks.clone().find(|n| !(1..=MOST_BLOCKS).contains(*n)) {
        return Err(format!(
            "a stage of the network has {n} blocks, from 1 to {MOST_BLOCKS} were expected"
        ));
    }
    let ends = [net.in_channels, net.classes];
    let widths = net.features.iter().chain(&net.stem).chain(&ends);
    if let Some(n) = widths.clone().find(|n| !(1..=MOST_CHANNELS).contains(*n)) {
        return Err(format!(
            "the network has {n} channels somewhere, from 1 to {MOST_CHANNELS} were expected"
        ));
    }
    Ok(net)
}
