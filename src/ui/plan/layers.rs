//! The network layer by layer: facts, a search, stages with their sums, layers with shape, bytes, FLOPs and reach.

use crate::app::Command;
use crate::app::layers::{LayerRow, Layers, Line, Stage, flops_text};
use crate::ui::theme::{Theme, size};
use crate::ui::{Cx, fonts, kit, paint, panel};
use crate::units::{Bytes, with_thousands};
use eframe::egui::{
    self, Align, Align2, Color32, FontId, Rect, Sense, Stroke, StrokeKind, Ui, WidgetInfo,
    accesskit::Role, pos2, vec2,
};

/// Facts shown above the list; further outputs are counted.
const FACTS: usize = 12;

/// Draws the panel in place of budget and plots.
pub(super) fn show(ui: &mut Ui, area: Rect, cx: &mut Cx<'_>) {
    cx.local.status_hint = "Ctrl+L or Esc: back to the budget \u{b7} click a stage to fold it";
    let columns = if area.width() > 1000.0 { 4 } else { 3 };
    let n = cx
        .state
        .derived
        .layers
        .as_ref()
        .map_or(0, |l| l.facts.len().min(FACTS));
    let head = area.with_max_y(area.top() + 36.0 + 40.0 * n.div_ceil(columns) as f32);
    panel(ui, head, "Network", |ui| facts(ui, cx, columns));
    let list = area.with_min_y(head.bottom() + 1.0);
    panel(ui, list, "Layers", |ui| layers(ui, cx));
}

fn facts(ui: &mut Ui, cx: &mut Cx<'_>, columns: usize) {
    let t = Theme::of(ui.ctx());
    let name = cx
        .state
        .network
        .info()
        .map_or_else(String::new, |n| n.model.graph.name.clone());
    let head = kit::heading(ui, "Network layers", &name, "");
    let at = pos2(head.right() - 12.0, head.center().y);
    if kit::text_button(ui, at, "Back to the budget").clicked() {
        cx.send(Command::ShowLayers);
    }
    let Some(layers) = &cx.state.derived.layers else {
        return;
    };
    let width = (ui.available_width() - 2.0 * size::INSET) / columns as f32;
    let shown = if layers.facts.len() > FACTS {
        FACTS - 1
    } else {
        layers.facts.len()
    };
    let more = (layers.facts.len() > shown).then(|| {
        (
            "More outputs".to_owned(),
            (layers.facts.len() - shown).to_string(),
        )
    });
    let all: Vec<_> = layers.facts.iter().take(shown).chain(&more).collect();
    for row in all.chunks(columns) {
        let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), 40.0), Sense::hover());
        for (i, (label, value)) in row.iter().enumerate() {
            let at = Rect::from_min_size(
                area.min + vec2(size::INSET + i as f32 * width, 0.0),
                vec2(width - 12.0, 18.0),
            );
            let (left, caption) = (Align2::LEFT_CENTER, fonts::caption());
            kit::text_in(ui, at, left, label, caption, t.secondary);
            let below = at.translate(vec2(0.0, 17.0));
            kit::text_in(ui, below, left, value, fonts::body(), t.strong);
        }
    }
}

fn layers(ui: &mut Ui, cx: &mut Cx<'_>) {
    let t = Theme::of(ui.ctx());
    let Some(layers) = cx.state.derived.layers.clone() else {
        kit::heading(ui, "Layers", "", "");
        let why = match &cx.state.derived.tiling {
            Some(Err(e)) => e.clone(),
            _ if cx.state.network.info().is_none() => "Choose a network".to_owned(),
            _ => "Counting layers\u{2026}".to_owned(),
        };
        kit::caption(ui, &why);
        return;
    };
    tools(ui, cx, &layers);
    if let Some(problem) = &layers.problem {
        kit::rich(ui, &[kit::Span::new(problem, fonts::body(), t.over)]);
        ui.add_space(4.0);
    }
    let columns = Columns::new(ui.available_width());
    header(ui, &columns, &t);
    if cx.state.derived.layers_pending {
        ui.multiply_opacity(0.45);
    }
    let lines = cx.state.derived.layer_lines.clone();
    if lines.is_empty() && !cx.state.view.layer_search.is_empty() {
        ui.add_space(8.0);
        kit::note(ui, "No layer has this name, operation or shape.");
    }
    let mut folded = None;
    egui::ScrollArea::vertical().auto_shrink(false).show_rows(
        ui,
        size::ROW,
        lines.len(),
        |ui, range| {
            for line in lines.get(range).unwrap_or_default() {
                match *line {
                    Line::Stage(i, found) => {
                        if let Some(s) = layers.stages.get(i) {
                            let open = !cx.state.view.folded_stages.contains(&i);
                            if stage(ui, &columns, (i, s), found, open) {
                                folded = Some(i);
                            }
                        }
                    }
                    Line::Layer(i) => {
                        if let Some(r) = layers.rows.get(i) {
                            layer(ui, &columns, r, &t);
                        }
                    }
                    Line::Reason(i) => {
                        if let Some(r) = layers.rows.get(i) {
                            reason(ui, &columns, r, &t);
                        }
                    }
                }
            }
        },
    );
    if let Some(i) = folded {
        cx.send(Command::FoldStage(i));
    }
}

