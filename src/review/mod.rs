//! Two results held against each other or against truth, and what windows do to one: parity, label flips, FROC, seam metrics.

pub mod curves;
pub mod frame;
pub mod labels;
mod parity;
pub mod reference;
mod report;
pub mod seams;
mod shapes;
mod tolerance;
pub mod truth;

pub use parity::{Drifts, Own, Row, RowKind, Shape, Side, StudyParity, compare};
pub use report::{ParityReport, StudyRow};
pub use tolerance::{Limits, Tolerance, Verdict};
