//! One file's header: where its pixels lie, how they are stored, and the plane of each frame.

use super::dataset::DataSet;
use super::element::{Encoding, Head, Tag, WalkError, Walker, looks_like_vr};
use super::frames;
use std::path::PathBuf;
use std::sync::Arc;

/// One frame of one file: what a slice of a volume is made from.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) file: Arc<FileHeader>,
    /// Index in `file.planes` and in the pixel data.
    pub(super) frame: usize,
}

impl Source {
    /// Where the frame lies and how its values become HU.
    pub(super) fn plane(&self) -> &Plane {
        self.file.planes.get(self.frame).unwrap_or(&NOWHERE)
    }
}

/// Geometry and rescale of one frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plane {
    pub(super) position: Option<[f64; 3]>,
    /// Unit vectors along a row and down a column.
    pub(super) row: Option<[f64; 3]>,
    pub(super) column: Option<[f64; 3]>,
    /// Between columns (x) and rows (y), mm.
    pub(super) spacing: Option<[f64; 2]>,
    /// Slope and intercept.
    pub(super) rescale: Option<(f64, f64)>,
    /// The slope is 0, empty or not there, though the file speaks of a rescale; `rescale` then has 1.
    pub(super) slope_unknown: bool,
    pub(super) instance: Option<i64>,
    pub(super) acquisition: Option<i64>,
    pub(super) temporal: Option<i64>,
    pub(super) echo: Option<i64>,
    pub(super) stack: Option<String>,
}

/// What is known of a frame without a plane.
static NOWHERE: Plane = Plane {
    position: None,
    row: None,
    column: None,
    spacing: None,
    rescale: None,
    slope_unknown: false,
    instance: None,
    acquisition: None,
    temporal: None,
    echo: None,
    stack: None,
};

/// Byte order of native pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Little,
    Big,
    /// Bytes written as big-endian words (OW): each pair is the other way round.
    BytesInBigWords,
}

/// How pixels are stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pixels {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) frames: usize,
    pub(super) samples: usize,
    pub(super) photometric: String,
    pub(super) bits_allocated: u32,
    pub(super) bits_stored: u32,
    pub(super) high_bit: u32,
    pub(super) signed: bool,
    pub(super) order: Order,
    /// Start of the value in the file (in the inflated data set where the file is deflated).
    pub(super) offset: u64,
    /// Bytes of the value; `None` when encapsulated.
    pub(super) length: Option<u64>,
    /// Stored values that stand for no data, both ends inclusive.
    pub(super) padding: Option<(i64, i64)>,
    pub(super) deflated: bool,
}

/// One file's header.
#[derive(Clone, Debug, Default)]
pub(super) struct FileHeader {
    pub(super) path: PathBuf,
    /// Relative to the study.
    pub(super) name: String,
    pub(super) transfer_syntax: String,
    pub(super) sop_class: String,
    pub(super) sop_uid: String,
    pub(super) series_uid: String,
    pub(super) modality: String,
    pub(super) description: String,
    pub(super) patient_name: Option<String>,
    pub(super) image_type: Vec<String>,
    pub(super) window: Option<(f64, f64)>,
    /// What rescaled values are, such as HU.
    pub(super) rescale_type: Option<String>,
    pub(super) lossy: bool,
    pub(super) pixels: Pixels,
    pub(super) planes: Vec<Plane>,
}

/// What a file turned out to be.
#[derive(Debug)]
pub(super) enum Parsed {
    /// An image with its header.
    Image(Box<FileHeader>),
    /// A directory of other files: referenced paths, part by part.
    Directory(Vec<Vec<String>>),
    /// Something else; the reason says what.
    Other { reason: String, lost: Lost },
    /// The bytes at hand end before the header does.
    NeedsMore { reason: String, lost: Lost },
}

/// Whether a file that cannot be used is a slice that some series has lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Lost {
    /// It is no slice, or nothing says so.
    #[default]
    Nothing,
    /// A slice of a series that is not said.
    Somewhere,
    /// A slice of this series.
    From(String),
}

