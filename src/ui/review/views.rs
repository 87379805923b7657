//! The four views of the Review workspace as resizable tiles: three planes and what stands beside them.

use super::fourth;
use crate::app::{Command, Layer, State, WindowLevel, findings};
use crate::geometry::{Affine, Plane};
use crate::ui::slice_view::{
    self, BoxMark, Layers, PlaneMap, Scene, SeamLayer, SliceAction, WindowGrid,
};
use crate::ui::theme::{Theme, hue};
use crate::ui::{Cx, Local, fonts, kit, paint, pane_of};
use crate::volume::SharedVolume;
use eframe::egui::{self, Align2, Rect, Stroke, Ui, pos2, vec2};
use egui_tiles::{Behavior, Tile, TileId, Tiles, Tree, UiResponse};

/// Window level presets by key, as the window names them.
pub(super) const PRESETS: [(u8, &str); 8] = [
    (1, "Soft tissue"),
    (2, "Lung"),
    (3, "Liver"),
    (4, "Bone"),
    (5, "Brain"),
    (6, "Mediastinum"),
    (7, "Full range"),
    (0, "As stored"),
];

/// The preset whose figures are in force, and its key.
pub(super) fn preset_name(state: &State) -> (&'static str, &'static str) {
    let now = state.window_level();
    for (level, name, key) in [
        ((400.0, 40.0), "Soft tissue", "1"),
        ((1500.0, -600.0), "Lung", "2"),
        ((150.0, 90.0), "Liver", "3"),
        ((2500.0, 480.0), "Bone", "4"),
        ((80.0, 40.0), "Brain", "5"),
        ((350.0, 50.0), "Mediastinum", "6"),
    ] {
        if (now.width, now.center) == level {
            return (name, key);
        }
    }
    if state.document.window_level.is_none() {
        ("As stored", "0")
    } else {
        ("Own", "")
    }
}

/// A tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ui) enum View {
    Slice(Plane),
    Beside,
}

const VIEWS: [View; 4] = [
    View::Slice(Plane::Axial),
    View::Slice(Plane::Coronal),
    View::Slice(Plane::Sagittal),
    View::Beside,
];

fn tree() -> Tree<View> {
    let mut tiles = Tiles::default();
    let panes: Vec<TileId> = VIEWS.iter().map(|&v| tiles.insert_pane(v)).collect();
    let (top, bottom) = panes.split_at(2);
    let top = tiles.insert_horizontal_tile(top.to_vec());
    let bottom = tiles.insert_horizontal_tile(bottom.to_vec());
    let root = tiles.insert_vertical_tile(vec![top, bottom]);
    Tree::new(egui::Id::unique("review tiles"), root, tiles)
}

