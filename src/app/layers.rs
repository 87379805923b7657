//! The network layer by layer for the plan's window: rows, stages with sums, what lives at the peak; searched and folded.

mod search;

pub use search::{Line, lines};

use super::document::{Document, Mode, Runtime};
use super::state::State;
use super::work::{Kind, News};
use crate::geometry::Extent;
use crate::memory::planner::Planner;
use crate::memory::{Precision, schedule, tiles};
use crate::network::layers::{self, Layer};
use crate::network::manifest::Axes;
use crate::network::{Facts, Graph, Model, Reach, TensorKind};
use crate::units::{Bytes, with_thousands};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A layer as a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerRow {
    /// The layer.
    pub layer: Layer,
    /// Bytes of what it makes, at the plan's precision; `None` where its shape cannot be told.
    pub bytes: Option<Bytes>,
    /// Whether what it makes lives at the step with the most live bytes.
    pub at_peak: bool,
    /// Its stage.
    pub stage: usize,
    /// Its reach along x, y, z in words: "44/37" to smaller and larger indices; one figure where both or all agree.
    pub reach: String,
    /// Name and operation, lower case: what a search looks through.
    words: String,
}

/// Neighbouring layers of one resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Spatial size of what its layers make; empty where there is none.
    pub size: Vec<usize>,
    /// Its first layer.
    pub first: usize,
    /// How many layers it has.
    pub n: usize,
    /// Bytes that they make.
    pub bytes: Bytes,
    /// Operations.
    pub flops: u64,
    /// Learned values.
    pub parameters: u64,
    /// Layers whose values live at the peak.
    pub at_peak: usize,
}

/// A network for one window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// Layers in run order.
    pub rows: Vec<LayerRow>,
    /// Stages in run order.
    pub stages: Vec<Stage>,
    /// Facts for the header: label and value.
    pub facts: Vec<(String, String)>,
    /// Why shapes are missing, if they are.
    pub problem: Option<String>,
    /// The step with the most live bytes, and how many live there.
    pub peak: Option<(String, Bytes)>,
}

/// A reach along x, y, z as short as it can be said; a dash where it cannot be told.
fn reach_text(reach: Option<&Reach>, zyx: bool) -> String {
    let Some(r) = reach else {
        return "\u{2014}".to_owned();
    };
    let mut axes: Vec<String> = r
        .left
        .iter()
        .zip(&r.right)
        .map(|sides| match sides {
            (Some(a), Some(b)) if a == b => a.to_string(),
            (Some(a), Some(b)) => format!("{a}/{b}"),
            _ => "all".to_owned(),
        })
        .collect();
    if zyx {
        axes.reverse();
    }
    match axes.split_first() {
        Some((first, rest)) if rest.iter().all(|a| a == first) => first.clone(),
        _ => axes.join(", "),
    }
}

/// What the layers are made from.
struct Wanted {
    roi: Extent,
    volume: Extent,
    document: Document,
}

fn make(model: &Model, facts: &Facts, wanted: &Wanted) -> Layers {
    let graph = &model.graph;
    let zyx = model.manifest.input.axes == Axes::Zyx;
    let mut spatial = wanted.roi.to_array().to_vec();
    spatial.truncate(graph.spatial_dims);
    if zyx {
        spatial.reverse();
    }
    let d = &wanted.document;
    let (all, error) = layers::of(graph, &spatial, d.batch);
    let (alive, peak) = alive_at_peak(model, wanted, &spatial);
    let value = match d.precision {
        Precision::Fp32 => 4,
        Precision::Fp16 | Precision::Bf16 | Precision::Amp => 2,
    };
    let mut rows: Vec<LayerRow> = Vec::with_capacity(all.len());
    let mut stages: Vec<Stage> = Vec::new();
    for (i, layer) in all.into_iter().enumerate() {
        let size: &[usize] = layer
            .shapes
            .first()
            .filter(|s| s.len() == graph.spatial_dims + 2)
            .and_then(|s| s.get(2..))
            .unwrap_or(&[]);
        if stages.last().is_none_or(|s| s.size != size) {
            stages.push(Stage {
                size: size.to_vec(),
                first: i,
                n: 0,
                bytes: Bytes::ZERO,
                flops: 0,
                parameters: 0,
                at_peak: 0,
            });
        }
        let stage = stages.len().saturating_sub(1);
        let bytes = layer.values.map(|n| Bytes(n.saturating_mul(value)));
        let at_peak = alive.contains(&i);
        if let Some(s) = stages.last_mut() {
            s.n += 1;
            s.bytes = s.bytes.saturating_add(bytes.unwrap_or_default());
            s.flops = s.flops.saturating_add(layer.flops.unwrap_or(0));
            s.parameters = s.parameters.saturating_add(layer.parameters);
            s.at_peak += usize::from(at_peak);
        }
        let words = format!(
            "{} {} {} {} {}",
            layer.name,
            layer.op,
            layer.detail,
            if at_peak { "peak" } else { "" },
            layer
                .reason
                .as_ref()
                .map_or_else(String::new, |r| format!("unsupported {r}")),
        )
        .to_lowercase();
        rows.push(LayerRow {
            reach: reach_text(layer.reach.as_ref(), zyx),
            layer,
            bytes,
            at_peak,
            stage,
            words,
        });
    }
    Layers {
        facts: header(model, facts, &rows, peak.as_ref()),
        rows,
        stages,
        problem: error.map(|e| e.to_string()),
        peak,
    }
}

