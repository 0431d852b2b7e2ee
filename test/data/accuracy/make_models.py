"""Makes small models that are hard to quantize, from models that are not: NAME.pt2, and NAME.npz
with `input` to calibrate on, `test`, and `float_output`, what PyTorch computes for each of `test`;
classifiers of digits have `label` of `test`.

    python make_models.py [NAME …]

Channels are rescaled without changing what a model computes, so that its float accuracy is that of
the model before.
"""
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from common import CALIBRATION, HERE, TEST, digits, factors, outliers_of_norm, rescale, train
from sequences_and_maps import MODELS as MORE

sys.path.insert(0, str(HERE.parent / "pt2"))
from make_pt2_cases import portable  # noqa: E402


class Depthwise(nn.Module):
    """A chain of depthwise and pointwise convolutions, as MobileNet's."""

    def __init__(self):
        super().__init__()
        widths = [16, 24, 32]
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.depthwise = nn.ModuleList(
            nn.Conv2d(w, w, 3, padding=1, groups=w, stride=1 + (w > 16)) for w in widths
        )
        self.pointwise = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in zip(widths, [24, 32, 32]))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for d, p in zip(self.depthwise, self.pointwise):
            x = F.relu(p(F.relu(d(x))))
        return self.head(x.mean((2, 3)))


def depthwise():
    (x, y), rest, labels = digits()
    model = train(Depthwise(), x, y)
    chain = [model.stem]
    for d, p in zip(model.depthwise, model.pointwise):
        chain += [d, p]
    for first, second in zip(chain, chain[1:]):
        rescale(first, second, factors(first.out_channels, 3))
    return model, rest, labels


class Relu6(nn.Module):
    """A chain of depthwise and pointwise convolutions with batch norms and ReLU6, as MobileNetV2's."""

    def __init__(self, width=16):
        super().__init__()
        depthwise = lambda: nn.Conv2d(width, width, 3, padding=1, groups=width)  # noqa: E731
        layers = [nn.Conv2d(1, width, 3, padding=1)]
        for _ in range(3):
            layers += [depthwise(), nn.Conv2d(width, width, 1)]
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in layers)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms):
            x = F.relu6(norm(layer(x)))
        return self.head(x.mean((2, 3)))


def relu6():
    """Channels that never reach 6 become up to 300 times smaller."""
    (x, y), rest, labels = digits()
    model = train(Relu6().train(), x, y)
    with torch.no_grad():
        largest = []
        hooks = [
            norm.register_forward_hook(lambda *given: largest.append(given[2].amax((0, 2, 3))))
            for norm in model.norms
        ]
        model(torch.cat([x, rest]))
        for hook in hooks:
            hook.remove()
        for norm, reader, most in zip(model.norms, model.layers[1:], largest):
            by = 10 ** (2.5 * torch.rand(len(most)))
            by[most > 6] = 1
            norm.weight /= by
            norm.bias /= by
            reader.weight *= by.view((-1, 1, 1, 1) if reader.groups > 1 else (1, -1, 1, 1))
    return model, rest, labels


class SqueezeExcite(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(width, 8, 1), nn.Conv2d(8, width, 1)

    def forward(self, x):
        gate = self.expand(F.relu(self.reduce(x.mean((2, 3), keepdim=True))))
        return x * F.hardsigmoid(gate)


class MobileNetV3(nn.Module):
    """Inverted residuals with batch norms, squeeze-and-excite and hard-swish."""

    def __init__(self):
        super().__init__()
        norms = lambda width: nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))  # noqa: E731
        self.stem = nn.Conv2d(1, 16, 3, stride=2, padding=1)
        self.expand = nn.ModuleList(nn.Conv2d(16, 32, 1) for _ in range(2))
        self.spatial = nn.ModuleList(nn.Conv2d(32, 32, 3, padding=1, groups=32) for _ in range(2))
        self.excite = nn.ModuleList(SqueezeExcite(32) for _ in range(2))
        self.project = nn.ModuleList(nn.Conv2d(32, 16, 1) for _ in range(2))
        self.norms = nn.ModuleList([norms(32), norms(32), norms(16)])
        self.last, self.head = nn.Conv2d(16, 32, 1), nn.Linear(32, 10)

    def forward(self, x):
        x = F.hardswish(self.stem(x))
        blocks = zip(self.expand, self.spatial, self.excite, self.project, *self.norms)
        for e, s, q, p, after_e, after_s, after_p in blocks:
            y = F.relu(after_s(s(F.relu(after_e(e(x))))))
            x = x + after_p(p(q(y)))
        return self.head(F.hardswish(self.last(x)).mean((2, 3)))


def mobilenet_v3():
    (x, y), rest, labels = digits()
    model = train(MobileNetV3().train(), x, y)
    with torch.no_grad():
        for norm, spatial in zip(model.norms[0], model.spatial):
            by = factors(32, 3)
            norm.weight /= by
            norm.bias /= by
            spatial.weight *= by.view(-1, 1, 1, 1)
    return model, rest, labels


