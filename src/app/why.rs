//! Why a command cannot be chosen now, in words that say what to do.

use super::state::State;

fn unless(ok: bool, reason: &str) -> Option<String> {
    (!ok).then(|| reason.to_owned())
}

pub(super) fn no_study(s: &State) -> Option<String> {
    unless(s.study.is_some(), "no study is open")
}

pub(super) fn no_series(s: &State) -> Option<String> {
    unless(
        s.study.as_ref().is_some_and(|t| !t.series.is_empty()),
        "no study with series is open",
    )
}

pub(super) fn no_volume(s: &State) -> Option<String> {
    unless(s.volume_state().is_some(), "no volume is loaded")
}

pub(super) fn no_straight_grid(s: &State) -> Option<String> {
    let straightens = s
        .study
        .as_ref()
        .and_then(|t| t.selected())
        .is_some_and(|i| i.straightens);
    no_volume(s)
        .or_else(|| unless(straightens, "the series does not lean and has even steps"))
        .or_else(|| unless(!s.document.straight_grid, "the grid is straight already"))
}

pub(super) fn no_stored_grid(s: &State) -> Option<String> {
    no_volume(s).or_else(|| {
        unless(
            s.document.straight_grid,
            "the series is shown as stored already",
        )
    })
}

pub(super) fn no_plan(s: &State) -> Option<String> {
    unless(
        s.document.network.is_some(),
        "no network is chosen, so there is no plan yet",
    )
}

pub(super) fn no_network(s: &State) -> Option<String> {
    unless(s.network.info().is_some(), "no network is read")
}

pub(super) fn no_manifest_file(s: &State) -> Option<String> {
    no_network(s).or_else(|| {
        unless(
            s.manifest_place().is_some(),
            "a preset has its own manifest",
        )
    })
}

pub(super) fn no_layers(s: &State) -> Option<String> {
    unless(
        s.view.layers_open && s.derived.layers.is_some(),
        "the layer list is not open (Ctrl+L)",
    )
}

pub(super) fn no_tour(s: &State) -> Option<String> {
    unless(
        s.view.tour.is_some(),
        "no tour is under way; the Help menu begins one",
    )
}

pub(super) fn no_result(s: &State) -> Option<String> {
    unless(s.outcome.is_some(), "nothing has been run yet")
}

pub(super) fn no_detections(s: &State) -> Option<String> {
    unless(
        s.outcome
            .as_ref()
            .is_some_and(|o| !o.detections().is_empty()),
        "no run has found anything yet",
    )
}

pub(super) fn no_recent(s: &State) -> Option<String> {
    unless(!s.settings.recent.is_empty(), "nothing was opened before")
}

pub(super) fn no_undo(s: &State) -> Option<String> {
    unless(s.can_undo(), "nothing to undo")
}

pub(super) fn no_redo(s: &State) -> Option<String> {
    unless(s.can_redo(), "nothing to redo")
}

pub(super) fn no_fixes(s: &State) -> Option<String> {
    unless(
        !s.derived.fixes().is_empty(),
        "the plan needs no fix, or none is known",
    )
}

pub(super) fn no_picture(s: &State) -> Option<String> {
    unless(s.view.taking_picture, "no picture is being taken")
}

pub(super) fn no_run(s: &State) -> Option<String> {
    unless(s.run.is_some(), "nothing is running")
}

pub(super) fn no_jobs(s: &State) -> Option<String> {
    unless(!s.jobs().is_empty(), "no job is running")
}

pub(super) fn no_messages(s: &State) -> Option<String> {
    unless(!s.messages.is_empty(), "there are no messages")
}

pub(super) fn no_cuda(s: &State) -> Option<String> {
    let cuda = s.engines.iter().find(|e| e.id.starts_with("cuda"))?;
    (!cuda.available).then(|| cuda.reason.clone())
}

pub(super) fn cannot_run(s: &State) -> Option<String> {
    s.why_not_run()
}

pub(super) fn no_proposal(s: &State) -> Option<String> {
    unless(s.manifest_waits(), "no manifest is waiting to be accepted")
}

pub(super) fn no_reference(s: &State) -> Option<String> {
    unless(
        s.seams.reference.is_some(),
        "nothing is held against the run: compare with a result first",
    )
}

pub(super) fn no_missing(s: &State) -> Option<String> {
    unless(
        s.seams
            .matching()
            .is_some_and(|m| m.missing().next().is_some()),
        "the reference has no finding that the run has not",
    )
}

pub(super) fn no_seams(s: &State) -> Option<String> {
    unless(
        !s.seams.rows.is_empty(),
        "no run and no plan of more than one window, so there are no seams",
    )
}
