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

/// How many times larger a resize makes an axis.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scale {
    /// As the file states it, in single precision.
    Stated(f32),
    /// The first over the second.
    Ratio(usize, usize),
}

/// Where output voxel `o` lies along an axis of these sizes, as a fraction. Its remainder depends on the phase alone, so that
/// a window that starts at a whole number of periods has the same weights.
fn exact(
    o: usize,
    (before, after): (usize, usize),
    (up, down): (usize, usize),
    by: Coordinates,
) -> (i128, i128) {
    let [o, up, down] = [o, up, down].map(|n| n as i128);
    match by {
        Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if after == 1 => (0, 1),
        Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => {
            ((2 * o + 1) * down - up, 2 * up.max(1))
        }
        Coordinates::Asymmetric => (o * down, up.max(1)),
        Coordinates::AlignCorners => (o * (before as i128 - 1), after as i128 - 1),
    }
}

/// Where output voxel `o` lies, in single precision as the exporters' own runtimes compute it.
fn stated(o: usize, (before, after): (usize, usize), scale: f32, by: Coordinates) -> f32 {
    let at = o as f32;
    match by {
        Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if after == 1 => 0.0,
        Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (at + 0.5) / scale - 0.5,
        Coordinates::Asymmetric => at / scale,
        Coordinates::AlignCorners => at * (before - 1) as f32 / (after - 1) as f32,
    }
}

/// The input voxel of each output voxel along an axis of these sizes.
pub(super) fn resize_picks(
    sizes: (usize, usize),
    scale: Scale,
    by: Coordinates,
    rounding: Nearest,
) -> Vec<usize> {
    let pick = |o: usize| match scale {
        Scale::Ratio(up, down) => {
            let (n, d) = exact(o, sizes, (up, down), by);
            let picked = match rounding {
                Nearest::Floor => n.div_euclid(d),
                Nearest::Ceil => -(-n).div_euclid(d),
                // Halves: -0.5 goes to -1 with "floor" and to 0 with "ceil".
                Nearest::RoundPreferFloor => -(d - 2 * n).div_euclid(2 * d),
                Nearest::RoundPreferCeil => (2 * n + d).div_euclid(2 * d),
            };
            usize::try_from(picked.max(0)).unwrap_or(usize::MAX)
        }
        Scale::Stated(scale) => {
            let at = stated(o, sizes, scale, by);
            whole(match rounding {
                Nearest::Floor => at.floor(),
                Nearest::Ceil => at.ceil(),
                Nearest::RoundPreferFloor => (at - 0.5).ceil(),
                Nearest::RoundPreferCeil => (at + 0.5).floor(),
            })
        }
    };
    (0..sizes.1).map(|o| pick(o).min(sizes.0 - 1)).collect()
}

/// Inputs and weights of linear interpolation along an axis of these sizes.
pub(super) fn resize_taps(sizes: (usize, usize), scale: Scale, by: Coordinates) -> Taps {
    let next = |low: usize, t: f64| (low, (low + 1).min(sizes.0 - 1), rounded(t));
    let last = sizes.0 - 1;
    let taps = |o: usize| match scale {
        Scale::Ratio(up, down) => {
            let (n, d) = exact(o, sizes, (up, down), by);
            match usize::try_from(n.div_euclid(d)) {
                Ok(low) if low < last => next(low, n.rem_euclid(d) as f64 / d as f64),
                Ok(_) => next(last, 0.0),
                Err(_before_the_first) => next(0, 0.0),
            }
        }
        Scale::Stated(scale) => {
            let (at, scale) = (o as f64, f64::from(scale));
            let place = match by {
                Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if sizes.1 == 1 => 0.0,
                Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (at + 0.5) / scale - 0.5,
                Coordinates::Asymmetric => at / scale,
                Coordinates::AlignCorners => at * last as f64 / (sizes.1 - 1) as f64,
            };
            let place = place.clamp(0.0, last as f64);
            next(whole(rounded(place.floor())), place - place.floor())
        }
    };
    (0..sizes.1).map(taps).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resize_down_by_seven_picks_every_seventh_voxel() {
        let by = Coordinates::Asymmetric;
        let picks = resize_picks((700, 100), Scale::Ratio(1, 7), by, Nearest::Floor);
        assert_eq!(picks, (0..100).map(|o| 7 * o).collect::<Vec<_>>());
    }

    #[test]
    fn linear_weights_are_the_same_in_every_period() {
        for (up, down) in [(7, 3), (10, 7), (1, 3)] {
            for by in [Coordinates::HalfPixel, Coordinates::Asymmetric] {
                let sizes = (down * 400, up * 400);
                let taps = resize_taps(sizes, Scale::Ratio(up, down), by);
                for (o, tap) in taps.iter().enumerate().skip(up).take(up * 390) {
                    let later = taps[o + up];
                    assert_eq!(
                        (tap.0 + down, tap.2),
                        (later.0, later.2),
                        "{up}/{down} at {o}"
                    );
                }
            }
        }
    }

    #[test]
    fn halves_go_where_the_file_says_and_places_outside_to_the_border() {
        let pick = |by, rounding| resize_picks((4, 2), Scale::Ratio(1, 2), by, rounding);
        let half = Coordinates::HalfPixel;
        assert_eq!(pick(half, Nearest::RoundPreferFloor), [0, 2]);
        assert_eq!(pick(half, Nearest::RoundPreferCeil), [1, 3]);
        assert_eq!(pick(half, Nearest::Floor), [0, 2]);
        assert_eq!(pick(half, Nearest::Ceil), [1, 3]);
        let up = resize_taps((2, 4), Scale::Ratio(2, 1), half);
        assert_eq!(up, [(0, 1, 0.0), (0, 1, 0.25), (0, 1, 0.75), (1, 1, 0.0)]);
        let corners = resize_taps((3, 5), Scale::Ratio(5, 3), Coordinates::AlignCorners);
        assert_eq!(
            corners.iter().map(|t| t.2).collect::<Vec<_>>(),
            [0.0, 0.5, 0.0, 0.5, 0.0]
        );
    }
}
