//! The window: the only place that knows egui. Draws `app::State`, sends commands, changes nothing by itself.

mod buy;
mod dialogs;
pub mod fonts;
pub mod gpu;
mod keys;
pub mod kit;
mod manifest;
pub mod paint;
mod palette;
mod plan;
mod popups;
mod review;
mod scatter;
mod seams;
mod shell;
pub mod slice_view;
mod study_pages;
pub mod theme;
mod toasts;
mod welcome;

use crate::app::{Command, Effect, SettingsDir, Startup, State, ViewAction, Workspace};
use crate::geometry::Plane;
use crate::jobs::Waker;
use eframe::egui::{self, Rect, Ui, UiBuilder, pos2};
use slice_view::{Pane, Slab, WindowGrid};
use std::collections::HashMap;
use std::sync::Arc;
use theme::{Theme, ThemeKind};

/// Why the window could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UiError {
    /// No display, no graphics driver, or the system refused a window.
    #[error(
        "the window could not be opened ({reason}); on a machine without a display use `voxfit demo --headless --out DIR`"
    )]
    Open {
        /// What the system said.
        reason: String,
    },
}

/// Opens the window and stays until it is closed.
pub fn run(startup: Startup) -> Result<(), UiError> {
    let mut wgpu_options = eframe::egui_wgpu::WgpuConfiguration::default();
    if let eframe::egui_wgpu::WgpuSetup::CreateNew(setup) = &mut wgpu_options.wgpu_setup {
        gpu::raise_limits(setup);
    }
    let options = eframe::NativeOptions {
        viewport: egui::ViewportBuilder::default()
            .with_title("Voxfit")
            .with_app_id("voxfit")
            .with_inner_size([1440.0, 900.0])
            .with_min_inner_size(theme::MIN_WINDOW),
        persist_window: false,
        renderer: eframe::Renderer::Wgpu,
        wgpu_options,
        ..Default::default()
    };
    eframe::run_native(
        "voxfit",
        options,
        Box::new(move |cc| {
            let ctx = cc.egui_ctx.clone();
            let state = State::new(
                SettingsDir::of_user(),
                Waker::new(move || ctx.request_repaint()),
            );
            Ok(Box::new(Window::new(cc, state, &startup)))
        }),
    )
    .map_err(|e| UiError::Open {
        reason: e.to_string(),
    })
}

/// What only the window knows: zoom and position, open fields, textures.
struct Local {
    panes: [Pane; 3],
    active_window: Option<usize>,
    slab: Slab,
    grid: Option<(usize, Arc<WindowGrid>)>,
    thumbnails: HashMap<String, egui::TextureHandle>,
    /// The right panel instead of the slices, at narrow widths.
    right_tab: bool,
    reveal: bool,
    toasts: toasts::Toasts,
    status_hint: &'static str,
    /// Pointer readout of the status bar.
    scale_text: String,
    size_text: String,
    /// Why the memory limit that is being typed cannot be taken.
    limit_wrong: Option<String>,
    draw_problem: Option<String>,
    /// The volume whose yellow strip was closed.
    strip_closed: Option<u64>,
    views: Option<review::ViewTree>,
    charts: Option<plan::Charts>,
    /// The steps of the timeline that are in view.
    span: plan::Span,
    palette: palette::Palette,
    buy: buy::View,
    list: study_pages::List,
    seams: seams::Kept,
    /// When the next slice is due while slices play, in seconds of the window's clock.
    cine_due: f64,
}

impl Local {
    fn new() -> Self {
        Self {
            panes: [Pane::default(); 3],
            active_window: None,
            slab: Slab::None,
            grid: None,
            thumbnails: HashMap::new(),
            right_tab: false,
            reveal: false,
            toasts: toasts::Toasts::default(),
            status_hint: "",
            scale_text: String::new(),
            size_text: "512\u{d7}512\u{d7}192".to_owned(),
            limit_wrong: None,
            draw_problem: None,
            strip_closed: None,
            views: None,
            charts: None,
            span: plan::Span::default(),
            palette: palette::Palette::default(),
            buy: buy::View::default(),
            list: study_pages::List::default(),
            seams: seams::Kept::default(),
            cine_due: 0.0,
        }
    }
}

