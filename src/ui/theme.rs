//! Every colour and size of the window's visual system as named tokens: dark (default), light and high contrast.

use eframe::egui::{
    self, Color32, CornerRadius, Margin, Shadow, Stroke, Vec2, style::WidgetVisuals, vec2,
};
use serde::{Deserialize, Serialize};

/// Which palette the window uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThemeKind {
    /// For the reading room.
    #[default]
    Dark,
    /// For a bright office.
    Light,
    /// Black, white and strong lines.
    HighContrast,
}

/// Colour tokens; the same names as in the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Which palette this is.
    pub kind: ThemeKind,
    /// Window, input fields, gaps.
    pub bg: Color32,
    /// Docks and plots.
    pub panel: Color32,
    /// Buttons, popups, message cards.
    pub raised: Color32,
    /// Separators and grid lines.
    pub line: Color32,
    /// Borders of fields, buttons, popups.
    pub line_strong: Color32,
    /// Selected row or series.
    pub select: Color32,
    /// Segment that is on; anything pressed.
    pub segment_on: Color32,
    /// The card row in focus behind a plot.
    pub select_row_plot: Color32,
    /// Hovered fill.
    pub hover: Color32,
    /// Hovered border.
    pub hover_border: Color32,
    /// The one best next step of a panel.
    pub primary: Color32,
    /// Its border.
    pub primary_border: Color32,
    /// Text on `primary`.
    pub on_primary: Color32,
    /// Text.
    pub text: Color32,
    /// Captions and hints.
    pub secondary: Color32,
    /// Controls that cannot act.
    pub disabled: Color32,
    /// Headings, the selected item, the number that answers the question.
    pub strong: Color32,
    /// Fits.
    pub fits: Color32,
    /// Tight.
    pub tight: Color32,
    /// Over.
    pub over: Color32,
}

const fn hex(rgb: u32) -> Color32 {
    let [_, r, g, b] = rgb.to_be_bytes();
    Color32::from_rgb(r, g, b)
}

impl Theme {
    /// The tokens of one palette.
    pub const fn new(kind: ThemeKind) -> Self {
        match kind {
            ThemeKind::Dark => Self {
                kind,
                bg: hex(0x0F_1316),
                panel: hex(0x17_1C20),
                raised: hex(0x1F_262B),
                line: hex(0x2A_3238),
                line_strong: hex(0x3A_444B),
                select: hex(0x2B_3A44),
                segment_on: hex(0x33_414A),
                select_row_plot: hex(0x24_2D33),
                hover: hex(0x2A_343A),
                hover_border: hex(0x6B_777E),
                primary: hex(0x2F_4554),
                primary_border: hex(0x6E_8FA3),
                on_primary: hex(0xFF_FFFF),
                text: hex(0xD6_DCE0),
                secondary: hex(0x9A_A6AD),
                disabled: hex(0x6B_777E),
                strong: hex(0xFF_FFFF),
                fits: hex(0x4F_C3F7),
                tight: hex(0xFF_C83D),
                over: hex(0xFF_5C5C),
            },
            ThemeKind::Light => Self {
                kind,
                bg: hex(0xE4_E9EC),
                panel: hex(0xF6_F8F9),
                raised: hex(0xFF_FFFF),
                line: hex(0xD3_DADE),
                line_strong: hex(0xA3_AFB6),
                select: hex(0xCF_E1EC),
                segment_on: hex(0xCA_DAE4),
                select_row_plot: hex(0xE3_ECF1),
                hover: hex(0xE9_F0F4),
                hover_border: hex(0x5F_6C74),
                primary: hex(0x23_5672),
                primary_border: hex(0x17_3C50),
                on_primary: hex(0xFF_FFFF),
                text: hex(0x1E_262B),
                secondary: hex(0x4A_565D),
                disabled: hex(0x80_8B92),
                strong: hex(0x00_0000),
                fits: hex(0x00_639C),
                tight: hex(0x85_5600),
                over: hex(0xB5_1D1D),
            },
            ThemeKind::HighContrast => Self {
                kind,
                bg: hex(0x00_0000),
                panel: hex(0x00_0000),
                raised: hex(0x14_1A1E),
                line: hex(0x7A_868D),
                line_strong: hex(0xFF_FFFF),
                select: hex(0x1D_4E6B),
                segment_on: hex(0x1D_4E6B),
                select_row_plot: hex(0x16_2A36),
                hover: hex(0x1D_3A4B),
                hover_border: hex(0xFF_FFFF),
                primary: hex(0x1D_4E6B),
                primary_border: hex(0xFF_FFFF),
                on_primary: hex(0xFF_FFFF),
                text: hex(0xFF_FFFF),
                secondary: hex(0xE0_E6EA),
                disabled: hex(0x9A_A6AD),
                strong: hex(0xFF_FFFF),
                fits: hex(0x6F_D3FF),
                tight: hex(0xFF_D560),
                over: hex(0xFF_8080),
            },
        }
    }

    /// The tokens in force.
    pub fn of(ctx: &egui::Context) -> Self {
        ctx.data(|d| d.get_temp(egui::Id::unique("voxfit-theme")))
            .unwrap_or(Self::new(ThemeKind::Dark))
    }

