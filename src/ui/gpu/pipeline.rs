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
    kind: Kind,
    extent: Extent,
    ready: [[u32; 4]; 16],
    groups: Vec<wgpu::BindGroup>,
}

/// What the texture's voxels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Whole HU, two bytes.
    Whole,
    /// Floats, four bytes.
    Float,
}

impl Kind {
    const fn format(self) -> wgpu::TextureFormat {
        match self {
            Self::Whole => wgpu::TextureFormat::R16Sint,
            Self::Float => wgpu::TextureFormat::R32Float,
        }
    }

    const fn sample_type(self) -> wgpu::TextureSampleType {
        match self {
            Self::Whole => wgpu::TextureSampleType::Sint,
            Self::Float => wgpu::TextureSampleType::Float { filterable: false },
        }
    }

    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Whole => 2,
            Self::Float => 4,
        }
    }
}

/// The pipeline for one kind of voxels.
struct KindPipeline {
    pipeline: wgpu::RenderPipeline,
    layout: wgpu::BindGroupLayout,
}

/// The pipelines and the current volume, kept in the renderer's callback resources.
pub(super) struct SliceResources {
    whole: KindPipeline,
    float: KindPipeline,
    buffers: Vec<wgpu::Buffer>,
    volume: Option<VolumeTexture>,
    srgb: bool,
}

/// Builds the pipeline once for a window.
pub fn install(render: &RenderState) {
    let resources = SliceResources::new(&render.device, render.target_format);
    render.renderer.write().callback_resources.insert(resources);
}

/// The shader as written, for whole HU.
const SHADER: &str = include_str!("../../../shaders/view/slice.wgsl");

impl KindPipeline {
    fn new(device: &wgpu::Device, format: wgpu::TextureFormat, kind: Kind) -> Self {
        let source = match kind {
            Kind::Whole => std::borrow::Cow::Borrowed(SHADER),
            Kind::Float => SHADER.replace("texture_3d<i32>", "texture_3d<f32>").into(),
        };
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("slice"),
            source: wgpu::ShaderSource::Wgsl(source),
        });
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
                        sample_type: kind.sample_type(),
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
        Self { pipeline, layout }
    }
}

impl SliceResources {
    pub(super) fn new(device: &wgpu::Device, format: wgpu::TextureFormat) -> Self {
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
            whole: KindPipeline::new(device, format, Kind::Whole),
            float: KindPipeline::new(device, format, Kind::Float),
            buffers,
            volume: None,
            srgb: format.is_srgb(),
        }
    }

    const fn of(&self, kind: Kind) -> &KindPipeline {
        match kind {
            Kind::Whole => &self.whole,
            Kind::Float => &self.float,
        }
    }

    /// Replaces the texture by an empty one of `extent`.
    pub(super) fn set_volume(&mut self, device: &wgpu::Device, extent: Extent, kind: Kind) {
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
            format: kind.format(),
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
                    layout: &self.of(kind).layout,
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
            kind,
            extent,
            ready: [[0; 4]; 16],
            groups,
        });
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        self.volume.as_ref().map(|v| v.kind)
    }

    /// Puts a slice's bytes (of the texture's kind) in its place and lets it be drawn.
    pub(super) fn write(&mut self, queue: &wgpu::Queue, k: usize, bytes: &[u8]) {
        let Some(v) = &mut self.volume else { return };
        queue.write_texture(
            wgpu::TexelCopyTextureInfo {
                texture: &v.texture,
                mip_level: 0,
                origin: wgpu::Origin3d {
                    x: 0,
                    y: 0,
                    z: u32_of(k),
                },
                aspect: wgpu::TextureAspect::All,
            },
            bytes,
            wgpu::TexelCopyBufferLayout {
                offset: 0,
                bytes_per_row: Some(u32_of(v.extent.x * v.kind.bytes())),
                rows_per_image: Some(u32_of(v.extent.y)),
            },
            wgpu::Extent3d {
                width: u32_of(v.extent.x),
                height: u32_of(v.extent.y),
                depth_or_array_layers: 1,
            },
        );
        if let Some(word) = v.ready.get_mut(k >> 7) {
            word[(k >> 5) & 3] |= 1 << (k & 31);
        }
    }

    /// Fills the uniforms of one view; false when there is no volume or no such slot.
    pub(super) fn set_view(&self, queue: &wgpu::Queue, paint: &SlicePaint) -> bool {
        let (Some(volume), Some(buffer)) = (&self.volume, self.buffers.get(paint.slot)) else {
            return false;
        };
        let mut u = paint.uniforms;
        u.rect[2] = if self.srgb { 1.0 } else { 0.0 };
        for (to, from) in u.extent.iter_mut().zip(volume.extent.to_array()) {
            *to = from as f32;
        }
        u.ready = volume.ready;
        queue.write_buffer(buffer, 0, bytemuck::bytes_of(&u));
        true
    }

    /// Draws one view that was set.
    pub(super) fn draw(&self, pass: &mut wgpu::RenderPass<'_>, slot: usize) {
        if let Some(volume) = &self.volume
            && let Some(group) = volume.groups.get(slot)
        {
            pass.set_pipeline(&self.of(volume.kind).pipeline);
            pass.set_bind_group(0, group, &[]);
            pass.draw(0..3, 0..1);
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
        if let Some(res) = resources.get::<SliceResources>() {
            res.set_view(queue, self);
        }
        Vec::new()
    }

    fn paint(
        &self,
        _info: PaintCallbackInfo,
        pass: &mut wgpu::RenderPass<'static>,
        resources: &CallbackResources,
    ) {
        if let Some(res) = resources.get::<SliceResources>() {
            res.draw(pass, self.slot);
        }
    }
}
