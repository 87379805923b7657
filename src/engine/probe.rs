//! What can run here, and why not where it cannot.

use super::{cpu, cuda};
use crate::units::Bytes;
use serde::Serialize;

/// One engine as `voxfit engines` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EngineInfo {
    /// `cpu`, or `cuda:0` and so on.
    pub id: String,
    /// Whether it can run here.
    pub available: bool,
    /// Why not, in a sentence.
    pub reason: Option<String>,
    /// The device's name.
    pub device: Option<String>,
    /// Its memory.
    pub total: Option<Bytes>,
    /// What is free of it now.
    pub free: Option<Bytes>,
}

/// All engines, the one that runs everywhere first. Never panics, whatever is missing.
pub fn probe() -> Vec<EngineInfo> {
    let mut engines = vec![cpu::describe()];
    engines.extend(cuda::probe());
    engines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_engine_is_always_there_and_a_missing_driver_is_a_sentence() {
        let engines = probe();
        assert_eq!(engines[0].id, "cpu");
        assert!(engines[0].available && engines[0].total.unwrap() > Bytes::ZERO);
        for engine in &engines[1..] {
            assert_eq!(engine.available, engine.reason.is_none());
            if let Some(reason) = &engine.reason {
                assert!(reason.len() > 20, "not a sentence: {reason}");
            }
        }
        assert!(
            engines.len() > 1,
            "CUDA is listed even where it is not found"
        );
    }
}
