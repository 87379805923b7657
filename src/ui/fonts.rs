//! The window's one family: a subset of Inter with tabular figures, regular and bold, and its five sizes.

use eframe::egui::{self, FontData, FontDefinitions, FontFamily, FontId, TextStyle};
use std::collections::BTreeMap;
use std::sync::Arc;

const REGULAR: &[u8] = include_bytes!("../../assets/fonts/voxfit-sans-regular.otf");
const BOLD: &[u8] = include_bytes!("../../assets/fonts/voxfit-sans-bold.otf");

#[expect(
    clippy::large_include_file,
    reason = "the letters of Chinese, Japanese and Korean names; the binary must run from anywhere"
)]
/// Scripts that names are written in and the family has not, in the order they are asked.
const SCRIPTS: [(&str, &[u8]); 4] = [
    (
        "hebrew",
        include_bytes!("../../assets/fonts/voxfit-hebrew.ttf"),
    ),
    (
        "arabic",
        include_bytes!("../../assets/fonts/voxfit-arabic.ttf"),
    ),
    ("thai", include_bytes!("../../assets/fonts/voxfit-thai.ttf")),
    ("cjk", include_bytes!("../../assets/fonts/voxfit-cjk.ttf")),
];

fn bold_family() -> FontFamily {
    FontFamily::Name("bold".into())
}

/// Loads both weights in front of egui's own fonts, which stay as fallbacks, with the scripts of other names behind.
pub fn install(ctx: &egui::Context) {
    let mut fonts = FontDefinitions::default();
    for (name, data) in [("regular", REGULAR), ("bold", BOLD)] {
        fonts
            .font_data
            .insert(name.to_owned(), Arc::new(FontData::from_static(data)));
    }
    for (name, data) in SCRIPTS {
        fonts
            .font_data
            .insert(name.to_owned(), Arc::new(FontData::from_static(data)));
    }
    let fallback = fonts
        .families
        .get(&FontFamily::Proportional)
        .cloned()
        .unwrap_or_default();
    for (family, first) in [
        (FontFamily::Proportional, "regular"),
        (FontFamily::Monospace, "regular"),
        (bold_family(), "bold"),
    ] {
        let mut order = vec![first.to_owned()];
        order.extend(fallback.iter().cloned());
        order.extend(SCRIPTS.map(|(name, _)| name.to_owned()));
        fonts.families.insert(family, order);
    }
    ctx.set_fonts(fonts);
}

/// 14: interface, table cells, buttons.
pub fn body() -> FontId {
    FontId::new(14.0, FontFamily::Proportional)
}

/// 14 bold.
pub fn body_bold() -> FontId {
    FontId::new(14.0, bold_family())
}

/// 12: captions, axes, tags, corner text.
pub fn caption() -> FontId {
    FontId::new(12.0, FontFamily::Proportional)
}

/// 12 bold.
pub fn caption_bold() -> FontId {
    FontId::new(12.0, bold_family())
}

/// 16 bold: titles of cards.
pub fn title() -> FontId {
    FontId::new(16.0, bold_family())
}

/// 20 bold: one key figure of a plot.
pub fn figure() -> FontId {
    FontId::new(20.0, bold_family())
}

/// 24 bold: the welcome line.
pub fn welcome() -> FontId {
    FontId::new(24.0, bold_family())
}

/// egui's named styles in these sizes.
pub fn text_styles() -> BTreeMap<TextStyle, FontId> {
    [
        (TextStyle::Small, caption()),
        (TextStyle::Body, body()),
        (TextStyle::Button, body()),
        (TextStyle::Monospace, body()),
        (TextStyle::Heading, title()),
    ]
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_every_script_that_dicom_has_are_letters_and_no_boxes() {
        let ctx = egui::Context::default();
        install(&ctx);
        let _drawn = ctx.run_ui(egui::RawInput::default(), |_ui| {});
        for name in [
            "Äneas^Rüdiger Dvořák Łukasz Ġorġ Ģirts Şağdıç",
            "Διονυσιος Σάββας",
            "Иванов^Пётр Люкceмбypг",
            "قباني^لنزار",
            "שרון^דבורה",
            "นามสกุล^ชื่อ",
            "ﾔﾏﾀﾞ^ﾀﾛｳ=山田^太郎=やまだ^たろう ヤマダ",
            "Hong^Gildong=洪^吉洞=홍^길동",
            "王^小東=王^小东 张 丂丄侔",
        ] {
            for font in [body(), body_bold(), caption()] {
                let missing: String = name
                    .chars()
                    .filter(|c| !ctx.fonts_mut(|f| f.has_glyph(&font, *c)))
                    .collect();
                assert!(missing.is_empty(), "{name}: no letters for {missing}");
            }
        }
    }
}
