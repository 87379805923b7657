//! Bundles as MONAI lays them out, parameter counts as PyTorch gives them, and broken bundles.

use super::*;
use crate::network::manifest::{Axes, BlendMode, Intensity, Orientation, Output};
use crate::network::naive::{npy, worst};
use crate::network::{Choice, Field, Origin, facts, naive, open_choice};
use serde_json::json;

pub(super) fn bundle(files: &[(&str, String)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("configs")).unwrap();
    std::fs::create_dir_all(folder.path().join("models")).unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

pub(super) fn opened(folder: &Path) -> Result<Model, String> {
    open_choice(folder.to_str().unwrap(), &Choice::default()).map_err(|e| e.to_string())
}

pub(super) fn said(model: &Model) -> String {
    model.about.said().collect::<Vec<_>>().join("\n")
}

pub(super) fn of(config: &Value) -> Result<Model, String> {
    let folder = bundle(&[("configs/inference.json", config.to_string())]);
    opened(folder.path())
}

#[test]
fn each_class_has_the_parameters_that_pytorch_counts() {
    // Counted by torch on MONAI 1.6.1.
    for (class, arguments, parameters) in [
        (
            "UNet",
            json!({"spatial_dims": 3, "in_channels": 1, "out_channels": 2, "channels": [16, 32, 64, 128, 256], "strides": [2, 2, 2, 2], "num_res_units": 2, "norm": "batch"}),
            4_808_917,
        ),
        (
            "UNet",
            json!({"spatial_dims": 3, "in_channels": 1, "out_channels": 3, "channels": [4, 8, 16], "strides": [2, [2, 2, 1]], "kernel_size": [3, 3, 1], "up_kernel_size": 3}),
            4755,
        ),
        (
            "UNet",
            json!({"spatial_dims": 2, "in_channels": 2, "out_channels": 4, "channels": [4, 8, 16, 24], "strides": [2, 1, 2], "num_res_units": 1, "act": "relu", "norm": ["group", {"num_groups": 2}], "bias": false, "adn_ordering": "AND", "dropout": 0.1}),
            11_376,
        ),
        ("monai.networks.nets.BasicUNet", json!({}), 5_749_410),
        (
            "BasicUNet",
            json!({"spatial_dims": 3, "in_channels": 2, "out_channels": 4, "features": [8, 8, 16, 16, 32, 8], "norm": "batch", "upsample": "nontrainable", "bias": false}),
            121_012,
        ),
        (
            "DynUNet",
            json!({"spatial_dims": 3, "in_channels": 3, "out_channels": 2, "kernel_size": [3, 3, 3, 3, 3, 3], "strides": [1, 2, 2, 2, 2, [2, 2, 1]], "upsample_kernel_size": [2, 2, 2, 2, [2, 2, 1]], "norm_name": "instance", "res_block": true}),
            31_001_282,
        ),
        (
            "DynUNet",
            json!({"spatial_dims": 3, "in_channels": 1, "out_channels": 3, "kernel_size": [[3, 3, 1], 3, 3], "strides": [1, [2, 2, 1], 2], "upsample_kernel_size": [[2, 2, 1], 2], "filters": [8, 16, 32, 64], "deep_supervision": true, "trans_bias": true}),
            83_438,
        ),
        (
            "SegResNet",
            json!({"blocks_down": [1, 2, 2, 4], "blocks_up": [1, 1, 1], "init_filters": 16, "in_channels": 4, "out_channels": 3, "dropout_prob": 0.2}),
            4_702_227,
        ),
        (
            "SegResNet",
            json!({"spatial_dims": 3, "init_filters": 32, "out_channels": 105, "in_channels": 1, "blocks_down": [1, 2, 2, 4], "blocks_up": [1, 1, 1]}),
            18_799_401,
        ),
        (
            "SegResNet",
            json!({"init_filters": 8, "upsample_mode": "deconv", "norm": ["instance", {"affine": true}], "blocks_down": [1, 2, 2], "blocks_up": [2, 1], "act": ["leakyrelu", {"negative_slope": 0.2}]}),
            194_130,
        ),
        (
            "SwinUNETR",
            json!({"spatial_dims": 3, "img_size": 96, "in_channels": 1, "out_channels": 14, "feature_size": 48, "use_checkpoint": false}),
            62_187_296,
        ),
        (
            "SwinUNETR",
            json!({"in_channels": 1, "out_channels": 2, "feature_size": 12, "use_v2": true, "depths": [2, 2, 1, 1], "num_heads": [3, 3, 6, 12]}),
            4_467_092,
        ),
        (
            "UNETR",
            json!({"in_channels": 1, "out_channels": 14, "img_size": [96, 96, 96], "feature_size": 16, "hidden_size": 768, "mlp_dim": 3072, "num_heads": 12}),
            92_802_478,
        ),
        (
            "UNETR",
            json!({"in_channels": 2, "out_channels": 3, "img_size": [32, 32, 48], "feature_size": 8, "hidden_size": 24, "mlp_dim": 48, "num_heads": 3, "norm_name": "batch", "res_block": false, "conv_block": false, "qkv_bias": true}),
            766_931,
        ),
    ] {
        let mut network = arguments.clone();
        network["_target_"] = json!(class);
        let model = of(&json!({ "network_def": network })).unwrap();
        assert_eq!(
            facts::n_parameters(&model.graph),
            parameters,
            "{class} {arguments}"
        );
        facts::of(&model.graph).unwrap();
    }
}

pub(super) fn lung_nodule() -> Value {
    json!({
        "raw": false,
        "resampled": "$(not @raw)",
        "patch": [512, 512, 192],
        "anchor_generator": {
            "_target_": "monai.apps.detection.utils.anchor_utils.AnchorGeneratorWithAnchorShape",
            "feature_map_scales": [1, 2, 4],
            "base_anchor_shapes": [[6, 8, 4], [8, 6, 5], [10, 10, 6]]
        },
        "backbone": "$monai.networks.nets.resnet.resnet50(spatial_dims=3,n_input_channels=1,conv1_t_stride=[2,2,1],conv1_t_size=[7,7,7])",
        "extractor": "$monai.apps.detection.networks.retinanet_network.resnet_fpn_feature_extractor(@backbone,3,False,[1,2],None)",
        "device": "$torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')",
        "network_def": { "_target_": "RetinaNet", "spatial_dims": 3, "num_classes": 1, "num_anchors": 3, "feature_extractor": "@extractor", "size_divisible": [16, 16, 8] },
        "network": "$@network_def.to(@device)",
        "detector": { "_target_": "RetinaNetDetector", "network": "@network", "anchor_generator": "@anchor_generator", "debug": false },
        "detector_ops": [
            "$@detector.set_target_keys(box_key='box', label_key='label')",
            "$@detector.set_box_selector_parameters(score_thresh=0.02,topk_candidates_per_level=1000,nms_thresh=0.22,detections_per_img=300)",
            "$@detector.set_sliding_window_inferer(roi_size=@patch,overlap=0.25,sw_batch_size=1,mode='constant',device='cpu')"
        ],
        "preprocessing": { "_target_": "Compose", "transforms": [
            { "_target_": "LoadImaged", "keys": "image" },
            { "_target_": "EnsureChannelFirstd", "keys": "image" },
            { "_target_": "Orientationd", "keys": "image", "axcodes": "RAS" },
            { "_target_": "Spacingd", "keys": "image", "pixdim": [0.703_125, 0.703_125, 1.25], "_disabled_": "@raw" },
            { "_target_": "ScaleIntensityRanged", "keys": "image", "a_min": -1024.0, "a_max": 300.0, "b_min": 0.0, "b_max": 1.0, "clip": true },
            { "_target_": "EnsureTyped", "keys": "image" }
        ]}
    })
}

#[test]
fn a_detection_bundle_becomes_the_manifest_that_its_preset_has() {
    let model = of(&lung_nodule()).unwrap();
    assert_eq!(facts::n_parameters(&model.graph), 20_902_741);
    let preset = crate::network::preset::load("monai-lung-nodule").unwrap();
    let mut expected = preset.manifest;
    if let Output::Retinanet(r) = &mut expected.output {
        r.labels = vec!["class 0".to_owned()];
        r.class_logits = (0..3)
            .map(crate::network::manifest::OutputRef::Position)
            .collect();
        r.box_regression = (3..6)
            .map(crate::network::manifest::OutputRef::Position)
            .collect();
    }
    expected.windows.sigma_scale = 0.125;
    assert_eq!(model.manifest, expected);
    assert!(!model.about.needs_acceptance(), "{:?}", model.about.notes);
    let named: Vec<_> = model.graph.tensors.iter().map(|t| &t.name).collect();
    let preset: Vec<_> = preset.graph.tensors.iter().map(|t| &t.name).collect();
    assert_eq!(named, preset);
    for (block, args, levels, classes, anchors, parameters) in [
        (
            "resnet10",
            "spatial_dims=3,n_input_channels=2,conv1_t_stride=2",
            "[1,2,3]",
            4,
            2,
            23_351_700u64,
        ),
        (
            "resnet50",
            "spatial_dims=3, n_input_channels=1, conv1_t_stride=[2,2,1], conv1_t_size=[7,7,7]",
            "(1,2)",
            1,
            3,
            20_902_741,
        ),
    ] {
        let mut c = lung_nodule();
        c["backbone"] = json!(format!("$monai.networks.nets.resnet.{block}({args})"));
        c["extractor"] = json!(format!(
            "$resnet_fpn_feature_extractor(backbone=@backbone, spatial_dims=3, returned_layers={levels})"
        ));
        c["network_def"]["num_classes"] = json!(classes);
        c["network_def"]["num_anchors"] = json!(anchors);
        c["detector"] = Value::Null;
        let model = of(&c).unwrap();
        assert_eq!(facts::n_parameters(&model.graph), parameters, "{block}");
    }
}

#[test]
fn a_segmentation_bundle_in_yaml_is_read_with_its_expressions_and_references() {
    let config = "
displayable: &d {highres: true, overlap: 0.25}
displayable_configs: *d
image_key: image
pixdim: '$[1.5, 1.5, 1.5] if @displayable_configs#highres else [3.0, 3.0, 3.0]'
network_def:
  _target_: SegResNet
  init_filters: 8
  out_channels: $1 + 1
network: $@network_def.to(@device)
preprocessing:
  _target_: Compose
  transforms:
  - {_target_: LoadImaged, keys: '@image_key'}
  - {_target_: Orientationd, keys: '@image_key', axcodes: RAS}
  - {_target_: Spacingd, keys: '@image_key', pixdim: '@pixdim', mode: bilinear}
  - {_target_: NormalizeIntensityd, keys: '@image_key', nonzero: true}
  - {_target_: ScaleIntensityd, keys: '@image_key', minv: -1.0, maxv: 1.0}
inferer:
  _target_: SlidingWindowInferer
  roi_size: [96, 96, 64]
  sw_batch_size: 1
  overlap: '@displayable_configs::overlap'
  mode: gaussian
postprocessing: {_target_: Compose, transforms: [{_target_: Activationsd, keys: pred, sigmoid: true}]}
";
    let metadata = json!({ "network_data_format": { "outputs": { "pred": { "channel_def": { "1": "spleen", "0": "background" } } } } });
    let folder = bundle(&[
        ("configs/inference.yaml", config.to_owned()),
        ("configs/metadata.json", metadata.to_string()),
    ]);
    let model = opened(folder.path()).unwrap();
    let m = &model.manifest;
    assert_eq!(m.input.axes, Axes::Xyz);
    assert_eq!(m.input.orientation, Orientation::Towards(['R', 'A', 'S']));
    assert_eq!(m.input.spacing_mm, Some([1.5; 3]));
    assert_eq!(
        m.input.intensity,
        Intensity::ZScoreImage {
            nonzero: true,
            rescale: Some([-1.0, 1.0])
        }
    );
    assert_eq!(m.windows.roi_size, [96, 96, 64]);
    assert_eq!(
        (m.windows.blend, m.windows.overlap.per_axis()),
        (BlendMode::Gaussian, [0.25; 3])
    );
    assert!(matches!(&m.output, Output::Segmentation(s) if s.labels == ["background", "spleen"]));
    assert!(model.about.said().any(|n| n.contains("sigmoid")));
    assert!(model.weights.is_none() && !model.about.needs_acceptance());
}

#[test]
fn a_bundle_runs_with_its_checkpoint_as_pytorch_does() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/bundles/unet_plain_aniso");
    let model = opened(&folder).unwrap();
    let (shape, input) = npy(&folder.join("in.npy"));
    let (_, expected) = npy(&folder.join("expected_0.npy"));
    let out = naive::forward(
        &model.graph,
        model.weights.as_ref().unwrap(),
        &input,
        1,
        &shape[2..],
    );
    let worst = worst(&out[0], &expected);
    assert!(worst < 2e-4, "differs by {worst}");
}

