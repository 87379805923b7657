//! Values for a network's weights: from a safetensors file or seeded, and the network's fingerprint.

use super::error::NetworkError;
use super::graph::{Graph, TensorId, TensorKind};
use super::windows;
use rand::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Values of all weights of one graph, as PyTorch lays them out (C order).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights {
    values: BTreeMap<TensorId, Arc<[f32]>>,
}

impl Weights {
    /// The values of one weight.
    pub fn get(&self, id: TensorId) -> Option<&Arc<[f32]>> {
        self.values.get(&id)
    }

    /// Gives one weight its values.
    pub fn insert(&mut self, id: TensorId, values: Arc<[f32]>) {
        self.values.insert(id, values);
    }

    /// All weights in the graph's order.
    pub fn iter(&self) -> impl Iterator<Item = (TensorId, &Arc<[f32]>)> {
        self.values.iter().map(|(id, v)| (*id, v))
    }

    /// Repeatable values: uniform with the variance that keeps a `ReLU` network's signal (2 / fan-in), norms at one, the rest at zero.
    pub fn seeded(graph: &Graph, seed: u64) -> Result<Self, NetworkError> {
        let mut out = Self::default();
        for (id, tensor) in graph.weights() {
            let TensorKind::Weight { shape, .. } = &tensor.kind else {
                continue;
            };
            let n = elements(graph, &tensor.name, shape)?;
            let values: Arc<[f32]> = if let Some(index) = windows::index(graph, &tensor.name) {
                index.into()
            } else if shape.len() > 1 {
                let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(seed ^ name_hash(&tensor.name));
                let fan_in = (n / shape.first().copied().unwrap_or(1).max(1)).max(1);
                let bound = (6.0 / fan_in as f64).sqrt();
                (0..n).map(|_| uniform(&mut rng, bound)).collect()
            } else if tensor.name.ends_with(".weight") || tensor.name.ends_with("running_var") {
                vec![1.0; n].into()
            } else {
                vec![0.0; n].into()
            };
            out.insert(id, values);
        }
        Ok(out)
    }

    /// Values from the bytes of a safetensors file; `path` only serves messages. Names not in the graph are passed over when PyTorch keeps them as counters.
    pub fn from_safetensors(
        graph: &Graph,
        bytes: &[u8],
        path: Option<&Path>,
    ) -> Result<Self, NetworkError> {
        let refuse = |reason: String| NetworkError::Weights {
            network: graph.name.clone(),
            reason,
            path: path.map(Path::to_path_buf),
        };
        let file = safetensors::SafeTensors::deserialize(bytes)
            .map_err(|e| refuse(format!("this is not a safetensors file ({e})")))?;
        let mut out = Self::default();
        for (id, tensor) in graph.weights() {
            let TensorKind::Weight {
                shape,
                is_parameter,
            } = &tensor.kind
            else {
                continue;
            };
            let view = file.tensor(&tensor.name).map_err(|_missing| {
                refuse(format!(
                    "expected a tensor named \"{}\", found none",
                    tensor.name
                ))
            })?;
            if view.shape() != shape.as_slice() {
                return Err(refuse(format!(
                    "\"{}\" must have the shape {shape:?}, found {:?}",
                    tensor.name,
                    view.shape()
                )));
            }
            let whole = || (!is_parameter).then(|| integers(view.dtype(), view.data()))?;
            let read = floats(view.dtype(), view.data()).or_else(whole);
            let values = read.ok_or_else(|| {
                refuse(format!(
                    "\"{}\" must be F32, F16 or BF16, found {:?}",
                    tensor.name,
                    view.dtype()
                ))
            })?;
            windows::check(graph, &tensor.name, &values).map_err(refuse)?;
            out.insert(id, values.into());
        }
        let extra = file
            .names()
            .into_iter()
            .filter(|n| !n.ends_with("num_batches_tracked") && graph.find(n).is_none())
            .min();
        match extra {
            Some(name) => Err(refuse(format!(
                "the file holds \"{name}\", which the network does not have"
            ))),
            None => Ok(out),
        }
    }

    /// Checks that every weight of the graph has as many values as its shape asks for.
    pub fn check(&self, graph: &Graph) -> Result<(), NetworkError> {
        for (id, tensor) in graph.weights() {
            let TensorKind::Weight { shape, .. } = &tensor.kind else {
                continue;
            };
            let expected = elements(graph, &tensor.name, shape)?;
            let found = self.get(id).map(|v| v.len());
            if found != Some(expected) {
                return Err(NetworkError::Weights {
                    network: graph.name.clone(),
                    reason: format!(
                        "\"{}\" needs {expected} values, found {}",
                        tensor.name,
                        found.unwrap_or(0)
                    ),
                    path: None,
                });
            }
        }
        Ok(())
    }
}

/// A fingerprint of the graph and its weights (of the graph alone without), as 64 hex digits.
pub fn sha256(graph: &Graph, weights: Option<&Weights>) -> String {
    let mut hash = Sha256::new();
    hash.update(serde_json::to_vec(graph).unwrap_or_default());
    for (id, values) in weights.into_iter().flat_map(Weights::iter) {
        hash.update(id.0.to_le_bytes());
        for value in values.iter() {
            hash.update(value.to_le_bytes());
        }
    }
    hex::encode(hash.finalize())
}

