//! The part of the zip format that PyTorch writes: a directory at the end, entries stored or deflated, with 64-bit sizes.
//! Entries are read one by one, never more than was asked for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// Longest directory read, 64 MiB.
const MOST_DIRECTORY: u64 = 64 << 20;
/// Entries of one archive.
const MOST_ENTRIES: usize = 200_000;

/// One entry.
#[derive(Clone, Copy, Debug)]
struct Entry {
    deflated: bool,
    packed: u64,
    size: u64,
    header: u64,
}

/// An open archive.
#[derive(Debug)]
pub(super) struct Zip {
    file: File,
    len: u64,
    entries: BTreeMap<String, Entry>,
}

impl Zip {
    /// Reads the directory of an archive.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let mut file = File::open(path).map_err(|e| e.to_string())?;
        let len = file.metadata().map_err(|e| e.to_string())?.len();
        let (offset, size, count) = directory(&mut file, len)?;
        if size > MOST_DIRECTORY || count > MOST_ENTRIES as u64 {
            return Err(format!(
                "its directory has {count} entries in {size} bytes, at most {MOST_ENTRIES} in {MOST_DIRECTORY} are read"
            ));
        }
        let bytes = at(&mut file, len, offset, size)?;
        let mut entries = BTreeMap::new();
        let mut rest = bytes.as_slice();
        for _ in 0..count {
            let (name, entry, tail) = entry(rest)?;
            entries.insert(name, entry);
            rest = tail;
        }
        Ok(Self { file, len, entries })
    }

    /// Names of the entries.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Unpacked size of an entry, as the directory says.
    pub(super) fn size(&self, name: &str) -> Option<u64> {
        self.entries.get(name).map(|e| e.size)
    }

    /// Whether an entry lies unpacked in the file, so that a part of it costs only that part.
    pub(super) fn is_stored(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|e| !e.deflated)
    }

    /// Bytes `start..start + n` of an entry, unpacked.
    pub(super) fn read(&mut self, name: &str, start: u64, n: u64) -> Result<Vec<u8>, String> {
        let e = *self
            .entries
            .get(name)
            .ok_or_else(|| format!("it has no entry \"{name}\""))?;
        if start.checked_add(n).is_none_or(|end| end > e.size) {
            return Err(format!(
                "its entry \"{name}\" has {} bytes, {start} + {n} were expected",
                e.size
            ));
        }
        let head = at(&mut self.file, self.len, e.header, 30)?;
        if head.get(..4) != Some(b"PK\x03\x04") {
            return Err(format!(
                "its entry \"{name}\" does not begin where its directory says"
            ));
        }
        let skip = 30 + u64::from(u16_at(&head, 26)?) + u64::from(u16_at(&head, 28)?);
        let data = e.header.saturating_add(skip);
        if !e.deflated {
            return at(&mut self.file, self.len, data.saturating_add(start), n);
        }
        if data.saturating_add(e.packed) > self.len {
            return Err(format!(
                "its entry \"{name}\" ends past the end of the file"
            ));
        }
        self.file
            .seek(SeekFrom::Start(data))
            .map_err(|e| e.to_string())?;
        let packed = std::io::BufReader::new((&self.file).take(e.packed));
        let mut plain = flate2::bufread::DeflateDecoder::new(packed);
        let unpack = |e: std::io::Error| format!("its entry \"{name}\" cannot be unpacked: {e}");
        std::io::copy(&mut plain.by_ref().take(start), &mut std::io::sink()).map_err(unpack)?;
        let mut out = Vec::new();
        plain.take(n).read_to_end(&mut out).map_err(unpack)?;
        if out.len() as u64 != n {
            return Err(format!(
                "its entry \"{name}\" unpacks to fewer bytes than its directory says"
            ));
        }
        Ok(out)
    }
}

/// A part of the file, which must be there.
fn at(file: &mut File, len: u64, offset: u64, n: u64) -> Result<Vec<u8>, String> {
    if offset.checked_add(n).is_none_or(|end| end > len) {
        return Err(format!(
            "it is cut short: {n} bytes at {offset} were expected, the file has {len}"
        ));
    }
    let size = usize::try_from(n).map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    out.try_reserve_exact(size).map_err(|e| e.to_string())?;
    file.seek(SeekFrom::Start(offset))
        .map_err(|e| e.to_string())?;
    file.take(n)
        .read_to_end(&mut out)
        .map_err(|e| e.to_string())?;
    if out.len() != size {
        return Err("it became shorter while it was read".to_owned());
    }
    Ok(out)
}

