//! A replica of the rules of PyTorch's caching allocator on one stream: rounding, pools, best fit, splitting, merging
//! of free neighbours, and what it does when the card is full.

use super::eager::{Event, Trace};
use std::collections::BTreeSet;

/// Requests are rounded up to this.
const ROUND: u64 = 512;
/// Requests up to this come from small buffers.
const SMALL: u64 = 1 << 20;
/// Size of a small buffer.
const SMALL_BUFFER: u64 = 2 << 20;
/// Requests up to this come from large buffers of a fixed size.
const MIDDLE: u64 = 10 << 20;
/// Size of such a large buffer.
const LARGE_BUFFER: u64 = 20 << 20;
/// Larger requests are rounded up to this.
const LARGE_ROUND: u64 = 2 << 20;

/// Bytes that a request takes inside a segment.
pub const fn rounded(bytes: u64) -> u64 {
    if bytes < ROUND {
        ROUND
    } else {
        bytes.next_multiple_of(ROUND)
    }
}

/// Bytes of the segment that is asked of the driver when no cached block fits.
pub const fn segment_bytes(rounded: u64) -> u64 {
    if rounded <= SMALL {
        SMALL_BUFFER
    } else if rounded < MIDDLE {
        LARGE_BUFFER
    } else {
        rounded.next_multiple_of(LARGE_ROUND)
    }
}

#[derive(Clone, Copy, Debug)]
struct Block {
    segment: usize,
    offset: u64,
    size: u64,
    free: bool,
    alive: bool,
    previous: Option<usize>,
    next: Option<usize>,
}

/// The allocator's state.
#[derive(Clone, Debug, Default)]
pub struct CachingAllocator {
    blocks: Vec<Block>,
    segments: Vec<u64>,
    /// The pool of each segment: 0 small, 1 large.
    pools: Vec<usize>,
    /// The last block of each pool's one segment, with `expandable`.
    tails: [Option<usize>; 2],
    /// Free blocks by (size, segment, offset), small and large pool.
    free: [BTreeSet<(u64, usize, u64, usize)>; 2],
    reserved: u64,
    /// The most that was reserved.
    pub peak_reserved: u64,
    /// Bytes the driver grants at most; 0 for no limit.
    pub limit: u64,
    /// `expandable_segments`: one segment a pool that grows by pages of 2 MiB (small) or 20 MiB (large).
    pub expandable: bool,
}

impl CachingAllocator {
    /// An empty allocator without a limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes asked of the driver and not given back.
    pub const fn reserved(&self) -> u64 {
        self.reserved
    }

    /// A block for `bytes`, or `None` when the limit is reached even after releasing what is cached.
    pub fn alloc(&mut self, bytes: u64) -> Option<usize> {
        let size = rounded(bytes);
        let pool = usize::from(size > SMALL);
        let at = match self.free[pool].range((size, 0, 0, 0)..).next().copied() {
            Some(key) => {
                self.free[pool].remove(&key);
                key.3
            }
            None if self.expandable => self.extend(size, pool)?,
            None => self.grow(segment_bytes(size), pool)?,
        };
        self.blocks[at].free = false;
        let rest = self.blocks[at].size - size;
        let split = if pool == 0 || self.expandable {
            rest >= ROUND
        } else {
            rest > SMALL
        };
        if split {
            self.split(at, size, pool);
        }
        Some(at)
    }

    fn grow(&mut self, bytes: u64, pool: usize) -> Option<usize> {
        if self.limit > 0 && self.reserved.saturating_add(bytes) > self.limit {
            self.release_cached();
            if self.reserved.saturating_add(bytes) > self.limit {
                return None;
            }
        }
        self.reserve(bytes);
        self.segments.push(bytes);
        self.pools.push(pool);
        self.blocks.push(Block {
            segment: self.segments.len() - 1,
            offset: 0,
            size: bytes,
            free: true,
            alive: true,
            previous: None,
            next: None,
        });
        Some(self.blocks.len() - 1)
    }

    const fn reserve(&mut self, bytes: u64) {
        self.reserved = self.reserved.saturating_add(bytes);
        if self.reserved > self.peak_reserved {
            self.peak_reserved = self.reserved;
        }
    }

    /// Maps pages behind the pool's last block until it, when free, or a new one holds the request.
    fn extend(&mut self, size: u64, pool: usize) -> Option<usize> {
        let page = if pool == 0 {
            SMALL_BUFFER
        } else {
            LARGE_BUFFER
        };
        let tail = self.tails[pool];
        let open = tail.filter(|t| self.blocks[*t].free);
        let there = open.map_or(0, |t| self.blocks[t].size);
        let more = size.saturating_sub(there).next_multiple_of(page);
        if self.limit > 0 && self.reserved.saturating_add(more) > self.limit {
            return None;
        }
        self.reserve(more);
        if let Some(t) = open {
            self.remove(t, pool);
            self.blocks[t].size += more;
            self.segments[self.blocks[t].segment] += more;
            return Some(t);
        }
        let at = self.blocks.len();
        let (segment, offset) = if let Some(t) = tail {
            let b = self.blocks[t];
            self.blocks[t].next = Some(at);
            self.segments[b.segment] += more;
            (b.segment, b.offset + b.size)
        } else {
            self.segments.push(more);
            self.pools.push(pool);
            (self.segments.len() - 1, 0)
        };
        self.blocks.push(Block {
            segment,
            offset,
            size: more,
            free: true,
            alive: true,
            previous: tail,
            next: None,
        });
        self.tails[pool] = Some(at);
        Some(at)
    }

