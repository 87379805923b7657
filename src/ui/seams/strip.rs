//! Three verdicts: of the seams alone, of the outputs and of the findings against the reference; and what the reference is.

use crate::app::Command;
use crate::review::Verdict;
use crate::ui::theme::Theme;
use crate::ui::{Cx, fonts, kit, paint};
use eframe::egui::{Align2, Rect, Stroke, StrokeKind, Ui, pos2, vec2};

/// One card of the strip.
struct Card {
    about: &'static str,
    verdict: Option<Verdict>,
    words: String,
}

/// Draws the strip.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let area = ui.max_rect().shrink2(vec2(12.0, 8.0));
    let side = if area.width() > 1200.0 { 216.0 } else { 196.0 };
    let room = area.width() - side - 12.0;
    let cards = cards(cx);
    let gap = 12.0;
    let wide = ((room - gap * 2.0) / 3.0).min(384.0);
    for (i, c) in cards.iter().enumerate() {
        let at = area.min + vec2(i as f32 * (wide + gap), 0.0);
        card(
            ui,
            Rect::from_min_size(at, vec2(wide, area.height())),
            c,
            cx,
        );
    }
    reference(ui, area.with_min_x(area.right() - side), cx);
}

fn cards(cx: &Cx<'_>) -> [Card; 3] {
    let s = &cx.state.seams;
    let alone = cx.state.outcome.as_ref().map_or_else(
        || Card {
            about: "forecast",
            verdict: None,
            words: forecast(cx),
        },
        |o| {
            let seams = &o.result.seams;
            let word = seams.verdict.as_deref();
            Card {
                about: "seams alone",
                verdict: word.and_then(|w| serde_json::from_value(serde_json::Value::from(w)).ok()),
                words: if word.is_none() {
                    "the result is of an older Voxfit that kept no seam metrics; run it again"
                        .to_owned()
                } else {
                    seams.words.clone()
                },
            }
        },
    );
    let none = |pending: bool| {
        if pending {
            "being compared\u{2026}"
        } else {
            "nothing is held against this result yet"
        }
        .to_owned()
    };
    let outputs = match &s.differed {
        Some(Ok(d)) => (Some(d.verdict), d.words.clone()),
        Some(Err(e)) => (None, e.clone()),
        None => (None, none(s.diff_pending)),
    };
    let findings = match &s.matched {
        Some(Ok(m)) => (Some(m.parity.verdict), m.parity.reason.clone()),
        Some(Err(e)) => (None, e.clone()),
        None => (None, none(s.match_pending)),
    };
    [
        alone,
        Card {
            about: "outputs",
            verdict: outputs.0,
            words: outputs.1,
        },
        Card {
            about: "findings",
            verdict: findings.0,
            words: findings.1,
        },
    ]
}

fn forecast(cx: &Cx<'_>) -> String {
    cx.state.derived.exactness.as_ref().map_or_else(
        || "choose a network and a roi: what windows do to the bits stands here".to_owned(),
        |e| {
            let word = serde_json::to_value(e.verdict);
            let word = word.ok().and_then(|v| v.as_str().map(str::to_owned));
            format!(
                "{}, halo needed {}",
                word.unwrap_or_default(),
                paint::triple(e.halo_needed)
            )
        },
    )
}

/// Shape, colour and words of a verdict.
pub(in crate::ui) fn verdict(
    t: &Theme,
    v: Option<Verdict>,
) -> (paint::Mark, eframe::egui::Color32, &'static str) {
    match v {
        Some(Verdict::Bitwise) => (paint::Mark::Disc, t.fits, "Bitwise"),
        Some(Verdict::Float) => (paint::Mark::Disc, t.fits, "Rounding only"),
        Some(Verdict::Tolerance) => (paint::Mark::Triangle, t.tight, "Same within tolerance"),
        Some(Verdict::Seam) => (paint::Mark::Cross, t.over, "Differs at seams"),
        Some(Verdict::Other) => (paint::Mark::Cross, t.over, "Differs"),
        None => (paint::Mark::Ring, t.secondary, "Not known"),
    }
}

fn card(ui: &mut Ui, rect: Rect, card: &Card, cx: &Cx<'_>) {
    let t = Theme::of(ui.ctx());
    ui.painter().rect(
        rect,
        4,
        t.raised,
        Stroke::new(1.0, t.line_strong),
        StrokeKind::Inside,
    );
    let stale = cx.state.outcome.is_some() && !cx.state.stale().is_empty();
    let (mark, color, word) = verdict(&t, card.verdict);
    let word = if card.about == "forecast" {
        "Forecast"
    } else {
        word
    };
    let color = if stale { t.disabled } else { color };
    let inner = rect.shrink2(vec2(12.0, 6.0));
    let top = inner.with_max_y(inner.center().y);
    paint::mark(
        ui.painter(),
        top.left_center() + vec2(5.0, 0.0),
        10.0,
        mark,
        color,
    );
    let about = if stale { "older plan" } else { card.about };
    let end = top.right() - 88.0;
    let (left, right) = (Align2::LEFT_CENTER, Align2::RIGHT_CENTER);
    let room = top.with_min_x(top.left() + 18.0).with_max_x(end);
    kit::text_in(ui, room, left, word, fonts::body_bold(), color);
    let room = top.with_min_x(end);
    kit::text_in(ui, room, right, about, fonts::body(), t.text);
    let below = inner.with_min_y(inner.center().y);
    kit::text_in(
        ui,
        below,
        left,
        &card.words,
        fonts::caption(),
        if stale { t.disabled } else { t.secondary },
    );
}

/// What the run is held against, and the buttons that change it.
fn reference(ui: &mut Ui, rect: Rect, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let top = rect.with_max_y(rect.top() + 26.0);
    if kit::button(
        ui,
        top,
        "Compare with a result\u{2026}",
        kit::Look::Plain,
        None,
    )
    .clicked()
    {
        cx.send(Command::CompareDialog);
    }
    let below = rect.with_min_y(top.bottom() + 4.0);
    let Some(name) = cx.state.seams.reference.as_ref().map(|r| r.name.clone()) else {
        let why = cx
            .state
            .outcome
            .is_none()
            .then_some("nothing has been run yet");
        if kit::button(ui, below, "Hold as reference", kit::Look::Plain, why).clicked() {
            cx.send(Command::HoldAsReference);
        }
        return;
    };
    let name = if cx.state.identity_masked()
        && cx
            .state
            .seams
            .reference
            .as_ref()
            .is_some_and(|r| r.path.is_some())
    {
        "a file (masked)".to_owned()
    } else {
        name
    };
    let at = pos2(below.right(), below.center().y);
    let remove = kit::text_button(ui, at, "Remove");
    if remove.clicked() {
        cx.send(Command::DropReference);
    }
    let room = below.with_max_x(below.right() - 60.0);
    let text = format!("Reference: {name}");
    kit::text_in(
        ui,
        room,
        Align2::LEFT_CENTER,
        &text,
        fonts::caption(),
        t.secondary,
    );
}
