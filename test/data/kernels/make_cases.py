#!/usr/bin/env python3
"""Writes cases.npz and cases.json: inputs and outputs of ExecuTorch's kernels as PyTorch computes
them.

    make_cases.py            (PyTorch 2.13; one thread)

A case names a kernel and its arguments in the order of the operator's schema. Tensors lie in the
archive in logical order; the test runs every case with contiguous and with channels-last tensors.
Shapes are odd on purpose: channel, height, width and batch all differ.
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

try:
    import torch.ao.quantization.fx._decomposed  # noqa: F401  registers quantized_decomposed
except ImportError:
    import torchao.quantization.pt2e  # noqa: F401

torch.set_num_threads(1)
torch.manual_seed(0)
arrays, cases = {}, []
CODES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float32: 6,
    torch.float64: 7,
}


def tensor(t):
    name = f"t{len(arrays)}"
    arrays[name] = t.detach().contiguous().numpy()
    return {"tensor": name}


def argument(value):
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, torch.dtype):
        return {"int": CODES[value]}
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    if isinstance(value, float):
        return {"double": value}
    if value and isinstance(value[0], torch.Tensor):
        return {"tensors": [tensor(t)["tensor"] for t in value]}
    return {"ints": list(value)}


def case(name, kernel, arguments, *outputs, tolerance=0.0):
    """tolerance: of the largest magnitude of the output; 0 means bit for bit."""
    cases.append(
        {
            "name": name,
            "kernel": kernel,
            "arguments": [argument(a) for a in arguments],
            "outputs": [tensor(o)["tensor"] for o in outputs],
            "tolerance": tolerance,
        }
    )


def rand(*shape):
    return torch.randn(*shape)


x = rand(2, 3, 5, 7)
ROUND = 2e-6  # sums in another order, exp of another library
case("relu", "aten::relu.out", [x], torch.relu(x))
case("abs", "aten::abs.out", [x], torch.abs(x))
case("hardswish", "aten::hardswish.out", [x * 3], F.hardswish(x * 3), tolerance=ROUND)
case("sigmoid", "aten::sigmoid.out", [x * 4], torch.sigmoid(x * 4), tolerance=ROUND)
case("tanh", "aten::tanh.out", [x * 2], torch.tanh(x * 2), tolerance=ROUND)
case("clamp_both", "aten::clamp.out", [x, -0.5, 0.75], torch.clamp(x, -0.5, 0.75))
case("clamp_low", "aten::clamp.out", [x, 0, None], torch.clamp(x, 0))
case("clamp_high", "aten::clamp.out", [x, None, 0.25], torch.clamp(x, max=0.25))
case("hardtanh", "aten::hardtanh.out", [x, 0.0, 1.0], F.hardtanh(x, 0, 1))
y = rand(2, 3, 5, 7)
case("add", "aten::add.out", [x, y, 1], x + y)
case("add_alpha", "aten::add.out", [x, y, -0.5], torch.add(x, y, alpha=-0.5))
case("add_broadcast", "aten::add.out", [x, y[:1, :, :1, :].contiguous(), 1], x + y[:1, :, :1, :])
case(
    "add_vector",
    "aten::add.out",
    [y[0, 0, 0].contiguous(), x, 2],
    torch.add(y[0, 0, 0], x, alpha=2),
)


def conv(name, x, w, b, stride, padding, dilation, transposed, output_padding, groups):
    out = torch.ops.aten.convolution(
        x, w, b, stride, padding, dilation, transposed, output_padding, groups
    )
    case(
        name,
        "aten::convolution.out",
        [x, w, b, stride, padding, dilation, transposed, output_padding, groups],
        out,
        tolerance=ROUND,
    )


conv("conv2d", x, rand(4, 3, 3, 2), rand(4), [2, 1], [1, 0], [1, 1], False, [0, 0], 1)
conv("conv2d_no_bias", x, rand(5, 3, 1, 1), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
conv("conv2d_dilated", x, rand(2, 3, 2, 3), rand(2), [1, 2], [2, 3], [3, 2], False, [0, 0], 1)
conv("conv2d_depthwise", x, rand(6, 1, 3, 3), rand(6), [1, 1], [1, 1], [1, 1], False, [0, 0], 3)
conv(
    "conv2d_groups",
    rand(1, 4, 6, 5),
    rand(6, 2, 3, 3),
    rand(6),
    [1, 1],
    [1, 2],
    [1, 1],
    False,
    [0, 0],
    2,
)
conv("conv1d", rand(2, 3, 11), rand(4, 3, 5), rand(4), [2], [2], [1], False, [0], 1)
conv("conv_transpose2d", x, rand(3, 2, 3, 4), rand(2), [2, 3], [1, 0], [1, 1], True, [1, 2], 1)
conv(
    "conv_transpose2d_groups",
    rand(1, 4, 3, 5),
    rand(4, 3, 2, 3),
    None,
    [1, 2],
    [0, 1],
    [2, 1],
    True,
    [0, 0],
    2,
)
conv("conv_transpose1d", rand(1, 3, 7), rand(3, 2, 3), rand(2), [2], [1], [1], True, [1], 1)

a, w, b = rand(3, 7), rand(5, 7), rand(5)
case("linear", "aten::linear.out", [a, w, b], F.linear(a, w, b), tolerance=ROUND)
w4 = rand(6, 7)
case("linear_4d", "aten::linear.out", [x, w4, None], F.linear(x, w4), tolerance=ROUND)
case(
    "addmm",
    "aten::addmm.out",
    [b, a, w.t().contiguous(), 1, 1],
    torch.addmm(b, a, w.t()),
    tolerance=ROUND,
)
c = rand(3, 1)
case(
    "addmm_scaled",
    "aten::addmm.out",
    [c, a, w.t().contiguous(), 0.5, 2.0],
    torch.addmm(c, a, w.t(), beta=0.5, alpha=2.0),
    tolerance=ROUND,
)


def max_pool(name, x, kernel, stride, padding, dilation, ceil):
    out, indices = torch.ops.aten.max_pool2d_with_indices(
        x, kernel, stride, padding, dilation, ceil
    )
    case(
        name,
        "aten::max_pool2d_with_indices.out",
        [x, kernel, stride, padding, dilation, ceil],
        out,
        indices,
    )


max_pool("max_pool2d", x, [3, 2], [2, 1], [1, 1], [1, 1], False)
max_pool("max_pool2d_ceil", x, [2, 3], [2, 2], [0, 1], [1, 1], True)
max_pool("max_pool2d_dilated", x, [2, 2], [1, 3], [1, 0], [2, 3], False)


def avg_pool(name, x, *arguments):
    case(
        name,
        "aten::avg_pool2d.out",
        [x, *arguments],
        torch.ops.aten.avg_pool2d(x, *arguments),
        tolerance=ROUND,
    )


avg_pool("avg_pool2d", x, [3, 2], [2, 1], [1, 1], False, True, None)
avg_pool("avg_pool2d_exclude", x, [3, 2], [1, 2], [1, 1], False, False, None)
avg_pool("avg_pool2d_ceil", x, [2, 3], [3, 2], [1, 1], True, True, None)
avg_pool("avg_pool2d_ceil_exclude", x, [2, 3], [3, 2], [1, 1], True, False, None)
avg_pool("avg_pool2d_divisor", x, [2, 2], [2, 2], [0, 0], False, True, 3)
avg_pool("avg_pool2d_3d", x[0].contiguous(), [2, 2], [2, 2], [0, 0], False, True, None)

for name, dims, keep in (
    ("mean_spatial", [2, 3], True),
    ("mean_negative", [-1], False),
    ("mean_outer", [0, 2], False),
    ("mean_all", [], False),
):
    out = torch.mean(x, dims, keep) if dims else torch.mean(x)
    case(name, "aten::mean.out", [x, dims or None, keep, None], out, tolerance=ROUND)
case("softmax", "aten::_softmax.out", [x * 5, 1, False], torch.softmax(x * 5, 1), tolerance=ROUND)
case(
    "softmax_last",
    "aten::_softmax.out",
    [a * 20, -1, False],
    torch.softmax(a * 20, -1),
    tolerance=ROUND,
)
bn = [rand(3), rand(3), rand(3), torch.rand(3) + 0.5]
for name, parameters in (("batch_norm", bn), ("batch_norm_plain", [None, None, *bn[2:]])):
    case(
        name,
        "aten::_native_batch_norm_legit_no_training.out",
        [x, *parameters, 0.1, 1e-3],
        *torch.ops.aten._native_batch_norm_legit_no_training(x, *parameters, 0.1, 1e-3),
        tolerance=ROUND,
    )
case("view", "aten::view_copy.out", [x, [6, -1]], x.view(6, -1))
case("view_4d", "aten::view_copy.out", [x, [7, 2, 5, 3]], x.view(7, 2, 5, 3))
case("permute", "aten::permute_copy.out", [x, [2, 0, -1, 1]], x.permute(2, 0, -1, 1))
case("pad", "aten::constant_pad_nd.out", [x, [1, 2, 0, 3], 1.5], F.pad(x, [1, 2, 0, 3], value=1.5))
case(
    "pad_crop",
    "aten::constant_pad_nd.out",
    [x, [-2, 1, 2, -1, 1, 0], -1.0],
    F.pad(x, [-2, 1, 2, -1, 1, 0], value=-1.0),
)
i8 = torch.randint(-128, 128, (2, 3, 4, 5), dtype=torch.int8)
case("pad_int8", "aten::constant_pad_nd.out", [i8, [1, 1], -7], F.pad(i8, [1, 1], value=-7))
case("cat", "aten::cat.out", [[x, y[:, :1].contiguous(), x], 1], torch.cat([x, y[:, :1], x], 1))
case(
    "cat_last", "aten::cat.out", [[x, y[..., :2].contiguous()], -1], torch.cat([x, y[..., :2]], -1)
)
case("to_dim_order", "dim_order_ops::_to_dim_order_copy.out", [x, False, None], x)
case("to_dim_order_int8", "dim_order_ops::_to_dim_order_copy.out", [i8, False, None], i8)

q = torch.ops.quantized_decomposed
scale = float(np.float32(0.037))
ties = torch.tensor([[0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, 0.0]]) * scale
for dtype, low, high in (
    (torch.int8, -128, 127),
    (torch.uint8, 0, 255),
    (torch.int16, -32768, 32767),
    (torch.int8, -127, 127),
):
    name = f"{str(dtype)[6:]}_{low}"
    for label, t in (("", x * 3), ("_ties", ties)):
        arguments = [scale, 5, low, high, dtype]
        case(
            f"quantize_{name}{label}",
            "quantized_decomposed::quantize_per_tensor.out",
            [t, *arguments],
            q.quantize_per_tensor(t, *arguments),
        )
    t = torch.randint(low, high + 1, (2, 3, 5, 7), dtype=dtype)
    arguments = [scale, 5, low, high, dtype]
    case(
        f"dequantize_{name}",
        "quantized_decomposed::dequantize_per_tensor.out",
        [t, *arguments, None],
        q.dequantize_per_tensor(t, *arguments),
    )
scales, zeros = torch.tensor([0.02, 0.5, 0.003]), torch.tensor([0, -3, 7])
arguments = [scales, zeros, 1, -128, 127, torch.int8]
quantized = q.quantize_per_channel(x, *arguments)
case(
    "quantize_per_channel",
    "quantized_decomposed::quantize_per_channel.out",
    [x, *arguments],
    quantized,
)
case(
    "dequantize_per_channel",
    "quantized_decomposed::dequantize_per_channel.out",
    [quantized, *arguments, None],
    q.dequantize_per_channel(quantized, *arguments),
)

torch.manual_seed(1)
for name, shapes in (
    ("mm", [(5, 7), (7, 3)]),
    ("bmm", [(3, 5, 7), (3, 7, 2)]),
    ("matmul", [(2, 1, 5, 7), (3, 7, 4)]),
    ("matmul", [(3, 5, 0), (0, 4)]),
):
    left, right = (rand(*shape) for shape in shapes)
    case(
        f"{name}_{len(shapes[0])}{len(shapes[1])}",
        f"aten::{name}.out",
        [left, right],
        left @ right,
        tolerance=ROUND,
    )
for dim in (1, -1):
    t = rand(2, 3, 5, 7) * 6
    case(
        f"log_softmax_{dim}",
        "aten::_log_softmax.out",
        [t, dim, False],
        torch.log_softmax(t, dim),
        tolerance=ROUND,
    )

torch.manual_seed(2)
r = rand(2, 3, 5, 7)
r[1, 2, 0, 3] = float("nan")
for name, kernel, function in (
    ("sum", "aten::sum.IntList_out", torch.sum),
    ("amax", "aten::amax.out", torch.amax),
    ("amin", "aten::amin.out", torch.amin),
):
    for dims, keep in (([2, 3], True), ([-2], False), ([0, 3], False), ([0, 1, 2, 3], False)):
        t = x if name == "sum" else r
        more = [None] if name == "sum" else []
        case(
            f"{name}_{''.join(map(str, dims))}",
            kernel,
            [t, dims, keep, *more],
            function(t, dims, keep),
            tolerance=ROUND if name == "sum" else 0,
        )
for dim, start, end, step in ((1, 1, 3, 1), (-1, 0, 7, 3), (2, -4, -1, 2), (0, None, None, 1)):
    case(
        f"slice_{dim}_{step}",
        "aten::slice_copy.Tensor_out",
        [x, dim, start, end, step],
        torch.ops.aten.slice_copy.Tensor(x, dim, start, end, step),
    )
case("slice_int8", "aten::slice_copy.Tensor_out", [i8, 2, 1, 4, 2], i8[:, :, 1:4:2])
case(
    "expand", "aten::expand_copy.out", [x[:, :1], [2, 3, 5, 7], False], x[:, :1].expand(2, 3, 5, 7)
)
case(
    "expand_rank",
    "aten::expand_copy.out",
    [x[0, :, :1], [2, 3, 5, 7], False],
    x[0, :, :1].expand(2, 3, 5, 7),
)
case("flip", "aten::flip.out", [x, [0, -1]], torch.flip(x, [0, -1]))
case("flip_int8", "aten::flip.out", [i8, [2]], torch.flip(i8, [2]))
for name, function in (("argmax", torch.argmax), ("argmin", torch.argmin)):
    for dim, keep in ((1, False), (-1, True), (0, False), (None, False), (None, True)):
        case(f"{name}_{dim}_{keep}", f"aten::{name}.out", [r, dim, keep], function(r, dim, keep))
    case(f"{name}_int8", f"aten::{name}.out", [i8, 1, False], function(i8, 1))
index = torch.tensor([4, 0, 0, 2])
case("index_select", "aten::index_select.out", [x, 2, index], x.index_select(2, index))
case(
    "index_select_int8",
    "aten::index_select.out",
    [i8, 0, torch.tensor([1, 0, 1])],
    i8.index_select(0, torch.tensor([1, 0, 1])),
)
case(
    "embedding",
    "aten::embedding.out",
    [x[0, 0], index.view(2, 2), -1, False, False],
    x[0, 0][index.view(2, 2)],
)
mask = torch.rand(3, 1, 7) > 0.4
mask[1, 0] = False
for dim in (-1, 1, 0):
    scores = x.masked_fill(~mask, -torch.inf)
    case(
        f"masked_softmax_{dim}",
        "deuteron::masked_softmax.out",
        [x, mask, dim],
        torch.softmax(scores, dim).nan_to_num(0),
        tolerance=ROUND,
    )
for size in ([5, 7], [9, 4], [13, 21], [1, 1]):
    label = "x".join(map(str, size))
    case(
        f"nearest_{label}",
        "aten::upsample_nearest2d.out",
        [x, size, None, None],
        torch.ops.aten.upsample_nearest2d(x, size),
    )
    for align in (False, True):
        case(
            f"bilinear_{label}_{align}",
            "aten::upsample_bilinear2d.out",
            [x, size, align, None, None],
            torch.ops.aten.upsample_bilinear2d(x, size, align),
            tolerance=ROUND,
        )
case(
    "nearest_factor",
    "aten::upsample_nearest2d.out",
    [x, [8, 9], 1.7, 1.3],
    torch.ops.aten.upsample_nearest2d(x, [8, 9], 1.7, 1.3),
)
case(
    "bilinear_factor",
    "aten::upsample_bilinear2d.out",
    [x, [8, 9], False, 1.7, 1.3],
    torch.ops.aten.upsample_bilinear2d(x, [8, 9], False, 1.7, 1.3),
    tolerance=ROUND,
)
for size in ([2, 3], [5, 4], [9, 7]):
    case(
        f"adaptive_avg_{size[0]}",
        "aten::_adaptive_avg_pool2d.out",
        [x, size],
        torch.ops.aten._adaptive_avg_pool2d(x, size),
        tolerance=ROUND,
    )
    case(
        f"adaptive_max_{size[0]}",
        "aten::adaptive_max_pool2d.out",
        [r, size],
        *torch.ops.aten.adaptive_max_pool2d(r, size),
    )

torch.manual_seed(3)
t, gain, offset = rand(2, 6, 5, 7) * 3 + 1, rand(5, 7), rand(5, 7)
for name, weight, bias in (("", gain, offset), ("_plain", None, None)):
    case(
        f"layer_norm{name}",
        "aten::native_layer_norm.out",
        [t, [5, 7], weight, bias, 1e-3],
        *torch.ops.aten.native_layer_norm(t, [5, 7], weight, bias, 1e-3),
        tolerance=ROUND,
    )
    case(
        f"rms_norm{name}",
        "aten::rms_norm.out",
        [t, [5, 7], weight, 1e-3 if name else None],
        F.rms_norm(t, [5, 7], weight, 1e-3 if name else None),
        tolerance=ROUND,
    )
gain, offset = rand(6), rand(6)
for name, weight, bias, groups in (("", gain, offset, 3), ("_plain", None, None, 6)):
    case(
        f"group_norm{name}",
        "aten::native_group_norm.out",
        [t, weight, bias, 2, 6, 35, groups, 1e-3],
        *torch.ops.aten.native_group_norm(t, weight, bias, 2, 6, 35, groups, 1e-3),
        tolerance=ROUND,
    )

here = pathlib.Path(__file__).parent
np.savez_compressed(here / "cases.npz", **arrays)
(here / "cases.json").write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(len(cases), "cases,", len(arrays), "tensors")
