//! PyTorch's `.pt` and `.pth` files as data: zip archives and the older single stream. A subset of pickle that makes tensors,
//! dictionaries, lists, texts and numbers is read; nothing in a file is ever executed.

mod heap;
mod machine;
mod names;
mod tensor;
#[cfg(test)]
mod tests;
mod zip;

use super::error::NetworkError;
use super::state::State;
use heap::{Heap, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use tensor::{Dtype, Strided};
use zip::Zip;

/// Longest pickle read, 64 MiB: it holds names and sizes, the values lie beside it.
const MOST_PICKLE: u64 = 64 << 20;
/// Longest storage held whole, 8 GiB.
const MOST_STORAGE: u64 = 8 << 30;
/// What the older format begins with: a pickled magic number.
const LEGACY: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

/// Where the values lie.
#[derive(Debug)]
enum Store {
    /// In a zip archive under this folder.
    Zip(Zip, String),
    /// One after the other in the file: name of a storage to its first byte and its bytes.
    Stream(File, BTreeMap<String, (u64, u64)>),
}

/// An opened checkpoint.
#[derive(Debug)]
pub(super) struct Checkpoint {
    heap: Heap,
    root: Value,
    store: Store,
    path: PathBuf,
}

impl Checkpoint {
    /// Opens a checkpoint and reads what it is made of, no values.
    pub(super) fn open(path: &Path) -> Result<Self, NetworkError> {
        open(path).map_err(|reason| NetworkError::Checkpoint {
            reason,
            path: path.to_path_buf(),
        })
    }

    /// The text under a path of keys.
    pub(super) fn text(&self, keys: &[&str]) -> Option<&str> {
        self.find(keys).and_then(|v| self.heap.str(v))
    }

    /// The whole numbers under a path of keys; none when there is nothing such.
    pub(super) fn numbers(&self, keys: &[&str]) -> Option<Vec<i64>> {
        self.heap
            .seq(self.find(keys)?)?
            .iter()
            .map(|v| match v {
                Value::Int(n) => Some(*n),
                _ => None,
            })
            .collect()
    }

    fn find(&self, keys: &[&str]) -> Option<Value> {
        keys.iter()
            .try_fold(self.root, |at, key| self.heap.get(at, key))
    }

    /// The dictionary of tensors in it: itself, or what one of the usual keys holds.
    pub(super) fn state(mut self) -> Result<StateDict, NetworkError> {
        match self.dictionary() {
            Ok(at) => {
                let mut tensors = BTreeMap::new();
                for (key, value) in self.heap.keys(at) {
                    if let Some(view) = self.view(value) {
                        tensors.insert(key.to_owned(), view);
                    }
                }
                self.root = at;
                Ok(StateDict {
                    tensors,
                    file: self,
                    held: None,
                })
            }
            Err(reason) => Err(NetworkError::Checkpoint {
                reason,
                path: self.path,
            }),
        }
    }

    fn view(&self, value: Value) -> Option<View> {
        match value {
            Value::Tensor(at) => self.heap.tensors.get(at).cloned().map(View::Tensor),
            Value::Array(at) => {
                let array = self.heap.arrays.get(at)?;
                let bytes = array.bytes?;
                (array.dtype != Dtype::Other).then(|| View::Array(array.view(), array.dtype, bytes))
            }
            _ => None,
        }
    }

    fn dictionary(&self) -> Result<Value, String> {
        const KEYS: [&str; 10] = [
            "network_weights",
            "state_dict",
            "model_state_dict",
            "model",
            "network",
            "net",
            "weights",
            "module",
            "model_state",
            "ema",
        ];
        let mut at = self.root;
        // The usual keys first: what lies beside them may hold an array or two.
        for _ in 0..3 {
            let next = KEYS
                .iter()
                .find_map(|k| self.heap.get(at, k).filter(|v| matches!(v, Value::Dict(_))));
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        if self.heap.keys(at).any(|(_, v)| self.view(v).is_some()) {
            return Ok(at);
        }
        let found: Vec<&str> = self.heap.keys(at).map(|(k, _)| k).take(8).collect();
        Err(if found.is_empty() {
            format!(
                "a dictionary of tensors was expected, found {}; save one with torch.save(net.state_dict(), ...)",
                self.heap.kind(self.root)
            )
        } else {
            format!(
                "a dictionary of tensors was expected, found one with the keys {}",
                found.join(", ")
            )
        })
    }

    fn bytes(&mut self, key: &str, start: u64, n: u64) -> Result<Vec<u8>, String> {
        match &mut self.store {
            Store::Zip(zip, root) => zip.read(&format!("{root}data/{key}"), start, n),
            Store::Stream(file, places) => {
                let (at, len) = *places
                    .get(key)
                    .ok_or_else(|| format!("its storage \"{key}\" is not in the file"))?;
                if start.checked_add(n).is_none_or(|end| end > len) {
                    return Err(format!("its storage \"{key}\" is cut short"));
                }
                let mut out = Vec::new();
                file.seek(SeekFrom::Start(at + start))
                    .and_then(|_place| file.take(n).read_to_end(&mut out))
                    .map_err(|e| e.to_string())?;
                Ok(out)
            }
        }
    }

    fn is_stored(&self, key: &str) -> bool {
        match &self.store {
            Store::Zip(zip, root) => zip.is_stored(&format!("{root}data/{key}")),
            Store::Stream(..) => true,
        }
    }
}

/// A tensor of the dictionary.
#[derive(Clone, Debug)]
enum View {
    Tensor(Strided),
    Array(Strided, Dtype, usize),
}

/// A dictionary of tensors, whose values are read when they are asked for.
#[derive(Debug)]
pub(super) struct StateDict {
    tensors: BTreeMap<String, View>,
    file: Checkpoint,
    /// The packed storage unpacked last, for tensors that share it.
    held: Option<(String, Vec<u8>)>,
}

impl State for StateDict {
    fn names(&self) -> Vec<&str> {
        self.tensors.keys().map(String::as_str).collect()
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|v| match v {
            View::Tensor(t) | View::Array(t, ..) => t.shape.as_slice(),
        })
    }

    fn values(&mut self, name: &str) -> Result<Vec<f32>, String> {
        let view = self.tensors.get(name).cloned().ok_or("it is not there")?;
        let short = || "its values do not fill it".to_owned();
        match view {
            View::Array(view, dtype, at) => {
                let bytes = self.file.heap.bytes.get(at).ok_or_else(short)?;
                view.gather(dtype, bytes, 0).ok_or_else(short)
            }
            View::Tensor(t) => self.tensor(&t),
        }
    }
}

impl StateDict {
    fn tensor(&mut self, t: &Strided) -> Result<Vec<f32>, String> {
        let storage = self.file.heap.storages.get(t.storage);
        let storage = storage.cloned().ok_or("its storage is not there")?;
        let width = storage.dtype.bytes() as u64;
        let end = t.end().ok_or("its sizes are past this machine's memory")?;
        let short = || "its values do not fill it".to_owned();
        if end == 0 {
            return Ok(Vec::new());
        }
        if self.file.is_stored(&storage.key) {
            let (from, n) = (t.offset as u64 * width, (end - t.offset) as u64 * width);
            let bytes = self.file.bytes(&storage.key, from, n)?;
            return t.gather(storage.dtype, &bytes, t.offset).ok_or_else(short);
        }
        if self.held.as_ref().is_none_or(|(k, _)| *k != storage.key) {
            let n = (storage.len as u64).saturating_mul(width);
            if n > MOST_STORAGE {
                return Err(format!("its storage unpacks to {n} bytes, more than 8 GiB"));
            }
            let bytes = self.file.bytes(&storage.key, 0, n)?;
            self.held = Some((storage.key.clone(), bytes));
        }
        let bytes = self.held.as_ref().map_or(&[][..], |(_, b)| b.as_slice());
        t.gather(storage.dtype, bytes, 0).ok_or_else(short)
    }
}

fn open(path: &Path) -> Result<Checkpoint, String> {
    let meta = std::fs::metadata(path).map_err(|e| e.to_string())?;
    if !meta.is_file() {
        return Err("a file was expected, found a folder, a device or a pipe".to_owned());
    }
    let mut file = File::open(path).map_err(|e| e.to_string())?;
    let mut head = Vec::new();
    (&mut file)
        .take(512)
        .read_to_end(&mut head)
        .map_err(|e| e.to_string())?;
    if head.starts_with(b"PK") {
        return open_zip(path);
    }
    if head.starts_with(LEGACY) {
        return open_stream(file, path, meta.len());
    }
    if head.get(257..262) == Some(b"ustar") {
        return Err(
            "it is a tar file of PyTorch before 0.1.10; load and save it with a PyTorch of today"
                .to_owned(),
        );
    }
    if head.starts_with(b"version https://git-lfs") {
        return Err(
            "it is a pointer of Git LFS, not the file itself; fetch it with git lfs pull"
                .to_owned(),
        );
    }
    Err(
        "it does not begin as a file of torch.save (neither a zip archive nor the older stream)"
            .to_owned(),
    )
}

fn open_zip(path: &Path) -> Result<Checkpoint, String> {
    let mut zip = Zip::open(path)?;
    let root = zip
        .names()
        .filter_map(|n| n.strip_suffix("data.pkl"))
        .filter(|r| r.is_empty() || r.ends_with('/'))
        .min_by_key(|r| r.len())
        .map(str::to_owned);
    let has = |zip: &Zip, part: &str| zip.names().any(|n| n.contains(part));
    let Some(root) = root else {
        return Err("it is a zip archive without data.pkl, so not a file of torch.save".to_owned());
    };
    if has(&zip, "constants.pkl") && has(&zip, "code/") {
        return Err("it is TorchScript, a program; export it instead, with torch.onnx.export(torch.jit.load(FILE).eval(), x, \"model.onnx\") at an input x of the window's size, or save its state_dict()".to_owned());
    }
    let order = format!("{root}byteorder");
    if zip.size(&order) == Some(3) {
        return Err("its numbers are big-endian; save it on a little-endian machine".to_owned());
    }
    let entry = format!("{root}data.pkl");
    let size = zip.size(&entry).unwrap_or(0);
    if size > MOST_PICKLE {
        return Err(format!(
            "its data.pkl has {size} bytes, at most {MOST_PICKLE} are read"
        ));
    }
    let bytes = zip.read(&entry, 0, size)?;
    let mut heap = Heap::default();
    let (value, _) = machine::read(&bytes, &mut heap)?;
    for s in &heap.storages {
        let held = zip.size(&format!("{root}data/{}", s.key));
        let wanted = (s.len as u64).saturating_mul(s.dtype.bytes() as u64);
        if held.is_none_or(|h| h < wanted) {
            return Err(format!(
                "its storage \"{}\" should have {wanted} bytes, found {}",
                s.key,
                held.map_or_else(|| "none".to_owned(), |h| h.to_string())
            ));
        }
    }
    Ok(Checkpoint {
        heap,
        root: value,
        store: Store::Zip(zip, root),
        path: path.to_path_buf(),
    })
}

/// Magic number, protocol, machine, the object, names of the storages, then each storage: a length and its values.
fn open_stream(mut file: File, path: &Path, len: u64) -> Result<Checkpoint, String> {
    // The pickles come first and are short; what follows are values.
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).map_err(|e| e.to_string())?;
    (&mut file)
        .take(MOST_PICKLE)
        .read_to_end(&mut bytes)
        .map_err(|e| e.to_string())?;
    let mut heap = Heap::default();
    let mut at = 0;
    let mut next = |heap: &mut Heap| {
        let rest = bytes.get(at..).unwrap_or_default();
        machine::read(rest, heap).map(|(value, n)| {
            at += n;
            value
        })
    };
    for _ in 0..3 {
        next(&mut heap)?;
    }
    let root = next(&mut heap)?;
    let keys = next(&mut heap)?;
    let keys: Vec<String> = heap
        .seq(keys)
        .ok_or("its list of storages is not a list")?
        .iter()
        .filter_map(|k| heap.str(*k).map(str::to_owned))
        .collect();
    let known: BTreeMap<&str, u64> = heap
        .storages
        .iter()
        .map(|s| (s.key.as_str(), s.dtype.bytes() as u64))
        .collect();
    let mut places = BTreeMap::new();
    let mut place = at as u64;
    for key in keys {
        let width = *known
            .get(key.as_str())
            .ok_or_else(|| format!("its storage \"{key}\" belongs to no tensor"))?;
        let mut count = [0u8; 8];
        file.seek(SeekFrom::Start(place))
            .and_then(|_place| file.read_exact(&mut count))
            .map_err(|e| format!("it is cut short before its storage \"{key}\" ({e})"))?;
        let n = u64::from_le_bytes(count)
            .checked_mul(width)
            .filter(|n| place.saturating_add(8).saturating_add(*n) <= len)
            .ok_or_else(|| format!("its storage \"{key}\" ends past the end of the file"))?;
        places.insert(key, (place + 8, n));
        place += 8 + n;
    }
    Ok(Checkpoint {
        heap,
        root,
        store: Store::Stream(file, places),
        path: path.to_path_buf(),
    })
}
