//! `voxfit run`: windowed inference, and the result file.

use super::args::RunArgs;
use super::failure::{Failure, USAGE};
use super::output::{self, Align};
use super::progress;
use crate::app::{files, tensor};
use crate::engine::{Engine, Tensor};
use crate::exchange::nifti;
use crate::exchange::result::{NetworkSource, RunResult, check_writable};
use crate::geometry::Affine;
use crate::memory::Precision;
use crate::network::manifest::Output;
use crate::network::{self, Model};
use crate::study::{self, LabelMask, Ran, RunSpec, StudyError};
use crate::tiling::TilingSpec;
use crate::volume::{Volume, Voxels};
use std::path::{Path, PathBuf};

impl From<StudyError> for Failure {
    fn from(e: StudyError) -> Self {
        Self::new(e.exit_code(), e.to_string())
    }
}

pub(super) fn run(args: &RunArgs, json: bool) -> Result<u8, Failure> {
    let precision: Precision = args.precision.into();
    if precision != Precision::Fp32 {
        return Err(Failure::new(
            USAGE,
            format!(
                "the CPU engine runs fp32, found {precision:?}; `voxfit budget` plans the others"
            )
            .to_lowercase(),
        ));
    }
    check_paths(args)?;
    let model = network::open_choice(&args.model, &args.files.choice_at(args.choice.roi_size))?;
    if model.about.kind == "ONNX" {
        model.about.notes.iter().for_each(|note| output::warn(note));
    }
    accepted(args, &model)?;
    let (spec, straight) = spec(args, &model)?;
    let grid = super::volume::grid(straight);
    if args.labels.is_some() {
        makes_labels(&model)?;
    }
    check_writable("result", &args.out)?;
    if let Some(labels) = &args.labels {
        check_writable("label file", labels)?;
    }
    if let Some(folder) = &args.keep_outputs {
        super::forward::make_folder(folder)?;
        let files: Vec<PathBuf> = kept_files(folder, model.graph.outputs.len()).collect();
        let mut outputs = vec![("--out", args.out.as_path())];
        outputs.extend(files.iter().map(|f| ("--keep-outputs", f.as_path())));
        super::paths::distinct(&outputs, &[("the study", Path::new(&args.study))])?;
        for file in &files {
            check_writable("output", file)?;
        }
    }
    let engine = super::forward::pick(&args.engine, args.threads)?;
    let opened = progress::with("slices", |c| {
        study::open_as(&args.study, args.series.as_deref(), grid, c)
    })?;
    let mut outputs = vec![("--out", args.out.as_path())];
    outputs.extend(args.labels.as_deref().map(|path| ("--labels", path)));
    super::paths::spares_slices(&outputs, &opened)?;
    for w in &opened.warnings {
        output::warn(&w.text);
    }
    if let Some(reason) = &opened.refusal {
        let hint = super::volume::straight_hint(&opened);
        let reason = format!("{reason}{hint}");
        return Err(StudyError::Unusable { reason }.into());
    }
    let mut engine = Some(engine);
    let mut ran: Ran = progress::with("windows", |c| {
        let Some(mut engine) = engine.take() else {
            return Err(Failure::new(USAGE, "the engine was already used"));
        };
        let engine: &mut dyn Engine = engine.as_mut();
        study::run(&opened, &model, &spec, engine, c).map_err(Failure::from)
    })?;
    for w in &ran.result.warnings {
        if !opened.warnings.contains(w) {
            output::warn(&w.text);
        }
    }
    if let Some(path) = &args.labels {
        write_labels(&ran, path)?;
        ran.result.labels_file = Some(beside(path, &args.out));
    }
    if let Some(folder) = &args.keep_outputs {
        ran.result.kept_outputs = write_outputs(&ran, folder, &args.out)?;
    }
    ran.result.network.source = Some(NetworkSource::new(&args.model, &args.files.choice()));
    ran.result.write(&args.out)?;
    if json {
        output::print_json(&ran.result);
    } else {
        print(&ran.result, &args.out);
    }
    Ok(0)
}

