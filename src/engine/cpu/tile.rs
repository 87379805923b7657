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
/// Most blocks that one tile makes.
pub(super) const BLOCKS: usize = 2;
/// Most voxels of a tile.
pub(super) const VOXELS: usize = 24;

/// What a tile makes: for each voxel the lanes of its first block, then those of its second.
pub(super) type Tile = [[f32; LANES * BLOCKS]; VOXELS];

/// The portable path, as a parameter of the kernels.
pub(super) const PORTABLE: u8 = 0;
/// AVX2 and FMA.
pub(super) const AVX2: u8 = 1;
/// AVX-512.
pub(super) const AVX512: u8 = 2;

/// Sums of R voxels times 8 V channels into `out`, from +0.
///
/// # Safety
/// For each segment and each voxel offset: `len` values from `at + voxel * channels` on lie in the source, and
/// `(row + len) * 8 V` weights lie behind `weights`. The machine has the instructions of `ISA`.
#[inline(always)]
pub(super) unsafe fn tile<const ISA: u8, const R: usize, const V: usize>(
    segs: &[Seg],
    sources: &[SourceAt],
    voxels: &[usize; R],
    weights: *const f32,
    out: &mut Tile,
) {
    #[cfg(target_arch = "x86_64")]
    if ISA != PORTABLE {
        // SAFETY: the caller's promise.
        unsafe { avx2::tile::<R, V>(segs, sources, voxels, weights, out) };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { portable::<R, V>(segs, sources, voxels, weights, out) };
}

/// Sums of R voxels times B blocks of 16 channels into `out`, from +0, where the machine has AVX-512.
///
/// # Safety
/// As for [`tile`], with `(row + len) * 16` weights behind each of `weights`.
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(unused_variables, reason = "no AVX-512 there, so never called")
)]
#[inline(always)]
pub(super) unsafe fn wide_tile<const R: usize, const B: usize>(
    segs: &[Seg],
    sources: &[SourceAt],
    voxels: &[usize; R],
    weights: [*const f32; B],
    out: &mut Tile,
) {
    // SAFETY: the caller's promise.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        avx512::tile::<R, B>(segs, sources, voxels, weights, out);
    }
}

/// As [`wide_tile`] for 3 Q voxels that lie `step` voxels of the input apart, the first at `first`.
///
/// # Safety
/// As for [`wide_tile`].
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(unused_variables, reason = "no AVX-512 there, so never called")
)]
#[inline(always)]
pub(super) unsafe fn wide_row<const Q: usize, const B: usize>(
    segs: &[Seg],
    sources: &[SourceAt],
    (first, step): (usize, usize),
    weights: [*const f32; B],
    out: &mut Tile,
) {
    // SAFETY: the caller's promise.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        avx512::row::<Q, B>(segs, sources, (first, step), weights, out);
    }
}

/// Asks for the line of a value that will be written soon.
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(
        unused_variables,
        reason = "a hint that is given on one kind of machine"
    )
)]
#[inline(always)]
pub(super) fn will_write(value: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which reads and writes nothing and may be given for any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(value.cast());
    }
}

/// Whether an instruction set that this machine has gives the portable path's bits on a small convolution.
pub(super) fn same_bits(isa: super::isa::Isa) -> bool {
    let value = |i: usize| (i * 7919 % 1009) as f32 / 504.5 - 1.0;
    let input: Vec<f32> = (0..640).map(value).collect();
    let weights: Vec<f32> = (0..2 * 40 * LANES).map(|i| value(i + 31)).collect();
    let source = [SourceAt {
        start: input.as_ptr(),
        channels: 16,
    }];
    let seg = |at, len, row| Seg {
        source: 0,
        at,
        len,
        row,
    };
    let segs = [seg(0, 16, 0), seg(33, 24, 16)];
    let voxels: [usize; VOXELS] = std::array::from_fn(|i| i);
    let mut tiles = [[[0.0; LANES * BLOCKS]; VOXELS]; 2];
    let [found, right] = &mut tiles;
    for block in 0..BLOCKS {
        let w = weights[block * 40 * LANES..].as_ptr();
        let mut one: Tile = [[0.0; LANES * BLOCKS]; VOXELS];
        // SAFETY: 23 * 16 + 33 + 24 values lie in the input and 40 rows behind the weights.
        unsafe { portable::<VOXELS, 2>(&segs, &source, &voxels, w, &mut one) };
        for (into, from) in right.iter_mut().zip(&one) {
            into[block * LANES..][..LANES].copy_from_slice(&from[..LANES]);
        }
    }
    run_small(isa, &segs, &source, &voxels, &weights, found);
    let bits = |t: &Tile| t.map(|row| row.map(f32::to_bits));
    bits(found) == bits(right)
}

