//! Ways to fit the card in focus, best first, as buttons that send their change.

use crate::memory::Verdict;
use crate::ui::theme::Theme;
use crate::ui::{Cx, fonts, kit, paint};
use eframe::egui::{
    self, Align2, Rect, Sense, Stroke, StrokeKind, Ui, WidgetInfo, accesskit::Role, pos2, vec2,
};

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
        let text = format!("{word} on the {} GB card {words}.", v.nameplate_gb);
        let r = ui.painter().text(
            line.left_center() + vec2(32.0, 0.0),
            Align2::LEFT_CENTER,
            text,
            fonts::body_bold(),
            color,
        );
        ui.painter().text(
            pos2(r.right() + 10.0, line.center().y),
            Align2::LEFT_CENTER,
            "Ways to fit, best first:",
            fonts::body(),
            t.text,
        );
    }
    let fixes: Vec<_> = cx.state.derived.fixes().iter().take(3).cloned().collect();
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 62.0), Sense::hover());
    let width = (area.width() - 24.0 - 16.0) / 3.0;
    let mut picked = None;
    for (i, fix) in fixes.iter().enumerate() {
        let rect = Rect::from_min_size(
            area.min + vec2(12.0 + i as f32 * (width + 8.0), 2.0),
            vec2(width, 56.0),
        );
        if card(ui, rect, i, fix, &t) {
            picked = Some(i);
        }
    }
    if let Some(i) = picked {
        cx.send(crate::app::Command::ApplyFix(i));
    }
}

fn card(ui: &mut Ui, rect: Rect, i: usize, fix: &crate::app::Fix, t: &Theme) -> bool {
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
    let title = fix.title.replace("->", "\u{2192}");
    let (low, high) = (fix.required.0.as_gib(), fix.required.1.as_gib());
    let need = if fix.required.0 == fix.required.1 {
        format!("{high:.2} GiB")
    } else {
        format!("{low:.1} to {high:.1} GiB")
    };
    let top = Rect::from_min_size(rect.min + vec2(12.0, 4.0), vec2(rect.width() - 24.0, 24.0));
    let bottom = top.translate(vec2(0.0, 24.0));
    let need_width = ui
        .painter()
        .layout_no_wrap(need.clone(), fonts::body(), t.text)
        .size()
        .x;
    let room = top.with_max_x(top.right() - need_width - 8.0);
    let roomy = rect.width() > 260.0;
    kit::text_in(
        ui,
        room,
        Align2::LEFT_CENTER,
        &format!("{}  {title}", i + 1),
        fonts::body_bold(),
        t.on_primary_or(i == 0),
    );
    kit::text_in(
        ui,
        top,
        Align2::RIGHT_CENTER,
        &need,
        fonts::body(),
        t.on_primary_or(i == 0),
    );
    let (mark, color, word) = paint::verdict(t, fix.verdict);
    paint::mark(
        ui.painter(),
        bottom.left_center() + vec2(5.0, 0.0),
        10.0,
        mark,
        color,
    );
    let spare = fix.free.as_gib() - high;
    let words = if fix.verdict == Verdict::Over || spare < 0.0 {
        format!("{word}, {:.2} over at worst", -spare)
    } else {
        format!("{word}, {spare:.2} spare")
    };
    let left = bottom
        .with_min_x(bottom.left() + 18.0)
        .with_max_x(bottom.right() - if roomy { 96.0 } else { 0.0 });
    kit::text_in(ui, left, Align2::LEFT_CENTER, &words, fonts::body(), color);
    let right = bottom.with_min_x(bottom.right() - 92.0);
    if roomy {
        kit::text_in(
            ui,
            right,
            Align2::RIGHT_CENTER,
            &fix.exactness,
            fonts::caption(),
            t.on_primary_or(i == 0),
        );
    }
    response.widget_info(|| {
        WidgetInfo::labeled(
            Role::Button,
            true,
            format!("Fix {}: {title}, {need}, {words}, {}", i + 1, fix.exactness),
        )
    });
    let clicked = response.clicked();
    response.on_hover_ui(|ui| {
        ui.label(egui::RichText::new(&fix.exactness));
    });
    clicked
}
