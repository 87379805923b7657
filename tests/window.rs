//! The window by its labels alone, as a screen reader finds it: welcome, demo, a change of plan, a run, boxes, a click on a detection.

mod common;

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

/// A folder of the shared data, or nothing (and a word) where it is missing.
#[expect(
    clippy::print_stderr,
    reason = "a skipped test must not look like one that passed"
)]
fn shared(inner: &str) -> Option<std::path::PathBuf> {
    let root = std::env::var_os("VOXFIT_SHARED").map_or_else(
        || std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        std::path::PathBuf::from,
    );
    let path = root.join("data/dicom").join(inner);
    if path.exists() {
        Some(path)
    } else {
        eprintln!("skipped: {inner} is not there");
        None
    }
}

fn send(h: &mut Harness<'_, Window>, command: Command) {
    let ctx = h.ctx.clone();
    h.state_mut().send(&ctx, command);
    for _ in 0..4 {
        h.step();
    }
}

fn said(h: &Harness<'_, Window>, words: &str) -> bool {
    h.query_all_by_label_contains(words).next().is_some()
}

#[test]
fn an_odd_series_says_what_is_odd_on_its_row_in_the_strip_and_file_by_file() {
    let Some(folder) = shared("siemens_tilt4") else {
        return;
    };
    let mut h = window();
    h.step();
    send(&mut h, Command::Open(folder));
    wait(&mut h, "loading", |s| {
        s.volume_state().is_some_and(|v| !v.is_loading())
    });
    assert!(said(&h, "gantry tilt"), "on the row and in the strip");
    assert!(said(&h, "1 file skipped"));
    assert!(
        said(&h, "slice 3 of 4, instance"),
        "the axial view names the stored image"
    );
    send(&mut h, Command::ShowWarnings);
    assert!(said(&h, "truth.json"), "the skipped file by name");
    assert!(said(&h, "(gantry tilt): the volume is sheared"));
    send(&mut h, Command::Escape);
    send(&mut h, Command::ShowSeriesDetails);
    assert!(said(&h, "PixelSpacing; slice positions"));
    assert!(said(&h, "bits") || said(&h, "allocated"));
    assert!(said(&h, "masked: Ctrl+Shift+I shows them"));
    send(&mut h, Command::ToggleIdentity);
    assert!(!said(&h, "masked: Ctrl+Shift+I shows them"));
}

#[test]
fn a_series_without_positions_says_unknown_and_never_one_millimetre() {
    let Some(folder) = shared("variants/no_ipp") else {
        return;
    };
    let mut h = window();
    h.step();
    send(&mut h, Command::Open(folder));
    wait(&mut h, "loading", |s| {
        s.volume_state().is_some_and(|v| !v.is_loading())
    });
    assert!(said(&h, "0.451, unknown"));
    assert!(said(&h, "position unknown"));
    assert!(said(&h, "must not be run"));
    assert!(!said(&h, "1.00 mm"));
}

#[test]
fn a_series_that_cannot_be_shown_says_why_in_its_place() {
    let Some(folder) = shared("siemens_sameposition4") else {
        return;
    };
    let mut h = window();
    h.step();
    send(&mut h, Command::Open(folder));
    wait(&mut h, "the refusal", |s| {
        s.study.as_ref().is_some_and(|t| t.refused.is_some())
    });
    assert!(said(&h, "This series cannot be shown"));
    assert!(said(&h, "lie at one position"));
    send(&mut h, Command::ShowWarnings);
    assert!(said(&h, "This series can neither be shown nor run."));
}

#[test]
fn layers_are_listed_searched_by_shape_and_folded() {
    let mut h = window();
    h.step();
    send(
        &mut h,
        Command::PlanWithoutData(voxfit::geometry::Extent::new(128, 128, 64)),
    );
    send(&mut h, Command::SetNetwork("preset:demo-norm".to_owned()));
    wait(&mut h, "the network", |s| {
        s.network.info().is_some() && s.derived.plan().is_some()
    });
    send(&mut h, Command::ShowLayers);
    wait(&mut h, "the layers", |s| !s.derived.layer_lines.is_empty());
    assert!(said(&h, "Stage 1: "));
    let all = h.state().state().derived.layer_lines.len();
    let shape = {
        let layers = h.state().state().derived.layers.clone().unwrap();
        let shape = &layers.rows[0].layer.shapes[0];
        format!("{} {}", shape[1], shape[4])
    };
    send(&mut h, Command::SearchLayers(shape));
    wait(&mut h, "the search", |s| s.derived.layer_lines.len() < all);
    assert!(said(&h, "Layer "));
    send(&mut h, Command::SearchLayers(String::new()));
    wait(&mut h, "all again", |s| s.derived.layer_lines.len() == all);
    h.query_all_by_label_contains("Stage 1: ")
        .next()
        .unwrap()
        .click();
    wait(&mut h, "a folded stage", |s| {
        s.derived.layer_lines.len() < all
    });
    assert!(h.state().state().view.folded_stages.contains(&0));
    h.check_accessibility();
    send(&mut h, Command::Escape);
    assert!(!h.state().state().view.layers_open);
}

