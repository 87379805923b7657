//! Sizes that follow the roi: whole-number expressions over the sizes of tensors made before.

use super::graph::TensorId;
use serde::{Deserialize, Serialize};

/// Longest expression that is kept; longer ones count as made for one size.
const MOST_TERMS: usize = 96;

/// A size, or a place along an axis, as a number or as something that is computed for each roi.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Size {
    /// This number whatever the roi.
    Fixed(i64),
    /// The size of a tensor along one of its axes.
    Of(TensorId, usize),
    /// Two sizes combined.
    Both(SizeOp, Box<Self>, Box<Self>),
}

/// How two sizes are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SizeOp {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Quotient, rounded towards 0 as ONNX does.
    Div,
    /// What the quotient leaves, with the sign of the divisor.
    Mod,
    /// The smaller.
    Min,
    /// The larger.
    Max,
}

impl Size {
    /// Two sizes combined, worked out at once when both are numbers; `None` when it overflows or grows too long.
    pub fn both(op: SizeOp, a: Self, b: Self) -> Option<Self> {
        if let (Self::Fixed(a), Self::Fixed(b)) = (&a, &b) {
            return op.apply(*a, *b).map(Self::Fixed);
        }
        match (op, &a, &b) {
            (SizeOp::Mul, Self::Fixed(1), _) | (SizeOp::Add, Self::Fixed(0), _) => Some(b),
            (SizeOp::Mul | SizeOp::Div, _, Self::Fixed(1))
            | (SizeOp::Add | SizeOp::Sub, _, Self::Fixed(0)) => Some(a),
            _ => {
                let made = Self::Both(op, Box::new(a), Box::new(b));
                (made.terms() <= MOST_TERMS).then_some(made)
            }
        }
    }

    /// The product of several; 1 of none.
    pub fn product(of: impl IntoIterator<Item = Self>) -> Option<Self> {
        of.into_iter()
            .try_fold(Self::Fixed(1), |all, one| Self::both(SizeOp::Mul, all, one))
    }

    /// Its value for these shapes; `None` when it overflows, divides by 0 or names a tensor without a shape.
    pub fn value(&self, shapes: &[Vec<usize>]) -> Option<i64> {
        match self {
            Self::Fixed(v) => Some(*v),
            Self::Of(id, axis) => i64::try_from(*shapes.get(id.index())?.get(*axis)?).ok(),
            Self::Both(op, a, b) => op.apply(a.value(shapes)?, b.value(shapes)?),
        }
    }

    /// Whether no roi changes it.
    pub const fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }

    /// Replaces the tensors it names.
    pub fn rename(&mut self, of: &impl Fn(TensorId) -> TensorId) {
        match self {
            Self::Fixed(_) => {}
            Self::Of(id, _) => *id = of(*id),
            Self::Both(_, a, b) => {
                a.rename(of);
                b.rename(of);
            }
        }
    }

    fn terms(&self) -> usize {
        match self {
            Self::Fixed(_) | Self::Of(..) => 1,
            Self::Both(_, a, b) => a.terms() + b.terms(),
        }
    }
}

impl SizeOp {
    fn apply(self, a: i64, b: i64) -> Option<i64> {
        match self {
            Self::Add => a.checked_add(b),
            Self::Sub => a.checked_sub(b),
            Self::Mul => a.checked_mul(b),
            Self::Div => a.checked_div(b),
            Self::Mod => {
                let r = a.checked_rem(b)?;
                Some(if r != 0 && (r < 0) != (b < 0) {
                    r + b
                } else {
                    r
                })
            }
            Self::Min => Some(a.min(b)),
            Self::Max => Some(a.max(b)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotient_below_zero_is_rounded_towards_zero_as_constants_are() {
        let x = Size::Of(TensorId(0), 0);
        let minus = Size::both(SizeOp::Sub, Size::Fixed(0), x).unwrap();
        let half = Size::both(SizeOp::Div, minus, Size::Fixed(2)).unwrap();
        assert_eq!(half.value(&[vec![7]]), Some(-3));
        let fixed = Size::both(SizeOp::Div, Size::Fixed(-7), Size::Fixed(2));
        assert_eq!(fixed, Some(Size::Fixed(-3)));
    }

    #[test]
    fn a_size_is_computed_for_each_shape_and_overflow_is_none() {
        let x = || Size::Of(TensorId(0), 1);
        let half = Size::both(SizeOp::Div, x(), Size::Fixed(2)).unwrap();
        let pad = Size::both(SizeOp::Mod, Size::Fixed(-7), x()).unwrap();
        let shapes = vec![vec![3, 9]];
        assert_eq!(half.value(&shapes), Some(4));
        assert_eq!(pad.value(&shapes), Some(2));
        assert_eq!(
            Size::both(SizeOp::Mul, Size::Fixed(i64::MAX), Size::Fixed(2)),
            None
        );
        assert_eq!(
            Size::both(SizeOp::Div, x(), Size::Fixed(0))
                .unwrap()
                .value(&shapes),
            None
        );
        assert_eq!(Size::product([]), Some(Size::Fixed(1)));
    }
}
