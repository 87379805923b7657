//! The result file of a run: its keys, written beside and renamed, and read back.

use super::beside::advice;
use crate::detect::{BoxSelector, Detection};
use crate::geometry::{Affine, Extent};
use crate::memory::Precision;
use crate::tiling::{AxesOrder, Blend, Exactness, Layout, PlanWarning, TilingPlan};
use crate::units::Bytes;
use crate::volume::Voxels;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use super::seam_record::{OutputMismatchRecord, SeamPlaneRecord, SeamRecord};

/// Version of the result file's keys.
pub const FORMAT: u32 = 2;

/// Everything that a run found out, as it stands in the result file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Version of these keys.
    #[serde(default)]
    pub format: u32,
    /// The study as it was named.
    pub study: String,
    /// Which series of it (`UID` or `UID#part`); `null` for a study that is one volume.
    pub series: Option<String>,
    /// Over the loaded volume's size and voxels: two results are of one volume where it is the same.
    #[serde(default)]
    pub volume_sha256: Option<String>,
    /// The network.
    pub network: NetworkRecord,
    /// The windows.
    pub plan: PlanRecord,
    /// What ran it: `cpu`, `cuda:0`.
    pub engine: String,
    /// How values were stored.
    pub precision: Precision,
    /// Windows that ran.
    pub n_windows: usize,
    /// Passes over them.
    pub n_passes: usize,
    /// Seconds from the first window to the last detection.
    pub seconds: f64,
    /// The arena.
    pub memory: MemoryRecord,
    /// The detections, best first.
    pub detections: Vec<Detection>,
    /// By which thresholds they were selected.
    #[serde(default)]
    pub box_selector: Option<BoxSelector>,
    /// Voxels of each label of a segmentation, by name.
    pub labels: BTreeMap<String, u64>,
    /// The labels' names in the order of their numbers, background first.
    #[serde(default)]
    pub label_names: Vec<String>,
    /// Where the label mask was written, if it was.
    #[serde(default)]
    pub labels_file: Option<PathBuf>,
    /// Where the stitched outputs were kept, in output order, if they were.
    #[serde(default)]
    pub kept_outputs: Vec<PathBuf>,
    /// Over the stitched outputs in output order, float32 little-endian, C order, without padding.
    pub outputs_sha256: Option<String>,
    /// What was forecast before the run.
    pub exactness: Exactness,
    /// Where the seams are.
    pub seams: SeamRecord,
    /// What was odd.
    pub warnings: Vec<PlanWarning>,
}

/// Which network ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRecord {
    /// Its name.
    pub name: String,
    /// Fingerprint of graph and weights.
    pub sha256: String,
    /// How it was opened, to open it again.
    #[serde(default)]
    pub source: Option<NetworkSource>,
}

/// What opened a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkSource {
    /// A file, a folder or `preset:NAME`.
    pub model: String,
    /// A manifest that does not lie beside it.
    #[serde(default)]
    pub manifest: Option<PathBuf>,
    /// Weights from elsewhere.
    #[serde(default)]
    pub weights: Option<String>,
    /// The configuration of an nnU-Net plan.
    #[serde(default)]
    pub configuration: Option<String>,
    /// The fold of an nnU-Net results folder.
    #[serde(default)]
    pub fold: Option<String>,
}

/// What was planned, enough to plan it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// Size of every window.
    pub roi_size: Extent,
    /// Share of the window per axis, as chosen; in the aligned layout as derived.
    pub overlap: [f64; 3],
    /// Importance map.
    pub blend: Blend,
    /// Placement rule.
    pub layout: Layout,
    /// Standard deviation of the Gaussian importance map as a share of the window.
    pub sigma_scale: f64,
    /// Windows per pass.
    pub batch: usize,
    /// Order of the network's axes.
    pub axes: AxesOrder,
    /// Size of the volume as loaded.
    pub loaded_volume: Extent,
    /// Size as prepared, without padding.
    pub prepared_volume: Extent,
    /// Size that windows lie in.
    pub padded_volume: Extent,
    /// Spacing of the prepared volume in mm.
    pub spacing_mm: [f64; 3],
    /// Voxel index of the loaded volume to patient space (LPS, mm).
    #[serde(default)]
    pub loaded_affine: Option<Affine>,
    /// Voxel index of the prepared volume to patient space (LPS, mm).
    #[serde(default)]
    pub prepared_affine: Option<Affine>,
    /// Window starts in the padded volume.
    pub starts: Starts,
}

