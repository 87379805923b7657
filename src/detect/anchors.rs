//! Anchors as MONAI lays them, computed where they are needed. Everything in the tensor's axis order.

use crate::network::manifest::{Anchors, Axes};
use serde::{Deserialize, Serialize};

/// Shapes of the anchors at every position, and how they grow from level to level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnchorSpec {
    /// Edge lengths in voxels, one triple an anchor, in the tensor's axis order.
    pub base_shapes: Vec<[f64; 3]>,
    /// Factor of each level, finest first.
    pub level_scales: Vec<f64>,
}

/// The anchors of one level.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelAnchors {
    grid: [usize; 3],
    stride: [usize; 3],
    /// Half edges, rounded half to even.
    halves: Vec<[f32; 3]>,
}

impl AnchorSpec {
    /// The anchors of a manifest, whose shapes are x, y, z, in the tensor's axis order.
    pub fn of(anchors: &Anchors, axes: Axes) -> Self {
        let shapes = anchors.base_shapes.iter();
        Self {
            base_shapes: shapes.map(|s| axes.reorder(*s)).collect(),
            level_scales: anchors.level_scales.clone(),
        }
    }

    /// The anchors of `level` for a head map of `grid` positions over a padded image; `None` for a level without a scale.
    pub fn level(
        &self,
        level: usize,
        grid: [usize; 3],
        padded: [usize; 3],
    ) -> Option<LevelAnchors> {
        let scale = *self.level_scales.get(level)?;
        #[expect(clippy::cast_possible_truncation, reason = "anchors are float32")]
        let half = |edge: f64| ((edge as f32 * scale as f32) / 2.0).round_ties_even();
        Some(LevelAnchors {
            grid,
            stride: std::array::from_fn(|a| padded[a] / grid[a].max(1)),
            halves: self.base_shapes.iter().map(|s| s.map(half)).collect(),
        })
    }
}

impl LevelAnchors {
    /// Number of anchors: positions, the first axis slowest, times shapes.
    pub fn len(&self) -> usize {
        self.grid.iter().product::<usize>() * self.halves.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Corners of an anchor by its index inside the level.
    pub fn corners(&self, index: usize) -> [f32; 6] {
        let shapes = self.halves.len().max(1);
        let (position, shape) = (index / shapes, index % shapes);
        let [_, n1, n2] = self.grid;
        let at = [position / (n1 * n2), position / n2 % n1, position % n2];
        let half = self.halves[shape];
        let center: [f32; 3] =
            std::array::from_fn(|a| (at[a] * self.stride[a] + self.stride[a] / 2) as f32);
        std::array::from_fn(|i| {
            if i < 3 {
                center[i] - half[i]
            } else {
                center[i - 3] + half[i - 3]
            }
        })
    }
}
