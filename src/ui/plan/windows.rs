//! Under the form: where windows lie, what they do to the bits, what is worth knowing, and the whole-volume guard.

use crate::app::Command;
use crate::geometry::Axis;
use crate::ui::theme::Theme;
use crate::ui::{Cx, fonts, kit, paint};
use eframe::egui::{self, Align2, Rect, Sense, Stroke, StrokeKind, Ui, pos2, vec2};

/// Draws the three sections.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    let plan = match &cx.state.derived.tiling {
        Some(Ok(plan)) => plan,
        Some(Err(why)) => {
            kit::heading(ui, "Windows", "", "");
            kit::note(ui, why);
            return;
        }
        None => {
            kit::heading(ui, "Windows", "", "");
            kit::caption(ui, "Open a study, or type a size");
            return;
        }
    };
    let n = plan.starts.each_ref().map(Vec::len);
    kit::heading(
        ui,
        "Windows",
        &plan.windows.len().to_string(),
        &format!("{}\u{d7}{}\u{d7}{}", n[0], n[1], n[2]),
    );
    for axis in Axis::ALL {
        let a = axis.index();
        strip(
            ui,
            axis.name(),
            &plan.starts[a],
            plan.roi.to_array()[a],
            plan.padded.to_array()[a],
        );
    }
    ui.add_space(8.0);
    kit::separator(ui);
    exactness(ui, cx);
    guard(ui, cx);
    let cliffs = cx
        .state
        .derived
        .budget()
        .map_or(0, |b| b.budget.cliffs.len());
    if cliffs > 0 || !cx.state.derived.warnings.is_empty() {
        kit::separator(ui);
        worth_knowing(ui, cx);
    }
}

/// Windows along one axis as two staggered rows, overlap hatched.
fn strip(ui: &mut Ui, name: &str, starts: &[usize], roi: usize, size: usize) {
    let t = Theme::of(ui.ctx());
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 26.0), Sense::hover());
    ui.painter().text(
        pos2(area.left() + 12.0, area.center().y),
        Align2::LEFT_CENTER,
        name,
        fonts::caption(),
        t.secondary,
    );
    let track = Rect::from_min_max(
        pos2(area.left() + 28.0, area.top() + 2.0),
        pos2(area.right() - 12.0, area.bottom() - 4.0),
    );
    ui.painter()
        .rect_stroke(track, 0, Stroke::new(1.0, t.line), StrokeKind::Inside);
    let x = |v: usize| egui::lerp(track.x_range(), (v as f32 / size.max(1) as f32).min(1.0));
    for (i, &start) in starts.iter().enumerate() {
        let top = if i % 2 == 0 {
            track.top()
        } else {
            track.center().y
        };
        let r = Rect::from_min_max(
            pos2(x(start), top + 1.0),
            pos2(x(start + roi), top + track.height() / 2.0 - 1.0),
        );
        ui.painter().rect(
            r,
            0,
            t.raised,
            Stroke::new(1.0, t.hover_border),
            StrokeKind::Inside,
        );
        if let Some(&next) = starts.get(i + 1)
            && next < start + roi
        {
            paint::hatch(
                ui.painter(),
                r.with_min_x(x(next)),
                4.0,
                Stroke::new(1.0, t.hover_border),
            );
        }
    }
}

fn exactness(ui: &mut Ui, cx: &Cx<'_>) {
    let Some(e) = &cx.state.derived.exactness else {
        return;
    };
    kit::heading(ui, "Exactness forecast", "", "");
    let t = Theme::of(ui.ctx());
    let (word, text) = words(e, &t);
    kit::rich(ui, &[kit::Span::new(word, fonts::body_bold(), t.strong)]);
    kit::note(ui, &text);
    if e.n_passes > 1 {
        kit::caption(ui, &format!("{} passes would make it exact", e.n_passes));
    }
    ui.add_space(6.0);
}

fn words(e: &crate::tiling::Exactness, _t: &Theme) -> (String, String) {
    use crate::tiling::ExactnessVerdict as V;
    let word = serde_json::to_value(e.verdict)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default();
    let halo = e.halo_needed;
    let text = match e.verdict {
        V::Exact => "Windows give the same bits as one pass over the whole volume.".to_owned(),
        V::NeedsHalo => format!(
            "A halo of {} voxels would make this bitwise.",
            paint::triple(halo)
        ),
        V::Unaligned => {
            "Window starts are not multiples of the stride: values differ from one pass.".to_owned()
        }
        V::Blended => {
            "Overlapping windows are averaged: values near faces differ from one pass.".to_owned()
        }
        V::SpatialNorm => {
            "Norms over space sum over each window. No overlap makes this bitwise.".to_owned()
        }
        V::Approximate => "Values differ from one pass over the whole volume.".to_owned(),
    };
    (word, text)
}

/// One window over everything must be asked for by name.
fn guard(ui: &mut Ui, cx: &mut Cx<'_>) {
    if !cx.state.derived.plan().is_some_and(|p| p.is_single_pass()) {
        return;
    }
    let t = Theme::of(ui.ctx());
    kit::separator(ui);
    kit::rich(
        ui,
        &[kit::Span::new(
            "One window covers the whole volume.",
            fonts::body_bold(),
            t.tight,
        )],
    );
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 28.0), Sense::hover());
    let rect = area.shrink2(vec2(12.0, 2.0));
    let on = cx.state.single_pass_allowed;
    if kit::check(ui, rect, on, "Allow one pass for this run only") {
        cx.send(Command::AllowSinglePass(!on));
    }
}

fn worth_knowing(ui: &mut Ui, cx: &Cx<'_>) {
    kit::heading(ui, "Worth knowing", "", "");
    let t = Theme::of(ui.ctx());
    // Traps of the budget first; what windows and budget both know is said once.
    let d = &cx.state.derived;
    let cliffs = d.budget().map_or(&[][..], |b| &b.budget.cliffs);
    let own = d.warnings.iter().filter(|w| {
        let same = |c: &crate::memory::budget::Cliff| c.code == w.code;
        !cliffs.iter().any(same)
    });
    let texts = cliffs.iter().map(|c| &c.text).chain(own.map(|w| &w.text));
    for text in texts {
        let top = ui.cursor().top();
        paint::mark(
            ui.painter(),
            pos2(ui.max_rect().left() + 17.0, top + 10.0),
            10.0,
            paint::Mark::Triangle,
            t.tight,
        );
        kit::rich(
            ui,
            &[kit::Span::new(
                format!("     {text}"),
                fonts::body(),
                t.text,
            )],
        );
        ui.add_space(4.0);
    }
}
