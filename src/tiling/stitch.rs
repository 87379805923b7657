//! From windows to whole outputs: blended by weights, or copied core by core. All of it in the tensor's axis order.

use super::{Layout, TilingPlan, importance};
use crate::geometry::VoxelBox;
use crate::units::Bytes;

/// What a network gives for one window, per output: channels and spatial size in the tensor's axis order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputShape {
    /// Channels.
    pub channels: usize,
    /// Spatial size for one window.
    pub spatial: [usize; 3],
}

/// Where the channels of a window's output lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelOrder {
    /// `(channels, axis 0, axis 1, axis 2)`.
    First,
    /// `(axis 0, axis 1, axis 2, channels)`.
    Last,
}

/// How one output lies in the padded volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Zoom {
    /// Size for one window.
    pub(crate) patch: [usize; 3],
    /// Window size in input voxels.
    roi: [usize; 3],
    /// Size over the padded volume.
    pub(crate) full: [usize; 3],
}

impl Zoom {
    pub(crate) fn new(shape: &OutputShape, roi: [usize; 3], padded: [usize; 3]) -> Self {
        let mut zoom = Self {
            patch: shape.spatial,
            roi,
            full: [0; 3],
        };
        zoom.full = std::array::from_fn(|a| zoom.at(a, padded[a]));
        zoom
    }

    fn place(&self, p: [usize; 3]) -> [usize; 3] {
        std::array::from_fn(|a| self.at(a, p[a]))
    }

    /// int(position x zoom) along an axis, as MONAI computes it: in float64.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position times a ratio, both not below 0 and far below 2^53"
    )]
    pub(crate) fn at(&self, a: usize, position: usize) -> usize {
        if self.patch[a] == self.roi[a] {
            return position;
        }
        (position as f64 * (self.patch[a] as f64 / self.roi[a] as f64)) as usize
    }

    /// Input voxels per voxel of the output.
    pub(crate) fn stride(&self) -> [f64; 3] {
        std::array::from_fn(|a| self.roi[a] as f64 / self.patch[a].max(1) as f64)
    }

    /// round(position x zoom) along an axis, half to even, as MONAI crops.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position times a ratio, both not below 0 and far below 2^53"
    )]
    fn round(&self, a: usize, position: usize) -> usize {
        (position as f64 * (self.patch[a] as f64 / self.roi[a] as f64)).round_ties_even() as usize
    }
}

/// One output being stitched.
#[derive(Clone, Debug)]
struct Accumulator {
    channels: usize,
    zoom: Zoom,
    /// Weight of each voxel of a window; empty where cores are copied.
    weight: Vec<f32>,
    sum: Vec<f32>,
    /// Sum of weights; empty where cores are copied.
    count: Vec<f32>,
}

/// Windows that cannot be stitched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StitchError {
    /// An output of another length than planned.
    #[error(
        "output {output} of window {window} has {found} values; {expected} were planned: the engine and the plan disagree"
    )]
    Length {
        /// Which output.
        output: usize,
        /// Which window.
        window: usize,
        /// Values planned.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// A window's place in an output has another size than the output itself.
    #[error(
        "window {window} lands on {landed:?} voxels of output {output}, which has {found:?}: use a roi that is a multiple of the network's total stride"
    )]
    Misfit {
        /// Which output.
        output: usize,
        /// Which window.
        window: usize,
        /// Size of its place.
        landed: [usize; 3],
        /// Size of what the network gives.
        found: [usize; 3],
    },
    /// Not enough host memory.
    #[error(
        "the stitched outputs take {needed} of host memory, which could not be had; use a smaller volume or free memory"
    )]
    Memory {
        /// Bytes asked for.
        needed: Bytes,
    },
}

/// A stitched output over the prepared volume, C order `(channels, axis 0, axis 1, axis 2)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Stitched {
    /// Channels.
    pub channels: usize,
    /// Spatial size, in the tensor's axis order.
    pub spatial: [usize; 3],
    /// `channels * spatial` values.
    pub values: Vec<f32>,
}