fn array<const N: usize>(b: &[u8], at: usize) -> Result<[u8; N], String> {
    b.get(at..)
        .and_then(|b| b.first_chunk())
        .copied()
        .ok_or_else(|| "its directory is cut short".to_owned())
}

fn u16_at(b: &[u8], at: usize) -> Result<u16, String> {
    array(b, at).map(u16::from_le_bytes)
}

fn u32_at(b: &[u8], at: usize) -> Result<u32, String> {
    array(b, at).map(u32::from_le_bytes)
}

fn u64_at(b: &[u8], at: usize) -> Result<u64, String> {
    array(b, at).map(u64::from_le_bytes)
}

/// Where the directory lies, its size, and how many entries it has.
fn directory(file: &mut File, len: u64) -> Result<(u64, u64, u64), String> {
    const RECORD: u64 = 22;
    const LOCATOR: u64 = 20;
    let tail_len = len.min(RECORD + LOCATOR + 0xffff);
    let tail = at(file, len, len - tail_len, tail_len)?;
    let end = tail
        .windows(4)
        .rposition(|w| w == b"PK\x05\x06")
        .ok_or("it has no zip directory at its end (a file that was cut short, perhaps)")?;
    let end_record = tail.get(end..).unwrap_or_default();
    let count = u64::from(u16_at(end_record, 10)?);
    let size = u64::from(u32_at(end_record, 12)?);
    let offset = u64::from(u32_at(end_record, 16)?);
    let locator = end.checked_sub(20).and_then(|s| tail.get(s..end));
    let Some(locator) = locator.filter(|l| l.starts_with(b"PK\x06\x07")) else {
        return Ok((offset, size, count));
    };
    let wide = at(file, len, u64_at(locator, 8)?, 56)?;
    if !wide.starts_with(b"PK\x06\x06") {
        return Err("its 64-bit directory is not where it should be".to_owned());
    }
    Ok((u64_at(&wide, 48)?, u64_at(&wide, 40)?, u64_at(&wide, 32)?))
}

fn entry(b: &[u8]) -> Result<(String, Entry, &[u8]), String> {
    if !b.starts_with(b"PK\x01\x02") {
        return Err("its directory holds something that is not an entry".to_owned());
    }
    let (flags, method) = (u16_at(b, 8)?, u16_at(b, 10)?);
    let names = usize::from(u16_at(b, 28)?);
    let extras = usize::from(u16_at(b, 30)?);
    let comment = usize::from(u16_at(b, 32)?);
    let cut = || "its directory is cut short".to_owned();
    let name = b.get(46..46 + names).ok_or_else(cut)?;
    let extra = b.get(46 + names..46 + names + extras).ok_or_else(cut)?;
    let rest = b.get(46 + names + extras + comment..).ok_or_else(cut)?;
    let name = String::from_utf8_lossy(name).into_owned();
    if flags & 1 != 0 {
        return Err(format!("its entry \"{name}\" is encrypted"));
    }
    let deflated = match method {
        0 => false,
        8 => true,
        m => {
            return Err(format!(
                "its entry \"{name}\" is packed by method {m}, only stored and deflated ones are read"
            ));
        }
    };
    let mut wide = wide(extra)?;
    // The 64-bit values stand in this order, and only those whose short field is full.
    let mut long = |short: u32| {
        if short != u32::MAX {
            return Ok(u64::from(short));
        }
        let v = u64_at(wide, 0)?;
        wide = wide.get(8..).unwrap_or_default();
        Ok::<u64, String>(v)
    };
    let size = long(u32_at(b, 24)?)?;
    let packed = long(u32_at(b, 20)?)?;
    let header = long(u32_at(b, 42)?)?;
    if !deflated && size != packed {
        return Err(format!(
            "its entry \"{name}\" is stored, yet {packed} bytes are to become {size}"
        ));
    }
    let entry = Entry {
        deflated,
        packed,
        size,
        header,
    };
    Ok((name, entry, rest))
}

/// The 64-bit part among an entry's extra fields, empty when there is none.
fn wide(mut extra: &[u8]) -> Result<&[u8], String> {
    while extra.len() >= 4 {
        let (id, n) = (u16_at(extra, 0)?, usize::from(u16_at(extra, 2)?));
        let body = extra.get(4..4 + n).unwrap_or_default();
        if id == 1 {
            return Ok(body);
        }
        extra = extra.get(4 + n..).unwrap_or_default();
    }
    Ok(&[])
}
