//! Which fields of a bundle's manifest the bundle says, and which were guessed because a step of it was not understood.

use super::transforms::Around;
use crate::network::about::{Field, Origin, Reason};
use crate::network::manifest::{Intensity, Manifest, Orientation, Output};
use serde_json::Value;

/// A reason for every field. `understood`: every step that touches the image is known.
pub(super) fn of(around: &Around, manifest: &Manifest, understood: bool) -> Vec<Reason> {
    let input = &manifest.input;
    let step = |field, set: bool, told: &str, none: &str| {
        let origin = if set || understood {
            Origin::Told
        } else {
            Origin::Guessed
        };
        let why = match (set, understood) {
            (true, _) => told.to_owned(),
            (false, true) => none.to_owned(),
            (false, false) => format!("{none}; a step that is not understood may"),
        };
        Reason::new(field, origin, why)
    };
    let mut out = vec![
        Reason::new(Field::Axes, Origin::Told, "MONAI's order"),
        step(
            Field::Orientation,
            input.orientation != Orientation::AsStored,
            "its Orientationd",
            "no step that is understood turns the axes",
        ),
        step(
            Field::Spacing,
            input.spacing_mm.is_some(),
            "its Spacingd",
            "no step that is understood resamples",
        ),
        step(
            Field::Intensity,
            input.intensity != Intensity::None,
            "its preprocessing",
            "no step that is understood scales the values",
        ),
        step(
            Field::Padding,
            input.divisible_by.is_some_and(|d| d != [1; 3]),
            "its preprocessing or its network",
            "no step that is understood pads",
        ),
    ];
    out.extend(windows(around));
    out.push(output(around, &manifest.output));
    out
}

fn class(value: &Value) -> &str {
    value
        .get("_target_")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn windows(around: &Around) -> [Reason; 4] {
    let sliding = around.inferer.as_ref().is_some_and(|i| {
        let class = class(i);
        class.ends_with("SlidingWindowInferer") || class.ends_with("SlidingWindowInfererAdapt")
    });
    let (origin, why) = if around.detector.is_some() {
        if super::windows::sets_windows(around) {
            (Origin::Told, "its detector's sliding window")
        } else {
            (Origin::Guessed, "its detector is given no sliding window")
        }
    } else if sliding {
        (Origin::Told, "its inferer")
    } else {
        (Origin::Guessed, "no sliding window is said")
    };
    [Field::Roi, Field::Overlap, Field::Blend, Field::Layout]
        .map(|field| Reason::new(field, origin, why))
}

fn output(around: &Around, output: &Output) -> Reason {
    let (origin, why) = match output {
        Output::Retinanet(_) => (Origin::Told, "its detector"),
        Output::Segmentation(s) if !s.labels.is_empty() => {
            (Origin::Told, "the channels that its metadata name")
        }
        _ if around.metadata.is_some() => (
            Origin::Guessed,
            "a segmentation, as most bundles': its metadata name no channels",
        ),
        _ => (
            Origin::Guessed,
            "a segmentation, as most bundles': it has no metadata",
        ),
    };
    Reason::new(Field::Output, origin, why)
}
