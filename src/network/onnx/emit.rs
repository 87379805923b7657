//! Nodes, tensors and weights of our graph, made while a file's graph is walked.

use super::constant::{Constant, Data};
use super::import::{Importer, Value};
use super::proto;
use super::symbolic::Trace;
use crate::network::graph::{Baked, Node, Op, Tensor, TensorId, TensorKind};
use crate::network::shapes;
use crate::network::size::Size;
use crate::network::tensor_op::TensorOp;
use crate::network::tensor_shapes;
use std::rc::Rc;

impl Importer<'_> {
    /// The shape of a value.
    pub(super) fn shape<'s>(&'s self, value: &'s Value) -> &'s [usize] {
        match value {
            Value::Known(c, ..) => &c.shape,
            Value::Act(id) => self.shapes.get(id.index()).map_or(&[], Vec::as_slice),
            Value::View(view) => &view.shape,
        }
    }

    /// A tensor of the graph for a value; a view becomes a node of its own.
    pub(super) fn materialize(&mut self, value: Value, reader: &str) -> Result<TensorId, String> {
        match value {
            Value::Act(id) => Ok(id),
            Value::View(view) => {
                let follows = tensor_shapes::sizes(&view.sizes, &self.shapes)?;
                if !follows
                    .iter()
                    .map(|s| usize::try_from(*s).ok())
                    .eq(view.shape.iter().map(|d| Some(*d)))
                {
                    return Err(format!(
                        "the shape {} that \"{}\" makes does not follow from the sizes that it is computed from, which give {follows:?}",
                        shapes::text(&view.shape),
                        view.name
                    ));
                }
                let op = Op::Tensor(TensorOp::Reshape {
                    to: view.sizes.clone(),
                });
                let made = self.push(
                    &view.name,
                    "Reshape",
                    op,
                    vec![view.of],
                    vec![view.shape.clone()],
                )?;
                made.first()
                    .copied()
                    .ok_or_else(|| format!("\"{}\" makes nothing", view.name))
            }
            Value::Known(c, name, _) => {
                // A scalar is a list of one.
                let shape = if c.shape.is_empty() {
                    vec![1]
                } else {
                    c.shape.clone()
                };
                let stored = name.is_some() && !c.shape.is_empty();
                let label = name.unwrap_or_else(|| format!("{reader}.constant"));
                match &c.data {
                    Data::Floats(_) => self.named_weight(&c, &label, shape, stored),
                    Data::Ints(v) => {
                        let exact = |v: &i64| (v.unsigned_abs() < 1 << 24).then_some(*v as f32);
                        let floats: Option<Vec<f32>> = v.iter().map(exact).collect();
                        let floats = floats.ok_or("an integer of it is too large to be exact")?;
                        let c = Constant {
                            shape: shape.clone(),
                            data: Data::Floats(floats.into()),
                        };
                        self.named_weight(&c, &label, shape, false)
                    }
                }
            }
        }
    }

    /// A weight for a constant in the shape that its node wants; one stored tensor used twice is one weight.
    pub(super) fn weight(
        &mut self,
        c: &Constant,
        name: Option<&str>,
        node: &proto::Node<'_>,
        shape: Vec<usize>,
    ) -> Result<TensorId, String> {
        let own = format!(
            "{}.constant",
            if node.name.is_empty() {
                node.op
            } else {
                node.name
            }
        );
        self.named_weight(c, name.unwrap_or(&own), shape, name.is_some())
    }

    /// A weight under this name.
    pub(super) fn named_weight(
        &mut self,
        c: &Constant,
        name: &str,
        shape: Vec<usize>,
        stored: bool,
    ) -> Result<TensorId, String> {
        let values = c
            .as_floats()
            .ok_or_else(|| format!("the weight \"{name}\" must hold floats"))?;
        if shape.iter().product::<usize>() != values.len() {
            return Err(format!(
                "the weight \"{name}\" of shape {:?} is used as {shape:?}",
                c.shape
            ));
        }
        let key = (name.to_owned(), shape.clone());
        if stored && let Some(id) = self.known_weights.get(&key) {
            return Ok(*id);
        }
        let unique = self.unique(name);
        let kind = TensorKind::Weight {
            shape: shape.clone(),
            is_parameter: stored,
        };
        let id = self.tensor(&unique, kind, shape.clone(), shape);
        self.weights.insert(id, values.clone());
        if stored {
            self.known_weights.insert(key, id);
        }
        Ok(id)
    }

    /// A node with one output whose shape follows from its inputs.
    pub(super) fn push_op(
        &mut self,
        node: &proto::Node<'_>,
        op: Op,
        inputs: Vec<TensorId>,
    ) -> Result<Value, String> {
        let constant = inputs.iter().all(|id| self.graph.is_weight(*id));
        if constant && !matches!(op, Op::Tensor(_)) {
            return Err("all that it reads is constant, which is not worked out here".to_owned());
        }
        let probe = Node {
            name: node.name.to_owned(),
            op,
            inputs,
            outputs: vec![TensorId(0)],
            inplace: false,
        };
        let made = shapes::node_shapes(&probe, &self.shapes, &self.spatial, self.batch)?;
        let ids = self.push(node.name, node.op, probe.op, probe.inputs, made)?;
        ids.first()
            .map(|id| Value::Act(*id))
            .ok_or_else(|| "it makes nothing".to_owned())
    }

    pub(super) fn push(
        &mut self,
        name: &str,
        fallback: &str,
        op: Op,
        inputs: Vec<TensorId>,
        made: Vec<Vec<usize>>,
    ) -> Result<Vec<TensorId>, String> {
        let name = self.unique(if name.is_empty() { fallback } else { name });
        // The same at another size, which tells what varies with the roi.
        let node = Node {
            name: name.clone(),
            op,
            inputs,
            outputs: Vec::new(),
            inplace: false,
        };
        let (batch, spatial) = &self.probe_size;
        let probe = shapes::node_shapes(&node, &self.probe, spatial, *batch);
        if probe.is_err() && self.lost.is_none() {
            self.lost = self.made_for_one_size(&node);
        }
        let probe = probe.unwrap_or_default();
        let mut outputs = Vec::new();
        for (i, shape) in made.into_iter().enumerate() {
            shapes::elements(&shape)?;
            let tensor = if i == 0 {
                name.clone()
            } else {
                format!("{name}:{i}")
            };
            let probe = probe.get(i).cloned().unwrap_or_default();
            outputs.push(self.tensor(&tensor, TensorKind::Activation, shape, probe));
        }
        self.graph.nodes.push(Node {
            outputs: outputs.clone(),
            ..node
        });
        Ok(outputs)
    }

    pub(super) fn tensor(
        &mut self,
        name: &str,
        kind: TensorKind,
        shape: Vec<usize>,
        probe: Vec<usize>,
    ) -> TensorId {
        let id = TensorId(u32::try_from(self.graph.tensors.len()).unwrap_or(u32::MAX));
        self.graph.tensors.push(Tensor {
            name: name.to_owned(),
            kind,
        });
        self.shapes.push(shape);
        self.probe.push(probe);
        id
    }

    fn unique(&mut self, name: &str) -> String {
        let uses = self.names.entry(name.to_owned()).or_insert(0);
        *uses += 1;
        if *uses == 1 {
            name.to_owned()
        } else {
            format!("{name}#{uses}")
        }
    }

    /// Whether a weight is stored in the file (and not filled in here).
    pub(super) fn is_stored(&self, id: TensorId) -> bool {
        self.graph.tensor(id).is_some_and(|t| {
            matches!(
                t.kind,
                TensorKind::Weight {
                    is_parameter: true,
                    ..
                }
            )
        })
    }

    /// Leaves a weight without values or size: nothing reads it any more.
    pub(super) fn forget(&mut self, id: TensorId) {
        self.unused.insert(id);
    }

    /// Whether a name is read exactly once, so that what makes it may be fused with what reads it.
    pub(super) fn read_once(&self, name: &str) -> bool {
        self.uses.get(name) == Some(&1)
    }

    /// Whether anything reads a name.
    pub(super) fn is_read(&self, name: &str) -> bool {
        self.uses.contains_key(name)
    }

    /// The node that makes a tensor, when it is among the last few.
    pub(super) fn maker(&mut self, id: TensorId) -> Option<&mut Node> {
        self.graph
            .nodes
            .iter_mut()
            .rev()
            .take(8)
            .find(|n| n.outputs.contains(&id))
    }

    /// The size of a value along an axis: a number where no roi changes it.
    pub(super) fn dim(&self, value: &Value, axis: usize) -> Size {
        let size = self.shape(value).get(axis).copied().unwrap_or(1);
        let fixed = Size::Fixed(i64::try_from(size).unwrap_or(i64::MAX));
        match value {
            Value::Known(..) => fixed,
            Value::View(view) => view.sizes.get(axis).cloned().unwrap_or(fixed),
            Value::Act(id) => {
                let probe = self.probe.get(id.index()).and_then(|p| p.get(axis));
                if probe == Some(&size) {
                    fixed
                } else {
                    Size::Of(*id, axis)
                }
            }
        }
    }

    /// All sizes of a value.
    pub(super) fn dims(&self, value: &Value) -> Vec<Size> {
        (0..self.shape(value).len())
            .map(|axis| self.dim(value, axis))
            .collect()
    }

    /// A node that does not work out at the probe's size though all before it did, for a constant of its own.
    fn made_for_one_size(&self, node: &Node) -> Option<Baked> {
        let probed = |id: &TensorId| self.probe.get(id.index()).is_some_and(|p| !p.is_empty());
        let found = matches!(node.op, Op::Tensor(_)) && node.inputs.iter().all(probed);
        let constant = node.inputs.iter().find(|id| self.graph.is_weight(**id));
        let name = &self.graph.tensor(*constant.filter(|_| found)?)?.name;
        Some(Baked {
            node: node.name.clone(),
            op: node.op.kind().to_owned(),
            reason: format!("the constant \"{name}\" was made for one size of the input"),
        })
    }

    /// Notes that the network holds at this size only, because of this node.
    pub(super) fn bake(&mut self, node: &proto::Node<'_>, reason: String) {
        self.graph.baked.extend(self.lost.take());
        self.graph.baked.push(Baked {
            node: if node.name.is_empty() {
                node.outputs.first().map_or(node.op, |o| *o).to_owned()
            } else {
                node.name.to_owned()
            },
            op: node.op.to_owned(),
            reason,
        });
    }

    /// A list of sizes or places that a node reads: numbers, or what they are computed from.
    pub(super) fn sizes(&mut self, node: &proto::Node<'_>, value: &Value) -> Option<Vec<Size>> {
        let Value::Known(c, _, trace) = value else {
            return None;
        };
        if let Trace::Sizes(sizes) = trace {
            return Some(sizes.to_vec());
        }
        let fixed = c.as_ints()?.iter().map(|v| Size::Fixed(*v)).collect();
        if let Trace::Sized(by) = trace {
            self.bake(
                node,
                format!("it uses what \"{by}\" computes from the size of the input in a way that is not followed"),
            );
        }
        Some(fixed)
    }

    /// A parameter of the file that only constants are computed from: it still counts.
    pub(super) fn keep_parameter(&mut self, c: &Rc<Constant>, name: &str) -> Result<(), String> {
        if c.len() > 1 && c.as_floats().is_some() {
            self.named_weight(c, name, c.shape.clone(), true)?;
        }
        Ok(())
    }
}
