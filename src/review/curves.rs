//! What each window alone gave, kept as scores in two bytes a voxel, to draw its curve across a seam.

use super::reference::foreground;
use crate::engine::Map;
use crate::tiling::TilingPlan;
use crate::tiling::stitch::{OutputShape, Zoom};

/// Scores of one output, window by window, before anything is blended or cropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowScores {
    /// Which output.
    pub output: usize,
    /// Size for one window, in the tensor's axis order.
    pub patch: [usize; 3],
    /// Voxels of the input per voxel of the output.
    pub stride: [f64; 3],
    /// Voxels of padding before the volume, in the tensor's axis order.
    pub pad_before: [usize; 3],
    /// Where each window begins in the output over the padded volume.
    pub origins: Vec<[usize; 3]>,
    each: bool,
    scores: Vec<u16>,
}

/// The largest score as it is kept.
const WHOLE: f32 = 65535.0;

impl WindowScores {
    /// Room for all windows of a plan; `None` with one window, and where it takes more than `most` bytes or is not to be had.
    pub fn new(
        plan: &TilingPlan,
        (output, shape): (usize, &OutputShape),
        each: bool,
        most: usize,
    ) -> Option<Self> {
        if plan.is_single_pass() {
            return None;
        }
        let roi = plan.axes.reorder(plan.roi.to_array());
        let zoom = Zoom::new(shape, roi, plan.axes.reorder(plan.padded.to_array()));
        let n = shape.spatial.iter().product::<usize>();
        let n = n.checked_mul(plan.n_windows()).filter(|n| n * 2 <= most)?;
        let mut scores = Vec::new();
        scores.try_reserve_exact(n).ok()?;
        scores.resize(n, 0);
        let origins = plan.windows.iter().map(|w| {
            let start = plan.axes.reorder(w.roi.min);
            std::array::from_fn(|a| zoom.at(a, start[a]))
        });
        Some(Self {
            output,
            patch: shape.spatial,
            stride: zoom.stride(),
            pad_before: plan.axes.reorder(plan.pad_before),
            origins: origins.collect(),
            each,
            scores,
        })
    }

    /// Takes in what the network gave for one window.
    pub fn observe(&mut self, window: usize, output: usize, map: &Map<'_>) {
        let n = self.patch.iter().product::<usize>();
        if output != self.output || map.channels == 0 || map.values.len() != n * map.channels {
            return;
        }
        let Some(to) = self.scores.get_mut(window * n..(window + 1) * n) else {
            return;
        };
        for (score, voxel) in to.iter_mut().zip(map.values.chunks_exact(map.channels)) {
            *score = narrow(foreground(voxel.iter().copied(), self.each));
        }
    }

    /// What a window gave at a place of the output over the padded volume; `None` where it does not reach.
    pub fn at(&self, window: usize, place: [usize; 3]) -> Option<f32> {
        let origin = self.origins.get(window)?;
        let mut index = 0;
        for a in 0..3 {
            let here = place[a].checked_sub(origin[a])?;
            if here >= self.patch[a] {
                return None;
            }
            index = index * self.patch[a] + here;
        }
        let n = self.patch.iter().product::<usize>();
        let score = self.scores.get(window * n + index)?;
        Some(f32::from(*score) / WHOLE)
    }

    /// Bytes that it takes.
    pub const fn bytes(&self) -> usize {
        self.scores.len() * 2
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..=65535 before the cast; what is no number becomes 0"
)]
fn narrow(score: f32) -> u16 {
    (score * WHOLE).round().clamp(0.0, WHOLE) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Extent;
    use crate::tiling::{self, AxesOrder, Blend, Facts, Layout, TilingSpec};

    #[test]
    fn each_window_says_again_what_it_gave_and_nothing_beyond_its_faces() {
        let spec = TilingSpec {
            roi_size: Extent::new(0, 0, 8),
            overlap: [0.5; 3],
            blend: Blend::Constant,
            layout: Layout::Monai,
        };
        let plan = tiling::plan(
            &spec,
            Extent::new(4, 2, 20),
            &Facts::unknown(AxesOrder::Zyx),
        )
        .unwrap();
        let shape = OutputShape {
            channels: 1,
            spatial: [4, 1, 2],
        };
        let mut kept = WindowScores::new(&plan, (0, &shape), true, 1 << 20).unwrap();
        assert_eq!((kept.stride, kept.bytes()), ([2.0; 3], 4 * 8 * 2));
        for w in 0..plan.n_windows() {
            let values = [if w == 1 { 20.0 } else { -20.0 }; 8];
            let map = Map {
                values: &values,
                channels: 1,
                spatial: shape.spatial,
            };
            kept.observe(w, 0, &map);
        }
        // The second window begins at z 4, which is 2 in the output.
        assert_eq!(kept.at(1, [1, 0, 0]), None);
        assert_eq!(kept.at(1, [2, 0, 1]), Some(1.0));
        assert_eq!(kept.at(0, [2, 0, 1]), Some(0.0));
        assert_eq!(kept.at(0, [4, 0, 1]), None);
        assert!(WindowScores::new(&plan, (0, &shape), true, 8).is_none());
    }
}