#[test]
fn steps_that_are_not_known_are_listed_and_the_manifest_waits_to_be_accepted() {
    let mut c = lung_nodule();
    let steps = c["preprocessing"]["transforms"].as_array_mut().unwrap();
    steps.push(json!({ "_target_": "scripts.transforms.MyStepd", "keys": "image" }));
    steps.push(json!({ "_target_": "RandFlipd", "keys": "label" }));
    steps.push(json!("$[t for t in x]"));
    let model = of(&c).unwrap();
    assert!(model.about.needs_acceptance());
    let notes = said(&model);
    assert!(
        notes.contains("MyStepd") && notes.contains("[t for t in x]"),
        "{notes}"
    );
    assert!(
        !notes.contains("RandFlipd"),
        "a step of the label is none of the image: {notes}"
    );
    let reasons = &model.about.reasons;
    let fields: Vec<Field> = reasons.iter().map(|r| r.field).collect();
    assert_eq!(fields, Field::ALL, "each field has its reason");
    let of = |field| reasons.iter().find(|r| r.field == field).unwrap();
    assert_eq!(of(Field::Spacing).origin, Origin::Told);
    assert!(of(Field::Spacing).why.contains("Spacingd"));
}

#[test]
fn macros_are_followed_inside_the_bundle_only() {
    let net = json!({ "a": { "_target_": "BasicUNet", "features": [4, 4, 4, 4, 4, 4] } });
    let ask = |file: &str| {
        let folder = bundle(&[
            (
                "configs/inference.json",
                json!({ "network_def": file }).to_string(),
            ),
            ("configs/other.json", net.to_string()),
        ]);
        let model = opened(folder.path());
        drop(folder);
        model
    };
    assert!(ask("%other.json#a").is_ok() && ask("%configs/other.json::a").is_ok());
    for outside in [
        "%../../../etc/passwd.json#a",
        "%/etc/hosts.yaml#a",
        "%..//x.json#a",
    ] {
        let said = ask(outside).unwrap_err();
        assert!(
            said.contains("does not lie in the bundle"),
            "{outside}: {said}"
        );
    }
    let said = ask("%none.json#a").unwrap_err();
    assert!(said.contains("none.json"), "{said}");
}