/// Distinct starts per axis.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Starts {
    /// Along x.
    pub x: Vec<usize>,
    /// Along y.
    pub y: Vec<usize>,
    /// Along z.
    pub z: Vec<usize>,
}

impl From<[Vec<usize>; 3]> for Starts {
    fn from([x, y, z]: [Vec<usize>; 3]) -> Self {
        Self { x, y, z }
    }
}

/// The arena, planned beside what was there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryRecord {
    /// Bytes that the plan said.
    pub planned: Bytes,
    /// Bytes that the engine allocated.
    pub allocated: Bytes,
    /// The highest byte that a step used.
    pub measured_peak: Bytes,
    /// What running in tiles saved and cost; `None` when every map was whole.
    #[serde(default)]
    pub tiles: Option<TilesRecord>,
    /// Bytes of each step, planned beside counted by the engine while it ran.
    #[serde(default)]
    pub steps: Vec<StepRecord>,
    /// What the run took of the host; `None` where the system does not say.
    #[serde(default)]
    pub host: Option<HostRecord>,
}

/// Bytes in the arena while one step ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The step's name.
    pub node: String,
    /// As planned.
    pub planned: Bytes,
    /// As the engine counted.
    pub counted: Bytes,
}

/// The program's resident size, before a run and at its highest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Before the volume was prepared.
    pub before: Bytes,
    /// The highest that was seen.
    pub peak: Bytes,
    /// What the plan says that the run adds: arena, weights, prepared volume, stitched outputs and counts.
    pub planned: Bytes,
}

/// What running in tiles saved and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TilesRecord {
    /// The arena with every map whole.
    pub untiled: Bytes,
    /// Floating point operations done again, in percent of one pass.
    pub recompute_percent: f64,
}

impl PlanRecord {
    /// The record of a plan over a prepared volume.
    pub fn new(plan: &TilingPlan, volume: &VolumeRecord, sigma_scale: f64, batch: usize) -> Self {
        Self {
            roi_size: plan.roi,
            overlap: if plan.spec.layout == Layout::Aligned {
                plan.overlap_as_placed()
            } else {
                plan.spec.overlap
            },
            blend: plan.spec.blend,
            layout: plan.spec.layout,
            sigma_scale,
            batch,
            axes: plan.axes,
            loaded_volume: volume.loaded,
            prepared_volume: volume.prepared,
            padded_volume: plan.padded,
            spacing_mm: volume.spacing_mm,
            loaded_affine: Some(volume.loaded_affine),
            prepared_affine: Some(volume.prepared_affine),
            starts: plan.starts.clone().into(),
        }
    }
}

/// Sizes of the volume that a plan lies over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VolumeRecord {
    /// As loaded.
    pub loaded: Extent,
    /// As prepared, without padding.
    pub prepared: Extent,
    /// Spacing of the prepared volume in mm.
    pub spacing_mm: [f64; 3],
    /// Voxel index as loaded to patient space.
    pub loaded_affine: Affine,
    /// Voxel index as prepared to patient space.
    pub prepared_affine: Affine,
}

/// Why a result could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The disk is full, or the path cannot be written.
    #[error("cannot write {what} ({source}){}: {}", advice(source, "; nothing was left half-written: free space or choose a path that can be written"), path.display())]
    Write {
        /// What was being written.
        what: &'static str,
        /// The system's words.
        source: std::io::Error,
        /// Where to.
        path: PathBuf,
    },
    /// The file cannot be opened.
    #[error("cannot read the result ({source}); check the path: {}", path.display())]
    Read {
        /// The system's words.
        source: std::io::Error,
        /// The file.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("expected a result that voxfit run wrote, found {reason}; choose another file: {}", path.display())]
    NotAResult {
        /// What is wrong.
        reason: String,
        /// The file.
        path: PathBuf,
    },
    /// The file is from a later version.
    #[error("the result has format {found}, this Voxfit reads up to {FORMAT}; use a newer Voxfit or run again: {}", path.display())]
    Newer {
        /// The file's format.
        found: u32,
        /// The file.
        path: PathBuf,
    },
}

/// Writes `path` in one go, as [`super::beside::write_beside`] does; `what` names it in the sentence of a failure.
pub fn write_beside(
    what: &'static str,
    path: &Path,
    write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>,
) -> Result<(), ResultError> {
    super::beside::write_beside(path, write).map_err(|source| ResultError::Write {
        what,
        source,
        path: path.to_path_buf(),
    })
}

/// Whether `path` can be written at all, asked before minutes of work; leaves nothing behind.
pub fn check_writable(what: &'static str, path: &Path) -> Result<(), ResultError> {
    super::beside::check_writable(path).map_err(|source| ResultError::Write {
        what,
        source,
        path: path.to_path_buf(),
    })
}

