//! From a node on tensors of any rank to its kernel: strides, tables and walks, all laid out before the first window.

use super::super::arena::Place;
use super::super::conv::{Conv, ConvParts};
use super::super::maps::{Pooling, Rule as MapRule};
use super::super::prepare::{Preparing, Ready, three, unsupported};
use super::super::resize::{Scale, resize_picks, resize_taps};
use super::super::spans::Axis;
use super::each::{Each, Rule as EachRule};
use super::matmul::{product, turned};
use super::pick::{Along, Pick};
use super::reduce::Reducing;
use super::rows::{Rows, Rule as RowsRule};
use super::views::{MOST_AXES, Walk};
use super::{End, Kernel, Operand, TensorStep, windows};
use crate::engine::EngineError;
use crate::memory::schedule::Step;
use crate::network::axes::groups;
use crate::network::layout::Layout;
use crate::network::tensor_op::{PoolKind, ResizeTo, TensorOp};
use crate::network::tensor_shapes::{cut_at, sizes};
use crate::network::{Node, PadMode};

/// An operand with its shape and the values between neighbours along each axis.
pub(super) struct Tensor {
    pub(super) operand: Operand,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

impl Preparing<'_> {
    /// A step that only runs the epilogue over values in C order.
    pub(in super::super) fn flat(&self, step: &Step) -> Result<Ready, EngineError> {
        let source = self.places[step.sources[0]];
        let whole = Pick {
            source: Operand::Place(source),
            dims: vec![source.len()],
            from: vec![Along::Step(1)],
            base: 0,
            to: vec![1],
            first: 0,
            fill: 0.0,
        };
        self.finish(step, Kernel::Pick(vec![whole]), 1)
    }

    fn finish(&self, step: &Step, kernel: Kernel, channels: usize) -> Result<Ready, EngineError> {
        Ok(Ready::Tensor(Box::new(TensorStep {
            kernel,
            end: End {
                target: self.places[Self::target(step)?],
                posts: self.posts(step)?,
                channels,
            },
        })))
    }

    /// The kernel of an operation on tensors of any rank.
    pub(in super::super) fn tensor(
        &self,
        step: &Step,
        node: &Node,
        op: &TensorOp,
    ) -> Result<Ready, EngineError> {
        let refuse = |why: String| unsupported(node, &why);
        let inputs = self.operands(step, node)?;
        let made = Tensor {
            operand: Operand::Place(self.places[Self::target(step)?]),
            shape: self.shapes[node.outputs[0].index()].clone(),
            strides: Vec::new(),
        };
        let layout = self.layouts[node.outputs[0].index()];
        let out = Tensor {
            strides: layout.strides(&made.shape),
            ..made
        };
        if inputs
            .iter()
            .chain([&out])
            .any(|t| t.shape.len() > MOST_AXES)
        {
            return Err(refuse(format!("a tensor has more than {MOST_AXES} axes")));
        }
        let x = &inputs[0];
        let kernel = match op {
            TensorOp::Pool { .. } | TensorOp::Resize { .. } => {
                return self.spatial_op(step, op, (&x.shape, &out.shape));
            }
            TensorOp::MatMul => match self.linear(step, &inputs, &out, layout)? {
                Some(ready) => return Ok(ready),
                None => Kernel::MatMul(product(&inputs, &out).map_err(refuse)?),
            },
            TensorOp::Linear => {
                let turned = turned(inputs).ok_or_else(|| {
                    refuse("its weight must be a constant of two axes".to_owned())
                })?;
                match self.linear(step, &turned, &out, layout)? {
                    Some(ready) => return Ok(ready),
                    None => Kernel::MatMul(product(&turned, &out).map_err(refuse)?),
                }
            }
            TensorOp::Window(op) => {
                if layout != Layout::Rows {
                    return Err(refuse(
                        "windows are cut from maps of tokens alone".to_owned(),
                    ));
                }
                Kernel::Pick(windows::picks(op, &inputs, &out).map_err(refuse)?)
            }
            TensorOp::Binary(op) => {
                Kernel::Each(each(EachRule::Binary(*op), &inputs, &out, layout))
            }
            TensorOp::Where => Kernel::Each(each(EachRule::Where, &inputs, &out, layout)),
            TensorOp::Softmax { first, last, log } => Kernel::Rows(together(
                x,
                &out,
                |axis| (*first..=*last).contains(&axis),
                RowsRule::Softmax { log: *log },
            )),
            TensorOp::LayerNorm { axis, eps } => {
                let values = |i: usize| match inputs.get(i).map(|t| &t.operand) {
                    Some(Operand::Values(v)) => Ok(Some(v.clone())),
                    Some(Operand::Place(_)) => {
                        Err(refuse("its scale and shift must be constants".to_owned()))
                    }
                    None => Ok(None),
                };
                let rule = RowsRule::LayerNorm {
                    eps: f64::from(*eps),
                    scale: values(1)?,
                    shift: values(2)?,
                };
                Kernel::Rows(together(x, &out, |a| a >= *axis, rule))
            }
            TensorOp::Reduce { kind, axes, keep } => {
                let gone = |axis: &usize| axes.contains(axis);
                let kept: Vec<usize> = (0..x.shape.len()).filter(|a| *keep || !gone(a)).collect();
                let order = layout.order(out.shape.len());
                let along = |axis: usize| if gone(&axis) { 0 } else { x.strides[axis] };
                let outer: Vec<usize> = order.iter().map(|o| out.shape[*o]).collect();
                let steps: Vec<usize> = order.iter().map(|o| along(kept[*o])).collect();
                let inner: Vec<usize> = axes_sorted(axes);
                let dims: Vec<usize> = inner.iter().map(|a| x.shape[*a]).collect();
                let inner: Vec<usize> = inner.iter().map(|a| x.strides[*a]).collect();
                Kernel::Reduce(Reducing {
                    kind: *kind,
                    source: x.operand.clone(),
                    outer: Walk::merged(&outer, &[steps]),
                    inner: Walk::merged(&dims, &[inner]),
                })
            }
            _ => Kernel::Pick(self.picks(op, &inputs, &out, layout).map_err(refuse)?),
        };
        self.finish(step, kernel, out.shape.get(1).copied().unwrap_or(1))
    }

