#!/usr/bin/env python3
"""LiteRT's reference kernels on the Neutron IR that Deuteron writes for NXP's converter.

    neutron_ir.py TOOL [--write] [CASE …]     TOOL: build/release/deuteron-neutron-ir; the wheels of
                                              requirements.txt

Every NPU partition of every conformance case and model (float models quantized by Deuteron, and the
quantized ones) is written as .tflite and run on pseudo-random inputs. What LiteRT computes is held
against the integer reference of the file (read back, rounding as TensorFlow Lite does), which must
be equal, and that of the partition itself. --write stores LiteRT's outputs for the quantized models
of the repository in test/data/neutron_ir.npz: MODEL.model, checksums of the files, and MODEL.K.I,
output I of partition K; test/unit/neutron_ir_test.cpp judges by them. Exit code 1: something
differs.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np

import cases

_saved = os.dup(2)
with open(os.devnull, "w") as _nothing:
    os.dup2(_nothing.fileno(), 2)
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
os.dup2(_saved, 2)

LARGEST = 20000  # bytes of the outputs of a model that are stored
ONE_STEP = {
    "FULLY_CONNECTED",
    "LEAKY_RELU",
    "RESIZE_BILINEAR",
    "SQRT",
}  # rounded in another way than by the graph, which of models of PyTorch rounds once


def models(folder):
    return [
        folder / name
        for name in ("float.pt2", "quantized.pt2", "qat.pt2")
        if (folder / name).exists()
    ]


def run(file, arrays):
    interpreter = Interpreter(str(file), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    for i, detail in enumerate(interpreter.get_input_details()):
        interpreter.set_tensor(detail["index"], arrays[f"input_{i}"].reshape(detail["shape"]))
    interpreter.invoke()
    operators = {op["op_name"] for op in interpreter._get_ops_details()}
    return [
        interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()
    ], operators


class Count:
    def __init__(self, by_us):
        self.by_us, self.partitions, self.exact, self.steps, self.sums, self.failures = (
            by_us,
            0,
            0,
            {},
            0,
            [],
        )

    def add(self, name, outputs, operators, arrays):
        self.partitions += 1
        apart = 0
        for i, output in enumerate(outputs):
            if not np.array_equal(output.ravel(), arrays[f"read_back_{i}"].ravel()):
                self.failures.append(
                    f"{name}: LiteRT does not compute what the file says"
                    f" ({', '.join(sorted(operators))})"
                )
            wanted = arrays[f"output_{i}"].ravel().astype(int)
            apart = max(apart, np.abs(output.ravel().astype(int) - wanted).max())
        self.exact += apart == 0
        self.sums += apart > 0 and "SUM" in operators
        if apart > 0 and "SUM" not in operators:
            self.steps[apart] = self.steps.get(apart, 0) + 1
            if self.by_us and not operators & ONE_STEP:
                self.failures.append(
                    f"{name}: {apart} steps from the graph ({', '.join(sorted(operators))})"
                )

    def print(self, title):
        for line in self.failures:
            print(f"  FAIL {line}")
        print(
            f"{title}: {self.partitions} partitions as LiteRT computes them, {self.exact} of them"
            " bit for bit what the graph says,"
            f" {', '.join(f'{n} within {s} step' for s, n in sorted(self.steps.items()))},"
            f" {self.sums} with sums of bytes, {len(self.failures)} failed"
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    found = [
        case
        for case in cases.models() + cases.conformance() + cases.own()
        if not options.cases or case.name in options.cases
    ]
    counts = {
        "float models, quantized here": Count(True),
        "models that come quantized": Count(False),
    }
    stored = {}
    with tempfile.TemporaryDirectory() as work:
        for model in (model for case in found for model in models(case.folder)):
            for old in Path(work).iterdir():
                old.unlink()
            count = counts[
                (
                    "float models, quantized here"
                    if model.name == "float.pt2"
                    else "models that come quantized"
                )
            ]
            done = subprocess.run([options.tool, model, work], text=True, capture_output=True)
            if done.returncode != 0:
                count.failures.append(f"{model.parent.name}/{model.name}: {done.stderr.strip()}")
                continue
            checksums, results = [], {}
            for k in range(len(list(Path(work).glob("*.tflite")))):
                file = Path(work) / f"{model.parent.name}_{k}.tflite"
                with np.load(file.with_suffix(".npz")) as arrays:
                    try:
                        outputs, operators = run(file, arrays)
                    except Exception as error:
                        count.failures.append(f"{file.name}: LiteRT refuses it: {error}")
                        continue
                    count.add(file.name, outputs, operators, arrays)
                checksums.append(zlib.crc32(file.read_bytes()))
                results |= {f"{k}.{i}": output for i, output in enumerate(outputs)}
            if (
                model.name != "float.pt2"
                and model.is_relative_to(cases.ROOT)
                and checksums
                and sum(a.nbytes for a in results.values()) < LARGEST
            ):
                name = str(model.relative_to(cases.ROOT))
                stored[f"{name}.model"] = np.array(checksums, np.int64)
                stored |= {f"{name}.{key}": output for key, output in results.items()}
    for title, count in counts.items():
        count.print(title)
    if options.write:
        np.savez_compressed(cases.ROOT / "test" / "data" / "neutron_ir.npz", **stored)
    return 1 if any(count.failures for count in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
