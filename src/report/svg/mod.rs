//! Charts as SVG, by the numbers of the visual system: the picture that the window draws, for pages and files.

mod fits;
mod scatter;

pub use fits::fits;
pub use scatter::scatter;

use super::chart::{BudgetChart, CardRow, tick_text};
use super::ink::{self, Rgb, hex};
use super::timeline::TimelineChart;
use crate::memory::Verdict;
use std::fmt::Write as _;

const FONT: &str = "Inter, 'Segoe UI', 'Noto Sans', sans-serif";
const NAMES: f64 = 200.0;
const VERDICTS: f64 = 260.0;
const HEAD: f64 = 76.0;
const PITCH: f64 = 37.0;

/// SVG text under construction; the only place that writes tags.
#[derive(Debug, Default)]
struct Svg {
    body: String,
}

#[derive(Clone, Copy)]
struct Type {
    size: f64,
    bold: bool,
    color: Rgb,
    anchor: &'static str,
}

const fn caption(color: Rgb) -> Type {
    Type {
        size: 12.0,
        bold: false,
        color,
        anchor: "start",
    }
}

impl Type {
    const fn bold(mut self) -> Self {
        self.bold = true;
        self
    }

    const fn size(mut self, size: f64) -> Self {
        self.size = size;
        self
    }

    const fn anchor(mut self, anchor: &'static str) -> Self {
        self.anchor = anchor;
        self
    }
}

/// Text safe inside a tag or an attribute.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

impl Svg {
    fn add(&mut self, args: std::fmt::Arguments<'_>) {
        // Writing into a string cannot fail.
        let _written = self.body.write_fmt(args);
        self.body.push('\n');
    }

    fn rect(&mut self, [x, y, w, h]: [f64; 4], fill: Rgb, opacity: f64) {
        let fill = hex(fill);
        self.add(format_args!(
            r#"<rect x="{x:.2}" y="{y:.2}" width="{:.2}" height="{h:.2}" fill="{fill}" fill-opacity="{opacity}"/>"#,
            w.max(0.0)
        ));
    }

    fn line(&mut self, [x0, y0, x1, y1]: [f64; 4], color: Rgb, width: f64, dash: &str) {
        let color = hex(color);
        self.add(format_args!(
            r#"<line x1="{x0:.2}" y1="{y0:.2}" x2="{x1:.2}" y2="{y1:.2}" stroke="{color}" stroke-width="{width}" stroke-dasharray="{dash}"/>"#
        ));
    }

