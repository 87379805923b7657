#!/usr/bin/env python3
"""How fast Voxfit's CPU engine is beside OpenVINO and ONNX Runtime, and in how much memory.

    cargo build --release --locked
    python3 tests/bench/engines.py [--rounds 3] [--sizes 96,128] [--threads 1,0] [--voxfit target/release/voxfit]

Makes a throw-away virtual environment with openvino, onnxruntime and onnx, writes two networks with seeded weights and
runs the same file on the same input in all three in turn, round by round, so that a busy machine is busy for each of
them. A time is one pass with the model loaded and compiled, the best of three after one uncounted pass. Peak memory is
that of the process: for Voxfit all of it; for a Python peer what it took beyond Python and its imports. 0 threads are
all cores. Held against (at each number of threads): U-Nets at most 0.85 of OpenVINO's time and 0.55 of ONNX Runtime's,
the RetinaNet-like network 0.75 and 0.5, at most 0.7 of OpenVINO's memory. Outputs are held within 5e-3 of OpenVINO's
largest value: it sums norms in float32, Voxfit in float64. Exits with 1 where one is missed.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import venv

HERE = pathlib.Path(__file__).resolve().parent.parent.parent

MODELS = r"""
import sys, numpy as np, onnx
from onnx import helper as h, numpy_helper as nh
folder, rng = sys.argv[1], np.random.default_rng(7)
nodes, weights = [], []

def const(shape, scale):
    name = f"w{len(weights)}"
    weights.append(nh.from_array((rng.standard_normal(shape) * scale).astype(np.float32), name))
    return name

def node(op, inputs, **attributes):
    out = f"{op.lower()}{len(nodes)}"
    nodes.append(h.make_node(op, inputs, [out], **attributes))
    return out

def conv(x, cin, cout, k=3, stride=(1, 1, 1), bias=True):
    p = k // 2
    inputs = [x, const((cout, cin, k, k, k), (2 / (cin * k**3)) ** 0.5)]
    if bias:
        inputs.append(const((cout,), 0.1))
    return node("Conv", inputs, kernel_shape=[k] * 3, strides=list(stride), pads=[p] * 6)

def norm(x, c):
    y = node("InstanceNormalization", [x, const((c,), 0.2), const((c,), 0.2)], epsilon=1e-5)
    return node("LeakyRelu", [y], alpha=0.01)

def save(name, x, outputs):
    io = lambda n, c: h.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", c, "x", "y", "z"])
    graph = h.make_graph(nodes[:], name, [io(x, 1)], [io(n, c) for n, c in outputs], weights[:])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, f"{folder}/{name}.onnx")
    nodes.clear(), weights.clear()

# U-Net: conv, instance norm, leaky ReLU twice a stage, 4 stages, 16 to 128 channels.
x, skips, cin = "image", [], 1
for i, c in enumerate((16, 32, 64, 128)):
    x = norm(conv(x, cin, c), c)
    x = norm(conv(x, c, c), c)
    cin = c
    if c < 128:
        skips.append(x)
        x = node("MaxPool", [x], kernel_shape=[2, 2, 2], strides=[2, 2, 2])