/// Adds up windows into whole outputs. Everything is allocated when it is made; nothing after.
#[derive(Clone, Debug)]
pub struct Stitcher {
    outputs: Vec<Accumulator>,
    roi: Vec<VoxelBox>,
    core: Vec<VoxelBox>,
    copies: bool,
    /// Where the volume lies in the padding of a roi larger than it (all of the padded volume where cores are copied).
    kept: VoxelBox,
}

fn permuted(b: &VoxelBox, plan: &TilingPlan) -> VoxelBox {
    VoxelBox {
        min: plan.axes.reorder(b.min),
        max: plan.axes.reorder(b.max),
    }
}

/// Host bytes that the sums and the count maps of a plan take.
pub fn bytes_needed(plan: &TilingPlan, shapes: &[OutputShape]) -> (Bytes, Bytes) {
    let roi = plan.axes.reorder(plan.roi.to_array());
    let padded = plan.axes.reorder(plan.padded.to_array());
    let copies = plan.spec.layout == Layout::Aligned;
    let (mut sums, mut counts) = (Bytes::ZERO, Bytes::ZERO);
    for s in shapes {
        let voxels: u64 = Zoom::new(s, roi, padded)
            .full
            .iter()
            .fold(1, |p: u64, &n| p.saturating_mul(n as u64));
        sums = sums.saturating_add(Bytes(voxels.saturating_mul(4 * s.channels as u64)));
        if !copies {
            counts = counts.saturating_add(Bytes(voxels.saturating_mul(4)));
        }
    }
    (sums, counts)
}

fn zeros(n: usize, needed: Bytes) -> Result<Vec<f32>, StitchError> {
    let mut v = Vec::new();
    v.try_reserve_exact(n)
        .map_err(|_no_room| StitchError::Memory { needed })?;
    v.resize(n, 0.0);
    Ok(v)
}

impl Stitcher {
    /// Accumulators for a plan and the network's outputs for one window, in output order.
    ///
    /// In layout monai with blend gaussian each output's weights are resampled from the *previous* output's, as MONAI does.
    pub fn new(
        plan: &TilingPlan,
        shapes: &[OutputShape],
        sigma_scale: f64,
    ) -> Result<Self, StitchError> {
        let roi = plan.axes.reorder(plan.roi.to_array());
        let padded = plan.axes.reorder(plan.padded.to_array());
        let copies = plan.spec.layout == Layout::Aligned;
        let (sums, counts) = bytes_needed(plan, shapes);
        let needed = sums.saturating_add(counts);
        let whole = if copies {
            Vec::new()
        } else {
            importance::map(roi, plan.spec.blend, sigma_scale)
        };
        let mut previous = (roi, whole.clone());
        let mut outputs = Vec::with_capacity(shapes.len());
        for s in shapes {
            let zoom = Zoom::new(s, roi, padded);
            let n: usize = zoom.full.iter().product();
            let weight = if copies {
                Vec::new()
            } else if s.spatial == roi {
                whole.clone()
            } else if plan.spec.layout == Layout::Monai {
                importance::nearest_exact(&previous.1, previous.0, s.spatial)
            } else {
                importance::nearest_exact(&whole, roi, s.spatial)
            };
            if !copies {
                previous = (s.spatial, weight.clone());
            }
            outputs.push(Accumulator {
                channels: s.channels,
                zoom,
                weight,
                sum: zeros(n * s.channels, needed)?,
                count: zeros(if copies { 0 } else { n }, needed)?,
            });
        }
        let kept = if copies {
            VoxelBox::at([0; 3], plan.padded)
        } else {
            VoxelBox::at(plan.pad_before, plan.volume)
        };
        Ok(Self {
            outputs,
            roi: plan
                .windows
                .iter()
                .map(|w| permuted(&w.roi, plan))
                .collect(),
            core: plan
                .windows
                .iter()
                .map(|w| permuted(&w.core, plan))
                .collect(),
            copies,
            kept: permuted(&kept, plan),
        })
    }