    /// The node's inputs in order: places for tensors, values for weights.
    fn operands(&self, step: &Step, node: &Node) -> Result<Vec<Tensor>, EngineError> {
        let mut sources = step.sources.iter();
        let mut out = Vec::new();
        for id in &node.inputs {
            let shape = self.shapes[id.index()].clone();
            let (operand, layout) = if self.graph.is_weight(*id) {
                (Operand::Values(self.shared(*id)?), Layout::Rows)
            } else {
                let place = sources.next().ok_or_else(|| {
                    unsupported(node, "the plan does not say where its input lies")
                })?;
                let place: Place = self.places[*place];
                (Operand::Place(place), self.layouts[id.index()])
            };
            out.push(Tensor {
                operand,
                strides: layout.strides(&shape),
                shape,
            });
        }
        Ok(out)
    }

    /// A product with a constant matrix: the convolution kernel over rows.
    fn linear(
        &self,
        step: &Step,
        inputs: &[Tensor],
        out: &Tensor,
        layout: Layout,
    ) -> Result<Option<Ready>, EngineError> {
        let (a, b) = (&inputs[0], &inputs[1]);
        let (Operand::Place(source), Operand::Values(weights), &[k, n]) =
            (&a.operand, &b.operand, b.shape.as_slice())
        else {
            return Ok(None);
        };
        let plain = layout == Layout::Rows && a.strides == Layout::Rows.strides(&a.shape);
        let rows = a.shape.iter().product::<usize>() / k;
        let bias = match inputs.get(2).map(|t| &t.operand) {
            Some(Operand::Values(v)) => Some(v.clone()),
            Some(Operand::Place(_)) => return Ok(None),
            None => None,
        };
        if !plain || out.shape.len() < 2 {
            return Ok(None);
        }
        let axis = |size: usize| Axis {
            kernel: 1,
            stride: 1,
            pad: 0,
            dilation: 1,
            input: size,
            output: size,
        };
        Ok(Some(Ready::Linear(Box::new(Conv::prepare(ConvParts {
            sources: vec![(*source, k)],
            target: self.places[Self::target(step)?],
            axes: [axis(1), axis(1), axis(rows)],
            transposed: true,
            groups: 1,
            out_channels: n,
            weights,
            bias: bias.as_deref(),
            fold: None,
            packed: None,
            posts: self.posts(step)?,
        })))))
    }

