//! Writes a volume as a CT series: one explicit little-endian file for each slice, so that any viewer opens it.

use super::volume_file::VolumeFileError;
use crate::jobs::Control;
use crate::volume::{Volume, Voxels};
use dicom_core::value::PrimitiveValue;
use dicom_core::{DataElement, Tag, VR};
use dicom_dictionary_std::{tags, uids};
use dicom_object::meta::FileMetaTableBuilder;
use dicom_object::{FileDicomObject, InMemDicomObject};
use sha2::Digest as _;
use std::path::{Path, PathBuf};

/// Text of the written series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesText {
    /// Patient name, `Family^Given`.
    pub patient_name: String,
    /// Patient ID.
    pub patient_id: String,
    /// Series description.
    pub description: String,
}

impl Default for SeriesText {
    fn default() -> Self {
        Self {
            patient_name: "Voxfit^Phantom".to_owned(),
            patient_id: "VOXFIT".to_owned(),
            description: "Generated phantom".to_owned(),
        }
    }
}

/// Writes one file for each slice (`IM0001.dcm`...) into `folder`, which is made where it is missing and must be empty. The same volume and text
/// give the same bytes. The files are written into a folder beside and moved when all are there.
pub fn write_series(
    volume: &Volume,
    folder: &Path,
    text: &SeriesText,
    control: &Control,
) -> Result<Vec<PathBuf>, VolumeFileError> {
    let Voxels::I16(values) = &volume.voxels else {
        return Err(VolumeFileError::format(
            folder,
            "expected whole HU that fit int16, found fractional values; write NIfTI instead",
        ));
    };
    let (columns, rows) = (
        axis(volume.extent.x, folder)?,
        axis(volume.extent.y, folder)?,
    );
    let failed = || VolumeFileError::write(folder);
    std::fs::create_dir_all(folder).map_err(failed())?;
    refuse_full(folder)?;
    let beside = tempfile::Builder::new()
        .prefix(".voxfit-")
        .tempdir_in(folder)
        .map_err(failed())?;
    let series = Series {
        volume,
        text,
        columns,
        rows,
        root: identity(volume, values, text),
        // Air is -1024 on most scanners; anything lower needs signed words.
        intercept: if values.iter().all(|&v| v >= -1024) {
            -1024
        } else {
            0
        },
    };
    let per_slice = volume.extent.x * volume.extent.y;
    control.set_total(volume.extent.z as u64);
    let mut names = Vec::new();
    for (k, slice) in values.chunks_exact(per_slice.max(1)).enumerate() {
        control.check()?;
        let name = format!("IM{:04}.dcm", k + 1);
        series
            .file(k, slice)
            .and_then(|object| {
                object
                    .write_to_file(beside.path().join(&name))
                    .map_err(|e| e.to_string())
            })
            .map_err(|reason| VolumeFileError::Write {
                path: folder.to_owned(),
                source: std::io::Error::other(reason),
            })?;
        names.push(name);
        control.advance(1);
    }
    let mut out = Vec::new();
    for name in names {
        let place = folder.join(&name);
        std::fs::rename(beside.path().join(&name), &place).map_err(failed())?;
        out.push(place);
    }
    Ok(out)
}

/// Slices among other files would overwrite them or become part of another series.
fn refuse_full(folder: &Path) -> Result<(), VolumeFileError> {
    let there = std::fs::read_dir(folder)
        .map_err(VolumeFileError::write(folder))?
        .count();
    if there == 0 {
        return Ok(());
    }
    Err(VolumeFileError::Write {
        path: folder.to_owned(),
        source: std::io::Error::other(format!(
            "expected a new or empty folder, found {there} file(s) in it that the slices would overwrite or mix with; name another folder"
        )),
    })
}

fn axis(n: usize, folder: &Path) -> Result<u16, VolumeFileError> {
    u16::try_from(n).map_err(|_large| {
        VolumeFileError::format(
            folder,
            format!("an axis of {n} voxels, but DICOM holds at most 65535"),
        )
    })
}

/// A number that stands for this volume and text.
fn identity(volume: &Volume, values: &[i16], text: &SeriesText) -> u128 {
    let mut hash = sha2::Sha256::new();
    hash.update(format!("{:?} {:?} {text:?}", volume.extent, volume.affine));
    for chunk in values.chunks(1 << 15) {
        let bytes: Vec<u8> = chunk.iter().flat_map(|v| v.to_le_bytes()).collect();
        hash.update(bytes);
    }
    let digest = hash.finalize();
    digest
        .iter()
        .take(16)
        .fold(0u128, |n, &b| (n << 8) | u128::from(b))
}

/// A decimal string of at most 16 characters.
fn decimal(v: f64) -> String {
    let v = if v == 0.0 { 0.0 } else { v };
    let plain = v.to_string();
    if plain.len() <= 16 {
        return plain;
    }
    let fixed = (0..=12)
        .rev()
        .map(|places| format!("{v:.places$}"))
        .find(|t| t.len() <= 16 && v.abs() > 1e-6);
    fixed.unwrap_or_else(|| format!("{v:.8e}"))
}

