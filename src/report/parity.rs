//! Parity and truth as one self-contained page. Studies are fingerprints: no name and no path stands on it.

use super::html::{masked, style};
use super::{ReportError, ink};
use crate::detect::froc::Froc;
use crate::review::truth::TruthReport;
use crate::review::{ParityReport, Row, RowKind, StudyParity, Verdict};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::path::Path;

/// Most findings that the page lists; those that differ come first.
const MOST_ROWS: usize = 2000;

/// Words of the answer without names: known ones as fingerprints, anything that looks like a path as an ellipsis.
fn covered(text: &str, names: &[&str]) -> String {
    let mut out = text.to_owned();
    for n in names {
        // A name of one or two letters stands in too many words, and names nobody.
        if n.chars().count() > 2 {
            out = out.replace(n, &masked(n));
        }
    }
    out.split(' ')
        .map(|word| {
            if word.contains('/') && word.len() > 1 || word.contains('\\') {
                "\u{2026}"
            } else {
                word
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

fn names_of(p: &ParityReport) -> Vec<&str> {
    let mut names: Vec<&str> = vec![&p.a, &p.b];
    for s in &p.studies {
        names.push(&s.study);
        names.extend(s.files.iter().map(String::as_str));
    }
    names.extend(p.only_a.iter().chain(&p.only_b).map(String::as_str));
    names.sort_by_key(|n| std::cmp::Reverse(n.len()));
    names.dedup();
    names
}

/// The page as text; the same input gives the same bytes.
pub fn page(parity: Option<&ParityReport>, truth: Option<&TruthReport>) -> String {
    let names = parity.map(names_of).unwrap_or_default();
    let body = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Voxfit: parity" }
                style { (PreEscaped(style())) }
            }
            body {
                header {
                    h1 { "Parity" }
                    p.warn { "NOT FOR CLINICAL USE" }
                    p.sub { "Voxfit " (env!("CARGO_PKG_VERSION")) }
                }
                @if let Some(p) = parity { (summary(p, &names)) (studies(p, &names)) (findings(p)) }
                @if let Some(t) = truth { (truth_section(t)) }
                footer {
                    "bitwise: the same bits \u{b7} float: scores within 1e-5, boxes within 1e-3 \u{b7} tolerance: within the stated limits \u{b7} seam: what differs lies at seams \u{b7} other: the rest. "
                    "Missing: only the first side has it. Extra: only the second side has it. Not for clinical use."
                }
            }
        }
    };
    body.into_string()
}

/// Writes the page beside its target and renames it.
pub fn write(
    parity: Option<&ParityReport>,
    truth: Option<&TruthReport>,
    path: &Path,
) -> Result<(), ReportError> {
    let text = page(parity, truth);
    crate::exchange::result::write_beside("report", path, |out| out.write_all(text.as_bytes()))
        .map_err(|e| ReportError::Write {
            reason: e.to_string(),
            path: path.to_path_buf(),
        })
}

fn color(v: Verdict) -> String {
    ink::hex(match v {
        Verdict::Bitwise | Verdict::Float => ink::FITS,
        Verdict::Tolerance | Verdict::Seam => ink::TIGHT,
        Verdict::Other => ink::OVER,
    })
}

fn word(v: Verdict) -> Markup {
    html! { b style=(format!("color:{}", color(v))) { (v) } }
}

fn number(v: Option<f64>, digits: usize) -> String {
    match v {
        None => "\u{2014}".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(v) if v.abs() < 10f64.powi(-i32::try_from(digits).unwrap_or(3)) => format!("{v:.1e}"),
        Some(v) => format!("{v:.digits$}"),
    }
    .replace('-', "\u{2212}")
}

fn summary(p: &ParityReport, names: &[&str]) -> Markup {
    let asked = match p.tolerance.at_least {
        Verdict::Tolerance => format!(
            "scores within {}, box edges within {}",
            p.tolerance.limits.score, p.tolerance.limits.edge
        ),
        other => other.to_string(),
    };
    // The sentences about files that could not be read are made of paths.
    let is_path = |w: &&String| w.starts_with("left out");
    let left_out = p.warnings.iter().filter(is_path).count();
    let kept = p.warnings.iter().filter(|w| !is_path(w));
    html! {
        section {
            h2 { "Verdict: " (word(p.verdict)) }
            table { tbody {
                tr { th { "asked for" } td { (asked) } }
                tr { th { "answer" } td { @if p.within_tolerance { "yes" } @else { "no" } } }
                tr { th { "studies" } td { (p.studies.len()) } }
                @if !p.only_a.is_empty() { tr { th { "only in the first side" } td { (p.only_a.len()) } } }
                @if !p.only_b.is_empty() { tr { th { "only in the second side" } td { (p.only_b.len()) } } }
            } }
            @if !p.warnings.is_empty() { ul { @for w in kept { li { (covered(w, names)) } } @if left_out > 0 { li { (left_out) " files were left out" } } } }
        }
    }
}

fn studies(p: &ParityReport, names: &[&str]) -> Markup {
    html! {
        section {
            h2 { "Studies" }
            table {
                thead { tr {
                    th { "study" } th { "verdict" } th.n { "A" } th.n { "B" } th.n { "matched" } th.n { "missing" } th.n { "extra" }
                    th.n { "split" } th.n { "merged" } th.n { "duplicate" } th.n { "fragment" } th.n { "score drift" } th.n { "box drift" } th.n { "least IoU" } th.n { "rho" }
                } }
                tbody { @for s in &p.studies { tr {
                    td { (masked(&s.study)) } td { (word(s.verdict)) }
                    @for n in [s.n_a, s.n_b, s.matched, s.missing, s.extra, s.split, s.merged, s.duplicate, s.fragment] { td.n { (n) } }
                    td.n { (number(s.max_score_drift, 4)) } td.n { (number(s.max_box_drift, 3)) } td.n { (number(s.min_iou, 3)) } td.n { (number(s.rho, 2)) }
                } } }
            }
            ul { @for s in &p.studies {
                li { (masked(&s.study)) ": " (covered(&s.reason, names)) }
                @for n in &s.notes { li { (masked(&s.study)) ": " (covered(n, names)) } }
            } }
            @for s in p.studies.iter().filter(|s| !s.labels.is_empty()) { (labels(s)) }
        }
    }
}

fn labels(s: &StudyParity) -> Markup {
    html! {
        h3 { "Labels of " (masked(&s.study)) }
        table {
            thead { tr { th { "label" } th.n { "voxels in A" } th.n { "in B" } th.n { "Dice" } th.n { "flips" } } }
            tbody { @for l in &s.labels { tr {
                td { (l.label) } td.n { (l.n_a) } td.n { (l.n_b) } td.n { (number(l.dice, 4)) }
                td.n { (l.flips.map_or_else(|| "\u{2014}".to_owned(), |f| f.to_string())) }
            } } }
        }
    }
}

fn findings(p: &ParityReport) -> Markup {
    let mut rows: Vec<(&str, &Row)> = p
        .detections
        .iter()
        .map(|r| (r.study.as_str(), &r.row))
        .collect();
    let size = |r: &Row| r.score_drift.map_or(0.0, f64::abs) + r.box_drift.unwrap_or(0.0);
    rows.sort_by(|(_, x), (_, y)| {
        let alone = |r: &Row| r.kind == RowKind::Matched;
        alone(x).cmp(&alone(y)).then(size(y).total_cmp(&size(x)))
    });
    let index = |i: Option<usize>| i.map_or_else(|| "\u{2014}".to_owned(), |i| (i + 1).to_string());
    html! {
        @if !rows.is_empty() { section {
            h2 { "Findings" }
            @if rows.len() > MOST_ROWS { p { "The " (MOST_ROWS) " that differ most, of " (rows.len()) "." } }
            table {
                thead { tr { th { "study" } th { "" } th.n { "A" } th.n { "B" } th { "label" } th.n { "score A" } th.n { "score B" } th.n { "score drift" } th.n { "box drift" } th.n { "IoU" } th.n { "seam mm" } } }
                tbody { @for (study, r) in rows.iter().take(MOST_ROWS) { tr {
                    td { (masked(study)) }
                    td { @match r.kind { RowKind::Matched => "matched", RowKind::Missing => "missing", RowKind::Extra => "extra" } @if r.near_threshold { ", near the threshold" } }
                    td.n { (index(r.a)) } td.n { (index(r.b)) } td { (r.label) }
                    td.n { (number(r.score_a, 4)) } td.n { (number(r.score_b, 4)) } td.n { (number(r.score_drift, 4)) }
                    td.n { (number(r.box_drift, 3)) } td.n { (number(r.iou, 3)) } td.n { (number(r.seam_distance, 1)) }
                } } }
            }
        } }
    }
}

fn truth_section(t: &TruthReport) -> Markup {
    let f = &t.froc;
    html! {
        section {
            h2 { "Against truth" }
            table { tbody {
                tr { th { "CPM" } td { (number(Some(f.cpm), 3)) " (95 % between " (number(Some(f.cpm_low), 3)) " and " (number(Some(f.cpm_high), 3)) ")" } }
                tr { th { "found" } td { (f.n_found) " of " (f.n_truth) " in " (f.n_scans) " studies" } }
                tr { th { "false positives" } td { (f.n_false_positives) } }
            } }
            div.plot { (curve(f)) }
            table {
                thead { tr { th.n { "false positives per study" } th.n { "sensitivity" } th.n { "from" } th.n { "to" } } }
                tbody { @for w in &f.at { tr {
                    td.n { (w.fp_per_scan) } td.n { (number(Some(w.sensitivity), 3)) } td.n { (number(Some(w.low), 3)) } td.n { (number(Some(w.high), 3)) }
                } } }
            }
        }
    }
}

/// Sensitivity over false positives per study, from 1/8 to 8 in octaves.
fn curve(f: &Froc) -> Markup {
    let x = |fp: f64| 60.0 + 100.0 * (fp.clamp(0.125, 8.0).log2() + 3.0);
    let y = |s: f64| 240.0 - 200.0 * s;
    let mut corners: Vec<(f64, f64)> = Vec::new();
    let mut last = 0.0;
    for p in f.points.iter().take_while(|p| p.fp_per_scan <= 8.0) {
        if corners.is_empty() {
            corners.push((0.0, 0.0));
        }
        corners.extend([(p.fp_per_scan, last), (p.fp_per_scan, p.sensitivity)]);
        last = p.sensitivity;
    }
    if !corners.is_empty() {
        corners.push((8.0, last));
    }
    let path = corners
        .iter()
        .zip(std::iter::once("M").chain(std::iter::repeat(" L")))
        .map(|(&(fp, s), step)| format!("{step}{:.1} {:.1}", x(fp), y(s)))
        .collect::<Vec<_>>()
        .concat();
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 290" role="img" aria-label="FROC" {
            @for step in 0..=4_u8 {
                @let s = f64::from(step) / 4.0;
                line x1="60" x2="660" y1=(y(s)) y2=(y(s)) stroke=(ink::hex(ink::LINE));
                text x="50" y=(y(s) + 4.0) text-anchor="end" font-size="12" fill=(ink::hex(ink::SECONDARY)) { (s) }
            }
            @for w in &f.at {
                text x=(x(w.fp_per_scan)) y="260" text-anchor="middle" font-size="12" fill=(ink::hex(ink::SECONDARY)) { (w.fp_per_scan) }
                line x1=(x(w.fp_per_scan)) x2=(x(w.fp_per_scan)) y1=(y(w.low)) y2=(y(w.high)) stroke=(ink::hex(ink::SECONDARY)) stroke-width="3";
            }
            text x="360" y="282" text-anchor="middle" font-size="12" fill=(ink::hex(ink::SECONDARY)) { "false positives per study" }
            @if !path.is_empty() { path d=(path) fill="none" stroke=(ink::hex(ink::STRONG)) stroke-width="2"; }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::froc::{Scan, froc};
    use crate::detect::matching::MatchRule;
    use crate::review::Tolerance;
    use crate::review::truth::Hit;

    #[test]
    fn the_page_holds_the_verdict_and_nobodys_name() {
        let study = StudyParity::refused(
            "Doe^Jane".to_owned(),
            ["/data/Doe Jane/a.json".to_owned(), "b.json".to_owned()],
            "cannot read: /data/Doe Jane/a.json".to_owned(),
            (2, 0),
        );
        let report = ParityReport::new(
            ("/data/a".to_owned(), "b".to_owned()),
            (Tolerance::default(), MatchRule::default()),
            vec![study],
            (vec!["Roe^Max".to_owned()], Vec::new()),
            vec!["left out: the file /home/Doe/x.json of Roe^Max".to_owned()],
        );
        let scans = [Scan {
            truth: vec![Some(0.5), None],
            false_positives: vec![0.25],
        }];
        let truth = TruthReport {
            hit: Hit::Radius,
            froc: froc(&scans, 10),
            studies: Vec::new(),
            warnings: Vec::new(),
        };
        let text = page(Some(&report), Some(&truth));
        assert_eq!(text, page(Some(&report), Some(&truth)));
        for word in [
            "NOT FOR CLINICAL USE",
            ">other<",
            "(masked)",
            "CPM",
            "<path",
        ] {
            assert!(text.contains(word), "{word}");
        }
        assert!(text.contains("1 files were left out"), "{text}");
        for name in ["Doe", "Roe", "/data", "a.json", "<script", "http-equiv"] {
            assert!(!text.contains(name), "{name}");
        }
    }
}
