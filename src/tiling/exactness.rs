//! What windows will do to the bits, said before anything runs, and warnings in words.

use super::{Blend, Facts, Layout, TilingPlan, axis_name};
use crate::geometry::Extent;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The forecast in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExactnessVerdict {
    /// Bit for bit what one pass gives.
    Exact,
    /// Windows see too little beyond what is kept of them.
    NeedsHalo,
    /// Windows do not lie on the total stride, or are padded on their own.
    Unaligned,
    /// Weights are multiplied and divided again, which changes bits.
    Blended,
    /// Norms over space take their statistics per window.
    SpatialNorm,
    /// An output depends on the whole volume: no halo is enough.
    Approximate,
}

impl fmt::Display for ExactnessVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::NeedsHalo => "needs-halo",
            Self::Unaligned => "unaligned",
            Self::Blended => "blended",
            Self::SpatialNorm => "spatial-norm",
            Self::Approximate => "approximate",
        })
    }
}

/// The forecast: whether windows give bitwise what one pass over the prepared volume gives, and what is in the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exactness {
    /// The gravest of what is in the way.
    pub verdict: ExactnessVerdict,
    /// Halo that exactness takes along x, y, z (the larger side); `None` where no halo is enough or the reach is not known.
    pub halo_needed: [Option<usize>; 3],
    /// Passes that the plan runs.
    pub n_passes: usize,
    /// Passes that an exact run would take; `None` where there is no exact way.
    pub n_passes_exact: Option<usize>,
    /// Voxels computed beyond each voxel of the padded volume once, as a share of it (0.25 is a quarter more work).
    pub recompute: f64,
    /// Everything that is in the way, one sentence each, gravest first; empty when exact.
    pub reasons: Vec<String>,
}

/// Odd but usable: a code for programs and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanWarning {
    /// Stable, lower case with dashes.
    pub code: String,
    /// One sentence.
    pub text: String,
}

impl PlanWarning {
    /// A warning of a code and a sentence.
    pub fn new(code: &str, text: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            text: text.into(),
        }
    }
}

fn axes_where(test: impl Fn(usize) -> bool) -> Option<String> {
    let names: Vec<&str> = (0..3).filter(|&a| test(a)).map(axis_name).collect();
    match names.as_slice() {
        [] => None,
        [.., last] if names.len() > 1 => Some(format!(
            "{} and {last}",
            names[..names.len() - 1].join(", ")
        )),
        [one, ..] => Some((*one).to_owned()),
    }
}

fn larger(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    Some(a?.max(b?))
}

/// Forecasts the plan for a network with these facts. Never `Exact` unless every condition is known to hold.
pub fn forecast(plan: &TilingPlan, facts: &Facts) -> Exactness {
    let (left, right) = (facts.halo_left(), facts.halo_right());
    let mut found: Vec<(ExactnessVerdict, String)> = Vec::new();
    if !plan.is_single_pass() {
        unbounded(plan, &left, &right, &mut found);
        if let Some(first) = facts.spatial_norms.first() {
            let more = facts.spatial_norms.len() - 1;
            let and = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            found.push((
                ExactnessVerdict::SpatialNorm,
                format!("{first}{and} take their statistics over each window, not over the volume"),
            ));
        }
    }
    unaligned(plan, facts, &mut found);
    blended(plan, &mut found);
    needs_halo(plan, facts, &left, &right, &mut found);
    let computed = plan.n_windows() as f64 * plan.roi.voxels() as f64;
    let n_norms = facts.spatial_norms.len();
    let bounded = (0..3).all(|a| left[a].is_some() && right[a].is_some());
    Exactness {
        verdict: found.first().map_or(ExactnessVerdict::Exact, |f| f.0),
        halo_needed: std::array::from_fn(|a| larger(left[a], right[a]).filter(|_| facts.known)),
        n_passes: 1,
        n_passes_exact: if plan.is_single_pass() {
            Some(1)
        } else if bounded && facts.known {
            Some(n_norms + 1)
        } else {
            None
        },
        recompute: (computed / plan.padded.voxels().max(1) as f64 - 1.0).max(0.0),
        reasons: found.into_iter().map(|f| f.1).collect(),
    }
}

fn unbounded(
    plan: &TilingPlan,
    left: &[Option<usize>; 3],
    right: &[Option<usize>; 3],
    found: &mut Vec<(ExactnessVerdict, String)>,
) {
    let cut = |a: usize| plan.starts[a].len() > 1;
    if let Some(names) = axes_where(|a| cut(a) && (left[a].is_none() || right[a].is_none())) {
        found.push((
            ExactnessVerdict::Approximate,
            format!(
                "an output depends on the whole volume along {names}, so that no halo is enough"
            ),
        ));
    }
}

