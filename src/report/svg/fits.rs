//! The surface of what fits as SVG.

use super::{Svg, caption, hex};
use crate::report::fits::{FitsChart, FitsMark, Y_TITLE};
use crate::report::ink;
use std::fmt::Write as _;

/// The surface at this size.
pub fn fits(chart: &FitsChart, width: f64, height: f64) -> String {
    let mut svg = Svg::default();
    let (left, top, right, bottom) = (64.0, 40.0, width - 76.0, height - 44.0);
    let [x0, x1, y0, y1] = chart.edges;
    let x = |v: f64| left + (right - left) * ((v - x0) / (x1 - x0)).clamp(0.0, 1.0);
    let y = |v: f64| bottom - (bottom - top) * ((v - y0) / (y1 - y0)).clamp(0.0, 1.0);
    svg.text([12.0, 20.0], "WHAT FITS", caption(ink::SECONDARY).bold());
    let [least, most] = chart.scale_text();
    let words = format!("cell: worst case, log, {least} to {most} GiB");
    svg.text(
        [width - 12.0, 20.0],
        &words,
        caption(ink::SECONDARY).anchor("end"),
    );
    for cell in &chart.cells {
        let [a, b, low, high] = cell.edges;
        let area = [x(a), y(high), x(b) - x(a) - 0.5, y(low) - y(high) - 0.5];
        svg.rect(area, cell.fill, 1.0);
    }
    axes(&mut svg, chart, [left, right, top, bottom], &x, &y);
    for focus in [false, true] {
        for line in chart.lines.iter().filter(|l| l.focus == focus) {
            let mut path = String::new();
            for (i, [px, py]) in line.points.iter().enumerate() {
                let begin = if i == 0 { 'M' } else { 'L' };
                let _written = write!(path, "{begin}{:.2} {:.2}", x(*px), y(*py));
            }
            let widths = if focus { [5.0, 3.0] } else { [3.5, 1.5] };
            for (color, opacity, wide) in
                [([0, 0, 0], 0.6, widths[0]), (ink::STRONG, 1.0, widths[1])]
            {
                svg.add(format_args!(
                    r#"<path d="{path}" fill="none" stroke="{}" stroke-opacity="{opacity}" stroke-width="{wide}"/>"#,
                    hex(color)
                ));
            }
        }
    }
    names(&mut svg, chart, right, &x, &y);
    if let Some(largest) = &chart.largest {
        mark(
            &mut svg,
            largest,
            false,
            [x(largest.at[0]), y(largest.at[1])],
        );
    }
    let plan = &chart.plan;
    mark(&mut svg, plan, true, [x(plan.at[0]), y(plan.at[1])]);
    svg.finish(width, height, "What fits")
}

fn axes(
    svg: &mut Svg,
    chart: &FitsChart,
    [left, right, top, bottom]: [f64; 4],
    x: &impl Fn(f64) -> f64,
    y: &impl Fn(f64) -> f64,
) {
    let text = caption(ink::SECONDARY);
    for tick in &chart.y_ticks {
        let at = [left - 8.0, y(*tick as f64) + 4.0];
        svg.text(at, &tick.to_string(), text.anchor("end"));
    }
    for tick in &chart.x_ticks {
        let at = [x(*tick as f64), bottom + 18.0];
        svg.text(at, &tick.to_string(), text.anchor("middle"));
    }
    let middle = [0.5 * (left + right), bottom + 36.0];
    svg.text(middle, chart.x_title, text.anchor("middle"));
    svg.add(format_args!(
        r#"<text transform="translate(14 {:.2}) rotate(-90)" font-size="12" fill="{}" text-anchor="middle">{Y_TITLE}</text>"#,
        0.5 * (top + bottom),
        hex(ink::SECONDARY)
    ));
}

/// Names of the cards at the right end of their lines, each on a line of its own.
fn names(
    svg: &mut Svg,
    chart: &FitsChart,
    right: f64,
    x: &impl Fn(f64) -> f64,
    y: &impl Fn(f64) -> f64,
) {
    let mut lowest = f64::NEG_INFINITY;
    for line in chart.lines.iter().rev() {
        let Some([px, py]) = line.points.last() else {
            continue;
        };
        let at = y(*py).max(lowest + 15.0);
        lowest = at;
        let text = caption(ink::STRONG);
        let text = if line.focus { text.bold() } else { text };
        svg.line([x(*px), y(*py), right + 6.0, at], ink::STRONG, 1.0, "1 3");
        svg.text([right + 10.0, at + 4.0], &line.name, text);
    }
}

fn mark(svg: &mut Svg, mark: &FitsMark, square: bool, [x, y]: [f64; 2]) {
    for (color, wide) in [([0, 0, 0], 5.0), (ink::STRONG, 2.0)] {
        let color = hex(color);
        if square {
            svg.add(format_args!(
                r#"<rect x="{:.2}" y="{:.2}" width="18" height="18" fill="none" stroke="{color}" stroke-width="{wide}"/>"#,
                x - 9.0,
                y - 9.0
            ));
        } else {
            svg.add(format_args!(
                r#"<circle cx="{x:.2}" cy="{y:.2}" r="7" fill="none" stroke="{color}" stroke-width="{wide}"/>"#
            ));
        }
    }
    let text = format!("{} {}", mark.text, mark.roi);
    let wide = 6.9 * text.chars().count() as f64 + 10.0;
    let left = (x - wide / 2.0).max(70.0);
    svg.rect([left, y + 13.0, wide, 18.0], [0, 0, 0], 0.72);
    svg.text([left + 5.0, y + 26.0], &text, caption(ink::STRONG).bold());
}
