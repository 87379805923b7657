//! The manifest of the network in rows: each field with its value, whether it is told or guessed, and why. A proposed one waits here until it is accepted.

use super::document::{overlap_text, roi_text};
use super::state::{NetworkInfo, State};
use crate::network::manifest::{
    BlendMode, Intensity, Manifest, Orientation, Output, OutputRef, WindowLayout,
};
use crate::network::{self, Field, ManifestSource, Origin};
use crate::units::exact;
use std::path::PathBuf;

/// One field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it is, in words.
    pub name: &'static str,
    /// Its value, in words.
    pub value: String,
    /// Told or guessed.
    pub origin: Origin,
    /// By what, or why.
    pub why: String,
}

/// All that the page says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its title.
    pub title: &'static str,
    /// What to do with it, in a sentence or two.
    pub lead: String,
    /// A row for each field.
    pub rows: Vec<Row>,
    /// What else is to be known of the network.
    pub notes: Vec<String>,
    /// Whether a run waits until it is accepted.
    pub waits: bool,
}

impl Page {
    /// How many fields were guessed.
    pub fn guessed(&self) -> usize {
        let guessed = |r: &&Row| r.origin == Origin::Guessed;
        self.rows.iter().filter(guessed).count()
    }
}

impl State {
    /// Whether the network's manifest is proposed and nobody has accepted it.
    pub fn manifest_waits(&self) -> bool {
        self.network.info().is_some_and(|info| {
            let accepted = self.accepted_manifest.as_ref().is_some_and(|(name, m)| {
                self.document.network.as_ref() == Some(name) && *m == info.model.manifest
            });
            info.model.about.needs_acceptance() && !accepted
        })
    }

    /// Accepts the manifest that is proposed for this very network.
    pub(super) fn accept_manifest(&mut self) {
        let info = self.network.info().map(|i| i.model.manifest.clone());
        self.accepted_manifest = self.document.network.clone().zip(info);
        if self.view.popup == Some(super::Popup::Manifest) {
            self.view.popup = None;
        }
    }

    /// The page on the network's manifest, once it was read.
    pub fn manifest_page(&self) -> Option<Page> {
        let info = self.network.info()?;
        let about = &info.model.about;
        let name = &info.model.graph.name;
        let waits = self.manifest_waits();
        let (title, lead) = match about.manifest {
            ManifestSource::Proposed if waits => (
                "Proposed manifest",
                format!(
                    "{name} does not say all of how a volume becomes its input, so this is proposed. Check what is guessed before a run: a wrong line gives wrong results and no error."
                ),
            ),
            ManifestSource::Proposed => (
                "Proposed manifest",
                format!(
                    "Accepted for {name} in this session. Saved beside the network it is kept for good."
                ),
            ),
            ManifestSource::Translated => (
                "Manifest",
                format!(
                    "How a volume becomes the input of {name}, from its {}.",
                    about.kind
                ),
            ),
            ManifestSource::Written => (
                "Manifest",
                format!("How a volume becomes the input of {name}, as its manifest says."),
            ),
        };
        Some(Page {
            title,
            lead,
            rows: Field::ALL.map(|f| row(f, info)).to_vec(),
            notes: about.said().map(str::to_owned).collect(),
            waits,
        })
    }

    /// Where the manifest of the plan's network belongs; `None` for a preset, which has its own.
    pub(super) fn manifest_place(&self) -> Option<PathBuf> {
        let model = self.document.network.as_deref()?;
        (!model.starts_with("preset:")).then(|| network::manifest_beside(model))
    }
}

fn row(field: Field, info: &NetworkInfo) -> Row {
    let about = &info.model.about;
    let (origin, why) = match about.reasons.iter().find(|r| r.field == field) {
        Some(r) => (r.origin, r.why.clone()),
        None if about.manifest == ManifestSource::Translated => {
            (Origin::Told, format!("its {}", about.kind))
        }
        None if about.manifest == ManifestSource::Proposed => {
            (Origin::Guessed, "nothing says otherwise".to_owned())
        }
        None => (Origin::Told, "its manifest".to_owned()),
    };
    let (name, value) = named(field, &info.model.manifest, info.tiling.total_stride);
    Row {
        name,
        value,
        origin,
        why,
    }
}

