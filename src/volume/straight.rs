//! Resampling (linear) of a leaning, gapped or unevenly stepped volume to a straight grid: axes at right angles, one step.
//! Rows keep their direction and the first slice its place on the grid, so what is straight already is copied, not blurred.

use super::{Statistics, Volume, Voxels, is_padding, whole_i16};
use crate::geometry::{Affine, Extent, cross, dot};
use crate::jobs::{Cancelled, Control};
use rayon::prelude::*;

/// A slice this close (mm) to a height of the grid is taken as it is: the reader's measure of even steps.
const SAME_HEIGHT: f64 = 0.01;
/// Positions this close (voxels) to a voxel's centre are that voxel.
const SAME_VOXEL: f64 = 1e-5;
/// Rows and columns this close to a right angle (cosine) count as one.
const RIGHT_ANGLE: f64 = 1e-4;
/// More slices than any scanner makes: a grid of more comes of a step that is no distance between slices.
const MOST_SLICES: usize = 100_000;

/// A volume that cannot be brought to a straight grid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StraightError {
    /// The voxels span no volume.
    #[error(
        "cannot resample to a straight grid: the steps along rows, columns and slices span no volume; check pixel spacing and slice positions"
    )]
    Flat,
    /// Positions that do not rise from slice to slice.
    #[error(
        "cannot resample to a straight grid: slice {slice} lies {rise_mm} mm above the one before, expected more than 0; check the slice positions"
    )]
    NotRising {
        /// The slice.
        slice: usize,
        /// Its height above the slice before, mm.
        rise_mm: f64,
    },
    /// More voxels than the machine holds.
    #[error(
        "cannot resample to a straight grid: it would have {found} voxels, which no scanner makes or the machine's memory does not hold; check the slice positions or use a smaller series"
    )]
    TooLarge {
        /// Size of the grid.
        found: Extent,
    },
    /// Stopped on request.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Where a slice of the grid lies among the volume's own slices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// The slice below (or at) it.
    pub low: usize,
    /// The slice above (or at) it.
    pub high: usize,
    /// The share of the slice above, 0 to below 1; 0 where it is a slice of the volume.
    pub share: f64,
    /// How far a row and a column of the volume's slice lie from where the first slice has them, mm along the grid's x and y.
    pub shift_mm: [f64; 2],
}

/// A straight grid that covers a volume, known without touching a voxel.
#[derive(Clone, Debug, PartialEq)]
pub struct StraightGrid {
    /// Its size.
    pub extent: Extent,
    /// Its affine: rows, columns and slices at right angles.
    pub affine: Affine,
    /// Where each of its slices lies among the volume's own.
    pub slices: Vec<Between>,
    source: Extent,
    /// First column and row of the grid, in steps from the first slice's own first voxel.
    first: [f64; 2],
    /// Spacing of columns and rows, mm.
    spacing: [f64; 2],
    /// How far a row starts beside the row above it, mm along the rows; 0 for slices that are rectangles.
    slant: f64,
}

/// A volume on a straight grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Straightened {
    /// The volume; its padding is what lies outside the acquired voxels.
    pub volume: Volume,
    /// The value of voxels outside the acquired ones.
    pub padding: f32,
    /// How many there are.
    pub n_padding: u64,
}

fn scaled(a: [f64; 3], s: f64) -> [f64; 3] {
    a.map(|x| x * s)
}

fn plus(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|r| a[r] + b[r])
}

/// Whether an affine's three steps stand at right angles, within a ten-thousandth.
pub fn is_straight(affine: &Affine) -> bool {
    let d = affine.directions();
    [(0, 1), (0, 2), (1, 2)]
        .iter()
        .all(|&(a, b)| dot(d[a], d[b]).abs() <= RIGHT_ANGLE)
}

