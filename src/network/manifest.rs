//! The manifest: how a volume becomes the network's input, and its outputs become findings.
//! Every triple is x, y, z (columns, rows, slices), whatever the order of the tensor's axes.

use super::error::NetworkError;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The whole manifest, as `<name>.voxfit.toml` writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Manifest {
    /// How a volume becomes the input.
    pub input: Input,
    /// The windows its makers used.
    pub windows: Windows,
    /// What the outputs mean.
    pub output: Output,
}

/// How a volume becomes the input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Order of the tensor's spatial axes.
    pub axes: Axes,
    /// Directions in which indices grow.
    pub orientation: Orientation,
    /// Spacing that the volume is resampled to, in mm; as stored when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spacing_mm: Option<[f64; 3]>,
    /// What is done to the HU.
    pub intensity: Intensity,
    /// The volume is padded with zeros at the end to multiples of this; the total stride when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divisible_by: Option<[usize; 3]>,
}

/// Order of the tensor's spatial axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Axes {
    /// Columns, rows, slices (MONAI).
    #[default]
    Xyz,
    /// Slices, rows, columns (nnU-Net).
    Zyx,
}

impl Axes {
    /// Turns values in x, y, z order into the tensor's order, or back.
    pub fn reorder<T>(self, [a, b, c]: [T; 3]) -> [T; 3] {
        match self {
            Self::Xyz => [a, b, c],
            Self::Zyx => [c, b, a],
        }
    }

    /// The window x, y, z of these sizes in the tensor's order; a flat network's is one slice. None for other counts of axes.
    pub(super) fn window(self, sizes: &[usize]) -> Option<[i64; 3]> {
        let wide = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        match *sizes {
            [a, b, c] => Some(self.reorder([a, b, c]).map(wide)),
            [a, b] => Some(match self {
                Self::Xyz => [wide(a), wide(b), 1],
                Self::Zyx => [wide(b), wide(a), 1],
            }),
            [a] => Some([wide(a), 1, 1]),
            _ => None,
        }
    }

    /// As the manifest spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Xyz => "xyz",
            Self::Zyx => "zyx",
        }
    }
}

/// Directions in which the indices of the prepared volume grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Orientation {
    /// The volume's own.
    #[default]
    AsStored,
    /// One letter of R/L, A/P, S/I each for x, y and z, in any order: the direction in which that index grows.
    Towards([char; 3]),
}

impl TryFrom<String> for Orientation {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "as-stored" {
            return Ok(Self::AsStored);
        }
        let letters: Vec<char> = text.chars().collect();
        let axis_of = |c: &char| ["RL", "AP", "SI"].iter().position(|pair| pair.contains(*c));
        let mut seen: Vec<_> = letters.iter().filter_map(axis_of).collect();
        seen.sort_unstable();
        match letters.as_slice() {
            [a, b, c] if seen == [0, 1, 2] => Ok(Self::Towards([*a, *b, *c])),
            _ => Err(format!(
                "orientation is \"as-stored\" or three letters, one each of R or L, A or P, S or I, such as \"RAS\"; found \"{text}\""
            )),
        }
    }
}

impl From<Orientation> for String {
    fn from(o: Orientation) -> Self {
        match o {
            Orientation::AsStored => "as-stored".to_owned(),
            Orientation::Towards(letters) => letters.iter().collect(),
        }
    }
}

/// What is done to the HU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Intensity {
    /// Nothing: the network reads HU.
    #[default]
    None,
    /// A range becomes another, linearly.
    ScaleRange {
        /// HU at the ends of the range.
        from: [f64; 2],
        /// What they become.
        to: [f64; 2],
        /// Whether values outside stop at the ends.
        #[serde(default)]
        clip: bool,
    },
    /// (HU - mean) / std, after clipping.
    ZScore {
        /// Mean HU of the training data.
        mean: f64,
        /// Their standard deviation.
        std: f64,
        /// HU are first held between these.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clip: Option<[f64; 2]>,
    },
    /// (value - mean) / std with the mean and the standard deviation of the volume itself.
    ZScoreImage {
        /// Over voxels that are not zero, which stay zero.
        #[serde(default)]
        nonzero: bool,
        /// The least and the largest then become the ends of this range.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rescale: Option<[f64; 2]>,
    },
    /// The volume's own least and largest values become the ends of a range.
    RescaleImage {
        /// What they become.
        to: [f64; 2],
    },
}

