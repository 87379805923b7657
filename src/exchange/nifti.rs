//! NIfTI-1 volumes (.nii, .nii.gz): read with sform or qform, written with both; RAS+ in the file, LPS here.

use super::beside::write_beside;
use super::volume_file::{Layout, Number, VolumeFileError, read_values};
use crate::geometry::{Affine, Extent};
use crate::jobs::{Cancelled, Control};
use crate::volume::{Volume, Voxels};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use nifti::{Endianness, NiftiHeader};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

/// Endings that are written.
const ENDINGS: &str = ".nii or .nii.gz";

fn is_gz(path: &Path) -> bool {
    ends_with(path, ".gz")
}

fn ends_with(path: &Path, ending: &str) -> bool {
    path.file_name()
        .is_some_and(|n| n.to_string_lossy().to_ascii_lowercase().ends_with(ending))
}

/// Whether a name ends as `NIfTI` volumes do.
pub fn is_nifti(path: &Path) -> bool {
    ends_with(path, ".nii") || ends_with(path, ".nii.gz")
}

/// Reads a volume. A fourth axis of more than one entry is refused.
pub fn read(path: &Path) -> Result<Volume, VolumeFileError> {
    let file = File::open(path).map_err(VolumeFileError::read(path))?;
    let mut magic = [0u8; 2];
    let gz = {
        let mut start = &file;
        start.read_exact(&mut magic).map_err(|_short| {
            VolumeFileError::format(path, "expected NIfTI, found an empty file")
        })?;
        magic == [0x1F, 0x8B]
    };
    let file = File::open(path).map_err(VolumeFileError::read(path))?;
    let buffered = BufReader::with_capacity(1 << 20, file);
    if gz {
        read_from(&mut MultiGzDecoder::new(buffered), path)
    } else {
        let mut buffered = buffered;
        read_from(&mut buffered, path)
    }
}

fn read_from(reader: &mut impl Read, path: &Path) -> Result<Volume, VolumeFileError> {
    let mut bytes = [0u8; 348];
    reader.read_exact(&mut bytes).map_err(|e| {
        VolumeFileError::format(path, format!("expected a NIfTI header of 348 bytes ({e})"))
    })?;
    let header = NiftiHeader::from_reader(bytes.as_slice()).map_err(|e| {
        VolumeFileError::format(path, format!("expected NIfTI, found something else ({e})"))
    })?;
    if &header.magic != b"n+1\0" {
        return Err(VolumeFileError::format(
            path,
            "expected a NIfTI-1 file with header and voxels in one (magic \"n+1\"); convert the pair to one .nii",
        ));
    }
    let extent = extent(&header, path)?;
    let layout = layout(&header, path)?;
    skip(reader, &header, path)?;
    let voxels = read_values(reader, extent, layout, path)?;
    Ok(Volume {
        extent,
        affine: affine(&header),
        voxels,
        padding: None,
        is_hu: true,
        z_spacing_known: true,
    })
}

/// Goes from the end of the header to the voxels.
fn skip(reader: &mut impl Read, header: &NiftiHeader, path: &Path) -> Result<(), VolumeFileError> {
    let offset = f64::from(header.vox_offset);
    if !(348.0..1.0e9).contains(&offset) {
        return Err(VolumeFileError::format(
            path,
            format!("voxels start at byte {offset}, expected 352 or more"),
        ));
    }
    let mut left = offset - 348.0;
    let mut byte = [0u8; 1];
    while left >= 1.0 {
        reader
            .read_exact(&mut byte)
            .map_err(VolumeFileError::read(path))?;
        left -= 1.0;
    }
    Ok(())
}

fn extent(header: &NiftiHeader, path: &Path) -> Result<Extent, VolumeFileError> {
    let [n, x, y, z, rest @ ..] = header.dim;
    let used = usize::from(n).saturating_sub(3);
    if !(2..=7).contains(&n) || rest.iter().take(used).any(|&d| d > 1) {
        return Err(VolumeFileError::format(
            path,
            format!(
                "expected one volume of three axes, found axes {:?}",
                header
                    .dim
                    .get(1..=usize::from(n.min(7)))
                    .unwrap_or_default()
            ),
        ));
    }
    let z = if n == 2 { 1 } else { z };
    let extent = Extent::new(x.into(), y.into(), z.into());
    if extent.is_empty() {
        return Err(VolumeFileError::format(
            path,
            format!("expected voxels, found a size of {extent}"),
        ));
    }
    Ok(extent)
}

