//! What a user would notice: undo, stale results, keys that say why not, a study that opens, plans and runs without a window.

use super::command::Command;
use super::document::Document;
use super::effect::{Dialog, Effect, JobRequest};
use super::settings::SettingsDir;
use super::state::{NetworkState, Severity, Startup, State};
use super::view::{Popup, Workspace};
use crate::geometry::{Extent, Plane};
use crate::jobs::Waker;
use crate::memory::Precision;
use crate::network::{self, ManifestSource};
use crate::tiling::Layout;
use crate::units::Bytes;
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_mins(2);

fn fresh() -> State {
    State::new(SettingsDir::none(), Waker::default())
}

/// A state with a small generated study and the demo network, loaded.
fn with_phantom() -> State {
    let mut s = fresh();
    s.dispatch(Command::SetNetwork("preset:demo".to_owned()));
    s.dispatch(Command::OpenStudy("phantom:64x64x48:3".to_owned()));
    assert!(s.settle(LONG));
    s
}

#[test]
fn undo_brings_the_overlap_back_and_redo_takes_it_again() {
    let mut s = fresh();
    let first = s.document.clone();
    assert!(!s.can_undo());
    s.apply(Command::SetOverlap([0.5; 3]));
    s.apply(Command::SetPrecision(Precision::Fp16));
    s.apply(Command::Undo);
    assert_eq!(s.document.precision, Precision::Fp32);
    s.apply(Command::Undo);
    assert_eq!(s.document, first);
    s.apply(Command::Redo);
    assert_eq!(s.document.overlap, [0.5; 3]);
    s.apply(Command::SetBatch(2));
    assert!(!s.can_redo(), "a new choice forgets what was undone");
}

#[test]
fn the_second_articles_table_is_refused_in_words_and_a_straight_one_gives_the_largest_slices() {
    let mut s = fresh();
    let table = "192=44000000000, 100=22000000000, 64=10590000000";
    s.apply(Command::SetPoints(table.to_owned()));
    let found = super::calibration::of(&s);
    assert_eq!(found.points.len(), 3);
    let why = found.wrong.unwrap();
    assert!(why.contains("fixed cost is negative"), "{why}");
    assert!(found.cards.iter().all(|(_, _, largest)| largest.is_none()));
    s.apply(Command::SetPoints("1=3 GiB, 2=5 GiB; 4=9 GiB".to_owned()));
    let found = super::calibration::of(&s);
    assert_eq!(found.wrong, None);
    let (_, _, largest) = found.cards.iter().find(|c| c.0 == "RTX 5070 Ti").unwrap();
    assert_eq!(*largest, Some(7), "1 + 2 X of 15.47 GiB");
    s.apply(Command::SetPoints("1=3 GiB, 2".to_owned()));
    let wrong = super::calibration::of(&s).wrong.unwrap();
    assert!(wrong.ends_with("found \"2\""), "{wrong}");
}

#[test]
fn the_same_choice_again_is_no_step_of_undo() {
    let mut s = fresh();
    s.apply(Command::SetOverlap(s.document.overlap));
    assert!(!s.can_undo());
}

#[test]
fn dialogs_screenshots_and_leaving_are_effects_and_not_done_here() {
    let mut s = fresh();
    assert_eq!(
        s.apply(Command::OpenFolderDialog),
        [Effect::OpenDialog(Dialog::OpenFolder)]
    );
    assert_eq!(s.apply(Command::Quit), [Effect::Quit]);
    assert_eq!(
        s.apply(Command::Open("/data".into())),
        [Effect::Start(JobRequest::Open("/data".into()))]
    );
    assert_eq!(
        s.apply(Dialog::SavePlan.answer("a.voxplan".into())),
        [Effect::Start(JobRequest::SavePlan(
            "a.voxplan".into(),
            Box::new(s.document.clone())
        ))]
    );
}

#[test]
fn a_command_that_cannot_run_says_why() {
    let mut s = fresh();
    assert!(s.apply(Command::Run).is_empty());
    let m = s.messages.last().unwrap();
    assert_eq!(m.severity, Severity::Info);
    assert!(m.detail.contains("no volume"), "{}", m.detail);
}

#[test]
fn planning_needs_no_study() {
    let mut s = fresh();
    s.dispatch(Command::PlanWithoutData(Extent::new(512, 512, 192)));
    s.dispatch(Command::SetNetwork("preset:monai-lung-nodule".to_owned()));
    assert!(s.settle(LONG));
    assert_eq!(s.view.workspace, Workspace::Plan);
    assert!(matches!(s.network, NetworkState::Ready(_)));
    assert_eq!(
        s.document.roi_size,
        [512, 512, 192],
        "the manifest's own window"
    );
    assert!(s.derived.plan().unwrap().is_single_pass());
    assert_eq!(
        s.derived.budget().unwrap().cards.len(),
        s.document.cards.len()
    );
    let order: Vec<&String> = s
        .derived
        .budget()
        .unwrap()
        .cards
        .iter()
        .map(|c| &c.id)
        .collect();
    assert_eq!(order, s.document.cards.iter().collect::<Vec<_>>());
}

