"""Makes the outputs of this folder: python make.py FOLDER (torch 2.15, MONAI 1.6.1, safetensors or none, onnx for --export).

Every weight and the input come from a formula that the tests compute too, so that only outputs are stored: every third voxel along each
axis. With --export FOLDER/CASE also gets a bundle (configs, models/model.pt), the whole input and output and an ONNX export.
"""

import argparse
import json
import pathlib

import numpy as np
import torch
from monai.networks.nets import UNETR, SwinUNETR, swin_unetr

MASK = (1 << 64) - 1


def values(name, n):
    """n values in [-1, 1) from the name: splitmix64 on FNV-1a."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001B3) & MASK
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) / 2.0**52 - 1.0


def weight(name, shape):
    v = values(name, int(np.prod(shape)))
    if name.endswith("running_var"):
        v = 1.0 + 0.2 * v
    elif name.endswith(("bias_table", "position_embeddings")):
        v = v
    elif len(shape) > 1:
        v = v * np.sqrt(3.0 / np.prod(shape[1:]))
    elif name.endswith("weight"):
        v = 1.0 + 0.2 * v
    else:
        v = 0.2 * v
    return torch.from_numpy(v.astype(np.float32).reshape(shape))


def before_1_5(self, x):
    """PatchMerging of MONAI before 1.5, on even sizes."""
    at = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (0, 1, 0), (0, 0, 1), (1, 1, 1)]
    x = torch.cat([x[:, i::2, j::2, k::2, :] for i, j, k in at], -1)
    return self.reduction(self.norm(x))


SWIN = {"in_channels": 1, "out_channels": 2, "feature_size": 12, "depths": [2, 2, 1, 1], "num_heads": [3, 3, 6, 12]}
CASES = {
    "swinunetr": (SwinUNETR, SWIN, [1, 1, 32, 32, 64], "1.6.1"),
    "swinunetr_before_1_5": (SwinUNETR, SWIN, [1, 1, 32, 32, 64], "1.4.0"),
    "swinunetr_v2": (
        SwinUNETR,
        SWIN
        | {"use_v2": True, "qkv_bias": False, "normalize": False, "downsample": "mergingv2", "window_size": [4, 3, 5]},
        [2, 1, 32, 64, 32],
        "1.6.1",
    ),
    "unetr": (
        UNETR,
        {
            "in_channels": 1,
            "out_channels": 2,
            "img_size": [32, 32, 48],
            "feature_size": 4,
            "hidden_size": 24,
            "mlp_dim": 48,
            "num_heads": 3,
        },
        [2, 1, 32, 32, 48],
        "1.6.1",
    ),
    "unetr_plain": (
        UNETR,
        {
            "in_channels": 1,
            "out_channels": 2,
            "img_size": [32, 32, 32],
            "feature_size": 4,
            "hidden_size": 24,
            "mlp_dim": 48,
            "num_heads": 4,
            "norm_name": "batch",
            "conv_block": False,
            "res_block": False,
            "qkv_bias": True,
        },
        [1, 1, 32, 32, 32],
        "1.6.1",
    ),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--export", action="store_true")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    later = swin_unetr.PatchMerging.forward
    about = {}
    for name, (make, settings, shape, version) in CASES.items():
        swin_unetr.PatchMerging.forward = before_1_5 if version < "1.5" else later
        net = make(**settings).eval()
        state = net.state_dict()
        for key, old in state.items():
            if old.is_floating_point():
                state[key] = weight(key, list(old.shape))
        net.load_state_dict(state)
        x = torch.from_numpy((2.0 * values("input", int(np.prod(shape)))).astype(np.float32).reshape(shape))
        with torch.no_grad():
            y = net(x)
        np.save(args.folder / f"{name}.npy", y[..., ::3, ::3, ::3].contiguous().numpy())
        network = {"_target_": make.__name__, **settings}
        about[name] = {"network_def": network, "input": shape, "monai_version": version}
        if args.export:
            case = args.folder / name
            (case / "configs").mkdir(parents=True, exist_ok=True)
            (case / "models").mkdir(exist_ok=True)
            (case / "configs/inference.json").write_text(json.dumps({"network_def": network}))
            (case / "configs/metadata.json").write_text(json.dumps({"monai_version": version}))
            torch.save(state, case / "models/model.pt")
            np.save(case / "in.npy", x.numpy())
            np.save(case / "out.npy", y.numpy())
            torch.onnx.export(net, (x,), case / "export.onnx", opset_version=17, dynamo=False)
        print(name, list(y.shape), float(y.abs().max()), float(y.std()))
    (args.folder / "cases.json").write_text(json.dumps(about, indent=1) + "\n")


main()
