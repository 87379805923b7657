//! Which box of one list is which of another: by overlap or by distance, as a best assignment or greedily.

use super::assign::{Edge, heaviest};
use serde::{Deserialize, Serialize};

/// Most partners that one box is held against; beyond it only its best ones count.
const MOST_PARTNERS: usize = 32;

/// A box to be matched: corners `[x0, y0, z0, x1, y1, z1]` in any unit, both ends alike for a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    /// Boxes of different classes never meet.
    pub class: usize,
    /// For ties and for greedy matching: the better first.
    pub score: f64,
    /// The corners.
    pub corners: [f64; 6],
}

impl Placed {
    /// The middle.
    pub fn center(&self) -> [f64; 3] {
        std::array::from_fn(|a| 0.5 * (self.corners[a] + self.corners[a + 3]))
    }

    /// The longest edge.
    pub fn longest(&self) -> f64 {
        (0..3)
            .map(|a| self.corners[a + 3] - self.corners[a])
            .fold(0.0, f64::max)
    }

    /// Whether it has no extent.
    pub fn is_point(&self) -> bool {
        self.longest() <= 0.0
    }

    fn volume(&self) -> f64 {
        (0..3)
            .map(|a| (self.corners[a + 3] - self.corners[a]).max(0.0))
            .product()
    }

    /// Volume of the common part.
    pub fn intersection(&self, other: &Self) -> f64 {
        (0..3)
            .map(|a| {
                let low = self.corners[a].max(other.corners[a]);
                (self.corners[a + 3].min(other.corners[a + 3]) - low).max(0.0)
            })
            .product()
    }

    /// Intersection over union.
    pub fn iou(&self, other: &Self) -> f64 {
        let both = self.intersection(other);
        let union = self.volume() + other.volume() - both;
        if union > 0.0 { both / union } else { 0.0 }
    }

    /// Intersection over the smaller of the two.
    pub fn over_smaller(&self, other: &Self) -> f64 {
        let least = self.volume().min(other.volume());
        if least > 0.0 {
            self.intersection(other) / least
        } else {
            0.0
        }
    }

    /// Distance between the middles.
    pub fn distance(&self, other: &Self) -> f64 {
        let (a, b) = (self.center(), other.center());
        (0..3).map(|i| (a[i] - b[i]).powi(2)).sum::<f64>().sqrt()
    }
}

/// What makes two boxes one finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Intersection over union.
    #[default]
    Iou,
    /// Distance between the middles.
    Distance,
}

/// How pairs are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Assign {
    /// The greatest sum over all pairs.
    #[default]
    Hungarian,
    /// The best pair first.
    Greedy,
}

/// How two lists are matched.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatchRule {
    /// What is looked at.
    pub by: By,
    /// How pairs are chosen.
    pub assign: Assign,
    /// Pairs overlap at least so much.
    pub min_iou: f64,
    /// Middles are at most so far apart, in the boxes' unit; `None`: half the longest edge of either.
    pub max_distance: Option<f64>,
}

impl Default for MatchRule {
    fn default() -> Self {
        Self {
            by: By::Iou,
            assign: Assign::Hungarian,
            min_iou: 0.1,
            max_distance: None,
        }
    }
}

/// Which belongs to which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching {
    /// `(index in the first list, index in the second)`, by the first.
    pub pairs: Vec<(usize, usize)>,
    /// Boxes of the first list with so many partners that only the best were looked at.
    pub crowded: usize,
}

impl MatchRule {
    fn worth(&self, a: &Placed, b: &Placed) -> Option<f64> {
        match self.by {
            By::Iou => Some(a.iou(b)).filter(|iou| *iou > 0.0 && *iou >= self.min_iou),
            By::Distance => {
                let most = self
                    .max_distance
                    .unwrap_or_else(|| 0.5 * a.longest().max(b.longest()));
                let d = a.distance(b);
                // The nearest is worth the most, and a pair at the very limit a little.
                (d <= most).then(|| (1.0 - d / most.max(f64::MIN_POSITIVE)).max(1e-6))
            }
        }
    }
}

