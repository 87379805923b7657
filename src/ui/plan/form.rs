//! The plan form: every choice that a run or a budget depends on, applied as it is made.

use super::{run_row, windows};
use crate::app::Command;
use crate::app::document::{Display, Mode, Runtime, StitchOn, overlap_text};
use crate::app::parse::gib_limit;
use crate::memory::Precision;
use crate::tiling::{Blend, Layout};
use crate::ui::theme::{Theme, size};
use crate::ui::{Cx, fonts, kit, paint};
use crate::units::{Bytes, with_thousands};
use eframe::egui::{
    self, Align, Align2, Rect, Sense, Stroke, StrokeKind, Ui, WidgetInfo, accesskit::Role, pos2,
    vec2,
};

const LABEL: f32 = 92.0;

/// Networks offered by name.
const PRESETS: [&str; 4] = ["demo", "demo-norm", "nnunet-3d-6stage", "monai-lung-nodule"];

/// Draws the form.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let foot = if cx.state.why_not_run().is_some() || cx.state.manifest_waits() {
        98.0
    } else {
        48.0
    };
    let full = ui.max_rect();
    let body = full.with_max_y(full.bottom() - foot);
    let builder = egui::UiBuilder::new().id_salt("form").max_rect(body);
    ui.scope_builder(builder, |ui| {
        egui::ScrollArea::vertical()
            .auto_shrink(false)
            .show(ui, |ui| {
                kit::heading(ui, "Plan", "", "Ctrl+Z undoes");
                network(ui, cx);
                choices(ui, cx);
                sizes(ui, cx);
                tiling(ui, cx);
                machine(ui, cx);
                ui.add_space(8.0);
                kit::separator(ui);
                windows::show(ui, cx);
            });
    });
    let builder = egui::UiBuilder::new()
        .id_salt("run row")
        .max_rect(full.with_min_y(body.bottom()));
    ui.scope_builder(builder, |ui| run_row(ui, cx));
}

fn combo(ui: &mut Ui, rect: Rect, name: &str, text: &str) -> egui::Response {
    let t = Theme::of(ui.ctx());
    let response = ui.interact(rect, ui.scope_id().with(name), Sense::click());
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
        StrokeKind::Inside,
    );
    let room = rect
        .with_min_x(rect.left() + 8.0)
        .with_max_x(rect.right() - 20.0);
    kit::text_in(ui, room, Align2::LEFT_CENTER, text, fonts::body(), t.text);
    let c = pos2(rect.right() - 12.0, rect.center().y);
    ui.painter().add(egui::Shape::convex_polygon(
        vec![
            c + vec2(-4.0, -2.5),
            c + vec2(4.0, -2.5),
            c + vec2(0.0, 3.0),
        ],
        t.secondary,
        Stroke::NONE,
    ));
    response.widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, format!("{name}: {text}")));
    response
}

fn network(ui: &mut Ui, cx: &mut Cx<'_>) {
    let rect = kit::form_row(ui, "Network", LABEL);
    let chosen = cx.state.document.network.clone();
    let text = chosen.as_deref().map_or("choose", |n| {
        n.strip_prefix("preset:")
            .unwrap_or_else(|| n.rsplit(['/', '\\']).next().unwrap_or(n))
    });
    let response = combo(ui, rect, "Network", text);
    egui::Popup::menu(&response).show(|ui| {
        ui.set_min_width(rect.width());
        for name in PRESETS {
            if ui.button(name).clicked() {
                cx.send(Command::SetNetwork(format!("preset:{name}")));
            }
        }
        ui.separator();
        if ui.button("Open network\u{2026}").clicked() {
            cx.send(Command::OpenNetworkDialog);
        }
    });
    if let Some(info) = cx.state.network.info() {
        weights(ui, cx, info);
        let stride = info.tiling.total_stride;
        let norms = info.tiling.spatial_norms.len();
        let norms = match norms {
            0 => "no norm over space".to_owned(),
            1 => "1 norm over space".to_owned(),
            n => format!("{n} norms over space"),
        };
        let lines = [
            format!("{} parameters", with_thousands(info.facts.n_parameters)),
            format!("stride {}, {}, {}", stride[0], stride[1], stride[2]),
            norms,
        ];
        for line in lines {
            under(ui, &line);
        }
        if cx.state.manifest_waits() {
            waiting(ui, cx, rect.left());
        }
        let word = if cx.state.view.layers_open {
            "Hide layers"
        } else {
            "Show layers"
        };
        let (line, _) = ui.allocate_exact_size(vec2(ui.available_width(), 20.0), Sense::hover());
        let wide = ui
            .painter()
            .layout_no_wrap(word.to_owned(), fonts::caption(), egui::Color32::WHITE)
            .size()
            .x;
        let at = pos2(rect.left() + wide + 4.0, line.center().y);
        if kit::text_button(ui, at, word).clicked() {
            cx.send(Command::ShowLayers);
        }
    }
}

