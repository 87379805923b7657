//! Laws of every schedule, on random networks: what is read is there, nothing that is still to be read is overwritten,
//! nothing that lives together overlaps, a larger window never needs less, half precision takes half.

use super::schedule::{Schedule, Step, plan};
use super::{MemoryError, Precision, tiles};
use crate::network::random::{Dice, network};
use crate::network::{Graph, TensorId};
use proptest::prelude::*;

/// The values that a step reads, by node.
fn reads(graph: &Graph, step: &Step) -> Vec<TensorId> {
    let made: Vec<TensorId> = step
        .nodes
        .iter()
        .flat_map(|n| graph.nodes[*n].outputs.clone())
        .collect();
    let ins = step
        .nodes
        .iter()
        .flat_map(|n| graph.nodes[*n].inputs.clone());
    ins.filter(|t| !graph.is_weight(*t) && !made.contains(t))
        .collect()
}

fn obeys(graph: &Graph, s: &Schedule) -> Result<(), TestCaseError> {
    // Which value lies in each place after each step.
    let mut lies: Vec<Option<TensorId>> = vec![None; s.tensors.len()];
    for (index, step) in s.steps.iter().enumerate() {
        for place in step.reads.iter().chain(&step.writes) {
            let t = &s.tensors[*place];
            prop_assert!(
                t.first <= index && index < t.last,
                "{}: {}",
                step.name,
                t.name
            );
        }
        for value in reads(graph, step) {
            let there = lies.contains(&Some(value));
            // A concatenation that convolutions read from its parts is never made.
            let never = s.tensors.iter().all(|t| !t.values.contains(&value));
            prop_assert!(there || never, "{} reads {:?}", step.name, value);
        }
        if let Some(place) = step.target {
            let made = step.nodes.last().map(|n| graph.nodes[*n].outputs[0]);
            lies[place] = made.or_else(|| s.tensors[place].values.first().copied());
        }
    }
    let end = |i: usize| s.tensors[i].offset.0 + s.tensors[i].bytes.0;
    for (i, a) in s.tensors.iter().enumerate() {
        prop_assert!(end(i) <= s.arena.0);
        for (j, b) in s.tensors[..i].iter().enumerate() {
            let together = a.first < b.last && b.first < a.last;
            prop_assert!(!together || end(i) <= b.offset.0 || end(j) <= a.offset.0);
        }
    }
    prop_assert!(s.lower_bound <= s.arena);
    let live = s.timeline.iter().map(|p| p.live).max().unwrap();
    prop_assert_eq!(live, s.lower_bound);
    Ok(())
}

proptest! {
    #![proptest_config(crate::random_cases::random_cases(120))]

    #[test]
    fn every_schedule_obeys_the_laws_of_lifetimes(
        dice in prop::collection::vec(0_usize..1000, 24),
        norms in any::<bool>(),
        size in prop::array::uniform3(1_usize..9),
        more in prop::array::uniform3(0_usize..3),
        batch in 1_usize..4,
    ) {
        let graph = network(&mut Dice::new(dice), norms);
        let at = |size: [usize; 3]| size.map(|s| 4 * s);
        let larger: [usize; 3] = std::array::from_fn(|a| size[a] + more[a]);
        let s = plan(&graph, &at(size), batch, Precision::Fp32).unwrap();
        obeys(&graph, &s)?;
        let large = plan(&graph, &at(larger), batch, Precision::Fp32).unwrap();
        prop_assert!(s.lower_bound <= large.lower_bound, "a larger window lives in less");
        for precision in [Precision::Fp16, Precision::Bf16] {
            let half = plan(&graph, &at(size), batch, precision).unwrap();
            for (h, f) in half.tensors.iter().zip(&s.tensors) {
                let of = if f.values.is_empty() { 1 } else { 2 };
                prop_assert_eq!(h.bytes.0 * of, f.bytes.0, "{}", &f.name);
            }
            prop_assert!(half.arena <= s.arena);
        }
    }

    #[test]
    fn tiles_keep_every_limit_that_they_do_not_refuse(
        dice in prop::collection::vec(0_usize..1000, 24),
        norms in any::<bool>(),
        size in prop::array::uniform3(1_usize..6),
        percent in 10_u64..100,
    ) {
        let graph = network(&mut Dice::new(dice), norms);
        let spatial = size.map(|s| 4 * s);
        let whole = plan(&graph, &spatial, 1, Precision::Fp32).unwrap();
        let limit = crate::units::Bytes(whole.arena.0 * percent / 100);
        match tiles::plan_within(&graph, &spatial, 1, Precision::Fp32, limit) {
            Ok(s) => {
                prop_assert!(s.arena <= limit);
                for (i, a) in s.tensors.iter().enumerate() {
                    for b in &s.tensors[..i] {
                        let together = a.first < b.last && b.first < a.last;
                        let ends = |t: &super::schedule::PlannedTensor| t.offset.0 + t.bytes.0;
                        prop_assert!(!together || ends(a) <= b.offset.0 || ends(b) <= a.offset.0);
                    }
                }
            }
            Err(MemoryError::LimitTooSmall { least, .. }) => prop_assert!(least > limit),
            Err(e) => prop_assert!(false, "{e}"),
        }
    }
}
