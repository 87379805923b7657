//! `NIfTI` volumes (.nii, .nii.gz, pairs of .hdr and .img; versions 1 and 2): RAS+ in the file, LPS here.

mod header;
mod place;
#[cfg(test)]
mod tests;
mod write;

pub use place::{ORIENTATION_ASSUMED, SPACING_ASSUMED};
pub use write::{write, write_until};

use super::volume_file::{
    Layout, Number, VolumeFileError, inflated_at_most, read_packed, read_values,
};
use crate::geometry::Extent;
use crate::tiling::PlanWarning;
use crate::volume::Volume;
use flate2::read::MultiGzDecoder;
use header::Header;
use place::placed;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

fn is_gz(path: &Path) -> bool {
    ends_with(path, ".gz")
}

fn ends_with(path: &Path, ending: &str) -> bool {
    path.file_name()
        .is_some_and(|n| n.to_string_lossy().to_ascii_lowercase().ends_with(ending))
}

/// Whether a name ends as `NIfTI` volumes that are written do.
pub fn is_nifti(path: &Path) -> bool {
    ends_with(path, ".nii") || ends_with(path, ".nii.gz")
}

/// Whether a name ends as a `NIfTI` volume that can be read does: pairs of .hdr and .img too.
pub fn is_nifti_input(path: &Path) -> bool {
    is_nifti(path)
        || [".hdr", ".img", ".hdr.gz", ".img.gz"]
            .iter()
            .any(|e| ends_with(path, e))
}

/// Reads a volume. A fourth axis of more than one entry is refused.
pub fn read(path: &Path) -> Result<Volume, VolumeFileError> {
    read_told(path).map(|(volume, _)| volume)
}

/// Reads a volume, and what is odd about the file.
pub fn read_told(path: &Path) -> Result<(Volume, Vec<PlanWarning>), VolumeFileError> {
    let path = &header_of(path);
    let mut stream = Stream::open(path)?;
    let header = read_header(&mut stream, path)?;
    let extent = extent(&header, path)?;
    let layout = layout(&header, path)?;
    let (affine, notes) = placed(&header);
    let (mut stream, data, at) = if header.pair {
        let data = image_of(path)?;
        (Stream::open(&data)?, data, 0)
    } else {
        (stream, path.clone(), header.size)
    };
    let room = stream.skip(&header, at, &data)?;
    let voxels = if stream.packed {
        read_packed(&mut stream.reader, extent, layout, room, &data)?
    } else {
        read_values(&mut stream.reader, extent, layout, room, &data)?
    };
    let volume = Volume {
        extent,
        affine,
        voxels,
        padding: None,
        is_hu: true,
        z_spacing_known: !notes.iter().any(|n| n.code == SPACING_ASSUMED),
    };
    Ok((volume, notes))
}

/// A file's bytes, unpacked where it is gzip.
struct Stream {
    reader: Box<dyn Read>,
    /// No more bytes than this can come.
    most: u64,
    packed: bool,
}

impl Stream {
    fn open(path: &Path) -> Result<Self, VolumeFileError> {
        let failed = VolumeFileError::read;
        let file = File::open(path).map_err(failed(path))?;
        let length = file.metadata().map_err(failed(path))?.len();
        let mut magic = Vec::new();
        (&file)
            .take(2)
            .read_to_end(&mut magic)
            .map_err(failed(path))?;
        let file = File::open(path).map_err(failed(path))?;
        let buffered = BufReader::with_capacity(1 << 20, file);
        Ok(if magic == [0x1F, 0x8B] {
            Self {
                reader: Box::new(MultiGzDecoder::new(buffered)),
                most: inflated_at_most(length),
                packed: true,
            }
        } else {
            Self {
                reader: Box::new(buffered),
                most: length,
                packed: false,
            }
        })
    }

    /// Goes from byte `at` to the voxels; how many bytes can follow.
    fn skip(&mut self, header: &Header, at: u64, path: &Path) -> Result<u64, VolumeFileError> {
        let offset = if header.offset == 0.0 && !header.pair {
            // Seen: writers that leave the field empty; the voxels then follow the header and four bytes.
            header.size + 4
        } else {
            whole(header.offset).filter(|&o| o >= at).ok_or_else(|| {
                VolumeFileError::format(
                    path,
                    format!(
                        "voxels start at byte {}, expected {at} or more",
                        header.offset
                    ),
                )
            })?
        };
        let skipped = std::io::copy(
            &mut self.reader.by_ref().take(offset - at),
            &mut std::io::sink(),
        );
        let skipped = skipped.map_err(VolumeFileError::read(path))?;
        if skipped < offset - at {
            return Err(VolumeFileError::format(
                path,
                format!("the file ends early: voxels start at byte {offset}, the file ends before"),
            ));
        }
        Ok(self.most.saturating_sub(offset))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be whole and within 2^53"
)]
fn whole(v: f64) -> Option<u64> {
    ((0.0..9.0e15).contains(&v) && v.fract() == 0.0).then_some(v as u64)
}

