//! A bundle's preprocessing, inferer and detector, as a manifest. What has no place in one is listed in words.

use super::values::{UNKNOWN, is_unknown, truth};
use super::windows::{call, detector_windows, windows};
use crate::network::about::Translation;
use crate::network::manifest::{
    Anchors, BoxSelector, Input, Intensity, Manifest, Orientation, Output, OutputRef, Retinanet,
    Segmentation, Windows,
};
use crate::network::tree::{Tree, shown};
use serde_json::Value;

/// What a bundle says around its network.
#[derive(Debug, Default)]
pub(super) struct Around {
    /// Transforms of the image, in order.
    pub(super) transforms: Vec<Value>,
    pub(super) inferer: Option<Value>,
    pub(super) detector: Option<Value>,
    /// Calls on the detector after it was made.
    pub(super) detector_calls: Vec<Value>,
    /// The network's own arguments.
    pub(super) network: Option<Value>,
    /// Transforms of the result.
    pub(super) after: Vec<Value>,
    pub(super) metadata: Option<Value>,
    /// Outputs of the network.
    pub(super) outputs: usize,
}

/// A manifest from what a bundle says, and whether all that happens to the image was understood.
pub(super) fn translate(around: &Around) -> Result<(Translation, bool), String> {
    let mut work = Work::default();
    for value in &around.transforms {
        work.transform(value)?;
    }
    if around.transforms.is_empty() {
        work.notes.push("the bundle does not say, in words that are read here, how a volume is prepared: nothing is done to it".to_owned());
        work.understood = false;
    }
    let mut manifest = Manifest {
        input: work.input,
        windows: Windows {
            roi_size: [0; 3],
            ..Windows::default()
        },
        output: Output::None,
    };
    let mut notes = work.notes;
    match (&around.detector, &around.inferer) {
        (Some(_), _) => manifest.windows = detector_windows(around, &mut notes)?,
        (None, Some(inferer)) => {
            manifest.windows = windows(inferer, around.metadata.as_ref(), &mut notes)?;
        }
        (None, None) => notes.push("the bundle does not say how windows are laid: the whole volume is one window until --roi-size says otherwise".to_owned()),
    }
    manifest.input.divisible_by = Some(work.divisible.unwrap_or([1; 3]));
    if let Some(network) = &around.network
        && let Some(d) = Tree::root(network).key("size_divisible")
        && let [x, y, z] = d.sizes_of(3)?.as_slice()
    {
        manifest.input.divisible_by = Some([*x, *y, *z]);
    }
    manifest.output = if around.detector.is_some() {
        boxes(around, &mut notes)?
    } else if around.outputs > 1 {
        notes.push(format!("outputs: kept as they are, for the network has {} and the bundle has no RetinaNetDetector that says what they are", around.outputs));
        Output::None
    } else {
        Output::Segmentation(Segmentation {
            logits: OutputRef::Position(0),
            labels: channel_names(around.metadata.as_ref()),
        })
    };
    said_of_results(&around.after, &mut notes);
    manifest.check()?;
    Ok((Translation { manifest, notes }, work.understood))
}

struct Work {
    input: Input,
    notes: Vec<String>,
    divisible: Option<[usize; 3]>,
    /// The key of the image, once it was loaded.
    image: Option<String>,
    understood: bool,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            input: Input::default(),
            notes: Vec::new(),
            divisible: None,
            image: None,
            understood: true,
        }
    }
}

/// A class without its module and without the `d`, `D` or `Dict` of its dictionary form.
fn plain_name(class: &str) -> &str {
    // These end in a d of their own.
    const OWN_D: [&str; 4] = ["DivisiblePad", "SpatialPad", "BorderPad", "CropForeground"];
    let last = class.rsplit('.').next().unwrap_or(class);
    if OWN_D.contains(&last) {
        return last;
    }
    last.strip_suffix("Dict")
        .or_else(|| last.strip_suffix('D'))
        .or_else(|| last.strip_suffix('d'))
        .unwrap_or(last)
}

