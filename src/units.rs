//! Newtypes for the quantities that are the product: bytes, Hounsfield units, millimetres.
//! The only place that formats sizes for people; sums and products are checked.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A count of bytes. Shown in binary units spelled KiB, MiB, GiB; never in "GB".
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// `n` KiB (2^10 bytes).
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` MiB (2^20 bytes).
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` GiB (2^30 bytes).
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// The size as a fraction of GiB, for plots and text.
    pub fn as_gib(self) -> f64 {
        self.0 as f64 / (1u64 << 30) as f64
    }

    /// The sum, or `None` past 2^64 bytes.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The product with a count, or `None` past 2^64 bytes.
    pub fn checked_mul(self, count: u64) -> Option<Self> {
        self.0.checked_mul(count).map(Self)
    }

    /// The difference, zero when `other` is larger.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The sum, clamped at 2^64 - 1 bytes: a plan that large fits nowhere, whatever its last digit.
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The smallest multiple of `align` that is not below the size.
    pub fn align_up(self, align: u64) -> Self {
        Self(self.0.div_ceil(align).saturating_mul(align))
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Self::saturating_add)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0 as f64;
        match self.0 {
            0..=1023 => write!(f, "{} B", self.0),
            1024..=1_048_575 => write!(f, "{:.1} KiB", b / 1024.0),
            1_048_576..=1_073_741_823 => write!(f, "{:.1} MiB", b / 1_048_576.0),
            _ => write!(f, "{:.2} GiB", self.as_gib()),
        }
    }
}

/// A length in millimetres.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mm(pub f64);

impl fmt::Display for Mm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} mm", self.0)
    }
}

/// Hounsfield units after rescale slope and intercept.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hu(pub f32);

impl fmt::Display for Hu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = self.0.round();
        if rounded < 0.0 {
            write!(f, "\u{2212}{}", -rounded)
        } else {
            write!(f, "{rounded}")
        }
    }
}

/// How many decimals tell a value: none for whole numbers, else as many as it has, three at most (three significant below 1).
pub fn decimals_of(value: f32) -> usize {
    let most = if value == 0.0 || value.abs() >= 1.0 {
        3
    } else {
        (3..9)
            .find(|&d| value.abs() * 10f32.powi(d - 2) >= 1.0)
            .unwrap_or(9)
            .unsigned_abs() as usize
    };
    (0..most)
        .find(|d| format!("{value:.d$}").parse() == Ok(value))
        .unwrap_or(most)
}

/// A number with a true minus sign and `decimals` digits; no minus zero.
pub fn number(x: f64, decimals: usize) -> String {
    let text = format!("{x:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().any(|b| (b'1'..=b'9').contains(&b)) => format!("\u{2212}{rest}"),
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

/// A number with all its digits and a true minus sign; no minus zero.
pub fn exact(x: f64) -> String {
    // Adding zero takes the sign off a negative one.
    format!("{}", x + 0.0).replace('-', "\u{2212}")
}

/// A whole number with commas between thousands, as the window and the report print counts.
pub fn with_thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_spelled_in_binary_units() {
        assert_eq!(Bytes(1000).to_string(), "1000 B");
        assert_eq!(Bytes::kib(2).to_string(), "2.0 KiB");
        assert_eq!(Bytes::gib(16).to_string(), "16.00 GiB");
        assert_eq!(Bytes::mib(16303).to_string(), "15.92 GiB");
    }

    #[test]
    fn numbers_keep_all_their_digits_where_they_are_facts() {
        assert_eq!(exact(-1024.5), "\u{2212}1024.5");
        assert_eq!(exact(-0.0), "0");
        assert_eq!(exact(0.703_125), "0.703125");
    }

    #[test]
    fn sums_past_the_end_are_refused_or_clamped() {
        assert_eq!(Bytes(u64::MAX).checked_add(Bytes(1)), None);
        assert_eq!(
            [Bytes(u64::MAX), Bytes(9)].into_iter().sum::<Bytes>(),
            Bytes(u64::MAX)
        );
        assert_eq!(Bytes(257).align_up(256), Bytes(512));
    }

    #[test]
    fn counts_have_commas_and_hu_a_true_minus() {
        assert_eq!(with_thousands(20_902_741), "20,902,741");
        let digits = |v: f32| decimals_of(v);
        assert_eq!(
            [digits(-412.0), digits(-523.5), digits(0.25), digits(0.0)],
            [0, 1, 2, 0]
        );
        assert_eq!(
            [digits(1.0 / 3.0), digits(100.0 / 3.0), digits(0.001_234_5)],
            [3, 3, 5]
        );
        assert_eq!(Hu(-412.4).to_string(), "\u{2212}412");
    }
}
