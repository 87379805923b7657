//! MONAI's box selector: threshold, top candidates of each level, clip, drop the small, suppress the doubles.

use super::anchors::{AnchorSpec, LevelAnchors};
use crate::network::manifest;
use crate::numeric::{exp, sigmoid};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// ln(1000 / 16): a box grows at most 62.5 times its anchor.
const LARGEST_GROWTH: f32 = 4.135_166_6;
/// An edge below this many voxels is no box.
const SMALLEST_EDGE: f32 = 1.0;

/// Thresholds and caps of the box selector.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoxSelector {
    /// Candidates score more than this.
    pub score_thresh: f32,
    /// Most candidates of one level.
    pub topk_candidates_per_level: usize,
    /// Boxes that overlap a better one by more than this `IoU` are suppressed.
    pub nms_thresh: f32,
    /// Most detections of one image.
    pub detections_per_img: usize,
}

impl Default for BoxSelector {
    fn default() -> Self {
        Self {
            score_thresh: 0.02,
            topk_candidates_per_level: 1000,
            nms_thresh: 0.22,
            detections_per_img: 300,
        }
    }
}

impl From<&manifest::BoxSelector> for BoxSelector {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "scores are float32, and so are the thresholds they are held against"
    )]
    fn from(s: &manifest::BoxSelector) -> Self {
        Self {
            score_thresh: s.score_thresh as f32,
            topk_candidates_per_level: s.topk_candidates_per_level,
            nms_thresh: s.nms_thresh as f32,
            detections_per_img: s.detections_per_img,
        }
    }
}

/// The head maps of one level, C order `(channels, axis 0, axis 1, axis 2)`.
#[derive(Clone, Copy, Debug)]
pub struct LevelMaps<'a> {
    /// Positions along each axis.
    pub grid: [usize; 3],
    /// Class logits: channel = anchor x classes + class.
    pub class_logits: &'a [f32],
    /// Box regression: channel = anchor x 6 + (dx dy dz dw dh dd).
    pub box_regression: &'a [f32],
}

/// A box before suppression; corners in the tensor's axis order, voxels of the padded image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Level, finest 0.
    pub level: usize,
    /// Index of its anchor inside the level.
    pub index_in_level: usize,
    /// Class.
    pub label: usize,
    /// Score after sigmoid.
    pub score: f32,
    /// Corners, clipped to the image without padding.
    pub corners: [f32; 6],
}

/// Head maps that do not belong together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DetectError {
    /// No scale for a level.
    #[error(
        "the network has {levels} head levels and the manifest names {scales} anchor level_scales; name one for each level"
    )]
    Levels {
        /// Levels found.
        levels: usize,
        /// Scales named.
        scales: usize,
    },
    /// A map of the wrong length.
    #[error(
        "level {level} has {found} {what} values; {positions} positions x {anchors} anchors x {each} are expected; compare output and labels in the manifest with the network"
    )]
    Length {
        /// Level, finest 0.
        level: usize,
        /// `class logit` or `box regression`.
        what: &'static str,
        /// Positions of its grid.
        positions: usize,
        /// Anchors at each position.
        anchors: usize,
        /// Values for each anchor.
        each: usize,
        /// Values found.
        found: usize,
    },
}

/// What the head maps hold above the threshold, and what was odd about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidates {
    /// Best first within a level, levels one after the other.
    pub boxes: Vec<Candidate>,
    /// Logits that are not numbers; they never become candidates.
    pub nan_logits: usize,
}

/// A box of an anchor and its regression.
pub fn decode(anchor: [f32; 6], delta: [f32; 6]) -> [f32; 6] {
    let mut out = [0.0; 6];
    for a in 0..3 {
        let width = anchor[a + 3] - anchor[a];
        let center = anchor[a] + 0.5 * width;
        let growth = if delta[a + 3] > LARGEST_GROWTH {
            LARGEST_GROWTH
        } else {
            delta[a + 3]
        };
        let center = delta[a] * width + center;
        let half = 0.5 * (exp(growth) * width);
        out[a] = center - half;
        out[a + 3] = center + half;
    }
    out
}

impl LevelMaps<'_> {
    fn delta(&self, anchor: usize, position: usize) -> [f32; 6] {
        let n: usize = self.grid.iter().product();
        std::array::from_fn(|d| self.box_regression[(anchor * 6 + d) * n + position])
    }

    fn check(&self, level: usize, anchors: usize, classes: usize) -> Result<(), DetectError> {
        let positions: usize = self.grid.iter().product();
        let parts = [
            ("class logit", classes, self.class_logits.len()),
            ("box regression", 6, self.box_regression.len()),
        ];
        for (what, each, found) in parts {
            if found != positions * anchors * each {
                return Err(DetectError::Length {
                    level,
                    what,
                    positions,
                    anchors,
                    each,
                    found,
                });
            }
        }
        Ok(())
    }
}