/// The windows that the network's makers used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Windows {
    /// Size of one window; 0 or -1 means the whole axis.
    pub roi_size: [i64; 3],
    /// Share of the roi that neighbours have in common.
    pub overlap: Overlap,
    /// How windows are blended.
    pub blend: BlendMode,
    /// Width of the Gaussian as a share of the roi.
    pub sigma_scale: f64,
    /// Whose rules place the windows.
    pub layout: WindowLayout,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            roi_size: [128; 3],
            overlap: Overlap::All(0.25),
            blend: BlendMode::Constant,
            sigma_scale: 0.125,
            layout: WindowLayout::Monai,
        }
    }
}

/// An overlap for all axes or one for each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Overlap {
    /// The same along every axis.
    All(f64),
    /// x, y, z.
    PerAxis([f64; 3]),
}

impl Overlap {
    /// x, y, z.
    pub const fn per_axis(self) -> [f64; 3] {
        match self {
            Self::All(o) => [o; 3],
            Self::PerAxis(o) => o,
        }
    }
}

/// How windows are blended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlendMode {
    /// Every voxel of a window weighs the same.
    #[default]
    Constant,
    /// The middle weighs more.
    Gaussian,
}

/// Whose rules place the windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowLayout {
    /// MONAI's sliding window inferer.
    #[default]
    Monai,
    /// nnU-Net's predictor.
    Nnunet,
    /// Multiples of the total stride with a halo: the same bits as one pass.
    Aligned,
}

/// What the outputs mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Output {
    /// Nothing is known: outputs are kept as they are.
    #[default]
    None,
    /// Boxes from a RetinaNet's heads.
    Retinanet(Retinanet),
    /// A label for every voxel.
    Segmentation(Segmentation),
}

/// An output by position or by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OutputRef {
    /// Position among the network's outputs.
    Position(usize),
    /// Its name.
    Name(String),
}

/// A RetinaNet's heads, finest level first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retinanet {
    /// Class logits, one output a level.
    pub class_logits: Vec<OutputRef>,
    /// Box regression, one output a level.
    pub box_regression: Vec<OutputRef>,
    /// One label a class.
    pub labels: Vec<String>,
    /// The anchors.
    pub anchors: Anchors,
    /// Which boxes are kept.
    #[serde(default)]
    pub box_selector: BoxSelector,
}

/// Anchor shapes in voxels; a level multiplies them by its scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchors {
    /// x, y, z of each anchor at scale 1.
    pub base_shapes: Vec<[f64; 3]>,
    /// One scale a level, finest first.
    pub level_scales: Vec<f64>,
}

/// Which boxes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BoxSelector {
    /// A score must be above this.
    pub score_thresh: f64,
    /// Best candidates kept on each level.
    pub topk_candidates_per_level: usize,
    /// An `IoU` above this suppresses the lower score.
    pub nms_thresh: f64,
    /// Most boxes in the answer.
    pub detections_per_img: usize,
}

impl Default for BoxSelector {
    fn default() -> Self {
        Self {
            score_thresh: 0.05,
            topk_candidates_per_level: 1000,
            nms_thresh: 0.5,
            detections_per_img: 300,
        }
    }
}

/// A label for every voxel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segmentation {
    /// The output that holds the logits.
    #[serde(default = "first_output")]
    pub logits: OutputRef,
    /// One name a channel; the first is background.
    #[serde(default)]
    pub labels: Vec<String>,
}

const fn first_output() -> OutputRef {
    OutputRef::Position(0)
}