    /// Adds one output of one window. Windows are added in plan order, each output once.
    pub fn add(
        &mut self,
        window: usize,
        output: usize,
        values: &[f32],
        order: ChannelOrder,
    ) -> Result<(), StitchError> {
        let (roi, core) = (self.roi[window], self.core[window]);
        let acc = &mut self.outputs[output];
        let expected = acc.channels * acc.zoom.patch.iter().product::<usize>();
        if values.len() != expected {
            return Err(StitchError::Length {
                output,
                window,
                expected,
                found: values.len(),
            });
        }
        let (min, max) = (acc.zoom.place(roi.min), acc.zoom.place(roi.max));
        let landed: [usize; 3] = std::array::from_fn(|a| max[a] - min[a]);
        if landed != acc.zoom.patch || (0..3).any(|a| max[a] > acc.zoom.full[a]) {
            return Err(StitchError::Misfit {
                output,
                window,
                landed,
                found: acc.zoom.patch,
            });
        }
        if self.copies {
            acc.copy(&roi, &core, values, order);
        } else {
            acc.blend(&roi, values, order);
        }
        Ok(())
    }

    /// Divides by the sum of weights and cuts away the padding of a volume smaller than the roi.
    pub fn finish(self) -> Vec<Stitched> {
        let (kept, copies) = (self.kept, self.copies);
        self.outputs
            .into_iter()
            .map(|acc| acc.finish(&kept, copies))
            .collect()
    }
}

impl Accumulator {
    /// Calls `row(index in the patch, index in the whole, length)` for each run of fastest-axis voxels in `part` of a window.
    fn rows(&self, roi: &VoxelBox, part: &VoxelBox, mut row: impl FnMut(usize, usize, usize)) {
        let at = |p| self.zoom.place(p);
        let (origin, lo, hi) = (at(roi.min), at(part.min), at(part.max));
        let (patch, full) = (self.zoom.patch, self.zoom.full);
        let n = hi[2] - lo[2];
        for i in lo[0]..hi[0] {
            for j in lo[1]..hi[1] {
                let from =
                    ((i - origin[0]) * patch[1] + j - origin[1]) * patch[2] + lo[2] - origin[2];
                row(from, (i * full[1] + j) * full[2] + lo[2], n);
            }
        }
    }

    /// First value and step of a channel's values in one window's output.
    fn channel(&self, channel: usize, order: ChannelOrder) -> (usize, usize) {
        match order {
            ChannelOrder::First => (channel * self.zoom.patch.iter().product::<usize>(), 1),
            ChannelOrder::Last => (channel, self.channels),
        }
    }

    fn blend(&mut self, roi: &VoxelBox, values: &[f32], order: ChannelOrder) {
        let full = self.zoom.full.iter().product::<usize>();
        let mut count = std::mem::take(&mut self.count);
        let mut sum = std::mem::take(&mut self.sum);
        self.rows(roi, roi, |from, to, n| {
            let w = &self.weight[from..from + n];
            for (c, w) in count[to..to + n].iter_mut().zip(w) {
                *c += w;
            }
            for ch in 0..self.channels {
                let (first, step) = self.channel(ch, order);
                let v = values[first + from * step..].iter().step_by(step);
                for ((s, v), w) in sum[ch * full + to..][..n].iter_mut().zip(v).zip(w) {
                    *s += v * w;
                }
            }
        });
        (self.count, self.sum) = (count, sum);
    }

    fn copy(&mut self, roi: &VoxelBox, core: &VoxelBox, values: &[f32], order: ChannelOrder) {
        let full = self.zoom.full.iter().product::<usize>();
        let mut sum = std::mem::take(&mut self.sum);
        self.rows(roi, core, |from, to, n| {
            for ch in 0..self.channels {
                let (first, step) = self.channel(ch, order);
                let v = values[first + from * step..].iter().step_by(step);
                for (s, v) in sum[ch * full + to..][..n].iter_mut().zip(v) {
                    *s = *v;
                }
            }
        });
        self.sum = sum;
    }

