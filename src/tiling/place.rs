//! Placement: MONAI's clamped scan, nnU-Net's even spread, and the aligned layout whose cores partition the volume.

use super::{Facts, Layout, MAX_WINDOWS, TilingError, TilingPlan, TilingSpec, Window, spec};
use crate::geometry::{Extent, VoxelBox};

/// One axis after placement.
struct AxisPlan {
    padded: usize,
    before: usize,
    roi: usize,
    /// Start, first kept voxel, one past the last kept voxel.
    places: Vec<(usize, usize, usize)>,
}

/// Places the windows of `spec` over a prepared volume (before padding) by its layout's rule.
pub fn plan(spec: &TilingSpec, volume: Extent, facts: &Facts) -> Result<TilingPlan, TilingError> {
    spec::check(spec)?;
    if volume.is_empty() {
        return Err(TilingError::EmptyVolume { found: volume });
    }
    let (size, roi) = (volume.to_array(), spec.roi_size.to_array());
    let mut axes: Vec<AxisPlan> = Vec::with_capacity(3);
    for a in 0..3 {
        axes.push(match spec.layout {
            Layout::Monai => centred(size[a], roi[a], |n, r| monai(n, r, spec.overlap[a])),
            Layout::Nnunet => centred(size[a], roi[a], |n, r| nnunet(n, r, spec.overlap[a])),
            Layout::Aligned => aligned(size[a], roi[a], facts, a),
        });
    }
    let found: u128 = axes.iter().map(|a| a.places.len() as u128).product();
    if found > MAX_WINDOWS as u128 {
        return Err(TilingError::TooMany {
            roi: spec.roi_size,
            volume,
            found,
        });
    }
    let pick = |f: fn(&AxisPlan) -> usize| [f(&axes[0]), f(&axes[1]), f(&axes[2])];
    let roi = pick(|a| a.roi);
    Ok(TilingPlan {
        spec: *spec,
        volume,
        padded: pick(|a| a.padded).into(),
        pad_before: pick(|a| a.before),
        roi: roi.into(),
        starts: std::array::from_fn(|a| axes[a].places.iter().map(|p| p.0).collect()),
        axes: facts.axes,
        windows: product(&axes, roi, facts),
    })
}

/// All combinations, the tensor's first axis slowest.
fn product(axes: &[AxisPlan], roi: [usize; 3], facts: &Facts) -> Vec<Window> {
    let [slow, middle, fast] = facts.axes.reorder([0, 1, 2]);
    let mut windows = Vec::new();
    for &s in &axes[slow].places {
        for &m in &axes[middle].places {
            for &f in &axes[fast].places {
                let [x, y, z] = facts.axes.reorder([s, m, f]);
                windows.push(Window {
                    roi: VoxelBox::at([x.0, y.0, z.0], roi.into()),
                    core: VoxelBox {
                        min: [x.1, y.1, z.1],
                        max: [x.2, y.2, z.2],
                    },
                });
            }
        }
    }
    windows
}

