//! Facts of the series that is shown, as titled rows of text: what the details view draws and what it copies.

use super::findings;
use super::state::State;
use super::study::{SeriesItem, VolumeState};
use crate::series::{SliceInfo, TextGroup};
use crate::units::{decimals_of, exact, number, with_thousands};

/// Rows under one title.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Its title.
    pub title: String,
    /// Label and value; values may be long.
    pub rows: Vec<(String, String)>,
}

impl Section {
    fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            rows: Vec::new(),
        }
    }

    fn row(&mut self, label: &str, value: impl Into<String>) {
        self.rows.push((label.to_owned(), value.into()));
    }
}

/// Step runs listed before "and so many more".
const RUNS: usize = 12;

/// All sections for the series that is loaded or loading; empty without one.
pub fn of(state: &State) -> Vec<Section> {
    let Some(study) = &state.study else {
        return Vec::new();
    };
    let Some(item) = study.selected() else {
        return Vec::new();
    };
    let volume = study.volume.as_ref();
    let mut out = vec![geometry(item, volume), values(item, volume)];
    if !item.details.slices.is_empty() {
        out.push(steps(item, state.identity_masked()));
        out.push(storage(item));
        if !volume.is_some_and(|v| v.straight_grid) {
            out.push(slice(state, item));
        }
    }
    out.push(texts(item, state.identity_masked()));
    let mut odd = Section::new("Odd");
    odd.row(
        "Run",
        if item.usable {
            "may be run"
        } else {
            "must not be run"
        },
    );
    for w in study.warnings() {
        odd.row(&findings::phrase(w, item), w.text.clone());
    }
    odd.row("Skipped files", with_thousands(study.skipped.len() as u64));
    out.push(odd);
    out
}

/// As one text, a line for each row.
pub fn as_text(sections: &[Section]) -> String {
    let mut out = String::new();
    for s in sections {
        out.push_str(&s.title);
        out.push('\n');
        for (label, value) in &s.rows {
            out.extend([label, "\t", value, "\n"]);
        }
        out.push('\n');
    }
    out
}

fn triple(v: [f64; 3], decimals: usize) -> String {
    v.map(|x| number(x, decimals)).join(", ")
}

fn known(v: Option<f64>, decimals: usize) -> String {
    v.map_or_else(|| "unknown".to_owned(), |v| number(v, decimals))
}

/// A direction with the way it mostly goes, in words.
fn direction(d: [f64; 3]) -> String {
    let names = [
        ["left", "right"],
        ["posterior", "anterior"],
        ["head", "feet"],
    ];
    let (axis, c) = d
        .into_iter()
        .enumerate()
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
        .unwrap_or_default();
    let word = names[axis.min(2)][usize::from(c < 0.0)];
    let slant = if c.abs() < 0.999 { "mostly " } else { "" };
    format!("{} ({slant}to the {word})", triple(d, 4))
}

fn geometry(item: &SeriesItem, volume: Option<&VolumeState>) -> Section {
    let mut s = Section::new("Geometry");
    let e = item.extent;
    s.row(
        "Size",
        format!("{} columns, {} rows, {} slices", e.x, e.y, e.z),
    );
    if let Some(v) = volume.filter(|v| v.straight_grid) {
        let (e, mm) = (v.extent, v.affine.spacing_mm());
        s.row(
            "Shown as",
            format!(
                "a straight grid (linear) of {} columns, {} rows, {} slices; {} mm",
                e.x,
                e.y,
                e.z,
                triple(mm, 4)
            ),
        );
    }
    let [x, y, z] = item.spacing_mm;
    let unit = |v: Option<f64>| if v.is_some() { " mm" } else { "" };
    s.row(
        "Pixel spacing",
        format!("{}, {}{}", known(x, 4), known(y, 4), unit(x)),
    );
    s.row("Slice step", format!("{}{}", known(z, 4), unit(z)));
    let [plane, between] = &item.details.spacing_source;
    s.row(
        "Spacing from",
        if plane == between {
            plane.clone()
        } else {
            format!("{plane}; {between}")
        },
    );
    if let [Some(x), Some(y), Some(z)] = item.spacing_mm {
        let size = [e.x as f64 * x, e.y as f64 * y, e.z as f64 * z];
        s.row("Whole size", format!("{} mm", triple(size, 1)));
    }
    let Some(a) = volume.map(|v| v.affine) else {
        s.row("Tilt", tilt(item));
        return s;
    };
    let positioned = item
        .details
        .slices
        .first()
        .is_none_or(|s| s.position.is_some());
    s.row(
        "Origin (LPS)",
        if positioned {
            format!("{} mm", triple(a.origin, 3))
        } else {
            "unknown".to_owned()
        },
    );
    let [row, column, step] = a.directions();
    if item.details.orientation_known {
        s.row("Rows run", direction(row));
        s.row("Columns run", direction(column));
        s.row("Slices go", direction(step));
    } else {
        s.row("Directions", "unknown");
    }
    s.row("Tilt", tilt(item));
    s
}

