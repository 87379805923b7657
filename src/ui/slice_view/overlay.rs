//! Lines and text over a slice: window grid, overlap, halo, crosshair, orientation letters, scale bar, corner text.

use super::{PlaneMap, Projection, Scene};
use crate::geometry::Plane;
use crate::series::SliceInfo;
use crate::ui::theme::{black, fade, hue, plane_color, white};
use crate::ui::{fonts, paint};
use eframe::egui::{Align2, Color32, Painter, Pos2, Shape, Stroke, StrokeKind, pos2, vec2};

/// Windows as the views draw them, in voxel edges of the loaded volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowGrid {
    /// Where faces lie along i, j, k, sorted, inside the volume.
    pub faces: [Vec<f64>; 3],
    /// What each window sees: first and last edge along i, j, k.
    pub rois: Vec<[[f64; 2]; 3]>,
    /// What is kept of it.
    pub cores: Vec<[[f64; 2]; 3]>,
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "screen positions need no more than f32"
)]
pub(super) const fn f(x: f64) -> f32 {
    x as f32
}

impl WindowGrid {
    /// The window whose kept part holds a voxel index, the first in run order; without cores the nearest centre.
    pub fn at(&self, voxel: [f64; 3]) -> Option<usize> {
        let inside = |b: &[[f64; 2]; 3]| {
            b.iter()
                .zip(voxel)
                .all(|(range, v)| v + 0.5 >= range[0] && v + 0.5 < range[1])
        };
        let distance = |b: &[[f64; 2]; 3]| -> f64 {
            b.iter()
                .zip(voxel)
                .map(|(r, v)| (r[0].midpoint(r[1]) - v - 0.5).powi(2))
                .sum()
        };
        (0..self.cores.len())
            .filter(|&i| inside(&self.cores[i]))
            .min_by(|&a, &b| distance(&self.cores[a]).total_cmp(&distance(&self.cores[b])))
    }

    /// Stretches of window `w` along `axis` that another window covers too.
    fn overlaps(&self, w: usize, axis: usize) -> Vec<[f64; 2]> {
        let [start, end] = self.cores[w][axis];
        let mut out: Vec<[f64; 2]> = Vec::new();
        for other in &self.cores {
            let [s, e] = other[axis];
            if s == start {
                continue;
            }
            let both = [s.max(start), e.min(end)];
            if both[0] < both[1] && !out.contains(&both) {
                out.push(both);
            }
        }
        out.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let mut merged: Vec<[f64; 2]> = Vec::new();
        for r in out {
            match merged.last_mut() {
                Some(last) if r[0] <= last[1] => last[1] = last[1].max(r[1]),
                _ => merged.push(r),
            }
        }
        merged
    }
}

/// Everything under the boxes.
pub(super) fn draw(painter: &Painter, p: &Projection, scene: &Scene<'_>, index: usize) {
    if scene.layers.grid
        && let Some(grid) = scene.grid
    {
        faces(painter, p, grid);
        if let Some(w) = scene.active_window
            && w < grid.rois.len()
        {
            active(painter, p, grid, w, index);
        }
    }
    if scene.layers.crosshair {
        crosshair(painter, p, scene);
    }
}

fn faces(painter: &Painter, p: &Projection, grid: &WindowGrid) {
    let stroke = Stroke::new(1.0, white(0.38));
    let picture = p.picture().intersect(p.rect);
    for &edge in &grid.faces[p.map.right.0] {
        let x = painter.round_to_pixel_center(p.x(edge));
        painter.vline(x, picture.y_range(), stroke);
    }
    for &edge in &grid.faces[p.map.down.0] {
        let y = painter.round_to_pixel_center(p.y(edge));
        painter.hline(picture.x_range(), y, stroke);
    }
}

fn ends(b: &[[f64; 2]; 3]) -> ([f64; 3], [f64; 3]) {
    (b.map(|r| r[0]), b.map(|r| r[1]))
}

fn active(painter: &Painter, p: &Projection, grid: &WindowGrid, w: usize, index: usize) {
    let core = &grid.cores[w];
    let [first, last] = core[p.map.across];
    let centre = index as f64 + 0.5;
    if centre < first || centre >= last {
        return;
    }
    let (min, max) = ends(core);
    let rect = p.rect_of(min, max).intersect(p.picture());
    painter.rect_filled(rect, 0, white(0.08));
    let line = Stroke::new(1.0, white(0.22));
    let across_twice = grid
        .overlaps(w, p.map.across)
        .iter()
        .any(|r| centre >= r[0] && centre < r[1]);
    let clipped = painter.with_clip_rect(rect.intersect(painter.clip_rect()));
    if across_twice {
        paint::hatch(&clipped, rect, 8.0, line);
    } else {
        bands(&clipped, p, grid, w, line);
    }
    painter.rect_stroke(
        rect,
        0,
        Stroke::new(1.0, Color32::WHITE),
        StrokeKind::Inside,
    );
    let roi = &grid.rois[w];
    if roi != core {
        let (min, max) = ends(roi);
        let halo = p.rect_of(min, max);
        painter.extend(Shape::dashed_line(
            &paint::outline(halo),
            Stroke::new(1.0, Color32::WHITE),
            1.0,
            4.0,
        ));
    }
}