/// Boxes sorted along one axis, to find those near another quickly.
#[derive(Clone, Debug)]
pub struct Sorted<'a> {
    boxes: &'a [Placed],
    axis: usize,
    /// Index by lower edge.
    order: Vec<usize>,
    longest: f64,
}

impl<'a> Sorted<'a> {
    /// Sorts along the axis on which the boxes lie widest apart.
    pub fn new(boxes: &'a [Placed]) -> Self {
        let spread = |a: usize| {
            let at =
                |f: fn(f64, f64) -> f64, from| boxes.iter().map(|b| b.corners[a]).fold(from, f);
            at(f64::max, f64::NEG_INFINITY) - at(f64::min, f64::INFINITY)
        };
        let axis = (0..3)
            .max_by(|&a, &b| spread(a).total_cmp(&spread(b)).then(b.cmp(&a)))
            .unwrap_or(0);
        let mut order: Vec<usize> = (0..boxes.len()).collect();
        order.sort_by(|&a, &b| {
            let (x, y) = (boxes[a].corners[axis], boxes[b].corners[axis]);
            x.total_cmp(&y).then(a.cmp(&b))
        });
        let longest = boxes
            .iter()
            .map(|b| b.corners[axis + 3] - b.corners[axis])
            .fold(0.0, f64::max);
        Self {
            boxes,
            axis,
            order,
            longest,
        }
    }

    /// Indices of the boxes that reach within `margin` of a box along every axis, by their place along the sorted one.
    pub fn near(&self, b: &Placed, margin: f64) -> impl Iterator<Item = usize> + '_ {
        let low: [f64; 3] = std::array::from_fn(|a| b.corners[a] - margin);
        let high: [f64; 3] = std::array::from_fn(|a| b.corners[a + 3] + margin);
        let axis = self.axis;
        let from = self
            .order
            .partition_point(|&i| self.boxes[i].corners[axis] < low[axis] - self.longest);
        self.order[from..]
            .iter()
            .copied()
            .take_while(move |&i| self.boxes[i].corners[axis] <= high[axis])
            .filter(move |&i| {
                let c = &self.boxes[i].corners;
                (0..3).all(|a| c[a] <= high[a] && c[a + 3] >= low[a])
            })
    }
}

/// Matches two lists. The same lists give the same pairs, whatever the machine.
pub fn match_boxes(a: &[Placed], b: &[Placed], rule: &MatchRule) -> Matching {
    let sorted = Sorted::new(b);
    let longest = b.iter().map(Placed::longest).fold(0.0, f64::max);
    let mut edges: Vec<(f64, usize, usize)> = Vec::new();
    let mut crowded = 0;
    for (i, box_a) in a.iter().enumerate() {
        let margin = match rule.by {
            By::Iou => 0.0,
            By::Distance => rule
                .max_distance
                .unwrap_or_else(|| 0.5 * longest.max(box_a.longest())),
        };
        let mut own: Vec<(f64, usize, usize)> = sorted
            .near(box_a, margin)
            .filter(|&j| b[j].class == box_a.class)
            .filter_map(|j| Some((rule.worth(box_a, &b[j])?, i, j)))
            .collect();
        if own.len() > MOST_PARTNERS {
            crowded += 1;
            own.select_nth_unstable_by(MOST_PARTNERS - 1, better);
            own.truncate(MOST_PARTNERS);
        }
        edges.append(&mut own);
    }
    let pairs = match rule.assign {
        Assign::Hungarian => {
            let edges: Vec<Edge> = edges
                .iter()
                .map(|&(worth, row, column)| Edge {
                    row,
                    column,
                    weight: whole(worth),
                })
                .collect();
            heaviest(a.len(), b.len(), &edges)
        }
        Assign::Greedy => greedily(edges, a, b),
    };
    Matching { pairs, crowded }
}

fn better(a: &(f64, usize, usize), b: &(f64, usize, usize)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2)))
}

/// Worth between 0 and 1 as a whole number, so that sums are exact.
#[expect(
    clippy::cast_possible_truncation,
    reason = "between 0 and 1 times 2^40, far below 2^63"
)]
fn whole(worth: f64) -> i64 {
    ((worth.clamp(0.0, 1.0) * (1_u64 << 40) as f64) as i64).max(1)
}

