#!/usr/bin/env python3
"""Keywords that change what an operator means, unusual shapes and dtypes (test/data/pt2_edge):
computed as PyTorch does, or refused with these words, never ignored. Standard library only.

    edge_cases.py DEUTERON
"""
import ast
import json
import math
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from checks import finish

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "test/data/pt2_edge"
MIN_SQNR = 25  # dB, int8 against float; the keyword of each case changes more than that
MIN_SQNR_OF_ATTENTION = 30
MIN_SQNR_OF_FACTORIZATIONS = 100  # float inside: int8 has 12 dB for the inverse, -5 dB for Q and R
FORMATS = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "|i1": "b", "|u1": "B", "|b1": "?"}
TARGETS = ["imxrt700", "imxrt700cm", "cortex-m33", "cortex-m55", "executorch"]
# What is compiled for every target and both kinds of inputs and outputs.
EVERYWHERE = {"dequantized_input", "pad_lowest", "pad_minus_infinity", "threshold_infinite"}
# Name: id and reason.
REFUSED = {
    "var_of_one": (
        "pt2-unsupported-argument",
        "aten.var.dim: the variance of 1 elements with a correction of 1",
    ),
    "dropout_training": (
        "pt2-unsupported-argument",
        "aten.dropout.default: dropout in training mode",
    ),
    "no_batch_convolution": (
        "pt2-unsupported-argument",
        (
            "aten.conv2d.default: operand 0x2x4x4 and weight 3x2x3x3, expected extents of 1 to"
            " 1073741824"
        ),
    ),
    "sibling_views": (
        "pt2-mutated-state",
        "the operator overwrites `clone`, of which `select` is a view that is read later",
    ),
    "rank_17": (
        "program-too-large",
        f"tensor `inputs_0` of shape {'x'.join(['1'] * 15)}x2x3 does not fit into a program",
    ),
}
# Whose operator there is not: neither compared nor counted as good.
MISSING = set()
# IR texts: name, text, id, reason.
TEXTS = [
    (
        "elements beyond 32 bits",
        "graph @forward(%x: f32[65536,65536]) { %y: f32[65536,65536] = aten.relu(%x) return %y }",
        "memory-exceeded",
        "`x` of shape 65536x65536 needs 4,294,967,296 bytes in int8; imxrt700 has 7,340,032 bytes of SRAM",
    ),
    (
        "bytes beyond 32 bits",
        (
            "graph @forward(%x: f32[1,3,20000,20000]) { %y: f32[1,3,20000,20000] = aten.relu(%x)"
            " return %y }"
        ),
        "memory-exceeded",
        "`x` of shape 1x3x20000x20000 needs 1,200,000,000 bytes in int8; imxrt700 has 7,340,032 bytes of SRAM",
    ),
    (
        "quantized elements beyond 32 bits",
        (
            "graph @forward(%x: i8[70000,70000] quant<0.1>) { %y: i8[70000,70000] quant<0.1> ="
            " aten.relu(%x) return %y }"
        ),
        "memory-exceeded",
        "`x` of shape 70000x70000 needs 4,900,000,000 bytes in int8; imxrt700 has 7,340,032 bytes of SRAM",
    ),
    (
        "broadcast beyond 32 bits",
        (
            "graph @forward(%x: f32[65536,1], %z: f32[1,65536]) { %y: f32[65536,65536] ="
            " aten.add.Tensor(%x, %z) return %y }"
        ),
        "ir-invalid",
        "aten.add.Tensor: the result would have the shape 65536x65536",
    ),
    (
        "shape beyond 64 bits",
        "graph @forward(%x: f32[4294967296,4294967296,16]) { return %x }",
        "ir-syntax",
        "impossible shape 4294967296x4294967296x16",
    ),
    (
        "float64",
        "graph @forward(%x: f64[3]) { %y: f64[3] = aten.relu(%x) return %y }",
        "pt2-unsupported-dtype",
        "`x` is f64; programs compute in f32 and in int8",
    ),
]


def arrays(path):
    """Name → (shape, values) of a .npz."""
    result = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            data = archive.read(member)
            length = struct.unpack("<H", data[8:10])[0]
            head = ast.literal_eval(data[10 : 10 + length].decode())
            body = data[10 + length :]
            is_complex = head["descr"] == "<c8"  # two floats an element, as programs have them
            shape = (*head["shape"], 2) if is_complex else head["shape"]
            kind = "f" if is_complex else FORMATS.get(head["descr"])
            if kind is not None:
                result[member.removesuffix(".npy")] = (
                    shape,
                    struct.unpack(f"<{math.prod(shape)}{kind}", body),
                )
    return result


