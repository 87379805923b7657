//! An encoder that mirrors the decoder; what it makes, whole and damaged, is decoded.

use super::*;
use proptest::prelude::*;

/// Bits to bytes, highest first; seven bits follow a byte of 255.
#[derive(Default)]
struct Packed {
    bytes: Vec<u8>,
    held: u32,
    n: u32,
}

impl Packed {
    fn room(&self) -> u32 {
        8 - u32::from(self.bytes.last() == Some(&0xFF))
    }

    fn put(&mut self, value: u32, n: u32) {
        for bit in (0..n).rev() {
            self.held = self.held << 1 | (value >> bit & 1);
            self.n += 1;
            if self.n == self.room() {
                self.bytes.push(u8::try_from(self.held).unwrap());
                (self.held, self.n) = (0, 0);
            }
        }
    }

    fn golomb(&mut self, code: i32, k: u32, most: u32, wide: u32) {
        let code = u32::try_from(code).unwrap();
        let zeros = (code >> k).min(most);
        (0..zeros).for_each(|_| self.put(0, 1));
        self.put(1, 1);
        if zeros < most {
            self.put(code & ((1 << k) - 1), k);
        } else {
            self.put(code - 1, wide);
        }
    }

    fn marker(&mut self, marker: u8) {
        while self.n > 0 || self.room() == 7 {
            self.put(0, 1);
        }
        self.bytes.extend([0xFF, marker]);
    }
}

/// A picture and how it is coded.
#[derive(Clone, Debug)]
struct Picture {
    columns: usize,
    rows: usize,
    precision: u8,
    near: u8,
    preset: [u16; 5],
    restart: u8,
    values: Vec<i32>,
}

/// An error against a prediction, in steps and modulo the range.
fn error(apart: i32, coding: &Coding) -> i32 {
    let steps = apart.signum() * ((apart.abs() + coding.near) / coding.step);
    let steps = steps.rem_euclid(coding.range);
    if steps >= (coding.range + 1) / 2 {
        steps - coding.range
    } else {
        steps
    }
}

/// The mirror of `Rows`.
struct Coder {
    packed: Packed,
    coding: Coding,
    state: State,
}

impl Coder {
    fn row(&mut self, above: &[i32], row: &mut [i32]) {
        let (coding, width) = (self.coding, row.len() - 2);
        row[0] = above[1];
        let mut x = 1;
        while x <= width {
            let (a, b, c, d) = (row[x - 1], above[x], above[x - 1], above[x + 1]);
            let class = 81 * coding.class(d - b) + 9 * coding.class(b - c) + coding.class(c - a);
            if class != 0 {
                row[x] = self.regular(class, [a, b, c], row[x]);
                x += 1;
                continue;
            }
            let start = x;
            while x <= width && (row[x] - a).abs() <= coding.near {
                row[x] = a;
                x += 1;
            }
            self.run(x - start, x > width);
            if x <= width {
                row[x] = self.end(a, above[x], row[x]);
                x += 1;
            }
        }
        row[width + 1] = row[width];
    }

    fn regular(&mut self, class: i32, [a, b, c]: [i32; 3], value: i32) -> i32 {
        let coding = self.coding;
        let sign = class.signum();
        let context = &mut self.state.contexts[class.unsigned_abs() as usize];
        let predicted = if c >= a.max(b) {
            a.min(b)
        } else if c <= a.min(b) {
            a.max(b)
        } else {
            a + b - c
        };
        let predicted = (predicted + sign * context.correction).clamp(0, coding.maximum);
        let e = error(sign * (value - predicted), &coding);
        let k = context.parameter();
        let turned = if context.turned(k, &coding) {
            -e - 1
        } else {
            e
        };
        let code = if turned < 0 {
            -2 * turned - 1
        } else {
            2 * turned
        };
        context.update(e, &coding);
        self.packed.golomb(code, k, coding.zeros, coding.wide);
        coding.value(predicted, sign * e)
    }

    fn run(&mut self, mut run: usize, to_the_end: bool) {
        while run >= 1 << self.state.run_bits() {
            run -= 1 << self.state.run_bits();
            self.packed.put(1, 1);
            self.state.longer();
        }
        if !to_the_end {
            let bits = self.state.run_bits();
            self.packed.put(u32::try_from(run).unwrap(), bits + 1);
        } else if run > 0 {
            self.packed.put(1, 1);
        }
    }

    fn end(&mut self, a: i32, b: i32, value: i32) -> i32 {
        let coding = self.coding;
        let alike = (a - b).abs() <= coding.near;
        let (from, sign) = match (alike, b < a) {
            (true, _) => (a, 1),
            (false, true) => (b, -1),
            (false, false) => (b, 1),
        };
        let e = error(sign * (value - from), &coding);
        let taken = self.state.run_bits() + 1;
        let ends = &mut self.state.ends[usize::from(alike)];
        let k = ends.parameter();
        let odd = e != 0 && (e < 0) == ends.odd_is_negative(k);
        let code = 2 * e.abs() - ends.alike - i32::from(odd);
        ends.update(e, code, &coding);
        self.packed
            .golomb(code, k, coding.zeros - taken, coding.wide);
        self.state.run_index = self.state.run_index.saturating_sub(1);
        coding.value(from, sign * e)
    }
}

