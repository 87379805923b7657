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

/// Whether a file is DICOM, by its ending or by the head that it starts with. What is not a file is none.
pub fn is_dicom(path: &Path) -> bool {
    let named = path
        .extension()
        .and_then(|e| e.to_str())
        .is_some_and(|e| ["dcm", "dicom", "ima"].contains(&e.to_ascii_lowercase().as_str()));
    path.is_file() && (named || starts_as_dicom(path).unwrap_or(false))
}

fn starts_as_dicom(path: &Path) -> std::io::Result<bool> {
    use std::io::Read as _;
    let mut head = [0; 132];
    std::fs::File::open(path)?.read_exact(&mut head)?;
    Ok(head.ends_with(b"DICM"))
}

/// A DICOM file that lies in a folder, the first by name.
pub fn dicom_in(folder: &Path) -> Option<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .ok()?
        .filter_map(|e| e.ok().map(|e| e.path()))
        .collect();
    files.sort();
    files.into_iter().find(|f| is_dicom(f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dicom_file_is_known_by_its_head_and_by_its_ending() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("a.json"), "{}").unwrap();
        assert!(!is_dicom(&at("a.json")) && dicom_in(dir.path()).is_none());
        std::fs::write(at("b.DCM"), "").unwrap();
        std::fs::write(at("slice"), [&[0; 128][..], b"DICM"].concat()).unwrap();
        assert!(is_dicom(&at("b.DCM")) && is_dicom(&at("slice")));
        assert!(!is_dicom(dir.path()) && !is_dicom(&at("none.dcm")));
        assert_eq!(dicom_in(dir.path()), Some(at("b.DCM")));
    }

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
