//! MONAI's RetinaNet as the lung nodule bundle makes it: a ResNet-50 cut after its second stage, a feature pyramid, two heads on three levels.

use crate::network::builder::{Builder, Conv};
use crate::network::graph::{Act, Graph, TensorId};

const WIDTH: usize = 256;
const NORM_GROUPS: usize = 8;
const ANCHORS: usize = 3;

/// The graph; node names are PyTorch's module paths.
pub(super) fn graph(name: &str) -> Graph {
    let mut b = Builder::new(name, 3);
    let x = b.input("image", 1);
    let [fine, coarse] = body(&mut b, x);
    let levels = pyramid(&mut b, fine, coarse);
    let heads = [
        ("classification_head", "cls_logits", ANCHORS, "class_logits"),
        ("regression_head", "bbox_reg", ANCHORS * 6, "box_regression"),
    ];
    for (head, last, channels, output) in heads {
        for (level, x) in levels.into_iter().enumerate() {
            let x = tower(&mut b, head, x);
            let out = b.conv(&format!("{head}.{last}"), x, Conv::k3(channels));
            b.rename(out, &format!("{output}_{level}"));
            b.output(out);
        }
    }
    b.finish()
}

fn body(b: &mut Builder, x: TensorId) -> [TensorId; 2] {
    let at = "feature_extractor.body";
    let stem = Conv::new(64, &[7, 7, 7]).stride(&[2, 2, 1]).no_bias();
    let x = b.conv(&format!("{at}.conv1"), x, stem);
    let x = b.batch_norm(&format!("{at}.bn1"), x);
    let x = b.act(&format!("{at}.act"), x, Act::Relu, true);
    let mut x = b.max_pool(&format!("{at}.maxpool"), x, &[3; 3], &[2; 3], &[1; 3]);
    for block in 0..3 {
        x = bottleneck(b, &format!("{at}.layer1.{block}"), x, (64, 1));
    }
    let fine = x;
    for block in 0..4 {
        let stride = if block == 0 { 2 } else { 1 };
        x = bottleneck(b, &format!("{at}.layer2.{block}"), x, (128, stride));
    }
    [fine, x]
}

fn bottleneck(b: &mut Builder, at: &str, x: TensorId, (width, stride): (usize, usize)) -> TensorId {
    let out = width * 4;
    let mut y = x;
    let act = format!("{at}.act");
    for (i, conv) in [
        Conv::k1(width),
        Conv::k3(width).stride(&[stride; 3]),
        Conv::k1(out),
    ]
    .into_iter()
    .enumerate()
    {
        y = b.conv(&format!("{at}.conv{}", i + 1), y, conv.no_bias());
        y = b.batch_norm(&format!("{at}.bn{}", i + 1), y);
        if i < 2 {
            y = b.act(&act, y, Act::Relu, true);
        }
    }
    let residual = if b.channels(x) == out {
        x
    } else {
        let conv = Conv::k1(out).stride(&[stride; 3]);
        let down = b.conv(&format!("{at}.downsample.0"), x, conv);
        b.batch_norm(&format!("{at}.downsample.1"), down)
    };
    let sum = b.add(&format!("{at}.add"), y, residual, true);
    b.act(&act, sum, Act::Relu, true)
}

fn pyramid(b: &mut Builder, fine: TensorId, coarse: TensorId) -> [TensorId; 3] {
    let at = "feature_extractor.fpn";
    let inner1 = b.conv(&format!("{at}.inner_blocks.1"), coarse, Conv::k1(WIDTH));
    let level1 = b.conv(&format!("{at}.layer_blocks.1"), inner1, Conv::k3(WIDTH));
    let inner0 = b.conv(&format!("{at}.inner_blocks.0"), fine, Conv::k1(WIDTH));
    let up = b.upsample_nearest(&format!("{at}.interpolate"), inner1, &[2; 3]);
    let inner0 = b.add(&format!("{at}.add"), inner0, up, false);
    let level0 = b.conv(&format!("{at}.layer_blocks.0"), inner0, Conv::k3(WIDTH));
    let level2 = b.max_pool(
        &format!("{at}.extra_blocks.maxpool"),
        level1,
        &[1; 3],
        &[2; 3],
        &[0; 3],
    );
    [level0, level1, level2]
}

fn tower(b: &mut Builder, head: &str, mut x: TensorId) -> TensorId {
    for i in 0..4 {
        x = b.conv(&format!("{head}.conv.{}", 3 * i), x, Conv::k3(WIDTH));
        x = b.group_norm(&format!("{head}.conv.{}", 3 * i + 1), x, NORM_GROUPS);
        x = b.act(&format!("{head}.conv.{}", 3 * i + 2), x, Act::Relu, false);
    }
    x
}
