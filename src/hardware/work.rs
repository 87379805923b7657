//! How long a window takes on a card it never ran on: a roofline over its operations, at a stated efficiency.

use super::{Card, Costs, Knob};
use crate::geometry::Extent;
use crate::memory::Precision;
use crate::network::manifest::Axes;
use crate::network::{Graph, NetworkError, Op, facts, shapes};

/// One operation of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operation {
    flops: u64,
    bytes: u64,
    /// Whether tensor cores can do it.
    products: bool,
}

/// What one pass over one window computes and moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    operations: Vec<Operation>,
    precision: Precision,
}

impl Work {
    /// The work of one window.
    pub fn of(
        graph: &Graph,
        roi: Extent,
        axes: Axes,
        precision: Precision,
    ) -> Result<Self, NetworkError> {
        let mut spatial = roi.to_array().to_vec();
        spatial.truncate(graph.spatial_dims);
        if axes == Axes::Zyx {
            spatial.reverse();
        }
        let shapes = shapes::infer(graph, &spatial, 1)?;
        let value = if precision == Precision::Fp32 { 4 } else { 2 };
        let size = |at: usize| -> u64 {
            let shape = shapes.get(at).map_or(&[][..], Vec::as_slice);
            shape.iter().fold(value, |n, d| n.saturating_mul(*d as u64))
        };
        let flops = facts::flops(graph, &shapes);
        let operations = graph
            .nodes
            .iter()
            .zip(flops)
            .map(|(node, flops)| Operation {
                flops,
                bytes: node
                    .inputs
                    .iter()
                    .chain(&node.outputs)
                    .map(|t| size(t.index()))
                    .fold(0, u64::saturating_add),
                products: matches!(
                    node.op,
                    Op::Conv { .. } | Op::ConvTranspose { .. } | Op::Tensor(_)
                ),
            })
            .collect();
        Ok(Self {
            operations,
            precision,
        })
    }

    /// Floating point operations in all.
    pub fn flops(&self) -> u64 {
        let each = self.operations.iter().map(|o| o.flops);
        each.fold(0, u64::saturating_add)
    }

    /// Seconds on a card: each operation as long as its arithmetic or its bytes take, whichever is longer. `None` where the
    /// card's rates are not known.
    pub fn seconds(&self, card: &Card, costs: &Costs) -> Option<f64> {
        let bandwidth = card.rates.bandwidth_gb_s? * 1e9 * costs.get(Knob::BandwidthShare);
        let plain = card.rates.fp32_tflops? * 1e12 * costs.get(Knob::ComputeShareFp32);
        let products = if self.precision == Precision::Fp32 {
            plain
        } else {
            card.rates.tensor_tflops? * 1e12 * costs.get(Knob::ComputeShareTensor)
        };
        let each = self.operations.iter().map(|o| {
            let rate = if o.products { products } else { plain };
            (o.flops as f64 / rate).max(o.bytes as f64 / bandwidth)
        });
        Some(each.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Catalogue;
    use crate::network::preset;

    #[test]
    fn twice_the_window_takes_twice_as_long_and_a_faster_card_less() {
        let model = preset::load("nnunet-resenc-m").unwrap();
        let (catalogue, costs) = (Catalogue::builtin(), Costs::builtin());
        let axes = model.manifest.input.axes;
        let work = |z: usize, p| Work::of(&model.graph, Extent::new(128, 128, z), axes, p).unwrap();
        let on = |id: &str, w: &Work| w.seconds(catalogue.get(id).unwrap(), &costs).unwrap();
        let (one, two) = (work(64, Precision::Fp32), work(128, Precision::Fp32));
        let ratio = on("rtx-4090", &two) / on("rtx-4090", &one);
        assert!((1.9..2.1).contains(&ratio), "{ratio}");
        assert!(on("rtx-4090", &one) < on("rtx-4060", &one));
        let half = work(64, Precision::Fp16);
        assert!(on("rtx-4090", &half) < on("rtx-4090", &one));
        assert_eq!(half.flops(), one.flops());
        let shapes = shapes::infer(&model.graph, &[128, 128, 128], 1).unwrap();
        assert_eq!(two.flops(), facts::total_flops(&model.graph, &shapes));
    }

    #[test]
    fn a_card_without_rates_has_no_forecast() {
        let model = preset::load("demo").unwrap();
        let work = Work::of(&model.graph, Extent::cube(32), Axes::Xyz, Precision::Fp32).unwrap();
        let text = "[[card]]\nid = \"bare\"\nmemory = { nameplate_gb = 8 }\n";
        let path = std::path::Path::new("cards.toml");
        let catalogue = Catalogue::with_user_text(text, path).unwrap();
        let bare = catalogue.get("bare").unwrap();
        assert_eq!(work.seconds(bare, &Costs::builtin()), None);
    }
}
