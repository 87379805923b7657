//! Lossless JPEG (process 14, transfer syntaxes .57 and .70), one grey component: what most compressed CT is stored as.
//! dicom-rs 0.10's decoder takes several times as long as this one; what is not read here is left to it.

use super::header::Pixels;

const CUT: &str = "the JPEG codestream ends early";
/// Codes with their difference that fit in so many bits are looked up in one step.
const FAST: u32 = 12;
/// The lowest and the highest bit of each of eight bytes.
const LOWEST_BITS: u64 = 0x0101_0101_0101_0101;
const HIGHEST_BITS: u64 = 0x8080_8080_8080_8080;

/// A Huffman table for differences.
#[derive(Clone, Debug)]
struct Table {
    /// By the next `FAST` bits: difference in the upper half, bits used in the lower; 0 where it takes longer.
    fast: Box<[u32; 1 << FAST]>,
    /// For each length: codes (aligned left in 16 bits) below this are of this length; first code; index of its symbol.
    lengths: [(u32, u32, usize); 16],
    symbols: Vec<u8>,
}

/// The low 16 bits.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
fn low16(v: u64) -> u16 {
    v as u16
}

/// A difference of `size` bits: those with a leading zero stand for negative ones. Differences count modulo 65536.
fn difference(bits: u64, size: u32) -> u16 {
    if size == 0 {
        return 0;
    }
    let negative = bits >> (size - 1) & 1 == 0;
    let value = if negative {
        bits.wrapping_sub((1 << size) - 1)
    } else {
        bits
    };
    low16(value)
}

impl Table {
    fn new(counts: &[u8], symbols: &[u8]) -> Result<Self, String> {
        let mut fast = Box::new([0u32; 1 << FAST]);
        let mut lengths = [(0, 0, 0); 16];
        let (mut code, mut index) = (0u32, 0usize);
        for ((slot, &n), length) in lengths.iter_mut().zip(counts).zip(1u32..) {
            let last = code + u32::from(n);
            if last > 1 << length {
                return Err("a Huffman table with more codes than there can be".to_owned());
            }
            *slot = (last << (16 - length), code, index);
            for (c, &size) in (code..last).zip(symbols.iter().skip(index)) {
                fill_fast(&mut fast[..], c, length, size.into());
            }
            index += usize::from(n);
            code = last << 1;
        }
        Ok(Self {
            fast,
            lengths,
            symbols: symbols.to_vec(),
        })
    }
}

/// Puts one code with each difference that may follow it into the table of short ones.
fn fill_fast(fast: &mut [u32], code: u32, length: u32, size: u32) {
    // 16 stands for 32768 and is followed by nothing.
    let extra = if size == 16 { 0 } else { size };
    let used = length + extra;
    if used > FAST || size > 16 {
        return;
    }
    for value in 0..1u32 << extra {
        let difference = if size == 16 {
            0x8000
        } else {
            difference(value.into(), size)
        };
        let start = ((code << extra | value) << (FAST - used)) as usize;
        if let Some(range) = fast.get_mut(start..start + (1 << (FAST - used))) {
            range.fill(u32::from(difference) << 16 | used);
        }
    }
}

/// Bits of an entropy-coded segment, first bit at the top; stuffed zeros are taken out, a marker ends it.
struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    held: u64,
    n: u32,
    /// Bits made up after the end.
    past: u32,
}

impl<'a> Bits<'a> {
    fn new(data: &'a [u8], at: usize) -> Self {
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
        while self.n <= 56 {
            let byte = match (self.data.get(self.at), self.data.get(self.at + 1)) {
                (Some(0xFF), Some(0)) => {
                    self.at += 2;
                    0xFF
                }
                (Some(0xFF) | None, _) => {
                    self.past += 8;
                    0
                }
                (Some(&b), _) => {
                    self.at += 1;
                    b
                }
            };
            self.held |= u64::from(byte) << (56 - self.n);
            self.n += 8;
        }
    }

