//! The bits of a JPEG-LS scan and the codes in them.

/// The lowest and the highest bit of each of eight bytes.
const LOWEST_BITS: u64 = 0x0101_0101_0101_0101;
const HIGHEST_BITS: u64 = 0x8080_8080_8080_8080;

/// Bits of a scan, first bit at the top; the zero after a byte of 255 is taken out, a marker ends it.
pub(super) struct Bits<'a> {
    pub(super) data: &'a [u8],
    at: usize,
    held: u64,
    n: u32,
    /// Bits made up after the end.
    past: u32,
}

impl<'a> Bits<'a> {
    pub(super) fn new(data: &'a [u8], at: usize) -> Self {
        Self {
            data,
            at,
            held: 0,
            n: 0,
            past: 0,
        }
    }

    /// Makes sure that 32 bits are there (zeros after the end).
    #[inline]
    fn fill(&mut self) {
        if self.n >= 32 {
            return;
        }
        if let Some(&next) = self.data.get(self.at..).and_then(|d| d.first_chunk::<8>()) {
            let word = u64::from_be_bytes(next);
            // No byte of 255 among the eight: nothing is stuffed and no marker comes.
            let turned = !word;
            if turned.wrapping_sub(LOWEST_BITS) & word & HIGHEST_BITS == 0 {
                self.held |= word >> self.n;
                self.at += ((63 - self.n) >> 3) as usize;
                self.n |= 0x38;
                return;
            }
        }
        self.fill_bytes();
    }

    fn fill_bytes(&mut self) {
        while self.n <= 48 {
            let (bits, n) = match (self.data.get(self.at), self.data.get(self.at + 1)) {
                (Some(0xFF), Some(&next @ 0..0x80)) => {
                    self.at += 2;
                    (0xFF << 7 | u64::from(next), 15)
                }
                (Some(0xFF) | None, _) => {
                    self.past += 8;
                    (0, 8)
                }
                (Some(&b), _) => {
                    self.at += 1;
                    (u64::from(b), 8)
                }
            };
            self.held |= bits << (64 - n - self.n);
            self.n += n;
        }
    }

    #[inline]
    fn skip(&mut self, n: u32) {
        self.held <<= n;
        self.n -= n;
    }

    /// The next `n` bits, 31 at most.
    #[inline]
    pub(super) fn read(&mut self, n: u32) -> u32 {
        self.fill();
        let value = low32(self.held >> 1 >> (63 - n));
        self.skip(n);
        value
    }

    /// A Golomb code with parameter `k`: as many zeros as its upper part, a one, `k` bits. After `most` zeros, the whole value
    /// less one in `wide` bits.
    #[inline]
    pub(super) fn golomb(&mut self, k: u32, most: u32, wide: u32) -> Option<i32> {
        self.fill();
        let zeros = self.held.leading_zeros();
        let used = zeros + 1 + k;
        let value = if zeros < most && used <= 32 {
            let low = self.held << zeros << 1;
            self.skip(used);
            zeros << k | low32(low >> 1 >> (63 - k))
        } else {
            self.long(k, most, wide)?
        };
        i32::try_from(value).ok()
    }

    #[cold]
    fn long(&mut self, k: u32, most: u32, wide: u32) -> Option<u32> {
        let mut zeros = 0;
        loop {
            self.fill();
            let more = self.held.leading_zeros().min(31);
            zeros += more;
            if zeros > most || k > 24 {
                return None;
            }
            if more < 31 {
                self.skip(more + 1);
                break;
            }
            self.skip(31);
        }
        if zeros == most {
            Some(self.read(wide) + 1)
        } else {
            // At most 62 zeros and 24 bits.
            Some(zeros << k | self.read(k))
        }
    }

    /// Whether more bits were used than there are.
    pub(super) fn overrun(&self) -> bool {
        self.past > self.n
    }

    /// Goes past the marker after the last code.
    pub(super) fn marker(&mut self, expected: u8) -> Result<(), String> {
        self.fill_bytes();
        let end = self.data.get(self.at..).unwrap_or_default();
        let fill = end.iter().take_while(|&&b| b == 0xFF).count();
        // What is left of the last byte is zeros; a byte of zeros more may follow one of 255.
        let over = self.held != 0 || self.n.saturating_sub(self.past) > 15;
        let found = match end.get(fill) {
            _ if over || (fill == 0 && !end.is_empty()) => "more of its values".to_owned(),
            Some(&m) if m == expected => {
                *self = Self::new(self.data, self.at + fill + 1);
                return Ok(());
            }
            Some(m) => format!("FF{m:02X}"),
            None => "the end of the codestream".to_owned(),
        };
        Err(format!(
            "expected the marker FF{expected:02X} after a scan's last value, found {found}"
        ))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
fn low32(v: u64) -> u32 {
    v as u32
}
