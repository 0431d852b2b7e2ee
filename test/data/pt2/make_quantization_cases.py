"""Makes the .pt2 files of this folder that hold quantization, with PyTorch 2.13 and torchao 0.18:
as make_pt2_cases.py.

    python make_quantization_cases.py
"""
import numpy as np
import torch
import torchao.quantization.pt2e as pt2e
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from make_pt2_cases import HERE, portable, rand
from torch import nn
from torch.nn import functional as F
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

Q = torch.ops.quantized_decomposed
CASES = {}


def case(*inputs):
    def register(cls):
        CASES[cls.__name__] = (cls, inputs)
        return cls

    return register


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


@case(rand(2, 3, 5, 7))
class fake_quantized(nn.Module):
    """Every operator of fake quantization, on activations and on weights, in the ranges of int8 and
    uint8."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.weight, self.wide = nn.Parameter(torch.randn(4, 3, 2, 2)), nn.Parameter(
            torch.randn(6, 4) * 2
        )
        self.bias = nn.Parameter(torch.randn(4))
        self.register_buffer("scales", torch.tensor([0.02, 0.03, 0.01, 0.025]))
        self.register_buffer("zeros", torch.zeros(4, dtype=torch.int32))
        self.register_buffer("on", torch.ones(1, dtype=torch.long))
        self.register_buffer("off", torch.zeros(1, dtype=torch.long))
        for name, low, high, scale, zero in (
            ("x", -1.0, 1.0, 2 / 255, 0),
            ("y", -4.0, 4.0, 8 / 255, 0),
            ("w", -5.0, 5.0, 10 / 254, 0),
        ):
            self.register_buffer(f"{name}_low", torch.tensor([low]))
            self.register_buffer(f"{name}_high", torch.tensor([high]))
            self.register_buffer(f"{name}_scale", torch.tensor([scale]))
            self.register_buffer(f"{name}_zero", ints(zero))
        with torch.no_grad():
            self(rand(2, 3, 5, 7))  # brings scales and zero points into line with the bounds

    def moving(self, x, name, low=-128, symmetric=False, switch="on"):
        return torch.fused_moving_avg_obs_fake_quant(
            x,
            self.off,
            getattr(self, switch),
            *(getattr(self, f"{name}_{part}") for part in ("low", "high", "scale", "zero")),
            0.01,
            low,
            127,
            -1,
            False,
            symmetric,
        )

    def forward(self, x):
        weight = torch.fake_quantize_per_channel_affine(
            self.weight, self.scales, self.zeros, 0, -127, 127
        )
        y = self.moving(F.relu(F.conv2d(self.moving(x, "x"), weight, self.bias)), "y")
        y = self.moving(y, "x", switch="off")
        z = torch.fake_quantize_per_tensor_affine(y.mean((2, 3)), 0.01, 3, 0, 255)
        wide = self.moving(self.wide, "w", -127, True)
        return torch.fake_quantize_per_tensor_affine(
            F.linear(z, wide), self.y_scale, self.y_zero, -128, 127
        )


@case(rand(2, 3, 4, 4))
class unsigned(nn.Module):
    """Codes in uint8, activations and weights."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.register_buffer("weight", torch.randint(0, 256, (4, 3, 2, 2), dtype=torch.uint8))
        self.register_buffer("scales", torch.tensor([0.02, 0.03, 0.01, 0.025]))
        self.register_buffer("zeros", torch.tensor([128, 100, 0, 255], dtype=torch.int64))

    def forward(self, x):
        x = Q.dequantize_per_tensor(
            Q.quantize_per_tensor(x, 0.01, 130, 0, 255, torch.uint8), 0.01, 130, 0, 255, torch.uint8
        )
        weight = Q.dequantize_per_channel(
            self.weight, self.scales, self.zeros, 0, 0, 255, torch.uint8
        )
        y = F.conv2d(x, weight)
        return Q.dequantize_per_tensor(
            Q.quantize_per_tensor(y, 0.05, 128, 0, 255, torch.uint8).flatten(1),
            0.05,
            128,
            0,
            255,
            torch.uint8,
        )


class trained(nn.Module):
    """Convolutions with batch norm, with and without bias, and a linear: what a PT2E quantizer
    prepares and converts."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.a, self.norm_a = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.b, self.norm_b = nn.Conv2d(4, 6, 2, bias=False), nn.BatchNorm2d(6)
        self.c = nn.Linear(6 * 9, 5)

    def forward(self, x):
        x = F.relu(self.norm_a(self.a(x)))
        return self.c(self.norm_b(self.b(x)).flatten(1))


@case(rand(2, 3))
class never_calibrated(nn.Module):
    def __init__(self):
        super().__init__()
        for name, value in (
            ("on", torch.ones(1, dtype=torch.long)),
            ("zero", ints(0)),
            ("scale", torch.ones(1)),
        ):
            self.register_buffer(name, value)
        self.register_buffer("low", torch.tensor([float("inf")]))
        self.register_buffer("high", torch.tensor([float("-inf")]))

    def forward(self, x):
        return torch.fused_moving_avg_obs_fake_quant(
            x, self.on, self.on, self.low, self.high, self.scale, self.zero, 0.01, -128, 127, -1
        )


@case(rand(2, 3))
class not_converted(nn.Module):
    def __init__(self):
        super().__init__()
        self.activation_post_process_0 = torch.ao.quantization.MinMaxObserver()

    def forward(self, x):
        return self.activation_post_process_0(x) + 1


@case(rand(2, 3))
class wide_codes(nn.Module):
    def forward(self, x):
        return torch.fake_quantize_per_tensor_affine(x, 0.001, 0, -32768, 32767)


def write(name, program, inputs):
    torch.export.save(program, HERE / f"{name}.pt2")
    portable(HERE / f"{name}.pt2")
    if name not in ("never_calibrated", "not_converted", "wide_codes"):
        expected = program.module()(*[i.clone() for i in inputs])
        np.savez(
            HERE / f"{name}.npz",
            **{f"input_{i}": v.numpy() for i, v in enumerate(inputs)},
            output_0=expected.detach().numpy(),
        )


def write_trained():
    example = (rand(2, 3, 6, 6),)
    quantizer = XNNPACKQuantizer().set_global(
        get_symmetric_quantization_config(is_per_channel=True, is_qat=True)
    )
    model = prepare_qat_pt2e(torch.export.export(trained().train(), example).module(), quantizer)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(2, 3, 6, 6)).square().mean().backward()
        optimizer.step()
    pt2e.move_exported_model_to_eval(model)
    model.apply(pt2e.disable_observer)
    write("trained_prepared", torch.export.export(model, example), example)
    write("trained_converted", torch.export.export(convert_pt2e(model), example), example)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, (cls, inputs) in CASES.items():
        with torch.no_grad():
            write(name, torch.export.export(cls().eval(), inputs), inputs)
    write_trained()