    /// The next difference.
    #[inline]
    fn next(&mut self, table: &Table) -> Option<u16> {
        self.fill();
        let entry = table
            .fast
            .get((self.held >> (64 - FAST)) as usize)
            .copied()
            .unwrap_or_default();
        if entry == 0 {
            return self.long(table);
        }
        let used = entry & 0xFF;
        self.held <<= used;
        self.n -= used;
        Some(low16(u64::from(entry >> 16)))
    }

    #[cold]
    fn long(&mut self, table: &Table) -> Option<u16> {
        let peek = u32::from(low16(self.held >> 48));
        let (&(_, first, index), length) = table
            .lengths
            .iter()
            .zip(1u32..)
            .find(|((end, ..), _)| peek < *end)?;
        let within = (peek >> (16 - length)).checked_sub(first)? as usize;
        let size = u32::from(*table.symbols.get(index + within)?);
        self.held <<= length;
        self.n -= length;
        match size {
            0..=15 => {
                let bits = if size == 0 {
                    0
                } else {
                    self.held >> (64 - size)
                };
                self.held <<= size;
                self.n -= size;
                Some(difference(bits, size))
            }
            16 => Some(0x8000),
            _ => None,
        }
    }

    /// Whether more bits were used than there are.
    fn overrun(&self) -> bool {
        self.past > self.n
    }

    /// Goes past a restart marker.
    fn restart(&mut self) -> Result<(), String> {
        // Bytes that were taken in beyond the segment do not exist: the marker stops the filling.
        (self.held, self.n, self.past) = (0, 0, 0);
        match self.data.get(self.at..self.at + 2) {
            Some([0xFF, 0xD0..=0xD7]) => {
                self.at += 2;
                Ok(())
            }
            _ => Err("a restart marker is missing".to_owned()),
        }
    }
}

/// What the headers of the codestream say.
#[derive(Default)]
struct Frame {
    rows: usize,
    columns: usize,
    precision: u8,
    restart: usize,
    tables: [Option<Table>; 4],
}

/// Decodes one grey frame to little-endian words; `false` where the codestream is of another kind, which others may read.
pub(super) fn decode(bytes: &[u8], pixels: &Pixels, out: &mut Vec<u8>) -> Result<bool, String> {
    let mut frame = Frame::default();
    let mut at = 2;
    if !bytes.starts_with(&[0xFF, 0xD8]) {
        return Err("no JPEG codestream".to_owned());
    }
    loop {
        let Some(&[0xFF, marker]) = bytes.get(at..at + 2) else {
            return Err(CUT.to_owned());
        };
        if marker == 0xFF {
            at += 1;
            continue;
        }
        let length = bytes
            .get(at + 2..)
            .and_then(|b| b.first_chunk::<2>())
            .map(|&b| usize::from(u16::from_be_bytes(b)))
            .ok_or(CUT)?;
        let body = bytes.get(at + 4..at + 2 + length.max(2)).ok_or(CUT)?;
        at += 2 + length.max(2);
        match marker {
            0xC3 if frame.header(body, pixels)? => {}
            0xC4 => frame.huffman(body)?,
            0xC0..=0xCF => return Ok(false),
            0xDD => {
                frame.restart = body
                    .first_chunk::<2>()
                    .map_or(0, |&b| u16::from_be_bytes(b).into());
            }
            0xDA => return frame.scan(body, Bits::new(bytes, at), out),
            _ => {}
        }
    }
}

impl Frame {
    /// Takes in the frame header; `false` for several components.
    fn header(&mut self, body: &[u8], pixels: &Pixels) -> Result<bool, String> {
        let &[precision, r1, r0, c1, c0, components, ..] = body else {
            return Err(CUT.to_owned());
        };
        self.precision = precision;
        self.rows = u16::from_be_bytes([r1, r0]).into();
        self.columns = u16::from_be_bytes([c1, c0]).into();
        if components != 1 || !(2..=16).contains(&precision) {
            return Ok(false);
        }
        if (self.columns, self.rows) != (pixels.columns, pixels.rows) {
            return Err(format!(
                "expected {}x{} values, found {}x{}",
                pixels.columns, pixels.rows, self.columns, self.rows
            ));
        }
        Ok(true)
    }

