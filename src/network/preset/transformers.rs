//! MONAI's UNETR and `SwinUNETR` at 96 voxels cubed: planned with every parameter and map, not run.

use crate::network::builder::{Builder, Conv};
use crate::network::graph::{Act, Graph, Op, TensorId};

const SIZE: usize = 96;
const TWO: [usize; 3] = [2; 3];
const LEAKY: Act = Act::LeakyRelu { slope: 0.01 };

/// An operation on tokens: its type, inputs, learned tensors (name after the node's, shape) and the shape of its result.
struct Step<'a> {
    kind: &'a str,
    inputs: &'a [TensorId],
    learned: &'a [(&'a str, &'a [usize])],
    shape: &'a [usize],
    flops: usize,
}

fn step(b: &mut Builder, name: &str, step: &Step<'_>) -> TensorId {
    let mut inputs = step.inputs.to_vec();
    for (part, shape) in step.learned {
        inputs.push(b.parameter(format!("{name}.{part}"), shape.to_vec()));
    }
    let op = Op::Other {
        kind: step.kind.to_owned(),
        at: vec![SIZE; 3],
        shapes: vec![step.shape.to_vec()],
        flops: step.flops as u64,
        reason: "the preset is a plan at one size without its weights; the network itself runs from its ONNX file".to_owned(),
    };
    b.node(name, op, inputs, step.shape.get(1).copied().unwrap_or(0))
}

