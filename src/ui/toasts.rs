//! Messages as toasts: bottom right, 6 s, errors stay until dismissed.

use super::theme::Theme;
use super::{Cx, fonts, kit, paint};
use crate::app::{Command, Severity};
use eframe::egui::{Align2, Rect, Stroke, StrokeKind, Ui, WidgetInfo, accesskit::Role, pos2, vec2};
use std::collections::HashMap;

/// How long a toast stays, in seconds.
const SECONDS: f64 = 6.0;

/// When each message was first shown.
#[derive(Default)]
pub(super) struct Toasts {
    since: HashMap<u64, f64>,
}

/// Draws the newest three that are due.
pub(super) fn show(ui: &mut Ui, content: Rect, cx: &mut Cx<'_>) {
    let now = ui.input(|i| i.time);
    let t = Theme::of(ui.ctx());
    let mut bottom = content.bottom() - 12.0;
    let mut dismissed = Vec::new();
    let mut shown = 0;
    for m in cx.state.messages.iter().rev() {
        if m.dismissed || shown == 3 {
            continue;
        }
        let since = *cx.local.toasts.since.entry(m.id).or_insert(now);
        if m.severity != Severity::Error {
            let left = SECONDS - (now - since);
            if left <= 0.0 {
                continue;
            }
            ui.ctx()
                .request_repaint_after(std::time::Duration::from_secs_f64(left));
        }
        shown += 1;
        let rect = Rect::from_min_size(
            pos2(content.right() - 392.0, bottom - 64.0),
            vec2(380.0, 64.0),
        );
        bottom = rect.top() - 8.0;
        let (mark, color) = match m.severity {
            Severity::Info => (paint::Mark::Disc, t.fits),
            Severity::Warning => (paint::Mark::Triangle, t.tight),
            Severity::Error => (paint::Mark::Cross, t.over),
        };
        let response = ui.interact(
            rect,
            ui.scope_id().with(("toast", m.id)),
            eframe::egui::Sense::click(),
        );
        response.widget_info(|| {
            WidgetInfo::labeled(Role::Alert, true, format!("{}: {}", m.title, m.detail))
        });
        let p = ui.painter();
        p.add(
            ui.visuals()
                .popup_shadow
                .as_shape(rect, eframe::egui::CornerRadius::same(4)),
        );
        p.rect(
            rect,
            4,
            t.raised,
            Stroke::new(1.0, t.line_strong),
            StrokeKind::Inside,
        );
        p.rect_filled(rect.with_max_x(rect.left() + 3.0), 0, color);
        paint::mark(p, rect.left_top() + vec2(22.0, 20.0), 10.0, mark, color);
        let action = m
            .action
            .as_ref()
            .map_or("Dismiss", |(word, _)| word.as_str());
        let title = Rect::from_min_size(rect.min + vec2(36.0, 8.0), vec2(260.0, 24.0));
        kit::text_in(
            ui,
            title,
            Align2::LEFT_CENTER,
            &m.title,
            fonts::body_bold(),
            t.strong,
        );
        let detail = Rect::from_min_size(rect.min + vec2(36.0, 34.0), vec2(332.0, 20.0));
        kit::text_in(
            ui,
            detail,
            Align2::LEFT_CENTER,
            &m.detail,
            fonts::caption(),
            t.secondary,
        );
        let at = pos2(rect.right() - 12.0, rect.top() + 20.0);
        let clicked = ui
            .push_id(m.id, |ui| kit::text_button(ui, at, action).clicked())
            .inner;
        if clicked {
            match &m.action {
                Some((_, command)) => dismissed.push(command.clone()),
                None => dismissed.push(Command::DismissMessage(m.id)),
            }
        }
    }
    for command in dismissed {
        cx.send(command);
    }
}
