//! Pictures of a plane on the CPU: physical aspect, window level, nearest or linear. The slice shader is held to it,
//! and reports and thumbnails are made with it.

use super::slice::runs_up;
use super::{Volume, WindowLevel};
use crate::geometry::{Axis, Plane};
use rayon::prelude::*;

/// How values between voxel centres are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// The nearest voxel's value (halves go to the higher index).
    #[default]
    Nearest,
    /// Straight between the four neighbours in the plane; the outermost value within half a voxel of the border.
    Linear,
}

/// Which part of a plane a picture shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SliceView {
    /// The plane.
    pub plane: Plane,
    /// Index along the axis that the plane is cut across.
    pub index: usize,
    /// What lies in the picture's middle: mm to the right and down from the plane's own middle.
    pub center_mm: [f64; 2],
    /// Size of a picture point in mm.
    pub mm_per_pixel: f64,
}

/// A grey picture, row by row from the top left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Points to the right.
    pub width: usize,
    /// Points down.
    pub height: usize,
    /// Grey, 0 to 255; outside the volume 0.
    pub grey: Vec<u8>,
}

impl SliceView {
    /// The view that shows the whole plane in `width` x `height` points, as large as fits.
    pub fn fit(volume: &Volume, plane: Plane, index: usize, width: usize, height: usize) -> Self {
        let [w, h] = plane_mm(volume, plane);
        Self {
            plane,
            index,
            center_mm: [0.0; 2],
            mm_per_pixel: (w / width.max(1) as f64).max(h / height.max(1) as f64),
        }
    }

    /// Voxel index (fractional, along the plane's right and down axes) under a point of a picture of this size.
    /// Whole picture coordinates are the points' corners: the first point's middle is 0.5.
    pub fn index_at(&self, volume: &Volume, size: [usize; 2], point: [f64; 2]) -> [f64; 2] {
        let axes = self.plane.in_plane().map(Axis::index);
        let spacing = volume.affine.spacing_mm();
        std::array::from_fn(|a| {
            let mm = self.center_mm[a] + (point[a] - 0.5 * size[a] as f64) * self.mm_per_pixel;
            let n = volume.extent.to_array()[axes[a]] as f64;
            let off = mm / spacing[axes[a]];
            let along = if a == 1 && runs_up(self.plane) {
                -off
            } else {
                off
            };
            0.5 * (n - 1.0) + along
        })
    }
}

/// Width and height of a plane in mm, voxel borders to voxel borders.
pub fn plane_mm(volume: &Volume, plane: Plane) -> [f64; 2] {
    let spacing = volume.affine.spacing_mm();
    let size = volume.extent.to_array();
    plane
        .in_plane()
        .map(|a| size[a.index()] as f64 * spacing[a.index()])
}

/// The value at a fractional position in a plane; `None` outside the voxels' borders.
pub fn value_at(
    volume: &Volume,
    plane: Plane,
    index: usize,
    at: [f64; 2],
    filter: Filter,
) -> Option<f32> {
    let axes = plane.in_plane().map(Axis::index);
    let size = volume.extent.to_array();
    let outside = |a: usize| !(at[a] >= -0.5 && at[a] < size[axes[a]] as f64 - 0.5);
    if outside(0) || outside(1) {
        return None;
    }
    let voxel = |u: usize, v: usize| {
        let mut p = [0; 3];
        p[plane.across().index()] = index;
        p[axes[0]] = u;
        p[axes[1]] = v;
        volume.at(p)
    };
    match filter {
        Filter::Nearest => voxel(floor(at[0] + 0.5), floor(at[1] + 0.5)),
        Filter::Linear => {
            let [(u0, u1, fu), (v0, v1, fv)] = [0, 1].map(|a| neighbours(at[a], size[axes[a]]));
            let top = mix(voxel(u0, v0)?, voxel(u1, v0)?, fu);
            let bottom = mix(voxel(u0, v1)?, voxel(u1, v1)?, fu);
            Some(mix(top, bottom, fv))
        }
    }
}

