#!/usr/bin/env python3
"""Numbers that no code of int8 is near to, and numbers of things that no call takes at once:
attributes of operators that are infinite, NaN, huge or denormal, denormal scales, and up to 200
inputs and outputs, for every target. What compiles must compute what its quantized graph says,
which the command checks itself; padding is held against codes computed here. Standard library only.

    extreme_numbers.py DEUTERON
"""
import math
import struct
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from checks import finish, npy, sampled  # noqa: E402
from edge_cases import TARGETS, arrays, message_of, run  # noqa: E402

NPU = TARGETS[:2]
MOST_OPERANDS = 64
NUMBERS = [
    "-1e20",
    "1e20",
    "-inf",
    "inf",
    "nan",
    "1e-45",
    "-3e38",
    "1e300",
    "-1e-300",
    "0.0",
    "-0.75",
]
QUANT = "quant<0.05:3>"
# Of operators on x, between quantize and dequantize and in float alone. NUMBER stands for the
# number.
OPERATORS = [
    ("aten.constant_pad_nd", "pad = [1, 0], value = NUMBER", "2,5"),
    ("aten.clamp", "min = NUMBER", "2,4"),
    ("aten.clamp", "max = NUMBER", "2,4"),
    ("aten.threshold", "threshold = NUMBER, value = 0.25", "2,4"),
    ("aten.threshold", "threshold = 0.25, value = NUMBER", "2,4"),
    ("aten.leaky_relu", "negative_slope = NUMBER", "2,4"),
    ("aten.elu", "alpha = NUMBER", "2,4"),
    ("aten.hardshrink", "lambd = NUMBER", "2,4"),
    ("aten.softshrink", "lambd = NUMBER", "2,4"),
    ("aten.softplus", "beta = 1.0, threshold = NUMBER", "2,4"),
    ("aten.pow.Tensor_Scalar", "exponent = NUMBER", "2,4"),
]
# Refusals of a number are as good as results; a program that computes something else, or an
# internal error, is not.
REFUSALS = {"ir-invalid", "calibration-not-finite", "no-backend", "check-inaccurate"}


def quantized(operator, attributes, shape, scale="0.05:3"):
    keeps = operator == "aten.constant_pad_nd"
    return (
        f"graph @forward(%x: f32[2,4]) {{ %q: i8[2,4] {QUANT} = quantize(%x) %r: i8[{shape}]"
        f" quant<{'0.05:3' if keeps else scale}> = {operator}(%q) {{{attributes}}} %y: f32[{shape}]"
        " = dequantize(%r) return %y }"
    )


def in_float(operator, attributes, shape):
    return (
        f"graph @forward(%x: f32[2,4]) {{ %y: f32[{shape}] = {operator}(%x) {{{attributes}}} return"
        " %y }"
    )


def texts():
    """Name → IR text."""
    for operator, attributes, shape in OPERATORS:
        for number in NUMBERS:
            filled = attributes.replace("NUMBER", number)
            yield f"{operator} {filled} in int8", quantized(operator, filled, shape)
            yield f"{operator} {filled} in float", in_float(operator, filled, shape)
    for operator in (
        "abs",
        "sqrt",
        "exp",
        "log",
        "reciprocal",
        "rsqrt",
        "sigmoid",
        "tanh",
        "gelu",
        "silu",
        "erf",
        "neg",
    ):
        for scale in ("1e-45:3", "1e-39:-128", "3e38:3", "0.05:3"):
            yield f"aten.{operator} to {scale}", quantized(f"aten.{operator}", "", "2,4", scale)
    yield "sqrt that truncates", quantized("aten.sqrt", "truncates = true", "2,4", "1e-45:-128")


def summed(count, outputs):
    """`count` inputs added up; with `outputs`, so many of the sums are outputs."""
    signature = ", ".join(f"%x{i}: i8[2,4] quant<0.02:1>" for i in range(count))
    body = "".join(
        f"%s{i}: i8[2,4] quant<0.03:-2> = aten.add.Tensor(%{'s' if i > 1 else 'x'}{i - 1}, %x{i})"
        " {alpha = 1.0} "
        for i in range(1, count)
    )
    return (
        f"graph @forward({signature}) {{ {body} return"
        f" {', '.join(f'%s{i}' for i in range(count - outputs, count))} }}"
    )


def split(count):
    """One input in `count` slices, each of which is an output of its own."""
    body = "".join(
        f"%a{i}: i8[1,4] quant<0.02:1> = aten.slice.Tensor(%x) {{dim = 0, end = {i + 1}, start ="
        f" {i}, step = 1}} %b{i}: i8[1,4] quant<0.02:1> = aten.relu(%a{i}) "
        for i in range(count)
    )
    return (
        f"graph @forward(%x: i8[{count},4] quant<0.02:1>) {{ {body} return"
        f" {', '.join(f'%b{i}' for i in range(count))} }}"
    )