/// The search field, what it leaves, and the two fold buttons.
fn tools(ui: &mut Ui, cx: &mut Cx<'_>, layers: &Layers) {
    let t = Theme::of(ui.ctx());
    let (bar, _) = ui.allocate_exact_size(vec2(ui.available_width(), 40.0), Sense::hover());
    let field = Rect::from_min_size(
        pos2(bar.left() + size::INSET, bar.center().y - 12.0),
        vec2(300.0, size::FIELD),
    );
    let text = cx.state.view.layer_search.clone();
    if let Some(typed) = kit::edit(ui, field, "Search layers", &text, Align::Min, false) {
        cx.send(Command::SearchLayers(typed));
    }
    if text.is_empty() {
        ui.painter().text(
            field.left_center() + vec2(8.0, 0.0),
            Align2::LEFT_CENTER,
            "Search: name, operation, 1x32x128, 32 128",
            fonts::caption(),
            t.secondary,
        );
    }
    let found: usize = cx
        .state
        .derived
        .layer_lines
        .iter()
        .map(|l| match l {
            Line::Stage(_, n) => *n,
            Line::Layer(_) | Line::Reason(_) => 0,
        })
        .sum();
    let n = with_thousands(layers.rows.len() as u64);
    let count = if cx.state.derived.layers_pending {
        "of an older plan; counting again\u{2026}".to_owned()
    } else if found == layers.rows.len() {
        format!("{n} layers, {} stages", layers.stages.len())
    } else {
        format!("{} of {n} layers", with_thousands(found as u64))
    };
    let right = bar.right() - size::INSET;
    let at = |place: f32| {
        Rect::from_min_size(
            pos2(right - place, bar.center().y - 14.0),
            vec2(92.0, size::BUTTON),
        )
    };
    let room = bar
        .with_min_x(field.right() + 12.0)
        .with_max_x(right - 204.0);
    let (left, caption) = (Align2::LEFT_CENTER, fonts::caption());
    kit::text_in(ui, room, left, &count, caption, t.secondary);
    if kit::button(ui, at(192.0), "Fold all", kit::Look::Plain, None).clicked() {
        cx.send(Command::FoldAllStages(true));
    }
    if kit::button(ui, at(92.0), "Unfold all", kit::Look::Plain, None).clicked() {
        cx.send(Command::FoldAllStages(false));
    }
    kit::separator(ui);
}

/// Left edges and widths; parameters are left out where it is narrow.
struct Columns {
    cells: [(f32, f32); 8],
    wide: bool,
}

const NAMES: [&str; 8] = [
    "layer",
    "operation",
    "shape",
    "peak",
    "bytes",
    "FLOPs",
    "parameters",
    "reach x, y, z",
];

impl Columns {
    fn new(width: f32) -> Self {
        let wide = width > 1060.0;
        let mut widths = if wide {
            [0.0, 176.0, 158.0, 58.0, 84.0, 104.0, 92.0, 140.0]
        } else if width > 860.0 {
            [0.0, 164.0, 150.0, 52.0, 80.0, 100.0, 0.0, 126.0]
        } else {
            [0.0, 104.0, 142.0, 50.0, 76.0, 96.0, 0.0, 104.0]
        };
        widths[0] = (width - 2.0 * size::INSET - widths.iter().sum::<f32>()).max(100.0);
        let mut x = size::INSET;
        let cells = widths.map(|w| {
            let at = (x, (w - 8.0).max(0.0));
            x += w;
            at
        });
        Self { cells, wide }
    }

