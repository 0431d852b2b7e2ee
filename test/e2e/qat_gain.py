#!/usr/bin/env python3
"""The example of docs/quantization.md that gains accuracy by training with quantization: the exports
in test/data/qat that python/examples/qat_narrow.py wrote, by default, with --accuracy auto and
trained, against the table of the page. Ranges depend on the processor's instruction set, and with
them the program that the search finds: the figures are those of AVX2, which the float model is held
to here. Standard library only.

    qat_gain.py DEUTERON
"""
import os
import re
import sys
import tempfile
from pathlib import Path

from checks import expect, failures, finish, judged

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/quantization.md"
MODEL = ROOT / "models/digits_cnn"
POINTS = 0.5  # that default and auto lose at least
ROW = re.compile(r"^\| (float|default|auto|trained) \| ([\d.]+) \|(?: ([\d,]+))? \|", re.MULTILINE)


def main():
    deuteron = Path(sys.argv[1]).resolve()
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"
    rows = {name: (float(right), cycles) for name, right, cycles in ROW.findall(PAGE.read_text())}
    real = rows["float"][0]
    data = ("--calibrate", MODEL / "calibration.npz")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for way, model, options in (
            ("default", "narrow", data),
            ("auto", "narrow", (*data, "--accuracy", "auto", "--seconds", 600)),
            ("trained", "narrow_trained", ()),
        ):
            export = ROOT / f"test/data/qat/{model}.pt2"
            figures = judged(deuteron, folder, export, MODEL / "test.npz", *options)
            right, cycles = figures["accuracy"], figures["cycles"]
            print(f"{way}: {right:.4f}, {cycles:,} cycles")
            page, page_cycles = rows[way]
            expect(abs(right - page) <= 1e-4, f"{way}: {right}, on the page {page}")
            expect(f"{cycles:,}" == page_cycles, f"{way}: {cycles:,} cycles, {page_cycles}")
            found[way] = right
    loses = {way: 100 * (real - right) for way, right in found.items()}
    expect(min(loses["default"], loses["auto"]) > POINTS, f"points lost: {loses}")
    expect(loses["trained"] < min(loses["default"], loses["auto"]), f"points lost: {loses}")
    finish(failures)


if __name__ == "__main__":
    main()
