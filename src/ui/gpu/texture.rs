//! Chunked upload of a volume: slices go to the card as they are decoded, a few a frame, nearest to the shown one first.

use super::pipeline::SliceResources;
use super::u32_of;
use crate::geometry::Extent;
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
            res.set_volume(&render.device, extent);
        }
        Ok(())
    }

    /// Whether slices are still missing on the card.
    pub const fn pending(&self) -> bool {
        self.left > 0
    }

    /// One decoded slice, row by row.
    pub fn slice(&mut self, render: &RenderState, k: usize, values: &[i16]) {
        if self.done.get(k) != Some(&false) || values.len() != self.extent.x * self.extent.y {
            return;
        }
        self.write(render, k, values);
    }

    /// As many slices of a whole volume as one frame may take, nearest to `around` first. True when more are left.
    pub fn advance(&mut self, render: &RenderState, volume: &SharedVolume, around: usize) -> bool {
        let plane = self.extent.x * self.extent.y;
        if plane == 0 || volume.extent != self.extent {
            return false;
        }
        let mut budget = (BYTES_A_FRAME / (plane * 2)).max(1);
        while budget > 0 && self.left > 0 {
            let Some(k) = self.nearest(around) else { break };
            match &volume.voxels {
                Voxels::I16(v) => {
                    let slice = v.get(k * plane..(k + 1) * plane).unwrap_or_default();
                    self.write(render, k, slice);
                }
                Voxels::F32(v) => {
                    let slice = v.get(k * plane..(k + 1) * plane).unwrap_or_default();
                    let rounded: Vec<i16> = slice.iter().map(|&x| to_i16(x)).collect();
                    self.write(render, k, &rounded);
                }
            }
            budget -= 1;
        }
        self.left > 0
    }

    fn nearest(&self, around: usize) -> Option<usize> {
        (0..self.done.len())
            .filter(|&k| !self.done[k])
            .min_by_key(|&k| k.abs_diff(around))
    }

    fn write(&mut self, render: &RenderState, k: usize, values: &[i16]) {
        self.done[k] = true;
        self.left -= 1;
        let mut renderer = render.renderer.write();
        let Some(res) = renderer.callback_resources.get_mut::<SliceResources>() else {
            return;
        };
        let Some(texture) = res.volume_texture() else {
            return;
        };
        render.queue.write_texture(
            wgpu::TexelCopyTextureInfo {
                texture,
                mip_level: 0,
                origin: wgpu::Origin3d {
                    x: 0,
                    y: 0,
                    z: u32_of(k),
                },
                aspect: wgpu::TextureAspect::All,
            },
            bytemuck::cast_slice(values),
            wgpu::TexelCopyBufferLayout {
                offset: 0,
                bytes_per_row: Some(u32_of(self.extent.x * 2)),
                rows_per_image: Some(u32_of(self.extent.y)),
            },
            wgpu::Extent3d {
                width: u32_of(self.extent.x),
                height: u32_of(self.extent.y),
                depth_or_array_layers: 1,
            },
        );
        res.mark_ready(k);
    }
}

/// A value as the texture holds it: rounded, and clamped at the ends of int16.
#[expect(
    clippy::cast_possible_truncation,
    reason = "rounded and clamped to the range of int16 first"
)]
fn to_i16(x: f32) -> i16 {
    x.round().clamp(-32768.0, 32767.0) as i16
}
