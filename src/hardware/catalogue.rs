//! The catalogue of cards: embedded figures, and a user's own file that adds, corrects and prices cards.

use super::HardwareError;
use super::file::RawFile;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::Path;

const BUILTIN: &str = include_str!("../../assets/cards.toml");

/// What error correction costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ecc {
    /// The card has none.
    #[default]
    None,
    /// Off as delivered; takes a sixteenth when on.
    GddrOff,
    /// On, and already taken off the total.
    GddrOn,
    /// Free of charge.
    Hbm,
}

/// Where a group of figures comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardFigures {
    /// In words.
    pub source: String,
    /// When it was written down.
    pub date: String,
    /// Figures of the group that nobody looked up.
    pub uncertain: Vec<String>,
}

/// The sizes of a card's memory. Never mixed: the maker's label, nvidia-smi's total, what CUDA sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardMemory {
    /// What the maker prints, in the maker's GB.
    pub nameplate_gb: u32,
    /// nvidia-smi's total.
    pub smi_total: Option<Bytes>,
    /// What CUDA reports; `None` where only the total is known.
    pub cuda_visible: Option<Bytes>,
    /// What error correction costs.
    pub ecc: Ecc,
    /// Where the figures come from.
    pub figures: CardFigures,
}

/// Speed and power.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CardRates {
    /// Memory bandwidth, 10^9 bytes a second.
    pub bandwidth_gb_s: Option<f64>,
    /// fp32 rate, 10^12 a second.
    pub fp32_tflops: Option<f64>,
    /// Dense fp16 rate with fp32 accumulate, 10^12 a second.
    pub tensor_tflops: Option<f64>,
    /// Board power in watts.
    pub power_w: Option<f64>,
    /// Where the figures come from.
    pub figures: CardFigures,
}

/// What a card costs: a default to edit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardPrice {
    /// US dollars.
    pub usd: f64,
    /// Where the figure comes from.
    pub figures: CardFigures,
}

/// One card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Lower case with dashes, such as `rtx-5070-ti`.
    pub id: String,
    /// Other spellings of the id.
    pub aliases: Vec<String>,
    /// Its name in full.
    pub name: String,
    /// The maker.
    pub vendor: String,
    /// Desktop, laptop, workstation or datacentre.
    pub form: String,
    /// The maker's name of the generation.
    pub architecture: String,
    /// CUDA compute capability; `None` where there is none.
    pub compute_capability: Option<String>,
    /// Year and month.
    pub released: String,
    /// Its memory.
    pub memory: CardMemory,
    /// Its speed.
    pub rates: CardRates,
    /// Its price; `None` where unknown.
    pub price: Option<CardPrice>,
    /// What the driver keeps where only nvidia-smi's total is known.
    pub driver_reserve: Bytes,
    /// Whether error correction is switched on (a user's choice on cards where it is off as delivered).
    pub ecc_on: bool,
}

impl Card {
    /// What CUDA sees of the card: the figure itself where known, else nvidia-smi's total less the driver's reserve.
    pub fn usable(&self) -> Bytes {
        let m = &self.memory;
        let visible = m.cuda_visible.unwrap_or_else(|| {
            m.smi_total
                .unwrap_or_else(|| Bytes::gib(u64::from(m.nameplate_gb)))
                .saturating_sub(self.driver_reserve)
        });
        if self.ecc_on && m.ecc == Ecc::GddrOff {
            let total = m.smi_total.unwrap_or(visible);
            visible.saturating_sub(Bytes(total.0 / 16))
        } else {
            visible
        }
    }

    /// Whether the usable size rests on a figure that nobody looked up.
    pub fn usable_is_uncertain(&self) -> bool {
        let doubt = |f: &str| self.memory.figures.uncertain.iter().any(|u| u == f);
        if self.memory.cuda_visible.is_some() {
            doubt("cuda_visible_mib")
        } else {
            true
        }
    }

    /// Whether it can be put into a machine and has CUDA, which both runtimes are planned for.
    pub fn can_be_bought(&self) -> bool {
        self.compute_capability.is_some() && self.form != "laptop"
    }

    /// Short label of a plot, such as "16 GB".
    pub fn nameplate(&self) -> String {
        format!("{} GB", self.memory.nameplate_gb)
    }

    /// The name without the maker's family word, as a plot prints it.
    pub fn short_name(&self) -> &str {
        self.name.strip_prefix("GeForce ").unwrap_or(&self.name)
    }
}

/// All cards, in the order of their size and then of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    cards: Vec<Card>,
}

