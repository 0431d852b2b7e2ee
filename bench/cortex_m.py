#!/usr/bin/env python3
"""The Cortex-M kernels as firmware under QEMU: instructions of every layer of the MLPerf Tiny
models beside CMSIS-NN's, and sizes of code.

    cortex_m.py DEUTERON     outputs byte for byte the host's, on a Cortex-M33, a Cortex-M55 and
                             with the NPU, every count that of
                             docs/performance.md but for 0.1 %, no estimate of the compiler further
                             than 10 % from what is counted, no
                             layer further than compiler/targets/cpu_errors.inc says, of the
                             models and of the graphs of float_kernels.py, or exit code 1
    cortex_m.py DEUTERON --update-errors     write compiler/targets/cpu_errors.inc as well

The models are the quantized graphs of test/golden, whose weights are seeded, so counts need no
other data; the check runs those of DEUTERON_SHARED too, with their own weights. bench/cmsis_nn.json
says where CMSIS-NN's figures come from. `make bench` writes what is measured here into
bench/performance.json and the page. Standard library only.
"""
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import device_project
import float_kernels
from npy import npy
from tables import ratio, table

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("DEUTERON_SHARED") or ROOT.parent / "shared")
RECORD, ERRORS = ROOT / "bench/performance.json", ROOT / "compiler/targets/cpu_errors.inc"
MODELS = ("kws_dscnn", "ic_resnet8", "vww_mobilenetv1", "ad_fcae")
CORES = ("cortex-m33", "cortex-m55")
FLOAT_BORDERS = ("kws_dscnn", "vww_mobilenetv1")  # for imxrt700, where the float kernels convert
NOISE = (
    0.001,
    100,
)  # counts differ from run to run: part of the count, and instructions of the board's timer
ESTIMATE = 0.1
SLACK = 3  # percent of an estimate by which a stated error may be above the counted one
# Kinds of layers by kernel; what stands at the border to float, or moves bytes, has no counterpart.
KINDS = {
    "quantized_conv2d": "conv",
    "quantized_depthwise_conv2d": "depthwise",
    "quantized_linear": "linear",
    "quantized_avg_pool2d": "avgpool",
    "quantized_sum": "avgpool",
    "quantized_add": "add",
    "softmax": "softmax",
}
EVERY_FAMILY = "all of kws_dscnn"
FAMILIES = {
    "convolution": ("convolution.cpp",),
    "depthwise": ("depthwise.cpp", "depthwise_mve.cpp"),
    "linear": ("linear.cpp",),
    "average pool": ("pool.cpp",),
    "softmax": ("softmax.cpp",),
    "add": ("binary.cpp",),
    "read arguments (convolutions, pools)": ("convolution_arguments.cpp", "image.cpp"),
}