/// Says that the manifest is proposed, and opens it.
fn waiting(ui: &mut Ui, cx: &mut Cx<'_>, left: f32) {
    let t = Theme::of(ui.ctx());
    let (line, _) = ui.allocate_exact_size(vec2(ui.available_width(), 20.0), Sense::hover());
    let at = pos2(left + 5.0, line.center().y);
    paint::mark(ui.painter(), at, 10.0, paint::Mark::Triangle, t.tight);
    let word = "Manifest: proposed, read it";
    let wide = ui
        .painter()
        .layout_no_wrap(word.to_owned(), fonts::caption(), t.text)
        .size()
        .x;
    let at = pos2(left + 18.0 + wide, line.center().y);
    if kit::text_button(ui, at, word).clicked() {
        cx.send(Command::ShowManifest);
    }
}

/// Where the network's weights come from: with it, a file, or a seed.
fn weights(ui: &mut Ui, cx: &mut Cx<'_>, info: &crate::app::NetworkInfo) {
    let rect = kit::form_row(ui, "Weights", LABEL);
    let chosen = cx.state.document.weights.clone();
    let seed = chosen.as_deref().and_then(|w| w.strip_prefix("seeded:"));
    let text = match (&chosen, seed) {
        (Some(_), Some(n)) => format!("random, seed {n}"),
        (Some(path), None) => path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned(),
        (None, _) if info.model.weights.is_some() => "its own".to_owned(),
        (None, _) => "none: plan only".to_owned(),
    };
    let response = combo(ui, rect, "Weights", &text);
    egui::Popup::menu(&response).show(|ui| {
        ui.set_min_width(rect.width());
        if ui.button("Open weights file\u{2026}").clicked() {
            cx.send(Command::OpenWeightsDialog);
        }
        if ui
            .button("Random (seed 1)")
            .on_hover_text("For times and memory: the results mean nothing.")
            .clicked()
        {
            cx.send(Command::SetWeights(Some("seeded:1".to_owned())));
        }
        if chosen.is_some() && ui.button("As they come with the network").clicked() {
            cx.send(Command::SetWeights(None));
        }
    });
}

/// A caption in the field's column.
fn under(ui: &mut Ui, text: &str) {
    let t = Theme::of(ui.ctx());
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 16.0), Sense::hover());
    let room = area
        .with_min_x(area.left() + size::INSET + LABEL)
        .with_max_x(area.right() - size::INSET);
    kit::text_in(
        ui,
        room,
        Align2::LEFT_CENTER,
        text,
        fonts::caption(),
        t.secondary,
    );
}

/// A bad field's sentence.
fn wrong(ui: &mut Ui, text: &str) {
    let t = Theme::of(ui.ctx());
    kit::rich(ui, &[kit::Span::new(text, fonts::caption(), t.over)]);
}

