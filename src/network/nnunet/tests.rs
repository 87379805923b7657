//! Plans of both ages, results folders, and what is wrong with broken ones.

use super::*;
use crate::network::manifest::{Axes, BlendMode, Intensity, Output, WindowLayout};
use crate::network::naive::{npy, worst};
use crate::network::{facts, naive, open_choice};
use serde_json::json;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/nnunet/nnUNetTrainer__nnUNetPlans__3d_fullres")
}

fn new_keys() -> Value {
    json!({
        "network_class_name": "dynamic_network_architectures.architectures.unet.PlainConvUNet",
        "arch_kwargs": {
            "n_stages": 6,
            "features_per_stage": [32, 64, 128, 256, 320, 320],
            "conv_op": "torch.nn.modules.conv.Conv3d",
            "kernel_sizes": [[1, 3, 3], [3, 3, 3], [3, 3, 3], [3, 3, 3], [3, 3, 3], [3, 3, 3]],
            "strides": [[1, 1, 1], [1, 2, 2], [2, 2, 2], [2, 2, 2], [2, 2, 2], [1, 2, 2]],
            "n_conv_per_stage": [2, 2, 2, 2, 2, 2],
            "n_conv_per_stage_decoder": [2, 2, 2, 2, 2],
            "conv_bias": true,
            "norm_op": "torch.nn.modules.instancenorm.InstanceNorm3d",
            "norm_op_kwargs": { "eps": 1e-5, "affine": true },
            "dropout_op": null,
            "dropout_op_kwargs": null,
            "nonlin": "torch.nn.LeakyReLU",
            "nonlin_kwargs": { "inplace": true }
        },
        "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"]
    })
}

fn plans() -> Value {
    let flat = json!({
        "patch_size": [512, 512],
        "spacing": [0.75, 0.75],
        "normalization_schemes": ["CTNormalization"],
        "UNet_class_name": "PlainConvUNet",
        "UNet_base_num_features": 32,
        "unet_max_num_features": 512,
        "conv_kernel_sizes": vec![[3, 3]; 8],
        "pool_op_kernel_sizes": [[1, 1], [2, 2], [2, 2], [2, 2], [2, 2], [2, 2], [2, 2], [2, 2]],
        "num_pool_per_axis": [7, 7],
        "n_conv_per_stage_encoder": vec![2; 8],
        "n_conv_per_stage_decoder": vec![2; 7]
    });
    let low = json!({
        "patch_size": [96, 128, 128],
        "spacing": [3.0, 1.5, 1.5],
        "normalization_schemes": ["CTNormalization"],
        "UNet_class_name": "PlainConvUNet",
        "UNet_base_num_features": 32,
        "unet_max_num_features": 320,
        "conv_kernel_sizes": vec![[3, 3, 3]; 5],
        "pool_op_kernel_sizes": [[1, 1, 1], [2, 2, 2], [2, 2, 2], [2, 2, 2], [2, 2, 2]],
        "n_conv_per_stage_encoder": vec![2; 5],
        "n_conv_per_stage_decoder": vec![2; 4],
        "next_stage": "3d_cascade_fullres"
    });
    let full = json!({
        "patch_size": [40, 224, 192],
        "spacing": [5.0, 0.75, 0.8],
        "normalization_schemes": ["CTNormalization"],
        "use_mask_for_norm": [false],
        "architecture": new_keys()
    });
    json!({
        "dataset_name": "Dataset003_Liver",
        "plans_name": "nnUNetPlans",
        "image_reader_writer": "SimpleITKIO",
        "transpose_forward": [0, 1, 2],
        "configurations": {
            "2d": flat,
            "3d_lowres": low,
            "3d_fullres": full,
            "3d_fullres_bs4": { "batch_size": 4, "inherits_from": "3d_fullres" },
            "3d_cascade_fullres": { "inherits_from": "3d_fullres", "previous_stage": "3d_lowres" }
        },
        "foreground_intensity_properties_per_channel": {
            "0": { "mean": 99.5, "std": 37.1, "percentile_00_5": -15.0, "percentile_99_5": 197.0 }
        }
    })
}

fn written(plans: &Value, data: Option<Value>) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.json");
    std::fs::write(&path, plans.to_string()).unwrap();
    if let Some(data) = data {
        std::fs::write(folder.path().join("dataset.json"), data.to_string()).unwrap();
    }
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

fn liver() -> Value {
    json!({ "channel_names": { "0": "CT" }, "labels": { "background": 0, "liver": 1, "tumour": 2, "ignore": 3 } })
}

