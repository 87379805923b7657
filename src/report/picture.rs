//! Slice pictures for reports: the CPU sampler's grey picture with window faces and boxes, as PNG or on a page with text.

use super::ReportError;
use super::ink::{self, Rgb};
use crate::geometry::{Axis, BoxF, Extent, Plane};
use crate::tiling::TilingPlan;
use crate::volume::sampler::{Filter, SliceView, picture, plane_mm};
use crate::volume::{Volume, WindowLevel};

/// A box on the slices.
#[derive(Clone, Debug, PartialEq)]
pub struct MarkedBox {
    /// In voxels of the shown volume.
    pub at: BoxF,
    /// Text of its tag, such as "5 .86".
    pub tag: String,
    /// Whether it belongs to the reference (blue, drawn first) or the tiled run (orange).
    pub reference: bool,
}

/// What lies over the slices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    /// Window faces per axis, in voxels of the shown volume (p lies before voxel p).
    pub faces: [Vec<f64>; 3],
    /// Boxes.
    pub boxes: Vec<MarkedBox>,
}

impl Overlay {
    /// Faces of a plan brought to the loaded volume, whose axes run as those of the prepared one.
    pub fn of_plan(plan: &TilingPlan, loaded: Extent) -> Self {
        let faces = std::array::from_fn(|a| {
            let ratio = loaded.to_array()[a] as f64 / plan.volume.to_array()[a].max(1) as f64;
            plan.seam_planes()[a]
                .iter()
                .map(|p| *p as f64 * ratio)
                .collect()
        });
        Self {
            faces,
            boxes: Vec::new(),
        }
    }
}

/// A plane's place in a picture: voxel positions to picture points.
#[derive(Clone, Copy, Debug)]
struct Frame {
    zero: [f64; 2],
    per_voxel: [f64; 2],
}

impl Frame {
    fn new(volume: &Volume, view: &SliceView, size: [usize; 2]) -> Self {
        // The mapping is a line along each axis: two points give it.
        let a = view.index_at(volume, size, [0.0, 0.0]);
        let b = view.index_at(volume, size, [1.0, 1.0]);
        let per_voxel = [0, 1].map(|i| 1.0 / (b[i] - a[i]));
        let zero = [0, 1].map(|i| -a[i] * per_voxel[i]);
        Self { zero, per_voxel }
    }

    /// Picture position of an edge: edge p lies half a voxel before centre p.
    fn edge(&self, axis: usize, p: f64) -> f64 {
        (p - 0.5).mul_add(self.per_voxel[axis], self.zero[axis])
    }
}

/// A picture in colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColorPicture {
    /// Points to the right.
    pub width: usize,
    /// Points down.
    pub height: usize,
    /// Red, green, blue, row by row.
    pub rgb: Vec<u8>,
    /// Tags with the place of their lower left corner, for pages that can write text.
    pub tags: Vec<Tag>,
    /// Picture points per mm.
    pub per_mm: u32,
}

/// A tag beside a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Its text.
    pub text: String,
    /// Points from the left and from the top.
    pub at: [i32; 2],
    /// Its colour.
    pub color: Rgb,
}

/// The plane through `index` with faces and boxes, `longest` points along its longer side.
pub fn slice(
    volume: &Volume,
    plane: Plane,
    index: usize,
    window_level: WindowLevel,
    overlay: &Overlay,
    longest: usize,
) -> ColorPicture {
    let [w, h] = plane_mm(volume, plane);
    let scale = longest as f64 / w.max(h).max(1e-9);
    let size = [w, h].map(|mm| whole((mm * scale).round().max(1.0)));
    let view = SliceView::fit(volume, plane, index, size[0], size[1]);
    let grey = picture(volume, &view, window_level, Filter::Linear, size);
    let mut canvas = Canvas {
        width: size[0],
        height: size[1],
        rgb: grey.grey.iter().flat_map(|g| [*g, *g, *g]).collect(),
    };
    let frame = Frame::new(volume, &view, size);
    let axes = plane.in_plane().map(Axis::index);
    for p in &overlay.faces[axes[0]] {
        canvas.vertical(frame.edge(0, *p), 0.0, size[1] as f64, ink::STRONG, 0.38);
    }
    for p in &overlay.faces[axes[1]] {
        canvas.horizontal(frame.edge(1, *p), 0.0, size[0] as f64, ink::STRONG, 0.38);
    }
    let across = plane.across().index();
    let here = index as f64 + 0.5;
    let mut tags = Vec::new();
    let mut boxes: Vec<&MarkedBox> = overlay
        .boxes
        .iter()
        .filter(|b| f64::from(b.at.0[across]) <= here && here < f64::from(b.at.0[across + 3]))
        .collect();
    boxes.sort_by_key(|b| !b.reference);
    for b in boxes {
        let color = if b.reference {
            ink::REFERENCE
        } else {
            ink::TILED
        };
        let edges = [0, 1].map(|i| {
            let ends = [b.at.0[axes[i]], b.at.0[axes[i] + 3]].map(|v| frame.edge(i, f64::from(v)));
            [ends[0].min(ends[1]), ends[0].max(ends[1])]
        });
        canvas.frame(edges, [0, 0, 0], 0.75, 4, false);
        canvas.frame(edges, color, 1.0, 2, !b.reference);
        if !b.tag.is_empty() {
            tags.push(Tag {
                text: b.tag.clone(),
                at: [round(edges[0][0]), round(edges[1][0]) - 4],
                color,
            });
        }
    }
    ColorPicture {
        width: size[0],
        height: size[1],
        rgb: canvas.rgb,
        tags,
        per_mm: u32::try_from(round(scale * 1000.0)).unwrap_or(0) / 1000,
    }
}

