//! Pictures of every workspace at 1440x900 and 1024x700, for people to look at: `target/pictures`.

#![expect(clippy::unwrap_used, reason = "a test may stop at once")]

mod common;

use egui_kittest::Harness;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use voxfit::app::{Command, SettingsDir, Startup, State, Workspace};
use voxfit::jobs::Waker;
use voxfit::ui::Window;

const SIZES: [[f32; 2]; 2] = [[1440.0, 900.0], [1024.0, 700.0]];

fn folder() -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/pictures");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn window() -> Harness<'static, Window> {
    Harness::builder()
        .with_size(SIZES[0])
        .with_max_steps(64)
        .wgpu()
        .build_eframe(|cc| {
            let state = State::new(SettingsDir::none(), Waker::default());
            Window::new(cc, state, &Startup::default())
        })
}

fn send(h: &mut Harness<'_, Window>, command: Command) {
    let ctx = h.ctx.clone();
    h.state_mut().send(&ctx, command);
}

/// Steps until `done`, at most five minutes.
fn wait(h: &mut Harness<'_, Window>, what: &str, done: impl Fn(&State) -> bool) {
    let start = Instant::now();
    while !done(h.state().state()) {
        assert!(
            start.elapsed() < Duration::from_mins(5),
            "{what} did not end: {:?}",
            h.state().state().messages
        );
        std::thread::sleep(Duration::from_millis(20));
        h.step();
    }
    for _ in 0..80 {
        h.step();
    }
}

/// Holds a small part of the window against its picture in `tests/snapshots` (made anew with `UPDATE_SNAPSHOTS=1`).
fn hold(h: &mut Harness<'_, Window>, name: &str, [x, y, w, height]: [u32; 4]) {
    let whole = h.render().unwrap();
    let part = image::imageops::crop_imm(&whole, x, y, w, height).to_image();
    let options = egui_kittest::SnapshotOptions::new()
        .threshold(2.0)
        .max_failed_pixels(64);
    egui_kittest::image_snapshot_options(&part, name, &options);
}

fn save(h: &mut Harness<'_, Window>, name: &str) {
    for size in SIZES {
        h.set_size(size.into());
        for _ in 0..4 {
            h.step();
        }
        let picture = h.render().unwrap();
        let at = folder().join(format!("{name}-{}x{}.png", size[0], size[1]));
        picture.save(at).unwrap();
    }
    h.set_size(SIZES[0].into());
    h.step();
}

#[test]
fn every_workspace_is_drawn() {
    let mut h = window();
    h.step();
    save(&mut h, "welcome");
    hold(&mut h, "welcome-ways", [232, 200, 260, 220]);
    send(&mut h, Command::TryDemo);
    wait(&mut h, "loading the demo", |s| {
        s.volume_state().is_some_and(|v| !v.is_loading()) && s.derived.budget().is_some()
    });
    send(&mut h, Command::WindowLevelPreset(2));
    for w in Workspace::ALL {
        send(&mut h, Command::ShowWorkspace(w));
        wait(&mut h, w.name(), |_| true);
        save(&mut h, &format!("planned-{}", w.name().to_lowercase()));
    }
    send(&mut h, Command::ShowWorkspace(Workspace::Review));
    send(&mut h, Command::Run);
    wait(&mut h, "the first windows", |s| {
        s.run.as_ref().is_none_or(|r| r.done > 1)
    });
    save(&mut h, "running");
    wait(&mut h, "the run", |s| s.run.is_none());
    send(&mut h, Command::NextDetection);
    wait(&mut h, "the jump", |_| true);
    save(&mut h, "review");
    send(&mut h, Command::ShowWorkspace(Workspace::Plan));
    wait(&mut h, "the plan after the run", |s| {
        s.derived.surface.is_some()
    });
    save(&mut h, "ran-plan");
    send(&mut h, Command::ShowWorkspace(Workspace::Review));
    wait(&mut h, "the slices again", |_| true);
    hold(&mut h, "review-axial", [185, 38, 240, 220]);
    send(
        &mut h,
        Command::SetNetwork("preset:monai-lung-nodule".to_owned()),
    );
    send(
        &mut h,
        Command::SetRuntime(voxfit::app::document::Runtime::Pytorch),
    );
    send(&mut h, Command::SetRoi([512, 512, 192]));
    send(&mut h, Command::ShowWorkspace(Workspace::Plan));
    wait(&mut h, "the budget", |s| {
        s.network.info().is_some() && !s.derived.budget_pending && s.derived.surface.is_some()
    });
    save(&mut h, "plan");
    hold(&mut h, "plan-bars", [290, 64, 420, 160]);
    send(&mut h, Command::ShowCalibration);
    for (points, name) in [
        ("192=44 GiB, 100=22 GiB, 64=10.59 GiB", "calibrate-refused"),
        ("1=6.1 GiB, 2=9.9 GiB, 3=13.6 GiB, 4=18 GiB", "calibrate"),
    ] {
        send(&mut h, Command::SetPoints(points.to_owned()));
        wait(&mut h, name, |_| true);
        save(&mut h, name);
    }
    send(&mut h, Command::Escape);
    send(&mut h, Command::ShowLayers);
    wait(&mut h, "the layers", |s| !s.derived.layer_lines.is_empty());
    save(&mut h, "layers");
    send(&mut h, Command::ShowLayers);
    for (theme, name) in [
        (voxfit::app::Theme::Light, "light"),
        (voxfit::app::Theme::HighContrast, "contrast"),
    ] {
        send(&mut h, Command::SetTheme(theme));
        for w in Workspace::ALL {
            send(&mut h, Command::ShowWorkspace(w));
            wait(&mut h, w.name(), |_| true);
            save(&mut h, &format!("{name}-{}", w.name().to_lowercase()));
        }
        send(&mut h, Command::ShowSettings);
        wait(&mut h, name, |_| true);
        save(&mut h, &format!("{name}-settings"));
        send(&mut h, Command::Escape);
    }
    send(&mut h, Command::SetTheme(voxfit::app::Theme::Dark));
    send(&mut h, Command::ShowWorkspace(Workspace::Plan));
    for (popup, name) in [
        (Command::ShowPalette, "palette"),
        (Command::ShowKeys, "keys"),
        (Command::ShowJobs, "jobs"),
        (Command::ShowSettings, "settings"),
        (Command::ShowWarnings, "list"),
        (Command::ShowSeriesDetails, "details"),
    ] {
        send(&mut h, popup);
        wait(&mut h, name, |_| true);
        save(&mut h, name);
        send(&mut h, Command::Escape);
    }
    // The tour closes the study.
    send(
        &mut h,
        Command::StartTour(voxfit::app::tour::Tour::Detector),
    );
    wait(&mut h, "the tour", |s| {
        s.derived.surface.is_some() && s.told().is_some_and(|t| !t.text.is_empty())
    });
    save(&mut h, "tour");
    send(&mut h, Command::EndTour);
}

