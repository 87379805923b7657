//! JPEG-LS (ITU-T T.87), lossless and near-lossless (transfer syntaxes .80 and .81), one grey component of 2 to 16 bits.
//! `CharLS` 2.4.5, which dicom-rs calls, never comes back from some damaged codestreams; here every loop ends with its row.

mod codes;

use super::bits::Bits;
use super::header::Pixels;
use super::jpeg::{RESTART, SCAN, Segments};

/// Start of frame of JPEG-LS.
const FRAME: u8 = 0xF7;
/// Preset parameters of JPEG-LS.
const PRESET: u8 = 0xF8;
const END: u8 = 0xD9;
/// Contexts of the regular mode: three gradients in nine classes, both signs together.
const CONTEXTS: usize = 365;
/// Bits of a run's length by the run index (J of the standard).
const RUN_BITS: [u32; 32] = [
    0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 9, 10, 11, 12, 13,
    14, 15,
];
/// The least `k` for which `n << k` reaches `sum`; `n` is neither 0 nor over 16 bits.
#[inline]
fn golomb_parameter(n: u32, sum: u32) -> u32 {
    let k = n.leading_zeros().saturating_sub(sum.leading_zeros());
    k + u32::from(n << k < sum)
}

/// What values are coded with (A.2.1 and C.2.4.1.1 of the standard).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Coding {
    maximum: i32,
    near: i32,
    /// Values that one error stands for.
    step: i32,
    range: i32,
    thresholds: [i32; 3],
    reset: u32,
    /// The most zeros of a code, and the bits of the value that then follows.
    zeros: u32,
    wide: u32,
}

/// Bits that hold the values below `n`.
fn bits_below(n: i32) -> u32 {
    32 - (n - 1).leading_zeros()
}

impl Coding {
    /// From bits for each value, MAXVAL, T1, T2, T3 and RESET (0 for the standard's own), and NEAR.
    fn new(precision: u8, preset: [i32; 5], near: u8) -> Result<Self, String> {
        let most = (1i32 << precision.clamp(2, 16)) - 1;
        let near = i32::from(near);
        let [maximum, t1, t2, t3, reset] = preset;
        let or = |given: i32, own: i32| if given == 0 { own } else { given };
        let maximum = or(maximum, most);
        let [d1, d2, d3] = defaults(maximum, near);
        let thresholds = [or(t1, d1), or(t2, d2), or(t3, d3)];
        let reset = or(reset, 64);
        let rising = thresholds.is_sorted() && t1 <= maximum && t2 <= maximum && t3 <= maximum;
        if maximum > most
            || near > maximum / 2
            || !rising
            || thresholds.first().is_some_and(|&t| t <= near)
            || !(3..=maximum.max(255)).contains(&reset)
        {
            return Err(format!(
                "expected parameters that {precision} bits allow, found MAXVAL {maximum}, thresholds {thresholds:?}, RESET {reset} and NEAR {near}"
            ));
        }
        let step = 2 * near + 1;
        let range = (maximum + 2 * near) / step + 1;
        let (bits, wide) = (bits_below(maximum + 1).max(2), bits_below(range));
        Ok(Self {
            maximum,
            near,
            step,
            range,
            thresholds,
            reset: reset.unsigned_abs(),
            zeros: 2 * (bits + bits.max(8)) - wide - 1,
            wide,
        })
    }

    /// The class of a gradient, from -4 to 4.
    #[inline]
    fn class(&self, gradient: i32) -> i32 {
        let [t1, t2, t3] = self.thresholds;
        let size = gradient.abs();
        let class = i32::from(size > self.near)
            + i32::from(size >= t1)
            + i32::from(size >= t2)
            + i32::from(size >= t3);
        with_sign(class, gradient >> 31)
    }

    /// The value for an error against its prediction, modulo the range.
    #[inline]
    fn value(&self, predicted: i32, error: i32) -> i32 {
        let value = predicted + error * self.step;
        let round = self.range * self.step;
        let value = if value < -self.near {
            value + round
        } else if value > self.maximum + self.near {
            value - round
        } else {
            value
        };
        value.max(0).min(self.maximum)
    }
}

/// Negates where `sign` is -1; 0 leaves as it is.
#[inline]
fn with_sign(value: i32, sign: i32) -> i32 {
    (value ^ sign) - sign
}

