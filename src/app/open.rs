//! What a path is: a plan, a result, a network, or a study. Argument, drop and dialog all come here.

use super::command::Command;
use super::state::Severity;
use super::work::News;
use crate::exchange::result::RunResult;
use crate::network::{self, Model};
use std::path::PathBuf;

/// Looks at a path (on a job's thread) and says what to do with it. What STUDY and MODEL may be besides a path is known too.
pub(super) fn what_is(path: PathBuf, model: Option<&Model>) -> News {
    match path.to_str() {
        Some(text) if text.starts_with("phantom:") => {
            return News::Then(Command::OpenStudy(text.to_owned()));
        }
        Some(text) if text.starts_with("preset:") => {
            return News::Then(Command::SetNetwork(text.to_owned()));
        }
        _ => {}
    }
    let failed = |text: String| News::Said(Severity::Error, "It cannot be opened".to_owned(), text);
    let ending = path
        .extension()
        .map(|e| e.to_string_lossy().to_ascii_lowercase())
        .unwrap_or_default();
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().to_ascii_lowercase())
        .unwrap_or_default();
    if !path.exists() {
        return failed(format!(
            "nothing is there; check the path: {}",
            path.display()
        ));
    }
    let text = path.to_string_lossy().into_owned();
    if path.is_dir() {
        return News::Then(if network::is_network_folder(&path) {
            Command::SetNetwork(text)
        } else {
            Command::OpenStudy(text)
        });
    }
    match ending.as_str() {
        "voxplan" => plan(path),
        "onnx" => News::Then(Command::SetNetwork(text)),
        "json" if name == "plans.json" || name.ends_with("plans.json") => {
            News::Then(Command::SetNetwork(text))
        }
        "json" => match RunResult::read(&path) {
            Ok(result) => {
                let same = model.is_some_and(|m| m.sha256() == result.network.sha256);
                News::Result(path, Box::new(result), same)
            }
            Err(e) => failed(e.to_string()),
        },
        _ => News::Then(Command::OpenStudy(text)),
    }
}

fn plan(path: PathBuf) -> News {
    match super::files::read_plan(&path) {
        Ok(document) => News::Plan(path, Box::new(document)),
        Err(e) => News::NoPlan(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_study_and_a_preset_open_as_a_path_does() {
        let said = |text: &str| format!("{:?}", what_is(text.into(), None));
        assert!(said("phantom:64x64x32").contains("OpenStudy(\"phantom:64x64x32\")"));
        assert!(said("preset:demo").contains("SetNetwork(\"preset:demo\")"));
        assert!(said("no such file").contains("nothing is there"));
    }
}