impl Work {
    fn transform(&mut self, value: &Value) -> Result<(), String> {
        let t = Tree::new(value, "preprocessing");
        if is_unknown(value) {
            let text = value.get(UNKNOWN).map_or_else(String::new, shown);
            self.notes.push(format!(
                "a step of the preprocessing is an expression that is not executed: {text}"
            ));
            self.understood = false;
            return Ok(());
        }
        let disabled = t.key("_disabled_");
        if disabled.as_ref().is_some_and(is_disabled) {
            return Ok(());
        }
        let class = t.need("_target_")?.text()?;
        let t = Tree::new(value, class.rsplit('.').next().unwrap_or(class));
        if !self.concerns_image(&t) {
            return Ok(());
        }
        if disabled.is_some_and(|d| truth(d.value()).is_none()) {
            let step = t.at();
            self.notes.push(format!("whether the step {step} of the preprocessing is used depends on an expression that is not executed; it is used here"));
            self.understood = false;
        }
        if t.has_places() {
            let what = format!("{} with arguments given by their place", t.at());
            self.unknown(&what);
            return Ok(());
        }
        match plain_name(class) {
            "Compose" => {
                for inner in t.need("transforms")?.list()? {
                    self.transform(inner.value())?;
                }
                Ok(())
            }
            "LoadImage" | "EnsureChannelFirst" | "AddChannel" | "AsChannelFirst" | "EnsureType"
            | "ToTensor" | "CastToType" | "ToDevice" | "SelectItems" | "Identity" | "CopyItems"
            | "DeleteItems" | "SqueezeDim" => Ok(()),
            "Orientation" => self.orientation(&t),
            "Spacing" => self.spacing(&t),
            "ScaleIntensityRange" => self.range(&t),
            "NormalizeIntensity" => self.normalize(&t),
            "ScaleIntensity" => self.scale(&t),
            "DivisiblePad" => self.divisible(&t),
            "CropForeground" => {
                self.notes.push("CropForegroundd cuts the volume to its foreground; here windows run over all of it".to_owned());
                Ok(())
            }
            "SpatialPad" | "BorderPad" => {
                self.notes.push(format!("{class} pads the volume; here windows reach past its border as the inferer lets them"));
                Ok(())
            }
            _ => {
                let what = t.at().to_owned();
                self.unknown(&what);
                Ok(())
            }
        }
    }

    fn unknown(&mut self, what: &str) {
        self.notes.push(format!(
            "the step {what} of the preprocessing is not known to this version and is left out"
        ));
        self.understood = false;
    }