/// Every decoded box of a level in anchor order, before clipping.
pub fn decode_level(anchors: &LevelAnchors, maps: &LevelMaps<'_>) -> Vec<[f32; 6]> {
    let n: usize = maps.grid.iter().product::<usize>().max(1);
    let per_position = anchors.len() / n;
    (0..anchors.len())
        .map(|i| {
            decode(
                anchors.corners(i),
                maps.delta(i % per_position, i / per_position),
            )
        })
        .collect()
}

fn better(a: &(f32, usize), b: &(f32, usize)) -> Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// The best `(score, anchor x classes + class)` of a level above the threshold; ties go to the lower index.
fn top(
    maps: &LevelMaps<'_>,
    anchors: usize,
    classes: usize,
    selector: &BoxSelector,
    nan: &mut usize,
) -> Vec<(f32, usize)> {
    let n: usize = maps.grid.iter().product();
    // Far below the threshold nothing needs a sigmoid: its logit less a margin that covers rounding.
    let t = f64::from(selector.score_thresh);
    let surely_below = if t > 0.0 && t < 1.0 {
        (t / (1.0 - t)).ln() - 0.01
    } else {
        f64::NEG_INFINITY
    };
    let mut found = Vec::new();
    for anchor in 0..anchors {
        for class in 0..classes {
            let channel = &maps.class_logits[(anchor * classes + class) * n..][..n];
            for (position, &logit) in channel.iter().enumerate() {
                if logit.is_nan() {
                    *nan += 1;
                } else if f64::from(logit) > surely_below {
                    let score = sigmoid(logit);
                    if score > selector.score_thresh {
                        found.push((score, (position * anchors + anchor) * classes + class));
                    }
                }
            }
        }
    }
    let k = selector.topk_candidates_per_level;
    if k > 0 && found.len() > k {
        found.select_nth_unstable_by(k - 1, better);
    }
    found.truncate(k);
    found.sort_unstable_by(better);
    found
}

/// A box clipped to the image, `None` when an edge becomes shorter than one voxel (or is not a number).
fn clip(corners: [f32; 6], image: [usize; 3]) -> Option<[f32; 6]> {
    let mut out = corners;
    for a in 0..3 {
        let size = image[a] as f32;
        out[a] = corners[a].clamp(0.0, size);
        out[a + 3] = corners[a + 3].clamp(0.0, size);
        let edge = out[a + 3] - out[a];
        if edge.is_nan() || edge < SMALLEST_EDGE {
            return None;
        }
    }
    Some(out)
}

