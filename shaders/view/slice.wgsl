// Draws one plane of a volume: samples the 3D texture by hand (R16Sint cannot be filtered by hardware), applies window level.
// For volumes of floats the pipeline makes a second module of this text, with texture_3d<f32> for the texture (R32Float).
// Voxel centres are at whole coordinates; a voxel reaches half a step to each side. The CPU sampler in `volume` is the reference.

struct View {
    rect: vec4<f32>,    // xy: first pixel of the view; z: 1 when the target converts from linear; w: slab mode (0 none, 1 maximum, 2 mean, 3 minimum)
    origin: vec4<f32>,  // xyz: voxel at the first pixel's corner; w: window centre
    right: vec4<f32>,   // xyz: voxels per pixel to the right; w: window width
    down: vec4<f32>,    // xyz: voxels per pixel down; w: 1 when inverted
    extent: vec4<f32>,  // xyz: size in voxels; w: 1 to filter linearly
    slab: vec4<f32>,    // xyz: voxels per step through the slab; w: steps
    ready: array<vec4<u32>, 16>, // one bit a slice that has been decoded
}

@group(0) @binding(0) var<uniform> view: View;
@group(0) @binding(1) var volume: texture_3d<i32>;

@vertex
fn vs(@builtin(vertex_index) i: u32) -> @builtin(position) vec4<f32> {
    let x = f32(i32(i & 1u) * 4 - 1);
    let y = f32(i32(i >> 1u) * 4 - 1);
    return vec4<f32>(x, y, 0.0, 1.0);
}

fn slice_ready(k: i32) -> bool {
    let word = view.ready[u32(k) >> 7u][(u32(k) >> 5u) & 3u];
    return ((word >> (u32(k) & 31u)) & 1u) == 1u;
}

fn voxel(p: vec3<i32>) -> f32 {
    let last = vec3<i32>(view.extent.xyz) - vec3<i32>(1);
    return f32(textureLoad(volume, clamp(p, vec3<i32>(0), last), 0).r);
}

fn sample_at(p: vec3<f32>) -> f32 {
    if (view.extent.w < 0.5) {
        return voxel(vec3<i32>(floor(p + vec3<f32>(0.5))));
    }
    let base = floor(p);
    let f = p - base;
    let b = vec3<i32>(base);
    let x00 = mix(voxel(b), voxel(b + vec3<i32>(1, 0, 0)), f.x);
    let x10 = mix(voxel(b + vec3<i32>(0, 1, 0)), voxel(b + vec3<i32>(1, 1, 0)), f.x);
    var low = mix(x00, x10, f.y);
    if (f.z > 0.0) {
        let x01 = mix(voxel(b + vec3<i32>(0, 0, 1)), voxel(b + vec3<i32>(1, 0, 1)), f.x);
        let x11 = mix(voxel(b + vec3<i32>(0, 1, 1)), voxel(b + vec3<i32>(1, 1, 1)), f.x);
        low = mix(low, mix(x01, x11, f.y), f.z);
    }
    return low;
}

fn inside(p: vec3<f32>) -> bool {
    let low = vec3<f32>(-0.5);
    let high = view.extent.xyz - vec3<f32>(0.5);
    return all(p >= low) && all(p < high);
}

fn slab_value(p: vec3<f32>) -> f32 {
    let steps = i32(view.slab.w);
    var best = sample_at(p);
    var sum = best;
    var n = 1.0;
    for (var s = -steps; s <= steps; s++) {
        let q = p + view.slab.xyz * f32(s);
        if (s == 0 || !inside(q)) {
            continue;
        }
        let v = sample_at(q);
        sum += v;
        n += 1.0;
        if (view.rect.w == 1.0) { best = max(best, v); }
        if (view.rect.w == 3.0) { best = min(best, v); }
    }
    if (view.rect.w == 2.0) { return sum / n; }
    return best;
}

fn linear_from_gamma(c: f32) -> f32 {
    if (c <= 0.04045) { return c / 12.92; }
    return pow((c + 0.055) / 1.055, 2.4);
}

@fragment
fn fs(@builtin(position) position: vec4<f32>) -> @location(0) vec4<f32> {
    let d = position.xy - view.rect.xy;
    let p = view.origin.xyz + view.right.xyz * d.x + view.down.xyz * d.y;
    if (!inside(p) || !slice_ready(i32(clamp(floor(p.z + 0.5), 0.0, view.extent.z - 1.0)))) {
        return vec4<f32>(0.0, 0.0, 0.0, 1.0);
    }
    var value = 0.0;
    if (view.rect.w > 0.5) { value = slab_value(p); } else { value = sample_at(p); }
    // As the CPU sampler: black at centre - width / 2, white at centre + width / 2; what is no number is black.
    var g = clamp((value - (view.origin.w - 0.5 * view.right.w)) / view.right.w, 0.0, 1.0);
    if ((bitcast<u32>(value) & 0x7fffffffu) > 0x7f800000u) { g = 0.0; }
    if (view.down.w > 0.5) { g = 1.0 - g; }
    if (view.rect.z > 0.5) { g = linear_from_gamma(g); }
    return vec4<f32>(g, g, g, 1.0);
}