def joined(count):
    """`count` inputs in one concatenation."""
    signature = ", ".join(f"%x{i}: i8[1,4] quant<0.02:1>" for i in range(count))
    return (
        f"graph @forward({signature}) {{ %y: i8[{count},4] quant<0.02:1> ="
        f" aten.cat({', '.join(f'%x{i}' for i in range(count))}) {{dim = 0}} %z: i8[{count},4]"
        " quant<0.02:1> = aten.relu(%y) return %z }"
    )


class Cases:
    def __init__(self, deuteron, work):
        self.deuteron, self.work, self.count = deuteron, work, 0

    def compile(self, text, target, *options):
        self.count += 1
        source = self.work / f"{self.count}.ir"
        source.write_text(text)
        calibration = () if "i8[" in text else ("--calibrate-random", 2)
        done = run(
            self.deuteron,
            "--diagnostics",
            "json",
            "compile",
            source,
            "--target",
            target,
            *calibration,
            *options,
            "-o",
            source.with_suffix(".pte"),
        )
        return done, source.with_suffix(".pte")

    def number(self, case):
        """What is wrong with an operator of an extreme number, or None."""
        (name, text), target, options = case
        done, _ = self.compile(text, target, *options)
        message = message_of(done)
        if done.returncode == 0 or (done.returncode == 1 and message["id"] in REFUSALS):
            return None
        return (
            f"{name}, {target} {' '.join(options)}: exit code {done.returncode}, {message['id']}:"
            f" {message['reason']}"
        )

    def pad(self, case):
        """Whether the code that pads is the one that the number has."""
        number, target, options = case
        done, program = self.compile(
            quantized("aten.constant_pad_nd", f"pad = [1, 0], value = {number}", "2,5"),
            target,
            "--min-sqnr=-99",
            *options,
        )
        if done.returncode:
            return f"pad with {number}, {target}: {message_of(done)['reason']}"
        value = float(number)
        code = (
            3
            if math.isnan(value)
            else max(-128, min(127, round(max(-1e9, min(1e9, value / 0.05))) + 3))
        )
        data, result = program.with_suffix(".npz"), program.with_suffix(".out.npz")
        save(data, "input_0", (1, 2, 4), [0.5] * 8)
        done = run(self.deuteron, "run", program, "--input", data, "--output", result)
        found = arrays(result)["output_0"][1] if done.returncode == 0 else []
        wanted = (code - 3) * 0.05
        bad = len(found) != 10 or any(
            abs(found[i] - (wanted if i % 5 == 0 else 0.5)) > 1e-5 for i in range(10)
        )
        return (
            f"pad with {number}, {target} {' '.join(options)}: {list(found)}, expected {wanted}"
            if bad
            else None
        )

    def operands(self, case):
        """What is wrong with a program of many inputs or outputs."""
        name, text, target = case
        done, program = self.compile(text, target)
        if done.returncode:
            return f"{name}, {target}: exit code {done.returncode}, {message_of(done)['reason']}"
        if run(self.deuteron, "inspect", program).returncode:
            return f"{name}, {target}: the program does not load"
        # What no cut helps runs on the CPU, and the placement says why.
        count, kind = name.split()
        alone = kind == "joined" and int(count) + 1 > MOST_OPERANDS and target in NPU
        return (
            None
            if ("npu-operand-count" in done.stdout) == alone
            else f"{name}, {target}: reasons of the placement: {done.stdout}"
        )


def save(path, name, shape, values):
    """An .npz of one float32 array."""
    with zipfile.ZipFile(path, "w") as archive:
        data = struct.pack(f"<{len(values)}f", *values)
        archive.writestr(f"{name}.npy", npy("<f4", shape, data))


def main():
    deuteron = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        # Each worker has names of its own.
        def checked(method, cases):
            def one(indexed):
                index, case = indexed
                work = Path(folder) / f"{method}{index}"
                work.mkdir()
                return getattr(Cases(deuteron, work), method)(case)

            return list(pool.map(one, enumerate(sampled(cases))))

        numbers = [
            (text, target, ())
            for text in texts()
            for target in ("imxrt700", "cortex-m33", "executorch")
        ]
        # Codes go in, and the first operator runs in float.
        numbers += [
            (text, "executorch", ("--io", "int8")) for text in texts() if " in float" not in text[0]
        ]
        pads = [
            (number, target, options)
            for number in NUMBERS
            for target in TARGETS
            for options in ([], ["--keep-off", "aten.constant_pad_nd"])
            if not options or target in NPU
        ]
        many = []
        for count in (63, 64, 65, 70, 200):
            texts_of_count = [
                (f"{count} inputs", summed(count, 1)),
                (f"{count} sums", summed(count, count - 1)),
                (f"{count} slices", split(count)),
                (f"{count} joined", joined(count)),
            ]
            many += [(name, text, target) for name, text in texts_of_count for target in TARGETS]
        results = checked("number", numbers) + checked("pad", pads) + checked("operands", many)
    failures = [result for result in results if result]
    print(f"{len(results) - len(failures)} of {len(results)} cases good")
    finish(failures)


if __name__ == "__main__":
    main()
