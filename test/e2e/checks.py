"""What the end-to-end tests share: failures are collected, and end the script together."""
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
from npy import npy  # noqa: E402, F401

failures = []


def run(*command, code=0, cwd=None):
    """Runs a command and returns its output; another exit code than `code` is a failure."""
    done = subprocess.run(
        list(map(str, command)), text=True, stdin=subprocess.DEVNULL, capture_output=True, cwd=cwd
    )
    if done.returncode != code:
        failures.append(
            f"{' '.join(map(str, command))}: exit code"
            f" {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}"
        )
    return done.stdout + done.stderr


def expect(holds, text):
    if not holds:
        failures.append(text)


def judged(deuteron, folder, model, data, *options):
    """Decibels, accuracy (None without labels) and cycles of the program that `compile` makes of a
    model, on the samples of `data`."""
    program, report = Path(folder) / "program.pte", Path(folder) / "report.json"
    run(
        deuteron, "compile", model, "--report-json", report, "-o", program, "--min-sqnr", -99,
        *options,
    )  # fmt: skip
    text = run(deuteron, "eval", program, "--data", data)
    decibels = re.search(r"SQNR against the float model +([\d.-]+)", text)
    accuracy = re.search(r"accuracy of the (?:int8 )?program +([\d.]+)", text)
    return {
        "db": float(decibels[1]) if decibels else -99,
        "accuracy": float(accuracy[1]) if accuracy else None,
        "cycles": json.loads(report.read_text())["total_cycles"],
    }


def sampled(cases):
    """One in DEUTERON_ONE_IN of the cases, where ctest sets that; else all."""
    return cases[:: int(os.environ.get("DEUTERON_ONE_IN", 1))]


def data_of(npz, name):
    """The bytes of a stored array, without its header."""
    npy = zipfile.ZipFile(npz).read(name)
    return npy[10 + int.from_bytes(npy[8:10], "little") :]


def finish(failures):
    """Prints each failure and their number; the exit code is 1 if there is any."""
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)