    /// Puts the tokens into egui's style, and remembers them for [`Theme::of`].
    pub fn apply(self, ctx: &egui::Context) {
        ctx.data_mut(|d| d.insert_temp(egui::Id::unique("voxfit-theme"), self));
        ctx.set_theme(if self.kind == ThemeKind::Light {
            egui::Theme::Light
        } else {
            egui::Theme::Dark
        });
        ctx.all_styles_mut(|style| self.style(style));
    }

    /// Text on a primary card, or on a plain one.
    pub const fn on_primary_or(&self, primary: bool) -> Color32 {
        if primary { self.on_primary } else { self.text }
    }

    /// A colour as text on a panel: mixed with the strongest text until it can be read there.
    pub fn legible(&self, color: Color32) -> Color32 {
        (0u8..10)
            .map(|tenths| color.lerp_to_gamma(self.strong, f32::from(tenths) / 10.0))
            .find(|c| contrast(*c, self.panel) >= 4.5)
            .unwrap_or(self.strong)
    }

    /// A status colour on a primary card: light themes have dark primaries, so the brightest statuses stand there.
    pub fn status_on_primary(&self, status: Color32, primary: bool) -> Color32 {
        if !primary || self.kind != ThemeKind::Light {
            return status;
        }
        let bright = Self::new(ThemeKind::HighContrast);
        [
            (self.fits, bright.fits),
            (self.tight, bright.tight),
            (self.over, bright.over),
        ]
        .into_iter()
        .find_map(|(from, to)| (from == status).then_some(to))
        .unwrap_or(status)
    }

    fn widget(fill: Color32, border: Color32, text: Color32) -> WidgetVisuals {
        WidgetVisuals {
            bg_fill: fill,
            weak_bg_fill: fill,
            bg_stroke: Stroke::new(1.0, border),
            corner_radius: CornerRadius::same(4),
            fg_stroke: Stroke::new(1.0, text),
            expansion: 0.0,
        }
    }

    fn style(&self, style: &mut egui::Style) {
        use super::fonts;
        style.text_styles = fonts::text_styles();
        style.animation_time = 0.08;
        style.interaction.selectable_labels = false;
        style.interaction.tooltip_delay = 0.35;
        let s = &mut style.spacing;
        s.item_spacing = vec2(8.0, 4.0);
        s.button_padding = vec2(12.0, 3.0);
        s.interact_size = vec2(24.0, 24.0);
        s.menu_margin = Margin::same(4);
        s.window_margin = Margin::same(12);
        s.icon_width = 16.0;
        s.icon_width_inner = 10.0;
        s.icon_spacing = 8.0;
        s.slider_rail_height = 4.0;
        s.combo_height = 400.0;
        s.scroll.bar_width = 8.0;
        let v = &mut style.visuals;
        v.dark_mode = self.kind != ThemeKind::Light;
        v.override_text_color = None;
        v.widgets.noninteractive = Self::widget(self.panel, self.line, self.text);
        v.widgets.inactive = Self::widget(self.raised, self.line_strong, self.text);
        v.widgets.hovered = Self::widget(self.hover, self.hover_border, self.strong);
        v.widgets.active = Self::widget(self.segment_on, self.hover_border, self.strong);
        v.widgets.open = Self::widget(self.segment_on, self.line_strong, self.strong);
        v.selection.bg_fill = self.select;
        v.selection.stroke = Stroke::new(1.0, self.strong);
        v.weak_text_color = Some(self.secondary);
        v.hyperlink_color = self.text;
        v.faint_bg_color = self.panel;
        v.extreme_bg_color = self.bg;
        v.text_edit_bg_color = Some(self.bg);
        v.panel_fill = self.panel;
        v.window_fill = self.raised;
        v.window_stroke = Stroke::new(1.0, self.line_strong);
        v.window_corner_radius = CornerRadius::same(4);
        v.menu_corner_radius = CornerRadius::same(4);
        let shadow = Shadow {
            offset: [0, 4],
            blur: 8,
            spread: 0,
            color: Color32::from_black_alpha(115),
        };
        v.popup_shadow = shadow;
        v.window_shadow = shadow;
        v.warn_fg_color = self.tight;
        v.error_fg_color = self.over;
        v.text_cursor.stroke = Stroke::new(1.5, self.strong);
        v.text_cursor.blink = false;
        v.slider_trailing_fill = false;
    }
}