fn named(field: Field, m: &Manifest, stride: [usize; 3]) -> (&'static str, String) {
    let input = &m.input;
    let windows = &m.windows;
    match field {
        Field::Axes => (
            "Order of the axes",
            match input.axes {
                network::manifest::Axes::Xyz => "x, y, z: columns, rows, slices",
                network::manifest::Axes::Zyx => "z, y, x: slices, rows, columns",
            }
            .to_owned(),
        ),
        Field::Orientation => (
            "Orientation",
            match input.orientation {
                Orientation::AsStored => "as stored".to_owned(),
                towards @ Orientation::Towards(_) => String::from(towards),
            },
        ),
        Field::Spacing => (
            "Spacing x, y, z",
            input.spacing_mm.map_or_else(
                || "as stored".to_owned(),
                |mm| format!("{} mm", mm.map(exact).join(", ")),
            ),
        ),
        Field::Intensity => ("Intensity", intensity(&input.intensity)),
        Field::Padding => {
            let n = input.divisible_by.unwrap_or(stride);
            let value = if n == [1; 3] {
                "none".to_owned()
            } else {
                let n = n.map(|n| n.to_string()).join(", ");
                format!("zeros at the end, to multiples of {n}")
            };
            ("Padding x, y, z", value)
        }
        Field::Roi => ("Window x, y, z", roi_text(windows.roi_size, " \u{d7} ")),
        Field::Overlap => (
            "Overlap of windows",
            overlap_text(windows.overlap.per_axis()),
        ),
        Field::Blend => (
            "Blend of windows",
            match windows.blend {
                BlendMode::Constant => "constant".to_owned(),
                BlendMode::Gaussian => {
                    format!(
                        "Gaussian, {} of the window wide",
                        exact(windows.sigma_scale)
                    )
                }
            },
        ),
        Field::Layout => (
            "Layout of windows",
            match windows.layout {
                WindowLayout::Monai => "MONAI",
                WindowLayout::Nnunet => "nnU-Net",
                WindowLayout::Aligned => "aligned",
            }
            .to_owned(),
        ),
        Field::Output => ("Outputs", output(&m.output)),
    }
}

fn range([a, b]: [f64; 2]) -> String {
    format!("{} to {}", exact(a), exact(b))
}

fn intensity(i: &Intensity) -> String {
    match *i {
        Intensity::None => "HU as they are".to_owned(),
        Intensity::ScaleRange { from, to, clip } => format!(
            "{} HU become {}{}",
            range(from),
            range(to),
            if clip { ", clipped" } else { "" }
        ),
        Intensity::ZScore { mean, std, clip } => format!(
            "{}mean {} and deviation {} become 0 and 1",
            clip.map_or_else(String::new, |c| format!("clipped at {} HU; ", range(c))),
            exact(mean),
            exact(std)
        ),
        Intensity::ZScoreImage { nonzero, rescale } => format!(
            "the volume's own mean and deviation{} become 0 and 1{}",
            if nonzero { " (zeros left out)" } else { "" },
            rescale.map_or_else(String::new, |to| format!(", then {}", range(to)))
        ),
        Intensity::RescaleImage { to } => {
            format!("the volume's least and largest become {}", range(to))
        }
    }
}

fn output(o: &Output) -> String {
    let list = |labels: &[String]| match labels {
        [] => "without names".to_owned(),
        names => names.join(", "),
    };
    match o {
        Output::None => "kept as they are: neither boxes nor labels".to_owned(),
        Output::Segmentation(s) => {
            let of = match &s.logits {
                OutputRef::Position(i) => format!("output {i}"),
                OutputRef::Name(name) => name.clone(),
            };
            format!("labels from {of}: {}", list(&s.labels))
        }
        Output::Retinanet(r) => format!(
            "boxes from {} levels, {} anchors each: {}",
            r.class_logits.len(),
            r.anchors.base_shapes.len(),
            list(&r.labels)
        ),
    }
}
