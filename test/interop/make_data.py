#!/usr/bin/env python3
"""Writes test/data/interop: programs of ExecuTorch's exporter, and what its runtime computes with
them and with Deuteron's.

    make_data.py DEUTERON         (the wheels of requirements.txt; DEUTERON_SHARED: the full sets,
                                  from which the cases are chosen)

Per case, CASE.program holds the bytes of the .pte, CASE.input_I and CASE.output_I [samples, …]
inputs and outputs. Chosen are the smallest cases of each group of the conformance set, 100
together, and the small models. ours.npz has inputs and outputs of the models and cases of the
repository, compiled for the target `executorch`; upstream_tensor_file.npz a program with its
constants in CASE.tensors, the bytes of a .ptd. The names of its kernels go to
compiler/backends/portable/executorch_kernels.inc.
"""
import re
import sys
import tempfile
from pathlib import Path

import numpy as np

import cases
import live
import wheel

COUNT = 100
PER_GROUP = 5
LARGEST = 8000  # bytes of the inputs of a case
WITH_TENSOR_FILE = "conv_097"
MODELS = ("digits_cnn", "ic_resnet8", "kws_dscnn")  # the small ones
failures = []


def pack(case, program, keep_program):
    inputs = case.samples(1)
    try:
        method = wheel.Method(program)
        outputs = [method.run(sample) for sample in inputs]
    except wheel.Refused as error:
        failures.append(f"{case.name}: ExecuTorch's runtime: {error}")
        return {}
    arrays = {f"{case.name}.program": np.frombuffer(program, np.uint8)} if keep_program else {}
    for kind, rows in (("input", inputs), ("output", outputs)):
        for i, column in enumerate(zip(*rows)):
            arrays[f"{case.name}.{kind}_{i}"] = np.stack(column)
    return arrays


def theirs(case):
    return pack(case, wheel.lower(case.program), True)


def ours(case, deuteron):
    with tempfile.TemporaryDirectory() as work:
        program = live.compile_for_executorch(deuteron, case, Path(work))
        return pack(case, program.read_bytes(), False) if isinstance(program, Path) else {}


def with_tensor_file(case):
    """The program with its constants outside of it, and the tensor file."""
    with tempfile.TemporaryDirectory() as work:
        program, tensors = wheel.lower_with_tensor_file(case.program, work)
    whole = theirs(case)
    whole[f"{case.name}.program"] = np.frombuffer(program, np.uint8)
    return whole | {f"{case.name}.tensors": np.frombuffer(tensors, np.uint8)}


def write(name, packed):
    if failures:
        sys.exit("\n".join(failures))
    folder = cases.ROOT / "test" / "data" / "interop"
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {key: array for case in packed for key, array in case.items()}
    np.savez_compressed(folder / f"{name}.npz", **arrays)
    print(f"{name}.npz: {len(packed)} programs, {(folder / f'{name}.npz').stat().st_size} bytes")


def choose():
    """The smallest cases of each group, by the bytes of model and tensors; first one of each, then
    a second, …"""
    groups = {}
    for case in cases.conformance():
        tensors = sum(array.nbytes for array in case.samples(1)[0])
        if not cases.exception(case, "their programs") and tensors <= LARGEST:
            groups.setdefault(re.sub(r"_\d+$", "", case.name), []).append(
                (case.program.stat().st_size + tensors, case.name, case)
            )
    ranked = [
        (rank, name, case)
        for group in groups.values()
        for rank, (_, name, case) in enumerate(sorted(group)[:PER_GROUP])
    ]
    return [case for _, _, case in sorted(ranked)[:COUNT]]


if __name__ == "__main__":
    command = Path(sys.argv[1]).resolve()
    in_tree = [
        case
        for case in cases.models() + cases.conformance() + cases.own()
        if case.folder.is_relative_to(cases.ROOT)
    ]
    write(
        "ours",
        [ours(case, command) for case in in_tree if not cases.exception(case, "our programs")],
    )
    table = cases.ROOT / "compiler" / "backends" / "portable" / "executorch_kernels.inc"
    text = table.read_text()
    head, tail = text[: text.index("DTR_EXECUTORCH_KERNEL(\"")], text[text.rindex("//") :]
    rows = [f'DTR_EXECUTORCH_KERNEL("{name}")\n' for name in sorted(wheel.registered_operators())]
    table.write_text(head + "".join(rows) + tail)
    write(
        "upstream_tensor_file",
        [with_tensor_file(case) for case in in_tree if case.name == WITH_TENSOR_FILE],
    )
    write("upstream_cases", [theirs(case) for case in choose()])
    write("upstream_models", [theirs(case) for case in cases.models() if case.name in MODELS])
