//! What a convolution library may ask for on top: unknowable before the run, so a range. Low 0, high the fp32 im2col
//! of the largest convolution; and the explicit im2col that PyTorch falls back to past 2^31 elements.

use super::eager::count;
use crate::network::{Graph, Op};

/// Bounds of the convolution workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workspace {
    /// Bytes of the largest fp32 im2col: input channels x kernel x output voxels x 4.
    pub high: u64,
    /// The node it belongs to.
    pub node: String,
    /// Convolutions whose input has more than 2^31 - 1 elements: node, elements, bytes of the explicit im2col.
    pub past_2_31: Vec<(String, u64, u64)>,
}

/// Elements up to which 32-bit indices reach.
const INDEX_LIMIT: u64 = (1 << 31) - 1;

/// Bounds for a graph at the given shapes; `value_bytes` is what a convolution's input value takes (2 under autocast).
pub fn workspace(graph: &Graph, shapes: &[Vec<usize>], value_bytes: u64) -> Workspace {
    let mut found = Workspace::default();
    for node in &graph.nodes {
        let (kernel, transposed) = match &node.op {
            Op::Conv { kernel, .. } => (kernel, false),
            Op::ConvTranspose { kernel, .. } => (kernel, true),
            _ => continue,
        };
        let (Some(x), Some(y)) = (node.inputs.first(), node.outputs.first()) else {
            continue;
        };
        let (input, output) = (&shapes[x.index()], &shapes[y.index()]);
        let channels = |s: &[usize]| s.get(1).map_or(1, |c| *c as u64);
        let voxels = |s: &[usize]| count(s) / channels(s).max(1);
        // A transposed convolution is the backward pass of one: its columns lie over its input's voxels.
        let (c, v) = if transposed {
            (channels(output), voxels(input))
        } else {
            (channels(input), voxels(output))
        };
        let taps = count(kernel);
        let bytes = c.saturating_mul(taps).saturating_mul(v).saturating_mul(4);
        if bytes > found.high {
            found.high = bytes;
            found.node.clone_from(&node.name);
        }
        if count(input) > INDEX_LIMIT {
            found
                .past_2_31
                .push((node.name.clone(), count(input), bytes / 4 * value_bytes));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::builder::{Builder, Conv};
    use crate::network::shapes;

    fn one(channels: usize, out: usize, pad: usize) -> Graph {
        let mut b = Builder::new("one", 3);
        let x = b.input("x", channels);
        let y = b.conv("conv", x, Conv::k3(out).pad(&[pad; 3]));
        b.output(y);
        b.finish()
    }

    fn asked(graph: &Graph, size: &[usize], value_bytes: u64) -> (u64, Option<u64>) {
        let shapes = shapes::infer(graph, size, 1).unwrap();
        let w = workspace(graph, &shapes, value_bytes);
        (w.high, w.past_2_31.first().map(|(_, _, bytes)| *bytes))
    }

    #[test]
    fn past_2_31_elements_the_request_is_that_of_the_public_thread() {
        // pytorch#128947: fp32, no padding; 4 slices of 1090x1922 ran, 5 asked for 161.37 GiB.
        let graph = one(256, 64, 0);
        assert_eq!(asked(&graph, &[4, 1090, 1922], 4).1, None);
        let bytes = asked(&graph, &[5, 1090, 1922], 4).1.unwrap();
        assert!((bytes as f64 / (1u64 << 30) as f64 - 161.37).abs() < 0.005);
        // pytorch#136479: half, 248 cubed ran, 256 cubed asked for 108.00 GiB. pytorch#95024: 108.21 GiB.
        let graph = one(128, 128, 1);
        assert_eq!(asked(&graph, &[248; 3], 2).1, None);
        let bytes = asked(&graph, &[256; 3], 2).1.unwrap();
        assert!((bytes as f64 / (1u64 << 30) as f64 - 108.00).abs() < 0.005);
        let bytes = asked(&one(64, 32, 1), &[362, 370, 251], 2).1.unwrap();
        assert!((bytes as f64 / (1u64 << 30) as f64 - 108.21).abs() < 0.005);
    }

    #[test]
    fn the_high_end_is_the_fp32_im2col_of_the_largest_convolution() {
        assert_eq!(
            asked(&one(16, 8, 1), &[32; 3], 2).0,
            16 * 27 * 32 * 32 * 32 * 4
        );
    }
}
