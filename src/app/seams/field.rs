//! Values of an output seen from the loaded volume: where each lies, the worst place near each seam, and a slice of them as a picture.

use crate::app::view::SeamMap;
use crate::exchange::result::{PlanRecord, SeamRecord};
use crate::geometry::{Axis, Extent, Plane};
use crate::report::ink;
use crate::review::seams::MismatchMap;
use crate::tiling::AxesOrder;
use crate::tiling::stitch::Stitched;
use std::sync::Arc;

/// Where the voxels of an output lie in the loaded volume, and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Place in the output (tensor order) of loaded voxel (0, 0, 0).
    origin: [f64; 3],
    /// Steps in the output per step along each loaded axis.
    step: [[f64; 3]; 3],
    /// Size of the output, in the tensor's axis order.
    pub spatial: [usize; 3],
    stride: [f64; 3],
    pad_before: [usize; 3],
}

/// The worst place near a seam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// The seam's axis in the prepared volume.
    pub axis: Axis,
    /// The seam's place there.
    pub at: usize,
    /// The value.
    pub value: f32,
    /// Where, in voxels of the loaded volume.
    pub loaded: [f64; 3],
}

impl Grid {
    /// The grid of an output over the prepared volume (padding cut away).
    pub fn of_output(plan: &PlanRecord, spatial: [usize; 3]) -> Option<Self> {
        let prepared = plan.axes.reorder(plan.prepared_volume.to_array());
        let stride = std::array::from_fn(|a| {
            let ratio = prepared[a] as f64 / spatial[a].max(1) as f64;
            // Outputs are a whole number of voxels coarser, but for what rounding at the end leaves.
            if ratio >= 1.0 { ratio.round() } else { ratio }
        });
        Self::new(plan, spatial, stride, [0; 3])
    }

    /// The grid of an output of this stride over the padded volume.
    pub fn new(
        plan: &PlanRecord,
        spatial: [usize; 3],
        stride: [f64; 3],
        pad_before: [usize; 3],
    ) -> Option<Self> {
        let place = |loaded: [f64; 3]| -> Option<[f64; 3]> {
            let q = plan.axes.reorder(to_prepared(plan, loaded)?);
            Some(std::array::from_fn(|a| {
                (q[a] + pad_before[a] as f64 + 0.5) / stride[a] - 0.5
            }))
        };
        let origin = place([0.0; 3])?;
        let mut step = [[0.0; 3]; 3];
        for (a, step) in step.iter_mut().enumerate() {
            let mut one = [0.0; 3];
            one[a] = 1.0;
            let there = place(one)?;
            *step = std::array::from_fn(|t| there[t] - origin[t]);
        }
        Some(Self {
            origin,
            step,
            spatial,
            stride,
            pad_before,
        })
    }

    /// The border between two voxels of the output, along its axis `t`, that a border of the prepared volume falls on.
    pub fn border(&self, t: usize, at: usize) -> usize {
        let border = (at + self.pad_before[t]) as f64 / self.stride[t];
        index(border, self.spatial[t] + 1).unwrap_or(self.spatial[t])
    }

    /// The place in the output of a position in the loaded volume (voxel indices).
    pub fn place(&self, loaded: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|t| {
            self.origin[t] + (0..3).map(|a| loaded[a] * self.step[a][t]).sum::<f64>()
        })
    }

    /// The output's voxel nearest to a position of the loaded volume; `None` outside.
    pub fn voxel(&self, loaded: [f64; 3]) -> Option<[usize; 3]> {
        let p = self.place(loaded);
        let mut out = [0; 3];
        for t in 0..3 {
            out[t] = index(p[t], self.spatial[t])?;
        }
        Some(out)
    }

    /// The position in the loaded volume of a place in the output.
    pub fn loaded(&self, place: [f64; 3]) -> Option<[f64; 3]> {
        let affine = crate::geometry::Affine {
            step: self.step,
            origin: self.origin,
        };
        affine.to_index(place).ok()
    }

    /// The loaded axis that an axis of the output runs along.
    pub fn loaded_axis(&self, t: usize) -> usize {
        let along = |a: &usize| self.step[*a][t].abs();
        (0..3)
            .max_by(|a, b| along(a).total_cmp(&along(b)))
            .unwrap_or(t)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be within 0..n before the cast"
)]
fn index(at: f64, n: usize) -> Option<usize> {
    let at = at.round();
    (at >= 0.0 && at < n as f64).then_some(at as usize)
}