impl RunResult {
    /// Writes the result file; a full disk leaves nothing half-written.
    pub fn write(&self, path: &Path) -> Result<(), ResultError> {
        write_beside("the result", path, |out| {
            serde_json::to_writer_pretty(&mut *out, self).map_err(std::io::Error::from)?;
            out.write_all(b"\n")
        })
    }

    /// Reads a result file.
    pub fn read(path: &Path) -> Result<Self, ResultError> {
        let bytes = std::fs::read(path).map_err(|source| ResultError::Read {
            source,
            path: path.to_path_buf(),
        })?;
        let result: Self = serde_json::from_slice(&bytes).map_err(|e| ResultError::NotAResult {
            reason: unreadable(&e, &bytes),
            path: path.to_path_buf(),
        })?;
        if result.format > FORMAT {
            return Err(ResultError::Newer {
                found: result.format,
                path: path.to_path_buf(),
            });
        }
        Ok(result)
    }
}

/// The reader's words, and what is behind them where a number is none: JSON has no NaN, which is written as null.
fn unreadable(e: &serde_json::Error, bytes: &[u8]) -> String {
    let says = e.to_string();
    let none =
        says.contains("invalid type: null, expected f") || bytes.windows(3).any(|w| w == b"NaN");
    if none {
        format!("a score or a box that is not a number ({says})")
    } else {
        says
    }
}

/// Hashes a volume for `volume_sha256`: its size, then its voxels as they lie in memory, little-endian.
pub fn volume_sha256(extent: Extent, voxels: &Voxels) -> String {
    let mut hash = Sha256::new();
    hash.update(extent.to_string().as_bytes());
    let mut bytes = Vec::with_capacity(1 << 17);
    match voxels {
        Voxels::I16(values) => {
            for chunk in values.chunks(1 << 16) {
                bytes.clear();
                bytes.extend(chunk.iter().flat_map(|v| v.to_le_bytes()));
                hash.update(&bytes);
            }
        }
        Voxels::F32(values) => {
            for chunk in values.chunks(1 << 15) {
                bytes.clear();
                bytes.extend(chunk.iter().flat_map(|v| v.to_le_bytes()));
                hash.update(&bytes);
            }
        }
    }
    hex::encode(hash.finalize())
}

