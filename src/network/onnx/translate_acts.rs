//! Functions of one value.

use super::constant::Constant;
use super::import::{Importer, Value};
use super::proto::Node;
use super::translate::{Inputs, One, constant};
use crate::network::graph::{Act, Function, Op};

/// A node that computes each value from the same one of its input.
pub(super) fn activation(im: &mut Importer<'_>, node: &Node<'_>, inputs: Inputs<'_>) -> One {
    let (Some(Some(value)), Some(act)) = (inputs.first(), act(node, inputs)) else {
        return Ok(None);
    };
    // A constant is no map: nothing runs on it.
    if matches!(value, Value::Known(..)) {
        return Ok(None);
    }
    let x = im.materialize(value.clone(), node.name)?;
    im.push_op(node, Op::Activation(act), vec![x]).map(Some)
}

fn act(node: &Node<'_>, inputs: Inputs<'_>) -> Option<Act> {
    Some(match node.op {
        "Relu" => Act::Relu,
        "LeakyRelu" => Act::LeakyRelu {
            slope: node.float("alpha", 0.01),
        },
        "Sigmoid" => Act::Sigmoid,
        "Tanh" => Act::Tanh,
        "Elu" => Act::Elu {
            alpha: node.float("alpha", 1.0),
        },
        "Selu" => Act::Selu {
            alpha: node.float("alpha", 1.673_263_2),
            gamma: node.float("gamma", 1.050_701),
        },
        "Gelu" if node.text("approximate", "none") == "none" => Act::Gelu,
        "Gelu" => Act::GeluTanh,
        "Swish" if node.float("alpha", 1.0) == 1.0 => Act::Silu,
        "Mish" => Act::Mish,
        "Softplus" => Act::Softplus,
        "Softsign" => Act::Softsign,
        "HardSigmoid" => Act::HardSigmoid {
            alpha: node.float("alpha", 0.2),
            beta: node.float("beta", 0.5),
        },
        "HardSwish" => Act::HardSwish,
        "ThresholdedRelu" => Act::ThresholdedRelu {
            alpha: node.float("alpha", 1.0),
        },
        "Clip" => Act::Clip {
            low: bound(node, inputs, (1, "min"), f32::NEG_INFINITY)?,
            high: bound(node, inputs, (2, "max"), f32::INFINITY)?,
        },
        "Pow" => Act::Power {
            exponent: one_value(constant(inputs, 1)?.0)?,
        },
        "Abs" => Act::Function(Function::Abs),
        "Neg" => Act::Function(Function::Neg),
        "Reciprocal" => Act::Function(Function::Reciprocal),
        "Sqrt" => Act::Function(Function::Sqrt),
        "Exp" => Act::Function(Function::Exp),
        "Log" => Act::Function(Function::Log),
        "Erf" => Act::Function(Function::Erf),
        "Floor" => Act::Function(Function::Floor),
        "Ceil" => Act::Function(Function::Ceil),
        "Round" => Act::Function(Function::Round),
        "Sign" => Act::Function(Function::Sign),
        "Sin" => Act::Function(Function::Sin),
        "Cos" => Act::Function(Function::Cos),
        "Not" => Act::Function(Function::Not),
        "IsNaN" => Act::Function(Function::IsNan),
        "Cast" if node.int("to", 1) == 9 => Act::Function(Function::Truth),
        "Cast" if matches!(node.int("to", 1), 2..=7 | 12 | 13) => Act::Function(Function::Truncate),
        _ => return None,
    })
}

/// A limit from an input or, in old files, an attribute.
fn bound(node: &Node<'_>, inputs: Inputs<'_>, (at, name): (usize, &str), or: f32) -> Option<f32> {
    match inputs.get(at) {
        Some(Some(Value::Known(c, ..))) => one_value(c).filter(|limit| !limit.is_nan()),
        Some(Some(_)) => None,
        _ => Some(node.float(name, or)),
    }
}

/// The value of a constant that holds one.
pub(super) fn one_value(c: &Constant) -> Option<f32> {
    (c.len() == 1).then(|| c.first())
}
