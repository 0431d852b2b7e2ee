#!/usr/bin/env python3
"""Proves the causes in exceptions.json.

    prove_exceptions.py SHARED/conformance build/release/deuteron [CASE …]

Needs PyTorch 2.13, ExecuTorch 1.4 and NumPy: `make test-interop` runs it in its environment.

Where an SQNR of few elements is the cause ("few-elements"), both quantized models run on 400
multiples (1/4 to 1) of the calibration samples, whose elements fall anywhere between the codes:
ours is not more than 1 dB below upstream's there. The other causes are asserted one by one.
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401

HERE = Path(__file__).resolve().parent
torch.set_num_threads(1)
deuteron = None  # path of the command


def module(folder, name):
    return torch.export.load(folder / name).module()


def quantized_model(folder):
    return module(folder, "quantized.pt2" if (folder / "quantized.pt2").exists() else "qat.pt2")


def inputs(folder, sample):
    data = np.load(folder / "calibration.npz")
    return [torch.from_numpy(data[f"input_{i}"][sample].copy()) for i in range(len(data.files))]


class Trace(torch.fx.Interpreter):
    """Values by node's name."""

    def run_node(self, node):
        result = super().run_node(node)
        self.seen = getattr(self, "seen", {}) | {node.name: result}
        return result


def ours(folder, model, x=None):
    """Our output 0 on the samples `x`, by default those of the case: compiled as the conformance
    run does, everything on the NPU."""
    with tempfile.TemporaryDirectory() as work:
        program, samples, results = (Path(work) / name for name in ("model.pte", "x.npz", "y.npz"))
        data = np.load(folder / "calibration.npz")
        np.savez(
            samples, **({name: data[name] for name in data.files} if x is None else {"input_0": x})
        )
        ranges = ["--calibrate", folder / "calibration.npz"] if model == "float.pt2" else []
        for command in (
            ["compile", folder / model, *ranges, "--force-on", "all", "-o", program],
            ["run", program, "--input", samples, "--output", results],
        ):
            subprocess.run([deuteron, *command], check=True, stdout=subprocess.DEVNULL)
        return np.load(results)["output_0"]


def twice(folder):
    """The stored outputs are those of the model on its own output: tanh_ overwrote the samples
    before they were used again. On the samples as they are stored ours is within 30 dB of tanh(x),
    and of the quantized model within a step of PyTorch's evaluation.
    """
    stored = np.load(folder / "expected.npz")["float_output_0"]
    samples = [inputs(folder, sample)[0] for sample in range(len(stored))]
    ideal = np.stack([torch.tanh(x).numpy() for x in samples])
    for x, wanted in zip(samples, stored):
        assert np.abs(module(folder, "float.pt2")(x.clone()).detach().numpy() - wanted).max() > 0.1
        assert np.abs(torch.tanh(torch.tanh(x)).numpy() - wanted).max() < 1e-6
    quality = decibels(ideal, ours(folder, "float.pt2").reshape(ideal.shape))
    assert quality >= 30, quality
    model = quantized_model(folder)
    evaluated = np.stack([model(x.clone()).detach().numpy() for x in samples])
    step = [
        node.args[1] for node in model.graph.nodes if "quantize_per_tensor" in str(node.target)
    ][-1]
    steps = np.abs(ours(folder, "quantized.pt2").reshape(evaluated.shape) - evaluated) / step
    assert steps.max() < 1 + 1e-3 and steps.mean() <= 0.002, (steps.max(), steps.mean())
    return (
        f"the stored output is tanh(tanh(x)); ours is tanh(x) at {quality:.1f} dB, and PyTorch's"
        f" quantized model on those samples within {steps.max():.3g} steps"
    )


def zero_by_zero(folder):
    """Elements divide 0 by 0; NaN becomes code 0 when PyTorch casts it to int8, a real 82 steps
    above zero."""
    stored = np.load(folder / "expected.npz")["quantized_output_0"]
    trace = Trace(quantized_model(folder))
    result = trace.run(*inputs(folder, 0))
    assert np.array_equal(result.detach().numpy(), stored[0])
    nan = np.flatnonzero(np.isnan(trace.seen["div"].detach().numpy()))
    assert nan[0] == 3564 and (trace.seen["quantize_per_tensor_3"].flatten()[nan] == 0).all()
    return f"elements {nan} of sample 0 are 0 / 0, and NaN cast to int8 is 0"


