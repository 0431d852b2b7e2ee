"""Makes small networks that compute features of sound inside of the model, as many do: the power
spectrum of frames, its mel bands, and their logarithm or their compression by PCEN. Their values
span six decades, which int8 does not carry to a logarithm. NAME.pt2 and NAME.npz of front_ends, as
make_models.py writes them.

    python make_front_ends.py [NAME …]
"""
import math
import sys

import torch
from torch import nn
from torch.nn import functional as F

from common import CALIBRATION, HERE, TEST, train
from make_models import write

SAMPLES, FRAME, HOP, BANDS = 768, 128, 64, 12


def sounds(count):
    """Chirps of four kinds over noise: -16 to 0 dB, and -70 to -50."""
    t = torch.arange(SAMPLES) / 8000
    kind = torch.arange(count) % 4
    low, high = 300 + 500 * (kind % 2), 700 + 900 * (kind // 2)
    at = low[:, None] + torch.rand(count, 1) * 100 + (high - low)[:, None] * t * 4
    level = 10 ** (-0.8 * torch.rand(count, 1))
    envelope = torch.exp(-(((t - 0.03 - 0.07 * torch.rand(count, 1)) / 0.02) ** 2))
    noise = torch.randn(count, SAMPLES) * 10 ** (-2.5 - torch.rand(count, 1))
    x = (level * envelope * torch.sin(2 * math.pi * at * t) + noise).clamp(-1, 1)
    return (x * 2**15).round() / 2**15, kind


class FrontEnd(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(FRAME))
        center = torch.linspace(2, FRAME // 2 - 4, BANDS)
        at = torch.arange(FRAME // 2 + 1)[:, None]
        self.register_buffer("bands", F.relu(1 - (at - center).abs() / 6))
        self.convolution = nn.Conv1d(BANDS, 16, 3, padding=1)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        frames = x.unfold(1, FRAME, HOP) * self.window
        spectrum = torch.fft.rfft(frames)
        power = spectrum.real**2 + spectrum.imag**2
        features = self.compress(power @ self.bands).transpose(1, 2)
        return self.head(F.relu(self.convolution(features)).mean(-1))


class LogMel(FrontEnd):
    def compress(self, bands):
        return torch.log(bands + 1e-6)


class Pcen(FrontEnd):
    """Per-channel energy normalization (Wang et al. 2017): smoothed energies divide."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.full((BANDS,), 0.98))

    def compress(self, bands):
        smooth = [bands[:, 0]]
        for step in range(1, bands.shape[1]):
            smooth.append(0.9 * smooth[-1] + 0.1 * bands[:, step])
        return ((bands / (1e-6 + torch.stack(smooth, 1)) ** self.gain) + 2) ** 0.5 - 2**0.5


MODELS = {"log_mel": LogMel, "pcen": Pcen}


def main():
    torch.set_num_threads(1)
    for name, model in MODELS.items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        torch.manual_seed(0)
        x, kind = sounds(512 + CALIBRATION + TEST)
        trained = train(model(), x[:512], kind[:512])
        write(name, HERE / "front_ends", trained, x[512:], kind[512 + CALIBRATION :])


if __name__ == "__main__":
    main()
