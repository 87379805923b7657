//! The few names from Python modules that stand for data, and the data they stand for. Every other name is refused by name.

use super::heap::{Heap, Value};
use super::tensor::{Array, Dtype, Storage, Strided, count};

/// Axes of one tensor.
const MOST_AXES: usize = 16;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    /// A dictionary from pairs, or an empty one.
    Dict,
    /// A list from a list.
    List,
    Tensor,
    /// The first argument as it is.
    First,
    /// A tensor through the function and the arguments inside.
    Nested,
    /// A text made of the arguments.
    Text,
    Encode,
    NumpyScalar,
    NumpyArray,
    NumpyDtype,
    /// A type or a constant that is only named, never made.
    Word,
}

fn name(module: &str, name: &str) -> Option<Name> {
    Some(match (module, name) {
        ("collections", "OrderedDict" | "defaultdict" | "Counter")
        | ("builtins" | "__builtin__", "dict") => Name::Dict,
        ("builtins" | "__builtin__", "list" | "tuple" | "set" | "frozenset")
        | ("torch", "Size") => Name::List,
        ("builtins" | "__builtin__", "int" | "float" | "bool" | "str" | "bytes" | "slice") => {
            Name::Word
        }
        ("torch._utils", "_rebuild_tensor_v2" | "_rebuild_tensor") => Name::Tensor,
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => Name::First,
        ("torch._tensor", "_rebuild_from_type_v2") => Name::Nested,
        ("torch", "device")
        | (
            "pathlib" | "pathlib._local",
            "PosixPath" | "WindowsPath" | "Path" | "PurePosixPath" | "PureWindowsPath" | "PurePath",
        ) => Name::Text,
        ("_codecs", "encode") | ("builtins" | "__builtin__", "bytearray") => Name::Encode,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Name::NumpyScalar,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => Name::NumpyArray,
        ("numpy", "dtype") => Name::NumpyDtype,
        ("numpy", "ndarray" | "float64" | "float32" | "int64" | "bool_")
        | ("torch.nn.parameter" | "torch.nn", "Parameter")
        | ("torch.storage", "UntypedStorage" | "TypedStorage")
        | (
            "torch",
            "Tensor" | "float32" | "float64" | "float16" | "bfloat16" | "int64" | "int32" | "int16"
            | "int8" | "uint8" | "bool" | "float" | "double" | "half" | "long" | "int" | "strided"
            | "contiguous_format" | "preserve_format",
        ) => Name::Word,
        ("torch", class) if Dtype::of_storage(class).is_some() => Name::Word,
        _ => return None,
    })
}

/// Refuses a name that stands for no data.
pub(super) fn known(module: &str, word: &str) -> Result<(), String> {
    if name(module, word).is_some() {
        return Ok(());
    }
    let module: String = module.chars().take(100).collect();
    let word: String = word.chars().take(100).collect();
    let hint = if module.contains(".nets")
        || module.starts_with("__main__")
        || module.contains("models")
    {
        ": it looks like a whole module; save its values with torch.save(net.state_dict(), ...)"
    } else {
        ""
    };
    Err(format!(
        "it asks for {module}.{word}, which is not data; nothing in a file is ever executed{hint}"
    ))
}

fn args(heap: &Heap, v: Value) -> Result<&[Value], String> {
    heap.seq(v)
        .ok_or_else(|| format!("arguments must be a tuple, found {}", heap.kind(v)))
}

/// What a known name makes of its arguments.
pub(super) fn make(heap: &mut Heap, function: Value, arguments: Value) -> Result<Value, String> {
    make_at(heap, function, arguments, 0)
}

