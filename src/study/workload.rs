//! A load to buy for: the sizes of a cohort, read from headers, and what networks do with them.

use super::prepare::{PreparedSize, prepared_size};
use super::{StudyError, sizes_of_folder};
use crate::geometry::Extent;
use crate::hardware::{NetworkWork, Work};
use crate::jobs::Control;
use crate::memory::Precision;
use crate::memory::budget::{BudgetRequest, Display, Runtime, StitchOn};
use crate::network::manifest::Input;
use crate::network::{Model, facts};
use crate::tiling::{self, Choice, Facts, TilingSpec};
use crate::units::Bytes;
use std::path::Path;

/// One volume's size, and its spacing where it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StudySize {
    /// Voxels.
    pub extent: Extent,
    /// mm.
    pub spacing_mm: Option<[f64; 3]>,
}

/// The volumes that are to be read every day: the largest decides memory, the median time.
#[derive(Clone, Debug, PartialEq)]
pub struct Cohort(Vec<StudySize>);

impl Cohort {
    /// One volume that stands for all.
    pub fn of(extent: Extent) -> Self {
        Self(vec![StudySize {
            extent,
            spacing_mm: None,
        }])
    }

    /// One study.
    pub fn one(study: StudySize) -> Self {
        Self(vec![study])
    }

    /// The usable series of a folder, by their headers alone.
    pub fn read(folder: &Path, control: &Control) -> Result<Self, StudyError> {
        let sizes = sizes_of_folder(folder, control)?;
        if sizes.is_empty() {
            return Err(StudyError::EmptyCohort {
                folder: folder.to_owned(),
            });
        }
        Ok(Self(sizes))
    }

    /// How many volumes.
    pub fn n(&self) -> usize {
        self.0.len()
    }

    /// The volume in the middle, by voxels as stored.
    pub fn median(&self) -> StudySize {
        self.sorted(|s| voxels(s.extent)).1
    }

    /// The largest volume, by voxels as stored.
    pub fn largest(&self) -> StudySize {
        self.sorted(|s| voxels(s.extent)).0
    }

    /// The largest and the median once prepared for a network.
    fn prepared(&self, input: &Input, stride: [usize; 3]) -> (PreparedSize, PreparedSize) {
        let of = |s: StudySize| prepared_size(s.extent, s.spacing_mm, input, stride);
        let (largest, median) = self.sorted(|s| voxels(of(*s).padded));
        (of(largest), of(median))
    }

    fn sorted(&self, by: impl Fn(&StudySize) -> u64) -> (StudySize, StudySize) {
        let mut all = self.0.clone();
        all.sort_by_key(by);
        let none = StudySize {
            extent: Extent::cube(1),
            spacing_mm: None,
        };
        (
            all.last().copied().unwrap_or(none),
            all.get(all.len() / 2).copied().unwrap_or(none),
        )
    }
}

fn voxels(e: Extent) -> u64 {
    e.to_array()
        .iter()
        .fold(1, |n, d| n.saturating_mul(*d as u64))
}

/// How a network would be run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Windows, over the manifest's.
    pub windows: Choice,
    /// Whose engine.
    pub runtime: Runtime,
    /// How values are stored.
    pub precision: Precision,
    /// Windows per pass; 0 counts as one.
    pub batch: usize,
    /// Where outputs are stitched.
    pub stitch_on: StitchOn,
    /// What else the card shows.
    pub display: Display,
    /// Most bytes of the arena.
    pub memory_limit: Option<Bytes>,
}

/// What a network does with a cohort: memory by its largest volume, windows by the median.
pub fn network_work<'a>(
    model: &'a Model,
    asked: &Asked,
    cohort: &Cohort,
) -> Result<NetworkWork<'a>, StudyError> {
    let input = &model.manifest.input;
    let facts = Facts::of(&facts::of(&model.graph)?, input.axes);
    let spec = asked
        .windows
        .over(&TilingSpec::from(&model.manifest.windows))?;
    let (largest, median) = cohort.prepared(input, facts.total_stride);
    let roi = tiling::plan(&spec, largest.padded, &facts)?.roi;
    let windows = tiling::plan(&spec, median.padded, &facts)?;
    Ok(NetworkWork {
        request: BudgetRequest {
            volume: Some(largest.padded),
            runtime: asked.runtime,
            precision: asked.precision,
            batch: asked.batch.max(1),
            stitch_on: asked.stitch_on,
            display: asked.display,
            axes: input.axes,
            memory_limit: asked.memory_limit,
            gaussian: spec.blend == tiling::Blend::Gaussian,
            ..BudgetRequest::new(&model.graph, roi)
        },
        work: Work::of(&model.graph, windows.roi, input.axes, asked.precision)?,
        n_windows: windows.n_windows(),
        resampled_voxels: input.spacing_mm.map(|_| voxels(median.extent)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::preset;

    #[test]
    fn the_largest_study_decides_memory_and_the_median_time() {
        let model = preset::load("monai-lung-nodule").unwrap();
        let size = |z| StudySize {
            extent: Extent::new(512, 512, z),
            spacing_mm: Some([0.703_125, 0.703_125, 1.25]),
        };
        let asked = Asked {
            windows: Choice {
                roi_size: Some(Extent::new(512, 512, 64)),
                ..Choice::default()
            },
            ..Asked::default()
        };
        let alone = |z| network_work(&model, &asked, &Cohort(vec![size(z)])).unwrap();
        let all = Cohort(vec![size(480), size(240), size(64)]);
        let work = network_work(&model, &asked, &all).unwrap();
        assert_eq!(work.n_windows, alone(240).n_windows);
        assert_eq!(work.request.volume, alone(480).request.volume);
        assert_eq!(all.median().extent.z, 240);
        assert!(work.n_windows > 1 && work.n_windows < alone(480).n_windows);
    }
}
