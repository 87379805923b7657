//! Writing a network in a few lines. Modules used twice share their weights; the second use of a name gets "#2".

use super::graph::{Act, Graph, Node, Op, PadMode, Tensor, TensorId, TensorKind};
use std::collections::BTreeMap;

/// How a convolution is made; `Conv::k3(out)` and the like start one.
#[derive(Clone, Debug)]
pub struct Conv {
    out: usize,
    kernel: Vec<usize>,
    stride: Vec<usize>,
    pad: Option<Vec<usize>>,
    bias: bool,
}

impl Conv {
    /// A convolution with a kernel of `k` along each of `dims` axes, stride 1, "same" padding and a bias.
    pub fn new(out: usize, kernel: &[usize]) -> Self {
        Self {
            out,
            kernel: kernel.to_vec(),
            stride: vec![1; kernel.len()],
            pad: None,
            bias: true,
        }
    }

    /// A 3x3x3 convolution.
    pub fn k3(out: usize) -> Self {
        Self::new(out, &[3, 3, 3])
    }

    /// A 1x1x1 convolution.
    pub fn k1(out: usize) -> Self {
        Self::new(out, &[1, 1, 1])
    }

    /// With this stride.
    pub fn stride(mut self, stride: &[usize]) -> Self {
        self.stride = stride.to_vec();
        self
    }

    /// With this padding on both sides, in place of half the kernel.
    pub fn pad(mut self, pad: &[usize]) -> Self {
        self.pad = Some(pad.to_vec());
        self
    }

    /// Without a bias.
    pub const fn no_bias(mut self) -> Self {
        self.bias = false;
        self
    }
}

/// Builds a graph node by node, in execution order.
#[derive(Debug)]
pub struct Builder {
    graph: Graph,
    channels: Vec<usize>,
    uses: BTreeMap<String, usize>,
    weights: BTreeMap<String, TensorId>,
}

impl Builder {
    /// A network with this name over `spatial_dims` axes.
    pub fn new(name: &str, spatial_dims: usize) -> Self {
        Self {
            graph: Graph {
                name: name.to_owned(),
                spatial_dims,
                ..Graph::default()
            },
            channels: Vec::new(),
            uses: BTreeMap::new(),
            weights: BTreeMap::new(),
        }
    }

    /// An input of the network.
    pub fn input(&mut self, name: &str, channels: usize) -> TensorId {
        let id = self.tensor(name.to_owned(), TensorKind::Input { channels }, channels);
        self.graph.inputs.push(id);
        id
    }

    /// Channels of a tensor made here.
    pub fn channels(&self, x: TensorId) -> usize {
        self.channels.get(x.index()).copied().unwrap_or(0)
    }

    /// Marks a tensor as the next output.
    pub fn output(&mut self, x: TensorId) {
        self.graph.outputs.push(x);
    }

    /// Names a tensor, as outputs are named.
    pub fn rename(&mut self, x: TensorId, name: &str) {
        if let Some(tensor) = self.graph.tensors.get_mut(x.index()) {
            name.clone_into(&mut tensor.name);
        }
    }

    /// The finished graph.
    pub fn finish(self) -> Graph {
        self.graph
    }

    /// A learned parameter, or the one of that name made before.
    pub fn parameter(&mut self, name: String, shape: Vec<usize>) -> TensorId {
        self.weight(name, shape, true)
    }

    /// Any node: `inputs` are activations, then weights.
    pub fn node(&mut self, name: &str, op: Op, inputs: Vec<TensorId>, channels: usize) -> TensorId {
        let uses = self.uses.entry(name.to_owned()).or_insert(0);
        *uses += 1;
        let unique = if *uses == 1 {
            name.to_owned()
        } else {
            format!("{name}#{uses}")
        };
        let out = self.tensor(unique.clone(), TensorKind::Activation, channels);
        self.graph.nodes.push(Node {
            name: unique,
            op,
            inputs,
            outputs: vec![out],
            inplace: false,
        });
        out
    }