/// Hashes outputs for `outputs_sha256`: float32 little-endian, in the order given, every NaN alike.
pub fn outputs_sha256<'a>(outputs: impl IntoIterator<Item = &'a [f32]>) -> String {
    let mut hash = Sha256::new();
    let mut bytes = Vec::with_capacity(1 << 16);
    for values in outputs {
        for chunk in values.chunks(1 << 14) {
            bytes.clear();
            for v in chunk {
                let v = if v.is_nan() { f32::NAN } else { *v };
                bytes.extend_from_slice(&v.to_le_bytes());
            }
            hash.update(&bytes);
        }
    }
    hex::encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Axis, BoxF};
    use crate::tiling::ExactnessVerdict;

    fn result() -> RunResult {
        RunResult {
            format: FORMAT,
            study: "phantom:64x64x32".to_owned(),
            series: None,
            volume_sha256: Some("cd".repeat(32)),
            network: NetworkRecord {
                name: "demo".to_owned(),
                sha256: "00".repeat(32),
                source: None,
            },
            plan: PlanRecord {
                roi_size: Extent::new(32, 32, 16),
                overlap: [0.25; 3],
                blend: Blend::Gaussian,
                layout: Layout::Monai,
                sigma_scale: 0.125,
                batch: 1,
                axes: AxesOrder::Xyz,
                loaded_volume: Extent::new(64, 64, 32),
                prepared_volume: Extent::new(64, 64, 32),
                padded_volume: Extent::new(64, 64, 32),
                spacing_mm: [0.7, 0.7, 1.25],
                loaded_affine: Some(Affine::axis_aligned([0.75, 0.75, 1.25])),
                prepared_affine: None,
                starts: [vec![0, 24, 32], vec![0, 24, 32], vec![0, 12, 16]].into(),
            },
            engine: "cpu".to_owned(),
            precision: Precision::Fp32,
            n_windows: 27,
            n_passes: 1,
            seconds: 0.5,
            memory: MemoryRecord::default(),
            detections: vec![Detection {
                label: "nodule".to_owned(),
                score: 0.75,
                box_in_volume: BoxF([1.0, 2.0, 3.0, 4.0, 5.0, 6.5]),
                center_in_patient: [0.1, -2.0, 30.0],
                size_mm: [2.1, 2.1, 4.375],
                window_idx: Some(3),
                seam_distance: Some(1.5),
            }],
            box_selector: Some(BoxSelector::default()),
            labels: BTreeMap::new(),
            label_names: Vec::new(),
            labels_file: None,
            kept_outputs: Vec::new(),
            outputs_sha256: Some("ab".repeat(32)),
            exactness: Exactness {
                verdict: ExactnessVerdict::Blended,
                halo_needed: [Some(8), Some(8), None],
                n_passes: 1,
                n_passes_exact: None,
                recompute: 0.7,
                reasons: vec!["because".to_owned()],
            },
            seams: SeamRecord {
                planes: vec![SeamPlaneRecord::at(Axis::Z, 12)],
                ..SeamRecord::default()
            },
            warnings: vec![PlanWarning::new("a-code", "A sentence.")],
        }
    }

    #[test]
    fn a_result_reads_back_as_it_was_written_under_the_agreed_keys() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        result().write(&path).unwrap();
        assert_eq!(RunResult::read(&path).unwrap(), result());
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for key in [
            "study",
            "series",
            "network",
            "plan",
            "engine",
            "precision",
            "n_windows",
            "n_passes",
            "seconds",
            "memory",
            "detections",
            "labels",
            "outputs_sha256",
            "exactness",
            "seams",
            "warnings",
        ] {
            assert!(json.get(key).is_some(), "{key}");
        }
        assert_eq!(json["exactness"]["verdict"], "blended");
        assert_eq!(json["exactness"]["halo_needed"][2], serde_json::Value::Null);
        assert_eq!(json["detections"][0]["box_in_volume"][5], 6.5);
        assert_eq!(json["precision"], "fp32");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_the_older_file_and_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        result().write(&path).unwrap();
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let said = write_beside("the result", &path, |out| {
            out.write_all(b"half")?;
            Err(full())
        })
        .unwrap_err()
        .to_string();
        assert!(said.starts_with("cannot write the result"), "{said}");
        assert_eq!(RunResult::read(&path).unwrap(), result());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_path_that_cannot_be_written_is_one_sentence_with_the_path_last() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("no/such/r.json");
        let said = check_writable("the result", &gone).unwrap_err().to_string();
        assert!(said.ends_with("r.json"), "{said}");
        assert!(check_writable("the result", dir.path()).is_err());
        assert!(check_writable("the result", &dir.path().join("r.json")).is_ok());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_is_no_result_or_too_new_is_said_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        std::fs::write(&path, "{}").unwrap();
        let said = RunResult::read(&path).unwrap_err().to_string();
        assert!(said.contains("missing field"), "{said}");
        let mut newer = result();
        newer.format = FORMAT + 1;
        newer.write(&path).unwrap();
        assert!(
            RunResult::read(&path)
                .unwrap_err()
                .to_string()
                .contains(&format!("format {}", FORMAT + 1))
        );
    }

    #[test]
    fn a_result_of_the_first_version_is_read_with_its_seams() {
        let mut json = serde_json::to_value(result()).unwrap();
        for key in [
            "volume_sha256",
            "box_selector",
            "label_names",
            "labels_file",
        ] {
            json.as_object_mut().unwrap().remove(key);
        }
        json["network"].as_object_mut().unwrap().remove("source");
        json["plan"]
            .as_object_mut()
            .unwrap()
            .remove("loaded_affine");
        json["seams"] = serde_json::json!({ "planes": { "x": [8, 16], "y": [], "z": [4] } });
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old.json");
        std::fs::write(&path, json.to_string()).unwrap();
        let old = RunResult::read(&path).unwrap();
        assert_eq!(old.seams.places(), [vec![8, 16], vec![], vec![4]]);
        assert_eq!((old.volume_sha256, old.seams.verdict), (None, None));
        json["detections"][0]["score"] = serde_json::Value::Null;
        std::fs::write(&path, json.to_string()).unwrap();
        let said = RunResult::read(&path).unwrap_err().to_string();
        assert!(said.contains("not a number"), "{said}");
    }

    #[test]
    fn every_nan_hashes_alike_and_order_counts() {
        let quiet = f32::from_bits(0x7fc0_0001);
        assert_eq!(
            outputs_sha256([&[quiet][..]]),
            outputs_sha256([&[f32::NAN][..]])
        );
        assert_ne!(
            outputs_sha256([&[1.0_f32][..], &[2.0][..]]),
            outputs_sha256([&[2.0_f32][..], &[1.0][..]])
        );
    }
}
