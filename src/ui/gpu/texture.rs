//! Chunked upload of a volume: slices go to the card as they are decoded, a few a frame, nearest to the shown one first.

use super::pipeline::{Kind, SliceResources};
use super::u32_of;
use crate::geometry::Extent;
use crate::series::SliceValues;
use crate::volume::{SharedVolume, Voxels};
use eframe::egui_wgpu::RenderState;
use eframe::wgpu;

/// Most bytes handed to the card in one frame.
const BYTES_A_FRAME: usize = 6 << 20;

/// Why a volume cannot be drawn.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum UploadError {
    /// An edge is beyond what the card's textures hold.
    #[error(
        "slices cannot be drawn: the volume is {found} voxels and this card draws at most {limit} along an edge; crop or resample it first"
    )]
    TooLarge {
        /// Size of the volume.
        found: Extent,
        /// The card's limit.
        limit: u32,
    },
}

/// What is still to be uploaded of the volume in the texture.
#[derive(Debug, Default)]
pub struct Upload {
    key: Option<u64>,
    extent: Extent,
    done: Vec<bool>,
    left: usize,
}

impl Upload {
    /// Makes the texture for a volume of `extent`; `key` tells volumes apart.
    pub fn begin(
        &mut self,
        render: &RenderState,
        key: u64,
        extent: Extent,
    ) -> Result<(), UploadError> {
        if self.key == Some(key) && self.extent == extent {
            return Ok(());
        }
        let limit = render.device.limits().max_texture_dimension_3d.min(2048);
        if extent.to_array().iter().any(|&n| u32_of(n) > limit) {
            return Err(UploadError::TooLarge {
                found: extent,
                limit,
            });
        }
        *self = Self {
            key: Some(key),
            extent,
            done: vec![false; extent.z],
            left: extent.z,
        };
        let mut renderer = render.renderer.write();
        if let Some(res) = renderer.callback_resources.get_mut::<SliceResources>() {
            res.set_volume(&render.device, extent, Kind::Whole);
        }
        Ok(())
    }

    /// Whether slices are still missing on the card.
    pub const fn pending(&self) -> bool {
        self.left > 0
    }

    /// One decoded slice, row by row. The first slice of floats makes the texture one of floats and asks for all slices again.
    pub fn slice(&mut self, render: &RenderState, k: usize, values: SliceValues<'_>) {
        let n = match values {
            SliceValues::I16(v) => v.len(),
            SliceValues::F32(v) => v.len(),
        };
        if n == self.extent.x * self.extent.y && k < self.done.len() {
            self.write(render, k, values);
        }
    }

    /// As many slices of a whole volume as one frame may take, nearest to `around` first. True when more are left.
    pub fn advance(&mut self, render: &RenderState, volume: &SharedVolume, around: usize) -> bool {
        let plane = self.extent.x * self.extent.y;
        if plane == 0 || volume.extent != self.extent {
            return false;
        }
        let each = match &volume.voxels {
            Voxels::I16(_) => 2,
            Voxels::F32(_) => 4,
        };
        let mut budget = (BYTES_A_FRAME / (plane * each)).max(1);
        while budget > 0 && self.left > 0 {
            let Some(k) = self.nearest(around) else { break };
            let range = k * plane..(k + 1) * plane;
            let values = match &volume.voxels {
                Voxels::I16(v) => SliceValues::I16(v.get(range).unwrap_or_default()),
                Voxels::F32(v) => SliceValues::F32(v.get(range).unwrap_or_default()),
            };
            self.write(render, k, values);
            budget -= 1;
        }
        self.left > 0
    }

    fn nearest(&self, around: usize) -> Option<usize> {
        (0..self.done.len())
            .filter(|&k| !self.done[k])
            .min_by_key(|&k| k.abs_diff(around))
    }

    fn write(&mut self, render: &RenderState, k: usize, values: SliceValues<'_>) {
        let mut renderer = render.renderer.write();
        let Some(res) = renderer.callback_resources.get_mut::<SliceResources>() else {
            return;
        };
        if matches!(values, SliceValues::F32(_)) && res.kind() == Some(Kind::Whole) {
            res.set_volume(&render.device, self.extent, Kind::Float);
            self.done.fill(false);
            self.left = self.done.len();
        }
        if self.done[k] {
            return;
        }
        self.done[k] = true;
        self.left -= 1;
        put(res, &render.queue, k, values);
    }
}

/// Writes a slice as the texture's kind has it; whole HU are exact in floats.
pub(super) fn put(
    res: &mut SliceResources,
    queue: &wgpu::Queue,
    k: usize,
    values: SliceValues<'_>,
) {
    match (values, res.kind()) {
        (SliceValues::I16(v), Some(Kind::Float)) => {
            let wide: Vec<f32> = v.iter().map(|&x| f32::from(x)).collect();
            res.write(queue, k, bytemuck::cast_slice(&wide));
        }
        (SliceValues::I16(v), _) => res.write(queue, k, bytemuck::cast_slice(v)),
        (SliceValues::F32(v), _) => res.write(queue, k, bytemuck::cast_slice(v)),
    }
}