impl Picture {
    /// The codestream, with the values that it stands for.
    fn coded(&self) -> (Vec<u8>, Vec<i32>) {
        let [h, w] = [self.rows, self.columns].map(|n| u16::try_from(n).unwrap().to_be_bytes());
        let mut head = vec![0xFF, 0xD8, 0xFF, FRAME, 0, 11, self.precision];
        head.extend([h[0], h[1], w[0], w[1], 1, 1, 0x11, 0]);
        if self.preset != [0; 5] {
            head.extend([0xFF, PRESET, 0, 13, 1]);
            head.extend(self.preset.iter().flat_map(|n| n.to_be_bytes()));
        }
        head.extend([0xFF, RESTART, 0, 5, 0, 0, self.restart]);
        head.extend([0xFF, SCAN, 0, 8, 1, 1, 0, self.near, 0, 0]);
        let coding = Coding::new(self.precision, self.preset.map(i32::from), self.near).unwrap();
        let mut coder = Coder {
            packed: Packed::default(),
            coding,
            state: State::new(&coding),
        };
        let mut kept = Vec::new();
        let mut above = vec![0; self.columns + 2];
        let mut marker = 0xD0;
        for (n, values) in self.values.chunks(self.columns).enumerate() {
            if n > 0 && self.restart > 0 && n % usize::from(self.restart) == 0 {
                coder.packed.marker(marker);
                head.append(&mut coder.packed.bytes);
                marker = 0xD0 | (marker + 1) & 7;
                coder.state = State::new(&coding);
                above.fill(0);
            }
            let mut row = [&[0], values, &[0]].concat();
            coder.row(&above, &mut row);
            kept.extend(&row[1..=self.columns]);
            above = row;
        }
        coder.packed.marker(END);
        head.append(&mut coder.packed.bytes);
        (head, kept)
    }

    fn decoded(&self, bytes: &[u8]) -> Result<Vec<i32>, String> {
        let pixels = Pixels {
            rows: self.rows,
            columns: self.columns,
            ..Pixels::default()
        };
        let mut out = Vec::new();
        decode(bytes, &pixels, &mut out)?;
        let wide = self.precision > 8;
        assert_eq!(out.len(), self.values.len() * (1 + usize::from(wide)));
        Ok(if wide {
            let words = out.as_chunks::<2>().0.iter();
            words.map(|&w| u16::from_le_bytes(w).into()).collect()
        } else {
            out.iter().map(|&b| b.into()).collect()
        })
    }
}

/// Constant, noisy, a ramp, a few dots on a plain ground, patches.
fn values(columns: usize, rows: usize, most: i32, kind: u8, seed: u32) -> Vec<i32> {
    let mut state = seed;
    let mut dice = |below: i32| {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
        i32::try_from(state >> 8).unwrap() % below
    };
    let ground = dice(most + 1);
    let mut out = Vec::new();
    for y in 0..i32::try_from(rows).unwrap() {
        for x in 0..i32::try_from(columns).unwrap() {
            out.push(match kind {
                0 => ground,
                2 => (3 * x + 5 * y + dice(4)) % (most + 1),
                3 if dice(20) > 0 => ground,
                1 | 3 => dice(most + 1),
                _ => ((x / 7 + y / 5) * (most / 6 + 1) + dice(1 + most / 64)) % (most + 1),
            });
        }
    }
    out
}

fn picture(columns: usize, rows: usize, precision: u8, kind: u8, seed: u32) -> Picture {
    Picture {
        columns,
        rows,
        precision,
        near: 0,
        preset: [0; 5],
        restart: 0,
        values: values(columns, rows, (1 << precision) - 1, kind, seed),
    }
}

proptest! {
    #![proptest_config(crate::random_cases::random_cases(256))]
    #[test]
    fn what_is_coded_comes_back_to_within_near(
        (columns, rows) in (1usize..70, 1usize..40),
        (precision, kind, seed) in (2u8..=16, 0u8..5, any::<u32>()),
        (near, restart) in (0u8..4, 0u8..5),
    ) {
        let mut p = picture(columns, rows, precision, kind, seed);
        p.restart = restart;
        // Half of the largest value at most.
        p.near = near.min(u8::try_from(((1u16 << (precision - 1)) - 1).min(3)).unwrap());
        let (bytes, kept) = p.coded();
        let got = p.decoded(&bytes).unwrap();
        prop_assert_eq!(&got, &kept);
        let apart = got.iter().zip(&p.values).map(|(a, b)| (a - b).abs()).max();
        prop_assert!(apart <= Some(p.near.into()), "{:?}", apart);
    }
}

