//! The slow, plain evaluation of operations on tensors of any rank, in f64 and C order.

use super::graph::PadMode;
use super::tensor_op::{Binary, Coordinates, Nearest, PoolKind, Reduce, ResizeTo, TensorOp};
use super::tensor_shapes::{cut_at, sizes};
use super::windows::{WindowPart, Windowed};

/// A tensor in C order.
#[derive(Clone)]
pub(super) struct Dense {
    pub(super) shape: Vec<usize>,
    pub(super) data: Vec<f64>,
}

impl Dense {
    fn at(&self, index: &[usize]) -> f64 {
        let place = index
            .iter()
            .zip(&self.shape)
            .fold(0, |at, (i, d)| at * d + i);
        self.data[place]
    }

    /// Read as one of a larger shape, by the rules of broadcasting.
    fn wide(&self, index: &[usize]) -> f64 {
        let skip = index.len() - self.shape.len();
        let own: Vec<usize> = index[skip..]
            .iter()
            .zip(&self.shape)
            .map(|(i, d)| if *d == 1 { 0 } else { *i })
            .collect();
        self.at(&own)
    }
}

/// Every index of a shape, in C order.
fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let shape = shape.to_vec();
    (0..shape.iter().product::<usize>()).map(move |mut n| {
        let mut index = vec![0; shape.len()];
        for (i, d) in index.iter_mut().zip(&shape).rev() {
            *i = n % d;
            n /= d;
        }
        index
    })
}

