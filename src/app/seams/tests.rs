//! A run held against another, in the program without its window.

use super::*;
use crate::app::command::Command;
use crate::app::settings::SettingsDir;
use crate::app::state::{Severity, State};
use crate::app::view::{Filter, SeamMap, Workspace};
use crate::geometry::Axis;
use crate::jobs::Waker;
use crate::review::Verdict;
use crate::tiling::{Blend, Layout};
use std::time::Duration;

const LONG: Duration = Duration::from_mins(2);

/// The demo network over a small phantom, run in windows of `roi`.
fn ran(roi: [i64; 3]) -> State {
    let mut s = State::new(SettingsDir::none(), Waker::default());
    s.dispatch(Command::SetNetwork("preset:demo".to_owned()));
    s.dispatch(Command::OpenStudy("phantom:64x64x48:3".to_owned()));
    assert!(s.settle(LONG));
    s.dispatch(Command::SetLayout(Layout::Monai));
    s.dispatch(Command::SetBlend(Blend::Constant));
    s.dispatch(Command::SetScoreThreshold(0.05));
    run(&mut s, roi);
    s
}

fn run(s: &mut State, roi: [i64; 3]) {
    s.dispatch(Command::SetRoi(roi));
    s.dispatch(Command::AllowSinglePass(true));
    s.dispatch(Command::Run);
    assert!(s.settle(LONG));
    let said = s
        .messages
        .last()
        .map(|m| (m.title.clone(), m.detail.clone()));
    assert!(s.outcome.is_some() && s.run.is_none(), "{said:?}");
}

#[test]
fn a_run_fills_the_seam_table_worst_first_and_j_goes_to_the_worst_place() {
    let mut s = ran([32, 32, 32]);
    let rows = Arc::clone(&s.seams.rows);
    assert!(rows.len() > 2);
    let worst: Vec<f64> = rows.iter().filter_map(SeamRow::worst).collect();
    assert_eq!(worst.len(), rows.len(), "windows overlap at each seam");
    assert!(worst.windows(2).all(|w| w[0] >= w[1]), "{worst:?}");
    assert!(worst[0] > 0.0);
    s.dispatch(Command::NextSeam);
    assert_eq!(s.view.seam, Some(rows[0].id()));
    let place = rows[0].place.unwrap();
    let at = s.view.crosshair;
    assert_eq!(at[place.axis.index()], place.at);
    let peak = rows[0].peak.unwrap();
    let other = (place.axis.index() + 1) % 3;
    assert_eq!(at[other], peak[other].clamp(0.0, 63.0));
    s.dispatch(Command::PreviousSeam);
    assert_eq!(s.view.seam, Some(rows[rows.len() - 1].id()));
    s.dispatch(Command::SelectSeam((Axis::Z, 1)));
    assert_eq!(s.view.seam, Some(rows[rows.len() - 1].id()), "no such seam");
}

#[test]
fn the_map_of_mismatch_is_as_bad_as_the_table_says() {
    let s = ran([32, 32, 32]);
    let o = s.outcome.as_ref().unwrap();
    let map = o.maps.mismatch.as_ref().unwrap();
    let most = map.values.iter().copied().fold(0.0, f32::max);
    let peaks = o.maps.peaks.iter().map(|p| p.value).fold(0.0, f32::max);
    assert_eq!(most, peaks);
    let of_table = s.seams.rows[0].record.raw_mismatch_max.unwrap();
    assert!(f64::from(most) <= of_table + 1e-6, "{most} {of_table}");
}

