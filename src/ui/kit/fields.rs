//! Text fields that apply while typing, and sliders with keys.

use crate::ui::fonts;
use crate::ui::theme::{Theme, size};
use eframe::egui::{
    self, Align, CornerRadius, Id, Margin, Rect, Response, Sense, Stroke, StrokeKind, TextEdit, Ui,
    WidgetInfo, accesskit, pos2, vec2,
};

/// A field showing `current` until somebody types; returns the new text on each change. `bad` draws the error border.
pub fn edit(
    ui: &mut Ui,
    rect: Rect,
    name: &str,
    current: &str,
    align: Align,
    bad: bool,
) -> Option<String> {
    let t = Theme::of(ui.ctx());
    let id = ui.scope_id().with(("edit", name));
    let kept: Option<String> = ui.data(|d| d.get_temp(id));
    let focused = ui.memory(|m| m.has_focus(id));
    let mut text = match kept {
        Some(kept) if focused => kept,
        _ => current.to_owned(),
    };
    let before = text.clone();
    let hovered = ui.rect_contains_pointer(rect);
    let border = if bad {
        t.over
    } else if focused {
        t.strong
    } else if hovered {
        t.hover_border
    } else {
        t.line_strong
    };
    ui.painter().rect(
        rect,
        CornerRadius::same(size::ROUND),
        t.bg,
        Stroke::new(1.0, border),
        StrokeKind::Inside,
    );
    // A child of its own, so that the row's cursor stays where the row put it.
    let inner = rect.shrink2(vec2(1.0, 1.0));
    let mut child = ui.new_child(egui::UiBuilder::new().id_salt(name).max_rect(inner));
    let response = child.add(
        TextEdit::singleline(&mut text)
            .id(id)
            .font(fonts::body())
            .text_color(t.text)
            .frame(egui::Frame::NONE.inner_margin(Margin::symmetric(7, 2)))
            .align(egui::Align2([align, Align::Center]))
            .min_size(vec2(rect.width() - 2.0, rect.height() - 2.0))
            .desired_width(rect.width() - 16.0),
    );
    let response = response.accessible_name(name);
    if response.has_focus() {
        ui.painter().rect_stroke(
            rect,
            CornerRadius::same(size::ROUND),
            Stroke::new(1.0, t.strong),
            StrokeKind::Outside,
        );
    }
    ui.data_mut(|d| d.insert_temp(id, text.clone()));
    (text != before).then_some(text)
}

/// How many steps up (+) or down (-) keys and screen readers asked of a focused widget.
pub fn step_keys(ui: &Ui, response: &Response) -> i32 {
    let id: Id = response.id;
    let focused = response.has_focus();
    if focused {
        ui.memory_mut(|m| {
            m.set_focus_lock_filter(
                id,
                egui::EventFilter {
                    horizontal_arrows: true,
                    vertical_arrows: true,
                    ..Default::default()
                },
            );
        });
    }
    ui.input(|i| {
        let key = |k| i32::from(focused && i.key_pressed(k));
        let action = |a| i32::try_from(i.num_accesskit_action_requests(id, a)).unwrap_or(0);
        key(egui::Key::ArrowRight) + key(egui::Key::ArrowUp)
            - key(egui::Key::ArrowLeft)
            - key(egui::Key::ArrowDown)
            + action(accesskit::Action::Increment)
            - action(accesskit::Action::Decrement)
    })
}

/// A slider: track of 4 with a knob of 14; returns the new value while it moves.
pub fn slider(
    ui: &Ui,
    rect: Rect,
    name: &str,
    value: f64,
    range: std::ops::RangeInclusive<f64>,
    step: f64,
) -> Option<f64> {
    let t = Theme::of(ui.ctx());
    let id = ui.scope_id().with(("slider", name));
    let response = ui.interact(rect, id, Sense::click_and_drag());
    let track = Rect::from_min_max(
        pos2(rect.left() + 7.0, rect.center().y - 2.0),
        pos2(rect.right() - 7.0, rect.center().y + 2.0),
    );
    let (low, high) = (*range.start(), *range.end());
    let at = |v: f64| {
        let share = ((v - low) / (high - low)).clamp(0.0, 1.0);
        egui::remap(
            share,
            0.0..=1.0,
            f64::from(track.left())..=f64::from(track.right()),
        )
    };
    #[expect(clippy::cast_possible_truncation, reason = "a screen position")]
    let x = at(value) as f32;
    ui.painter().rect_filled(track, 2, t.line_strong);
    ui.painter()
        .rect_filled(track.with_max_x(x), 2, t.secondary);
    ui.painter().circle(
        pos2(x, track.center().y),
        7.0,
        t.strong,
        Stroke::new(1.0, t.panel),
    );
    if response.has_focus() {
        ui.painter()
            .circle_stroke(pos2(x, track.center().y), 9.0, Stroke::new(2.0, t.strong));
    }
    response.widget_info(|| WidgetInfo::slider(true, value, name));
    let snap = |v: f64| ((v / step).round() * step).clamp(low, high);
    if let Some(pointer) = response.interact_pointer_pos() {
        let share = f64::from((pointer.x - track.left()) / track.width()).clamp(0.0, 1.0);
        let new = snap(low + share * (high - low));
        return (new != value).then_some(new);
    }
    let steps = step_keys(ui, &response);
    (steps != 0).then(|| snap(value + f64::from(steps) * step))
}
