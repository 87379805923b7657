//! The slice pipeline: one uniform block a view, one draw of a full-screen triangle cut to the view's rectangle.

use super::u32_of;
use crate::geometry::Extent;
use eframe::egui::PaintCallbackInfo;
use eframe::egui_wgpu::{CallbackResources, CallbackTrait, RenderState, ScreenDescriptor};
use eframe::wgpu;

/// Most views drawn in one frame.
const VIEWS: usize = 16;

/// What the shader reads for one view; see `shaders/view/slice.wgsl`.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct SliceUniforms {
    /// First pixel of the view, target conversion (set here), slab mode.
    pub rect: [f32; 4],
    /// Voxel at the first pixel's corner, window centre.
    pub origin: [f32; 4],
    /// Voxels per pixel to the right, window width.
    pub right: [f32; 4],
    /// Voxels per pixel down, inverted.
    pub down: [f32; 4],
    /// Size in voxels (set here), linear filter.
    pub extent: [f32; 4],
    /// Voxels per step through the slab, steps to each side.
    pub slab: [f32; 4],
    /// One bit a decoded slice (set here).
    pub ready: [[u32; 4]; 16],
}

impl Default for SliceUniforms {
    fn default() -> Self {
        bytemuck::Zeroable::zeroed()
    }
}

struct VolumeTexture {
    texture: wgpu::Texture,
    extent: Extent,
    ready: [[u32; 4]; 16],
    groups: Vec<wgpu::BindGroup>,
}

/// The pipeline and the current volume, kept in the renderer's callback resources.
pub(super) struct SliceResources {
    pipeline: wgpu::RenderPipeline,
    layout: wgpu::BindGroupLayout,
    buffers: Vec<wgpu::Buffer>,
    volume: Option<VolumeTexture>,
    srgb: bool,
}

/// Builds the pipeline once for a window.
pub fn install(render: &RenderState) {
    let resources = SliceResources::new(&render.device, render.target_format);
    render.renderer.write().callback_resources.insert(resources);
}

impl SliceResources {
    fn new(device: &wgpu::Device, format: wgpu::TextureFormat) -> Self {
        let module =
            device.create_shader_module(wgpu::include_wgsl!("../../../shaders/view/slice.wgsl"));
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("slice"),
            entries: &[
                wgpu::BindGroupLayoutEntry {
                    binding: 0,
                    visibility: wgpu::ShaderStages::FRAGMENT,
                    ty: wgpu::BindingType::Buffer {
                        ty: wgpu::BufferBindingType::Uniform,
                        has_dynamic_offset: false,
                        min_binding_size: None,
                    },
                    count: None,
                },
                wgpu::BindGroupLayoutEntry {
                    binding: 1,
                    visibility: wgpu::ShaderStages::FRAGMENT,
                    ty: wgpu::BindingType::Texture {
                        sample_type: wgpu::TextureSampleType::Sint,
                        view_dimension: wgpu::TextureViewDimension::D3,
                        multisampled: false,
                    },
                    count: None,
                },
            ],
        });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some("slice"),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
            label: Some("slice"),
            layout: Some(&pipeline_layout),
            vertex: wgpu::VertexState {
                module: &module,
                entry_point: Some("vs"),
                buffers: &[],
                compilation_options: wgpu::PipelineCompilationOptions::default(),
            },
            primitive: wgpu::PrimitiveState::default(),
            depth_stencil: None,
            multisample: wgpu::MultisampleState::default(),
            fragment: Some(wgpu::FragmentState {
                module: &module,
                entry_point: Some("fs"),
                targets: &[Some(format.into())],
                compilation_options: wgpu::PipelineCompilationOptions::default(),
            }),
            multiview_mask: None,
            cache: None,
        });
        let buffers = (0..VIEWS)
            .map(|_| {
                device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("slice view"),
                    size: size_of::<SliceUniforms>() as u64,
                    usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                })
            })
            .collect();
        Self {
            pipeline,
            layout,
            buffers,
            volume: None,
            srgb: format.is_srgb(),
        }
    }

    /// Replaces the texture by an empty one of `extent`.
    pub(super) fn set_volume(&mut self, device: &wgpu::Device, extent: Extent) {
        let texture = device.create_texture(&wgpu::TextureDescriptor {
            label: Some("volume"),
            size: wgpu::Extent3d {
                width: u32_of(extent.x.max(1)),
                height: u32_of(extent.y.max(1)),
                depth_or_array_layers: u32_of(extent.z.max(1)),
            },
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D3,
            format: wgpu::TextureFormat::R16Sint,
            usage: wgpu::TextureUsages::TEXTURE_BINDING | wgpu::TextureUsages::COPY_DST,
            view_formats: &[],
        });
        let view = texture.create_view(&wgpu::TextureViewDescriptor::default());
        let groups = self
            .buffers
            .iter()
            .map(|buffer| {
                device.create_bind_group(&wgpu::BindGroupDescriptor {
                    label: Some("slice"),
                    layout: &self.layout,
                    entries: &[
                        wgpu::BindGroupEntry {
                            binding: 0,
                            resource: buffer.as_entire_binding(),
                        },
                        wgpu::BindGroupEntry {
                            binding: 1,
                            resource: wgpu::BindingResource::TextureView(&view),
                        },
                    ],
                })
            })
            .collect();
        self.volume = Some(VolumeTexture {
            texture,
            extent,
            ready: [[0; 4]; 16],
            groups,
        });
    }

    pub(super) fn volume_texture(&self) -> Option<&wgpu::Texture> {
        self.volume.as_ref().map(|v| &v.texture)
    }

    pub(super) fn mark_ready(&mut self, k: usize) {
        if let Some(v) = &mut self.volume
            && let Some(word) = v.ready.get_mut(k >> 7)
        {
            word[(k >> 5) & 3] |= 1 << (k & 31);
        }
    }
}

/// One view to draw: its slot (different for each view of a frame) and its uniforms.
#[derive(Clone, Copy, Debug)]
pub struct SlicePaint {
    /// Which uniform buffer.
    pub slot: usize,
    /// The plane, in pixels relative to the view's first pixel.
    pub uniforms: SliceUniforms,
}

impl CallbackTrait for SlicePaint {
    fn prepare(
        &self,
        _device: &wgpu::Device,
        queue: &wgpu::Queue,
        _screen: &ScreenDescriptor,
        _encoder: &mut wgpu::CommandEncoder,
        resources: &mut CallbackResources,
    ) -> Vec<wgpu::CommandBuffer> {
        if let Some(res) = resources.get::<SliceResources>()
            && let (Some(volume), Some(buffer)) = (&res.volume, res.buffers.get(self.slot))
        {
            let mut u = self.uniforms;
            u.rect[2] = if res.srgb { 1.0 } else { 0.0 };
            for (to, from) in u.extent.iter_mut().zip(volume.extent.to_array()) {
                *to = from as f32;
            }
            u.ready = volume.ready;
            queue.write_buffer(buffer, 0, bytemuck::bytes_of(&u));
        }
        Vec::new()
    }

    fn paint(
        &self,
        _info: PaintCallbackInfo,
        pass: &mut wgpu::RenderPass<'static>,
        resources: &CallbackResources,
    ) {
        if let Some(res) = resources.get::<SliceResources>()
            && let Some(volume) = &res.volume
            && let Some(group) = volume.groups.get(self.slot)
        {
            pass.set_pipeline(&res.pipeline);
            pass.set_bind_group(0, group, &[]);
            pass.draw(0..3, 0..1);
        }
    }
}
