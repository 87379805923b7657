//! Networks that need no file: their graphs in code, their manifests in assets/presets.

mod demo;

use super::Model;
use super::about::About;
use super::error::NetworkError;
use super::graph::Graph;
use super::manifest::Manifest;
use super::monai::{BasicUNet, DynUNet, RetinaNet, SegResNet, SwinUnetr, UNet as MonaiUNet, Unetr};
use super::nnunet::UNet;
use super::weights::Weights;

/// Makes a preset's graph under a name.
type Make = fn(&str) -> Result<Graph, String>;

struct Preset {
    name: &'static str,
    graph: Make,
    manifest: &'static str,
    weights: Option<&'static [u8]>,
}

const PRESETS: &[Preset] = &[
    Preset::trained(
        "demo",
        |name| Ok(demo::graph(name, false)),
        include_str!("../../../assets/presets/demo.toml"),
        include_bytes!("../../../assets/demo/demo.safetensors"),
    ),
    Preset::trained(
        "demo-norm",
        |name| Ok(demo::graph(name, true)),
        include_str!("../../../assets/presets/demo-norm.toml"),
        include_bytes!("../../../assets/demo/demo-norm.safetensors"),
    ),
    Preset::planned(
        "monai-lung-nodule",
        |name| Ok(RetinaNet::lung_nodule().graph(name)),
        LUNG_NODULE,
    ),
    Preset::planned(
        "retinanet_bundle",
        |name| Ok(RetinaNet::lung_nodule().graph(name)),
        LUNG_NODULE,
    ),
    Preset::planned(
        "nnunet-3d-6stage",
        |name| Ok(UNet::cubic(&WIDTHS, &[2; 6], 2, false).graph(name)),
        NNUNET_128,
    ),
    Preset::planned(
        "nnunet_plain_32_30M",
        |name| Ok(UNet::cubic(&WIDTHS, &[2; 6], 2, false).graph(name)),
        NNUNET_128,
    ),
    Preset::planned(
        "nnunet-resenc-m",
        |name| Ok(resenc(&WIDTHS, &BLOCKS).graph(name)),
        NNUNET_128,
    ),
    Preset::planned(
        "nnunet-resenc-l",
        |name| Ok(resenc(&WIDTHS, &BLOCKS).graph(name)),
        NNUNET_160,
    ),
    Preset::planned(
        "nnunet-resenc-xl",
        |name| Ok(resenc(&WIDTHS, &BLOCKS).graph(name)),
        NNUNET_192,
    ),
    Preset::planned(
        "nnunet_resenc_32_320",
        |name| Ok(resenc(&WIDTHS, &BLOCKS).graph(name)),
        NNUNET_128,
    ),
    Preset::planned(
        "monai_basicunet_default",
        |name| Ok(BasicUNet::new(3).graph(name)),
        MONAI_96,
    ),
    Preset::planned("monai_unet_16_256_res2", unet_res2, MONAI_96),
    Preset::planned("monai_segresnet_16", segresnet, MONAI_96),
    Preset::planned(
        "monai_dynunet_32_320",
        |name| Ok(DynUNet::cubic(3, &WIDTHS).graph(name)),
        MONAI_96,
    ),
    Preset::planned(
        "monai_swinunetr_48",
        |name| Ok(SwinUnetr::new(3, 48).graph(name)),
        MONAI_96,
    ),
    Preset::planned(
        "monai_unetr_default_96",
        |name| Ok(Unetr::new(3).graph(name)),
        MONAI_96,
    ),
];

const WIDTHS: [usize; 6] = [32, 64, 128, 256, 320, 320];
const BLOCKS: [usize; 6] = [1, 3, 4, 6, 6, 6];
const LUNG_NODULE: &str = include_str!("../../../assets/presets/monai-lung-nodule.toml");
const NNUNET_128: &str = include_str!("../../../assets/presets/nnunet-128.toml");
const NNUNET_160: &str = include_str!("../../../assets/presets/nnunet-160.toml");
const NNUNET_192: &str = include_str!("../../../assets/presets/nnunet-192.toml");
const MONAI_96: &str = include_str!("../../../assets/presets/monai-96.toml");

impl Preset {
    const fn planned(name: &'static str, graph: Make, manifest: &'static str) -> Self {
        Self {
            name,
            graph,
            manifest,
            weights: None,
        }
    }

