//! What a pickle's bytes describe, as plain data: values that point into lists, so that nothing nests and nothing loops.

use super::tensor::{Array, Dtype, Storage, Strided};

/// Values that all lists, tuples and dictionaries of one pickle may hold together.
const MOST_VALUES: usize = 8_000_000;

/// Values that tensors may hold beyond those of their storages: a stride of 0 repeats one without end.
const MOST_REPEATED: usize = 1 << 26;

/// Place of a thing in one of the heap's lists.
pub(super) type At = usize;

/// One value. Those that hold others say where in the heap they lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// A whole number past 64 bits; nothing here needs its digits.
    Big,
    Float(f64),
    Str(At),
    Bytes(At),
    /// A list, a tuple or a set.
    Seq(At),
    Dict(At),
    /// A class or function by name; never called.
    Global(At),
    Storage(At),
    Tensor(At),
    Dtype(Dtype),
    Array(At),
}

/// Everything that values point to.
#[derive(Debug, Default)]
pub(super) struct Heap {
    pub(super) strings: Vec<String>,
    pub(super) bytes: Vec<Vec<u8>>,
    pub(super) seqs: Vec<Vec<Value>>,
    pub(super) dicts: Vec<Vec<(Value, Value)>>,
    pub(super) globals: Vec<(String, String)>,
    pub(super) storages: Vec<Storage>,
    pub(super) tensors: Vec<Strided>,
    pub(super) arrays: Vec<Array>,
    values: usize,
    repeated: usize,
}

impl Heap {
    /// Makes room for `n` more values, or says that there are too many.
    pub(super) fn room(&mut self, n: usize) -> Result<(), String> {
        self.values = self.values.saturating_add(n);
        if self.values > MOST_VALUES {
            return Err(format!("it holds more than {MOST_VALUES} values"));
        }
        Ok(())
    }

    /// Counts bytes that are copied, sixteen to a value.
    pub(super) fn work(&mut self, bytes: usize) -> Result<(), String> {
        self.room(bytes / 16)
    }

    /// Counts the values of a tensor that reads its storage more than once.
    pub(super) fn repeat(&mut self, values: usize) -> Result<(), String> {
        self.repeated = self.repeated.saturating_add(values);
        if self.repeated > MOST_REPEATED {
            return Err(format!(
                "its tensors repeat what their storages hold, to more than {MOST_REPEATED} values"
            ));
        }
        Ok(())
    }

    pub(super) fn new_str(&mut self, text: String) -> Result<Value, String> {
        self.room(1)?;
        self.strings.push(text);
        Ok(Value::Str(self.strings.len() - 1))
    }

    pub(super) fn new_bytes(&mut self, bytes: Vec<u8>) -> Result<Value, String> {
        self.room(1)?;
        self.bytes.push(bytes);
        Ok(Value::Bytes(self.bytes.len() - 1))
    }

    pub(super) fn new_seq(&mut self, items: Vec<Value>) -> Result<Value, String> {
        self.room(items.len() + 1)?;
        self.seqs.push(items);
        Ok(Value::Seq(self.seqs.len() - 1))
    }

    pub(super) fn new_dict(&mut self, items: Vec<(Value, Value)>) -> Result<Value, String> {
        self.room(2 * items.len() + 1)?;
        self.dicts.push(items);
        Ok(Value::Dict(self.dicts.len() - 1))
    }

    pub(super) fn str(&self, v: Value) -> Option<&str> {
        match v {
            Value::Str(at) => self.strings.get(at).map(String::as_str),
            _ => None,
        }
    }

    pub(super) fn seq(&self, v: Value) -> Option<&[Value]> {
        match v {
            Value::Seq(at) => self.seqs.get(at).map(Vec::as_slice),
            _ => None,
        }
    }

    pub(super) fn dict(&self, v: Value) -> Option<&[(Value, Value)]> {
        match v {
            Value::Dict(at) => self.dicts.get(at).map(Vec::as_slice),
            _ => None,
        }
    }

    /// The value under a text key; the last one wins, as in Python.
    pub(super) fn get(&self, dict: Value, key: &str) -> Option<Value> {
        self.dict(dict)?
            .iter()
            .rev()
            .find(|(k, _)| self.str(*k) == Some(key))
            .map(|(_, v)| *v)
    }

    /// The text keys of a dictionary, in its order.
    pub(super) fn keys(&self, dict: Value) -> impl Iterator<Item = (&str, Value)> {
        self.dict(dict)
            .unwrap_or(&[])
            .iter()
            .filter_map(|(k, v)| Some((self.str(*k)?, *v)))
    }

    /// What a value is, in a word, for messages.
    pub(super) fn kind(&self, v: Value) -> String {
        match v {
            Value::None => "None".to_owned(),
            Value::Bool(_) => "a truth value".to_owned(),
            Value::Int(_) | Value::Big => "a whole number".to_owned(),
            Value::Float(_) => "a number".to_owned(),
            Value::Str(_) => "a text".to_owned(),
            Value::Bytes(_) => "bytes".to_owned(),
            Value::Seq(_) => "a list".to_owned(),
            Value::Dict(_) => "a dictionary".to_owned(),
            Value::Global(at) => match self.globals.get(at) {
                Some((module, name)) => format!("the name {module}.{name}"),
                None => "a name".to_owned(),
            },
            Value::Storage(_) => "a storage".to_owned(),
            Value::Tensor(_) => "a tensor".to_owned(),
            Value::Dtype(_) => "a number type".to_owned(),
            Value::Array(_) => "an array".to_owned(),
        }
    }
}
