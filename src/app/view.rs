//! What is on screen and is not part of the plan: workspace, layers, slices, crosshair, selection. Not undone, not saved in plans.

use crate::geometry::{Axis, Extent, Plane};
use serde::{Deserialize, Serialize};

/// A workspace tab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workspace {
    /// Budget large.
    Plan,
    /// Slices and the detection list.
    #[default]
    Review,
    /// Seams of a run.
    Seams,
    /// Cards and cost.
    Buy,
}

impl Workspace {
    /// All four, in the order of their tabs.
    pub const ALL: [Self; 4] = [Self::Plan, Self::Review, Self::Seams, Self::Buy];

    /// As written on its tab.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plan => "Plan",
            Self::Review => "Review",
            Self::Seams => "Seams",
            Self::Buy => "Buy",
        }
    }
}

impl std::str::FromStr for Workspace {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|w| w.name().eq_ignore_ascii_case(s))
            .ok_or_else(|| format!("a workspace is plan, review, seams or buy; found \"{s}\""))
    }
}

/// Something drawn over (or as) the slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// The image itself.
    Image,
    /// Window faces.
    Grid,
    /// Detection boxes.
    Boxes,
    /// Boxes of the reference.
    ReferenceBoxes,
    /// The lines of the other two planes.
    Crosshair,
    /// Text in the corners.
    CornerText,
    /// R, L, A, P, H, F.
    Letters,
    /// The scale bar.
    ScaleBar,
}

impl Layer {
    /// All layers, in the order of the list.
    pub const ALL: [Self; 8] = [
        Self::Image,
        Self::Grid,
        Self::Boxes,
        Self::ReferenceBoxes,
        Self::Crosshair,
        Self::CornerText,
        Self::Letters,
        Self::ScaleBar,
    ];

    /// As written in the list.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Image => "Image",
            Self::Grid => "Window grid",
            Self::Boxes => "Boxes",
            Self::ReferenceBoxes => "Boxes: reference",
            Self::Crosshair => "Crosshair",
            Self::CornerText => "Corner text",
            Self::Letters => "Letters",
            Self::ScaleBar => "Scale bar",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The set of layers shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers(u8);

impl Default for Layers {
    fn default() -> Self {
        Self(Layer::ALL.iter().fold(0, |all, l| all | l.bit()))
    }
}

impl Layers {
    /// Whether the layer is shown.
    pub const fn shows(self, layer: Layer) -> bool {
        self.0 & layer.bit() != 0
    }

    /// Shows what is hidden, hides what is shown.
    pub const fn toggle(&mut self, layer: Layer) {
        self.0 ^= layer.bit();
    }
}

/// What is open on top of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Popup {
    /// Search of all commands.
    Palette,
    /// All keys.
    Keys,
    /// Settings.
    Settings,
    /// The jobs list.
    Jobs,
    /// The messages.
    Messages,
    /// Warnings and skipped files of the study.
    Warnings,
    /// Facts of the series.
    SeriesDetails,
    /// The network's manifest.
    Manifest,
    /// Measured points and the line through them.
    Calibration,
    /// What Voxfit is.
    About,
}

/// A column of the detection list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SortBy {
    /// Place in the result.
    Number,
    /// Name of the class.
    Label,
    /// Score.
    #[default]
    Score,
    /// Longest edge.
    Size,
    /// Distance to the nearest seam.
    Seam,
    /// Score in the reference.
    Reference,
    /// How far the score drifted from the reference's.
    Drift,
}

/// What lies over the slice of the Seams workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SeamMap {
    /// Window faces alone.
    Grid,
    /// How many windows cover each voxel.
    Cover,
    /// Where windows disagree, before blending.
    #[default]
    Mismatch,
    /// The difference from the reference.
    Difference,
    /// Scores of the run, of the reference while F is held.
    Flicker,
}

impl SeamMap {
    /// All five, in the order of their buttons.
    pub const ALL: [Self; 5] = [
        Self::Grid,
        Self::Cover,
        Self::Mismatch,
        Self::Difference,
        Self::Flicker,
    ];

    /// As written on its button.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grid => "Grid",
            Self::Cover => "Cover",
            Self::Mismatch => "Mismatch",
            Self::Difference => "Diff",
            Self::Flicker => "Flicker",
        }
    }
}

/// Which detections the list shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Filter {
    /// All at or above the threshold.
    #[default]
    All,
    /// Those that the reference has otherwise or not at all.
    Changed,
    /// Those within 5 mm of a seam.
    NearSeam,
}

