//! What preparing a step looks up: epilogues, weights, places and sizes.

use super::super::EngineError;
use super::arena::Place;
use super::posts::PostOp;
use super::prepare::{Preparing, three, unsupported};
use crate::memory::schedule::{Post, Step};
use crate::network::{Act, Node, TensorId};
use std::sync::Arc;

impl Preparing<'_> {
    /// Refuses outputs that cannot be told apart by window.
    pub(super) fn check_outputs(&self) -> Result<(), EngineError> {
        for id in &self.graph.outputs {
            let shape = &self.shapes[id.index()];
            if shape.first() != Some(&self.schedule.batch) {
                return Err(EngineError::Unsupported {
                    engine: "cpu",
                    what: format!(
                        "the output {} of shape {shape:?}, whose first axis is not the batch of {}",
                        self.graph.tensors[id.index()].name,
                        self.schedule.batch
                    ),
                    instead: "export the network with outputs of shape (N, ...)".to_owned(),
                });
            }
        }
        Ok(())
    }

    pub(super) fn posts(&self, step: &Step) -> Result<Vec<PostOp>, EngineError> {
        step.posts
            .iter()
            .map(|post| {
                Ok(match post {
                    Post::Act(Act::LeakyRelu { slope }) if *slope == 0.0 => PostOp::Act(Act::Relu),
                    Post::Act(act) => PostOp::Act(*act),
                    Post::Add(at) => PostOp::Add(self.places[*at]),
                    Post::Mul(at) => PostOp::Mul(self.places[*at]),
                    Post::PRelu(node) => {
                        PostOp::PRelu(self.slopes(step, &self.graph.nodes[*node])?)
                    }
                })
            })
            .collect()
    }

    pub(super) fn slopes(&self, step: &Step, node: &Node) -> Result<Vec<f32>, EngineError> {
        let w = self.weights_of(node);
        let slopes = match w.first() {
            Some(id) => self.values(*id)?,
            None => return Err(unsupported(node, "it has no slope")),
        };
        let channels = self.channels(Self::target(step)?);
        Ok(if slopes.len() == channels {
            slopes.to_vec()
        } else {
            vec![slopes[0]; channels]
        })
    }

    pub(super) fn weights_of(&self, node: &Node) -> Vec<TensorId> {
        node.inputs
            .iter()
            .copied()
            .filter(|t| self.graph.is_weight(*t))
            .collect()
    }

    pub(super) fn values(&self, id: TensorId) -> Result<&[f32], EngineError> {
        self.weight(id).map(|v| v.as_ref())
    }

    /// A weight's values, shared.
    pub(super) fn shared(&self, id: TensorId) -> Result<Arc<[f32]>, EngineError> {
        self.weight(id).cloned()
    }

    pub(super) fn weight(&self, id: TensorId) -> Result<&Arc<[f32]>, EngineError> {
        match self.weights.get(id) {
            Some(values) => Ok(values),
            None => Err(EngineError::Network(
                crate::network::NetworkError::NoWeights {
                    network: self.graph.name.clone(),
                    hint: "",
                },
            )),
        }
    }

    pub(super) fn target(step: &Step) -> Result<usize, EngineError> {
        step.target.ok_or_else(|| EngineError::Unsupported {
            engine: "cpu",
            what: format!("the step {}, which makes nothing", step.name),
            instead: "plan the network again".to_owned(),
        })
    }

    pub(super) fn scratch(&self, step: &Step) -> Result<Place, EngineError> {
        step.scratch
            .map(|s| self.places[s])
            .ok_or_else(|| EngineError::Unsupported {
                engine: "cpu",
                what: format!("the step {} without room for its sums", step.name),
                instead: "plan the network again".to_owned(),
            })
    }

    pub(super) fn channels(&self, tensor: usize) -> usize {
        self.schedule.tensors[tensor].shape[1]
    }

    pub(super) fn spatial(&self, tensor: usize) -> [usize; 3] {
        three(
            self.schedule.tensors[tensor].shape.get(2..).unwrap_or(&[]),
            1,
        )
    }

    /// Bricks of the sums: indices of the network's first axis.
    pub(super) fn bricks(&self, tensor: usize) -> usize {
        self.schedule.tensors[tensor]
            .shape
            .get(2)
            .copied()
            .unwrap_or(1)
    }
}
