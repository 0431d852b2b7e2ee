#!/usr/bin/env python3
"""Measures what other tools and training with quantization make of the hard models of
test/data/accuracy, and writes bench/hard_models.json, from which bench/quantization.py takes the
columns of its table.

    bench/hard_models.py [--deuteron build/release/deuteron] [--epochs 4] [NAME …]

pt2e: ExecuTorch's NeutronQuantizer through torchao's PT2E, judged in PyTorch. edge: AI Edge
Quantizer, static int8 over LiteRT Torch's conversion, judged in LiteRT. qat: `qat-prepare`,
training towards the float model's outputs, `compile`, judged in the simulator. All see the
same calibration samples and are judged on the same 64 others. Needs torch, torchao, executorch,
litert-torch, ai-edge-quantizer; what is not installed is left as it was recorded. Decibels of the
worst output against PyTorch's float outputs, share of right classes, seconds on one thread.
"""
import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
import types
import warnings
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "test/data/accuracy"
RESULTS = Path(__file__).with_suffix(".json")
sys.path[:0] = [str(DATA), str(ROOT / "test/e2e")]
import accuracy  # noqa: E402
from common import digits  # noqa: E402

# Training inputs of models that do not read images of digits.
DRAWN = {"autoencoder": (32,), "cat": (3, 8, 8), "regression": (12,)}


def judged(data, outputs):
    """Decibels, and accuracy where there are labels."""
    wanted = data["float_output"].reshape(len(outputs), -1).astype(np.float64)
    error = np.square(outputs.reshape(len(outputs), -1) - wanted).sum()
    figures = {"db": round(float(10 * np.log10(np.square(wanted).sum() / max(error, 1e-30))), 1)}
    if "label" in data:
        right = outputs.reshape(len(outputs), -1).argmax(-1) == data["label"]
        figures["accuracy"] = round(float(right.mean()), 4)
    return figures


def export_of(name, folder, data):
    """The committed export, with the sample inputs that it was committed without and PyTorch
    wants."""
    path = Path(folder) / f"{name}_export.pt2"
    inputs = io.BytesIO()
    torch.save(((torch.from_numpy(data["input"][:1]),), {}), inputs)
    with zipfile.ZipFile(DATA / f"{name}.pt2") as old, zipfile.ZipFile(path, "w") as new:
        for member in old.infolist():
            new.writestr(member, old.read(member))
        top = old.namelist()[0].split("/")[0]
        new.writestr(f"{top}/data/sample_inputs/model.pt", inputs.getvalue())
    return path


def load(name):
    data = np.load(DATA / f"{name}.npz")
    with tempfile.TemporaryDirectory() as folder:
        return torch.export.load(str(export_of(name, folder, data))).module(), data


def name_target():
    """What ExecuTorch's quantizer reads of NXP's closed package."""
    sdk = types.ModuleType("eiq_neutron_sdk")
    target = types.SimpleNamespace(
        name="imxrt700", subsystem=False, numUnits=1, numPipes=8, numMacs=8, hwVersion=2
    )
    sdk.neutron_converter = types.SimpleNamespace(getNeutronTarget=lambda name: target)
    sdk.neutron_library_utils = types.SimpleNamespace(
        isNeutronTarget=lambda name: name == target.name, getNeutronTargets=lambda: [target]
    )
    sys.modules.setdefault("eiq_neutron_sdk", sdk)


def pt2e(name):
    name_target()
    from executorch.backends.nxp.backend.neutron_target_spec import NeutronTargetSpec
    from executorch.backends.nxp.quantizer.neutron_quantizer import NeutronQuantizer
    from executorch.backends.nxp.quantizer.utils import calibrate_and_quantize

    model, data = load(name)
    samples = [(torch.from_numpy(x[None]),) for x in data["input"]]
    start = time.monotonic()
    exported = torch.export.export(model, samples[0], strict=True)
    quantizer = NeutronQuantizer(NeutronTargetSpec("imxrt700"))
    quantized = calibrate_and_quantize(exported, samples, quantizer)
    seconds = time.monotonic() - start
    with torch.no_grad():
        outputs = [quantized(torch.from_numpy(x[None])).numpy() for x in data["test"]]
    return {**judged(data, np.concatenate(outputs)), "s": round(seconds, 1)}


