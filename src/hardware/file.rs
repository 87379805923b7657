//! The card file as it is written: every field optional and with its place, so that a bad figure is named by line.

use super::HardwareError;
use super::catalogue::{Card, CardFigures, CardMemory, CardPrice, CardRates, Ecc};
use crate::units::Bytes;
use serde::Deserialize;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    #[serde(skip)]
    pub(super) text: String,
    #[serde(rename = "schema")]
    _schema: Option<u32>,
    pub(super) defaults: Option<RawDefaults>,
    #[serde(default)]
    pub(super) card: Vec<RawCard>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDefaults {
    pub(super) driver_reserve_mib: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCard {
    pub(super) id: Spanned<String>,
    aliases: Option<Vec<String>>,
    name: Option<String>,
    vendor: Option<String>,
    form: Option<String>,
    architecture: Option<String>,
    compute_capability: Option<String>,
    released: Option<String>,
    ecc_on: Option<bool>,
    memory: Option<RawMemory>,
    rates: Option<RawRates>,
    price: Option<RawPrice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMemory {
    nameplate_gb: Option<Spanned<i64>>,
    smi_total_mib: Option<Spanned<i64>>,
    cuda_visible_mib: Option<Spanned<i64>>,
    ecc: Option<Ecc>,
    source: Option<String>,
    date: Option<String>,
    uncertain: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRates {
    bandwidth_gb_s: Option<Spanned<f64>>,
    fp32_tflops: Option<Spanned<f64>>,
    tensor_tflops: Option<Spanned<f64>>,
    power_w: Option<Spanned<f64>>,
    source: Option<String>,
    date: Option<String>,
    uncertain: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrice {
    usd: Spanned<f64>,
    source: Option<String>,
    date: Option<String>,
    uncertain: Option<Vec<String>>,
}

type Bad = (&'static str, Range<usize>, String);

impl RawFile {
    pub(super) fn read(text: &str, path: &Path) -> Result<Self, HardwareError> {
        let mut file: Self = toml::from_str(text).map_err(|e| {
            let start = e.span().map_or(0, |s| s.start);
            let line = 1 + text.bytes().take(start).filter(|b| *b == b'\n').count();
            let shown = text.lines().nth(line - 1).unwrap_or_default();
            let field = shown.split('=').next().unwrap_or_default().trim();
            HardwareError::BadField {
                line,
                field: if field.is_empty() { "(none)" } else { field }.to_owned(),
                reason: e.message().lines().collect::<Vec<_>>().join(" "),
                path: path.to_owned(),
            }
        })?;
        text.clone_into(&mut file.text);
        Ok(file)
    }
}

impl RawCard {
    /// A card that the catalogue does not have yet; `None` without a memory size.
    pub(super) fn fresh(&self, id: &str, driver_reserve: Bytes) -> Option<Card> {
        self.memory.as_ref()?.nameplate_gb.as_ref()?;
        Some(Card {
            id: id.to_owned(),
            aliases: Vec::new(),
            name: id.to_owned(),
            vendor: "unknown".to_owned(),
            form: "unknown".to_owned(),
            architecture: "unknown".to_owned(),
            compute_capability: None,
            released: "unknown".to_owned(),
            memory: CardMemory {
                nameplate_gb: 0,
                smi_total: None,
                cuda_visible: None,
                ecc: Ecc::None,
                figures: user_figures(),
            },
            rates: CardRates {
                figures: user_figures(),
                ..CardRates::default()
            },
            price: None,
            driver_reserve,
            ecc_on: false,
        })
    }

    /// Writes every given figure over the card's own.
    pub(super) fn apply(self, card: &mut Card) -> Result<(), Bad> {
        set(&mut card.aliases, self.aliases);
        set(&mut card.name, self.name);
        set(&mut card.vendor, self.vendor);
        set(&mut card.form, self.form);
        set(&mut card.architecture, self.architecture);
        set(&mut card.released, self.released);
        set(&mut card.ecc_on, self.ecc_on);
        if self.compute_capability.is_some() {
            card.compute_capability = self.compute_capability;
        }
        if let Some(m) = self.memory {
            m.apply(&mut card.memory)?;
        }
        if let Some(r) = self.rates {
            r.apply(&mut card.rates)?;
        }
        if let Some(p) = self.price {
            let usd = positive("price.usd", &p.usd, "US dollars, zero or more", true)?;
            let mut figures = user_figures();
            note(&mut figures, p.source, p.date, p.uncertain);
            card.price = Some(CardPrice { usd, figures });
        }
        Ok(())
    }
}

impl RawMemory {
    fn apply(self, memory: &mut CardMemory) -> Result<(), Bad> {
        if let Some(v) = &self.nameplate_gb {
            let gb = whole("memory.nameplate_gb", v, 1..=4096, "GB")?;
            memory.nameplate_gb = u32::try_from(gb).unwrap_or(u32::MAX);
        }
        if let Some(v) = &self.smi_total_mib {
            let mib = whole("memory.smi_total_mib", v, 256..=4_194_304, "MiB")?;
            memory.smi_total = Some(Bytes::mib(mib));
        }
        if let Some(v) = &self.cuda_visible_mib {
            let mib = whole("memory.cuda_visible_mib", v, 256..=4_194_304, "MiB")?;
            if let Some(total) = memory.smi_total
                && Bytes::mib(mib) > total
            {
                return Err((
                    "memory.cuda_visible_mib",
                    v.span(),
                    format!("expected no more than smi_total_mib ({total}), found {mib} MiB"),
                ));
            }
            memory.cuda_visible = Some(Bytes::mib(mib));
        }
        set(&mut memory.ecc, self.ecc);
        note(&mut memory.figures, self.source, self.date, self.uncertain);
        Ok(())
    }
}

impl RawRates {
    fn apply(self, rates: &mut CardRates) -> Result<(), Bad> {
        let fields = [
            (
                "rates.bandwidth_gb_s",
                self.bandwidth_gb_s,
                &mut rates.bandwidth_gb_s,
            ),
            (
                "rates.fp32_tflops",
                self.fp32_tflops,
                &mut rates.fp32_tflops,
            ),
            (
                "rates.tensor_tflops",
                self.tensor_tflops,
                &mut rates.tensor_tflops,
            ),
            ("rates.power_w", self.power_w, &mut rates.power_w),
        ];
        for (name, given, slot) in fields {
            if let Some(v) = &given {
                *slot = Some(positive(name, v, "a rate above zero", false)?);
            }
        }
        note(&mut rates.figures, self.source, self.date, self.uncertain);
        Ok(())
    }
}

fn user_figures() -> CardFigures {
    CardFigures {
        source: "user's card file".to_owned(),
        ..CardFigures::default()
    }
}

fn note(
    figures: &mut CardFigures,
    source: Option<String>,
    date: Option<String>,
    uncertain: Option<Vec<String>>,
) {
    // A corrected figure without a word of its own is the user's, not the old source's.
    figures.source = source.unwrap_or_else(|| "user's card file".to_owned());
    figures.date = date.unwrap_or_default();
    figures.uncertain = uncertain.unwrap_or_default();
}

fn set<T>(slot: &mut T, given: Option<T>) {
    if let Some(v) = given {
        *slot = v;
    }
}

fn whole(
    field: &'static str,
    v: &Spanned<i64>,
    range: std::ops::RangeInclusive<u64>,
    unit: &str,
) -> Result<u64, Bad> {
    match u64::try_from(*v.get_ref()) {
        Ok(n) if range.contains(&n) => Ok(n),
        _ => Err((
            field,
            v.span(),
            format!(
                "expected {} to {} {unit}, found {}",
                range.start(),
                range.end(),
                v.get_ref()
            ),
        )),
    }
}

fn positive(field: &'static str, v: &Spanned<f64>, expected: &str, zero: bool) -> Result<f64, Bad> {
    let x = *v.get_ref();
    if x.is_finite() && (x > 0.0 || (zero && x == 0.0)) {
        Ok(x)
    } else {
        Err((field, v.span(), format!("expected {expected}, found {x}")))
    }
}
