//! Text typed in the palette, made into commands.

use super::command::Command;
use super::document::WindowLevel;
use super::state::State;
use crate::geometry::{Axis, Extent, Plane};
use crate::memory::calibrate::Point;
use crate::units::Bytes;
use std::path::PathBuf;

type Parsed = Result<Command, String>;

pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    let text = text.trim();
    if text.is_empty() {
        Err("type a path".to_owned())
    } else {
        Ok(PathBuf::from(text))
    }
}

pub(super) fn count(text: &str) -> Result<usize, String> {
    text.trim()
        .parse()
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| format!("type a whole number from 1; found \"{}\"", text.trim()))
}

fn numbers(text: &str) -> Option<Vec<f64>> {
    text.split([',', ' ', '/'])
        .filter(|p| !p.is_empty())
        .map(|p| p.parse().ok())
        .collect()
}

/// One place of a list that is counted from 1 on screen.
fn place(text: &str, len: usize, what: &str) -> Result<usize, String> {
    match count(text) {
        Ok(n) if n <= len => Ok(n - 1),
        _ => Err(format!(
            "type the number of a {what}, 1 to {len}; found \"{}\"",
            text.trim()
        )),
    }
}

pub(super) fn open(text: &str, _: &State) -> Parsed {
    path(text).map(Command::Open)
}

pub(super) fn open_study(text: &str, _: &State) -> Parsed {
    path(text)?;
    Ok(Command::OpenStudy(text.trim().to_owned()))
}

pub(super) fn recent(text: &str, s: &State) -> Parsed {
    place(text, s.settings.recent.len(), "recent item").map(Command::OpenRecent)
}

pub(super) fn series(text: &str, s: &State) -> Parsed {
    let list = s.study.as_ref().map_or(&[][..], |t| &t.series[..]);
    let i = place(text, list.len(), "series")?;
    Ok(Command::SelectSeries(list[i].reference.clone()))
}

pub(super) fn plan_without_data(text: &str, _: &State) -> Parsed {
    text.trim()
        .parse::<Extent>()
        .map(Command::PlanWithoutData)
        .map_err(|e| e.to_string())
}

pub(super) fn network(text: &str, _: &State) -> Parsed {
    path(text)?;
    Ok(Command::SetNetwork(text.trim().to_owned()))
}

pub(super) fn weights(text: &str, _: &State) -> Parsed {
    let text = text.trim();
    if let Some(seed) = text.strip_prefix("seeded:")
        && seed.parse::<u64>().is_err()
    {
        return Err(format!(
            "random weights are seeded:N with a whole number N; found \"{text}\""
        ));
    }
    Ok(Command::SetWeights(
        (!text.is_empty()).then(|| text.to_owned()),
    ))
}

/// A roi as typed: three whole numbers joined by x or commas, each of which may be 0 or -1.
pub fn roi_entries(text: &str) -> Result<[i64; 3], String> {
    let parts: Vec<&str> = text
        .split(['x', 'X', '\u{d7}', ','])
        .map(str::trim)
        .collect();
    let numbers: Option<Vec<i64>> = parts.iter().map(|p| p.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[x, y, z]) => Ok([x, y, z]),
        _ => Err(format!(
            "a roi is three whole numbers joined by x, such as 128x128x64 (0 or -1 for a whole axis); found \"{text}\""
        )),
    }
}

/// An overlap as typed: one share or three.
pub fn overlap_entries(text: &str) -> Result<[f64; 3], String> {
    match numbers(text).as_deref() {
        Some(&[o]) => Ok([o; 3]),
        Some(&[x, y, z]) => Ok([x, y, z]),
        _ => Err(format!(
            "an overlap is a share such as 0.25, or three of them joined by commas; found \"{text}\""
        )),
    }
}

pub(super) fn roi(text: &str, _: &State) -> Parsed {
    roi_entries(text).map(Command::SetRoi)
}

pub(super) fn overlap(text: &str, _: &State) -> Parsed {
    overlap_entries(text).map(Command::SetOverlap)
}

pub(super) fn memory_limit(text: &str, _: &State) -> Parsed {
    if matches!(text.trim(), "" | "none" | "-") {
        return Ok(Command::SetMemoryLimit(None));
    }
    bytes(text).map(|b| Command::SetMemoryLimit(Some(b)))
}

