#!/usr/bin/env python3
"""What placement prints, against programs: the bound on what operators on the CPU cost too much,
against the CPU's cycles of the program that has them on the NPU; the cycles of `costs-more`,
against the program where the operators are forced there. Standard library only.

    placement_bound.py DEUTERON
"""
import json
import re
import sys
import tempfile
from pathlib import Path

from checks import failures, finish, run

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "models"
# Operators that the NPU would run, one by one and together.
KEPT_OFF = {
    "digits_cnn": [
        ["op:max_pool2d"],
        ["op:hardswish"],
        ["op:linear"],
        ["op:max_pool2d", "op:hardswish"],
        ["op:conv2d"],
        ["op:relu"],
    ],
    "ic_resnet8": [["op:avg_pool2d"], ["op:softmax"], ["op:add"], ["op:avg_pool2d", "op:add"]],
    "kws_dscnn": [["op:avg_pool2d"], ["op:softmax"], ["op:linear"]],
}


def compiled(deuteron, folder, model, *options):
    """The report of a program as JSON."""
    report = folder / "report.json"
    run(deuteron, "compile", model, "-o", folder / "x.pte", "--report-json", report, *options)
    return json.loads(report.read_text())


def main():
    deuteron = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for network, lists in KEPT_OFF.items():
            model = MODELS / network / "float.pt2"
            calibrate = ["--calibrate", MODELS / network / "calibration.npz"]
            whole = compiled(deuteron, folder, model, *calibrate)
            for names in lists:
                options = [part for each in names for part in ("--keep-off", each)]
                without = compiled(deuteron, folder, model, *calibrate, *options)
                saved = without["cpu_cycles"] - whole["cpu_cycles"]
                bound = sum(row["cycles_lost"] for row in without["refusals"])
                # The least that the NPU needs for these is far below 1 % of what the CPU does.
                if not 0 <= saved - bound <= max(32, saved / 200):
                    failures.append(f"{network} without {names}: {saved} cycles, bound {bound}")

        # Three operators behind one without quantization take, where they are forced, what was said:
        # on a machine whose CPU is fast enough for them.
        model, machine = MODELS / "digits_cnn/quantized.pt2", folder / "machine.json"
        target = json.loads(run(deuteron, "targets", "--json", "imxrt700"))
        target["name"], target["cpu"]["float_percent"] = "fast-cpu", 45
        machine.write_text(json.dumps(target))
        chosen = compiled(deuteron, folder, model, "--target", machine)
        forced = compiled(deuteron, folder, model, "--target", machine, "--force-on", "all")
        said = {
            tuple(int(number.replace(",", "")) for number in found)
            for row in chosen["refusals"]
            for found in re.findall(r"costs ([\d,]+) cycles .* needs ([\d,]+)", row["value"])
        }
        npu = forced["npu_total_cycles"] - chosen["npu_total_cycles"]
        cpu = chosen["cpu_cycles"] - forced["cpu_cycles"]
        if said != {(npu, cpu)}:
            failures.append(f"costs-more says {said}; forced: {npu} more, {cpu} less")
    finish(failures)


main()
