//! The window's one family: a subset of Inter with tabular figures, regular and bold, and its five sizes.

use eframe::egui::{self, FontData, FontDefinitions, FontFamily, FontId, TextStyle};
use std::collections::BTreeMap;
use std::sync::Arc;

const REGULAR: &[u8] = include_bytes!("../../assets/fonts/voxfit-sans-regular.otf");
const BOLD: &[u8] = include_bytes!("../../assets/fonts/voxfit-sans-bold.otf");

fn bold_family() -> FontFamily {
    FontFamily::Name("bold".into())
}

/// Loads both weights in front of egui's own fonts, which stay as fallbacks.
pub fn install(ctx: &egui::Context) {
    let mut fonts = FontDefinitions::default();
    for (name, data) in [("regular", REGULAR), ("bold", BOLD)] {
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