/// A memory limit as typed into a field in GiB: a number, or as `--memory-limit` takes it; empty or "none" for no limit.
pub fn gib_limit(text: &str) -> Result<Option<Bytes>, String> {
    let t = text.trim();
    let limit = match t {
        "" | "none" | "-" => return Ok(None),
        _ if t.bytes().all(|b| b.is_ascii_digit() || b == b'.') => bytes(&format!("{t} GiB")),
        _ => bytes(t),
    };
    match limit {
        Ok(Bytes(0)) | Err(_) => Err(format!(
            "a limit is a number of GiB above 0 such as 3.6, or empty for none; found \"{t}\""
        )),
        Ok(limit) => Ok(Some(limit)),
    }
}

/// Bytes as typed: a count, or a number with KiB, MiB or GiB.
pub fn bytes(text: &str) -> Result<Bytes, String> {
    let wrong = || format!("a memory size is a number of bytes or such as 8 GiB; found \"{text}\"");
    let t = text.trim();
    let digits = t
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(t.len());
    let (number, unit) = t.split_at(digits);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1u64,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    if let Ok(n) = number.parse::<u64>() {
        return n.checked_mul(factor).map(Bytes).ok_or_else(wrong);
    }
    let n: f64 = number.parse().map_err(|_bad| wrong())?;
    let all = n * factor as f64;
    if !(0.0..9.0e18).contains(&all) {
        return Err(wrong());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to lie in 0..9e18 above"
    )]
    Ok(Bytes(all.round() as u64))
}

/// Measured points as typed: X=BYTES, joined by commas or semicolons.
pub fn points(text: &str) -> Result<Vec<Point>, String> {
    text.split([',', ';'])
        .filter(|p| !p.trim().is_empty())
        .map(|p| {
            let wrong = || {
                format!(
                    "a point is X=BYTES, such as 2=8 GiB; found \"{}\"",
                    p.trim()
                )
            };
            let (x, b) = p.split_once('=').ok_or_else(wrong)?;
            Ok(Point {
                x: x.trim().parse().map_err(|_not_a_number| wrong())?,
                bytes: bytes(b).map_err(|_not_a_size| wrong())?.0 as f64,
            })
        })
        .collect()
}

fn card(text: &str, s: &State) -> Result<String, String> {
    let id = text.trim().to_ascii_lowercase();
    if s.knows_card(&id) {
        Ok(id)
    } else {
        Err(format!(
            "no card has the id \"{id}\"; ids look like rtx-5070-ti, and the Buy workspace lists them"
        ))
    }
}

pub(super) fn toggle_card(text: &str, s: &State) -> Parsed {
    card(text, s).map(Command::ToggleCard)
}

pub(super) fn focus_card(text: &str, s: &State) -> Parsed {
    card(text, s).map(Command::FocusCard)
}

pub(super) fn fix(text: &str, s: &State) -> Parsed {
    place(text, s.derived.fixes().len(), "fix").map(Command::ApplyFix)
}

pub(super) fn stage(text: &str, s: &State) -> Parsed {
    let n = s.derived.layers.as_ref().map_or(0, |l| l.stages.len());
    place(text, n, "stage").map(Command::FoldStage)
}

pub(super) fn cancel_job(text: &str, s: &State) -> Parsed {
    let jobs = s.jobs();
    let i = place(text, jobs.len(), "job")?;
    Ok(Command::CancelJob(jobs[i].id))
}

pub(super) fn message(text: &str, s: &State) -> Parsed {
    let i = place(text, s.messages.len(), "message")?;
    Ok(Command::DismissMessage(s.messages[i].id))
}

pub(super) fn window_level(text: &str, _: &State) -> Parsed {
    match numbers(text).as_deref() {
        Some(&[width, center]) if width >= 1.0 && center.is_finite() && width.is_finite() => {
            Ok(Command::SetWindowLevel(WindowLevel {
                center: narrow(center),
                width: narrow(width),
            }))
        }
        _ => Err(format!(
            "a window level is width/center in HU, such as 400/40; found \"{}\"",
            text.trim()
        )),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a display value: the nearest f32 is what is wanted"
)]
const fn narrow(v: f64) -> f32 {
    v as f32
}

pub(super) fn plane(text: &str) -> Result<Plane, String> {
    Plane::ALL
        .into_iter()
        .find(|p| p.name().eq_ignore_ascii_case(text.trim()))
        .ok_or_else(|| {
            format!(
                "a plane is axial, coronal or sagittal; found \"{}\"",
                text.trim()
            )
        })
}

fn plane_and<N: std::str::FromStr>(text: &str) -> Option<(Plane, N)> {
    let (name, number) = text.trim().split_once(' ')?;
    Some((plane(name).ok()?, number.trim().parse().ok()?))
}

