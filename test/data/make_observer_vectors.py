"""Makes observer_vectors.npz: what PyTorch's observers say about some distributions of activations.

    python make_observer_vectors.py        (torch 2.13, torchao as ExecuTorch 1.4 brings it, numpy)

For each distribution NAME: `NAME` [batches, elements], seen batch by batch, and `NAME_min_max`,
`NAME_histogram`, `NAME_symmetric`:
[scale, zero_point] of MinMaxObserver and HistogramObserver (int8, per tensor affine, −128…127, eps
2^-12) and of a symmetric MinMaxObserver (−127…127, default eps). `weights` [channels, elements] and
`weights_scales`: PerChannelMinMaxObserver, symmetric.
"""
from pathlib import Path

import numpy as np
import torch
from torchao.quantization.pt2e import HistogramObserver, MinMaxObserver, PerChannelMinMaxObserver

torch.manual_seed(3)
torch.set_num_threads(1)
normal = torch.randn(2, 700)
distributions = {
    "normal": normal,
    "relu": normal.relu(),
    "relu6": (normal * 5).clamp(0, 6),
    "outliers": torch.where(torch.rand(2, 700) < 0.004, 30 * normal, normal),
    "shifted": normal * 0.1 + 3,
    "growing": normal * torch.tensor([[0.01], [8.0]]),
    "negative": -normal.abs() - 0.5,
    "tiny": normal * 1e-4,
    "zeros": torch.zeros(2, 4),
    "one_value": torch.full((2, 4), 0.75),
}
arrays = {}


def parameters(observer, batches):
    for batch in batches:
        observer(batch)
    scale, zero_point = observer.calculate_qparams()
    return np.array([scale.item(), zero_point.item()], np.float64)


for name, batches in distributions.items():
    affine = dict(
        dtype=torch.int8,
        qscheme=torch.per_tensor_affine,
        quant_min=-128,
        quant_max=127,
        eps=2**-12,
    )
    arrays[name] = batches.numpy()
    arrays[f"{name}_min_max"] = parameters(MinMaxObserver(**affine), batches)
    arrays[f"{name}_histogram"] = parameters(HistogramObserver(**affine), batches)
    arrays[f"{name}_symmetric"] = parameters(
        MinMaxObserver(
            dtype=torch.int8, qscheme=torch.per_tensor_symmetric, quant_min=-127, quant_max=127
        ),
        batches,
    )
weights = torch.randn(5, 3, 3) * torch.tensor([1, 0.1, 1e-3, 1e-9, 0]).reshape(5, 1, 1)
observer = PerChannelMinMaxObserver(
    ch_axis=0, dtype=torch.int8, qscheme=torch.per_channel_symmetric, quant_min=-127, quant_max=127
)
observer(weights)
arrays["weights"] = weights.numpy()
arrays["weights_scales"] = observer.calculate_qparams()[0].numpy().astype(np.float64)
np.savez_compressed(Path(__file__).with_suffix("").parent / "observer_vectors.npz", **arrays)