    /// A convolution with weights `name.weight` (out, in, kernel...) and `name.bias`.
    pub fn conv(&mut self, name: &str, x: TensorId, conv: Conv) -> TensorId {
        let mut shape = vec![conv.out, self.channels(x)];
        shape.extend(&conv.kernel);
        let mut inputs = vec![x, self.parameter(format!("{name}.weight"), shape)];
        if conv.bias {
            inputs.push(self.parameter(format!("{name}.bias"), vec![conv.out]));
        }
        let pad = conv
            .pad
            .unwrap_or_else(|| conv.kernel.iter().map(|k| k / 2).collect());
        let op = Op::Conv {
            dilation: vec![1; conv.kernel.len()],
            kernel: conv.kernel,
            stride: conv.stride,
            pad_begin: pad.clone(),
            pad_end: pad,
            groups: 1,
        };
        self.node(name, op, inputs, conv.out)
    }

    /// A transposed convolution whose kernel is its stride.
    pub fn conv_transpose(
        &mut self,
        name: &str,
        x: TensorId,
        out: usize,
        stride: &[usize],
        bias: bool,
    ) -> TensorId {
        let zeros = vec![0; stride.len()];
        self.conv_transpose_padded(name, x, (out, bias), [stride, stride, &zeros, &zeros])
    }

    /// A transposed convolution; `geometry` is kernel, stride, padding on both sides, output padding; `out` is channels and bias.
    pub fn conv_transpose_padded(
        &mut self,
        name: &str,
        x: TensorId,
        (out, bias): (usize, bool),
        [kernel, stride, pad, output_pad]: [&[usize]; 4],
    ) -> TensorId {
        let mut shape = vec![self.channels(x), out];
        shape.extend(kernel);
        let mut inputs = vec![x, self.parameter(format!("{name}.weight"), shape)];
        if bias {
            inputs.push(self.parameter(format!("{name}.bias"), vec![out]));
        }
        let op = Op::ConvTranspose {
            kernel: kernel.to_vec(),
            stride: stride.to_vec(),
            pad_begin: pad.to_vec(),
            pad_end: pad.to_vec(),
            output_pad: output_pad.to_vec(),
            dilation: vec![1; kernel.len()],
            groups: 1,
        };
        self.node(name, op, inputs, out)
    }

    /// A batch norm with `name.weight`, `.bias`, `.running_mean`, `.running_var`.
    pub fn batch_norm(&mut self, name: &str, x: TensorId) -> TensorId {
        let c = self.channels(x);
        let mut inputs = vec![x];
        inputs.extend(self.affine(name, c));
        inputs.push(self.weight(format!("{name}.running_mean"), vec![c], false));
        inputs.push(self.weight(format!("{name}.running_var"), vec![c], false));
        self.node(name, Op::BatchNorm { eps: 1e-5 }, inputs, c)
    }

    /// A group norm with scale and shift.
    pub fn group_norm(&mut self, name: &str, x: TensorId, groups: usize) -> TensorId {
        let c = self.channels(x);
        let mut inputs = vec![x];
        inputs.extend(self.affine(name, c));
        self.node(name, Op::GroupNorm { groups, eps: 1e-5 }, inputs, c)
    }

    /// An instance norm, with scale and shift when `affine`.
    pub fn instance_norm(&mut self, name: &str, x: TensorId, affine: bool) -> TensorId {
        let c = self.channels(x);
        let mut inputs = vec![x];
        if affine {
            inputs.extend(self.affine(name, c));
        }
        self.node(name, Op::InstanceNorm { eps: 1e-5 }, inputs, c)
    }

    /// A pointwise activation, over its input when `inplace` (as PyTorch would).
    pub fn act(&mut self, name: &str, x: TensorId, act: Act, inplace: bool) -> TensorId {
        let c = self.channels(x);
        let out = self.node(name, Op::Activation(act), vec![x], c);
        if inplace {
            self.in_place();
        }
        out
    }

