//! MONAI's segmentation networks by their public constructors, node names as PyTorch's module paths.

use crate::network::builder::{Builder, Conv};
use crate::network::graph::{Act, Graph, TensorId};

const TWO: [usize; 3] = [2; 3];
const THREE: [usize; 3] = [3; 3];
const ONE: [usize; 3] = [1; 3];

/// `BasicUNet(3, 1, 3)`: features 32 32 64 128 256 32, instance norm, leaky `ReLU` 0.1, transposed convolutions.
pub(super) fn basic_unet(name: &str) -> Graph {
    let mut b = Builder::new(name, 3);
    let x = b.input("image", 1);
    let mut x = two_conv(&mut b, "conv_0", x, 32);
    let mut skips = Vec::new();
    for (i, width) in [32, 64, 128, 256].into_iter().enumerate() {
        skips.push(x);
        let at = format!("down_{}", i + 1);
        x = b.max_pool(&format!("{at}.max_pooling"), x, &TWO, &TWO, &[0; 3]);
        x = two_conv(&mut b, &format!("{at}.convs"), x, width);
    }
    // The last step up keeps its channels, the others halve them.
    for (i, (up, out)) in [(32, 32), (32, 32), (64, 64), (128, 128)]
        .into_iter()
        .enumerate()
        .rev()
    {
        let at = format!("upcat_{}", i + 1);
        let y = b.conv_transpose(&format!("{at}.upsample.deconv"), x, up, &TWO, true);
        let y = b.pad_edge(&format!("{at}.pad"), y, &[0; 3], &[0; 3]);
        let skip = skips.pop().unwrap_or(y);
        let joined = b.concat(&format!("{at}.cat"), &[skip, y]);
        x = two_conv(&mut b, &format!("{at}.convs"), joined, out);
    }
    let x = b.conv("final_conv", x, Conv::k1(3));
    finish(b, x)
}

fn two_conv(b: &mut Builder, at: &str, mut x: TensorId, out: usize) -> TensorId {
    for i in 0..2 {
        let at = format!("{at}.conv_{i}");
        x = b.conv(&format!("{at}.conv"), x, Conv::k3(out));
        x = b.instance_norm(&format!("{at}.adn.N"), x, true);
        x = b.act(
            &format!("{at}.adn.A"),
            x,
            Act::LeakyRelu { slope: 0.1 },
            true,
        );
    }
    x
}

/// `UNet(3, 1, 3, channels 16 32 64 128 256, strides 2, num_res_units 2)`: instance norm without parameters, `PReLU`.
pub(super) fn unet_res2(name: &str) -> Graph {
    let mut b = Builder::new(name, 3);
    let x = b.input("image", 1);
    let x = unet_level(&mut b, "model", x, (3, &[16, 32, 64, 128, 256]));
    finish(b, x)
}

fn unet_level(
    b: &mut Builder,
    at: &str,
    x: TensorId,
    (out, channels): (usize, &[usize]),
) -> TensorId {
    let [width, deeper @ ..] = channels else {
        return x;
    };
    let top = at == "model";
    let down = residual_unit(
        b,
        &format!("{at}.0"),
        x,
        ResUnit {
            out: *width,
            stride: 2,
            units: 2,
            conv_only: false,
        },
    );
    let below = format!("{at}.1.submodule");
    let inner = match deeper {
        [bottom] => residual_unit(
            b,
            &below,
            down,
            ResUnit {
                out: *bottom,
                stride: 1,
                units: 2,
                conv_only: false,
            },
        ),
        _ => unet_level(b, &below, down, (*width, deeper)),
    };
    let joined = b.concat(&format!("{at}.1.cat"), &[down, inner]);
    let up = format!("{at}.2.0");
    let geometry: [&[usize]; 4] = [&THREE, &TWO, &ONE, &ONE];
    let y = b.conv_transpose_padded(&format!("{up}.conv"), joined, (out, true), geometry);
    let y = norm_act(b, &up, y);
    residual_unit(
        b,
        &format!("{at}.2.1"),
        y,
        ResUnit {
            out,
            stride: 1,
            units: 1,
            conv_only: top,
        },
    )
}

#[derive(Clone, Copy)]
struct ResUnit {
    out: usize,
    stride: usize,
    units: usize,
    conv_only: bool,
}

fn residual_unit(b: &mut Builder, at: &str, x: TensorId, unit: ResUnit) -> TensorId {
    let mut residual = x;
    if unit.stride != 1 {
        residual = b.conv(
            &format!("{at}.residual"),
            x,
            Conv::k3(unit.out).stride(&[unit.stride; 3]),
        );
    } else if b.channels(x) != unit.out {
        residual = b.conv(&format!("{at}.residual"), x, Conv::k1(unit.out));
    }
    let mut y = x;
    for i in 0..unit.units {
        let stride = if i == 0 { unit.stride } else { 1 };
        let inner = format!("{at}.conv.unit{i}");
        y = b.conv(
            &format!("{inner}.conv"),
            y,
            Conv::k3(unit.out).stride(&[stride; 3]),
        );
        if !(unit.conv_only && i + 1 == unit.units) {
            y = norm_act(b, &inner, y);
        }
    }
    b.add(&format!("{at}.add"), y, residual, false)
}

