//! Axes of the workspace's plots: grid lines and numbers at the left, ticks below, titles on both.

use crate::ui::theme::Theme;
use crate::ui::{fonts, paint};
use eframe::egui::{self, Align2, Painter, Pos2, Rect, Stroke, pos2};

/// Where data lies on the screen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axes {
    /// The plot without its numbers.
    pub(super) plot: Rect,
    /// Ends of the horizontal axis.
    pub(super) x: [f64; 2],
    /// Ends of the vertical axis.
    pub(super) y: [f64; 2],
}

impl Axes {
    /// A value's place from left to right.
    pub(super) fn x(&self, v: f64) -> f32 {
        let [low, high] = self.x;
        let share = (v - low) / (high - low).max(1e-12);
        egui::lerp(self.plot.x_range(), paint::f(share.clamp(0.0, 1.0)))
    }

    /// A value's place from bottom to top.
    pub(super) fn y(&self, v: f64) -> f32 {
        let [low, high] = self.y;
        let share = (v - low) / (high - low).max(1e-12);
        egui::lerp(
            self.plot.bottom()..=self.plot.top(),
            paint::f(share.clamp(0.0, 1.0)),
        )
    }

    /// The place of a point.
    pub(super) fn at(&self, p: [f64; 2]) -> Pos2 {
        pos2(self.x(p[0]), self.y(p[1]))
    }

    /// Grid lines with their numbers.
    pub(super) fn rows(&self, painter: &Painter, rows: &[(f64, String)], t: &Theme) {
        let mut free = f32::INFINITY;
        for (v, text) in rows {
            let y = self.y(*v);
            painter.hline(
                self.plot.x_range(),
                y.round() + 0.5,
                Stroke::new(1.0, t.line),
            );
            if free - y < 15.0 {
                continue;
            }
            free = y;
            painter.text(
                pos2(self.plot.left() - 8.0, y),
                Align2::RIGHT_CENTER,
                text,
                fonts::caption(),
                t.secondary,
            );
        }
    }

    /// Ticks below with their numbers.
    pub(super) fn columns(&self, painter: &Painter, columns: &[(f64, String)], t: &Theme) {
        for (v, text) in columns {
            let x = self.x(*v);
            let below = self.plot.bottom()..=self.plot.bottom() + 4.0;
            painter.vline(x.round() + 0.5, below, Stroke::new(1.0, t.line_strong));
            painter.text(
                pos2(x, self.plot.bottom() + 13.0),
                Align2::CENTER_CENTER,
                text,
                fonts::caption(),
                t.secondary,
            );
        }
    }

    /// Names of both axes; an empty one is left out.
    pub(super) fn titles(&self, painter: &Painter, x: &str, y: &str, t: &Theme) {
        painter.text(
            pos2(self.plot.center().x, self.plot.bottom() + 32.0),
            Align2::CENTER_CENTER,
            x,
            fonts::caption(),
            t.secondary,
        );
        let title = painter.layout_no_wrap(y.to_owned(), fonts::caption(), t.secondary);
        let at = pos2(
            self.plot.left() - 74.0,
            self.plot.center().y + title.size().x / 2.0,
        );
        let shape = egui::epaint::TextShape::new(at, title, t.secondary);
        painter.add(shape.with_angle(-std::f32::consts::FRAC_PI_2));
    }
}

/// Round numbers over a range, at most `most` steps.
pub(super) fn ticks([low, high]: [f64; 2], most: f64) -> Vec<(f64, String)> {
    let span = (high - low).max(1e-9);
    let mut step = 10f64.powf((span / most).log10().floor());
    step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|f| f * step)
        .find(|s| span / s <= most)
        .unwrap_or(span);
    let decimals = if step >= 1.0 {
        0
    } else if step >= 0.1 {
        1
    } else if step >= 0.01 {
        2
    } else {
        3
    };
    let first = (low / step).ceil();
    (0_u8..=40)
        .map(|i| (first + f64::from(i)) * step)
        .take_while(|v| *v <= high + 1e-9)
        .map(|v| (v, paint::number(v, decimals)))
        .collect()
}

/// Facts of a plot in a column at its right: name and number, the first large.
pub(super) fn facts(ui: &egui::Ui, rect: Rect, list: &[(&str, String)], t: &Theme) {
    let mut y = rect.top();
    for (name, value) in list {
        let painter = ui.painter();
        let (align, font) = (Align2::LEFT_TOP, fonts::caption());
        painter.text(pos2(rect.left(), y), align, name, font, t.secondary);
        let at = pos2(rect.left(), y + 15.0);
        let galley = painter.layout(value.clone(), fonts::body_bold(), t.strong, rect.width());
        let high = galley.size().y;
        painter.galley(at, galley, t.strong);
        y += 19.0 + high;
        if y > rect.bottom() - 30.0 {
            break;
        }
    }
}
