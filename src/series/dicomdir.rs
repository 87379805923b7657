//! DICOMDIR: which files its records name, and where they are; never outside of its own folder.

use super::dataset::DataSet;
use std::path::{Path, PathBuf};

/// The file IDs of all records, part by part. Record offsets are not needed, so wrong or missing ones do no harm.
pub(super) fn references(set: &DataSet<'_>) -> Vec<Vec<String>> {
    set.get(0x0004_1220)
        .map(|records| {
            records
                .items()
                .map(|item| DataSet::of_item(item).codes(0x0004_1500))
                .filter(|parts| !parts.is_empty())
                .collect()
        })
        .unwrap_or_default()
}

/// The file that a reference names, or why it is not read.
pub(super) fn resolve(folder: &Path, parts: &[String]) -> Result<PathBuf, String> {
    let odd =
        |p: &String| p.is_empty() || p == "." || p == ".." || p.contains(['/', '\\', ':', '\0']);
    if parts.iter().any(odd) {
        return Err("a reference out of the DICOMDIR's folder; not followed".to_owned());
    }
    let mut path = folder.to_path_buf();
    for part in parts {
        let exact = path.join(part);
        path = if exact.exists() {
            exact
        } else {
            same_but_for_case(&path, part)
                .ok_or("named in the DICOMDIR, but the file is missing; copy the whole disc")?
        };
    }
    Ok(path)
}

/// Seen: discs copied to systems that turn names to lower case, with a DICOMDIR that keeps upper case.
fn same_but_for_case(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().eq_ignore_ascii_case(name))
        .map(|e| e.path())
        .collect();
    found.sort();
    found.into_iter().next()
}