impl StraightGrid {
    /// The grid for a volume: `positions` are those of each slice's first voxel (LPS, mm); without them the affine tells.
    /// Its step along the normal is the affine's, which a reader takes from the commonest step.
    pub fn of(
        extent: Extent,
        affine: &Affine,
        positions: Option<&[[f64; 3]]>,
    ) -> Result<Self, StraightError> {
        let [across, down, up] = affine.step;
        let width = dot(across, across).sqrt();
        if extent.is_empty() || !(width > 0.0 && width.is_finite()) {
            return Err(StraightError::Flat);
        }
        let x = scaled(across, 1.0 / width);
        let slant = dot(down, x);
        let upright = plus(down, scaled(x, -slant));
        let height = dot(upright, upright).sqrt();
        if !(height > 0.0 && height.is_finite()) {
            return Err(StraightError::Flat);
        }
        let y = scaled(upright, 1.0 / height);
        let rectangle = slant.abs() <= RIGHT_ANGLE * height;
        let (slant, row_step, spacing) = if rectangle {
            (0.0, down, [width, dot(down, down).sqrt()])
        } else {
            (slant, upright, [width, height])
        };
        let normal = cross(x, y);
        let normal = scaled(normal, if dot(up, normal) < 0.0 { -1.0 } else { 1.0 });
        let step = dot(up, normal);
        if !(step > 0.0 && step.is_finite()) {
            return Err(StraightError::Flat);
        }
        let positions = positions.filter(|p| p.len() == extent.z);
        let base = positions.and_then(<[_]>::first).copied();
        let base = base.unwrap_or(affine.origin);
        let places: Vec<[f64; 3]> = (0..extent.z)
            .map(|k| {
                let from_base = match positions {
                    Some(p) => plus(p[k], scaled(base, -1.0)),
                    None => scaled(up, k as f64),
                };
                [x, y, normal].map(|axis| dot(from_base, axis))
            })
            .collect();
        rising(&places)?;
        let z = slice_count(&places, step);
        if z > MOST_SLICES.max(extent.z) {
            let found = Extent { z, ..extent };
            return Err(StraightError::TooLarge { found });
        }
        let slices = slices(&places, step, z);
        let (first, size) = covered(extent, &places, spacing, slant);
        Ok(Self {
            extent: Extent::new(size[0], size[1], slices.len()),
            affine: Affine {
                step: [across, row_step, scaled(normal, step)],
                origin: plus(
                    base,
                    plus(scaled(across, first[0]), scaled(row_step, first[1])),
                ),
            },
            slices,
            source: extent,
            first,
            spacing,
            slant,
        })
    }

    /// Whether the volume lies on its straight grid already: every voxel would be copied.
    pub fn is_copy(&self) -> bool {
        self.extent == self.source
            && self.slant == 0.0
            && self.slices.iter().enumerate().all(|(k, s)| {
                let moved = |a: usize| (s.shift_mm[a] / self.spacing[a]).abs() > SAME_VOXEL;
                s.low == k && s.share == 0.0 && !moved(0) && !moved(1)
            })
    }

    /// The volume on this grid. Voxels that do not lie between acquired ones, or next to padding, are padding.
    pub fn resample(
        &self,
        volume: &Volume,
        control: &Control,
    ) -> Result<Straightened, StraightError> {
        let found = self.extent;
        let too_large = || StraightError::TooLarge { found };
        let n = found.checked_voxels().ok_or_else(too_large)?;
        let mut values: Vec<f32> = Vec::new();
        values
            .try_reserve_exact(n)
            .map_err(|_no_room| too_large())?;
        values.resize(n, 0.0);
        let padding = padding_for(volume);
        let holes = volume.padding;
        control.begin(found.z as u64);
        let n_padding = values
            .par_chunks_mut(found.x * found.y)
            .zip(&self.slices)
            .map(|(plane, between)| {
                control.check()?;
                let n = match &volume.voxels {
                    Voxels::I16(v) => self.plane(v, holes, between, padding, plane),
                    Voxels::F32(v) => self.plane(v, holes, between, padding, plane),
                };
                control.advance(1);
                Ok(n)
            })
            .collect::<Result<Vec<u64>, Cancelled>>()?
            .into_iter()
            .sum();
        Ok(Straightened {
            volume: Volume {
                extent: found,
                affine: self.affine,
                voxels: narrowed(values),
                padding: (n_padding > 0).then_some((padding, padding)),
                is_hu: volume.is_hu,
                z_spacing_known: volume.z_spacing_known,
            },
            padding,
            n_padding,
        })
    }

    /// Fills one slice of the grid; how many of its voxels are padding.
    fn plane<T: Copy + Into<f64>>(
        &self,
        values: &[T],
        holes: Option<(f32, f32)>,
        between: &Between,
        padding: f32,
        plane: &mut [f32],
    ) -> u64 {
        let [nx, ny, _] = self.source.to_array();
        let hole = |v: f64| is_padding(v, holes);
        // One source row, blended of up to four; not-a-value marks padding.
        let mut row: Vec<Option<f64>> = vec![None; nx];
        let mut n_padding = 0;
        for (j, out) in plane.chunks_exact_mut(self.extent.x).enumerate() {
            let down = self.first[1] + j as f64 - between.shift_mm[1] / self.spacing[1];
            let Some(y) = Tap::at(down, ny) else {
                out.fill(padding);
                n_padding += out.len() as u64;
                continue;
            };
            let start = |j: usize, k: usize| (k * ny + j) * nx;
            let rows = [
                (y.low, between.low),
                (y.high, between.low),
                (y.low, between.high),
                (y.high, between.high),
            ]
            .map(|(j, k)| &values[start(j, k)..start(j, k) + nx]);
            let whole = y.share == 0.0 && between.share == 0.0;
            for (i, to) in row.iter_mut().enumerate() {
                let [a, b, c, d] = rows.map(|r| r[i].into());
                *to = if whole {
                    (!hole(a)).then_some(a)
                } else if hole(a) || hole(b) || hole(c) || hole(d) {
                    None
                } else {
                    Some(mix(mix(a, b, y.share), mix(c, d, y.share), between.share))
                };
            }
            let beside = (between.shift_mm[0] + self.slant * down) / self.spacing[0];
            let offset = self.first[0] - beside;
            for (i, to) in out.iter_mut().enumerate() {
                let value = Tap::at(offset + i as f64, nx).and_then(|x| {
                    let low = row[x.low]?;
                    if x.share == 0.0 {
                        Some(low)
                    } else {
                        Some(mix(low, row[x.high]?, x.share))
                    }
                });
                n_padding += u64::from(value.is_none());
                *to = value.map_or(padding, narrow);
            }
        }
        n_padding
    }
}