/// Hatches the overlap along the right axis over the full height, then along the down axis between those.
fn bands(painter: &Painter, p: &Projection, grid: &WindowGrid, w: usize, line: Stroke) {
    let (r, d) = (p.map.right.0, p.map.down.0);
    let core = &grid.cores[w];
    let columns = grid.overlaps(w, r);
    let mut free = vec![core[r]];
    for band in &columns {
        let (mut min, mut max) = ends(core);
        (min[r], max[r]) = (band[0], band[1]);
        paint::hatch(painter, p.rect_of(min, max), 8.0, line);
        free = free
            .into_iter()
            .flat_map(|f| [[f[0], f[1].min(band[0])], [f[0].max(band[1]), f[1]]])
            .filter(|f| f[1] > f[0])
            .collect();
    }
    for band in grid.overlaps(w, d) {
        for f in &free {
            let (mut min, mut max) = ends(core);
            (min[r], max[r]) = (f[0], f[1]);
            (min[d], max[d]) = (band[0], band[1]);
            paint::hatch(painter, p.rect_of(min, max), 8.0, line);
        }
    }
}

/// Lines of the other two planes, with a gap of 26 around the centre.
fn crosshair(painter: &Painter, p: &Projection, scene: &Scene<'_>) {
    let (r, d) = (p.map.right.0, p.map.down.0);
    let x = painter.round_to_pixel_center(p.x(scene.crosshair[r] + 0.5));
    let y = painter.round_to_pixel_center(p.y(scene.crosshair[d] + 0.5));
    let (vertical, horizontal) = match p.map.plane {
        Plane::Axial => (Plane::Sagittal, Plane::Coronal),
        Plane::Coronal => (Plane::Sagittal, Plane::Axial),
        Plane::Sagittal => (Plane::Coronal, Plane::Axial),
    };
    let gap = 26.0;
    let v = Stroke::new(1.0, fade(plane_color(vertical), 0.85));
    let h = Stroke::new(1.0, fade(plane_color(horizontal), 0.85));
    let rect = p.rect;
    painter.vline(x, rect.top()..=(y - gap).max(rect.top()), v);
    painter.vline(x, (y + gap).min(rect.bottom())..=rect.bottom(), v);
    painter.hline(rect.left()..=(x - gap).max(rect.left()), y, h);
    painter.hline((x + gap).min(rect.right())..=rect.right(), y, h);
}

/// Letters, scale bar and corner text: over everything.
pub(super) fn corners(
    painter: &Painter,
    p: &Projection,
    scene: &Scene<'_>,
    index: usize,
    pointer: Option<Pos2>,
) {
    let rect = p.rect;
    if scene.layers.letters {
        let c = [Color32::WHITE, Color32::BLACK];
        let [left, right, top, bottom] = if scene.orientation_known {
            p.map.letters()
        } else {
            // No file says it: a letter would be a guess.
            std::array::from_fn(|_| "?".to_owned())
        };
        for (at, align, letter) in [
            (
                rect.left_center() + vec2(10.0, 0.0),
                Align2::LEFT_CENTER,
                left,
            ),
            (
                rect.right_center() - vec2(10.0, 0.0),
                Align2::RIGHT_CENTER,
                right,
            ),
            (rect.center_top() + vec2(0.0, 6.0), Align2::CENTER_TOP, top),
            (
                rect.center_bottom() - vec2(0.0, 6.0),
                Align2::CENTER_BOTTOM,
                bottom,
            ),
        ] {
            paint::cased(painter, at, align, &letter, fonts::body_bold(), c);
        }
    }
    let in_plane = [p.map.right.0, p.map.down.0];
    if scene.layers.scale_bar && in_plane.iter().all(|&a| scene.spacing_mm[a].is_some()) {
        scale_bar(painter, p);
    }
    if scene.layers.corner_text {
        texts(painter, p, scene, index, pointer);
    }
}

