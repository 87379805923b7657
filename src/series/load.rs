//! Decodes a series into one volume: slices in parallel, the middle one first, each straight into its place.

use super::content::Content;
use super::decode::decode;
use super::group::{file_names, names};
use super::header::{Order, Pixels, Source};
use super::values::{Range, Sample, Transform};
use super::{DecodedSlice, Loaded, SeriesError, SeriesInfo, SliceValues, Warning, WarningCode};
use crate::jobs::Control;
use crate::volume::{Volume, Voxels};
use rayon::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

/// A sample type that knows how to show a slice of itself.
trait Shown: Sample {
    fn shown(slice: &[Self]) -> SliceValues<'_>;
}

impl Shown for i16 {
    fn shown(slice: &[Self]) -> SliceValues<'_> {
        SliceValues::I16(slice)
    }
}

impl Shown for f32 {
    fn shown(slice: &[Self]) -> SliceValues<'_> {
        SliceValues::F32(slice)
    }
}

/// Why one slice was not filled.
enum Failure {
    /// A value does not fit the type.
    DoesNotFit,
    /// The slice is damaged.
    Slice(String),
}

/// Found content of each file with several frames. By path: names are text, which two paths may share.
type Contents<'a> = BTreeMap<&'a Path, OnceLock<Result<Content, String>>>;