#[test]
fn a_run_held_against_one_pass_has_differences_a_match_maps_and_curves() {
    let mut s = ran([64, 64, 48]);
    assert!(s.seams.rows.is_empty(), "one window has no seams");
    s.dispatch(Command::HoldAsReference);
    run(&mut s, [32, 32, 32]);
    let d = s
        .seams
        .difference()
        .unwrap_or_else(|| panic!("{:?}", s.seams.differed));
    assert!(d.verdict < Verdict::Bitwise, "{}", d.words);
    let m = s
        .seams
        .matching()
        .unwrap_or_else(|| panic!("{:?}", s.seams.matched));
    assert_eq!(m.parity.n_b, s.derived.detections.len());
    for (place, row) in &m.row_of {
        let found = &s.outcome.as_ref().unwrap().detections()[*place];
        assert_eq!(m.parity.rows[*row].score_b, Some(f64::from(found.score)));
    }
    assert!(s.seams.rows.iter().all(|r| r.record.diff_max.is_some()));
    assert!(s.seams.rows.iter().all(|r| r.verdict.is_some()));
    s.dispatch(Command::ShowWorkspace(Workspace::Seams));
    s.dispatch(Command::NextSeam);
    for map in [SeamMap::Mismatch, SeamMap::Difference, SeamMap::Flicker] {
        s.dispatch(Command::ShowSeamMap(map));
        assert!(s.settle(LONG));
        let p = s
            .seams
            .picture
            .clone()
            .unwrap_or_else(|| panic!("{map:?} {:?}", s.why_no_map()));
        assert_eq!(p.map, map);
        assert!(p.rgba.chunks(4).any(|c| c[3] > 0), "{map:?} is empty");
    }
    let p = s.seams.profile.clone().unwrap().unwrap();
    let whose: Vec<Whose> = p.curves.iter().map(|c| c.whose).collect();
    assert_eq!(whose[..2], [Whose::Tiled, Whose::Reference]);
    assert!(
        matches!(whose[2..], [Whose::Window(_), Whose::Window(_), ..]),
        "{whose:?}"
    );
    assert!(
        p.curves
            .iter()
            .all(|c| c.points.iter().all(|q| (0.0..=1.0).contains(&q[1])))
    );
    s.dispatch(Command::FilterDetections(Filter::Changed));
    let changed = s.derived.detections.len();
    s.dispatch(Command::FilterDetections(Filter::All));
    assert!(changed <= s.derived.detections.len());
    s.dispatch(Command::DropReference);
    assert!(s.seams.matched.is_none() && s.seams.differed.is_none());
}

#[test]
fn where_only_one_window_reaches_its_curve_is_the_runs() {
    let mut s = ran([64, 64, 32]);
    s.dispatch(Command::ShowWorkspace(Workspace::Seams));
    s.dispatch(Command::SetCrosshair([30.0, 30.0, 20.0]));
    let p = s.seams.profile.clone().unwrap().unwrap();
    assert_eq!(p.axis, Axis::Z);
    let (w, ends) = p.windows[0];
    let next = p.windows[1].1;
    let alone = p
        .curves
        .iter()
        .find(|c| c.whose == Whose::Window(w))
        .unwrap();
    let mut seen = 0;
    for q in alone
        .points
        .iter()
        .filter(|q| q[0] > ends[0] && q[0] < next[0])
    {
        let run = p.curves[0].points.iter().find(|r| r[0] == q[0]).unwrap();
        assert!((run[1] - q[1]).abs() < 2e-5, "{q:?} {run:?}");
        seen += 1;
    }
    assert!(seen > 0, "{:?}", p.windows);
}

#[test]
fn the_threshold_acts_on_both_sides() {
    let mut s = ran([64, 64, 48]);
    s.dispatch(Command::HoldAsReference);
    run(&mut s, [32, 32, 32]);
    let all = s.seams.matching().unwrap().parity.n_a;
    s.dispatch(Command::SetScoreThreshold(1.0));
    assert!(s.settle(LONG));
    let m = s.seams.matching().unwrap();
    assert_eq!((m.threshold, m.reference.len()), (1.0, m.parity.n_a));
    assert!(m.parity.n_a <= all && !s.seams.match_pending);
    assert_eq!(m.parity.n_b, s.derived.detections.len());
}

