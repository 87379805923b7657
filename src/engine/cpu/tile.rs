//! The register tile: R output voxels by 8 V output channels, each value one chain of fused multiply-adds in segment order.
//! Every instruction set walks the same chain, so the bits are the same.
#![expect(
    unsafe_code,
    reason = "the inner kernel reads through pointers that the convolution has laid out"
)]
#![expect(
    clippy::inline_always,
    reason = "bodies must be compiled with their caller's instruction set"
)]

/// A run of consecutive input values, with the same number of weight rows: one tap, or several in a row along the last axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seg {
    /// Which source it reads.
    pub(super) source: usize,
    /// Values from the source's start to the run, for the first voxel of the box.
    pub(super) at: usize,
    /// How many values.
    pub(super) len: usize,
    /// Its first weight row.
    pub(super) row: usize,
}

/// Where a source lies and how many values lie between its voxels.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceAt {
    pub(super) start: *const f32,
    pub(super) channels: usize,
}

/// Widest block of output channels.
pub(super) const LANES: usize = 16;
/// Most voxels of a tile.
pub(super) const VOXELS: usize = 12;

/// What a tile makes.
pub(super) type Tile = [[f32; LANES]; VOXELS];

/// Sums of R voxels times 8 V channels into `out`, from +0.
///
/// # Safety
/// For each segment and each voxel offset: `len` values from `at + voxel * channels` on lie in the source, and
/// `(row + len) * 8 V` weights lie behind `weights`. With `AVX2` the machine has AVX2 and FMA.
#[inline(always)]
pub(super) unsafe fn tile<const AVX2: bool, const R: usize, const V: usize>(
    segs: &[Seg],
    sources: &[SourceAt],
    voxels: &[usize; R],
    weights: *const f32,
    out: &mut Tile,
) {
    #[cfg(target_arch = "x86_64")]
    if AVX2 {
        // SAFETY: the caller's promise.
        unsafe { avx2::tile::<R, V>(segs, sources, voxels, weights, out) };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { portable::<R, V>(segs, sources, voxels, weights, out) };
}

#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "reads of one segment, all covered by one promise"
)]
unsafe fn portable<const R: usize, const V: usize>(
    segs: &[Seg],
    sources: &[SourceAt],
    voxels: &[usize; R],
    weights: *const f32,
    out: &mut Tile,
) {
    let lanes = 8 * V;
    for row in out.iter_mut().take(R) {
        row[..lanes].fill(0.0);
    }
    for seg in segs {
        let source = sources[seg.source];
        for i in 0..seg.len {
            for (r, row) in out.iter_mut().take(R).enumerate() {
                let x = source
                    .start
                    .wrapping_add(seg.at + voxels[r] * source.channels + i);
                // SAFETY: the caller's promise for this segment.
                let x = unsafe { x.read() };
                for (lane, acc) in row[..lanes].iter_mut().enumerate() {
                    // SAFETY: the caller's promise for this segment.
                    let w = unsafe { weights.add((seg.row + i) * lanes + lane).read() };
                    *acc = x.mul_add(w, *acc);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Seg, SourceAt, Tile};
    use std::arch::x86_64::{
        __m256, _mm256_broadcast_ss, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps,
        _mm256_storeu_ps,
    };

    /// See [`super::tile`].
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "reads of one segment, all covered by one promise"
    )]
    pub(super) unsafe fn tile<const R: usize, const V: usize>(
        segs: &[Seg],
        sources: &[SourceAt],
        voxels: &[usize; R],
        weights: *const f32,
        out: &mut Tile,
    ) {
        let mut acc: [[__m256; V]; R] = [[_mm256_setzero_ps(); V]; R];
        for seg in segs {
            let source = sources[seg.source];
            // SAFETY: the caller's promise: all offsets of this segment lie in its source and its weights.
            unsafe {
                let mut x: [*const f32; R] = [source.start; R];
                for r in 0..R {
                    x[r] = source
                        .start
                        .wrapping_add(seg.at + voxels[r] * source.channels);
                }
                let mut w = weights.add(seg.row * 8 * V);
                for i in 0..seg.len {
                    let mut b = [_mm256_setzero_ps(); V];
                    for (v, b) in b.iter_mut().enumerate() {
                        *b = _mm256_loadu_ps(w.add(8 * v));
                    }
                    w = w.add(8 * V);
                    for r in 0..R {
                        let a = _mm256_broadcast_ss(&*x[r].add(i));
                        for v in 0..V {
                            acc[r][v] = _mm256_fmadd_ps(a, b[v], acc[r][v]);
                        }
                    }
                }
            }
        }
        for r in 0..R {
            for v in 0..V {
                let into = &mut out[r][8 * v..8 * v + 8];
                // SAFETY: `into` holds 8 values.
                unsafe { _mm256_storeu_ps(into.as_mut_ptr(), acc[r][v]) };
            }
        }
    }
}
