//! The report page of a plan and its run: what the window and the command line both write.

use crate::exchange::result::RunResult;
use crate::geometry::{Extent, Plane};
use crate::hardware::{BudgetOnCards, Card};
use crate::memory::surface::Surface;
use crate::report::picture::{MarkedBox, Overlay, slice};
use crate::report::{Figure, ReportError, ReportInput};
use crate::volume::{SharedVolume, WindowLevel};
use std::path::Path;
use std::sync::Arc;

/// What a page is made of; absent parts are left out.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// What it is about, without identity.
    pub title: String,
    /// The plan in a line.
    pub plan: String,
    /// The budget with its verdicts.
    pub budget: Option<Arc<BudgetOnCards>>,
    /// The cards of the verdicts.
    pub cards: Vec<Card>,
    /// The card in focus.
    pub focus: Option<String>,
    /// What other rois ask for, with the planned roi and batch.
    pub surface: Option<(Arc<Surface>, Extent, usize)>,
    /// What a run gave.
    pub result: Option<RunResult>,
    /// The volume and its window level, for pictures.
    pub volume: Option<(SharedVolume, WindowLevel)>,
    /// Window faces in the loaded volume, per axis.
    pub faces: [Vec<f64>; 3],
    /// Further lines.
    pub notes: Vec<String>,
}

/// Points along the longer side of a picture.
const LONGEST: usize = 480;

impl Page {
    /// The three planes through the best detection, or through the middle.
    pub fn figures(&self) -> Vec<Figure> {
        let Some((volume, level)) = &self.volume else {
            return Vec::new();
        };
        let found = self.result.as_ref().map_or(&[][..], |r| &r.detections[..]);
        let overlay = Overlay {
            faces: self.faces.clone(),
            boxes: found
                .iter()
                .enumerate()
                .filter(|(_, d)| d.score >= 0.5)
                .map(|(i, d)| MarkedBox {
                    at: d.box_in_volume,
                    tag: format!("{} {:.2}", i + 1, d.score),
                    reference: false,
                })
                .collect(),
        };
        let size = volume.extent.to_array();
        let center = found.first().map(|d| d.box_in_volume.center());
        Plane::ALL
            .iter()
            .map(|&plane| {
                let a = plane.across().index();
                let index = center
                    .and_then(|c| whole(c[a]))
                    .unwrap_or(size[a] / 2)
                    .min(size[a].saturating_sub(1));
                Figure {
                    title: format!("{} {} of {}", plane.name(), index + 1, size[a]),
                    caption: "lines: window faces; dashed boxes: detections".to_owned(),
                    picture: slice(volume, plane, index, *level, &overlay, LONGEST),
                }
            })
            .collect()
    }

    /// Writes the page beside its target and renames it. Identity is masked.
    pub fn write(&self, figures: &[Figure], path: &Path) -> Result<(), ReportError> {
        let cards: Vec<&Card> = self.cards.iter().collect();
        let input = ReportInput {
            title: &self.title,
            plan: &self.plan,
            budget: self.budget.as_deref(),
            cards: &cards,
            focus: self.focus.as_deref(),
            surface: self.surface.as_ref().map(|(s, roi, n)| (&**s, *roi, *n)),
            result: self.result.as_ref(),
            figures,
            notes: &self.notes,
            show_identity: false,
        };
        crate::report::write(&input, path)
    }
}

/// The voxel that a position in voxel borders lies in.
fn whole(at: f32) -> Option<usize> {
    format!("{:.0}", at.floor().max(0.0)).parse().ok()
}
