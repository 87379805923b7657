//! How each tensor lies in memory: maps channels last, tensors between operations on any rank in C order.

use super::graph::{Graph, Op, TensorId};

/// The order of a tensor's values in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// (N, spatial..., C): axis 1 runs fastest.
    ChannelsLast,
    /// The last axis runs fastest.
    Rows,
}

/// The layout of every tensor, by `TensorId`. What spatial operations read and make, inputs and outputs are channels last.
pub fn of(graph: &Graph) -> Vec<Layout> {
    let mut groups = Groups((0..graph.tensors.len()).collect());
    let mut last = vec![false; graph.tensors.len()];
    for id in graph.inputs.iter().chain(&graph.outputs) {
        mark(&mut last, *id);
    }
    for node in &graph.nodes {
        let tensors = || {
            let inputs = node.inputs.iter().filter(|id| !graph.is_weight(**id));
            inputs.chain(&node.outputs)
        };
        match &node.op {
            Op::Activation(_) | Op::Add | Op::Mul => {
                for id in tensors() {
                    if let Some(first) = node.outputs.first() {
                        groups.join(first.index(), id.index());
                    }
                }
            }
            Op::Tensor(op) if !op.is_spatial() => {}
            _ => {
                for id in tensors() {
                    mark(&mut last, *id);
                }
            }
        }
    }
    let mut forced = vec![false; last.len()];
    for (i, last) in last.iter().enumerate() {
        let root = groups.root(i);
        if let Some(slot) = forced.get_mut(root) {
            *slot |= *last;
        }
    }
    (0..last.len())
        .map(|i| {
            if forced.get(groups.root(i)).copied().unwrap_or(false) {
                Layout::ChannelsLast
            } else {
                Layout::Rows
            }
        })
        .collect()
}

fn mark(last: &mut [bool], id: TensorId) {
    if let Some(slot) = last.get_mut(id.index()) {
        *slot = true;
    }
}

/// Tensors that must share a layout.
struct Groups(Vec<usize>);

impl Groups {
    fn root(&self, mut i: usize) -> usize {
        while let Some(&up) = self.0.get(i)
            && up != i
        {
            i = up;
        }
        i
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        if let Some(slot) = self.0.get_mut(a.max(b)) {
            *slot = a.min(b);
        }
    }
}

impl Layout {
    /// Values between neighbours along each axis of a tensor of this shape.
    pub fn strides(self, shape: &[usize]) -> Vec<usize> {
        let mut out = vec![1; shape.len()];
        let mut step = 1;
        for axis in self.order(shape.len()).into_iter().rev() {
            if let (Some(slot), Some(d)) = (out.get_mut(axis), shape.get(axis)) {
                *slot = step;
                step *= *d;
            }
        }
        out
    }

    /// The axes from the slowest to the fastest.
    pub fn order(self, rank: usize) -> Vec<usize> {
        match self {
            Self::ChannelsLast if rank > 2 => {
                let spatial = 2..rank;
                std::iter::once(0).chain(spatial).chain([1]).collect()
            }
            Self::ChannelsLast | Self::Rows => (0..rank).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_last_puts_axis_1_at_the_end() {
        assert_eq!(Layout::ChannelsLast.strides(&[2, 3, 4, 5]), [60, 1, 15, 3]);
        assert_eq!(Layout::Rows.strides(&[2, 3, 4, 5]), [60, 20, 5, 1]);
        assert_eq!(Layout::ChannelsLast.strides(&[2, 3]), [3, 1]);
    }
}
