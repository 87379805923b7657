//! How large differences from the reference are near seams and elsewhere, as shares of the voxels of each.

use super::axes::{Axes, facts};
use super::figure;
use crate::review::reference::{BINS, bin_from};
use crate::ui::theme::{Theme, hue};
use crate::ui::{Cx, fonts, kit, paint};
use crate::units::with_thousands;
use eframe::egui::{Align2, Rect, Ui, WidgetInfo, accesskit::Role, pos2, vec2};

/// The least share that is drawn, as a power of ten.
const LEAST: f64 = -6.0;

/// Draws the plot, or says what it needs.
pub(super) fn show(ui: &mut Ui, cx: &Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let Some(d) = cx.state.seams.difference() else {
        let why = match &cx.state.seams.differed {
            Some(Err(why)) => why.clone(),
            None if cx.state.seams.diff_pending => "The outputs are being compared\u{2026}".to_owned(),
            _ => "A reference with kept outputs fills this plot: hold a run of this session as reference, or compare with a result that was run with --keep-outputs DIR".to_owned(),
        };
        kit::hint(ui, &why);
        return;
    };
    let mut counts = [[0_u64; BINS]; 2];
    for one in &d.list {
        for (sum, of) in counts.iter_mut().zip([&one.counts_near, &one.counts_far]) {
            for (s, n) in sum.iter_mut().zip(of) {
                *s += n;
            }
        }
    }
    let area = ui.available_rect_before_wrap();
    let side = if area.width() > 560.0 { 150.0 } else { 16.0 };
    let plot = Rect::from_min_max(area.min + vec2(84.0, 12.0), area.max - vec2(side, 44.0));
    if plot.height() < 40.0 {
        return;
    }
    let axes = Axes {
        plot,
        x: [0.0, BINS as f64],
        y: [LEAST, 0.0],
    };
    let rows: Vec<(f64, String)> = [
        (-6.0, "0"),
        (-4.0, "0.01 %"),
        (-2.0, "1 %"),
        (-1.0, "10 %"),
        (0.0, "100 %"),
    ]
    .map(|(v, text)| (v, text.to_owned()))
    .to_vec();
    axes.rows(ui.painter(), &rows, &t);
    let columns: Vec<(f64, String)> = (0..BINS)
        .filter(|b| *b == 0 || (b % 2 == 1 && *b > 1))
        .map(|b| {
            let text = match b {
                0 => "0".to_owned(),
                _ if bin_from(b) < 0.001 => format!("{:.0e}", bin_from(b)).replace('-', "\u{2212}"),
                _ => format!("{:.3}", bin_from(b))
                    .trim_end_matches('0')
                    .trim_end_matches('.')
                    .to_owned(),
            };
            (b as f64 + if b == 0 { 0.5 } else { 0.0 }, text)
        })
        .collect();
    axes.columns(ui.painter(), &columns, &t);
    axes.titles(
        ui.painter(),
        "difference from the reference, logit, half a decade a step",
        "share of voxels, log",
        &t,
    );
    let colors = [hue::TILED, hue::CONTEXT];
    for (i, (counts, color)) in counts.iter().zip(colors).enumerate() {
        let total = counts.iter().sum::<u64>().max(1);
        for (b, n) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let share = (*n as f64 / total as f64).log10().max(LEAST);
            let left = b as f64 + 0.12 + 0.38 * i as f64;
            let rect = Rect::from_min_max(
                pos2(axes.x(left), axes.y(share).min(plot.bottom() - 2.0)),
                pos2(axes.x(left + 0.38), plot.bottom()),
            );
            ui.painter().rect_filled(rect, 0, color);
        }
    }
    let corner = plot.right_top() + vec2(-6.0, 4.0);
    for (i, (text, color)) in ["near a seam", "elsewhere"]
        .into_iter()
        .zip(colors)
        .enumerate()
    {
        paint::cased(
            ui.painter(),
            corner + vec2(0.0, 17.0 * i as f32),
            Align2::RIGHT_TOP,
            text,
            fonts::caption_bold(),
            [t.legible(color), t.panel],
        );
    }
    let of = |f: fn(&crate::review::reference::Differences) -> f64| {
        figure(Some(d.list.iter().map(f).fold(0.0, f64::max)))
    };
    let flips: u64 = d.list.iter().map(|d| d.flips).sum();
    let list = [
        ("largest", of(|d| d.max)),
        ("mean near seams", of(|d| d.mean_near)),
        ("mean elsewhere", of(|d| d.mean_far)),
        ("flips", with_thousands(flips)),
    ];
    let spoken = format!(
        "Differences from the reference: at most {}, mean near seams {}, elsewhere {}",
        list[0].1, list[1].1, list[2].1
    );
    if side > 100.0 {
        let column = Rect::from_min_max(pos2(plot.right() + 20.0, plot.top()), area.max);
        facts(ui, column, &list, &t);
    }
    let id = ui.scope_id().with("histogram");
    let response = ui.interact(plot, id, eframe::egui::Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, &spoken));
}