pub(super) fn scroll_plane(text: &str, _: &State) -> Parsed {
    plane_and::<i64>(text)
        .map(Command::ScrollPlane)
        .ok_or_else(|| format!("type a plane and a step, such as axial 5; found \"{text}\""))
}

pub(super) fn go_to_slice(text: &str, s: &State) -> Parsed {
    let wrong = || format!("type a plane and a slice from 1, such as axial 43; found \"{text}\"");
    let (plane, n) = plane_and::<usize>(text).ok_or_else(wrong)?;
    let last = s
        .volume_state()
        .map_or(0, |v| v.extent.to_array()[plane.across().index()]);
    if n == 0 || n > last {
        return Err(format!(
            "{} slices go from 1 to {last}; found {n}",
            plane.name()
        ));
    }
    Ok(Command::GoToSlice((plane, n - 1)))
}

pub(super) fn crosshair(text: &str, _: &State) -> Parsed {
    match numbers(text).as_deref() {
        Some(&[x, y, z]) => Ok(Command::SetCrosshair([x, y, z])),
        _ => Err(format!(
            "type a voxel, such as 256, 256, 64; found \"{text}\""
        )),
    }
}

pub(super) fn detection(text: &str, s: &State) -> Parsed {
    let shown = &s.derived.detections;
    let i = place(text, shown.len(), "detection")?;
    Ok(Command::SelectDetection(shown[i]))
}

pub(super) fn missing(text: &str, s: &State) -> Parsed {
    let found: Vec<usize> = s
        .seams
        .matching()
        .map_or_else(Vec::new, |m| m.missing().map(|(i, _)| i).collect());
    let i = place(text, found.len(), "missing finding")?;
    Ok(Command::SelectReference(found[i]))
}

/// A seam of the table: "z 64".
pub(super) fn seam(text: &str, s: &State) -> Parsed {
    let mut words = text.split_whitespace();
    let axis = words
        .next()
        .and_then(|w| Axis::ALL.into_iter().find(|a| a.name() == w));
    let at = words.next().and_then(|w| w.parse().ok());
    axis.zip(at)
        .filter(|id| s.seams.rows.iter().any(|r| r.id() == *id))
        .map(Command::SelectSeam)
        .ok_or_else(|| {
            format!(
                "type axis and place of a seam in the table, such as z 64; found \"{}\"",
                text.trim()
            )
        })
}

pub(super) fn threshold(text: &str, _: &State) -> Parsed {
    text.trim()
        .parse::<f32>()
        .ok()
        .filter(|t| (0.0..=1.0).contains(t))
        .map(Command::SetScoreThreshold)
        .ok_or_else(|| format!("a score is 0 to 1; found \"{}\"", text.trim()))
}

pub(super) fn ui_scale(text: &str, _: &State) -> Parsed {
    text.trim()
        .trim_end_matches('%')
        .trim()
        .parse::<u16>()
        .ok()
        .filter(|t| (75..=250).contains(t))
        .map(Command::SetUiScale)
        .ok_or_else(|| {
            format!(
                "the size of the user interface is 75 to 250 per cent; found \"{}\"",
                text.trim()
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_memory_read_as_bytes_or_binary_units() {
        assert_eq!(bytes("8 GiB").unwrap(), Bytes::gib(8));
        assert_eq!(bytes("1.5GiB").unwrap(), Bytes::mib(1536));
        assert_eq!(bytes("123").unwrap(), Bytes(123));
        assert!(bytes("8 GB").unwrap_err().contains("8 GB"));
        assert!(bytes("-1").is_err());
        assert_eq!(gib_limit(" 1.5 "), Ok(Some(Bytes::mib(1536))));
        assert_eq!(gib_limit("512 MiB"), Ok(Some(Bytes::mib(512))));
        assert_eq!(gib_limit(""), Ok(None));
        assert!(gib_limit("0").unwrap_err().contains("above 0"));
        assert!(gib_limit("much").is_err());
    }

    #[test]
    fn a_roi_may_hold_whole_axes_and_an_overlap_three_shares() {
        assert_eq!(roi_entries("0x-1x64").unwrap(), [0, -1, 64]);
        assert_eq!(roi_entries("128,128,64").unwrap(), [128, 128, 64]);
        assert!(roi_entries("128x128").is_err());
        assert_eq!(overlap_entries("0.25").unwrap(), [0.25; 3]);
        assert_eq!(overlap_entries("0,0,0.5").unwrap(), [0.0, 0.0, 0.5]);
        assert!(overlap_entries("half").is_err());
    }
}
