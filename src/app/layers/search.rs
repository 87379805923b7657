//! The lines of the layer list that a search leaves: by name, by operation, by shape.

use super::{LayerRow, Layers};
use std::collections::BTreeSet;

/// A line of the list that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// A stage, and how many of its layers were found.
    Stage(usize, usize),
    /// A layer.
    Layer(usize),
    /// Why the layer above cannot be run.
    Reason(usize),
}

/// What was typed, taken apart: every part must be found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Query {
    words: Vec<String>,
    /// Dimensions next to each other ("1x32x128").
    runs: Vec<Vec<usize>>,
    /// Dimensions in this order, others between them allowed ("32 128").
    dims: Vec<usize>,
}

impl Query {
    fn new(text: &str) -> Self {
        let mut out = Self::default();
        let text = text.to_lowercase().replace(['\u{d7}', '*'], "x");
        for word in text.split([' ', ',', '(', ')', '[', ']']) {
            let parts: Option<Vec<usize>> = word.split('x').map(|p| p.parse().ok()).collect();
            match parts {
                Some(dims) if dims.len() > 1 => out.runs.push(dims),
                Some(dims) => out.dims.extend(dims),
                None if !word.is_empty() => out.words.push(word.to_owned()),
                None => {}
            }
        }
        out
    }

    fn finds(&self, row: &LayerRow) -> bool {
        self.words.iter().all(|w| row.words.contains(w.as_str())) && self.fits(row)
    }

    fn fits(&self, row: &LayerRow) -> bool {
        if self.runs.is_empty() && self.dims.is_empty() {
            return true;
        }
        row.layer.shapes.iter().any(|shape| {
            let run = |r: &Vec<usize>| shape.windows(r.len()).any(|w| w == r);
            let mut left = shape.iter();
            let in_order = self.dims.iter().all(|d| left.any(|n| n == d));
            self.runs.iter().all(run) && in_order
        }) || self.runs.is_empty() && self.numbers_in_name(row)
    }

    /// A number may be a part of a name ("layer 3"), too.
    fn numbers_in_name(&self, row: &LayerRow) -> bool {
        self.dims.iter().all(|d| row.words.contains(&d.to_string()))
    }
}

/// The lines for a search with these stages folded; a stage without a hit is left out.
pub fn lines(layers: &Layers, text: &str, folded: &BTreeSet<usize>) -> Vec<Line> {
    let query = Query::new(text);
    let mut out = Vec::with_capacity(layers.rows.len() + layers.stages.len());
    for (i, stage) in layers.stages.iter().enumerate() {
        let head = out.len();
        out.push(Line::Stage(i, 0));
        let mut found = 0;
        for at in stage.first..stage.first + stage.n {
            if layers.rows.get(at).is_some_and(|r| query.finds(r)) {
                found += 1;
                if !folded.contains(&i) {
                    out.push(Line::Layer(at));
                    if layers.rows[at].layer.reason.is_some() {
                        out.push(Line::Reason(at));
                    }
                }
            }
        }
        if found == 0 {
            out.truncate(head);
        } else if let Some(line) = out.get_mut(head) {
            *line = Line::Stage(i, found);
        }
    }
    out
}
