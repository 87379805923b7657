//! `MetaImage` volumes (.mha in one file, .mhd with its data beside), LPS as the format has it.

use super::volume_file::{Layout, Number, VolumeFileError, read_values};
use crate::geometry::{Affine, Extent};
use crate::volume::Volume;
use flate2::read::ZlibDecoder;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Component, Path, PathBuf};

/// A header longer than this is no header.
const HEADER_LIMIT: u64 = 1 << 20;

/// Whether a name ends as `MetaImage` headers do.
pub fn is_metaimage(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("mhd") || e.eq_ignore_ascii_case("mha"))
}

type Fields = BTreeMap<String, String>;

/// Reads a volume.
pub fn read(path: &Path) -> Result<Volume, VolumeFileError> {
    let file = File::open(path).map_err(VolumeFileError::read(path))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let fields = fields(&mut reader, path)?;
    let extent = extent(&fields, path)?;
    let layout = layout(&fields, path)?;
    let affine = affine(&fields, path)?;
    let named = fields.get("elementdatafile").map_or("", String::as_str);
    let voxels = if named.eq_ignore_ascii_case("LOCAL") {
        values(reader, &fields, extent, layout, path)?
    } else {
        let data = beside(path, named)?;
        let file = File::open(&data).map_err(VolumeFileError::read(&data))?;
        let reader = BufReader::with_capacity(1 << 20, file);
        values(reader, &fields, extent, layout, &data)?
    };
    Ok(Volume {
        extent,
        affine,
        voxels,
        padding: None,
        is_hu: true,
        z_spacing_known: true,
    })
}

fn fields(reader: &mut impl BufRead, path: &Path) -> Result<Fields, VolumeFileError> {
    let mut out = Fields::new();
    let mut limited = reader.take(HEADER_LIMIT);
    loop {
        let mut line = Vec::new();
        let n = limited
            .read_until(b'\n', &mut line)
            .map_err(VolumeFileError::read(path))?;
        let text = String::from_utf8_lossy(&line);
        let Some((key, value)) = text.split_once('=') else {
            let what = if n == 0 {
                "no ElementDataFile line"
            } else {
                "a line that is not \"key = value\""
            };
            return Err(VolumeFileError::format(
                path,
                format!("expected a MetaImage header, found {what}"),
            ));
        };
        let key = key.trim().to_ascii_lowercase();
        let last = key == "elementdatafile";
        out.insert(key, value.trim().to_owned());
        if last {
            return Ok(out);
        }
    }
}

fn numbers<const N: usize>(
    fields: &Fields,
    keys: &[&str],
    path: &Path,
) -> Result<Option<[f64; N]>, VolumeFileError> {
    let Some((key, text)) = keys.iter().find_map(|k| fields.get(*k).map(|v| (*k, v))) else {
        return Ok(None);
    };
    let parsed: Option<Vec<f64>> = text
        .split_whitespace()
        .map(|p| p.parse::<f64>().ok().filter(|v| v.is_finite()))
        .collect();
    parsed
        .and_then(|v| v.try_into().ok())
        .map(Some)
        .ok_or_else(|| {
            VolumeFileError::format(
                path,
                format!("expected {N} numbers for {key}, found \"{text}\""),
            )
        })
}

fn extent(fields: &Fields, path: &Path) -> Result<Extent, VolumeFileError> {
    let dims = fields.get("ndims").map_or("", String::as_str);
    let text = fields.get("dimsize").map_or("", String::as_str);
    let sizes: Option<Vec<usize>> = text.split_whitespace().map(|p| p.parse().ok()).collect();
    match (dims, sizes.as_deref()) {
        ("3", Some(&[x, y, z])) if x > 0 && y > 0 && z > 0 => Ok(Extent::new(x, y, z)),
        _ => Err(VolumeFileError::format(
            path,
            format!(
                "expected NDims = 3 and three sizes, found NDims = {dims} and DimSize = {text}"
            ),
        )),
    }
}

fn layout(fields: &Fields, path: &Path) -> Result<Layout, VolumeFileError> {
    let kind = fields.get("elementtype").map_or("", String::as_str);
    let number = match kind {
        "MET_UCHAR" => Number::U8,
        "MET_CHAR" => Number::I8,
        "MET_USHORT" => Number::U16,
        "MET_SHORT" => Number::I16,
        "MET_UINT" | "MET_ULONG" => Number::U32,
        "MET_INT" | "MET_LONG" => Number::I32,
        "MET_LONG_LONG" => Number::I64,
        "MET_ULONG_LONG" => Number::U64,
        "MET_FLOAT" => Number::F32,
        "MET_DOUBLE" => Number::F64,
        _ => {
            return Err(VolumeFileError::format(
                path,
                format!("expected whole or floating numbers, found ElementType = {kind}"),
            ));
        }
    };
    let channels = fields
        .get("elementnumberofchannels")
        .map_or("1", String::as_str);
    if channels != "1" {
        return Err(VolumeFileError::format(
            path,
            format!("expected one value for each voxel, found {channels}"),
        ));
    }
    let says = |key: &str| {
        fields
            .get(key)
            .is_some_and(|v| v.eq_ignore_ascii_case("true"))
    };
    Ok(Layout {
        number,
        big: says("binarydatabyteordermsb") || says("elementbyteordermsb"),
        slope: 1.0,
        intercept: 0.0,
    })
}

