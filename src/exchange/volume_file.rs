//! What volume files share: errors, values as they come turned into int16 or float32.

use super::beside::advice;
use crate::geometry::Extent;
use crate::volume::{Voxels, whole_i16};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A volume file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeFileError {
    /// The system refused to read.
    #[error("cannot read the volume ({source}); check the path and the permissions: {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// The system refused to write; nothing is left behind.
    #[error("cannot write the volume ({source}){}: {}", advice(source, "; check space and permissions of the folder"), path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// The file is not what its ending says, or holds what cannot be a volume.
    #[error("cannot read the volume: {reason}: {}", path.display())]
    Format {
        /// What was expected and found.
        reason: String,
        /// The file.
        path: PathBuf,
    },
    /// The volume does not fit the machine's memory.
    #[error("cannot read the volume: it says {voxels} voxels, which the machine's memory does not hold: {}", path.display())]
    Memory {
        /// Voxels as the header says.
        voxels: u64,
        /// The file.
        path: PathBuf,
    },
    /// The file's name ends in no known way.
    #[error("cannot tell the kind of volume file: expected a name ending in {expected}, found \"{found}\": {}", path.display())]
    Ending {
        /// Endings that are known.
        expected: &'static str,
        /// What was found.
        found: String,
        /// The file.
        path: PathBuf,
    },
    /// The user stopped it.
    #[error(transparent)]
    Cancelled(#[from] crate::jobs::Cancelled),
}

impl VolumeFileError {
    pub(super) fn format(path: &Path, reason: impl Into<String>) -> Self {
        Self::Format {
            reason: reason.into(),
            path: path.to_owned(),
        }
    }

    pub(super) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Read { path, source }
    }

    pub(super) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Write { path, source }
    }
}

/// How a number is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    U8,
    I8,
    F16,
    U16,
    I16,
    U32,
    I32,
    I64,
    U64,
    F32,
    F64,
}

impl Number {
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// The value of little- or big-endian bytes.
    fn value(self, bytes: &[u8], big: bool) -> f64 {
        let mut b = [0u8; 8];
        for (to, from) in b.iter_mut().zip(bytes) {
            *to = *from;
        }
        if big && let Some(used) = b.get_mut(..self.bytes()) {
            used.reverse();
        }
        let [b0, b1, b2, b3, ..] = b;
        match self {
            Self::U8 => f64::from(b0),
            Self::I8 => f64::from(b0.cast_signed()),
            Self::U16 => f64::from(u16::from_le_bytes([b0, b1])),
            Self::I16 => f64::from(i16::from_le_bytes([b0, b1])),
            Self::F16 => half::f16::from_le_bytes([b0, b1]).to_f64(),
            Self::U32 => f64::from(u32::from_le_bytes([b0, b1, b2, b3])),
            Self::I32 => f64::from(i32::from_le_bytes([b0, b1, b2, b3])),
            Self::F32 => f64::from(f32::from_le_bytes([b0, b1, b2, b3])),
            Self::I64 => i64::from_le_bytes(b) as f64,
            Self::U64 => u64::from_le_bytes(b) as f64,
            Self::F64 => f64::from_le_bytes(b),
        }
    }
}

/// How the values of a file are stored and scaled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) number: Number,
    pub(super) big: bool,
    pub(super) slope: f64,
    pub(super) intercept: f64,
}

#[expect(clippy::cast_possible_truncation, reason = "nearest float32 is meant")]
fn narrow(value: f64) -> f32 {
    value as f32
}

