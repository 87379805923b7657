//! Windows of tokens: how a map is padded, rolled and cut for attention inside windows, at any size of the map. A map no
//! larger than the window along an axis is one window there, which is not shifted.

use super::graph::{Graph, Op};
use super::shapes::text;
use super::tensor_op::TensorOp;
use serde::{Deserialize, Serialize};

/// What attention inside windows of `window` places does with a map of tokens (N, places..., width).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Windowed {
    /// Places of a window along each axis.
    pub window: Vec<usize>,
    /// Which part of it.
    pub part: WindowPart,
}

/// The parts of attention inside windows that are no arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WindowPart {
    /// Input: x. Zeros after its end up to whole windows, half a window to the front when `shifted`, cut: (N windows, places, width).
    Cut {
        /// Whether it is rolled by half a window first.
        shifted: bool,
    },
    /// Inputs: windows, the map that they were cut from. Windows put together, rolled back, without padding.
    Join {
        /// Whether they were shifted.
        shifted: bool,
    },
    /// Input: x. For each place of each window (windows, places) the region that a shifted window must not attend across.
    Regions,
    /// Inputs: windows, table (distances, heads). The learned bias of each pair of places (heads, places, places).
    Bias,
}

/// Windows along one axis of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// Places of a window.
    pub(crate) places: usize,
    /// How many windows.
    pub(crate) windows: usize,
    /// By how many places a shifted map is rolled.
    pub(crate) shift: usize,
}

impl Side {
    /// Size of the map with its padding.
    pub(crate) const fn padded(self) -> usize {
        self.places.saturating_mul(self.windows)
    }
}

impl Windowed {
    /// The operation's type in a word.
    pub const fn kind(&self) -> &'static str {
        match self.part {
            WindowPart::Cut { .. } => "WindowPartition",
            WindowPart::Join { .. } => "WindowReverse",
            WindowPart::Regions => "WindowRegions",
            WindowPart::Bias => "RelativeBias",
        }
    }

    /// Windows along each axis of a map of this shape.
    pub(crate) fn sides(&self, map: &[usize]) -> Result<Vec<Side>, String> {
        let [_, space @ .., _] = map else {
            return Err(format!(
                "expected (N, places..., width), found {}",
                text(map)
            ));
        };
        if space.len() != self.window.len() || self.window.contains(&0) || space.contains(&0) {
            return Err(format!(
                "windows of {} do not fit a map of {}",
                text(&self.window),
                text(map)
            ));
        }
        let pairs = space.iter().zip(&self.window);
        Ok(pairs
            .map(|(n, w)| Side {
                places: *n.min(w),
                windows: n.div_ceil(*n.min(w)),
                shift: if n > w { w / 2 } else { 0 },
            })
            .collect())
    }

    /// The shape that it makes.
    pub(super) fn made(&self, inputs: &[&[usize]]) -> Result<Vec<usize>, String> {
        let x = *inputs.first().ok_or("it needs an input")?;
        let second = || inputs.get(1).copied().ok_or("it needs two inputs");
        match self.part {
            WindowPart::Cut { .. } => self.cut(x),
            WindowPart::Join { .. } => {
                let map = second()?;
                let want = self.cut(map)?;
                if x == want {
                    Ok(map.to_vec())
                } else {
                    Err(format!(
                        "windows of {} do not make a map of {}",
                        text(x),
                        text(map)
                    ))
                }
            }
            WindowPart::Regions => {
                let (windows, places) = counts(&self.sides(x)?)?;
                Ok(vec![windows, places])
            }
            WindowPart::Bias => {
                let places = x.get(1).copied().unwrap_or(0);
                let most = product(self.window.iter().copied());
                let distances = product(self.window.iter().map(|w| (2 * w).saturating_sub(1)));
                match *second()? {
                    [rows, heads] if Some(rows) == distances && Some(places) <= most => {
                        Ok(vec![heads, places, places])
                    }
                    _ => Err(format!(
                        "its table of {} is not one of windows of {} with {places} places",
                        text(second()?),
                        text(&self.window)
                    )),
                }
            }
        }
    }

    fn cut(&self, map: &[usize]) -> Result<Vec<usize>, String> {
        let (windows, places) = counts(&self.sides(map)?)?;
        let (Some(n), Some(width)) = (map.first(), map.last()) else {
            return Err("it needs a map".to_owned());
        };
        let all = n.checked_mul(windows).ok_or("too many windows")?;
        Ok(vec![all, places, *width])
    }

    /// The regions of a map of this shape, window by window: along an axis that is shifted the last window falls into what lay
    /// before its middle and what came round from the front, and stays apart from the windows before.
    pub(crate) fn regions(&self, map: &[usize]) -> Result<Vec<f32>, String> {
        let sides = self.sides(map)?;
        let (windows, places) = counts(&sides)?;
        let mut out = Vec::with_capacity(windows.saturating_mul(places));
        for window in 0..windows {
            for place in 0..places {
                let (mut w, mut p) = (window, place);
                let (mut region, mut unit) = (0u16, 1u16);
                for side in sides.iter().rev() {
                    let at = w % side.windows * side.places + p % side.places;
                    (w, p) = (w / side.windows, p / side.places);
                    let whole = side.padded();
                    let strip = match side.shift {
                        0 => 0,
                        s if at >= whole - s => 2,
                        _ => u16::from(at >= whole - side.places),
                    };
                    region += strip * unit;
                    unit *= 3;
                }
                out.push(f32::from(region));
            }
        }
        Ok(out)
    }

    /// For each pair of the first `places` places of a whole window the row of the table that holds its bias.
    pub(crate) fn rows(&self, places: usize) -> Vec<usize> {
        let at = |mut i: usize| {
            let mut out = vec![0; self.window.len()];
            for (slot, w) in out.iter_mut().zip(&self.window).rev() {
                *slot = i % w;
                i /= w;
            }
            out
        };
        let all: Vec<Vec<usize>> = (0..places).map(at).collect();
        let row = |a: &Vec<usize>, b: &Vec<usize>| {
            let pairs = a.iter().zip(b).zip(&self.window);
            pairs.fold(0, |row, ((a, b), w)| row * (2 * w - 1) + a + w - 1 - b)
        };
        let pairs = all.iter().flat_map(|a| all.iter().map(move |b| (a, b)));
        pairs.map(|(a, b)| row(a, b)).collect()
    }
}