fn tilt(item: &SeriesItem) -> String {
    match item.details.tilt_degrees {
        None => "unknown".to_owned(),
        Some([down, side]) if down == 0.0 && side == 0.0 => "none: a straight grid".to_owned(),
        Some([down, side]) => format!(
            "{}\u{b0} down the columns, {}\u{b0} along the rows: kept as shear",
            number(down, 2),
            number(side, 2)
        ),
    }
}

fn values(item: &SeriesItem, volume: Option<&VolumeState>) -> Section {
    let mut s = Section::new("Values");
    let whole = volume.and_then(|v| v.volume.as_ref());
    let hu = whole.is_none_or(|v| v.is_hu);
    s.row(
        "Range",
        match (
            volume.and_then(|v| v.range),
            volume.is_some_and(VolumeState::is_loading),
        ) {
            (Some((low, high)), _) => format!(
                "{} to {}{}, padding left out",
                value(low),
                value(high),
                if hu { " HU" } else { ", not HU" }
            ),
            (None, true) => "loading".to_owned(),
            (None, false) if whole.is_none() => "not loaded".to_owned(),
            (None, false) => "none but padding".to_owned(),
        },
    );
    if let Some(v) = whole {
        s.row("In memory", format!("{}, {}", v.voxels.kind(), v.bytes()));
    }
    let d = &item.details;
    for r in d.rescales.iter().take(4) {
        s.row(
            "Rescale",
            format!(
                "slope {}, intercept {} ({} of {} slices)",
                r.slope,
                exact(r.intercept),
                r.n,
                d.slices.len()
            ),
        );
    }
    if d.n_rescales > 4 {
        s.row("", format!("and {} more", d.n_rescales - 4));
    } else if d.n_rescales == 0 && !d.slices.is_empty() {
        s.row("Rescale", "none: values as stored");
    }
    if let Some([c, w]) = d.window {
        s.row(
            "Window as stored",
            format!("width {}, centre {}", exact(w), exact(c)),
        );
    }
    s
}

fn value(v: f32) -> String {
    number(f64::from(v), decimals_of(v))
}

/// What stands in place of a text that may tell who it is.
const MASKED: &str = "masked (Ctrl+Shift+I)";

fn steps(item: &SeriesItem, masked: bool) -> Section {
    let d = &item.details;
    let mut s = Section::new("Steps between slices");
    if d.steps.is_empty() {
        s.row("Steps", "unknown");
    }
    for r in d.steps.iter().take(RUNS) {
        s.row(
            &format!("k {} to {}", r.after, r.after + r.n),
            format!("{} \u{d7} {} mm", r.n, number(r.mm, 3)),
        );
    }
    if d.steps.len() > RUNS {
        s.row("", format!("and {} more", d.steps.len() - RUNS));
    }
    for g in d.gaps.iter().take(RUNS) {
        s.row(
            &format!("After k {}", g.after),
            format!(
                "{} mm, expected {} mm{}{}",
                number(g.found_mm, 3),
                number(g.expected_mm, 3),
                match g.missing {
                    0 => String::new(),
                    1 => ", 1 slice missing".to_owned(),
                    n => format!(", {n} slices missing"),
                },
                if masked {
                    String::new()
                } else {
                    format!(": {} and {}", g.files[0], g.files[1])
                }
            ),
        );
    }
    s
}

