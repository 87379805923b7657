//! Seeded chance with the same bits on every machine: only whole-number steps and + - * / sqrt.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

/// A stream of numbers that a seed and a purpose fix.
pub(super) struct Chance(Pcg64);

impl Chance {
    /// The stream of `purpose` under `seed`; two purposes share nothing.
    pub(super) fn new(seed: u64, purpose: u64) -> Self {
        Self(Pcg64::seed_from_u64(
            seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ))
    }

    /// The next 64 bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Evenly between 0 (with) and 1 (without).
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Evenly between `low` and `high`.
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A whole number below `n` (0 when `n` is 0).
    pub(super) fn below(&mut self, n: usize) -> usize {
        let n = n as u64;
        usize::try_from(self.bits() % n.max(1)).unwrap_or(0)
    }

    /// A direction, evenly over the sphere.
    pub(super) fn direction(&mut self) -> [f64; 3] {
        loop {
            let v: [f64; 3] = std::array::from_fn(|_| self.between(-1.0, 1.0));
            let length = super::shape::length(v);
            if length > 0.1 && length <= 1.0 {
                return v.map(|c| c / length);
            }
        }
    }

    /// Close to a normal deviate with standard deviation 1: four 16-bit draws summed.
    pub(super) fn normal(&mut self) -> f32 {
        let b = self.bits();
        let sum = (b & 0xffff) + ((b >> 16) & 0xffff) + ((b >> 32) & 0xffff) + (b >> 48);
        (sum as f32 - 131_070.0) / 37_837.0
    }
}

/// Smooth noise between -1 and 1 on a lattice of step 1, the same field for the same seed. It keeps the corners of the
/// cell it was last asked about: neighbouring voxels lie in one cell.
pub(super) struct SmoothNoise {
    seed: u64,
    cell: [i32; 3],
    corners: [f32; 8],
}

impl SmoothNoise {
    pub(super) fn new(seed: u64) -> Self {
        let mut noise = Self {
            seed,
            cell: [0; 3],
            corners: [0.0; 8],
        };
        noise.enter([0; 3]);
        noise
    }

    fn enter(&mut self, cell: [i32; 3]) {
        self.cell = cell;
        let [i, j, k] = cell.map(i64::from);
        for (n, corner) in (0i64..8).zip(&mut self.corners) {
            *corner = lattice(self.seed, i + (n & 1), j + ((n >> 1) & 1), k + (n >> 2));
        }
    }

    /// The field at a point.
    pub(super) fn at(&mut self, p: [f32; 3]) -> f32 {
        let low = p.map(super::shape::floor);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "lattice cells of a chest are within a few hundred of zero"
        )]
        let cell = low.map(|c| c as i32);
        if cell != self.cell {
            self.enter(cell);
        }
        let f: [f32; 3] = std::array::from_fn(|a| {
            let t = p[a] - low[a];
            t * t * (3.0 - 2.0 * t)
        });
        let c = &self.corners;
        let mix = super::shape::mix;
        let near = mix(mix(c[0], c[1], f[0]), mix(c[2], c[3], f[0]), f[1]);
        let far = mix(mix(c[4], c[5], f[0]), mix(c[6], c[7], f[0]), f[1]);
        mix(near, far, f[2])
    }
}

/// A value between -1 and 1 at a lattice point.
#[expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    reason = "a hash: bits are mixed, sizes do not matter"
)]
fn lattice(seed: u64, i: i64, j: i64, k: i64) -> f32 {
    let mut h = seed
        ^ (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (j as u64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f)
        ^ (k as u64).wrapping_mul(0x1656_67b1_9e37_79f9);
    h = (h ^ (h >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h ^= h >> 29;
    f32::from((h >> 40) as u16) / 32_767.5 - 1.0
}
