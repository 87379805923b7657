//! From an ONNX graph to ours: walked once at a concrete size, so that shape arithmetic folds away and only real work is left.

use super::constant::{Constant, Data};
use super::fold;
use super::proto;
use super::shape_rules::{self, Operand};
use super::translate;
use crate::network::compact;
use crate::network::graph::{Graph, Node, Op, Tensor, TensorId, TensorKind};
use crate::network::shapes;
use crate::network::weights::Weights;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

/// Most values that all stored tensors of a file may hold.
const MOST_STORED: usize = 1 << 31;
/// Most values that folding may make in all.
const MOST_FOLDED: usize = 1 << 27;
/// Why an operation is only planned.
const NOT_RUN: &str = "it can be planned but not run by this version";

/// A node that cannot be read, and why.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) node: String,
    pub(super) op: String,
    pub(super) reason: String,
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Values known before any run; with a name when they are stored in the file.
    Known(Rc<Constant>, Option<String>),
    /// A tensor of the graph.
    Act(TensorId),
    /// A tensor of the graph seen in another shape by the node of this name.
    View(TensorId, Vec<usize>, String),
}

/// The walk's state.
pub(super) struct Importer<'a> {
    pub(super) graph: Graph,
    pub(super) shapes: Vec<Vec<usize>>,
    pub(super) weights: Weights,
    values: BTreeMap<&'a str, Value>,
    uses: BTreeMap<&'a str, usize>,
    stored: BTreeMap<&'a str, &'a proto::Tensor<'a>>,
    declared: BTreeMap<&'a str, Vec<usize>>,
    known_weights: BTreeMap<(String, Vec<usize>), TensorId>,
    names: BTreeMap<String, usize>,
    folder: &'a Path,
    spatial: Vec<usize>,
    batch: usize,
    stored_left: usize,
    folded_left: usize,
    unused: BTreeSet<TensorId>,
}

/// Input sizes for a walk: batch and spatial sizes.
pub(super) type Size = (usize, Vec<usize>);

/// Walks a file's graph at a size.
pub(super) fn graph<'a>(
    file: &'a proto::Graph<'a>,
    folder: &'a Path,
    (batch, spatial): Size,
) -> Result<(Graph, Weights), Refusal> {
    let mut importer = Importer::new(file, folder, (batch, spatial));
    importer.inputs(file)?;
    for (i, node) in file.nodes.iter().enumerate() {
        importer.node(node).map_err(|reason| Refusal {
            node: label(node, i),
            op: node.op.to_owned(),
            reason,
        })?;
    }
    importer.outputs(file)?;
    let Importer {
        mut graph,
        mut weights,
        unused,
        ..
    } = importer;
    compact::without(&mut graph, &mut weights, &unused);
    Ok((graph, weights))
}

fn label(node: &proto::Node<'_>, index: usize) -> String {
    if node.name.is_empty() {
        format!("{}_{index}", node.op)
    } else {
        node.name.to_owned()
    }
}