    /// Pools and resizes, which work on maps as convolutions do.
    fn spatial_op(
        &self,
        step: &Step,
        op: &TensorOp,
        (x, made): (&[usize], &[usize]),
    ) -> Result<Ready, EngineError> {
        let (before, after) = (three(&x[2..], 1), three(&made[2..], 1));
        let rule = match op {
            TensorOp::Pool {
                kind,
                kernel,
                stride,
                pad_begin,
                pad_end,
                dilation,
                ..
            } => {
                let pooling = Pooling {
                    kernel: three(kernel, 1),
                    stride: three(stride, 1),
                    pad: three(pad_begin, 0),
                    pad_end: three(pad_end, 0),
                    dilation: three(dilation, 1),
                };
                match kind {
                    PoolKind::Max => MapRule::MaxPool(pooling),
                    PoolKind::Average { count_padding } => {
                        MapRule::AvgPool(pooling, *count_padding)
                    }
                }
            }
            TensorOp::Resize {
                to,
                coordinates,
                nearest,
            } => {
                let missing = 3 - (x.len() - 2);
                let scale = |d: usize| match (to, d.checked_sub(missing)) {
                    (_, None) => Scale::Ratio(1, 1),
                    (ResizeTo::Scales(scales), Some(i)) => Scale::Stated(scales[i]),
                    (ResizeTo::Ratios(ratios), Some(i)) => Scale::Ratio(ratios[i].0, ratios[i].1),
                    (ResizeTo::Sizes(_), Some(_)) => Scale::Ratio(after[d], before[d]),
                };
                match nearest {
                    Some(rounding) => MapRule::Picked(std::array::from_fn(|d| {
                        resize_picks((before[d], after[d]), scale(d), *coordinates, *rounding)
                    })),
                    None => MapRule::Linear(std::array::from_fn(|d| {
                        resize_taps((before[d], after[d]), scale(d), *coordinates)
                    })),
                }
            }
            _ => MapRule::Same,
        };
        self.maps(step, rule)
    }

