//! Sequential JPEG with 12 bits (process 4, transfer syntax .51), one grey component. dicom-rs 0.10's decoder stops at
//! "unsupported JPEG feature: SamplePrecision(12)"; this is what it lacks: Huffman codes, dequantising, the inverse DCT.

use super::header::Pixels;
use super::jpeg::{CUT, RESTART, SCAN, Segments};

/// Coefficients in the order of the codestream, by their place in a block.
const ZIGZAG: [usize; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// A Huffman table: for each length the first code, the first index and how many; then the symbols.
#[derive(Clone, Debug, Default)]
struct Huffman {
    lengths: [(i32, usize, i32); 16],
    symbols: Vec<u8>,
}

impl Huffman {
    fn new(counts: &[u8], symbols: &[u8]) -> Self {
        let mut lengths = [(0, 0, 0); 16];
        let (mut code, mut index) = (0i32, 0usize);
        for (slot, &n) in lengths.iter_mut().zip(counts) {
            *slot = (code, index, i32::from(n));
            code = (code + i32::from(n)) << 1;
            index += usize::from(n);
        }
        Self {
            lengths,
            symbols: symbols.to_vec(),
        }
    }
}

/// Bits of an entropy-coded segment; stuffed zeros are taken out, a marker ends it.
struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    held: u32,
    n: u32,
}

impl<'a> Bits<'a> {
    fn new(data: &'a [u8], at: usize) -> Self {
        Self {
            data,
            at,
            held: 0,
            n: 0,
        }
    }

    fn bit(&mut self) -> Result<u32, String> {
        if self.n == 0 {
            let byte = *self.data.get(self.at).ok_or(CUT)?;
            self.at += 1;
            if byte == 0xFF {
                if self.data.get(self.at) != Some(&0) {
                    return Err(CUT.to_owned());
                }
                self.at += 1;
            }
            self.held = byte.into();
            self.n = 8;
        }
        self.n -= 1;
        Ok(self.held >> self.n & 1)
    }

    fn symbol(&mut self, table: &Huffman) -> Result<u8, String> {
        let mut code = 0i32;
        for &(first, index, n) in &table.lengths {
            code = code << 1 | self.bit()?.cast_signed();
            let within = code - first;
            if within < n
                && let Ok(within) = usize::try_from(within)
            {
                return table
                    .symbols
                    .get(index + within)
                    .copied()
                    .ok_or_else(|| "a Huffman table without symbols".to_owned());
            }
        }
        Err("a code that is in no Huffman table".to_owned())
    }

    /// A signed value of `n` bits: those with a leading zero stand for negative ones.
    fn value(&mut self, n: u8) -> Result<i64, String> {
        let mut v = 0i64;
        for _ in 0..n {
            v = v << 1 | i64::from(self.bit()?);
        }
        Ok(if n > 0 && v < 1 << (n - 1) {
            v - (1 << n) + 1
        } else {
            v
        })
    }

    /// Goes past a restart marker.
    fn restart(&mut self) -> Result<(), String> {
        self.n = 0;
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
    quantiser: u8,
    restart: usize,
    quantisers: [Vec<i64>; 4],
    dc: [Huffman; 4],
    ac: [Huffman; 4],
}

/// The bits for each value that the codestream's frame header says.
pub(super) fn precision(bytes: &[u8]) -> Option<u8> {
    Segments::of(bytes).ok()?.frame()?.body.first().copied()
}

/// Decodes one grey frame to little-endian words.
pub(super) fn decode(bytes: &[u8], pixels: &Pixels, out: &mut Vec<u8>) -> Result<(), String> {
    let mut frame = Frame::default();
    let mut segments = Segments::of(bytes)?;
    loop {
        let segment = segments.next()?;
        match segment.marker {
            0xC4 => frame.huffman(segment.body)?,
            0xC0 | 0xC1 => frame.header(segment.body, pixels)?,
            0xDB => frame.quantiser(segment.body)?,
            RESTART => frame.restart = segment.number(),
            SCAN => return frame.scan(segment.body, Bits::new(bytes, segment.end), out),
            marker @ 0xC2..=0xCF => {
                return Err(format!(
                    "a JPEG process (marker FF{marker:02X}) that is not sequential"
                ));
            }
            _ => {}
        }
    }
}

impl Frame {
    fn header(&mut self, body: &[u8], pixels: &Pixels) -> Result<(), String> {
        let &[precision, r1, r0, c1, c0, components, _, _, quantiser, ..] = body else {
            return Err(CUT.to_owned());
        };
        self.precision = precision;
        self.rows = u16::from_be_bytes([r1, r0]).into();
        self.columns = u16::from_be_bytes([c1, c0]).into();
        self.quantiser = quantiser;
        if (self.columns, self.rows, components) != (pixels.columns, pixels.rows, 1) {
            return Err(format!(
                "expected {}x{} values of one component, found {}x{} of {components}",
                pixels.columns, pixels.rows, self.columns, self.rows
            ));
        }
        Ok(())
    }

