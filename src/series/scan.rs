//! Finds the files of a study and reads their headers in parallel.

use super::dicomdir;
use super::group;
use super::header::{FileHeader, Lost, Parsed, parse};
use super::{Scan, SeriesError, Skipped};
use crate::jobs::{Cancelled, Control};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Most headers are shorter than this.
const FIRST_READ: u64 = 32 << 10;
/// No header is longer than this.
const HEADER_LIMIT: u64 = 1 << 30;

/// Opening one could wait for ever.
const NOT_A_FILE: &str = "a pipe, socket or device, not a file";

/// A file that belongs to a series by its UID but cannot be used.
#[derive(Clone, Debug)]
pub(super) struct Damaged {
    pub(super) name: String,
    pub(super) lost: Lost,
    pub(super) reason: String,
}

/// What a file, a folder (with its subfolders) or a DICOMDIR holds, from headers alone.
pub fn scan(path: &Path, control: &Control) -> Result<Scan, SeriesError> {
    let found = std::fs::metadata(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => SeriesError::NotFound {
            path: path.to_owned(),
        },
        _ => SeriesError::Io {
            path: path.to_owned(),
            source,
        },
    })?;
    if found.is_dir() {
        let (files, skipped) = list(path, control)?;
        if files.is_empty() && skipped.is_empty() {
            return Err(SeriesError::EmptyFolder {
                path: path.to_owned(),
            });
        }
        return scan_files(path, path, files, skipped, control);
    }
    if !found.is_file() {
        return Err(SeriesError::NotAnImage {
            path: path.to_owned(),
            reason: NOT_A_FILE.to_owned(),
        });
    }
    let root = path.parent().unwrap_or_else(|| Path::new(""));
    let name = relative(root, path);
    match read_header(path) {
        Err(source) => Err(SeriesError::Io {
            path: path.to_owned(),
            source,
        }),
        Ok(Parsed::Image(header)) => {
            let header = FileHeader {
                path: path.to_owned(),
                name,
                ..*header
            };
            Ok(Scan {
                series: group::series(path, vec![header], &[]),
                skipped: Vec::new(),
            })
        }
        Ok(Parsed::Directory(references)) => {
            let (files, skipped) = referenced(root, &references);
            scan_files(path, root, files, skipped, control)
        }
        Ok(Parsed::Other { reason, .. } | Parsed::NeedsMore { reason, .. }) => {
            Err(SeriesError::NotAnImage {
                path: path.to_owned(),
                reason,
            })
        }
    }
}

fn referenced(root: &Path, references: &[Vec<String>]) -> (Vec<PathBuf>, Vec<Skipped>) {
    let (mut files, mut skipped) = (Vec::new(), Vec::new());
    let real_root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let mut resolver = dicomdir::Resolver::default();
    for parts in references {
        let inside = resolver.resolve(root, parts).and_then(|file| {
            let real = file.canonicalize().map_err(|e| e.to_string())?;
            if real.starts_with(&real_root) && real.is_file() {
                Ok(file)
            } else {
                Err("a link out of the DICOMDIR's folder; not followed".to_owned())
            }
        });
        match inside {
            Ok(file) => files.push(file),
            Err(reason) => skipped.push(Skipped {
                file: parts.join("/"),
                reason,
            }),
        }
    }
    files.sort();
    files.dedup();
    (files, skipped)
}

/// All files below a folder in the order of their names; links are followed only where they stay inside.
fn list(root: &Path, control: &Control) -> Result<(Vec<PathBuf>, Vec<Skipped>), SeriesError> {
    let (mut files, mut skipped) = (Vec::new(), Vec::new());
    let real_root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    for entry in walkdir::WalkDir::new(root).sort_by_file_name() {
        control.check()?;
        match entry {
            Ok(e) if e.file_type().is_file() => files.push(e.into_path()),
            Ok(e) if e.path_is_symlink() && e.depth() > 0 => {
                let inside = e
                    .path()
                    .canonicalize()
                    .is_ok_and(|p| p.starts_with(&real_root));
                if !inside {
                    skipped.push(Skipped {
                        file: relative(root, e.path()),
                        reason: "a link that leads out of the folder; not followed".to_owned(),
                    });
                }
            }
            Ok(e) if e.file_type().is_dir() || e.path_is_symlink() => {}
            Ok(e) => skipped.push(Skipped {
                file: relative(root, e.path()),
                reason: NOT_A_FILE.to_owned(),
            }),
            Err(e) => match (e.depth(), e.path()) {
                (0, _) | (_, None) => {
                    return Err(SeriesError::Io {
                        path: root.to_owned(),
                        source: e.into(),
                    });
                }
                (_, Some(p)) => skipped.push(Skipped {
                    file: relative(root, p),
                    reason: "cannot be read; check its permissions".to_owned(),
                }),
            },
        }
    }
    Ok((files, skipped))
}