#[test]
fn a_proposed_manifest_is_read_and_accepted_before_the_first_run() {
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
    assert_eq!(h.state().state().why_not_run(), None);
    assert!(said(&h, "Manifest: proposed, read it"));
    // The menu "Run" stands first, the button of the form last.
    h.get_all_by_label("Run").last().unwrap().click();
    // A page is measured before it is drawn.
    for _ in 0..4 {
        h.step();
    }
    let s = h.state().state();
    assert_eq!(s.view.popup, Some(voxfit::app::Popup::Manifest));
    assert!(
        s.run.is_none() && s.outcome.is_none(),
        "nothing runs unseen"
    );
    assert!(said(
        &h,
        "Spacing x, y, z: 1.5, 1.5, 2 mm, told: its Spacingd"
    ));
    assert!(said(&h, "Intensity: HU as they are, guessed"));
    assert!(said(&h, "BodyMaskd"), "the step that is left out by name");
    h.check_accessibility();
    click(&mut h, "Accept and run");
    let s = h.state().state();
    assert_eq!(s.view.popup, None);
    assert!(!s.manifest_waits());
    assert!(s.run.is_some() || s.outcome.is_some(), "{:?}", s.messages);
}

#[test]
fn a_memory_limit_is_typed_in_gib_and_taken_away_again() {
    let mut h = window();
    h.step();
    send(&mut h, Command::SetNetwork("preset:demo".to_owned()));
    wait(&mut h, "the network", |s| s.network.info().is_some());
    send(&mut h, Command::ShowWorkspace(Workspace::Plan));
    let field = h.get_by_label("Memory limit in GiB");
    field.focus();
    h.step();
    h.get_by_label("Memory limit in GiB").type_text("1.5");
    h.step();
    h.step();
    let limit = h.state().state().document.memory_limit;
    assert_eq!(limit, Some(voxfit::units::Bytes::mib(1536)));
    send(&mut h, Command::SetMemoryLimit(None));
    h.check_accessibility();
}

#[test]
fn what_fits_takes_a_click_the_timeline_a_wheel_and_the_tour_walks() {
    let mut h = window();
    h.step();
    send(
        &mut h,
        Command::StartTour(voxfit::app::tour::Tour::Detector),
    );
    let planned = |s: &State| {
        s.derived.surface.is_some()
            && !s.derived.budget_pending
            && s.told().is_some_and(|t| !t.text.is_empty())
    };
    wait(&mut h, "the first step", planned);
    assert!(said(&h, "What fits: this plan 512x512x192"));
    assert!(said(&h, " steps, peak"));
    let over = h.state().state().told().unwrap().text.clone();
    assert!(over.contains("16 GB card"), "{over}");
    click(&mut h, "Next");
    wait(&mut h, "the second step", planned);
    assert_eq!(h.state().state().document.roi_size, [512, 512, 100]);
    assert!(said(&h, "step 2 of 5"));

    let plot = h.get_by_label_contains("What fits: this plan").rect();
    h.get_by_label_contains("What fits: this plan").click();
    h.step();
    h.step();
    let roi = h.state().state().document.roi_size;
    assert!(
        roi[0] == roi[1] && roi[0] < 512 && roi[2] < 192,
        "a click in the middle of {plot:?} plans {roi:?}"
    );
    wait(&mut h, "the plan of the click", planned);
    h.get_by_label_contains("What fits: this plan").focus();
    h.step();
    h.key_press(eframe::egui::Key::ArrowRight);
    h.step();
    h.step();
    assert!(h.state().state().document.roi_size[2] > roi[2]);
    wait(&mut h, "the plan of the key", planned);

    h.get_by_label_contains(" steps, peak").focus();
    h.step();
    h.key_press(eframe::egui::Key::ArrowUp);
    h.step();
    h.step();
    click(&mut h, "All steps");
    assert!(h.query_by_label("All steps").is_none());
    click(&mut h, "End");
    assert!(h.state().state().view.tour.is_none());
    h.check_accessibility();
}

#[test]
fn an_impossible_line_through_measured_points_is_refused_on_the_page() {
    let mut h = window();
    h.step();
    send(&mut h, Command::ShowWorkspace(Workspace::Plan));
    send(&mut h, Command::ShowCalibration);
    let table = "192=44 GiB, 100=22 GiB, 64=10.59 GiB";
    send(&mut h, Command::SetPoints(table.to_owned()));
    assert!(said(&h, "fixed cost is negative"));
    assert!(said(&h, "3 measured points"));
    send(
        &mut h,
        Command::SetPoints("1=3 GiB, 2=5 GiB, 4=9 GiB".to_owned()),
    );
    assert!(!said(&h, "fixed cost is negative"));
    assert!(said(&h, "1.00 GiB + 2.0000 GiB for each X"));
    h.check_accessibility();
}