def run_int8(interpreter, samples):
    """Real outputs of a model of one input and one output, which may be int8."""
    interpreter.allocate_tensors()
    given, made = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    outputs = []
    for x in samples:
        if given["dtype"] == np.int8:
            scale, zero_point = given["quantization"]
            x = np.clip(np.round(x / scale) + zero_point, -128, 127).astype(np.int8)
        interpreter.set_tensor(given["index"], x[None])
        interpreter.invoke()
        y = interpreter.get_tensor(made["index"])
        if made["dtype"] == np.int8:
            scale, zero_point = made["quantization"]
            y = (y.astype(np.float32) - zero_point) * scale
        outputs.append(y)
    return np.concatenate(outputs)


def edge(name):
    import litert_torch
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_quantizer import quantizer, recipe

    model, data = load(name)
    model_inputs = (torch.from_numpy(data["input"][:1]),)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "float.tflite")
        exported = torch.export.export(model, model_inputs)
        litert_torch.convert(exported.module(), model_inputs).export(path)
        reader = Interpreter(path)
        (signature, places), *_ = reader.get_signature_list().items()
        key = places["inputs"][0]
        start = time.monotonic()
        tool = quantizer.Quantizer(path)
        tool.load_quantization_recipe(recipe.static_wi8_ai8())
        ranges = tool.calibrate({signature: [{key: x[None]} for x in data["input"]]})
        made = tool.quantize(ranges).quantized_model
        seconds = time.monotonic() - start
        outputs = run_int8(Interpreter(model_content=bytes(made), num_threads=1), data["test"])
    return {**judged(data, outputs), "s": round(seconds, 1)}


def training_inputs(name, data):
    if name in DRAWN:
        return torch.randn(444, *DRAWN[name])
    x = digits()[0][0]
    return F.avg_pool2d(x, 2) if data["input"].shape[-1] == 8 else x


def train(model, teacher, x, epochs, batch=32, rate=3e-4):
    """Towards the float model's outputs; an export takes one sample at a time, so that gradients
    are summed over a batch."""
    with torch.no_grad():
        wanted = torch.cat([teacher(each[None]) for each in x])
    scale = wanted.square().mean()
    optimizer = torch.optim.Adam(model.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * -(-len(x) // batch))
    for _ in range(epochs):
        for pick in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            for i in pick:
                loss = F.mse_loss(model(x[i][None]), wanted[i][None]) / scale / len(pick)
                loss.backward()
            optimizer.step()
            schedule.step()


def qat(name, deuteron, epochs):
    teacher, data = load(name)
    with tempfile.TemporaryDirectory() as folder:
        prepared, trained = f"{folder}/prepared.pt2", f"{folder}/{name}.pt2"
        start = time.monotonic()
        subprocess.run(
            [deuteron, "qat-prepare", export_of(name, folder, data), "-o", prepared]
            + ["--calibrate", DATA / f"{name}.npz"],
            check=True,
            capture_output=True,
        )
        model = torch.export.load(prepared).module()
        model.quantization.observer_on.zero_()
        torch.manual_seed(0)
        train(model, teacher, training_inputs(name, data), epochs)
        example = (torch.from_numpy(data["test"][:1]),)
        torch.export.save(torch.export.export(model, example), trained)
        seconds = time.monotonic() - start
        program, report = f"{folder}/{name}.pte", f"{folder}/{name}.json"
        subprocess.run(
            [deuteron, "compile", trained, "--min-sqnr", "-99", "-o", program]
            + ["--report-json", report],
            check=True,
            capture_output=True,
        )
        outputs = f"{folder}/outputs.npz"
        np.savez(f"{folder}/test.npz", input=data["test"])
        subprocess.run(
            [deuteron, "run", program, "--input", f"{folder}/test.npz", "--output", outputs],
            check=True,
            capture_output=True,
        )
        made = np.load(outputs)
        figures = judged(data, made[made.files[0]])
        cycles = json.loads(Path(report).read_text())["total_cycles"]
    return {**figures, "s": round(seconds, 1), "cycles": cycles}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deuteron", default=str(ROOT / "build/release/deuteron"))
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--only", choices=("pt2e", "edge", "qat"), action="append")
    parser.add_argument("name", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    ways = {
        "pt2e": pt2e,
        "edge": edge,
        "qat": lambda name: qat(name, options.deuteron, options.epochs),
    }
    for name in options.name or sorted(accuracy.MEASURED):
        for way in options.only or ways:
            try:
                found = ways[way](name)
            except ImportError as missing:
                print(f"{name}, {way}: left as it was, {missing}")
                continue
            except Exception as problem:  # of another tool, which is a result
                found = {"failed": f"{type(problem).__name__}: {problem}".splitlines()[0][:120]}
            results.setdefault(name, {})[way] = found
            print(name, way, found, flush=True)
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