/// Refuses outputs that overwrite each other or what the run reads, and labels in a file that is no volume.
fn check_paths(args: &RunArgs) -> Result<(), Failure> {
    let mut outputs = vec![("--out", args.out.as_path())];
    let mut inputs = vec![
        ("the study", Path::new(&args.study)),
        ("the network", Path::new(&args.model)),
    ];
    if let Some(labels) = &args.labels {
        if !nifti::is_nifti(labels) {
            return Err(Failure::new(
                USAGE,
                format!(
                    "labels are written as NIfTI: end --labels in .nii or .nii.gz; found {}",
                    labels.display()
                ),
            ));
        }
        outputs.push(("--labels", labels));
    }
    let read = [
        ("the plan", args.plan.as_deref()),
        ("the manifest", args.files.manifest.as_deref()),
        ("the weights", args.files.weights.as_deref().map(Path::new)),
    ];
    inputs.extend(read.into_iter().filter_map(|(w, p)| Some((w, p?))));
    let beside = network::manifest_beside(&args.model);
    inputs.push(("the manifest", &beside));
    super::paths::distinct(&outputs, &inputs)?;
    super::paths::spares_others("--out", &args.out, &[".json"])?;
    if let Some(labels) = &args.labels {
        super::paths::spares_others("--labels", labels, &[".nii", ".nii.gz"])?;
    }
    match &args.keep_outputs {
        Some(folder) => super::paths::not_among_slices("--keep-outputs", folder),
        None => Ok(()),
    }
}

/// Shows a manifest that nobody wrote; refuses to take its windows unless they were chosen or it was accepted.
fn accepted(args: &RunArgs, model: &Model) -> Result<(), Failure> {
    if !model.about.needs_acceptance() {
        for note in model.about.said() {
            output::warn(note);
        }
        return Ok(());
    }
    let text = model.manifest_text()?;
    output::warn(&format!(
        "{} has no manifest of its own that says all; this one is proposed:",
        model.graph.name
    ));
    output::warn_lines(&format!("\n{text}"));
    let chosen = args.accept_manifest || args.choice.roi_size.is_some() || args.plan.is_some();
    if chosen {
        return Ok(());
    }
    Err(Failure::new(
        USAGE,
        format!(
            "the model does not say how a volume becomes its input: read the proposal above and accept it with --accept-manifest, choose windows of your own with --roi-size, or keep it for good with: voxfit network {} --print-manifest > {}",
            args.model,
            network::manifest_beside(&args.model).display()
        ),
    ))
}

/// Refuses `--labels` for a network whose manifest speaks of no segmentation.
fn makes_labels(model: &Model) -> Result<(), Failure> {
    let instead = match &model.manifest.output {
        Output::Segmentation(_) => return Ok(()),
        Output::Retinanet(_) => "finds boxes",
        Output::None => "has no segmentation in its manifest",
    };
    Err(Failure::new(
        USAGE,
        format!(
            "the network {} {instead}, so there are no labels to write; leave --labels out",
            model.graph.name
        ),
    ))
}

/// What was asked for, over the plan file, over the manifest; and whether on a straight grid.
fn spec(args: &RunArgs, model: &Model) -> Result<(RunSpec, bool), Failure> {
    let mut spec = RunSpec::of(model);
    let mut straight = args.straight_grid;
    if let Some(path) = &args.plan {
        let plan = files::read_plan(path).map_err(|e| Failure::new(super::failure::DATA, e))?;
        spec.tiling = plan
            .tiling_spec()
            .map_err(|e| Failure::new(super::failure::DATA, e.to_string()))?;
        spec.batch = plan.batch;
        spec.memory_limit = plan.memory_limit;
        straight |= plan.straight_grid;
    }
    let defaults: TilingSpec = spec.tiling;
    spec.tiling = args.choice.choice().over(&defaults)?;
    spec.batch = args.batch.unwrap_or(spec.batch);
    if spec.batch == 0 {
        return Err(Failure::new(
            USAGE,
            "windows per pass are 1 or more, found 0; give --batch 1",
        ));
    }
    spec.allow_single_pass = args.allow_single_pass;
    spec.memory_limit = args.memory_limit.or(spec.memory_limit);
    Ok((spec, straight))
}

