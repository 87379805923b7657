//! Results from files, ours and others', as sides of a comparison: read, told apart, and paired by study.

use super::StudyError;
use crate::detect::{Finding, Findings, Space};
use crate::exchange::findings::{Document, Kind, is_findings, names_of, stem};
use crate::exchange::nifti;
use crate::exchange::result::RunResult;
use crate::review::labels::Mask;
use crate::review::{Own, Side};
use crate::volume::{Volume, Voxels};
use std::path::{Path, PathBuf};

/// Most files that one folder is looked through for.
const MOST_FILES: usize = 100_000;

/// A side of one study, and where more of it lies.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The side.
    pub side: Side,
    /// Its file's name without folders and ending.
    pub stem: String,
    /// A file with its label mask, and the labels' names.
    pub mask: Option<(PathBuf, Vec<String>)>,
    /// Size of the loaded volume, for results of Voxfit.
    pub volume: Option<crate::geometry::Extent>,
}

/// The studies of one side.
#[derive(Clone, Debug, Default)]
pub struct Sides {
    /// In the order of files, then of their lists.
    pub list: Vec<Loaded>,
    /// Whether they came from a folder.
    pub folder: bool,
    /// Files that were left out, and why.
    pub warnings: Vec<String>,
}

/// A result of Voxfit as a side.
pub fn own_side(result: &RunResult, name: &str) -> Side {
    let mut names = Vec::new();
    if let Some(series) = &result.series {
        names.push(series.clone());
        if let Some((uid, _)) = series.split_once('#') {
            names.push(uid.to_owned());
        }
    }
    names.extend(names_of(&result.study));
    let list = result
        .detections
        .iter()
        .map(|d| Finding {
            label: d.label.clone(),
            score: Some(f64::from(d.score)),
            center: d.center_in_patient,
            size: Some(d.size_mm),
        })
        .collect();
    Side {
        name: name.to_owned(),
        found: Findings {
            names,
            space: Space::Lps,
            list,
            notes: Vec::new(),
        },
        own: Some(Own {
            volume_sha256: result.volume_sha256.clone(),
            network: result.network.name.clone(),
            network_sha256: result.network.sha256.clone(),
            outputs_sha256: result.outputs_sha256.clone(),
            loaded: result.plan.loaded_affine,
            prepared: result.plan.prepared_affine,
            planes: result.seams.places(),
            roi: result.plan.roi_size.to_array(),
            boxes: result
                .detections
                .iter()
                .map(|d| d.box_in_volume.0)
                .collect(),
            distances: result.detections.iter().map(|d| d.seam_distance).collect(),
            score_thresh: result.box_selector.map(|s| f64::from(s.score_thresh)),
            labels: result.labels.clone(),
        }),
        mask: None,
    }
}

/// A label as the small whole number that it is; `None` for another value.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "range and wholeness were checked"
)]
fn label(v: f32) -> Option<u16> {
    let fits = v >= 0.0 && v <= f32::from(u16::MAX) && v.fract() == 0.0;
    fits.then_some(v as u16)
}

/// A file of labels as a mask.
pub fn mask(volume: &Volume, names: Vec<String>) -> Result<Mask, String> {
    let bad = |v: &dyn std::fmt::Display| {
        format!("labels are whole numbers from 0 to 65535, found {v}: this is no label mask")
    };
    let values = match &volume.voxels {
        Voxels::I16(values) => values
            .iter()
            .map(|v| u16::try_from(*v).map_err(|_negative| bad(v)))
            .collect::<Result<_, _>>()?,
        Voxels::F32(values) => values
            .iter()
            .map(|v| label(*v).ok_or_else(|| bad(v)))
            .collect::<Result<_, _>>()?,
    };
    Ok(Mask {
        extent: volume.extent,
        affine: volume.affine,
        values,
        names,
    })
}

