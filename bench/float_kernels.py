#!/usr/bin/env python3
"""Costs of the portable kernels: instructions of each under QEMU at several sizes, and the cycles
that the compiler takes for them (compiler/backends/portable/costs.inc).

    float_kernels.py DEUTERON            counts on a Cortex-M33 beside the compiler's estimates
    float_kernels.py DEUTERON --update   fits the costs to the counts and writes them; then build
                                         again and run bench/cortex_m.py --update-errors

The cost of an operator is a sum: so much for a call, for each element of the result, for each of
the first operand, and for each product (of a pool: element of a window). The factors, none below
zero, have the least squares of relative errors over the sizes. bench/cortex_m.py holds the
estimates against such counts. Standard library only.
"""
import itertools
import random
import re
import struct
import sys
import tempfile
import zipfile
from pathlib import Path

from npy import npy

ROOT = Path(__file__).resolve().parents[1]
COSTS = ROOT / "compiler/backends/portable/costs.inc"
CODES = "i8", " quant<0.01:3>"  # type of quantized values
LETTERS = {
    "f32": ("<f4", "f"),
    "i64": ("<i8", "q"),
    "i8": ("|i1", "b"),
    "u8": ("|u1", "B"),
    "bool": ("|b1", "?"),
}


class Graph:
    """Operators in a row on inputs of its own, in the IR's text form; every result is an output."""

    def __init__(self, name, small, target="cortex-m33"):
        self.name, self.inputs, self.lines, self.results = name, [], [], []
        self.small = small  # what `make test` counts
        self.target = target
        self.operators = []  # name, elements of the result and of the first operand, products

    def input(self, shape, dtype="f32", least=0.1, most=0.9):
        self.inputs.append((f"x{len(self.inputs)}", shape, dtype, least, most))
        return f"%{self.inputs[-1][0]}", shape

    def add(self, op, operands, shape, attributes="", dtype="f32", products=0):
        value = f"%v{len(self.lines)}"
        names = ", ".join(name for name, _ in operands)
        braces = f" {{{attributes}}}" if attributes else ""
        self.lines.append(f"  {value}: {dtype_of(dtype, shape)} = {op}({names}){braces}")
        self.operators.append((op, count(shape), count(operands[0][1]), products))
        self.results.append(value)
        return value, shape

    def write(self, folder):
        """The graph, and one sample of seeded noise within the ranges of its inputs."""
        inputs = ", ".join(
            f"%{name}: {dtype_of(dtype, shape)}" for name, shape, dtype, _, _ in self.inputs
        )
        path, data = folder / f"{self.name}.ir", folder / f"{self.name}.npz"
        body = "\n".join(self.lines)
        path.write_text(
            f"graph @forward({inputs}) {{\n{body}\n  return {', '.join(self.results)}\n}}\n"
        )
        generator = random.Random(1)
        with zipfile.ZipFile(data, "w") as archive:
            for name, shape, dtype, least, most in self.inputs:
                code, letter = LETTERS[dtype[0] if isinstance(dtype, tuple) else dtype]
                values = [generator.uniform(least, most) for _ in range(count(shape))]
                if dtype != "f32":
                    values = [int(value) for value in values]
                packed = struct.pack(f"<{len(values)}{letter}", *values)
                archive.writestr(f"{name}.npy", npy(code, shape, packed))
        return path, data

    def options(self, data):
        """Of `compile`: everything in float; conversions have nothing to keep or to calibrate."""
        names = sorted({op for op, *_ in self.operators if "." in op})
        kept = [word for name in names for word in ("--keep-float", f"op:{name}")]
        return ["--calibrate", data, *kept] if kept else []


def count(shape):
    elements = 1
    for extent in shape:
        elements *= extent
    return elements


def dtype_of(dtype, shape):
    """Of a dtype, or of one with what stands behind the shape."""
    dtype, behind = dtype if isinstance(dtype, tuple) else (dtype, "")
    return f"{dtype}[{','.join(map(str, shape))}]{behind}"


# ---- graphs

UNARY = (
    "abs acos asin asinh atan atanh ceil cos cosh erf exp floor hardsigmoid hardswish log"
    " log_sigmoid mish neg reciprocal relu round rsqrt sigmoid sign silu sin sinh softsign sqrt tan"
    " tanh trunc"
).split()
WITH_NUMBERS = {
    "clamp": "max = 0.6, min = 0.2",
    "elu": "alpha = 1.0, input_scale = 1.0, scale = 1.0",
    "gelu": 'approximate = "none"',
    "hardshrink": "lambd = 0.5",
    "leaky_relu": "negative_slope = 0.01",
    "pow.Tensor_Scalar": "exponent = 2.5",
    "softplus": "beta = 1.0, threshold = 20.0",
    "softshrink": "lambd = 0.5",
    "threshold": "threshold = 0.5, value = 0.0",
}
BINARY = (
    "mul.Tensor div.Tensor maximum minimum atan2 pow.Tensor_Tensor fmod.Tensor remainder.Tensor"
)
COMPARISONS = "eq ge gt le lt ne".split()


