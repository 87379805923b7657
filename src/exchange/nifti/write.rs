//! Writes `NIfTI`-1 volumes: sform always, qform too where the axes stand at right angles; beside and renamed.

use super::place::unit;
use super::{is_gz, is_nifti};
use crate::exchange::VolumeFileError;
use crate::exchange::beside::write_beside;
use crate::geometry::{Affine, dot};
use crate::jobs::{Cancelled, Control};
use crate::volume::{Volume, Voxels};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::Path;

/// Endings that are written.
const ENDINGS: &str = ".nii or .nii.gz";

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
pub(super) fn header_bytes(volume: &Volume, path: &Path) -> Result<Vec<u8>, VolumeFileError> {
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

/// The sign of the third axis and three parts of the unit quaternion, where the axes are at right angles (no shear)
/// and three numbers of four bytes say the turn: a hair from half a turn (0.06 degrees) they do not, and it is left out.
fn quaternion(a: &Affine) -> Option<(f64, [f64; 3])> {
    let [i, j, k] = a.directions();
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
    let (a, parts) = if trace > 0.5 {
        let a = 0.5 * trace.sqrt();
        let parts = [
            0.25 * (r32 - r23) / a,
            0.25 * (r13 - r31) / a,
            0.25 * (r21 - r12) / a,
        ];
        (a, parts)
    } else {
        without_trace([[r11, r12, r13], [r21, r22, r23], [r31, r32, r33]])
    };
    #[expect(clippy::cast_possible_truncation, reason = "what the file holds")]
    let [read, ..] = unit(parts.map(|v| f64::from(v as f32)));
    ((read - a).abs() < 3e-5).then_some((sign, parts))
}

/// The standard's way for rotations near half a turn; the first part comes out positive.
fn without_trace(r: [[f64; 3]; 3]) -> (f64, [f64; 3]) {
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
    if a < 0.0 {
        (-a, [-b, -c, -d])
    } else {
        (a, [b, c, d])
    }
}
