//! What a codestream says of its own size, held against the header before a decoder takes memory for it: a few damaged
//! bytes may claim billions of values.

use super::header::Pixels;
use super::jpeg::Segments;

/// Bytes that a tile of JPEG 2000 takes at least: the head of a tile-part and the mark of its data.
const TILE: u64 = 14;

/// Columns, rows and components that a codestream claims, with its tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    columns: u64,
    rows: u64,
    components: u64,
    tiles: u64,
}

fn wide(b: &[u8], at: usize) -> Option<u64> {
    let bytes = b.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*bytes).into())
}

fn narrow(b: &[u8], at: usize) -> Option<u64> {
    let bytes = b.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*bytes).into())
}

/// The frame header of a JPEG or JPEG-LS codestream.
fn jpeg(b: &[u8]) -> Option<Claim> {
    let frame = Segments::of(b).ok()?.frame()?.body;
    Some(Claim {
        columns: narrow(frame, 3)?,
        rows: narrow(frame, 1)?,
        components: (*frame.get(5)?).into(),
        tiles: 0,
    })
}

/// The size marker of a JPEG 2000 codestream, which may stand in a file of boxes.
fn jpeg2000(b: &[u8]) -> Option<Claim> {
    const MARK: [u8; 4] = [0xFF, 0x4F, 0xFF, 0x51];
    let head = b.get(..b.len().min(4096))?;
    let at = head.windows(4).position(|w| w == MARK)?;
    let [x1, y1, x0, y0, tx, ty, tx0, ty0] = {
        let mut out = [0; 8];
        for (n, o) in out.iter_mut().enumerate() {
            *o = wide(b, at + 8 + 4 * n)?;
        }
        out
    };
    let tiles = |end: u64, start: u64, size: u64| end.saturating_sub(start).div_ceil(size.max(1));
    Some(Claim {
        columns: x1.saturating_sub(x0),
        rows: y1.saturating_sub(y0),
        components: narrow(b, at + 40)?,
        tiles: tiles(x1, tx0, tx).saturating_mul(tiles(y1, ty0, ty)),
    })
}

/// Whether the codestream of one frame claims what the header says, and no more than its bytes can hold.
pub(super) fn check(bytes: &[u8], pixels: &Pixels) -> Result<(), String> {
    let claim = if bytes.starts_with(&[0xFF, 0xD8]) {
        jpeg(bytes)
    } else {
        jpeg2000(bytes)
    };
    let Some(claim) = claim else { return Ok(()) };
    let header = (
        pixels.columns as u64,
        pixels.rows as u64,
        pixels.samples as u64,
    );
    // The number of rows may follow the first scan of a JPEG (0 here); then a decoder must not guess either.
    if (claim.columns, claim.rows, claim.components) != header {
        return Err(format!(
            "expected {}x{} values of {} component(s), found a codestream of {}x{} of {}",
            header.0, header.1, header.2, claim.columns, claim.rows, claim.components
        ));
    }
    if claim.tiles.saturating_mul(TILE) > bytes.len() as u64 {
        return Err(format!(
            "a codestream of {} tiles in {} bytes",
            claim.tiles,
            bytes.len()
        ));
    }
    Ok(())
}

/// Bytes of pixels that one byte of a codestream can stand for at most, with room to spare: a run-length pair gives 64,
/// a bit of lossless JPEG one value, two bits of JPEG a block of 64. JPEG-LS and JPEG 2000 have no such bound, but no real
/// picture, not even an empty one, comes near this.
fn most_from_a_byte(syntax: &str) -> u64 {
    match syntax {
        "1.2.840.10008.1.2.5" => 128,
        "1.2.840.10008.1.2.4.57" | "1.2.840.10008.1.2.4.70" => 32,
        "1.2.840.10008.1.2.4.50" | "1.2.840.10008.1.2.4.51" => 1024,
        _ => 32768,
    }
}

/// Holds what the header claims against what the file can have.
pub(super) fn check_length(p: &Pixels, syntax: &str, file_length: u64) -> Result<(), String> {
    let left = file_length.saturating_sub(p.offset);
    let expected = p
        .frame_bits()
        .and_then(|b| b.checked_mul(p.frames as u64))
        .ok_or("an image larger than any file")?
        .div_ceil(8);
    let Some(length) = p.length else {
        return if left < 8 {
            Err("pixel data cut short: no compressed frame is there".to_owned())
        } else if left / 8 < p.frames as u64 {
            Err(format!(
                "pixel data cut short: {} compressed frames cannot be in {left} bytes",
                p.frames
            ))
        } else if expected > left.saturating_mul(most_from_a_byte(syntax)) {
            Err(format!(
                "pixel data cut short: {}x{}x{} values cannot be in {left} bytes",
                p.columns, p.rows, p.frames
            ))
        } else {
            Ok(())
        };
    };
    let found = left.min(length);
    if found < expected {
        return Err(format!(
            "pixel data cut short: expected {expected} bytes, found {found}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixels(columns: usize, rows: usize) -> Pixels {
        Pixels {
            columns,
            rows,
            samples: 1,
            ..Pixels::default()
        }
    }

    fn j2k(columns: u32, rows: u32, tile: u32) -> Vec<u8> {
        let mut b = vec![0xFF, 0x4F, 0xFF, 0x51, 0, 41, 0, 0];
        for v in [columns, rows, 0, 0, tile, tile, 0, 0] {
            b.extend(v.to_be_bytes());
        }
        b.extend([0, 1, 11, 1, 1]);
        b.resize(300, 0);
        b
    }

    #[test]
    fn a_codestream_that_claims_more_than_its_header_is_refused_before_it_is_decoded() {
        assert_eq!(check(&j2k(64, 48, 64), &pixels(64, 48)), Ok(()));
        let e = check(&j2k(60000, 60000, 60000), &pixels(64, 48)).unwrap_err();
        assert!(e.contains("found a codestream of 60000x60000"), "{e}");
        let e = check(&j2k(512, 512, 1), &pixels(512, 512)).unwrap_err();
        assert!(e.contains("262144 tiles in 300 bytes"), "{e}");
        let jpeg = |rows: u8| {
            [
                0xFF, 0xD8, 0xFF, 0xF7, 0, 11, 8, 0, rows, 0, 4, 1, 1, 0x11, 0,
            ]
        };
        assert_eq!(check(&jpeg(2), &pixels(4, 2)), Ok(()));
        assert!(check(&jpeg(200), &pixels(4, 2)).is_err());
    }
}
