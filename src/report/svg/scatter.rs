//! Points against two axes as SVG.

use super::{Svg, caption, escape, hex};
use crate::report::ink;
use crate::report::scatter::{Scatter, ScatterPoint, Shape, place_names};
use std::fmt::Write as _;

/// The chart at this size.
pub fn scatter(chart: &Scatter, width: f64, height: f64) -> String {
    let mut svg = Svg::default();
    let (left, top, right, bottom) = (76.0, 64.0, width - 24.0, height - 48.0);
    let x = |v: f64| left + (right - left) * chart.x.share(v);
    let y = |v: f64| bottom - (bottom - top) * chart.y.share(v);
    svg.text([12.0, 20.0], &chart.title, caption(ink::SECONDARY).bold());
    svg.text(
        [width - 12.0, 20.0],
        &chart.note,
        caption(ink::SECONDARY).anchor("end"),
    );
    let text = caption(ink::SECONDARY);
    for (v, word) in &chart.y.ticks {
        svg.line([left, y(*v), right, y(*v)], ink::LINE, 1.0, "");
        svg.text([left - 8.0, y(*v) + 4.0], word, text.anchor("end"));
    }
    for (v, word) in &chart.x.ticks {
        svg.line(
            [x(*v), bottom, x(*v), bottom + 4.0],
            ink::LINE_STRONG,
            1.0,
            "",
        );
        svg.text([x(*v), bottom + 18.0], word, text.anchor("middle"));
    }
    let middle = 0.5 * (left + right);
    svg.text(
        [middle, bottom + 38.0],
        &chart.x.title,
        text.anchor("middle"),
    );
    svg.add(format_args!(
        r#"<text transform="translate(14 {:.2}) rotate(-90)" font-size="12" fill="{}" text-anchor="middle">{}</text>"#,
        0.5 * (top + bottom),
        hex(ink::SECONDARY),
        escape(&chart.y.title)
    ));
    let mut end = f64::NEG_INFINITY;
    for (name, v) in &chart.uprights {
        svg.line([x(*v), top, x(*v), bottom], ink::STRONG, 1.0, "");
        // Names that would run into each other stand on two lines.
        let row = if x(*v) < end { 36.0 } else { 52.0 };
        end = x(*v) + 8.0 * name.chars().count() as f64;
        svg.text([x(*v), row], name, caption(ink::STRONG).anchor("middle"));
    }
    for line in &chart.lines {
        let mut path = String::new();
        for (i, [px, py]) in line.points.iter().enumerate() {
            let begin = if i == 0 { 'M' } else { 'L' };
            let _written = write!(path, "{begin}{:.2} {:.2}", x(*px), y(*py));
        }
        let dash = if line.dashed { "6 4" } else { "" };
        svg.add(format_args!(
            r#"<path d="{path}" fill="none" stroke="{}" stroke-width="2" stroke-dasharray="{dash}"/>"#,
            hex(line.color)
        ));
    }
    let mut named: Vec<([f64; 2], f64, bool)> = chart
        .points
        .iter()
        .map(|p| {
            let wide = 6.9 * p.text.chars().count() as f64;
            ([x(p.at[0]), y(p.at[1])], wide, p.strong)
        })
        .collect();
    // A line is named at its end, where the names of points leave room.
    named.extend(chart.lines.iter().filter_map(|l| {
        let [px, py] = *l.points.last()?;
        Some(([x(px), y(py)], 6.9 * l.name.chars().count() as f64, true))
    }));
    let places = place_names(&named, [left, top, right, bottom]);
    for p in &chart.points {
        shape(&mut svg, p, [x(p.at[0]), y(p.at[1])]);
    }
    let words = chart
        .points
        .iter()
        .map(|p| {
            (
                p.text.as_str(),
                p.strong,
                if p.strong { ink::TEXT } else { ink::SECONDARY },
            )
        })
        .chain(chart.lines.iter().map(|l| (l.name.as_str(), true, l.color)));
    for ((word, strong, color), place) in words.zip(&places) {
        if let Some([px, py]) = place {
            let t = caption(color);
            svg.text([*px, py + 4.0], word, if strong { t.bold() } else { t });
        }
    }
    svg.finish(width, height, &chart.title)
}

fn shape(svg: &mut Svg, p: &ScatterPoint, [x, y]: [f64; 2]) {
    let (color, panel) = (hex(p.color), hex(ink::PANEL));
    let text = escape(&format!("{}: {:.3}, {:.3}", p.text, p.at[0], p.at[1]));
    let tip = format!("<title>{text}</title>");
    match p.shape {
        Shape::Disc => svg.add(format_args!(
            r#"<circle cx="{x:.2}" cy="{y:.2}" r="5" fill="{color}" stroke="{panel}">{tip}</circle>"#
        )),
        Shape::Hollow => svg.add(format_args!(
            r#"<circle cx="{x:.2}" cy="{y:.2}" r="4.5" fill="{panel}" stroke="{color}" stroke-width="1.5">{tip}</circle>"#
        )),
        Shape::Target => svg.add(format_args!(
            r#"<circle cx="{x:.2}" cy="{y:.2}" r="6" fill="{panel}" stroke="{color}" stroke-width="2">{tip}</circle><circle cx="{x:.2}" cy="{y:.2}" r="2.5" fill="{color}"/>"#
        )),
        Shape::Diamond => svg.add(format_args!(
            r#"<path d="M{x:.2} {:.2}l6 6l-6 6l-6 -6z" fill="{color}" stroke="{panel}">{tip}</path>"#,
            y - 6.0
        )),
        Shape::Cross => svg.add(format_args!(
            r#"<path d="M{:.2} {:.2}l9 9m0 -9l-9 9" stroke="{color}" stroke-width="2.5" fill="none">{tip}</path>"#,
            x - 4.5,
            y - 4.5
        )),
    }
}
