//! Ways to fit the card in focus, best first, as buttons that send their change.

use crate::app::Fix;
use crate::memory::Verdict;
use crate::ui::theme::Theme;
use crate::ui::{Cx, fonts, kit, paint};
use eframe::egui::{
    Align2, Rect, Sense, Stroke, StrokeKind, Ui, WidgetInfo, accesskit::Role, pos2, vec2,
};

/// What the panel is called: a plan that fits needs no way to fit.
pub(super) const fn title_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fits => "Ways to need less",
        Verdict::Tight | Verdict::Over => "Ways to fit",
    }
}

/// The panel's name for the card in focus.
pub(super) fn name(cx: &Cx<'_>) -> &'static str {
    let focus = cx
        .state
        .document
        .card_in_focus
        .as_deref()
        .unwrap_or_default();
    title_of(
        cx.state
            .derived
            .verdict(focus)
            .map_or(Verdict::Over, |v| v.verdict),
    )
}

/// Draws the verdict line and up to three cards.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let focus = cx.state.document.card_in_focus.clone().unwrap_or_default();
    let (line, _) = ui.allocate_exact_size(vec2(ui.available_width(), 30.0), Sense::hover());
    if let Some(v) = cx.state.derived.verdict(&focus) {
        let (mark, color, word) = paint::verdict(&t, v.verdict);
        paint::mark(
            ui.painter(),
            line.left_center() + vec2(18.0, 0.0),
            10.0,
            mark,
            color,
        );
        let words = crate::hardware::verdict_words(v);
        let comma = if words.starts_with("spare") { "," } else { "" };
        let text = format!("{word} on the {} GB card{comma} {words}.", v.nameplate_gb);
        let r = ui.painter().text(
            line.left_center() + vec2(32.0, 0.0),
            Align2::LEFT_CENTER,
            text,
            fonts::body_bold(),
            color,
        );
        let r = ui.painter().text(
            pos2(r.right() + 10.0, line.center().y),
            Align2::LEFT_CENTER,
            format!("{}, best first:", title_of(v.verdict)),
            fonts::body(),
            t.text,
        );
        doubling(ui, line.with_min_x(r.right() + 16.0), cx);
    }
    let fixes: Vec<_> = cx.state.derived.fixes().iter().take(3).cloned().collect();
    let stacked = stacked(ui, cx, ui.available_width());
    let high = if stacked { 78.0 } else { 56.0 };
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), high + 6.0), Sense::hover());
    let width = card_width(area.width());
    let mut picked = None;
    for (i, fix) in fixes.iter().enumerate() {
        let rect = Rect::from_min_size(
            area.min + vec2(12.0 + i as f32 * (width + 8.0), 2.0),
            vec2(width, high),
        );
        if card(ui, rect, i, fix, stacked) {
            picked = Some(i);
        }
    }
    if let Some(i) = picked {
        cx.send(crate::app::Command::ApplyFix(i));
    }
}

/// What doubling each knob does to the bytes, where there is room for it.
fn doubling(ui: &mut Ui, room: Rect, cx: &Cx<'_>) {
    let Some(b) = cx.state.derived.budget() else {
        return;
    };
    let e = &b.budget.elasticities;
    let edge = [e.x, e.y, e.z].into_iter().flatten().reduce(|a, b| a + b);
    let words: Vec<String> = [("batch", e.batch), ("edge", edge), ("channels", e.channels)]
        .into_iter()
        .filter_map(|(name, power)| Some(format!("{name} \u{d7}{:.1}", power?.exp2())))
        .collect();
    if words.is_empty() {
        return;
    }
    let t = Theme::of(ui.ctx());
    let text = format!("activations at twice the {}", words.join(", "));
    let wide = ui
        .painter()
        .layout_no_wrap(text.clone(), fonts::caption(), t.secondary);
    if wide.size().x + 14.0 < room.width() {
        let row = room.with_max_x(room.right() - 12.0);
        kit::text_in(
            ui,
            row,
            Align2::RIGHT_CENTER,
            &text,
            fonts::caption(),
            t.secondary,
        );
    }
}