/// One card as `voxfit cards --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CardRow {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The maker.
    pub vendor: String,
    /// Desktop, laptop, workstation or datacentre.
    pub form: String,
    /// CUDA compute capability.
    pub compute_capability: Option<String>,
    /// The maker's GB.
    pub nameplate_gb: u32,
    /// nvidia-smi's total in bytes.
    pub smi_total: Option<Bytes>,
    /// What CUDA sees, in bytes.
    pub usable: Bytes,
    /// What error correction costs.
    pub ecc: Ecc,
    /// 10^9 bytes a second.
    pub bandwidth_gb_s: Option<f64>,
    /// 10^12 a second.
    pub fp32_tflops: Option<f64>,
    /// 10^12 a second, fp16 with fp32 accumulate.
    pub tensor_tflops: Option<f64>,
    /// Watts.
    pub power_w: Option<f64>,
    /// US dollars.
    pub price_usd: Option<f64>,
    /// Figures that nobody looked up.
    pub uncertain: Vec<String>,
    /// Where the memory figures come from.
    pub source: String,
    /// When they were written down.
    pub date: String,
}

impl Card {
    /// The card as a row of a table.
    pub fn row(&self) -> CardRow {
        let mut uncertain = self.memory.figures.uncertain.clone();
        if self.memory.cuda_visible.is_none() {
            uncertain.push("usable".to_owned());
        }
        uncertain.extend(self.rates.figures.uncertain.iter().cloned());
        if let Some(price) = &self.price {
            uncertain.extend(price.figures.uncertain.iter().map(|u| format!("price_{u}")));
        }
        CardRow {
            id: self.id.clone(),
            name: self.name.clone(),
            vendor: self.vendor.clone(),
            form: self.form.clone(),
            compute_capability: self.compute_capability.clone(),
            nameplate_gb: self.memory.nameplate_gb,
            smi_total: self.memory.smi_total,
            usable: self.usable(),
            ecc: self.memory.ecc,
            bandwidth_gb_s: self.rates.bandwidth_gb_s,
            fp32_tflops: self.rates.fp32_tflops,
            tensor_tflops: self.rates.tensor_tflops,
            power_w: self.rates.power_w,
            price_usd: self.price.as_ref().map(|p| p.usd),
            uncertain,
            source: self.memory.figures.source.clone(),
            date: self.memory.figures.date.clone(),
        }
    }
}

impl Catalogue {
    /// The embedded catalogue.
    pub fn builtin() -> Self {
        let mut catalogue = Self { cards: Vec::new() };
        // The embedded file is checked by a test; a figure that cannot be read would leave its card out there.
        if let Ok(file) = RawFile::read(BUILTIN, Path::new("assets/cards.toml")) {
            let _added = catalogue.merge(file, Path::new("assets/cards.toml"));
        }
        catalogue
    }

    /// The embedded catalogue with a user's file on top: known ids are corrected field by field, others added.
    pub fn with_user_file(path: &Path) -> Result<Self, HardwareError> {
        let text = std::fs::read_to_string(path).map_err(|e| HardwareError::Unreadable {
            reason: e.to_string(),
            path: path.to_owned(),
        })?;
        Self::with_user_text(&text, path)
    }

    /// As [`Catalogue::with_user_file`], from text already read; `path` is for messages.
    pub fn with_user_text(text: &str, path: &Path) -> Result<Self, HardwareError> {
        let mut catalogue = Self::builtin();
        catalogue.merge(RawFile::read(text, path)?, path)?;
        Ok(catalogue)
    }

    /// All cards, smallest first.
    pub fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// The card with this id or alias.
    pub fn get(&self, id: &str) -> Result<&Card, HardwareError> {
        let wanted = id.trim().to_ascii_lowercase();
        self.cards
            .iter()
            .find(|c| c.id == wanted || c.aliases.contains(&wanted))
            .ok_or_else(|| HardwareError::UnknownCard {
                id: id.to_owned(),
                near: self.near(&wanted),
            })
    }

    /// Cards whose id or name holds every word of `text`, or whose nameplate is "N gb".
    pub fn filter(&self, text: &str) -> Vec<&Card> {
        let words: Vec<String> = text
            .split_whitespace()
            .map(|w| w.to_ascii_lowercase())
            .collect();
        self.cards
            .iter()
            .filter(|c| {
                let hay = format!(
                    "{} {} {} {} {}gb",
                    c.id, c.name, c.form, c.vendor, c.memory.nameplate_gb
                )
                .to_ascii_lowercase();
                words.iter().all(|w| hay.contains(w.as_str()))
            })
            .collect()
    }

