//! A manifest for a network that has none: what its shapes and names say, with the reason for each guess.

use super::about::{Field, Origin, Reason};
use super::facts::{self, Facts};
use super::graph::Graph;
use super::manifest::{
    Axes, BlendMode, Input, Manifest, Output, OutputRef, Overlap, Segmentation, WindowLayout,
    Windows,
};
use super::shapes;

/// A manifest with a reason for every field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proposal {
    pub(super) manifest: Manifest,
    pub(super) reasons: Vec<Reason>,
}

/// The reasons so far.
#[derive(Default)]
struct Reasons(Vec<Reason>);

impl Reasons {
    fn guess(&mut self, field: Field, why: impl Into<String>) {
        self.0.push(Reason::new(field, Origin::Guessed, why));
    }

    fn told(&mut self, field: Field, why: impl Into<String>) {
        self.0.push(Reason::new(field, Origin::Told, why));
    }
}

/// The proposal for a graph. `fixed` is the spatial size that its file was exported at, in the tensor's order.
pub(super) fn of(graph: &Graph, fixed: Option<&[usize]>) -> Proposal {
    let mut reasons = Reasons::default();
    let from_nnunet = graph.nodes.iter().any(|n| {
        [
            "encoder/stages",
            "encoder.stages",
            "decoder/transpconvs",
            "decoder.transpconvs",
        ]
        .iter()
        .any(|part| n.name.contains(part))
    });
    let axes = axes(from_nnunet, fixed, &mut reasons);
    reasons.guess(
        Field::Orientation,
        "the file does not say how its training volumes lay",
    );
    reasons.guess(
        Field::Spacing,
        "the file does not say what its training volumes were resampled to",
    );
    reasons.guess(
        Field::Intensity,
        "the file does not say what it was trained on; CT networks nearly always want HU scaled (scale-range or z-score)",
    );
    reasons.told(Field::Padding, "the total stride of its layers");
    let windows = windows(graph, axes, from_nnunet, fixed, &mut reasons);
    let output = output(graph, &mut reasons);
    let manifest = Manifest {
        input: Input {
            axes,
            ..Input::default()
        },
        windows,
        output,
    };
    Proposal {
        manifest,
        reasons: reasons.0,
    }
}

fn axes(from_nnunet: bool, fixed: Option<&[usize]>, reasons: &mut Reasons) -> Axes {
    let (axes, why) = match fixed {
        _ if from_nnunet => (Axes::Zyx, "its layers are named as nnU-Net's".to_owned()),
        Some([a, b, c]) if b == c && a < b => (
            Axes::Zyx,
            format!("its size {a} x {b} x {c} has the odd one first, as slices are"),
        ),
        Some([a, b, c]) if a == b && c < b => (
            Axes::Xyz,
            format!("its size {a} x {b} x {c} has the odd one last, as slices are"),
        ),
        _ => (
            Axes::Xyz,
            "MONAI's order, for nothing says otherwise; nnU-Net's is zyx".to_owned(),
        ),
    };
    reasons.guess(Field::Axes, why);
    axes
}

fn windows(
    graph: &Graph,
    axes: Axes,
    from_nnunet: bool,
    fixed: Option<&[usize]>,
    reasons: &mut Reasons,
) -> Windows {
    let roi = if let Some(roi) = fixed.and_then(|sizes| axes.window(sizes)) {
        reasons.told(Field::Roi, "the size that the file was exported at");
        roi
    } else {
        let stride = facts::total_stride(graph).unwrap_or_default();
        let size = |axis: usize| {
            let s = stride.get(axis).copied().unwrap_or(1).max(1);
            128usize.next_multiple_of(s)
        };
        reasons.guess(
            Field::Roi,
            "128 voxels or the next multiple of the total stride: the file leaves its size open",
        );
        let sizes: Vec<usize> = (0..graph.spatial_dims).map(size).collect();
        axes.window(&sizes).unwrap_or([128; 3])
    };
    let (overlap, blend, layout, whose) = if from_nnunet {
        (
            0.5,
            BlendMode::Gaussian,
            WindowLayout::Nnunet,
            "the default of nnU-Net",
        )
    } else {
        (
            0.25,
            BlendMode::Constant,
            WindowLayout::Monai,
            "the default of MONAI's sliding window",
        )
    };
    for field in [Field::Overlap, Field::Blend, Field::Layout] {
        reasons.guess(field, whose);
    }
    Windows {
        roi_size: roi,
        overlap: Overlap::All(overlap),
        blend,
        layout,
        ..Windows::default()
    }
}

