//! The permanent regression test: the plans of kept results are run again and held against them.

use super::compare::CompareSpec;
use super::sides::{Loaded, own_side};
use super::{Grid, RunSpec, STRAIGHT_GRID, StudyError, open_as, run};
use crate::engine::Engine;
use crate::exchange::findings::{Document, Kind};
use crate::exchange::result::{NetworkSource, RunResult};
use crate::jobs::Control;
use crate::network::{self, Asked, Choice, Model, NetworkError};
use crate::review::labels::Mask;
use crate::review::{ParityReport, StudyParity, compare};
use crate::tiling::{Blend, Layout, TilingSpec};
use std::path::{Path, PathBuf};

impl NetworkSource {
    /// What a network was opened by.
    pub fn new(model: &str, choice: &Choice) -> Self {
        Self {
            model: model.to_owned(),
            manifest: choice.manifest.clone(),
            weights: choice.weights.clone(),
            configuration: choice.configuration.clone(),
            fold: choice.fold.clone(),
        }
    }

    fn choice(&self) -> Choice {
        Choice {
            manifest: self.manifest.clone(),
            weights: self.weights.clone(),
            configuration: self.configuration.clone(),
            fold: self.fold.clone(),
            asked: None,
        }
    }
}

impl RunSpec {
    /// The plan of a result, to run it again.
    pub fn of_result(result: &RunResult) -> Self {
        let plan = &result.plan;
        let aligned = plan.layout == Layout::Aligned;
        Self {
            tiling: TilingSpec {
                roi_size: plan.roi_size,
                overlap: if aligned { [0.0; 3] } else { plan.overlap },
                blend: if aligned { Blend::Constant } else { plan.blend },
                layout: plan.layout,
            },
            batch: plan.batch.max(1),
            precision: result.precision,
            // A result of one window was allowed by name when it was made.
            allow_single_pass: result.n_windows <= 1,
            memory_limit: result.memory.tiles.map(|_| result.memory.planned),
        }
    }
}

/// The network of a result: as it was opened then, or the one that is given now.
fn open_network(
    result: &RunResult,
    folder: &Path,
    given: Option<&NetworkSource>,
) -> Result<Model, StudyError> {
    if let Some(source) = given.or(result.network.source.as_ref()) {
        let beside = folder.join(&source.model);
        let model = if !Path::new(&source.model).exists() && beside.exists() {
            beside.to_string_lossy().into_owned()
        } else {
            source.model.clone()
        };
        let choice = Choice {
            asked: Some(Asked::Window(result.plan.roi_size.to_array())),
            ..source.choice()
        };
        return Ok(network::open_choice(&model, &choice)?);
    }
    let preset = format!("preset:{}", result.network.name);
    match network::open_choice(&preset, &Choice::default()) {
        Ok(model) => Ok(model),
        Err(NetworkError::UnknownPreset { .. }) => Err(StudyError::Compare {
            reason: format!(
                "the result is of an older Voxfit that did not keep which file the network {} came from; name it with --model",
                result.network.name
            ),
        }),
        Err(e) => Err(e.into()),
    }
}

/// A study as it was named: from here, or from the baseline's folder.
fn study_name(name: &str, folder: &Path) -> String {
    let beside = folder.join(name);
    if !name.starts_with("phantom:") && !Path::new(name).exists() && beside.exists() {
        beside.to_string_lossy().into_owned()
    } else {
        name.to_owned()
    }
}

fn rerun(
    result: &RunResult,
    folder: &Path,
    given: Option<&NetworkSource>,
    engine: &mut dyn Engine,
    control: &Control,
) -> Result<super::Ran, StudyError> {
    let model = open_network(result, folder, given)?;
    let straight = result.warnings.iter().any(|w| w.code == STRAIGHT_GRID);
    let grid = if straight {
        Grid::Straight
    } else {
        Grid::AsStored
    };
    let study = study_name(&result.study, folder);
    let series = result.series.as_deref().filter(|s| *s != result.study);
    let opened = open_as(&study, series, grid, control)?.for_running()?;
    run(
        &opened,
        &model,
        &RunSpec::of_result(result),
        engine,
        control,
    )
}