    /// The six cards that a plan is first shown against, from 8 to 80 GB.
    pub fn shown_by_default(&self) -> Vec<&Card> {
        [
            "rtx-4060",
            "rtx-5070",
            "rtx-5070-ti",
            "rtx-4090",
            "a100-40gb",
            "rtx-6000-ada",
            "h100-80gb",
        ]
        .iter()
        .filter_map(|id| self.get(id).ok())
        .collect()
    }

    fn near(&self, wanted: &str) -> String {
        let letters = |s: &str| -> Vec<char> { s.chars().filter(|c| *c != '-').collect() };
        let w = letters(wanted);
        let mut scored: Vec<(usize, &str)> = self
            .cards
            .iter()
            .map(|c| {
                let have = letters(&c.id);
                let common = w.iter().zip(&have).take_while(|(a, b)| a == b).count();
                let shared = w.iter().filter(|ch| have.contains(ch)).count();
                (2 * common + shared, c.id.as_str())
            })
            .collect();
        scored.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        let best: Vec<&str> = scored.iter().take(3).map(|(_, id)| *id).collect();
        best.join(", ")
    }

    fn merge(&mut self, file: RawFile, path: &Path) -> Result<(), HardwareError> {
        let reserve = file
            .defaults
            .and_then(|d| d.driver_reserve_mib)
            .map_or(Bytes::mib(470), Bytes::mib);
        for raw in file.card {
            let at = |field: &str, span: std::ops::Range<usize>, reason: String| {
                HardwareError::BadField {
                    line: line_of(&file.text, span.start),
                    field: field.to_owned(),
                    reason,
                    path: path.to_owned(),
                }
            };
            let id = raw.id.get_ref().trim().to_ascii_lowercase();
            let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if id.is_empty() || !id.chars().all(good) {
                let found = raw.id.get_ref();
                return Err(at(
                    "id",
                    raw.id.span(),
                    format!("expected letters, digits and dashes, found \"{found}\""),
                ));
            }
            let known = self.cards.iter().position(|c| c.id == id);
            let mut card = match known.and_then(|i| self.cards.get(i)) {
                Some(card) => card.clone(),
                None => raw.fresh(&id, reserve).ok_or_else(|| {
                    at(
                        "memory.nameplate_gb",
                        raw.id.span(),
                        format!("a new card needs its memory size, \"{id}\" has none"),
                    )
                })?,
            };
            raw.apply(&mut card)
                .map_err(|(field, span, reason)| at(field, span, reason))?;
            match known {
                Some(i) => self.cards[i] = card,
                None => self.cards.push(card),
            }
        }
        self.cards.sort_by_key(|c| c.memory.nameplate_gb);
        Ok(())
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|b| *b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_catalogue_holds_every_card_of_its_file_from_6_to_192_gb() {
        let catalogue = Catalogue::builtin();
        let written = BUILTIN.matches("[[card]]").count();
        assert_eq!(catalogue.cards().len(), written);
        assert!(written >= 20);
        let sizes: Vec<u32> = catalogue
            .cards()
            .iter()
            .map(|c| c.memory.nameplate_gb)
            .collect();
        assert!(sizes.is_sorted() && sizes.first() == Some(&6) && sizes.last() == Some(&192));
        for card in catalogue.cards() {
            let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(card.id.chars().all(good), "{}", card.id);
            assert_eq!(catalogue.get(&card.id).unwrap().id, card.id);
            let nameplate = Bytes::gib(u64::from(card.memory.nameplate_gb));
            let usable = card.usable();
            assert!(usable.0 < nameplate.0 * 103 / 100, "{} {usable}", card.id);
            assert!(usable.0 > nameplate.0 * 85 / 100, "{} {usable}", card.id);
            assert!(!card.memory.figures.source.is_empty() && card.memory.figures.date.len() == 10);
        }
        assert_eq!(catalogue.shown_by_default().len(), 7);
    }

    #[test]
    fn sixty_cards_and_more_have_every_figure_with_source_and_date_and_what_was_recalled_is_marked()
    {
        let catalogue = Catalogue::builtin();
        assert!(catalogue.cards().len() >= 60);
        let mut priced = 0;
        for c in catalogue.cards() {
            let (m, r) = (&c.memory, &c.rates);
            // nvidia-smi speaks of cards of its maker; one figure of these nobody found.
            let told = m.smi_total.is_some() || c.vendor != "NVIDIA";
            assert!(told || c.usable_is_uncertain(), "{}", c.id);
            for rate in [r.bandwidth_gb_s, r.fp32_tflops, r.tensor_tflops, r.power_w] {
                assert!(rate.is_some_and(|v| v > 0.0), "{}", c.id);
            }
            assert!(c.form != "unknown", "{}", c.id);
            assert_eq!(c.compute_capability.is_some(), c.vendor == "NVIDIA");
            assert!(!r.figures.source.is_empty() && r.figures.date.len() == 10);
            if r.figures.source.contains("recalled") {
                let marked = r.figures.uncertain.iter().any(|u| u == "tensor_tflops");
                assert!(marked, "{}", c.id);
            }
            if let Some(p) = &c.price {
                priced += 1;
                assert!(!p.figures.source.is_empty() && p.figures.date.len() == 10);
                let recalled = p.figures.source.contains("recalled");
                assert!(!recalled || !p.figures.uncertain.is_empty(), "{}", c.id);
            }
        }
        assert!(priced >= 60, "{priced}");
    }

    #[test]
    fn the_four_sizes_of_a_card_are_not_mixed() {
        let catalogue = Catalogue::builtin();
        let card = catalogue.get("rtx-5070-ti").unwrap();
        assert_eq!(card.memory.nameplate_gb, 16);
        assert_eq!(card.memory.smi_total, Some(Bytes::mib(16303)));
        assert_eq!(format!("{:.2}", card.usable().as_gib()), "15.47");
        assert!(card.usable_is_uncertain());
        for (id, gib) in [
            ("rtx-4060", "7.54"),
            ("a100-40gb", "39.54"),
            ("rtx-6000-ada", "47.53"),
        ] {
            assert_eq!(
                format!("{:.2}", catalogue.get(id).unwrap().usable().as_gib()),
                gib
            );
        }
    }

    #[test]
    fn error_correction_takes_a_sixteenth_of_gddr_and_nothing_of_hbm() {
        let catalogue = Catalogue::builtin();
        let mut card = catalogue.get("rtx-a6000").unwrap().clone();
        let off = card.usable();
        card.ecc_on = true;
        assert_eq!(
            off.saturating_sub(card.usable()),
            Bytes(Bytes::mib(49140).0 / 16)
        );
        let mut card = catalogue.get("a100-80gb").unwrap().clone();
        let off = card.usable();
        card.ecc_on = true;
        assert_eq!(card.usable(), off);
    }

    #[test]
    fn a_users_file_adds_corrects_and_prices_cards() {
        let text = "[[card]]\nid = \"my-lab-card\"\nname = \"Lab\"\nmemory = { nameplate_gb = 20, cuda_visible_mib = 20000 }\n\n[[card]]\nid = \"rtx-4090\"\nprice = { usd = 2100 }\n";
        let catalogue = Catalogue::with_user_text(text, Path::new("cards.toml")).unwrap();
        let mine = catalogue.get("my-lab-card").unwrap();
        assert_eq!(mine.usable(), Bytes::mib(20000));
        assert_eq!(mine.memory.figures.source, "user's card file");
        let known = catalogue.get("RTX-4090").unwrap();
        assert_eq!(known.price.as_ref().map(|p| p.usd), Some(2100.0));
        assert_eq!(known.memory.smi_total, Some(Bytes::mib(24564)));
    }

    #[test]
    fn a_bad_card_file_is_refused_with_line_and_field() {
        let cases = [
            (
                "[[card]]\nid = \"x\"\nmemory = { nameplate_gb = -4 }\n",
                "line 3, field memory.nameplate_gb",
            ),
            (
                "[[card]]\nid = \"x\"\n\n\n[card.memory]\nnameplate_gb = 16\nsmi_total_mib = 0\n",
                "line 7, field memory.smi_total_mib",
            ),
            (
                "[[card]]\nid = \"x\"\n",
                "line 2, field memory.nameplate_gb",
            ),
            ("[[card]]\nid = \"Big Card\"\n", "line 2, field id"),
            (
                "[[card]]\nid = \"rtx-4090\"\nprice = { usd = nan }\n",
                "line 3, field price.usd",
            ),
            (
                "[[card]]\nid = \"rtx-4090\"\nmemorry = 3\n",
                "line 3, field memorry",
            ),
            (
                "[[card]]\nid = \"rtx-4090\"\nrates = { power_w = \"lots\" }\n",
                "line 3, field rates",
            ),
            ("nonsense", "line 1"),
        ];
        for (text, expected) in cases {
            let error = Catalogue::with_user_text(text, Path::new("my/cards.toml"))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(expected) && error.ends_with("cards.toml"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_unknown_card_is_refused_with_the_nearest_names() {
        let error = Catalogue::builtin()
            .get("rtx-5070ti")
            .unwrap_err()
            .to_string();
        assert!(error.contains("rtx-5070-ti"), "{error}");
    }
}