fn with(path: &str, configuration: Option<&str>) -> Result<Model, String> {
    let choice = Choice {
        configuration: configuration.map(str::to_owned),
        ..Choice::default()
    };
    open_choice(path, &choice).map_err(|e| e.to_string())
}

#[test]
fn every_configuration_has_the_parameters_that_pytorch_counts() {
    let (_folder, path) = written(&plans(), Some(liver()));
    // Counted by torch on dynamic_network_architectures 0.4.4.
    for (name, parameters, dims) in [
        (None, 30_704_303, 3),
        (Some("3d_fullres_bs4"), 30_704_303, 3),
        (Some("2d"), 46_326_581, 2),
        (Some("3d_lowres"), 16_548_076, 3),
        (Some("3d_cascade_fullres"), 30_704_879, 3),
    ] {
        let model = with(&path, name).unwrap();
        assert_eq!(facts::n_parameters(&model.graph), parameters, "{name:?}");
        assert_eq!(model.graph.spatial_dims, dims);
        assert_eq!(model.about.configurations.len(), 5);
        assert_eq!(model.about.chosen.as_deref(), name.or(Some("3d_fullres")));
        assert!(!model.about.needs_acceptance());
        assert!(model.weights.is_none());
    }
    let by_hash = with(&format!("{path}#2d"), None).unwrap();
    assert_eq!(by_hash.about.chosen.as_deref(), Some("2d"));
    let mut residual = plans();
    let net = &mut residual["configurations"]["3d_fullres"]["architecture"];
    net["network_class_name"] = json!("x.residual_unet.ResidualEncoderUNet");
    let args = &mut net["arch_kwargs"];
    args.as_object_mut().unwrap().remove("n_conv_per_stage");
    args["n_blocks_per_stage"] = json!([1, 3, 4, 6, 6, 6]);
    args["n_conv_per_stage_decoder"] = json!([1, 1, 1, 1, 1]);
    args["kernel_sizes"] = json!(vec![[3, 3, 3]; 6]);
    args["strides"] = json!([
        [1, 1, 1],
        [2, 2, 2],
        [2, 2, 2],
        [2, 2, 2],
        [2, 2, 2],
        [2, 2, 2]
    ]);
    let data = json!({ "channel_names": { "0": "CT", "1": "PET" }, "labels": { "background": 0, "whole": [1, 2, 3], "core": [2, 3], "rest": 3, "more": [4, 1] }, "regions_class_order": [1, 2, 3, 4] });
    let (_folder, path) = written(&residual, Some(data));
    let model = with(&path, None).unwrap();
    assert_eq!(facts::n_parameters(&model.graph), 102_352_244);
    assert!(model.about.said().any(|n| n.contains("regions")));
}

#[test]
fn the_manifest_says_what_nnunet_does_with_a_volume() {
    let (_folder, path) = written(&plans(), Some(liver()));
    let m = with(&path, None).unwrap().manifest;
    assert_eq!(m.input.axes, Axes::Zyx);
    assert_eq!(m.input.spacing_mm, Some([0.8, 0.75, 5.0]));
    assert_eq!(
        m.input.intensity,
        Intensity::ZScore {
            mean: 99.5,
            std: 37.1,
            clip: Some([-15.0, 197.0])
        }
    );
    assert_eq!(m.windows.roi_size, [192, 224, 40]);
    assert_eq!(m.windows.overlap.per_axis(), [0.5; 3]);
    assert_eq!(
        (m.windows.blend, m.windows.layout),
        (BlendMode::Gaussian, WindowLayout::Nnunet)
    );
    let Output::Segmentation(s) = &m.output else {
        panic!("no labels")
    };
    assert_eq!(s.labels, ["background", "liver", "tumour"]);
    for (scheme, intensity) in [
        ("NoNormalization", Intensity::None),
        (
            "RescaleTo01Normalization",
            Intensity::RescaleImage { to: [0.0, 1.0] },
        ),
        (
            "ZScoreNormalization",
            Intensity::ZScoreImage {
                nonzero: true,
                rescale: None,
            },
        ),
    ] {
        let mut p = plans();
        let c = &mut p["configurations"]["3d_fullres"];
        c["normalization_schemes"] = json!([scheme]);
        c["use_mask_for_norm"] = json!([true]);
        let (_folder, path) = written(&p, None);
        let model = with(&path, None).unwrap();
        assert_eq!(model.manifest.input.intensity, intensity, "{scheme}");
        assert!(
            model
                .about
                .notes
                .iter()
                .any(|n| n.contains("two are taken"))
        );
    }
}

