//! The cheapest schedule under a limit: where to cut the program into segments (a shortest path), and what to make again
//! (the least work first, dominated choices left out).

use super::program::Program;
use super::segment::Segment;

/// Slab thicknesses that are tried, in planes of a segment's coarsest output.
const THICKNESSES: [usize; 6] = [32, 16, 8, 4, 2, 1];
/// How many values are made again at most.
const DEPTH: usize = 16;
/// How many programs of each depth are looked at.
const WIDTH: usize = 6;

/// A program cut into segments.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) segments: Vec<Segment>,
    /// The most bytes that any segment takes.
    pub(super) peak: u64,
    /// Operations that run within a sixteenth of the peak.
    crowd: usize,
}

impl Cut {
    fn new(segments: Vec<Segment>) -> Self {
        let peak = segments.iter().map(|s| s.bytes).max().unwrap_or(0);
        let near = segments.iter().filter(|s| s.bytes > peak - peak / 16);
        Self {
            peak,
            crowd: near.map(|s| s.works.len()).sum(),
            segments,
        }
    }

    /// How tight it is: the peak, then how much stands near it.
    const fn tightness(&self) -> (u64, usize) {
        (self.peak, self.crowd)
    }
}

/// Peak and sum of all that lives, operation by operation.
type Score = (u64, u128);

impl Program<'_> {
    /// The cut that needs the least bytes, at its peak and then elsewhere.
    pub(super) fn smallest(&self) -> Cut {
        let n = self.works.len();
        let mut best: Vec<Option<(Score, Segment)>> = vec![None; n + 1];
        for start in 0..n {
            let before = match (start, &best[start]) {
                (0, _) => (0, 0),
                (_, Some((score, _))) => *score,
                (_, None) => continue,
            };
            self.each_from(start, |segment| {
                let own = u128::from(segment.bytes) * segment.works.len() as u128;
                let score = (segment.bytes.max(before.0), before.1 + own);
                let slot = &mut best[segment.works.end];
                if slot.as_ref().is_none_or(|(least, _)| score < *least) {
                    *slot = Some((score, segment));
                }
            });
        }
        Cut::new(walk(&best))
    }

    /// Every segment that starts here, each at its smallest.
    fn each_from(&self, start: usize, mut f: impl FnMut(Segment)) {
        f(self.on_whole_maps(start));
        for end in start + 1..=self.works.len() {
            if !self.can_join(&(start..end)) {
                return;
            }
            f(self.in_slabs(start..end, 1));
        }
    }

    /// The cut under the limit that leaves most as it is: whole maps where they fit, then few and thick slabs.
    pub(super) fn under(&self, limit: u64) -> Option<Cut> {
        let n = self.works.len();
        let mut best: Vec<Option<(usize, Segment)>> = vec![None; n + 1];
        for start in 0..n {
            let before = match (start, &best[start]) {
                (0, _) => 0,
                (_, Some((cost, _))) => *cost,
                (_, None) => continue,
            };
            let mut offer = |segment: Segment| {
                let own = segment
                    .thickness
                    .map_or(0, |_| 1 + segment.slabs * segment.works.len());
                let slot = &mut best[segment.works.end];
                if slot.as_ref().is_none_or(|(least, _)| before + own < *least) {
                    *slot = Some((before + own, segment));
                }
            };
            let whole = self.on_whole_maps(start);
            if whole.bytes <= limit {
                offer(whole);
            }
            for end in start + 1..=n {
                if !self.can_join(&(start..end)) {
                    break;
                }
                if let Some(segment) = self.thickest(start..end, limit) {
                    offer(segment);
                }
            }
        }
        best[n].as_ref()?;
        Some(Cut::new(walk(&best)))
    }

    fn thickest(&self, works: std::ops::Range<usize>, limit: u64) -> Option<Segment> {
        let thin = self.in_slabs(works.clone(), 1);
        if thin.bytes > limit {
            return None;
        }
        THICKNESSES
            .iter()
            .filter(|t| **t > 1)
            .map(|t| self.in_slabs(works.clone(), *t))
            .find(|s| s.bytes <= limit)
            .or(Some(thin))
    }

    /// Programs that make one more value again, to need less where this cut needs most.
    fn relieved(&self, cut: &Cut) -> Vec<Self> {
        let Some(worst) = cut.segments.iter().max_by_key(|s| s.bytes) else {
            return Vec::new();
        };
        let works = &worst.works;
        let mut found = Vec::new();
        for v in 0..self.values.len() {
            let (made, last) = (self.made[v], self.last[v]);
            let large = self.values[v].tensor.is_some() && self.values[v].room() * 64 >= cut.peak;
            if !large || made >= works.end || last < works.start || !self.works[made].in_slabs() {
                continue;
            }
            let from = if made < works.start {
                works.start
            } else {
                works.end
            };
            if let Some(at) = self.next_reader(v, from.max(made + 1))
                && self.works[at].in_slabs()
            {
                found.extend(self.again(v, at));
            }
        }
        found
    }
}

