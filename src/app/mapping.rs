//! From voxels of the prepared volume (where windows lie) back to voxels of the loaded one (where slices are drawn).

use crate::geometry::{Affine, Axis, BoxF, Extent, VoxelBox, dot};
use crate::network::manifest::{Input, Orientation};
use crate::volume::reorient::{self, reorient};
use crate::volume::{Volume, Voxels};

/// For each axis of the prepared volume: the loaded axis along it, its direction, and loaded voxels per prepared voxel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ToLoaded {
    axis: [usize; 3],
    flipped: [bool; 3],
    scale: [f64; 3],
    loaded: [usize; 3],
}

impl ToLoaded {
    /// The map for a volume of this size and affine, prepared (without padding) to `prepared`.
    pub(super) fn new(
        loaded: Extent,
        affine: Option<Affine>,
        prepared: Extent,
        input: &Input,
    ) -> Self {
        let (axis, flipped) = affine
            .zip(wanted(input))
            .map_or(([0, 1, 2], [false; 3]), |(a, w)| turned(&a, w));
        let loaded = loaded.to_array();
        let prepared = prepared.to_array();
        Self {
            axis,
            flipped,
            scale: std::array::from_fn(|a| loaded[axis[a]] as f64 / prepared[a].max(1) as f64),
            loaded,
        }
    }

    fn along(&self, a: usize, at: f64) -> f64 {
        let at = at * self.scale[a];
        if self.flipped[a] {
            self.loaded[self.axis[a]] as f64 - at
        } else {
            at
        }
    }

    /// A plane across an axis of the prepared volume.
    pub(super) fn map_plane(&self, axis: Axis, at: usize) -> (Axis, f64) {
        let a = axis.index();
        (Axis::ALL[self.axis[a]], self.along(a, at as f64))
    }

    /// A box of the padded volume, in voxel borders of the loaded one.
    pub(super) fn map_box(&self, b: &VoxelBox, pad_before: [usize; 3]) -> BoxF {
        let mut out = [0.0f32; 6];
        for a in 0..3 {
            let shift = pad_before[a] as f64;
            let one = self.along(a, b.min[a] as f64 - shift);
            let two = self.along(a, b.max[a] as f64 - shift);
            out[self.axis[a]] = narrow(one.min(two));
            out[self.axis[a] + 3] = narrow(one.max(two));
        }
        BoxF(out)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a place on screen: the nearest f32 is what is wanted"
)]
const fn narrow(v: f64) -> f32 {
    v as f32
}

fn wanted(input: &Input) -> Option<reorient::Orientation> {
    match input.orientation {
        Orientation::AsStored => None,
        Orientation::Towards(letters) => letters.iter().collect::<String>().parse().ok(),
    }
}

/// Which loaded axis each prepared axis runs along, and whether against it.
fn turned(affine: &Affine, wanted: reorient::Orientation) -> ([usize; 3], [bool; 3]) {
    let one = Volume {
        extent: Extent::cube(1),
        affine: *affine,
        voxels: Voxels::I16(vec![0]),
        padding: None,
        is_hu: true,
        z_spacing_known: true,
    };
    let (own, new) = (
        affine.directions(),
        reorient(&one, wanted).affine.directions(),
    );
    let axis: [usize; 3] = std::array::from_fn(|a| {
        (0..3)
            .max_by(|&i, &j| {
                dot(own[i], new[a])
                    .abs()
                    .total_cmp(&dot(own[j], new[a]).abs())
            })
            .unwrap_or(a)
    });
    (
        axis,
        std::array::from_fn(|a| dot(own[axis[a]], new[a]) < 0.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_a_resampled_and_turned_volume_lie_where_they_are_in_the_loaded_one() {
        let input = Input {
            orientation: "RAS".to_owned().try_into().unwrap(),
            ..Input::default()
        };
        // Loaded LPS, 100 columns; prepared RAS at half the spacing along x.
        let map = ToLoaded::new(
            Extent::new(100, 80, 10),
            Some(Affine::axis_aligned([1.0, 1.0, 2.0])),
            Extent::new(200, 80, 10),
            &input,
        );
        let b = map.map_box(
            &VoxelBox {
                min: [0, 0, 2],
                max: [20, 80, 4],
            },
            [0; 3],
        );
        assert_eq!(b, BoxF([90.0, 0.0, 2.0, 100.0, 80.0, 4.0]));
        assert_eq!(map.map_plane(Axis::X, 20), (Axis::X, 90.0));
        let same = ToLoaded::new(Extent::cube(9), None, Extent::cube(9), &Input::default());
        let padded = same.map_box(
            &VoxelBox {
                min: [3; 3],
                max: [12; 3],
            },
            [3; 3],
        );
        assert_eq!(padded, BoxF([0.0, 0.0, 0.0, 9.0, 9.0, 9.0]));
    }
}