/// Nodes whose values live at the step with the most live bytes, by the runtime of the plan; that step and its bytes.
fn alive_at_peak(
    model: &Model,
    wanted: &Wanted,
    spatial: &[usize],
) -> (BTreeSet<usize>, Option<(String, Bytes)>) {
    let d = &wanted.document;
    if d.runtime == Runtime::Voxfit && d.mode == Mode::Inference {
        let (batch, limit) = (d.batch, d.memory_limit);
        let Ok(plan) = tiles::plan_under(&model.graph, spatial, batch, d.precision, limit) else {
            return (BTreeSet::new(), None);
        };
        return alive_in(&model.graph, &plan);
    }
    let request = super::derived::request(d, model, wanted.roi, wanted.volume);
    let Ok(b) = Planner::new(&model.graph).budget_without_fixes(&request) else {
        return (BTreeSet::new(), None);
    };
    let at = b.peak_step.index;
    let live: BTreeSet<&str> = b
        .tensors
        .iter()
        .filter(|t| t.born <= at && at <= t.dies)
        .map(|t| t.name.as_str())
        .collect();
    let graph = &model.graph;
    let alive = graph.nodes.iter().enumerate().filter(|(_, n)| {
        n.outputs.iter().any(|id| {
            graph
                .tensor(*id)
                .is_some_and(|t| live.contains(t.name.as_str()))
        })
    });
    let peak = b.timeline.get(at).map(|t| t.live);
    (
        alive.map(|(i, _)| i).collect(),
        peak.map(|bytes| (b.peak_step.node.clone(), bytes)),
    )
}

fn alive_in(
    graph: &Graph,
    plan: &schedule::Schedule,
) -> (BTreeSet<usize>, Option<(String, Bytes)>) {
    let at = plan.peak_step();
    let Some(point) = plan.timeline.get(at) else {
        return (BTreeSet::new(), None);
    };
    // The node that makes a value, and the step that it does it in.
    let mut maker = HashMap::new();
    for (step, s) in plan.steps.iter().enumerate() {
        for &node in &s.nodes {
            for id in graph.nodes.get(node).into_iter().flat_map(|n| &n.outputs) {
                maker.insert(*id, (step, node));
            }
        }
    }
    // Values take turns in a place: the last one made by then is there.
    let alive = point
        .tensors
        .iter()
        .filter_map(|&t| plan.tensors.get(t))
        .filter_map(|place| {
            place
                .values
                .iter()
                .filter_map(|id| maker.get(id).copied())
                .filter(|(step, _)| *step <= at)
                .max()
        })
        .map(|(_, node)| node)
        .collect();
    (alive, Some((point.name.clone(), point.live)))
}