    fn finish(mut self, kept: &VoxelBox, copies: bool) -> Stitched {
        let full = self.zoom.full;
        let n: usize = full.iter().product();
        if !copies {
            for channel in self.sum.chunks_exact_mut(n.max(1)) {
                for (s, c) in channel.iter_mut().zip(&self.count) {
                    *s /= c;
                }
            }
        }
        self.count = Vec::new();
        let round = |p: [usize; 3]| -> [usize; 3] {
            std::array::from_fn(|a| self.zoom.round(a, p[a]).min(full[a]))
        };
        let (lo, hi) = (round(kept.min), round(kept.max));
        let whole = Stitched {
            channels: self.channels,
            spatial: full,
            values: self.sum,
        };
        whole.cut(lo, hi)
    }
}

impl Stitched {
    /// The part from `lo` up to `hi` along each axis.
    fn cut(self, lo: [usize; 3], hi: [usize; 3]) -> Self {
        let full = self.spatial;
        let spatial: [usize; 3] = std::array::from_fn(|a| hi[a].saturating_sub(lo[a]));
        if spatial == full {
            return self;
        }
        let mut values = Vec::with_capacity(self.channels * spatial.iter().product::<usize>());
        for channel in self
            .values
            .chunks_exact(full.iter().product::<usize>().max(1))
        {
            for i in lo[0]..hi[0] {
                for j in lo[1]..hi[1] {
                    let row = (i * full[1] + j) * full[2];
                    values.extend_from_slice(&channel[row + lo[2]..row + hi[2]]);
                }
            }
        }
        Self {
            channels: self.channels,
            spatial,
            values,
        }
    }

    /// The part over a volume of `volume` voxels at the beginning of the `padded` ones that the output covers
    /// (both in the tensor's axis order): round(volume x zoom) values along each axis.
    #[must_use]
    pub fn without_end_padding(self, padded: [usize; 3], volume: [usize; 3]) -> Self {
        let hi = std::array::from_fn(|a| {
            let zoom = Zoom {
                patch: self.spatial,
                roi: padded,
                full: self.spatial,
            };
            zoom.round(a, volume[a]).min(self.spatial[a])
        });
        self.cut([0; 3], hi)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AxesOrder, Blend, Facts, TilingSpec, plan};
    use super::*;
    use crate::geometry::Extent;

    fn planned(layout: Layout, blend: Blend, volume: [usize; 3]) -> TilingPlan {
        let mut facts = Facts::unknown(AxesOrder::Zyx);
        facts.total_stride = [2; 3];
        facts.reach_left = [Some(2); 3];
        facts.reach_right = [Some(2); 3];
        let spec = TilingSpec {
            roi_size: Extent::new(8, 6, 8),
            overlap: if layout == Layout::Aligned {
                [0.0; 3]
            } else {
                [0.5; 3]
            },
            blend,
            layout,
        };
        plan(&spec, volume.into(), &facts).unwrap()
    }

    /// Value of a voxel of the padded volume, distinct and exact in float32.
    fn value(p: [usize; 3]) -> f32 {
        (p[0] * 97 + p[1] * 11 + p[2]) as f32
    }

    fn stitch_identity(plan: &TilingPlan) -> Stitched {
        let shape = OutputShape {
            channels: 1,
            spatial: plan.axes.reorder(plan.roi.to_array()),
        };
        let mut s = Stitcher::new(plan, &[shape], importance::SIGMA_SCALE).unwrap();
        for (i, w) in plan.windows.iter().enumerate() {
            let (lo, hi) = (plan.axes.reorder(w.roi.min), plan.axes.reorder(w.roi.max));
            let mut patch = Vec::new();
            for a in lo[0]..hi[0] {
                for b in lo[1]..hi[1] {
                    patch.extend((lo[2]..hi[2]).map(|c| value([a, b, c])));
                }
            }
            s.add(i, 0, &patch, ChannelOrder::First).unwrap();
        }
        s.finish().remove(0)
    }

