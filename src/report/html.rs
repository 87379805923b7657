//! One self-contained page: plan, budget, result, pictures. Opens offline, prints cleanly, shows no identity unless asked.

use super::chart::budget_chart;
use super::fits::fits_chart;
use super::ink;
use super::picture::ColorPicture;
use super::timeline::timeline_chart;
use super::{ReportError, svg};
use crate::exchange::result::RunResult;
use crate::geometry::Extent;
use crate::hardware::{BudgetOnCards, Card};
use crate::memory::budget::PartName;
use crate::memory::surface::Surface;
use crate::memory::{Part, Source};
use crate::units::{Bytes, with_thousands};
use base64::Engine as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};
use std::path::Path;

/// A slice picture with its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Such as "Axial 65 of 240".
    pub title: String,
    /// What is to be seen.
    pub caption: String,
    /// The picture.
    pub picture: ColorPicture,
}

/// What a page is made of; absent parts are left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportInput<'a> {
    /// What the page is about, without identity.
    pub title: &'a str,
    /// The plan in a line, such as "512x512x192, fp32, PyTorch".
    pub plan: &'a str,
    /// The budget with its verdicts.
    pub budget: Option<&'a BudgetOnCards>,
    /// The cards of the verdicts.
    pub cards: &'a [&'a Card],
    /// The card in focus.
    pub focus: Option<&'a str>,
    /// What other rois ask for, with the planned roi and batch.
    pub surface: Option<(&'a Surface, Extent, usize)>,
    /// What a run gave.
    pub result: Option<&'a RunResult>,
    /// Pictures.
    pub figures: &'a [Figure],
    /// Further lines, such as warnings.
    pub notes: &'a [String],
    /// Show study and series as they are named; otherwise a fingerprint stands for them.
    pub show_identity: bool,
}

/// A name that says the same thing each time and nothing about the person.
pub fn masked(identity: &str) -> String {
    let digest = Sha256::digest(identity.as_bytes());
    let short = digest
        .iter()
        .take(2)
        .fold(0u32, |n, b| n << 8 | u32::from(*b));
    format!("Subject {short:04X} (masked)")
}

/// The page as text; the same input gives the same bytes.
pub fn page(input: &ReportInput<'_>) -> String {
    let body = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Voxfit: " (input.title) }
                style { (PreEscaped(style())) }
            }
            body {
                header {
                    h1 { (input.title) }
                    p.warn { "NOT FOR CLINICAL USE" }
                    p.sub { "Voxfit " (env!("CARGO_PKG_VERSION")) @if !input.plan.is_empty() { " \u{b7} " (input.plan) } }
                }
                @if let Some(budget) = input.budget { (budget_section(input, budget)) }
                @if let Some(result) = input.result { (result_section(input, result)) }
                @if !input.figures.is_empty() { (figures_section(input.figures)) }
                @if !input.notes.is_empty() {
                    section { h2 { "Worth knowing" } ul { @for n in input.notes { li { (n) } } } }
                }
                footer {
                    "Sources of figures: planned = known to the byte from the schedule; modelled = computed by a model of another runtime; measured = read off a machine; guessed = a stated guess. "
                    "Sizes are in GiB (2^30 bytes). Not for clinical use."
                }
            }
        }
    };
    body.into_string()
}

/// Writes the page beside its target and renames it.
pub fn write(input: &ReportInput<'_>, path: &Path) -> Result<(), ReportError> {
    let text = page(input);
    crate::exchange::result::write_beside("report", path, |out| out.write_all(text.as_bytes()))
        .map_err(|e| ReportError::Write {
            reason: e.to_string(),
            path: path.to_path_buf(),
        })
}

fn budget_section(input: &ReportInput<'_>, on: &BudgetOnCards) -> Markup {
    let chart =
        budget_chart(input.plan, &on.budget, &on.cards, input.cards, input.focus).beside(on.voxfit);
    let steps = input.result.map_or(&[][..], |r| &r.memory.steps);
    let timeline = timeline_chart(&on.budget, on.voxfit.map(|o| o.arena)).beside_run(steps);
    let fits = input
        .surface
        .and_then(|(s, roi, batch)| fits_chart(s, &on.cards, input.focus, (roi, batch)));
    html! {
        section {
            h2 { "Memory budget" }
            @if !on.cards.is_empty() { div.plot { (PreEscaped(svg::budget(&chart, 1100.0))) } }
            @if !timeline.steps.is_empty() { div.plot { (PreEscaped(svg::timeline(&timeline, 1100.0, 400.0))) } }
            @if let Some(fits) = &fits { div.plot { (PreEscaped(svg::fits(fits, 1100.0, 460.0))) } }
            table {
                thead { tr { th { "Part" } th.n { "at least" } th.n { "at most" } th { "source" } } }
                tbody {
                    @for name in PartName::ALL { (part_row(name.label(), on.budget.parts.get(name))) }
                    (part_row("asked of the card, without context and display", on.budget.parts.required()))
                }
            }
            h3 { "Host memory" }
            table { tbody {
                @for (name, part) in &on.budget.host_parts { (part_row(name, *part)) }
                tr { th { "host peak" } td.n { } td.n { (on.budget.host_peak) } td { } }
            } }
            @if !on.budget.cliffs.is_empty() {
                h3 { "Traps" }
                ul { @for c in &on.budget.cliffs { li { b { (c.code) } ": " (c.text) } } }
            }
            @if !on.budget.fixes.is_empty() {
                h3 { "Ways to need less, best first" }
                table {
                    thead { tr { th { "change" } th.n { "at least" } th.n { "at most" } th { "result" } } }
                    tbody { @for f in &on.budget.fixes {
                        tr { td { (f.change) } td.n { (f.required_low) } td.n { (f.required) } td { (f.exactness) } }
                    } }
                }
            }
        }
    }
}