/// Draws the views in `rect`.
pub(super) fn show(ui: &mut Ui, rect: Rect, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    ui.painter().rect_filled(rect, 0, t.bg);
    let Some(v) = cx.state.volume_state() else {
        nothing_yet(ui, rect, cx, &t);
        return;
    };
    let rect = strip(ui, rect, cx, &t);
    let (volume, affine) = (v.volume.clone(), v.affine);
    let boxes = marks(cx.state);
    let grid = cx.local.grid.clone();
    let window = cx.state.window_level();
    let (name, _) = preset_name(cx.state);
    let name = name.to_lowercase();
    let scene = scene(
        cx.state,
        cx.local,
        volume.as_ref(),
        &affine,
        grid.as_ref().map(|g| g.1.as_ref()),
        &boxes,
        &name,
    );
    let mut actions = Vec::new();
    if let Some(plane) = cx.state.view.large {
        let pane = &mut cx.local.panes[pane_of(plane)];
        for a in slice_view::show(ui, rect, plane, &scene, pane, pane_of(plane)) {
            actions.push((plane, a));
        }
    } else {
        let mut kept = cx.local.views.take().unwrap_or_else(tree);
        let builder = egui::UiBuilder::new().id_salt("views").max_rect(rect);
        ui.scope_builder(builder, |ui| {
            ui.set_clip_rect(rect);
            let mut behavior = Views {
                cx: &mut *cx,
                scene: &scene,
                actions: &mut actions,
            };
            kept.ui(&mut behavior, ui);
        });
        cx.local.views = Some(kept);
    }
    let pane = &cx.local.panes[pane_of(cx.state.view.active)];
    cx.local.scale_text = format!("Zoom {:.2} px/mm", pane.scale);
    for plane in Plane::ALL {
        if let Some(k) = slice_view::take_slider(ui.ctx(), plane) {
            cx.send(Command::GoToSlice((plane, k)));
        }
    }
    for (plane, action) in actions {
        act(cx, plane, action, window);
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "the parts of a scene live in different places"
)]
fn scene<'a>(
    state: &'a State,
    local: &Local,
    volume: Option<&'a SharedVolume>,
    affine: &'a Affine,
    grid: Option<&'a WindowGrid>,
    boxes: &'a [BoxMark],
    window_name: &'a str,
) -> Scene<'a> {
    let view = &state.view;
    let level = state.window_level();
    let hidden = view.overlays_hidden;
    let shows = |l| view.draws(l);
    let item = state.study.as_ref().and_then(|s| s.selected());
    let subject = match (item, state.identity_masked()) {
        (Some(i), true) => format!("{} (masked)", i.subject),
        (Some(i), false) => i.patient_name.clone().unwrap_or_else(|| i.subject.clone()),
        (None, _) => String::new(),
    };
    // On a straight grid no slice is a stored one.
    let stored = item.filter(|_| state.volume_state().is_none_or(|v| !v.straight_grid));
    Scene {
        extent: state
            .volume_state()
            .map_or_else(Default::default, |v| v.extent),
        affine,
        volume,
        crosshair: view.crosshair,
        window: (level.center, level.width),
        window_name,
        invert: view.invert,
        linear: true,
        slab: local.slab,
        layers: Layers {
            image: shows(Layer::Image),
            grid: shows(Layer::Grid),
            boxes: shows(Layer::Boxes) || shows(Layer::ReferenceBoxes),
            crosshair: shows(Layer::Crosshair),
            corner_text: shows(Layer::CornerText) && !hidden,
            letters: shows(Layer::Letters) && !hidden,
            scale_bar: shows(Layer::ScaleBar) && !hidden,
        },
        grid,
        active_window: local.active_window,
        boxes,
        stale: !state.stale().is_empty(),
        subject: [
            subject,
            item.map(|i| i.description.clone())
                .filter(|d| item.is_some_and(|i| i.subject != *d))
                .unwrap_or_default(),
        ],
        spacing_mm: stored.map_or_else(|| affine.spacing_mm().map(Some), |i| i.spacing_mm),
        orientation_known: item.is_none_or(|i| i.details.orientation_known),
        slices: stored.map_or(&[][..], |i| &i.details.slices),
        is_hu: volume.is_none_or(|v| v.is_hu),
        seam: SeamLayer::default(),
    }
}

/// Boxes of the detections that the list shows, with the list's row numbers, and those of the reference.
/// While the reference is shown in the run's place, its boxes alone.
fn marks(state: &State) -> Vec<BoxMark> {
    let mut marks = reference(state);
    if !state.view.flicker && state.view.draws(Layer::Boxes) {
        marks.extend(own(state));
    }
    marks
}

/// Boxes of the reference; those that the run has not say so.
fn reference(state: &State) -> Vec<BoxMark> {
    let shown = state.view.draws(Layer::ReferenceBoxes) || state.view.flicker;
    let Some(m) = state.seams.matching().filter(|_| shown) else {
        return Vec::new();
    };
    let missing: std::collections::BTreeSet<usize> = m.missing().map(|(i, _)| i).collect();
    let list = m.reference.iter().enumerate();
    list.filter_map(|(i, (at, score))| {
        let score = score.map_or_else(String::new, |s| short_score(paint::f(s)));
        let tag = match (missing.contains(&i), state.view.flicker) {
            (true, false) => format!("ref {score} missing"),
            (_, true) => format!("ref {score}"),
            (false, false) => String::new(),
        };
        Some(BoxMark {
            at: (*at)?,
            row: i,
            tag,
            reference: true,
            selected: state.view.selected_reference == Some(i),
        })
    })
    .collect()
}

fn own(state: &State) -> impl Iterator<Item = BoxMark> + '_ {
    state
        .detections()
        .enumerate()
        .map(|(row, (place, d))| BoxMark {
            at: d.box_in_volume,
            row: place,
            tag: format!("{} {}", row + 1, short_score(d.score)),
            reference: false,
            selected: state.view.selected == Some(place),
        })
}