fn elements(graph: &Graph, name: &str, shape: &[usize]) -> Result<usize, NetworkError> {
    shape
        .iter()
        .try_fold(1usize, |n, d| n.checked_mul(*d))
        .filter(|n| *n <= 1 << 33)
        .ok_or_else(|| NetworkError::Graph {
            network: graph.name.clone(),
            reason: format!("the weight \"{name}\" of shape {shape:?} has more than 2^33 values"),
        })
}

fn name_hash(name: &str) -> u64 {
    // FNV-1a: each weight its own stream, whatever the order in which they are declared.
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn uniform(rng: &mut rand_pcg::Pcg64Mcg, bound: f64) -> f32 {
    let unit = f64::from(rng.next_u32()) / f64::from(u32::MAX);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to f32 is what is meant"
    )]
    let value = ((unit * 2.0 - 1.0) * bound) as f32;
    value
}

/// Whole numbers of a buffer, where all are exact as floats.
fn integers(dtype: safetensors::Dtype, data: &[u8]) -> Option<Vec<f32>> {
    let exact = |v: i64| (v.unsigned_abs() < 1 << 24).then_some(v as f32);
    match dtype {
        safetensors::Dtype::I64 => {
            let each = data.as_chunks::<8>().0.iter();
            each.map(|b| exact(i64::from_le_bytes(*b))).collect()
        }
        safetensors::Dtype::I32 => {
            let each = data.as_chunks::<4>().0.iter();
            each.map(|b| exact(i64::from(i32::from_le_bytes(*b))))
                .collect()
        }
        _ => None,
    }
}

fn floats(dtype: safetensors::Dtype, data: &[u8]) -> Option<Vec<f32>> {
    let halves = || data.as_chunks::<2>().0.iter();
    match dtype {
        safetensors::Dtype::F32 => Some(
            data.as_chunks::<4>()
                .0
                .iter()
                .map(|b| f32::from_le_bytes(*b))
                .collect(),
        ),
        safetensors::Dtype::F16 => Some(
            halves()
                .map(|b| half::f16::from_le_bytes(*b).to_f32())
                .collect(),
        ),
        safetensors::Dtype::BF16 => Some(
            halves()
                .map(|b| half::bf16::from_le_bytes(*b).to_f32())
                .collect(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{self, preset};

    #[test]
    fn seeded_weights_are_the_same_every_time_and_differ_between_seeds() {
        let graph = preset::load("demo").unwrap().graph;
        let one = Weights::seeded(&graph, 1).unwrap();
        one.check(&graph).unwrap();
        assert_eq!(one, Weights::seeded(&graph, 1).unwrap());
        assert_ne!(one, Weights::seeded(&graph, 2).unwrap());
        assert_eq!(sha256(&graph, Some(&one)).len(), 64);
        assert_ne!(sha256(&graph, Some(&one)), sha256(&graph, None));
        let first = graph.weights().next().unwrap();
        let known = one.get(first.0).unwrap();
        assert_eq!(first.1.name, "stem.conv.weight");
        // Pinned: a baseline made with seeded weights must stay comparable.
        assert_eq!(known[0].to_bits(), 3_198_577_700);
    }

    #[test]
    fn weights_travel_through_a_safetensors_file_and_wrong_ones_are_refused() {
        let model = preset::load("demo").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        let weights = Weights::seeded(&model.graph, 3).unwrap();
        let mut bytes: Vec<(String, Vec<usize>, Vec<u8>)> = model
            .graph
            .weights()
            .map(|(id, t)| {
                let TensorKind::Weight { shape, .. } = &t.kind else {
                    panic!("no weight")
                };
                let values = weights.get(id).unwrap();
                (
                    t.name.clone(),
                    shape.clone(),
                    values.iter().flat_map(|v| v.to_le_bytes()).collect(),
                )
            })
            .collect();
        let save = |bytes: &[(String, Vec<usize>, Vec<u8>)]| {
            let views = bytes.iter().map(|(name, shape, data)| {
                let view = safetensors::tensor::TensorView::new(
                    safetensors::Dtype::F32,
                    shape.clone(),
                    data,
                )
                .unwrap();
                (name.clone(), view)
            });
            std::fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
            network::open("preset:demo", None, path.to_str())
        };
        assert_eq!(save(&bytes).unwrap().weights.unwrap(), weights);
        let mut longer = bytes.clone();
        longer.push(("head.extra".to_owned(), vec![1], vec![0; 4]));
        assert!(
            save(&longer)
                .unwrap_err()
                .to_string()
                .contains("head.extra")
        );
        bytes[0].1 = vec![16, 27];
        let error = save(&bytes).unwrap_err().to_string();
        assert!(
            error.contains("[16, 1, 3, 3, 3]") && error.contains("[16, 27]"),
            "{error}"
        );
        std::fs::write(&path, "text").unwrap();
        let error = network::open("preset:demo", None, path.to_str())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("not a safetensors file") && error.ends_with("w.safetensors"),
            "{error}"
        );
        let error = network::open("preset:demo", None, Some("seeded:many"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("seeded:N"), "{error}");
    }

    #[test]
    fn a_network_without_weights_says_how_to_give_some() {
        let model = network::open("preset:nnunet-3d-6stage", None, None).unwrap();
        let error = model.weights().unwrap_err().to_string();
        assert!(error.contains("--weights"), "{error}");
    }
}
