//! Epilogues: what is done to each value before it is stored, the same for every kernel.

#![expect(
    unsafe_code,
    reason = "epilogues read other places at the voxel that their task writes"
)]
#![expect(
    clippy::inline_always,
    reason = "bodies must be compiled with their caller's instruction set"
)]

use super::arena::Place;
use crate::network::Act;
use crate::network::graph::Function;
use crate::numeric;

/// One prepared part of an epilogue.
#[derive(Clone, Debug)]
pub(super) enum PostOp {
    /// An activation.
    Act(Act),
    /// A slope per channel below zero.
    PRelu(Vec<f32>),
    /// Adds the value at the same position of this place.
    Add(Place),
    /// Multiplies by the value at the same position of this place.
    Mul(Place),
}

/// The places that an epilogue reads, in order.
pub(super) fn places(posts: &mut [PostOp], f: &mut dyn FnMut(&mut Place)) {
    for post in posts {
        match post {
            PostOp::Add(place) | PostOp::Mul(place) => f(place),
            PostOp::Act(_) | PostOp::PRelu(_) => {}
        }
    }
}

/// Most values that one call of a kernel works on at a time, in a buffer of its own.
pub(super) const BLOCK: usize = 1024;

/// Applies the epilogue to `block`, the values from `element` on of a window's map; the first is of channel `channel`.
///
/// # Safety
/// No other task writes the values of the epilogue's places at these positions.
#[inline(always)]
pub(super) unsafe fn apply(
    posts: &[PostOp],
    block: &mut [f32],
    element: usize,
    channel: usize,
    window: usize,
    window_len: usize,
) {
    for post in posts {
        match post {
            PostOp::Act(act) => activate(*act, block),
            PostOp::PRelu(slopes) => {
                let mut c = channel;
                for x in block.iter_mut() {
                    *x = if *x > 0.0 { *x } else { slopes[c] * *x };
                    c = if c + 1 == slopes.len() { 0 } else { c + 1 };
                }
            }
            PostOp::Add(place) | PostOp::Mul(place) => {
                let part = place.part(window * window_len + element, block.len());
                let multiply = matches!(post, PostOp::Mul(_));
                for (i, x) in block.iter_mut().enumerate() {
                    let other = part.start().wrapping_add(i);
                    // SAFETY: `part` has block.len() values, and by the caller's promise nobody writes them now.
                    let other = unsafe { other.read() };
                    *x = if multiply { *x * other } else { *x + other };
                }
            }
        }
    }
}

/// Applies the epilogue to the first `channels` values of each row, the values of a window's map from the row's element on;
/// the first is of channel `channel`. What a row holds beyond them may change too.
///
/// # Safety
/// As for [`apply`].
#[inline(always)]
pub(super) unsafe fn apply_rows<const W: usize>(
    posts: &[PostOp],
    rows: &mut [[f32; W]],
    elements: &[usize],
    (channel, channels): (usize, usize),
    (window, window_len): (usize, usize),
) {
    for post in posts {
        match post {
            PostOp::Act(act) if channels > W / 2 => activate(*act, rows.as_flattened_mut()),
            PostOp::Act(act) => {
                for row in &mut *rows {
                    activate(*act, &mut row[..W / 2]);
                }
            }
            PostOp::PRelu(slopes) => {
                let slopes = &slopes[channel..channel + channels];
                for x in &mut *rows {
                    for (x, slope) in x.iter_mut().zip(slopes) {
                        *x = if *x > 0.0 { *x } else { slope * *x };
                    }
                }
            }
            PostOp::Add(place) | PostOp::Mul(place) => {
                let multiply = matches!(post, PostOp::Mul(_));
                for (row, element) in rows.iter_mut().zip(elements) {
                    let part = place.part(window * window_len + element, channels);
                    let mut other = [0.0; W];
                    // SAFETY: `part` has so many values, and by the caller's promise nobody writes them now.
                    other[..channels].copy_from_slice(unsafe { part.values() });
                    for (x, other) in row.iter_mut().zip(other) {
                        *x = if multiply { *x * other } else { *x + other };
                    }
                }
            }
        }
    }
}