/// ".86" for 0.86, "1.0" for 1.
fn short_score(score: f32) -> String {
    let text = format!("{score:.2}");
    text.strip_prefix('0')
        .map_or_else(|| "1.0".to_owned(), str::to_owned)
}

fn act(cx: &mut Cx<'_>, plane: Plane, action: SliceAction, window: WindowLevel) {
    if cx.state.view.active != plane {
        cx.send(Command::Activate(plane));
    }
    match action {
        SliceAction::Crosshair(at) => cx.send(Command::SetCrosshair(at)),
        SliceAction::Scroll(by) => cx.send(Command::ScrollPlane((plane, by))),
        SliceAction::WindowBy(center, width) => cx.send(Command::SetWindowLevel(WindowLevel {
            center: window.center + center,
            width: (window.width + width).max(WindowLevel::NARROWEST),
        })),
        SliceAction::AutoLevel(a, b) => {
            if let Some(level) = level_of(cx.state, a, b) {
                cx.send(Command::SetWindowLevel(level));
            }
        }
        SliceAction::Select(row) => cx.send(Command::SelectDetection(row)),
        SliceAction::SelectReference(row) => cx.send(Command::SelectReference(row)),
        SliceAction::Maximise => cx.send(Command::ShowLarge(plane)),
        SliceAction::Send(command) => cx.send(command),
    }
}

/// The window level that spans the middle 98 % of a region's values.
fn level_of(state: &State, a: [f64; 3], b: [f64; 3]) -> Option<WindowLevel> {
    let volume = state.volume_state()?.volume.as_ref()?;
    let size = volume.extent.to_array();
    let span = |axis: usize| {
        let low = slice_view::whole(a[axis].min(b[axis]).round());
        let high = slice_view::whole(a[axis].max(b[axis]).round());
        low..=high.min(size[axis].saturating_sub(1))
    };
    let mut values = Vec::new();
    for k in span(2) {
        for j in span(1) {
            for i in span(0) {
                values.extend(volume.at([i, j, k]));
            }
        }
    }
    values.sort_by(f32::total_cmp);
    let at = |percent: usize| values.get(values.len() * percent / 100).copied();
    let (low, high) = (at(1)?, at(99).or_else(|| values.last().copied())?);
    Some(WindowLevel {
        center: f32::midpoint(low, high),
        width: (high - low).max(WindowLevel::NARROWEST),
    })
}

/// While files are looked through, or when nothing can be shown: what happens and what to do.
fn nothing_yet(ui: &mut Ui, rect: Rect, cx: &mut Cx<'_>, t: &Theme) {
    ui.painter().rect_filled(rect, 0, egui::Color32::BLACK);
    let scanning = cx.state.study.as_ref().is_some_and(|s| s.scanning);
    let refused = cx.state.study.as_ref().and_then(|s| s.refused.clone());
    if let (false, Some(why)) = (scanning, refused) {
        cannot_show(ui, rect, &why, cx);
        return;
    }
    let text = if scanning {
        "Looking through files\u{2026}"
    } else if cx.state.study.is_some() {
        "Choose a series at the left"
    } else {
        "Open a folder, or try the demo"
    };
    kit::text_in(
        ui,
        rect,
        Align2::CENTER_CENTER,
        text,
        fonts::body(),
        t.secondary,
    );
}

/// Why the chosen series cannot be shown, in a sentence, and what to do.
fn cannot_show(ui: &mut Ui, rect: Rect, why: &str, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let width = rect.width().min(620.0) - 48.0;
    let card = Rect::from_center_size(rect.center(), vec2(width + 48.0, 150.0));
    ui.painter().rect_filled(card, 4, t.raised);
    ui.painter()
        .rect_filled(card.with_max_x(card.left() + 3.0), 0, t.over);
    let inner = card.shrink2(vec2(24.0, 16.0));
    let mut child = ui.new_child(egui::UiBuilder::new().id_salt("refused").max_rect(inner));
    let words = |text: &str, font, color| {
        egui::Label::new(egui::RichText::new(text).font(font).color(color)).wrap()
    };
    child.add(words(
        "This series cannot be shown",
        fonts::title(),
        t.strong,
    ));
    egui::ScrollArea::vertical()
        .id_salt("why")
        .max_height(66.0)
        .show(&mut child, |ui| ui.add(words(why, fonts::body(), t.text)));
    for (i, (name, command)) in [
        ("Show list", Command::ShowWarnings),
        ("Series details", Command::ShowSeriesDetails),
    ]
    .into_iter()
    .enumerate()
    {
        let at = Rect::from_min_size(
            pos2(inner.left() + i as f32 * 136.0, inner.bottom() - 28.0),
            vec2(128.0, 28.0),
        );
        if kit::button(ui, at, name, kit::Look::Plain, None).clicked() {
            cx.send(command);
        }
    }
}