def decibels(expected, actual):
    finite = np.isfinite(expected)
    expected, actual = expected[finite].astype(np.float64), actual[finite].astype(np.float64)
    return 10 * np.log10((expected**2).sum() / ((expected - actual) ** 2).sum())


def few_elements(folder):
    data, random = np.load(folder / "calibration.npz"), np.random.default_rng(1)
    multiples = random.uniform(0.25, 1, 400).astype(np.float32)
    x = data["input_0"][random.integers(0, len(data["input_0"]), len(multiples))]
    x = x * multiples.reshape(-1, *[1] * (x.ndim - 1))
    results = ours(folder, "float.pt2", x)
    models = (module(folder, "float.pt2"), quantized_model(folder))
    ideal, upstream = (
        np.stack([model(torch.from_numpy(each.copy())).detach().numpy() for each in x])
        for model in models
    )
    count = np.load(folder / "expected.npz")["float_output_0"].size
    gain = decibels(ideal, results.reshape(ideal.shape)) - decibels(ideal, upstream)
    assert count < 64 and gain >= -1, (folder.name, count, gain)
    return f"{count} elements; on 400 multiples of the samples {gain:+.1f} dB"


def exact_sum(folder):
    """Upstream's sum shares its operand's scale and zero point: codes add up without an error, or
    saturate."""
    model = quantized_model(folder)
    for sample, wanted in enumerate(np.load(folder / "expected.npz")["quantized_output_0"]):
        trace = Trace(model)
        trace.run(*inputs(folder, sample))
        quantizations = {
            node.args[1:3]
            for node in model.graph.nodes
            if "quantize_per_tensor" in str(node.target)
        }
        assert len(quantizations) == 1
        scale, zero = quantizations.pop()
        total = trace.seen["dequantize_per_tensor"].numpy().sum(1, keepdims=True)
        assert (
            np.abs(np.clip(total, (-128 - zero) * scale, (127 - zero) * scale) - wanted).max()
            < 1e-3 * scale
        )
    return "upstream's output is the sum of the quantized input"


def int8_before_division(folder):
    """The largest output divides a small dividend by almost nothing: half a step of operand and
    result each is more of it than 30 dB allow."""
    stored, model = np.load(folder / "expected.npz")["float_output_0"], module(folder, "float.pt2")
    traces = [Trace(model) for _ in stored]
    for sample, trace in enumerate(traces):
        trace.run(*inputs(folder, sample))
    steps = [
        (max(t.seen[name].max() for t in traces) - min(t.seen[name].min() for t in traces)) / 255
        for name in ("x", "prelu")
    ]
    sample, element = divmod(int(np.abs(stored).argmax()), stored[0].size)
    dividend = traces[sample].seen["prelu"].flatten()[element]
    assert dividend > 0  # where the prelu hands on what it reads
    left = 20 * np.log10(float(dividend / (sum(steps) / 2)))
    assert left < 30, left
    return f"two roundings of the dividend {dividend:.4f} leave {left:.1f} dB of the largest output"


PROOFS = {
    "int8-before-division": int8_before_division,
    "few-elements": few_elements,
    "shared-scale": exact_sum,
    "overwritten": twice,
    "zero-by-zero": zero_by_zero,
}


def main():
    global deuteron
    parser = argparse.ArgumentParser()
    parser.add_argument("conformance", type=Path)
    parser.add_argument("deuteron", type=Path)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    deuteron = options.deuteron.resolve()
    for entry in json.loads((HERE / "exceptions.json").read_text())["exceptions"]:
        if options.cases and entry["case"] not in options.cases:
            continue
        found = PROOFS[entry["proof"]](options.conformance / entry["case"])
        print(f"{entry['case']} {entry['check']}: {found}")


if __name__ == "__main__":
    main()
