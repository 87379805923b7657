//! Windows of tokens: cut from a map with padding and rolling, put together again; regions and biases of their places.

use super::Operand;
use super::pick::{Along, Pick};
use super::prepare::Tensor;
use crate::network::windows::{Side, WindowPart, Windowed};

/// The moves of a part of attention inside windows; the result lies in C order.
pub(super) fn picks(op: &Windowed, inputs: &[Tensor], out: &Tensor) -> Result<Vec<Pick>, String> {
    let x = &inputs[0];
    Ok(match op.part {
        WindowPart::Cut { shifted } => cut(x, out, &op.sides(&x.shape)?, shifted),
        WindowPart::Join { shifted } => vec![joined(x, out, &op.sides(&out.shape)?, shifted)],
        WindowPart::Regions => vec![constant(op.regions(&x.shape)?)],
        WindowPart::Bias => {
            let [heads, places, _] = out.shape[..] else {
                return Err("it makes no table of pairs".to_owned());
            };
            let Some(Operand::Values(table)) = inputs.get(1).map(|t| &t.operand) else {
                return Err("its table must be a constant".to_owned());
            };
            let rows = op.rows(places);
            let biases = (0..heads).flat_map(|h| rows.iter().map(move |r| table[r * heads + h]));
            vec![constant(biases.collect())]
        }
    })
}

fn constant(values: Vec<f32>) -> Pick {
    Pick {
        dims: vec![values.len()],
        source: Operand::Values(values.into()),
        from: vec![Along::Step(1)],
        base: 0,
        to: vec![1],
        first: 0,
        fill: 0.0,
    }
}

/// How much an index along each axis counts in one number of all of them.
fn units(sizes: impl DoubleEndedIterator<Item = usize>) -> Vec<usize> {
    let mut unit = 1;
    let mut out: Vec<usize> = sizes
        .rev()
        .map(|n| {
            unit *= n;
            unit / n
        })
        .collect();
    out.reverse();
    out
}

/// One move a window.
fn cut(x: &Tensor, out: &Tensor, sides: &[Side], shifted: bool) -> Vec<Pick> {
    let count: usize = sides.iter().map(|s| s.windows).product();
    let windows = units(sides.iter().map(|s| s.windows));
    let places = units(sides.iter().map(|s| s.places));
    let last = x.shape.len() - 1;
    (0..count)
        .map(|window| {
            let mut pick = Pick {
                source: x.operand.clone(),
                dims: vec![x.shape[0]],
                from: vec![Along::Step(x.strides[0])],
                base: 0,
                to: vec![count * out.strides[0]],
                first: window * out.strides[0],
                fill: 0.0,
            };
            for (axis, side) in sides.iter().enumerate() {
                let first = window / windows[axis] % side.windows * side.places;
                let roll = if shifted { side.shift } else { 0 };
                let from = |i: usize| {
                    let at = (first + i + roll) % side.padded();
                    (at < x.shape[axis + 1]).then(|| at * x.strides[axis + 1])
                };
                pick.dims.push(side.places);
                pick.from
                    .push(Along::Table((0..side.places).map(from).collect()));
                pick.to.push(places[axis] * out.strides[1]);
            }
            pick.dims.push(x.shape[last]);
            pick.from.push(Along::Step(x.strides[last]));
            pick.to.push(out.strides[2]);
            pick
        })
        .collect()
}

fn joined(x: &Tensor, out: &Tensor, sides: &[Side], shifted: bool) -> Pick {
    let count: usize = sides.iter().map(|s| s.windows).product();
    let windows = units(sides.iter().map(|s| s.windows));
    let places = units(sides.iter().map(|s| s.places));
    let mut from = vec![Along::Step(count * x.strides[0])];
    for (axis, side) in sides.iter().enumerate() {
        let roll = if shifted { side.shift } else { 0 };
        let place = |i: usize| {
            let at = (i + side.padded() - roll) % side.padded();
            let window = at / side.places * windows[axis] * x.strides[0];
            Some(window + at % side.places * places[axis] * x.strides[1])
        };
        from.push(Along::Table((0..out.shape[axis + 1]).map(place).collect()));
    }
    from.push(Along::Step(x.strides[2]));
    Pick {
        source: x.operand.clone(),
        dims: out.shape.clone(),
        from,
        base: 0,
        to: out.strides.clone(),
        first: 0,
        fill: 0.0,
    }
}