pub(super) const PIXEL_DATA: Tag = 0x7FE0_0010;
const GE_PRIVATE: &str = "1.2.840.113619.5.2";
const DEFLATED: &str = "1.2.840.10008.1.2.1.99";
/// A deflated file may not be larger than this once inflated.
const INFLATED_LIMIT: u64 = 1 << 32;
/// No header of a deflated file is longer than this: a small file may stand for gigabytes.
const INFLATED_HEADER: u64 = 64 << 20;
/// More frames than any scanner writes into one file.
const MOST_FRAMES: usize = 100_000;

/// Where the data set starts, its encoding, and the transfer syntax as said.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) at: usize,
    pub(super) encoding: Encoding,
    pub(super) syntax: String,
}

/// Finds the data set: after preamble and meta group, after a bare meta group, or at the very start.
pub(super) fn find_start(bytes: &[u8]) -> Result<Start, String> {
    let magic = bytes.get(128..132) == Some(b"DICM");
    let at = if magic {
        132
    } else if bytes.starts_with(b"DICM") {
        4
    } else if starts_with_group(bytes, 0, 2) || starts_with_group(bytes, 0, 8) {
        // Seen: group 2 or the bare data set at byte 0, no preamble and no "DICM".
        0
    } else if starts_with_group(bytes, 128, 2) {
        // Seen: a preamble whose "DICM" was left out.
        128
    } else {
        return Err(describe_junk(bytes));
    };
    let (at, syntax) = read_meta(bytes, at).map_err(|e| e.to_string())?;
    let said = match syntax.as_str() {
        "1.2.840.10008.1.2" => Some(Encoding::IMPLICIT),
        "1.2.840.10008.1.2.2" => Some(Encoding::BIG),
        "" => None,
        _ => Some(Encoding::EXPLICIT),
    };
    let encoding = if syntax == DEFLATED {
        Encoding::EXPLICIT
    } else {
        guess_encoding(bytes.get(at..).unwrap_or_default(), said)
    };
    Ok(Start {
        at,
        encoding,
        syntax,
    })
}

/// Whether an element of this group with a plausible element number starts at `at`, in either byte order.
fn starts_with_group(bytes: &[u8], at: usize, group: u16) -> bool {
    let Some(&[a, b, c, d, v0, v1, l0, l1]) = bytes.get(at..).and_then(|b| b.first_chunk::<8>())
    else {
        return false;
    };
    let little = u16::from_le_bytes([a, b]) == group && d == 0;
    let big = u16::from_be_bytes([a, b]) == group && c == 0;
    let short = u32::from_le_bytes([v0, v1, l0, l1]) < 0x1_0000
        || u32::from_be_bytes([v0, v1, l0, l1]) < 0x1_0000;
    (little || big) && (looks_like_vr(&[v0, v1]) || short)
}

fn describe_junk(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "an empty file".to_owned();
    }
    let head = bytes.get(..bytes.len().min(512)).unwrap_or(bytes);
    let text = head
        .iter()
        .all(|&b| b == b'\n' || b == b'\r' || b == b'\t' || (b >= 0x20 && b != 0x7F));
    let what = if text {
        "a text file"
    } else if bytes.starts_with(b"\x89PNG") {
        "a PNG picture"
    } else if bytes.starts_with(b"PK\x03\x04") {
        "a zip archive; unpack it first"
    } else if bytes.starts_with(b"\x1f\x8b") {
        "a gzip archive; unpack it first"
    } else {
        "a file that does not start as DICOM does"
    };
    what.to_owned()
}

/// Walks the meta group (group 2) element by element and ignores its length, which is missing or wrong in some files,
/// and the lengths of its text: an AE title over 16 characters stops dicom-rs 0.10.
fn read_meta(bytes: &[u8], at: usize) -> Result<(usize, String), WalkError> {
    let explicit = bytes.get(at + 4..at + 6).is_some_and(looks_like_vr);
    let mut walker = Walker::new(
        bytes,
        at,
        if explicit {
            Encoding::EXPLICIT
        } else {
            Encoding::IMPLICIT
        },
    );
    let mut meta = DataSet::default();
    meta.read_until(&mut walker, |tag| tag >> 16 != 2)?;
    Ok((walker.pos(), meta.code(0x0002_0010).unwrap_or_default()))
}

