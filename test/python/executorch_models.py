"""Networks for the tests of deuteron.executorch, how they are quantized, and what upstream runs."""
import io
import sys

import torch
from deuteron._edge import operator_name
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    """Convolutions with batch norm, depthwise, a residual, a mean and a linear layer."""

    shapes = ((1, 3, 16, 16),)

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.pointwise = nn.Conv2d(16, 24, 1)
        self.head = nn.Linear(24, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        x = x + torch.relu(self.depthwise(x))
        return self.head(torch.relu(self.pointwise(x)).mean((2, 3)))


class Inverted(nn.Module):
    """An inverted residual of odd sizes, hardswish and softmax."""

    shapes = ((1, 3, 17, 13),)

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 11, 3, stride=2, padding=1)
        self.up = nn.Conv2d(11, 37, 1)
        self.depthwise = nn.Conv2d(37, 37, 3, padding=1, groups=37)
        self.down = nn.Conv2d(37, 11, 1)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(11 * 4 * 3, 7)

    def forward(self, x):
        x = F.hardswish(self.stem(x))
        x = x + self.down(F.relu6(self.depthwise(F.relu6(self.up(x)))))
        return F.softmax(self.head(self.pool(x).flatten(1)), -1)


class Attention(nn.Module):
    shapes = ((1, 9, 24),)

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(24, 72)
        self.out = nn.Linear(24, 24)
        self.norm = nn.LayerNorm(24)
        self.wide = nn.Linear(24, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).reshape(1, 9, 3, 3, 8).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(1, 9, 24))
        return x + F.gelu(self.wide(self.norm(x)))


class Text(nn.Module):
    """An encoder of token ids."""

    shapes = ("ids",)

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.hidden = nn.Linear(16, 16)
        self.head = nn.Linear(16, 5)

    def forward(self, ids):
        return self.head(torch.tanh(self.hidden(self.table(ids))).mean(1))


class TwoAndThree(nn.Module):
    """Two inputs, three outputs."""

    shapes = ((2, 5, 7, 6), (2, 5, 7, 6))

    def __init__(self):
        super().__init__()
        self.left = nn.Conv2d(5, 8, 3)
        self.right = nn.Conv2d(5, 8, 3)

    def forward(self, x, y):
        left, right = self.left(x), self.right(y)
        return torch.cat([left, right], 1), left * right, torch.sigmoid(right - left)


class Between(nn.Module):
    """An operator between two partitions that neither the NPU nor the importer has."""

    shapes = ((1, 4, 8, 8),)

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(4, 6, 3)
        self.second = nn.Conv2d(6, 4, 3)

    def forward(self, x):
        x = torch.cumsum(torch.relu(self.first(x)), -1)
        return self.second(torch.erf(x))


class Layers(nn.Module):
    shapes = ((3, 20),)

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(20, 33)
        self.second = nn.Linear(33, 33)
        self.third = nn.Linear(33, 4)

    def forward(self, x):
        return self.third(torch.tanh(self.second(torch.relu(self.first(x)))))


class Upsample(nn.Module):
    """A decoder: pool, transposed convolution, interpolation, concatenation."""

    shapes = ((1, 3, 12, 10),)

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.last = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        x = torch.relu(self.down(x))
        small = F.avg_pool2d(x, 2)
        wide = F.interpolate(small, scale_factor=2, mode="nearest")
        return self.last(torch.cat([self.up(small), wide], 1))


def sample(model):
    return tuple(
        torch.randint(0, 50, (1, 12)) if shape == "ids" else torch.randn(shape)
        for shape in model.shapes
    )


def xnnpack_quantizer():
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))


def neutron_quantizer():
    """ExecuTorch's own for this NPU, which imports a closed package that Deuteron replaces."""
    from deuteron.eiq import sdk

    sys.modules.setdefault("eiq_neutron_sdk", sdk)
    from executorch.backends.nxp.backend.neutron_target_spec import NeutronTargetSpec
    from executorch.backends.nxp.quantizer.neutron_quantizer import NeutronQuantizer

    return NeutronQuantizer(NeutronTargetSpec("imxrt700"))


def quantized(model, quantizer, inputs=None, strict=False):
    """The quantized module of PyTorch, and its export."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    inputs = inputs or sample(model)
    exported = torch.export.export(model, inputs, strict=strict)
    prepared = prepare_pt2e(exported.module(), quantizer)
    prepared(*inputs)
    for _ in range(3):
        prepared(*sample(model))
    converted = convert_pt2e(prepared)
    return converted, torch.export.export(converted, inputs)


class Lowered:
    """A program of ExecuTorch, and the edge program with its delegates."""

    def __init__(self, exported, partitioners, **settings):
        from executorch.exir import to_edge_transform_and_lower

        self.edge = to_edge_transform_and_lower(exported, partitioner=partitioners, **settings)
        self.left = {name: self._operators(name) for name in self.edge.methods}
        self.bytes = bytes(self.edge.to_executorch().buffer)

    def module(self, method="forward"):
        return self.edge.exported_program(method).graph_module

    def operators(self, method="forward"):
        """What is left outside of delegates, by name, and how many delegates there are."""
        return self.left[method]

    def _operators(self, method):
        names = [
            operator_name(node)
            for node in self.module(method).graph.nodes
            if node.op == "call_function"
        ]
        left = [name for name in names if "getitem" not in name]
        return [n for n in left if "executorch_call_delegate" not in n], sum(
            "executorch_call_delegate" in name for name in left
        )

    def payloads(self, method="forward"):
        module = self.module(method)
        return [
            bytes(getattr(module, node.target).processed_bytes)
            for node in module.graph.nodes
            if node.op == "get_attr" and node.target.startswith("lowered_module")
        ]


def run(program, inputs, method="forward"):
    """What upstream's own runtime computes."""
    from executorch.runtime import Runtime

    loaded = Runtime.get().load_program(program)  # its bytes must stay
    return loaded.load_method(method).execute(list(inputs))


def exported_bytes(exported):
    file = io.BytesIO()
    torch.export.save(exported, file)
    return file.getvalue()


def tensors(outputs):
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)