const fn source(source: Source) -> &'static str {
    match source {
        Source::Planned => "planned",
        Source::Measured => "measured",
        Source::Modelled => "modelled",
        Source::Guessed => "guessed",
    }
}

fn part_row(name: &str, part: Part) -> Markup {
    html! {
        @if part.high > Bytes::ZERO {
            tr { th { (name) } td.n { (part.low) } td.n { (part.high) } td { (source(part.source)) } }
        }
    }
}

fn result_section(input: &ReportInput<'_>, r: &RunResult) -> Markup {
    let study = if input.show_identity {
        r.study.clone()
    } else {
        masked(&format!(
            "{}{}",
            r.study,
            r.series.as_deref().unwrap_or_default()
        ))
    };
    let starts = &r.plan.starts;
    html! {
        section {
            h2 { "Run" }
            table { tbody {
                tr { th { "study" } td { (study) } }
                tr { th { "network" } td { (r.network.name) " \u{b7} " code { (r.network.sha256.get(..16).unwrap_or(&r.network.sha256)) } } }
                tr { th { "engine" } td { (r.engine) } }
                tr { th { "volume" } td { (r.plan.loaded_volume) " loaded, " (r.plan.prepared_volume) " prepared" } }
                tr { th { "windows" } td { (r.n_windows) " of " (r.plan.roi_size) ", " (starts.x.len()) " x " (starts.y.len()) " x " (starts.z.len()) ", " (r.n_passes) " passes" } }
                tr { th { "exactness" } td { (r.exactness.verdict) @for reason in &r.exactness.reasons { br; (reason) } } }
                tr { th { "time" } td { (format!("{:.1} s", r.seconds)) } }
                tr { th { "memory" } td { "planned " (r.memory.planned) " = allocated " (r.memory.allocated) ", measured peak " (r.memory.measured_peak) } }
                @if let Some(host) = &r.memory.host {
                    tr { th { "host memory" } td { (host.before) " before, " (host.peak) " at its highest (measured); the plan adds " (host.planned) } }
                }
                @if let Some(sha) = &r.outputs_sha256 { tr { th { "outputs" } td { code { (sha) } } } }
            } }
            @if !r.detections.is_empty() { (detections(r)) }
            @if !r.labels.is_empty() {
                h3 { "Labels" }
                table { tbody { @for (name, voxels) in &r.labels {
                    tr { th { (name) } td.n { (with_thousands(*voxels)) } td { "voxels" } }
                } } }
            }
            @if !r.warnings.is_empty() {
                h3 { "Worth knowing" }
                ul { @for w in &r.warnings { li { b { (w.code) } ": " (w.text) } } }
            }
        }
    }
}

fn detections(r: &RunResult) -> Markup {
    html! {
        h3 { (r.detections.len()) " detections" }
        table {
            thead { tr { th.n { "#" } th { "label" } th.n { "score" } th.n { "size mm" } th.n { "centre mm (LPS)" } th.n { "window" } th.n { "seam mm" } } }
            tbody { @for (i, d) in r.detections.iter().enumerate() {
                tr {
                    td.n { (i + 1) } td { (d.label) } td.n { (format!("{:.2}", d.score)) }
                    td.n { (triple(d.size_mm)) } td.n { (triple(d.center_in_patient)) }
                    td.n { (d.window_idx.map_or_else(|| "\u{2014}".to_owned(), |w| w.to_string())) }
                    td.n { (d.seam_distance.map_or_else(|| "\u{2014}".to_owned(), |s| format!("{s:.1}"))) }
                }
            } }
        }
    }
}

fn triple(v: [f64; 3]) -> String {
    v.map(|x| format!("{x:.1}").replace('-', "\u{2212}"))
        .join(", ")
}

fn figures_section(figures: &[Figure]) -> Markup {
    html! {
        section {
            h2 { "Pictures" }
            div.figures { @for f in figures { (figure(f)) } }
        }
    }
}