def run(*command, cwd=None):
    done = subprocess.run(
        list(map(str, command)), text=True, stdin=subprocess.DEVNULL, capture_output=True, cwd=cwd
    )
    if done.returncode:
        sys.exit(
            f"FAILED {' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )


def arrays(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def noise(graph, path):
    """One sample of seeded noise for the input of a graph as text."""
    name, shape = re.search(r"graph @forward\(%(\w+): f32\[([\d,]+)\]", graph.read_text()).groups()
    shape, count = tuple(map(int, shape.split(","))), 1
    for extent in shape:
        count *= extent
    generator = random.Random(1)
    values = struct.pack(f"<{count}f", *(generator.gauss(0, 1) for _ in range(count)))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.npy", npy("<f4", shape, values))
    return path


def use_ccache():
    """Firmware projects have most of their sources in common."""
    if shutil.which("ccache"):
        os.environ |= {
            "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
            "CCACHE_NOHASHDIR": "1",
            "CCACHE_BASEDIR": tempfile.gettempdir(),
        }


def widen(ranges, key, value):
    least, greatest = ranges.get(key, (value, value))
    ranges[key] = min(least, value), max(greatest, value)


class Bench:
    def __init__(self, deuteron, work):
        self.deuteron, self.work, self.failures = deuteron, work, []
        # By kernel and core: the least and the greatest count / estimate - 1 of a layer; of the
        # whole programs of MODELS by core, with their MACs; the kernels that these run.
        self.errors, self.sums, self.kernels = {}, {}, set()
        self.of_graphs = set()  # kernels that the graphs of float_kernels.py count

    def compile(self, model, target, options):
        program, report = self.work / f"{target}.pte", self.work / "report.json"
        run(
            self.deuteron,
            "compile",
            model,
            *options,
            "--target",
            target,
            "--no-check",
            "-o",
            program,
            "--report-json",
            report,
        )
        return program, json.loads(report.read_text())

    def outputs(self, program, data, *options):
        run(
            self.deuteron,
            "run",
            program,
            "--input",
            data,
            "--samples",
            1,
            "--output",
            self.work / "out.npz",
            *options,
        )
        return arrays(self.work / "out.npz")

    def layers(self, name, target, model, data, options=(), exact=True):
        """Kernel, operator, MACs, estimate and instructions of every step; outputs on the board are
        the host's, if they should be `exact`: mathematical functions in float are those of the C
        library."""
        program, report = self.compile(model, target, options)
        host = self.outputs(program, data)
        device = self.outputs(
            program, data, "--on", "qemu", "--stats-json", self.work / "stats.json"
        )
        if exact and host != device:
            self.failures.append(
                f"{name} for {target}: outputs on the board differ from the host's"
            )
        steps = json.loads((self.work / "stats.json").read_text())["steps"]
        self.keep_errors(target, report["operators"], steps)
        if name in MODELS and target in CORES:
            self.keep_sum(target, report["operators"], steps)
        names = (
            report["operators"]
            if len(report["operators"]) == len(steps)
            else [{"name": "", "macs": 0, "cpu_cycles": 0}] * len(steps)
        )
        return host, [
            {
                "kernel": step["kernel"].split("::")[-1],
                "name": op["name"],
                "macs": op["macs"],
                "estimate": op["cpu_cycles"],
                "instructions": step["instructions"],
            }
            for step, op in zip(steps, names)
        ]

    def keep_errors(self, target, operators, steps):
        """Of every estimate. Steps of the NPU have none; its calls are one step and several
        operators."""
        estimates = [
            (op["kernel"], op["cpu_cycles"]) for op in operators if op["backend"] != "neutron"
        ]
        counted = [step["instructions"] for step in steps if "::" in step["kernel"]]
        if len(estimates) != len(counted):
            self.failures.append(
                f"{target}: {len(estimates)} kernels of the CPU in the report, {len(counted)} on"
                " the board"
            )
            return
        for (kernel, estimate), instructions in zip(estimates, counted):
            if estimate > 0:
                key = kernel, "cortex-m55" if target == "cortex-m55" else "cortex-m33"
                widen(self.errors, key, instructions / estimate - 1)

    def keep_sum(self, core, operators, steps):
        """Of a program without NPU: everything it runs, conversions and copies too."""
        self.kernels |= {op["kernel"] for op in operators}
        counted = sum(step["instructions"] for step in steps)
        widen(self.sums, core, counted / sum(op["cpu_cycles"] for op in operators) - 1)
        widen(self.sums, f"{core} MACs", sum(op["macs"] for op in operators))

    def graph(self, model):
        graph = ROOT / f"test/golden/{model}.ir"
        return graph, noise(graph, self.work / "noise.npz")

    def counts(self, model, cores=CORES):
        return {core: self.layers(model, core, *self.graph(model))[1] for core in cores}


def kernel_layers(layers):
    return [layer for layer in layers if layer["kernel"] in KINDS]


def known(layer):
    """What is the same in every run."""
    return {key: value for key, value in layer.items() if key != "instructions"}


def total(layers, what="instructions"):
    return sum(layer[what] for layer in kernel_layers(layers))


def estimate_error(layers):
    """Of the compiler's cycles for a model, against the instructions that were counted."""
    return total(layers, "estimate") / total(layers) - 1


# ---- check


def check_own_weights(bench, model, boards):
    """The same bytes for every target on the host, and on the boards of some of them."""
    folder = next(
        (
            f
            for f in (SHARED / "models" / model, ROOT / "models" / model)
            if (f / "float.pt2").exists()
        ),
        None,
    )
    if folder is None:
        return False
    first, data = None, folder / "calibration.npz"
    for target in (*CORES, "imxrt700cm"):
        options = ("--calibrate", data)
        if target in boards:
            host, _ = bench.layers(model, target, folder / "float.pt2", data, options)
        else:
            host = bench.outputs(bench.compile(folder / "float.pt2", target, options)[0], data)
        first = first or host
        if host != first:
            bench.failures.append(f"{model} for {target}: outputs differ from those for {CORES[0]}")
    return True


def check_float_kernels(bench, update):
    """Portable kernels, each alone at several sizes; the check takes the small ones."""
    before, bench.errors = bench.errors, {}
    for graph in float_kernels.graphs():
        if not update and not graph.small:
            continue
        path, data = graph.write(bench.work)
        cores = CORES if update and graph.target in CORES else (graph.target,)
        for core in cores:
            bench.layers(graph.name, core, path, data, graph.options(data), exact=False)
    bench.of_graphs = {kernel for kernel, _ in bench.errors}
    for key, ends in before.items():
        for end in ends:
            widen(bench.errors, key, end)


def same_count(now, recorded):
    return abs(now - recorded) <= NOISE[0] * recorded + NOISE[1]


ROW = re.compile(r'^DTR_CPU_ERROR\("([^"]+)", (\d+), (\d+), (\d+), (\d+)\)$', re.MULTILINE)
PROGRAMS = re.compile(
    r"^DTR_CPU_PROGRAMS\((\d+), (\d+), (\d+), (\d+), (\d+), (\d+)\)$", re.MULTILINE
)
KERNEL = re.compile(r'^DTR_CPU_PROGRAM_KERNEL\("([^"]+)"\)$', re.MULTILINE)


def bounds(error):
    """Percent of the estimate by which a count may be below it and above it, rounded up; never both
    0, which says that nothing was counted."""
    below, above = (max(0, math.ceil(100 * part - 1e-9)) for part in (-error[0], error[1]))
    return [below, max(above, 1)] if below == 0 else [below, above]


def error_rows(bench):
    """{kernel: [below, above on a Cortex-M33, below, above on a Cortex-M55]} of what was counted."""
    rows = {}
    for (kernel, core), error in bench.errors.items():
        at = 2 * CORES.index(core)
        rows.setdefault(kernel, [0, 0, 0, 0])[at : at + 2] = bounds(error)
    return dict(sorted(rows.items()))


def sum_row(bench):
    """Bounds of whole programs on a Cortex-M33 and on a Cortex-M55, their fewest and most MACs."""
    return [
        *(percent for core in CORES for percent in bounds(bench.sums[core])),
        *bench.sums[f"{CORES[0]} MACs"],
    ]


def is_within(says, counted, all_ran, noise=0):
    """A stated error is at least the counted one but for noise, and not far above it."""
    return all(
        is_ <= said + noise and (not all_ran or said <= is_ + SLACK)
        for said, is_ in zip(says, counted)
    )


def check_errors(bench, all_ran, update):
    """Of layers and of whole programs, against compiler/targets/cpu_errors.inc. Without all models a
    stated error may be that of one that is not here."""
    text, counted, sums = ERRORS.read_text(), error_rows(bench), sum_row(bench)
    if update and all_ran:
        rows = [
            f'DTR_CPU_ERROR("{kernel}", {", ".join(map(str, row))})'
            for kernel, row in counted.items()
        ]
        rows.append(f'DTR_CPU_PROGRAMS({", ".join(map(str, sums))})')
        rows += [f'DTR_CPU_PROGRAM_KERNEL("{kernel}")' for kernel in sorted(bench.kernels)]
        ERRORS.write_text(text[: text.index("\nDTR_CPU_") + 1] + "\n".join(rows) + "\n")
        return
    stated = {kernel: list(map(int, percents)) for kernel, *percents in ROW.findall(text)}
    for kernel in sorted({*stated, *counted}):
        says, is_ = (rows.get(kernel, [0, 0, 0, 0]) for rows in (stated, counted))
        # A small kernel's count differs by a few instructions from run to run.
        of_graphs = kernel in bench.of_graphs
        if not is_within(says, is_, all_ran and not of_graphs, SLACK if of_graphs else 0):
            bench.failures.append(
                f"{kernel}: counts are {is_} % below and above estimates on {CORES[0]} and"
                f" {CORES[1]}, compiler/targets/cpu_errors.inc says {says}; --update-errors"
            )
    says = [int(number) for number in PROGRAMS.search(text).groups()]
    if not is_within(says[:4], sums[:4], True) or says[4:] != sums[4:]:
        bench.failures.append(
            f"whole programs: {sums}, compiler/targets/cpu_errors.inc says {says}; --update-errors"
        )
    if KERNEL.findall(text) != sorted(bench.kernels):
        bench.failures.append(
            f"whole programs run {sorted(bench.kernels)}, not what compiler/targets/cpu_errors.inc"
            " says; --update-errors"
        )


def check(bench, update):
    recorded = json.loads(RECORD.read_text())["cortex_m"]["layers"]
    for model in MODELS:
        for core, layers in bench.counts(model).items():
            before = recorded[model][core]
            error = estimate_error(layers)
            print(
                f"{model} on {core}: {total(layers):,} instructions (recorded {total(before):,}),"
                f" estimated {error:+.0%}"
            )
            if abs(error) > ESTIMATE:
                bench.failures.append(
                    f"{model} on {core}: the compiler's estimate is {error:+.0%} off; its constants"
                    " are in compiler/backends/cortex_m"
                )
            if [known(layer) for layer in layers] != [known(layer) for layer in before]:
                bench.failures.append(
                    f"{model} on {core}: operators, kernels, MACs or estimates are not those"
                    " recorded; if that is meant: make bench"
                )
                continue
            for layer, then in zip(layers, before):
                if not same_count(layer["instructions"], then["instructions"]):
                    bench.failures.append(
                        f"{model} on {core}, {layer['name']}:"
                        f" {layer['instructions']:,} instructions instead of"
                        f" {then['instructions']:,}; if that is meant: make bench"
                    )
    for model in FLOAT_BORDERS:
        bench.layers(model, "imxrt700", *bench.graph(model))
    # The graphs above ran on the boards of both cores already; the float kws_dscnn averages with
    # another kernel.
    own = {
        "digits_cnn": (*CORES, "imxrt700cm"),
        "digits_transformer": (*CORES, "imxrt700cm"),
        "kws_dscnn": (*CORES, "imxrt700cm"),
        **{model: ("imxrt700cm",) for model in MODELS[1:3]},
    }
    ran = [model for model, boards in own.items() if check_own_weights(bench, model, boards)]
    print(
        f"{len(ran)} of {len(own)} models with their own weights give the same bytes on every"
        f" target: {', '.join(ran)}"
    )
    for model in own:
        if model not in ran:
            print(f"NOT RUN: e2e_cortex_m: {model} with its own weights (no DEUTERON_SHARED)")
    check_float_kernels(bench, update)
    check_errors(bench, len(ran) == len(own), update)


# ---- page


def with_peer(layers, peers):
    """Each layer beside the first peer of its kind and MACs that is left; both in the order of the
    model."""
    left = [dict(peer) for peer in peers]
    for layer in kernel_layers(layers):
        peer = next(
            p
            for p in left
            if p["kind"] == KINDS[layer["kernel"]]
            and p["count"] > 0
            and p["macs"] in (0, layer["macs"])
        )
        peer["count"] -= 1
        yield layer, peer


def model_table(counts, peers):
    rows = []
    for (m33, peer), m55 in zip(
        with_peer(counts["cortex-m33"], peers), kernel_layers(counts["cortex-m55"])
    ):
        figures = []
        for core, layer in zip(CORES, (m33, m55)):
            figures += [
                f"{layer['instructions']:,}",
                f"{peer[core]:,}",
                ratio(layer["instructions"], peer[core]),
            ]
        rows.append([m33["name"], peer["layer"], *figures])
    return table(
        ["operator", "layer", "M33", "CMSIS-NN", "ratio", "M55", "CMSIS-NN", "ratio"], rows, 2
    )


def text_bytes(bench, model, core):
    """Bytes of code and tables in the image, by source file of ours and by library: from the
    linker's map."""
    program, _ = bench.compile(*[bench.graph(model)[0], core], ())
    project = bench.work / f"{model}_{core}"
    run(
        bench.deuteron,
        "firmware",
        program,
        "--board",
        {"cortex-m33": "qemu-an505", "cortex-m55": "qemu-an547"}[core],
        "-o",
        project,
    )
    device_project.build(run, project)
    linked = (project / "build/firmware.map").read_text().split("Linker script and memory map")[1]
    files, libraries = {}, {}
    for size, place in re.findall(
        r"^ \.(?:text|rodata)\S*\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S+)$", linked, re.MULTILINE
    ):
        library, file = re.search(r"([^/]*?)(?:\(([^)]*)\))?$", place).groups()
        libraries[library] = libraries.get(library, 0) + int(size, 16)
        if library == "libkernels.a":
            file = file.removesuffix(".obj")
            files[file] = files.get(file, 0) + int(size, 16)
    return files, libraries


def code_bytes(bench):
    """{family: {core: bytes}}, and the libraries of kws_dscnn on a Cortex-M33."""
    sizes = {
        (model, core): text_bytes(bench, model, core)
        for model in ("kws_dscnn", "ic_resnet8")
        for core in CORES
    }
    found = {}
    for name, files in FAMILIES.items():
        model = "ic_resnet8" if name == "add" else "kws_dscnn"
        found[name] = {
            core: sum(sizes[model, core][0].get(file, 0) for file in files) for core in CORES
        }
    found[EVERY_FAMILY] = {core: sizes["kws_dscnn", core][1]["libkernels.a"] for core in CORES}
    return found


def measure(bench):
    return {
        "layers": {model: bench.counts(model) for model in MODELS},
        "code_bytes": code_bytes(bench),
    }


def section(measured):
    peers, counts = json.loads((ROOT / "bench/cmsis_nn.json").read_text()), measured["layers"]
    rows = []
    for model in MODELS:
        row = [model]
        for core in CORES:
            ours, theirs = total(counts[model][core]), sum(
                peer["count"] * peer[core] for peer in peers["models"][model]
            )
            row += [
                f"{ours:,}",
                f"{theirs:,}",
                ratio(ours, theirs),
                f"{estimate_error(counts[model][core]):+.0%}",
            ]
        rows.append(row)
    head = [
        "model",
        "M33 with DSP",
        "CMSIS-NN",
        "ratio",
        "estimate",
        "M55 with MVE",
        "CMSIS-NN",
        "ratio",
        "estimate",
    ]
    sizes = [
        [
            name,
            *(
                cell
                for core in CORES
                for cell in (
                    f"{ours[core]:,}",
                    f"{peers['code_bytes'][name][core]:,}" if name in peers["code_bytes"] else "–",
                )
            ),
        ]
        for name, ours in measured["code_bytes"].items()
    ]
    layers = "\n\n".join(
        f"### {model} on a Cortex-M\n\n{model_table(counts[model], peers['models'][model])}"
        for model in MODELS
    )
    return f"""## Cortex-M

Executed instructions of one inference under QEMU (`-icount shift=0`; `bench/cortex_m.py`), beside CMSIS-NN's at -O3 measured the same way
(`bench/cmsis_nn.json`). They are no cycles: every instruction counts as one, whatever it takes. Kernels alone: steps between float and int8, and views, are
left out on our side, the interpreter and kernel sums made in advance on theirs. Goal: ≤ 1.0× per model. *estimate*: how far the compiler's cycles
([targets.md](targets.md)) are from the count.

{table(head, rows)}

Bytes of code and tables in the image, ours as a firmware project builds them (kernels -O2), theirs at -O2. Families share helpers, so theirs do not add up.
All of kws_dscnn are the kernels of its quantized graph, which averages with a pool; those of *Firmware* above are of the float model, which averages with a sum.

{table(["family", "M33", "CMSIS-NN", "M55", "CMSIS-NN"], sizes)}

{layers}
"""


def main():
    deuteron = Path(sys.argv[1]).resolve()
    use_ccache()
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(deuteron, Path(temporary))
        check(bench, update="--update-errors" in sys.argv[2:])
    for failure in bench.failures:
        print(f"FAILED {failure}")
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
