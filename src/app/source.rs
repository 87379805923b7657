//! What jobs do with studies: look through files, decode a series slice by slice, make thumbnails.

use super::document::SeriesRef;
use super::study::{FreshSlice, SeriesItem, Thumbnail, Warning};
use super::work::{News, Outbox};
use crate::exchange::{metaimage, nifti};
use crate::geometry::{Affine, Extent};
use crate::jobs::{Cancelled, Control};
use crate::series::{self, SeriesInfo, SliceValues};
use crate::study::{self, Opened, StudyKind};
use crate::tiling::PlanWarning;
use crate::volume::straight::StraightGrid;
use crate::volume::{SharedVolume, Statistics, Volume, Voxels, WindowLevel, sampler};
use std::path::Path;
use std::sync::Arc;

/// A series as it can be loaded.
#[derive(Clone, Debug)]
pub(super) enum SeriesSource {
    /// From files that were looked through.
    Dicom(Box<SeriesInfo>),
    /// A volume file or a generated study, already in memory.
    Whole(Arc<Opened>),
}

impl SeriesSource {
    /// Size and affine on a straight grid, where one can be made.
    pub(super) fn straight_size(&self) -> Option<(Extent, Affine)> {
        match self {
            Self::Dicom(info) => study::straight_size(info),
            Self::Whole(opened) => {
                let v = &opened.volume;
                let grid = StraightGrid::of(v.extent, &v.affine, None).ok()?;
                Some((grid.extent, grid.affine))
            }
        }
    }
}

/// What was found by looking through a study.
#[derive(Clone, Debug)]
pub(super) struct Scanned {
    pub(super) items: Vec<(SeriesItem, SeriesSource, Affine)>,
    pub(super) skipped: Vec<(String, String)>,
    /// The place of the series to load first.
    pub(super) best: usize,
}

/// A finished load.
#[derive(Debug)]
pub(super) struct LoadedSeries {
    pub(super) opened: Arc<Opened>,
    pub(super) range: Option<(f32, f32)>,
    pub(super) own_window_level: Option<WindowLevel>,
    pub(super) warnings: Vec<Warning>,
    pub(super) thumbnail: Option<Arc<Thumbnail>>,
}

/// Whether a name is that of a file that holds one whole volume.
pub fn is_volume_file(source: &str) -> bool {
    let path = Path::new(source);
    nifti::is_nifti_input(path)
        || metaimage::is_metaimage(path)
        || path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("npy"))
}

/// A name that says nothing about the patient: the same for the same text.
pub fn masked_subject(identity: &str) -> String {
    use sha2::Digest as _;
    let hash = hex::encode_upper(sha2::Sha256::digest(identity.as_bytes()));
    format!("Subject {}", hash.get(..4).unwrap_or("0000"))
}

/// Looks through a study; an error is one sentence.
pub(super) fn scan(source: &str, control: &Control) -> Result<Scanned, String> {
    if source.starts_with("phantom:") || is_volume_file(source) {
        let opened = study::open(source, None, control).map_err(|e| e.to_string())?;
        return Ok(whole(source, opened));
    }
    let scan = series::scan(Path::new(source), control).map_err(|e| e.to_string())?;
    let best = scan
        .best()
        .and_then(|b| {
            scan.series
                .iter()
                .position(|s| s.uid == b.uid && s.part == b.part)
        })
        .unwrap_or(0);
    Ok(Scanned {
        best,
        skipped: scan
            .skipped
            .into_iter()
            .map(|s| (s.file, s.reason))
            .collect(),
        items: scan
            .series
            .into_iter()
            .map(|s| {
                (
                    item(&s),
                    SeriesSource::Dicom(Box::new(s.clone())),
                    s.affine(),
                )
            })
            .collect(),
    })
}

