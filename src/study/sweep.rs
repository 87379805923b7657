//! Sweeps: every row planned, points of elsewhere put beside, rows run on the engine at hand one by one.

use super::compare::{CompareSpec, compare_sides};
use super::sides::{Sides, read};
use super::{Cohort, Opened, RunSpec, StudyError, StudySize, network_work, run};
use crate::engine::Engine;
use crate::exchange::result::{NetworkSource, RunResult, volume_sha256};
use crate::exchange::sweep::SweepRow;
use crate::geometry::Extent;
use crate::hardware::{Card, Costs, free_on, judge};
use crate::jobs::{Cancelled, Control};
use crate::memory::budget::Runtime;
use crate::memory::planner::Planner;
use crate::memory::{Part, Precision, Source};
use crate::network::{Model, facts};
use crate::tiling::{self, Facts, Layout, TilingSpec};
use crate::units::Bytes;
use std::path::{Path, PathBuf};

pub use super::workload::Asked;

/// Rows that one sweep may have.
pub const MOST_ROWS: usize = 10_000;

/// What rows are planned for.
#[derive(Clone, Debug)]
pub struct SweepSpec<'a> {
    /// Everything that all rows have in common; roi, layout and precision come from the row.
    pub asked: Asked,
    /// Cards that a row is judged on; forecast seconds are of the first.
    pub cards: Vec<&'a Card>,
    /// What forecast seconds are reckoned with.
    pub costs: Costs,
}

/// Every roi with every precision and every layout, in that order.
pub fn rows(rois: &[Extent], precisions: &[Precision], layouts: &[Layout]) -> Vec<SweepRow> {
    let mut out = Vec::new();
    for &roi in rois {
        for &precision in precisions {
            for &layout in layouts {
                let row = SweepRow::new(roi, precision, layout);
                if !out.contains(&row) {
                    out.push(row);
                }
            }
        }
    }
    out
}

impl SweepSpec<'_> {
    fn asked(&self, row: &SweepRow) -> Asked {
        let mut asked = self.asked;
        asked.windows.roi_size = Some(row.roi_size);
        asked.windows.layout = Some(row.layout);
        if row.layout == Layout::Aligned {
            asked.windows.overlap = None;
            asked.windows.blend = None;
        }
        asked.precision = row.precision;
        asked
    }

    fn tiling(&self, row: &SweepRow, model: &Model) -> Result<TilingSpec, StudyError> {
        let defaults = TilingSpec::from(&model.manifest.windows);
        Ok(self.asked(row).windows.over(&defaults)?)
    }

    /// Fills in what can be planned. A point measured elsewhere keeps its figures and gets windows, forecast and verdicts.
    /// A row that cannot be planned says why.
    pub fn plan(&self, row: &mut SweepRow, model: &Model, size: StudySize) {
        if let Err(e) = self.try_plan(row, model, size) {
            row.note = Some(e.to_string());
        }
        self.judge(row);
    }

    fn try_plan(
        &self,
        row: &mut SweepRow,
        model: &Model,
        size: StudySize,
    ) -> Result<(), StudyError> {
        let cohort = Cohort::one(size);
        let work = network_work(model, &self.asked(row), &cohort)?;
        let volume = work.request.volume.unwrap_or(work.request.roi_size);
        let facts = Facts::of(&facts::of(&model.graph)?, model.manifest.input.axes);
        let windows = tiling::plan(&self.tiling(row, model)?, volume, &facts)?;
        row.n_windows = Some(windows.n_windows());
        row.exactness = Some(tiling::forecast(&windows, &facts).verdict.to_string());
        // A point that somebody measured without a clock gets its time by forecast.
        if row.seconds.is_none()
            && let Some(card) = self.cards.first()
            && let Some(seconds) = work.work.seconds(card, &self.costs)
        {
            row.seconds = Some(seconds * work.n_windows as f64);
            row.seconds_source = Some(Source::Guessed);
        }
        if row.source == Source::Measured {
            return Ok(());
        }
        row.roi_size = windows.roi;
        let budget = Planner::new(&model.graph).budget_without_fixes(&work.request)?;
        let required = budget.parts.required();
        row.peak = Some(required.high);
        row.peak_low = Some(required.low);
        row.host_peak = Some(budget.host_peak);
        row.source = match self.asked.runtime {
            Runtime::Voxfit => required.source,
            Runtime::Pytorch => Source::Modelled,
        };
        Ok(())
    }

    /// The verdict of each card by what is known of the peak.
    fn judge(&self, row: &mut SweepRow) {
        let (low, high) = match (row.peak_low, row.peak) {
            (None, None) => return,
            (low, high) => (low.unwrap_or(Bytes::ZERO), high.unwrap_or(Bytes(u64::MAX))),
        };
        let part = Part::range(low, high, row.source);
        row.cards = self
            .cards
            .iter()
            .map(|c| (c.id.clone(), judge(part, free_on(c, self.asked.display))))
            .collect();
    }
}