fn storage(item: &SeriesItem) -> Section {
    let d = &item.details;
    let mut s = Section::new("Storage");
    s.row("Files", with_thousands(item.n_files as u64));
    for t in &d.transfer_syntaxes {
        s.row(
            "Transfer syntax",
            format!("{} ({}), {} slices", t.name, t.uid, t.n),
        );
    }
    if let Some(p) = &d.pixels {
        let sign = if p.signed { "signed" } else { "unsigned" };
        s.row(
            "Bits",
            format!(
                "{} allocated, {} stored, high bit {}, {sign}",
                p.bits_allocated, p.bits_stored, p.high_bit
            ),
        );
        s.row("Photometric", p.photometric.clone());
        s.row(
            "Padding",
            match p.padding {
                None => "none".to_owned(),
                Some([a, b]) if a == b => format!("stored value {a}"),
                Some([a, b]) => format!("stored values {a} to {b}"),
            },
        );
    }
    s
}

fn slice(state: &State, item: &SeriesItem) -> Section {
    let k = state.view.slice(crate::geometry::Plane::Axial, item.extent);
    let mut s = Section::new(format!("Slice k {k} (at the crosshair)"));
    let Some(SliceInfo {
        file,
        frame,
        sop_instance_uid,
        instance_number,
        position,
    }) = item.details.slices.get(k)
    else {
        return s;
    };
    let masked = state.identity_masked();
    let unless_masked = |text: &str| if masked { MASKED } else { text }.to_owned();
    s.row("File", unless_masked(file));
    s.row("Frame", (frame + 1).to_string());
    s.row(
        "Instance",
        instance_number.map_or_else(|| "unknown".to_owned(), |n| n.to_string()),
    );
    s.row("SOP instance", unless_masked(sop_instance_uid));
    s.row(
        "Position (LPS)",
        position.map_or_else(|| "unknown".to_owned(), |p| format!("{} mm", triple(p, 3))),
    );
    s
}

fn texts(item: &SeriesItem, masked: bool) -> Section {
    let mut s = Section::new("Patient, study and series");
    if masked {
        s.row("Shown as", format!("{} (masked)", item.subject));
        s.row("Texts", "masked: Ctrl+Shift+I shows them");
        return s;
    }
    if item.texts.is_empty() {
        s.row("Texts", "none in the file");
    }
    for t in item.texts.iter() {
        let group = match t.group {
            TextGroup::Patient => "Patient",
            TextGroup::Study => "Study",
            TextGroup::Series => "Series",
        };
        let label = if t.label.starts_with(group) {
            t.label.to_owned()
        } else {
            format!("{group} {}", t.label.to_lowercase())
        };
        s.row(&label, t.value.clone());
    }
    s.row(
        "Series UID",
        format!("{} part {}", item.reference.uid, item.reference.part),
    );
    s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{SeriesRef, SettingsDir, StudyState};
    use crate::jobs::Waker;
    use crate::series::Details;
    use std::sync::Arc;

    #[test]
    fn masked_facts_hold_neither_uids_nor_file_names() {
        let reference = SeriesRef {
            uid: "1.2.840.77".to_owned(),
            part: 1,
        };
        let slice = SliceInfo {
            file: "DOE_JANE.dcm".to_owned(),
            frame: 0,
            sop_instance_uid: "1.2.840.99".to_owned(),
            instance_number: Some(7),
            position: None,
        };
        let mut s = State::new(SettingsDir::none(), Waker::default());
        s.study = Some(StudyState {
            series: vec![SeriesItem {
                reference: reference.clone(),
                details: Arc::new(Details {
                    slices: vec![slice],
                    ..Details::default()
                }),
                ..SeriesItem::default()
            }],
            chosen: Some(reference),
            ..StudyState::default()
        });
        let text = as_text(&of(&s));
        assert!(text.contains("Instance\t7"), "{text}");
        assert!(!text.contains("1.2.840") && !text.contains("DOE"), "{text}");
        s.settings.mask_identity = false;
        let text = as_text(&of(&s));
        assert!(text.contains("1.2.840.99") && text.contains("DOE_JANE"));
    }
}