fn scale_bar(painter: &Painter, p: &Projection) {
    let most = p.rect.width() * 0.3;
    let mm = [100.0_f32, 50.0, 20.0, 10.0, 5.0]
        .into_iter()
        .find(|mm| mm * p.scale <= most)
        .unwrap_or(2.0);
    let half = mm * p.scale / 2.0;
    let c = p.rect.center_bottom() - vec2(0.0, 34.0);
    let (a, b) = (pos2(c.x - half, c.y), pos2(c.x + half, c.y));
    for stroke in [
        Stroke::new(5.0, black(0.7)),
        Stroke::new(2.0, Color32::WHITE),
    ] {
        painter.line_segment([a, b], stroke);
        for end in [a, b] {
            painter.line_segment([end - vec2(0.0, 5.0), end + vec2(0.0, 5.0)], stroke);
        }
    }
    paint::cased(
        painter,
        c - vec2(0.0, 7.0),
        Align2::CENTER_BOTTOM,
        &format!("{mm:.0} mm"),
        fonts::caption(),
        [Color32::WHITE, Color32::BLACK],
    );
}

/// The stored image that a view shows, where its slices are the stored ones.
pub(super) fn stored<'a>(map: &PlaneMap, scene: &Scene<'a>, index: usize) -> Option<&'a SliceInfo> {
    if map.across == 2 {
        scene.slices.get(index)
    } else {
        None
    }
}

/// Where the crosshair's point on a view's slice lies (LPS, mm): by the stored slice's own position, which uneven steps and
/// gaps do not move, else by the affine. `None` where the files say no position.
fn place(map: &PlaneMap, scene: &Scene<'_>, index: usize) -> Option<[f64; 3]> {
    let mut v = scene.crosshair;
    v[map.across] = index as f64;
    if scene.slices.is_empty() {
        return Some(scene.affine.to_patient(v));
    }
    let k = super::whole(v[2].round().max(0.0));
    let from = scene.slices.get(k)?.position?;
    let step = scene.affine.step;
    Some(std::array::from_fn(|c| {
        from[c] + v[0] * step[0][c] + v[1] * step[1][c] + (v[2] - k as f64) * step[2][c]
    }))
}

/// The patient axis across a view, its letter, and the words for its two ends.
const fn across_words(plane: Plane) -> (&'static str, usize, [&'static str; 2]) {
    match plane {
        Plane::Axial => ("z", 2, ["superior", "inferior"]),
        Plane::Coronal => ("y", 1, ["posterior", "anterior"]),
        Plane::Sagittal => ("x", 0, ["left", "right"]),
    }
}

/// "z 64.0 mm superior" for the across axis of a view at a slice.
pub(super) fn position(map: &PlaneMap, scene: &Scene<'_>, index: usize) -> String {
    let (axis, component, words) = across_words(map.plane);
    let Some(at) = place(map, scene, index) else {
        return "position unknown".to_owned();
    };
    let value = at[component];
    let word = if value >= 0.0 { words[0] } else { words[1] };
    format!("{axis} {} mm {word}", paint::number(value.abs(), 1))
}

/// Position and spacing for the corner: one coordinate where the slice has only one, all three where it lies askew.
fn position_lines(map: &PlaneMap, scene: &Scene<'_>, index: usize) -> Vec<String> {
    let (axis, component, _) = across_words(map.plane);
    let mm = |v: f64| paint::number(v, 1);
    let square = map.towards.iter().all(|d| d[component].abs() < 0.01);
    let mut lines = match place(map, scene, index) {
        None => vec!["position unknown".to_owned()],
        Some(at) if square => vec![format!("{axis} {} mm", mm(at[component]))],
        Some(at) => vec![
            format!("x {}", mm(at[0])),
            format!("y {}", mm(at[1])),
            format!("z {} mm", mm(at[2])),
        ],
    };
    lines.push(scene.spacing_mm[map.across].map_or_else(
        || "spacing unknown".to_owned(),
        |s| format!("spacing {} mm", paint::number(s, 2)),
    ));
    lines
}

