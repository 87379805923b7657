//! How nnU-Net makes a network's input, as a manifest, and what differs from nnU-Net's own program.

use super::plans::DataSet;
use crate::network::about::Translation;
use crate::network::manifest::{
    Axes, BlendMode, Input, Intensity, Manifest, Orientation, Output, OutputRef, Overlap,
    Segmentation, WindowLayout, Windows,
};
use crate::network::tree::Tree;
use serde_json::Value;

/// The manifest of one configuration.
pub(super) fn manifest(
    plans: &Value,
    configuration: &Value,
    data: &DataSet,
) -> Result<Translation, String> {
    let mut notes = Vec::new();
    let root = Tree::root(configuration);
    let axes = axes(plans)?;
    let patch = root.need("patch_size")?;
    let roi_size = axes
        .window(&patch.sizes()?)
        .filter(|_| patch.list().is_ok_and(|axes| axes.len() > 1))
        .ok_or_else(|| patch.wrong("two or three sizes"))?;
    let spacing_mm = spacing(&root, axes, &mut notes)?;
    let manifest = Manifest {
        input: Input {
            axes,
            orientation: orientation(plans)?,
            spacing_mm,
            intensity: intensity(plans, &root, &mut notes)?,
            // nnU-Net pads to the patch and no further.
            divisible_by: Some([1; 3]),
        },
        windows: Windows {
            roi_size,
            overlap: Overlap::All(0.5),
            blend: BlendMode::Gaussian,
            sigma_scale: 0.125,
            layout: WindowLayout::Nnunet,
        },
        output: Output::Segmentation(Segmentation {
            logits: OutputRef::Position(0),
            labels: data.labels.clone(),
        }),
    };
    if data.regions {
        notes.push(
            "its labels are regions, each with a sigmoid of its own: the label mask here takes the best channel of each voxel instead, the logits are as nnU-Net's".to_owned(),
        );
    }
    Ok(Translation { manifest, notes })
}

/// nnU-Net reads z, y, x and may turn the axes so that the coarsest comes first.
fn axes(plans: &Value) -> Result<Axes, String> {
    let Some(forward) = Tree::root(plans).key("transpose_forward") else {
        return Ok(Axes::Zyx);
    };
    match forward.sizes()?.as_slice() {
        [0, 1, 2] => Ok(Axes::Zyx),
        [2, 1, 0] => Ok(Axes::Xyz),
        _ => Err(forward.wrong("[0, 1, 2] or [2, 1, 0] (tensors in the order z, y, x or x, y, z; other orders are not run by this version)")),
    }
}

fn orientation(plans: &Value) -> Result<Orientation, String> {
    let Some(reader) = Tree::root(plans).key("image_reader_writer") else {
        return Ok(Orientation::AsStored);
    };
    Ok(if reader.text()? == "NibabelIOWithReorient" {
        Orientation::Towards(['R', 'A', 'S'])
    } else {
        Orientation::AsStored
    })
}

fn spacing(
    root: &Tree<'_>,
    axes: Axes,
    notes: &mut Vec<String>,
) -> Result<Option<[f64; 3]>, String> {
    let Some(spacing) = root.key("spacing") else {
        return Ok(None);
    };
    let mm = spacing.numbers()?;
    if mm.iter().any(|v| *v <= 0.0) {
        return Err(spacing.wrong("lengths above 0 mm"));
    }
    match mm.as_slice() {
        [a, b, c] => {
            notes.push("nnU-Net scales the intensities first and then resamples with cubic splines (the coarse axis of uneven voxels by nearest); here voxels are resampled linearly, as MONAI's Spacingd does: expect small differences at edges".to_owned());
            Ok(Some(axes.reorder([*a, *b, *c])))
        }
        [a, b] => {
            let (x, y) = if axes == Axes::Zyx { (b, a) } else { (a, b) };
            notes.push(format!("the network is flat: it sees slices at {x} x {y} mm, their distance stays as stored"));
            Ok(None)
        }
        _ => Err(spacing.wrong("two or three lengths")),
    }
}

fn intensity(plans: &Value, root: &Tree<'_>, notes: &mut Vec<String>) -> Result<Intensity, String> {
    let Some(schemes) = root.key("normalization_schemes") else {
        notes.push(
            "the plans do not say how intensities are scaled: they are taken as they are"
                .to_owned(),
        );
        return Ok(Intensity::None);
    };
    let list = schemes.list()?;
    let Some(first) = list.first() else {
        return Err(schemes.wrong("one scheme a channel"));
    };
    let name = first.text()?;
    if list.iter().any(|s| s.value() != first.value()) {
        notes.push(format!("its channels are scaled in different ways ({}); this version prepares one channel, by {name}", crate::network::tree::shown(schemes.value())));
    }
    let masked = root
        .key("use_mask_for_norm")
        .and_then(|m| m.list().ok()?.first()?.flag().ok())
        .unwrap_or(false);
    if masked && name == "ZScoreNormalization" {
        notes.push("nnU-Net takes mean and deviation inside the region around the body that is not zero; here they are taken over all voxels that are not zero".to_owned());
    }
    match name {
        "CTNormalization" => ct(plans),
        "ZScoreNormalization" => Ok(Intensity::ZScoreImage {
            nonzero: masked,
            rescale: None,
        }),
        "RescaleTo01Normalization" => Ok(Intensity::RescaleImage { to: [0.0, 1.0] }),
        "RGBTo01Normalization" => Ok(Intensity::ScaleRange {
            from: [0.0, 255.0],
            to: [0.0, 1.0],
            clip: false,
        }),
        "NoNormalization" => Ok(Intensity::None),
        _ => Err(first.wrong("CTNormalization, ZScoreNormalization, RescaleTo01Normalization, RGBTo01Normalization or NoNormalization; give a manifest of your own with --manifest for others")),
    }
}

/// Clip to the 0.5 and 99.5 percentiles of the foreground, then mean and deviation.
fn ct(plans: &Value) -> Result<Intensity, String> {
    let root = Tree::root(plans);
    let all = match root.key("foreground_intensity_properties_per_channel") {
        Some(all) => all,
        None => root.need("foreground_intensity_properties_by_modality")?,
    };
    let first = all.need("0")?;
    let get = |key: &str| first.need(key)?.number();
    Ok(Intensity::ZScore {
        mean: get("mean")?,
        std: get("std")?.max(1e-8),
        clip: Some([get("percentile_00_5")?, get("percentile_99_5")?]),
    })
}