thread_local! {
    /// Compressed bytes and decoded words of the slice at hand, kept to spare the allocator.
    static BUFFERS: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Decodes a series. `on_slice` is called from several threads as slices come, the middle one first.
pub fn load(
    info: &SeriesInfo,
    control: &Control,
    on_slice: &(dyn Fn(DecodedSlice<'_>) + Sync),
) -> Result<Loaded, SeriesError> {
    if let Some(reason) = &info.refusal {
        return Err(SeriesError::Refused {
            reason: reason.clone(),
            path: info.root.clone(),
        });
    }
    let transforms: Vec<Transform> = info
        .slices
        .iter()
        .map(|s| Transform::new(&s.file.pixels, s.plane().rescale))
        .collect();
    control.begin(info.slices.len() as u64);
    // Most fractional values show in the first slices; then the rest is not decoded twice.
    let first = fill::<i16>(info, &transforms, control, on_slice)?;
    let (voxels, filled) = if let Some((values, filled)) = first {
        (Voxels::I16(values), filled)
    } else {
        control.begin(info.slices.len() as u64);
        let (values, filled) =
            fill::<f32>(info, &transforms, control, on_slice)?.unwrap_or_default();
        (Voxels::F32(values), filled)
    };
    let range = filled.range;
    let is_hu = info.modality == "CT"
        && info.slices.iter().all(|s| {
            s.plane().rescale.is_some()
                && s.file
                    .rescale_type
                    .as_deref()
                    .is_none_or(|t| matches!(t, "HU" | "US"))
        });
    let mut warnings = info.warnings.clone();
    warnings.extend(filled.warning);
    Ok(Loaded {
        volume: Arc::new(Volume {
            extent: info.size,
            affine: info.affine(),
            voxels,
            padding: padding(&transforms, range),
            is_hu,
            z_spacing_known: info.spacing_mm[2].is_some(),
        }),
        slices: info.slice_infos(),
        warnings,
        hu_min: range.min.is_finite().then_some(range.min),
        hu_max: range.max.is_finite().then_some(range.max),
    })
}

/// Padding of all slices as values: each slice has its own rescale. Where that would take in values that are none, the first slice's.
fn padding(transforms: &[Transform], range: Range) -> Option<(f32, f32)> {
    let mut all = transforms.iter().filter_map(Transform::padding_values);
    let first = all.next()?;
    let (low, high) = all.fold(first, |(a, b), (c, d)| (a.min(c), b.max(d)));
    let apart = f64::from(high) < range.min || f64::from(low) > range.max;
    Some(if apart { (low, high) } else { first })
}

/// What became of the slices.
struct Filled {
    range: Range,
    /// Slices that could not be decoded.
    warning: Option<Warning>,
}

impl Default for Filled {
    fn default() -> Self {
        Self {
            range: Range::NONE,
            warning: None,
        }
    }
}

/// Memory for the voxels. The probe asks first, so that a size beyond the machine is an error and not the end of the program;
/// zeroed pages then come as slices are written.
fn allocate<T: Shown>(info: &SeriesInfo) -> Result<Vec<T>, SeriesError> {
    let bytes = info
        .size
        .checked_voxels()
        .and_then(|n| n.checked_mul(size_of::<T>()));
    let mut probe: Vec<u8> = Vec::new();
    if bytes.is_none_or(|b| probe.try_reserve_exact(b).is_err()) {
        return Err(SeriesError::Memory {
            needed: bytes.map_or(u64::MAX, |b| b as u64),
            path: info.root.clone(),
        });
    }
    drop(probe);
    Ok(vec![T::default(); info.size.voxels()])
}

/// Fills a volume of one type; `None` when a value does not fit it.
fn fill<T: Shown>(
    info: &SeriesInfo,
    transforms: &[Transform],
    control: &Control,
    on_slice: &(dyn Fn(DecodedSlice<'_>) + Sync),
) -> Result<Option<(Vec<T>, Filled)>, SeriesError> {
    let mut values = allocate::<T>(info)?;
    let per_slice = info.size.x * info.size.y;
    let contents: Contents<'_> = info
        .slices
        .iter()
        .filter(|s| s.file.pixels.frames > 1)
        .map(|s| (s.file.path.as_path(), OnceLock::new()))
        .collect();
    let mut work: Vec<(usize, &Source, &Transform, &mut [T])> = info
        .slices
        .iter()
        .zip(transforms)
        .zip(values.chunks_exact_mut(per_slice))
        .enumerate()
        .map(|(k, ((source, transform), out))| (k, source, transform, out))
        .collect();
    let middle = work.len() / 2;
    work.sort_by_key(|(k, ..)| k.abs_diff(middle));
    let failures: Mutex<BTreeMap<usize, String>> = Mutex::default();
    let misfit = std::sync::atomic::AtomicBool::new(false);
    let contents_ref = &contents;
    // par_bridge hands slices out one at a time in this order, so the middle one is truly first.
    let range = work
        .into_iter()
        .par_bridge()
        .map(|(k, source, transform, out)| {
            if control.is_cancelled() || misfit.load(std::sync::atomic::Ordering::Relaxed) {
                return Range::NONE;
            }
            let range = slice(source, transform, contents_ref, out);
            control.advance(1);
            match range {
                Ok(range) => {
                    on_slice(DecodedSlice {
                        k,
                        size: info.size,
                        values: T::shown(out),
                    });
                    return range;
                }
                Err(Failure::DoesNotFit) => {
                    misfit.store(true, std::sync::atomic::Ordering::Relaxed);
                }
                Err(Failure::Slice(reason)) => {
                    if let Ok(mut all) = failures.lock() {
                        all.insert(k, reason);
                    }
                }
            }
            Range::NONE
        })
        .reduce(|| Range::NONE, Range::and);
    control.check()?;
    let failures = failures.into_inner().unwrap_or_default();
    if misfit.into_inner() {
        return Ok(None);
    }
    let warning = undecoded(info, &failures)?;
    let empty = range.min.is_finite().then(|| T::from_value(range.min));
    for &k in failures.keys() {
        // Told, and never run: what is seen there is empty.
        if let Some(slice) = values.chunks_exact_mut(per_slice).nth(k) {
            slice.fill(empty.flatten().unwrap_or_default());
        }
    }
    Ok(Some((values, Filled { range, warning })))
}

/// Names the slices that could not be decoded; an error where there is no other.
fn undecoded(
    info: &SeriesInfo,
    failures: &BTreeMap<usize, String>,
) -> Result<Option<Warning>, SeriesError> {
    let Some((&k, reason)) = failures.first_key_value() else {
        return Ok(None);
    };
    if failures.len() == info.slices.len() {
        let file = info.slices.get(k).map(|s| s.file.path.clone());
        let more = match failures.len() {
            1 => String::new(),
            n => format!(" (and {} more slices)", n - 1),
        };
        return Err(SeriesError::Slice {
            path: file.unwrap_or_else(|| info.root.clone()),
            reason: format!("{reason}{more}"),
        });
    }
    let lost: Vec<Source> = failures
        .keys()
        .filter_map(|&k| info.slices.get(k).cloned())
        .collect();
    let files = file_names(&lost);
    Ok(Some(Warning {
        code: WarningCode::CannotDecode,
        text: format!(
            "{} of {} slices cannot be decoded and are shown empty (the first, k = {k}: {reason}); copy these files again: {}",
            failures.len(),
            info.slices.len(),
            names(&files)
        ),
        files,
    }))
}

/// Decodes one slice into its place.
fn slice<T: Shown>(
    source: &Source,
    transform: &Transform,
    contents: &Contents<'_>,
    out: &mut [T],
) -> Result<Range, Failure> {
    let file = &source.file;
    let own;
    let content = if let Some(shared) = contents.get(file.path.as_path()) {
        shared.get_or_init(|| Content::find(file))
    } else {
        own = Content::find(file);
        &own
    };
    let content = content.as_ref().map_err(|e| Failure::Slice(e.clone()))?;
    BUFFERS.with_borrow_mut(|(bytes, words)| {
        content
            .read(file, source.frame, bytes)
            .map_err(Failure::Slice)?;
        let p = &file.pixels;
        if p.length.is_some() {
            return convert(p, p.bits_allocated, p.order, bytes, transform, out);
        }
        decode(&file.transfer_syntax, bytes, p, words).map_err(Failure::Slice)?;
        // Codecs give as many bytes for a value as they need (8-bit JPEG in a 16-bit file).
        let bits = match words.len() / out.len().max(1) {
            1 => 8,
            2 => 16,
            4 => 32,
            _ => p.bits_allocated,
        };
        convert(p, bits, Order::Little, words, transform, out)
    })
}

/// Words of the frame to values.
fn convert<T: Shown>(
    p: &Pixels,
    bits: u32,
    order: Order,
    bytes: &[u8],
    transform: &Transform,
    out: &mut [T],
) -> Result<Range, Failure> {
    let expected = (out.len() * bits as usize).div_ceil(8);
    if bytes.len() < expected {
        return Err(Failure::Slice(format!(
            "expected {expected} bytes of pixels ({}x{} at {bits} bits), found {}",
            p.columns,
            p.rows,
            bytes.len()
        )));
    }
    let filled = match (bits, order) {
        (8, Order::BytesInBigWords) => {
            let pairs = bytes.as_chunks::<2>().0.iter();
            transform.fill(pairs.flat_map(|&[a, b]| [u32::from(b), u32::from(a)]), out)
        }
        (8, _) => transform.fill(bytes.iter().map(|&b| u32::from(b)), out),
        (12, Order::Little) => {
            // Two values in three bytes, least significant bits first.
            let triples = bytes.as_chunks::<3>().0.iter();
            let pairs = triples.flat_map(|&[a, b, c]| {
                let (a, b, c) = (u32::from(a), u32::from(b), u32::from(c));
                [a | (b & 15) << 8, b >> 4 | c << 4]
            });
            transform.fill(pairs, out)
        }
        (16, Order::Little) => {
            let words = bytes.as_chunks::<2>().0.iter();
            transform.fill(words.map(|&c| u32::from(u16::from_le_bytes(c))), out)
        }
        (16, _) => {
            let words = bytes.as_chunks::<2>().0.iter();
            transform.fill(words.map(|&c| u32::from(u16::from_be_bytes(c))), out)
        }
        (32, Order::Little) => {
            let words = bytes.as_chunks::<4>().0.iter();
            transform.fill(words.map(|&c| u32::from_le_bytes(c)), out)
        }
        (32, _) => {
            let words = bytes.as_chunks::<4>().0.iter();
            transform.fill(words.map(|&c| u32::from_be_bytes(c)), out)
        }
        _ => {
            return Err(Failure::Slice(format!(
                "{bits} bits for each value, expected 8, 12, 16 or 32"
            )));
        }
    };
    filled.ok_or(Failure::DoesNotFit)
}