fn make_at(
    heap: &mut Heap,
    function: Value,
    arguments: Value,
    depth: usize,
) -> Result<Value, String> {
    let Value::Global(at) = function else {
        return Err(format!("it calls {}, expected a name", heap.kind(function)));
    };
    let (module, word) = heap.globals.get(at).cloned().unwrap_or_default();
    let given = args(heap, arguments)?.to_vec();
    // A pickle may hand the same long tuple to a thousand names: each reading counts.
    heap.room(given.len())?;
    let first = given.first().copied();
    let refuse = || {
        Err(format!(
            "{module}.{word} cannot be made of the arguments it is given"
        ))
    };
    match name(&module, &word) {
        Some(Name::Dict) => {
            // OrderedDict takes pairs; a defaultdict's argument is its factory, which is not called.
            let pairs = first.and_then(|f| heap.seq(f)).unwrap_or(&[]).to_vec();
            heap.room(pairs.len())?;
            let pairs = pairs
                .iter()
                .filter_map(|p| match heap.seq(*p) {
                    Some([k, v]) => Some((*k, *v)),
                    _ => None,
                })
                .collect();
            heap.new_dict(pairs)
        }
        Some(Name::List) => match first {
            None => heap.new_seq(Vec::new()),
            Some(v @ Value::Seq(_)) => Ok(v),
            Some(_) => refuse(),
        },
        Some(Name::Tensor) => tensor(heap, &given),
        Some(Name::First) => first.map_or_else(refuse, Ok),
        Some(Name::Nested) => match given.as_slice() {
            [function, _class, inner, ..] if depth < 4 => {
                make_at(heap, *function, *inner, depth + 1)
            }
            _ => refuse(),
        },
        Some(Name::Text) => {
            let parts: Vec<String> = given
                .iter()
                .map(|v| match v {
                    Value::Int(i) => i.to_string(),
                    v => heap.str(*v).unwrap_or_default().to_owned(),
                })
                .collect();
            let text = parts.join("/");
            heap.work(text.len())?;
            heap.new_str(text)
        }
        Some(Name::Encode) => match first.and_then(|f| heap.str(f)) {
            Some(text) => {
                let bytes = latin1(text).ok_or("a text in it is not Latin-1 bytes")?;
                heap.work(bytes.len())?;
                heap.new_bytes(bytes)
            }
            None if given.is_empty() => heap.new_bytes(Vec::new()),
            None => match first {
                Some(v @ Value::Bytes(_)) => Ok(v),
                _ => refuse(),
            },
        },
        Some(Name::NumpyScalar) => match given.as_slice() {
            [Value::Dtype(dtype), Value::Bytes(at)] => scalar(heap, *dtype, *at),
            // Types that are not numbers are kept out of sight: nothing here reads them.
            [Value::Dtype(_), _] => Ok(Value::None),
            _ => refuse(),
        },
        Some(Name::NumpyArray) => {
            heap.room(1)?;
            heap.arrays.push(Array {
                shape: vec![0],
                dtype: Dtype::Other,
                fortran: false,
                bytes: None,
            });
            Ok(Value::Array(heap.arrays.len() - 1))
        }
        Some(Name::NumpyDtype) => match first.and_then(|f| heap.str(f)) {
            Some(code) => Ok(Value::Dtype(Dtype::of_numpy(code))),
            None => refuse(),
        },
        Some(Name::Word) | None => refuse(),
    }
}

fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).ok())
        .collect()
}

fn scalar(heap: &Heap, dtype: Dtype, at: usize) -> Result<Value, String> {
    let bytes = heap.bytes.get(at).map(Vec::as_slice).unwrap_or_default();
    let wrong = || {
        format!(
            "a number of {} bytes was expected, found {}",
            dtype.bytes(),
            bytes.len()
        )
    };
    match dtype {
        Dtype::Other => Ok(Value::None),
        Dtype::F64 => bytes
            .try_into()
            .map(|b| Value::Float(f64::from_le_bytes(b)))
            .map_err(|_wrong_size| wrong()),
        Dtype::I64 => bytes
            .try_into()
            .map(|b| Value::Int(i64::from_le_bytes(b)))
            .map_err(|_wrong_size| wrong()),
        _ => super::tensor::floats(dtype, bytes)
            .filter(|v| v.len() == 1 && bytes.len() == dtype.bytes())
            .and_then(|v| v.first().copied())
            .map(|v| Value::Float(v.into()))
            .ok_or_else(wrong),
    }
}

fn sizes(heap: &Heap, v: Value, what: &str) -> Result<Vec<usize>, String> {
    let list = args(heap, v)?;
    if list.len() > MOST_AXES {
        return Err(format!(
            "a tensor has {} axes, at most {MOST_AXES} are read",
            list.len()
        ));
    }
    list.iter()
        .map(|v| match v {
            Value::Int(n) => {
                usize::try_from(*n).map_err(|_negative| format!("a tensor has a {what} of {n}"))
            }
            other => Err(format!("a tensor has {} for a {what}", heap.kind(*other))),
        })
        .collect()
}

