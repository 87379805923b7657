//! `.npy` volumes in `[k][j][i]` order: spacing 1 mm, values as stored.

use super::volume_file::{Layout, Number, VolumeFileError, read_values};
use crate::geometry::{Affine, Extent};
use crate::tiling::PlanWarning;
use crate::volume::{Volume, Voxels};
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};
use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _};
use std::path::Path;

/// A header longer than this is no header.
const HEADER_LIMIT: u32 = 1 << 20;

/// Reads a three-dimensional array as a volume.
pub fn read(path: &Path) -> Result<Volume, VolumeFileError> {
    let file = File::open(path).map_err(VolumeFileError::read(path))?;
    let length = file.metadata().map_err(VolumeFileError::read(path))?.len();
    let mut reader = BufReader::with_capacity(1 << 20, file);
    check_start(&mut reader, path)?;
    let header = NpyHeader::from_reader(&mut reader)
        .map_err(|e| VolumeFileError::format(path, format!("expected a .npy array ({e})")))?;
    let at = reader
        .stream_position()
        .map_err(VolumeFileError::read(path))?;
    let extent = extent(&header, path)?;
    let layout = layout(&header, path)?;
    let room = length.saturating_sub(at);
    let voxels = read_values(&mut reader, extent, layout, room, path)?;
    let voxels = match header.order() {
        Order::C => voxels,
        Order::Fortran => match voxels {
            Voxels::I16(v) => Voxels::I16(turned(&v, extent)),
            Voxels::F32(v) => Voxels::F32(turned(&v, extent)),
        },
    };
    Ok(Volume {
        extent,
        affine: Affine::axis_aligned([1.0; 3]),
        voxels,
        padding: None,
        is_hu: true,
        z_spacing_known: true,
    })
}

/// Reads a volume, and says that an array has neither spacing nor directions.
pub fn read_told(path: &Path) -> Result<(Volume, Vec<PlanWarning>), VolumeFileError> {
    let notes = vec![
        PlanWarning::new(
            super::nifti::SPACING_ASSUMED,
            "an array does not say its spacing: unknown, taken as 1 mm",
        ),
        PlanWarning::new(
            super::nifti::ORIENTATION_ASSUMED,
            "an array does not say which way its axes run: unknown, taken as left, posterior, superior",
        ),
    ];
    Ok((read(path)?, notes))
}

/// Holds the length that the header claims against reason before it is read, and goes back to the start.
fn check_start(reader: &mut BufReader<File>, path: &Path) -> Result<(), VolumeFileError> {
    let mut start = Vec::new();
    reader
        .by_ref()
        .take(12)
        .read_to_end(&mut start)
        .map_err(VolumeFileError::read(path))?;
    let claimed = match start.as_slice() {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => {
            u32::from(u16::from_le_bytes([*a, *b]))
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d] => {
            u32::from_le_bytes([*a, *b, *c, *d])
        }
        _ => {
            return Err(VolumeFileError::format(
                path,
                "expected a .npy array, found something else",
            ));
        }
    };
    if claimed > HEADER_LIMIT {
        return Err(VolumeFileError::format(
            path,
            format!("expected a .npy header of at most {HEADER_LIMIT} bytes, found {claimed}"),
        ));
    }
    reader.rewind().map_err(VolumeFileError::read(path))
}

/// From Fortran order (k fastest) to `[k][j][i]` (i fastest).
fn turned<T: Copy>(values: &[T], e: Extent) -> Vec<T> {
    let mut out = Vec::with_capacity(values.len());
    for k in 0..e.z {
        for j in 0..e.y {
            let row = values.get(j * e.z + k..).unwrap_or_default();
            out.extend(row.iter().step_by(e.y * e.z).take(e.x));
        }
    }
    out
}

fn extent(header: &NpyHeader, path: &Path) -> Result<Extent, VolumeFileError> {
    let sizes: Option<Vec<usize>> = header
        .shape()
        .iter()
        .map(|&n| usize::try_from(n).ok().filter(|&n| n > 0))
        .collect();
    match sizes.as_deref() {
        Some(&[z, y, x]) => Ok(Extent::new(x, y, z)),
        _ => Err(VolumeFileError::format(
            path,
            format!(
                "expected an array of three axes [k][j][i], found axes {:?}",
                header.shape()
            ),
        )),
    }
}