/// The encoding that the first element shows, which is more to be trusted than the transfer syntax
/// (seen: implicit files that say explicit, bare data sets that say nothing).
fn guess_encoding(set: &[u8], said: Option<Encoding>) -> Encoding {
    let Some(&[a, b, _, _, v0, v1, ..]) = set.first_chunk::<8>() else {
        return said.unwrap_or(Encoding::IMPLICIT);
    };
    let little = u16::from_le_bytes([a, b]);
    let big = u16::from_be_bytes([a, b]);
    let explicit = looks_like_vr(&[v0, v1]);
    // Groups start low: 0x0008 read the wrong way round is 0x0800.
    let big_endian = big < little;
    match said {
        Some(s) if s.big == big_endian && s.explicit == explicit => s,
        _ => Encoding {
            explicit,
            big: big_endian,
        },
    }
}

/// Inflates the first bytes of a deflated data set, at most `keep` of them; the length of the whole besides.
fn inflate(bytes: &[u8], keep: u64) -> Result<(Vec<u8>, u64), String> {
    use std::io::Read as _;
    let damaged = |e: std::io::Error| format!("a deflated data set that cannot be inflated ({e})");
    let mut stream = flate2::read::DeflateDecoder::new(bytes).take(INFLATED_LIMIT);
    let mut kept = Vec::new();
    stream
        .by_ref()
        .take(keep)
        .read_to_end(&mut kept)
        .map_err(damaged)?;
    let rest = std::io::copy(&mut stream, &mut std::io::sink()).map_err(damaged)?;
    let length = kept.len() as u64 + rest;
    Ok((kept, length))
}

/// Whether pixels lie in the file as they are.
fn is_native(syntax: &str) -> bool {
    matches!(
        syntax,
        "" | "1.2.840.10008.1.2"
            | "1.2.840.10008.1.2.1"
            | "1.2.840.10008.1.2.2"
            | DEFLATED
            | GE_PRIVATE
    )
}

/// Reads a header from the first bytes of a file; `whole` says that there are no more.
pub(super) fn parse(bytes: &[u8], file_length: u64, whole: bool) -> Parsed {
    let other = |reason: String| Parsed::Other {
        reason,
        lost: Lost::Nothing,
    };
    let start = match find_start(bytes) {
        Ok(s) => s,
        Err(reason) if whole || bytes.len() > 4096 => return other(reason),
        Err(reason) => {
            return Parsed::NeedsMore {
                reason,
                lost: Lost::Nothing,
            };
        }
    };
    if start.syntax != DEFLATED {
        return parse_set(bytes, file_length, start.at, &start, whole);
    }
    if !whole {
        return Parsed::NeedsMore {
            reason: String::new(),
            lost: Lost::Nothing,
        };
    }
    let mut keep = 1u64 << 18;
    loop {
        match inflate(bytes.get(start.at..).unwrap_or_default(), keep) {
            Ok((set, length)) => match parse_set(&set, length, 0, &start, length <= keep) {
                Parsed::NeedsMore { .. } if length > keep && keep < INFLATED_HEADER => {
                    keep = keep.saturating_mul(16).min(INFLATED_HEADER);
                }
                done => return done,
            },
            Err(reason) => return other(reason),
        }
    }
}

/// What a file that cannot be used was to be, as far as its elements tell.
fn lost(set: &DataSet<'_>) -> Lost {
    // CT, MR, PET and nuclear images with their enhanced kinds.
    let sop = set.code(0x0008_0016).unwrap_or_default();
    let kind = sop.strip_prefix("1.2.840.10008.5.1.4.1.1.");
    let slice = kind.is_some_and(|k| {
        ["2", "4", "20", "128", "130"]
            .iter()
            .any(|p| k == *p || k.strip_prefix(p).is_some_and(|r| r.starts_with('.')))
    }) || set.get(0x0028_0010).is_some()
        || sop.is_empty() && set.code(0x0008_0060).as_deref() == Some("CT");
    match set.code(0x0020_000E) {
        Some(uid) if slice => Lost::From(uid),
        None if slice => Lost::Somewhere,
        _ => Lost::Nothing,
    }
}