/// Reads a file or a folder. `space` stands where a foreign file says none, or over what it says.
pub fn read(path: &Path, space: Option<Space>) -> Result<Sides, StudyError> {
    if !path.is_dir() {
        return Ok(Sides {
            list: read_file(path, space)?,
            ..Sides::default()
        });
    }
    let mut sides = Sides {
        folder: true,
        ..Sides::default()
    };
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(path).sort_by_file_name() {
        match entry {
            Ok(e) if e.file_type().is_file() => files.push(e.into_path()),
            Ok(_) => {}
            Err(e) => sides.warnings.push(format!("left out: {e}")),
        }
    }
    files.retain(|p| is_findings(p) || nifti::is_nifti(p));
    files.sort();
    if files.len() > MOST_FILES {
        let more = files.len() - MOST_FILES;
        let said = format!("only the first {MOST_FILES} files were read, {more} were left out");
        sides.warnings.push(said);
        files.truncate(MOST_FILES);
    }
    for file in files {
        match read_file(&file, space) {
            Ok(list) => sides.list.extend(list),
            Err(e) => sides.warnings.push(format!("left out: {e}")),
        }
    }
    // A mask that a result names is that result's, not a study of its own.
    let named: Vec<PathBuf> = sides
        .list
        .iter()
        .filter(|l| l.side.own.is_some())
        .filter_map(|l| l.mask.as_ref()?.0.canonicalize().ok())
        .collect();
    sides.list.retain(|l| {
        l.side.own.is_some()
            || l.mask
                .as_ref()
                .and_then(|m| m.0.canonicalize().ok())
                .is_none_or(|p| !named.contains(&p))
    });
    if sides.list.is_empty() {
        return Err(StudyError::Compare {
            reason: match sides.warnings.first() {
                Some(why) => format!(
                    "no result in the folder could be read ({why}): {}",
                    path.display()
                ),
                None => format!(
                    "the folder holds no results (.json, .csv, .nii): {}",
                    path.display()
                ),
            },
        });
    }
    Ok(sides)
}

fn read_file(path: &Path, space: Option<Space>) -> Result<Vec<Loaded>, StudyError> {
    let name = path.display().to_string();
    let short = stem(&name);
    if nifti::is_nifti(path) {
        let found = Findings {
            names: vec![short.clone()],
            space: Space::Voxels,
            ..Findings::default()
        };
        if !path.is_file() {
            // The reader says what the system says.
            nifti::read(path)?;
        }
        return Ok(vec![Loaded {
            side: Side::of(&name, found),
            stem: short,
            mask: Some((path.to_path_buf(), Vec::new())),
            volume: None,
        }]);
    }
    let document = Document::open(path)?;
    if document.kind() == Kind::Result {
        let result = RunResult::read(path)?;
        return Ok(vec![of_result(&result, path)]);
    }
    let studies = document.findings(path)?;
    Ok(studies
        .into_iter()
        .map(|mut found| {
            found.space = space.unwrap_or(found.space);
            Loaded {
                side: Side::of(&name, found),
                stem: short.clone(),
                mask: None,
                volume: None,
            }
        })
        .collect())
}

/// A result of Voxfit as it was read from a file (or would be).
pub fn of_result(result: &RunResult, path: &Path) -> Loaded {
    let beside = |p: &PathBuf| {
        if p.is_file() || p.is_absolute() {
            return p.clone();
        }
        path.parent().map_or_else(|| p.clone(), |d| d.join(p))
    };
    Loaded {
        side: own_side(result, &path.display().to_string()),
        stem: stem(&path.to_string_lossy()),
        mask: result
            .labels_file
            .as_ref()
            .map(|p| (beside(p), result.label_names.clone())),
        volume: Some(result.plan.loaded_volume),
    }
}

impl Loaded {
    /// The side with its mask in memory, where it names one that can be read.
    pub fn with_mask(&self) -> Result<Side, StudyError> {
        let mut side = self.side.clone();
        let Some((path, names)) = &self.mask else {
            return Ok(side);
        };
        if side.own.is_some() && !path.is_file() {
            side.found.notes.push(format!(
                "its label mask is not there any more: {}",
                path.display()
            ));
            return Ok(side);
        }
        let volume = nifti::read(path)?;
        let mask = mask(&volume, names.clone()).map_err(|why| StudyError::Compare {
            reason: format!("{why}: {}", path.display()),
        })?;
        side.mask = Some(mask);
        Ok(side)
    }

    fn name(&self) -> String {
        let own = self.side.found.names.first();
        own.cloned().unwrap_or_else(|| self.stem.clone())
    }
}

/// Which studies belong together, and which stand alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Places in both lists.
    pub together: Vec<(usize, usize)>,
    /// Names of what only the first side has.
    pub only_a: Vec<String>,
    /// Names of what only the second side has.
    pub only_b: Vec<String>,
    /// What was odd.
    pub warnings: Vec<String>,
}