    /// Whether a transform touches the image; the first loaded key is the image's.
    fn concerns_image(&mut self, t: &Tree<'_>) -> bool {
        let keys: Vec<String> = match t.key("keys").map(|k| k.value().clone()) {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(list)) => list
                .iter()
                .filter_map(|k| k.as_str().map(str::to_owned))
                .collect(),
            _ => return true,
        };
        let image = self
            .image
            .get_or_insert_with(|| keys.first().cloned().unwrap_or_default());
        keys.is_empty() || keys.contains(image)
    }

    fn orientation(&mut self, t: &Tree<'_>) -> Result<(), String> {
        if let Some([x, y, z]) = self.input.spacing_mm {
            let same = x == y && y == z;
            self.notes.push(if same {
                "the bundle resamples before it turns the axes; here they are turned first, which moves voxels by less than one where an axis is reversed".to_owned()
            } else {
                "the bundle resamples along the axes as stored and turns them after it; here they are turned first and spacing_mm is taken along the turned axes, which is another spacing where axes change places".to_owned()
            });
            self.understood &= same;
        }
        let codes = t.need("axcodes")?;
        let text = match codes.value() {
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<String>(),
            _ => codes.text()?.to_owned(),
        };
        self.input.orientation =
            Orientation::try_from(text).map_err(|e| format!("\"{}\": {e}", codes.at()))?;
        Ok(())
    }

    fn spacing(&mut self, t: &Tree<'_>) -> Result<(), String> {
        let given = t.need("pixdim")?;
        let mut mm = if given.value().is_array() {
            given.numbers()?
        } else {
            vec![given.number()?]
        };
        // MONAI repeats the last one for axes that are not said.
        while let (true, Some(last)) = (mm.len() < 3, mm.last().copied()) {
            mm.push(last);
        }
        let [x, y, z] = mm.as_slice() else {
            return Err(given.wrong("one to three lengths in mm"));
        };
        if [x, y, z].iter().any(|v| **v <= 0.0) {
            self.notes.push(format!("Spacingd keeps the spacing of some axes and resamples others ({}); this version resamples all or none: the volume stays as stored", shown(given.value())));
            self.understood = false;
            return Ok(());
        }
        if !matches!(self.input.intensity, Intensity::None) {
            self.notes.push("the bundle scales intensities before it resamples; here they are scaled after it, which differs where values are clipped".to_owned());
        }
        let mode = t.key("mode").map(|m| m.value().clone());
        let first = match &mode {
            Some(Value::Array(list)) => list.first().cloned(),
            other => other.clone(),
        };
        if first
            .as_ref()
            .and_then(Value::as_str)
            .is_some_and(|m| m != "bilinear")
        {
            self.notes.push(format!(
                "Spacingd interpolates by {}; here linearly",
                first.as_ref().map_or_else(String::new, shown)
            ));
        }
        self.input.spacing_mm = Some([*x, *y, *z]);
        Ok(())
    }

    fn range(&mut self, t: &Tree<'_>) -> Result<(), String> {
        if !self.first_intensity(t) {
            return Ok(());
        }
        let get = |key: &str| t.need(key)?.number();
        let or = |key: &str, or: f64| t.key(key).map_or(Ok(or), |v| v.number());
        self.input.intensity = Intensity::ScaleRange {
            from: [get("a_min")?, get("a_max")?],
            to: [or("b_min", 0.0)?, or("b_max", 1.0)?],
            clip: t.key("clip").map_or(Ok(false), |c| c.flag())?,
        };
        Ok(())
    }

    fn normalize(&mut self, t: &Tree<'_>) -> Result<(), String> {
        if !self.first_intensity(t) {
            return Ok(());
        }
        let nonzero = t.key("nonzero").map_or(Ok(false), |c| c.flag())?;
        let one = |key: &str| {
            t.key(key).map(|v| match v.value() {
                Value::Array(list) if list.len() == 1 => list
                    .first()
                    .and_then(Value::as_f64)
                    .ok_or_else(|| v.wrong("a number")),
                _ => v.number(),
            })
        };
        self.input.intensity = match (one("subtrahend"), one("divisor")) {
            (None, None) => Intensity::ZScoreImage {
                nonzero,
                rescale: None,
            },
            (Some(mean), Some(std)) if !nonzero => Intensity::ZScore {
                mean: mean?,
                // As MONAI divides by it.
                std: match std? {
                    0.0 => 1.0,
                    std => std,
                },
                clip: None,
            },
            // MONAI takes the number that is not given from the volume, and spares zeros.
            _ => {
                self.unknown("NormalizeIntensityd with one number of its own, or over voxels that are not zero");
                Intensity::None
            }
        };
        Ok(())
    }

    fn scale(&mut self, t: &Tree<'_>) -> Result<(), String> {
        let or = |key: &str, or: f64| t.key(key).map_or(Ok(or), |v| v.number());
        let to = [or("minv", 0.0)?, or("maxv", 1.0)?];
        let null = |key: &str| t.value().get(key).is_some_and(Value::is_null);
        if t.key("factor").is_some() || null("minv") || null("maxv") {
            self.unknown("ScaleIntensityd by a factor");
            return Ok(());
        }
        self.input.intensity = match self.input.intensity {
            // The ends of a range stay its ends.
            Intensity::None => Intensity::RescaleImage { to },
            Intensity::ZScoreImage { nonzero, .. } => Intensity::ZScoreImage {
                nonzero,
                rescale: Some(to),
            },
            same => {
                self.unknown("ScaleIntensityd after another scaling");
                same
            }
        };
        Ok(())
    }

    fn divisible(&mut self, t: &Tree<'_>) -> Result<(), String> {
        if let [x, y, z] = t.need("k")?.sizes_of(3)?.as_slice() {
            self.divisible = Some([*x, *y, *z].map(|n| n.max(1)));
        }
        self.notes
            .push("DivisiblePadd pads on both sides; here zeros stand at the end".to_owned());
        Ok(())
    }

    /// Whether intensities were not scaled before; a second scaling is listed.
    fn first_intensity(&mut self, t: &Tree<'_>) -> bool {
        let first = matches!(self.input.intensity, Intensity::None);
        if !first {
            let what = format!("{} after another scaling", t.at());
            self.unknown(&what);
        }
        first
    }
}

/// Whether MONAI leaves a step out.
fn is_disabled(given: &Tree<'_>) -> bool {
    match given.value() {
        Value::String(text) => text.trim().eq_ignore_ascii_case("true"),
        other => truth(other) == Some(true),
    }
}

