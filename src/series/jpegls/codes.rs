//! The codes in the bits of a JPEG-LS scan.

use crate::series::bits::Bits;

impl Bits<'_, true> {
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
