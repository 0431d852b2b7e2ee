"""Makes operators.pt2, attention, prelu, constants and divisions, and operators.npz: samples, and
what PyTorch computes for them of the model that qat-prepare makes with the ranges of these samples.

    python make_operator_cases.py [DEUTERON]
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "pt2"))
from make_pt2_cases import portable  # noqa: E402


class Operators(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(6, 6) for _ in range(4))
        self.prelu = nn.PReLU(5)
        self.classify = nn.Linear(6, 3)
        self.register_buffer("divisor", torch.rand(5, 1) + 0.5)
        self.register_buffer("row", torch.randn(2, 6))

    def forward(self, x):
        heads = lambda t: t.view(1, 5, 2, 3).transpose(1, 2)  # noqa: E731
        y = F.scaled_dot_product_attention(
            heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        )
        y = self.out(y.transpose(1, 2).reshape(1, 5, 6))
        y = self.prelu(y) / self.divisor
        y = 1.0 - torch.sigmoid(y) * 2.5 / 3.0
        return self.classify(torch.cat([y, self.row[None]], 1))


def main():
    deuteron = sys.argv[1] if len(sys.argv) > 1 else str(HERE.parents[2] / "build/release/deuteron")
    torch.manual_seed(0)
    samples = torch.randn(16, 1, 5, 6)
    torch.export.save(
        torch.export.export(Operators().eval(), (samples[0],)), str(HERE / "operators.pt2")
    )
    np.savez_compressed(HERE / "operators.npz", input=samples.numpy())
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.pt2"
        subprocess.run(
            [
                deuteron,
                "qat-prepare",
                HERE / "operators.pt2",
                "--calibrate",
                HERE / "operators.npz",
                "-o",
                prepared,
            ],
            check=True,
        )
        model = torch.export.load(str(prepared)).module()
    model.quantization.observer_on.zero_()
    with torch.no_grad():
        outputs = torch.stack([model(sample) for sample in samples])
    np.savez_compressed(HERE / "operators.npz", input=samples.numpy(), output=outputs.numpy())
    portable(HERE / "operators.pt2")


if __name__ == "__main__":
    main()
