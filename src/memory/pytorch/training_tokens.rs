//! The training step of operations on tokens: what is cast and what is saved.

use super::eager::{Kind, count};
use super::frames::is_weight;
use super::tokens::{self, Saved};
use super::training::Training;
use crate::memory::Precision;
use crate::network::Node;

impl Training<'_> {
    /// Copies that autocast makes of an operation's operands, and the kind of what it makes.
    pub(super) fn cast_tokens(&mut self, node: &Node, helpers: &mut Vec<usize>) -> Kind {
        let mut widest = Kind::Half;
        for t in &node.inputs {
            if !is_weight(self.graph, *t) && self.kind[t.index()] == Kind::Full {
                widest = Kind::Full;
            }
        }
        let (to, made) = tokens::computes_in(self.graph, node, self.options.precision, widest);
        for t in &node.inputs {
            let values = count(&self.shapes[t.index()]);
            if is_weight(self.graph, *t) {
                let amp = self.options.precision == Precision::Amp;
                if amp && tokens::copies_weights(node) {
                    self.copy_weight(*t);
                }
            } else if let Some(to) = to
                && self.kind[t.index()] != to
            {
                helpers.push(self.trace.alloc("autocast copy", &[], values * to.bytes()));
            }
        }
        made
    }

    /// What a node on tokens saves: storages, and blocks of its own.
    pub(super) fn save_tokens(
        &mut self,
        node: &Node,
        casts: Vec<usize>,
    ) -> (Vec<usize>, Vec<usize>) {
        let (mut roots, mut helpers) = (Vec::new(), Vec::new());
        let made = node
            .outputs
            .first()
            .map_or(Kind::Full, |t| self.kind[t.index()]);
        let (dropped, kept) = tokens::beside(node, self.shapes, made);
        if kept > 0 {
            helpers.push(self.trace.alloc("statistics and indices", &[], kept));
        }
        if dropped > 0 {
            let id = self.trace.alloc("statistics and indices", &[], dropped);
            self.trace.free(id);
        }
        let saved = tokens::saved(node, self.shapes);
        if saved == Saved::Inputs && !casts.is_empty() {
            helpers.extend(casts);
        } else {
            for id in casts {
                self.trace.free(id);
            }
            match saved {
                Saved::Output => roots.extend(node.outputs.iter().map(|t| self.root(*t))),
                Saved::Inputs => {
                    // Of the weights and the copied values only the weights are another tensor's storage.
                    let one = tokens::copied(node, self.shapes) == 1;
                    let own = node.inputs.iter().filter(|t| !is_weight(self.graph, **t));
                    let own = own.take(if one { 1 } else { usize::MAX });
                    roots.extend(own.map(|t| self.root(*t)));
                }
                Saved::Nothing => {}
            }
        }
        (roots, helpers)
    }
}
