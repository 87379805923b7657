//! What the Seams workspace lays over a slice: a map of values, how many windows cover a voxel, the seam in focus, its worst place.

use super::{Projection, Scene};
use crate::geometry::Axis;
use crate::report::ink;
use crate::ui::paint;
use crate::ui::theme::{black, hue};
use eframe::egui::{Color32, Mesh, Painter, Rect, Shape, Stroke, TextureId, pos2, vec2};

/// A map as a texture over the whole slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heat {
    /// The texture: its columns run along the first of `axes`, its rows along the second, lowest index first.
    pub texture: TextureId,
    /// Voxel axes of the loaded volume.
    pub axes: [usize; 2],
}

/// What lies over one view of the Seams workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeamLayer {
    /// The map.
    pub heat: Option<Heat>,
    /// Whether coverage is shown.
    pub cover: bool,
    /// The seam in focus: the loaded axis across it, and its place in voxel borders.
    pub face: Option<(Axis, f64)>,
    /// The worst place near it (voxel indices), and what the tag says of it.
    pub spot: Option<([f64; 3], String)>,
}

/// Under the window grid.
pub(super) fn under(painter: &Painter, p: &Projection, scene: &Scene<'_>) {
    if scene.seam.cover {
        cover(painter, p, scene);
    }
    let Some(heat) = scene.seam.heat else { return };
    let (r, d) = (p.map.right.0, p.map.down.0);
    let edges = |axis: usize| [0.0, p.map.extent[axis] as f64];
    let mut mesh = Mesh::with_texture(heat.texture);
    for down in [0, 1] {
        for right in [0, 1] {
            let at = pos2(p.x(edges(r)[right]), p.y(edges(d)[down]));
            let share = |axis: usize| if axis == r { right } else { down };
            let uv = heat.axes.map(|a| share(a) as f32);
            mesh.vertices.push(eframe::egui::epaint::Vertex {
                pos: at,
                uv: pos2(uv[0], uv[1]),
                color: Color32::WHITE,
            });
        }
    }
    mesh.indices.extend([0, 1, 2, 2, 1, 3]);
    painter.add(Shape::mesh(mesh));
}

/// How many windows cover each voxel, from one to as many as there are.
fn cover(painter: &Painter, p: &Projection, scene: &Scene<'_>) {
    let Some(grid) = scene.grid else { return };
    let spans = |axis: usize| -> (Vec<[f64; 2]>, Vec<f64>) {
        let mut spans: Vec<[f64; 2]> = grid.cores.iter().map(|c| c[axis]).collect();
        spans.sort_by(|x, y| x[0].total_cmp(&y[0]).then(x[1].total_cmp(&y[1])));
        spans.dedup();
        let mut edges: Vec<f64> = spans.iter().flatten().copied().collect();
        edges.sort_by(f64::total_cmp);
        edges.dedup();
        (spans, edges)
    };
    let (r, d, a) = (p.map.right.0, p.map.down.0, p.map.across);
    let count = |spans: &[[f64; 2]], at: f64| {
        let inside = |s: &&[f64; 2]| s[0] <= at && at < s[1];
        spans.iter().filter(inside).count()
    };
    let (through, _) = spans(a);
    let here = count(&through, scene.crosshair[a] + 0.5);
    let ((right, x), (down, y)) = (spans(r), spans(d));
    let most = |s: &[[f64; 2]], edges: &[f64]| {
        let all = edges.iter().map(|e| count(s, *e));
        all.max().unwrap_or(1).max(1)
    };
    let deepest = through.iter().map(|s| count(&through, s[0])).max();
    let most = most(&right, &x) * most(&down, &y) * deepest.unwrap_or(1).max(1);
    for column in x.windows(2) {
        for row in y.windows(2) {
            let n = here
                * count(&right, column[0].midpoint(column[1]))
                * count(&down, row[0].midpoint(row[1]));
            if n == 0 {
                continue;
            }
            let share = if most > 1 {
                (n as f64).log2() / (most as f64).log2()
            } else {
                0.0
            };
            let [red, green, blue] = ink::viridis(share);
            let color = Color32::from_rgb(red, green, blue).gamma_multiply(0.4);
            let rect = Rect::from_two_pos(
                pos2(p.x(column[0]), p.y(row[0])),
                pos2(p.x(column[1]), p.y(row[1])),
            );
            painter.rect_filled(rect.intersect(p.picture()), 0, color);
            if n > 1 && rect.width() > 26.0 && rect.height() > 18.0 {
                let colors = [Color32::WHITE, Color32::BLACK];
                let (at, middle) = (rect.center(), eframe::egui::Align2::CENTER_CENTER);
                let font = crate::ui::fonts::caption();
                paint::cased(painter, at, middle, &n.to_string(), font, colors);
            }
        }
    }
}

/// Over the window grid: the seam in focus and its worst place.
pub(super) fn over(painter: &Painter, p: &Projection, scene: &Scene<'_>) {
    let picture = p.picture().intersect(p.rect);
    if let Some((axis, at)) = scene.seam.face {
        let a = axis.index();
        let tag = format!("face {} {at:.0}", axis.name());
        let wide = paint::tag_width(painter, &tag);
        for stroke in [
            Stroke::new(4.0, black(0.5)),
            Stroke::new(2.0, Color32::WHITE),
        ] {
            if a == p.map.down.0 {
                painter.hline(picture.x_range(), p.y(at), stroke);
            } else if a == p.map.right.0 {
                painter.vline(p.x(at), picture.y_range(), stroke);
            }
        }
        if a == p.map.down.0 {
            let y = (p.y(at) - 21.0).max(picture.top() + 2.0);
            paint::tag(
                painter,
                pos2(picture.right() - wide - 4.0, y),
                &tag,
                Color32::WHITE,
            );
        } else if a == p.map.right.0 {
            let x = (p.x(at) + 4.0).min(picture.right() - wide - 2.0);
            paint::tag(
                painter,
                pos2(x, picture.bottom() - 60.0),
                &tag,
                Color32::WHITE,
            );
        }
    }
    let Some((at, text)) = &scene.seam.spot else {
        return;
    };
    if (at[p.map.across] - scene.crosshair[p.map.across]).abs() > 2.5 {
        // It lies in another slice.
        return;
    }
    let c = pos2(p.x(at[p.map.right.0] + 0.5), p.y(at[p.map.down.0] + 0.5));
    let square = Rect::from_center_size(c, vec2(24.0, 24.0));
    for stroke in [
        Stroke::new(4.0, black(0.75)),
        Stroke::new(2.0, hue::REFERENCE),
    ] {
        painter.rect_stroke(square, 0, stroke, eframe::egui::StrokeKind::Middle);
    }
    let wide = paint::tag_width(painter, text);
    let x = (c.x - wide / 2.0).clamp(
        picture.left() + 2.0,
        (picture.right() - wide - 2.0).max(picture.left() + 2.0),
    );
    let above = square.top() - 22.0;
    let y = if above < picture.top() + 2.0 {
        square.bottom() + 4.0
    } else {
        above
    };
    paint::tag(painter, pos2(x, y), text, Color32::WHITE);
}
