//! The box selector against a slow and plain one, for several classes, small caps and padded images.

use super::*;
use crate::numeric::sigmoid;
use proptest::prelude::*;

const SHAPES: [[f64; 3]; 2] = [[4.0, 5.0, 3.0], [8.0, 6.0, 6.0]];

/// Values without pattern, the same each time.
fn noise(n: usize, seed: u32, scale: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (f32::from(u16::try_from(state >> 16).unwrap()) / 32_768.0 - 1.0) * scale
        })
        .collect()
}

/// (score, label, box) as MONAI's rules read, one after the other.
fn plainly(
    levels: &[LevelMaps<'_>],
    anchors: &AnchorSpec,
    (classes, image, padded): (usize, [usize; 3], [usize; 3]),
    selector: &BoxSelector,
) -> Vec<(f32, usize, [f32; 6])> {
    let mut all: Vec<(f32, usize, [f32; 6])> = Vec::new();
    for (l, maps) in levels.iter().enumerate() {
        let n: usize = maps.grid.iter().product();
        let placed = anchors.level(l, maps.grid, padded).unwrap();
        let boxes = decode_level(&placed, maps);
        let mut own = Vec::new();
        for (index, corners) in boxes.iter().enumerate() {
            let (position, shape) = (index / SHAPES.len(), index % SHAPES.len());
            for class in 0..classes {
                let logit = maps.class_logits[(shape * classes + class) * n + position];
                let score = sigmoid(logit);
                if score > selector.score_thresh {
                    own.push((score, class, *corners));
                }
            }
        }
        own.sort_by(|a, b| b.0.total_cmp(&a.0));
        own.truncate(selector.topk_candidates_per_level);
        for (score, class, mut b) in own {
            for (i, c) in b.iter_mut().enumerate() {
                *c = c.clamp(0.0, image[i % 3] as f32);
            }
            if (0..3).all(|a| b[a + 3] - b[a] >= 1.0) {
                all.push((score, class, b));
            }
        }
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut kept: Vec<(f32, usize, [f32; 6])> = Vec::new();
    for (score, class, b) in all {
        let hides = |k: &(f32, usize, [f32; 6])| {
            k.1 == class && BoxF(k.2).iou(&BoxF(b)) > selector.nms_thresh
        };
        if !kept.iter().any(hides) {
            kept.push((score, class, b));
        }
    }
    kept.truncate(selector.detections_per_img);
    kept
}

proptest! {
    #![proptest_config(crate::random_cases::random_cases(60))]

    #[test]
    fn several_classes_and_any_caps_select_what_the_plain_rules_select(
        seed in 1_u32..10_000,
        classes in 1_usize..4,
        cells in prop::array::uniform3(1_usize..4),
        cut in prop::array::uniform3(0_usize..4),
        topk in prop::sample::select(vec![1_usize, 7, 1000]),
        most in prop::sample::select(vec![1_usize, 5, 300]),
        thresh in prop::sample::select(vec![0.02_f32, 0.5, 0.8]),
    ) {
        let padded = cells.map(|c| c * 8);
        let image: [usize; 3] = std::array::from_fn(|a| padded[a] - cut[a]);
        let grids = [padded.map(|n| n / 4), padded.map(|n| n / 8)];
        let values: Vec<(Vec<f32>, Vec<f32>)> = grids
            .iter()
            .zip(seed..)
            .map(|(g, s)| {
                let n: usize = g.iter().product();
                (noise(n * 2 * classes, s, 6.0), noise(n * 12, s + 77, 0.8))
            })
            .collect();
        let levels: Vec<LevelMaps<'_>> = grids
            .iter()
            .zip(&values)
            .map(|(g, (c, b))| LevelMaps { grid: *g, class_logits: c, box_regression: b })
            .collect();
        let anchors = AnchorSpec { base_shapes: SHAPES.to_vec(), level_scales: vec![1.0, 2.0] };
        let selector = BoxSelector {
            score_thresh: thresh,
            topk_candidates_per_level: topk,
            nms_thresh: 0.22,
            detections_per_img: most,
        };
        let found = candidates(&levels, &anchors, classes, padded, image, &selector).unwrap();
        let kept = suppress(&found.boxes, selector.nms_thresh, selector.detections_per_img);
        let ours: Vec<(f32, usize, [f32; 6])> = kept
            .iter()
            .map(|&i| (found.boxes[i].score, found.boxes[i].label, found.boxes[i].corners))
            .collect();
        prop_assert_eq!(ours, plainly(&levels, &anchors, (classes, image, padded), &selector));
    }
}
