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

/// A difference in a sentence: three digits, as a power of ten only where decimals would not show them.
pub(crate) fn said(v: f64) -> String {
    match v.abs() {
        0.0 => "0".to_owned(),
        a if a >= 100.0 && a.is_finite() => format!("{v:.0}"),
        a if a >= 1.0 && a.is_finite() => format!("{v:.2}"),
        a if (0.001..1.0).contains(&a) => format!("{v:.4}"),
        _ => format!("{v:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn differences_are_said_as_people_write_them() {
        let said = [0.0, 5.22, 0.0365, 3.2e-6, 1234.5].map(super::said);
        assert_eq!(said, ["0", "5.22", "0.0365", "3.20e-6", "1234"]);
    }
}
