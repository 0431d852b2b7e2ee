#!/usr/bin/env python3
"""Writes the cases own_*: operators and forms of them that the cases from upstream's tests do not
hold, several outputs a case.

    make_own.py [NAME …]   (PyTorch 2.13; one thread; without names all are written)

A case has float.pt2, calibration.npz and expected.npz with PyTorch's float outputs; there is no
upstream to compare with, so every output has to reach 30 dB and every operator the NPU, but for
those that upstream.json names as kept off it. Shapes are odd on purpose.
"""
import json
import sys
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

torch.set_num_threads(1)
FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "pt2"))
sys.path.insert(0, str(FOLDER.parent / "pt2_edge"))
from make_edge_cases import deflate  # noqa: E402
from make_pt2_cases import portable  # noqa: E402

SAMPLES = 2
WANTED = sys.argv[1:]  # cases to write; all without


class Module(torch.nn.Module):
    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def case(name, function, *inputs, kept=(), **parts):
    """`inputs` and `parts` make a tensor or module each. What they draw depends on the case's name
    alone."""
    if WANTED and name not in WANTED:
        return
    torch.manual_seed(zlib.crc32(name.encode()))
    model = Module(function, **{key: make() for key, make in parts.items()}).eval()
    samples = [[make() for make in inputs] for _ in range(SAMPLES)]
    with torch.no_grad():
        program = torch.export.export(model, tuple(samples[0]), strict=True)
        outputs = [model(*sample) for sample in samples]
    folder = FOLDER / f"own_{name}"
    folder.mkdir(exist_ok=True)
    torch.export.save(program, folder / "float.pt2")
    portable(folder / "float.pt2")
    deflate(folder / "float.pt2")
    np.savez_compressed(
        folder / "calibration.npz",
        **{f"input_{i}": np.stack([s[i].numpy() for s in samples]) for i in range(len(inputs))},
    )
    np.savez_compressed(
        folder / "expected.npz",
        **{
            f"float_output_{k}": np.stack([o[k].contiguous().numpy() for o in outputs])
            for k in range(len(outputs[0]))
        },
    )
    if kept:
        (folder / "upstream.json").write_text(json.dumps({"kept": Counter(kept)}) + "\n")
    print(
        name, sum(f.stat().st_size for f in folder.iterdir()), "bytes,", len(outputs[0]), "outputs"
    )


def normal(*shape):
    return lambda: torch.randn(*shape)


def positive(*shape):
    return lambda: torch.rand(*shape) + 0.25


def channels_last(*shape):
    return lambda: torch.randn(*shape).contiguous(memory_format=torch.channels_last)


def thirds(*shape):
    """Numbers a third above an integer: int8 moves none over a step of round, floor, ceil or
    sign."""
    return lambda: torch.randint(-6, 7, shape) + 1 / 3


