//! The parts of a budget that do not depend on whose engine runs: weights, stitched outputs, context, desktop, host.

use super::budget::{BudgetRequest, Display, Mode, Parts, Runtime, StitchOn};
use super::planner::stitches_on_card;
use super::{Part, Precision, Source};
use crate::geometry::Extent;
use crate::network::{Graph, TensorKind};
use crate::units::Bytes;

/// A CUDA context: 300 MiB since lazy loading, up to 500 MiB seen.
pub const CONTEXT: Part = Part::range(Bytes::mib(300), Bytes::mib(500), Source::Guessed);

/// What a screen takes of the card it hangs on.
pub const fn display(display: Display) -> Part {
    match display {
        Display::Headless => Part::range(Bytes::ZERO, Bytes::mib(16), Source::Guessed),
        Display::Desktop => Part::range(Bytes::mib(261), Bytes::mib(1909), Source::Guessed),
        Display::Windows => Part::range(Bytes::mib(1608), Bytes::mib(3047), Source::Guessed),
    }
}

/// Size of a window in the tensor's axis order, as many axes as the network has.
pub(super) fn spatial(request: &BudgetRequest<'_>) -> Vec<usize> {
    tensor_order(request, request.roi_size)
}

fn tensor_order(request: &BudgetRequest<'_>, size: Extent) -> Vec<usize> {
    let mut axes = size.to_array().to_vec();
    axes.truncate(request.graph.spatial_dims);
    if request.axes == crate::network::manifest::Axes::Zyx {
        axes.reverse();
    }
    axes
}

/// Values of all weights, running statistics among them.
pub(super) fn values(graph: &Graph) -> u64 {
    weight_counts(graph).fold(0, u64::saturating_add)
}

fn weight_counts(graph: &Graph) -> impl Iterator<Item = u64> + '_ {
    graph.tensors.iter().filter_map(|t| match &t.kind {
        TensorKind::Weight { shape, .. } => {
            Some(shape.iter().fold(1u64, |n, d| n.saturating_mul(*d as u64)))
        }
        TensorKind::Input { .. } | TensorKind::Activation => None,
    })
}

/// Bytes of each weight, in the order in which they are loaded.
pub(super) fn weight_sizes(graph: &Graph, request: &BudgetRequest<'_>) -> Vec<u64> {
    let each = match request.precision {
        Precision::Fp32 | Precision::Amp => 4,
        Precision::Fp16 | Precision::Bf16 => 2,
    };
    weight_counts(graph)
        .map(|n| n.saturating_mul(each))
        .collect()
}

/// Voxels that an output of this window shape has over the whole volume, and its channels.
fn stitched_size(request: &BudgetRequest<'_>, output: &[usize]) -> (u64, u64) {
    let volume = request.volume.unwrap_or(request.roi_size);
    let volume = tensor_order(request, volume);
    let roi = spatial(request);
    let channels = output.get(1).map_or(1, |c| *c as u64);
    let voxels =
        output
            .iter()
            .skip(2)
            .zip(volume.iter().zip(&roi))
            .fold(1u64, |n, (out, (v, r))| {
                let along = (*v as u64)
                    .saturating_mul(*out as u64)
                    .div_ceil((*r as u64).max(1));
                n.saturating_mul(along)
            });
    (channels, voxels)
}

/// Bytes of all stitched outputs and of their count maps (one per distinct output size), fp32.
pub(super) fn stitched(request: &BudgetRequest<'_>, outputs: &[Vec<usize>]) -> (Bytes, Bytes) {
    let mut scores = 0u64;
    let mut levels: Vec<u64> = Vec::new();
    for output in outputs {
        let (channels, voxels) = stitched_size(request, output);
        scores = scores.saturating_add(channels.saturating_mul(voxels).saturating_mul(4));
        if !levels.contains(&voxels) {
            levels.push(voxels);
        }
    }
    let counts = levels
        .iter()
        .fold(0u64, |n, v| n.saturating_add(v.saturating_mul(4)));
    (Bytes(scores), Bytes(counts))
}

