//! What throughput and cost are reckoned with: embedded defaults, each with source and date, and a user's own file on top.

use super::HardwareError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use toml::Spanned;

const BUILTIN: &str = include_str!("../../assets/costs.toml");

/// A figure that a cost is reckoned with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Knob {
    /// Years that a card serves.
    LifeYears,
    /// US dollars of host for each card.
    HostUsd,
    /// US dollars a kilowatt-hour.
    UsdPerKwh,
    /// Power of the site over power of the cards.
    SiteFactor,
    /// Power of a waiting card over its board power.
    IdleShare,
    /// Share of the busiest hour that cards may be busy.
    BusyAtMost,
    /// Studies of the busiest hour over the mean hour.
    PeakFactor,
    /// High end of a price over the price.
    PriceSpread,
    /// Share of the fp32 rate that is reached.
    ComputeShareFp32,
    /// Share of the tensor rate that is reached.
    ComputeShareTensor,
    /// Share of the memory bandwidth that is reached.
    BandwidthShare,
    /// A forecast time's range, as a factor either way.
    TimeSpread,
    /// The same once a run is measured.
    TimeSpreadMeasured,
    /// Voxels read and decoded in a second.
    LoadVoxelsPerS,
    /// Voxels resampled in a second.
    ResampleVoxelsPerS,
}

impl Knob {
    /// All of them, in the order of the file.
    pub const ALL: [Self; 15] = [
        Self::LifeYears,
        Self::HostUsd,
        Self::UsdPerKwh,
        Self::SiteFactor,
        Self::IdleShare,
        Self::BusyAtMost,
        Self::PeakFactor,
        Self::PriceSpread,
        Self::ComputeShareFp32,
        Self::ComputeShareTensor,
        Self::BandwidthShare,
        Self::TimeSpread,
        Self::TimeSpreadMeasured,
        Self::LoadVoxelsPerS,
        Self::ResampleVoxelsPerS,
    ];

    /// Its name in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LifeYears => "life_years",
            Self::HostUsd => "host_usd",
            Self::UsdPerKwh => "usd_per_kwh",
            Self::SiteFactor => "site_factor",
            Self::IdleShare => "idle_share",
            Self::BusyAtMost => "busy_at_most",
            Self::PeakFactor => "peak_factor",
            Self::PriceSpread => "price_spread",
            Self::ComputeShareFp32 => "compute_share_fp32",
            Self::ComputeShareTensor => "compute_share_tensor",
            Self::BandwidthShare => "bandwidth_share",
            Self::TimeSpread => "time_spread",
            Self::TimeSpreadMeasured => "time_spread_measured",
            Self::LoadVoxelsPerS => "load_voxels_per_s",
            Self::ResampleVoxelsPerS => "resample_voxels_per_s",
        }
    }

    /// What makes sense.
    pub const fn range(self) -> RangeInclusive<f64> {
        match self {
            Self::LifeYears => 0.1..=50.0,
            Self::HostUsd => 0.0..=1e6,
            Self::UsdPerKwh => 0.0..=100.0,
            Self::SiteFactor => 1.0..=10.0,
            Self::IdleShare => 0.0..=1.0,
            Self::BusyAtMost => 0.01..=1.0,
            Self::PeakFactor => 1.0..=24.0,
            Self::PriceSpread | Self::TimeSpread | Self::TimeSpreadMeasured => 1.0..=100.0,
            Self::ComputeShareFp32 | Self::ComputeShareTensor | Self::BandwidthShare => 0.001..=1.0,
            Self::LoadVoxelsPerS | Self::ResampleVoxelsPerS => 1e4..=1e12,
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// A figure with where it is from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The figure.
    pub value: f64,
    /// Where it is from, in words.
    pub source: String,
    /// When it was written down.
    pub date: String,
    /// Whether nobody looked it up.
    pub uncertain: bool,
}

/// All figures, and what renting takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    figures: [Figure; Knob::ALL.len()],
    rent: BTreeMap<String, Figure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(rename = "schema")]
    _schema: Option<u32>,
    #[serde(default)]
    figure: BTreeMap<String, RawFigure>,
    #[serde(default)]
    rent: BTreeMap<String, RawFigure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFigure {
    value: Spanned<f64>,
    source: Option<String>,
    date: Option<String>,
    uncertain: Option<bool>,
}

impl RawFigure {
    fn figure(self) -> Figure {
        Figure {
            value: *self.value.get_ref(),
            source: self.source.unwrap_or_else(|| "user's file".to_owned()),
            date: self.date.unwrap_or_default(),
            uncertain: self.uncertain.unwrap_or(false),
        }
    }
}

impl Costs {
    /// The embedded defaults.
    pub fn builtin() -> Self {
        let mut costs = Self::default();
        // The embedded file is checked by a test.
        let _read = costs.merge(BUILTIN, Path::new("assets/costs.toml"));
        costs
    }

    /// The defaults with a user's file on top.
    pub fn with_user_file(path: &Path) -> Result<Self, HardwareError> {
        let text = std::fs::read_to_string(path).map_err(|e| HardwareError::Unreadable {
            reason: e.to_string(),
            path: path.to_owned(),
        })?;
        Self::with_user_text(&text, path)
    }