case(
    "unary",
    lambda m, x: (
        F.hardswish(x),
        F.hardsigmoid(x),
        F.silu(x),
        F.gelu(x),
        F.gelu(x, approximate="tanh"),
        F.elu(x),
        F.leaky_relu(x, 0.1),
        F.relu6(x),
        torch.abs(x),
        torch.exp(x),
        -x,
        x.pow(2),
        x.pow(3),
        torch.clamp(x, -0.5, 0.75),
    ),
    normal(2, 5, 3, 7),
)
case(
    "functions",
    lambda m, x: (
        torch.sin(x),
        torch.cos(x),
        torch.erf(x),
        F.logsigmoid(x),
        F.mish(x),
        F.softplus(x),
        F.softplus(x, 2, 1),
        torch.atan(x),
    ),
    normal(2, 5, 3, 7),
)
case(
    "shrinks",
    lambda m, x: (
        F.softsign(x),
        F.softshrink(x, 0.4),
        F.hardshrink(x, 0.5),
        F.threshold(x, 0.5, 0.5),
    ),
    thirds(3, 5, 7),
)
case(
    "steps",
    # behind an operator of int8: behind floats they stay float
    lambda m, x: (torch.round(-x), torch.floor(-x), torch.ceil(-x), torch.sign(-x)),
    thirds(3, 5, 7),
)
case(
    "positive",
    lambda m, x: (torch.log(x), torch.rsqrt(x), torch.sqrt(x), x.pow(-1), torch.reciprocal(x)),
    positive(3, 5, 7),
)
case(
    "scalar",
    lambda m, x: (x + 1.5, x * 2.5, 3 - x, x / 4, x - 0.75, torch.add(x, x, alpha=2)),
    normal(3, 5, 7),
)
case(
    "binary",
    lambda m, x, y, z: (
        x + y,
        x - y,
        x * y,
        torch.maximum(x, y),
        torch.minimum(x, y),
        x + z,
        z - x,
        x * z,
    ),
    normal(2, 5, 3, 7),
    normal(2, 5, 3, 7),
    normal(5, 1, 7),
)
case("division", lambda m, x, y: (x / y,), normal(5, 3, 7), positive(5, 3, 7), kept=["aten.div"])
case(
    "prelu",
    lambda m, x: (m.a(x), m.b(x)),
    normal(2, 5, 3, 7),
    a=lambda: torch.nn.PReLU(5, 0.2),
    b=lambda: torch.nn.PReLU(1),
)
case(
    "reduce",
    lambda m, x: (
        x.mean(1),
        x.mean((0, 3)),
        x.mean((1, 2, 3), keepdim=True),
        x.sum(2),
        x.sum((0, 1)),
        x.amax(1),
        x.amax((2, 3)),
        x.amin(3, keepdim=True),
        x.mean(),
    ),
    normal(2, 5, 3, 7),
)
case(
    "sums",
    lambda m, x: (
        torch.logsumexp(x, 1),
        torch.logsumexp(x, (0, 3), True),
        x.cumsum(2),
        x.cumsum(-1),
    ),
    normal(2, 5, 3, 7),
)
case(
    "masks",
    lambda m, x, mask: (
        F.scaled_dot_product_attention(
            *m.a(x).view(2, 5, 3, 2, 8).permute(2, 0, 3, 1, 4), attn_mask=mask
        ),
    ),
    normal(2, 5, 16),
    lambda: (torch.rand(2, 1, 1, 5) > 0.3) | torch.eye(5, dtype=torch.bool)[2],
    a=lambda: torch.nn.Linear(16, 48),
)
case(
    "keymasks",
    lambda m, x, mask: (
        m.a(x, x, x, key_padding_mask=mask, need_weights=False)[0],
        F.softmax((x @ x.transpose(1, 2)).masked_fill(mask[:, None], -1e4), -1),
    ),
    normal(2, 5, 16),
    lambda: (torch.rand(2, 5) > 0.7) & ~torch.eye(5, dtype=torch.bool)[2],
    kept=["aten.logical_not", "aten.logical_not", "aten.expand"],
    a=lambda: torch.nn.MultiheadAttention(16, 2, batch_first=True),
)
case(
    "softmax",
    lambda m, x: (
        F.softmax(x, 0),
        F.softmax(x, 1),
        F.softmax(x, -1),
        F.log_softmax(x, 1),
        F.log_softmax(x, -1),
    ),
    normal(2, 5, 3, 7),
)
case(
    "norm",
    lambda m, x: (m.a(x), m.b(x), m.c(x), m.d(x), m.e(x)),
    normal(2, 6, 3, 7),
    a=lambda: torch.nn.LayerNorm(7),
    b=lambda: torch.nn.LayerNorm((3, 7)),
    c=lambda: torch.nn.GroupNorm(3, 6),
    d=lambda: torch.nn.RMSNorm(7),
    e=lambda: torch.nn.InstanceNorm2d(6, affine=True),
)
case(
    "move",
    lambda m, x: (
        x.reshape(10, 21),
        x.permute(3, 0, 2, 1),
        x[:, 1:4],
        x[:, :, :, 1:6:2],
        x.flip(3),
        x.transpose(1, 2),
        x.unsqueeze(1),
        x[:, 2],
        x.flatten(1),
        torch.stack([x, x], 2),
        x.repeat(1, 2, 1, 1),
        x.roll(1, 3),
    ),
    normal(2, 5, 3, 7),
)
case(
    "layout",
    lambda m, x, y: (
        m.a(x).flatten(1),
        F.relu(x).reshape(10, 21),
        x.transpose(2, 3),
        (m.a(x) / y).flatten(1),
    ),
    channels_last(2, 5, 3, 7),
    positive(2, 6, 1, 5),
    a=lambda: torch.nn.Conv2d(5, 6, 3),
    kept=["aten.div"],
)
case(
    "split",
    lambda m, x: (*x.split(2, 1), *x.chunk(2, 3), *x.unbind(2), x[:, :1].expand(2, 4, 3, 7)),
    normal(2, 5, 3, 7),
)
case(
    "pad",
    lambda m, x: (
        F.pad(x, (1, 2, 0, 1)),
        F.pad(x, (1, 2, 2, 1), mode="reflect"),
        F.pad(x, (3, 1), mode="replicate"),
        F.pad(x, (-1, 1), value=0.5),
    ),
    normal(5, 3, 7),
)
case(
    "resize",
    lambda m, x: (
        F.interpolate(x, scale_factor=3, mode="nearest"),
        F.interpolate(x, size=(5, 9), mode="nearest"),
        F.interpolate(x, scale_factor=3, mode="bilinear"),
        F.interpolate(x, size=(7, 13), mode="bilinear", align_corners=True),
    ),
    normal(1, 5, 3, 7),
)
case(
    "pool",
    lambda m, x: (
        F.max_pool2d(x, (2, 3)),
        F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        F.avg_pool2d(x, 2, 2, 1),
        F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        F.avg_pool2d(x, 2, divisor_override=3),
        F.adaptive_avg_pool2d(x, (3, 1)),
        F.adaptive_avg_pool2d(x, (4, 7)),
        F.adaptive_max_pool2d(x, (4, 3)),
        F.adaptive_max_pool2d(x, (1, 5)),
    ),
    normal(2, 3, 9, 10),
)
case(
    "convolution",
    lambda m, x: (m.a(x), m.b(x), m.c(x), m.d(x), m.e(x), F.relu(m.f(x))),
    normal(1, 6, 9, 7),
    a=lambda: torch.nn.Conv2d(6, 5, 3),
    b=lambda: torch.nn.Conv2d(6, 4, (2, 3), padding="same", bias=False),
    c=lambda: torch.nn.Conv2d(6, 9, 3, groups=3, stride=2),
    d=lambda: torch.nn.Conv2d(6, 12, 3, groups=6, dilation=2, padding=1),
    e=lambda: torch.nn.ConvTranspose2d(6, 5, 3, stride=2, output_padding=1),
    f=lambda: torch.nn.Conv2d(6, 11, 1),
)
case(
    "convolution1d",
    lambda m, x: (m.a(x), m.b(x), m.c(m.a(x))),
    normal(2, 6, 19),
    a=lambda: torch.nn.Conv1d(6, 5, 3, padding=2),
    b=lambda: torch.nn.ConvTranspose1d(6, 3, 4, stride=3),
    c=lambda: torch.nn.BatchNorm1d(5),
)
case(
    "matmul",
    lambda m, x, y: (x @ y, torch.bmm(x, y), m.a(x), x @ m.w, (x @ y).transpose(1, 2)),
    normal(3, 5, 7),
    normal(3, 7, 9),
    a=lambda: torch.nn.Linear(7, 11),
    w=lambda: torch.nn.Parameter(torch.randn(7, 3)),
)
case(
    "embedding",
    lambda m, i: (m.table(i),),
    lambda: torch.randint(0, 17, (3, 5)),
    table=lambda: torch.nn.Embedding(17, 6),
)
case(
    "argmax",
    lambda m, x: (m.a(x).argmax(1), m.a(x).argmin(0)),
    normal(3, 7),
    a=lambda: torch.nn.Linear(7, 5),
)
case(
    "numbers",
    lambda m, x, y, i, j, k: (
        x < y,
        x <= y,
        x > y,
        x >= y,
        x == y,
        x != y,
        torch.where(x < y, x, y),
        i & j,
        i | j,
        i ^ j,
        ~i,
        torch.logical_and(k, x < y),
        torch.logical_or(k, x < y),
        torch.logical_xor(k, x < y),
        i.cumsum(1),
        torch.div(i, 3, rounding_mode="floor"),
        torch.fmod(i, 5),
        torch.remainder(i, 5),
        i + k,
    ),
    normal(3, 5, 7),
    normal(3, 5, 7),
    lambda: torch.randint(-50, 50, (3, 5, 7)),
    lambda: torch.randint(-50, 50, (5, 1)),
    lambda: torch.rand(3, 5, 7) > 0.5,
    kept=(
        ["aten.lt", "aten.le", "aten.gt", "aten.ge", "aten.eq", "aten.ne", "aten.where"]
        + ["aten.bitwise_and", "aten.bitwise_or", "aten.bitwise_xor", "aten.bitwise_not"]
        + ["aten.logical_and", "aten.logical_or", "aten.logical_xor", "aten.cumsum", "aten.div"]
        + ["aten.fmod", "aten.remainder", "aten.add"]
    ),
)
case(
    "powers",
    lambda m, x, y: (torch.atan2(x, y), torch.pow(y, x)),
    normal(3, 5, 7),
    positive(3, 5, 7),
    kept=["aten.atan2", "aten.pow"],
)
case(
    "trigonometry",
    lambda m, x: (
        torch.acos(x),
        torch.asin(x),
        torch.atanh(x),
        torch.asinh(x),
        torch.acosh(x + 2.5),
        torch.cosh(x),
        torch.sinh(x),
        torch.tan(x),
    ),
    lambda: torch.rand(3, 5, 7) * 1.7 - 0.85,
)
case("trunc", lambda m, x: (torch.trunc(-x),), thirds(3, 5, 7))
case(
    "put",
    lambda m, x, s, i, j, k: (
        x.scatter(2, i, s),
        x.scatter(2, i, 0.5),
        x.scatter_add(2, i, s),
        x.index_put((j,), s[0, 0, 0]),
        torch.ops.aten.index_put(x, [None, j, None, j], s[:, :, :, 0].transpose(0, 1), True),
        x.index_put((k,), torch.tensor(0.25)),
        x.masked_scatter(k, s),
        x.diagonal(1, 2, 3),
        x[0, 0].as_strided((3, 4), (7, 2), 1),
        torch.cdist(x, s, p=1.0),
        F.pdist(x[0, 0]),
    ),
    normal(2, 3, 5, 7),
    normal(2, 3, 5, 7),
    lambda: torch.stack([torch.randperm(5)[:4] for _ in range(42)])
    .view(2, 3, 7, 4)
    .mT.contiguous(),
    lambda: torch.tensor([1, 0, 1]),
    lambda: torch.rand(2, 3, 5, 7) > 0.5,
    kept=["aten.index_put", "aten.where"] * 5
    + ["aten.add"] * 7
    + ["aten.mul"] * 2
    + ["aten.lt", "aten.cumsum", "aten.sub", "aten.clamp"],
)
case(
    "grid",
    lambda m, x, g: tuple(
        F.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=align)
        for mode, padding, align in (
            ("bilinear", "zeros", False),
            ("bilinear", "reflection", True),
            ("nearest", "border", False),
            ("bicubic", "border", True),
            ("bicubic", "zeros", False),
        )
    ),
    normal(2, 3, 5, 7),
    normal(2, 4, 3, 2),
    kept=["aten.grid_sampler_2d"] * 5,
)
