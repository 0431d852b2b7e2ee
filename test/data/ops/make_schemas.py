#!/usr/bin/env python3
"""Writes schemas.txt: PyTorch's own schema of the overload that each operator of compiler/ops
stands for.

    make_schemas.py            (PyTorch 2.13)

A row is "NAME: SCHEMA", with the name of our operator and PyTorch's schema as it prints it.
"""
import re
from pathlib import Path

import torch

FOLDER = Path(__file__).resolve().parent
# Operators whose arguments are those of another overload than the one of their name.
OVERLOADS = {
    "aten.batch_norm": "_native_batch_norm_legit_no_training.default",
    "aten.index_put": "index_copy.default",
    "aten.log_softmax": "log_softmax.int",
    "aten.masked_fill": "masked_fill.Scalar",
    "aten.prelu": "_prelu_kernel.default",
    "aten.softmax": "softmax.int",
}

OPERATOR = re.compile(r'^constinit const OpDef k\w+[^"]*"(aten\.[^"]+)"', re.MULTILINE)
definitions = (FOLDER / "../../../compiler/ops").glob("*.cpp")
names = sorted(name for file in definitions for name in OPERATOR.findall(file.read_text()))
with open(FOLDER / "schemas.txt", "w") as out:
    for name in names:
        if name == "aten.softsign":  # a function of torch.nn.functional, without an operator
            continue
        packet, overload = OVERLOADS.get(
            name, name.removeprefix("aten.") + ("" if name.count(".") == 2 else ".default")
        ).split(".")
        print(f"{name}: {getattr(getattr(torch.ops.aten, packet), overload)._schema}", file=out)
