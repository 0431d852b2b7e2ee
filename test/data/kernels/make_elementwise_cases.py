#!/usr/bin/env python3
"""Writes elementwise.npz and elementwise.json: as make_cases.py, for elementwise operators.

    make_elementwise_cases.py            (PyTorch 2.13; one thread)
"""
import json
import pathlib

import numpy as np
import torch

torch.set_num_threads(1)
torch.manual_seed(7)
arrays, cases = {}, []
ROUND = 2e-6  # exp of another library


def argument(value):
    if isinstance(value, torch.Tensor):
        name = f"e{len(arrays)}"
        arrays[name] = value.detach().contiguous().numpy()
        return {"tensor": name}
    if isinstance(value, str):
        return {"string": value}
    return {"int" if isinstance(value, int) else "double": value}


def case(name, kernel, arguments, output, tolerance=0.0):
    """tolerance: of the largest magnitude of the output; 0 means bit for bit."""
    cases.append({"name": name, "kernel": kernel, "arguments": [argument(a) for a in arguments],
                  "outputs": [argument(output)["tensor"]], "tolerance": tolerance})


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
case("prelu_number", "aten::prelu.out", [x, torch.tensor([0.3])], torch.prelu(x, torch.tensor([0.3])))

here = pathlib.Path(__file__).parent
np.savez_compressed(here / "elementwise.npz", **arrays)
(here / "elementwise.json").write_text(json.dumps(cases, indent=None, separators=(",", ":")) + "\n")
