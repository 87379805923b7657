//! Tensors of a checkpoint: number types, storages, strides, and their values as f32.

/// A type of number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dtype {
    F64,
    F32,
    F16,
    Bf16,
    I64,
    I32,
    I16,
    I8,
    U8,
    Bool,
    /// One that is not read: `complex`, `object`, 8-bit floats.
    Other,
}

impl Dtype {
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 => 2,
            Self::I8 | Self::U8 | Self::Bool | Self::Other => 1,
        }
    }

    /// By the name of PyTorch's storage class.
    pub(super) fn of_storage(class: &str) -> Option<Self> {
        Some(match class {
            "DoubleStorage" => Self::F64,
            "FloatStorage" => Self::F32,
            "HalfStorage" => Self::F16,
            "BFloat16Storage" => Self::Bf16,
            "LongStorage" => Self::I64,
            "IntStorage" => Self::I32,
            "ShortStorage" => Self::I16,
            "CharStorage" => Self::I8,
            "ByteStorage" => Self::U8,
            "BoolStorage" => Self::Bool,
            _ => return None,
        })
    }

    /// By numpy's short name, little-endian.
    pub(super) fn of_numpy(name: &str) -> Self {
        match name.trim_start_matches(['<', '|', '=']) {
            "f8" => Self::F64,
            "f4" => Self::F32,
            "f2" => Self::F16,
            "i8" => Self::I64,
            "i4" => Self::I32,
            "i2" => Self::I16,
            "i1" => Self::I8,
            "u1" => Self::U8,
            "b1" => Self::Bool,
            _ => Self::Other,
        }
    }
}

/// A block of numbers that tensors are views of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Storage {
    /// Its name in the file.
    pub(super) key: String,
    pub(super) dtype: Dtype,
    /// Numbers in it.
    pub(super) len: usize,
}

/// A tensor: a view of a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strided {
    pub(super) storage: usize,
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) stride: Vec<usize>,
}

/// A numpy array that lies in the pickle itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Array {
    pub(super) shape: Vec<usize>,
    pub(super) dtype: Dtype,
    /// First axis fastest.
    pub(super) fortran: bool,
    /// Place of its bytes in the heap.
    pub(super) bytes: Option<usize>,
}

impl Array {
    /// The view that reads it in C order.
    pub(super) fn view(&self) -> Strided {
        let mut stride = vec![1usize; self.shape.len()];
        let mut step = 1usize;
        let mut set = |(n, s): (&usize, &mut usize)| {
            *s = step;
            step = step.saturating_mul(*n);
        };
        if self.fortran {
            self.shape.iter().zip(&mut stride).for_each(&mut set);
        } else {
            self.shape.iter().zip(&mut stride).rev().for_each(&mut set);
        }
        Strided {
            storage: 0,
            offset: 0,
            shape: self.shape.clone(),
            stride,
        }
    }
}

/// How many numbers a shape holds, within reason.
pub(super) fn count(shape: &[usize]) -> Option<usize> {
    shape
        .iter()
        .try_fold(1usize, |n, d| n.checked_mul(*d))
        .filter(|n| *n <= 1 << 33)
}

impl Strided {
    /// One past the last number that it reads; 0 when it reads none.
    pub(super) fn end(&self) -> Option<usize> {
        if count(&self.shape)? == 0 {
            return Some(0);
        }
        let last = self
            .shape
            .iter()
            .zip(&self.stride)
            .try_fold(self.offset, |at, (n, s)| {
                at.checked_add(n.checked_sub(1)?.checked_mul(*s)?)
            })?;
        last.checked_add(1)
    }

    /// Whether its numbers lie one after the other in C order.
    pub(super) fn is_contiguous(&self) -> bool {
        let mut expected = 1usize;
        for (n, s) in self.shape.iter().zip(&self.stride).rev() {
            if *n != 1 && *s != expected {
                return false;
            }
            expected = expected.saturating_mul(*n);
        }
        true
    }

    /// Its values in C order from the bytes of its storage, of which `bytes` begin at the number `start`.
    pub(super) fn gather(&self, dtype: Dtype, bytes: &[u8], start: usize) -> Option<Vec<f32>> {
        let n = count(&self.shape)?;
        let width = dtype.bytes();
        let from = self.offset.checked_sub(start)?;
        if self.is_contiguous() {
            let range = from.checked_mul(width)?..from.checked_add(n)?.checked_mul(width)?;
            return floats(dtype, bytes.get(range)?);
        }
        let mut out = Vec::new();
        out.try_reserve_exact(n).ok()?;
        let mut index = vec![0usize; self.shape.len()];
        for _ in 0..n {
            let at = index
                .iter()
                .zip(&self.stride)
                .fold(from, |a, (i, s)| a + i * s);
            let value =
                bytes.get(at.checked_mul(width)?..at.checked_add(1)?.checked_mul(width)?)?;
            out.push(float(dtype, value)?);
            for (i, d) in index.iter_mut().zip(&self.shape).rev() {
                *i += 1;
                if *i < *d {
                    break;
                }
                *i = 0;
            }
        }
        Some(out)
    }
}

/// Numbers one after the other, as f32 (rounded where they are wider).
pub(super) fn floats(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f32>> {
    bytes
        .chunks_exact(dtype.bytes())
        .map(|b| float(dtype, b))
        .collect()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to f32 is what is meant"
)]
fn float(dtype: Dtype, b: &[u8]) -> Option<f32> {
    Some(match dtype {
        Dtype::F64 => f64::from_le_bytes(b.try_into().ok()?) as f32,
        Dtype::F32 => f32::from_le_bytes(b.try_into().ok()?),
        Dtype::F16 => half::f16::from_le_bytes(b.try_into().ok()?).to_f32(),
        Dtype::Bf16 => half::bf16::from_le_bytes(b.try_into().ok()?).to_f32(),
        Dtype::I64 => i64::from_le_bytes(b.try_into().ok()?) as f32,
        Dtype::I32 => i32::from_le_bytes(b.try_into().ok()?) as f32,
        Dtype::I16 => f32::from(i16::from_le_bytes(b.try_into().ok()?)),
        Dtype::I8 => f32::from(i8::from_le_bytes(b.try_into().ok()?)),
        Dtype::U8 | Dtype::Bool => f32::from(*b.first()?),
        Dtype::Other => return None,
    })
}