def sqnr(expected, actual):
    signal = sum(e * e for e in expected)
    noise = sum((e - a) ** 2 for e, a in zip(expected, actual))
    return math.inf if noise == 0 else 10 * math.log10(signal / noise) if signal else -math.inf


def message_of(done):
    try:
        return json.loads(done.stderr.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {"id": "none", "reason": f"exit code {done.returncode}: {done.stderr[-300:]}"}


def run(*command):
    return subprocess.run(
        [str(part) for part in command], text=True, stdin=subprocess.DEVNULL, capture_output=True
    )


def computed(deuteron, name, program, work):
    """What differs from PyTorch, or None."""
    output = work / "out.npz"
    done = run(
        deuteron,
        "--diagnostics",
        "json",
        "run",
        program,
        "--input",
        CASES / f"{name}.npz",
        "--output",
        output,
    )
    if done.returncode:
        return f"does not run: {message_of(done)['reason']}"
    expected, actual = arrays(CASES / f"{name}.npz"), arrays(output)
    for key, (shape, values) in expected.items():
        if not key.startswith("output_"):
            continue
        if key not in actual or math.prod(actual[key][0]) != math.prod(shape):
            return f"{key} has shape {actual.get(key, [None])[0]}, expected {shape}"
        exact = all(isinstance(v, int) for v in values)
        if exact and tuple(actual[key][1]) != tuple(values):
            return f"{key} differs"
        least = MIN_SQNR_OF_ATTENTION if name.startswith(("attention", "transformer")) else MIN_SQNR
        least = MIN_SQNR_OF_FACTORIZATIONS if name == "factorizations" else least
        if not exact and values and sqnr(values, actual[key][1]) < least:
            return f"{key}: {sqnr(values, actual[key][1]):.1f} dB"
    return None


def main():
    deuteron, failures, missing, ran = Path(sys.argv[1]).resolve(), [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        program = work / "case.pte"
        for path in sorted(CASES.glob("*.pt2")):
            name, data = path.stem, path.with_suffix(".npz")
            calibration = ["--calibrate", data] if data.exists() else ["--calibrate-random", 1]
            done = run(
                deuteron, "--diagnostics", "json", "compile", path, *calibration, "-o", program
            )
            ran += 1
            if done.returncode == 0:
                problem = (
                    f"compiles, expected {REFUSED[name][0]}"
                    if name in REFUSED
                    else computed(deuteron, name, program, work)
                )
            else:
                message = message_of(done)
                if (
                    message["id"] == "pt2-unsupported-operator"
                    and done.returncode == 1
                    and name in MISSING
                ):
                    missing.append(name)
                    continue
                said = (message["id"], message["reason"])
                problem = (
                    None
                    if done.returncode == 1 and said == REFUSED.get(name)
                    else f"{said[0]}: {said[1]}"
                )
            if problem:
                failures.append(f"{name}: {problem}")
            for target in TARGETS if name in EVERYWHERE else ():
                for io in ("float", "int8"):
                    done = run(
                        deuteron,
                        "--diagnostics",
                        "json",
                        "compile",
                        path,
                        *calibration,
                        "--target",
                        target,
                        "--io",
                        io,
                        "-o",
                        program,
                    )
                    ran += 1
                    problem = (
                        message_of(done)["reason"]
                        if done.returncode
                        else computed(deuteron, name, program, work)
                        if io == "float"
                        else None
                    )
                    if problem:
                        failures.append(f"{name} for {target}, {io}: {problem}")
        failures += [
            f"{name}: its operator is not refused any more, take it off MISSING"
            for name in sorted(MISSING - set(missing))
        ]
        for name, text, wanted, reason in TEXTS:
            ran += 1
            (work / "case.ir").write_text(text)
            done = run(
                deuteron,
                "--diagnostics",
                "json",
                "compile",
                work / "case.ir",
                "--calibrate-random",
                1,
                "-o",
                program,
            )
            message = message_of(done)
            if done.returncode != 1 or message["id"] != wanted or reason not in message["reason"]:
                failures.append(f"{name}: {message['id']}: {message['reason']}")
    print(
        f"{ran - len(failures)} of {ran} cases good, {len(missing)} refused because there is no"
        f" such operator: {', '.join(missing)}"
    )
    finish(failures)


if __name__ == "__main__":
    main()
