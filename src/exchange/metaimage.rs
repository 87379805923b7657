//! `MetaImage` volumes (.mha in one file, .mhd with its data beside), LPS as the format has it.

use super::volume_file::{
    Layout, Number, VolumeFileError, inflated_at_most, read_packed, read_values,
};
use crate::geometry::{Affine, Extent};
use crate::tiling::PlanWarning;
use crate::volume::{Volume, Voxels};
use flate2::read::ZlibDecoder;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _};
use std::path::{Component, Path, PathBuf};

/// A header longer than this is no header.
const HEADER_LIMIT: u64 = 1 << 20;
/// More files than any volume has slices.
const MOST_FILES: usize = 100_000;

/// Whether a name ends as `MetaImage` headers do.
pub fn is_metaimage(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("mhd") || e.eq_ignore_ascii_case("mha"))
}

type Fields = BTreeMap<String, String>;

/// Reads a volume.
pub fn read(path: &Path) -> Result<Volume, VolumeFileError> {
    read_told(path).map(|(volume, _)| volume)
}

/// Reads a volume, and what is odd about the file.
pub fn read_told(path: &Path) -> Result<(Volume, Vec<PlanWarning>), VolumeFileError> {
    let file = File::open(path).map_err(VolumeFileError::read(path))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let fields = fields(&mut reader, path)?;
    if says(&fields, "binarydata", "false") {
        return Err(VolumeFileError::format(
            path,
            "voxels written as text (BinaryData = False), expected binary voxels; write it again with BinaryData = True",
        ));
    }
    let sizes = sizes(&fields, path)?;
    let extent = sizes.extent;
    let layout = layout(&fields, path)?;
    let (affine, notes) = affine(&fields, sizes.axes, path)?;
    let named = fields.get("elementdatafile").map_or("", String::as_str);
    let voxels = if named.eq_ignore_ascii_case("LOCAL") {
        let at = reader
            .stream_position()
            .map_err(VolumeFileError::read(path))?;
        let left = length(path)?.saturating_sub(at);
        values(reader, left, &fields, extent, layout, path)?
    } else {
        match names(named, extent.z, &mut reader, path)? {
            Data::One(one) => {
                let data = beside(path, &one)?;
                let file = File::open(&data).map_err(VolumeFileError::read(&data))?;
                let reader = BufReader::with_capacity(1 << 20, file);
                values(reader, length(&data)?, &fields, extent, layout, &data)?
            }
            Data::Slices(many) => slice_files(&many, &fields, extent, layout, path)?,
        }
    };
    let volume = Volume {
        extent,
        affine,
        voxels,
        padding: None,
        is_hu: true,
        z_spacing_known: true,
    };
    Ok((volume, notes))
}

fn length(path: &Path) -> Result<u64, VolumeFileError> {
    let found = std::fs::metadata(path).map_err(VolumeFileError::read(path))?;
    Ok(found.len())
}

fn says(fields: &Fields, key: &str, word: &str) -> bool {
    fields
        .get(key)
        .is_some_and(|v| v.eq_ignore_ascii_case(word))
}

/// The files that a header names.
enum Data {
    One(String),
    Slices(Vec<String>),
}

/// The data files that a header names: one, or for each of `n` slices one by a list on the lines that follow or by a pattern
/// with first, last and step.
fn names(
    named: &str,
    n: usize,
    rest: &mut impl BufRead,
    path: &Path,
) -> Result<Data, VolumeFileError> {
    let mut words = named.split_whitespace();
    let first = words.next().unwrap_or_default();
    if first == "LIST" {
        let mut text = String::new();
        rest.take(HEADER_LIMIT)
            .read_to_string(&mut text)
            .map_err(VolumeFileError::read(path))?;
        let list = text.lines().map(str::trim).filter(|l| !l.is_empty());
        let list: Vec<String> = list.map(str::to_owned).collect();
        for_each_slice(list.len(), n, path)?;
        return Ok(Data::Slices(list));
    }
    if !first.contains('%') {
        return Ok(Data::One(named.to_owned()));
    }
    let numbers: Option<Vec<u32>> = words.map(|w| w.parse().ok()).collect();
    let (from, to, step) = match numbers.as_deref() {
        Some(&[from, to]) if from <= to => (from, to, 1),
        Some(&[from, to, step]) if from <= to && step > 0 => (from, to, step),
        _ => {
            return Err(VolumeFileError::format(
                path,
                format!(
                    "expected a pattern with its first number, last number and step, such as slice%03d.raw 1 64 1, found ElementDataFile = {named}"
                ),
            ));
        }
    };
    let step = usize::try_from(step).unwrap_or(1);
    // Counted before a name is made: two numbers may stand for billions.
    let found =
        usize::try_from(to - from).map_or(usize::MAX, |span| (span / step).saturating_add(1));
    for_each_slice(found, n, path)?;
    let list: Result<_, _> = (from..=to)
        .step_by(step)
        .map(|n| {
            numbered(first, n).ok_or_else(|| {
                VolumeFileError::format(
                    path,
                    format!("expected one %d in the pattern, found ElementDataFile = {named}"),
                )
            })
        })
        .collect();
    list.map(Data::Slices)
}