/// What rows are run with.
pub struct Bench<'a> {
    /// The study.
    pub study: &'a Opened,
    /// The network with its weights.
    pub model: &'a Model,
    /// How the network was opened, for the result files.
    pub source: NetworkSource,
    /// The result that rows are compared with.
    pub reference: Option<PathBuf>,
    /// Whether a window may cover the whole volume.
    pub allow_single_pass: bool,
    /// Where each row's result is kept, and taken from when it is there already.
    pub folder: &'a Path,
}

impl Bench<'_> {
    /// Runs one row, or takes the result of an earlier run of the same row; what goes wrong stands in the row's note and only
    /// a cancel ends the sweep.
    pub fn measure(
        &self,
        row: &mut SweepRow,
        spec: &SweepSpec<'_>,
        engine: &mut dyn Engine,
        control: &Control,
    ) -> Result<(), Cancelled> {
        control.check()?;
        match self.try_measure(row, spec, engine, control) {
            Ok(()) => Ok(()),
            Err(e) if e.exit_code() == 130 => Err(Cancelled),
            Err(e) => {
                row.note = Some(e.to_string());
                Ok(())
            }
        }
    }

    fn try_measure(
        &self,
        row: &mut SweepRow,
        spec: &SweepSpec<'_>,
        engine: &mut dyn Engine,
        control: &Control,
    ) -> Result<(), StudyError> {
        let asked = spec.asked;
        let wanted = RunSpec {
            tiling: spec.tiling(row, self.model)?,
            batch: asked.batch.max(1),
            precision: row.precision,
            allow_single_pass: self.allow_single_pass,
            memory_limit: asked.memory_limit,
        };
        if row.precision != Precision::Fp32 {
            return Err(StudyError::Compare {
                reason: "planned only: the CPU engine runs fp32".to_owned(),
            });
        }
        let path = self.folder.join(format!("{}.json", row.name()));
        let result = if let Some(result) = self.kept(&path, row, &wanted) {
            result
        } else {
            let mut ran = run(self.study, self.model, &wanted, engine, control)?;
            ran.result.network.source = Some(self.source.clone());
            ran.result.write(&path)?;
            ran.result
        };
        row.peak = Some(result.memory.measured_peak);
        row.peak_low = row.peak;
        row.host_peak = result.memory.host.map(|h| h.peak).or(row.host_peak);
        row.seconds = Some(result.seconds);
        row.seconds_source = Some(Source::Measured);
        row.source = Source::Measured;
        row.exactness = Some(result.exactness.verdict.to_string());
        row.note = None;
        if let Some(reference) = &self.reference {
            row.parity = Some(parity(reference, &path, control)?);
        }
        spec.judge(row);
        Ok(())
    }

    /// An earlier result of this row: the same network, volume and plan.
    fn kept(&self, path: &Path, row: &SweepRow, wanted: &RunSpec) -> Option<RunResult> {
        let result = RunResult::read(path).ok()?;
        let volume = &self.study.volume;
        let same = result.network.sha256 == self.model.sha256()
            && result.volume_sha256 == Some(volume_sha256(volume.extent, &volume.voxels))
            && result.precision == row.precision
            && result.plan.roi_size == row.roi_size
            && result.plan.layout == wanted.tiling.layout
            && result.plan.blend == wanted.tiling.blend
            && (wanted.tiling.layout == Layout::Aligned
                || result.plan.overlap == wanted.tiling.overlap)
            && wanted
                .memory_limit
                .is_none_or(|most| result.memory.planned <= most)
            && (wanted.memory_limit.is_some() || result.memory.tiles.is_none());
        same.then_some(result)
    }
}

