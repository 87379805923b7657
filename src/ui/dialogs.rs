//! File dialogs off the drawing thread, one at a time; dropped files; pictures of the window.

use crate::app::{Command, Dialog};
use crate::jobs::{Job, Waker, spawn};
use eframe::egui::{self, Ui};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// No person closes a dialog as soon as this: none was shown.
const TOO_SOON: Duration = Duration::from_millis(700);

/// Whether dialogs are there even without the desktop's portal. Where that fails too, rfd only logs it and answers as if cancelled.
fn has_dialogs() -> bool {
    !cfg!(target_os = "linux")
        || std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path).any(|folder| folder.join("zenity").is_file())
        })
}

/// The dialog that is open.
#[derive(Default)]
pub(super) struct Dialogs {
    open: Option<Job<Option<Command>>>,
}

impl Dialogs {
    /// Shows a dialog unless one is open already.
    pub(super) fn open(&mut self, ctx: &egui::Context, dialog: Dialog) {
        if self.open.is_some() {
            return;
        }
        let ctx = ctx.clone();
        let wake = Waker::new(move || ctx.request_repaint());
        self.open = spawn("dialog", wake, move |_, out| {
            let asked = Instant::now();
            let answer = match ask(&dialog) {
                Some(path) => Some(dialog.answer(path)),
                None if asked.elapsed() < TOO_SOON && !has_dialogs() => Some(Command::NoDialog),
                None => None,
            };
            let _closed = out.send(answer);
        })
        .ok();
    }

    /// The answer of the open dialog, once there is one.
    pub(super) fn poll(&mut self) -> Option<Command> {
        use std::sync::mpsc::TryRecvError;
        match self.open.as_ref()?.poll() {
            Ok(answer) => {
                self.open = None;
                answer
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                self.open = None;
                None
            }
        }
    }
}

fn write_png(path: &std::path::Path, image: &egui::ColorImage) -> Result<(), String> {
    let mut bytes = Vec::new();
    let [w, h] = image.size;
    let mut encoder = png::Encoder::new(&mut bytes, super::gpu::u32_of(w), super::gpu::u32_of(h));
    encoder.set_color(png::ColorType::Rgba);
    let mut writer = encoder.write_header().map_err(|e| e.to_string())?;
    writer
        .write_image_data(bytemuck::cast_slice(&image.pixels))
        .map_err(|e| e.to_string())?;
    drop(writer);
    crate::app::files::write_whole("picture", path, &bytes)
}

fn ask(dialog: &Dialog) -> Option<PathBuf> {
    let mut window = rfd::AsyncFileDialog::new();
    if let Some((name, ending)) = dialog.suggestion() {
        window = window.set_file_name(name).add_filter(ending, &[ending]);
    }
    if let Some(folder) = dialog.folder() {
        window = window.set_directory(folder);
    }
    let handle = match dialog {
        Dialog::OpenFolder => pollster(window.pick_folder()),
        Dialog::OpenFile | Dialog::OpenNetwork | Dialog::OpenWeights | Dialog::OpenReference => {
            pollster(window.pick_file())
        }
        _ => pollster(window.save_file()),
    };
    handle.map(|h| h.path().to_path_buf())
}

/// Waits for a future on this thread, which is the dialog's own.
fn pollster<T>(future: impl Future<Output = T>) -> T {
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake};
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Files and folders dropped anywhere on the window.
pub(super) fn dropped(ui: &Ui, out: &mut Vec<Command>) {
    let paths: Vec<PathBuf> = ui.input(|i| {
        i.raw
            .dropped_files
            .iter()
            .map(|f| f.path().to_path_buf())
            .collect()
    });
    out.extend(paths.into_iter().map(Command::Open));
}

/// A picture of the window with names masked: a few frames pass masked before it is taken and after, then names come back
/// if they were shown.
pub(super) struct MaskedPicture {
    path: PathBuf,
    frame: u8,
}

impl MaskedPicture {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path, frame: 0 }
    }

    /// One frame more; true once the picture is taken and names may come back.
    pub(super) fn step(&mut self, ctx: &egui::Context) -> bool {
        self.frame += 1;
        if self.frame == 3 {
            screenshot(ctx, self.path.clone());
        }
        ctx.request_repaint();
        self.frame >= 6
    }
}

/// Takes a picture of this frame and writes it on a thread of its own.
fn screenshot(ctx: &egui::Context, path: PathBuf) {
    let done = egui::ScreenshotCallback::new(move |image: std::sync::Arc<egui::ColorImage>| {
        let job = spawn(
            "write picture",
            Waker::default(),
            move |_, _: &crate::jobs::Outbox<()>| {
                if let Err(e) = write_png(&path, &image) {
                    tracing::error!("the picture was not written ({e}): {}", path.display());
                }
            },
        );
        drop(job);
    });
    ctx.send_viewport_cmd(egui::ViewportCommand::Screenshot(done));
}
