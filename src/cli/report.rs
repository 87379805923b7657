//! `voxfit report`: one self-contained page from result and plan files.

use super::args::ReportArgs;
use super::failure::{DATA, Failure, USAGE, WRITE};
use super::{output, progress};
use crate::app::{Command, SettingsDir, State};
use crate::jobs::Waker;
use serde_json::json;
use std::time::Duration;

pub(super) fn run(args: &ReportArgs, json: bool) -> Result<u8, Failure> {
    let inputs: Vec<_> = args
        .inputs
        .iter()
        .map(|p| ("an input", p.as_path()))
        .collect();
    super::paths::distinct(&[("--out", &args.out)], &inputs)?;
    super::paths::spares_others("--out", &args.out, &[".html", ".htm"])?;
    crate::exchange::result::check_writable("report", &args.out)?;
    let mut state = State::new(SettingsDir::none(), Waker::default());
    progress::with("report", |control| {
        for input in &args.inputs {
            let ending = input
                .extension()
                .and_then(|e| e.to_str())
                .unwrap_or_default();
            if !input.is_dir() && !matches!(ending, "json" | "voxplan" | "onnx") {
                return Err(Failure::new(
                    USAGE,
                    format!(
                        "a report is made from result files (.json), plans (.voxplan) and networks (.onnx, nnU-Net's plans.json and folders, MONAI bundles): {}",
                        input.display()
                    ),
                ));
            }
            state.dispatch(Command::Open(input.clone()));
            while !state.settle(Duration::from_millis(50)) {
                control.check()?;
            }
        }
        let wrong = state
            .messages
            .iter()
            .find(|m| m.severity == crate::app::Severity::Error);
        match wrong {
            Some(m) => Err(Failure::new(DATA, m.detail.clone())),
            None => Ok(()),
        }
    })?;
    let page = state.page();
    page.write(&page.figures(), &args.out)
        .map_err(|e| Failure::new(WRITE, e.to_string()))?;
    if json {
        output::print_json(&json!({ "report": args.out }));
    } else {
        output::say(&format!("report: {}", args.out.display()));
    }
    Ok(0)
}