fn header(
    model: &Model,
    facts: &Facts,
    rows: &[LayerRow],
    peak: Option<&(String, Bytes)>,
) -> Vec<(String, String)> {
    let graph = &model.graph;
    let zyx = model.manifest.input.axes == Axes::Zyx;
    let axes = |v: &[Option<usize>]| {
        let mut v: Vec<String> = v
            .iter()
            .map(|n| n.map_or_else(|| "unbounded".to_owned(), |n| n.to_string()))
            .collect();
        if zyx {
            v.reverse();
        }
        v.join(", ")
    };
    let flops = rows
        .iter()
        .filter_map(|r| r.layer.flops)
        .fold(0, u64::saturating_add);
    let stride: Vec<Option<usize>> = facts.total_stride.iter().map(|s| Some(*s)).collect();
    let norms = match facts.spatial_norms.len() {
        0 => "none".to_owned(),
        n => n.to_string(),
    };
    let mut out = vec![
        ("Parameters".to_owned(), with_thousands(facts.n_parameters)),
        ("FLOPs a window".to_owned(), flops_text(flops)),
        (
            "Most live bytes".to_owned(),
            peak.map_or_else(
                || "\u{2014}".to_owned(),
                |(step, bytes)| format!("{bytes} at {step}"),
            ),
        ),
        ("Total stride x, y, z".to_owned(), axes(&stride)),
        ("Norms over space".to_owned(), norms),
        (
            "Unsupported".to_owned(),
            match facts.unsupported.len() {
                0 => "none".to_owned(),
                n => format!("{n}: planned, not run"),
            },
        ),
    ];
    for id in &graph.inputs {
        if let Some(t) = graph.tensor(*id) {
            let channels = match &t.kind {
                TensorKind::Input { channels } => format!("{channels} channels"),
                _ => String::new(),
            };
            out.push(("Input".to_owned(), format!("{} ({channels})", t.name)));
        }
    }
    for (id, reach) in graph.outputs.iter().zip(&facts.reach) {
        if let Some(t) = graph.tensor(*id) {
            out.push((
                format!("Output {}", t.name),
                format!("reach {}", reach_text(Some(reach), zyx)),
            ));
        }
    }
    out
}

/// Operations with a unit: "12.3 GFLOP".
pub fn flops_text(n: u64) -> String {
    let x = n as f64;
    for (size, unit) in [
        (1e12, "TFLOP"),
        (1e9, "GFLOP"),
        (1e6, "MFLOP"),
        (1e3, "kFLOP"),
    ] {
        if x >= size {
            return format!("{:.1} {unit}", x / size);
        }
    }
    format!("{n} FLOP")
}

impl State {
    /// Starts what the layer list needs when it is open: layers for the window, then the lines for the search.
    pub(super) fn derive_layers(&mut self) {
        if self.network.info().is_none() || self.derived.plan().is_none() {
            self.forget_layers();
        }
        if !self.view.layers_open {
            return;
        }
        let (Some(network), Some(plan)) = (self.network.info(), self.derived.plan()) else {
            return;
        };
        let d = &self.document;
        let (roi, volume) = (plan.roi, plan.volume);
        let key = super::derived::key(&(
            (roi, volume, self.network_generation),
            (d.runtime, d.mode, d.optimizer, d.checkpointing),
            (d.precision, d.batch, d.memory_limit),
        ));
        self.derived.layers_pending = key != self.derived.layers_shown;
        if key != self.derived.layers_key && !self.jobs.has(Kind::Layers) {
            self.derived.layers_key = key;
            let (model, facts) = (Arc::clone(&network.model), network.facts.clone());
            let wanted = Wanted {
                roi,
                volume,
                document: d.clone(),
            };
            self.spawn(Kind::Layers, "Layers", move |_, out| {
                let made = Arc::new(make(&model, &facts, &wanted));
                let _closed = out.send(News::Layers(key, made));
            });
        }
        self.derive_layer_lines();
    }

    fn derive_layer_lines(&mut self) {
        let Some(layers) = &self.derived.layers else {
            return;
        };
        let view = &self.view;
        let key = super::derived::key(&(
            Arc::as_ptr(layers).addr(),
            &view.layer_search,
            &view.folded_stages,
        ));
        if key == self.derived.lines_key || self.jobs.has(Kind::LayerLines) {
            return;
        }
        self.derived.lines_key = key;
        let (layers, text) = (Arc::clone(layers), view.layer_search.clone());
        let folded = view.folded_stages.clone();
        self.spawn(Kind::LayerLines, "Search layers", move |_, out| {
            let found = lines(&layers, &text, &folded);
            let _closed = out.send(News::LayerLines(key, Arc::new(found)));
        });
    }

    /// Forgets the list: it is of another network, or of no plan.
    pub(super) fn forget_layers(&mut self) {
        let d = &mut self.derived;
        d.layers = None;
        d.layer_lines = Arc::new(Vec::new());
        (d.layers_key, d.layers_shown, d.lines_key) = (0, 0, 0);
        d.layers_pending = false;
    }

    /// Takes lines in, unless they are of an older list or search.
    pub(super) fn take_layer_lines(&mut self, of: u64, lines: Arc<Vec<Line>>) {
        if of == self.derived.lines_key {
            self.derived.layer_lines = lines;
        }
    }

