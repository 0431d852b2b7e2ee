#!/usr/bin/env python3
"""The machine of docs/npu.md against the latencies that NXP publishes for i.MX RT700: the networks with seeded weights, compiled with
`--schedule nxp-like`, as the table of docs/npu.md that stands between two marks. Standard library only.

    bench/calibrate.py [--deuteron build/release/deuteron] [--check]     --check: exit code 1 if the page or target.h says otherwise
"""
import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE, TARGET = ROOT / "docs/npu.md", ROOT / "abi/npu/target.h"
BEGIN, END = "<!-- Written by bench/calibrate.py: begin -->\n", "<!-- bench/calibrate.py: end -->\n"
CLASS_CYCLES = 230  # of the CPU's Softmax and Dequantize in NXP's examples, a class: fitted (docs/npu.md 6)


class Network:
    """Appends quantized operators to the text of a graph, channels-last."""

    def __init__(self, channels, height, width):
        self.shape, self.last, self.macs = (channels, height, width), 0, 0
        self.text = f"graph @forward(%v0: i8[1,{channels},{height},{width}] channels_last quant<0.05>) {{\n"

    def convolution(self, out, kernel, stride, begin, end, depthwise=False):
        """`kernel`, `begin`, `end`: of height and width; the padding in front and behind."""
        channels, *sizes = self.shape
        groups = channels if depthwise else 1
        sizes = [(size + a + b - k) // stride + 1 for size, k, a, b in zip(sizes, kernel, begin, end)]
        self.macs += out * math.prod(sizes) * math.prod(kernel) * channels // groups
        constants = (f"  %w{{0}}: i8[{out},{channels // groups},{kernel[0]},{kernel[1]}] quant<0.01> = constant seeded<{{0}}>\n"
                     f"  %b{{0}}: i32[{out}] quant<bias> = constant seeded<{{0}}>\n")
        self.add("aten.convolution(%v{1}, %w{0}, %b{0}) {{activation = \"relu6\", dilation = [1, 1], "
                 f"groups = {groups}, output_padding = [0, 0], padding = {list(begin)}, padding_end = {list(end)}, stride = [{stride}, {stride}], "
                 "transposed = false}}", (out, *sizes), constants)

    def max_pool(self, kernel, stride):
        channels, *sizes = self.shape
        self.add(f"aten.max_pool2d(%v{{1}}) {{{{ceil_mode = false, dilation = [1, 1], kernel_size = [{kernel}, {kernel}], padding = [0, 0], "
                 f"stride = [{stride}, {stride}]}}}}", (channels, *((size - kernel) // stride + 1 for size in sizes)))

    def average(self):
        channels, height, width = self.shape
        self.add(f"aten.avg_pool2d(%v{{1}}) {{{{ceil_mode = false, count_include_pad = true, kernel_size = [{height}, {width}], "
                 f"padding = [0, 0], stride = [{height}, {width}]}}}}", (channels, 1, 1))

    def classifier(self, classes):
        features = math.prod(self.shape)
        self.macs += features * classes
        self.add(f"aten.view(%v{{1}}) {{{{size = [1, {features}]}}}}", (features,))
        constants = (f"  %w{{0}}: i8[{classes},{features}] quant<0.01> = constant seeded<{{0}}>\n"
                     f"  %b{{0}}: i32[{classes}] quant<bias> = constant seeded<{{0}}>\n")
        self.add("aten.linear(%v{1}, %w{0}, %b{0})", (classes,), constants)

    def add(self, op, shape, constants=""):
        here, before = self.last + 1, self.last
        layout = " channels_last" if len(shape) == 3 else ""
        dims = ",".join(map(str, (1, *shape)))
        self.text += constants.format(here) + f"  %v{here}: i8[{dims}]{layout} quant<0.05> = {op.format(here, before)}\n"
        self.last, self.shape = here, shape

    def finish(self):
        return self.text + f"  return %v{self.last}\n}}\n"


def cifar_net():
    net = Network(3, 32, 32)
    for out, pool in ((32, 2), (32, 2), (64, 1)):
        net.convolution(out, (5, 5), 1, (2, 2), (2, 2))
        net.max_pool(pool, 2)
    net.classifier(10)
    return net


def mobilenet_v1(quarters, size):
    def same(stride):
        return ((0, 0) if stride == 2 else (1, 1)), (1, 1)  # TFLite's SAME of an even input at stride 2 is all behind

    net = Network(3, size, size)
    net.convolution(32 * quarters // 4, (3, 3), 2, *same(2))
    for out, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)):
        net.convolution(net.shape[0], (3, 3), stride, *same(stride), depthwise=True)
        net.convolution(out * quarters // 4, (1, 1), 1, (0, 0), (0, 0))
    net.average()
    net.classifier(1001)
    return net


def ds_cnn_s():
    net = Network(1, 49, 10)
    net.convolution(64, (10, 4), 2, (4, 1), (5, 1))
    for _ in range(4):
        net.convolution(64, (3, 3), 1, (1, 1), (1, 1), depthwise=True)
        net.convolution(64, (1, 1), 1, (0, 0), (0, 0))
    net.average()
    net.classifier(12)
    return net


@dataclass
class Published:
    name: str
    net: Network
    macs: int
    classes: int
    milliseconds: float
    fitted: bool = False
    from_flash: bool = False


RUNS = (Published("CIFARNet", cifar_net(), 12_298_240, 10, 1.027, fitted=True),
        Published("MobileNetV1-0.25-128", mobilenet_v1(1, 128), 13_570_304, 1001, 2.759, fitted=True),
        Published("MobileNetV1-1.0-224", mobilenet_v1(4, 224), 568_741_376, 1001, 53.376, from_flash=True),
        Published("DS-CNN-S", ds_cnn_s(), 2_656_768, 12, (0.595 + 0.576) / 2))


def constant(name):
    found = re.search(rf"\b{name} = ([\d']+)", TARGET.read_text())
    return int(found.group(1).replace("'", ""))


def compile_network(deuteron, run, folder):
    graph, report = folder / "net.ir", folder / "report.json"
    graph.write_text(run.net.finish())
    subprocess.run([deuteron, "compile", graph, "--schedule", "nxp-like", "--io", "int8", "-o", folder / "net.pte", "--report-json", report],
                   check=True, stdout=subprocess.DEVNULL)
    return json.loads(report.read_text())


def measure(deuteron, folder):
    """Rows of the table, and the largest error in percent."""
    rows, largest = [], 0.0
    for run in RUNS:
        made = compile_network(deuteron, run, folder)
        if not run.net.macs == run.macs == sum(row["macs"] for row in made["operators"]):
            sys.exit(f"{run.name} has {run.net.macs} multiply-accumulates, the published model {run.macs}")
        calls, busy, wait = made["npu_calls"], made["npu_busy_cycles"], made["npu_stall_cycles"]
        host = made["npu_host_cycles"]
        if not run.from_flash:  # constants lie in SRAM from the start: nothing is copied, nobody waits
            host, wait = calls * constant("call_host_cycles"), 0
        cpu = run.classes * CLASS_CYCLES
        published = run.milliseconds * 1e-3 * constant("clock_hz")
        model = busy + host + wait + cpu
        error = 100 * (model / published - 1)
        largest = max(largest, abs(error))
        sign = "+" if error >= 0 else "−"
        rows.append(f"| {run.name} | {run.macs:,} | {calls} | {busy:,} | {host:,} | {wait:,} | {cpu:,} | {published:,.0f} | {model:,} | "
                    f"{sign}{abs(error):.1f} % | {'fitted' if run.fitted else 'predicted'} |\n")
    return rows, largest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--deuteron", type=Path, default=ROOT / "build/release/deuteron")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows, largest = measure(options.deuteron, Path(folder))
    made = (BEGIN + "| model | MACs | calls | busy | host | waiting | CPU, fitted | published | model | error | |\n|---|" + "---:|" * 9 + "---|\n"
            + "".join(rows) + END)
    page = PAGE.read_text()
    new = page[:page.index(BEGIN)] + made + page[page.index(END) + len(END):]
    print(made, end="")
    if math.ceil(largest) != constant("kTimeErrorPercent"):
        print(f"abi/npu/target.h: kTimeErrorPercent is {constant('kTimeErrorPercent')}, the largest error {largest:.2f} %")
        return 1
    if options.check and new != page:
        print("docs/npu.md: the table of bench/calibrate.py is out of date (make calibrate)")
        return 1
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