fn whole(source: &str, opened: Opened) -> Scanned {
    let affine = opened.volume.affine;
    let generated = matches!(opened.kind, StudyKind::Phantom { .. });
    let name = Path::new(source)
        .file_name()
        .map_or_else(|| source.to_owned(), |n| n.to_string_lossy().into_owned());
    let known = opened.spacing_known();
    let spacing = affine.spacing_mm().map(|mm| known.then_some(mm));
    let item = SeriesItem {
        reference: SeriesRef {
            uid: source.to_owned(),
            part: 1,
        },
        modality: if opened.volume.is_hu { "CT" } else { "" }.to_owned(),
        description: if generated {
            "Demo chest phantom".to_owned()
        } else {
            name
        },
        patient_name: None,
        subject: if generated {
            "Demo chest phantom".to_owned()
        } else {
            masked_subject(source)
        },
        n_files: usize::from(!generated),
        extent: opened.volume.extent,
        spacing_mm: spacing,
        usable: opened.refusal.is_none(),
        straightens: opened.straightens(),
        warnings: opened.warnings.iter().map(plan_warning).collect(),
        details: Arc::new(opened.details()),
        ..SeriesItem::default()
    };
    Scanned {
        items: vec![(item, SeriesSource::Whole(Arc::new(opened)), affine)],
        skipped: Vec::new(),
        best: 0,
    }
}

fn plan_warning(w: &PlanWarning) -> Warning {
    Warning {
        code: w.code.clone(),
        text: w.text.clone(),
        files: Vec::new(),
    }
}

fn warnings(list: &[series::Warning]) -> Vec<Warning> {
    list.iter()
        .map(|w| Warning {
            code: w.code.as_str().to_owned(),
            text: w.text.clone(),
            files: w.files.clone(),
        })
        .collect()
}

fn item(s: &SeriesInfo) -> SeriesItem {
    SeriesItem {
        reference: SeriesRef {
            uid: s.uid.clone(),
            part: s.part,
        },
        modality: s.modality.clone(),
        description: s.description.clone(),
        patient_name: s.patient_name.clone(),
        subject: masked_subject(s.patient_name.as_deref().unwrap_or(&s.uid)),
        n_files: s.n_files,
        extent: s.size,
        spacing_mm: s.spacing_mm,
        usable: s.usable,
        straightens: s.straightens(),
        warnings: warnings(&s.warnings),
        thumbnail: None,
        details: Arc::new(s.details()),
        texts: s.texts().into(),
    }
}

/// Loads a series, sending slices as they come (of a straight grid: once it is resampled).
pub(super) fn load(
    name: &str,
    source: &SeriesSource,
    (generation, straight): (u64, bool),
    control: &Control,
    out: &Outbox,
) -> Result<LoadedSeries, String> {
    match source {
        SeriesSource::Whole(opened) if straight => {
            let opened = Opened::clone(opened);
            straightened(opened, None, generation, control, out)
        }
        SeriesSource::Whole(opened) => {
            send_all(&opened.volume, generation, control, out).map_err(|e| e.to_string())?;
            Ok(finish(
                Arc::clone(opened),
                None,
                opened.warnings.iter().map(plan_warning).collect(),
            ))
        }
        SeriesSource::Dicom(info) => {
            control.set_total(info.size.z as u64);
            let loaded = series::load(info, control, &|slice| {
                if straight {
                    return;
                }
                let news = News::Slice(FreshSlice {
                    generation,
                    k: slice.k,
                    values: slice.values.into(),
                });
                if out.send(news).is_err() {
                    control.cancel();
                }
            })
            .map_err(|e| e.to_string())?;
            let own = info
                .window
                .map(|(c, w)| WindowLevel::new(narrow(c), narrow(w)));
            let series = if info.part > 1 {
                format!("{}#{}", info.uid, info.part)
            } else {
                info.uid.clone()
            };
            let refusal = info.refusal().or_else(|| loaded.refusal());
            let opened = Opened {
                volume: loaded.volume,
                name: name.to_owned(),
                kind: StudyKind::Dicom {
                    series: info.clone(),
                },
                series: Some(series),
                slices: loaded.slices,
                warnings: loaded
                    .warnings
                    .iter()
                    .map(|w| PlanWarning::new(w.code.as_str(), w.text.clone()))
                    .collect(),
                refusal,
            };
            if straight {
                return straightened(opened, own, generation, control, out);
            }
            Ok(finish(Arc::new(opened), own, warnings(&loaded.warnings)))
        }
    }
}

/// The study on a straight grid, its slices sent once they are there.
fn straightened(
    opened: Opened,
    own: Option<WindowLevel>,
    generation: u64,
    control: &Control,
    out: &Outbox,
) -> Result<LoadedSeries, String> {
    let opened = opened
        .on_straight_grid(control)
        .map_err(|e| e.to_string())?;
    send_all(&opened.volume, generation, control, out).map_err(|e| e.to_string())?;
    let said = opened.warnings.iter().map(plan_warning).collect();
    Ok(finish(Arc::new(opened), own, said))
}