/// A volume smaller than the roi lies in the middle of its padding; windows keep all they see.
fn centred(size: usize, roi: usize, starts: impl Fn(usize, usize) -> Vec<usize>) -> AxisPlan {
    let roi = if roi == 0 { size } else { roi };
    let padded = size.max(roi);
    AxisPlan {
        padded,
        before: (padded - size) / 2,
        roi,
        places: starts(padded, roi)
            .into_iter()
            .map(|s| (s, s, s + roi))
            .collect(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a product of a size and a share in 0..=1 lies between 0 and the size"
)]
fn truncate(x: f64) -> usize {
    x as usize
}

/// MONAI's starts over an axis that is at least as long as the roi.
fn monai(size: usize, roi: usize, overlap: f64) -> Vec<usize> {
    let interval = if roi == size {
        roi
    } else {
        truncate(roi as f64 * (1.0 - overlap)).max(1)
    };
    let n = (size - roi).div_ceil(interval) + 1;
    (0..n.min(MAX_WINDOWS + 1))
        .map(|d| (d * interval).min(size - roi))
        .collect()
}

/// nnU-Net's starts: steps of at most `roi * (1 - overlap)`, spread evenly and rounded half to even.
fn nnunet(size: usize, roi: usize, overlap: f64) -> Vec<usize> {
    let step = roi as f64 * (1.0 - overlap);
    let last = (size - roi) as f64;
    let n = truncate((last / step).ceil()) + 1;
    let even = if n > 1 { last / (n - 1) as f64 } else { 0.0 };
    let mut starts: Vec<usize> = (0..n.min(MAX_WINDOWS + 1))
        .map(|i| truncate((even * i as f64).round_ties_even()))
        .collect();
    starts.dedup();
    starts
}

/// Ours: the volume padded once at its end to the total stride, a halo on inner faces only, cores that partition the axis.
fn aligned(size: usize, roi: usize, facts: &Facts, a: usize) -> AxisPlan {
    let stride = facts.total_stride[a].max(1);
    let padded = size.next_multiple_of(stride);
    if roi == 0 || roi >= padded {
        return AxisPlan {
            padded,
            before: 0,
            roi: padded,
            places: vec![(0, 0, padded)],
        };
    }
    let (left, right) = halo_that_fits(roi, stride, facts.halo_left()[a], facts.halo_right()[a]);
    let step = (roi - left - right) / stride * stride;
    let step = if step == 0 { roi - left - right } else { step };
    let mut places = Vec::new();
    let mut kept = 0_usize;
    loop {
        let start = kept.saturating_sub(left).min(padded - roi);
        let end = if start + roi >= padded {
            padded
        } else {
            (start + roi - right) / stride * stride
        };
        let end = if end <= kept {
            (kept + step).min(padded)
        } else {
            end
        };
        places.push((start, kept, end));
        kept = end;
        if kept >= padded || places.len() > MAX_WINDOWS {
            break;
        }
    }
    AxisPlan {
        padded,
        before: 0,
        roi,
        places,
    }
}

/// The halo asked for, or, where that leaves no core of one stride, a quarter of the roi on each side.
fn halo_that_fits(
    roi: usize,
    stride: usize,
    left: Option<usize>,
    right: Option<usize>,
) -> (usize, usize) {
    if let (Some(l), Some(r)) = (left, right)
        && l.saturating_add(r).saturating_add(stride) <= roi
    {
        return (l, r);
    }
    let each = roi / 4 / stride * stride;
    (
        left.map_or(each, |l| l.min(each)),
        right.map_or(each, |r| r.min(each)),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{AxesOrder, Blend};
    use super::*;
    use proptest::prelude::*;

    fn spec(layout: Layout, roi: [usize; 3], overlap: f64) -> TilingSpec {
        TilingSpec {
            roi_size: roi.into(),
            overlap: [overlap; 3],
            blend: Blend::Constant,
            layout,
        }
    }

    fn facts(stride: usize, reach: usize) -> Facts {
        Facts {
            total_stride: [stride; 3],
            reach_left: [Some(reach); 3],
            reach_right: [Some(reach.saturating_sub(1)); 3],
            spatial_norms: Vec::new(),
            axes: AxesOrder::Xyz,
            known: true,
        }
    }

    #[test]
    fn nnunet_spreads_its_windows_evenly() {
        let none = Facts::unknown(AxesOrder::Xyz);
        let p = plan(
            &spec(Layout::Nnunet, [64; 3], 0.5),
            Extent::cube(110),
            &none,
        )
        .unwrap();
        assert_eq!(p.starts[0], [0, 23, 46]);
        assert_eq!(p.n_windows(), 27);
    }

    #[test]
    fn a_volume_smaller_than_the_roi_lies_in_the_middle_of_its_padding() {
        let none = Facts::unknown(AxesOrder::Xyz);
        let p = plan(
            &spec(Layout::Monai, [64, 64, 0], 0.25),
            Extent::new(41, 64, 9),
            &none,
        )
        .unwrap();
        assert_eq!(p.pad_before, [11, 0, 0]);
        assert_eq!(p.padded, Extent::new(64, 64, 9));
        assert!(p.is_single_pass());
    }

    #[test]
    fn the_first_axis_of_the_tensor_is_the_slowest() {
        let mut none = Facts::unknown(AxesOrder::Xyz);
        let s = spec(Layout::Monai, [4; 3], 0.0);
        let p = plan(&s, Extent::cube(8), &none).unwrap();
        assert_eq!(p.windows[1].roi.min, [0, 0, 4]);
        none.axes = AxesOrder::Zyx;
        let p = plan(&s, Extent::cube(8), &none).unwrap();
        assert_eq!(p.windows[1].roi.min, [4, 0, 0]);
    }

    #[test]
    fn a_plan_of_a_hundred_million_windows_is_refused() {
        let none = Facts::unknown(AxesOrder::Xyz);
        let s = spec(Layout::Monai, [8; 3], 0.9);
        let said = plan(&s, Extent::cube(512), &none).unwrap_err().to_string();
        assert!(said.contains("128787625 windows"), "{said}");
    }

    #[test]
    fn seams_are_where_the_covering_windows_change() {
        let none = Facts::unknown(AxesOrder::Xyz);
        let p = plan(
            &spec(Layout::Monai, [32, 0, 8], 0.25),
            Extent::new(64, 20, 6),
            &none,
        )
        .unwrap();
        assert_eq!(p.seam_planes(), [vec![24, 32, 56], vec![], vec![]]);
    }

    proptest! {
        #![proptest_config(crate::random_cases::random_cases(256))]
        #[test]
        fn every_voxel_is_covered_by_a_window(
            size in prop::array::uniform3(1_usize..40),
            roi in prop::array::uniform3(0_usize..30),
            overlap in 0.0_f64..0.95,
            nnunet in any::<bool>(),
        ) {
            let layout = if nnunet { Layout::Nnunet } else { Layout::Monai };
            let none = Facts::unknown(AxesOrder::Xyz);
            let p = plan(&spec(layout, roi, overlap), size.into(), &none).unwrap();
            let padded = p.padded.to_array();
            for (a, &size) in padded.iter().enumerate() {
                let n = p.roi.to_array()[a];
                let mut covered = 0;
                for &s in &p.starts[a] {
                    prop_assert!(s <= covered, "a gap before {s}");
                    covered = s + n;
                }
                prop_assert_eq!(covered, size);
                prop_assert!(p.starts[a].windows(2).all(|w| w[0] < w[1]));
            }
        }

        #[test]
        fn aligned_cores_partition_the_volume(
            size in prop::array::uniform3(1_usize..60),
            roi in prop::array::uniform3(0_usize..50),
            stride in prop::sample::select(vec![1_usize, 2, 4, 8]),
            reach in 0_usize..14,
        ) {
            let f = facts(stride, reach);
            let p = plan(&spec(Layout::Aligned, roi, 0.0), size.into(), &f).unwrap();
            let mut seen = vec![0_u8; p.padded.voxels()];
            for w in &p.windows {
                prop_assert_eq!(w.roi.size(), p.roi);
                prop_assert_eq!(w.roi.intersect(&w.core), w.core);
                for z in w.core.min[2]..w.core.max[2] {
                    for y in w.core.min[1]..w.core.max[1] {
                        for x in w.core.min[0]..w.core.max[0] {
                            seen[(z * p.padded.y + y) * p.padded.x + x] += 1;
                        }
                    }
                }
            }
            prop_assert!(seen.iter().all(|&n| n == 1));
        }

        #[test]
        fn aligned_windows_keep_the_whole_halo_at_inner_faces_where_the_roi_has_room(
            size in prop::array::uniform3(1_usize..90),
            blocks in 1_usize..8,
            stride in prop::sample::select(vec![1_usize, 2, 4, 8]),
            reach in 0_usize..14,
        ) {
            let f = facts(stride, reach);
            let (l, r) = (f.halo_left()[0].unwrap(), f.halo_right()[0].unwrap());
            let roi = l + r + blocks * stride;
            let p = plan(&spec(Layout::Aligned, [roi; 3], 0.0), size.into(), &f).unwrap();
            let padded = p.padded.to_array();
            for w in &p.windows {
                for (a, &size) in padded.iter().enumerate() {
                    prop_assert_eq!(w.roi.min[a] % stride, 0);
                    prop_assert_eq!(w.core.min[a] % stride, 0);
                    prop_assert!(w.roi.min[a] == 0 || w.core.min[a] >= w.roi.min[a] + l);
                    prop_assert!(w.roi.max[a] == size || w.core.max[a] + r <= w.roi.max[a]);
                }
            }
        }
    }
}
