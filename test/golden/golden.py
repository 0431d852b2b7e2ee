#!/usr/bin/env python3
"""Arena bytes, cycles and artefact bytes per model, exact, compiled from committed quantized
graphs. Standard library only.

    golden.py DEUTERON                    compare with golden.json; exit code 1 on any difference
    golden.py DEUTERON --update           write golden.json (make golden): the diff shows what a
                                          change costs or gains
    golden.py DEUTERON --graphs FOLDER    write the graphs anew from
                                          FOLDER/<model>/{float.pt2,calibration.npz}

The graphs hold seeded constants instead of weights: costs depend on shapes alone, and nothing here
depends on a float library.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
GOLDEN = HERE / "golden.json"
MODELS = ("digits_cnn", "kws_dscnn", "ic_resnet8", "vww_mobilenetv1", "ad_fcae", "mobilenet_v2")


def run(*command):
    done = subprocess.run(
        [str(part) for part in command], text=True, stdin=subprocess.DEVNULL, capture_output=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def figures(deuteron, work):
    result = {}
    for graph in sorted(HERE.glob("*.ir")):
        report = work / "report.json"
        run(deuteron, "compile", graph, "-o", work / "out.pte", "--report-json", report)
        r = json.loads(report.read_text())
        result[graph.stem] = {
            "arena_bytes": r["sram"]["total_bytes"],
            "value_bytes": r["sram"]["planned_bytes"],
            "live_bound_bytes": r["sram"]["live_bound_bytes"],
            "flash_bytes": r["flash_bytes"],
            "program_bytes": r["program_bytes"],
            "calls": r["npu_calls"],
            "busy_cycles": r["npu_busy_cycles"],
            "host_cycles": r["npu_host_cycles"],
            "stall_cycles": r["npu_stall_cycles"],
            "total_cycles": r["npu_total_cycles"],
        }
    return result


def main():
    deuteron = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if sys.argv[2:3] == ["--graphs"]:
            for model in MODELS:
                source = Path(sys.argv[3]) / model
                run(
                    deuteron,
                    "compile",
                    source / "float.pt2",
                    "--calibrate",
                    source / "calibration.npz",
                    "-o",
                    work / "out.pte",
                    "--emit-ir",
                    HERE / f"{model}.ir",
                    "--elide-constants",
                )
            return
        now = figures(deuteron, work)
    if sys.argv[2:3] == ["--update"]:
        GOLDEN.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
        return
    golden = json.loads(GOLDEN.read_text())
    different = [
        f"{model} {key}: {golden.get(model, {}).get(key)} -> {value}"
        for model, row in now.items()
        for key, value in row.items()
        if golden.get(model, {}).get(key) != value
    ]
    different += [f"{model}: no graph" for model in golden if model not in now]
    print("\n".join(different) if different else f"{len(now)} models as in golden.json")
    if different:
        sys.exit("If the change is meant: make golden, and say why in the commit.")


if __name__ == "__main__":
    main()
