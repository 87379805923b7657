//! Values known before any run: decoding of stored tensors.

use super::proto::Tensor;
use super::wire::{Field, packed_ints};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Component, Path};
use std::sync::Arc;

/// Most values of one stored tensor.
const MOST_VALUES: usize = 1 << 31;

/// A tensor whose values are known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Constant {
    pub(super) shape: Vec<usize>,
    pub(super) data: Data,
}

/// Its values; integers and truth values of any width are `Ints`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Data {
    Floats(Arc<[f32]>),
    Ints(Arc<[i64]>),
}

impl Constant {
    /// A list of integers.
    pub(super) fn ints(values: Vec<i64>) -> Self {
        Self {
            shape: vec![values.len()],
            data: Data::Ints(values.into()),
        }
    }

    /// Its values as integers, `None` for floats.
    pub(super) fn as_ints(&self) -> Option<&[i64]> {
        match &self.data {
            Data::Ints(v) => Some(v),
            Data::Floats(_) => None,
        }
    }

    /// Its values as floats, `None` for integers.
    pub(super) const fn as_floats(&self) -> Option<&Arc<[f32]>> {
        match &self.data {
            Data::Floats(v) => Some(v),
            Data::Ints(_) => None,
        }
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        match &self.data {
            Data::Floats(v) => v.len(),
            Data::Ints(v) => v.len(),
        }
    }

    /// Its first value as a float, 0 when it holds none.
    pub(super) fn first(&self) -> f32 {
        match &self.data {
            Data::Floats(v) => v.first().copied().unwrap_or(0.0),
            Data::Ints(v) => v.first().map_or(0.0, |v| *v as f32),
        }
    }

    /// Decodes a stored tensor; external data only from `folder`.
    pub(super) fn decode(t: &Tensor<'_>, folder: &Path) -> Result<Self, String> {
        let shape = t
            .dims
            .iter()
            .map(|d| {
                usize::try_from(*d)
                    .map_err(|e| format!("tensor \"{}\" has the dimension {d} ({e})", t.name))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let n = shape
            .iter()
            .try_fold(1usize, |n, d| n.checked_mul(*d))
            .filter(|n| *n <= MOST_VALUES)
            .ok_or_else(|| {
                format!(
                    "tensor \"{}\" of shape {shape:?} has more than 2^31 values",
                    t.name
                )
            })?;
        let owned;
        let raw = if t.is_external {
            owned = external(t, folder)?;
            Some(owned.as_slice())
        } else {
            t.raw
        };
        let data = match raw {
            Some(raw) => from_raw(t.data_type, raw),
            None => from_typed(t, n),
        }?;
        let out = Self { shape, data };
        if out.len() != n {
            return Err(format!(
                "tensor \"{}\" of shape {:?} needs {n} values, found {}",
                t.name,
                out.shape,
                out.len()
            ));
        }
        Ok(out)
    }
}

fn from_raw(data_type: i64, raw: &[u8]) -> Result<Data, String> {
    macro_rules! ints {
        ($t:ty, $n:literal) => {
            Data::Ints(
                raw.as_chunks::<$n>()
                    .0
                    .iter()
                    .map(|b| i64::from(<$t>::from_le_bytes(*b)))
                    .collect(),
            )
        };
    }
    Ok(match data_type {
        1 => Data::Floats(
            raw.as_chunks::<4>()
                .0
                .iter()
                .map(|b| f32::from_le_bytes(*b))
                .collect(),
        ),
        10 => Data::Floats(
            raw.as_chunks::<2>()
                .0
                .iter()
                .map(|b| half::f16::from_le_bytes(*b).to_f32())
                .collect(),
        ),
        16 => Data::Floats(
            raw.as_chunks::<2>()
                .0
                .iter()
                .map(|b| half::bf16::from_le_bytes(*b).to_f32())
                .collect(),
        ),
        11 => Data::Floats(
            raw.as_chunks::<8>()
                .0
                .iter()
                .map(|b| narrow(f64::from_le_bytes(*b)))
                .collect(),
        ),
        2 | 9 => ints!(u8, 1),
        3 => ints!(i8, 1),
        4 => ints!(u16, 2),
        5 => ints!(i16, 2),
        6 => ints!(i32, 4),
        12 => ints!(u32, 4),
        7 | 13 => ints!(i64, 8),
        other => {
            return Err(format!(
                "a tensor has the data type {other}, which is not a number type that networks use"
            ));
        }
    })
}

/// Values kept in a list of their own type; 16-bit floats lie in `int32_data` as bit patterns.
fn from_typed(t: &Tensor<'_>, n: usize) -> Result<Data, String> {
    let floats = matches!(t.data_type, 1 | 10 | 11 | 16);
    let (mut f, mut i) = (Vec::new(), Vec::new());
    for (number, field) in &t.typed {
        match (number, field) {
            (4, Field::Fixed32(b)) => f.push(f32::from_le_bytes(*b)),
            (4, Field::Bytes(b)) => {
                f.extend(b.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)));
            }
            (10, Field::Fixed64(b)) => f.push(narrow(f64::from_le_bytes(*b))),
            (10, Field::Bytes(b)) => f.extend(
                b.as_chunks::<8>()
                    .0
                    .iter()
                    .map(|b| narrow(f64::from_le_bytes(*b))),
            ),
            (_, Field::Varint(v)) => i.push(v.cast_signed()),
            (_, Field::Bytes(b)) => i.extend(packed_ints(b, n.saturating_sub(i.len()))?),
            _ => {}
        }
    }
    if floats && f.is_empty() && !i.is_empty() {
        let bits = |v: &i64| u16::try_from(*v & 0xffff).unwrap_or(0);
        f = match t.data_type {
            10 => i
                .iter()
                .map(|v| half::f16::from_bits(bits(v)).to_f32())
                .collect(),
            16 => i
                .iter()
                .map(|v| half::bf16::from_bits(bits(v)).to_f32())
                .collect(),
            _ => f,
        };
    }
    Ok(if floats {
        Data::Floats(f.into())
    } else {
        Data::Ints(i.into())
    })
}

