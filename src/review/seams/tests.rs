//! What a watch over made-up windows sees.

use super::*;
use crate::geometry::Extent;
use crate::tiling::{self, AxesOrder, Blend, Facts, Layout, TilingSpec};

fn plan(roi: usize, layout: Layout, overlap: f64, axes: AxesOrder) -> TilingPlan {
    let spec = TilingSpec {
        roi_size: Extent::new(0, 0, roi),
        overlap: [overlap; 3],
        blend: Blend::Constant,
        layout,
    };
    tiling::plan(&spec, Extent::new(4, 3, 20), &Facts::unknown(axes)).unwrap()
}

/// Watches windows whose every value is the window's own number.
fn watch(plan: &TilingPlan, channels: usize) -> SeamMetrics {
    let shape = OutputShape {
        channels,
        spatial: plan.axes.reorder(plan.roi.to_array()),
    };
    let watch = SeamWatch::new(plan, &[shape], |_| true).unwrap();
    let mut watch = watch.with_maps();
    for w in 0..plan.n_windows() {
        let step = if w == 2 { 0.5 } else { 0.0 };
        let values = vec![step; channels * plan.roi.voxels()];
        let map = Map {
            values: &values,
            channels,
            spatial: shape.spatial,
        };
        watch.observe(w, 0, &map);
    }
    let maps = watch.take_maps();
    let most = maps[0].values.iter().copied().fold(0.0, f32::max);
    let m = watch.finish();
    assert_eq!(most, m.outputs[0].max, "map and metrics are of one thing");
    assert_eq!(maps[0].spatial, plan.axes.reorder([4, 3, 20]));
    m
}

#[test]
fn what_windows_disagree_on_is_told_by_the_seam_it_is_near() {
    for axes in [AxesOrder::Xyz, AxesOrder::Zyx] {
        let p = plan(8, Layout::Monai, 0.5, axes);
        assert_eq!(p.starts[2], [0, 4, 8, 12]);
        let m = watch(&p, 2);
        // Two of three overlaps of 4x3x4 voxels and 2 channels differ by one half.
        assert_eq!(m.outputs[0].n, 3 * 48 * 2);
        assert_eq!(m.outputs[0].max, 0.5);
        assert!((m.outputs[0].mean - 1.0 / 3.0).abs() < 1e-6);
        assert_eq!(m.outputs[0].p99, 0.5);
        let at: Vec<_> = m.planes.iter().map(|p| (p.axis, p.at, p.max)).collect();
        assert_eq!(
            at,
            [
                (Axis::Z, 4, Some(0.0)),
                (Axis::Z, 8, Some(0.5)),
                (Axis::Z, 12, Some(0.5)),
                (Axis::Z, 16, Some(0.5)),
            ]
        );
    }
}

#[test]
fn windows_without_overlap_have_nothing_to_compare_and_one_window_no_seam() {
    let p = plan(5, Layout::Monai, 0.0, AxesOrder::Xyz);
    let m = watch(&p, 1);
    assert_eq!((m.outputs[0].n, m.planes.len()), (0, 3));
    assert_eq!(m.planes[0].max, None);
    let forecast = tiling::forecast(&p, &Facts::unknown(AxesOrder::Xyz));
    let (verdict, words) = judge(&forecast, p.n_windows(), Some(&m));
    assert_eq!(verdict, Verdict::Seam);
    assert!(words.contains("do not overlap"), "{words}");
    let one = plan(20, Layout::Monai, 0.0, AxesOrder::Xyz);
    assert!(SeamWatch::new(&one, &[], |_| true).is_none());
}