/// Whether there is a data file for each slice, and no more of them than a volume can have.
fn for_each_slice(found: usize, n: usize, path: &Path) -> Result<(), VolumeFileError> {
    if found == n && n <= MOST_FILES {
        return Ok(());
    }
    let most = if n > MOST_FILES {
        format!(" (at most {MOST_FILES})")
    } else {
        String::new()
    };
    Err(VolumeFileError::format(
        path,
        format!("expected a data file for each of {n} slices{most}, found {found}"),
    ))
}

/// `slice%03d.raw` with a number put in.
fn numbered(pattern: &str, n: u32) -> Option<String> {
    let (before, rest) = pattern.split_once('%')?;
    let (format, after) = rest.split_once('d')?;
    let width: usize = match format {
        "" => 0,
        digits => digits.parse().ok().filter(|&w| w <= 16)?,
    };
    (!after.contains('%')).then(|| {
        if format.starts_with('0') {
            format!("{before}{n:0width$}{after}")
        } else {
            format!("{before}{n:width$}{after}")
        }
    })
}

/// A volume of which each slice is a file.
fn slice_files(
    named: &[String],
    fields: &Fields,
    extent: Extent,
    layout: Layout,
    path: &Path,
) -> Result<Voxels, VolumeFileError> {
    let slice = Extent { z: 1, ..extent };
    let mut parts = Vec::new();
    let files: Result<Vec<PathBuf>, _> = named.iter().map(|n| beside(path, n)).collect();
    for data in files? {
        let file = File::open(&data).map_err(VolumeFileError::read(&data))?;
        let reader = BufReader::with_capacity(1 << 16, file);
        parts.push(values(
            reader,
            length(&data)?,
            fields,
            slice,
            layout,
            &data,
        )?);
    }
    Ok(Voxels::joined(parts))
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

fn numbers(
    fields: &Fields,
    keys: &[&str],
    n: usize,
    path: &Path,
) -> Result<Option<Vec<f64>>, VolumeFileError> {
    let Some((key, text)) = keys.iter().find_map(|k| fields.get(*k).map(|v| (*k, v))) else {
        return Ok(None);
    };
    let parsed: Option<Vec<f64>> = text
        .split_whitespace()
        .map(|p| p.parse::<f64>().ok().filter(|v| v.is_finite()))
        .collect();
    parsed.filter(|v| v.len() == n).map(Some).ok_or_else(|| {
        VolumeFileError::format(
            path,
            format!("expected {n} numbers for {key}, found \"{text}\""),
        )
    })
}

/// Size of the volume and how many axes the header speaks of.
struct Sizes {
    extent: Extent,
    axes: usize,
}

fn sizes(fields: &Fields, path: &Path) -> Result<Sizes, VolumeFileError> {
    let dims = fields.get("ndims").map_or("", String::as_str);
    let text = fields.get("dimsize").map_or("", String::as_str);
    let sizes: Option<Vec<usize>> = text.split_whitespace().map(|p| p.parse().ok()).collect();
    let sizes = sizes.filter(|s| dims.parse() == Ok(s.len()) && s.iter().all(|&n| n > 0));
    let extent = match sizes.as_deref() {
        Some(&[x, y]) => Some(Extent::new(x, y, 1)),
        // A fourth axis of one entry says nothing.
        Some(&[x, y, z, ref rest @ ..]) if rest.iter().all(|&n| n == 1) => {
            Some(Extent::new(x, y, z))
        }
        _ => None,
    };
    match (extent, sizes) {
        (Some(extent), Some(sizes)) => Ok(Sizes {
            extent,
            axes: sizes.len(),
        }),
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
    let says = |key: &str| says(fields, key, "true");
    Ok(Layout {
        number,
        big: says("binarydatabyteordermsb") || says("elementbyteordermsb"),
        slope: 1.0,
        intercept: 0.0,
    })
}

/// The affine, of the first three axes where there are more, and what it had to assume.
fn affine(
    fields: &Fields,
    axes: usize,
    path: &Path,
) -> Result<(Affine, Vec<PlanWarning>), VolumeFileError> {
    let per_axis = |keys: &[&str]| numbers(fields, keys, axes, path);
    let spacing = per_axis(&["elementspacing", "elementsize"])?;
    let origin = per_axis(&["offset", "position", "origin"])?;
    let keys = ["transformmatrix", "rotation", "orientation"];
    let matrix = numbers(fields, &keys, axes * axes, path)?;
    let first =
        |v: &[f64], otherwise: f64| std::array::from_fn(|a| v.get(a).copied().unwrap_or(otherwise));
    let mut notes = Vec::new();
    if spacing.is_none() {
        notes.push(PlanWarning::new(
            super::nifti::SPACING_ASSUMED,
            "the file does not say its spacing: unknown, taken as 1 mm",
        ));
    }
    let spacing: [f64; 3] = first(&spacing.unwrap_or_default(), 1.0);
    // Each axis of voxels is one row of the text: the format writes columns of the direction matrix one after the other.
    let mut step = [[0.0; 3]; 3];
    for (a, (step, mm)) in step.iter_mut().zip(spacing).enumerate() {
        for (r, to) in step.iter_mut().enumerate() {
            let identity = f64::from(u8::from(r == a));
            let direction = match &matrix {
                Some(m) if a < axes && r < axes => m.get(a * axes + r).copied(),
                _ => None,
            };
            *to = mm * direction.unwrap_or(identity);
        }
    }
    let affine = Affine {
        step,
        origin: first(&origin.unwrap_or_default(), 0.0),
    };
    let d = affine.determinant();
    if d == 0.0 || !d.is_finite() {
        return Err(VolumeFileError::format(
            path,
            format!(
                "expected axes that span a volume, found ElementSpacing {spacing:?} and steps {step:?}"
            ),
        ));
    }
    Ok((affine, notes))
}

/// The data file that a header names: beside it, never elsewhere.
fn beside(path: &Path, named: &str) -> Result<PathBuf, VolumeFileError> {
    let relative = Path::new(named);
    let inside = !named.is_empty()
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

/// The voxels of a reader that has `left` bytes more.
fn values(
    mut reader: BufReader<File>,
    left: u64,
    fields: &Fields,
    extent: Extent,
    layout: Layout,
    path: &Path,
) -> Result<Voxels, VolumeFileError> {
    let size = fields.get("headersize").map(|v| v.parse::<i64>().ok());
    let bytes = extent
        .checked_voxels()
        .and_then(|n| n.checked_mul(layout.number.bytes()))
        .map_or(u64::MAX, |n| n as u64);
    let skipped = match size {
        None => 0,
        Some(Some(n)) if n >= 0 => n.unsigned_abs(),
        // The voxels are the last bytes of the file.
        Some(Some(-1)) => left.saturating_sub(bytes),
        _ => {
            return Err(VolumeFileError::format(
                path,
                format!(
                    "expected a HeaderSize of -1, 0 or more, found {}",
                    fields.get("headersize").map_or("", String::as_str)
                ),
            ));
        }
    };
    std::io::copy(&mut reader.by_ref().take(skipped), &mut std::io::sink())
        .map_err(VolumeFileError::read(path))?;
    let left = left.saturating_sub(skipped);
    if says(fields, "compresseddata", "true") {
        let room = inflated_at_most(left);
        return read_packed(&mut ZlibDecoder::new(reader), extent, layout, room, path);
    }
    read_values(&mut reader, extent, layout, left, path)
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn written(header: &str, data: &[u8]) -> Result<(Volume, Vec<PlanWarning>), VolumeFileError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mha");
        let bytes = [header.as_bytes(), b"ElementDataFile = LOCAL\n", data].concat();
        std::fs::write(&path, bytes).unwrap();
        read_told(&path)
    }

    #[test]
    fn slices_in_files_of_their_own_are_read_by_list_and_by_pattern() {
        let folder = tempfile::tempdir().unwrap();
        let at = |p: &str| folder.path().join(p);
        for (n, slice) in [[1i16, -2], [3, -4]].iter().enumerate() {
            let bytes: Vec<u8> = slice.iter().flat_map(|v| v.to_le_bytes()).collect();
            std::fs::write(at(&format!("s{:03}.raw", 8 + 2 * n)), bytes).unwrap();
        }
        for (name, named) in [
            ("l.mhd", "LIST\ns008.raw\ns010.raw\n"),
            ("p.mhd", "s%03d.raw 8 10 2\n"),
        ] {
            std::fs::write(at(name), format!("{HEADER}ElementDataFile = {named}")).unwrap();
            let v = read(&at(name)).unwrap();
            assert_eq!(v.voxels, Voxels::I16(vec![1, -2, 3, -4]), "{name}");
        }
        // Billions of names are counted and never made.
        for (numbers, found) in [("8 8 1", 1), ("0 4294967295 1", 4_294_967_296u64)] {
            let named = format!("ElementDataFile = s%03d.raw {numbers}\n");
            std::fs::write(at("f.mhd"), format!("{HEADER}{named}")).unwrap();
            let e = read(&at("f.mhd")).unwrap_err().to_string();
            let told = format!("each of 2 slices, found {found}");
            assert!(e.contains(&told), "{e}");
        }
    }

    #[test]
    fn a_packed_volume_whose_checksum_is_wrong_is_damaged() {
        let mut z = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        z.write_all(&[1, 0, 2, 0, 3, 0, 4, 0]).unwrap();
        let mut bytes = z.finish().unwrap();
        let packed = format!("CompressedData = True\n{HEADER}");
        assert!(written(&packed, &bytes).is_ok());
        *bytes.last_mut().unwrap() ^= 1;
        let e = written(&packed, &bytes).unwrap_err().to_string();
        assert!(e.contains("corrupt"), "{e}");
    }

    #[test]
    fn a_fourth_axis_of_one_entry_says_nothing_and_a_missing_spacing_is_told() {
        let four = "NDims = 4\nTransformMatrix = 0 1 0 0 -1 0 0 0 0 0 1 0 0 0 0 1\nOffset = 1 2 3 0\nElementSpacing = 2 3 4 1\nDimSize = 2 1 2 1\nElementType = MET_SHORT\n";
        let (v, notes) = written(four, &[0; 8]).unwrap();
        assert_eq!(
            v.affine.step,
            [[0.0, 2.0, 0.0], [-3.0, 0.0, 0.0], [0.0, 0.0, 4.0]]
        );
        assert_eq!(v.affine.origin, [1.0, 2.0, 3.0]);
        assert!(notes.is_empty());
        let bare = "NDims = 3\nDimSize = 2 1 2\nElementType = MET_SHORT\n";
        let (v, notes) = written(bare, &[0; 8]).unwrap();
        assert_eq!(v.affine.spacing_mm(), [1.0; 3]);
        assert!(notes[0].text.contains("unknown, taken as 1 mm"));
    }

    #[test]
    fn sizes_beyond_the_file_and_voxels_as_text_are_refused_by_name() {
        let huge = HEADER.replace("DimSize = 2 1 2", "DimSize = 99999 99999 99999");
        let e = written(&huge, &[0; 8]).unwrap_err().to_string();
        assert!(e.contains("room for 8 bytes"), "{e}");
        let text = HEADER.replace("BinaryData = True", "BinaryData = False");
        let e = written(&text, b"1 2 3 4").unwrap_err().to_string();
        assert!(e.contains("BinaryData = False"), "{e}");
        let flat = HEADER.replace("ElementSpacing = 0.5 0.75 2", "ElementSpacing = 0 0.75 2");
        let e = written(&flat, &[0; 8]).unwrap_err().to_string();
        assert!(e.contains("span a volume"), "{e}");
    }

    #[test]
    fn a_header_size_of_minus_one_means_the_end_of_the_file_and_msb_is_big_endian() {
        let data = [9u8, 9, 9, 0, 1, 0xFF, 0xFE, 0, 3, 0xFF, 0xFC];
        let big = HEADER
            .replace("MSB = False", "MSB = True")
            .replace("DimSize", "HeaderSize = -1\nDimSize");
        let (v, _) = written(&big, &data).unwrap();
        assert_eq!(v.voxels, Voxels::I16(vec![1, -2, 3, -4]));
    }

    #[test]
    fn a_header_that_points_out_of_its_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mhd");
        for named in [
            "../secret.raw",
            "/etc/passwd",
            "LIST\na.raw\n../secret.raw",
            "../slice%03d.raw 1 2 1",
        ] {
            std::fs::write(&path, format!("{HEADER}ElementDataFile = {named}\n")).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains("beside the header"), "{error}");
        }
    }
}
