//! `.npy` volumes in `[k][j][i]` order: spacing 1 mm, values as stored.

use super::volume_file::{Layout, Number, VolumeFileError, read_values};
use crate::geometry::{Affine, Extent};
use crate::volume::Volume;
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Reads a three-dimensional array as a volume.
pub fn read(path: &Path) -> Result<Volume, VolumeFileError> {
    let file = File::open(path).map_err(VolumeFileError::read(path))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let header = NpyHeader::from_reader(&mut reader)
        .map_err(|e| VolumeFileError::format(path, format!("expected a .npy array ({e})")))?;
    let extent = extent(&header, path)?;
    let layout = layout(&header, path)?;
    let voxels = read_values(&mut reader, extent, layout, path)?;
    Ok(Volume {
        extent,
        affine: Affine::axis_aligned([1.0; 3]),
        voxels,
        padding: None,
        is_hu: true,
        z_spacing_known: true,
    })
}

fn extent(header: &NpyHeader, path: &Path) -> Result<Extent, VolumeFileError> {
    let sizes: Option<Vec<usize>> = header
        .shape()
        .iter()
        .map(|&n| usize::try_from(n).ok().filter(|&n| n > 0))
        .collect();
    match sizes.as_deref() {
        Some(&[z, y, x]) if header.order() == Order::C => Ok(Extent::new(x, y, z)),
        _ => Err(VolumeFileError::format(
            path,
            format!(
                "expected an array of three axes [k][j][i] in C order, found axes {:?} in {:?} order",
                header.shape(),
                header.order()
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
    use crate::volume::Voxels;
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
}