fn unaligned(plan: &TilingPlan, facts: &Facts, found: &mut Vec<(ExactnessVerdict, String)>) {
    let stride = facts.total_stride.map(|s| s.max(1));
    let (roi, padded, volume) = (
        plan.roi.to_array(),
        plan.padded.to_array(),
        plan.volume.to_array(),
    );
    let off_grid = |a: usize| {
        let starts = &plan.starts[a];
        starts.iter().any(|s| s % stride[a] != 0)
            || (starts.len() > 1 && roi[a] % stride[a] != 0)
            || plan.windows.iter().any(|w| w.core.min[a] % stride[a] != 0)
    };
    if let Some(names) = axes_where(off_grid) {
        let [x, y, z] = stride;
        found.push((
            ExactnessVerdict::Unaligned,
            format!("windows along {names} do not start and end at multiples of the total stride {x}x{y}x{z}"),
        ));
    }
    let own_padding = |a: usize| padded[a] != volume[a].next_multiple_of(stride[a]);
    if plan.pad_before != [0; 3] || (0..3).any(own_padding) {
        let why = if facts.known && plan.spec.layout != Layout::Aligned {
            axes_where(|a| plan.pad_before[a] > 0 || own_padding(a))
        } else {
            axes_where(|a| plan.pad_before[a] > 0)
        };
        if let Some(names) = why {
            found.push((
                ExactnessVerdict::Unaligned,
                format!("the volume is padded along {names} otherwise than one pass pads it (once, at the end, to the total stride)"),
            ));
        }
    }
}

fn blended(plan: &TilingPlan, found: &mut Vec<(ExactnessVerdict, String)>) {
    if plan.spec.layout == Layout::Aligned {
        return;
    }
    let overlapping = (0..3).any(|a| {
        let n = plan.roi.to_array()[a];
        plan.starts[a].windows(2).any(|w| w[1] < w[0] + n)
    });
    if plan.spec.blend == Blend::Gaussian {
        found.push((
            ExactnessVerdict::Blended,
            "values are multiplied by an importance map and divided by its sum".to_owned(),
        ));
    } else if overlapping {
        found.push((
            ExactnessVerdict::Blended,
            "where windows overlap their values are added and divided by the count".to_owned(),
        ));
    }
}

fn needs_halo(
    plan: &TilingPlan,
    facts: &Facts,
    left: &[Option<usize>; 3],
    right: &[Option<usize>; 3],
    found: &mut Vec<(ExactnessVerdict, String)>,
) {
    if plan.is_single_pass() {
        return;
    }
    if !facts.known {
        found.push((
            ExactnessVerdict::NeedsHalo,
            "the network's reach is not known, so that no halo can be called enough".to_owned(),
        ));
        return;
    }
    let padded = plan.padded.to_array();
    let short = |a: usize| {
        let (l, r) = (left[a].unwrap_or(0), right[a].unwrap_or(0));
        plan.windows.iter().any(|w| {
            (w.roi.min[a] > 0 && w.core.min[a] < w.roi.min[a] + l)
                || (w.roi.max[a] < padded[a] && w.core.max[a] + r > w.roi.max[a])
        })
    };
    if let Some(names) = axes_where(short) {
        let need = |a: usize| {
            larger(left[a], right[a]).map_or_else(|| "unbounded".to_owned(), |n| n.to_string())
        };
        found.push((
            ExactnessVerdict::NeedsHalo,
            format!(
                "windows keep voxels nearer to an inner face along {names} than the halo of {}x{}x{} voxels that the network's reach takes",
                need(0),
                need(1),
                need(2)
            ),
        ));
    }
}

