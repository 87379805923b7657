//! One plane of a volume as values, as it is looked at: columns or rows to the right, rows down or slices up.

use super::{Volume, WindowLevel};
use crate::geometry::{Axis, Plane};

/// The values of one plane, row by row from the top left of the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaneValues {
    /// Values to the right.
    pub width: usize,
    /// Values down.
    pub height: usize,
    /// `width * height` values.
    pub values: Vec<f32>,
    /// Distance in mm between neighbours to the right and down.
    pub spacing_mm: [f64; 2],
}

impl PlaneValues {
    /// The values as grey, 0 to 255.
    pub fn grey(&self, window_level: WindowLevel) -> Vec<u8> {
        self.values.iter().map(|&v| window_level.grey(v)).collect()
    }
}

/// Whether the picture's downward axis runs against the voxel index (slices go up).
pub const fn runs_up(plane: Plane) -> bool {
    matches!(plane.in_plane()[1], Axis::Z)
}

/// The plane at `index` along the axis it is cut across; `None` outside the volume.
pub fn plane_values(volume: &Volume, plane: Plane, index: usize) -> Option<PlaneValues> {
    let size = volume.extent.to_array();
    let across = plane.across().index();
    let [right, down] = plane.in_plane().map(Axis::index);
    if index >= size[across] || volume.extent.is_empty() {
        return None;
    }
    let step = [1, size[0], size[0] * size[1]];
    let (width, height) = (size[right], size[down]);
    let mut values = Vec::with_capacity(width * height);
    for row in 0..height {
        let v = if runs_up(plane) {
            height - 1 - row
        } else {
            row
        };
        let start = index * step[across] + v * step[down];
        values.extend((0..width).filter_map(|u| volume.voxels.get(start + u * step[right])));
    }
    let spacing = volume.affine.spacing_mm();
    Some(PlaneValues {
        width,
        height,
        values,
        spacing_mm: [spacing[right], spacing[down]],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Affine, Extent};
    use crate::volume::Voxels;

    #[test]
    fn coronal_and_sagittal_pictures_have_the_head_at_the_top() {
        let extent = Extent::new(2, 3, 4);
        let volume = Volume {
            extent,
            affine: Affine::axis_aligned([0.5, 0.75, 2.0]),
            voxels: Voxels::I16((0..24).collect()),
            padding: None,
            is_hu: true,
            z_spacing_known: true,
        };
        let axial = plane_values(&volume, Plane::Axial, 1).unwrap();
        assert_eq!((axial.width, axial.height), (2, 3));
        assert_eq!(axial.values, [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
        let coronal = plane_values(&volume, Plane::Coronal, 2).unwrap();
        assert_eq!(
            coronal.values,
            [22.0, 23.0, 16.0, 17.0, 10.0, 11.0, 4.0, 5.0]
        );
        assert_eq!(coronal.spacing_mm, [0.5, 2.0]);
        let sagittal = plane_values(&volume, Plane::Sagittal, 0).unwrap();
        assert_eq!((sagittal.width, sagittal.height), (3, 4));
        assert_eq!(sagittal.values[..3], [18.0, 20.0, 22.0]);
        assert_eq!(plane_values(&volume, Plane::Sagittal, 2), None);
    }
}
