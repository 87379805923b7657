//! ln, powers, sine and cosine in f64 as fixed chains, rounded once: what rare activations need, the same bits everywhere.

use std::f64::consts::{FRAC_2_PI, LN_2, LOG2_E, SQRT_2};

/// pi / 2 in two parts: the first exact in few bits, so that whole multiples of it are exact.
const HALF_PI: [f64; 2] = [1.570_796_251_296_997, 7.549_789_415_861_596e-8];

/// Natural logarithm: -inf at 0, NaN below, NaN passed on.
#[inline]
pub fn ln(x: f32) -> f32 {
    round(ln_wide(f64::from(x)))
}

/// ln(1 + exp(x)): within one unit in the last place, NaN passed on.
#[inline]
pub fn softplus(x: f32) -> f32 {
    let x = f64::from(x);
    if x > 40.0 {
        return round(x);
    }
    let e = exp_wide(x);
    // Close to 0 the sum would lose what e says.
    round(if e < 1e-5 {
        e * (1.0 - 0.5 * e)
    } else {
        ln_wide(1.0 + e)
    })
}

/// x to the power `y`: whole powers up to 16 by repeated products, roots by the square root.
#[inline]
pub fn pow(x: f32, y: f32) -> f32 {
    let wide = f64::from(x);
    let whole = y.trunc() == y;
    if whole && y.abs() <= 16.0 {
        let mut product = 1.0;
        let mut n = y.abs();
        while n > 0.5 {
            product *= wide;
            n -= 1.0;
        }
        return round(if y < 0.0 { 1.0 / product } else { product });
    }
    if y == 0.5 {
        return x.sqrt();
    }
    let size = exp_wide(f64::from(y) * ln_wide(wide.abs()));
    if x >= 0.0 || x.is_nan() {
        round(size)
    } else if whole {
        let odd = (y * 0.5).trunc() != y * 0.5;
        round(if odd { -size } else { size })
    } else {
        f32::NAN
    }
}

/// Sine and cosine; NaN where the argument is not finite.
#[inline]
pub fn sin_cos(x: f32) -> (f32, f32) {
    let x = f64::from(x);
    let n = (x * FRAC_2_PI).round();
    let r = n.mul_add(-HALF_PI[1], n.mul_add(-HALF_PI[0], x));
    let z = r * r;
    let series = |from: f64, first: f64| {
        let (mut term, mut sum, mut k) = (first, first, from);
        for _ in 0..9 {
            term *= -z / (k * (k + 1.0));
            sum += term;
            k += 2.0;
        }
        sum
    };
    let (s, c) = (series(2.0, r), series(1.0, 1.0));
    let quarter = n - 4.0 * (n * 0.25).floor();
    let (s, c) = if quarter < 0.5 {
        (s, c)
    } else if quarter < 1.5 {
        (c, -s)
    } else if quarter < 2.5 {
        (-s, -c)
    } else {
        (-c, s)
    };
    (round(s), round(c))
}

/// ln in f64 within a few units in the last place.
pub fn ln_wide(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x.is_infinite() {
        return x;
    }
    // Subnormal numbers are raised first.
    let (x, lift) = if x < f64::MIN_POSITIVE {
        (x * 18_014_398_509_481_984.0, 54.0)
    } else {
        (x, 0.0)
    };
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as f64 - 1023.0;
    let mantissa = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    let (m, e) = if mantissa > SQRT_2 {
        (mantissa * 0.5, exponent + 1.0)
    } else {
        (mantissa, exponent)
    };
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut sum = 0.0;
    let mut k = 23.0;
    while k > 0.0 {
        sum = sum * z + 1.0 / k;
        k -= 2.0;
    }
    (2.0 * s).mul_add(sum, (e - lift) * LN_2)
}

/// exp in f64 within a few units in the last place.
pub fn exp_wide(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x > 709.0 {
        return f64::INFINITY;
    }
    if x < -745.0 {
        return 0.0;
    }
    let n = (x * LOG2_E).round();
    let r = n.mul_add(
        -1.908_214_929_270_587_7e-10,
        n.mul_add(-6.931_471_803_691_238e-1, x),
    );
    let mut sum = 1.0;
    let mut k = 16.0;
    while k > 0.5 {
        sum = (sum * r / k) + 1.0;
        k -= 1.0;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number between -1075 and 1023"
    )]
    let n = n as i32;
    let first = n >> 1;
    let power = |e: i32| f64::from_bits(u64::from((e + 1023).cast_unsigned()) << 52);
    sum * power(first) * power(n - first)
}

fn round(x: f64) -> f32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to f32 is what is meant"
    )]
    let x = x as f32;
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_powers_and_circles_follow_the_truth() {
        let mut x = 1e-6_f64;
        while x < 1e6 {
            assert!(
                (ln_wide(x) - x.ln()).abs() <= 4e-16 * x.ln().abs().max(1.0),
                "ln {x}"
            );
            let y = x.ln() * 3.0;
            assert!((exp_wide(y) / y.exp() - 1.0).abs() < 1e-14, "exp {y}");
            x *= 1.37;
        }
        let mut x = -40.0_f32;
        while x < 40.0 {
            let (s, c) = sin_cos(x);
            assert!((f64::from(s) - f64::from(x).sin()).abs() < 1e-7, "sin {x}");
            assert!((f64::from(c) - f64::from(x).cos()).abs() < 1e-7, "cos {x}");
            let truth = f64::from(x).exp().ln_1p();
            assert!(
                (f64::from(softplus(x)) - truth).abs() <= 1e-7 * truth.max(1e-9),
                "{x}"
            );
            x += 0.37;
        }
        assert_eq!(pow(-2.0, 3.0), -8.0);
        assert_eq!(pow(4.0, -0.5), 0.5);
        assert_eq!(pow(9.0, 0.5), 3.0);
        assert_eq!(pow(0.0, 0.0), 1.0);
        assert!(pow(-2.0, 0.3).is_nan() && ln(-1.0).is_nan());
        assert_eq!(pow(-2.0, 17.0), -131_072.0);
        assert_eq!(ln(0.0), f32::NEG_INFINITY);
        assert!(softplus(f32::NAN).is_nan());
    }
}