fn norm_act(b: &mut Builder, at: &str, x: TensorId) -> TensorId {
    let x = b.instance_norm(&format!("{at}.adn.N"), x, false);
    b.prelu(&format!("{at}.adn.A"), x)
}

/// `SegResNet(3, init_filters 16, 1, 3)`: group norm before each convolution, linear upsampling.
pub(super) fn segresnet(name: &str) -> Graph {
    let mut b = Builder::new(name, 3);
    let x = b.input("image", 1);
    let mut x = b.conv("convInit.conv", x, Conv::k3(16).no_bias());
    let mut levels = Vec::new();
    for (i, (width, blocks)) in [(16, 1), (32, 2), (64, 2), (128, 4)]
        .into_iter()
        .enumerate()
    {
        if i > 0 {
            let conv = Conv::k3(width).stride(&TWO).no_bias();
            x = b.conv(&format!("down_layers.{i}.0.conv"), x, conv);
        }
        for block in 1..=blocks {
            x = seg_block(&mut b, &format!("down_layers.{i}.{block}"), x);
        }
        levels.push(x);
    }
    levels.pop();
    for (i, width) in [64, 32, 16].into_iter().enumerate() {
        let y = b.conv(
            &format!("up_samples.{i}.0.conv"),
            x,
            Conv::k1(width).no_bias(),
        );
        let y = b.upsample_linear(&format!("up_samples.{i}.1"), y, &TWO);
        let skip = levels.pop().unwrap_or(y);
        let y = b.add(&format!("up_samples.{i}.add"), y, skip, false);
        x = seg_block(&mut b, &format!("up_layers.{i}.0"), y);
    }
    let x = b.group_norm("conv_final.0", x, 8);
    let x = b.act("conv_final.1", x, Act::Relu, true);
    let x = b.conv("conv_final.2.conv", x, Conv::k1(3));
    finish(b, x)
}

fn seg_block(b: &mut Builder, at: &str, x: TensorId) -> TensorId {
    let width = b.channels(x);
    let mut y = x;
    for i in 1..=2 {
        y = b.group_norm(&format!("{at}.norm{i}"), y, 8);
        y = b.act(&format!("{at}.act"), y, Act::Relu, true);
        y = b.conv(&format!("{at}.conv{i}.conv"), y, Conv::k3(width).no_bias());
    }
    b.add(&format!("{at}.add"), y, x, true)
}

/// `DynUNet(3, 1, 3, kernel 3, strides 1 2 2 2 2 2, upsample kernel 2, filters 32 64 128 256 320 320)`.
pub(super) fn dynunet(name: &str) -> Graph {
    let mut b = Builder::new(name, 3);
    let x = b.input("image", 1);
    let mut x = dyn_block(&mut b, "input_block", x, (32, 1));
    let mut skips = Vec::new();
    let below = [
        "downsamples.0",
        "downsamples.1",
        "downsamples.2",
        "downsamples.3",
        "bottleneck",
    ];
    for (at, width) in below.into_iter().zip([64, 128, 256, 320, 320]) {
        skips.push(x);
        x = dyn_block(&mut b, at, x, (width, 2));
    }
    for (i, width) in [320, 256, 128, 64, 32].into_iter().enumerate() {
        let at = format!("upsamples.{i}");
        let up = b.conv_transpose(&format!("{at}.transp_conv.conv"), x, width, &TWO, false);
        let skip = skips.pop().unwrap_or(up);
        let joined = b.concat(&format!("{at}.cat"), &[up, skip]);
        x = dyn_block(&mut b, &format!("{at}.conv_block"), joined, (width, 1));
    }
    let x = b.conv("output_block.conv.conv", x, Conv::k1(3));
    finish(b, x)
}

fn dyn_block(
    b: &mut Builder,
    at: &str,
    mut x: TensorId,
    (out, stride): (usize, usize),
) -> TensorId {
    for i in 1..=2 {
        let stride = if i == 1 { stride } else { 1 };
        x = b.conv(
            &format!("{at}.conv{i}.conv"),
            x,
            Conv::k3(out).stride(&[stride; 3]).no_bias(),
        );
        x = b.instance_norm(&format!("{at}.norm{i}"), x, true);
        x = b.act(
            &format!("{at}.lrelu"),
            x,
            Act::LeakyRelu { slope: 0.01 },
            true,
        );
    }
    x
}

fn finish(mut b: Builder, x: TensorId) -> Graph {
    b.rename(x, "logits");
    b.output(x);
    b.finish()
}
