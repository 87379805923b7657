//! What is bought for: the plan, the load, the figures of cost, and the answer.

use crate::app::Command;
use crate::app::buying::{self, Buying};
use crate::app::document::Runtime;
use crate::hardware::{Costs, Knob};
use crate::memory::Verdict;
use crate::ui::theme::Theme;
use crate::ui::{Cx, fonts, kit, paint};
use eframe::egui::{self, Align, Align2, Sense, Ui, pos2, vec2};

const LABEL: f32 = 112.0;

/// Knob, label, unit, and what the figure is shown multiplied by.
const LOAD: [(Knob, &str, &str, f64); 2] = [
    (Knob::PeakFactor, "Peak factor", "by hour", 1.0),
    (Knob::BusyAtMost, "Busy at most", "%", 100.0),
];
const COST: [(Knob, &str, &str, f64); 6] = [
    (Knob::LifeYears, "Service life", "years", 1.0),
    (Knob::HostUsd, "Host a card", "USD", 1.0),
    (Knob::UsdPerKwh, "Power price", "USD/kWh", 1.0),
    (Knob::SiteFactor, "Site factor", "PUE", 1.0),
    (Knob::PriceSpread, "Price up to", "times", 1.0),
    (Knob::TimeSpread, "Time within", "times", 1.0),
];

/// Draws the form.
pub(super) fn show(ui: &mut Ui, cx: &mut Cx<'_>) {
    egui::ScrollArea::vertical()
        .auto_shrink(false)
        .show(ui, |ui| {
            workload(ui, cx);
            kit::separator(ui);
            let costs = buying::costs(&cx.state.document);
            kit::heading(ui, "Load", "", "queue M/M/c");
            studies(ui, cx);
            for knob in LOAD {
                figure(ui, cx, &costs, knob);
            }
            ui.add_space(6.0);
            kit::separator(ui);
            kit::heading(ui, "Cost", "", "all editable");
            for knob in COST {
                figure(ui, cx, &costs, knob);
            }
            kit::hint(
                ui,
                "Prices and rates are dated defaults, not offers: hover a row or a field for its source",
            );
            kit::separator(ui);
            answer(ui, cx);
        });
}

fn workload(ui: &mut Ui, cx: &Cx<'_>) {
    kit::heading(ui, "Workload", "", "set in Plan");
    let d = &cx.state.document;
    let network = cx
        .state
        .network
        .info()
        .map_or_else(|| "\u{2014}".to_owned(), |n| n.model.graph.name.clone());
    let plan = cx.state.derived.plan();
    let dash = || "\u{2014}".to_owned();
    let runtime = match d.runtime {
        Runtime::Voxfit => "Voxfit",
        Runtime::Pytorch => "PyTorch",
    };
    let precision = format!("{:?}", d.precision).to_lowercase();
    let rows = [
        ("Network", network),
        ("Runtime", format!("{runtime}, {precision}")),
        ("roi", plan.map_or_else(dash, |p| paint::times(p.roi))),
        (
            "Volume",
            plan.map_or_else(dash, |p| {
                let n = p.n_windows();
                let word = if n == 1 { "window" } else { "windows" };
                format!("{}, {n} {word}", paint::times(p.volume))
            }),
        ),
    ];
    let t = Theme::of(ui.ctx());
    for (label, text) in rows {
        let r = kit::form_row(ui, label, 72.0);
        kit::text_in(ui, r, Align2::LEFT_CENTER, &text, fonts::body(), t.text);
    }
    ui.add_space(4.0);
}

/// Shows what is wrong with what stands in the field of this name.
fn wrong(ui: &mut Ui, cx: &Cx<'_>, name: &str) {
    if let Some((of, why)) = &cx.local.buy.wrong
        && *of == name
    {
        let t = Theme::of(ui.ctx());
        let span = kit::Span::new(why.clone(), fonts::caption(), t.over);
        kit::rich(ui, &[span]);
    }
}

fn is_wrong(cx: &Cx<'_>, name: &str) -> bool {
    cx.local.buy.wrong.as_ref().is_some_and(|w| w.0 == name)
}

