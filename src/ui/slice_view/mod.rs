//! One view of the volume: the picture from the card, overlays, the mouse scheme of a PACS, and a name for screen readers.

mod boxes;
mod map;
mod mouse;
mod overlay;
mod seam;

pub use boxes::BoxMark;
pub use map::{Pane, PlaneMap, Projection};
pub use overlay::WindowGrid;
pub use seam::{Heat, SeamLayer};

use super::gpu::{SlicePaint, SliceUniforms};
use super::kit;
use super::theme::Theme;
use crate::app::{Command, by_command};
use crate::geometry::{Affine, Extent, Plane};
use crate::series::SliceInfo;
use crate::volume::SharedVolume;
use eframe::egui::{self, Rect, Sense, Ui, WidgetInfo, accesskit::Role};

/// How thick slabs are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slab {
    /// One slice.
    #[default]
    None,
    /// Maximum over the slab.
    Maximum,
    /// Mean over the slab.
    Mean,
    /// Minimum over the slab.
    Minimum,
}

impl Slab {
    /// The next one, as the key M goes round.
    pub const fn next(self) -> Self {
        match self {
            Self::None => Self::Maximum,
            Self::Maximum => Self::Mean,
            Self::Mean => Self::Minimum,
            Self::Minimum => Self::None,
        }
    }

    /// A word for the corner text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Maximum => "MIP 10 mm",
            Self::Mean => "mean 10 mm",
            Self::Minimum => "MinIP 10 mm",
        }
    }
}

/// Which overlays are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a tick list is a list of bools"
)]
pub struct Layers {
    /// The picture itself.
    pub image: bool,
    /// Window faces, the active window, overlap, halo.
    pub grid: bool,
    /// Detection boxes.
    pub boxes: bool,
    /// Lines of the other planes.
    pub crosshair: bool,
    /// Text in the corners.
    pub corner_text: bool,
    /// Orientation letters.
    pub letters: bool,
    /// The scale bar.
    pub scale_bar: bool,
}

impl Default for Layers {
    fn default() -> Self {
        Self {
            image: true,
            grid: true,
            boxes: true,
            crosshair: true,
            corner_text: true,
            letters: true,
            scale_bar: true,
        }
    }
}

/// Everything the three views show; the same for all of them.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Scene<'a> {
    /// Size of the volume.
    pub extent: Extent,
    /// Its affine.
    pub affine: &'a Affine,
    /// Its voxels, once all are there.
    pub volume: Option<&'a SharedVolume>,
    /// Crosshair as voxel index, fractional.
    pub crosshair: [f64; 3],
    /// Window level: centre and width.
    pub window: (f32, f32),
    /// Name of the window level's preset, lower case, or empty.
    pub window_name: &'a str,
    /// Light is dark.
    pub invert: bool,
    /// Filter between voxels.
    pub linear: bool,
    /// Slab mode.
    pub slab: Slab,
    /// Overlays.
    pub layers: Layers,
    /// Where windows lie on the loaded volume.
    pub grid: Option<&'a WindowGrid>,
    /// The window that is shown filled.
    pub active_window: Option<usize>,
    /// Boxes of run and reference.
    pub boxes: &'a [BoxMark],
    /// Content greyed because the plan has changed since.
    pub stale: bool,
    /// Top right lines of the axial view.
    pub subject: [String; 2],
    /// Distance between voxels along i, j and k (along the normal) in mm; `None` where no file says it.
    pub spacing_mm: [Option<f64>; 3],
    /// Whether the files say which way rows and columns run.
    pub orientation_known: bool,
    /// The stored image behind each k; empty for a volume that is not made of slices.
    pub slices: &'a [SliceInfo],
    /// Values are HU.
    pub is_hu: bool,
    /// What the Seams workspace lays over the picture.
    pub seam: SeamLayer,
}

