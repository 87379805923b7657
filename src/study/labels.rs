//! Segmentations: the best label of each voxel, counted by name.

use crate::geometry::Extent;
use crate::tiling::AxesOrder;
use crate::tiling::stitch::Stitched;
use std::collections::BTreeMap;

/// A label for each voxel of the prepared volume, `[k][j][i]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelMask {
    /// Size of the prepared volume without padding.
    pub extent: Extent,
    /// The index of the label.
    pub values: Vec<u8>,
    /// Names by index; the first is background.
    pub names: Vec<String>,
}

impl LabelMask {
    /// The best channel of each voxel of logits over the prepared volume; the first of equals; NaN never wins.
    /// One channel is a mask: 1 where its logit is above 0 (score above one half).
    pub fn of(logits: &Stitched, axes: AxesOrder, extent: Extent, names: &[String]) -> Self {
        let n: usize = logits.spatial.iter().product();
        let step = {
            let [_, b, c] = logits.spatial;
            axes.reorder([b * c, c, 1])
        };
        let mut values = Vec::with_capacity(extent.voxels());
        for k in 0..extent.z {
            for j in 0..extent.y {
                for i in 0..extent.x {
                    let at = i * step[0] + j * step[1] + k * step[2];
                    values.push(best(logits, n, at));
                }
            }
        }
        let channels = logits.channels.max(2);
        let name = |i: usize| {
            names
                .get(i)
                .cloned()
                .unwrap_or_else(|| format!("label {i}"))
        };
        Self {
            extent,
            values,
            names: (0..channels).map(name).collect(),
        }
    }

    /// Voxels of each label, by name.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = vec![0_u64; self.names.len()];
        for &v in &self.values {
            if let Some(c) = counts.get_mut(usize::from(v)) {
                *c += 1;
            }
        }
        self.names.iter().cloned().zip(counts).collect()
    }
}

fn best(logits: &Stitched, n: usize, at: usize) -> u8 {
    if logits.channels == 1 {
        return u8::from(logits.values[at] > 0.0);
    }
    let (mut label, mut top) = (0, f32::NEG_INFINITY);
    for c in 0..logits.channels.min(256) {
        let v = logits.values[c * n + at];
        if v > top {
            (label, top) = (c, v);
        }
    }
    u8::try_from(label).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_channel_wins_and_is_counted_by_name() {
        let logits = Stitched {
            channels: 2,
            spatial: [1, 1, 3],
            values: vec![0.0, 1.0, f32::NAN, 0.0, 2.0, 3.0],
        };
        let names = ["background".to_owned(), "lung".to_owned()];
        let mask = LabelMask::of(&logits, AxesOrder::Zyx, Extent::new(3, 1, 1), &names);
        assert_eq!(mask.values, [0, 1, 1]);
        assert_eq!(mask.counts()["lung"], 2);
        let turned = LabelMask::of(&logits, AxesOrder::Xyz, Extent::new(1, 1, 3), &names);
        assert_eq!(turned.values, [0, 1, 1]);
    }
}