    /// Says that PyTorch makes the last node's result in its first input's storage: a view, or over it.
    pub fn in_place(&mut self) {
        if let Some(node) = self.graph.nodes.last_mut() {
            node.inplace = true;
        }
    }

    /// A parametric `ReLU` with one slope `name.weight`.
    pub fn prelu(&mut self, name: &str, x: TensorId) -> TensorId {
        let slope = self.parameter(format!("{name}.weight"), vec![1]);
        let c = self.channels(x);
        self.node(name, Op::PRelu, vec![x, slope], c)
    }

    /// A maximum over `kernel` voxels at this stride, padded by `pad` on both sides.
    pub fn max_pool(
        &mut self,
        name: &str,
        x: TensorId,
        kernel: &[usize],
        stride: &[usize],
        pad: &[usize],
    ) -> TensorId {
        let op = Op::MaxPool {
            kernel: kernel.to_vec(),
            stride: stride.to_vec(),
            pad_begin: pad.to_vec(),
            pad_end: pad.to_vec(),
        };
        let c = self.channels(x);
        self.node(name, op, vec![x], c)
    }

    /// Each voxel repeated.
    pub fn upsample_nearest(&mut self, name: &str, x: TensorId, scale: &[usize]) -> TensorId {
        let op = Op::UpsampleNearest {
            scale: scale.to_vec(),
        };
        let c = self.channels(x);
        self.node(name, op, vec![x], c)
    }

    /// Linear interpolation by a whole factor, corners not aligned.
    pub fn upsample_linear(&mut self, name: &str, x: TensorId, scale: &[usize]) -> TensorId {
        let op = Op::UpsampleLinear {
            scale: scale.to_vec(),
            align_corners: false,
        };
        let c = self.channels(x);
        self.node(name, op, vec![x], c)
    }

    /// Spatial padding that repeats the border.
    pub fn pad_edge(
        &mut self,
        name: &str,
        x: TensorId,
        begin: &[usize],
        end: &[usize],
    ) -> TensorId {
        let op = Op::Pad {
            begin: begin.to_vec(),
            end: end.to_vec(),
            mode: PadMode::Edge,
        };
        let c = self.channels(x);
        self.node(name, op, vec![x], c)
    }

    /// A sum, written over the first when `inplace`.
    pub fn add(&mut self, name: &str, a: TensorId, b: TensorId, inplace: bool) -> TensorId {
        let c = self.channels(a);
        let out = self.node(name, Op::Add, vec![a, b], c);
        if inplace {
            self.in_place();
        }
        out
    }

    /// Channels side by side.
    pub fn concat(&mut self, name: &str, inputs: &[TensorId]) -> TensorId {
        let c = inputs.iter().map(|x| self.channels(*x)).sum();
        self.node(name, Op::Concat, inputs.to_vec(), c)
    }

    fn affine(&mut self, name: &str, c: usize) -> [TensorId; 2] {
        [
            self.parameter(format!("{name}.weight"), vec![c]),
            self.parameter(format!("{name}.bias"), vec![c]),
        ]
    }

    /// A tensor of the state dictionary that no optimizer updates.
    pub fn buffer(&mut self, name: String, shape: Vec<usize>) -> TensorId {
        self.weight(name, shape, false)
    }

    fn weight(&mut self, name: String, shape: Vec<usize>, is_parameter: bool) -> TensorId {
        if let Some(id) = self.weights.get(&name) {
            return *id;
        }
        let kind = TensorKind::Weight {
            shape,
            is_parameter,
        };
        let id = self.tensor(name.clone(), kind, 0);
        self.weights.insert(name, id);
        id
    }

    fn tensor(&mut self, name: String, kind: TensorKind, channels: usize) -> TensorId {
        let id = TensorId(u32::try_from(self.graph.tensors.len()).unwrap_or(u32::MAX));
        self.graph.tensors.push(Tensor { name, kind });
        self.channels.push(channels);
        id
    }
}