#[test]
fn a_flat_patch_keeps_the_order_of_the_tensors_axes_when_they_are_turned() {
    for (forward, roi) in [([0, 1, 2], [256, 512, 1]), ([2, 1, 0], [512, 256, 1])] {
        let mut p = plans();
        p["transpose_forward"] = json!(forward);
        p["configurations"]["2d"]["patch_size"] = json!([512, 256]);
        let (_folder, path) = written(&p, Some(liver()));
        let model = with(&path, Some("2d")).unwrap();
        assert_eq!(model.manifest.windows.roi_size, roi, "{forward:?}");
    }
}

#[test]
fn a_results_folder_runs_with_its_weights_as_pytorch_does() {
    let model = open_choice(golden().to_str().unwrap(), &Choice::default()).unwrap();
    let notes = model.about.notes.join("\n");
    assert!(notes.contains("fold 0, checkpoint_final.pth"), "{notes}");
    assert!(notes.contains("8 mirrored passes"), "{notes}");
    let folder = golden();
    let folder = folder.parent().unwrap();
    let (shape, input) = npy(&folder.join("in.npy"));
    let (_, expected) = npy(&folder.join("expected_0.npy"));
    let weights = model.weights.as_ref().unwrap();
    let out = naive::forward(&model.graph, weights, &input, 1, &shape[2..]);
    let worst = worst(&out[0], &expected);
    assert!(worst < 2e-4, "differs by {worst}");
}

#[test]
fn folds_are_chosen_by_name_and_a_wrong_one_is_answered_with_those_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("nnUNetTrainer__nnUNetPlans__3d_fullres");
    for fold in ["fold_1", "fold_10", "fold_2", "fold_all"] {
        std::fs::create_dir_all(root.join(fold)).unwrap();
        let file = if fold == "fold_2" {
            "checkpoint_best.pth"
        } else {
            "checkpoint_final.pth"
        };
        std::fs::copy(
            golden().join("fold_0/checkpoint_final.pth"),
            root.join(fold).join(file),
        )
        .unwrap();
    }
    std::fs::copy(golden().join("plans.json"), root.join("plans.json")).unwrap();
    let at = root.to_str().unwrap();
    let opened = |fold: Option<&str>| {
        let choice = Choice {
            fold: fold.map(str::to_owned),
            ..Choice::default()
        };
        open_choice(at, &choice)
            .map(|m| m.about.notes.join("\n"))
            .map_err(|e| e.to_string())
    };
    let notes = opened(None).unwrap();
    assert!(notes.contains("weights: fold 1,"), "{notes}");
    assert!(
        notes.contains("averages all folds; this runs one") && notes.contains("2, 10, all"),
        "{notes}"
    );
    assert!(
        opened(Some("2"))
            .unwrap()
            .contains("fold 2, checkpoint_best.pth")
    );
    assert!(opened(Some("fold_all")).unwrap().contains("fold all"));
    let said = opened(Some("7")).unwrap_err();
    assert!(
        said.contains("no fold \"7\"") && said.contains("1, 2, 10, all") && said.contains(at),
        "{said}"
    );
    let said = with(at, Some("2d")).unwrap_err();
    assert!(said.contains("trained as \"3d_fullres\""), "{said}");
    // The classes are counted from the weights where dataset.json is missing.
    let model = open_choice(at, &Choice::default()).unwrap();
    assert!(model.weights.is_some());
}