/// Heights must rise, or nothing lies between two slices.
fn rising(places: &[[f64; 3]]) -> Result<(), StraightError> {
    for (slice, pair) in (1..).zip(places.windows(2)) {
        let rise_mm = pair[1][2] - pair[0][2];
        if rise_mm.is_nan() || rise_mm <= 0.0 {
            return Err(StraightError::NotRising { slice, rise_mm });
        }
    }
    Ok(())
}

/// How many slices in even steps come nearest to the last slice.
fn slice_count(places: &[[f64; 3]], step: f64) -> usize {
    let height = places.last().map_or(0.0, |p| p[2]);
    count((height / step).round()).saturating_add(1)
}

/// The grid's slices: `n` from the first slice on in even steps.
fn slices(places: &[[f64; 3]], step: f64, n: usize) -> Vec<Between> {
    let last = places.len() - 1;
    let near = SAME_HEIGHT.min(0.1 * step);
    (0..n)
        .map(|m| {
            let height = m as f64 * step;
            let above = places.partition_point(|p| p[2] < height - near).min(last);
            if above == 0 || places[above][2] <= height + near {
                return Between {
                    low: above,
                    high: above,
                    share: 0.0,
                    shift_mm: [places[above][0], places[above][1]],
                };
            }
            let (a, b) = (places[above - 1], places[above]);
            let share = (height - a[2]) / (b[2] - a[2]);
            Between {
                low: above - 1,
                high: above,
                share,
                shift_mm: [0, 1].map(|r| mix(a[r], b[r], share)),
            }
        })
        .collect()
}

/// First column and row, and how many of each, so that every voxel of every slice is covered.
fn covered(
    extent: Extent,
    places: &[[f64; 3]],
    spacing: [f64; 2],
    slant: f64,
) -> ([f64; 2], [usize; 2]) {
    let reach = [extent.x, extent.y].map(|n| (n - 1) as f64);
    let slanted = [slant * reach[1], 0.0];
    let (mut first, mut size) = ([0.0; 2], [0; 2]);
    for a in 0..2 {
        let low = places.iter().map(|p| p[a]).fold(f64::INFINITY, f64::min);
        let high = places
            .iter()
            .map(|p| p[a])
            .fold(f64::NEG_INFINITY, f64::max);
        let from = (low + slanted[a].min(0.0)) / spacing[a];
        let to = (high + slanted[a].max(0.0)) / spacing[a] + reach[a];
        first[a] = (from + SAME_VOXEL).floor();
        size[a] = count((to - SAME_VOXEL).ceil() - first[a]) + 1;
    }
    (first, size)
}

/// A value below every value of the volume, and no more than that of air, so that padding is told from the rest.
fn padding_for(volume: &Volume) -> f32 {
    let lowest = Statistics::of(volume).map_or(0.0, |s| s.min);
    let below = (lowest - 1.0).floor();
    // Far from zero the next whole number is the same float.
    let below = if below < lowest {
        below
    } else {
        lowest.next_down()
    };
    if volume.is_hu {
        below.min(-1024.0)
    } else {
        below
    }
}

/// The two voxels that a position lies between and the share of the second; `None` outside.
#[derive(Clone, Copy)]
struct Tap {
    low: usize,
    high: usize,
    share: f64,
}

impl Tap {
    fn at(position: f64, n: usize) -> Option<Self> {
        let near = position.round();
        if (position - near).abs() <= SAME_VOXEL {
            let one = count(near);
            return (near >= 0.0 && one < n).then_some(Self {
                low: one,
                high: one,
                share: 0.0,
            });
        }
        let floor = position.floor();
        let low = count(floor);
        (floor >= 0.0 && low + 1 < n).then(|| Self {
            low,
            high: low + 1,
            share: position - floor,
        })
    }
}

/// One int16 copy where every value turned out whole.
fn narrowed(values: Vec<f32>) -> Voxels {
    let whole: Option<Vec<i16>> = values.iter().map(|&v| whole_i16(v.into())).collect();
    whole.map_or(Voxels::F32(values), Voxels::I16)
}

fn mix(a: f64, b: f64, t: f64) -> f64 {
    a + (b - a) * t
}

#[expect(clippy::cast_possible_truncation, reason = "nearest float32 is meant")]
fn narrow(v: f64) -> f32 {
    v as f32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole; below zero becomes 0 and is refused by callers, too large saturates"
)]
fn count(v: f64) -> usize {
    v.max(0.0) as usize
}

#[cfg(test)]
mod tests;
