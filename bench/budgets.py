#!/usr/bin/env python3
"""What less SRAM costs, and what Deuteron's schedule gains over the one for comparison: the tables
of docs/memory.md and docs/npu.md 7 between two marks each, of the graphs in test/golden. Standard
library only.

    bench/budgets.py [--deuteron build/release/deuteron] [--check]     --check: exit code 1 if a
    page says otherwise
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from calibrate import cifar_net
from tables import ratio, table, verdict

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- Written by bench/budgets.py: begin -->\n", "<!-- bench/budgets.py: end -->\n"
MACHINES = ("imxrt700", "mcxn947", "imx95")
# Bytes of Arm's Vela 5.2, optimized for size and for speed (../shared/hardware.md); goals at the
# speed of the fastest program, 1 % more cycles allowed, and of the smallest.
MODELS = {
    "kws_dscnn": ("16,000 / 22,192", 20_000, 14_000),
    "ic_resnet8": ("35,840 / 51,840", 48_000, 24_000),
    "vww_mobilenetv1": ("49,152 / 74,480", 70_000, 36_000),
    "ad_fcae": ("–", 40_000, 8_000),
    "mobilenet_v2": ("–", 1_400_000, 400_000),
}
COMPARED = ("CIFARNet", "kws_dscnn", "ic_resnet8", "vww_mobilenetv1", "ad_fcae", "mobilenet_v2")
SHARES = (100, 50, 25)


class Compiler:
    def __init__(self, deuteron, work):
        self.deuteron, self.work = deuteron, work

    def report(self, model, *options):
        path = ROOT / f"test/golden/{model}.ir"
        if model == "CIFARNet":
            path = self.work / "cifar_net.ir"
            path.write_text(cifar_net().finish())
        command = [
            self.deuteron, "compile", path, "--io", "int8",
            "-o", self.work / "m.pte", "--report-json", self.work / "m.json", *options,
        ]  # fmt: skip
        done = subprocess.run(
            list(map(str, command)), text=True, stdin=subprocess.DEVNULL, capture_output=True
        )
        if done.returncode:
            return None
        return json.loads((self.work / "m.json").read_text())


def cycles(report):
    return report["npu_total_cycles"] + report["cpu_cycles"]


def bytes_of(report):
    return report["sram"]["total_bytes"]


def budgets(compiler):
    rows, curves = [], []
    for model, (vela, at_speed, at_smallest) in MODELS.items():
        fastest = compiler.report(model)
        same = compiler.report(model, "--optimize", "balance")
        least = compiler.report(model, "--optimize", "size")
        rows.append(
            [
                model,
                f"{bytes_of(fastest):,}",
                f"{cycles(fastest):,}",
                f"{bytes_of(same):,}",
                ratio(cycles(same), cycles(fastest)),
                f"{at_speed:,}",
                verdict(bytes_of(same) <= at_speed),
                f"{bytes_of(least):,}",
                ratio(cycles(least), cycles(fastest)),
                f"{at_smallest:,}",
                verdict(bytes_of(least) <= at_smallest),
                vela,
            ]
        )
        for machine in MACHINES:
            whole = compiler.report(model, "--target", machine)
            row = [model, machine, f"{bytes_of(whole):,}", f"{cycles(whole):,}"]
            for share in SHARES[1:]:
                made = compiler.report(
                    model, "--target", machine, "--sram", bytes_of(whole) * share // 100
                )
                row.append(ratio(cycles(made), cycles(whole)) if made else "–")
            curves.append(row)
    head = [
        "model", "bytes, fastest", "cycles", "bytes at ≤ 1 % more", "cycles", "goal", "met",
        "bytes, smallest", "cycles", "goal", "met", "Vela, size / speed",
    ]  # fmt: skip
    curve_head = ["model", "machine", "bytes", "cycles", *(f"{share} %" for share in SHARES[1:])]
    return f"""int8 inputs and outputs, imxrt700. Cycles of the NPU, its host and its waits, as multiples of the fastest program.

{table(head, rows)}

Budgets in percent of what the program without one takes, and the cycles of the fastest program that is found within them (–: none is):

{table(curve_head, curves, 2)}
"""


def schedules(compiler):
    rows = []
    for model in COMPARED:
        for machine in MACHINES:
            own = compiler.report(model, "--target", machine)
            theirs = compiler.report(model, "--target", machine, "--schedule", "nxp-like")
            if theirs is None or own is None:
                continue
            rows.append(
                [
                    model,
                    machine,
                    own["npu_calls"],
                    theirs["npu_calls"],
                    f"{own['npu_busy_cycles']:,}",
                    f"{own['npu_host_cycles']:,}",
                    f"{own['npu_stall_cycles']:,}",
                    f"{own['npu_total_cycles']:,}",
                    f"{theirs['npu_total_cycles']:,}",
                    ratio(own["npu_total_cycles"], theirs["npu_total_cycles"]),
                ]
            )
    head = [
        "model", "machine", "calls", "compared", "busy", "host", "waiting", "total", "compared", "ratio",
    ]  # fmt: skip
    return table(head, rows, 2) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--deuteron", type=Path, default=ROOT / "build/release/deuteron")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(options.deuteron, Path(folder))
        for path, write in (("docs/memory.md", budgets), ("docs/npu.md", schedules)):
            page = (ROOT / path).read_text()
            made = BEGIN + write(compiler) + END
            new = page[: page.index(BEGIN)] + made + page[page.index(END) + len(END) :]
            print(made, end="")
            if not options.check:
                (ROOT / path).write_text(new)
            elif new != page:
                print(f"{path}: the tables of bench/budgets.py are out of date")
                wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