    fn picks(
        &self,
        op: &TensorOp,
        inputs: &[Tensor],
        out: &Tensor,
        layout: Layout,
    ) -> Result<Vec<Pick>, String> {
        let x = &inputs[0];
        let steps = || {
            x.strides
                .iter()
                .map(|s| Along::Step(*s))
                .collect::<Vec<_>>()
        };
        let one = |from: Vec<Along>, base: usize, fill: f32| {
            vec![placed(
                x,
                (from, base, fill),
                (&out.shape, &out.strides, 0),
                layout,
            )]
        };
        Ok(match op {
            TensorOp::Reshape { .. } => vec![seen_as(x, out)?],
            TensorOp::Transpose { perm } => one(
                perm.iter().map(|p| Along::Step(x.strides[*p])).collect(),
                0,
                0.0,
            ),
            TensorOp::Slice { cuts } => {
                let (mut from, mut base) = (steps(), 0);
                for cut in cuts {
                    let (start, step, len) = cut_at(cut, &x.shape, self.shapes)?;
                    let stride = x.strides[cut.axis];
                    from[cut.axis] = if len <= 1 {
                        // A step past the first place is never taken, however large the file has it.
                        base += start * stride;
                        Along::Step(stride)
                    } else if let Ok(step) = usize::try_from(step) {
                        base += start * stride;
                        Along::Step(step * stride)
                    } else {
                        let back = usize::try_from(step.unsigned_abs()).unwrap_or(1);
                        Along::Table(
                            (0..len)
                                .map(|i| Some((start - i * back) * stride))
                                .collect(),
                        )
                    };
                }
                one(from, base, 0.0)
            }
            TensorOp::Expand { .. } => one(
                aligned(x, out).into_iter().map(Along::Step).collect(),
                0,
                0.0,
            ),
            TensorOp::Gather { axis, index } => {
                let (mut from, stride) = (steps(), x.strides[*axis]);
                let place = |i: &i64| {
                    let at = usize::try_from(i.unsigned_abs()).ok()?;
                    let at = if *i < 0 {
                        x.shape[*axis].checked_sub(at)?
                    } else {
                        at
                    };
                    Some(at * stride)
                };
                from[*axis] = Along::Table(index.iter().map(place).collect());
                one(from, 0, 0.0)
            }
            TensorOp::Tile { repeats } => {
                let along = |axis: usize| {
                    let (d, stride) = (x.shape[axis], x.strides[axis]);
                    if repeats[axis] == 1 {
                        Along::Step(stride)
                    } else {
                        Along::Table((0..out.shape[axis]).map(|i| Some(i % d * stride)).collect())
                    }
                };
                one((0..x.shape.len()).map(along).collect(), 0, 0.0)
            }
            TensorOp::Pad { begin, mode, .. } => {
                let begin = sizes(begin, self.shapes)?;
                let along = |axis: usize| {
                    let (d, stride) = (x.shape[axis], x.strides[axis]);
                    if begin[axis] == 0 && out.shape[axis] == d {
                        return Along::Step(stride);
                    }
                    let place = |i: usize| {
                        let at = i64::try_from(i).ok()?.checked_sub(begin[axis])?;
                        padded(at, d, *mode).map(|at| at * stride)
                    };
                    Along::Table((0..out.shape[axis]).map(place).collect())
                };
                let fill = match mode {
                    PadMode::Constant { value } => *value,
                    PadMode::Edge | PadMode::Reflect | PadMode::Wrap => 0.0,
                };
                one((0..x.shape.len()).map(along).collect(), 0, fill)
            }
            TensorOp::Concat { axis } => {
                let mut at = 0;
                let part = |part: &Tensor| {
                    let from = part.strides.iter().map(|s| Along::Step(*s)).collect();
                    let first = at * out.strides[*axis];
                    at += part.shape[*axis];
                    placed(
                        part,
                        (from, 0, 0.0),
                        (&part.shape, &out.strides, first),
                        layout,
                    )
                };
                inputs.iter().map(part).collect()
            }
            _ => return Err("it has no kernel".to_owned()),
        })
    }
}

fn axes_sorted(axes: &[usize]) -> Vec<usize> {
    let mut out = axes.to_vec();
    out.sort_unstable();
    out.dedup();
    out
}

/// A part of the result, its axes in the result's memory order.
fn placed(
    x: &Tensor,
    (from, base, fill): (Vec<Along>, usize, f32),
    (dims, to, first): (&[usize], &[usize], usize),
    layout: Layout,
) -> Pick {
    let order = layout.order(dims.len());
    Pick {
        source: x.operand.clone(),
        dims: order.iter().map(|o| dims[*o]).collect(),
        from: order.iter().map(|o| from[*o].clone()).collect(),
        base,
        to: order.iter().map(|o| to[*o]).collect(),
        first,
        fill,
    }
    .merged()
}

/// The place in the input of a place `at` counted from its first; `None` in constant padding.
fn padded(at: i64, size: usize, mode: PadMode) -> Option<usize> {
    let last = i64::try_from(size).ok()? - 1;
    let inside = match mode {
        PadMode::Constant { .. } => at,
        PadMode::Edge => at.clamp(0, last),
        PadMode::Wrap => at.rem_euclid(last + 1),
        PadMode::Reflect if last == 0 => 0,
        PadMode::Reflect => {
            let around = at.rem_euclid(2 * last);
            around.min(2 * last - around)
        }
    };
    usize::try_from(inside).ok().filter(|i| *i < size)
}

/// Steps of an operand along the axes of the result, 0 where it repeats.
fn aligned(x: &Tensor, out: &Tensor) -> Vec<usize> {
    let before = out.shape.len() - x.shape.len();
    (0..out.shape.len())
        .map(|axis| match axis.checked_sub(before) {
            Some(own) if x.shape[own] == out.shape[axis] => x.strides[own],
            _ => 0,
        })
        .collect()
}

