//! What is typed about windows, read and checked.

use super::{Blend, Layout, TilingError, TilingSpec, axis_name};
use crate::geometry::Extent;

/// What somebody asked for, over a manifest's defaults: `None` means not said.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Choice {
    /// Window size; 0 along an axis means the whole axis.
    pub roi_size: Option<Extent>,
    /// Share of the window per axis.
    pub overlap: Option<[f64; 3]>,
    /// Importance map.
    pub blend: Option<Blend>,
    /// Placement rule.
    pub layout: Option<Layout>,
}

impl Choice {
    /// The choice laid over defaults. In the aligned layout a given overlap or blend is refused; the defaults' fall away.
    pub fn over(&self, defaults: &TilingSpec) -> Result<TilingSpec, TilingError> {
        let layout = self.layout.unwrap_or(defaults.layout);
        let roi_size = self.roi_size.unwrap_or(defaults.roi_size);
        let spec = if layout == Layout::Aligned {
            if let Some([x, y, z]) = self.overlap {
                return Err(TilingError::Derived {
                    what: "overlap",
                    found: format!("{x},{y},{z}"),
                });
            }
            if let Some(b) = self.blend {
                return Err(TilingError::Derived {
                    what: "blend mode",
                    found: b.name().to_owned(),
                });
            }
            TilingSpec {
                roi_size,
                overlap: [0.0; 3],
                blend: Blend::Constant,
                layout,
            }
        } else {
            TilingSpec {
                roi_size,
                overlap: self.overlap.unwrap_or(defaults.overlap),
                blend: self.blend.unwrap_or(defaults.blend),
                layout,
            }
        };
        check(&spec)?;
        Ok(spec)
    }
}

/// Whether a spec's numbers are in range and agree with its layout.
pub(super) fn check(spec: &TilingSpec) -> Result<(), TilingError> {
    for (a, &o) in spec.overlap.iter().enumerate() {
        if !(0.0..1.0).contains(&o) {
            return Err(TilingError::OverlapRange {
                axis: axis_name(a),
                found: o,
            });
        }
    }
    if spec.layout == Layout::Aligned {
        if spec.overlap.iter().any(|&o| o != 0.0) {
            let [x, y, z] = spec.overlap;
            return Err(TilingError::Derived {
                what: "overlap",
                found: format!("{x},{y},{z}"),
            });
        }
        if spec.blend != Blend::Constant {
            return Err(TilingError::Derived {
                what: "blend mode",
                found: spec.blend.name().to_owned(),
            });
        }
    }
    Ok(())
}

/// Reads a roi as typed: `128x128x64`, where 0 or -1 means the whole axis (0 in the answer).
pub fn parse_roi(text: &str) -> Result<Extent, TilingError> {
    let bad = || TilingError::RoiText {
        found: text.to_owned(),
    };
    let parts: Vec<i64> = text
        .split(['x', 'X', '\u{d7}'])
        .map(|p| p.trim().parse::<i64>().map_err(|_not_a_number| bad()))
        .collect::<Result<_, _>>()?;
    let [x, y, z] = <[i64; 3]>::try_from(parts).map_err(|_not_three| bad())?;
    let mut out = [0; 3];
    for (a, &entry) in [x, y, z].iter().enumerate() {
        out[a] = match entry {
            -1 | 0 => 0,
            n => usize::try_from(n).map_err(|_negative| TilingError::RoiNegative {
                axis: axis_name(a),
                found: n,
            })?,
        };
    }
    Ok(out.into())
}

/// Reads an overlap as typed: one number for all axes, or three joined by commas.
pub fn parse_overlap(text: &str) -> Result<[f64; 3], TilingError> {
    let bad = || TilingError::OverlapText {
        found: text.to_owned(),
    };
    let parts: Vec<f64> = text
        .split(',')
        .map(|p| p.trim().parse::<f64>().map_err(|_not_a_number| bad()))
        .collect::<Result<_, _>>()?;
    let three = match *parts.as_slice() {
        [all] => [all; 3],
        [x, y, z] => [x, y, z],
        _ => return Err(bad()),
    };
    for (a, &o) in three.iter().enumerate() {
        if !(0.0..1.0).contains(&o) {
            return Err(TilingError::OverlapRange {
                axis: axis_name(a),
                found: o,
            });
        }
    }
    Ok(three)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roi_of_minus_one_or_zero_is_the_whole_axis_and_below_that_is_refused() {
        assert_eq!(parse_roi("-1x0x64").unwrap(), Extent::new(0, 0, 64));
        let said = parse_roi("128x-2x64").unwrap_err().to_string();
        assert!(said.contains("along y is -2"), "{said}");
        assert!(
            parse_roi("128x64")
                .unwrap_err()
                .to_string()
                .contains("128x64")
        );
        assert!(parse_roi("axbxc").is_err());
    }

    #[test]
    fn an_overlap_of_one_and_more_or_below_zero_or_nan_is_refused() {
        assert_eq!(parse_overlap("0.25").unwrap(), [0.25; 3]);
        assert_eq!(parse_overlap("0,0.5, 0.75").unwrap(), [0.0, 0.5, 0.75]);
        for text in ["1", "-0.1", "nan", "0.1,0.2", "x"] {
            assert!(parse_overlap(text).is_err(), "{text}");
        }
        assert!(
            parse_overlap("0.5,1.5,0")
                .unwrap_err()
                .to_string()
                .contains("along y is 1.5")
        );
    }

    #[test]
    fn the_aligned_layout_drops_a_manifests_overlap_and_refuses_a_given_one() {
        let manifest = TilingSpec {
            roi_size: Extent::cube(64),
            overlap: [0.25; 3],
            blend: Blend::Gaussian,
            layout: Layout::Monai,
        };
        let mut choice = Choice {
            layout: Some(Layout::Aligned),
            ..Choice::default()
        };
        assert_eq!(choice.over(&manifest).unwrap().overlap, [0.0; 3]);
        choice.overlap = Some([0.25; 3]);
        assert!(
            choice
                .over(&manifest)
                .unwrap_err()
                .to_string()
                .contains("derives its overlap")
        );
    }
}
