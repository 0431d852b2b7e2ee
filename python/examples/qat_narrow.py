"""Quantization-aware training where quantization after training loses accuracy: a deep and narrow
network of depthwise and pointwise convolutions, from its training in float to the program.

    python python/examples/qat_narrow.py [--deuteron build/release/deuteron] [--output FOLDER]

Needs torch 2.13 and scikit-learn, which has the images. Prints accuracy on 540 images and cycles of
the float network, of the default, of `--accuracy auto` and of the trained network, and seconds of
processor time. The figures in docs/quantization.md are those of the exports in test/data/qat, which
test/e2e/qat_gain.py measures again (test/data/qat/make_narrow.py makes them).
"""
import argparse
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from qat_digits_cnn import MODEL, ROOT, digits

BATCH = 32
CALIBRATION, TEST = MODEL / "calibration.npz", MODEL / "test.npz"


class Narrow(nn.Module):
    """No factor passes through hardswish, so that equalization cannot help."""

    def __init__(self, width=6, depth=14):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False))
            self.layers.append(nn.Conv2d(width, width, 1, bias=False))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2 * depth + 1))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for layer, norm in zip([self.stem, *self.layers], self.norms):
            x = F.hardswish(norm(layer(x)))
        return self.head(x.mean((2, 3)))


def seconds():
    return sum(os.times()[:4])


def run(*command):
    return subprocess.run(
        [str(word) for word in command], check=True, capture_output=True, text=True
    ).stdout


def train_float(x, y, steps=200, batch=64, rate=0.02):
    model = Narrow().train()
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    for _ in range(steps):
        pick = torch.randperm(len(x))[:batch]
        optimizer.zero_grad()
        F.cross_entropy(model(x[pick]), y[pick]).backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def prepare(deuteron, model, example, path, *options):
    """The export, which takes batches as large as the example, with fake quantization."""
    prepared = path.with_suffix(".prepared.pt2")
    torch.export.save(torch.export.export(model, (example,)), str(path))
    run(deuteron, "qat-prepare", path, "-o", prepared, *options)
    return torch.export.load(str(prepared)).module()


def train_quantized(model, teacher, x, y, epochs=4, rate=1e-3):
    """The labels and the float network's outputs; ranges stay as they were calibrated."""
    model.quantization.observer_on.zero_()
    with torch.no_grad():
        wanted = teacher(x)
    whole = len(x) // BATCH
    optimizer = torch.optim.Adam(model.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * whole)
    for _ in range(epochs):
        for pick in torch.randperm(len(x))[: whole * BATCH].split(BATCH):
            optimizer.zero_grad()
            made = model(x[pick])
            loss = F.cross_entropy(made, y[pick]) + F.mse_loss(made, wanted[pick])
            loss.backward()
            optimizer.step()
            schedule.step()


def measure(deuteron, model, folder, *options):
    """Accuracy and cycles of the program that `compile` makes."""
    program, report = folder / "narrow.pte", folder / "narrow.json"
    run(
        deuteron, "compile", model, "-o", program, "--report-json", report, "--min-sqnr", -99,
        *options,
    )  # fmt: skip
    text = run(deuteron, "eval", program, "--data", TEST)
    accuracy = re.search(r"accuracy of the (?:int8 )?program +([\d.]+)", text)
    return float(accuracy[1]), json.loads(report.read_text())["total_cycles"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deuteron", default=str(ROOT / "build/release/deuteron"))
    parser.add_argument("--output", type=Path, help="folder for the two exports")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, y = digits()
    test = np.load(TEST)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.output or Path(temporary)
        folder.mkdir(exist_ok=True)
        start = seconds()
        network = train_float(x, y)
        with torch.no_grad():
            found = network(torch.from_numpy(test["input"])).argmax(1).numpy()
        right = (found == test["label"]).mean()
        print(f"float    {right:.4f} {seconds() - start:.0f} s", flush=True)

        start = seconds()
        export, trained = folder / "narrow.pt2", folder / "narrow_trained.pt2"
        data = ("--calibrate", CALIBRATION)
        # One takes the batches of the training, the other the single images of the program.
        single = prepare(arguments.deuteron, network, x[:1], export, *data)
        batched = prepare(arguments.deuteron, network, x[:BATCH], folder / "batched.pt2")
        batched.load_state_dict(single.state_dict())
        train_quantized(batched, network, x, y)
        single.load_state_dict(batched.state_dict())
        torch.export.save(torch.export.export(single, (x[:1],)), str(trained))
        taken = seconds() - start

        for name, model, options in (
            ("default", export, data),
            ("auto", export, (*data, "--accuracy", "auto", "--seconds", 600)),
            ("trained", trained, ()),
        ):
            start = seconds()
            right, cycles = measure(arguments.deuteron, model, folder, *options)
            spent = seconds() - start + (taken if name == "trained" else 0)
            print(f"{name:8} {right:.4f} {cycles:,} cycles, {spent:.1f} s", flush=True)


if __name__ == "__main__":
    main()
