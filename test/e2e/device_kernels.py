#!/usr/bin/env python3
"""The Cortex-M kernels as firmware under QEMU on random operators, two programs of many operators
each: with the DSP extension on a Cortex-M33 and with MVE on a Cortex-M55, byte for byte the host's
plain loops, which test_cortex_m holds against the integer reference. Standard library only.

    device_kernels.py DEUTERON [SEED]

Channels are mostly no multiples of 4 or 16, windows have every stride, padding, dilation and group;
some results are cut off by their range, some have multipliers above 1, and weights have −128 beside
−128.
"""
import random
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from checks import finish, npy

OPERATORS = 64
TARGETS = (("cortex-m33", "qemu-an505"), ("cortex-m55", "qemu-an547"))


def shape_text(shape):
    return ",".join(map(str, shape))


class Graph:
    """Operators side by side, each with inputs and an output of its own."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.inputs, self.lines, self.outputs = [], [], []  # inputs: name, shape

    def below(self, *ranges):
        return [self.random.randint(*r) for r in ranges]

    def quantization(self, scale=None):
        return f"quant<{scale or self.random.uniform(0.02, 0.1):.6f}:{self.random.choice([0, -128, 127, self.random.randint(-128, 127)])}>"

    def input(self, shape, quantization=None):
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, shape, quantization or self.quantization()))
        return f"%{name}"

    def constant(self, shape, quantization):
        name = f"%c{len(self.lines)}"
        count = 1
        for extent in shape:
            count *= extent
        lowest = self.random.random() < 0.3
        values = [
            -128 if lowest and self.random.random() < 0.5 else self.random.randint(-128, 127)
            for _ in range(count)
        ]
        self.lines.append(
            f"{name}: i8[{shape_text(shape)}] {quantization} = constant"
            f" dense<{', '.join(map(str, values))}>"
        )
        return name

    def bias(self, outputs):
        if self.random.random() < 0.2:
            return "_"
        name = f"%b{len(self.lines)}"
        values = ", ".join(str(self.random.randint(-20000, 20000)) for _ in range(outputs))
        self.lines.append(f"{name}: i32[{outputs}] quant<bias> = constant dense<{values}>")
        return name

    def result(self, shape, call, quantization=None):
        name = f"%y{len(self.outputs)}"
        self.lines.append(
            f"{name}: i8[{shape_text(shape)}] {quantization or self.quantization()} = {call}"
        )
        self.outputs.append(name)

    def scale_of_sum(self, depth):
        """Of a sum of `depth` products with steps 0.05 · 0.01: its standard deviation is a third of
        the range, or more than that."""
        return 0.05 * 0.01 * 5400 * depth**0.5 / self.random.choice([30, 60, 120, 40000])

    def weights(self, shape, outputs, per_tensor=False):
        scales = [f"{self.random.uniform(0.005, 0.02):.6f}" for _ in range(outputs)]
        return self.constant(
            shape, f"quant<{scales[0]}>" if per_tensor else f"quant<axis=0, {', '.join(scales)}>"
        )

    # ---- operators

    def window(self, height, width):
        kernel = self.below((1, min(4, height)), (1, min(4, width)))
        dilation = [
            self.random.randint(1, 2) if (k - 1) * 2 < extent else 1
            for k, extent in zip(kernel, (height, width))
        ]
        stride, padding = self.below((1, 3), (1, 3)), [
            self.random.randint(0, k - 1) for k in kernel
        ]
        if self.random.random() < 0.3:
            kernel, padding, dilation = [1, 1], [0, 0], [1, 1]
        outputs = [
            (extent + 2 * p - d * (k - 1) - 1) // s + 1
            for extent, p, d, k, s in zip((height, width), padding, dilation, kernel, stride)
        ]
        return kernel, stride, padding, dilation, outputs

    def attributes(
        self, stride, padding, dilation, groups, output_padding=(0, 0), transposed=False
    ):
        activation = self.random.choice(['activation = "relu", ', 'activation = "relu6", ', ""])
        return (
            f"{{{'' if transposed else activation}dilation = {dilation}, groups = {groups},"
            f" output_padding = {list(output_padding)}, padding = {padding}, stride = {stride},"
            f" transposed = {str(transposed).lower()}}}"
        )

    def convolution(self, depthwise=False):
        groups = self.random.choice([1, 1, 1, 2, 3])
        group_in, group_out = self.below((1, 40 // groups), (1, 40 // groups))
        if depthwise:
            groups, group_in, group_out = (
                self.random.randint(2, 40),
                1,
                self.random.choice([1, 1, 1, 2, 3]),
            )
        batch, height, width = self.below((1, 2), (2, 7), (2, 7))
        kernel, stride, padding, dilation, outputs = self.window(height, width)
        channels = groups * group_out
        x = self.input([batch, groups * group_in, height, width], self.quantization(0.05))
        weight, bias = self.weights([channels, group_in, *kernel], channels), self.bias(channels)
        self.result(
            [batch, channels, *outputs],
            (
                f"aten.convolution({x}, {weight}, {bias})"
                f" {self.attributes(stride, padding, dilation, groups)}"
            ),
            self.quantization(self.scale_of_sum(group_in * kernel[0] * kernel[1])),
        )

    def depthwise(self):
        self.convolution(depthwise=True)

    def transposed_convolution(self):
        group_in, group_out, groups = self.below((1, 18), (1, 18), (1, 2))
        height, width = self.below((1, 5), (1, 5))
        kernel, stride = self.below((1, 3), (1, 3)), self.below((1, 3), (1, 3))
        padding = [self.random.randint(0, k - 1) for k in kernel]
        outputs = [
            (extent - 1) * s - 2 * p + k
            for extent, s, p, k in zip((height, width), stride, padding, kernel)
        ]
        if min(outputs) < 1:
            return self.transposed_convolution()
        x = self.input([1, groups * group_in, height, width], self.quantization(0.05))
        weight, bias = self.weights(
            [groups * group_in, group_out, *kernel], 1, per_tensor=True
        ), self.bias(groups * group_out)
        return self.result(
            [1, groups * group_out, *outputs],
            (
                f"aten.convolution({x}, {weight}, {bias})"
                f" {self.attributes(stride, padding, [1, 1], groups, transposed=True)}"
            ),
            self.quantization(self.scale_of_sum(group_in)),
        )

    def linear(self):
        rows, inputs, outputs = self.below((1, 5), (1, 70), (1, 21))
        x = self.input([rows, inputs], self.quantization(0.05))
        weight, bias = self.weights(
            [outputs, inputs], outputs, per_tensor=self.random.random() < 0.4
        ), self.bias(outputs)
        once = self.random.choice(["", " {one_rounding = true}"])
        self.result(
            [rows, outputs],
            f"aten.linear({x}, {weight}, {bias}){once}",
            self.quantization(self.scale_of_sum(inputs)),
        )

    def matmul(self):
        batch, rows, inner, columns = self.below((1, 3), (1, 9), (1, 40), (1, 9))
        x, right = self.input([batch, rows, inner], self.quantization(0.05)), [
            batch,
            inner,
            columns,
        ]
        y = (
            self.input(right, self.quantization(0.01))
            if self.random.random() < 0.6
            else self.constant(right, self.quantization(0.01))
        )
        self.result(
            [batch, rows, columns],
            f"aten.matmul({x}, {y})",
            self.quantization(self.scale_of_sum(inner)),
        )

    def binary(self):
        name = self.random.choice(
            ["add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum", "prelu", "div.Tensor"]
        )
        shape = self.below((1, 2), (1, 21), (1, 5), (1, 5))
        other = self.random.choice(
            [
                shape,
                [shape[0], shape[1], 1, 1],
                [1, shape[1], 1, 1],
                [1, 1, 1, shape[3]],
                [1, 1, 1, 1],
            ]
        )
        alpha = " {alpha = 1.0}" if name in ("add.Tensor", "sub.Tensor") else ""
        if name == "prelu":
            other = self.random.choice([[1, shape[1], 1, 1], [1, 1, 1, 1]])
        y = self.constant(other, self.quantization(0.01)) if name == "prelu" else self.input(other)
        self.result(shape, f"aten.{name}({self.input(shape)}, {y}){alpha}")

    def pool(self):
        batch, channels, height, width = self.below((1, 2), (1, 40), (2, 8), (2, 8))
        kernel, stride = self.below((1, min(4, height)), (1, min(4, width))), self.below(
            (1, 3), (1, 3)
        )
        padding = [self.random.randint(0, k // 2) for k in kernel]
        outputs = [
            (extent + 2 * p - k) // s + 1
            for extent, p, k, s in zip((height, width), padding, kernel, stride)
        ]
        text = f"kernel_size = {kernel}, padding = {padding}, stride = {stride}"
        quantization = self.quantization()
        x = self.input([batch, channels, height, width], quantization)
        if self.random.random() < 0.5:
            call, of_result = (
                f"aten.max_pool2d({x}) {{ceil_mode = false, dilation = [1, 1], {text}}}",
                quantization,
            )
        else:
            padded = self.random.choice(["true", "false"])
            call = (
                f"aten.avg_pool2d({x}) {{ceil_mode = false, count_include_pad = {padded}, {text}}}"
            )
            of_result = self.random.choice([quantization, None])
        self.result([batch, channels, *outputs], call, of_result)

    def mean(self):
        shape = self.below((1, 2), (1, 21), (1, 6), (1, 6))
        dims = self.random.choice([[2, 3], [1], [3], [1, 2, 3], [0]])
        result = [1 if i in dims else extent for i, extent in enumerate(shape)]
        self.result(result, f"aten.mean.dim({self.input(shape)}) {{dim = {dims}, keepdim = true}}")

    def softmax(self):
        rows, columns = self.below((1, 5), (1, 21))
        self.result(
            [rows, columns],
            f"aten.softmax({self.input([rows, columns])}) {{dim = -1}}",
            self.random.choice(["quant<0.00390625:-128>", None]),
        )

    def table(self):
        shape = self.below((1, 2), (1, 37), (1, 5), (1, 5))
        self.result(
            shape,
            f"aten.{self.random.choice(['hardswish', 'sigmoid', 'tanh'])}({self.input(shape)})",
        )

    def text(self):
        head = ", ".join(
            f"%{name}: i8[{shape_text(shape)}] {quantization}"
            for name, shape, quantization in self.inputs
        )
        body = "".join(f"  {line}\n" for line in self.lines)
        return f"graph @forward({head}) {{\n{body}  return {', '.join(self.outputs)}\n}}\n"


KINDS = (
    Graph.convolution,
    Graph.convolution,
    Graph.convolution,
    Graph.depthwise,
    Graph.depthwise,
    Graph.linear,
    Graph.linear,
    Graph.matmul,
    Graph.binary,
    Graph.binary,
    Graph.binary,
    Graph.pool,
    Graph.mean,
    Graph.transposed_convolution,
    Graph.softmax,
    Graph.table,
)


def write_inputs(path, graph):
    with zipfile.ZipFile(path, "w") as archive:
        for name, shape, _ in graph.inputs:
            count = 1
            for extent in shape:
                count *= extent
            values = bytes(graph.random.randrange(256) for _ in range(count))
            archive.writestr(f"{name}.npy", npy("|i1", (1, *shape), values))


def run(*command):
    done = subprocess.run(
        list(map(str, command)), text=True, stdin=subprocess.DEVNULL, capture_output=True
    )
    if done.returncode:
        sys.exit(
            f"FAILED {' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )


def arrays(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def main():
    deuteron = Path(sys.argv[1]).resolve()
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    failures = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for number, (target, board) in enumerate(TARGETS):
            graph = Graph(1000 * seed + number)
            for i in range(OPERATORS):
                KINDS[i % len(KINDS)](graph)
            model, data, program = (
                folder / "kernels.ir",
                folder / "inputs.npz",
                folder / "kernels.pte",
            )
            model.write_text(graph.text())
            write_inputs(data, graph)
            run(
                deuteron,
                "compile",
                model,
                "--target",
                target,
                "--io",
                "int8",
                "--no-check",
                "-o",
                program,
            )
            run(deuteron, "run", program, "--input", data, "--output", folder / "host.npz")
            run(
                deuteron,
                "run",
                program,
                "--input",
                data,
                "--on",
                board,
                "--output",
                folder / "device.npz",
            )
            host, device = arrays(folder / "host.npz"), arrays(folder / "device.npz")
            wrong = [name for name in host if host[name] != device.get(name)]
            results = [line for line in graph.lines if line.startswith("%y")]
            for name in wrong:
                failures.append(f"{target}: {results[int(name.split('_')[1].split('.')[0])]}")
            constant = sum(len(set(data[data.index(b"\n") + 1 :])) < 2 for data in host.values())
            print(
                f"{target} on {board}: {len(host) - len(wrong)} of {len(host)} operators equal,"
                f" {constant} results with one value"
            )
    finish(failures)


if __name__ == "__main__":
    main()