/// What is on screen.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of the screen"
)]
pub struct View {
    /// The workspace shown.
    pub workspace: Workspace,
    /// The one plane shown large; `None` shows three.
    pub large: Option<Plane>,
    /// The plane that keys go to.
    pub active: Plane,
    /// Layers shown.
    pub layers: Layers,
    /// Overlays hidden while a key is held.
    pub overlays_hidden: bool,
    /// Black for white.
    pub invert: bool,
    /// Whether the slices of the active plane play.
    pub cine: bool,
    /// The crosshair in voxels of the loaded volume (x, y, z); each plane shows the slice it lies in.
    pub crosshair: [f64; 3],
    /// What is open on top.
    pub popup: Option<Popup>,
    /// Selected detection, as its place in the result.
    pub selected: Option<usize>,
    /// Column that the list is sorted by.
    pub sort_by: SortBy,
    /// Whether the largest comes first.
    pub descending: bool,
    /// Which detections the list shows.
    pub filter: Filter,
    /// Selected finding of the reference that the run has not, as its place in the match.
    pub selected_reference: Option<usize>,
    /// Selected seam: its axis and place in the prepared volume.
    pub seam: Option<(Axis, usize)>,
    /// What lies over the slice of the Seams workspace.
    pub seam_map: SeamMap,
    /// The reference in the run's place while a key is held.
    pub flicker: bool,
    /// Whether the window uses the whole screen.
    pub full_screen: bool,
    /// Whether a picture of the window is being taken: names are masked in it, whatever the settings say.
    pub taking_picture: bool,
    /// Whether the Plan workspace shows the network's layers.
    pub layers_open: bool,
    /// The guided tour and its step, from 0.
    pub tour: Option<(super::tour::Tour, usize)>,
    /// What layers are searched for.
    pub layer_search: String,
    /// Stages of the layer list whose layers are hidden.
    pub folded_stages: std::collections::BTreeSet<usize>,
}

impl Default for View {
    fn default() -> Self {
        Self {
            workspace: Workspace::default(),
            large: None,
            active: Plane::Axial,
            layers: Layers::default(),
            overlays_hidden: false,
            invert: false,
            cine: false,
            crosshair: [0.0; 3],
            popup: None,
            selected: None,
            sort_by: SortBy::default(),
            descending: true,
            filter: Filter::default(),
            selected_reference: None,
            seam: None,
            seam_map: SeamMap::default(),
            flicker: false,
            full_screen: false,
            taking_picture: false,
            layers_open: false,
            tour: None,
            layer_search: String::new(),
            folded_stages: std::collections::BTreeSet::new(),
        }
    }
}

impl View {
    /// The slice that a plane shows, from 0, for a volume of this size.
    pub fn slice(&self, plane: Plane, extent: Extent) -> usize {
        let a = plane.across();
        nearest_index(self.crosshair[a.index()], extent.to_array()[a.index()])
    }

    /// The voxel index that the crosshair lies at along an axis of a volume of this size.
    pub fn index(&self, axis: usize, extent: Extent) -> usize {
        nearest_index(self.crosshair[axis], extent.to_array()[axis])
    }

    /// Moves the crosshair to the middle of a slice, clamped to the volume.
    pub fn set_slice(&mut self, plane: Plane, slice: usize, extent: Extent) {
        let a = plane.across().index();
        self.crosshair[a] = slice.min(extent.to_array()[a].saturating_sub(1)) as f64;
    }

    /// Moves the crosshair, clamped to the volume.
    pub fn set_crosshair(&mut self, at: [f64; 3], extent: Extent) {
        for axis in Axis::ALL {
            let a = axis.index();
            let last = extent.to_array()[a].saturating_sub(1) as f64;
            if at[a].is_finite() {
                self.crosshair[a] = at[a].clamp(0.0, last);
            }
        }
    }

    /// Whether a layer is drawn now.
    pub fn draws(&self, layer: Layer) -> bool {
        self.layers.shows(layer) && (layer == Layer::Image || !self.overlays_hidden)
    }
}

/// The voxel whose centre is nearest to a position, clamped to `0..n`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..n before the cast"
)]
fn nearest_index(at: f64, n: usize) -> usize {
    at.round().clamp(0.0, n.saturating_sub(1) as f64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crosshair_stays_inside_and_each_plane_shows_its_slice() {
        let mut v = View::default();
        let e = Extent::new(10, 20, 30);
        v.set_crosshair([99.0, -4.0, 12.4], e);
        assert_eq!(v.crosshair, [9.0, 0.0, 12.4]);
        assert_eq!(v.slice(Plane::Axial, e), 12);
        assert_eq!(v.slice(Plane::Sagittal, e), 9);
        v.set_crosshair([f64::NAN, 3.0, 1.0], e);
        assert_eq!(v.crosshair, [9.0, 3.0, 1.0]);
    }

    #[test]
    fn held_space_hides_every_overlay_but_not_the_image() {
        let mut v = View {
            overlays_hidden: true,
            ..View::default()
        };
        assert!(v.draws(Layer::Image) && !v.draws(Layer::Boxes));
        v.overlays_hidden = false;
        v.layers.toggle(Layer::Grid);
        assert!(v.draws(Layer::Boxes) && !v.draws(Layer::Grid));
    }
}
