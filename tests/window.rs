//! The window by its labels alone, as a screen reader finds it: welcome, demo, a change of plan, a run, boxes, a click on a detection.

use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use std::time::{Duration, Instant};
use voxfit::app::{Command, SettingsDir, Startup, State, Workspace};
use voxfit::jobs::Waker;
use voxfit::tiling::Blend;
use voxfit::ui::Window;

fn window() -> Harness<'static, Window> {
    Harness::builder()
        .with_size([1440.0, 900.0])
        .with_max_steps(64)
        .wgpu()
        .build_eframe(|cc| {
            let state = State::new(SettingsDir::none(), Waker::default());
            Window::new(cc, state, &Startup::default())
        })
}

/// Steps until `done`, at most five minutes, then lets the window settle.
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
    for _ in 0..60 {
        h.step();
    }
}

fn click(h: &mut Harness<'_, Window>, label: &str) {
    h.get_by_label(label).click();
    h.step();
    h.step();
}

fn loaded(s: &State) -> bool {
    s.volume_state().is_some_and(|v| !v.is_loading())
        && s.network.info().is_some()
        && s.derived.plan().is_some()
}

#[test]
fn from_the_welcome_page_to_a_clicked_detection_by_labels() {
    let mut h = window();
    h.step();
    click(&mut h, "Try the demo");
    wait(&mut h, "loading the demo", loaded);
    assert!(h.query_by_label_contains("Axial, slice").is_some());

    click(&mut h, "Plan workspace");
    click(&mut h, "Blend Gaussian");
    assert_eq!(h.state().state().document.blend, Blend::Gaussian);
    click(&mut h, "Blend Constant");
    wait(&mut h, "the budget", |s| s.derived.budget().is_some());
    assert!(
        h.query_by_label_contains("RTX 5070 Ti, 16 GB card")
            .is_some()
    );

    click(&mut h, "Review workspace");
    // The menu "Run" stands first, the button of the plan panel last.
    h.get_all_by_label("Run").last().unwrap().click();
    h.step();
    h.step();
    wait(&mut h, "the run", |s| {
        s.run.is_none() && s.outcome.is_some()
    });
    let s = h.state().state();
    assert!(s.detections().count() >= 5, "{:?}", s.messages);

    let label = "Detection 2, nodule";
    h.get_by_label_contains(label).click();
    h.step();
    h.step();
    let s = h.state().state();
    let (place, second) = s.detections().nth(1).unwrap();
    assert_eq!(s.view.selected, Some(place));
    let b = second.box_in_volume.0;
    for (axis, at) in s.view.crosshair.into_iter().enumerate() {
        assert!(f64::from(b[axis]) <= at + 0.5 && at + 0.5 <= f64::from(b[axis + 3]));
    }
    let name = h
        .get_all_by_label_contains("Axial, slice")
        .next()
        .map(|n| format!("{n:?}"))
        .unwrap();
    assert!(!name.contains(", 0 boxes"), "{name}");
}

#[test]
fn every_input_of_every_workspace_has_a_name_and_tab_goes_round() {
    let mut h = window();
    h.step();
    h.check_accessibility();
    click(&mut h, "Try the demo");
    wait(&mut h, "loading the demo", loaded);
    for w in Workspace::ALL {
        let ctx = h.ctx.clone();
        h.state_mut().send(&ctx, Command::ShowWorkspace(w));
        for _ in 0..8 {
            h.step();
        }
        h.check_accessibility();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..24 {
            h.key_press(eframe::egui::Key::Tab);
            h.step();
            if let Some(id) = h.ctx.memory(|m| m.focused()) {
                seen.insert(format!("{id:?}"));
            }
        }
        assert!(
            seen.len() > 10,
            "{}: Tab reaches {} widgets",
            w.name(),
            seen.len()
        );
        h.ctx.memory_mut(|m| m.stop_text_input());
    }
}

#[test]
fn a_whole_volume_window_waits_for_the_tick() {
    let mut h = window();
    h.step();
    click(&mut h, "Try the demo");
    wait(&mut h, "loading the demo", loaded);
    let ctx = h.ctx.clone();
    h.state_mut().send(&ctx, Command::SetRoi([0, 0, 0]));
    click(&mut h, "Plan workspace");
    wait(&mut h, "the plan", |s| {
        s.derived.plan().is_some_and(|p| p.is_single_pass())
    });
    assert!(h.state().state().why_not_run().is_some());
    click(&mut h, "Allow one pass for this run only");
    assert!(h.state().state().single_pass_allowed);
}
