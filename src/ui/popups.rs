//! What opens on top of the window: palette, key sheet, jobs, messages, warnings, settings, about.

use super::theme::{Theme, size};
use super::{Cx, fonts, kit, manifest, paint, palette, study_pages};
use crate::app::keys::System;
use crate::app::{Command, Menu, Popup, Severity, Theme as Palette, table};
use eframe::egui::{self, Align2, Frame, Margin, Rect, Sense, Ui, vec2};

/// Draws the popup that is open, if any.
pub(super) fn show(ui: &Ui, cx: &mut Cx<'_>) {
    if cx.state.view.popup != Some(Popup::Palette) {
        palette::closed(&mut cx.local.palette);
    }
    let Some(popup) = cx.state.view.popup else {
        return;
    };
    let t = Theme::of(ui.ctx());
    let mut frame = Frame::popup(ui.style());
    frame.inner_margin = Margin::ZERO;
    let modal = egui::Modal::new(egui::Id::unique("popup"))
        .frame(frame)
        .backdrop_color(super::theme::black(0.45));
    let modal = if popup == Popup::Palette {
        let area = egui::Modal::default_area(egui::Id::unique("popup"));
        modal.area(area.anchor(Align2::CENTER_TOP, vec2(0.0, 44.0)))
    } else {
        modal
    };
    let response = modal.show(ui.ctx(), |ui| {
        ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
        match popup {
            Popup::Palette => palette::show(ui, cx),
            Popup::Keys => sheet(ui, &t),
            Popup::Jobs => jobs(ui, cx, &t),
            Popup::Messages => messages(ui, cx, &t),
            Popup::Warnings => study_pages::list(ui, cx),
            Popup::SeriesDetails => study_pages::details(ui, cx),
            Popup::Manifest => manifest::show(ui, cx),
            Popup::Settings => settings(ui, cx),
            Popup::Calibration => page(ui, "Calibrate", 760.0, 600.0, |ui| {
                super::plan::calibrate(ui, cx);
            }),
            Popup::About => about(ui),
        }
    });
    if response.should_close() && popup == cx.state.view.popup.unwrap_or(popup) {
        cx.send(Command::Escape);
    }
}

/// Title, then content in a scroll area of at most `height`.
fn page(ui: &mut Ui, title: &str, width: f32, height: f32, add: impl FnOnce(&mut Ui)) {
    study_pages::title(ui, title, width);
    egui::ScrollArea::vertical()
        .max_height(height)
        // What grows while the page is open is shown, not scrolled to.
        .min_scrolled_height(height)
        .show(ui, |ui| {
            ui.add_space(8.0);
            add(ui);
            ui.add_space(12.0);
        });
}

fn sheet(ui: &mut Ui, t: &Theme) {
    page(ui, "Keys", 640.0, 560.0, |ui| {
        for menu in Menu::ALL {
            let with_keys: Vec<_> = table()
                .iter()
                .filter(|i| i.menu == menu && !i.keys.is_empty())
                .collect();
            if with_keys.is_empty() {
                continue;
            }
            kit::heading(ui, menu.name(), "", "");
            for pair in with_keys.chunks(2) {
                let (area, _) =
                    ui.allocate_exact_size(vec2(ui.available_width(), size::ROW), Sense::hover());
                for (i, info) in pair.iter().enumerate() {
                    let half = area.width() / 2.0;
                    let r = Rect::from_min_size(
                        area.min + vec2(i as f32 * half + 12.0, 0.0),
                        vec2(half - 24.0, area.height()),
                    );
                    kit::text_in(ui, r, Align2::LEFT_CENTER, info.name, fonts::body(), t.text);
                    let mut right = r.right_center();
                    for chord in info.keys.iter().rev() {
                        let cap =
                            paint::key_cap(ui.painter(), right, &chord.label(System::here()), t);
                        right.x = cap.left() - 4.0;
                    }
                }
            }
        }
        kit::heading(ui, "Mouse over a slice", "", "");
        for line in [
            "wheel: slice (down = feet) \u{b7} Shift+wheel: ten \u{b7} Ctrl+wheel: zoom at the pointer",
            "left drag: window level (Alt: a tenth) \u{b7} Ctrl+drag: level of the region",
            "middle or Shift+left drag: pan \u{b7} right drag: zoom \u{b7} double click: this view alone",
            "click: crosshair, or selects a box \u{b7} Shift+move: crosshair follows \u{b7} right click: menu",
        ] {
            kit::caption(ui, line);
        }
    });
}

