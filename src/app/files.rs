//! Writing whole files: beside their place first, then renamed, so that nothing is ever half-written.

use std::path::Path;

/// Writes `bytes` to a temporary file in the same folder and renames it to `path`; an error is one sentence.
pub fn write_whole(what: &'static str, path: &Path, bytes: &[u8]) -> Result<(), String> {
    crate::exchange::result::write_beside(what, path, |out| out.write_all(bytes))
        .map_err(|e| e.to_string())
}

/// Reads a plan file; an error is one sentence.
pub fn read_plan(path: &Path) -> Result<super::Document, String> {
    std::fs::read(path)
        .map_err(|e| e.to_string())
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|e| e.to_string()))
        .map_err(|e| format!("expected a .voxplan file: {e}: {}", path.display()))
}

/// Makes a folder with all above it.
pub fn make_folder(path: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        assert!(write_whole("text", &dir.path().join("no").join("x.json"), b"1").is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        write_whole("text", &dir.path().join("x.json"), b"1").unwrap();
        write_whole("text", &dir.path().join("x.json"), b"2").unwrap();
        assert_eq!(std::fs::read(dir.path().join("x.json")).unwrap(), b"2");
    }
}