def unary(shape):
    graph = Graph(f"unary_{count(shape)}", count(shape) < 1000)
    x, above_one = graph.input(shape), graph.input(shape, least=1.1, most=3)
    for name in UNARY:
        graph.add(f"aten.{name}", [x], shape)
    graph.add("aten.acosh", [above_one], shape)
    for name, attributes in WITH_NUMBERS.items():
        graph.add(f"aten.{name}", [x], shape, attributes)
    return graph


def binary(shape):
    graph = Graph(f"binary_{count(shape)}", count(shape) < 1000)
    a, b = graph.input(shape), graph.input(shape)
    for name in ("add", "sub"):
        graph.add(f"aten.{name}.Tensor", [a, b], shape, "alpha = 1.0")
    for name in BINARY.split():
        graph.add(f"aten.{name}", [a, b], shape)
    graph.add("aten.div.Tensor_mode", [a, b], shape, 'rounding_mode = "floor"')
    for name in COMPARISONS:
        graph.add(f"aten.{name}.Tensor", [a, b], shape, dtype="bool")
    p, q = (graph.input(shape, "bool", 0, 2) for _ in range(2))
    for name in ("and", "or", "xor"):
        graph.add(f"aten.logical_{name}", [p, q], shape, dtype="bool")
    graph.add("aten.logical_not", [p], shape, dtype="bool")
    graph.add("aten.masked_fill", [a, p], shape, "value = 0.5")
    graph.add("aten.where.self", [p, a, b], shape)
    i, j = (graph.input(shape, "i64", 0, 100) for _ in range(2))
    for name in ("and", "or", "xor"):
        graph.add(f"aten.bitwise_{name}.Tensor", [i, j], shape, dtype="i64")
    graph.add("aten.bitwise_not", [i], shape, dtype="i64")
    return graph