#[test]
fn a_result_of_another_volume_is_refused_in_a_sentence_and_files_compare_as_runs_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("whole.json");
    let mut s = ran([64, 64, 48]);
    s.outcome.as_ref().unwrap().result.write(&file).unwrap();
    run(&mut s, [32, 32, 32]);
    s.dispatch(Command::CompareWith(file));
    assert!(s.settle(LONG));
    assert!(s.seams.matching().is_some(), "{:?}", s.seams.matched);
    let why = s.seams.differed.clone().unwrap().unwrap_err();
    assert!(why.contains("--keep-outputs"), "{why}");
    let mut other = s.outcome.as_ref().unwrap().result.clone();
    other.volume_sha256 = Some("00".repeat(32));
    let file = dir.path().join("other.json");
    other.write(&file).unwrap();
    s.dispatch(Command::CompareWith(file));
    assert!(s.settle(LONG));
    let why = s.seams.matched.clone().unwrap().unwrap_err();
    assert!(why.contains("two different volumes"), "{why}");
    let said = s
        .messages
        .iter()
        .any(|m| m.severity == Severity::Error && m.detail == why);
    assert!(said);
    other.volume_sha256 = s.outcome.as_ref().unwrap().result.volume_sha256.clone();
    other.network.sha256 = "11".repeat(32);
    let file = dir.path().join("network.json");
    other.write(&file).unwrap();
    s.dispatch(Command::CompareWith(file));
    assert!(s.settle(LONG));
    assert!(s.messages.iter().any(|m| m.detail.contains("two networks")));
    let nothing = dir.path().join("nothing.json");
    s.dispatch(Command::CompareWith(nothing));
    assert!(s.settle(LONG));
    let last = s.messages.last().unwrap();
    assert_eq!(last.title, "The result cannot be compared");
}

#[test]
fn an_opened_result_of_other_voxels_is_said_to_be_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = ran([32, 32, 32]);
    let mut result = s.outcome.as_ref().unwrap().result.clone();
    let same = dir.path().join("same.json");
    result.write(&same).unwrap();
    s.dispatch(Command::Open(same));
    assert!(s.settle(LONG));
    assert!(!s.seams.other_volume && s.outcome.as_ref().unwrap().path.is_some());
    result.volume_sha256 = Some("00".repeat(32));
    let other = dir.path().join("other.json");
    result.write(&other).unwrap();
    s.dispatch(Command::Open(other));
    assert!(s.settle(LONG));
    assert!(s.seams.other_volume);
    assert!(
        s.messages
            .iter()
            .any(|m| m.title == "The result is of another volume")
    );
    assert!(s.stale()[0].contains("other voxels"), "{:?}", s.stale());
    assert!(s.why_no_map().unwrap().contains("another volume"));
}

#[test]
fn a_grid_over_a_resampled_volume_finds_its_way_there_and_back() {
    let s = ran([32, 32, 32]);
    let mut plan = s.outcome.as_ref().unwrap().result.plan.clone();
    // As if the network had read it at twice the step along z.
    plan.prepared_volume.z = 24;
    let mut affine = plan.loaded_affine.unwrap();
    affine.step[2] = affine.step[2].map(|v| v * 2.0);
    affine.origin[2] += plan.loaded_affine.unwrap().step[2][2] * 0.5;
    plan.prepared_affine = Some(affine);
    let spatial = plan.axes.reorder([16, 16, 6]);
    let grid = Grid::of_output(&plan, spatial).unwrap();
    let place = grid.place([10.0, 20.0, 30.0]);
    let back = grid.loaded(place).unwrap();
    for (got, want) in back.iter().zip([10.0, 20.0, 30.0]) {
        assert!((got - want).abs() < 1e-9);
    }
    let t = (0..3).find(|t| grid.loaded_axis(*t) == 2).unwrap();
    // Loaded border 16 is prepared border 8, which is border 2 of an output four times as coarse.
    assert_eq!(grid.border(t, 8), 2);
    let (axis, at) = field::seam_place(&plan, Axis::Z, 8).unwrap();
    assert_eq!(axis, Axis::Z);
    assert!((at - 16.0).abs() < 1e-9, "{at}");
}
