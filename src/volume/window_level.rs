//! Window level: which HU are black, which are white, and the presets on the digit keys.

use super::{Statistics, Volume};
use serde::{Deserialize, Serialize};

/// The display mapping: `center - width / 2` is black, `center + width / 2` is white, straight between.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowLevel {
    /// The HU of middle grey.
    pub center: f32,
    /// HU from black to white; never below [`WindowLevel::NARROWEST`].
    pub width: f32,
}

/// A named window level on a digit key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// The digit that sets it.
    pub key: char,
    /// What menus call it.
    pub name: &'static str,
    /// The mapping.
    pub window_level: WindowLevel,
}

const fn preset(key: char, name: &'static str, width: f32, center: f32) -> Preset {
    Preset {
        key,
        name,
        window_level: WindowLevel { center, width },
    }
}

impl WindowLevel {
    /// The least width: values of a volume of floats may lie between 0 and 1.
    pub const NARROWEST: f32 = 1e-3;
    /// Soft tissue.
    pub const SOFT: Self = Self::new(40.0, 400.0);
    /// Lung.
    pub const LUNG: Self = Self::new(-600.0, 1500.0);

    /// The presets of keys 1 to 6; 7 is [`WindowLevel::full`], 0 the study's own or [`WindowLevel::auto`].
    pub const PRESETS: [Preset; 6] = [
        preset('1', "Soft tissue", 400.0, 40.0),
        preset('2', "Lung", 1500.0, -600.0),
        preset('3', "Liver", 150.0, 90.0),
        preset('4', "Bone", 2500.0, 480.0),
        preset('5', "Brain", 80.0, 40.0),
        preset('6', "Mediastinum", 350.0, 50.0),
    ];

    /// A mapping from its center and width in HU.
    pub const fn new(center: f32, width: f32) -> Self {
        Self {
            center,
            width: if width > Self::NARROWEST {
                width
            } else {
                Self::NARROWEST
            },
        }
    }

    /// The mapping that shows `low` as black and `high` as white.
    pub fn between(low: f32, high: f32) -> Self {
        Self::new(0.5 * (low + high), high - low)
    }

    /// Black at the smallest and white at the largest value, padding left out.
    pub fn full(statistics: &Statistics) -> Self {
        Self::between(statistics.min, statistics.max)
    }

    /// Black at the 0.1 % and white at the 99.9 % percentile, padding left out.
    pub fn auto(statistics: &Statistics) -> Self {
        Self::between(statistics.percentile(0.1), statistics.percentile(99.9))
    }

    /// [`WindowLevel::auto`] of a volume; soft tissue when it holds no value.
    pub fn auto_of(volume: &Volume) -> Self {
        Statistics::of(volume).map_or(Self::SOFT, |s| Self::auto(&s))
    }

    /// The HU shown as black.
    pub fn black(self) -> f32 {
        self.center - 0.5 * self.width
    }

    /// Brightness of a value, 0 (black) to 1 (white); not a number is black.
    pub fn brightness(self, value: f32) -> f32 {
        let t = (value - self.black()) / self.width.max(Self::NARROWEST);
        if t > 0.0 { t.min(1.0) } else { 0.0 }
    }

    /// Grey of a value, 0 to 255, rounded to nearest.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "brightness is within 0 and 1"
    )]
    pub fn grey(self, value: f32) -> u8 {
        (self.brightness(value) * 255.0 + 0.5) as u8
    }
}

impl std::fmt::Display for WindowLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.width < 10.0 {
            let center = format!("{:.3}", self.center).replace('-', "\u{2212}");
            return write!(f, "W {:.3} L {center}", self.width);
        }
        let center = crate::units::Hu(self.center);
        write!(f, "W {} L {center}", self.width.round())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_window_level_are_black_and_white() {
        let lung = WindowLevel::LUNG;
        assert_eq!(lung.grey(-1350.0), 0);
        assert_eq!(lung.grey(-600.0), 128);
        assert_eq!(lung.grey(150.0), 255);
        assert_eq!(lung.grey(3000.0), 255);
        assert_eq!(lung.grey(f32::NAN), 0);
        assert_eq!(lung.to_string(), "W 1500 L \u{2212}600");
    }

    #[test]
    fn values_between_0_and_1_have_a_grey_ramp_of_their_own() {
        let level = WindowLevel::between(0.25, 0.75);
        assert_eq!([0.25, 0.5, 0.75].map(|v| level.grey(v)), [0, 128, 255]);
        assert_eq!(level.to_string(), "W 0.500 L 0.500");
    }

    #[test]
    fn a_window_level_of_no_width_still_divides() {
        assert_eq!(WindowLevel::new(5.0, -3.0).grey(6.0), 255);
        assert_eq!(WindowLevel::between(5.0, 5.0).grey(4.0), 0);
    }
}