fn boxes(around: &Around, notes: &mut Vec<String>) -> Result<Output, String> {
    let detector = around.detector.as_ref().map(|d| Tree::new(d, "detector"));
    let generator = detector
        .and_then(|d| d.argument("anchor_generator", 1))
        .ok_or("the detector has no anchor_generator")?;
    let class = generator.need("_target_")?;
    if !class.text()?.ends_with("AnchorGeneratorWithAnchorShape") {
        return Err(
            class.wrong("AnchorGeneratorWithAnchorShape (others are not read by this version)")
        );
    }
    let shapes = match generator.argument("base_anchor_shapes", 1) {
        Some(list) => list
            .list()?
            .iter()
            .map(|s| match s.numbers()?.as_slice() {
                [x, y, z] => Ok([*x, *y, *z]),
                _ => Err(s.wrong("three lengths in voxels")),
            })
            .collect::<Result<Vec<_>, String>>()?,
        None => vec![
            [32.0; 3],
            [48.0, 20.0, 20.0],
            [20.0, 48.0, 20.0],
            [20.0, 20.0, 48.0],
        ],
    };
    let scales = match generator.argument("feature_map_scales", 0) {
        Some(list) => list.numbers()?,
        None => vec![1.0, 2.0, 4.0, 8.0],
    };
    let levels = around.outputs / 2;
    let setter = call(around, "set_box_selector_parameters");
    let network = around.network.as_ref().map(Tree::root);
    let classes = network
        .and_then(|n| n.key("num_classes")?.size().ok())
        .unwrap_or(1);
    let mut labels = channel_names(around.metadata.as_ref());
    if labels.len() != classes {
        labels = (0..classes).map(|i| format!("class {i}")).collect();
        notes.push(
            "the bundle does not name the classes of its boxes; they are numbered".to_owned(),
        );
    }
    Ok(Output::Retinanet(Retinanet {
        class_logits: (0..levels).map(OutputRef::Position).collect(),
        box_regression: (levels..2 * levels).map(OutputRef::Position).collect(),
        labels,
        anchors: Anchors {
            base_shapes: shapes,
            level_scales: scales.into_iter().take(levels.max(1)).collect(),
        },
        box_selector: selector(setter.as_ref())?,
    }))
}

/// What the detector's setter says of the boxes that are kept, with MONAI's defaults.
fn selector(setter: Option<&Tree<'_>>) -> Result<BoxSelector, String> {
    let or = BoxSelector::default();
    let given = |key: &str, place: usize| setter.and_then(|s| s.argument(key, place));
    let number = |v: Option<Tree<'_>>, or: f64| v.map_or(Ok(or), |v| v.number());
    let count = |v: Option<Tree<'_>>, or: usize| v.map_or(Ok(or), |v| v.size());
    if let Some(sigmoid) = given("apply_sigmoid", 4)
        && !sigmoid.flag()?
    {
        return Err(sigmoid.wrong("true (scores without a sigmoid are not read by this version)"));
    }
    Ok(BoxSelector {
        score_thresh: number(given("score_thresh", 0), or.score_thresh)?,
        topk_candidates_per_level: count(
            given("topk_candidates_per_level", 1),
            or.topk_candidates_per_level,
        )?,
        nms_thresh: number(given("nms_thresh", 2), or.nms_thresh)?,
        detections_per_img: count(given("detections_per_img", 3), or.detections_per_img)?,
    })
}

/// Names of the output's channels, from `metadata.json`.
fn channel_names(metadata: Option<&Value>) -> Vec<String> {
    let names = metadata.map(Tree::root).and_then(|m| {
        m.key("network_data_format")?
            .key("outputs")?
            .key("pred")?
            .key("channel_def")
    });
    let Some(Ok(entries)) = names.map(|n| n.entries()) else {
        return Vec::new();
    };
    let mut named: Vec<(usize, String)> = entries
        .into_iter()
        .filter_map(|(k, v)| Some((k.parse().ok()?, v.text().ok()?.to_owned())))
        .collect();
    named.sort();
    named.into_iter().map(|(_, name)| name).collect()
}

fn said_of_results(after: &[Value], notes: &mut Vec<String>) {
    let of = |name: &str| {
        after.iter().find(|v| {
            let class = v
                .get("_target_")
                .and_then(Value::as_str)
                .unwrap_or_default();
            plain_name(class) == name
        })
    };
    let sigmoid = of("Activations").is_some_and(|v| v.get("sigmoid") == Some(&Value::Bool(true)));
    if sigmoid {
        notes.push("the bundle takes a sigmoid of each channel, so a voxel may have several labels: the label mask here takes the best channel, the logits are as the bundle's".to_owned());
    }
}
