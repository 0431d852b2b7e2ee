"""Makes stream_trained.pt2, a model with a state after training on short runs that all begin with
an empty state, and stream.npz: a long run of it, and what the model computes without fake
quantization (input_0, output_0 [steps, …]).

    python make_stream.py [DEUTERON]
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent / "pt2"))
from make_pt2_cases import portable  # noqa: E402

deuteron = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/deuteron")


class Stream(nn.Module):
    """A sum over the last 16 steps, of which short runs show a quarter."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(5, 8), nn.Linear(8, 3)
        self.register_buffer("frames", torch.zeros(1, 16, 8))

    def forward(self, x):
        self.frames[:, 1:] = self.frames[:, :-1].clone()
        self.frames[:, 0] = torch.relu(self.layer(x))
        return self.head(self.frames.sum(1))


torch.manual_seed(0)
steps, length = 64, 4
samples = torch.rand(steps, 1, 5)
with tempfile.TemporaryDirectory() as folder:
    model, data, prepared = (Path(folder) / name for name in ("m.pt2", "d.npz", "p.pt2"))
    torch.export.save(torch.export.export(Stream().eval(), (samples[0],)), str(model))
    np.savez(data, x=samples.numpy())
    command = [deuteron, "qat-prepare", model, "--calibrate", data, "-o", prepared]
    subprocess.run(command, check=True)
    model = torch.export.load(str(prepared)).module()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for _ in range(300):
        model.frames = torch.zeros(1, 16, 8)
        loss = sum(model(x).square().mean() for x in torch.rand(length, 1, 5))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.frames = torch.zeros(1, 16, 8)
    exported = torch.export.export(model, (samples[0],))
    torch.export.save(exported, str(HERE / "stream_trained.pt2"))
model = torch.export.load(str(HERE / "stream_trained.pt2")).module()
model.quantization.fake_quant_on.zero_()
model.quantization.weight_quant_on.zero_()
model.quantization.observer_on.zero_()
with torch.no_grad():
    outputs = torch.stack([model(x) for x in samples])
arrays = {"input_0": samples.numpy(), "output_0": outputs.numpy()}
np.savez_compressed(HERE / "stream.npz", **arrays)
portable(HERE / "stream_trained.pt2")