/// The yellow strip of an odd series, or what stands in the way of drawing; returns what is left of `rect`.
fn strip(ui: &mut Ui, rect: Rect, cx: &mut Cx<'_>, t: &Theme) -> Rect {
    let Some(v) = cx.state.volume_state() else {
        return rect;
    };
    let skipped = cx.state.study.as_ref().map_or(0, |s| s.skipped.len());
    let mut text = String::new();
    if let Some(problem) = &cx.local.draw_problem {
        text.clone_from(problem);
    } else if v.is_loading() {
        loading(ui, rect, v.decoded, v.extent.z, skipped, t);
        return rect.with_min_y(rect.top() + 32.0);
    } else if let Some(study) = &cx.state.study {
        text = findings::strip(study);
    }
    if text.is_empty() || cx.local.strip_closed == Some(v.generation) {
        return rect;
    }
    let generation = v.generation;
    let bar = rect.with_max_y(rect.top() + 32.0);
    let (dark, yellow) = (hue::ON_STRIP, hue::STRIP);
    ui.painter().rect_filled(bar, 0, yellow);
    paint::mark(
        ui.painter(),
        bar.left_center() + vec2(18.0, 0.0),
        12.0,
        paint::Mark::Triangle,
        dark,
    );
    let straight = v.straight_grid;
    let offer = cx
        .state
        .study
        .as_ref()
        .and_then(|s| s.selected())
        .is_some_and(|i| i.straightens);
    let grid = if straight {
        "Show as stored"
    } else {
        "Resample to a straight grid"
    };
    let mut buttons = vec![
        ("Close the strip", "\u{d7}", 24.0),
        ("Show list", "Show list", 84.0),
    ];
    if offer {
        buttons.push((grid, grid, if straight { 124.0 } else { 204.0 }));
    }
    let mut right = bar.right() - 8.0;
    for (name, shown, width) in buttons {
        let at = Rect::from_min_size(pos2(right - width, bar.top() + 4.0), vec2(width, 24.0));
        right = at.left() - 8.0;
        if !strip_button(ui, at, name, shown, dark) {
            continue;
        }
        match name {
            "Show list" => cx.send(Command::ShowWarnings),
            "Close the strip" => cx.local.strip_closed = Some(generation),
            _ => cx.send(Command::SetStraightGrid(!straight)),
        }
    }
    let room = bar.with_min_x(bar.left() + 36.0).with_max_x(right);
    kit::text_in(
        ui,
        room,
        Align2::LEFT_CENTER,
        &text,
        fonts::body_bold(),
        dark,
    );
    rect.with_min_y(bar.bottom())
}

/// A button with a dark outline on the yellow strip (the cross has none); true when it was clicked.
fn strip_button(ui: &Ui, at: Rect, name: &str, shown: &str, dark: egui::Color32) -> bool {
    let response = ui.interact(at, ui.scope_id().with(name), egui::Sense::click());
    if response.hovered() {
        ui.painter().rect_filled(at, 4, dark.gamma_multiply(0.15));
    }
    if name == shown {
        let wide = if response.has_focus() { 2.0 } else { 1.0 };
        ui.painter()
            .rect_stroke(at, 4, Stroke::new(wide, dark), egui::StrokeKind::Inside);
    }
    ui.painter().text(
        at.center(),
        Align2::CENTER_CENTER,
        shown,
        fonts::body(),
        dark,
    );
    response.widget_info(|| egui::WidgetInfo::labeled(egui::accesskit::Role::Button, true, name));
    response.clicked()
}

