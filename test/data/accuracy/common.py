"""What the makers of the hard models share: images of digits, training, rescaling of channels."""
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CALIBRATION, TEST = 32, 64


def digits():
    """Images of models/digits_cnn: to train on, to calibrate on, to test on."""
    data = np.load(ROOT / "models/digits_cnn/test.npz")
    x, y = torch.from_numpy(data["input"]), torch.from_numpy(data["label"]).long()
    x = x.reshape(len(y), 1, *x.shape[-2:])
    return (x[: -CALIBRATION - TEST], y[: -CALIBRATION - TEST]), x[-CALIBRATION - TEST :], y[-TEST:]


def train(model, x, y, steps=300, rate=5e-3, loss_of=F.cross_entropy):
    optimizer = torch.optim.Adam(model.parameters(), rate)
    for step in range(steps):
        at = torch.randperm(len(x))[:64]
        loss = loss_of(model(x[at]), y[at])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def factors(count, decades):
    return 10 ** ((torch.rand(count) - 0.5) * decades)


def rescale(first, second, s):
    """Divides the channels between two layers by s; `second` is depthwise or reads all of them."""
    with torch.no_grad():
        shape = (-1,) + (1,) * (first.weight.dim() - 1)
        first.weight /= s.view(shape)
        if first.bias is not None:
            first.bias /= s
        depthwise = second.weight.dim() == 4 and second.weight.shape[1] == 1
        second.weight *= s.view(shape if depthwise else (1, -1) + shape[2:])


def outliers_of_norm(norm, readers, channels, by):
    """Makes channels of a normalization `by` times as large, and the weights that read them as much
    smaller."""
    with torch.no_grad():
        scale = torch.ones(len(norm.weight))
        scale[list(channels)] = by
        norm.weight *= scale
        norm.bias *= scale
        for reader in readers:
            weight = reader.weight
            weight /= scale.view((1, -1) + (1,) * (weight.dim() - 2))
