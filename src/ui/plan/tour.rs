//! The guided tour: a band over the plots with what is seen, back, next and end.

use crate::app::Command;
use crate::ui::theme::Theme;
use crate::ui::{Cx, fonts, kit};
use eframe::egui::{Rect, Sense, Ui, UiBuilder, pos2, vec2};

/// Height of the band.
pub(super) const HEIGHT: f32 = 98.0;

/// Draws the band.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let Some(told) = cx.state.told().cloned() else {
        return;
    };
    let t = Theme::of(ui.ctx());
    let area = ui.max_rect();
    ui.painter()
        .rect_filled(area.with_max_x(area.left() + 3.0), 0, t.primary_border);
    let place = format!("step {} of {}", told.step, told.steps);
    let head = format!("{} \u{b7} {place}", told.tour);
    kit::heading(ui, "Tour", &head, "");
    let text = Rect::from_min_max(
        pos2(area.left(), area.top() + 26.0),
        pos2(area.right() - 214.0, area.bottom()),
    );
    ui.scope_builder(UiBuilder::new().max_rect(text).id_salt("tour text"), |ui| {
        ui.shrink_clip_rect(text);
        let body = if told.text.is_empty() {
            "Planning\u{2026}".to_owned()
        } else {
            told.text.clone()
        };
        let spans = [
            kit::Span::new(format!("{}. ", told.title), fonts::body_bold(), t.strong),
            kit::Span::new(body, fonts::caption(), t.text),
        ];
        kit::rich(ui, &spans);
    });
    let last = told.step == told.steps;
    let at = |i: f32, wide: f32| {
        let left = area.right() - 208.0 + i;
        Rect::from_min_size(pos2(left, area.center().y - 14.0), vec2(wide, 28.0))
    };
    let first = (told.step == 1).then_some("this is the first step");
    if kit::button(ui, at(0.0, 56.0), "Back", kit::Look::Plain, first).clicked() {
        cx.send(Command::StepTour(false));
    }
    if last {
        if kit::button(ui, at(64.0, 132.0), "End tour", kit::Look::Primary, None).clicked() {
            cx.send(Command::EndTour);
        }
    } else {
        if kit::button(ui, at(64.0, 64.0), "Next", kit::Look::Primary, None).clicked() {
            cx.send(Command::StepTour(true));
        }
        if kit::button(ui, at(136.0, 60.0), "End", kit::Look::Plain, None).clicked() {
            cx.send(Command::EndTour);
        }
    }
    ui.allocate_rect(area, Sense::hover());
}