fn send_all(
    volume: &Volume,
    generation: u64,
    control: &Control,
    out: &Outbox,
) -> Result<(), Cancelled> {
    let e = volume.extent;
    let plane = e.x * e.y;
    control.set_total(e.z as u64);
    for step in 0..e.z {
        control.check()?;
        // From the middle outwards: 0, +1, -1, +2, ...
        let half = step.div_ceil(2);
        let middle = e.z / 2;
        let k = if step % 2 == 1 {
            (middle + half) % e.z
        } else {
            (middle + e.z - half) % e.z
        };
        let range = k * plane..(k + 1) * plane;
        let values = match &volume.voxels {
            Voxels::I16(v) => SliceValues::I16(&v[range]),
            Voxels::F32(v) => SliceValues::F32(&v[range]),
        };
        out.send(News::Slice(FreshSlice {
            generation,
            k,
            values: values.into(),
        }))?;
        control.advance(1);
    }
    Ok(())
}

fn finish(opened: Arc<Opened>, own: Option<WindowLevel>, warnings: Vec<Warning>) -> LoadedSeries {
    let statistics = Statistics::of(&opened.volume);
    let own = own.or_else(|| statistics.as_ref().map(WindowLevel::auto));
    LoadedSeries {
        range: statistics.as_ref().map(|s| (s.min, s.max)),
        own_window_level: own,
        thumbnail: Some(Arc::new(thumbnail(
            &opened.volume,
            own.unwrap_or(WindowLevel::SOFT),
        ))),
        warnings,
        opened,
    }
}

/// Points along the longer side of a thumbnail.
const THUMBNAIL: usize = 64;

fn thumbnail(volume: &SharedVolume, window_level: WindowLevel) -> Thumbnail {
    let view = sampler::SliceView::fit(
        volume,
        crate::geometry::Plane::Axial,
        volume.extent.z / 2,
        THUMBNAIL,
        THUMBNAIL,
    );
    let p = sampler::picture(
        volume,
        &view,
        window_level,
        sampler::Filter::Linear,
        [THUMBNAIL; 2],
    );
    Thumbnail {
        width: p.width,
        height: p.height,
        grey: p.grey,
    }
}

/// Thumbnails of all series of a study from their middle slices; stops loading each after the first one.
pub(super) fn thumbnails(list: &[(SeriesRef, SeriesSource)], control: &Control, out: &Outbox) {
    for (reference, source) in list {
        if control.is_cancelled() {
            return;
        }
        let SeriesSource::Dicom(info) = source else {
            continue;
        };
        let once = Control::new();
        let first = std::sync::Mutex::new(None);
        let _stopped = series::load(info, &once, &|slice| {
            let mut slot = first
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if slot.is_none() {
                *slot = Some(small(slice.values, slice.size.x, slice.size.y, info));
            }
            once.cancel();
        });
        let made = first
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(t) = made
            && out
                .send(News::Thumbnail(reference.clone(), Arc::new(t)))
                .is_err()
        {
            return;
        }
    }
}

/// One slice made small, with the file's window level or the slice's own range.
fn small(values: SliceValues<'_>, width: usize, height: usize, info: &SeriesInfo) -> Thumbnail {
    let at = |i: usize| match values {
        SliceValues::I16(v) => v.get(i).copied().map_or(0.0, f32::from),
        SliceValues::F32(v) => v.get(i).copied().unwrap_or(0.0),
    };
    let wl = info.window.map_or_else(
        || {
            let (low, high) = (0..width * height)
                .map(at)
                .fold((f32::MAX, f32::MIN), |(l, h), v| (l.min(v), h.max(v)));
            WindowLevel::between(low, high)
        },
        |(c, w)| WindowLevel::new(narrow(c), narrow(w)),
    );
    let longest = width.max(height).max(1);
    let (w, h) = (
        (width * THUMBNAIL / longest).max(1),
        (height * THUMBNAIL / longest).max(1),
    );
    let grey = (0..h)
        .flat_map(|y| (0..w).map(move |x| (y * height / h) * width + x * width / w))
        .map(|i| wl.grey(at(i)))
        .collect();
    Thumbnail {
        width: w,
        height: h,
        grey,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a display value: the nearest f32 is what is wanted"
)]
const fn narrow(v: f64) -> f32 {
    v as f32
}
