//! What is known of where a network came from: who wrote its manifest, what else the source holds, what a user should hear.

use super::manifest::Manifest;

/// Who says how a volume becomes the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManifestSource {
    /// A manifest file, or a preset's own.
    #[default]
    Written,
    /// The model's own plans or configuration, translated.
    Translated,
    /// Nobody: it was proposed from what the network's shape says, and must be accepted before a run.
    Proposed,
}

/// A part of the manifest that is told or guessed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// `input.axes`.
    Axes,
    /// `input.orientation`.
    Orientation,
    /// `input.spacing_mm`.
    Spacing,
    /// `input.intensity`.
    Intensity,
    /// `input.divisible_by`.
    Padding,
    /// `windows.roi_size`.
    Roi,
    /// `windows.overlap`.
    Overlap,
    /// `windows.blend` with its width.
    Blend,
    /// `windows.layout`.
    Layout,
    /// `output`.
    Output,
}

impl Field {
    /// All of them, in the order of the file.
    pub const ALL: [Self; 10] = [
        Self::Axes,
        Self::Orientation,
        Self::Spacing,
        Self::Intensity,
        Self::Padding,
        Self::Roi,
        Self::Overlap,
        Self::Blend,
        Self::Layout,
        Self::Output,
    ];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Axes => "axes",
            Self::Orientation => "orientation",
            Self::Spacing => "spacing",
            Self::Intensity => "intensity",
            Self::Padding => "padding",
            Self::Roi => "windows",
            Self::Overlap => "overlap",
            Self::Blend => "blend",
            Self::Layout => "layout",
            Self::Output => "outputs",
        }
    }
}

/// Whether what is opened says a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It does.
    Told,
    /// It does not: somebody who knows the network should look.
    Guessed,
}

impl Origin {
    /// In words.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Told => "told",
            Self::Guessed => "guessed",
        }
    }
}

/// Where the value of a field comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The field.
    pub field: Field,
    /// Told or guessed.
    pub origin: Origin,
    /// By what, or why this value, in words.
    pub why: String,
}

impl Reason {
    pub(super) fn new(field: Field, origin: Origin, why: impl Into<String>) -> Self {
        Self {
            field,
            origin,
            why: why.into(),
        }
    }
}

/// Where a network came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// What kind of thing was opened, in words.
    pub kind: String,
    /// Who wrote the manifest.
    pub manifest: ManifestSource,
    /// Configurations that the source holds, the chosen one first marked by `chosen`.
    pub configurations: Vec<String>,
    /// The one that was opened.
    pub chosen: Option<String>,
    /// Of the network and its weights: where they are from, what differs from its makers' own program.
    pub notes: Vec<String>,
    /// Of the manifest's translation: what was left out. Nothing once another manifest takes its place.
    pub guesses: Vec<String>,
    /// Where each field of the manifest comes from; empty where a manifest file, a preset or nnU-Net's plans say all.
    pub reasons: Vec<Reason>,
}

impl About {
    /// A network of this kind whose manifest was translated.
    pub(super) fn translated(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            manifest: ManifestSource::Translated,
            ..Self::default()
        }
    }

    /// All that a user should hear: the notes, what was left out of the manifest, and where it is proposed the reason for each field.
    pub fn lines(&self) -> Vec<String> {
        let proposed = self.reasons.iter().filter(|_| self.needs_acceptance());
        let reasons =
            proposed.map(|r| format!("{} ({}): {}", r.field.name(), r.origin.word(), r.why));
        self.said().map(str::to_owned).chain(reasons).collect()
    }

    /// The notes, and what was left out of the manifest.
    pub fn said(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().chain(&self.guesses).map(String::as_str)
    }

    /// A manifest file was read in place of what was proposed or translated: what was guessed is guessed no more.
    pub(super) fn is_written(&mut self) {
        self.guesses.clear();
        self.reasons.clear();
        self.manifest = ManifestSource::Written;
    }

    /// Whether a run must wait until the manifest is accepted.
    pub fn needs_acceptance(&self) -> bool {
        self.manifest == ManifestSource::Proposed
    }
}

/// A manifest and the reasons for what it says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Translation {
    pub(super) manifest: Manifest,
    pub(super) notes: Vec<String>,
}
