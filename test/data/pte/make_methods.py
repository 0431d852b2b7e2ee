"""Makes methods.pte with ExecuTorch: two methods that share weights, and a constant. The outputs beside it are PyTorch's."""
from pathlib import Path

import numpy as np
import torch
from executorch.exir import to_edge

FOLDER = Path(__file__).parent


class Prefill(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(5, 3)

    def forward(self, x):
        return torch.relu(self.layer(x))


class Decode(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, y):
        return self.layer(x) * y


torch.manual_seed(3)
prefill = Prefill().eval()
models = {"prefill": prefill, "decode": Decode(prefill.layer).eval()}
inputs = {
    "prefill": (torch.randn(7, 5),),
    "decode": (torch.randn(1, 5), torch.randn(1, 3)),
}
exports = {name: torch.export.export(model, inputs[name]) for name, model in models.items()}
edge = to_edge(exports, constant_methods={"get_max_seq_len": 128})
(FOLDER / "methods.pte").write_bytes(edge.to_executorch().buffer)
for name, model in models.items():
    arrays = {f"input_{i}": value[None].numpy() for i, value in enumerate(inputs[name])}
    np.savez(FOLDER / f"{name}.npz", **arrays)
    output = model(*inputs[name])[None].detach().numpy()
    np.savez(FOLDER / f"{name}_outputs.npz", output_0=output)
