//! exp, sigmoid, tanh and erf as one fused multiply-add polynomial, so that every engine, importance map and detector agrees on the bits.
//! Nothing here calls libm: the same coefficients in the same order belong in any other engine's kernels.

mod wide;

pub use wide::{exp_wide, ln, ln_wide, pow, sin_cos, softplus};

/// log2(e).
const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln(2), its upper bits: n times it is exact for the n that occur.
const LN2_HIGH: f32 = 0.693_359_4;
/// ln(2) less its upper bits.
const LN2_LOW: f32 = -2.121_944_4e-4;
/// 1.5 * 2^23: adding and subtracting it rounds to a whole number, half to even.
const ROUNDER: f32 = 12_582_912.0;
/// Coefficients of (exp(r) - 1 - r) / r^2 on |r| <= ln(2) / 2, highest power first.
const COEFFICIENTS: [f32; 6] = [
    1.987_569_1e-4,
    1.398_2e-3,
    8.333_452e-3,
    4.166_579_6e-2,
    1.666_666_6e-1,
    0.5,
];

/// e to the power `x`: within 2 units in the last place, +inf above 88.7228, 0 below -103.98, NaN passed on.
#[inline]
pub fn exp(x: f32) -> f32 {
    let clamped = x.clamp(-104.0, 89.0);
    let whole = clamped.mul_add(LOG2_E, ROUNDER) - ROUNDER;
    let r = whole.mul_add(-LN2_HIGH, clamped);
    let r = whole.mul_add(-LN2_LOW, r);
    let mut p = COEFFICIENTS[0];
    for c in &COEFFICIENTS[1..] {
        p = p.mul_add(r, *c);
    }
    let y = p.mul_add(r * r, r) + 1.0;
    scale_by_power_of_two(y, whole)
}

/// 1 / (1 + exp(-x)): 0 at -inf, 1 at +inf, NaN passed on.
#[inline]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Hyperbolic tangent, NaN passed on.
#[inline]
pub fn tanh(x: f32) -> f32 {
    let z = x * x;
    if z < 0.39 {
        let mut p = -5.704_988_7e-3_f32;
        for c in [
            2.063_908_8e-2,
            -5.373_971_6e-2,
            1.333_144_2e-1,
            -3.333_328e-1,
        ] {
            p = p.mul_add(z, c);
        }
        return (p * z).mul_add(x, x);
    }
    let y = 1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0);
    y.copysign(x)
}

/// The error function within 2e-7 (Abramowitz and Stegun 7.1.26), NaN passed on.
#[inline]
pub fn erf(x: f32) -> f32 {
    let a = x.abs();
    let t = 1.0 / a.mul_add(0.327_591_1, 1.0);
    let mut p = 1.061_405_4_f32;
    for c in [-1.453_152, 1.421_413_8, -0.284_496_74, 0.254_829_6] {
        p = p.mul_add(t, c);
    }
    let y = 1.0 - p * t * exp(-(a * a));
    y.copysign(x)
}

/// `y` times 2 to the power `whole` in two exact-or-once-rounded steps, so that subnormal results are reached.
#[inline]
fn scale_by_power_of_two(y: f32, whole: f32) -> f32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number between -151 and 129, or NaN, which becomes 0 and leaves y NaN"
    )]
    let n = whole as i32;
    let first = n >> 1;
    let power = |e: i32| f32::from_bits((e + 127).cast_unsigned() << 23);
    (y * power(first)) * power(n - first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place_everywhere() {
        let mut worst = 0.0_f64;
        let mut x = -87.0_f32;
        while x < 88.7 {
            let truth = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) / truth - 1.0).abs());
            x += 0.001_37;
        }
        assert!(worst < 1.2e-7 * 2.0, "relative error {worst:e}");
    }

    #[test]
    fn the_ends_of_the_range_are_infinity_zero_and_nan() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(89.0), f32::INFINITY);
        assert!(exp(88.72).is_finite());
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-104.0), 0.0);
        assert!(exp(-100.0) > 0.0, "subnormal results are not flushed");
        assert!(exp(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan());
        assert_eq!(sigmoid(f32::INFINITY), 1.0);
        assert_eq!(sigmoid(f32::NEG_INFINITY), 0.0);
        assert_eq!(sigmoid(0.0), 0.5);
    }

    #[test]
    fn tanh_and_erf_follow_the_truth() {
        let mut x = -9.0_f32;
        while x < 9.0 {
            assert!(
                (f64::from(tanh(x)) - f64::from(x).tanh()).abs() < 1.5e-7,
                "tanh({x})"
            );
            x += 0.0137;
        }
        // erf at 0.5, 1 and 2, from tables.
        for (x, y) in [(0.5, 0.520_499_9), (1.0, 0.842_700_8), (2.0, 0.995_322_3)] {
            assert!(
                (erf(x) - y).abs() < 4e-7 && (erf(-x) + y).abs() < 4e-7,
                "erf({x})"
            );
        }
        assert!(tanh(f32::NAN).is_nan() && erf(f32::NAN).is_nan());
    }

    #[test]
    fn sigmoid_never_falls_where_its_argument_rises() {
        let mut last = 0.0;
        let mut x = -30.0_f32;
        while x < 30.0 {
            let y = sigmoid(x);
            assert!(y >= last, "sigmoid fell at {x}");
            last = y;
            x += 0.003;
        }
    }
}
