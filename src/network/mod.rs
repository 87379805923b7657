//! A network as data: graph, shape inference, parameters, reach, total stride, FLOPs; presets, weights and the manifest.

pub mod graph;

pub use graph::{Act, Graph, Node, Op, Tensor, TensorId, TensorKind};