fn texts(
    painter: &Painter,
    p: &Projection,
    scene: &Scene<'_>,
    index: usize,
    pointer: Option<Pos2>,
) {
    let map = &p.map;
    let rect = p.rect;
    let slice = format!("{} / {}", index + 1, map.extent[map.across]);
    let name = map.plane.name().to_uppercase();
    let image = (map.across == 2).then(|| {
        let instance = stored(map, scene, index).map(|s| match s.instance_number {
            Some(n) => format!(" \u{b7} instance {n}"),
            None => " \u{b7} instance \u{2014}".to_owned(),
        });
        format!("k {index}{}", instance.unwrap_or_default())
    });
    let mut lines = vec![
        (name.as_str(), plane_color(map.plane)),
        (slice.as_str(), hue::ON_SLICE),
    ];
    lines.extend(image.as_deref().map(|i| (i, hue::ON_SLICE)));
    block(painter, rect.left_top(), Align2::LEFT_TOP, &lines);
    if map.plane == Plane::Axial {
        let lines: Vec<_> = scene
            .subject
            .iter()
            .filter(|s| !s.is_empty())
            .map(|s| (s.as_str(), hue::ON_SLICE))
            .collect();
        block(painter, rect.right_top(), Align2::RIGHT_TOP, &lines);
    }
    let value = pointer.and_then(|at| value_at(p, scene, index, at));
    let level = level_text(scene.window);
    let slab = scene.slab.name();
    let mut lines: Vec<(&str, Color32)> = Vec::new();
    if let Some(text) = &value {
        lines.push((text, hue::ON_SLICE));
    }
    if !slab.is_empty() {
        lines.push((slab, hue::ON_SLICE));
    }
    lines.push((&level, hue::ON_SLICE));
    block(painter, rect.left_bottom(), Align2::LEFT_BOTTOM, &lines);
    let place = position_lines(map, scene, index);
    let lines: Vec<_> = place.iter().map(|l| (l.as_str(), hue::ON_SLICE)).collect();
    block(painter, rect.right_bottom(), Align2::RIGHT_BOTTOM, &lines);
}

/// Width and level, with the decimals that a narrow window needs.
fn level_text((level, width): (f32, f32)) -> String {
    let decimals = match width {
        w if w >= 10.0 => 0,
        w if w >= 1.0 => 1,
        _ => 3,
    };
    let [w, l] = [width, level].map(|v| paint::number(f64::from(v), decimals));
    format!("W {w} L {l}")
}

fn value_at(p: &Projection, scene: &Scene<'_>, index: usize, at: Pos2) -> Option<String> {
    let v = p.voxel(at, index as f64);
    if v.iter()
        .zip(p.map.extent)
        .any(|(&x, n)| x < -0.5 || x >= n as f64 - 0.5)
    {
        return None;
    }
    let value = scene
        .volume?
        .at(v.map(|x| super::whole(x.round().max(0.0))))?;
    let unit = if scene.is_hu { "HU" } else { "value" };
    let digits = crate::units::decimals_of(value);
    Some(format!(
        "{unit} {}",
        paint::number(f64::from(value), digits)
    ))
}

/// Lines of 12 on black 60 % in a corner.
fn block(painter: &Painter, corner: Pos2, align: Align2, lines: &[(&str, Color32)]) {
    if lines.is_empty() {
        return;
    }
    let galleys: Vec<_> = lines
        .iter()
        .enumerate()
        .map(|(i, &(text, color))| {
            let font = if i == 0 && color != hue::ON_SLICE {
                fonts::caption_bold()
            } else {
                fonts::caption()
            };
            painter.layout_no_wrap(text.to_owned(), font, color)
        })
        .collect();
    let width = galleys.iter().map(|g| g.size().x).fold(0.0, f32::max);
    let size = vec2(width + 12.0, galleys.len() as f32 * 17.0 + 5.0);
    let inset = vec2(
        if align.x() == eframe::egui::Align::Min {
            4.0
        } else {
            -4.0
        },
        if align.y() == eframe::egui::Align::Min {
            4.0
        } else {
            -4.0
        },
    );
    let rect = align.anchor_size(corner + inset, size);
    painter.rect_filled(rect, 2, black(0.6));
    for (i, galley) in galleys.into_iter().enumerate() {
        let x = if align.x() == eframe::egui::Align::Min {
            rect.left() + 6.0
        } else {
            rect.right() - 6.0 - galley.size().x
        };
        let y = rect.top() + 3.0 + i as f32 * 17.0;
        painter.galley(pos2(x, y), galley, Color32::WHITE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_window_that_its_neighbours_cover_is_known() {
        let span = |a: f64, b: f64| [[a, b], [0.0, 10.0], [0.0, 10.0]];
        let rois = vec![span(0.0, 10.0), span(8.0, 18.0), span(15.0, 25.0)];
        let grid = WindowGrid {
            faces: [vec![], vec![], vec![]],
            cores: rois.clone(),
            rois,
        };
        assert_eq!(grid.overlaps(1, 0), vec![[8.0, 10.0], [15.0, 18.0]]);
        assert_eq!(grid.overlaps(1, 1), Vec::<[f64; 2]>::new());
        assert_eq!(grid.at([8.4, 2.0, 2.0]), Some(0));
        assert_eq!(grid.at([40.0, 2.0, 2.0]), None);
    }

    #[test]
    fn the_level_of_a_window_one_value_wide_is_not_rounded_to_0() {
        assert_eq!(level_text((0.5, 1.0)), "W 1.0 L 0.5");
        assert_eq!(level_text((-600.0, 1500.0)), "W 1500 L \u{2212}600");
    }
}