fn layout(header: &NpyHeader, path: &Path) -> Result<Layout, VolumeFileError> {
    let dtype = header.dtype();
    let unknown = || {
        VolumeFileError::format(
            path,
            format!(
                "expected whole or floating numbers, found {}",
                dtype.descr()
            ),
        )
    };
    let DType::Plain(kind) = &dtype else {
        return Err(unknown());
    };
    let number = match (kind.type_char(), kind.size_field()) {
        (TypeChar::Uint | TypeChar::Bool, 1) => Number::U8,
        (TypeChar::Int, 1) => Number::I8,
        (TypeChar::Uint, 2) => Number::U16,
        (TypeChar::Int, 2) => Number::I16,
        (TypeChar::Uint, 4) => Number::U32,
        (TypeChar::Int, 4) => Number::I32,
        (TypeChar::Uint, 8) => Number::U64,
        (TypeChar::Int, 8) => Number::I64,
        (TypeChar::Float, 2) => Number::F16,
        (TypeChar::Float, 4) => Number::F32,
        (TypeChar::Float, 8) => Number::F64,
        _ => return Err(unknown()),
    };
    Ok(Layout {
        number,
        big: kind.endianness() == Endianness::Big,
        slope: 1.0,
        intercept: 0.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use npyz::WriterBuilder as _;

    #[test]
    fn the_last_axis_of_the_array_is_x() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let mut writer = npyz::WriteOptions::new()
            .default_dtype()
            .shape(&[1, 2, 3])
            .writer(File::create(&path).unwrap())
            .begin_nd()
            .unwrap();
        writer.extend([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        writer.finish().unwrap();
        let v = read(&path).unwrap();
        assert_eq!(v.extent, Extent::new(3, 2, 1));
        assert_eq!(v.voxels, Voxels::I16(vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(v.affine.spacing_mm(), [1.0; 3]);
    }

    /// An array file by hand: version 1, this descr, order and shape.
    fn array(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
        let order = if fortran { "True" } else { "False" };
        let text = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let length = u16::try_from(text.len()).unwrap().to_le_bytes();
        [
            b"\x93NUMPY\x01\x00",
            length.as_slice(),
            text.as_bytes(),
            data,
        ]
        .concat()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Volume, VolumeFileError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        std::fs::write(&path, bytes).unwrap();
        read(&path)
    }

    #[test]
    fn fortran_order_and_big_endian_give_the_same_volume() {
        // Shape (2, 2, 3): k and j of 2, i of 3; value 100 k + 10 j + i.
        let value = |k: u16, j: u16, i: u16| 100 * k + 10 * j + i;
        let mut c = Vec::new();
        let mut f = Vec::new();
        for k in 0..2 {
            for j in 0..2 {
                for i in 0..3 {
                    c.extend(value(k, j, i).to_le_bytes());
                }
            }
        }
        for i in 0..3 {
            for j in 0..2 {
                for k in 0..2 {
                    f.extend(value(k, j, i).to_be_bytes());
                }
            }
        }
        let c = from_bytes(&array("'<u2'", false, "(2, 2, 3)", &c)).unwrap();
        let f = from_bytes(&array("'>u2'", true, "(2, 2, 3)", &f)).unwrap();
        assert_eq!(c, f);
        assert_eq!(c.at([2, 1, 1]), Some(112.0));
    }

    #[test]
    fn half_floats_and_truth_values_are_numbers() {
        let half = from_bytes(&array(
            "'<f2'",
            false,
            "(1, 1, 2)",
            &[0x00, 0x3C, 0x00, 0xB8],
        ));
        assert_eq!(half.unwrap().voxels, Voxels::F32(vec![1.0, -0.5]));
        let truth = from_bytes(&array("'|b1'", false, "(1, 1, 2)", &[1, 0]));
        assert_eq!(truth.unwrap().voxels, Voxels::I16(vec![1, 0]));
    }

    #[test]
    fn bad_headers_are_refused_without_memory() {
        for (bytes, word) in [
            (
                b"\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF".to_vec(),
                "at most 1048576 bytes",
            ),
            (b"hello".to_vec(), "something else"),
            (b"\x93NUMPY\x01\x00\x40\x00{'desc".to_vec(), ".npy array"),
            (
                array("'<i2'", false, "(99999, 99999, 99999)", &[0; 6]),
                "room for 6 bytes",
            ),
            (array("'<i2'", false, "(2, 3)", &[0; 12]), "three axes"),
            (array("'<i2'", false, "(0, 2, 3)", &[]), "three axes"),
            (array("'<c8'", false, "(1, 1, 1)", &[0; 8]), "found"),
            (array("'|O'", false, "(1, 1, 1)", &[0; 8]), "npy"),
        ] {
            let e = from_bytes(&bytes).unwrap_err().to_string();
            assert!(e.contains(word), "{e}");
        }
    }
}