/// What became of the files so far.
#[derive(Default)]
struct Sorted {
    images: Vec<FileHeader>,
    damaged: Vec<Damaged>,
    skipped: Vec<Skipped>,
    /// Files that directories name.
    named: Vec<PathBuf>,
}

impl Sorted {
    fn put(&mut self, root: &Path, file: PathBuf, parsed: std::io::Result<Parsed>, follow: bool) {
        let name = relative(root, &file);
        let (reason, lost) = match parsed {
            Ok(Parsed::Image(header)) => {
                self.images.push(FileHeader {
                    path: file,
                    name,
                    ..*header
                });
                return;
            }
            Ok(Parsed::Directory(references)) => {
                // Seen: discs whose DICOMDIR names one directory file for each study and series.
                if follow {
                    let (files, skipped) = referenced(root, &references);
                    self.named.extend(files);
                    self.skipped.extend(skipped);
                }
                ("a DICOMDIR, not a slice".to_owned(), Lost::Nothing)
            }
            Ok(Parsed::Other { reason, lost } | Parsed::NeedsMore { reason, lost }) => {
                (reason, lost)
            }
            Err(e) => (format!("cannot be read ({e})"), Lost::Nothing),
        };
        self.damaged.push(Damaged {
            name: name.clone(),
            lost,
            reason: reason.clone(),
        });
        self.skipped.push(Skipped { file: name, reason });
    }
}

/// Reads the headers of files, and (for a DICOMDIR) of the files that directories among them name.
fn scan_files(
    path: &Path,
    root: &Path,
    files: Vec<PathBuf>,
    skipped: Vec<Skipped>,
    control: &Control,
) -> Result<Scan, SeriesError> {
    let follow = !path.is_dir();
    let mut seen: BTreeSet<PathBuf> = files.iter().cloned().collect();
    let mut wave = files;
    let mut sorted = Sorted {
        skipped,
        ..Sorted::default()
    };
    while !wave.is_empty() {
        control.set_total(seen.len() as u64);
        let parsed: Vec<(PathBuf, std::io::Result<Parsed>)> = wave
            .into_par_iter()
            .map(|file| {
                control.check()?;
                let parsed = read_header(&file);
                control.advance(1);
                Ok((file, parsed))
            })
            .collect::<Result<_, Cancelled>>()?;
        for (file, parsed) in parsed {
            sorted.put(root, file, parsed, follow);
        }
        wave = std::mem::take(&mut sorted.named);
        wave.retain(|f| seen.insert(f.clone()));
    }
    let Sorted {
        images,
        damaged,
        mut skipped,
        ..
    } = sorted;
    skipped.sort_by(|a, b| a.file.cmp(&b.file));
    skipped.dedup();
    if images.is_empty() {
        return Err(SeriesError::NoImages {
            path: path.to_owned(),
            skipped,
        });
    }
    Ok(Scan {
        series: group::series(path, images, &damaged),
        skipped,
    })
}

/// A path below the root with forward slashes.
fn relative(root: &Path, file: &Path) -> String {
    let inner = file.strip_prefix(root).unwrap_or(file);
    inner
        .components()
        .map(|c| c.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

/// Reads as much of a file as its header takes.
fn read_header(path: &Path) -> std::io::Result<Parsed> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    let mut want = FIRST_READ;
    loop {
        let more = want.min(length).saturating_sub(bytes.len() as u64);
        let before = bytes.len();
        file.by_ref().take(more).read_to_end(&mut bytes)?;
        let whole = bytes.len() as u64 >= length || bytes.len() == before;
        match parse(&bytes, length, whole) {
            Parsed::NeedsMore { lost, reason } if whole || want >= HEADER_LIMIT => {
                return Ok(Parsed::Other { reason, lost });
            }
            Parsed::NeedsMore { .. } => want = want.saturating_mul(16),
            done => return Ok(done),
        }
    }
}