fn decimals(values: &[f64]) -> PrimitiveValue {
    PrimitiveValue::Strs(values.iter().map(|&v| decimal(v)).collect())
}

struct Series<'a> {
    volume: &'a Volume,
    text: &'a SeriesText,
    columns: u16,
    rows: u16,
    root: u128,
    intercept: i32,
}

impl Series<'_> {
    /// A UID under 2.25 (from a 128-bit number), different for each use.
    fn uid(&self, salt: u128) -> String {
        format!("2.25.{}", self.root.wrapping_add(salt))
    }

    fn file(&self, k: usize, slice: &[i16]) -> Result<FileDicomObject<InMemDicomObject>, String> {
        let sop = self.uid(1000 + k as u128);
        let mut object = InMemDicomObject::new_empty();
        self.put_text(&mut object, &sop, k);
        self.put_geometry(&mut object, k);
        self.put_pixels(&mut object, slice);
        object
            .with_meta(
                FileMetaTableBuilder::new()
                    .transfer_syntax(uids::EXPLICIT_VR_LITTLE_ENDIAN)
                    .media_storage_sop_class_uid(uids::CT_IMAGE_STORAGE)
                    .media_storage_sop_instance_uid(sop),
            )
            .map_err(|e| e.to_string())
    }

    fn put_text(&self, object: &mut InMemDicomObject, sop: &str, k: usize) {
        let number = (k + 1).to_string();
        let study = self.uid(1);
        let series = self.uid(2);
        let frame = self.uid(3);
        let texts: [(Tag, VR, &str); 24] = [
            (tags::SPECIFIC_CHARACTER_SET, VR::CS, "ISO_IR 192"),
            (tags::IMAGE_TYPE, VR::CS, "DERIVED\\PRIMARY\\AXIAL"),
            (tags::SOP_CLASS_UID, VR::UI, uids::CT_IMAGE_STORAGE),
            (tags::SOP_INSTANCE_UID, VR::UI, sop),
            (tags::STUDY_DATE, VR::DA, ""),
            (tags::STUDY_TIME, VR::TM, ""),
            (tags::ACCESSION_NUMBER, VR::SH, ""),
            (tags::MODALITY, VR::CS, "CT"),
            (tags::MANUFACTURER, VR::LO, "Voxfit"),
            (tags::REFERRING_PHYSICIAN_NAME, VR::PN, ""),
            (tags::SERIES_DESCRIPTION, VR::LO, &self.text.description),
            (tags::PATIENT_NAME, VR::PN, &self.text.patient_name),
            (tags::PATIENT_ID, VR::LO, &self.text.patient_id),
            (tags::PATIENT_BIRTH_DATE, VR::DA, ""),
            (tags::PATIENT_SEX, VR::CS, ""),
            (tags::KVP, VR::DS, ""),
            (tags::PATIENT_POSITION, VR::CS, "HFS"),
            (tags::STUDY_INSTANCE_UID, VR::UI, &study),
            (tags::SERIES_INSTANCE_UID, VR::UI, &series),
            (tags::STUDY_ID, VR::SH, "1"),
            (tags::SERIES_NUMBER, VR::IS, "1"),
            (tags::ACQUISITION_NUMBER, VR::IS, "1"),
            (tags::INSTANCE_NUMBER, VR::IS, &number),
            (tags::FRAME_OF_REFERENCE_UID, VR::UI, &frame),
        ];
        for (tag, vr, value) in texts {
            object.put(DataElement::new(tag, vr, PrimitiveValue::from(value)));
        }
        object.put(DataElement::new(
            tags::POSITION_REFERENCE_INDICATOR,
            VR::LO,
            PrimitiveValue::from(""),
        ));
    }

    fn put_geometry(&self, object: &mut InMemDicomObject, k: usize) {
        let affine = &self.volume.affine;
        let [x, y, z] = affine.spacing_mm();
        let [row, column, _] = affine.directions();
        let position = affine.to_patient([0.0, 0.0, k as f64]);
        let mut put = |tag, values: &[f64]| {
            object.put(DataElement::new(tag, VR::DS, decimals(values)));
        };
        put(tags::IMAGE_POSITION_PATIENT, &position);
        put(tags::IMAGE_ORIENTATION_PATIENT, &[row, column].concat());
        // Row spacing (y) comes first.
        put(tags::PIXEL_SPACING, &[y, x]);
        put(tags::SLICE_THICKNESS, &[z]);
    }

    fn put_pixels(&self, object: &mut InMemDicomObject, slice: &[i16]) {
        let signed = self.intercept == 0;
        let numbers: [(Tag, u16); 7] = [
            (tags::SAMPLES_PER_PIXEL, 1),
            (tags::ROWS, self.rows),
            (tags::COLUMNS, self.columns),
            (tags::BITS_ALLOCATED, 16),
            (tags::BITS_STORED, 16),
            (tags::HIGH_BIT, 15),
            (tags::PIXEL_REPRESENTATION, u16::from(signed)),
        ];
        for (tag, value) in numbers {
            object.put(DataElement::new(tag, VR::US, PrimitiveValue::from(value)));
        }
        object.put(DataElement::new(
            tags::PHOTOMETRIC_INTERPRETATION,
            VR::CS,
            PrimitiveValue::from("MONOCHROME2"),
        ));
        let texts = [
            (tags::WINDOW_CENTER, VR::DS, "40".to_owned()),
            (tags::WINDOW_WIDTH, VR::DS, "400".to_owned()),
            (tags::RESCALE_INTERCEPT, VR::DS, self.intercept.to_string()),
            (tags::RESCALE_SLOPE, VR::DS, "1".to_owned()),
            (tags::RESCALE_TYPE, VR::LO, "HU".to_owned()),
        ];
        for (tag, vr, value) in texts {
            object.put(DataElement::new(tag, vr, PrimitiveValue::from(value)));
        }
        let words = slice.iter().map(|&v| self.stored(v)).collect();
        object.put(DataElement::new(
            tags::PIXEL_DATA,
            VR::OW,
            PrimitiveValue::U16(words),
        ));
    }

    /// The word that a value is stored as: HU and intercept are such that it always fits.
    fn stored(&self, hu: i16) -> u16 {
        let word = (i32::from(hu) - self.intercept).rem_euclid(65536);
        u16::try_from(word).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Affine, Extent};
    use crate::series::{load, scan};

    fn volume(values: Vec<i16>, affine: Affine) -> Volume {
        Volume {
            extent: Extent::new(5, 4, 3),
            affine,
            voxels: Voxels::I16(values),
            padding: None,
            is_hu: true,
            z_spacing_known: true,
        }
    }

    fn tilted() -> Affine {
        let (s, c) = 0.25f64.sin_cos();
        Affine {
            step: [[0.7, 0.0, 0.0], [0.0, 0.8 * c, 0.8 * s], [0.0, 0.0, 2.5]],
            origin: [-100.123_456, 20.0, 1736.25],
        }
    }

    #[test]
    fn a_written_series_reads_back_with_its_values_and_its_tilt() {
        for low in [-1024i16, -3000] {
            let values: Vec<i16> = (0..60).map(|v| low + v * 37).collect();
            let want = volume(values, tilted());
            let folder = tempfile::tempdir().unwrap();
            let place = folder.path().join("series");
            let control = Control::new();
            let files = write_series(&want, &place, &SeriesText::default(), &control).unwrap();
            assert_eq!(files.len(), 3);
            assert_eq!(std::fs::read_dir(&place).unwrap().count(), 3);
            let scan = scan(&place, &control).unwrap();
            let info = scan.best().unwrap();
            assert!(info.usable, "{:?}", info.warnings);
            let got = load(info, &control, &|_| {}).unwrap();
            assert_eq!(got.volume.voxels, want.voxels);
            for axis in 0..3 {
                for r in 0..3 {
                    let (a, b) = (got.volume.affine.step[axis][r], want.affine.step[axis][r]);
                    assert!((a - b).abs() < 1e-6, "{:?}", got.volume.affine);
                }
            }
            assert_eq!(info.patient_name.as_deref(), Some("Voxfit^Phantom"));
        }
    }

    #[test]
    fn slices_written_into_a_folder_with_files_overwrite_and_mix_with_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("IM0001.dcm");
        std::fs::write(&there, b"a patient's slice").unwrap();
        let v = volume(vec![0; 60], tilted());
        let text = SeriesText::default();
        let error = write_series(&v, folder.path(), &text, &Control::new()).unwrap_err();
        assert!(error.to_string().contains("empty folder"), "{error}");
        assert_eq!(std::fs::read(&there).unwrap(), b"a patient's slice");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_same_volume_gives_the_same_bytes() {
        let v = volume(vec![0; 60], tilted());
        let folder = tempfile::tempdir().unwrap();
        let bytes = |name: &str| {
            let place = folder.path().join(name);
            let files = write_series(&v, &place, &SeriesText::default(), &Control::new()).unwrap();
            files
                .iter()
                .map(|f| std::fs::read(f).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(bytes("a"), bytes("b"));
    }

    #[test]
    fn decimals_fit_sixteen_characters() {
        for v in [0.0, -0.0, -100.123_456_789_012_34, 1e-9, -1.0 / 3.0, 736.21] {
            let text = decimal(v);
            assert!(text.len() <= 16, "{text}");
            assert!((text.parse::<f64>().unwrap() - v).abs() < 1e-9 * v.abs().max(1.0));
        }
    }
}