/// A position of the loaded volume in the prepared one (voxel indices); older results kept no affines, only sizes.
fn to_prepared(plan: &PlanRecord, loaded: [f64; 3]) -> Option<[f64; 3]> {
    if let (Some(own), Some(prepared)) = (&plan.loaded_affine, &plan.prepared_affine) {
        return prepared.to_index(own.to_patient(loaded)).ok();
    }
    let (from, to) = (
        plan.loaded_volume.to_array(),
        plan.prepared_volume.to_array(),
    );
    Some(std::array::from_fn(|a| {
        (loaded[a] + 0.5) * to[a] as f64 / from[a].max(1) as f64 - 0.5
    }))
}

/// Where a seam of the prepared volume lies in the loaded one: the axis across it, and its place in voxel borders.
pub(super) fn seam_place(plan: &PlanRecord, axis: Axis, at: usize) -> Option<(Axis, f64)> {
    let a = axis.index();
    // A grid of the prepared volume's own voxels, in x, y, z order.
    let own = PlanRecord {
        axes: AxesOrder::Xyz,
        ..plan.clone()
    };
    let size = plan.prepared_volume.to_array();
    let grid = Grid::new(&own, size, [1.0; 3], [0; 3])?;
    let mut place = size.map(|n| n as f64 / 2.0 - 0.5);
    place[a] = at as f64 - 0.5;
    let to = grid.loaded_axis(a);
    Some((Axis::ALL[to], grid.loaded(place)?[to] + 0.5))
}

/// Voxels of an output on each side of a seam that count as near it.
const NEAR: usize = 2;

/// The worst place near each seam of what `value` says at each voxel (C order).
pub(super) fn peaks(
    grid: &Grid,
    seams: &SeamRecord,
    axes: AxesOrder,
    value: impl Fn(usize) -> f32,
) -> Vec<Peak> {
    let [_, b, c] = grid.spatial;
    let order = axes.reorder([0, 1, 2]);
    let mut out = Vec::new();
    for plane in &seams.planes {
        let a = plane.axis.index();
        let t = order.iter().position(|o| *o == a).unwrap_or(a);
        let place = grid.border(t, plane.at);
        let mut size = grid.spatial;
        let from = place.saturating_sub(NEAR);
        size[t] = (place + NEAR).min(grid.spatial[t]).saturating_sub(from);
        let mut best: Option<(f32, [usize; 3])> = None;
        for i in 0..size[0] {
            for j in 0..size[1] {
                for k in 0..size[2] {
                    let mut p = [i, j, k];
                    p[t] += from;
                    let v = value((p[0] * b + p[1]) * c + p[2]);
                    if best.is_none_or(|(most, _)| v > most) {
                        best = Some((v, p));
                    }
                }
            }
        }
        let found = best.filter(|(v, _)| *v > 0.0);
        if let Some((value, p)) = found
            && let Some(loaded) = grid.loaded(p.map(|i| i as f64))
        {
            out.push(Peak {
                axis: plane.axis,
                at: plane.at,
                value,
                loaded,
            });
        }
    }
    out
}

/// What a picture is made of.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// Where windows disagree.
    Mismatch(Arc<MismatchMap>),
    /// The run's output and the reference's, and whether each channel stands alone.
    Difference(Arc<Stitched>, Arc<Stitched>, bool),
    /// Scores.
    Score(Arc<Stitched>, bool),
}

impl Source {
    pub(super) fn grid(&self, plan: &PlanRecord) -> Option<Grid> {
        match self {
            Self::Mismatch(m) => Grid::new(plan, m.spatial, m.stride, m.pad_before),
            Self::Difference(s, ..) | Self::Score(s, _) => Grid::of_output(plan, s.spatial),
        }
    }