impl Manifest {
    /// Reads a manifest's text; `path` only serves messages.
    pub fn parse(text: &str, path: Option<&Path>) -> Result<Self, NetworkError> {
        let refuse = |reason: String| NetworkError::Manifest {
            reason,
            path: path.map(Path::to_path_buf),
        };
        let manifest: Self =
            toml::from_str(text).map_err(|e| refuse(e.to_string().trim().replace('\n', " ")))?;
        manifest.check().map_err(refuse)?;
        Ok(manifest)
    }

    /// The manifest as its file writes it.
    pub fn to_toml(&self) -> Result<String, NetworkError> {
        toml::to_string(self).map_err(|e| NetworkError::Manifest {
            reason: e.to_string(),
            path: None,
        })
    }

    /// What each value may be, in sentences.
    pub(super) fn check(&self) -> Result<(), String> {
        self.input.check()?;
        self.windows.check()?;
        match &self.output {
            Output::Retinanet(r) => r.check(),
            Output::None | Output::Segmentation(_) => Ok(()),
        }
    }
}

impl Input {
    fn check(&self) -> Result<(), String> {
        if let Some(mm) = self.spacing_mm
            && !mm.iter().all(|v| v.is_finite() && *v > 0.0)
        {
            return Err(format!(
                "input.spacing_mm must be three lengths above 0 mm, found {mm:?}"
            ));
        }
        if let Some(d) = self.divisible_by
            && d.iter().any(|v| *v == 0 || *v > 4096)
        {
            return Err(format!(
                "input.divisible_by must be three whole numbers from 1 to 4096, found {d:?}"
            ));
        }
        match self.intensity {
            Intensity::ScaleRange {
                from: [lo, hi],
                to: [a, b],
                ..
            } if !(lo < hi && [lo, hi, a, b].iter().all(|v| v.is_finite())) => Err(format!(
                "input.intensity.from must be [low, high] with low below high, found [{lo}, {hi}] to [{a}, {b}]"
            )),
            Intensity::ZScore { mean, std, .. }
                if !(mean.is_finite() && std.is_finite() && std > 0.0) =>
            {
                Err(format!(
                    "input.intensity.std must be above 0 HU and mean finite, found std {std} and mean {mean}"
                ))
            }
            Intensity::ZScore {
                clip: Some([lo, hi]),
                ..
            } if lo.partial_cmp(&hi) != Some(std::cmp::Ordering::Less) => Err(format!(
                "input.intensity.clip must be [low, high] with low below high, found [{lo}, {hi}]"
            )),
            Intensity::RescaleImage { to } if !to.iter().all(|v| v.is_finite()) => Err(format!(
                "input.intensity.to must be two numbers, found {to:?}"
            )),
            Intensity::ZScoreImage {
                rescale: Some(to), ..
            } if !to.iter().all(|v| v.is_finite()) => Err(format!(
                "input.intensity.rescale must be two numbers, found {to:?}"
            )),
            _ => Ok(()),
        }
    }
}

impl Windows {
    fn check(&self) -> Result<(), String> {
        if self.roi_size.iter().any(|v| *v < -1) {
            return Err(format!(
                "windows.roi_size must be three whole numbers of -1 or more (0 and -1 mean the whole axis), found {:?}",
                self.roi_size
            ));
        }
        if !self
            .overlap
            .per_axis()
            .iter()
            .all(|o| (0.0..1.0).contains(o))
        {
            return Err(format!(
                "windows.overlap must be at least 0 and below 1, found {:?}",
                self.overlap.per_axis()
            ));
        }
        if !(self.sigma_scale.is_finite() && self.sigma_scale > 0.0) {
            return Err(format!(
                "windows.sigma_scale must be above 0, found {}",
                self.sigma_scale
            ));
        }
        Ok(())
    }
}

