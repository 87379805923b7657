//! Outputs that would overwrite what they are made from, refused before anything runs.

use super::failure::{Failure, USAGE};
use crate::app::files;
use crate::study::{Opened, StudyKind};
use std::path::{Path, PathBuf};

/// The place that a path names, as far as it exists.
fn place(path: &Path) -> PathBuf {
    if let Ok(whole) = path.canonicalize() {
        return whole;
    }
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_path_buf(),
    }
}

/// Whether both names stand for one file, by hard links too. A pipe is not opened: that would wait for its other end.
fn is_same_file(a: &Path, b: &Path) -> bool {
    a.is_file() && b.is_file() && same_file::is_same_file(a, b).is_ok_and(|same| same)
}

/// Refuses outputs that are slices of the opened study, whatever the path that it was opened by.
pub(super) fn spares_slices(outputs: &[(&str, &Path)], opened: &Opened) -> Result<(), Failure> {
    let StudyKind::Dicom { series } = &opened.kind else {
        return Ok(());
    };
    let folder = match series.root.parent() {
        Some(parent) if series.root.is_file() => parent,
        _ => &series.root,
    };
    for (word, path) in outputs.iter().filter(|(_, path)| path.is_file()) {
        let hit = series
            .slice_infos()
            .into_iter()
            .find(|s| is_same_file(&folder.join(&s.file), path));
        if let Some(slice) = hit {
            return Err(Failure::new(
                USAGE,
                format!(
                    "{word} would overwrite the slice {} of the study; give it another path: {}",
                    slice.file,
                    path.display()
                ),
            ));
        }
    }
    Ok(())
}

/// Refuses an output that is another output or one of the inputs. The word beside a path names it in the sentence.
pub(super) fn distinct(outputs: &[(&str, &Path)], inputs: &[(&str, &Path)]) -> Result<(), Failure> {
    let outputs: Vec<_> = outputs.iter().map(|&(w, p)| (w, p, place(p))).collect();
    let inputs: Vec<_> = inputs.iter().map(|&(w, p)| (w, p, place(p))).collect();
    for (i, (word, path, at)) in outputs.iter().enumerate() {
        let same = outputs
            .iter()
            .take(i)
            .chain(&inputs)
            .find(|(_, input, other)| other == at || is_same_file(input, path));
        if let Some((other, _, _)) = same {
            return Err(Failure::new(
                USAGE,
                format!(
                    "{word} would overwrite {other}; give it another path: {}",
                    path.display()
                ),
            ));
        }
    }
    Ok(())
}

/// Refuses an output whose place is taken by a file of another kind, which is not Voxfit's to replace. An empty file holds nothing.
pub(super) fn spares_others(word: &str, path: &Path, endings: &[&str]) -> Result<(), Failure> {
    let holds = path.metadata().is_ok_and(|m| m.is_file() && m.len() > 0);
    let name = path.to_string_lossy().to_lowercase();
    let what = if files::is_dicom(path) {
        "a DICOM file".to_owned()
    } else if holds && !endings.iter().any(|e| name.ends_with(e)) {
        format!(
            "a file that is there and does not end in {}",
            endings.join(" or ")
        )
    } else {
        return Ok(());
    };
    Err(Failure::new(
        USAGE,
        format!(
            "{word} would replace {what}; give it another path: {}",
            path.display()
        ),
    ))
}

/// Refuses to write into a folder of DICOM files.
pub(super) fn not_among_slices(word: &str, folder: &Path) -> Result<(), Failure> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let Some(slice) = files::dicom_in(folder) else {
        return Ok(());
    };
    Err(Failure::new(
        USAGE,
        format!(
            "{word} would write among DICOM files ({}); name a folder without any: {}",
            slice.file_name().unwrap_or_default().to_string_lossy(),
            folder.display()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_kind_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let check = |name: &str| spares_others("--out", &at(name), &[".json"]);
        for name in ["r.json", "notes.txt", "s.dcm"] {
            assert!(check(name).is_ok(), "{name} is not there yet");
        }
        assert!(not_among_slices("--out", folder.path()).is_ok());
        std::fs::write(at("r.json"), "{}").unwrap();
        std::fs::write(at("notes.txt"), "mine").unwrap();
        std::fs::write(at("empty.txt"), "").unwrap();
        assert!(check("r.json").is_ok() && check("empty.txt").is_ok());
        assert!(check("notes.txt").is_err());
        std::fs::write(at("s.dcm"), "x").unwrap();
        std::fs::write(at("r.json"), [&[0; 128][..], b"DICM"].concat()).unwrap();
        assert!(check("s.dcm").is_err() && check("r.json").is_err());
        assert!(not_among_slices("--out", folder.path()).is_err());
    }

    #[test]
    fn an_output_that_is_an_input_by_a_hard_link_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (study, link) = (
            folder.path().join("study.nii"),
            folder.path().join("r.json"),
        );
        std::fs::write(&study, b"x").unwrap();
        std::fs::hard_link(&study, &link).unwrap();
        let said = distinct(&[("--out", &link)], &[("the study", &study)]);
        assert!(said.is_err());
        let elsewhere = folder.path().join("other.json");
        assert!(distinct(&[("--out", &elsewhere)], &[("the study", &study)]).is_ok());
    }
}