/// The result, of this shape.
#[expect(clippy::too_many_lines, reason = "one arm an operation")]
pub(super) fn run(op: &TensorOp, x: &[Dense], shape: &[usize], all: &[Vec<usize>]) -> Vec<f64> {
    let a = &x[0];
    let each = |f: &dyn Fn(&[usize]) -> f64| indices(shape).map(|i| f(&i)).collect::<Vec<f64>>();
    match op {
        TensorOp::Reshape { .. } => a.data.clone(),
        TensorOp::Transpose { perm } => each(&|i| {
            let mut from = vec![0; i.len()];
            for (axis, p) in perm.iter().enumerate() {
                from[*p] = i[axis];
            }
            a.at(&from)
        }),
        TensorOp::Slice { cuts } => each(&|i| {
            let mut from = i.to_vec();
            for cut in cuts {
                let (start, step, _) = cut_at(cut, &a.shape, all).unwrap();
                let at = signed(start) + signed(i[cut.axis]) * step;
                from[cut.axis] = usize::try_from(at).unwrap();
            }
            a.at(&from)
        }),
        TensorOp::Concat { axis } => each(&|i| {
            let mut from = i.to_vec();
            for part in x {
                if from[*axis] < part.shape[*axis] {
                    return part.at(&from);
                }
                from[*axis] -= part.shape[*axis];
            }
            panic!("more places than inputs")
        }),
        TensorOp::Pad { begin, mode, .. } => {
            let begin = sizes(begin, all).unwrap();
            each(&|i| {
                let mut from = Vec::new();
                for (axis, i) in i.iter().enumerate() {
                    let last = signed(a.shape[axis]) - 1;
                    let mut at = signed(*i) - begin[axis];
                    match mode {
                        PadMode::Constant { value } if at < 0 || at > last => {
                            return f64::from(*value);
                        }
                        PadMode::Constant { .. } => {}
                        PadMode::Edge => at = at.clamp(0, last),
                        PadMode::Wrap => at = at.rem_euclid(last + 1),
                        PadMode::Reflect => {
                            while at < 0 || at > last {
                                at = if at < 0 { -at } else { 2 * last - at };
                            }
                        }
                    }
                    from.push(usize::try_from(at).unwrap());
                }
                a.at(&from)
            })
        }
        TensorOp::Expand { .. } => each(&|i| a.wide(i)),
        TensorOp::Gather { axis, index } => each(&|i| {
            let mut from = i.to_vec();
            let place = index[i[*axis]];
            let place = if place < 0 {
                place + signed(a.shape[*axis])
            } else {
                place
            };
            from[*axis] = usize::try_from(place).unwrap();
            a.at(&from)
        }),
        TensorOp::Tile { .. } => each(&|i| {
            let from: Vec<usize> = i.iter().zip(&a.shape).map(|(i, d)| i % d).collect();
            a.at(&from)
        }),
        TensorOp::MatMul => each(&|i| {
            let (outer, last) = i.split_at(i.len() - 2);
            let k = a.shape[a.shape.len() - 1];
            let dot: f64 = (0..k)
                .map(|j| {
                    a.wide(&[outer, &[last[0], j]].concat())
                        * x[1].wide(&[outer, &[j, last[1]]].concat())
                })
                .sum();
            dot + x.get(2).map_or(0.0, |b| b.data[last[1]])
        }),
        TensorOp::Linear => each(&|i| {
            let (outer, n) = i.split_at(i.len() - 1);
            let dot: f64 = (0..x[1].shape[1])
                .map(|j| a.at(&[outer, &[j]].concat()) * x[1].at(&[n[0], j]))
                .sum();
            dot + x.get(2).map_or(0.0, |b| b.data[n[0]])
        }),
        TensorOp::Window(op) => window(op, x, shape),
        TensorOp::Binary(op) => each(&|i| binary(*op, a.wide(i), x[1].wide(i))),
        TensorOp::Where => each(&|i| {
            if a.wide(i) == 0.0 {
                x[2].wide(i)
            } else {
                x[1].wide(i)
            }
        }),
        TensorOp::Softmax { first, last, log } => each(&|i| {
            let group = &shape[*first..=*last];
            let of = |g: &[usize]| a.at(&[&i[..*first], g, &i[*last + 1..]].concat());
            let most = indices(group).map(|g| of(&g)).fold(f64::MIN, f64::max);
            let sum: f64 = indices(group).map(|g| (of(&g) - most).exp()).sum();
            if *log {
                a.at(i) - most - sum.ln()
            } else {
                (a.at(i) - most).exp() / sum
            }
        }),
        TensorOp::LayerNorm { axis, eps } => {
            let inner: usize = shape[*axis..].iter().product();
            let mut out = Vec::new();
            for group in a.data.chunks(inner) {
                let mean = group.iter().sum::<f64>() / inner as f64;
                let var = group.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / inner as f64;
                for (j, v) in group.iter().enumerate() {
                    let y = (v - mean) / (var + f64::from(*eps)).sqrt();
                    let scale = x.get(1).map_or(1.0, |s| s.data[j]);
                    out.push(y * scale + x.get(2).map_or(0.0, |s| s.data[j]));
                }
            }
            out
        }
        TensorOp::Reduce { kind, axes, keep } => {
            let group: Vec<usize> = axes.iter().map(|axis| a.shape[*axis]).collect();
            each(&|i| {
                let values: Vec<f64> = indices(&group)
                    .map(|g| {
                        let mut rest = i.iter();
                        let from: Vec<usize> = (0..a.shape.len())
                            .map(|axis| match axes.iter().position(|x| *x == axis) {
                                Some(p) => {
                                    if *keep {
                                        rest.next();
                                    }
                                    g[p]
                                }
                                None => *rest.next().unwrap(),
                            })
                            .collect();
                        a.at(&from)
                    })
                    .collect();
                reduce(*kind, &values)
            })
        }
        TensorOp::Pool {
            kind,
            kernel,
            stride,
            pad_begin,
            pad_end,
            dilation,
            ..
        } => each(&|i| {
            let (mut values, mut met) = (Vec::new(), 0);
            for tap in indices(kernel) {
                let mut from = i[..2].to_vec();
                let (mut inside, mut padded) = (true, true);
                for (axis, t) in tap.iter().enumerate() {
                    let at = i[axis + 2] * stride[axis] + t * dilation[axis];
                    let size = a.shape[axis + 2];
                    inside &= at >= pad_begin[axis] && at < pad_begin[axis] + size;
                    padded &= at < pad_begin[axis] + size + pad_end[axis];
                    from.push(at.saturating_sub(pad_begin[axis]));
                }
                met += usize::from(padded);
                if inside {
                    values.push(a.at(&from));
                }
            }
            match kind {
                PoolKind::Max => values.into_iter().fold(f64::MIN, f64::max),
                PoolKind::Average { count_padding } => {
                    let n = if *count_padding { met } else { values.len() };
                    values.iter().sum::<f64>() / n as f64
                }
            }
        }),
        TensorOp::Resize {
            to,
            coordinates,
            nearest,
        } => each(&|i| {
            let place = |axis: usize| {
                let (before, after) = (a.shape[axis] as f64, shape[axis] as f64);
                let scale = match to {
                    ResizeTo::Scales(s) => f64::from(s[axis - 2]),
                    ResizeTo::Ratios(r) => r[axis - 2].0 as f64 / r[axis - 2].1 as f64,
                    ResizeTo::Sizes(_) => after / before,
                };
                let o = i[axis] as f64;
                match coordinates {
                    Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if after == 1.0 => {
                        0.0
                    }
                    Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => {
                        (o + 0.5) / scale - 0.5
                    }
                    Coordinates::Asymmetric => o / scale,
                    Coordinates::AlignCorners => o * (before - 1.0) / (after - 1.0),
                }
            };
            resized(a, i, &place, *nearest)
        }),
    }
}