/// Warnings about a plan, in a fixed order. `spacing_mm` is the prepared volume's, where known.
pub fn warnings(
    plan: &TilingPlan,
    facts: &Facts,
    spacing_mm: Option<[f64; 3]>,
) -> Vec<PlanWarning> {
    let mut out = Vec::new();
    let (roi, volume) = (plan.roi, plan.volume);
    if plan.is_single_pass() {
        out.push(PlanWarning::new(
            "window-covers-volume",
            format!("one window of {roi} covers the whole volume of {volume}: nothing slides, and memory is what one whole pass takes"),
        ));
    } else if roi.checked_voxels() > volume.checked_voxels() {
        out.push(PlanWarning::new(
            "monai-volume-rule",
            format!("the volume of {volume} has fewer voxels than a window of {roi}: MONAI's detector would run it in one pass without windows, whatever its shape"),
        ));
    }
    stride_warning(plan, facts, &mut out);
    reach_warnings(plan, facts, &mut out);
    if plan.pad_before != [0; 3]
        || exceeds(plan.padded, volume) && plan.spec.layout != Layout::Aligned
    {
        out.push(PlanWarning::new(
            "volume-padded",
            format!(
                "the roi is larger than the volume of {volume}, which is padded with zeros to {}",
                plan.padded
            ),
        ));
    }
    let cut = |a: usize| plan.starts[a].len() > 1;
    if cut(0) || cut(1) {
        out.push(PlanWarning::new(
            "in-plane-context-cut",
            format!("windows of {roi} cut the {}x{} slices: structures across a window's face are seen in part, and published detectors that were cut in plane lost findings", volume.x, volume.y),
        ));
    }
    spacing_warning(plan, spacing_mm, &mut out);
    let times = plan.n_windows() as f64 * plan.roi.voxels() as f64 / volume.voxels().max(1) as f64;
    if !plan.is_single_pass() && times >= 3.0 {
        out.push(PlanWarning::new(
            "much-computed-twice",
            format!("each voxel is computed {times:.1} times on average with windows of {roi}; a larger roi or a smaller overlap computes less"),
        ));
    }
    if !facts.known {
        out.push(PlanWarning::new(
            "facts-unknown",
            "no network and no stride or reach was given: exactness cannot be promised",
        ));
    }
    out
}

fn exceeds(a: Extent, b: Extent) -> bool {
    a.x > b.x || a.y > b.y || a.z > b.z
}

fn stride_warning(plan: &TilingPlan, facts: &Facts, out: &mut Vec<PlanWarning>) {
    let (roi, stride) = (plan.roi.to_array(), facts.total_stride.map(|s| s.max(1)));
    if let Some(names) = axes_where(|a| roi[a] % stride[a] != 0) {
        let up = plan.roi.zip(stride.into(), |r, s| r.next_multiple_of(s));
        out.push(PlanWarning::new(
            "roi-not-divisible",
            format!(
                "the roi {} is not a multiple of the total stride {} along {names}: head grids do not fit and anchors shift; {up} is",
                plan.roi,
                Extent::from(stride)
            ),
        ));
    }
    let off = |a: usize| plan.starts[a].iter().any(|s| s % stride[a] != 0);
    if let Some(names) = axes_where(off) {
        out.push(PlanWarning::new(
            "starts-not-aligned",
            format!("windows along {names} start off the total stride: the same voxel lies in another phase of the network's grid from window to window"),
        ));
    }
}

fn reach_warnings(plan: &TilingPlan, facts: &Facts, out: &mut Vec<PlanWarning>) {
    if plan.is_single_pass() || !facts.known {
        return;
    }
    let (left, right) = (facts.halo_left(), facts.halo_right());
    if plan.spec.layout == Layout::Aligned {
        let roi = plan.roi.to_array();
        let tight = |a: usize| {
            plan.starts[a].len() > 1
                && match (left[a], right[a]) {
                    (Some(l), Some(r)) => l + r + facts.total_stride[a].max(1) > roi[a],
                    _ => false,
                }
        };
        if let Some(names) = axes_where(tight) {
            let least = |a: usize| match (left[a], right[a]) {
                (Some(l), Some(r)) if plan.starts[a].len() > 1 => {
                    (l + r + facts.total_stride[a].max(1)).max(roi[a])
                }
                _ => roi[a],
            };
            out.push(PlanWarning::new(
                "roi-below-halo",
                format!(
                    "the roi {} has no room for the halo along {names}: exact windows take at least {}x{}x{}",
                    plan.roi, least(0), least(1), least(2)
                ),
            ));
        }
        return;
    }
    let roi = plan.roi.to_array();
    let short = |a: usize| {
        let shared = plan.starts[a]
            .windows(2)
            .map(|w| (w[0] + roi[a]).saturating_sub(w[1]))
            .min();
        let reach = larger(facts.reach_left[a], facts.reach_right[a]);
        shared.is_some_and(|s| reach.is_none_or(|r| s < r))
    };
    if let Some(names) = axes_where(short) {
        let reach = |a: usize| {
            larger(facts.reach_left[a], facts.reach_right[a])
                .map_or_else(|| "unbounded".to_owned(), |r| r.to_string())
        };
        out.push(PlanWarning::new(
            "overlap-below-reach",
            format!(
                "windows overlap along {names} by less than the network's reach of {}x{}x{} voxels: near faces the network sees less than it was made for",
                reach(0), reach(1), reach(2)
            ),
        ));
    }
}