/// Windows and places of a window.
fn counts(sides: &[Side]) -> Result<(usize, usize), String> {
    product(sides.iter().map(|s| s.windows))
        .zip(product(sides.iter().map(|s| s.places)))
        .ok_or_else(|| "the size overflows".to_owned())
}

fn product(mut of: impl Iterator<Item = usize>) -> Option<usize> {
    of.try_fold(1usize, |n, d| n.checked_mul(d))
}

/// Name of the buffer with the rows of the table, after the name of the node that adds them.
const INDEX: &str = ".relative_position_index";

/// What the buffer of this name must hold: which row of the table each pair of places of a window adds. `None` for others.
pub(super) fn index(graph: &Graph, buffer: &str) -> Option<Vec<f32>> {
    let node = buffer.strip_suffix(INDEX)?;
    let op = graph.nodes.iter().find_map(|n| match &n.op {
        Op::Tensor(TensorOp::Window(op)) if n.name == node => Some(op),
        _ => None,
    })?;
    let rows = op.rows(product(op.window.iter().copied())?);
    let exact = |r: &usize| u32::try_from(*r).ok().filter(|r| *r < 1 << 24);
    #[expect(clippy::cast_precision_loss, reason = "exact below 2^24")]
    rows.iter().map(|r| exact(r).map(|r| r as f32)).collect()
}

/// Refuses a buffer of rows other than those that are computed here.
pub(super) fn check(graph: &Graph, buffer: &str, values: &[f32]) -> Result<(), String> {
    match index(graph, buffer) {
        Some(want) if want != values => Err(format!(
            "\"{buffer}\" holds other rows than MONAI's for its window: this version computes them and cannot use others"
        )),
        _ => Ok(()),
    }
}
