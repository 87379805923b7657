//! DICOMDIR: which files its records name, and where they are; never outside of its own folder.

use super::dataset::DataSet;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file IDs of all records, part by part. Record offsets are not needed, so wrong or missing ones do no harm.
pub(super) fn references(set: &DataSet<'_>) -> Vec<Vec<String>> {
    set.get(0x0004_1220)
        .map(|records| {
            records
                .items()
                .map(|item| DataSet::of_item(item).codes(0x0004_1500))
                .filter(|parts| !parts.is_empty())
                .map(|parts| split(&parts))
                .collect()
        })
        .unwrap_or_default()
}

/// Seen: file IDs written as one path with slashes, where each part should be a value of its own.
fn split(parts: &[String]) -> Vec<String> {
    parts
        .iter()
        .flat_map(|p| p.split('/'))
        .map(str::to_owned)
        .collect()
}

/// Finds what references name; each folder is listed once at most.
#[derive(Debug, Default)]
pub(super) struct Resolver {
    /// Names of a folder's entries by what is left of them without case, version and closing dot.
    listed: BTreeMap<PathBuf, BTreeMap<String, PathBuf>>,
}

impl Resolver {
    /// The file that a reference names, or why it is not read.
    pub(super) fn resolve(&mut self, folder: &Path, parts: &[String]) -> Result<PathBuf, String> {
        let odd = |p: &String| {
            p.is_empty() || p == "." || p == ".." || p.contains(['/', '\\', ':', '\0'])
        };
        if parts.iter().any(odd) {
            return Err("a reference out of the DICOMDIR's folder; not followed".to_owned());
        }
        let mut path = folder.to_path_buf();
        for part in parts {
            let exact = path.join(part);
            path = if exact.exists() {
                exact
            } else {
                self.listed(&path)
                    .get(&bare(part))
                    .cloned()
                    .ok_or("named in the DICOMDIR, but the file is missing; copy the whole disc")?
            };
        }
        Ok(path)
    }

    fn listed(&mut self, folder: &Path) -> &BTreeMap<String, PathBuf> {
        self.listed.entry(folder.to_owned()).or_insert_with(|| {
            let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
                .map(|entries| entries.flatten().map(|e| e.path()).collect())
                .unwrap_or_default();
            found.sort();
            let mut out = BTreeMap::new();
            for path in found {
                if let Some(name) = path.file_name() {
                    let name = bare(&name.to_string_lossy());
                    out.entry(name).or_insert(path);
                }
            }
            out
        })
    }
}

/// Seen: discs copied to systems that turn names to lower case or keep ISO 9660's `IM1.;1`, with a DICOMDIR that says `IM1`.
fn bare(name: &str) -> String {
    let name = name.split_once(';').map_or(name, |(name, _)| name);
    name.trim_end_matches('.').to_lowercase()
}
