"""A plugin of pytest for the test suite of ExecuTorch's backends: makes `deuteron` its only flow.

    pytest -p backend_suite --deuteron COMMAND --record FILE --work FOLDER …

A test of the suite gives a module and inputs. Each is exported and compiled twice: in float for the
CPU alone (with memory for any network), and quantized with 32 samples. Both programs run on the inputs of the test and on eight
further samples, and PyTorch's outputs of the float module judge them. A sample is the test's
inputs with the elements of each floating-point tensor in another order.

A record is a line of JSON: file, test, number of the program in it, state ("compiled", "refused",
"failed", "not exported"), reason, and of compiled programs the largest difference of the float one,
as a share of the output's largest element, and the least SQNR of the quantized one over its
outputs, in dB (null: no difference).
"""

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import recorder
import torch

CALIBRATED, JUDGED = 32, 8
LARGEST_DIFFERENCE = 1e-5
SECONDS = 900  # of a command


def pytest_addoption(parser):
    parser.addoption("--deuteron", required=True, help="the command")
    parser.addoption("--record", required=True, help="file for the records")
    parser.addoption("--work", required=True, help="folder for models and programs")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    """Replaces the suite's flows and its runner, before its conftest.py imports them."""
    recorder.pytest_configure()
    torch.set_num_threads(1)
    from executorch.backends.test.suite import flow, runner
    from executorch.backends.test.suite.reporting import TestCaseSummary, TestResult

    judge = Judge(early_config.known_args_namespace)

    def run_test(model, inputs, _flow, name, base_name, index, params, dynamic_shapes=None, **_):
        judge.record(model, inputs, name, index, dynamic_shapes)
        return TestCaseSummary(  # a success always: the test goes on with its next program
            backend="deuteron", base_name=base_name, subtest_index=index, flow="deuteron",
            name=name, params=params, result=TestResult.SUCCESS, error=None,
            tensor_error_statistics=[],
        )  # fmt: skip

    deuteron = flow.TestFlow("deuteron", "deuteron", tester_factory=None)
    flow.all_flows = lambda: {"deuteron": deuteron}
    runner.run_test = run_test


def tensors(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [each for part in value for each in tensors(part)]
    return [value] if isinstance(value, torch.Tensor) else []


def samples(inputs):
    """The inputs, then others with their elements in other orders."""
    generator = torch.Generator().manual_seed(1)

    def shuffled(value):
        if not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point:
            return value
        order = torch.randperm(value.numel(), generator=generator)
        return value.flatten()[order].reshape(value.shape)

    yield tuple(inputs)
    for _ in range(CALIBRATED + JUDGED - 1):
        yield tuple(shuffled(each) for each in inputs)


def save(path, rows):
    """Writes samples, each a list of tensors, as arrays input_0, input_1, ... of all samples."""
    columns = [np.stack([each.detach().numpy() for each in column]) for column in zip(*rows)]
    np.savez(path, **{f"input_{place}": column for place, column in enumerate(columns)})


def distance(wanted, got):
    """(largest difference as a share of the largest element, SQNR in dB or None) of an output.

    NaN and infinities have to be at the same places: a difference of infinity otherwise. `run`
    joins samples along a first dimension of one. Results of PyTorch's other floating-point types are
    float32.
    """
    if np.issubdtype(wanted.dtype, np.floating):
        wanted = wanted.astype(np.float32)
    if wanted.size != got.size or wanted.dtype != got.dtype:
        return np.inf, -np.inf
    wanted, got = wanted.astype(np.float64), got.astype(np.float64).reshape(wanted.shape)
    finite = np.isfinite(wanted)
    if not np.array_equal(wanted[~finite], got[~finite], equal_nan=True):
        return np.inf, -np.inf
    wanted, error = wanted[finite], got[finite] - wanted[finite]
    noise = np.sum(error**2)
    if noise == 0:
        return 0.0, None
    with np.errstate(divide="ignore"):
        quality = 10 * np.log10(np.sum(wanted**2) / noise)
    return np.max(np.abs(error)) / max(np.max(np.abs(wanted)), 1e-30), quality


class Failure(Exception):
    pass


class Judge:
    def __init__(self, given):
        self.command = given.deuteron
        self.work = Path(given.work)
        self.file = open(given.record, "w")
        text = subprocess.run(
            [self.command, "targets", "--json", "imxrt700"], capture_output=True, check=True
        ).stdout
        machine = json.loads(text) | {"name": "cpu", "recipe": ["portable"]}
        machine["memory"]["sram_bytes"] = 1 << 30
        self.cpu = self.work / "cpu.json"
        self.cpu.write_text(json.dumps(machine))

    def record(self, model, inputs, test, program, dynamic_shapes):
        file = os.environ["PYTEST_CURRENT_TEST"].split("::")[0]
        row = {"file": file, "test": test, "program": program}
        try:
            row |= self.judge(model.eval(), inputs, f"{test} {program}", dynamic_shapes)
        except Failure as failure:
            state, row["reason"] = failure.args
            row["state"] = state
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()

    def judge(self, model, inputs, name, dynamic_shapes):
        path = self.work / re.sub(r"\W+", "_", name)
        calibrated, judged, outputs = [], [], []
        try:
            exported = torch.export.export(
                model, tuple(inputs), dynamic_shapes=dynamic_shapes, strict=False
            )
            torch.export.save(exported, f"{path}.pt2")
            for place, sample in enumerate(samples(inputs)):
                if place < CALIBRATED:
                    calibrated.append(tensors(sample))
                if place == 0 or place >= CALIBRATED:
                    judged.append(tensors(sample))
                    with torch.no_grad():
                        outputs.append([each.numpy() for each in tensors(model(*sample))])
        except Exception as error:  # of PyTorch: any
            raise Failure("not exported", str(error).strip().splitlines()[0][:200]) from error
        save(f"{path}.calibration.npz", calibrated)
        save(f"{path}.judged.npz", judged)
        wanted = [np.stack(column) for column in zip(*outputs)]

        on_cpu = self.outputs(path, "float", len(wanted), ["--target", str(self.cpu)])
        difference = max((distance(a, b)[0] for a, b in zip(wanted, on_cpu)), default=0.0)
        if not difference <= LARGEST_DIFFERENCE:
            raise Failure("failed", f"float: a difference of {difference:.2g}")
        quantized = self.outputs(path, "int8", len(wanted), [])
        qualities = [distance(a, b)[1] for a, b in zip(wanted, quantized)]
        for file in self.work.glob(f"{path.name}.*"):
            file.unlink()
        qualities = [each for each in qualities if each is not None]
        return {
            "state": "compiled",
            "difference": difference,
            "sqnr": float(min(qualities)) if qualities else None,
        }

    def outputs(self, path, kind, count, options):
        program, results = f"{path}.{kind}.pte", f"{path}.{kind}.npz"
        data = ["--calibrate", f"{path}.calibration.npz"]
        self.run("refused", "compile", f"{path}.pt2", "-o", program, "--no-check", *data, *options)
        self.run("failed", "run", program, "--input", f"{path}.judged.npz", "--output", results)
        with np.load(results) as arrays:
            if len(arrays.files) != count:
                raise Failure("failed", f"{kind}: {len(arrays.files)} outputs, not {count}")
            return [arrays[f"output_{place}"] for place in range(count)]

    def run(self, state, *arguments):
        done = subprocess.run(
            [self.command, *arguments], capture_output=True, text=True, timeout=SECONDS
        )
        if done.returncode:
            lines = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()
            raise Failure(state, lines[0].replace(f"{self.work}/", "")[:300])
