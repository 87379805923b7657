//! The most fused multiply-adds that the processor's cores do in a second, measured: what kernels are held against.
#![expect(
    unsafe_code,
    reason = "loops of one instruction, compiled for an instruction set that is there"
)]

use super::isa::Isa;
use std::hint::black_box;
use std::time::Instant;

/// Rounds of the loop: about 10 ms.
const ROUNDS: usize = 1 << 19;

/// Floating point operations in a second of all threads of the pool, the best of some tries of about 10 ms.
pub(super) fn flops_per_second(pool: &rayon::ThreadPool, isa: Isa) -> f64 {
    let mut best = 0.0_f64;
    for _ in 0..20 {
        let each = pool.broadcast(|_| {
            let start = Instant::now();
            let done = round(isa);
            done / start.elapsed().as_secs_f64()
        });
        best = best.max(each.iter().sum());
    }
    best
}

/// Operations of one try.
fn round(isa: Isa) -> f64 {
    match isa {
        // SAFETY: it comes from `Isa::here` alone, which saw the features.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { x86::avx512() },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { x86::avx2() },
        _ => portable(),
    }
}

fn portable() -> f64 {
    let mut sums = [0.0_f32; 16];
    let (x, w) = (black_box(0.5_f32), black_box(0.25_f32));
    let rounds = ROUNDS / 64;
    for _ in 0..rounds {
        for s in &mut sums {
            *s = x.mul_add(w, *s);
        }
    }
    black_box(sums);
    (rounds * sums.len() * 2) as f64
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::ROUNDS;
    use std::arch::asm;
    use std::arch::x86_64::{_mm256_set1_ps, _mm512_set1_ps};

    /// Twelve chains, as many as cover the latency of two units.
    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512() -> f64 {
        let x = _mm512_set1_ps(0.5);
        let mut n = ROUNDS;
        // SAFETY: registers alone, all of them named.
        unsafe {
            asm!(
                "2:",
                "vfmadd231ps {a}, {x}, {x}", "vfmadd231ps {b}, {x}, {x}", "vfmadd231ps {c}, {x}, {x}",
                "vfmadd231ps {d}, {x}, {x}", "vfmadd231ps {e}, {x}, {x}", "vfmadd231ps {f}, {x}, {x}",
                "vfmadd231ps {g}, {x}, {x}", "vfmadd231ps {h}, {x}, {x}", "vfmadd231ps {i}, {x}, {x}",
                "vfmadd231ps {j}, {x}, {x}", "vfmadd231ps {k}, {x}, {x}", "vfmadd231ps {l}, {x}, {x}",
                "dec {n}",
                "jnz 2b",
                n = inout(reg) n, x = in(zmm_reg) x,
                a = inout(zmm_reg) x => _, b = inout(zmm_reg) x => _, c = inout(zmm_reg) x => _,
                d = inout(zmm_reg) x => _, e = inout(zmm_reg) x => _, f = inout(zmm_reg) x => _,
                g = inout(zmm_reg) x => _, h = inout(zmm_reg) x => _, i = inout(zmm_reg) x => _,
                j = inout(zmm_reg) x => _, k = inout(zmm_reg) x => _, l = inout(zmm_reg) x => _,
                options(nomem, nostack),
            );
        }
        std::hint::black_box(n);
        (ROUNDS * 12 * 16 * 2) as f64
    }

    /// As above with half the lanes.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2() -> f64 {
        let x = _mm256_set1_ps(0.5);
        let mut n = ROUNDS;
        // SAFETY: registers alone, all of them named.
        unsafe {
            asm!(
                "2:",
                "vfmadd231ps {a}, {x}, {x}", "vfmadd231ps {b}, {x}, {x}", "vfmadd231ps {c}, {x}, {x}",
                "vfmadd231ps {d}, {x}, {x}", "vfmadd231ps {e}, {x}, {x}", "vfmadd231ps {f}, {x}, {x}",
                "vfmadd231ps {g}, {x}, {x}", "vfmadd231ps {h}, {x}, {x}", "vfmadd231ps {i}, {x}, {x}",
                "vfmadd231ps {j}, {x}, {x}", "vfmadd231ps {k}, {x}, {x}", "vfmadd231ps {l}, {x}, {x}",
                "dec {n}",
                "jnz 2b",
                n = inout(reg) n, x = in(ymm_reg) x,
                a = inout(ymm_reg) x => _, b = inout(ymm_reg) x => _, c = inout(ymm_reg) x => _,
                d = inout(ymm_reg) x => _, e = inout(ymm_reg) x => _, f = inout(ymm_reg) x => _,
                g = inout(ymm_reg) x => _, h = inout(ymm_reg) x => _, i = inout(ymm_reg) x => _,
                j = inout(ymm_reg) x => _, k = inout(ymm_reg) x => _, l = inout(ymm_reg) x => _,
                options(nomem, nostack),
            );
        }
        std::hint::black_box(n);
        (ROUNDS * 12 * 8 * 2) as f64
    }
}