impl<'a> Importer<'a> {
    fn new(file: &'a proto::Graph<'a>, folder: &'a Path, (batch, spatial): Size) -> Self {
        let mut uses = BTreeMap::new();
        let read = file.nodes.iter().flat_map(|n| n.inputs.iter().copied());
        for name in read.chain(file.outputs.iter().map(|o| o.name)) {
            *uses.entry(name).or_insert(0) += 1;
        }
        let sizes = |v: &proto::Value<'_>| -> Option<Vec<usize>> {
            v.dims
                .as_ref()?
                .iter()
                .map(|d| usize::try_from((*d)?).ok())
                .collect()
        };
        Self {
            graph: Graph {
                name: file.name.to_owned(),
                spatial_dims: spatial.len(),
                ..Graph::default()
            },
            shapes: Vec::new(),
            weights: Weights::default(),
            values: BTreeMap::new(),
            uses,
            stored: file.initializers.iter().map(|t| (t.name, t)).collect(),
            declared: file
                .values
                .iter()
                .chain(&file.outputs)
                .filter_map(|v| Some((v.name, sizes(v)?)))
                .collect(),
            known_weights: BTreeMap::new(),
            names: BTreeMap::new(),
            folder,
            spatial,
            batch,
            stored_left: MOST_STORED,
            folded_left: MOST_FOLDED,
            unused: BTreeSet::new(),
        }
    }

    fn inputs(&mut self, file: &'a proto::Graph<'a>) -> Result<(), Refusal> {
        for input in &file.inputs {
            if self.stored.contains_key(input.name) {
                continue;
            }
            let channels = input
                .dims
                .as_ref()
                .and_then(|d| d.get(1).copied().flatten())
                .unwrap_or(1);
            let channels = usize::try_from(channels)
                .ok()
                .filter(|c| (1..=1 << 16).contains(c))
                .ok_or_else(|| Refusal {
                    node: input.name.to_owned(),
                    op: "input".to_owned(),
                    reason: format!("it has {channels} channels; from 1 to 65536 are expected"),
                })?;
            let shape = [&[self.batch, channels], self.spatial.as_slice()].concat();
            let id = self.tensor(input.name, TensorKind::Input { channels }, shape);
            self.graph.inputs.push(id);
            self.values.insert(input.name, Value::Act(id));
        }
        Ok(())
    }

    fn outputs(&mut self, file: &'a proto::Graph<'a>) -> Result<(), Refusal> {
        for output in &file.outputs {
            let refuse = |reason: String| Refusal {
                node: output.name.to_owned(),
                op: "output".to_owned(),
                reason,
            };
            let value = self.value(output.name).map_err(refuse)?;
            let id = self.materialize(value, output.name).map_err(refuse)?;
            // An output keeps its name in the file, unless two outputs are one tensor.
            if !self.graph.outputs.contains(&id)
                && let Some(tensor) = self.graph.tensors.get_mut(id.index())
                && tensor.kind == TensorKind::Activation
            {
                output.name.clone_into(&mut tensor.name);
            }
            self.graph.outputs.push(id);
        }
        Ok(())
    }

    /// What a name stands for; stored tensors are decoded when first asked for.
    fn value(&mut self, name: &'a str) -> Result<Value, String> {
        if let Some(value) = self.values.get(name) {
            return Ok(value.clone());
        }
        let stored = self.stored.get(name).ok_or_else(|| {
            format!("it reads \"{name}\", which no earlier node makes and the file does not store (cut short, or a cycle)")
        })?;
        let constant = Constant::decode(stored, self.folder)?;
        let n = constant.len();
        self.stored_left = self
            .stored_left
            .checked_sub(n)
            .ok_or("the file's tensors hold more than 2^31 values in all")?;
        let value = Value::Known(Rc::new(constant), Some(name.to_owned()));
        self.values.insert(name, value.clone());
        Ok(value)
    }

    fn node(&mut self, node: &'a proto::Node<'a>) -> Result<(), String> {
        let inputs = node
            .inputs
            .iter()
            .map(|name| {
                if name.is_empty() {
                    Ok(None)
                } else {
                    self.value(name).map(Some)
                }
            })
            .collect::<Result<Vec<_>, _>>()?;
        if !matches!(node.domain, "" | "ai.onnx") {
            return self.planned(
                node,
                &inputs,
                &format!("it belongs to the foreign domain \"{}\"", node.domain),
            );
        }
        if let Some((constant, name)) = self.known(node, &inputs)? {
            self.folded_left = self
                .folded_left
                .checked_sub(constant.len())
                .ok_or("shape arithmetic makes more than 2^27 values in all")?;
            return self.define(node, vec![Value::Known(Rc::new(constant), name)]);
        }
        match translate::node(self, node, &inputs)? {
            Some(values) => self.define(node, values),
            None => self.planned(node, &inputs, NOT_RUN),
        }
    }

    /// The node's value when it needs no run.
    fn known(
        &self,
        node: &proto::Node<'_>,
        inputs: &[Option<Value>],
    ) -> Result<Option<(Constant, Option<String>)>, String> {
        let first = inputs.first().and_then(Option::as_ref);
        match (node.op, first) {
            ("Constant", _) => return Ok(Some((constant_node(node, self.folder)?, None))),
            ("Shape", Some(v)) => return Ok(fold::shape_of(node, self.shape(v)).map(|c| (c, None))),
            ("ConstantOfShape", Some(Value::Known(shape, _))) => {
                let value = node
                    .tensor("value")
                    .map(|t| Constant::decode(t, self.folder))
                    .transpose()?;
                let shape = shape.as_ints().and_then(fold::sizes);
                return Ok(shape
                    .and_then(|s| fold::filled(s, value.as_ref()))
                    .map(|c| (c, None)));
            }
            // The exporter's way to say that two parameters hold equal values: each is one of its own.
            ("Identity", Some(Value::Known(c, Some(_)))) => {
                return Ok(node
                    .outputs
                    .first()
                    .map(|name| (Constant::clone(c), Some((*name).to_owned()))));
            }
            _ => {}
        }
        let parameter = inputs.iter().flatten().find_map(|v| match v {
            Value::Known(c, Some(name)) if c.as_floats().is_some() => Some(name),
            _ => None,
        });
        // A table that is only looked up stays a parameter of its own size.
        if node.op == "Gather" && parameter.is_some() {
            return Ok(None);
        }
        let name = match node.op {
            "Reshape" | "Unsqueeze" | "Squeeze" | "Cast" => parameter.cloned(),
            "Transpose" => parameter.map(|name| format!("{name}.transposed")),
            _ => None,
        };
        let constants: Option<Vec<Option<&Constant>>> = inputs
            .iter()
            .map(|v| match v {
                Some(Value::Known(c, _)) => Some(Some(c.as_ref())),
                Some(_) => None,
                None => Some(None),
            })
            .collect();
        Ok(constants
            .and_then(|c| fold::node(node, &c))
            .map(|c| (c, name)))
    }

    fn define(&mut self, node: &'a proto::Node<'a>, values: Vec<Value>) -> Result<(), String> {
        for (name, value) in node.outputs.iter().zip(values) {
            if self.values.insert(name, value).is_some() {
                return Err(format!(
                    "it makes \"{name}\", which an earlier node made already"
                ));
            }
        }
        Ok(())
    }

    /// A node of which only the shapes are known.
    fn planned(
        &mut self,
        node: &'a proto::Node<'a>,
        inputs: &[Option<Value>],
        why: &str,
    ) -> Result<(), String> {
        let shapes: Vec<Option<Vec<usize>>> = inputs
            .iter()
            .map(|v| v.as_ref().map(|v| self.shape(v).to_vec()))
            .collect();
        let operands: Vec<Option<Operand<'_>>> = inputs
            .iter()
            .zip(&shapes)
            .map(|(value, shape)| {
                let constant = match value {
                    Some(Value::Known(c, _)) => Some(c.as_ref()),
                    _ => None,
                };
                shape.as_ref().map(|shape| Operand { shape, constant })
            })
            .collect();
        let declared = || {
            node.outputs
                .iter()
                .map(|o| self.declared.get(o).cloned())
                .collect::<Option<Vec<_>>>()
        };
        let made = shape_rules::outputs(node, &operands)
            .or_else(declared)
            .ok_or_else(|| {
                format!("it is not supported ({why}), and the file does not say its output's shape")
            })?;
        let flops = shape_rules::flops(node, &operands, &made);
        let mut ids = Vec::new();
        let mut weights = Vec::new();
        for value in inputs.iter().flatten() {
            match value {
                Value::Known(c, name) if c.as_floats().is_some() => {
                    let name = name.clone();
                    weights.push(self.weight(c, name.as_deref(), node, c.shape.clone())?);
                }
                Value::Known(..) => {}
                value => ids.push(self.materialize(value.clone(), node.name)?),
            }
        }
        ids.append(&mut weights);
        let batch = self.batch;
        let at_one = made.iter().map(|s| {
            let mut s = s.clone();
            if let Some(first) = s.first_mut().filter(|n| n.is_multiple_of(batch)) {
                *first /= batch;
            }
            s
        });
        let op = Op::Other {
            kind: node.op.to_owned(),
            at: self.spatial.clone(),
            shapes: at_one.collect(),
            flops,
            reason: why.to_owned(),
        };
        let outputs = self.push(node.name, node.op, op, ids, made)?;
        self.define(node, outputs.into_iter().map(Value::Act).collect())
    }

    /// The shape of a value.
    pub(super) fn shape<'s>(&'s self, value: &'s Value) -> &'s [usize] {
        match value {
            Value::Known(c, _) => &c.shape,
            Value::Act(id) => self.shapes.get(id.index()).map_or(&[], Vec::as_slice),
            Value::View(_, shape, _) => shape,
        }
    }

    /// A tensor of the graph for a value; a view becomes a node of its own.
    pub(super) fn materialize(&mut self, value: Value, reader: &str) -> Result<TensorId, String> {
        match value {
            Value::Act(id) => Ok(id),
            Value::View(id, shape, name) => {
                let op = Op::Other {
                    kind: "Reshape".to_owned(),
                    at: self.spatial.clone(),
                    shapes: vec![shape.clone()],
                    flops: 0,
                    reason: NOT_RUN.to_owned(),
                };
                let made = self.push(&name, "Reshape", op, vec![id], vec![shape])?;
                made.first()
                    .copied()
                    .ok_or_else(|| format!("\"{name}\" makes nothing"))
            }
            Value::Known(c, name) => match &c.data {
                Data::Floats(_) => {
                    let shape = c.shape.clone();
                    let name = name.unwrap_or_else(|| format!("{reader}.constant"));
                    self.named_weight(&c, &name, shape, false)
                }
                Data::Ints(_) => {
                    Err("an integer constant cannot be a tensor of the network".to_owned())
                }
            },
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
        let id = self.tensor(&unique, kind, shape);
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

    fn push(
        &mut self,
        name: &str,
        fallback: &str,
        op: Op,
        inputs: Vec<TensorId>,
        made: Vec<Vec<usize>>,
    ) -> Result<Vec<TensorId>, String> {
        let name = self.unique(if name.is_empty() { fallback } else { name });
        let mut outputs = Vec::new();
        for (i, shape) in made.into_iter().enumerate() {
            shapes::elements(&shape)?;
            let tensor = if i == 0 {
                name.clone()
            } else {
                format!("{name}:{i}")
            };
            outputs.push(self.tensor(&tensor, TensorKind::Activation, shape));
        }
        self.graph.nodes.push(Node {
            name,
            op,
            inputs,
            outputs: outputs.clone(),
            inplace: false,
        });
        Ok(outputs)
    }

    fn tensor(&mut self, name: &str, kind: TensorKind, shape: Vec<usize>) -> TensorId {
        let id = TensorId(u32::try_from(self.graph.tensors.len()).unwrap_or(u32::MAX));
        self.graph.tensors.push(Tensor {
            name: name.to_owned(),
            kind,
        });
        self.shapes.push(shape);
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

    /// The node that makes a tensor, when it is among the last few.
    pub(super) fn maker(&mut self, id: TensorId) -> Option<&mut Node> {
        self.graph
            .nodes
            .iter_mut()
            .rev()
            .take(8)
            .find(|n| n.outputs.contains(&id))
    }
}

fn constant_node(node: &proto::Node<'_>, folder: &Path) -> Result<Constant, String> {
    if let Some(tensor) = node.tensor("value") {
        return Constant::decode(tensor, folder);
    }
    if node.has("value_float") {
        return Ok(Constant {
            shape: Vec::new(),
            data: Data::Floats(vec![node.float("value_float", 0.0)].into()),
        });
    }
    if node.has("value_int") {
        return Ok(Constant {
            shape: Vec::new(),
            data: Data::Ints(vec![node.int("value_int", 0)].into()),
        });
    }
    if let Some(v) = node.floats("value_floats").filter(|v| !v.is_empty()) {
        return Ok(Constant {
            shape: vec![v.len()],
            data: Data::Floats(v.into()),
        });
    }
    node.ints("value_ints")
        .map(|v| Constant::ints(v.to_vec()))
        .ok_or_else(|| "it holds no value that can be read".to_owned())
}
