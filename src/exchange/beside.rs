//! Writing a file in one go: filled beside its place, renamed once all of it is on disk. Links are followed, devices are
//! written to and never replaced, named pipes refused.

use std::fs::File;
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Where the bytes go: into a device at once, or into a file beside the one that they become.
enum Place {
    Device(File),
    Beside(NamedTempFile, PathBuf),
}

impl Place {
    fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return Err(Error::new(
                ErrorKind::IsADirectory,
                "it is a folder; give the name of a file",
            ));
        }
        if is_named_pipe(path) {
            return Err(Error::other(
                "it is a named pipe; give a file, or /dev/stdout",
            ));
        }
        if std::fs::metadata(path).is_ok_and(|m| !m.is_file()) {
            let device = std::fs::OpenOptions::new().write(true).open(path)?;
            return Ok(Self::Device(device));
        }
        let target = followed(path);
        if !folder(&target).exists() {
            return Err(Error::new(
                ErrorKind::NotFound,
                "its folder is missing; make the folder, or give another path",
            ));
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(".voxfit-").suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // As any new file: the user's mask decides.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder
            .tempfile_in(folder(&target))
            .map_err(without_temporary_name)?;
        Ok(Self::Beside(file, target))
    }
}

/// Writes `path` in one go; a write that fails leaves what was there before, and nothing beside it.
pub(super) fn write_beside(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    match Place::open(path)? {
        Place::Device(mut device) => write(&mut device),
        Place::Beside(mut file, target) => {
            {
                let mut buffered = BufWriter::with_capacity(1 << 20, file.as_file_mut());
                write(&mut buffered)?;
                buffered.flush()?;
            }
            file.as_file().sync_all()?;
            file.persist(target).map_err(|e| e.error)?;
            Ok(())
        }
    }
}

/// Whether `path` can be written at all, asked before minutes of work; leaves nothing behind.
pub(super) fn check_writable(path: &Path) -> Result<()> {
    match Place::open(path)? {
        Place::Device(mut device) => device.write_all(b"\n"),
        Place::Beside(mut probe, _) => {
            probe.write_all(&[0; 4096])?;
            probe.as_file().sync_all()
        }
    }
}

/// What to do, unless the system's words are ours and say it.
pub(super) fn advice(e: &Error, what: &'static str) -> &'static str {
    if e.get_ref().is_some() && matches!(e.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) {
        ""
    } else {
        what
    }
}

/// The file that a link stands for, also one that is not there yet.
fn followed(path: &Path) -> PathBuf {
    let mut at = path.to_path_buf();
    // A chain longer than the system itself follows is left to the system to refuse.
    for _ in 0..40 {
        let Ok(next) = std::fs::read_link(&at) else {
            break;
        };
        at = folder(&at).join(next);
    }
    at
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

/// The system's words without the name of a file that the user never asked for.
fn without_temporary_name(e: Error) -> Error {
    if e.get_ref().is_some() {
        e.kind().into()
    } else {
        e
    }
}

/// A pipe with a name in the file system: opening it waits for a reader that may never come.
#[cfg(unix)]
fn is_named_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|m| m.file_type().is_fifo()) && path.canonicalize().is_ok()
}

#[cfg(not(unix))]
fn is_named_pipe(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_behind_when_writing_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.bin");
        let failed = write_beside(&path, |w| {
            w.write_all(b"half")?;
            Err(Error::other("full"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        write_beside(&path, |w| w.write_all(b"whole")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_given_as_output_stays_a_link_and_its_file_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::os::unix::fs::symlink("real", &link).unwrap();
        for text in [&b"first"[..], b"second"] {
            write_beside(&link, |w| w.write_all(text)).unwrap();
            assert!(link.symlink_metadata().unwrap().is_symlink());
            assert_eq!(std::fs::read(&real).unwrap(), text);
        }
    }
}
