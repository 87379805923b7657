//! The bits of the entropy-coded segments of JPEG and JPEG-LS, 32 and more at a time.

/// The lowest and the highest bit of each of eight bytes.
const LOWEST_BITS: u64 = 0x0101_0101_0101_0101;
const HIGHEST_BITS: u64 = 0x8080_8080_8080_8080;

/// Bits of a scan, first bit at the top; a marker ends it. After a byte of 255 JPEG stuffs a byte of zero, JPEG-LS (`LS`) one
/// zero bit: both are taken out.
pub(super) struct Bits<'a, const LS: bool> {
    pub(super) data: &'a [u8],
    pub(super) at: usize,
    pub(super) held: u64,
    pub(super) n: u32,
    /// Bits made up after the end.
    pub(super) past: u32,
}

impl<'a, const LS: bool> Bits<'a, LS> {
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
    pub(super) fn fill(&mut self) {
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

    pub(super) fn fill_bytes(&mut self) {
        // A pair of bytes of JPEG-LS has 15 bits.
        while self.n <= if LS { 48 } else { 56 } {
            let (bits, n) = match (self.data.get(self.at), self.data.get(self.at + 1)) {
                (Some(0xFF), Some(&next @ 0..0x80)) if LS => {
                    self.at += 2;
                    (0xFF << 7 | u64::from(next), 15)
                }
                (Some(0xFF), Some(0)) => {
                    self.at += 2;
                    (0xFF, 8)
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

    /// Goes past `n` bits that are held.
    #[inline]
    pub(super) fn skip(&mut self, n: u32) {
        self.held <<= n;
        self.n -= n;
    }

    /// Whether more bits were used than there are.
    pub(super) fn overrun(&self) -> bool {
        self.past > self.n
    }
}