/// The tile of `same_bits` in one instruction set.
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(unused_variables, reason = "one instruction set only")
)]
fn run_small(
    isa: super::isa::Isa,
    segs: &[Seg],
    source: &[SourceAt],
    voxels: &[usize; VOXELS],
    weights: &[f32],
    out: &mut Tile,
) {
    let blocks: [*const f32; BLOCKS] = std::array::from_fn(|b| weights[b * 40 * LANES..].as_ptr());
    #[cfg(target_arch = "x86_64")]
    if isa == super::isa::Isa::Avx512 {
        // SAFETY: as in `same_bits`; the machine has what `Isa::here` names.
        unsafe { avx512::row::<4, BLOCKS>(segs, source, (0, 1), blocks, out) };
        let mut rest: Tile = [[0.0; LANES * BLOCKS]; VOXELS];
        let last = voxels.last_chunk::<12>().unwrap_or(&[0; 12]);
        // SAFETY: as above.
        unsafe { avx512::tile::<12, BLOCKS>(segs, source, last, blocks, &mut rest) };
        out[12..].copy_from_slice(&rest[..12]);
        return;
    }
    for (block, w) in blocks.into_iter().enumerate() {
        for (voxel, first) in voxels.iter().zip(0..) {
            let mut one: Tile = [[0.0; LANES * BLOCKS]; VOXELS];
            match isa {
                super::isa::Isa::Portable => {
                    // SAFETY: as in `same_bits`.
                    unsafe { portable::<1, 2>(segs, source, &[*voxel], w, &mut one) };
                }
                #[cfg(target_arch = "x86_64")]
                _ => {
                    // SAFETY: as in `same_bits`; the machine has what `Isa::here` names.
                    unsafe { avx2::tile::<1, 2>(segs, source, &[*voxel], w, &mut one) };
                }
                #[cfg(not(target_arch = "x86_64"))]
                _ => {}
            }
            let into: &mut [f32; LANES * BLOCKS] = &mut out[first];
            into[block * LANES..][..LANES].copy_from_slice(&one[0][..LANES]);
        }
    }
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

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{LANES, Seg, SourceAt, Tile};
    use std::arch::asm;
    use std::arch::x86_64::{
        __m512, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
        _mm512_storeu_ps,
    };

    /// See [`super::wide_tile`]. A function of its own, so that its registers are dealt out for its loop alone.
    #[target_feature(enable = "avx512f,avx2,fma")]
    #[inline(never)]
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "reads of one segment, all covered by one promise"
    )]
    pub(super) unsafe fn tile<const R: usize, const B: usize>(
        segs: &[Seg],
        sources: &[SourceAt],
        voxels: &[usize; R],
        weights: [*const f32; B],
        out: &mut Tile,
    ) {
        let mut acc: [[__m512; B]; R] = [[_mm512_setzero_ps(); B]; R];
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
                let mut w = weights;
                for w in &mut w {
                    *w = w.add(seg.row * LANES);
                }
                for i in 0..seg.len {
                    let mut b = [_mm512_setzero_ps(); B];
                    for (w, b) in w.iter_mut().zip(&mut b) {
                        *b = _mm512_loadu_ps(*w);
                        *w = w.add(LANES);
                    }
                    for r in 0..R {
                        let a = _mm512_set1_ps(*x[r].add(i));
                        for v in 0..B {
                            acc[r][v] = _mm512_fmadd_ps(a, b[v], acc[r][v]);
                        }
                    }
                }
            }
        }
        store(&acc, out);
    }

    /// See [`super::wide_row`]; a function of its own, as above. Of three voxels in a row each address is one pointer and a multiple of one step.
    #[target_feature(enable = "avx512f,avx2,fma")]
    #[inline(never)]
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "reads of one segment, all covered by one promise"
    )]
    pub(super) unsafe fn row<const Q: usize, const B: usize>(
        segs: &[Seg],
        sources: &[SourceAt],
        (first, step): (usize, usize),
        weights: [*const f32; B],
        out: &mut Tile,
    ) {
        let mut acc: [[[__m512; B]; 3]; Q] = [[[_mm512_setzero_ps(); B]; 3]; Q];
        for seg in segs {
            let source = sources[seg.source];
            let apart = step * source.channels;
            // SAFETY: the caller's promise: all offsets of this segment lie in its source and its weights.
            unsafe {
                let start = source.start.wrapping_add(seg.at + first * source.channels);
                let mut x: [*const f32; Q] = [start; Q];
                for (q, x) in x.iter_mut().enumerate() {
                    *x = start.wrapping_add(3 * q * apart);
                }
                let mut w = weights;
                for w in &mut w {
                    *w = w.add(seg.row * LANES);
                }
                for _ in 0..seg.len {
                    let mut b = [_mm512_setzero_ps(); B];
                    for (w, b) in w.iter_mut().zip(&mut b) {
                        *b = _mm512_loadu_ps(*w);
                        *w = w.add(LANES);
                    }
                    for (x, acc) in x.iter_mut().zip(&mut acc) {
                        for (t, acc) in acc.iter_mut().enumerate() {
                            let a = _mm512_set1_ps(*x.add(t * apart));
                            for (acc, b) in acc.iter_mut().zip(&b) {
                                *acc = _mm512_fmadd_ps(a, *b, *acc);
                            }
                        }
                        *x = x.wrapping_add(1);
                        // Says nothing and does nothing: the compiler would else keep a pointer for every voxel, more
                        // than there are registers.
                        asm!(
                            "/* {0} */",
                            inout(reg) * x,
                            options(readonly, nostack, preserves_flags)
                        );
                    }
                }
            }
        }
        store(acc.as_flattened(), out);
    }

    /// Sums into the tile.
    #[target_feature(enable = "avx512f,avx2,fma")]
    #[inline]
    fn store<const B: usize>(acc: &[[__m512; B]], out: &mut Tile) {
        for (row, sums) in out.iter_mut().zip(acc) {
            for (into, sum) in row.chunks_exact_mut(LANES).zip(sums) {
                // SAFETY: `into` holds 16 values.
                unsafe { _mm512_storeu_ps(into.as_mut_ptr(), *sum) };
            }
        }
    }
}