fn layout(header: &NiftiHeader, path: &Path) -> Result<Layout, VolumeFileError> {
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
            return Err(VolumeFileError::format(
                path,
                format!("voxels of NIfTI type {other}, expected whole or floating numbers"),
            ));
        }
    };
    // A slope of zero means "not scaled".
    let scaled = header.scl_slope != 0.0 && header.scl_slope.is_finite();
    Ok(Layout {
        number,
        big: header.endianness == Endianness::Big,
        slope: if scaled { header.scl_slope.into() } else { 1.0 },
        intercept: if scaled && header.scl_inter.is_finite() {
            header.scl_inter.into()
        } else {
            0.0
        },
    })
}

/// The affine in LPS: sform where there is one, else qform, else the voxel sizes alone.
fn affine(header: &NiftiHeader) -> Affine {
    let unit = match header.xyzt_units & 7 {
        1 => 1000.0,
        3 => 0.001,
        _ => 1.0,
    };
    let rows: [[f64; 4]; 3] = if header.sform_code > 0 {
        [header.srow_x, header.srow_y, header.srow_z].map(|r| r.map(f64::from))
    } else if header.qform_code > 0 {
        from_quaternion(header)
    } else {
        let [_, x, y, z, ..] = header.pixdim.map(|p| f64::from(p.abs()));
        [[x, 0.0, 0.0, 0.0], [0.0, y, 0.0, 0.0], [0.0, 0.0, z, 0.0]]
    };
    // RAS to LPS: x and y change sign.
    let [x, y, z] = rows;
    let (x, y, z) = (
        x.map(|v| -v * unit),
        y.map(|v| -v * unit),
        z.map(|v| v * unit),
    );
    let ([x0, x1, x2, x3], [y0, y1, y2, y3], [z0, z1, z2, z3]) = (x, y, z);
    Affine {
        step: [[x0, y0, z0], [x1, y1, z1], [x2, y2, z2]],
        origin: [x3, y3, z3],
    }
}

/// The standard's method 2: a rotation from three quaternion parts, voxel sizes, and a sign for the third axis.
fn from_quaternion(header: &NiftiHeader) -> [[f64; 4]; 3] {
    let [q, dx, dy, dz, ..] = header.pixdim.map(f64::from);
    let (b, c, d) = (
        f64::from(header.quatern_b),
        f64::from(header.quatern_c),
        f64::from(header.quatern_d),
    );
    let a = (1.0 - b * b - c * c - d * d).max(0.0).sqrt();
    let z = if q < 0.0 { -dz } else { dz };
    [
        [
            (a * a + b * b - c * c - d * d) * dx,
            (2.0 * b * c - 2.0 * a * d) * dy,
            (2.0 * b * d + 2.0 * a * c) * z,
            header.quatern_x.into(),
        ],
        [
            (2.0 * b * c + 2.0 * a * d) * dx,
            (a * a + c * c - b * b - d * d) * dy,
            (2.0 * c * d - 2.0 * a * b) * z,
            header.quatern_y.into(),
        ],
        [
            (2.0 * b * d - 2.0 * a * c) * dx,
            (2.0 * c * d + 2.0 * a * b) * dy,
            (a * a + d * d - c * c - b * b) * z,
            header.quatern_z.into(),
        ],
    ]
}

/// Writes a volume; the ending says whether it is compressed. Written beside and renamed.
pub fn write(volume: &Volume, path: &Path) -> Result<(), VolumeFileError> {
    write_until(volume, path, &Control::new())
}

/// As [`write()`], and a cancel before the rename leaves nothing behind.
pub fn write_until(volume: &Volume, path: &Path, control: &Control) -> Result<(), VolumeFileError> {
    if !is_nifti(path) {
        return Err(VolumeFileError::Ending {
            expected: ENDINGS,
            found: path
                .file_name()
                .map_or_else(String::new, |n| n.to_string_lossy().into_owned()),
            path: path.to_owned(),
        });
    }
    let header = header_bytes(volume, path)?;
    let all = |w: &mut dyn Write| -> std::io::Result<()> {
        w.write_all(&header)?;
        write_voxels(volume, w, control)
    };
    let written = write_beside(path, |w| {
        if is_gz(path) {
            let mut gz = GzEncoder::new(w, Compression::fast());
            all(&mut gz)?;
            gz.finish().map(|_| ())?;
        } else {
            all(w)?;
        }
        control.check().map_err(std::io::Error::other)
    });
    match written {
        Err(e) if e.get_ref().is_some_and(|e| e.is::<Cancelled>()) => Err(Cancelled.into()),
        done => done.map_err(VolumeFileError::write(path)),
    }
}