/// An activation of each value. `Relu` passes NaN on and makes +0 of -0.
#[inline(always)]
fn activate(act: Act, block: &mut [f32]) {
    match act {
        Act::Relu => each(block, |x| if x <= 0.0 { 0.0 } else { x }),
        Act::LeakyRelu { slope } => each(block, |x| if x > 0.0 { x } else { slope * x }),
        Act::Sigmoid => each(block, numeric::sigmoid),
        Act::Tanh => each(block, numeric::tanh),
        Act::Gelu => each(block, |x| {
            0.5 * x * (1.0 + numeric::erf(x * std::f32::consts::FRAC_1_SQRT_2))
        }),
        Act::Silu => each(block, |x| x * numeric::sigmoid(x)),
        Act::Elu { alpha } => each(block, |x| elu(alpha, x)),
        Act::Affine { factor, shift } => each(block, |x| x.mul_add(factor, shift)),
        Act::Clip { low, high } => each(block, |x| clip(x, low, high)),
        other => seldom(other, block),
    }
}

#[inline(always)]
fn elu(alpha: f32, x: f32) -> f32 {
    if x > 0.0 {
        x
    } else {
        alpha * (numeric::exp(x) - 1.0)
    }
}

#[inline(always)]
fn clip(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// Activations that are seldom met, compiled once.
fn seldom(act: Act, block: &mut [f32]) {
    match act {
        Act::GeluTanh => each(block, |x| {
            let inner = 0.797_884_6 * 0.044_715_f32.mul_add(x * x * x, x);
            0.5 * x * (1.0 + numeric::tanh(inner))
        }),
        Act::Mish => each(block, |x| x * numeric::tanh(numeric::softplus(x))),
        Act::Softplus => each(block, numeric::softplus),
        Act::Softsign => each(block, |x| x / (1.0 + x.abs())),
        Act::Selu { alpha, gamma } => each(block, |x| gamma * elu(alpha, x)),
        Act::HardSigmoid { alpha, beta } => {
            each(block, |x| clip(x.mul_add(alpha, beta), 0.0, 1.0));
        }
        Act::HardSwish => each(block, |x| x * clip(x / 6.0 + 0.5, 0.0, 1.0)),
        Act::ThresholdedRelu { alpha } => each(block, |x| if x > alpha { x } else { 0.0 }),
        Act::Power { exponent } => each(block, |x| numeric::pow(x, exponent)),
        Act::Function(f) => function(f, block),
        other => activate(other, block),
    }
}

fn function(f: Function, block: &mut [f32]) {
    let truth = |t: bool| f32::from(u8::from(t));
    match f {
        Function::Abs => each(block, f32::abs),
        Function::Neg => each(block, |x| -x),
        Function::Reciprocal => each(block, f32::recip),
        Function::Sqrt => each(block, f32::sqrt),
        Function::Exp => each(block, numeric::exp),
        Function::Log => each(block, numeric::ln),
        Function::Erf => each(block, numeric::erf),
        Function::Floor => each(block, f32::floor),
        Function::Ceil => each(block, f32::ceil),
        Function::Round => each(block, f32::round_ties_even),
        Function::Truncate => each(block, f32::trunc),
        Function::Sign => each(block, |x| {
            if x == 0.0 || x.is_nan() {
                x
            } else {
                x.signum()
            }
        }),
        Function::Sin => each(block, |x| numeric::sin_cos(x).0),
        Function::Cos => each(block, |x| numeric::sin_cos(x).1),
        Function::Not => each(block, |x| truth(x == 0.0)),
        Function::Truth => each(block, |x| truth(x != 0.0)),
        Function::IsNan => each(block, |x| truth(x.is_nan())),
    }
}

#[inline(always)]
fn each(block: &mut [f32], f: impl Fn(f32) -> f32) {
    for x in block {
        *x = f(*x);
    }
}
