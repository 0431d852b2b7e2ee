#!/usr/bin/env python3
"""Writes upstream.pte and upstream.npz: a program as ExecuTorch's own exporter makes it, and what
its runtime computes.

    make_upstream.py         (ExecuTorch 1.4, PyTorch 2.13; one thread)

Nothing in it is Deuteron's: our loader has to take the file as it is, views that share memory and
dimension order operators included.
"""
import pathlib

import numpy as np
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.runtime import Runtime

torch.set_num_threads(1)
torch.manual_seed(1)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.pool = torch.nn.MaxPool2d(2)
        self.linear = torch.nn.Linear(24, 5)

    def forward(self, x, y):
        z = torch.relu(self.conv(x)) + y
        z = self.pool(z)
        z = torch.nn.functional.hardtanh(z, -0.5, 0.75)
        z = z.to(memory_format=torch.channels_last).to(memory_format=torch.contiguous_format)
        z = self.linear(z.flatten(1))
        return torch.softmax(z, -1), torch.cat([z, torch.sigmoid(z)], 1)


model, inputs = Model().eval(), (torch.randn(2, 3, 9, 14), torch.randn(4, 1, 1))
program = to_edge(
    torch.export.export(model, inputs), compile_config=EdgeCompileConfig(_skip_dim_order=False)
).to_executorch()
here = pathlib.Path(__file__).parent
(here / "upstream.pte").write_bytes(program.buffer)
outputs = (
    Runtime.get().load_program(here / "upstream.pte").load_method("forward").execute(list(inputs))
)
for got, wanted in zip(outputs, model(*inputs)):
    assert (got - wanted).abs().max() < 1e-6
np.savez_compressed(
    here / "upstream.npz",
    **{f"input_{i}": t.numpy() for i, t in enumerate(inputs)},
    **{f"output_{i}": t.numpy() for i, t in enumerate(outputs)},
)
for op in program.executorch_program.execution_plan[0].operators:
    print(op.name, op.overload)
