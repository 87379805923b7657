//! The slice shader against the CPU sampler, on whatever adapter there is; skipped where there is none.

use super::pipeline::{Kind, SliceResources};
use super::texture::put;
use super::{SlicePaint, SliceUniforms, u32_of};
use crate::geometry::{Affine, Axis, Extent, Plane};
use crate::series::SliceValues;
use crate::volume::sampler::{Filter, SliceView, picture};
use crate::volume::slice::runs_up;
use crate::volume::{Volume, Voxels, WindowLevel};
use eframe::wgpu;

/// A row of this many RGBA8 pixels is as long as a copy wants it.
const SIDE: usize = 64;

/// Runs a future of wgpu, which is ready when polled on native backends.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::yield_now();
    }
}

fn device() -> Option<(wgpu::Device, wgpu::Queue)> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = now(instance.request_adapter(&wgpu::RequestAdapterOptions::default())).ok()?;
    now(adapter.request_device(&wgpu::DeviceDescriptor::default())).ok()
}

/// What the pipeline draws of a volume: greys, row by row.
fn drawn(
    (device, queue): &(wgpu::Device, wgpu::Queue),
    volume: &Volume,
    view: &SliceView,
    level: WindowLevel,
    linear: bool,
) -> Vec<u8> {
    let format = wgpu::TextureFormat::Rgba8Unorm;
    let mut res = SliceResources::new(device, format);
    let plane = volume.extent.x * volume.extent.y;
    let kind = match volume.voxels {
        Voxels::I16(_) => Kind::Whole,
        Voxels::F32(_) => Kind::Float,
    };
    res.set_volume(device, volume.extent, kind);
    for k in 0..volume.extent.z {
        let range = k * plane..(k + 1) * plane;
        let values = match &volume.voxels {
            Voxels::I16(v) => SliceValues::I16(&v[range]),
            Voxels::F32(v) => SliceValues::F32(&v[range]),
        };
        put(&mut res, queue, k, values);
    }
    assert!(res.set_view(queue, &paint(volume, view, level, linear)));
    let size = wgpu::Extent3d {
        width: u32_of(SIDE),
        height: u32_of(SIDE),
        depth_or_array_layers: 1,
    };
    let target = device.create_texture(&wgpu::TextureDescriptor {
        label: None,
        size,
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format,
        usage: wgpu::TextureUsages::RENDER_ATTACHMENT | wgpu::TextureUsages::COPY_SRC,
        view_formats: &[],
    });
    let out = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: (SIDE * SIDE * 4) as u64,
        usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
        mapped_at_creation: false,
    });
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let attachment = target.create_view(&wgpu::TextureViewDescriptor::default());
        let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
            color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                view: &attachment,
                depth_slice: None,
                resolve_target: None,
                ops: wgpu::Operations::default(),
            })],
            ..Default::default()
        });
        res.draw(&mut pass, 0);
    }
    encoder.copy_texture_to_buffer(
        target.as_image_copy(),
        wgpu::TexelCopyBufferInfo {
            buffer: &out,
            layout: wgpu::TexelCopyBufferLayout {
                offset: 0,
                bytes_per_row: Some(u32_of(SIDE * 4)),
                rows_per_image: None,
            },
        },
        size,
    );
    queue.submit([encoder.finish()]);
    out.slice(..).map_async(wgpu::MapMode::Read, |r| r.unwrap());
    device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
    let bytes = out.slice(..).get_mapped_range().unwrap();
    bytes.chunks_exact(4).map(|p| p[0]).collect()
}

/// The view as the shader reads it.
fn paint(volume: &Volume, view: &SliceView, level: WindowLevel, linear: bool) -> SlicePaint {
    let at = |x: f64, y: f64| view.index_at(volume, [SIDE; 2], [x, y]);
    let [u, v] = view.plane.in_plane().map(Axis::index);
    let voxel = |p: [f64; 2], across: f64| {
        let mut out = [0f32; 3];
        #[expect(clippy::cast_possible_truncation, reason = "voxel indices of a test")]
        for (axis, value) in [(u, p[0]), (v, p[1]), (view.plane.across().index(), across)] {
            out[axis] = value as f32;
        }
        out
    };
    let (o, r, d) = (at(0.0, 0.0), at(1.0, 0.0), at(0.0, 1.0));
    let [ox, oy, oz] = voxel(o, view.index as f64);
    let [rx, ry, rz] = voxel([r[0] - o[0], r[1] - o[1]], 0.0);
    let [dx, dy, dz] = voxel([d[0] - o[0], d[1] - o[1]], 0.0);
    assert_eq!(runs_up(view.plane), d[1] < o[1]);
    SlicePaint {
        slot: 0,
        uniforms: SliceUniforms {
            origin: [ox, oy, oz, level.center],
            right: [rx, ry, rz, level.width],
            down: [dx, dy, dz, 0.0],
            extent: [0.0, 0.0, 0.0, f32::from(u8::from(linear))],
            ..SliceUniforms::default()
        },
    }
}

fn fractional() -> Volume {
    let extent = Extent::new(9, 7, 5);
    let values = (0..extent.voxels())
        .map(|n| (n * n % 97) as f32 * 0.003_7 - 0.11)
        .collect();
    Volume {
        extent,
        affine: Affine::axis_aligned([0.7, 0.9, 2.3]),
        voxels: Voxels::F32(values),
        padding: None,
        is_hu: true,
        z_spacing_known: true,
    }
}

#[test]
fn fractional_and_whole_volumes_are_drawn_as_the_cpu_samples_them() {
    let Some(gpu) = device() else {
        println!("skipped: no graphics adapter");
        return;
    };
    let float = fractional();
    let Voxels::F32(values) = &float.voxels else {
        unreachable!()
    };
    #[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
    let whole = values.iter().map(|v| (v * 1000.0).round() as i16).collect();
    let whole = Volume {
        voxels: Voxels::I16(whole),
        ..float.clone()
    };
    for (volume, level) in [
        (&float, WindowLevel::between(-0.11, 0.25)),
        (&whole, WindowLevel::between(-110.0, 250.0)),
    ] {
        for plane in Plane::ALL {
            for (filter, linear) in [(Filter::Nearest, false), (Filter::Linear, true)] {
                let mut view = SliceView::fit(volume, plane, 3, SIDE, SIDE);
                // Off the voxel borders, where rounding may go either way.
                view.center_mm = [0.0137, 0.0173];
                let got = drawn(&gpu, volume, &view, level, linear);
                let want = picture(volume, &view, level, filter, [SIDE; 2]).grey;
                let worst = got
                    .iter()
                    .zip(&want)
                    .map(|(a, b)| a.abs_diff(*b))
                    .max()
                    .unwrap();
                assert!(worst <= 1, "{plane:?} {filter:?}: {worst} greys apart");
                let mut kinds = got.clone();
                kinds.sort_unstable();
                kinds.dedup();
                assert!(kinds.len() > 20, "{plane:?}: {kinds:?}");
            }
        }
    }
}

#[test]
fn what_is_not_a_number_is_black() {
    let Some(gpu) = device() else {
        println!("skipped: no graphics adapter");
        return;
    };
    let mut volume = fractional();
    volume.voxels = Voxels::F32(vec![f32::NAN; volume.extent.voxels()]);
    let view = SliceView::fit(&volume, Plane::Axial, 1, SIDE, SIDE);
    let got = drawn(&gpu, &volume, &view, WindowLevel::between(-1.0, 1.0), true);
    assert!(got.iter().all(|&g| g == 0));
}