fn parse_set(bytes: &[u8], length: u64, at: usize, start: &Start, whole: bool) -> Parsed {
    let mut walker = Walker::new(bytes, at, start.encoding);
    let mut set = DataSet::default();
    let walked = set.read_until(&mut walker, |tag| {
        tag >= 0x7FE0_0008 && tag >> 16 == 0x7FE0 || tag >> 16 > 0x7FE0
    });
    let lost = lost(&set);
    if let Err(error) = walked {
        let reason = if set.len() == 0 {
            "\"DICM\" followed by no data set".to_owned()
        } else {
            error.to_string()
        };
        return if whole {
            Parsed::Other { reason, lost }
        } else {
            Parsed::NeedsMore { reason, lost }
        };
    }
    if !whole && walker.pos() >= bytes.len() {
        return Parsed::NeedsMore {
            reason: "the header goes on".to_owned(),
            lost,
        };
    }
    if set.first_tag().is_none_or(|t| t >> 16 > 0x0028) {
        return Parsed::Other {
            reason: "no DICOM data set".to_owned(),
            lost: Lost::Nothing,
        };
    }
    if set.get(0x0004_1220).is_some()
        || set.code(0x0008_0016).is_none() && set.get(0x0004_1130).is_some()
    {
        return Parsed::Directory(super::dicomdir::references(&set));
    }
    match image(&set, &walker, length, start) {
        Ok(header) => Parsed::Image(Box::new(header)),
        Err(_) if !whole && walker.next_head().is_err() => Parsed::NeedsMore {
            reason: "the header goes on".to_owned(),
            lost,
        },
        Err(reason) => Parsed::Other { reason, lost },
    }
}

fn image(
    set: &DataSet<'_>,
    walker: &Walker<'_>,
    length: u64,
    start: &Start,
) -> Result<FileHeader, String> {
    let what = || {
        set.code(0x0008_0060)
            .map_or_else(String::new, |m| format!(" ({m})"))
    };
    let head = walker.next_head().map_err(|e| e.to_string())?;
    let Some(Head {
        tag,
        vr,
        length: value_length,
        value: at,
    }) = head
    else {
        return Err(format!("a DICOM file without pixel data{}", what()));
    };
    if matches!(tag, 0x7FE0_0008 | 0x7FE0_0009) {
        return Err("floating-point pixel data, expected whole numbers".to_owned());
    }
    if tag != PIXEL_DATA {
        return Err(format!("a DICOM file without pixel data{}", what()));
    }
    let mut pixels = pixels(set, start.encoding)?;
    pixels.offset = at as u64;
    // Seen: compressed pixel data with a length of its own; the items inside are what counts.
    pixels.length = value_length
        .map(u64::from)
        .filter(|_| is_native(&start.syntax));
    if pixels.order == Order::Big && vr == *b"OW" && pixels.bits_allocated == 8 {
        pixels.order = Order::BytesInBigWords;
    }
    if start.syntax == GE_PRIVATE {
        // Little-endian data set, big-endian pixels.
        pixels.order = Order::Big;
    }
    if value_length.is_none() && is_native(&start.syntax) {
        return Err("compressed pixel data in a file that says it is not compressed".to_owned());
    }
    pixels.deflated = start.syntax == DEFLATED;
    super::claims::check_length(&pixels, &start.syntax, length)?;
    let charset = set.codes(0x0008_0005);
    Ok(FileHeader {
        transfer_syntax: start.syntax.clone(),
        sop_class: set.code(0x0008_0016).unwrap_or_default(),
        sop_uid: set.code(0x0008_0018).unwrap_or_default(),
        series_uid: set.code(0x0020_000E).unwrap_or_default(),
        modality: set.code(0x0008_0060).unwrap_or_default(),
        description: set.text(0x0008_103E, &charset).unwrap_or_default(),
        // Empty groups at the end of a name say nothing.
        patient_name: set
            .text(0x0010_0010, &charset)
            .map(|n| n.trim_end_matches('=').to_owned())
            .filter(|n| !n.is_empty()),
        image_type: set.codes(0x0008_0008),
        window: window(set),
        rescale_type: set.code(0x0028_1054),
        lossy: set.code(0x0028_2110).as_deref() == Some("01"),
        planes: frames::planes(set, pixels.frames),
        pixels,
        ..FileHeader::default()
    })
}

/// Window centre and width; several are told apart by backslashes, the first is meant.
pub(super) fn window(set: &DataSet<'_>) -> Option<(f64, f64)> {
    let (c, w) = (set.number(0x0028_1050)?, set.number(0x0028_1051)?);
    (w >= 1.0).then_some((c, w))
}