/// The segments of the best way, from the first on.
fn walk<S>(best: &[Option<(S, Segment)>]) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut end = best.len() - 1;
    while let Some((_, segment)) = &best[end] {
        segments.push(segment.clone());
        end = segment.works.start;
        if end == 0 {
            break;
        }
    }
    segments.reverse();
    segments
}

/// A program that was looked at.
#[derive(Clone, Debug)]
pub(super) struct Looked<'a> {
    pub(super) program: Program<'a>,
    pub(super) cut: Cut,
    /// Its floating point operations.
    pub(super) flops: u64,
}

impl<'a> Looked<'a> {
    fn new(program: Program<'a>) -> Self {
        let cut = program.smallest();
        let flops = program.flops();
        Self {
            program,
            cut,
            flops,
        }
    }

    fn key(&self) -> (u64, (u64, usize)) {
        (self.flops, self.cut.tightness())
    }
}

/// All programs worth a look, the least work first: none needs more bytes for more work than another. The search ends at
/// the first depth at which `enough` bytes are met and nothing cheaper is left.
pub(super) fn programs(program: Program<'_>, enough: u64) -> Vec<Looked<'_>> {
    let mut open = vec![Looked::new(program)];
    let mut seen = open.clone();
    for _ in 0..DEPTH {
        let fits = seen.iter().filter(|l| l.cut.peak <= enough);
        let most = fits.map(|l| l.flops).min().unwrap_or(u64::MAX);
        let mut next: Vec<Looked<'_>> = Vec::new();
        for looked in &open {
            for program in looked.program.relieved(&looked.cut) {
                if program.flops() < most {
                    next.push(Looked::new(program));
                }
            }
        }
        seen.extend(next.iter().cloned());
        seen = undominated(seen, Cut::tightness);
        open = undominated(next, Cut::tightness);
        open.retain(|l| seen.iter().any(|s| s.key() == l.key()));
        spread(&mut open);
        if open.is_empty() {
            break;
        }
    }
    undominated(seen, |cut| (cut.peak, 0))
}

/// Keeps what nothing else beats in both work and bytes, the least work first.
fn undominated(
    mut all: Vec<Looked<'_>>,
    tightness: impl Fn(&Cut) -> (u64, usize),
) -> Vec<Looked<'_>> {
    all.sort_by_key(|l| (l.key(), l.program.works.len()));
    let mut least = (u64::MAX, usize::MAX);
    all.retain(|l| {
        let own = tightness(&l.cut);
        let better = own < least;
        least = least.min(own);
        better
    });
    all
}

/// Thins the programs out to the width, from the cheapest to the smallest.
fn spread(open: &mut Vec<Looked<'_>>) {
    let n = open.len();
    if n <= WIDTH {
        return;
    }
    let kept: Vec<usize> = (0..WIDTH).map(|i| i * (n - 1) / (WIDTH - 1)).collect();
    let mut index = 0;
    open.retain(|_| {
        index += 1;
        kept.contains(&(index - 1))
    });
}