    #[test]
    fn windows_of_a_volume_stitch_to_the_volume_again() {
        for (layout, blend) in [
            (Layout::Monai, Blend::Constant),
            (Layout::Monai, Blend::Gaussian),
            (Layout::Nnunet, Blend::Gaussian),
            (Layout::Aligned, Blend::Constant),
        ] {
            let plan = planned(layout, blend, [18, 14, 10]);
            assert!(plan.n_windows() > 1);
            let out = stitch_identity(&plan);
            assert_eq!(out.spatial, [10, 14, 18]);
            let mut i = 0;
            for a in 0..10 {
                for b in 0..14 {
                    for c in 0..18 {
                        let want = value([a, b, c]);
                        let got = out.values[i];
                        if layout == Layout::Aligned {
                            assert_eq!(got.to_bits(), want.to_bits());
                        } else {
                            assert!((got - want).abs() <= 1e-6 * want.abs(), "{got} {want}");
                        }
                        i += 1;
                    }
                }
            }
        }
    }

    #[test]
    fn the_padding_of_a_volume_smaller_than_the_roi_is_cut_away_again() {
        let plan = planned(Layout::Monai, Blend::Constant, [5, 14, 8]);
        let out = stitch_identity(&plan);
        assert_eq!(out.spatial, [8, 14, 5]);
        assert_eq!(out.values[0], value([0, 0, 1]));
    }

    #[test]
    fn what_was_promised_in_bytes_is_what_is_allocated() {
        let plan = planned(Layout::Monai, Blend::Constant, [18, 14, 10]);
        let shapes = [
            OutputShape {
                channels: 3,
                spatial: [8, 6, 8],
            },
            OutputShape {
                channels: 2,
                spatial: [4, 3, 4],
            },
        ];
        let (sums, counts) = bytes_needed(&plan, &shapes);
        let s = Stitcher::new(&plan, &shapes, 0.125).unwrap();
        let held: usize = s.outputs.iter().map(|o| 4 * o.sum.capacity()).sum();
        let counted: usize = s.outputs.iter().map(|o| 4 * o.count.capacity()).sum();
        assert_eq!((sums.0, counts.0), (held as u64, counted as u64));
    }

    #[test]
    fn channels_first_and_last_stitch_alike() {
        let plan = planned(Layout::Monai, Blend::Gaussian, [18, 14, 10]);
        let shape = OutputShape {
            channels: 3,
            spatial: [8, 6, 8],
        };
        let n = 8 * 6 * 8;
        let first: Vec<f32> = (0..3 * n).map(|i| (i % 101) as f32).collect();
        let last: Vec<f32> = (0..3 * n).map(|i| first[(i % 3) * n + i / 3]).collect();
        let both =
            [(&first, ChannelOrder::First), (&last, ChannelOrder::Last)].map(|(v, order)| {
                let mut s = Stitcher::new(&plan, &[shape], 0.125).unwrap();
                for w in 0..plan.n_windows() {
                    s.add(w, 0, v, order).unwrap();
                }
                s.finish()
            });
        assert_eq!(both[0], both[1]);
    }

    #[test]
    fn an_output_of_another_length_is_one_sentence() {
        let plan = planned(Layout::Monai, Blend::Constant, [18, 14, 10]);
        let shape = OutputShape {
            channels: 1,
            spatial: [8, 6, 8],
        };
        let mut s = Stitcher::new(&plan, &[shape], 0.125).unwrap();
        let said = s
            .add(0, 0, &[0.0; 7], ChannelOrder::Last)
            .unwrap_err()
            .to_string();
        assert!(said.contains("has 7 values; 384 were planned"), "{said}");
    }
}
