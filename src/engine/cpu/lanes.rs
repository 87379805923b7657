//! Loops over channels that a compiler does not turn into wide instructions by itself: sums in f64 and the larger of two.
//! Each value is the same chain of operations on every path.
#![expect(
    unsafe_code,
    reason = "loops of wide instructions, called where the machine has them"
)]

use super::isa::Isa;

/// Adds the N channels from `channel` on of each voxel, and their squares, to the first pairs, voxel by voxel.
fn sum_few<const N: usize>(voxels: &[f32], channels: usize, channel: usize, pairs: &mut [f64]) {
    for voxel in voxels.chunks_exact(channels) {
        let values = voxel[channel..].iter().take(N);
        for (pair, x) in pairs.as_chunks_mut::<2>().0.iter_mut().zip(values) {
            let x = f64::from(*x);
            pair[0] += x;
            pair[1] += x * x;
        }
    }
}

/// Adds every channel of each voxel, and its square, to the pairs, voxel by voxel.
pub(super) fn sum(isa: Isa, voxels: &[f32], pairs: &mut [f64]) {
    let channels = pairs.len() / 2;
    let mut channel = 0;
    while channel < channels {
        let rest = &mut pairs[2 * channel..];
        channel += match (isa, channels - channel) {
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx2 | Isa::Avx512, 8..) => {
                // SAFETY: it comes from `Isa::here` alone, which saw the features.
                unsafe { x86::sum_eight(voxels, channels, channel, rest) };
                8
            }
            (_, 8..) => {
                sum_few::<8>(voxels, channels, channel, rest);
                8
            }
            (_, left) => {
                sum_few::<8>(voxels, channels, channel, rest);
                left
            }
        };
    }
}

/// The larger of two; NaN wins, and +0 is larger than -0.
pub(super) fn larger(m: f32, x: f32) -> f32 {
    if x > m || x.is_nan() || (x == m && m.is_sign_negative()) {
        if m.is_nan() { m } else { x }
    } else {
        m
    }
}

/// The larger of each pair, into the block.
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(unused_variables, reason = "one instruction set only")
)]
pub(super) fn larger_of(isa: Isa, block: &mut [f32], values: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    if isa != Isa::Portable {
        // SAFETY: it comes from `Isa::here` alone, which saw the features.
        unsafe { x86::larger_of(block, values) };
        return;
    }
    for (m, x) in block.iter_mut().zip(values) {
        *m = larger(*m, *x);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _CMP_EQ_OQ, _CMP_UNORD_Q, _mm_loadu_ps, _mm256_add_pd, _mm256_and_ps, _mm256_blendv_ps,
        _mm256_cmp_ps, _mm256_cvtps_pd, _mm256_loadu_ps, _mm256_max_ps, _mm256_mul_pd,
        _mm256_setzero_pd, _mm256_storeu_pd, _mm256_storeu_ps,
    };

    /// See [`super::sum`]: eight channels, sums and squares in registers.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn sum_eight(voxels: &[f32], channels: usize, channel: usize, pairs: &mut [f64]) {
        let mut sums = [_mm256_setzero_pd(); 2];
        let mut squares = [_mm256_setzero_pd(); 2];
        let mut buffer = [[0.0_f64; 8]; 2];
        for (l, pair) in pairs.as_chunks::<2>().0.iter().take(8).enumerate() {
            [buffer[0][l], buffer[1][l]] = *pair;
        }
        for half in 0..2 {
            // SAFETY: 4 values from 4 * half on lie in each row of the buffer.
            sums[half] =
                unsafe { std::arch::x86_64::_mm256_loadu_pd(buffer[0][4 * half..].as_ptr()) };
            // SAFETY: as above.
            squares[half] =
                unsafe { std::arch::x86_64::_mm256_loadu_pd(buffer[1][4 * half..].as_ptr()) };
        }
        for voxel in voxels.chunks_exact(channels) {
            let Some(eight) = voxel[channel..].first_chunk::<8>() else {
                continue;
            };
            for half in 0..2 {
                // SAFETY: 4 values from 4 * half on lie in the eight.
                let x = unsafe { _mm_loadu_ps(eight[4 * half..].as_ptr()) };
                let x = _mm256_cvtps_pd(x);
                sums[half] = _mm256_add_pd(sums[half], x);
                squares[half] = _mm256_add_pd(squares[half], _mm256_mul_pd(x, x));
            }
        }
        for half in 0..2 {
            // SAFETY: 4 values from 4 * half on lie in each row of the buffer.
            unsafe { _mm256_storeu_pd(buffer[0][4 * half..].as_mut_ptr(), sums[half]) };
            // SAFETY: as above.
            unsafe { _mm256_storeu_pd(buffer[1][4 * half..].as_mut_ptr(), squares[half]) };
        }
        let eight = pairs.as_chunks_mut::<2>().0.iter_mut().take(8);
        for (l, pair) in eight.enumerate() {
            *pair = [buffer[0][l], buffer[1][l]];
        }
    }

    /// See [`super::larger_of`].
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn larger_of(block: &mut [f32], values: &[f32]) {
        let (chunks, rest) = block.as_chunks_mut::<8>();
        let (of, rest_of) = values.as_chunks::<8>();
        for (chunk, of) in chunks.iter_mut().zip(of) {
            // SAFETY: both hold 8 values.
            let m = unsafe { _mm256_loadu_ps(chunk.as_ptr()) };
            // SAFETY: as above.
            let x = unsafe { _mm256_loadu_ps(of.as_ptr()) };
            // Of equal ones, which are zeros of either sign, +0 where either is; where one is no number, x; m where m is.
            let most = _mm256_max_ps(m, x);
            let most =
                _mm256_blendv_ps(most, _mm256_and_ps(m, x), _mm256_cmp_ps::<_CMP_EQ_OQ>(m, x));
            let most = _mm256_blendv_ps(most, m, _mm256_cmp_ps::<_CMP_UNORD_Q>(m, m));
            // SAFETY: as above.
            unsafe { _mm256_storeu_ps(chunk.as_mut_ptr(), most) };
        }
        for (m, x) in rest.iter_mut().zip(rest_of) {
            *m = super::larger(*m, *x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random_cases::random_cases;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = f32> {
        let odd = [
            0.0,
            -0.0,
            f32::NAN,
            -f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
        ];
        prop_oneof![
            prop::sample::select(odd.to_vec()),
            -2.0f32..2.0,
            any::<f32>()
        ]
    }

    proptest! {
        #![proptest_config(random_cases(200))]
        #[test]
        fn each_instruction_set_sums_and_compares_to_the_same_bits(
            channels in 1_usize..37,
            values in prop::collection::vec(value(), 37 * 5),
        ) {
            let voxels = &values[..channels * 5];
            for isa in Isa::here() {
                let sums = [Isa::Portable, isa].map(|isa| {
                    let mut pairs = vec![0.25; 2 * channels];
                    sum(isa, voxels, &mut pairs);
                    pairs.iter().map(|p| if p.is_nan() { 0 } else { p.to_bits() }).collect::<Vec<_>>()
                });
                prop_assert_eq!(&sums[0], &sums[1]);
                let most = [Isa::Portable, isa].map(|isa| {
                    let mut block = voxels[..channels].to_vec();
                    for voxel in voxels.chunks_exact(channels) {
                        larger_of(isa, &mut block, voxel);
                    }
                    block.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
                });
                prop_assert_eq!(&most[0], &most[1]);
            }
        }
    }
}
