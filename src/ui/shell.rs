//! The top bar (menus, workspace tabs, command search, chips) and the status bar.

use super::theme::{Theme, size};
use super::{Cx, fonts, kit, paint};
use crate::app::{Command, Invoke, Menu, Workspace, table};
use eframe::egui::{
    self, Align2, Rect, Sense, Stroke, Ui, UiBuilder, WidgetInfo, accesskit::Role, pos2, vec2,
};

/// Menus, tabs, search and chips.
pub(super) fn top_bar(ui: &mut Ui, rect: Rect, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    ui.painter().rect_filled(rect, 0, t.panel);
    ui.painter().hline(
        rect.x_range(),
        rect.bottom() + 0.5,
        Stroke::new(1.0, t.line),
    );
    ui.painter().text(
        pos2(rect.left() + 12.0, rect.center().y),
        Align2::LEFT_CENTER,
        "Voxfit",
        fonts::body_bold(),
        t.strong,
    );
    menus(ui, rect, cx);
    let wide = rect.width() >= 1300.0;
    let left = if wide { 440.0 } else { 402.0 };
    let end = tabs(
        ui,
        rect,
        rect.left() + left,
        if wide { 20.0 } else { 10.0 },
        cx,
    );
    let start = chips(ui, rect, cx);
    let field = if wide {
        Rect::from_min_size(
            pos2(rect.left() + 760.0, rect.top() + 5.0),
            vec2(300.0, 26.0),
        )
    } else {
        Rect::from_min_max(
            pos2(end + 12.0, rect.top() + 5.0),
            pos2(start - 12.0, rect.bottom() - 5.0),
        )
    };
    if field.width() > 54.0 {
        search(ui, field, cx);
    }
}

fn menus(ui: &mut Ui, rect: Rect, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let builder = UiBuilder::new()
        .id_salt("menus")
        .max_rect(rect.with_min_x(rect.left() + 62.0))
        .layout(egui::Layout::left_to_right(egui::Align::Center));
    ui.scope_builder(builder, |ui| {
        ui.spacing_mut().item_spacing.x = 0.0;
        ui.spacing_mut().button_padding = vec2(8.0, 4.0);
        for menu in Menu::ALL {
            ui.visuals_mut().widgets.inactive.weak_bg_fill = t.panel;
            ui.visuals_mut().widgets.inactive.bg_stroke = Stroke::NONE;
            ui.menu_button(menu.name(), |ui| entries(ui, menu, cx));
        }
    });
}

fn entries(ui: &mut Ui, menu: Menu, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    ui.set_min_width(240.0);
    for info in table().iter().filter(|i| i.menu == menu && i.in_menu) {
        let Invoke::Now(command) = &info.invoke else {
            continue;
        };
        let why = info.why_disabled(cx.state);
        let response = ui.add_enabled(why.is_none(), kit::entry(info, 240.0, &t));
        if response.clicked() {
            cx.send(command.clone());
            ui.close();
        }
        match why {
            Some(why) => response.on_disabled_hover_text(why),
            None => response.on_hover_text(info.tip),
        };
    }
}

fn tabs(ui: &Ui, rect: Rect, left: f32, pad: f32, cx: &mut Cx<'_>) -> f32 {
    let t = Theme::of(ui.ctx());
    let mut x = left;
    for w in Workspace::ALL {
        let on = cx.state.view.workspace == w;
        let color = if on { t.strong } else { t.secondary };
        let galley = ui
            .painter()
            .layout_no_wrap(w.name().to_owned(), fonts::body(), color);
        let tab = Rect::from_min_size(
            pos2(x, rect.top()),
            vec2(galley.size().x + 2.0 * pad, rect.height()),
        );
        let response = ui.interact(tab, ui.scope_id().with(("tab", w)), Sense::click());
        if on {
            ui.painter().rect_filled(tab, 0, t.raised);
            ui.painter()
                .rect_filled(tab.with_min_y(tab.bottom() - 2.0), 0, t.strong);
        } else if response.hovered() {
            ui.painter().rect_filled(tab, 0, t.hover);
        }
        ui.painter()
            .galley(tab.center() - galley.size() / 2.0, galley, color);
        if response.has_focus() {
            ui.painter().rect_stroke(
                tab.shrink(2.0),
                4,
                Stroke::new(1.0, t.strong),
                egui::StrokeKind::Inside,
            );
        }
        response.widget_info(|| {
            WidgetInfo::selected(Role::Tab, true, on, format!("{} workspace", w.name()))
        });
        if response.clicked() {
            cx.send(Command::ShowWorkspace(w));
        }
        x = tab.right();
    }
    x
}

