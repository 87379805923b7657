//! Tensors as numpy keeps them: read one for `forward`, write the outputs.

use crate::engine::Tensor;
use crate::exchange::result::{ResultError, write_beside};
use npyz::{DType, NpyFile, Order, WriterBuilder as _};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// A tensor file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The system refused to read.
    #[error("cannot read the tensor ({reason}); check the path and the permissions: {}", path.display())]
    Read {
        /// The system's words.
        reason: String,
        /// The file.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("expected a float32 .npy array (N, C, spatial) in C order: {reason}: {}", path.display())]
    Format {
        /// What was found.
        reason: String,
        /// The file.
        path: PathBuf,
    },
    /// Not written; nothing is left behind.
    #[error(transparent)]
    Write(#[from] ResultError),
}

/// Reads a float32 (or float64, narrowed) array in C order.
pub fn read(path: &Path) -> Result<Tensor, TensorError> {
    let format = |reason: String| TensorError::Format {
        reason,
        path: path.to_path_buf(),
    };
    let file = std::fs::File::open(path).map_err(|e| TensorError::Read {
        reason: e.to_string(),
        path: path.to_path_buf(),
    })?;
    let size = file.metadata().map_or(u64::MAX, |m| m.len());
    let npy =
        NpyFile::new(BufReader::with_capacity(1 << 20, file)).map_err(|e| format(e.to_string()))?;
    let shape: Option<Vec<usize>> = npy
        .shape()
        .iter()
        .map(|&n| usize::try_from(n).ok())
        .collect();
    let shape = shape.ok_or_else(|| format("found an axis beyond 2^64".to_owned()))?;
    if npy.order() != Order::C {
        return Err(format(
            "found Fortran order; save it with numpy.ascontiguousarray".to_owned(),
        ));
    }
    let DType::Plain(kind) = npy.dtype() else {
        return Err(format("found records".to_owned()));
    };
    let text = kind.to_string();
    let count: Option<u64> = npy.shape().iter().try_fold(1u64, |n, d| n.checked_mul(*d));
    let cut = |each: u64| {
        count
            .and_then(|n| n.checked_mul(each))
            .is_none_or(|b| b > size)
    };
    let values = if text.ends_with("f4") {
        if cut(4) {
            return Err(format(format!(
                "it says {shape:?} values and ends before them"
            )));
        }
        npy.into_vec::<f32>().map_err(|e| {
            format(format!(
                "it says {shape:?} values and ends before them ({e})"
            ))
        })?
    } else {
        return Err(format(format!(
            "found {text}; convert it with .astype(numpy.float32)"
        )));
    };
    Ok(Tensor { shape, values })
}

/// Writes an array beside its place and renames it.
pub fn write(path: &Path, tensor: &Tensor) -> Result<(), TensorError> {
    let shape: Vec<u64> = tensor.shape.iter().map(|&n| n as u64).collect();
    write_beside("tensor", path, |out| {
        let mut writer = npyz::WriteOptions::new()
            .default_dtype()
            .shape(&shape)
            .writer(out)
            .begin_nd()?;
        writer.extend(tensor.values.iter())?;
        writer.finish()
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_comes_back_as_it_was_written_and_a_cut_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.npy");
        let t = Tensor {
            shape: vec![1, 2, 3],
            values: vec![0.0, -1.5, 2.0, f32::INFINITY, 1e-40, 5.0],
        };
        write(&path, &t).unwrap();
        assert_eq!(read(&path).unwrap(), t);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("ends before"));
        std::fs::write(&path, "text").unwrap();
        assert!(matches!(read(&path), Err(TensorError::Format { .. })));
    }
}