/// Bytes of the Gaussian importance maps that MONAI keeps on the card, one per distinct output size of a window.
pub(super) fn importance(request: &BudgetRequest<'_>, outputs: &[Vec<usize>]) -> Bytes {
    let blends =
        request.gaussian && request.mode == Mode::Inference && request.runtime == Runtime::Pytorch;
    if !blends {
        return Bytes::ZERO;
    }
    let mut sizes: Vec<&[usize]> = outputs.iter().filter_map(|o| o.get(2..)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let voxels = |size: &&[usize]| size.iter().fold(4u64, |n, d| n.saturating_mul(*d as u64));
    Bytes(sizes.iter().map(voxels).fold(0, u64::saturating_add))
}

/// All parts with the engine's own still zero.
pub(super) fn around(request: &BudgetRequest<'_>, outputs: &[Vec<usize>]) -> Parts {
    let none = Part::exact(Bytes::ZERO, Source::Planned);
    let map = importance(request, outputs);
    let (scores, counts) = if stitches_on_card(request) {
        stitched(request, outputs)
    } else {
        (Bytes::ZERO, Bytes::ZERO)
    };
    Parts {
        weights: none,
        gradients: none,
        optimizer: none,
        activations: none,
        workspace: none,
        input: none,
        stitched: Part::exact(scores, Source::Planned),
        count_map: Part::exact(counts, Source::Planned).plus(Part::exact(
            map,
            if map == Bytes::ZERO {
                Source::Planned
            } else {
                Source::Modelled
            },
        )),
        context: CONTEXT,
        display: display(request.display),
        allocator: none,
    }
}

/// The name of the host's part that is there before a run.
pub const LOADED: &str = "loaded volume";

/// What the host holds, by name: loaded and prepared volume, stitched outputs and what they become.
pub fn host(request: &BudgetRequest<'_>, outputs: &[Vec<usize>]) -> Vec<(String, Part)> {
    let volume = request.volume.unwrap_or(request.roi_size);
    let voxels = volume
        .to_array()
        .iter()
        .fold(1u64, |n, d| n.saturating_mul(*d as u64));
    let exact = |n: u64| Part::exact(Bytes(n), Source::Planned);
    let weights = values(request.graph).saturating_mul(4);
    let mut parts = vec![
        ("weights".to_owned(), exact(weights)),
        (
            LOADED.to_owned(),
            Part::range(
                Bytes(voxels.saturating_mul(2)),
                Bytes(voxels.saturating_mul(4)),
                Source::Planned,
            ),
        ),
        (
            "prepared volume".to_owned(),
            exact(voxels.saturating_mul(4)),
        ),
    ];
    if request.mode == Mode::Inference {
        let (scores, counts) = stitched(request, outputs);
        // Stitched on the card they come to the host once, at the end.
        parts.push(("stitched outputs".to_owned(), exact(scores.0)));
        if request.runtime == Runtime::Pytorch {
            let copy = Bytes(scores.0.saturating_mul(2));
            let part = Part::range(Bytes::ZERO, copy, Source::Guessed);
            parts.push(("exported copy, at most as float64".to_owned(), part));
        }
        if request.stitch_on == StitchOn::Host {
            parts.push(("count map".to_owned(), exact(counts.0)));
        }
    }
    parts
}

/// The part of the network that a tensor belongs to, for colours and names in the timeline.
pub(super) fn group(name: &str) -> String {
    const WRAPPERS: [&str; 6] = [
        "feature_extractor",
        "body",
        "model",
        "module",
        "stages",
        "submodule",
    ];
    let plain = name.split('#').next().unwrap_or(name);
    let mut parts = plain
        .split(['.', '/'])
        .filter(|p| !p.is_empty() && !WRAPPERS.contains(p));
    let Some(first) = parts.next() else {
        return plain.to_owned();
    };
    let numbered = [
        "encoder",
        "decoder",
        "down_layers",
        "up_layers",
        "up_samples",
        "upsamples",
        "downsamples",
    ];
    if numbered.contains(&first) {
        let number = parts.find(|p| p.bytes().all(|b| b.is_ascii_digit()));
        if let Some(n) = number {
            return format!("{first} {n}");
        }
    }
    first.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::builder::{Builder, Conv};

    /// Stitched scores and counts of a segmentation with so many classes.
    fn accumulators(classes: usize, volume: Extent, roi: Extent) -> (Bytes, Bytes) {
        let mut b = Builder::new("segments", 3);
        let x = b.input("image", 1);
        let y = b.conv("head", x, Conv::k1(classes));
        b.output(y);
        let graph = b.finish();
        let request = BudgetRequest {
            volume: Some(volume),
            ..BudgetRequest::new(&graph, roi)
        };
        stitched(&request, &[vec![1, classes, roi.x, roi.y, roi.z]])
    }

    /// MONAI#6427: 100 classes on 384x384x256 asked for 14.06 GiB, and 0.14 GiB for the counts.
    #[test]
    fn a_hundred_classes_over_a_whole_volume_take_fourteen_gib_whatever_the_network() {
        let volume = Extent::new(384, 384, 256);
        let (scores, counts) = accumulators(100, volume, Extent::new(96, 96, 96));
        assert_eq!(scores, Bytes(384 * 384 * 256 * 100 * 4));
        assert_eq!(format!("{:.2}", scores.as_gib()), "14.06");
        assert_eq!(format!("{:.2}", counts.as_gib()), "0.14");
    }

    /// `MONAILabel`#1175: 13 channels on 512x512x650 are 8.25 GiB, and a smaller roi did not help.
    #[test]
    fn a_smaller_roi_does_not_shrink_the_stitched_outputs() {
        let volume = Extent::new(512, 512, 650);
        for roi in [[160, 160, 160], [96, 96, 96], [32, 32, 32], [100, 60, 17]] {
            let (scores, _) = accumulators(13, volume, Extent::from(roi));
            assert_eq!(format!("{:.2}", scores.as_gib()), "8.25", "{roi:?}");
        }
    }
}