    /// The value at a voxel; `None` where none was looked at.
    fn value(&self, [i, j, k]: [usize; 3]) -> Option<f32> {
        match self {
            Self::Mismatch(m) => {
                let [_, b, c] = m.spatial;
                let v = *m.values.get(((i / m.one_in) * b + j) * c + k)?;
                (v > 0.0).then_some(v)
            }
            Self::Difference(x, y, each) => {
                let [_, b, c] = x.spatial;
                let (x, y) = (
                    super::outputs::kept(x, *each),
                    super::outputs::kept(y, *each),
                );
                Some(x.signed(&y, (i * b + j) * c + k))
            }
            Self::Score(s, each) => {
                let [_, b, c] = s.spatial;
                Some(super::outputs::kept(s, *each).score((i * b + j) * c + k))
            }
        }
    }
}

/// A slice of a map as colours over the loaded slice, one pixel a voxel: rows along the second in-plane axis.
#[derive(Clone, Debug, PartialEq)]
pub struct MapPicture {
    /// Tells one from the next.
    pub key: u64,
    /// Which map it is of.
    pub map: SeamMap,
    /// The loaded axis across it.
    pub across: usize,
    /// The loaded axes to the right and down in the picture, lowest index first.
    pub axes: [usize; 2],
    /// Pixels to the right and down.
    pub size: [usize; 2],
    /// Red, green, blue, alpha, not multiplied.
    pub rgba: Vec<u8>,
    /// The end of the colour scale.
    pub scale: f32,
    /// Whether colours stand for both signs.
    pub signed: bool,
}

impl MapPicture {
    /// Draws the slice `index` of `plane` of a loaded volume of this size.
    pub(super) fn new(
        (key, map): (u64, SeamMap),
        source: &Source,
        plan: &PlanRecord,
        (extent, across, index): (Extent, usize, usize),
        scale: f32,
    ) -> Option<Self> {
        let grid = source.grid(plan)?;
        let axes = match across {
            0 => [1, 2],
            1 => [0, 2],
            _ => [0, 1],
        };
        let size = axes.map(|a| extent.to_array()[a]);
        let signed = matches!(source, Source::Difference(..));
        let mut rgba = vec![0; size[0] * size[1] * 4];
        let mut at = [index as f64; 3];
        for (row, line) in rgba.chunks_exact_mut(size[0].max(1) * 4).enumerate() {
            at[axes[1]] = row as f64;
            for (column, pixel) in line.chunks_exact_mut(4).enumerate() {
                at[axes[0]] = column as f64;
                if let Some(v) = grid.voxel(at).and_then(|p| source.value(p)) {
                    pixel.copy_from_slice(&color(v, scale, signed));
                }
            }
        }
        Some(Self {
            key,
            map,
            across,
            axes,
            size,
            rgba,
            scale,
            signed,
        })
    }
}

/// A value as colour: alpha 10 % rising to 82 % at a third of the range; what is 0 is clear.
fn color(v: f32, scale: f32, signed: bool) -> [u8; 4] {
    let share = if scale > 0.0 { v / scale } else { 0.0 };
    if share == 0.0 || share.is_nan() {
        return [0; 4];
    }
    let [r, g, b] = if signed {
        ink::diverging(f64::from(share))
    } else {
        ink::inferno(f64::from(share))
    };
    let alpha = if signed {
        // Both signs are everywhere: what is small must leave the picture legible.
        0.82 * share.abs().min(1.0).sqrt() * (share.abs() * 4.0).min(1.0)
    } else {
        0.10 + 0.72 * (share.abs() * 3.0).min(1.0)
    };
    [r, g, b, eight_bits(alpha)]
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of 0 to 1"
)]
fn eight_bits(share: f32) -> u8 {
    (share.clamp(0.0, 1.0) * 255.0).round() as u8
}

/// The axis across a plane of a loaded volume, as the slice views have it.
pub(super) const fn across(plane: Plane) -> usize {
    plane.across().index()
}
