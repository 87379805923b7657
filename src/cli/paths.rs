//! Outputs that would overwrite what they are made from, refused before anything runs.

use super::failure::{Failure, USAGE};
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

#[cfg(test)]
mod tests {
    use super::*;

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
