"""Trains the demo detectors on generated phantoms and writes their weights. See README.md beside this file.

    python train.py --data DIR --out demo.safetensors
    python train.py --data DIR --out demo-norm.safetensors --norm
    python train.py --data DIR --check demo.safetensors [--norm]
"""

import argparse
import json
import math
import pathlib
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

# As in assets/presets/demo.toml; half-shapes are rounded half to even, so all edges are even.
SHAPES = [[4, 4, 2], [6, 6, 4], [10, 10, 6]]
LEVELS = [(4, 1), (8, 2)]  # stride, scale of the shapes
SCORE, NMS = 0.5, 0.22


class Block(nn.Module):
    def __init__(self, cin, cout, stride, norm):
        super().__init__()
        self.conv = nn.Conv3d(cin, cout, 3, stride, 1)
        # "batch" is folded into the convolution when the weights are written.
        self.norm = {"group": lambda: nn.GroupNorm(4, cout), "batch": lambda: nn.BatchNorm3d(cout), None: nn.Identity}[norm]()

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class Head(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.conv = nn.Conv3d(24, 24, 3, 1, 1)
        self.norm = nn.GroupNorm(4, 24) if norm == "group" else nn.Identity()
        self.class_logits = nn.Conv3d(24, len(SHAPES), 1)
        self.box_regression = nn.Conv3d(24, 6 * len(SHAPES), 1)
        nn.init.constant_(self.class_logits.bias, -math.log(99))
        nn.init.normal_(self.class_logits.weight, std=0.02)
        nn.init.normal_(self.box_regression.weight, std=0.02)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return self.class_logits(x), self.box_regression(x)


class Demo(nn.Module):
    def __init__(self, norm):
        super().__init__()
        inner = "group" if norm else "batch"
        self.stem = Block(1, 16, 2, None if norm else "batch")
        self.down1 = Block(16, 24, 2, inner)
        self.body1 = Block(24, 24, 1, inner)
        self.body2 = Block(24, 24, 1, inner)
        self.down2 = Block(24, 24, 2, inner)
        self.body3 = Block(24, 24, 1, inner)
        self.head = Head(inner)

    def forward(self, x):
        level0 = self.body2(self.body1(self.down1(self.stem(x))))
        level1 = self.body3(self.down2(level0))
        out = []
        for level in (level0, level1):
            logits, deltas = self.head(level)
            n, a = logits.shape[:2]
            out.append((
                logits.permute(0, 2, 3, 4, 1).reshape(n, -1),
                deltas.reshape(n, a, 6, *deltas.shape[2:]).permute(0, 3, 4, 5, 1, 2).reshape(n, -1, 6),
            ))
        return torch.cat([o[0] for o in out], 1), torch.cat([o[1] for o in out], 1)


def anchors(size):
    """Corner boxes of all anchors over an input of this size (x, y, z), finest level first."""
    out = []
    for stride, scale in LEVELS:
        grids = [torch.arange(n // stride) * stride + stride // 2 for n in size]
        centre = torch.stack(torch.meshgrid(*grids, indexing="ij"), -1).reshape(-1, 1, 3).float()
        half = torch.tensor([[torch.round(torch.tensor(e * scale / 2)) for e in s] for s in SHAPES])
        out.append(torch.cat([centre - half, centre + half], -1).reshape(-1, 6))
    return torch.cat(out)


def iou(a, b):
    low = torch.maximum(a[:, None, :3], b[None, :, :3])
    high = torch.minimum(a[:, None, 3:], b[None, :, 3:])
    both = (high - low).clamp(min=0).prod(-1)
    volume = lambda c: (c[:, 3:] - c[:, :3]).prod(-1)
    return both / (volume(a)[:, None] + volume(b)[None] - both)


def match(grid, boxes):
    """Per anchor: index of its box, -1 for background, -2 for neither (left out of the loss)."""
    target = torch.full((len(grid),), -1, dtype=torch.long)
    if len(boxes) == 0:
        return target
    overlap = iou(grid, boxes)
    best, which = overlap.max(1)
    # The spheres are small beside the stride, so the bar follows what each could reach at best.
    bar = overlap.max(0).values[which]
    target[best > 0.5 * bar] = -2
    target[best > 0.15] = -2
    positive = best >= 0.8 * bar
    positive &= best > 0.02
    target[positive] = which[positive]
    return target


def encode(grid, boxes):
    size, centre = grid[:, 3:] - grid[:, :3], (grid[:, 3:] + grid[:, :3]) / 2
    bsize, bcentre = boxes[:, 3:] - boxes[:, :3], (boxes[:, 3:] + boxes[:, :3]) / 2
    return torch.cat([(bcentre - centre) / size, torch.log(bsize / size)], 1)


def decode(grid, deltas):
    size, centre = grid[:, 3:] - grid[:, :3], (grid[:, 3:] + grid[:, :3]) / 2
    centre = centre + deltas[:, :3] * size
    half = torch.exp(deltas[:, 3:].clamp(max=math.log(1000 / 16))) * size / 2
    return torch.cat([centre - half, centre + half], 1)


def intensity(hu):
    return ((hu + 1024.0) / 1324.0).clamp(0.0, 1.0)


class Study:
    def __init__(self, path):
        self.voxels = np.load(path.with_suffix(".npy"), mmap_mode="r")  # [k][j][i]
        truth = json.loads(path.read_text())
        spacing = np.array(truth["spacing"])
        self.size = np.array(truth["size"])
        centre = np.array([s["center"] for s in truth["spheres"]]) + 0.5
        self.diameter = np.array([2 * s["radius"] for s in truth["spheres"]])
        half = self.diameter[:, None] / 2 / spacing
        self.boxes = torch.tensor(np.concatenate([centre - half, centre + half], 1), dtype=torch.float32)

    def crop(self, start, size):
        (i, j, k), (x, y, z) = start, size
        hu = np.asarray(self.voxels[k : k + z, j : j + y, i : i + x], dtype=np.float32)
        return torch.from_numpy(hu.transpose(2, 1, 0).copy())


def sample(studies, size, rng):
    """A random crop: more often around a sphere than anywhere else; flipped, with more noise and another level."""
    study = studies[rng.integers(len(studies))]
    room = study.size - size
    if rng.random() < 0.6:
        box = study.boxes[rng.integers(len(study.boxes))].numpy()
        centre = (box[:3] + box[3:]) / 2
        start = centre - size * rng.uniform(0.1, 0.9, 3)
    else:
        start = rng.uniform(0.1, 0.9, 3) * room
    start = np.clip(np.round(start), 0, room).astype(int)
    hu = study.crop(start, size)
    offset = torch.tensor(np.concatenate([start, start]), dtype=torch.float32)
    boxes = study.boxes - offset
    full = torch.tensor(size, dtype=torch.float32)
    # Spheres cut by the crop's border count when their centre is inside.
    centre = (boxes[:, :3] + boxes[:, 3:]) / 2
    boxes = boxes[((centre > 0) & (centre < full)).all(1)]
    boxes = torch.cat([boxes[:, :3].clamp(min=0), torch.minimum(boxes[:, 3:], full)], 1)
    for axis in range(3):
        if rng.random() < 0.5:
            hu = hu.flip(axis)
            low, high = boxes[:, axis].clone(), boxes[:, axis + 3].clone()
            boxes[:, axis], boxes[:, axis + 3] = size[axis] - high, size[axis] - low
    if rng.random() < 0.3:
        hu = hu.transpose(0, 1)
        boxes = boxes[:, [1, 0, 2, 4, 3, 5]]
    hu = hu + rng.uniform(-30, 30)
    if rng.random() < 0.5:
        hu = hu + torch.randn(hu.shape) * float(rng.uniform(0, 25))
    return intensity(hu)[None], boxes


def loss_of(model, batch, grid):
    logits, deltas = model(torch.stack([b[0] for b in batch]))
    cls, reg, positives = 0.0, 0.0, 0
    for n, (_, boxes) in enumerate(batch):
        target = match(grid, boxes)
        used, positive = target != -2, target >= 0
        p = torch.sigmoid(logits[n][used])
        t = positive[used].float()
        ce = F.binary_cross_entropy_with_logits(logits[n][used], t, reduction="none")
        pt = torch.where(t > 0, p, 1 - p)
        cls = cls + (0.5 * (1 - pt) ** 2 * ce).sum()
        if positive.any():
            wanted = encode(grid[positive], boxes[target[positive]])
            reg = reg + F.smooth_l1_loss(deltas[n][positive], wanted, beta=1 / 9, reduction="sum") / 6
        positives += int(positive.sum())
    return (cls + 2.0 * reg) / max(positives, 4), float(torch.as_tensor(cls).detach()) / max(positives, 4), float(torch.as_tensor(reg).detach()) / max(positives, 4)


def train(args):
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    studies = [Study(p) for p in sorted(pathlib.Path(args.data, "train").glob("*.json"))]
    print(len(studies), "studies,", sum(len(s.boxes) for s in studies), "spheres", flush=True)
    model = Demo(args.norm)
    if args.start:
        state = {k: v.float() for k, v in load_file(args.start).items()}
        model.load_state_dict(state, strict=False)
    size, count = np.array([64, 64, 48] if args.norm else [48, 48, 32]), 4 if args.norm else 6
    grid = anchors(size.tolist())
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, weight_decay=1e-4)
    began, step, means = time.time(), 0, np.zeros(3)
    while True:
        done = max(step / args.steps, (time.time() - began) / 60 / args.minutes)
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = args.rate * min(1.0, (step + 1) / 50) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
        if done > 0.8:  # the last fifth sees the statistics that will be folded in
            for m in model.modules():
                if isinstance(m, nn.BatchNorm3d):
                    m.eval()
        if args.norm and done > 0.6 and size[0] < 128:  # group norms: as they are in the demo's windows
            size, count = np.array([128, 128, 64]), 2
            grid = anchors(size.tolist())
        batch = [sample(studies, size, rng) for _ in range(count)]
        loss, cls, reg = loss_of(model, batch, grid)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        step += 1
        means += [loss.item(), cls, reg]
        if step % 50 == 0:
            print(step, f"{time.time() - began:.0f} s", np.round(means / 50, 3), flush=True)
            means[:] = 0
    save_file(folded(model, args.norm), args.out)


def folded(model, norm):
    """The weights under the preset's names, batch norms folded in, as float16."""
    state = {k: v.detach().double().clone() for k, v in model.state_dict().items()}
    out = {}
    for key, value in state.items():
        if not norm and ".norm." in key:
            continue
        out[key] = value
    if not norm:
        for name, m in model.named_modules():
            if isinstance(m, Block):
                scale = state[f"{name}.norm.weight"] / torch.sqrt(state[f"{name}.norm.running_var"] + m.norm.eps)
                out[f"{name}.conv.weight"] = out[f"{name}.conv.weight"] * scale[:, None, None, None, None]
                out[f"{name}.conv.bias"] = (out[f"{name}.conv.bias"] - state[f"{name}.norm.running_mean"]) * scale + state[f"{name}.norm.bias"]
    return {k: v.half().contiguous() for k, v in out.items()}


class Plain(Demo):
    """The network as it is shipped: batch norms gone."""

    def __init__(self, norm):
        super().__init__(norm)
        if not norm:
            for m in self.modules():
                if isinstance(m, Block):
                    m.norm = nn.Identity()


def in_windows(model, volume, roi=(128, 128, 64), step=(96, 96, 48)):
    """The head maps over the volume, averaged where the demo's windows overlap."""
    size = volume.shape
    roi = [min(r, n) for r, n in zip(roi, size)]
    starts = [sorted({min(k * s, n - r) for k in range(n)}) for n, r, s in zip(size, roi, step)]
    a = len(SHAPES)
    sums = [torch.zeros([n // stride for n in size] + [a, 8]) for stride, _ in LEVELS]
    for at in [(x, y, z) for x in starts[0] for y in starts[1] for z in starts[2]]:
        cut = tuple(slice(s, s + r) for s, r in zip(at, roi))
        logits, deltas = model(volume[cut][None, None])
        maps, first = torch.cat([logits[0, :, None], deltas[0], torch.ones_like(logits[0, :, None])], 1), 0
        for total, (stride, _) in zip(sums, LEVELS):
            shape = [r // stride for r in roi]
            count = math.prod(shape) * a
            into = tuple(slice(s // stride, s // stride + n) for s, n in zip(at, shape))
            total[into] += maps[first : first + count].reshape(*shape, a, 8)
            first += count
    flat = torch.cat([t.reshape(-1, 8) for t in sums])
    flat = flat / flat[:, 7:]
    return flat[None, :, 0], flat[None, :, 1:7]


@torch.no_grad()
def detect(model, study, lowest=0.05):
    """Boxes and scores over the whole study, as the box selector gives them."""
    volume = study.crop((0, 0, 0), study.size)
    pad = [(-n) % 8 for n in volume.shape]
    volume = F.pad(intensity(volume), (0, pad[2], 0, pad[1], 0, pad[0]))
    logits, deltas = in_windows(model, volume)
    grid = anchors(volume.shape)
    score = torch.sigmoid(logits[0])
    keep = torch.nonzero(score > lowest)[:, 0]
    keep = keep[score[keep].argsort(descending=True)][:2000]
    boxes, score = decode(grid[keep], deltas[0][keep]), score[keep]
    limit = torch.tensor(np.concatenate([study.size, study.size]), dtype=torch.float32)
    boxes = torch.minimum(boxes.clamp(min=0), limit)
    alive, out = torch.ones(len(boxes), dtype=torch.bool), []
    for n in range(len(boxes)):
        if alive[n]:
            out.append(n)
            alive &= ~(iou(boxes[n : n + 1], boxes)[0] > NMS)
    return boxes[out], score[out]


def check(args):
    model = Plain(args.norm)
    model.load_state_dict({k: v.float() for k, v in load_file(args.check).items()})
    model.eval()
    results = []
    for path in sorted(pathlib.Path(args.data, args.split).glob(args.only))[: args.limit]:
        study = Study(path)
        boxes, score = detect(model, study)
        overlap = iou(boxes, study.boxes) if len(boxes) else torch.zeros(0, len(study.boxes))
        results.append((study, score, overlap))
    for bar in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7):
        found = wanted = false = small = small_found = 0
        for study, score, overlap in results:
            hit = overlap[score > bar] > 0.1
            large = torch.tensor(study.diameter >= 6.0)
            any_hit = hit.any(0)
            found, wanted = found + int(any_hit[large].sum()), wanted + int(large.sum())
            small_found, small = small_found + int(any_hit[~large].sum()), small + int((~large).sum())
            false += int((~hit.any(1)).sum())
        print(f"score > {bar}: {found}/{wanted} of 6 mm and more ({found / max(wanted, 1):.3f}), {small_found}/{small} smaller, {false / max(len(results), 1):.2f} false per study")
    best = [float(o.max(0).values.mean()) for _, _, o in results if len(o)]
    print("mean best IoU", round(float(np.mean(best)), 3) if best else None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--out")
    parser.add_argument("--check")
    parser.add_argument("--start")
    parser.add_argument("--norm", action="store_true")
    parser.add_argument("--split", default="test")
    parser.add_argument("--only", default="*.json")
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    check(args) if args.check else train(args)