/// The verdict of a row's result against the reference.
fn parity(reference: &Path, own: &Path, control: &Control) -> Result<String, StudyError> {
    let same = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(x), Ok(y)) if x == y);
    if same(reference, own) {
        return Ok("reference".to_owned());
    }
    let sides: [Sides; 2] = [read(reference, None)?, read(own, None)?];
    let quiet = Control::new();
    control.check()?;
    let report = compare_sides(
        ("the reference", &sides[0]),
        ("the row", &sides[1]),
        &CompareSpec::default(),
        &quiet,
    )?;
    Ok(report.verdict.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::cpu::CpuEngine;
    use crate::exchange::sweep::points;
    use crate::hardware::Catalogue;
    use crate::memory::Verdict;
    use crate::network::{self, preset};
    use crate::study::open;

    /// The article's table: fits and parity are two columns, and no card is told the opposite of what happened.
    #[test]
    fn the_articles_points_get_verdicts_that_agree_with_what_happened() {
        let text = include_str!("../../assets/sweep_lung_nodule.csv");
        let mut rows = points(text, Path::new("a.csv")).unwrap();
        let model = preset::load("monai-lung-nodule").unwrap();
        let catalogue = Catalogue::builtin();
        let spec = SweepSpec {
            asked: Asked {
                runtime: Runtime::Pytorch,
                ..Asked::default()
            },
            cards: vec![catalogue.get("rtx-5070-ti").unwrap()],
            costs: Costs::builtin(),
        };
        let size = StudySize {
            extent: Extent::new(512, 512, 240),
            spacing_mm: None,
        };
        for row in &mut rows {
            spec.plan(row, &model, size);
        }
        let verdicts: Vec<Verdict> = rows.iter().map(|r| r.cards["rtx-5070-ti"]).collect();
        use Verdict::{Fits, Over, Tight};
        assert_eq!(verdicts, [Over, Over, Over, Fits, Tight]);
        assert!(rows.iter().all(|r| r.n_windows.is_some_and(|n| n > 1)));
        assert_eq!(rows[1].exactness.as_deref(), Some("spatial-norm"));
        assert_eq!(rows[4].parity.as_deref(), Some("other"));
    }

    #[test]
    fn a_failed_row_does_not_end_a_sweep_and_a_second_one_takes_what_was_measured() {
        let model = network::open("preset:demo", None, None).unwrap();
        let control = Control::new();
        let study = open("phantom:48x48x48:3", None, &control).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let catalogue = Catalogue::builtin();
        let spec = SweepSpec {
            asked: Asked::default(),
            cards: vec![catalogue.get("rtx-4060").unwrap()],
            costs: Costs::builtin(),
        };
        let size = StudySize {
            extent: study.volume.extent,
            spacing_mm: Some(study.volume.affine.spacing_mm()),
        };
        let mut rows = rows(
            &[Extent::cube(32), Extent::cube(48)],
            &[Precision::Fp32, Precision::Fp16],
            &[Layout::Monai],
        );
        let bench = Bench {
            study: &study,
            model: &model,
            source: NetworkSource::default(),
            reference: None,
            allow_single_pass: false,
            folder: folder.path(),
        };
        let mut engine = CpuEngine::new(1).unwrap();
        for row in &mut rows {
            spec.plan(row, &model, size);
            bench.measure(row, &spec, &mut engine, &control).unwrap();
        }
        let sources: Vec<Source> = rows.iter().map(|r| r.source).collect();
        use Source::{Measured, Planned};
        assert_eq!(sources, [Measured, Planned, Planned, Planned]);
        assert!(rows[1].note.as_ref().is_some_and(|n| n.contains("fp32")));
        assert!(rows[2].note.as_ref().is_some_and(|n| n.contains("refused")));
        let seconds = rows[0].seconds;
        let mut again = SweepRow::new(Extent::cube(32), Precision::Fp32, Layout::Monai);
        spec.plan(&mut again, &model, size);
        let reference = folder.path().join(format!("{}.json", again.name()));
        let bench = Bench {
            reference: Some(reference),
            ..bench
        };
        bench
            .measure(&mut again, &spec, &mut engine, &control)
            .unwrap();
        assert_eq!(again.seconds, seconds, "it was run again");
        assert_eq!(again.parity.as_deref(), Some("reference"));
        control.cancel();
        assert!(
            bench
                .measure(&mut again, &spec, &mut engine, &control)
                .is_err()
        );
    }
}
