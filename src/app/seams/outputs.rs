//! Stitched outputs of two results held against each other: read, compared by seam, filled into the record. Window and command line share it.

use super::field::{Grid, Peak, peaks};
use crate::app::tensor;
use crate::exchange::result::{RunResult, SeamRecord};
use crate::review::Verdict;
use crate::review::reference::{Differences, Kept, differences, judge};
use crate::tiling::stitch::Stitched;
use crate::units::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Stitched outputs by their place among the network's; those that do not count are left out.
pub type KeptOutputs = Vec<Option<Arc<Stitched>>>;

/// What the outputs of a run and of a reference differ in.
#[derive(Clone, Debug)]
pub struct DiffFound {
    /// By output that counts.
    pub list: Vec<Differences>,
    /// The verdict over all of them.
    pub verdict: Verdict,
    /// The same in a sentence.
    pub words: String,
    /// The run's seam record with what takes a reference.
    pub seams: SeamRecord,
    /// The output that is drawn: the finest that counts.
    pub output: usize,
    /// Its worst places, by seam.
    pub peaks: Vec<Peak>,
    /// A difference that 99.5 of 100 differences stay below: the end of the colour scale.
    pub scale: f32,
    /// The run's outputs.
    pub own: Arc<KeptOutputs>,
    /// The reference's.
    pub reference: Arc<KeptOutputs>,
}

/// Which outputs of a result count: as its run said, all where it said nothing.
pub(super) fn counts(result: &RunResult) -> impl Fn(usize) -> bool + '_ {
    |o| result.seams.outputs.get(o).is_none_or(|o| o.judged)
}

/// Reads the outputs that a result kept, those that count in `of`. `most` bounds their bytes.
pub fn read_kept(
    result: &RunResult,
    path: &Path,
    of: &RunResult,
    most: Option<Bytes>,
) -> Result<KeptOutputs, String> {
    if result.kept_outputs.is_empty() {
        return Err(format!(
            "the result keeps no outputs to compare; run it again with --keep-outputs DIR: {}",
            path.display()
        ));
    }
    let files: Vec<Option<PathBuf>> = (0..result.kept_outputs.len())
        .map(|o| counts(of)(o).then(|| beside(&result.kept_outputs[o], path)))
        .collect();
    let size = |f: &PathBuf| std::fs::metadata(f).map_or(0, |m| m.len());
    let bytes = Bytes(files.iter().flatten().map(size).sum());
    if let Some(most) = most.filter(|most| bytes > *most) {
        return Err(format!(
            "the kept outputs take {bytes}, more than the {most} that the window holds; compare them with voxfit seams --reference: {}",
            path.display()
        ));
    }
    files
        .iter()
        .map(|f| f.as_deref().map(read).transpose())
        .collect()
}

fn beside(file: &Path, result: &Path) -> PathBuf {
    let beside = result.parent().map(|d| d.join(file));
    beside
        .filter(|p| p.is_file())
        .unwrap_or_else(|| file.to_path_buf())
}

fn read(path: &Path) -> Result<Arc<Stitched>, String> {
    let t = tensor::read(path).map_err(|e| e.to_string())?;
    match *t.shape.as_slice() {
        [channels, a, b, c] => Ok(Arc::new(Stitched {
            channels,
            spatial: [a, b, c],
            values: t.values,
        })),
        _ => Err(format!(
            "expected a kept output of 4 axes, found {:?}: {}",
            t.shape,
            path.display()
        )),
    }
}

pub(super) fn kept(s: &Stitched, each: bool) -> Kept<'_> {
    Kept {
        channels: s.channels,
        each,
        spatial: s.spatial,
        values: &s.values,
    }
}

/// Whether both are of one volume and one network, or the sentence that says what not.
pub fn same(
    (a, a_name): (&RunResult, &Path),
    (b, b_name): (&RunResult, &Path),
) -> Result<(), String> {
    let both_said = a.volume_sha256.is_some() && b.volume_sha256.is_some();
    if a.plan.prepared_volume != b.plan.prepared_volume
        || (both_said && a.volume_sha256 != b.volume_sha256)
    {
        return Err(format!(
            "the results are of two different volumes: {} and {}",
            a_name.display(),
            b_name.display()
        ));
    }
    if a.network.sha256 != b.network.sha256 {
        return Err(format!(
            "the results are of two networks ({} and {}, or one with other weights): {} and {}",
            a.network.name,
            b.network.name,
            a_name.display(),
            b_name.display()
        ));
    }
    Ok(())
}

