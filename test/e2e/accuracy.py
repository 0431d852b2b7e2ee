#!/usr/bin/env python3
"""Hard models of test/data/accuracy, compiled by default and with --accuracy auto: SQNR of both
against PyTorch's outputs on samples that neither saw, at most 1 dB below what was measured.
Standard library only.

    accuracy.py DEUTERON [--print]
"""
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from checks import finish

DATA = Path(__file__).resolve().parents[1] / "data/accuracy"
# Name: dB of the default and of auto.
MEASURED = {
    "autoencoder": (5.6, 99),
    "cat": (1.6, 34.7),
    "conformer": (10.6, 40.9),
    "curved": (0.0, 22.3),
    "depthwise": (7.6, 40.5),
    "detector": (48.6, 48.6),
    "gru": (33.5, 99),
    "lstm": (29.2, 99),
    "mobilenet_v3": (3.5, 31.9),
    "regression": (9.8, 99),
    "relu6": (2.9, 33.7),
    "super_resolution": (46.5, 46.4),
    "transformer": (15.1, 29.1),
    "vit": (8.2, 23.7),
}
failures = []


def run(*command):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True)
    if done.returncode != 0:
        failures.append(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def test_samples(name, folder):
    """The samples to test on: `test` under the name `input`, with the other arrays."""
    path = Path(folder) / f"{name}.npz"
    with zipfile.ZipFile(DATA / f"{name}.npz") as given, zipfile.ZipFile(path, "w") as taken:
        for array in given.namelist():
            if array != "input.npy":
                taken.writestr(array.replace("test.npy", "input.npy"), given.read(array))
    return path


def evaluate(deuteron, name, folder, *options):
    program = Path(folder) / f"{name}.pte"
    report = Path(folder) / f"{name}.json"
    run(
        deuteron, "compile", DATA / f"{name}.pt2", "--calibrate", DATA / f"{name}.npz",
        "--report-json", report, "-o", program, "--min-sqnr", -99, *options,
    )  # fmt: skip
    text = run(deuteron, "eval", program, "--data", test_samples(name, folder))
    decibels = re.search(r"SQNR against the float model +([\d.-]+)", text)
    accuracy = re.search(r"accuracy of the (?:int8 )?program +([\d.]+)", text)
    real = re.search(r"accuracy of the float model +([\d.]+)", text)
    figures = json.loads(report.read_text())
    steps = figures.get("accuracy", {}).get("steps", [])
    return {
        "sqnr": float(decibels[1]) if decibels else -99,
        "accuracy": accuracy[1] if accuracy else "",
        "float accuracy": real[1] if real else "",
        "cycles": figures.get("total_cycles", 0),
        "steps": [step["name"] for step in steps if step["verdict"] == "kept"],
    }


def main():
    deuteron = Path(sys.argv[1]).resolve()
    names = sorted(path.stem for path in DATA.glob("*.pt2"))
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            default = evaluate(deuteron, name, folder)
            auto = evaluate(deuteron, name, folder, "--accuracy", "auto", "--seconds", 600)
            if "--print" in sys.argv:
                print(name, default, auto, flush=True)
                continue
            least_default, least_auto = MEASURED[name]
            for kind, figures, measured in (
                ("default", default, least_default),
                ("auto", auto, least_auto),
            ):
                if figures["sqnr"] < measured - 1:
                    failures.append(f"{name}, {kind}: {figures['sqnr']} dB, measured {measured}")
            print(f"{name}: {default['sqnr']:.1f} → {auto['sqnr']:.1f} dB")
    finish(failures)


if __name__ == "__main__":
    main()