fn affine(fields: &Fields, path: &Path) -> Result<Affine, VolumeFileError> {
    let spacing = numbers::<3>(fields, &["elementspacing", "elementsize"], path)?;
    let [x, y, z] = spacing.unwrap_or([1.0; 3]);
    let origin = numbers::<3>(fields, &["offset", "position", "origin"], path)?;
    let matrix = numbers::<9>(
        fields,
        &["transformmatrix", "rotation", "orientation"],
        path,
    )?;
    // Each axis of voxels is one triple: the format writes columns of the direction matrix one after the other.
    let [a, b, c, d, e, f, g, h, i] =
        matrix.unwrap_or([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    Ok(Affine {
        step: [
            [a * x, b * x, c * x],
            [d * y, e * y, f * y],
            [g * z, h * z, i * z],
        ],
        origin: origin.unwrap_or_default(),
    })
}

/// The data file that a header names: beside it, never elsewhere.
fn beside(path: &Path, named: &str) -> Result<PathBuf, VolumeFileError> {
    let relative = Path::new(named);
    let inside = !named.is_empty()
        && !named.contains('%')
        && named != "LIST"
        && relative
            .components()
            .all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    if inside {
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        return Ok(folder.join(relative));
    }
    Err(VolumeFileError::format(
        path,
        format!("expected one data file beside the header, found ElementDataFile = {named}"),
    ))
}

fn values(
    mut reader: impl Read,
    fields: &Fields,
    extent: Extent,
    layout: Layout,
    path: &Path,
) -> Result<crate::volume::Voxels, VolumeFileError> {
    let says = |key: &str| fields.get(key).map(String::as_str);
    if says("compresseddata").is_some_and(|v| v.eq_ignore_ascii_case("true")) {
        return read_values(&mut ZlibDecoder::new(reader), extent, layout, path);
    }
    match says("headersize").and_then(|v| v.parse::<i64>().ok()) {
        None | Some(0) => {}
        Some(n) if n > 0 => {
            let skipped = std::io::copy(
                &mut reader.by_ref().take(n.unsigned_abs()),
                &mut std::io::sink(),
            );
            skipped.map_err(VolumeFileError::read(path))?;
        }
        Some(n) => {
            return Err(VolumeFileError::format(
                path,
                format!("a header size of {n} is not supported, expected 0 or more"),
            ));
        }
    }
    read_values(&mut reader, extent, layout, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::Voxels;
    use std::io::Write as _;

    const HEADER: &str = "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\nTransformMatrix = 1 0 0 0 0 -1 0 1 0\nOffset = -10 20 30\nElementSpacing = 0.5 0.75 2\nDimSize = 2 1 2\nElementType = MET_SHORT\n";

    #[test]
    fn a_volume_in_one_file_and_with_its_data_beside_are_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let at = |p: &str| folder.path().join(p);
        let data: Vec<u8> = [1i16, -2, 3, -4]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        let local = [
            format!("{HEADER}ElementDataFile = LOCAL\n").as_bytes(),
            &data,
        ]
        .concat();
        std::fs::write(at("a.mha"), local).unwrap();
        std::fs::write(at("b.mhd"), format!("{HEADER}ElementDataFile = b.raw\n")).unwrap();
        std::fs::write(at("b.raw"), &data).unwrap();
        let mut z = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        z.write_all(&data).unwrap();
        std::fs::write(
            at("c.mhd"),
            format!("CompressedData = True\n{HEADER}ElementDataFile = c.zraw\n"),
        )
        .unwrap();
        std::fs::write(at("c.zraw"), z.finish().unwrap()).unwrap();
        let a = read(&at("a.mha")).unwrap();
        assert_eq!(a, read(&at("b.mhd")).unwrap());
        assert_eq!(a, read(&at("c.mhd")).unwrap());
        assert_eq!(a.voxels, Voxels::I16(vec![1, -2, 3, -4]));
        assert_eq!(a.affine.step[1], [0.0, 0.0, -0.75]);
        assert_eq!(a.affine.step[2], [0.0, 2.0, 0.0]);
        assert_eq!(a.affine.origin, [-10.0, 20.0, 30.0]);
    }

    #[test]
    fn a_header_that_points_out_of_its_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mhd");
        for named in [
            "../secret.raw",
            "/etc/passwd",
            "LIST",
            "slice%03d.raw 1 3 1",
        ] {
            std::fs::write(&path, format!("{HEADER}ElementDataFile = {named}\n")).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains("beside the header"), "{error}");
        }
    }
}
