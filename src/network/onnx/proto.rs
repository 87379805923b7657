//! The part of the ONNX schema that a network needs, with caps on every count. Names borrow from the file's bytes.

use super::wire::{Field, Message, packed_ints};

const MOST_NODES: usize = 60_000;
const MOST_TENSORS: usize = 60_000;
const MOST_NAMES: usize = 4096;
const MOST_INTS: usize = 1 << 16;
const MOST_DIMS: usize = 16;

/// A model file.
#[derive(Debug, Default)]
pub(super) struct Model<'a> {
    pub(super) opset: i64,
    pub(super) producer: &'a str,
    pub(super) graph: Graph<'a>,
}

/// Its graph.
#[derive(Debug, Default)]
pub(super) struct Graph<'a> {
    pub(super) name: &'a str,
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) initializers: Vec<Tensor<'a>>,
    pub(super) inputs: Vec<Value<'a>>,
    pub(super) outputs: Vec<Value<'a>>,
    pub(super) values: Vec<Value<'a>>,
}

/// An operation.
#[derive(Debug, Default)]
pub(super) struct Node<'a> {
    pub(super) name: &'a str,
    pub(super) op: &'a str,
    pub(super) domain: &'a str,
    pub(super) inputs: Vec<&'a str>,
    pub(super) outputs: Vec<&'a str>,
    attributes: Vec<Attribute<'a>>,
}

/// A named setting of an operation.
#[derive(Debug, Default)]
struct Attribute<'a> {
    name: &'a str,
    float: Option<f32>,
    int: Option<i64>,
    text: &'a [u8],
    ints: Vec<i64>,
    floats: Vec<f32>,
    tensor: Option<Tensor<'a>>,
}

/// Values as stored.
#[derive(Clone, Debug, Default)]
pub(super) struct Tensor<'a> {
    pub(super) name: &'a str,
    pub(super) dims: Vec<i64>,
    pub(super) data_type: i64,
    pub(super) raw: Option<&'a [u8]>,
    /// Payloads of `float_data`, `int32_data`, `int64_data`, `double_data`, `uint64_data`, in file order, with their field number.
    pub(super) typed: Vec<(u64, Field<'a>)>,
    pub(super) external: Vec<(&'a str, &'a str)>,
    pub(super) is_external: bool,
}

/// A typed name.
#[derive(Debug, Default)]
pub(super) struct Value<'a> {
    pub(super) name: &'a str,
    pub(super) element: i64,
    /// `None` for a dimension without a size.
    pub(super) dims: Option<Vec<Option<i64>>>,
}

impl<'a> Node<'a> {
    /// The setting's integer, or a default.
    pub(super) fn int(&self, name: &str, or: i64) -> i64 {
        self.attribute(name).and_then(|a| a.int).unwrap_or(or)
    }

    /// The setting's float, or a default.
    pub(super) fn float(&self, name: &str, or: f32) -> f32 {
        self.attribute(name).and_then(|a| a.float).unwrap_or(or)
    }

    /// The setting's integers, when it is there.
    pub(super) fn ints(&self, name: &str) -> Option<&[i64]> {
        self.attribute(name).map(|a| a.ints.as_slice())
    }

    /// The setting's floats, when it is there.
    pub(super) fn floats(&self, name: &str) -> Option<&[f32]> {
        self.attribute(name).map(|a| a.floats.as_slice())
    }

    /// The setting's text, or a default.
    pub(super) fn text<'s>(&'s self, name: &str, or: &'s str) -> &'s str {
        self.attribute(name)
            .and_then(|a| std::str::from_utf8(a.text).ok())
            .unwrap_or(or)
    }

    /// The setting's tensor.
    pub(super) fn tensor(&self, name: &str) -> Option<&Tensor<'a>> {
        self.attribute(name)?.tensor.as_ref()
    }

    /// Whether the setting is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    fn attribute(&self, name: &str) -> Option<&Attribute<'a>> {
        self.attributes.iter().find(|a| a.name == name)
    }
}

/// Decodes a model; the error is a sentence without the path.
pub(super) fn model(bytes: &[u8]) -> Result<Model<'_>, String> {
    let mut model = Model::default();
    let mut graph = None;
    for field in Message::new(bytes) {
        let (number, field) = field?;
        match number {
            2 => model.producer = field.text()?,
            7 => graph = Some(self::graph(field.bytes())?),
            8 => {
                let (domain, version) = opset(field.bytes())?;
                if domain.is_empty() || domain == "ai.onnx" {
                    model.opset = version;
                }
            }
            _ => {}
        }
    }
    model.graph = graph.ok_or("it holds no graph")?;
    Ok(model)
}

fn opset(bytes: &[u8]) -> Result<(&str, i64), String> {
    let (mut domain, mut version) = ("", 0);
    for field in Message::new(bytes) {
        match field? {
            (1, f) => domain = f.text()?,
            (2, f) => version = f.int(),
            _ => {}
        }
    }
    Ok((domain, version))
}

fn graph(bytes: &[u8]) -> Result<Graph<'_>, String> {
    let mut graph = Graph::default();
    for field in Message::new(bytes) {
        let (number, field) = field?;
        match number {
            1 => {
                let node = node(field.bytes())?;
                if graph.nodes.len() >= MOST_NODES {
                    return Err(format!(
                        "it holds more than {MOST_NODES} nodes (the next is \"{}\")",
                        node.name
                    ));
                }
                graph.nodes.push(node);
            }
            2 => graph.name = field.text()?,
            5 => {
                if graph.initializers.len() >= MOST_TENSORS {
                    return Err(format!("it holds more than {MOST_TENSORS} initializers"));
                }
                graph.initializers.push(tensor(field.bytes())?);
            }
            11 => push_value(&mut graph.inputs, field)?,
            12 => push_value(&mut graph.outputs, field)?,
            13 => push_value(&mut graph.values, field)?,
            _ => {}
        }
    }
    Ok(graph)
}

