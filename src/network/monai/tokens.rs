//! Steps of transformers on tokens. A node whose name goes on after a "/" is a part of the node before the "/": together they
//! are one step of PyTorch's forward functions.

use crate::network::builder::Builder;
use crate::network::graph::{Act, Graph, Op, TensorId};
use crate::network::size::Size;
use crate::network::tensor_op::{Binary, Cut, TensorOp};

/// Added to the variance of a layer norm.
const EPS: f32 = 1e-5;

/// A builder for token maps, and the size of the input that its settings were made for.
pub(super) struct Tokens {
    pub(super) b: Builder,
    at: [usize; 3],
}

/// The part of queries, keys and values that a map of all three holds one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Third {
    Queries,
    Keys,
    Values,
}

/// The size of a tensor along an axis.
pub(super) const fn of(x: TensorId, axis: usize) -> Size {
    Size::Of(x, axis)
}

/// A number as a size.
pub(super) fn fixed(n: usize) -> Size {
    Size::Fixed(i64::try_from(n).unwrap_or(i64::MAX))
}

impl Tokens {
    pub(super) fn new(name: &str, at: [usize; 3]) -> Self {
        Self {
            b: Builder::new(name, 3),
            at,
        }
    }

    /// The graph of the finished builder, which remembers the size that it was made for.
    pub(super) fn finish(at: [usize; 3], mut graph: Graph) -> Graph {
        graph.example = [&[1], at.as_slice()].concat();
        graph
    }

    pub(super) const fn at(&self) -> [usize; 3] {
        self.at
    }

    /// An operation on tensors of any rank; `channels` matter where convolutions follow.
    pub(super) fn op(
        &mut self,
        name: &str,
        op: TensorOp,
        inputs: &[TensorId],
        channels: usize,
    ) -> TensorId {
        self.b.node(name, Op::Tensor(op), inputs.to_vec(), channels)
    }

    pub(super) fn transpose(&mut self, name: &str, x: TensorId, perm: &[usize]) -> TensorId {
        let channels = self.b.channels(x);
        let perm = perm.to_vec();
        self.op(name, TensorOp::Transpose { perm }, &[x], channels)
    }

    pub(super) fn reshape(&mut self, name: &str, x: TensorId, to: Vec<Size>) -> TensorId {
        let channels = self.b.channels(x);
        self.op(name, TensorOp::Reshape { to }, &[x], channels)
    }

    /// Values `start`, `start + step`... before `end` along an axis.
    pub(super) fn slice(
        &mut self,
        name: &str,
        x: TensorId,
        axis: usize,
        (start, end, step): (usize, Option<usize>, i64),
    ) -> TensorId {
        let channels = self.b.channels(x);
        let cut = Cut {
            axis,
            start: fixed(start),
            end: end.map_or(Size::Fixed(i64::MAX), fixed),
            step,
        };
        self.op(name, TensorOp::Slice { cuts: vec![cut] }, &[x], channels)
    }

    pub(super) fn softmax(&mut self, name: &str, x: TensorId) -> TensorId {
        let op = TensorOp::Softmax {
            first: 3,
            last: 3,
            log: false,
        };
        self.op(name, op, &[x], 0)
    }

    /// The values times a number.
    pub(super) fn scale(&mut self, name: &str, x: TensorId, factor: f64) -> TensorId {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rounding to f32 is what is meant"
        )]
        let factor = factor as f32;
        let act = Act::Affine { factor, shift: 0.0 };
        self.b.act(name, x, act, false)
    }

    /// Two tensors of shapes that broadcast, added.
    pub(super) fn sum(&mut self, name: &str, a: TensorId, b: TensorId) -> TensorId {
        let channels = self.b.channels(a);
        self.op(name, TensorOp::Binary(Binary::Add), &[a, b], channels)
    }

    /// A norm with scale and shift over the last of `axes` axes.
    pub(super) fn layer_norm(
        &mut self,
        name: &str,
        x: TensorId,
        (axes, width): (usize, usize),
    ) -> TensorId {
        let weight = self.b.parameter(format!("{name}.weight"), vec![width]);
        let bias = self.b.parameter(format!("{name}.bias"), vec![width]);
        self.op(name, Self::norm(axes), &[x, weight, bias], width)
    }

    /// A norm over the last of `axes` axes.
    pub(super) const fn norm(axes: usize) -> TensorOp {
        TensorOp::LayerNorm {
            axis: axes.saturating_sub(1),
            eps: EPS,
        }
    }

    /// A linear layer from `inner` values to `out`.
    pub(super) fn linear(
        &mut self,
        name: &str,
        x: TensorId,
        (inner, out): (usize, usize),
        bias: bool,
    ) -> TensorId {
        let mut inputs = vec![
            x,
            self.b.parameter(format!("{name}.weight"), vec![out, inner]),
        ];
        if bias {
            inputs.push(self.b.parameter(format!("{name}.bias"), vec![out]));
        }
        self.op(name, TensorOp::Linear, &inputs, out)
    }

    /// Queries, keys or values of each head (N, heads, tokens, values), keys transposed.
    pub(super) fn heads(
        &mut self,
        name: &str,
        qkv: TensorId,
        third: Third,
        (width, heads): (usize, usize),
    ) -> TensorId {
        let (word, at) = match third {
            Third::Queries => ("queries", 0),
            Third::Keys => ("keys", width),
            Third::Values => ("values", 2 * width),
        };
        let part = self.slice(&format!("{name}/{word}"), qkv, 2, (at, Some(at + width), 1));
        let each = width / heads.max(1);
        let to = vec![of(qkv, 0), of(qkv, 1), fixed(heads), fixed(each)];
        let split = self.reshape(&format!("{name}/{word}_of_heads"), part, to);
        let perm = match third {
            Third::Keys => [0, 2, 3, 1],
            Third::Queries | Third::Values => [0, 2, 1, 3],
        };
        self.transpose(&format!("{name}/{word}_by_heads"), split, &perm)
    }

    /// Weights of attention times values, and the heads side by side again.
    pub(super) fn mixed(
        &mut self,
        (values, merged): (&str, &str),
        (weights, qkv): (TensorId, TensorId),
        (width, heads): (usize, usize),
    ) -> TensorId {
        let v = self.heads(values, qkv, Third::Values, (width, heads));
        let y = self.op(values, TensorOp::MatMul, &[weights, v], width);
        let y = self.transpose(&format!("{merged}/heads_last"), y, &[0, 2, 1, 3]);
        let to = vec![of(qkv, 0), of(qkv, 1), fixed(width)];
        self.reshape(merged, y, to)
    }

    /// Norm, a wide layer, a GELU and back, added to the input, whose last of `axes` axes has `width` values.
    pub(super) fn mlp_block(
        &mut self,
        at: &str,
        x: TensorId,
        [axes, width, mlp]: [usize; 3],
    ) -> TensorId {
        let y = self.layer_norm(&format!("{at}.norm2"), x, (axes, width));
        let y = self.linear(&format!("{at}.mlp.linear1"), y, (width, mlp), true);
        let y = self.b.act(&format!("{at}.mlp.fn"), y, Act::Gelu, false);
        let y = self.linear(&format!("{at}.mlp.linear2"), y, (mlp, width), true);
        self.b.add(&format!("{at}.add_mlp"), x, y, false)
    }
}
