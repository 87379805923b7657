//! Stored words to values: mask to the stored bits, sign from the high bit, rescale by each slice's own slope and intercept.

use super::header::Pixels;
use crate::volume::whole_i16;

/// Smallest and largest value of a slice without padding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Range {
    pub(super) const NONE: Self = Self {
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
    };

    /// The range over both.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// What voxels are kept as.
pub(super) trait Sample: Copy + Send + Sync + Default {
    /// The value as this type; `None` where it does not fit.
    fn from_value(value: f64) -> Option<Self>;
    /// The fast way for whole values: `None` where it does not fit.
    fn from_whole(value: i32) -> Option<Self>;
}

impl Sample for i16 {
    fn from_value(value: f64) -> Option<Self> {
        whole_i16(value)
    }

    fn from_whole(value: i32) -> Option<Self> {
        value.try_into().ok()
    }
}

impl Sample for f32 {
    fn from_value(value: f64) -> Option<Self> {
        Some(narrow(value))
    }

    fn from_whole(value: i32) -> Option<Self> {
        Some(narrow(f64::from(value)))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "nearest float32 is meant")]
pub(super) fn narrow(value: f64) -> f32 {
    value as f32
}

/// How the words of one frame become values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transform {
    shift: u32,
    /// Bits to the left of the stored ones in 32.
    spare: u32,
    signed: bool,
    slope: f64,
    intercept: f64,
    /// Slope 1 and a whole intercept.
    whole: Option<i32>,
    padding: Option<(i64, i64)>,
    /// Padding that the stored bits cannot hold: words are held against it before they are masked.
    beyond: Option<(i64, i64)>,
}

impl Transform {
    pub(super) fn new(pixels: &Pixels, rescale: Option<(f64, f64)>) -> Self {
        let (slope, intercept) = rescale.unwrap_or((1.0, 0.0));
        Self {
            shift: pixels.high_bit + 1 - pixels.bits_stored,
            spare: 32 - pixels.bits_stored.clamp(1, 32),
            signed: pixels.signed,
            slope,
            intercept,
            whole: (slope == 1.0 && pixels.bits_stored <= 16)
                .then_some(intercept)
                .and_then(whole_intercept),
            padding: pixels.padding,
            beyond: pixels.padding.filter(|&(low, high)| {
                let bits = pixels.bits_stored.clamp(1, 32);
                let (least, most) = if pixels.signed {
                    (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1)
                } else {
                    (0, (1i64 << bits) - 1)
                };
                pixels.bits_allocated == 16 && bits < 16 && (high > most || low < least)
            }),
        }
    }

    /// The stored value of a word.
    #[inline]
    fn stored(&self, word: u32) -> i64 {
        if let Some((low, high)) = self.beyond {
            // Seen: 12 bits stored and padding of -2000 in all 16, which would come out as 2096 in the middle of bone.
            let word = u16::try_from(word & 0xFFFF).unwrap_or_default();
            let all = if self.signed {
                i64::from(word.cast_signed())
            } else {
                i64::from(word)
            };
            if (low..=high).contains(&all) {
                return all;
            }
        }
        let left = (word >> self.shift) << self.spare;
        if self.signed {
            i64::from(left.cast_signed() >> self.spare)
        } else {
            i64::from(left >> self.spare)
        }
    }

    fn value(&self, stored: i64) -> f64 {
        stored as f64 * self.slope + self.intercept
    }

    /// Padding as values.
    pub(super) fn padding_values(&self) -> Option<(f32, f32)> {
        let (a, b) = self.padding?;
        let (a, b) = (narrow(self.value(a)), narrow(self.value(b)));
        Some((a.min(b), a.max(b)))
    }

    /// Fills `out` from words; `None` when a value does not fit its type.
    pub(super) fn fill<T: Sample>(
        &self,
        words: impl Iterator<Item = u32>,
        out: &mut [T],
    ) -> Option<Range> {
        let (mut min, mut max) = (i64::MAX, i64::MIN);
        let (pad_low, pad_high) = self.padding.unwrap_or((1, 0));
        let mut fits = true;
        for (o, word) in out.iter_mut().zip(words) {
            let stored = self.stored(word);
            let value = if let Some(add) = self.whole {
                // At most 16 stored bits and a million: no overflow.
                T::from_whole(i32::try_from(stored).unwrap_or_default() + add)
            } else {
                T::from_value(self.value(stored))
            };
            fits &= value.is_some();
            *o = value.unwrap_or_default();
            if stored < pad_low || stored > pad_high {
                min = min.min(stored);
                max = max.max(stored);
            }
        }
        if !fits {
            return None;
        }
        if min > max {
            return Some(Range::NONE);
        }
        let (a, b) = (self.value(min), self.value(max));
        Some(Range {
            min: a.min(b),
            max: a.max(b),
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "range and wholeness were checked"
)]
fn whole_intercept(intercept: f64) -> Option<i32> {
    (intercept.fract() == 0.0 && intercept.abs() <= 1.0e6).then_some(intercept as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixels(stored: u32, high: u32, signed: bool) -> Pixels {
        Pixels {
            bits_allocated: 16,
            bits_stored: stored,
            high_bit: high,
            signed,
            ..Pixels::default()
        }
    }

    #[test]
    fn dirty_high_bits_are_masked_off() {
        let t = Transform::new(&pixels(12, 11, false), Some((1.0, -1024.0)));
        let mut out = [0i16; 3];
        let range = t
            .fill([0xF400, 0x1000, 0x0FFF].into_iter(), &mut out)
            .unwrap();
        assert_eq!(out, [0, -1024, 3071]);
        assert_eq!((range.min, range.max), (-1024.0, 3071.0));
    }

    #[test]
    fn twelve_bit_signed_values_extend_from_the_high_bit() {
        let t = Transform::new(&pixels(12, 11, true), None);
        let mut out = [0i16; 2];
        t.fill([0x0FFF, 0x0800].into_iter(), &mut out).unwrap();
        assert_eq!(out, [-1, -2048]);
        let t = Transform::new(&pixels(12, 15, true), None);
        t.fill([0xFFF0, 0x7FF0].into_iter(), &mut out).unwrap();
        assert_eq!(out, [-1, 2047]);
    }

    #[test]
    fn an_intercept_of_minus_33000_is_told_not_wrapped() {
        let t = Transform::new(&pixels(16, 15, false), Some((1.0, -33000.0)));
        assert_eq!(t.fill([0u32].into_iter(), &mut [0i16]), None);
        let mut out = [0f32];
        t.fill([0u32].into_iter(), &mut out).unwrap();
        assert_eq!(out, [-33000.0]);
    }

    #[test]
    fn fractional_slopes_stay_fractional() {
        let t = Transform::new(&pixels(12, 11, false), Some((0.5, 0.0)));
        assert_eq!(t.fill([3u32].into_iter(), &mut [0i16]), None);
        let mut out = [0f32];
        t.fill([3u32].into_iter(), &mut out).unwrap();
        assert_eq!(out, [1.5]);
    }

    #[test]
    fn padding_drives_neither_minimum_nor_maximum() {
        let mut p = pixels(16, 15, true);
        p.padding = Some((-2000, -2000));
        let t = Transform::new(&p, Some((1.0, -1024.0)));
        let words = [0xF830u32, 1024, 1100];
        let range = t.fill(words.into_iter(), &mut [0i16; 3]).unwrap();
        assert_eq!((range.min, range.max), (0.0, 76.0));
        assert_eq!(t.padding_values(), Some((-3024.0, -3024.0)));
    }
}