/// Channels and strides of the outputs: at twice the total stride (channels do not depend on the size).
fn heads(graph: &Graph) -> Option<(Vec<usize>, Facts)> {
    let facts = facts::of(graph).ok()?;
    let roi: Vec<usize> = facts.total_stride.iter().map(|s| s * 2).collect();
    let shapes = shapes::infer(graph, &roi, 1).ok()?;
    let channels = graph
        .outputs
        .iter()
        .map(|id| shapes.get(id.index()).and_then(|s| s.get(1)).copied())
        .collect::<Option<Vec<_>>>()?;
    Some((channels, facts))
}

fn output(graph: &Graph, reasons: &mut Reasons) -> Output {
    let Some((channels, facts)) = heads(graph) else {
        reasons.guess(
            Field::Output,
            "their shapes are known at one size only, so they are kept as they are",
        );
        return Output::None;
    };
    let full = |i: usize| {
        facts
            .output_strides
            .get(i)
            .is_some_and(|s| s.iter().all(|n| *n == 1))
    };
    let n = channels.len();
    if let [classes] = channels.as_slice()
        && full(0)
    {
        reasons.guess(Field::Output, format!("the one output is as large as the input and has {classes} channel(s), as a segmentation's; name its labels"));
        let labels = match classes {
            1 => vec!["background".to_owned(), "class 1".to_owned()],
            _ => (0..*classes)
                .map(|c| match c {
                    0 => "background".to_owned(),
                    c => format!("class {c}"),
                })
                .collect(),
        };
        return Output::Segmentation(Segmentation {
            logits: OutputRef::Position(0),
            labels,
        });
    }
    let (first, second) = channels.split_at(n / 2);
    let sides = 2 * graph.spatial_dims;
    let boxes = n >= 2
        && n.is_multiple_of(2)
        && first.iter().all(|c| Some(c) == first.first())
        && second
            .iter()
            .all(|c| Some(c) == second.first() && c.is_multiple_of(sides));
    reasons.guess(Field::Output, if boxes {
        format!("they look like a RetinaNet's heads on {} levels, but anchors are not in the file: write [output] kind = \"retinanet\" with its anchors", n / 2)
    } else {
        format!("{n} outputs of {channels:?} channels are no kind that is known")
    });
    Output::None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::builder::{Builder, Conv};
    use crate::network::preset;

    #[test]
    fn a_flat_network_gets_windows_of_one_slice() {
        let mut b = Builder::new("flat", 2);
        let x = b.input("image", 1);
        let y = b.conv("conv", x, Conv::new(2, &[3, 3]));
        b.output(y);
        let graph = b.finish();
        let exported = of(&graph, Some(&[64, 96]));
        assert_eq!(exported.manifest.windows.roi_size, [64, 96, 1]);
        let roi = exported.reasons.iter().find(|r| r.field == Field::Roi);
        assert!(roi.unwrap().why.contains("exported at"));
        assert_eq!(of(&graph, None).manifest.windows.roi_size, [128, 128, 1]);
    }

    #[test]
    fn a_segmentation_network_and_a_detector_get_the_outputs_that_their_heads_show() {
        let of_preset = |name: &str, fixed: Option<Vec<usize>>| {
            let graph = preset::load(name).unwrap().graph;
            let t = of(&graph, fixed.as_deref());
            let fields: Vec<Field> = t.reasons.iter().map(|r| r.field).collect();
            assert_eq!(fields, Field::ALL, "each field has its reason");
            let whys: Vec<&str> = t.reasons.iter().map(|r| r.why.as_str()).collect();
            (t.manifest, whys.join("\n"))
        };
        let (m, notes) = of_preset("nnunet-3d-6stage", Some(vec![64, 128, 128]));
        assert_eq!(m.input.axes, Axes::Zyx);
        assert_eq!(m.windows.roi_size, [128, 128, 64]);
        assert_eq!(m.windows.layout, WindowLayout::Nnunet);
        assert!(matches!(&m.output, Output::Segmentation(s) if s.labels.len() == 3));
        assert!(notes.contains("nnU-Net's"), "{notes}");
        let (m, notes) = of_preset("monai_basicunet_default", None);
        assert_eq!((m.input.axes, m.windows.roi_size), (Axes::Xyz, [128; 3]));
        assert!(notes.contains("scale-range"), "{notes}");
        let (m, notes) = of_preset("monai-lung-nodule", Some(vec![192, 192, 80]));
        assert_eq!(m.output, Output::None);
        assert!(notes.contains("RetinaNet's heads on 3 levels"), "{notes}");
        assert_eq!(m.windows.roi_size, [192, 192, 80]);
    }
}
