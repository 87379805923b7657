//! From an ONNX graph to ours: walked once at a concrete size, so that shape arithmetic folds away and only real work is left.

use super::checks;
use super::constant::{Constant, Data};
use super::fold;
use super::fuse;
use super::proto;
use super::shape_rules::{self, Operand};
use super::symbolic::{self, Trace};
use super::translate;
use crate::network::compact;
use crate::network::graph::{Baked, Graph, Multiples, Op, TensorId, TensorKind};
use crate::network::size::Size as Length;
use crate::network::stride;
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
    /// Values known before any run; with a name when they are stored in the file, and whether the roi changes them.
    Known(Rc<Constant>, Option<String>, Trace),
    /// A tensor of the graph.
    Act(TensorId),
    /// A tensor of the graph seen in another shape.
    View(Rc<View>),
}

/// A tensor of the graph seen in another shape.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) of: TensorId,
    pub(super) shape: Vec<usize>,
    /// The shape for any roi.
    pub(super) sizes: Vec<Length>,
    /// The node that sees it so.
    pub(super) name: String,
}

/// The walk's state.
pub(super) struct Importer<'a> {
    pub(super) graph: Graph,
    pub(super) shapes: Vec<Vec<usize>>,
    /// Shapes at twice the size and batch, to see what varies with the roi; empty where that does not work out.
    pub(super) probe: Vec<Vec<usize>>,
    pub(super) probe_size: Size,
    /// The node whose constant stopped the probe: why nodes after it hold at one size only, if any do.
    pub(super) lost: Option<Baked>,
    pub(super) weights: Weights,
    pub(super) opset: i64,
    /// Whether the file leaves its spatial axes open, so that its numbers are the network's own.
    pub(super) is_open: bool,
    values: BTreeMap<&'a str, Value>,
    pub(super) uses: BTreeMap<&'a str, usize>,
    stored: BTreeMap<&'a str, &'a proto::Tensor<'a>>,
    declared: BTreeMap<&'a str, Vec<usize>>,
    pub(super) known_weights: BTreeMap<(String, Vec<usize>), TensorId>,
    pub(super) names: BTreeMap<String, usize>,
    folder: &'a Path,
    pub(super) spatial: Vec<usize>,
    pub(super) batch: usize,
    stored_left: usize,
    folded_left: usize,
    pub(super) unused: BTreeSet<TensorId>,
    /// The first node whose constant sizes are read as ratios.
    pub(super) sized: Option<Baked>,
    /// Names of values that may be whole numbers or truth values.
    whole: BTreeSet<&'a str>,
}

/// Input sizes for a walk: batch and spatial sizes.
pub(super) type Size = (usize, Vec<usize>);

