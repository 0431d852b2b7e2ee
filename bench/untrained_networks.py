#!/usr/bin/env python3
"""Compares Deuteron's int8 with PT2E's on networks that were not trained.

    bench/untrained_networks.py [--deuteron build/release/deuteron] NAME[:SIZE] …

Prints the two figures of docs/quantization.md for each network of timm: with random weights (seed
0), batch norm statistics of three batches, calibrated on 16 images of noise and judged on 8 others
against PyTorch's float outputs. pt2e: ExecuTorch's XNNPACKQuantizer, per channel, judged in PyTorch: its
operators other than convolutions, linear layers and sums stay float. Decibels of all outputs.
Needs torch, timm and executorch.
"""
import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import timm
import torch
from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnnpack
from torch.nn import functional as F
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

ROOT = Path(__file__).resolve().parent.parent


def images(count, size, seed):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(count, 3, size // 8, size // 8, generator=generator)
    fine = torch.randn(count, 3, size, size, generator=generator)
    return F.interpolate(coarse, size=(size, size), mode="bilinear") + 0.3 * fine


def network(name, size):
    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False, num_classes=100).train()
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = None
            module.reset_running_stats()
        if isinstance(module, torch.nn.Dropout):
            module.p = 0
    for seed in range(10, 13):
        model(images(16, size, seed))
    return model.eval()


def decibels(wanted, got):
    error = ((wanted.astype(np.float64) - got) ** 2).sum()
    return 10 * np.log10((wanted.astype(np.float64) ** 2).sum() / error)


def of_pt2e(exported, calibration, test):
    config = xnnpack.get_symmetric_quantization_config(is_per_channel=True)
    model = prepare_pt2e(exported.module(), xnnpack.XNNPACKQuantizer().set_global(config))
    for image in calibration:
        model(image[None])
    model = convert_pt2e(model)
    return np.concatenate([model(image[None]).numpy() for image in test])


def of_deuteron(deuteron, exported, calibration, test, folder):
    torch.export.save(exported, folder / "model.pt2")
    for name, data in (("calibration", calibration), ("test", test)):
        np.savez(folder / f"{name}.npz", input=data.numpy())
    program = folder / "model.pte"
    compiling = [deuteron, "compile", folder / "model.pt2", "-o", program]
    compiling += ["--calibrate", folder / "calibration.npz", "--min-sqnr", "-99"]
    subprocess.run(compiling, check=True, capture_output=True)
    running = [deuteron, "run", program, "--input", folder / "test.npz"]
    subprocess.run([*running, "--output", folder / "out.npz"], check=True, capture_output=True)
    return np.load(folder / "out.npz")["output_0"].reshape(len(test), -1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--deuteron", default=ROOT / "build/release/deuteron")
    parser.add_argument("networks", nargs="+")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    for each in options.networks:
        name, _, size = each.partition(":")
        size = int(size or 96)
        calibration, test = images(16, size, 1), images(8, size, 2)
        model = network(name, size)
        wanted = np.concatenate([model(image[None]).numpy() for image in test])
        exported = torch.export.export(model, (calibration[:1],))
        with tempfile.TemporaryDirectory() as folder:
            ours = of_deuteron(options.deuteron, exported, calibration, test, Path(folder))
        theirs = of_pt2e(exported, calibration, test)
        row = (decibels(wanted, ours), decibels(wanted, theirs))
        print(f"| {name} | {size} | {row[0]:.1f} | {row[1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
