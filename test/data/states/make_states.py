#!/usr/bin/env python3
"""Makes models that keep states between runs, and what PyTorch and LiteRT compute step by step.

    make_states.py [NAME...]    needs PyTorch 2.13, ai-edge-litert, flatbuffers, ExecuTorch 1.4

NAME.pt2 is exported as it is, NAME_core.pt2 after run_decompositions (the same without in-place
operators). NAME.npz has input_I and output_I [steps, …]: the module is run step by step, its
buffers begin as the program's states do. NAME.pte is what ExecuTorch writes for the same module.
NAME.tflite keeps the same kind of state in variables; LiteRT's interpreter is run step by step.
"""
import copy
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

HERE = Path(__file__).parent
CASES = {}


def case(steps, *shapes, pte=False):
    def register(cls):
        CASES[cls.__name__] = (cls, steps, shapes, pte)
        return cls

    return register


@case(9, (1, 3, 2), pte=True)
class ring(nn.Module):
    """A streaming convolution: the last four frames are kept, two come with each run."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frames", torch.zeros(1, 3, 4))
        self.conv = nn.Conv1d(3, 5, 5)

    def forward(self, x):
        frames = torch.cat([self.frames, x], 2)
        self.frames.copy_(frames[:, :, 2:])
        return F.relu(self.conv(frames))


@case(6, (2, 3), pte=True)
class cell(nn.Module):
    """A recurrent cell whose hidden state does not begin at zero, and a count of runs."""

    def __init__(self):
        super().__init__()
        self.register_buffer("hidden", torch.linspace(-0.5, 0.5, 8).reshape(2, 4))
        self.register_buffer("runs", torch.zeros((), dtype=torch.int64))
        self.from_input, self.from_hidden = nn.Linear(3, 4), nn.Linear(4, 4)

    def forward(self, x):
        self.hidden.copy_(torch.tanh(self.from_input(x) + self.from_hidden(self.hidden)))
        self.runs.add_(1)
        return self.hidden.clone(), self.runs + 0


@case(7, (1, 2, 1, 4), (1, 2, 1, 4), pte=True)
class cache(nn.Module):
    """Attention over a cache of keys and values: each run writes one place of it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 8, 4))
        self.register_buffer("values", torch.zeros(1, 2, 8, 4))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, q, kv):
        self.keys[:, :, self.position] = kv
        self.values[:, :, self.position] = kv * 0.5
        mask = torch.arange(8) <= self.position
        scores = (q @ self.keys.transpose(2, 3)).masked_fill(~mask, -1e9)
        y = torch.softmax(scores, 3) @ self.values
        self.position.add_(1)
        return y


@case(6, (1, 4))
class delays(nn.Module):
    """A line of two delays: each state is the next value of the other, and an output is the state
    before the run."""

    def __init__(self):
        super().__init__()
        self.register_buffer("newer", torch.zeros(1, 4))
        self.register_buffer("older", torch.full((1, 4), 0.25))

    def forward(self, x):
        oldest = self.older.clone()
        y = self.newer - self.older + x
        self.older.copy_(self.newer)
        self.newer.copy_(x)
        return y, oldest


@case(5, (1, 1, 6))
class parts(nn.Module):
    """Parts of a state are written, through slices."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(1, 3, 6))

    def forward(self, x):
        self.table[:, 1:] = self.table[:, :2].clone()
        self.table[:, 0:1] = x
        return self.table.sum(1)


@case(24, (1, 6))
class views(nn.Module):
    """Parts of states are written through views of every kind, in place, and read again."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.register_buffer("table", torch.zeros(1, 3, 6))
        self.register_buffer("ring", torch.zeros(4, 6))
        self.register_buffer("square", torch.zeros(6, 6))
        self.register_buffer("turned", torch.zeros(6, 5))

    def forward(self, x):
        h = self.layer(x)
        self.table[:, 1:] = self.table[:, :2].clone()
        self.table[:, 0] = h
        self.ring[0::2].mul_(0.5)
        before = self.ring[:2] * 2
        self.ring[2:].add_(h)
        self.ring[-3].copy_(h[0])
        torch.diagonal(self.square).mul_(0.5).add_(h[0])
        self.turned.t()[1:3].copy_(h.expand(2, 6))
        self.turned.view(-1)[3:5].relu_()
        rings = before.sum(0, keepdim=True) + self.ring.sum(0, keepdim=True)
        parts = [self.table.sum(1), rings, self.square.sum(1)[None], self.turned.sum(1)[None]]
        return torch.cat(parts, 1)


