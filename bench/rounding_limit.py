#!/usr/bin/env python3
"""How near another evaluation of a quantized model can come to PyTorch's: needs torch and numpy,
prints SQNR and same argmax.

    bench/rounding_limit.py MODEL_FOLDER...

Each model runs on its test set as PyTorch runs it, and with changes that no rounding to codes is
part of:

    other order    convolutions and linear layers add up their input channels backwards, in float32
                   as before
    exact          everything between dequantize and quantize in double: arithmetic without any
                   rounding but the one to codes, ties to even
    exact, upwards the same with ties upwards, as a multiplication of integers rounds
    exact but pool exact, ties to even, but averages in float32 as PyTorch computes them

What integers can reach is "exact": the rest is PyTorch's own rounding, which changes a code
wherever a result lies within 10^-7 of a tie.
"""
import sys
from pathlib import Path

import numpy as np
import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401

Q = torch.ops.quantized_decomposed
ATEN = torch.ops.aten
torch.set_num_threads(1)


class Run(torch.fx.Interpreter):
    def __init__(self, module, double=False, backwards=False, upwards=False, float_pool=False):
        super().__init__(module)
        self.double, self.backwards, self.upwards, self.float_pool = (
            double,
            backwards,
            upwards,
            float_pool,
        )

    def call_function(self, target, args, kwargs):
        if (
            self.backwards
            and target == ATEN.conv2d.default
            and args[1].shape[1] > 1
            and (len(args) < 7 or args[6] == 1)
        ):
            args = (args[0].flip(1).contiguous(), args[1].flip(1).contiguous(), *args[2:])
        if self.backwards and target == ATEN.linear.default:
            args = (args[0].flip(-1).contiguous(), args[1].flip(-1).contiguous(), *args[2:])
        if self.double:
            if target == Q.dequantize_per_tensor.default:
                return (args[0].double() - args[2]) * float(np.float32(args[1]))
            if target == Q.dequantize_per_channel.default:
                shape = [1] * args[0].dim()
                shape[args[3]] = -1
                return (args[0].double() - args[2].reshape(shape).double()) * args[
                    1
                ].double().reshape(shape)
            if target == Q.quantize_per_tensor.default:
                steps = args[0].double() / float(np.float32(args[1]))
                steps = torch.floor(steps + 0.5) if self.upwards else torch.round(steps)
                return torch.clamp(steps + args[2], args[3], args[4]).to(args[5])
            if self.float_pool and target == ATEN.avg_pool2d.default:
                return super().call_function(target, (args[0].float(), *args[1:]), kwargs).double()
        return super().call_function(target, args, kwargs)


WAYS = {
    "other order": {"backwards": True},
    "exact": {"double": True},
    "exact, upwards": {"double": True, "upwards": True},
    "exact but pool": {"double": True, "float_pool": True},
}


def outputs(folder, images, **how):
    module = torch.export.load(folder / "quantized.pt2").module()
    if how.get("double"):
        for tensor in [*module.parameters(), *module.buffers()]:
            if tensor.dtype == torch.float32:
                tensor.data = tensor.data.double()
    shape = next(node.meta["val"].shape for node in module.graph.nodes if node.op == "placeholder")
    run = Run(module, **how)
    found = []
    with torch.no_grad():
        for image in images:
            x = torch.from_numpy(image).reshape(shape)
            result = run.run(x.double() if how.get("double") else x)
            found.append(
                (result[0] if isinstance(result, (tuple, list)) else result).double().flatten()
            )
    return torch.stack(found)


def main():
    for folder in map(Path, sys.argv[1:]):
        images = np.load(folder / "test.npz")["input"]
        wanted = outputs(folder, images)
        for name, how in WAYS.items():
            got = outputs(folder, images, **how)
            noise = ((wanted - got) ** 2).sum().item()
            sqnr = 10 * np.log10((wanted**2).sum().item() / noise) if noise else float("inf")
            print(
                (
                    f"{folder.name:16} {name:15} {sqnr:5.1f} dB, same argmax"
                    f" {(wanted.argmax(1) == got.argmax(1)).double().mean():.4f}"
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
