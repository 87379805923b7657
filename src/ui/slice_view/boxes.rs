//! Detection boxes on a slice: two points with a black halo, reference solid, tiled dashed, tags that avoid each other.

use super::{PlaneMap, Projection, Scene};
use crate::geometry::BoxF;
use crate::ui::paint;
use crate::ui::theme::{black, fade, hue};
use eframe::egui::{Color32, Painter, Pos2, Rect, Shape, Stroke, pos2, vec2};

/// A detection to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxMark {
    /// Corner box in voxels of the loaded volume.
    pub at: BoxF,
    /// Place in the result, of a reference's box in the match.
    pub row: usize,
    /// What the tag says; nothing draws none.
    pub tag: String,
    /// Drawn solid in the reference's colour.
    pub reference: bool,
    /// The list's selected row.
    pub selected: bool,
}

fn corners(b: &BoxF) -> ([f64; 3], [f64; 3]) {
    let c = b.0.map(f64::from);
    ([c[0], c[1], c[2]], [c[3], c[4], c[5]])
}

/// Boxes whose extent across the view holds the slice's centre.
pub(super) fn on_slice<'a>(
    map: &PlaneMap,
    scene: &'a Scene<'_>,
    index: usize,
) -> impl Iterator<Item = &'a BoxMark> + use<'a> {
    let across = map.across;
    let centre = index as f64 + 0.5;
    let layers = scene.layers;
    scene.boxes.iter().filter(move |b| {
        let (min, max) = corners(&b.at);
        layers.boxes && centre >= min[across] && centre < max[across]
    })
}

/// The row of the smallest box under a point, and whether it is of the reference.
pub(super) fn hit(
    p: &Projection,
    scene: &Scene<'_>,
    index: usize,
    at: Pos2,
) -> Option<(usize, bool)> {
    on_slice(&p.map, scene, index)
        .filter_map(|b| {
            let (min, max) = corners(&b.at);
            let r = p.rect_of(min, max).expand(3.0);
            // Of two boxes of one finding the run's is meant.
            let area = r.area() + f32::from(u8::from(b.reference)) * 0.5 * r.area();
            r.contains(at).then_some((area, (b.row, b.reference)))
        })
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, row)| row)
}

/// Reference boxes first, then tiled ones, then all tags.
pub(super) fn draw(painter: &Painter, p: &Projection, scene: &Scene<'_>, index: usize) {
    let shown: Vec<&BoxMark> = on_slice(&p.map, scene, index).collect();
    let alpha = if scene.stale { 0.45 } else { 1.0 };
    for reference in [true, false] {
        for b in shown.iter().filter(|b| b.reference == reference) {
            let (min, max) = corners(&b.at);
            frame(painter, p.rect_of(min, max), color(b, alpha), b.reference);
        }
    }
    let mut taken: Vec<Rect> = Vec::new();
    let mut order = shown;
    order.sort_by_key(|b| (!b.selected, b.reference, b.row));
    for b in order {
        if b.tag.is_empty() {
            continue;
        }
        let (min, max) = corners(&b.at);
        tag(painter, p.rect_of(min, max), b, color(b, alpha), &mut taken);
    }
}

fn color(b: &BoxMark, alpha: f32) -> Color32 {
    fade(
        if b.reference {
            hue::REFERENCE
        } else {
            hue::TILED
        },
        alpha,
    )
}

fn frame(painter: &Painter, rect: Rect, color: Color32, solid: bool) {
    let halo = Stroke::new(4.0, black(0.75));
    let line = Stroke::new(2.0, color);
    if rect.width() < 14.0 || rect.height() < 14.0 {
        let rect = Rect::from_center_size(rect.center(), rect.size().max(vec2(8.0, 8.0)));
        for stroke in [halo, line] {
            brackets(painter, rect, stroke);
        }
        return;
    }
    painter.add(Shape::closed_line(paint::outline(rect)[..4].to_vec(), halo));
    if solid {
        painter.add(Shape::closed_line(paint::outline(rect)[..4].to_vec(), line));
    } else {
        paint::dashed_rect(painter, rect, line, 6.0, 4.0);
    }
}

fn brackets(painter: &Painter, r: Rect, stroke: Stroke) {
    let (w, h) = (
        (r.width() * 0.35).clamp(2.0, 4.0),
        (r.height() * 0.35).clamp(2.0, 4.0),
    );
    for (corner, dx, dy) in [
        (r.left_top(), w, h),
        (r.right_top(), -w, h),
        (r.left_bottom(), w, -h),
        (r.right_bottom(), -w, -h),
    ] {
        painter.add(Shape::line(
            vec![corner + vec2(0.0, dy), corner, corner + vec2(dx, 0.0)],
            stroke,
        ));
    }
}

fn tag(painter: &Painter, rect: Rect, b: &BoxMark, color: Color32, taken: &mut Vec<Rect>) {
    let size = vec2(paint::tag_width(painter, &b.tag), 18.0);
    let x = rect.center().x - size.x / 2.0;
    let places = [
        pos2(x, rect.top() - 4.0 - size.y),
        pos2(x, rect.bottom() + 4.0),
        pos2(rect.right() + 4.0, rect.center().y - 9.0),
        pos2(rect.left() - 4.0 - size.x, rect.center().y - 9.0),
    ];
    let inside = painter.clip_rect();
    let free = |at: &&Pos2| {
        let r = Rect::from_min_size(**at, size);
        inside.contains_rect(r) && taken.iter().all(|t| !t.intersects(r))
    };
    let Some(at) = places
        .iter()
        .find(free)
        .or_else(|| b.selected.then_some(&places[0]))
    else {
        return;
    };
    let drawn = paint::tag(painter, *at, &b.tag, color);
    if b.selected {
        painter.rect_stroke(
            drawn,
            2,
            Stroke::new(1.0, Color32::WHITE),
            eframe::egui::StrokeKind::Inside,
        );
    }
    taken.push(drawn.expand(1.0));
}