fn write_voxels(volume: &Volume, w: &mut dyn Write, control: &Control) -> std::io::Result<()> {
    match &volume.voxels {
        Voxels::I16(values) => values.chunks(1 << 15).try_for_each(|c| {
            control.check().map_err(std::io::Error::other)?;
            let bytes: Vec<u8> = c.iter().flat_map(|v| v.to_le_bytes()).collect();
            w.write_all(&bytes)
        }),
        Voxels::F32(values) => values.chunks(1 << 15).try_for_each(|c| {
            control.check().map_err(std::io::Error::other)?;
            let bytes: Vec<u8> = c.iter().flat_map(|v| v.to_le_bytes()).collect();
            w.write_all(&bytes)
        }),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "NIfTI-1 keeps float32")]
fn single(value: f64) -> f32 {
    value as f32
}

/// The 348 bytes of the header and the four that say "no extension".
fn header_bytes(volume: &Volume, path: &Path) -> Result<Vec<u8>, VolumeFileError> {
    let axis = |n: usize| {
        i16::try_from(n).map_err(|_large| {
            VolumeFileError::format(
                path,
                format!("an axis of {n} voxels, but NIfTI-1 holds at most 32767"),
            )
        })
    };
    let [x, y, z] = volume.extent.to_array();
    let dims = [3, axis(x)?, axis(y)?, axis(z)?, 1, 1, 1, 1];
    let (datatype, bits): (i16, i16) = match volume.voxels {
        Voxels::I16(_) => (4, 16),
        Voxels::F32(_) => (16, 32),
    };
    let spacing = volume.affine.spacing_mm();
    let rows = ras_rows(&volume.affine);
    let quaternion = quaternion(&volume.affine);
    let (sign, [qb, qc, qd]) = quaternion.unwrap_or((1.0, [0.0; 3]));
    let mut out = Vec::with_capacity(352);
    out.extend(348i32.to_le_bytes());
    out.extend([0u8; 36]);
    for d in dims {
        out.extend(d.to_le_bytes());
    }
    out.extend([0u8; 14]);
    out.extend(datatype.to_le_bytes());
    out.extend(bits.to_le_bytes());
    out.extend(0i16.to_le_bytes());
    let [sx, sy, sz] = spacing.map(single);
    for p in [single(sign), sx, sy, sz, 0.0, 0.0, 0.0, 0.0] {
        out.extend(p.to_le_bytes());
    }
    for v in [352.0f32, 1.0, 0.0] {
        out.extend(v.to_le_bytes());
    }
    // slice_end, slice_code, then units: mm and seconds.
    out.extend([0u8, 0, 0, 2 | 8]);
    out.extend([0u8; 24]);
    let mut text = [0u8; 104];
    for (to, from) in text.iter_mut().zip(b"Voxfit") {
        *to = *from;
    }
    out.extend(text);
    out.extend(i16::from(quaternion.is_some()).to_le_bytes());
    out.extend(1i16.to_le_bytes());
    let [[.., ox], [.., oy], [.., oz]] = rows;
    for v in [qb, qc, qd, ox, oy, oz] {
        out.extend(single(v).to_le_bytes());
    }
    for row in rows {
        for v in row {
            out.extend(single(v).to_le_bytes());
        }
    }
    out.extend([0u8; 16]);
    out.extend(b"n+1\0");
    out.extend([0u8; 4]);
    Ok(out)
}

/// Rows of the affine in RAS.
fn ras_rows(a: &Affine) -> [[f64; 4]; 3] {
    let [[x0, y0, z0], [x1, y1, z1], [x2, y2, z2]] = a.step;
    let [ox, oy, oz] = a.origin;
    [[-x0, -x1, -x2, -ox], [-y0, -y1, -y2, -oy], [z0, z1, z2, oz]]
}

/// The sign of the third axis and three parts of the unit quaternion, where the axes are at right angles (no shear).
fn quaternion(a: &Affine) -> Option<(f64, [f64; 3])> {
    let [i, j, k] = a.directions();
    let dot = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    if dot(i, j).abs().max(dot(i, k).abs()).max(dot(j, k).abs()) > 1e-5 {
        return None;
    }
    let ([ix, iy, iz], [jx, jy, jz], [kx, ky, kz]) = (i, j, k);
    // RAS: x and y change sign; the handedness stays.
    let sign = if a.determinant() < 0.0 { -1.0 } else { 1.0 };
    let (r11, r21, r31) = (-ix, -iy, iz);
    let (r12, r22, r32) = (-jx, -jy, jz);
    let (r13, r23, r33) = (-kx * sign, -ky * sign, kz * sign);
    let trace = r11 + r22 + r33 + 1.0;
    let parts = if trace > 0.5 {
        let a = 0.5 * trace.sqrt();
        [
            0.25 * (r32 - r23) / a,
            0.25 * (r13 - r31) / a,
            0.25 * (r21 - r12) / a,
        ]
    } else {
        without_trace([[r11, r12, r13], [r21, r22, r23], [r31, r32, r33]])
    };
    Some((sign, parts))
}