for c in (64, 32, 16):
    x = node("ConvTranspose", [x, const((2 * c, c, 2, 2, 2), (1 / c) ** 0.5), const((c,), 0.1)], kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    x = node("Concat", [x, skips.pop()], axis=1)
    x = norm(conv(x, 2 * c, c), c)
    x = norm(conv(x, c, c), c)
save("unet", "image", [(conv(x, 16, 2, k=1), 2)])

# RetinaNet-like: 7x7x7 stem of stride (2, 2, 1), two levels of bottlenecks, a feature pyramid, heads of two layers.
def bottleneck(x, cin, width, stride):
    relu = lambda x: node("Relu", [x])
    y = relu(conv(x, cin, width, k=1))
    y = relu(conv(y, width, width, stride=stride))
    y = conv(y, width, 4 * width, k=1)
    if cin != 4 * width or stride != (1, 1, 1):
        side = [x, const((4 * width, cin, 1, 1, 1), (1 / cin) ** 0.5)]
        x = node("Conv", side, kernel_shape=[1, 1, 1], strides=list(stride), pads=[0] * 6)
    return relu(node("Add", [y, x]))

x = node("Relu", [conv("image", 1, 32, k=7, stride=(2, 2, 1))])
x = node("MaxPool", [x], kernel_shape=[3, 3, 3], strides=[2, 2, 2], pads=[1] * 6)
levels, cin = [], 32
for width, n, stride in ((32, 3, (1, 1, 1)), (64, 4, (2, 2, 2))):
    for i in range(n):
        x = bottleneck(x, cin, width, stride if i == 0 else (1, 1, 1))
        cin = 4 * width
    levels.append((x, cin))
fine, coarse = (conv(x, c, 64, k=1) for x, c in levels)
scales = nh.from_array(np.array([1, 1, 2, 2, 2], np.float32), "scales")
weights.append(scales)
up = node("Resize", [coarse, "", "scales"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
maps = [conv(node("Add", [fine, up]), 64, 64), conv(coarse, 64, 64)]
outputs = []
for last in (3, 18):
    tower = [(const((64, 64, 3, 3, 3), 0.034), const((64,), 0.1)) for _ in range(2)]
    head = (const((last, 64, 3, 3, 3), 0.024), const((last,), 0.1))
    for m in maps:
        for w, b in tower:
            m = node("Relu", [node("Conv", [m, w, b], kernel_shape=[3] * 3, pads=[1] * 6)])
        outputs.append((node("Conv", [m, *head], kernel_shape=[3] * 3, pads=[1] * 6), last))
save("retinanet-like", "image", outputs)
for n in map(int, sys.argv[2:]):
    np.save(f"{folder}/in{n}.npy", rng.standard_normal((1, 1, n, n, n)).astype(np.float32))
"""

PEER = r"""
import json, resource, sys, time, numpy as np
which, model, path, threads, repeat, out = sys.argv[1:]
threads, x = int(threads), np.load(path)
unit = 1 if sys.platform == "darwin" else 1024
now = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
if which == "openvino":
    import openvino as ov
    before = now()
    core = ov.Core()
    network = core.read_model(model)
    network.reshape(x.shape)
    set_ = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    if threads:
        set_["INFERENCE_NUM_THREADS"] = threads
    request = core.compile_model(network, "CPU", set_).create_infer_request()
    go = lambda: request.infer([x])
    first = lambda r: r[0]
else:
    import onnxruntime as ort
    before = now()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    go = lambda: session.run(None, {session.get_inputs()[0].name: x})
    first = lambda r: r[0]
y, times = go(), []
for _ in range(int(repeat)):
    start = time.perf_counter()
    y = go()
    times.append(time.perf_counter() - start)
np.save(out, first(y))
print(json.dumps({"seconds": min(times), "peak": now() - before}))
"""

DIFFERENCE = r"""
import sys, numpy as np
a, b = (np.load(f).astype(np.float64) for f in sys.argv[1:])
print(float(np.abs(a - b).max() / np.abs(b).max()))
"""

TARGETS = {"unet": {"openvino": 0.85, "onnxruntime": 0.55}, "retinanet-like": {"openvino": 0.75, "onnxruntime": 0.5}}


def run(command):
    """Peak RSS in bytes and output of a whole process."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(list(map(str, command)), stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        out.seek(0)
        text = out.read().decode(errors="replace")
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{command} failed: {text}")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024), text


class Bench:
    """The tools, the rounds and what was found."""

    def __init__(self, python, voxfit, rounds, folders):
        self.python, self.voxfit, self.rounds, self.missed = python, voxfit, rounds, False
        self.scratch, self.models = folders

    def once(self, which, model, source, threads):
        """Seconds and peak bytes of one engine."""
        if which == "voxfit":
            out = self.scratch / "voxfit"
            command = [self.voxfit, "forward", model, source, "--out", out, "--threads", threads, "--repeat", 3, "--engine", "cpu", "--json"]
            peak, text = run(command)
            return json.loads(text)["seconds"], peak
        _, text = run([self.python, "-c", PEER, which, model, source, threads, 3, self.scratch / f"{which}.npy"])
        found = json.loads(text)
        return found["seconds"], found["peak"]

    def hold(self, what, fine):
        self.missed |= not fine
        print(f"    {what}: {'yes' if fine else 'NO'}")

    def compare(self, name, size, threads):
        model, source = self.models / f"{name}.onnx", self.models / f"in{size}.npy"
        engines = ["voxfit", "openvino", "onnxruntime"]
        found = {e: [] for e in engines}
        for _ in range(self.rounds):
            for e in engines:
                found[e].append(self.once(e, model, source, threads))
        seconds = {e: statistics.median(s for s, _ in found[e]) for e in engines}
        peak = {e: max(p for _, p in found[e]) for e in engines}
        print(f"\n{name} at {size}^3, {threads or 'all'} threads, median of {self.rounds} (best)")
        for e in engines:
            best = min(s for s, _ in found[e])
            print(f"  {e:<12} {seconds[e]:7.3f} s  ({best:7.3f} s)   peak {peak[e] / 2**20:7.0f} MiB")
        for e, target in TARGETS[name].items():
            share = seconds["voxfit"] / seconds[e]
            self.hold(f"voxfit / {e} {share:.2f}, at most {target}", share <= target)
        share = peak["voxfit"] / peak["openvino"]
        self.hold(f"memory voxfit / openvino {share:.2f}, at most 0.7", share <= 0.7)
        _, text = run([self.python, "-c", DIFFERENCE, self.scratch / "voxfit/output_0.npy", self.scratch / "openvino.npy"])
        self.hold(f"largest difference {float(text):.1e} of the largest value, at most 5e-3", float(text) <= 5e-3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="96,128")
    parser.add_argument("--threads", default="1,0")
    parser.add_argument("--voxfit", default=str(HERE / "target/release/voxfit"))
    parser.add_argument("--models", help="keep the networks and inputs here, for `voxfit bench layers`")
    parser.add_argument("--venv", help="keep the virtual environment here for the next time")
    args = parser.parse_args()
    sizes = [int(n) for n in args.sizes.split(",")]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        place = pathlib.Path(args.venv) if args.venv else scratch / "venv"
        python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
        if not python.exists():
            venv.create(place, with_pip=True)
            subprocess.check_call([python, "-m", "pip", "-q", "install", "openvino", "onnxruntime", "onnx"])
        versions = "import openvino as o, onnxruntime as r; print('openvino', o.__version__, 'onnxruntime', r.__version__)"
        print(run([python, "-c", versions])[1].strip())
        print(run([args.voxfit, "--version"])[1].strip(), "on", os.cpu_count(), "cores, load", os.getloadavg()[0])
        models = pathlib.Path(args.models) if args.models else scratch
        models.mkdir(parents=True, exist_ok=True)
        run([python, "-c", MODELS, models, *sizes])
        bench = Bench(python, args.voxfit, args.rounds, (scratch, models))
        for threads in map(int, args.threads.split(",")):
            for name, at in (("unet", sizes), ("retinanet-like", sizes[-1:])):
                for size in at:
                    bench.compare(name, size, threads)
        return int(bench.missed)


if __name__ == "__main__":
    sys.exit(main())
