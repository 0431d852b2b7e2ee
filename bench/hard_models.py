#!/usr/bin/env python3
"""Measures the hard models of test/data/accuracy, quantized by Deuteron and by others, and writes
bench/hard_models.json and from it docs/hard_models.md.

    bench/hard_models.py [--deuteron build/release/deuteron] [--epochs 24] [--only WAY …] [NAME …]

neutron, xnnpack: ExecuTorch's NeutronQuantizer and XNNPACKQuantizer through torchao's PT2E, judged
in PyTorch. edge: AI Edge Quantizer, static int8 over LiteRT Torch's conversion, judged in LiteRT.
default, auto: `compile`, judged in the simulator. qat: `qat-prepare`, training towards the float
model's outputs, `compile`, judged in the simulator; the trained exports are kept in
test/data/accuracy/trained. All see the same calibration samples and are judged on the same 64
others. Needs torch, torchao, executorch, litert-torch, ai-edge-quantizer; what is not installed is
left as it was recorded. Decibels against PyTorch's float outputs, share of right classes, PSNR
against the image that an output should be, seconds of processor time without imports.
test/e2e/accuracy.py compares what is deterministic.
"""
import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
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
TRAINED = DATA / "trained"
BATCH = 32
HELD_OUT = 2 * BATCH  # of the training inputs
sys.path[:0] = [str(DATA), str(ROOT / "test/data/pt2")]
import hard_models_page  # noqa: E402
import make_models  # noqa: E402
import sequences_and_maps  # noqa: E402
from common import digits  # noqa: E402
from make_pt2_cases import portable  # noqa: E402

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
    if "target" in data:
        error = np.square(outputs.reshape(data["target"].shape) - data["target"])
        figures["psnr"] = round(float(-10 * np.log10(error.mean((1, 2, 3))).mean()), 2)
    return figures


def seconds():
    """Of processor time, of this process and of those that ended below it."""
    return sum(os.times()[:4])


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


def neutron(name):
    name_target()
    from executorch.backends.nxp.backend.neutron_target_spec import NeutronTargetSpec
    from executorch.backends.nxp.quantizer.neutron_quantizer import NeutronQuantizer
    from executorch.backends.nxp.quantizer.utils import calibrate_and_quantize

    quantizer = NeutronQuantizer(NeutronTargetSpec("imxrt700"))
    return pt2e(
        name, lambda exported, samples: calibrate_and_quantize(exported, samples, quantizer)
    )


def xnnpack(name):
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    config = get_symmetric_quantization_config(is_per_channel=True)

    def quantize(exported, samples):
        prepared = prepare_pt2e(exported.module(), XNNPACKQuantizer().set_global(config))
        for sample in samples:
            prepared(*sample)
        return convert_pt2e(prepared)

    return pt2e(name, quantize)


def pt2e(name, quantize):
    model, data = load(name)
    samples = [(torch.from_numpy(x[None]),) for x in data["input"]]
    start = seconds()
    quantized = quantize(torch.export.export(model, samples[0], strict=True), samples)
    taken = seconds() - start
    with torch.no_grad():
        outputs = [quantized(torch.from_numpy(x[None])).numpy() for x in data["test"]]
    return {**judged(data, np.concatenate(outputs)), "s": round(taken, 1)}


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
        start = seconds()
        tool = quantizer.Quantizer(path)
        tool.load_quantization_recipe(recipe.static_wi8_ai8())
        ranges = tool.calibrate({signature: [{key: x[None]} for x in data["input"]]})
        made = tool.quantize(ranges).quantized_model
        taken = seconds() - start
        outputs = run_int8(Interpreter(model_content=bytes(made), num_threads=1), data["test"])
    return {**judged(data, outputs), "s": round(taken, 1)}


def training_inputs(name, data):
    if name in DRAWN:
        return torch.randn(444, *DRAWN[name])
    x = digits()[0][0]
    return F.avg_pool2d(x, 2) if data["input"].shape[-1] == 8 else x