    /// Gives segments that nobody uses back to the driver.
    pub fn release_cached(&mut self) {
        for pool in &mut self.free {
            pool.retain(|key| {
                let block = &mut self.blocks[key.3];
                let whole = block.previous.is_none() && block.next.is_none();
                if whole {
                    block.alive = false;
                    self.reserved -= block.size;
                }
                !whole
            });
        }
    }

    fn split(&mut self, at: usize, size: u64, pool: usize) {
        let block = self.blocks[at];
        let rest = self.blocks.len();
        self.blocks.push(Block {
            segment: block.segment,
            offset: block.offset + size,
            size: block.size - size,
            free: true,
            alive: true,
            previous: Some(at),
            next: block.next,
        });
        match block.next {
            Some(n) => self.blocks[n].previous = Some(rest),
            None => self.move_tail(at, rest, pool),
        }
        self.blocks[at].size = size;
        self.blocks[at].next = Some(rest);
        self.insert(rest, pool);
    }

    /// The pool's last block is another one from now on.
    fn move_tail(&mut self, from: usize, to: usize, pool: usize) {
        if self.tails[pool] == Some(from) {
            self.tails[pool] = Some(to);
        }
    }

    fn insert(&mut self, at: usize, pool: usize) {
        let b = self.blocks[at];
        self.free[pool].insert((b.size, b.segment, b.offset, at));
    }

    fn remove(&mut self, at: usize, pool: usize) {
        let b = self.blocks[at];
        self.free[pool].remove(&(b.size, b.segment, b.offset, at));
    }

    /// Returns a block to its pool and joins it with free neighbours.
    pub fn free(&mut self, at: usize) {
        let pool = self.pools[self.blocks[at].segment];
        self.blocks[at].free = true;
        let mut at = at;
        if let Some(n) = self.blocks[at].next
            && self.blocks[n].free
        {
            self.remove(n, pool);
            self.join(at, n);
        }
        if let Some(p) = self.blocks[at].previous
            && self.blocks[p].free
        {
            self.remove(p, pool);
            self.join(p, at);
            at = p;
        }
        self.insert(at, pool);
    }

    fn join(&mut self, left: usize, right: usize) {
        let r = self.blocks[right];
        self.blocks[left].size += r.size;
        self.blocks[left].next = r.next;
        match r.next {
            Some(n) => self.blocks[n].previous = Some(left),
            None => self.move_tail(right, left, self.pools[r.segment]),
        }
        self.blocks[right].alive = false;
    }
}

