//! `voxfit network`: a network's facts.

use super::args::NetworkArgs;
use super::failure::Failure;
use super::output::{self, Align};
use crate::geometry::Extent;
use crate::network::manifest::Axes;
use crate::network::{self, ManifestSource, Model, Reach, TensorKind, facts, preset, shapes};
use crate::units::with_thousands;
use serde_json::{Map, Value, json};

pub(super) fn run(args: &NetworkArgs, json: bool) -> Result<u8, Failure> {
    if args.list {
        let names = preset::names();
        if json {
            output::print_json(&json!({ "presets": names }));
        } else {
            for n in &names {
                output::say(&format!("preset:{n}"));
            }
        }
        return Ok(0);
    }
    let name = args.model.as_deref().unwrap_or_default();
    let model = network::open_choice(name, &args.files.choice_at(args.roi_size))?;
    if args.print_manifest {
        output::say_lines(model.manifest_text()?.trim_end());
        return Ok(0);
    }
    let facts = facts::of(&model.graph)?;
    let mut object = describe(&model, &facts);
    if let Some(roi) = args.roi_size {
        let (flops, tensors) = for_roi(&model, roi)?;
        object.insert("flops".to_owned(), flops.into());
        object.insert("tensors".to_owned(), tensors);
    }
    if json {
        output::print_json(&object);
    } else {
        print(&model, &facts, &object);
    }
    Ok(0)
}

/// The network's axes put in the order x, y, z.
fn xyz<T: Copy>(model: &Model, values: &[T]) -> Vec<T> {
    let mut out = values.to_vec();
    if model.manifest.input.axes == Axes::Zyx {
        out.reverse();
    }
    out
}

fn reach(model: &Model, r: &Reach) -> Value {
    json!({ "left": xyz(model, &r.left), "right": xyz(model, &r.right) })
}

