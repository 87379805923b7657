//! Gets the bytes of one frame out of its file: native, deflated, or encapsulated in fragments.

use super::header::{FileHeader, Pixels, find_start};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::Mutex;

/// A larger data set goes through the disk, so that a load stays within its memory.
const INFLATED_IN_MEMORY: usize = 32 << 20;

/// Where the frames of a file lie; found once for each file.
#[derive(Debug)]
pub(super) enum Content {
    /// Frames one after the other from the pixel offset on.
    Native,
    /// The inflated data set, in memory while it is small and else in a file without a name.
    Inflated(Mutex<tempfile::SpooledTempFile>),
    /// For each frame its fragments (start and length).
    Encapsulated(Vec<Vec<(u64, u64)>>),
}

fn io(e: &std::io::Error) -> String {
    format!("cannot be read ({e})")
}

impl Content {
    /// Looks where the frames of a file lie.
    pub(super) fn find(header: &FileHeader) -> Result<Self, String> {
        let p = &header.pixels;
        if p.deflated {
            let bytes = std::fs::read(&header.path).map_err(|e| io(&e))?;
            let start = find_start(&bytes)?;
            let mut kept = tempfile::spooled_tempfile(INFLATED_IN_MEMORY);
            let deflated = bytes.get(start.at..).unwrap_or_default();
            // What follows the last frame is of no use, and may be far more than the disk holds.
            let (last, length) = native_range(p, p.frames.saturating_sub(1))?;
            let mut set =
                flate2::read::DeflateDecoder::new(deflated).take(last.saturating_add(length));
            std::io::copy(&mut set, &mut kept).map_err(|e| io(&e))?;
            return Ok(Self::Inflated(Mutex::new(kept)));
        }
        if p.length.is_some() {
            return Ok(Self::Native);
        }
        let mut file = File::open(&header.path).map_err(|e| io(&e))?;
        let (table, fragments) = fragments(&mut file, p.offset)?;
        let first_bytes = |&(at, length): &(u64, u64)| {
            let mut head = [0u8; 4];
            let n = usize::try_from(length.min(4)).unwrap_or(4);
            file.seek(SeekFrom::Start(at)).ok()?;
            file.read_exact(head.get_mut(..n)?).ok()?;
            Some(head)
        };
        frames_of(p.frames, &table, fragments, first_bytes).map(Self::Encapsulated)
    }

    /// Puts the bytes of one frame into `out` (cleared first).
    pub(super) fn read(
        &self,
        header: &FileHeader,
        frame: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        out.clear();
        let p = &header.pixels;
        match self {
            Self::Native => {
                let (start, length) = native_range(p, frame)?;
                let mut file = File::open(&header.path).map_err(|e| io(&e))?;
                read_exactly(&mut file, start, length, out)
            }
            Self::Inflated(set) => {
                let (start, length) = native_range(p, frame)?;
                let mut set = set.lock().map_err(|_poisoned| "pixel data cut short")?;
                set.seek(SeekFrom::Start(start)).map_err(|e| io(&e))?;
                let found = (&mut *set)
                    .take(length)
                    .read_to_end(out)
                    .map_err(|e| io(&e))?;
                whole(length, found)
            }
            Self::Encapsulated(frames) => {
                let fragments = frames.get(frame).ok_or("a frame without pixel data")?;
                let mut file = File::open(&header.path).map_err(|e| io(&e))?;
                for &(at, length) in fragments {
                    read_exactly(&mut file, at, length, out)?;
                }
                Ok(())
            }
        }
    }
}

fn native_range(p: &Pixels, frame: usize) -> Result<(u64, u64), String> {
    let length = p.frame_bytes().ok_or("an image larger than any file")?;
    let start = (frame as u64)
        .checked_mul(length)
        .and_then(|o| o.checked_add(p.offset))
        .ok_or("an image larger than any file")?;
    Ok((start, length))
}

fn read_exactly(file: &mut File, at: u64, length: u64, out: &mut Vec<u8>) -> Result<(), String> {
    file.seek(SeekFrom::Start(at)).map_err(|e| io(&e))?;
    let size = file.metadata().map_err(|e| io(&e))?.len();
    // Reserve no more than the file can give.
    let there = length.min(size.saturating_sub(at));
    out.reserve(usize::try_from(there).unwrap_or(0));
    let found = file.take(length).read_to_end(out).map_err(|e| io(&e))?;
    whole(length, found)
}

