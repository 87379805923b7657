//! The arena packer: offsets for all that lives, so that nothing that lives together overlaps. One function for plot and engine.

use super::schedule::PlannedTensor;
use crate::units::Bytes;

/// Every place starts at a multiple of this many bytes.
pub const ALIGNMENT: u64 = 256;

/// What is placed first: the largest key.
type Order = fn(&PlannedTensor) -> (u64, u64);

/// The orders in which places are tried; the first that meets the lower bound wins.
const ORDERS: [Order; 4] = [
    |t| (t.bytes.0, duration(t)),
    |t| (t.bytes.0.saturating_mul(duration(t)), t.bytes.0),
    |t| (duration(t), t.bytes.0),
    |t| (u64::MAX - t.first as u64, t.bytes.0),
];

/// How often what sticks out above the bound is moved to the front of the order and all is placed again.
const ROUNDS: usize = 24;

/// Gives every tensor its offset and returns the size of the arena; `None` past 2^64 bytes.
pub fn pack(tensors: &mut [PlannedTensor]) -> Option<Bytes> {
    let bound = lower_bound(tensors)?;
    let mut best: Option<(u64, Vec<u64>)> = None;
    'orders: for key in ORDERS {
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(key(&tensors[i])), tensors[i].first, i));
        for _ in 0..ROUNDS {
            let (size, offsets) = pack_in_order(tensors, &order)?;
            let promoted = promote(&order, |i| offsets[i] + room(&tensors[i]).0 > bound);
            if best.as_ref().is_none_or(|(least, _)| size < *least) {
                best = Some((size, offsets));
            }
            if size <= bound {
                break 'orders;
            }
            if promoted == order {
                break;
            }
            order = promoted;
        }
    }
    let (size, offsets) = best?;
    for (tensor, offset) in tensors.iter_mut().zip(offsets) {
        tensor.offset = Bytes(offset);
    }
    Some(Bytes(size))
}

/// The same order with what sticks out at the front.
fn promote(order: &[usize], sticks_out: impl Fn(usize) -> bool) -> Vec<usize> {
    let (mut front, back): (Vec<usize>, Vec<usize>) = order.iter().partition(|&&i| sticks_out(i));
    front.extend(back);
    front
}

fn duration(t: &PlannedTensor) -> u64 {
    (t.last - t.first) as u64
}

/// Bytes a tensor takes in the arena: rounded up so that the next one is aligned.
pub(super) fn room(tensor: &PlannedTensor) -> Bytes {
    tensor.bytes.align_up(ALIGNMENT)
}

/// The largest sum of bytes that live together; `None` past 2^64.
fn lower_bound(tensors: &[PlannedTensor]) -> Option<u64> {
    let end = tensors.iter().map(|t| t.last).max().unwrap_or(0);
    let mut change = vec![0_i128; end + 1];
    for t in tensors {
        change[t.first] += i128::from(room(t).0);
        change[t.last] -= i128::from(room(t).0);
    }
    let mut live = 0;
    let mut most = 0;
    for c in change {
        live += c;
        most = most.max(live);
    }
    u64::try_from(most).ok()
}

/// One after the other, each into the smallest gap that holds it among those that live with it.
fn pack_in_order(tensors: &[PlannedTensor], order: &[usize]) -> Option<(u64, Vec<u64>)> {
    let mut offsets = vec![0; tensors.len()];
    // (offset, end, index), sorted by offset: all that is placed.
    let mut placed: Vec<(u64, u64, usize)> = Vec::with_capacity(tensors.len());
    let mut size = 0;
    for &i in order {
        let t = &tensors[i];
        let need = room(t).0;
        let offset = smallest_gap(&placed, need, |j| {
            tensors[j].first < t.last && t.first < tensors[j].last
        });
        let end = offset.checked_add(need)?;
        offsets[i] = offset;
        size = size.max(end);
        let at = placed.partition_point(|p| *p < (offset, end, i));
        placed.insert(at, (offset, end, i));
    }
    Some((size, offsets))
}

fn smallest_gap(
    placed: &[(u64, u64, usize)],
    need: u64,
    lives_together: impl Fn(usize) -> bool,
) -> u64 {
    let mut cursor = 0;
    let mut best: Option<(u64, u64)> = None;
    for &(offset, end, j) in placed {
        if !lives_together(j) {
            continue;
        }
        if offset > cursor {
            let gap = offset - cursor;
            if gap >= need && best.is_none_or(|(least, _)| gap < least) {
                best = Some((gap, cursor));
            }
        }
        cursor = cursor.max(end);
    }
    best.map_or(cursor, |(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tensor(bytes: u64, first: usize, last: usize) -> PlannedTensor {
        PlannedTensor {
            name: String::new(),
            shape: vec![],
            bytes: Bytes(bytes),
            first,
            last,
            offset: Bytes::ZERO,
            values: vec![],
            planes: None,
        }
    }

    proptest! {
        #![proptest_config(crate::random_cases::random_cases(256))]
        #[test]
        fn what_lives_together_never_overlaps(
            parts in prop::collection::vec((1_u64..5000, 0_usize..30, 1_usize..12), 1..40)
        ) {
            let mut tensors: Vec<_> =
                parts.iter().map(|&(b, first, d)| tensor(b, first, first + d)).collect();
            let size = pack(&mut tensors).unwrap();
            prop_assert!(size.0 >= lower_bound(&tensors).unwrap());
            for (i, a) in tensors.iter().enumerate() {
                prop_assert_eq!(a.offset.0 % ALIGNMENT, 0);
                prop_assert!(a.offset.0 + a.bytes.0 <= size.0);
                for b in &tensors[..i] {
                    let together = a.first < b.last && b.first < a.last;
                    let apart = a.offset.0 + a.bytes.0 <= b.offset.0
                        || b.offset.0 + b.bytes.0 <= a.offset.0;
                    prop_assert!(!together || apart, "{:?} overlaps {:?}", a, b);
                }
            }
        }
    }

    #[test]
    fn an_arena_past_what_can_be_addressed_is_refused() {
        assert_eq!(
            pack(&mut [tensor(u64::MAX - 10, 0, 2), tensor(600, 1, 2)]),
            None
        );
    }
}
