//! Operations on tensors of any rank: kernels that walk their result in memory order and their operands by strides.
//! They run once for a whole batch, each value one fixed chain of operations.

mod each;
mod matmul;
mod pick;
mod prepare;
mod reduce;
mod rows;
mod views;
mod windows;

use super::arena::Place;
use super::isa::Isa;
use super::posts::PostOp;
use crate::jobs::Control;
use std::sync::Arc;

/// Values that an operation reads.
#[derive(Clone, Debug)]
enum Operand {
    /// A place of the arena.
    Place(Place),
    /// A constant.
    Values(Arc<[f32]>),
}

impl Operand {
    /// Address of the first value and how many there are.
    fn span(&self) -> (*const f32, usize) {
        match self {
            Self::Place(p) => (p.start().cast_const(), p.len()),
            Self::Values(v) => (v.as_ptr(), v.len()),
        }
    }
}

/// What an operation on tensors of any rank does.
#[derive(Clone, Debug)]
enum Kernel {
    Pick(Vec<pick::Pick>),
    Each(each::Each),
    MatMul(matmul::MatMul),
    Rows(rows::Rows),
    Reduce(reduce::Reducing),
}

/// Such an operation, ready to run.
#[derive(Clone, Debug)]
pub(super) struct TensorStep {
    kernel: Kernel,
    end: End,
}

/// Where the results go, and what is done to them before.
#[derive(Clone, Debug)]
struct End {
    target: Place,
    posts: Vec<PostOp>,
    /// Channels of the result, when they run fastest.
    channels: usize,
}

impl TensorStep {
    /// Runs for the whole batch.
    pub(super) fn run(&self, isa: Isa, control: &Control) {
        match &self.kernel {
            Kernel::Pick(parts) => {
                for part in parts {
                    part.run(isa, &self.end, control);
                }
            }
            Kernel::Each(each) => each.run(isa, &self.end, control),
            Kernel::MatMul(product) => product.run(isa, &self.end, control),
            Kernel::Rows(rows) => rows.run(isa, &self.end, control),
            Kernel::Reduce(reducing) => reducing.run(isa, &self.end, control),
        }
    }
}