/// The standard's way for rotations near half a turn; the first part comes out positive.
fn without_trace(r: [[f64; 3]; 3]) -> [f64; 3] {
    let [[r11, r12, r13], [r21, r22, r23], [r31, r32, r33]] = r;
    let (xd, yd, zd) = (
        1.0 + r11 - (r22 + r33),
        1.0 + r22 - (r11 + r33),
        1.0 + r33 - (r11 + r22),
    );
    let (a, [b, c, d]) = if xd > 1.0 {
        let b = 0.5 * xd.sqrt();
        (
            0.25 * (r32 - r23) / b,
            [b, 0.25 * (r12 + r21) / b, 0.25 * (r13 + r31) / b],
        )
    } else if yd > 1.0 {
        let c = 0.5 * yd.sqrt();
        (
            0.25 * (r13 - r31) / c,
            [0.25 * (r12 + r21) / c, c, 0.25 * (r23 + r32) / c],
        )
    } else {
        let d = 0.5 * zd.sqrt();
        (
            0.25 * (r21 - r12) / d,
            [0.25 * (r13 + r31) / d, 0.25 * (r23 + r32) / d, d],
        )
    };
    if a < 0.0 { [-b, -c, -d] } else { [b, c, d] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn volume(affine: Affine, voxels: Voxels) -> Volume {
        Volume {
            extent: Extent::new(3, 2, 2),
            affine,
            voxels,
            padding: None,
            is_hu: true,
            z_spacing_known: true,
        }
    }

    fn there_and_back(v: &Volume, name: &str) -> Volume {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        write(v, &path).unwrap();
        read(&path).unwrap()
    }

    fn close(a: &Affine, b: &Affine) {
        let flat = |a: &Affine| [a.step.concat(), a.origin.to_vec()].concat();
        for (x, y) in flat(a).iter().zip(flat(b)) {
            assert!((x - y).abs() < 1e-4 * (1.0 + y.abs()), "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_sheared_volume_reads_back_exactly() {
        let sheared = Affine {
            step: [[0.75, 0.0, 0.0], [0.0, 0.75, 0.25], [0.0, -0.5, 2.0]],
            origin: [-100.5, 20.0, 736.25],
        };
        let values: Vec<i16> = (-6..6).map(|v| v * 5000).collect();
        let v = volume(sheared, Voxels::I16(values));
        assert_eq!(there_and_back(&v, "a.nii"), v);
        assert_eq!(there_and_back(&v, "b.nii.gz"), v);
    }

    #[test]
    fn fractional_values_stay_fractional() {
        let values = (0..12)
            .map(|v| 0.5 * f32::from(i16::try_from(v).unwrap()))
            .collect();
        let v = volume(Affine::axis_aligned([1.0, 2.0, 4.0]), Voxels::F32(values));
        assert_eq!(there_and_back(&v, "a.nii"), v);
    }

    #[test]
    fn a_wrong_ending_is_refused() {
        let v = volume(Affine::axis_aligned([1.0; 3]), Voxels::I16(vec![0; 12]));
        let error = write(&v, Path::new("x.mha")).unwrap_err().to_string();
        assert!(error.contains(".nii or .nii.gz"), "{error}");
    }

    #[test]
    fn a_text_file_is_no_volume() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.nii");
        std::fs::write(&path, "hello").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("348 bytes"), "{error}");
    }

    proptest! {
        /// Rotations and mirrored axes: the qform says what the sform says.
        #[test]
        fn the_quaternion_tells_the_same_axes_as_the_matrix(
            a in -3.1f64..3.1, b in -1.5f64..1.5, c in -3.1f64..3.1, mirror in any::<bool>(),
        ) {
            let ((sa, ca), (sb, cb), (sc, cc)) = (a.sin_cos(), b.sin_cos(), c.sin_cos());
            let i = [ca * cb, sa * cb, -sb];
            let j = [ca * sb * sc - sa * cc, sa * sb * sc + ca * cc, cb * sc];
            let mut k = [ca * sb * cc + sa * sc, sa * sb * cc - ca * sc, cb * cc];
            if mirror {
                k = k.map(|v| -v);
            }
            let affine = Affine {
                step: [i.map(|v| v * 0.5), j.map(|v| v * 0.75), k.map(|v| v * 2.0)],
                origin: [1.0, -2.0, 3.0],
            };
            let v = volume(affine, Voxels::I16(vec![0; 12]));
            let bytes = header_bytes(&v, Path::new("x")).unwrap();
            let mut header = NiftiHeader::from_reader(&bytes[..348]).unwrap();
            prop_assert_eq!(header.qform_code, 1);
            header.sform_code = 0;
            close(&super::affine(&header), &affine);
        }
    }
}