#[test]
fn preset_thresholds_reset_and_largest_value_are_followed() {
    for (preset, near) in [
        ([200, 5, 9, 30, 3], 0),
        ([1000, 0, 0, 0, 31], 2),
        ([0, 4, 4, 4, 0], 3),
        ([4095, 300, 900, 2000, 4095], 0),
        ([100, 0, 0, 0, 255], 1),
    ] {
        let mut p = picture(61, 33, 12, 4, 5);
        (p.preset, p.near) = (preset, near);
        let most = if preset[0] == 0 { 4095 } else { preset[0] };
        p.values = values(61, 33, most.into(), 4, 5);
        let (bytes, kept) = p.coded();
        assert_eq!(p.decoded(&bytes), Ok(kept), "{preset:?}");
    }
}

/// Annex H.3 of the standard.
#[test]
fn the_example_of_the_standard_is_decoded() {
    let p = Picture {
        values: vec![
            0, 0, 90, 74, 68, 50, 43, 205, 64, 145, 145, 145, 100, 145, 145, 145,
        ],
        ..picture(4, 4, 8, 0, 0)
    };
    let bytes = [
        0xFF, 0xD8, 0xFF, 0xF7, 0, 11, 8, 0, 4, 0, 4, 1, 1, 0x11, 0, 0xFF, 0xDA, 0, 8, 1, 1, 0, 0,
        0, 0, 0xC0, 0, 0, 0x6C, 0x80, 0x20, 0x8E, 1, 0xC0, 0, 0, 0x57, 0x40, 0, 0, 0x6E, 0xE6, 0,
        0, 1, 0xBC, 0x18, 0, 0, 5, 0xD8, 0, 0, 0x91, 0x60, 0xFF, 0xD9,
    ];
    assert_eq!(p.decoded(&bytes), Ok(p.values.clone()));
}

#[test]
fn a_damaged_jpeg_ls_stream_ends_in_a_sentence_and_not_in_an_endless_loop() {
    let mut state = 11u32;
    let mut dice = |below: usize| {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
        (state >> 8) as usize % below
    };
    let mut refused = 0;
    for n in 0..3000u32 {
        let kind = u8::try_from(n % 5).unwrap();
        let mut p = picture(40, 24, if n % 2 == 0 { 16 } else { 7 }, kind, n);
        p.restart = u8::try_from(n % 3 * 9).unwrap();
        let mut bytes = p.coded().0;
        for _ in 0..=dice(4) {
            // Past the size, which the header of the file has too.
            let at = 15 + dice(bytes.len() - 15);
            match dice(4) {
                0 => bytes[at] ^= 1 << dice(8),
                1 => bytes[at] = 0,
                2 => bytes.truncate(at.max(16)),
                _ => bytes[at] = u8::try_from(dice(256)).unwrap(),
            }
        }
        if let Err(e) = p.decoded(&bytes) {
            refused += 1;
            assert!(e.contains("expected") || e.contains("ends early"), "{e}");
        }
    }
    assert!(refused > 1500, "{refused}");
}

#[test]
fn zeros_without_end_are_refused_in_their_row() {
    // CharLS takes their codes for ever larger errors, until a parameter of its own has no end.
    let p = picture(40, 24, 16, 0, 3);
    let mut bytes = p.coded().0;
    let start = bytes.windows(2).position(|w| w == [0xFF, SCAN]).unwrap() + 10;
    bytes.truncate(start);
    bytes.extend([0; 5000]);
    bytes.extend([0xFF, END]);
    let e = p.decoded(&bytes).unwrap_err();
    assert!(e.contains("at most") && e.contains("in row 1"), "{e}");
}

#[test]
fn what_is_cut_short_or_of_another_kind_is_told() {
    let p = picture(40, 24, 12, 1, 3);
    let (bytes, _) = p.coded();
    let told = |bytes: &[u8], words: &str| {
        let e = p.decoded(bytes).unwrap_err();
        assert!(e.contains(words), "{words}: {e}");
    };
    told(
        &bytes[..bytes.len() / 2],
        "expected 24 rows, found the end in row 1",
    );
    told(&bytes[..bytes.len() - 2], "found the end of the codestream");
    let with = |at: usize, value: u8| {
        let mut b = bytes.clone();
        b[at] = value;
        b
    };
    told(&with(11, 3), "found 40x24 of 3");
    told(&with(6, 17), "2 to 16 bits for each value, found 17");
    told(&with(3, 0xC3), "found the marker FFC3");
    let mut table = bytes.clone();
    table.splice(15..15, [0xFF, PRESET, 0, 5, 2, 1, 1]);
    told(&table, "found a mapping table, which is not supported");
    let mut more = bytes.clone();
    more.splice(bytes.len() - 2..bytes.len() - 2, [1; 9]);
    told(&more, "found more of its values");
    let restarts = Picture {
        restart: 5,
        ..p.clone()
    };
    let (mut bytes, _) = restarts.coded();
    let at = bytes.windows(2).position(|w| w == [0xFF, 0xD1]).unwrap();
    bytes[at + 1] = 0xD5;
    told(
        &bytes,
        "expected the marker FFD1 after a scan's last value, found FFD5",
    );
}
