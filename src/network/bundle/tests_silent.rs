//! What a bundle says and what must not be dropped in silence: None, places, settings, single numbers, other manifests.

use super::tests::{bundle, lung_nodule, of, opened, said};
use super::*;
use crate::network::manifest::{Intensity, Manifest, Output};
use crate::network::{Choice, facts, manifest_beside, open_choice};
use serde_json::json;
use std::time::{Duration, Instant};

fn unet(key: &str, value: Value) -> Value {
    let mut net = json!({ "_target_": "UNet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2, "channels": [4, 8], "strides": [2] });
    net[key] = value;
    json!({ "network_def": net })
}

/// A small network after these steps, with this inferer.
fn prepared(steps: &Value, inferer: &Value) -> Value {
    let mut all = inferer.clone();
    all["_target_"] = json!("SlidingWindowInferer");
    all["roi_size"] = json!([32, 32, 32]);
    json!({
        "network_def": { "_target_": "BasicUNet", "features": [4, 4, 4, 4, 4, 4] },
        "preprocessing": { "_target_": "Compose", "transforms": steps },
        "inferer": all
    })
}

#[test]
fn a_norm_or_an_activation_of_none_is_none_and_not_the_default() {
    let has = |config: &Value, kind: &str| {
        let model = of(config).unwrap();
        model.graph.nodes.iter().any(|n| n.op.kind() == kind)
    };
    assert!(has(&unet("bias", json!(true)), "InstanceNorm"));
    assert!(!has(&unet("norm", Value::Null), "InstanceNorm"));
    assert!(has(&unet("bias", json!(true)), "PRelu"));
    assert!(!has(&unet("act", Value::Null), "PRelu"));
    let biases = |config: &Value| {
        let model = of(config).unwrap();
        let names = model.graph.tensors.iter().map(|t| &t.name);
        names.filter(|n| n.ends_with("conv.bias")).count()
    };
    assert!(biases(&unet("dropout", json!(0.1))) > 0);
    assert_eq!(biases(&unet("bias", Value::Null)), 0);
}

#[test]
fn arguments_by_place_and_settings_of_layers_that_are_not_read_are_refused() {
    for (config, words) in [
        (
            json!({ "network_def": "$monai.networks.nets.BasicUNet(3, 2, 4)" }),
            "by their place",
        ),
        (
            unet("norm", json!(["instance", { "track_running_stats": true }])),
            "norm[1].track_running_stats",
        ),
        (
            unet("norm", json!(["batch", { "track_running_stats": false }])),
            "norm[1].track_running_stats",
        ),
        (
            unet("norm", json!(["batch", { "scale": 2.0 }])),
            "norm[1].scale",
        ),
        (
            unet("act", json!(["gelu", { "approximate": "tanh" }])),
            "act[1].approximate",
        ),
        (
            unet("act", json!(["leakyrelu", { "slope": 0.2 }])),
            "act[1].slope",
        ),
    ] {
        let refused = of(&config).unwrap_err();
        assert!(refused.contains(words), "{config}: {refused}");
    }
    let plain = of(&unet("norm", json!("instance"))).unwrap();
    let fused = of(&unet("norm", json!("instance_nvfuser"))).unwrap();
    assert_eq!(
        facts::n_parameters(&fused.graph),
        facts::n_parameters(&plain.graph)
    );
}

#[test]
fn channels_of_a_backbone_that_are_not_read_are_refused_and_not_the_usual_ones() {
    let with = |planes: &str| {
        let mut c = lung_nodule();
        c["backbone"] = json!(format!(
            "$monai.networks.nets.resnet.ResNet(block='bottleneck', layers=[3,4,6,3], block_inplanes={planes}, spatial_dims=3, n_input_channels=1, conv1_t_stride=[2,2,1], conv1_t_size=[7,7,7])"
        ));
        of(&c).map(|m| facts::n_parameters(&m.graph))
    };
    assert_eq!(
        with("monai.networks.nets.resnet.get_inplanes()"),
        Ok(20_902_741)
    );
    assert_eq!(with("[64, 128, 256, 512]"), Ok(20_902_741));
    let refused = with("scripts.planes").unwrap_err();
    assert!(refused.contains("block_inplanes"), "{refused}");
}

#[test]
fn a_normalisation_by_one_number_is_not_run_with_another_made_up() {
    let with = |step: Value| {
        let mut step = step;
        step["_target_"] = json!("NormalizeIntensityd");
        step["keys"] = json!("image");
        let model = of(&prepared(&json!([step]), &json!({}))).unwrap();
        (
            model.manifest.input.intensity,
            model.about.needs_acceptance(),
        )
    };
    let both = Intensity::ZScore {
        mean: 100.0,
        std: 50.0,
        clip: None,
    };
    assert_eq!(
        with(json!({ "subtrahend": 100.0, "divisor": 50.0 })),
        (both, false)
    );
    for one in [
        json!({ "subtrahend": 100.0 }),
        json!({ "divisor": 50.0 }),
        json!({ "_args_": ["image", 100.0, 50.0] }),
    ] {
        assert_eq!(with(one), (Intensity::None, true));
    }
}

#[test]
fn spacing_before_orientation_waits_to_be_accepted_where_axes_differ() {
    for (mm, waits) in [([1.0, 1.0, 3.0], true), ([2.0, 2.0, 2.0], false)] {
        let model = of(&prepared(
            &json!([
                { "_target_": "Spacingd", "keys": "image", "pixdim": mm },
                { "_target_": "Orientationd", "keys": "image", "axcodes": "RAS" }
            ]),
            &json!({}),
        ))
        .unwrap();
        assert_eq!(model.about.needs_acceptance(), waits, "{mm:?}");
        assert!(said(&model).contains("before it turns") || said(&model).contains("turns them"));
    }
}

#[test]
fn transforms_of_arrays_are_known_by_their_names_too() {
    let model = of(&prepared(
        &json!([
            { "_target_": "LoadImage" },
            { "_target_": "CropForeground" },
            { "_target_": "DivisiblePad", "k": 16 }
        ]),
        &json!({}),
    ))
    .unwrap();
    assert_eq!(model.manifest.input.divisible_by, Some([16; 3]));
    assert!(!model.about.needs_acceptance(), "{}", said(&model));
}

#[test]
fn a_bundle_without_preprocessing_or_with_a_step_that_may_be_off_waits_to_be_accepted() {
    let mut none = prepared(&json!([]), &json!({}));
    none["preprocessing"] = json!("$@a if torch.cuda.is_available() else @b");
    let model = of(&none).unwrap();
    assert!(model.about.needs_acceptance());
    assert!(said(&model).contains("how a volume is prepared"));
    let step = |off: Value| {
        let step = json!({ "_target_": "ScaleIntensityd", "keys": "image", "_disabled_": off });
        of(&prepared(
            &json!([{ "_target_": "LoadImaged", "keys": "image" }, step]),
            &json!({}),
        ))
        .unwrap()
    };
    assert_eq!(
        step(json!("true")).manifest.input.intensity,
        Intensity::None
    );
    assert!(
        step(json!("$torch.cuda.is_available()"))
            .about
            .needs_acceptance()
    );
    assert!(!step(json!(false)).about.needs_acceptance());
}

#[test]
fn the_gaussians_width_is_read_from_a_list() {
    let with = |list: Value| {
        let inferer = json!({ "mode": "gaussian", "sigma_scale": list });
        of(&prepared(
            &json!([{ "_target_": "LoadImaged", "keys": "image" }]),
            &inferer,
        ))
        .unwrap()
    };
    let same = with(json!([0.25, 0.25, 0.25]));
    assert_eq!(same.manifest.windows.sigma_scale, 0.25);
    assert!(!said(&same).contains("another width"));
    assert!(said(&with(json!([0.25, 0.25, 0.5]))).contains("another width"));
}

#[test]
fn box_settings_given_by_place_are_not_the_defaults() {
    let mut c = lung_nodule();
    c["detector_ops"][1] = json!("$@detector.set_box_selector_parameters(0.1, 500, 0.3, 100)");
    let Output::Retinanet(r) = of(&c).unwrap().manifest.output else {
        panic!("no boxes")
    };
    let s = r.box_selector;
    assert_eq!((s.score_thresh, s.nms_thresh), (0.1, 0.3));
    assert_eq!(
        (s.topk_candidates_per_level, s.detections_per_img),
        (500, 100)
    );
    c["detector_ops"][1] = json!("$@detector.set_box_selector_parameters(apply_sigmoid=False)");
    assert!(of(&c).unwrap_err().contains("apply_sigmoid"));
}

#[test]
fn lists_that_repeat_lists_are_stopped_by_what_is_in_them() {
    let start = Instant::now();
    let nested = unet("channels", json!("$[[[0] * 4096] * 4096] * 4096"));
    assert!(of(&nested).unwrap_err().contains("must be a list"));
    let many = unet("channels", json!(vec!["$[0] * 4000"; 1000]));
    assert!(of(&many).unwrap_err().contains("unfold to more than"));
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn weights_past_this_machine_are_refused_before_they_are_made() {
    let mut giant = unet("channels", json!([8192, 8192]));
    giant["network_def"]["kernel_size"] = json!(63);
    let folder = bundle(&[("configs/inference.json", giant.to_string())]);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/bundles/unet_plain_aniso/models/model.pt");
    std::fs::copy(golden, folder.path().join("models/model.pt")).unwrap();
    let refused = opened(folder.path()).unwrap_err();
    assert!(refused.contains("bytes of weights"), "{refused}");
}

#[test]
fn folders_whose_names_differ_after_a_dot_have_a_manifest_each_and_old_guesses_go() {
    let root = tempfile::tempdir().unwrap();
    let config = prepared(
        &json!([{ "_target_": "scripts.MyStepd\n[windows]", "keys": "image" }]),
        &json!({}),
    );
    for name in ["net-1.0", "net-1.5"] {
        let configs = root.path().join(name).join("configs");
        std::fs::create_dir_all(&configs).unwrap();
        std::fs::write(configs.join("inference.json"), config.to_string()).unwrap();
    }
    let at = |name: &str| root.path().join(name);
    let text = |name: &str| at(name).to_str().unwrap().to_owned();
    assert_eq!(
        manifest_beside(&text("net-1.5/")),
        at("net-1.5.voxfit.toml")
    );
    assert_eq!(manifest_beside(&text("a.b.onnx")), at("a.b.voxfit.toml"));
    std::fs::write(at("net-1.0.voxfit.toml"), "[windows]\noverlap = 0.75\n").unwrap();
    let written = opened(&at("net-1.0")).unwrap();
    assert_eq!(written.about.manifest, ManifestSource::Written);
    assert_eq!(written.manifest.windows.overlap.per_axis(), [0.75; 3]);
    let notes = said(&written);
    assert!(
        !notes.contains("MyStepd") && notes.contains("has no weights"),
        "{notes}"
    );
    let own = opened(&at("net-1.5")).unwrap();
    assert!(own.about.needs_acceptance() && said(&own).contains("MyStepd"));
    // A line break in a name of the bundle's does not get out of its comment.
    let toml = own.manifest_text().unwrap();
    assert_eq!(Manifest::parse(&toml, None).unwrap(), own.manifest);
    let choice = Choice {
        manifest: Some(at("net-1.0.voxfit.toml")),
        ..Choice::default()
    };
    let other = open_choice(&text("net-1.5"), &choice).unwrap();
    assert!(!said(&other).contains("MyStepd"), "{}", said(&other));
    let choice = Choice {
        fold: Some("0".to_owned()),
        ..Choice::default()
    };
    for model in [text("net-1.5"), "preset:demo".to_owned()] {
        let refused = open_choice(&model, &choice).unwrap_err().to_string();
        assert!(refused.contains("leave --fold out"), "{refused}");
    }
}