    fn quantiser(&mut self, mut body: &[u8]) -> Result<(), String> {
        while let Some((&head, rest)) = body.split_first() {
            let wide = head >> 4 != 0;
            let size = if wide { 128 } else { 64 };
            let (table, rest) = rest.split_at_checked(size).ok_or(CUT)?;
            let values = if wide {
                table
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|&c| u16::from_be_bytes(c).into())
                    .collect()
            } else {
                table.iter().map(|&v| v.into()).collect()
            };
            if let Some(slot) = self.quantisers.get_mut(usize::from(head & 15)) {
                *slot = values;
            }
            body = rest;
        }
        Ok(())
    }

    fn huffman(&mut self, mut body: &[u8]) -> Result<(), String> {
        while let Some((&head, rest)) = body.split_first() {
            let (counts, rest) = rest.split_at_checked(16).ok_or(CUT)?;
            let n = counts.iter().map(|&c| usize::from(c)).sum();
            let (symbols, rest) = rest.split_at_checked(n).ok_or(CUT)?;
            let tables = if head >> 4 == 0 {
                &mut self.dc
            } else {
                &mut self.ac
            };
            if let Some(slot) = tables.get_mut(usize::from(head & 15)) {
                *slot = Huffman::new(counts, symbols);
            }
            body = rest;
        }
        Ok(())
    }

    fn scan(&self, body: &[u8], mut bits: Bits<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let &[1, _, tables, ..] = body else {
            return Err("a scan of several components, expected one".to_owned());
        };
        let missing = || "a scan without its tables".to_owned();
        let dc = self.dc.get(usize::from(tables >> 4)).ok_or_else(missing)?;
        let ac = self.ac.get(usize::from(tables & 15)).ok_or_else(missing)?;
        let quantiser = self
            .quantisers
            .get(usize::from(self.quantiser))
            .filter(|q| q.len() == 64)
            .ok_or_else(missing)?;
        let (across, down) = (self.columns.div_ceil(8), self.rows.div_ceil(8));
        // A block takes two bits at least, so that a small file cannot claim much memory.
        if across * down / 4 > bits.data.len() {
            return Err(CUT.to_owned());
        }
        out.resize(self.rows * self.columns * 2, 0);
        let mut last = 0i64;
        for n in 0..across * down {
            if self.restart > 0 && n > 0 && n % self.restart == 0 {
                bits.restart()?;
                last = 0;
            }
            let block = block(&mut bits, dc, ac, quantiser, &mut last)?;
            self.place(&inverse(&block), n % across * 8, n / across * 8, out);
        }
        Ok(())
    }

    /// Puts a block's values into the picture, level-shifted and clamped.
    fn place(&self, block: &[i64; 64], left: usize, top: usize, out: &mut [u8]) {
        let half = 1i64 << (self.precision.clamp(1, 16) - 1);
        let width = (self.columns - left).min(8);
        for (row, values) in block.chunks_exact(8).enumerate() {
            let start = ((top + row) * self.columns + left) * 2;
            let Some(line) = out.get_mut(start..start + width * 2) else {
                return;
            };
            for (to, &v) in line.as_chunks_mut::<2>().0.iter_mut().zip(values) {
                let v = (v + half).clamp(0, 2 * half - 1);
                *to = u16::try_from(v).unwrap_or_default().to_le_bytes();
            }
        }
    }
}

/// One block of dequantised coefficients.
fn block(
    bits: &mut Bits<'_>,
    dc: &Huffman,
    ac: &Huffman,
    quantiser: &[i64],
    last: &mut i64,
) -> Result<[i64; 64], String> {
    let mut out = [0i64; 64];
    let mut put = |k: usize, v: i64| {
        let place = ZIGZAG.get(k).copied().unwrap_or(64);
        if let (Some(to), Some(q)) = (out.get_mut(place), quantiser.get(k)) {
            *to = v * q;
        }
    };
    let n = bits.symbol(dc)?.min(16);
    // Sixteen-bit differences over a million blocks stay far inside 64 bits.
    *last += bits.value(n)?;
    put(0, *last);
    let mut k = 1;
    while k < 64 {
        let symbol = bits.symbol(ac)?;
        let (run, size) = (usize::from(symbol >> 4), symbol & 15);
        if size == 0 {
            if run != 15 {
                break;
            }
            k += 16;
            continue;
        }
        k += run;
        put(k, bits.value(size)?);
        k += 1;
    }
    Ok(out)
}

