//! `voxfit windows`: where windows go, and whether they give what one pass gives.

use super::args::WindowsArgs;
use super::failure::{Failure, USAGE};
use super::output::{self, Align};
use crate::geometry::{Axis, Extent};
use crate::network::manifest::{Axes, Input};
use crate::network::{self, facts};
use crate::study::prepared_size;
use crate::tiling::{self, Facts, TilingPlan, TilingSpec};
use serde_json::json;

pub(super) fn run(args: &WindowsArgs, json: bool) -> Result<u8, Failure> {
    let model = args
        .model
        .as_deref()
        .map(|m| network::open_choice(m, &args.files.choice_at(args.choice.roi_size)))
        .transpose()?;
    let (facts, defaults) = match &model {
        Some(m) => (
            Facts::of(&facts::of(&m.graph)?, m.manifest.input.axes),
            TilingSpec::from(&m.manifest.windows),
        ),
        None => (typed_facts(args), no_defaults(args)?),
    };
    let spec = args.choice.choice().over(&defaults)?;
    let input = model.as_ref().map(|m| &m.manifest.input);
    let (volume, spacing) = prepared(args, input, facts.total_stride);
    let plan = tiling::plan(&spec, volume, &facts)?;
    let exactness = tiling::forecast(&plan, &facts);
    let warnings = tiling::warnings(&plan, &facts, spacing);
    if json {
        let [x, y, z] = &plan.starts;
        output::print_json(&json!({
            "starts": { "x": x, "y": y, "z": z },
            "n_windows": plan.n_windows(),
            "roi_size": plan.roi,
            "padded_volume": plan.padded,
            "prepared_volume": volume,
            "loaded_volume": args.volume,
            "single_pass": plan.is_single_pass(),
            "exactness": exactness,
            "warnings": warnings,
        }));
    } else {
        print(args.volume, volume, &plan, &exactness);
        for w in &warnings {
            output::warn(&w.text);
        }
    }
    Ok(0)
}

fn typed_facts(args: &WindowsArgs) -> Facts {
    let mut facts = Facts::unknown(Axes::Xyz);
    if let Some(stride) = args.stride {
        facts.total_stride = stride.to_array();
    }
    if let (Some(left), Some(right)) = (args.reach_left, args.reach_right) {
        facts.reach_left = left.to_array().map(Some);
        facts.reach_right = right.to_array().map(Some);
        facts.known = args.stride.is_some();
    }
    facts
}

fn no_defaults(args: &WindowsArgs) -> Result<TilingSpec, Failure> {
    let roi_size = args.choice.roi_size.ok_or_else(|| {
        Failure::new(
            USAGE,
            "without a network there is no window size: add --roi-size, such as 128x128x64",
        )
    })?;
    Ok(TilingSpec {
        roi_size,
        overlap: [0.25; 3],
        blend: tiling::Blend::Constant,
        layout: tiling::Layout::Monai,
    })
}

/// The volume that windows lie over, padded as a run pads it, and its spacing where known.
fn prepared(
    args: &WindowsArgs,
    input: Option<&Input>,
    total_stride: [usize; 3],
) -> (Extent, Option<[f64; 3]>) {
    let has = args.spacing.map(|s| s.0);
    let Some(input) = input else {
        return (args.volume, has);
    };
    if has.is_none() && input.spacing_mm.is_some() {
        output::warn(
            "no --spacing: the volume is taken as already resampled to the network's spacing",
        );
    }
    let size = prepared_size(args.volume, has, input, total_stride);
    (
        size.padded,
        has.or(input.spacing_mm).map(|_| size.spacing_mm),
    )
}

/// The starts, shortened where nobody would read them: `0 48 96 ... 999936, 20833 in all`.
fn listed(starts: &[usize]) -> String {
    let words = |s: &[usize]| {
        let words: Vec<String> = s.iter().map(ToString::to_string).collect();
        words.join(" ")
    };
    match starts {
        [first @ .., last] if starts.len() > 24 => format!(
            "{} ... {last}, {} in all",
            words(first.get(..3).unwrap_or(first)),
            starts.len()
        ),
        all => words(all),
    }
}

fn print(loaded: Extent, volume: Extent, plan: &TilingPlan, exactness: &tiling::Exactness) {
    output::say(&format!(
        "{} windows of {} over {volume}",
        plan.n_windows(),
        plan.roi
    ));
    if volume != loaded {
        output::say(&format!("prepared from {loaded}"));
    }
    if plan.padded != volume {
        output::say(&format!("padded to {}", plan.padded));
    }
    let rows: Vec<Vec<String>> = Axis::ALL
        .iter()
        .map(|a| {
            let starts = &plan.starts[a.index()];
            vec![
                a.name().to_owned(),
                starts.len().to_string(),
                listed(starts),
            ]
        })
        .collect();
    output::table(
        &[
            ("axis", Align::Left),
            ("n", Align::Right),
            ("starts", Align::Left),
        ],
        &rows,
    );
    output::say(&format!(
        "{}: recomputes {:.0} %",
        exactness.verdict,
        exactness.recompute * 100.0
    ));
    for reason in &exactness.reasons {
        output::say(&format!("  {reason}"));
    }
}