#[test]
fn weights_of_another_network_are_refused_by_the_tensor_that_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::create_dir_all(root.join("fold_0")).unwrap();
    std::fs::copy(
        golden().join("fold_0/checkpoint_final.pth"),
        root.join("fold_0/checkpoint_final.pth"),
    )
    .unwrap();
    let text = std::fs::read_to_string(golden().join("plans.json")).unwrap();
    let mut plans: Value = serde_json::from_str(&text).unwrap();
    plans["configurations"]["3d_fullres"]["architecture"]["arch_kwargs"]["features_per_stage"] =
        json!([4, 8, 16]);
    std::fs::write(root.join("plans.json"), plans.to_string()).unwrap();
    let said = with(root.to_str().unwrap(), None).unwrap_err();
    assert!(
        said.contains("encoder.stages.2") && said.contains("found [8,"),
        "{said}"
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of faults")]
fn each_fault_of_a_plan_is_answered_with_its_place() {
    let change = |path: &[&str], value: Value| {
        let mut p = plans();
        let mut at = &mut p;
        for key in path {
            at = &mut at[*key];
        }
        *at = value;
        p
    };
    let full = ["configurations", "3d_fullres"];
    let net = [&full[..], &["architecture"]].concat();
    let arg = |key: &'static str| [&net[..], &["arch_kwargs", key]].concat();
    for (fault, plans, words) in [
        ("no configurations", json!({}), "no \"configurations\""),
        (
            "a list of them",
            json!({ "configurations": [1] }),
            "must be an object",
        ),
        (
            "a cycle",
            change(
                &["configurations", "3d_fullres", "inherits_from"],
                json!("3d_fullres_bs4"),
            ),
            "inherits from itself",
        ),
        (
            "a missing parent",
            change(
                &["configurations", "3d_fullres", "inherits_from"],
                json!("3d"),
            ),
            "no configuration \"3d\"",
        ),
        (
            "another class",
            change(
                &[&net[..], &["network_class_name"]].concat(),
                json!("primus.Primus"),
            ),
            "PlainConvUNet or ResidualEncoderUNet",
        ),
        (
            "a giant number of stages",
            change(&arg("n_stages"), json!(1_000_000_000)),
            "whole number",
        ),
        (
            "a negative one",
            change(&arg("n_stages"), json!(-3)),
            "whole number",
        ),
        (
            "more stages than kernels",
            change(&arg("n_stages"), json!(7)),
            "list of 7",
        ),
        (
            "giant features",
            change(&arg("features_per_stage"), json!(vec![900_000; 6])),
            "channels",
        ),
        (
            "a kernel in words",
            change(&arg("kernel_sizes"), json!("big")),
            "must be a list",
        ),
        (
            "a stride of 0",
            change(&arg("strides"), json!(vec![0; 6])),
            "sizes from 1 to 64",
        ),
        (
            "blocks without end",
            change(&arg("n_conv_per_stage"), json!(100_000)),
            "blocks",
        ),
        (
            "an unknown setting",
            change(&arg("squeeze_excitation"), json!(true)),
            "squeeze_excitation",
        ),
        (
            "another norm",
            change(&arg("norm_op"), json!("torch.nn.LayerNorm")),
            "InstanceNorm or BatchNorm",
        ),
        (
            "a norm that keeps statistics of its own",
            change(
                &arg("norm_op_kwargs"),
                json!({ "affine": true, "track_running_stats": true }),
            ),
            "norm_op_kwargs.track_running_stats",
        ),
        (
            "an activation with a setting that is not known",
            change(&arg("nonlin_kwargs"), json!({ "slope": 0.2 })),
            "nonlin_kwargs.slope",
        ),
        (
            "turned axes",
            change(&["transpose_forward"], json!([1, 0, 2])),
            "transpose_forward",
        ),
        (
            "an empty patch",
            change(&[&full[..], &["patch_size"]].concat(), json!([])),
            "two or three sizes",
        ),
        (
            "a spacing of nothing",
            change(&[&full[..], &["spacing"]].concat(), json!([0.0, 1.0, 1.0])),
            "above 0 mm",
        ),
        (
            "another scaling",
            change(
                &[&full[..], &["normalization_schemes"]].concat(),
                json!(["MyNorm"]),
            ),
            "--manifest",
        ),
        (
            "no properties",
            change(&["foreground_intensity_properties_per_channel"], json!({})),
            "no \"0\"",
        ),
    ] {
        let (_folder, path) = written(&plans, Some(liver()));
        let said = with(&path, None).unwrap_err();
        assert!(
            said.contains(words) && said.ends_with("plans.json"),
            "{fault}: {said}"
        );
    }
}

#[test]
fn a_data_set_or_a_path_that_cannot_be_read_is_answered_with_its_name() {
    let (_folder, path) = written(&plans(), Some(json!({ "labels": { "a": "x" } })));
    let said = with(&path, None).unwrap_err();
    assert!(
        said.contains("labels.a") && said.ends_with("dataset.json"),
        "{said}"
    );
    let (folder, path) = written(&plans(), None);
    std::fs::write(&path, "{\"configurations\": ").unwrap();
    assert!(with(&path, None).unwrap_err().contains("not JSON"));
    std::fs::write(&path, "[".repeat(100_000)).unwrap();
    assert!(with(&path, None).unwrap_err().contains("not JSON"));
    let said = with(
        folder
            .path()
            .parent()
            .unwrap()
            .join("none.json")
            .to_str()
            .unwrap(),
        None,
    )
    .unwrap_err();
    assert!(said.contains("was not found"), "{said}");
    let said = with("preset:demo", Some("2d")).unwrap_err();
    assert!(said.contains("no configurations"), "{said}");
}