/// Pairs two sides by study: by series or study name, among several of one study by file name.
/// One study on each side is a pair, whatever it is called.
pub fn pair(a: &Sides, b: &Sides) -> Pairs {
    let mut out = Pairs::default();
    if let ([x], [y]) = (a.list.as_slice(), b.list.as_slice()) {
        let (m, n) = (&x.side.found, &y.side.found);
        if !m.names.is_empty() && !n.names.is_empty() && !m.shares_name_with(n) {
            let both_own = x.side.own.is_some() && y.side.own.is_some();
            if both_own {
                out.warnings.push(format!(
                    "the studies are named differently ({} and {}); they are compared as one",
                    x.name(),
                    y.name()
                ));
            }
        }
        out.together.push((0, 0));
        return out;
    }
    let mut taken = vec![false; b.list.len()];
    let mut of_a = vec![None; a.list.len()];
    for pass in 0..3 {
        for (i, x) in a.list.iter().enumerate() {
            if of_a[i].is_some() {
                continue;
            }
            let fits = |y: &Loaded| {
                let named = x.side.found.shares_name_with(&y.side.found);
                match pass {
                    0 => named && x.stem == y.stem,
                    1 => named,
                    _ => {
                        x.stem == y.stem
                            && (x.side.found.names.is_empty() || y.side.found.names.is_empty())
                    }
                }
            };
            let free: Vec<usize> = (0..b.list.len())
                .filter(|&j| !taken[j] && fits(&b.list[j]))
                .collect();
            if let Some(&j) = free.first() {
                if free.len() > 1 {
                    out.warnings.push(format!(
                        "{} fits several results of the other side; the first by name was taken: {}",
                        x.side.name, b.list[j].side.name
                    ));
                }
                (of_a[i], taken[j]) = (Some(j), true);
            }
        }
    }
    for (i, j) in of_a.iter().enumerate() {
        match j {
            Some(j) => out.together.push((i, *j)),
            None => out.only_a.push(a.list[i].name()),
        }
    }
    let alone = (0..b.list.len()).filter(|&j| !taken[j]);
    out.only_b = alone.map(|j| b.list[j].name()).collect();
    // One file held against a file of many studies is about its own study alone.
    for (one, many, word) in [
        (a, &mut out.only_b, "second"),
        (b, &mut out.only_a, "first"),
    ] {
        if one.list.len() == 1 && !one.folder && !out.together.is_empty() && !many.is_empty() {
            out.warnings.push(format!(
                "{} more studies of the {word} side were not asked about",
                many.len()
            ));
            many.clear();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Affine, Extent};

    fn named(list: &[(&str, &str)]) -> Sides {
        let loaded = |&(name, stem): &(&str, &str)| Loaded {
            side: Side::of(
                stem,
                Findings {
                    names: if name.is_empty() {
                        Vec::new()
                    } else {
                        names_of(name)
                    },
                    ..Findings::default()
                },
            ),
            stem: stem.to_owned(),
            ..Loaded::default()
        };
        Sides {
            list: list.iter().map(loaded).collect(),
            folder: true,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn studies_are_paired_by_name_and_among_several_by_file() {
        let a = named(&[
            ("/x/1.2.nii.gz", "p"),
            ("1.3", "q"),
            ("1.4", "r"),
            ("1.5", "s"),
        ]);
        let b = named(&[
            ("1.5", "t"),
            ("1.3", "z"),
            ("1.3", "q"),
            ("1.2", "u"),
            ("1.9", "v"),
        ]);
        let p = pair(&a, &b);
        assert_eq!(p.together, [(0, 3), (1, 2), (3, 0)]);
        assert_eq!(
            (p.only_a, p.only_b),
            (
                vec!["1.4".to_owned()],
                vec!["1.3".to_owned(), "1.9".to_owned()]
            )
        );
        assert_eq!(
            pair(&named(&[("x", "a")]), &named(&[("y", "b")])).together,
            [(0, 0)]
        );
        let mut one = named(&[("1.3", "a")]);
        one.folder = false;
        let p = pair(&one, &b);
        assert_eq!(
            (p.together.len(), p.only_b.len(), p.warnings.len()),
            (1, 0, 2)
        );
    }

    #[test]
    fn a_volume_of_fractions_is_no_label_mask() {
        let volume = |voxels| Volume {
            extent: Extent::new(2, 1, 1),
            affine: Affine::axis_aligned([1.0; 3]),
            voxels,
            padding: None,
            is_hu: false,
            z_spacing_known: true,
        };
        let good = mask(&volume(Voxels::F32(vec![0.0, 300.0])), Vec::new()).unwrap();
        assert_eq!(good.values, [0, 300]);
        assert!(mask(&volume(Voxels::F32(vec![0.5, 1.0])), Vec::new()).is_err());
        assert!(mask(&volume(Voxels::I16(vec![-1, 1])), Vec::new()).is_err());
    }
}