#[test]
fn a_proposed_manifest_is_drawn() {
    let folder = common::untold_bundle().unwrap();
    let mut h = window();
    h.step();
    send(
        &mut h,
        Command::OpenStudy("phantom:128x128x64:3".to_owned()),
    );
    wait(&mut h, "loading", |s| {
        s.volume_state().is_some_and(|v| !v.is_loading())
    });
    send(&mut h, Command::Open(folder.path().to_path_buf()));
    wait(&mut h, "the network", |s| s.network.info().is_some());
    send(&mut h, Command::SetWeights(Some("seeded:1".to_owned())));
    wait(&mut h, "the weights", |s| {
        s.network.info().is_some_and(|n| n.model.weights.is_some())
    });
    send(&mut h, Command::SetRoi([32, 32, 32]));
    send(&mut h, Command::ShowWorkspace(Workspace::Plan));
    wait(&mut h, "the budget", |s| !s.derived.budget_pending);
    save(&mut h, "manifest-waits");
    send(&mut h, Command::Run);
    wait(&mut h, "the page", |s| s.view.popup.is_some());
    save(&mut h, "manifest");
    for (theme, name) in [
        (voxfit::app::Theme::Light, "light"),
        (voxfit::app::Theme::HighContrast, "contrast"),
    ] {
        send(&mut h, Command::SetTheme(theme));
        wait(&mut h, name, |_| true);
        save(&mut h, &format!("{name}-manifest"));
    }
}

#[test]
fn a_run_held_against_another_is_drawn() {
    use voxfit::app::SeamMap;
    let mut h = window();
    h.step();
    send(&mut h, Command::SetNetwork("preset:demo".to_owned()));
    send(
        &mut h,
        Command::OpenStudy("phantom:128x128x64:3".to_owned()),
    );
    wait(&mut h, "loading", |s| {
        s.volume_state().is_some_and(|v| !v.is_loading()) && s.network.info().is_some()
    });
    send(&mut h, Command::WindowLevelPreset(2));
    send(&mut h, Command::SetScoreThreshold(0.05));
    for roi in [[128, 128, 64], [64, 64, 32]] {
        send(&mut h, Command::SetRoi(roi));
        send(&mut h, Command::AllowSinglePass(true));
        send(&mut h, Command::Run);
        wait(&mut h, "the run", |s| {
            s.run.is_none() && s.outcome.is_some()
        });
        if roi[0] == 128 {
            send(&mut h, Command::HoldAsReference);
        }
    }
    wait(&mut h, "the comparison", |s| {
        s.seams.difference().is_some() && s.seams.matching().is_some()
    });
    send(&mut h, Command::ShowWorkspace(Workspace::Seams));
    send(&mut h, Command::NextSeam);
    for map in SeamMap::ALL {
        send(&mut h, Command::ShowSeamMap(map));
        wait(&mut h, map.name(), |_| true);
        save(&mut h, &format!("seams-{}", map.name().to_lowercase()));
    }
    send(&mut h, Command::ShowWorkspace(Workspace::Review));
    send(&mut h, Command::NextDetection);
    wait(&mut h, "the list", |_| true);
    save(&mut h, "review-compared");
}