fn spacing_warning(plan: &TilingPlan, spacing_mm: Option<[f64; 3]>, out: &mut Vec<PlanWarning>) {
    let Some(s) = spacing_mm else { return };
    let (low, high) = (
        s.iter().copied().fold(f64::INFINITY, f64::min),
        s.iter().copied().fold(0.0, f64::max),
    );
    let r = plan.roi;
    let cube = r.x == r.y && r.y == r.z;
    if cube && low > 0.0 && high / low >= 2.0 {
        let side = r.x as f64;
        out.push(PlanWarning::new(
            "anisotropic-spacing",
            format!(
                "a window of {r} voxels is {:.0}x{:.0}x{:.0} mm at this spacing: as many voxels along each axis, not as much body",
                side * s[0], side * s[1], side * s[2]
            ),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AxesOrder, TilingSpec, plan};
    use super::*;

    fn facts() -> Facts {
        Facts {
            total_stride: [8; 3],
            reach_left: [Some(11); 3],
            reach_right: [Some(7); 3],
            spatial_norms: Vec::new(),
            axes: AxesOrder::Xyz,
            known: true,
        }
    }

    fn planned(
        layout: Layout,
        blend: Blend,
        overlap: f64,
        roi: usize,
        volume: usize,
    ) -> TilingPlan {
        let spec = TilingSpec {
            roi_size: Extent::cube(roi),
            overlap: [overlap; 3],
            blend,
            layout,
        };
        plan(&spec, Extent::cube(volume), &facts()).unwrap()
    }

    fn verdict(plan: &TilingPlan, facts: &Facts) -> String {
        forecast(plan, facts).verdict.to_string()
    }

    #[test]
    fn each_verdict_has_the_plan_that_earns_it() {
        use Blend::{Constant, Gaussian};
        let f = facts();
        let aligned = planned(Layout::Aligned, Constant, 0.0, 48, 96);
        assert_eq!(verdict(&aligned, &f), "exact");
        assert_eq!(forecast(&aligned, &f).halo_needed, [Some(16); 3]);
        let tight = planned(Layout::Aligned, Constant, 0.0, 16, 96);
        assert_eq!(verdict(&tight, &f), "needs-halo");
        let side_by_side = planned(Layout::Monai, Constant, 0.0, 48, 96);
        assert_eq!(verdict(&side_by_side, &f), "needs-halo");
        let overlapping = planned(Layout::Monai, Constant, 0.5, 48, 96);
        assert_eq!(verdict(&overlapping, &f), "blended");
        let clamped = planned(Layout::Monai, Gaussian, 0.25, 40, 96);
        assert_eq!(verdict(&clamped, &f), "unaligned");
        assert_eq!(
            verdict(&planned(Layout::Monai, Gaussian, 0.0, 0, 96), &f),
            "blended"
        );
        assert_eq!(
            verdict(&planned(Layout::Monai, Constant, 0.0, 0, 96), &f),
            "exact"
        );
        let mut norm = facts();
        norm.spatial_norms = vec!["down1.norm".to_owned()];
        assert_eq!(verdict(&aligned, &norm), "spatial-norm");
        assert_eq!(forecast(&aligned, &norm).n_passes_exact, Some(2));
        let mut endless = facts();
        endless.reach_left[2] = None;
        assert_eq!(verdict(&aligned, &endless), "approximate");
        assert_eq!(forecast(&aligned, &endless).halo_needed[2], None);
    }

    #[test]
    fn a_volume_in_the_middle_of_its_padding_is_not_what_one_pass_sees() {
        let small = planned(Layout::Monai, Blend::Constant, 0.0, 64, 48);
        assert_eq!(verdict(&small, &facts()), "unaligned");
    }

    #[test]
    fn what_is_not_known_is_never_called_exact() {
        let f = Facts::unknown(AxesOrder::Xyz);
        let aligned = planned(Layout::Aligned, Blend::Constant, 0.0, 48, 96);
        assert_eq!(verdict(&aligned, &f), "needs-halo");
    }

    #[test]
    fn warnings_name_what_is_odd() {
        let codes = |p: &TilingPlan, mm: [f64; 3]| -> Vec<String> {
            let all = warnings(p, &facts(), Some(mm));
            all.into_iter().map(|w| w.code).collect()
        };
        let p = planned(Layout::Monai, Blend::Constant, 0.0, 42, 96);
        assert_eq!(
            codes(&p, [0.7, 0.7, 2.5]),
            [
                "roi-not-divisible",
                "starts-not-aligned",
                "overlap-below-reach",
                "in-plane-context-cut",
                "anisotropic-spacing"
            ]
        );
        let p = planned(Layout::Monai, Blend::Constant, 0.0, 0, 96);
        assert_eq!(codes(&p, [1.0; 3]), ["window-covers-volume"]);
    }
}