fn greedily(
    mut edges: Vec<(f64, usize, usize)>,
    a: &[Placed],
    b: &[Placed],
) -> Vec<(usize, usize)> {
    edges.sort_by(|x, y| {
        let scores = |e: &(f64, usize, usize)| (a[e.1].score, b[e.2].score);
        let ((xa, xb), (ya, yb)) = (scores(x), scores(y));
        y.0.total_cmp(&x.0)
            .then(ya.total_cmp(&xa))
            .then(yb.total_cmp(&xb))
            .then((x.1, x.2).cmp(&(y.1, y.2)))
    });
    let (mut of_a, mut taken) = (vec![None; a.len()], vec![false; b.len()]);
    for (_, i, j) in edges {
        if of_a[i].is_none() && !taken[j] {
            (of_a[i], taken[j]) = (Some(j), true);
        }
    }
    let pairs = of_a.into_iter().enumerate();
    pairs.filter_map(|(i, j)| Some((i, j?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cube(x: f64, edge: f64) -> Placed {
        Placed {
            class: 0,
            score: 0.5,
            corners: [x, 0.0, 0.0, x + edge, edge, edge],
        }
    }

    #[test]
    fn the_best_assignment_pairs_both_where_greedy_leaves_one_alone() {
        // The second of A overlaps only the first of B, which the first of A overlaps even more.
        let a = [cube(0.0, 4.0), cube(-2.0, 4.0)];
        let b = [cube(-0.9, 4.0), cube(1.5, 4.0)];
        let hungarian = match_boxes(&a, &b, &MatchRule::default());
        assert_eq!(hungarian.pairs, [(0, 1), (1, 0)]);
        let greedy = MatchRule {
            assign: Assign::Greedy,
            ..MatchRule::default()
        };
        assert_eq!(match_boxes(&a, &b, &greedy).pairs, [(0, 0)]);
    }

    #[test]
    fn points_match_by_distance_within_half_the_longest_edge_and_never_across_classes() {
        let by = MatchRule {
            by: By::Distance,
            ..MatchRule::default()
        };
        let point = |x: f64| Placed {
            corners: [x, 2.0, 2.0, x, 2.0, 2.0],
            ..cube(0.0, 1.0)
        };
        let a = [cube(0.0, 4.0)];
        assert_eq!(
            match_boxes(&a, &[point(9.0), point(3.5)], &by).pairs,
            [(0, 1)]
        );
        assert_eq!(match_boxes(&a, &[point(4.5)], &by).pairs, []);
        let other = Placed {
            class: 1,
            ..point(2.0)
        };
        assert_eq!(match_boxes(&a, &[other], &by).pairs, []);
        assert_eq!(match_boxes(&[], &a, &by).pairs, []);
    }

    #[test]
    fn ten_thousand_boxes_match_their_shifted_twins_at_once() {
        let boxes: Vec<Placed> = (0..10_000_u32)
            .map(|i| {
                let at = |m: u32, n: u32| f64::from(i.wrapping_mul(m) % n);
                let [x, y, z] = [at(7919, 509), at(104_729, 511), at(1_299_709, 251)];
                Placed {
                    class: 0,
                    score: at(31, 1000) / 1000.0,
                    corners: [x, y, z, x + 9.0, y + 9.0, z + 6.0],
                }
            })
            .collect();
        let moved: Vec<Placed> = boxes
            .iter()
            .map(|b| Placed {
                corners: b.corners.map(|c| c + 0.25),
                ..*b
            })
            .collect();
        for (assign, by) in [
            (Assign::Hungarian, By::Iou),
            (Assign::Greedy, By::Iou),
            (Assign::Hungarian, By::Distance),
        ] {
            let start = std::time::Instant::now();
            let rule = MatchRule {
                by,
                assign,
                ..MatchRule::default()
            };
            let found = match_boxes(&boxes, &moved, &rule);
            assert_eq!(found.pairs.len(), 10_000, "{assign:?} {by:?}");
            assert!(found.pairs.iter().filter(|(i, j)| i == j).count() > 9_900);
            assert!(
                start.elapsed().as_secs_f64() < 10.0,
                "{:?}",
                start.elapsed()
            );
        }
    }
}