    fn huffman(&mut self, mut body: &[u8]) -> Result<(), String> {
        while let Some((&head, rest)) = body.split_first() {
            let (counts, rest) = rest.split_at_checked(16).ok_or(CUT)?;
            let n = counts.iter().map(|&c| usize::from(c)).sum();
            let (symbols, rest) = rest.split_at_checked(n).ok_or(CUT)?;
            if head >> 4 == 0
                && let Some(slot) = self.tables.get_mut(usize::from(head & 15))
            {
                *slot = Some(Table::new(counts, symbols)?);
            }
            body = rest;
        }
        Ok(())
    }

    fn scan(&self, body: &[u8], mut bits: Bits<'_>, out: &mut Vec<u8>) -> Result<bool, String> {
        let &[1, _, tables, predictor, _, low] = body else {
            return Ok(false);
        };
        let shift = u32::from(low & 15);
        let precision = u32::from(self.precision);
        let whole_rows = self.restart == 0 || self.restart.is_multiple_of(self.columns);
        if !(1..=7).contains(&predictor) || shift >= precision || self.rows == 0 || !whole_rows {
            return Ok(false);
        }
        let table = self
            .tables
            .get(usize::from(tables >> 4))
            .and_then(Option::as_ref)
            .ok_or("a scan without its tables")?;
        // A value takes one bit at least, so that a small file cannot claim much memory.
        if self.rows * self.columns / 8 > bits.data.len() {
            return Err(CUT.to_owned());
        }
        let row_bytes = self.columns * 2;
        out.resize(self.rows * row_bytes, 0);
        let restart_rows = self.restart / self.columns;
        let start = 1u16 << (precision - shift - 1);
        let mut above: &mut [u8] = &mut [];
        for (n, row) in out.chunks_exact_mut(row_bytes).enumerate() {
            let fresh = restart_rows > 0 && n > 0 && n % restart_rows == 0;
            if fresh {
                bits.restart()?;
            }
            let over: &[u8] = if fresh || n == 0 { &[] } else { above };
            let done = line(&mut bits, table, predictor, start, over, row);
            if done.is_none() {
                return Err("a code that is in no Huffman table".to_owned());
            }
            if bits.overrun() {
                return Err(CUT.to_owned());
            }
            above = row;
        }
        if shift > 0 {
            for word in out.as_chunks_mut::<2>().0 {
                *word = (u16::from_le_bytes(*word) << shift).to_le_bytes();
            }
        }
        Ok(true)
    }
}

/// One row of values from differences; the first one after a start is predicted from the left alone.
fn line(
    bits: &mut Bits<'_>,
    table: &Table,
    predictor: u8,
    start: u16,
    above: &[u8],
    row: &mut [u8],
) -> Option<()> {
    let row = row.as_chunks_mut::<2>().0;
    let above = above.as_chunks::<2>().0;
    let (first, rest) = row.split_first_mut()?;
    let over = above.first().map_or(start, |&b| u16::from_le_bytes(b));
    let mut left = over.wrapping_add(bits.next(table)?);
    *first = left.to_le_bytes();
    if above.is_empty() || predictor == 1 {
        for value in rest {
            left = left.wrapping_add(bits.next(table)?);
            *value = left.to_le_bytes();
        }
        return Some(());
    }
    let corners = above.windows(2);
    for (value, corner) in rest.iter_mut().zip(corners) {
        let &[corner, over] = corner else { return None };
        let (c, b) = (u16::from_le_bytes(corner), u16::from_le_bytes(over));
        left = predict(predictor, left, b, c).wrapping_add(bits.next(table)?);
        *value = left.to_le_bytes();
    }
    Some(())
}

/// The predictors of the standard from the value to the left (a), above (b) and above left (c).
fn predict(predictor: u8, a: u16, b: u16, c: u16) -> u16 {
    let (wide_a, wide_b, wide_c) = (i32::from(a), i32::from(b), i32::from(c));
    let value = match predictor {
        2 => wide_b,
        3 => wide_c,
        4 => wide_a + wide_b - wide_c,
        5 => wide_a + ((wide_b - wide_c) >> 1),
        6 => wide_b + ((wide_a - wide_c) >> 1),
        7 => (wide_a + wide_b) >> 1,
        _ => wide_a,
    };
    low16(i64::from(value).cast_unsigned())
}
