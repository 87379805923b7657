//! A bundle's inferer, or its detector's, as the windows of a manifest.

use super::transforms::Around;
use crate::network::manifest::{BlendMode, Overlap, WindowLayout, Windows};
use crate::network::tree::{Tree, shown};
use serde_json::Value;

/// Three sizes of a window, -1 or 0 for a whole axis.
fn roi(v: &Tree<'_>) -> Result<[i64; 3], String> {
    let one = |t: &Tree<'_>| {
        t.value()
            .as_i64()
            .filter(|n| (-1..=65_536).contains(n))
            .ok_or_else(|| t.wrong("sizes from -1 to 65536"))
    };
    if !v.value().is_array() {
        return Ok([one(v)?; 3]);
    }
    let list: Vec<i64> = v.list()?.iter().map(one).collect::<Result<_, _>>()?;
    match list.as_slice() {
        [x, y, z] => Ok([*x, *y, *z]),
        [x, y] => Ok([*x, *y, 1]),
        _ => Err(v.wrong("three sizes")),
    }
}

/// What a sliding window inferer or the detector's setter says, with MONAI's defaults.
fn sliding(t: &Tree<'_>, overlap: f64, notes: &mut Vec<String>) -> Result<Windows, String> {
    let size = t
        .argument("roi_size", 0)
        .map_or_else(|| t.need("roi_size"), Ok)?;
    let blend = match t.argument("mode", 3) {
        None => BlendMode::Constant,
        Some(mode) => match mode.text()? {
            "constant" => BlendMode::Constant,
            "gaussian" => BlendMode::Gaussian,
            _ => return Err(mode.wrong("constant or gaussian")),
        },
    };
    let overlap = match t.argument("overlap", 2) {
        None => Overlap::All(overlap),
        Some(o) if o.value().is_array() => match o.numbers()?.as_slice() {
            [x, y, z] => Overlap::PerAxis([*x, *y, *z]),
            // A flat network's windows are one slice.
            [x, y] => Overlap::PerAxis([*x, *y, 0.0]),
            _ => return Err(o.wrong("one to three shares")),
        },
        Some(o) => Overlap::All(o.number()?),
    };
    Ok(Windows {
        roi_size: roi(&size)?,
        overlap,
        blend,
        sigma_scale: t
            .argument("sigma_scale", 4)
            .map_or(Ok(0.125), |s| sigma(&s, notes))?,
        layout: WindowLayout::Monai,
    })
}

/// The width of the Gaussian: one for all axes; of several the first, which is said where they differ.
fn sigma(given: &Tree<'_>, notes: &mut Vec<String>) -> Result<f64, String> {
    if !given.value().is_array() {
        return given.number();
    }
    let all = given.numbers()?;
    let first = *all
        .first()
        .ok_or_else(|| given.wrong("one to three shares"))?;
    if all.iter().any(|s| *s != first) {
        notes.push(format!("the bundle's Gaussian has another width along each axis ({}); here sigma_scale is {first} along all", shown(given.value())));
    }
    Ok(first)
}

/// What the inferer says, or windows in place of one that lays none.
pub(super) fn windows(
    inferer: &Value,
    metadata: Option<&Value>,
    notes: &mut Vec<String>,
) -> Result<Windows, String> {
    let t = Tree::new(inferer, "inferer");
    let class = t
        .key("_target_")
        .and_then(|c| c.text().ok())
        .unwrap_or_default();
    if class.ends_with("SlidingWindowInferer") || class.ends_with("SlidingWindowInfererAdapt") {
        let windows = sliding(&t, 0.25, notes)?;
        if t.key("padding_mode")
            .is_some_and(|p| p.value() != "constant")
            || t.key("cval").is_some_and(|c| c.number() != Ok(0.0))
        {
            notes.push("the inferer pads volumes smaller than a window by a rule of its own; here with zeros".to_owned());
        }
        return Ok(windows);
    }
    let shape = metadata
        .map(Tree::root)
        .and_then(|m| m.key("network_data_format")?.key("inputs")?.key("image"))
        .and_then(|i| roi(&i.key("spatial_shape")?).ok());
    let does = if class.ends_with("SimpleInferer") {
        "runs the network over the whole volume at once"
    } else {
        "is not known to this version"
    };
    notes.push(format!(
        "the inferer {class} {does}; windows of {} are proposed in its place",
        shape.map_or_else(|| "the whole volume".to_owned(), |s| format!("{s:?}"))
    ));
    Ok(Windows {
        roi_size: shape.unwrap_or([0; 3]),
        ..Windows::default()
    })
}

/// The detector's calls by name.
pub(super) fn call<'a>(around: &'a Around, name: &str) -> Option<Tree<'a>> {
    let named = |v: &&Value| {
        v.get("_target_")
            .and_then(Value::as_str)
            .is_some_and(|t| t.ends_with(name))
    };
    around
        .detector_calls
        .iter()
        .rev()
        .find(named)
        .map(|v| Tree::new(v, "detector"))
}

/// What the detector's inferer says.
pub(super) fn detector_windows(
    around: &Around,
    notes: &mut Vec<String>,
) -> Result<Windows, String> {
    if let Some(setter) = call(around, "set_sliding_window_inferer") {
        return sliding(&setter, 0.5, notes);
    }
    notes.push("the detector is given no sliding window: the whole volume is one window until --roi-size says otherwise".to_owned());
    Ok(Windows {
        roi_size: [0; 3],
        overlap: Overlap::All(0.5),
        ..Windows::default()
    })
}

/// Whether the detector is told how to lay windows.
pub(super) fn sets_windows(around: &Around) -> bool {
    call(around, "set_sliding_window_inferer").is_some()
}
