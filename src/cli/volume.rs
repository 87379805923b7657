//! `voxfit volume`: writes a volume as `NIfTI`, or as a DICOM series into a folder.

use super::args::VolumeArgs;
use super::failure::{DATA, Failure, USAGE, WRITE};
use super::{output, progress};
use crate::exchange::dicom_write::{SeriesText, write_series};
use crate::exchange::{VolumeFileError, nifti};
use crate::series::WarningCode;
use crate::study::{self, Grid, Opened, StudyKind};
use serde_json::json;
use std::path::Path;

impl From<VolumeFileError> for Failure {
    fn from(e: VolumeFileError) -> Self {
        let code = match &e {
            VolumeFileError::Write { .. } => WRITE,
            VolumeFileError::Ending { .. } => USAGE,
            VolumeFileError::Memory { .. } => super::failure::TEMPORARY,
            VolumeFileError::Cancelled(_) => super::failure::CANCELLED,
            _ => DATA,
        };
        Self::new(code, e.to_string())
    }
}

/// The grid that `--straight-grid` asks for.
pub(super) const fn grid(straight: bool) -> Grid {
    if straight {
        Grid::Straight
    } else {
        Grid::AsStored
    }
}

/// What to do about a refusal that a straight grid would lift.
pub(super) fn straight_hint(opened: &Opened) -> &'static str {
    let lifted = match &opened.kind {
        StudyKind::Dicom { series } => series.refusal_on_straight_grid().is_none(),
        _ => false,
    };
    if opened.refusal.is_some() && lifted && opened.straightens() {
        "; --straight-grid interpolates between the slices that are there"
    } else {
        ""
    }
}

/// Who and what the written series says it is: never a patient, and a phantom only where it is one.
fn text(opened: &Opened) -> SeriesText {
    match opened.kind {
        StudyKind::Phantom { .. } => SeriesText::default(),
        StudyKind::Dicom { .. } | StudyKind::File => SeriesText {
            patient_name: "Anonymous".to_owned(),
            patient_id: "ANONYMOUS".to_owned(),
            description: "Written by Voxfit".to_owned(),
        },
    }
}

/// What a volume file could not say of the study that is refused.
fn why_not_written(opened: &Opened) -> String {
    let undecoded = WarningCode::CannotDecode.as_str();
    let lost = opened
        .warnings
        .iter()
        .any(|w| w.code == undecoded && opened.refusal.as_ref() == Some(&w.text));
    if lost {
        return "a volume file cannot say which of its slices are empty".to_owned();
    }
    format!(
        "a volume file has one even step between slices and cannot say that this one has not{}",
        straight_hint(opened)
    )
}

pub(super) fn run(args: &VolumeArgs, json: bool) -> Result<u8, Failure> {
    let as_nifti = nifti::is_nifti(&args.out);
    if !as_nifti && args.out.extension().is_some() {
        return Err(Failure::new(
            USAGE,
            format!(
                "a volume is written as NIfTI (end --out in .nii or .nii.gz) or as a DICOM series (name a folder, without an ending); found {}",
                args.out.display()
            ),
        ));
    }
    super::paths::distinct(
        &[("--out", &args.out)],
        &[("the study", Path::new(&args.path))],
    )?;
    if as_nifti {
        super::paths::spares_others("--out", &args.out, &[".nii", ".nii.gz"])?;
        let folder = args.out.parent().unwrap_or_else(|| Path::new("."));
        super::paths::not_among_slices("--out", folder)?;
    }
    let opened = progress::with("slices", |c| {
        let grid = grid(args.straight_grid);
        study::open_as(&args.path, args.series.as_deref(), grid, c)
    })?;
    super::paths::spares_slices(&[("--out", &args.out)], &opened)?;
    for w in &opened.warnings {
        if opened.refusal.as_ref() != Some(&w.text) {
            output::warn(&w.text);
        }
    }
    if let Some(reason) = &opened.refusal {
        let why = why_not_written(&opened);
        return Err(Failure::new(
            DATA,
            format!("not written: {reason}; {why}: {}", args.path),
        ));
    }
    if as_nifti {
        progress::writing("volume written", |c| {
            nifti::write_until(&opened.volume, &args.out, c)
        })?;
    } else {
        progress::writing("slices written", |c| {
            write_series(&opened.volume, &args.out, &text(&opened), c)
        })?;
    }
    let (size, spacing) = (opened.volume.extent, opened.volume.affine.spacing_mm());
    if json {
        output::print_json(&json!({ "out": args.out, "size": size, "spacing_mm": spacing }));
    } else {
        output::say(&format!(
            "{size}, {:.3} x {:.3} x {:.3} mm: {}",
            spacing[0],
            spacing[1],
            spacing[2],
            args.out.display()
        ));
    }
    Ok(0)
}
