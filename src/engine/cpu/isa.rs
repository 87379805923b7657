//! Which instructions the kernels use: found at run time, the portable path gives the same bits.

/// An instruction set that the kernels are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Isa {
    /// Plain Rust with fused multiply-add; runs everywhere.
    Portable,
    /// AVX2 with FMA.
    Avx2,
    /// AVX-512 for convolutions, AVX2 and FMA for the rest.
    Avx512,
}

impl Isa {
    /// The widest that this machine has and that gave the portable path's bits when it was first asked for.
    pub(super) fn detect() -> Self {
        static FOUND: std::sync::OnceLock<Isa> = std::sync::OnceLock::new();
        *FOUND.get_or_init(|| {
            let mut all = Self::here().into_iter().rev();
            all.find(|isa| super::tile::same_bits(*isa))
                .unwrap_or(Self::Portable)
        })
    }

    /// Those that this machine has, the widest last.
    pub(super) fn here() -> Vec<Self> {
        let mut all = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            all.push(Self::Avx2);
            if std::arch::is_x86_feature_detected!("avx512f") {
                all.push(Self::Avx512);
            }
        }
        all
    }

    /// Its name in a word.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "AVX2 and FMA",
            Self::Avx512 => "AVX-512",
        }
    }
}

/// Makes a function from one body, compiled for each instruction set and chosen by its first argument.
macro_rules! for_each_isa {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        $vis fn $name(isa: $crate::engine::cpu::isa::Isa, $($arg: $ty),*) {
            #[inline(always)]
            fn body($($arg: $ty),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $ty),*) {
                    body($($arg),*);
                }
                if isa != $crate::engine::cpu::isa::Isa::Portable {
                    // SAFETY: others than the portable one come from `Isa::here` alone, which saw both features.
                    unsafe { avx2($($arg),*) };
                    return;
                }
            }
            let _portable = isa;
            body($($arg),*);
        }
    };
}
pub(super) use for_each_isa;
