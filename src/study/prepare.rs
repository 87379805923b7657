//! From a loaded volume to the network's input: orientation, spacing, intensity, zeros at the end.

use super::StudyError;
use crate::geometry::{Affine, Extent};
use crate::jobs::Control;
use crate::network::manifest::{Input, Intensity, Orientation};
use crate::units::Bytes;
use crate::volume::reorient::{self, reorient};
use crate::volume::resample::{resample, resampled_extent};
use crate::volume::{Volume, Voxels, is_padding};
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
    let (e, map) = (volume.extent, Scale::of(volume, intensity));
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
    /// (value - mean) / std, then a line; zero stays zero before the line when `nonzero`, padding is the least value.
    Image {
        mean: f32,
        std: f32,
        nonzero: bool,
        line: Option<[f32; 2]>,
        padding: Option<(f32, f32)>,
        least: f32,
    },
}

/// Sums over a volume: in each slice from the first voxel on, then slice by slice, so that threads do not show.
fn sums(volume: &Volume, of: impl Fn(f64) -> Option<f64> + Sync) -> (f64, f64) {
    let e = volume.extent;
    let n = (e.x * e.y).max(1);
    let add = |slice: &mut dyn Iterator<Item = f64>| {
        slice
            .filter_map(&of)
            .fold((0.0, 0.0), |(n, s), v| (n + 1.0, s + v))
    };
    let slices: Vec<(f64, f64)> = match &volume.voxels {
        Voxels::I16(v) => v
            .par_chunks(n)
            .map(|c| add(&mut c.iter().map(|x| f64::from(*x))))
            .collect(),
        Voxels::F32(v) => v
            .par_chunks(n)
            .map(|c| add(&mut c.iter().map(|x| f64::from(*x))))
            .collect(),
    };
    slices
        .into_iter()
        .fold((0.0, 0.0), |(n, s), (m, t)| (n + m, s + t))
}

/// The least and the largest value; 0 and 0 where there is none.
fn ends(volume: &Volume, of: impl Fn(f64) -> Option<f64>) -> (f64, f64) {
    let fold = |(l, h): (f64, f64), v: f64| (l.min(v), h.max(v));
    let none = (f64::INFINITY, f64::NEG_INFINITY);
    let found = match &volume.voxels {
        Voxels::I16(v) => v.iter().filter_map(|x| of((*x).into())).fold(none, fold),
        Voxels::F32(v) => v.iter().filter_map(|x| of((*x).into())).fold(none, fold),
    };
    if found.0 <= found.1 {
        found
    } else {
        (0.0, 0.0)
    }
}

