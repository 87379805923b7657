//! Small vector helpers and the soft edge that every part of the phantom is drawn with.

/// Length of a vector.
pub(super) fn length(v: [f64; 3]) -> f64 {
    (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt()
}

/// Length of the hypotenuse, from products and a root alone so that its bits are the same everywhere.
#[expect(
    clippy::imprecise_flops,
    reason = "hypot comes from the system's library and differs between machines"
)]
pub(super) fn hyp(x: f32, y: f32) -> f32 {
    (x * x + y * y).sqrt()
}

/// The largest whole number not above `v`, for measures within a few million.
#[expect(
    clippy::cast_possible_truncation,
    reason = "measures in mm or cells are small"
)]
pub(super) fn floor(v: f32) -> f32 {
    let whole = v as i32 as f32;
    if whole > v { whole - 1.0 } else { whole }
}

/// Distance between two points.
pub(super) fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    length([a[0] - b[0], a[1] - b[1], a[2] - b[2]])
}

/// How much of a voxel `soft` mm wide lies inside a surface `inside` mm away (positive within).
pub(super) fn cover(inside: f32, soft: f32) -> f32 {
    (inside / soft + 0.5).clamp(0.0, 1.0)
}

/// From `a` to `b` by a share `t`.
pub(super) fn mix(a: f32, b: f32, t: f32) -> f32 {
    a + (b - a) * t
}

/// About how far inside an ellipse with half-axes `a` and `b` around the origin a point lies, in mm.
pub(super) fn in_ellipse(x: f32, y: f32, a: f32, b: f32) -> f32 {
    let r = hyp(x / a, y / b);
    (1.0 - r) * if a < b { a } else { b }
}

/// About how far inside an ellipsoid around the origin a point lies, in mm.
pub(super) fn in_ellipsoid(p: [f32; 3], half: [f32; 3]) -> f32 {
    let q: f32 = (0..3).map(|a| (p[a] / half[a]) * (p[a] / half[a])).sum();
    let least = half.iter().copied().fold(f32::MAX, f32::min);
    (1.0 - q.sqrt()) * least
}

/// A straight tube that narrows from `radius[0]` at `ends[0]` to `radius[1]` at `ends[1]`, rounded at both ends. In mm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tube {
    pub(super) ends: [[f64; 3]; 2],
    pub(super) radius: [f64; 2],
}

impl Tube {
    /// How far inside the tube a point lies, in mm (negative outside).
    pub(super) fn inside(&self, p: [f64; 3]) -> f64 {
        let [a, b] = self.ends;
        let ab: [f64; 3] = std::array::from_fn(|i| b[i] - a[i]);
        let ap: [f64; 3] = std::array::from_fn(|i| p[i] - a[i]);
        let len2 = ab[0] * ab[0] + ab[1] * ab[1] + ab[2] * ab[2];
        let along = ap[0] * ab[0] + ap[1] * ab[1] + ap[2] * ab[2];
        let t = if len2 > 0.0 {
            (along / len2).clamp(0.0, 1.0)
        } else {
            0.0
        };
        let d = length(std::array::from_fn(|i| ap[i] - ab[i] * t));
        self.radius[0] + (self.radius[1] - self.radius[0]) * t - d
    }

    /// Lowest and highest coordinate along an axis, with `margin` mm around.
    pub(super) fn reach(&self, axis: usize, margin: f64) -> [f64; 2] {
        let [a, b] = [self.ends[0][axis], self.ends[1][axis]];
        let r = self.radius[0].max(self.radius[1]) + margin;
        [a.min(b) - r, a.max(b) + r]
    }
}
