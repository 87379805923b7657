//! From a loaded volume to the network's input: orientation, spacing, intensity, zeros at the end.

use super::StudyError;
use crate::geometry::{Affine, Extent};
use crate::jobs::Control;
use crate::network::manifest::{Input, Intensity, Orientation};
use crate::units::Bytes;
use crate::volume::reorient::{self, reorient};
use crate::volume::resample::{resample, resampled_extent};
use crate::volume::{Volume, Voxels};
use rayon::prelude::*;
use std::borrow::Cow;

/// Size of the prepared volume, known without touching a voxel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PreparedSize {
    /// After orientation and spacing.
    pub extent: Extent,
    /// After zeros at the end: what windows are planned on.
    pub padded: Extent,
    /// Spacing in mm.
    pub spacing_mm: [f64; 3],
}

/// The volume as the network sees it.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// `padded.voxels()` values in `[k][j][i]` order, zeros beyond `extent`.
    pub values: Vec<f32>,
    /// Size before zeros at the end.
    pub extent: Extent,
    /// Size of `values`.
    pub padded: Extent,
    /// Voxel index to patient space (LPS, mm).
    pub affine: Affine,
}

fn padded(extent: Extent, input: &Input, total_stride: [usize; 3]) -> Extent {
    let multiple = input.divisible_by.unwrap_or(total_stride);
    extent.zip(multiple.into(), |n, m| n.next_multiple_of(m.max(1)))
}

fn wanted(input: &Input) -> Result<Option<reorient::Orientation>, StudyError> {
    match input.orientation {
        Orientation::AsStored => Ok(None),
        Orientation::Towards(_) => {
            let text = String::from(input.orientation);
            let parsed = text.parse::<reorient::Orientation>();
            parsed.map(Some).map_err(|e| StudyError::Orientation {
                reason: e.to_string(),
            })
        }
    }
}

/// The size that a volume will have once prepared: from its size and spacing alone, in its own orientation.
pub fn prepared_size(
    loaded: Extent,
    spacing_mm: Option<[f64; 3]>,
    input: &Input,
    total_stride: [usize; 3],
) -> PreparedSize {
    let (extent, spacing) = match (spacing_mm, input.spacing_mm) {
        (Some(from), Some(to)) => (resampled_extent(loaded, from, to), to),
        (Some(from), None) => (loaded, from),
        (None, to) => (loaded, to.unwrap_or([1.0; 3])),
    };
    PreparedSize {
        extent,
        padded: padded(extent, input, total_stride),
        spacing_mm: spacing,
    }
}

/// The size that this very volume will have once prepared, its orientation turned first.
pub fn prepared_size_of(
    volume: &Volume,
    input: &Input,
    total_stride: [usize; 3],
) -> Result<PreparedSize, StudyError> {
    let (mut extent, mut spacing) = (volume.extent, volume.affine.spacing_mm());
    if let Some(wanted) = wanted(input)? {
        // One voxel is enough to see where the axes go.
        let one = Volume {
            extent: Extent::cube(1),
            voxels: Voxels::I16(vec![0]),
            affine: volume.affine,
            padding: None,
            is_hu: volume.is_hu,
            z_spacing_known: volume.z_spacing_known,
        };
        let turned = reorient(&one, wanted).affine;
        let from = source_axes(&volume.affine, &turned);
        extent = from.map(|a| volume.extent.to_array()[a]).into();
        spacing = from.map(|a| spacing[a]);
    }
    Ok(prepared_size(extent, Some(spacing), input, total_stride))
}

/// For each axis of `turned` the axis of `own` that runs along it.
fn source_axes(own: &Affine, turned: &Affine) -> [usize; 3] {
    let (a, b) = (own.directions(), turned.directions());
    let along =
        |t: usize, o: usize| -> f64 { (0..3).map(|r| b[t][r] * a[o][r]).sum::<f64>().abs() };
    std::array::from_fn(|t| {
        (0..3)
            .max_by(|&p, &q| along(t, p).total_cmp(&along(t, q)))
            .unwrap_or(t)
    })
}

/// Prepares a volume as a manifest says.
pub fn prepare(
    volume: &Volume,
    input: &Input,
    total_stride: [usize; 3],
    control: &Control,
) -> Result<Prepared, StudyError> {
    if let Some([_, _, z]) = input.spacing_mm
        && !volume.z_spacing_known
    {
        return Err(StudyError::SpacingUnknown { wanted_mm: z });
    }
    let mut now = Cow::Borrowed(volume);
    if let Some(wanted) = wanted(input)? {
        now = Cow::Owned(reorient(&now, wanted));
        control.check()?;
    }
    if let Some(mm) = input.spacing_mm {
        now = Cow::Owned(resample(&now, mm)?);
        control.check()?;
    }
    let padded = padded(now.extent, input, total_stride);
    let values = fill(&now, padded, input.intensity)?;
    Ok(Prepared {
        values,
        extent: now.extent,
        padded,
        affine: now.affine,
    })
}