#[test]
fn a_plan_follows_each_change_and_bad_choices_are_sentences() {
    let mut s = fresh();
    s.apply(Command::SetRoi([128, 128, 64]));
    let before = s.derived.plan().unwrap().n_windows();
    s.apply(Command::SetOverlap([0.5; 3]));
    assert!(s.derived.plan().unwrap().n_windows() > before);
    s.apply(Command::SetRoi([128, -2, 64]));
    let e = s.derived.tiling.clone().unwrap().unwrap_err();
    assert!(e.contains("roi y is -2"), "{e}");
    s.apply(Command::SetRoi([0, -1, 64]));
    assert_eq!(s.derived.plan().unwrap().roi, Extent::new(512, 512, 64));
}

#[test]
fn a_generated_study_opens_plans_runs_and_goes_stale() {
    let mut s = with_phantom();
    let v = s.volume_state().unwrap();
    assert_eq!(v.decoded, 48);
    assert!(v.volume.is_some() && v.own_window_level.is_some());
    assert_eq!(s.take_fresh_slices().len(), 48);
    assert!(s.study.as_ref().unwrap().series[0].thumbnail.is_some());
    s.dispatch(Command::SetLayout(Layout::Aligned));
    s.dispatch(Command::SetRoi([48, 48, 48]));
    assert_eq!(s.why_not_run(), None);
    s.dispatch(Command::Run);
    assert!(s.run.is_some());
    assert!(s.settle(LONG));
    assert!(s.run.is_none());
    let result = &s.outcome.as_ref().expect("a result").result;
    assert!(result.n_windows > 1);
    assert!(s.stale().is_empty());
    s.dispatch(Command::SetRoi([40, 48, 48]));
    assert_eq!(s.stale(), ["roi was 48x48x48, is 40x48x48"]);
    s.dispatch(Command::Undo);
    assert!(s.stale().is_empty());
}

#[test]
fn a_window_over_the_whole_volume_is_refused_until_it_is_allowed_for_one_run() {
    let mut s = with_phantom();
    s.dispatch(Command::SetRoi([0, 0, 0]));
    assert!(
        s.why_not_run()
            .unwrap()
            .contains("covers the whole volume of 64x64x48")
    );
    s.dispatch(Command::AllowSinglePass(true));
    assert_eq!(s.why_not_run(), None);
    s.dispatch(Command::Run);
    assert!(!s.single_pass_allowed, "it was for this run only");
    s.dispatch(Command::CancelRun);
    assert!(s.settle(LONG));
    assert!(s.why_not_run().unwrap().contains("allow one pass"));
}

#[test]
fn late_news_of_a_study_that_was_replaced_falls_away() {
    let mut s = fresh();
    s.dispatch(Command::OpenStudy("phantom:96x96x96:1".to_owned()));
    s.dispatch(Command::OpenStudy("phantom:32x32x16:2".to_owned()));
    assert!(s.settle(LONG));
    assert_eq!(s.volume_state().unwrap().extent, Extent::new(32, 32, 16));
    let generation = s.volume_state().unwrap().generation;
    assert!(
        s.take_fresh_slices()
            .iter()
            .all(|f| f.generation == generation)
    );
}

#[test]
fn a_missing_path_is_one_sentence_and_the_state_stays() {
    let mut s = with_phantom();
    s.dispatch(Command::Open("/nowhere/at/all".into()));
    assert!(s.settle(LONG));
    let m = s.messages.last().unwrap();
    assert_eq!(m.severity, Severity::Error);
    assert!(m.detail.contains("/nowhere/at/all"));
    assert!(s.volume_state().is_some());
}

#[test]
fn a_plan_file_comes_back_as_it_was_saved() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trial.voxplan");
    let mut s = fresh();
    s.apply(Command::SetOverlap([0.5, 0.5, 0.0]));
    s.apply(Command::SetRoi([96, 96, 32]));
    s.dispatch(Command::SavePlanTo(path.clone()));
    assert!(s.settle(LONG));
    let saved = s.document.clone();
    let mut other = fresh();
    other.dispatch(Command::Open(path));
    assert!(other.settle(LONG));
    assert_eq!(other.document, saved);
    other.apply(Command::Undo);
    assert_ne!(other.document, saved, "opening a plan can be undone");
}