#[test]
fn references_that_never_end_are_stopped() {
    let start = std::time::Instant::now();
    let said = of(&json!({ "network_def": { "_target_": "UNet", "channels": "@a" }, "a": ["@b"], "b": "$@c + [1]", "c": "@a" })).unwrap_err();
    assert!(
        said.contains("in a circle") && said.contains("a -> b -> c -> a"),
        "{said}"
    );
    let mut wide = json!({ "network_def": { "_target_": "UNet", "channels": "@x0" }, "x20": [1] });
    for i in 0..20 {
        wide[format!("x{i}")] = json!(vec![format!("@x{}", i + 1); 8]);
    }
    let said = of(&wide).unwrap_err();
    assert!(
        said.contains("unfold to more than") || said.contains("deep"),
        "{said}"
    );
    let mut deep = json!({ "network_def": { "_target_": "UNet", "channels": "@x0" }, "x60": [1] });
    for i in 0..60 {
        deep[format!("x{i}")] = json!(format!("$@x{}", i + 1));
    }
    assert!(of(&deep).unwrap_err().contains("deep"));
    assert!(start.elapsed().as_secs() < 10);
}

#[test]
fn each_fault_of_a_bundle_is_answered_in_a_sentence() {
    let unet = |key: &str, value: Value| {
        let mut net = json!({ "_target_": "UNet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2, "channels": [4, 8], "strides": [2] });
        net[key] = value;
        json!({ "network_def": net })
    };
    for (fault, config, words) in [
        ("no network", json!({ "a": 1 }), "no network_def"),
        (
            "another class",
            json!({ "network_def": { "_target_": "scripts.MyNet" } }),
            "export it to ONNX",
        ),
        (
            "a network that is code",
            json!({ "network_def": "$exec('x')" }),
            "does not build",
        ),
        (
            "no channels",
            json!({ "network_def": { "_target_": "UNet", "spatial_dims": 3, "in_channels": 1, "out_channels": 1, "strides": [2] } }),
            "no \"channels\"",
        ),
        (
            "channels in words",
            unet("channels", json!(["a", "b"])),
            "whole number",
        ),
        (
            "giant channels",
            unet("channels", json!([1, 9_999_999_999u64])),
            "whole number",
        ),
        (
            "negative strides",
            unet("strides", json!([-2])),
            "whole number",
        ),
        (
            "too few strides",
            unet("strides", json!([])),
            "one stride fewer",
        ),
        ("an even kernel", unet("kernel_size", json!(4)), "odd"),
        ("four axes", unet("spatial_dims", json!(4)), "1, 2 or 3"),
        (
            "an unknown argument",
            unet("colour", json!(1)),
            "network_def.colour",
        ),
        (
            "an unknown norm",
            unet("norm", json!("layer")),
            "instance, batch or group",
        ),
        (
            "a reference to nothing",
            unet("channels", json!("@nothing")),
            "must be a list",
        ),
        (
            "units without end",
            unet("num_res_units", json!(1_000_000)),
            "from 0 to 64",
        ),
    ] {
        let said = of(&config).unwrap_err();
        assert!(
            said.contains(words) && said.ends_with("inference.json"),
            "{fault}: {said}"
        );
    }
    let mut c = lung_nodule();
    c["preprocessing"]["transforms"][2]["axcodes"] = json!("XYZ");
    assert!(of(&c).unwrap_err().contains("axcodes"));
    let mut c = lung_nodule();
    c["anchor_generator"]["_target_"] = json!("AnchorGenerator");
    assert!(
        of(&c)
            .unwrap_err()
            .contains("AnchorGeneratorWithAnchorShape")
    );
    let folder = bundle(&[("configs/metadata.json", "{}".to_owned())]);
    assert!(
        opened(folder.path())
            .unwrap_err()
            .contains("has none of configs/inference.json")
    );
    let folder = bundle(&[("configs/inference.json", "{".to_owned())]);
    assert!(opened(folder.path()).unwrap_err().contains("not JSON"));
    let folder = tempfile::tempdir().unwrap();
    assert!(opened(folder.path()).unwrap_err().contains("plans.json"));
}

#[test]
fn a_bundle_with_only_a_program_says_how_to_export_it() {
    let folder = bundle(&[
        (
            "configs/inference.json",
            json!({ "network_def": { "_target_": "BasicUNet" } }).to_string(),
        ),
        ("models/model.ts", "x".to_owned()),
    ]);
    let model = opened(folder.path()).unwrap();
    assert!(
        model
            .about
            .notes
            .iter()
            .any(|n| n.contains("TorchScript") && n.contains("torch.onnx.export"))
    );
    let asked = model.weights().unwrap_err().to_string();
    assert!(asked.contains("TorchScript") && asked.contains("torch.onnx.export"));
}

#[test]
fn an_expression_that_is_not_executed_is_named_where_a_value_is_wrong() {
    let text = values::unknown("$import torch");
    let said = crate::network::tree::shown(&text);
    assert_eq!(said, "the expression $import torch, which is not executed");
}