fn size(set: &DataSet<'_>, tag: Tag, what: &str) -> Result<usize, String> {
    set.integer(tag)
        .and_then(|v| usize::try_from(v).ok())
        .filter(|&v| v > 0)
        .ok_or_else(|| format!("an image without {what}"))
}

fn bits(set: &DataSet<'_>, tag: Tag, otherwise: u32) -> u32 {
    set.integer(tag)
        .and_then(|v| u32::try_from(v).ok())
        .unwrap_or(otherwise)
}

fn pixels(set: &DataSet<'_>, encoding: Encoding) -> Result<Pixels, String> {
    let frames = match set.get(0x0028_0008) {
        None => 1,
        Some(_) => match set.integer_text(0x0028_0008) {
            Some(n) if n > 0 => usize::try_from(n).unwrap_or(1),
            Some(_) => 1,
            None if set.code(0x0028_0008).is_none() => 1,
            None => {
                return Err(format!(
                    "an image whose number of frames is no number (\"{}\")",
                    set.code(0x0028_0008).unwrap_or_default()
                ));
            }
        },
    };
    if frames > MOST_FRAMES {
        return Err(format!(
            "an image of {frames} frames, expected at most {MOST_FRAMES}"
        ));
    }
    let bits_allocated = bits(set, 0x0028_0100, 16);
    let bits_stored = bits(set, 0x0028_0101, bits_allocated);
    if bits_stored > bits_allocated {
        return Err(format!(
            "an image whose BitsStored ({bits_stored}) is larger than its BitsAllocated ({bits_allocated})"
        ));
    }
    if bits_stored == 0 {
        return Err("an image whose BitsStored is 0, expected 1 or more".to_owned());
    }
    let high_bit = bits(set, 0x0028_0102, bits_stored - 1);
    let signed = set.integer(0x0028_0103) == Some(1);
    Ok(Pixels {
        rows: size(set, 0x0028_0010, "rows")?,
        columns: size(set, 0x0028_0011, "columns")?,
        frames,
        samples: usize::try_from(set.integer(0x0028_0002).unwrap_or(1)).unwrap_or(1),
        photometric: set.code(0x0028_0004).unwrap_or_default(),
        bits_allocated,
        bits_stored,
        // A high bit outside of the word is nonsense: take the usual place.
        high_bit: if high_bit + 1 >= bits_stored && high_bit < bits_allocated {
            high_bit
        } else {
            bits_stored - 1
        },
        signed,
        order: if encoding.big {
            Order::Big
        } else {
            Order::Little
        },
        padding: padding(set, signed, bits_allocated),
        ..Pixels::default()
    })
}

/// The padding value and its range limit; written as US or SS (UL or SL for wide pixels), read by the pixel representation.
fn padding(set: &DataSet<'_>, signed: bool, bits_allocated: u32) -> Option<(i64, i64)> {
    let read = |tag| {
        let e = set.get(tag)?;
        if bits_allocated > 16
            && e.value.len() == 4
            && let Some(&b) = e.value.first_chunk::<4>()
        {
            let v = e.encoding.u32(b);
            return Some(if signed {
                i64::from(v.cast_signed())
            } else {
                i64::from(v)
            });
        }
        let v = set.integer(tag)?;
        let v16 = u16::try_from(v.rem_euclid(65536)).ok()?;
        Some(if signed {
            i64::from(v16.cast_signed())
        } else {
            i64::from(v16)
        })
    };
    let value = read(0x0028_0120)?;
    let limit = read(0x0028_0121).unwrap_or(value);
    Some((value.min(limit), value.max(limit)))
}

impl Pixels {
    /// Bytes of one native frame; `None` beyond 64 bits.
    pub(super) fn frame_bytes(&self) -> Option<u64> {
        Some(self.frame_bits()?.div_ceil(8))
    }

    pub(super) fn frame_bits(&self) -> Option<u64> {
        // Two chroma samples for each pair of pixels.
        let samples = if self.photometric.ends_with("422") {
            2
        } else {
            self.samples as u64
        };
        (self.rows as u64)
            .checked_mul(self.columns as u64)?
            .checked_mul(samples)?
            .checked_mul(u64::from(self.bits_allocated))
    }
}
