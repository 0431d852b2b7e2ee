#!/usr/bin/env python3
"""The latencies that NXP publishes for i.MX RT700 (and others of MCX N947 and i.MX 95) against what `deuteron compile` prints for the
same networks with seeded weights: the tables of docs/npu.md 6 between two marks. Nothing but
options of the command stands between the machine and the table. Standard library only.

    bench/calibrate.py [--deuteron build/release/deuteron] [--check]     --check: exit code 1 if the
    page or compiler/targets/target.cpp says otherwise
"""
import argparse
import itertools
import json
import math
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE, TARGETS = ROOT / "docs/npu.md", ROOT / "compiler/targets/target.cpp"
BEGIN, END = "<!-- Written by bench/calibrate.py: begin -->\n", "<!-- bench/calibrate.py: end -->\n"
SCHEDULE = ("--schedule", "nxp-like", "--io", "int8")
# constants that explain every figure to this are told apart from those that explain them as the
# machine does
CLOSE = 0.10


class Network:
    """Appends quantized operators to the text of a graph, channels-last."""

    def __init__(self, channels, height, width):
        self.shape, self.last, self.macs = (channels, height, width), 0, 0
        self.text = (
            f"graph @forward(%v0: i8[1,{channels},{height},{width}] channels_last quant<0.05>) {{\n"
        )

    def convolution(self, out, kernel, stride, begin, end, depthwise=False):
        """`kernel`, `begin`, `end`: of height and width; the padding in front and behind."""
        channels, *sizes = self.shape
        groups = channels if depthwise else 1
        sizes = [
            (size + a + b - k) // stride + 1 for size, k, a, b in zip(sizes, kernel, begin, end)
        ]
        self.macs += out * math.prod(sizes) * math.prod(kernel) * channels // groups
        constants = (
            f"  %w{{0}}: i8[{out},{channels // groups},{kernel[0]},{kernel[1]}] quant<0.01> ="
            f" constant seeded<{{0}}>\n  %b{{0}}: i32[{out}] quant<bias> = constant seeded<{{0}}>\n"
        )
        self.add(
            (
                "aten.convolution(%v{1}, %w{0}, %b{0}) {{activation = \"relu6\", dilation"
                f" = [1, 1], groups = {groups}, output_padding = [0, 0], padding = {list(begin)},"
                f" padding_end = {list(end)}, stride = [{stride}, {stride}], transposed = false}}}}"
            ),
            (out, *sizes),
            constants,
        )

    def max_pool(self, kernel, stride):
        channels, *sizes = self.shape
        self.add(
            (
                "aten.max_pool2d(%v{1}) {{ceil_mode = false, dilation = [1, 1], kernel_size ="
                f" [{kernel}, {kernel}], padding = [0, 0], stride = [{stride}, {stride}]}}}}"
            ),
            (channels, *((size - kernel) // stride + 1 for size in sizes)),
        )

    def average(self):
        channels, height, width = self.shape
        self.add(
            (
                "aten.avg_pool2d(%v{1}) {{ceil_mode = false, count_include_pad = true,"
                f" kernel_size = [{height}, {width}], padding = [0, 0], stride = [{height},"
                f" {width}]}}}}"
            ),
            (channels, 1, 1),
        )

    def classifier(self, classes):
        features = math.prod(self.shape)
        self.macs += features * classes
        self.add(f"aten.view(%v{{1}}) {{{{size = [1, {features}]}}}}", (features,))
        constants = (
            f"  %w{{0}}: i8[{classes},{features}] quant<0.01> = constant seeded<{{0}}>\n"
            f"  %b{{0}}: i32[{classes}] quant<bias> = constant seeded<{{0}}>\n"
        )
        self.add("aten.linear(%v{1}, %w{0}, %b{0})", (classes,), constants)

    def add(self, op, shape, constants=""):
        here, before = self.last + 1, self.last
        layout = " channels_last" if len(shape) == 3 else ""
        dims = ",".join(map(str, (1, *shape)))
        self.text += (
            constants.format(here)
            + f"  %v{here}: i8[{dims}]{layout} quant<0.05> = {op.format(here, before)}\n"
        )
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
        return ((0, 0) if stride == 2 else (1, 1)), (
            1,
            1,
        )  # TFLite's SAME of an even input at stride 2 is all behind

    net = Network(3, size, size)
    net.convolution(32 * quarters // 4, (3, 3), 2, *same(2))
    for out, stride in (
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        *[(512, 1)] * 5,
        (1024, 2),
        (1024, 1),
    ):
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


def autoencoder():
    """MLPerf Tiny's ad_fcae."""
    net = Network(640, 1, 1)
    for width in (128, 128, 128, 128, 8, 128, 128, 128, 128, 640):
        net.classifier(width)
    return net


@dataclass
class Published:
    name: str
    net: Network
    macs: int
    classes: int
    milliseconds: tuple  # every figure that is published
    constants: str  # where the example has them


RUNS = (
    Published("CIFARNet", cifar_net(), 12_298_240, 10, (1.027,), "sram"),
    Published("MobileNetV1-0.25-128", mobilenet_v1(1, 128), 13_570_304, 1001, (2.759,), "sram"),
    Published("MobileNetV1-1.0-224", mobilenet_v1(4, 224), 568_741_376, 1001, (53.376,), "flash"),
    Published("DS-CNN-S", ds_cnn_s(), 2_656_768, 12, (0.576, 0.595), "sram"),
)
# Runs of another chip, which chose no constant: (network, published ms, who measured).
PREDICTED_TARGET = "mcxn947"
PREDICTED = (
    (Published("CIFARNet", cifar_net(), 12_298_240, 10, (7.130,), ""), "a third party's log"),
    (Published("ad_fcae", autoencoder(), 264_192, 640, (0.797,), ""), "NXP's eiq-model-zoo"),
)
# MobileNetV2 at 224 x 224 on i.MX 95, by a third party.
LARGE_TARGET, LARGE_MODEL, LARGE_MACS, LARGE_MS = "imx95", "mobilenet_v2", 300_774_272, 3.17
# Programs whose times nobody publishes: what the constants that fit say of them.
OTHERS = ("kws_dscnn", "ic_resnet8", "vww_mobilenetv1", "ad_fcae")


def constant(name):
    """A number of compiler/targets/target.cpp; the first with the name is the i.MX RT700's."""
    found = re.search(rf"\b{name} = ([\d']+)( \* kMHz)?", TARGETS.read_text())
    return int(found.group(1).replace("'", "")) * (1_000_000 if found.group(2) else 1)


@dataclass
class Row:
    """What the command says of a network: cycles that no constant below moves, and how often each
    of them counts."""

    name: str
    report: dict
    calls: int
    outputs: int
    inputs: int

    @property
    def cycles(self):
        return self.report["npu_total_cycles"] + self.report["cpu_cycles"]

    def rest(self, call_host):
        return self.cycles - self.calls * call_host

    def counts(self):
        return self.calls, self.outputs, self.inputs


def compile_network(
    deuteron, folder, name, graph, constants, outputs, target="imxrt700", schedule=SCHEDULE
):
    report = folder / "report.json"
    subprocess.run(
        [
            deuteron,
            "compile",
            graph,
            *schedule,
            "--target",
            target,
            "--constants",
            constants,
            "-o",
            folder / "net.pte",
            "--report-json",
            report,
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    made = json.loads(report.read_text())
    shape = re.search(r"graph @forward\(%\w+: \w+\[([\d,]+)\]", graph.read_text()).group(1)
    return Row(name, made, made["npu_calls"], outputs, math.prod(map(int, shape.split(","))))


def elements_of_output(graph):
    """Of a stored graph, whose last value is what it returns."""
    text = graph.read_text()
    name = re.search(r"return %(\w+)", text).group(1)
    return math.prod(map(int, re.search(rf"%{name}: \w+\[([\d,]+)\]", text).group(1).split(",")))


# ---- fits: cycles = rest + call · calls + class · outputs + element · inputs, constants from 0 on


def solve(rows):
    """Three equations a·x = b, or None where they do not have one solution."""
    matrix = [list(map(float, [*a, b])) for a, b in rows]
    for i in range(3):
        pivot = max(range(i, 3), key=lambda r: abs(matrix[r][i]))
        if abs(matrix[pivot][i]) < 1e-9:
            return None
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        for r in range(3):
            if r != i:
                factor = matrix[r][i] / matrix[i][i]
                matrix[r] = [x - factor * y for x, y in zip(matrix[r], matrix[i])]
    return [matrix[i][3] / matrix[i][i] for i in range(3)]


def corners(figures, worst, used=(True, True, True)):
    """Corners of the set of constants that explain each figure, (rest, counts, published cycles),
    to `worst`; a constant that is not used is 0."""
    limits = []
    for rest, counts, published in figures:
        for sign in (1, -1):
            limits.append(
                ([sign * count for count in counts], sign * (published - rest) + worst * published)
            )
    for i in range(3):
        axis = [0, 0, 0]
        axis[i] = -1
        limits.append((axis, 0))
        if not used[i]:
            limits.append(([-x for x in axis], 0))
    found = []
    for planes in itertools.combinations(limits, 3):
        point = solve(planes)
        if point and all(
            sum(a * x for a, x in zip(side, point)) <= bound + 1e-6 * max(1, abs(bound))
            for side, bound in limits
        ):
            found.append([max(0.0, x) for x in point])
    return found


def best_fit(figures, used):
    """The constants whose largest error is least, and that error."""
    low, high = 0.0, 2.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if corners(figures, middle, used) else (middle, high)
    return corners(figures, high, used)[0], high


def percent(share):
    return f"{'+' if share >= 0 else '−'}{abs(100 * share):.1f} %"


def span(values, form="{:,.0f}"):
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def table(head, aligns, rows):
    return "".join(
        ["| " + " | ".join(row) + " |\n" for row in [head]]
        + ["|" + "|".join(aligns) + "|\n"]
        + ["| " + " | ".join(row) + " |\n" for row in rows]
    )


def predictions(deuteron, folder):
    """The table of runs that no constant has seen."""
    lines = []
    graph = folder / "net.ir"
    for run, source in PREDICTED:
        graph.write_text(run.net.finish())
        for constants in ("sram", "flash"):
            row = compile_network(
                deuteron, folder, run.name, graph, constants, run.classes, PREDICTED_TARGET
            )
            made = row.report
            if not run.net.macs == run.macs == sum(op["macs"] for op in made["operators"]):
                sys.exit(f"{run.name} has {run.net.macs} multiply-accumulates, not {run.macs}")
            printed = 1e3 * row.cycles / made["clock_hz"]
            lines.append(
                [
                    run.name,
                    constants,
                    f"{run.macs:,}",
                    str(row.calls),
                    *(f"{made[f'npu_{part}_cycles']:,}" for part in ("busy", "host", "stall")),
                    f"{printed:.3f}",
                    f"{run.milliseconds[0]:.3f}",
                    percent(printed / run.milliseconds[0] - 1),
                    source,
                ]
            )
    return (
        f"\nPredictions: `--target {PREDICTED_TARGET}`, whose runs chose no constant. Where the"
        " examples have their constants is not said; both places are printed.\n\n"
    ) + table(
        ["model", "constants", "MACs", "calls", "busy", "host", "waiting", "printed, ms"]
        + ["published, ms", "error", "measured by"],
        ["---", "---"] + ["---:"] * 8 + ["---"],
        lines,
    )


def prediction_of_large(deuteron, folder):
    """The run of i.MX 95 with either schedule: NXP's converter has one of its own for this chip."""
    stored, lines = ROOT / f"test/golden/{LARGE_MODEL}.ir", []
    for schedule in ("own", "nxp-like"):
        row = compile_network(
            *(deuteron, folder, LARGE_MODEL, stored, "flash", elements_of_output(stored)),
            *(LARGE_TARGET, ("--schedule", schedule, "--io", "int8")),
        )
        made = row.report
        if sum(op["macs"] for op in made["operators"]) != LARGE_MACS:
            sys.exit(f"{LARGE_MODEL} has not {LARGE_MACS} multiply-accumulates")
        printed = 1e3 * row.cycles / made["clock_hz"]
        lines.append(
            [
                *(LARGE_MODEL, schedule, f"{LARGE_MACS:,}", str(row.calls)),
                *(f"{made[f'npu_{part}_cycles']:,}" for part in ("busy", "host", "stall")),
                f"{printed:.3f}",
                f"{LARGE_MS:.3f}",
                percent(printed / LARGE_MS - 1),
                "a third party, in a forum",
            ]
        )
    return (
        f"\nPrediction: `--target {LARGE_TARGET}`, constants in LPDDR. No constant was chosen by"
        " the run.\n\n"
    ) + table(
        ["model", "schedule", "MACs", "calls", "busy", "host", "waiting", "printed, ms"]
        + ["published, ms", "error", "measured by"],
        ["---", "---"] + ["---:"] * 8 + ["---"],
        lines,
    )


def measure(deuteron, folder):
    """The text between the marks, and the largest error in percent of what is printed, and of what
    is said of a run that is left out."""
    clock, call_host = constant("clock_hz"), constant("call_host_cycles")
    rows, figures, errors, largest = [], [], [], 0.0
    graph = folder / "net.ir"
    for run in RUNS:
        graph.write_text(run.net.finish())
        row = compile_network(deuteron, folder, run.name, graph, run.constants, run.classes)
        made = row.report
        if (
            not run.net.macs == run.macs == sum(op["macs"] for op in made["operators"])
            or made["cpu_calls"]
        ):
            sys.exit(
                f"{run.name} has {run.net.macs} multiply-accumulates, the published model"
                f" {run.macs}; {made['cpu_calls']} calls of the CPU"
            )
        rows.append(row)
        for milliseconds in run.milliseconds:
            published = milliseconds * 1e-3 * clock
            figures.append((row, published))
            error = row.cycles / published - 1
            errors.append(abs(error))
            below, stated = made["time_error_percent"]
            assert -below == stated, made["time_error_percent"]
            line = [
                run.name,
                run.constants,
                f"{run.macs:,}",
                str(row.calls),
                f"{made['npu_busy_cycles']:,}",
                f"{made['npu_host_cycles']:,}",
                f"{made['npu_stall_cycles']:,}",
                f"{1e3 * row.cycles / clock:.3f}",
                f"{milliseconds:.3f}",
                percent(error),
                f"±{stated} %",
            ]
            largest = max(largest, abs(published / row.cycles - 1))
            figures[-1] += (line,)
    text = table(
        [
            "model",
            "constants",
            "MACs",
            "calls",
            "busy",
            "host",
            "waiting",
            "printed, ms",
            "published, ms",
            "error",
            "stated",
        ],
        ["---", "---"] + ["---:"] * 9,
        [row for _, _, row in figures],
    )

    def fit_of(kept, used):
        return best_fit(
            [(row.rest(call_host), row.counts(), published) for row, published, _ in kept], used
        )

    def predicted(row, constants):
        return row.rest(call_host) + sum(a * x for a, x in zip(row.counts(), constants))

    left_out = []
    for row in rows:
        (call, _, _), _ = fit_of(
            [figure for figure in figures if figure[0] is not row], (True, False, False)
        )
        out = [
            predicted(row, (call, 0, 0)) / published - 1
            for of, published, _ in figures
            if of is row
        ]
        largest = max([largest, *(abs(1 / (1 + error) - 1) for error in out)])
        left_out.append([row.name, f"{call:,.0f}", ", ".join(map(percent, out))])
    text += (
        "\nEach run left out: the cost of a call that fits the others best (least largest error),"
        " and what it says of the one left out.\n\n"
    )
    text += table(
        ["left out", "cycles a call, of the others", "error"], ["---", "---:", "---:"], left_out
    )

    own = max(errors)
    kinds = (
        ("a call", (True, False, False)),
        ("a call, a class", (True, True, False)),
        ("a call, an input element", (True, False, True)),
        ("a call, a class, an input element", (True, True, True)),
    )
    fits, linear = [], [
        (row.rest(call_host), row.counts(), published) for row, published, _ in figures
    ]
    for name, used in kinds:
        best, worst = fit_of(figures, used)
        cells = [
            name,
            str(sum(used)),
            ", ".join(f"{x:,.0f}" if i == 0 else f"{x:.1f}" for i, x in enumerate(best) if used[i]),
            f"{100 * worst:.1f} %",
        ]
        for limit in (CLOSE, own):
            points = corners(linear, limit, used)
            cells.append(
                "none"
                if not points
                else "; ".join(span([p[i] for p in points]) for i in range(3) if used[i])
            )
        fits.append(cells)
    text += (
        f"\nWhat the {len(figures)} figures of {len(rows)} runs say of constants: cycles for each"
        " call of the NPU, for each class of the output, for each element of the input,\nthe last"
        " two as a CPU's Softmax, Dequantize and Quantize would take them. All sets that explain"
        f" each figure to {100 * CLOSE:.0f} %, and to {100 * own:.1f} %, as the machine does.\n\n"
    )
    text += table(
        [
            "fitted",
            "constants",
            "best fit",
            "its largest error",
            f"all within {100 * CLOSE:.0f} %",
            f"all within {100 * own:.1f} %",
        ],
        ["---"] + ["---:"] * 5,
        fits,
    )

    spread = []
    close, wide = corners(linear, CLOSE), corners(linear, own)
    for name in OTHERS:
        stored = ROOT / f"test/golden/{name}.ir"
        row = compile_network(deuteron, folder, name, stored, "sram", elements_of_output(stored))
        milliseconds = [
            [1e3 * predicted(row, point) / clock for point in points] for points in (close, wide)
        ]
        spread.append(
            [
                name,
                str(row.calls),
                f"{1e3 * row.report['npu_total_cycles'] / clock:.3f}",
                *(span(m, "{:.3f}") for m in milliseconds),
            ]
        )
    text += (
        "\nWhat all those sets of three constants say of other networks (`models/*/float.pt2`, quantized here), with the same options and"
        " constants in SRAM (nobody publishes their times):\n\n"
    )
    text += table(
        [
            "model",
            "calls",
            "printed, ms",
            f"all within {100 * CLOSE:.0f} %, ms",
            f"all within {100 * own:.1f} %, ms",
        ],
        ["---"] + ["---:"] * 4,
        spread,
    )
    text += predictions(deuteron, folder) + prediction_of_large(deuteron, folder)
    return text, 100 * largest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--deuteron", type=Path, default=ROOT / "build/release/deuteron")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text, largest = measure(options.deuteron, Path(folder))
    made = BEGIN + text + END
    page = PAGE.read_text()
    new = page[: page.index(BEGIN)] + made + page[page.index(END) + len(END) :]
    print(made, end="")
    if math.ceil(largest) != constant("kPublishedErrorPercent"):
        print(
            "compiler/targets/target.cpp: kPublishedErrorPercent is"
            f" {constant('kPublishedErrorPercent')}, the largest error {largest:.2f} %"
        )
        return 1
    if options.check and new != page:
        print("docs/npu.md: the tables of bench/calibrate.py are out of date (make calibrate)")
        return 1
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
