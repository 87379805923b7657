//! Where output voxels of a resize lie in the input: tables along one axis.

use super::maps::Taps;
use super::rounded;
use crate::network::tensor_op::{Coordinates, Nearest};

/// Inputs and weights of linear interpolation by a whole factor along one axis. Without aligned corners the weights
/// come from the phase alone, so that a window that starts at a multiple of the factor has the same ones.
pub(super) fn linear_taps(input: usize, scale: usize, align_corners: bool) -> Taps {
    let output = input * scale;
    let next = |low: usize, t: f64| (low, (low + 1).min(input - 1), rounded(t));
    (0..output)
        .map(|o| {
            if align_corners {
                let (n, d) = (o * (input - 1), (output - 1).max(1));
                return next(n / d, (n % d) as f64 / d as f64);
            }
            let (cell, phase) = (o / scale, (o % scale) as f64);
            let t = (phase + 0.5) / scale as f64 - 0.5;
            match cell.checked_sub(1) {
                _ if t >= 0.0 => next(cell, t),
                Some(before) => next(before, 1.0 + t),
                None => next(0, 0.0),
            }
        })
        .collect()
}

/// Where output voxel `o` lies, in single precision as the exporters' own runtimes compute it.
fn place(o: usize, (before, after): (usize, usize), scale: f32, by: Coordinates) -> f32 {
    let at = o as f32;
    match by {
        Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if after == 1 => 0.0,
        Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (at + 0.5) / scale - 0.5,
        Coordinates::Asymmetric => at / scale,
        Coordinates::AlignCorners => at * (before - 1) as f32 / (after - 1) as f32,
    }
}

/// The input voxel of each output voxel along an axis of these sizes; `scale` where the file gives one.
pub(super) fn resize_picks(
    sizes: (usize, usize),
    scale: Option<f32>,
    by: Coordinates,
    rounding: Nearest,
) -> Vec<usize> {
    let scale = scale.unwrap_or_else(|| sizes.1 as f32 / sizes.0 as f32);
    (0..sizes.1)
        .map(|o| {
            if sizes.0 == sizes.1 && (scale - 1.0).abs() < f32::EPSILON {
                return o;
            }
            let at = place(o, sizes, scale, by);
            let picked = match rounding {
                Nearest::Floor => at.floor(),
                Nearest::Ceil => at.ceil(),
                // Halves: -0.5 goes to -1 with "floor" and to 0 with "ceil".
                Nearest::RoundPreferFloor => (at - 0.5).ceil(),
                Nearest::RoundPreferCeil => (at + 0.5).floor(),
            };
            whole(picked).min(sizes.0 - 1)
        })
        .collect()
}

/// Inputs and weights of linear interpolation along an axis of these sizes.
pub(super) fn resize_taps(sizes: (usize, usize), scale: Option<f32>, by: Coordinates) -> Taps {
    let (before, after) = (sizes.0 as f64, sizes.1 as f64);
    let scale = scale.map_or(after / before, f64::from);
    (0..sizes.1)
        .map(|o| {
            let at = o as f64;
            let place = match by {
                Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if sizes.1 == 1 => 0.0,
                Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (at + 0.5) / scale - 0.5,
                Coordinates::Asymmetric => at / scale,
                Coordinates::AlignCorners => at * (before - 1.0) / (after - 1.0),
            };
            let place = place.clamp(0.0, before - 1.0);
            let low = whole(rounded(place.floor()));
            (
                low,
                (low + 1).min(sizes.0 - 1),
                rounded(place - place.floor()),
            )
        })
        .collect()
}

fn whole(x: f32) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number; negatives become 0"
    )]
    let n = x as usize;
    n
}
