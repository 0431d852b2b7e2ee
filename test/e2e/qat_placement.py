#!/usr/bin/env python3
"""Quantization-aware training reaches the placement of quantization after training: every float
model of the conformance set is compiled with --calibrate, and once more from what `qat-prepare`
makes of it. The same nodes of the file must run on the NPU, with the same multiplications in as
many partitions. Standard library only.

    qat_placement.py DEUTERON

Cases are those of $DEUTERON_SHARED/conformance, or the committed ones.
"""
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from checks import finish, sampled

ROOT = Path(__file__).resolve().parents[2]


def run(*command):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True)


def placement(report):
    """Nodes on the NPU, and multiply-accumulates there; a node may be several kernel calls."""
    nodes, macs = set(), 0
    for row in json.loads(report.read_text())["operators"]:
        if row["backend"] == "neutron":
            nodes.update(row["name"].split(" + "))
            macs += row["macs"]
    return nodes, macs


def judge(deuteron, case):
    """What differs; an empty text: nothing."""
    model, data = case / "float.pt2", case / "calibration.npz"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepared = folder / "prepared.pt2"
        reports = folder / "after.json", folder / "training.json"
        common = ["--calibrate", data, "--no-check", "-o", folder / "program.pte"]
        done = run(deuteron, "compile", model, *common, "--report-json", reports[0])
        if done.returncode != 0:
            return ""  # the conformance test judges refusals
        done = run(deuteron, "qat-prepare", model, "--calibrate", data, "-o", prepared)
        if done.returncode != 0:
            return f"qat-prepare: {done.stderr.strip()}"
        notes = [line for line in done.stdout.splitlines() if line.startswith("note: ")]
        done = run(deuteron, "compile", prepared, *common, "--report-json", reports[1])
        if done.returncode != 0:
            return f"compile: {done.stderr.strip()}"
        (nodes, macs), (trained, trained_macs) = map(placement, reports)
        # `qat-prepare` spells divisions by constants and some `addmm` as a product.
        missing = sorted(
            node for node in nodes if not {node, f"{node}_product"}.intersection(trained)
        )
        if not missing and macs == trained_macs:
            return ""
        return f"not on the NPU: {missing}, {trained_macs} of {macs} MACs there; {notes}"


def main():
    deuteron = Path(sys.argv[1]).resolve()
    cases = Path(os.environ.get("DEUTERON_SHARED") or ROOT.parent / "shared") / "conformance"
    if not cases.is_dir():
        cases = ROOT / "test/data/conformance"
        print("NOT RUN: e2e_qat_placement: most conformance cases (no DEUTERON_SHARED)")
    every = sorted(path.parent for path in cases.glob("*/float.pt2"))
    folders = sampled(every)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        judged = list(pool.map(lambda case: judge(deuteron, case), folders))
    failures = [f"{case.name}: {text}" for case, text in zip(folders, judged) if text]
    if len(every) < 50:
        failures.append(f"only {len(every)} cases in {cases}")
    print(f"{sum(1 for text in judged if not text)} of {len(folders)} cases")
    finish(failures)


if __name__ == "__main__":
    main()