fn loading(ui: &mut Ui, rect: Rect, done: usize, total: usize, skipped: usize, t: &Theme) {
    let bar = rect.with_max_y(rect.top() + 32.0);
    ui.painter().rect_filled(bar, 0, t.panel);
    let share = done as f32 / total.max(1) as f32;
    let track = Rect::from_min_max(pos2(bar.left(), bar.bottom() - 3.0), bar.max);
    ui.painter().rect_filled(track, 0, t.line);
    ui.painter().rect_filled(
        track.with_max_x(track.left() + track.width() * share),
        0,
        t.strong,
    );
    let mut text = format!("Loading \u{b7} {done} / {total} slices");
    if skipped > 0 {
        text = format!("{text}, {skipped} skipped");
    }
    let room = bar.shrink2(vec2(12.0, 0.0));
    kit::text_in(ui, room, Align2::LEFT_CENTER, &text, fonts::body(), t.text);
}

struct Views<'a, 'b, 'c> {
    cx: &'a mut Cx<'b>,
    scene: &'a Scene<'c>,
    actions: &'a mut Vec<(Plane, SliceAction)>,
}

impl Behavior<View> for Views<'_, '_, '_> {
    fn pane_ui(&mut self, ui: &mut Ui, _id: TileId, view: &mut View) -> UiResponse {
        let rect = ui.max_rect();
        match view {
            View::Slice(plane) => {
                let slot = pane_of(*plane);
                let pane = &mut self.cx.local.panes[slot];
                for a in slice_view::show(ui, rect, *plane, self.scene, pane, slot) {
                    self.actions.push((*plane, a));
                }
            }
            View::Beside => fourth::show(ui, rect, self.cx),
        }
        UiResponse::None
    }

    fn tab_title_for_pane(&mut self, view: &View) -> egui::WidgetText {
        match view {
            View::Slice(plane) => plane.name().into(),
            View::Beside => "Windows".into(),
        }
    }

    fn gap_width(&self, _style: &egui::Style) -> f32 {
        2.0
    }

    fn is_tile_draggable(&self, _tiles: &Tiles<View>, _id: TileId) -> bool {
        false
    }

    fn simplification_options(&self) -> egui_tiles::SimplificationOptions {
        egui_tiles::SimplificationOptions::OFF
    }

    fn tab_title_for_tile(&mut self, tiles: &Tiles<View>, id: TileId) -> egui::WidgetText {
        match tiles.get(id) {
            Some(Tile::Pane(view)) => self.tab_title_for_pane(&view.clone()),
            _ => "Views".into(),
        }
    }
}

/// One small plane without tools: scrolls and sets the crosshair.
pub(super) fn small(
    ui: &Ui,
    rect: Rect,
    plane: Plane,
    slot: usize,
    seam: SeamLayer,
    cx: &mut Cx<'_>,
) {
    let Some(v) = cx.state.volume_state() else {
        return;
    };
    let (volume, affine) = (v.volume.clone(), v.affine);
    let boxes = marks(cx.state);
    let grid = cx.local.grid.clone();
    let mut scene = scene(
        cx.state,
        cx.local,
        volume.as_ref(),
        &affine,
        grid.as_ref().map(|g| g.1.as_ref()),
        &boxes,
        "",
    );
    scene.layers.corner_text = false;
    scene.layers.scale_bar = slot == SEAM_SLOT;
    scene.seam = seam;
    scene.layers.scale_bar |= plane == Plane::Axial;
    let map = PlaneMap::new(plane, &affine, scene.extent);
    let index = slice_view::slice_index(&map, scene.crosshair);
    let mut pane = slice_view::Pane::default();
    let actions = slice_view::show(ui, rect, plane, &scene, &mut pane, slot);
    let text = format!("{} {}", plane.name().to_uppercase(), index + 1);
    paint::tag(
        ui.painter(),
        rect.min + vec2(4.0, 4.0),
        &text,
        crate::ui::theme::plane_color(plane),
    );
    for action in actions {
        match action {
            SliceAction::Crosshair(at) => cx.send(Command::SetCrosshair(at)),
            SliceAction::Scroll(by) => cx.send(Command::ScrollPlane((plane, by))),
            SliceAction::Select(row) => cx.send(Command::SelectDetection(row)),
            SliceAction::SelectReference(row) => cx.send(Command::SelectReference(row)),
            _ => {}
        }
    }
}

/// The view of the Seams workspace.
const SEAM_SLOT: usize = 7;
