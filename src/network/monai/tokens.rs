//! Steps of transformers on tokens, planned with every parameter and map at one size of the input.

use crate::network::builder::Builder;
use crate::network::graph::{Op, TensorId};

/// A builder, and the one size at which its token maps hold.
pub(super) struct Tokens {
    pub(super) b: Builder,
    at: Vec<usize>,
}

/// An operation on tokens: its type, inputs, learned tensors (name after the node's, shape) and the shape of its result.
pub(super) struct Step<'a> {
    pub(super) kind: &'a str,
    pub(super) inputs: &'a [TensorId],
    pub(super) learned: &'a [(&'a str, &'a [usize])],
    pub(super) shape: &'a [usize],
    pub(super) flops: usize,
}

fn values(shape: &[usize]) -> usize {
    shape.iter().fold(1, |n, d| n.saturating_mul(*d))
}

impl Tokens {
    pub(super) fn new(name: &str, at: [usize; 3]) -> Self {
        Self {
            b: Builder::new(name, 3),
            at: at.to_vec(),
        }
    }

    pub(super) fn step(&mut self, name: &str, step: &Step<'_>) -> TensorId {
        let mut inputs = step.inputs.to_vec();
        for (part, shape) in step.learned {
            inputs.push(self.b.parameter(format!("{name}.{part}"), shape.to_vec()));
        }
        let op = Op::Other {
            kind: step.kind.to_owned(),
            at: self.at.clone(),
            shapes: vec![step.shape.to_vec()],
            flops: step.flops as u64,
            reason: "attention of a network that is built from its settings can be planned but not run by this version; an ONNX export of it can be run".to_owned(),
        };
        let channels = step.shape.get(1).copied().unwrap_or(0);
        self.b.node(name, op, inputs, channels)
    }

    /// An operation without learned tensors.
    pub(super) fn plain(
        &mut self,
        name: &str,
        kind: &str,
        inputs: &[TensorId],
        shape: &[usize],
    ) -> TensorId {
        let flops = values(shape);
        self.step(
            name,
            &Step {
                kind,
                inputs,
                learned: &[],
                shape,
                flops,
            },
        )
    }

    /// The same values seen in another shape.
    pub(super) fn view(&mut self, name: &str, x: TensorId, shape: &[usize]) -> TensorId {
        let y = self.plain(name, "Transpose", &[x], shape);
        self.b.in_place();
        y
    }

    pub(super) fn layer_norm(&mut self, name: &str, x: TensorId, shape: &[usize]) -> TensorId {
        let width = [shape.last().copied().unwrap_or(1)];
        let learned: &[(&str, &[usize])] = &[("weight", &width), ("bias", &width)];
        self.step(
            name,
            &Step {
                kind: "LayerNorm",
                inputs: &[x],
                learned,
                shape,
                flops: values(shape).saturating_mul(8),
            },
        )
    }

    /// A linear layer from `inner` to the last entry of `shape`.
    pub(super) fn linear(
        &mut self,
        name: &str,
        x: TensorId,
        (inner, bias): (usize, bool),
        shape: &[usize],
    ) -> TensorId {
        let out = shape.last().copied().unwrap_or(1);
        let (weight, row) = ([out, inner], [out]);
        let both: [(&str, &[usize]); 2] = [("weight", &weight), ("bias", &row)];
        let learned = both.get(..1 + usize::from(bias)).unwrap_or(&both);
        self.step(
            name,
            &Step {
                kind: "Linear",
                inputs: &[x],
                learned,
                shape,
                flops: values(shape).saturating_mul(2 * inner),
            },
        )
    }

    /// A product of two token maps over `inner` values.
    pub(super) fn product(
        &mut self,
        name: &str,
        inputs: &[TensorId],
        inner: usize,
        shape: &[usize],
    ) -> TensorId {
        self.step(
            name,
            &Step {
                kind: "MatMul",
                inputs,
                learned: &[],
                shape,
                flops: values(shape).saturating_mul(2 * inner),
            },
        )
    }

    /// Norm, a wide layer, a GELU and back, added to the input.
    pub(super) fn mlp_block(
        &mut self,
        at: &str,
        x: TensorId,
        (tokens, mlp): (&[usize], usize),
    ) -> TensorId {
        let width = tokens.last().copied().unwrap_or(1);
        let mut wide = tokens.to_vec();
        if let Some(last) = wide.last_mut() {
            *last = mlp;
        }
        let y = self.layer_norm(&format!("{at}.norm2"), x, tokens);
        let y = self.linear(&format!("{at}.mlp.linear1"), y, (width, true), &wide);
        let y = self.plain(&format!("{at}.mlp.fn"), "Gelu", &[y], &wide);
        let y = self.linear(&format!("{at}.mlp.linear2"), y, (mlp, true), tokens);
        self.plain(&format!("{at}.add_mlp"), "Add", &[x, y], tokens)
    }
}
