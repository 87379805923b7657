//! The whole-volume guard: a plan that covers the volume in one window is refused unless asked for by name.

use super::StudyError;
use crate::tiling::TilingPlan;
use crate::units::{Bytes, with_thousands};

/// Refuses a plan whose window covers the whole volume, unless a single pass is allowed for this run. `arena` is what it would take.
pub fn guard(plan: &TilingPlan, arena: Bytes, allow_single_pass: bool) -> Result<(), StudyError> {
    if !plan.is_single_pass() || allow_single_pass {
        return Ok(());
    }
    Err(StudyError::WholeVolume {
        roi: plan.roi,
        volume: plan.volume,
        voxels: with_thousands(plan.roi.voxels() as u64),
        arena,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Extent;
    use crate::tiling::{self, AxesOrder, Blend, Facts, Layout, TilingSpec};

    fn plan(roi: [usize; 3]) -> TilingPlan {
        let spec = TilingSpec {
            roi_size: roi.into(),
            overlap: [0.25; 3],
            blend: Blend::Constant,
            layout: Layout::Monai,
        };
        let facts = Facts::unknown(AxesOrder::Xyz);
        tiling::plan(&spec, Extent::new(96, 96, 40), &facts).unwrap()
    }

    #[test]
    fn a_window_that_covers_the_volume_is_refused_with_its_numbers() {
        for roi in [[96, 96, 40], [0, 0, 0], [128, 128, 64]] {
            let e = guard(&plan(roi), Bytes::gib(3), false).unwrap_err();
            assert_eq!(e.exit_code(), 70);
            let said = e.to_string();
            assert!(
                said.contains("96x96x40") && said.contains("3.00 GiB"),
                "{said}"
            );
            guard(&plan(roi), Bytes::gib(3), true).unwrap();
        }
        guard(&plan([96, 96, 32]), Bytes::gib(3), false).unwrap();
    }
}
