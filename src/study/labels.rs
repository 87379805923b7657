//! Segmentations: the best label of each voxel, counted by name.

use crate::geometry::{Affine, AffineError, Extent};
use crate::tiling::AxesOrder;
use crate::tiling::stitch::Stitched;
use crate::volume::{Volume, Voxels};
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

    /// The mask on the loaded volume's grid: each voxel takes the label of the nearest prepared voxel, 0 beyond them.
    /// `prepared` is the prepared volume's affine.
    pub fn on_loaded(&self, prepared: &Affine, loaded: &Volume) -> Result<Volume, AffineError> {
        let origin = prepared.to_index(loaded.affine.to_patient([0.0; 3]))?;
        let mut step = [[0.0; 3]; 3];
        for (a, s) in step.iter_mut().enumerate() {
            let mut one = [0.0; 3];
            one[a] = 1.0;
            let there = prepared.to_index(loaded.affine.to_patient(one))?;
            *s = std::array::from_fn(|r| there[r] - origin[r]);
        }
        let e = loaded.extent;
        let mut out = Vec::with_capacity(e.voxels());
        for k in 0..e.z {
            for j in 0..e.y {
                for i in 0..e.x {
                    let at = std::array::from_fn(|r| {
                        origin[r]
                            + i as f64 * step[0][r]
                            + j as f64 * step[1][r]
                            + k as f64 * step[2][r]
                    });
                    out.push(i16::from(self.nearest(at)));
                }
            }
        }
        Ok(Volume {
            extent: e,
            affine: loaded.affine,
            voxels: Voxels::I16(out),
            padding: None,
            is_hu: false,
            z_spacing_known: loaded.z_spacing_known,
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded and held between 0 and the size"
    )]
    fn nearest(&self, at: [f64; 3]) -> u8 {
        let size = self.extent.to_array();
        let mut index = [0_usize; 3];
        for a in 0..3 {
            let rounded = (at[a] + 1e-6).round();
            if !(rounded >= 0.0 && rounded < size[a] as f64) {
                return 0;
            }
            index[a] = rounded as usize;
        }
        let [i, j, k] = index;
        self.values[(k * size[1] + j) * size[0] + i]
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

    #[test]
    fn a_mask_comes_home_to_a_finer_and_turned_grid() {
        let mask = LabelMask {
            extent: Extent::new(2, 1, 1),
            values: vec![1, 2],
            names: Vec::new(),
        };
        let prepared = Affine::axis_aligned([2.0, 1.0, 1.0]);
        let loaded = Volume {
            extent: Extent::new(5, 1, 1),
            affine: Affine {
                step: [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
                origin: [4.0, 0.0, 0.0],
            },
            voxels: Voxels::I16(vec![0; 5]),
            padding: None,
            is_hu: true,
            z_spacing_known: true,
        };
        let home = mask.on_loaded(&prepared, &loaded).unwrap();
        // Positions 4, 3, 2, 1, 0 mm; prepared voxels at 0 and 2 mm.
        assert_eq!(home.voxels, Voxels::I16(vec![0, 0, 2, 2, 1]));
    }
}
