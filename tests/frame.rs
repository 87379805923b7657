//! What a frame of the window costs on the UI thread without drawing it: a benchmark, run by name and printed, never judged.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use egui_kittest::Harness;
use std::time::{Duration, Instant};
use voxfit::app::{Command, SettingsDir, Startup, State, Workspace};
use voxfit::geometry::Plane;
use voxfit::jobs::Waker;
use voxfit::ui::Window;

fn window() -> Harness<'static, Window> {
    let startup = Startup {
        network: Some("preset:demo".to_owned()),
        ..Startup::default()
    };
    Harness::builder()
        .with_size([1440.0, 900.0])
        .with_max_steps(64)
        .wgpu()
        .build_eframe(move |cc| {
            let state = State::new(SettingsDir::none(), Waker::default());
            Window::new(cc, state, &startup)
        })
}

fn settle(h: &mut Harness<'_, Window>, done: impl Fn(&State) -> bool) {
    let start = Instant::now();
    while !done(h.state().state()) {
        assert!(
            start.elapsed() < Duration::from_mins(5),
            "nothing to measure: {:?}",
            h.state().state().messages
        );
        std::thread::sleep(Duration::from_millis(10));
        h.step();
    }
    for _ in 0..100 {
        h.step();
    }
}

/// Milliseconds of 200 frames, each after `change`: median, 95th percentile, worst.
fn measure(h: &mut Harness<'_, Window>, what: &str, change: impl Fn(usize) -> Option<Command>) {
    let mut times: Vec<f64> = (0..200)
        .map(|i| {
            let ctx = h.ctx.clone();
            let start = Instant::now();
            if let Some(command) = change(i) {
                h.state_mut().send(&ctx, command);
            }
            h.step();
            start.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "{what:<40} median {:6.2}  p95 {:6.2}  worst {:6.2} ms (held against 4 ms)",
        times[100], times[190], times[199]
    );
}

#[test]
#[ignore = "a benchmark: cargo test --release --test frame -- --ignored --nocapture"]
fn what_a_frame_costs_at_512x512x140() {
    let mut h = window();
    let ctx = h.ctx.clone();
    h.state_mut()
        .send(&ctx, Command::OpenStudy("phantom:512x512x140".to_owned()));
    settle(&mut h, |s| {
        s.volume_state().is_some_and(|v| !v.is_loading()) && s.derived.budget().is_some()
    });
    let ctx = h.ctx.clone();
    h.state_mut()
        .send(&ctx, Command::ShowWorkspace(Workspace::Review));
    settle(&mut h, |_| true);
    measure(&mut h, "review, nothing changes", |_| None);
    measure(&mut h, "review, a slice each frame", |i| {
        Some(Command::ScrollPlane((
            Plane::Axial,
            if i % 20 < 10 { 1 } else { -1 },
        )))
    });
    h.state_mut()
        .send(&ctx, Command::ShowWorkspace(Workspace::Plan));
    settle(&mut h, |_| true);
    measure(&mut h, "plan, nothing changes", |_| None);
    let rois = |i: usize| {
        Some(Command::SetRoi([
            128,
            128,
            if i.is_multiple_of(2) { 64 } else { 72 },
        ]))
    };
    measure(&mut h, "plan, another roi each frame", rois);
    for (network, roi) in [("nnunet-resenc-xl", 96), ("monai-lung-nodule", 64)] {
        let ctx = h.ctx.clone();
        h.state_mut()
            .send(&ctx, Command::SetNetwork(format!("preset:{network}")));
        h.state_mut().send(
            &ctx,
            Command::SetRuntime(voxfit::app::document::Runtime::Pytorch),
        );
        settle(&mut h, |s| {
            s.network.info().is_some() && !s.derived.budget_pending
        });
        measure(&mut h, &format!("{network}, another roi each frame"), |i| {
            let z = if i.is_multiple_of(2) { roi } else { 2 * roi };
            Some(Command::SetRoi([192, 192, z]))
        });
        let ctx = h.ctx.clone();
        h.state_mut().send(&ctx, Command::ShowLayers);
        settle(&mut h, |s| !s.derived.layer_lines.is_empty());
        measure(&mut h, &format!("{network}, layers, another search"), |i| {
            let text = if i.is_multiple_of(2) {
                "conv"
            } else {
                "32 128"
            };
            Some(Command::SearchLayers(text.to_owned()))
        });
        let ctx = h.ctx.clone();
        h.state_mut().send(&ctx, Command::ShowLayers);
    }
}