/// How light a colour is, 0 to 1 (WCAG).
fn luminance(c: Color32) -> f64 {
    let lin = |v: u8| {
        let v = f64::from(v) / 255.0;
        if v <= 0.040_45 {
            v / 12.92
        } else {
            ((v + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * lin(c.r()) + 0.7152 * lin(c.g()) + 0.0722 * lin(c.b())
}

/// The contrast ratio of two colours, 1 to 21 (WCAG).
fn contrast(a: Color32, b: Color32) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// Colours of parts and series, the same in every theme and workspace (Okabe-Ito).
pub mod hue {
    use super::{Color32, hex};
    /// Activations.
    pub const ACTIVATIONS: Color32 = hex(0x00_72B2);
    /// Text of activations.
    pub const ACTIVATIONS_TEXT: Color32 = hex(0x5F_B4E6);
    /// Workspace; tiled boxes and curves.
    pub const WORKSPACE: Color32 = hex(0xE6_9F00);
    /// Stitched outputs.
    pub const STITCHED: Color32 = hex(0x00_9E73);
    /// Text of stitched outputs.
    pub const STITCHED_TEXT: Color32 = hex(0x3F_C79D);
    /// Weights.
    pub const WEIGHTS: Color32 = hex(0xCC_79A7);
    /// Text of weights.
    pub const WEIGHTS_TEXT: Color32 = hex(0xE5_9BC4);
    /// Input.
    pub const INPUT: Color32 = hex(0xF0_E442);
    /// Stem.
    pub const STEM: Color32 = hex(0xD5_5E00);
    /// Text of the stem.
    pub const STEM_TEXT: Color32 = hex(0xF0_8A4B);
    /// Reference and the efficient set.
    pub const REFERENCE: Color32 = hex(0x56_B4E9);
    /// Tiled.
    pub const TILED: Color32 = WORKSPACE;
    /// Context.
    pub const CONTEXT: Color32 = hex(0x8A_949A);
    /// Allocator slack.
    pub const ALLOCATOR: Color32 = hex(0x5A_656C);
    /// Axial plane.
    pub const AXIAL: Color32 = hex(0xF2_706B);
    /// Coronal plane.
    pub const CORONAL: Color32 = hex(0x7B_C05B);
    /// Sagittal plane.
    pub const SAGITTAL: Color32 = hex(0xED_D54C);
    /// The strip over an odd series, on every theme.
    pub const STRIP: Color32 = hex(0xFF_C83D);
    /// Text and marks on it.
    pub const ON_STRIP: Color32 = hex(0x17_1C20);
    /// Text on a slice.
    pub const ON_SLICE: Color32 = hex(0xE6_EAEC);
}

/// Sizes in points at UI scale 100 %.
pub mod size {
    /// Top bar.
    pub const TOP_BAR: f32 = 36.0;
    /// Status bar.
    pub const STATUS_BAR: f32 = 24.0;
    /// Panel heading.
    pub const HEADING: f32 = 28.0;
    /// Form row.
    pub const FORM_ROW: f32 = 28.0;
    /// Field in a form row, segmented control, chip.
    pub const FIELD: f32 = 24.0;
    /// Button.
    pub const BUTTON: f32 = 28.0;
    /// Table row and table header.
    pub const ROW: f32 = 24.0;
    /// Panel inset.
    pub const INSET: f32 = 12.0;
    /// Rounding of fields, buttons, popups, chips.
    pub const ROUND: u8 = 4;
    /// Rounding of tags.
    pub const ROUND_TAG: u8 = 2;
}

/// The colour of a plane's name and of the crosshair line that stands for it.
pub const fn plane_color(plane: crate::geometry::Plane) -> Color32 {
    use crate::geometry::Plane;
    match plane {
        Plane::Axial => hue::AXIAL,
        Plane::Coronal => hue::CORONAL,
        Plane::Sagittal => hue::SAGITTAL,
    }
}

/// `color` at `alpha` 0 to 1.
pub fn fade(color: Color32, alpha: f32) -> Color32 {
    color.gamma_multiply(alpha)
}

/// White at `alpha` 0 to 1.
pub fn white(alpha: f32) -> Color32 {
    Color32::WHITE.gamma_multiply(alpha)
}

/// Black at `alpha` 0 to 1.
pub fn black(alpha: f32) -> Color32 {
    Color32::BLACK.gamma_multiply(alpha)
}

/// The smallest window that everything is laid out for.
pub const MIN_WINDOW: Vec2 = vec2(1024.0, 700.0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_legible_on_every_surface_of_every_theme() {
        for kind in [ThemeKind::Dark, ThemeKind::Light, ThemeKind::HighContrast] {
            let t = Theme::new(kind);
            for surface in [t.bg, t.panel, t.raised, t.select, t.select_row_plot] {
                assert!(contrast(t.text, surface) >= 7.0, "{kind:?} text");
                assert!(contrast(t.secondary, surface) >= 4.5, "{kind:?} secondary");
            }
            for status in [t.fits, t.tight, t.over] {
                assert!(contrast(status, t.panel) >= 4.5, "{kind:?} {status:?}");
            }
            assert!(contrast(t.on_primary, t.primary) >= 4.5);
            for status in [t.fits, t.tight, t.over] {
                let on_card = t.status_on_primary(status, true);
                assert!(contrast(on_card, t.primary) >= 3.0, "{kind:?} {status:?}");
            }
            for part in [
                hue::ACTIVATIONS_TEXT,
                hue::WORKSPACE,
                hue::INPUT,
                Color32::WHITE,
            ] {
                assert!(contrast(t.legible(part), t.panel) >= 4.5, "{kind:?}");
            }
        }
    }
}
