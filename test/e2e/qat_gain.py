#!/usr/bin/env python3
"""The example of docs/quantization.md that gains accuracy by training with quantization: the exports
in test/data/qat that python/examples/qat_narrow.py wrote, by default, with --accuracy auto and
trained, against the table of the page. Nothing is calibrated for the trained one, whose figures are
the page's; ranges of the others depend on the processor, and with them a few images. Standard
library only.

    qat_gain.py DEUTERON
"""
import re
import sys
import tempfile
from pathlib import Path

from checks import expect, failures, finish, judged

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/quantization.md"
MODEL = ROOT / "models/digits_cnn"
IMAGES = 540
POINTS = 0.5  # that default and auto lose at least
ROW = re.compile(r"^\| (float|default|auto|trained) \| ([\d.]+) \|(?: ([\d,]+))? \|", re.MULTILINE)


def main():
    deuteron = Path(sys.argv[1]).resolve()
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
            slack = 0 if way == "trained" else 3 / IMAGES
            expect(abs(right - page) <= slack + 1e-4, f"{way}: {right}, on the page {page}")
            if way != "auto":
                expect(f"{cycles:,}" == page_cycles, f"{way}: {cycles:,} cycles, {page_cycles}")
            found[way] = right
    loses = {way: 100 * (real - right) for way, right in found.items()}
    expect(min(loses["default"], loses["auto"]) > POINTS, f"points lost: {loses}")
    expect(loses["trained"] < min(loses["default"], loses["auto"]), f"points lost: {loses}")
    finish(failures)


if __name__ == "__main__":
    main()