    pub(super) fn take_layers(&mut self, of: u64, made: Arc<Layers>) {
        if of == self.derived.layers_key {
            self.derived.layers_shown = of;
            self.derived.layer_lines = Arc::new(Vec::new());
            self.derived.lines_key = 0;
            self.derived.layers = Some(made);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network;

    fn of(name: &str, roi: [usize; 3]) -> Layers {
        let model = network::preset::load(name).unwrap();
        let facts = network::facts::of(&model.graph).unwrap();
        let wanted = Wanted {
            roi: Extent::from(roi),
            volume: Extent::from(roi),
            document: Document::default(),
        };
        make(&model, &facts, &wanted)
    }

    fn found(l: &Layers, text: &str) -> Vec<String> {
        lines(l, text, &BTreeSet::new())
            .into_iter()
            .filter_map(|line| match line {
                Line::Layer(i) => Some(l.rows[i].layer.name.clone()),
                Line::Stage(..) | Line::Reason(_) => None,
            })
            .collect()
    }

    #[test]
    fn layers_are_found_by_name_by_operation_and_by_shape() {
        let l = of("demo-norm", [64, 64, 32]);
        let all = found(&l, "");
        assert_eq!(all.len(), l.rows.len());
        let convs = found(&l, "conv");
        assert!(!convs.is_empty() && convs.len() < all.len());
        let shape = &l.rows[0].layer.shapes[0];
        let joined = |v: &[usize]| v.iter().map(ToString::to_string).collect::<Vec<_>>();
        let whole = found(&l, &joined(shape).join("x"));
        assert!(whole.contains(&l.rows[0].layer.name));
        assert!(whole.len() < all.len(), "not every layer has this shape");
        assert_eq!(whole, found(&l, &joined(shape).join("\u{d7}")));
        // Channels and depth alone, others between them.
        let two = found(&l, &format!("{} {}", shape[1], shape[4]));
        assert!(two.len() >= whole.len());
        assert!(found(&l, "999x999").is_empty());
        assert!(found(&l, "no such layer").is_empty());
    }

    #[test]
    fn stages_follow_the_resolution_hold_every_layer_once_and_sum_up() {
        let l = of("nnunet-3d-6stage", [128, 128, 64]);
        assert_eq!(l.stages.iter().map(|s| s.n).sum::<usize>(), l.rows.len());
        assert!(l.stages.len() > 6, "{}", l.stages.len());
        let flops: u64 = l.rows.iter().filter_map(|r| r.layer.flops).sum();
        assert_eq!(l.stages.iter().map(|s| s.flops).sum::<u64>(), flops);
        for s in &l.stages {
            for r in &l.rows[s.first..s.first + s.n] {
                assert_eq!(r.layer.shapes[0][2..], s.size[..], "{}", r.layer.name);
            }
        }
    }

    #[test]
    fn a_folded_stage_keeps_its_line_and_its_count() {
        let l = of("demo", [64, 64, 32]);
        let open = lines(&l, "", &BTreeSet::new());
        let folded = lines(&l, "", &BTreeSet::from([0]));
        assert_eq!(open.len() - folded.len(), l.stages[0].n);
        assert_eq!(folded[0], Line::Stage(0, l.stages[0].n));
    }

    #[test]
    fn a_reach_is_said_as_shortly_as_it_can_be() {
        let r = |left: [usize; 3], right: [usize; 3]| Reach {
            left: left.map(Some).to_vec(),
            right: right.map(Some).to_vec(),
        };
        assert_eq!(reach_text(Some(&r([4; 3], [4; 3])), false), "4");
        assert_eq!(reach_text(Some(&r([44; 3], [37; 3])), false), "44/37");
        assert_eq!(reach_text(Some(&r([2, 4, 4], [2, 4, 4])), true), "4, 4, 2");
        assert_eq!(reach_text(None, false), "\u{2014}");
    }

    #[test]
    fn what_lives_at_the_peak_sums_to_the_peak() {
        let l = of("demo", [64, 64, 32]);
        let (_, bytes) = l.peak.clone().unwrap();
        let alive: u64 = l
            .rows
            .iter()
            .filter(|r| r.at_peak)
            .filter_map(|r| r.bytes)
            .map(|b| b.0)
            .sum();
        assert!(alive > 0 && alive <= bytes.0, "{alive} of {bytes}");
        // Places are aligned, and the window itself is no layer.
        let input = 64 * 64 * 32 * 4;
        assert!(bytes.0 - alive <= input + (1 << 20), "{alive} of {bytes}");
    }
}