fn write_labels(ran: &Ran, path: &Path) -> Result<(), Failure> {
    let Some(mask) = &ran.labels else {
        return Err(Failure::new(
            USAGE,
            "the network's logits do not cover the volume voxel by voxel, so there are no labels to write; leave --labels out",
        ));
    };
    let volume = label_volume(mask, ran.prepared_affine);
    progress::writing("labels written", |c| nifti::write_until(&volume, path, c))
}

/// A path as it is found from the result's folder: without that folder's name where it lies in or under it.
fn beside(path: &Path, result: &Path) -> PathBuf {
    let whole = |p: &Path| std::path::absolute(p).unwrap_or_else(|_| p.to_path_buf());
    let (path, result) = (whole(path), whole(result));
    match result.parent().and_then(|d| path.strip_prefix(d).ok()) {
        Some(rest) => rest.to_path_buf(),
        None => path,
    }
}

fn kept_files(folder: &Path, n: usize) -> impl Iterator<Item = PathBuf> {
    (0..n).map(move |i| folder.join(format!("output_{i}.npy")))
}

/// Writes the stitched outputs, (channels, spatial) in the tensor's axis order, as they are hashed.
fn write_outputs(ran: &Ran, folder: &Path, result: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for (file, o) in kept_files(folder, ran.outputs.len()).zip(&ran.outputs) {
        let [a, b, c] = o.spatial;
        let tensor = Tensor {
            shape: vec![o.channels, a, b, c],
            values: o.values.clone(),
        };
        tensor::write(&file, &tensor)?;
        files.push(beside(&file, result));
    }
    Ok(files)
}

fn label_volume(mask: &LabelMask, affine: Affine) -> Volume {
    Volume {
        extent: mask.extent,
        affine,
        voxels: Voxels::I16(mask.values.iter().map(|&v| i16::from(v)).collect()),
        padding: None,
        is_hu: false,
        z_spacing_known: true,
    }
}

fn print(r: &RunResult, out: &Path) {
    output::say(&format!(
        "{} windows of {}, {:.1} s on {}, {} planned = {} allocated, {}",
        r.n_windows,
        r.plan.roi_size,
        r.seconds,
        r.engine,
        r.memory.planned,
        r.memory.allocated,
        r.exactness.verdict
    ));
    if let Some(host) = r.memory.host {
        output::say(&format!(
            "host: {} before, {} at its highest; the plan adds {}",
            host.before, host.peak, host.planned
        ));
    }
    if let Some(tiles) = r.memory.tiles {
        output::say(&format!(
            "in tiles: {} with every map whole, {:.1} % of the work done again",
            tiles.untiled, tiles.recompute_percent
        ));
    }
    let rows: Vec<Vec<String>> = r
        .detections
        .iter()
        .enumerate()
        .map(|(i, d)| {
            let [x, y, z] = d.center_in_patient;
            let longest = d.size_mm.iter().copied().fold(0.0, f64::max);
            vec![
                (i + 1).to_string(),
                d.label.clone(),
                format!("{:.2}", d.score),
                output::number(Some(longest), 1),
                output::number(d.seam_distance, 1),
                [x, y, z].map(|v| output::number(Some(v), 1)).join(", "),
            ]
        })
        .collect();
    output::table(
        &[
            ("#", Align::Right),
            ("label", Align::Left),
            ("score", Align::Right),
            ("size mm", Align::Right),
            ("seam mm", Align::Right),
            ("center mm, LPS", Align::Right),
        ],
        &rows,
    );
    for (name, voxels) in &r.labels {
        output::say(&format!(
            "{name}: {} voxels",
            crate::units::with_thousands(*voxels)
        ));
    }
    if !r.seams.words.is_empty() {
        output::say(&format!("seams: {}", r.seams.words));
    }
    output::say(&format!("result: {}", out.display()));
}