/// Reads all values of a volume: int16 as long as every value is whole and fits, else float32. A file that ends early is an error;
/// `room` is how many bytes can come at most, so that a claim beyond it is refused before memory is asked for.
pub(super) fn read_values(
    reader: &mut impl Read,
    extent: Extent,
    layout: Layout,
    room: u64,
    path: &Path,
) -> Result<Voxels, VolumeFileError> {
    let expected = extent
        .checked_voxels()
        .ok_or_else(|| VolumeFileError::Memory {
            voxels: u64::MAX,
            path: path.to_owned(),
        })?;
    let each = layout.number.bytes();
    if (expected as u64)
        .checked_mul(each as u64)
        .is_none_or(|n| n > room)
    {
        return Err(VolumeFileError::format(
            path,
            format!(
                "the file ends early: it says {extent} voxels of {each} byte(s) and has room for {room} bytes of them at most"
            ),
        ));
    }
    let plain = layout.number == Number::I16 && layout.slope == 1.0 && layout.intercept == 0.0;
    let mut voxels = Voxels::I16(Vec::new());
    let mut buffer = vec![0u8; each << 16];
    let mut done = 0;
    while done < expected {
        let want = (expected - done).min(1 << 16);
        let part = buffer.get_mut(..want * each).unwrap_or_default();
        reader.read_exact(part).map_err(|e| {
            if e.kind() == std::io::ErrorKind::UnexpectedEof {
                VolumeFileError::format(
                    path,
                    format!(
                        "the file ends early: expected {expected} voxels of {each} byte(s), found fewer than {}",
                        done + want
                    ),
                )
            } else {
                VolumeFileError::read(path)(e)
            }
        })?;
        // Grown as the file gives: a header cannot claim memory that its file does not fill.
        let refused = match &mut voxels {
            Voxels::I16(v) => v.try_reserve(want),
            Voxels::F32(v) => v.try_reserve(want),
        };
        if refused.is_err() {
            return Err(VolumeFileError::Memory {
                voxels: expected as u64,
                path: path.to_owned(),
            });
        }
        if plain && let Voxels::I16(v) = &mut voxels {
            let words = part.as_chunks::<2>().0.iter();
            if layout.big {
                v.extend(words.map(|&w| i16::from_be_bytes(w)));
            } else {
                v.extend(words.map(|&w| i16::from_le_bytes(w)));
            }
            done += want;
            continue;
        }
        for bytes in part.chunks_exact(each) {
            let raw = layout.number.value(bytes, layout.big);
            push(&mut voxels, raw * layout.slope + layout.intercept);
        }
        done += want;
    }
    Ok(voxels)
}

/// How many bytes can come of so many deflated ones: no deflated byte stands for more than 1032.
pub(super) fn inflated_at_most(deflated: u64) -> u64 {
    deflated.saturating_mul(1032)
}

/// As [`read_values`], of packed voxels: read to the end, since a packed file proves its bytes by the checksum that stands there.
pub(super) fn read_packed(
    reader: &mut impl Read,
    extent: Extent,
    layout: Layout,
    room: u64,
    path: &Path,
) -> Result<Voxels, VolumeFileError> {
    let voxels = read_values(reader, extent, layout, room, path)?;
    std::io::copy(reader, &mut std::io::sink()).map_err(|e| {
        VolumeFileError::format(
            path,
            format!("the file is damaged after its voxels or in them ({e}); copy it again"),
        )
    })?;
    Ok(voxels)
}

fn push(voxels: &mut Voxels, value: f64) {
    match voxels {
        Voxels::I16(v) => {
            if let Some(value) = whole_i16(value) {
                v.push(value);
            } else {
                let mut all: Vec<f32> = v.iter().map(|&x| f32::from(x)).collect();
                all.push(narrow(value));
                *voxels = Voxels::F32(all);
            }
        }
        Voxels::F32(v) => v.push(narrow(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout {
        number: Number::U16,
        big: false,
        slope: 1.0,
        intercept: 0.0,
    };

    #[test]
    fn values_beyond_int16_turn_the_volume_to_float_without_loss() {
        let bytes = [1u8, 0, 0xFF, 0xFF];
        let got = read_values(
            &mut bytes.as_slice(),
            Extent::new(2, 1, 1),
            LAYOUT,
            4,
            Path::new("x"),
        );
        assert_eq!(got.unwrap(), Voxels::F32(vec![1.0, 65535.0]));
    }

    #[test]
    fn a_file_that_ends_early_is_said_and_claims_no_memory() {
        let error = read_values(
            &mut [0u8; 6].as_slice(),
            Extent::new(60_000, 60_000, 60_000),
            LAYOUT,
            6,
            Path::new("x.nii"),
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains("room for 6 bytes"), "{error}");
        // A packed file may claim more than it turns out to hold.
        let error = read_values(
            &mut [0u8; 6].as_slice(),
            Extent::new(60_000, 60_000, 60_000),
            LAYOUT,
            u64::MAX,
            Path::new("x.nii"),
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains("found fewer than"), "{error}");
    }
}