fn choices(ui: &mut Ui, cx: &mut Cx<'_>) {
    let d = &cx.state.document;
    let (runtime, mode) = (d.runtime, d.mode);
    let rect = kit::form_row(ui, "Runtime", LABEL);
    let options = [(Runtime::Voxfit, "Voxfit"), (Runtime::Pytorch, "PyTorch")];
    if let Some(v) = kit::segmented(ui, rect, "Runtime", &options, runtime) {
        cx.send(Command::SetRuntime(v));
    }
    let rect = kit::form_row(ui, "Mode", LABEL);
    let options = [(Mode::Inference, "Inference"), (Mode::Training, "Training")];
    if let Some(v) = kit::segmented(ui, rect, "Mode", &options, mode) {
        cx.send(Command::SetMode(v));
    }
}

fn sizes(ui: &mut Ui, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let rect = kit::form_row(ui, "Volume", LABEL);
    if let Some(v) = cx.state.volume_state() {
        ui.painter().rect(
            rect,
            size::ROUND,
            t.bg,
            Stroke::new(1.0, t.line),
            StrokeKind::Inside,
        );
        let inner = rect.shrink2(vec2(8.0, 0.0));
        kit::text_in(
            ui,
            inner,
            Align2::LEFT_CENTER,
            &paint::times(v.extent),
            fonts::body(),
            t.text,
        );
        kit::text_in(
            ui,
            inner,
            Align2::RIGHT_CENTER,
            "series",
            fonts::caption(),
            t.secondary,
        );
    } else {
        let text = paint::times(cx.state.document.volume_without_data);
        if let Some(typed) = kit::edit(ui, rect, "Volume size in voxels", &text, Align::Min, false)
            && let Ok(extent) = typed.parse()
        {
            cx.send(Command::PlanWithoutData(extent));
        }
    }
    let rect = kit::form_row(ui, "roi x, y, z", LABEL);
    let bad = cx.state.document.check().err().map(|e| e.to_string());
    let roi_bad = bad.as_ref().is_some_and(|b| b.starts_with("roi"));
    let width = (rect.width() - 16.0) / 3.0;
    let roi = cx.state.document.roi_size;
    for (i, axis) in ["x", "y", "z"].into_iter().enumerate() {
        let at = Rect::from_min_size(
            rect.min + vec2(i as f32 * (width + 8.0), 0.0),
            vec2(width, rect.height()),
        );
        let name = format!("roi {axis}");
        let text = roi[i].to_string();
        if let Some(typed) = kit::edit(ui, at, &name, &text, Align::Max, roi_bad)
            && let Ok(n) = typed.trim().replace('\u{2212}', "-").parse::<i64>()
        {
            let mut to = roi;
            to[i] = n;
            cx.send(Command::SetRoi(to));
        }
    }
    if let (true, Some(text)) = (roi_bad, &bad) {
        wrong(ui, text);
    } else if let Some(info) = cx.state.network.info() {
        let stride = info.tiling.total_stride;
        let divides = (0..3).all(|a| {
            usize::try_from(roi[a]).is_ok_and(|n| n == 0 || n.is_multiple_of(stride[a].max(1)))
        });
        under(
            ui,
            if divides {
                "stride divides it: yes"
            } else {
                "stride divides it: no"
            },
        );
    }
    let rect = kit::form_row(ui, "Overlap", LABEL);
    let overlap = cx.state.document.overlap;
    let track = rect.with_max_x(rect.right() - 84.0);
    if let Some(v) = kit::slider(ui, track, "Overlap share", overlap[0], 0.0..=0.9, 0.01) {
        cx.send(Command::SetOverlap([v; 3]));
    }
    let field = rect.with_min_x(rect.right() - 76.0);
    let overlap_bad = bad.as_ref().is_some_and(|b| b.starts_with("overlap"));
    if let Some(typed) = kit::edit(
        ui,
        field,
        "Overlap",
        &overlap_text(overlap),
        Align::Max,
        overlap_bad,
    ) {
        let values: Vec<f64> = typed
            .split(',')
            .filter_map(|p| p.trim().parse().ok())
            .collect();
        match values.as_slice() {
            [v] => cx.send(Command::SetOverlap([*v; 3])),
            [x, y, z] => cx.send(Command::SetOverlap([*x, *y, *z])),
            _ => {}
        }
    }
    if let (true, Some(text)) = (overlap_bad, &bad) {
        wrong(ui, text);
    }
}