fn resized(a: &Dense, i: &[usize], place: &dyn Fn(usize) -> f64, nearest: Option<Nearest>) -> f64 {
    let axes = 2..a.shape.len();
    let near = |axis: usize, at: f64| {
        let all = 0..a.shape[axis];
        all.min_by(|x, y| (*x as f64 - at).abs().total_cmp(&(*y as f64 - at).abs()))
            .unwrap()
    };
    if let Some(rounding) = nearest {
        let mut from = i[..2].to_vec();
        for axis in axes {
            let at = place(axis);
            from.push(near(
                axis,
                match rounding {
                    Nearest::Floor => (at + 1e-9).floor(),
                    Nearest::Ceil => (at - 1e-9).ceil(),
                    Nearest::RoundPreferFloor => (at - 0.5 - 1e-9).ceil(),
                    Nearest::RoundPreferCeil => (at + 0.5 + 1e-9).floor(),
                },
            ));
        }
        return a.at(&from);
    }
    let mut sum = 0.0;
    for corner in indices(&vec![2; axes.len()]) {
        let (mut share, mut from) = (1.0, i[..2].to_vec());
        for (side, axis) in corner.iter().zip(axes.clone()) {
            let at = place(axis).clamp(0.0, a.shape[axis] as f64 - 1.0);
            let rest = at - at.floor();
            share *= if *side == 1 { rest } else { 1.0 - rest };
            from.push(near(axis, at.floor() + *side as f64));
        }
        sum += share * a.at(&from);
    }
    sum
}