/// External data: a plain file name in the model's own folder, the bytes that are really there.
fn external(t: &Tensor<'_>, folder: &Path) -> Result<Vec<u8>, String> {
    let get = |key: &str| t.external.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
    let refuse = |why: String| {
        format!(
            "tensor \"{}\" keeps its values in another file: {why}",
            t.name
        )
    };
    let location = get("location").ok_or_else(|| refuse("its name is missing".to_owned()))?;
    let inside = Path::new(location)
        .components()
        .all(|c| matches!(c, Component::Normal(_)));
    if location.is_empty() || !inside {
        return Err(refuse(format!(
            "\"{location}\" is not inside the model's folder"
        )));
    }
    let number = |key: &str| -> Result<Option<u64>, String> {
        get(key)
            .map(|v| {
                v.parse()
                    .map_err(|e| refuse(format!("{key} is \"{v}\" ({e})")))
            })
            .transpose()
    };
    let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
    let folder = folder.canonicalize().map_err(|e| refuse(e.to_string()))?;
    let path = folder
        .join(location)
        .canonicalize()
        .map_err(|e| refuse(format!("{location}: {e}")))?;
    if !path.starts_with(&folder) {
        return Err(refuse(format!(
            "\"{location}\" leads out of the model's folder"
        )));
    }
    if !path.is_file() {
        return Err(refuse(format!("{location} is no file")));
    }
    let mut file = std::fs::File::open(&path).map_err(|e| refuse(format!("{location}: {e}")))?;
    let size = file.metadata().map_err(|e| refuse(e.to_string()))?.len();
    let length = length.unwrap_or_else(|| size.saturating_sub(offset));
    if offset.checked_add(length).is_none_or(|end| end > size) || length > 1 << 34 {
        return Err(refuse(format!(
            "{location} has {size} bytes, {length} from {offset} were expected"
        )));
    }
    file.seek(SeekFrom::Start(offset))
        .map_err(|e| refuse(e.to_string()))?;
    let mut bytes = Vec::new();
    file.take(length)
        .read_to_end(&mut bytes)
        .map_err(|e| refuse(e.to_string()))?;
    Ok(bytes)
}

/// To the nearest f32.
pub(super) fn narrow(v: f64) -> f32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to f32 is what is meant"
    )]
    let v = v as f32;
    v
}