/// What every panel gets: the state to draw, the window's own bits, and where commands go.
struct Cx<'a> {
    state: &'a State,
    local: &'a mut Local,
    commands: &'a mut Vec<Command>,
}

impl Cx<'_> {
    fn send(&mut self, command: Command) {
        self.commands.push(command);
    }
}

/// The window as an eframe app.
pub struct Window {
    state: State,
    local: Local,
    upload: gpu::Upload,
    dialogs: dialogs::Dialogs,
    picture: Option<dialogs::MaskedPicture>,
}

impl Window {
    /// A window over `state`; sends what the start-up arguments ask for.
    pub fn new(cc: &eframe::CreationContext<'_>, state: State, startup: &Startup) -> Self {
        fonts::install(&cc.egui_ctx);
        Theme::new(kind(state.settings.theme)).apply(&cc.egui_ctx);
        if let Some(render) = &cc.wgpu_render_state {
            gpu::install(render);
        }
        let mut window = Self {
            state,
            local: Local::new(),
            upload: gpu::Upload::default(),
            dialogs: dialogs::Dialogs::default(),
            picture: None,
        };
        for command in window.state.begin(startup) {
            window.send(&cc.egui_ctx, command);
        }
        window
    }

    /// The state that is drawn.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The state, for tests that start from a certain one.
    pub const fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// Applies a command and does what only the window can do.
    pub fn send(&mut self, ctx: &egui::Context, command: Command) {
        for effect in self.state.dispatch(command) {
            self.effect(ctx, effect);
        }
        // What was drawn in this frame is of the state before.
        ctx.request_repaint();
    }

    fn effect(&mut self, ctx: &egui::Context, effect: Effect) {
        match effect {
            Effect::OpenDialog(dialog) => self.dialogs.open(ctx, dialog),
            Effect::Screenshot(path) => {
                self.picture = Some(dialogs::MaskedPicture::new(path));
                ctx.request_repaint();
            }
            Effect::Quit => ctx.send_viewport_cmd(egui::ViewportCommand::Close),
            Effect::View(action) => self.view_action(ctx, action),
            Effect::Start(_) => {}
        }
    }

    fn view_action(&mut self, ctx: &egui::Context, action: ViewAction) {
        let active = pane_of(self.state.view.active);
        let pane = &mut self.local.panes[active];
        match action {
            ViewAction::Reset => self.local.panes = [Pane::default(); 3],
            ViewAction::ZoomIn => pane.zoom = (pane.zoom * 1.25).min(40.0),
            ViewAction::ZoomOut => pane.zoom = (pane.zoom / 1.25).max(0.2),
            ViewAction::ZoomToFit => *pane = Pane::default(),
            ViewAction::NextSlab => self.local.slab = self.local.slab.next(),
            ViewAction::NextPanel => keys::next_panel(ctx),
            ViewAction::FullScreen(on) => {
                ctx.send_viewport_cmd(egui::ViewportCommand::Fullscreen(on));
            }
            ViewAction::RevealSelection => self.local.reveal = true,
        }
    }

    /// Shows the next slice of the active plane when it is due, the first after the last.
    fn play(&mut self, ctx: &egui::Context) {
        const EACH: f64 = 0.1;
        let (true, Some(v)) = (self.state.view.cine, self.state.volume_state()) else {
            return;
        };
        let now = ctx.input(|i| i.time);
        if now >= self.local.cine_due {
            self.local.cine_due = now + EACH;
            let (plane, extent) = (self.state.view.active, v.extent);
            let n = extent.to_array()[plane.across().index()].max(1);
            let next = (self.state.view.slice(plane, extent) + 1) % n;
            self.send(ctx, Command::GoToSlice((plane, next)));
        }
        ctx.request_repaint_after(std::time::Duration::from_secs_f64(EACH));
    }