/// The thresholds that the standard sets where none are given.
fn defaults(maximum: i32, near: i32) -> [i32; 3] {
    let within = |t: i32, least: i32| if t > maximum || t < least { least } else { t };
    let [a, b, c] = if maximum >= 128 {
        let factor = (maximum.min(4095) + 128) / 256;
        [factor + 2, factor * 4 + 3, factor * 17 + 4]
    } else {
        let factor = 256 / (maximum + 1);
        [3 / factor, 7 / factor, 21 / factor]
    };
    let least = if maximum >= 128 { [0; 3] } else { [2, 3, 4] };
    let [l1, l2, l3] = least;
    let t1 = within((a + 3 * near).max(l1), near + 1);
    let t2 = within((b + 5 * near).max(l2), t1);
    [t1, t2, within((c + 7 * near).max(l3), t2)]
}

/// Statistics of one context of the regular mode: A, B, C and N of the standard.
#[derive(Clone, Copy)]
struct Context {
    sum: u32,
    bias: i32,
    correction: i32,
    n: i32,
}

impl Context {
    #[inline]
    fn parameter(&self) -> u32 {
        golomb_parameter(self.n.unsigned_abs(), self.sum)
    }

    /// Whether even codes stand for negative errors.
    #[inline]
    fn turned(&self, k: u32, coding: &Coding) -> bool {
        k == 0 && coding.near == 0 && 2 * self.bias <= -self.n
    }

    #[inline]
    fn update(&mut self, error: i32, coding: &Coding) {
        self.sum += error.unsigned_abs();
        self.bias += error * coding.step;
        if self.n.unsigned_abs() == coding.reset {
            self.sum >>= 1;
            self.bias >>= 1;
            self.n >>= 1;
        }
        self.n += 1;
        if self.bias <= -self.n {
            self.bias = (self.bias + self.n).max(1 - self.n);
            self.correction = (self.correction - 1).max(-128);
        } else if self.bias > 0 {
            self.bias = (self.bias - self.n).min(0);
            self.correction = (self.correction + 1).min(127);
        }
    }
}

/// Statistics of the values that end runs.
#[derive(Clone, Copy)]
struct Ends {
    sum: u32,
    n: u32,
    negative: u32,
    /// 1 where the value above equals the run, 0 elsewhere (`RItype`).
    alike: i32,
}

impl Ends {
    fn parameter(&self) -> u32 {
        let more = if self.alike == 1 { self.n >> 1 } else { 0 };
        golomb_parameter(self.n, self.sum + more)
    }

    /// Whether odd codes stand for negative errors.
    fn odd_is_negative(&self, k: u32) -> bool {
        k != 0 || 2 * self.negative >= self.n
    }

    fn update(&mut self, error: i32, code: i32, coding: &Coding) {
        self.negative += u32::from(error < 0);
        self.sum += ((code + 1 - self.alike) >> 1).unsigned_abs();
        if self.n == coding.reset {
            self.sum >>= 1;
            self.n >>= 1;
            self.negative >>= 1;
        }
        self.n += 1;
    }
}

/// What is learned from values; fresh at the start and after each restart.
struct State {
    contexts: [Context; CONTEXTS],
    ends: [Ends; 2],
    run_index: usize,
}

impl State {
    fn new(coding: &Coding) -> Self {
        let sum = ((coding.range + 32) / 64).max(2).unsigned_abs();
        let context = Context {
            sum,
            bias: 0,
            correction: 0,
            n: 1,
        };
        let ends = |alike| Ends {
            sum,
            n: 1,
            negative: 0,
            alike,
        };
        Self {
            contexts: [context; CONTEXTS],
            ends: [ends(0), ends(1)],
            run_index: 0,
        }
    }

    fn run_bits(&self) -> u32 {
        RUN_BITS.get(self.run_index).copied().unwrap_or(15)
    }

    fn longer(&mut self) {
        self.run_index = (self.run_index + 1).min(31);
    }
}

/// A row in the making: what comes, and how it is coded. Rows have a value more at each end.
struct Rows<'a> {
    bits: Bits<'a, true>,
    coding: Coding,
    state: State,
    /// Classes of the two gradients above each value, as their part of the context.
    classes: Vec<i32>,
}