impl Retinanet {
    fn check(&self) -> Result<(), String> {
        let levels = self.class_logits.len();
        if levels == 0
            || self.box_regression.len() != levels
            || self.anchors.level_scales.len() != levels
        {
            return Err(format!(
                "output.class_logits, output.box_regression and output.anchors.level_scales must have one entry a level, found {levels}, {} and {}",
                self.box_regression.len(),
                self.anchors.level_scales.len()
            ));
        }
        if self.labels.is_empty() {
            return Err("output.labels must name at least one class, found none".to_owned());
        }
        let positive = |v: &f64| v.is_finite() && *v > 0.0;
        if self.anchors.base_shapes.is_empty()
            || !self.anchors.base_shapes.iter().flatten().all(positive)
            || !self.anchors.level_scales.iter().all(positive)
        {
            return Err(
                "output.anchors must hold at least one shape, and sizes and scales above 0"
                    .to_owned(),
            );
        }
        let s = self.box_selector;
        if !(0.0..=1.0).contains(&s.score_thresh) || !(0.0..=1.0).contains(&s.nms_thresh) {
            return Err(format!(
                "output.box_selector.score_thresh and nms_thresh must be from 0 to 1, found {} and {}",
                s.score_thresh, s.nms_thresh
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUNDLE: &str = include_str!("../../assets/presets/monai-lung-nodule.toml");

    #[test]
    fn a_manifest_reads_back_as_it_is_written() {
        let manifest = Manifest::parse(BUNDLE, None).unwrap();
        assert_eq!(
            manifest.input.spacing_mm,
            Some([0.703_125, 0.703_125, 1.25])
        );
        let Output::Retinanet(r) = &manifest.output else {
            panic!("no boxes")
        };
        assert_eq!(r.anchors.base_shapes[0], [6.0, 8.0, 4.0]);
        assert_eq!(r.box_selector.nms_thresh, 0.22);
        let text = manifest.to_toml().unwrap();
        assert_eq!(Manifest::parse(&text, None).unwrap(), manifest);
    }

    #[test]
    fn an_empty_manifest_is_the_defaults_and_one_line_changes_one_thing() {
        assert_eq!(Manifest::parse("", None).unwrap(), Manifest::default());
        let m = Manifest::parse("[windows]\noverlap = [0.5, 0.5, 0]\n", None).unwrap();
        assert_eq!(m.windows.overlap.per_axis(), [0.5, 0.5, 0.0]);
        assert_eq!(m.windows.roi_size, Windows::default().roi_size);
    }

    #[test]
    fn each_mistake_in_a_manifest_is_answered_with_what_to_write() {
        let path = Path::new("net.voxfit.toml");
        for (text, words) in [
            ("[input]\nspacing_mm = [1.0, 0.0, 1.0]", "above 0 mm"),
            ("[input]\norientation = \"RAX\"", "as-stored"),
            ("[input]\naxes = \"yxz\"", "xyz"),
            ("[input]\ncolour = 3", "colour"),
            (
                "[input]\nintensity = { kind = \"scale-range\", from = [3.0, 1.0], to = [0, 1] }",
                "low below high",
            ),
            (
                "[input]\nintensity = { kind = \"z-score\", mean = 1.0, std = 0.0 }",
                "std must be above 0",
            ),
            (
                "[input]\nintensity = { kind = \"z-score-image\", rescale = [0.0, inf] }",
                "rescale must be two numbers",
            ),
            ("[windows]\nroi_size = [64, -2, 64]", "-1 or more"),
            ("[windows]\noverlap = 1.0", "below 1"),
            ("[output]\nkind = \"boxes\"", "retinanet"),
            ("not toml at all", "="),
        ] {
            let error = Manifest::parse(text, Some(path)).unwrap_err().to_string();
            assert!(
                error.contains(words) && error.ends_with("net.voxfit.toml"),
                "{text}: {error}"
            );
        }
        let fewer = BUNDLE.replace("level_scales = [1, 2, 4]", "level_scales = [1, 2]");
        let error = Manifest::parse(&fewer, None).unwrap_err().to_string();
        assert!(error.contains("one entry a level"), "{error}");
    }
}