    fn at(&self, area: Rect, i: usize) -> Rect {
        let (x, w) = self.cells[i];
        Rect::from_min_size(area.min + vec2(x, 0.0), vec2(w, area.height()))
    }

    const fn align(i: usize) -> Align2 {
        if i >= 4 {
            Align2::RIGHT_CENTER
        } else {
            Align2::LEFT_CENTER
        }
    }

    fn cell(&self, ui: &mut Ui, area: Rect, i: usize, text: &str, ink: (FontId, Color32)) {
        if (self.wide || i != 6) && !text.is_empty() {
            kit::text_in(ui, self.at(area, i), Self::align(i), text, ink.0, ink.1);
        }
    }
}

fn header(ui: &mut Ui, columns: &Columns, t: &Theme) {
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), size::ROW), Sense::hover());
    for (i, name) in NAMES.iter().enumerate() {
        columns.cell(ui, area, i, name, (fonts::caption(), t.secondary));
    }
    kit::separator(ui);
}

/// The end of a name that fits: modules differ there, and their beginnings are alike.
fn tail(ui: &Ui, name: &str, width: f32) -> String {
    let fits = |text: &str| {
        let galley = ui
            .painter()
            .layout_no_wrap(text.to_owned(), fonts::body(), Color32::WHITE);
        galley.size().x <= width
    };
    if fits(name) {
        return name.to_owned();
    }
    let starts = name.match_indices(['.', '/', '_']).map(|(i, _)| i + 1);
    starts
        .filter_map(|i| name.get(i..))
        .map(|rest| format!("\u{2026}{rest}"))
        .find(|text| fits(text))
        .unwrap_or_else(|| name.to_owned())
}

fn shape_text(shape: &[usize]) -> String {
    shape
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\u{d7}")
}

/// Bytes in the unit that says them best, with two digits.
fn bytes_text(b: Bytes) -> String {
    b.to_string()
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "\u{2014}".to_owned())
}

/// A stage's line; true when it was clicked.
fn stage(
    ui: &mut Ui,
    columns: &Columns,
    (i, s): (usize, &Stage),
    found: usize,
    open: bool,
) -> bool {
    let t = Theme::of(ui.ctx());
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), size::ROW), Sense::hover());
    let response = ui.interact(area, ui.scope_id().with(("stage", i)), Sense::click());
    let fill = if response.hovered() {
        t.hover
    } else {
        t.raised
    };
    ui.painter().rect_filled(area, 0, fill);
    let c = pos2(area.left() + size::INSET + 5.0, area.center().y);
    let arrow = if open {
        [vec2(-4.0, -2.5), vec2(4.0, -2.5), vec2(0.0, 3.5)]
    } else {
        [vec2(-2.5, -4.0), vec2(3.5, 0.0), vec2(-2.5, 4.0)]
    };
    ui.painter().add(egui::Shape::convex_polygon(
        arrow.map(|d| c + d).to_vec(),
        t.text,
        Stroke::NONE,
    ));
    let place = if s.size.is_empty() {
        "no grid".to_owned()
    } else {
        shape_text(&s.size)
    };
    let count = match (found, s.n) {
        (1, 1) => "1 layer".to_owned(),
        (f, n) if f == n => format!("{n} layers"),
        (f, n) => format!("{f} of {n} layers"),
    };
    let title = format!("Stage {}: {place}", i + 1);
    let name = columns.at(area, 0);
    let name = name.with_min_x(name.left() + 18.0);
    let bold = fonts::body_bold;
    let both = name.with_max_x(columns.at(area, 1).right());
    let head = format!("{title}  \u{b7}  {count}");
    kit::text_in(ui, both, Align2::LEFT_CENTER, &head, bold(), t.strong);
    if s.at_peak > 0 {
        peak(ui, columns.at(area, 3), &s.at_peak.to_string(), &t);
    }
    columns.cell(ui, area, 4, &bytes_text(s.bytes), (bold(), t.text));
    columns.cell(ui, area, 5, &flops_text(s.flops), (bold(), t.text));
    columns.cell(ui, area, 6, &with_thousands(s.parameters), (bold(), t.text));
    if response.has_focus() {
        ui.painter()
            .rect_stroke(area, 0, Stroke::new(2.0, t.strong), StrokeKind::Inside);
    }
    response.widget_info(|| {
        let state = if open { "unfolded" } else { "folded" };
        let text = format!(
            "{title}, {count}, {}, {}, {state}",
            bytes_text(s.bytes),
            flops_text(s.flops)
        );
        WidgetInfo::labeled(Role::Button, true, text)
    });
    response.clicked()
}