/// How high the panel is: cards whose titles share a line with what they need, or stand above it where that is too narrow.
pub(super) fn height(ui: &Ui, cx: &Cx<'_>, width: f32) -> f32 {
    if stacked(ui, cx, width) { 118.0 } else { 96.0 }
}

fn card_width(width: f32) -> f32 {
    (width - 24.0 - 16.0) / 3.0
}

fn stacked(ui: &Ui, cx: &Cx<'_>, width: f32) -> bool {
    let t = Theme::of(ui.ctx());
    let room = card_width(width) - 24.0;
    let wide = |text: String, font| ui.painter().layout_no_wrap(text, font, t.text).size().x;
    cx.state
        .derived
        .fixes()
        .iter()
        .take(3)
        .enumerate()
        .any(|(i, fix)| {
            let title = wide(title(i, fix), fonts::body_bold());
            let verdict = wide(words(fix, &t), fonts::body()) + 18.0;
            title + 12.0 + wide(need(fix), fonts::body()) > room
                || verdict + 12.0 + wide(fix.exactness.clone(), fonts::caption()) > room
        })
}

fn title(i: usize, fix: &Fix) -> String {
    format!("{}  {}", i + 1, fix.title.replace("->", "\u{2192}"))
}

fn need(fix: &Fix) -> String {
    let (low, high) = (fix.required.0.as_gib(), fix.required.1.as_gib());
    if fix.required.0 == fix.required.1 {
        format!("{high:.2} GiB")
    } else {
        format!("{low:.1} to {high:.1} GiB")
    }
}

fn words(fix: &Fix, t: &Theme) -> String {
    let word = paint::verdict(t, fix.verdict).2;
    let spare = fix.free.as_gib() - fix.required.1.as_gib();
    if fix.verdict == Verdict::Over || spare < 0.0 {
        format!("{word}, {:.2} over at worst", -spare)
    } else {
        format!("{word}, {spare:.2} spare")
    }
}

fn card(ui: &mut Ui, rect: Rect, i: usize, fix: &Fix, stacked: bool) -> bool {
    let t = Theme::of(ui.ctx());
    let response = ui.interact(rect, ui.scope_id().with(("fix", i)), Sense::click());
    let (fill, border) = match (i == 0, response.hovered()) {
        (true, _) => (t.primary, t.primary_border),
        (false, true) => (t.hover, t.hover_border),
        (false, false) => (t.raised, t.line_strong),
    };
    ui.painter()
        .rect(rect, 4, fill, Stroke::new(1.0, border), StrokeKind::Inside);
    if response.has_focus() {
        ui.painter()
            .rect_stroke(rect, 4, Stroke::new(2.0, t.strong), StrokeKind::Outside);
    }
    let ink = t.on_primary_or(i == 0);
    let (title, need, words) = (title(i, fix), need(fix), words(fix, &t));
    let line = |n: f32| {
        Rect::from_min_size(
            rect.min + vec2(12.0, 4.0 + 24.0 * n),
            vec2(rect.width() - 24.0, 24.0),
        )
    };
    let last = if stacked { line(1.9) } else { line(1.0) };
    let mut text = |at: Rect, align, text: &str, font, color| {
        kit::text_in(ui, at, align, text, font, color);
    };
    let (left, right) = (Align2::LEFT_CENTER, Align2::RIGHT_CENTER);
    text(line(0.0), left, &title, fonts::body_bold(), ink);
    if stacked {
        text(last, left, &need, fonts::caption(), ink);
    } else {
        text(line(0.0), right, &need, fonts::body(), ink);
    }
    text(last, right, &fix.exactness, fonts::caption(), ink);
    let (mark, color, _) = paint::verdict(&t, fix.verdict);
    let color = t.status_on_primary(color, i == 0);
    text(
        line(1.0).with_min_x(rect.left() + 30.0),
        left,
        &words,
        fonts::body(),
        color,
    );
    paint::mark(
        ui.painter(),
        line(1.0).left_center() + vec2(5.0, 0.0),
        10.0,
        mark,
        color,
    );
    response.widget_info(|| {
        let title = fix.title.replace("->", "\u{2192}");
        let text = format!("Fix {}: {title}, {need}, {words}, {}", i + 1, fix.exactness);
        WidgetInfo::labeled(Role::Button, true, text)
    });
    response.clicked()
}