fn studies(ui: &mut Ui, cx: &mut Cx<'_>) {
    let name = "Studies a day";
    let rect = kit::form_row(ui, name, LABEL);
    let n = cx.state.document.studies_per_day;
    let text = paint::number(n, usize::from(n < 10.0));
    let bad = is_wrong(cx, name);
    if let Some(typed) = kit::edit(ui, rect, name, &text, Align::Max, bad) {
        cx.local.buy.wrong = None;
        match buying::studies(&typed) {
            Ok(n) => cx.send(Command::SetStudiesPerDay(n)),
            Err(why) => cx.local.buy.wrong = Some((name, why)),
        }
    }
    wrong(ui, cx, name);
}

fn figure(
    ui: &mut Ui,
    cx: &mut Cx<'_>,
    costs: &Costs,
    (knob, label, unit, times): (Knob, &'static str, &str, f64),
) {
    let rect = kit::form_row(ui, label, LABEL);
    let t = Theme::of(ui.ctx());
    let field = rect.with_max_x(rect.right() - 62.0);
    let of = costs.figure(knob);
    let shown = of.value * times;
    let text = crate::units::exact((shown * 1e6).round() / 1e6);
    let bad = is_wrong(cx, label);
    if let Some(typed) = kit::edit(ui, field, label, &text, Align::Max, bad) {
        cx.local.buy.wrong = None;
        let value = typed.trim().replace(',', "").parse::<f64>();
        let taken = value
            .map_err(|_e| format!("{label} is a number, found {typed}"))
            .and_then(|v| buying::cost(&format!("{}={}", knob.name(), v / times)));
        match taken {
            Ok(set) => cx.send(Command::SetCost(set)),
            Err(why) => cx.local.buy.wrong = Some((label, why)),
        }
    }
    ui.painter().text(
        pos2(field.right() + 8.0, field.center().y),
        Align2::LEFT_CENTER,
        unit,
        fonts::caption(),
        t.secondary,
    );
    let doubt = if of.uncertain { ", not looked up" } else { "" };
    let tip = format!("{} ({}{doubt})", of.source, of.date);
    let row = rect.with_min_x(rect.left() - LABEL);
    ui.interact(row, ui.scope_id().with(("tip", label)), Sense::hover())
        .on_hover_text(tip);
    wrong(ui, cx, label);
}

fn answer(ui: &mut Ui, cx: &Cx<'_>) {
    kit::heading(ui, "Answer", "", "");
    let Some(Ok(found)) = &cx.state.derived.buying else {
        kit::note(ui, "\u{2014}");
        return;
    };
    let t = Theme::of(ui.ctx());
    let [first, rest] = words(cx, found);
    kit::rich(ui, &[kit::Span::new(first, fonts::body_bold(), t.strong)]);
    ui.add_space(2.0);
    kit::rich(ui, &[kit::Span::new(rest, fonts::caption(), t.text)]);
    ui.allocate_space(vec2(1.0, 12.0));
}

/// The cheapest way to carry the load: what, then what it comes to.
fn words(cx: &Cx<'_>, found: &Buying) -> [String; 2] {
    let best = found
        .choices
        .iter()
        .find(|c| c.verdict != Verdict::Over && c.cost_per_study.is_some());
    let Some(best) = best else {
        let fits = found.offers.iter().any(|o| o.verdict != Verdict::Over);
        return if fits {
            [
                "No card that fits has a price".to_owned(),
                "Give one in a card file.".to_owned(),
            ]
        } else {
            [
                "Nothing fits".to_owned(),
                "Take a smaller roi, tiles or another runtime in Plan.".to_owned(),
            ]
        };
    };
    let set: Vec<String> = best
        .cards
        .iter()
        .map(|c| {
            let card = cx.state.catalogue.get(&c.id);
            let name = card.map_or(c.id.as_str(), |card| card.short_name());
            format!("{} \u{d7} {name}", paint::number(c.n as f64, 0))
        })
        .collect();
    let mut rest = Vec::new();
    if let Some(price) = best.price {
        rest.push(format!("{} USD with hosts", paint::number(price, 0)));
    }
    if let Some(r) = best.cost_per_study {
        rest.push(format!(
            "{} to {} USD per 1,000 studies",
            paint::number(r.low * 1e3, 2),
            paint::number(r.high * 1e3, 2)
        ));
    }
    if let Some(p95) = best.p95_seconds {
        rest.push(format!(
            "95 % of studies back in {} s",
            paint::number(p95, 1)
        ));
    }
    [set.join(" + "), rest.join("\n")]
}