class Streaming(nn.Module):
    """A convolution over time that keeps the frames before its window, or sees a whole clip."""

    def __init__(self, channels, out, kernel, dilation=1, groups=1):
        super().__init__()
        self.conv = nn.Conv1d(channels, out, kernel, dilation=dilation, groups=groups)
        self.kept = (kernel - 1) * dilation
        self.register_buffer("frames", torch.zeros(1, channels, self.kept))

    def forward(self, x):
        frames = torch.cat([self.frames, x], 2)
        self.frames.copy_(frames[:, :, x.shape[2] :])
        return self.conv(frames)

    def whole(self, clip):
        return self.conv(F.pad(clip, (self.kept, 0)))


@case(49, (1, 10, 1), pte=False)
class keywords(nn.Module):
    """A small keyword spotter: 10 features of 20 ms a run, as depthwise-separable convolutions over
    time and a decaying mean of what they find."""

    def __init__(self):
        super().__init__()
        self.first = Streaming(10, 16, 5)
        self.depthwise = nn.ModuleList([Streaming(16, 16, 5, 2, 16), Streaming(16, 16, 3, 4, 16)])
        self.pointwise = nn.ModuleList([nn.Conv1d(16, 16, 1), nn.Conv1d(16, 16, 1)])
        self.head = nn.Conv1d(16, 4, 1)

    def forward(self, x):
        x = F.relu(self.first(x))
        for depthwise, pointwise in zip(self.depthwise, self.pointwise):
            x = F.relu(pointwise(depthwise(x)))
        return self.head(x)

    def whole(self, clip):
        x = F.relu(self.first.whole(clip))
        for depthwise, pointwise in zip(self.depthwise, self.pointwise):
            x = F.relu(pointwise(depthwise.whole(x)))
        return self.head(x)


@torch.no_grad()
def make(name):
    cls, steps, shapes, pte = CASES[name]
    torch.manual_seed(sum(map(ord, name)))
    module = cls().eval()
    inputs = [torch.rand(steps, *shape) * 2 - 1 for shape in shapes]
    example = tuple(each[0] for each in inputs)
    program = torch.export.export(copy.deepcopy(module), example)
    torch.export.save(program, HERE / f"{name}.pt2")
    torch.export.save(program.run_decompositions(), HERE / f"{name}_core.pt2")
    arrays = {f"input_{i}": each.numpy() for i, each in enumerate(inputs)}
    if hasattr(module, "whole"):  # of [1, channels, steps]
        clip = module.whole(inputs[0][:, 0, :, 0].T.unsqueeze(0))
        arrays["whole"] = clip.permute(2, 0, 1).unsqueeze(3).numpy().copy()
    outputs = []
    for step in range(steps):
        y = module(*(each[step] for each in inputs))
        outputs.append([t.clone() for t in (y if isinstance(y, tuple) else (y,))])
    for i, each in enumerate(zip(*outputs)):
        arrays[f"output_{i}"] = torch.stack(each).numpy()
    np.savez_compressed(HERE / f"{name}.npz", **arrays)
    if "whole" in arrays:
        print(
            name, "step by step against whole", np.abs(arrays["whole"] - arrays["output_0"]).max()
        )
    if pte:
        make_pte(name, program)


def make_pte(name, program):
    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    buffers = list(program.graph_signature.buffers)
    config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(buffers)])
    (HERE / f"{name}.pte").write_bytes(to_edge(program).to_executorch(config).buffer)


if __name__ == "__main__":
    for each in sys.argv[1:] or CASES:
        make(each)
