//! The demo detector: two levels at strides 4 and 8, RetinaNet outputs, 89,245 parameters.
//!
//! Layers, with weights as PyTorch stores them (out, in, kernel...), every convolution with a bias, `ReLU` after each but the outputs:
//!
//! | module | kernel, stride, padding | weight |
//! |---|---|---|
//! | `stem.conv` | 3, 2, 1 | (16, 1, 3, 3, 3) |
//! | `down1.conv` | 3, 2, 1 | (24, 16, 3, 3, 3) |
//! | `body1.conv`, `body2.conv` | 3, 1, 1 | (24, 24, 3, 3, 3); level 0 is what `body2` makes, at stride 4 |
//! | `down2.conv` | 3, 2, 1 | (24, 24, 3, 3, 3) |
//! | `body3.conv` | 3, 1, 1 | (24, 24, 3, 3, 3); level 1 is what `body3` makes, at stride 8 |
//! | `head.conv` (on both levels) | 3, 1, 1 | (24, 24, 3, 3, 3) |
//! | `head.class_logits` (on both) | 1, 1, 0 | (3, 24, 1, 1, 1): one class x 3 anchors |
//! | `head.box_regression` (on both) | 1, 1, 0 | (18, 24, 1, 1, 1): anchor by anchor dx dy dz dw dh dd |
//!
//! `demo-norm` is the same with `GroupNorm` (4 groups, eps 1e-5, `*.norm.weight` and `*.norm.bias` of 24) between convolution and `ReLU`
//! of `down1`, `body1`, `body2`, `down2`, `body3` and `head`; not in the stem. A batch norm used in training is folded into the convolutions.
//! Outputs: class logits of level 0 and 1, then box regression of level 0 and 1. Anchors are in the manifest.

use crate::network::builder::{Builder, Conv};
use crate::network::graph::{Act, Graph, TensorId};

const GROUPS: usize = 4;

/// The graph of `demo`, or of `demo-norm` with `norm`.
pub(super) fn graph(name: &str, norm: bool) -> Graph {
    let mut b = Builder::new(name, 3);
    let x = b.input("image", 1);
    let x = block(&mut b, "stem", x, (16, 2), false);
    let x = block(&mut b, "down1", x, (24, 2), norm);
    let x = block(&mut b, "body1", x, (24, 1), norm);
    let level0 = block(&mut b, "body2", x, (24, 1), norm);
    let x = block(&mut b, "down2", level0, (24, 2), norm);
    let level1 = block(&mut b, "body3", x, (24, 1), norm);
    let heads = [level0, level1].map(|x| {
        let h = block(&mut b, "head", x, (24, 1), norm);
        let class_logits = b.conv("head.class_logits", h, Conv::k1(3));
        let box_regression = b.conv("head.box_regression", h, Conv::k1(18));
        (class_logits, box_regression)
    });
    for (level, (class_logits, _)) in heads.iter().enumerate() {
        b.rename(*class_logits, &format!("class_logits_{level}"));
        b.output(*class_logits);
    }
    for (level, (_, box_regression)) in heads.iter().enumerate() {
        b.rename(*box_regression, &format!("box_regression_{level}"));
        b.output(*box_regression);
    }
    b.finish()
}

fn block(
    b: &mut Builder,
    name: &str,
    x: TensorId,
    (out, stride): (usize, usize),
    norm: bool,
) -> TensorId {
    let conv = Conv::k3(out).stride(&[stride; 3]);
    let mut x = b.conv(&format!("{name}.conv"), x, conv);
    if norm {
        x = b.group_norm(&format!("{name}.norm"), x, GROUPS);
    }
    b.act(&format!("{name}.act"), x, Act::Relu, true)
}