fn push_value<'a>(to: &mut Vec<Value<'a>>, field: Field<'a>) -> Result<(), String> {
    if to.len() >= MOST_TENSORS {
        return Err(format!("it lists more than {MOST_TENSORS} values"));
    }
    to.push(value(field.bytes())?);
    Ok(())
}

fn node(bytes: &[u8]) -> Result<Node<'_>, String> {
    let mut node = Node::default();
    for field in Message::new(bytes) {
        let (number, field) = field?;
        match number {
            1 => push_name(&mut node.inputs, field)?,
            2 => push_name(&mut node.outputs, field)?,
            3 => node.name = field.text()?,
            4 => node.op = field.text()?,
            5 => {
                if node.attributes.len() >= 64 {
                    return Err(format!(
                        "node \"{}\" has more than 64 attributes",
                        node.name
                    ));
                }
                node.attributes.push(attribute(field.bytes())?);
            }
            7 => node.domain = field.text()?,
            _ => {}
        }
    }
    Ok(node)
}

fn push_name<'a>(to: &mut Vec<&'a str>, field: Field<'a>) -> Result<(), String> {
    if to.len() >= MOST_NAMES {
        return Err(format!(
            "a node has more than {MOST_NAMES} inputs or outputs"
        ));
    }
    to.push(field.text()?);
    Ok(())
}

fn attribute(bytes: &[u8]) -> Result<Attribute<'_>, String> {
    let mut a = Attribute::default();
    for field in Message::new(bytes) {
        match field? {
            (1, f) => a.name = f.text()?,
            (2, Field::Fixed32(b)) => a.float = Some(f32::from_le_bytes(b)),
            (3, f) => a.int = Some(f.int()),
            (4, f) => a.text = f.bytes(),
            (5, f) => a.tensor = Some(tensor(f.bytes())?),
            (7, Field::Fixed32(b)) if a.floats.len() < MOST_INTS => {
                a.floats.push(f32::from_le_bytes(b));
            }
            (7, f) => {
                a.floats = f
                    .bytes()
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .take(MOST_INTS)
                    .map(|b| f32::from_le_bytes(*b))
                    .collect();
            }
            (8, Field::Varint(v)) if a.ints.len() < MOST_INTS => a.ints.push(v.cast_signed()),
            (8, f) => a.ints = packed_ints(f.bytes(), MOST_INTS)?,
            _ => {}
        }
    }
    Ok(a)
}

fn tensor(bytes: &[u8]) -> Result<Tensor<'_>, String> {
    let mut t = Tensor::default();
    for field in Message::new(bytes) {
        match field? {
            (1, Field::Varint(v)) => t.dims.push(v.cast_signed()),
            (1, f) => t.dims = packed_ints(f.bytes(), MOST_DIMS)?,
            (2, f) => t.data_type = f.int(),
            (8, f) => t.name = f.text()?,
            (9, f) => t.raw = Some(f.bytes()),
            (n @ (4 | 5 | 7 | 10 | 11), f) => t.typed.push((n, f)),
            (13, f) if t.external.len() < 16 => t.external.push(entry(f.bytes())?),
            (14, f) => t.is_external = f.int() == 1,
            _ => {}
        }
        if t.dims.len() > MOST_DIMS {
            return Err(format!("a tensor has more than {MOST_DIMS} dimensions"));
        }
        if t.typed.len() > MOST_INTS {
            return Err(format!(
                "tensor \"{}\" is written one value at a time; save it with raw data",
                t.name
            ));
        }
    }
    Ok(t)
}

fn entry(bytes: &[u8]) -> Result<(&str, &str), String> {
    let (mut key, mut value) = ("", "");
    for field in Message::new(bytes) {
        match field? {
            (1, f) => key = f.text()?,
            (2, f) => value = f.text()?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn value(bytes: &[u8]) -> Result<Value<'_>, String> {
    let mut v = Value::default();
    for field in Message::new(bytes) {
        match field? {
            (1, f) => v.name = f.text()?,
            (2, f) => (v.element, v.dims) = tensor_type(f.bytes())?,
            _ => {}
        }
    }
    Ok(v)
}

type TensorType = (i64, Option<Vec<Option<i64>>>);

fn tensor_type(bytes: &[u8]) -> Result<TensorType, String> {
    let mut out = (0, None);
    for field in Message::new(bytes) {
        let (1, f) = field? else { continue };
        for field in Message::new(f.bytes()) {
            match field? {
                (1, f) => out.0 = f.int(),
                (2, f) => out.1 = Some(dims(f.bytes())?),
                _ => {}
            }
        }
    }
    Ok(out)
}

fn dims(bytes: &[u8]) -> Result<Vec<Option<i64>>, String> {
    let mut out = Vec::new();
    for field in Message::new(bytes) {
        let (1, f) = field? else { continue };
        let mut size = None;
        for field in Message::new(f.bytes()) {
            if let (1, f) = field? {
                size = Some(f.int());
            }
        }
        if out.len() >= MOST_DIMS {
            return Err(format!("a value has more than {MOST_DIMS} dimensions"));
        }
        out.push(size);
    }
    Ok(out)
}