fn values(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// An operation without learned tensors.
fn plain(
    b: &mut Builder,
    name: &str,
    kind: &str,
    inputs: &[TensorId],
    shape: &[usize],
) -> TensorId {
    step(
        b,
        name,
        &Step {
            kind,
            inputs,
            learned: &[],
            shape,
            flops: values(shape),
        },
    )
}

/// The same values seen in another shape.
fn view(b: &mut Builder, name: &str, x: TensorId, shape: &[usize]) -> TensorId {
    let y = plain(b, name, "Transpose", &[x], shape);
    b.in_place();
    y
}

fn layer_norm(b: &mut Builder, name: &str, x: TensorId, shape: &[usize]) -> TensorId {
    let width = [shape.last().copied().unwrap_or(1)];
    let learned: &[(&str, &[usize])] = &[("weight", &width), ("bias", &width)];
    step(
        b,
        name,
        &Step {
            kind: "LayerNorm",
            inputs: &[x],
            learned,
            shape,
            flops: 8 * values(shape),
        },
    )
}

/// A linear layer from `inner` to the last entry of `shape`.
fn linear(
    b: &mut Builder,
    name: &str,
    x: TensorId,
    (inner, bias): (usize, bool),
    shape: &[usize],
) -> TensorId {
    let out = shape.last().copied().unwrap_or(1);
    let (weight, row) = ([out, inner], [out]);
    let both: [(&str, &[usize]); 2] = [("weight", &weight), ("bias", &row)];
    let learned = both.get(..1 + usize::from(bias)).unwrap_or(&both);
    step(
        b,
        name,
        &Step {
            kind: "Linear",
            inputs: &[x],
            learned,
            shape,
            flops: 2 * inner * values(shape),
        },
    )
}

/// A product of two token maps over `inner` values.
fn product(
    b: &mut Builder,
    name: &str,
    inputs: &[TensorId],
    inner: usize,
    shape: &[usize],
) -> TensorId {
    step(
        b,
        name,
        &Step {
            kind: "MatMul",
            inputs,
            learned: &[],
            shape,
            flops: 2 * inner * values(shape),
        },
    )
}

/// `UNETR(1, 3, img_size 96-cubed)` with its defaults.
pub(super) fn unetr(name: &str) -> Graph {
    let mut b = Builder::new(name, 3);
    let image = b.input("image", 1);
    let width = 768;
    let tokens = [1, 216, width];
    let grid = [1, width, 6, 6, 6];
    let patches = Conv::new(width, &[16; 3]).stride(&[16; 3]).pad(&[0; 3]);
    let x = b.conv("vit.patch_embedding.patch_embeddings", image, patches);
    let learned: &[(&str, &[usize])] = &[("position_embeddings", &tokens)];
    let mut x = step(
        &mut b,
        "vit.patch_embedding",
        &Step {
            kind: "Add",
            inputs: &[x],
            learned,
            shape: &tokens,
            flops: values(&tokens),
        },
    );
    let mut hidden = Vec::new();
    for i in 0..12 {
        x = vit_block(&mut b, &format!("vit.blocks.{i}"), x, (width, 3072, 12));
        if matches!(i, 3 | 6 | 9) {
            hidden.push(x);
        }
    }
    let x = layer_norm(&mut b, "vit.norm", x, &tokens);
    let enc1 = res_block(&mut b, "encoder1.layer", image, 16);
    let mut skips = vec![enc1];
    for (i, (tokens, (out, layers))) in hidden
        .into_iter()
        .zip([(32, 2), (64, 1), (128, 0)])
        .enumerate()
    {
        let at = format!("encoder{}", i + 2);
        // Hidden states lie channels first in memory, as the patch embedding left them.
        let map = view(&mut b, &format!("proj_feat.{}", i + 2), tokens, &grid);
        let mut y = b.conv_transpose(
            &format!("{at}.transp_conv_init.conv"),
            map,
            out,
            &TWO,
            false,
        );
        for layer in 0..layers {
            y = b.conv_transpose(&format!("{at}.blocks.{layer}.0.conv"), y, out, &TWO, false);
            y = res_block(&mut b, &format!("{at}.blocks.{layer}.1"), y, out);
        }
        skips.push(y);
    }
    let mut x = plain(&mut b, "proj_feat.5", "Transpose", &[x], &grid);
    for (level, out) in [(5, 128), (4, 64), (3, 32), (2, 16)] {
        let skip = skips.pop().unwrap_or(x);
        x = up_block(&mut b, &format!("decoder{level}"), x, (skip, out));
    }
    finish(b, x)
}

fn vit_block(
    b: &mut Builder,
    at: &str,
    x: TensorId,
    (width, mlp, heads): (usize, usize, usize),
) -> TensorId {
    let tokens = [1, 216, width];
    let map = [1, heads, 216, 216];
    // Built by the constructor, used only with cross attention.
    b.parameter(format!("{at}.norm_cross_attn.weight"), vec![width]);
    b.parameter(format!("{at}.norm_cross_attn.bias"), vec![width]);
    let y = layer_norm(b, &format!("{at}.norm1"), x, &tokens);
    let qkv = linear(
        b,
        &format!("{at}.attn.qkv"),
        y,
        (width, false),
        &[1, 216, 3 * width],
    );
    let scores = product(b, &format!("{at}.attn.scores"), &[qkv], width / heads, &map);
    let scaled = plain(b, &format!("{at}.attn.scale"), "Mul", &[scores], &map);
    let weights = plain(b, &format!("{at}.attn.softmax"), "Softmax", &[scaled], &map);
    let mixed = product(
        b,
        &format!("{at}.attn.values"),
        &[weights, qkv],
        216,
        &[1, heads, 216, width / heads],
    );
    let mixed = plain(
        b,
        &format!("{at}.attn.out_rearrange"),
        "Transpose",
        &[mixed],
        &tokens,
    );
    let y = linear(
        b,
        &format!("{at}.attn.out_proj"),
        mixed,
        (width, true),
        &tokens,
    );
    let x = plain(b, &format!("{at}.add"), "Add", &[x, y], &tokens);
    mlp_block(b, at, x, (&tokens, mlp))
}

fn mlp_block(b: &mut Builder, at: &str, x: TensorId, (tokens, mlp): (&[usize], usize)) -> TensorId {
    let width = tokens.last().copied().unwrap_or(1);
    let mut wide = tokens.to_vec();
    if let Some(last) = wide.last_mut() {
        *last = mlp;
    }
    let y = layer_norm(b, &format!("{at}.norm2"), x, tokens);
    let y = linear(b, &format!("{at}.mlp.linear1"), y, (width, true), &wide);
    let y = plain(b, &format!("{at}.mlp.fn"), "Gelu", &[y], &wide);
    let y = linear(b, &format!("{at}.mlp.linear2"), y, (mlp, true), tokens);
    plain(b, &format!("{at}.add_mlp"), "Add", &[x, y], tokens)
}

/// `SwinUNETR(1, 3, feature_size 48)`: windows of 7 voxels cubed, depths 2 2 2 2, heads 3 6 12 24.
pub(super) fn swin_unetr(name: &str) -> Graph {
    let mut b = Builder::new(name, 3);
    let image = b.input("image", 1);
    let embed = Conv::new(48, &TWO).stride(&TWO).pad(&[0; 3]);
    let mut x = b.conv("swinViT.patch_embed.proj", image, embed);
    let mut hidden = vec![normed(&mut b, 0, x, (48, 48))];
    for (i, (width, size, heads)) in [(48, 48, 3), (96, 24, 6), (192, 12, 12), (384, 6, 24)]
        .into_iter()
        .enumerate()
    {
        let stage = Stage { width, size, heads };
        if i > 0 {
            // What the level before made lies channels last.
            let shape = [1, width, size, size, size];
            let name = format!("swinViT.contiguous.{i}");
            x = plain(&mut b, &name, "Transpose", &[x], &shape);
        }
        x = swin_layer(&mut b, &format!("swinViT.layers{}.0", i + 1), x, stage);
        hidden.push(normed(&mut b, i + 1, x, (2 * width, size / 2)));
    }
    let mut skips = vec![res_block(&mut b, "encoder1.layer", image, 48)];
    let mut deep = Vec::new();
    for (i, map) in hidden.into_iter().enumerate() {
        if i < 3 {
            skips.push(res_block(
                &mut b,
                &format!("encoder{}.layer", i + 2),
                map,
                48 << i,
            ));
        } else {
            deep.push(map);
        }
    }
    let bottom = deep.pop().unwrap_or(image);
    let mut x = res_block(&mut b, "encoder10.layer", bottom, 768);
    skips.extend(deep);
    for (level, out) in [(5, 384), (4, 192), (3, 96), (2, 48), (1, 48)] {
        let skip = skips.pop().unwrap_or(x);
        x = up_block(&mut b, &format!("decoder{level}"), x, (skip, out));
    }
    finish(b, x)
}

#[derive(Clone, Copy)]
struct Stage {
    width: usize,
    size: usize,
    heads: usize,
}

/// Two blocks, the second with shifted windows, then eight neighbours merged into one token of twice the width.
fn swin_layer(b: &mut Builder, at: &str, x: TensorId, stage: Stage) -> TensorId {
    let Stage { width, size, .. } = stage;
    let volume = [1, size, size, size, width];
    let mut x = view(b, &format!("{at}.channels_last"), x, &volume);
    let windows = size.div_ceil(7).pow(3);
    // A map no larger than a window has one window and nothing to shift.
    let mask = (size > 7).then(|| {
        plain(
            b,
            &format!("{at}.attn_mask"),
            "Mask",
            &[x],
            &[windows, 343, 343],
        )
    });
    for block in 0..2 {
        let mask = mask.filter(|_| block == 1);
        x = swin_block(b, &format!("{at}.blocks.{block}"), (x, mask), stage);
    }
    let half = size / 2;
    let merged = [1, half, half, half, 8 * width];
    let y = plain(b, &format!("{at}.downsample.cat"), "Concat", &[x], &merged);
    let y = layer_norm(b, &format!("{at}.downsample.norm"), y, &merged);
    let reduced = [1, half, half, half, 2 * width];
    let y = linear(
        b,
        &format!("{at}.downsample.reduction"),
        y,
        (8 * width, false),
        &reduced,
    );
    let merged = [1, 2 * width, half, half, half];
    view(b, &format!("{at}.channels_first"), y, &merged)
}

fn swin_block(
    b: &mut Builder,
    at: &str,
    (x, mask): (TensorId, Option<TensorId>),
    stage: Stage,
) -> TensorId {
    let Stage { width, size, .. } = stage;
    let volume = [1, size, size, size, width];
    let side = size.min(7);
    let (windows, tokens) = (size.div_ceil(side).pow(3), side.pow(3));
    let whole = size.next_multiple_of(side);
    let padded = [1, whole, whole, whole, width];
    let cut = [windows, tokens, width];
    let mut y = layer_norm(b, &format!("{at}.norm1"), x, &volume);
    if whole != size {
        y = plain(b, &format!("{at}.pad"), "Pad", &[y], &padded);
    }
    if mask.is_some() {
        y = plain(b, &format!("{at}.roll"), "Roll", &[y], &padded);
    }
    y = plain(b, &format!("{at}.window_partition"), "Reshape", &[y], &cut);
    y = window_attention(b, &format!("{at}.attn"), (y, mask), stage);
    y = plain(b, &format!("{at}.window_reverse"), "Reshape", &[y], &padded);
    if mask.is_some() {
        y = plain(b, &format!("{at}.unroll"), "Roll", &[y], &padded);
    }
    if whole != size {
        y = plain(b, &format!("{at}.crop"), "Slice", &[y], &volume);
    }
    let x = plain(b, &format!("{at}.add"), "Add", &[x, y], &volume);
    mlp_block(b, at, x, (&volume, 4 * width))
}

/// Attention inside each window, with a learned bias per pair of places and the mask of shifted windows.
fn window_attention(
    b: &mut Builder,
    at: &str,
    (x, mask): (TensorId, Option<TensorId>),
    Stage { width, size, heads }: Stage,
) -> TensorId {
    let side = size.min(7);
    let (windows, tokens) = (size.div_ceil(side).pow(3), side.pow(3));
    let cut = [windows, tokens, width];
    let map = [windows, heads, tokens, tokens];
    let each = [windows, heads, tokens, width / heads];
    let all = [windows, tokens, 3 * width];
    let qkv = linear(b, &format!("{at}.qkv"), x, (width, true), &all);
    let table = [13usize.pow(3), heads];
    let learned: &[(&str, &[usize])] = &[("relative_position_bias_table", &table)];
    b.buffer(format!("{at}.relative_position_index"), vec![343, 343]);
    let bias = step(
        b,
        at,
        &Step {
            kind: "Gather",
            inputs: &[qkv],
            learned,
            shape: &[heads, tokens, tokens],
            flops: 0,
        },
    );
    let q = plain(b, &format!("{at}.q"), "Mul", &[qkv], &each);
    let inner = width / heads;
    let scores = product(b, &format!("{at}.scores"), &[q, qkv], inner, &map);
    let mut weights = plain(b, &format!("{at}.add"), "Add", &[scores, bias], &map);
    if let Some(mask) = mask {
        weights = plain(b, &format!("{at}.mask"), "Add", &[weights, mask], &map);
    }
    let weights = plain(b, &format!("{at}.softmax"), "Softmax", &[weights], &map);
    let mixed = product(b, &format!("{at}.values"), &[weights, qkv], tokens, &each);
    let y = plain(b, &format!("{at}.merge"), "Reshape", &[mixed], &cut);
    linear(b, &format!("{at}.proj"), y, (width, true), &cut)
}

/// The layer norm without parameters that each level's map goes through.
fn normed(b: &mut Builder, level: usize, x: TensorId, (width, size): (usize, usize)) -> TensorId {
    plain(
        b,
        &format!("swinViT.proj_out.{level}"),
        "LayerNorm",
        &[x],
        &[1, width, size, size, size],
    )
}

fn up_block(b: &mut Builder, at: &str, x: TensorId, (skip, out): (TensorId, usize)) -> TensorId {
    let up = b.conv_transpose(&format!("{at}.transp_conv.conv"), x, out, &TWO, false);
    let joined = b.concat(&format!("{at}.cat"), &[up, skip]);
    res_block(b, &format!("{at}.conv_block"), joined, out)
}

/// Two convolutions and a residual, instance norms without parameters.
fn res_block(b: &mut Builder, at: &str, x: TensorId, out: usize) -> TensorId {
    let y = b.conv(&format!("{at}.conv1.conv"), x, Conv::k3(out).no_bias());
    let y = b.instance_norm(&format!("{at}.norm1"), y, false);
    let y = b.act(&format!("{at}.lrelu"), y, LEAKY, true);
    let y = b.conv(&format!("{at}.conv2.conv"), y, Conv::k3(out).no_bias());
    let y = b.instance_norm(&format!("{at}.norm2"), y, false);
    let mut residual = x;
    if b.channels(x) != out {
        residual = b.conv(&format!("{at}.conv3.conv"), x, Conv::k1(out).no_bias());
        residual = b.instance_norm(&format!("{at}.norm3"), residual, false);
    }
    let y = b.add(&format!("{at}.add"), y, residual, true);
    b.act(&format!("{at}.lrelu"), y, LEAKY, true)
}

fn finish(mut b: Builder, x: TensorId) -> Graph {
    let x = b.conv("out.conv.conv", x, Conv::k1(3));
    b.rename(x, "logits");
    b.output(x);
    b.finish()
}