/// What the mouse or a key asked for on a view.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceAction {
    /// Put the crosshair here (voxel index).
    Crosshair([f64; 3]),
    /// Move by slices, positive towards larger indices on the across axis.
    Scroll(i64),
    /// Window level by (centre, width) in HU.
    WindowBy(f32, f32),
    /// Window level from the values of a region (voxel indices, two corners).
    AutoLevel([f64; 3], [f64; 3]),
    /// A box was clicked: its row.
    Select(usize),
    /// A box of the reference was clicked: its row.
    SelectReference(usize),
    /// Show this view alone, or all again.
    Maximise,
    /// An entry of the menu under the right button.
    Send(Command),
}

/// The voxel index that a view cuts at.
pub fn slice_index(map: &PlaneMap, crosshair: [f64; 3]) -> usize {
    let n = map.extent[map.across];
    let at = crosshair[map.across]
        .round()
        .clamp(0.0, n.saturating_sub(1) as f64);
    whole(at)
}

/// A non-negative whole number as an index.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to be non-negative; far below 2^53"
)]
pub(crate) const fn whole(x: f64) -> usize {
    if x > 0.0 { x as usize } else { 0 }
}

/// Draws a view in `rect` and returns what was asked for.
pub fn show(
    ui: &Ui,
    rect: Rect,
    plane: Plane,
    scene: &Scene<'_>,
    pane: &mut Pane,
    slot: usize,
) -> Vec<SliceAction> {
    let map = PlaneMap::new(plane, scene.affine, scene.extent);
    let index = slice_index(&map, scene.crosshair);
    let id = ui.scope_id().with(("slice", plane, slot));
    let response = ui.interact(rect, id, Sense::click_and_drag());
    let mut actions = mouse::act(ui, &response, &map, scene, pane, index);
    let theme = Theme::of(ui.ctx());
    menu(&response, plane, &mut actions, &theme);
    let projection = Projection::new(map, rect, pane);
    pane.scale = projection.scale;
    let painter = ui.painter_at(rect);
    painter.rect_filled(rect, 0, egui::Color32::BLACK);
    if scene.layers.image {
        picture(ui, rect, &projection, scene, index, slot);
    }
    seam::under(&painter, &projection, scene);
    overlay::draw(&painter, &projection, scene, index);
    seam::over(&painter, &projection, scene);
    boxes::draw(&painter, &projection, scene, index);
    overlay::corners(&painter, &projection, scene, index, response.hover_pos());
    slider(ui, rect, &map, index, slot, &theme);
    let name = spoken(&map, scene, index);
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, &name));
    if response.has_focus() {
        ui.painter().rect_stroke(
            rect,
            0,
            egui::Stroke::new(1.0, egui::Color32::WHITE),
            egui::StrokeKind::Inside,
        );
    }
    actions
}

/// The menu under the right button: entries of the one table, by their names there.
fn menu(response: &egui::Response, plane: Plane, actions: &mut Vec<SliceAction>, theme: &Theme) {
    let groups = [
        vec![
            Command::ShowLarge(plane),
            Command::ZoomToFit,
            Command::ResetView,
        ],
        vec![Command::Invert, Command::NextSlab, Command::ToggleCine],
        [1, 2, 4, 5, 0].map(Command::WindowLevelPreset).to_vec(),
        vec![Command::ShowSeriesDetails, Command::ScreenshotDialog],
    ];
    egui::Popup::context_menu(response).show(|ui| {
        ui.set_min_width(220.0);
        for (i, group) in groups.into_iter().enumerate() {
            if i > 0 {
                ui.separator();
            }
            for info in group.iter().filter_map(by_command) {
                if ui.add(kit::entry(info, 220.0, theme)).clicked()
                    && let Some(command) = info.command()
                {
                    actions.push(SliceAction::Send(command.clone()));
                    ui.close();
                }
            }
        }
    });
}