fn figure(f: &Figure) -> Markup {
    let p = &f.picture;
    let Ok(png) = p.png(&f.title) else {
        return html! { p { (f.title) ": no picture" } };
    };
    let data = base64::engine::general_purpose::STANDARD.encode(png);
    html! {
        figure {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {} {}", p.width, p.height)) role="img" aria-label=(f.title) {
                image href=(format!("data:image/png;base64,{data}")) width=(p.width) height=(p.height);
                @for tag in &p.tags {
                    rect x=(tag.at[0]) y=(tag.at[1] - 16) width=(8 * tag.text.len() + 6) height="18" rx="2" fill="#000" fill-opacity="0.72";
                    text x=(tag.at[0] + 4) y=(tag.at[1] - 3) font-size="12" font-weight="600" fill=(ink::hex(tag.color)) { (tag.text) }
                }
            }
            figcaption { b { (f.title) } " " (f.caption) }
        }
    }
}

pub(super) fn style() -> String {
    let c = ink::hex;
    format!(
        "body{{background:{bg};color:{text};font:14px/20px Inter,'Segoe UI','Noto Sans',sans-serif;font-variant-numeric:tabular-nums;margin:0 auto;max-width:1148px;padding:24px}}\
h1{{font-size:24px;line-height:32px;color:{strong};margin:0}}h2{{font-size:16px;color:{strong};margin:24px 0 8px}}h3{{font-size:12px;letter-spacing:.4px;text-transform:uppercase;color:{secondary};margin:16px 0 4px}}\
section{{background:{panel};padding:4px 24px 20px;margin:16px 0}}.warn{{color:{tight};font-weight:600;margin:4px 0}}.sub,footer,figcaption{{color:{secondary};font-size:12px;line-height:16px}}\
table{{border-collapse:collapse;margin:4px 0}}th{{text-align:left;font-weight:400;color:{secondary}}}th,td{{padding:2px 16px 2px 0;border-bottom:1px solid {line};vertical-align:top}}.n{{text-align:right;white-space:nowrap}}\
.plot svg,figure svg{{max-width:100%;height:auto;display:block;background:#000}}.plot{{margin:8px 0;overflow-x:auto}}.figures{{display:flex;flex-wrap:wrap;gap:16px}}figure{{margin:0;flex:1 1 320px;max-width:520px}}figure svg{{width:100%}}code{{font-size:12px;overflow-wrap:anywhere}}\
@media print{{body{{background:#fff;color:#000}}section{{background:#fff;break-inside:avoid;padding:0}}h1,h2{{color:#000}}th,h3,.sub,footer,figcaption{{color:#333}}svg{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}}}",
        bg = c(ink::BG),
        text = c(ink::TEXT),
        strong = c(ink::STRONG),
        secondary = c(ink::SECONDARY),
        panel = c(ink::PANEL),
        tight = c(ink::TIGHT),
        line = c(ink::LINE),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Catalogue;
    use crate::memory::budget::{BudgetRequest, Runtime, StitchOn, budget};
    use crate::memory::planner::Planner;
    use crate::network::preset;

    #[test]
    fn the_page_is_one_file_with_verdicts_and_charts_and_the_same_bytes_each_time() {
        let model = preset::load("monai-lung-nodule").unwrap();
        let catalogue = Catalogue::builtin();
        let cards = catalogue.shown_by_default();
        let request = BudgetRequest {
            runtime: Runtime::Pytorch,
            stitch_on: StitchOn::Card,
            volume: Some(Extent::new(512, 512, 240)),
            ..BudgetRequest::new(&model.graph, Extent::new(512, 512, 192))
        };
        let on = BudgetOnCards::new(&request, budget(&request).unwrap(), &cards);
        let surface = Planner::new(&model.graph)
            .surface(&request, Extent::new(512, 512, 240), || true)
            .unwrap();
        let notes = ["<script>alert(1)</script>".to_owned()];
        let input = ReportInput {
            title: "Lung & nodule",
            plan: "512x512x192, fp32, PyTorch",
            budget: Some(&on),
            cards: &cards,
            focus: Some("rtx-5070-ti"),
            surface: Some((&surface, request.roi_size, 1)),
            notes: &notes,
            ..ReportInput::default()
        };
        let text = page(&input);
        assert_eq!(text, page(&input));
        for word in [
            "NOT FOR CLINICAL USE",
            "<svg",
            "RTX 5070 Ti",
            "activations",
            "Lung &amp; nodule",
            "GiB usable",
            "WHAT FITS",
            "largest on 16 GB",
            "Voxfit runtime",
        ] {
            assert!(text.contains(word), "{word}");
        }
        for outside in ["<script", "src=\"http", "url(http", "@import"] {
            assert!(!text.contains(outside), "{outside}");
        }
        if let Some(folder) = std::env::var_os("VOXFIT_PICTURES") {
            std::fs::create_dir_all(&folder).unwrap();
            write(&input, &Path::new(&folder).join("budget-report.html")).unwrap();
        }
    }

    #[test]
    fn an_identity_is_a_fingerprint() {
        let m = masked("Doe^Jane");
        assert!(m.starts_with("Subject ") && m.ends_with("(masked)") && !m.contains("Doe"));
        assert_eq!(m, masked("Doe^Jane"));
    }
}