/// Candidates of all levels: score above the threshold, the best of each level, clipped to `image`
/// (the size without padding, in the tensor's axis order), none with an edge below one voxel.
pub fn candidates(
    levels: &[LevelMaps<'_>],
    anchors: &AnchorSpec,
    classes: usize,
    padded: [usize; 3],
    image: [usize; 3],
    selector: &BoxSelector,
) -> Result<Candidates, DetectError> {
    let mut out = Candidates::default();
    let shapes = anchors.base_shapes.len();
    for (level, maps) in levels.iter().enumerate() {
        maps.check(level, shapes, classes)?;
        let of_level = anchors
            .level(level, maps.grid, padded)
            .ok_or(DetectError::Levels {
                levels: levels.len(),
                scales: anchors.level_scales.len(),
            })?;
        for (score, flat) in top(maps, shapes, classes, selector, &mut out.nan_logits) {
            let index = flat / classes;
            let corners = decode(
                of_level.corners(index),
                maps.delta(index % shapes, index / shapes),
            );
            if let Some(corners) = clip(corners, image) {
                out.boxes.push(Candidate {
                    level,
                    index_in_level: index,
                    label: flat % classes,
                    score,
                    corners,
                });
            }
        }
    }
    Ok(out)
}

/// Greedy suppression over all classes at once: indices of the boxes kept, best first, at most `most` (0 is no cap).
/// Boxes of different classes never suppress each other; of equal scores the earlier one is better.
pub fn suppress(boxes: &[Candidate], nms_thresh: f32, most: usize) -> Vec<usize> {
    let largest = boxes
        .iter()
        .flat_map(|b| b.corners)
        .fold(f32::NEG_INFINITY, f32::max);
    let mut order: Vec<usize> = (0..boxes.len()).collect();
    order.sort_by(|&a, &b| boxes[b].score.total_cmp(&boxes[a].score));
    let moved: Vec<[f32; 6]> = order
        .iter()
        .map(|&i| {
            let offset = boxes[i].label as f32 * (largest + 1.0);
            boxes[i].corners.map(|c| c + offset)
        })
        .collect();
    let volumes: Vec<f32> = moved.iter().map(volume).collect();
    let mut alive: Vec<usize> = (0..order.len()).collect();
    let mut kept = Vec::new();
    while let Some(&best) = alive.first() {
        kept.push(order[best]);
        if most > 0 && kept.len() >= most {
            break;
        }
        let (b, v) = (moved[best], volumes[best]);
        alive.retain(|&i| {
            i != best && {
                let both = intersection(&b, &moved[i]);
                both == 0.0 || both / (v + volumes[i] - both + f32::EPSILON) <= nms_thresh
            }
        });
    }
    kept
}

fn volume(b: &[f32; 6]) -> f32 {
    (b[3] - b[0]) * (b[4] - b[1]) * (b[5] - b[2])
}

fn intersection(a: &[f32; 6], b: &[f32; 6]) -> f32 {
    let edge = |i: usize| (a[i + 3].min(b[i + 3]) - a[i].max(b[i])).max(0.0);
    edge(0) * edge(1) * edge(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(x: f32, score: f32, label: usize) -> Candidate {
        Candidate {
            level: 0,
            index_in_level: 0,
            label,
            score,
            corners: [x, 0.0, 0.0, x + 4.0, 4.0, 4.0],
        }
    }

    #[test]
    fn the_better_of_two_overlapping_boxes_stays_and_classes_do_not_meet() {
        let boxes = [
            candidate(1.0, 0.5, 0),
            candidate(0.0, 0.9, 0),
            candidate(0.0, 0.7, 1),
            candidate(40.0, 0.1, 0),
        ];
        assert_eq!(suppress(&boxes, 0.22, 300), [1, 2, 3]);
        assert_eq!(suppress(&boxes, 0.22, 1), [1]);
        assert!(suppress(&[], 0.22, 300).is_empty());
    }

    #[test]
    fn of_equal_scores_the_earlier_box_stays() {
        let boxes = [candidate(0.5, 0.5, 0), candidate(0.0, 0.5, 0)];
        assert_eq!(suppress(&boxes, 0.22, 300), [0]);
    }

    #[test]
    fn an_anchor_without_regression_is_its_own_box() {
        let anchors = AnchorSpec {
            base_shapes: vec![[6.0, 8.0, 5.0]],
            level_scales: vec![1.0],
        };
        let level = anchors.level(0, [2, 2, 2], [8, 8, 8]).unwrap();
        assert_eq!(level.len(), 8);
        // Half of 5 rounds half to even: 2.
        assert_eq!(level.corners(7), [3.0, 2.0, 4.0, 9.0, 10.0, 8.0]);
        assert_eq!(decode(level.corners(7), [0.0; 6]), level.corners(7));
    }

    #[test]
    fn a_nan_logit_is_counted_and_never_becomes_a_box() {
        let anchors = AnchorSpec {
            base_shapes: vec![[4.0; 3]],
            level_scales: vec![1.0],
        };
        let logits = [f32::NAN, 3.0, f32::NEG_INFINITY, -9.0];
        let maps = LevelMaps {
            grid: [1, 1, 4],
            class_logits: &logits,
            box_regression: &[0.0; 24],
        };
        let selector = BoxSelector::default();
        let found = candidates(&[maps], &anchors, 1, [4, 4, 16], [4, 4, 16], &selector).unwrap();
        assert_eq!((found.boxes.len(), found.nan_logits), (1, 1));
        assert_eq!(found.boxes[0].index_in_level, 1);
        let short = LevelMaps {
            class_logits: &logits[..3],
            ..maps
        };
        let said = candidates(&[short], &anchors, 1, [4, 4, 16], [4, 4, 16], &selector)
            .unwrap_err()
            .to_string();
        assert!(said.contains("level 0 has 3 class logit values"), "{said}");
    }

    #[test]
    fn a_box_outside_the_image_or_thinner_than_a_voxel_is_dropped() {
        assert!(clip([-9.0, 0.0, 0.0, -1.0, 4.0, 4.0], [8; 3]).is_none());
        assert!(clip([7.5, 0.0, 0.0, 12.0, 4.0, 4.0], [8; 3]).is_none());
        assert_eq!(
            clip([-1.0, 0.0, 0.0, 12.0, 4.0, 4.0], [8; 3]),
            Some([0.0, 0.0, 0.0, 8.0, 4.0, 4.0])
        );
    }
}