def moves(channels, size):
    graph = Graph(f"moves_{channels}_{size}", size == 4)
    shape = [1, channels, size, size]
    x = graph.input(shape)
    graph.add("aten.cat", [x, x], [1, 2 * channels, size, size], "dim = 1")
    graph.add("aten.cat", [x, x], [1, channels, size, 2 * size], "dim = 3")
    padded = [1, channels, size + 2, size + 2]
    graph.add("aten.constant_pad_nd", [x], padded, "pad = [1, 1, 1, 1], value = 0.0")
    graph.add("aten.permute", [x], [1, size, size, channels], "dims = [0, 2, 3, 1]")
    graph.add("aten.permute", [x], [1, channels, size, size], "dims = [0, 1, 3, 2]")
    graph.add("aten.flip", [x], shape, "dims = [3]")
    half, end = channels // 2, f"start = 0, step = 1, end = {channels // 2}"
    graph.add("aten.slice.Tensor", [x], [1, half, size, size], f"dim = 1, {end}")
    end = f"start = 0, step = 2, end = {size}"
    graph.add("aten.slice.Tensor", [x], [1, channels, size, size // 2], f"dim = 3, {end}")
    one = graph.input([1, channels, 1, 1])
    graph.add("aten.expand", [one], shape, f"size = [1, {channels}, {size}, {size}]")
    graph.add("aten.view", [x], [1, count(shape)], "size = [1, -1]")
    index = graph.input([half], "i64", 0, channels)
    graph.add("aten.index_select", [x, index], [1, half, size, size], "dim = 1")
    last = ("f32", " channels_last")
    graph.add("dim_order_ops._to_dim_order_copy", [x], shape, 'layout = "channels_last"', last)
    graph.add("convert", [x], shape, 'dtype = "i64"', "i64")
    codes = f"codes = [{', '.join(str(255 - code) for code in range(256))}]"
    pixels = graph.input(shape, "u8", 0, 256)
    graph.add("lookup", [pixels], shape, f'{codes}, dtype = "u8"', "u8")
    rows, index = graph.input([1, size, size]), graph.input([1], "i64", 0, channels)
    table = graph.input([channels, size, size])
    graph.add("aten.index_put", [table, index, rows], [channels, size, size], "accumulate = false")
    return graph


def reductions(channels, size):
    graph = Graph(f"reductions_{channels}_{size}", size == 4)
    shape = [1, channels, size, size]
    x = graph.input(shape)
    for name in ("amax", "amin", "mean.dim", "sum.dim_IntList"):
        graph.add(f"aten.{name}", [x], [1, channels], "dim = [2, 3], keepdim = false")
        graph.add(f"aten.{name}", [x], [1, size, size], "dim = [1], keepdim = false")
    for name in ("argmax", "argmin"):
        graph.add(f"aten.{name}", [x], [1, size, size], "dim = 1, keepdim = false", "i64")
        graph.add(f"aten.{name}", [x], [1, channels, size], "dim = 3, keepdim = false", "i64")
    for dim in (1, 3):
        for name in ("cumsum", "softmax", "log_softmax"):
            graph.add(f"aten.{name}", [x], shape, f"dim = {dim}")
    return graph


def norms(channels, size):
    graph = Graph(f"norms_{channels}_{size}", size == 4)
    shape = [1, channels, size, size]
    x, c = graph.input(shape), graph.input([channels])
    graph.add("aten.batch_norm", [x, c, c, c, c], shape, "eps = 1e-05")
    graph.add("aten.group_norm", [x, c, c], shape, "eps = 1e-05, num_groups = 2")
    graph.add("aten.prelu", [x, graph.input([channels, 1, 1])], shape)
    rows = graph.input([1, size * size, channels])
    normalized = f"eps = 1e-05, normalized_shape = [{channels}]"
    graph.add("aten.layer_norm", [rows, c, c], rows[1], normalized)
    graph.add("aten.rms_norm", [rows, c], rows[1], normalized)
    return graph


def windows(channels, size):
    graph = Graph(f"windows_{channels}_{size}", size == 4)
    shape, half = [1, channels, size, size], [1, channels, size // 2, size // 2]
    x = graph.input(shape)
    for taps, stride, padding, result in ((2, 2, 0, half), (3, 1, 1, shape)):
        window = (
            f"ceil_mode = false, kernel_size = [{taps}, {taps}], padding = [{padding}, {padding}],"
            f" stride = [{stride}, {stride}]"
        )
        products = count(result) * taps * taps
        graph.add(
            "aten.avg_pool2d", [x], result, f"{window}, count_include_pad = true", products=products
        )
        graph.add("aten.max_pool2d", [x], result, f"{window}, dilation = [1, 1]", products=products)
    for extent in (1, size // 2):
        result, output = [1, channels, extent, extent], f"output_size = [{extent}, {extent}]"
        graph.add("aten.adaptive_avg_pool2d", [x], result, output)
        graph.add("aten.adaptive_max_pool2d", [x], result, output)
    for extent in (size * 2, size + size // 2):
        result, output = [1, channels, extent, extent], f"output_size = [{extent}, {extent}]"
        graph.add("aten.upsample_nearest2d", [x], result, output)
        graph.add("aten.upsample_bilinear2d", [x], result, f"{output}, align_corners = false")
    grid = graph.input([1, size, size, 2])
    graph.add(
        "aten.grid_sampler_2d",
        [x, grid],
        shape,
        "align_corners = false, interpolation_mode = 0, padding_mode = 0",
    )
    return graph


def products(channels, size):
    graph = Graph(f"products_{channels}_{size}", size == 4)
    pixels = size * size
    x = graph.input([1, channels, size, size])
    for outputs, taps, groups in ((channels, 1, 1), (8, 3, 1), (channels, 3, channels)):
        weight = graph.input([outputs, channels // groups, taps, taps])
        bias, pad = graph.input([outputs]), taps // 2
        graph.add(
            "aten.convolution",
            [x, weight, bias],
            [1, outputs, size, size],
            f"dilation = [1, 1], groups = {groups}, output_padding = [0, 0], padding = [{pad}, {pad}],"
            " stride = [1, 1], transposed = false",
            products=outputs * pixels * taps * taps * channels // groups,
        )
    rows = graph.input([pixels, channels])
    weight, bias = graph.input([32, channels]), graph.input([32])
    graph.add("aten.linear", [rows, weight, bias], [pixels, 32], products=pixels * 32 * channels)
    one = graph.input([1, channels * 16])
    weight = graph.input([10, channels * 16])
    graph.add("aten.linear", [one, weight], [1, 10], products=160 * channels)
    other, square = graph.input([channels, 16]), pixels * 16 * channels
    graph.add("aten.matmul", [rows, other], [pixels, 16], products=square)
    heads, keys = graph.input([2, size, channels]), graph.input([2, channels, size])
    graph.add("aten.matmul", [heads, keys], [2, size, size], products=2 * pixels * channels)
    return graph


def conversions(shape):
    """On a machine whose programs convert with the portable kernels: in one order, and of images
    between channels first and channels last."""
    elements = count(shape)
    graph = Graph(f"conversions_{'x'.join(map(str, shape))}", elements < 1000, "imxrt700")
    last = CODES[0], f" channels_last{CODES[1]}"
    orders = (CODES, last) if len(shape) == 4 else (CODES,)
    for codes in orders:
        graph.add("quantize", [graph.input(shape)], shape, dtype=codes)
        graph.add("dequantize", [graph.input(shape, codes, -100, 100)], shape)
    return graph


def graphs():
    for shape in ([1, 10], [1, 64], [1, 2048], [1, 4, 8, 8], [1, 16, 12, 12]):
        yield conversions(shape)
    for shape in ([1, 64], [1, 2048]):
        yield unary(shape)
    for shape in ([1, 4, 8, 8], [1, 1024]):
        yield binary(shape)
    for make in (moves, reductions, norms, windows, products):
        for channels, size in ((4, 8), (16, 4), (16, 12)):
            yield make(channels, size)


# ---- fit

# Costs that are not fitted. What it takes to choose among boxes depends on them: so much a score, of
# test/data/litert/ssd.tflite.
KEPT = {
    "tflite.detection_postprocess": [3000, 0, 140, 0],
    "tflite.non_max_suppression": [3000, 0, 140, 0],
}


def solve(rows, targets):
    """The factors of the least squares, by the normal equations; None if they are singular."""
    n = len(rows[0])
    matrix = [
        [sum(row[i] * row[j] for row in rows) for j in range(n)]
        + [sum(row[i] * target for row, target in zip(rows, targets))]
        for i in range(n)
    ]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(matrix[r][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        if abs(matrix[i][i]) < 1e-12 * (1 + abs(matrix[i][n])):
            return None
        for r in range(n):
            if r != i:
                factor = matrix[r][i] / matrix[i][i]
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[i])]
    return [matrix[i][n] / matrix[i][i] for i in range(n)]


def fit(samples):
    """The factors for (1, result, operand, products), of (those, counted instructions), none below
    zero: the best of all subsets."""
    best, least = [0, 0, 0, 0], float("inf")
    subsets = [c for n in (1, 2, 3, 4) for c in itertools.combinations(range(4), n)]
    for columns in subsets:
        rows = [[features[i] / counted for i in columns] for features, counted in samples]
        found = solve(rows, [1.0] * len(rows)) if len(rows) >= len(columns) else None
        if found is None or min(found) < 0:
            continue
        error = sum((sum(a * b for a, b in zip(row, found)) - 1) ** 2 for row in rows)
        # A factor that explains nothing more stays out.
        if error < least * 0.98 - 1e-9:
            best, least = [0, 0, 0, 0], error
            for column, factor in zip(columns, found):
                best[column] = factor
    return best


def samples_of(bench):
    """{operator: [((1, result, operand, products), counted instructions, estimate)]}"""
    samples = {}
    for graph in graphs():
        path, data = graph.write(bench.work)
        _, layers = bench.layers(
            graph.name, graph.target, path, data, graph.options(data), exact=False
        )
        if len(layers) != len(graph.operators):
            sys.exit(f"{graph.name}: {len(layers)} kernels for {len(graph.operators)} operators")
        for (op, *work), layer in zip(graph.operators, layers):
            samples.setdefault(op, []).append(
                ((1, *work), layer["instructions"], layer["estimate"])
            )
    return samples


def main():
    import cortex_m  # which takes the graphs from here

    cortex_m.use_ccache()
    with tempfile.TemporaryDirectory() as folder:
        bench = cortex_m.Bench(Path(sys.argv[1]).resolve(), Path(folder))
        samples = samples_of(bench)
    rows = []
    for op, of in sorted(({op: [] for op in KEPT} | samples).items()):
        factors = KEPT.get(op) or fit([(features, counted) for features, counted, _ in of])
        errors = [
            sum(a * b for a, b in zip(features, factors)) / counted - 1
            for features, counted, _ in of
        ]
        now = [counted / estimate for _, counted, estimate in of if estimate]
        print(
            f"{op:32} {' '.join(f'{factor:9.2f}' for factor in factors)}   fitted within"
            f" {min(errors, default=0):+.0%} {max(errors, default=0):+.0%}; counted / estimate"
            f" {min(now, default=0):.2f} to {max(now, default=0):.2f}"
        )
        numbers = ", ".join(str(round(100 * factor)) for factor in factors)
        rows.append(f'DTR_KERNEL_COST("{op}", {numbers})')
    if "--update" in sys.argv:
        text = COSTS.read_text()
        COSTS.write_text(text[: re.search(r"^DTR_", text, re.M).start()] + "\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
