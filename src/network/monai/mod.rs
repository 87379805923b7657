//! MONAI's networks by their constructors' arguments and defaults (MONAI 1.6), node and weight names as PyTorch's module paths.

mod args;
mod basic_unet;
mod blocks;
mod dynunet;
mod retinanet;
mod segresnet;
mod swin;
mod tokens;
mod unet;
mod unetr;

use super::graph::Graph;
use super::tree::Tree;
use args::Args;
pub(super) use basic_unet::BasicUNet;
pub(super) use dynunet::DynUNet;
pub(super) use retinanet::RetinaNet;
pub(super) use segresnet::SegResNet;
pub(super) use swin::SwinUnetr;
pub(super) use unet::UNet;
pub(super) use unetr::Unetr;

/// The classes that are known, for messages.
const CLASSES: &str = "UNet, BasicUNet, DynUNet, SegResNet, RetinaNet, SwinUNETR and UNETR";

/// The network of a class with these arguments. `window` is the size it will see, for those whose shapes depend on it;
/// `version` that of MONAI that the weights were made with, where it is known.
pub(super) fn build(
    name: &str,
    class: &str,
    arguments: &Tree<'_>,
    window: Option<[usize; 3]>,
    version: Option<(u32, u32)>,
) -> Result<Graph, String> {
    let args = Args::new(arguments);
    let last = class.rsplit('.').next().unwrap_or(class);
    match last.to_ascii_lowercase().as_str() {
        "unet" => UNet::read(&args)?.graph(name),
        "basicunet" => Ok(BasicUNet::read(&args)?.graph(name)),
        "dynunet" => Ok(DynUNet::read(&args)?.graph(name)),
        "segresnet" => SegResNet::read(&args)?.graph(name),
        "retinanet" => Ok(RetinaNet::read(&args)?.graph(name)),
        "swinunetr" => Ok(SwinUnetr::read(&args, window, is_before_1_5(version))?.graph(name)),
        "unetr" => Ok(Unetr::read(&args)?.graph(name)),
        _ => Err(format!(
            "the network is a {class}, which this version does not build ({CLASSES} are built); export it to ONNX with torch.onnx.export and put the file beside the bundle"
        )),
    }
}

/// Whether a version of MONAI merges the tokens of a `SwinUNETR` in another order than later ones, two neighbours twice.
pub(super) fn is_before_1_5(version: Option<(u32, u32)>) -> bool {
    version.is_some_and(|v| v < (1, 5))
}

/// Names that a network of MONAI lists and never reads: the layers of a `DynUNet` once more as nested skips, what some versions
/// gave the blocks of a vision transformer for another use.
pub(super) fn second_name(name: &str) -> bool {
    let cross = name.starts_with("vit.blocks.") && name.contains(".cross_attn.");
    cross || name.starts_with("skip_layers.") || name == "vit.patch_embedding.cls_token"
}