/// Walks a file's graph at a size.
pub(super) fn graph<'a>(
    file: &'a proto::Graph<'a>,
    opset: i64,
    folder: &'a Path,
    (batch, spatial): Size,
) -> Result<(Graph, Weights), Refusal> {
    let mut importer = Importer::new(file, opset, folder, (batch, spatial));
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
        sized,
        ..
    } = importer;
    compact::without(&mut graph, &mut weights, &unused);
    fuse::gelu(&mut graph, &mut weights);
    if let Some(because) = sized {
        let total = stride::of(&graph).and_then(|s| stride::total(&graph, &s));
        match total {
            Ok(of) => graph.multiples = Some(Multiples { of, because }),
            Err(_) => graph.baked.push(because),
        }
    }
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
    fn new(
        file: &'a proto::Graph<'a>,
        opset: i64,
        folder: &'a Path,
        (batch, spatial): Size,
    ) -> Self {
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
                example: [&[batch], spatial.as_slice()].concat(),
                ..Graph::default()
            },
            opset,
            is_open: file
                .inputs
                .first()
                .and_then(|i| i.dims.as_ref())
                .is_some_and(|d| d.iter().skip(2).any(|d| !matches!(d, Some(1..)))),
            shapes: Vec::new(),
            probe: Vec::new(),
            probe_size: (2 * batch, spatial.iter().map(|d| 2 * d).collect()),
            lost: None,
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
            sized: None,
            whole: BTreeSet::new(),
        }
    }

    fn inputs(&mut self, file: &'a proto::Graph<'a>) -> Result<(), Refusal> {
        for input in &file.inputs {
            if self.stored.contains_key(input.name) {
                continue;
            }
            if !matches!(input.element, 0 | 1 | 10 | 11 | 16) {
                self.whole.insert(input.name);
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
            let probe = [&[self.probe_size.0, channels], self.probe_size.1.as_slice()].concat();
            let id = self.tensor(input.name, TensorKind::Input { channels }, shape, probe);
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
        let value = Value::Known(Rc::new(constant), Some(name.to_owned()), Trace::Fixed);
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
        checks::types(&mut self.whole, node, &inputs)?;
        if !matches!(node.domain, "" | "ai.onnx") {
            return self.planned(
                node,
                &inputs,
                &format!("it belongs to the foreign domain \"{}\"", node.domain),
            );
        }
        checks::evaluates(node, &inputs)?;
        if let Some((constant, name)) = self.known(node, &inputs)? {
            self.folded_left = self
                .folded_left
                .checked_sub(constant.len())
                .ok_or("shape arithmetic makes more than 2^27 values in all")?;
            let trace = symbolic::trace(self, node, &inputs, &constant);
            return self.define(node, vec![Value::Known(Rc::new(constant), name, trace)]);
        }
        if !symbolic::reads_sizes(node.op) {
            for value in inputs.iter().flatten() {
                if let Value::Known(_, _, Trace::Sizes(_) | Trace::Sized(_)) = value {
                    self.bake(
                        node,
                        "it uses a constant that is computed from the size of the input".to_owned(),
                    );
                }
            }
        }
        match translate::node(self, node, &inputs)? {
            Some(values) => self.define(node, values),
            None => self.planned(node, &inputs, NOT_RUN),
        }
    }

    /// The node's value when it needs no run.
    fn known(
        &mut self,
        node: &proto::Node<'_>,
        inputs: &[Option<Value>],
    ) -> Result<Option<(Constant, Option<String>)>, String> {
        let first = inputs.first().and_then(Option::as_ref);
        match (node.op, first) {
            ("Constant", _) => return Ok(Some((constant_node(node, self.folder)?, None))),
            ("Size", Some(v)) => {
                let n: usize = self.shape(v).iter().product();
                let n = i64::try_from(n).map_err(|e| e.to_string())?;
                let data = Data::Ints(vec![n].into());
                return Ok(Some((
                    Constant {
                        shape: Vec::new(),
                        data,
                    },
                    None,
                )));
            }
            ("Shape", Some(v)) => return Ok(fold::shape_of(node, self.shape(v)).map(|c| (c, None))),
            ("ConstantOfShape", Some(Value::Known(shape, ..))) => {
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
            ("Identity", Some(Value::Known(c, Some(_), _))) => {
                return Ok(node
                    .outputs
                    .first()
                    .map(|name| (Constant::clone(c), Some((*name).to_owned()))));
            }
            _ => {}
        }
        let parameter = inputs.iter().flatten().find_map(|v| match v {
            Value::Known(c, Some(name), _) if c.as_floats().is_some() => Some((c, name)),
            _ => None,
        });
        let name = match node.op {
            "Reshape" | "Unsqueeze" | "Squeeze" | "Cast" => parameter.map(|(_, name)| name.clone()),
            "Transpose" => parameter.map(|(_, name)| format!("{name}.transposed")),
            _ => None,
        };
        let constants: Option<Vec<Option<&Constant>>> = inputs
            .iter()
            .map(|v| match v {
                Some(Value::Known(c, ..)) => Some(Some(c.as_ref())),
                Some(_) => None,
                None => Some(None),
            })
            .collect();
        let made = constants.and_then(|c| fold::node(node, &c));
        if let (Some(_), None, Some((c, parameter))) = (&made, &name, parameter) {
            let (c, parameter) = (Rc::clone(c), parameter.clone());
            self.keep_parameter(&c, &parameter)?;
        }
        Ok(made.map(|c| (c, name)))
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
                    Some(Value::Known(c, ..)) => Some(c.as_ref()),
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
                Value::Known(c, name, _) if c.as_floats().is_some() => {
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