impl Scale {
    /// A rule that depends on the volume's own values, worked out for it; any other as it is.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the peers scale in float32"
    )]
    fn of(volume: &Volume, intensity: Intensity) -> Self {
        // What stands for no data, or is no number, is no part of the volume's own values.
        let kept = |v: f64| v.is_finite() && !is_padding(v, volume.padding);
        match intensity {
            Intensity::RescaleImage { to: [lo, hi] } => {
                let (least, largest) = ends(volume, |v| kept(v).then_some(v));
                let span = (largest - least).max(1e-8);
                Self::Image {
                    mean: least as f32,
                    std: span as f32,
                    nonzero: false,
                    line: Some([lo, hi - lo].map(|v| v as f32)),
                    padding: volume.padding,
                    least: least as f32,
                }
            }
            Intensity::ZScoreImage { nonzero, rescale } => {
                let counted = |v: f64| kept(v) && !(nonzero && v == 0.0);
                let (n, sum) = sums(volume, |v| counted(v).then_some(v));
                let mean = if n > 0.0 { sum / n } else { 0.0 };
                let (_, squares) = sums(volume, |v| counted(v).then(|| (v - mean).powi(2)));
                let deviation = if n > 0.0 { (squares / n).sqrt() } else { 0.0 };
                let std = if deviation > 0.0 { deviation } else { 1.0 };
                let score = |v: f64| if counted(v) { (v - mean) / std } else { 0.0 };
                let line = rescale.map(|[lo, hi]| {
                    let (low, high) = ends(volume, |v| kept(v).then(|| score(v)));
                    let factor = (hi - lo) / (high - low).max(1e-8);
                    [lo - low * factor, factor].map(|v| v as f32)
                });
                Self::Image {
                    mean: mean as f32,
                    std: std as f32,
                    nonzero,
                    line,
                    padding: volume.padding,
                    // Only padding is given it.
                    least: volume
                        .padding
                        .map_or(0.0, |_| ends(volume, |v| kept(v).then_some(v)).0 as f32),
                }
            }
            fixed => Self::new(fixed),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the peers scale in float32"
    )]
    fn new(intensity: Intensity) -> Self {
        let single = |p: [f64; 2]| p.map(|v| v as f32);
        match intensity {
            Intensity::None | Intensity::ZScoreImage { .. } | Intensity::RescaleImage { .. } => {
                Self::None
            }
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
            Self::Image {
                mean,
                std,
                nonzero,
                line,
                padding,
                least,
            } => {
                let value = if is_padding(hu.into(), padding) {
                    least
                } else {
                    hu
                };
                let score = if nonzero && value == 0.0 {
                    0.0
                } else {
                    (value - mean) / std
                };
                line.map_or(score, |[shift, factor]| score * factor + shift)
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
    fn a_volume_scaled_by_its_own_values_has_mean_0_and_deviation_1_and_keeps_its_zeros() {
        let mut v = volume(Extent::new(4, 2, 3), [1.0; 3]);
        let with = |v: &Volume, intensity| {
            let input = Input {
                intensity,
                ..Input::default()
            };
            prepare(v, &input, [1; 3], &Control::new()).unwrap().values
        };
        let plain = Intensity::ZScoreImage {
            nonzero: false,
            rescale: None,
        };
        let values = with(&v, plain);
        let n = values.len() as f32;
        let mean = values.iter().sum::<f32>() / n;
        let var = values.iter().map(|x| x * x).sum::<f32>() / n;
        assert!(
            mean.abs() < 1e-6 && (var - 1.0).abs() < 1e-5,
            "{mean} {var}"
        );
        // 0 to 23: mean of 1 to 23 is 12.
        let values = with(
            &v,
            Intensity::ZScoreImage {
                nonzero: true,
                rescale: None,
            },
        );
        assert_eq!((values[0], values[12]), (0.0, 0.0));
        assert!(values[1] < -1.0 && values[23] > 1.0);
        let ends = |values: &[f32]| (values[0], *values.last().unwrap());
        let values = with(&v, Intensity::RescaleImage { to: [-1.0, 1.0] });
        assert_eq!(ends(&values), (-1.0, 1.0));
        let values = with(
            &v,
            Intensity::ZScoreImage {
                nonzero: true,
                rescale: Some([-1.0, 1.0]),
            },
        );
        assert!(
            (values[1] + 1.0).abs() < 1e-5 && (values[23] - 1.0).abs() < 1e-5,
            "{values:?}"
        );
        v.voxels = Voxels::I16(vec![7; 24]);
        assert!(with(&v, plain).iter().all(|x| *x == 0.0), "a flat volume");
    }

    #[test]
    fn padding_is_no_part_of_a_volumes_own_values() {
        let mut v = volume(Extent::new(4, 2, 1), [1.0; 3]);
        v.voxels = Voxels::I16(vec![-2000, -2000, 1, 3, 1, 3, 1, 3]);
        v.padding = Some((-2000.0, -2000.0));
        let with = |v: &Volume, intensity| {
            let input = Input {
                intensity,
                ..Input::default()
            };
            prepare(v, &input, [1; 3], &Control::new()).unwrap().values
        };
        let score = |nonzero, rescale| Intensity::ZScoreImage { nonzero, rescale };
        let to_one = [-1.0, -1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0];
        assert_eq!(with(&v, score(false, None)), to_one);
        assert_eq!(with(&v, score(true, None)), to_one);
        assert_eq!(with(&v, score(false, Some([-1.0, 1.0]))), to_one);
        let rescaled = with(&v, Intensity::RescaleImage { to: [-1.0, 1.0] });
        assert_eq!(rescaled, to_one, "padding is as the least value");
        v.voxels = Voxels::I16(vec![-2000; 8]);
        assert!(with(&v, score(false, None)).iter().all(|x| *x == 0.0));
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