fn fill(volume: &Volume, padded: Extent, intensity: Intensity) -> Result<Vec<f32>, StudyError> {
    let n = padded.checked_voxels().unwrap_or(usize::MAX / 8);
    let mut values = Vec::new();
    values
        .try_reserve_exact(n)
        .map_err(|_no_room| StudyError::HostMemory {
            what: "the prepared volume",
            needed: Bytes((n as u64).saturating_mul(4)),
        })?;
    values.resize(n, 0.0_f32);
    let (e, map) = (volume.extent, Scale::new(intensity));
    values
        .par_chunks_exact_mut((padded.x * padded.y).max(1))
        .take(e.z)
        .enumerate()
        .for_each(|(k, plane)| {
            for (j, row) in plane.chunks_exact_mut(padded.x).take(e.y).enumerate() {
                let at = (k * e.y + j) * e.x;
                let row = &mut row[..e.x];
                match &volume.voxels {
                    Voxels::I16(v) => {
                        for (out, &hu) in row.iter_mut().zip(&v[at..at + e.x]) {
                            *out = map.apply(f32::from(hu));
                        }
                    }
                    Voxels::F32(v) => {
                        for (out, &hu) in row.iter_mut().zip(&v[at..at + e.x]) {
                            *out = map.apply(hu);
                        }
                    }
                }
            }
        });
    Ok(values)
}

/// An intensity rule in float32, step by step as MONAI and nnU-Net apply theirs.
#[derive(Clone, Copy, Debug)]
enum Scale {
    None,
    Range {
        from: [f32; 2],
        to: [f32; 2],
        clip: bool,
    },
    ZScore {
        mean: f32,
        std: f32,
        clip: Option<[f32; 2]>,
    },
}

impl Scale {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the peers scale in float32"
    )]
    fn new(intensity: Intensity) -> Self {
        let single = |p: [f64; 2]| p.map(|v| v as f32);
        match intensity {
            Intensity::None => Self::None,
            Intensity::ScaleRange { from, to, clip } => Self::Range {
                from: single(from),
                to: single(to),
                clip,
            },
            Intensity::ZScore { mean, std, clip } => Self::ZScore {
                mean: mean as f32,
                std: std as f32,
                clip: clip.map(single),
            },
        }
    }

    fn apply(self, hu: f32) -> f32 {
        match self {
            Self::None => hu,
            Self::Range {
                from: [a, b],
                to: [lo, hi],
                clip,
            } => {
                let scaled = (hu - a) / (b - a) * (hi - lo) + lo;
                if clip {
                    scaled.clamp(lo.min(hi), lo.max(hi))
                } else {
                    scaled
                }
            }
            Self::ZScore { mean, std, clip } => {
                let held = clip.map_or(hu, |[lo, hi]| hu.clamp(lo, hi));
                (held - mean) / std
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(extent: Extent, spacing: [f64; 3]) -> Volume {
        let values = (0..i16::try_from(extent.voxels()).unwrap()).collect();
        Volume {
            extent,
            affine: Affine::axis_aligned(spacing),
            voxels: Voxels::I16(values),
            padding: None,
            is_hu: true,
            z_spacing_known: true,
        }
    }

    #[test]
    fn zeros_stand_at_the_end_and_hu_become_the_range() {
        let input = Input {
            intensity: Intensity::ScaleRange {
                from: [0.0, 20.0],
                to: [1.0, 2.0],
                clip: true,
            },
            ..Input::default()
        };
        let v = volume(Extent::new(3, 2, 5), [1.0; 3]);
        let p = prepare(&v, &input, [4, 2, 4], &Control::new()).unwrap();
        assert_eq!((p.extent, p.padded), (v.extent, Extent::new(4, 2, 8)));
        assert_eq!(p.values[..4], [1.0, 1.05, 1.1, 0.0]);
        assert_eq!(p.values[4 * 8], 2.0, "30 and more stop at the end");
        assert!(p.values[5 * 8..].iter().all(|&v| v == 0.0));
    }

    #[test]
    fn the_size_is_known_before_a_voxel_is_touched() {
        let input = Input {
            orientation: Orientation::Towards(['S', 'R', 'A']),
            spacing_mm: Some([1.0, 0.5, 0.7]),
            divisible_by: Some([4, 4, 4]),
            ..Input::default()
        };
        let v = volume(Extent::new(7, 9, 11), [0.8, 0.9, 2.5]);
        let said = prepared_size_of(&v, &input, [1; 3]).unwrap();
        let p = prepare(&v, &input, [1; 3], &Control::new()).unwrap();
        assert_eq!((said.extent, said.padded), (p.extent, p.padded));
        assert_eq!(said.extent.x, 26, "z came first: 10 steps of 2.5 mm");
        for (a, b) in said.spacing_mm.iter().zip(p.affine.spacing_mm()) {
            assert!((a - b).abs() < 1e-9);
        }
    }

    #[test]
    fn a_network_with_a_spacing_refuses_a_study_without_one() {
        let input = Input {
            spacing_mm: Some([1.0; 3]),
            ..Input::default()
        };
        let mut v = volume(Extent::cube(4), [1.0; 3]);
        v.z_spacing_known = false;
        let said = prepare(&v, &input, [1; 3], &Control::new())
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("does not say how far its slices are apart"),
            "{said}"
        );
    }
}