/// The outputs that count, ours against the reference's. Names are for sentences.
pub fn against(
    (a, a_outputs, a_name): (&RunResult, &KeptOutputs, &Path),
    (b, b_outputs, b_name): (&RunResult, &KeptOutputs, &Path),
) -> Result<Vec<Differences>, String> {
    same((a, a_name), (b, b_name))?;
    let planes = a.seams.places();
    let each = a.box_selector.is_some();
    let prepared = a.plan.prepared_volume.to_array();
    let mut all = Vec::new();
    for (o, (x, y)) in a_outputs.iter().zip(b_outputs).enumerate() {
        let (true, Some(x), Some(y)) = (counts(a)(o), x, y) else {
            continue;
        };
        let both = (&kept(x, each), &kept(y, each));
        all.push(differences(both, &planes, prepared, a.plan.axes)?);
    }
    if all.is_empty() {
        return Err(format!(
            "the results have no output in common to compare: {} and {}",
            a_name.display(),
            b_name.display()
        ));
    }
    Ok(all)
}

/// What takes a reference, by seam: the worst of any output.
pub fn fill(seams: &mut SeamRecord, found: &[Differences]) {
    for plane in &mut seams.planes {
        let of = found
            .iter()
            .flat_map(|d| &d.planes)
            .filter(|p| p.axis == plane.axis && p.at == plane.at);
        let far_from_one = |r: f64| (r - 1.0).abs();
        plane.diff_max = of.clone().map(|p| p.diff_max).max_by(f64::total_cmp);
        plane.flips = Some(of.clone().map(|p| p.flips).sum());
        plane.step_ratio = of
            .filter_map(|p| p.step_ratio)
            .max_by(|x, y| far_from_one(*x).total_cmp(&far_from_one(*y)));
    }
}

impl DiffFound {
    /// Holds the outputs of a run against a reference's, and looks where the worst lies.
    pub fn new(
        (a, own, a_name): (&RunResult, Arc<KeptOutputs>, &Path),
        (b, reference, b_name): (&RunResult, Arc<KeptOutputs>, &Path),
    ) -> Result<Self, String> {
        let list = against((a, &own, a_name), (b, &reference, b_name))?;
        let (verdict, words) = judge(&list);
        let mut seams = a.seams.clone();
        fill(&mut seams, &list);
        let each = a.box_selector.is_some();
        let finest = own
            .iter()
            .zip(reference.iter())
            .enumerate()
            .rev()
            .filter_map(|(o, (x, y))| Some((o, x.as_ref()?, y.as_ref()?)))
            .max_by_key(|(_, x, _)| x.spatial.iter().product::<usize>());
        let (mut output, mut worst, mut scale) = (0, Vec::new(), 0.0);
        if let Some((o, x, y)) = finest {
            output = o;
            let (kx, ky) = (kept(x, each), kept(y, each));
            let off = |at: usize| kx.signed(&ky, at).abs();
            let n = x.spatial.iter().product::<usize>();
            scale = end_of_scale((0..n).map(off));
            if let Some(grid) = Grid::of_output(&a.plan, x.spatial) {
                worst = peaks(&grid, &a.seams, a.plan.axes, off);
            }
        }
        Ok(Self {
            list,
            verdict,
            words,
            seams,
            output,
            peaks: worst,
            scale,
            own,
            reference,
        })
    }
}

/// What 99.5 of 100 values that are not 0 stay below; a sample of them where there are many.
pub(super) fn end_of_scale(values: impl Iterator<Item = f32>) -> f32 {
    let mut seen: Vec<f32> = values.filter(|v| *v > 0.0 && v.is_finite()).collect();
    let every = seen.len().div_ceil(1 << 18).max(1);
    let most = seen.iter().copied().fold(0.0, f32::max);
    if every > 1 {
        seen = seen.into_iter().step_by(every).collect();
    }
    seen.sort_by(f32::total_cmp);
    seen.get(seen.len() * 995 / 1000).copied().unwrap_or(most)
}