/// `_rebuild_tensor_v2(storage, offset, size, stride, ...)`.
fn tensor(heap: &mut Heap, given: &[Value]) -> Result<Value, String> {
    let [
        Value::Storage(storage),
        Value::Int(offset),
        size,
        stride,
        ..,
    ] = given
    else {
        return Err("a tensor is not made of storage, offset, size and stride".to_owned());
    };
    let made = Strided {
        storage: *storage,
        offset: usize::try_from(*offset)
            .map_err(|_negative| format!("a tensor begins at {offset} of its storage"))?,
        shape: sizes(heap, *size, "size")?,
        stride: sizes(heap, *stride, "stride")?,
    };
    let held = heap.storages.get(*storage).map_or(0, |s| s.len);
    if made.shape.len() != made.stride.len() {
        return Err(format!(
            "a tensor has {} sizes and {} strides",
            made.shape.len(),
            made.stride.len()
        ));
    }
    match made.end() {
        Some(end) if end <= held => {}
        _ => {
            return Err(format!(
                "a tensor of shape {:?} and strides {:?} from {} on reaches past its storage of {held} values",
                made.shape, made.stride, made.offset
            ));
        }
    }
    if let Some(n) = count(&made.shape).filter(|n| *n > held) {
        heap.repeat(n)?;
    }
    heap.room(1)?;
    heap.tensors.push(made);
    Ok(Value::Tensor(heap.tensors.len() - 1))
}

/// The storage behind a persistent id `("storage", class, key, device, length, ...)`.
pub(super) fn storage(heap: &mut Heap, id: Value) -> Result<Value, String> {
    let [
        kind,
        Value::Global(class),
        key,
        _device,
        Value::Int(len),
        rest @ ..,
    ] = args(heap, id)?
    else {
        return Err(
            "it refers to something outside itself that is not a tensor's storage".to_owned(),
        );
    };
    // The older stream says here which part of a storage a view is.
    let part = rest.first().is_some_and(|v| *v != Value::None);
    let (module, class) = heap.globals.get(*class).cloned().unwrap_or_default();
    if heap.str(*kind) != Some("storage") {
        return Err("it refers to something outside itself that is not a storage".to_owned());
    }
    if part {
        return Err("a storage in it is a part of another one, as PyTorch before 0.4 saved them; load and save it with a PyTorch of today".to_owned());
    }
    let dtype = Dtype::of_storage(&class).ok_or_else(|| {
        format!("a storage is {module}.{class}, expected one of floats, integers or truth values such as torch.FloatStorage")
    })?;
    let made = Storage {
        key: heap
            .str(*key)
            .ok_or("a storage has no name")?
            .chars()
            .take(256)
            .collect(),
        dtype,
        len: usize::try_from(*len).map_err(|_negative| format!("a storage holds {len} values"))?,
    };
    heap.room(1)?;
    heap.storages.push(made);
    Ok(Value::Storage(heap.storages.len() - 1))
}

/// What BUILD makes of an object and its state.
pub(super) fn fill(heap: &mut Heap, object: Value, state: Value) -> Result<Value, String> {
    match object {
        // Attributes of dictionaries (`_metadata`) and of tensors carry no values of theirs.
        Value::Dict(_) | Value::Tensor(_) => Ok(object),
        Value::Dtype(dtype) => {
            let big = args(heap, state)?
                .get(1)
                .and_then(|v| heap.str(*v))
                .is_some_and(|order| order == ">");
            Ok(Value::Dtype(if big { Dtype::Other } else { dtype }))
        }
        Value::Array(at) => {
            let filled = array(heap, state)?;
            if let Some(slot) = heap.arrays.get_mut(at) {
                *slot = filled;
            }
            Ok(object)
        }
        other => Err(format!(
            "it gives a state to {}, which has none",
            heap.kind(other)
        )),
    }
}

fn array(heap: &Heap, state: Value) -> Result<Array, String> {
    let [
        _version,
        shape,
        Value::Dtype(dtype),
        Value::Bool(fortran),
        data,
    ] = args(heap, state)?
    else {
        return Err("an array is not made of shape, type, order and bytes".to_owned());
    };
    let shape = sizes(heap, *shape, "size")?;
    // Arrays of objects hold a list; nothing here reads them.
    let bytes = match data {
        Value::Bytes(at) => Some(*at),
        _ => None,
    };
    let held = bytes.and_then(|at| heap.bytes.get(at)).map_or(0, Vec::len);
    let expected = count(&shape).and_then(|n| n.checked_mul(dtype.bytes()));
    if *dtype != Dtype::Other && expected != Some(held) {
        return Err(format!("an array of shape {shape:?} has {held} bytes"));
    }
    Ok(Array {
        shape,
        dtype: *dtype,
        fortran: *fortran,
        bytes,
    })
}
