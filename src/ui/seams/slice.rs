//! The slice of the Seams workspace: the seam in focus seen edge on, with a map of values over the picture and its colours beside.

use super::figure;
use crate::app::{Command, SeamMap};
use crate::geometry::Plane;
use crate::report::ink;
use crate::ui::slice_view::{Heat, PlaneMap, SeamLayer};
use crate::ui::theme::Theme;
use crate::ui::{Cx, fonts, kit, review};
use eframe::egui::{self, Align2, Color32, Mesh, Rect, Shape, Stroke, Ui, pos2, vec2};

/// Draws the slice with its heading.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let map = cx.state.view.seam_map;
    let (title, strong) = match map {
        SeamMap::Grid => ("Window grid", ""),
        SeamMap::Cover => ("Coverage", "windows a voxel"),
        SeamMap::Mismatch => ("Raw mismatch", "before blending"),
        SeamMap::Difference => ("Difference", "run less reference"),
        SeamMap::Flicker if cx.state.view.flicker => ("Scores", "reference"),
        SeamMap::Flicker => ("Scores", "run"),
    };
    let narrow = ui.available_width() < 560.0;
    let head = kit::heading(ui, title, if narrow { "" } else { strong }, "");
    let size = vec2(if narrow { 290.0 } else { 344.0 }, 24.0);
    let at = Rect::from_min_size(head.right_top() + vec2(-size.x - 8.0, 2.0), size);
    let options = SeamMap::ALL.map(|m| (m, m.name()));
    if let Some(m) = kit::segmented(ui, at, "Map", &options, map) {
        cx.send(Command::ShowSeamMap(m));
    }
    let area = ui.available_rect_before_wrap().shrink(8.0);
    let Some((extent, affine)) = cx.state.volume_state().map(|v| (v.extent, v.affine)) else {
        kit::caption(ui, "Open a study to see where its windows meet");
        return;
    };
    let across = cx.state.seam_across();
    let plane = Plane::ALL
        .into_iter()
        .find(|p| PlaneMap::new(*p, &affine, extent).across == across)
        .unwrap_or(Plane::Coronal);
    let picture = area.with_max_x(area.right() - 64.0);
    let seam = layer(ui, cx, across);
    let colored = seam.heat.is_some();
    review::seam_slice(ui, picture, plane, seam, cx);
    if colored {
        bar(ui, area, cx);
    }
    if let Some(why) = cx.state.why_no_map().filter(|w| !w.is_empty()) {
        say(ui, picture, &why);
    } else if map == SeamMap::Flicker {
        let t = Theme::of(ui.ctx());
        let at = area.with_min_x(picture.right() + 8.0);
        let (top, font) = (Align2::LEFT_TOP, fonts::caption());
        ui.painter().text(
            at.left_bottom() - vec2(0.0, 34.0),
            top,
            "F held:",
            font.clone(),
            t.secondary,
        );
        ui.painter().text(
            at.left_bottom() - vec2(0.0, 18.0),
            top,
            "reference",
            font,
            t.secondary,
        );
    }
}

fn layer(ui: &Ui, cx: &mut Cx<'_>, across: usize) -> SeamLayer {
    let map = cx.state.view.seam_map;
    let focus = cx.state.seam_in_focus();
    let face = focus.and_then(|r| r.place).map(|p| (p.axis, p.at));
    let spot = focus.filter(|_| cx.state.outcome.is_some()).and_then(|r| {
        let (value, at) = if map == SeamMap::Mismatch {
            let o = cx.state.outcome.as_ref()?;
            let of = |p: &&crate::app::seams::Peak| (p.axis, p.at) == r.id();
            let peak = o.maps.peaks.iter().find(of)?;
            (f64::from(peak.value), peak.loaded)
        } else {
            (r.worst()?, r.peak?)
        };
        let [x, y, z] = at.map(|v| format!("{v:.0}"));
        Some((at, format!("max {} at {x}, {y}, {z}", figure(Some(value)))))
    });
    let picture = cx.state.seams.picture.clone();
    let picture = picture.filter(|p| p.map == map && p.across == across);
    let heat = picture.map(|p| {
        let kept = cx
            .local
            .seams
            .texture
            .take()
            .filter(|(key, _)| *key == p.key);
        let (key, texture) = kept.unwrap_or_else(|| {
            let image = egui::ColorImage::from_rgba_unmultiplied(p.size, &p.rgba);
            let options = egui::TextureOptions::NEAREST;
            (p.key, ui.ctx().load_texture("seam map", image, options))
        });
        let id = texture.id();
        cx.local.seams.texture = Some((key, texture));
        Heat {
            texture: id,
            axes: p.axes,
        }
    });
    SeamLayer {
        heat,
        cover: map == SeamMap::Cover,
        face,
        spot: spot.filter(|_| matches!(map, SeamMap::Mismatch | SeamMap::Difference)),
    }
}

/// The colours beside the slice, with what their ends mean.
fn bar(ui: &Ui, area: Rect, cx: &Cx<'_>) {
    let Some(p) = &cx.state.seams.picture else {
        return;
    };
    let t = Theme::of(ui.ctx());
    let left = area.right() - 58.0;
    let strip = Rect::from_min_max(
        pos2(left, area.top() + 30.0),
        pos2(left + 12.0, area.bottom() - 60.0),
    );
    let score = p.map == SeamMap::Flicker;
    ui.painter().text(
        pos2(left, area.top() + 4.0),
        Align2::LEFT_TOP,
        if score { "score" } else { "logit" },
        fonts::caption(),
        t.secondary,
    );
    let mut mesh = Mesh::default();
    let n: u8 = 32;
    for i in 0..n {
        let share = f64::from(i) / f64::from(n - 1);
        let [r, g, b] = if p.signed {
            ink::diverging(1.0 - 2.0 * share)
        } else {
            ink::inferno(1.0 - share)
        };
        let y = egui::lerp(strip.y_range(), f32::from(i) / f32::from(n));
        let next = egui::lerp(strip.y_range(), f32::from(i + 1) / f32::from(n));
        let part = Rect::from_min_max(pos2(strip.left(), y), pos2(strip.right(), next));
        mesh.add_colored_rect(part, Color32::from_rgb(r, g, b));
    }
    ui.painter().add(Shape::mesh(mesh));
    let scale = f64::from(p.scale);
    let low = if p.signed { -scale } else { 0.0 };
    let end = if score { "" } else { "\u{2265}" };
    for (y, text) in [
        (strip.top(), format!("{end}{}", figure(Some(scale)))),
        (strip.center().y, figure(Some(low.midpoint(scale)))),
        (strip.bottom(), figure(Some(low))),
    ] {
        ui.painter().hline(
            strip.right()..=strip.right() + 4.0,
            y,
            Stroke::new(1.0, t.line_strong),
        );
        ui.painter().text(
            pos2(strip.right() + 6.0, y),
            Align2::LEFT_CENTER,
            text,
            fonts::caption(),
            t.secondary,
        );
    }
}

/// A sentence on the slice: what the map needs.
fn say(ui: &Ui, picture: Rect, text: &str) {
    let wide = (picture.width() - 60.0).max(120.0);
    let galley = ui
        .painter()
        .layout(text.to_owned(), fonts::body(), Color32::WHITE, wide);
    let rect = Rect::from_center_size(
        pos2(picture.center().x, picture.bottom() - 70.0),
        galley.size() + vec2(20.0, 12.0),
    );
    ui.painter()
        .rect_filled(rect, 4, crate::ui::theme::black(0.75));
    ui.painter()
        .galley(rect.min + vec2(10.0, 6.0), galley, Color32::WHITE);
}