/// The mark of what lives at the peak: a disc and a word.
fn peak(ui: &mut Ui, at: Rect, word: &str, t: &Theme) {
    paint::mark(
        ui.painter(),
        at.left_center() + vec2(5.0, 0.0),
        9.0,
        paint::Mark::Disc,
        t.tight,
    );
    let at = at.with_min_x(at.left() + 13.0);
    let (left, caption) = (Align2::LEFT_CENTER, fonts::caption());
    kit::text_in(ui, at, left, word, caption, t.tight);
}

fn layer(ui: &mut Ui, columns: &Columns, r: &LayerRow, t: &Theme) {
    let (area, response) =
        ui.allocate_exact_size(vec2(ui.available_width(), size::ROW), Sense::hover());
    if response.hovered() {
        ui.painter().rect_filled(area, 0, t.hover);
    }
    let l = &r.layer;
    let color = if l.reason.is_some() { t.over } else { t.text };
    let name = columns.at(area, 0);
    let name = name.with_min_x(name.left() + 18.0);
    if l.reason.is_some() {
        paint::mark(
            ui.painter(),
            pos2(name.left() - 10.0, name.center().y),
            10.0,
            paint::Mark::Cross,
            t.over,
        );
    }
    let shown = tail(ui, &l.name, name.width());
    kit::text_in(ui, name, Align2::LEFT_CENTER, &shown, fonts::body(), color);
    let op = format!("{} {}", l.op, l.detail);
    columns.cell(ui, area, 1, op.trim(), (fonts::body(), t.secondary));
    let shape = or_dash(l.shapes.first().map(|s| shape_text(s)));
    columns.cell(ui, area, 2, &shape, (fonts::body(), t.text));
    if r.at_peak {
        peak(ui, columns.at(area, 3), "peak", t);
    }
    let bytes = or_dash(r.bytes.map(bytes_text));
    columns.cell(ui, area, 4, &bytes, (fonts::body(), t.text));
    let flops = or_dash(l.flops.map(flops_text));
    columns.cell(ui, area, 5, &flops, (fonts::body(), t.text));
    if l.parameters > 0 {
        let n = with_thousands(l.parameters);
        columns.cell(ui, area, 6, &n, (fonts::body(), t.text));
    }
    columns.cell(ui, area, 7, &r.reach, (fonts::body(), t.text));
    response.widget_info(|| {
        let peak = if r.at_peak { ", at the peak" } else { "" };
        let text = format!(
            "Layer {}, {}, shape {shape}, {bytes}, {flops}, reach {}{peak}",
            l.name,
            op.trim(),
            r.reach
        );
        WidgetInfo::labeled(Role::Row, true, text)
    });
    response.on_hover_ui(|ui| {
        ui.set_max_width(420.0);
        ui.label(egui::RichText::new(&l.name).font(fonts::body_bold()));
        ui.label(format!("reads {}", l.reads.join(", ")));
        for s in l.shapes.iter().skip(1) {
            ui.label(format!("also makes {}", shape_text(s)));
        }
        ui.label(format!("{} parameters", with_thousands(l.parameters)));
        ui.label(format!("reach x, y, z: {} voxels", r.reach));
    });
}

fn reason(ui: &mut Ui, columns: &Columns, r: &LayerRow, t: &Theme) {
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), size::ROW), Sense::hover());
    let at = columns.at(area, 0);
    let at = at
        .with_min_x(at.left() + 18.0)
        .with_max_x(area.right() - size::INSET);
    let why = r.layer.reason.as_deref().unwrap_or_default();
    let text = format!("planned, not run: {why}");
    let (left, caption) = (Align2::LEFT_CENTER, fonts::caption());
    kit::text_in(ui, at, left, &text, caption, t.over);
}