/// "Axial, slice 43 of 180, z 64.0 mm superior, lung window, 2 boxes".
fn spoken(map: &PlaneMap, scene: &Scene<'_>, index: usize) -> String {
    let n = boxes::on_slice(map, scene, index).count();
    let window = if scene.window_name.is_empty() {
        format!("window {} level {}", scene.window.1, scene.window.0)
    } else {
        format!("{} window", scene.window_name)
    };
    let stored = overlay::stored(map, scene, index)
        .and_then(|s| s.instance_number)
        .map_or_else(String::new, |n| format!(", instance {n}"));
    format!(
        "{}, slice {} of {}{stored}, {}, {window}, {n} boxes",
        map.plane.name(),
        index + 1,
        map.extent[map.across],
        overlay::position(map, scene, index),
    )
}

fn picture(ui: &Ui, rect: Rect, p: &Projection, scene: &Scene<'_>, index: usize, slot: usize) {
    let ppp = ui.pixels_per_point();
    let origin = p.voxel(rect.min, index as f64);
    let [right, down] = p.step();
    let mm = p.map.spacing[p.map.across];
    let mut slab = [0.0; 4];
    if scene.slab != Slab::None {
        slab[p.map.across] = 1.0;
        slab[3] = overlay::f((5.0 / mm).round().max(1.0));
    }
    let o = origin.map(overlay::f);
    let uniforms = SliceUniforms {
        rect: [rect.min.x * ppp, rect.min.y * ppp, 0.0, mode(scene.slab)],
        origin: [o[0], o[1], o[2], scene.window.0],
        right: [
            right[0] / ppp,
            right[1] / ppp,
            right[2] / ppp,
            scene.window.1,
        ],
        down: [
            down[0] / ppp,
            down[1] / ppp,
            down[2] / ppp,
            f32::from(u8::from(scene.invert)),
        ],
        extent: [0.0, 0.0, 0.0, f32::from(u8::from(scene.linear))],
        slab,
        ..SliceUniforms::default()
    };
    ui.painter_at(rect)
        .add(eframe::egui_wgpu::Callback::new_paint_callback(
            rect,
            SlicePaint { slot, uniforms },
        ));
}

const fn mode(slab: Slab) -> f32 {
    match slab {
        Slab::None => 0.0,
        Slab::Maximum => 1.0,
        Slab::Mean => 2.0,
        Slab::Minimum => 3.0,
    }
}

/// The slice position as a real slider along the right edge: a thumb when hovered, arrow keys when focused.
fn slider(ui: &Ui, rect: Rect, map: &PlaneMap, index: usize, slot: usize, theme: &Theme) {
    let n = map.extent[map.across];
    let strip = Rect::from_min_max(egui::pos2(rect.right() - 8.0, rect.top()), rect.max);
    let id = ui.scope_id().with(("slice slider", map.plane, slot));
    let response = ui.interact(strip, id, Sense::click_and_drag());
    response.widget_info(|| {
        WidgetInfo::slider(
            true,
            (index + 1) as f64,
            format!("{} slice of {n}", map.plane.name()),
        )
    });
    if response.hovered() || response.has_focus() || response.dragged() {
        let t = index as f32 / n.saturating_sub(1).max(1) as f32;
        let y = egui::lerp(rect.top() + 12.0..=rect.bottom() - 12.0, t);
        let thumb = Rect::from_center_size(egui::pos2(strip.center().x, y), egui::vec2(4.0, 24.0));
        ui.painter().rect_filled(thumb, 2, theme.strong);
    }
    // Asked for outside the closure: a response looks into the same lock.
    if response.has_focus() {
        let filter = egui::EventFilter {
            vertical_arrows: true,
            ..Default::default()
        };
        ui.memory_mut(|m| m.set_focus_lock_filter(id, filter));
    }
    let to = mouse::slider_target(ui, &response, strip, n, index);
    if let Some(to) = to {
        ui.data_mut(|d| d.insert_temp(slider_key(map.plane), to));
    }
}

fn slider_key(plane: Plane) -> egui::Id {
    egui::Id::unique(("slice slider target", plane))
}

/// Takes the slice that a view's slider was moved to.
pub fn take_slider(ctx: &egui::Context, plane: Plane) -> Option<usize> {
    ctx.data_mut(|d| d.remove_temp(slider_key(plane)))
}