impl Rows<'_> {
    /// The next row; `None` at a code that no value can have.
    fn next(&mut self, above: &[i32], row: &mut [i32]) -> Option<()> {
        let coding = self.coding;
        if coding.near > 0 {
            return self.coded(coding, above, row);
        }
        // The same, compiled for numbers that are known.
        let lossless = Coding {
            near: 0,
            step: 1,
            ..coding
        };
        self.coded(lossless, above, row)
    }

    #[inline]
    fn coded(&mut self, coding: Coding, above: &[i32], row: &mut [i32]) -> Option<()> {
        let aligned = above.iter().zip(above.get(1..)?).zip(above.get(2..)?);
        for (class, ((c, b), d)) in self.classes.iter_mut().zip(aligned) {
            *class = 81 * coding.class(d - b) + 9 * coding.class(b - c);
        }
        let width = self.classes.len();
        let (mut c, mut a) = (*above.first()?, *above.get(1)?);
        *row.first_mut()? = a;
        let mut x = 0;
        while x < width {
            let class = *self.classes.get(x)? + coding.class(c - a);
            if class == 0 {
                let run = self.run(width - x)?;
                row.get_mut(x + 1..x + 1 + run)?.fill(a);
                x += run;
                if x == width {
                    break;
                }
            }
            let b = *above.get(x + 1)?;
            a = if class == 0 {
                self.end(a, b)?
            } else {
                let least = a.min(b);
                let most = a.max(b);
                self.regular(&coding, class, (a + b - c).max(least).min(most))?
            };
            x += 1;
            *row.get_mut(x)? = a;
            c = b;
        }
        *row.get_mut(width + 1)? = a;
        Some(())
    }

    #[inline]
    fn regular(&mut self, coding: &Coding, class: i32, predicted: i32) -> Option<i32> {
        let sign = class >> 31;
        let context = self.state.contexts.get_mut(class.unsigned_abs() as usize)?;
        let k = context.parameter();
        let predicted = (predicted + with_sign(context.correction, sign))
            .max(0)
            .min(coding.maximum);
        let code = self.bits.golomb(k, coding.zeros, coding.wide)?;
        if code > coding.range {
            return None;
        }
        let error = (code >> 1) ^ -(code & 1) ^ -i32::from(context.turned(k, coding));
        context.update(error, coding);
        Some(coding.value(predicted, with_sign(error, sign)))
    }

    /// How many of the `left` values of the row are the same as the last.
    fn run(&mut self, left: usize) -> Option<usize> {
        let mut run = 0;
        while run < left {
            let whole = 1usize << self.state.run_bits();
            if self.bits.read(1) == 0 {
                run += self.bits.read(self.state.run_bits()) as usize;
                return (run <= left).then_some(run);
            }
            run += whole;
            if run <= left {
                self.state.longer();
            }
        }
        Some(left)
    }

    /// The value that ends a run of `a`, below `b`.
    fn end(&mut self, a: i32, b: i32) -> Option<i32> {
        let coding = &self.coding;
        let taken = self.state.run_bits() + 1;
        let alike = (a - b).abs() <= coding.near;
        let ends = self.state.ends.get_mut(usize::from(alike))?;
        let k = ends.parameter();
        let zeros = coding.zeros.checked_sub(taken)?;
        let code = self.bits.golomb(k, zeros, coding.wide)?;
        if code > coding.range {
            return None;
        }
        let doubled = code + ends.alike;
        let odd = doubled & 1 == 1;
        let size = (doubled + 1) >> 1;
        let error = if ends.odd_is_negative(k) == odd {
            -size
        } else {
            size
        };
        ends.update(error, code, coding);
        self.state.run_index = self.state.run_index.saturating_sub(1);
        Some(if alike {
            coding.value(a, error)
        } else {
            coding.value(b, if b < a { -error } else { error })
        })
    }
}

/// What the headers of the codestream say.
#[derive(Default)]
struct Frame {
    precision: u8,
    preset: [i32; 5],
    restart: usize,
}

/// Decodes one grey frame: to bytes where it has at most 8 bits, else to little-endian words.
pub(super) fn decode(bytes: &[u8], pixels: &Pixels, out: &mut Vec<u8>) -> Result<(), String> {
    let mut frame = Frame::default();
    let mut segments = Segments::of(bytes)?;
    loop {
        let segment = segments.next()?;
        match segment.marker {
            FRAME => frame.header(segment.body, pixels)?,
            PRESET => frame.preset(segment.body)?,
            RESTART if (2..=4).contains(&segment.body.len()) => {
                let number = segment.body.iter();
                frame.restart = number.fold(0, |n, &b| n << 8 | usize::from(b));
            }
            SCAN => return frame.scan(segment.body, Bits::new(bytes, segment.end), pixels, out),
            marker @ (0xC0..=0xCF | END | RESTART) => {
                return Err(format!(
                    "expected the frame and the scan of JPEG-LS, found the marker FF{marker:02X}"
                ));
            }
            _ => {}
        }
    }
}

