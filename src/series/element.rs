//! Walks the elements of a DICOM data set in a byte slice, never allocating and never reading past what the file holds.
//!
//! dicom-rs 0.10 refuses whole files for one odd element (over-long AE title, no "DICM", no meta group), allocates what a length
//! field claims and recurses as deep as a file nests; here every length is held against the bytes that are there.

/// Tags as one number, group in the upper half.
pub(super) type Tag = u32;

const ITEM: Tag = 0xFFFE_E000;
const ITEM_END: Tag = 0xFFFE_E00D;
const SEQUENCE_END: Tag = 0xFFFE_E0DD;
const UNDEFINED: u32 = 0xFFFF_FFFF;
/// Sequences inside sequences beyond this are nonsense, not data.
const DEPTH: usize = 32;

/// How numbers and lengths are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encoding {
    /// With a VR in each element.
    pub(super) explicit: bool,
    /// Most significant byte first.
    pub(super) big: bool,
}

impl Encoding {
    pub(super) const EXPLICIT: Self = Self {
        explicit: true,
        big: false,
    };
    pub(super) const IMPLICIT: Self = Self {
        explicit: false,
        big: false,
    };
    pub(super) const BIG: Self = Self {
        explicit: true,
        big: true,
    };

    pub(super) fn u16(self, b: [u8; 2]) -> u16 {
        if self.big {
            u16::from_be_bytes(b)
        } else {
            u16::from_le_bytes(b)
        }
    }

    pub(super) fn u32(self, b: [u8; 4]) -> u32 {
        if self.big {
            u32::from_be_bytes(b)
        } else {
            u32::from_le_bytes(b)
        }
    }
}

/// Tag, VR, length (`None` when undefined) and where the value starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) tag: Tag,
    /// `b"??"` in implicit data sets.
    pub(super) vr: [u8; 2],
    pub(super) length: Option<u32>,
    pub(super) value: usize,
}

impl Head {
    fn new(tag: Tag, vr: [u8; 2], length: u32, value: usize) -> Self {
        Self {
            tag,
            vr,
            length: (length != UNDEFINED).then_some(length),
            value,
        }
    }
}

/// One element; `value` is the content between header and end for both known and undefined lengths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'a> {
    pub(super) tag: Tag,
    /// `b"??"` in implicit data sets.
    pub(super) vr: [u8; 2],
    pub(super) value: &'a [u8],
    pub(super) encoding: Encoding,
}

/// Why walking stopped early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WalkError {
    /// The bytes end inside an element.
    Short { tag: Tag, expected: u64, found: u64 },
    /// The bytes are no data set.
    Nonsense(&'static str),
}

impl std::fmt::Display for WalkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Short {
                tag,
                expected,
                found,
            } => write!(
                f,
                "the file ends inside the element ({:04X},{:04X}): expected {expected} bytes, found {found}",
                tag >> 16,
                tag & 0xFFFF
            ),
            Self::Nonsense(what) => f.write_str(what),
        }
    }
}

/// Goes from element to element.
#[derive(Clone, Debug)]
pub(super) struct Walker<'a> {
    data: &'a [u8],
    pos: usize,
    encoding: Encoding,
    depth: usize,
}

/// VRs whose length has two bytes.
fn is_short(vr: [u8; 2]) -> bool {
    matches!(
        &vr,
        b"AE"
            | b"AS"
            | b"AT"
            | b"CS"
            | b"DA"
            | b"DS"
            | b"DT"
            | b"FD"
            | b"FL"
            | b"IS"
            | b"LO"
            | b"LT"
            | b"PN"
            | b"SH"
            | b"SL"
            | b"SS"
            | b"ST"
            | b"TM"
            | b"UI"
            | b"UL"
            | b"US"
    )
}

/// VRs whose length has four bytes, after two that are reserved.
fn is_long(vr: [u8; 2]) -> bool {
    matches!(
        &vr,
        b"OB"
            | b"OD"
            | b"OF"
            | b"OL"
            | b"OV"
            | b"OW"
            | b"SQ"
            | b"SV"
            | b"UC"
            | b"UN"
            | b"UR"
            | b"UT"
            | b"UV"
    )
}

/// Whether two bytes look like a VR.
pub(super) fn looks_like_vr(b: &[u8]) -> bool {
    matches!(b, [a, b, ..] if a.is_ascii_uppercase() && b.is_ascii_uppercase())
}

impl<'a> Walker<'a> {
    pub(super) fn new(data: &'a [u8], start: usize, encoding: Encoding) -> Self {
        Self {
            data,
            pos: start,
            encoding,
            depth: 0,
        }
    }

    /// Where the next element starts.
    pub(super) fn pos(&self) -> usize {
        self.pos
    }

    fn take<const N: usize>(&self, at: usize, tag: Tag) -> Result<[u8; N], WalkError> {
        self.data
            .get(at..)
            .and_then(|d| d.first_chunk::<N>())
            .copied()
            .ok_or_else(|| WalkError::Short {
                tag,
                expected: N as u64,
                found: self.data.len().saturating_sub(at) as u64,
            })
    }

    /// The tag of the next element without moving.
    pub(super) fn peek(&self) -> Result<Option<Tag>, WalkError> {
        if self.pos >= self.data.len() {
            return Ok(None);
        }
        let [a, b, c, d] = self.take::<4>(self.pos, 0)?;
        let group = self.encoding.u16([a, b]);
        let element = self.encoding.u16([c, d]);
        Ok(Some((u32::from(group) << 16) | u32::from(element)))
    }

