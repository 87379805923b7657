//! Lossless JPEG (process 14, transfer syntaxes .57 and .70), one grey component: what most compressed CT is stored as.
//! dicom-rs 0.10's decoder takes several times as long as this one; what is not read here is left to it.

use super::bits::Bits;
use super::header::Pixels;
use super::jpeg::{CUT, RESTART, SCAN, Segments};

/// Codes with their difference that fit in so many bits are looked up in one step.
const FAST: u32 = 12;

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

impl Bits<'_, false> {
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
        self.skip(used);
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
        self.skip(length);
        match size {
            0..=15 => {
                let bits = if size == 0 {
                    0
                } else {
                    self.held >> (64 - size)
                };
                self.skip(size);
                Some(difference(bits, size))
            }
            16 => Some(0x8000),
            _ => None,
        }
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
    let mut segments = Segments::of(bytes)?;
    loop {
        let segment = segments.next()?;
        match segment.marker {
            0xC3 if frame.header(segment.body, pixels)? => {}
            0xC4 => frame.huffman(segment.body)?,
            0xC0..=0xCF => return Ok(false),
            RESTART => frame.restart = segment.number(),
            SCAN => return frame.scan(segment.body, Bits::new(bytes, segment.end), out),
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

    fn scan(
        &self,
        body: &[u8],
        mut bits: Bits<'_, false>,
        out: &mut Vec<u8>,
    ) -> Result<bool, String> {
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
    bits: &mut Bits<'_, false>,
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

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: u16 = 5;
    const ROWS: u16 = 7;

    /// Bits to bytes, highest first; a byte of 255 is followed by a stuffed zero.
    #[derive(Default)]
    struct Packed {
        bytes: Vec<u8>,
        held: u32,
        n: u32,
    }

    impl Packed {
        fn put(&mut self, value: u32, n: u32) {
            for bit in (0..n).rev() {
                self.held = self.held << 1 | (value >> bit & 1);
                self.n += 1;
                if self.n == 8 {
                    self.bytes.push(u8::try_from(self.held).unwrap());
                    if self.held == 0xFF {
                        self.bytes.push(0);
                    }
                    (self.held, self.n) = (0, 0);
                }
            }
        }

        fn end(&mut self) {
            while self.n > 0 {
                self.put(1, 1);
            }
        }
    }

    /// What a scan is coded with.
    #[derive(Clone, Copy, Debug)]
    struct Coded {
        precision: u8,
        predictor: u8,
        shift: u8,
        /// Rows between restart markers; 0 for none.
        restart: u16,
    }

    /// The prediction of T.81, H.1.2.1; `fresh` is the first row since the last start.
    fn predicted(values: &[u16], at: usize, fresh: usize, coded: Coded) -> i32 {
        let columns = usize::from(COLUMNS);
        let of = |back: usize| i32::from(values[at - back]);
        match (at / columns == fresh, at % columns) {
            (true, 0) => 1 << (coded.precision - coded.shift - 1),
            (true, _) => of(1),
            (false, 0) => of(columns),
            (false, _) => {
                let (a, b, c) = (of(1), of(columns), of(columns + 1));
                let half = |v: i32| v.div_euclid(2);
                match coded.predictor {
                    1 => a,
                    2 => b,
                    3 => c,
                    4 => a + b - c,
                    5 => a + half(b - c),
                    6 => b + half(a - c),
                    _ => half(a + b),
                }
            }
        }
    }

    /// The codestream of stored values: each size of a difference has a code of five bits, which is the size.
    fn encoded(values: &[u16], coded: Coded) -> Vec<u8> {
        let [h, w] = [ROWS, COLUMNS].map(u16::to_be_bytes);
        let mut out = vec![0xFF, 0xD8, 0xFF, 0xC3, 0, 11, coded.precision];
        out.extend([h[0], h[1], w[0], w[1], 1, 1, 0x11, 0]);
        out.extend([0xFF, 0xC4, 0, 36, 0, 0, 0, 0, 0, 17]);
        out.extend([0; 11]);
        out.extend(0..=16);
        if coded.restart > 0 {
            out.extend([0xFF, 0xDD, 0, 4]);
            out.extend((coded.restart * COLUMNS).to_be_bytes());
        }
        out.extend([0xFF, 0xDA, 0, 8, 1, 1, 0, coded.predictor, 0, coded.shift]);
        let (mut packed, mut fresh, mut marker) = (Packed::default(), 0, 0xD0);
        for at in 0..values.len() {
            let (row, column) = (at / usize::from(COLUMNS), at % usize::from(COLUMNS));
            let interval = usize::from(coded.restart);
            if interval > 0 && row > fresh && column == 0 && row % interval == 0 {
                packed.end();
                packed.bytes.extend([0xFF, marker]);
                (fresh, marker) = (row, 0xD0 | (marker + 1) & 7);
            }
            let apart = i32::from(values[at]) - predicted(values, at, fresh, coded);
            let apart = apart.rem_euclid(65536);
            if apart == 32768 {
                packed.put(16, 5);
                continue;
            }
            let apart = if apart > 32768 { apart - 65536 } else { apart };
            let size = 32 - apart.unsigned_abs().leading_zeros();
            packed.put(size, 5);
            let bits = if apart < 0 {
                apart + (1 << size) - 1
            } else {
                apart
            };
            packed.put(u32::try_from(bits).unwrap(), size);
        }
        packed.end();
        out.extend(packed.bytes);
        out.extend([0xFF, 0xD9]);
        out
    }

    /// Values of so many bits, with the ends of the range among them.
    fn values(bits: u8) -> Vec<u16> {
        let most = u16::MAX >> (16 - bits);
        let mut state = 7u32;
        (0..ROWS * COLUMNS)
            .map(|n| {
                state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
                match n % 6 {
                    0 => 0,
                    4 => most,
                    _ => u16::try_from(state >> 16).unwrap() & most,
                }
            })
            .collect()
    }

    fn pixels() -> Pixels {
        Pixels {
            rows: ROWS.into(),
            columns: COLUMNS.into(),
            ..Pixels::default()
        }
    }

    #[test]
    fn every_predictor_with_and_without_restarts_at_8_12_and_16_bits_is_undone() {
        let mut cases = Vec::new();
        for precision in [8, 12, 16] {
            for predictor in 1..=7 {
                for (shift, restart) in [(0, 0), (0, 1), (0, 3), (2, 0), (2, 3)] {
                    cases.push(Coded {
                        precision,
                        predictor,
                        shift,
                        restart,
                    });
                }
            }
        }
        for coded in cases {
            let stored = values(coded.precision - coded.shift);
            let mut out = Vec::new();
            let bytes = encoded(&stored, coded);
            assert_eq!(decode(&bytes, &pixels(), &mut out), Ok(true), "{coded:?}");
            let words = out.as_chunks::<2>().0.iter();
            let got: Vec<u16> = words.map(|&w| u16::from_le_bytes(w)).collect();
            let want: Vec<u16> = stored.iter().map(|v| v << coded.shift).collect();
            assert_eq!(got, want, "{coded:?}");
        }
    }

    #[test]
    fn a_restart_within_a_row_is_left_to_others_and_a_missing_one_is_told() {
        let coded = Coded {
            precision: 12,
            predictor: 4,
            shift: 0,
            restart: 3,
        };
        let bytes = encoded(&values(12), coded);
        let at = |mark: [u8; 2]| bytes.windows(2).position(|w| w == mark).unwrap();
        let mut within = bytes.clone();
        within[at([0xFF, 0xDD]) + 5] = 7;
        assert_eq!(decode(&within, &pixels(), &mut Vec::new()), Ok(false));
        let mut missing = bytes.clone();
        missing[at([0xFF, 0xD0]) + 1] = 0xD9;
        let e = decode(&missing, &pixels(), &mut Vec::new()).unwrap_err();
        assert!(e.contains("restart marker is missing"), "{e}");
    }
}
