//! Writing whole files: beside their place first, then renamed, so that nothing is ever half-written.

use std::io::Write as _;
use std::path::Path;

/// Writes `bytes` to a temporary file in the same folder and renames it to `path`.
pub fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let dir = match path.parent() {
        Some(d) if !d.as_os_str().is_empty() => d,
        _ => Path::new("."),
    };
    let mut beside = tempfile::NamedTempFile::new_in(dir)?;
    beside.write_all(bytes)?;
    beside.as_file().sync_all()?;
    beside.persist(path).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        assert!(write_whole(&dir.path().join("no").join("x.json"), b"1").is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        write_whole(&dir.path().join("x.json"), b"1").unwrap();
        write_whole(&dir.path().join("x.json"), b"2").unwrap();
        assert_eq!(std::fs::read(dir.path().join("x.json")).unwrap(), b"2");
    }
}