#[test]
fn escape_closes_what_is_on_top_and_never_quits() {
    let mut s = with_phantom();
    s.apply(Command::ShowLarge(Plane::Coronal));
    s.apply(Command::ShowPalette);
    assert!(s.apply(Command::Escape).is_empty());
    assert_eq!(s.view.popup, None);
    assert_eq!(s.view.large, Some(Plane::Coronal));
    assert!(s.apply(Command::Escape).is_empty());
    assert_eq!(s.view.large, None);
    s.apply(Command::ShowKeys);
    s.apply(Command::ShowKeys);
    assert_eq!(s.view.popup, None::<Popup>, "the same key closes it again");
}

#[test]
fn digits_set_the_window_level_and_zero_gives_it_back() {
    let mut s = with_phantom();
    let own = s.window_level();
    s.apply(Command::WindowLevelPreset(2));
    assert_eq!(
        (s.window_level().width, s.window_level().center),
        (1500.0, -600.0)
    );
    s.apply(Command::WindowLevelPreset(7));
    let (low, high) = s.volume_state().unwrap().range.unwrap();
    assert_eq!(s.window_level().width, high - low);
    s.apply(Command::WindowLevelPreset(0));
    assert_eq!(s.window_level(), own);
}

#[test]
fn masked_names_say_the_same_thing_each_time_and_nothing_else() {
    let a = super::masked_subject("Doe^Jane");
    assert_eq!(a, super::masked_subject("Doe^Jane"));
    assert_ne!(a, super::masked_subject("Doe^John"));
    assert!(a.starts_with("Subject ") && a.len() == 12 && !a.contains("Doe"));
}

#[test]
fn a_sheared_volume_is_straightened_by_command_and_back_by_undo() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.nii");
    let volume = crate::volume::Volume {
        extent: Extent::new(4, 5, 3),
        affine: crate::geometry::Affine {
            step: [[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 1.0, 2.0]],
            origin: [0.0; 3],
        },
        voxels: crate::volume::Voxels::I16((0..60).collect()),
        padding: None,
        is_hu: true,
        z_spacing_known: true,
    };
    crate::exchange::nifti::write(&volume, &path).unwrap();
    let mut s = fresh();
    s.dispatch(Command::OpenStudy(path.to_string_lossy().into_owned()));
    assert!(s.settle(LONG));
    assert!(s.study.as_ref().unwrap().selected().unwrap().straightens);
    assert_eq!(s.volume_state().unwrap().extent, volume.extent);
    s.dispatch(Command::SetStraightGrid(true));
    assert_eq!(s.volume_state().unwrap().extent, Extent::new(4, 9, 3));
    assert!(s.settle(LONG));
    let v = s.volume_state().unwrap();
    assert!(v.straight_grid && v.volume.is_some());
    assert!(v.warnings.iter().any(|w| w.code == "straight-grid"));
    s.dispatch(Command::Undo);
    assert!(s.settle(LONG));
    assert_eq!(s.volume_state().unwrap().extent, volume.extent);
    let series = s.document.series.clone().unwrap();
    s.dispatch(Command::Redo);
    s.dispatch(Command::SelectSeries(series));
    assert!(s.document.straight_grid, "the same series keeps its grid");
}

/// Takes the demo network in under another name, as if nobody had written its manifest.
fn propose(s: &mut State, name: &str) {
    let mut model = network::preset::load("demo").unwrap();
    model.about.manifest = ManifestSource::Proposed;
    let facts = network::facts::of(&model.graph).unwrap();
    s.document.network = Some(name.to_owned());
    s.take_network(Arc::new(model), facts);
}

#[test]
fn a_proposed_manifest_is_shown_before_a_run_and_accepted_for_its_own_network_only() {
    let mut s = with_phantom();
    propose(&mut s, "a.onnx");
    s.dispatch(Command::SetLayout(Layout::Aligned));
    s.dispatch(Command::SetRoi([48, 48, 48]));
    assert_eq!(s.why_not_run(), None, "Run shows it");
    s.dispatch(Command::Run);
    assert_eq!(s.view.popup, Some(Popup::Manifest));
    assert!(s.run.is_none());
    let page = s.manifest_page().unwrap();
    assert!(page.waits && page.rows.len() == network::Field::ALL.len());
    s.dispatch(Command::AcceptManifest);
    assert_eq!(s.view.popup, None);
    s.dispatch(Command::Run);
    assert!(s.run.is_some());
    s.dispatch(Command::CancelRun);
    assert!(s.settle(LONG));
    propose(&mut s, "b.onnx");
    assert!(s.manifest_waits(), "another network was never read");
    propose(&mut s, "a.onnx");
    assert!(!s.manifest_waits(), "back at the one that was accepted");
}