fn whole(length: u64, found: usize) -> Result<(), String> {
    if found as u64 == length {
        Ok(())
    } else {
        Err(format!(
            "pixel data cut short: expected {length} bytes, found {found}"
        ))
    }
}

type Fragments = Vec<(u64, u64)>;

/// The offset table and the fragments of encapsulated pixel data. A missing end mark is let pass; a fragment that the file ends in is not.
fn fragments(file: &mut File, start: u64) -> Result<(Vec<u64>, Fragments), String> {
    let end = file.metadata().map_err(|e| io(&e))?.len();
    let mut reader = std::io::BufReader::with_capacity(64, file);
    reader.seek(SeekFrom::Start(start)).map_err(|e| io(&e))?;
    let mut at = start;
    let mut table: Option<Vec<u64>> = None;
    let mut out = Vec::new();
    while at + 8 <= end {
        let mut head = [0u8; 8];
        reader.read_exact(&mut head).map_err(|e| io(&e))?;
        let [a, b, c, d, l0, l1, l2, l3] = head;
        let length = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
        at += 8;
        match [a, b, c, d] {
            [0xFE, 0xFF, 0x00, 0xE0] => {}
            [0xFE, 0xFF, 0xDD, 0xE0] => break,
            _ if !out.is_empty() => break,
            _ => return Err("compressed pixel data that is not in items".to_owned()),
        }
        if at + length > end {
            return Err(format!(
                "pixel data cut short: expected a fragment of {length} bytes, found {}",
                end - at
            ));
        }
        if table.is_none() {
            let mut bytes = Vec::new();
            reader
                .by_ref()
                .take(length)
                .read_to_end(&mut bytes)
                .map_err(|e| io(&e))?;
            table = Some(
                bytes
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|&c| u64::from(u32::from_le_bytes(c)))
                    .collect(),
            );
        } else {
            out.push((at, length));
            reader
                .seek_relative(i64::try_from(length).unwrap_or(i64::MAX))
                .map_err(|e| io(&e))?;
        }
        at += length;
    }
    if out.is_empty() {
        return Err("pixel data cut short: no compressed frame is there".to_owned());
    }
    Ok((table.unwrap_or_default(), out))
}

/// Shares fragments out among frames: one each, by the offset table, or by the marks that codestreams start with.
fn frames_of(
    frames: usize,
    table: &[u64],
    fragments: Fragments,
    mut first_bytes: impl FnMut(&(u64, u64)) -> Option<[u8; 4]>,
) -> Result<Vec<Fragments>, String> {
    if frames == 1 {
        return Ok(vec![fragments]);
    }
    if fragments.len() == frames {
        return Ok(fragments.into_iter().map(|f| vec![f]).collect());
    }
    let base = fragments.first().map_or(0, |f| f.0);
    let starts: Vec<bool> = if table.len() == frames {
        fragments
            .iter()
            .map(|f| table.contains(&(f.0 - base)))
            .collect()
    } else {
        fragments
            .iter()
            .map(|f| {
                matches!(
                    first_bytes(f),
                    Some([0xFF, 0xD8, 0xFF, _] | [0xFF, 0x4F, 0xFF, 0x51])
                )
            })
            .collect()
    };
    let mut out: Vec<Fragments> = Vec::new();
    for (fragment, starts) in fragments.into_iter().zip(starts) {
        match out.last_mut() {
            Some(last) if !starts => last.push(fragment),
            _ => out.push(vec![fragment]),
        }
    }
    if out.len() == frames {
        Ok(out)
    } else {
        Err(format!(
            "compressed frames cannot be told apart: expected {frames}, found {}",
            out.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_without_a_table_are_told_apart_by_their_first_bytes() {
        let fragments = vec![(100, 10), (118, 10), (136, 10)];
        let head = |f: &(u64, u64)| {
            Some(if f.0 == 118 {
                [1, 2, 3, 4]
            } else {
                [0xFF, 0xD8, 0xFF, 0xC3]
            })
        };
        let got = frames_of(2, &[], fragments.clone(), head).unwrap();
        assert_eq!(got, vec![vec![(100, 10), (118, 10)], vec![(136, 10)]]);
        let got = frames_of(2, &[0, 18], fragments.clone(), |_| None).unwrap();
        assert_eq!(got, vec![vec![(100, 10)], vec![(118, 10), (136, 10)]]);
        assert!(
            frames_of(5, &[], fragments, head)
                .unwrap_err()
                .contains("expected 5, found 2")
        );
    }
}
