//! Half-open boxes: whole voxels for windows, floating corners for detections.

use super::Extent;
use serde::{Deserialize, Serialize};

/// A half-open box of whole voxels: `min` is inside, `max` is the first voxel outside; both `[x, y, z]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VoxelBox {
    /// First voxel, `[x, y, z]`.
    pub min: [usize; 3],
    /// One past the last voxel, `[x, y, z]`.
    pub max: [usize; 3],
}

impl VoxelBox {
    /// The box of `size` voxels that starts at `min`.
    pub fn at(min: [usize; 3], size: Extent) -> Self {
        let s = size.to_array();
        Self {
            min,
            max: [min[0] + s[0], min[1] + s[1], min[2] + s[2]],
        }
    }

    /// Voxels along each axis.
    pub fn size(&self) -> Extent {
        Extent::new(
            self.max[0].saturating_sub(self.min[0]),
            self.max[1].saturating_sub(self.min[1]),
            self.max[2].saturating_sub(self.min[2]),
        )
    }

    /// The voxels both boxes hold (empty size when none).
    pub fn intersect(&self, other: &Self) -> Self {
        let mut out = *self;
        for a in 0..3 {
            out.min[a] = self.min[a].max(other.min[a]);
            out.max[a] = self.max[a].min(other.max[a]).max(out.min[a]);
        }
        out
    }

    /// Whether voxel `[x, y, z]` is inside.
    pub fn contains(&self, p: [usize; 3]) -> bool {
        (0..3).all(|a| self.min[a] <= p[a] && p[a] < self.max[a])
    }
}

/// A half-open corner box with floating edges, in voxels `[x0, y0, z0, x1, y1, z1]` (MONAI's `StandardMode`): width = x1 - x0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BoxF(pub [f32; 6]);

impl BoxF {
    /// Middle of the box, in voxels.
    pub fn center(&self) -> [f32; 3] {
        std::array::from_fn(|a| 0.5 * (self.0[a] + self.0[a + 3]))
    }

    /// Edge lengths, in voxels.
    pub fn size(&self) -> [f32; 3] {
        std::array::from_fn(|a| self.0[a + 3] - self.0[a])
    }

    /// Volume in voxels; zero for an inverted box.
    pub fn volume(&self) -> f32 {
        self.size().iter().map(|e| e.max(0.0)).product()
    }

    /// Volume of the common part, in voxels.
    pub fn intersection(&self, other: &Self) -> f32 {
        (0..3)
            .map(|a| (self.0[a + 3].min(other.0[a + 3]) - self.0[a].max(other.0[a])).max(0.0))
            .product()
    }

    /// Intersection over union, 0 when the union is empty.
    pub fn iou(&self, other: &Self) -> f32 {
        let both = self.intersection(other);
        let union = self.volume() + other.volume() - both;
        if union > 0.0 { both / union } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_open_box_does_not_hold_its_last_corner() {
        let b = VoxelBox::at([1, 2, 3], Extent::new(2, 2, 2));
        assert!(b.contains([1, 2, 3]) && b.contains([2, 3, 4]) && !b.contains([3, 3, 4]));
        assert_eq!(
            b.intersect(&VoxelBox::at([2, 0, 0], Extent::new(9, 9, 9)))
                .size(),
            Extent::new(1, 2, 2)
        );
        assert!(
            b.intersect(&VoxelBox::at([7, 7, 7], Extent::cube(1)))
                .size()
                .is_empty()
        );
    }

    #[test]
    fn iou_of_half_shifted_boxes_is_a_third() {
        let a = BoxF([0.0, 0.0, 0.0, 2.0, 2.0, 2.0]);
        let b = BoxF([1.0, 0.0, 0.0, 3.0, 2.0, 2.0]);
        assert!((a.iou(&b) - 1.0 / 3.0).abs() < 1e-6);
        assert_eq!(a.iou(&BoxF([5.0, 5.0, 5.0, 4.0, 6.0, 6.0])), 0.0);
    }
}