fn each(rule: EachRule, inputs: &[Tensor], out: &Tensor, layout: Layout) -> Each {
    let order = layout.order(out.shape.len());
    let dims: Vec<usize> = order.iter().map(|o| out.shape[*o]).collect();
    let steps: Vec<Vec<usize>> = inputs
        .iter()
        .map(|x| {
            let along = aligned(x, out);
            order.iter().map(|o| along[*o]).collect()
        })
        .collect();
    Each {
        rule,
        operands: inputs.iter().map(|t| t.operand.clone()).collect(),
        walk: Walk::merged(&dims, &steps),
    }
}

fn together(x: &Tensor, out: &Tensor, joined: impl Fn(usize) -> bool, rule: RowsRule) -> Rows {
    let walk = |inside: bool| {
        let axes: Vec<usize> = (0..x.shape.len())
            .filter(|a| joined(*a) == inside)
            .collect();
        let of = |v: &[usize]| axes.iter().map(|a| v[*a]).collect::<Vec<_>>();
        Walk::merged(&of(&x.shape), &[of(&x.strides), of(&out.strides)])
    };
    Rows {
        rule,
        source: x.operand.clone(),
        outer: walk(false),
        inner: walk(true),
    }
}

/// The same values in another shape: axes that both shapes are made of, with their steps on both sides.
fn seen_as(x: &Tensor, out: &Tensor) -> Result<Pick, String> {
    let mixed = || {
        format!(
            "its input of {:?} cannot be seen as {:?} without a copy of its own",
            x.shape, out.shape
        )
    };
    let mut axes: Vec<(usize, usize, usize)> = Vec::new();
    for (a, b) in groups(&x.shape, &out.shape).ok_or_else(mixed)? {
        let of = |t: &Tensor, axes: &[usize]| -> Vec<(usize, usize)> {
            axes.iter().map(|i| (t.shape[*i], t.strides[*i])).collect()
        };
        axes.extend(common(&of(x, &a), &of(out, &b)).ok_or_else(mixed)?);
    }
    // The slowest axis of the result first.
    axes.sort_by_key(|(d, _, to)| (std::cmp::Reverse(*to), std::cmp::Reverse(*d)));
    let pick = Pick {
        source: x.operand.clone(),
        dims: axes.iter().map(|a| a.0).collect(),
        from: axes.iter().map(|a| Along::Step(a.1)).collect(),
        base: 0,
        to: axes.iter().map(|a| a.2).collect(),
        first: 0,
        fill: 0.0,
    };
    Ok(pick.merged())
}

/// Axes (size, step in the input, step in the result) that two lists of axes (size, step) are both made of.
fn common(a: &[(usize, usize)], b: &[(usize, usize)]) -> Option<Vec<(usize, usize, usize)>> {
    let ends = |list: &[(usize, usize)]| {
        let mut all = vec![1];
        for (d, _) in list.iter().rev() {
            all.push(all[all.len() - 1] * d);
        }
        all
    };
    // A list without gaps is one run, whose steps follow from where in it one is.
    let run = |list: &[(usize, usize)]| {
        list.windows(2)
            .all(|w| w[0].1 == w[1].1 * w[1].0)
            .then(|| list.last().map_or(1, |l| l.1))
    };
    let step = |list: &[(usize, usize)], unit: usize| {
        let mut before = 1;
        for (d, s) in list.iter().rev() {
            if unit < before * d {
                return (unit.is_multiple_of(before)).then_some(s * (unit / before));
            }
            before *= d;
        }
        list.first().map(|l| l.1)
    };
    let mut cuts = match (run(a), run(b)) {
        (Some(_), Some(_)) => vec![1, a.iter().map(|x| x.0).product()],
        (Some(_), None) => ends(b),
        (None, Some(_)) => ends(a),
        (None, None) => [ends(a), ends(b)].concat(),
    };
    cuts.sort_unstable();
    cuts.dedup();
    let side = |list: &[(usize, usize)], unit: usize| match run(list) {
        Some(each) => Some(each * unit),
        None => step(list, unit),
    };
    let mut out = Vec::new();
    for pair in cuts.windows(2).rev() {
        let (unit, end) = (pair[0], pair[1]);
        if !end.is_multiple_of(unit) {
            return None;
        }
        out.push((end / unit, side(a, unit)?, side(b, unit)?));
    }
    Some(out)
}