/// The most that the allocator reserves over a trace. `weights` are the sizes of what is loaded first, one by one.
pub fn reserved_peak(weights: &[u64], trace: &Trace, expandable: bool) -> u64 {
    let mut allocator = CachingAllocator {
        expandable,
        ..CachingAllocator::new()
    };
    for bytes in weights {
        let _kept = allocator.alloc(*bytes);
    }
    let mut held: Vec<Option<usize>> = vec![None; trace.blocks.len()];
    for event in &trace.events {
        match *event {
            Event::Step(_) => {}
            Event::Alloc { id, bytes } => {
                if bytes > 0 {
                    held[id] = allocator.alloc(bytes);
                }
            }
            Event::Free { id } => {
                if let Some(at) = held[id].take() {
                    allocator.free(at);
                }
            }
        }
    }
    allocator.peak_reserved.saturating_add(trace.resident)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn requests_are_rounded_to_512_bytes() {
        assert_eq!(
            [rounded(0), rounded(1), rounded(512), rounded(513)],
            [512, 512, 512, 1024]
        );
    }

    #[test]
    fn up_to_one_mib_comes_from_buffers_of_two() {
        let mut a = CachingAllocator::new();
        let first = a.alloc(MIB).unwrap();
        let _second = a.alloc(MIB).unwrap();
        assert_eq!(a.reserved(), 2 * MIB, "both fit one small buffer");
        let _third = a.alloc(1).unwrap();
        assert_eq!(a.reserved(), 4 * MIB);
        a.free(first);
        let _fourth = a.alloc(1000).unwrap();
        assert_eq!(a.reserved(), 4 * MIB);
    }

    #[test]
    fn one_to_ten_mib_comes_from_buffers_of_twenty_and_more_is_rounded_to_two() {
        assert_eq!(segment_bytes(MIB + 512), 20 * MIB);
        assert_eq!(segment_bytes(10 * MIB - 512), 20 * MIB);
        assert_eq!(segment_bytes(10 * MIB), 10 * MIB);
        assert_eq!(segment_bytes(11 * MIB), 12 * MIB);
        let mut a = CachingAllocator::new();
        for _ in 0..4 {
            let _block = a.alloc(5 * MIB).unwrap();
        }
        assert_eq!(a.reserved(), 20 * MIB);
    }

    #[test]
    fn the_smallest_cached_block_that_holds_a_request_is_taken() {
        let mut a = CachingAllocator::new();
        let big = a.alloc(64 * MIB).unwrap();
        let small = a.alloc(16 * MIB).unwrap();
        a.free(big);
        a.free(small);
        let again = a.alloc(12 * MIB).unwrap();
        assert_eq!(again, small);
        assert_eq!(a.reserved(), 80 * MIB);
    }

    #[test]
    fn a_large_block_is_only_split_when_more_than_one_mib_is_left() {
        let mut a = CachingAllocator::new();
        let block = a.alloc(32 * MIB).unwrap();
        a.free(block);
        let _kept_whole = a.alloc(31 * MIB).unwrap();
        let _needs_new = a.alloc(MIB + 512).unwrap();
        assert_eq!(a.reserved(), 52 * MIB);
    }

    #[test]
    fn free_neighbours_become_one_block_again() {
        let mut a = CachingAllocator::new();
        let parts: Vec<usize> = (0..4).map(|_| a.alloc(5 * MIB).unwrap()).collect();
        for p in parts {
            a.free(p);
        }
        let _whole = a.alloc(20 * MIB).unwrap();
        assert_eq!(a.reserved(), 20 * MIB);
    }

    #[test]
    fn a_full_card_gets_back_what_is_cached_and_unsplit_before_it_fails() {
        let mut a = CachingAllocator {
            limit: 100 * MIB,
            ..CachingAllocator::new()
        };
        let first = a.alloc(60 * MIB).unwrap();
        a.free(first);
        let _second = a.alloc(80 * MIB).unwrap();
        assert_eq!(a.reserved(), 80 * MIB);
        assert_eq!(a.alloc(30 * MIB), None);
    }

    #[test]
    fn a_small_block_is_split_when_512_bytes_are_left_a_large_one_only_over_one_mib() {
        let mut a = CachingAllocator::new();
        let block = a.alloc(2048).unwrap();
        let _next = a.alloc(512).unwrap();
        a.free(block);
        let again = a.alloc(1536).unwrap();
        let rest = a.alloc(512).unwrap();
        assert_eq!((again, a.blocks[rest].offset), (block, 1536));
        assert_eq!(a.reserved(), 2 * MIB);
    }

    #[test]
    fn expandable_segments_grow_by_pages_of_2_and_20_mib_and_fill_the_gap_at_their_end() {
        let mut a = CachingAllocator {
            expandable: true,
            ..CachingAllocator::new()
        };
        let _small = a.alloc(1000).unwrap();
        assert_eq!(a.reserved(), 2 * MIB);
        let first = a.alloc(30 * MIB).unwrap();
        assert_eq!(a.reserved(), 42 * MIB, "two pages of 20");
        let second = a.alloc(25 * MIB).unwrap();
        assert_eq!(a.reserved(), 62 * MIB, "ten were left of the second page");
        a.free(first);
        a.free(second);
        let _all = a.alloc(59 * MIB).unwrap();
        assert_eq!(a.reserved(), 62 * MIB, "neighbours are one block again");
        let _more = a.alloc(2 * MIB).unwrap();
        assert_eq!(a.reserved(), 82 * MIB);
        let mut plain = CachingAllocator::new();
        for bytes in [30 * MIB, 25 * MIB] {
            let block = plain.alloc(bytes).unwrap();
            plain.free(block);
        }
        let _all = plain.alloc(59 * MIB).unwrap();
        assert_eq!(plain.reserved(), 90 * MIB, "segments never join");
    }

    proptest! {
        #![proptest_config(crate::random_cases::random_cases(256))]
        #[test]
        fn blocks_in_use_never_overlap_and_stay_inside_their_segment(
            expandable in any::<bool>(),
            moves in prop::collection::vec((1_u64..40_000_000, 0_usize..8), 1..80)
        ) {
            let mut a = CachingAllocator { expandable, ..CachingAllocator::new() };
            let mut held: Vec<(usize, u64)> = Vec::new();
            for (bytes, drop) in moves {
                if drop < held.len() {
                    let (at, _) = held.remove(drop);
                    a.free(at);
                } else {
                    held.push((a.alloc(bytes).unwrap(), bytes));
                }
                for (i, (p, bytes)) in held.iter().enumerate() {
                    let b = a.blocks[*p];
                    prop_assert!(!b.free && b.size >= *bytes);
                    prop_assert!(b.offset + b.size <= a.segments[b.segment]);
                    for (q, _) in &held[..i] {
                        let c = a.blocks[*q];
                        let apart = b.segment != c.segment
                            || b.offset + b.size <= c.offset
                            || c.offset + c.size <= b.offset;
                        prop_assert!(apart);
                    }
                }
                let total: u64 = a.segments.iter().sum();
                prop_assert_eq!(a.reserved(), total);
            }
        }
    }
}