/// What differs about the run itself, beside its findings.
fn differences(old: &RunResult, new: &RunResult) -> Vec<String> {
    let mut notes = Vec::new();
    if old.memory.planned != new.memory.planned {
        notes.push(format!(
            "the arena was {} and is {}",
            old.memory.planned, new.memory.planned
        ));
    }
    if old.plan.starts != new.plan.starts || old.n_windows != new.n_windows {
        notes.push(format!(
            "the windows lie elsewhere: {} then, {} now",
            old.n_windows, new.n_windows
        ));
    }
    if old.plan.sigma_scale != new.plan.sigma_scale {
        notes.push(format!(
            "sigma_scale was {} and is {}: the manifest has changed",
            old.plan.sigma_scale, new.plan.sigma_scale
        ));
    }
    if old.exactness.verdict != new.exactness.verdict {
        notes.push(format!(
            "the forecast was {} and is {}",
            old.exactness.verdict, new.exactness.verdict
        ));
    }
    notes
}

/// One result of a baseline.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its file.
    pub path: PathBuf,
    /// What it holds, or why it cannot be read.
    pub result: Result<RunResult, String>,
}

/// The results of a folder, by name; other JSON there is left alone.
pub fn baseline(folder: &Path) -> Result<Vec<Kept>, StudyError> {
    let listed = std::fs::read_dir(folder).map_err(|e| StudyError::Compare {
        reason: format!(
            "cannot look into the baseline ({e}); give a folder of results: {}",
            folder.display()
        ),
    })?;
    let mut files: Vec<PathBuf> = listed
        .filter_map(Result::ok)
        .map(|e| e.path())
        .filter(|p| {
            p.extension()
                .is_some_and(|e| e.eq_ignore_ascii_case("json"))
                && Document::open(p).map_or(true, |d| d.kind() == Kind::Result)
        })
        .collect();
    files.sort();
    let kept: Vec<Kept> = files
        .into_iter()
        .map(|path| Kept {
            result: RunResult::read(&path).map_err(|e| e.to_string()),
            path,
        })
        .collect();
    if kept.is_empty() {
        return Err(StudyError::Compare {
            reason: format!(
                "the baseline holds no results; put result files of voxfit run (.json) there: {}",
                folder.display()
            ),
        });
    }
    Ok(kept)
}

/// Runs one kept result's plan again and holds the answer against it.
pub fn compare_again(
    (old, path): (&RunResult, &Path),
    given: Option<&NetworkSource>,
    spec: &CompareSpec,
    engine: &mut dyn Engine,
    control: &Control,
) -> Result<(StudyParity, RunResult), StudyError> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let ran = rerun(old, folder, given, engine, control)?;
    let name = path.display().to_string();
    let mut before = own_side(old, &name);
    let mut now = own_side(&ran.result, &format!("{name}, run again"));
    if let (Some(x), Some(y)) = (&old.volume_sha256, &ran.result.volume_sha256)
        && x != y
    {
        return Err(StudyError::Compare {
            reason: format!(
                "the study {} is not what it was when the baseline was made: other voxels; restore it or make the baseline again",
                old.study
            ),
        });
    }
    if let (Some(file), Some(labels)) = (&old.labels_file, &ran.labels) {
        let loaded = Loaded {
            side: before.clone(),
            mask: Some((folder.join(file), old.label_names.clone())),
            ..Loaded::default()
        };
        before = loaded.with_mask()?;
        now.mask = Some(Mask {
            extent: labels.extent,
            affine: ran.prepared_affine,
            values: labels.values.iter().map(|v| u16::from(*v)).collect(),
            names: labels.names.clone(),
        });
    }
    let limits = &spec.tolerance.limits;
    let mut found = compare([&before, &now], &spec.matching, limits)
        .map_err(|reason| StudyError::Compare { reason })?;
    found.notes.extend(differences(old, &ran.result));
    Ok((found, ran.result))
}

/// The answer over a whole baseline; what cannot be run again is a study that failed.
pub fn report(
    folder: &Path,
    spec: &CompareSpec,
    studies: Vec<StudyParity>,
    warnings: Vec<String>,
) -> ParityReport {
    let name = folder.display().to_string();
    ParityReport::new(
        (name.clone(), format!("{name}, run again")),
        (spec.tolerance, spec.matching),
        studies,
        (Vec::new(), Vec::new()),
        warnings,
    )
}
