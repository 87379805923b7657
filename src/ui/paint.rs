//! Marks that several panels draw: status shapes, key caps, tags, cased text, hatches, dashes.

use super::{fonts, theme::Theme};
use crate::memory::Verdict;
pub use crate::units::number;
use eframe::egui::{
    Align2, Color32, CornerRadius, FontId, Painter, Pos2, Rect, Shape, Stroke, StrokeKind, pos2,
    vec2,
};

/// A shape that says a status without its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Fits, bitwise, match.
    Disc,
    /// Tight, within tolerance, split.
    Triangle,
    /// Over, differs, missing.
    Cross,
    /// Not run.
    Ring,
}

/// Draws a mark `size` wide.
pub fn mark(painter: &Painter, centre: Pos2, size: f32, mark: Mark, color: Color32) {
    let r = size / 2.0;
    match mark {
        Mark::Disc => {
            painter.circle_filled(centre, r * 0.85, color);
        }
        Mark::Ring => {
            painter.circle_stroke(centre, r * 0.8, Stroke::new(1.5, color));
        }
        Mark::Triangle => {
            let c = centre + vec2(0.0, r * 0.1);
            painter.add(Shape::convex_polygon(
                vec![
                    c + vec2(0.0, -r),
                    c + vec2(r * 1.1, r * 0.85),
                    c + vec2(-r * 1.1, r * 0.85),
                ],
                color,
                Stroke::NONE,
            ));
        }
        Mark::Cross => {
            let r = r * 0.8;
            let s = Stroke::new(2.0, color);
            painter.line_segment([centre + vec2(-r, -r), centre + vec2(r, r)], s);
            painter.line_segment([centre + vec2(-r, r), centre + vec2(r, -r)], s);
        }
    }
}

/// Shape, colour and word of a verdict.
pub const fn verdict(theme: &Theme, verdict: Verdict) -> (Mark, Color32, &'static str) {
    match verdict {
        Verdict::Fits => (Mark::Disc, theme.fits, "fits"),
        Verdict::Tight => (Mark::Triangle, theme.tight, "tight"),
        Verdict::Over => (Mark::Cross, theme.over, "OVER"),
    }
}

/// Text with a dark casing, legible over any picture.
pub fn cased(
    painter: &Painter,
    pos: Pos2,
    align: Align2,
    text: &str,
    font: FontId,
    colors: [Color32; 2],
) -> Rect {
    let galley = painter.layout_no_wrap(text.to_owned(), font, colors[0]);
    let rect = align.anchor_size(pos, galley.size());
    for (x, y) in [
        (-1.5, 0.0),
        (1.5, 0.0),
        (0.0, -1.5),
        (0.0, 1.5),
        (-1.0, -1.0),
        (1.0, -1.0),
        (-1.0, 1.0),
        (1.0, 1.0),
    ] {
        painter.galley_with_override_text_color(rect.min + vec2(x, y), galley.clone(), colors[1]);
    }
    painter.galley(rect.min, galley, colors[0]);
    rect
}

/// 45-degree lines of `step` points inside `rect`.
pub fn hatch(painter: &Painter, rect: Rect, step: f32, stroke: Stroke) {
    let rect = rect.intersect(painter.clip_rect());
    if !rect.is_positive() || step <= 0.0 {
        return;
    }
    let mut c = ((rect.left() + rect.top()) / step).ceil() * step;
    let end = rect.right() + rect.bottom();
    while c < end {
        let (x0, x1) = (
            (c - rect.bottom()).max(rect.left()),
            (c - rect.top()).min(rect.right()),
        );
        if x1 > x0 {
            painter.line_segment([pos2(x0, c - x0), pos2(x1, c - x1)], stroke);
        }
        c += step;
    }
}

/// The outline of a rectangle as one path.
pub fn outline(rect: Rect) -> [Pos2; 5] {
    [
        rect.left_top(),
        rect.right_top(),
        rect.right_bottom(),
        rect.left_bottom(),
        rect.left_top(),
    ]
}

/// A dashed rectangle.
pub fn dashed_rect(painter: &Painter, rect: Rect, stroke: Stroke, dash: f32, gap: f32) {
    painter.extend(Shape::dashed_line(&outline(rect), stroke, dash, gap));
}

/// A label on black 72 %, as beside boxes. Returns its rectangle.
pub fn tag(painter: &Painter, left_top: Pos2, text: &str, color: Color32) -> Rect {
    let galley = painter.layout_no_wrap(text.to_owned(), fonts::caption_bold(), color);
    let rect = Rect::from_min_size(left_top, vec2(galley.size().x + 10.0, 18.0));
    painter.rect_filled(rect, CornerRadius::same(2), super::theme::black(0.72));
    painter.galley(
        pos2(rect.left() + 5.0, rect.center().y - galley.size().y / 2.0),
        galley,
        color,
    );
    rect
}

/// The width that `tag` will need.
pub fn tag_width(painter: &Painter, text: &str) -> f32 {
    painter
        .layout_no_wrap(text.to_owned(), fonts::caption_bold(), Color32::WHITE)
        .size()
        .x
        + 10.0
}

/// A key cap with its right edge at `right`; returns its rectangle.
pub fn key_cap(painter: &Painter, right: Pos2, keys: &str, theme: &Theme) -> Rect {
    let galley = painter.layout_no_wrap(keys.to_owned(), fonts::caption(), theme.secondary);
    let size = vec2(galley.size().x + 10.0, 18.0);
    let rect = Rect::from_min_size(pos2(right.x - size.x, right.y - size.y / 2.0), size);
    painter.rect_stroke(
        rect,
        CornerRadius::same(3),
        Stroke::new(1.0, theme.line_strong),
        StrokeKind::Inside,
    );
    painter.galley(
        pos2(rect.left() + 5.0, rect.center().y - galley.size().y / 2.0),
        galley,
        theme.secondary,
    );
    rect
}

/// A position for the painter, which needs no more than f32.
#[expect(
    clippy::cast_possible_truncation,
    reason = "screen positions need no more than f32"
)]
pub const fn f(x: f64) -> f32 {
    x as f32
}

/// "32, 32, 16"; an em dash where unknown or unbounded.
pub fn triple(v: [Option<usize>; 3]) -> String {
    v.map(|n| n.map_or_else(|| "\u{2014}".to_owned(), |n| n.to_string()))
        .join(", ")
}

/// A size with true multiplication signs.
pub fn times(extent: crate::geometry::Extent) -> String {
    format!("{}\u{d7}{}\u{d7}{}", extent.x, extent.y, extent.z)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_true_minus_and_no_minus_zero() {
        assert_eq!(number(-0.07, 2), "\u{2212}0.07");
        assert_eq!(number(-0.001, 2), "0.00");
        assert_eq!(number(12.345, 1), "12.3");
    }
}
