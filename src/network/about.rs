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
    /// What differs from its makers' own program, what was left out, what was guessed and why.
    pub notes: Vec<String>,
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