    const fn trained(
        name: &'static str,
        graph: Make,
        manifest: &'static str,
        weights: &'static [u8],
    ) -> Self {
        Self {
            name,
            graph,
            manifest,
            weights: Some(weights),
        }
    }
}

/// `UNet(3, 1, 3, channels 16 32 64 128 256, strides 2, num_res_units 2)`.
fn unet_res2(name: &str) -> Result<Graph, String> {
    MonaiUNet::new(3, &[16, 32, 64, 128, 256], 2).graph(name)
}

/// `SegResNet(3, init_filters 16, 1, 3)`.
fn segresnet(name: &str) -> Result<Graph, String> {
    SegResNet::new(16, 3).graph(name)
}

fn resenc(widths: &[usize], blocks: &[usize]) -> UNet {
    UNet::cubic(widths, blocks, 1, true)
}

/// Names of all presets, in the order in which they are shown.
pub fn names() -> Vec<&'static str> {
    PRESETS.iter().map(|p| p.name).collect()
}

/// The preset of that name, with its embedded weights where it has some.
pub fn load(name: &str) -> Result<Model, NetworkError> {
    let preset =
        PRESETS
            .iter()
            .find(|p| p.name == name)
            .ok_or_else(|| NetworkError::UnknownPreset {
                name: name.to_owned(),
                known: names(),
            })?;
    let graph = (preset.graph)(preset.name).map_err(|reason| NetworkError::Graph {
        network: name.to_owned(),
        reason,
    })?;
    let manifest = Manifest::parse(preset.manifest, None)?;
    let weights = preset
        .weights
        .map(|bytes| Weights::from_safetensors(&graph, bytes, None))
        .transpose()?;
    Ok(Model {
        graph,
        manifest,
        weights,
        about: About {
            kind: "preset".to_owned(),
            ..About::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{facts, shapes};
    use std::path::PathBuf;

    /// A file of the shared data, or `None` after saying that the test is skipped.
    fn shared(file: &str) -> Option<serde_json::Value> {
        let root = std::env::var_os("VOXFIT_SHARED").map_or_else(
            || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"),
            PathBuf::from,
        );
        let path = root.join("data").join(file);
        let Ok(text) = std::fs::read_to_string(&path) else {
            println!("skipped: {} is not there", path.display());
            return None;
        };
        Some(serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn every_preset_has_a_right_manifest_facts_and_shapes_at_its_own_roi() {
        for name in names() {
            let model = load(name).unwrap();
            let facts = facts::of(&model.graph).unwrap();
            let roi = model
                .manifest
                .windows
                .roi_size
                .map(|v| usize::try_from(v).unwrap());
            let roi = model.manifest.input.axes.reorder(roi);
            let shapes = shapes::infer(&model.graph, &roi, 1).unwrap();
            assert!(
                facts.n_parameters > 0 && facts::total_flops(&model.graph, &shapes) > 0,
                "{name}"
            );
            assert!(
                roi.iter().zip(&facts.total_stride).all(|(r, s)| r % s == 0),
                "{name}"
            );
            let mut names: Vec<_> = model.graph.tensors.iter().map(|t| &t.name).collect();
            names.sort_unstable();
            assert!(
                names.windows(2).all(|w| w[0] != w[1]),
                "{name} has two tensors of one name"
            );
        }
    }

    #[test]
    fn parameters_of_the_presets_are_those_pytorch_counts() {
        let Some(rows) = shared("memory/pytorch_live_bytes.json") else {
            return;
        };
        let mut seen = 0;
        for row in rows["rows"].as_array().unwrap() {
            let Ok(model) = load(row["net"].as_str().unwrap()) else {
                continue;
            };
            assert_eq!(
                facts::n_parameters(&model.graph),
                row["n_params"].as_u64().unwrap(),
                "{}",
                row["net"]
            );
            seen += 1;
        }
        assert!(seen > 10, "only {seen} rows name a preset");
    }

    #[test]
    fn the_lung_nodule_network_is_monais_layer_by_layer() {
        let Some(file) = shared("networks/retinanet_layers.json") else {
            return;
        };
        let model = load("monai-lung-nodule").unwrap();
        assert_eq!(facts::n_parameters(&model.graph), 20_902_741);
        for (size, spatial) in [
            ("192x192x80", [192, 192, 80]),
            ("512x512x64", [512, 512, 64]),
        ] {
            let shapes = shapes::infer(&model.graph, &spatial, 1).unwrap();
            let made: Vec<_> = model
                .graph
                .nodes
                .iter()
                .filter(|n| {
                    !n.name.ends_with("add")
                        && !n.name.ends_with("interpolate")
                        && !n.name.contains(".add#")
                })
                .map(|n| {
                    let path = n.name.split('#').next().unwrap().to_owned();
                    (path, serde_json::json!(shapes[n.outputs[0].index()]))
                })
                .collect();
            let expected: Vec<_> = file[size]["layers"]
                .as_array()
                .unwrap()
                .iter()
                .map(|l| (l["layer"].as_str().unwrap().to_owned(), l["out"].clone()))
                .collect();
            assert_eq!(made, expected);
        }
        for (name, shape) in file["state_dict"].as_object().unwrap() {
            if name.ends_with("num_batches_tracked") {
                continue;
            }
            let id = model.graph.find(name).unwrap();
            let crate::network::TensorKind::Weight { shape: ours, .. } =
                &model.graph.tensors[id.index()].kind
            else {
                panic!("{name} is not a weight");
            };
            assert_eq!(&serde_json::json!(ours), shape, "{name}");
        }
    }

    #[test]
    fn reach_and_stride_of_the_known_networks_are_the_published_ones() {
        let some = |v: &[usize]| v.iter().map(|n| Some(*n)).collect::<Vec<_>>();
        let facts = facts::of(&load("monai-lung-nodule").unwrap().graph).unwrap();
        assert_eq!(facts.total_stride, [16, 16, 8]);
        let levels = [
            ([73, 73, 38], [66, 66, 35]),
            ([93, 93, 48], [86, 86, 45]),
            ([133, 133, 68], [118, 118, 61]),
        ];
        for (i, reach) in facts.reach.iter().enumerate() {
            assert_eq!(reach.left, some(&levels[i % 3].0), "output {i}");
            assert_eq!(reach.right, some(&levels[i % 3].1), "output {i}");
        }
        for (stages, left, right) in [(4, 44, 37), (5, 92, 77), (6, 188, 157)] {
            let graph = UNet::cubic(&WIDTHS[..stages], &vec![2; stages], 2, false).graph("plain");
            let facts = facts::of(&graph).unwrap();
            assert_eq!(facts.reach[0].left, some(&[left; 3]), "{stages} stages");
            assert_eq!(facts.reach[0].right, some(&[right; 3]), "{stages} stages");
            assert_eq!(facts.total_stride, [1 << (stages - 1); 3]);
        }
    }

    #[test]
    fn attention_has_no_reach_and_runs_at_every_size_but_where_places_are_learned() {
        for (name, stride) in [("monai_swinunetr_48", 32), ("monai_unetr_default_96", 16)] {
            let model = load(name).unwrap();
            let facts = facts::of(&model.graph).unwrap();
            assert_eq!(facts.total_stride, [stride; 3], "{name}");
            assert_eq!(facts.reach_max().left, [None; 3], "{name}");
            assert!(facts.unsupported.is_empty(), "{name}");
        }
        let unetr = load("monai_unetr_default_96").unwrap().graph;
        shapes::infer(&unetr, &[96; 3], 2).unwrap();
        let error = shapes::infer(&unetr, &[128; 3], 1).unwrap_err().to_string();
        assert!(
            error.contains("vit.patch_embedding.position_embeddings")
                && error.contains("96x96x96")
                && error.contains("128x128x128"),
            "{error}"
        );
        let swin = load("monai_swinunetr_48").unwrap().graph;
        for size in [[32, 32, 32], [96, 64, 32], [128, 160, 96]] {
            let shapes = shapes::infer(&swin, &size, 2).unwrap();
            let made = &shapes[swin.outputs[0].index()];
            assert_eq!(made[..2], [2, 3]);
            assert_eq!(made[2..], size);
        }
        let error = shapes::infer(&swin, &[96, 96, 100], 1)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("multiples of its total stride 32x32x32"),
            "{error}"
        );
    }

    #[test]
    fn a_wrong_preset_name_is_answered_with_the_names_there_are() {
        let error = load("demmo").unwrap_err().to_string();
        assert!(
            error.contains("demmo") && error.contains("monai-lung-nodule"),
            "{error}"
        );
    }
}
