//! The segments of a JPEG or JPEG-LS codestream up to its first scan: what every reader of one walks through.

pub(super) const CUT: &str = "the JPEG codestream ends early";
pub(super) const NO_CODESTREAM: &str = "no JPEG codestream";
/// Restart interval.
pub(super) const RESTART: u8 = 0xDD;
/// Start of scan; entropy-coded data follows its segment.
pub(super) const SCAN: u8 = 0xDA;

/// One segment: its marker and what stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub(super) marker: u8,
    pub(super) body: &'a [u8],
    /// Where the bytes after it begin.
    pub(super) end: usize,
}

impl Segment<'_> {
    /// Whether it is a frame header: any SOF of JPEG, or that of JPEG-LS.
    pub(super) fn is_frame(&self) -> bool {
        matches!(self.marker, 0xC0..=0xCF | 0xF7) && !matches!(self.marker, 0xC4 | 0xC8 | 0xCC)
    }

    /// The first two bytes of its body as a number, such as a restart interval; 0 where there are none.
    pub(super) fn number(&self) -> usize {
        self.body
            .first_chunk::<2>()
            .map_or(0, |&b| u16::from_be_bytes(b).into())
    }
}

/// Segments one after the other, from the start of the codestream on. What is no segment ends them with an error.
pub(super) struct Segments<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Segments<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Result<Self, String> {
        if bytes.starts_with(&[0xFF, 0xD8]) {
            Ok(Self { bytes, at: 2 })
        } else {
            Err(NO_CODESTREAM.to_owned())
        }
    }

    pub(super) fn next(&mut self) -> Result<Segment<'a>, String> {
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            match *rest {
                // Any number of these may stand before a marker.
                [0xFF, 0xFF, ..] => self.at += 1,
                [0xFF, marker, high, low, ..] => {
                    let length = usize::from(u16::from_be_bytes([high, low])).max(2);
                    let body = rest.get(4..2 + length).ok_or(CUT)?;
                    self.at += 2 + length;
                    return Ok(Segment {
                        marker,
                        body,
                        end: self.at,
                    });
                }
                _ => return Err(CUT.to_owned()),
            }
        }
    }

    /// The frame header, where one comes before the first scan.
    pub(super) fn frame(mut self) -> Option<Segment<'a>> {
        loop {
            let segment = self.next().ok()?;
            if segment.is_frame() {
                return Some(segment);
            }
            if segment.marker == SCAN {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_fill_up_before_a_marker_hide_no_frame_header() {
        let bytes = [
            0xFF, 0xD8, 0xFF, 0xFF, 0xFF, 0xDB, 0, 3, 9, 0xFF, 0xFF, 0xC1, 0, 5, 12, 0, 8,
        ];
        let frame = Segments::of(&bytes).unwrap().frame().unwrap();
        assert_eq!((frame.marker, frame.body), (0xC1, &[12, 0, 8][..]));
        assert_eq!(frame.end, bytes.len());
    }

    #[test]
    fn a_segment_longer_than_the_codestream_is_an_early_end() {
        let mut cut = Segments::of(&[0xFF, 0xD8, 0xFF, 0xDB, 0, 9, 1]).unwrap();
        assert_eq!(cut.next(), Err(CUT.to_owned()));
        assert!(Segments::of(b"\x00\xFF\xD8").is_err());
    }
}