#[test]
fn a_manifest_is_saved_with_its_reasons_to_be_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.voxfit.toml");
    let mut s = fresh();
    propose(&mut s, &dir.path().join("a.onnx").to_string_lossy());
    assert_eq!(
        s.apply(Command::SaveManifestDialog),
        [Effect::OpenDialog(Dialog::SaveManifest(path.clone()))]
    );
    s.dispatch(Command::SaveManifestTo(path.clone()));
    assert!(s.settle(LONG));
    let text = std::fs::read_to_string(&path).unwrap();
    network::Manifest::parse(&text, Some(&path)).unwrap();
    let model = dir.path().join("a.onnx");
    s.dispatch(Command::SaveManifestTo(model.clone()));
    assert!(s.settle(LONG));
    assert!(!model.exists(), "never over the network");
}

#[test]
fn undo_to_no_network_leaves_none_behind() {
    let mut s = fresh();
    s.dispatch(Command::SetNetwork("preset:demo".to_owned()));
    assert!(s.settle(LONG));
    assert!(s.network.info().is_some());
    s.dispatch(Command::Undo);
    assert_eq!(s.document.network, None);
    assert!(matches!(s.network, NetworkState::None));
}

#[test]
fn a_picture_masks_names_without_touching_the_settings() {
    let mut s = fresh();
    s.dispatch(Command::ToggleIdentity);
    assert!(!s.identity_masked());
    s.apply(Command::ScreenshotTo("a.png".into()));
    assert!(s.identity_masked() && !s.settings.mask_identity);
    s.apply(Command::PictureTaken);
    assert!(!s.identity_masked());
}

#[test]
fn a_file_dialog_that_does_not_open_is_said_in_the_window_with_what_to_do() {
    let mut s = fresh();
    s.dispatch(Command::NoDialog);
    let said = &s.messages.last().unwrap().detail;
    assert!(
        said.contains("drop") && said.contains("voxfit open"),
        "{said}"
    );
}

#[test]
fn a_result_of_another_network_is_stale() {
    let mut s = with_phantom();
    s.dispatch(Command::SetLayout(Layout::Aligned));
    s.dispatch(Command::SetRoi([48, 48, 48]));
    s.dispatch(Command::Run);
    assert!(s.settle(LONG));
    let result = s.outcome.as_ref().unwrap().result.clone();
    s.take_result(None, result.clone(), true);
    assert!(s.stale().is_empty(), "{:?}", s.stale());
    s.take_result(None, result, false);
    assert!(s.stale().iter().any(|w| w.starts_with("network was demo")));
}

#[test]
fn weights_that_the_window_is_started_with_go_to_the_network_whatever_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("a.voxplan");
    let document = Document {
        network: Some("preset:demo-norm".to_owned()),
        ..Document::default()
    };
    std::fs::write(&plan, serde_json::to_vec(&document).unwrap()).unwrap();
    let weights = Some("seeded:1".to_owned());
    let named = |network: Option<&str>| network.map(str::to_owned);
    for (paths, network, plan, expected) in [
        (vec![], Some("preset:demo"), None, "preset:demo"),
        (vec!["preset:demo".into()], None, None, "preset:demo"),
        (vec![], None, Some(plan.clone()), "preset:demo-norm"),
        (
            vec![],
            Some("preset:demo"),
            Some(plan.clone()),
            "preset:demo",
        ),
    ] {
        let mut s = fresh();
        let startup = Startup {
            paths,
            network: named(network),
            weights: weights.clone(),
            plan,
            ..Startup::default()
        };
        for command in s.begin(&startup) {
            s.dispatch(command);
        }
        assert!(s.settle(LONG));
        assert_eq!(s.document.network.as_deref(), Some(expected));
        assert_eq!(s.document.weights, weights, "{startup:?}");
        assert!(s.network.info().unwrap().model.weights.is_some());
        // They were for the first network only.
        s.dispatch(Command::SetNetwork("preset:demo".to_owned()));
        assert!(s.settle(LONG));
        assert_eq!(s.document.weights, None);
    }
}

#[test]
fn a_layer_list_of_an_older_plan_is_said_to_be_old_until_the_new_one_is_there() {
    let mut s = fresh();
    s.dispatch(Command::SetNetwork("preset:demo".to_owned()));
    assert!(s.settle(LONG));
    s.dispatch(Command::ShowLayers);
    assert!(s.settle(LONG));
    assert!(s.derived.layers.is_some() && !s.derived.layers_pending);
    s.dispatch(Command::SetMemoryLimit(Some(Bytes::gib(8))));
    assert!(s.derived.layers_pending, "the peak may be another");
    assert!(s.settle(LONG));
    assert!(!s.derived.layers_pending);
    s.dispatch(Command::SetNetwork("preset:demo-norm".to_owned()));
    assert!(s.derived.layers.is_none(), "never those of another network");
    assert!(s.settle(LONG));
    assert!(s.derived.layers.is_some() && !s.derived.layers_pending);
    assert!(!s.derived.layer_lines.is_empty());
}