    fn head(&self) -> Result<Option<Head>, WalkError> {
        let Some(tag) = self.peek()? else {
            return Ok(None);
        };
        let at = self.pos + 4;
        if matches!(tag, ITEM | ITEM_END | SEQUENCE_END) || !self.encoding.explicit {
            let length = self.encoding.u32(self.take::<4>(at, tag)?);
            return Ok(Some(Head::new(tag, *b"??", length, at + 4)));
        }
        let [v0, v1, l0, l1] = self.take::<4>(at, tag)?;
        let vr = [v0, v1];
        // Seen: private elements with VRs of their maker's own (`??`, zeros, letters); those that are new in a later
        // edition of the standard have the long form, whose two reserved bytes are zero.
        let unknown = !is_short(vr) && !is_long(vr);
        let named = looks_like_vr(&vr) || vr == *b"??";
        let reserved = [l0, l1] == [0, 0];
        if is_long(vr) || unknown && named && reserved {
            let length = self.encoding.u32(self.take::<4>(at + 4, tag)?);
            return Ok(Some(Head::new(tag, vr, length, at + 8)));
        }
        if unknown && !named && (vr != [0, 0] || reserved) {
            // Seen: explicit files with single implicit elements inside (their length read as a VR).
            let length = self.encoding.u32([v0, v1, l0, l1]);
            return Ok(Some(Head::new(tag, *b"??", length, at + 4)));
        }
        let length = u32::from(self.encoding.u16([l0, l1]));
        Ok(Some(Head::new(tag, vr, length, at + 4)))
    }

    /// The head of the next element alone, for pixel data whose value need not be here.
    pub(super) fn next_head(&self) -> Result<Option<Head>, WalkError> {
        self.head()
    }

    /// The next element; `None` at the end of the data (or of the item).
    pub(super) fn next(&mut self) -> Result<Option<Element<'a>>, WalkError> {
        let Some(Head {
            tag,
            vr,
            length,
            value: at,
        }) = self.head()?
        else {
            return Ok(None);
        };
        let encoding = if vr == *b"UN" {
            self.inside_unknown(at, length.is_none())
        } else {
            self.encoding
        };
        let (end, after) = if let Some(length) = length {
            let end = at.saturating_add(length as usize);
            (end, end)
        } else {
            self.find_end(tag, at, encoding)?
        };
        let value = self.data.get(at..end).ok_or_else(|| WalkError::Short {
            tag,
            expected: u64::from(length.unwrap_or_default()),
            found: self.data.len().saturating_sub(at) as u64,
        })?;
        self.pos = after;
        Ok(Some(Element {
            tag,
            vr,
            value,
            encoding,
        }))
    }

    /// How the items of a sequence are written whose VR says UN: implicit little endian (PS3.5 6.2.2).
    /// Seen: explicit ones too; the first element of the first item tells. Other values stay as the file is.
    fn inside_unknown(&self, at: usize, undefined: bool) -> Encoding {
        let head = self.data.get(at..at.saturating_add(14)).unwrap_or_default();
        if !undefined && !head.starts_with(&[0xFE, 0xFF, 0x00, 0xE0]) {
            return self.encoding;
        }
        match head.last_chunk::<2>() {
            Some(&vr) if head.len() == 14 && (is_short(vr) || is_long(vr)) => Encoding::EXPLICIT,
            _ => Encoding::IMPLICIT,
        }
    }

    /// End of the value and start of what follows, for a value of undefined length.
    fn find_end(
        &self,
        tag: Tag,
        start: usize,
        encoding: Encoding,
    ) -> Result<(usize, usize), WalkError> {
        if self.depth >= DEPTH {
            return Err(WalkError::Nonsense("sequences nested more than 32 deep"));
        }
        let closing = if tag == ITEM { ITEM_END } else { SEQUENCE_END };
        let mut inner = Self {
            data: self.data,
            pos: start,
            encoding,
            depth: self.depth + 1,
        };
        loop {
            let at = inner.pos;
            match inner.head()? {
                None => {
                    return Err(WalkError::Short {
                        tag,
                        expected: 8,
                        found: 0,
                    });
                }
                Some(h) if h.tag == closing => return Ok((at, h.value)),
                Some(_) => inner.next()?,
            };
        }
    }
}

impl<'a> Element<'a> {
    /// The items of a sequence, each to be walked.
    pub(super) fn items(&self) -> Items<'a> {
        Items {
            walker: Walker {
                data: self.value,
                pos: 0,
                encoding: self.encoding,
                depth: 1,
            },
        }
    }
}

/// Walks over the items of a sequence.
#[derive(Clone, Debug)]
pub(super) struct Items<'a> {
    walker: Walker<'a>,
}

impl<'a> Iterator for Items<'a> {
    type Item = Walker<'a>;

    fn next(&mut self) -> Option<Walker<'a>> {
        let inside = |data, encoding| Walker {
            data,
            pos: 0,
            encoding,
            depth: 1,
        };
        match self.walker.next() {
            Ok(Some(e)) if e.tag == ITEM => Some(inside(e.value, e.encoding)),
            Err(WalkError::Short { tag: ITEM, .. }) => {
                // Seen: a last item that claims more bytes than its sequence has, after elements were taken out of it.
                let head = self.walker.head().ok()??;
                head.length?;
                let rest = self.walker.data.get(head.value..)?;
                self.walker.pos = self.walker.data.len();
                Some(inside(rest, self.walker.encoding))
            }
            _ => None,
        }
    }
}