    /// As [`Costs::with_user_file`], from text already read; `path` is for messages.
    pub fn with_user_text(text: &str, path: &Path) -> Result<Self, HardwareError> {
        let mut costs = Self::builtin();
        costs.merge(text, path)?;
        Ok(costs)
    }

    /// One figure's value.
    pub fn get(&self, knob: Knob) -> f64 {
        self.figure(knob).value
    }

    /// One figure with where it is from.
    pub fn figure(&self, knob: Knob) -> &Figure {
        &self.figures[knob.index()]
    }

    /// Sets a figure by hand; out of its range it is refused with a sentence.
    pub fn set(&mut self, knob: Knob, value: f64) -> Result<(), String> {
        checked(knob, value)?;
        let slot = &mut self.figures[knob.index()];
        if slot.value.total_cmp(&value).is_ne() {
            *slot = Figure {
                value,
                source: "set by hand".to_owned(),
                ..Figure::default()
            };
        }
        Ok(())
    }

    /// US dollars an hour of renting a card; `None` where nobody wrote it down.
    pub fn rent(&self, card: &str) -> Option<&Figure> {
        self.rent.get(card)
    }

    fn merge(&mut self, text: &str, path: &Path) -> Result<(), HardwareError> {
        let line_of = |offset: usize| 1 + text.bytes().take(offset).filter(|b| *b == b'\n').count();
        let bad = |line: usize, field: &str, reason: String| HardwareError::BadField {
            line,
            field: field.to_owned(),
            reason,
            path: path.to_owned(),
        };
        let raw: RawFile = toml::from_str(text).map_err(|e| {
            let line = line_of(e.span().map_or(0, |s| s.start));
            let shown = text.lines().nth(line - 1).unwrap_or_default();
            let field = shown.split('=').next().unwrap_or_default().trim();
            let reason = e.message().lines().collect::<Vec<_>>().join(" ");
            bad(
                line,
                if field.is_empty() { "(none)" } else { field },
                reason,
            )
        })?;
        for (name, figure) in raw.figure {
            let line = line_of(figure.value.span().start);
            let field = format!("figure.{name}.value");
            let Some(knob) = Knob::ALL.into_iter().find(|k| k.name() == name) else {
                let known: Vec<&str> = Knob::ALL.iter().map(|k| k.name()).collect();
                return Err(bad(
                    line,
                    &field,
                    format!("no such figure; there are {}", known.join(", ")),
                ));
            };
            checked(knob, *figure.value.get_ref()).map_err(|why| bad(line, &field, why))?;
            self.figures[knob.index()] = figure.figure();
        }
        for (card, figure) in raw.rent {
            let value = *figure.value.get_ref();
            if !(value.is_finite() && (0.0..=1e5).contains(&value)) {
                return Err(bad(
                    line_of(figure.value.span().start),
                    &format!("rent.{card}.value"),
                    format!("expected 0 to 100000 US dollars an hour, found {value}"),
                ));
            }
            self.rent.insert(card, figure.figure());
        }
        Ok(())
    }
}

fn checked(knob: Knob, value: f64) -> Result<(), String> {
    let range = knob.range();
    if range.contains(&value) {
        return Ok(());
    }
    Err(format!(
        "{} is a figure from {} to {}, found {value}",
        knob.name(),
        range.start(),
        range.end()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_in_its_range_with_a_source_and_a_date() {
        let mut costs = Costs::default();
        costs
            .merge(BUILTIN, Path::new("assets/costs.toml"))
            .unwrap();
        assert_eq!(costs, Costs::builtin());
        for (i, knob) in Knob::ALL.into_iter().enumerate() {
            assert_eq!(knob.index(), i);
            let f = costs.figure(knob);
            assert!(knob.range().contains(&f.value), "{knob:?}");
            assert!(!f.source.is_empty() && f.date.len() == 10, "{knob:?}");
        }
        let catalogue = crate::hardware::Catalogue::builtin();
        for (card, f) in &costs.rent {
            assert_eq!(&catalogue.get(card).unwrap().id, card);
            assert!(f.uncertain && f.date.len() == 10);
        }
    }

    #[test]
    fn a_bad_figure_is_refused_with_line_and_field_and_a_good_one_replaces_the_default() {
        let path = Path::new("my/costs.toml");
        for (text, expected) in [
            (
                "[figure.life_years]\nvalue = 0\n",
                "line 2, field figure.life_years.value",
            ),
            (
                "\n[figure.lifetime]\nvalue = 3\n",
                "line 3, field figure.lifetime.value",
            ),
            (
                "[rent.h100-80gb]\nvalue = -1\n",
                "line 2, field rent.h100-80gb.value",
            ),
            (
                "[figure.host_usd]\nvalue = \"much\"\n",
                "line 2, field value",
            ),
        ] {
            let error = Costs::with_user_text(text, path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let text = "[figure.usd_per_kwh]\nvalue = 0.31\n";
        let costs = Costs::with_user_text(text, path).unwrap();
        assert_eq!(costs.figure(Knob::UsdPerKwh).source, "user's file");
        assert!((costs.get(Knob::UsdPerKwh) - 0.31).abs() < 1e-12);
        assert!((costs.get(Knob::LifeYears) - 4.0).abs() < 1e-12);
    }
}