impl ColorPicture {
    /// As a PNG file.
    pub fn png(&self, what: &str) -> Result<Vec<u8>, ReportError> {
        let refuse = |reason: String| ReportError::Picture {
            what: what.to_owned(),
            reason,
        };
        let side = |n: usize| u32::try_from(n).map_err(|e| refuse(e.to_string()));
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, side(self.width)?, side(self.height)?);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(|e| refuse(e.to_string()))?;
        writer
            .write_image_data(&self.rgb)
            .map_err(|e| refuse(e.to_string()))?;
        writer.finish().map_err(|e| refuse(e.to_string()))?;
        Ok(bytes)
    }
}

struct Canvas {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

impl Canvas {
    fn dot(&mut self, x: i32, y: i32, color: Rgb, opacity: f64) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else {
            return;
        };
        if x >= self.width || y >= self.height {
            return;
        }
        let at = 3 * (y * self.width + x);
        for (old, new) in self.rgb[at..at + 3].iter_mut().zip(color) {
            let mixed = f64::from(new).mul_add(opacity, f64::from(*old) * (1.0 - opacity));
            *old = u8::try_from(round(mixed)).unwrap_or(u8::MAX);
        }
    }

    fn vertical(&mut self, x: f64, from: f64, to: f64, color: Rgb, opacity: f64) {
        for y in round(from)..round(to) {
            self.dot(round(x.floor()), y, color, opacity);
        }
    }

    fn horizontal(&mut self, y: f64, from: f64, to: f64, color: Rgb, opacity: f64) {
        for x in round(from)..round(to) {
            self.dot(x, round(y.floor()), color, opacity);
        }
    }

    /// A rectangle's outline, `thick` points wide around its edge; corner brackets only when it is small.
    fn frame(
        &mut self,
        [[x0, x1], [y0, y1]]: [[f64; 2]; 2],
        color: Rgb,
        opacity: f64,
        thick: i32,
        dashed: bool,
    ) {
        let small = (x1 - x0).min(y1 - y0) < 14.0;
        let corner = ((x1 - x0).min(y1 - y0) / 3.0).max(2.0);
        let drawn = |at: f64, from: f64, to: f64| {
            if small {
                at - from < corner || to - at <= corner
            } else {
                !dashed || (at - from).rem_euclid(10.0) < 6.0
            }
        };
        let (a, b) = (-thick / 2, thick - thick / 2);
        for x in (round(x0) + a)..(round(x1) + b) {
            if drawn(f64::from(x), x0, x1) {
                for t in a..b {
                    self.dot(x, round(y0) + t, color, opacity);
                    self.dot(x, round(y1) + t, color, opacity);
                }
            }
        }
        for y in (round(y0) + b)..(round(y1) + a) {
            if drawn(f64::from(y), y0, y1) {
                for t in a..b {
                    self.dot(round(x0) + t, y, color, opacity);
                    self.dot(round(x1) + t, y, color, opacity);
                }
            }
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "`as` saturates; picture points are small"
)]
fn round(v: f64) -> i32 {
    v.round() as i32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "callers pass sizes of at least 1"
)]
fn whole(v: f64) -> usize {
    v as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Affine;
    use crate::volume::Voxels;

    fn volume() -> Volume {
        Volume {
            extent: Extent::new(40, 30, 20),
            affine: Affine::axis_aligned([1.0, 1.0, 2.0]),
            voxels: Voxels::I16(vec![-1000; 40 * 30 * 20]),
            padding: None,
            is_hu: true,
            z_spacing_known: true,
        }
    }

    #[test]
    fn a_window_face_and_a_box_stand_at_their_voxels() {
        let overlay = Overlay {
            faces: [vec![20.0], Vec::new(), Vec::new()],
            boxes: vec![MarkedBox {
                at: BoxF([4.0, 6.0, 5.0, 14.0, 16.0, 9.0]),
                tag: "1 .90".to_owned(),
                reference: false,
            }],
        };
        let wl = WindowLevel::new(-600.0, 1500.0);
        let p = slice(&volume(), Plane::Axial, 7, wl, &overlay, 400);
        assert_eq!((p.width, p.height), (400, 300));
        let at = |x: usize, y: usize| &p.rgb[3 * (y * 400 + x)..3 * (y * 400 + x) + 3];
        assert_ne!(
            at(200, 250),
            at(210, 250),
            "the face stands before voxel 20"
        );
        assert_eq!(at(40, 64), [0xE6, 0x9F, 0x00], "left edge of the box");
        assert_eq!(p.tags.len(), 1);
        let none = slice(&volume(), Plane::Axial, 9, wl, &overlay, 400);
        assert!(none.tags.is_empty(), "the box ends before slice 9");
        let png = p.png("axial").unwrap();
        assert_eq!(png, p.png("axial").unwrap(), "the same bytes each time");
        assert_eq!(&png[1..4], b"PNG");
    }

    #[test]
    fn thick_slices_stand_upright_in_the_coronal_plane() {
        let wl = WindowLevel::new(-600.0, 1500.0);
        let p = slice(&volume(), Plane::Coronal, 3, wl, &Overlay::default(), 80);
        assert_eq!((p.width, p.height), (80, 80), "40 mm by 40 mm");
    }
}