fn tiling(ui: &mut Ui, cx: &mut Cx<'_>) {
    let d = &cx.state.document;
    let (blend, layout, precision) = (d.blend, d.layout, d.precision);
    let rect = kit::form_row(ui, "Blend", LABEL);
    let options = [(Blend::Constant, "Constant"), (Blend::Gaussian, "Gaussian")];
    if let Some(v) = kit::segmented(ui, rect, "Blend", &options, blend) {
        cx.send(Command::SetBlend(v));
    }
    let rect = kit::form_row(ui, "Layout", LABEL);
    let options = [
        (Layout::Monai, "MONAI"),
        (Layout::Nnunet, "nnU-Net"),
        (Layout::Aligned, "Aligned"),
    ];
    if let Some(v) = kit::segmented(ui, rect, "Layout", &options, layout) {
        cx.send(Command::SetLayout(v));
    }
    let rect = kit::form_row(ui, "Precision", LABEL);
    let options = [
        (Precision::Fp32, "fp32"),
        (Precision::Fp16, "fp16"),
        (Precision::Amp, "AMP"),
    ];
    if let Some(v) = kit::segmented(ui, rect, "Precision", &options, precision) {
        cx.send(Command::SetPrecision(v));
    }
}

/// The most that the arena may take, in GiB: beyond it windows run in tiles.
fn limit(ui: &mut Ui, cx: &mut Cx<'_>) {
    const NAME: &str = "Memory limit in GiB";
    let t = Theme::of(ui.ctx());
    let d = &cx.state.document;
    if d.runtime != Runtime::Voxfit || d.mode != Mode::Inference {
        return;
    }
    let rect = kit::form_row(ui, "Limit, GiB", LABEL);
    let text = match d.memory_limit {
        None => String::new(),
        // Small ones keep a unit of their own, so that no limit reads as 0.00.
        Some(b) if b < Bytes::mib(100) => b.to_string(),
        Some(b) => format!("{:.2}", b.as_gib()),
    };
    let bad = cx.local.limit_wrong.is_some();
    let id = ui.scope_id().with(("edit", NAME));
    if let Some(typed) = kit::edit(ui, rect, NAME, &text, Align::Max, bad) {
        match gib_limit(&typed) {
            Ok(limit) => {
                cx.local.limit_wrong = None;
                cx.send(Command::SetMemoryLimit(limit));
            }
            Err(why) => cx.local.limit_wrong = Some(why),
        }
    }
    let focused = ui.memory(|m| m.has_focus(id));
    if !focused {
        // The field shows the limit in force again.
        cx.local.limit_wrong = None;
    }
    if text.is_empty() && !focused {
        ui.painter().text(
            rect.right_center() - vec2(8.0, 0.0),
            Align2::RIGHT_CENTER,
            "none: whole maps",
            fonts::body(),
            t.secondary,
        );
    }
    if let Some(why) = &cx.local.limit_wrong {
        wrong(ui, why);
    }
}

fn machine(ui: &mut Ui, cx: &mut Cx<'_>) {
    limit(ui, cx);
    let d = &cx.state.document;
    let (stitch, display) = (d.stitch_on, d.display);
    let rect = kit::form_row(ui, "Stitch on", LABEL);
    let options = [(StitchOn::Card, "Card"), (StitchOn::Host, "Host")];
    if let Some(v) = kit::segmented(ui, rect, "Stitch on", &options, stitch) {
        cx.send(Command::SetStitchOn(v));
    }
    let rect = kit::form_row(ui, "Display", LABEL);
    let options = [
        (Display::Headless, "None"),
        (Display::Desktop, "Linux"),
        (Display::Windows, "Windows"),
    ];
    if let Some(v) = kit::segmented(ui, rect, "Display", &options, display) {
        cx.send(Command::SetDisplay(v));
    }
}