fn jobs(ui: &mut Ui, cx: &mut Cx<'_>, t: &Theme) {
    page(ui, "Jobs and engines", 520.0, 420.0, |ui| {
        let jobs = cx.state.jobs();
        if jobs.is_empty() {
            kit::note(ui, "Nothing is running");
        }
        for job in jobs {
            let (area, _) =
                ui.allocate_exact_size(vec2(ui.available_width(), 36.0), Sense::hover());
            let r = area.shrink2(vec2(12.0, 0.0));
            let text = if job.total > 0 {
                format!("{} / {}", job.done, job.total)
            } else {
                "running".to_owned()
            };
            kit::text_in(ui, r, Align2::LEFT_CENTER, &job.name, fonts::body(), t.text);
            kit::text_in(
                ui,
                r.with_max_x(r.right() - 100.0),
                Align2::RIGHT_CENTER,
                &text,
                fonts::body(),
                t.secondary,
            );
            let button = Rect::from_min_size(r.right_top() + vec2(-88.0, 4.0), vec2(88.0, 28.0));
            let why = job.cancelling.then_some("it is stopping");
            let clicked = ui
                .push_id(job.id, |ui| {
                    kit::button(ui, button, "Cancel", kit::Look::Plain, why).clicked()
                })
                .inner;
            if clicked {
                cx.send(Command::CancelJob(job.id));
            }
        }
        kit::heading(ui, "Engines", "", "");
        for e in &cx.state.engines {
            let text = if e.available {
                format!("{}: {}", e.id, e.device.as_deref().unwrap_or("available"))
            } else {
                format!("{}: {}", e.id, e.reason)
            };
            kit::note(ui, &text);
        }
    });
}

fn messages(ui: &mut Ui, cx: &Cx<'_>, t: &Theme) {
    page(ui, "Messages", 560.0, 480.0, |ui| {
        if cx.state.messages.is_empty() {
            kit::note(ui, "No messages");
        }
        for m in cx.state.messages.iter().rev() {
            let color = match m.severity {
                Severity::Info => t.fits,
                Severity::Warning => t.tight,
                Severity::Error => t.over,
            };
            kit::rich(ui, &[kit::Span::new(&m.title, fonts::body_bold(), color)]);
            kit::caption(ui, &m.detail);
            ui.add_space(8.0);
        }
    });
}

fn settings(ui: &mut Ui, cx: &mut Cx<'_>) {
    page(ui, "Settings", 420.0, 300.0, |ui| {
        let rect = kit::form_row(ui, "Colours", 120.0);
        let options = [
            (Palette::Dark, "Dark"),
            (Palette::Light, "Light"),
            (Palette::HighContrast, "Contrast"),
        ];
        if let Some(theme) = kit::segmented(ui, rect, "Colours", &options, cx.state.settings.theme)
        {
            cx.send(Command::SetTheme(theme));
        }
        let rect = kit::form_row(ui, "Size of text", 120.0);
        let options = [
            (75, "75"),
            (100, "100"),
            (125, "125"),
            (150, "150"),
            (200, "200"),
            (250, "250"),
        ];
        if let Some(scale) = kit::segmented(
            ui,
            rect,
            "Size in per cent",
            &options,
            cx.state.settings.ui_scale,
        ) {
            cx.send(Command::SetUiScale(scale));
        }
        let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 32.0), Sense::hover());
        let on = cx.state.settings.mask_identity;
        if kit::check(
            ui,
            area.shrink2(vec2(12.0, 4.0)),
            on,
            "Mask names on screen (outputs always are)",
        ) {
            cx.send(Command::ToggleIdentity);
        }
    });
}

fn about(ui: &mut Ui) {
    page(ui, "Voxfit", 440.0, 300.0, |ui| {
        kit::note(ui, concat!("Version ", env!("CARGO_PKG_VERSION")));
        kit::note(
            ui,
            "Does a 3D network fit the card, is it still right when it runs in windows, and what to buy.",
        );
        kit::note(ui, "Not for clinical use.");
        kit::caption(
            ui,
            "MIT or Apache-2.0. Type: Inter, SIL Open Font License 1.1.",
        );
    });
}
