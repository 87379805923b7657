//! `voxfit volume`: writes a volume as `NIfTI`, or as a DICOM series into a folder.

use super::args::VolumeArgs;
use super::failure::{DATA, Failure, USAGE, WRITE};
use super::{output, progress};
use crate::exchange::dicom_write::{SeriesText, write_series};
use crate::exchange::{VolumeFileError, nifti};
use crate::study;
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
    let opened = progress::with("slices", |c| {
        study::open(&args.path, args.series.as_deref(), c)
    })?;
    for w in &opened.warnings {
        output::warn(&w.text);
    }
    if let Some(reason) = &opened.refusal {
        return Err(Failure::new(
            DATA,
            format!(
                "not written: {reason}; a volume file has one even step between slices and cannot say that this one has not: {}",
                args.path
            ),
        ));
    }
    if as_nifti {
        progress::writing("volume written", |c| {
            nifti::write_until(&opened.volume, &args.out, c)
        })?;
    } else {
        progress::writing("slices written", |c| {
            write_series(&opened.volume, &args.out, &SeriesText::default(), c)
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