/// A picture of `width` x `height` points.
pub fn picture(
    volume: &Volume,
    view: &SliceView,
    window_level: WindowLevel,
    filter: Filter,
    [width, height]: [usize; 2],
) -> Picture {
    let mut grey = vec![0u8; width * height];
    if width > 0 {
        grey.par_chunks_mut(width).enumerate().for_each(|(y, row)| {
            for (x, out) in row.iter_mut().enumerate() {
                let point = [x as f64 + 0.5, y as f64 + 0.5];
                let at = view.index_at(volume, [width, height], point);
                *out = value_at(volume, view.plane, view.index, at, filter)
                    .map_or(0, |v| window_level.grey(v));
            }
        });
    }
    Picture {
        width,
        height,
        grey,
    }
}

/// The whole plane at its physical aspect, `longest` points along its longer side.
pub fn whole_plane(
    volume: &Volume,
    plane: Plane,
    index: usize,
    window_level: WindowLevel,
    filter: Filter,
    longest: usize,
) -> Picture {
    let [w, h] = plane_mm(volume, plane);
    let side = |mm: f64| floor((longest as f64 * mm / w.max(h).max(1e-9) + 0.5).max(1.0));
    let size = [side(w), side(h)];
    let view = SliceView::fit(volume, plane, index, size[0], size[1]);
    picture(volume, &view, window_level, filter, size)
}

fn mix(a: f32, b: f32, t: f32) -> f32 {
    a + (b - a) * t
}

/// The two voxels around a position and the share of the second.
#[expect(clippy::cast_possible_truncation, reason = "a share within 0 and 1")]
fn neighbours(at: f64, size: usize) -> (usize, usize, f32) {
    let at = at.clamp(0.0, size.saturating_sub(1) as f64);
    let low = floor(at);
    let high = (low + 1).min(size.saturating_sub(1));
    (low, high, (at - low as f64) as f32)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "callers hold the value within the volume"
)]
fn floor(at: f64) -> usize {
    at.max(0.0).floor() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Affine, Extent};
    use crate::volume::Voxels;

    fn ramp() -> Volume {
        Volume {
            extent: Extent::new(4, 2, 3),
            affine: Affine::axis_aligned([1.0, 1.0, 4.0]),
            voxels: Voxels::I16((0..24).map(|v| v * 10).collect()),
            padding: None,
            is_hu: true,
            z_spacing_known: true,
        }
    }

    #[test]
    fn thick_slices_are_drawn_as_tall_as_they_are() {
        let p = whole_plane(
            &ramp(),
            Plane::Coronal,
            0,
            WindowLevel::SOFT,
            Filter::Nearest,
            12,
        );
        assert_eq!((p.width, p.height), (4, 12));
        let level = WindowLevel::new(100.0, 200.0);
        let p = whole_plane(&ramp(), Plane::Coronal, 0, level, Filter::Nearest, 12);
        // The top row is the last slice.
        assert_eq!(p.grey[0], level.grey(160.0));
        assert_eq!(p.grey[4 * 11], level.grey(0.0));
    }

    #[test]
    fn linear_lies_between_neighbours_and_nearest_takes_one() {
        let v = ramp();
        let at = |filter, x| value_at(&v, Plane::Axial, 0, [x, 0.5], filter);
        assert_eq!(at(Filter::Linear, 1.5), Some(35.0));
        assert_eq!(at(Filter::Nearest, 1.5), Some(60.0));
        assert_eq!(at(Filter::Linear, -0.5), Some(20.0));
        assert_eq!(at(Filter::Linear, -0.6), None);
        assert_eq!(at(Filter::Linear, 3.49), Some(50.0));
        assert_eq!(at(Filter::Nearest, 3.5), None);
    }

    #[test]
    fn what_lies_outside_the_volume_is_black() {
        let view = SliceView {
            plane: Plane::Axial,
            index: 0,
            center_mm: [0.0; 2],
            mm_per_pixel: 1.0,
        };
        let p = picture(
            &ramp(),
            &view,
            WindowLevel::new(0.0, 1.0),
            Filter::Linear,
            [8, 2],
        );
        assert_eq!(p.grey[..2], [0, 0]);
        assert_eq!(p.grey[3], 255);
    }
}