fn search(ui: &Ui, rect: Rect, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let id = ui.scope_id().with("search commands");
    let response = ui.interact(rect, id, Sense::click());
    let border = if response.hovered() || response.has_focus() {
        t.hover_border
    } else {
        t.line_strong
    };
    ui.painter().rect(
        rect,
        size::ROUND,
        t.bg,
        Stroke::new(1.0, border),
        egui::StrokeKind::Inside,
    );
    ui.painter().text(
        pos2(rect.left() + 8.0, rect.center().y),
        Align2::LEFT_CENTER,
        if rect.width() > 180.0 {
            "Search commands"
        } else {
            "Search"
        },
        fonts::body(),
        t.secondary,
    );
    if rect.width() > 120.0 {
        paint::key_cap(
            ui.painter(),
            pos2(rect.right() - 6.0, rect.center().y),
            "Ctrl+K",
            &t,
        );
    }
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, "Search commands"));
    if response.clicked() {
        cx.send(Command::ShowPalette);
    }
}

/// Identity, messages and engine, from the right; returns where they start.
fn chips(ui: &Ui, rect: Rect, cx: &mut Cx<'_>) -> f32 {
    let t = Theme::of(ui.ctx());
    let y = rect.center().y;
    let cuda = cx
        .state
        .engines
        .iter()
        .find(|e| e.id == "cuda" && e.available);
    let engine = cuda.map_or_else(
        || {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            format!("CPU {threads} threads")
        },
        |e| e.device.clone().unwrap_or_else(|| "CUDA".to_owned()),
    );
    let r = kit::chip(ui, pos2(rect.right() - 8.0, y), &engine, t.text);
    if r.clicked() {
        cx.send(Command::ShowJobs);
    }
    let n = cx.state.messages.len();
    let color = if n == 0 { t.secondary } else { t.text };
    let r = kit::chip(
        ui,
        pos2(r.rect.left() - 8.0, y),
        &format!("Messages {n}"),
        color,
    );
    if r.clicked() {
        cx.send(Command::ShowMessages);
    }
    let (text, color) = if cx.state.identity_masked() {
        ("Identity masked", t.text)
    } else {
        ("Identity shown", t.tight)
    };
    let r = kit::chip(ui, pos2(r.rect.left() - 8.0, y), text, color);
    if r.clicked() {
        cx.send(Command::ToggleIdentity);
    }
    r.rect.left()
}

/// Hints at the left, NOT FOR CLINICAL USE in the middle, zoom and scale at the right.
pub(super) fn status_bar(ui: &mut Ui, rect: Rect, cx: &Cx<'_>) {
    let t = Theme::of(ui.ctx());
    ui.painter().rect_filled(rect, 0, t.panel);
    ui.painter()
        .hline(rect.x_range(), rect.top() - 0.5, Stroke::new(1.0, t.line));
    let third = rect.width() / 3.0;
    let left = Rect::from_min_max(
        pos2(rect.left() + 12.0, rect.top()),
        pos2(rect.left() + third + 60.0, rect.bottom()),
    );
    let jobs = cx.state.jobs();
    let running = jobs
        .first()
        .map(|job| {
            if job.total > 0 {
                format!("{} {} / {}", job.name, job.done, job.total)
            } else {
                job.name.clone()
            }
        })
        .unwrap_or_default();
    let hint = if running.is_empty() {
        cx.local.status_hint.to_owned()
    } else {
        running
    };
    kit::text_in(
        ui,
        left,
        Align2::LEFT_CENTER,
        &hint,
        fonts::caption(),
        t.secondary,
    );
    kit::text_in(
        ui,
        Rect::from_center_size(rect.center(), vec2(200.0, rect.height())),
        Align2::CENTER_CENTER,
        "NOT FOR CLINICAL USE",
        fonts::caption_bold(),
        t.strong,
    );
    let scale = format!("UI {} %", cx.state.settings.ui_scale);
    let text = if cx.local.scale_text.is_empty() {
        scale
    } else {
        format!("{}   {scale}", cx.local.scale_text)
    };
    let right = Rect::from_min_max(
        pos2(rect.right() - third + 60.0, rect.top()),
        pos2(rect.right() - 12.0, rect.bottom()),
    );
    kit::text_in(
        ui,
        right,
        Align2::RIGHT_CENTER,
        &text,
        fonts::caption(),
        t.secondary,
    );
}
