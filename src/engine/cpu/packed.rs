//! Weights as the tiles of a convolution walk them, with a batch norm folded in and rounded once.

use super::conv::ConvParts;

/// Up to 16 output channels that are computed together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// First output channel.
    pub(super) channel: usize,
    /// How many channels of it exist.
    pub(super) channels: usize,
    /// First value in the packed weights.
    pub(super) weights: usize,
    /// Whether it is 8 wide instead of 16.
    pub(super) narrow: bool,
    /// First input channel of its group.
    pub(super) input: usize,
}

/// Weights in the order in which tiles walk them, with their bias; uses of one convolution share them.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) blocks: Vec<Block>,
    pub(super) values: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

impl Packed {
    /// The weights and biases of a convolution of so many input channels.
    pub(super) fn of(parts: &ConvParts<'_>, in_channels: usize) -> Self {
        let (blocks, values) = pack(parts, in_channels);
        Self {
            blocks,
            values,
            bias: folded_bias(parts),
        }
    }
}

/// Blocks of output channels and their weights: for each block, each tap, each input channel, the block's lanes.
fn pack(parts: &ConvParts<'_>, in_channels: usize) -> (Vec<Block>, Vec<f32>) {
    let taps: usize = parts.axes.iter().map(|a| a.kernel).product();
    let (group_in, group_out) = (
        in_channels / parts.groups,
        parts.out_channels / parts.groups,
    );
    let mut blocks = Vec::new();
    let mut packed = Vec::new();
    for group in 0..parts.groups {
        let mut first = 0;
        while first < group_out {
            let left = group_out - first;
            let narrow = left <= 8;
            let lanes = if narrow { 8 } else { 16 };
            let channels = left.min(lanes);
            let channel = group * group_out + first;
            blocks.push(Block {
                channel,
                channels,
                weights: packed.len(),
                narrow,
                input: group * group_in,
            });
            for tap in 0..taps {
                for i in 0..group_in {
                    for lane in 0..lanes {
                        let value = if lane < channels {
                            let out = first + lane;
                            let at = if parts.transposed {
                                ((group * group_in + i) * group_out + out) * taps + tap
                            } else {
                                ((group * group_out + out) * group_in + i) * taps + tap
                            };
                            folded_weight(parts, channel + lane, parts.weights[at])
                        } else {
                            0.0
                        };
                        packed.push(value);
                    }
                }
            }
            first += channels;
        }
    }
    (blocks, packed)
}

/// A weight with the batch norm in it, rounded once.
fn folded_weight(parts: &ConvParts<'_>, channel: usize, weight: f32) -> f32 {
    match &parts.fold {
        Some((factor, _)) => super::rounded(f64::from(weight) * factor[channel]),
        None => weight,
    }
}

/// Bias with the batch norm in it, rounded once.
fn folded_bias(parts: &ConvParts<'_>) -> Vec<f32> {
    let own = |c: usize| parts.bias.map_or(0.0, |b| b[c]);
    match &parts.fold {
        Some((factor, shift)) => (0..parts.out_channels)
            .map(|c| super::rounded(f64::from(own(c)).mul_add(factor[c], shift[c])))
            .collect(),
        None => (0..parts.out_channels).map(own).collect(),
    }
}