def size_of(parameter):
    """The size that an element of a parameter probably has, of matrices by row and column: channels
    of these models are decades apart, and a step should be small beside what it changes."""
    x = parameter.detach().abs()
    if x.dim() < 2:
        return x.clamp(min=1e-3 * x.max().item())
    square = x.square().clamp(min=1e-12 * x.square().max().item())
    others = tuple(range(1, x.dim()))
    row, column = square.mean(others, True), square.mean((0, *others[1:]), True)
    return (row * column / square.mean()).sqrt()


def loss_of(model, x, wanted):
    with torch.no_grad():
        return sum(
            F.mse_loss(model(some), of) for some, of in zip(x.split(BATCH), wanted.split(BATCH))
        )


def train(model, x, wanted, epochs, rate=3e-3):
    """Towards the outputs `wanted`, by Adam with steps relative to the parameters. Ends with the
    parameters of the start or of the epoch with the least loss on the last HELD_OUT inputs, which
    are not trained on, as nets that calibration quantizes well may only lose."""
    held_out, x = (x[-HELD_OUT:], wanted[-HELD_OUT:]), x[:-HELD_OUT]
    scale = wanted.square().mean()
    parameters = list(model.parameters())
    sizes = [size_of(each) for each in parameters]
    # Adam over t, of which each parameter is its start + its size · t.
    starts = [each.detach().clone() for each in parameters]
    steps = [torch.zeros_like(each, requires_grad=True) for each in parameters]
    optimizer = torch.optim.Adam(steps, rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * (len(x) // BATCH))

    best, least = starts, loss_of(model, *held_out)
    for _ in range(epochs):
        for pick in torch.randperm(len(x)).split(BATCH):
            if len(pick) < BATCH:
                continue  # the export takes whole batches
            model.zero_grad()
            (F.mse_loss(model(x[pick]), wanted[pick]) / scale).backward()
            with torch.no_grad():
                for parameter, step, size in zip(parameters, steps, sizes):
                    if parameter.grad is not None:
                        step.grad = parameter.grad * size
                optimizer.step()
                schedule.step()
                for parameter, step, size, start in zip(parameters, steps, sizes, starts):
                    parameter.copy_(start + size * step)
        if (now := loss_of(model, *held_out)) < least:
            best, least = [each.detach().clone() for each in parameters], now
    with torch.no_grad():
        for parameter, value in zip(parameters, best):
            parameter.copy_(value)


def run(*command):
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def compiled(deuteron, name, model, *options):
    """Figures of the program that `compile` makes of `model`."""
    data = np.load(DATA / f"{name}.npz")
    with tempfile.TemporaryDirectory() as folder:
        program, report, test, outputs = (
            f"{folder}/{file}" for file in ("p.pte", "p.json", "test.npz", "outputs.npz")
        )
        start = seconds()
        run(deuteron, "compile", model, "--min-sqnr", -99, "-o", program, *options)
        taken = seconds() - start
        # Again with its figures: a report runs the program.
        run(
            deuteron, "compile", model, "--min-sqnr", -99, "-o", program, "--report-json", report,
            *options,
        )  # fmt: skip
        np.savez(test, input=data["test"])
        run(deuteron, "run", program, "--input", test, "--output", outputs)
        made = np.load(outputs)
        figures = judged(data, made[made.files[0]])
        reported = json.loads(Path(report).read_text())
        figures["cycles"] = reported["total_cycles"]
        search = reported.get("accuracy", {})
        if search.get("steps"):  # none is kept where the default is the program
            kept = [step["name"] for step in search["steps"] if step["verdict"] == "kept"]
            figures["steps"] = kept if search["result"]["options"] else []
    return {**figures, "s": round(taken, 1)}


def ours(deuteron, name, *options):
    samples = DATA / f"{name}.npz"
    return compiled(deuteron, name, DATA / f"{name}.pt2", "--calibrate", samples, *options)


def network_of(name):
    """The module that the committed export was made of."""
    made = getattr(make_models, name, None) or getattr(sequences_and_maps, name)
    found = sys.modules[made.__module__]
    network = getattr(
        found, "MobileNetV3" if name == "mobilenet_v3" else name.title().replace("_", "")
    )()
    teacher, _ = load(name)
    network.load_state_dict(teacher.state_dict())
    return network.eval()


def prepared(deuteron, name, network, example, folder, options):
    """The network with fake quantization, for batches as large as `example`."""
    path, made = f"{folder}/float{len(example)}.pt2", f"{folder}/prepared{len(example)}.pt2"
    torch.export.save(torch.export.export(network, (example,)), path)
    calibrates = ["--calibrate", DATA / f"{name}.npz"]
    run(deuteron, "qat-prepare", path, "-o", made, *calibrates, *options)
    model = torch.export.load(made).module()
    model.quantization.observer_on.zero_()
    return model


def qat(name, deuteron, epochs):
    """An export takes as many samples as it was made with: one of a batch is trained, one of a
    single sample takes its state and is compiled. Training begins with the options of qat-prepare
    that have the least loss on inputs that are not trained on."""
    network, data = network_of(name), np.load(DATA / f"{name}.npz")
    trained = TRAINED / f"{name}.pt2"
    TRAINED.mkdir(exist_ok=True)
    torch.manual_seed(0)
    x = training_inputs(name, data)
    start = seconds()
    with torch.no_grad():
        wanted = network(x)
    with tempfile.TemporaryDirectory() as folder:
        models = [
            [prepared(deuteron, name, network, x[:n], folder, options) for n in (BATCH, 1)]
            for options in ([], ["--equalize"], ["--equalize", "--observer", "tail"])
        ]
    # Batches that mix rows of a recurrence let factors through elsewhere.
    models = [pair for pair in models if len({tuple(each.state_dict()) for each in pair}) == 1]
    batched, single = min(
        models, key=lambda pair: loss_of(pair[0], x[-HELD_OUT:], wanted[-HELD_OUT:])
    )
    train(batched, x, wanted, epochs)
    single.load_state_dict(batched.state_dict())
    torch.export.save(torch.export.export(single, (x[:1],)), str(trained))
    taken = seconds() - start
    portable(trained)
    figures = compiled(deuteron, name, trained)
    return {**figures, "s": round(taken + figures["s"], 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deuteron", default=str(ROOT / "build/release/deuteron"))
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--only", choices=hard_models_page.WAYS, action="append")
    parser.add_argument("name", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    deuteron = options.deuteron
    ways = {
        "neutron": neutron,
        "xnnpack": xnnpack,
        "edge": edge,
        "default": lambda name: ours(deuteron, name),
        "auto": lambda name: ours(deuteron, name, "--accuracy", "auto", "--seconds", 600),
        "qat": lambda name: qat(name, deuteron, options.epochs),
    }
    for name in options.name or sorted(path.stem for path in DATA.glob("*.pt2")):
        data = np.load(DATA / f"{name}.npz")
        of_float = judged(data, data["float_output"])
        results.setdefault(name, {})["float"] = {k: v for k, v in of_float.items() if k != "db"}
        for way in options.only or ways:
            try:
                found = ways[way](name)
            except ImportError as missing:
                print(f"{name}, {way}: left as it was, {missing}")
                continue
            except Exception as problem:  # of another tool, which is a result
                if way in ("default", "auto", "qat"):
                    raise
                found = {"failed": f"{type(problem).__name__}: {problem}".splitlines()[0][:120]}
            results[name][way] = found
            print(name, way, found, flush=True)
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    hard_models_page.PAGE.write_text(hard_models_page.page(results))


if __name__ == "__main__":
    main()