impl Frame {
    fn header(&mut self, body: &[u8], pixels: &Pixels) -> Result<(), String> {
        let &[precision, r1, r0, c1, c0, components, ..] = body else {
            return Err("expected a frame header, found one cut short".to_owned());
        };
        let rows = usize::from(u16::from_be_bytes([r1, r0]));
        let columns = usize::from(u16::from_be_bytes([c1, c0]));
        if (columns, rows, components) != (pixels.columns, pixels.rows, 1) || columns * rows == 0 {
            return Err(format!(
                "expected {}x{} values of one component, found {columns}x{rows} of {components}",
                pixels.columns, pixels.rows
            ));
        }
        if !(2..=16).contains(&precision) {
            return Err(format!(
                "expected 2 to 16 bits for each value, found {precision}"
            ));
        }
        self.precision = precision;
        Ok(())
    }

    fn preset(&mut self, body: &[u8]) -> Result<(), String> {
        let found = match body {
            [1, numbers @ ..] if numbers.len() == 10 => {
                let pairs = numbers.as_chunks::<2>().0;
                for (slot, &pair) in self.preset.iter_mut().zip(pairs) {
                    *slot = u16::from_be_bytes(pair).into();
                }
                return Ok(());
            }
            [1, ..] => "some of another length".to_owned(),
            [2 | 3, ..] => "a mapping table, which is not supported".to_owned(),
            [4, ..] => "a size of its own, which is not supported".to_owned(),
            [kind, ..] => format!("an extension (type {kind}), which is not supported"),
            [] => "none".to_owned(),
        };
        Err(format!(
            "expected preset parameters of coding, found {found}"
        ))
    }

    fn scan(
        &self,
        body: &[u8],
        bits: Bits<'_, true>,
        pixels: &Pixels,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        if self.precision == 0 {
            return Err("expected a frame header before the scan, found none".to_owned());
        }
        // Components, its name, mapping table, NEAR, interleaving, point transform.
        let &[1, _, 0, near, 0, 0] = body else {
            return Err(format!(
                "expected a scan of one component as it is, found the parameters {body:?}"
            ));
        };
        let coding = Coding::new(self.precision, self.preset, near)?;
        let width = pixels.columns;
        let mut rows = Rows {
            bits,
            coding,
            state: State::new(&coding),
            classes: vec![0; width],
        };
        let (mut above, mut row) = (vec![0; width + 2], vec![0; width + 2]);
        // Runs make a few bytes into many values, but a few bytes alone claim no memory.
        out.reserve((pixels.rows * width * 2).min(rows.bits.data.len() * 64));
        let mut restarts = (0xD0..=0xD7).cycle();
        for n in 0..pixels.rows {
            if n > 0 && self.restart > 0 && n.is_multiple_of(self.restart) {
                rows.bits.marker(restarts.next().unwrap_or(0xD0))?;
                rows.state = State::new(&coding);
                above.fill(0);
            }
            let done = rows.next(&above, &mut row);
            if rows.bits.overrun() {
                return Err(format!(
                    "expected {} rows, found the end in row {}",
                    pixels.rows,
                    n + 1
                ));
            }
            done.ok_or_else(|| {
                format!(
                    "expected codes of at most {} zeros and errors of a range of {}, found others in row {}",
                    coding.zeros,
                    coding.range,
                    n + 1
                )
            })?;
            put(row.get(1..=width).unwrap_or_default(), self.precision, out);
            std::mem::swap(&mut above, &mut row);
        }
        rows.bits.marker(END)
    }
}

/// Appends a row's values, none of which is over 16 bits.
fn put(values: &[i32], precision: u8, out: &mut Vec<u8>) {
    let parts = values.iter().map(|v| v.to_le_bytes());
    if precision > 8 {
        out.extend(parts.flat_map(|[low, high, ..]| [low, high]));
    } else {
        out.extend(parts.map(|[low, ..]| low));
    }
}

#[cfg(test)]
mod tests;