    fn text(&mut self, [x, y]: [f64; 2], text: &str, t: Type) {
        let (color, weight) = (hex(t.color), if t.bold { 600 } else { 400 });
        let (size, anchor, text) = (t.size, t.anchor, escape(text));
        self.add(format_args!(
            r#"<text x="{x:.2}" y="{y:.2}" font-size="{size}" font-weight="{weight}" fill="{color}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    fn finish(self, width: f64, height: f64, name: &str) -> String {
        let (name, panel) = (escape(name), hex(ink::PANEL));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{name}\" font-family=\"{FONT}\" font-variant-numeric=\"tabular-nums\">\n<title>{name}</title>\n<defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"5\" stroke=\"{}\" stroke-width=\"1\"/></pattern></defs>\n<rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"{panel}\"/>\n{}</svg>\n",
            hex(ink::TILED),
            self.body
        )
    }

    /// Disc, triangle or cross of a verdict, 10 points wide around a middle.
    fn verdict(&mut self, [x, y]: [f64; 2], v: Verdict) {
        let color = hex(ink::verdict(v));
        match v {
            Verdict::Fits => self.add(format_args!(
                r#"<circle cx="{x:.2}" cy="{y:.2}" r="5" fill="{color}"/>"#
            )),
            Verdict::Tight => self.add(format_args!(
                r#"<path d="M{:.2} {:.2}l5.5 10h-11z" fill="{color}"/>"#,
                x,
                y - 5.0
            )),
            Verdict::Over => self.add(format_args!(
                r#"<path d="M{:.2} {:.2}l9 9m0 -9l-9 9" stroke="{color}" stroke-width="2.5" fill="none"/>"#,
                x - 4.5,
                y - 4.5
            )),
        }
    }
}

/// The budget chart at this width; the height follows from the cards.
pub fn budget(chart: &BudgetChart, width: f64) -> String {
    let mut svg = Svg::default();
    let left = NAMES;
    let right = (width - VERDICTS).max(left + 120.0);
    let x = |gib: f64| left + (right - left) * (gib / chart.axis_max).clamp(0.0, 1.0);
    let rows = chart.rows.len() as f64;
    let bottom = PITCH.mul_add(rows, HEAD);
    let height = bottom + 40.0;
    let step = chart.ticks.get(1).copied().unwrap_or(1.0);
    svg.text(
        [12.0, 20.0],
        "MEMORY BUDGET",
        caption(ink::SECONDARY).bold(),
    );
    let head = format!("{}: {}", chart.title, chart.total);
    svg.text([122.0, 20.0], &head, caption(ink::STRONG).bold());
    for row in chart.rows.iter().enumerate().filter(|(_, r)| r.focus) {
        let y = PITCH.mul_add(row.0 as f64, HEAD);
        svg.rect([0.0, y, width, PITCH], ink::SELECT_ROW, 1.0);
    }
    for tick in &chart.ticks {
        svg.line([x(*tick), HEAD, x(*tick), bottom], ink::LINE, 1.0, "none");
        let t = caption(ink::SECONDARY).anchor("middle");
        svg.text([x(*tick), bottom + 16.0], &tick_text(*tick, step), t);
    }
    svg.text(
        [x(chart.axis_max) + 12.0, bottom + 16.0],
        "GiB",
        caption(ink::SECONDARY),
    );
    part_names(&mut svg, chart, &x);
    for (i, row) in chart.rows.iter().enumerate() {
        let y = PITCH.mul_add(i as f64, HEAD);
        card_row(&mut svg, chart, row, y, &x);
        verdict_column(&mut svg, row, right, y);
    }
    if let Some((name, gib)) = &chart.compare {
        svg.line([x(*gib), HEAD, x(*gib), bottom], ink::STRONG, 1.5, "2 3");
        svg.text(
            [x(*gib), bottom + 32.0],
            name,
            caption(ink::TEXT).anchor("middle"),
        );
    }
    if chart.rows.iter().any(|r| r.caption.ends_with('*')) {
        let note = "* a figure of this card was not looked up";
        svg.text([12.0, bottom + 32.0], note, caption(ink::SECONDARY));
    }
    svg.finish(width, height, "Memory budget")
}

fn part_names(svg: &mut Svg, chart: &BudgetChart, x: &impl Fn(f64) -> f64) {
    // Names of one line never touch: a later one moves right, its leader stays at the part.
    let mut free = [0.0_f64; 2];
    for label in &chart.labels {
        let line = label.line.min(1);
        let y = if line == 0 { 42.0 } else { 60.0 };
        let at = x(label.at);
        let wide = 6.4 * label.text.chars().count() as f64;
        let begin = if label.ends_there {
            at - wide
        } else {
            at + 4.0
        };
        let begin = begin.max(free[line]);
        free[line] = begin + wide + 16.0;
        svg.line([at, y + 4.0, at, HEAD + 8.0], label.color, 1.0, "none");
        if begin > at + 4.0 {
            svg.line([at, y + 4.0, begin, y + 4.0], label.color, 1.0, "none");
        }
        svg.text([begin, y], &label.text, caption(label.color));
    }
}

fn card_row(svg: &mut Svg, chart: &BudgetChart, row: &CardRow, y: f64, x: &impl Fn(f64) -> f64) {
    let name = caption(if row.focus { ink::STRONG } else { ink::TEXT }).size(14.0);
    let name = if row.focus { name.bold() } else { name };
    svg.text([12.0, y + 16.0], &row.name, name);
    svg.text([12.0, y + 31.0], &row.caption, caption(ink::SECONDARY));
    let top = y + 8.0;
    for s in &chart.segments {
        let (a, b) = (x(s.from), x(s.to));
        let area = [a, top, (b - a).max(1.0), 18.0];
        svg.rect(area, s.fill, if s.hatched { 0.28 } else { 1.0 });
        if s.hatched {
            svg.add(format_args!(
                r#"<rect x="{a:.2}" y="{top:.2}" width="{:.2}" height="18" fill="url(#hatch)"/>"#,
                (b - a).max(0.0)
            ));
        }
    }
    if let Some(w) = chart.whisker {
        let middle = top + 9.0;
        svg.line([x(w.from), middle, x(w.to), middle], w.color, 2.0, "none");
        svg.line(
            [x(w.to), middle - 7.0, x(w.to), middle + 7.0],
            w.color,
            2.0,
            "none",
        );
    }
    if let Some(e) = row.excess {
        let under = top + 20.0;
        let color = ink::verdict(row.verdict);
        let full = row.verdict == Verdict::Tight;
        svg.rect(
            [x(e.from), under, x(e.certain) - x(e.from), 3.0],
            color,
            1.0,
        );
        let faint = if full { 1.0 } else { 0.45 };
        svg.rect(
            [x(e.certain), under, x(e.to) - x(e.certain), 3.0],
            color,
            faint,
        );
    }
    if row.beyond {
        let text = format!("{:.2} \u{203a}", row.capacity);
        let t = caption(ink::STRONG).bold().anchor("end");
        svg.text([x(chart.axis_max) - 4.0, top + 14.0], &text, t);
    } else {
        let at = x(row.capacity);
        let (a, b) = (top - 5.5, top + 23.5);
        for (color, extra) in [(ink::BG, 6.0), (ink::STRONG, 0.0)] {
            svg.line([at, a, at, b], color, 2.0 + extra, "none");
            for edge in [a, b] {
                let half = 4.5 + extra / 2.0;
                svg.line(
                    [at - half, edge, at + half, edge],
                    color,
                    2.0 + extra / 2.0,
                    "none",
                );
            }
        }
    }
}

fn verdict_column(svg: &mut Svg, row: &CardRow, right: f64, y: f64) {
    let at = right + 38.0;
    svg.verdict([at, y + 11.0], row.verdict);
    let word = caption(ink::verdict(row.verdict)).size(14.0).bold();
    svg.text([at + 14.0, y + 16.0], ink::verdict_word(row.verdict), word);
    svg.text([at + 14.0, y + 31.0], &row.words, caption(ink::TEXT));
}

/// The timeline at this size.
pub fn timeline(chart: &TimelineChart, width: f64, height: f64) -> String {
    let mut svg = Svg::default();
    let (left, top, right, bottom) = (56.0, 48.0, width - 20.0, height - 44.0);
    let n = chart.steps.len().max(1) as f64;
    let x = |step: f64| left + (right - left) * step / n;
    let y = |gib: f64| bottom - (bottom - top) * (gib / chart.axis_max).clamp(0.0, 1.0);
    let step = chart.ticks.get(1).copied().unwrap_or(1.0);
    svg.text(
        [12.0, 20.0],
        "LIVE BYTES OVER STEPS",
        caption(ink::SECONDARY).bold(),
    );
    let peak = format!(
        "peak {:.2} GiB at step {} of {}",
        chart.peak,
        chart.peak_step,
        chart.steps.len()
    );
    svg.text(
        [width - 12.0, 20.0],
        &peak,
        caption(ink::TEXT).anchor("end"),
    );
    for tick in &chart.ticks {
        svg.line([left, y(*tick), right, y(*tick)], ink::LINE, 1.0, "none");
        let t = caption(ink::SECONDARY).anchor("end");
        svg.text([left - 6.0, y(*tick) + 4.0], &tick_text(*tick, step), t);
    }
    for tick in &chart.step_ticks {
        let at = x(*tick as f64);
        svg.line(
            [at, bottom, at, bottom + 4.0],
            ink::LINE_STRONG,
            1.0,
            "none",
        );
        let t = caption(ink::SECONDARY).anchor("middle");
        svg.text([at, bottom + 18.0], &tick.to_string(), t);
    }
    let t = caption(ink::SECONDARY).anchor("middle");
    svg.text([0.5 * (left + right), bottom + 36.0], "schedule step", t);
    svg.add(format_args!(
        r#"<text transform="translate(14 {:.2}) rotate(-90)" font-size="12" fill="{}" text-anchor="middle">live bytes, GiB</text>"#,
        0.5 * (top + bottom),
        hex(ink::SECONDARY)
    ));
    for p in &chart.pieces {
        let tensor = &chart.tensors[p.tensor];
        let (a, b) = (x(p.from as f64), x(p.to as f64));
        let (high, low) = (y(p.high), y(p.low));
        let gap = if low - high > 2.0 { 1.0 } else { 0.0 };
        svg.rect([a, high, b - a, low - high - gap], tensor.fill, 0.88);
    }
    step_line(&mut svg, chart, &x, &y);
    for (i, gib) in chart.counted.iter().enumerate() {
        svg.add(format_args!(
            r#"<circle cx="{:.2}" cy="{:.2}" r="2.5" fill="{}" stroke="{}"/>"#,
            x(i as f64 + 0.5),
            y(*gib),
            hex(ink::REFERENCE),
            hex(ink::PANEL)
        ));
    }
    if let Some(text) = chart.counted_text() {
        svg.text([left, 38.0], &text, caption(ink::REFERENCE).bold());
    }
    if let Some((name, gib)) = &chart.arena {
        svg.line([left, y(*gib), right, y(*gib)], ink::STRONG, 1.5, "6 4");
        let t = caption(ink::STRONG).anchor("end");
        svg.text([right, y(*gib) - 5.0], name, t);
    }
    group_names(&mut svg, chart, [left, right, top, bottom]);
    let at = x(chart.peak_step as f64 + 0.5);
    svg.line([at, y(chart.peak), at, bottom], ink::STRONG, 1.0, "none");
    svg.add(format_args!(
        r#"<circle cx="{at:.2}" cy="{:.2}" r="4" fill="{}" stroke="{}"/>"#,
        y(chart.peak),
        hex(ink::STRONG),
        hex(ink::PANEL)
    ));
    let node = chart.steps.get(chart.peak_step).map_or("", String::as_str);
    let anchor = if at > 0.5 * width { "end" } else { "start" };
    let t = caption(ink::STRONG).bold().anchor(anchor);
    svg.text([at, 38.0], node, t);
    svg.finish(width, height, "Live bytes over steps")
}

fn step_line(
    svg: &mut Svg,
    chart: &TimelineChart,
    x: &impl Fn(f64) -> f64,
    y: &impl Fn(f64) -> f64,
) {
    let mut path = String::new();
    for (i, gib) in chart.total.iter().enumerate() {
        let begin = if i == 0 { 'M' } else { 'L' };
        let _written = write!(
            path,
            "{begin}{:.2} {:.2}L{:.2} {:.2}",
            x(i as f64),
            y(*gib),
            x(i as f64 + 1.0),
            y(*gib)
        );
    }
    svg.add(format_args!(
        r#"<path d="{path}" fill="none" stroke="{}" stroke-width="1.2"/>"#,
        hex(ink::STRONG)
    ));
}

fn group_names(svg: &mut Svg, chart: &TimelineChart, [left, right, top, bottom]: [f64; 4]) {
    let n = chart.steps.len().max(1) as f64;
    for label in &chart.labels {
        let wide = (right - left) * label.width / n;
        let tall = (bottom - top) * label.height / chart.axis_max;
        // A name stands only where it fits: seven points a letter are enough at 12 bold.
        if wide < 7.0 * label.text.len() as f64 + 6.0 || tall < 16.0 {
            continue;
        }
        let x = left + (right - left) * label.step / n;
        let y = bottom - (bottom - top) * label.gib / chart.axis_max;
        let light = [
            [0xF0, 0xE4, 0x42],
            ink::REFERENCE,
            ink::TILED,
            [0x00, 0x9E, 0x73],
        ];
        let color = if light.contains(&label.fill) {
            ink::BG
        } else {
            ink::STRONG
        };
        let t = caption(color).bold().anchor("middle");
        svg.text([x, y + 4.0], &label.text, t);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_tag() {
        assert_eq!(
            escape("<a \"b\"> & 'c'"),
            "&lt;a &quot;b&quot;&gt; &amp; &#39;c&#39;"
        );
    }
}