    /// Brings the card's texture up to date with the volume that is shown.
    fn upload(&mut self, ctx: &egui::Context, frame: &eframe::Frame) {
        let (Some(render), Some(v)) = (frame.wgpu_render_state(), self.state.volume_state()) else {
            return;
        };
        if let Err(e) = self.upload.begin(render, v.generation, v.extent) {
            self.local.draw_problem = Some(e.to_string());
            return;
        }
        self.local.draw_problem = None;
        let (generation, extent) = (v.generation, v.extent);
        for fresh in self.state.take_fresh_slices() {
            if fresh.generation == generation {
                self.upload.slice(render, fresh.k, fresh.values.values());
            }
        }
        let Some(v) = self.state.volume_state() else {
            return;
        };
        let around = self.state.view.slice(Plane::Axial, extent);
        if let Some(volume) = &v.volume
            && self.upload.pending()
            && self.upload.advance(render, volume, around)
        {
            ctx.request_repaint();
        }
    }
}

const fn pane_of(plane: Plane) -> usize {
    match plane {
        Plane::Axial => 0,
        Plane::Coronal => 1,
        Plane::Sagittal => 2,
    }
}

const fn kind(theme: crate::app::Theme) -> ThemeKind {
    match theme {
        crate::app::Theme::Dark => ThemeKind::Dark,
        crate::app::Theme::Light => ThemeKind::Light,
        crate::app::Theme::HighContrast => ThemeKind::HighContrast,
    }
}

impl eframe::App for Window {
    fn logic(&mut self, ctx: &egui::Context, frame: &mut eframe::Frame) {
        if self.state.poll() {
            ctx.request_repaint();
        }
        if let Some(command) = self.dialogs.poll() {
            self.send(ctx, command);
        }
        if let Some(picture) = &mut self.picture
            && picture.step(ctx)
        {
            self.picture = None;
            self.send(ctx, Command::PictureTaken);
        }
        let wanted = kind(self.state.settings.theme);
        if Theme::of(ctx).kind != wanted {
            Theme::new(wanted).apply(ctx);
        }
        let scale = f32::from(self.state.settings.ui_scale) / 100.0;
        if (ctx.zoom_factor() - scale).abs() > 1e-3 {
            ctx.set_zoom_factor(scale);
        }
        self.play(ctx);
        self.upload(ctx, frame);
    }

    fn ui(&mut self, ui: &mut Ui, _frame: &mut eframe::Frame) {
        let mut commands = Vec::new();
        keys::collect(ui, &self.state, &mut commands);
        dialogs::dropped(ui, &mut commands);
        let mut cx = Cx {
            state: &self.state,
            local: &mut self.local,
            commands: &mut commands,
        };
        draw(ui, &mut cx);
        for command in commands {
            self.send(&ui.ctx().clone(), command);
        }
    }
}

fn draw(ui: &mut Ui, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let full = ui.max_rect();
    ui.painter().rect_filled(full, 0, t.bg);
    let top = Rect::from_min_max(
        full.min,
        pos2(full.right(), full.top() + theme::size::TOP_BAR),
    );
    let bottom = Rect::from_min_max(
        pos2(full.left(), full.bottom() - theme::size::STATUS_BAR),
        full.max,
    );
    let content = Rect::from_min_max(
        pos2(full.left(), top.bottom() + 1.0),
        pos2(full.right(), bottom.top() - 1.0),
    );
    shell::top_bar(ui, top, cx);
    let empty = cx.state.study.is_none();
    match cx.state.view.workspace {
        Workspace::Review if empty => welcome::show(ui, content, cx),
        Workspace::Review => review::show(ui, content, cx),
        Workspace::Plan => plan::show(ui, content, cx),
        Workspace::Seams => seams::show(ui, content, cx),
        Workspace::Buy => buy::show(ui, content, cx),
    }
    shell::status_bar(ui, bottom, cx);
    toasts::show(ui, content, cx);
    popups::show(ui, cx);
}

/// A dock: filled with the panel colour, its content clipped, rows without gaps.
fn panel<R>(ui: &mut Ui, rect: Rect, name: &str, add: impl FnOnce(&mut Ui) -> R) -> R {
    let t = Theme::of(ui.ctx());
    ui.painter().rect_filled(rect, 0, t.panel);
    let builder = UiBuilder::new()
        .id_salt(name)
        .max_rect(rect)
        .accessibility_role(egui::accesskit::Role::Pane)
        .accessibility_label(name);
    ui.scope_builder(builder, |ui| {
        ui.spacing_mut().item_spacing = egui::vec2(0.0, 0.0);
        ui.shrink_clip_rect(rect);
        add(ui)
    })
    .inner
}
