//! The volume as one 3D texture (`R16Sint`, or `R32Float` for volumes of floats; filtered in the shader) and the pipeline that draws planes of it.

mod pipeline;
mod texture;

#[cfg(test)]
mod tests;

pub use pipeline::{SlicePaint, SliceUniforms, install};
pub use texture::{Upload, UploadError};

use eframe::wgpu;

/// Asks for the adapter's own texture limits, so that a volume is refused only where the card refuses it.
pub fn raise_limits(setup: &mut eframe::egui_wgpu::WgpuSetupCreateNew) {
    setup.device_descriptor = std::sync::Arc::new(|adapter| {
        let has = adapter.limits();
        let base = if adapter.get_info().backend == wgpu::Backend::Gl {
            wgpu::Limits::downlevel_webgl2_defaults()
        } else {
            wgpu::Limits::default()
        };
        wgpu::DeviceDescriptor {
            label: Some("voxfit"),
            required_limits: wgpu::Limits {
                max_texture_dimension_2d: has.max_texture_dimension_2d,
                max_texture_dimension_3d: has.max_texture_dimension_3d,
                max_buffer_size: has.max_buffer_size.max(base.max_buffer_size),
                ..base
            },
            ..Default::default()
        }
    });
}

/// A count as the u32 that wgpu wants; saturates, as no texture is that large.
pub(crate) fn u32_of(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
