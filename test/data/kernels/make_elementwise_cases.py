#!/usr/bin/env python3
"""Writes elementwise.npz and elementwise.json: as make_cases.py, for elementwise operators.

    make_elementwise_cases.py            (PyTorch 2.13; one thread)
"""
import torch
import torch.nn.functional as F

from recorder import Recorder

recorder = Recorder("e", seed=7)
case = recorder.case
ROUND = 2e-6  # exp of another library

x, y = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 5, 7)
channel = torch.randn(3, 1, 1)
case("sub", "aten::sub.out", [x, y, 1], x - y)
case("sub_alpha", "aten::sub.out", [channel, y, -0.5], torch.sub(channel, y, alpha=-0.5))
case("mul", "aten::mul.out", [x, y], x * y)
case("mul_number", "aten::mul.out", [x, torch.tensor(-2.5)], x * -2.5)
case("mul_both_broadcast", "aten::mul.out", [x[:, :1].contiguous(), channel], x[:, :1] * channel)
case("div", "aten::div.out", [x, y], x / y)
case("div_reversed", "aten::div.out", [torch.tensor([3.0]), y], torch.div(torch.tensor([3.0]), y))
case("maximum", "aten::maximum.out", [x, y], torch.maximum(x, y))
case("maximum_channel", "aten::maximum.out", [channel, y], torch.maximum(channel, y))
case("minimum", "aten::minimum.out", [x, y], torch.minimum(x, y))
case("prelu", "aten::prelu.out", [x, channel], torch.prelu(x, channel[:, 0, 0]))
case(
    "prelu_number", "aten::prelu.out", [x, torch.tensor([0.3])], torch.prelu(x, torch.tensor([0.3]))
)

positive = x.abs() + 0.1
for name in (
    "atan",
    "ceil",
    "cos",
    "erf",
    "exp",
    "floor",
    "neg",
    "reciprocal",
    "round",
    "sign",
    "sin",
):
    case(name, f"aten::{name}.out", [x * 3], getattr(torch, name)(x * 3), tolerance=ROUND)
for name in ("log", "rsqrt", "sqrt"):
    case(name, f"aten::{name}.out", [positive], getattr(torch, name)(positive), tolerance=ROUND)
for name, function in (
    ("hardsigmoid", F.hardsigmoid),
    ("log_sigmoid", F.logsigmoid),
    ("mish", F.mish),
    ("silu", F.silu),
):
    case(name, f"aten::{name}.out", [x * 3], function(x * 3), tolerance=ROUND)
case(
    "elu",
    "aten::elu.out",
    [x, 1.5, 1.25, 0.5],
    torch.ops.aten.elu(x, 1.5, 1.25, 0.5),
    tolerance=ROUND,
)
case("gelu", "aten::gelu.out", [x * 2, "none"], F.gelu(x * 2), tolerance=ROUND)
case(
    "gelu_tanh",
    "aten::gelu.out",
    [x * 2, "tanh"],
    F.gelu(x * 2, approximate="tanh"),
    tolerance=ROUND,
)
case("hardshrink", "aten::hardshrink.out", [x, 0.75], F.hardshrink(x, 0.75))
case("softshrink", "aten::softshrink.out", [x, 0.25], F.softshrink(x, 0.25))
case("softsign", "deuteron::softsign.out", [x * 3], F.softsign(x * 3), tolerance=ROUND)
case("threshold", "aten::threshold.out", [x, 0.5, -2.0], F.threshold(x, 0.5, -2.0))
case("leaky_relu", "aten::leaky_relu.out", [x, 0.3], F.leaky_relu(x, 0.3))
case("pow", "aten::pow.Tensor_Scalar_out", [x, 3], x**3, tolerance=ROUND)
case(
    "pow_fraction",
    "aten::pow.Tensor_Scalar_out",
    [positive, -1.75],
    positive**-1.75,
    tolerance=ROUND,
)
case(
    "softplus",
    "aten::softplus.out",
    [x * 9, 0.5, 4.0],
    F.softplus(x * 9, 0.5, 4.0),
    tolerance=ROUND,
)

recorder.write("elementwise")