/// The header's file of a pair; any other name stays.
fn header_of(path: &Path) -> PathBuf {
    if ends_with(path, ".img") || ends_with(path, ".img.gz") {
        beside(path, ["hdr", "hdr.gz"]).unwrap_or_else(|| path.to_owned())
    } else {
        path.to_owned()
    }
}

/// The voxels' file of a pair.
fn image_of(path: &Path) -> Result<PathBuf, VolumeFileError> {
    beside(path, ["img", "img.gz"]).ok_or_else(|| {
        VolumeFileError::format(
            path,
            "the voxels of this header lie in a file .img or .img.gz of the same name, which is not there",
        )
    })
}

/// The file of the same name with one of these endings, in either case.
fn beside(path: &Path, endings: [&str; 2]) -> Option<PathBuf> {
    let stem = if is_gz(path) {
        path.with_extension("")
    } else {
        path.to_owned()
    };
    endings
        .iter()
        .flat_map(|e| [(*e).to_owned(), e.to_ascii_uppercase()])
        .map(|e| stem.with_extension(e))
        .find(|p| p.is_file())
}

fn read_header(stream: &mut Stream, path: &Path) -> Result<Header, VolumeFileError> {
    let failed = VolumeFileError::read;
    let mut bytes = Vec::new();
    let mut part = stream.reader.by_ref().take(header::START as u64);
    part.read_to_end(&mut bytes).map_err(failed(path))?;
    if (1..header::START).contains(&bytes.len()) {
        return Err(VolumeFileError::format(
            path,
            format!(
                "expected a NIfTI header of 348 bytes, found {} bytes",
                bytes.len()
            ),
        ));
    }
    let wanted = header::size_of(&bytes).map_err(|e| VolumeFileError::format(path, e))?;
    let left = wanted.saturating_sub(bytes.len()) as u64;
    let mut part = stream.reader.by_ref().take(left);
    part.read_to_end(&mut bytes).map_err(failed(path))?;
    Header::parse(&bytes).map_err(|e| VolumeFileError::format(path, e))
}

fn extent(header: &Header, path: &Path) -> Result<Extent, VolumeFileError> {
    let [n, sizes @ ..] = header.dim;
    let axes = usize::try_from(n).ok().filter(|n| (1..=7).contains(n));
    let Some(used) = axes.and_then(|n| sizes.get(..n)) else {
        return Err(VolumeFileError::format(
            path,
            format!("expected one to seven axes, found {n}"),
        ));
    };
    if used.iter().skip(3).any(|&d| d > 1) {
        return Err(VolumeFileError::format(
            path,
            format!("expected one volume of three axes, found axes {used:?}"),
        ));
    }
    let size = |axis: usize| match used.get(axis) {
        None => Some(1),
        Some(&d) => usize::try_from(d).ok().filter(|&d| d > 0),
    };
    match (size(0), size(1), size(2)) {
        (Some(x), Some(y), Some(z)) => Ok(Extent::new(x, y, z)),
        _ => Err(VolumeFileError::format(
            path,
            format!("expected voxels, found axes {used:?}"),
        )),
    }
}

fn layout(header: &Header, path: &Path) -> Result<Layout, VolumeFileError> {
    let number = match header.datatype {
        2 => Number::U8,
        256 => Number::I8,
        512 => Number::U16,
        4 => Number::I16,
        768 => Number::U32,
        8 => Number::I32,
        1024 => Number::I64,
        1280 => Number::U64,
        16 => Number::F32,
        64 => Number::F64,
        other => {
            let name = match other {
                1 => " (single bits)",
                32 | 1792 | 2048 => " (complex numbers)",
                128 | 2304 => " (colours)",
                1536 => " (128-bit floats)",
                _ => "",
            };
            return Err(VolumeFileError::format(
                path,
                format!("voxels of NIfTI type {other}{name}, expected whole or floating numbers"),
            ));
        }
    };
    // A slope of zero means "not scaled".
    let scaled = header.slope != 0.0 && header.slope.is_finite();
    Ok(Layout {
        number,
        big: header.big,
        slope: if scaled { header.slope } else { 1.0 },
        intercept: if scaled && header.intercept.is_finite() {
            header.intercept
        } else {
            0.0
        },
    })
}
