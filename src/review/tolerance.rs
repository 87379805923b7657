//! The verdict in one word, best first, and what is asked of it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How alike two results are, worst first so that the better is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// They differ, and not only at seams.
    Other,
    /// What differs lies at seams.
    Seam,
    /// The same findings within the stated tolerance.
    Tolerance,
    /// The same findings but for rounding: scores within 1e-5, boxes within 1e-3.
    Float,
    /// The same bits.
    Bitwise,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Other => "other",
            Self::Seam => "seam",
            Self::Tolerance => "tolerance",
            Self::Float => "float",
            Self::Bitwise => "bitwise",
        })
    }
}

/// How far matched findings may drift apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Scores, absolute.
    pub score: f64,
    /// Box edges, in voxels (mm where both sides are in mm).
    #[serde(rename = "box")]
    pub edge: f64,
    /// Least Dice of a label.
    pub dice: f64,
}

impl Limits {
    /// Rounding of two float32 programs.
    pub const FLOAT: Self = Self {
        score: 1e-5,
        edge: 1e-3,
        dice: 1.0,
    };
    /// What "tolerance" means where nothing is said.
    pub const DEFAULT: Self = Self {
        score: 0.01,
        edge: 0.5,
        dice: 0.99,
    };
}

/// What the caller asks of the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tolerance {
    /// The least verdict that is a yes.
    pub at_least: Verdict,
    /// What "tolerance" means.
    pub limits: Limits,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self {
            at_least: Verdict::Bitwise,
            limits: Limits::DEFAULT,
        }
    }
}

impl FromStr for Tolerance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = |at_least| {
            Ok(Self {
                at_least,
                ..Self::default()
            })
        };
        match text {
            "bitwise" => return word(Verdict::Bitwise),
            "float" => return word(Verdict::Float),
            _ => {}
        }
        let bad = || {
            format!(
                "a tolerance is bitwise, float, or limits of 0 and more such as score=0.01,box=0.5 (dice=0.99 for labels); found \"{text}\""
            )
        };
        let mut limits = Limits::DEFAULT;
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(bad)?;
            let value: f64 = value.trim().parse().map_err(|_not_a_number| bad())?;
            if !(value.is_finite() && value >= 0.0) {
                return Err(bad());
            }
            match key.trim() {
                "score" => limits.score = value,
                "box" => limits.edge = value,
                "dice" if value <= 1.0 => limits.dice = value,
                _ => return Err(bad()),
            }
        }
        Ok(Self {
            at_least: Verdict::Tolerance,
            limits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances_are_read_as_the_command_line_writes_them() {
        let t: Tolerance = "score=0.02,box=1.5".parse().unwrap();
        assert_eq!(t.at_least, Verdict::Tolerance);
        assert_eq!((t.limits.score, t.limits.edge), (0.02, 1.5));
        assert_eq!(
            "float".parse::<Tolerance>().unwrap().at_least,
            Verdict::Float
        );
        for bad in [
            "",
            "score",
            "score=x",
            "score=-1",
            "score=nan",
            "edge=1",
            "dice=2",
            "seam",
        ] {
            let said = bad.parse::<Tolerance>().unwrap_err();
            assert!(said.contains(bad), "{said}");
        }
    }

    #[test]
    fn verdicts_stand_in_the_order_of_the_contract() {
        use Verdict::{Bitwise, Float, Other, Seam, Tolerance};
        assert!(Bitwise > Float && Float > Tolerance && Tolerance > Seam && Seam > Other);
    }
}
