//! Colours of charts, once for window, SVG and page: the tokens of the visual system by name.

use crate::memory::Verdict;
use crate::memory::budget::PartName;

/// A colour as red, green, blue.
pub type Rgb = [u8; 3];

/// Page and plot grounds.
pub const BG: Rgb = [0x0F, 0x13, 0x16];
/// Docks and plots.
pub const PANEL: Rgb = [0x17, 0x1C, 0x20];
/// Separators and grid lines.
pub const LINE: Rgb = [0x2A, 0x32, 0x38];
/// Ticks.
pub const LINE_STRONG: Rgb = [0x3A, 0x44, 0x4B];
/// The card in focus, behind its row.
pub const SELECT_ROW: Rgb = [0x24, 0x2D, 0x33];
/// Text.
pub const TEXT: Rgb = [0xD6, 0xDC, 0xE0];
/// Captions.
pub const SECONDARY: Rgb = [0x9A, 0xA6, 0xAD];
/// Headings and the number that answers the question.
pub const STRONG: Rgb = [0xFF, 0xFF, 0xFF];
/// It fits.
pub const FITS: Rgb = [0x4F, 0xC3, 0xF7];
/// It is tight.
pub const TIGHT: Rgb = [0xFF, 0xC8, 0x3D];
/// It does not fit.
pub const OVER: Rgb = [0xFF, 0x5C, 0x5C];
/// Tiled runs.
pub const TILED: Rgb = [0xE6, 0x9F, 0x00];
/// Reference runs.
pub const REFERENCE: Rgb = [0x56, 0xB4, 0xE9];
/// Weights, context and whatever lives throughout, in the timeline.
pub const GREY: Rgb = [0x8A, 0x94, 0x9A];

/// Colours of the groups of a timeline, in the order in which they first appear.
pub const SERIES: [Rgb; 7] = [
    [0xD5, 0x5E, 0x00],
    [0x00, 0x72, 0xB2],
    [0xF0, 0xE4, 0x42],
    [0xCC, 0x79, 0xA7],
    [0x00, 0x9E, 0x73],
    [0xE6, 0x9F, 0x00],
    [0x56, 0xB4, 0xE9],
];

/// Fill of a part of the budget.
pub const fn part(name: PartName) -> Rgb {
    match name {
        PartName::Context => GREY,
        PartName::Display => [0x6B, 0x77, 0x7E],
        PartName::Weights => [0xCC, 0x79, 0xA7],
        PartName::Gradients => [0xD5, 0x5E, 0x00],
        PartName::Optimizer => [0xA8, 0x5A, 0x2A],
        PartName::Input => [0xF0, 0xE4, 0x42],
        PartName::Activations => [0x00, 0x72, 0xB2],
        PartName::Stitched => [0x00, 0x9E, 0x73],
        PartName::CountMap => [0x3F, 0xC7, 0x9D],
        PartName::Allocator => [0x5A, 0x65, 0x6C],
        PartName::Workspace => [0xE6, 0x9F, 0x00],
    }
}

/// Text in a part's colour, light enough for a dark ground.
pub const fn part_text(name: PartName) -> Rgb {
    match name {
        PartName::Weights => [0xE5, 0x9B, 0xC4],
        PartName::Activations => [0x5F, 0xB4, 0xE6],
        PartName::Stitched | PartName::CountMap => [0x3F, 0xC7, 0x9D],
        PartName::Gradients | PartName::Optimizer => [0xF0, 0x8A, 0x4B],
        PartName::Allocator | PartName::Context | PartName::Display => SECONDARY,
        PartName::Input | PartName::Workspace => part(name),
    }
}

/// Colour of a verdict.
pub const fn verdict(v: Verdict) -> Rgb {
    match v {
        Verdict::Fits => FITS,
        Verdict::Tight => TIGHT,
        Verdict::Over => OVER,
    }
}

/// Word of a verdict.
pub const fn verdict_word(v: Verdict) -> &'static str {
    match v {
        Verdict::Fits => "fits",
        Verdict::Tight => "tight",
        Verdict::Over => "OVER",
    }
}

/// Viridis from 0 (dark) to 1 (bright).
pub fn viridis(share: f64) -> Rgb {
    const STOPS: [Rgb; 9] = [
        [0x44, 0x01, 0x54],
        [0x47, 0x2D, 0x7B],
        [0x3B, 0x52, 0x8B],
        [0x2C, 0x72, 0x8E],
        [0x21, 0x91, 0x8C],
        [0x28, 0xAE, 0x80],
        [0x5E, 0xC9, 0x62],
        [0xAD, 0xDC, 0x30],
        [0xFD, 0xE7, 0x25],
    ];
    between(&STOPS, share)
}

/// Inferno from 0 (dark) to 1 (bright).
pub fn inferno(share: f64) -> Rgb {
    const STOPS: [Rgb; 9] = [
        [0x00, 0x00, 0x04],
        [0x21, 0x0C, 0x4A],
        [0x57, 0x10, 0x6E],
        [0x8A, 0x22, 0x6A],
        [0xBC, 0x37, 0x54],
        [0xE4, 0x55, 0x2D],
        [0xF9, 0x8C, 0x0A],
        [0xF9, 0xC9, 0x32],
        [0xFC, 0xFF, 0xA4],
    ];
    between(&STOPS, share)
}

/// Diverging from -1 (blue) over 0 (white) to 1 (orange): the hues of reference and tiled, which colour blindness keeps apart.
pub fn diverging(share: f64) -> Rgb {
    const STOPS: [Rgb; 9] = [
        [0x0B, 0x4F, 0x8A],
        [0x2A, 0x80, 0xBF],
        [0x56, 0xB4, 0xE9],
        [0xAE, 0xDA, 0xF4],
        [0xF7, 0xF7, 0xF7],
        [0xF7, 0xD9, 0x9E],
        [0xE6, 0x9F, 0x00],
        [0xC0, 0x6A, 0x00],
        [0x8A, 0x3B, 0x00],
    ];
    between(&STOPS, 0.5 + 0.5 * share.clamp(-1.0, 1.0))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..=255 before the cast"
)]
fn between(stops: &[Rgb; 9], share: f64) -> Rgb {
    let at = share.clamp(0.0, 1.0) * 8.0;
    let i = (at.floor() as usize).min(7);
    let t = at - i as f64;
    std::array::from_fn(|c| {
        let (a, b) = (f64::from(stops[i][c]), f64::from(stops[i + 1][c]));
        (a + t * (b - a)).round().clamp(0.0, 255.0) as u8
    })
}

/// As an SVG or HTML colour.
pub fn hex([r, g, b]: Rgb) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}