/// Fraction bits of the constants, and of values between the two passes (as 12-bit builds of common decoders have them,
/// so that lossy values agree to the last bit).
const FRACTION: u32 = 13;
const BETWEEN: u32 = 1;

/// The inverse DCT of a block: columns, then rows.
fn inverse(block: &[i64; 64]) -> [i64; 64] {
    let at = |m: &[i64; 64], i: usize| m.get(i).copied().unwrap_or_default();
    let mut half = [0i64; 64];
    for c in 0..8 {
        let column = one_dimension(std::array::from_fn(|r| at(block, r * 8 + c)));
        for (r, v) in column.into_iter().enumerate() {
            if let Some(to) = half.get_mut(r * 8 + c) {
                *to = rounded(v, FRACTION - BETWEEN);
            }
        }
    }
    let mut out = [0i64; 64];
    for (r, row) in out.chunks_exact_mut(8).enumerate() {
        let values = one_dimension(std::array::from_fn(|c| at(&half, r * 8 + c)));
        for (to, v) in row.iter_mut().zip(values) {
            *to = rounded(v, FRACTION + BETWEEN + 3);
        }
    }
    out
}

fn rounded(v: i64, bits: u32) -> i64 {
    (v + (1 << (bits - 1))) >> bits
}

/// Eight values by the factorisation of Loeffler, Ligtenberg and Moschytz (1989), scaled by 2^FRACTION and the square root of 8.
fn one_dimension(v: [i64; 8]) -> [i64; 8] {
    let [v0, v1, v2, v3, v4, v5, v6, v7] = v;
    // Even part: a rotation of 2 and 6, sum and difference of 0 and 4.
    let turn = (v2 + v6) * 4433;
    let (low, high) = (turn - v6 * 15137, turn + v2 * 6270);
    let (sum, difference) = ((v0 + v4) << FRACTION, (v0 - v4) << FRACTION);
    let even = [sum + high, difference + low, difference - low, sum - high];
    // Odd part: each output takes its own factor and two shared rotations.
    let shared = (v7 + v3 + v5 + v1) * 9633;
    let (a, b) = ((v7 + v1) * -7373, (v5 + v3) * -20995);
    let (c, d) = (shared + (v7 + v3) * -16069, shared + (v5 + v1) * -3196);
    let odd = [
        v1 * 12299 + a + d,
        v3 * 25172 + b + c,
        v5 * 16819 + b + d,
        v7 * 2446 + a + c,
    ];
    let ([e0, e1, e2, e3], [o0, o1, o2, o3]) = (even, odd);
    [
        e0 + o0,
        e1 + o1,
        e2 + o2,
        e3 + o3,
        e3 - o3,
        e2 - o2,
        e1 - o1,
        e0 - o0,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of the inverse DCT, term by term.
    fn plain(block: &[i64; 64], x: usize, y: usize) -> f64 {
        let part = |n: usize, k: usize| {
            let c = if k == 0 { 0.5f64.sqrt() } else { 1.0 };
            c * ((2 * n + 1) as f64 * k as f64 * std::f64::consts::PI / 16.0).cos()
        };
        let mut sum = 0.0;
        for v in 0..8 {
            for u in 0..8 {
                sum += block[v * 8 + u] as f64 * part(x, u) * part(y, v);
            }
        }
        sum / 4.0
    }

    #[test]
    fn the_inverse_transform_is_within_one_of_its_definition() {
        let mut block = [0i64; 64];
        let mut state = 7i64;
        for (n, b) in block.iter_mut().enumerate() {
            state = (state * 1_103_515_245 + 12345) % (1 << 31);
            *b = (state >> 12) % 2001 / (1 + i64::try_from(n).unwrap() / 4) - 200;
        }
        let got = inverse(&block);
        for y in 0..8 {
            for x in 0..8 {
                let want = plain(&block, x, y);
                assert!((got[y * 8 + x] as f64 - want).abs() <= 1.0, "{x} {y}");
            }
        }
    }

    #[test]
    fn a_codestream_that_ends_early_is_an_error() {
        let pixels = Pixels {
            rows: 8,
            columns: 8,
            ..Pixels::default()
        };
        for n in 0..4 {
            let bytes = [0xFFu8, 0xD8, 0xFF, 0xC1];
            let error = decode(&bytes[..n], &pixels, &mut Vec::new()).unwrap_err();
            assert!(error.contains("JPEG"), "{error}");
        }
    }
}
