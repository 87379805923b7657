//! `voxfit demo --headless`: the embedded study and network, the whole path, with report and pictures.

use super::args::DemoArgs;
use super::failure::{DATA, Failure, WRITE};
use super::{output, progress};
use crate::app::{Command, DEMO_STUDY, SettingsDir, State, files};
use crate::jobs::{Control, Waker};
use crate::report::ReportError;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

impl From<ReportError> for Failure {
    fn from(e: ReportError) -> Self {
        let code = match &e {
            ReportError::Write { .. } => WRITE,
            _ => DATA,
        };
        Self::new(code, e.to_string())
    }
}

pub(super) fn run(args: &DemoArgs, json: bool) -> Result<u8, Failure> {
    let out = args
        .out
        .as_deref()
        .unwrap_or_else(|| Path::new("voxfit-demo"));
    let start = Instant::now();
    super::paths::not_among_slices("--out", out)?;
    super::forward::make_folder(out)?;
    let mut state = State::new(SettingsDir::none(), Waker::default());
    progress::with("demo", |c| play(&mut state, c))?;
    let Some(outcome) = &state.outcome else {
        return Err(Failure::new(DATA, "the demo's run gave no result"));
    };
    let result = outcome.result.clone();
    result.write(&out.join("result.json"))?;
    progress::check()?;
    let page = state.page();
    let figures = page.figures();
    let mut pictures = Vec::new();
    for (figure, name) in figures.iter().zip(["axial", "coronal", "sagittal"]) {
        let file = out.join(format!("{name}.png"));
        let bytes = figure.picture.png(name)?;
        files::write_whole("picture", &file, &bytes).map_err(|e| Failure::new(WRITE, e))?;
        pictures.push(file);
        progress::check()?;
    }
    let report = out.join("report.html");
    page.write(&figures, &report)?;
    if json {
        output::print_json(&json!({
            "study": DEMO_STUDY,
            "result": out.join("result.json"),
            "report": report,
            "pictures": pictures,
            "n_windows": result.n_windows,
            "n_detections": result.detections.len(),
            "seconds": start.elapsed().as_secs_f64(),
        }));
    } else {
        output::say(&format!(
            "{} windows, {} detections, {:.1} s in all",
            result.n_windows,
            result.detections.len(),
            start.elapsed().as_secs_f64()
        ));
        output::say(&format!("report: {}", report.display()));
        for p in &pictures {
            output::say(&format!("picture: {}", p.display()));
        }
    }
    Ok(0)
}

/// Sends the commands that a user of the window would.
fn play(state: &mut State, control: &Control) -> Result<(), Failure> {
    state.dispatch(Command::TryDemo);
    wait(state, control)?;
    if let Some(why) = state.why_not_run() {
        return Err(Failure::new(DATA, why));
    }
    state.dispatch(Command::Run);
    wait(state, control)
}

fn wait(state: &mut State, control: &Control) -> Result<(), Failure> {
    while !state.settle(Duration::from_millis(50)) {
        if let Some(run) = &state.run {
            let (done, _) = control.progress();
            control.set_total(run.total);
            control.advance(run.done.saturating_sub(done));
        }
        control.check()?;
    }
    match state
        .messages
        .iter()
        .find(|m| m.severity == crate::app::Severity::Error)
    {
        Some(m) => Err(Failure::new(DATA, m.detail.clone())),
        None => Ok(()),
    }
}