class Transformer(nn.Module):
    """A block of a vision transformer over rows of an image."""

    def __init__(self, width=24, heads=2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Linear(16, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.embed(x[:, 0])
        y = self.norms[0](x)
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # noqa: E731
        q, k, v = (split(f(y)) for f in (self.query, self.key, self.value))
        y = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        x = x + self.down(F.relu(self.up(self.norms[1](x))))
        return self.head(x.mean(1))


def transformer():
    (x, y), rest, labels = digits()
    model = train(Transformer(), x, y)
    outliers_of_norm(model.norms[0], (model.query, model.key, model.value), (3, 11, 17), 60)
    outliers_of_norm(model.norms[1], (model.up,), (3, 11, 17), 60)
    return model, rest, labels


class Regression(nn.Module):
    """Two branches, whose features differ by three decades, joined and read together."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(12, 16), nn.Linear(12, 16)
        self.hidden, self.out = nn.Linear(32, 24), nn.Linear(24, 2)

    def forward(self, x):
        joined = torch.cat([F.relu(self.left(x)), F.relu(self.right(x))], -1)
        return self.out(F.relu(self.hidden(joined)))


def regression():
    model = Regression()
    with torch.no_grad():
        model.right.weight *= 1e-3
        model.right.bias *= 1e-3
        model.hidden.weight[:, 16:] *= 1e3
    return model, torch.randn(CALIBRATION + TEST, 12), None


class Autoencoder(nn.Module):
    """Linear layers whose latent channels span four decades."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in ((32, 24), (24, 8), (8, 24)))
        self.out = nn.Linear(24, 32)

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.out(x)


def autoencoder():
    model = Autoencoder()
    chain = [*model.layers, model.out]
    for first, second in zip(chain, chain[1:]):
        rescale(first, second, factors(first.out_features, 4))
    return model, torch.randn(CALIBRATION + TEST, 32), None


class Cat(nn.Module):
    """Joins a map, fifty times the map and a hundredth of it; a convolution reads all alike."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.read = nn.Conv2d(24, 6, 3, padding=1)

    def forward(self, x):
        x = F.relu(self.stem(x))
        return self.read(torch.cat([x, 50 * x, 0.01 * x], 1))


def cat():
    model = Cat()
    with torch.no_grad():
        model.read.weight[:, 8:16] /= 50
        model.read.weight[:, 16:] *= 100
    return model, torch.randn(CALIBRATION + TEST, 3, 8, 8), None


class Gru(nn.Module):
    """A gated recurrent unit over rows of an image."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(16, 24), nn.Linear(24, 10)

    def forward(self, x):
        state = torch.zeros(x.shape[0], 24)
        for row in range(8):
            gates_x = F.linear(x[:, 0, 2 * row], self.cell.weight_ih, self.cell.bias_ih)
            gates_h = F.linear(state, self.cell.weight_hh, self.cell.bias_hh)
            (rx, zx, nx), (rh, zh, nh) = gates_x.chunk(3, -1), gates_h.chunk(3, -1)
            z = torch.sigmoid(zx + zh)
            state = (1 - z) * torch.tanh(nx + torch.sigmoid(rx + rh) * nh) + z * state
        return self.head(state)


def gru():
    (x, y), rest, labels = digits()
    return train(Gru(), x, y), rest, labels


MODELS = [depthwise, relu6, mobilenet_v3, transformer, regression, autoencoder, cat, gru, *MORE]


def write(name, folder, model, samples, labels=None, target=None):
    """The export and the samples of a model; `target`: images that the outputs should be."""
    model.eval()
    path = folder / f"{name}.pt2"
    torch.export.save(torch.export.export(model, (samples[:1],)), str(path))
    portable(path)
    with torch.no_grad():
        output = torch.cat([model(x[None]) for x in samples[CALIBRATION:]])
    arrays = {"input": samples[:CALIBRATION], "test": samples[CALIBRATION:]}
    arrays["float_output"] = output
    if labels is not None:
        arrays["label"] = labels
        right = (output.argmax(-1) == labels).float().mean().item()
        print(f"{name}: accuracy {right:.4f}")
    if target is not None:
        arrays["target"] = target
        psnr = -10 * ((output - target) ** 2).mean((1, 2, 3)).log10().mean().item()
        print(f"{name}: PSNR {psnr:.2f} dB")
    np.savez_compressed(folder / f"{name}.npz", **{k: v.numpy() for k, v in arrays.items()})


def main():
    torch.set_num_threads(1)
    for make in MODELS:
        name = make.__name__
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        torch.manual_seed(0)
        write(name, HERE, *make())


if __name__ == "__main__":
    main()
