#!/usr/bin/env python3
"""Writes test/data/interop/upstream_*.npz: programs of ExecuTorch's exporter and what its runtime computes.

    make_data.py         (the wheels of requirements.txt; DEUTERON_SHARED: the full sets, from which the cases are chosen)

Per case, CASE.program holds the bytes of the .pte, CASE.input_I and CASE.output_I [samples, …] inputs and outputs. Chosen are the
smallest cases of each group of the conformance set, 100 together, and the small models. test/unit/interop_test.cpp judges by them.
"""
import re
import sys

import numpy as np

import cases
import wheel

COUNT = 100
PER_GROUP = 5
LARGEST = 8000  # bytes of the inputs of a case
MODELS = ("digits_cnn", "ic_resnet8", "kws_dscnn")  # the small ones
EXCEPTIONS = cases.exceptions()
failures = []


def pack(case):
    program = wheel.lower(case.program)
    inputs = case.samples(1)
    try:
        method = wheel.Method(program)
        outputs = [method.run(sample) for sample in inputs]
    except wheel.Refused as error:
        failures.append(f"{case.name}: ExecuTorch's runtime: {error}")
        return {}
    arrays = {f"{case.name}.program": np.frombuffer(program, np.uint8)}
    for kind, rows in (("input", inputs), ("output", outputs)):
        for i, column in enumerate(zip(*rows)):
            arrays[f"{case.name}.{kind}_{i}"] = np.stack(column)
    return arrays


def write(name, packed):
    if failures:
        sys.exit("\n".join(failures))
    folder = cases.ROOT / "test" / "data" / "interop"
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {key: array for case in packed for key, array in case.items()}
    np.savez_compressed(folder / f"{name}.npz", **arrays)
    print(f"{name}.npz: {len(packed)} programs, {(folder / f'{name}.npz').stat().st_size} bytes")


def choose():
    """The smallest cases of each group, by the bytes of model and tensors; first one of each, then a second, …"""
    groups = {}
    for case in cases.conformance():
        tensors = sum(array.nbytes for array in case.samples(1)[0])
        if case.name not in EXCEPTIONS and tensors <= LARGEST:
            groups.setdefault(re.sub(r"_\d+$", "", case.name), []).append((case.program.stat().st_size + tensors, case.name, case))
    ranked = [(rank, name, case) for group in groups.values() for rank, (_, name, case) in enumerate(sorted(group)[:PER_GROUP])]
    return [case for _, _, case in sorted(ranked)[:COUNT]]


if __name__ == "__main__":
    write("upstream_cases", [pack(case) for case in choose()])
    write("upstream_models", [pack(case) for case in cases.models() if case.name in MODELS])