fn describe(model: &Model, facts: &network::Facts) -> Map<String, Value> {
    let g = &model.graph;
    let spatial: Vec<Value> = vec![Value::Null; g.spatial_dims];
    let dtype = "float32";
    let inputs: Vec<Value> = g
        .inputs
        .iter()
        .filter_map(|id| g.tensor(*id))
        .map(|t| {
            let channels = match &t.kind {
                TensorKind::Input { channels } => Value::from(*channels),
                _ => Value::Null,
            };
            let shape: Vec<Value> = [Value::Null, channels]
                .into_iter()
                .chain(spatial.clone())
                .collect();
            json!({ "name": t.name, "shape": shape, "dtype": dtype })
        })
        .collect();
    let channels = output_channels(model);
    let outputs: Vec<Value> = g
        .outputs
        .iter()
        .enumerate()
        .filter_map(|(i, id)| Some((i, g.tensor(*id)?)))
        .map(|(i, t)| {
            let c = channels.get(i).map_or(Value::Null, |c| Value::from(*c));
            let shape: Vec<Value> = [Value::Null, c].into_iter().chain(spatial.clone()).collect();
            json!({ "name": t.name, "shape": shape, "dtype": dtype, "reach": reach(model, &facts.reach[i]) })
        })
        .collect();
    let value = json!({
        "name": g.name,
        "n_parameters": facts.n_parameters,
        "spatial_dims": g.spatial_dims,
        "inputs": inputs,
        "outputs": outputs,
        "ops": facts.ops,
        "unsupported": facts.unsupported,
        "total_stride": xyz(model, &facts.total_stride),
        "reach": reach(model, &facts.reach_max()),
        "spatial_norms": facts.spatial_norms,
        "flops": Value::Null,
        "kind": model.about.kind,
        "configurations": model.about.configurations,
        "configuration": model.about.chosen,
        "manifest": manifest(model),
        "notes": model.about.lines(),
        "published_target_gb": network::nnunet::published_target_gb(&g.name),
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Who wrote the manifest, and what it says.
fn manifest(model: &Model) -> Value {
    let source = match model.about.manifest {
        ManifestSource::Written => "written",
        ManifestSource::Translated => "translated",
        ManifestSource::Proposed => "proposed",
    };
    json!({ "source": source, "content": model.manifest })
}

/// Channels of each output: those of a window of one total stride (channels do not depend on the window).
fn output_channels(model: &Model) -> Vec<usize> {
    let Ok(facts) = facts::of(&model.graph) else {
        return Vec::new();
    };
    let roi: Vec<usize> = facts.total_stride.iter().map(|s| s * 2).collect();
    let Ok(all) = shapes::infer(&model.graph, &roi, 1) else {
        return Vec::new();
    };
    let of = |id: &network::TensorId| all.get(id.index()).and_then(|s| s.get(1)).copied();
    model.graph.outputs.iter().map_while(of).collect()
}

fn for_roi(model: &Model, roi: Extent) -> Result<(u64, Value), Failure> {
    let axes = xyz(model, &roi.to_array()[..model.graph.spatial_dims.min(3)]);
    let all = shapes::infer(&model.graph, &axes, 1)?;
    let by_node = facts::flops(&model.graph, &all);
    let last_step = model.graph.nodes.len().saturating_sub(1);
    let mut tensors = Vec::new();
    for (i, t) in model.graph.tensors.iter().enumerate() {
        if matches!(t.kind, TensorKind::Weight { .. }) {
            continue;
        }
        let uses = |n: &network::Node| n.inputs.iter().any(|id| id.index() == i);
        let makes = |n: &network::Node| n.outputs.iter().any(|id| id.index() == i);
        let made = model.graph.nodes.iter().position(makes);
        let kept = model.graph.outputs.iter().any(|id| id.index() == i);
        let last = if kept {
            Some(last_step)
        } else {
            model.graph.nodes.iter().rposition(uses)
        };
        let values = shapes::elements(&all[i]).unwrap_or(usize::MAX);
        tensors.push(json!({
            "name": t.name,
            "shape": all[i],
            "bytes": values.saturating_mul(4),
            "flops": made.map_or(0, |n| by_node[n]),
            "first": made.unwrap_or(0),
            "last": last.or(made).unwrap_or(0),
        }));
    }
    Ok((facts::total_flops(&model.graph, &all), tensors.into()))
}

fn print(model: &Model, facts: &network::Facts, object: &Map<String, Value>) {
    let text = |v: &Value| {
        v.to_string()
            .replace("null", "unbounded")
            .replace(',', ", ")
    };
    let say = |what: &str, value: String| output::say(&format!("{what:<14}{value}"));
    say("network", model.graph.name.clone());
    if !model.about.configurations.is_empty() {
        let chosen = model.about.chosen.as_deref().unwrap_or_default();
        let others = model.about.configurations.join(", ");
        say("configuration", format!("{chosen} (of {others})"));
    }
    if let Some(gb) = network::nnunet::published_target_gb(&model.graph.name) {
        say(
            "target",
            format!(
                "{gb} GB of GPU memory in training, by nnU-Net's planner; `voxfit budget` gives this program's own figures"
            ),
        );
    }
    match model.about.manifest {
        ManifestSource::Written => {}
        ManifestSource::Translated => say(
            "manifest",
            format!("from the {} (--print-manifest)", model.about.kind),
        ),
        ManifestSource::Proposed => say(
            "manifest",
            "none: one is proposed, see --print-manifest".to_owned(),
        ),
    }
    say("parameters", with_thousands(facts.n_parameters));
    say("dimensions", model.graph.spatial_dims.to_string());
    say(
        "total stride",
        output::sizes(&xyz(model, &facts.total_stride)),
    );
    say("reach left", text(&object["reach"]["left"]));
    say("reach right", text(&object["reach"]["right"]));
    let norms = match facts.spatial_norms.len() {
        0 => "none: windows can be exact".to_owned(),
        n => format!("{n}: statistics differ from window to window"),
    };
    say("spatial norms", norms);
    if let Some(flops) = object["flops"].as_u64() {
        say("flops", format!("{:.1} GFLOP", flops as f64 / 1e9));
    }
    for note in &model.about.lines() {
        output::warn(note);
    }
    for u in &facts.unsupported {
        output::warn(&format!(
            "{} ({}) can be planned, not run: {}",
            u.op, u.node, u.reason
        ));
    }
    let rows: Vec<Vec<String>> = facts
        .ops
        .iter()
        .map(|(op, n)| vec![op.clone(), n.to_string()])
        .collect();
    output::table(
        &[("operation", Align::Left), ("count", Align::Right)],
        &rows,
    );
    if let Some(tensors) = object.get("tensors").and_then(Value::as_array) {
        let rows: Vec<Vec<String>> = tensors
            .iter()
            .map(|t| {
                let shape: Vec<usize> = t["shape"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_u64)
                    .filter_map(|n| usize::try_from(n).ok())
                    .collect();
                vec![
                    t["name"].as_str().unwrap_or_default().to_owned(),
                    output::sizes(&shape),
                    crate::units::Bytes(t["bytes"].as_u64().unwrap_or(0)).to_string(),
                    format!("{} to {}", t["first"], t["last"]),
                ]
            })
            .collect();
        output::say("");
        output::table(
            &[
                ("tensor", Align::Left),
                ("shape", Align::Right),
                ("bytes", Align::Right),
                ("steps", Align::Right),
            ],
            &rows,
        );
    }
}