/// Pads, rolls and cuts one after the other, as the words say.
fn window(op: &Windowed, x: &[Dense], shape: &[usize]) -> Vec<f64> {
    let tokens = |count: usize| {
        indices(&op.window)
            .take(count)
            .map(|i| i.iter().map(|v| signed(*v)).collect::<Vec<i64>>())
            .collect::<Vec<_>>()
    };
    let map = |of: &[usize]| {
        let last = of.len() - 1;
        let pairs = of[1..last].iter().zip(&op.window);
        pairs
            .map(|(n, w)| {
                let side = (*w).min(*n);
                let shift = if n > w { w / 2 } else { 0 };
                (side, n.div_ceil(side) * side, shift)
            })
            .collect::<Vec<_>>()
    };
    // Where a place of the rolled map lies among windows: its window and its place in it.
    let split = |at: &[usize], sides: &[(usize, usize, usize)]| {
        at.iter().zip(sides).fold((0, 0), |(w, t), (i, s)| {
            (w * (s.1 / s.0) + i / s.0, t * s.0 + i % s.0)
        })
    };
    match op.part {
        WindowPart::Cut { shifted } | WindowPart::Join { shifted } => {
            let joins = matches!(op.part, WindowPart::Join { .. });
            let whole = if joins { shape } else { &x[0].shape };
            let sides = map(whole);
            let windows: usize = sides.iter().map(|s| s.1 / s.0).product();
            let tokens: usize = sides.iter().map(|s| s.0).product();
            let width = whole[whole.len() - 1];
            let mut out = vec![0.0; shape.iter().product()];
            for (place, index) in indices(whole).enumerate() {
                let last = index.len() - 1;
                let rolled: Vec<usize> = index[1..last]
                    .iter()
                    .zip(&sides)
                    .map(|(i, s)| (i + s.1 - if shifted { s.2 } else { 0 }) % s.1)
                    .collect();
                let (window, token) = split(&rolled, &sides);
                let cut = ((index[0] * windows + window) * tokens + token) * width + index[last];
                if joins {
                    out[place] = x[0].data[cut];
                } else {
                    out[cut] = x[0].data[place];
                }
            }
            out
        }
        WindowPart::Regions => {
            let sides = map(&x[0].shape);
            let padded: Vec<usize> = sides.iter().map(|s| s.1).collect();
            let mut out = vec![0.0; shape.iter().product()];
            for at in indices(&padded) {
                let (window, token) = split(&at, &sides);
                let region = at.iter().zip(&sides).fold(0, |all, (i, s)| {
                    let strip = usize::from(*i >= s.1 - s.0) + usize::from(*i >= s.1 - s.2);
                    all * 3 + if s.2 == 0 { 0 } else { strip }
                });
                out[window * shape[1] + token] = region as f64;
            }
            out
        }
        WindowPart::Bias => {
            let places = tokens(shape[1]);
            indices(shape)
                .map(|i| {
                    let pair = places[i[1]].iter().zip(&places[i[2]]).zip(&op.window);
                    let row = pair.fold(0, |row, ((a, b), w)| {
                        row * (2 * signed(*w) - 1) + a - b + signed(*w) - 1
                    });
                    x[1].at(&[usize::try_from(row).unwrap(), i[0]])
                })
                .collect()
        }
    }
}

fn binary(op: Binary, a: f64, b: f64) -> f64 {
    let truth = |t: bool| f64::from(u8::from(t));
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::Pow => a.powf(b),
        Binary::Mod { fmod: true } => a % b,
        Binary::Mod { fmod: false } => a.rem_euclid(b),
        Binary::Equal => truth(a == b),
        Binary::Less => truth(a < b),
        Binary::LessOrEqual => truth(a <= b),
        Binary::Greater => truth(a > b),
        Binary::GreaterOrEqual => truth(a >= b),
        Binary::And => truth(a != 0.0 && b != 0.0),
        Binary::Or => truth(a != 0.0 || b != 0.0),
        Binary::Xor => truth((a != 0.0) != (b != 0.0)),
        Binary::Slope => {
            if a > 0.0 {
                a
            } else {
                a * b
            }
        }
    }
}

fn reduce(kind: Reduce, v: &[f64]) -> f64 {
    let sum: f64 = v.iter().sum();
    match kind {
        Reduce::Sum => sum,
        Reduce::Mean => sum / v.len() as f64,
        Reduce::Max => v.iter().copied().fold(f64::MIN, f64::max),
        Reduce::Min => v.iter().copied().fold(f64::MAX, f64::min),
        Reduce::Prod => v.iter().product(),
        Reduce::L1 => v.iter().map(|x| x.abs()).sum(),
        Reduce::L2 => v.iter().map(|x| x * x).sum::<f64>().sqrt(),
        Reduce::SumSquare => v.iter().map(|x| x * x).sum(),
        Reduce::LogSum => sum.ln(),
        Reduce::LogSumExp => v.iter().map(|x| x.exp()).sum::<f64>().ln(),
        Reduce::ArgMax => place(v, |a, b| a > b),
        Reduce::ArgMin => place(v, |a, b| a < b),
    }
}

/// The first place whose value none beats; a place of NaN beats all.
fn place(v: &[f64], beats: impl Fn(f64, f64) -> bool) -> f64 {
    let mut best = 0;
    for (i, x) in v.iter().enumerate() {
        if !v[best].is_nan() && (x.is_nan() || beats(*x, v[best])) {
            best = i;
        }
    }
    best as f64
}

fn signed(n: usize) -> i64 {
    i64::try_from(n).unwrap()
}
