#!/usr/bin/env python3
"""Eight networks within budgets of SRAM, on three machines: all of what the program without a
budget takes, a half and a quarter of it, and the smallest that is found. The simulator's high-water
mark is at most the budget, and the outputs are the same bytes at every budget on every machine:
those of the int8 kernels of a Cortex-M. Standard library only.

    sram.py DEUTERON [NETWORK…]
"""
import json
import random
import re
import sys
import tempfile
from pathlib import Path

from checks import failures, finish, run
from sram_networks import NETWORKS

MACHINES = ("imxrt700", "mcxn947", "imx95")
PERCENT = (50, 25)
# Bytes of the smallest programs on imxrt700: more are a loss.
MOST = {
    "three_resolutions": 143_696,
    "u_net": 144_192,
    "large_tensor": 366_512,
    "dense_net": 74_048,
    "inverted_residuals": 107_392,
    "sequence": 35_928,
    "attention": 70_720,
    "gates": 68_352,
}


def check(name, true, what):
    if not true:
        failures.append(f"{name}: {what}")


class Network:
    def __init__(self, deuteron, name, work):
        self.deuteron, self.name, self.work = deuteron, name, work
        self.model, self.input = work / f"{name}.ir", work / f"{name}.bin"
        text = NETWORKS[name]()
        self.model.write_text(text)
        extents = [int(e) for e in re.search(r"i8\[([0-9,]+)\]", text).group(1).split(",")]
        size = 1
        for extent in extents:
            size *= extent
        self.input.write_bytes(random.Random(7).randbytes(size))
        self.outputs = None
        self.compile("cortex-m33")
        self.outputs = self.run()[0]
        check(name, len(set(self.outputs)) > 2, "the output says nothing")

    def compile(self, machine, *options, code=0):
        said = run(
            self.deuteron, "compile", self.model, "--io", "int8", "--target", machine, "-o",
            self.work / "m.pte", "--report-json", self.work / "m.json", *options, code=code,
        )  # fmt: skip
        return said if code else json.loads((self.work / "m.json").read_text())

    def run(self):
        """The program that was compiled: its output and what it counted."""
        output, stats = self.work / "y.bin", self.work / "stats.json"
        run(
            self.deuteron, "run", self.work / "m.pte", "--input", self.input, "--output", output,
            "--stats-json", stats,
        )  # fmt: skip
        return output.read_bytes(), json.loads(stats.read_text())

    def judge(self, label, report, budget):
        output, stats = self.run()
        touched = stats["sram_touched_bytes"]
        total = report["sram"]["total_bytes"]
        check(label, touched == total, f"{touched} bytes touched, {total} reported")
        check(label, total <= budget, f"{total} bytes of SRAM, the budget is {budget}")
        parts = report["sram"]["planned_bytes"] + report["sram"]["staging_bytes"]
        check(label, parts == total, f"activations and staged weights are {parts} of {total} bytes")
        check(label, output == self.outputs, "other outputs")
        on_npu = all(row["backend"] == "neutron" for row in report["operators"])
        print(
            f"{label}: {total:,} bytes, {report['npu_total_cycles']:,} cycles"
            f"{'' if on_npu else ' of the NPU, an operator is on the CPU'}",
            flush=True,
        )
        return total


def main():
    deuteron, names = sys.argv[1], sys.argv[2:] or NETWORKS
    for name in names:
        with tempfile.TemporaryDirectory() as work:
            network = Network(deuteron, name, Path(work))
            for machine in MACHINES:
                label = f"{name} on {machine}"
                report = network.compile(machine)
                default = network.judge(label, report, report["sram"]["target_bytes"])
                report = network.compile(machine, "--optimize", "size")
                smallest = network.judge(f"{label}, smallest", report, default)
                if machine == MACHINES[0]:
                    check(label, smallest <= MOST[name], f"the smallest takes {smallest:,} bytes")
                for percent in PERCENT:
                    budget = default * percent // 100
                    at = f"{label}, {percent} %"
                    if smallest <= budget:
                        network.judge(at, network.compile(machine, "--sram", budget), budget)
                        continue
                    said = network.compile(machine, "--sram", budget, code=1)
                    check(
                        at,
                        "memory-exceeded" in said and f"give --sram {smallest} or more" in said,
                        said,
                    )
                    print(f"{at}: {budget:,} bytes refused, the smallest takes {smallest:,}")
    finish(failures)


if __name__ == "__main__":
    main()
