//! Protocol buffers' wire format, read in place: nothing is allocated for what a message claims, only for what is there.

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field<'a> {
    /// An integer.
    Varint(u64),
    /// Four bytes.
    Fixed32([u8; 4]),
    /// Eight bytes.
    Fixed64([u8; 8]),
    /// A string, bytes, a packed list or a message.
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    /// As a signed integer.
    pub(super) const fn int(self) -> i64 {
        match self {
            Self::Varint(v) => v.cast_signed(),
            _ => 0,
        }
    }

    /// As bytes, empty for numbers.
    pub(super) const fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(b) => b,
            _ => &[],
        }
    }

    /// As text, or a sentence.
    pub(super) fn text(self) -> Result<&'a str, String> {
        std::str::from_utf8(self.bytes()).map_err(|e| format!("a name is not UTF-8 ({e})"))
    }
}

/// The fields of a message, in file order.
pub(super) struct Message<'a>(&'a [u8]);

impl<'a> Message<'a> {
    /// Reads a message from its bytes.
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    fn varint(&mut self) -> Option<u64> {
        varint(&mut self.0)
    }

    fn read(&mut self) -> Option<(u64, Field<'a>)> {
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(self.take(8)?.try_into().ok()?),
            2 => {
                let n = usize::try_from(self.varint()?).ok()?;
                Field::Bytes(self.take(n)?)
            }
            5 => Field::Fixed32(self.take(4)?.try_into().ok()?),
            _ => return None,
        };
        (key >> 3 > 0).then_some((key >> 3, field))
    }
}

impl<'a> Iterator for Message<'a> {
    type Item = Result<(u64, Field<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let left = self.0.len();
        let field = self.read();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or_else(|| {
            format!("a field is cut short or damaged {left} bytes before the end of its message")
        }))
    }
}

/// A packed list of integers, at most `most` of them.
pub(super) fn packed_ints(mut bytes: &[u8], most: usize) -> Result<Vec<i64>, String> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let value = varint(&mut bytes).ok_or("a list of integers is cut short")?;
        if out.len() >= most {
            return Err(format!("a list holds more than {most} integers"));
        }
        out.push(value.cast_signed());
    }
    Ok(out)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f).checked_shl(shift).unwrap_or(0);
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
